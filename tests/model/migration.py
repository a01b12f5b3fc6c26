#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The protocol of Documentation/migration.rst as a model with explicit states. TAP on standard output.

One store with one object moves between two or three hosts. A run explores every order of all steps within its
bounds: of writes, of migrations, of faults. Migration.wrongs() has what must hold in each state, RULES the rules
that the protocol needs for it. The test explores all of RUNS with all rules; then it switches off one rule after
the other, and must find the failure that RULES names. The shortest trace of each is a comment of the TAP.

    migration.py                                  everything, as in make check
    migration.py --without CONSENT                one rule off
    migration.py --run volatile --faults 4        one run, with other bounds

Left out, on purpose: several backups and torn writes (Documentation/durability.rst and tests/unit have them; here
the backups are one that keeps the newest version); a second object (each has its own word, and nothing in the
protocol connects two); time (a host gives up its lease before etcd drops it: rule LEASE). A daemon that is stopped
or cut off from etcd is one that takes no step; when its lease is over it ends, as if it were killed. An answer of
etcd that is lost is one that is read later, or never.

A state is (etcd, hosts, connections, backups, issued, acked, left, lost, late):

  etcd         (owner or -1, term, host that took this term, revision of the owner's key)
  hosts        of each (up, owner, image, job, flight)
      up       a daemon runs
      owner    it has not heard that it is not the owner
      image    the store in the kernel: None, or (mode, term, version, where, peer)
               mode R: served, if its daemon is the owner; F: frozen for @peer; N: it is being made, for words of @peer;
               I: made, words are coming from @peer; P: complete, to be served with @term.  where M: in memory, C: cold, @peer has the bytes, or the
               backups (-1)
      job      what the daemon is about: (READY, source, term, revision), (TAKE, term), (ABORT,), (CLAIM, term),
               (PULL, version wanted, version that has come)
      flight   a write on its way to the backups: None, or (term, version)
  connections  of each (source, target, keys, dirty, ahead, close)
      keys     the target can read the source's memory
      dirty    a word has changed since it was sent
      ahead    messages to the target
      close    CLOSE is on its way to the source
  backups      (version, fence, term of the newest digest); None: the store is volatile
  issued       the newest version that a client has written
  acked        the newest version that must not be lost
  left         (faults, migrations) that may still happen
  lost         the store is volatile, and the crash of a host has lost objects: they are errors, by name
  late         the transaction of a daemon that was killed: None, or (host, what it compares etcd with, whether
               the host has crashed since)
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "qemu"))

from explore import STUCK, Found, Label, Step, explore  # noqa: E402
from testbed.tap import Tap  # noqa: E402

State = tuple[Any, ...]
Etcd = tuple[int, int, int, int]
Image = Optional[tuple[str, int, int, str, int]]
Connection = tuple[int, int, bool, bool, tuple[Any, ...], bool]
NAMES = "ABC"

TWO = "two hosts serve the store"
OLDER = "an older version is served"
LOST = "an acknowledged version is lost"
KEY = "a key is valid for memory that is not frozen for its holder"
STRANGER = "a host that is not the owner gets keys"
LATE = "a write of a former owner lands"
CANNOT = "clients are stopped for a target that cannot make the store"


class Bounds(NamedTuple):
    """What a run explores: writes after the first, migrations that begin, and faults, at most."""

    durable: bool
    hosts: int
    writes: int
    migrations: int
    faults: int


# Two hosts: there and back. Three: a second migration at the same time, or to another host.
RUNS = {
    "durable": Bounds(True, 2, 2, 2, 2),
    "volatile": Bounds(False, 2, 2, 2, 3),
    "durable-three": Bounds(True, 3, 1, 2, 1),
    "volatile-three": Bounds(False, 3, 1, 2, 2),
    "volatile-short": Bounds(False, 2, 1, 1, 1),
}

# Rule: the run that shows what it is for, and the failure without it
RULES = {
    "MADE_FIRST": ("volatile-short", CANNOT),
    "FREEZE": ("volatile", TWO),
    "DRAIN": ("durable", LOST),
    "DELTA": ("volatile", OLDER),
    "CONSENT": ("volatile", TWO),
    "TAKE_FIRST": ("volatile", TWO),
    "ABORT_IN_ETCD": ("volatile", TWO),
    "ABORT": ("volatile-short", STUCK),
    "CURRENT": ("durable", OLDER),
    "NAMED": ("durable", OLDER),
    "DROP_FIRST": ("durable", OLDER),
    "PREPARE": ("volatile", LOST),
    "LEASE": ("durable", TWO),
    "FENCE": ("durable", LATE),
    "KEYS_AT_READY": ("volatile", KEY),
    "KEYS_TO_ONE": ("volatile-three", KEY),
    "KEYS_TO_OWNER": ("volatile", STRANGER),
    "REVOKE_TO_RESUME": ("volatile", KEY),
    "REVOKE_TO_FREE": ("volatile", KEY),
    "FILL_RACE": ("volatile", OLDER),
    "PULL_CHECK": ("volatile", OLDER),
    "KEEP": ("volatile", LOST),
    "CLOSE_COMPLETE": ("volatile", LOST),
    "CLOSE_CHECKED": ("volatile", LOST),
    "CLOSED_FIRST": ("volatile", LOST),
    "OFFER_AGAIN": ("volatile-short", STUCK),
    "ASK": ("volatile-short", STUCK),
}

# All steps: each must have been taken in one of RUNS, so that no part of the model is dead.
STEPS = {
    "writes", "sends to the backups", "write is durable", "write is refused by a fence", "reads a backup",
    "starts a daemon", "lease ends", "claims the store", "recovers, serves", "serves its store again",
    "connects", "makes the store", "sends words", "takes words", "freezes, sends READY", "is ready", "takes the store",
    "serves the store", "has no consent", "has not got the store", "late transaction arrives",
    "takes its consent back", "goes on as the owner", "sees that the store has gone",
    "pulls", "pull is done", "pull has lost a race", "pull has other bytes", "gives keys again",
    "sends CLOSE", "lets go", "asks the owner, lets go", "lets go of what has moved on",
    "DAEMON KILLED", "DAEMON KILLED, TRANSACTION ON ITS WAY", "HOST CRASHES", "LINK CUT",
    "LEASE ENDS BEFORE THE ANSWER", "WRONG BYTES", "CLOSE BEFORE ITS TIME", "THE STORE CANNOT BE MADE",
}


def put(of: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    """A copy of @of with another value in one place."""
    return (*of[:at], value, *of[at + 1:])


def without(connections: tuple[Connection, ...], host: int, target_too: bool = True) -> tuple[Connection, ...]:
    """@connections without those whose source, or also target, is @host: its keys are void, messages are gone."""
    return tuple(c for c in connections if c[0] != host and not (target_too and c[1] == host))


class Migration:
    """The model, without the rules in @off. @only: look for this failure alone."""

    def __init__(self, bounds: Bounds, off: frozenset[str] = frozenset(), only: Optional[str] = None) -> None:
        self.bounds = bounds
        self.off = off
        self.only = only
        first = (True, True, ("R", 1, 1, "M", -1), None, None)
        others = [(True, False, None, None, None)] * (bounds.hosts - 1)
        self.initial = ((0, 1, 0, 1), (first, *others), (), (1, 1, 1) if bounds.durable else None, 1, 1,
                        (bounds.faults, bounds.migrations), False, None)

    # ---- What must hold ----------------------------------------------------

    @staticmethod
    def current(etcd: Etcd, host: int, image: Image) -> bool:
        """Is @image the store's newest state? Its host took the term of the image, or the one after, and the last.

        Two terms that follow each other and are both of this host: no other host was the owner in between.
        """
        return bool(image) and image[0] in "RFP" and etcd[2] == host and etcd[1] - image[1] in (0, 1)

    def newest(self, state: State) -> int:
        """The version that the owner, or the next one, can get at; 0: none."""
        etcd, hosts, _, backups = state[:4]
        for host, (_, _, image, _, _) in enumerate(hosts):
            if not self.current(etcd, host, image):
                continue
            if image[3] == "M":
                return image[2]
            if backups:
                return min(image[2], backups[0])
            kept = hosts[image[4]][2]
            return image[2] if kept and kept[0] == "F" and kept[2:4] == (image[2], "M") else 0
        return backups[0] if backups else 0

    def loses(self, before: State, after: State) -> bool:
        """The crash of a host takes the newest version along, of a volatile store. Nothing else may."""
        return not before[3] and self.newest(after) < before[5] <= self.newest(before)

    def wrongs(self, state: State) -> Iterator[str]:
        """All that @state breaks."""
        _, hosts, connections, _, _, acked, _, lost, _ = state
        serving = [image for up, owner, image, _, _ in hosts if up and owner and image and image[0] == "R"]
        if len(serving) > 1:
            yield TWO
        if any(image[2] < acked for image in serving):
            yield OLDER
        for source, target, keys, _, _, _ in connections:
            image = hosts[source][2]
            if keys and not (image and image[0] == "F" and image[4] == target):
                yield KEY
        if not lost and self.newest(state) < acked:
            yield LOST

    def broken(self, state: State) -> Optional[str]:
        """What @state breaks, of what the run looks for."""
        for wrong in self.wrongs(state):
            if self.only in (None, wrong):
                return wrong
        return None

    def settled(self, state: State) -> bool:
        """The store is served, its object can be read, and no memory is kept in vain; or objects are lost."""
        etcd, hosts, connections, backups, _, _, _, lost, _ = state
        if lost:
            return True
        for host, (up, owner, image, _, _) in enumerate(hosts):
            if not (up and owner and image and image[0] == "R"):
                continue
            kept = [at for at, other in enumerate(hosts)
                    if other[2] and other[2][0] == "F" and not self.current(etcd, at, other[2])]
            return all(at == image[4] for at in kept) and (
                image[3] == "M" or bool(backups) or
                any(c[:3] == (image[4], host, True) for c in connections))
        return False

    # ---- Steps -------------------------------------------------------------

    def steps(self, state: State) -> Iterator[Step]:
        """All steps from @state."""
        for host, (up, _, _, _, flight) in enumerate(state[1]):
            if flight:
                yield self.land(state, host)
            yield from self.ownership(state, host)
            if up:
                yield from self.owner(state, host)
                yield from self.source(state, host)
                yield from self.target(state, host)
        for connection in state[2]:
            yield from self.messages(state, connection)
        if state[8]:
            host, compared, crashed = state[8]
            after = put(state, 8, None)
            if state[0] == compared:
                after = put(after, 0, (host, compared[1] + 1, host, compared[3] + 1))
                after = put(after, 7, state[7] or crashed and self.loses(state, after))
            yield ("late transaction arrives", host), after, False
        faults, migrations = state[6]
        if faults:
            for label, after in self.faults(state):
                yield label, after if isinstance(after, str) else put(after, 6, (faults - 1, migrations)), True

    @staticmethod
    def changed(state: State, host: int, connections: Optional[tuple[Connection, ...]] = None,
                etcd: Optional[Etcd] = None, **fields: Any) -> State:
        """@state with other fields of one host, other connections, another etcd."""
        old_etcd, hosts, old_connections, *rest = state
        up, owner, image, job, flight = hosts[host]
        new = (fields.get("up", up), fields.get("owner", owner), fields.get("image", image),
               fields.get("job", job), fields.get("flight", flight))
        return (etcd or old_etcd, put(hosts, host, new),
                old_connections if connections is None else tuple(sorted(connections)), *rest)

    # ---- An owner ----------------------------------------------------------

    def owner(self, state: State, host: int) -> Iterator[Step]:
        """What an owner does all the time: writes."""
        _, hosts, connections, backups, issued, acked = state[:6]
        _, owner, image, _, flight = hosts[host]
        if not owner or not image or image[0] != "R":
            return
        if issued <= self.bounds.writes:
            version = issued + 1
            dirty = tuple(put(c, 3, True) if c[0] == host else c for c in connections)
            after = self.changed(state, host, dirty, image=("R", image[1], version, "M", image[4]),
                                 flight=flight or (image[1], version) if backups else None)
            yield ("writes", host, (version,)), \
                put(put(after, 4, version), 5, acked if backups else version), False
        if backups and not flight and backups[0] < image[2]:
            yield ("sends to the backups", host), self.changed(state, host, flight=(image[1], image[2])), False

    def land(self, state: State, host: int) -> Step:
        """The write in flight reaches the backups, and is acknowledged if the daemon that sent it is there."""
        backups, acked = state[3], state[5]
        up, _, image, _, (term, version) = state[1][host]
        after = self.changed(state, host, flight=None)
        if term < backups[1]:
            return ("write is refused by a fence", host), after, False
        if term < backups[2]:
            return ("write lands", host), LATE, False
        after = put(after, 3, (max(backups[0], version), *backups[1:]))
        if up and image and image[0] in "RF" and image[1] == term:
            after = put(after, 5, max(acked, version))
        return ("write is durable", host, (version,)), after, False

    def ownership(self, state: State, host: int) -> Iterator[Step]:
        """How a host becomes the owner without a migration, and how that ends."""
        etcd, hosts = state[:2]
        up, owner, image, job, _ = hosts[host]
        if not up:
            yield ("starts a daemon", host), self.changed(state, host, up=True), False
        if etcd[0] == host and (not owner and not job or "LEASE" in self.off):
            yield ("lease ends", host), put(state, 0, (-1, etcd[1], etcd[2], etcd[3] + 1)), False
        if not up:
            return
        if not owner and not job and etcd[0] in (-1, host) and (state[3] or self.seems_current(etcd, host, image)):
            yield ("claims the store", host), self.claim(state, host), False
        if job and job[0] == "CLAIM":
            if etcd[:3] != (host, job[1], host):
                yield ("has not got the store", host), self.changed(state, host, job=None), False
            elif self.seems_current(etcd, host, image):
                yield ("serves its store again", host), self.serve(state, host, job[1], image), False
            else:
                yield ("recovers, serves", host), self.serve(state, host, job[1], None), False

    def seems_current(self, etcd: Etcd, host: int, image: Image) -> bool:
        """What the daemon knows of current()."""
        if "CURRENT" in self.off:
            return bool(image) and image[0] in "RFP"
        return self.current(put(etcd, 2, host) if "NAMED" in self.off else etcd, host, image)

    def claim(self, state: State, host: int) -> State:
        """The transaction of a start. Before it, a current image gets the term that etcd has, another one goes."""
        etcd, hosts, connections = state[:3]
        image = hosts[host][2]
        if "DROP_FIRST" not in self.off:
            image = put(image, 1, etcd[1]) if self.seems_current(etcd, host, image) else None
        if "REVOKE_TO_RESUME" not in self.off:
            connections = without(connections, host)
        return self.changed(state, host, connections, (host, etcd[1] + 1, host, etcd[3] + 1), image=image,
                            job=("CLAIM", etcd[1] + 1))

    def serve(self, state: State, host: int, term: int, image: Image) -> State:
        """The owner fences, writes the digest of its term, serves. @image: None: recover from the backups."""
        backups, acked = state[3], state[5]
        if backups:
            image = image or ("R", term, backups[0], "M", -1)
            state = put(state, 3, (backups[0], backups[1] if "FENCE" in self.off else term, term))
            if image[3] == "C":	# what came from another host counts as durable: the next sync says so
                state = put(state, 5, max(acked, image[2]))
        return self.changed(state, host, owner=True, job=None,
                            image=("R", term, *image[2:4], -1 if image[0] == "F" else image[4]))

    # ---- The source --------------------------------------------------------

    def source(self, state: State, host: int) -> Iterator[Step]:
        """What a host does that gives the store away."""
        etcd, hosts, connections, backups = state[:4]
        _, owner, image, job, flight = hosts[host]
        if not image or image[0] not in "RF":
            return
        gone = self.changed(state, host, owner=False, job=None)
        if owner and not job and image[0] == "R":
            yield from self.connect(state, host)
            drained = not backups or not flight and backups[0] >= image[2] or "DRAIN" in self.off
            if drained and (image[4] < 0 or "CLOSED_FIRST" in self.off):
                yield from self.freeze(state, host)
        elif owner and not job:
            if "KEYS_TO_ONE" in self.off:
                yield from self.freeze(state, host)
            if etcd[2] != host:
                yield ("sees that the store has gone", host), gone, False
            elif "ABORT" not in self.off:
                yield self.abort(state, host)
        if job and job[0] == "ABORT":
            if etcd[:2] == (host, image[1]):
                yield ("goes on as the owner", host), \
                    self.changed(state, host, job=None, image=("R", *image[1:4], -1)), False
            else:
                yield ("sees that the store has gone", host), gone, False
        if image[0] == "F" and not self.current(etcd, host, image):
            if etcd[2] not in (host, image[4]) or "KEEP" in self.off:
                yield ("lets go of what has moved on", host), \
                    self.changed(state, host, without(connections, host, False), image=None), False
            yield from self.offer_again(state, host)
        elif image[0] == "F" and "KEYS_TO_OWNER" in self.off:
            yield from self.offer_again(state, host)

    def connect(self, state: State, host: int) -> Iterator[Step]:
        """A target connects. What it has of the store is of an earlier time, and goes; keys to it go first."""
        _, hosts, connections = state[:3]
        faults, migrations = state[6]
        for target, (up, owner, image, job, _) in enumerate(hosts):
            if target == host or not migrations or not up or owner or job or \
                    any(c[:2] == (host, target) for c in connections) or \
                    image and image[0] == "F" and "CLOSED_FIRST" not in self.off:
                continue
            new = (host, target, "KEYS_AT_READY" in self.off, True, (), False)
            after = self.changed(state, target, (*without(connections, target), new), image=("N", 0, 0, "C", host))
            yield ("connects", target, host), put(after, 6, (faults, migrations - 1)), False

    def freeze(self, state: State, host: int) -> Iterator[Step]:
        """Writers stop; READY has what the target does not have, the term and the revision. Other targets go."""
        etcd, hosts, connections = state[:3]
        image = hosts[host][2]
        for c in connections:
            _, target, keys, dirty, ahead, close = c
            if c[0] != host or len(ahead) > 1 or keys and "KEYS_AT_READY" not in self.off:
                continue
            if hosts[target][2][0] == "N" and "MADE_FIRST" not in self.off:
                continue	# it does not say MOVE
            delta = image[2] if dirty and "DELTA" not in self.off else 0
            ready = (host, target, True, False, (*ahead, ("READY", image[1], etcd[3], delta)), close)
            others = [other for other in connections
                      if other is not c and (other[0] != host or "KEYS_TO_ONE" in self.off)]
            frozen = ("F", *image[1:4], target) if image[0] == "R" and "FREEZE" not in self.off else image
            yield ("freezes, sends READY", host, target), \
                self.changed(state, host, (*others, ready), image=frozen), False

    def abort(self, state: State, host: int) -> Step:
        """Take the consent back: first keys, then in etcd, then writers go on."""
        etcd, hosts, connections = state[:3]
        if "REVOKE_TO_RESUME" not in self.off:
            connections = without(connections, host, False)
        if "ABORT_IN_ETCD" in self.off:
            return ("goes on as the owner", host), \
                self.changed(state, host, connections, image=("R", *hosts[host][2][1:4], -1)), False
        return ("takes its consent back", host), \
            self.changed(state, host, connections, put(etcd, 3, etcd[3] + 1), job=("ABORT",)), False

    def offer_again(self, state: State, host: int) -> Iterator[Step]:
        """The connection is gone: the owner, and it alone, gets keys again, or says that it needs nothing more."""
        etcd, hosts, connections = state[:3]
        for target, (up, owner, image, _, _) in enumerate(hosts):
            if target == host or not up or any(c[:2] == (host, target) for c in connections):
                continue
            if etcd[2] != target:
                if "KEYS_TO_OWNER" in self.off:
                    yield ("gives keys again", host, target), STRANGER, False
                continue
            if not owner or not image or image[0] != "R":
                continue
            if image[3:] == ("C", host):
                if "OFFER_AGAIN" not in self.off:
                    yield ("gives keys again", host, target), \
                        self.changed(state, host, (*connections, (host, target, True, False, (), False))), False
            elif "ASK" not in self.off:
                yield ("asks the owner, lets go", host), \
                    self.changed(state, host, without(connections, host, False), image=None), False

    # ---- The connection ----------------------------------------------------

    def messages(self, state: State, c: Connection) -> Iterator[Step]:
        """Words are sent ahead; messages arrive."""
        source, target, keys, dirty, ahead, close = c
        others = tuple(other for other in state[2] if other is not c)
        image = state[1][source][2]
        if dirty and not ahead and image and image[0] == "R":
            sent = (source, target, keys, False, (("WORDS", image[2]),), close)
            yield ("sends words", source, target), self.changed(state, source, (*others, sent)), False
        if ahead and state[1][target][2][0] != "N":
            yield self.arrive(state, c, others)
        if close:	# the source asks etcd whether that is the owner
            if state[0][2] == target and "REVOKE_TO_FREE" in self.off:
                others = (*others, put(c, 5, False))
            yield ("lets go", source), \
                self.changed(state, source, others, image=None if state[0][2] == target else image), False

    def arrive(self, state: State, c: Connection, others: tuple[Connection, ...]) -> Step:
        """WORDS or READY arrives."""
        source, target, keys, dirty, (message, *more), close = c
        version = state[1][target][2][2]
        connections = (*others, (source, target, keys, dirty, tuple(more), close))
        if message[0] == "WORDS":
            return ("takes words", target), \
                self.changed(state, target, connections, image=("I", 0, message[1], "C", source)), False
        _, term, revision, delta = message
        image = ("P", term + 1, delta or version, "C", source)
        if "TAKE_FIRST" in self.off:
            return ("serves the store", target), \
                self.changed(state, target, connections, owner=True, image=("R", *image[1:])), False
        return ("is ready", target), \
            self.changed(state, target, connections, image=image, job=("READY", source, term, revision)), False

    # ---- The target --------------------------------------------------------

    def target(self, state: State, host: int) -> Iterator[Step]:
        """What a host does that gets the store."""
        etcd, hosts, connections, backups = state[:4]
        _, owner, image, job, _ = hosts[host]
        if image and image[0] == "N" and any(c[:2] == (image[4], host) for c in connections):
            yield ("makes the store", host), self.changed(state, host, image=("I", *image[1:])), False
        if job and job[0] == "READY":
            yield self.take(state, host)
        if job and job[0] == "TAKE":
            if etcd[:3] == (host, job[1], host):
                yield ("serves the store", host), self.serve(state, host, job[1], image), False
            else:
                kept = image if self.current(etcd, host, image) else None
                yield ("has not got the store", host), self.changed(state, host, job=None, image=kept), False
        if not owner or not image or image[0] != "R" or image[4] < 0:
            return
        source = image[4]
        mine = next((c for c in connections if c[:2] == (source, host)), None)
        if not job and image[3] == "C":
            kept = hosts[source][2]
            if backups and backups[0] >= image[2]:
                yield ("reads a backup", host), \
                    self.changed(state, host, image=(*image[:3], "M", source)), False
            if mine and mine[2] and kept and kept[3] == "M":
                yield ("pulls", host), self.changed(state, host, job=("PULL", image[2], kept[2])), False
        if job and job[0] == "PULL":
            yield self.fill(state, host)
        if mine and not mine[5] and (image[3] == "M" or backups or "CLOSE_COMPLETE" in self.off):
            closing = tuple(put(c, 5, True) if c is mine else c for c in connections)
            yield ("sends CLOSE", host, source), \
                self.changed(state, host, closing, image=put(image, 4, -1 if image[3] == "M" or backups else source)), \
                False

    def take(self, state: State, host: int) -> Step:
        """The transaction: owner, term and revision must be what READY has named."""
        etcd, hosts, connections = state[:3]
        _, _, image, (_, source, term, revision), _ = hosts[host]
        if "CONSENT" in self.off:
            same, term = etcd[0] == source, etcd[1]
        else:
            same = etcd == (source, term, source, revision)
        if not same:
            return ("has no consent", host), \
                self.changed(state, host, without(connections, host), job=None, image=None), False
        return ("takes the store", host), \
            self.changed(state, host, etcd=(host, term + 1, host, etcd[3] + 1), job=("TAKE", term + 1),
                         image=put(image, 1, term + 1)), False

    def fill(self, state: State, host: int) -> Step:
        """Bytes have come: they count if they are what was asked for, and the word is still the same."""
        image, (_, wanted, got) = state[1][host][2], state[1][host][3]
        after = self.changed(state, host, job=None)
        if image[2:4] != (wanted, "C") and "FILL_RACE" not in self.off:
            return ("pull has lost a race", host), after, False
        if got != wanted and "PULL_CHECK" not in self.off:
            return ("pull has other bytes", host), after, False
        return ("pull is done", host, (got,)), \
            self.changed(after, host, image=(*image[:2], got, "M", image[4])), False

    # ---- Faults ------------------------------------------------------------

    def faults(self, state: State) -> Iterator[tuple[Label, Any]]:
        """What the environment does, and a target that says CLOSE before it owns the store.

        A string in the place of the state says what the step itself breaks.
        """
        etcd, hosts, connections = state[:3]
        for host, (up, owner, image, job, _) in enumerate(hosts):
            down = without(connections, host)
            if up:
                yield from self.kills(state, host)
            if up or image:
                after = self.changed(state, host, down, up=False, owner=False, job=None, image=None)
                after = put(after, 7, state[7] or self.loses(state, after))
                if state[8] and state[8][0] == host:
                    after = put(after, 8, put(state[8], 2, True))
                yield ("HOST CRASHES", host), after
            if up and image and image[0] == "N":	# it gives up
                kept = hosts[image[4]][2]
                yield ("THE STORE CANNOT BE MADE", host), \
                    CANNOT if kept and kept[0] == "F" and kept[4] == host and etcd[2] == image[4] else \
                    self.changed(state, host, without(connections, host), image=None)
            if job and not owner and etcd[0] == host:
                yield ("LEASE ENDS BEFORE THE ANSWER", host), put(state, 0, (-1, *etcd[1:3], etcd[3] + 1))
            if job and job[0] == "PULL" and job[2] == job[1]:
                yield ("WRONG BYTES", host), self.changed(state, host, job=("PULL", job[1], job[1] - 1))
        for c in connections:
            others = tuple(other for other in connections if other is not c)
            yield ("LINK CUT", *c[:2]), put(state, 2, others)
            if c[2] and etcd[2] == c[0]:
                kept = None if "CLOSE_CHECKED" in self.off else hosts[c[0]][2]
                yield ("CLOSE BEFORE ITS TIME", c[1], c[0]), self.changed(state, c[0], others, image=kept)

    def kills(self, state: State, host: int) -> Iterator[tuple[Label, State]]:
        """The daemon ends, its connections too; the kernel keeps the store. A transaction may be on its way."""
        etcd, hosts, connections = state[:3]
        _, owner, image, job, _ = hosts[host]
        kept = None if image and image[0] in ("NIP" if "PREPARE" in self.off else "NI") else image
        killed = self.changed(state, host, without(connections, host), up=False, owner=False, job=None, image=kept)
        yield ("DAEMON KILLED", host), killed
        if state[8]:
            return
        label = ("DAEMON KILLED, TRANSACTION ON ITS WAY", host)
        if job and job[0] == "READY":
            yield label, put(killed, 8, (host, (job[1], job[2], job[1], job[3]), False))
        if not owner and not job and etcd[0] in (-1, host) and (state[3] or self.seems_current(etcd, host, image)):
            claimed = self.claim(state, host)
            yield label, put(self.changed(claimed, host, etcd=etcd, up=False, job=None), 8, (host, etcd, False))


def shown(label: Label) -> str:
    """A step, for people: hosts are numbers, a version is a tuple of one."""
    what, *who = label
    hosts = " -> ".join(NAMES[host] for host in who if isinstance(host, int))
    return f"{hosts}: {what}" + "".join(f", v{version[0]}" for version in who if isinstance(version, tuple))


def run(tap: Tap, name: str, model: Migration) -> Found:
    """Explores, and says what was found."""
    since = time.monotonic()
    found = explore(model)
    tap.say(f"{name}: {found.states} states, {time.monotonic() - since:.1f} s")
    for number, label in enumerate(found.trace, 1):
        tap.say(f"  {number:2} {shown(label)}")
    return found


def main() -> int:
    """Exit code 0: the rules together suffice, and each is needed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--run", choices=RUNS)
    parser.add_argument("--without", choices=RULES, metavar="RULE")
    for bound in ("writes", "migrations", "faults"):
        parser.add_argument(f"--{bound}", type=int)
    given = parser.parse_args()
    bounds = {name: value for name in ("writes", "migrations", "faults")
              if (value := getattr(given, name)) is not None}
    all_runs = not given.run and not given.without
    tap = Tap()
    labels = set()
    for name in [given.run] if given.run else RUNS if all_runs else []:
        found = run(tap, name, Migration(RUNS[name]._replace(**bounds)))
        tap.same(f"{name}: nothing is broken", found.wrong, None)
        labels |= found.labels
    if all_runs:
        tap.same("each step is taken", sorted(labels), sorted(STEPS))
    for rule in [given.without] if given.without else RULES if all_runs else []:
        name, wanted = RULES[rule]
        found = run(tap, f"{name} without {rule}",
                    Migration(RUNS[name]._replace(**bounds), frozenset([rule]), wanted))
        tap.same(f"without {rule}: {wanted}", found.wrong, wanted)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
