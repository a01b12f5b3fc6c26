# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Changes that depend on what an object has: parts of it, numbers in it, its version."""

from __future__ import annotations

import ctypes
import errno
from typing import TYPE_CHECKING, Callable, NamedTuple, Optional, TypedDict, Union

from . import _lib
from .errors import Error
from .fields import Field

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Unpack

    from _typeshed import ReadableBuffer


class Appended(NamedTuple):
    """Where bytes were appended, and the version that has them."""

    offset: int
    version: int


class If(TypedDict, total=False):
    """Only if the version of the object is @expect, or older or newer than a version. At most one of them."""

    expect: Optional[int]
    older: Optional[int]
    newer: Optional[int]


class Rule:
    """The flags and the version of a call; in a with statement, EILSEQ has the version that the object has."""

    def __init__(self, durable: bool, only_if: If) -> None:
        if unknown := set(only_if) - {"expect", "older", "newer"}:
            raise TypeError(f"no such argument: {', '.join(sorted(unknown))}")
        given = {name: version for name, version in only_if.items() if version is not None}
        if len(given) > 1:
            raise ValueError(f"only one of {' and '.join(given)}")
        kinds = {"expect": _lib.EXPECT, "older": _lib.OLDER, "newer": _lib.NEWER}
        self.flags = (_lib.DURABLE if durable else 0) | sum(kinds[name] for name in given)
        self.version = ctypes.c_uint64(sum(given.values()))  # type: ignore[arg-type]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if isinstance(error, Error) and error.errno == errno.EILSEQ:
            error.version = self.version.value


def bytes_of(data: ReadableBuffer) -> bytes:
    """@data, without a copy if it is bytes."""
    return data if isinstance(data, bytes) else memoryview(data).tobytes()


class Parts:
    """What Store has of them. Each call succeeds in the end, however many clients change the object."""

    @property
    def _lsm(self) -> ctypes.c_void_p:
        raise NotImplementedError

    def write(self, handle: int, data: ReadableBuffer, offset: int = 0, *, durable: bool = False,
              **only_if: Unpack[If]) -> int:
        """Writes to a part of an object, or behind its end, with zeroes in between; returns the new version."""
        copy, rule = bytes_of(data), Rule(durable, only_if)
        if not 0 <= offset < 1 << 32:
            raise ValueError(f"offset {offset}")
        with rule:
            _lib.lib.lsm_write(self._lsm, handle, copy, len(copy), offset, rule.flags, rule.version)
        return rule.version.value

    def append(self, handle: int, data: ReadableBuffer, *, durable: bool = False,
               **only_if: Unpack[If]) -> Appended:
        """Writes behind the end of an object."""
        copy, rule, offset = bytes_of(data), Rule(durable, only_if), ctypes.c_uint32()
        with rule:
            _lib.lib.lsm_append(self._lsm, handle, copy, len(copy), rule.flags, offset, rule.version)
        return Appended(offset.value, rule.version.value)

    def truncate(self, handle: int, length: int, *, durable: bool = False, **only_if: Unpack[If]) -> int:
        """Sets the length of an object; returns the new version."""
        rule = Rule(durable, only_if)
        with rule:
            _lib.lib.lsm_truncate(self._lsm, handle, length, rule.flags, rule.version)
        return rule.version.value

    def add(self, handle: int, field: str, amount: Union[int, float], *, durable: bool = False,
            **only_if: Unpack[If]) -> Union[int, float]:
        """Adds to the number @field, as "u64@8"; returns the sum."""
        found, rule, value = Field.parse(field), Rule(durable, only_if), _lib.Value()
        column = found.column()
        if column.type == _lib.F64:
            value.f64 = amount
        elif -(1 << 63) <= amount < 1 << 63:
            value.i64 = amount
        else:
            raise OverflowError(f"amount {amount}")
        with rule:
            _lib.lib.lsm_add(self._lsm, handle, column.type, column.offset, value, rule.flags, rule.version)
        return found.value_of(value)

    def compare_exchange(self, handle: int, offset: int, expected: ReadableBuffer, desired: ReadableBuffer, *,
                         durable: bool = False, **only_if: Unpack[If]) -> bytes:
        """Writes @desired at @offset if @expected is there; returns what was there: @expected, if it is written."""
        before, copy, rule = bytes_of(expected), bytes_of(desired), Rule(durable, only_if)
        if len(before) != len(copy):
            raise ValueError(f"{len(before)} bytes are expected, and {len(copy)} desired")
        there = ctypes.create_string_buffer(before, len(before))
        with rule:
            _lib.lib.lsm_compare_exchange(self._lsm, handle, offset, there, copy, len(copy), rule.flags,
                                          rule.version)
        return there.raw
