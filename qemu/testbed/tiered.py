# SPDX-License-Identifier: GPL-2.0
"""Figures of demos with tiered stores: from the files that their guests write, once a second.

host/tier.jsonl is from `lsmemctl tier --interval 1 --json`, other files are from the program that
reads and writes. The power may be cut at any time, so the last line of each may be torn.
"""

import subprocess
import sys
from pathlib import Path
from typing import Callable, Optional, Sequence

from . import boots
from .boots import Sample

MIB = 1 << 20
# What all stores have together
SUMS = ("resident_bytes", "cold_bytes", "cached_bytes", "fetches", "evicted_bytes", "failures")


class Boots(boots.Boots):
    """What the guests of a run with tiered stores have written."""

    def samples(self, boot: int) -> list[Sample]:
        """The figures of all stores together, each with its time and rates."""
        found = []
        for line in self.lines(boot, "tier"):
            stores = line["stores"]
            all_stores = {key: sum(store[key] for store in stores) for key in SUMS}
            rate = sum(store["fetches_per_second"] or 0 for store in stores)
            waited = sum(store["mean_us"] * store["fetches_per_second"] for store in stores
                         if store["mean_us"] and store["fetches_per_second"])
            # Bytes that were fetched are resident, and stay cold.
            live = (all_stores["resident_bytes"] + all_stores["cold_bytes"]
                    - all_stores["cached_bytes"])
            found.append({"time": line["time"], "live_bytes": live, "fetches_per_second": rate,
                          "mean_us": waited / rate if rate else None, **all_stores})
        return found


class Teller(boots.Teller):
    """Prints what the newest guest is doing, with the figures of its stores."""

    def __init__(self, guests: Boots, what: Callable[[int], str], say: Callable[[str], None]) -> None:
        def line(boot: int) -> Optional[str]:
            last = guests.samples(boot)[-1:]
            return f"{what(boot)}: {in_memory(last[0])}" if last else None

        super().__init__(guests, line, say)


def in_memory(now: Sample) -> str:
    """What of the stores is in memory, for a reader."""
    return (f"{now['live_bytes'] // MIB} MiB live, {now['resident_bytes'] // MIB} MiB of them in memory, "
            f"{now['fetches_per_second'] or 0:,.0f} fetches/s, {now['failures']} failed")


def count(load: Sequence[Sample], key: str, when: float) -> float:
    """A count of the load at a time between two of its lines."""
    for before, after in zip(load, load[1:]):
        if when <= after["time"]:
            share = max(0.0, when - before["time"]) / (after["time"] - before["time"])
            return before[key] + share * (after[key] - before[key])
    return load[-1][key]


def under_load(tier: Sequence[Sample], load: Sequence[Sample]) -> Sample:
    """What the load did between two samples of the tier: reads, changes, fetches."""
    busy = [line["time"] for line in load if line["changes"]]
    during = [sample for sample in tier if busy and busy[0] <= sample["time"] <= busy[-1]]
    if len(during) < 2:
        raise RuntimeError("the load was too short for two samples")
    first, last = during[0], during[-1]
    reads, changes = (count(load, key, last["time"]) - count(load, key, first["time"])
                      for key in ("reads", "changes"))
    faults = last["fetches"] - first["fetches"]
    waited = sum(sample["mean_us"] * sample["fetches_per_second"] for sample in during[1:]
                 if sample["mean_us"])
    return {"reads": round(reads), "changes": round(changes), "faults": faults,
            "hit_ratio": round(1 - faults / (reads + changes), 4),
            "evicted_bytes": last["evicted_bytes"] - first["evicted_bytes"],
            "load_seconds": round(last["time"] - first["time"], 1),
            "fetch_mean_us": round(waited / max(1e-9, sum(
                sample["fetches_per_second"] for sample in during[1:] if sample["mean_us"])), 1)}


def draw(path: Path, parts: Sequence[tuple[str, Sequence[Sample]]]) -> None:
    """Makes the plot: a part with a title for the samples of each guest. Without gnuplot only prints
    a note."""
    script = [f"set terminal pngcairo size 900,{450 * len(parts)}", f"set output '{path}'",
              f"set multiplot layout {len(parts)},1", "set grid", "set key below",
              "set xlabel 'seconds since the store was made (emulated)'", "set ylabel 'MiB'",
              "set y2label 'fetches a second'", "set y2tics", "set ytics nomirror",
              "set yrange [0:*]", "set y2range [0:*]"]
    for number, (title, found) in enumerate(parts):
        script.append(f"$part{number} << EOD")
        script += [f"{now['time'] - found[0]['time']} {now['resident_bytes'] / MIB} "
                   f"{now['cached_bytes'] / MIB} "
                   f"{(now['live_bytes'] - now['resident_bytes']) / MIB} "
                   f"{now['fetches_per_second'] or 0}" for now in found]
        script += ["EOD", f"set title '{title}'",
                   f"plot $part{number} using 1:2 with lines lw 2 title 'in memory', "
                   "'' using 1:3 with lines title 'of these, fetched', "
                   "'' using 1:4 with lines lw 2 title 'on the drive only', "
                   "'' using 1:5 axes x1y2 with lines title 'fetches/s'"]
    try:
        subprocess.run(["gnuplot"], input="\n".join([*script, "unset multiplot"]) + "\n", text=True,
                       check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"no plot: {error}", file=sys.stderr)
