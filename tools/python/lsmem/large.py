# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Objects of more than 1 MiB."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Callable, NamedTuple, Optional

from . import _lib
from .parts import Appended, Rule, bytes_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Attributes(NamedTuple):
    """struct lsm_large."""

    version: int
    length: int
    part: int
    table: int


class Report(NamedTuple):
    """What Store.sweep_large() has found: struct lsm_large_report."""

    objects: int
    parts: int
    orphans: int
    broken: int
    unseen: int


class Large:
    """A large object, from Store.large() or Store.make_large(). It is named by its handle."""

    def __init__(self, lsm: Callable[[], ctypes.c_void_p], handle: int) -> None:
        """@lsm: returns the open store."""
        self._lsm = lsm
        self.handle = handle

    @property
    def attributes(self) -> Attributes:
        """Version, length, bytes of a part, and table."""
        found = _lib.Large()
        _lib.lib.lsm_large_read(self._lsm(), self.handle, None, 0, 0, found)
        return Attributes(found.version, found.length, found.part, found.table)

    def read(self, length: Optional[int] = None, offset: int = 0) -> bytes:
        """Bytes from @offset on, at most @length, all of one version."""
        found = _lib.Large()
        room = length
        while True:
            if room is None:
                room = max(0, self.attributes.length - offset)
            buffer = (ctypes.c_char * room)()
            got = _lib.lib.lsm_large_read(self._lsm(), self.handle, buffer, room, offset, found)
            if length is not None or got == found.length - offset:
                return ctypes.string_at(buffer, got)
            room = None  # it has grown since

    def write(self, data: ReadableBuffer, offset: int = 0, *, expect: Optional[int] = None) -> int:
        """Writes at @offset, also behind the end; returns the new version."""
        copy, rule = bytes_of(data), Rule(False, {"expect": expect})
        with rule:
            _lib.lib.lsm_large_write(self._lsm(), self.handle, copy, len(copy), offset, rule.flags, rule.version)
        return rule.version.value

    def append(self, data: ReadableBuffer, *, expect: Optional[int] = None) -> Appended:
        """Writes behind the end."""
        copy, rule, offset = bytes_of(data), Rule(False, {"expect": expect}), ctypes.c_uint64()
        with rule:
            _lib.lib.lsm_large_append(self._lsm(), self.handle, copy, len(copy), rule.flags, offset, rule.version)
        return Appended(offset.value, rule.version.value)

    def free(self, *, expect: Optional[int] = None) -> None:
        """Frees it, with all parts."""
        rule = Rule(False, {"expect": expect})
        with rule:
            _lib.lib.lsm_large_free(self._lsm(), self.handle, rule.flags, rule.version)


def sweep(lsm: ctypes.c_void_p, table: int) -> Report:
    """See Store.sweep_large()."""
    report = _lib.LargeReport()
    _lib.lib.lsm_large_sweep(lsm, table, report)
    return Report(*(getattr(report, name) for name in Report._fields))
