# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Vectors for which an event loop waits, without a thread."""

from __future__ import annotations

import asyncio
import ctypes
import errno
from typing import Any, Callable, Optional

from . import _lib
from .errors import Error

# Vectors under way; further ones wait for their turn.
_MOST = 64


class Ring:
    """The vectors of a store and an event loop that are under way: lsm_async_open()."""

    def __init__(self, lsm: Callable[[], ctypes.c_void_p], loop: asyncio.AbstractEventLoop) -> None:
        """@lsm: keeps the store."""
        self._native: Optional[ctypes.c_void_p] = None
        self._lsm = lsm
        self._loop = loop
        self._turns = asyncio.Semaphore(_MOST)
        self._numbers = 0
        # By number: who waits, and what belongs to the kernel until then, also if nothing waits any more
        self._waiting: dict[int, tuple[asyncio.Future[int], Any]] = {}
        native = ctypes.c_void_p()
        _lib.lib.lsm_async_open(lsm(), _MOST, native)
        self._native = native
        self._fd = int(_lib.lib.lsm_async_fd(native))

    def close(self) -> None:
        """Waits for what is under way, and closes."""
        native, self._native = self._native, None
        if native is None:
            return
        if self._waiting and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        _lib.lib.lsm_async_close(native)
        for ended, _ in self._waiting.values():
            self._turns.release()
            if not ended.done() and not self._loop.is_closed():
                ended.set_exception(Error(errno.ECANCELED, "lsm_async_close"))
        self._waiting.clear()

    def __del__(self) -> None:
        self.close()

    async def vector(self, ops: Any, flags: int, kept: Any) -> None:
        """Carries out an array of operations, as lsm_vector(); @kept: what their data is in."""
        await self._turns.acquire()
        try:
            ended = self._begin(ops, flags, kept)
        except BaseException:
            self._turns.release()
            raise
        # Who does not want to wait any more leaves the operations to the kernel.
        result = await ended
        if result < 0:
            raise Error(-result, "lsm_async_next")

    def _begin(self, ops: Any, flags: int, kept: Any) -> asyncio.Future[int]:
        if self._native is None:
            raise ValueError("the store is closed")
        ended: asyncio.Future[int] = self._loop.create_future()
        if not self._waiting:
            self._loop.add_reader(self._fd, self._readable)
        self._numbers += 1
        self._waiting[self._numbers] = (ended, (ops, kept))
        try:
            _lib.lib.lsm_async_submit(self._native, ops, len(ops), flags, self._numbers)
        except BaseException:
            self._gone(self._numbers)
            raise
        return ended

    def _gone(self, number: int) -> asyncio.Future[int]:
        """Takes what does not belong to the kernel any more; returns who waits for it."""
        ended, _ = self._waiting.pop(number)
        if not self._waiting:
            self._loop.remove_reader(self._fd)
        return ended

    def _readable(self) -> None:
        number, result = ctypes.c_void_p(), ctypes.c_int()
        while self._native is not None and _lib.lib.lsm_async_next(self._native, number, result, None):
            ended = self._gone(number.value or 0)
            self._turns.release()
            if not ended.done():
                ended.set_result(result.value)
