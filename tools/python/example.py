# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Loads orders, scans them as arrays, groups them with DuckDB, and draws. usage: example.py STORE"""

import sys

import duckdb
import lsmem
import numpy as np

ORDER = np.dtype([("region", "<u4"), ("quantity", "<u4"), ("cents", "<i8")])

with lsmem.open(sys.argv[1]) as store:
    # Load: an object for each item of an array
    dice = np.random.default_rng(1)
    orders = np.zeros(100_000, ORDER)
    orders["region"] = dice.integers(0, 8, len(orders))
    orders["quantity"] = dice.integers(1, 10 * (2 + orders["region"]))
    orders["cents"] = orders["quantity"] * dice.integers(100, 2000, len(orders))
    store.alloc_many(orders, table=3)

    # Scan: arrays, batch by batch, of all orders as they were at one version
    scan = store.scan(lsmem.columns_of(ORDER), "quantity>=5", table=3, exact=True)
    total = sum(int(batch["cents"].sum()) for batch in scan)
    print(f"{scan.result.selected:,} large orders, {total:,} cents at version {scan.result.version}")

    # Group by, with DuckDB: it takes the batches as they come, where they are
    groups = duckdb.from_arrow(scan.to_arrow()).aggregate("region, sum(cents)::BIGINT", "region")
    revenue = dict(groups.fetchall())

# Plot
for region, cents in sorted(revenue.items()):
    print(f"region {region} {cents:>14,} {'#' * (40 * cents // max(revenue.values()))}")
