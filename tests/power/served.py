#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The oracle of a server's items (served.c), without a guest: TAP.

The server is part of this program. It stops to answer in the middle of the load, which is killed then: what was not
acknowledged may be there or not. Faults are planted in what was acknowledged, and each must be found.
"""

import json
import os
import socketserver
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Optional

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "qemu"))

from testbed import process  # noqa: E402
from testbed.tap import Tap  # noqa: E402

ITEMS = 256
PIPELINE = 16		# SERVED_BATCH
SETS = 48 * PIPELINE	# of each connection, until the server does not answer it any more
UNDER_WAY = 4 * PIPELINE
WAIT_SECONDS = 60.0
ACKED = HERE / "build" / "acked"

Values = dict[bytes, bytes]


class Server(socketserver.ThreadingUnixStreamServer):
    """What acked needs of memcached."""

    daemon_threads = True
    request_queue_size = 16

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Connection)
        self._lock = threading.Lock()
        self.items: Values = {}
        self.older: Values = {}		# the values before these
        self.under_way: Values = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def put(self, key: bytes, value: bytes) -> None:
        """Sets an item."""
        with self._lock:
            if key in self.items:
                self.older[key] = self.items[key]
            self.items[key] = value


class Connection(socketserver.StreamRequestHandler):
    """A client of it."""

    server: Server

    def handle(self) -> None:
        self.sets = 0
        while words := self.rfile.readline().split():
            answer = self.set(words) if words[0] == b"set" else self.get(words[1:])
            self.wfile.write(answer)

    def set(self, words: list[bytes]) -> bytes:
        """A command and its data; no answer after some."""
        value = self.rfile.read(int(words[4]) + 2)[:-2]
        self.sets += 1
        if self.sets > SETS:
            self.server.under_way[words[1]] = value
            return b""
        self.server.put(words[1], value)
        return b"STORED\r\n"

    def get(self, keys: list[bytes]) -> bytes:
        """The items that are there."""
        found = [(key, self.server.items[key]) for key in keys if key in self.server.items]
        return b"".join(b"VALUE %s 0 %d\r\n%s\r\n" % (key, len(value), value) for key, value in found) + b"END\r\n"


class Oracle:
    """Runs acked."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = directory / "socket"
        (directory / "journals").mkdir()
        self.journal = directory / "journals" / "0000"
        self.journal.touch()

    def _start(self, verb: str, journal: Path, *options: str) -> "subprocess.Popen[bytes]":
        return process.spawn([str(ACKED), verb, "--server", str(self.socket), "--server-items", str(ITEMS),
                              "--state", str(self.directory / "state"), *options],
                             env={**os.environ, "LSMEM_JOURNAL": str(journal), "LSMEM_SEED": "1"},
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def load(self, server: Server) -> None:
        """Sets items until the server has stopped to answer."""
        child = self._start("load", self.journal)
        process.wait_until("sets", lambda: len(server.under_way) >= UNDER_WAY or child.poll() is not None, WAIT_SECONDS)
        process.kill_group(child)
        process.reap(child)

    def verify(self) -> tuple[Optional[int], dict[str, int]]:
        """Returns the exit code of a verification, and its report."""
        report = self.directory / "report"
        report.unlink(missing_ok=True)
        (self.directory / "state").unlink(missing_ok=True)
        child = self._start("verify", Path(os.devnull), "--journals", str(self.directory / "journals"),
                            "--report", str(report))
        code = child.wait(WAIT_SECONDS)
        return code, json.loads(report.read_text()) if report.exists() else {}


def altered(value: bytes, at: int) -> bytes:
    """@value with another byte."""
    return value[:at] + bytes((value[at] ^ 1,)) + value[at + 1:]


def check(tap: Tap, server: Server, oracle: Oracle) -> None:
    """All checks, of the items after a load."""
    good = dict(server.items)
    sure = sorted(key for key in good if key not in server.under_way and key in server.older)
    one, two = sure[0], sure[1]
    key, value = next(iter(server.under_way.items()))

    def expect(name: str, items: Values, lost: int, corrupt: int) -> None:
        server.items = items
        code, found = oracle.verify()
        tap.check(name, (code, found.get("lost"), found.get("corrupt")) == (3 if lost + corrupt else 0, lost, corrupt),
                  f"exit code {code}, {found}")

    expect("what was acknowledged is there", good, 0, 0)
    expect("so is all that was not", {**good, **server.under_way}, 0, 0)
    expect("or one of it", {**good, key: value}, 0, 0)
    expect("an item is missing", {name: good[name] for name in good if name != one}, 1, 0)
    expect("an item is older", {**good, one: server.older[one]}, 1, 0)
    expect("an item is cut short", {**good, one: good[one][:-1]}, 1, 0)
    expect("the last byte is another", {**good, one: altered(good[one], len(good[one]) - 1)}, 0, 1)
    expect("two items have changed places", {**good, one: good[two], two: good[one]}, 0, 2)
    expect("what was not acknowledged is there in part", {**good, key: altered(value, 8)}, 0, 1)
    expect("nothing is there", {}, len(good), 0)


def main() -> int:
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        oracle = Oracle(Path(directory))
        server = Server(oracle.socket)
        oracle.load(server)
        tap.check("sets were acknowledged, and others under way", len(server.under_way) >= UNDER_WAY and
                  len(server.older) > 1, f"{len(server.items)} items, {len(server.under_way)} under way")
        check(tap, server, oracle)
        server.shutdown()
        server.server_close()
    return tap.finish()


process.run_main(main)
