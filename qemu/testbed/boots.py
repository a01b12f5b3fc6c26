# SPDX-License-Identifier: GPL-2.0
"""What the guests of a run of testbed.powercut have written, and lines of progress from it.

The power may be cut at any time, so the last line of each file of lines may be torn.
"""

import json
import threading
from pathlib import Path
from typing import Any, Callable, Optional

TELL_SECONDS = 10.0

Sample = dict[str, Any]


class Boots:
    """The files of all guests of a run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def host_dir(self, boot: int) -> Path:
        """What a guest wrote."""
        return self.directory / f"boot-{boot:04}" / "host"

    def newest(self) -> int:
        """The number of the newest boot."""
        boot = 0
        while self.host_dir(boot + 1).exists():
            boot += 1
        return boot

    def report(self, boot: int, name: str) -> dict[str, Any]:
        """A file of JSON."""
        found: dict[str, Any] = json.loads((self.host_dir(boot) / f"{name}.json").read_text())
        return found

    def started(self, boot: int) -> float:
        """When the daemons were started, in seconds since the boot."""
        return float((self.host_dir(boot) / "started").read_text())

    def lines(self, boot: int, name: str) -> list[Sample]:
        """What a guest wrote line by line; the power cut may have torn the last line."""
        path = self.host_dir(boot) / f"{name}.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]


class Teller:
    """Prints what the newest guest is doing, every few seconds, when that has changed, until it is closed."""

    def __init__(self, boots: Boots, what: Callable[[int], Optional[str]], say: Callable[[str], None]) -> None:
        self._boots = boots
        self._what = what
        self._say = say
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Teller":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        told: Optional[str] = None
        while not self._end.wait(TELL_SECONDS):
            text = self._what(self._boots.newest())
            if text and text != told:
                told = text
                self._say(text)
