# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""A store and its objects."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import math
import os
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, NamedTuple, Optional, Sequence, TypedDict, Union

from . import _lib, aggregate
from .changes import Changes
from .errors import Error, wanted
from .fields import Field, parse_columns, parse_where
from .large import Large, Report, sweep
from .parts import If, Parts, Rule, bytes_of
from .ring import Ring
from .roots import Roots
from .scan import Explain, Result, Run, Scan, native_scan
from .table import Table
from .view import View
from .watch import Watch

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Unpack

    import numpy
    from _typeshed import ReadableBuffer, WriteableBuffer

    from .view import Used

# Room for an object whose length is not known
_FIRST_BYTES = 4096
# Objects of a call that allocates many
_MANY = 4096


class Allocated(NamedTuple):
    """A new object."""

    handle: int
    version: int


class Object(NamedTuple):
    """Bytes of an object, and what it is: struct lsm_object."""

    data: bytes
    version: int
    length: int
    table: int


class Which(TypedDict, total=False):
    """Which objects a scan looks at, and how: struct lsm_scan. All are optional."""

    table: Optional[int]
    length_min: int
    length_max: int
    version_min: int
    version_max: int
    index_first: int
    index_end: int
    handles: Optional[Union[Sequence[int], "numpy.ndarray"]]
    plan: str
    exact: bool
    threads: int
    kept_max: int
    time_ms: int


class Store(Parts):
    """An open store, from open(). Calls can be made by many threads at once, but for close()."""

    def __init__(self, path: Union[str, os.PathLike[str], None] = None, *, readonly: bool = False,
                 windows: bool = True) -> None:
        """Opens @path, by default /dev/lsmem, or "name:NAME" or "uuid:UUID". Without @windows, reads are system calls."""
        self._open: Optional[ctypes.c_void_p] = None
        self._runs: weakref.WeakSet[Run] = weakref.WeakSet()
        self._tables: weakref.WeakSet[Table] = weakref.WeakSet()
        self._views: weakref.WeakSet[View] = weakref.WeakSet()
        self._used: Used = {}
        self._rings: dict[asyncio.AbstractEventLoop, Ring] = {}
        lsm = ctypes.c_void_p()
        flags = (_lib.RDONLY if readonly else 0) | (0 if windows else _lib.NO_WINDOWS)
        _lib.lib.lsm_open(None if path is None else os.fsencode(path), flags, lsm)
        self._open = lsm

    @property
    def _lsm(self) -> ctypes.c_void_p:
        if self._open is None:
            raise ValueError("the store is closed")
        return self._open

    def close(self) -> None:
        """Closes the store. Scans that are under way fail; batches that were given stay; views end.

        BufferError: something that was made of a view, as a slice, is still there; the store stays open.
        """
        for view in list(self._views):
            view.close()
        if self._used:
            raise BufferError("something that was made of a view, as a slice, is there")
        rings, self._rings = self._rings, {}
        for ring in rings.values():
            ring.close()
        lsm, self._open = self._open, None
        if lsm:
            for run in list(self._runs):
                run.close()
            for table in list(self._tables):
                table.close()
            _lib.lib.lsm_close(lsm)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def fileno(self) -> int:
        """The descriptor."""
        return int(_lib.lib.lsm_fd(self._lsm))

    # ---- Objects ----

    def alloc(self, data: ReadableBuffer, *, table: int = 0, durable: bool = False) -> Allocated:
        """Allocates an object with the bytes @data."""
        handle, version, copy = ctypes.c_uint64(), ctypes.c_uint64(), bytes_of(data)
        _lib.lib.lsm_alloc(self._lsm, copy, len(copy), _flags(durable=durable, table=table), handle, version)
        return Allocated(handle.value, version.value)

    def alloc_many(self, objects: numpy.ndarray, *, table: int = 0, durable: bool = False) -> numpy.ndarray:
        """Allocates an object for each item of an array, or each row of one with two dimensions.

        Returns the handles. If that fails, those that were allocated are freed, and the first error is raised.
        """
        np = wanted("numpy", "alloc_many()")
        items = np.ascontiguousarray(objects)
        if items.ndim not in (1, 2) or items.dtype.hasobject:
            raise ValueError("alloc_many() takes an array of one or two dimensions, of values")
        width = items.itemsize * (items.shape[1] if items.ndim == 2 else 1)
        handles: numpy.ndarray = np.empty(len(items), "u8")
        for first in range(0, len(items), _MANY):
            ops = _ops(np, min(_MANY, len(items) - first), _lib.OP_ALLOC)
            ops["data"] = items.ctypes.data + width * np.arange(first, first + len(ops), dtype="u8")
            ops["length"] = width
            ops["table"] = table
            error = self._vector(ops, durable)
            done = ops["handle"][ops["result"] == 0]
            handles[first:first + len(done)] = done
            if error:
                undo = _ops(np, first + len(done), _lib.OP_FREE)
                undo["handle"] = handles[:len(undo)]
                self._vector(undo, False)
                raise error
        return handles

    def _vector(self, ops: numpy.ndarray, durable: bool) -> Optional[Error]:
        """Carries out operations; what was not tried has failed, too. Returns the first error."""
        done = ctypes.c_size_t()
        try:
            _lib.lib.lsm_vector(self._lsm, ops.ctypes.data, len(ops), _flags(durable=durable), done)
        except Error as error:
            ops["result"][done.value:] = -(error.errno or errno.EIO)
            return error
        failed = ops["result"][ops["result"] != 0]
        return Error(-int(failed[0]), "lsm_vector") if len(failed) else None

    def get(self, handle: int, length: Optional[int] = None, offset: int = 0) -> Object:
        """Bytes of an object, at most @length, from @offset on, with its version and table."""
        found = _lib.Object()
        room = _FIRST_BYTES if length is None else min(length, _lib.OBJECT_MAX)
        while True:
            buffer = (ctypes.c_char * room)()
            got = _lib.lib.lsm_read(self._lsm, handle, buffer, room, offset, found)
            if length is not None or got == found.length - offset:
                return Object(ctypes.string_at(buffer, got), found.version, found.length, found.table)
            # It may have grown since.
            room = found.length - offset

    def read(self, handle: int, length: Optional[int] = None, offset: int = 0) -> bytes:
        """Bytes of an object, all of one version."""
        return self.get(handle, length, offset).data

    def read_into(self, handle: int, buffer: WriteableBuffer, offset: int = 0) -> int:
        """Copies bytes of an object, from @offset on, to a buffer; returns how many."""
        target = memoryview(buffer).cast("B")
        room = (ctypes.c_char * len(target)).from_buffer(target)
        return int(_lib.lib.lsm_read(self._lsm, handle, room, len(target), offset, None))

    def replace(self, handle: int, data: ReadableBuffer, *, durable: bool = False, **only_if: Unpack[If]) -> int:
        """Replaces an object; returns its new version."""
        copy, rule = bytes_of(data), Rule(durable, only_if)
        with rule:
            _lib.lib.lsm_replace(self._lsm, handle, copy, len(copy), rule.flags, rule.version)
        return rule.version.value

    def free(self, handle: int, *, durable: bool = False, **only_if: Unpack[If]) -> None:
        """Frees an object."""
        rule = Rule(durable, only_if)
        with rule:
            _lib.lib.lsm_free(self._lsm, handle, rule.flags, rule.version)

    def update(self, handle: int, change: Callable[[bytes], ReadableBuffer], *, durable: bool = False) -> int:
        """Replaces an object by what @change makes of its bytes; returns its new version.

        @change is called again, with the new bytes, when another client has changed the object meanwhile.
        """
        while True:
            found = self.get(handle)
            data = change(found.data)
            try:
                return self.replace(handle, data, expect=found.version, durable=durable)
            except Error as error:
                if error.errno != errno.EILSEQ:
                    raise

    def view(self, handle: int) -> View:
        """The bytes of an object in place, for a with statement."""
        view = View(lambda: self._lsm, handle, self._used)
        self._views.add(view)
        return view

    @property
    def view_bound(self) -> float:
        """Seconds that a view may last before the kernel revokes it."""
        return int(_lib.lib.lsm_view_bound(self._lsm)) / 1000

    def make_large(self, *, part: int = 0, table: int = 0) -> Large:
        """Makes a large object without bytes, of parts of @part bytes, by default 256 KiB."""
        handle = ctypes.c_uint64()
        _lib.lib.lsm_large_create(self._lsm, part, _flags(False, table), handle)
        return Large(lambda: self._lsm, handle.value)

    def large(self, handle: int) -> Large:
        """The large object with a handle."""
        return Large(lambda: self._lsm, handle)

    def sweep_large(self, table: int = 0) -> Report:
        """Frees what writers that ended in the middle have left of large objects of a table, and counts."""
        return sweep(self._lsm, table)

    def table(self, number: int, *, readonly: bool = False) -> Table:
        """The table with keys whose objects have the table id @number. It is closed with the store."""
        table = Table(self._lsm, number, readonly)
        self._tables.add(table)
        return table

    def watch(self, table: int, *, entries: int = 0, cursor: int = 0) -> Watch:
        """Notes of the changes of the objects of a table, from now on or behind the note that has @cursor.

        @entries: notes that the kernel keeps for the watchers of the table, a power of two; 0: 1024. The first one decides.
        """
        return Watch(self._lsm, table, entries, cursor)

    @property
    def roots(self) -> Roots:
        """Names of handles, which are found again after a restart."""
        return Roots(lambda: self._lsm)

    def changes(self, *, durable: bool = False) -> Changes:
        """Changes of up to 256 objects and keys that are made all or none, at the end of a with statement.

        Of objects alone it may be an async with statement: the event loop waits for the durability of the changes.
        """
        return Changes(self._lsm, durable, self._ring)

    def _ring(self) -> Ring:
        """Of the event loop that runs."""
        loop = asyncio.get_running_loop()
        for gone in [other for other in self._rings if other.is_closed()]:
            self._rings.pop(gone).close()
        if loop not in self._rings:
            self._rings[loop] = Ring(lambda: self._lsm, loop)
        return self._rings[loop]

    def sync(self, timeout_ms: int = 0) -> None:
        """Waits until all changes so far are durable."""
        _lib.lib.lsm_sync(self._lsm, timeout_ms)

    def stat(self) -> dict[str, int]:
        """The counters of struct lsmem_stat."""
        stat = _lib.Stat()
        _lib.lib.lsm_stat_sized(self._lsm, stat, ctypes.sizeof(stat))
        return {field[0]: getattr(stat, field[0]) for field in stat._fields_[2:]}

    # ---- Scans ----

    def scan(self, columns: Mapping[str, str], where: Union[str, Iterable[str]] = (), *, rows: int = 0,
             ahead: int = 64, **which: Unpack[Which]) -> Scan:
        """A scan of fields, by the names that the columns are to have: see fields.py for fields and @where.

        Batches have up to @rows objects, by default 65536 or what 1 MiB has room for. The scan is at most @ahead batches ahead of its
        consumer, 0: no bound. An exact scan waits no longer than its snapshot stands, so a slow consumer
        needs room for all.
        """
        fields = parse_columns(columns)
        return Scan(self._begin, fields, parse_where(where, fields), which, rows, ahead)

    def _begin(self, call: Callable[[Any, Any], Result], ahead: int) -> Run:
        run = Run(self._lsm, call, ahead)
        self._runs.add(run)
        return run

    def aggregate(self, measures: Mapping[str, str], group: Optional[str] = None,
                  where: Union[str, Iterable[str]] = (), *, groups_max: int = 0,
                  histograms: Optional[Mapping[str, Sequence[aggregate.Number]]] = None,
                  **which: Unpack[Which]) -> aggregate.Aggregate:
        """Count, sum, min, max and average of fields, for each value of the field @group, or in all.

        @histograms: ascending bounds for measures by their names.
        """
        fields = {name: Field.parse(text) for name, text in measures.items()}
        return aggregate.compute(self._lsm, Field.parse(group) if group else None, fields,
                                 parse_where(where, fields), groups_max, histograms or {}, which)

    def explain(self, **which: Unpack[Which]) -> Explain:
        """Estimates what the plans of a scan cost."""
        explain = _lib.Explain()
        scan, _kept = native_scan(which)
        _lib.lib.lsm_scan_explain(self._lsm, scan, explain)
        return Explain.of(explain)


def _flags(durable: bool, table: int = 0) -> int:
    if not 0 <= table < 1 << 16:
        raise ValueError(f"table {table}")
    return (_lib.DURABLE if durable else 0) | table << 16


def _ops(np: Any, nr: int, op: int) -> numpy.ndarray:
    """Operations for lsm_vector(): struct lsmem_op."""
    ops: numpy.ndarray = np.zeros(nr, _lib.Op)
    ops["size"] = _lib.OP_BYTES
    ops["op"] = op
    return ops


def open(path: Union[str, os.PathLike[str], None] = None, *, readonly: bool = False,  # pylint: disable=redefined-builtin
         windows: bool = True) -> Store:
    """Opens a store: see class Store. Used in a with statement, it is closed at the end."""
    return Store(path, readonly=readonly, windows=windows)


def wait_active(path: Union[str, os.PathLike[str], None] = None, timeout: Optional[float] = None) -> None:
    """Waits until a store, which need not exist yet, can be opened; ETIMEDOUT after @timeout seconds."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = -1 if end is None else math.ceil(1000 * max(0.0, end - time.monotonic()))
        try:
            _lib.lib.lsm_wait_active(None if path is None else os.fsencode(path), left)
            return
        except Error as error:
            if error.errno != errno.EINTR:
                raise
