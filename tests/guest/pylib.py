# SPDX-License-Identifier: GPL-2.0
"""What the tests of the Python package and of the Flight server share: stores, TAP. Imported, not run."""

import contextlib
import ctypes
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "qemu"), str(REPO / "tools/python")]
# Found by its name from now on
ctypes.CDLL(str(REPO / "tools/lib/liblsmem.so.1"))

import numpy as np  # noqa: E402
from testbed.tap import Tap  # noqa: E402,F401

LSMEMCTL = REPO / "tools/lsmemctl/lsmemctl"
WAIT_SECONDS = 60.0

# An order, the item of an array
ORDER = np.dtype([("region", "<u4"), ("quantity", "<u4"), ("cents", "<i8"), ("weight", "<f8"),
                  ("code", "S6"), ("rest", "V70")])


def run(*command: object) -> str:
    """Runs a command; returns what it prints."""
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def store_made(size: str, handles: int) -> Iterator[str]:
    """A volatile store, by its name."""
    name = run(LSMEMCTL, "create", "--size", size, "--handles", handles).strip()
    run("udevadm", "settle", "--timeout=10")
    try:
        yield name
    finally:
        run(LSMEMCTL, "destroy", name)


def attribute(name: str, path: str) -> Path:
    """A file of the store in sysfs."""
    return Path("/sys/class/lsmem") / name / path


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    """Waits for an event that no descriptor tells."""
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} within {WAIT_SECONDS:.0f} s")
        time.sleep(0.001)


def revoked(name: str) -> int:
    """Snapshots of the store that were revoked."""
    return int(attribute(name, "cleaner/snapshots_revoked").read_text())


def orders(nr: int, seed: int) -> "np.ndarray[Any, Any]":
    """Random orders."""
    dice = np.random.default_rng(seed)
    made = np.zeros(nr, ORDER)
    made["region"] = dice.integers(0, 8, nr)
    made["quantity"] = dice.integers(0, 1 << 32, nr)
    made["cents"] = dice.integers(-(1 << 40), 1 << 40, nr)
    made["weight"] = dice.normal(0, 1000, nr)
    made["code"] = [b"c%d" % number for number in dice.integers(0, 10000, nr)]
    return made
