# SPDX-License-Identifier: GPL-2.0
"""Troubles of a store on several hosts, and checks after them, for tests/cluster/rounds."""

import random
import re
import time
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from typing import Callable, Optional

from testbed import paths, process
from testbed.agent import Running
from testbed.backup import FAILING, Backup
from testbed.cluster import Host
from testbed.errors import TestbedError
from testbed.replicated import (GONE_SECONDS, PATIENCE_SECONDS, SERVES, STORE_SECONDS, Store, Tenure,
                                acknowledgements)

# Numbers of acknowledgements before the trouble, and while a backup is away.
LOAD = (20, 200)
AWAY = (1, 50)
# After this time the writers of a fenced host fail, and can be ended.
FENCED_SECONDS = 20.0
# The time of a recovery, roughly.
RECOVERY_SECONDS = 8.0
# The time of a conversion, roughly.
CONVERT_SECONDS = 10.0
# The time of a move, until its target serves.
MOVE_SECONDS = 4.0
# A host is cut off for so long, and a target is started so often before it has to serve.
CUT_OFF_SECONDS = (0.5, 3.0, 20.0)
MOVE_STARTS = 6
# Clients of a source are not stopped for longer: see ../../Documentation/migration.rst.
STOPPED_SECONDS = 120.0
# MiB of drives that are too small, or hold only some segments.
SMALL = (4, 64)
# The version of the protocol.
WIRE = int(re.findall(r"^#define WIRE_VERSION_MAX\s+(\d+)u", (paths.REPO / "daemon" / "remote" / "wire.h").read_text(), re.M)[0])
# Exit codes of lsmemd(8).
LOST, BUSY, REFUSED, BACKUP = 3, 4, 5, 6


def require(right: bool, what: str) -> None:
    """Ends the round with an error if a condition is false."""
    if not right:
        raise TestbedError(what)


class Rounds:
    """The rounds of one store: troubles, and checks that the store survives them."""

    def __init__(self, store: Store, spare: Optional[Host], rng: random.Random) -> None:
        """@spare: a host that can take the store over."""
        self.store = store
        self.spare = spare
        self.cluster = store.cluster
        self.rng = rng

    def run(self, name: str) -> str:
        """Runs one round. Returns what happened; raises TestbedError if the round fails."""
        store = self.store
        fenced = name in ("hang", "partition") and store.enough_without(store.now.host)
        store.load(patience=FENCED_SECONDS if fenced else PATIENCE_SECONDS)
        store.wait_acknowledged(self.rng.randrange(*LOAD))
        told = TROUBLES[name](self)
        if store.now.load is not None:
            store.wait_acknowledged(self.rng.randrange(*LOAD))
            store.forget()
            self.recover()
        store.wait_whole()
        return f"{told}; served by {store.now.host.name}"

    def recover(self) -> None:
        """Recovers the store from its backups, on its host or the spare one, and checks it."""
        if self.spare is not None and self.rng.random() < 0.5:
            self.move()
        else:
            self.store.open(self.store.now.host)
        self.verify()

    def verify(self) -> None:
        """Checks that all that was acknowledged is there."""
        wrong = self.store.verify()
        require(not wrong, "\n".join(wrong))

    def move(self, *options: str) -> Tenure:
        """Moves the store to the spare host. Returns the tenure of the old one."""
        assert self.spare is not None
        old = self.store.now
        self.store.open(self.spare, *options)
        self.spare = old.host
        return old

    def cut_power(self, host: Host) -> None:
        """Cuts the power of a host; its drive loses any of the writes that were not flushed."""
        problems = host.power_cut().problems
        require(not problems, "\n".join(problems))

    def bring_back(self, *hosts: Host) -> None:
        """Boots hosts again, and serves their backups."""
        for host in hosts:
            host.drives[0].seed = self.rng.getrandbits(32)
        self.cluster.boot(hosts)
        for backup in self.store.backups:
            if backup.host in hosts:
                backup.serve()

    # ---- Troubles of the store -----------------------------------------------

    def primary_power(self) -> str:
        """The host that has the store loses its power: another one takes over, or waits first."""
        lost = self.store.now.host
        self.cut_power(lost)
        at_once = self.spare is not None and self.rng.random() < 0.5
        away = self.spare is not None and self.store.enough_without(lost)
        if not away:
            self.bring_back(lost)
        if self.spare is None:
            self.store.open(lost)
        else:
            self.move(*["--take-over"] if at_once else [])
        self.verify()
        if away:
            self.bring_back(lost)
        return f"{lost.name} lost its power, taken over{' at once' if at_once else ''}"

    def recovery_power(self) -> str:
        """The host that has the store loses its power, and then the host that recovers it."""
        lost = self.store.now.host
        heir = self.spare or lost
        self.cut_power(lost)
        if heir is lost or not self.store.enough_without(lost):
            self.bring_back(lost)
        options = [] if self.spare is None else ["--take-over"]
        self.store.daemon(heir, *options).wait_said(": recovering", STORE_SECONDS)
        seconds = self.rng.uniform(0.0, RECOVERY_SECONDS)
        time.sleep(seconds)
        self.cut_power(heir)
        self.bring_back(*(host for host in self.cluster.hosts.values() if not host.alive()))
        self.recover()
        return (f"{lost.name} lost its power, {heir.name} too when it had recovered for "
                f"{seconds:.1f} s")

    def daemon_killed(self) -> str:
        """The store's daemon is killed; the store stays up in the kernel."""
        self.store.now.daemon.kill(SIGKILL)
        self.store.now.daemon.wait(GONE_SECONDS)
        self.store.open(self.store.now.host)
        return "the daemon was killed"

    def rolling(self) -> str:
        """An upgrade: each daemon is stopped and started again, one after the other."""
        for wire_max in (WIRE - 1, None):
            for backup in self.store.backups:
                if backup.local:
                    continue
                backup.stop()
                self.do_without(backup)
                backup.wire_max = wire_max
                self.have_again(backup)
                self.store.wait_whole()
                assert backup.server is not None
                require(f"version {wire_max or WIRE} of the protocol" in backup.server.log(),
                        f"{backup.name} does not use version {wire_max or WIRE}")
        self.store.now.daemon.kill(SIGTERM)
        status = self.store.now.daemon.wait(STORE_SECONDS)
        require(status == 0, f"after SIGTERM the daemon ends with {status}")
        self.store.open(self.store.now.host)
        return "every daemon was restarted, servers first with an older version of the protocol"

    def convert(self) -> str:
        """A coded store gets replicas, or the other way round; its host loses its power meanwhile, as in primary_power."""
        self.store.forget()
        self.store.convert()
        self.store.open(self.store.now.host)
        self.verify()
        self.store.load()
        seconds = self.rng.uniform(0.0, CONVERT_SECONDS)
        time.sleep(seconds)
        status = self.store.status()
        require(status is not None, "the daemon does not tell its status")
        assert status is not None
        told = self.primary_power()
        self.store.wait_converted()
        return (f"converted to {self.store.code or 'replicas'}; {told}, after {seconds:.1f} s, with {status['segments_unlike']} "
                "segments to convert")

    # ---- Troubles of a backup ------------------------------------------------

    def backup_power(self) -> str:
        """A backup's host loses its power."""
        victim = self.victim(lambda backup: backup.host is not self.store.now.host)
        self.cut_power(victim.host)
        self.do_without(victim)
        self.bring_back(victim.host)
        self.resume()
        return f"{victim.name}, a backup, lost its power"

    def server_killed(self) -> str:
        """A backup's server is killed."""
        victim = self.victim()
        victim.stop(SIGKILL)
        self.do_without(victim)
        self.have_again(victim)
        return f"the server of {victim.name} was killed"

    def drive(self) -> str:
        """Each write to a backup's drive fails; then the drive is repaired."""
        victim = self.victim(lambda _: True)
        victim.turn(FAILING)
        if self.single():
            self.daemon_ends()
        else:
            self.do_without(victim)
        victim.turn()
        self.resume()
        return f"the drive of {victim.name} failed"

    def slow(self) -> str:
        """A backup's drive does not answer: the backup is lost, and writers wait no longer."""
        victim = self.victim(lambda _: True)
        victim.freeze()
        self.do_without(victim)
        victim.thaw()
        self.resume()
        return f"the drive of {victim.name} did not answer"

    def corrupt(self) -> str:
        """Each segment on a backup is damaged: other replicas are used, the damage is reported."""
        victim = self.victim()
        self.store.wait_whole()
        self.store.forget()
        victim.stop()
        segments = victim.damage(self.rng)
        victim.serve()
        self.recover()
        require(f"{victim.host.address}/data is passed over" in self.store.now.daemon.log(),
                f"no replica of {segments} on {victim.name} is reported as bad")
        # Replicas that recovery has not read are still damaged: replace the backup.
        victim.stop()
        self.store.wait_state(victim, "lost", "missing")
        victim.wipe()
        self.have_again(victim)
        return f"{segments} segments on {victim.name} were damaged"

    def left_behind(self) -> str:
        """A stale backup comes back alone: lsmemd refuses it."""
        victim = self.victim()
        if len(self.store.backups) == self.store.min_replicas:
            self.store.hurry()	# nothing is acknowledged without this backup
        victim.stop(SIGKILL)
        self.do_without(victim)
        self.store.forget()
        others = [backup for backup in self.store.backups if backup is not victim]
        for other in others:
            other.stop()
        victim.serve()
        status = self.store.daemon(self.store.now.host).wait(STORE_SECONDS)
        require(status == LOST, f"with the stale {victim.name} alone, lsmemd ends with {status}")
        for other in others:
            other.serve()
        self.recover()
        require("was left behind" in self.store.now.daemon.log(),
                f"lsmemd does not report that {victim.name} was left behind")
        return f"{victim.name} was lost, came back alone"

    def small(self) -> str:
        """A backup is replaced by one that is too small, or soon full; the others go on."""
        victim = self.victim()
        mib = self.rng.choice(SMALL)
        victim.stop()
        self.do_without(victim)
        victim.turn(mib=mib)
        victim.wipe()
        victim.serve()
        if mib == SMALL[0]:
            self.store.now.daemon.wait_said("too small", STORE_SECONDS)
        else:
            self.store.wait_state(victim, "used")
            self.goes_on()
        victim.stop()
        self.do_without(victim)
        victim.turn()
        victim.wipe()
        self.have_again(victim)
        return f"{victim.name} had {mib} MiB for a while"

    # ---- Troubles between hosts ----------------------------------------------

    def link(self) -> str:
        """A link is down for a moment, or for longer than all timeouts."""
        cut = self.rng.choice((self.victim().host, self.store.now.host))
        seconds = self.rng.choice((0.3, 1.0, 3.0, 20.0)) * self.rng.uniform(0.5, 1.5)
        daemon = self.store.now.daemon
        self.cluster.network.cut(cut.name)
        time.sleep(seconds)
        self.cluster.network.mend(cut.name)
        self.store.wait_acknowledged(1, meanwhile=lambda: daemon.exit_code() is not None)
        ended = daemon.exit_code() is not None
        self.resume()
        return (f"{cut.name} was cut off for {seconds:.1f} s, the daemon "
                f"{'gave up' if ended else 'went on'}")

    def hang(self) -> str:
        """The store's daemon is suspended, another host takes over, the daemon continues."""
        self.store.hurry()	# the old host's writers must not wait for a daemon that has ended
        self.store.now.daemon.kill(SIGSTOP)
        old = self.move("--take-over")
        old.daemon.kill(SIGCONT)
        require(old.daemon.wait(GONE_SECONDS) == BACKUP, "the old daemon does not end with 6")
        require(f"another primary took it over ({self.store.now.host.name}," in old.daemon.log(),
                "the old daemon does not report which host fenced it")
        # The old daemon may now acknowledge writes that all backups had before the fence: these
        # were recovered.
        late = acknowledgements(old.unverified())
        self.store.take(old)
        self.verify()
        self.acknowledges_nothing(old)
        self.store.load()
        return f"{old.host.name} hung, was fenced, acknowledged {late} late"

    def partition(self) -> str:
        """A host is cut off; another takes over; the first comes back and does no harm."""
        if not self.store.enough_without(self.store.now.host):
            return self.half()
        name = self.store.now.host.name
        self.cluster.network.cut(name)
        old = self.move("--take-over")
        new = self.store.now.host
        self.verify()
        self.store.load()
        self.cluster.network.mend(name)
        again = old.daemon
        if self.single():
            # The old daemon waits, and learns that another host holds the backup ..
            again.wait_said("waiting for it", GONE_SECONDS)
        else:
            require(again.wait(GONE_SECONDS) == BACKUP, "the old daemon does not end with 6")
            # Start it again; its store is still active. While another host has the backups ..
            again = self.store.daemon(old.host, lock_wait=1)
            require(again.wait(GONE_SECONDS) == BUSY, "the old daemon gets a backup that is held")
            require(f"still held by {new.name}" in again.log(), "it does not report the holder")
        # .. and when no host has them.
        self.store.now.daemon.kill(SIGKILL)
        self.store.now.daemon.wait(GONE_SECONDS)
        if not self.single():
            again = self.store.daemon(old.host)
        require(again.wait(STORE_SECONDS) == REFUSED, "the old store resumes on another's backup")
        self.store.open(new)
        self.acknowledges_nothing(old)
        return f"{name} was cut off, came back, was fenced"

    def half(self) -> str:
        """The host that is cut off has half of the backups: the other cannot take over."""
        assert self.spare is not None
        name = self.store.now.host.name
        self.cluster.network.cut(name)
        heir = self.store.daemon(self.spare, "--take-over")
        status = heir.wait(STORE_SECONDS)
        require(status == REFUSED, f"lsmemd ends with {status}, and half of the backups are away")
        self.cluster.network.mend(name)
        return f"{name} was cut off with half of the backups, no host took over"

    # ---- Moves --------------------------------------------------------------

    def moved(self) -> str:
        """The spare host moves the store to itself while it is loaded."""
        self.store.hurry()	# writers that wait when the store goes must not wait for long
        self.spare_serves(self.begin_move())
        require("moved from host" in self.store.now.daemon.log(), "the store was not moved, but recovered")
        return "moved while it was loaded"

    def source_power(self) -> str:
        """The host that has the store loses its power while the spare host moves the store to itself."""
        lost = self.store.now.host
        daemon = self.begin_move()
        seconds = self.wait_in_move()
        self.cut_power(lost)
        daemon = self.serves_at_last(daemon)
        moved = "moved from host" in daemon.log()
        self.spare_serves(daemon)
        self.bring_back(lost)
        return (f"{lost.name} lost its power {seconds:.1f} s after {self.store.now.host.name} had begun to move the store, "
                f"which was {'moved' if moved else 'recovered'}")

    def target_power(self) -> str:
        """The spare host loses its power while it moves the store to itself."""
        old, heir = self.store.now, self.spare
        assert heir is not None
        self.store.hurry(STOPPED_SECONDS)
        self.begin_move()
        seconds = self.wait_in_move()
        self.cut_power(heir)
        # The source serves again; or it is not the owner any more, and keeps the memory until the target is back.
        said = f": host {heir.name} has the store,"
        self.store.wait_acknowledged(1, STOPPED_SECONDS, meanwhile=lambda: said in old.daemon.log())
        self.bring_back(heir)
        taken = said in old.daemon.log()
        if taken:
            self.spare_serves(self.store.daemon(heir))
        return (f"{heir.name} lost its power {seconds:.1f} s after it had begun to move the store, which "
                f"{'it had taken' if taken else f'{old.host.name} kept'}")

    def move_link(self) -> str:
        """The source or the target of a move is cut off for a moment, or for longer than a lease."""
        assert self.spare is not None
        cut = self.rng.choice((self.store.now.host, self.spare))
        away = self.rng.choice(CUT_OFF_SECONDS) * self.rng.uniform(0.5, 1.5)
        self.store.hurry()
        daemon = self.begin_move()
        seconds = self.wait_in_move()
        self.cluster.network.cut(cut.name)
        time.sleep(away)
        self.cluster.network.mend(cut.name)
        # What ends a move, or the target, meanwhile is right; the next start that finds all hosts has the store.
        starts = 1
        while not self.serves_or_ends(daemon):
            require(starts < MOVE_STARTS, f"the target's daemon ends with {daemon.exit_code()}, after {starts} starts")
            daemon = self.begin_move()
            starts += 1
        moved = "moved from host" in daemon.log()
        self.spare_serves(daemon, told=False)
        return (f"{cut.name} was cut off for {away:.1f} s, {seconds:.1f} s after {self.store.now.host.name} had begun to move the "
                f"store, which was {'moved' if moved else 'recovered'} by its start number {starts}")

    def standby(self) -> str:
        """The spare host stands by; an operator of either host wants the move, or the other host loses its power."""
        old, heir = self.store.now.host, self.spare
        assert heir is not None
        self.store.hurry()
        daemon = self.store.daemon(heir, standby=True)
        daemon.wait_said(f"stands by for host {old.address}: ", STORE_SECONDS)
        self.store.wait_acknowledged(self.rng.randrange(*AWAY))
        asked = self.rng.choice((old, heir, None))
        if asked is None:
            self.cut_power(old)
            daemon.wait_said("no daemon has owned the store for ", STORE_SECONDS)
            daemon.wait_said(SERVES, STORE_SECONDS)
        else:
            self.store.migrate(asked)
        self.spare_serves(daemon)
        require(("moved from host" in daemon.log()) == (asked is not None), "the store was not moved, or not recovered")
        self.store.stands_no_more()
        if asked is None:
            self.bring_back(old)
        return (f"{heir.name} stood by, and took it "
                f"{f'as an operator of {asked.name} wanted it' if asked else f'when {old.name} had lost its power'}")

    def begin_move(self) -> Running:
        """Starts the daemon of the spare host, which moves the store to itself."""
        assert self.spare is not None
        return self.store.daemon(self.spare)

    def wait_in_move(self) -> float:
        """Waits for a part of the time of a move; returns the seconds."""
        seconds = self.rng.uniform(0.0, MOVE_SECONDS)
        time.sleep(seconds)
        return seconds

    def serves_at_last(self, daemon: Running) -> Running:
        """The daemon of the spare host serves, or has found the owner alive before that lost its power: then the next one."""
        if self.serves_or_ends(daemon):
            return daemon
        require(daemon.exit_code() == BUSY, f"the target's daemon ends with {daemon.exit_code()}")
        return self.begin_move()

    def serves_or_ends(self, daemon: Running) -> bool:
        """Waits until the daemon of the spare host serves; returns False if it has ended."""
        process.wait_until(f"{daemon.name} to serve, or to end",
                           lambda: SERVES in daemon.log() or daemon.exit_code() is not None, STORE_SECONDS)
        return daemon.exit_code() is None

    def spare_serves(self, daemon: Running, told: bool = True) -> None:
        """Checks that the spare host serves the store, with all of it, and the other one nothing.

        @told: the other one knows that the store was moved; else it may only have found that it is another host's.
        """
        assert self.spare is not None
        old = self.store.now
        self.store.adopt(self.spare, daemon)
        self.spare = old.host
        if old.host.alive() and told:
            self.store.wait_gone(old)
        elif old.host.alive():
            self.store.drop(old)
        self.store.take(old)
        self.verify()
        self.store.load()

    # ---- Common to troubles --------------------------------------------------

    def victim(self, right: Callable[[Backup], bool] = lambda backup: not backup.local) -> Backup:
        """Chooses one of the backups; by default of those with a server."""
        return self.rng.choice([backup for backup in self.store.backups if right(backup)])

    def do_without(self, victim: Backup) -> None:
        """Checks that without a backup the daemon goes on, or waits for it."""
        if self.single():
            self.store.now.daemon.wait_said("waiting for it", GONE_SECONDS)
            return
        self.store.wait_state(victim, "lost", "missing")
        self.goes_on()

    def goes_on(self) -> None:
        """Checks that with one backup less writers go on, if the others are enough."""
        if len(self.store.backups) > self.store.min_replicas:
            self.store.wait_acknowledged(self.rng.randrange(*AWAY))

    def have_again(self, victim: Backup) -> None:
        """Serves a backup again."""
        victim.serve()
        self.resume()

    def resume(self) -> None:
        """All backups are back: starts the daemon again if it has ended without them."""
        if self.store.now.daemon.exit_code() is not None:
            self.daemon_ends()
            self.store.open(self.store.now.host)

    def single(self) -> bool:
        """Does the store have only one backup? Then the daemon waits for a lost connection."""
        return len(self.store.backups) == 1

    def daemon_ends(self) -> None:
        """Checks that the daemon ends, because it has no backup any more."""
        status = self.store.now.daemon.wait(GONE_SECONDS)
        require(status == BACKUP, f"the daemon ends with {status}")

    def acknowledges_nothing(self, old: Tenure) -> None:
        """Checks that the old host has acknowledged nothing since another host has the store."""
        status, said = self.store.sync(old.host, 2.0)
        require(status != 0, f"on the old host a sync succeeds: {said}")
        late = acknowledgements(old.unverified())
        require(late == 0, f"{old.host.name}, fenced, acknowledged {late} times")
        self.store.drop(old)


# Of stores that hosts move to themselves.
MOVES = (Rounds.moved, Rounds.source_power, Rounds.target_power, Rounds.move_link, Rounds.standby)
TROUBLES: dict[str, Callable[[Rounds], str]] = {trouble.__name__: trouble for trouble in (
    Rounds.primary_power, Rounds.recovery_power, Rounds.daemon_killed, Rounds.rolling, Rounds.convert,
    Rounds.backup_power, Rounds.server_killed, Rounds.drive, Rounds.slow, Rounds.corrupt,
    Rounds.left_behind, Rounds.small, Rounds.link, Rounds.hang, Rounds.partition, *MOVES)}
