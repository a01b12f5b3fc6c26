# SPDX-License-Identifier: GPL-2.0
"""Bench of stores whose capacity is larger than their memory: a group of tests/bench/inside."""

import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Callable, Optional

from backups import DRIVE_MBS, slow_group
from contest import (BATCH, Contestant, Durable, Rounds, Store, destroy, drives, fio, module, result,
                     sequential_read, tell, wait, within, written)

MEMORY_MIB = 128
CAPACITY_MIB = 8 * MEMORY_MIB
FITS_MIB = 256		# of a store whose tier is not needed
RAW_MIB = 128
RESTART_MIB = 512
RESTART_NEW = 6000	# objects between two restarts
SIZE = 1024
HOT_TARGET = 0.5
COLD_TARGET = 0.9
FITS_TARGET = 0.98
FIRST_TARGET = 0.1
RESIDENT_TARGET = 1.2
TURN = 5		# a turn is so many times as long: what is in memory has to settle


def _turn(player: Contestant, seconds: float) -> Callable[[], float]:
    return lambda: player.round(seconds, 1)


def _timed(seconds: float) -> list[str]:
    return ["--time_based", f"--runtime={round(seconds * 1000)}ms", "--norandommap"]


def _random_reads(path: str, seconds: float) -> float:
    """Random reads of 4 KiB a second, as many in flight as objects in a call."""
    job = fio(path, "--rw=randread", "--bs=4k", f"--iodepth={BATCH}", "--readonly",
              f"--size={RAW_MIB}M", *_timed(seconds))
    return float(job["read"]["iops"])


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
    objects_nr = (FITS_MIB << 20) * 65 // 100 // SIZE
    for store in (tiered, plain):
        store.start("--format", "--force")
        players[store.store] = Contestant("mixed", "-s", str(SIZE), "-n", str(objects_nr), "-b",
                                          str(BATCH), "-z", "-p", store.device)
    seconds = rounds.seconds * TURN
    rates = rounds.run({name: _turn(player, seconds) for name, player in players.items()})
    for player in players.values():
        player.close()
    for store in (tiered, plain):
        store.close()
    result("tier", "Zipf 0.99, 95 % reads, all fits in memory", rates["lsmem"], rates["lsmem1"],
           "no tier", "op/s", f"1 KB objects, 65 % of {FITS_MIB} MiB without headers, batches of {BATCH}; a "
           "tiered store whose capacity is twice its memory against a durable store without",
           FITS_TARGET)


def _restarted(store: Durable, end: str) -> float:
    """Ends the daemon and the store, and starts again. Returns the time until an object was read.

    There are a few new objects before, so that a segment is open that has data.
    """
    Contestant("mixed", "-s", str(SIZE), "-n", str(RESTART_NEW), "-b", str(BATCH), "-p",
               store.device).close()
    (store.stop if end == "stop" else store.kill)()
    destroy(store.store, "--force")
    begin = time.monotonic()
    store.start()
    Contestant("first", "-s", str(SIZE), "-p", store.device).close()
    return time.monotonic() - begin


def _filled(drive: str, group: Path, capacity: int) -> Durable:
    store = Durable("object", "lsmem", [drive], RESTART_MIB, group, capacity=capacity)
    store.start("--format", "--force")
    Contestant("mixed", "-s", str(SIZE), "-l", "700", "-b", str(BATCH), "-p", store.device).close()
    return store


def restart(rounds: Rounds) -> None:
    """From the start of the daemon to the first read, and until all is in memory."""
    drive, = drives(("large",))
    group = slow_group([drive])
    first: dict[str, list[float]] = {"stop": [], "crash": []}
    loaded: list[float] = []
    resident: list[float] = []
    reading: list[float] = []
    store = _filled(drive, group, 0)
    for number in range(rounds.rounds):
        tell(kind="progress", text=f"restart: {number + 1} of {rounds.rounds}, without a tier")
        loaded.append(_restarted(store, "stop"))
        size = store.status()["recovered_bytes"]
        reading.append(size / 1e6 / sequential_read(drive, size, group))
    store.stop()
    destroy(store.store, "--force")
    store = _filled(drive, group, RESTART_MIB)
    for number in range(rounds.rounds):
        for end, times in first.items():
            tell(kind="progress", text=f"restart: {number + 1} of {rounds.rounds}, {end}")
            times.append(_restarted(store, end))
            begin = time.monotonic() - times[-1]
            wait("all to be in memory", lambda: not store.number("tier/warm_segments"))
            if end == "stop":
                resident.append(time.monotonic() - begin)
    store.stop()
    destroy(store.store, "--force")
    how = (f"{RESTART_MIB} MiB of memory, 70 % live, objects of 1 KB; a drive held to {DRIVE_MBS} MB/s; "
           "from the start of lsmemd")
    for end, times in first.items():
        result("restart", f"first read after a {end}, capacity = size", times, reading,
               "reading the store", "s", f"{how}; fio reads as many bytes, 1 MiB, depth 8", FIRST_TARGET,
               most=True)
    result("restart", "first read after a stop, capacity = size", first["stop"], loaded,
           "a store without a tier", "s", how, most=True)
    result("restart", "all in memory after a stop, capacity = size", resident, loaded,
           "a store without a tier", "s", how, RESIDENT_TARGET, most=True)


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
EXT_SIZES = (1024, 4096)	# of memcached: what it keeps of each object has to fit into memory
EXT_ITEMS_MIB = 96
ZRAM_MIB = MEMORY_MIB // 2	# the other half is the program's
ZRAM_STEP = 0.02		# seconds between two looks at what it has
STALL_MS = 60000
SWAP_TARGET = 4.3
PAGES_TARGET = 1.3
WRITTEN_TARGET = 1 / 16
CGROUPS = Path("/sys/fs/cgroup")


def memory_group(name: str, mib: int = 0) -> Path:
    """Makes a cgroup that has so much memory. 0: no bound."""
    if not (CGROUPS / "cgroup.controllers").exists():
        subprocess.run(["mount", "-t", "cgroup2", "none", str(CGROUPS)], check=True)
    if "memory" not in (CGROUPS / "cgroup.controllers").read_text().split():
        raise RuntimeError("the kernel has no memory cgroups: --kernel uml-rivals")
    (CGROUPS / "cgroup.subtree_control").write_text("+io +memory")
    group = CGROUPS / f"lsmem-bench-{name}"
    group.mkdir(exist_ok=True)
    if mib:
        (group / "memory.max").write_text(f"{mib}M")
    return group


def hold(group: Path, drive: str, ios: Optional[int]) -> None:
    """Bounds the requests of a cgroup to a drive. None: no bound."""
    device = os.stat(drive).st_rdev
    most = ios or "max"
    (group / "io.max").write_text(f"{os.major(device)}:{os.minor(device)} riops={most} wiops={most}")


class Paged:
    """One of the contestants, with its drive: objects of one size, in 128 MiB of memory."""

    options: tuple[str, ...] = ()

    def __init__(self, name: str, drive: str, mib: int = MEMORY_MIB) -> None:
        self.name = name
        self.drive = drive
        self.group = memory_group(name, mib + PROGRAM_MIB if mib else 0)
        self._player: Optional[Contestant] = None

    def begin(self, size: int, *options: str) -> None:
        """Makes the objects."""
        hold(self.group, self.drive, None)
        self._player = self.make(size, ("-s", str(size), "-n", str(PAGED_BYTES // size), "-b",
                                        str(BATCH), *options))

    def make(self, size: int, options: tuple[str, ...]) -> Contestant:
        """The program with the objects."""
        return Contestant("array", *options, *self.options, group=self.group)

    def turn(self, seconds: float, writes: int, ios: Optional[int]) -> float:
        """Operations a second."""
        assert self._player is not None
        self._player.order("writes", writes)
        hold(self.group, self.drive, ios)
        return self._player.round(seconds, 1)

    def end(self) -> None:
        """Frees the objects."""
        assert self._player is not None
        self._player.close()

    def close(self) -> None:
        """Gives the drive back."""


class Tiered(Paged):
    """A store with a tier."""

    def __init__(self, drive: str) -> None:
        super().__init__("lsmem", drive, 0)
        self._store: Optional[Durable] = None

    def make(self, size: int, options: tuple[str, ...]) -> Contestant:
        self._store = Durable("object", "lsmem", [self.drive], MEMORY_MIB, self.group,
                              capacity=CAPACITY_MIB)
        self._store.start("--format", "--force")
        # The others write gigabytes to the same machine, whose flushes take seconds then.
        Store("lsmem").set("limits/stall_ms", STALL_MS)
        return Contestant("mixed", *options, "-p", self._store.device)

    def end(self) -> None:
        super().end()
        assert self._store is not None
        self._store.close()


class Mapped(Paged):
    """An array in a mapped drive."""

    def __init__(self, drive: str) -> None:
        super().__init__("mmap", drive)
        self.options = ("-p", drive)


class Swap(Paged):
    """An array whose pages are swapped."""

    def __init__(self, drive: str) -> None:
        super().__init__("swap", drive)
        swap_on(drive)

    def close(self) -> None:
        subprocess.run(["swapoff", self.drive], check=True)


def swap_on(drive: str) -> None:
    """Makes a drive swap space."""
    subprocess.run(["mkswap", drive], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["swapon", drive], check=True)


class Zram(Paged):
    """An array whose pages are swapped to zram, which writes them to its drive.

    zram writes back when it is told to, and what it is told: the incompressible pages, whenever it has
    more than its half of the memory.
    """

    def __init__(self, drive: str) -> None:
        super().__init__("zram", drive, MEMORY_MIB - ZRAM_MIB)
        module("zram", "num_devices=1")
        self._sys = Path("/sys/block/zram0")
        (self._sys / "backing_dev").write_text(os.path.realpath(drive))
        (self._sys / "disksize").write_text(f"{PAGED_BYTES * 5 // 4}")
        swap_on("/dev/zram0")
        self.most = 0
        self._ended = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def _keep(self) -> None:
        while not self._ended.wait(ZRAM_STEP):
            used = int((self._sys / "mm_stat").read_text().split()[2])
            self.most = max(self.most, used)
            if used > ZRAM_MIB << 20:
                (self._sys / "writeback").write_text("huge")

    def close(self) -> None:
        self._ended.set()
        self._keeper.join()
        subprocess.run(["swapoff", "/dev/zram0"], check=True)
        (self._sys / "reset").write_text("1")


class ExtStore(Paged):
    """memcached, with a file for what its memory does not hold."""

    def __init__(self, drive: str) -> None:
        super().__init__("extstore", drive)
        self._scratch = Path(tempfile.mkdtemp(prefix="lsmem-bench."))
        self._server: Optional["subprocess.Popen[bytes]"] = None
        subprocess.run(["mkfs.ext4", "-q", "-F", drive], check=True)
        (self._scratch / "files").mkdir()
        subprocess.run(["mount", drive, str(self._scratch / "files")], check=True)

    def make(self, size: int, options: tuple[str, ...]) -> Contestant:
        path = self._scratch / "socket"
        self._server = subprocess.Popen(
            [*within(self.group), "memcached", "-u", "root", "-s", str(path), "-t", "1", "-m",
             str(EXT_ITEMS_MIB), "-o", f"ext_path={self._scratch}/files/objects:{CAPACITY_MIB}M"])
        wait("memcached", path.exists)
        return Contestant("memcached", *options, "-p", str(path))

    def missed(self) -> int:
        """Objects that were not there since the last call."""
        assert self._player is not None
        return int(self._player.order("missed")["missed"])

    def end(self) -> None:
        super().end()
        assert self._server is not None
        self._server.terminate()
        self._server.wait()
        for path in (self._scratch / "socket", self._scratch / "files/objects"):
            path.unlink()

    def close(self) -> None:
        subprocess.run(["umount", str(self._scratch / "files")], check=True)


def paging(rounds: Rounds) -> None:
    """Objects against pages that are swapped, a mapped drive, and a server with a file."""
    large, *others = drives(("large", "objects", "whole", "zram", "extstore"))
    makers = (Swap, Mapped, Zram, ExtStore)
    tiered = Tiered(large)
    rivals = [make(drive) for make, drive in zip(makers, others)]
    for order, option in (("Zipf 0.99", "-z"), ("any object", "-r")):
        for size in PAGED_SIZES:
            tell(kind="progress", text=f"paging: {order}, {size} B")
            players = [tiered, *(rival for rival in rivals
                                 if rival.name != "extstore" or size in EXT_SIZES)]
            _paged_size(rounds, players, order, option, size)
    for player in (tiered, *rivals):
        player.close()


def _paged_size(rounds: Rounds, players: list[Paged], order: str, option: str, size: int) -> None:
    """All mixes of reads and writes."""
    seconds = rounds.seconds * TURN
    for player in players:
        player.begin(size, option)
        player.turn(seconds * WARM if player.name == "lsmem" else seconds, 1000, None)
    for ios in (None, SLOW_IOS):
        # The kernel's threads read and write for zram, and they are not held.
        turning = [player for player in players if not ios or player.name != "zram"]
        rates = rounds.run({(player.name, writes): _paged_turn(player, seconds, writes, ios)
                            for writes in MIXES for player in turning})
        _paged_results(order, size, ios, turning, rates)
    if order == "any object":
        _bytes_written(players, size, seconds)
    for player in players:
        player.end()


def _paged_turn(player: Paged, seconds: float, writes: int, ios: Optional[int]) -> Callable[[], float]:
    return lambda: player.turn(seconds, writes, ios)


# What each of the others is
PAGED_HOW = {
    "swap": f"an array in a cgroup of {MEMORY_MIB + PROGRAM_MIB} MiB",
    "mmap": "an array in a mapped drive, in such a cgroup",
    "zram": f"an array in a cgroup of {MEMORY_MIB - ZRAM_MIB + PROGRAM_MIB} MiB, swapped to a zram that is "
            f"told to write back its incompressible pages, which are all, when it has {ZRAM_MIB} MiB",
    "extstore": f"memcached in a cgroup of {MEMORY_MIB + PROGRAM_MIB} MiB, {EXT_ITEMS_MIB} MiB of them for "
                f"objects, and a file of {CAPACITY_MIB} MiB; an object that it has dropped is no operation",
}
PAGED_TARGETS = {"swap": SWAP_TARGET, "mmap": PAGES_TARGET, "zram": SWAP_TARGET}


def _paged_results(order: str, size: int, ios: Optional[int], players: list[Paged],
                   rates: dict[tuple[str, int], list[float]]) -> None:
    drive = f"drive held to {ios} reads and writes a second" if ios else "drive not held"
    notes = {player.name: f"; {player.missed()} objects were missed" if isinstance(player, ExtStore) else
             f"; it had {player.most >> 20} MiB at most" if isinstance(player, Zram) else ""
             for player in players}
    for writes in MIXES:
        for name in (player.name for player in players if player.name != "lsmem"):
            result("paging", f"{size} B, {order}, {writes / 10:g} % writes, {drive}", rates["lsmem", writes],
                   rates[name, writes], name, "op/s",
                   f"{PAGED_BYTES >> 20} MiB of objects in {MEMORY_MIB} MiB of memory, one thread, "
                   f"batches of {BATCH}; {name}: {PAGED_HOW[name]}{notes[name]}",
                   PAGED_TARGETS.get(name))


def _bytes_written(players: list[Paged], size: int, seconds: float) -> None:
    """Bytes that reach the drive for each write, cleaning included."""
    each: dict[str, float] = {}
    for player in players:
        before = written(player.drive)
        rate = player.turn(seconds * TURN, 1000, None)
        each[player.name] = (written(player.drive) - before) / (rate * seconds * TURN)
    for name in (player.name for player in players if player.name != "lsmem" and each[player.name]):
        result("paging", f"{size} B, any object, written to the drive for each write", [each["lsmem"]],
               [each[name]], name, "B", "one turn of writes; the log is full, and is cleaned",
               WRITTEN_TARGET if size == 128 else None, most=True)


# ---- Disks ---------------------------------------------------------------------------------------

DISK_MIB = 4 * MEMORY_MIB
FIO_MIB = 400
DISK_DEPTH = 16
DISK_TARGET = 1.0
PATTERNS = {
    "random read": ("--rw=randread", "--bs=4k"),
    "random read, Zipf 0.99": ("--rw=randread", "--bs=4k", "--random_distribution=zipf:0.99"),
    "70 % reads, Zipf 0.99": ("--rw=randrw", "--rwmixread=70", "--bs=4k",
                              "--random_distribution=zipf:0.99"),
    "random write": ("--rw=randwrite", "--bs=4k"),
    "sequential read": ("--rw=read", "--bs=64k"),
    "sequential write": ("--rw=write", "--bs=64k"),
}


def _disk_turn(path: str, pattern: tuple[str, ...], seconds: float, group: Path) -> Callable[[], float]:
    def turn() -> float:
        job = fio(path, *pattern, f"--iodepth={DISK_DEPTH}", f"--size={FIO_MIB}M", *_timed(seconds),
                  group=group)
        return float(job["read"]["iops"] + job["write"]["iops"])
    return turn


def caching(rounds: Rounds) -> None:
    """A disk of four times its memory against dm-writecache with as much memory."""
    drive, origin = drives(("large", "whole"))
    module("brd", "rd_nr=1", f"rd_size={MEMORY_MIB << 10}")
    sectors = DISK_MIB << 11
    subprocess.run(["dmsetup", "create", "lsmem-bench", "--table",
                    f"0 {sectors} writecache s {origin} /dev/ram0 4096 0"], check=True)
    subprocess.run(["dmsetup", "mknodes", "lsmem-bench"], check=True)
    group = memory_group("caching")
    store = Durable("block", "lsmemb0", [drive], MEMORY_MIB, group, capacity=DISK_MIB)
    store.start("--format", "--force")
    paths = {"lsmem": store.device, "dm-writecache": "/dev/mapper/lsmem-bench"}
    for path in paths.values():
        fio(path, "--rw=write", "--bs=1M", "--iodepth=4", f"--size={FIO_MIB}M")
    for ios in (None, SLOW_IOS):
        for device in (drive, origin):
            hold(group, device, ios)
        _caching_results(ios, rounds.run({
            (name, pattern): _disk_turn(path, options, rounds.seconds * TURN, group)
            for pattern, options in PATTERNS.items() for name, path in paths.items()}))
    store.close()
    subprocess.run(["dmsetup", "remove", "lsmem-bench"], check=True)


def _caching_results(ios: Optional[int], rates: dict[tuple[str, str], list[float]]) -> None:
    held = f", drive held to {ios} reads and writes a second" if ios else ""
    for pattern in PATTERNS:
        result("caching", pattern + held, rates["lsmem", pattern], rates["dm-writecache", pattern],
               "dm-writecache", "io/s",
               f"fio, libaio, direct, depth {DISK_DEPTH}, over {FIO_MIB} MiB; a disk of {DISK_MIB} MiB in "
               f"{MEMORY_MIB} MiB of memory; dm-writecache: an equal drive and a brd of {MEMORY_MIB} MiB; what it writes back is not held",
               DISK_TARGET)
