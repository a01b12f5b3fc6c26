# SPDX-License-Identifier: GPL-2.0
"""Benches of scans: a group of tests/bench/inside."""

from typing import Callable

from contest import Contestant, Rounds, result

OBJECTS = 1_000_000
SIZE = 100
MIB = 512
PLANS = ("auto", "lookup", "sorted", "table", "log", "alone")	# by number, as enum lsm_plan
SHARES = {1000: "100 %", 100: "10 %", 5: "0.5 %"}
LOOKUP_TARGET = 6.0
TABLE_TARGET = 2.5
BEST_TARGET = 1.3


def _turn(player: Contestant, plan: int, share: int, sums: set[int]) -> Callable[[], float]:
    def turn() -> float:
        answer = player.order("sum", plan, share, 1)
        sums.add(int(answer["sum"]))
        if len(sums) > 1:
            raise RuntimeError(f"scans: plan {PLANS[plan]} has another sum")
        return float(answer["ms"])
    return turn


def scans(rounds: Rounds) -> None:
    """The sum of a value of all objects, or of some, by each plan."""
    objects = OBJECTS // 50 if rounds.quick else OBJECTS
    player = Contestant("scan", "-n", str(objects), "-s", str(SIZE), "-m", str(MIB), "-b", "64")
    how = (f"sum of a value of objects of {SIZE} B, {objects} in a store of {MIB} MiB, which were replaced "
           "in random order; one thread, cold caches; time of the whole scan")
    for share, label in SHARES.items():
        sums: set[int] = set()
        times = rounds.run({name: _turn(player, plan, share, sums)
                            for plan, name in enumerate(PLANS)})
        whole = share == 1000
        what = f"log order, {label} of the objects"
        result("scans", what, times["alone"], times["log"], "lsm_read() one by one", "ms", how,
               LOOKUP_TARGET if whole else None)
        result("scans", what, times["lookup"], times["log"], "look-ups together", "ms", how)
        result("scans", what, times["sorted"], times["log"], "look-ups, sorted", "ms", how)
        result("scans", what, times["table"], times["log"], "handle table", "ms", how,
               TABLE_TARGET if whole else None)
        best = [min(values) for values in zip(*(times[name] for name in PLANS[1:5]))]
        result("scans", f"the planner's choice, {label} of the objects", times["auto"], best,
               "the best plan of the round", "ms", how, BEST_TARGET, most=True)
    player.close()


GROUPS: dict[str, Callable[[Rounds], None]] = {"scans": scans}
