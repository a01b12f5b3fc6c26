/* SPDX-License-Identifier: GPL-2.0 */
/* What a store of some shape takes.  See sizes.c. */
#ifndef LSMEM_SIZES_H
#define LSMEM_SIZES_H

#include <linux/types.h>

#include "../uapi/lsmem.h"

#define LSMEM_BYTES_MIN		(128ull << 20)
#define LSMEM_BYTES_MAX		(1ull << 40)
#define LSMEM_HANDLES_MAX	0x7fffffffull	/* an index is an int, too */
#define LSMEM_HANDLE_BYTES	256	/* memory for which there is one handle */

/**
 * struct lsmem_sizes - what a store takes, before it is made
 * @seglets: seglets of memory
 * @segments: entries of the table of segments, at most
 * @handles: entries of the handle table, at most
 * @seglet_bytes: memory for the log
 * @table_bytes: memory for all else, but for what does not grow with the store
 * @largest: bytes of the largest table that comes from kvmalloc()
 */
struct lsmem_sizes {
	u64 seglets;
	u64 segments;
	u64 handles;
	u64 seglet_bytes;
	u64 table_bytes;
	u64 largest;
};

void lsmem_sizes_of(const struct lsmem_create *create, struct lsmem_sizes *sizes);

#endif
