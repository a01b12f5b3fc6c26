// SPDX-License-Identifier: GPL-2.0
/*
 * Warming: after a restart what fits comes into memory, before it is asked for.
 *
 * A recovery by places leaves all objects on the backups, and the store is served at once.  Then the
 * cleaner's thread, when it has nothing else to do, fetches one segment after the other, verifies all of
 * it, and puts what is live of it into cache segments, until all of the log has been read or memory has
 * no more room than writers want.  The youngest come first: new objects and, of the survivors of each
 * pass, which are written coldest first, those that change most.
 *
 * What cannot be verified is named in the kernel's log, and its objects are errors when they are read.
 *
 * Lock: tier.fill while an object is put into memory.  The list of segments is the thread's own.
 */
#include <linux/sched.h>

#include "cache.h"
#include "entry.h"
#include "fetch.h"
#include "fetched.h"
#include "store.h"
#include "warm.h"

#define LSMEM_WARM_BATCH	64	/* entries between two looks at the scheduler */

/**
 * lsmem_warm_begin - list the segments that are to be read
 * @store: recovered, not active yet
 *
 * Context: store->mutex held; nothing else changes the log, so that it is walked without a lock.
 * Without memory for the list nothing is warmed: objects come when they are read.
 */
void lsmem_warm_begin(struct lsmem_store *store)
{
	struct lsmem_warm *warm = &store->tier.warm;
	const struct lsmem_segment *seg;

	lockdep_assert_held(&store->mutex);
	lsmem_warm_end(store);	/* of an activation that failed */
	if (!store->tier.on || percpu_counter_sum(&store->tier.cold) <= 0)
		return;
	warm->indices = kvmalloc_array(store->segments.nr_log, sizeof(*warm->indices),
				       GFP_KERNEL_ACCOUNT);
	if (!warm->indices)
		return;
	list_for_each_entry(seg, &store->segments.log, node)
		if (atomic_read(seg->cold))
			warm->indices[warm->left++] = seg->index;
}

/**
 * lsmem_warm_end - warm nothing more
 * @store: the store; its cleaner's thread calls, or does not run
 */
void lsmem_warm_end(struct lsmem_store *store)
{
	WRITE_ONCE(store->tier.warm.left, 0);
	kvfree(store->tier.warm.indices);
	store->tier.warm.indices = NULL;
}

/* Is there memory for one more segment, so that writers do not have to wait? */
static bool lsmem_warm_fits(const struct lsmem_store *store)
{
	return lsmem_seglets_free(&store->seglets) >
	       READ_ONCE(store->space.clean_below) + 2 * LSMEM_SEGLETS;
}

/* Put what is COLD of a segment that was fetched into memory. Returns 0, or -EAGAIN: it is full. */
static int lsmem_warm_put(struct lsmem_store *store, const struct lsmem_segment *seg)
{
	const void *data = store->fetches.segment;
	u32 at = 0, first = 0, nr = 0;
	int ret = 0;

	while (at < seg->home && !ret) {
		const struct lsmem_entry *e = data + at;
		u64 word;

		if (at / LSMEM_BLOCK != first / LSMEM_BLOCK)
			first = at;
		rcu_read_lock();
		word = lsmem_fetched_word(store, seg, at, first, e);
		rcu_read_unlock();
		if (lsmem_word_state(word) == LSMEM_WORD_COLD) {
			mutex_lock(&store->tier.fill);
			ret = lsmem_cache_install(store, word, e, (const void *)e + lsmem_entry_header(e));
			mutex_unlock(&store->tier.fill);
		}
		at = lsmem_entry_start(at + lsmem_entry_bytes(e));
		if (++nr % LSMEM_WARM_BATCH == 0)
			cond_resched();
	}
	return ret;
}

/**
 * lsmem_warm - read one segment into memory
 * @store: active
 *
 * Context: the cleaner's thread, when no pass is under way; waits at most fetch_ms.
 * Return: false: there is nothing to do, or not now.
 */
bool lsmem_warm(struct lsmem_store *store)
{
	struct lsmem_warm *warm = &store->tier.warm;
	struct lsmem_segment *seg;
	int ret;

	if (!warm->left || !READ_ONCE(store->repl.attached))
		return false;
	if (!lsmem_warm_fits(store)) {
		lsmem_warm_end(store);
		return false;
	}
	seg = &store->segments.table[warm->indices[warm->left - 1]];
	if (seg->id && seg->close_acked && atomic_read(seg->cold) && !READ_ONCE(seg->unreadable)) {
		ret = lsmem_fetched(store, seg);
		if (ret == -ETIMEDOUT || ret == -ENOMEM)
			return false;	/* again later */
		if (!ret && lsmem_warm_put(store, seg)) {
			lsmem_warm_end(store);
			return false;
		}
	}
	WRITE_ONCE(warm->left, warm->left - 1);
	if (!warm->left)
		lsmem_warm_end(store);
	return true;
}
