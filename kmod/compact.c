// SPDX-License-Identifier: GPL-2.0
/*
 * Compaction: the live entries of a segment move to fewer seglets.
 *
 * The segment keeps its id, its place in the log, and its replicas on backups.  Headers
 * are copied unchanged, home blocks included.  So nothing is written to a backup,
 * nothing must be durable first, and a recovery does not see a compaction that a crash
 * interrupts.  Only segments that are durably closed are compacted (invariant 11).
 *
 * A compactor takes all seglets that it needs before it begins, copies the live entries
 * in batches, and exchanges their handle words.  If an exchange fails because
 * the object was replaced, the copy is one more dead entry.  Then the segment gets the new seglets.  The old ones are vacated: they are freed when no
 * view and no kernel reader can see them, and their chain in the seglet table stays until
 * then.  One step compacts one segment, at most 8 MiB.
 *
 * Tombstones are dropped when no older segment is left that could hold the deleted
 * object (invariant 13); their copies on backups stay with the segment.
 *
 * Progress: a compactor that has begun waits for nothing, and always frees more seglets than it
 * takes.
 *
 * Source: Rumble et al., "Log-structured Memory for DRAM-based Storage", FAST
 * 2014, section 5.1 (segment compaction).
 *
 * Locks: none held while entries move; segments.lock for the segment's state, its
 * seglets when they are swapped, and the ring of vacated seglets.
 */
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/log2.h>
#include <linux/prefetch.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "balance.h"
#include "cache.h"
#include "compact.h"
#include "entry.h"
#include "epoch.h"
#include "evict.h"
#include "handle.h"
#include "rest.h"
#include "snapshot.h"
#include "space.h"
#include "store.h"
#include "trace.h"

#define LSMEM_COMPACT_BATCH	32	/* entries moved together, so that their cache misses overlap */
#define LSMEM_COMPACT_AHEAD	512u	/* bytes of each that are fetched ahead, before any is copied */
/*
 * What fits into memory leaves it only when all looks have been in vain for so long.  By then cleaning
 * has had its chance (LSMEM_ASK_MS), and backups have had time to close segments.
 */
#define LSMEM_EVICT_LAST_NS	(2 * NSEC_PER_SEC)
#define LSMEM_COMPACT_IDLE_MS	10	/* wait after a fruitless look ... */
#define LSMEM_COMPACT_IDLE_MAX	7	/* ... doubled so many times */

/**
 * struct lsmem_moving - an entry of a batch
 * @offset: in the segment
 * @at: of its copy in the target
 * @live: its object was live when it was asked
 * @e: its header
 */
struct lsmem_moving {
	u32 offset;
	u32 at;
	bool live;
	struct lsmem_entry e;
};

/**
 * struct lsmem_compactor - one thread
 * @store: its store
 * @number: from 0; number 0 also calls lsmem_balance() when none may work
 * @task: its thread, or NULL
 * @to: target of the segment at hand; only index and seglets are used
 * @end: bytes of @to that are filled
 * @trailer: bytes behind each entry
 * @oldest: tombstones with a higher barrier are kept
 * @moved: bytes moved in this segment
 * @seen: objects and tombstones passed in this segment
 * @kept: of them, those that have a copy
 * @starved: too few seglets were free for the last segment, and none will be by themselves
 * @rest: its rests, in this segment
 * @batch: entries that may be live, to be moved next
 */
struct lsmem_compactor {
	struct lsmem_store *store;
	unsigned int number;
	struct task_struct *task;
	struct lsmem_segment to;
	u32 end;
	u32 trailer;
	u64 oldest;
	u64 moved;
	u32 seen;
	u32 kept;
	bool starved;
	struct lsmem_rest rest;
	struct lsmem_moving batch[LSMEM_COMPACT_BATCH];
};

/* ---- Freeing ------------------------------------------------------------ */

/*
 * Free the oldest vacated seglets.  Returns false if there are none, or a reader may see them.
 * @wait: wait for kernel readers, which takes a grace period.
 */
static bool lsmem_vacated_free(struct lsmem_store *store, bool wait)
{
	u32 seglets[LSMEM_SEGLETS], seglet, next, i;
	struct lsmem_vacated vacated = { 0 };

	if (test_and_set_bit_lock(0, &store->compaction.freeing))
		return false;
	spin_lock(&store->segments.lock);
	if (store->compaction.first != store->compaction.next)
		vacated = store->compaction.vacated[store->compaction.first % LSMEM_VACATED];
	spin_unlock(&store->segments.lock);
	if (!vacated.nr || !lsmem_epoch_passed(store, vacated.epoch) ||
	    (!wait && !poll_state_synchronize_rcu(vacated.rcu))) {
		clear_bit_unlock(0, &store->compaction.freeing);
		return false;
	}
	cond_synchronize_rcu_expedited(vacated.rcu);
	for (i = 0, seglet = vacated.first; i < vacated.nr; i++, seglet = next) {
		seglets[i] = seglet;
		next = READ_ONCE(store->seglets.table[seglet].next);
	}
	/* The loan ends first: for a moment too few seglets seem free, never too many. */
	lsmem_seglets_keep(&store->seglets, vacated.lent);
	lsmem_seglets_put(&store->seglets, seglets,
			  lsmem_snapshots_keep(store, seglets, vacated.nr, vacated.epoch, vacated.salt,
					       vacated.trailers));
	spin_lock(&store->segments.lock);
	store->compaction.first++;
	WRITE_ONCE(store->compaction.vacating, store->compaction.vacating - vacated.nr);
	spin_unlock(&store->segments.lock);
	clear_bit_unlock(0, &store->compaction.freeing);
	lsmem_space_came(store);
	return true;
}

/* ---- Moving ------------------------------------------------------------- */

/*
 * Collect the next live entries from *@offset on, until the batch is full or the segment ends,
 * and advance *@offset.  Returns how many, or -EBADMSG: there is no entry.
 */
static int lsmem_compact_collect(struct lsmem_compactor *c, const struct lsmem_segment *seg,
				 u32 *offset)
{
	struct lsmem_store *store = c->store;
	u32 nr = 0;

	while (nr < LSMEM_COMPACT_BATCH) {
		struct lsmem_entry *e = &c->batch[nr].e;
		u32 at = lsmem_entry_start(*offset), type;
		u64 index;

		if (at >= seg->committed)
			break;
		if (!lsmem_entry_fetch(store, seg, at, e)) {
			*offset = at;
			return -EBADMSG;
		}
		c->batch[nr].offset = at;
		*offset = at + lsmem_entry_step(store, seg, e);
		type = lsmem_entry_type(e);
		index = lsmem_handle_index(lsmem_entry_handle(e));
		c->seen += type == LSMEM_TYPE_OBJECT || type == LSMEM_TYPE_TOMBSTONE;
		if (type == LSMEM_TYPE_OBJECT && index < store->handles.nr)
			prefetchw(lsmem_handle_at(&store->handles, index));
		else if (type != LSMEM_TYPE_TOMBSTONE)
			continue;
		nr++;
	}
	return nr;
}

/* Is it the entry of an object that is live? */
static bool lsmem_compact_live(const struct lsmem_compactor *c, const struct lsmem_segment *seg,
			       const struct lsmem_moving *m)
{
	u64 word;

	if (lsmem_entry_type(&m->e) != LSMEM_TYPE_OBJECT)
		return false;
	word = READ_ONCE(lsmem_handle_at(&c->store->handles,
					 lsmem_handle_index(lsmem_entry_handle(&m->e)))->word);
	return lsmem_word_state(word) == LSMEM_WORD_LIVE &&
	       lsmem_word_position(word) == lsmem_segment_position(seg, m->offset);
}

/*
 * Append a copy of an entry to the target. Returns false if it does not fit, or is not what was once
 * written: it is damaged.
 */
static bool lsmem_compact_copy(struct lsmem_compactor *c, const struct lsmem_segment *seg,
			       struct lsmem_moving *m)
{
	u32 size = lsmem_entry_bytes(&m->e);

	m->at = lsmem_entry_start(c->end);
	if (m->at + size + c->trailer > c->to.nr_seglets * LSMEM_SEGLET_BYTES)
		return false;
	if (m->at > c->end)
		lsmem_segment_write(c->store, &c->to, c->end, NULL, m->at - c->end);
	lsmem_segment_write(c->store, &c->to, m->at, &m->e, lsmem_entry_header(&m->e));
	if (!lsmem_entry_copied(&m->e, lsmem_entry_move(c->store, &c->to, m->at, seg, m->offset,
							&m->e), seg->salt))
		return false;
	if (c->trailer)
		lsmem_segment_write(c->store, &c->to, m->at + size,
				    lsmem_segment_at(c->store, seg, m->offset + size), c->trailer);
	c->end = m->at + size + c->trailer;
	c->kept++;
	return true;
}

static bool lsmem_compact_tombstone(struct lsmem_compactor *c, struct lsmem_segment *seg,
				    struct lsmem_moving *m)
{
	u32 size = lsmem_entry_bytes(&m->e);

	if (lsmem_entry_value(&m->e) <= c->oldest) {
		if (!lsmem_entry_copied(&m->e, ~0u, seg->salt))
			return false;
		atomic_sub(size, seg->tombstones);
		atomic_sub(size, seg->live);
		lsmem_live_add(c->store, -(s64)size);
		return true;
	}
	if (!lsmem_compact_copy(c, seg, m))
		return false;
	c->moved += size;
	return true;
}

/* Must words not be exchanged now, because a snapshot copies the live bitmap?  Under rcu_read_lock(). */
static bool lsmem_compact_rests(const struct lsmem_store *store)
{
	return lsmem_snapshots_copying(store) && !kthread_should_stop();
}

/*
 * Move what is live of a batch.  All copies are made before the first word is exchanged, so that
 * the cache misses overlap.  The copy of an object that is replaced meanwhile stays, dead.
 *
 * Returns how many entries were dealt with; the next one is damaged.
 */
static int lsmem_compact_batch(struct lsmem_compactor *c, struct lsmem_segment *seg, int nr)
{
	int done, i;

	for (i = 0; i < nr; i++) {
		struct lsmem_moving *m = &c->batch[i];
		const void *e = lsmem_segment_at(c->store, seg, m->offset);
		u32 ahead = min(lsmem_entry_bytes(&m->e), LSMEM_COMPACT_AHEAD), at;

		m->live = lsmem_compact_live(c, seg, m);
		for (at = L1_CACHE_BYTES; m->live && at < ahead; at += L1_CACHE_BYTES)
			prefetch(e + at);
	}
	for (done = 0; done < nr; done++) {
		struct lsmem_moving *m = &c->batch[done];

		if (lsmem_entry_type(&m->e) == LSMEM_TYPE_TOMBSTONE) {
			if (!lsmem_compact_tombstone(c, seg, m))
				break;
		} else if (m->live && !lsmem_compact_copy(c, seg, m)) {
			break;
		}
	}
	rcu_read_lock();
	while (unlikely(lsmem_compact_rests(c->store))) {
		rcu_read_unlock();
		lsmem_snapshots_rest(c->store);
		rcu_read_lock();
	}
	for (i = 0; i < done; i++) {
		const struct lsmem_moving *m = &c->batch[i];
		u64 index = lsmem_handle_index(lsmem_entry_handle(&m->e));

		if (m->live &&
		    lsmem_word_move(&c->store->handles, lsmem_handle_at(&c->store->handles, index),
				    lsmem_segment_position(seg, m->offset),
				    lsmem_segment_position(&c->to, m->at)))
			c->moved += lsmem_entry_bytes(&m->e) + c->trailer;
	}
	rcu_read_unlock();
	return done;
}

/* Move all live entries. Returns false if the segment is damaged. */
static bool lsmem_compact_move(struct lsmem_compactor *c, struct lsmem_segment *seg)
{
	u32 offset = 0, seglets = 0;

	/* An entry is counted as live before its segment is closed: without live bytes all are dead. */
	if (!c->to.nr_seglets)
		return true;
	for (;;) {
		int nr = lsmem_compact_collect(c, seg, &offset), done;

		if (nr < 0)
			goto damaged;
		/* The vacated seglets of an earlier segment may have become free meanwhile. */
		if (seglets != c->end / LSMEM_SEGLET_BYTES)
			lsmem_vacated_free(c->store, false);
		seglets = c->end / LSMEM_SEGLET_BYTES;
		done = lsmem_compact_batch(c, seg, nr);
		if (done < nr) {
			offset = c->batch[done].offset;
			goto damaged;
		}
		if (!nr)
			break;
		cond_resched();
		lsmem_rest(c->store, &c->rest);
	}
	if (c->seen == lsmem_segment_entries(seg) && lsmem_segment_emptied(c->store, seg, c->moved))
		return true;
damaged:
	lsmem_segment_damaged(c->store, seg, offset);
	return false;
}

/* ---- One segment -------------------------------------------------------- */

/* Give back seglets that were not needed; no reader has seen them. */
static void lsmem_compact_trim(struct lsmem_compactor *c)
{
	u32 needed = DIV_ROUND_UP(c->end, LSMEM_SEGLET_BYTES), more = c->to.nr_seglets - needed;

	if (!more)
		return;
	if (needed)
		WRITE_ONCE(c->store->seglets.table[c->to.seglets[needed - 1]].next, LSMEM_NO_SEGLET);
	lsmem_seglets_give(&c->store->seglets, c->to.seglets[needed], more, more);
	c->to.nr_seglets = needed;
}

/* Swap the seglets of the segment; the old ones wait until no reader can see them. */
static void lsmem_compact_swap(struct lsmem_compactor *c, struct lsmem_segment *seg)
{
	struct lsmem_store *store = c->store;
	u64 epoch = lsmem_epoch_advance(store);
	/* The next segment is compacted while this one's old seglets wait for readers. */
	unsigned long rcu = start_poll_synchronize_rcu_expedited();
	struct lsmem_vacated *vacated;

	spin_lock(&store->segments.lock);
	vacated = &store->compaction.vacated[store->compaction.next++ % LSMEM_VACATED];
	vacated->first = seg->seglets[0];
	vacated->nr = seg->nr_seglets;
	vacated->lent = c->to.nr_seglets;
	vacated->epoch = epoch;
	vacated->rcu = rcu;
	vacated->salt = seg->salt;
	vacated->trailers = lsmem_segment_is_cache(&store->segments, seg->index);
	WRITE_ONCE(store->compaction.vacating, store->compaction.vacating + seg->nr_seglets);
	memcpy(seg->seglets, c->to.seglets, c->to.nr_seglets * sizeof(*seg->seglets));
	WRITE_ONCE(seg->nr_seglets, c->to.nr_seglets);
	seg->reserved = c->end;
	seg->committed = c->end;
	seg->packed = c->kept;
	WRITE_ONCE(seg->packed_time, lsmem_store_time(store));
	lsmem_segment_changed(store, seg, true);
	if (c->trailer && !seg->nr_seglets)
		lsmem_cache_free(store, seg);
	else
		lsmem_segment_leave(seg);
	spin_unlock(&store->segments.lock);
}

/* The segment keeps its old seglets. */
static void lsmem_compact_leave(struct lsmem_store *store, struct lsmem_segment *seg)
{
	spin_lock(&store->segments.lock);
	if (seg->damaged)	/* entries that have moved are not in seg->seglets */
		lsmem_segment_changed(store, seg, true);
	lsmem_segment_leave(seg);
	spin_unlock(&store->segments.lock);
}

/* Take the seglets for a compaction. Returns false if it cannot begin now. */
static bool lsmem_compact_begin(struct lsmem_compactor *c, const struct lsmem_segment *seg)
{
	struct lsmem_store *store = c->store;
	const struct lsmem_segment *oldest;
	bool room;

	spin_lock(&store->segments.lock);
	/* Each of the other compactors may end one at the same time. */
	room = store->compaction.next - store->compaction.first <= LSMEM_VACATED - LSMEM_COMPACTORS;
	oldest = lsmem_log_oldest(store, NULL, 0);
	c->oldest = oldest ? oldest->id : 0;
	spin_unlock(&store->segments.lock);
	c->to.index = seg->index;
	c->trailer = lsmem_segment_is_cache(&store->segments, seg->index) ? LSMEM_TRAILER_BYTES : 0;
	c->to.nr_seglets = lsmem_packed_seglets(atomic_read(seg->live));
	c->end = 0;
	c->moved = 0;
	c->seen = 0;
	c->kept = 0;
	if (!room || c->to.nr_seglets >= seg->nr_seglets)
		return false;
	if (!c->to.nr_seglets ||
	    lsmem_seglets_take(&store->seglets, seg->index, c->to.nr_seglets, c->to.seglets))
		return true;
	/*
	 * Survivors of what was cold take seglets, and their victims have none to give back.  If nothing
	 * is about to be freed, too few are left to compact: a segment has to be emptied, which takes none.
	 */
	lsmem_snapshots_press(store);
	c->starved = store->tier.on && !READ_ONCE(store->compaction.vacating) &&
		     !READ_ONCE(store->seglets.lent);
	return false;
}

/* Compact one segment in state COMPACTING. Returns false if nothing was gained. */
static bool lsmem_compact(struct lsmem_compactor *c, struct lsmem_segment *seg)
{
	struct lsmem_store *store = c->store;
	u64 begin = lsmem_rest_begin(&c->rest), ns;
	u32 held = seg->nr_seglets;

	if (!lsmem_compact_begin(c, seg)) {
		lsmem_compact_leave(store, seg);
		return false;
	}
	if (!lsmem_compact_move(c, seg)) {
		/* Entries that have moved stay in the new seglets, which the segment keeps as well. */
		lsmem_seglets_keep(&store->seglets, c->to.nr_seglets);
		lsmem_compact_leave(store, seg);
		return false;
	}
	lsmem_compact_trim(c);
	lsmem_compact_swap(c, seg);
	ns = ktime_get_ns() - begin - c->rest.ns;
	lsmem_count(store, compactions, 1);
	lsmem_count(store, compacted_bytes, c->moved);
	lsmem_count(store, compact_freed_bytes, (u64)(held - c->to.nr_seglets) * LSMEM_SEGLET_BYTES);
	lsmem_count(store, compact_ns, ns);
	lsmem_space_made(store, held - c->to.nr_seglets, ns);
	lsmem_asked_done(&store->plan.compact_asked, 1);
	trace_lsmem_compact(store->name, seg->id, held, c->to.nr_seglets, c->moved, ns);
	return true;
}

/* ---- The threads -------------------------------------------------------- */

static bool lsmem_compact_wanted(const struct lsmem_compactor *c)
{
	return (!c->number || c->number < READ_ONCE(c->store->compaction.nr_compactors)) &&
	       (lsmem_balance_due(c->store) || lsmem_evict_due(c->store, false)) &&
	       !lsmem_snapshots_hold(c->store);
}

/* Are there vacated seglets? With no other work a view holds them; one compactor polls. */
static bool lsmem_compactor_held(const struct lsmem_compactor *c)
{
	return !c->number &&
	       READ_ONCE(c->store->compaction.first) != READ_ONCE(c->store->compaction.next);
}

/* Wait for work. @fruitless: how many looks in a row found none. */
static void lsmem_compactor_wait(struct lsmem_compactor *c, unsigned int fruitless)
{
	unsigned int pause = LSMEM_COMPACT_IDLE_MS << min(fruitless, LSMEM_COMPACT_IDLE_MAX + 1u);
	struct lsmem_store *store = c->store;
	int stalled = atomic_read(&store->space.stalled);

	if (lsmem_compactor_held(c)) {
		/* A view holds them up, and views end without a wake-up. */
		wait_event_freezable_timeout(store->plan.work, kthread_should_stop(), 1);
	} else if (lsmem_compact_wanted(c)) {
		if (stalled)
			pause = LSMEM_COMPACT_IDLE_MS;
		wait_event_freezable_timeout(store->plan.work, kthread_should_stop() ||
					     !lsmem_compact_wanted(c) ||
					     (!stalled && atomic_read(&store->space.stalled)),
					     msecs_to_jiffies(pause));
	} else {
		/* In the other waits an append must not wake it up. */
		smp_store_mb(store->plan.idle, true);
		wait_event_freezable(store->plan.work, kthread_should_stop() ||
				     lsmem_compact_wanted(c));
		WRITE_ONCE(store->plan.idle, false);
	}
}

/*
 * The segment to compact next, NULL: none.  In a tiered store objects leave one, if compaction alone
 * would copy too much for what it frees.  @last: nothing else has made room for long.
 */
static struct lsmem_segment *lsmem_compactor_next(struct lsmem_compactor *c, bool last)
{
	struct lsmem_segment *seg = NULL;
	bool starved = c->starved;

	if (!starved && !lsmem_cache_short(c->store))
		seg = lsmem_balance_next(c->store);
	c->starved = false;
	while (!seg && (starved || lsmem_evict_due(c->store, last)) && !lsmem_snapshots_hold(c->store) &&
	       !kthread_should_stop()) {
		seg = lsmem_evict_next(c->store);
		if (!seg)
			break;
		if (!lsmem_evict(c->store, seg, starved, &c->rest) ||
		    lsmem_packed_seglets(atomic_read(seg->live)) >= seg->nr_seglets) {
			lsmem_compact_leave(c->store, seg);	/* until its next turn */
			seg = NULL;
		}
	}
	return seg;
}

static int lsmem_compactor(void *data)
{
	struct lsmem_compactor *c = data;
	unsigned int fruitless = 0;
	u64 since = 0;		/* when the first of the looks was that have found nothing; 0: none has */

	set_freezable();
	while (!kthread_should_stop()) {
		struct lsmem_segment *seg = NULL;
		bool freed = lsmem_vacated_free(c->store, false), wanted, done;

		lsmem_snapshots_moving(c->store, true);
		wanted = lsmem_compact_wanted(c);
		/* More vacated seglets would wait for the same view: poll less and less often. */
		if (wanted && (!fruitless || !lsmem_compactor_held(c) || is_power_of_2(fruitless)))
			seg = lsmem_compactor_next(c, since && ktime_get_ns() - since > LSMEM_EVICT_LAST_NS);
		done = seg && lsmem_compact(c, seg);
		lsmem_snapshots_moving(c->store, false);
		if (done || freed || lsmem_vacated_free(c->store, true)) {
			fruitless = 0;
			since = 0;
		} else {
			if (!wanted)
				since = 0;
			else if (!since)
				since = ktime_get_ns();
			lsmem_compactor_wait(c, fruitless++);
		}
	}
	return 0;
}

/**
 * lsmem_compactors_init - allocate all memory that compactors need
 * @store: the store
 * Return: 0 or -ENOMEM.
 */
int lsmem_compactors_init(struct lsmem_store *store)
{
	unsigned int i;

	store->compaction.nr_compactors = clamp(num_possible_cpus() / 8, 1u, LSMEM_COMPACTORS);
	store->compaction.compactors = kvcalloc(LSMEM_COMPACTORS, sizeof(struct lsmem_compactor),
						store->seglets.gfp);
	if (!store->compaction.compactors)
		return -ENOMEM;
	for (i = 0; i < LSMEM_COMPACTORS; i++) {
		store->compaction.compactors[i].store = store;
		store->compaction.compactors[i].number = i;
	}
	return 0;
}

/**
 * lsmem_compactors_destroy - undo lsmem_compactors_init()
 * @store: its threads have ended
 */
void lsmem_compactors_destroy(struct lsmem_store *store)
{
	kvfree(store->compaction.compactors);
}

/**
 * lsmem_compactors_make - create the threads; they start with lsmem_compactors_run()
 * @store: its compactors are initialised
 *
 * Creates all LSMEM_COMPACTORS; those above nr_compactors sleep, so that it can be changed.
 *
 * Context: may sleep.  Return: 0, or the error of kthread_create(); then no thread exists.
 */
int lsmem_compactors_make(struct lsmem_store *store)
{
	unsigned int i;

	for (i = 0; i < LSMEM_COMPACTORS; i++) {
		struct lsmem_compactor *c = &store->compaction.compactors[i];
		struct task_struct *task;

		task = kthread_create(lsmem_compactor, c, "lsmem-%u/%s", i, store->name);
		if (IS_ERR(task)) {
			lsmem_compactors_stop(store);
			return PTR_ERR(task);
		}
		c->task = task;
	}
	return 0;
}

/**
 * lsmem_compactors_run - start the threads
 * @store: active; lsmem_compactors_make() has succeeded
 */
void lsmem_compactors_run(struct lsmem_store *store)
{
	unsigned int i;

	for (i = 0; i < LSMEM_COMPACTORS; i++)
		wake_up_process(store->compaction.compactors[i].task);
}

/**
 * lsmem_compactors_stop - end the threads that exist
 * @store: is being destroyed, or did not become active; then they end without having run
 *
 * Context: sleeps until they have ended.
 */
void lsmem_compactors_stop(struct lsmem_store *store)
{
	unsigned int i;

	for (i = 0; i < LSMEM_COMPACTORS; i++) {
		if (store->compaction.compactors[i].task)
			kthread_stop(store->compaction.compactors[i].task);
		store->compaction.compactors[i].task = NULL;
	}
}
