# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Tables with keys."""

from __future__ import annotations

import ctypes
import errno
from typing import TYPE_CHECKING, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from . import _lib
from .errors import Error
from .parts import Rule, bytes_of
from .watch import Note, Watch

if TYPE_CHECKING:
    from types import TracebackType

    from _typeshed import ReadableBuffer

Key = Union[bytes, str]

# Room for a value whose length is not known
_FIRST_BYTES = 4096


class Item(NamedTuple):
    """A value, and what it is: struct lsm_item."""

    data: bytes
    version: int
    handle: int


class Figures(NamedTuple):
    """struct lsm_table_stat."""

    items: int
    index_bytes: int
    evicted: int


def _bytes(key: Key) -> bytes:
    return key.encode() if isinstance(key, str) else key


class Table:
    """A table with keys, from Store.table(). Keys are bytes; a str stands for its UTF-8.

    As a dict of bytes: table[key], table[key] = data, del table[key], key in table, len(table), and iteration over
    the keys. Calls can be made by many threads at once, but for close(), and not in the child of a fork.
    """

    def __init__(self, lsm: ctypes.c_void_p, number: int, readonly: bool) -> None:
        self._open: Optional[ctypes.c_void_p] = None
        self._lsm, self._number = lsm, number
        table = ctypes.c_void_p()
        _lib.lib.lsm_table_open(lsm, number, _lib.RDONLY if readonly else 0, table)
        self._open = table

    @property
    def _table(self) -> ctypes.c_void_p:
        if self._open is None:
            raise ValueError("the table is closed")
        return self._open

    @property
    def native(self) -> Optional[int]:
        """The struct lsm_table."""
        return self._table.value

    def close(self) -> None:
        """Closes the table; the store stays open."""
        table, self._open = self._open, None
        if table:
            _lib.lib.lsm_table_close(table)

    def __enter__(self) -> Table:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def item(self, key: Key) -> Optional[Item]:
        """Value, version and handle of a key; None: it is not there."""
        name, found, room = _bytes(key), _lib.Item(), _FIRST_BYTES
        while True:
            value = ctypes.create_string_buffer(room)
            try:
                got = _lib.lib.lsm_table_get(self._table, name, len(name), value, room, found)
            except Error as error:
                if error.errno != errno.ENOENT:
                    raise
                return None
            if found.length <= room:
                return Item(value.raw[:got], found.version, found.handle)
            room = found.length

    def get(self, key: Key, default: Optional[bytes] = None) -> Optional[bytes]:
        """The value of a key."""
        found = self.item(key)
        return default if found is None else found.data

    def get_many(self, keys: Sequence[Key]) -> list[Optional[bytes]]:
        """The values of several keys."""
        names = [_bytes(key) for key in keys]
        gets = (_lib.Get * len(names))()
        buffer = ctypes.create_string_buffer(max(1, _FIRST_BYTES * len(names)))
        for i, name in enumerate(names):
            gets[i] = _lib.Get(name, len(name), ctypes.addressof(buffer) + _FIRST_BYTES * i, _FIRST_BYTES)
        _lib.lib.lsm_table_get_many(self._table, gets, len(names))
        return [self._got(name, get) for name, get in zip(names, gets)]

    def _got(self, name: bytes, get: "_lib.Get") -> Optional[bytes]:
        if get.result == -errno.ENOENT:
            return None
        _lib.check(get.result, "lsm_table_get_many")
        return self.get(name) if get.item.length > _FIRST_BYTES else ctypes.string_at(get.value, get.result)

    def put(self, key: Key, data: ReadableBuffer, *, durable: bool = False, new: bool = False, old: bool = False,
            expect: Optional[int] = None) -> int:
        """Puts a value, only if the key is @new, or is there (@old), or has the version @expect.

        Returns the new version. EEXIST, ENOENT, EILSEQ: it is not so.
        """
        name, copy, rule = _bytes(key), bytes_of(data), Rule(durable, {"expect": expect})
        with rule:
            _lib.lib.lsm_table_put(self._table, name, len(name), copy, len(copy),
                                   rule.flags | (_lib.NEW if new else 0) | (_lib.OLD if old else 0), rule.version)
        return int(rule.version.value)

    def alloc(self, key: Key, data: ReadableBuffer, *, durable: bool = False) -> int:
        """The handle of the object of a key, made with @data if there is none.

        To call this again after a crash returns the same.
        """
        name, copy, item = _bytes(key), bytes_of(data), _lib.Item()
        _lib.lib.lsm_table_alloc(self._table, name, len(name), copy, len(copy), _lib.DURABLE if durable else 0, item)
        return int(item.handle)

    def put_many(self, values: Mapping[Key, ReadableBuffer], *, durable: bool = False) -> None:
        """Puts several values, with one wait; raises the first error when all were tried."""
        kept = [(_bytes(key), bytes_of(data)) for key, data in values.items()]
        puts = (_lib.Put * len(kept))()
        for i, (name, data) in enumerate(kept):
            puts[i] = _lib.Put(name, len(name), data, len(data))
        _lib.lib.lsm_table_put_many(self._table, puts, len(kept), _lib.DURABLE if durable else 0)
        for put in puts:
            _lib.check(put.result, "lsm_table_put_many")

    def remove(self, key: Key, *, durable: bool = False, expect: Optional[int] = None) -> bool:
        """Removes a key; False: it is not there."""
        name, rule = _bytes(key), Rule(durable, {"expect": expect})
        try:
            with rule:
                _lib.lib.lsm_table_remove(self._table, name, len(name), rule.flags, rule.version)
        except Error as error:
            if error.errno != errno.ENOENT:
                raise
            return False
        return True

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values, in no order. An item that is there all the time is seen once."""
        cursor, length, found = ctypes.c_uint64(), ctypes.c_size_t(), _lib.Item()
        key, value = ctypes.create_string_buffer(_lib.KEY_MAX), ctypes.create_string_buffer(_lib.OBJECT_MAX)
        while True:
            length.value = _lib.KEY_MAX
            if not _lib.lib.lsm_table_next(self._table, cursor, key, length, value, _lib.OBJECT_MAX, found):
                return
            yield ctypes.string_at(key, length.value), ctypes.string_at(value, found.length)

    def watch(self, *, entries: int = 0, cursor: int = 0) -> Watch:
        """Notes of the changes of the items: see Store.watch()."""
        if not self._open:
            raise ValueError("the table is closed")
        return Watch(self._lsm, self._number, entries, cursor)

    def noted(self, note: Note) -> Optional[tuple[bytes, Item]]:
        """Key and item that a note of the table is about, as it is by now; None: it was removed, or notes are lost."""
        if note.kind in ("lost", "freed"):
            return None
        native, length, found = _lib.Note(handle=note.handle), ctypes.c_size_t(_lib.KEY_MAX), _lib.Item()
        key, value = ctypes.create_string_buffer(_lib.KEY_MAX), ctypes.create_string_buffer(_lib.OBJECT_MAX)
        if not _lib.lib.lsm_table_note(self._table, native, key, length, value, _lib.OBJECT_MAX, found):
            return None
        return (ctypes.string_at(key, length.value),
                Item(ctypes.string_at(value, found.length), found.version, found.handle))

    def evict(self, nbytes: int) -> int:
        """Removes what was not read for a while, until @nbytes of the store are given back; returns how many are."""
        return int(_lib.lib.lsm_table_evict(self._table, nbytes, None))

    def figures(self) -> Figures:
        """Items, and memory of the index."""
        stat = _lib.TableStat()
        _lib.lib.lsm_table_stat(self._table, stat)
        return Figures(stat.items, stat.index_bytes, stat.evicted)

    def __getitem__(self, key: Key) -> bytes:
        found = self.item(key)
        if found is None:
            raise KeyError(key)
        return found.data

    def __setitem__(self, key: Key, data: ReadableBuffer) -> None:
        self.put(key, data)

    def __delitem__(self, key: Key) -> None:
        if not self.remove(key):
            raise KeyError(key)

    def __contains__(self, key: Key) -> bool:
        return self.item(key) is not None

    def __iter__(self) -> Iterator[bytes]:
        return (key for key, _ in self.items())

    def __len__(self) -> int:
        return self.figures().items
