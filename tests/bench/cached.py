# SPDX-License-Identifier: GPL-2.0
"""Benches of lsmemcached against memcached and Redis, and of tables with keys: groups of tests/bench/inside."""

import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Optional, Sequence

import cost
from contest import BATCH, CTL, REPO, Contestant, Durable, Rounds, destroy, drives, result, tell, wait

CACHED = REPO / "tools" / "cached" / "lsmemcached"
TURN = 5		# a turn is so many times as long: percentiles want many requests
KEY = 16
QUICK = 20		# a quick run has so many times fewer items


def _available() -> int:
    """Bytes of the guest's memory that is free, or that holds what is on drives, too."""
    kib = {name: int(rest.split()[0]) for name, rest in
           (line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())}
    return (kib["MemFree"] + kib["Buffers"] + kib["Cached"] - kib["Shmem"] + kib["SReclaimable"]) << 10


class Server:
    """A server with one thread, on a unix socket.

    @mib: memory for items. @least: bytes of an item, at least on the average: ours wants to know how many there are.
    """

    name = "memcached"
    mode = "requests"

    def __init__(self, mib: int, least: int = 256) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="lsmem-bench.")
        self._path = Path(self._directory.name) / "socket"
        self.mib = mib
        self._before = _available()
        self._argv = self._command(mib, (mib << 20) // least)
        self._start()
        wait(self.name, self._path.exists)
        self.client = Contestant(self.mode, "-p", str(self._path))

    def _start(self) -> None:
        self._process = subprocess.Popen(self._argv, stdout=subprocess.DEVNULL)

    def _command(self, mib: int, items: int) -> list[str]:
        return ["memcached", "-u", "root", "-s", str(self._path), "-t", "1", "-m", str(mib)]

    def run(self, seconds: float, connections: int, mix: Sequence[int]) -> dict[str, Any]:
        """Requests of a mix. @us: processor time of the server, with cleaning, for each."""
        before, begin = self.cpu_ns(), time.monotonic()
        answer = self.client.order("run", connections, seconds, *mix)
        if answer["misses"]:
            raise RuntimeError(f"{self.name}: {answer['misses']} misses")
        took = time.monotonic() - begin
        return {**answer, "us": (self.cpu_ns() - before) / 1e3 / (answer["rate"] * took)}

    def ask(self, request: str, length: int) -> str:
        """The first @length bytes of an answer, on a connection of its own; as many as come at once."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            client.connect(str(self._path))
            client.sendall(request.encode())
            return client.recv(length).decode()

    def _processes(self) -> list[int]:
        """The processes of the server."""
        return [self._process.pid]

    def cpu_ns(self) -> int:
        """Processor time of the server, with cleaning."""
        # clock_getcpuclockid() of other processes
        return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in self._processes()) + cost.threads_ns()

    def close(self) -> int:
        """Ends client and server. Returns the bytes of memory that the server had taken, with its items."""
        self.client.close()
        taken = self._before - _available()
        self._end()
        self._directory.cleanup()
        return taken

    def _end(self) -> None:
        self._process.terminate()
        self._process.wait()


class Ours(Server):
    """lsmemcached, with a volatile store."""

    name = "lsmemcached"

    def _command(self, mib: int, items: int) -> list[str]:
        self._store = subprocess.run([str(CTL), "create", "--size", f"{mib}M", "--handles", str(items)], check=True,
                                     text=True, stdout=subprocess.PIPE).stdout.strip()
        wait(self._store, Path("/dev", self._store).exists)
        return [str(CACHED), "--store", f"/dev/{self._store}", "-s", str(self._path), "-t", "1"]

    def close(self) -> int:
        taken = super().close()
        destroy(self._store)
        return taken

    def evicting_ns(self) -> int:
        """Processor time of the thread that evicts ahead, and of cleaning."""
        for thread in Path(f"/proc/{self._process.pid}/task").iterdir():
            if (thread / "comm").read_text().strip() == "upkeep":
                # utime and stime
                ticks = sum(map(int, (thread / "stat").read_text().rpartition(")")[2].split()[11:13]))
                return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK") + cost.threads_ns()
        raise RuntimeError("lsmemcached has no thread that evicts")


class Redis(Server):
    """Redis, which keeps nothing on a drive."""

    name = "Redis"
    mode = "requests-redis"

    def _command(self, mib: int, items: int) -> list[str]:
        return ["redis-server", "--port", "0", "--unixsocket", str(self._path), "--save", "", "--appendonly", "no"]


class OursDurable(Ours):
    """lsmemcached, whose answers say that a change is on the drive."""

    options: tuple[str, ...] = ("--durable",)

    def _command(self, mib: int, items: int) -> list[str]:
        self._durable = Durable("object", "lsmem", drives(("objects",)), mib, handles=items)
        self._durable.start("--format", "--force")
        self._daemon = self._durable.status()["pid"]
        return [str(CACHED), "--store", self._durable.device, "-s", str(self._path), "-t", "1", "--mode", "store",
                *self.options]

    def _processes(self) -> list[int]:
        return [*super()._processes(), self._daemon]

    def close(self) -> int:
        taken = Server.close(self)
        self._durable.close()
        return taken


class RedisDurable(Redis):
    """Redis, whose answers say that a change is on the drive: an append-only file on ext4."""

    sync = "always"

    def _command(self, mib: int, items: int) -> list[str]:
        drive, = drives(("redis",))
        self._mounted = Path(self._directory.name) / "data"
        self._mounted.mkdir()
        subprocess.run(["mkfs.ext4", "-q", "-F", drive], check=True)
        subprocess.run(["mount", drive, str(self._mounted)], check=True)
        return ["redis-server", "--port", "0", "--unixsocket", str(self._path), "--save", "", "--appendonly", "yes",
                "--appendfsync", self.sync, "--auto-aof-rewrite-percentage", "0", "--dir", str(self._mounted)]

    def _end(self) -> None:
        super()._end()
        subprocess.run(["umount", str(self._mounted)], check=True)


class Restarted(Server):
    """A server that is ended, and starts again with all of its items."""

    probe = "get {}\r\n", "VALUE"	# of one item, and how its answer begins

    def _recover(self) -> float:
        """Has what holds the items recovered, after the server has ended. Returns the seconds that it took."""
        return 0.0

    def restart(self, items: int, recover: bool) -> tuple[float, float]:
        """Ends the server, and starts it. Returns seconds from the start to the first get, and those of the recovery."""
        self.client.close()
        Server._end(self)
        self._path.unlink(missing_ok=True)
        recovery = self._recover() if recover else 0.0
        begin = time.monotonic()
        self._start()
        wait(f"an item of {self.name}", lambda: self._answers(items - 1), RESTART_LIMIT, RESTART_POLL)
        took = time.monotonic() - begin
        self.client = Contestant(self.mode, "-p", str(self._path))
        return took, recovery

    def _answers(self, item: int) -> bool:
        request, answer = self.probe
        try:
            return self.ask(request.format(f"{item:0{KEY}d}"), len(answer)) == answer
        except OSError:
            return False


class OursRestarted(Restarted, OursDurable):
    """lsmemcached over a store that is on a drive."""

    options = ()

    def _recover(self) -> float:
        self._durable.stop()
        destroy(self._durable.store, "--force")
        begin = time.monotonic()
        self._durable.start()
        took = time.monotonic() - begin
        self._daemon = self._durable.status()["pid"]
        return took


class RedisRestarted(Restarted, RedisDurable):
    """Redis, which reads its append-only file."""

    probe = "GET {}\r\n", "$100"
    sync = "no"


# ---- Requests a second -------------------------------------------------------------------------

ITEMS = 100_000
RATES_MIB = 256
CONNECTIONS = (1, 16, 64)
RATE_TARGET = 1.0
MEAN_TARGET = 1.1
LATENCIES = {"mean": "mean", "p50": "median", "p99": "99 %", "p999": "99.9 %"}
ANY, ZIPF, LATEST = range(3)	# enum choice of requests.c
# Per mille: reads, new items, read and then set; the others set
REQUESTS = {"GET": (1000, 0, 0, ANY), "SET": (0, 0, 0, ANY)}
YCSB = {"A": (500, 0, 0, ZIPF), "B": (950, 0, 0, ZIPF), "C": (1000, 0, 0, ZIPF), "D": (950, 50, 0, LATEST),
        "F": (500, 0, 500, ZIPF)}
YCSB_BYTES = 1000
YCSB_MIB = 512
YCSB_CONNECTIONS = 16
DURABLE_ITEMS = 20_000
DURABLE_MIB = 256


def _contest(rounds: Rounds, group: str, servers: Sequence[Server], cases: dict[str, tuple[int, tuple[int, ...]]],
             how: str) -> None:
    """Runs @cases, connections and mix of each, on all servers in turn."""
    told: dict[str, list[dict[str, Any]]] = {}

    def turn(server: Server, case: str) -> Callable[[], float]:
        def run() -> float:
            answer = server.run(rounds.seconds * (1 if rounds.quick else TURN), *cases[case])
            told.setdefault(f"{case} {server.name}", []).append(answer)
            return float(answer["rate"])
        return run

    rounds.run({f"{case} {server.name}": turn(server, case) for case in cases for server in servers})
    for case in cases:
        for other in servers[1:]:
            def values(key: str) -> tuple[list[float], list[float]]:
                # The first round warms up
                return tuple([float(answer[key]) for answer in told[f"{case} {name}"][1:]]  # type: ignore[return-value]
                             for name in (servers[0].name, other.name))

            result(group, case, *values("rate"), other.name, "requests/s", how, RATE_TARGET)
            for key, label in LATENCIES.items():
                result(group, f"{case}: {label}", *values(key), other.name, "us", how, MEAN_TARGET if key == "mean" else None,
                       most=True)
            result(group, f"{case}: the server's processor time", *values("us"), other.name, "us", how, most=True)


def cached(rounds: Rounds) -> None:
    """GET and SET of items of 100 bytes, and YCSB's workloads."""
    items = ITEMS // QUICK if rounds.quick else ITEMS
    common = ("one thread of each server, unix sockets, client and servers on one processor; time from sending to the "
              "answer, in a closed loop: each connection sends its next request when the answer is there")
    servers: list[Server] = [Ours(RATES_MIB), Server(RATES_MIB)]
    for server in servers:
        server.client.order("fill", 0, items)
    _contest(rounds, "cached", servers, {f"{what}, {nr} connection{'s' if nr > 1 else ''}": (nr, mix)
                                         for nr in CONNECTIONS for what, mix in REQUESTS.items()},
             f"any of {items} items of 100 B, keys of {KEY} B; {common}")
    for server in servers:
        server.close()
    _ycsb(rounds, "cached", [Ours(YCSB_MIB), Server(YCSB_MIB), Redis(YCSB_MIB)], items, common)


def _ycsb(rounds: Rounds, group: str, servers: Sequence[Server], items: int, how: str) -> None:
    for server in servers:
        server.client.order("sizes", KEY, YCSB_BYTES, YCSB_BYTES)
        server.client.order("fill", 0, items)
    _contest(rounds, group, servers, {f"YCSB {name}": (YCSB_CONNECTIONS, mix) for name, mix in YCSB.items()},
             f"{items} records of {YCSB_BYTES} B, each one value, {YCSB_CONNECTIONS} connections; {how}")
    for server in servers:
        server.close()


def durable(rounds: Rounds) -> None:
    """YCSB's workloads, with changes that are on a drive before they are answered."""
    items = DURABLE_ITEMS // QUICK if rounds.quick else DURABLE_ITEMS
    _ycsb(rounds, "cached-durable", [OursDurable(DURABLE_MIB), RedisDurable(DURABLE_MIB)], items,
          f"lsmemcached --durable over a store of {DURABLE_MIB} MiB with a daemon and a drive, Redis with appendfsync always "
          "on ext4 on another, both files of one disk; one thread of each server, unix sockets, client and servers on one "
          "processor; processor time: with the daemon's")
    _restart(rounds)


RESTART_ITEMS = 500_000
RESTART_MIB = 256
RESTART_LIMIT = 120.0
RESTART_POLL = 0.002


def _restart(rounds: Rounds) -> None:
    """The time from the start of a server to its first get."""
    items = RESTART_ITEMS // QUICK if rounds.quick else RESTART_ITEMS
    servers: list[Restarted] = [OursRestarted(RESTART_MIB), RedisRestarted(RESTART_MIB)]
    for server in servers:
        server.client.order("fill", 0, items)
    recoveries: list[float] = []

    def turn(server: Restarted, recover: bool) -> Callable[[], float]:
        def run() -> float:
            first, recovery = server.restart(items, recover)
            if recover and server is servers[0]:
                recoveries.append(recovery)
            return first
        return run

    times = rounds.run({"there": turn(servers[0], False), "recovered": turn(servers[0], True),
                        "Redis": turn(servers[1], True)})
    for server in servers:
        server.close()
    base = times["Redis"]
    how = (f"from the start of the process to the answer to a get, tried each {RESTART_POLL * 1000:.0f} ms; {items} items of "
           f"100 B, keys of {KEY} B; lsmemcached --mode store, a store of {RESTART_MIB} MiB; Redis reads an append-only file "
           "of as many sets, from the page cache; one processor")
    for what, ours in (("a start after a recovery, which makes the index", times["recovered"]),
                       ("a start, the store is still there", times["there"]),
                       ("the recovery by lsmemd, and a start",
                        [a + b for a, b in zip(times["recovered"], recoveries[1:])])):
        result("cached-durable", f"{what}: to the first get", ours, base, "Redis", "s", how, most=True)
        result("cached-durable", f"{what}: for each item", [1e9 * value / items for value in ours],
               [1e9 * value / items for value in base], "Redis", "ns", how, most=True)


# ---- What is kept in the same memory -----------------------------------------------------------

KEPT_MIB = 128
KEPT_LARGE_MIB = 512
KEPT_LARGE = ("100 B", "ETC")	# a store keeps as much free for its cleaners, whatever its size
Sizes = tuple[int, int]
# First sizes, per mille that is deleted then, and other sizes, of new items; with 0 of the same keys.  Those of
# RAMCloud's W1 to W8
KEPT: dict[str, tuple[Sizes, int, Optional[Sizes]]] = {
    "100 B": ((100, 100), 0, None),
    "100 B; then 130 B": ((100, 100), 0, (130, 130)),
    "100 B; 90 % deleted; 130 B": ((100, 100), 900, (130, 130)),
    "100-150 B; then 200-250 B": ((100, 150), 0, (200, 250)),
    "100-150 B; 90 % deleted; 200-250 B": ((100, 150), 900, (200, 250)),
    "100-200 B; 50 % deleted; 1,000-2,000 B": ((100, 200), 500, (1000, 2000)),
    "1,000-2,000 B; 90 % deleted; 1,500-2,500 B": ((1000, 2000), 900, (1500, 2500)),
    "50-150 B; 90 % deleted; 5,000-15,000 B": ((50, 150), 900, (5000, 15000)),
}
SMALL = 128		# bytes of items of 100 B and more, with key and header
KEPT_TARGET = 1.15
OVER = 2		# so many times as many items are set as would fit without any overhead
ETC_ITEM = 360		# bytes of key and value, on the average
ETC_TIMES = 4		# so many times as many items as fit
ETC_SETS = 32		# per mille: 30 gets for a set
ETC_REQUESTS = 1_500_000
USR_KEYS = (16, 21)	# bytes; values have 2
USR_VALUE = 2
USR_ITEM = 64		# bytes of an item, with all that a server adds, at least
USR_PARTS = 64		# of the items, with keys of either length in turn
EVICTION_TARGET = 0.05
EVICTION_REQUESTS = 300_000	# of a turn


def _sets(server: Server, size: int, rounds: Rounds) -> int:
    """How many items of this size are set."""
    return (OVER * server.mib << 20) // size // (QUICK if rounds.quick else 1)


def _change(server: Server, mix: str, rounds: Rounds) -> dict[str, Any]:
    """Sets items, and what is there in the end."""
    first, share, then = KEPT[mix]
    sets = _sets(server, KEY + sum(first) // 2, rounds)
    last = sets
    server.client.order("sizes", KEY, *first)
    refused = server.client.order("fill", 0, sets)["refused"]
    if then:
        begin = sets if share else 0
        server.client.order("drop", 0, sets, share)
        server.client.order("sizes", KEY, *then)
        more = _sets(server, KEY + sum(then) // 2, rounds)
        refused += server.client.order("fill", begin, more)["refused"]
        last = max(sets, begin + more)
    answer = server.client.order("held", last)
    return {**answer, "refused": refused, "sets": last}


def _etc(server: Server, rounds: Rounds) -> dict[str, Any]:
    sets = _sets(server, ETC_ITEM, rounds)
    server.client.order("etc", 1)
    refused = server.client.order("fill", 0, sets)["refused"]
    return {**server.client.order("held", sets), "refused": refused, "sets": sets}


def _usr(server: Server, rounds: Rounds) -> dict[str, Any]:
    part = _sets(server, USR_ITEM, rounds) // USR_PARTS
    refused = 0
    for number in range(USR_PARTS):
        server.client.order("sizes", USR_KEYS[number % len(USR_KEYS)], USR_VALUE, USR_VALUE)
        refused += server.client.order("fill", number * part, part)["refused"]
    answers = []
    for key in USR_KEYS:
        # Of the parts with other keys nothing is found
        server.client.order("sizes", key, USR_VALUE, USR_VALUE)
        answers.append(server.client.order("held", USR_PARTS * part))
    return {"items": sum(answer["items"] for answer in answers), "bytes": sum(answer["bytes"] for answer in answers),
            "refused": refused, "sets": USR_PARTS * part}


def _compare(what: str, ours: dict[str, Any], base: dict[str, Any], how: str) -> None:
    tell(kind="progress",
         text=f"cached-kept: {what}: of {ours['sets']} keys, refused {ours['refused']} and {base['refused']}")
    for key, label, unit, target in (("items", "items kept", "", None),
                                     ("bytes", "bytes of keys and values", "B", KEPT_TARGET)):
        result("cached-kept", f"{what}: {label}", [ours[key]], [base[key]], "memcached", unit, how, target)
    result("cached-kept", f"{what}: all memory", [ours["memory"]], [base["memory"]], "memcached", "B", how, most=True)
    result("cached-kept", f"{what}: items for each MiB of all memory",
           *[[each["items"] / (each["memory"] / (1 << 20))] for each in (ours, base)], "memcached", "", how)


def _hits(server: Server, rounds: Rounds) -> dict[str, float]:
    """The share of hits, before and after all items have become twice as large."""
    items = (ETC_TIMES * KEPT_MIB << 20) // ETC_ITEM
    requests = ETC_REQUESTS // (QUICK if rounds.quick else 1)
    shares = {}
    for scale, first, then in ((1, "while it fills", "sizes as they were first"),
                               (2, "while sizes double", "sizes twice as large")):
        server.client.order("etc", scale)
        for what in (first, then):
            answer = server.client.order("hits", items, requests, ETC_SETS)
            shares[what] = 100 * answer["hits"] / answer["gets"]
    return shares


def _eviction(rounds: Rounds) -> None:
    """Processor time of the threads that evict and clean, of all that the server takes."""
    items = (ETC_TIMES * KEPT_MIB << 20) // ETC_ITEM
    requests = EVICTION_REQUESTS // (QUICK if rounds.quick else 1)
    loads = {f"gets, {ETC_SETS} of 1000 requests are sets, and what is not there is set": ETC_SETS, "sets alone": 1000}
    server = Ours(KEPT_MIB)
    server.client.order("etc", 1)
    server.client.order("fill", 0, items // (QUICK if rounds.quick else 1))	# until items have to go
    # The same thread looks for what has expired
    if server.ask("lru_crawler disable\r\n", 2) != "OK":
        raise RuntimeError("lsmemcached still looks for what has expired")

    def turn(sets: int) -> tuple[float, float]:
        evicting, all_of_it = server.evicting_ns(), server.cpu_ns()
        server.client.order("hits", items, requests, sets)
        return ((server.evicting_ns() - evicting) / 1e3 / requests, (server.cpu_ns() - all_of_it) / 1e3 / requests)

    for what, sets in loads.items():
        turns = [turn(sets) for _ in range(rounds.rounds + 1)][1:]
        result("cached-kept", f"processor time of eviction, {what}", [evicting for evicting, _ in turns],
               [all_of_it for _, all_of_it in turns], "all of the server's", "us",
               f"a full store of {KEPT_MIB} MiB, items of ETC by Zipf's law of {ETC_TIMES} times as many as fit, {requests} "
               "requests a turn, time for each: the thread that evicts ahead (lru_crawler disable) and the cleaners, and the whole server; "
               "when a worker finds no room it evicts itself, and that is only in the latter; one processor",
               EVICTION_TARGET, most=True)
    server.close()


# Facebook's pools: bytes of an item, at least on the average, and what sets them
POOLS: dict[str, tuple[int, Callable[[Server, Rounds], dict[str, Any]]]] = {"ETC": (256, _etc), "USR": (USR_ITEM, _usr)}


def kept(rounds: Rounds) -> None:
    """Items that are kept, and hits, with the same memory. Counts: one round. And what it costs to evict."""
    kinds = (Ours, Server)
    for mix, mib in (*((mix, KEPT_MIB) for mix in (*KEPT, *POOLS)), *((mix, KEPT_LARGE_MIB) for mix in KEPT_LARGE)):
        answers = []
        for kind in kinds:
            least, pool = POOLS.get(mix, (SMALL, None))
            server = kind(mib, least)
            answer = pool(server, rounds) if pool else _change(server, mix, rounds)
            answers.append({**answer, "memory": server.close()})
        _compare(mix if mib == KEPT_MIB else f"{mix}, {mib} MiB", answers[0], answers[1],
                 f"lsmemcached with a store of {mib} MiB, memcached -m {mib}; {OVER} times as many bytes set; "
                 "items that a client then gets; all memory: what the guest has less, with indices and processes")
    shares = []
    for kind in kinds:
        server = kind(KEPT_MIB)
        shares.append(_hits(server, rounds))
        server.close()
    for what, ours in shares[0].items():
        result("cached-kept", f"hits, {what}", [ours], [shares[1][what]], "memcached", "%",
               f"gets by Zipf's law of {ETC_TIMES} times as many items of ETC as fit, {KEPT_MIB} MiB; what is not there is "
               f"set, and {ETC_SETS} of 1000 requests are sets; {ETC_REQUESTS} requests each")
    _eviction(rounds)


# ---- The table, without a server ---------------------------------------------------------------

TABLE_MIB = 384
TABLE_ITEMS = 1_000_000
TABLE_NEW = 100_000
# Orders of tables.c, in this order: what is added has to be removed
CALLS = {"get": "lsm_table_get()", "gets": f"lsm_table_get_many(), {BATCH}", "put": "lsm_table_put(), old key",
         "puts": f"lsm_table_put_many(), {BATCH}", "add": "lsm_table_put(), new key", "remove": "lsm_table_remove()",
         "open": "lsm_table_open() that makes the index, of each object"}


def _call(player: Contestant, call: str, seconds: float, new: int, items: int) -> Callable[[], float]:
    amount = {"add": new, "remove": new, "open": items}.get(call, seconds)
    return lambda: float(player.order(call, amount)["ns"])


def _table_player(mode: str, items: int) -> Contestant:
    return Contestant(mode, "-n", str(items), "-s", "100", "-m", str(TABLE_MIB), "-b", str(BATCH))


def tables(rounds: Rounds) -> None:
    """Calls of the table against a hash table in the memory of a process."""
    scale = QUICK if rounds.quick else 1
    items, new = TABLE_ITEMS // scale, TABLE_NEW // scale
    players = {mode: _table_player(mode, items) for mode in ("table", "table-plain")}
    times = rounds.run({f"{call} {mode}": _call(player, call, rounds.seconds, new, items)
                        for call in CALLS for mode, player in players.items()})
    for player in players.values():
        player.close()
    for call, what in CALLS.items():
        result("tables", what, times[f"{call} table"], times[f"{call} table-plain"], "hash table of a process", "ns",
               f"any of {items} items of 100 B, keys of {KEY} B, a store of {TABLE_MIB} MiB, its cleaners on the same "
               f"processor; the other: open addressing, a pointer and memcpy; {new} keys are added and removed; the "
               f"index is made of {items} objects in a store of its own, the other one of as many records in the order of memory",
               most=True)


def profile(sample: Callable[[str, float, Callable[[float], float]], None], seconds: float) -> None:
    """Puts of the table, sampled by the caller."""
    player = _table_player("table", TABLE_ITEMS)
    for call in ("put", "puts"):
        sample(CALLS[call], seconds, lambda length, call=call: 1e9 / _call(player, call, length, 0, 0)())
    player.close()


GROUPS: dict[str, Callable[[Rounds], None]] = {"cached": cached, "cached-durable": durable, "cached-kept": kept,
                                               "tables": tables}
