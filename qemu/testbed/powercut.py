# SPDX-License-Identifier: GPL-2.0
"""Repeats load, power cut, recovery and verification.

Each boot first recovers and verifies the state after the last cut (`after`), then loads (`during`)
until its power is cut. N cuts need N+1 boots. A round is one boot and has these steps:

    after       Recovers and verifies; returns 0 if all is right. It is skipped in the first round,
                unless the workload has `after_first`: then it also prepares.
    check()     Runs on the host, while the guest waits.
    during      Creates $LSMEM_HOST_DIR/ready when it is prepared and its load has begun. Then the
                random time until the cut begins. It must not end by itself.

In some rounds the power is cut during `after` (`recovery_cuts`), because recovery also writes.

Environment of the programs in the guest: LSMEM_SEED is the seed of the round, LSMEM_ROUND its
number from 0, LSMEM_JOURNAL a port for records of what is acknowledged, which survive the cut.
$LSMEM_HOST_DIR/journals/ has the journals of all boots so far; their names are the numbers of the
boots: 0000, 0001 …
"""

import os
import random
import shlex
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator, Mapping, Optional, Sequence

from . import process
from .drive import Drive
from .errors import TestbedError
from .guest import Guest, Result
from .kernel import Kernel

GO_SECONDS = 60.0


@dataclass(frozen=True)
class Workload:
    """Programs in the guest before and after a cut, a check on the host, and their limits."""

    name: str
    during: str
    after: str
    # Gets the directory of the round and all journals so far; returns what is wrong.
    check: Optional[Callable[[Path, Sequence[Path]], list[str]]] = None
    after_first: bool = False
    load_seconds: tuple[float, float] = (1.0, 10.0)
    ready_seconds: float = 60.0
    after_seconds: float = 120.0
    # The probability that a recovery is cut too, and the latest time of this cut after the boot
    recovery_cuts: float = 0.0
    recovery_seconds: float = 5.0
    mem: str = "2G"
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Round:
    """The result of a boot."""

    number: int
    seed: int
    cut_after: Optional[float] = None		# seconds of load or recovery; None: no cut
    cut_in_recovery: bool = False
    problems: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """Formats one line for a reader."""
        if self.cut_in_recovery:
            what = f"power cut {self.cut_after:.2f} s into recovery"
        elif self.cut_after is not None:
            what = f"power cut after {self.cut_after:.2f} s of load"
        else:
            what = "last recovery"
        return f"boot {self.number}: {what}, seed {self.seed}"


class PowerCuts:
    """Runs a workload on the same drives with several power cuts."""

    def __init__(self, workload: Workload, drives: Sequence[Drive], directory: Path,
                 seed: int, say: Callable[[str], None] = print,
                 kernel: Optional[Kernel] = None) -> None:
        self.workload = workload
        self.kernel = kernel
        self.drives = list(drives)
        self.directory = directory
        self.seed = seed
        self._say = say
        self._journals: list[Path] = []
        self._boots = 0
        self.cuts = 0

    def run(self, cuts: int) -> Iterator[Round]:
        """Cuts the power @cuts times, recovers after the last cut; yields the result of each boot.

        Stops after a round with problems, so that the drives keep the faulty state.
        """
        shutil.rmtree(self.directory, ignore_errors=True)
        for drive in self.drives:
            drive.remove()
        while self.cuts < cuts:
            rng = random.Random(f"{self.seed}:{self._boots}")
            if self._boots and self.cuts + 1 < cuts and rng.random() < self.workload.recovery_cuts:
                done = self._cut_recovery(rng)
            else:
                done = self._cut_load(rng)
            self.cuts += 1
            yield done
            if done.problems:
                return
        yield self._recover()

    def _cut_load(self, rng: random.Random) -> Round:
        done = self._new_round(rng)
        delay = rng.uniform(*self.workload.load_seconds)
        with self._guest(done) as guest:
            guest.start(self._script(done, load=True))
            if not self._verified(guest, done):
                return done
            (guest.host_dir / "go").touch()
            self._await(guest, "ready", self.workload.ready_seconds, done)
            if done.problems:
                return done
            time.sleep(delay)
            if not guest.alive():
                done.problems.append("the load ended by itself: "
                                     + _tail(guest.wait(process.KILL_WAIT_SECONDS)))
                return done
            done.cut_after = delay
            self._take(guest, guest.power_cut(), done)
        return done

    def _cut_recovery(self, rng: random.Random) -> Round:
        done = self._new_round(rng)
        done.cut_in_recovery = True
        done.cut_after = rng.uniform(0, self.workload.recovery_seconds)
        with self._guest(done) as guest:
            guest.start(self._script(done, load=False))
            guest.wait_booted()
            time.sleep(done.cut_after)
            ended = not guest.alive()
            result = guest.power_cut()
            if ended:
                done.problems.append(f"recovery failed: {_tail(result)}")
            self._take(guest, result, done)
        return done

    def _recover(self) -> Round:
        done = self._new_round(random.Random(f"{self.seed}:{self._boots}"))
        with self._guest(done) as guest:
            guest.start(self._script(done, load=False))
            if self._verified(guest, done):
                (guest.host_dir / "go").touch()
                self._take(guest, guest.wait(GO_SECONDS), done)
        return done

    def _new_round(self, rng: random.Random) -> Round:
        done = Round(self._boots, rng.getrandbits(32))
        self._boots += 1
        for drive in self.drives:
            drive.seed = rng.getrandbits(32)
        return done

    def _guest(self, done: Round) -> Guest:
        env = {"LSMEM_SEED": str(done.seed), "LSMEM_ROUND": str(done.number)}
        return Guest(self.directory / f"boot-{done.number:04}", drives=self.drives,
                     kernel=self.kernel, mem=self.workload.mem, env={**self.workload.env, **env},
                     files={f"journals/{i:04}": path for i, path in enumerate(self._journals)})

    def _script(self, done: Round, load: bool) -> str:
        """The guest's shell text: recover, tell the host, wait for the file `go`, load."""
        after = self.workload.after if done.number or self.workload.after_first else ":"
        lines = [
            "mkdir -p $LSMEM_HOST_DIR/journals",
            f"sh -c {shlex.quote(after)}",
            "status=$?",
            "echo $status > $LSMEM_HOST_DIR/verified",
            "[ $status = 0 ] || exit $status",
            "until [ -e $LSMEM_HOST_DIR/go ]; do sleep 0.1; done",
        ]
        if load:
            lines.append(f"exec sh -c {shlex.quote(self.workload.during)}")
        return "\n".join(lines)

    def _verified(self, guest: Guest, done: Round) -> bool:
        """Waits until the guest has verified the state after the last cut, then runs check()."""
        booted = guest.wait_booted()
        self._say(f"boot {done.number}: up after {booted:.1f} s")
        self._await(guest, "verified", self.workload.after_seconds, done)
        if not done.problems:
            status = (guest.host_dir / "verified").read_text().strip()
            if status != "0":
                result = guest.wait(process.KILL_WAIT_SECONDS)
                done.problems.append(f"recovery returned {status}: {_tail(result)}")
        if not done.problems and self.workload.check is not None and done.number:
            done.problems += self.workload.check(guest.workdir, self._journals)
        return not done.problems

    def _await(self, guest: Guest, name: str, seconds: float, done: Round) -> None:
        """Waits until the guest has written the file @name; notes a problem if it does not."""
        path = guest.host_dir / name

        def written() -> bool:
            return path.exists() and (name == "ready" or path.stat().st_size > 0)

        try:
            process.wait_until(f"the guest's file {path}",
                               lambda: written() or not guest.alive(), seconds)
        except TestbedError as error:
            done.problems.append(f"{error}: {_tail(guest.power_cut())}")
            return
        if not written():
            result = guest.wait(process.KILL_WAIT_SECONDS)
            done.problems.append(f"the guest ended before '{name}': {_tail(result)}")

    def _take(self, guest: Guest, result: Result, done: Round) -> None:
        """Keeps the journal of a boot, and notes bad lines in its kernel log."""
        self._journals.append(guest.journal)
        done.problems += [f"kernel: {line}" for line in result.problems]


def _tail(result: Result, lines: int = 15) -> str:
    """The last lines of a guest's output."""
    return "\n".join(["", *result.output.splitlines()[-lines:]])


def new_seed() -> int:
    """Returns $LSMEM_SEED, which repeats a run, or a new random number."""
    given = os.environ.get("LSMEM_SEED", "")
    if given and not given.isdigit():
        raise TestbedError(f"LSMEM_SEED={given}: a seed is a whole number")
    return int(given) if given else random.SystemRandom().getrandbits(32)
