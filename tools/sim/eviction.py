# SPDX-License-Identifier: GPL-2.0
"""Eviction from memory: cases, checks, tables and plots of tools/sim/run; tier.c has the model."""

import math
from dataclasses import dataclass, replace
from typing import Iterable, Iterator, Sequence

from shared import BUILD, Check, Line, plot, table

OURS = "half-spread"
BOUNDS = ("lru", "min")
POLICIES = ("random", "fifo", "interval", "lru", "clock", "sieve", "s3-fifo", "third", "quarter",
            "half", OURS, "half-spread-interval", "min")
WORKLOADS = ("zipf-95", "zipf-50", "apart", "uniform", "scan", "loop", "news", "shift", "jump")
# Workloads for the tables of variants.
FEW = ("zipf-95", "zipf-50", "apart", "uniform", "scan", "shift")
# Workloads that show which rule for the touched bit is best.
TOUCHED = ("zipf-95", "zipf-50", "scan", "news")
DATA = 131072
MEMORIES = (0.125, 0.25, 0.5)
SMALL = (0.125, 0.25)
WRITTEN = {0.125: "1/8", 0.25: "1/4", 0.5: "1/2"}
SIZES = (1, 32, 128, 512, 2048)
ROOMS = (1, 128, 256, 512, 1024, 2048)
PLANS = (1, 4, 16, 64)
COSTS = (0, 1000, 2000, 4000, 7000, 15000)

# Highest ratio of a simulated miss ratio to that of a formula, and the reverse.
FORMULA = 1.02
# Highest ratio of the misses of OURS to those of CLOCK, with a memory of 1/8 and 1/4 of the data.
TO_CLOCK = {"zipf-95": 0.97, "zipf-50": 0.99, "apart": 0.95, "uniform": 1.01, "scan": 0.96,
            "loop": 0.5, "news": 0.96, "shift": 1.06, "jump": 1.2}
# Most objects that the hand copies for each that it evicts.
COPIED = 1.5


@dataclass(frozen=True)
class Case:
    """One simulation."""

    workload: str
    policy: str = OURS
    memory: float = 0.25
    objects: int = 512
    seglets: int = 128
    room: int = 1
    plan: int = 1
    evict_cost: int = 4000
    merge: int = 0
    remember: float = 0
    fetch_touched: bool = False
    write: str = "leave"

    def command(self, seed: int) -> list[str]:
        """The command line of the simulator, with which a user can repeat the simulation."""
        words = [str(BUILD / "cache"), "--data", str(DATA)]
        for name in ("workload", "policy", "memory", "objects", "seglets", "room", "plan",
                     "evict_cost", "merge", "remember", "write"):
            words += [f"--{name.replace('_', '-')}", str(getattr(self, name))]
        return [*words, *(["--fetch-touched"] if self.fetch_touched else []), "--seed", str(seed)]

    def __str__(self) -> str:
        """For the lines of progress."""
        return f"{self.workload} {self.policy}, memory {WRITTEN[self.memory]}"


Results = dict[Case, Line]


def sized(case: Case, objects: int) -> Case:
    """The same case with segments of @objects; with single objects, many are chosen at once."""
    plan = round(DATA * case.memory / 128) if objects == 1 else 1
    return replace(case, objects=objects, seglets=min(objects, 128), plan=plan)


# Each row of a table of variants: its name, and what it changes.
TOUCHES = (("fetch 0, write leaves", {}),
           ("fetch 0, write clears", {"write": "clear"}),
           ("fetch 0, write sets", {"write": "set"}),
           ("fetch 1, write leaves", {"fetch_touched": True}),
           ("fetch 1, write sets", {"fetch_touched": True, "write": "set"}))
OTHERS = (("in place", {}),
          ("merged below 1/16", {"merge": 62}),
          ("merged below 1/8", {"merge": 125}),
          ("merged below 1/4", {"merge": 250}),
          ("remembered for 1/2", {"remember": 0.5}),
          ("remembered for 1", {"remember": 1.0}))


def variant(workload: str, change: dict) -> Case:
    """The module's policy with a change."""
    return replace(Case(workload), **change)


# Cases to simulate.

def cases_checked() -> Iterator[Case]:
    """All cases that the checks below need."""
    for workload in WORKLOADS:
        yield from (Case(workload, policy, memory) for policy in ("min", "clock", OURS)
                    for memory in SMALL)
        yield Case(workload, "lru")
    for memory in MEMORIES:
        yield Case("uniform", "lru", memory)
    yield from (sized(Case("zipf-100", policy), 1) for policy in ("fifo", "random"))
    yield sized(Case("zipf-95"), 1)
    yield from (Case(workload, policy, 0.125) for workload in ("shift", "jump")
                for policy in ("sieve", "s3-fifo", "third", "quarter"))
    yield from (Case(workload, "half-spread-interval") for workload in ("zipf-50", "apart"))
    yield from (Case(workload, "half") for workload in ("loop", "zipf-95"))
    yield variant("zipf-95", {"room": 256})
    yield from (variant(workload, change) for workload in TOUCHED for _, change in TOUCHES)


def cases_all() -> Iterator[Case]:
    """The cases of all tables."""
    for memory in MEMORIES:
        for workload in WORKLOADS:
            for policy in POLICIES:
                yield Case(workload, policy, memory)
    for workload in FEW:
        for objects in SIZES:
            for policy in ("clock", "sieve", OURS):
                yield sized(Case(workload, policy), objects)
        yield from (Case(workload, room=room) for room in ROOMS)
        yield from (Case(workload, plan=plan) for plan in PLANS)
        yield from (Case(workload, evict_cost=cost) for cost in COSTS)
    for workload in WORKLOADS:
        yield from (variant(workload, change) for _, change in (*TOUCHES, *OTHERS))


# Checks.

def miss(results: Results, case: Case) -> float:
    """The miss ratio of reads that no scan does."""
    ratio: float = results[case]["own_miss"]
    return ratio


def che(objects: int, memory: float) -> float:
    """The miss ratio of LRU for independent requests with Zipf 0.99.

    Source: Che, Tung and Wang, "Hierarchical Web Caching Systems", IEEE JSAC 20 (7), 2002.
    """
    weights = [rank ** -0.99 for rank in range(1, objects + 1)]
    total = sum(weights)
    low, high = 0.0, 100.0 * objects
    for _ in range(25):
        time = (low + high) / 2
        resident = -sum(math.expm1(-weight / total * time) for weight in weights)
        low, high = (time, high) if resident < memory * objects else (low, time)
    return sum(weight / total * math.exp(-weight / total * low) for weight in weights)


def check_formulas(results: Results) -> Check:
    """Checks bounds and policies of single objects against what is known about them."""
    pairs = [(f"lru, uniform, {WRITTEN[memory]}", miss(results, Case("uniform", "lru", memory)),
              1 - memory) for memory in MEMORIES]
    pairs += [("lru, zipf-95, 1/4", miss(results, Case("zipf-95", "lru")), che(DATA, 0.25)),
              # Gelenbe, "A unified approach to the evaluation of a class of replacement
              # algorithms", 1973: the same for independent requests.
              ("fifo, of random, single objects", miss(results, sized(Case("zipf-100", "fifo"), 1)),
               miss(results, sized(Case("zipf-100", "random"), 1)))]
    wrong = [f"{name}: {found:.4f}, not {known:.4f}" for name, found, known in pairs
             if not 1 / FORMULA < found / known < FORMULA]
    return Check(f"{len(pairs)} miss ratios that formulas give, to {FORMULA - 1:.0%}", wrong)


def check_min(results: Results) -> Check:
    """Checks that no policy misses less than MIN, all reads counted."""
    least = {(case.workload, case.memory): line["miss"] for case, line in results.items()
             if case.policy == "min"}
    return Check("no policy misses less than MIN", [
        f"{case}: {line['miss']:.4f}" for case, line in results.items()
        if line["miss"] < least.get((case.workload, case.memory), 0)])


def check_ratio(results: Results, name: str, most: float,
                pairs: Iterable[tuple[Case, Case]]) -> Check:
    """Checks that the first case of each pair misses at most @most times as much as the second."""
    wrong = []
    for case, against in pairs:
        ratio = miss(results, case) / miss(results, against)
        if ratio > most:
            wrong.append(f"{case.workload}: {ratio:.3f}, more than {most:g}")
    return Check(f"{name}: at most {most:g}", wrong)


def checks(results: Results) -> list[Check]:
    """Makes all checks."""
    copied = [f"{case}: {line['copied']:.2f}" for case, line in results.items()
              if case == Case(case.workload, memory=case.memory) and line["copied"] > COPIED]
    return [
        check_formulas(results),
        check_min(results),
        *(check_ratio(results, f"{OURS}, {workload}: misses of those of clock", most,
                      [(Case(workload, OURS, memory), Case(workload, "clock", memory))
                       for memory in SMALL]) for workload, most in TO_CLOCK.items()),
        Check(f"{OURS}: at most {COPIED:g} objects copied for each evicted", copied),
        check_ratio(results, f"{OURS}: misses of those of lru, zipf-95, apart, scan, news", 0.98,
                    [(Case(workload), Case(workload, "lru"))
                     for workload in ("zipf-95", "apart", "scan", "news")]),
        check_ratio(results, f"{OURS}, shift, jump: misses of those of sieve and s3-fifo", 0.85,
                    [(Case(workload, OURS, 0.125), Case(workload, policy, 0.125))
                     for workload in ("shift", "jump") for policy in ("sieve", "s3-fifo")]),
        check_ratio(results, f"{OURS}, jump: misses of those of third and quarter", 0.95,
                    [(Case("jump", OURS, 0.125), Case("jump", policy, 0.125))
                     for policy in ("third", "quarter")]),
        check_ratio(results, "the spread: misses of those without it, zipf-95", 1.01,
                    [(Case("zipf-95"), Case("zipf-95", "half"))]),
        check_ratio(results, "the spread: misses of those without it, loop", 0.5,
                    [(Case("loop"), Case("loop", "half"))]),
        check_ratio(results, "without intervals: misses of those with them, apart", 0.95,
                    [(Case("apart"), Case("apart", "half-spread-interval"))]),
        check_ratio(results, "segments: misses of those of single objects, zipf-95", 1.05,
                    [(Case("zipf-95"), sized(Case("zipf-95"), 1))]),
        check_ratio(results, "1/32 of the memory freed at a time: misses of those of a seglet",
                    1.03, [(variant("zipf-95", {"room": 256}), Case("zipf-95"))]),
        *(check_ratio(results, f"the touched bit: misses of those with {name}", 1.01,
                      [(Case(workload), variant(workload, change)) for workload in TOUCHED])
          for name, change in TOUCHES[1:]),
    ]


# Tables and plots.

Rows = Sequence[tuple[str, dict]]


def grid(results: Results, title: str, figure: str, rows: Rows,
         workloads: Sequence[str] = WORKLOADS) -> str:
    """Formats a table of a figure: a row for each change, a column for each workload."""
    scale = 100 if figure == "own_miss" else 1
    return table(title, workloads, (
        (name, [scale * results[variant(workload, change)][figure] for workload in workloads])
        for name, change in rows))


def tables(results: Results) -> str:
    """Formats all tables."""
    parts = []
    for memory in MEMORIES:
        rows: Rows = [(policy, {"policy": policy, "memory": memory}) for policy in POLICIES]
        parts.append(grid(results, f"Misses, % of reads, memory {WRITTEN[memory]} of the data",
                          "own_miss", rows))
    rows = [(policy, {"policy": policy}) for policy in POLICIES if policy not in BOUNDS]
    for figure, title in (("copied", "Kept and copied for each object evicted"),
                          ("compacted", "Copied by compaction alone for each object evicted"),
                          ("resident", "Share of the memory that objects fill")):
        parts.append(grid(results, f"{title}, memory 1/4", figure, rows))
    for policy in ("clock", "sieve", OURS):
        parts.append(table(f"Misses, % of reads, by objects in a segment, {policy}", FEW, (
            (str(size), [100 * miss(results, sized(Case(workload, policy), size))
                         for workload in FEW]) for size in SIZES)))
    for figure, title in (("own_miss", "Misses, % of reads"),
                          ("copied", "Kept and copied for each object evicted")):
        parts.append(grid(results, f"{title}, by the part of memory that is freed at a time",
                          figure, [(f"1/{8192 // room}", {"room": room}) for room in ROOMS], FEW))
        parts.append(grid(results, f"{title}, by segments chosen at once", figure,
                          [(str(plan), {"plan": plan}) for plan in PLANS], FEW))
        parts.append(grid(results, f"{title}, by what happens to the touched bit", figure,
                          TOUCHES))
    for figure, title in (("own_miss", "Misses, % of reads"),
                          ("compacted", "Copied by compaction alone for each object evicted")):
        parts.append(grid(results, f"{title}, by the highest cost of compaction", figure,
                          [(str(cost), {"evict_cost": cost}) for cost in COSTS], FEW))
    for figure, title in (("own_miss", "Misses, % of reads"), ("segments", "Segments in memory"),
                          ("copied", "Kept and copied for each object evicted")):
        parts.append(grid(results, f"{title}, merging and remembering", figure, OTHERS))
    return "\n".join(parts)


def plots(results: Results) -> None:
    """Makes all plots."""
    style = "set yrange [0:]; set key right top"
    shown = ("fifo", "lru", "clock", "sieve", "s3-fifo", OURS, "min")
    for workload in ("zipf-95", "scan", "jump"):
        plot(f"eviction-{workload}", f"Misses, {workload}",
             ("memory, % of the data", "misses, % of reads"), [100 * m for m in MEMORIES],
             [(policy, [100 * miss(results, Case(workload, policy, memory))
                        for memory in MEMORIES]) for policy in shown], style)
    shares = [100 * room / 8192 for room in ROOMS]	# of 8192 seglets
    plot("eviction-room", f"How far the hand goes at a time, {OURS}",
         ("memory that is freed at a time, %", "misses, % of reads"), shares,
         [(workload, [100 * miss(results, Case(workload, room=room)) for room in ROOMS])
          for workload in FEW], "set yrange [0:]; set key right center")
