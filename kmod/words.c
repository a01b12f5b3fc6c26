// SPDX-License-Identifier: GPL-2.0
/*
 * Words: which entries are live, and where, told by segments to the source's daemon while clients change them.
 * Documentation/migration.rst, What is sent ahead.
 *
 * A call takes a segment that has changed, lists what is live in its memory, and remembers how far it was told
 * (struct lsmem_told).  A listing may be wrong a moment later.  What has to be told again follows from where a change is:
 *
 *	an append	alloc, replace, free, and what the cleaner moves: it lies behind what was told of its segment.  A
 *			segment that is open has grown if its committed prefix is longer than that; when it is closed, its
 *			bit in segments.changed is set
 *	compaction, eviction	what was told is not where it was: the segment's bit is set, and told.again
 *
 * The segment that has the older version is not told again: of two listings of an index the one with the higher
 * generation counts, then the higher version, then the later one.  Neither fetching nor what happens to cache segments
 * changes a listing: an object that is not in the memory of its segment is told as cold, wherever it is.  Its place in a cache
 * segment (LSMEM_WORDS_CACHED) is a hint, as of the moment when it is told.
 *
 * Why nothing is missing: let the log be still (LSMEM_REPL_FREEZE says frozen), all RETIRE be acknowledged, and no
 * segment be left to tell.
 *
 * (1) A live object lies in a segment S that is closed, has no bit, and was told to its end.  The bit is cleared under
 * segments.lock before the words are read, and set under it after they have been changed: so if it is not set, the
 * words were read as they are now.  A word that pointed elsewhere then points to S now by an append to S, whose entry is
 * committed after the exchange (log.c), and so was not told, or by a move within S, which sets the bit.
 *
 * (2) It is the listing that counts.  Calls are made one after the other, and read a word once for a listing: so
 * listings of one version of an object are told in the order of its moves.
 *
 * (3) An object that is told and not live has a tombstone with a higher version, which is told as (1) says; or
 * the tombstone was dropped, because all segments with ids below its barrier are retired (invariant 13), and with them
 * each that had the object: the daemon has been told RETIRE, and their listings do not count.
 *
 * No word says which copy of a tombstone counts, when the cleaner has moved it.  So a victim is not told: what is live of
 * it comes to be in other segments, or it leaves the pass; its bit stays until then.  A listing that was begun before is
 * told before that of the survivors, which grow after the segment has become a victim.
 *
 * Seglets that a listing reads may be vacated meanwhile, and be given out again.  So a batch looks at the segment
 * before, and once more behind, under segments.lock, under which seglets are vacated: what was read in between is dropped
 * if they were.
 *
 * After a compaction the place of an entry at home is known by its block: listings have the first one in it that the
 * entries before leave.  That is not behind its own: they are not further behind than their own either.
 *
 * Locks: attachment->mutex; segments.lock, and head->lock, for a look.
 */
#include <linux/bitmap.h>
#include <linux/nospec.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "cold.h"
#include "entry.h"
#include "handle.h"
#include "store.h"
#include "words.h"

#define LSMEM_WORDS_STEPS	1024u	/* entries passed in a batch */

/* ---- Which segment ------------------------------------------------------ */

/* Begin to tell a segment, or go on.  Returns false if there is nothing to tell of it, or not now. */
static bool lsmem_words_take(struct lsmem_store *store, struct lsmem_segment *seg, u64 *id)
{
	bool taken;

	spin_lock(&store->segments.lock);
	taken = seg->state >= LSMEM_SEGMENT_HEAD && seg->state < LSMEM_SEGMENT_VICTIM;
	if (seg->state != LSMEM_SEGMENT_VICTIM)
		clear_bit(seg->index, store->segments.changed);
	if (taken && (seg->told.again || seg->told.round != store->repl.round))
		seg->told = (struct lsmem_told){ .round = store->repl.round };
	*id = seg->id;
	spin_unlock(&store->segments.lock);
	return taken;
}

/* The segment of a head, if it has grown, or NULL. */
static struct lsmem_segment *lsmem_words_grown(struct lsmem_store *store, struct lsmem_head *head)
{
	struct lsmem_segment *seg;

	spin_lock(&head->lock);
	seg = head->segment;
	if (seg && seg->committed <= (seg->told.round == store->repl.round ? seg->told.end : 0))
		seg = NULL;
	spin_unlock(&head->lock);
	return seg;
}

/* The next segment to tell, or NULL.  Those that are closed come first: open ones may always have grown. */
static struct lsmem_segment *lsmem_words_choose(struct lsmem_store *store, struct lsmem_telling *t, u64 *id)
{
	const unsigned long *changed = store->segments.changed;
	u32 nr = store->segments.nr, from = t->cursor, i, turn;
	struct lsmem_segment *seg;

	for (turn = 0; turn < 2; turn++, from = 0) {
		for (i = from;; i++) {
			/* Of a bit that is set meanwhile: it is seen, or by the next call. */
			i = data_race(find_next_bit(changed, nr, i));
			if (i >= nr)
				break;
			if (lsmem_words_take(store, &store->segments.table[i], id))
				return &store->segments.table[i];
			cond_resched();
		}
	}
	for (i = 0; i < store->heads.nr; i++) {
		seg = lsmem_words_grown(store, &store->heads.table[i]);
		if (seg && lsmem_words_take(store, seg, id))
			return seg;
	}
	return NULL;
}

/* ---- What is live in it --------------------------------------------------- */

/* What a batch begins with. */
struct lsmem_words_look {
	struct lsmem_told told;
	u64 oldest;	/* tombstones with a higher barrier are live */
	u32 entries;	/* objects and tombstones in all, if the segment is closed */
	bool closed;
};

/* Look at the segment.  Returns false if it is not to be told any more. */
static bool lsmem_words_look(struct lsmem_store *store, struct lsmem_telling *t, struct lsmem_segment *seg,
			     struct lsmem_words *words, struct lsmem_words_look *look)
{
	const struct lsmem_segment *oldest;
	bool go;

	spin_lock(&store->segments.lock);
	go = seg->id == words->segment && seg->state != LSMEM_SEGMENT_VICTIM && !seg->told.again;
	if (seg->id == words->segment && seg->state == LSMEM_SEGMENT_VICTIM)
		lsmem_segment_changed(store, seg, false);	/* if it leaves its pass */
	if (go) {
		/* Pairs with lsmem_head_advance(): what lies below is whole, and its words were exchanged before. */
		t->view.committed = smp_load_acquire(&seg->committed);
		t->view.nr_seglets = DIV_ROUND_UP(t->view.committed, LSMEM_SEGLET_BYTES);
		memcpy(t->view.seglets, seg->seglets, t->view.nr_seglets * sizeof(*seg->seglets));
		t->view.index = seg->index;
		oldest = lsmem_log_oldest(store, NULL, 0);
		*look = (struct lsmem_words_look){
			.told = seg->told,
			.oldest = oldest ? oldest->id : ~0ull,
			.closed = seg->state != LSMEM_SEGMENT_HEAD,
		};
		if (look->closed)
			look->entries = lsmem_segment_entries(seg);
		words->generation = seg->generation;
		words->end = look->closed ? seg->home : t->view.committed;
		words->cold = atomic_read(seg->cold);
		if (READ_ONCE(seg->damaged))
			words->state |= LSMEM_WORDS_DAMAGED;
	}
	spin_unlock(&store->segments.lock);
	return go;
}

/* Is the entry live, and where? */
static bool lsmem_words_live(struct lsmem_store *store, const struct lsmem_telling *t,
			     const struct lsmem_words_look *look, u32 offset, const struct lsmem_entry *e, u64 *place)
{
	u64 index = lsmem_handle_index(lsmem_entry_handle(e)), word;

	if (lsmem_entry_type(e) == LSMEM_TYPE_TOMBSTONE) {
		*place = lsmem_entry_value(e);
		return *place > look->oldest;
	}
	if (lsmem_entry_type(e) != LSMEM_TYPE_OBJECT || index >= store->handles.nr)
		return false;
	*place = lsmem_segment_position(&t->view, offset);
	word = READ_ONCE(lsmem_handle_at(&store->handles, index)->word);
	return lsmem_word_state(word) == LSMEM_WORD_LIVE && lsmem_word_position(word) == *place;
}

/*
 * List the next entries that are live, at most @room.  Returns how many, or -EBADMSG: there is no entry, or it is none of
 * its home.  At the end look->told.end is what is committed.
 */
static int lsmem_words_list(struct lsmem_store *store, struct lsmem_telling *t, struct lsmem_words_look *look,
			    u32 room)
{
	struct lsmem_told *told = &look->told;
	struct lsmem_directory_entry listing;
	u32 nr = 0, steps, at, home;
	struct lsmem_entry e;
	u64 place;

	for (steps = 0; steps < LSMEM_WORDS_STEPS && nr < room && told->end < t->view.committed; steps++) {
		at = lsmem_entry_start(told->end);
		if (at >= t->view.committed || !lsmem_entry_fetch(store, &t->view, at, &e))
			return -EBADMSG;
		told->end = at + lsmem_entry_bytes(&e);
		told->entries += lsmem_entry_type(&e) == LSMEM_TYPE_OBJECT ||
				 lsmem_entry_type(&e) == LSMEM_TYPE_TOMBSTONE;
		if (!lsmem_words_live(store, t, look, at, &e, &place))
			continue;
		home = lsmem_entry_start(max_t(u32, lsmem_entry_home(&e) * LSMEM_BLOCK, told->home));
		if (lsmem_entry_home(&e) != home / LSMEM_BLOCK)
			return -EBADMSG;
		told->home = home + lsmem_entry_bytes(&e);
		listing = lsmem_entry_listing(&e, home);
		t->batch[nr++] = (struct lsmem_listing){ listing.key, listing.version, listing.meta,
							 cpu_to_le64(place) };
	}
	if (look->closed && told->end == t->view.committed && told->entries != look->entries)
		return -EBADMSG;
	return nr;
}

/* ---- One segment -------------------------------------------------------- */

/*
 * The batch is read: remember how far the segment was told.  @more: there is no room for the rest.  Returns false if what
 * was read may be wrong; then it is told another time.
 */
static bool lsmem_words_settle(struct lsmem_store *store, struct lsmem_segment *seg, struct lsmem_words *words,
			       const struct lsmem_told *told, bool more)
{
	bool settled;

	spin_lock(&store->segments.lock);
	/* One that has become a victim since keeps its seglets until it has another id. */
	settled = seg->id == words->segment && !seg->told.again;
	if (settled)
		seg->told = *told;
	if (settled && more)
		lsmem_segment_changed(store, seg, false);
	spin_unlock(&store->segments.lock);
	return settled;
}

/* The caller does not know what it was told. */
static void lsmem_words_lost(struct lsmem_store *store, struct lsmem_segment *seg, const struct lsmem_words *words)
{
	spin_lock(&store->segments.lock);
	if (seg->id == words->segment)
		lsmem_segment_changed(store, seg, true);
	spin_unlock(&store->segments.lock);
}

/* Tell some of a segment; at most @room in all.  Returns 1 to go on, 0 at the end, or a negative errno. */
static int lsmem_words_some(struct lsmem_store *store, struct lsmem_telling *t, struct lsmem_segment *seg,
			    struct lsmem_words *words, u32 room)
{
	struct lsmem_listing __user *user = (struct lsmem_listing __user *)u64_to_user_ptr(words->listings) + words->nr;
	struct lsmem_words_look look;
	bool damaged, more, killed;
	int nr;

	if (!lsmem_words_look(store, t, seg, words, &look))
		return 0;
	nr = lsmem_words_list(store, t, &look, min(room - words->nr, LSMEM_WORDS_BATCH));
	damaged = nr < 0;
	if (damaged) {		/* the rest is not told: it would not end elsewhere another time */
		look.told.end = t->view.committed;
		nr = 0;
	}
	more = look.told.end < t->view.committed;
	if (!lsmem_words_settle(store, seg, words, &look.told, more && words->nr + nr == room))
		return 0;
	killed = fatal_signal_pending(current);
	if (killed || (nr && copy_to_user(user, t->batch, nr * sizeof(*t->batch)))) {
		lsmem_words_lost(store, seg, words);
		return killed ? -EINTR : -EFAULT;
	}
	words->nr += nr;
	if (damaged)
		words->state |= LSMEM_WORDS_DAMAGED;
	if (more && words->nr == room)
		words->state |= LSMEM_WORDS_MORE;
	cond_resched();
	return more && words->nr < room;
}

static long lsmem_words_next(struct lsmem_store *store, struct lsmem_telling *t, struct lsmem_words *words)
{
	u32 room = words->nr;
	struct lsmem_segment *seg;
	int ret = 0;

	words->nr = 0;
	do {
		seg = lsmem_words_choose(store, t, &words->segment);
		if (!seg) {
			words->segment = 0;
			break;
		}
		do
			ret = lsmem_words_some(store, t, seg, words, room);
		while (ret > 0);
		t->cursor = seg->index + !(words->state & LSMEM_WORDS_MORE);
	} while (!ret && !words->generation);	/* it has become a victim before it was looked at */
	/* A hint: bits may change meanwhile. */
	words->left = data_race(bitmap_weight(store->segments.changed, store->segments.nr));
	return ret;
}

/* ---- What is in a directory --------------------------------------------- */

/*
 * The place of an object that lies in a cache segment.  This may be emptied meanwhile, and become another one: then the number is
 * wrong, and the CRC of what lies there another.
 */
static u64 lsmem_words_cached(u64 position, const struct lsmem_segment *cache)
{
	u64 number = READ_ONCE(cache->id) - LSMEM_SEGMENT_ID_END;

	return number >> LSMEM_PLACE_CACHE_BITS ? LSMEM_PLACE_COLD : position | number << LSMEM_PLACE_CACHE_SHIFT;
}

/*
 * Where the object of a listing is; under rcu_read_lock().  A COLD word names a block: of several versions of the object
 * that begin there, each is said to be cold, and the newest is meant.
 */
static u64 lsmem_words_place(struct lsmem_store *store, const struct lsmem_listing *listing,
			     const struct lsmem_segment *seg, bool cached)
{
	u64 meta = le64_to_cpu(listing->meta), index = lsmem_handle_index(le64_to_cpu(listing->key)), word;
	const struct lsmem_segment *owner;
	const struct lsmem_entry *e;

	if (LSMEM_LISTING_GET(meta, TYPE) != LSMEM_TYPE_OBJECT || index >= store->handles.nr)
		return LSMEM_PLACE_NONE;
	/* Pairs with the exchange that made it live: its entry is whole. */
	word = smp_load_acquire(&lsmem_handle_at(&store->handles, index)->word);
	if (lsmem_word_state(word) == LSMEM_WORD_COLD)
		return lsmem_cold_segment(word) == seg->index &&
		       lsmem_cold_block(word) == LSMEM_LISTING_GET(meta, HOME) * LSMEM_ALIGN / LSMEM_BLOCK ?
		       LSMEM_PLACE_COLD : LSMEM_PLACE_NONE;
	if (lsmem_word_state(word) != LSMEM_WORD_LIVE)
		return LSMEM_PLACE_NONE;
	e = lsmem_word_entry(&store->seglets, word);
	if (lsmem_entry_handle(e) != le64_to_cpu(listing->key) ||
	    lsmem_entry_version(e) != le64_to_cpu(listing->version))
		return LSMEM_PLACE_NONE;
	owner = lsmem_segment_of(store, lsmem_word_position(word));
	if (owner == seg)
		return lsmem_word_position(word);
	if (!lsmem_segment_is_cache(&store->segments, owner->index) ||
	    lsmem_cached_origin(store, lsmem_word_position(word), lsmem_entry_bytes(e), NULL) != seg)
		return LSMEM_PLACE_NONE;
	return cached ? lsmem_words_cached(lsmem_word_position(word), owner) : LSMEM_PLACE_COLD;
}

static struct lsmem_segment *lsmem_words_find(struct lsmem_store *store, struct lsmem_words *words)
{
	struct lsmem_segment *seg;

	spin_lock(&store->segments.lock);
	seg = lsmem_segment_find(store, words->segment);
	if (seg) {
		words->generation = seg->generation;
		words->end = seg->state == LSMEM_SEGMENT_HEAD ? READ_ONCE(seg->committed) : seg->home;
		words->cold = atomic_read(seg->cold);
	}
	spin_unlock(&store->segments.lock);
	return seg;
}

static long lsmem_words_places(struct lsmem_store *store, struct lsmem_telling *t, struct lsmem_words *words)
{
	struct lsmem_listing __user *user = u64_to_user_ptr(words->listings);
	u32 nr = array_index_nospec(words->nr, LSMEM_WORDS_BATCH + 1), i;
	bool cached = words->flags & LSMEM_WORDS_CACHED;
	struct lsmem_segment *seg;
	bool stays;

	if (copy_from_user(t->batch, user, nr * sizeof(*t->batch)))
		return -EFAULT;
	rcu_read_lock();
	seg = lsmem_words_find(store, words);
	for (i = 0; seg && i < nr; i++)
		t->batch[i].place = cpu_to_le64(lsmem_words_place(store, &t->batch[i], seg, cached));
	/* Its entry in the table may be that of another one by now. */
	stays = seg && lsmem_words_find(store, words) == seg;
	rcu_read_unlock();
	if (!stays)
		return -ENOENT;
	return copy_to_user(user, t->batch, nr * sizeof(*t->batch)) ? -EFAULT : 0;
}

/* ---- The call ----------------------------------------------------------- */

/* All segments are to be told from their beginnings. */
static void lsmem_words_begin(struct lsmem_store *store)
{
	u32 i;

	store->repl.round++;
	/* Bits are cleared under attachment->mutex alone, and those that are set meanwhile stay. */
	for (i = 0; i < BITS_TO_LONGS(store->segments.nr); i++) {
		WRITE_ONCE(store->segments.changed[i], ~0ul);
		if (i % LSMEM_WORDS_STEPS == 0)
			cond_resched();
	}
}

/**
 * lsmem_words - LSMEM_REPL_WORDS
 * @store: attached
 * @t: of the daemon
 * @words: see there
 *
 * Context: attachment->mutex held; sleeps.  Return: 0 or an error as there.
 */
long lsmem_words(struct lsmem_store *store, struct lsmem_telling *t, struct lsmem_words *words)
{
	bool places = words->flags & LSMEM_WORDS_PLACES;

	if (words->flags & ~(places ? LSMEM_WORDS_PLACES | LSMEM_WORDS_CACHED : LSMEM_WORDS_BEGIN) || !words->nr ||
	    !words->segment == places || (places && words->nr > LSMEM_WORDS_PLACES_MAX) ||
	    words->generation || words->end || words->cold || words->state || words->left || words->reserved)
		return -EINVAL;
	if (!lsmem_store_active(store))
		return -EAGAIN;
	if (places)
		return lsmem_words_places(store, t, words);
	if (words->flags & LSMEM_WORDS_BEGIN)
		lsmem_words_begin(store);
	return lsmem_words_next(store, t, words);
}
