# SPDX-License-Identifier: GPL-2.0
"""What the tests of the daemon in Python share."""

import socket
from typing import Iterable


class Tap:
    """Counts and prints."""

    def __init__(self) -> None:
        self.count = 0
        self.failed = 0

    def check(self, name: str, wrong: Iterable[object]) -> None:
        """One test: right if there is nothing wrong."""
        wrong = list(wrong)
        self.count += 1
        self.failed += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {self.count} - {name}", flush=True)
        for line in wrong:
            print(f"# {line}")

    def same(self, name: str, got: object, wanted: object) -> None:
        self.check(name, [] if got == wanted else [f"got {got!r}, wanted {wanted!r}"])


def free_port(host: str) -> int:
    family = socket.AF_INET6 if host[0] == "[" else socket.AF_INET
    with socket.socket(family) as sock:
        sock.bind((host.strip("[]"), 0))
        return sock.getsockname()[1]
