// SPDX-License-Identifier: GPL-2.0
/*
 * Segments: the pieces of a log, and the table that finds them.
 *
 * All structures are allocated with the store.  A segment takes seglets as it grows
 * and frees them when it leaves the log.  Segment ids are never used again.  A segment
 * of a durable store starts as OPENING: the daemon assigns it a frame on the backup
 * and lists it in a durable digest before anything is written to it (invariant 2).
 * Some segments are opened ahead, so that a head that rolls over does not wait.
 *
 * The number of segments is bounded by what the backup holds; the default assumes a
 * backup of twice the store's size.  So the backup always has a frame for an OPEN.
 * The last segments are reserved for the cleaner: a pass needs survivors before it
 * frees anything, so it claims them first and takes no more victims than they hold.
 *
 * Heads take segments under their own locks, with segments.lock inside.  So no function
 * that they call walks the table or a list: free segments and spares have lists of their
 * own, and the ordered list of spares has at most one entry per head.
 *
 * Locks: store->segments.lock for the table, the lists and states; see segment.h.
 */
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "store.h"

#define LSMEM_PASS_SEGMENTS	2	/* of these, what any one victim fits into */

/* What the daemon maps: a page about cleaning, and a table of segments. */
static int lsmem_segments_stats(struct lsmem_store *store)
{
	struct lsmem_segment_stat *stats;
	u32 i;

	BUILD_BUG_ON(sizeof(*store->segments.shown) > PAGE_SIZE);
	BUILD_BUG_ON(sizeof(atomic_t) != sizeof(stats->live));
	store->segments.shown_bytes = PAGE_ALIGN(PAGE_SIZE + array_size(store->segments.nr_all,
									sizeof(*stats)));
	store->segments.shown = lsmem_table_alloc(store->segments.shown_bytes, store->seglets.gfp);
	if (!store->segments.shown)
		return -ENOMEM;
	store->segments.shown->length = sizeof(*store->segments.shown);
	store->segments.shown->nr_segments = store->segments.nr;
	store->segments.shown->segments = PAGE_SIZE;
	stats = (void *)store->segments.shown + PAGE_SIZE;
	for (i = 0; i < store->segments.nr_all; i++) {
		struct lsmem_segment *seg = &store->segments.table[i];

		seg->index = i;
		seg->stat = &stats[i];
		static_assert(sizeof(atomic_t) == sizeof(stats[i].live) &&
			      __alignof__(atomic_t) <= __alignof__(stats[i].live));
		seg->live = (atomic_t *)&stats[i].live;
		seg->tombstones = (atomic_t *)&stats[i].tombstones;
		seg->cold = (atomic_t *)&stats[i].cold;
	}
	return 0;
}

/**
 * lsmem_segments_init - make the segment table of a store
 * @store: has seglets; segments.nr is what the creator asked for, 0: the default
 * @bytes: that the log holds
 * @caches: how many cache segments it is to have
 * Return: 0 or -ENOMEM.
 */
int lsmem_segments_init(struct lsmem_store *store, u64 bytes, u32 caches)
{
	u32 i;

	if (!store->segments.nr)
		store->segments.nr = LSMEM_SEGMENTS_DEFAULT((u32)(bytes / LSMEM_SEGMENT_BYTES));
	store->segments.limit = store->segments.nr;
	store->segments.bytes = LSMEM_SEGMENT_BYTES;
	store->segments.nr_all = store->segments.nr + caches;
	store->segments.hash_bits = ilog2(store->segments.nr) + 1;
	store->segments.table = kvcalloc(store->segments.nr_all, sizeof(*store->segments.table),
					 store->seglets.gfp);
	store->segments.hash = kvcalloc(1ul << store->segments.hash_bits,
					sizeof(*store->segments.hash), store->seglets.gfp);
	store->segments.changed = kvcalloc(BITS_TO_LONGS(store->segments.nr), sizeof(long), store->seglets.gfp);
	if (!store->segments.table || !store->segments.hash || !store->segments.changed)
		return -ENOMEM;
	spin_lock_init(&store->segments.lock);
	INIT_LIST_HEAD(&store->segments.log);
	INIT_LIST_HEAD(&store->segments.todo);
	INIT_LIST_HEAD(&store->segments.spares);
	INIT_LIST_HEAD(&store->segments.free);
	INIT_LIST_HEAD(&store->tier.free);
	for (i = 0; i < store->segments.nr_all; i++)
		list_add_tail(&store->segments.table[i].node,
			      i < store->segments.nr ? &store->segments.free : &store->tier.free);
	store->tier.nr_free = caches;
	store->segments.next_id = 1;
	return lsmem_segments_stats(store);
}

/**
 * lsmem_segments_destroy - free what lsmem_segments_init() has taken
 * @store: initialised, in part or whole
 */
void lsmem_segments_destroy(struct lsmem_store *store)
{
	vfree(store->segments.shown);
	kvfree(store->segments.changed);
	kvfree(store->segments.hash);
	kvfree(store->segments.table);
}

static struct hlist_head *lsmem_segment_bucket(struct lsmem_store *store, u64 id)
{
	return &store->segments.hash[hash_64(id, store->segments.hash_bits)];
}

/**
 * lsmem_segment_find - the segment with an id
 * @store: segments.lock held
 * @id: its id
 * Return: the segment, NULL when it is not in the log.
 */
struct lsmem_segment *lsmem_segment_find(struct lsmem_store *store, u64 id)
{
	struct lsmem_segment *seg;

	lockdep_assert_held(&store->segments.lock);
	hlist_for_each_entry(seg, lsmem_segment_bucket(store, id), hash)
		if (seg->id == id)
			return seg;
	return NULL;
}

/**
 * lsmem_segment_begin - make a segment that is FREE a new one
 * @store: the store
 * @seg: in no list; the caller sets its state
 * @id: its id
 * @generation: as on the backup
 *
 * Context: segments.lock held.
 */
void lsmem_segment_begin(struct lsmem_store *store, struct lsmem_segment *seg, u64 id,
			 u32 generation)
{
	memset(seg, 0, offsetof(struct lsmem_segment, seglets));
	atomic_set(seg->live, 0);
	atomic_set(seg->tombstones, 0);
	atomic_set(seg->cold, 0);
	seg->id = id;
	seg->generation = generation;
	seg->salt = lsmem_segment_salt(store->uuid, id, generation);
	seg->open_time = lsmem_store_time(store);
	seg->packed_time = seg->open_time;
	seg->packed = LSMEM_NOT_PACKED;
	WRITE_ONCE(store->segments.steps, store->segments.steps + 1);
	seg->step = store->segments.steps;
}

/**
 * lsmem_segment_new - put a new segment into the log
 * @store: segments.lock held
 * @id: larger than those of all segments in the log
 * @generation: as on the backup
 *
 * Return: the segment in state OPENING, or NULL when the table is full.
 */
struct lsmem_segment *lsmem_segment_new(struct lsmem_store *store, u64 id, u32 generation)
{
	struct lsmem_segment *seg;

	lockdep_assert_held(&store->segments.lock);
	seg = list_first_entry_or_null(&store->segments.free, struct lsmem_segment, node);
	if (!seg)
		return NULL;
	list_del(&seg->node);
	lsmem_segment_begin(store, seg, id, generation);
	seg->state = LSMEM_SEGMENT_OPENING;
	list_add_tail(&seg->node, &store->segments.log);
	list_add_tail(&seg->todo, &store->segments.todo);
	INIT_LIST_HEAD(&seg->spare);
	hlist_add_head(&seg->hash, lsmem_segment_bucket(store, id));
	store->segments.nr_log++;
	lsmem_segment_show(seg);
	return seg;
}

/**
 * lsmem_segment_unreadable - note whether no backup has all of a segment whole
 * @store: segments.lock held
 * @seg: the segment
 * @unreadable: see struct lsmem_segment
 */
void lsmem_segment_unreadable(struct lsmem_store *store, struct lsmem_segment *seg, bool unreadable)
{
	lockdep_assert_held(&store->segments.lock);
	WRITE_ONCE(store->segments.nr_unreadable,
		   store->segments.nr_unreadable + unreadable - seg->unreadable);
	WRITE_ONCE(seg->unreadable, unreadable);
}

/**
 * lsmem_segment_free - take a segment out of the log and free its seglets
 * @store: segments.lock held
 * @seg: no durable digest lists it; no view, kernel reader or lease covers it
 *
 * Takes time for up to LSMEM_SEGLETS seglets.  A caller that frees several segments
 * releases segments.lock between them.
 */
void lsmem_segment_free(struct lsmem_store *store, struct lsmem_segment *seg)
{
	lockdep_assert_held(&store->segments.lock);
	lsmem_seglets_put(&store->seglets, seg->seglets, seg->nr_seglets);
	seg->nr_seglets = 0;
	list_move_tail(&seg->node, &store->segments.free);
	list_del_init(&seg->todo);
	list_del_init(&seg->spare);
	hlist_del(&seg->hash);
	lsmem_segment_unreadable(store, seg, false);
	seg->id = 0;
	seg->state = LSMEM_SEGMENT_FREE;
	store->segments.nr_log--;
	lsmem_segment_show(seg);
}

/**
 * lsmem_segment_listed - a durable digest lists a segment
 * @store: segments.lock held
 * @seg: if OPENING, becomes a spare; in another state it does not change
 *
 * Acknowledgements arrive in any order and heads take the oldest spare, so the list is
 * ordered by id.  At most one segment per head is opened ahead, so the insertion takes at
 * most LSMEM_HEADS steps.
 */
void lsmem_segment_listed(struct lsmem_store *store, struct lsmem_segment *seg)
{
	struct lsmem_segment *before;

	lockdep_assert_held(&store->segments.lock);
	seg->open_acked = true;
	if (seg->state != LSMEM_SEGMENT_OPENING)
		return;
	seg->state = LSMEM_SEGMENT_SPARE;
	list_for_each_entry_reverse(before, &store->segments.spares, spare)
		if (before->id < seg->id)
			break;
	list_add(&seg->spare, &before->spare);
}

/**
 * lsmem_segments_spare - open segments ahead
 * @store: segments.lock held
 *
 * One for each head, so that every head can roll at once.
 */
void lsmem_segments_spare(struct lsmem_store *store)
{
	lockdep_assert_held(&store->segments.lock);
	while (store->segments.nr_spares < store->heads.nr &&
	       store->segments.nr_log < store->segments.limit) {
		struct lsmem_segment *seg;

		seg = lsmem_segment_new(store, store->segments.next_id, 1);
		if (!seg)
			return;	/* the cleaner frees some, and calls again */
		store->segments.next_id++;
		store->segments.nr_spares++;
		if (!store->durable)
			lsmem_segment_listed(store, seg);
	}
}

/**
 * lsmem_segments_bound - LSMEM_REPL_ROOM
 * @store: durable
 * @limit: segments that the backups have room for, with those that there are
 *
 * There may be more of them already: then heads take what is opened, and no other is until cleaning has freed some.
 */
void lsmem_segments_bound(struct lsmem_store *store, u32 limit)
{
	spin_lock(&store->segments.lock);
	WRITE_ONCE(store->segments.limit, min(limit, store->segments.nr));
	if (lsmem_store_active(store))
		lsmem_segments_spare(store);
	spin_unlock(&store->segments.lock);
	lsmem_space_came(store);		/* or cleaning is due */
	wake_up(&store->repl.events);		/* spares can be opened */
}

/* Segments that heads can still take: spares, and those that can be opened. */
static u32 lsmem_segments_left(const struct lsmem_store *store)
{
	u32 limit = READ_ONCE(store->segments.limit), used = READ_ONCE(store->segments.nr_log);

	return READ_ONCE(store->segments.nr_spares) + (limit > used ? limit - used : 0);
}

/**
 * lsmem_segments_short - is the table so full that segments must be merged?
 * @store: the store
 */
bool lsmem_segments_short(const struct lsmem_store *store)
{
	u32 left = lsmem_segments_left(store);

	return left < store->heads.nr || left <= LSMEM_SEGMENTS_RESERVE;
}

/**
 * lsmem_segments_claimable - how many segments a pass could claim
 * @store: the store
 * Return: half of what is left, so that writers continue and a store that crashes during
 * the pass recovers with some; at least what the survivors of one segment need.
 */
u32 lsmem_segments_claimable(const struct lsmem_store *store)
{
	u32 left = lsmem_segments_left(store);

	return max(left / 2, min_t(u32, left, LSMEM_PASS_SEGMENTS));
}

/**
 * lsmem_segments_claim - claim segments for a pass that begins
 * @store: the store
 * Return: segments that the pass can take for survivors, whatever writers take meanwhile.
 */
u32 lsmem_segments_claim(struct lsmem_store *store)
{
	u32 claimed;

	spin_lock(&store->segments.lock);
	claimed = lsmem_segments_claimable(store);
	store->segments.claimed = claimed;
	spin_unlock(&store->segments.lock);
	return claimed;
}

/**
 * lsmem_segments_unclaim - drop the claim of a pass that has ended
 * @store: the store
 */
void lsmem_segments_unclaim(struct lsmem_store *store)
{
	spin_lock(&store->segments.lock);
	store->segments.claimed = 0;
	spin_unlock(&store->segments.lock);
}

/**
 * lsmem_segment_take - make a spare a head
 * @store: the store
 * @survivor: for the cleaner, which may take the reserved ones
 *
 * Return: a segment in state HEAD, or NULL if there is no spare.
 */
struct lsmem_segment *lsmem_segment_take(struct lsmem_store *store, bool survivor)
{
	struct lsmem_segment *found;

	spin_lock(&store->segments.lock);
	found = list_first_entry_or_null(&store->segments.spares, struct lsmem_segment, spare);
	/* The last are reserved for the cleaner: else a full table could not shrink. */
	if (found && (survivor || (!list_is_singular(&store->segments.spares) &&
				   lsmem_segments_left(store) >
				   max_t(u32, LSMEM_SEGMENTS_RESERVE, store->segments.claimed)))) {
		if (survivor && store->segments.claimed)
			store->segments.claimed--;
		list_del_init(&found->spare);
		found->state = LSMEM_SEGMENT_HEAD;
		found->survivor = survivor;
		found->open_time = lsmem_store_time(store);
		found->packed_time = found->open_time;
		found->step = store->segments.steps;
		WRITE_ONCE(store->segments.barrier, max(store->segments.barrier, found->id + 1));
		store->segments.nr_spares--;
		lsmem_segments_spare(store);
	} else {
		found = NULL;
	}
	spin_unlock(&store->segments.lock);
	return found;
}

/**
 * lsmem_segment_grow - add seglets for the first @to bytes of a segment
 * @store: the store
 * @seg: a head, its head's lock held
 * @to: at most LSMEM_SEGMENT_BYTES
 * @taker: what for
 *
 * Return: 0, or -ENOSPC; seglets that were added stay, for the next attempt.
 */
int lsmem_segment_grow(struct lsmem_store *store, struct lsmem_segment *seg, u32 to,
		       enum lsmem_taker taker)
{
	while ((u64)seg->nr_seglets * LSMEM_SEGLET_BYTES < to) {
		int seglet = lsmem_seglet_get(&store->seglets, seg->index, taker);

		if (seglet < 0)
			return seglet;
		if (seg->nr_seglets)
			WRITE_ONCE(store->seglets.table[seg->seglets[seg->nr_seglets - 1]].next,
				   seglet);
		seg->seglets[seg->nr_seglets] = seglet;
		WRITE_ONCE(seg->nr_seglets, seg->nr_seglets + 1);	/* the cleaner reads all */
	}
	return 0;
}

/**
 * lsmem_segment_show - publish what has changed of a segment
 * @seg: segments.lock held
 *
 * Its state and numbers are read by the daemon and by the choice of victims.
 */
void lsmem_segment_show(const struct lsmem_segment *seg)
{
	struct lsmem_segment_stat *stat = seg->stat;
	bool cleanable = seg->state == LSMEM_SEGMENT_CLOSED && seg->close_acked &&
			 !READ_ONCE(seg->damaged) && !seg->unreadable;

	WRITE_ONCE(stat->flags, 0);
	WRITE_ONCE(stat->id, seg->id);
	WRITE_ONCE(stat->opened, seg->open_time);
	WRITE_ONCE(stat->barrier, seg->barrier);
	WRITE_ONCE(stat->held, seg->nr_seglets * LSMEM_SEGLET_BYTES);
	WRITE_ONCE(stat->home, seg->home);
	WRITE_ONCE(stat->entries, seg->entries);
	WRITE_ONCE(stat->flags, cleanable ? LSMEM_SEGMENT_CLEANABLE : 0);
}

/**
 * lsmem_segments_readable - segments that were unreadable may be whole on the backups of another daemon
 * @store: the store
 */
void lsmem_segments_readable(struct lsmem_store *store)
{
	u32 index;

	for (index = 0; index < store->segments.nr; index++) {
		struct lsmem_segment *seg = &store->segments.table[index];

		if (!READ_ONCE(seg->unreadable))
			continue;
		spin_lock(&store->segments.lock);
		lsmem_segment_unreadable(store, seg, false);
		lsmem_segment_show(seg);
		spin_unlock(&store->segments.lock);
	}
}

/**
 * lsmem_segment_leave - a compaction or pass leaves a segment in the log
 * @seg: COMPACTING or VICTIM, becomes CLOSED; segments.lock held
 */
void lsmem_segment_leave(struct lsmem_segment *seg)
{
	seg->state = LSMEM_SEGMENT_CLOSED;
	lsmem_segment_show(seg);
}

/**
 * lsmem_segment_done - a segment is durably closed
 * @seg: may be cleaned from now on (invariant 11); segments.lock held
 */
void lsmem_segment_done(struct lsmem_segment *seg)
{
	seg->close_acked = true;
	list_del_init(&seg->todo);
	lsmem_segment_show(seg);
}

/**
 * lsmem_segment_changed - the words of a segment are to be told, or told again (words.c)
 * @store: segments.lock held
 * @seg: what has changed of it can be seen; a cache segment is never told
 * @again: also what was told of it has changed
 */
void lsmem_segment_changed(struct lsmem_store *store, struct lsmem_segment *seg, bool again)
{
	lockdep_assert_held(&store->segments.lock);
	if (seg->index >= store->segments.nr)
		return;
	seg->told.again |= again;
	set_bit(seg->index, store->segments.changed);
}

/**
 * lsmem_segment_close - close a segment that has its final length
 * @store: the store; the head's lock held
 * @seg: was a head; all its entries are committed
 */
void lsmem_segment_close(struct lsmem_store *store, struct lsmem_segment *seg)
{
	spin_lock(&store->segments.lock);
	seg->home = seg->committed;
	seg->state = LSMEM_SEGMENT_CLOSED;
	lsmem_segment_changed(store, seg, false);
	if (!store->durable)
		lsmem_segment_done(seg);
	spin_unlock(&store->segments.lock);
}

/**
 * lsmem_log_oldest - the oldest segment that has, or had, entries
 * @store: segments.lock held
 * @except: segments to skip
 * @nr: how many
 *
 * Tombstones wait for these segments only: a segment that was empty when an object was
 * deleted never gets an older copy of it.
 * Return: the segment with the lowest id, or NULL.
 */
struct lsmem_segment *lsmem_log_oldest(struct lsmem_store *store,
				       struct lsmem_segment *const *except, u32 nr)
{
	struct lsmem_segment *seg;
	u32 i;

	lockdep_assert_held(&store->segments.lock);
	list_for_each_entry(seg, &store->segments.log, node) {
		if (!READ_ONCE(seg->reserved) && !seg->home)
			continue;
		for (i = 0; i < nr && except[i] != seg; i++)
			;
		if (i == nr)
			return seg;	/* the list is ordered by id */
	}
	return NULL;
}

/**
 * lsmem_segment_damaged - a header is not what was written
 * @store: the store
 * @seg: COMPACTING or VICTIM; it stays in the log for ever, and so do tombstones that wait for it
 * @offset: in it
 *
 * Context: the thread that compacts or cleans @seg; takes no lock.
 */
void lsmem_segment_damaged(const struct lsmem_store *store, struct lsmem_segment *seg, u32 offset)
{
	if (!seg->damaged)
		pr_err("%s: segment %llu is damaged at offset %u: it is left alone; free its objects, and check this machine's memory\n",
		       store->name, seg->id, offset);
	WRITE_ONCE(seg->damaged, true);	/* read under segments.lock, which is not held here */
}

/**
 * lsmem_segment_of - the segment that holds a position
 * @store: the store
 * @position: of a live entry, read under the same rcu_read_lock()
 */
struct lsmem_segment *lsmem_segment_of(struct lsmem_store *store, u64 position)
{
	u32 index = READ_ONCE(store->seglets.owner[position >> LSMEM_POSITION_OFFSET_BITS]);

	return &store->segments.table[index];
}

/**
 * lsmem_segment_position - the position of an entry, as a handle word has it
 * @seg: has a seglet at @offset
 * @offset: of the entry
 */
u64 lsmem_segment_position(const struct lsmem_segment *seg, u32 offset)
{
	u64 seglet = seg->seglets[offset / LSMEM_SEGLET_BYTES];

	return seglet << LSMEM_POSITION_OFFSET_BITS |
	       offset % LSMEM_SEGLET_BYTES / LSMEM_ALIGN;
}

/**
 * lsmem_segment_at - the address of a byte of a segment
 * @store: the store
 * @seg: has a seglet at @offset
 * @offset: of the byte
 * Return: kernel address, valid to the end of the seglet.
 */
void *lsmem_segment_at(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset)
{
	return lsmem_seglet_address(&store->seglets, seg->seglets[offset / LSMEM_SEGLET_BYTES]) +
	       offset % LSMEM_SEGLET_BYTES;
}

/**
 * lsmem_segment_write - copy kernel bytes into a segment, across seglets
 * @store: the store
 * @seg: has seglets up to @offset + @length
 * @offset: where
 * @from: bytes, NULL for zeroes
 * @length: how many
 */
void lsmem_segment_write(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset,
			 const void *from, u32 length)
{
	while (length) {
		u32 piece = min(length, LSMEM_SEGLET_BYTES - offset % LSMEM_SEGLET_BYTES);
		void *to = lsmem_segment_at(store, seg, offset);

		if (from) {
			memcpy(to, from, piece);
			from += piece;
		} else {
			memset(to, 0, piece);
		}
		offset += piece;
		length -= piece;
	}
}
