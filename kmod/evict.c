// SPDX-License-Identifier: GPL-2.0
/*
 * Eviction: objects of a tiered store leave memory.
 *
 * A compactor goes through the entries of a segment and exchanges the words of those that are to leave:
 * LIVE becomes COLD.  Nothing is copied or written: the segment is durably closed, so the backups have
 * them.  Then it compacts the segment as any other, and frees what they have held.
 *
 * A hand sweeps one segment after the other.  An object that was read since the hand last swept its
 * segment stays, in its place, and its bit is cleared: a second chance (Corbató, "A paging experiment
 * with the Multics system", 1968).  policy.c has the order of the segments, with its reasons in
 * Documentation/policies.rst.
 *
 * Objects leave while more is live than memory holds, memory is low, and compaction alone would copy
 * more than LSMEM_EVICT_COST for what it frees (balance.c); while few cache segments are free, which then
 * are emptied; if memory would hold all, but neither compaction nor cleaning makes room; and if too few
 * seglets are left to compact.
 *
 * Locks: plan.mutex for the plan; segments.lock for a segment's state; tier.evicting, shared, for each
 * word.
 */
#include <linux/kthread.h>

#include "balance.h"
#include "cache.h"
#include "entry.h"
#include "evict.h"
#include "handle.h"
#include "policy.h"
#include "rest.h"
#include "snapshot.h"
#include "store.h"

#define LSMEM_EVICT_BATCH	32	/* entries between two looks at the clock */
/* A segment that has less keeps nothing: that would take a seglet. */
#define LSMEM_EVICT_LEAST	(LSMEM_SEGLET_BYTES / 4)

/**
 * lsmem_evict_due - must objects leave memory, unless compaction is cheaper?
 * @store: the store
 * @last: compaction has long found nothing: also what memory would hold
 */
bool lsmem_evict_due(struct lsmem_store *store, bool last)
{
	if (!store->tier.on || lsmem_cache_short(store))
		return store->tier.on;
	if (lsmem_tier_over(store))
		return lsmem_memory_low(store);
	return last && !lsmem_clean_underway(store) &&
	       lsmem_seglets_free(&store->seglets) + READ_ONCE(store->compaction.vacating) <
	       READ_ONCE(store->space.throttle_below);
}

/* A segment's turn: the largest is swept first.  0: there is nothing in it to evict. */
static u64 lsmem_evict_turn(const struct lsmem_store *store, u32 index, bool caches)
{
	const struct lsmem_segment *seg = &store->segments.table[index];
	const struct lsmem_segment_stat *stat = seg->stat;
	u64 id = READ_ONCE(stat->id);

	if (!id || !(READ_ONCE(stat->flags) & LSMEM_SEGMENT_CLEANABLE))
		return 0;
	/* Few are free: empty those that have least; one that has nothing still holds seglets. */
	if (caches)
		return lsmem_segment_is_cache(&store->segments, index) ? ~READ_ONCE(stat->live) : 0;
	if (READ_ONCE(stat->live) <= READ_ONCE(stat->tombstones))
		return 0;
	return 1 + lsmem_policy_turn(id, READ_ONCE(store->segments.steps) - READ_ONCE(seg->step),
				     READ_ONCE(seg->swept));
}

/* Plan the next turns. */
static void lsmem_evict_plan(struct lsmem_store *store)
{
	u64 turns[LSMEM_EVICT_PLANNED], turn;
	bool caches = lsmem_cache_short(store);
	u32 index, i, nr = 0;

	lockdep_assert_held(&store->plan.mutex);
	for (index = 0; index < store->segments.nr_all; index++) {
		turn = lsmem_evict_turn(store, index, caches);
		if (!turn || (nr == LSMEM_EVICT_PLANNED && turn <= turns[0]))
			continue;
		if (nr == LSMEM_EVICT_PLANNED) {	/* the first goes: it has the smallest */
			memmove(turns, turns + 1, --nr * sizeof(*turns));
			memmove(store->tier.plan, store->tier.plan + 1, nr * sizeof(*store->tier.plan));
		}
		for (i = nr++; i && turns[i - 1] > turn; i--) {
			turns[i] = turns[i - 1];
			store->tier.plan[i] = store->tier.plan[i - 1];
		}
		turns[i] = turn;
		store->tier.plan[i] = index;
	}
	store->tier.planned = nr;
}

/**
 * lsmem_evict_next - the segment to evict from next
 * @store: tiered, active
 *
 * Return: a segment, now COMPACTING and owned by the caller, or NULL.
 */
struct lsmem_segment *lsmem_evict_next(struct lsmem_store *store)
{
	struct lsmem_segment *found = NULL;

	mutex_lock(&store->plan.mutex);
	if (!store->tier.planned)
		lsmem_evict_plan(store);
	spin_lock(&store->segments.lock);
	while (!found && store->tier.planned) {
		struct lsmem_segment *seg =
			&store->segments.table[store->tier.plan[--store->tier.planned]];

		if (!(seg->stat->flags & LSMEM_SEGMENT_CLEANABLE))
			continue;
		seg->state = LSMEM_SEGMENT_COMPACTING;
		lsmem_segment_show(seg);
		found = seg;
	}
	spin_unlock(&store->segments.lock);
	mutex_unlock(&store->plan.mutex);
	return found;
}

/* The word of an object that leaves the memory of @seg, where it lies at @offset. */
static u64 lsmem_evict_word(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset,
			    const struct lsmem_entry *e, u64 word)
{
	u32 size = lsmem_entry_bytes(e), origin = seg->index, inside = LSMEM_INSIDE_UNKNOWN;

	if (lsmem_segment_is_cache(&store->segments, origin))
		origin = lsmem_cached_origin(store, lsmem_segment_position(seg, offset), size, &inside)->index;
	else if (seg->committed == seg->home)	/* all is where it was written */
		inside = offset % LSMEM_BLOCK;
	return lsmem_word_next(word, LSMEM_WORD_COLD,
			       lsmem_cold_place(origin, lsmem_entry_home(e), inside, size));
}

/* Returns the bytes that leave memory. */
static u32 __lsmem_evict_one(struct lsmem_store *store, struct lsmem_segment *seg, u32 offset,
			   const struct lsmem_entry *e, bool all)
{
	u64 index = lsmem_handle_index(lsmem_entry_handle(e)), word;
	u32 size = lsmem_entry_bytes(e);
	struct lsmem_handle *h;

	if (lsmem_entry_type(e) != LSMEM_TYPE_OBJECT || index >= store->handles.nr)
		return 0;
	h = lsmem_handle_at(&store->handles, index);
	word = READ_ONCE(h->word);
	if (lsmem_word_state(word) != LSMEM_WORD_LIVE ||
	    lsmem_word_position(word) != lsmem_segment_position(seg, offset))
		return 0;
	if (lsmem_policy_keep(test_bit(index, store->tier.touched))) {
		clear_bit(index, store->tier.touched);
		if (!all)
			return 0;
	}
	if (store->kind == LSMEM_KIND_BLOCK)
		lsmem_cold_version(store, lsmem_entry_version(e));
	if (lsmem_segment_is_cache(&store->segments, seg->index)) {
		if (!lsmem_word_exchange(&store->handles, h, word,
					 lsmem_evict_word(store, seg, offset, e, word)))
			return 0;
		lsmem_cached_add(store, seg, -(s32)(size + LSMEM_TRAILER_BYTES));
		return size;
	}
	lsmem_cold_add(store, seg, size);	/* before: what is fetched at once may die at once */
	if (!lsmem_word_exchange(&store->handles, h, word,
				 lsmem_evict_word(store, seg, offset, e, word))) {
		lsmem_cold_add(store, seg, -(s32)size);
		return 0;
	}
	atomic_sub(size, seg->live);
	return size;
}

/*
 * An object leaves, if it is live and, unless @all do, does not stay.  Not while a cut copies the live bitmap and
 * lists what is COLD: it would be in both, or in none.  Returns the bytes that leave.
 */
static u32 lsmem_evict_one(struct lsmem_store *store, struct lsmem_segment *seg, u32 offset,
			   const struct lsmem_entry *e, bool all)
{
	u32 bytes;

	rcu_read_lock();
	while (unlikely(lsmem_snapshots_copying(store)) && !kthread_should_stop()) {
		rcu_read_unlock();
		lsmem_snapshots_rest(store);
		rcu_read_lock();
	}
	read_lock(&store->tier.evicting);
	bytes = __lsmem_evict_one(store, seg, offset, e, all);
	read_unlock(&store->tier.evicting);
	rcu_read_unlock();
	return bytes;
}

/**
 * lsmem_evict - objects leave the memory of a segment
 * @store: tiered, active
 * @seg: from lsmem_evict_next()
 * @all: also those that were read since the last sweep
 * @rest: of the thread
 *
 * Return: false if the segment is damaged.
 */
bool lsmem_evict(struct lsmem_store *store, struct lsmem_segment *seg, bool all,
		 struct lsmem_rest *rest)
{
	u32 offset = 0, ahead = 0, nr = 0, bytes = 0, left;

	all = all || lsmem_cache_short(store) || atomic_read(seg->live) < LSMEM_EVICT_LEAST;
	lsmem_rest_begin(rest);
	for (nr = 0; nr < LSMEM_LOOK_AHEAD; nr++)
		lsmem_entry_look_ahead(store, seg, &ahead);
	for (;; nr++) {
		struct lsmem_entry e;

		lsmem_entry_look_ahead(store, seg, &ahead);
		offset = lsmem_entry_start(offset);
		if (offset >= seg->committed)
			break;
		if (!lsmem_entry_fetch(store, seg, offset, &e)) {
			lsmem_segment_damaged(store, seg, offset);
			return false;
		}
		left = lsmem_evict_one(store, seg, offset, &e, all);
		if (left) {
			lsmem_count(store, evicted, 1);
			bytes += left;
		}
		offset += lsmem_entry_step(store, seg, &e);
		if (nr % LSMEM_EVICT_BATCH == 0) {
			cond_resched();
			lsmem_rest(store, rest);
		}
	}
	lsmem_count(store, evicted_bytes, bytes);
	spin_lock(&store->segments.lock);
	WRITE_ONCE(store->segments.steps, store->segments.steps + 1);
	WRITE_ONCE(seg->step, store->segments.steps);
	WRITE_ONCE(seg->swept, true);
	if (bytes)
		lsmem_segment_changed(store, seg, true);
	spin_unlock(&store->segments.lock);
	return true;
}
