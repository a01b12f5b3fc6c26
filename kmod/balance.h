/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Balance: which level makes room, and from which segments.  See balance.c.  lsmem_balance()
 * decides the level, by lsmem_policy_level(), and lsmem_balance_next() the segment to compact; the
 * threads of compact.c and clean.c call them.  Segments to clean: clean.c, or the daemon's
 * core/clean.c in a durable store.
 */
#ifndef LSMEM_BALANCE_H
#define LSMEM_BALANCE_H

#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "policy.h"
#include "segment.h"

struct lsmem_store;

/* Seglets that only cleaner and compactors may take: a full survivor, and slack. */
#define LSMEM_CLEANER_RESERVE	(LSMEM_SEGLETS + LSMEM_SEGLETS / 8)

#define LSMEM_PLANNED		16	/* victims in one plan */

/**
 * struct lsmem_plan - which level makes room, and from which segments
 * @mutex: protects all members but those that say "no lock"
 * @limits: of the policy; each is a single word, no lock
 * @candidates: room for all segments
 * @indices: of the segments to be compacted next, the last one first
 * @nr: entries of @indices
 * @by_segments: cleaning is to free segments, not memory
 * @compact_asked: segments to be compacted by request of the administrator; no lock
 * @clean_asked: segments to be cleaned by request of the administrator; no lock
 * @work: wait queue of cleaner and compactors; no lock
 * @idle: one of them waits until few seglets are free; no lock
 */
struct lsmem_plan {
	struct mutex mutex;
	struct lsmem_policy_limits limits;
	struct lsmem_candidate *candidates;
	u32 indices[LSMEM_PLANNED];
	u32 nr;
	bool by_segments;
	atomic_t compact_asked;
	atomic_t clean_asked;
	wait_queue_head_t work;
	bool idle;
};

/* A pass: */
#define LSMEM_PASS_SEGLETS	512		/* most that the survivors of a pass take */
#define LSMEM_PASS_SLACK	8		/* ... beyond what holds live bytes */

int lsmem_balance_init(struct lsmem_store *store);
void lsmem_balance_destroy(struct lsmem_store *store);
void lsmem_balance_tune(struct lsmem_store *store);
u64 lsmem_clean_room(const struct lsmem_store *store);
u64 lsmem_clean_fits(const struct lsmem_store *store, u32 seglets, u32 segments);
u32 lsmem_level(const struct lsmem_store *store);
bool lsmem_clean_possible(const struct lsmem_store *store);
bool lsmem_clean_underway(const struct lsmem_store *store);
bool lsmem_memory_low(struct lsmem_store *store);
bool lsmem_balance_due(struct lsmem_store *store);
void lsmem_balance(struct lsmem_store *store);
struct lsmem_segment *lsmem_balance_next(struct lsmem_store *store);
u32 lsmem_balance_cleanable(struct lsmem_store *store);
u32 lsmem_balance_limit(const struct lsmem_store *store);

/* Account for @nr segments that have been worked on, of those that were asked for. */
static inline void lsmem_asked_done(atomic_t *asked, u32 nr)
{
	while (nr-- && atomic_dec_if_positive(asked) >= 0)
		;
}

/* Seglets that the live entries of a segment take; a header never crosses a seglet. */
static inline u32 lsmem_packed_seglets(u32 live)
{
	return DIV_ROUND_UP(live, LSMEM_SEGLET_BYTES - LSMEM_LONG_BYTES);
}

#endif
