# SPDX-License-Identifier: GPL-2.0
"""Directories of the host."""

import os
import tempfile
from pathlib import Path
from typing import Iterable

from .errors import TestbedError

REPO = Path(__file__).resolve().parents[2]
OUT = REPO / "out"

# QEMU's guests mount file systems of their own here, and do not see the host's files below.
HIDDEN = ("/dev", "/proc", "/run", "/sys", "/var/cache", "/var/lib/apt", "/var/log", "/var/tmp")


def cache_dir() -> Path:
    """The cache, which `make clean` keeps: virtual environment, kernels, sources, probe results."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "lsmem"


def virtme_run() -> Path:
    """The virtme-ng command that qemu/setup installs."""
    return cache_dir() / "venv" / "bin" / "virtme-run"


def python() -> Path:
    """The interpreter of the packages that qemu/setup python installs."""
    return cache_dir() / "python" / "bin" / "python3"


def require_visible(path: Path, hidden: Iterable[str] = HIDDEN) -> None:
    """Raises if the guest cannot see @path."""
    for directory in hidden:
        if path.resolve().is_relative_to(directory):
            raise TestbedError(f"{path} is under {directory}, where guests have a file system of "
                               "their own: move it elsewhere (for the cache, set XDG_CACHE_HOME)")


def scratch() -> Path:
    """Makes a directory with a short path: that of a unix socket has at most 107 bytes."""
    return Path(tempfile.mkdtemp(prefix="lsmem-"))
