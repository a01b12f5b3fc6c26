# SPDX-License-Identifier: GPL-2.0
"""A durable store in a cluster: its backups on several hosts, its load, and what must be in it.

The load is tests/power/acked, which keeps a journal outside its guest. The store moves from host to
host; what a host did while it had the store is one part of the journal, and a verification, on
whichever host, is given all parts since the last one and the state that that one left.
"""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any, Callable, Optional, Sequence

from . import process
from .agent import Running
from .backup import DAEMON, Backup, give_key
from .cluster import Cluster, Host
from .errors import TestbedError
from .guest import HOST_DIR

CTL = "tools/lsmemctl/lsmemctl"
ACKED = "tests/power/build/acked"
MODULE = "modprobe libcrc32c; [ -d /sys/module/lsmem ] || insmod $LSMEM_MODULE"
# How long writers wait: while a backup boots, longer than they do by default. Those of a block
# store cannot be killed meanwhile.
LIMITS = "for limit in durable_ms flush_ms stall_ms; do echo {ms:.0f} > " \
         "/sys/class/lsmem/{store}/limits/$limit; done"
PATIENCE_SECONDS = 600.0
OBJECTS = 61440		# in a store that is full
BLOCKS = 8192
STORE_SECONDS = 90.0
VERIFY_SECONDS = 180.0
GONE_SECONDS = 40.0	# a peer, noticed: 8 s by the documents; and a busy machine
WHOLE_SECONDS = 180.0	# backups that come back, and all that is copied to them
TIMEOUT_SECONDS = 20	# of a backup that does not answer
REJOIN_SECONDS = 2
# A record of tests/power/oracle.h, and in it what acknowledges: DURABLE, SYNCED.
RECORD_BYTES = 40
RECORD_WHAT = 9
ACKNOWLEDGES = (3, 5)


def acknowledgements(journal: bytes) -> int:
    """How many records of a journal say that something is durable."""
    whole = len(journal) // RECORD_BYTES * RECORD_BYTES
    return sum(what in ACKNOWLEDGES for what in journal[RECORD_WHAT:whole:RECORD_BYTES])


@dataclass
class Figures:
    """Sums over all that was verified."""

    acked_writes: int = 0
    checked: int = 0
    lost: int = 0
    corrupt: int = 0
    recovery_seconds: list[float] = field(default_factory=list)


@dataclass
class Tenure:
    """A host has the store: its daemon, its load, its part of the journal."""

    host: Host
    daemon: Running
    journal: Path
    taken: int	# of the journal: what comes before is another tenure's, or verified
    load: Optional[Running] = None

    def unverified(self) -> bytes:
        """What the journal has got since then."""
        with open(self.journal, "rb") as file:
            file.seek(self.taken)
            return file.read()


@dataclass
class Store:
    """One store, on whichever host has it."""

    cluster: Cluster
    backups: Sequence[Backup]
    seed: int
    number: int = 0		# one after the other in a cluster
    kind: str = "object"
    live: int = 500		# per mille, of objects
    replicas: int = 2		# of several backups, as is the next
    min_replicas: int = 1
    figures: Figures = field(default_factory=Figures)
    tenure: Optional[Tenure] = None
    _parts: int = 0
    _loads: int = 0

    def __str__(self) -> str:
        several = (f", {len(self.backups)} backups, replicas = {self.replicas}, "
                   f"min_replicas = {self.min_replicas}") if len(self.backups) > 1 else ""
        return f"a store of kind = {self.kind}{several}"

    @property
    def name(self) -> str:
        """Of the device."""
        return "lsmem" if self.kind == "object" else "lsmemb0"

    @property
    def now(self) -> Tenure:
        """Who has it."""
        assert self.tenure is not None, "open() comes first"
        return self.tenure

    # ---- Backups -------------------------------------------------------------

    def enough_without(self, host: Host) -> bool:
        """Can the store be recovered without @host? By durability.rst, most backups are needed."""
        left = sum(backup.host is not host for backup in self.backups)
        return left > len(self.backups) // 2

    def status(self) -> Optional[dict[str, Any]]:
        """What its daemon says of itself; None: it does not, just now."""
        code, said = self.now.host.agent.ask(f"{CTL} backups {self.name} > /dev/null && "
                                             f"cat /run/lsmem/{self.name}.json")
        return None if code else dict(json.loads(said))

    def wait_state(self, backup: Backup, *states: str) -> None:
        """Waits until a backup is in one of these states."""
        self._wait_status(f"to have {backup.name} {states[0]}", GONE_SECONDS, lambda status: all(
            of["state"] in states for of in status["backups"] if of["name"] == backup.name))

    def wait_whole(self) -> None:
        """Waits until all backups are used, and each segment is on as many as it should be."""
        self._wait_status("to have all backups whole", WHOLE_SECONDS, lambda status: all(
            of["state"] == "used" for of in status["backups"]) and not status["segments_short"])

    def _wait_status(self, what: str, seconds: float,
                     right: Callable[[dict[str, Any]], bool]) -> None:
        def reached() -> bool:
            status = self.status()
            return status is not None and right(status)

        self.now.daemon.wait_until(what, reached, seconds, interval=0.5)

    # ---- The store -----------------------------------------------------------

    def daemon(self, host: Host, *options: str, lock_wait: int = 60) -> Running:
        """Starts a daemon for the store on any host; the first formats the backups."""
        host.agent.run(MODULE)
        give_key(host)
        (host.guest.host_dir / "store.conf").write_text(self._configuration(lock_wait))
        command = [DAEMON, "-v", "-c", f"{HOST_DIR}/store.conf", "--state-directory",
                   f"{HOST_DIR}/record-{self.number}-{self.seed}"]
        if self.tenure is None:
            host.agent.run(" ".join([*command, "--init"]), STORE_SECONDS)
        return host.agent.start("lsmemd", " ".join([*command, *options]))

    def open(self, host: Host, *options: str) -> dict[str, Any]:
        """The store is served by @host from now on; returns the daemon's status.

        If another host had it, all that that one has acknowledged until now must be there. What it
        still says, is in its tenure's unverified().
        """
        daemon = self.daemon(host, *options)
        daemon.wait_said(": serving, backup", STORE_SECONDS)
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

    def sync(self, host: Host, seconds: float) -> tuple[int, str]:
        """Asks a host to make all that it has durable: exit code and words; its writers wait less."""
        return host.agent.ask(f"{self._limits(seconds)}; {CTL} sync {self.name}")

    def hurry(self) -> None:
        """What its writers begin from now on gives up before _end_load() does."""
        self.now.host.agent.run(self._limits(GONE_SECONDS / 4))

    def forget(self) -> None:
        """The memory of the host that has the store is lost: load, daemon and store go."""
        self._end_load(self.now)
        self.now.daemon.kill(SIGKILL)
        self.drop(self.now)

    def drop(self, tenure: Tenure) -> None:
        """A host whose daemon has gone throws away what it holds of the store."""
        self._end_load(tenure)
        tenure.daemon.wait(GONE_SECONDS)
        tenure.host.agent.run(f"udevadm settle --timeout=30; {CTL} destroy --force {self.name}")

    def end(self) -> None:
        """Ends it in order, and its backups; they are blank then."""
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

    def _limits(self, seconds: float) -> str:
        return LIMITS.format(store=self.name, ms=seconds * 1000)

    def _configuration(self, lock_wait: int) -> str:
        several = len(self.backups) > 1
        text = f"[store]\nkind = {self.kind}\nsize = 128M\n"
        if several:
            text += (f"replicas = {self.replicas}\nmin_replicas = {self.min_replicas}\n"
                     f"copy_rate = 1G\nrejoin = {REJOIN_SECONDS}\n")
        for backup in self.backups:
            text += (f"[backup{f' {backup.name}' if several else ''}]\n{backup.configuration()}"
                     f"timeout = {TIMEOUT_SECONDS}\nlock_wait = {lock_wait}\n")
        return text

    # ---- Load and verification ---------------------------------------------

    def load(self, seconds: float = STORE_SECONDS, patience: float = PATIENCE_SECONDS) -> None:
        """Loads the store, from what the last verification found; returns when it is in earnest.

        @patience: how long writers wait to hear that something is durable.
        """
        host = self.now.host
        self._loads += 1
        host.agent.run(self._limits(patience))
        ready = host.guest.host_dir / f"ready-{self.number}-{self._loads}"
        load = host.agent.start("load", f"env LSMEM_SEED={self.seed + self._loads} {ACKED} load "
                                        f"--ready {HOST_DIR}/{ready.name} {self._places()}")
        self.now.load = load
        process.wait_until(f"the load on {host.name}; see {load.shared}/{load.name}.log",
                           lambda: ready.exists() or load.exit_code() is not None, seconds)
        if not ready.exists():
            raise TestbedError(f"the load on {host.name} ended with {load.exit_code()}: "
                               f"{load.log()}")

    def wait_acknowledged(self, more: int, seconds: float = STORE_SECONDS,
                          meanwhile: Callable[[], bool] = lambda: False) -> None:
        """Waits for so many acknowledgements from now on, or for @meanwhile."""
        tenure = self.now
        wanted = acknowledgements(tenure.unverified()) + more
        process.wait_until(f"{more} acknowledgements on {tenure.host.name}",
                           lambda: acknowledgements(tenure.unverified()) >= wanted or meanwhile(),
                           seconds, interval=0.1)

    def verify(self) -> list[str]:
        """Compares the store with all that was acknowledged; returns what is wrong."""
        host = self.now.host
        self._end_load(self.now)
        self.take(self.now)
        shared = host.guest.host_dir
        shutil.copytree(self._journals, shared / "journals", dirs_exist_ok=True)
        if self._state.exists():
            shutil.copyfile(self._state, shared / self._state.name)
        _, said = host.agent.ask(f"{ACKED} verify --journals {HOST_DIR}/journals --report "
                                 f"{HOST_DIR}/verify.json {self._places()}", VERIFY_SECONDS)
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
        # From here on the state says what the journals up to now have said.
        shutil.copyfile(shared / self._state.name, self._state)
        for directory in (self._journals, shared / "journals"):
            shutil.rmtree(directory)
        return []

    def take(self, tenure: Tenure) -> None:
        """A part of the journal is for the next verification."""
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
            where = f"--objects /dev/lsmem --object-slots {OBJECTS} --live {self.live}"
        else:
            where = f"--blocks /dev/lsmemb0 --block-slots {BLOCKS}"
        return f"{where} --state {HOST_DIR}/{self._state.name}"

    @property
    def _journals(self) -> Path:
        return self.cluster.directory / "journals"

    @property
    def _state(self) -> Path:
        return self.cluster.directory / f"state-{self.number}"
