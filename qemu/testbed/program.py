# SPDX-License-Identifier: GPL-2.0
"""One test program under a time limit, framed for the parser of tap.py; used on the host and in guests.

This process is the reaper of all that the program starts (PR_SET_CHILD_SUBREAPER): a daemon with a
session of its own is still a descendant of this process, on kernels without control groups too. So
all that is left when the program has ended can be listed and killed, and nothing else.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Optional, Sequence

PR_SET_CHILD_SUBREAPER = 36
# A program that is over its time gets SIGTERM, and SIGKILL so much later.
TERM_SECONDS = 10.0
# What got SIGKILL is given so long to go.
KILL_SECONDS = 20.0
# Of timeout(1)
TIMED_OUT = 124


def adopt() -> None:
    """Makes this process the parent of descendants whose own parent has ended."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _stat(pid: int) -> Optional[tuple[str, str, int]]:
    """Name, state and parent of a process; None: it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    state, parent = rest.split()[:2]
    return name, state, int(parent)


def descendants() -> dict[int, str]:
    """The living processes below this one: number, name."""
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
    """Takes what has ended; returns whether children are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def kill_descendants() -> list[str]:
    """Kills all that is below this process, until nothing is; returns what does not go."""
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
    """Waits for the program itself, as timeout(1) does; its status as the shell has it."""
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
                pass	# stuck in the kernel: kill_descendants() says so
        return TIMED_OUT
    return status if status >= 0 else 128 - status


def run(name: str, argv: Sequence[str], seconds: float) -> list[str]:
    """Runs @argv for @seconds at most, its output between a frame's lines.

    Returns the processes that it left running; they have been killed by then.
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
    # What was cut off may have left a line without an end.
    print(f"{os.linesep if status else ''}# end {name} exit={status}", flush=True)
    return [f"{text} ({pid})" for pid, text in left.items()]


def exit_on_signals() -> None:
    """SIGINT and SIGTERM end this process as an exception does, so that it clears up."""
    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
