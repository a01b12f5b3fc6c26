// SPDX-License-Identifier: GPL-2.0
/*
 * The tier: what is live, and not in the memory of its segment.
 *
 * The capacity of a tiered store is larger than its memory.  The bytes of an object whose word is COLD
 * are on the backups only, in a segment of the log that is durably closed.  A call that needs them has
 * them fetched (fetch.c) into a cache segment (cache.c), from where they are evicted again (evict.c).
 * Cache segments have memory and no place in the log: nothing of them is written to a backup, and
 * whatever is in them is also in a segment of the log, their origin.
 *
 * So a live object is counted in two places.  In the log: in @live of its segment if it lies in the
 * memory of that segment, else in @cold, whether it is COLD or has been fetched since.  And in @live
 * of a cache segment, if it lies there.  What is live in memory is, of the store,
 *
 *	live - cold + cached
 *
 * A thread that exchanges a word counts what the exchange has changed; the counter that grows is
 * changed before the exchange, so that none is ever below zero.
 *
 * Source of the idea of a tier of objects and not of pages: Badam and Pai, "SSDAlloc: Hybrid SSD/RAM
 * Memory Management Made Easy", NSDI 2011.
 *
 * No locks: the counters are atomic or per CPU.
 */
#include <linux/math.h>
#include <linux/vmalloc.h>

#include "cold.h"
#include "store.h"

#define LSMEM_COLD_BATCH	(64 << 10)	/* bytes by which the count of a CPU may be off */

/* Blocks of the largest object, however it lies. */
static_assert((4 + 3) << (31 / 4 - 1) >=
	      (LSMEM_OBJECT_MAX + LSMEM_LONG_BYTES + LSMEM_BLOCK - 1) / LSMEM_BLOCK + 1);
static_assert(LSMEM_POSITION_BITS - LSMEM_COLD_SEGMENT_SHIFT == 21);
static_assert(LSMEM_COLD_CLASS_BITS == LSMEM_COLD_BLOCK_SHIFT);
static_assert(1u << LSMEM_COLD_BLOCK_BITS == LSMEM_SEGMENT_BYTES / LSMEM_BLOCK);

/**
 * lsmem_cold_place - where an entry is on backups, as a COLD word has it
 * @segment: index of its segment
 * @block: of the segment's log on backups, in which the header begins
 * @inside: where in that block, bytes, or LSMEM_INSIDE_UNKNOWN
 * @size: of the entry, bytes
 *
 * If it is not known where it begins: an entry that is little longer than some blocks lies in one more most of the time, and
 * not in two: the others are read twice.
 */
u64 lsmem_cold_place(u32 segment, u32 block, u32 inside, u32 size)
{
	u32 blocks = inside < LSMEM_BLOCK ? DIV_ROUND_UP(inside + size, LSMEM_BLOCK) :
		     size / LSMEM_BLOCK + 1 + (size % LSMEM_BLOCK > LSMEM_BLOCK / 4);
	u32 class = 0;

	while (lsmem_cold_blocks(class) < blocks)
		class++;
	return (u64)segment << LSMEM_COLD_SEGMENT_SHIFT | block << LSMEM_COLD_BLOCK_SHIFT | class;
}

/**
 * lsmem_tier_init - make what a tiered store has beyond others
 * @store: tier.on is set, and it has handles
 * Return: 0 or -ENOMEM.
 */
int lsmem_tier_init(struct lsmem_store *store)
{
	int ret;

	mutex_init(&store->tier.fill);
	rwlock_init(&store->tier.evicting);
	if (!store->tier.on)
		return 0;
	ret = percpu_counter_init(&store->tier.cold, 0, GFP_KERNEL);
	if (!ret)
		ret = percpu_counter_init(&store->tier.cached, 0, GFP_KERNEL);
	if (ret)
		return ret;
	store->tier.touched_bytes = PAGE_ALIGN(BITS_TO_LONGS(store->handles.nr) * sizeof(long));
	store->tier.touched = lsmem_table_alloc(store->tier.touched_bytes, store->seglets.gfp);
	return store->tier.touched ? 0 : -ENOMEM;
}

/**
 * lsmem_tier_destroy - free what lsmem_tier_init() has taken
 * @store: initialised, in part or whole
 */
void lsmem_tier_destroy(struct lsmem_store *store)
{
	kvfree(store->tier.warm.indices);
	vfree(store->tier.touched);
	percpu_counter_destroy(&store->tier.cached);
	percpu_counter_destroy(&store->tier.cold);
}

/**
 * lsmem_resident_bytes - bytes of live entries in memory
 * @store: tiered
 * Return: bytes; a little off while other CPUs count.
 */
u64 lsmem_resident_bytes(struct lsmem_store *store)
{
	s64 bytes = percpu_counter_read(&store->live) - percpu_counter_read(&store->tier.cold) +
		    percpu_counter_read(&store->tier.cached);

	return max(bytes, 0ll);
}

/**
 * lsmem_tier_over - has the store more live data than memory holds?
 * @store: the store
 *
 * As long as it has not, all of it stays in memory, in which room is made as in a store that is not
 * tiered: by compaction and cleaning.  Memory holds all that a store without a capacity of its own admits,
 * but hardly while cache segments and garbage of the log are beside it: until all has come into memory, it
 * counts like any other.
 *
 * Return: false as well if it is not tiered.
 */
bool lsmem_tier_over(struct lsmem_store *store)
{
	if (!store->tier.on || percpu_counter_read_positive(&store->live) <= store->tier.fits)
		return false;
	return !store->tier.whole || percpu_counter_read(&store->tier.cold) -
	       percpu_counter_read(&store->tier.cached) > (s64)LSMEM_SEGMENT_BYTES;
}

/**
 * lsmem_cold_add - change the live bytes of a segment that are not in its memory
 * @store: tiered
 * @seg: in the log
 * @bytes: to add; negative to subtract
 */
void lsmem_cold_add(struct lsmem_store *store, struct lsmem_segment *seg, s32 bytes)
{
	atomic_add(bytes, seg->cold);
	percpu_counter_add_batch(&store->tier.cold, bytes, LSMEM_COLD_BATCH);
}

/**
 * lsmem_cold_dead - an entry that is on the backups only is replaced or deleted
 * @store: tiered
 * @word: COLD; loaded under the same rcu_read_lock()
 * @size: of the entry, bytes
 */
void lsmem_cold_dead(struct lsmem_store *store, u64 word, u32 size)
{
	lsmem_cold_add(store, &store->segments.table[lsmem_cold_segment(word)], -(s32)size);
}

/**
 * lsmem_cold_version - a block is about to become COLD
 * @store: tiered, block kind
 * @version: of its entry
 *
 * A block that is COLD is written and discarded without a look at its entry; the next version must
 * exceed that of the entry nevertheless, because a recovery takes the highest.  The clock alone does
 * not see to it: versions run ahead of it when a block is written more often than it ticks.  So a
 * bound is kept for all blocks that are COLD.  Of a block that was placed by a recovery, the era is
 * lower than that of any new version.
 *
 * Before the exchange: who sees the word COLD sees the bound.
 */
void lsmem_cold_version(struct lsmem_store *store, u64 version)
{
	s64 newest = atomic64_read(&store->tier.newest);

	while ((u64)newest < version &&
	       !atomic64_try_cmpxchg(&store->tier.newest, &newest, version))
		;
}

/**
 * lsmem_cached_add - change the live bytes of a cache segment
 * @store: tiered
 * @cache: the segment
 * @bytes: to add, trailers included; negative to subtract
 */
void lsmem_cached_add(struct lsmem_store *store, struct lsmem_segment *cache, s32 bytes)
{
	atomic_add(bytes, cache->live);
	percpu_counter_add_batch(&store->tier.cached, bytes, LSMEM_COLD_BATCH);
}

/**
 * lsmem_cached_trailer - what follows an entry of a cache segment
 * @origin: index of the segment of the log that has it
 * @inside: where it begins there, in its block, bytes, or LSMEM_INSIDE_UNKNOWN
 */
u64 lsmem_cached_trailer(u32 origin, u32 inside)
{
	return (u64)inside << 32 | origin;
}

/**
 * lsmem_cached_origin - the segment of the log that has what lies in a cache segment
 * @store: tiered
 * @position: of an entry in a cache segment, which is or was live under the same rcu_read_lock(), or
 *	whose segment the caller owns
 * @size: of the entry, bytes, without trailer
 * @inside: out, or NULL: where it begins there, in its block, bytes, or not below LSMEM_BLOCK
 */
struct lsmem_segment *lsmem_cached_origin(struct lsmem_store *store, u64 position, u32 size, u32 *inside)
{
	u32 seglet = position >> LSMEM_POSITION_OFFSET_BITS;
	u32 offset = (position & ((1u << LSMEM_POSITION_OFFSET_BITS) - 1)) * LSMEM_ALIGN + size;
	u64 trailer;

	for (; offset >= LSMEM_SEGLET_BYTES; offset -= LSMEM_SEGLET_BYTES)
		seglet = min(READ_ONCE(store->seglets.table[seglet].next), store->seglets.nr - 1);
	trailer = *(const u64 *)(lsmem_seglet_address(&store->seglets, seglet) + offset);
	if (inside)
		*inside = trailer >> 32;
	/* A process with a replication descriptor can write to seglets. */
	return &store->segments.table[min((u32)trailer, store->segments.nr - 1)];
}

/**
 * lsmem_cached_dead - an entry of a cache segment is replaced, deleted, or moved to the log
 * @store: tiered
 * @position: of the entry, loaded from its word under the same rcu_read_lock()
 * @size: of the entry, bytes, without trailer
 */
void lsmem_cached_dead(struct lsmem_store *store, u64 position, u32 size)
{
	lsmem_cold_add(store, lsmem_cached_origin(store, position, size, NULL), -(s32)size);
	lsmem_cached_add(store, lsmem_segment_of(store, position),
			 -(s32)(size + LSMEM_TRAILER_BYTES));
}

/**
 * lsmem_tier_forget - nothing is cold any more, because a recovery was given up
 * @store: RECOVERING; store->mutex held
 */
void lsmem_tier_forget(struct lsmem_store *store)
{
	if (!store->tier.on)
		return;
	percpu_counter_set(&store->tier.cold, 0);
	percpu_counter_set(&store->tier.cached, 0);
}
