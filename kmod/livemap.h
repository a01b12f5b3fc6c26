/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The live bitmap: where in memory the entries of live objects begin.  See livemap.c.  handle.h keeps
 * it with the handle words; window.c shows it to clients.
 */
#ifndef LSMEM_LIVEMAP_H
#define LSMEM_LIVEMAP_H

#include <linux/bitops.h>
#include <linux/prefetch.h>

#include "../uapi/lsmem.h"
#include "../uapi/lsmem_format.h"
#include "seglet.h"

/* No entry is smaller than what a bit stands for, so no two begin in it; see lsmem_entry_start(). */
static_assert(LSMEM_ALIGN << LSMEM_LIVEMAP_SHIFT == LSMEM_LONG_BYTES);
static_assert(LSMEM_SHORT_BYTES + LSMEM_ALIGN == LSMEM_LONG_BYTES);

/* Bits of a seglet. */
#define LSMEM_LIVEMAP_BITS	(1u << (LSMEM_POSITION_OFFSET_BITS - LSMEM_LIVEMAP_SHIFT))

/**
 * struct lsmem_livemap - the live bitmap of a store
 * @bits: bit lsmem_livemap_bit() of a position is set while a handle word points there; mapped
 *	read-only into clients
 * @bytes: of @bits, whole pages
 */
struct lsmem_livemap {
	unsigned long *bits;
	size_t bytes;
};

int lsmem_livemap_init(struct lsmem_livemap *livemap, const struct lsmem_seglets *seglets);
void lsmem_livemap_destroy(struct lsmem_livemap *livemap);

/* Bytes of the live bitmap of so many seglets. */
static inline u64 lsmem_livemap_bytes(u64 seglets)
{
	return seglets * (LSMEM_LIVEMAP_BITS / BITS_PER_BYTE);
}

static inline u64 lsmem_livemap_bit(u64 position)
{
	return position >> LSMEM_LIVEMAP_SHIFT;
}

/* A word is about to point to an entry, which has its header. */
static inline void lsmem_livemap_set(const struct lsmem_livemap *livemap, u64 position)
{
	smp_mb__before_atomic();	/* a client that sees the bit sees the header */
	set_bit(lsmem_livemap_bit(position), livemap->bits);
}

/*
 * No word points to an entry any more, or none ever did.  The caller's rcu_read_lock(), or its claim on
 * the segment, keeps the seglet from being given out again.
 */
static inline void lsmem_livemap_clear(const struct lsmem_livemap *livemap, u64 position)
{
	clear_bit(lsmem_livemap_bit(position), livemap->bits);
}

#endif
