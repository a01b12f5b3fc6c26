# SPDX-License-Identifier: GPL-2.0
"""Runs test programs in guests, each of them also after a program that broke its guest.

A guest runs the programs one after the other. It is replaced when something that a program left
cannot be cleared, when the guest dies, or when a program hangs beyond all limits. A new guest runs
the remaining programs. The program that broke the guest has failed: its frame has no end, or names
what it left.
"""

import time
from pathlib import Path
from typing import Callable, Protocol, Sequence

from . import paths, tap
from .errors import TestbedError
from .guest import Result

RUNNER = paths.REPO / "qemu" / "guest-programs"
# Exit code of qemu/guest-programs: the remaining programs need another boot
BOOT_AGAIN = 75
# Time after a program's limit in which it is killed, and what it left is cleared
CLEARING_SECONDS = 240.0
# Guests in a row that may end before they run a program
IDLE_BOOTS = 2
POLL_SECONDS = 0.2


class Bed(Protocol):
    """The part of class Guest that this file uses."""

    def start(self, command: Sequence[str]) -> None:
        """This and the other methods: see class Guest."""

    def wait_booted(self) -> float: ...

    def alive(self) -> bool: ...

    def wait(self, timeout: float) -> Result: ...

    def power_cut(self) -> Result: ...

    def close(self) -> None: ...


# Makes a guest; arguments: its number from 0, and a function that is called for each line of output
Make = Callable[[int, Callable[[str], None]], Bed]
# Called for each guest at its end: its number, the guest, what was wrong or ""
Judge = Callable[[int, Bed, str], None]


class Programs:
    """Runs programs, in as many guests as needed."""

    def __init__(self, make: Make, judge: Judge, on_line: Callable[[str], None],
                 seconds: float) -> None:
        self._make = make
        self._judge = judge
        self._on_line = on_line
        self._seconds = seconds
        self._begun: list[str] = []
        self._due = 0.0

    def run(self, programs: Sequence[Path], limit: float) -> list[Path]:
        """Runs @programs for at most @limit seconds; returns those that did not begin."""
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
        """Runs programs in a guest until the guest ends."""
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
        """Waits until the guest ends; kills it if it hangs or at @end."""
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
    """The programs in @directories, or only those named in @wanted; the names that are missing."""
    found = [path for directory in directories if directory.is_dir()
             for path in sorted(directory.iterdir())
             if path.is_file() and path.stat().st_mode & 0o111]
    if wanted:
        found = [path for path in found if path.name in wanted]
    names = {path.name for path in found}
    return found, [name for name in wanted if name not in names]
