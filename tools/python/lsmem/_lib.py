# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""liblsmem by ctypes: structures and functions of lsmem.h. tests/python compares the layouts."""

from __future__ import annotations

import ctypes
import errno
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any

from . import errors
from .errors import Error, Revoked

U32, U64, I64, F64 = 1, 2, 3, 4
FIELD_BYTES, FIELD_HANDLE, FIELD_VERSION, FIELD_LENGTH, FIELD_TABLE = 16, 17, 18, 19, 20
PLANS = ("auto", "lookup", "sorted", "table", "log")
PLANS_MAX = 16
RDONLY, NO_WINDOWS = 1, 2
DURABLE, EXPECT, ATOMIC, OLDER, NEWER = 1, 2, 8, 1 << 14, 1 << 15
NEW, OLD, KEY_MAX = 1 << 16, 1 << 17, 65535
SCAN_EXACT = 1
OP_ALLOC, OP_REPLACE, OP_FREE, OP_CHECK = 1, 3, 4, 5
ITEM_PUT, ITEM_REMOVE, ITEM_CHECK = 1, 2, 3
NONBLOCK = 1
NOTE_NEW, NOTE_REPLACED, NOTE_FREED, NOTE_LOST, NOTE_MORE = 1, 2, 3, 4, 1
OP_BYTES = 56
OBJECT_MAX = 1 << 20
VIEW_PIECES = 18


class Object(ctypes.Structure):
    """struct lsm_object"""

    _fields_ = [("version", c_uint64), ("length", c_uint32), ("table", c_uint32), ("reserved", c_uint64 * 2)]


class IoVec(ctypes.Structure):
    """struct iovec"""

    _fields_ = [("iov_base", c_void_p), ("iov_len", c_size_t)]


class View(ctypes.Structure):
    """struct lsm_view"""

    _fields_ = [("iov", IoVec * VIEW_PIECES), ("nr", c_uint32), ("slot", c_uint32), ("object", Object),
                ("epoch", c_uint64), ("reserved", c_uint64 * 2)]


class Large(ctypes.Structure):
    """struct lsm_large"""

    _fields_ = [("version", c_uint64), ("length", c_uint64), ("part", c_uint32), ("table", c_uint32),
                ("reserved", c_uint64 * 2)]


class LargeReport(ctypes.Structure):
    """struct lsm_large_report"""

    _fields_ = [("objects", c_uint64), ("parts", c_uint64), ("orphans", c_uint64), ("broken", c_uint64),
                ("unseen", c_uint64), ("reserved", c_uint64 * 3)]


class Item(ctypes.Structure):
    """struct lsm_item"""

    _fields_ = [("handle", c_uint64), ("version", c_uint64), ("length", c_uint32), ("reserved", c_uint32 * 3)]


class Get(ctypes.Structure):
    """struct lsm_get"""

    _fields_ = [("key", c_char_p), ("key_length", c_size_t), ("value", c_void_p), ("room", c_size_t), ("item", Item),
                ("result", ctypes.c_ssize_t), ("flags", c_uint32), ("reserved", c_uint32 * 3)]


class Put(ctypes.Structure):
    """struct lsm_put"""

    _fields_ = [("key", c_char_p), ("key_length", c_size_t), ("value", c_char_p), ("length", c_size_t),
                ("flags", c_uint), ("version", c_uint64), ("result", c_int), ("reserved", c_uint32 * 3)]


class ItemOp(ctypes.Structure):
    """struct lsm_item_op"""

    _fields_ = [("table", c_void_p), ("key", c_char_p), ("key_length", c_size_t), ("value", c_char_p),
                ("length", c_size_t), ("op", c_uint32), ("flags", c_uint32), ("version", c_uint64),
                ("handle", c_uint64), ("result", ctypes.c_int32), ("reserved", c_uint32 * 5)]


class Note(ctypes.Structure):
    """struct lsmem_note"""

    _fields_ = [("cursor", c_uint64), ("handle", c_uint64), ("version", c_uint64), ("kind", c_uint32),
                ("flags", c_uint32)]


class TableStat(ctypes.Structure):
    """struct lsm_table_stat"""

    _fields_ = [("items", c_uint64), ("index_bytes", c_uint64), ("evicted", c_uint64),
                ("reserved", c_uint64 * 5)]


class Root(ctypes.Structure):
    """struct lsm_root"""

    _fields_ = [("handle", c_uint64), ("name", ctypes.c_char * 256), ("reserved", c_uint64 * 1)]


class Column(ctypes.Structure):
    """struct lsm_column"""

    _fields_ = [("type", c_uint32), ("offset", c_uint32), ("nr", c_uint32), ("stride", c_uint32)]


class Value(ctypes.Union):
    """union lsm_value"""

    _fields_ = [("u64", c_uint64), ("i64", c_int64), ("f64", c_double)]


class Range(ctypes.Structure):
    """struct lsm_range"""

    _fields_ = [("column", Column), ("low", Value), ("high", Value)]


class Measure(ctypes.Structure):
    """struct lsm_measure"""

    _fields_ = [("column", Column), ("flags", c_uint32), ("top", c_uint32), ("bounds", POINTER(Value)),
                ("nr_bounds", c_size_t), ("reserved", c_uint64 * 2)]


class Question(ctypes.Structure):
    """struct lsm_question"""

    _fields_ = [("ranges", POINTER(Range)), ("nr_ranges", c_size_t), ("group", POINTER(Column)),
                ("groups_max", c_size_t), ("measures", POINTER(Measure)), ("nr_measures", c_size_t),
                ("flags", c_uint32), ("reserved", c_uint32 * 7)]


class Total(ctypes.Structure):
    """struct lsm_total"""

    _fields_ = [("count", c_uint64), ("nan", c_uint64), ("min", Value), ("max", Value),
                ("sum_low", c_uint64), ("sum_high", c_int64), ("sum", c_double), ("average", c_double),
                ("reserved", c_uint64 * 2)]


class Counts(ctypes.Structure):
    """struct lsm_counts"""

    _fields_ = [("fed", c_uint64), ("shorter", c_uint64), ("selected", c_uint64), ("groups", c_uint64),
                ("reserved", c_uint64 * 4)]


class Scan(ctypes.Structure):
    """struct lsm_scan"""

    _fields_ = [("plan", c_uint32), ("flags", c_uint32), ("threads", c_uint32), ("prefix", c_uint32),
                ("one_table", c_uint32), ("table", c_uint32), ("length_min", c_uint32),
                ("length_max", c_uint32), ("version_min", c_uint64), ("version_max", c_uint64),
                ("index_first", c_uint64), ("index_end", c_uint64), ("handles", c_void_p),
                ("nr_handles", c_size_t), ("kept_max", c_uint32), ("time_ms", c_uint32),
                ("batch", c_void_p), ("progress", c_void_p), ("context", c_void_p), ("reserved", c_uint64 * 8)]


class Explain(ctypes.Structure):
    """struct lsm_explain"""

    _fields_ = [("plan", c_uint32), ("threads", c_uint32), ("objects", c_uint64), ("bytes", c_uint64),
                ("wanted", c_uint64), ("cold", c_uint64), ("cost_ns", c_int64 * PLANS_MAX), ("reserved", c_uint64 * 4)]


class ScanResult(ctypes.Structure):
    """struct lsm_scan_result"""

    _fields_ = [("explain", Explain), ("version", c_uint64), ("rows", c_uint64), ("copied", c_uint64),
                ("gone", c_uint64), ("cold", c_uint64), ("reserved", c_uint64 * 4)]


class Field(ctypes.Structure):
    """struct lsm_field"""

    _fields_ = [("type", c_uint32), ("offset", c_uint32), ("bytes", c_uint32), ("reserved", c_uint32)]


class Columns(ctypes.Structure):
    """struct lsm_columns, without its flexible array data"""

    _fields_ = [("rows", c_size_t), ("nr", c_size_t), ("reserved", c_uint64 * 2)]


GatherBatch = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint, c_void_p)


class Gather(ctypes.Structure):
    """struct lsm_gather"""

    _fields_ = [("fields", POINTER(Field)), ("nr_fields", c_size_t), ("ranges", POINTER(Range)),
                ("nr_ranges", c_size_t), ("rows_max", c_size_t), ("batch", GatherBatch),
                ("context", c_void_p), ("flags", c_uint32), ("reserved", c_uint32 * 7)]


class Op(ctypes.Structure):
    """struct lsmem_op"""

    _fields_ = [("size", c_uint32), ("op", c_uint32), ("flags", c_uint32), ("result", ctypes.c_int32),
                ("handle", c_uint64), ("version", c_uint64), ("data", c_uint64), ("length", c_uint32),
                ("table", c_uint32), ("offset", c_uint32), ("object_length", c_uint32)]


class Stat(ctypes.Structure):
    """struct lsmem_stat"""

    _fields_ = [("size", c_uint32), ("flags", c_uint32),
                *((name, c_uint64) for name in (
                    "capacity", "live_bytes", "seglets", "free_seglets", "handles_max", "handles_used",
                    "segments", "segments_cleaned", "appended_bytes", "relocated_bytes",
                    "durable_bytes", "stalls", "stall_ns", "segments_compacted"))]


# Functions that return 0, a count, or a negative errno, and their arguments
_CALLS = {
    "lsm_open": (c_char_p, c_uint, POINTER(c_void_p)),
    "lsm_alloc": (c_void_p, c_void_p, c_size_t, c_uint, POINTER(c_uint64), POINTER(c_uint64)),
    "lsm_replace": (c_void_p, c_uint64, c_void_p, c_size_t, c_uint, POINTER(c_uint64)),
    "lsm_free": (c_void_p, c_uint64, c_uint, POINTER(c_uint64)),
    "lsm_view_begin": (c_void_p, c_uint64, POINTER(View)),
    "lsm_view_end": (c_void_p, POINTER(View)),
    "lsm_view_bound": (c_void_p,),
    "lsm_write": (c_void_p, c_uint64, c_void_p, c_size_t, c_uint32, c_uint, POINTER(c_uint64)),
    "lsm_append": (c_void_p, c_uint64, c_void_p, c_size_t, c_uint, POINTER(c_uint32), POINTER(c_uint64)),
    "lsm_truncate": (c_void_p, c_uint64, c_size_t, c_uint, POINTER(c_uint64)),
    "lsm_compare_exchange": (c_void_p, c_uint64, c_uint32, c_void_p, c_void_p, c_size_t, c_uint,
                             POINTER(c_uint64)),
    "lsm_add": (c_void_p, c_uint64, c_uint32, c_uint32, POINTER(Value), c_uint, POINTER(c_uint64)),
    "lsm_large_create": (c_void_p, c_uint32, c_uint, POINTER(c_uint64)),
    "lsm_large_write": (c_void_p, c_uint64, c_void_p, c_size_t, c_uint64, c_uint, POINTER(c_uint64)),
    "lsm_large_append": (c_void_p, c_uint64, c_void_p, c_size_t, c_uint, POINTER(c_uint64), POINTER(c_uint64)),
    "lsm_large_free": (c_void_p, c_uint64, c_uint, POINTER(c_uint64)),
    "lsm_large_sweep": (c_void_p, c_uint32, POINTER(LargeReport)),
    "lsm_wait_active": (c_char_p, c_int),
    "lsm_root_get": (c_void_p, c_char_p, POINTER(c_uint64)),
    "lsm_root_set": (c_void_p, c_char_p, c_uint64, c_uint, POINTER(c_uint64)),
    "lsm_table_open": (c_void_p, c_uint32, c_uint, POINTER(c_void_p)),
    "lsm_table_put": (c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_uint, POINTER(c_uint64)),
    "lsm_table_alloc": (c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_uint, POINTER(Item)),
    "lsm_table_remove": (c_void_p, c_char_p, c_size_t, c_uint, POINTER(c_uint64)),
    "lsm_table_put_many": (c_void_p, POINTER(Put), c_size_t, c_uint),
    "lsm_table_group": (c_void_p, POINTER(ItemOp), c_size_t, c_void_p, c_size_t, c_uint),
    "lsm_table_next": (c_void_p, POINTER(c_uint64), c_void_p, POINTER(c_size_t), c_void_p, c_size_t, POINTER(Item)),
    "lsm_table_note": (c_void_p, POINTER(Note), c_void_p, POINTER(c_size_t), c_void_p, c_size_t, POINTER(Item)),
    "lsm_table_stat": (c_void_p, POINTER(TableStat)),
    "lsm_watch_open": (c_void_p, c_uint32, c_uint32, c_uint64, c_uint),
    "lsm_vector": (c_void_p, c_void_p, c_size_t, c_uint, POINTER(c_size_t)),
    "lsm_async_open": (c_void_p, c_uint, POINTER(c_void_p)),
    "lsm_async_fd": (c_void_p,),
    "lsm_async_submit": (c_void_p, c_void_p, c_size_t, c_uint, c_void_p),
    "lsm_async_next": (c_void_p, POINTER(c_void_p), POINTER(c_int), POINTER(c_size_t)),
    "lsm_sync": (c_void_p, c_uint32),
    "lsm_stat_sized": (c_void_p, POINTER(Stat), c_size_t),
    "lsm_scan_explain": (c_void_p, POINTER(Scan), POINTER(Explain)),
    "lsm_scan_aggregate": (c_void_p, POINTER(Scan), POINTER(Question), POINTER(c_void_p),
                           POINTER(ScanResult)),
    "lsm_scan_columns": (c_void_p, POINTER(Scan), POINTER(Gather), POINTER(Counts),
                         POINTER(ScanResult)),
    "lsm_aggregate_counts": (c_void_p, POINTER(Counts)),
    "lsm_aggregate_total": (c_void_p, c_size_t, POINTER(Total)),
    "lsm_aggregate_histogram": (c_void_p, c_size_t, POINTER(c_uint64)),
    "lsm_aggregate_group": (c_void_p, c_size_t, POINTER(Value), POINTER(c_uint64), POINTER(Total)),
}


# The same of functions that return more than an int has
_LONG_CALLS = {
    "lsm_read": (c_void_p, c_uint64, c_void_p, c_size_t, c_uint32, POINTER(Object)),
    "lsm_large_read": (c_void_p, c_uint64, c_void_p, c_size_t, c_uint64, POINTER(Large)),
    "lsm_root_list": (c_void_p, POINTER(Root), c_size_t),
    "lsm_table_get": (c_void_p, c_char_p, c_size_t, c_void_p, c_size_t, POINTER(Item)),
    "lsm_table_evict": (c_void_p, c_size_t, POINTER(c_uint64)),
    "lsm_watch_read": (c_int, POINTER(Note), c_size_t),
}


def check(returned: Any, what: str) -> Any:
    """@returned, which is no error; @what: the function, for the exception."""
    if returned >= 0:
        return returned
    if returned == -errno.ECANCELED:
        raise Revoked(errno.ECANCELED, what)
    raise Error(-returned, what)


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("liblsmem.so.1")
    except OSError as error:
        raise ImportError(f"lsmem: the library of lsmem cannot be loaded: {error}") from error
    try:
        for calls, result in ((_CALLS, c_int), (_LONG_CALLS, ctypes.c_ssize_t)):
            for name, arguments in calls.items():
                function = getattr(library, name)
                function.argtypes = arguments
                function.restype = result
                function.errcheck = lambda returned, _function, _arguments, what=name: check(returned, what)
        library.lsm_table_get_many.argtypes = (c_void_p, POINTER(Get), c_size_t)
        library.lsm_table_get_many.restype = None
        library.lsm_explain_text.argtypes = (POINTER(Explain), c_char_p, c_size_t)
        library.lsm_explain_text.restype = c_int
        library.lsm_strerror.argtypes = (c_int,)
        library.lsm_strerror.restype = c_char_p
        errors.strerror = lambda number: str(library.lsm_strerror(number), "ascii")
        library.lsm_fd.argtypes = (c_void_p,)
        library.lsm_fd.restype = c_int
        for name in ("lsm_close", "lsm_async_close", "lsm_aggregate_destroy", "lsm_columns_free", "lsm_table_close"):
            getattr(library, name).argtypes = (c_void_p,)
            getattr(library, name).restype = None
    except AttributeError as error:
        raise ImportError(f"lsmem: the installed liblsmem is too old: {error}") from error
    return library


lib = _load()
