# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Changes of several objects and keys that are made all or none."""

from __future__ import annotations

import ctypes
import errno
from typing import TYPE_CHECKING, Any, Callable, Optional

from . import _lib
from .errors import Error

if TYPE_CHECKING:
    from types import TracebackType

    from _typeshed import ReadableBuffer

    from .ring import Ring
    from .table import Key, Table


class Change:
    """One of Changes. When they are made, handle and version are those of the object."""

    def __init__(self, handle: int, *kept: bytes) -> None:
        self.handle = handle
        self.version: Optional[int] = None
        self.kept = kept


class Changes:
    """Changes of different objects and keys, from Store.changes(): made at the end of the with statement, all or none.

    A key is that of a table of the same store.  The end of an async with statement lets an event loop wait, without a
    thread; it takes no keys.
    """

    def __init__(self, lsm: ctypes.c_void_p, durable: bool, ring: Callable[[], Ring]) -> None:
        self._lsm = lsm
        self._ring = ring
        self._flags = _lib.DURABLE if durable else 0
        self._objects: list[tuple[Change, _lib.Op]] = []
        self._keys: list[tuple[Change, _lib.ItemOp]] = []

    def _add(self, op: int, handle: int, data: bytes, expect: Optional[int] = None, table: int = 0) -> Change:
        change = Change(handle, data)
        native = _lib.Op(size=_lib.OP_BYTES, op=op, handle=handle, version=expect or 0, table=table,
                         flags=0 if expect is None else _lib.EXPECT, length=len(data),
                         data=ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value if data else 0)
        self._objects.append((change, native))
        return change

    def _add_key(self, op: int, table: Table, key: Key, data: bytes, expect: Optional[int], flags: int = 0) -> Change:
        name = key.encode() if isinstance(key, str) else key
        change = Change(0, name, data)
        self._keys.append((change, _lib.ItemOp(
            table=table.native, key=name, key_length=len(name), value=data, length=len(data), op=op,
            flags=flags | (0 if expect is None else _lib.EXPECT), version=expect or 0)))
        return change

    def alloc(self, data: ReadableBuffer, *, table: int = 0) -> Change:
        """Allocates an object with the bytes @data."""
        return self._add(_lib.OP_ALLOC, 0, memoryview(data).tobytes(), table=table)

    def replace(self, handle: int, data: ReadableBuffer, *, expect: Optional[int] = None) -> Change:
        """Replaces an object, with @expect only if that is its version."""
        return self._add(_lib.OP_REPLACE, handle, memoryview(data).tobytes(), expect)

    def free(self, handle: int, *, expect: Optional[int] = None) -> Change:
        """Frees an object, with @expect only if that is its version."""
        return self._add(_lib.OP_FREE, handle, b"", expect)

    def check(self, handle: int, *, expect: Optional[int] = None) -> Change:
        """Changes nothing: the others are made only if the object is there, with @expect if that is its version."""
        return self._add(_lib.OP_CHECK, handle, b"", expect)

    def put(self, table: Table, key: Key, data: ReadableBuffer, *, new: bool = False, old: bool = False,
            expect: Optional[int] = None) -> Change:
        """Puts the value of a key, as Table.put()."""
        return self._add_key(_lib.ITEM_PUT, table, key, memoryview(data).tobytes(), expect,
                             (_lib.NEW if new else 0) | (_lib.OLD if old else 0))

    def remove(self, table: Table, key: Key, *, expect: Optional[int] = None) -> Change:
        """Removes a key, which must be there, with @expect only if that is its version."""
        return self._add_key(_lib.ITEM_REMOVE, table, key, b"", expect)

    def check_key(self, table: Table, key: Key, *, absent: bool = False, expect: Optional[int] = None) -> Change:
        """Changes nothing: the others are made only if the key is there, or is @absent, or has the version @expect."""
        return self._add_key(_lib.ITEM_CHECK, table, key, b"", expect, _lib.NEW if absent else 0)

    def make(self) -> None:
        """Makes all changes; if one cannot be made, none is, and its error is raised: EILSEQ with the version."""
        objects, self._objects, keys, self._keys = self._objects, [], self._keys, []
        if not objects and not keys:
            return
        ops = (_lib.Op * len(objects))(*(op for _, op in objects))
        items = (_lib.ItemOp * len(keys))(*(item for _, item in keys))
        all_of = [*zip((change for change, _ in objects), ops), *zip((change for change, _ in keys), items)]
        failure = None
        try:
            if keys:
                _lib.lib.lsm_table_group(self._lsm, items, len(items), ops, len(ops), self._flags)
            else:
                _lib.lib.lsm_vector(self._lsm, ops, len(ops), self._flags | _lib.ATOMIC, None)
        except Error as error:
            failure = error
        self._made(all_of, ops, failure)

    async def make_async(self) -> None:
        """The same, while other tasks go on. If this task is cancelled, they are made nevertheless, or none is."""
        if self._keys:
            raise ValueError("keys are not changed asynchronously")
        objects, self._objects = self._objects, []
        if not objects:
            return
        ops = (_lib.Op * len(objects))(*(op for _, op in objects))
        changes = [change for change, _ in objects]
        failure = None
        try:
            await self._ring().vector(ops, self._flags | _lib.ATOMIC, changes)
        except Error as error:
            failure = error
        self._made([*zip(changes, ops)], ops, failure)

    @staticmethod
    def _made(all_of: list[tuple[Change, Any]], ops: Any, failure: Optional[Error]) -> None:
        """Gives results to the changes, or raises what has failed."""
        if failure:
            error = failure
            if error.errno == errno.EILSEQ:
                error.version = next(native.version for _, native in all_of if native.result == -errno.EILSEQ)
            # They are made, and it is not known whether they are durable.
            if error.errno != errno.ETIMEDOUT or any(native.result for _, native in all_of):
                raise error
        for change, native in all_of:
            change.handle, change.version = native.handle, native.version
        # Likewise.
        for op in ops:
            if op.result:
                failure = Error(-op.result, "lsm_vector")
        if failure:
            raise failure

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None:
            self.make()

    async def __aenter__(self) -> Changes:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        if kind is None:
            await self.make_async()
