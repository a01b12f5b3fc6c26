# SPDX-License-Identifier: GPL-2.0
"""TLS for clients that speak none, for cached-tls.sh: cached_tls.py SOCKET PORT CA [CERTIFICATE].

Listens on the unix socket SOCKET, and passes each connection on to localhost:PORT, over TLS.
"""

import asyncio
import ssl
import sys

PIECE = 65536


async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    """Passes bytes on until either side is gone."""
    try:
        while data := await source.read(PIECE):
            to.write(data)
            await to.drain()
    except OSError:
        pass
    finally:
        to.close()


async def serve(path: str, port: int, context: ssl.SSLContext) -> None:
    async def connected(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        try:
            far_source, far = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        except OSError as error:
            print(error, file=sys.stderr)
            to.close()
            return
        await asyncio.gather(copy(source, far), copy(far_source, to))

    server = await asyncio.start_unix_server(connected, path)
    await server.serve_forever()


def main() -> None:
    path, port, authority = sys.argv[1:4]
    context = ssl.create_default_context(cafile=authority)
    if len(sys.argv) > 4:
        context.load_cert_chain(sys.argv[4])
    asyncio.run(serve(path, int(port), context))


main()
