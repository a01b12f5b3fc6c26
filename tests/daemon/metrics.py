#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""lsmemd's metrics without the module, with an imaginary daemon (metrics.c) and /sys.

TAP. $METRICS and $LSMEMD are the programs. The metrics are compared with the admin guide and the
dashboard.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import scrape
from scrape import Family, Odd, figure

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "qemu"))

from ports import free_port  # noqa: E402
from testbed.tap import Tap  # noqa: E402

REPO = HERE.parents[1]
DASHBOARD = REPO / "tools/grafana/lsmem.json"
GUIDE = REPO / "Documentation/admin-guide.rst"
METRICS = os.environ.get("METRICS", str(HERE / "build/metrics"))
LSMEMD = os.environ.get("LSMEMD", str(HERE / "build/lsmemd"))
BACKUP = '/srv/a "b" \\ ü'
UUID = "abababab-abab-abab-abab-abababababab"
LIMIT_SECONDS = 10.0    # HTTP_SECONDS
CLIENTS = 16            # HTTP_CONNECTIONS

FILES = {
    "size_bytes": 256 << 20, "capacity_bytes": 230 << 20, "live_bytes": 100 << 20, "seglets": 4096,
    "free_seglets": 2000, "reserved_seglets": 64, "handles_max": 1 << 20, "handles_used": 777,
    "segments": 20, "segments_max": 64, "segments_limit": 60, "stats/appends": 1000, "stats/appended_bytes": 4 << 20,
    "stats/replaced": 500, "stats/deleted": 20, "stats/durable_waits": 9, "stats/stalls": 2,
    "stats/throttles": 3, "stats/stall_ns": 1_500_000_000, "stats/throttle_ns": 250_000_000,
    "stats/stall_histogram": " ".join(["1"] * 23 + ["2"]), "cleaner/compactions": 11,
    "cleaner/segments_cleaned": 12, "cleaner/compacted_bytes": 13, "cleaner/relocated_bytes": 14,
    "cleaner/compact_freed_bytes": 15, "cleaner/freed_bytes": 16,
    "cleaner/compact_ns": 17_000_000_000, "cleaner/clean_ns": 18_000_000_001, "cleaner/passes": 19,
    "cleaner/views_revoked": 21, "tier/resident_bytes": 90 << 20, "tier/cold_bytes": 10 << 20,
    "tier/unverified_segments": 4, "tier/unreadable_segments": 1,
    "tier/cached_bytes": 5 << 20, "tier/evicted": 30, "tier/evicted_bytes": 31,
    "pages/ranges": 3, "pages/buffered_pages": 400, "pages/dirty_pages": 50, "pages/faults": 6000,
    "pages/read_pages": 700, "pages/fetched_pages": 80, "pages/written_pages": 900,
    "pages/written_bytes": 4 << 20, "pages/groups": 32, "pages/syncs": 33,
    "pages/sync_ns": 34_000_000_001,
}


class Server:
    """metrics.c at a free port, in a mount namespace whose /sys is a scratch directory."""

    def __init__(self, scratch: Path, host: str) -> None:
        self.sys = scratch / "sys"
        self.store = self.sys / "class/lsmem/lsmem"
        self.store.mkdir(parents=True, exist_ok=True)
        self.address = f"{host}:{free_port(host)}"
        conf = write_config(scratch, BACKUP, self.address)
        self._program = subprocess.Popen(
            ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c",
             'mount --bind "$1" /sys && exec "$2" "$3"', "sh", self.sys, METRICS, conf],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def _answer(self) -> None:
        answer = self._program.stdout.readline()
        if answer != "ok\n":
            print(f"Bail out! metrics says '{answer}'")
            sys.exit(1)

    def do(self, command: str) -> None:
        self._program.stdin.write(command + "\n")
        self._program.stdin.flush()
        self._answer()

    def scrape(self) -> dict[str, Family]:
        return scrape.scrape(self.address)

    def close(self) -> int:
        self._program.stdin.close()
        return self._program.wait(30)


def write_config(scratch: Path, backup: str, listen: str) -> Path:
    conf = scratch / "lsmemd.conf"
    conf.write_text(f"[backup]\npath = {backup}\nsize = 256M\nlock_wait = 0\n"
                    f"[metrics]\nlisten = {listen}\n")
    return conf


def gone(client: socket.socket) -> bool:
    """Does the other end close the connection in time, after any data?"""
    client.settimeout(2 * LIMIT_SECONDS)
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def facts(tap: Tap, server: Server) -> dict[str, Family]:
    """Tests the metrics in each state. Returns those of an active store."""
    tap.same("503 before the store is known", scrape.request(server.address, "/metrics")[0], 503)
    server.do("recovering")
    page = server.scrape()
    tap.same("recovering: the state", figure(page, 'lsmem_daemon_state{state="recovering"}'), 1)
    tap.same("recovering: the progress", figure(page, "lsmem_recovery_progress_ratio"), 0.5)
    tap.same("recovering: the duration", figure(page, "lsmem_recovery_duration_seconds"), 1.25)
    tap.wrong("recovering: no metrics of backup and store that are not known yet",
              [name for name in page if re.match("lsmem_(backup|store|cleaner|ack)", name)])

    for path, content in FILES.items():
        file = server.store / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{content}\n")
    server.do("active")
    server.do("more 64")
    page = server.scrape()
    label = 'backup="/srv/a \\"b\\" \\\\ \\\\xc3\\\\xbc"'
    wanted = {
        'lsmem_daemon_state{state="active"}': 1, 'lsmem_daemon_state{state="recovering"}': 0,
        'lsmem_daemon_info{kind="object"}': 1, "lsmem_daemon_start_time_seconds": 1700000000,
        "lsmem_recovery_progress_ratio": 1,
        f'lsmem_backup_written_bytes_total{{kind="log",{label}}}': 8192,
        'lsmem_backup_writes_total{kind="digest"}': 4, "lsmem_backup_frames_free": 30,
        "lsmem_backup_frames_low": 1, "lsmem_backup_data_shards": 31, "lsmem_backup_parity_shards": 17,
        f"lsmem_backup_lag_bytes{{{label}}}": 123456, "lsmem_ranges_total": 64,
        'lsmem_backup_info{ack="memory"}': 1, "lsmem_memory_bytes": 4242,
        "lsmem_batches_total": 90, "lsmem_batches_partial_total": 80, "lsmem_rows_full_total": 12,
        "lsmem_data_blocks_total": 116, "lsmem_parity_blocks_total": 344,
        "lsmem_ack_latency_seconds_count": 64,
        "lsmem_backup_group_bytes_sum": 4096 * sum(range(65)),
        'lsmem_backup_group_bytes_bucket{le="4096"}': 1,
        'lsmem_backup_group_bytes_bucket{le="16384"}': 4,
        # 0 to 8 in turns, from 1 on: seven times each, and 1 once more
        'lsmem_backup_group_segments_bucket{le="1"}': 15,
        'lsmem_backup_group_segments_bucket{le="8"}': 64,
        "lsmem_cluster_term": 7, "lsmem_cluster_left_seconds": 11.5,
        "lsmem_cluster_failures_total": 3, "lsmem_cluster_members_stale": 1,
        "lsmem_fetches_total": 77, 'lsmem_fetch_latency_seconds_bucket{le="0.000131072"}': 1,
        "lsmem_fetch_merged_total": 5, "lsmem_fetch_degraded_total": 3,
        "lsmem_fetch_source_total": 9, "lsmem_fetch_source_bytes_total": 900, "lsmem_fetch_source_failed_total": 7,
        "lsmem_standby": 1, "lsmem_brought_total": 11, "lsmem_brought_bytes_total": 1100,
        "lsmem_backup_fetch_reads_total": 80, "lsmem_backup_fetch_mean_seconds": 0.0015,
        "lsmem_store_live_bytes": 100 << 20, "lsmem_store_wait_seconds_sum": 1.75,
        'lsmem_store_wait_seconds_bucket{le="2e-06"}': 1,
        'lsmem_store_wait_seconds_bucket{le="8.388608"}': 23, "lsmem_store_wait_seconds_count": 25,
        'lsmem_cleaner_moved_bytes_total{level="clean"}': 14,
        'lsmem_cleaner_seconds_total{level="compact"}': 17,
        'lsmem_cleaner_seconds_total{level="clean"}': 18.000000001,
    }
    got = {name: figure(page, name) for name in wanted}
    tap.same("active: figures", got, wanted)
    tap.wrong("every figure is of the store",
              [name for name, family in page.items() for _, labels in family.samples
               if not {("name", "data"), ("uuid", UUID)} <= set(labels)])
    server.do("more 1")
    tap.same("counters rise", figure(server.scrape(), "lsmem_ranges_total"), 65)
    server.do("hold")
    tap.same("a slow reader does not hold up http_tell()",
             figure(server.scrape(), "lsmem_events_total"), 0)
    time_told = figure(server.scrape(), "lsmem_daemon_snapshot_age_seconds")
    tap.wrong("the age of the figures", [] if 0 < time_told < 60 else [time_told])
    (server.store / "cleaner/relocated_bytes").unlink()
    (server.store / "stats/stall_histogram").write_text("1 2 three\n")
    (server.store / "live_bytes").write_text("many\n")
    tap.same("metrics that this module does not have are left out",
             set(page) - set(server.scrape()),
             {"lsmem_cleaner_moved_bytes_total", "lsmem_store_wait_seconds",
              "lsmem_store_live_bytes"})
    return page


def hostile(tap: Tap, server: Server) -> None:
    """Clients that misbehave."""
    tap.wrong("unknown paths and methods", [] if scrape.refuses(server.address) else ["see above"])
    with scrape.connect(server.address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 100000)
        tap.wrong("a request without end", [] if gone(client) else ["it goes on"])
    with scrape.connect(server.address) as client:
        client.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        client.settimeout(30)
        tap.wrong("a body that does not arrive",
                  [] if b" 405 " in client.recv(4096) else ["no 405"])

    # All connections are in use: one is not HTTP, on another a client sends bytes now and then.
    begun = time.monotonic()
    clients = [scrape.connect(server.address) for _ in range(CLIENTS)]
    clients[0].sendall(b"GET /metrics HTTP/1.1\r\n")
    clients[1].sendall(b"\0\xff\r\n" * 2000 + b"\r\n\r\n")
    with subprocess.Popen([HERE / "scrape.py", server.address], stdout=subprocess.DEVNULL) as late:
        # Bytes keep the connection from being idle; the server must close it all the same.
        while late.poll() is None:
            try:
                clients[0].sendall(b"X: x\r\n")
            except OSError:
                pass
            time.sleep(0.2)
        after = time.monotonic() - begun
        tap.same("more clients than connections: served", late.returncode, 0)
    tap.wrong("more clients than connections: served after the timeout of the others",
              [] if LIMIT_SECONDS - 1 < after < 2 * LIMIT_SECONDS else [f"{after} s"])
    tap.wrong("more clients than connections: the others are disconnected",
              [index for index, client in enumerate(clients) if not gone(client)])
    for client in clients:
        client.close()


def dashboard(tap: Tap, page: dict[str, Family]) -> None:
    """The dashboard uses only metrics that are served."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = board["panels"]
    names = {name + suffix for name, family in page.items() for suffix, _ in family.samples}
    rates = {name + suffix for name, family in page.items() for suffix, _ in family.samples
             if family.kind == "counter" or suffix}
    labels = {label for family in page.values() for _, pairs in family.samples
              for label, _ in pairs} | {"instance"}
    targets = [target for panel in panels for target in panel.get("targets", [])]
    exprs = [target["expr"] for target in targets]
    queries = exprs + [item["definition"] for item in board["templating"]["list"]
                       if item["type"] == "query"]
    asked = {name for query in queries for name in re.findall(r"\blsmem_\w+", query)}

    tap.wrong("dashboard: panels have different numbers",
              [] if len({panel["id"] for panel in panels}) == len(panels) else ["they do not"])
    cells = [(x, y) for panel in panels for at in [panel["gridPos"]]
             for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
    tap.wrong("dashboard: panels have different places",
              [] if len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24 else ["no"])
    tap.wrong("dashboard: every panel has a description",
              [panel["title"] for panel in panels
               if panel["type"] != "row" and not (panel.get("targets") and panel["description"])])
    tap.wrong(f"dashboard: the {len(asked)} metrics that it uses are served", asked - names)
    tap.wrong("dashboard: rates are of counters", [
        name for expr in exprs
        for name in re.findall(r"\b(?:rate|increase)\((\w+)", expr) if name not in rates])
    tap.wrong("dashboard: and counters are in rates", [
        expr for expr in exprs for name in re.findall(r"\blsmem_\w+", expr)
        if name in rates and not re.search(rf"\b(?:rate|increase)\({name}\b", expr)])
    tap.wrong("dashboard: labels exist", [
        label for query in queries
        for found in re.findall(r"\bby \(([^)]*)\)|[{,](\w+)=", query)
        for label in re.split(r", ", found[0] or found[1]) if label not in labels])
    tap.wrong("dashboard: labels of legends exist", [
        label for target in targets for label in re.findall(r"{{(\w+)}}", target["legendFormat"])
        if label not in labels])
    tap.wrong("dashboard: every query is for the chosen stores",
              [expr for expr in exprs
               for _ in re.findall(r"lsmem_\w+(?!\w|{instance=~\"\$instance\",name=~\"\$name\")",
                                   expr)])


def guide(tap: Tap, page: dict[str, Family]) -> None:
    """The admin guide names all metrics that are served, and no others."""
    section = re.search(r"^Metrics for Prometheus\n-+\n(.*?)\n\S[^\n]*\n[-=]{4,}\n",
                        GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    told = set(re.findall(r"``(lsmem_\w+)``", section[1] if section else ""))
    tap.same("the admin guide names the metrics that are served", told ^ set(page), set())


def taken(tap: Tap, scratch: Path) -> None:
    """lsmemd itself, when another program has its port."""
    backup = scratch / "backup"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        conf = write_config(scratch, str(backup), listen)
        run = subprocess.run([LSMEMD, "-c", conf], capture_output=True, text=True, check=False,
                             timeout=60)
    # The start then fails for another reason: no module on this host, or no backup.
    tap.same("a port in use: the start goes on, to its exit status", run.returncode, 1)
    tap.wrong("a port in use: the start fails for another reason", [] if
              "\n<3>" in run.stderr.partition("another program")[2] else [run.stderr])
    tap.wrong("a port in use: the message has port, reason and advice",
              [] if f"{conf}:6: listen = {listen}: Address already in use; another program" in
              run.stderr else [run.stderr])
    tap.same("a port in use: no file is created", backup.exists(), False)
    tap.same("--check has no metrics", subprocess.run(
        [LSMEMD, "-c", conf, "--check"], capture_output=True, check=False,
        timeout=60).returncode, 1)


def main() -> int:
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="lsmemd-test.", dir="/var/tmp") as name:
        scratch = Path(name)
        server = Server(scratch, "127.0.0.1")
        page = facts(tap, server)
        hostile(tap, server)
        tap.same("ends cleanly with a connected client", (scrape.connect(server.address),
                                                        server.close())[1], 0)
        server = Server(scratch, "[::1]")
        tap.same("IPv6", scrape.request(server.address, "/")[0], 200)
        server.close()
        dashboard(tap, page)
        guide(tap, page)
        taken(tap, scratch)
    return tap.finish()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Odd, OSError, subprocess.TimeoutExpired) as failure:
        print(f"Bail out! {type(failure).__name__}: {failure}")
        sys.exit(1)
