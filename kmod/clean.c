// SPDX-License-Identifier: GPL-2.0
/*
 * The cleaner merges the live entries of several segments and frees these segments.
 *
 * One thread per store.  The victims of a pass are chosen by lsmemd in a durable store
 * (LSMEM_REPL_CLEAN), and here in a volatile one, or if the daemon does not choose in
 * time, when balance.c says that cleaning is due.  A pass lists the live entries of its
 * victims, copies them coldest first to the survivor head, and exchanges their handle
 * words.  If an exchange fails because the object was replaced or deleted, the copy
 * becomes padding.  The emptied segments retire as a group (retire.c).  A durable store
 * is cleaned only while its daemon is attached, and only segments that are durably
 * closed (invariant 11).
 *
 * A tombstone is kept while a segment with an id below its barrier is in the log outside
 * the group: recovery could replay an older copy from there (invariant 13).  When
 * tombstones take more than tombstones_max of memory, the oldest segments are cleaned
 * next, whatever their score, so that tombstones can be dropped.
 *
 * Progress: the reserve always holds the survivors of one pass, because only the cleaner
 * may take what it has claimed, and no pass is larger.  Heads are closed when the
 * garbage lies in them.
 *
 * Locks: plan.mutex while victims are chosen; none held while entries move;
 * see store.h for what is taken inside.
 */
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/prefetch.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "balance.h"
#include "clean.h"
#include "cold.h"
#include "entry.h"
#include "epoch.h"
#include "fetched.h"
#include "handle.h"
#include "log.h"
#include "rest.h"
#include "retire.h"
#include "snapshot.h"
#include "space.h"
#include "store.h"
#include "trace.h"
#include "warm.h"

#define LSMEM_PASS_ENTRIES	(256u << 10)	/* most entries listed in a pass */
#define LSMEM_IDLE_MS		10		/* wait after a choice that found nothing */
#define LSMEM_ASK_MS		100		/* time for the daemon to choose */
#define LSMEM_CLEAN_BATCH	32		/* entries between two looks at the clock */

/**
 * struct lsmem_survivor - an entry to be moved
 * @coldness: those with more of it come first
 * @index: of its segment
 * @offset: in the segment
 */
struct lsmem_survivor {
	u64 coldness;
	u32 index;
	u32 offset;
};

/* What one pass works on. */
struct lsmem_pass {
	struct lsmem_segment *victims[LSMEM_VICTIMS];
	u32 dropped[LSMEM_VICTIMS];	/* bytes of tombstones that are not moved */
	u32 nr_victims;
	u32 nr_survivors;
	u64 oldest;		/* lowest id outside the group */
	u64 live;
	u64 held;
	u64 moved;
	u64 begun;		/* ktime in ns */
	struct lsmem_rest rest;
	u64 now;		/* store time */
	u32 order;		/* enum lsmem_survivors */
	bool damaged;
};

static_assert(LSMEM_SEGMENT_BYTES / LSMEM_LONG_BYTES <= LSMEM_PASS_ENTRIES);

/**
 * lsmem_cleaner_init - allocate all memory that the cleaner needs
 * @store: the store
 * Return: 0 or -ENOMEM.
 */
int lsmem_cleaner_init(struct lsmem_store *store)
{
	store->cleaner.pass = kvzalloc(sizeof(*store->cleaner.pass), store->seglets.gfp);
	store->cleaner.survivors = kvcalloc(LSMEM_PASS_ENTRIES, sizeof(*store->cleaner.survivors),
					    store->seglets.gfp);
	return store->cleaner.pass && store->cleaner.survivors ? 0 : -ENOMEM;
}

/**
 * lsmem_cleaner_destroy - undo lsmem_cleaner_init()
 * @store: its thread has ended
 */
void lsmem_cleaner_destroy(struct lsmem_store *store)
{
	kvfree(store->cleaner.pass);
	kvfree(store->cleaner.survivors);
}

/* ---- Choosing ----------------------------------------------------------- */

/* If the oldest segment is a head, close it: tombstones wait for it. */
static void lsmem_clean_roll_oldest(struct lsmem_store *store)
{
	const struct lsmem_segment *oldest;
	unsigned int i;

	spin_lock(&store->segments.lock);
	oldest = lsmem_log_oldest(store, NULL, 0);
	spin_unlock(&store->segments.lock);
	for (i = 0; oldest && i < store->heads.nr; i++)
		if (READ_ONCE(store->heads.table[i].segment) == oldest &&
		    !lsmem_head_roll(store, i))
			lsmem_count(store, forced_rolls, 1);
}

/* Claim seglets and segments for survivors. Returns the live bytes that they hold. */
static u64 lsmem_clean_claim(struct lsmem_store *store)
{
	u32 seglets = lsmem_seglets_claim(&store->seglets, LSMEM_PASS_SEGLETS);

	return lsmem_clean_fits(store, seglets, lsmem_segments_claim(store));
}

/* Drop the claim, and wake up writers that may wait for what it held. */
static void lsmem_clean_unclaim(struct lsmem_store *store)
{
	lsmem_seglets_unclaim(&store->seglets);
	lsmem_segments_unclaim(store);
	lsmem_space_came(store);
}

/* Release the victims of a pass that has moved nothing. */
static void lsmem_clean_release(struct lsmem_store *store, struct lsmem_pass *pass)
{
	u32 i;

	spin_lock(&store->segments.lock);
	for (i = 0; i < pass->nr_victims; i++)
		lsmem_segment_leave(pass->victims[i]);
	spin_unlock(&store->segments.lock);
	pass->nr_victims = 0;
}

/*
 * Would the pass gain anything?  The unused end of a victim's last seglet is no gain: a survivor
 * has one too.
 */
static bool lsmem_clean_gains(struct lsmem_store *store, const struct lsmem_pass *pass)
{
	if (store->segments.shown->oldest_first)
		return true;	/* tombstones can be dropped */
	if (lsmem_tier_over(store))
		return pass->nr_victims > DIV_ROUND_UP_ULL(pass->live, LSMEM_SEGMENT_BYTES);
	return pass->held / LSMEM_SEGLET_BYTES > lsmem_packed_seglets(pass->live) ||
	       pass->nr_victims > DIV_ROUND_UP_ULL(pass->live, LSMEM_SEGMENT_BYTES);
}

/*
 * Make victims of the first of @indices whose live entries fit into @room bytes.  Skip those
 * that have changed since they were chosen.  @damaged: also if nothing is gained.
 */
static void lsmem_clean_take(struct lsmem_store *store, const u32 *indices, u32 nr, u64 room,
			     bool damaged)
{
	struct lsmem_pass *pass = store->cleaner.pass;
	u32 entries = 0, i;

	lockdep_assert_held(&store->plan.mutex);
	*pass = (struct lsmem_pass){ .begun = ktime_get_ns() };
	spin_lock(&store->segments.lock);
	for (i = 0; i < nr; i++) {
		struct lsmem_segment *seg = &store->segments.table[indices[i]];
		u32 live = atomic_read(seg->live) + atomic_read(seg->cold);

		if (!(seg->stat->flags & LSMEM_SEGMENT_CLEANABLE))
			continue;
		entries += seg->entries;
		if (pass->live + live > room || (pass->nr_victims && entries > LSMEM_PASS_ENTRIES))
			break;
		seg->state = LSMEM_SEGMENT_VICTIM;
		lsmem_segment_show(seg);
		pass->victims[pass->nr_victims++] = seg;
		pass->live += live;
		pass->held += (u64)seg->nr_seglets * LSMEM_SEGLET_BYTES;
		trace_lsmem_clean_victim(store->name, seg->id, live,
					 seg->nr_seglets * LSMEM_SEGLET_BYTES);
	}
	spin_unlock(&store->segments.lock);
	if (pass->nr_victims && !damaged && !lsmem_clean_gains(store, pass))
		lsmem_clean_release(store, pass);
	if (pass->nr_victims) {
		/* Compaction continues beside the pass, with the rest of the reserve. */
		lsmem_seglets_reclaim(&store->seglets, LSMEM_PASS_SLACK +
				     DIV_ROUND_UP_ULL(pass->live, LSMEM_SEGLET_BYTES));
		WRITE_ONCE(store->segments.shown->begun, store->segments.shown->begun + 1);
	} else {
		lsmem_clean_unclaim(store);
	}
}

/* Choose the victims of a pass. Returns false if nothing can be gained. */
static bool lsmem_clean_choose(struct lsmem_store *store)
{
	bool oldest_first = READ_ONCE(store->segments.shown->oldest_first);
	u32 indices[LSMEM_VICTIMS], nr, chosen, i;
	u64 room;

	if (oldest_first)
		lsmem_clean_roll_oldest(store);
	mutex_lock(&store->plan.mutex);
	if (!lsmem_clean_underway(store) && lsmem_clean_possible(store)) {
		room = lsmem_clean_claim(store);
		nr = lsmem_balance_cleanable(store);
		chosen = lsmem_policy_select(store->plan.candidates, nr, room,
					     lsmem_balance_limit(store), oldest_first);
		for (i = 0; i < chosen; i++)
			indices[i] = store->plan.candidates[nr - 1 - i].cookie;
		lsmem_clean_take(store, indices, chosen, room, false);
	}
	mutex_unlock(&store->plan.mutex);
	return lsmem_clean_underway(store);
}

/**
 * lsmem_clean_due - must victims be chosen?
 * @store: the store
 */
bool lsmem_clean_due(const struct lsmem_store *store)
{
	return lsmem_level(store) == LSMEM_LEVEL_CLEAN && !lsmem_clean_underway(store) &&
	       !lsmem_retires_full(store) && lsmem_clean_possible(store);
}

/**
 * lsmem_clean_stop - LSMEM_CLEAN_LAST, or its end
 * @store: the store
 * @last: begin no pass; one that is under way continues
 */
void lsmem_clean_stop(struct lsmem_store *store, bool last)
{
	mutex_lock(&store->plan.mutex);	/* no victims are being chosen */
	WRITE_ONCE(store->cleaner.last, last);
	mutex_unlock(&store->plan.mutex);
}

/**
 * lsmem_clean_ask - LSMEM_REPL_CLEAN
 * @store: active
 * @ids: of segments, in the order wanted
 * @nr: 1 .. LSMEM_VICTIMS; out: how many became victims
 * @damaged: clean them even if nothing is gained
 * Return: 0 or an error as struct lsmem_clean says.
 */
int lsmem_clean_ask(struct lsmem_store *store, const u64 *ids, u32 *nr, bool damaged)
{
	u32 indices[LSMEM_VICTIMS], found = 0, i;
	int ret = -EBUSY;

	mutex_lock(&store->plan.mutex);
	if (!lsmem_clean_underway(store) && !lsmem_retires_full(store) &&
	    lsmem_clean_possible(store)) {
		spin_lock(&store->segments.lock);
		for (i = 0; i < *nr; i++) {
			const struct lsmem_segment *seg = lsmem_segment_find(store, ids[i]);

			if (seg)
				indices[found++] = seg->index;
		}
		spin_unlock(&store->segments.lock);
		lsmem_clean_take(store, indices, found, lsmem_clean_claim(store), damaged);
		*nr = store->cleaner.pass->nr_victims;
		ret = *nr ? 0 : -ENOENT;
	}
	mutex_unlock(&store->plan.mutex);
	if (!ret)
		wake_up_all(&store->plan.work);
	return ret;
}

/* ---- Listing ------------------------------------------------------------ */

static bool lsmem_clean_live(struct lsmem_store *store, const struct lsmem_pass *pass,
			     const struct lsmem_segment *seg, u32 offset,
			     const struct lsmem_entry *e)
{
	u64 index = lsmem_handle_index(lsmem_entry_handle(e)), word;

	switch (lsmem_entry_type(e)) {
	case LSMEM_TYPE_OBJECT:
		if (index >= store->handles.nr)
			return false;
		word = READ_ONCE(lsmem_handle_at(&store->handles, index)->word);
		return lsmem_word_state(word) == LSMEM_WORD_LIVE &&
		       lsmem_word_position(word) == lsmem_segment_position(seg, offset);
	case LSMEM_TYPE_TOMBSTONE:
		return lsmem_entry_value(e) > pass->oldest;
	default:
		return false;
	}
}

/* Where an entry belongs among the survivors: a tombstone lives as long as what is cold. */
static u64 lsmem_clean_coldness(const struct lsmem_pass *pass, const struct lsmem_entry *e)
{
	u64 age = pass->now - lsmem_version_time(lsmem_entry_version(e));

	if ((s64)age < 0)	/* a version can be ahead of the clock */
		age = 0;
	if (pass->order == LSMEM_SURVIVORS_AGE)
		return age;
	return lsmem_policy_coldness(lsmem_entry_interval(e), age >> LSMEM_INTERVAL_SHIFT);
}

/* List the live entries of one victim. Returns false if a header is damaged. */
static bool lsmem_clean_list(struct lsmem_store *store, struct lsmem_pass *pass,
			     struct lsmem_segment *seg, u32 *dropped)
{
	u32 offset = 0, ahead = 0, first = pass->nr_survivors, seen = 0, listed = 0, type, i;

	*dropped = 0;
	/* An entry is counted as live before its segment is closed: without live bytes all are dead. */
	if (!atomic_read(seg->live))
		return true;
	for (i = 0; i < LSMEM_LOOK_AHEAD; i++)
		lsmem_entry_look_ahead(store, seg, &ahead);
	for (;;) {
		struct lsmem_entry e;

		lsmem_entry_look_ahead(store, seg, &ahead);
		offset = lsmem_entry_start(offset);
		if (offset >= seg->committed && seen == lsmem_segment_entries(seg))
			return true;
		if (offset >= seg->committed || !lsmem_entry_fetch(store, seg, offset, &e))
			break;
		type = lsmem_entry_type(&e);
		seen += type == LSMEM_TYPE_OBJECT || type == LSMEM_TYPE_TOMBSTONE;
		if (lsmem_clean_live(store, pass, seg, offset, &e)) {
			if (pass->nr_survivors == LSMEM_PASS_ENTRIES)
				break;
			store->cleaner.survivors[pass->nr_survivors++] = (struct lsmem_survivor){
				.coldness = lsmem_clean_coldness(pass, &e),
				.index = seg->index,
				.offset = offset,
			};
		} else if (type == LSMEM_TYPE_TOMBSTONE) {
			if (!lsmem_entry_copied(&e, ~0u, seg->salt))
				break;
			*dropped += lsmem_entry_bytes(&e);
		}
		offset += lsmem_entry_bytes(&e);
		if (++listed % LSMEM_CLEAN_BATCH == 0) {
			cond_resched();
			lsmem_rest(store, &pass->rest);
		}
	}
	lsmem_segment_damaged(store, seg, offset);
	pass->nr_survivors = first;
	return false;
}

static int lsmem_survivor_cmp(const void *a, const void *b)
{
	const struct lsmem_survivor *x = a, *y = b;

	return x->coldness > y->coldness ? -1 : x->coldness < y->coldness;
}

/* List all live entries of a pass, coldest first. Damaged victims leave the pass. */
static void lsmem_clean_gather(struct lsmem_store *store, struct lsmem_pass *pass)
{
	const struct lsmem_segment *oldest;
	u32 i, kept = 0;

	spin_lock(&store->segments.lock);
	oldest = lsmem_log_oldest(store, pass->victims, pass->nr_victims);
	pass->oldest = oldest ? oldest->id : ~0ull;
	spin_unlock(&store->segments.lock);
	pass->now = lsmem_store_time(store);
	pass->order = READ_ONCE(store->plan.limits.survivors);
	for (i = 0; i < pass->nr_victims; i++) {
		struct lsmem_segment *seg = pass->victims[i];

		if (lsmem_clean_list(store, pass, seg, &pass->dropped[kept])) {
			pass->victims[kept++] = seg;
			continue;
		}
		/* It stays in the log, and so do tombstones that wait for it. */
		spin_lock(&store->segments.lock);
		lsmem_segment_leave(seg);
		spin_unlock(&store->segments.lock);
		pass->damaged = true;
	}
	pass->nr_victims = kept;
	sort(store->cleaner.survivors, pass->nr_survivors, sizeof(*store->cleaner.survivors),
	     lsmem_survivor_cmp, NULL);
}

/* ---- Moving ------------------------------------------------------------- */

/*
 * Reserve in the survivor head, and wait until the daemon lists a spare if necessary.  Groups of
 * earlier passes may be the only segments that can become spares, and only this thread frees them.
 */
static int lsmem_clean_begin(struct lsmem_store *store, u32 length, u32 type,
			     struct lsmem_append *ap)
{
	for (;;) {
		int serial = atomic_read(&store->space.serial);
		bool held;

		if (kthread_should_stop())
			return -EINTR;
		if (READ_ONCE(store->snapshots.copying)) {
			lsmem_snapshots_rest(store);
			continue;
		}
		if (!lsmem_append_begin(store, LSMEM_CLEANER_HEAD, length, type, ap)) {
			/* In the append, which a cut waits for: what it has begun to copy is left as it is. */
			if (likely(!lsmem_snapshots_copying(store)))
				return 0;
			lsmem_append_abort(store, ap);
			continue;
		}
		if (lsmem_retire_free(store))
			continue;
		held = lsmem_retire_due(store);	/* a view holds it up: see lsmem_cleaner_wait() */
		wait_event_freezable_timeout(store->plan.work, kthread_should_stop() ||
					     atomic_read(&store->space.serial) != serial ||
					     (!held && lsmem_retire_due(store)),
					     held ? 1 : MAX_SCHEDULE_TIMEOUT);
	}
}

static const struct lsmem_entry *lsmem_clean_entry(struct lsmem_store *store,
						   const struct lsmem_survivor *survivor)
{
	return lsmem_segment_at(store, &store->segments.table[survivor->index], survivor->offset);
}

/* What lsmem_entry_make() needs to make an entry again. */
static u64 lsmem_clean_value(const struct lsmem_entry *e)
{
	return lsmem_entry_is_long(e) ? lsmem_entry_value(e) : lsmem_entry_length(e);
}

static int lsmem_clean_move(struct lsmem_store *store, struct lsmem_pass *pass,
			    const struct lsmem_survivor *survivor)
{
	struct lsmem_segment *seg = &store->segments.table[survivor->index];
	u32 length, type, pcrc;
	struct lsmem_append ap;
	struct lsmem_handle *h;
	struct lsmem_entry e;
	u64 key;
	int ret;

	/* Check again: the daemon can have written to it since it was listed. */
	if (!lsmem_entry_fetch(store, seg, survivor->offset, &e) ||
	    (lsmem_entry_type(&e) != LSMEM_TYPE_OBJECT &&
	     lsmem_entry_type(&e) != LSMEM_TYPE_TOMBSTONE) ||
	    lsmem_handle_index(lsmem_entry_handle(&e)) >= store->handles.nr) {
		lsmem_segment_damaged(store, seg, survivor->offset);
		return 0;
	}
	key = lsmem_entry_handle(&e);
	length = lsmem_entry_length(&e);
	type = lsmem_entry_type(&e);
	ret = lsmem_clean_begin(store, length, type, &ap);
	if (ret)
		return ret;
	pcrc = lsmem_entry_move(store, ap.segment, ap.offset, seg, survivor->offset, &e);
	if (!lsmem_entry_copied(&e, pcrc, seg->salt)) {
		lsmem_append_abort(store, &ap);
		lsmem_segment_damaged(store, seg, survivor->offset);
		return 0;
	}
	lsmem_entry_stamp(store, &ap,
			  lsmem_entry_make(type, lsmem_clean_value(&e), key, lsmem_entry_version(&e),
					   lsmem_entry_interval(&e), lsmem_entry_table(&e), ap.offset),
			  pcrc);
	if (type == LSMEM_TYPE_TOMBSTONE) {
		lsmem_tombstone_moved(store, seg, &ap, lsmem_entry_value(&e));
		lsmem_append_commit(store, &ap);
		return 0;
	}
	h = lsmem_handle_at(&store->handles, lsmem_handle_index(key));
	if (!lsmem_word_move(&store->handles, h, lsmem_segment_position(seg, survivor->offset),
			     ap.position)) {
		lsmem_append_abort(store, &ap);	/* replaced or deleted meanwhile */
		return 0;
	}
	lsmem_entry_alive(&ap);
	atomic_sub(ap.size, seg->live);
	lsmem_append_commit(store, &ap);
	pass->moved += ap.size;
	store->cleaner.stats.relocated_bytes += ap.size;
	store->cleaner.stats.relocated_entries++;
	return 0;
}

/* ---- What is not in memory ------------------------------------------------ */

/* Move an entry of a segment that was fetched to the survivors. Returns 0, or a negative errno. */
static int lsmem_clean_cold_move(struct lsmem_store *store, struct lsmem_pass *pass,
				 struct lsmem_segment *seg, const struct lsmem_entry *e, u32 first)
{
	u32 at = (const void *)e - store->fetches.segment, length = lsmem_entry_length(e);
	const struct lsmem_source source = { .kernel = (const void *)e + lsmem_entry_header(e) };
	struct lsmem_append ap;
	u64 word;
	u32 pcrc;
	int ret;

	rcu_read_lock();
	word = lsmem_fetched_word(store, seg, at, first, e);
	rcu_read_unlock();
	if (!word)
		return 0;
	ret = lsmem_clean_begin(store, length, LSMEM_TYPE_OBJECT, &ap);
	if (ret)
		return ret;
	lsmem_append_copy(store, &ap, &source, length, &pcrc);
	lsmem_entry_stamp(store, &ap,
			  lsmem_entry_make(LSMEM_TYPE_OBJECT, length, lsmem_entry_handle(e),
					   lsmem_entry_version(e), lsmem_entry_interval(e),
					   lsmem_entry_table(e), ap.offset), pcrc);
	rcu_read_lock();
	/* It may have been fetched or evicted meanwhile, which moves it, too. */
	do {
		word = lsmem_fetched_word(store, seg, at, first, e);
	} while (word && !lsmem_word_exchange(&store->handles,
					      lsmem_handle_at(&store->handles,
							      lsmem_handle_index(lsmem_entry_handle(e))),
					      word, lsmem_word_next(word, LSMEM_WORD_LIVE, ap.position)));
	if (lsmem_word_state(word) == LSMEM_WORD_COLD)
		lsmem_cold_add(store, seg, -(s32)ap.size);
	else if (word)
		lsmem_cached_dead(store, lsmem_word_position(word), ap.size);
	rcu_read_unlock();
	if (!word) {
		lsmem_append_abort(store, &ap);
		return 0;
	}
	lsmem_entry_alive(&ap);
	lsmem_append_commit(store, &ap);
	pass->moved += ap.size;
	store->cleaner.stats.relocated_bytes += ap.size;
	store->cleaner.stats.relocated_entries++;
	return 0;
}

/*
 * Move what is live of a victim and not in its memory.  If the segment cannot be fetched, it stays.
 * Returns false if the store is being destroyed.
 */
static bool lsmem_clean_cold(struct lsmem_store *store, struct lsmem_pass *pass,
			     struct lsmem_segment *seg)
{
	const void *data = store->fetches.segment;
	u32 at = 0, first = 0, nr = 0;

	if (!atomic_read(seg->cold))
		return true;
	if (lsmem_fetched(store, seg))
		return !kthread_should_stop();
	while (at < seg->home) {
		const struct lsmem_entry *e = data + at;

		if (at / LSMEM_BLOCK != first / LSMEM_BLOCK)
			first = at;
		if (lsmem_clean_cold_move(store, pass, seg, e, first))
			return false;
		at = lsmem_entry_start(at + lsmem_entry_bytes(e));
		if (++nr % LSMEM_CLEAN_BATCH == 0) {
			cond_resched();
			lsmem_rest(store, &pass->rest);
		}
	}
	return true;
}

/* ---- The end of a pass ---------------------------------------------------- */

/*
 * Victims found damaged while entries moved, and those that could not be fetched, stay in the log: they
 * still have live entries.
 */
static bool lsmem_clean_cold_left(const struct lsmem_segment *seg)
{
	if (!atomic_read(seg->cold))
		return false;
	synchronize_rcu_expedited();	/* see lsmem_segment_emptied() */
	return atomic_read(seg->cold);
}

static void lsmem_clean_spare(struct lsmem_store *store, struct lsmem_pass *pass)
{
	bool stays[LSMEM_VICTIMS];
	u64 oldest = ~0ull;
	u32 i, kept = 0;

	for (i = 0; i < pass->nr_victims; i++) {
		struct lsmem_segment *seg = pass->victims[i];

		/* What has moved is subtracted. */
		if (!seg->damaged && !lsmem_segment_emptied(store, seg, pass->dropped[i]))
			lsmem_segment_damaged(store, seg, seg->committed);
		stays[i] = lsmem_clean_cold_left(seg) || seg->damaged;
		if (stays[i])
			oldest = min(oldest, seg->id);
	}
	spin_lock(&store->segments.lock);
	for (i = 0; i < pass->nr_victims; i++)
		/* Tombstones that were to be dropped wait for a damaged victim. */
		if (stays[i] ||
		    (pass->dropped[i] && pass->victims[i]->barrier > oldest))
			lsmem_segment_leave(pass->victims[i]);
		else
			pass->victims[kept++] = pass->victims[i];
	spin_unlock(&store->segments.lock);
	pass->nr_victims = kept;
}

/* Fetch what the moves after the next ones will read: a header first, then its handle and payload. */
static void lsmem_clean_prefetch(struct lsmem_store *store, const struct lsmem_pass *pass, u32 next)
{
	const struct lsmem_survivor *survivors = store->cleaner.survivors;
	const struct lsmem_entry *e;
	u64 index;

	next += LSMEM_LOOK_AHEAD;
	if (next < pass->nr_survivors)
		prefetch(lsmem_clean_entry(store, &survivors[next]));
	next -= LSMEM_LOOK_AHEAD / 2;
	if (next >= pass->nr_survivors)
		return;
	e = lsmem_clean_entry(store, &survivors[next]);
	index = lsmem_handle_index(lsmem_entry_handle(e));
	if (index < store->handles.nr)
		prefetchw(lsmem_handle_at(&store->handles, index));
	prefetch((const void *)e + L1_CACHE_BYTES);
	prefetch((const void *)e + 2 * L1_CACHE_BYTES);
}

/* Move the live entries of the victims. Returns false if the store is being destroyed. */
static bool lsmem_clean_merge(struct lsmem_store *store, struct lsmem_pass *pass)
{
	u32 i;

	for (i = 0; i < pass->nr_survivors; i++) {
		lsmem_clean_prefetch(store, pass, i);
		if (lsmem_clean_move(store, pass, &store->cleaner.survivors[i]))
			return false;
		if (i % LSMEM_CLEAN_BATCH == 0) {
			cond_resched();
			lsmem_rest(store, &pass->rest);
		}
	}
	for (i = 0; i < pass->nr_victims; i++)
		if (!lsmem_clean_cold(store, pass, pass->victims[i]))
			return false;
	lsmem_clean_spare(store, pass);
	if (!pass->nr_victims)
		return true;
	lsmem_retire_add(store, pass->victims, pass->nr_victims);
	store->cleaner.stats.passes++;
	store->cleaner.stats.segments_cleaned += pass->nr_victims;
	store->cleaner.stats.freed_bytes += pass->held - min(pass->held, pass->moved);
	return true;
}

/* Carry out the pass whose victims have been chosen. */
static void lsmem_clean_pass(struct lsmem_store *store)
{
	struct lsmem_pass *pass = store->cleaner.pass;
	u64 ns;

	trace_lsmem_clean_begin(store->name, pass->nr_victims, pass->live, pass->held);
	lsmem_rest_begin(&pass->rest);
	lsmem_clean_gather(store, pass);
	/* A damaged victim may need tombstones that this list dropped: choose again. */
	if (pass->damaged)
		lsmem_clean_release(store, pass);
	else if (!lsmem_clean_merge(store, pass))
		return;		/* the store is going */
	lsmem_clean_unclaim(store);
	lsmem_asked_done(&store->plan.clean_asked, pass->nr_victims);
	ns = ktime_get_ns() - pass->begun - pass->rest.ns;
	store->cleaner.stats.clean_ns += ns;
	if (pass->held > pass->moved)
		lsmem_space_made(store, (pass->held - pass->moved) / LSMEM_SEGLET_BYTES, ns);
	trace_lsmem_clean_end(store->name, pass->moved, ns);
	/* Pairs with the daemon, which reads the table after it has seen this. */
	smp_store_release(&store->segments.shown->ended, store->segments.shown->begun);
	if (store->durable)
		wake_up(&store->repl.events);
}

/* ---- The thread --------------------------------------------------------- */

/*
 * Wait for work.  @held: a view holds up a group, and views end without a wake-up.  @due: when to
 * choose victims, in jiffies; 0: cleaning is not due.  Without a daemon nothing is read.
 */
static void lsmem_cleaner_wait(struct lsmem_store *store, bool held, unsigned long due)
{
	long left = MAX_SCHEDULE_TIMEOUT;

	if (held)
		left = 1;
	else if (store->cleaner.barren ||
		 (store->tier.warm.left && READ_ONCE(store->repl.attached)))
		left = msecs_to_jiffies(LSMEM_IDLE_MS);
	else if (due)
		left = max_t(long, due - jiffies, 1);
	wait_event_freezable_timeout(store->plan.work, kthread_should_stop() ||
				     lsmem_clean_underway(store) ||
				     (!held && lsmem_retire_due(store)) ||
				     (!due && READ_ONCE(store->repl.attached) &&
				      atomic_read(&store->tier.warm.again)) ||
				     (left == MAX_SCHEDULE_TIMEOUT && lsmem_clean_due(store)),
				     left);
	WRITE_ONCE(store->cleaner.barren, false);
}

/* Cleaning is due and no daemon has chosen: choose. Returns false if nothing can be gained. */
static bool lsmem_clean_begin_own(struct lsmem_store *store)
{
	int asked = atomic_read(&store->plan.clean_asked);
	bool gained = lsmem_clean_choose(store);

	WRITE_ONCE(store->cleaner.barren, !gained);
	if (!gained)	/* what was asked for is done */
		atomic_cmpxchg(&store->plan.clean_asked, asked, 0);
	lsmem_balance(store);
	return gained;
}

static int lsmem_cleaner(void *data)
{
	struct lsmem_store *store = data;
	unsigned long due = 0;

	set_freezable();
	while (!kthread_should_stop()) {
		if (lsmem_retire_free(store)) {
			lsmem_balance(store);
			continue;
		}
		if (lsmem_clean_underway(store)) {
			lsmem_clean_pass(store);
			lsmem_balance(store);
			due = 0;
			continue;
		}
		if (!lsmem_clean_due(store))
			due = 0;
		else if (!due)	/* the daemon of a durable store has LSMEM_ASK_MS to choose */
			due = (jiffies + (store->durable ? msecs_to_jiffies(LSMEM_ASK_MS) : 0)) ?: 1;
		if (due && time_after_eq(jiffies, due)) {
			due = 0;
			if (lsmem_clean_begin_own(store))
				continue;
		}
		if (!due && lsmem_warm(store))
			continue;
		lsmem_cleaner_wait(store, lsmem_retire_due(store), due);
	}
	return 0;
}

/**
 * lsmem_cleaner_make - create the thread; it starts with lsmem_cleaner_run()
 * @store: its cleaner is initialised
 *
 * Context: may sleep.  Return: 0, or the error of kthread_create().
 */
int lsmem_cleaner_make(struct lsmem_store *store)
{
	struct task_struct *task = kthread_create(lsmem_cleaner, store, "lsmem-clean/%s",
						  store->name);

	if (IS_ERR(task))
		return PTR_ERR(task);
	store->cleaner.task = task;
	return 0;
}

/**
 * lsmem_cleaner_run - start the thread
 * @store: active; lsmem_cleaner_make() has succeeded
 */
void lsmem_cleaner_run(struct lsmem_store *store)
{
	wake_up_process(store->cleaner.task);
}

/**
 * lsmem_clean_forget - reset the cleaner, because a recovery was given up
 * @store: RECOVERING, store->mutex held; its threads do not run
 *
 * Context: may sleep.
 */
void lsmem_clean_forget(struct lsmem_store *store)
{
	mutex_lock(&store->plan.mutex);
	store->cleaner.pass->nr_victims = 0;
	store->cleaner.pass->nr_survivors = 0;
	store->plan.nr = 0;
	/* As at the end of a pass. */
	smp_store_release(&store->segments.shown->ended, store->segments.shown->begun);
	mutex_unlock(&store->plan.mutex);
	lsmem_seglets_unclaim(&store->seglets);
	lsmem_segments_unclaim(store);
	spin_lock(&store->segments.lock);
	lsmem_retire_forget(store);
	spin_unlock(&store->segments.lock);
}

/**
 * lsmem_cleaner_stop - end the thread, if it exists
 * @store: is being destroyed, or did not become active; then it ends without having run
 *
 * Context: sleeps until it has ended.
 */
void lsmem_cleaner_stop(struct lsmem_store *store)
{
	if (store->cleaner.task)
		kthread_stop(store->cleaner.task);
	store->cleaner.task = NULL;
}
