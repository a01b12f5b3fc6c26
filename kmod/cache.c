// SPDX-License-Identifier: GPL-2.0
/*
 * Cache segments: memory for what was fetched from backups.
 *
 * They are behind the segments of the log in the table, and in none of its lists: they have no frame,
 * and the daemon does not see them.  Each entry is as in the log, with its home, and is followed by the
 * index of the segment of the log that has it, and where in its block it begins there.  Its CRC is for the cache segment, so that a move
 * verifies it like any other.  One segment is filled at a time; the others are compacted and evicted
 * like segments of the log.  One that has no seglets is free.
 *
 * Locks: tier.fill for the segment that is filled; segments.lock for states and the list.
 */
#include "cache.h"
#include "entry.h"
#include "handle.h"
#include "store.h"

#define LSMEM_CACHE_FREE_LOW	2	/* fewer are free: whole ones must be emptied */

static struct lsmem_segment *lsmem_cache_open(struct lsmem_store *store)
{
	struct lsmem_segment *cache;

	spin_lock(&store->segments.lock);
	cache = list_first_entry_or_null(&store->tier.free, struct lsmem_segment, node);
	if (cache) {
		list_del_init(&cache->node);
		WRITE_ONCE(store->tier.nr_free, store->tier.nr_free - 1);
		lsmem_segment_begin(store, cache, LSMEM_SEGMENT_ID_END + ++store->tier.serial, 1);
		cache->state = LSMEM_SEGMENT_HEAD;
		lsmem_segment_show(cache);
	}
	spin_unlock(&store->segments.lock);
	return cache;
}

/* It can be compacted, and evicted, from now on. */
static void lsmem_cache_close(struct lsmem_store *store)
{
	spin_lock(&store->segments.lock);
	store->tier.open->state = LSMEM_SEGMENT_CLOSED;
	store->tier.open->close_acked = true;
	lsmem_segment_show(store->tier.open);
	spin_unlock(&store->segments.lock);
	store->tier.open = NULL;
}

/* Make room for @bytes more. Returns false if there is no memory, or no segment. */
static bool lsmem_cache_reserve(struct lsmem_store *store, u32 bytes)
{
	struct lsmem_segment *cache = store->tier.open;

	if (cache && lsmem_entry_start(cache->reserved) + bytes > LSMEM_SEGMENT_BYTES) {
		lsmem_cache_close(store);
		cache = NULL;
	}
	if (!cache)
		store->tier.open = cache = lsmem_cache_open(store);
	return cache && !lsmem_segment_grow(store, cache, lsmem_entry_start(cache->reserved) + bytes,
					    LSMEM_TAKER_WRITER);
}

/*
 * Copy an entry into memory, for the cache segment that is filled.  @origin: index of the segment of the
 * log that has it; @inside: where in its block; @position: out: for the word; it is counted as live there.  Returns 0 or
 * -EAGAIN.
 */
static int lsmem_cache_put(struct lsmem_store *store, const struct lsmem_entry *e, const void *payload, u32 pcrc,
			   u32 origin, u32 inside, u64 *position)
{
	u32 size = lsmem_entry_bytes(e), header = lsmem_entry_header(e), at;
	u32 length = lsmem_entry_length(e);
	const u64 trailer = lsmem_cached_trailer(origin, inside);
	struct lsmem_append ap;

	if (!lsmem_cache_reserve(store, size + LSMEM_TRAILER_BYTES))
		return -EAGAIN;
	ap = (struct lsmem_append){ .segment = store->tier.open };
	at = lsmem_entry_start(ap.segment->reserved);
	if (at > ap.segment->reserved)
		lsmem_segment_write(store, ap.segment, ap.segment->reserved, NULL,
				    at - ap.segment->reserved);
	ap.offset = at;
	lsmem_segment_write(store, ap.segment, at + header, payload, length);
	lsmem_segment_write(store, ap.segment, at + header + length, NULL, lsmem_align(length) - length);
	lsmem_segment_write(store, ap.segment, at + size, &trailer, sizeof(trailer));
	lsmem_entry_stamp(store, &ap, *e, pcrc);
	ap.segment->reserved = at + size + LSMEM_TRAILER_BYTES;
	ap.segment->entries++;
	/* Pairs with lsmem_segment_show() when it is closed: nothing reads it before. */
	WRITE_ONCE(ap.segment->committed, ap.segment->reserved);
	lsmem_cached_add(store, ap.segment, size + LSMEM_TRAILER_BYTES);
	*position = lsmem_segment_position(ap.segment, at);
	return 0;
}

/**
 * lsmem_cache_install - put an object into memory, unless its word has changed
 * @store: tiered, active
 * @word: COLD, as it was when the bytes were found to be the object's
 * @e: header, as it is on a backup
 * @inside: where it begins there, in its block, bytes
 * @payload: of the entry
 * @pcrc: CRC of @payload: that with which the entry was found to be whole, so that it covers this copy, too
 *
 * A change that comes before wins: then the copy is dead at once.
 *
 * Context: tier.fill held; does not wait for memory.
 * Return: 0; -EAGAIN: there is no memory now.
 */
int lsmem_cache_install(struct lsmem_store *store, u64 word, const struct lsmem_entry *e, u32 inside,
			const void *payload, u32 pcrc)
{
	struct lsmem_handle *h = lsmem_handle_at(&store->handles,
						 lsmem_handle_index(lsmem_entry_handle(e)));
	u32 size = lsmem_entry_bytes(e);
	struct lsmem_entry copy;
	u64 position;
	int ret;

	lockdep_assert_held(&store->tier.fill);
	copy = lsmem_entry_make(LSMEM_TYPE_OBJECT, lsmem_entry_length(e), lsmem_entry_handle(e),
				lsmem_entry_version(e), lsmem_entry_interval(e), lsmem_entry_table(e),
				lsmem_entry_home(e) * LSMEM_BLOCK);
	ret = lsmem_cache_put(store, &copy, payload, pcrc, lsmem_cold_segment(word), inside, &position);
	if (ret)
		return ret;
	if (lsmem_word_exchange(&store->handles, h, word,
				lsmem_word_next(word, LSMEM_WORD_LIVE, position)))
		lsmem_count(store, fetched_bytes, size);
	else
		lsmem_cached_add(store, lsmem_segment_of(store, position),
				 -(s32)(size + LSMEM_TRAILER_BYTES));
	return 0;
}

/**
 * lsmem_cache_free - a cache segment has become empty
 * @store: tiered; segments.lock held
 * @cache: without seglets, owned by the caller
 */
void lsmem_cache_free(struct lsmem_store *store, struct lsmem_segment *cache)
{
	lockdep_assert_held(&store->segments.lock);
	cache->id = 0;
	cache->state = LSMEM_SEGMENT_FREE;
	lsmem_segment_show(cache);
	list_add_tail(&cache->node, &store->tier.free);
	WRITE_ONCE(store->tier.nr_free, store->tier.nr_free + 1);
}

/**
 * lsmem_cache_short - are few cache segments free?
 * @store: the store
 *
 * Then those that have little left must be emptied, so that what is fetched finds one.
 */
bool lsmem_cache_short(const struct lsmem_store *store)
{
	return store->tier.on && READ_ONCE(store->tier.nr_free) < LSMEM_CACHE_FREE_LOW;
}
