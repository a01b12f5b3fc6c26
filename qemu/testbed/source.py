# SPDX-License-Identifier: GPL-2.0
"""The kernel sources that Debian offers, unpacked in the cache.

`6.1` is the content of the package linux-source-6.1. `newest` is the newest linux-source-* in sid
and in the suites that apt is configured for. For sid, apt runs with a configuration of its own: the
mirror and keys of the system, lists in the cache. The configuration of the system does not change.
"""

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Optional, Sequence

from . import paths
from .errors import TestbedError

NEWEST = "newest"
# Age at which the lists of sid are fetched again
LIST_SECONDS = 7 * 24 * 3600.0
APT_SECONDS = 600.0
PACKAGE = re.compile(r"linux-source-(\d+)\.(\d+)\b")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True)
class Source:
    """A version of the kernel sources."""

    series: str
    version: str
    # Options of apt that know this package
    apt: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The name of its package."""
        return f"linux-source-{self.series}"

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock file @path, so that two callers do not do the same work."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that holds {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    """Prints a line of progress on standard error."""
    print(f"{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr, flush=True)


@functools.lru_cache(maxsize=None)
def find(which: str) -> Source:
    """Finds the sources of a series such as 6.1, or the newest.

    The result is cached: apt-cache takes seconds to search the lists of sid.
    """
    if which != NEWEST:
        return _installed(which) or _offered(which)
    found = _series(())
    apt = sid()
    if apt:
        found |= _series(apt)
    if not found:
        raise TestbedError("apt knows no linux-source package; run `apt-get update` as root")
    newest = max(found)
    apt = apt if apt and newest in _series(apt) else ()
    return _offered(f"{newest[0]}.{newest[1]}", apt)


def unpack(source: Source, patches: Sequence[Path]) -> Path:
    """Unpacks @source and applies those of @patches that apply; returns the directory."""
    name = f"{source.package}_{source.version}"
    if patches:
        text = b"".join(patch.read_bytes() for patch in patches)
        name += f"-{hashlib.sha256(text).hexdigest()[:8]}"
    base = paths.cache_dir() / "src"
    tree = base / name
    with locked(base / f"{name}.lock"):
        if not tree.exists():
            half = base / f"{name}.half"
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir(parents=True)
            say(f"unpacking {source}")
            _extract(source, half)
            for patch in patches:
                _patch(half / "tree", patch)
            (half / "tree").rename(tree)
            shutil.rmtree(half)
    return tree


def _installed(series: str) -> Optional[Source]:
    if not _tarball(Path("/"), series):
        return None
    version = output("dpkg-query", "-W", "-f", "${Version}", f"linux-source-{series}")
    return Source(series, version) if version else None


def _offered(series: str, apt: tuple[str, ...] = ()) -> Source:
    """The version that apt would install."""
    policy = output("apt-cache", *apt, "policy", f"linux-source-{series}")
    match = re.search(r"^ *Candidate: (\d\S*)", policy, re.MULTILINE)
    if not match:
        raise TestbedError(f"apt offers no linux-source-{series}; run `apt-get update` as root")
    return Source(series, match.group(1), apt)


def _series(apt: Sequence[str]) -> set[tuple[int, int]]:
    names = output("apt-cache", *apt, "search", "--names-only", r"^linux-source-[0-9.]+$")
    return {(int(major), int(minor)) for major, minor in PACKAGE.findall(names)}


def sid(max_age: float = LIST_SECONDS) -> tuple[str, ...]:
    """Options of apt for sid; none if there are no lists of sid. apt always checks signatures.

    Lists of packages that are older than @max_age seconds are fetched again.
    """
    base = paths.cache_dir() / "apt"
    options = private(base, "sid.sources")
    with locked(base / "lock"):
        done = base / "updated"
        if done.exists() and time.time() - done.stat().st_mtime < max_age:
            return options
        for mirror in mirrors():
            for directory in ("lists/partial", "cache/archives/partial"):
                (base / directory).mkdir(parents=True, exist_ok=True)
            (base / "sid.sources").write_text(
                f"Types: deb\nURIs: {mirror}\nSuites: sid\nComponents: main\nTargets: Packages\n"
                f"Signed-By: {KEYRING}\n")
            if run("apt-get", *options, "-q", "update", "--error-on=any"):
                done.touch()
                return options
    if done.exists():
        say("cannot fetch new lists of sid; using the old ones")
        return options
    say("cannot fetch lists of sid; using only the configured suites")
    return ()


def private(base: Path, sources: str) -> tuple[str, ...]:
    """Options of apt for lists and archives of its own below @base, where the file @sources is."""
    options = (f"Dir::Etc::SourceList={base}/{sources}", "Dir::Etc::SourceParts=/dev/null",
               f"Dir::State::Lists={base}/lists", f"Dir::Cache={base}/cache",
               "Acquire::Languages=none", "APT::Sandbox::User=root")
    return tuple(part for option in options for part in ("-o", option))


def mirrors() -> list[str]:
    """The mirrors of this release of Debian in the configuration of apt."""
    release = Path("/etc/os-release").read_text(encoding="utf-8")
    codename = re.search(r"^VERSION_CODENAME=\"?(\w+)", release, re.MULTILINE)
    targets = output("apt-get", "indextargets", "--format",
                      "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
    wanted = (codename.group(1) if codename else "", "stable")
    found = []
    for uri, suite, component in (line.split(" ", 2) for line in targets.splitlines()):
        if suite in wanted and component == "main" and uri not in found:
            found.append(uri)
    return found


def _tarball(root: Path, series: str) -> Optional[Path]:
    found = sorted((root / "usr" / "src").glob(f"linux-source-{series}.tar.*"))
    return found[0] if found else None


def _extract(source: Source, half: Path) -> None:
    """Unpacks to half/tree, from the installed package, or from a package that it fetches."""
    tarball = None if source.apt else _tarball(Path("/"), source.series)
    if not tarball:
        if not run("apt-get", *source.apt, "-q", "download",
                    f"{source.package}={source.version}", cwd=half):
            raise TestbedError(f"cannot download {source}; see the messages of apt-get above")
        package = next(half.glob("*.deb"))
        subprocess.run(["dpkg", "-x", package, half], check=True)
        tarball = _tarball(half, source.series)
    if not tarball:
        raise TestbedError(f"{source} has no tarball of sources")
    (half / "tree").mkdir()
    subprocess.run(["tar", "-C", half / "tree", "--strip-components=1", "-xf", tarball], check=True)


def _patch(tree: Path, patch: Path) -> None:
    command = ["patch", "-d", str(tree), "-p1", "--batch", "--forward", "--silent",
               "-i", str(patch)]
    if subprocess.run([*command, "--dry-run"], check=False, stdout=subprocess.DEVNULL).returncode:
        say(f"warning: {patch.name} does not apply to this version and is left out")
        return
    subprocess.run(command, check=True)


def output(*argv: str) -> str:
    """Output of a command; empty if it fails."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=APT_SECONDS, check=False)
    return done.stdout if done.returncode == 0 else ""


def run(*argv: str, cwd: Optional[Path] = None) -> bool:
    """Runs a command that uses the network; its output goes to standard error. True: success."""
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=sys.stderr, cwd=cwd,
                              timeout=APT_SECONDS, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False
