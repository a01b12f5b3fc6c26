# SPDX-License-Identifier: GPL-2.0
"""Benches of scans: groups of tests/bench/inside."""

import os
from pathlib import Path
from typing import Callable, Optional

from contest import HERE, Contestant, Rounds, result, tell

SIZE = 100
OBJECTS, MIB = 1_000_000, 512
LARGE_OBJECTS, LARGE_MIB = 10_000_000, 2816
PLANS = ("auto", "lookup", "sorted", "table", "log", "alone")	# by number, as enum lsm_plan
SHARES = {1000: "100 %", 100: "10 %", 5: "0.5 %"}
LOOKUP_TARGET = {OBJECTS: 6.0, LARGE_OBJECTS: 9.0}
TABLE_TARGET = 2.5
BEST_TARGET = 1.3
SPREAD_TARGET = 1.5
WIDE, WIDE_OBJECTS, WIDE_MIB = 1024, 1_200_000, 1664
MEMORY_TARGET = 0.8
BEST_OF = 3	# turns of limits: one of milliseconds is often disturbed
BESIDE_TARGET = 0.9
BESIDE_SECONDS = 2.0	# so that two scans, one each second, begin in it
# By number, as enum question of scans.c
QUESTIONS = ("sum", "sum of a tenth", "sum by group, 100 groups")
ALL = 3
# The Python of qemu/setup's group python
PYTHON = Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "lsmem/python/bin/python3"


def _turn(player: Contestant, order: tuple[object, ...], sums: set[int], key: str = "ms") -> Callable[[], float]:
    """A turn of one order. All sums must be equal."""
    def turn() -> float:
        answer = player.order(*order)  # type: ignore[arg-type]
        sums.add(int(answer["sum"]))
        if len(sums) > 1:
            raise RuntimeError(f"scans: {player.name} has another sum: {' '.join(map(str, order))}")
        return float(answer[key])
    return turn


def _best(turn: Callable[[], float]) -> Callable[[], float]:
    """The shortest of some turns."""
    return lambda: min(turn() for _ in range(BEST_OF))


def _player(objects: int, size: int, mib: int) -> Contestant:
    return Contestant("scan", "-n", str(objects), "-s", str(size), "-m", str(mib), "-b", "64", "-r")


def _plans(rounds: Rounds, group: str, objects: int, mib: int) -> None:
    """The sum of a value of all objects, or of some, by each plan."""
    target = LOOKUP_TARGET[objects]
    if rounds.quick:
        objects, mib = 20_000, 512
    player = _player(objects, SIZE, mib)
    how = (f"sum of a value of objects of {SIZE} B, {objects} in a store of {mib} MiB, which were replaced "
           "in random order; one thread, cold caches; time of the whole scan")
    for share, label in SHARES.items():
        sums: set[int] = set()
        times = rounds.run({name: _turn(player, ("sum", plan, share, 1), sums)
                            for plan, name in enumerate(PLANS)}, mixed=True)
        whole = share == 1000
        what = f"log order, {label} of the objects"
        result(group, what, times["alone"], times["log"], "lsm_read() one by one", "ms", how,
               target if whole else None)
        result(group, what, times["lookup"], times["log"], "look-ups together", "ms", how)
        result(group, what, times["sorted"], times["log"], "look-ups, sorted", "ms", how)
        result(group, what, times["table"], times["log"], "handle table", "ms", how,
               TABLE_TARGET if whole else None)
        best = [min(values) for values in zip(*(times[name] for name in PLANS[1:5]))]
        result(group, f"the planner's choice, {label} of the objects", times["auto"], best,
               "the best plan of the round", "ms", how, BEST_TARGET, most=True)
    player.close()


def scans(rounds: Rounds) -> None:
    """A million objects."""
    _plans(rounds, "scans", OBJECTS, MIB)


def scans_large(rounds: Rounds) -> None:
    """Ten million objects."""
    _plans(rounds, "scans-large", LARGE_OBJECTS, LARGE_MIB)


# ---- Changes of all objects --------------------------------------------------------------------

def spread(rounds: Rounds) -> None:
    """A value in each object is changed: in the order of memory, and by look-ups."""
    objects, mib = (20_000, 256) if rounds.quick else (OBJECTS, MIB)
    player = _player(objects, SIZE, mib)
    changed: set[int] = set()
    times = rounds.run({name: _turn(player, order, changed) for name, order in (
        ("set", ("spread", 0, 0)), ("add", ("spread", 1, 0)), ("groups", ("spread", 1, 1)),
        ("one", ("each", 1)), ("many", ("each", 64)))}, mixed=True)
    how = (f"a word of each of {objects} objects of {SIZE} B in a store of {mib} MiB, which were replaced in random "
           "order; each object is replaced if it has not changed since; one thread, cold caches; time of the whole")
    for name, what in (("add", "lsm_spread() adds"), ("set", "lsm_spread() sets"),
                       ("groups", "lsm_spread() adds, in groups")):
        result("spread", what, times["one"], times[name], "lsm_read() and lsm_replace() one by one", "ms", how,
               SPREAD_TARGET if name == "add" else None)
        result("spread", what, times["many"], times[name], "lsm_read_many() and lsm_vector() of 64", "ms", how)
    player.close()


# ---- What limits a scan ------------------------------------------------------------------------

def _thread_counts() -> list[int]:
    return sorted({1, os.cpu_count() or 1})


def _memory(rounds: Rounds) -> None:
    """Objects of 1 KiB in log order against an array of as many bytes."""
    objects, mib = (20_000, 256) if rounds.quick else (WIDE_OBJECTS, WIDE_MIB)
    player = _player(objects, WIDE, mib)
    how = (f"{objects} objects of {WIDE} B in a store of {mib} MiB, which were replaced in random order, and an "
           f"array of as many bytes; cold caches, best of {BEST_OF} in each round")
    for threads in _thread_counts():
        rows: set[int] = set()
        one: set[int] = set()
        array: set[int] = set()
        times = rounds.run({"array": _best(_turn(player, ("array", threads), array)),
                            "rows": _best(_turn(player, ("rows", threads), rows)),
                            "after": _best(_turn(player, ("rows", threads), rows, "rows_ms")),
                            "all": _best(_turn(player, ("ask", ALL, threads), rows)),
                            "one": _best(_turn(player, ("ask", 0, threads), one))})
        rates = {name: [objects * WIDE / ms / 1e6 for ms in values] for name, values in times.items()}
        who = f"{threads} thread{'s' if threads > 1 else ''}"
        for name, what, target in (("rows", "plain sum of all words", MEMORY_TARGET),
                                   ("after", "the same, without the time for the snapshot", None),
                                   ("all", "lsm_scan_aggregate() of all words", None),
                                   ("one", "lsm_scan_aggregate() of one word of each", None)):
            result("limits", f"{what}, {who}", rates[name], rates["array"], "plain sum of an array", "GB/s", how,
                   target)
    player.close()


def _columns(rounds: Rounds) -> None:
    """Questions of columns: in log order, in arrays, and by DuckDB."""
    objects, mib = (20_000, 256) if rounds.quick else (OBJECTS, MIB)
    player = _player(objects, SIZE, mib)
    duck: Optional[Contestant] = None
    if PYTHON.exists():
        columns = player.order("columns")
        duck = Contestant(columns["path"], str(columns["objects"]), str(columns["below"]),
                          program=(str(PYTHON), str(HERE / "columns.py")))
    else:
        tell(kind="progress", text="limits: no DuckDB: qemu/setup python")
    how = (f"{objects} objects of {SIZE} B in a store of {mib} MiB, which were replaced in random order; three of "
           f"their columns in arrays, and in a table of DuckDB in memory; cold caches, best of {BEST_OF} in each "
           "round")
    for threads in _thread_counts():
        for question, label in enumerate(QUESTIONS):
            sums: set[int] = set()
            order = (question, threads)
            turns = {"log": _best(_turn(player, ("ask", *order), sums)),
                     "array": _best(_turn(player, ("plain", *order), sums))}
            if duck:
                turns["duck"] = _best(_turn(duck, ("ask", *order), sums))
            times = rounds.run(turns)
            what = f"{label}, {threads} thread{'s' if threads > 1 else ''}"
            result("limits", what, times["log"], times["array"], "plain arrays", "ms", how)
            if duck:
                result("limits", what, times["log"], times["duck"], "DuckDB", "ms", how)
    if duck:
        duck.close()
    player.close()


def limits(rounds: Rounds) -> None:
    """A scan against the bandwidth of memory, and against columns."""
    _memory(rounds)
    _columns(rounds)


# ---- Writers beside a scan ---------------------------------------------------------------------

def _beside(player: Contestant, rounds: Rounds, batch: int, how: str) -> None:
    """A writer with calls of @batch, and scans beside it."""
    seconds = rounds.seconds if rounds.quick else BESIDE_SECONDS
    told: dict[str, list[dict[str, float]]] = {"each second": [], "all the time": [], "plain": []}

    def with_scans(name: str, ms: int, plain: int) -> Callable[[], float]:
        def turn() -> float:
            player.order("beside", ms, plain)
            rate = player.round(seconds, 1)
            told[name].append(player.order("alone"))
            return rate
        return turn
    player.order("batch", batch)
    rates = rounds.run({"no scan": lambda: player.round(seconds, 1),
                        "each second": with_scans("each second", 1000, 0),
                        "plain": with_scans("plain", 0, 1),
                        "all the time": with_scans("all the time", 0, 0)})
    for name, base, versus, target in (("each second", "no scan", "no scan", BESIDE_TARGET),
                                       ("all the time", "plain", "sums of an array instead", BESIDE_TARGET),
                                       ("all the time", "no scan", "no scan", None)):
        scans_of = told[name][1:]
        nr, revoked, refused = (sum(int(answer[key]) for answer in scans_of)
                                for key in ("scans", "revoked", "refused"))
        result("beside", f"one writer, calls of {batch}, scans {name}", rates[name], rates[base], versus, "op/s",
               f"{how}; {nr} scans stood, {revoked} were revoked, {refused} refused, "
               f"{max(answer['ms'] for answer in scans_of):.0f} ms at most", target)


def beside(rounds: Rounds) -> None:
    """The rate of a writer while another processor scans, once a second and all the time."""
    objects, mib = (20_000, 256) if rounds.quick else (OBJECTS, MIB)
    player = _player(objects, SIZE, mib)
    for batch in (1, 64):
        _beside(player, rounds, batch, f"replaces of random objects of {SIZE} B, {objects} in a store of {mib} MiB, on "
                "one processor; scans that group, in log order, on another")
    player.close()


GROUPS: dict[str, Callable[[Rounds], None]] = {"scans": scans, "scans-large": scans_large, "spread": spread,
                                               "limits": limits, "beside": beside}
