# SPDX-License-Identifier: GPL-2.0
"""Chooses an accelerator with which a stock guest boots on this host.

/dev/kvm may exist and open, and still a guest may make no progress. So KVM is used only after a
guest has booted to a shell within a time limit. The result is kept in the cache for this boot of
the host and this kernel.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from . import paths, process, virtme
from .kernel import Kernel

# A boot with KVM takes a few seconds, with emulation about fifteen.
PROBE_SECONDS = 20.0


def choose(kernel: Kernel) -> str:
    """Returns 'kvm' or 'tcg', or the value of $LSMEM_ACCEL if it is set."""
    forced = os.environ.get("LSMEM_ACCEL")
    if forced:
        return forced
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    answer = _answer_file(kernel)
    if answer.exists():
        return answer.read_text().strip()
    print(f"probing KVM with a boot of {kernel.version}, at most {PROBE_SECONDS:.0f} s",
          file=sys.stderr)
    accel = "kvm" if _boots(kernel) else "tcg"
    answer.parent.mkdir(parents=True, exist_ok=True)
    answer.write_text(accel + "\n")
    return accel


def _answer_file(kernel: Kernel) -> Path:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return paths.cache_dir() / f"accel-{boot_id}-{kernel.version}"


def _boots(kernel: Kernel) -> bool:
    scratch = paths.scratch()
    argv = virtme.command_line(kernel, "kvm", "1G", 2, "exit 0", scratch)
    with open(scratch / "qemu.log", "wb") as log:
        qemu = process.spawn(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        qemu.wait(PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill_group(qemu)
        process.reap(qemu)
    exit_code = scratch / "exit-code"
    booted = exit_code.exists() and exit_code.read_text().strip() == "0"
    shutil.rmtree(scratch, ignore_errors=True)
    return booted
