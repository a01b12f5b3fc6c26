// SPDX-License-Identifier: GPL-2.0
/*
 * The cleaner: makes room by moving what is live out of segments that are
 * mostly not.
 *
 * One thread a store.  A pass takes the segments that policy.c selects, lists
 * their live entries, copies them oldest first to the survivor head, and swings
 * each handle word; an entry that was replaced or deleted meanwhile loses the
 * exchange and its copy becomes padding.  The emptied segments, the victims of
 * the pass, form a group that is retired as one:
 *
 *	durable stores	everything before the end of the pass (survivors and
 *			whatever superseded the entries that were not moved) is
 *			durable, then a digest without the group (invariants 9,
 *			10), both by the daemon
 *	all stores	no view, no kernel reader can see the frames
 *
 * then the frames are free.  A durable store is cleaned only while its daemon
 * is attached, and only segments that are durably closed (invariant 11).
 *
 * Delete records: one is kept as long as a segment with an id below its barrier
 * is in the log outside the group (invariant 13: an older copy there could be
 * replayed).  When they take more than deletes_max of memory, the oldest
 * segments are cleaned next, whatever their score: that lets records go.
 *
 * Progress: the reserve always holds one pass's survivors, since only the
 * cleaner may take from it and a pass is never larger than what is free; and
 * when the garbage lies in open segments, these are closed.
 *
 * Locks: none held while entries move; see store.h for what is taken inside.
 */
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "clean.h"
#include "epoch.h"
#include "handle.h"
#include "object.h"
#include "trace.h"

#define LSMEM_PASS_FRAMES	512		/* most that survivors of a pass take */
#define LSMEM_PASS_SLACK	8		/* ... and what is not in their sum */
/* Live bytes that a survivor holds for sure: at worst they are tiny entries, with
 * 24 bytes of directory for each 40, and a large one did not fit at its end.
 */
#define LSMEM_SURVIVOR_LIVE	\
	((LSMEM_SEGMENT_BYTES - LSMEM_OBJECT_MAX - LSMEM_SEGLET_BYTES) / 8 * 5)
#define LSMEM_PASS_ENTRIES	(256u << 10)	/* most entries looked at in a pass */
#define LSMEM_IDLE_MS		10		/* after a pass that found nothing */

/**
 * struct lsmem_survivor - an entry to be moved
 * @time: of its creation
 * @slot: of its segment
 * @offset: in it
 */
struct lsmem_survivor {
	u64 time;
	u32 slot;
	u32 offset;
};

/* What one pass works on. */
struct lsmem_pass {
	struct lsmem_segment *victims[LSMEM_VICTIMS];
	u32 nr_victims;
	u32 nr_survivors;
	u64 oldest;		/* lowest id outside the group */
	u64 live;
	u64 held;
	u64 moved;
	bool damaged;
};

static_assert(LSMEM_SEGMENT_BYTES / (LSMEM_ENTRY_BYTES + LSMEM_ALIGN) <= LSMEM_PASS_ENTRIES);

/**
 * lsmem_cleaner_init - take all the memory the cleaner will ever need
 * @store: segments are there
 * Return: 0 or -ENOMEM.
 */
int lsmem_cleaner_init(struct lsmem_store *store)
{
	store->policy = (struct lsmem_policy_limits){
		.free_low = LSMEM_FREE_LOW_DEFAULT,
		.utilization_max = LSMEM_UTILIZATION_DEFAULT,
		.deletes_max = LSMEM_DELETES_DEFAULT,
	};
	store->frames.base = LSMEM_CLEANER_RESERVE;
	store->frames.reserve = LSMEM_CLEANER_RESERVE;
	lsmem_cleaner_tune(store);
	store->candidates = kvcalloc(store->nr_segments, sizeof(*store->candidates), GFP_KERNEL);
	store->survivors = kvcalloc(LSMEM_PASS_ENTRIES, sizeof(*store->survivors), GFP_KERNEL);
	return store->candidates && store->survivors ? 0 : -ENOMEM;
}

void lsmem_cleaner_destroy(struct lsmem_store *store)
{
	kvfree(store->candidates);
	kvfree(store->survivors);
}

/**
 * lsmem_cleaner_tune - a limit has been changed
 * @store: the store
 */
void lsmem_cleaner_tune(struct lsmem_store *store)
{
	u64 low = (u64)store->frames.nr * READ_ONCE(store->policy.free_low) / 1000;

	WRITE_ONCE(store->clean_below, store->frames.base + low);
}

static u64 lsmem_segment_held(const struct lsmem_segment *seg)
{
	return (u64)READ_ONCE(seg->nr_frames) * LSMEM_SEGLET_BYTES;	/* a head may grow */
}

/* ---- Choosing ----------------------------------------------------------- */

/*
 * Lowest id of a segment that has entries, outside the pass (NULL: the log).
 * Delete records wait for these only: an older copy of what was deleted is
 * never written to a segment that was empty at the time.
 */
static struct lsmem_segment *lsmem_clean_oldest(struct lsmem_store *store,
						const struct lsmem_pass *pass,
						const struct lsmem_segment *except)
{
	struct lsmem_segment *seg;
	u32 i;

	lockdep_assert_held(&store->segment_lock);
	list_for_each_entry(seg, &store->log, node) {
		if (!READ_ONCE(seg->reserved) || seg == except)
			continue;
		for (i = 0; pass && i < pass->nr_victims; i++)
			if (pass->victims[i] == seg)
				break;
		if (!pass || i == pass->nr_victims)
			return seg;	/* the list is in the order of ids */
	}
	return NULL;
}

/* Fill @store->candidates; @deletes: bytes of delete records that cleaning may free. */
static u32 lsmem_clean_candidates(struct lsmem_store *store, u64 *deletes)
{
	const struct lsmem_segment *oldest, *second;
	u64 now = lsmem_store_time(store);
	struct lsmem_segment *seg;
	u32 nr = 0;

	*deletes = 0;
	spin_lock(&store->segment_lock);
	oldest = lsmem_clean_oldest(store, NULL, NULL);
	second = lsmem_clean_oldest(store, NULL, oldest);
	list_for_each_entry(seg, &store->log, node) {
		u32 live = atomic_read(&seg->live), records = atomic_read(&seg->deletes);
		const struct lsmem_segment *other = seg == oldest ? second : oldest;
		u32 held = lsmem_segment_held(seg);

		*deletes += records;
		if (seg->state != LSMEM_SEGMENT_CLOSED || !seg->close_acked || seg->damaged)
			continue;
		if (!other || seg->barrier <= other->id)
			live -= min(live, records);	/* they can go */
		store->candidates[nr++] = (struct lsmem_candidate){
			.id = seg->id,
			.held = held,
			.live = min(live, held),
			.age = now > seg->time ? (now - seg->time) >> 10 : 0,
			.cookie = seg - store->segments,
		};
	}
	if (oldest && oldest->damaged)
		*deletes = 0;	/* they wait for what cannot be cleaned */
	spin_unlock(&store->segment_lock);
	return nr;
}

/* Close the head that has the oldest entries, if a head it is: records wait for it. */
static void lsmem_clean_roll_oldest(struct lsmem_store *store)
{
	const struct lsmem_segment *oldest;
	unsigned int i;

	spin_lock(&store->segment_lock);
	oldest = lsmem_clean_oldest(store, NULL, NULL);
	spin_unlock(&store->segment_lock);
	for (i = 0; oldest && i < store->nr_heads; i++)
		if (READ_ONCE(store->heads[i].segment) == oldest &&
		    !lsmem_head_roll(store, i))
			store->cleaned.forced_rolls++;
}

/* Choose the victims of a pass; false when nothing can be gained. */
static bool lsmem_clean_choose(struct lsmem_store *store, struct lsmem_pass *pass, bool urgent)
{
	u32 nr, chosen, frames, entries = 0;
	u64 room, deletes;
	bool oldest_first;

	frames = lsmem_frames_claim(&store->frames, LSMEM_PASS_FRAMES);
	/* The survivors' last seglets and all commit records are not in the sum. */
	room = (u64)(frames > LSMEM_PASS_SLACK ? frames - LSMEM_PASS_SLACK : 0) *
	       LSMEM_SEGLET_BYTES;
	room = min(room, (u64)lsmem_segments_claim(store) * LSMEM_SURVIVOR_LIVE);
	nr = lsmem_clean_candidates(store, &deletes);
	oldest_first = deletes * 1000 > (u64)store->frames.nr * LSMEM_SEGLET_BYTES *
					READ_ONCE(store->policy.deletes_max);
	if (oldest_first)
		lsmem_clean_roll_oldest(store);
	chosen = lsmem_policy_select(store->candidates, nr, room,
				     urgent ? 1000 : READ_ONCE(store->policy.utilization_max),
				     oldest_first);
	*pass = (struct lsmem_pass){ 0 };
	spin_lock(&store->segment_lock);
	for (; chosen; chosen--, nr--) {
		const struct lsmem_candidate *c = &store->candidates[nr - 1];
		struct lsmem_segment *seg = &store->segments[c->cookie];

		entries += seg->entries;
		if (pass->nr_victims && entries > LSMEM_PASS_ENTRIES)
			break;
		seg->state = LSMEM_SEGMENT_VICTIM;
		pass->victims[pass->nr_victims++] = seg;
		pass->live += c->live;
		pass->held += c->held;
		trace_lsmem_clean_victim(store->name, c->id, c->live, c->held, c->score);
	}
	spin_unlock(&store->segment_lock);
	return pass->nr_victims;
}

/* ---- Listing ------------------------------------------------------------ */

static bool lsmem_clean_live(struct lsmem_store *store, const struct lsmem_pass *pass,
			     const struct lsmem_segment *seg, u32 offset,
			     const struct lsmem_entry *e)
{
	u64 index = lsmem_handle_index(le64_to_cpu(e->key)), word;
	struct lsmem_delete record;

	switch (lsmem_entry_type(e)) {
	case LSMEM_TYPE_OBJECT:
		if (index >= store->nr_handles)
			return false;
		word = READ_ONCE(store->handles[index].word);
		return lsmem_word_state(word) == LSMEM_WORD_LIVE &&
		       lsmem_word_position(word) == lsmem_segment_position(seg, offset);
	case LSMEM_TYPE_DELETE:
		lsmem_segment_read(store, seg, offset + LSMEM_ENTRY_BYTES, &record,
				   sizeof(record));
		return le64_to_cpu(record.barrier) > pass->oldest;
	default:
		return false;
	}
}

static void lsmem_clean_damaged(const struct lsmem_store *store, struct lsmem_segment *seg,
				u32 offset)
{
	if (!seg->damaged)
		pr_err("%s: segment %llu is damaged at offset %u: it is left alone; free its objects, and check this machine's memory\n",
		       store->name, seg->id, offset);
	seg->damaged = true;
}

/* List the live entries of one victim; false when a header is damaged. */
static bool lsmem_clean_list(struct lsmem_store *store, struct lsmem_pass *pass,
			     struct lsmem_segment *seg)
{
	u32 offset = 0, first = pass->nr_survivors;

	for (;;) {
		const struct lsmem_entry *e;

		offset = lsmem_entry_start(offset);
		if (offset >= seg->committed)
			return true;
		e = lsmem_segment_at(store, seg, offset);
		if (!lsmem_entry_valid(e, seg->salt) ||
		    lsmem_entry_size(lsmem_entry_length(e)) > seg->committed - offset)
			break;
		if (lsmem_clean_live(store, pass, seg, offset, e)) {
			if (pass->nr_survivors == LSMEM_PASS_ENTRIES)
				break;
			store->survivors[pass->nr_survivors++] = (struct lsmem_survivor){
				.time = le64_to_cpu(e->version),
				.slot = seg - store->segments,
				.offset = offset,
			};
		}
		offset += lsmem_entry_size(lsmem_entry_length(e));
		if (pass->nr_survivors % 256 == 0)
			cond_resched();
	}
	lsmem_clean_damaged(store, seg, offset);
	pass->nr_survivors = first;
	return false;
}

static int lsmem_survivor_cmp(const void *a, const void *b)
{
	const struct lsmem_survivor *x = a, *y = b;

	return x->time < y->time ? -1 : x->time > y->time;
}

/* List all live entries of a pass, oldest first; damaged victims leave it. */
static void lsmem_clean_gather(struct lsmem_store *store, struct lsmem_pass *pass)
{
	const struct lsmem_segment *oldest;
	u32 i, kept = 0;

	spin_lock(&store->segment_lock);
	oldest = lsmem_clean_oldest(store, pass, NULL);
	pass->oldest = oldest ? oldest->id : ~0ull;
	spin_unlock(&store->segment_lock);
	for (i = 0; i < pass->nr_victims; i++) {
		struct lsmem_segment *seg = pass->victims[i];

		if (lsmem_clean_list(store, pass, seg)) {
			pass->victims[kept++] = seg;
			continue;
		}
		/* It stays in the log, and so does whatever waits for it. */
		spin_lock(&store->segment_lock);
		seg->state = LSMEM_SEGMENT_CLOSED;
		spin_unlock(&store->segment_lock);
		pass->damaged = true;
	}
	pass->nr_victims = kept;
	sort(store->survivors, pass->nr_survivors, sizeof(*store->survivors), lsmem_survivor_cmp,
	     NULL);
}

/* ---- Moving ------------------------------------------------------------- */

/* Reserve in the survivor head, waiting for the daemon to list a spare. */
static int lsmem_clean_begin(struct lsmem_store *store, u32 length, u32 type,
			     struct lsmem_append *ap)
{
	for (;;) {
		int serial = atomic_read(&store->space_serial);

		if (kthread_should_stop())
			return -EINTR;
		if (!lsmem_append_begin(store, LSMEM_CLEANER_HEAD, length, type, ap))
			return 0;
		wait_event_freezable(store->work, atomic_read(&store->space_serial) != serial ||
				     kthread_should_stop());
	}
}

static int lsmem_clean_move(struct lsmem_store *store, struct lsmem_pass *pass,
			    const struct lsmem_survivor *survivor)
{
	struct lsmem_segment *seg = &store->segments[survivor->slot];
	u64 key, version, from, word;
	struct lsmem_append ap;
	struct lsmem_handle *h;
	struct lsmem_entry e;
	u32 length, type;
	int ret;

	/* Listed it was whole, but whoever holds a replication descriptor can write to it. */
	lsmem_segment_read(store, seg, survivor->offset, &e, sizeof(e));
	key = le64_to_cpu(e.key);
	version = le64_to_cpu(e.version);
	length = lsmem_entry_length(&e);
	type = lsmem_entry_type(&e);
	if (!lsmem_entry_valid(&e, seg->salt) || lsmem_handle_index(key) >= store->nr_handles ||
	    lsmem_entry_size(length) > seg->committed - survivor->offset) {
		lsmem_clean_damaged(store, seg, survivor->offset);
		return 0;
	}
	ret = lsmem_clean_begin(store, length, type, &ap);
	if (ret)
		return ret;
	lsmem_segment_copy(store, ap.segment, ap.offset + LSMEM_ENTRY_BYTES, seg,
			   survivor->offset + LSMEM_ENTRY_BYTES,
			   ap.size - LSMEM_ENTRY_BYTES);
	lsmem_append_stamp(store, &ap, key, version, length, type, lsmem_entry_table(&e),
			   le32_to_cpu(e.pcrc));
	if (type == LSMEM_TYPE_DELETE) {
		lsmem_delete_moved(store, seg, &ap, version);
		lsmem_append_commit(store, &ap);
		return 0;
	}
	h = &store->handles[lsmem_handle_index(key)];
	from = lsmem_segment_position(seg, survivor->offset);
	word = READ_ONCE(h->word);
	if (lsmem_word_state(word) != LSMEM_WORD_LIVE || lsmem_word_position(word) != from ||
	    !lsmem_word_exchange(h, word, lsmem_word_next(word, LSMEM_WORD_LIVE, ap.position))) {
		lsmem_append_abort(store, &ap);	/* replaced or deleted meanwhile */
		return 0;
	}
	lsmem_entry_alive(store, &ap, version);
	atomic_sub(ap.size, &seg->live);
	lsmem_append_commit(store, &ap);
	pass->moved += ap.size;
	store->cleaned.relocated_bytes += ap.size;
	store->cleaned.relocated_entries++;
	return 0;
}

/* The group of a pass is complete: what is needed to retire it. */
static void lsmem_clean_retire(struct lsmem_store *store, const struct lsmem_pass *pass)
{
	struct lsmem_vector_point after;
	struct lsmem_retire *retire;
	u64 epoch, records = 0;
	u32 i;

	for (i = 0; i < pass->nr_victims; i++)
		records += atomic_read(&pass->victims[i]->deletes);
	lsmem_live_add(store, -(s64)records);	/* those that were not moved */
	lsmem_log_point(store, &after);
	epoch = lsmem_epoch_advance(store);
	spin_lock(&store->segment_lock);
	retire = &store->retires[store->retire_next % LSMEM_RETIRES];
	retire->nr = pass->nr_victims;
	memcpy(retire->victims, pass->victims, sizeof(pass->victims));
	retire->after = after;
	retire->epoch = epoch;
	retire->rcu = get_state_synchronize_rcu();
	retire->begun = ktime_get_ns();
	retire->emitted = false;
	retire->acked = !store->durable;
	store->retire_next++;
	spin_unlock(&store->segment_lock);
	if (store->durable)
		wake_up(&store->events);
}

/* Nothing has been moved: the victims are as they were. */
static void lsmem_clean_release(struct lsmem_store *store, const struct lsmem_pass *pass)
{
	u32 i;

	spin_lock(&store->segment_lock);
	for (i = 0; i < pass->nr_victims; i++)
		pass->victims[i]->state = LSMEM_SEGMENT_CLOSED;
	spin_unlock(&store->segment_lock);
}

/* What the pass has not used is the writers' again; some may wait for just that. */
static void lsmem_clean_unclaim(struct lsmem_store *store)
{
	lsmem_frames_unclaim(&store->frames);
	lsmem_segments_unclaim(store);
	lsmem_space_came(store);
}

/* A victim that was found damaged when its entries moved is none: they are still there. */
static void lsmem_clean_spare_damaged(struct lsmem_store *store, struct lsmem_pass *pass)
{
	u32 i, kept = 0;

	spin_lock(&store->segment_lock);
	for (i = 0; i < pass->nr_victims; i++)
		if (pass->victims[i]->damaged)
			pass->victims[i]->state = LSMEM_SEGMENT_CLOSED;
		else
			pass->victims[kept++] = pass->victims[i];
	spin_unlock(&store->segment_lock);
	pass->nr_victims = kept;
}

/* One pass; false when nothing could be gained. */
static bool lsmem_clean_pass(struct lsmem_store *store, bool urgent)
{
	u64 begin = ktime_get_ns();
	struct lsmem_pass pass;
	u32 i;

	if (!lsmem_clean_choose(store, &pass, urgent)) {
		lsmem_clean_unclaim(store);
		return false;
	}
	trace_lsmem_clean_begin(store->name, pass.nr_victims, pass.live, pass.held);
	lsmem_clean_gather(store, &pass);
	if (pass.damaged) {
		/* Records may have been dropped that it needs: choose again without it. */
		lsmem_clean_release(store, &pass);
		lsmem_clean_unclaim(store);
		return true;
	}
	for (i = 0; i < pass.nr_survivors; i++) {
		if (lsmem_clean_move(store, &pass, &store->survivors[i]))
			return true;	/* the store is going */
		if (i % 64 == 0)
			cond_resched();
	}
	lsmem_clean_unclaim(store);
	lsmem_clean_spare_damaged(store, &pass);
	if (!pass.nr_victims)
		return true;
	lsmem_clean_retire(store, &pass);
	store->cleaned.passes++;
	store->cleaned.segments_cleaned += pass.nr_victims;
	store->cleaned.freed_bytes += pass.held - min(pass.held, pass.moved);
	trace_lsmem_clean_end(store->name, pass.moved, ktime_get_ns() - begin);
	return true;
}

/* ---- Freeing ------------------------------------------------------------ */

static struct lsmem_retire *lsmem_retire_oldest(struct lsmem_store *store)
{
	if (store->retire_first == READ_ONCE(store->retire_next))
		return NULL;
	return &store->retires[store->retire_first % LSMEM_RETIRES];
}

/* Free the oldest group whose digest is durable; false when there is none. */
static bool lsmem_clean_free(struct lsmem_store *store)
{
	struct lsmem_retire *retire = lsmem_retire_oldest(store);
	u32 i;

	if (!retire || !READ_ONCE(retire->acked) || !lsmem_epoch_passed(store, retire->epoch))
		return false;
	if (!poll_state_synchronize_rcu(retire->rcu))
		synchronize_rcu_expedited();	/* writers may be waiting for these frames */
	trace_lsmem_retire(store->name, retire->nr, ktime_get_ns() - retire->begun);
	spin_lock(&store->segment_lock);
	for (i = 0; i < retire->nr; i++)
		lsmem_segment_free(store, retire->victims[i]);
	retire->nr = 0;
	store->retire_first++;
	lsmem_segments_spare(store);
	spin_unlock(&store->segment_lock);
	lsmem_space_came(store);
	if (store->durable)
		wake_up(&store->events);	/* spares to be opened */
	return true;
}

/* ---- The thread --------------------------------------------------------- */

/* Close heads that hold garbage, so that it can be cleaned. */
static void lsmem_clean_roll(struct lsmem_store *store)
{
	unsigned int i;

	for (i = 0; i < store->nr_heads; i++) {
		struct lsmem_head *head = &store->heads[i];
		u32 garbage;

		spin_lock(&head->lock);
		garbage = head->segment ?
			  head->segment->reserved - atomic_read(&head->segment->live) : 0;
		spin_unlock(&head->lock);
		if (garbage >= LSMEM_SEGLET_BYTES && !lsmem_head_roll(store, i))
			store->cleaned.forced_rolls++;
	}
}

static bool lsmem_clean_urgent(struct lsmem_store *store)
{
	return atomic_read(&store->stalled);
}

static bool lsmem_clean_wanted(struct lsmem_store *store)
{
	if (store->durable && !READ_ONCE(store->attached))
		return false;	/* nobody could retire the victims */
	if (store->retire_next - store->retire_first == LSMEM_RETIRES)
		return false;
	return READ_ONCE(store->frames.nr_free) < READ_ONCE(store->clean_below) ||
	       lsmem_segments_short(store) || lsmem_clean_urgent(store);
}

static bool lsmem_clean_freeable(struct lsmem_store *store)
{
	struct lsmem_retire *retire = lsmem_retire_oldest(store);

	return retire && READ_ONCE(retire->acked);
}

static int lsmem_cleaner(void *data)
{
	struct lsmem_store *store = data;
	bool fruitless = false;

	set_freezable();
	while (!kthread_should_stop()) {
		if (lsmem_clean_free(store)) {
			fruitless = false;
			continue;
		}
		if (lsmem_clean_freeable(store)) {
			/* A view holds it up: views end without telling us. */
			if (!lsmem_clean_wanted(store) || fruitless) {
				wait_event_freezable_timeout(store->work, kthread_should_stop(),
							     1);
				continue;
			}
		} else if (fruitless) {
			wait_event_freezable_timeout(store->work, kthread_should_stop() ||
						     lsmem_clean_freeable(store),
						     msecs_to_jiffies(LSMEM_IDLE_MS));
		} else {
			/* In the other waits appends would wake it up in vain, each of them. */
			smp_store_mb(store->cleaner_idle, true);
			wait_event_freezable(store->work, kthread_should_stop() ||
					     lsmem_clean_freeable(store) ||
					     lsmem_clean_wanted(store));
			WRITE_ONCE(store->cleaner_idle, false);
		}
		fruitless = false;
		if (kthread_should_stop() || !lsmem_clean_wanted(store))
			continue;
		fruitless = !lsmem_clean_pass(store, lsmem_clean_urgent(store));
		if (fruitless && lsmem_clean_urgent(store))
			lsmem_clean_roll(store);
	}
	return 0;
}

/**
 * lsmem_cleaner_start - a store becomes active
 * @store: its cleaner is initialised
 * Return: 0 or what kthread_run() says.
 */
int lsmem_cleaner_start(struct lsmem_store *store)
{
	struct task_struct *task = kthread_run(lsmem_cleaner, store, "lsmem-clean/%s", store->name);

	if (IS_ERR(task))
		return PTR_ERR(task);
	store->cleaner = task;
	return 0;
}

/**
 * lsmem_cleaner_stop - a store is going
 * @store: nobody uses it any more
 */
void lsmem_cleaner_stop(struct lsmem_store *store)
{
	if (store->cleaner)
		kthread_stop(store->cleaner);
	store->cleaner = NULL;
}
