# SPDX-License-Identifier: GPL-2.0
"""Benches of ranges of pages in memory and of their syncs: groups of tests/bench/inside."""

import os
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator

from contest import (Contestant, Durable, Rounds, Store, drive_counter, drives, module, result, wait,
                     written)

FAULT_PAGES = 4096
STORE_PAGES = 8192
STORE_MIB = 256
SYNC_PAGES = 4096
SYNCS = (1, 16, 256)		# pages that are dirty
OBJECTS = 1 << 17
SIZE = 128			# of an object
EACH = 256			# objects that change between two syncs
CHANGES = 16 * EACH		# of a turn
SIGNAL_TARGET = 0.6
MINOR_TARGET = 1.2
STORES_TARGET = 0.9
WRITTEN_TARGET = 1 / 16
SYNC_TARGET = 1.5
SYNC_COUNTERS = ("writes", "flushes", "bytes written")
SLOW_MIB = 1088			# of a drive
SLOW_CACHE_MIB = 64
SLOW_SECTORS = 2560		# of a request, at most: what Linux sends to drives that take as much
NULL_BLKS = Path("/sys/kernel/config/nullb")
AROUND = Path("/sys/kernel/debug/fault_around_bytes")
ORDERS = {"in turn": (), "far apart": ("-r",)}


@contextmanager
def _mounted(*options: str) -> Iterator[Path]:
    """A filesystem, as the options of mount say, as long as it is used."""
    with tempfile.TemporaryDirectory(prefix="lsmem-bench.") as name:
        subprocess.run(["mount", *options, name], check=True)
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", name], check=True)


@contextmanager
def _one_page_a_fault() -> Iterator[None]:
    """The kernel maps the neighbours of a page in the page cache, too: not now."""
    if not AROUND.exists():
        subprocess.run(["mount", "-t", "debugfs", "none", "/sys/kernel/debug"], check=True)
    before = AROUND.read_text()
    AROUND.write_text(str(os.sysconf("SC_PAGE_SIZE")))
    try:
        yield
    finally:
        AROUND.write_text(before)


def _turn(player: Contestant, seconds: float) -> Callable[[], float]:
    return lambda: player.round(seconds, 1)


def _faults(rounds: Rounds, tmpfs: Path) -> None:
    """Page faults whose object is in memory, and whose page is not in the page buffer."""
    number = ("-n", str(FAULT_PAGES))
    for order, option in ORDERS.items():
        players = {"object": Contestant("fault", *number, *option),
                   "kept": Contestant("fault-kept", *number, *option),
                   "signal": Contestant("fault-signal", *number, *option),
                   "file": Contestant("fault-file", *number, *option, "-p", str(tmpfs / "faults"))}
        rates = rounds.run({name: _turn(player, rounds.seconds) for name, player in players.items()})
        for player in players.values():
            player.close()
        times = {name: [1e9 / rate for rate in values] for name, values in rates.items()}
        how = (f"reads of each of {FAULT_PAGES} pages, {order}; one page for each fault, no read-ahead "
               "(MADV_RANDOM); time each, without that of taking the pages away")
        fetched = "an object in memory, not in the page buffer"
        result("ranges", f"fault, {order}: {fetched}", times["object"], times["signal"],
               "SIGSEGV + mprotect", "ns", f"{how}; the handler calls mprotect() for one page and "
               "copies nothing", SIGNAL_TARGET, most=True)
        result("ranges", f"fault, {order}: {fetched}", times["object"], times["file"],
               "minor fault, tmpfs", "ns", how, MINOR_TARGET, most=True)
        result("ranges", f"fault, {order}: a page of the page buffer", times["kept"], times["file"],
               "minor fault, tmpfs", "ns", how, most=True)


def _stores(rounds: Rounds, tmpfs: Path) -> None:
    options = ("-n", str(STORE_PAGES), "-r")
    players = {"region": Contestant("stores", *options),
               "file": Contestant("stores-file", *options, "-p", str(tmpfs / "stores"))}
    rates = rounds.run({name: _turn(player, rounds.seconds * 5) for name, player in players.items()})
    for player in players.values():
        player.close()
    result("ranges", "scattered stores of 8 bytes", rates["region"], rates["file"], "tmpfs", "op/s",
           f"any of {STORE_PAGES * 4 >> 10} MiB, all in the page buffer; the kernel writes the region "
           "back meanwhile, when it finds pages old, and not tmpfs", STORES_TARGET)


def _changes(player: Contestant, so_far: Callable[[], int]) -> Callable[[], float]:
    """A turn whose figure is the bytes that are written for an object that was changed."""
    def turn() -> float:
        before = so_far()
        changes = int(player.order("change", CHANGES)["changes"])
        return (so_far() - before) / changes
    return turn


def _appended(store: Store) -> Callable[[], int]:
    return lambda: store.number("stats/appended_bytes")


def _to(drive: str) -> Callable[[], int]:
    return lambda: written(drive)


OBJECTS_HOW = (f"8 bytes of any of {OBJECTS} objects of {SIZE} B change, {EACH} of them before each "
               f"sync; one object in a page of the pool, {4096 // SIZE} in a page of the other")


def _objects(rounds: Rounds) -> None:
    """What write-back appends for an object that was changed."""
    options = ("-n", str(OBJECTS), "-s", str(SIZE), "-b", str(EACH), "-m", str(STORE_MIB))
    players = {name: Contestant(f"changed-{name}", *options) for name in ("pool", "array")}
    each = rounds.run({name: _changes(player, _appended(player.store()))
                       for name, player in players.items()})
    for player in players.values():
        player.close()
    result("ranges", f"written for an object of {SIZE} B that was changed", each["pool"], each["array"],
           "lsm_array_*", "B", f"{OBJECTS_HOW}; stats/appended_bytes of two volatile stores: entries with "
           "their headers, and the records of groups", WRITTEN_TARGET, most=True)


def _durable_objects(rounds: Rounds, store: Durable, drive: str, mounted: Path, other: str) -> None:
    """What reaches a drive for an object that was changed."""
    options = ("-n", str(OBJECTS), "-s", str(SIZE), "-b", str(EACH), "-m", str(STORE_MIB))
    pool = Contestant("changed-pool", *options, "-p", store.device)
    mapped = Contestant("changed-file", *options, "-p", str(mounted / "objects"))
    each = rounds.run({"pool": _changes(pool, _to(drive)), "file": _changes(mapped, _to(other))})
    for player in (pool, mapped):
        player.close()
    result("ranges", f"to the drive for an object of {SIZE} B that was changed", each["pool"], each["file"],
           "mapped file, ext4", "B", f"{OBJECTS_HOW}; sectors that were written to the drives of a durable "
           "store and of ext4, with their journals, until both are synced", WRITTEN_TARGET, most=True)


def _counted(player: Contestant, seconds: float, drive: str) -> dict[str, float]:
    """What a sync makes of requests to the drive, in one turn."""
    before = {what: drive_counter(drive, what) for what in SYNC_COUNTERS}
    syncs = player.round(seconds, 1) * seconds
    return {what: (drive_counter(drive, what) - before[what]) / syncs for what in SYNC_COUNTERS}


def _syncs(rounds: Rounds, store: Durable, drive: str, mounted: Path, other: str,
           group: str = "ranges", where: str = "") -> None:
    """Pages of an atomic region that become durable together. Stores fault, and write() does not."""
    for nr in SYNCS:
        options = ("-n", str(SYNC_PAGES), "-r", "-b", str(nr))
        players = {"stores": Contestant("msync", *options, "-p", store.device),
                   "write": Contestant("msync-write", *options, "-p", store.device),
                   "file": Contestant("write-sync", *options, "-p", str(mounted / "syncs"))}
        seconds = rounds.seconds * 2
        rates = rounds.run({name: _turn(player, seconds) for name, player in players.items()})
        counts = {name: _counted(player, seconds, other if name == "file" else drive)
                  for name, player in players.items()}
        for player in players.values():
            player.close()
        pages = f"{nr} page{'s' if nr > 1 else ''} of an atomic region{where}"
        how = (f"any pages of {SYNC_PAGES * 4 >> 10} MiB, each written as a whole, by one thread; a durable "
               "store whose backup is one drive; ext4 with data=journal on another")
        result(group, f"stores to {pages}, msync", rates["stores"], rates["file"],
               "write + fdatasync, ext4", "op/s", how, SYNC_TARGET)
        result(group, f"write to {pages}, fdatasync", rates["write"], rates["file"],
               "write + fdatasync, ext4", "op/s", how)
        # A drive that loses nothing gets no flushes.
        for what in (what for what in SYNC_COUNTERS if counts["file"][what]):
            result(group, f"the same msync: {what} of the drive", [counts["stores"][what]],
                   [counts["file"][what]], "write + fdatasync, ext4", "", f"{how}; counted in one turn", most=True)


def ranges(rounds: Rounds) -> None:
    """Ranges of pages: faults, stores, bytes written, syncs."""
    drive, other = drives(("objects", "extstore"))
    with _mounted("-t", "tmpfs", "none") as tmpfs, _one_page_a_fault():
        _faults(rounds, tmpfs)
        _stores(rounds, tmpfs)
    _objects(rounds)
    store = Durable("object", "lsmem", [drive], STORE_MIB)
    store.start("--format", "--force")
    subprocess.run(["mkfs.ext4", "-q", "-F", other], check=True)
    with _mounted(other) as mounted:
        _durable_objects(rounds, store, drive, mounted, other)
    with _mounted("-o", "data=journal", other) as mounted:
        _syncs(rounds, store, drive, mounted, other)
    store.close()


# ---- Drives that take time -----------------------------------------------------------------------

@dataclass(frozen=True)
class Slow:
    """A class of drives, by the time of a request.

    @cached: it acknowledges what it may lose, until a flush or with FUA, which takes @flush_us.
    """

    what: str
    write_us: int
    cached: bool = False
    flush_us: int = 0


# What published runs of pg_test_fsync and fio give for a write of some KB that is durable: 12 to 60 us on
# NVMe drives for datacentres, which lose nothing and need no flush; on others 400 to 1100 us, where a
# write without a flush takes some 12 to 20.
SLOWS = (Slow("drives that lose nothing, 20 us", 20),
         Slow("drives with a cache, write 20 us, flush 700 us", 20, True, 700))


class SlowDrive:
    """A drive in memory whose requests take time, any number of them at once: null_blk."""

    def __init__(self, name: str, slow: Slow) -> None:
        self.path = f"/dev/{name}"
        self._made = NULL_BLKS / name
        module("null_blk", "nr_devices=0")
        self._made.mkdir()
        if not (self._made / "flush_nsec").exists():
            raise RuntimeError("null_blk has one time for all requests: --kernel uml-rivals")
        for attribute, value in (("size", SLOW_MIB), ("memory_backed", 1), ("blocksize", 4096),
                                 ("max_sectors", SLOW_SECTORS), ("irqmode", 2),
                                 ("completion_nsec", slow.write_us * 1000),
                                 ("cache_size", SLOW_CACHE_MIB if slow.cached else 0),
                                 ("flush_nsec", slow.flush_us * 1000), ("power", 1)):
            (self._made / attribute).write_text(f"{value}\n")
        wait(self.path, lambda: os.path.exists(self.path))

    def close(self) -> None:
        """Removes it, with what it holds."""
        (self._made / "power").write_text("0\n")
        self._made.rmdir()


def syncs(rounds: Rounds) -> None:
    """Atomic syncs, on drives that take time."""
    for slow in SLOWS:
        ours, other = (SlowDrive(name, slow) for name in ("slow-lsmem", "slow-ext4"))
        store = Durable("object", "lsmem", [ours.path], STORE_MIB)
        store.start("--format", "--force")
        subprocess.run(["mkfs.ext4", "-q", "-F", other.path], check=True)
        with _mounted("-o", "data=journal", other.path) as mounted:
            _syncs(rounds, store, ours.path, mounted, other.path, "syncs", f", {slow.what}")
        store.close()
        for drive in (ours, other):
            drive.close()


# ---- Profile -------------------------------------------------------------------------------------

def profile(sample: Callable[[str, float, Callable[[float], float]], None], seconds: float) -> None:
    """Faults and syncs, sampled by the caller."""
    player = Contestant("fault", "-n", str(FAULT_PAGES), "-r")
    sample("fault, an object in memory, not in the page buffer", seconds,
           lambda length: player.round(length, 1))
    player.close()
    drive, = drives(("objects",))
    store = Durable("object", "lsmem", [drive], STORE_MIB)
    store.start("--format", "--force")
    for nr in SYNCS:
        player = Contestant("msync", "-n", str(SYNC_PAGES), "-r", "-b", str(nr), "-p", store.device)
        sample(f"msync, {nr} page{'s' if nr > 1 else ''}", seconds, lambda length: player.round(length, 1))
        player.close()
    store.close()
