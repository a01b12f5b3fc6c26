# SPDX-License-Identifier: GPL-2.0
"""Benches of SSDAlloc's programs, with more data than memory: groups of tests/bench/inside."""

import subprocess
import tempfile
from pathlib import Path
from typing import Callable, Optional

from contest import (BATCH, DRIVE_COUNTERS, HERE, Contestant, Durable, Rounds, Store, drive_counter, drives,
                     result, tell, wait, within, written)
from tier import SLOW_IOS, STALL_MS, TURN, hold, memory_group, swap_on

STORE_MIB = 128			# the smallest there is
BUFFER_MIB = 16			# pages of the pool
# The rest of the program: its tables, its page tables, the nodes of the pool.  memcached has a table of its
# slabs as well, each of one object, and buffers.
PROGRAM_MIB = {"array": 32, "btree": 32, "packets": 32, "hash": 32, "memcached": 48}
CAPACITY_MIB = 1024
HANDLES = 1 << 20
ARENA_MIB = 1024
SIZE = 512			# of an element, and of a value of memcached
# Objects of each program. With malloc() they have 370 to 420 MiB.
OBJECTS = {"array": 800_000, "btree": 12_500_000, "packets": 650_000, "hash": 16_000_000,
           "memcached": 650_000}
# Of memcached: its table does not grow, and no thread of its own looks at items.
SERVER = "hashpower=20,no_lru_maintainer,no_lru_crawler"
QUICK = 8			# a quick run has so much less
ORDERS = {"Zipf 0.99": "-z", "any object": "-r"}
PUTS = (50, 500)		# per mille
MIX = (118,)			# of memcached: 4 sets for 30 gets
WHAT = {"array": f"elements of {SIZE} B", "btree": "keys in nodes of 1 KB",
        "packets": "packets of 100 to 1500 B, a quarter of them not in the cache",
        "hash": "keys in buckets of 512 B",
        "memcached": f"items of {SIZE} B, {BATCH} in a request"}


def _pool_mib(program: str) -> int:
    """Memory of the program with the pool."""
    return BUFFER_MIB + PROGRAM_MIB[program]


def _memory_mib(program: str) -> int:
    """What the others have: the store, its handles of 8 bytes, and what the program with the pool has."""
    return STORE_MIB + (HANDLES * 8 >> 20) + _pool_mib(program)


def _puts(program: str) -> tuple[int, ...]:
    return MIX if program == "memcached" else PUTS


def _how(program: str) -> str:
    return (f"one thread; lsmem: {BUFFER_MIB} MiB of pages of a pool of a tiered durable store of "
            f"{STORE_MIB} MiB, the program in a cgroup of {_pool_mib(program)} MiB; the others in one of "
            f"{_memory_mib(program)} MiB: malloc(), swapped, vm.page-cluster 0, and malloc() from a mapped "
            "file, no page read before it is wanted")


class Player:
    """A program of one kind, with its drive, in a memory cgroup."""

    kind = "malloc"
    what = "malloc, swap"

    def __init__(self, drive: str, program: str) -> None:
        self.drive = drive
        self.program = program
        self.group = memory_group(self.kind, self.memory_mib())
        self._player: Optional[Contestant] = None
        self._server: Optional["subprocess.Popen[bytes]"] = None

    def memory_mib(self) -> int:
        """Memory of its cgroup."""
        return _memory_mib(self.program)

    def begin(self, objects: int, order: str) -> None:
        """Makes the objects."""
        self.hold(None)
        common = ("-n", str(objects), "-s", str(SIZE), "-b", str(BATCH), order)
        if self.program == "memcached":
            self._player = Contestant("memcached", *common, "-p", str(self._serve()))
        else:
            program = str(HERE / "build" / f"{self.program}-{self.kind}")
            self._player = Contestant("run", *common, *self.options(), group=self.group,
                                      program=(*self.before(), program))

    def _serve(self) -> Path:
        """Starts memcached. Returns its socket."""
        path = Path(tempfile.mkdtemp(prefix="lsmem-bench.")) / "socket"
        program = str(HERE / "build" / "memcached" / "memcached")
        self._server = subprocess.Popen(
            [*within(self.group), *self.before(), program, "-u", "root", "-s", str(path), "-t", "1",
             "-m", str(ARENA_MIB), "-o", SERVER, *self.server_options()])
        wait("memcached", path.exists)
        return path

    def options(self) -> tuple[str, ...]:
        """More options of the program."""
        return ()

    def server_options(self) -> tuple[str, ...]:
        """More options of memcached."""
        return ()

    def before(self) -> tuple[str, ...]:
        """Words before the program."""
        return ()

    def hold(self, ios: Optional[int]) -> None:
        """Bounds the requests to the drive."""
        hold(self.group, self.drive, ios)

    def turn(self, seconds: float, puts: int, ios: Optional[int]) -> float:
        """Operations a second."""
        assert self._player is not None
        self._player.order("writes", puts)
        self.hold(ios)
        return self._player.round(seconds, 1)

    def end(self) -> None:
        """Checks all objects, and frees them."""
        assert self._player is not None
        self.hold(None)
        self._player.order("check")
        self._player.close()
        if self._server:
            self._server.terminate()
            self._server.wait()

    def close(self) -> None:
        """Gives the drive back."""


class Swapped(Player):
    """malloc(), and its pages are swapped."""

    def __init__(self, drive: str, program: str) -> None:
        super().__init__(drive, program)
        self._cluster = Path("/proc/sys/vm/page-cluster")
        self._before = self._cluster.read_text()
        self._cluster.write_text("0")	# no page is read before it is wanted
        swap_on(drive)

    def close(self) -> None:
        subprocess.run(["swapoff", self.drive], check=True)
        self._cluster.write_text(self._before)


class Mapped(Player):
    """malloc() from a mapped file of ext4."""

    kind = "mapped"
    what = "mapped file, ext4"

    def __init__(self, drive: str, program: str) -> None:
        super().__init__(drive, program)
        self._mounted = Path(tempfile.mkdtemp(prefix="lsmem-bench."))
        # As with MADV_RANDOM, which memcached does not ask for.
        (Path("/sys/block") / Path(drive).resolve().name / "queue/read_ahead_kb").write_text("0")
        subprocess.run(["mkfs.ext4", "-q", "-F", drive], check=True)
        subprocess.run(["mount", drive, str(self._mounted)], check=True)

    def before(self) -> tuple[str, ...]:
        return ("env", f"ARENA={self._mounted}/arena", f"ARENA_MIB={ARENA_MIB}")

    def server_options(self) -> tuple[str, ...]:
        return ("-e", str(self._mounted / "arena"))

    def end(self) -> None:
        super().end()
        (self._mounted / "arena").unlink()

    def close(self) -> None:
        subprocess.run(["umount", str(self._mounted)], check=True)
        self._mounted.rmdir()


class Pool(Player):
    """A pool of a store with a tier."""

    kind = "lsmem"

    def __init__(self, drive: str, program: str) -> None:
        super().__init__(drive, program)
        self._daemons = memory_group("daemon")
        self._store: Optional[Durable] = None

    def memory_mib(self) -> int:
        return _pool_mib(self.program)

    def begin(self, objects: int, order: str) -> None:
        hold(self._daemons, self.drive, None)
        self._store = Durable("object", "lsmem", [self.drive], STORE_MIB, self._daemons,
                              capacity=CAPACITY_MIB, handles=HANDLES)
        self._store.start("--format", "--force")
        Store("lsmem").set("limits/stall_ms", STALL_MS)
        super().begin(objects, order)

    def options(self) -> tuple[str, ...]:
        assert self._store is not None
        return ("-p", self._store.device, "-m", str(BUFFER_MIB))

    def before(self) -> tuple[str, ...]:
        assert self._store is not None
        return ("env", f"LSMEM_STORE={self._store.device}", f"LSMEM_BUFFER={BUFFER_MIB << 20}")

    def hold(self, ios: Optional[int]) -> None:
        hold(self._daemons, self.drive, ios)

    def end(self) -> None:
        super().end()
        assert self._store is not None
        self._store.close()


def _turn(player: Player, seconds: float, puts: int, ios: Optional[int]) -> Callable[[], float]:
    return lambda: player.turn(seconds, puts, ios)


def _results(program: str, order: str, ios: Optional[int], players: list[Player],
             rates: dict[tuple[str, int], list[float]], objects: int) -> None:
    held = f"drive held to {ios} reads and writes a second" if ios else "drive not held"
    for puts in _puts(program):
        for other in players[1:]:
            result(program, f"{order}, {puts / 10:g} % puts, {held}", rates["lsmem", puts],
                   rates[other.kind, puts], other.what, "op/s", f"{objects} {WHAT[program]}, {_how(program)}")


def _traffic(program: str, order: str, players: list[Player], seconds: float) -> None:
    """What an operation needs of the drive: counts, which other work on the machine changes little."""
    each: dict[tuple[str, str], float] = {}
    puts = _puts(program)[-1]
    for player in players:
        written(player.drive)
        before = {what: drive_counter(player.drive, what) for what in DRIVE_COUNTERS}
        operations = player.turn(seconds, puts, None) * seconds
        written(player.drive)
        for what in DRIVE_COUNTERS:
            each[what, player.kind] = (drive_counter(player.drive, what) - before[what]) / operations
    for what in DRIVE_COUNTERS:
        for other in players[1:]:
            if each[what, other.kind]:
                result(program, f"{order}, {puts / 10:g} % puts, for each: {what} of the drive",
                       [each[what, "lsmem"]], [each[what, other.kind]], other.what, "",
                       "counted in one turn, until all is written", most=True)


def _program(program: str, rounds: Rounds) -> None:
    large, swap, files = drives(("large", "objects", "whole"))
    objects = OBJECTS[program] // (QUICK if rounds.quick else 1)
    players = [Pool(large, program), Swapped(swap, program), Mapped(files, program)]
    seconds = rounds.seconds * TURN
    for order, option in ORDERS.items():
        for player in players:
            tell(kind="progress", text=f"{program}: {order}, {player.kind}")
            player.begin(objects, option)
        for ios in (None, SLOW_IOS):
            rates = rounds.run({(player.kind, puts): _turn(player, seconds, puts, ios)
                                for puts in _puts(program) for player in players})
            _results(program, order, ios, players, rates, objects)
        _traffic(program, order, players, seconds)
        for player in players:
            player.end()
    for player in players:
        player.close()


def _group(program: str) -> Callable[[Rounds], None]:
    return lambda rounds: _program(program, rounds)


GROUPS: dict[str, Callable[[Rounds], None]] = {program: _group(program) for program in OBJECTS}
