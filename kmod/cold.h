/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tier: a store whose capacity is larger than its memory.  See cold.c, which counts what is not in
 * memory.  entry.c tells it what dies; evict.c, cache.c, fetch.c, clean.c and load.c what comes and goes.
 */
#ifndef LSMEM_COLD_H
#define LSMEM_COLD_H

#include <linux/bitops.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu_counter.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "../uapi/lsmem.h"
#include "../uapi/lsmem_format.h"
#include "segment.h"

struct lsmem_store;

/* No user sees it: the object is COLD; lsmem_fetch() brings it. */
#define LSMEM_ECOLD		ERECALLCONFLICT

#define LSMEM_EVICT_PLANNED	16u	/* segments that one scan finds */
/*
 * Behind an entry of a cache segment, LSMEM_TRAILER_BYTES: where it came from.  The index of its segment of the log, and in the
 * upper half where the entry begins there, in its block.
 */
#define LSMEM_INSIDE_UNKNOWN	LSMEM_BLOCK	/* where an entry begins in its block on backups */

/**
 * struct lsmem_warm - what is still to be read after a restart; only the cleaner's thread changes it
 * @indices: of segments: @left of them, the one to be read first last, then @failed; NULL: none
 * @left: segments that are still to be read
 * @failed: segments that no backup has whole; another daemon's may
 * @before: the first id of segments that were written since
 * @next: when the next one may be verified if readers wait, ktime in ns
 * @fill: what is read is put into memory
 * @verify: read segments also when memory has no room for them
 * @again: not 0: another daemon has attached, or brings nothing more: read @failed again; any thread sets it
 * @brought: the daemon brings objects itself (LSMEM_REPL_BRING): read no segments; any thread sets it
 */
struct lsmem_warm {
	u32 *indices;
	u32 left;
	u32 failed;
	u64 before;
	u64 next;
	bool fill;
	bool verify;
	atomic_t again;
	bool brought;
};

/**
 * struct lsmem_tier - what a tiered store has beyond others
 * @on: the store is tiered; constant
 * @whole: it has no capacity of its own: it was made for instant restarts, and admits what memory holds;
 *	constant
 * @fits: bytes of live entries up to which memory holds them all, easily; constant
 * @touched: a bit for each index: it was read since eviction last swept it.  Clients write to it: a
 *	hint
 * @touched_bytes: of @touched
 * @cold: bytes of live entries that are not in the memory of their segment
 * @cached: bytes of live entries in cache segments, with trailers
 * @plan: indices of the segments to evict from next, the last one first; plan.mutex, as @planned
 * @planned: entries of @plan
 * @free: cache segments that are FREE; segments.lock, as @nr_free
 * @nr_free: entries of @free
 * @fill: held while bytes from backups are put into cache segments
 * @open: the cache segment that is filled, or NULL; under @fill, as @serial
 * @serial: cache segments that have been opened
 * @warm: what is still to be read after a restart
 * @evicting: held to make a LIVE word COLD, and by a group (group.c), whose objects stay for so long
 * @newest: of a block store, no COLD block has a higher version, unless it was placed (load.c)
 */
struct lsmem_tier {
	bool on;
	bool whole;
	u64 fits;
	unsigned long *touched;
	size_t touched_bytes;
	struct percpu_counter cold;
	struct percpu_counter cached;
	u32 plan[LSMEM_EVICT_PLANNED];
	u32 planned;
	struct list_head free;
	u32 nr_free;
	struct mutex fill;
	struct lsmem_segment *open;
	u64 serial;
	struct lsmem_warm warm;
	rwlock_t evicting;
	atomic64_t newest;
};

static inline u32 lsmem_cold_segment(u64 word)
{
	return (word & ((1ull << LSMEM_POSITION_BITS) - 1)) >> LSMEM_COLD_SEGMENT_SHIFT;
}

static inline u32 lsmem_cold_block(u64 word)
{
	return word >> LSMEM_COLD_BLOCK_SHIFT & ((1u << LSMEM_COLD_BLOCK_BITS) - 1);
}

/* Has the store a segment with this index that is none of the log? */
static inline bool lsmem_segment_is_cache(const struct lsmem_segments *segments, u32 index)
{
	return index >= segments->nr;
}

/* An object or a block is read. */
static inline void lsmem_touch(const struct lsmem_tier *tier, u64 index)
{
	if (tier->on && !test_bit(index, tier->touched))
		set_bit(index, tier->touched);
}

u64 lsmem_cold_place(u32 segment, u32 block, u32 inside, u32 size);
int lsmem_tier_init(struct lsmem_store *store);
void lsmem_tier_destroy(struct lsmem_store *store);
u64 lsmem_resident_bytes(struct lsmem_store *store);
bool lsmem_tier_over(struct lsmem_store *store);
void lsmem_cold_add(struct lsmem_store *store, struct lsmem_segment *seg, s32 bytes);
void lsmem_cold_dead(struct lsmem_store *store, u64 word, u32 size);
void lsmem_cold_version(struct lsmem_store *store, u64 version);
u64 lsmem_cached_trailer(u32 origin, u32 inside);
struct lsmem_segment *lsmem_cached_origin(struct lsmem_store *store, u64 position, u32 size, u32 *inside);
void lsmem_cached_add(struct lsmem_store *store, struct lsmem_segment *cache, s32 bytes);
void lsmem_cached_dead(struct lsmem_store *store, u64 position, u32 size);
void lsmem_tier_forget(struct lsmem_store *store);

#endif
