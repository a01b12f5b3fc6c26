# SPDX-License-Identifier: GPL-2.0
"""In a guest: what test programs may leave behind, found by comparison, and cleared.

Each kind of thing is a pair of functions: one names what there is, the other clears one thing of it.
Some go only after others (a device after what is mounted from it), and which of them is not known
here: all are tried again as long as something goes.
"""

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterable, Iterator, Sequence

COMMAND_SECONDS = 20.0
CLEAR_SECONDS = 60.0

SYS_BLOCK = Path("/sys/block")
SYS_LSMEM = Path("/sys/class/lsmem")
SYS_NET = Path("/sys/class/net")
SYS_NVME = Path("/sys/class/nvme")
SYS_RDMA = Path("/sys/class/infiniband")
NVMET = Path("/sys/kernel/config/nvmet")
NETNS = Path("/run/netns")
CGROUPS = Path("/sys/fs/cgroup")
# Modules whose devices go with them.
DEVICE_MODULES = ("brd", "null_blk", "scsi_debug", "zram")
# Where programs leave files: cleared without a word.
DIRECTORIES = ("/tmp", "/var/tmp", "/run/lsmem", "/var/lib/lsmem", "/run/udev/rules.d",
               "/etc/udev/rules.d", "/etc/lsmem")
# Put back without a word.
SETTINGS = ("/proc/sys/vm/*", "/proc/sys/kernel/*", "/proc/sys/net/core/*",
            "/sys/kernel/debug/fail*/*")
# These are no settings: the kernel changes them.
NO_SETTINGS = ("ns_last_pid", "tainted", "stat_refresh")


class Stays(Exception):
    """What cannot be cleared now, and why."""


def _names(directory: Path) -> list[str]:
    """The entries of a directory, none if it is not there."""
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise Stays(f"{path}: {error.strerror}") from error


def _run(*argv: str) -> None:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                              timeout=COMMAND_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Stays(str(error)) from error
    if done.returncode:
        raise Stays(f"{' '.join(argv)}: {done.stdout.strip()}")


# ---- What is in the way of the rest ----------------------------------------------------------


def mounts() -> Iterator[str]:
    """Number and place of each mount; those under /sys come and go by themselves."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        number, _, _, _, place = line.split()[:5]
        place = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), place)
        if not place.startswith("/sys/"):
            yield f"{number} {place}"


def unmount(name: str) -> None:
    """At once; what is still in use goes when it is not any more."""
    _run("umount", "--lazy", name.partition(" ")[2])


def loops() -> Iterator[str]:
    """Loop devices with a file behind them."""
    return (name for name in _names(SYS_BLOCK) if (SYS_BLOCK / name / "loop/backing_file").exists())


def mapped() -> Iterator[str]:
    """Devices of the device mapper."""
    return (_read(SYS_BLOCK / name / "dm/name") for name in _names(SYS_BLOCK)
            if name.startswith("dm-"))


def unmap(name: str) -> None:
    """What waits for it, also while it is suspended, gets an error."""
    _run("dmsetup", "wipe_table", "--force", "--noflush", "--nolockfs", name)
    _run("dmsetup", "remove", name)


def modules() -> Iterator[str]:
    """Modules that make devices."""
    return (name for name in DEVICE_MODULES if Path("/sys/module", name).exists())


# ---- NVMe over Fabrics -----------------------------------------------------------------------


def connections() -> Iterator[str]:
    """Controllers on other hosts."""
    return (name for name in _names(SYS_NVME)
            if _read(SYS_NVME / name / "transport") not in ("", "pcie"))


def nvmet() -> Iterator[str]:
    """The target's ports, subsystems and hosts."""
    return (f"{kind}/{name}" for kind in ("ports", "subsystems", "hosts")
            for name in _names(NVMET / kind))


def remove_nvmet(name: str) -> None:
    """Links and what is inside first."""
    top = NVMET / name
    try:
        for pattern in ("subsystems/*", "allowed_hosts/*"):
            for link in top.glob(pattern):
                link.unlink()
        for namespace in top.glob("namespaces/*"):
            (namespace / "enable").write_text("0")
            namespace.rmdir()
        top.rmdir()
    except OSError as error:
        raise Stays(str(error)) from error


# ---- Stores, network, groups ------------------------------------------------------------------


def remove_cgroup(name: str) -> None:
    """With the processes in it."""
    if (CGROUPS / name / "cgroup.kill").exists():
        _write(CGROUPS / name / "cgroup.kill", "1")
    try:
        (CGROUPS / name).rmdir()
    except OSError as error:
        raise Stays(str(error)) from error


def cgroups() -> Iterator[str]:
    """Control groups, below all the others too."""
    for directory, below, _ in os.walk(CGROUPS):
        yield from (str((Path(directory) / name).relative_to(CGROUPS)) for name in below)


def interfaces() -> Iterator[str]:
    """Network interfaces that can be taken away."""
    return (name for name in _names(SYS_NET)
            if (SYS_NET / name).resolve().is_relative_to("/sys/devices/virtual"))


@dataclass(frozen=True)
class Kind:
    """One kind of thing that may be left."""

    what: str
    find: Callable[[], Iterable[str]]
    clear: Callable[[str], None]


def kinds(lsmemctl: str) -> list[Kind]:
    """All kinds, those that hold others first; @lsmemctl is the tool that destroys stores."""
    return [
        Kind("mount", mounts, unmount),
        Kind("connection of NVMe over Fabrics", connections,
             lambda name: _write(SYS_NVME / name / "delete_controller", "1")),
        Kind("NVMe target", nvmet, remove_nvmet),
        Kind("loop device", loops, lambda name: _run("losetup", "--detach", f"/dev/{name}")),
        Kind("device of the device mapper", mapped, unmap),
        Kind("store", lambda: _names(SYS_LSMEM),
             lambda name: _run(lsmemctl, "destroy", "--force", name)),
        Kind("module", modules, lambda name: _run("modprobe", "--remove", name)),
        Kind("RDMA link", lambda: _names(SYS_RDMA),
             lambda name: _run("rdma", "link", "delete", name)),
        Kind("network namespace", lambda: _names(NETNS),
             lambda name: _run("ip", "netns", "delete", name)),
        Kind("network interface", interfaces, lambda name: _run("ip", "link", "delete", name)),
        Kind("control group", cgroups, remove_cgroup),
    ]


@dataclass
class State:
    """What there is of each kind, and how things are set."""

    things: dict[str, set[str]]
    files: dict[str, set[str]]
    settings: dict[str, str] = field(default_factory=dict)


def _settings() -> dict[str, str]:
    """The numbers that programs may change, of files that may be written."""
    found = {}
    for pattern in SETTINGS:
        for path in Path("/").glob(pattern.lstrip("/")):
            if path.name not in NO_SETTINGS and path.is_file() and \
                    path.stat().st_mode & 0o600 == 0o600:
                found[str(path)] = _read(path)
    return found


class Cleaner:
    """Knows how the guest was when this was made, and makes it so again."""

    def __init__(self, things: Sequence[Kind], directories: Iterable[str] = DIRECTORIES) -> None:
        self._kinds = things
        self._before = State({kind.what: set(kind.find()) for kind in self._kinds},
                             {name: set(_names(Path(name))) for name in directories}, _settings())

    def left(self) -> list[tuple[Kind, str]]:
        """What there is now, and was not."""
        return [(kind, name) for kind in self._kinds
                for name in sorted(set(kind.find()) - self._before.things[kind.what], reverse=True)]

    def clear(self) -> tuple[list[str], list[str]]:
        """Clears all that is left; returns what was left, and what is left still, and why."""
        self._put_back()	# before all else: failing allocations would fail what follows
        found = left = self.left()
        stays: list[str] = []
        deadline = time.monotonic() + CLEAR_SECONDS
        while left and time.monotonic() < deadline:
            stays = []
            for kind, name in left:
                try:
                    kind.clear(name)
                except Stays as why:
                    stays.append(f"{kind.what} {name}: {why}")
            left = self.left()
            if left and stays:
                time.sleep(0.2)
        self._remove_files()
        if left and not stays:
            stays = [f"{kind.what} {name}" for kind, name in left]
        return [f"{kind.what} {name}" for kind, name in found], stays if left else []

    def _remove_files(self) -> None:
        for directory, before in self._before.files.items():
            for name in set(_names(Path(directory))) - before:
                path = Path(directory, name)
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def _put_back(self) -> None:
        now = _settings()
        # Probabilities of failures first: with the others put back, it is this task that they meet.
        for path, text in sorted(self._before.settings.items(),
                                 key=lambda setting: not setting[0].endswith("/probability")):
            if text and now.get(path) != text:
                try:
                    Path(path).write_text(text + "\n")
                except OSError:
                    pass	# not every file takes what it shows
