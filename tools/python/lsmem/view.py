# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Views: the bytes of an object in place."""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Callable, Optional

from . import _lib
from .errors import Error, Revoked, ViewRevoked

if TYPE_CHECKING:
    from types import TracebackType

    Memory = weakref.ref[ctypes.Array[ctypes.c_ubyte]]
    # Memory of views that something refers to, by id()
    Used = dict[int, Memory]


class View:
    """The bytes of an object in place, from Store.view(): in a with statement, at whose end the view ends.

    The bytes do not change, also if the object is replaced, freed or moved, until the bound of the store on views
    (limits/view_ms) has passed.  Then the kernel revokes the view and may write other bytes there, and the with
    statement raises ViewRevoked: what was computed of the bytes is not to be used.

    At the end all of @pieces are released, and cannot be read any more.  What was made of them (a slice, an array) must be
    gone by then, else BufferError is raised; and until it is gone, the store cannot be closed.
    """

    def __init__(self, lsm: Callable[[], ctypes.c_void_p], handle: int, used: Used) -> None:
        """@lsm: keeps the store. @used: of the store."""
        self._native: Optional[_lib.View] = None
        self._lsm = lsm
        self._used = used
        self._memory: list[Memory] = []
        self._pieces: tuple[memoryview, ...] = ()
        self._object = _lib.Object()
        self.handle = handle

    def __enter__(self) -> View:
        if self._native is not None:
            raise ValueError("the view is open")
        native = _lib.View()
        _lib.lib.lsm_view_begin(self._lsm(), self.handle, native)
        self._native = native
        self._object = native.object
        self._memory = []
        self._pieces = tuple(self._piece(native.iov[i]) for i in range(native.nr))
        return self

    def _piece(self, iovec: _lib.IoVec) -> memoryview:
        memory = (ctypes.c_ubyte * iovec.iov_len).from_address(iovec.iov_base)
        # It is gone when the last of what was made of it is; until then the memory stays mapped.
        memory.kept = self._lsm  # type: ignore[attr-defined]
        number, used = id(memory), self._used
        used[number] = weakref.ref(memory, lambda _: used.pop(number, None))
        self._memory.append(used[number])
        return memoryview(memory).cast("B").toreadonly()

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._native is None:
            raise ValueError("the view is over")
        wrong = self._end()
        # Another exception may come of wrong bytes.
        if wrong and (kind is None or issubclass(kind, Exception)):
            raise wrong
        if kind is None and any(memory() is not None for memory in self._memory):
            raise BufferError("something that was made of a view, as a slice, is there at its end")

    def _end(self) -> Optional[Error]:
        """Ends the view. Returns its error."""
        native, self._native = self._native, None
        pieces, self._pieces = self._pieces, ()
        for piece in pieces:
            try:
                piece.release()
            except BufferError:
                pass  # seen by its memory
        try:
            if native is not None:
                _lib.lib.lsm_view_end(self._lsm(), native)
        except Revoked as error:
            return ViewRevoked(error.errno or 0, "lsm_view_end")
        except Error as error:
            return error
        return None

    def close(self) -> None:
        """Ends the view if it is open, and does not tell whether it was revoked."""
        self._end()

    def __del__(self) -> None:
        self.close()

    @property
    def pieces(self) -> tuple[memoryview, ...]:
        """The bytes in order, in 1 to 18 pieces, which are read-only; most objects have one."""
        if self._native is None:
            raise ValueError("the view is not open")
        return self._pieces

    def tobytes(self) -> bytes:
        """A copy of all bytes."""
        return b"".join(self.pieces)

    @property
    def version(self) -> int:
        """Of the object, as of the beginning of the view; also when it is over."""
        return int(self._object.version)

    @property
    def length(self) -> int:
        """Bytes of the object; likewise."""
        return int(self._object.length)

    @property
    def table(self) -> int:
        """Table id of the object; likewise."""
        return int(self._object.table)
