# SPDX-License-Identifier: GPL-2.0
"""The QEMU command line that boots the file system of the host, made by virtme-ng.

virtme-run only prints the command. This file changes it: the console and the exit code go to files.
The caller starts QEMU as its own child, so a power cut is one signal to one known process.
"""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Callable

from . import paths
from .errors import TestbedError
from .kernel import Kernel

# The guest may write to these directories; its writes are lost when it ends.
OVERLAYS = ("/etc", "/home", "/opt", "/srv", "/tmp", "/usr", "/var")
MAKE_SECONDS = 60.0

# Drivers of hardware that no test uses; udev would load them, which takes several seconds.
UNUSED = ("ahci", "ata_piix", "sr_mod", "cdrom", "sg", "kvm", "kvm_amd", "kvm_intel", "powernow_k8",
          "acpi_cpufreq", "lpc_ich", "i2c_i801", "iTCO_wdt", "psmouse", "pcspkr", "joydev", "evdev",
          "aesni_intel", "ghash_clmulni_intel", "sha512_ssse3", "rapl", "edac_mce_amd",
          "snd_pcsp", "serio_raw", "button")
# log_buf_len: the log is judged at the end, and none of it may have been overwritten.
# no_timer_check: without it the kernel panics if a busy host delays the first ticks.
KERNEL_ARGS = (f"module_blacklist={','.join(UNUSED)} mitigations=off tsc=reliable "
               "log_buf_len=2M no_timer_check")


def command_line(kernel: Kernel, accel: str, mem: str, cpus: int, script: str,
                 directory: Path) -> list[str]:
    """The command that boots @kernel in QEMU and runs @script; its files are in @directory.

    The standard output of @script is that of QEMU. The file `console` has the kernel's console,
    `exit-code` the exit code of @script.
    """
    virtme = paths.virtme_run()
    if not virtme.exists():
        raise TestbedError(f"no virtme-ng at {virtme}; run `make setup`")
    initramfs = directory / "initramfs"
    initramfs.unlink(missing_ok=True)
    argv = [str(virtme), "--kimg", str(kernel.image), "--mods=auto", "--force-9p",
            "--disable-monitor", "--cpus", str(cpus), "--memory", mem, "--name", "lsmem",
            "--script-sh", script, "--show-command", "--dry-run"]
    # A kernel with built-in drivers needs no initramfs. The image of Debian's later kernels is
    # beside their modules.
    if kernel.modules().exists() or (kernel.image.parent / "modules.dep").exists():
        argv += ["--save-initramfs", str(initramfs)]
    argv += [f"--overlay-rwdir={overlay}" for overlay in OVERLAYS if os.path.isdir(overlay)]
    if accel != "kvm":
        argv.append("--disable-kvm")
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=MAKE_SECONDS, check=False,
                          env=os.environ | {"TMPDIR": str(directory)})
    if done.returncode != 0 or not done.stdout.strip():
        raise TestbedError(f"virtme-run made no command line: {done.stderr.strip()}")
    return _adapt(shlex.split(done.stdout.strip().splitlines()[-1]), initramfs, directory)


def _adapt(argv: list[str], initramfs: Path, directory: Path) -> list[str]:
    _change(argv, "-chardev", "id=console,", lambda _: f"file,id=console,path={directory}/console")
    _change(argv, "-chardev", "id=ret,", lambda _: f"file,id=ret,path={directory}/exit-code")
    _change(argv, "-chardev", "id=stdin,", lambda _: "null,id=stdin")
    if initramfs.exists():
        _change(argv, "-initrd", "", lambda _: str(initramfs))
    add_kernel_args(argv, KERNEL_ARGS)
    return argv


def add_kernel_args(argv: list[str], args: str) -> None:
    """Appends to the kernel's command line; a later option overrides an earlier one."""
    _change(argv, "-append", "", lambda old: f"{old} {args}".rstrip())


def _change(argv: list[str], option: str, marker: str, change: Callable[[str], str]) -> None:
    """Replaces the one argument of @option that contains @marker."""
    at = [i + 1 for i, arg in enumerate(argv[:-1]) if arg == option and marker in argv[i + 1]]
    if len(at) != 1:
        raise TestbedError(f"virtme-run's command has {len(at)} '{option} …{marker}…', not one: "
                           "another version of virtme-ng than qemu/setup installs?")
    argv[at[0]] = change(argv[at[0]])
