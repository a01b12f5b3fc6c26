# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Notes of the changes of a table."""

from __future__ import annotations

import asyncio
import collections
import ctypes
import errno
import os
import select
from typing import TYPE_CHECKING, NamedTuple, Optional

from . import _lib
from .errors import Error

if TYPE_CHECKING:
    from types import TracebackType

# Notes of a system call
_MANY = 256
_KINDS = {_lib.NOTE_NEW: "new", _lib.NOTE_REPLACED: "replaced", _lib.NOTE_FREED: "freed", _lib.NOTE_LOST: "lost"}


class Note(NamedTuple):
    """A change of an object: struct lsmem_note.

    kind: "new", "replaced" or "freed"; "lost": changes are missing here, with versions above @version: list the table.
    cursor: for watch(): go on behind this note.  more: the next note is of the same group.
    """

    kind: str
    handle: int
    version: int
    cursor: int
    more: bool


class Watch:
    """Notes of the changes of a table, from Store.watch() or Table.watch(); the store may be closed meanwhile.

    An iterator, which waits in the kernel, and an asynchronous one, for which the event loop waits, without a thread; both
    end when the store is destroyed.  One of them at a time.
    """

    def __init__(self, lsm: ctypes.c_void_p, table: int, entries: int, cursor: int) -> None:
        self._fd = -1
        self._notes: collections.deque[Note] = collections.deque()
        self._ended = False
        self._waiting = False
        self._buffer = (_lib.Note * _MANY)()
        self._fd = _lib.lib.lsm_watch_open(lsm, table, entries, cursor, _lib.NONBLOCK)

    def close(self) -> None:
        """Closes the descriptor; no iteration is waiting."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def fileno(self) -> int:
        """The descriptor, which is readable when take() has something to return."""
        if self._fd < 0:
            raise ValueError("the watch is closed")
        return self._fd

    def take(self) -> list[Note]:
        """The notes that there are, at most 256 besides what an iteration has not yet returned, without waiting."""
        if not self._ended:
            self._read()
        notes = list(self._notes)
        self._notes.clear()
        return notes

    def _read(self) -> None:
        try:
            got = _lib.lib.lsm_watch_read(self.fileno(), self._buffer, _MANY)
        except Error as error:
            if error.errno != errno.EAGAIN:
                raise
            return
        self._ended = not got
        self._notes.extend(Note(_KINDS[note.kind], note.handle, note.version, note.cursor,
                                bool(note.flags & _lib.NOTE_MORE)) for note in self._buffer[:got])

    def _next(self) -> Optional[Note]:
        """The next note that was read; reads if there is none."""
        if not self._notes and not self._ended:
            self._read()
        return self._notes.popleft() if self._notes else None

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Note:
        while (note := self._next()) is None:
            if self._ended:
                raise StopIteration
            poll = select.poll()
            poll.register(self.fileno(), select.POLLIN)
            poll.poll()
        return note

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Note:
        while (note := self._next()) is None:
            if self._ended:
                raise StopAsyncIteration
            await self._readable()
        return note

    async def _readable(self) -> None:
        if self._waiting:
            raise RuntimeError("another task waits for this watch")
        loop, fd = asyncio.get_running_loop(), self.fileno()
        ready = loop.create_future()
        self._waiting = True
        loop.add_reader(fd, lambda: None if ready.done() else ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_reader(fd)
            self._waiting = False
