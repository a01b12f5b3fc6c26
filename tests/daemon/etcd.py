#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The ownership of stores: daemon/cluster/cluster.c and etcd.c, in cluster.c, with a private etcd.

TAP. $CLUSTER is the program.
"""

import base64
import http.client
import http.server
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from pathlib import Path
from typing import Any, Iterator, Optional


HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "qemu"))

from ports import free_port  # noqa: E402
from testbed.tap import Tap  # noqa: E402

CLUSTER = os.environ.get("CLUSTER", str(HERE / "build/cluster"))
LEASE = 5               # seconds: the least that is allowed
PATIENCE = 60.0
MUTATIONS = 300
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


class Etcd:
    """A member of etcd at free ports; a test can kill it and start it again."""

    def __init__(self, scratch: Path, name: str = "one", tls: Optional[Path] = None) -> None:
        self._name = name
        self._data = scratch / f"etcd-{name}"
        self._tls = tls
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{free_port('127.0.0.1')}"
        self._peer = f"http://127.0.0.1:{free_port('127.0.0.1')}"
        self._members = f"{name}={self._peer}"

    @classmethod
    def of(cls, scratch: Path, *names: str) -> "list[Etcd]":
        """One etcd of several members."""
        etcds = [cls(scratch, name) for name in names]
        members = ",".join(etcd._members for etcd in etcds)
        for etcd in etcds:
            etcd._members = members
            etcd.start()
        until(etcds[0].answers)
        return etcds

    def start(self) -> None:
        argv = ["etcd", "--name", self._name, "--data-dir", self._data,
                "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                "--listen-peer-urls", self._peer, "--initial-advertise-peer-urls", self._peer,
                "--initial-cluster", self._members,
                "--heartbeat-interval", "50", "--election-timeout", "500"]
        if self._tls:
            argv += ["--cert-file", self._tls / "etcd.pem", "--key-file", self._tls / "etcd.key",
                     "--trusted-ca-file", self._tls / "ca.pem", "--client-cert-auth"]
        with open(f"{self._data}.log", "ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log)

    def answers(self) -> bool:
        return self._try("kv/range", key="x") is not None

    def leads(self) -> bool:
        status = self._try("maintenance/status") or {}
        return "leader" in status and status["leader"] == status["header"]["member_id"]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, what: str, **fields: Any) -> dict[str, Any]:
        """The answer to a request; asks again while etcd elects a leader."""
        answers: list[dict[str, Any]] = []
        until(lambda: answers.extend(filter(None, [self._try(what, **fields)])) or answers)
        return answers[0]

    def _try(self, what: str, **fields: Any) -> Optional[dict[str, Any]]:
        """The answer to a request, or None."""
        for name in ("key", "value"):
            if name in fields:
                fields[name] = base64.b64encode(fields[name].encode()).decode()
        request = urllib.request.Request(f"{self.url}/v3/{what}", json.dumps(fields).encode())
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            return None

    def value(self, store: str, key: str) -> Optional[str]:
        answer = self.ask("kv/range", key=f"/lsmem/stores/{store}/{key}")
        return base64.b64decode(answer["kvs"][0]["value"]).decode() if "kvs" in answer else None


class Owner:
    """A process of cluster.c."""

    def __init__(self, scratch: Path, host: str, urls: str, more: str = "",
                 lease: int = LEASE) -> None:
        self._stderr = scratch / f"{uuid.uuid4()}.log"
        conf = self._stderr.with_suffix(".conf")
        conf.write_text(f"[backup]\npath = /dev/null\n[cluster]\netcd = {urls}\nlease = {lease}\n"
                        f"host = {host}\n{more}")
        with open(self._stderr, "wb") as stderr:
            self.process = subprocess.Popen([CLUSTER, conf], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=stderr, text=True)

    def ask(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        return self.process.stdout.readline().rstrip()

    def say(self, line: str) -> str:
        self.ask(line)
        return self.answer()

    def claim(self, store: str, above: int = 0, how: str = "") -> str:
        return self.say(f"claim {store} {above} {how}")

    def holds(self) -> str:
        return self.say("holds")

    def left(self) -> int:
        """Milliseconds for which the process still owns the store; 0: it does not."""
        answer = self.holds().split()
        return int(answer[1]) if answer[0] == "yes" else 0

    def lost(self) -> bool:
        return self.holds().startswith("no")

    def said(self) -> str:
        return self._stderr.read_text(encoding="utf-8")

    def close(self) -> int:
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


def until(true: Any) -> None:
    """Polls until a condition is true."""
    end = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > end:
            raise TimeoutError("it does not come")
        time.sleep(0.02)


def timed(call: Any, *args: Any) -> tuple[Any, float]:
    begun = time.monotonic()
    return call(*args), time.monotonic() - begun


def claims(tap: Tap, scratch: Path, etcd: Etcd) -> None:
    """One owner at a time, and terms that rise."""
    store = str(uuid.uuid4())
    a, b, again, heir = (Owner(scratch, host, etcd.url) for host in "abaa")
    tap.same("a store that etcd does not know", a.claim(store), "claimed 1 0")
    owner = json.loads(etcd.value(store, "owner"))
    tap.same("the records in etcd", [owner, etcd.value(store, "term")],
             [{"host": "a", "boot": BOOT, "pid": a.process.pid, "lease": LEASE, "term": 1}, "1"])
    answer, seconds = timed(b.claim, store)
    tap.same("an owner is alive: refused", answer, "refused EBUSY")
    tap.wrong("an owner is alive: refused before its lease could end",
              [] if seconds < LEASE else [seconds])
    tap.wrong("an owner is alive: the message names it, and tells what to do",
              [] if "host a owns the store, term 1, and is alive: stop lsmemd there"
              in b.said() else [b.said()])
    tap.same("an owner on this host is alive: refused",
             again.claim(store, 0, "alone"), "refused EBUSY")
    tap.wrong("the owner has renewed its lease all the time", [] if not a.lost() else [a.holds()])
    a.process.kill()
    a.process.wait()
    answer, seconds = timed(again.claim, store, 0, "alone")
    tap.same("an owner on this host is dead: claimed", answer, "claimed 2 1")
    tap.wrong("an owner on this host is dead: claimed without a wait",
              [] if seconds < 3 else [seconds])
    again.process.kill()
    again.process.wait()
    tap.same("an owner on this host is dead, its store is served: claimed after its lease",
             heir.claim(store), "claimed 3 1")
    tap.same("ends", heir.close(), 0)
    tap.same("at its end it gives back the store, not the term",
             [etcd.value(store, "owner"), etcd.value(store, "term")], [None, "3"])
    answer, seconds = timed(b.claim, store, 100)
    tap.same("a term above a given one", answer, "claimed 101 1")
    tap.wrong("a term above a given one: without a wait", [] if seconds < 3 else [seconds])
    other = str(uuid.uuid4())
    tap.same("an owner claims another store, with a higher term", b.claim(other), "claimed 102 0")
    tap.same("an owner claims another store: it gives back the first",
             etcd.value(store, "owner"), None)
    etcd.ask("kv/put", key=f"/lsmem/stores/{store}/term", value="many")
    tap.same("an invalid term", b.claim(store), "refused EBADMSG")
    b.close()

    store = str(uuid.uuid4())
    all_at_once = [Owner(scratch, f"h{i}", etcd.url) for i in range(4)]
    for owner in all_at_once:
        owner.ask(f"claim {store} 0")
    answers = sorted(owner.answer() for owner in all_at_once)
    tap.same("four claims at once: one succeeds", answers, ["claimed 1 0"] + 3 * ["refused EBUSY"])
    for owner in all_at_once:
        owner.close()


def members(tap: Tap, scratch: Path, etcd: Etcd) -> None:
    """The record of the backups: only the owner writes it."""
    store = str(uuid.uuid4())
    a, b = (Owner(scratch, host, etcd.url) for host in "ab")

    def put(key: str, value: str) -> None:
        etcd.ask("kv/put", key=f"/lsmem/stores/{store}/{key}", value=value)

    def told() -> dict[str, Any]:
        return json.loads(etcd.value(store, "members"))

    def states() -> list[str]:
        return [backup["state"] for backup in told()["backups"]]

    tap.same("etcd has no backups of a new store", b.say(f"look {store}"), "0 0")
    tap.same("a look does not claim the store", etcd.value(store, "term"), None)
    tap.same("a host without a claim does not write backups", a.say("members used"), "known")
    a.claim(store)
    a.say("members" + 8 * " used")
    until(lambda: a.say("members") == "known")
    tap.same("all backups, and the term", [states(), told()["term"]], [8 * ["used"], 1])
    tap.same("a backup with all its fields", told()["backups"][0], {
        "name": "b0", "path": "rdma://10.0.0.1/x".ljust(383, "p"), "domain": 31 * "d",
        "state": "used", "incarnation": 2 ** 32 - 1, "secret": True})
    a.say("members used lost joining")
    until(lambda: a.say("members") == "known")
    tap.same("lost and joining backups", states(), ["used", "lost", "joining"])
    tap.same("another host reads the backups", b.say(f"look {store}").split()[:2], ["3", "1"])
    tap.same("another host changes nothing when it reads",
             [etcd.value(store, "term"), a.lost()], ["1", False])

    # As after a take-over that the owner does not know: the owner key has another lease.
    owner, before = etcd.value(store, "owner"), etcd.value(store, "members")
    os.kill(a.process.pid, signal.SIGSTOP)
    put("owner", owner)
    a.ask("members used used used")
    os.kill(a.process.pid, signal.SIGCONT)
    a.answer()
    until(a.lost)
    tap.same("a former owner changes nothing",
             [a.say("write"), etcd.value(store, "members")], ["refused", before])
    a.close()

    etcd.ask("kv/deleterange", key=f"/lsmem/stores/{store}/owner")
    tap.same("the next owner", b.claim(store), "claimed 2 1")
    put("term", "7")
    b.say("members used")
    until(lambda: "cannot be written: another host owns the store" in b.said())
    left = b.left()
    until(lambda: b.left() > left)
    tap.same("backups with another term: not changed", etcd.value(store, "members"), before)
    tap.same("backups with another term: the store is served", b.say("members"), "stale")
    tap.same("backups with another term: one message", b.said().count("cannot be written"), 1)
    put("term", "2")
    until(lambda: b.say("members") == "known")
    tap.same("backups are written as soon as possible", states(), ["used"])
    b.close()

    good = told()
    backup = good["backups"][0]
    for what, bad, why in (
            ("no JSON", "{", "no JSON object"),
            ("a list", "[]", "no JSON object"),
            ("no term", good | {"term": "2"}, '"term" is none'),
            ("a term that has not been", good | {"term": 3},
             "term 3, and that of the store is 2"),
            ("no list", good | {"backups": {}}, '"backups" is no list'),
            ("none", good | {"backups": []}, "0 backups, and a store has 1 to 16"),
            ("too many", good | {"backups": 17 * [{}]}, "17 backups, and a store has 1 to 16"),
            ("no backup", good | {"backups": [backup, 7]}, 'backup 2: its "name" is none'),
            ("a long name", good | {"backups": [backup | {"name": 16 * "x"}]},
             'backup 1: its "name" is none'),
            ("a path without a host", good | {"backups": [backup | {"path": "/dev/sda"}]},
             'backup 1: its "path" is none'),
            ("a path for a terminal", good | {"backups": [backup | {"path": "a:/\x1b[2J"}]},
             'backup 1: its "path" is none'),
            ("a path with an end", good | {"backups": [backup | {"path": "a:/\0x"}]},
             'backup 1: its "path" is none'),
            ("a number too large", good | {"backups": [backup | {"incarnation": 2 ** 32}]},
             'backup 1: its "incarnation" is none')):
        text = bad if isinstance(bad, str) else json.dumps(bad)
        put("members", text)
        heir = Owner(scratch, "c", etcd.url)
        tap.same(f"members: {what}", heir.claim(store), "refused EBADMSG")
        tap.wrong(f"members: {what}: named", [] if f"/lsmem/stores/{store}/members: {why}: "
                  in heir.said() else [heir.said()])
        heir.close()
        tap.same(f"members: {what}: not changed",
                 [etcd.value(store, key) for key in ("members", "term", "owner")],
                 [text, "2", None])
    heir = Owner(scratch, "c", etcd.url)
    for what, changes, answer in (
            ("an export and a drive", ({}, {"name": "x", "path": "a:/x", "secret": False}),
             "taken 2 1"),
            ("a name twice", ({}, {}), "etcd:2: [backup b0]: another one is on line 1: each of"),
            ("a path twice", ({}, {"name": "x"}), "etcd:2: path = rdma://10.0.0.1/x: [backup "),
            ("no export", ({"path": "rdma://10.0.0.1"},),
             "etcd:1: path = rdma://10.0.0.1: allowed"),
            ("no proof of a secret", ({"secret": False},),
             "etcd:1: path = rdma://10.0.0.1/x: a backup on another host needs"),
            ("a secret for a drive", ({"path": "a:/x", "domain": ""},), "etcd:1: key: only for")):
        put("members", json.dumps(good | {"backups": [
            backup | {"path": "rdma://10.0.0.1/x"} | change for change in changes]}))
        heir.say(f"look {store}")
        said = heir.say("take /key")
        tap.wrong(f"taken: {what}", [] if said.startswith(answer) else [said])
    tap.wrong("taken: no secret", [] if heir.say("take").startswith(
        "etcd:1: path = a:/x: the host that keeps it asks for proof of a secret") else [heir.say("take")])
    heir.close()

    mutated(tap, Owner(scratch, "c", etcd.url), store, put,
            json.dumps(good | {"backups": 2 * [backup]}))

    put("members", json.dumps(good) + 5120 * " ")
    heir = Owner(scratch, "c", etcd.url)
    heir.ask(f"claim {store} 0")
    until(lambda: f"/lsmem/stores/{store}/members: an invalid answer" in heir.said())
    etcd.ask("kv/deleterange", key=f"/lsmem/stores/{store}/members")
    tap.same("members: too long, and deleted", heir.answer(), "claimed 3 1")
    heir.close()


def mutated(tap: Tap, owner: Owner, store: str, put: Any, text: str) -> None:
    """Values with random changes are refused or valid; the program does not crash."""
    answers = set()
    chance = random.Random(5)
    for _ in range(MUTATIONS):
        bad = text
        for _ in range(chance.randint(1, 3)):
            at, to = sorted(chance.choices(range(len(bad)), k=2))
            bad = chance.choice((
                bad[:at] + chance.choice('{}[]":,\\-019e\x7fü') + bad[at + 1:],
                bad[:at] + bad[min(to, at + 40):], bad[:to] + bad[at:to][:40] + bad[to:]))
        put("members", bad)
        answers.add(owner.say(f"look {store}").split(" ")[0])
    tap.same("members, mutated: refused or valid", answers - {"1"}, {"refused", "2"})
    tap.same("members, mutated: the program lives", owner.close(), 0)


def ends(tap: Tap, scratch: Path, etcd: Etcd) -> None:
    """Owners that die, are cut off from etcd, or are suspended."""
    stores = [str(uuid.uuid4()) for _ in range(4)]
    dead, cut, still, half = (Owner(scratch, "a", etcd.url) for _ in stores)
    heirs = [Owner(scratch, "b", etcd.url) for _ in stores[:3]]
    for owner, store in zip((dead, cut, still, half), stores):
        owner.claim(store)
    begun = time.monotonic()
    dead.process.kill()
    os.kill(still.process.pid, signal.SIGSTOP)
    heirs[0].ask(f"claim {stores[0]} 0")
    heirs[1].ask(f"claim {stores[1]} 0 take-over")
    heirs[2].ask(f"claim {stores[2]} 0")
    # An owner that an operator wrote by hand, without a lease.
    odd = Owner(scratch, "c", etcd.url)
    store = str(uuid.uuid4())
    etcd.ask("kv/put", key=f"/lsmem/stores/{store}/owner", value='{"host":"x\\"y","lease":5}')
    odd.ask(f"claim {store} 0 take-over")
    # As a host that takes over, and dies before it has finished.
    owner = json.loads(etcd.value(stores[3], "owner")) | {"cut": "b"}
    etcd.ask("kv/put", key=f"/lsmem/stores/{stores[3]}/owner", value=json.dumps(owner))
    until(cut.lost)
    tap.wrong("cut off: the owner notices in time",
              [] if time.monotonic() - begun < LEASE else ["late"])
    tap.wrong("cut off: the owner knows the reason",
              [] if cut.holds() in ("no the lease has expired, or was revoked",
                                    "no host b has taken it") else [cut.holds()])
    until(half.lost)
    tap.same("cut off, its lease alive", half.holds(), "no host b has taken it")
    tap.same("a dead owner: the store is free after its lease", heirs[0].answer(),
             "claimed 2 1")
    # The last renewal may be older by a fifth of the lease; etcd may be late.
    after = time.monotonic() - begun
    tap.wrong("a dead owner: the store is not free before",
              [] if LEASE * 0.8 - 0.1 < after < 2 * LEASE else [after])
    tap.same("a suspended owner: the store is free after its lease",
             heirs[2].answer(), "claimed 2 1")
    still.ask("holds")
    os.kill(still.process.pid, signal.SIGCONT)
    tap.wrong("a suspended owner: it notices when it continues",
              [] if still.answer().startswith("no ") else ["it does not"])
    tap.same("taken over from an owner that was alive", heirs[1].answer(), "claimed 2 1")
    after = time.monotonic() - begun
    tap.wrong("taken over from an owner that was alive: not before its lease is over",
              [] if after > LEASE else [after])
    tap.same("taken over from an owner with an odd record", odd.answer(), "claimed 1 0")
    tap.wrong("an owner with an odd record: named as far as possible",
              [] if "host x?y is fenced" in odd.said() else [odd.said()])
    for program in (cut, still, half, odd, *heirs):
        program.close()


class Keeper(http.server.ThreadingHTTPServer):
    """A way to etcd that keeps the first transaction back, until the next one or the next lease is asked for.

    So its answer is lost, and it is done late, before what its client does then. The next lease is not granted,
    unless @grants. If it is @deaf, the first transaction is done at once, and nothing is answered until @silent is false.
    """

    daemon_threads = True

    def __init__(self, etcd: str, grants: bool = False, deaf: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), KeeperConnection)
        self.grants = grants
        self.deaf = deaf
        self.silent = False
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.etcd = etcd
        self.granted: list[float] = []		# when leases were granted
        self.reads = 0				# of several keys at once
        self.kept: Optional[bytes] = None
        self.done = False
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def forward(self, path: str, body: bytes) -> bytes:
        with urllib.request.urlopen(urllib.request.Request(self.etcd + path, body), timeout=5) as answer:
            return answer.read()


class KeeperConnection(http.server.BaseHTTPRequestHandler):
    """A request to Keeper."""

    server: Keeper

    def do_POST(self) -> None:
        keeper, body = self.server, self.rfile.read(int(self.headers["Content-Length"]))
        grant, change = self.path == "/v3/lease/grant", self.path == "/v3/kv/txn" and b"request_put" in body
        if keeper.silent:
            return
        keeper.reads += self.path == "/v3/kv/txn" and not change
        if change and keeper.deaf and not keeper.done:
            keeper.silent = keeper.done = True
            keeper.forward(self.path, body)
            return
        if change and not keeper.kept and not keeper.done:
            keeper.kept = body
            return
        if (grant or change) and keeper.kept and not keeper.done:
            keeper.done = True
            keeper.forward("/v3/kv/txn", keeper.kept)
            if grant and not keeper.grants:
                return
        text = keeper.forward(self.path, body)
        if grant:
            keeper.granted.append(time.monotonic())
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: Any) -> None:
        pass


def consents(tap: Tap, scratch: Path, etcd: Etcd) -> None:
    """A store changes its owner with the consent of the one before, at once."""
    store = str(uuid.uuid4())
    a, b, c = (Owner(scratch, host, etcd.url) for host in "abc")

    def voided(owner: Owner, consent: str) -> bool:
        return owner.say(consent.replace("consent", "void")) == "void"

    tap.same("no owner, no consent", a.say("consent"), "none")
    a.claim(store)
    consent = a.say("consent")
    tap.same("the consent names the term", consent.split()[:2], ["consent", "1"])
    lefts = [a.left()]
    until(lambda: lefts.append(a.left()) or lefts[-1] > lefts[-2])
    tap.same("a renewal leaves a consent as it is", a.say("consent"), consent)
    answer, seconds = timed(b.claim, store, 0, consent)
    tap.same("with consent: claimed from an owner that is alive", answer, "claimed 2 1")
    tap.wrong("with consent: without a wait", [] if seconds < 3 else [seconds])
    until(a.lost)
    tap.same("the former owner knows the new one", a.holds(), "no host b has taken it")
    tap.same("the former owner does not take its consent back", voided(a, consent), False)
    tap.same("a consent is for one time", c.claim(store, 0, consent), "refused ESTALE")
    tap.same("nothing has changed", [b.lost(), etcd.value(store, "term")], [False, "2"])

    consent = b.say("consent")
    until(lambda: voided(b, consent))
    tap.same("taken back: refused", c.claim(store, 0, consent), "refused ESTALE")
    tap.wrong("taken back: still the owner", [] if not b.lost() else [b.holds()])
    tap.same("taken back: the same term and owner",
             [etcd.value(store, "term"), json.loads(etcd.value(store, "owner"))["host"]], ["2", "b"])
    again = b.say("consent")
    tap.wrong("taken back: the next consent is another one",
              [] if again != consent and again.startswith("consent 2 ") else [consent, again])

    a.close()
    a = Owner(scratch, "a", etcd.url)
    for owner in (a, c):
        owner.ask(f"claim {store} 0 {again}")
    answers = {owner.answer(): owner for owner in (a, c)}
    tap.same("two hosts with one consent: one gets the store",
             sorted(answers), ["claimed 3 1", "refused ESTALE"])
    owner = answers.get("claimed 3 1", a)
    tap.same("back to a former owner, which still runs",
             b.claim(store, 0, owner.say("consent")), "claimed 4 1")
    consent = b.say("consent")
    etcd.ask("kv/put", key=f"/lsmem/stores/{store}/term", value="9")
    tap.same("another term: refused", owner.claim(store, 0, consent), "refused ESTALE")
    etcd.ask("kv/put", key=f"/lsmem/stores/{store}/term", value="4")
    way = Keeper(etcd.url)
    late = Owner(scratch, "d", way.url)
    tap.same("the answer is lost, and the transaction late: claimed",
             late.claim(store, 0, consent), "claimed 5 1")
    tap.wrong("the answer is lost, and the transaction late: owned", [] if not late.lost() else [late.holds()])
    tap.same("the answer is lost: what was found is never the claim itself; of a term by hand no host is known",
             late.say("found"), "4 -;4 -;")
    consent = late.say("consent")
    late.process.kill()
    late.process.wait()
    until(lambda: etcd.value(store, "owner") is None)
    tap.same("the lease of the owner is over: its consent, too",
             owner.claim(store, 0, consent), "refused ESTALE")
    tap.same("a claim without consent", owner.claim(store), "claimed 6 1")
    tap.same("the lease of the owner is over: etcd still knows which host took the term", owner.say("found"), "5 d;")
    for program in (a, b, c):
        tap.same("ends", program.close(), 0)
    way.shutdown()

    way = Keeper(etcd.url)
    late = Owner(scratch, "d", way.url)
    tap.same("no consent, the transaction late, another lease not granted: claimed",
             late.claim(str(uuid.uuid4())), "claimed 1 0")
    now = time.monotonic()
    left = late.left() / 1000
    tap.wrong("no consent, the transaction late: the lease counts from when it was granted",
              [] if 0 < left <= way.granted[0] + LEASE * 0.8 - now else [left, now - way.granted[0]])
    tap.same("no consent, the transaction late: the claim does not find itself", late.say("found"), "0 -;0 -;")
    late.close()
    way.shutdown()


def prepared(tap: Tap, scratch: Path, etcd: Etcd) -> None:
    """A lease that is taken before a claim is the claim's, unless it is old; and what was read counts if it is what the owner named."""
    store = str(uuid.uuid4())
    way = Keeper(etcd.url)
    way.done = True			# nothing is kept
    a, b, c, d = (Owner(scratch, host, url) for host, url in zip("abcd", (etcd.url, way.url, way.url, way.url)))
    a.claim(store)
    for owner, former, age, leases, found in (b, a, 0.0, 1, "1 a;"), (c, b, LEASE / 5 + 0.1, 2, "2 b;"):
        way.granted.clear()
        tap.same(f"prepared {age:.1f} s before", owner.say(f"prepare {store}"), "prepared")
        until(lambda age=age: way.granted and time.monotonic() >= way.granted[0] + age)  # type: ignore[misc]
        reads = way.reads
        tap.same(f"prepared {age:.1f} s before: claimed", owner.claim(store, 0, former.say("consent"))[:7], "claimed")
        tap.same(f"prepared {age:.1f} s before: leases, reads", (len(way.granted), way.reads - reads), (leases, 0))
        tap.same(f"prepared {age:.1f} s before: found", owner.say("found"), found)
        left = owner.left() / 1000
        tap.wrong(f"prepared {age:.1f} s before: the lease counts from when it was granted",
                  [] if 0 < left <= way.granted[-1] + LEASE * 0.8 - time.monotonic() + 0.5 else [left])
    # Taken back, and given again: what was read before does not count.
    d.say(f"prepare {store}")
    consent = c.say("consent")
    until(lambda: c.say(consent.replace("consent", "void")) == "void")
    reads = way.reads
    tap.same("prepared, and the consent is another one: the old one is refused", d.claim(store, 0, consent), "refused ESTALE")
    tap.same("prepared, and the consent is another one: claimed", d.claim(store, 0, c.say("consent"))[:7], "claimed")
    tap.wrong("prepared, and the consent is another one: read again", [] if way.reads > reads else [way.reads])
    e = Owner(scratch, "e", way.url)
    e.say(f"prepare {store}")
    tap.same("prepared for another store", e.claim(str(uuid.uuid4())), "claimed 1 0")
    for owner in (a, b, c, d, e):
        owner.close()
    way.shutdown()


def asks_again(tap: Tap, scratch: Path, etcd: Etcd) -> None:
    """A transaction by consent was done, and etcd does not answer for so long that the claim ends: the next one finds it."""
    store = str(uuid.uuid4())
    a = Owner(scratch, "a", etcd.url)
    a.claim(store)
    consent = a.say("consent")
    way = Keeper(etcd.url, deaf=True)
    b = Owner(scratch, "b", way.url)
    b.ask(f"claim {store} 0 {consent}")
    until(lambda: way.silent and etcd.value(store, "term") == "2")
    key = base64.b64encode(f"/lsmem/stores/{store}/owner".encode()).decode()
    lease = json.loads(way.forward("/v3/kv/range", json.dumps({"key": key}).encode()))["kvs"][0]["lease"]
    ended = threading.Event()

    def renew() -> None:
        """As an etcd that was away does with all leases."""
        while not ended.wait(1):
            etcd.ask("lease/keepalive", ID=lease)

    renewer = threading.Thread(target=renew)
    renewer.start()
    tap.same("no answer: the claim ends", b.answer(), "refused EHOSTUNREACH")
    way.silent = False
    tap.same("no answer: the next claim finds what was done", b.claim(store, 0, consent), "claimed 2 1")
    ended.set()
    renewer.join()
    tap.same("no answer: one transaction", etcd.value(store, "term"), "2")
    for program in (a, b):
        program.close()
    way.shutdown()


def takers(tap: Tap, scratch: Path, etcd: Etcd) -> None:
    """A claim finds which host took the store's term, as far as that is known."""
    store = str(uuid.uuid4())
    way = Keeper(etcd.url, grants=True)
    twice = Owner(scratch, "a", way.url)
    twice.ask(f"claim {uuid.uuid4()} 0")

    def put(**values: str) -> None:
        """One transaction."""
        etcd.ask("kv/txn", success=[{"request_put": {
            name: base64.b64encode(text.encode()).decode()
            for name, text in (("key", f"/lsmem/stores/{store}/{key}"), ("value", value))}}
            for key, value in values.items()])

    def finds(host: str, how: str = "") -> str:
        owner = Owner(scratch, host, etcd.url)
        answer = owner.claim(store, 0, how)
        found = owner.say("found")
        owner.close()
        return f"{answer.split(' ')[0]} {found}"

    tap.same("taken: a store that etcd does not know", finds("a"), "claimed 0 -;")
    taken = json.loads(etcd.value(store, "taken") or "{}")
    tap.same("taken: stays without an owner, and names host, boot and term",
             [etcd.value(store, "owner"), *map(taken.get, ("host", "boot", "term"))], [None, "a", BOOT, 1])
    tap.same("taken: by this host", finds("a"), "claimed 1 a here;")
    tap.same("taken: by another name on the same machine", finds("b"), "claimed 2 a;")
    tap.same("taken: by a host that got it from this one", finds("a"), "claimed 3 b;")

    a, b = (Owner(scratch, host, etcd.url) for host in "ab")
    a.claim(store)
    tap.same("taken: an owner is alive: nothing is found", finds("b"), "refused ")
    consent = a.say("consent")
    until(lambda: a.say(consent.replace("consent", "void")) == "void")
    tap.same("taken: with consent, after one that was taken back",
             [b.claim(store, 0, a.say("consent")), b.say("found")], ["claimed 6 1", "5 a;"])
    a.close()
    b.close()
    tap.same("taken: by consent", [finds("b"), finds("a")], ["claimed 6 b here;", "claimed 7 b;"])

    before = [etcd.value(store, key) for key in ("owner", "term", "taken")]
    tap.same("taken: the caller ends the claim", finds("b", "stop"), "refused 8 a;")
    tap.same("taken: nothing has changed", [etcd.value(store, key) for key in ("owner", "term", "taken")], before)

    put(owner='{"host":"b"}', term="9")
    etcd.ask("kv/deleterange", key=f"/lsmem/stores/{store}/owner")
    tap.same("taken: an old daemon of another host was there since: not known", finds("a"), "claimed 9 -;")
    put(term="10")
    tap.same("taken: by an old daemon, the same number: not known", finds("a"), "claimed 10 -;")
    etcd.ask("kv/deleterange", key=f"/lsmem/stores/{store}/taken")
    tap.same("taken: no such key, as before an upgrade: not known", finds("a"), "claimed 11 -;")
    tap.same("taken: afterwards it is", finds("a"), "claimed 12 a here;")
    put(taken=etcd.value(store, "taken"))
    tap.same("taken: written without the term: not known", finds("a"), "claimed 13 -;")
    for bad, found in (('{"host":"a","boot":"x"}', "a"), ('{"host":"a"}', "a"), ('{"host":"a","boot":""}', "a"),
                       ("{", "-"), ("[]", "-"), ("7", "-"), ("{}", "-"), ('{"host":null}', "-"),
                       ('{"host":"\\u001b[2J"}', "??2J"), (json.dumps({"host": 5000 * "a"}), 63 * "a")):
        term = str(int(etcd.value(store, "term")) + 1)
        put(term=term, taken=bad)
        tap.same(f"taken: {bad[:30]}: not by this host", finds("a"), f"claimed {term} {found};")

    tap.same("taken: late, by this daemon, with a lease that it has given up", twice.answer(), "claimed 2 1")
    tap.same("taken: each transaction is told before", twice.say("found"), "0 -;0 -;1 a here;")
    twice.close()
    way.shutdown()


def lookers(tap: Tap, scratch: Path, etcd: Etcd) -> None:
    """An owner, also a former one, asks which host has the store."""
    store = str(uuid.uuid4())
    a, b, c = (Owner(scratch, host, etcd.url) for host in "abc")

    def learns(owner: Owner) -> str:
        owner.say("ask")
        until(lambda: owner.say("told") != "nothing yet")
        return owner.say("told")

    a.claim(store)
    tap.same("asks: nothing was asked", a.say("told"), "nothing yet")
    tap.same("asks: its own", learns(a), "1 a here")
    before = a.say("consent")
    tap.same("asks: still the owner, by the same key", [a.lost(), learns(a), a.say("consent")],
             [False, "1 a here", before])
    b.claim(store, 0, before)
    tap.same("asks: another host has it, and the former owner has not noticed or has", learns(a), "2 b")
    until(a.lost)
    tap.same("asks: a former owner", learns(a), "2 b")
    c.claim(store, 0, b.say("consent"))
    tap.same("asks: a former owner, when a third host has it", learns(a), "3 c")
    tap.same("asks: an answer stays until the next question", a.say("told"), "3 c")
    w = Owner(scratch, "w", etcd.url)
    tap.same("asks: a host whose claim is refused", w.claim(store).split(" ")[0], "refused")
    tap.same("asks: .. watches", [w.say("watch"), learns(w), learns(w)], ["watching", "3 c", "3 c"])
    tap.same("asks: .. takes nothing", [c.lost(), w.close()], [False, 0])
    etcd.ask("kv/put", key=f"/lsmem/stores/{store}/term", value="x")
    a.say("ask")
    until(lambda: "is no term" in a.said())
    tap.same("asks: no term is no answer", a.say("told"), "nothing yet")
    etcd.ask("kv/put", key=f"/lsmem/stores/{store}/term", value="9")
    until(lambda: a.say("told") != "nothing yet")
    tap.same("asks: a term that no known host took", a.say("told"), "9 -")
    etcd.kill()
    a.say("ask")
    tap.same("asks: without etcd there is no answer", a.say("told"), "nothing yet")
    etcd.start()
    until(etcd.answers)
    until(lambda: a.say("told") != "nothing yet")
    tap.same("asks: etcd is back", a.say("told"), "9 -")
    for program in (a, b, c):
        tap.same("asks: ends", program.close(), 0)


def images(tap: Tap, scratch: Path, etcd: Etcd) -> None:
    """What etcd says of a frozen store in this host's kernel, by the term with which it was frozen."""
    store = str(uuid.uuid4())

    def says(host: str, *terms: int) -> list[str]:
        """A claim of this host, and what it has found of stores that were frozen with these terms."""
        owner = Owner(scratch, host, etcd.url)
        answers = [owner.claim(store).split(" ")[0], *(owner.say(f"frozen {term}") for term in terms)]
        owner.close()
        return answers

    tap.same("frozen: a store that etcd does not know", says("a", 0, 1), ["claimed", "unknown", "unknown"])
    tap.same("frozen: this host's term, or the one before it, and no other one", says("a", 0, 1, 2),
             ["claimed", "newest", "newest", "unknown"])
    tap.same("frozen: its claims go on from the term that they have read", says("a", 1, 2, 0),
             ["claimed", "newest", "newest", "passed"])
    tap.same("frozen: another host took it next; or the same term by another name; or it was let go",
             says("b", 2, 3, 4, 1, 0, 2**64 - 1),
             ["claimed", "followed", "unknown", "unknown", "passed", "passed", "passed"])
    tap.same("frozen: it got it back since", says("a", 2, 3, 4), ["claimed", "passed", "followed", "unknown"])

    a, b = (Owner(scratch, host, etcd.url) for host in "ab")
    a.claim(store)
    tap.same("frozen: the other host is alive", says("b", 5, 6, 4), ["refused", "followed", "unknown", "passed"])
    consent = a.say("consent")
    tap.same("frozen: taken by consent", [b.claim(store, 0, consent), *says("a", 6, 7, 5)],
             ["claimed 7 1", "refused", "followed", "unknown", "passed"])
    a.close()
    b.close()

    a = Owner(scratch, "a", etcd.url)
    a.claim(store)
    consent = a.say("consent")
    a.process.kill()
    a.process.wait()
    next_a = Owner(scratch, "a", etcd.url)
    tap.same("frozen: the daemon that has consented is gone, and its next one claims",
             [next_a.claim(store, 0, "alone"), next_a.say("frozen 8"), next_a.say("frozen 7")],
             ["claimed 9 1", "newest", "newest"])
    b = Owner(scratch, "b", etcd.url)
    tap.same("frozen: its claim has made the consent void", b.claim(store, 0, consent), "refused ESTALE")
    next_a.close()
    b.close()

    put = {"key": f"/lsmem/stores/{store}/term", "value": "10"}
    etcd.ask("kv/put", **put)
    tap.same("frozen: an old daemon took it since: not known", says("a", 9, 10, 8),
             ["claimed", "unknown", "unknown", "unknown"])


def outages(tap: Tap, scratch: Path, etcd: Etcd) -> Iterator[None]:
    """etcd is unreachable for a while, and for good."""
    b = Owner(scratch, "b", f"http://127.0.0.1:{free_port('127.0.0.1')}")
    b.ask(f"claim {uuid.uuid4()} 0")
    yield
    patient = Owner(scratch, "a", etcd.url, lease=15)
    a = Owner(scratch, "a", etcd.url)
    store = str(uuid.uuid4())
    patient.claim(store)
    a.claim(str(uuid.uuid4()))
    begun = time.monotonic()
    etcd.kill()
    patient.say("members used lost")
    until(a.lost)
    after = time.monotonic() - begun
    tap.wrong("without etcd: owned for four fifths of the lease",
              [] if LEASE * 0.5 < after < LEASE * 0.95 else [after])
    tap.wrong("without etcd: the reason is known",
              [] if "Couldn't connect" in a.holds() else [a.holds()])
    tap.wrong("an outage shorter than the lease: still owned",
              [] if not patient.lost() else [patient.holds()])
    etcd.start()
    until(lambda: "answers again" in patient.holds() + patient.said())
    tap.wrong("an outage shorter than the lease: reported, with its end",
              [] if "s more" in patient.said() else [patient.said()])
    tap.wrong("an outage shorter than the lease: harmless",
              [] if not patient.lost() else [patient.holds()])
    until(lambda: patient.say("members") == "known")
    tap.same("a backup lost during the outage: etcd gets it afterwards",
             json.loads(etcd.value(store, "members"))["backups"][1]["state"], "lost")
    tap.same("no etcd at all", b.answer(), "refused EHOSTUNREACH")
    for program in (a, b, patient):
        program.close()


def several(tap: Tap, scratch: Path) -> None:
    """An etcd of three members: one dies, the leader dies, two die."""
    etcds = Etcd.of(scratch, "first", "second", "third")
    urls = ", ".join([f"http://127.0.0.1:{free_port('127.0.0.1')}", *(e.url for e in etcds)])
    a, short, b = (Owner(scratch, host, urls, lease=lease)
                   for host, lease in (("a", 15), ("a", LEASE), ("b", LEASE)))

    def goes_on() -> list[str]:
        """Checks that the lease is renewed again."""
        left = a.left()
        until(lambda: a.left() > left or not a.left())
        return [] if a.left() else [a.holds()]

    try:
        store = str(uuid.uuid4())
        tap.same("three members, the first endpoint does not answer", a.claim(store), "claimed 1 0")
        etcds[0].kill()
        tap.wrong("a member dies", goes_on())
        etcds[0].start()
        until(etcds[0].answers)
        leaders: list[Etcd] = []
        until(lambda: leaders.extend(etcd for etcd in etcds if etcd.leads()) or leaders)
        leader = leaders[0]
        leader.kill()
        tap.wrong("the leader dies", goes_on())
        tap.same("the leader dies: no other host gets the store", b.claim(store), "refused EBUSY")
        tap.same("two members", short.claim(str(uuid.uuid4())), "claimed 1 0")
        begun = time.monotonic()
        next(etcd for etcd in etcds if etcd is not leader).kill()
        until(short.lost)
        after = time.monotonic() - begun
        tap.wrong("one member: owned for four fifths of the lease",
                  [] if LEASE * 0.5 < after < LEASE * 0.95 else [after])
        for program in (a, short, b):
            program.close()
    finally:
        for etcd in etcds:
            etcd.kill()


HEADER = b'{"header":{"raft_term":"2","revision":"9"}'
LIES = {
    "garbage": (200, bytes(range(128, 256)) * 8),
    "empty": (200, b""),
    "null": (200, b"null"),
    "list": (200, b"[1]"),
    "html": (404, b"<html>not found</html>"),
    "error": (500, b'{"message":7}'),
    "nested": (200, b'{"header":' * 100000),
    "huge": (200, HEADER + b',"x":"' + b"x" * (1 << 22) + b'"}'),
    "bare": (200, b"{}"),
    "odd": (200, HEADER + b',"ID":[],"TTL":{},"count":"1","kvs":[]}'),
    "no value": (200, HEADER + b',"count":1,"kvs":[{"mod_revision":"1","value":null}]}'),
    "long value": (200, HEADER + b',"count":1,"kvs":[{"mod_revision":"1","value":"'
                   + b"QUJD" * 5000 + b'"}]}'),
    "null of several": (200, HEADER + b',"responses":[{"response_range":{"count":1,"kvs":[{"mod_revision":"1","value":null}]}}]}'),
    "too few": (200, HEADER + b',"responses":[{"response_range":{}},{"response_range":{}}]}'),
    "negative": (200, HEADER + b',"ID":"-5","TTL":"-3","count":"-1","kvs":7}'),
    "away": (302, b""),
    "slow": (200, b"{}"),
}


def liar(how: str) -> http.server.ThreadingHTTPServer:
    """A server that gives the same answer to every request."""
    status, text = LIES[how]

    class Handler(http.server.BaseHTTPRequestHandler):
        """One connection."""

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if how == "slow":
                time.sleep(LEASE)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
            self.wfile.write(text)

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                pass        # the client has closed the connection

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def lies(tap: Tap, scratch: Path, etcd: Etcd) -> Iterator[None]:
    """Invalid answers: none is believed, the next endpoint is asked."""
    servers = {how: liar(how) for how in LIES}
    urls = {how: f"http://127.0.0.1:{server.server_port}" for how, server in servers.items()}
    alone = {how: Owner(scratch, "a", url) for how, url in urls.items()}
    first = {how: Owner(scratch, "a", f"{url}, {etcd.url}") for how, url in urls.items()}
    for how in LIES:
        alone[how].ask(f"claim {uuid.uuid4()} 0")
        first[how].ask(f"claim {uuid.uuid4()} 0")
    for how in LIES:
        tap.same(f"{how}: another endpoint answers", first[how].answer(), "claimed 1 0")
    yield
    for how in LIES:
        tap.same(f"{how}: alone", alone[how].answer(), "refused EHOSTUNREACH")
        tap.same(f"{how}: both end", [alone[how].close(), first[how].close()], [0, 0])


def certificates(path: Path) -> None:
    """Makes an authority with certificates for etcd and for a client, and another authority."""
    def openssl(*args: object) -> None:
        subprocess.run(["openssl", *map(str, args)], cwd=path, check=True, capture_output=True)

    path.mkdir()
    (path / "san").write_text("subjectAltName=IP:127.0.0.1\n"
                              "extendedKeyUsage=serverAuth,clientAuth\n")
    for name in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 2, "-subj", f"/CN={name}",
                "-keyout", f"{name}.key", "-out", f"{name}.pem")
    for name in ("etcd", "client"):
        openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
                "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", 2, "-extfile", "san", "-out", f"{name}.pem")


def secure(tap: Tap, scratch: Path) -> Iterator[None]:
    """https, where both sides have certificates."""
    files = scratch / "certificates"
    certificates(files)
    etcd = Etcd(scratch, "tls", files)
    etcd.start()
    try:
        proof = f"cert = {files}/client.pem\nkey = {files}/client.key\n"
        good = Owner(scratch, "a", etcd.url, f"ca = {files}/ca.pem\n{proof}")
        tap.same("https", good.claim(str(uuid.uuid4())), "claimed 1 0")
        stranger = Owner(scratch, "a", etcd.url, f"ca = {files}/other.pem\n{proof}")
        nobody = Owner(scratch, "a", etcd.url, f"ca = {files}/ca.pem\n")
        for program in (stranger, nobody):
            program.ask(f"claim {uuid.uuid4()} 0")
        yield
        tap.same("an etcd with a certificate of another authority",
                 stranger.answer(), "refused EHOSTUNREACH")
        tap.same("a client without a certificate", nobody.answer(), "refused EHOSTUNREACH")
        # The owner reads the files at its start only.
        for file in files.iterdir():
            file.unlink()
        left = good.left()
        until(lambda: good.left() > left)
        for program in (good, stranger, nobody):
            tap.same("ends", program.close(), 0)
        missing = Owner(scratch, "a", etcd.url, f"ca = {files}/ca.pem\n")
        tap.same("a certificate that does not exist", missing.process.wait(PATIENCE), 2)
        tap.wrong("a certificate that does not exist: named",
                  [] if f"{files}/ca.pem: cannot be read" in missing.said() else [missing.said()])
    finally:
        etcd.kill()


def main() -> int:
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="lsmemd-test.", dir="/var/tmp") as name:
        scratch = Path(name)
        etcd, = Etcd.of(scratch, "one")
        # Parts that wait for long begin first and end last.
        slow = [lies(tap, scratch, etcd), secure(tap, scratch), outages(tap, scratch, etcd)]
        try:
            for part in slow:
                next(part)
            claims(tap, scratch, etcd)
            members(tap, scratch, etcd)
            consents(tap, scratch, etcd)
            asks_again(tap, scratch, etcd)
            prepared(tap, scratch, etcd)
            takers(tap, scratch, etcd)
            lookers(tap, scratch, etcd)
            images(tap, scratch, etcd)
            ends(tap, scratch, etcd)
            several(tap, scratch)
            for part in slow:
                next(part, None)
        finally:
            etcd.kill()
    return tap.finish()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, subprocess.SubprocessError, TypeError, IndexError) as failure:
        print(f"Bail out! {type(failure).__name__}: {failure}")
        sys.exit(1)
