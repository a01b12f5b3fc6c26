# SPDX-License-Identifier: GPL-2.0
"""A durable store in a cluster: its backups on several hosts, its load and its verification.

The load is tests/power/acked, which writes a journal outside of its guest. The store can move from
host to host. The journal of each host that had the store is one part of the whole journal. A
verification, on any host, gets all parts since the last verification, and the state at its end.
"""

import json
import shutil
import struct
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGHUP, SIGKILL, SIGTERM
from typing import Any, Callable, Optional, Sequence

from . import process
from .agent import Running
from .backup import DAEMON, Backup, give_key
from .cluster import Cluster, Host
from .errors import TestbedError
from .etcd import Etcd
from .guest import HOST_DIR

CTL = "tools/lsmemctl/lsmemctl"
ACKED = "tests/power/build/acked"
MODULE = "modprobe libcrc32c; [ -d /sys/module/lsmem ] || insmod $LSMEM_MODULE"
# Sets the time limits of writers and readers. While a backup boots, they must be longer than the
# defaults. Writers of a block store cannot be killed while they wait.
LIMITS = "for limit in durable_ms flush_ms stall_ms fetch_ms; do echo {ms:.0f} > " \
         "/sys/class/lsmem/{store}/limits/$limit; done"
PATIENCE_SECONDS = 600.0
OBJECTS = 61440		# in a store that is full
BLOCKS = 8192
# Of a tiered store, for each MiB of its capacity: larger objects, since each takes a fetch
TIER_LENGTHS = (32, 16384)
TIER_OBJECTS = 120
TIER_BLOCKS = 160
TIER_PATIENCE = 3
STORE_SECONDS = 90.0
SERVES = ": serving, backup"	# what a daemon says
VERIFY_SECONDS = 180.0
GONE_SECONDS = 40.0	# to notice the loss of a peer: 8 s by the documents, more on a busy machine
WHOLE_SECONDS = 400.0	# until backups have rejoined and all copies to them are complete
TIMEOUT_SECONDS = 20	# of a backup that does not answer
MOVE_KEY = "/run/lsmem-move.key"
STANDBY = "standby = yes\nfailover = 2\n"
MOVE_PORT = 7481
REJOIN_SECONDS = 2
CONVERT_RATE = "8M"	# so that what happens meanwhile takes part of a conversion
# struct record of tests/power/oracle.h: magic, check, kind, what, op, thread, length, slot, sequence,
# handle, group; what acknowledges: DURABLE and SYNCED
RECORD = struct.Struct("=IIBBBBIQQQQ")
RECORD_MAGIC = 0x4c4e524a
ACKNOWLEDGES = (3, 5)
CHECK = 4		# an operation that changes nothing; a fenced host may do it, as it may read


def acknowledgements(journal: bytes) -> int:
    """The number of records in a journal that acknowledge a change as durable. @journal: whole records."""
    found = 0
    for magic, _, _, what, op, *_ in RECORD.iter_unpack(journal):
        if magic != RECORD_MAGIC:
            raise TestbedError("a journal does not have the records of tests/power/oracle.h")
        found += what in ACKNOWLEDGES and op != CHECK
    return found


@dataclass
class Figures:
    """Sums over all verifications."""

    acked_writes: int = 0
    checked: int = 0
    lost: int = 0
    corrupt: int = 0
    fetched_bytes: int = 0	# of tiered stores, by their daemons until the verifications
    recovery_seconds: list[float] = field(default_factory=list)


@dataclass
class Tenure:
    """The time in which a host has the store: its daemon, its load, its part of the journal."""

    host: Host
    daemon: Running
    journal: Path
    taken: int	# bytes of the journal that belong to an earlier tenure or are verified
    load: Optional[Running] = None

    def unverified(self) -> bytes:
        """The whole records of the journal after @taken."""
        with open(self.journal, "rb") as file:
            file.seek(self.taken)
            data = file.read()
        return data[:len(data) // RECORD.size * RECORD.size]


@dataclass
class Store:
    """A store in a cluster."""

    cluster: Cluster
    backups: Sequence[Backup]
    seed: int
    number: int = 0		# of the store, among those that the cluster has one after the other
    kind: str = "object"
    live: int = 500		# per mille of OBJECTS that are live
    replicas: int = 2		# this and the next are used with several backups only
    min_replicas: int = 1
    code: str = ""		# K+M: coded, with K+M backups; min_replicas is K + min_parity
    other: Optional[str] = None	# what @code was, of a store that is converted; "": replicas
    capacity: Optional[int] = None	# MiB; None: not tiered
    etcd: Optional[Etcd] = None		# says which host has the store, which hosts then move to themselves ..
    bring_rate: str = ""		# .. with so much of the source's memory a second; "": as fast as it goes ..
    stands: bool = False		# .. or do not: it is stopped on one host, and loaded on another
    figures: Figures = field(default_factory=Figures)
    tenure: Optional[Tenure] = None
    _parts: int = 0
    _loads: int = 0

    def __str__(self) -> str:
        several = (f", {len(self.backups)} backups, {', '.join(self._redundancy())}"
                   if len(self.backups) > 1 else "")
        tiered = f", {self.capacity} MiB in 128 MiB of memory" if self.capacity else ""
        return f"a store of kind = {self.kind}{several}{tiered}"

    @property
    def name(self) -> str:
        """The name of its device."""
        return "lsmem" if self.kind == "object" else "lsmemb0"

    @property
    def now(self) -> Tenure:
        """The present tenure."""
        assert self.tenure is not None, "open() comes first"
        return self.tenure

    # ---- Backups -------------------------------------------------------------

    def enough_without(self, host: Host) -> bool:
        """Whether the store can be recovered without @host: durability.rst needs most backups."""
        left = sum(backup.host is not host for backup in self.backups)
        return left > len(self.backups) // 2

    def status(self) -> Optional[dict[str, Any]]:
        """The status file of its daemon; None: the daemon does not answer."""
        code, said = self.now.host.agent.ask(f"{CTL} backups {self.name} > /dev/null && "
                                             f"cat /run/lsmem/{self.name}.json")
        return None if code else dict(json.loads(said))

    def wait_state(self, backup: Backup, *states: str) -> None:
        """Waits until @backup is in one of @states."""
        self._wait_status(f"to have {backup.name} {states[0]}", GONE_SECONDS, lambda status: all(
            of["state"] in states for of in status["backups"] if of["name"] == backup.name))

    def wait_whole(self) -> None:
        """Waits until all backups are used, and no segment has too few replicas."""
        self._wait_status("to have all backups whole", WHOLE_SECONDS, lambda status: all(
            of["state"] == "used" for of in status["backups"]) and not status["segments_short"])

    def convert(self) -> None:
        """The next recovery gives the store the other kind of segments: a code, or replicas."""
        self.code, self.other = self.other or "", self.code

    def wait_converted(self) -> None:
        """Waits until all segments are of the kind that new ones have."""
        self._wait_status("to have converted its segments", WHOLE_SECONDS, lambda status: not status["segments_unlike"])

    def _wait_status(self, what: str, seconds: float,
                     right: Callable[[dict[str, Any]], bool]) -> None:
        def reached() -> bool:
            status = self.status()
            return status is not None and right(status)

        self.now.daemon.wait_until(what, reached, seconds, interval=0.5)

    # ---- The store -----------------------------------------------------------

    def daemon(self, host: Host, *options: str, lock_wait: int = 60, standby: bool = False) -> Running:
        """Starts a daemon for the store on @host; before the first one, formats the backups.

        @standby: it stands by for the other host, until it is wanted, or no daemon owns the store.
        """
        host.agent.run(MODULE)
        give_key(host)
        if self.etcd is not None:
            host.agent.run(f"(umask 077; printf 'another secret of the tests' > {MOVE_KEY})")
        self._configure(host, lock_wait, STANDBY if standby else "")
        command = [DAEMON, "-v", "-c", f"{HOST_DIR}/store.conf", "--state-directory",
                   f"{HOST_DIR}/record-{self.number}-{self.seed}"]
        if self.tenure is None:
            host.agent.run(" ".join([*command, "--init"]), STORE_SECONDS)
        return host.agent.start("lsmemd", " ".join([*command, *options]))

    def open(self, host: Host, *options: str) -> dict[str, Any]:
        """Starts a daemon on @host, which serves the store; returns the status of the daemon.

        If another host had the store, the store must have everything that this host has
        acknowledged until now. Its later records are in unverified() of its tenure.
        """
        return self.adopt(host, self.daemon(host, *options))

    def adopt(self, host: Host, daemon: Running) -> dict[str, Any]:
        """Waits until @daemon on @host serves the store, as open()."""
        daemon.wait_said(SERVES, STORE_SECONDS)
        host.agent.run("udevadm settle --timeout=30")
        journal = host.guest.journal
        if self.tenure is None or self.tenure.journal != journal:
            if self.tenure is not None:
                self.take(self.tenure)
            self.tenure = Tenure(host, daemon, journal, journal.stat().st_size)
        self.tenure.daemon = daemon
        status = dict(json.loads(host.agent.run(f"cat /run/lsmem/{self.name}.json")))
        if status["recovered"]:
            self.figures.recovery_seconds.append(status["recovery_seconds"])
        return status

    def migrate(self, host: Host) -> str:
        """Runs lsmemctl migrate on @host, where the store is served or stood by for; returns its output."""
        return host.agent.run(f"{CTL} migrate moving-{self.number}", STORE_SECONDS)

    def stands_no_more(self, lock_wait: int = 60) -> None:
        """The daemon that serves the store will end when another host has it, and not stand by."""
        self._configure(self.now.host, lock_wait)
        self.now.daemon.kill(SIGHUP)
        self.now.daemon.wait_said("settings that keep their old value: 0", STORE_SECONDS)

    def sync(self, host: Host, seconds: float) -> tuple[int, str]:
        """Runs lsmemctl sync on @host with time limits of @seconds; its exit code and output."""
        return host.agent.ask(f"{self._limits(seconds)}; {CTL} sync {self.name}")

    def hurry(self, seconds: float = GONE_SECONDS / 4) -> None:
        """Shortens the time limits of new operations; by default they end before _end_load() gives up."""
        self.now.host.agent.run(self._limits(seconds))

    def forget(self) -> None:
        """Kills load and daemon, and destroys the store in memory: a host that loses its memory."""
        self._end_load(self.now)
        self.now.daemon.kill(SIGKILL)
        self.drop(self.now)

    def drop(self, tenure: Tenure) -> None:
        """Destroys the store in the memory of a host whose daemon ends."""
        self._end_load(tenure)
        tenure.daemon.wait(GONE_SECONDS)
        tenure.host.agent.run(f"udevadm settle --timeout=30; {CTL} destroy --force {self.name}")

    def wait_gone(self, tenure: Tenure) -> None:
        """Waits until a host from which the store was moved has nothing of it. Its daemon must have found that."""
        status = tenure.daemon.wait(GONE_SECONDS)
        if status:
            raise TestbedError(f"the daemon of {tenure.host.name}, whose store was moved, ends with {status}")
        self._end_load(tenure)
        process.wait_until(f"{tenure.host.name} to let the store go", lambda: not tenure.host.agent.ask(
            f"{CTL} destroy --force {self.name}; [ ! -e /sys/class/lsmem/{self.name} ]")[0], GONE_SECONDS, interval=1.0)

    def end(self) -> None:
        """Ends daemon, store and backups in order; the backups are blank then."""
        self._end_load(self.now)
        self.now.daemon.kill(SIGTERM)
        status = self.now.daemon.wait(STORE_SECONDS)
        if status:
            raise TestbedError(f"the daemon, told to end, ends with {status}")
        self.now.host.agent.run(f"udevadm settle --timeout=30; {CTL} destroy {self.name}")
        for backup in self.backups:
            if not backup.local:
                backup.stop()
            backup.wipe()
        if self.etcd is not None:
            self.etcd.stop()

    @property
    def _patience(self) -> int:
        """A tiered store has more data, and fetches each object."""
        return TIER_PATIENCE if self.capacity else 1

    def _limits(self, seconds: float) -> str:
        return LIMITS.format(store=self.name, ms=seconds * 1000)

    def _redundancy(self) -> list[str]:
        """What its configuration says of several backups."""
        rate = [] if self.other is None else [f"convert_rate = {CONVERT_RATE}"]
        if self.code:
            data = int(self.code.partition("+")[0])
            return [f"code = {self.code}", f"min_parity = {self.min_replicas - data}", *rate]
        return [f"replicas = {self.replicas}", f"min_replicas = {self.min_replicas}", *rate]

    def _moves(self, host: Host) -> str:
        """Sections with which the other hosts and @host have the store by turns."""
        assert self.etcd is not None
        if self.stands:
            return self.etcd.configuration(host)
        # The one that may have it: of those without a backup there are two.
        holders = [backup.host for backup in self.backups]
        other, = (one for one in self.cluster.hosts.values() if one is not host and one not in holders)
        return (f"{self.etcd.configuration(host)}[move]\nlisten = rdma://{host.address}:{MOVE_PORT}\n"
                f"from = rdma://{other.address}:{MOVE_PORT}\nsecret = {MOVE_KEY}\n"
                + (f"bring_rate = {self.bring_rate}\n" if self.bring_rate else ""))

    def _configure(self, host: Host, lock_wait: int, more: str = "") -> None:
        """@more: of the last section."""
        (host.guest.host_dir / "store.conf").write_text(self._configuration(host, lock_wait) + more)

    def _configuration(self, host: Host, lock_wait: int) -> str:
        several = len(self.backups) > 1
        text = f"[store]\nkind = {self.kind}\nsize = 128M\n"
        if self.etcd is not None:
            text += f"name = moving-{self.number}\nrestart = {'load' if self.stands else 'instant'}\n"
        if self.capacity:
            text += f"capacity = {self.capacity}M\n"
            if self.kind == "block":
                text += "warm = no\n"	# the load writes few blocks: all would be in memory
        if several:
            text += "\n".join([*self._redundancy(), "copy_rate = 1G", f"rejoin = {REJOIN_SECONDS}", ""])
        for backup in self.backups:
            text += (f"[backup{f' {backup.name}' if several else ''}]\n{backup.configuration()}"
                     f"timeout = {TIMEOUT_SECONDS}\nlock_wait = {lock_wait}\n")
        return text if self.etcd is None else text + self._moves(host)

    # ---- Load and verification ---------------------------------------------

    def load(self, seconds: float = STORE_SECONDS, patience: float = PATIENCE_SECONDS) -> None:
        """Starts the load, with the state of the last verification; returns when it has begun.

        @seconds: limit for the start. @patience: time limits of the writers, in seconds.
        """
        host = self.now.host
        self._loads += 1
        host.agent.run(self._limits(patience))
        ready = host.guest.host_dir / f"ready-{self.number}-{self._loads}"
        load = host.agent.start("load", f"env LSMEM_SEED={self.seed + self._loads} {ACKED} load "
                                        f"--ready {HOST_DIR}/{ready.name} {self._places()}")
        self.now.load = load
        process.wait_until(f"the load on {host.name}; see {load.shared}/{load.name}.log",
                           lambda: ready.exists() or load.exit_code() is not None,
                           seconds * self._patience)
        if not ready.exists():
            raise TestbedError(f"the load on {host.name} ended with {load.exit_code()}: "
                               f"{load.log()}")

    def wait_acknowledged(self, more: int, seconds: float = STORE_SECONDS,
                          meanwhile: Callable[[], bool] = lambda: False) -> None:
        """Waits for @more acknowledgements from now on, or until meanwhile() is true."""
        tenure = self.now
        wanted = acknowledgements(tenure.unverified()) + more
        process.wait_until(f"{more} acknowledgements on {tenure.host.name}",
                           lambda: acknowledgements(tenure.unverified()) >= wanted or meanwhile(),
                           seconds, interval=0.1)

    def verify(self) -> list[str]:
        """Ends the load, compares the store with the journal; returns what is wrong."""
        host = self.now.host
        self._end_load(self.now)
        self.take(self.now)
        shared = host.guest.host_dir
        shutil.copytree(self._journals, shared / "journals", dirs_exist_ok=True)
        if self._state.exists():
            shutil.copyfile(self._state, shared / self._state.name)
        # A store that was recovered has the default limits again.
        _, said = host.agent.ask(f"{self._limits(PATIENCE_SECONDS)}; {ACKED} verify --threads 16 "
                                 f"--journals {HOST_DIR}/journals --report "
                                 f"{HOST_DIR}/verify.json {self._places()}",
                                 VERIFY_SECONDS * self._patience)
        report = shared / "verify.json"
        if not report.exists():
            return [f"the verification failed: {said}"]
        found = json.loads(report.read_text())
        report.unlink()
        self.figures.acked_writes += found["acked_writes"]
        self.figures.checked += found["checked"]
        self.figures.lost += found["lost"]
        self.figures.corrupt += found["corrupt"]
        if found["lost"] or found["corrupt"]:
            return said.splitlines()
        if self.capacity:
            status = self.status()
            fetched = status["fetched_bytes"] if status else 0
            if not fetched:
                return ["nothing was fetched from the backups"]
            self.figures.fetched_bytes += fetched
        # The new state includes all these journals.
        shutil.copyfile(shared / self._state.name, self._state)
        for directory in (self._journals, shared / "journals"):
            shutil.rmtree(directory)
        return []

    def take(self, tenure: Tenure) -> None:
        """Saves the new part of a tenure's journal for the next verification."""
        part = tenure.unverified()
        tenure.taken += len(part)
        self._journals.mkdir(exist_ok=True)
        (self._journals / f"{self._parts:04}").write_bytes(part)
        self._parts += 1

    def _end_load(self, tenure: Tenure) -> None:
        if tenure.load is not None and tenure.host.alive():
            tenure.load.kill(SIGKILL)
            tenure.load.wait(GONE_SECONDS)
        tenure.load = None

    def _places(self) -> str:
        if self.kind == "object":
            slots = TIER_OBJECTS * self.capacity if self.capacity else OBJECTS
            where = f"--objects /dev/lsmem --object-slots {slots} --live {self.live}"
            if self.capacity:
                where += " --lengths {}-{}".format(*TIER_LENGTHS)
        else:
            slots = TIER_BLOCKS * self.capacity if self.capacity else BLOCKS
            where = f"--blocks /dev/lsmemb0 --block-slots {slots}"
        return f"{where} --state {HOST_DIR}/{self._state.name}"

    @property
    def _journals(self) -> Path:
        return self.cluster.directory / "journals"

    @property
    def _state(self) -> Path:
        return self.cluster.directory / f"state-{self.number}"
