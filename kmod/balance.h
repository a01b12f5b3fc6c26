/* SPDX-License-Identifier: GPL-2.0 */
/* Balance: which level makes room, and from which segments.  See balance.c. */
#ifndef LSMEM_BALANCE_H
#define LSMEM_BALANCE_H

#include "store.h"

/* Frames that only cleaner and compactors may take: a full survivor and its rest. */
#define LSMEM_CLEANER_RESERVE	(LSMEM_SEGLETS + LSMEM_SEGLETS / 8)

/* A pass: */
#define LSMEM_PASS_FRAMES	512		/* most that survivors of a pass take */
#define LSMEM_PASS_SLACK	8		/* ... and what is not in their sum */

int lsmem_balance_init(struct lsmem_store *store);
void lsmem_balance_destroy(struct lsmem_store *store);
void lsmem_balance_tune(struct lsmem_store *store);
u64 lsmem_clean_room(const struct lsmem_store *store);
u64 lsmem_clean_fits(u32 frames, u32 segments);
bool lsmem_clean_possible(const struct lsmem_store *store);
bool lsmem_clean_underway(const struct lsmem_store *store);
bool lsmem_memory_low(const struct lsmem_store *store);
bool lsmem_balance_due(const struct lsmem_store *store);
void lsmem_balance(struct lsmem_store *store);
struct lsmem_segment *lsmem_balance_next(struct lsmem_store *store);
u32 lsmem_balance_cleanable(struct lsmem_store *store);
u32 lsmem_balance_limit(const struct lsmem_store *store);

static inline u32 lsmem_level(const struct lsmem_store *store)
{
	return READ_ONCE(store->cleaning->level);
}

/* So many segments have been worked on, of those that were asked for by hand. */
static inline void lsmem_asked_done(atomic_t *asked, u32 nr)
{
	while (nr-- && atomic_dec_if_positive(asked) >= 0)
		;
}

/* Frames that the live entries of a segment take: a header never straddles two. */
static inline u32 lsmem_packed_frames(u32 live)
{
	return DIV_ROUND_UP(live, LSMEM_SEGLET_BYTES - LSMEM_ENTRY_BYTES);
}

#endif
