# SPDX-License-Identifier: GPL-2.0
"""Runs commands in parallel, with a limit, and counts their results."""

import os
import re
import shlex
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import Callable, Mapping, Optional, Sequence

from . import paths, process
from .errors import TestbedError

COUNTS = re.compile(r"(\d+) passed, (\d+) failed")
# The name of a test that failed, and the indented lines below it.
FAILED = re.compile(r"^failed (.*(?:\n {6}.*)*)", re.MULTILINE)
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Job:
    """Commands that run one after the other; several jobs run in parallel.

    The last line of a command in @stages is `N passed, N failed`.
    """

    name: str
    stages: Sequence[Sequence[str]]
    makes: Sequence[Sequence[str]] = ()		# run before the stages; must return 0
    env: Mapping[str, str] = field(default_factory=dict)


class Running:
    """A job that runs in a thread of its own; prints the output of its commands."""

    def __init__(self, job: Job, say: Callable[[str], None]) -> None:
        self.job = job
        self._say = say
        self.seconds = 0.0
        self.passed = 0
        self.failed: list[str] = []
        self._child: "Optional[subprocess.Popen[bytes]]" = None
        self._lock = threading.Lock()
        self._stopped = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._thread.is_alive()

    def stop(self, why: str) -> None:
        """Ends the job at once; it has failed for the reason @why."""
        with self._lock:
            self._stopped = self._stopped or why
            if self._child is not None:
                process.kill_group(self._child)

    def join(self) -> None:
        """Waits for its end."""
        self._thread.join()

    def _run(self) -> None:
        begun = time.monotonic()
        self._say(f"== {self.job.name}: begins")
        try:
            for argv in self.job.makes:
                status, _ = self._command(argv)
                if status:
                    raise TestbedError(f"{shlex.join(argv)} returned {status}")
            for argv in self.job.stages:
                self._count(argv)
        except Exception as error:	# any error makes the job fail
            self.failed.append(f"{self.job.name}: {self._stopped or error}")
        self.seconds = time.monotonic() - begun
        self._say(f"== {self.job.name}: {self.seconds:.0f} s")

    def _count(self, argv: Sequence[str]) -> None:
        status, lines = self._command(argv)
        counts = COUNTS.fullmatch(lines[-1]) if lines else None
        if counts is None:
            raise TestbedError(f"{shlex.join(argv)} returned {status} and counted nothing")
        passed, failed = int(counts.group(1)), int(counts.group(2))
        named = FAILED.findall("\n".join(lines))
        if not failed and (status or not passed):
            failed = 1
        self.passed += passed
        self.failed += (named + [f"{self.job.name}: {shlex.join(argv)}"] * failed)[:failed]

    def _command(self, argv: Sequence[str]) -> tuple[int, list[str]]:
        """Runs a command; returns its exit code and its lines."""
        lines = []
        with self._lock:
            if self._stopped:
                raise TestbedError(self._stopped)
            # This thread outlives the child: process.py requires it.
            self._child = process.spawn(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, cwd=paths.REPO,
                                        env=os.environ | self.job.env)
        assert self._child.stdout is not None
        for raw in self._child.stdout:
            lines.append(raw.decode(errors="replace").rstrip("\n"))
            if not COUNTS.fullmatch(lines[-1]):
                self._say(lines[-1])
        return self._child.wait(), lines


def _say(line: str) -> None:
    """Prints a whole line; may be called from any thread."""
    print(f"{line}\n", end="", flush=True)


def run(jobs: Sequence[Job], lanes: int, deadline: float,
        say: Callable[[str], None] = _say) -> list[Running]:
    """Runs @jobs in this order, at most @lanes at a time.

    At @deadline ends the running jobs, which have failed then, and starts no other job. Returns all
    jobs that were started; the caller has to count the others.
    """
    waiting, running, ended = list(jobs), list[Running](), list[Running]()
    try:
        while waiting or running:
            if time.monotonic() > deadline:
                waiting.clear()
                for one in running:
                    one.stop("not through: no time was left")
            while waiting and len(running) < lanes:
                running.append(Running(waiting.pop(0), say))
            ended += [one for one in running if not one.alive()]
            running = [one for one in running if one not in ended]
            time.sleep(POLL_SECONDS)
    finally:
        for one in running:
            one.stop("stopped")
        for one in running:
            one.join()
    return ended
