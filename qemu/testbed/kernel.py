# SPDX-License-Identifier: GPL-2.0
"""Which kernel: the newest stock Debian 6.1 for amd64 that can be both booted and built for.

The kernel that runs the host is never asked: a container or a cloud host has neither its image nor
its modules at hand. Cloud and real-time flavours lack drivers that the tests need.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Optional

from .errors import TestbedError

STOCK = re.compile(r"vmlinuz-(6\.1\.\d+-(\d+)-amd64)")


@dataclass(frozen=True)
class Kernel:
    """An installed kernel."""

    version: str
    image: Path

    def modules(self) -> Path:
        """Its module directory."""
        return Path("/lib/modules") / self.version


def stock_kernels() -> Iterator[tuple[int, Kernel]]:
    """All stock kernels whose image, modules and headers are installed, with their ABI number."""
    for image in Path("/boot").glob("vmlinuz-*"):
        match = STOCK.fullmatch(image.name)
        if not match:
            continue
        kernel = Kernel(match.group(1), image)
        if (kernel.modules() / "modules.dep").exists() and \
           (kernel.modules() / "build" / "Makefile").exists():
            yield int(match.group(2)), kernel


def find(version: Optional[str] = None) -> Kernel:
    """The newest stock kernel, or the one asked for by @version or by $KVER."""
    version = version or os.environ.get("KVER")
    if version:
        kernel = Kernel(version, Path("/boot") / f"vmlinuz-{version}")
    else:
        found = sorted(stock_kernels(), key=lambda numbered: numbered[0])
        if not found:
            raise TestbedError("no stock 6.1 amd64 kernel with image and headers in /boot and "
                               "/lib/modules; run `make setup`")
        kernel = found[-1][1]
    if not os.access(kernel.image, os.R_OK):
        raise TestbedError(f"cannot read the kernel image {kernel.image}; install "
                           f"linux-image-{kernel.version}, or run as root")
    return kernel
