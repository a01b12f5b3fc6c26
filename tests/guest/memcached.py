# SPDX-License-Identifier: GPL-2.0
"""A client of memcached, for memcached.sh: memcached.py SOCKET ITEMS SEED.

Sets, gets and deletes items in batches, and knows what each of them has to be. Prints what it has counted;
fails at the first value that is wrong.
"""

import random
import socket
import sys
import time
from typing import Optional

BATCH = 32
GETS = 30		# of a mix with so many sets
SETS = 4
DELETES = 1
LONG = 16		# one of so many items has several chunks
SHORT_BYTES = 2000
LONG_BYTES = 20000
WAIT = 60.0


class Client:
    """A connection, and the version of each item that was set; None: deleted."""

    def __init__(self, path: str, seed: int) -> None:
        self._socket = _connect(path)
        self._answers = self._socket.makefile("rb")
        self._seed = seed
        self._sets = 0
        self.versions: dict[int, Optional[int]] = {}
        self.hits = 0
        self.misses = 0

    def _value(self, item: int, version: int) -> bytes:
        source = random.Random(f"{self._seed} {item} {version}")
        most = SHORT_BYTES if item % LONG else LONG_BYTES
        return source.randbytes(source.randint(0, most))

    def _expect(self, wanted: bytes) -> None:
        line = self._answers.readline()
        if line != wanted + b"\r\n":
            sys.exit(f"memcached said {line!r} for {wanted!r}")

    def set(self, items: list[int]) -> None:
        """Sets items to new values."""
        request = b""
        for item in items:
            self._sets += 1
            version = self.versions[item] = self._sets
            value = self._value(item, version)
            request += b"set %d %d 0 %d\r\n%b\r\n" % (item, version, len(value), value)
        self._socket.sendall(request)
        for _ in items:
            self._expect(b"STORED")

    def get(self, items: list[int]) -> None:
        """Gets items, and compares them."""
        self._socket.sendall(b"get %b\r\n" % b" ".join(b"%d" % item for item in items))
        for item in items:
            version = self.versions.get(item)
            if version is None:
                self.misses += 1
                continue
            value = self._value(item, version)
            self._expect(b"VALUE %d %d %d" % (item, version, len(value)))
            if self._answers.read(len(value)) != value:
                sys.exit(f"item {item} is wrong")
            self._expect(b"")
            self.hits += 1
        self._expect(b"END")

    def delete(self, items: list[int]) -> None:
        """Deletes items."""
        self._socket.sendall(b"".join(b"delete %d\r\n" % item for item in items))
        for item in items:
            self._expect(b"NOT_FOUND" if self.versions.get(item) is None else b"DELETED")
            self.versions[item] = None

    def stats(self) -> dict[str, str]:
        """Counters of the server."""
        self._socket.sendall(b"stats\r\n")
        found = {}
        while (line := self._answers.readline().split())[0] == b"STAT":
            found[line[1].decode()] = b" ".join(line[2:]).decode()
        return found


def _connect(path: str) -> socket.socket:
    """Waits until the server listens."""
    end = time.monotonic() + WAIT
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
        except OSError:
            connection.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
            continue
        connection.settimeout(WAIT)
        return connection


def main() -> None:
    path, items, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    client = Client(path, seed)
    dice = random.Random(seed)
    every = [list(range(first, min(first + BATCH, items))) for first in range(0, items, BATCH)]
    for batch in every:
        client.set(batch)
    for what in dice.choices((client.get, client.set, client.delete), (GETS, SETS, DELETES), k=2 * len(every)):
        what(dice.sample(range(items), min(BATCH, items)))
    # A short mix may be without any.
    client.delete(dice.sample(range(items), min(BATCH, items)))
    for batch in every:
        client.get(batch)
    stats = client.stats()
    for name in ("hits", "misses"):
        print(name, getattr(client, name))
    print("evictions", stats["evictions"])
    print("bytes", stats["bytes"])
    print("items", stats["curr_items"])


main()
