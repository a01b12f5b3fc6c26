# SPDX-License-Identifier: GPL-2.0
"""TAP, the Test Anything Protocol: a writer for tests in Python, a parser for tests/run.

A stream is the TAP of one program, or of several, each in a frame of two comments (program.py):

    # begin NAME
    # end NAME exit=CODE

Besides its own failed lines, one more failure counts for a program that has no plan, runs another
number of tests than planned, bails out, returns an error without a failed line, or has no end. The
same holds for a stream without any test, and for one whose producer returns an error without a
failed line.
"""

import re
from dataclasses import dataclass
from typing import Callable, Iterable, Optional

BEGIN = re.compile(r"# begin (\S+)\s*$")
END = re.compile(r"# end (\S+) exit=(\d+)\s*$")
PLAN = re.compile(r"1\.\.(\d+)\b")
TEST = re.compile(r"(not )?ok\b\s*(\d+)?\s*-?\s*([^#]*?)\s*(?:#\s*(.*))?$")
# Exit codes of timeout(1), and of programs that SIGKILL or SIGTERM ended
TIMEOUT_EXIT = (124, 137, 143)
# qemu/guest-programs appends this to the name of a program: tests of what the program left
UNLOAD = ".unload"


@dataclass(frozen=True)
class Check:
    """The outcome of one test."""

    program: str
    name: str
    outcome: str		# "ok", "not ok" or "skip"
    note: str = ""


class Parser:
    """Parses lines; reports each test at once, and defects of a program at its end."""

    def __init__(self, stream: str, report: Callable[[Check], None]) -> None:
        self._stream = stream
        self._report = report
        self._reported = 0
        self._broken = False
        self._start("")

    def _start(self, program: str) -> None:
        self._program = program
        self._planned: Optional[int] = None
        self._run = 0
        self._failed = 0
        self._bail = ""

    def feed(self, line: str) -> bool:
        """Parses one line of the stream; returns whether it is TAP or a line of a frame."""
        if match := BEGIN.match(line):
            self._end_program(None)
            self._start(match.group(1))
        elif match := END.match(line):
            self._end_program(int(match.group(2)))
            self._start("")
        elif match := PLAN.match(line):
            self._planned = (self._planned or 0) + int(match.group(1))
        elif line.startswith("Bail out!"):
            self._bail = line[len("Bail out!"):].strip() or "no reason given"
        elif match := TEST.match(line):
            self._test(match)
        else:
            return False
        return True

    def close(self, exit_code: int = 0) -> None:
        """Ends the stream; @exit_code: exit code of its producer."""
        self._end_program(None)
        self._start("")
        if exit_code in TIMEOUT_EXIT:
            self._emit("ends in time", "not ok", "timed out or killed")
        elif exit_code and not self._broken:
            self._emit("exit code", "not ok", f"returned {exit_code} without a failed test")
        elif not self._reported:
            self._emit("tests", "not ok", "no test at all")

    def _test(self, match: "re.Match[str]") -> None:
        self._run += 1
        name = match.group(3) or f"test {match.group(2) or self._run}"
        directive = match.group(4) or ""
        if match.group(1):
            self._failed += 1
            outcome = "not ok"
        else:
            outcome = "skip" if directive.upper().startswith("SKIP") else "ok"
        self._emit(name, outcome, directive)

    def _emit(self, name: str, outcome: str, note: str = "") -> None:
        self._reported += 1
        self._broken |= outcome == "not ok"
        self._report(Check(self._program or self._stream, name, outcome, note))

    def _end_program(self, exit_code: Optional[int]) -> None:
        """Reports the defects of a program; of lines between frames only if they have TAP."""
        if self._program or self._planned is not None or self._run or self._bail:
            for name, wrong in self._defects(exit_code):
                self._emit(name, "not ok", wrong)

    def _defects(self, exit_code: Optional[int]) -> list[tuple[str, str]]:
        defects = []
        if self._program and exit_code is None:
            defects.append(("ends", "no end: it was cut off"))
        elif exit_code in TIMEOUT_EXIT:
            defects.append(("ends in time", "timed out or killed"))
        elif exit_code and not self._failed:
            defects.append(("exit code", f"returned {exit_code} without a failed test"))
        if self._bail:
            defects.append(("runs to its end", f"bailed out: {self._bail}"))
        elif self._planned is None:
            defects.append(("plan", "no plan line"))
        elif self._planned != self._run:
            defects.append(("plan", f"planned {self._planned} tests, ran {self._run}"))
        return defects


class Tap:
    """Writes the TAP of a Python test."""

    def __init__(self) -> None:
        self._count = 0
        self._failed = 0
        print("TAP version 13", flush=True)

    def check(self, name: str, good: bool, *details: str) -> bool:
        """Prints one test; @details are printed only if it failed."""
        self._count += 1
        print(f"{'ok' if good else 'not ok'} {self._count} {name}", flush=True)
        if not good:
            self._failed += 1
            for detail in details:
                self.say(detail)
        return good

    def wrong(self, name: str, wrong: Iterable[object]) -> bool:
        """Prints one test, which passes if @wrong is empty."""
        details = [str(one) for one in wrong]
        return self.check(name, not details, *details)

    def same(self, name: str, got: object, wanted: object) -> bool:
        """Prints one test, which passes if @got and @wanted are equal."""
        return self.check(name, got == wanted, f"got {got!r}, wanted {wanted!r}")

    def say(self, text: str) -> None:
        """Prints comments."""
        for line in text.splitlines():
            print(f"# {line}", flush=True)

    def finish(self) -> int:
        """Prints the plan; returns the exit code of the test."""
        print(f"1..{self._count}", flush=True)
        return 1 if self._failed or not self._count else 0
