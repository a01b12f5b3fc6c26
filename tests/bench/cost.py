# SPDX-License-Identifier: GPL-2.0
"""What one operation costs: without the system call, and in processor time with all cleaning."""

import os
import time
from pathlib import Path
from typing import Callable, Sequence

from contest import BATCH, SIZES, Contestant, Rounds, preload, result, tell

STORE_MIB = 256
BATCHES = (1, 16, 64, 256, 1024)
ORDERS = {"random": ("-r",), "in turn": ()}
ALLOCATOR = "libjemalloc.so.2"
# Of the allocator's speed, any object; in turn nothing misses a cache, and there is no such target
ALLOCATOR_TARGETS = {100: 0.6, 1024: 0.7, 10240: 0.9}
LIMIT_TARGETS = {100: 0.5}
OPERATION_NS = {"random": 220.0, "in turn": 130.0}
WRITERS_TARGET = 0.9
GROUP_SIZES = (2, 16, 64, 256)


def fit(batches: Sequence[int], times: Sequence[float]) -> tuple[float, float]:
    """Time of an operation and of a call, by least squares over the size of batches."""
    calls = [1 / batch for batch in batches]
    mean_call = sum(calls) / len(calls)
    mean_time = sum(times) / len(times)
    call = (sum((a - mean_call) * (b - mean_time) for a, b in zip(calls, times)) /
            sum((a - mean_call) ** 2 for a in calls))
    return mean_time - call * mean_call, call


def _time(player: Contestant, seconds: float, batch: int) -> Callable[[], float]:
    """A turn whose figure is the time of one operation, in ns."""
    def turn() -> float:
        player.order("batch", batch)
        return 1e9 / player.round(seconds, 1)
    return turn


def operation(rounds: Rounds) -> None:
    """On one processor: writer and cleaners share it, so that all of their time counts."""
    for size, label in SIZES.items():
        turns: dict[str, Callable[[], float]] = {}
        players: list[Contestant] = []
        for order, options in ORDERS.items():
            common = ("-s", str(size), "-m", str(STORE_MIB), *options)
            ours = Contestant("replace", *common)
            turns |= {f"{order} {batch}": _time(ours, rounds.seconds, batch) for batch in BATCHES}
            players.append(ours)
            for name, mode, library in (("jemalloc", "malloc", ALLOCATOR), ("limit", "limit", None)):
                other = Contestant(mode, *common, preload=preload(library))
                turns[f"{order} {name}"] = _time(other, rounds.seconds, BATCH)
                players.append(other)
        times = rounds.run(turns)
        for player in players:
            player.close()
        _operation_results(size, label, times)


def _operation_results(size: int, label: str, times: dict[str, list[float]]) -> None:
    how = (f"replace of {label} objects, half of a store of {STORE_MIB} MiB live, writer and "
           f"cleaners on one processor; batches of {', '.join(map(str, BATCHES))}")
    for order in ORDERS:
        measured = [times[f"{order} {batch}"] for batch in BATCHES]
        fits = [fit(BATCHES, values) for values in zip(*measured)]
        operations = [operation_ns for operation_ns, _ in fits]
        tell(kind="data", group="cost", size=size, order=order, batches=BATCHES, times=measured,
             operation_ns=operations, call_ns=[call for _, call in fits])
        target = OPERATION_NS[order] if size == 100 else None
        result("cost", f"{label}, {order}: an operation without its call", operations,
               [1.0] * len(operations), "1 ns", "ns", f"{how}; least squares", target, most=True)
        result("cost", f"{label}, {order}: a call", [call for _, call in fits],
               [1.0] * len(fits), "1 ns", "ns", f"{how}; least squares", most=True)
        for name, targets in (("jemalloc", ALLOCATOR_TARGETS), ("limit", LIMIT_TARGETS)):
            base = times[f"{order} {name}"]
            # Speed, not time: 1 is as fast
            result("cost", f"{label}, {order}: speed without calls",
                   [1e3 / value for value in operations], [1e3 / value for value in base], name,
                   "op/us", f"{how}; {name}: the same in user space",
                   targets.get(size) if order == "random" else None)


# ---- Groups --------------------------------------------------------------------------------------

def groups(rounds: Rounds) -> None:
    """Vectors that are carried out all or none, against others. In turn: a group names an object once."""
    for size in (100, 1024):
        common = ("-s", str(size), "-m", str(STORE_MIB))
        players = {"group": Contestant("groups", *common), "vector": Contestant("replace", *common)}
        times = rounds.run({f"{name} {batch}": _time(player, rounds.seconds, batch)
                            for batch in GROUP_SIZES for name, player in players.items()})
        for player in players.values():
            player.close()
        for batch in GROUP_SIZES:
            result("groups", f"{SIZES[size]}, {batch} objects", times[f"group {batch}"], times[f"vector {batch}"],
                   "vectors", "ns an operation", f"replace, in turn, half of a store of {STORE_MIB} MiB live, writer "
                   "and cleaners on one processor", most=True)


# ---- Processor time ------------------------------------------------------------------------------

def threads_ns() -> int:
    """Processor time of all threads of stores."""
    total = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().startswith("lsmem-"):
                # clock_getcpuclockid() of another process
                total += time.clock_gettime_ns((~int(entry.name) << 3) | 2)
        except OSError:
            continue
    return total


def _each(player: Contestant, seconds: float, threads: int) -> Callable[[], float]:
    """A turn whose figure is operations for a second of processor time, with cleaning."""
    def turn() -> float:
        cleaners, begin = threads_ns(), time.monotonic()
        rate, cpu = player.measured(seconds, threads)
        took = time.monotonic() - begin
        return rate * min(took, seconds) / (cpu + (threads_ns() - cleaners) / 1e9)
    return turn


def processors(rounds: Rounds) -> None:
    """Two writers against one, by what a second of processor time gives."""
    if (os.cpu_count() or 1) < 2:
        raise RuntimeError("two writers want two processors")
    for size, label in SIZES.items():
        for order, options in ORDERS.items():
            # On two processors a system call of User-mode Linux takes 70 us: large batches hide it.
            player = Contestant("replace", "-s", str(size), "-m", str(STORE_MIB), "-b",
                                str(BATCHES[-1]), *options)
            rates = rounds.run({"one": _each(player, rounds.seconds * 2, 1),
                                "two": _each(player, rounds.seconds * 2, 2)})
            player.close()
            result("processors", f"{label}, 2 writers, {order}", rates["two"], rates["one"],
                   "1 writer", "op/s of processor time",
                   f"replace in vector calls of {BATCHES[-1]}; time of writers and of the store's "
                   "threads",
                   WRITERS_TARGET)


GROUPS: dict[str, Callable[[Rounds], None]] = {"cost": operation, "groups": groups, "processors": processors}
