# SPDX-License-Identifier: GPL-2.0
"""Bench of recovery from several backups: a group of tests/bench/inside."""

import os
import subprocess
from pathlib import Path

from contest import (BATCH, Contestant, Durable, Rounds, destroy, drives, result, sequential_read,
                     tell)

STORE_MIB = 512
DRIVES = ("objects", "large", "blocks")
# With drives as fast as the guest's memory the bench would measure the processor.
DRIVE_MBS = 50
TARGET = 0.7
CGROUPS = Path("/sys/fs/cgroup")


def slow_group(paths: "list[str]") -> Path:
    """Makes a cgroup whose processes read each of @paths with DRIVE_MBS at most."""
    if not (CGROUPS / "cgroup.controllers").exists():
        subprocess.run(["mount", "-t", "cgroup2", "none", str(CGROUPS)], check=True)
    (CGROUPS / "cgroup.subtree_control").write_text("+io")
    group = CGROUPS / "lsmem-bench"
    group.mkdir(exist_ok=True)
    for path in paths:
        device = os.stat(path).st_rdev
        (group / "io.max").write_text(
            f"{os.major(device)}:{os.minor(device)} rbps={DRIVE_MBS * 1000000}")
    return group


def backups(rounds: Rounds) -> None:
    """Live bytes recovered in a second, from one, two and three backups."""
    paths = drives(DRIVES)
    group = slow_group(paths)
    for nr in (1, 2, 3):
        store = Durable("object", "lsmem", paths[:nr], STORE_MIB, group)
        store.start("--format", "--force")
        player = Contestant("replace", "-s", "1024", "-r", "-l", "800", "-b", str(BATCH), "-p",
                            store.device)
        player.round(0.3, 1)
        player.close()
        ours, base = [], []
        for number in range(rounds.rounds):
            tell(kind="progress", text=f"backups: {nr}, round {number + 1} of {rounds.rounds}")
            store.stop()
            destroy(store.store, "--force")
            store.start()
            status = store.status()
            if not status["recovered"] or status["lost_count"]:
                raise RuntimeError(f"recovery: {status}")
            ours.append(status["recovered_bytes"] / float(status["recovery_seconds"]) / 1e6)
            base.append(sum(sequential_read(path, status["recovered_bytes"] // nr, group)
                            for path in paths[:nr]))
        store.stop()
        destroy(store.store, "--force")
        result("backups", f"{nr} backup{'s' if nr > 1 else ''}, 1 KB objects", ours, base,
               "sum of sequential reads", "MB/s",
               f"live bytes recovered in lsmemd's recovery time, a store of {STORE_MIB} MiB, 80 % "
               f"live, two replicas where there are two backups; drives held to {DRIVE_MBS} MB/s "
               "each (io.max); fio reads each of them alone, 1 MiB, depth 8, direct", TARGET)
