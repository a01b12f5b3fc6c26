# SPDX-License-Identifier: GPL-2.0
"""Common parts of the commands that run something in a guest."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Sequence

from .errors import TestbedError
from .guest import UNUSABLE, Command, Result

TIMEOUT_SECONDS = 300.0
# Exit code: the command succeeded, but the kernel log has warnings
WARNED = 126


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that all kinds of guests have."""
    parser.add_argument("command", nargs="*", help="command and its arguments, after --")
    parser.add_argument("--sh", metavar="TEXT", help="shell text instead of a command")
    parser.add_argument("--dir", type=Path, metavar="DIR",
                        help="logs and images (default: a new one in out/guests)")
    parser.add_argument("--mem", default="2G", help="memory (default: %(default)s)")
    parser.add_argument("--cpus", type=int, default=2, help="processors (default: %(default)s)")
    parser.add_argument("--kernel-args", default="", metavar="ARGS", help="more kernel arguments")
    parser.add_argument("--timeout", type=float, metavar="SECONDS",
                        help=f"limit for boot and command (default: {TIMEOUT_SECONDS:.0f}, "
                             "and longer for kernels that are slow)")
    parser.add_argument("--allow-warnings", action="store_true",
                        help="do not fail on bad lines in the kernel log")


def command(args: argparse.Namespace) -> Command:
    """The command for the guest, from the command line."""
    if bool(args.command) == bool(args.sh):
        raise TestbedError("nothing to run: give a command after --, or --sh TEXT")
    return args.sh or args.command


def report(result: Result, workdir: Path, allow_warnings: bool) -> int:
    """Prints the result on standard error; returns the exit code of the program."""
    name = os.path.basename(sys.argv[0])
    for line in result.problems:
        print(f"{name}: kernel: {line}", file=sys.stderr)
    if result.exit_code is None:
        print(f"{name}: the guest died; see {workdir}/console and {workdir}/qemu.log",
              file=sys.stderr)
        return UNUSABLE
    boot = f"{result.boot_seconds:.1f} s" if result.boot_seconds else "never"
    print(f"{name}: exit code {result.exit_code}, booted {boot}, {result.seconds:.1f} s in all, "
          f"files in {workdir}", file=sys.stderr)
    if result.exit_code == 0 and result.problems and not allow_warnings:
        return WARNED
    return result.exit_code


class Progress:
    """Prints lines of progress with the time since it was made."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"[{time.monotonic() - self._begin:6.1f} s] {text}", flush=True)


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Formats names and figures in two columns."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value:>24}" for name, value in rows)
