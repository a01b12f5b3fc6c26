# SPDX-License-Identifier: GPL-2.0
"""How long each test program took: a file that several runs add to, and a table of it.

The file maps SUITE/PROGRAM to `seconds` (of a clock), `processor` (seconds of the host's processors,
null if not known) and `ended` (seconds since 1970).
"""

import fcntl
import json
import time
from pathlib import Path
from typing import Callable, Optional

from . import tap

# What takes less is in the file only.
SHOWN_SECONDS = 5.0


class Times:
    """Adds to a file what is told of programs; shows what has come since it was made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun = time.time()

    def add(self, name: str, seconds: float, processor: Optional[float]) -> None:
        """Keeps one program's time; whatever the file had of it is replaced."""
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
        """Lines for a reader, the longest first."""
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
    """Times the programs of one stream by the lines of their frames, UNLOAD's with the program's."""

    def __init__(self, times: Times, suite: str,
                 processor: Callable[[], Optional[float]] = lambda: None) -> None:
        self._times = times
        self._suite = suite
        self._processor = processor
        self._name = ""
        self._begin: tuple[float, Optional[float]] = (0.0, None)
        self._end: Optional[tuple[float, Optional[float]]] = None

    def feed(self, line: str) -> None:
        """Takes a line of the stream."""
        if match := tap.BEGIN.match(line):
            if match.group(1).removesuffix(tap.UNLOAD) != self._name:
                self.close()
                self._name = match.group(1)
                self._begin = (time.monotonic(), self._processor())
        elif tap.END.match(line):
            self._end = (time.monotonic(), self._processor())

    def close(self) -> None:
        """The stream is at its end, or another program begins."""
        if self._name:
            end, used = self._end or (time.monotonic(), None)
            self._times.add(f"{self._suite}/{self._name}", end - self._begin[0],
                            None if used is None or self._begin[1] is None
                            else used - self._begin[1])
        self._name = ""
        self._end = None
