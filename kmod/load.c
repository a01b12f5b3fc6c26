// SPDX-License-Identifier: GPL-2.0
/*
 * Loading: what a recovery brings back into a durable store.
 *
 * The daemon gives the entries that won, segment by segment, in the order of
 * segment ids.  Each becomes part of a segment with its old id, closed and
 * fully acknowledged: the log on the backup is adopted where it lies, nothing
 * is written.  In memory such a segment holds winners only, so offsets here
 * and on the backup differ; each entry keeps its home offset, and with it the
 * CRC of its header.
 *
 * Nothing that is given is trusted: headers and payloads are checked by their
 * CRCs, keys and lengths against the store.  A store is loaded by one daemon
 * or not at all: if it goes before activation, all is forgotten (invariant 20).
 *
 * Locks: attachment->mutex for a call, store->mutex for state; the store is
 * not active, so nothing else touches log and handles.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "activate.h"
#include "clean.h"
#include "entry.h"
#include "epoch.h"
#include "handle.h"
#include "load.h"
#include "log.h"
#include "object.h"
#include "store.h"

#define LSMEM_SEGMENT_ID_END	(1ull << 62)	/* far from where ids would wrap */
#define LSMEM_LOAD_BATCH	16u		/* cache misses on their way at a time */

/**
 * struct lsmem_loading - a call
 * @store: where entries go
 * @seg: its segment that they become part of
 * @from: what the daemon gives
 * @length: bytes there
 * @taken: bytes of them that have been copied
 * @at: offset in the segment where the next entry begins
 * @end: offset where copied bytes end
 * @live: bytes of entries that the counters are yet to be told, likewise
 * @tombstones: of tombstones, and
 * @handles: handles that have come into use, less those that have gone
 * @batch: entries that are in the segment and not in the handle table
 */
struct lsmem_loading {
	struct lsmem_store *store;
	struct lsmem_segment *seg;
	const void __user *from;
	u32 length;
	u32 taken;
	u32 at;
	u32 end;
	u32 live;
	u32 tombstones;
	s32 handles;
	struct {
		u32 offset;
		struct lsmem_entry e;
	} batch[LSMEM_LOAD_BATCH];
};

/* The segment that entries go to: the newest, or a new one after it. */
static struct lsmem_segment *lsmem_load_segment(struct lsmem_store *store,
						const struct lsmem_load *load)
{
	struct lsmem_segment *seg = NULL;

	spin_lock(&store->segments.lock);
	if (!list_empty(&store->segments.log))
		seg = list_last_entry(&store->segments.log, struct lsmem_segment, node);
	if (!seg || seg->id < load->segment) {
		seg = lsmem_segment_new(store, load->segment, load->generation);
		if (seg) {
			seg->open_emitted = true;
			seg->open_acked = true;
			seg->close_emitted = true;
			seg->final = true;
			seg->state = LSMEM_SEGMENT_CLOSED;
			seg->home = load->sealed;
			lsmem_segment_done(seg);
			store->segments.next_id = seg->id + 1;
			store->segments.barrier = seg->id + 1;
		} else {
			seg = ERR_PTR(-ENOSPC);
		}
	} else if (seg->id != load->segment || seg->generation != load->generation ||
		   seg->home != load->sealed) {
		seg = ERR_PTR(-EINVAL);
	}
	spin_unlock(&store->segments.lock);
	return seg;
}

/* Is this a header that the store can take? */
static int lsmem_load_check(const struct lsmem_store *store, const struct lsmem_segment *seg,
			    const struct lsmem_entry *e)
{
	u64 key = le64_to_cpu(e->key);
	u32 length = lsmem_entry_length(e), generation = lsmem_handle_generation(key);

	if (!lsmem_entry_valid(e, seg->salt))
		return -EBADMSG;
	if (lsmem_handle_index(key) >= store->handles.nr || !generation)
		return -EINVAL;
	if (store->kind == LSMEM_KIND_BLOCK && generation != 1)
		return -EINVAL;
	switch (lsmem_entry_type(e)) {
	case LSMEM_TYPE_OBJECT:
		if (store->kind == LSMEM_KIND_BLOCK)
			return length == LSMEM_BLOCK ? 0 : -EINVAL;
		return length ? 0 : -EINVAL;
	case LSMEM_TYPE_TOMBSTONE:
		return length == sizeof(struct lsmem_tombstone) ? 0 : -EINVAL;
	default:
		return -EINVAL;
	}
}

/*
 * Have the bytes up to @to in the segment.  They are copied a seglet at a time, so most
 * are there when they are asked for.
 */
static int lsmem_load_fill(struct lsmem_loading *l, u32 to)
{
	if (to > LSMEM_SEGMENT_BYTES)
		return -EINVAL;
	while (l->end < to) {
		u32 piece = min(l->length - l->taken,
				LSMEM_SEGLET_BYTES - l->end % LSMEM_SEGLET_BYTES);

		if (!piece)
			return -EINVAL;
		if (lsmem_segment_grow(l->store, l->seg, l->end + piece, LSMEM_TAKER_WRITER))
			return -ENOSPC;
		if (copy_from_user(lsmem_segment_at(l->store, l->seg, l->end), l->from + l->taken,
				   piece))
			return -EFAULT;
		l->taken += piece;
		l->end += piece;
	}
	return 0;
}

/* Go to where the next entry begins: its header must not cross the end of a seglet. */
static void lsmem_load_align(struct lsmem_loading *l)
{
	u32 start = lsmem_entry_start(l->at);

	if (start == l->at)
		return;
	lsmem_segment_write(l->store, l->seg, l->at, NULL, start - l->at);
	l->taken -= l->end - l->at;	/* what lies there is the next entry's */
	l->at = start;
	l->end = start;
}

/*
 * Copy in and check the next entries, as they are; their handles are on their way to the
 * cache when they are applied.  Returns how many, 0 at the end, or an error.
 */
static int lsmem_load_collect(struct lsmem_loading *l)
{
	u32 nr = 0;
	int ret;

	while (nr < LSMEM_LOAD_BATCH && l->taken - (l->end - l->at) < l->length) {
		struct lsmem_entry *e = &l->batch[nr].e;
		u32 size;

		lsmem_load_align(l);
		ret = lsmem_load_fill(l, l->at + sizeof(*e));
		if (ret)
			return ret;
		*e = *(const struct lsmem_entry *)lsmem_segment_at(l->store, l->seg, l->at);
		ret = lsmem_load_check(l->store, l->seg, e);
		if (ret)
			return ret;
		size = lsmem_entry_size(lsmem_entry_length(e));
		prefetchw(lsmem_handle_at(&l->store->handles,
					  lsmem_handle_index(le64_to_cpu(e->key))));
		ret = lsmem_load_fill(l, l->at + size);
		if (ret)
			return ret;
		if (lsmem_entry_pcrc(l->store, l->seg, l->at + sizeof(*e), lsmem_entry_length(e)) !=
			    le32_to_cpu(e->pcrc) ||
		    lsmem_fault(&l->store->faults, LSMEM_FAULT_CRC))
			return -EBADMSG;
		l->batch[nr++].offset = l->at;
		l->at += size;
	}
	l->seg->reserved = l->at;
	l->seg->committed = l->at;
	l->seg->emitted = l->at;
	l->seg->acked = l->at;
	l->seg->entries += nr;
	return nr;
}

/* A loaded version supersedes what the handle pointed to. */
static void lsmem_load_drop(struct lsmem_store *store, struct lsmem_handle *h)
{
	const struct lsmem_entry *old = lsmem_word_entry(&store->seglets, h->word);
	u32 length = lsmem_entry_length(old);

	lsmem_entry_dead(store, lsmem_word_position(h->word), length);
	lsmem_live_add(store, -(s64)lsmem_entry_size(length));
	WRITE_ONCE(h->word, lsmem_word_next(h->word, LSMEM_WORD_FREE, 0));
}

/* Does the table know something newer than generation and version of @e? */
static bool lsmem_load_older(struct lsmem_store *store, const struct lsmem_handle *h,
			     const struct lsmem_entry *e)
{
	u32 generation = lsmem_handle_generation(le64_to_cpu(e->key));
	u64 version = le64_to_cpu(e->version);

	if (lsmem_word_state(h->word) == LSMEM_WORD_LIVE) {
		const struct lsmem_entry *old = lsmem_word_entry(&store->seglets, h->word);
		u32 old_generation = lsmem_handle_generation(le64_to_cpu(old->key));

		if (generation != old_generation)
			return generation < old_generation;
		return version <= le64_to_cpu(old->version);
	}
	if (store->kind == LSMEM_KIND_BLOCK)
		return version <= h->info;
	return generation <= lsmem_info_generation(h->info);	/* deleted */
}

/* An entry is in its segment: let the handle table know. */
static void lsmem_load_apply(struct lsmem_loading *l, u32 offset, const struct lsmem_entry *e)
{
	struct lsmem_store *store = l->store;
	u64 key = le64_to_cpu(e->key), version = le64_to_cpu(e->version);
	struct lsmem_handle *h = lsmem_handle_at(&store->handles, lsmem_handle_index(key));
	bool object = lsmem_entry_type(e) == LSMEM_TYPE_OBJECT;
	bool older = lsmem_load_older(store, h, e);
	bool live = lsmem_word_state(h->word) == LSMEM_WORD_LIVE;
	u32 size = lsmem_entry_size(lsmem_entry_length(e));
	u32 generation = lsmem_handle_generation(key);
	struct lsmem_tombstone record;

	if (!object) {
		lsmem_segment_read(store, l->seg, offset + LSMEM_ENTRY_BYTES, &record,
				   sizeof(record));
		l->seg->barrier = max(l->seg->barrier, le64_to_cpu(record.barrier));
		l->tombstones += size;
	}
	if (!object || !older)
		l->live += size;
	store->handles.max = max(store->handles.max, generation);
	store->handles.era = max_t(u32, store->handles.era, version >> LSMEM_VERSION_TIME_BITS);
	if (older)
		return;
	if (live)
		lsmem_load_drop(store, h);
	if (store->kind == LSMEM_KIND_BLOCK)
		WRITE_ONCE(h->info, object ? 0 : version);
	else
		WRITE_ONCE(h->info,
			   (u64)lsmem_entry_table(e) << LSMEM_INFO_TABLE_SHIFT | generation);
	if (object)
		/* A reader let in by lsmem_load_read() sees the entry whole. */
		smp_store_release(&h->word,
				  lsmem_word_next(h->word, LSMEM_WORD_LIVE,
						  lsmem_segment_position(l->seg, offset)));
	l->handles += object - live;
}

static int lsmem_load_entries(struct lsmem_loading *l)
{
	int nr;

	while ((nr = lsmem_load_collect(l)) > 0) {
		int i;

		l->live = 0;
		l->tombstones = 0;
		l->handles = 0;
		for (i = 0; i < nr; i++)
			lsmem_load_apply(l, l->batch[i].offset, &l->batch[i].e);
		atomic_add(l->live, l->seg->live);
		atomic_add(l->tombstones, l->seg->tombstones);
		lsmem_live_add(l->store, l->live);
		percpu_counter_add(&l->store->handles.used, l->handles);
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return nr;
}

/**
 * lsmem_load - LSMEM_REPL_LOAD
 * @store: attached, not active
 * @load: see there
 * Return: 0 or an error as there; after an error the daemon gives up, and what
 * has been loaded is forgotten with its attachment.
 */
int lsmem_load(struct lsmem_store *store, const struct lsmem_load *load)
{
	struct lsmem_loading l = {
		.store = store,
		.from = u64_to_user_ptr(load->data),
		.length = load->length,
	};
	int ret = 0;

	if (load->flags || load->reserved || !load->segment ||
	    load->segment >= LSMEM_SEGMENT_ID_END || !load->generation ||
	    load->length % LSMEM_ALIGN || load->length > LSMEM_SEGMENT_BYTES ||
	    load->sealed > LSMEM_SEGMENT_BYTES)
		return -EINVAL;
	mutex_lock(&store->mutex);
	if (store->state == LSMEM_STATE_ACTIVE || store->state == LSMEM_STATE_DYING)
		ret = -EINVAL;
	else
		store->state = LSMEM_STATE_RECOVERING;
	mutex_unlock(&store->mutex);
	if (ret)
		return ret;
	l.seg = lsmem_load_segment(store, load);
	if (IS_ERR(l.seg))
		return PTR_ERR(l.seg);
	l.at = l.seg->reserved;
	l.end = l.at;
	ret = lsmem_load_entries(&l);
	/* It is closed already: the cleaners are to see what has come into it. */
	spin_lock(&store->segments.lock);
	lsmem_segment_show(l.seg);
	spin_unlock(&store->segments.lock);
	return ret;
}

/**
 * lsmem_load_read - lsmem_object_read() of an object that has been loaded already
 * @store: not active, object kind
 * @op: as there
 *
 * The daemon hands on the newest version of an object that there is, and nothing else, from
 * backups that have no other writer: so what is there is what will be there.
 *
 * Return: as there, but -EAGAIN for what is not there: it may come yet.
 */
int lsmem_load_read(struct lsmem_store *store, struct lsmem_op *op)
{
	int ret = -EAGAIN;

	if (READ_ONCE(store->state) == LSMEM_STATE_RECOVERING)
		ret = lsmem_object_read(store, op);
	return ret == -ENOENT || ret == -ESTALE ? -EAGAIN : ret;
}

/*
 * Wait until neither the kernel nor a view can see what the handle table no longer points to.
 * Ends after view_ms: then views have been revoked.
 */
static void lsmem_load_unseen(struct lsmem_store *store)
{
	u64 epoch = lsmem_epoch_advance(store);

	synchronize_rcu();	/* lsmem_load_read() */
	while (!lsmem_epoch_passed(store, epoch))
		schedule_timeout_uninterruptible(1);	/* views end without a wake-up */
}

/**
 * lsmem_load_forget - a recovery has been given up
 * @store: RECOVERING, its threads do not run; becomes NEW
 *
 * Context: store->mutex held; sleeps, for views up to view_ms.
 */
void lsmem_load_forget(struct lsmem_store *store)
{
	struct lsmem_segment *seg;
	u64 i;

	lockdep_assert_held(&store->mutex);
	for (i = 0; i < store->handles.nr; i++) {
		struct lsmem_handle *h = &store->handles.table[i];

		if (lsmem_word_state(h->word) == LSMEM_WORD_LIVE)
			WRITE_ONCE(h->word, lsmem_word_next(h->word, LSMEM_WORD_FREE, 0));
		WRITE_ONCE(h->info, 0);
		if (i % 4096 == 0)
			cond_resched();
	}
	if (store->kind == LSMEM_KIND_OBJECT)
		lsmem_indices_clear(&store->handles.map);
	lsmem_load_unseen(store);
	lsmem_clean_forget(store);
	spin_lock(&store->segments.lock);
	while ((seg = list_first_entry_or_null(&store->segments.log, struct lsmem_segment, node))) {
		lsmem_segment_free(store, seg);
		spin_unlock(&store->segments.lock);
		cond_resched();
		spin_lock(&store->segments.lock);
	}
	store->segments.nr_spares = 0;
	store->segments.next_id = 1;
	store->segments.barrier = 0;
	spin_unlock(&store->segments.lock);
	percpu_counter_set(&store->live, 0);
	percpu_counter_set(&store->handles.used, 0);
	store->handles.max = 0;
	store->handles.era = 0;
	store->state = LSMEM_STATE_NEW;
}

/* Handles that are live are not given out; one pass in order, at the end. */
static void lsmem_load_map(struct lsmem_store *store)
{
	u64 i;

	for (i = 0; i < store->handles.nr; i++) {
		if (lsmem_word_state(store->handles.table[i].word) == LSMEM_WORD_LIVE)
			lsmem_indices_set(&store->handles.map, i);
		if (i % 4096 == 0)
			cond_resched();
	}
}

/**
 * lsmem_load_activate - LSMEM_REPL_ACTIVATE
 * @store: attached, not active
 * @activate: see there
 * Return: 0; -EINVAL (already active, or something is not above what was
 * loaded) or what lsmem_store_activate() says.
 */
int lsmem_load_activate(struct lsmem_store *store, const struct lsmem_activate *activate)
{
	int ret = -EINVAL;

	if (activate->flags || activate->reserved || !activate->era ||
	    activate->era > LSMEM_ERA_MAX ||
	    activate->generation_ceiling > LSMEM_GENERATION_MAX ||
	    activate->generation_floor > activate->generation_ceiling ||
	    activate->store_time != lsmem_version_time(activate->store_time))
		return -EINVAL;
	mutex_lock(&store->mutex);
	/* Invariant 14: or a handle lost in the crash could name another object, and
	 * a version issued before be higher than one issued after.
	 */
	if ((store->state == LSMEM_STATE_NEW || store->state == LSMEM_STATE_RECOVERING) &&
	    activate->era > store->handles.era &&
	    activate->next_segment >= store->segments.next_id &&
	    activate->next_segment <= LSMEM_SEGMENT_ID_END &&
	    (store->kind == LSMEM_KIND_BLOCK ||
	     activate->generation_floor >= store->handles.max)) {
		store->handles.era = activate->era;
		store->handles.floor = activate->generation_floor;
		store->handles.max = activate->generation_floor;
		store->handles.ceiling = activate->generation_ceiling;
		store->clock = activate->store_time;
		store->clock_base = ktime_get_ns();
		store->segments.next_id = activate->next_segment;
		if (store->state == LSMEM_STATE_RECOVERING && store->kind == LSMEM_KIND_OBJECT)
			lsmem_load_map(store);
		ret = lsmem_store_activate(store);
	}
	mutex_unlock(&store->mutex);
	return ret;
}
