#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""lsmemcached, of which one call fails: nth.py [OPTION ..] SERVER [FUNCTION ..]. TAP on standard output.

For each function its first call fails, then its second, and so on, until the server ends without a failure; meanwhile
clients send what makes it call them (tests/common/nth.h). Each time the server serves, or ends with a sentence: nothing
crashes, hangs, leaks or stays behind. One connection at most is closed, or has an error as an answer.

The server was linked with tests/common/nth.c, or has it by --preload. Of many calls only each --step fails, with which
one begins $LSMEM_SEED chooses.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 30.0		# to start, to answer, to end
CONNECTIONS = 70	# more than the table of descriptors has places at first
BIG = 5000
SANITIZER = 99		# exit status
MOST = 4000		# calls of a function

# What each makes the server do, and how the last line of its answer begins
REQUESTS: tuple[tuple[bytes, tuple[bytes, ...]], ...] = (
    (b"set a 0 0 3\r\nabc\r\n", (b"STORED",)), (b"set a:1 0 0 %d\r\n%s\r\n" % (BIG, bytes(BIG)), (b"STORED",)),
    (b"get a b\r\n", (b"END",)), (b"get a:1\r\n", (b"END",)), (b"gets a\r\n" * 2000, (b"END",)),
    (b"mg a v\r\n", (b"abc",)), (b"append a 0 0 3\r\ndef\r\n", (b"STORED",)), (b"set n 0 0 1\r\n1\r\n", (b"STORED",)),
    (b"incr n 1\r\n", (b"2", b"3")), (b"touch a 100\r\n", (b"TOUCHED",)), (b"stats detail on\r\n", (b"OK",)),
    (b"get a:1\r\n", (b"END",)), (b"stats detail dump\r\n", (b"END",)), (b"stats conns\r\n", (b"END",)),
    (b"stats\r\n", (b"END",)), (b"lru_crawler metadump all\r\n", (b"END",)),
    (b"delete a\r\n", (b"DELETED", b"NOT_FOUND")),
    (b"flush_all\r\n", (b"OK",)), (b"watch fetchers\r\n", (b"OK",)),
)

FUNCTIONS = ("malloc", "calloc", "realloc", "fopen64", "pthread_create", "epoll_create1", "epoll_ctl", "epoll_wait",
             "eventfd", "signalfd", "timerfd_create", "timerfd_settime", "socket", "bind", "listen", "accept4", "recv",
             "send")
# Of a start with addresses
ADDRESSES = ("getaddrinfo", "strdup", "socket", "bind", "listen", "realloc")


@dataclass
class Run:
    """A server, of which a call fails."""

    command: list[str]
    failing: str
    preload: str
    where: Path
    port: int = 0
    broken: int = 0
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = self.where / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*self.command, "-t", "2", "-P", str(self.where / "pid")], stderr=log,
                env={**os.environ, "LSMEM_NTH": self.failing, "ASAN_OPTIONS": f"exitcode={SANITIZER}",
                     **({"LD_PRELOAD": self.preload} if self.preload else {})})

    def connect(self) -> socket.socket:
        if self.port:
            return socket.create_connection(("127.0.0.1", self.port), SECONDS)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(SECONDS)
        try:
            connection.connect(str(self.where / "socket"))
        except OSError:
            connection.close()
            raise
        return connection

    def has_started(self) -> bool:
        """Waits until it serves, or has ended."""
        until = time.monotonic() + SECONDS
        while self.process.poll() is None:
            try:
                with self.connect() as connection:
                    if self.ask(connection, b"version\r\n", (b"VERSION",)):
                        return True
            except (ConnectionRefusedError, FileNotFoundError):
                pass
            if time.monotonic() > until:
                self.wrong.append("it does not start")
                break
            time.sleep(0.005)
        # Those that are there when it ends have no answers
        self.broken = 0
        return False

    def ask(self, connection: socket.socket, request: bytes, last: tuple[bytes, ...]) -> bool:
        """Whether the answer is right. The connection may be at its end, or the answer an error, once."""
        got, ends = b"", request.count(b"gets a")
        try:
            connection.sendall(request)
            while not got.endswith(b"\r\n") or got.count(b"END\r\n") < ends or \
                    not got.splitlines()[-1].startswith((*last, b"SERVER_ERROR", b"WATCHER_FAILED")):
                more = connection.recv(1 << 20)
                if not more:
                    self.broken += 1
                    return False
                got += more
        except TimeoutError:
            self.wrong.append(f"{request[:40]!r}: no answer but {got[-40:]!r}")
            return False
        except ConnectionError:
            self.broken += 1
            return False
        good = got.splitlines()[-1].startswith(last)
        self.broken += not good
        return good

    def converse(self) -> None:
        """What has no answer is asked again."""
        connection = self.connect()
        for request, last in REQUESTS:
            while not self.ask(connection, request, last) and self.broken < 2 and not self.wrong:
                connection.close()
                connection = self.connect()
        crowd = [self.connect() for _ in range(CONNECTIONS)]
        for one in crowd:
            self.ask(one, b"version\r\n", (b"VERSION",))
        for one in (connection, *crowd):
            one.close()

    def end(self) -> str:
        """Ends it. Return: what it has said."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            self.wrong.append("it does not end")
        return self.log.read_text(errors="replace")


def judge(run: Run, said: str, started: bool) -> None:
    """What must be, whichever call has failed."""
    status = run.process.returncode
    lines = [line for line in said.splitlines() if not line.startswith("# failed: ")]
    if status not in (0, 1) or (started and status):
        run.wrong.append(f"exit status {status}")
    if any(not line.startswith("lsmemcached: ") for line in lines):
        run.wrong.append("it says what is no sentence")
    if status == 1 and not lines:
        run.wrong.append("it ends without a word")
    if run.broken > 1 or (run.broken and not started):
        run.wrong.append(f"{run.broken} answers are missing")
    run.wrong += [f"{path.name} is left" for path in run.where.iterdir() if path != run.log]


def sweep(asked: argparse.Namespace, function: str, port: int) -> tuple[int, list[str]]:
    """@port: of an address to listen on; 0: a unix socket. Return: how many calls have failed, and what was wrong."""
    seed, failed = int(os.environ.get("LSMEM_SEED", "0")), 0
    for nth in range(1 + seed % asked.step, MOST, asked.step):
        with tempfile.TemporaryDirectory(prefix="lsmem-nth-") as name:
            where = Path(name)
            options = ["-l", "127.0.0.1,127.0.0.2", "-p", str(port)] if port else ["-s", f"{name}/socket"]
            run = Run([asked.server, "--store", asked.store, *options], f"{function}:{nth}", asked.preload, where, port)
            started = run.has_started()
            if started and not port:
                try:
                    run.converse()
                except OSError as error:
                    run.wrong.append(f"{error}")
            said = run.end()
            hit = "# failed: " in said
            if not hit and run.broken:
                run.wrong.append("an answer is missing, and nothing has failed")
            judge(run, said, started)
            if run.wrong:
                return failed, [f"{function}, call {nth}: {', '.join(run.wrong)}", *said.splitlines()[:40]]
            if not hit:
                return failed, [] if failed else [f"{function} is not called"]
            failed += 1
    return failed, [f"{function}: there is no end of calls"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--preload", default="", help="tests/common/nth.c as a library")
    parser.add_argument("--step", type=int, default=1, help="only each of so many calls fails")
    parser.add_argument("--store", default="/dev/8")
    parser.add_argument("server")
    parser.add_argument("functions", nargs="*")
    asked = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    sweeps = [(function, 0) for function in FUNCTIONS] + [(function, port) for function in ADDRESSES]
    number = failed = 0
    for function, where in sweeps:
        if asked.functions and function not in asked.functions:
            continue
        number += 1
        calls, wrong = sweep(asked, function, where)
        failed += bool(wrong)
        print(f"{'not ' if wrong else ''}ok {number} - {'TCP: ' if where else ''}{function}: {calls} calls that fail",
              flush=True)
        for line in wrong:
            print(f"# {line}", flush=True)
    print(f"1..{number}")
    sys.exit(failed != 0)


main()
