# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Scans as arrays. liblsmem fills the arrays, and NumPy and Arrow use them where they are."""

from __future__ import annotations

import array
import atexit
import ctypes
import errno
import queue
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Generator, Iterator, Mapping, Optional, Sequence

from . import _lib
from .errors import Error, wanted
from .fields import Field

if TYPE_CHECKING:
    import numpy
    import pyarrow

Batch = dict[str, "numpy.ndarray"]


@dataclass(frozen=True)
class Explain:
    """How a scan is carried out: struct lsm_explain. text: in words."""

    plan: str
    threads: int
    objects: int
    bytes: int
    wanted: int
    cold: int
    cost_ns: dict[str, int]
    text: str

    @classmethod
    def of(cls, explain: _lib.Explain) -> Explain:
        """From that of the library."""
        text = ctypes.create_string_buffer(4096)
        _lib.lib.lsm_explain_text(explain, text, len(text))
        costs = {name: cost for name, cost in zip(_lib.PLANS, explain.cost_ns) if name != "auto" and cost >= 0}
        return cls(_lib.PLANS[explain.plan], explain.threads, explain.objects, explain.bytes,
                   explain.wanted, explain.cold, costs, text.value.decode())


@dataclass(frozen=True)
class Result:
    """What a scan has done: struct lsm_scan_result and struct lsm_counts.

    rows: objects that were looked at; selected: of these, those that were given; shorter: those that have not all
    fields; version: of the snapshot, 0: there was none.
    """

    plan: str
    threads: int
    version: int
    rows: int
    selected: int
    shorter: int
    copied: int
    gone: int
    cold: int

    @classmethod
    def of(cls, result: _lib.ScanResult, counts: _lib.Counts) -> Result:
        """From those of the library."""
        return cls(_lib.PLANS[result.explain.plan], result.explain.threads, result.version, counts.fed,
                   counts.selected, counts.shorter, result.copied, result.gone, result.cold)


def native_scan(which: Mapping[str, Any]) -> tuple[_lib.Scan, Any]:
    """struct lsm_scan for the arguments of class Which, and what must live as long."""
    scan, kept = _lib.Scan(), None
    for name, value in which.items():
        if name == "plan":
            if value not in _lib.PLANS:
                raise ValueError(f"plan '{value}': there are {', '.join(_lib.PLANS)}")
            scan.plan = _lib.PLANS.index(value)
        elif name == "exact":
            scan.flags = _lib.SCAN_EXACT if value else 0
        elif name == "table":
            if value is not None:
                scan.one_table, scan.table = 1, _unsigned(name, value, 32)
        elif name == "handles":
            if value is not None:
                kept = array.array("Q", value.astype("u8").tobytes() if hasattr(value, "astype") else value)
                scan.nr_handles = len(kept)
                # A list without an address is none: all objects.
                kept.append(0)
                scan.handles = kept.buffer_info()[0]
        elif name in ("version_min", "version_max", "index_first", "index_end"):
            setattr(scan, name, _unsigned(name, value, 64))
        elif name in ("length_min", "length_max", "threads", "kept_max", "time_ms"):
            setattr(scan, name, _unsigned(name, value, 32))
        else:
            raise TypeError(f"a scan has no argument '{name}'")
    return scan, kept


def _unsigned(name: str, value: int, bits: int) -> int:
    """@value; ctypes would cut it off."""
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{name}: {value} is not in 0 .. 2^{bits} - 1")
    return value


class _Memory:
    """The arrays of a batch, which live as long as this object."""

    def __init__(self, address: int) -> None:
        self._address = address
        head = _lib.Columns.from_address(address)
        self.rows: int = head.rows
        self.arrays: Sequence[int] = (ctypes.c_void_p * head.nr).from_address(
            address + ctypes.sizeof(_lib.Columns))[:]

    def __del__(self, free: Callable[[int], None] = _lib.lib.lsm_columns_free) -> None:
        free(self._address)


class _View:
    """An array in a batch, for NumPy."""

    def __init__(self, memory: _Memory, address: int, typestr: str) -> None:
        self.memory = memory
        self.__array_interface__ = {"version": 3, "shape": (memory.rows,), "typestr": typestr,
                                    "data": (address, False)}


class Run:
    """A scan that is under way, in a thread of its own, which is @ahead batches ahead at most."""

    def __init__(self, lsm: Any, call: Callable[[Any, Any], Result], ahead: int) -> None:
        self.result: Optional[Result] = None
        self._lsm = lsm
        self._call = call
        self._batches: queue.SimpleQueue[Optional[_Memory]] = queue.SimpleQueue()
        self._room = threading.Semaphore(ahead) if ahead else None
        self._stopped = False
        self._error: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._work, name="lsmem-scan", daemon=True)
        _running.add(self)
        self._thread.start()

    def _take(self, _context: Any, _thread: int, address: int) -> int:
        """Called by the threads of the scan, which do not see exceptions."""
        _inside.run = self
        try:
            memory = _Memory(address)
            if self._room:
                self._room.acquire()
            if self._stopped:
                return -errno.EINTR
            self._batches.put(memory)
            return 0
        except BaseException:  # pylint: disable=broad-except
            return -errno.ENOMEM
        finally:
            _inside.run = None

    def _work(self) -> None:
        try:
            self.result = self._call(self._lsm, _lib.GatherBatch(self._take))
        except BaseException as error:  # pylint: disable=broad-except
            self._error = error
        _running.discard(self)
        self._batches.put(None)

    def next(self) -> Optional[_Memory]:
        """The next batch; None: there was none since all were given; raises the error of the scan."""
        memory = self._batches.get()
        if memory is None:
            self._batches.put(None)
            if self._error:
                raise self._error
        elif self._room:
            self._room.release()
        return memory

    def close(self) -> None:
        """Ends the scan, and waits for that: it ends when it has the next batch, or has none."""
        self._stopped = True
        if self._room:
            # One for each thread, and one for a batch that is left.
            self._room.release(_THREADS_MAX + 1)
        # The garbage collector may run in a thread of this scan.
        if getattr(_inside, "run", None) is not self and threading.current_thread() is not self._thread:
            self._thread.join()


_THREADS_MAX = 64
# run: whose function this thread is in
_inside = threading.local()
_running: weakref.WeakSet[Run] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Threads that call Python must have ended when the interpreter does."""
    for run in list(_running):
        run.close()


class Scan:
    """A scan of columns. Each iteration, read() and to_arrow() carries it out; see Store.scan().

    result: what the last one that came to its end has done.
    """

    def __init__(self, begin: Callable[[Callable[[Any, Any], Result], int], Run], columns: Mapping[str, Field],
                 ranges: Sequence[_lib.Range], which: Mapping[str, Any], rows: int, ahead: int) -> None:
        self.result: Optional[Result] = None
        self._begin = begin
        self._columns = dict(columns)
        self._ranges = list(ranges)
        self._which = dict(which)
        self._rows = _unsigned("rows", rows, 32)
        self._ahead = _unsigned("ahead", ahead, 31)
        native_scan(self._which)

    def _call(self, lsm: Any, batch: Any) -> Result:
        scan, _kept = native_scan(self._which)
        fields = (_lib.Field * len(self._columns))(*(field.native() for field in self._columns.values()))
        ranges = (_lib.Range * len(self._ranges))(*self._ranges)
        gather = _lib.Gather(fields, len(fields), ranges, len(ranges), self._rows, batch)
        counts, result = _lib.Counts(), _lib.ScanResult()
        _lib.lib.lsm_scan_columns(lsm, scan, gather, counts, result)
        return Result.of(result, counts)

    def _memories(self) -> Generator[_Memory, None, None]:
        run = self._begin(self._call, self._ahead)
        rows = 0
        try:
            while memory := run.next():
                rows += memory.rows
                yield memory
            if not run.result or rows != run.result.selected:
                raise Error(errno.EIO, "a batch was lost")
            self.result = run.result
        finally:
            run.close()

    def __iter__(self) -> Iterator[Batch]:
        """Gives batches: arrays by the names of the columns, of which each can be kept and changed.

        What is in a batch is right. An exception, Revoked above all, says that the batches so far are not all.
        """
        np = wanted("numpy", "a scan as arrays")
        types = [np.dtype(field.numpy_type()).str for field in self._columns.values()]
        for memory in self._memories():
            yield {name: np.asarray(_View(memory, address, typestr))
                   for name, address, typestr in zip(self._columns, memory.arrays, types)}

    def read(self) -> Batch:
        """All batches as one, which is a copy."""
        np = wanted("numpy", "a scan as arrays")
        batches = list(self)
        return {name: np.concatenate([np.empty(0, field.numpy_type()), *(batch[name] for batch in batches)])
                for name, field in self._columns.items()}

    def schema(self) -> pyarrow.Schema:
        """The schema of to_arrow()."""
        arrow = wanted("pyarrow", "a scan for Arrow")
        return arrow.schema([arrow.field(name, field.arrow_type(arrow), nullable=False)
                             for name, field in self._columns.items()])

    def to_arrow(self) -> pyarrow.RecordBatchReader:
        """The batches as a reader, for one use. Reading fails if the scan does."""
        arrow = wanted("pyarrow", "a scan for Arrow")
        schema = self.schema()

        def batches() -> Generator[pyarrow.RecordBatch, None, None]:
            for memory in self._memories():
                arrays = [arrow.Array.from_buffers(of.type, memory.rows, [None, arrow.foreign_buffer(
                              address, memory.rows * field.width(), memory)])
                          for of, address, field in zip(schema, memory.arrays, self._columns.values())]
                yield arrow.RecordBatch.from_arrays(arrays, schema=schema)
        return arrow.RecordBatchReader.from_batches(schema, batches())
