# SPDX-License-Identifier: GPL-2.0
"""Runs a test program with a time limit, in a frame for the parser of tap.py. For host and guest.

This process becomes the parent of all orphans among the processes that the program starts
(PR_SET_CHILD_SUBREAPER). So even a daemon in a session of its own remains a descendant of this
process, also on kernels without control groups. When the program has ended, exactly the processes
that it left can be listed and killed.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Optional, Sequence

PR_SET_CHILD_SUBREAPER = 36
# From SIGTERM, which a program gets after its time limit, to SIGKILL
TERM_SECONDS = 10.0
# Longest wait for the end of a process after SIGKILL
KILL_SECONDS = 20.0
# Exit code of timeout(1)
TIMED_OUT = 124


def adopt() -> None:
    """Makes this process the new parent of descendants whose parent ends."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _stat(pid: int) -> Optional[tuple[str, str, int]]:
    """Name, state and parent of a process; None: it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    state, parent = rest.split()[:2]
    return name, state, int(parent)


def descendants() -> dict[int, str]:
    """The descendants of this process that have not ended: process id, name."""
    found = {}
    for text in filter(str.isdigit, os.listdir("/proc")):
        stat = _stat(int(text))
        if stat:
            found[int(text)] = stat
    mine = {os.getpid()}
    grows = True
    while grows:
        below = {pid for pid, (_, _, parent) in found.items() if parent in mine}
        grows = not below <= mine
        mine |= below
    return {pid: found[pid][0] for pid in sorted(mine - {os.getpid()})
            if pid in found and found[pid][1] not in "ZX"}


def _reap() -> bool:
    """Waits for all children that have ended; returns whether children are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def kill_descendants() -> list[str]:
    """Kills all descendants of this process; returns those that do not end."""
    deadline = time.monotonic() + KILL_SECONDS
    while True:
        for pid in descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        left = _reap()
        if not left:
            return []
        if time.monotonic() > deadline:
            return [f"{name} ({pid})" for pid, name in descendants().items()]
        time.sleep(0.02)


def _wait(child: "subprocess.Popen[bytes]", seconds: float) -> int:
    """Waits for the program itself, as timeout(1) does; returns its exit code, as of a shell."""
    try:
        status = child.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGTERM)
        try:
            child.wait(TERM_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            try:
                child.wait(KILL_SECONDS)
            except subprocess.TimeoutExpired:
                pass	# stuck in the kernel: kill_descendants() reports it
        return TIMED_OUT
    return status if status >= 0 else 128 - status


def run(name: str, argv: Sequence[str], seconds: float) -> list[str]:
    """Runs @argv for at most @seconds; prints its output in a frame.

    Returns the processes that the program left; run() has killed them.
    """
    print(f"# begin {name}", flush=True)
    left: dict[int, str] = {}
    try:
        try:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                                     start_new_session=True)
        except OSError as error:
            print(f"# {argv[0]}: {error.strerror}")
            status = 127
        else:
            status = _wait(child, seconds)
            left = descendants()
    finally:
        kill_descendants()
    # A program that was killed may have printed a line without its end.
    print(f"{os.linesep if status else ''}# end {name} exit={status}", flush=True)
    return [f"{text} ({pid})" for pid, text in left.items()]


def exit_on_signals() -> None:
    """Makes SIGINT and SIGTERM raise SystemExit, so that this process cleans up."""
    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
