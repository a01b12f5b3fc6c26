# SPDX-License-Identifier: GPL-2.0
"""Bench of stores whose capacity is larger than their memory: a group of tests/bench/inside."""

import json
import os
import subprocess
from pathlib import Path
from typing import Callable, Optional

from contest import BATCH, Contestant, Durable, Rounds, drives, result, tell

MEMORY_MIB = 128
CAPACITY_MIB = 8 * MEMORY_MIB
FITS_MIB = 256		# of a store whose tier is not needed
RAW_MIB = 128
SIZE = 1024
HOT_TARGET = 0.5
COLD_TARGET = 0.9
FITS_TARGET = 0.98
TURN = 5		# a turn is so many times as long: what is in memory has to settle


def _turn(player: Contestant, seconds: float) -> Callable[[], float]:
    return lambda: player.round(seconds, 1)


def _random_reads(path: str, seconds: float) -> float:
    """Random reads of 4 KiB a second, as many in flight as objects in a call."""
    done = subprocess.run(
        ["fio", "--name=read", f"--filename={path}", "--rw=randread", "--bs=4k", "--direct=1",
         "--ioengine=libaio", f"--iodepth={BATCH}", "--norandommap", "--readonly", "--thread",
         f"--size={RAW_MIB}M", "--time_based", f"--runtime={round(seconds * 1000)}ms",
         "--output-format=json"], check=True, text=True, stdout=subprocess.PIPE)
    report = json.loads(done.stdout[done.stdout.index("{"):])
    return float(report["jobs"][0]["read"]["iops"])


def profile(sample: Callable[[str, float, Callable[[float], float]], None], seconds: float) -> None:
    """Reads and writes of a store of 8 times its memory, sampled by the caller."""
    drive, = drives(("large",))
    store = Durable("object", "lsmem", [drive], MEMORY_MIB, capacity=CAPACITY_MIB)
    store.start("--format", "--force")
    player = Contestant("mixed", "-s", str(SIZE), "-l", "800", "-b", str(BATCH), "-z", "-p",
                        store.device)
    sample("Zipf 0.99, 95 % reads of 1 KB, memory 1/8 of the store", seconds,
           lambda length: player.round(length, 1))
    player.close()
    store.close()


def _more_than_memory(rounds: Rounds) -> None:
    large, other, raw = drives(("large", "whole", "raw"))
    tiered = Durable("object", "lsmem", [large], MEMORY_MIB, capacity=CAPACITY_MIB)
    whole = Durable("object", "lsmem1", [other], CAPACITY_MIB)
    for store in (tiered, whole):
        store.start("--format", "--force")
    common = ("-s", str(SIZE), "-l", "800", "-b", str(BATCH))
    players = {"mixed": Contestant("mixed", *common, "-z", "-p", tiered.device),
               "in memory": Contestant("mixed", *common, "-z", "-p", whole.device)}
    seconds = rounds.seconds * TURN
    rates = rounds.run({name: _turn(player, seconds) for name, player in players.items()})
    for player in players.values():
        player.close()
    how = (f"1 KB objects, 80 % of a store of {CAPACITY_MIB} MiB live, batches of {BATCH}; backup: "
           "a file on the host, as fast as its page cache")
    result("tier", "Zipf 0.99, 95 % reads, memory 1/8 of the store", rates["mixed"],
           rates["in memory"], "all in memory", "op/s", f"{how}; lsm_read_many and vector calls",
           HOT_TARGET)
    whole.close()
    tiered.close()


def _cold(rounds: Rounds) -> None:
    """Nearly every read misses: the drive is the limit, or what is between."""
    drive, raw = drives(("large", "raw"))
    subprocess.run(["dd", "if=/dev/urandom", f"of={raw}", "bs=1M", f"count={RAW_MIB}",
                    "oflag=direct"], check=True, stderr=subprocess.DEVNULL)
    store = Durable("object", "lsmem", [drive], MEMORY_MIB, capacity=CAPACITY_MIB)
    store.start("--format", "--force")
    player = Contestant("read-many", "-s", str(SIZE), "-l", "800", "-b", str(BATCH), "-r", "-p",
                        store.device)
    seconds = rounds.seconds * TURN
    rates = rounds.run({"cold": _turn(player, seconds),
                        "raw": lambda: _random_reads(raw, seconds)})
    player.close()
    store.close()
    result("tier", "random reads of 1 KB, memory 1/8 of the store", rates["cold"], rates["raw"],
           "fio on the drive", "op/s",
           f"lsm_read_many of {BATCH}, any object; fio: random reads of 4 KiB, depth {BATCH}, direct",
           COLD_TARGET)


def _not_needed(rounds: Rounds) -> None:
    """What a tier costs when all objects are in memory."""
    objects, blocks = drives(("objects", "blocks"))
    tiered = Durable("object", "lsmem", [objects], FITS_MIB, capacity=2 * FITS_MIB)
    plain = Durable("object", "lsmem1", [blocks], FITS_MIB)
    players = {}
    for store, live in ((tiered, 350), (plain, 700)):
        store.start("--format", "--force")
        players[store.store] = Contestant("mixed", "-s", str(SIZE), "-l", str(live), "-b",
                                          str(BATCH), "-z", "-p", store.device)
    seconds = rounds.seconds * TURN
    rates = rounds.run({name: _turn(player, seconds) for name, player in players.items()})
    for player in players.values():
        player.close()
    for store in (tiered, plain):
        store.close()
    result("tier", "Zipf 0.99, 95 % reads, all fits in memory", rates["lsmem"], rates["lsmem1"],
           "no tier", "op/s", f"1 KB objects, 70 % of {FITS_MIB} MiB live, batches of {BATCH}; a "
           "tiered store whose capacity is twice its memory against a durable store without",
           FITS_TARGET)


def tier(rounds: Rounds) -> None:
    """Objects that are not in memory, and what the tier costs where all are."""
    _more_than_memory(rounds)
    _cold(rounds)
    _not_needed(rounds)


# ---- Against pages -------------------------------------------------------------------------------

PAGED_BYTES = 800 << 20		# of all objects together
PROGRAM_MIB = 8			# of a contestant beside its objects
PAGED_SIZES = (128, 512, 1024, 4096)
MIXES = (0, 250, 500, 750, 1000)	# writes, per mille
SLOW_IOS = 8000			# of a held drive, a second, reads and writes each
WARM = 30			# a turn of writes only is so many times as long, until the log is full
SWAP_TARGET = 4.3
PAGES_TARGET = 1.3
WRITTEN_TARGET = 1 / 16
CGROUPS = Path("/sys/fs/cgroup")


def _group(name: str) -> Path:
    if not (CGROUPS / "cgroup.controllers").exists():
        subprocess.run(["mount", "-t", "cgroup2", "none", str(CGROUPS)], check=True)
    if "memory" not in (CGROUPS / "cgroup.controllers").read_text().split():
        raise RuntimeError("the kernel has no memory cgroups: --kernel uml-rivals")
    (CGROUPS / "cgroup.subtree_control").write_text("+io +memory")
    group = CGROUPS / f"lsmem-bench-{name}"
    group.mkdir(exist_ok=True)
    return group


def _hold(group: Path, drive: str, ios: Optional[int]) -> None:
    """Bounds the requests of a cgroup to a drive. None: no bound."""
    device = os.stat(drive).st_rdev
    most = ios or "max"
    (group / "io.max").write_text(f"{os.major(device)}:{os.minor(device)} riops={most} wiops={most}")


def _written(drive: str) -> int:
    """Bytes that were written to a drive."""
    stat = Path("/sys/block") / Path(drive).resolve().name / "stat"
    return int(stat.read_text().split()[6]) * 512


class Paged:
    """One of the contestants, with its drive: objects of one size, in 128 MiB of memory."""

    def __init__(self, name: str, drive: str) -> None:
        self.name = name
        self.drive = drive
        self.group = _group(name)
        self._store: Optional[Durable] = None
        self._player: Optional[Contestant] = None
        if name == "lsmem":
            return
        (self.group / "memory.max").write_text(f"{MEMORY_MIB + PROGRAM_MIB}M")
        if name == "swap":
            subprocess.run(["mkswap", drive], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["swapon", drive], check=True)

    def begin(self, size: int, *options: str) -> None:
        """Makes the objects."""
        common = ("-s", str(size), "-n", str(PAGED_BYTES // size), "-b", str(BATCH), *options)
        _hold(self.group, self.drive, None)
        if self.name == "lsmem":
            self._store = Durable("object", "lsmem", [self.drive], MEMORY_MIB, self.group,
                                  capacity=CAPACITY_MIB)
            self._store.start("--format", "--force")
            self._player = Contestant("mixed", *common, "-p", self._store.device)
        else:
            where = ("-p", self.drive) if self.name == "mmap" else ()
            self._player = Contestant("array", *common, *where, group=self.group)

    def turn(self, seconds: float, writes: int, ios: Optional[int]) -> float:
        """Operations a second."""
        assert self._player is not None
        self._player.order("writes", writes)
        _hold(self.group, self.drive, ios)
        return self._player.round(seconds, 1)

    def end(self) -> None:
        """Frees the objects."""
        assert self._player is not None
        self._player.close()
        if self._store is not None:
            self._store.close()

    def close(self) -> None:
        """Gives the drive back."""
        if self.name == "swap":
            subprocess.run(["swapoff", self.drive], check=True)


def paging(rounds: Rounds) -> None:
    """Objects against pages that are swapped, and against a mapped drive."""
    players = [Paged(name, drive)
               for name, drive in zip(("lsmem", "swap", "mmap"), drives(("large", "objects", "whole")))]
    seconds = rounds.seconds * TURN
    for order, option in (("Zipf 0.99", "-z"), ("any object", "-r")):
        for size in PAGED_SIZES:
            tell(kind="progress", text=f"paging: {order}, {size} B")
            for player in players:
                player.begin(size, option)
                player.turn(seconds * WARM if player.name == "lsmem" else seconds, 1000, None)
            for ios in (None, SLOW_IOS):
                rates = rounds.run({(player.name, writes): _paged_turn(player, seconds, writes, ios)
                                    for writes in MIXES for player in players})
                _paged_results(order, size, ios, rates)
            if order == "any object":
                _bytes_written(players, size, seconds)
            for player in players:
                player.end()
    for player in players:
        player.close()


def _paged_turn(player: Paged, seconds: float, writes: int, ios: Optional[int]) -> Callable[[], float]:
    return lambda: player.turn(seconds, writes, ios)


def _paged_results(order: str, size: int, ios: Optional[int],
                   rates: dict[tuple[str, int], list[float]]) -> None:
    drive = f"drive held to {ios} reads and writes a second" if ios else "drive not held"
    for writes in MIXES:
        for name, target in (("swap", SWAP_TARGET), ("mmap", PAGES_TARGET)):
            result("paging", f"{size} B, {order}, {writes / 10:g} % writes, {drive}", rates["lsmem", writes],
                   rates[name, writes], name, "op/s",
                   f"{PAGED_BYTES >> 20} MiB of objects in {MEMORY_MIB} MiB of memory, one thread, "
                   f"batches of {BATCH}; swap: an array in a cgroup of {MEMORY_MIB + PROGRAM_MIB} MiB; "
                   "mmap: an array in a mapped drive, in such a cgroup", target)


def _bytes_written(players: list[Paged], size: int, seconds: float) -> None:
    """Bytes that reach the drive for each write, cleaning included."""
    each: dict[str, float] = {}
    for player in players:
        before = _written(player.drive)
        rate = player.turn(seconds * TURN, 1000, None)
        each[player.name] = (_written(player.drive) - before) / (rate * seconds * TURN)
    for name in ("swap", "mmap"):
        result("paging", f"{size} B, any object, written to the drive for each write", [each["lsmem"]],
               [each[name]], name, "B", "one turn of writes; the log is full, and is cleaned",
               WRITTEN_TARGET if size == 128 else None, most=True)
