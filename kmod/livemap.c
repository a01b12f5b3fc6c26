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
 * A snapshot of a scan copies the bitmap (snapshot.c); while it does, changes set bits in the copy, too
 * (lsmem_word_save()).
 *
 * No locks: words of the bitmap are shared by neighbours in the log, and changed by atomic operations.
 */
#include "livemap.h"

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
