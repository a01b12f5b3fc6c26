# SPDX-License-Identifier: GPL-2.0
"""Plots of benches, with gnuplot, from the data that tests/bench/inside prints."""

import statistics
import subprocess
from pathlib import Path
from typing import Any, Callable, Iterable, Sequence

Data = list[dict[str, Any]]
Point = Sequence[float]
SIZES = {100: "100 B", 1024: "1 KB", 10240: "10 KB"}
DASHES = {"uniform": 2, "zipf": 1}


def _block(name: str, points: Iterable[Sequence[object]]) -> list[str]:
    """A named table for the plots."""
    return [f"${name} << EOD", *(" ".join(map(str, point)) for point in points), "EOD"]


def _sweep(data: Data) -> list[str]:
    blocks: list[str] = []
    relative, copies = [], []
    for number, (size, label) in enumerate(SIZES.items(), 1):
        for distribution, dash in DASHES.items():
            points = [(record["live"], record["relative"], record["copies"]) for record in data
                      if record["size"] == size and record["distribution"] == distribution]
            if not points:
                continue
            name = f"{distribution}{size}"
            blocks += _block(name, points)
            style = f"with linespoints lt {number} dt {dash} lw 2 title '{label}, {distribution}'"
            relative.append(f"${name} using 1:2 {style}")
            copies.append(f"${name} using 1:3 {style}")
    return [*blocks, "set multiplot layout 2,1", "set grid; set xrange [45:100]",
            "set xlabel 'live bytes, % of the memory of the store'",
            "set title 'Replacements a second, against a store 30 % live'",
            "set yrange [0:*]; set key left bottom", f"plot {', '.join(relative)}",
            "set title 'Bytes copied in memory for each byte written'",
            "set autoscale y; set key left top", f"plot {', '.join(copies)}", "unset multiplot"]


def _memory(data: Data) -> list[str]:
    rows = [record for record in data if record["what"] == "bytes"]
    names = [name for name in rows[0] if name not in ("group", "what", "workload")]
    columns = [f"$memory using {number}{':xtic(1)' if number == 2 else ''} title '{name}'"
               for number, name in enumerate(names, 2)]
    return [*_block("memory", [[row["workload"], *(row[name] for name in names)] for row in rows]),
            "set title 'Bytes of memory for each byte of live payload, everything counted'",
            "set style data histograms; set style fill solid 0.8; set grid y; set yrange [0:*]",
            "set key left top", f"plot {', '.join(columns)}"]


def _latency(data: Data) -> list[str]:
    blocks: list[str] = []
    curves = []
    for number, record in enumerate(data, 1):
        for which, dash in (("with", 1), ("without", 2)):
            name = f"{which}{number}"
            blocks += _block(name, ((time / 1000, share) for time, share in record[which]))
            curves.append(f"${name} with lines lt {number} dt {dash} lw 2 title "
                          f"'{SIZES[record['size']]}, {record['speed']}, {which} cleaning'")
    return [*blocks, "set title 'Replacement of an object: share that takes longer'",
            "set logscale xy; set grid; set xlabel 'microseconds'; set format y '10^{%T}'",
            f"plot {', '.join(curves)}"]


def _overhead(data: Data) -> list[str]:
    levels = list(dict.fromkeys(record["level"] for record in data))
    rows: dict[str, dict[str, float]] = {}
    for record in data:
        rows.setdefault(f"{SIZES[record['size']]} {record['distribution']}",
                        {})[record["level"]] = record["copied"]
    columns = [f"$overhead using {number}{':xtic(1)' if number == 2 else ''} title '{level}'"
               for number, level in enumerate(levels, 2)]
    return [*_block("overhead", [[f'"{name}"', *(row.get(level, "?") for level in levels)]
                                 for name, row in rows.items()]),
            "set datafile missing '?'; set logscale y; set grid y; set key below",
            "set title 'Bytes written to the backup by cleaning for each new byte'",
            "set style data histograms; set style fill solid 0.8", f"plot {', '.join(columns)}"]


def _change(data: Data) -> list[str]:
    begin = data[0]["time"]
    points = [(record["time"] - begin, record["rate"] / 1e6, record["copied"] / 1e6,
               record["live"] / 2**20, record["used"] / 2**20) for record in data]
    marks = [f"set arrow from {after['time'] - begin}, graph 0 to {after['time'] - begin}, graph 1 "
             "nohead dt 3" for before, after in zip(data, data[1:])
             if before["sizes"] != after["sizes"]]
    phases = ", ".join(dict.fromkeys("{}-{} B".format(*record["sizes"]) for record in data))
    return [*_block("change", points), *marks, f"set title 'Sizes change: {phases}'",
            "set grid; set xlabel 'seconds'; set ylabel 'MB/s'; set y2label 'MiB'; set y2tics",
            "set yrange [0:*]; set y2range [0:*]; set key below",
            "plot $change using 1:2 with lines lw 2 title 'entries written', "
            "$change using 1:3 with lines title 'copied by cleaning', "
            "$change using 1:4 axes x1y2 with lines title 'live entries (MiB)', "
            "$change using 1:5 axes x1y2 with lines title 'seglets in use (MiB)'"]


def _drbd(data: Data) -> list[str]:
    names = {"lsmem": "lsmem, 4 KiB", "drbd": "DRBD C, 4 KiB", "objects": "lsmem, 100 B",
             "copied": "lsmem, 4 KiB, over nbdkit"}
    depths = sorted({record["depth"] for record in data})
    script = ["set multiplot layout 3,1", "set style data histograms", "set style fill solid 0.8",
              "set grid y", "set yrange [0:*]", "set key outside", "set xlabel 'writes under way'"]
    for number, (field, unit, title) in enumerate((
            ("rate", 1, "Durable writes a second, on drives of two hosts"),
            ("wire", 1e3, "Kilobytes sent for each of them, by both hosts"),
            ("cpu_ns", 1e6, "Milliseconds of processor time for each, on both hosts"))):
        script += _block(f"drbd{number}", [
            [depth, *(statistics.median(record[field] / unit for record in data
                                        if (record["who"], record["depth"]) == (name, depth))
                      for name in names)] for depth in depths])
        columns = [f"$drbd{number} using {column}{':xtic(1)' if column == 2 else ''} title '{name}'"
                   for column, name in enumerate(names.values(), 2)]
        script += [f"set title '{title}'", f"plot {', '.join(columns)}"]
    return [*script, "unset multiplot"]


def _cost(data: Data) -> list[str]:
    blocks, curves = [], []
    for number, record in enumerate(data):
        times = [statistics.median(values) for values in record["times"]]
        name = f"cost{number}"
        blocks += _block(name, zip(record["batches"], times))
        curves.append(f"${name} with linespoints lw 2 title "
                      f"'{SIZES[record['size']]}, {record['order']}'")
    return [*blocks, "set title 'Replacement of an object: time by objects in a call'",
            "set logscale xy; set grid; set xlabel 'objects in a vector call'; "
            "set ylabel 'ns of one processor for each, cleaning included'; set key outside",
            f"plot {', '.join(curves)}"]


def _stripes(data: Data) -> list[str]:
    names = {"coded": "coded", "in place": "updates in place", "replicas": "m + 1 replicas"}
    rows = [[f"\"{record['code']} {record['distribution']}\"",
             *(record["traffic"][name] for name in names)] for record in data]
    columns = [f"$stripes using {number}{':xtic(1)' if number == 2 else ''} title '{name}'"
               for number, name in enumerate(names.values(), 2)]
    return [*_block("stripes", rows), "set title 'Bytes written to backups for each byte of updates'",
            "set style data histograms; set style fill solid 0.8; set grid y; set yrange [0:*]; set key left top",
            f"plot {', '.join(columns)}"]


def _waits(data: Data) -> list[str]:
    blocks, curves = [], []
    for number, epsilon in enumerate(sorted({record["epsilon"] for record in data})):
        rows = [[record["rate"], statistics.median(turn["mean"] for turn in record["turns"]), statistics.median(record["formula"])]
                for record in data if record["epsilon"] == epsilon]
        blocks += _block(f"wait{number}", rows)
        curves += [f"$wait{number} with points pt 7 lc {number + 1} title 'batch_us {epsilon}'",
                   f"$wait{number} using 1:3 with lines lc {number + 1} title 'the formula'"]
    return [*blocks, "set title 'Time of a durable write, mean, us'; set logscale xy; set grid; "
            "set xlabel 'writes a second'; set key outside", f"plot {', '.join(curves)}"]


PLOTS: dict[str, Callable[[Data], list[str]]] = {
    "sweep": _sweep, "memory": _memory, "latency": _latency, "overhead": _overhead,
    "change": _change, "drbd": _drbd, "cost": _cost, "stripes": _stripes, "stripes-nine": _stripes,
    "stripes-wait": _waits,
}
TALL = ("sweep", "drbd")


def draw(group: str, data: Data, path: Path) -> None:
    """Makes one PNG; without gnuplot only prints a note."""
    script = [f"set terminal pngcairo size 900,{900 if group in TALL else 600}",
              f"set output '{path}'", *PLOTS[group](data)]
    try:
        subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"no plot of {group}: {error}")
