# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Roots: names of handles, by which a program finds its objects again."""

from __future__ import annotations

import ctypes
import errno
from typing import Callable, Optional

from . import _lib
from .errors import Error


class Roots:
    """The roots of a store, from Store.roots."""

    def __init__(self, lsm: Callable[[], ctypes.c_void_p]) -> None:
        """@lsm: returns the open store."""
        self._lsm = lsm

    def get(self, name: str) -> Optional[int]:
        """The handle that a root names; None: there is no such root."""
        handle = ctypes.c_uint64()
        try:
            _lib.lib.lsm_root_get(self._lsm(), name.encode(), handle)
        except Error as error:
            if error.errno != errno.ENOENT:
                raise
            return None
        return handle.value

    def set(self, name: str, handle: Optional[int], *, durable: bool = False, expect: Optional[int] = None) -> None:
        """Sets a root, or with None removes it; with @expect only if it names that, 0: nothing. EILSEQ: it does not."""
        expected = None if expect is None else ctypes.c_uint64(expect)
        _lib.lib.lsm_root_set(self._lsm(), name.encode(), handle or 0, _lib.DURABLE if durable else 0, expected)

    def all(self) -> dict[str, int]:
        """All roots, at one moment."""
        room = 16
        while True:
            roots = (_lib.Root * room)()
            there = _lib.lib.lsm_root_list(self._lsm(), roots, room)
            if there <= room:
                return {root.name.decode(): root.handle for root in roots[:there]}
            room = there
