# SPDX-License-Identifier: GPL-2.0
"""Benches of cleaning: groups of tests/bench/inside.

They read counters of the module from sysfs; a counter that does not exist counts as 0.
"""

import math
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

from contest import (ALLOCATORS, BATCH, CTL, SIZES, Contestant, Durable, Rounds, Store, copied,
                     destroy, drives, grown, preload, result, tell, wait)

HEADER = 24
HEADER_LONG = 32	# of a payload of more than SHORT_MAX bytes
SHORT_MAX = 2047
SEGLET = 64 << 10
SEGMENT_MIB = 8
DISTRIBUTIONS = {"zipf": "-z", "uniform": "-r"}


def entry(size: int) -> int:
    """Bytes of an object of @size in the log."""
    return (HEADER if size <= SHORT_MAX else HEADER_LONG) + (size + 7) // 8 * 8


def median(values: "list[float]") -> float:
    """The median, with a type."""
    return statistics.median(values)


# ---- Utilization -------------------------------------------------------------------------------

SWEEP_MIB = 512
SWEEP_BASE = 30
SWEEP = (50, 70, 80, 90, 95, 98)
# Targets for the relative throughput at 90 %, 100 B.
SWEEP_TARGETS = {"zipf": 0.9, "uniform": 0.8}
SWEEP_ROUNDS = 3
SWEEP_SECONDS = 0.7
WARM_SECONDS = 12.0


class Writer:
    """A store with objects of one size, replaced by one thread."""

    def __init__(self, size: int, distribution: str, mib: int) -> None:
        self.size = size
        self.bytes = mib << 20
        self._player = Contestant("replace", "-s", str(size), "-m", str(mib), "-b", str(BATCH),
                                  "-l", "0", DISTRIBUTIONS[distribution])
        self.store = self._player.store()

    def fill(self, percent: float) -> float:
        """Fills @percent of the store's memory, or as much as it admits. Returns the percentage."""
        # The error of the counter of live bytes is 64 KiB for each processor.
        most = self.store.number("capacity_bytes") - (1 << 20)
        wanted = min(int(self.bytes * percent / 100), most)
        self._player.order("objects", wanted // entry(self.size))
        return self.store.number("live_bytes") / self.bytes * 100

    def overwrite(self, times: float, seconds: float) -> float:
        """Overwrites @times times the size of the store. Returns how often until time was up."""
        written: int = self._player.order("overwrite", times * self.bytes, seconds)["bytes"]
        return written / self.bytes

    def latency(self, operations: int, rate: float) -> dict[str, Any]:
        """Times of single replacements, @rate a second; 0: as many as possible."""
        return self._player.order("latency", operations, rate)

    def turn(self, seconds: float) -> tuple[float, dict[str, int]]:
        """Returns operations a second, and counters. Uses up the space that is free first."""
        self.overwrite(1 / 16, seconds)
        before = self.store.counters()
        rate = self._player.round(seconds, 1)
        counters = grown(before, self.store.counters())
        self.store.settle()
        return rate, counters

    def close(self) -> None:
        """Ends the program, and with it the store."""
        self._player.close()


def sweep(rounds: Rounds) -> None:
    """Replacements at rising utilization, relative to 30 %."""
    sizes = {100: SIZES[100]} if rounds.quick else SIZES
    for size, label in sizes.items():
        for distribution in DISTRIBUTIONS:
            _sweep_one(rounds, size, label, distribution)


def _sweep_one(rounds: Rounds, size: int, label: str, distribution: str) -> None:
    limit = 1.0 if rounds.quick else WARM_SECONDS
    base = Writer(size, distribution, SWEEP_MIB)
    base.fill(SWEEP_BASE)
    base.overwrite(2, limit)
    writer = Writer(size, distribution, SWEEP_MIB)
    for percent in (80, 90) if rounds.quick else SWEEP:
        begin = time.monotonic()
        try:
            live = writer.fill(percent)
            warm = writer.overwrite(2, limit)
            writer.store.settle()
            turns = [(base.turn(SWEEP_SECONDS), writer.turn(SWEEP_SECONDS))
                     for _ in range(1 if rounds.quick else SWEEP_ROUNDS)]
        except RuntimeError as error:
            tell(kind="error", group="sweep", text=f"{label}, {distribution}, {percent} %: {error}")
            break
        _sweep_result(size, label, distribution, percent, live, warm, turns)
        tell(kind="progress", text=f"sweep: {label}, {distribution}, {percent} %: "
             f"{time.monotonic() - begin:.0f} s")
    for player in (writer, base):
        player.close()


def _sweep_result(size: int, label: str, distribution: str, percent: int, live: float, warm: float,
                  turns: "list[tuple[tuple[float, dict[str, int]], tuple[float, dict[str, int]]]]"
                  ) -> None:
    what = f"{label}, {distribution}, {percent} %"
    if live < percent - 0.5:
        what += f" (all it admits: {live:.1f} %)"
    how = (f"replace of {label} objects, vector calls of {BATCH}, 1 writer, volatile stores of "
           f"{SWEEP_MIB} MiB; live bytes with headers, of the store's memory; before it is "
           f"measured the store is overwritten twice, or for {WARM_SECONDS:.0f} s, then in each "
           f"turn of {SWEEP_SECONDS} s another 1/16")
    ours = [rate for _, (rate, _) in turns]
    theirs = [rate for (rate, _), _ in turns]
    result("sweep", what, ours, theirs, f"{SWEEP_BASE} % live", "op/s", how,
           SWEEP_TARGETS[distribution] if size == 100 and percent == 90 else None)
    copies = [float(copied(counters)) for _, (_, counters) in turns]
    appended = [float(counters["stats/appended_bytes"]) for _, (_, counters) in turns]
    result("sweep", f"{what}, copied in memory", copies, appended, "bytes written", "B", how)
    tell(kind="data", group="sweep", size=size, distribution=distribution, asked=percent,
         live=live, overwritten=warm,
         relative=median([a / b for a, b in zip(ours, theirs)]),
         copies=sum(copies) / sum(appended),
         waited=sum(counters["stats/stall_ns"] for _, (_, counters) in turns) / 1e9
         / (len(turns) * SWEEP_SECONDS), counters=[counters for _, (_, counters) in turns])


# ---- Memory ------------------------------------------------------------------------------------

# Sizes before, per mille of objects freed, sizes after.
Sizes = tuple[int, int]
WORKLOADS: dict[str, tuple[Sizes, int, Optional[Sizes]]] = {
    "W1": ((100, 100), 0, None),
    "W2": ((100, 100), 0, (130, 130)),
    "W3": ((100, 100), 900, (130, 130)),
    "W4": ((100, 150), 0, (200, 250)),
    "W5": ((100, 150), 900, (200, 250)),
    "W6": ((100, 200), 500, (1000, 2000)),
    "W7": ((1000, 2000), 900, (1500, 2500)),
    "W8": ((50, 150), 900, (5000, 15000)),
}
MEMORY_LIVE = 200 << 20
MEMORY_TOTAL = 5
MEMORY_SECONDS = 15.0
FILL_TARGET = 0.95
NAME = 8
HANDLE = 8


def _mean_entry(sizes: Sizes) -> tuple[float, float]:
    """The mean payload, and the mean size of entries with header and padding."""
    every = range(sizes[0], sizes[1] + 1)
    return sum(every) / len(every), sum(map(entry, every)) / len(every)


class Churn:
    """One contestant of a workload."""

    def __init__(self, workload: str, live: int, mode: str, *options: str,
                 library: Optional[str] = None) -> None:
        self._sizes, self._drop, self._after = WORKLOADS[workload]
        self._live = live
        self.player = Contestant(mode, *options, preload=preload(library))
        self.seconds = 0.0
        self.done: list[float] = []
        self.most_payload = 0
        self.most_objects = 0
        self.cost = 0.0

    def charge(self, taken: int) -> None:
        """Notes the memory that the contestant has taken."""
        self.cost = (taken + NAME * self.most_objects) / self.most_payload

    def _phase(self, sizes: Sizes, limit: float) -> None:
        answer = self.player.order("churn", *sizes, self._live * MEMORY_TOTAL, self._live, 0, limit)
        if answer["full"]:
            raise RuntimeError(f"no room, with {answer['payload']} bytes in "
                               f"{answer['objects']} objects")
        self.seconds += answer["seconds"]
        self.done.append(answer["allocated"] / self._live)
        self.most_payload = answer["most_payload"]
        self.most_objects = answer["most_objects"]

    def run(self, limit: float) -> None:
        """Runs all phases, each for @limit seconds at most."""
        self._phase(self._sizes, limit)
        if self._after:
            self.player.order("drop", self._drop)
            self._phase(self._after, limit)

    @property
    def last(self) -> Sizes:
        """The sizes of the last phase."""
        return self._after or self._sizes


def _store_size(workload: str, live: int) -> tuple[int, int]:
    """MiB of the smallest store that admits all phases, and the most objects it can hold."""
    phases = [_mean_entry(sizes) for sizes in (WORKLOADS[workload][0], WORKLOADS[workload][2])
              if sizes]
    # The mean size of the live objects varies a little; and the store admits all objects of a
    # call before it knows that they fit.
    need = max(live * 1.003 * with_header / payload for payload, with_header in phases)
    mib = max(int(need / (1 << 20)) // SEGMENT_MIB * SEGMENT_MIB, 128)
    while True:
        name = subprocess.run([str(CTL), "create", "--kind", "object", "--size", f"{mib}M"],
                              check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
        capacity = Store(name).number("capacity_bytes") - (1 << 20)
        destroy(name)
        if capacity >= need:
            most = max((capacity + (1 << 20)) / with_header for _, with_header in phases)
            return mib, int(most * 1.01) + BATCH
        mib += SEGMENT_MIB


def memory(rounds: Rounds) -> None:
    """Bytes of memory for each live byte."""
    live = (MEMORY_LIVE >> 1) if rounds.quick else MEMORY_LIVE
    limit = 2.0 if rounds.quick else MEMORY_SECONDS
    workloads = ("W3",) if rounds.quick else tuple(WORKLOADS)
    for workload in workloads:
        begin = time.monotonic()
        cost, objects = _memory_store(workload, live, limit)
        churns = {name: _memory_malloc(workload, live, limit, objects, library)
                  for name, library in ALLOCATORS.items()}
        churns["memcached"] = _memory_server(workload, live, limit, objects)
        bases = {name: churn.cost for name, churn in churns.items()}
        for name, base in bases.items():
            result("memory", workload, [cost], [base], name, "B/B",
                   f"bytes of memory for each byte of payload, of {live >> 20} MiB live and "
                   f"{MEMORY_TOTAL} times as much allocated in each phase (or for {limit:.0f} s). "
                   "lsmem: free memory before less after a store is made that just admits it, "
                   "empty seglets, handles and tables included. Allocators: growth of the process "
                   "at most; memcached: of the server. All: 8 bytes more for each object, which "
                   "names it", None if workload == "W1" or name == "memcached" else 1.0, most=True)
        tell(kind="data", group="memory", what="bytes", workload=workload, lsmem=cost, **bases)
        tell(kind="data", group="memory", what="allocated", workload=workload,
             **{name: churn.done for name, churn in churns.items()})
        tell(kind="progress", text=f"memory: {workload}: {time.monotonic() - begin:.0f} s")


def _memory_store(workload: str, live: int, limit: float) -> tuple[float, int]:
    mib, objects = _store_size(workload, live)
    churn = Churn(workload, live, "churn-store", "-m", str(mib), "-n", str(objects), "-b",
                  str(BATCH))
    store = churn.player.store()
    before = store.counters()
    churn.run(limit)
    counters = grown(before, store.counters())
    store.settle()
    at_end = {name: store.number(name)
              for name in ("live_bytes", "seglets", "free_seglets", "handles_used", "segments")}
    taken = churn.player.order("memory")["memory"]
    churn.charge(taken)
    grow = churn.player.order("grow", *churn.last)
    store.settle()
    entries = store.number("live_bytes")
    used = (store.number("seglets") - store.number("free_seglets")) * SEGLET
    per_object = (entries - grow["payload"]) / grow["objects"] + HANDLE
    how = ("at the end objects are added until the store says ENOSPC: live entries, with "
           "headers, of the seglets that are not free")
    result("memory", f"{workload}, live entries, full", [entries], [used], "seglets in use", "B",
           how, FILL_TARGET)
    result("memory", f"{workload}, live entries, full", [entries], [mib << 20], "the store", "B",
           "the same, of all memory given to the store, free seglets and reserves included")
    result("memory", f"{workload}, headers, padding, handles", [per_object * grow["objects"]],
           [grow["payload"]], "payload", "B", f"of a full store; a header is {HEADER} bytes, of 2 "
           f"KiB and more {HEADER_LONG}, a payload is padded to 8, a handle's entry is {HANDLE}")
    tell(kind="data", group="memory", what="store", workload=workload, mib=mib, handles=objects,
         taken=taken, at_end=at_end, seconds=churn.seconds, phases=churn.done,
         most_payload=churn.most_payload, most_objects=churn.most_objects,
         fill=entries / used, fill_of_store=entries / (mib << 20), per_object=per_object,
         grown=grow, counters=counters)
    churn.player.close()
    return churn.cost, objects


def _memory_malloc(workload: str, live: int, limit: float, objects: int,
                   library: Optional[str]) -> Churn:
    churn = Churn(workload, live, "churn-malloc", "-n", str(objects), "-b", str(BATCH),
                  library=library)
    churn.run(limit)
    churn.charge(churn.player.order("memory")["memory"])
    churn.player.close()
    return churn


def _peak(pid: int) -> int:
    """The most memory that a process ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("no VmHWM")


def _memory_server(workload: str, live: int, limit: float, objects: int) -> Churn:
    with tempfile.TemporaryDirectory(prefix="lsmem-bench.") as name:
        path = Path(name) / "socket"
        # -M: memcached reports an error when it is full, and evicts nothing; it never gets full.
        with subprocess.Popen(["memcached", "-u", "root", "-s", str(path), "-t", "1", "-M", "-m",
                               "16384"]) as server:
            try:
                wait("memcached", path.exists)
                before = _peak(server.pid)
                churn = Churn(workload, live, "churn-memcached", "-n", str(objects), "-b",
                              str(BATCH), "-p", str(path))
                churn.run(limit)
                churn.charge(_peak(server.pid) - before)
                churn.player.close()
            finally:
                server.terminate()
    return churn


# ---- Latency -----------------------------------------------------------------------------------

LATENCY_MIB = 512
LATENCY_LIVE = 90.0
LATENCY_OPERATIONS = 300_000	# p99.9 is made of 300
LATENCY_TARGETS = {"median": 1.02, "p99.9": 2.0}
# Relative to the most that the writer can do. At full speed the writer takes processor time from
# the cleaner, and waits for it.
LATENCY_SPEEDS = {"full speed": 0.0, "half speed": 0.5}
QUANTILES = {"median": 0.5, "p99": 0.99, "p99.9": 0.999}
Counts = list[tuple[float, float, int]]
LatencyRuns = dict[str, list[dict[str, Any]]]


def quantile(counts: Counts, share: float) -> float:
    """A quantile, by linear interpolation in its class."""
    left = share * sum(number for _, _, number in counts)
    for low, high, number in counts:
        if left <= number:
            return low + (high - low) * left / number
        left -= number
    return counts[-1][1]


def ccdf(runs: "list[Counts]") -> "list[tuple[float, float]]":
    """Pairs of a time and the share of operations that took longer, some for each octave."""
    merged: dict[int, int] = {}
    for counts in runs:
        for _, high, number in counts:
            step = math.ceil(math.log2(high) * 8)
            merged[step] = merged.get(step, 0) + number
    total = left = sum(merged.values())
    points = []
    for step in sorted(merged):
        left -= merged[step]
        if left:
            points.append((2 ** (step / 8), left / total))
    return points


def latency(rounds: Rounds) -> None:
    """Times of single replacements, with cleaning and without."""
    for size in (100,) if rounds.quick else (100, 1024):
        _latency_one(rounds, size, SIZES[size])


def _latency_one(rounds: Rounds, size: int, label: str) -> None:
    number = 1 if rounds.quick else rounds.rounds
    base = Writer(size, "uniform", 3 * LATENCY_MIB)
    base.fill(LATENCY_LIVE / 3)
    # The free space of this store is enough for all turns without cleaning.
    free = (base.store.number("free_seglets") - base.store.number("reserved_seglets")) * SEGLET
    turns = (number + 1) * len(LATENCY_SPEEDS)
    operations = min(int(0.9 * (free - 0.05 * base.bytes) / turns / entry(size)),
                     LATENCY_OPERATIONS // (10 if rounds.quick else 1))
    writer = Writer(size, "uniform", LATENCY_MIB)
    live = writer.fill(LATENCY_LIVE)
    writer.overwrite(2, 2.0 if rounds.quick else 2 * WARM_SECONDS)
    runs = _latency_turns(number, base, writer, operations)
    if base.store.number("cleaner/passes") or base.store.number("cleaner/compactions"):
        tell(kind="error", group="latency", text=f"{label}: the store without cleaning was cleaned")
    stalls = writer.store.counters()
    for player in (writer, base):
        player.close()
    how = (f"single replace of {label} objects, uniform, 1 writer, {operations} a turn; with "
           f"cleaning: {live:.0f} % of {LATENCY_MIB} MiB live; without: as much live in "
           f"{3 * LATENCY_MIB} MiB, of which nothing is cleaned; half speed: half as many a "
           "second as there were without cleaning at full speed in the same turn")
    for speed in LATENCY_SPEEDS:
        _latency_result(f"{label}, {speed}", how, runs[speed])
        tell(kind="data", group="latency", size=size, speed=speed, counters=stalls,
             **{which: ccdf([run["counts"] for run in runs[speed][which]])
                for which in runs[speed]})


def _latency_turns(number: int, base: Writer, writer: Writer,
                   operations: int) -> "dict[str, LatencyRuns]":
    """The turns by speed; the first turn of each does not count."""
    runs: "dict[str, LatencyRuns]" = {speed: {"with": [], "without": []}
                                      for speed in LATENCY_SPEEDS}
    most = 0.0
    for turn in range(number + 1):
        for speed, share in LATENCY_SPEEDS.items():
            answers = {"without": base.latency(operations, share * most)}
            if not share:
                most = operations / answers["without"]["seconds"]
            writer.overwrite(1 / 16, 2.0)
            answers["with"] = writer.latency(operations, share * most)
            writer.store.settle()
            for which, answer in answers.items():
                if turn:
                    runs[speed][which].append(answer)
    return runs


def _latency_result(label: str, how: str, runs: LatencyRuns) -> None:
    for name, share in QUANTILES.items():
        result("latency", f"{label}, {name}",
               *([quantile(run["counts"], share) for run in runs[which]]
                 for which in ("with", "without")), "without cleaning", "ns", how,
               LATENCY_TARGETS.get(name), most=True)
    result("latency", f"{label}, longest", *([run["max"] for run in runs[which]]
                                             for which in ("with", "without")),
           "without cleaning", "ns", how, most=True)


# ---- I/O overhead ------------------------------------------------------------------------------

OVERHEAD_MIB = 512
OVERHEAD_LIVE = 90.0
OVERHEAD_TARGETS = {100: 10.0, 10240: 87.0}
OVERHEAD_SECONDS = 90.0
ONE_LEVEL = {"cleaner/balancer": "fixed", "cleaner/fixed_clean": 1000, "cleaner/nr_compactors": 0}
TWO_LEVELS = {"cleaner/balancer": "adaptive"}
# Name, settings, drive of the backup, its size in units of the store's.
LEVELS: "tuple[tuple[str, dict[str, Any], str, int], ...]" = (
    ("one level", ONE_LEVEL, "objects", 2),
    ("two levels", TWO_LEVELS, "objects", 2),
    ("two levels, backup of 4 times", TWO_LEVELS, "large", 4),
)


def overhead(rounds: Rounds) -> None:
    """Bytes that cleaning writes to the backup for each new byte: one level against two."""
    for size in (10240, 100):
        for distribution in DISTRIBUTIONS:
            shares = {}
            for level, settings, drive, times in LEVELS:
                durable = Durable("object", "lsmem", drives((drive,)), OVERHEAD_MIB)
                durable.start("--format", "--force")
                store = Store(durable.store)
                for attribute, value in settings.items():
                    store.set(attribute, value)
                shares[level] = _overhead_one(rounds, durable, store, size, distribution, level,
                                              times)
                durable.stop()
                destroy(durable.store, "--force")
            _overhead_result(size, distribution, shares)


def _overhead_one(rounds: Rounds, durable: Durable, store: Store, size: int, distribution: str,
                  level: str, times: int) -> tuple[float, float]:
    """Bytes that cleaning wrote to the backup, and bytes that were new."""
    limit = 1.0 if rounds.quick else OVERHEAD_SECONDS
    total = OVERHEAD_MIB << 20
    most = store.number("capacity_bytes")
    share = OVERHEAD_LIVE * total / 100 / most * 1000
    player = Contestant("replace", "-s", str(size), "-b", str(BATCH), "-l", str(round(share)),
                        "-p", durable.device, DISTRIBUTIONS[distribution])
    warm = player.order("overwrite", (times + 1) * total, limit)
    before = store.counters()
    measured = player.order("overwrite", times * total, limit)
    counters = grown(before, store.counters())
    player.close()
    tell(kind="data", group="overhead", size=size, distribution=distribution, level=level,
         warm=warm["bytes"] / total, measured=measured["bytes"] / total,
         seconds=measured["seconds"], counters=counters,
         copied=counters["cleaner/relocated_bytes"] / counters["stats/appended_bytes"])
    tell(kind="progress", text=f"overhead: {SIZES[size]}, {distribution}, {level}: overwritten "
         f"{warm['bytes'] / total:.1f} and {measured['bytes'] / total:.1f} times")
    return float(counters["cleaner/relocated_bytes"]), float(counters["stats/appended_bytes"])


def _overhead_result(size: int, distribution: str,
                     shares: dict[str, tuple[float, float]]) -> None:
    what = f"{SIZES[size]}, {distribution}, {OVERHEAD_LIVE:.0f} %"
    how = (f"durable store of {OVERHEAD_MIB} MiB, lsmemd with a drive of twice that or as said; "
           "bytes that cleaning moved, which are written to the backup, for each byte "
           "appended; after the store has been overwritten as often as it fits the drive and once "
           f"more, while it is overwritten as often again (at most {OVERHEAD_SECONDS:.0f} s each); "
           "one level: no compactors, all of the cleaner's time is for cleaning")
    for level, (moved, new) in shares.items():
        result("overhead", f"{what}, {level}", [moved], [new], "new bytes", "B", how)
    moved, new = shares["one level"]
    for level, (less, bytes_new) in shares.items():
        if level != "one level":
            # A ratio needs at least one byte.
            result("overhead", f"{what}, one level", [moved / new], [max(less, 1) / bytes_new],
                   level, "B/B", how, OVERHEAD_TARGETS[size])


# ---- Changing workloads ------------------------------------------------------------------------

CHANGE_MIB = 512
CHANGE_LIVE = 850
CHANGE_SLICE = 0.25
CHANGE_SECONDS = 15.0
CHANGE_PHASES = ((100, 150), (200, 250), (1000, 2000))
CHANGE_HEADER = 28	# with the mean padding


def change(rounds: Rounds) -> None:
    """Throughput while sizes change."""
    seconds = 2.0 if rounds.quick else CHANGE_SECONDS
    objects = CHANGE_MIB * (1 << 20) // 120
    player = Contestant("churn-store", "-m", str(CHANGE_MIB), "-n", str(objects), "-b", str(BATCH))
    store = player.store()
    live = store.number("capacity_bytes") // 1000 * CHANGE_LIVE
    rates: list[list[float]] = []
    for number, sizes in enumerate(CHANGE_PHASES):
        rates.append([])
        # The first phase first has to fill the store.
        for slice_rate in _slices(player, store, sizes, live, seconds * (1 if number else 2)):
            rates[-1].append(slice_rate)
    player.close()
    how = (f"objects allocated and others freed, vector calls of {BATCH}, 1 writer, a store of "
           f"{CHANGE_MIB} MiB, live entries {CHANGE_LIVE / 10:.0f} % of its capacity; bytes of "
           f"entries allocated a second in slices of {CHANGE_SLICE} s")
    for before, after, sizes in zip(rates, rates[1:], CHANGE_PHASES[1:]):
        steady = median(before[len(before) // 2:])
        later = median(after[len(after) // 2:])
        name = f"to {sizes[0]}-{sizes[1]} B"
        result("change", f"{name}, slowest slice of the change", [min(after[:len(after) // 2])],
               [later], "steady state after", "B/s", how)
        result("change", f"{name}, steady state after", [later], [steady], "before", "B/s", how)


def _slices(player: Contestant, store: Store, sizes: Sizes, live: int,
            seconds: float) -> Iterator[float]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = store.counters()
        took = player.order("churn", *sizes, 1 << 50, live, CHANGE_HEADER, CHANGE_SLICE)["seconds"]
        counters = grown(before, store.counters())
        rate = counters["stats/appended_bytes"] / took
        tell(kind="data", group="change", time=time.monotonic(), sizes=sizes, rate=rate,
             copied=copied(counters) / took, live=store.number("live_bytes"),
             used=(store.number("seglets") - store.number("free_seglets")) * SEGLET,
             waited=counters["stats/stall_ns"] / 1e9 / took)
        yield rate


GROUPS: dict[str, Callable[[Rounds], None]] = {
    "sweep": sweep, "memory": memory, "latency": latency, "overhead": overhead, "change": change,
}
