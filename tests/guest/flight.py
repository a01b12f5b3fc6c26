# SPDX-License-Identifier: GPL-2.0
"""The Flight server in a guest: two servers, each with a store of its own, stand for two hosts. See flight.sh.

What a client gets is what the store has, also if the client is DuckDB. Partial aggregates of both, added up, are what
plain Python finds. A stream whose snapshot is revoked, or whose server stops or dies, ends with an exception.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

from pylib import ORDER, REPO, Tap, orders, revoked, run, store_made, wait_until

import duckdb
import pyarrow as pa
from pyarrow import flight

import lsmem

OBJECTS = 20000
SERVER = REPO / "tools/flight/lsmem-flight"
EXAMPLE = REPO / "tools/flight/example-hosts"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPO / "tools/python"), "LD_LIBRARY_PATH": str(REPO / "tools/lib")}
COLUMNS = {"region": "u32@0", "cents": "i64@8", "code": "bytes@24x6", "handle": "handle"}
# More than connections hold: the server must wait for its client.
WIDE = {f"copy{i}": f"bytes@0x{ORDER.itemsize}" for i in range(30)}
SNAPSHOT_MS = 500	# for the first batch; the second one comes too late
STOP_SECONDS = 20.0	# the server gives its clients 5 seconds


class Host:
    """A server."""

    def __init__(self, directory: Path, name: str, *stores: str) -> None:
        self.port_file = directory / name
        self.child = subprocess.Popen([sys.executable, SERVER, "--listen", "127.0.0.1:0", "--port-file",
                                       self.port_file, *stores], env=ENVIRONMENT, stdout=subprocess.DEVNULL)

    def address(self) -> str:
        """Where it listens, once it does."""
        wait_until("server", lambda: self.port_file.exists() or self.child.poll() is not None)
        told = json.loads(self.port_file.read_text())
        return f"{told['host']}:{told['port']}"

    def connect(self) -> flight.FlightClient:
        """A client."""
        return flight.connect(f"grpc://{self.address()}")

    def has_open(self, name: str) -> bool:
        """Has the server opened a store?"""
        opened = []
        for path in Path(f"/proc/{self.child.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                opened.append(os.readlink(path))
        return f"/dev/{name}" in opened

    def end(self, number: int) -> tuple[int, float]:
        """Ends it by a signal; returns its exit code and how long that took."""
        begun = time.monotonic()
        self.child.send_signal(number)
        return self.child.wait(STOP_SECONDS), time.monotonic() - begun


def ticket(**command: Any) -> flight.Ticket:
    """A command as a ticket."""
    return flight.Ticket(json.dumps(command))


def raises(kind: type[BaseException], call: Callable[[], Any]) -> Optional[BaseException]:
    """The exception of @call, if it is of that kind."""
    try:
        call()
    except kind as error:
        return error
    except Exception as error:
        print(f"# {type(error).__name__}: {error}")
    return None


def test_streams(tap: Tap, host: Host, name: str, made: Any) -> None:
    """What there is, and what comes."""
    with host.connect() as client, lsmem.open(f"/dev/{name}") as store:
        infos = list(client.list_flights())
        tap.same("the stores of a server", [(info.descriptor.path, info.total_records) for info in infos],
                 [([name.encode()], OBJECTS)])
        command = json.dumps({"store": name, "columns": COLUMNS, "where": ["region<=3"], "table": 3, "rows": 256})
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
        table = client.do_get(info.endpoints[0].ticket).read_all()
        tap.same("the schema was told", table.schema, info.schema)
        direct = store.scan(COLUMNS, "region<=3", table=3).to_arrow().read_all()
        tap.check("rows are those of a scan", table.num_rows == (made["region"] <= 3).sum() and
                  table.sort_by("handle") == direct.sort_by("handle"))
        tap.same("their sum is that of Python", sum(table["cents"].to_pylist()),
                 sum(int(order["cents"]) for order in made if order["region"] <= 3))
        command = json.dumps({"store": name, "aggregate": {"cents": "i64@8"}, "group": "u32@0", "exact": True})
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
        table = client.do_get(info.endpoints[0].ticket).read_all()
        tap.same("an aggregate", table.to_pylist(),
                 store.aggregate({"cents": "i64@8"}, "u32@0").to_arrow().to_pylist())
        tap.same("its schema was told", table.schema, info.schema)


def test_duckdb(tap: Tap, host: Host, name: str, made: Any) -> None:
    """DuckDB reads the stream as it comes."""
    wanted: dict[int, tuple[int, int]] = {}
    for order in made:
        region, cents = int(order["region"]), int(order["cents"])
        rows, total = wanted.get(region, (0, 0))
        wanted[region] = (rows + 1, total + cents)
    with host.connect() as client:
        reader = client.do_get(ticket(store=name, columns=COLUMNS, table=3, rows=1000, exact=True)).to_reader()
        found = duckdb.from_arrow(reader).aggregate("region, count(*), sum(cents)", "region").fetchall()
        tap.same("DuckDB over a stream: groups", {region: (rows, int(cents)) for region, rows, cents in found}, wanted)
        reader = client.do_get(ticket(store=name, columns=COLUMNS, table=3, where=["region>=2"])).to_reader()
        tap.same("DuckDB over a stream: a condition of its own",
                 duckdb.from_arrow(reader).filter("cents > 0 and region < 5").aggregate("count(*), sum(cents)").fetchall(),
                 [(int(chosen.size), int(chosen.sum())) for chosen in [
                     made["cents"][(made["region"] >= 2) & (made["region"] < 5) & (made["cents"] > 0)]]])


def test_errors(tap: Tap, host: Host, name: str, other: str) -> None:
    """What is refused, and how."""
    with host.connect() as client:
        for what, kind, request in (
                ("a store of another server", KeyError, ticket(store=other, columns=COLUMNS)),
                ("a path", KeyError, ticket(store=f"../dev/{name}", columns=COLUMNS)),
                ("no JSON", pa.ArrowInvalid, flight.Ticket(b"columns")),
                ("no object", pa.ArrowInvalid, flight.Ticket(b"[]")),
                ("neither columns nor aggregate", pa.ArrowInvalid, ticket(store=name)),
                ("both", pa.ArrowInvalid, ticket(store=name, columns=COLUMNS, aggregate={})),
                ("no field", pa.ArrowInvalid, ticket(store=name, columns={"a": "u32"})),
                ("a field that is a number", pa.ArrowInvalid, ticket(store=name, columns={"a": 5})),
                ("no list of columns", pa.ArrowInvalid, ticket(store=name, columns=["u32@0"])),
                ("a handle", pa.ArrowInvalid, ticket(store=name, columns=COLUMNS, handles=[-1])),
                ("an option", pa.ArrowInvalid, ticket(store=name, columns=COLUMNS, colour="red")),
                ("a number", flight.FlightServerError, ticket(store=name, columns=COLUMNS, threads=65))):
            tap.check(f"refused: {what}", bool(raises(kind, lambda: client.do_get(request).read_all())))
        tap.check("refused: a command for a ticket",
                  bool(raises(pa.ArrowInvalid, lambda: client.get_flight_info(
                      flight.FlightDescriptor.for_path(name)))))


def test_hosts(tap: Tap, addresses: list[str], made: list[Any]) -> None:
    """The example: partial aggregates of all hosts."""
    shown = run("env", f"PYTHONPATH={REPO / 'tools/python'}", sys.executable, EXAMPLE, "--sum", "i64@8",
                "--group-by", "u32@0", "--where", "u32@0>0", "--table", 3, *addresses)
    wanted: dict[int, tuple[int, int, int, int]] = {}
    for order in (order for part in made for order in part if order["region"] > 0):
        region, cents = int(order["region"]), int(order["cents"])
        rows, total, low, high = wanted.get(region, (0, 0, cents, cents))
        wanted[region] = (rows + 1, total + cents, min(low, cents), max(high, cents))
    tap.same("partial aggregates of two hosts, added up", {
        row["group"]: (row["rows"], row["i64@8_sum"], row["i64@8_min"], row["i64@8_max"])
        for row in map(json.loads, shown.splitlines())}, wanted)
    failed = subprocess.run([sys.executable, EXAMPLE, addresses[0], "127.0.0.1:1"], capture_output=True,
                            env=ENVIRONMENT, check=False)
    tap.check("a host that does not answer ends the whole", failed.returncode != 0 and not failed.stdout)


def begin(client: flight.FlightClient, name: str, **options: Any) -> Any:
    """A stream of which the first batch was read, and which the server cannot finish."""
    reader = client.do_get(ticket(store=name, columns=WIDE, rows=256, ahead=1, **options))
    reader.read_chunk()
    return reader


def test_cut_off(tap: Tap, hosts: list[Host], names: list[str]) -> None:
    """Streams that end early."""
    with hosts[0].connect() as client:
        before = revoked(names[0])
        reader = begin(client, names[0], exact=True, time_ms=SNAPSHOT_MS)
        wait_until("revoked snapshot", lambda: revoked(names[0]) > before)
        error = raises(flight.FlightUnavailableError, reader.read_all)
        tap.check("a revoked snapshot is an exception", bool(error and "revoked" in str(error)), str(error))
        reader = begin(client, names[0])
        open_meanwhile = hosts[0].has_open(names[0])
        reader.cancel()
        wait_until("closed store", lambda: not hosts[0].has_open(names[0]))
        tap.check("a client that leaves does not keep the store open", open_meanwhile)
        stalled = begin(client, names[0])
        status, seconds = hosts[0].end(signal.SIGTERM)
        tap.check(f"SIGTERM, and a client that reads nothing: exit code 0, {seconds:.1f} s", status == 0, str(status))
        tap.check("the client's stream is an exception", bool(raises(flight.FlightError, stalled.read_all)))
        tap.check("the port file is gone", not hosts[0].port_file.exists())
    with hosts[1].connect() as client:
        stalled = begin(client, names[1])
        hosts[1].end(signal.SIGKILL)
        tap.check("a server that dies is an exception", bool(raises(flight.FlightError, stalled.read_all)))


@contextlib.contextmanager
def running(directory: Path, *stores: list[str]) -> Iterator[list[Host]]:
    """Servers, one for each list of stores."""
    hosts = [Host(directory, f"port{i}", *names) for i, names in enumerate(stores)]
    try:
        yield hosts
    finally:
        for host in hosts:
            host.child.kill()
            host.child.wait()


def main() -> int:
    tap = Tap()
    seed = int(os.environ.get("LSMEM_SEED") or random.randrange(1 << 32))
    tap.say(f"seed {seed}")
    made = [orders(OBJECTS, seed + i) for i in range(2)]
    with tempfile.TemporaryDirectory(prefix="lsmem-") as directory, \
            store_made("128M", OBJECTS + 100) as one, store_made("128M", OBJECTS + 100) as other:
        names = [one, other]
        for name, part in zip(names, made):
            with lsmem.open(f"/dev/{name}") as store:
                store.alloc_many(part, table=3)
        with running(Path(directory), [one], [other], []) as hosts:
            test_streams(tap, hosts[0], one, made[0])
            test_duckdb(tap, hosts[0], one, made[0])
            test_errors(tap, hosts[0], one, other)
            test_hosts(tap, [hosts[0].address(), hosts[1].address()], made)
            with hosts[2].connect() as client:
                tap.same("without names: all object stores", sorted(
                    info.descriptor.path[0].decode() for info in client.list_flights()), sorted(names))
            status, seconds = hosts[2].end(signal.SIGTERM)
            tap.check(f"SIGTERM: exit code 0, {seconds:.1f} s", status == 0 and seconds < 5, str(status))
            test_cut_off(tap, hosts[:2], names)
    return tap.finish()


sys.exit(main())
