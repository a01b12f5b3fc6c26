/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The memory that a store takes.  See sizes.c.  lsmem_sizes_of() computes it before anything is
 * allocated; store.c compares it with the memory that there is (lsmem_create_fits()).
 */
#ifndef LSMEM_SIZES_H
#define LSMEM_SIZES_H

#include <linux/types.h>

#include "../uapi/lsmem.h"

#define LSMEM_BYTES_MIN		(128ull << 20)
#define LSMEM_BYTES_MAX		(1ull << 40)
#define LSMEM_HANDLES_MAX	0x7fffffffull	/* an index is an int, too */
#define LSMEM_HANDLE_BYTES	256	/* default bytes of the log per handle */
#define LSMEM_CACHES		4	/* cache segments, as a multiple of those that fill the memory */

/**
 * struct lsmem_sizes - the memory that a store takes
 * @seglets: seglets of the log
 * @segments: segments of the log, at most
 * @segments_all: these, and cache segments
 * @handles: entries of the handle table, at most
 * @seglet_bytes: memory of the log
 * @table_bytes: memory of all tables that grow with the store
 * @largest: bytes of the largest table that kvmalloc() allocates
 */
struct lsmem_sizes {
	u64 seglets;
	u64 segments;
	u64 segments_all;
	u64 handles;
	u64 seglet_bytes;
	u64 table_bytes;
	u64 largest;
};

/* May objects of a store be on its backups only? */
static inline bool lsmem_create_tier(const struct lsmem_create *create)
{
	return create->capacity || create->flags & LSMEM_STORE_INSTANT;
}

void lsmem_sizes_of(const struct lsmem_create *create, struct lsmem_sizes *sizes);

#endif
