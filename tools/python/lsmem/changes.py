# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Changes of several objects that are made all or none."""

from __future__ import annotations

import ctypes
import errno
from typing import TYPE_CHECKING, Optional

from . import _lib
from .errors import Error

if TYPE_CHECKING:
    from types import TracebackType

    from _typeshed import ReadableBuffer


class Change:
    """One of Changes. When they are made, handle and version are those of the object."""

    def __init__(self, handle: int, data: bytes) -> None:
        self.handle = handle
        self.version: Optional[int] = None
        self.data = data


class Changes:
    """Changes of different objects, from Store.changes(): made at the end of the with statement, all or none."""

    def __init__(self, lsm: ctypes.c_void_p, durable: bool) -> None:
        self._lsm = lsm
        self._flags = _lib.ATOMIC | (_lib.DURABLE if durable else 0)
        self._changes: list[Change] = []
        self._ops: list[_lib.Op] = []

    def _add(self, op: int, handle: int, data: bytes, expect: Optional[int] = None, table: int = 0) -> Change:
        change = Change(handle, data)
        self._changes.append(change)
        self._ops.append(_lib.Op(size=_lib.OP_BYTES, op=op, handle=handle, version=expect or 0, table=table,
                                 flags=0 if expect is None else _lib.EXPECT, length=len(data),
                                 data=ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value if data else 0))
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

    def make(self) -> None:
        """Makes all changes; if one cannot be made, none is, and its error is raised: EILSEQ with the version."""
        changes, self._changes, made, self._ops = self._changes, [], self._ops, []
        if not changes:
            return
        ops = (_lib.Op * len(made))(*made)
        try:
            _lib.lib.lsm_vector(self._lsm, ops, len(ops), self._flags, None)
        except Error as error:
            if error.errno == errno.EILSEQ:
                error.version = next(op.version for op in ops if op.result == -errno.EILSEQ)
            raise
        for change, op in zip(changes, ops):
            change.handle, change.version = op.handle, op.version
        # They are made, and it is not known whether they are durable: ETIMEDOUT.
        for op in ops:
            if op.result:
                raise Error(-op.result, "lsm_vector")

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None:
            self.make()
