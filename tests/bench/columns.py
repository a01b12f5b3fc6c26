# SPDX-License-Identifier: GPL-2.0
"""The questions of scans.c to DuckDB, over the columns that it has written to a file.

usage: columns.py OBJECTS BELOW FILE

Speaks as the bench programs do: it says "ready", and answers "ask QUESTION THREADS" with a line of JSON.
Runs with the Python of qemu/setup's group python, of which the rest of the benches knows nothing.
"""

import json
import sys
import time
from pathlib import Path

import duckdb
import numpy

OTHER_BYTES = 128 << 20	# empties the caches, as scans.c does
objects, below = int(sys.argv[1]), int(sys.argv[2])
path = Path(sys.argv[3])

raw = path.read_bytes()
path.unlink()
columns = {"value": numpy.frombuffer(raw, numpy.uint64, objects),
           "grp": numpy.frombuffer(raw, numpy.uint64, objects, 8 * objects),
           "pick": numpy.frombuffer(raw, numpy.uint32, objects, 16 * objects)}
base = duckdb.connect()
base.execute("create table objects as select * from columns")
del columns, raw
other = numpy.zeros(OTHER_BYTES, numpy.uint8)

QUERIES = ("select sum(value) from objects",
           f"select sum(value) from objects where pick < {below}",
           "select grp, sum(value) from objects group by grp")


def ask(question: int, threads: int) -> dict[str, float]:
    """The answer: how long it took, and the sum that scans.c computes of the rows."""
    base.execute(f"set threads = {threads}")
    other[:] += 1
    begin = time.perf_counter()
    rows = base.execute(QUERIES[question]).fetchall()
    ms = (time.perf_counter() - begin) * 1e3
    total = sum((int(row[0]) + 1) * int(row[1]) for row in rows) if len(rows[0]) > 1 else int(rows[0][0])
    return {"ms": ms, "sum": total}


print("ready", flush=True)
for line in sys.stdin:
    verb, *words = line.split()
    assert verb == "ask"
    print(json.dumps(ask(int(words[0]), int(words[1]))), flush=True)
