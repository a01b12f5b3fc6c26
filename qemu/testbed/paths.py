# SPDX-License-Identifier: GPL-2.0
"""Where things are on the host."""

import os
import tempfile
from pathlib import Path
from typing import Iterable

from .errors import TestbedError

REPO = Path(__file__).resolve().parents[2]
OUT = REPO / "out"

# QEMU's guests have file systems of their own here: what the host keeps in these, they do not see.
HIDDEN = ("/dev", "/proc", "/run", "/sys", "/var/cache", "/var/lib/apt", "/var/log", "/var/tmp")


def cache_dir() -> Path:
    """The directory that survives `make clean`: the virtual environment, probe results."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "lsmem"


def virtme_run() -> Path:
    """The virtme-ng command that qemu/setup installs."""
    return cache_dir() / "venv" / "bin" / "virtme-run"


def require_visible(path: Path, hidden: Iterable[str] = HIDDEN) -> None:
    """Refuses what the guest could not see."""
    for directory in hidden:
        if path.resolve().is_relative_to(directory):
            raise TestbedError(f"{path} is under {directory}, which guests hide by their own: "
                               "move it elsewhere (for the cache, set XDG_CACHE_HOME)")


def scratch() -> Path:
    """A new short-named directory: a unix socket's path may not pass 107 bytes."""
    return Path(tempfile.mkdtemp(prefix="lsmem-"))
