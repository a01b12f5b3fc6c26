# SPDX-License-Identifier: GPL-2.0
"""Test programs in guests: each gets its turn, whatever those before it did.

One guest runs all of them. It is given up when a program cannot be cleared up after, when the guest
dies, or when it hangs with a program beyond all limits; a new one runs the programs that are left. The
program in whose turn it happened has failed: its frame has no end, or says what was left.
"""

import time
from pathlib import Path
from typing import Callable, Protocol, Sequence

from . import paths, tap
from .errors import TestbedError
from .guest import Result

RUNNER = paths.REPO / "qemu" / "guest-programs"
# Of qemu/guest-programs: the programs that are left want another boot.
BOOT_AGAIN = 75
# Beyond a program's own limit: it is killed, cleared up after, and the next one begins.
CLEARING_SECONDS = 240.0
# How often a guest may end before it runs a program.
IDLE_BOOTS = 2
POLL_SECONDS = 0.2


class Bed(Protocol):
    """What is used of a guest."""

    def start(self, command: Sequence[str]) -> None:
        """See class Guest, as of the others."""

    def wait_booted(self) -> float: ...

    def alive(self) -> bool: ...

    def wait(self, timeout: float) -> Result: ...

    def power_cut(self) -> Result: ...

    def close(self) -> None: ...


# Makes a guest, the n-th, which gives its lines to a function.
Make = Callable[[int, Callable[[str], None]], Bed]
# Told of each guest at its end: its number, itself, what was wrong.
Judge = Callable[[int, Bed, str], None]


class Programs:
    """Runs programs in as many guests as they need."""

    def __init__(self, make: Make, judge: Judge, on_line: Callable[[str], None],
                 seconds: float) -> None:
        self._make = make
        self._judge = judge
        self._on_line = on_line
        self._seconds = seconds
        self._begun: list[str] = []
        self._due = 0.0

    def run(self, programs: Sequence[Path], limit: float) -> list[Path]:
        """Runs @programs for @limit seconds at most; returns those that had no turn."""
        left = list(programs)
        end = time.monotonic() + limit
        number = idle = 0
        while left and idle < IDLE_BOOTS and time.monotonic() < end:
            self._begun = []
            self._boot(number, left, end)
            idle = 0 if self._begun else idle + 1
            left = [path for path in left if path.name not in self._begun]
            number += 1
        return left

    def _boot(self, number: int, left: Sequence[Path], end: float) -> None:
        """One guest."""
        guest = self._make(number, self._feed)
        wrong = ""
        try:
            guest.start([str(RUNNER), "--seconds", f"{self._seconds:.0f}", *map(str, left)])
            guest.wait_booted()
            self._due = time.monotonic() + self._seconds
            self._wait(guest, end)
        except TestbedError as error:
            wrong = str(error)
        finally:
            guest.close()
        self._judge(number, guest, wrong)

    def _feed(self, line: str) -> None:
        if match := tap.BEGIN.match(line):
            self._due = time.monotonic() + self._seconds + CLEARING_SECONDS
            if not match.group(1).endswith(tap.UNLOAD):
                self._begun.append(match.group(1))
        self._on_line(line)

    def _wait(self, guest: Bed, end: float) -> None:
        """Waits for the guest's end; kills one that hangs."""
        while guest.alive():
            now = time.monotonic()
            if now > end:
                guest.power_cut()
                raise TestbedError("the suite's time is over")
            if now > self._due:
                guest.power_cut()
                raise TestbedError(f"{(self._begun or ['the guest'])[-1]} hangs: killed with its guest")
            time.sleep(POLL_SECONDS)
        status = guest.wait(POLL_SECONDS).exit_code
        if status not in (0, BOOT_AGAIN):
            raise TestbedError("the guest died" if status is None else f"it returned {status}")


def find(directories: Sequence[Path], wanted: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The programs in @directories, those of the names @wanted only if there are any; what is missing."""
    found = [path for directory in directories if directory.is_dir()
             for path in sorted(directory.iterdir())
             if path.is_file() and path.stat().st_mode & 0o111]
    if wanted:
        found = [path for path in found if path.name in wanted]
    names = {path.name for path in found}
    return found, [name for name in wanted if name not in names]
