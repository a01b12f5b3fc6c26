# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Objects in log-structured memory, and scans of them as arrays.

An object has 1 byte to 1 MiB, and a 64-bit handle. A store is a device::

    with lsmem.open("/dev/lsmem") as store:
        handle, version = store.alloc(b"some bytes", table=3)
        print(store.read(handle))
        for batch in store.scan({"region": "u32@0", "cents": "i64@8"}, table=3):
            print(batch["cents"].sum())

Calls raise Error, an OSError, with the errno of liblsmem. lsmem(3) describes the calls and their errors.
Needs liblsmem.so.1; batches as arrays need NumPy, and Scan.to_arrow() needs pyarrow.
"""

from .aggregate import Aggregate, Group, Total, aggregate_schema
from .changes import Change, Changes
from .errors import Error, Revoked, ViewRevoked
from .fields import columns_of
from .large import Attributes, Large, Report
from .parts import Appended, If
from .roots import Roots
from .scan import Batch, Explain, Result, Scan
from .store import Allocated, Object, Store, Which, open, wait_active  # pylint: disable=redefined-builtin
from .table import Figures, Item, Table
from .view import View
from .watch import Note, Watch

__all__ = ["Aggregate", "Allocated", "Appended", "Attributes", "Batch", "Change", "Changes", "Error", "Explain",
           "Figures", "Group", "If", "Item", "Large", "Note", "Object", "Report", "Result", "Revoked", "Roots",
           "Scan", "Store", "Table", "Total", "View", "ViewRevoked", "Watch", "Which", "aggregate_schema", "columns_of",
           "open", "wait_active"]
