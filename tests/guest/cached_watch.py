# SPDX-License-Identifier: GPL-2.0
"""Logs of lsmemcached, for cached.sh and tests/cached: cached_watch.py SOCKET [PART ..].

The server obeys debugtime, and closes connections that are idle for IDLE seconds. The parts, without a name all of
them: lines: each log has its lines and no others. events: connections that begin and end. ends: watchers that are closed, and
that are idle. slow: one does not read; another one gets all, and both know how many lines there are. evicted: a cache
whose store has 128 MiB at most.
"""

import random
import re
import sys
import threading
import time

sys.dont_write_bytecode = True
from cached import Model, connect  # noqa: E402  # pylint: disable=wrong-import-position
from cached_operate import BIG, ask, stat_of, wait_until  # noqa: E402  # pylint: disable=wrong-import-position

IDLE = 100
WATCHERS = 20
FULL_SETS = 600		# a store is full after fewer, and what was read is evicted, too
ROUND = 500		# lines for which a buffer has room
ROUNDS = 20


class Log:
    """A connection that watches. Its lines have a time, and a number that rises from one to the next."""

    def __init__(self, path: str, logs: str) -> None:
        self.name = logs
        self.socket = connect(path)
        self.socket.sendall(f"watch {logs}\r\n".encode())
        self.replies = self.socket.makefile("rb")
        self.last = 0
        self.skipped = 0
        if (line := self.replies.readline()) != b"OK\r\n":
            sys.exit(f"watch {logs}: {line!r}")

    def next(self) -> str:
        """The next line without time and number; lines that were skipped are added up."""
        while (line := self.replies.readline().decode()).startswith("skipped="):
            self.skipped += int(line.removeprefix("skipped="))
        found = re.fullmatch(r"ts=(\d+\.\d{6}) gid=(\d+) (type=.*)\n", line)
        if not found or abs(float(found[1]) - time.time()) > 600 or int(found[2]) <= self.last:
            sys.exit(f"watch {self.name}: {line!r} after line {self.last}")
        self.last = int(found[2])
        return found[3]

    def expect(self, *wanted: str) -> None:
        """The next lines have to be these, which are regular expressions."""
        for form in wanted:
            if not re.fullmatch(form, line := self.next()):
                sys.exit(f"watch {self.name}: {line!r}, not {form!r}")

    def find(self, wanted: str, most: int = 20) -> str:
        """One of the next lines has to be this, and is returned."""
        lines = [self.next()]
        while not re.fullmatch(wanted, lines[-1]):
            if len(lines) == most:
                sys.exit(f"watch {self.name}: {wanted!r} is not in {lines}")
            lines.append(self.next())
        return lines[-1]

    def close(self) -> None:
        self.replies.close()
        self.socket.close()


def descriptor(model: Model) -> str:
    """The server's descriptor of a connection: that which asks."""
    return next(line.decode().split(":")[0].removeprefix("STAT ")
                for line in ask(model.socket, model.replies, b"stats conns", b"END") if b"conn_parse_cmd" in line)


def number(path: str, name: bytes) -> int:
    """A line of stats, as a new connection reads it."""
    model = Model(path, "stats", random.Random(0))
    try:
        return int(stat_of(model, name))
    finally:
        model.replies.close()
        model.socket.close()


def logs_alone(path: str) -> None:
    model = Model(path, "lines", random.Random(0))
    cfd = descriptor(model)
    for key in (b"a#", b"b", b"s", b"large", b"gone", b"j", b"none", b"f", b"a"):
        model.add(b"delete %s noreply\r\n" % key, b"")
    model.add(b"mn\r\n", b"MN\r\n")
    model.run()
    fetchers, mutations, deletions = Log(path, ""), Log(path, "mutations sysevents"), Log(path, "deletions")
    every, sent = Log(path, "fetchers mutations deletions rawcmds"), number(path, b"log_watcher_sent")
    fetched, stored, deleted = [], [], []

    def run(request: bytes, answer: bytes) -> None:
        model.add(request, answer)
        model.run()

    def get(key: str, status: str, size: int = 0) -> None:
        fetched.append(rf"type=item_get key={key} status={status} clsid={int(status == 'found')} cfd={cfd} size={size}")

    def store(key: str, status: str, verb: str, size: int, ttl: str = "0") -> None:
        stored.append(rf"type=item_store key={key} status={status} cmd={verb} ttl={ttl} clsid=1 cfd={cfd} size={size}")

    def delete(key: str, size: int) -> None:
        get(key, "found", size)
        deleted.append(rf"type=deleted key={key} cmd=delete clsid=1 cfd={cfd} size={size}")

    run(b"watch x\r\nget a#\r\nset a# 0 100 3\r\nabc\r\nget a# b\r\nmg a#\r\nadd a# 0 0 1\r\nx\r\ngat 100 a#\r\n"
        b"delete a#\r\ndelete a#\r\n",
        b"ERROR\r\nEND\r\nSTORED\r\nVALUE a# 0 3\r\nabc\r\nEND\r\nHD\r\nNOT_STORED\r\nVALUE a# 0 3\r\nabc\r\nEND\r\n"
        b"DELETED\r\nNOT_FOUND\r\n")
    get("a%23", "not_found")
    get("a%23", "not_found")
    store("a%23", "stored", "set", 3, "(100|99)")
    get("a%23", "found", 3)
    get("b", "not_found")
    get("a%23", "found", 3)
    get("a%23", "found", 3)
    store("a%23", "not_stored", "add", 1)
    get("a%23", "found", 3)
    delete("a%23", 3)
    get("a%23", "not_found")
    # In a pipeline the second finds what the first has stored
    run(b"set s 0 0 2\r\nab\r\nset s 0 0 1 noreply\r\nx\r\nms s 4\r\nabcd\r\nmd s\r\n", b"STORED\r\nHD\r\nHD\r\n")
    get("s", "not_found")
    store("s", "stored", "set", 2)
    get("s", "found", 2)
    store("s", "stored", "set", 1)
    get("s", "found", 1)
    store("s", "stored", "set", 4)
    delete("s", 4)
    value = bytes(5000)
    run(b"set large 0 0 5000\r\n%s\r\nget large\r\nset gone 0 -1 1\r\nx\r\nget gone\r\nset gone 0 -1 1\r\nx\r\n"
        b"replace gone 0 0 1\r\nx\r\n" % value,
        b"STORED\r\nVALUE large 0 5000\r\n%s\r\nEND\r\nSTORED\r\nEND\r\nSTORED\r\nNOT_STORED\r\n" % value)
    get("large", "not_found")
    store("large", "stored", "set", 5000)
    get("large", "found", 5000)
    for verb in ("get", "replace"):
        get("gone", "not_found")
        store("gone", "stored", "set", 1)
        get("gone", "expired")
        if verb == "replace":
            store("gone", "not_stored", "replace", 1)
    run(b"set j 0 0 1\r\n1\r\nappend j 0 0 2\r\n23\r\nprepend j 0 0 1\r\n0\r\nreplace j 0 0 1\r\n7\r\n"
        b"cas j 0 0 1 1\r\nx\r\ncas none 0 0 1 1\r\nx\r\nincr j 1\r\ntouch none 1\r\n",
        b"STORED\r\n" * 4 + b"EXISTS\r\nNOT_FOUND\r\n8\r\nNOT_FOUND\r\n")
    get("j", "not_found")
    store("j", "stored", "set", 1)
    get("j", "found", 1)
    store("j", "stored", "append", 2)
    get("j", "found", 3)
    store("j", "stored", "prepend", 1)
    get("j", "found", 4)
    store("j", "stored", "replace", 1)
    get("j", "found", 1)
    store("j", "exists", "cas", 1)
    get("none", "not_found")
    store("none", "not_found", "cas", 1)
    get("j", "found", 1)
    get("none", "not_found")
    # Too large: what is there is removed
    run(b"set j 0 0 2000000\r\n%s\r\nms j 2000000\r\n%s\r\n" % (bytes(2_000_000), bytes(2_000_000)),
        b"SERVER_ERROR object too large for cache\r\n" * 2)
    store("j", "too_large", "set", 2000000)
    delete("j", 1)
    store("j", "too_large", "set", 2000000)
    get("j", "not_found")
    run(b"set f 0 0 1\r\nx\r\nflush_all\r\nget f\r\nget f\r\n", b"STORED\r\nOK\r\nEND\r\nEND\r\n")
    get("f", "not_found")
    store("f", "stored", "set", 1)
    get("f", "flushed")
    get("f", "not_found")
    fetchers.expect(*fetched)
    mutations.expect(*stored)
    deletions.expect(*deleted)
    # One that watches several logs has all of their lines, in the order of their numbers
    left = [fetched, stored, deleted]
    at = [0, 0, 0]
    while any(n < len(of) for n, of in zip(at, left)):
        line = every.next()
        which = next((i for i in range(3) if at[i] < len(left[i]) and re.fullmatch(left[i][at[i]], line)), None)
        if which is None:
            sys.exit(f"watch {every.name}: {line!r} is not the next line of any")
        at[which] += 1
    if (now := number(path, b"log_watcher_sent")) - sent != 2 * sum(map(len, left)):
        sys.exit(f"log_watcher_sent has risen by {now - sent}, not {2 * sum(map(len, left))}")
    for log in (fetchers, mutations, deletions, every):
        log.close()


def events(path: str) -> None:
    log = Log(path, "connevents")
    told = r"rip=unix rport=0 transport=local"
    for request, reason in ((b"quit\r\n", "normal"), (b"", "normal"), (b"GET / HTTP/1.1\r\n", "error")):
        connection = connect(path)
        connection.sendall(request + b"version\r\n")
        if not request:
            connection.recv(1000)
        begun = log.find(rf"type=conn_new {told} cfd=\d+")
        connection.close()
        log.find(rf"type=conn_close {told} reason={reason} {begun.split()[-1]}")
    log.close()


def ends(path: str) -> None:
    model = Model(path, "ends", random.Random(0))

    def wait_watchers(wanted: int) -> None:
        wait_until(lambda: number(path, b"log_watchers") == wanted, f"there are not {wanted} watchers")

    wait_watchers(0)
    for _ in range(3):
        logs = [Log(path, "fetchers") for _ in range(WATCHERS)]
        model.add(b"watch\r\n", b"WATCHER_TOO_MANY log watcher limit reached\r\n")
        model.run()
        # Half of them end while there are lines for them
        for log in logs:
            log.socket.sendall(b"get what-a-watcher-sends-is-thrown-away\r\nquit\r\n")
        for _ in range(100):
            model.add(b"get %s\r\n" % (b"e" * 200), b"END\r\n")
        model.send()
        for log in logs[::2]:
            log.close()
        model.receive()
        wait_watchers(WATCHERS // 2)
        model.add(b"get last\r\n", b"END\r\n")
        model.run()
        for log in logs[1::2]:
            log.find(r"type=item_get key=last status=not_found .*", 101)
            log.close()
        wait_watchers(0)
        model.add(b"get none\r\n", b"END\r\n")
        model.run()
    # What is idle is closed, but for watchers
    fetchers, log = Log(path, "fetchers"), Log(path, "connevents")
    idle = connect(path)
    idle.sendall(b"version\r\n")
    idle.recv(100)
    model.add(b"debugtime %d\r\n" % (2 * IDLE), b"OK\r\n")
    model.run()
    log.find(r"type=conn_close .* reason=idle_timeout cfd=\d+")
    if idle.recv(100):
        sys.exit("a connection that is idle has an answer")
    model = Model(path, "ends", random.Random(0))
    model.add(b"get after\r\n", b"END\r\n")
    model.run()
    fetchers.expect(r"type=item_get key=after status=not_found .*")
    fetchers.close()
    log.close()


def slow(path: str) -> None:
    model = Model(path, "slow", random.Random(0))
    before = number(path, b"log_watcher_skipped")
    idler, reader = Log(path, "fetchers"), Log(path, "fetchers mutations")
    key = b"k" * 240
    form = r"type=item_get key=k+ status=not_found clsid=0 cfd=\d+ size=0"
    for _ in range(ROUNDS):
        model.add(b"get %s\r\n" % key * ROUND, b"END\r\n" * ROUND)
        model.run()
        reader.expect(*[form] * ROUND)
    if reader.skipped:
        sys.exit(f"{reader.skipped} lines of one that reads were skipped")
    skipped = number(path, b"log_watcher_skipped") - before
    # Lines that come now find room when it has read some. It reads two for each, or a buffer might be full once more
    while idler.last < reader.last:
        model.add(b"get %s\r\n" % key, b"END\r\n")
        model.run()
        reader.expect(form)
        for _ in range(2):
            if idler.last < reader.last:
                idler.expect(form)
    # They are told once
    for _ in range(3):
        model.add(b"get %s\r\n" % key, b"END\r\n")
        model.run()
        reader.expect(form)
        idler.expect(form)
    if not 0 < skipped <= idler.skipped:
        sys.exit(f"{idler.skipped} lines were skipped by the log, {skipped} by stats")
    if (now := number(path, b"log_watcher_skipped") - before) != idler.skipped:
        sys.exit(f"{idler.skipped} lines were skipped by the log, {now} by stats")
    idler.close()
    reader.close()


def evicted(path: str) -> None:
    """Each item that is evicted has a line, with what it was."""
    model, log = Model(path, "evicted", random.Random(0)), Log(path, "evictions")
    value, at = bytes(BIG), 0
    got: list[str] = []

    def read() -> None:
        try:
            while True:
                got.append(log.next())
        except (SystemExit, OSError, ValueError) as error:
            got.append(f"the end: {error}")

    def told() -> dict[int, str]:
        """Whether each item was read, by its number."""
        items = {}
        for line in got[:]:
            form = r"type=eviction key=(\S+) fetch=(yes|no) ttl=(-?\d+) la=(\d+) clsid=1 size=(\d+)"
            if not (found := re.fullmatch(form, line)):
                sys.exit(f"watch {log.name}: {line!r}")
            if not found[1].startswith("big%23"):
                continue
            which, ttl = int(found[1].removeprefix("big%23")), int(found[3])
            if (which in items or (found[2] == "yes" and not which % 2) or int(found[4]) > 600 or
                    int(found[5]) != BIG or not (400 < ttl <= 1000 if which % 2 else ttl == -1)):
                sys.exit(f"watch {log.name}: {line!r}")
            items[which] = found[2]
        return items

    def gone() -> set[int]:
        missing = set()
        for which in range(at):
            model.socket.sendall(b"mg big#%d u\r\n" % which)
            if model.replies.readline() == b"EN\r\n":
                missing.add(which)
        return missing

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    while len(set(told().values())) < 2:
        if at == FULL_SETS:
            sys.exit(f"evicted were {told()}")
        # Every second one expires some time, and was read, which the server may have forgotten
        model.add(b"set big#%d 0 %d %d\r\n%s\r\n" % (at, 1000 * (at % 2), BIG, value), b"STORED\r\n")
        if at % 2:
            model.add(b"mg big#%d\r\n" % at, b"HD\r\n")
        model.run()
        at += 1
    wait_until(lambda: gone() == set(told()), "not all that was evicted was told")


PARTS = {"lines": logs_alone, "events": events, "ends": ends, "slow": slow, "evicted": evicted}


def main() -> None:
    for part in sys.argv[2:] or PARTS:
        PARTS[part](sys.argv[1])


main()
