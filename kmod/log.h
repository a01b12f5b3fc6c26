/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The log: heads, and reserve -> copy -> stamp -> commit.  See log.c.  lsmem_append_try() decides
 * whether an append fits or its head rolls over, lsmem_append_begin_by() whether it waits;
 * lsmem_append_commit() advances the committed prefix.  object.c, span.c, blockio.c and clean.c
 * append; durable.c and retire.c ask how far the log has come.
 */
#ifndef LSMEM_LOG_H
#define LSMEM_LOG_H

#include <linux/preempt.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "entry.h"
#include "segment.h"

#define LSMEM_HEADS		8	/* most heads of a store, the cleaner's included */
#define LSMEM_CLEANER_HEAD	0	/* survivors; only the cleaner appends to it */
#define LSMEM_RING		256	/* appends under way in one head, a power of 2 */
#define LSMEM_GROUP_BYTES	(LSMEM_OBJECT_MAX + (160u << 10)) /* most of a group: 288 pages */
#define LSMEM_SPAN_BYTES	(32u << 10)	/* most of an append of several entries */

/**
 * struct lsmem_head - where the log grows
 * @lock: protects the head, and its segment's reserved, entries and committed; held for
 *	the reservation and the commit of an entry, never during a copy
 * @segment: the open segment, NULL before the first append
 * @first: appends under way are [@first, @next) of @ring, in order of offset; not masked
 * @next: see @first
 * @ring: of each append, the end of its entry and whether it is whole; the committed
 *	prefix advances over whole entries only (invariant 19)
 * @crowded: an append waits for a place in the ring
 * @gate: time before which its writers wait, ktime in ns, 0: none (space.c); no lock
 */
struct lsmem_head {
	spinlock_t lock;
	struct lsmem_segment *segment;
	u64 gate;
	u32 first;
	u32 next;
	bool crowded;
	struct {
		struct lsmem_segment *segment;
		u32 end;
		bool whole;
	} ring[LSMEM_RING];
} ____cacheline_aligned_in_smp;

/**
 * struct lsmem_heads - the heads of a store
 * @nr: heads, LSMEM_CLEANER_HEAD included
 * @table: @nr heads
 * @rolls: how often heads have rolled over
 */
struct lsmem_heads {
	unsigned int nr;
	struct lsmem_head *table;
	atomic64_t rolls;
};

/* Where the bytes of a payload come from: user memory or the kernel's. */
struct lsmem_source {
	const void __user *user;
	const void *kernel;
};

/* A point in every head: what FLUSH, fsync and retirement wait for. */
struct lsmem_vector_point {
	u64 segment[LSMEM_HEADS];
	u32 offset[LSMEM_HEADS];
	u64 rolls;
};

/* States of a byte of the log: told to the daemon, received by each backup, durable. */
enum lsmem_reach {
	LSMEM_REACH_EMITTED,
	LSMEM_REACH_RECEIVED,
	LSMEM_REACH_DURABLE,
};

/*
 * Preemption is off from the reservation of an append to its end: a preempted append would
 * hold up the committed prefix of its head.  Not with PREEMPT_RT, where spinlocks sleep; a
 * wait for a place in the ring is bounded in any case.  In both an append is a reader of RCU.
 */
static inline void lsmem_append_pin(void)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		rcu_read_lock();
	else
		preempt_disable();
}

static inline void lsmem_append_unpin(void)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		rcu_read_unlock();
	else
		preempt_enable();
}

void lsmem_log_init(struct lsmem_store *store);
int lsmem_append_begin(struct lsmem_store *store, unsigned int head, u32 length, u32 type,
		       struct lsmem_append *ap);
int lsmem_append_begin_by(struct lsmem_store *store, unsigned int head, u32 length, u32 type,
			  u64 *deadline, struct lsmem_append *ap);
int lsmem_append_begin_span(struct lsmem_store *store, unsigned int head, const u32 *sizes,
			    u32 nr, u64 deadline, struct lsmem_append *ap);
int lsmem_append_begin_group(struct lsmem_store *store, unsigned int head, const u32 *sizes, u32 nr,
			     u32 listed, u64 *deadline, struct lsmem_append *ap);
int lsmem_append_copy(struct lsmem_store *store, const struct lsmem_append *ap,
		      const struct lsmem_source *source, u32 length, u32 *pcrc);
void lsmem_append_commit(struct lsmem_store *store, struct lsmem_append *ap);
void lsmem_append_pad(struct lsmem_store *store, struct lsmem_append *ap, u32 offset, u32 size,
		      u32 entries);
void lsmem_append_abort(struct lsmem_store *store, struct lsmem_append *ap);
bool lsmem_head_commit_record(struct lsmem_store *store, struct lsmem_head *head);
int lsmem_head_roll(struct lsmem_store *store, unsigned int head);
void lsmem_log_close(struct lsmem_store *store);
unsigned int lsmem_log_head_of(const struct lsmem_store *store, unsigned int writer);
unsigned int lsmem_log_head(const struct lsmem_store *store);
unsigned int lsmem_log_head_at(struct lsmem_store *store, u64 segment);
void lsmem_log_point(struct lsmem_store *store, struct lsmem_vector_point *point);
bool lsmem_log_reached(struct lsmem_store *store, const struct lsmem_vector_point *point,
		       enum lsmem_reach reach);
bool lsmem_log_missing(struct lsmem_store *store, const struct lsmem_vector_point *point,
		       struct lsmem_place *place);
bool lsmem_log_emitted(struct lsmem_store *store, const struct lsmem_vector_point *point);

#endif
