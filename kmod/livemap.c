// SPDX-License-Identifier: GPL-2.0
/*
 * The live bitmap: where in memory the entries of live objects begin.
 *
 * A bit for each 32 bytes of each seglet, by the seglet's number: a 256th of the log.  It follows the
 * handle words and nothing else.  A bit is set before a word points to the entry, and cleared after the
 * word points elsewhere, or when the exchange has failed.  So at any moment
 *
 *	a word points to a position  =>  the bit of the position is set
 *
 * and the reverse holds but for changes under way.  An object that moves has two bits for a moment, and
 * never none.  Tombstones, padding and what is COLD have none.
 *
 * A bit is set once and cleared once for an entry, by different tasks.  The exchange orders them: the
 * task that clears has found the position in the word.  It clears under the rcu_read_lock() of that load,
 * and a seglet is given out again after a grace period.  So a free seglet has no bit, and no late clear hits
 * the next entry (tests/litmus/livemap-*.litmus).
 *
 * No locks: words of the bitmap are shared by neighbours in the log, and changed by atomic operations.
 *
 * A snapshot of a scan copies the bitmap (snapshot.c), by chunks and plain stores; changes that come meanwhile
 * save bits in the copy before they clear them (lsmem_word_save()).  The state of a chunk says what it is:
 *
 *	0	as it was allocated: who saves the first bit fills it with zeroes
 *	BEGUN	bits that were saved, else zeroes: they are added to what is copied
 *	COPIED	final: it has the bit of each entry that lived at the cut and lives, so nothing is saved
 *
 * LOCK is held by who writes to the chunk, for less than a microsecond and without being preempted: tasks alone
 * take it, so no interrupt waits for what it has interrupted.  A writer above V holds it before it clears the bit,
 * whatever the state: the chunk was copied before, or has the bit saved (tests/litmus/snapshot-copy.litmus).
 */
#include <linux/processor.h>	/* which bit_spinlock.h of 6.12 needs, and does not include */
#include <linux/bit_spinlock.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "livemap.h"

#define LSMEM_COPY_ORDER	6	/* of the pages of a copy that are taken together */

/* Bits of the state of a chunk. */
#define LSMEM_CHUNK_LOCK	0
#define LSMEM_CHUNK_BEGUN	BIT(1)
#define LSMEM_CHUNK_COPIED	BIT(2)

/**
 * lsmem_livemap_init - make a live bitmap
 * @livemap: what to fill in
 * @seglets: of the store, from lsmem_seglets_init()
 * Return: 0 or -ENOMEM.
 */
int lsmem_livemap_init(struct lsmem_livemap *livemap, const struct lsmem_seglets *seglets)
{
	livemap->bytes = PAGE_ALIGN(lsmem_livemap_bytes(seglets->nr));
	livemap->bits = lsmem_table_alloc(livemap->bytes, seglets->gfp);
	return livemap->bits ? 0 : -ENOMEM;
}

/**
 * lsmem_livemap_destroy - free what lsmem_livemap_init() has taken
 * @livemap: initialised, or all zero
 */
void lsmem_livemap_destroy(struct lsmem_livemap *livemap)
{
	vfree(livemap->bits);
}

/* Take some pages of a copy: neighbours where there are some, whose mapping costs less.  Returns how many. */
static u32 lsmem_livemap_copy_get(struct lsmem_livemap_copy *copy, u32 wanted, gfp_t gfp)
{
	const gfp_t at_hand = (gfp & ~(__GFP_DIRECT_RECLAIM | __GFP_RETRY_MAYFAIL)) | __GFP_NOWARN;
	struct page *page = NULL;
	u32 order = LSMEM_COPY_ORDER, i;

	if (wanted >> order)
		page = alloc_pages(at_hand, order);
	if (page) {
		split_page(page, order);
	} else {
		order = 0;
		page = alloc_page(gfp);
	}
	for (i = 0; page && i < 1u << order; i++)
		copy->pages[copy->nr_pages++] = page_address(page + i);
	return i;
}

/**
 * lsmem_livemap_copy_init - take the memory of a copy
 * @copy: all zero; what to fill in
 * @livemap: to be copied
 * @gfp: of the memory, which is not filled with zeroes
 *
 * The bits are in pages that the kernel writes where it sees all memory: to map them together once more would
 * cost more than to copy them.
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM; the caller calls lsmem_livemap_copy_destroy() in both cases.
 */
int lsmem_livemap_copy_init(struct lsmem_livemap_copy *copy, const struct lsmem_livemap *livemap, gfp_t gfp)
{
	u32 nr = livemap->bytes >> PAGE_SHIFT;

	copy->chunks = kvcalloc(livemap->bytes / LSMEM_CHUNK_BYTES, sizeof(*copy->chunks), gfp);
	copy->pages = kvmalloc_array(nr, sizeof(*copy->pages), gfp);
	if (!copy->chunks || !copy->pages)
		return -ENOMEM;
	while (copy->nr_pages < nr) {
		if (fatal_signal_pending(current) || !lsmem_livemap_copy_get(copy, nr - copy->nr_pages, gfp))
			return -ENOMEM;
		cond_resched();
	}
	return 0;
}

/**
 * lsmem_livemap_copy_destroy - free what lsmem_livemap_copy_init() has taken
 * @copy: no writer looks at it
 */
void lsmem_livemap_copy_destroy(struct lsmem_livemap_copy *copy)
{
	while (copy->nr_pages) {
		free_page((unsigned long)copy->pages[--copy->nr_pages]);
		cond_resched();
	}
	kvfree(copy->pages);
	kvfree(copy->chunks);
}

/**
 * lsmem_livemap_save - a bit is cleared soon that a copy must have
 * @livemap: the bit is set in it
 * @copy: of it, being made
 * @bit: lsmem_livemap_bit()
 *
 * Context: task, under the rcu_read_lock() under which @copy was found; does not sleep.
 */
void lsmem_livemap_save(const struct lsmem_livemap *livemap, const struct lsmem_livemap_copy *copy, u64 bit)
{
	unsigned long *chunk = &copy->chunks[bit / LSMEM_CHUNK_BITS];
	unsigned long *words = lsmem_livemap_chunk(copy, bit / LSMEM_CHUNK_BITS), state;

	/* Later would be too late: the chunk may have been copied without it. */
	WARN_ON_ONCE(!test_bit(bit, livemap->bits));
	bit_spin_lock(LSMEM_CHUNK_LOCK, chunk);
	state = READ_ONCE(*chunk);
	if (!(state & LSMEM_CHUNK_COPIED)) {
		if (!(state & LSMEM_CHUNK_BEGUN)) {
			memset(words, 0, LSMEM_CHUNK_BYTES);
			WRITE_ONCE(*chunk, state | LSMEM_CHUNK_BEGUN);
		}
		__set_bit(bit % LSMEM_CHUNK_BITS, words);
	}
	__bit_spin_unlock(LSMEM_CHUNK_LOCK, chunk);
}

/**
 * lsmem_livemap_copy_chunk - copy a chunk
 * @livemap: from this
 * @copy: to this; no other task copies
 * @nr: of the chunk
 * @some: gets the bits of the seglets that have bits in the chunk
 *
 * Context: does not sleep.
 */
void lsmem_livemap_copy_chunk(const struct lsmem_livemap *livemap, const struct lsmem_livemap_copy *copy,
			      u64 nr, unsigned long *some)
{
	const unsigned long *from = livemap->bits + nr * LSMEM_CHUNK_WORDS;
	unsigned long *to = lsmem_livemap_chunk(copy, nr), *chunk = &copy->chunks[nr], any;
	u32 seglet, i;
	bool begun;

	bit_spin_lock(LSMEM_CHUNK_LOCK, chunk);
	begun = READ_ONCE(*chunk) & LSMEM_CHUNK_BEGUN;
	for (seglet = 0; seglet < LSMEM_CHUNK_SEGLETS; seglet++) {
		for (any = 0, i = 0; i < LSMEM_LIVEMAP_BITS / BITS_PER_LONG; i++) {
			unsigned long word = READ_ONCE(*from++);

			if (unlikely(begun))
				word |= *to;
			*to++ = word;
			any |= word;
		}
		if (any)
			__set_bit(nr * LSMEM_CHUNK_SEGLETS + seglet, some);
	}
	WRITE_ONCE(*chunk, READ_ONCE(*chunk) | LSMEM_CHUNK_COPIED);
	__bit_spin_unlock(LSMEM_CHUNK_LOCK, chunk);
}
