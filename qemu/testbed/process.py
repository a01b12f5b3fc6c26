# SPDX-License-Identifier: GPL-2.0
"""Child processes that end with this process.

Each child leads a process group of its own; it is killed by the number of this group, never by
name. If this process dies without cleaning up, the kernel kills the child (setpriv --pdeathsig).
The kernel does this when the thread that started the child ends, so the thread must outlive it.
"""

import os
import signal
import subprocess
import sys
import time
from typing import Any, Callable, NoReturn, Sequence

from .errors import TestbedError

KILL_WAIT_SECONDS = 10.0


def spawn(argv: Sequence[str], **popen: Any) -> "subprocess.Popen[bytes]":
    """Starts @argv in a session of its own; the kernel kills it when this thread ends."""
    guarded = ["setpriv", "--pdeathsig", "KILL", "--", *argv]
    try:
        return subprocess.Popen(guarded, start_new_session=True, **popen)
    except OSError as error:
        raise TestbedError(f"cannot start {argv[0]}: {error}; run `make setup`") from error


def kill_group(child: "subprocess.Popen[bytes]", sig: int = signal.SIGKILL) -> None:
    """Signals the group of @child. Does nothing after @child was waited for: the number is free."""
    if child.returncode is None:
        try:
            os.killpg(child.pid, sig)
        except ProcessLookupError:
            pass


def reap(child: "subprocess.Popen[bytes]", timeout: float = KILL_WAIT_SECONDS) -> int:
    """Waits for a child that has got SIGKILL or another fatal signal; returns its exit code."""
    try:
        return child.wait(timeout)
    except subprocess.TimeoutExpired as error:
        raise TestbedError(f"process {child.pid} ({child.args!r}) survived SIGKILL for "
                           f"{timeout:.0f} s: the host is stuck; see `ps -o wchan {child.pid}`"
                           ) from error


def wait_until(what: str, condition: Callable[[], bool], timeout: float,
               interval: float = 0.02) -> None:
    """Polls @condition until it is true; raises after @timeout. @what: for the error message."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TestbedError(f"waited {timeout:.0f} s for {what}")
        time.sleep(interval)


def run_main(main: Callable[[], int]) -> NoReturn:
    """Runs main() and exits: prints TestbedErrors, and cleans up after SIGTERM as after ^C."""
    def on_sigterm(_sig: int, _frame: Any) -> None:
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, on_sigterm)
    try:
        sys.exit(main())
    except TestbedError as error:
        print(f"{os.path.basename(sys.argv[0])}: {error}", file=sys.stderr)
        sys.exit(125)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
