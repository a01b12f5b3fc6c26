# SPDX-License-Identifier: GPL-2.0
"""Bench of stores that move between hosts: a group of tests/bench/inside.

Both hosts are this guest, with two names in etcd, and the daemon of each does not see the store of the other; the backup is behind
a server over soft RoCE. A store moves there and back, and is stopped and loaded, in each round.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from signal import SIGHUP
from typing import Any, Optional

from contest import BATCH, CTL, DAEMON, SYSTEM, Contestant, Rounds, Store, destroy, drives, fio, module, result, tell, wait

SIZES = (128, 256, 1024)		# MiB of memory
WRITTEN = 256			# .. of the store that is written to while it moves
WRITES = {1000: 1 / 100, 0: None}	# by how many a second, as many as it can if 0, what is wanted
SIZE = 136			# bytes of an object
LIVE = 650			# per mille of the memory
DISK_MIB = 128
ADDRESS, ETCD = "10.99.0.1", 23790
SECONDS = 120.0
GAP_TARGET = 1 / 1000
BULK_TARGET = 1.3
PULL_TARGET = 2.0
SERVES, FREE, CAN_GO = "serving, backup", "keeps nothing of the store any more", "listening for moves"
STAGES = re.compile(r"time until it was served, ms: (.*)")
TOLD = re.compile(r"time until it was told, ms: (.*)")
CAME = re.compile(r"came from the memory of host \S+, (\d+) ms after the store was served")
# The daemon sees its own stores, and those without a name
ALONE = """for s in /sys/class/lsmem/*; do
    given=$(cat "$s/given_name" 2>/dev/null)
    [ -z "$given" ] || [ "$given" = "$0" ] || mount -t tmpfs none "$(realpath "$s")" || exit 99
done
exec "$@\""""


DAEMONS: list["subprocess.Popen[bytes]"] = []


class Network:
    """Soft RoCE that reaches itself, an etcd, and the server of a backup."""

    def __init__(self, drive: str, scratch: Path) -> None:
        for name in ("veth", "ib_uverbs", "rdma_rxe", "rdma_ucm"):
            module(name)
        for command in ("ip link set lo up", "ip link add rdma0 type veth peer name rdma1", "ip link set rdma1 up",
                        f"ip addr add {ADDRESS}/24 dev rdma0", "ip link set rdma0 up", "rdma link add rxe0 type rxe netdev rdma0"):
            subprocess.run(command.split(), check=True)
        url = f"http://127.0.0.1:{ETCD}"
        self._log = open(scratch / "others", "ab")
        self._etcd = subprocess.Popen(["etcd", "--data-dir", str(scratch / "etcd"), "--listen-client-urls", url,
                                       "--advertise-client-urls", url, "--listen-peer-urls", f"http://127.0.0.1:{ETCD + 1}",
                                       "--log-level", "error"], stdout=self._log, stderr=self._log, env={**os.environ, "GOMAXPROCS": "1"})
        wait("etcd", self._answers, SECONDS)
        for name in ("key", "move"):
            (scratch / name).write_bytes(os.urandom(32))
            (scratch / name).chmod(0o600)
        (scratch / "server").write_text(f"[server]\nlisten = rdma://{ADDRESS}\nkey = {scratch}/key\n[export data]\npath = {drive}\n")
        self._server = subprocess.Popen([str(DAEMON), "-v", "-c", str(scratch / "server")], stderr=self._log)
        wait("the server of the backup", lambda: "serving 1 backup" in (scratch / "others").read_text(), SECONDS)

    @staticmethod
    def _answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{ETCD}/health", timeout=5):
                return True
        except OSError:
            return False

    def close(self) -> None:
        """Ends all. What is left of a bench that has failed is killed: nothing may use the device any more."""
        for process in (*DAEMONS, self._server, self._etcd):
            process.kill()
            process.wait()
        self._log.close()
        subprocess.run(["ip", "link", "delete", "rdma0"], check=True)


class Host:
    """A name in etcd, and its daemon. @port: of its listener; @other: of the other host's."""

    def __init__(self, name: str, port: int, other: tuple[str, int], scratch: Path) -> None:
        self.name = name
        self._scratch, self._port, self._other = scratch, port, other
        self._log = scratch / f"{name}.log"
        self._seen = 0
        self._daemon: Optional["subprocess.Popen[bytes]"] = None

    def start(self, kind: str, mib: int, how: str, *options: str) -> None:
        """Starts the daemon. @how: "move", from the other host; "load" all, or "instant"; with "format", with the first option."""
        handles = f"handles = {mib << 13}\n" if kind == "object" else ""
        restart, move = ("load", "") if how == "load" else ("instant", f"[move]\nlisten = rdma://{ADDRESS}:{self._port}\n"
                                                            f"secret = {self._scratch}/move\n")
        if how.startswith("move"):
            move += f"from = rdma://{ADDRESS}:{self._other[1]}/store-{self._other[0]}\n"
        if how == "move slowly":
            move += "bring_rate = 1M\n"
        conf = self._scratch / self.name
        conf.write_text(f"[store]\nname = store-{self.name}\nkind = {kind}\nsize = {mib}M\n{handles}restart = {restart}\n"
                        f"[backup]\npath = rdma://{ADDRESS}/data\nkey = {self._scratch}/key\n"
                        f"[cluster]\netcd = http://127.0.0.1:{ETCD}\nlease = 10\nhost = {self.name}\n{move}")
        self._seen = self._log.stat().st_size if self._log.exists() else 0
        (self._scratch / f"state-{self.name}").mkdir(exist_ok=True)
        with open(self._log, "ab") as log:
            self._daemon = subprocess.Popen(["unshare", "-m", "bash", "-c", ALONE, f"store-{self.name}", str(DAEMON), "-v", "-c", str(conf),
                                             "--state-directory", str(self._scratch / f"state-{self.name}"), *options], stderr=log)
        DAEMONS.append(self._daemon)

    def log(self) -> str:
        """What the daemon has said since it was started."""
        with open(self._log, encoding="utf-8") as log:
            log.seek(self._seen)
            return log.read()

    def wait_said(self, text: str, pause: float = 0.01) -> None:
        """Waits until the daemon has said something."""
        def said() -> bool:
            assert self._daemon is not None
            if text in self.log():
                return True
            if self._daemon.poll() is not None:
                raise RuntimeError(f"{self.name}: lsmemd has ended: {self.log()[-1500:]}")
            return False
        wait(f"{self.name} to say '{text}': {self.log()[-500:]}", said, SECONDS, pause)

    @property
    def store(self) -> str:
        """The name of its store in the kernel."""
        for path in SYSTEM.iterdir():
            try:
                if (path / "given_name").read_text().strip() == f"store-{self.name}":
                    return path.name
            except OSError:
                pass	# it has just been destroyed
        return ""

    def stop(self) -> None:
        """Stops the daemon, and destroys the store."""
        assert self._daemon is not None
        store = self.store
        self._daemon.terminate()
        self._daemon.wait()
        destroy(store, "--force")

    def hurry(self) -> None:
        """Ends the bound of what is read behind the clients' requests."""
        assert self._daemon is not None
        conf = self._scratch / self.name
        conf.write_text(conf.read_text().replace("bring_rate = 1M\n", ""))
        self._daemon.send_signal(SIGHUP)

    def ends(self) -> None:
        """Waits until the daemon has let go of a store that has moved, and the store is gone."""
        assert self._daemon is not None
        self._daemon.wait(SECONDS)
        if self.store:
            destroy(self.store, "--force")

    def forget(self) -> None:
        """Removes its record of the store."""
        shutil.rmtree(self._scratch / f"state-{self.name}")

    def told(self) -> dict[str, Any]:
        """The move's part of the status."""
        subprocess.run([str(CTL), "backups", self.store], check=True, stdout=subprocess.DEVNULL)
        return dict(json.loads(Path(f"/run/lsmem/{self.store}.json").read_text())["move"])


class Pair:
    """Two hosts, and a store that one of them has."""

    def __init__(self, kind: str, mib: int, scratch: Path) -> None:
        self.kind, self.mib = kind, mib
        self.here = Host("a", 7481, ("b", 7482), scratch)
        self.there = Host("b", 7482, ("a", 7481), scratch)
        self.here.start(kind, mib, "instant", "--format", "--force")
        self.here.wait_said(CAN_GO)
        self.stages: list[str] = []

    @property
    def device(self) -> str:
        """Of the store, on the host that has it."""
        return f"/dev/{self.here.store}"

    def move(self, how: str = "move") -> float:
        """Moves the store; the caller waits until all has come. Returns the seconds for which it was not served."""
        self.here, self.there = self.there, self.here
        self.here.start(self.kind, self.mib, how)
        self.here.wait_said(SERVES)
        stages = STAGES.search(self.here.log())
        assert stages is not None
        self.stages.append(stages[1])
        return sum(float(stage.rsplit(" ", 1)[1]) for stage in stages[1].split(", ")) / 1e3

    def all_came(self) -> float:
        """Waits until the source has let go. Returns the seconds in which its memory was read."""
        self.here.wait_said(FREE)
        self.there.ends()
        self.here.wait_said(CAN_GO)
        came = CAME.search(self.here.log())
        return int(came[1]) / 1e3 if came else 0.0

    def stop_and_copy(self) -> float:
        """Stops the store, and loads it on the other host. Returns the seconds; afterwards it can move again."""
        begin = time.monotonic()
        self.here.stop()
        self.there.start(self.kind, self.mib, "load")
        self.there.wait_said(SERVES)
        seconds = time.monotonic() - begin
        self.there.stop()
        self.here.start(self.kind, self.mib, "instant")
        self.here.wait_said(CAN_GO)
        store = Store(self.here.store)
        wait("all to be in memory", lambda: not store.number("tier/warm_segments"), SECONDS)
        return seconds

    def close(self) -> None:
        """Ends the store, of which no host keeps a record."""
        self.here.stop()
        for host in (self.here, self.there):
            host.forget()

    def steps(self) -> str:
        """How long each step of the last move took, ms."""
        told = TOLD.search(self.there.log())
        return f"{self.stages[-1]} (of the source: {told[1] if told else ''})"


def _fill(device: str, mib: int) -> None:
    objects = (mib << 20) * LIVE // 1000 // (SIZE + 32)
    Contestant("replace", "-s", str(SIZE), "-n", str(objects), "-b", str(BATCH), "-r", "-p", device).close()


def _sizes(rounds: Rounds, scratch: Path) -> None:
    """Stores of objects that nothing writes to."""
    for mib in SIZES[:1] if rounds.quick else SIZES:
        pair = Pair("object", mib, scratch)
        _fill(pair.device, mib)
        gaps, copies, came, steps = [], [], [], ""
        for number in range(rounds.rounds):
            tell(kind="progress", text=f"moving: {mib} MiB, {number + 1} of {rounds.rounds}")
            gaps.append(pair.move())
            steps = pair.steps()
            came.append(pair.all_came())
            copies.append(pair.stop_and_copy())
        pair.close()
        how = (f"a store of {mib} MiB, {LIVE / 10:.0f} % live, objects of {SIZE} B, one backup behind a server, soft RoCE in one guest; "
               f"ms of the last move: {steps}")
        result("moving", f"not served, {mib} MiB", gaps, copies, "stop and load", "s", how, GAP_TARGET if mib == 256 else None, most=True)
        result("moving", f"all in the target's memory, {mib} MiB", came, copies, "stop and load", "s", how,
               BULK_TARGET if mib == 256 else None, most=True)


def _written(rounds: Rounds, scratch: Path) -> None:
    """A disk that is written to while it moves, as fast as it can be, and as its backup can take it."""
    pair = Pair("block", WRITTEN, scratch)
    length = f"--size={(WRITTEN << 20) * LIVE // 1000 >> 20}M"
    fio(pair.device, "--rw=write", "--bs=1M", length)
    for rate, target in WRITES.items():
        gaps, copies, steps = [], [], ""
        for number in range(1 if rounds.quick else rounds.rounds):
            tell(kind="progress", text=f"moving: written to, {number + 1} of {rounds.rounds}")
            with subprocess.Popen(["fio", "--name=writer", f"--filename={pair.device}", "--direct=1", "--thread", "--rw=randwrite",
                                   "--bs=4k", length, "--time_based", f"--runtime={SECONDS:.0f}", f"--rate_iops={rate}"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as writer:
                store = Store(pair.here.store)
                store.set("limits/flush_ms", 3000)	# of the writes that the store leaves behind
                before = store.number("stats/appended_bytes")
                wait("the writer", lambda: store.number("stats/appended_bytes") - before > 4 << 20, SECONDS)  # pylint: disable=W0640
                try:
                    gaps.append(pair.move())
                finally:
                    writer.kill()
            steps = pair.steps()
            pair.all_came()
            copies.append(pair.stop_and_copy())
        how = f"{rate} a second" if rate else "as many as it can"
        result("moving", f"not served, {WRITTEN} MiB, {how}", gaps, copies, "stop and load", "s",
               f"a disk of {WRITTEN} MiB, {LIVE / 10:.0f} % live, random writes of 4 KiB, depth 1, {how}, until its clients are stopped; "
               f"ms of the last move: {steps}", target, most=True)
    pair.close()


def _pulls(rounds: Rounds, scratch: Path) -> None:
    """Reads of a disk that has just moved, with what is read behind them and without."""
    pair = Pair("block", DISK_MIB, scratch)
    length = f"--size={DISK_MIB * LIVE // 1000}M"
    fio(pair.device, "--rw=write", "--bs=1M", length)
    times: dict[str, list[float]] = {"move": [], "move slowly": [], "after": []}
    for number in range(1 if rounds.quick else rounds.rounds):
        for how in ("move", "move slowly"):
            tell(kind="progress", text=f"moving: reads, {how}, {number + 1} of {rounds.rounds}")
            pair.move(how)
            times[how].append(_percentile(pair.device, length, "400ms"))
            if how == "move slowly":
                pair.here.hurry()
            pair.all_came()
        times["after"].append(_percentile(pair.device, length, "400ms"))
    pair.close()
    how = f"random reads of 4 KiB for 0.4 s from when a disk of {DISK_MIB} MiB is served, depth 1, p95"
    result("moving", "reads, all else is read behind them", times["move"], times["move slowly"], "little is", "us", how, PULL_TARGET,
           most=True)
    result("moving", "reads, little is read behind them", times["move slowly"], times["after"], "all in memory", "us", how, most=True)


def _percentile(device: str, length: str, seconds: str) -> float:
    job = fio(device, "--rw=randread", "--bs=4k", "--iodepth=1", "--time_based", f"--runtime={seconds}", length)
    return float(job["read"]["clat_ns"]["percentile"]["95.000000"]) / 1e3


def moving(rounds: Rounds) -> None:
    """How long a store that moves is not served, and what its reads cost afterwards."""
    drive, = drives(("large",))
    with tempfile.TemporaryDirectory(prefix="lsmem-moving.") as name:
        scratch = Path(name)
        network = Network(drive, scratch)
        try:
            for group in (_sizes, _written, _pulls):
                group(rounds, scratch)
        finally:
            network.close()
