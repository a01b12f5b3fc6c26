# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""What scans gather and compare, as text, in the words of lsmemctl scan.

A field is ``u32@0``, ``u64@8``, ``i64@8``, ``f64@8`` (a value at an offset, little endian), ``bytes@16x8``
(8 bytes from offset 16 on), or ``handle``, ``version``, ``length`` or ``table`` of the object. A condition
is a field of one value, or the name of one, an operator (``<``, ``<=``, ``>``, ``>=``, ``=``), and a number.
"""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Union

from . import _lib

_TYPES = {"u32": _lib.U32, "u64": _lib.U64, "i64": _lib.I64, "f64": _lib.F64}
_OTHERS = {"handle": _lib.FIELD_HANDLE, "version": _lib.FIELD_VERSION, "length": _lib.FIELD_LENGTH,
           "table": _lib.FIELD_TABLE}
_LIMITS = {_lib.U32: (0, (1 << 32) - 1), _lib.U64: (0, (1 << 64) - 1),
           _lib.I64: (-(1 << 63), (1 << 63) - 1), _lib.F64: (-math.inf, math.inf)}
# Names of the types of a field in NumPy, in the byte order of the processor, and in Arrow
_NUMPY = {_lib.U32: "u4", _lib.U64: "u8", _lib.I64: "i8", _lib.F64: "f8", _lib.FIELD_HANDLE: "u8",
          _lib.FIELD_VERSION: "u8", _lib.FIELD_LENGTH: "u4", _lib.FIELD_TABLE: "u4"}
_ARROW = {"u4": "uint32", "u8": "uint64", "i8": "int64", "f8": "float64"}
_WHERE = re.compile(r"\s*([^\s<>=]+)\s*(<=|>=|<|>|=)\s*(\S+)\s*")


@dataclass(frozen=True)
class Field:
    """A field of each object."""

    type: int
    offset: int = 0
    bytes: int = 0

    @classmethod
    def parse(cls, text: str) -> Field:
        """The field that @text says; ValueError if there is none."""
        if text in _OTHERS:
            return cls(_OTHERS[text])
        if match := re.fullmatch(r"(u32|u64|i64|f64)@(\d+)", text):
            field = cls(_TYPES[match[1]], int(match[2]))
        elif match := re.fullmatch(r"bytes@(\d+)x(\d+)", text):
            field = cls(_lib.FIELD_BYTES, int(match[1]), int(match[2]))
        else:
            raise ValueError(f"'{text}' is no field: write u32@0, u64@8, i64@8, f64@8, bytes@16x8, handle, "
                             f"version, length or table")
        if not 0 < field.width() <= _lib.OBJECT_MAX - field.offset:
            raise ValueError(f"'{text}': an object has 1 to {_lib.OBJECT_MAX} bytes")
        return field

    def width(self) -> int:
        """Bytes of a value."""
        return self.bytes if self.type == _lib.FIELD_BYTES else int(_NUMPY[self.type][1])

    def numpy_type(self) -> str:
        """Its type for NumPy; bytes lose zeroes at their end when they become Python's bytes."""
        return f"S{self.bytes}" if self.type == _lib.FIELD_BYTES else _NUMPY[self.type]

    def arrow_type(self, arrow: Any) -> Any:
        """Its type for pyarrow, @arrow."""
        if self.type == _lib.FIELD_BYTES:
            return arrow.binary(self.bytes)
        return getattr(arrow, _ARROW[self.numpy_type()])()

    def native(self) -> _lib.Field:
        """For lsm_scan_columns()."""
        return _lib.Field(self.type, self.offset, self.bytes)

    def column(self, integer: bool = False) -> _lib.Column:
        """For aggregates and ranges; @integer: of a group."""
        if self.type not in _LIMITS or (integer and self.type == _lib.F64):
            raise ValueError(f"this needs {'an integer' if integer else 'a number'} in the object, as u32@0")
        return _lib.Column(self.type, self.offset, 0, 0)

    def value_of(self, value: _lib.Value) -> Union[int, float]:
        """A value of this field's type."""
        if self.type == _lib.F64:
            return float(value.f64)
        return int(value.i64 if self.type == _lib.I64 else value.u64)

    def value(self, number: Union[int, float]) -> _lib.Value:
        """A number as a value of this field's type."""
        if self.type == _lib.F64:
            if math.isnan(number):
                raise ValueError("NaN is no bound")
            return _lib.Value(f64=number)
        if isinstance(number, float):
            raise TypeError(f"{number} is not an integer, as the field is")
        whole = operator.index(number)
        low, high = _LIMITS[self.type]
        if not low <= whole <= high:
            raise ValueError(f"{number} is not of the field's type")
        return _lib.Value(i64=whole) if self.type == _lib.I64 else _lib.Value(u64=whole)


def parse_columns(columns: Mapping[str, str]) -> dict[str, Field]:
    """The fields of columns, by their names."""
    if not columns:
        raise ValueError("no columns")
    return {name: Field.parse(text) for name, text in columns.items()}


def _parse_number(field: Field, text: str) -> Union[int, float]:
    number: Union[int, float] = float(text) if field.type == _lib.F64 else int(text)
    if math.isnan(number):
        raise ValueError("NaN lies in no range")
    return number


def parse_range(text: str, columns: Mapping[str, Field]) -> _lib.Range:
    """A condition on a field, or on the field of the column with that name."""
    match = _WHERE.fullmatch(text)
    if not match:
        raise ValueError(f"'{text}' is no condition: write 'u32@0<100' or 'NAME<100', with <, <=, >, >= or =")
    field = columns[match[1]] if match[1] in columns else Field.parse(match[1])
    found = _lib.Range(column=field.column())
    low, high = least, most = _LIMITS[field.type]
    number = _parse_number(field, match[3])
    if match[2] != "<" and match[2] != "<=":
        low = number
    if match[2] != ">" and match[2] != ">=":
        high = number
    if match[2] == "<":
        high = math.nextafter(number, -math.inf) if field.type == _lib.F64 else int(number) - 1
    if match[2] == ">":
        low = math.nextafter(number, math.inf) if field.type == _lib.F64 else int(number) + 1
    # There is nothing below or above, so nothing is in the range.
    if low > most or high < least or (match[2] in "<>" and number == (least if match[2] == "<" else most)):
        low, high = 1, 0
    name = "f64" if field.type == _lib.F64 else "i64" if field.type == _lib.I64 else "u64"
    setattr(found.low, name, max(low, least))
    setattr(found.high, name, min(high, most))
    return found


def parse_where(where: Union[str, Iterable[str]], columns: Mapping[str, Field]) -> list[_lib.Range]:
    """Conditions, one or several, which must all hold."""
    return [parse_range(text, columns) for text in ([where] if isinstance(where, str) else where)]


def columns_of(dtype: Any) -> dict[str, str]:
    """The columns of objects that are items of a structured NumPy type, for Store.scan()."""
    types = {"<u4": "u32", "<u8": "u64", "<i8": "i64", "<f8": "f64"}
    columns = {}
    for name in dtype.names or ():
        of, offset = dtype.fields[name][:2]
        if of.kind not in "SV" and of.str not in types:
            raise ValueError(f"column {name}: scans have no type {of}")
        columns[name] = f"bytes@{offset}x{of.itemsize}" if of.kind in "SV" else f"{types[of.str]}@{offset}"
    return columns
