/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compaction: moves the live entries of one segment to fewer seglets.  See compact.c.
 * lsmem_balance_next() in balance.c chooses the segment; lsmem_compact_begin() decides whether it
 * can begin, lsmem_compact_word() and lsmem_compact_tombstone() whether an entry moves.
 * activate.c starts and stops the threads.
 */
#ifndef LSMEM_COMPACT_H
#define LSMEM_COMPACT_H

#include <linux/types.h>

#define LSMEM_VACATED		64	/* compactions whose old seglets readers may still see */
#define LSMEM_COMPACTORS	4u	/* most compactors of a store */

struct lsmem_compactor;
struct lsmem_store;

/**
 * struct lsmem_vacated - seglets that compaction has emptied
 * @first: the first seglet; the seglet table chains them
 * @nr: how many
 * @lent: seglets that the compaction borrowed
 * @epoch: views that began before it may still use them
 * @rcu: grace period after which no kernel reader does
 * @salt: of their segment
 * @trailers: it is a cache segment
 */
struct lsmem_vacated {
	u32 first;
	u32 nr;
	u32 lent;
	u64 epoch;
	unsigned long rcu;
	u32 salt;
	bool trailers;
};

/**
 * struct lsmem_compaction - the compactors of a store, and what they have emptied
 * @compactors: LSMEM_COMPACTORS threads
 * @nr_compactors: how many of them may work
 * @vacated: [@first, @next) of a ring
 * @first: the oldest, not masked; under segments.lock, as @next and @vacating
 * @next: where the next goes, not masked
 * @vacating: how many seglets are in @vacated; read without the lock as a hint
 * @freeing: bit 0: one of the threads frees the oldest
 */
struct lsmem_compaction {
	struct lsmem_compactor *compactors;
	u32 nr_compactors;
	struct lsmem_vacated vacated[LSMEM_VACATED];
	u32 first;
	u32 next;
	u32 vacating;
	unsigned long freeing;
};

int lsmem_compactors_init(struct lsmem_store *store);
int lsmem_compactors_make(struct lsmem_store *store);
void lsmem_compactors_run(struct lsmem_store *store);
void lsmem_compactors_stop(struct lsmem_store *store);
void lsmem_compactors_destroy(struct lsmem_store *store);

#endif
