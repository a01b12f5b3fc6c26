# SPDX-License-Identifier: GPL-2.0
"""Losses of a drive in a power cut: any part of the writes since the last flush.

Writes go to the image at once; the overwritten data are kept until the next flush. In a power cut
each write since the last flush is at random kept, torn between sectors, or lost. So a later write
may survive and an earlier one not, as with real drives. A flush makes all earlier writes durable. A
forced (FUA) write makes only itself durable.

cut() goes back from the newest write: each sector gets the newest write that survives, or else its
content at the last flush.
"""

import os
import random
from dataclasses import dataclass

SECTOR = 512
# Probabilities that a write is kept; each cut uses one of them, chosen at random. Most of them keep
# nearly all writes or nearly none, because one lost or one kept write reveals a missing flush.
KEPT = (0.0, 0.02, 0.2, 0.5, 0.8, 0.98, 1.0)
TORN = 0.3


@dataclass(frozen=True)
class Write:
    """A write since the last flush."""

    offset: int
    before: bytes
    forced: bool


class Unflushed:
    """The image of a drive, and the writes that a power cut may lose."""

    def __init__(self, image: int) -> None:
        self._image = image
        self._writes: list[Write] = []

    def __len__(self) -> int:
        return len(self._writes)

    def write(self, data: bytes, offset: int, forced: bool) -> None:
        """Writes to the image, and keeps the overwritten data."""
        before = os.pread(self._image, len(data), offset)
        assert len(before) == len(data), "the server checks bounds"
        done = 0
        while done < len(data):
            done += os.pwrite(self._image, data[done:], offset + done)
        self._writes.append(Write(offset, before, forced))

    def flush(self) -> None:
        """Makes all writes durable."""
        self._writes.clear()

    def cut(self, rng: random.Random) -> str:
        """Cuts the power: loses writes; returns a line that describes the losses."""
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
        """Undoes a write in the sectors that it loses, unless a newer write has settled them."""
        for sector in sectors:
            if sector in settled:
                continue
            if sector in survives:
                settled.add(sector)
                continue
            at = sector * SECTOR - write.offset
            os.pwrite(self._image, write.before[at:at + SECTOR], sector * SECTOR)


def _survivors(sectors: range, forced: bool, chance: float, rng: random.Random) -> range:
    """The sectors of a write that survive the cut."""
    if forced or rng.random() < chance:
        return sectors
    if chance == 0.0 or rng.random() >= TORN:
        return range(0)
    middle = rng.randrange(sectors.start, sectors.stop)
    return rng.choice((range(sectors.start, middle), range(middle, sectors.stop)))
