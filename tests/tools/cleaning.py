#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""lsmemctl top, tier, pages, clean, backups and stat with imaginary stores: cleaning.py LSMEMCTL TEST, or --list.

Runs with a private, empty /sys/class and /run (see lsmemctl.sh). A store is a link to a directory, as in
sysfs; a new link changes all files of the store at once. A thread does the work of the files
cleaner/request_*. Prints nothing if the test passes.
"""

import codecs
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import Callable, Optional

CLASS = Path("/sys/class/lsmem")
SNAPSHOTS = Path("/sys/snapshots")
STATUS = Path("/run/lsmem")
PATIENCE = 60	# seconds to wait for an event
LSMEMCTL = ""

BLANK: dict[str, object] = {
    "kind": "object", "durability": "volatile", "state": "active", "attached": 0,
    "uuid": "5d0f2b06-3c4c-4a3b-8a52-1f1f2f5d9f11", "size_bytes": 1 << 30,
    "capacity_bytes": 1000000000, "live_bytes": 900000000, "seglets": 16384, "free_seglets": 700,
    "reserved_seglets": 144, "segments": 130,
    "cleaner/passes": 0, "cleaner/segments_cleaned": 0, "cleaner/relocated_bytes": 0,
    "cleaner/relocated_entries": 0, "cleaner/freed_bytes": 0, "cleaner/write_cost_permille": 0,
    "stats/appends": 0, "stats/appended_bytes": 0, "stats/stalls": 0, "stats/stall_ns": 0,
}

NEW: dict[str, object] = {
    "cleaner/balancer": "[adaptive] tombstone-ratio fixed", "cleaner/nr_compactors": 2,
    "cleaner/level": "none", "cleaner/request_compact": 0, "cleaner/request_clean": 0,
    "cleaner/compactions": 0,
    "cleaner/compacted_bytes": 0, "cleaner/compact_freed_bytes": 0, "cleaner/compact_ns": 0,
    "cleaner/clean_ns": 0, "cleaner/segments_by_memory": "0 0 0 0 1 2 5 20 64 32",
    "cleaner/segments_by_backup": "0 0 4 10 40 40 20 10 0 0",
    "stats/throttles": 0, "stats/throttle_ns": 0, "stats/stall_histogram": "0 " * 23 + "0",
}

TIER: dict[str, object] = {
    "durability": "durable", "size_bytes": 256 << 20, "capacity_bytes": 1 << 30,
    "tier/resident_bytes": 200 << 20, "tier/cold_bytes": 600 << 20, "tier/cached_bytes": 8 << 20,
    "tier/unverified_segments": 12, "tier/unreadable_segments": 2,
    "tier/requests": 3, "tier/evicted": 5000, "tier/evicted_bytes": 50 << 20, "tier/fetches": 1000, "tier/fetches_near": 900,
    "tier/fetched_bytes": 10 << 20, "tier/fetch_ns": 400000000, "tier/fetch_failures": 1,
    "tier/fetch_histogram": "0 0 0 0 0 0 0 0 980 0 0 15 5" + " 0" * 11,
}


PAGES: dict[str, object] = {
    "pages/ranges": 2, "pages/buffered_pages": 1024, "pages/dirty_pages": 256, "pages/faults": 5000,
    "pages/read_pages": 4000, "pages/fetched_pages": 300, "pages/written_pages": 600,
    "pages/written_bytes": 3 << 20, "pages/groups": 20, "pages/syncs": 10, "pages/sync_ns": 4000000,
}


class Store:
    """The directory of a store; a test can change its files."""

    def __init__(self, name: str, *parts: dict[str, object]) -> None:
        self.link = CLASS / name
        self._count = 0
        self._files = {path: value for part in parts for path, value in part.items()}
        self.change()

    @property
    def directory(self) -> Path:
        """The present target of the link."""
        return self.link.resolve()

    def change(self, **files: object) -> None:
        """Changes files, all at once; "__" in a name is "/"."""
        self._files.update({name.replace("__", "/"): value for name, value in files.items()})
        self._count += 1
        directory = SNAPSHOTS / f"{self.link.name}.{self._count}"
        directory.mkdir()
        for path, value in self._files.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(f"{value}\n")
        new = SNAPSHOTS / f"{self.link.name}.link"
        new.symlink_to(directory)
        new.replace(self.link)

    def remove(self) -> None:
        """Removes the store."""
        self.link.unlink()


def histogram(**waits: int) -> str:
    """A histogram of waits; b3=5: five waits of 8 to 16 microseconds."""
    return " ".join(str(waits.get(f"b{i}", 0)) for i in range(24))


def lsmemctl(*arguments: str, env: Optional[dict[str, str]] = None) -> "subprocess.CompletedProcess[str]":
    """Runs lsmemctl to its end."""
    return subprocess.run([LSMEMCTL, *arguments], capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, **(env or {})}, check=False)


def is_(got: object, wanted: object, what: str = "") -> None:
    """Asserts that two values are equal."""
    assert got == wanted, f"{what}\ngot:    {got!r}\nwanted: {wanted!r}"


def near(got: float, wanted: float, what: str) -> None:
    """Asserts that two values are equal, as far as three printed digits of rate and time tell."""
    assert abs(got - wanted) <= 0.005 * abs(wanted) + 0.01, f"{what}: {got}, wanted {wanted}"


class Watch:
    """top, tier or pages with --json, line by line."""

    def __init__(self, *arguments: str, command: str = "top") -> None:
        self._child = subprocess.Popen([LSMEMCTL, command, "--json", *arguments], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._killer = threading.Timer(PATIENCE, self._child.kill)
        self._killer.start()

    def next(self, or_end: bool = False) -> dict:
        """The next line; with @or_end, nothing if it has ended."""
        assert self._child.stdout
        line = self._child.stdout.readline()
        assert line or or_end, "it has ended: " + self.end()[1]
        return json.loads(line) if line else {}

    def until(self, name: str, key: str, value: int) -> tuple[dict, float]:
        """The store in the first line where @key is @value, and the time of the line."""
        while True:
            line = self.next()
            for store in line["stores"]:
                if store["name"] == name and store[key] == value:
                    return store, line["seconds"]

    def end(self) -> tuple[int, str]:
        """Waits for the end. Returns exit status and standard error."""
        assert self._child.stderr
        said = self._child.stderr.read()
        status = self._child.wait()
        self._killer.cancel()
        return status, said

    def stop(self) -> None:
        """Ends top."""
        self._child.terminate()
        self.end()


# ---- top, line by line ------------------------------------------------------

def test_top_rates() -> None:
    store = Store("lsmem", BLANK, NEW, {"cleaner/clean_ns": 10 ** 15})
    watch = Watch("lsmem", "--interval", "100ms")
    line = watch.next()
    near(line["seconds"], max(line["seconds"], 0.1), "an interval")
    idle = line["stores"][0]
    is_(idle["append"], {"bytes_per_second": 0, "operations_per_second": 0}, "idle")
    is_(idle["write_cost"], None, "nothing was written")
    is_(idle["clean"]["copied_per_freed"], None, "nothing was freed")
    is_(idle["waits"], {"p50_us": None, "p99_us": None, "max_us": None}, "no writer waited")
    store.change(
        live_bytes=950000000, cleaner__level="compact", cleaner__balancer="adaptive [fixed]",
        stats__appends=1000, stats__appended_bytes=1000000, stats__stalls=3,
        stats__stall_ns=30000000, stats__throttles=97, stats__throttle_ns=5000000,
        stats__stall_histogram=histogram(b0=40, b3=20, b5=39, b13=1),
        cleaner__segments_cleaned=6, cleaner__relocated_bytes=600000, cleaner__freed_bytes=200000,
        cleaner__clean_ns=10 ** 15 + 20000000, cleaner__compactions=12, cleaner__compact_ns=40000000,
        cleaner__compacted_bytes=400000, cleaner__compact_freed_bytes=800000)
    now, seconds = watch.until("lsmem", "live_bytes", 950000000)
    watch.stop()
    near(now["append"]["operations_per_second"] * seconds, 1000, "operations")
    near(now["append"]["bytes_per_second"] * seconds, 1000000, "bytes")
    near(now["clean"]["segments_per_second"] * seconds, 6, "segments cleaned")
    near(now["clean"]["copied_bytes_per_second"] * seconds, 600000, "copied by cleaning")
    near(now["clean"]["freed_bytes_per_second"] * seconds, 200000, "freed by cleaning")
    near(now["clean"]["time_percent"] * seconds / 100, 0.020, "time of cleaning")
    near(now["compact"]["segments_per_second"] * seconds, 12, "segments compacted")
    near(now["compact"]["copied_bytes_per_second"] * seconds, 400000, "copied by compaction")
    near(now["compact"]["time_percent"] * seconds / 100, 0.040, "time of compaction")
    is_((now["clean"]["copied_per_freed"], now["compact"]["copied_per_freed"]), (3.0, 0.5))
    is_(now["write_cost"], 2.0)
    near(now["stalls"]["per_second"] * seconds, 3, "stalls")
    near(now["stalls"]["time_percent"] * seconds / 100, 0.030, "time of stalls")
    near(now["throttles"]["per_second"] * seconds, 97, "throttles")
    is_(now["waits"], {"p50_us": 16, "p99_us": 64, "max_us": 16384})
    is_((now["level"], now["balancer"], now["nr_compactors"]), ("compact", "fixed", 2))
    is_(now["segments_by_memory"], [0, 0, 0, 0, 1, 2, 5, 20, 64, 32])
    is_(now["used_percent"], 95.0)


def test_top_percentiles_are_of_the_interval() -> None:
    store = Store("lsmem", BLANK, NEW,
                  {"stats/stall_histogram": histogram(b20=1000)})
    watch = Watch("--interval", "100ms")
    watch.next()
    store.change(live_bytes=1, stats__stall_histogram=histogram(b1=1, b20=1000))
    is_(watch.until("lsmem", "live_bytes", 1)[0]["waits"], {"p50_us": 4, "p99_us": 4, "max_us": 4})
    store.change(live_bytes=2, stats__stall_histogram=histogram(b1=3, b6=1, b20=1000))
    is_(watch.until("lsmem", "live_bytes", 2)[0]["waits"], {"p50_us": 4, "p99_us": 128, "max_us": 128})
    store.change(live_bytes=3, stats__stall_histogram=histogram(b1=3, b6=1, b20=1000, b23=1))
    is_(watch.until("lsmem", "live_bytes", 3)[0]["waits"]["max_us"], 1 << 24)
    watch.stop()


def test_top_without_new_files() -> None:
    store = Store("lsmem", BLANK)
    watch = Watch("lsmem", "--interval", "100ms")
    watch.next()
    store.change(live_bytes=7, stats__appended_bytes=1000, cleaner__relocated_bytes=500,
                 cleaner__freed_bytes=250)
    now, _ = watch.until("lsmem", "live_bytes", 7)
    watch.stop()
    is_(now["write_cost"], 1.5, "as far as it was counted")
    is_(now["clean"]["copied_per_freed"], 2.0)
    is_(now["clean"]["time_percent"], None)
    is_(set(now["compact"].values()), {None})
    is_(set(now["throttles"].values()), {None})
    for key in ("level", "balancer", "nr_compactors", "segments_by_memory", "segments_by_backup"):
        is_(now[key], None, key)
    done = lsmemctl("top", "--count", "1", "--interval", "50ms", env={"LC_ALL": "C.UTF-8"})
    is_((done.returncode, done.stderr), (0, ""))
    assert "balancer -, wanted: -, compactors -" in done.stdout, done.stdout
    assert "\n 90-100" in done.stdout and "\u2588" not in done.stdout, done.stdout


def test_top_of_nothing() -> None:
    Store("lsmem", {})
    done = lsmemctl("top", "--count", "1", "--interval", "50ms")
    is_((done.returncode, done.stderr), (0, ""))
    assert "capacity -, live - (- %), free seglets - of -" in done.stdout, done.stdout


def test_top_counters_that_went_back() -> None:
    store = Store("lsmem", BLANK, NEW, {"stats/appends": 5000, "stats/appended_bytes": 10 ** 9})
    watch = Watch("--interval", "100ms")
    watch.next()
    store.change(live_bytes=1, stats__appends=10, stats__appended_bytes=1000)
    now, _ = watch.until("lsmem", "live_bytes", 1)
    is_((now["append"]["bytes_per_second"], now["write_cost"]), (None, None))
    store.change(live_bytes=2, uuid="another", stats__appends=10 ** 9)
    is_(watch.until("lsmem", "live_bytes", 2)[0]["append"]["operations_per_second"], None, "another store")
    watch.stop()


def test_top_stores_come_and_go() -> None:
    stores = [Store(name, BLANK, NEW) for name in ("lsmem", "lsmem1", "lsmemb0")]
    named, everything = Watch("lsmem", "lsmem1", "-i", "0.05"), Watch("-i", "0.05")
    is_([store["name"] for store in named.next()["stores"]], ["lsmem", "lsmem1"])
    is_([store["name"] for store in everything.next()["stores"]], ["lsmem", "lsmem1", "lsmemb0"])
    Store("lsmem2", BLANK, NEW)
    while "lsmem2" not in [store["name"] for store in everything.next()["stores"]]:
        pass
    everything.stop()
    stores[0].remove()
    while len(named.next()["stores"]) != 1:
        pass
    stores[1].remove()
    status, said = named.end()
    is_(status, 0)
    is_(said, "lsmemctl top: lsmem: went away\nlsmemctl top: lsmem1: went away\n")


def test_top_text() -> None:
    Store("lsmem", BLANK, NEW)
    Store("lsmemb0", BLANK, NEW, {"kind": "block"})
    for locale, block in (("C", "#"), ("C.UTF-8", "\u2588")):
        done = lsmemctl("top", "-n", "2", "--interval", "50ms", env={"LC_ALL": locale})
        is_((done.returncode, done.stderr), (0, ""))
        blocks = done.stdout.rstrip("\n").split("\n\n")
        is_(len(blocks), 4)
        for part in blocks:
            lines = part.split("\n")
            is_(len(lines), 23, part)
            assert max(map(len, lines)) <= 80, part
        assert "lsmemb0: block, volatile, active" in blocks[1], blocks[1]
        bars = {line.split()[0]: line.count(block) for line in blocks[0].split("\n")[-10:]}
        assert bars["80-90"] > bars["70-80"] > bars["0-10"] == 0, bars
    assert done.stdout.isascii() is False


def test_top_refuses() -> None:
    is_(lsmemctl("top").returncode, 1)
    is_(lsmemctl("top").stderr, "lsmemctl top: there is no store (lsmemctl create makes one)\n")
    Store("lsmem", BLANK)
    is_(lsmemctl("top", "lsmem", "lsmem7").returncode, 1)
    for arguments in (["--count", "0"], ["--count", "x"], ["--interval", "soon"], ["/dev/null"]):
        is_(lsmemctl("top", *arguments).returncode, 2, str(arguments))


# ---- top on a terminal ------------------------------------------------------

class Terminal:
    """A VT52: the terminal with the fewest sequences that ncurses can use.

    It has 95 rows and columns at most.
    """

    def __init__(self, rows: int, columns: int, *arguments: str, term: str = "vt52") -> None:
        self._pid, self._fd = pty.fork()
        if not self._pid:
            for name in ("LINES", "COLUMNS"):
                os.environ.pop(name, None)
            os.environ |= {"TERM": term, "LC_ALL": "C.UTF-8"}
            # Wait until the terminal has its size.
            os.read(0, 1)
            os.execv(LSMEMCTL, [LSMEMCTL, "top", *arguments])
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._pending = ""
        self.resize(rows, columns)
        self.press("\n")

    def resize(self, rows: int, columns: int) -> None:
        """Changes the size of the window; the program must draw it again."""
        self.rows, self.columns = rows, columns
        self._row = self._column = 0
        self._clear()
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        """Presses keys."""
        os.write(self._fd, keys.encode())

    def _clear(self) -> None:
        self._screen = [[" "] * self.columns for _ in range(self.rows)]

    @property
    def lines(self) -> list[str]:
        """The lines on the screen."""
        return ["".join(row).rstrip() for row in self._screen]

    def _take(self, text: str) -> None:
        text = self._pending + text
        i = 0
        while i < len(text):
            size = 1
            if text[i] == "\033":
                size = 4 if text[i + 1:i + 2] == "Y" else 2
                if i + size > len(text):
                    break
                self._sequence(text[i + 1:i + size])
            elif text[i] == "\r":
                self._column = 0
            elif text[i] == "\n":
                self._row = min(self._row + 1, self.rows - 1)
            elif text[i] == "\b":
                self._column = max(self._column - 1, 0)
            elif text[i] >= " ":
                if self._row < self.rows and self._column < self.columns:
                    self._screen[self._row][self._column] = text[i]
                self._column = min(self._column + 1, self.columns - 1)
            i += size
        self._pending = text[i:]

    def _sequence(self, code: str) -> None:
        if code[0] == "Y":
            self._row, self._column = ord(code[1]) - 32, ord(code[2]) - 32
        elif code == "H":
            self._row = self._column = 0
        elif code in "ABCD":
            self._row += {"A": -1, "B": 1}.get(code, 0)
            self._column += {"C": 1, "D": -1}.get(code, 0)
        elif code in "JK":
            row = self._screen[self._row]
            row[self._column:] = [" "] * (self.columns - self._column)
            for below in self._screen[self._row + 1:] if code == "J" else []:
                below[:] = [" "] * self.columns

    def _read(self, deadline: float) -> bool:
        """Reads some output. Returns whether the program still runs."""
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self._fd], [], [], left)[0]:
            raise AssertionError("\n".join(["not on the screen in time:", *self.lines]))
        try:
            data = os.read(self._fd, 65536)
        except OSError:	# EIO: all have closed it
            return False
        self._take(self._decoder.decode(data))
        return bool(data)

    def until(self, shown: Callable[[list[str]], bool]) -> list[str]:
        """Reads until the screen fulfils a condition. Returns its lines."""
        deadline = time.monotonic() + PATIENCE
        while not shown(self.lines):
            assert self._read(deadline), "\n".join(["it has ended:", *self.lines])
        return self.lines

    def end(self) -> int:
        """Reads to the end. Returns the exit status."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def test_screen() -> None:
    Store("lsmem", BLANK, NEW)
    Store("lsmem1", BLANK, NEW, {"cleaner/balancer": "[fixed]"})
    terminal = Terminal(24, 80, "--interval", "3600s")
    lines = terminal.until(lambda lines: lines[23].startswith("q end"))
    assert lines[0].startswith("lsmemctl top, 3600.00 s") and "1:lsmem  2:lsmem1" in lines[0], lines
    is_(lines[1], "lsmem: object, volatile, active")
    assert lines[22].startswith(" 90-100 ") and "\u2588" in lines[22], lines
    terminal.press("\t")
    terminal.until(lambda lines: lines[1].startswith("lsmem1:") and "fixed" in lines[4])
    terminal.press("1")
    terminal.until(lambda lines: lines[1].startswith("lsmem:"))
    terminal.press("9p")
    terminal.until(lambda lines: "paused" in lines[0])
    is_(terminal.lines[1], "lsmem: object, volatile, active", "there is no ninth")
    terminal.press("?")
    terminal.until(lambda lines: any("bytes copied for each byte" in line for line in lines))
    terminal.press("h")
    terminal.until(lambda lines: lines[1].startswith("lsmem:"))
    terminal.resize(30, 95)
    terminal.until(lambda lines: lines[29].startswith("q end") and lines[22].startswith(" 90-100"))
    assert max(map(len, terminal.lines)) > 80, terminal.lines
    terminal.resize(8, 30)
    terminal.until(lambda lines: lines[7].startswith("q end") and lines[1].startswith("lsmem:"))
    terminal.press("q")
    is_(terminal.end(), 0)


def test_screen_stores_go() -> None:
    stores = [Store(name, BLANK, NEW) for name in ("lsmem", "lsmem1")]
    terminal = Terminal(24, 80, "--interval", "0.1")
    terminal.until(lambda lines: lines[1].startswith("lsmem:"))
    stores[0].remove()
    terminal.until(lambda lines: lines[1].startswith("lsmem1:") and lines[23] == "lsmem went away")
    stores[1].remove()
    is_(terminal.end(), 0)
    assert any("lsmem1" in line and "went away" in line for line in terminal.lines), terminal.lines


def test_screen_count() -> None:
    Store("lsmem", BLANK, NEW)
    is_(Terminal(24, 80, "--interval", "50ms", "--count", "2").end(), 0)


def test_screen_of_paper() -> None:
    Store("lsmem", BLANK, NEW)
    for term in ("dumb", "no-terminal-of-that-name"):
        terminal = Terminal(24, 80, "--interval", "50ms", "--count", "1", term=term)
        is_(terminal.end(), 0)
        assert "lsmem: object, volatile, active" in terminal.lines, terminal.lines


# ---- The daemon's status file ------------------------------------------------

class Daemon:
    """A process with the name of the daemon, which writes a status file again on SIGUSR1."""

    def __init__(self, name: str, **status: object) -> None:
        STATUS.mkdir()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        self._pid = os.fork()
        if not self._pid:
            Path("/proc/self/comm").write_text("lsmemd")
            while True:
                self._answer(name, status)
        self._put(name, {"pid": self._pid, "answers": 0, **status})
        while Path(f"/proc/{self._pid}/comm").read_text() != "lsmemd\n":
            time.sleep(0.001)

    @staticmethod
    def _put(name: str, status: dict[str, object]) -> None:
        new = STATUS / "new"
        new.write_text(json.dumps(status))
        new.replace(STATUS / f"{name}.json")

    def _answer(self, name: str, status: dict[str, object]) -> None:
        # The client reads nothing before all files are there.
        asked = signal.sigtimedwait([signal.SIGUSR1], PATIENCE)
        if not asked:
            os._exit(1)
        client = asked.si_pid
        os.kill(client, signal.SIGSTOP)
        while Path(f"/proc/{client}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.001)
        for other in ("other", "another"):
            self._put(other, {})
        self._put(name, {"pid": os.getpid(), **status})
        os.kill(client, signal.SIGCONT)

    def end(self) -> None:
        """Ends the process."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def test_backups_of_several_daemons() -> None:
    Store("lsmem", BLANK, {"durability": "durable"})
    daemon = Daemon("lsmem", backups=[{"name": "a", "state": "member"}])
    done = lsmemctl("backups", "lsmem", "--json")
    daemon.end()
    is_((done.returncode, done.stderr), (0, ""))
    is_([(row["store"], row["name"]) for row in json.loads(done.stdout)], [("lsmem", "a")])


def test_top_of_a_daemon_that_says_little() -> None:
    Store("lsmem", BLANK, {"durability": "durable"})
    STATUS.mkdir()
    (STATUS / "lsmem.json").write_text(json.dumps({"pid": os.getpid(), "backups": [
        {"name": "one", "state": "member", "frames": 7, "lag_bytes": 2048}, {"name": ""}, {}]}))
    Path("/proc/self/comm").write_text("lsmemd")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    done = lsmemctl("top", "--count", "1", "--interval", "50ms")
    is_((done.returncode, done.stderr), (0, ""))
    lines = done.stdout.split("\n")
    first = [line.split()[0:1] for line in lines].index(["backup"]) + 1
    is_([line.split() for line in lines[first:first + 3]],
        [["one", "member", "7", "-", "2K", "-"], ["(only", "one)", "-", "-", "-", "-", "-"],
         ["-", "-", "-", "-", "-", "-"]])


# ---- pages ------------------------------------------------------------------

def test_pages() -> None:
    Store("lsmem", BLANK, NEW, PAGES)
    Store("lsmem1", BLANK, NEW, PAGES, {"pages/syncs": 0, "pages/sync_ns": 0})
    Store("lsmemb0", BLANK, NEW)
    done = lsmemctl("pages", "--json")
    is_((done.returncode, done.stderr), (0, ""))
    first, second = json.loads(done.stdout)
    is_(first, {"name": "lsmem", "ranges": 2, "buffered_pages": 1024, "buffered_bytes": 4 << 20,
                "dirty_pages": 256, "dirty_bytes": 1 << 20, "faults": 5000, "read_pages": 4000,
                "fetched_pages": 300, "written_pages": 600, "written_bytes": 3 << 20, "groups": 20,
                "syncs": 10, "sync_us": 400.0})
    is_((second["name"], second["sync_us"]), ("lsmem1", None))
    done = lsmemctl("pages", "lsmem", "lsmem1")
    is_((done.returncode, done.stderr), (0, ""))
    is_([line.split() for line in done.stdout.splitlines()], [
        "STORE RANGES BUFFER DIRTY FAULTS READ FETCHED WRITTEN BYTES GROUPS SYNCS SYNC MEAN".split(),
        "lsmem 2 4M 1M 5000 4000 300 600 3M 20 10 400us".split(),
        "lsmem1 2 4M 1M 5000 4000 300 600 3M 20 0 -".split()])
    done = lsmemctl("pages", "lsmemb0")
    is_((done.returncode, done.stdout, done.stderr),
        (1, "", "lsmemctl pages: lsmemb0: has no ranges of pages: it is no object store\n"))


def test_pages_rates() -> None:
    store = Store("lsmem", BLANK, NEW, PAGES)
    watch = Watch("--interval", "100ms", command="pages")
    idle = watch.next()["stores"][0]
    is_((idle["faults_per_second"], idle["sync_us"]), (0, None))
    store.change(pages__faults=5100, pages__read_pages=4200, pages__fetched_pages=600,
                 pages__written_pages=1000, pages__written_bytes=(3 << 20) + 500000,
                 pages__groups=26, pages__syncs=20, pages__sync_ns=6000000, pages__ranges=3)
    now, seconds = watch.until("lsmem", "ranges", 3)
    for key, wanted in {"faults": 100, "read_pages": 200, "fetched_pages": 300,
                        "written_pages": 400, "written_bytes": 500000, "groups": 6,
                        "syncs": 10}.items():
        near(now[f"{key}_per_second"] * seconds, wanted, key)
    is_(now["sync_us"], 200.0, "of the interval")
    store.remove()
    while watch.next(or_end=True):
        pass
    is_(watch.end(), (0, ""), "the last object store has gone")


def test_pages_watch_text() -> None:
    Store("lsmem", BLANK, NEW, PAGES)
    done = lsmemctl("pages", "-n", "2", "-i", "50ms")
    is_((done.returncode, done.stderr), (0, ""))
    parts = done.stdout.rstrip("\n").split("\n\n")
    is_(len(parts), 2)
    is_([line.split() for line in parts[1].splitlines()], [
        "STORE RANGES BUFFER DIRTY FAULTS/s READ/s FETCHED/s WRITTEN/s BYTES/s GROUPS/s SYNCS/s"
        " SYNC MEAN".split(),
        "lsmem 2 4M 1M 0.0 0.0 0.0 0.0 0 0.0 0.0 -".split()])


# ---- tier -------------------------------------------------------------------

def test_tier() -> None:
    Store("lsmem", BLANK, NEW)
    Store("lsmem1", BLANK, NEW, TIER)
    Store("lsmem2", BLANK, NEW, TIER, {"tier/fetches": 0, "tier/fetch_ns": 0,
                                       "tier/fetch_histogram": histogram()})
    done = lsmemctl("tier", "--json")
    is_((done.returncode, done.stderr), (0, ""))
    first, second = json.loads(done.stdout)
    is_(first, {"name": "lsmem1", "memory_bytes": 256 << 20, "capacity_bytes": 1 << 30,
                "resident_bytes": 200 << 20, "cold_bytes": 600 << 20, "cached_bytes": 8 << 20,
                "unverified_segments": 12, "unreadable_segments": 2,
                "requests": 3, "fetches": 1000, "fetches_near": 900, "fetched_bytes": 10 << 20,
                "evicted_bytes": 50 << 20, "failures": 1, "mean_us": 400.0, "p99_us": 4096})
    is_((second["name"], second["mean_us"], second["p99_us"]), ("lsmem2", None, None))
    done = lsmemctl("tier", "lsmem1", "lsmem2")
    is_((done.returncode, done.stderr), (0, ""))
    is_([line.split() for line in done.stdout.splitlines()], [
        "STORE MEMORY CAPACITY RESIDENT COLD CACHED UNVERIFIED UNREADABLE REQUESTS FETCHES NEAR FETCHED"
        " EVICTED FAILURES MEAN 99%".split(),
        "lsmem1 256M 1G 200M 600M 8M 12 2 3 1000 900 10M 50M 1 400us 4.1ms".split(),
        "lsmem2 256M 1G 200M 600M 8M 12 2 3 0 900 10M 50M 1 - -".split()])


def test_tier_rates() -> None:
    store = Store("lsmem", BLANK, NEW, TIER)
    watch = Watch("--interval", "100ms", command="tier")
    idle = watch.next()["stores"][0]
    is_((idle["fetches_per_second"], idle["mean_us"], idle["p99_us"]), (0, None, None))
    store.change(tier__fetches=1100, tier__fetched_bytes=(10 << 20) + 400000,
                 tier__fetch_ns=420000000, tier__evicted_bytes=(50 << 20) + 700000,
                 tier__fetch_histogram="0 0 0 0 0 0 0 100 980 0 0 15 5" + " 0" * 11,
                 live_bytes=7, tier__cold_bytes=1)
    now, seconds = watch.until("lsmem", "cold_bytes", 1)
    near(now["fetches_per_second"] * seconds, 100, "fetches")
    near(now["fetched_bytes_per_second"] * seconds, 400000, "fetched")
    near(now["evicted_bytes_per_second"] * seconds, 700000, "evicted")
    is_((now["fetches"], now["mean_us"], now["p99_us"]), (1100, 200.0, 256), "of the interval")
    store.change(uuid="another", tier__cold_bytes=2)
    is_(watch.until("lsmem", "cold_bytes", 2)[0]["fetches_per_second"], None, "another store")
    store.remove()
    while watch.next(or_end=True):
        pass
    is_(watch.end(), (0, ""), "the last tiered store has gone")


def test_tier_watch_text() -> None:
    Store("lsmem", BLANK, NEW, TIER)
    done = lsmemctl("tier", "-n", "2", "-i", "50ms")
    is_((done.returncode, done.stderr), (0, ""))
    parts = done.stdout.rstrip("\n").split("\n\n")
    is_(len(parts), 2)
    is_([line.split() for line in parts[1].splitlines()], [
        "STORE RESIDENT COLD CACHED REQUESTS FETCHES/s FETCHED/s EVICTED/s FAILURES MEAN 99%".split(),
        "lsmem 200M 600M 8M 3 0.0 0 0 1 - -".split()])


def test_tier_refuses() -> None:
    Store("lsmem", BLANK, NEW)
    done = lsmemctl("tier")
    is_((done.returncode, done.stdout, done.stderr), (0, "", ""), "no tiered store")
    done = lsmemctl("tier", "--interval", "50ms")
    is_(done.returncode, 1)
    assert "there is no tiered store" in done.stderr, done.stderr
    Store("lsmem1", BLANK, NEW, TIER)
    for options in ([], ["--interval", "50ms", "--count", "1"]):
        done = lsmemctl("tier", "lsmem", "lsmem1", "--json", *options)
        is_(done.returncode, 1, "lsmem is not tiered")
        is_(done.stderr, "lsmemctl tier: lsmem: is not tiered: all its data are in memory\n")
        rows = json.loads(done.stdout)
        is_([row["name"] for row in (rows["stores"] if options else rows)], ["lsmem1"])
    is_(lsmemctl("tier", "lsmem").returncode, 1)
    is_(lsmemctl("tier", "lsmem7").returncode, 1)
    for arguments in (["--count", "0"], ["--interval", "soon"], ["/dev/null"]):
        is_(lsmemctl("tier", *arguments).returncode, 2, str(arguments))


def test_top_of_a_tier() -> None:
    Store("lsmem", BLANK, NEW, TIER)
    done = lsmemctl("top", "-n", "1", "-i", "50ms", "--json")
    tier = json.loads(done.stdout)["stores"][0]["tier"]
    is_((tier["resident_bytes"], tier["cold_bytes"]), (200 << 20, 600 << 20))
    lines = lsmemctl("top", "-n", "1", "-i", "50ms").stdout.splitlines()
    place = [line.split()[:1] for line in lines].index(["tier"])
    is_([lines[place].split(), lines[place + 1].split()],
        [["tier", "resident", "cold", "fetches/s", "evicted/s", "p99"],
         ["200M", "600M", "0.0", "0", "-"]])
    assert max(map(len, lines)) <= 80, lines


# ---- clean ------------------------------------------------------------------

class Cleaner(threading.Thread):
    """Serves requests in cleaner/request_@level, a segment at a time, @possible at most."""

    def __init__(self, store: Store, level: str, possible: int,
                 then: Callable[[int], None]) -> None:
        super().__init__(daemon=True)
        self._request = store.directory / f"cleaner/request_{level}"
        self._possible = possible
        self._then = then
        self.asked = 0
        self.start()

    def _say(self, left: int) -> None:
        new = self._request.with_name("request.new")
        new.write_text(f"{left}\n")
        new.replace(self._request)

    def run(self) -> None:
        while not self.asked:
            time.sleep(0.001)
            self.asked = int(self._request.read_text().strip() or 0)
        for done in range(min(self.asked, self._possible)):
            self._say(self.asked - done)
            time.sleep(0.001)
        self._then(min(self.asked, self._possible))


def clean_json(done: "subprocess.CompletedProcess[str]") -> dict:
    """The result of lsmemctl clean --json."""
    is_((done.returncode, done.stderr), (0, ""))
    return json.loads(done.stdout)


def test_clean() -> None:
    store = Store("lsmem", BLANK, NEW, {"cleaner/segments_cleaned": 1000})
    cleaner = Cleaner(store, "clean", 1000, lambda done: store.change(
        cleaner__segments_cleaned=1000 + done, cleaner__relocated_bytes=done * 100,
        cleaner__freed_bytes=done * 50, free_seglets=700 + done))
    gained = clean_json(lsmemctl("clean", "lsmem", "--json"))
    is_(cleaner.asked, 124, "all closed segments")
    assert gained.pop("seconds") > 0
    is_(gained, {"name": "lsmem", "level": "clean", "asked": 124, "left": 0, "segments": 124,
                 "copied_bytes": 12400, "freed_bytes": 6200, "free_seglets_before": 700,
                 "free_seglets_after": 824})


def test_clean_compact_ends_early() -> None:
    store = Store("lsmem", BLANK, NEW)
    cleaner = Cleaner(store, "compact", 3, lambda done: store.change(
        cleaner__compactions=done, cleaner__compacted_bytes=3000000,
        cleaner__compact_freed_bytes=9 << 20))
    done = lsmemctl("clean", "--compact", "--segments", "5", "/dev/lsmem")
    is_((done.returncode, done.stderr), (0, ""))
    is_(cleaner.asked, 5)
    is_(done.stdout.split("\n")[1].split()[:9],
        ["lsmem", "compact", "5", "0", "3", "2.9M", "9M", "700", "700"])


def test_clean_nothing() -> None:
    store = Store("lsmem", BLANK, NEW, {"cleaner/segments_by_memory": "0 " * 9 + "0"})
    is_(clean_json(lsmemctl("clean", "lsmem", "--json"))["segments"], 0)
    is_((store.directory / "cleaner/request_clean").read_text(), "0\n", "not asked")


def test_clean_not_in_time() -> None:
    Store("lsmem", BLANK, NEW)
    done = lsmemctl("clean", "lsmem", "--segments", "9", "--wait", "0.2", "--json")
    is_((done.returncode, json.loads(done.stdout)["left"]), (1, 9))
    assert "9 segments are left" in done.stderr, done.stderr


def test_clean_refused() -> None:
    store = Store("lsmem", BLANK)
    done = lsmemctl("clean", "lsmem")
    is_((done.returncode, done.stdout), (1, ""))
    assert "older than this program" in done.stderr, done.stderr
    (store.directory / "cleaner/request_clean").symlink_to("/dev/full")
    done = lsmemctl("clean", "lsmem")
    is_((done.returncode, done.stdout), (1, ""))
    assert "cleaner/request_clean: No space left" in done.stderr, done.stderr
    is_(lsmemctl("clean", "lsmem3").returncode, 1)
    for arguments in ([], ["lsmem", "-n", "0"], ["lsmem", "-n", "1000001"], ["lsmem", "--wait", "x"],
                      ["lsmem", "lsmem"]):
        is_(lsmemctl("clean", *arguments).returncode, 2, str(arguments))


# ---- stat -------------------------------------------------------------------

def test_stat() -> None:
    Store("lsmem", BLANK, NEW, {
        "stats/appended_bytes": 1000, "cleaner/relocated_bytes": 600, "cleaner/freed_bytes": 400,
        "cleaner/compacted_bytes": 200, "stats/stall_histogram": histogram(b2=99, b9=1),
        "era": 2 ** 63, "generation": ""})
    done = lsmemctl("stat", "lsmem", "--json")
    is_((done.returncode, done.stderr), (0, ""))
    store = json.loads(done.stdout)
    is_(store["cleaning"], {"write_cost": 1.8, "compact": {"copied_per_freed": None},
                            "clean": {"copied_per_freed": 1.5},
                            "waits": {"p50_us": 8, "p99_us": 8, "max_us": 1024}})
    is_(store["cleaner"]["segments_by_memory"], [0, 0, 0, 0, 1, 2, 5, 20, 64, 32])
    is_((store["era"], store["generation"]), (str(2 ** 63), ""), "no numbers of 64 bits")
    shown = lsmemctl("stat", "lsmem").stdout.split("\n")
    fields = {line.split()[0]: line.split()[1:] for line in shown if line}
    is_(fields["cleaning.write_cost"], ["1.800"])
    is_(fields["cleaning.compact.copied_per_freed"], ["-"])
    is_(fields["cleaner.balancer"], ["[adaptive]", "tombstone-ratio", "fixed"])
    is_(fields["cleaner.segments_by_memory"], "0 0 0 0 1 2 5 20 64 32".split())


def test_stat_watch() -> None:
    store = Store("lsmem", BLANK, NEW, {"stats/durable_bytes": 7 << 30})
    watch = subprocess.Popen([LSMEMCTL, "stat", "lsmem", "--watch", "--interval", "200ms"],
                             text=True, stdout=subprocess.PIPE)
    assert watch.stdout
    is_(watch.stdout.readline().split(), ["LIVE", "FREE", "SEGMENTS", "WRITE/s", "MOVE/s",
                                          "COMPACT/s", "CLEAN/s", "DURABLE/s", "STALLS/s"])
    is_(watch.stdout.readline().split(), ["858M", "700", "130", *["0"] * 6])
    store.change(live_bytes=5 << 20, free_seglets=9, segments=131, stats__appended_bytes=10 << 30,
                 cleaner__relocated_bytes=20 << 30, cleaner__compacted_bytes=30 << 30,
                 cleaner__segments_cleaned=50000, stats__durable_bytes=47 << 30,
                 stats__stalls=70000)
    line: list[str] = []
    while line[:3] != ["5M", "9", "131"]:
        line = watch.stdout.readline().split()
    rates = [float(rate.rstrip("G")) for rate in line[3:]]
    for rate, wanted in zip(rates, (10, 20, 30, 50000, 40, 70000)):
        assert abs(rate / rates[3] * 50000 / wanted - 1) < 0.03, line
    store.remove()
    is_(watch.wait(), 0)


def main() -> int:
    global LSMEMCTL
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
    if sys.argv[1:] == ["--list"]:
        print("\n".join(tests))
        return 0
    LSMEMCTL = sys.argv[1]
    assert not CLASS.exists(), "there are stores already"
    CLASS.mkdir()
    SNAPSHOTS.mkdir()
    tests[sys.argv[2]]()
    return 0


sys.exit(main())
