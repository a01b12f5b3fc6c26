# SPDX-License-Identifier: GPL-2.0
"""Finds and clears what test programs leave in a guest.

A Cleaner compares the present state with an earlier one. For each kind of thing there is a function
that names all things of this kind, and one that clears one of them. Some things can be cleared only
after others (a device after its mounts). The order is not known here, so the Cleaner tries all of
them again until nothing is left or the time is over.
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
RETRY_SECONDS = 0.2

SYS_BLOCK = Path("/sys/block")
SYS_LSMEM = Path("/sys/class/lsmem")
SYS_NET = Path("/sys/class/net")
SYS_NVME = Path("/sys/class/nvme")
SYS_RDMA = Path("/sys/class/infiniband")
NVMET = Path("/sys/kernel/config/nvmet")
NETNS = Path("/run/netns")
CGROUPS = Path("/sys/fs/cgroup")
# Modules that remove their devices when they are unloaded
DEVICE_MODULES = ("brd", "null_blk", "scsi_debug", "zram")
# New files in these directories are removed, and not reported.
DIRECTORIES = ("/tmp", "/var/tmp", "/run/lsmem", "/var/lib/lsmem", "/run/udev/rules.d",
               "/etc/udev/rules.d", "/etc/lsmem")
# Changes of these settings are undone, and not reported.
SETTINGS = ("/proc/sys/vm/*", "/proc/sys/kernel/*", "/proc/sys/net/core/*",
            "/sys/kernel/debug/fail*/*")
# Files among them that are not settings: the kernel changes them.
NO_SETTINGS = ("ns_last_pid", "tainted", "stat_refresh")


class Stays(Exception):
    """Something cannot be cleared now; the text says why."""


def _names(directory: Path) -> list[str]:
    """The entries of a directory; none if it does not exist."""
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


# ---- Mounts, devices, modules ----------------------------------------------------------------


def mounts() -> Iterator[str]:
    """Number and place of each mount; not those under /sys, which the system itself changes."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        number, _, _, _, place = line.split()[:5]
        place = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), place)
        if not place.startswith("/sys/"):
            yield f"{number} {place}"


def unmount(name: str) -> None:
    """Detaches a mount at once, even if it is in use."""
    _run("umount", "--lazy", name.partition(" ")[2])


def loops() -> Iterator[str]:
    """Loop devices with a file behind them."""
    return (name for name in _names(SYS_BLOCK) if (SYS_BLOCK / name / "loop/backing_file").exists())


def mapped() -> Iterator[str]:
    """Devices of the device mapper."""
    return (_read(SYS_BLOCK / name / "dm/name") for name in _names(SYS_BLOCK)
            if name.startswith("dm-"))


def unmap(name: str) -> None:
    """Removes a device, even if it is suspended; waiting requests get an error."""
    _run("dmsetup", "wipe_table", "--force", "--noflush", "--nolockfs", name)
    _run("dmsetup", "remove", name)


def modules() -> Iterator[str]:
    """Loaded modules of DEVICE_MODULES."""
    return (name for name in DEVICE_MODULES if Path("/sys/module", name).exists())


# ---- NVMe over Fabrics -----------------------------------------------------------------------


def connections() -> Iterator[str]:
    """Controllers that are connected over a fabric."""
    return (name for name in _names(SYS_NVME)
            if _read(SYS_NVME / name / "transport") not in ("", "pcie"))


def nvmet() -> Iterator[str]:
    """Ports, subsystems and hosts of the NVMe target."""
    return (f"{kind}/{name}" for kind in ("ports", "subsystems", "hosts")
            for name in _names(NVMET / kind))


def remove_nvmet(name: str) -> None:
    """Removes a part of the NVMe target, its links and namespaces first."""
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
    """Removes a control group and kills the processes in it."""
    if (CGROUPS / name / "cgroup.kill").exists():
        _write(CGROUPS / name / "cgroup.kill", "1")
    try:
        (CGROUPS / name).rmdir()
    except OSError as error:
        raise Stays(str(error)) from error


def cgroups() -> Iterator[str]:
    """All control groups, at any depth."""
    for directory, below, _ in os.walk(CGROUPS):
        yield from (str((Path(directory) / name).relative_to(CGROUPS)) for name in below)


def interfaces() -> Iterator[str]:
    """Network interfaces that can be removed."""
    return (name for name in _names(SYS_NET)
            if (SYS_NET / name).resolve().is_relative_to("/sys/devices/virtual"))


@dataclass(frozen=True)
class Kind:
    """A kind of thing that a program may leave."""

    what: str
    find: Callable[[], Iterable[str]]
    clear: Callable[[str], None]


def kinds(lsmemctl: str) -> list[Kind]:
    """All kinds; kinds that keep others in use come first. @lsmemctl: path of the program."""
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
    """The names of all things by kind, of files by directory, and the settings."""

    things: dict[str, set[str]]
    files: dict[str, set[str]]
    settings: dict[str, str] = field(default_factory=dict)


def _settings() -> dict[str, str]:
    """The values of all writable settings."""
    found = {}
    for pattern in SETTINGS:
        for path in Path("/").glob(pattern.lstrip("/")):
            if path.name not in NO_SETTINGS and path.is_file() and \
                    path.stat().st_mode & 0o600 == 0o600:
                found[str(path)] = _read(path)
    return found


class Cleaner:
    """Records the state of the guest when it is made, and restores this state."""

    def __init__(self, things: Sequence[Kind], directories: Iterable[str] = DIRECTORIES) -> None:
        self._kinds = things
        self._before = State({kind.what: set(kind.find()) for kind in self._kinds},
                             {name: set(_names(Path(name))) for name in directories}, _settings())

    def left(self) -> list[tuple[Kind, str]]:
        """Things that exist now and did not exist before."""
        return [(kind, name) for kind in self._kinds
                for name in sorted(set(kind.find()) - self._before.things[kind.what], reverse=True)]

    def clear(self) -> tuple[list[str], list[str]]:
        """Clears everything; returns what was left, and what could not be cleared, and why."""
        self._put_back()	# first: with injected failures the next steps could fail
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
            if left:
                time.sleep(RETRY_SECONDS)
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
        # Probabilities of injected failures first: the other settings may limit failures to some
        # tasks, and without the limit they would hit this one.
        for path, text in sorted(self._before.settings.items(),
                                 key=lambda setting: not setting[0].endswith("/probability")):
            if text and now.get(path) != text:
                try:
                    Path(path).write_text(text + "\n")
                except OSError:
                    pass	# not every file accepts the value that it shows
