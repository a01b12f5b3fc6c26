# SPDX-License-Identifier: GPL-2.0
"""Several guests on one network with soft RoCE: hosts that lose power and boot again.

    with Cluster(directory, {"one": [], "two": []}) as cluster:
        cluster.boot(cluster.hosts.values())
        cluster.hosts["one"].agent.run("rping ...")
        cluster.network.cut("one")
        cluster.hosts["two"].power_cut()
        cluster.boot([cluster.hosts["two"]])

Each boot of a host has a directory of its own, <directory>/<name>-<boot>. Guests boot in parallel.
They are small and have one processor, so that a machine with two processors can run several without
KVM.
"""

import shlex
import shutil
from pathlib import Path
from types import TracebackType
from typing import Iterable, Mapping, Optional, Sequence

from . import paths
from .agent import COMMAND, Agent
from .drive import Drive
from .guest import Guest, Result
from .kernel import find
from .network import Switch

MEM = "1G"
READY_SECONDS = 60.0
END_SECONDS = 60.0
NETWORK = shlex.quote(str(paths.REPO / "qemu" / "guest-network"))


class Host:
    """A host of the cluster; it can be booted several times."""

    def __init__(self, cluster: "Cluster", name: str, number: int, drives: Sequence[Drive]) -> None:
        self.name = name
        self.address = f"10.77.0.{number}"
        self.drives = list(drives)
        self.boots = 0
        self._cluster = cluster
        self._agent: Optional[Agent] = None
        self._guest: Optional[Guest] = None

    @property
    def agent(self) -> Agent:
        """The agent that runs commands there; each boot has a new one."""
        assert self._agent is not None, "boot() comes first"
        return self._agent

    @property
    def guest(self) -> Guest:
        """The guest of the present boot."""
        assert self._guest is not None, "boot() comes first"
        return self._guest

    def start(self) -> None:
        """Starts to boot."""
        workdir = self._cluster.directory / f"{self.name}-{self.boots:04}"
        self.boots += 1
        name = f"{self.name}-{self.boots}"
        self._agent = Agent(self.name, self._cluster.scratch / name)
        network = self._cluster.network
        self._guest = Guest(workdir, drives=self.drives, mem=self._cluster.mem, cpus=1,
                            qemu_args=network.qemu_args(self.name) + self._agent.qemu_args())
        self._guest.start(f"{NETWORK} {self.name} {network.mac(self.name)} {self.address}/24 && "
                          f"{COMMAND}")
        self._agent.connect(self._guest.host_dir)

    def wait_ready(self) -> None:
        """Waits until it accepts commands."""
        self.guest.wait_booted()
        self.agent.run("true", READY_SECONDS)

    def power_cut(self) -> Result:
        """Cuts its power."""
        assert self._agent is not None
        result = self.guest.power_cut()
        self._agent.close()
        return result

    def shut_down(self) -> Result:
        """Shuts it down."""
        self.agent.hang_up()
        result = self.guest.wait(END_SECONDS)
        self.agent.close()
        return result

    def alive(self) -> bool:
        """Whether it runs."""
        return self._guest is not None and self._guest.alive()

    def close(self) -> None:
        """Ends the guest, if it runs, and its agent."""
        if self._guest is not None:
            self._guest.close()
        if self._agent is not None:
            self._agent.close()


class Cluster:
    """Hosts by name, and their network."""

    def __init__(self, directory: Path, drives: Mapping[str, Sequence[Drive]],
                 mem: str = MEM) -> None:
        """@drives: drives of each host, by its name; @mem: memory of each host."""
        self.directory = directory
        self.mem = mem
        self.network: Switch
        self.scratch: Path
        self.hosts = {name: Host(self, name, number, drives[name])
                      for number, name in enumerate(drives, start=1)}

    def __enter__(self) -> "Cluster":
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        find()	# fails early if there is no kernel
        self.scratch = paths.scratch()
        self.network = Switch(self.scratch)
        for name, host in self.hosts.items():
            self.network.add(name)
            for drive in host.drives:
                drive.remove()
        self.network.start()
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        for host in self.hosts.values():
            host.close()
        self.network.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def boot(self, hosts: Iterable[Host]) -> None:
        """Boots hosts in parallel."""
        begun = list(hosts)
        for host in begun:
            host.start()
        for host in begun:
            host.wait_ready()

    def shut_down(self) -> list[str]:
        """Shuts all hosts down; returns the bad lines of their kernel logs."""
        return [f"{host.name}: {line}" for host in self.hosts.values() if host.alive()
                for line in host.shut_down().problems]
