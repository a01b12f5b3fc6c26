# SPDX-License-Identifier: GPL-2.0
"""Common to the groups of benches: contestants that take turns, stores, figures."""

import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any, Callable, Optional, Sequence

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
BENCH = HERE / "build" / "bench"
CTL = REPO / "tools" / "lsmemctl" / "lsmemctl"
DAEMON = REPO / "daemon" / "lsmemd"
SYSTEM = Path("/sys/class/lsmem")
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")

BATCH = 64
SIZES = {100: "100 B", 1024: "1 KB", 10240: "10 KB"}
ALLOCATORS = {"glibc": None, "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
              "mimalloc": "libmimalloc.so.2"}
SETUP_SECONDS = 60.0


def tell(**record: Any) -> None:
    """Prints a record for the caller, which is outside the guest."""
    print("BENCH " + json.dumps(record), flush=True)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, minimum and maximum of several rounds."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def result(group: str, what: str, ours: Sequence[float], base: Sequence[float], versus: str,
           unit: str, method: str, target: Optional[float] = None, most: bool = False) -> None:
    """Prints one figure, with the ratio of ours to the base's in each round.

    @most: lower is better.
    """
    ratios = [a / b for a, b in zip(ours, base)]
    median = statistics.median(ratios)
    met = None if target is None else median <= target if most else median >= target
    tell(kind="figure", group=group, what=what, versus=versus, unit=unit, ours=spread(ours),
         base=spread(base), ratio=spread(ratios), rounds=len(ratios), target=target,
         target_is="most" if most else "least", met=met, method=method)


class Contestant:
    """A bench process that is ready and runs rounds on request."""

    def __init__(self, mode: str, *options: str, preload: Optional[str] = None,
                 group: Optional[Path] = None, program: Sequence[str] = (str(BENCH),)) -> None:
        env = dict(os.environ)
        if preload:
            env["LD_PRELOAD"] = preload
        self.name = mode
        self._process = subprocess.Popen([*within(group), *program, *options, mode], env=env, text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._expect("ready")

    def _line(self) -> str:
        assert self._process.stdout is not None
        while True:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(f"bench {self.name} ended: {self._process.wait()}")
            if not line.startswith("#"):
                return line.strip()

    def _expect(self, wanted: str) -> None:
        line = self._line()
        if line != wanted:
            raise RuntimeError(f"bench {self.name} said '{line}'")

    def _say(self, text: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()
        return self._line()

    def round(self, seconds: float, threads: int) -> float:
        """Runs a round. Returns operations a second."""
        return self.measured(seconds, threads)[0]

    def measured(self, seconds: float, threads: int) -> tuple[float, float]:
        """Runs a round. Returns operations a second, and processor seconds of the threads."""
        rate, cpu = self._say(f"{seconds} {threads}").split()
        return float(rate), float(cpu)

    def order(self, verb: str, *arguments: float) -> dict[str, Any]:
        """Sends another order that the mode understands. Returns its answer."""
        answer: dict[str, Any] = json.loads(self._say(" ".join([verb, *map(str, arguments)])))
        return answer

    def store(self) -> "Store":
        """The store that the process has created."""
        return Store(self.order("store")["store"])

    def close(self) -> None:
        """Ends the process, and waits until its store is destroyed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Rounds:
    """Number and length of rounds. @quick: only check that the bench works."""

    def __init__(self, rounds: int, seconds: float, quick: bool) -> None:
        self.rounds = rounds
        self.seconds = seconds
        self.quick = quick

    def run(self, turns: dict[str, Callable[[], float]], mixed: bool = False) -> dict[str, list[float]]:
        """Runs all in turn, round after round. The first round warms up and does not count.

        mixed: in another order in each round, because what comes before a turn is felt in it.
        """
        rates: dict[str, list[float]] = {name: [] for name in turns}
        order = list(turns)
        random = Random(1)
        for number in range(self.rounds + 1):
            if mixed:
                random.shuffle(order)
            for name in order:
                rate = turns[name]()
                if number:
                    rates[name].append(rate)
        return rates


def preload(library: Optional[str]) -> Optional[str]:
    """The path of an allocator; None: glibc's own."""
    return str(LIBRARIES / library) if library else None


# ---- Stores ------------------------------------------------------------------------------------

class Store:
    """The sysfs files of a store; a file that does not exist counts as 0."""

    # While these do not change, the cleaners are idle.
    BUSY = ("cleaner/relocated_bytes", "cleaner/compacted_bytes", "cleaner/passes",
            "cleaner/compactions", "free_seglets")

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = SYSTEM / name

    def number(self, attribute: str) -> int:
        """The value of one file."""
        try:
            return int((self.path / attribute).read_text())
        except FileNotFoundError:
            return 0

    def set(self, attribute: str, value: object) -> None:
        """Sets a limit."""
        (self.path / attribute).write_text(f"{value}\n")

    def counters(self) -> dict[str, int]:
        """All counters of writers and cleaners."""
        return {f"{directory}/{path.name}": int(path.read_text())
                for directory in ("cleaner", "stats") for path in (self.path / directory).iterdir()
                if re.fullmatch(r"-?\d+\n", path.read_text())}

    def settle(self, seconds: float = 3.0) -> None:
        """Waits until the cleaners are idle: they would disturb the next turn."""
        end = time.monotonic() + seconds
        before: list[int] = []
        while time.monotonic() < end:
            now = [self.number(attribute) for attribute in self.BUSY]
            if now == before:
                return
            before = now
            time.sleep(0.03)


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """The differences of counters."""
    return {name: after[name] - before[name] for name in after}


def copied(counters: dict[str, int]) -> int:
    """Bytes that cleaning has copied, at both levels."""
    return counters.get("cleaner/relocated_bytes", 0) + counters.get("cleaner/compacted_bytes", 0)


def destroy(store: str, *options: str) -> None:
    """Destroys a store; retries, because udev may have the disk open."""
    end = time.monotonic() + SETUP_SECONDS
    while True:
        done = subprocess.run([str(CTL), "destroy", *options, store], text=True,
                              stderr=subprocess.PIPE)
        if done.returncode == 0:
            return
        if time.monotonic() > end:
            raise RuntimeError(done.stderr.strip())
        time.sleep(0.02)


def wait(what: str, condition: Callable[[], bool], seconds: float = SETUP_SECONDS, pause: float = 0.02) -> None:
    """Polls until a condition holds, with a pause of so many seconds between."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"waited {seconds:.0f} s for {what}")
        time.sleep(pause)


class Durable:
    """A durable store with its daemon, in @group, a cgroup, and its backups.

    @mib: its memory. @capacity: in MiB, of a tiered store, else 0. @handles: 0: more than enough.
    @settings: lines of [store]; without them, two replicas if there are so many backups.
    """

    def __init__(self, kind: str, store: str, backups: Sequence[str], mib: int,
                 group: Optional[Path] = None, capacity: int = 0, handles: int = 0, settings: str = "") -> None:
        indices = f"handles = {handles or max(mib, capacity) << 13}\n" if kind == "object" else ""
        tier = f"capacity = {capacity}M\n" if capacity else ""
        self.kind = kind
        self.store = store
        self._group = group
        self._scratch = Path(tempfile.mkdtemp(prefix="lsmem-bench."))
        self._conf = self._scratch / "conf"
        sections = "".join(f"[backup {Path(path).name if len(backups) > 1 else ''}]\n"
                           f"path = {path}\n" for path in backups)
        settings = settings or f"replicas = {min(len(backups), 2)}\n"
        self._conf.write_text(f"[store]\nkind = {kind}\nsize = {mib}M\n{tier}{indices}"
                              f"{settings}{sections}")
        self._daemon: Optional["subprocess.Popen[bytes]"] = None

    @property
    def device(self) -> str:
        """The path of the store's device."""
        return f"/dev/{self.store}"

    def start(self, *options: str) -> None:
        """Starts the daemon. Returns when the store is active."""
        with open(self._scratch / "log", "ab") as log:
            self._daemon = subprocess.Popen([*within(self._group), str(DAEMON), "-c",
                                             str(self._conf), "--state-directory",
                                             str(self._scratch), *options], stderr=log)
        system = SYSTEM / self.store

        def active() -> bool:
            assert self._daemon is not None
            if self._daemon.poll() is not None:
                raise RuntimeError("lsmemd: " + (self._scratch / "log").read_text()[-800:])
            try:
                return (system / "attached").read_text().strip() == "1" and \
                    (system / "state").read_text().strip() == "active"
            except OSError:
                return False
        wait(f"{self.store} to become active", active)
        wait(self.device, lambda: os.path.exists(self.device))

    def number(self, attribute: str) -> int:
        """The value of one of the store's files."""
        return Store(self.store).number(attribute)

    def stop(self) -> None:
        """Stops the daemon; afterwards everything is durable."""
        assert self._daemon is not None
        self._daemon.terminate()
        self._daemon.wait()

    def kill(self) -> None:
        """Kills the daemon, as a crash of the host does."""
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait()

    def status(self) -> dict[str, Any]:
        """The status of the daemon, once it is active."""
        state: dict[str, Any] = {}

        def told() -> bool:
            assert self._daemon is not None
            state.update(json.loads(Path(f"/run/lsmem/{self.store}.json").read_text()))
            return state["pid"] == self._daemon.pid and state["state"] == "active"
        wait(f"{self.store}'s daemon to tell that it is active", told)
        return state

    def close(self) -> None:
        """Stops the daemon and destroys the store."""
        self.stop()
        destroy(self.store)
        shutil.rmtree(self._scratch)


def within(group: Optional[Path]) -> list[str]:
    """The words to put before a command to run it in a cgroup."""
    if group is None:
        return []
    return ["sh", "-c", f'echo 0 > {group}/cgroup.procs && exec "$@"', "within"]


def fio(path: str, *options: str, group: Optional[Path] = None) -> dict[str, Any]:
    """Runs one job of fio on a device, direct, by libaio. Returns its report."""
    done = subprocess.run([*within(group), "fio", "--name=job", f"--filename={path}", "--direct=1",
                           "--ioengine=libaio", "--thread", *options, "--output-format=json"],
                          check=True, text=True, stdout=subprocess.PIPE)
    job: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    return job


def module(name: str, *parameters: str) -> None:
    """Loads a module of the guest's kernel, unless it is built in."""
    if not Path(f"/sys/module/{name}").is_dir():
        subprocess.run(["modprobe", name, *parameters], check=True)


def sequential_read(path: str, length: int, group: Optional[Path] = None) -> float:
    """Reads the first @length bytes of a drive. Returns MB/s."""
    job = fio(path, "--rw=read", "--bs=1M", "--iodepth=8", "--readonly", f"--size={length >> 20 << 20}",
              group=group)
    return float(job["read"]["bw_bytes"]) / 1e6


def drives(names: Sequence[str]) -> list[str]:
    """The paths of drives, which the benches overwrite."""
    paths = [f"/dev/drive/{name}" for name in names]
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        raise RuntimeError(f"no {', '.join(missing)}")
    return paths


# Fields of the kernel's Documentation/block/stat.rst, and what one of each counts
DRIVE_COUNTERS = {"reads": (0, 1), "bytes read": (2, 512), "writes": (4, 1), "bytes written": (6, 512),
                  "flushes": (15, 1)}


def drive_counter(drive: str, what: str) -> int:
    """One of DRIVE_COUNTERS, since the guest was booted."""
    field, unit = DRIVE_COUNTERS[what]
    stat = Path("/sys/block") / Path(drive).resolve().name / "stat"
    return int(stat.read_text().split()[field]) * unit


def written(drive: str) -> int:
    """Bytes that were written to a drive, with those that only wait in the page cache."""
    os.sync()
    return drive_counter(drive, "bytes written")
