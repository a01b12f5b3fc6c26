# SPDX-License-Identifier: GPL-2.0
"""Run times of test programs: a file that several runs add to, and a table.

The file maps SUITE/PROGRAM to `seconds` (elapsed time), `processor` (processor time of the host in
seconds, null if not known) and `ended` (seconds since 1970).
"""

import fcntl
import json
import time
from pathlib import Path
from typing import Callable, Optional

from . import tap

# The table has no line for programs that take less.
SHOWN_SECONDS = 5.0


class Times:
    """Adds run times to a file; its table shows those added since it was made, by any process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun = time.time()

    def add(self, name: str, seconds: float, processor: Optional[float]) -> None:
        """Adds the run time of a program, or replaces an earlier one."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            known = json.loads(text) if text else {}
            known[name] = {"seconds": round(seconds, 1), "ended": round(time.time()),
                           "processor": None if processor is None else round(processor, 1)}
            file.truncate(0)
            file.write(json.dumps(known, indent=1) + "\n")

    def table(self) -> list[str]:
        """Lines for a reader, sorted by time, longest first."""
        if not self._path.exists():
            return []
        rows = [(row["seconds"], row["processor"], name)
                for name, row in json.loads(self._path.read_text()).items()
                if row["ended"] >= int(self._begun)]
        rows.sort(key=lambda row: (-row[0], row[2]))
        lines = ["seconds  processor  program"]
        for seconds, processor, name in rows:
            if seconds >= SHOWN_SECONDS:
                used = "-" if processor is None else f"{processor:.1f}"
                lines.append(f"{seconds:7.1f}  {used:>9}  {name}")
        less = [seconds for seconds, _, _ in rows if seconds < SHOWN_SECONDS]
        lines.append(f"{sum(less):7.1f}  {'':9}  {len(less)} others")
        return lines


class Watch:
    """Measures the programs of a stream by the lines of their frames; includes frames of UNLOAD."""

    def __init__(self, times: Times, suite: str,
                 processor: Callable[[], Optional[float]] = lambda: None) -> None:
        self._times = times
        self._suite = suite
        self._processor = processor
        self._name = ""
        self._begin: tuple[float, Optional[float]] = (0.0, None)
        self._end: Optional[tuple[float, Optional[float]]] = None

    def feed(self, line: str) -> None:
        """Handles a line of the stream."""
        if match := tap.BEGIN.match(line):
            if match.group(1).removesuffix(tap.UNLOAD) != self._name:
                self.close()
                self._name = match.group(1)
                self._begin = (time.monotonic(), self._processor())
        elif tap.END.match(line):
            self._end = (time.monotonic(), self._processor())

    def close(self) -> None:
        """Ends the stream or the present program: adds its run time."""
        if self._name:
            end, used = self._end or (time.monotonic(), None)
            self._times.add(f"{self._suite}/{self._name}", end - self._begin[0],
                            None if used is None or self._begin[1] is None
                            else used - self._begin[1])
        self._name = ""
        self._end = None
