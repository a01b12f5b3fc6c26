// SPDX-License-Identifier: GPL-2.0
/*
 * Loading a durable store, for a recovery.
 *
 * The daemon passes the newest entry of each object, segment by segment, in the order of
 * segment ids.  Each entry becomes part of a segment with its old id, closed and fully
 * acknowledged: the log on the backup is adopted in place and nothing is written.  In
 * memory such a segment holds only the entries that were passed, so offsets in memory and
 * on the backup differ; each entry keeps its home block, and with it its CRC.
 *
 * Objects that stay on backups are placed: only their words and their segments are there.  They may be placed while another
 * host still changes them (Documentation/migration.rst): then in any order, and what counts no more is taken back.
 *
 * Nothing is trusted: headers and payloads are checked by their CRCs, keys and lengths
 * against the store.  One daemon loads the whole store: if it goes away before activation,
 * everything it has loaded is dropped (invariant 20).
 *
 * Locks: attachment->mutex for a call, store->mutex for state; the store is
 * not active, so nothing else touches log and handles.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/list_sort.h>
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
#include "warm.h"

#define LSMEM_PLACES_MAX	65536u		/* entries of a call */
#define LSMEM_LOAD_BATCH	16u		/* entries applied together, so that their cache misses overlap */

/**
 * struct lsmem_loading - a call of LSMEM_REPL_LOAD
 * @store: the store
 * @seg: the segment that the entries become part of
 * @from: the entries, in the memory of the daemon
 * @length: bytes at @from
 * @taken: bytes that have been copied from there
 * @at: offset in @seg of the next entry
 * @end: offset in @seg at which the copied bytes end
 * @live: bytes of live entries not yet added to the counters
 * @tombstones: bytes of tombstones not yet added to the counters
 * @handles: handles that came into use, less those freed, not yet added to the counters
 * @batch: entries that are in @seg and not yet in the handle table
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

/**
 * struct lsmem_load_into - the segment that a call loads or places a part of
 * @id: as on the backup
 * @generation: likewise
 * @sealed: its length on the backup
 * @place: it is a call of LSMEM_REPL_PLACE
 * @there: it must be in the log
 */
struct lsmem_load_into {
	u64 id;
	u32 generation;
	u32 sealed;
	bool place;
	bool there;
};

static struct lsmem_segment *lsmem_load_new(struct lsmem_store *store, const struct lsmem_load_into *into)
{
	bool ordered = into->id >= store->segments.next_id;
	struct lsmem_segment *seg;

	if (into->there)
		return ERR_PTR(-ENOENT);
	if (!ordered && !into->place && !store->tier.on)
		return ERR_PTR(-EINVAL);
	seg = lsmem_segment_new(store, into->id, into->generation);
	if (!seg)
		return ERR_PTR(-ENOSPC);
	seg->open_emitted = true;
	seg->open_acked = true;
	seg->close_emitted = true;
	seg->final = true;
	seg->state = LSMEM_SEGMENT_CLOSED;
	seg->home = into->sealed;
	lsmem_segment_done(seg);
	store->segments.unordered |= !ordered;
	store->segments.next_id = max(store->segments.next_id, seg->id + 1);
	store->segments.barrier = store->segments.next_id;
	return seg;
}

/* One that is there: what is placed of it may have grown since; it is loaded once, or while it is the newest. */
static struct lsmem_segment *lsmem_load_on(struct lsmem_store *store, struct lsmem_segment *seg,
					   const struct lsmem_load_into *into)
{
	bool newest = seg->id + 1 == store->segments.next_id;

	if (seg->generation != into->generation || (!into->place && !newest && seg->reserved))
		return ERR_PTR(-EINVAL);
	if (into->sealed == seg->home)
		return seg;
	if (into->sealed < seg->home || !into->place || seg->reserved)
		return ERR_PTR(-EINVAL);
	seg->home = into->sealed;
	lsmem_segment_show(seg);
	return seg;
}

/* Begin a call that loads or places a part of a segment. Returns the segment, or an ERR_PTR(). */
static struct lsmem_segment *lsmem_load_begin(struct lsmem_store *store, const struct lsmem_load_into *into)
{
	struct lsmem_segment *seg;
	bool may;

	if (!into->id || into->id >= LSMEM_SEGMENT_ID_END || !into->generation || into->sealed > LSMEM_SEGMENT_BYTES)
		return ERR_PTR(-EINVAL);
	mutex_lock(&store->mutex);
	may = store->state == LSMEM_STATE_NEW || store->state == LSMEM_STATE_RECOVERING;
	if (may)
		store->state = LSMEM_STATE_RECOVERING;
	mutex_unlock(&store->mutex);
	if (!may)
		return ERR_PTR(-EINVAL);
	spin_lock(&store->segments.lock);
	seg = lsmem_segment_find(store, into->id);
	seg = seg ? lsmem_load_on(store, seg, into) : lsmem_load_new(store, into);
	spin_unlock(&store->segments.lock);
	return seg;
}

/* Is this a header for the store?  The CRC is checked when the payload is there. */
static int lsmem_load_check(const struct lsmem_store *store, const struct lsmem_entry *e)
{
	u64 key = lsmem_entry_handle(e);
	u32 length = lsmem_entry_length(e), generation = lsmem_handle_generation(key);

	if (!lsmem_entry_sane(e) || lsmem_handle_index(key) >= store->handles.nr || !generation)
		return -EINVAL;
	if (store->kind == LSMEM_KIND_BLOCK && generation != 1)
		return -EINVAL;
	switch (lsmem_entry_type(e)) {
	case LSMEM_TYPE_OBJECT:
		return store->kind == LSMEM_KIND_OBJECT || length == LSMEM_BLOCK ? 0 : -EINVAL;
	case LSMEM_TYPE_TOMBSTONE:
		return 0;
	default:
		return -EINVAL;
	}
}

/*
 * Copy the bytes up to offset @to into the segment.  They are copied a seglet at a time, so most
 * calls find them there.
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
		/* The log had been in this memory: it may need some of what writers leave to the cleaners. */
		if (lsmem_segment_grow(l->store, l->seg, l->end + piece, LSMEM_TAKER_CLEANER))
			return -ENOSPC;
		if (copy_from_user(lsmem_segment_at(l->store, l->seg, l->end), l->from + l->taken,
				   piece))
			return -EFAULT;
		l->taken += piece;
		l->end += piece;
	}
	return 0;
}

/* Skip to where the next entry begins: its header must not cross the end of a seglet. */
static void lsmem_load_align(struct lsmem_loading *l)
{
	u32 start = lsmem_entry_start(l->at);

	if (start == l->at)
		return;
	lsmem_segment_write(l->store, l->seg, l->at, NULL, start - l->at);
	l->taken -= l->end - l->at;	/* these bytes are the next entry's */
	l->at = start;
	l->end = start;
}

/*
 * Copy and check the next entries, and prefetch their handles for lsmem_load_apply().  Returns how
 * many, 0 at the end, or a negative errno.
 */
static int lsmem_load_collect(struct lsmem_loading *l)
{
	u32 nr = 0;
	int ret;

	while (nr < LSMEM_LOAD_BATCH && l->taken - (l->end - l->at) < l->length) {
		struct lsmem_entry *e = &l->batch[nr].e;
		u32 size;

		lsmem_load_align(l);
		/* No entry is smaller; a short one has some of its payload there. */
		ret = lsmem_load_fill(l, l->at + LSMEM_LONG_BYTES);
		if (ret)
			return ret;
		*e = *(const struct lsmem_entry *)lsmem_segment_at(l->store, l->seg, l->at);
		ret = lsmem_load_check(l->store, e);
		if (ret)
			return ret;
		size = lsmem_entry_bytes(e);
		prefetchw(lsmem_handle_at(&l->store->handles,
					  lsmem_handle_index(lsmem_entry_handle(e))));
		ret = lsmem_load_fill(l, l->at + size);
		if (ret)
			return ret;
		if (!lsmem_entry_copied(e, lsmem_entry_pcrc(l->store, l->seg,
							    l->at + lsmem_entry_header(e),
							    lsmem_entry_length(e)),
					l->seg->salt) ||
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

/* Account for the entry that a newer version supersedes. */
static void lsmem_load_drop(struct lsmem_store *store, const struct lsmem_handle *h)
{
	u32 size = lsmem_entry_bytes(lsmem_word_entry(&store->seglets, h->word));

	lsmem_entry_dead(store, lsmem_word_position(h->word), size);
	lsmem_live_add(store, -(s64)size);
}

/* Is what the table has newer than generation and version of @e? */
static bool lsmem_load_older(struct lsmem_store *store, u64 index, const struct lsmem_entry *e)
{
	u64 word = lsmem_handle_at(&store->handles, index)->word;
	u32 generation = lsmem_handle_generation(lsmem_entry_handle(e));
	u64 version = lsmem_entry_version(e);

	if (lsmem_word_state(word) == LSMEM_WORD_LIVE) {
		const struct lsmem_entry *old = lsmem_word_entry(&store->seglets, word);
		u32 old_generation = lsmem_handle_generation(lsmem_entry_handle(old));

		if (generation != old_generation)
			return generation < old_generation;
		return version <= lsmem_entry_version(old);
	}
	if (lsmem_word_state(word) == LSMEM_WORD_COLD)
		return true;	/* placed: it is the newest */
	if (store->kind == LSMEM_KIND_BLOCK)
		return version <= *lsmem_discarded_at(&store->handles, index);
	return generation <= lsmem_word_generation(word);	/* deleted */
}

/* Enter an entry of the segment, which is ordered before, into the handle table. */
static void lsmem_load_apply(struct lsmem_loading *l, u32 offset, const struct lsmem_entry *e)
{
	struct lsmem_store *store = l->store;
	u64 key = lsmem_entry_handle(e), index = lsmem_handle_index(key);
	u64 version = lsmem_entry_version(e);
	struct lsmem_handle *h = lsmem_handle_at(&store->handles, index);
	bool object = lsmem_entry_type(e) == LSMEM_TYPE_OBJECT;
	bool older = lsmem_load_older(store, index, e);
	bool live = lsmem_word_state(h->word) == LSMEM_WORD_LIVE;
	u32 generation = lsmem_handle_generation(key), size = lsmem_entry_bytes(e);
	u64 word;

	if (!object) {
		l->seg->barrier = max(l->seg->barrier, lsmem_entry_value(e));
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
		WRITE_ONCE(*lsmem_discarded_at(&store->handles, index), object ? 0 : version);
	word = object ? lsmem_word_next(h->word, LSMEM_WORD_LIVE,
					lsmem_segment_position(l->seg, offset)) :
			lsmem_word_next(h->word, LSMEM_WORD_FREE,
					store->kind == LSMEM_KIND_BLOCK ? 0 : generation);
	lsmem_word_write(&store->handles, h, word);
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
		/* A reader of lsmem_load_read() sees the entries whole; once, as a release of each
		 * word would wait for the copies before it.
		 */
		smp_wmb();
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
 * Return: 0 or an error as there.  After an error the daemon must detach, which drops what it
 * has loaded.
 */
int lsmem_load(struct lsmem_store *store, const struct lsmem_load *load)
{
	struct lsmem_loading l = {
		.store = store,
		.from = u64_to_user_ptr(load->data),
		.length = load->length,
	};
	int ret;

	if (load->flags || load->reserved || load->length % LSMEM_ALIGN ||
	    load->length > LSMEM_SEGMENT_BYTES)
		return -EINVAL;
	l.seg = lsmem_load_begin(store, &(struct lsmem_load_into){
		.id = load->segment, .generation = load->generation, .sealed = load->sealed,
	});
	if (IS_ERR(l.seg))
		return PTR_ERR(l.seg);
	l.at = l.seg->reserved;
	l.end = l.at;
	ret = lsmem_load_entries(&l);
	/* It is closed: publish its new size to the cleaners. */
	spin_lock(&store->segments.lock);
	lsmem_segment_show(l.seg);
	spin_unlock(&store->segments.lock);
	return ret;
}

/**
 * struct lsmem_placed - an object that stays on the backups
 * @index: of its handle
 * @generation: of its handle
 * @size: bytes that it takes there
 * @version: of the entry
 * @position: of its COLD word
 */
struct lsmem_placed {
	u64 index;
	u32 generation;
	u32 size;
	u64 version;
	u64 position;
};

/* Is this a listing of an object of the segment?  Returns 0 or -EINVAL. */
static int lsmem_place_check(const struct lsmem_store *store, const struct lsmem_segment *seg,
			     const struct lsmem_directory_entry *listing, struct lsmem_placed *placed)
{
	u64 key = le64_to_cpu(listing->key), meta = le64_to_cpu(listing->meta);
	u32 length = LSMEM_LISTING_GET(meta, LENGTH), size = lsmem_entry_size(length);
	u32 home = LSMEM_LISTING_GET(meta, HOME) * LSMEM_ALIGN;

	*placed = (struct lsmem_placed){
		.index = lsmem_handle_index(key),
		.generation = lsmem_handle_generation(key),
		.size = size,
		.version = le64_to_cpu(listing->version),
	};
	if (placed->index >= store->handles.nr || !placed->generation || placed->version >> LSMEM_ENTRY_VERSION_BITS ||
	    (store->kind == LSMEM_KIND_BLOCK && (placed->generation != 1 || length != LSMEM_BLOCK)) ||
	    LSMEM_LISTING_GET(meta, TYPE) != LSMEM_TYPE_OBJECT || !length ||
	    length > LSMEM_OBJECT_MAX || home >= seg->home || size > seg->home - home)
		return -EINVAL;
	placed->position = lsmem_cold_place(seg->index, home / LSMEM_BLOCK, home % LSMEM_BLOCK, size);
	return 0;
}

/* Enter an object that stays on the backups.  @bytes: out: that it takes there.  Returns 0 or -EINVAL. */
static int lsmem_place_one(struct lsmem_store *store, const struct lsmem_segment *seg,
			   const struct lsmem_directory_entry *listing, s32 *bytes)
{
	struct lsmem_placed placed;
	struct lsmem_handle *h;

	if (lsmem_place_check(store, seg, listing, &placed))
		return -EINVAL;
	h = lsmem_handle_at(&store->handles, placed.index);
	if (lsmem_word_state(h->word) != LSMEM_WORD_FREE ||
	    placed.generation <= lsmem_word_generation(h->word) ||
	    (store->kind == LSMEM_KIND_BLOCK && placed.version <= *lsmem_discarded_at(&store->handles, placed.index)))
		return -EINVAL;
	WRITE_ONCE(h->word, lsmem_word_next(h->word, LSMEM_WORD_COLD, placed.position));
	store->handles.max = max(store->handles.max, placed.generation);
	store->handles.era = max_t(u32, store->handles.era, placed.version >> LSMEM_VERSION_TIME_BITS);
	*bytes = placed.size;
	return 0;
}

/*
 * Take back what lsmem_place_one() has done with a listing; the index can be placed again, with this generation or a later
 * one.  The word has neither size nor version: the daemon says what it has placed.  @bytes: out: by which what is live
 * changes.  Returns 0 or -EINVAL.
 */
static int lsmem_place_back(struct lsmem_store *store, const struct lsmem_segment *seg,
			    const struct lsmem_directory_entry *listing, s32 *bytes)
{
	bool block = store->kind == LSMEM_KIND_BLOCK;
	struct lsmem_placed placed;
	struct lsmem_handle *h;

	if (lsmem_place_check(store, seg, listing, &placed))
		return -EINVAL;
	h = lsmem_handle_at(&store->handles, placed.index);
	if (lsmem_word_state(h->word) != LSMEM_WORD_COLD || lsmem_word_position(h->word) != placed.position)
		return -EINVAL;
	WRITE_ONCE(h->word, lsmem_word_next(h->word, LSMEM_WORD_FREE, block ? 0 : placed.generation - 1));
	*bytes = -(s32)placed.size;
	return 0;
}

/* The segment is retired, and all that was placed of it is taken back, or it has nothing. */
static int lsmem_place_gone(struct lsmem_store *store, u64 id, u32 generation)
{
	struct lsmem_segment *seg;
	int ret = 0;

	spin_lock(&store->segments.lock);
	seg = lsmem_segment_find(store, id);
	if (!seg || seg->generation != generation)
		ret = -ENOENT;
	else if (seg->reserved || atomic_read(seg->cold))
		ret = -EBUSY;
	else
		lsmem_segment_free(store, seg);
	spin_unlock(&store->segments.lock);
	return ret;
}

/**
 * lsmem_load_place - LSMEM_REPL_PLACE
 * @store: attached, not active
 * @place: see there
 * Return: 0 or an error as there; as lsmem_load().
 */
int lsmem_load_place(struct lsmem_store *store, const struct lsmem_placement *place)
{
	const struct lsmem_directory_entry __user *user = u64_to_user_ptr(place->entries);
	bool back = place->flags & LSMEM_PLACEMENT_BACK, gone = place->flags & LSMEM_PLACEMENT_GONE;
	struct lsmem_directory_entry listings[LSMEM_LOAD_BATCH];
	struct lsmem_segment *seg;
	u32 done = 0, nr, i;
	int ret = 0;

	if (!store->tier.on)
		return -EOPNOTSUPP;
	if (place->flags & ~(LSMEM_PLACEMENT_BACK | LSMEM_PLACEMENT_GONE) || (back && gone) || place->reserved ||
	    (gone ? place->nr : back && !place->nr) || place->nr > LSMEM_PLACES_MAX)
		return -EINVAL;
	seg = lsmem_load_begin(store, &(struct lsmem_load_into){
		.id = place->segment, .generation = place->generation, .sealed = place->sealed, .place = true,
		.there = back || gone,
	});
	if (IS_ERR(seg))
		return PTR_ERR(seg);
	if (gone)
		return lsmem_place_gone(store, place->segment, place->generation);
	for (; done < place->nr && !ret; done += nr) {
		s32 bytes = 0, one;

		nr = min(place->nr - done, LSMEM_LOAD_BATCH);
		if (copy_from_user(listings, user + done, nr * sizeof(*listings)))
			return -EFAULT;
		for (i = 0; i < nr; i++) {
			ret = back ? lsmem_place_back(store, seg, &listings[i], &one) :
				     lsmem_place_one(store, seg, &listings[i], &one);
			if (ret)
				break;
			bytes += one;
		}
		lsmem_cold_add(store, seg, bytes);
		lsmem_live_add(store, bytes);
		percpu_counter_add(&store->handles.used, back ? -(s64)i : i);
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return ret;
}

/**
 * lsmem_load_read - read an object during a recovery, if it is loaded
 * @store: not active, object kind
 * @op: as there
 *
 * The daemon loads only the newest version of each object, from backups that have no other
 * writer: an object that is loaded does not change until the store is active.
 *
 * Return: as lsmem_object_read(), but -EAGAIN if the object is not there: it may be loaded later.
 */
int lsmem_load_read(struct lsmem_store *store, struct lsmem_op *op)
{
	int ret = -EAGAIN;

	if (READ_ONCE(store->state) == LSMEM_STATE_RECOVERING)
		ret = lsmem_object_read(store, op);
	return ret == -ENOENT || ret == -ESTALE || ret == -LSMEM_ECOLD ? -EAGAIN : ret;
}

/*
 * Wait until no view and no kernel reader can see entries that the handle table no longer points
 * to.  Takes view_ms at most, after which views are revoked.
 */
static void lsmem_load_unseen(struct lsmem_store *store)
{
	u64 epoch = lsmem_epoch_advance(store);

	synchronize_rcu();	/* lsmem_load_read() */
	while (!lsmem_epoch_passed(store, epoch))
		schedule_timeout_uninterruptible(1);	/* views end without a wake-up */
}

/**
 * lsmem_load_forget - drop all that an unfinished recovery has loaded
 * @store: RECOVERING, its threads do not run; becomes NEW
 *
 * Context: store->mutex held; sleeps, up to view_ms for views.
 */
void lsmem_load_forget(struct lsmem_store *store)
{
	struct lsmem_segment *seg;
	u64 i;

	lockdep_assert_held(&store->mutex);
	for (i = 0; i < store->handles.nr; i++) {
		struct lsmem_handle *h = &store->handles.table[i];

		lsmem_word_write(&store->handles, h, lsmem_word_next(h->word, LSMEM_WORD_FREE, 0));
		if (store->kind == LSMEM_KIND_BLOCK)
			store->handles.discarded[i] = 0;
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
	store->segments.unordered = false;
	spin_unlock(&store->segments.lock);
	percpu_counter_set(&store->live, 0);
	percpu_counter_set(&store->handles.used, 0);
	lsmem_tier_forget(store);
	store->handles.max = 0;
	store->handles.era = 0;
	store->state = LSMEM_STATE_NEW;
}

/* Mark the indices of live handles as taken; one pass in order, at the end. */
static void lsmem_load_map(struct lsmem_store *store)
{
	u64 i;

	for (i = 0; i < store->handles.common; i++) {
		u32 state = lsmem_word_state(store->handles.table[i].word);

		if (state == LSMEM_WORD_LIVE || state == LSMEM_WORD_COLD)
			lsmem_indices_set(&store->handles.map, i);
		if (i % 4096 == 0)
			cond_resched();
	}
}

static int lsmem_load_by_id(void *compared, const struct list_head *a, const struct list_head *b)
{
	u32 *nr = compared;

	if (++*nr % 4096 == 0)
		cond_resched();
	return list_entry(a, struct lsmem_segment, node)->id > list_entry(b, struct lsmem_segment, node)->id;
}

/* Put segments that were placed in any order in the order of their ids; no other call uses the log yet. */
static void lsmem_load_order(struct lsmem_store *store)
{
	LIST_HEAD(log);
	u32 compared = 0;

	if (!store->segments.unordered)
		return;
	spin_lock(&store->segments.lock);
	list_splice_init(&store->segments.log, &log);
	spin_unlock(&store->segments.lock);
	list_sort(&compared, &log, lsmem_load_by_id);
	spin_lock(&store->segments.lock);
	list_splice(&log, &store->segments.log);
	store->segments.unordered = false;
	spin_unlock(&store->segments.lock);
}

/**
 * lsmem_load_activate - LSMEM_REPL_ACTIVATE
 * @store: attached, not active
 * @activate: see there
 * Return: 0; -EINVAL: already active, or a number is not above what was loaded; or an error of
 * lsmem_store_activate().
 */
int lsmem_load_activate(struct lsmem_store *store, const struct lsmem_activate *activate)
{
	u32 bytes = activate->segment_bytes ?: LSMEM_SEGMENT_BYTES;
	int ret = -EINVAL;

	if (activate->flags & ~(LSMEM_ACTIVATE_COLD | LSMEM_ACTIVATE_UNVERIFIED) ||
	    bytes < LSMEM_SEGMENT_LEAST || bytes > LSMEM_SEGMENT_BYTES || bytes % LSMEM_BLOCK ||
	    !activate->era || activate->era > LSMEM_ERA_MAX ||
	    activate->generation_ceiling > LSMEM_GENERATION_MAX ||
	    activate->generation_floor > activate->generation_ceiling ||
	    activate->store_time != lsmem_version_time(activate->store_time))
		return -EINVAL;
	mutex_lock(&store->mutex);
	/*
	 * Invariant 14: else a handle that the crash lost could name another object, and an older
	 * version could be higher than a newer one.
	 */
	if ((store->state == LSMEM_STATE_NEW || store->state == LSMEM_STATE_RECOVERING) &&
	    activate->era > store->handles.era &&
	    activate->next_segment >= store->segments.next_id &&
	    activate->next_segment < LSMEM_SEGMENT_ID_END &&
	    (store->kind == LSMEM_KIND_BLOCK ||
	     activate->generation_floor >= store->handles.max)) {
		store->handles.era = activate->era;
		store->handles.floor = activate->generation_floor;
		store->handles.max = activate->generation_floor;
		store->handles.ceiling = activate->generation_ceiling;
		store->clock = activate->store_time;
		store->clock_base = ktime_get_ns();
		store->segments.next_id = activate->next_segment;
		WRITE_ONCE(store->segments.bytes, bytes);
		lsmem_load_order(store);
		if (store->state == LSMEM_STATE_RECOVERING && store->kind == LSMEM_KIND_OBJECT)
			lsmem_load_map(store);
		lsmem_warm_begin(store, !(activate->flags & LSMEM_ACTIVATE_COLD),
				 !(activate->flags & LSMEM_ACTIVATE_UNVERIFIED));
		ret = lsmem_store_activate(store);
	}
	mutex_unlock(&store->mutex);
	return ret;
}
