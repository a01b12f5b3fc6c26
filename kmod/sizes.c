// SPDX-License-Identifier: GPL-2.0
/*
 * Sizes: the memory of a store, computed before anything is allocated.
 *
 * Zeroing takes seconds per few GiB and evicts other memory, so a store that does not fit into
 * memory is refused before.  Pure functions: no locks, no state.
 */
#include <linux/log2.h>
#include <linux/minmax.h>

#include "indices.h"
#include "livemap.h"
#include "policy.h"
#include "segment.h"
#include "sizes.h"

/* One more table of @nr entries of @bytes each, from kvmalloc(). */
static void lsmem_sizes_table(struct lsmem_sizes *sizes, u64 nr, u64 bytes)
{
	sizes->table_bytes += nr * bytes;
	sizes->largest = max(sizes->largest, nr * bytes);
}

/**
 * lsmem_sizes_of - compute the memory of a store
 * @create: checked
 * @sizes: out
 */
void lsmem_sizes_of(const struct lsmem_create *create, struct lsmem_sizes *sizes)
{
	u64 bytes = max(create->bytes, create->capacity), full = bytes / LSMEM_SEGMENT_BYTES;

	*sizes = (struct lsmem_sizes){
		.seglets = create->bytes / LSMEM_SEGLET_BYTES,
		.segments = create->segments ?: LSMEM_SEGMENTS_LEAST * full,
		.seglet_bytes = create->bytes,
	};
	sizes->segments_all = sizes->segments;
	if (lsmem_create_tier(create))
		sizes->segments_all += LSMEM_CACHES * (create->bytes / LSMEM_SEGMENT_BYTES);
	if (create->kind == LSMEM_KIND_BLOCK)
		sizes->handles = bytes / LSMEM_BLOCK;
	else
		sizes->handles = create->handles_max ?:
			min_t(u64, bytes / LSMEM_HANDLE_BYTES, LSMEM_HANDLES_MAX);
	/*
	 * By vmalloc_huge(), which rounds up to 2 MiB: seglet table, live bitmap, handle table, and the
	 * table of segments that the daemon maps.
	 */
	sizes->table_bytes = sizes->seglets * sizeof(struct lsmem_seglet) +
			     lsmem_livemap_bytes(sizes->seglets) +
			     sizes->handles * sizeof(struct lsmem_handle) +
			     sizes->segments_all * sizeof(struct lsmem_segment_stat);
	/* The tables of seglet.c, segment.c (with its hash), balance.c and indices.c. */
	lsmem_sizes_table(sizes, sizes->seglets, sizeof(void *));
	lsmem_sizes_table(sizes, 2 * sizes->seglets, sizeof(u32));
	lsmem_sizes_table(sizes, sizes->segments_all, sizeof(struct lsmem_segment));
	lsmem_sizes_table(sizes, 2 * roundup_pow_of_two(sizes->segments),
			  sizeof(struct hlist_head));
	lsmem_sizes_table(sizes, sizes->segments_all, sizeof(struct lsmem_candidate));
	if (lsmem_create_tier(create))	/* by vmalloc_huge(): the bits of touched objects; fetch.c's buffers */
		sizes->table_bytes += sizes->handles / BITS_PER_BYTE + LSMEM_SEGMENT_BYTES +
				      2 * LSMEM_OBJECT_MAX;
	if (create->kind == LSMEM_KIND_OBJECT)
		lsmem_sizes_table(sizes, 1, lsmem_indices_bytes(sizes->handles));
	else	/* by vmalloc_huge(): the versions of discarded blocks */
		sizes->table_bytes += sizes->handles * sizeof(u64);
}
