# SPDX-License-Identifier: GPL-2.0
"""Emulated NVMe drives.

A `plain` drive is a file. SIGKILL of QEMU loses nothing that the guest wrote, because the data are
in the host's page cache. This simulates a crash of the guest's software, not a power cut.

A `volatile` drive has a write cache that a power cut loses. The cache filter of nbdkit keeps
written data until the guest sends FLUSH (or FUA), and only then writes to the file. SIGKILL of QEMU
and nbdkit at the same time keeps exactly the flushed data. QEMU flushes when it ends in order.

A `lossy` drive may lose any part of the unflushed data and tear writes between sectors; its seed
decides. Only such a drive may keep the second of two writes without a flush between them and lose
the first. The file <image>.cuts tells what happened to the writes.

The guest sees each of them as an NVMe drive with a volatile write cache, with the name of the drive
as its serial number. qemu/guest-run links the drive to /dev/drive/<name>. A virtio drive differs in
FUA only: a power cut of QEMU's NVMe loses data that were written with FUA. virtio has no FUA, so
the guest's kernel flushes instead.
"""

import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from . import paths, process
from .errors import TestbedError

CACHES = ("plain", "volatile", "lossy")
BUSES = {"nvme": "nvme", "virtio": "virtio-blk-pci"}
NBDKIT_START_SECONDS = 10.0
LOSS_SECONDS = 30.0
UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}


def parse_size(text: str) -> int:
    """Parses a number of bytes: '4096', '512M', '2G'."""
    number, shift = (text[:-1], UNITS[text[-1].upper()]) if text[-1:].upper() in UNITS else (text, 0)
    if not number.isdigit() or int(number) == 0:
        raise TestbedError(f"'{text}' is not a size; write bytes, or a number with K, M, G or T")
    return int(number) << shift


@dataclass
class Drive:
    """A drive: an image file, which remains when a guest ends, and its kind of emulation."""

    name: str
    image: Path
    size: int
    cache: str = "volatile"
    block_size: int = 512
    # Seed of the losses of a lossy drive
    seed: int = 0
    bus: str = "nvme"
    _server: "Optional[subprocess.Popen[bytes]]" = field(default=None, init=False, repr=False)
    _socket: Optional[Path] = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.cache not in CACHES:
            raise TestbedError(f"drive {self.name}: no cache '{self.cache}'; "
                               f"there are {', '.join(CACHES)}")
        if not (0 < len(self.name) <= 20 and self.name.replace("-", "").isalnum()):
            raise TestbedError(f"drive name '{self.name}' must be an NVMe serial number: "
                               "1 to 20 letters, digits or '-'")

    def create(self) -> None:
        """Makes the image if it is missing, sparse and zero; extends a smaller image."""
        self.image.parent.mkdir(parents=True, exist_ok=True)
        with open(self.image, "ab") as file:
            if file.tell() > self.size:
                raise TestbedError(f"drive {self.name}: {self.image} is larger than {self.size} "
                                   "bytes; remove it, or give its size")
            file.truncate(self.size)

    def remove(self) -> None:
        """Removes the image and the file of story()."""
        self.image.unlink(missing_ok=True)
        self.story().unlink(missing_ok=True)

    def story(self) -> Path:
        """The file in which a lossy drive reports its losses."""
        return self.image.with_name(self.image.name + ".cuts")

    def start(self, scratch: Path, log: Path) -> None:
        """Prepares the drive for QEMU; sockets and caches are in @scratch."""
        self.create()
        if self.cache == "plain":
            return
        self._socket = scratch / f"{self.name}.nbd"
        with open(log, "wb") as out:
            self._server = process.spawn(
                ["nbdkit", "--foreground", "--unix", str(self._socket), *self._plugin()],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(scratch),
                     "PYTHONPATH": str(paths.REPO / "qemu"), "PYTHONDONTWRITEBYTECODE": "1"})
        process.wait_until(f"nbdkit to serve drive {self.name}",
                           lambda: self._is_serving(log), NBDKIT_START_SECONDS)

    def _plugin(self) -> list[str]:
        """The plugin of nbdkit and its arguments."""
        if self.cache == "volatile":
            return ["--filter=cache", "file", str(self.image), "cache=writeback"]
        return ["python", str(paths.REPO / "qemu" / "lossy-drive.py"), f"image={self.image}",
                f"seed={self.seed}", f"story={self.story()}"]

    def _is_serving(self, log: Path) -> bool:
        assert self._server is not None
        if self._server.poll() is not None:
            raise TestbedError(f"nbdkit for drive {self.name} ended at once: "
                               f"{log.read_text(errors='replace').strip()}")
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self._socket))
        except OSError:
            return False
        return True

    def qemu_args(self) -> list[str]:
        """QEMU arguments that attach the started drive."""
        if self.cache == "plain":
            backend = f"file={_escape(self.image)},cache=writeback"
        else:
            backend = f"file=nbd+unix:///?socket={self._socket},cache=none"
        return ["-drive", f"{backend},format=raw,if=none,id=drive-{self.name}",
                "-device", f"{BUSES[self.bus]},drive=drive-{self.name},serial={self.name},"
                           f"logical_block_size={self.block_size},"
                           f"physical_block_size={self.block_size}"]

    def cut(self) -> None:
        """Cuts the power; QEMU must be dead. The server loses data as its kind of drive does."""
        if self._server is not None:
            sig = signal.SIGTERM if self.cache == "lossy" else signal.SIGKILL
            process.kill_group(self._server, sig)

    def close(self) -> None:
        """Ends the server; QEMU must have ended. If QEMU has not flushed, this is a power cut."""
        if self._server is None:
            return
        self.cut()
        try:
            self._server.wait(LOSS_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill_group(self._server)
            process.reap(self._server)
        self._server = None


def parse_drive(text: str, directory: Path) -> Drive:
    """Parses a drive of the command line, NAME:SIZE[:CACHE]; its image is in @directory."""
    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise TestbedError(f"drive '{text}': write NAME:SIZE or NAME:SIZE:CACHE")
    name, size, cache = (*parts, "volatile")[:3]
    return Drive(name, directory / f"{name}.img", parse_size(size), cache)


def _escape(path: Path) -> str:
    """A file name in the syntax of QEMU's options."""
    return str(path).replace(",", ",,")
