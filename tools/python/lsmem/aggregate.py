# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Aggregates of a scan, which liblsmem computes: see lsm_scan_aggregate()."""

from __future__ import annotations

import ctypes
import decimal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

from . import _lib
from .errors import wanted
from .fields import Field
from .scan import Result, native_scan

if TYPE_CHECKING:
    import pyarrow

Number = Union[int, float]


@dataclass(frozen=True)
class Total:
    """A measure: struct lsm_total. Sums are exact, those of doubles rounded once; min, max: None: no value."""

    count: int
    nan: int
    sum: Number
    min: Optional[Number]
    max: Optional[Number]
    average: float


@dataclass(frozen=True)
class Group:
    """Objects with one value of the group's field; value is None if there are no groups."""

    value: Optional[int]
    rows: int
    totals: dict[str, Total]


class Aggregate:
    """The result: groups in the order of their values, or one group of all objects.

    histograms has, for each measure that bounds were given for, how many values of all groups are below the first
    bound, from each bound up to the next, and from the last one on. NaN is in none.
    """

    def __init__(self, group: Optional[Field], measures: Mapping[str, Field], groups: Sequence[Group],
                 histograms: Mapping[str, Sequence[int]], result: Result) -> None:
        self.groups = list(groups)
        self.histograms = {name: list(counts) for name, counts in histograms.items()}
        self.result = result
        self._group = group
        self._measures = dict(measures)

    def to_arrow(self) -> pyarrow.RecordBatch:
        """A row for each group: its value, rows, and for each measure X: X_count, X_sum, X_min, X_max.

        Sums of integers are decimals of 128 bits, so sums of several stores can be added up exactly.
        """
        schema = _schema(self._measures, self._group)
        arrow = wanted("pyarrow", "an aggregate for Arrow")
        arrays: list[Any] = []
        if self._group:
            arrays.append([group.value for group in self.groups])
        arrays.append([group.rows for group in self.groups])
        for name, field in self._measures.items():
            totals = [group.totals[name] for group in self.groups]
            arrays += [[total.count for total in totals],
                       [total.sum if field.type == _lib.F64 else decimal.Decimal(total.sum) for total in totals],
                       [total.min for total in totals], [total.max for total in totals]]
        return arrow.RecordBatch.from_arrays([arrow.array(array, of.type) for array, of in zip(arrays, schema)],
                                             schema=schema)


def _schema(measures: Mapping[str, Field], group: Optional[Field]) -> pyarrow.Schema:
    arrow = wanted("pyarrow", "an aggregate for Arrow")
    types = {"group": group.arrow_type(arrow)} if group else {}
    types["rows"] = arrow.uint64()
    for name, field in measures.items():
        types[f"{name}_count"] = arrow.uint64()
        types[f"{name}_sum"] = arrow.float64() if field.type == _lib.F64 else arrow.decimal128(38)
        types[f"{name}_min"] = types[f"{name}_max"] = field.arrow_type(arrow)
    return arrow.schema(list(types.items()))


def aggregate_schema(measures: Mapping[str, str], group: Optional[str] = None) -> pyarrow.Schema:
    """The schema of Aggregate.to_arrow(), for the arguments of Store.aggregate()."""
    return _schema({name: Field.parse(text) for name, text in measures.items()},
                   Field.parse(group) if group else None)


def _total(field: Field, total: _lib.Total) -> Total:
    real = field.type == _lib.F64
    return Total(total.count, total.nan, total.sum if real else (total.sum_high << 64) + total.sum_low,
                 field.value_of(total.min) if total.count else None,
                 field.value_of(total.max) if total.count else None, total.average)


def _groups(aggregate: Any, group: Optional[Field], measures: Mapping[str, Field],
            counts: _lib.Counts) -> list[Group]:
    totals = (_lib.Total * max(len(measures), 1))()
    value, rows = _lib.Value(), ctypes.c_uint64(counts.selected)
    groups = []
    for i in range(counts.groups if group else 1):
        if group:
            _lib.lib.lsm_aggregate_group(aggregate, i, value, rows, totals)
        else:
            for j in range(len(measures)):
                _lib.lib.lsm_aggregate_total(aggregate, j, totals[j])
        groups.append(Group(int(group.value_of(value)) if group else None, rows.value,
                            {name: _total(field, total)
                             for (name, field), total in zip(measures.items(), totals)}))
    return groups


def _bounds(field: Field, bounds: Sequence[Number]) -> Any:
    """Bounds for a histogram of @field."""
    values = [field.value(bound) for bound in bounds]
    if not values or any(a >= b for a, b in zip(bounds, bounds[1:])):
        raise ValueError("bounds of a histogram ascend")
    return (_lib.Value * len(values))(*values)


def _asked(measures: Mapping[str, Field], histograms: Mapping[str, Sequence[Number]]) -> Any:
    """The measures of a question."""
    if unknown := histograms.keys() - measures.keys():
        raise ValueError(f"a histogram of {', '.join(sorted(unknown))}, which is not measured")
    asked = (_lib.Measure * len(measures))(*(_lib.Measure(field.column()) for field in measures.values()))
    for measure, (name, field) in zip(asked, measures.items()):
        if name in histograms:
            measure.bounds = _bounds(field, histograms[name])
            measure.nr_bounds = len(histograms[name])
    return asked


def _histograms(aggregate: Any, measures: Mapping[str, Field], asked: Any) -> dict[str, list[int]]:
    found = {}
    for i, name in enumerate(measures):
        if asked[i].nr_bounds:
            buckets = (ctypes.c_uint64 * (asked[i].nr_bounds + 1))()
            _lib.lib.lsm_aggregate_histogram(aggregate, i, buckets)
            found[name] = list(buckets)
    return found


def compute(lsm: Any, group: Optional[Field], measures: Mapping[str, Field], ranges: Sequence[_lib.Range],
            groups_max: int, histograms: Mapping[str, Sequence[Number]], which: Mapping[str, Any]) -> Aggregate:
    """Carries out the scan: see Store.aggregate()."""
    scan, _kept = native_scan(which)
    column = group.column(integer=True) if group else None
    asked = _asked(measures, histograms)
    question = _lib.Question((_lib.Range * len(ranges))(*ranges), len(ranges),
                             ctypes.pointer(column) if column else None, groups_max, asked, len(asked))
    result, counts, aggregate = _lib.ScanResult(), _lib.Counts(), ctypes.c_void_p()
    _lib.lib.lsm_scan_aggregate(lsm, scan, question, aggregate, result)
    try:
        _lib.lib.lsm_aggregate_counts(aggregate, counts)
        return Aggregate(group, measures, _groups(aggregate, group, measures, counts),
                         _histograms(aggregate, measures, asked), Result.of(result, counts))
    finally:
        _lib.lib.lsm_aggregate_destroy(aggregate)
