# SPDX-License-Identifier: GPL-2.0
"""nbdkit plugin: a drive that loses any part of its unflushed writes (see testbed/unflushed.py).

The end of the server (SIGTERM) or of the connection is a power cut. A client that ends in order
flushes first; then nothing can be lost. The plugin appends what happened to the writes to the file
`story`.

parameters: image=FILE seed=NUMBER story=FILE
"""

import os
import random

import nbdkit
from testbed.unflushed import SECTOR, Unflushed

API_VERSION = 2
PARAMETERS = {}
DRIVES = []


def config(key, value):
    """Takes a parameter."""
    PARAMETERS[key] = value


def config_complete():
    """Checks that no parameter is missing."""
    missing = {"image", "seed", "story"} - PARAMETERS.keys()
    if missing:
        raise RuntimeError(f"missing parameters: {', '.join(sorted(missing))}")


def thread_model():
    """One request at a time: the order of writes is the order of their completion."""
    return nbdkit.THREAD_MODEL_SERIALIZE_ALL_REQUESTS


class Drive:
    """The drive of one connection."""

    def __init__(self):
        self.image = os.open(PARAMETERS["image"], os.O_RDWR)
        self.size = os.fstat(self.image).st_size
        self.unflushed = Unflushed(self.image)

    def cut(self):
        """Loses unflushed writes; a second call does nothing."""
        if len(self.unflushed):
            told = self.unflushed.cut(random.Random(int(PARAMETERS["seed"])))
            story = os.open(PARAMETERS["story"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.write(story, f"seed {PARAMETERS['seed']}: {told}\n".encode())
            os.close(story)


def open(_readonly):
    """Begins a connection."""
    DRIVES.append(Drive())
    return DRIVES[-1]


def close(drive):
    """The connection has ended."""
    drive.cut()


def cleanup():
    """The server ends: nbdkit does not call close() for open connections."""
    for drive in DRIVES:
        drive.cut()


def get_size(drive):
    """The size in bytes."""
    return drive.size


def block_size(_drive):
    """Minimum, preferred and maximum request: whole sectors, as writes tear between sectors."""
    return (SECTOR, 4096, 32 << 20)


def can_fua(_drive):
    """pwrite() gets the FUA flag."""
    return nbdkit.FUA_NATIVE


def pread(drive, buf, offset, _flags):
    """Reads the newest data, flushed or not."""
    data = os.pread(drive.image, len(buf), offset)
    buf[:] = data


def pwrite(drive, buf, offset, flags):
    """Writes; the write may be lost unless it is forced."""
    drive.unflushed.write(bytes(buf), offset, bool(flags & nbdkit.FLAG_FUA))


def flush(drive, _flags):
    """Makes all earlier writes durable."""
    drive.unflushed.flush()
