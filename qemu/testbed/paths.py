# SPDX-License-Identifier: GPL-2.0
"""Where things are on the host."""

import os
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
OUT = REPO / "out"


def cache_dir() -> Path:
    """The directory that survives `make clean`: the virtual environment, probe results."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "lsmem"


def virtme_run() -> Path:
    """The virtme-ng command that qemu/setup installs."""
    return cache_dir() / "venv" / "bin" / "virtme-run"


def scratch() -> Path:
    """A new short-named directory: a unix socket's path may not pass 107 bytes."""
    return Path(tempfile.mkdtemp(prefix="lsmem-"))
