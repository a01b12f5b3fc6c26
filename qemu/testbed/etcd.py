# SPDX-License-Identifier: GPL-2.0
"""An etcd of one member on a host of a cluster, in its memory: it goes with the host's power."""

from dataclasses import dataclass
from signal import SIGKILL
from typing import Optional

from .agent import Running
from .cluster import Host

PORT, PEER_PORT = 2379, 2380
DIRECTORY = "/run/etcd"
START_SECONDS = 90.0
STOP_SECONDS = 40.0
LEASE_SECONDS = 10	# of the host that has a store


@dataclass
class Etcd:
    """The member, once it is served."""

    host: Host
    member: Optional[Running] = None

    def serve(self) -> None:
        """Starts it; returns when it answers."""
        peer = f"http://127.0.0.1:{PEER_PORT}"
        self.member = self.host.agent.start("etcd", " ".join((
            f"env GOMAXPROCS=1 etcd --data-dir {DIRECTORY}",
            f"--listen-client-urls {self._url} --advertise-client-urls {self._url}",
            f"--listen-peer-urls {peer} --initial-advertise-peer-urls {peer} --initial-cluster default={peer}")))
        self.member.wait_said("ready to serve client requests", START_SECONDS)

    def stop(self) -> None:
        """Ends it."""
        assert self.member is not None, "serve() comes first"
        self.member.kill(SIGKILL)
        self.member.wait(STOP_SECONDS)

    def configuration(self, host: Host) -> str:
        """The section of a daemon's configuration on @host."""
        return f"[cluster]\netcd = {self._url}\nlease = {LEASE_SECONDS}\nhost = {host.name}\n"

    @property
    def _url(self) -> str:
        return f"http://{self.host.address}:{PORT}"
