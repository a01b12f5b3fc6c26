/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Words: what the source of a migration tells of its objects ahead.  See words.c.  lsmem_words_take() decides whether a
 * segment is told now, lsmem_words_place() where an object is; repl.c calls lsmem_words().  What has to be told again,
 * lsmem_segment_changed() notes.
 */
#ifndef LSMEM_WORDS_H
#define LSMEM_WORDS_H

#include "../uapi/lsmem.h"
#include "segment.h"

struct lsmem_store;

#define LSMEM_WORDS_BATCH	LSMEM_WORDS_PLACES_MAX	/* listings copied to, or from, user space at a time */

/**
 * struct lsmem_telling - what a daemon's calls need, under attachment->mutex
 * @cursor: index of the segment to look at next
 * @view: memory of the segment at hand: index, seglets, nr_seglets and committed alone are used
 * @batch: listings to be copied
 */
struct lsmem_telling {
	u32 cursor;
	struct lsmem_segment view;
	struct lsmem_listing batch[LSMEM_WORDS_BATCH];
};

long lsmem_words(struct lsmem_store *store, struct lsmem_telling *t, struct lsmem_words *words);

#endif
