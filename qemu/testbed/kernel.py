# SPDX-License-Identifier: GPL-2.0
"""Chooses the kernel to boot: by default the newest stock Debian 6.1 for amd64.

Its image, modules and headers must be installed. A user can choose another installed kernel, the
newest kernel of Debian, or a kernel of qemu/build-kernel. The running kernel of the host plays no
part: a container or a cloud host may not have its image and modules. Cloud and real-time flavours
are not used, because they lack drivers that the tests need.
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
    """A kernel to boot."""

    version: str
    image: Path
    # lsmem.ko for this kernel
    module: Path = paths.REPO / "kmod" / "lsmem.ko"
    # Time limits are so many times longer than on the stock kernel
    patience: float = 1.0

    def modules(self) -> Path:
        """Its module directory."""
        return Path("/lib/modules") / self.version


def stock_kernels(series: str) -> Iterator[Kernel]:
    """The stock kernels of @series with image, modules and headers installed."""
    for image in Path("/boot").glob("vmlinuz-*"):
        match = STOCK.fullmatch(image.name)
        if not match or match.group(2) != series:
            continue
        kernel = Kernel(match.group(1), image)
        if (kernel.modules() / "modules.dep").exists() and \
           (kernel.modules() / "build" / "Makefile").exists():
            yield kernel


def find(version: Optional[str] = None) -> Kernel:
    """Finds the kernel @version; without it $KVER, or else the newest stock kernel of DEFAULT.

    @version may also be a series, which stands for the newest installed kernel of it, a name of
    build.RECIPES, or newest.NAME. For any kernel other than the default, builds a module.
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
    """A kernel of qemu/build-kernel, which is built if needed."""
    built = build.kernel(name)
    return Kernel(built.release, built.image, build.module(name), built.recipe.patience)


def installed(series: str) -> str:
    """The version of the newest installed stock kernel of @series."""
    found = [kernel.version for kernel in stock_kernels(series)]
    if not found:
        raise TestbedError(f"no stock {series} amd64 kernel with image and headers in /boot and "
                           "/lib/modules; run `make setup`, or `qemu/setup matrix` for series "
                           "other than 6.1")
    return max(found, key=order)


def order(version: str) -> list[int]:
    """A sort key of versions."""
    return [int(part) for part in re.findall(r"\d+", version)]
