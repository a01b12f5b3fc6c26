# SPDX-License-Identifier: GPL-2.0
"""Which kernel: the newest stock Debian 6.1 for amd64 that can be both booted and built for.

Or one that was asked for: another installed one, the newest of Debian, or one of our own
(qemu/build-kernel). The kernel that runs the host is never asked: a container or a cloud host has
neither its image nor its modules at hand. Cloud and real-time flavours lack drivers that the tests
need.
"""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Iterator, Optional

from . import build, newest, paths
from .errors import TestbedError

DEFAULT = "6.1"
SERIES = re.compile(r"\d+\.\d+")
STOCK = re.compile(r"vmlinuz-((\d+\.\d+)\.\d+(?:-\d+)?(?:\+\w+)?-amd64)")


@dataclass(frozen=True)
class Kernel:
    """A kernel that boots."""

    version: str
    image: Path
    # The lsmem.ko for it
    module: Path = paths.REPO / "kmod" / "lsmem.ko"
    # How many times longer than on the stock kernel things may take
    patience: float = 1.0

    def modules(self) -> Path:
        """Its module directory."""
        return Path("/lib/modules") / self.version


def stock_kernels(series: str) -> Iterator[Kernel]:
    """All stock kernels of @series whose image, modules and headers are installed."""
    for image in Path("/boot").glob("vmlinuz-*"):
        match = STOCK.fullmatch(image.name)
        if not match or match.group(2) != series:
            continue
        kernel = Kernel(match.group(1), image)
        if (kernel.modules() / "modules.dep").exists() and \
           (kernel.modules() / "build" / "Makefile").exists():
            yield kernel


def find(version: Optional[str] = None) -> Kernel:
    """The newest stock kernel, or the one asked for by @version or by $KVER.

    @version may be a series: the newest of it that is installed. A kernel other than that which
    the tree is built for gets a module of its own, built here.
    """
    if version in build.RECIPES:
        return _own(version)
    if version == newest.NAME:
        found = newest.find()
        return Kernel(found.version, found.image, build.module(version))
    default = os.environ.get("KVER") or installed(DEFAULT)
    if version and SERIES.fullmatch(version):
        version = installed(version)
    version = version or default
    kernel = Kernel(version, Path("/boot") / f"vmlinuz-{version}")
    if not os.access(kernel.image, os.R_OK):
        raise TestbedError(f"cannot read the kernel image {kernel.image}; install "
                           f"linux-image-{kernel.version}, or run as root")
    return kernel if version == default else replace(kernel, module=build.module(version))


def _own(name: str) -> Kernel:
    """One that qemu/build-kernel makes."""
    built = build.kernel(name)
    return Kernel(built.release, built.image, build.module(name), built.recipe.patience)


def installed(series: str) -> str:
    """The newest stock kernel of @series."""
    found = [kernel.version for kernel in stock_kernels(series)]
    if not found:
        raise TestbedError(f"no stock {series} amd64 kernel with image and headers in /boot and "
                           "/lib/modules; run `make setup`, or `qemu/setup matrix` for others "
                           "than 6.1")
    return max(found, key=order)


def order(version: str) -> list[int]:
    """A key by which versions are sorted."""
    return [int(part) for part in re.findall(r"\d+", version)]
