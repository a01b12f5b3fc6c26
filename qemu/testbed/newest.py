# SPDX-License-Identifier: GPL-2.0
"""The newest stock kernel that Debian has, in the cache; the installed system does not change.

Its headers need the compiler, the libraries and the sparse of the same release. So all these
packages are unpacked to one directory; they are not installed. A command that builds for this
kernel sees /usr of this directory instead of the host's /usr.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

from . import paths, source
from .errors import TestbedError
from .source import locked, say

NAME = "newest"
META = "linux-image-amd64"
FRESH_SECONDS = 3600.0
# Packages of the programs that Kbuild runs
TOOLS = ("base-files", "dash", "coreutils", "sed", "grep", "findutils", "diffutils", "mawk", "make",
         "gcc", "sparse")


@dataclass(frozen=True)
class Newest:
    """An unpacked kernel: image, modules, headers and the programs that build for it."""

    version: str
    root: Path

    @property
    def kdir(self) -> Path:
        """The directory of its headers, as a command of command() sees it."""
        return Path("/usr/lib/modules") / self.version / "build"

    @property
    def image(self) -> Path:
        """The file to boot; its modules are beside it."""
        places = (self.root / "usr/lib/modules" / self.version / "vmlinuz",
                  self.root / "boot" / f"vmlinuz-{self.version}")
        return next((place for place in places if place.exists()), places[0])

    def command(self, argv: Sequence[str]) -> list[str]:
        """The command that runs @argv with /usr of this kernel."""
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        inner = 'mount --bind "$1" /usr && shift && exec "$@"'
        return ["unshare", "--mount", *user, "sh", "-c", inner, "sh", f"{self.root}/usr", *argv]


def find() -> Newest:
    """Finds the newest kernel in the cache, or fetches it."""
    base = paths.cache_dir() / "newest"
    with locked(base / "lock"):
        found = _offered(base, source.sid())
        if not found.root.exists():
            # The mirror may have removed the packages that older lists name.
            apt = source.sid(FRESH_SECONDS)
            found = _offered(base, apt)
            half = base / "half"
            shutil.rmtree(half, ignore_errors=True)
            _fetch(apt, found.version, half)
            for old in base.glob("*_*"):
                shutil.rmtree(old)
            half.rename(found.root)
    return found


def _offered(base: Path, apt: Sequence[str]) -> Newest:
    """The kernel that META depends on, with its directory below @base."""
    if not apt:
        raise TestbedError("cannot get the package lists of sid; see the messages of apt-get above")
    match = re.search(r"^ *Depends: linux-image-(\d\S*-amd64)", _depends(apt, META), re.MULTILINE)
    version = match.group(1) if match else ""
    shown = source.output("apt-cache", *apt, "show", "--no-all-versions", f"linux-headers-{version}")
    match = re.search(r"^Version: (\S+)", shown, re.MULTILINE)
    if not match:
        raise TestbedError(f"sid has no headers of its newest kernel '{version}'")
    return Newest(version, base / f"{version}_{match.group(1)}")


def _depends(apt: Sequence[str], package: str) -> str:
    return source.output("apt-cache", *apt, "depends", package)


def _fetch(apt: Sequence[str], version: str, root: Path) -> None:
    """Downloads all packages and unpacks them to @root."""
    say(f"fetching the kernel {version} with its headers and their compiler")
    debs = root / "debs"
    (debs / "partial").mkdir(parents=True)
    image = f"linux-image-{version}"
    # Later kernels have image and modules in packages that `image` only depends on.
    parts = re.findall(rf"Depends: (linux-\w+-{re.escape(version)})$", _depends(apt, image),
                       re.MULTILINE)
    alone = ("-o", "Dir::State::Status=/dev/null", "-o", f"Dir::Cache::Archives={debs}",
             "-o", "Debug::NoLocking=true", "--no-install-recommends", "-q", "-y")
    if not source.run("apt-get", *apt, *alone, "install", "--download-only", *TOOLS,
                      f"linux-headers-{version}") or \
       not source.run("apt-get", *apt, "-q", "download", image, *parts, cwd=debs):
        raise TestbedError(f"cannot fetch the kernel {version}; see the messages of apt-get above")
    for deb in debs.glob("*.deb"):
        subprocess.run(["dpkg", "-x", deb, root], check=True)
    shutil.rmtree(debs)
    # Done by maintainer scripts when packages are installed
    (root / "usr/bin/awk").symlink_to("mawk")
    subprocess.run(["depmod", "-b", root, version], check=True, env=os.environ | {
        "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"})
