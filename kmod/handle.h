/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The handle table: stable names for entries that move.  See handle.c.  lsmem_word_exchange() is
 * where each change becomes visible; lsmem_handle_alloc() decides which handle is given out,
 * lsmem_handle_version() which version a change gets.  Callers: changes (object.c, span.c,
 * blockio.c), cleaners (clean.c, compact.c) and load.c.
 */
#ifndef LSMEM_HANDLE_H
#define LSMEM_HANDLE_H

#include <linux/nospec.h>
#include <linux/percpu_counter.h>

#include "indices.h"
#include "livemap.h"
#include "seglet.h"

struct lsmem_store;
struct lsmem_watches;

#define LSMEM_CUT_CHOOSING	U64_MAX
#define LSMEM_UNSETTLED_BITS	10	/* of lsmem_handles.unsettled */
#define LSMEM_EUNSETTLED	ENOTUNIQ	/* no user sees it: lsmem_word_unsettled() */

/**
 * struct lsmem_unsettled - where the last group lies that has changed objects of a hash value
 * @segment: id; 0: it is durable
 * @offset: its end
 *
 * Lock: tier.evicting, for writing; both are read without it.  They are of one group, or @offset is that of a later
 * one: then that lies behind it in the same segment, or this one is durable.
 */
struct lsmem_unsettled {
	u64 segment;
	u32 offset;
};

/**
 * struct lsmem_handles - the handle table of a store
 * @table: @nr words, mapped read-only into clients
 * @discarded: block stores: the version at which each block was discarded, 0: none
 * @nr: indices of objects, or blocks of a block store
 * @common: indices that lsmem_handle_alloc() gives out; those from here on are reserved
 * @map: indices that are taken (object stores)
 * @livemap: where the words point that are LIVE
 * @era: of versions
 * @cut: of the last snapshot that was cut: new versions are higher; LSMEM_CUT_CHOOSING while it is
 *	chosen; 0: none was
 * @colds: snapshots of a tiered store: objects that were COLD at their versions are not lost
 * @mark: of the versions that were ahead of the clock when they were taken, the highest
 * @floor: generations up to this one may have been given out before the recovery
 * @ceiling: the highest generation that may be given out; durable
 * @max: the highest generation that has been given out
 * @limit: the highest generation for one index, until it is computed again; see handle.c
 * @aside: indices that are used up or set aside
 * @used: indices that are in use
 * @unsettled: durable stores, from the first group of a client on: by a hash of indices
 * @watched: the tables of which changes are noted, or NULL: none (watch.c)
 * @held: of the objects that a group is about to change (group.c), a bit each: lsmem_hold_bit(); 0: none
 * @checked: the version of the last group that has checked objects, which still have a lower one
 *
 * No lock: words are exchanged as a whole; @era and @floor are set before the store is
 * active; only the attached daemon raises @ceiling.
 */
struct lsmem_handles {
	struct lsmem_handle *table;
	u64 *discarded;
	u64 nr;
	u64 common;
	struct lsmem_indices map;
	struct lsmem_livemap livemap;
	u32 era;
	u64 cut;
	u32 colds;
	atomic64_t mark;
	u32 floor;
	u32 ceiling;
	u32 max;
	u32 limit;
	atomic64_t aside;
	struct percpu_counter used;
	struct lsmem_unsettled *unsettled;
	struct lsmem_watches *watched;
	/* Read by each change, and written by groups: on a line of its own. */
	u64 held ____cacheline_aligned_in_smp;
	u64 checked;
};

/*
 * The entry of an index that comes from a user, or from memory that a daemon can write, and
 * that was checked against @nr.  A mispredicted check does not read beyond the table.
 */
static inline struct lsmem_handle *lsmem_handle_at(const struct lsmem_handles *handles, u64 index)
{
	return &handles->table[array_index_nospec(index, handles->nr)];
}

/* As lsmem_handle_at(), of a block store's second table. */
static inline u64 *lsmem_discarded_at(const struct lsmem_handles *handles, u64 index)
{
	return &handles->discarded[array_index_nospec(index, handles->nr)];
}

static inline u64 lsmem_word_position(u64 word)
{
	return word & ((1ull << LSMEM_POSITION_BITS) - 1);
}

static inline u32 lsmem_word_state(u64 word)
{
	return (word >> LSMEM_WORD_STATE_SHIFT) & ((1u << LSMEM_WORD_STATE_BITS) - 1);
}

/* The word that follows @old. The tag grows, so that A -> B -> A is noticed. */
static inline u64 lsmem_word_next(u64 old, u32 state, u64 position)
{
	u64 tag = (old >> LSMEM_WORD_TAG_SHIFT) + 1;

	return tag << LSMEM_WORD_TAG_SHIFT | (u64)state << LSMEM_WORD_STATE_SHIFT | position;
}

/* A word is about to be changed to @new. */
static inline void lsmem_word_begin(const struct lsmem_handles *handles, u64 new)
{
	if (lsmem_word_state(new) == LSMEM_WORD_LIVE)
		lsmem_livemap_set(&handles->livemap, lsmem_word_position(new));
}

/* A word is not, or no more, @old. */
static inline void lsmem_word_end(const struct lsmem_handles *handles, u64 old)
{
	if (lsmem_word_state(old) == LSMEM_WORD_LIVE)
		lsmem_livemap_clear(&handles->livemap, lsmem_word_position(old));
}

void lsmem_word_late(const struct lsmem_handles *handles, u64 index, u64 position);

/* The version of the last cut.  While one is chosen, wait: it takes a few instructions. */
static inline u64 lsmem_handles_cut(const struct lsmem_handles *handles)
{
	u64 cut = READ_ONCE(handles->cut);

	if (unlikely(cut == LSMEM_CUT_CHOOSING))
		cut = smp_cond_load_acquire(&handles->cut, VAL != LSMEM_CUT_CHOOSING);
	return cut;
}

/*
 * A change with this version, made by an exchange before, is about to clear the bit of the older entry, and not
 * before: a snapshot that is being cut at a lower version has that one.  So has one of a tiered store at whose
 * version the object was COLD, and that has not read it yet.
 */
static inline void lsmem_word_save(const struct lsmem_handles *handles, const struct lsmem_handle *h, u64 old,
				   u64 version)
{
	const struct lsmem_livemap_copy *saved = READ_ONCE(handles->livemap.saved);

	if (unlikely(READ_ONCE(handles->colds)))
		lsmem_word_late(handles, h - handles->table, lsmem_word_position(old));
	if (likely(!saved))
		return;
	smp_acquire__after_ctrl_dep();	/* a cut that is seen has begun to choose */
	if (version > lsmem_handles_cut(handles))
		lsmem_livemap_save(&handles->livemap, saved, lsmem_livemap_bit(lsmem_word_position(old)));
}

/* The exchange alone: the caller keeps the live bitmap, for several words together (span.c). */
static inline bool lsmem_word_swap(struct lsmem_handle *h, u64 old, u64 new)
{
	return cmpxchg(&h->word, old, new) == old;
}

/*
 * Change a word, unless it is not @old, with the same version of the object: it moves.  If @old is LIVE, the caller has loaded it under the same
 * rcu_read_lock(), or has claimed the segment that it points to.
 */
static inline bool lsmem_word_exchange(const struct lsmem_handles *handles, struct lsmem_handle *h,
				       u64 old, u64 new)
{
	bool done;

	lsmem_word_begin(handles, new);
	done = lsmem_word_swap(h, old, new);
	lsmem_word_end(handles, done ? old : new);
	return done;
}

/* The same, for a change of the object itself, whose version is @version. */
static inline bool lsmem_word_change(const struct lsmem_handles *handles, struct lsmem_handle *h, u64 old,
				     u64 new, u64 version)
{
	lsmem_word_begin(handles, new);
	if (!lsmem_word_swap(h, old, new)) {
		lsmem_word_end(handles, new);
		return false;
	}
	lsmem_word_save(handles, h, old, version);
	lsmem_word_end(handles, old);
	return true;
}

/*
 * The entry of a word moves from one position to another, unless it is no more there.  A word that was
 * exchanged for one with the same position (lsmem_group_hold()) is not changed: again.  The caller has claimed
 * the segment that it is moved from, so that nothing else comes to be there.
 */
static inline bool lsmem_word_move(const struct lsmem_handles *handles, struct lsmem_handle *h, u64 from,
				   u64 to)
{
	u64 word;

	do {
		word = READ_ONCE(h->word);
		if (lsmem_word_state(word) != LSMEM_WORD_LIVE || lsmem_word_position(word) != from)
			return false;
	} while (!lsmem_word_exchange(handles, h, word, lsmem_word_next(word, LSMEM_WORD_LIVE, to)));
	return true;
}

/* Fibonacci hashing, as lsmem_policy_turn(). */
static inline u32 lsmem_index_hash(u64 index, u32 bits)
{
	return index * 0x9e3779b97f4a7c15ull >> (64 - bits);
}

/* Objects share the bits of lsmem_handles.held. */
static inline u64 lsmem_hold_bit(u64 index)
{
	return 1ull << lsmem_index_hash(index, 6);
}

/*
 * Does a group hold the object?  Then it must not be changed: look again.  The caller has loaded its word
 * before, with acquire: if that is the word by which the group holds it, the bit is seen; if it is an older
 * one, the caller's exchange fails (tests/litmus/group-hold.litmus).  If the group has let go, its version is seen by
 * lsmem_version_after() (tests/litmus/group-checked.litmus).
 */
static inline bool lsmem_word_held(const struct lsmem_handles *handles, u64 index)
{
	/* Pairs with lsmem_group_let_go(). */
	return unlikely(smp_load_acquire(&handles->held) & lsmem_hold_bit(index));
}

/* The entry of lsmem_handles.unsettled of an index, or NULL. */
static inline struct lsmem_unsettled *lsmem_unsettled_at(const struct lsmem_handles *handles, u64 index)
{
	struct lsmem_unsettled *unsettled = READ_ONCE(handles->unsettled);

	return likely(!unsettled) ? NULL : &unsettled[lsmem_index_hash(index, LSMEM_UNSETTLED_BITS)];
}

/*
 * May a crash leave a change of this object, whose entry begins at @offset of @segment, but not the group that has
 * changed it before?  It cannot if that is durable, or lies before the entry in the same segment.  The caller has
 * loaded the word of the object before: if that is what the group has made, its place is seen.
 */
static inline bool lsmem_word_unsettled(const struct lsmem_handles *handles, u64 index, u64 segment,
					u32 offset)
{
	const struct lsmem_unsettled *unsettled = lsmem_unsettled_at(handles, index);
	u64 id;

	if (likely(!unsettled))
		return false;
	id = smp_load_acquire(&unsettled->segment);	/* pairs with lsmem_group_unsettle() */
	return unlikely(id) && (id != segment || offset < READ_ONCE(unsettled->offset));
}

/* Make a word LIVE that the caller owns and that is not. */
static inline void lsmem_word_publish(const struct lsmem_handles *handles, struct lsmem_handle *h,
				      u64 position)
{
	u64 new = lsmem_word_next(h->word, LSMEM_WORD_LIVE, position);

	lsmem_word_begin(handles, new);
	/* Pairs with lsmem_look() and with clients: the entry is whole. */
	smp_store_release(&h->word, new);
}

/* Change a word that no other task changes, and that needs no order: see load.c. */
static inline void lsmem_word_write(const struct lsmem_handles *handles, struct lsmem_handle *h, u64 new)
{
	u64 old = h->word;

	lsmem_word_begin(handles, new);
	WRITE_ONCE(h->word, new);
	lsmem_word_end(handles, old);
}

/* The last generation of an index whose word is FREE or BUSY (object stores). */
static inline u32 lsmem_word_generation(u64 word)
{
	return word & LSMEM_GENERATION_MAX;
}

int lsmem_handles_init(struct lsmem_store *store);
void lsmem_handles_destroy(struct lsmem_store *store);
int lsmem_handle_alloc(struct lsmem_store *store, u64 *handle);
int lsmem_handle_reserved(struct lsmem_store *store, u64 index, u64 *handle);
void lsmem_handle_free(struct lsmem_store *store, u64 handle);
int lsmem_handle_find(struct lsmem_store *store, u64 handle, struct lsmem_handle **found);
int lsmem_handles_count(const struct lsmem_store *store, u64 *objects);
int lsmem_handle_missing(const struct lsmem_store *store, u64 handle, u32 generation);
u64 lsmem_handle_version(struct lsmem_store *store, u64 last);
void lsmem_version_ahead(struct lsmem_handles *handles, u64 version);

/*
 * A version for a change: the one taken for it and others before, or what exceeds @last, and the group that may have
 * checked the object.
 */
static inline u64 lsmem_version_after(struct lsmem_handles *handles, u64 now, u64 last)
{
	last = max(last, READ_ONCE(handles->checked));
	if (likely(last < now))
		return now;
	lsmem_version_ahead(handles, last + 1);
	return last + 1;
}

/* The entry that a live word points to; valid under the rcu_read_lock() of the load. */
static inline struct lsmem_entry *lsmem_word_entry(const struct lsmem_seglets *seglets, u64 word)
{
	u64 position = lsmem_word_position(word);

	return lsmem_seglet_address(seglets, position >> LSMEM_POSITION_OFFSET_BITS) +
	       (position & ((1u << LSMEM_POSITION_OFFSET_BITS) - 1)) * LSMEM_ALIGN;
}

#endif
