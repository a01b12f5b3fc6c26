# SPDX-License-Identifier: GPL-2.0
"""A backup in a cluster: a drive of a host, and the server with which other hosts access it.

The device mapper is above the drive: so the drive can fail, stop answering, or become smaller while
its guest runs.
"""

import random
import struct
from dataclasses import dataclass
from signal import SIGTERM, Signals
from typing import Optional

from .agent import Running
from .cluster import Host
from .errors import TestbedError
from .guest import HOST_DIR

DAEMON = "daemon/lsmemd"
KEY = "/run/lsmem.key"
DEVICE = "/dev/mapper/backup"
START_SECONDS = 90.0
STOP_SECONDS = 40.0
MIB = 1 << 20
SECTOR = 512
# Behaviour of a drive: targets of dmsetup(8)
SOUND = "linear {drive} 0"
FAILING = "flakey {drive} 0 0 3600 1 error_writes"
# Format of a backup, see uapi/lsmem_format.h: frames_start of a superblock; a backup frame, with a
# block for its header
FRAMES_START = struct.Struct("<80xQ")
FRAME_BYTES = 8 * MIB
BLOCK_BYTES = 4096
SEGMENT_MAGIC = b"LMSSEG01"


def give_key(host: Host) -> None:
    """Writes the secret that servers and daemons share to a file of the host."""
    host.agent.run(f"(umask 077; printf 'a secret of the tests' > {KEY})")


@dataclass
class Backup:
    """A backup of a store, on the first drive of a host."""

    host: Host
    local: bool = False		# the host also has the store: no server
    server: Optional[Running] = None
    wire_max: Optional[int] = None	# latest version of the protocol that its server speaks

    @property
    def name(self) -> str:
        """Its name in the configuration of the store."""
        return self.host.name

    def serve(self) -> None:
        """Makes the device of the drive and starts the server."""
        self.host.agent.run(f"[ -e {DEVICE} ] || {{ modprobe -a dm-mod dm-flakey && "
                            f"dmsetup create backup --table '{self._table(SOUND)}'; }}")
        if self.local:
            return
        give_key(self.host)
        older = f"wire_max = {self.wire_max}\n" if self.wire_max else ""
        text = (f"[server]\nlisten = rdma://{self.host.address}\nkey = {KEY}\n{older}"
                f"[export data]\npath = {DEVICE}\n")
        (self.host.guest.host_dir / "server.conf").write_text(text)
        self.server = self.host.agent.start("server",
                                            f"{DAEMON} -v -c {HOST_DIR}/server.conf")
        self.server.wait_said("serving 1 backups", START_SECONDS)

    def stop(self, sig: Signals = SIGTERM) -> None:
        """Stops the server; of a local backup, which must not be in use, removes the device."""
        if self.local:
            self.host.agent.run("dmsetup remove --retry backup")
            return
        assert self.server is not None, "serve() comes first"
        self.server.kill(sig)
        status = self.server.wait(STOP_SECONDS)
        if sig == SIGTERM and status:
            raise TestbedError(f"the server on {self.name} ends with {status}")

    def configuration(self) -> str:
        """Its lines in the configuration of the store, without the name of the section."""
        if self.local:
            return f"path = {DEVICE}\n"
        return f"path = rdma://{self.host.address}/data\nkey = {KEY}\n"

    # ---- Its drive -----------------------------------------------------------

    def turn(self, target: str = SOUND, mib: Optional[int] = None) -> None:
        """Changes the behaviour of the drive to @target, and its size to @mib MiB."""
        self.host.agent.run("dmsetup suspend --noflush backup && dmsetup load backup --table "
                            f"'{self._table(target, mib)}' && dmsetup resume backup")

    def freeze(self) -> None:
        """Makes the drive stop answering."""
        self.host.agent.run("dmsetup suspend --noflush backup")

    def thaw(self) -> None:
        """Undoes freeze(): the drive answers all pending requests."""
        self.host.agent.run("dmsetup resume backup")

    def wipe(self) -> None:
        """Makes the drive blank as lsmemd(8) defines it. The drive must not be in use."""
        self.host.agent.run(
            f"end=$(($(blockdev --getsize64 {DEVICE}) / {MIB} - 1)); for at in 0 $end; do dd "
            f"if=/dev/zero of={DEVICE} bs={MIB} count=1 seek=$at oflag=direct conv=fsync; done")

    def damage(self, rng: random.Random) -> int:
        """Flips two bits in each segment on the drive; returns the number of segments.

        One bit is in the header, which a recovery that reads this replica always checks. The drive
        must not be in use.
        """
        drive = self.host.drives[0]
        damaged = 0
        with open(drive.image, "r+b") as image:
            start, = FRAMES_START.unpack(image.read(FRAMES_START.size))
            for frame in range(start, drive.size - FRAME_BYTES + 1, FRAME_BYTES):
                image.seek(frame)
                if image.read(len(SEGMENT_MAGIC)) != SEGMENT_MAGIC:
                    continue
                for at in (rng.randrange(BLOCK_BYTES), rng.randrange(BLOCK_BYTES, FRAME_BYTES)):
                    image.seek(frame + at)
                    bad = image.read(1)[0] ^ 1 << rng.randrange(8)
                    image.seek(frame + at)
                    image.write(bytes((bad,)))
                damaged += 1
        return damaged

    def _table(self, target: str, mib: Optional[int] = None) -> str:
        drive = self.host.drives[0]
        size = drive.size if mib is None else mib * MIB
        return f"0 {size // SECTOR} {target.format(drive=f'/dev/drive/{drive.name}')}"
