# SPDX-License-Identifier: GPL-2.0
"""A guest of User-mode Linux: the kernel is a process of the host and runs at the host's speed.

Its root is that of the host, read-only, with overlays. Its drives are files that it reads and
writes through the host's page cache. A flush of the guest is fdatasync() of the file.
"""

import os
from pathlib import Path
from typing import Any, Iterable, Sequence

from . import build, kernel, paths
from .drive import Drive, parse_size
from .errors import TestbedError
from .guest import Guest

# The guest may write to these directories; its writes are lost when it ends.
OVERLAYS = ("/etc", "/home", "/opt", "/root", "/srv", "/usr/local", "/var/lib")
# The guest has a tmpfs on these and on /run; directories of kept() stay visible in them.
OWN = ("/dev/shm", "/tmp", "/var/tmp", "/var/log", "/var/cache")
MEMORY = Path("/dev/shm")
# A kernel that runs on the machine itself has its memory in huge pages; benches want the same.
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
HUGE_PAGES_FOR = ("uml",)
# Each page of a process of the guest may be a separate mapping on the host. At the limit of
# mappings the process hangs.
MAPPINGS = Path("/proc/sys/vm/max_map_count")
MAPPINGS_WANTED = 1 << 20


def kept(needed: Iterable[Path]) -> list[Path]:
    """The directories of @needed that are in OWN, without those that are inside others of them."""
    below = {path.resolve() for path in needed
             if any(path.resolve().is_relative_to(own) for own in OWN)}
    return sorted(path for path in below if not any(other in path.parents for other in below))


class Uml(Guest):
    """A guest without QEMU. It has no journal port. @udev: with udev, which costs a second."""

    log = "console"
    hidden = ("/dev", "/proc", "/run", "/sys")

    def __init__(self, workdir: Path, *, name: str = "uml", drives: Sequence[Drive] = (),
                 kernel_args: str = "", udev: bool = False, **options: Any) -> None:
        if build.RECIPES[name].arch != "um":
            raise TestbedError(f"{name} is no kernel for User-mode Linux")
        for drive in drives:
            drive.cache = "plain"
        super().__init__(workdir, drives=drives, kernel=kernel.find(name), accel="none",
                         kernel_args=kernel_args, ports=(), **options)
        self._modules = build.kernel(name).modules
        self._udev = udev
        self._huge = name in HUGE_PAGES_FOR and HUGE_PAGES.exists() and os.geteuid() == 0

    def _exit_code_path(self) -> Path:
        return self.host_dir / "exit-code"

    def _command_line(self) -> list[str]:
        links = ",".join(f"{drive.name}=ubd{chr(ord('a') + i)}"
                         for i, drive in enumerate(self.drives))
        environment = {
            "LSMEM_HOST_DIR_PATH": str(self.host_dir),
            "LSMEM_KERNEL_MODULES": str(self._modules),
            "LSMEM_OVERLAYS": ",".join(OVERLAYS),
            "LSMEM_OWN": ",".join(OWN),
            "LSMEM_KEEP": ",".join(map(str, kept((paths.REPO, paths.cache_dir(), self.cwd)))),
            "LSMEM_LINKS": links,
            "LSMEM_UDEV": str(int(self._udev)),
        }
        self._allow_mappings()
        argv = [*self._memory(), str(self.kernel.image), f"mem={self.mem}", f"ncpus={self.cpus}",
                "seccomp=on", "quiet", "root=none", "rootfstype=hostfs", "rootflags=/", "ro",
                f"init={paths.REPO / 'qemu' / 'uml-init'}", f"uml_dir={self._scratch}/",
                # Kernel messages go to standard error, the command's output to standard output.
                "con=null", "con0=null,fd:2", "con1=null,fd:1", "ssl=null", "console=tty0",
                "panic=-1"]
        argv += [f"{name}={value}" for name, value in environment.items()]
        argv += [f"ubd{i}={drive.image}" for i, drive in enumerate(self.drives)]
        return argv + self.kernel_args.split()

    @staticmethod
    def _allow_mappings() -> None:
        if int(MAPPINGS.read_text()) >= MAPPINGS_WANTED:
            return
        try:
            MAPPINGS.write_text(f"{MAPPINGS_WANTED}\n")
        except OSError as error:
            raise TestbedError(f"{MAPPINGS} must be {MAPPINGS_WANTED}: run as root, or sysctl -w "
                               f"vm.max_map_count={MAPPINGS_WANTED}") from error

    def _memory(self) -> list[str]:
        """The command before the kernel's: the guest's memory is an unnamed file in a tmpfs."""
        free = os.statvfs(MEMORY)
        argv = ["env", f"TMPDIR={MEMORY}"]
        if not self._huge and free.f_bavail * free.f_frsize >= parse_size(self.mem):
            return argv
        if os.geteuid() != 0:
            raise TestbedError(f"{MEMORY} has no room for {self.mem}; run as root, or give less")
        size = f"size={self.mem}{',huge=always' if self._huge else ''}"
        mount = f'mount -t tmpfs -o {size} tmpfs {MEMORY} && exec "$@"'
        return [*argv, "unshare", "--mount", "sh", "-c", mount, "uml"]
