# SPDX-License-Identifier: GPL-2.0
"""herd7 and the Linux kernel's memory model, in the cache.

herd7 is in the package herdtools7, which Debian has from 13 on. The package of sid is unpacked to
the cache with the libraries that it needs; it is not installed. The model is that of
linux-source-6.1.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import paths, source
from .errors import TestbedError
from .source import locked, say

PACKAGE = "herdtools7"
LIBRARIES = ("libc6", "libgmp10")
SERIES = "6.1"
MODEL = "tools/memory-model"
# Paths in the packages that are kept
KEPT = ("usr/bin/herd7", "usr/share/herdtools7/herd", "usr/lib", "usr/lib64")
LOADER = "usr/lib64/ld-linux-x86-64.so.2"
RUN_SECONDS = 60.0


@dataclass(frozen=True)
class Herd:
    """An unpacked herd7, and the directory of the model."""

    root: Path
    model: Path

    def run(self, test: Path) -> str:
        """Runs herd7 on a litmus test; returns its output."""
        command = [self.root / LOADER, "--library-path", self.root / "usr/lib/x86_64-linux-gnu",
                   self.root / "usr/bin/herd7", "-set-libdir",
                   self.root / "usr/share/herdtools7/herd", "-conf", "linux-kernel.cfg", test]
        try:
            done = subprocess.run(command, cwd=self.model, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=RUN_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"no answer within {RUN_SECONDS:.0f} s"
        return done.stdout


def find() -> Herd:
    """Finds herd7 and the model in the cache, or fetches them."""
    base = paths.cache_dir() / "herd"
    with locked(base / "lock"):
        return Herd(_program(base), _model(base))


def _program(base: Path) -> Path:
    have = sorted(base.glob(f"{PACKAGE}_*"))
    if have:
        return have[-1]
    apt = source.sid()
    if not apt:
        raise TestbedError("cannot get the package lists of sid; see the messages of apt-get above")
    shown = source.output("apt-cache", *apt, "show", "--no-all-versions", PACKAGE)
    match = re.search(r"^Version: (\S+)", shown, re.MULTILINE)
    if not match:
        raise TestbedError(f"sid has no {PACKAGE} for this machine")
    half = base / "half"
    shutil.rmtree(half, ignore_errors=True)
    (half / "all").mkdir(parents=True)
    say(f"fetching {PACKAGE} {match.group(1)}")
    if not source.run("apt-get", *apt, "-q", "download", PACKAGE, *LIBRARIES, cwd=half):
        raise TestbedError(f"cannot fetch {PACKAGE}; see the messages of apt-get above")
    for deb in half.glob("*.deb"):
        subprocess.run(["dpkg", "-x", deb, half / "all"], check=True)
    for part in KEPT:
        (half / "root" / part).parent.mkdir(parents=True, exist_ok=True)
        (half / "all" / part).rename(half / "root" / part)
    root = base / f"{PACKAGE}_{match.group(1)}"
    (half / "root").rename(root)
    shutil.rmtree(half)
    return root


def _model(base: Path) -> Path:
    kernel = source.find(SERIES)
    tree = base / f"{kernel.package}_{kernel.version}"
    if not tree.exists():
        tarball = Path(f"/usr/src/{kernel.package}.tar.xz")
        if not tarball.exists():
            raise TestbedError(f"no {tarball}; run qemu/setup check")
        half = base / "model"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir()
        say(f"unpacking the memory model of {kernel}")
        subprocess.run(["tar", "-C", half, "--strip-components=3", "-xf", tarball,
                        f"{kernel.package}/{MODEL}"], check=True)
        half.rename(tree)
    return tree
