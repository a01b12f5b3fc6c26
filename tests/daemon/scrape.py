#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Reads metrics like Prometheus, but more strictly: anything unusual in the text is an error.

    scrape.py ADDRESS:PORT      print the metrics
"""

import http.client
import math
import re
import socket
import sys
from dataclasses import dataclass, field

Labels = frozenset[tuple[str, str]]

NAME = re.compile(r"lsmem_[a-z]+(?:_[a-z]+)*")
LABEL = re.compile(r'([a-z]+)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)')
SAMPLE = re.compile(r"([a-z_]+)\{(.*)\} (\S+)")
FIGURE = re.compile(r"[0-9]+(?:\.[0-9]+)?")
BOUND = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?|\+Inf")
SCALED = re.compile(r"_(?:ms|us|ns|kb|kib|mb|mib|milliseconds|percent)(?:_|$)")
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Odd(Exception):
    """The text is wrong or unusual."""


@dataclass
class Family:
    """One metric: its samples, by suffix of the name and labels."""

    kind: str
    help: str
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def histogram(self, name: str) -> None:
        """Checks a histogram: its buckets rise, and the last one counts all."""
        series: dict[Labels, list[tuple[float, float]]] = {}
        for (suffix, labels), figure in self.samples.items():
            rest = frozenset(pair for pair in labels if pair[0] != "le")
            bounds = [value for label, value in labels if label == "le"]
            if suffix == "_bucket":
                if len(bounds) != 1 or not BOUND.fullmatch(bounds[0]):
                    raise Odd(f"{name}: bound {bounds}")
                series.setdefault(rest, []).append((float(bounds[0]), figure))
            elif bounds or suffix not in ("_sum", "_count"):
                raise Odd(f"{name}{suffix} in a histogram")
        for labels, buckets in series.items():
            if buckets != sorted(buckets) or len(set(dict(buckets))) != len(buckets):
                raise Odd(f"{name}: buckets out of order: {buckets}")
            if [count for _, count in buckets] != sorted(count for _, count in buckets):
                raise Odd(f"{name}: buckets that fall: {buckets}")
            if buckets[-1] != (math.inf, self.samples.get(("_count", labels))):
                raise Odd(f"{name}: +Inf is not the count")
            if ("_sum", labels) not in self.samples:
                raise Odd(f"{name}: no sum")

    def check(self, name: str) -> None:
        """Checks the rules of Prometheus for names and types."""
        if not self.help or not self.help.endswith("."):
            raise Odd(f"{name}: help '{self.help}'")
        if not self.samples:
            raise Odd(f"{name}: no figures")
        if (self.kind == "counter") != name.endswith("_total"):
            raise Odd(f"{name} is a {self.kind}")
        if SCALED.search(name):
            raise Odd(f"{name}: not in base units")
        if self.kind == "histogram":
            self.histogram(name)
        elif any(suffix for suffix, _ in self.samples):
            raise Odd(f"{name}: more than one name in a {self.kind}")


def parse_labels(text: str) -> Labels:
    """Parses the labels between the braces."""
    labels = []
    at = 0
    while at < len(text):
        match = LABEL.match(text, at)
        if not match:
            raise Odd(f"labels {text}")
        value = re.sub(r"\\(.)", lambda escape: {"n": "\n"}.get(escape[1], escape[1]), match[2])
        labels.append((match[1], value))
        at = match.end()
    if len(dict(labels)) != len(labels) or text.endswith(","):
        raise Odd(f"labels {text}")
    return frozenset(labels)


def parse(text: str) -> dict[str, Family]:
    """The metrics of a page. Raises Odd if it is not in the text format, or breaks a rule."""
    families: dict[str, Family] = {}
    helps: dict[str, str] = {}
    name = ""
    if not text.endswith("\n"):
        raise Odd("the last line has no end")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, helps[name] = line.removeprefix("# HELP ").split(" ", 1)
            if not NAME.fullmatch(name) or name in families:
                raise Odd(line)
        elif line.startswith("# TYPE "):
            told, kind = line.removeprefix("# TYPE ").split(" ", 1)
            if told != name or name in families or kind not in ("counter", "gauge", "histogram"):
                raise Odd(line)
            families[name] = Family(kind, helps[name])
        else:
            match = SAMPLE.fullmatch(line)
            if not match or not match[1].startswith(name) or name not in families or \
                    not FIGURE.fullmatch(match[3]):
                raise Odd(f"line '{line}'")
            key = (match[1].removeprefix(name), parse_labels(match[2]))
            if key in families[name].samples:
                raise Odd(f"twice: {line}")
            families[name].samples[key] = float(match[3])
    for name, family in families.items():
        family.check(name)
    return families


def request(address: str, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
    """Makes a request. Returns status, headers and body of the answer."""
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def scrape(address: str) -> dict[str, Family]:
    """The metrics that are served."""
    status, headers, text = request(address, "/metrics")
    if status != 200 or headers["Content-Type"] != TYPE:
        raise Odd(f"{status}, {headers}")
    return parse(text)


def figure(families: dict[str, Family], wanted: str) -> float:
    """The only value with this name and these labels."""
    name, _, text = wanted.partition("{")
    labels = parse_labels(text.removesuffix("}"))
    found = [value for family, members in families.items()
             for (suffix, have), value in members.samples.items()
             if family + suffix == name and labels <= have]
    if len(found) != 1:
        raise Odd(f"{wanted}: {len(found)} of them")
    return found[0]


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host.strip("[]"), int(port)), timeout=30)


def refuses(address: str) -> bool:
    """Are the status codes right, also for unknown paths and methods?"""
    wanted = {("GET", "/"): 200, ("HEAD", "/metrics"): 200, ("GET", "/metrics?x=1"): 200,
              ("GET", "/metrics/"): 404, ("GET", "/../etc/passwd"): 404, ("POST", "/x"): 404,
              ("POST", "/metrics"): 405, ("PUT", "/metrics"): 405, ("DELETE", "/"): 405}
    got = {(method, path): request(address, path, method)[0] for method, path in wanted}
    wrong = {key: status for key, status in got.items() if status != wanted[key]}
    if wrong:
        print(wrong, file=sys.stderr)
    return not wrong


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        for name, family in scrape(sys.argv[1]).items():
            for (suffix, labels), value in family.samples.items():
                print(name + suffix, dict(sorted(labels)), value)
    except (Odd, OSError, http.client.HTTPException) as error:
        print(f"{sys.argv[1]}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
