/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The live bitmap: where in memory the entries of live objects begin.  See livemap.c.  handle.h keeps
 * it with the handle words; window.c shows it to clients.
 */
#ifndef LSMEM_LIVEMAP_H
#define LSMEM_LIVEMAP_H

#include <linux/atomic.h>
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

/* A cut copies so many words of the bitmap at once: a chunk. */
#define LSMEM_CHUNK_WORDS	128u
#define LSMEM_CHUNK_BYTES	(LSMEM_CHUNK_WORDS * sizeof(long))
#define LSMEM_CHUNK_BITS	(LSMEM_CHUNK_WORDS * BITS_PER_LONG)
#define LSMEM_CHUNK_SEGLETS	(LSMEM_CHUNK_BITS / LSMEM_LIVEMAP_BITS)
static_assert(PAGE_SIZE % LSMEM_CHUNK_BYTES == 0);	/* a bitmap is whole pages */
static_assert(LSMEM_CHUNK_BITS % LSMEM_LIVEMAP_BITS == 0);

/**
 * struct lsmem_livemap_copy - a copy that a cut makes of the live bitmap
 * @pages: what its bits are in; a chunk is as it was allocated until its state changes
 * @nr_pages: how many, as many as the live bitmap has
 * @chunks: the state of each chunk, 0 at first; see livemap.c
 */
struct lsmem_livemap_copy {
	unsigned long **pages;
	u32 nr_pages;
	unsigned long *chunks;
};

/**
 * struct lsmem_livemap - the live bitmap of a store
 * @bits: bit lsmem_livemap_bit() of a position is set while a handle word points there; mapped
 *	read-only into clients
 * @bytes: of @bits, whole pages
 * @saved: the copy that a cut makes, NULL while there is no cut; under rcu_read_lock()
 */
struct lsmem_livemap {
	unsigned long *bits;
	size_t bytes;
	const struct lsmem_livemap_copy *saved;
};

int lsmem_livemap_init(struct lsmem_livemap *livemap, const struct lsmem_seglets *seglets);
void lsmem_livemap_destroy(struct lsmem_livemap *livemap);
void lsmem_livemap_save(const struct lsmem_livemap *livemap, const struct lsmem_livemap_copy *copy, u64 bit);
int lsmem_livemap_copy_init(struct lsmem_livemap_copy *copy, const struct lsmem_livemap *livemap, gfp_t gfp);
void lsmem_livemap_copy_destroy(struct lsmem_livemap_copy *copy);
void lsmem_livemap_copy_chunk(const struct lsmem_livemap *livemap, const struct lsmem_livemap_copy *copy,
			      u64 nr, unsigned long *some);

/* Bytes of the live bitmap of so many seglets. */
static inline u64 lsmem_livemap_bytes(u64 seglets)
{
	return seglets * (LSMEM_LIVEMAP_BITS / BITS_PER_BYTE);
}

/* The words of a chunk of a copy. */
static inline unsigned long *lsmem_livemap_chunk(const struct lsmem_livemap_copy *copy, u64 nr)
{
	return copy->pages[nr / (PAGE_SIZE / LSMEM_CHUNK_BYTES)] +
	       nr % (PAGE_SIZE / LSMEM_CHUNK_BYTES) * LSMEM_CHUNK_WORDS;
}

static inline u64 lsmem_livemap_bit(u64 position)
{
	return position >> LSMEM_LIVEMAP_SHIFT;
}

/* The bit of an entry is to be cleared soon. */
static inline void lsmem_livemap_prefetch(const struct lsmem_livemap *livemap, u64 position)
{
	prefetchw(&livemap->bits[BIT_WORD(lsmem_livemap_bit(position))]);
}

/* A word is about to point to an entry. */
static inline void lsmem_livemap_set(const struct lsmem_livemap *livemap, u64 position)
{
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

/**
 * struct lsmem_livemap_bits - bits of one word of the bitmap, to be set or cleared at once
 * @word: number of the word
 * @mask: the bits; 0: none
 */
struct lsmem_livemap_bits {
	u64 word;
	unsigned long mask;
};

/* Set, or clear, what has been gathered.  The rules are those of the functions above. */
static inline void lsmem_livemap_apply(const struct lsmem_livemap *livemap,
				       struct lsmem_livemap_bits *bits, bool set)
{
	atomic_long_t *word = (atomic_long_t *)&livemap->bits[bits->word];

	if (bits->mask && set)
		atomic_long_or(bits->mask, word);
	else if (bits->mask)
		atomic_long_andnot(bits->mask, word);
	bits->mask = 0;
}

/* Gather the bit of a position.  Neighbours in the log cost one atomic operation together. */
static inline void lsmem_livemap_gather(const struct lsmem_livemap *livemap,
					struct lsmem_livemap_bits *bits, u64 position, bool set)
{
	u64 bit = lsmem_livemap_bit(position);

	if (bits->mask && bits->word != bit / BITS_PER_LONG)
		lsmem_livemap_apply(livemap, bits, set);
	bits->word = bit / BITS_PER_LONG;
	bits->mask |= 1ul << bit % BITS_PER_LONG;
}

#endif
