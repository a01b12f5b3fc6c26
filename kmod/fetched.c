// SPDX-License-Identifier: GPL-2.0
/*
 * A segment of the log, as it was fetched from a backup: which of its entries are live and not in the
 * memory of the segment.  The cleaner's thread alone fetches segments, into fetches.segment.
 *
 * No locks, except segments.lock for a segment that cannot be read.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include "cold.h"
#include "entry.h"
#include "fetch.h"
#include "fetched.h"
#include "handle.h"
#include "store.h"

/**
 * lsmem_fetched - have all of a segment in fetches.segment
 * @store: tiered, active
 * @seg: durably closed; stays in the log meanwhile
 *
 * Context: the cleaner's thread; as lsmem_fetch_segment().
 * Return: as lsmem_fetch_segment(); after -EIO the segment is left alone.
 */
int lsmem_fetched(struct lsmem_store *store, struct lsmem_segment *seg)
{
	int ret = lsmem_fetch_segment(store, seg);

	if (ret != -EIO)
		return ret;
	pr_err("%s: segment %llu is not whole on any backup: it is left alone until a daemon attaches; %u bytes of objects are not in memory\n",
	       store->name, seg->id, atomic_read(seg->cold));
	spin_lock(&store->segments.lock);
	lsmem_segment_unreadable(store, seg, true);
	if (seg->state == LSMEM_SEGMENT_CLOSED)
		lsmem_segment_show(seg);
	spin_unlock(&store->segments.lock);
	return ret;
}

/*
 * Is the entry at @at in a segment that was fetched the newest version of its object that begins in its
 * block?  @first: the first entry that begins there.
 */
static bool lsmem_fetched_newest(const void *data, u32 length, u32 first, u32 at,
				 const struct lsmem_entry *e)
{
	u32 end = min(length, round_down(at, LSMEM_BLOCK) + LSMEM_BLOCK), i = first;

	while (i < end) {
		const struct lsmem_entry *other = data + i;

		if (i != at && lsmem_entry_type(other) == LSMEM_TYPE_OBJECT &&
		    lsmem_entry_newer(other, e))
			return false;
		i = lsmem_entry_start(i + lsmem_entry_bytes(other));
	}
	return true;
}

/**
 * lsmem_fetched_word - the word of an entry that is live and not in the memory of its segment
 * @store: tiered, active
 * @seg: fetched
 * @at: of the entry
 * @first: the first entry that begins in the same block
 * @e: the entry
 *
 * Context: rcu_read_lock() held.
 * Return: the word, COLD or of an object in a cache segment; 0: the entry is not live, or in memory.
 */
u64 lsmem_fetched_word(struct lsmem_store *store, const struct lsmem_segment *seg, u32 at, u32 first,
		       const struct lsmem_entry *e)
{
	u64 index = lsmem_handle_index(lsmem_entry_handle(e)), word;
	const struct lsmem_entry *cached;
	u32 state;

	if (lsmem_entry_type(e) != LSMEM_TYPE_OBJECT || index >= store->handles.nr)
		return 0;
	/* Pairs with the exchange that made it live: a cached entry is whole. */
	word = smp_load_acquire(&lsmem_handle_at(&store->handles, index)->word);
	state = lsmem_word_state(word);
	if (state == LSMEM_WORD_COLD)
		return lsmem_cold_segment(word) == seg->index &&
		       lsmem_cold_block(word) == at / LSMEM_BLOCK &&
		       lsmem_fetched_newest(store->fetches.segment, seg->home, first, at, e) ? word : 0;
	if (state != LSMEM_WORD_LIVE ||
	    !lsmem_segment_is_cache(&store->segments, lsmem_segment_of(store, lsmem_word_position(word))->index))
		return 0;
	cached = lsmem_word_entry(&store->seglets, word);
	return lsmem_entry_handle(cached) == lsmem_entry_handle(e) &&
	       lsmem_entry_version(cached) == lsmem_entry_version(e) &&
	       lsmem_cached_origin(store, lsmem_word_position(word), lsmem_entry_bytes(e), NULL) == seg ?
	       word : 0;
}
