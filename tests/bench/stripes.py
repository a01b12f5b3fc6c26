# SPDX-License-Identifier: GPL-2.0
"""Bench of coded stores beside replicas and coded blocks updated in place: groups of tests/bench/inside."""

import os
import subprocess
from pathlib import Path
from typing import Any, Callable, Iterable, Sequence

from contest import CTL, HERE, Contestant, Durable, Rounds, Store, drive_counter, drives, grown, result, tell

MEMORY_MIB = 128
RATIO = 4		# backups of a store have so many times its memory, without what the code or the replicas add
LIVE = 700		# per mille of the store
SIZE = 4096
BATCH = 256		# operations of a group commit; half of them are updates
UPDATES = 500		# per mille
TURN = 20		# a turn is so many times as long
RESERVE_MIB = 24	# of a backup, for what is not segments
# Until the log has used all of the backups, and once more, cleaning costs less than it will.
WARM = RATIO + 1	# times the memory that are overwritten before the first turn, if this takes no longer than
WARM_SECONDS = 40.0
# By group the code, and what is wanted: traffic saved of updates in place where c is at most so much, and space
CODES = {"stripes": (3, 2, 0.40, 0.08, 0.35), "stripes-nine": (5, 4, 0.51, 0.36, 0.55)}
DISTRIBUTIONS = {"uniform": ("-r",), "zipf .80": ("-Z", "0.8"), "zipf .99": ("-Z", "0.99")}
RATE_TARGET = 2.4
# Group stripes-wait: the code, batch_us, durable writes a second, objects and their size
WAIT_CODE = (3, 2)
EPSILONS = (0, 2000, 10000)
RATES = (200, 1000, 4000, 10000)
WAIT_OBJECTS = 20000
WAIT_SIZE = 100
WAIT_TURN = 10		# a turn is so many times as long
MIB = 1 << 20


class Parts:
    """Parts of the guest's drives, by device mapper."""

    def __init__(self) -> None:
        self._free = {path: _sectors(path) for path in drives(("large", "whole", "objects"))}
        self._made: list[str] = []

    def cut(self, nr: int, mib: int) -> list[str]:
        """Cuts @nr parts of @mib off the drives. Returns their paths."""
        return [self._one(mib << 11) for _ in range(nr)]

    def _one(self, sectors: int) -> str:
        drive = max(self._free, key=lambda path: self._free[path])
        self._free[drive] -= sectors
        if self._free[drive] < 0:
            raise RuntimeError("the drives are too small")
        name = f"part{len(self._made)}"
        _dmsetup("create", name, "--table", f"0 {sectors} linear {os.path.realpath(drive)} {self._free[drive]}")
        self._made.append(name)
        # Counters are by this name.
        return f"/dev/dm-{os.minor(os.stat(f'/dev/mapper/{name}').st_rdev)}"

    def close(self) -> None:
        """Gives all parts back."""
        for name in self._made:
            _dmsetup("remove", "--retry", name)


def _dmsetup(*arguments: str) -> None:
    subprocess.run(["dmsetup", *arguments], check=True, env={**os.environ, "DM_DISABLE_UDEV": "1"})


def _sectors(path: str) -> int:
    return int((Path("/sys/block") / Path(path).resolve().name / "size").read_text())


class Player:
    """One of those that take turns: what it counted in each turn, since the end of the last one."""

    def __init__(self) -> None:
        self.turns: list[dict[str, int]] = []
        self._before: dict[str, int] = {}
        self.bench: Contestant

    def _counters(self) -> dict[str, int]:
        """Counters of all names that end up in the turns; "updates" and "bytes written" at least."""
        raise NotImplementedError

    def note(self) -> dict[str, int]:
        """Counters since the last call."""
        now = self._counters()
        since = grown(self._before, now) if self._before else {}
        self._before = now
        return since

    def turn(self, seconds: float) -> Callable[[], float]:
        """A turn: operations a second."""
        def run() -> float:
            rate = self.bench.round(seconds, 1)
            self.turns.append(self.note())
            return rate
        return run

    def sum(self, name: str) -> int:
        """Of all turns."""
        return sum(turn[name] for turn in self.turns)

    def traffic(self) -> float:
        """Bytes written for each byte of updates, of all turns: cleaning comes in bursts, so one turn says little."""
        return self.sum("bytes written") / (self.sum("updates") * SIZE)

    def close(self) -> None:
        """Ends it."""
        self.bench.close()


class Log(Player):
    """A store of lsmem, with its daemon."""

    def __init__(self, name: str, settings: str, parts: Sequence[str], options: Sequence[str], limit: float) -> None:
        super().__init__()
        self._parts = parts
        self._durable = Durable("object", name, parts, MEMORY_MIB, settings=settings)
        self._durable.start("--format", "--force")
        self._store = Store(name)
        self.bench = Contestant("mixed-durable", "-l", str(LIVE), *options, "-p", self._durable.device)
        self.warm = self._overwrite(limit)
        self._store.settle()
        self.note()

    def _overwrite(self, limit: float) -> dict[str, Any]:
        wanted = WARM * MEMORY_MIB * MIB
        done = self.bench.order("overwrite", wanted, limit)
        return {**done, "times the memory": done["bytes"] / (MEMORY_MIB * MIB), "time ended it": done["bytes"] < wanted}

    def _status(self) -> dict[str, Any]:
        # This has the daemon write its status anew.
        subprocess.run([str(CTL), "backups", self._durable.store], check=True, stdout=subprocess.DEVNULL)
        return self._durable.status()

    def _counters(self) -> dict[str, int]:
        self._store.settle()
        counters = self._store.counters()
        return {"updates": int(self.bench.order("updates")["updates"]),
                # The drives' counters, those of device mapper, have a little more.
                "bytes written": int(self._status()["written_bytes"]),
                "bytes written by the drives' counters": sum(drive_counter(part, "bytes written") for part in self._parts),
                "bytes read": sum(drive_counter(part, "bytes read") for part in self._parts),
                "bytes cleaned": counters["cleaner/relocated_bytes"],
                "bytes appended": counters["stats/appended_bytes"]}

    def copied(self) -> float:
        """c: bytes that cleaning writes to the backups for each new byte, before the code. Of all turns."""
        return self.sum("bytes cleaned") / self.sum("bytes appended")

    def space(self) -> float:
        """Bytes of the backups for each byte of segments."""
        status = self._status()
        used = sum(backup["frames"] - backup["frames_free"] for backup in status["backups"])
        return float(used / status["segments"])

    def objects(self) -> int:
        """How many objects there are."""
        return int(self.bench.order("objects", 0)["objects"])

    def close(self) -> None:
        super().close()
        self._durable.close()


class InPlace(Player):
    """Coded blocks that are updated in place, of as many objects."""

    def __init__(self, code: str, objects: int, parts: Sequence[str], options: Sequence[str]) -> None:
        super().__init__()
        self.bench = Contestant("in-place", "-n", str(objects), *options, "-p", f"{code}:{','.join(parts)}",
                                program=(str(HERE / "build" / "inplace"),))
        self.note()

    def _counters(self) -> dict[str, int]:
        return {name: int(value) for name, value in self.bench.order("updates").items()}

    def close(self) -> None:
        wrong = self.bench.order("check")["wrong"]
        super().close()
        if wrong:
            raise RuntimeError(f"updates in place: {wrong} rows are wrong")


def _one(rounds: Rounds, places: dict[str, list[str]], wanted: Sequence[float], distribution: str) -> None:
    k, m = int(wanted[0]), int(wanted[1])
    code = f"{k}+{m}"
    options = ("-s", str(SIZE), "-b", str(BATCH), "-w", str(UPDATES), *DISTRIBUTIONS[distribution])
    limit = 1.0 if rounds.quick else WARM_SECONDS
    tell(kind="progress", text=f"stripes: {code}, {distribution}")
    coded = Log("lsmem", f"code = {code}\n", places["coded"], options, limit)
    replicas = Log("lsmem1", f"replicas = {m + 1}\n", places["replicas"], options, limit)
    fixed = InPlace(code, coded.objects(), places["in place"], options)
    players = {"coded": coded, "replicas": replicas, "in place": fixed}
    seconds = rounds.seconds * (1 if rounds.quick else TURN)
    rates = rounds.run({name: player.turn(seconds) for name, player in players.items()}, mixed=True)
    space = {"coded": coded.space(), "replicas": replicas.space()}
    for player in players.values():
        player.close()
        del player.turns[0]	# of the round that warms up
    _tell(wanted, distribution, players, rates, space)


def _tell(wanted: Sequence[float], distribution: str, players: "dict[str, Player]", rates: dict[str, list[float]],
          space: dict[str, float]) -> None:
    k, m, save, most, save_space = wanted
    coded, replicas, fixed = (players[name] for name in ("coded", "replicas", "in place"))
    assert isinstance(coded, Log) and isinstance(replicas, Log)
    c, traffic = coded.copied(), coded.traffic()
    group = next(name for name, code in CODES.items() if code == wanted)
    case = f"{k:.0f}+{m:.0f}, {distribution}"
    tell(kind="data", group=group, code=f"{k:.0f}+{m:.0f}", distribution=distribution, c=c, c_replicas=replicas.copied(),
         factor=1 + m / k, space=space, rates=rates, warm={"coded": coded.warm, "replicas": replicas.warm},
         traffic={name: player.traffic() for name, player in players.items()},
         turns={name: player.turns for name, player in players.items()})
    how = (f"stores of {MEMORY_MIB} MiB, {LIVE / 10:.0f} % live, backups of {RATIO} times that; objects of {SIZE} bytes, "
           f"50 % reads, 50 % durable updates, {BATCH} operations a group commit, one worker; bytes are those that lsmemd "
           "and the updates in place have written, for each byte of updates, of all rounds together")
    fixed_traffic, copies_traffic = fixed.traffic(), replicas.traffic()
    target = round(1 - save, 2) if c <= most else None
    result(group, f"{case}: traffic", [traffic], [fixed_traffic], "in place, commits in groups", "B/B", how, target,
           most=True)
    # More than this it is never to be.
    result(group, f"{case}: traffic", [traffic], [1 + m], "in place, one by one: 1 + m", "B/B", how, target or 1.0,
           most=True)
    result(group, f"{case}: traffic", [traffic], [copies_traffic], f"{m + 1:.0f} replicas", "B/B", how, most=True)
    result(group, f"{case}: traffic", [traffic], [(1 + m / k) * (1 + c)],
           f"(1 + m/k)(1 + c) = {1 + m / k:.2f} * {1 + c:.2f}", "B/B", how, most=True)
    result(group, f"{case}: rate", rates["coded"], rates["in place"], "in place", "op/s", how, RATE_TARGET)
    result(group, f"{case}: rate", rates["coded"], rates["replicas"], f"{m + 1:.0f} replicas", "op/s", how)
    result(group, f"{case}: space", [space["coded"]], [space["replicas"]], f"{m + 1:.0f} replicas", "B/B", how,
           round(1 - save_space, 2), most=True)


def _mib(shards: int) -> int:
    """Size of a backup that has one of so many parts of the log."""
    return -(-RATIO * MEMORY_MIB // shards // 8) * 8 + RESERVE_MIB


def _code(rounds: Rounds, wanted: Sequence[float], distributions: Iterable[str]) -> None:
    k, m = int(wanted[0]), int(wanted[1])
    parts = Parts()
    places = {"replicas": parts.cut(m + 1, _mib(1)), "coded": parts.cut(k + m, _mib(k)),
              "in place": parts.cut(k + m, MEMORY_MIB // k + 1)}
    for distribution in distributions:
        _one(rounds, places, wanted, distribution)
    parts.close()	# after a failure some are in use


def stripes(rounds: Rounds) -> None:
    """Traffic, rates and space of 3+2, for all patterns."""
    _code(rounds, CODES["stripes"], DISTRIBUTIONS)


def nine(rounds: Rounds) -> None:
    """The same of 5+4, on nine backups."""
    _code(rounds, CODES["stripes-nine"], DISTRIBUTIONS)


def _formula(k: int, rate: float, epsilon: float, entry: float) -> float:
    """Until a write is in a batch, in us, if backups take no time: see Documentation/stripes.rst, Latency."""
    fill = k * 4096 / entry / rate * 1e6
    if fill <= epsilon:
        return fill / 2
    others = rate * epsilon / 1e6
    return epsilon * (1 + others / 2) / (1 + others)


class Arrivals:
    """A coded store on which durable writes arrive. @epsilon: us."""

    def __init__(self, name: str, epsilon: int, parts: Sequence[str]) -> None:
        self.epsilon = epsilon
        self.durable = Durable("object", name, parts, MEMORY_MIB,
                               settings=f"code = {WAIT_CODE[0]}+{WAIT_CODE[1]}\nbatch_us = {epsilon}\n")
        self.durable.start("--format", "--force")
        self.store = Store(name)
        self.bench = Contestant("arrivals", "-p", self.durable.device, "-s", str(WAIT_SIZE), "-n", str(WAIT_OBJECTS))
        self.turns: dict[int, list[dict[str, float]]] = {rate: [] for rate in RATES}

    def turn(self, rate: int, seconds: float) -> Callable[[], float]:
        """A turn with so many writes a second: returns the mean of their times, in us."""
        def run() -> float:
            before = self.store.counters()["stats/appended_bytes"]
            done = self.bench.order("arrive", rate, seconds)
            done["entry"] = (self.store.counters()["stats/appended_bytes"] - before) / done["writes"]
            self.turns[rate].append(done)
            return float(done["mean"])
        return run

    def close(self) -> None:
        """Ends it."""
        self.bench.close()
        self.durable.close()


def waits(rounds: Rounds) -> None:
    """How long durable writes wait, with batch_us and without, beside the formula."""
    k, m = WAIT_CODE
    parts = Parts()
    stores = [Arrivals(f"lsmem{i or ''}", epsilon, parts.cut(k + m, _mib(k))) for i, epsilon in enumerate(EPSILONS)]
    seconds = rounds.seconds * (1 if rounds.quick else WAIT_TURN)
    rounds.run({f"{store.epsilon} {rate}": store.turn(rate, seconds) for store in stores for rate in RATES}, mixed=True)
    for store in stores:
        store.close()
        for turns in store.turns.values():
            del turns[0]	# of the round that warms up
    parts.close()
    trips = [turn["p50"] for turn in stores[0].turns[RATES[0]]]
    how = (f"a store of code {k}+{m}, objects of {WAIT_SIZE} bytes; durable writes arrive at random times (Poisson), each with a "
           "group commit of its own; the trip is the median at the lowest rate with batch_us = 0")
    for store in stores:
        for rate, turns in store.turns.items():
            case = f"batch_us {store.epsilon}, {rate}/s"
            formula = [trip + _formula(k, rate, store.epsilon, turn["entry"]) for trip, turn in zip(trips, turns)]
            tell(kind="data", group="stripes-wait", code=f"{k}+{m}", epsilon=store.epsilon, rate=rate, turns=turns,
                 formula=formula)
            result("stripes-wait", f"{case}: mean", [turn["mean"] for turn in turns], formula, "the trip + f(T, k)", "us", how,
                   most=True)
            result("stripes-wait", f"{case}: p99", [turn["p99"] for turn in turns],
                   [store.epsilon + 2 * trip for trip in trips], "batch_us + two trips", "us", how, 1.0, most=True)


GROUPS = {"stripes": stripes, "stripes-nine": nine, "stripes-wait": waits}
