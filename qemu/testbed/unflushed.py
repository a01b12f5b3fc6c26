# SPDX-License-Identifier: GPL-2.0
"""What a drive may lose when the power goes: any part of what was written and not flushed.

Writes go to the image at once, and what they overwrite is kept until the next flush. At a power cut
each write since then is, by chance, kept whole, torn between sectors, or lost; so a later write may
be on the drive and an earlier one not, as it is with real drives. A flush makes all earlier writes
durable; a forced (FUA) write makes only itself durable.

The image's state after the cut is found by walking back from the newest write: a sector takes the
newest kept write, else what it had at the last flush.
"""

import os
import random
from dataclasses import dataclass

SECTOR = 512
# How likely one write is to be kept; one of these is drawn for each cut. Mostly either nearly all
# or nearly none survives: a single lost or a single kept write is what finds a missing flush.
KEPT = (0.0, 0.02, 0.2, 0.5, 0.8, 0.98, 1.0)
TORN = 0.3


@dataclass(frozen=True)
class Write:
    """A write since the last flush."""

    offset: int
    before: bytes
    forced: bool


class Unflushed:
    """The image of a drive, and the writes that it may still lose."""

    def __init__(self, image: int) -> None:
        self._image = image
        self._writes: list[Write] = []

    def __len__(self) -> int:
        return len(self._writes)

    def write(self, data: bytes, offset: int, forced: bool) -> None:
        """Writes to the image and remembers what was there."""
        before = os.pread(self._image, len(data), offset)
        assert len(before) == len(data), "the server checks bounds"
        done = 0
        while done < len(data):
            done += os.pwrite(self._image, data[done:], offset + done)
        self._writes.append(Write(offset, before, forced))

    def flush(self) -> None:
        """All that was written is safe."""
        self._writes.clear()

    def cut(self, rng: random.Random) -> str:
        """The power goes: decides each write's fate; returns a line that tells of it."""
        chance = rng.choice(KEPT)
        settled: set[int] = set()
        kept = torn = 0
        for write in reversed(self._writes):
            sectors = range(write.offset // SECTOR, (write.offset + len(write.before)) // SECTOR)
            survives = _survivors(sectors, write.forced, chance, rng)
            kept += len(survives) == len(sectors)
            torn += 0 < len(survives) < len(sectors)
            self._revert(write, sectors, survives, settled)
        count = len(self._writes)
        self._writes.clear()
        return (f"of {count} unflushed writes {kept} were kept, {torn} torn, "
                f"{count - kept - torn} lost")

    def _revert(self, write: Write, sectors: range, survives: range, settled: set[int]) -> None:
        """Takes back one write where it does not survive and no newer one has settled a sector."""
        for sector in sectors:
            if sector in settled:
                continue
            if sector in survives:
                settled.add(sector)
                continue
            at = sector * SECTOR - write.offset
            os.pwrite(self._image, write.before[at:at + SECTOR], sector * SECTOR)


def _survivors(sectors: range, forced: bool, chance: float, rng: random.Random) -> range:
    """Which sectors of one write are on the drive after the cut."""
    if forced or rng.random() < chance:
        return sectors
    if chance == 0.0 or rng.random() >= TORN:
        return range(0)
    middle = rng.randrange(sectors.start, sectors.stop)
    return rng.choice((range(sectors.start, middle), range(middle, sectors.stop)))
