/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Segments: the pieces of a log, and the table that finds them.  See segment.c.
 * lsmem_segment_take() decides whether a head gets a spare, lsmem_segment_grow() whether a segment
 * gets a seglet, lsmem_segment_show() whether a segment may be cleaned.  Callers: log.c for
 * appends, repl.c and load.c for the daemon, and what makes room (compact.c, retire.c, clean.c).
 */
#ifndef LSMEM_SEGMENT_H
#define LSMEM_SEGMENT_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/types.h>

#include "../uapi/lsmem.h"
#include "../uapi/lsmem_format.h"
#include "crc32c.h"
#include "seglet.h"

struct lsmem_store;

/*
 * A segment's life:
 *
 *	FREE -> OPENING -> SPARE -> HEAD -> CLOSED -> VICTIM -> FREE
 *					    |    ^
 *					    COMPACTING
 *
 * OPENING: the daemon is asked to list it.  SPARE: listed in a durable digest (in a
 * volatile store at once), ready to be a head.  CLOSED: final length, all committed.
 * COMPACTING: its live entries move to other seglets of the same segment.  VICTIM:
 * being cleaned, or waiting to be retired.
 */
enum lsmem_segment_state {
	LSMEM_SEGMENT_FREE,
	LSMEM_SEGMENT_OPENING,
	LSMEM_SEGMENT_SPARE,
	LSMEM_SEGMENT_HEAD,
	LSMEM_SEGMENT_CLOSED,
	LSMEM_SEGMENT_COMPACTING,
	LSMEM_SEGMENT_VICTIM,
};

/**
 * struct lsmem_told - what a migration's target has been told of a segment (words.c)
 * @end: bytes of the prefix of its memory
 * @entries: objects and tombstones in that, live or not
 * @home: where, at home, the last one ends that was told
 * @again: what was told has changed: all is to be told anew
 * @round: lsmem_repl.round of the above; of another one, nothing is told
 */
struct lsmem_told {
	u32 end;
	u32 entries;
	u32 home;
	bool again;
	u64 round;
};

/**
 * struct lsmem_segment - a segment of the log
 * @id: never used again; 0 when free
 * @generation: of its frame on the backup: how often that has been used
 * @salt: part of the CRCs of its entries
 * @state: enum lsmem_segment_state
 * @survivor: written by the cleaner
 * @final: its head has rolled over: @reserved and @rolled are constant
 * @open_emitted: the daemon has been told that it is opened
 * @open_acked: a durable digest lists it
 * @close_emitted: the daemon has been told that it is closed
 * @close_acked: its directory and footer are durable
 * @retire_emitted: the daemon has been told that its group retires
 * @retire_acked: a durable digest no longer lists it
 * @nr_seglets: how many of @seglets it has
 * @reserved: bytes reserved by appends; constant once @final
 * @committed: bytes of the prefix whose entries are whole; readers of the log see this.
 *	Compaction reduces both; @home, @emitted and @acked are offsets on the backup
 *	and stay
 * @emitted: bytes of the prefix told to the daemon; [@acked, @emitted) is leased: the
 *	daemon may be doing I/O from it
 * @acked: bytes of the prefix that the daemon has acknowledged as durable
 * @received: bytes of the prefix that each backup has, in memory at least
 *	(LSMEM_ACK_RECEIVED); counts if beyond @acked, and outlives the daemon that told it
 * @entries: directory entries (objects, tombstones) reserved
 * @packed: of them, those that the last compaction has kept; LSMEM_NOT_PACKED: none yet
 * @home: length on the backup, bytes
 * @told: what a migration's target knows
 * @barrier: highest barrier among its tombstones
 * @open_time: store time when it became a head: its age for the policy
 * @packed_time: store time of its last compaction, or @open_time
 * @rolled: heads.rolls when its head rolled over
 * @step: segments.steps when it became a head, or when eviction last swept it
 * @swept: eviction has swept it
 * @unreadable: no backup has all of it whole: what of it is in memory may be the last copy, and
 *	neither cleaner touches it until another daemon attaches
 * @node: in segments.log, or in segments.free while FREE
 * @todo: in segments.todo
 * @spare: in segments.spares, while SPARE
 * @damaged: a header in it is not what was written; neither cleaner touches it.  Set once, without
 *	a lock, by the segment's owner; other threads read it with READ_ONCE()
 * @hash: in segments.hash, unless FREE
 * @seglets: its memory, in order
 * @index: its place in the tables; this and the following members are constant
 * @stat: what the daemon sees of it
 * @live: in @stat: bytes of entries that count, headers included
 * @tombstones: in @stat: bytes of tombstones among them
 * @cold: in @stat: bytes of live entries that are not in its memory (cold.c)
 *
 * Protected by (for the lock order see store.h):
 *
 *	store->segments.lock	all members but the following ones.  @emitted, @acked,
 *				@packed_time, @step and @swept are also read without it
 *	head->lock		@reserved, @committed, @entries, @seglets, @nr_seglets, from HEAD
 *				to CLOSED; @rolled and @final, which are set once.  @committed and
 *				@final are also read with acquire order
 *	the owner		while COMPACTING or VICTIM: its thread alone sets @damaged.  The
 *				compactor changes @reserved, @committed, @packed, @seglets and @nr_seglets
 *				with segments.lock held, and reads them without
 *	no lock			@barrier (cmpxchg), @live, @tombstones and @cold (atomic)
 *
 * Before the store is active only a recovery changes segments: see load.c.
 */
struct lsmem_segment {
	u64 id;
	u32 generation;
	u32 salt;
	u8 state;
	bool survivor;
	bool final;
	bool open_emitted;
	bool open_acked;
	bool close_emitted;
	bool close_acked;
	bool retire_emitted;
	bool retire_acked;
	bool damaged;
	u32 nr_seglets;
	u32 reserved;
	u32 committed;
	u32 emitted;
	u32 acked;
	u32 received;
	u32 entries;
	u32 packed;
	u32 home;
	struct lsmem_told told;
	u64 barrier;
	u64 open_time;
	u64 packed_time;
	u64 rolled;
	u64 step;
	bool swept;
	bool unreadable;
	struct list_head node;
	struct list_head todo;
	struct list_head spare;
	struct hlist_node hash;
	u32 seglets[LSMEM_SEGLETS];
	u32 index;
	struct lsmem_segment_stat *stat;
	atomic_t *live;
	atomic_t *tombstones;
	atomic_t *cold;
};

#define LSMEM_NOT_PACKED	(~0u)

/* Objects and tombstones that a cleaner finds in a closed segment, live or not. */
static inline u32 lsmem_segment_entries(const struct lsmem_segment *seg)
{
	return seg->packed == LSMEM_NOT_PACKED ? seg->entries : seg->packed;
}

/* Bytes of the prefix that each backup has, on its drive or in memory; segments.lock held. */
static inline u32 lsmem_segment_received(const struct lsmem_segment *seg)
{
	return max(seg->acked, seg->received);
}

/**
 * struct lsmem_segments - the log of a store, as segments
 * @table: @nr_all segments: @nr of the log, then cache segments (cache.c)
 * @nr: most segments in the log
 * @nr_all: see @table
 * @bytes: what each segment has on backups, at most LSMEM_SEGMENT_BYTES; fixed by the activation, before heads append
 * @lock: for states, lists and numbers here; see struct lsmem_segment
 * @hash: of segments in the log, by id; 2^@hash_bits buckets
 * @hash_bits: see @hash
 * @log: segments that are not FREE, by id
 * @todo: segments that are not durably closed, by id
 * @spares: segments that are SPARE, by id
 * @changed: bit of an index: the words of the segment are to be told (words.c); it is also set without the lock
 * @free: segments that are FREE, least recently used first
 * @limit: segments that the backups have room for at present, at most @nr; also read without the lock, as a hint
 * @nr_log: segments in @log; @nr_log to @next_id are also read without the lock, as hints
 * @nr_spares: OPENING or SPARE
 * @nr_unreadable: segments that no backup has whole
 * @claimed: segments that a pass may still take
 * @steps: how many segments have been begun, and swept: the age of a segment for eviction
 * @next_id: id of the next segment
 * @barrier: above the ids of all segments ever written to
 * @unordered: @log is not by id: a recovery is placing segments (load.c)
 * @shown: what the daemon sees: a page about cleaning, which balance.c and clean.c write,
 *	and the numbers of each segment
 * @shown_bytes: of @shown, whole pages
 */
struct lsmem_segments {
	struct lsmem_segment *table;
	u32 nr;
	u32 nr_all;
	u32 bytes;
	spinlock_t lock;
	struct hlist_head *hash;
	u32 hash_bits;
	struct list_head log;
	struct list_head todo;
	struct list_head spares;
	unsigned long *changed;
	struct list_head free;
	u32 limit;
	u32 nr_log;
	u32 nr_spares;
	u32 nr_unreadable;
	u32 claimed;
	u64 steps;
	u64 next_id;
	u64 barrier;
	bool unordered;
	struct lsmem_cleaning *shown;
	size_t shown_bytes;
};

int lsmem_segments_init(struct lsmem_store *store, u64 bytes, u32 caches);
void lsmem_segments_destroy(struct lsmem_store *store);
struct lsmem_segment *lsmem_segment_find(struct lsmem_store *store, u64 id);
void lsmem_segment_begin(struct lsmem_store *store, struct lsmem_segment *seg, u64 id,
			 u32 generation);
struct lsmem_segment *lsmem_segment_new(struct lsmem_store *store, u64 id, u32 generation);
void lsmem_segment_free(struct lsmem_store *store, struct lsmem_segment *seg);
void lsmem_segments_spare(struct lsmem_store *store);
void lsmem_segments_bound(struct lsmem_store *store, u32 limit);
void lsmem_segment_listed(struct lsmem_store *store, struct lsmem_segment *seg);
bool lsmem_segments_short(const struct lsmem_store *store);
u32 lsmem_segments_claimable(const struct lsmem_store *store);
u32 lsmem_segments_claim(struct lsmem_store *store);
void lsmem_segments_unclaim(struct lsmem_store *store);
struct lsmem_segment *lsmem_segment_take(struct lsmem_store *store, bool survivor);
int lsmem_segment_grow(struct lsmem_store *store, struct lsmem_segment *seg, u32 to,
		       enum lsmem_taker taker);
void lsmem_segment_done(struct lsmem_segment *seg);
void lsmem_segment_changed(struct lsmem_store *store, struct lsmem_segment *seg, bool again);
void lsmem_segment_show(const struct lsmem_segment *seg);
void lsmem_segment_leave(struct lsmem_segment *seg);
void lsmem_segment_unreadable(struct lsmem_store *store, struct lsmem_segment *seg, bool unreadable);
void lsmem_segments_readable(struct lsmem_store *store);
void lsmem_segment_close(struct lsmem_store *store, struct lsmem_segment *seg);
struct lsmem_segment *lsmem_log_oldest(struct lsmem_store *store,
				       struct lsmem_segment *const *except, u32 nr);
void lsmem_segment_damaged(const struct lsmem_store *store, struct lsmem_segment *seg, u32 offset);
struct lsmem_segment *lsmem_segment_of(struct lsmem_store *store, u64 position);
u64 lsmem_segment_position(const struct lsmem_segment *seg, u32 offset);
void *lsmem_segment_at(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset);
void lsmem_segment_write(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset,
			 const void *from, u32 length);

#endif
