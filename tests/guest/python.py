# SPDX-License-Identifier: GPL-2.0
"""The Python package in a guest: objects, and scans as arrays, for Arrow and for DuckDB. See python.sh.

What scans find is compared with what was written, by plain Python. While a writer moves amounts between
objects, the sum of an exact scan is what the writer has noted for its version. A scan whose snapshot is revoked
ends with an exception, for each consumer.
"""

import asyncio
import contextlib
import errno
import gc
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

from pylib import ORDER, REPO, Tap, attribute, orders, revoked, run, store_made, wait_until

import duckdb
import numpy as np
import pyarrow as pa

import lsmem

OBJECTS = max(3000, 100 * int(os.environ.get("LSMEM_SCALE", "100")))
ACCOUNTS = 2000
START = 1000000		# of an account
SCANS = 20		# beside the writer
TRANSFERS = 500		# at least
SNAPSHOT_MS = 500	# for the first batch; the second one comes too late
ROWS = 256		# of a batch: the fewest


def fails(call: Callable[[], Any], number: int) -> Optional[lsmem.Error]:
    """The exception of @call, if it is an error with errno @number."""
    try:
        call()
    except lsmem.Error as error:
        return error if error.errno == number else None
    return None


# ---- Objects ----

def test_objects(tap: Tap, store: lsmem.Store) -> None:
    """Each call, and its errors."""
    made = store.alloc(b"abcdef", table=7)
    tap.same("an object has bytes, version, length and table", store.get(made.handle),
             lsmem.Object(b"abcdef", made.version, 6, 7))
    tap.same("a part of it", store.read(made.handle, 3, 2), b"cde")
    tap.same("more than there is", store.read(made.handle, 100, 4), b"ef")
    tap.same("nothing", store.get(made.handle, 0).data, b"")
    target = bytearray(4)
    tap.same("into a buffer", (store.read_into(made.handle, target, 1), target), (4, bytearray(b"bcde")))
    array = np.zeros(2, "<u2")
    store.read_into(made.handle, array)
    tap.same("into an array", array.tobytes(), b"abcd")
    second = store.replace(made.handle, memoryview(b"x1x2x3")[::2], expect=made.version)
    tap.same("replaced, from a buffer with gaps", (store.read(made.handle), second > made.version), (b"xxx", True))
    for name, call in (("replace", lambda: store.replace(made.handle, b"z", expect=made.version)),
                       ("free", lambda: store.free(made.handle, expect=made.version))):
        error = fails(call, errno.EILSEQ)
        tap.check(f"{name}: another version is refused, and told", bool(error and error.version == second))
    large = random.Random(1).randbytes(1 << 20)
    store.replace(made.handle, large)
    tap.check("the largest object", store.read(made.handle) == large)
    tap.check("too large", bool(fails(lambda: store.replace(made.handle, large + b"x"), errno.EINVAL)))
    tap.check("durable, in a volatile store", bool(fails(lambda: store.sync(), errno.EOPNOTSUPP)))
    used = store.stat()["handles_used"]
    store.free(made.handle, expect=store.get(made.handle, 0).version)
    tap.same("freed: the store has one less", used - store.stat()["handles_used"], 1)
    tap.check("freed: stale", bool(fails(lambda: store.read(made.handle), errno.ESTALE)))
    tap.check("never given out", bool(fails(lambda: store.read(12345), errno.ENOENT)))
    reader = lsmem.open(f"/dev/{os.path.basename(os.readlink(f'/proc/self/fd/{store.fileno()}'))}", readonly=True)
    tap.check("a reader cannot write", bool(fails(lambda: reader.alloc(b"x"), errno.EBADF)))
    reader.close()
    try:
        reader.stat()
        tap.check("a closed store is told", False)
    except ValueError as error:
        tap.same("a closed store is told", str(error), "the store is closed")


def test_parts(tap: Tap, store: lsmem.Store) -> None:
    """Changes of parts, and by version."""
    handle, first = store.alloc(b"abcdef")
    version = store.write(handle, b"XY", 8)
    tap.same("written behind the end", store.get(handle)[:2], (b"abcdef\0\0XY", version))
    tap.same("appended", store.append(handle, bytearray(b"Z"), expect=version)[0], 10)
    store.truncate(handle, 3)
    tap.same("cut", store.read(handle), b"abc")
    tap.check("beyond the largest", bool(fails(lambda: store.write(handle, b"x", 1 << 20), errno.EFBIG)))
    store.truncate(handle, 24)
    tap.same("sums", (store.add(handle, "i64@8", -5), store.add(handle, "i64@8", 2), store.add(handle, "f64@16", 0.5)),
             (-5, -3, 0.5))
    tap.check("a sum beyond the type", bool(fails(lambda: store.add(handle, "u32@8", 1 << 33), errno.EOVERFLOW)))
    tap.same("exchanged", (store.compare_exchange(handle, 0, b"ab", b"AB"), store.read(handle, 3)), (b"ab", b"ABc"))
    tap.same("not exchanged: what is there", (store.compare_exchange(handle, 0, b"ab", b"xy"), store.read(handle, 3)),
             (b"AB", b"ABc"))
    version = store.get(handle, 0).version
    error = fails(lambda: store.replace(handle, b"old", older=version), errno.EILSEQ)
    tap.check("not older: refused, with the version, in words of the library",
              bool(error and error.version == version and "version than the caller allows" in str(error)), str(error))
    tap.check("older", store.replace(handle, b"new", older=version + 1) > version)
    tap.check("not newer", bool(fails(lambda: store.free(handle, newer=1 << 62), errno.EILSEQ)))
    for arguments in ({"older": 1, "newer": 1}, {"elder": 1}):
        try:
            store.free(handle, **arguments)  # type: ignore[arg-type]
            tap.check(f"{arguments} is refused", False)
        except (TypeError, ValueError):
            tap.check(f"{arguments} is refused", store.read(handle) == b"new")
    seen: list[bytes] = []

    def change(data: bytes) -> bytes:
        seen.append(data)
        if len(seen) < 3:
            store.append(handle, b"!")
        return data + b"?"
    store.update(handle, change)
    tap.same("by a function, again when it is too late", (store.read(handle), seen),
             (b"new!!?", [b"new", b"new!", b"new!!"]))
    store.free(handle, newer=first)
    tap.check("newer: freed", bool(fails(lambda: store.write(handle, b"x"), errno.ESTALE)))


def viewed(store: lsmem.Store, handle: int) -> bytes:
    """The bytes of an object, by a view."""
    with store.view(handle) as view:
        return b"".join(bytes(piece) for piece in view.pieces)


def test_views(tap: Tap, store: lsmem.Store, name: str) -> None:
    """Views: what they show, and for how long."""
    made = store.alloc(b"one two", table=7)
    view = store.view(made.handle)
    with view:
        only, = view.pieces
        store.replace(made.handle, b"another")
        tap.same("a view has the version that it began with", (bytes(only), view.tobytes(), view.version, view.length,
                                                               view.table, store.read(made.handle)),
                 (b"one two", b"one two", made.version, 7, 7, b"another"))
        tap.same("in place, for reading", (only.readonly, only.format, np.frombuffer(only, "u1").tobytes()),
                 (True, "B", b"one two"))
    for what, call in (("its memory", lambda: bytes(only)), ("its pieces", lambda: view.pieces),
                       ("a second end", lambda: view.__exit__(None, None, None))):
        try:
            call()
            tap.check(f"a view that is over: {what}", False)
        except ValueError:
            tap.check(f"a view that is over: {what}", True)
    with view, store.view(made.handle) as again:
        tap.same("begun again, and two at a time", (view.tobytes(), again.tobytes()), (b"another", b"another"))
    for _ in range(200):
        viewed(store, made.handle)
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(store.view(made.handle))
        tap.check("one view too many", bool(fails(lambda: viewed(store, made.handle), errno.EAGAIN)))
    tap.same("after all of them", viewed(store, made.handle), b"another")
    for what, function in (("slice", lambda piece: piece[2:5]), ("copy of the memoryview", memoryview),
                           ("array", lambda piece: np.frombuffer(piece, "u1"))):
        with lsmem.open(f"/dev/{name}") as other:
            said = []
            try:
                with other.view(made.handle) as kept:
                    rest = function(kept.pieces[0])
            except BufferError as error:
                said.append(str(error))
            try:
                other.close()
            except BufferError as error:
                said.append(str(error))
            tap.check(f"a {what} that is kept is told, and the store stays open",
                      len(said) == 2 and len(bytes(rest)) > 0 and other.read(made.handle) == b"another", *said)
            tap.same(f"a {what} that is kept: the view has ended", viewed(other, made.handle), b"another")
            del rest
    for what, number in (("an exception", KeyError), ("the end of a generator", GeneratorExit)):
        try:
            with store.view(made.handle) as view:
                rest = view.pieces[0][1:]
                raise number()
        except BaseException as error:  # pylint: disable=broad-exception-caught
            tap.check(f"{what} is not hidden", type(error) is number, repr(error))
        del rest
    store.free(made.handle)
    tap.check("of what is freed", bool(fails(lambda: viewed(store, made.handle), errno.ESTALE)))
    with lsmem.open(f"/dev/{name}", readonly=True) as reader:
        tap.check("a reader has none", bool(fails(lambda: viewed(reader, made.handle), errno.EOPNOTSUPP)))
    opened = lsmem.open(f"/dev/{name}")
    handle = opened.alloc(b"closed").handle
    view = opened.view(handle)
    piece = view.__enter__().pieces[0]
    opened.close()
    try:
        bytes(piece)
        tap.check("a store that is closed ends its views", False)
    except ValueError:
        tap.check("a store that is closed ends its views", True)
    store.free(handle)


def test_views_revoked(tap: Tap) -> None:
    """Views that are held for too long, and memory that was used up once, which is given in any order."""
    with store_made("128M", 1000) as name:
        attribute(name, "limits/view_ms").write_text("10")
        counter = attribute(name, "cleaner/views_revoked")
        with lsmem.open(f"/dev/{name}") as store:
            handle, other, data = store.alloc(b"held").handle, store.alloc(b"other").handle, os.urandom(100000)
            tap.same("the bound on views", store.view_bound, 0.01)

            def late(error: Optional[Exception]) -> None:
                before = int(counter.read_text())
                with store.view(handle) as view:
                    store.replace(handle, view.pieces[0])
                    end = time.monotonic() + 60
                    while int(counter.read_text()) == before and time.monotonic() < end:
                        store.replace(other, data)
                    if error:
                        raise error
            for what, error in (("a view that is revoked has an exception of its own", None),
                                ("also if there is another one, which may come of wrong bytes", KeyError())):
                found = fails(lambda wrong=error: late(wrong), errno.ECANCELED)
                tap.check(what, isinstance(found, lsmem.ViewRevoked) and isinstance(found, lsmem.Revoked) and
                          "the view was revoked" in str(found) and found.__context__ is error, repr(found))
            most, wrong = 0, 0
            for _ in range(3000):
                data = data[1:] + data[:1]
                store.replace(other, data)
                try:
                    with store.view(other) as view:
                        most, found = max(most, len(view.pieces)), view.tobytes()
                except lsmem.ViewRevoked:
                    continue
                wrong += found != data
                if most > 1:
                    break
            tap.check("an object in several pieces", most > 1 and not wrong, f"{most} pieces, {wrong} wrong")


def test_large(tap: Tap, store: lsmem.Store) -> None:
    """A large object."""
    used = store.stat()["handles_used"]
    large, content = store.make_large(part=1 << 16, table=8), bytearray(random.Random(2).randbytes(3 << 20))
    large.append(content[:100000])
    offset, version = large.append(content[100000:])
    tap.same("large: appended", (offset, store.large(large.handle).read() == content), (100000, True))
    content[70000:70005] = b"wrote"
    large.write(b"wrote", 70000, expect=version)
    tap.check("large: written", large.read(200000, 60000) == content[60000:260000])
    error = fails(lambda: large.write(b"x", expect=version), errno.EILSEQ)
    tap.check("large: another version", bool(error and error.version == large.attributes.version))
    tap.same("large: attributes", large.attributes[1:], (3 << 20, 1 << 16, 8))
    tap.same("large: nothing to sweep", store.sweep_large(8), lsmem.Report(1, 48, 0, 0, 0))
    large.free()
    tap.same("large: freed", store.stat()["handles_used"], used)


def test_table(tap: Tap, store: lsmem.Store) -> None:
    """A table with keys, and roots."""
    table = store.table(9)
    table["a"] = b"1"
    version = table.put("b", bytearray(b"second"), new=True)
    tap.same("table: values", (table["a"], table.get(b"b"), table.get("c"), table.get("c", b"?")), (b"1", b"second", None, b"?"))
    tap.check("table: a key that is there", bool(fails(lambda: table.put("a", b"x", new=True), errno.EEXIST)))
    handle = table.alloc("17", b"x")
    tap.check("table: one object for a key", table.alloc("17", b"y") == handle and table.get("17") == b"x")
    del table["17"]
    tap.check("table: a key that is not", bool(fails(lambda: table.put("c", b"x", old=True), errno.ENOENT)))
    error = fails(lambda: table.put("b", b"x", expect=version - 1), errno.EILSEQ)
    tap.check("table: another version", bool(error and error.version == version))
    found = table.item("b")
    tap.check("table: an item", bool(found and found.version == version and store.read(found.handle)[:6] == b"second"))
    big = random.Random(3).randbytes(100000)
    table.put_many({f"key {i}": b"value %d" % i for i in range(300)} | {"big": big})
    tap.same("table: many", table.get_many([*(f"key {i}" for i in range(300)), "none", "big"]),
             [*(b"value %d" % i for i in range(300)), None, big])
    tap.same("table: all", (len(table), dict(table.items())["big".encode()] == big, len(set(table))), (303, True, 303))
    del table["a"]
    tap.same("table: removed", ("a" in table, table.remove("a"), len(table)), (False, False, 302))
    try:
        del table["a"]
        tap.check("table: KeyError", False)
    except KeyError:
        tap.check("table: KeyError", True)
    tap.same("table: evicted", (table.evict(1 << 30) > 100000, len(table)), (True, 0))
    table.close()
    handle = store.alloc(b"root").handle
    store.roots.set("python", handle, expect=0)
    tap.check("roots: not what is expected", bool(fails(lambda: store.roots.set("python", None, expect=0), errno.EILSEQ)))
    tap.same("roots", (store.roots.get("python"), store.roots.get("none"), store.roots.all()),
             (handle, None, {"python": handle}))
    store.roots.set("python", None)
    tap.same("roots: removed", store.roots.all(), {})
    store.free(handle)


async def notes_of(watch: lsmem.Watch, work: Callable[[], Any], nr: int) -> list[lsmem.Note]:
    """The next @nr notes; @work is done when this task waits for the first."""
    asyncio.get_running_loop().call_soon(work)
    return [await anext(watch) for _ in range(nr)]


async def waits_twice(watch: lsmem.Watch) -> list[Any]:
    """What two tasks get that wait for the same watch, of which the first one is cancelled then."""
    tasks = [asyncio.ensure_future(anext(watch)) for _ in range(2)]
    await asyncio.wait([tasks[1]])
    tasks[0].cancel()
    return [type(result) for result in await asyncio.gather(*tasks, return_exceptions=True)]


async def all_of(watch: lsmem.Watch) -> list[str]:
    """The kinds of all notes, to the end."""
    return [note.kind async for note in watch]


def test_watch(tap: Tap, store: lsmem.Store) -> None:
    """Notes of changes: as they are, by an iterator, by an event loop; lost; a cursor; of a table with keys."""
    with store.watch(11, entries=8) as watch:
        tap.same("watch: nothing", watch.take(), [])
        handle, version = store.alloc(b"watched", table=11)
        store.alloc(b"other", table=12)
        second = store.replace(handle, b"again")
        notes = [next(watch), next(watch)]
        tap.same("watch: an iterator", [note[:3] for note in notes],
                 [("new", handle, version), ("replaced", handle, second)])
        with store.watch(11, cursor=notes[0].cursor) as again:
            tap.same("watch: a cursor", again.take(), notes[1:])
        found = asyncio.run(notes_of(watch, lambda: store.free(handle), 1))
        tap.same("watch: an event loop", [note[:2] for note in found], [("freed", handle)])
        tap.same("watch: one task at a time", asyncio.run(waits_twice(watch)), [asyncio.CancelledError, RuntimeError])

        def group() -> None:
            with store.changes() as changes:
                for text in (b"1", b"2", b"3"):
                    changes.alloc(text, table=11)

        found = asyncio.run(notes_of(watch, group, 3))
        tap.same("watch: a group", [(note.kind, note.more, note.version == found[0].version) for note in found],
                 [("new", True, True), ("new", True, True), ("new", False, True)])
        for note in found:
            for _ in range(3):
                last = store.replace(note.handle, b"more")
        lost = watch.take()
        tap.same("watch: lost", [note.kind for note in lost], ["lost"])
        tap.check("watch: lost versions are higher", lost[0].version < last)
        tap.same("watch: and no more", watch.take(), [])
    try:
        watch.take()
        tap.check("watch: closed", False)
    except ValueError:
        tap.check("watch: closed", True)
    for note in found:
        store.free(note.handle)
    with store.table(9) as table, table.watch() as watch:
        table["key"] = b"value"
        note = next(watch)
        found_item = table.noted(note)
        tap.same("watch: key and value", found_item, (b"key", table.item("key")))
        del table["key"]
        tap.same("watch: of what is gone", (next(watch).kind, table.noted(note)), ("freed", None))
    with store_made("128M", 1000) as name:
        with lsmem.open(f"/dev/{name}") as other:
            watch = other.watch(0)
            other.alloc(b"last")
    tap.same("watch: the end", (asyncio.run(all_of(watch)), list(watch)), (["new"], []))
    watch.close()


def test_names(tap: Tap, name: str) -> None:
    """Stores by name and uuid, and waiting for them."""
    lsmem.wait_active(f"/dev/{name}")
    attribute(name, "given_name").write_text("python")
    for path in ("name:python", f"uuid:{attribute(name, 'uuid').read_text().strip()}"):
        lsmem.wait_active(path, 0)
        with lsmem.open(path) as store:
            tap.same(path.partition(":")[0], os.path.realpath(f"/proc/self/fd/{store.fileno()}"), f"/dev/{name}")
    attribute(name, "given_name").write_text("\n")
    tap.check("no such name", bool(fails(lambda: lsmem.open("name:python"), errno.ENOENT)))
    tap.check("waiting in vain", bool(fails(lambda: lsmem.wait_active("name:python", 0.05), errno.ETIMEDOUT)))


def test_changes(tap: Tap, store: lsmem.Store) -> None:
    """Changes of several objects: all or none."""
    first, second = store.alloc(b"first", table=5), store.alloc(b"second")
    used = store.stat()["handles_used"]
    with store.changes() as changes:
        changes.replace(first.handle, bytearray(b"other"), expect=first.version)
        changes.free(second.handle)
        third = changes.alloc(b"third", table=6)
    tap.same("all are made", [store.get(made.handle)[0::3] for made in (first, third)],
             [(b"other", 5), (b"third", 6)])
    tap.check("with one version", store.get(first.handle).version == store.get(third.handle).version == third.version)
    tap.check("one is freed", bool(fails(lambda: store.read(second.handle), errno.ESTALE)))

    def wrong() -> None:
        with store.changes() as several:
            several.alloc(b"fourth")
            several.replace(third.handle, b"changed", expect=first.version)
            several.free(first.handle)
    error = fails(wrong, errno.EILSEQ)
    tap.check("another version: an error with the present one", bool(error and error.version == third.version))
    tap.same("none is made", (store.read(first.handle), store.read(third.handle), store.stat()["handles_used"]),
             (b"other", b"third", used))

    version = store.get(first.handle).version

    def checked(expect: int) -> lsmem.Change:
        with store.changes() as several:
            same = several.check(first.handle, expect=expect)
            several.replace(third.handle, b"behind")
        return same
    tap.check("a check of another version", bool(fails(lambda: checked(version - 1), errno.EILSEQ)) and
              store.read(third.handle) == b"third")
    tap.check("what is checked keeps its version", checked(version).version == version ==
              store.get(first.handle).version and store.read(third.handle) == b"behind")

    with store.table(12) as here, store.table(13) as there:
        here["old"] = b"1"
        old = here.item("old")
        assert old
        with store.changes() as changes:
            put = changes.put(here, "old", b"2", expect=old.version)
            changes.put(there, b"new", b"3", new=True)
            changes.check_key(there, "none", absent=True)
            same = changes.check(third.handle)
        tap.same("keys of two tables", (here["old"], there["new"], put.version, same.handle),
                 (b"2", b"3", store.get(put.handle).version, third.handle))

        def torn(expect: int) -> None:
            with store.changes() as several:
                several.remove(there, "new")
                several.check_key(here, "old", expect=expect)
                several.free(third.handle)
        error = fails(lambda: torn(old.version), errno.EILSEQ)
        tap.check("a key has another version", bool(error and error.version == put.version and there["new"] == b"3" and
                                                    store.read(third.handle)))
        with store.changes() as changes:
            changes.remove(there, "new")
            changes.remove(here, "old", expect=put.version)
        tap.same("both are removed", (len(here), len(there)), (0, 0))

    def interrupted() -> None:
        with store.changes() as several:
            several.free(first.handle)
            raise lsmem.Error(errno.EINTR, "by itself")
    tap.check("an exception before: none is made", bool(fails(interrupted, errno.EINTR)) and
              store.read(first.handle) == b"other")
    for handle in (first.handle, third.handle):
        store.free(handle)


@contextlib.contextmanager
def durable_made(drive: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A durable store with a backup on a drive, whose content is lost; its name, and its daemon."""
    daemon, ctl = REPO / "daemon/lsmemd", REPO / "tools/lsmemctl/lsmemctl"
    with tempfile.TemporaryDirectory() as directory:
        conf = Path(directory) / "conf"
        conf.write_text(f"[store]\nsize = 128M\n[backup]\npath = {drive}\n")
        environment = os.environ | {"STATE_DIRECTORY": f"{directory}/state"}
        run(ctl, "format", drive, "--force")
        subprocess.run([daemon, "-c", conf, "--init"], check=False, env=environment, capture_output=True)
        with subprocess.Popen([daemon, "-c", conf], env=environment, text=True) as running:
            try:
                wait_until("active store", lambda: any(state.read_text() == "active\n" for state in
                                                       Path("/sys/class/lsmem").glob("*/state")))
                name = next(iter(Path("/sys/class/lsmem").glob("*/state"))).parent.name
                lsmem.wait_active(f"/dev/{name}", 60)
                yield name, running
            finally:
                running.send_signal(signal.SIGCONT)
                running.terminate()
        run(ctl, "destroy", name)


async def beats_until(task: asyncio.Future[Any], most: int) -> int:
    """Counts moments, up to @most of 10 ms, until @task has ended: whether other tasks go on."""
    for count in range(most):
        if (await asyncio.wait([task], timeout=0.01))[0]:
            return count
    return most


async def changed(store: lsmem.Store, text: bytes, **how: Any) -> lsmem.Change:
    """A durable change of one object, or of a second one that has to have a version."""
    async with store.changes(durable=True) as changes:
        made = changes.alloc(text)
        if how:
            changes.check(**how)
    return made


async def change_durably(tap: Tap, store: lsmem.Store, daemon: subprocess.Popen[str]) -> None:
    """Durable changes of many tasks, while the daemon sleeps for a moment."""
    first = await changed(store, b"first")
    tap.same("async: a durable change", (store.read(first.handle), first.version), (b"first", store.get(first.handle).version))
    try:
        await changed(store, b"none", handle=first.handle, expect=(first.version or 0) - 1)
        tap.check("async: another version", False)
    except lsmem.Error as error:
        tap.same("async: another version", (error.errno, error.version), (errno.EILSEQ, first.version))
    daemon.send_signal(signal.SIGSTOP)
    tasks = [asyncio.ensure_future(changed(store, b"text %d" % i)) for i in range(200)]
    everything = asyncio.gather(*tasks)
    tap.same("async: other tasks go on, and no change ends without the daemon",
             (await beats_until(asyncio.ensure_future(asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)), 20)), 20)
    gone = asyncio.ensure_future(changed(store, b"cancelled"))
    await asyncio.sleep(0)
    gone.cancel()
    daemon.send_signal(signal.SIGCONT)
    made = await asyncio.wait_for(everything, 60)
    tap.same("async: all are made", [store.read(change.handle) for change in made], [b"text %d" % i for i in range(200)])
    tap.check("async: one is cancelled", isinstance((await asyncio.gather(gone, return_exceptions=True))[0],
                                                    asyncio.CancelledError))
    with store.table(5) as table:
        try:
            async with store.changes() as changes:
                changes.put(table, "key", b"value")
            tap.check("async: no keys", False)
        except ValueError:
            tap.check("async: no keys", "key" not in table)
    async with store.changes():
        pass
    limit = attribute(os.path.basename(os.readlink(f"/proc/self/fd/{store.fileno()}")), "limits/durable_ms")
    limit.write_text("200")
    daemon.send_signal(signal.SIGSTOP)
    try:
        await changed(store, b"late")
        tap.check("async: too late to be known", False)
    except lsmem.Error as error:
        tap.same("async: too late to be known", error.errno, errno.ETIMEDOUT)
    asyncio.ensure_future(changed(store, b"left"))
    await asyncio.sleep(0)
    daemon.send_signal(signal.SIGCONT)


def test_async(tap: Tap) -> None:
    """Durable changes for which an event loop waits; a second loop; what a loop that has ended has left."""
    drive = Path("/dev/drive/log0")
    if not drive.exists():
        tap.check(f"async: durable changes # SKIP no {drive}", True)
        return
    with durable_made(drive) as (name, daemon), lsmem.open(f"/dev/{name}") as store:
        try:
            asyncio.run(change_durably(tap, store, daemon))
        except lsmem.Error as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            tap.check("async: durable changes # SKIP no io_uring", True)
            return
        again = asyncio.run(changed(store, b"again"))
        tap.same("async: another loop", store.read(again.handle), b"again")


def test_many(tap: Tap, store: lsmem.Store) -> None:
    """Many objects at once are all allocated, or none."""
    used = store.stat()["handles_used"]
    rows = np.arange(50000, dtype="u1").reshape(-1, 5)
    handles = store.alloc_many(rows[::2], table=9)
    tap.check("rows of an array are objects", len(handles) == 5000 and
              all(store.get(int(handles[i]))[0::3] == (rows[2 * i].tobytes(), 9) for i in range(0, 5000, 501)))
    for handle in handles:
        store.free(int(handle))
    most = store.stat()["handles_max"] + 1000
    error = fails(lambda: store.alloc_many(np.zeros(most, "u4")), errno.EMFILE)
    tap.check("more than there are handles: an error", bool(error))
    tap.same("and none is left", store.stat()["handles_used"], used)


    for wrong in (np.zeros((2, 2, 2)), np.array(["text", None])):
        try:
            store.alloc_many(wrong)
            tap.check("what has no bytes is refused", False)
        except ValueError as refused:
            tap.check("what has no bytes is refused", "of values" in str(refused), str(refused))


# ---- Scans at rest ----

class Content:
    """What a store has: orders by handle, and objects that are too short."""

    def __init__(self, store: lsmem.Store, seed: int) -> None:
        made = orders(OBJECTS, seed)
        handles = store.alloc_many(made, table=3)
        self.short = [store.alloc(b"short", table=3).handle for _ in range(100)]
        self.other = [store.alloc(made[0].tobytes(), table=4).handle for _ in range(50)]
        dice = random.Random(seed)
        self.orders = dict(zip(map(int, handles), made))
        self.versions: dict[int, int] = {}
        for handle in dice.sample(list(self.orders), OBJECTS // 3):
            if dice.random() < 0.5:
                store.free(handle)
                del self.orders[handle]
            else:
                self.orders[handle] = made[dice.randrange(OBJECTS)]
                self.versions[handle] = store.replace(handle, self.orders[handle].tobytes())

    def suits(self, order: Any) -> bool:
        """The conditions WHERE, by Python."""
        return bool(order["region"] >= 2 and order["weight"] < 500 and order["cents"] > -(1 << 39))


COLUMNS = {**lsmem.columns_of(ORDER), "handle": "handle", "version": "version", "length": "length",
           "table": "table"}
WHERE = ("region>=2", "weight<500", f"i64@8>{-(1 << 39)}")


def compare(content: Content, batch: Any, where: bool) -> list[str]:
    """What is wrong with rows of COLUMNS."""
    wanted = {handle: order for handle, order in content.orders.items() if not where or content.suits(order)}
    if sorted(wanted) != sorted(map(int, batch["handle"])):
        return [f"{len(batch['handle'])} objects, wanted {len(wanted)}, or others"]
    rows = np.zeros(len(batch["handle"]), ORDER)
    for name in ORDER.names or ():
        rows[name] = batch[name]
    wrong = [f"{int(handle):#x}" for handle, row in zip(batch["handle"], rows)
             if row.tobytes() != wanted[int(handle)].tobytes()]
    versions = dict(zip(map(int, batch["handle"]), map(int, batch["version"])))
    wrong += [f"{handle:#x}: version {versions[handle]}" for handle, version in content.versions.items()
              if handle in wanted and versions[handle] != version]
    if set(batch["length"]) != {ORDER.itemsize} or set(batch["table"]) != {3}:
        wrong.append("length or table")
    return wrong


def test_scans(tap: Tap, store: lsmem.Store, content: Content) -> None:
    """Each plan, as arrays."""
    handles = list(content.orders)
    for plan, options in (("table", {}), ("log", {"exact": True}), ("log", {"threads": 3}), ("auto", {}),
                          ("lookup", {"handles": handles}), ("sorted", {"handles": np.array(handles, "u8")})):
        for where in (False, True):
            scan = store.scan(COLUMNS, WHERE if where else (), table=3, plan=plan, rows=ROWS, **options)
            name = f"plan {plan}{', ' + ', '.join(options) if options else ''}{', where' if where else ''}"
            tap.wrong(name, compare(content, scan.read(), where))
            result = scan.result
            listed = "handles" in options
            tap.check(f"{name}: the result", bool(
                result and (plan in ("auto", result.plan)) and bool(result.version) == (result.plan == "log") and
                result.rows == len(handles) + (0 if listed else len(content.short)) and
                result.shorter == result.rows - len(handles) and
                (where or result.selected == len(handles))), str(result))
    tap.same("batches are bounded", {len(batch["cents"]) <= ROWS for batch in store.scan(
        {"cents": "i64@8"}, table=3, rows=ROWS)}, {True})
    wide = {str(i): f"bytes@0x{ORDER.itemsize}" for i in range(20)}
    most = max(len(batch["0"]) for batch in store.scan(wide, table=3, threads=1))
    tap.check("by default, to 1 MiB", 300 < most <= (1 << 20) / 20 / ORDER.itemsize, f"{most} rows")
    tap.same("no objects, no rows", len(store.scan({"cents": "i64@8"}, table=11).read()["cents"]), 0)
    for none in ([], np.empty(0, "u8")):
        tap.same("an empty list has no objects", len(store.scan({"cents": "i64@8"}, handles=none).read()["cents"]), 0)
    explain = store.explain(table=3)
    tap.check("a plan is explained", explain.plan in explain.text and explain.cost_ns[explain.plan] > 0 and
              explain.objects >= OBJECTS // 2, str(explain))
    tap.check("a wrong number is refused",
              bool(fails(lambda: store.scan({"cents": "i64@8"}, threads=65).read(), errno.EINVAL)))


def test_arrow(tap: Tap, store: lsmem.Store, content: Content) -> None:
    """Arrow and DuckDB; without copies."""
    scan = store.scan(COLUMNS, WHERE, table=3, exact=True, rows=ROWS)
    before = pa.total_allocated_bytes()
    table = scan.to_arrow().read_all()
    tap.same("Arrow's memory has none of it", pa.total_allocated_bytes(), before)
    table.validate(full=True)
    tap.wrong("an Arrow table", compare(content, {
        name: table[name].to_numpy() if name not in ("code", "rest") else
        np.array(table[name].to_pylist(), f"{ORDER[name].kind}{ORDER[name].itemsize}")
        for name in table.column_names}, True))
    wanted: dict[int, tuple[int, int]] = {}
    for order in content.orders.values():
        if content.suits(order):
            rows, cents = wanted.get(int(order["region"]), (0, 0))
            wanted[int(order["region"])] = (rows + 1, cents + int(order["cents"]))
    found = duckdb.from_arrow(scan.to_arrow()).aggregate("region, count(*), sum(cents)", "region").fetchall()
    tap.same("DuckDB: groups", {region: (rows, int(cents)) for region, rows, cents in found}, wanted)
    result = store.aggregate({"cents": "i64@8", "weight": "f64@16"}, "u32@0",
                             ("cents>-549755813888", "weight<500", "u32@0>=2"), table=3, exact=True)
    tap.same("an aggregate by liblsmem",
             {group.value: (group.rows, group.totals["cents"].sum) for group in result.groups}, wanted)
    batch = result.to_arrow()
    tap.same("for Arrow", dict(zip(batch["group"].to_pylist(), zip(
        batch["rows"].to_pylist(), map(int, batch["cents_sum"].to_pylist())))), wanted)
    total = store.aggregate({"cents": "i64@8"}, table=3, where="u32@0>=2").groups[0]
    all_cents = [int(order["cents"]) for order in content.orders.values() if order["region"] >= 2]
    tap.same("an aggregate of all", (total.value, total.rows, total.totals["cents"].sum, total.totals["cents"].min,
                                     total.totals["cents"].max),
             (None, len(all_cents), sum(all_cents), min(all_cents), max(all_cents)))
    test_histograms(tap, store, [order for order in content.orders.values() if order["region"] >= 2])
    none = store.aggregate({"cents": "i64@8"}, table=11).to_arrow()
    tap.same("an aggregate of none", none.to_pylist(),
             [{"rows": 0, "cents_count": 0, "cents_sum": 0, "cents_min": None, "cents_max": None}])


def test_histograms(tap: Tap, store: lsmem.Store, orders_of_regions: list[Any]) -> None:
    """How many values are between bounds; the orders are those of regions from 2 on."""
    bounds = {"cents": [-(1 << 39), 0, 1, 1 << 39], "weight": np.linspace(-1000, 1000, 9)}
    wanted = {}
    for name, at in bounds.items():
        below = np.searchsorted(at, [order[name] for order in orders_of_regions], "right")
        wanted[name] = np.bincount(below, minlength=len(at) + 1).tolist()
    tap.same("histograms", store.aggregate({"weight": "f64@16", "region": "u32@0", "cents": "i64@8"}, "u32@0", "region>=2",
                                           table=3, histograms=bounds).histograms, wanted)
    for what, wrong in (("of nothing", {"code": [1]}), ("without bounds", {"region": []}),
                        ("whose bounds descend", {"region": [2, 1]}), ("beyond the type", {"region": [-1]}),
                        ("of no number", {"weight": [float("nan")]})):
        try:
            store.aggregate({"region": "u32@0", "weight": "f64@16"}, histograms=wrong)
            tap.check(f"refused: a histogram {what}", False)
        except ValueError:
            tap.check(f"refused: a histogram {what}", True)


def test_lives(tap: Tap, name: str, content: Content) -> None:
    """Batches outlive all else; what is left half way ends."""
    with lsmem.open(f"/dev/{name}") as store:
        batches = list(store.scan({"cents": "i64@8"}, table=3, rows=ROWS))
        views = [batch["cents"][::2] for batch in batches]
        arrow = store.scan({"cents": "i64@8"}, table=3).to_arrow().read_all()
        for _ in store.scan({"cents": "i64@8"}, rows=ROWS, ahead=1):
            break
        for consumer in (iter(store.scan({"cents": "i64@8"}, rows=ROWS, ahead=2)),
                         store.scan({"cents": "i64@8"}, rows=ROWS, ahead=2, threads=2).to_arrow()):
            next(consumer)
            del consumer
            gc.collect()
        tap.wrong("scans that were left have ended", [thread.name for thread in threading.enumerate()
                                                      if thread.name == "lsmem-scan"])
        reading = iter(store.scan({"cents": "i64@8"}, rows=ROWS, ahead=1))
        next(reading)
    tap.check("a store that is closed ends its scans", bool(fails(lambda: list(reading), errno.EINTR)))
    gone = sum(len(batch["cents"]) for batch in batches)
    firsts = sum(int(view[0]) for view in views)
    batches.clear()
    gc.collect()
    tap.same("arrays stay", (gone, arrow.num_rows, sum(int(view[0]) for view in views)),
             (len(content.orders), len(content.orders), firsts))
    tap.same("with their values", sum(arrow["cents"].to_pylist()),
             sum(int(order["cents"]) for order in content.orders.values()))
    code = (f"import sys, pylib, lsmem; store = lsmem.open('/dev/{name}');"
            f"scan = iter(store.scan({{'cents': 'i64@8'}}, rows={ROWS}, ahead=1)); next(scan); print('left')")
    tap.same("a program that ends with a scan", run("env", f"PYTHONPATH={os.path.dirname(__file__)}",
                                                    sys.executable, "-c", code), "left\n")


def test_example(tap: Tap) -> None:
    """The example of python.rst."""
    with store_made("128M", 200000) as name:
        shown = run("env", f"PYTHONPATH={REPO / 'tools/python'}", f"LD_LIBRARY_PATH={REPO / 'tools/lib'}",
                    sys.executable, REPO / "tools/python/example.py", f"/dev/{name}").replace(",", "").split("\n")
    regions = [int(line.split()[2]) for line in shown if line.startswith("region ")]
    tap.check("the example: groups add up", len(regions) == 8 and sum(regions) == int(shown[0].split()[3]), *shown)


# ---- Writers, and snapshots that are revoked ----

class Writer(threading.Thread):
    """Moves amounts between accounts, and notes what each replace adds, by its version."""

    def __init__(self, store: lsmem.Store, seed: int) -> None:
        super().__init__()
        self.notes: list[tuple[int, int]] = []
        self.ending = threading.Event()
        self._store = store
        self._dice = random.Random(seed)
        self._amounts = {store.alloc(START.to_bytes(8, "little", signed=True), table=5).handle: START
                         for _ in range(ACCOUNTS)}

    def run(self) -> None:
        handles = list(self._amounts)
        while not self.ending.is_set():
            amount = self._dice.randrange(1, START)
            for handle, change in zip(self._dice.sample(handles, 2), (-amount, amount)):
                self._amounts[handle] += change
                version = self._store.replace(handle, self._amounts[handle].to_bytes(8, "little", signed=True))
                self.notes.append((version, change))


def test_writer(tap: Tap, store: lsmem.Store, seed: int) -> None:
    """Exact sums at the scan's version."""
    writer = Writer(store, seed)
    seen: list[tuple[int, int, int]] = []
    writer.start()
    try:
        while len(seen) < SCANS or len(writer.notes) < 2 * TRANSFERS:
            scan = store.scan({"amount": "i64@0"}, table=5, exact=True, rows=ROWS, threads=1 + len(seen) % 2)
            if len(seen) % 2:
                amounts = scan.read()["amount"].tolist()
            else:
                amounts = scan.to_arrow().read_all()["amount"].to_pylist()
            assert scan.result
            seen.append((scan.result.version, len(amounts), sum(amounts)))
    finally:
        writer.ending.set()
        writer.join()
    wrong = [f"at version {version}: {rows} objects, sum {total}" for version, rows, total in seen
             if (rows, total) != (ACCOUNTS, ACCOUNTS * START + sum(
                 change for at, change in writer.notes if at <= version))]
    tap.wrong(f"{len(seen)} scans beside {len(writer.notes) // 2} transfers have the sums of their versions", wrong)
    within = sum(total != ACCOUNTS * START for _, _, total in seen)
    tap.say(f"{within} of them saw a transfer half done")
    final = store.aggregate({"amount": "i64@0"}, table=5, exact=True).groups[0].totals["amount"].sum
    tap.same("in the end the sum is what it was", final, ACCOUNTS * START)


def test_lost(tap: Tap, store: lsmem.Store) -> None:
    """A batch that does not arrive, whatever the reason, is no short answer."""
    whole, lose = lsmem.scan.Run._take, [True]

    def take(run: Any, context: Any, thread: int, address: int) -> int:
        return 0 if lose.pop() else whole(run, context, thread, address)

    for name, function, number in (("one that is dropped", take, errno.EIO),
                                   ("no memory for one", lambda run, *_: whole(run, None, 0, None), errno.ENOMEM)):
        lose[:] = [False] * 1000 + [True]
        lsmem.scan.Run._take = function
        try:
            tap.check(name, bool(fails(lambda: store.scan({"cents": "i64@8"}, rows=ROWS).read(), number)))
        finally:
            lsmem.scan.Run._take = whole


def test_revoked(tap: Tap, store: lsmem.Store, name: str) -> None:
    """A snapshot that may last a moment, and consumers that are slower."""
    def late(begin: Callable[[lsmem.Scan], Any], end: Callable[[Any], Any]) -> Callable[[], Any]:
        def call() -> Any:
            before = revoked(name)
            consumer = begin(store.scan({"cents": "i64@8"}, table=3, exact=True, rows=ROWS, ahead=1,
                                        time_ms=SNAPSHOT_MS))
            wait_until("revoked snapshot", lambda: revoked(name) > before)
            return end(consumer)
        return call

    def arrays(scan: lsmem.Scan) -> Any:
        consumer = iter(scan)
        next(consumer)
        return consumer

    def arrow(scan: lsmem.Scan) -> Any:
        reader = scan.to_arrow()
        reader.read_next_batch()
        return reader

    error = fails(late(arrays, list), errno.ECANCELED)
    tap.check("arrays: an exception", isinstance(error, lsmem.Revoked), str(error))
    error = fails(late(arrow, lambda reader: reader.read_all()), errno.ECANCELED)
    tap.check("Arrow: an exception", isinstance(error, lsmem.Revoked), str(error))
    try:
        late(arrow, lambda reader: duckdb.from_arrow(reader).sum("cents").fetchall())()
        tap.check("DuckDB: an exception", False)
    except duckdb.Error as wrong:
        tap.check("DuckDB: an exception", "revoked" in str(wrong), str(wrong))


def main() -> int:
    tap = Tap()
    seed = int(os.environ.get("LSMEM_SEED") or random.randrange(1 << 32))
    tap.say(f"seed {seed}")
    with store_made("128M", OBJECTS + ACCOUNTS + 2000) as name:
        with lsmem.open(f"/dev/{name}") as store:
            test_objects(tap, store)
            test_parts(tap, store)
            test_views(tap, store, name)
            test_views_revoked(tap)
            test_large(tap, store)
            test_table(tap, store)
            test_watch(tap, store)
            test_names(tap, name)
            test_changes(tap, store)
            test_many(tap, store)
            content = Content(store, seed)
            test_scans(tap, store, content)
            test_arrow(tap, store, content)
            test_lives(tap, name, content)
            test_writer(tap, store, seed)
            test_lost(tap, store)
            test_revoked(tap, store, name)
    test_async(tap)
    test_example(tap)
    return tap.finish()


sys.exit(main())
