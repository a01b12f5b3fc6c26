# SPDX-License-Identifier: GPL-2.0
"""What the parts of tools/sim/run share: simulations, checks, tables and plots."""

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Optional, Protocol, Sequence, TypeVar

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
OUT = REPO / "out" / "sim"
BUILD = HERE / "build"


class SimError(Exception):
    """The simulator or gnuplot failed."""


class Case(Protocol):
    """One simulation; str() tells it from others."""

    def command(self, seed: int) -> list[str]:
        """The command line of the simulator, with which a user can repeat the simulation."""


AnyCase = TypeVar("AnyCase", bound=Case)
Line = dict[str, Any]


def simulate(cases: Iterable[AnyCase], seed: int, shown: Optional[str]) -> dict[AnyCase, Line]:
    """Runs the simulations one after the other, each once; returns their lines of JSON.

    Shows progress, with the figure @shown, unless that is None.
    """
    todo = list(dict.fromkeys(cases))
    lines: dict[AnyCase, Line] = {}
    begin = time.monotonic()
    for number, case in enumerate(todo, 1):
        command = case.command(seed)
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise SimError(f"{' '.join(command)}: {result.stderr.strip()}")
        lines[case] = json.loads(result.stdout)
        if shown:
            print(f"[{number}/{len(todo)} {time.monotonic() - begin:.0f} s] {case}: "
                  f"{lines[case][shown]:.4g}", flush=True)
    return lines


@dataclass
class Check:
    """One line of TAP; it fails if @wrong has an entry."""

    name: str
    wrong: list[str]


def table(title: str, head: Sequence[str], rows: Iterable[tuple[str, Sequence[float]]]) -> str:
    """Formats a table with a column for each entry of @head."""
    lines = [title, f"{'':22}" + "".join(f"{name:>8}" for name in head)]
    lines += [f"{name:22}" + "".join(f"{value:8.2f}" for value in values)
              for name, values in rows]
    return "\n".join(lines) + "\n"


def plot(name: str, title: str, labels: tuple[str, str], xs: Sequence[float],
         curves: Sequence[tuple[str, Sequence[float]]],
         style: str = "set logscale y; set key left top") -> None:
    """Makes a PNG file with gnuplot; @labels: of the axes."""
    script = [f"set terminal png size 900,600; set output '{OUT / name}.png'",
              f"set title '{title}'; set xlabel '{labels[0]}'; set ylabel '{labels[1]}'",
              f"{style}; set grid; set style data linespoints",
              "plot " + ", ".join(f"'-' title '{curve}' lw 2" for curve, _ in curves)]
    for _, values in curves:
        script += [*(f"{x} {value}" for x, value in zip(xs, values) if value > 0), "e"]
    try:
        subprocess.run(["gnuplot"], input="\n".join(script), text=True, check=True)
    except FileNotFoundError as error:
        raise SimError("no gnuplot: run qemu/setup base sim") from error
