# SPDX-License-Identifier: GPL-2.0
"""Builds kernels that Debian does not have, and the module for any kernel.

A kernel is configured from the fragments of qemu/kernels on top of allnoconfig, and built in a
directory of the cache. The name of the directory contains a hash of all inputs. A build is complete
if its file `built` exists; an incomplete build is removed and built again.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Mapping, Optional, Sequence

from . import newest, paths, source
from .errors import TestbedError
from .source import Source, locked, say

FRAGMENTS = paths.REPO / "qemu" / "kernels"
MODULES = paths.OUT / "modules"
# To be changed together with the build steps below: part of the hash
STEPS = 1
STALE_SECONDS = 14 * 24 * 3600.0
PROGRESS_SECONDS = 30.0
TAIL_LINES = 30
# The caller's PATH, and the directories of depmod
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


@dataclass(frozen=True)
class Recipe:
    """How a kernel is built."""

    arch: str
    series: str
    fragments: tuple[str, ...]
    patches: tuple[str, ...] = ()
    # Variables of make
    variables: tuple[str, ...] = ()
    # Time limits of tests are so many times longer than on the stock kernel
    patience: float = 1.0


# KCSAN instruments modules only. But it delays accesses to simulate reordering, and such a delay
# must end at barriers of the kernel: so the barriers in these files are instrumented.
BARRIERS = ("spinlock", "mutex", "rwsem", "percpu-rwsem", "semaphore", "qspinlock", "qrwlock",
            "osq_lock", "tree", "srcutree", "update", "workqueue", "kthread", "refcount",
            "percpu-refcount", "percpu_counter", "sbitmap", "blk-mq")
KCSAN = ("KCSAN_SANITIZE=n", *(f"KCSAN_INSTRUMENT_BARRIERS_{name}.o=y" for name in BARRIERS))

RECIPES = {
    "debug": Recipe("x86_64", "6.1", ("guest", "debug"), patience=4.0),
    "kcsan": Recipe("x86_64", "6.1", ("guest", "kcsan"), variables=KCSAN, patience=2.0),
    "uml": Recipe("um", source.NEWEST, ("uml", "uml-guest", "uml-bench"),
                  ("uml-crc", "uml-ipi", "uml-spin", "uml-x86")),
    "uml-rivals": Recipe("um", source.NEWEST, ("uml", "uml-bench", "uml-rivals"),
                         ("uml-crc", "uml-ipi", "uml-spin", "uml-x86", "null-blk-flush")),
    "uml-kasan": Recipe("um", source.NEWEST, ("uml", "uml-kasan"),
                        ("uml-crc", "uml-ipi", "uml-spin"), patience=4.0),
}


@dataclass(frozen=True)
class Built:
    """A kernel that has been built."""

    name: str
    recipe: Recipe
    kdir: Path

    @property
    def release(self) -> str:
        """Output of uname -r."""
        return (self.kdir / "include/config/kernel.release").read_text().strip()

    @property
    def image(self) -> Path:
        """The file to boot."""
        if self.recipe.arch == "um":
            return self.kdir / "linux"
        return self.kdir / "root" / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        """Its module directory."""
        return self.kdir / "root" / "lib" / "modules" / self.release


def kernel(name: str) -> Built:
    """Finds the kernel @name in the cache, or builds it."""
    if name not in RECIPES:
        raise TestbedError(f"no kernel '{name}'; there are {', '.join(RECIPES)}")
    recipe = RECIPES[name]
    chosen = source.find(recipe.series)
    base = paths.cache_dir() / "kernels"
    kdir = base / f"{name}-{_hash(name, recipe, chosen)}"
    with locked(base / f"{kdir.name}.lock"):
        if not (kdir / "built").exists():
            shutil.rmtree(kdir, ignore_errors=True)
            _build(name, recipe, chosen, kdir)
        os.utime(kdir / "built")
    _drop_stale(base, name)
    return Built(name, recipe, kdir)


def module(target: str, variables: Sequence[str] = ()) -> Path:
    """Builds lsmem.ko for @target.

    @target is the name of a recipe, a version whose headers are installed, the path of a build
    directory, or newest.NAME.
    """
    if target == newest.NAME:
        chosen = newest.find()
        return _module(target, chosen.kdir, variables, chosen.command)
    if target in RECIPES:
        kdir = kernel(target).kdir
    else:
        kdir = Path(target) if "/" in target else Path("/lib/modules") / target / "build"
        kdir = kdir.resolve()
    if not (kdir / "Makefile").exists():
        raise TestbedError(f"no kernel to build for in {kdir}; install linux-headers-{target}, or "
                           f"name one of {', '.join(RECIPES)}, {newest.NAME}")
    return _module(kdir.name if "/" in target else target, kdir, variables, list)


def _module(name: str, kdir: Path, variables: Sequence[str],
            wrap: Callable[[Sequence[str]], list[str]]) -> Path:
    """Builds in the tree @name; @wrap turns the make command into the command that runs it."""
    tree = MODULES / name
    with locked(MODULES / f"{name}.lock"):
        _mirror(tree)
        make = ["make", "--no-print-directory", "-C", str(kdir), f"M={tree}", "W=1",
                *_arch(kdir), *_instrument(kdir), *variables, "modules"]
        done = subprocess.run(wrap(make), stdout=sys.stderr, check=False, env=_environment())
    if done.returncode:
        raise TestbedError(f"the module does not build for {name}: see the messages above")
    return tree / "kmod" / "lsmem.ko"


def _hash(name: str, recipe: Recipe, chosen: Source) -> str:
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True)
    parts = [str(STEPS), name, recipe.arch, str(chosen), *recipe.variables,
             compiler.stdout.splitlines()[0]]
    parts += [path.read_text() for path in (*_fragments(recipe), *_patches(recipe))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _fragments(recipe: Recipe) -> list[Path]:
    return [FRAGMENTS / f"{fragment}.config" for fragment in recipe.fragments]


def _patches(recipe: Recipe) -> list[Path]:
    return [FRAGMENTS / f"{patch}.patch" for patch in recipe.patches]


def _build(name: str, recipe: Recipe, chosen: Source, kdir: Path) -> None:
    began = time.monotonic()
    tree = source.unpack(chosen, _patches(recipe))
    kdir.mkdir(parents=True)
    wanted = kdir / "wanted.config"
    wanted.write_text("".join(path.read_text() for path in _fragments(recipe))
                      + f'CONFIG_LOCALVERSION="-{name}"\n')
    log = kdir / "build.log"
    say(f"building {name} from {chosen}, log in {log}")
    make = ["make", "-C", str(tree), f"O={kdir}", f"ARCH={recipe.arch}",
            *recipe.variables, f"-j{os.cpu_count()}"]
    _run([*make, "allnoconfig"], log, {"KCONFIG_ALLCONFIG": str(wanted)})
    missing = lost(wanted, kdir / ".config")
    if missing:
        raise TestbedError(f"{chosen} does not give {name} what it wants: {', '.join(missing)}")
    image = "linux" if recipe.arch == "um" else "bzImage"
    _run([*make, image, "modules"], log)
    _run([*make, f"INSTALL_MOD_PATH={kdir}/root", "modules_install"], log)
    built = Built(name, recipe, kdir)
    if recipe.arch != "um":
        built.image.parent.mkdir()
        shutil.copyfile(kdir / "arch/x86/boot/bzImage", built.image)
    _drop_objects(kdir)
    (kdir / "built").touch()
    say(f"built {name} in {time.monotonic() - began:.0f} s")


def lost(wanted: Path, config: Path) -> list[str]:
    """The lines of @wanted that @config does not have."""
    have = set(config.read_text().splitlines())
    missing = []
    for line in wanted.read_text().splitlines():
        option = line.partition("=")[0]
        if line.startswith("CONFIG_") and line not in have and not (
                line.endswith("=n") and not any(other.startswith(option + "=") for other in have)):
            missing.append(line)
    return missing


def _run(argv: Sequence[str], log: Path, env: Optional[Mapping[str, str]] = None) -> None:
    """Runs a step of a build, and prints the last line of its log from time to time."""
    began = time.monotonic()
    with open(log, "ab") as out:
        step = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                env=_environment() | dict(env or {}))
        try:
            while True:
                try:
                    status = step.wait(PROGRESS_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    last = _tail(log, 1)
                    say(f"{time.monotonic() - began:4.0f} s {last[0].strip() if last else ''}")
        finally:
            step.kill()
            step.wait()
    if status:
        raise TestbedError("\n".join([f"{argv[-1]} failed, see {log}:", *_tail(log, TAIL_LINES)]))


def _tail(log: Path, count: int) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-count:]


def _environment() -> dict[str, str]:
    """The environment of the caller, without the variables that an outer make has set."""
    return {name: value for name, value in os.environ.items()
            if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")} | {"PATH": PATH}


def _drop_objects(kdir: Path) -> None:
    """Removes files that are needed neither to boot nor to build modules."""
    for top in kdir.iterdir():
        if top.is_dir() and top.name not in ("include", "root", "scripts", "source", "tools"):
            for path in top.rglob("*"):
                if path.suffix in (".o", ".a", ".cmd", ".ko") or path.name.startswith("vmlinux"):
                    path.unlink()
    for pattern in ("vmlinux.o", "vmlinux.a", ".tmp_vmlinux*", "vmlinux.unstripped"):
        for path in kdir.glob(pattern):
            path.unlink()


def _drop_stale(base: Path, name: str) -> None:
    """Removes builds of @name, with any hash, that were not used for STALE_SECONDS."""
    for other in base.glob(f"{name}-*/built"):
        hashed = re.fullmatch(rf"{name}-[0-9a-f]{{12}}", other.parent.name)
        if hashed and time.time() - other.stat().st_mtime > STALE_SECONDS:
            shutil.rmtree(other.parent)


def _mirror(tree: Path) -> None:
    """Makes a tree of links to the module's sources: each kernel has objects of its own."""
    wanted = {}
    for part in ("kmod", "uapi"):
        for path in (paths.REPO / part).rglob("*"):
            if path.suffix in (".c", ".h", ".sh") or path.name in ("Kbuild", "Makefile"):
                wanted[tree / path.relative_to(paths.REPO)] = path
    wanted[tree / "Kbuild"] = paths.REPO / "Kbuild"
    made = _made(paths.REPO)
    for link, path in wanted.items():
        if path in made:
            continue
        if not (link.is_symlink() and link.resolve() == path):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(path)
    for link in tree.rglob("*"):
        if link.is_symlink() and link not in wanted:
            link.unlink()


def _made(tree: Path) -> set[Path]:
    """Generated files among the sources."""
    return {tree / "kmod" / "compat" / "probed.h", *(tree / "kmod").rglob("*.mod.c")}


def _arch(kdir: Path) -> list[str]:
    return ["ARCH=um"] if _has(kdir, "UML") else []


def _instrument(kdir: Path) -> list[str]:
    """Variables of make for instrumentation that the kernel supports."""
    return [variable for option, variable in (("KCOV", "KCOV_INSTRUMENT=y"),
                                              ("UBSAN", "UBSAN_SANITIZE=y")) if _has(kdir, option)]


def _has(kdir: Path, option: str) -> bool:
    config = kdir / ".config"
    return config.exists() and f"CONFIG_{option}=y" in config.read_text().splitlines()
