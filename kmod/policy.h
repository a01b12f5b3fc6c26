/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cleaning policy: pure integers, no kernel and no libc call, so that module, daemon, simulator and
 * tests share it.  See policy.c.  lsmem_policy_level() decides which level makes room,
 * lsmem_policy_select() which segments are cleaned or compacted.  Callers: balance.c, clean.c, and
 * the daemon's core/clean.c.  lsmem_policy_turn() and lsmem_policy_keep() decide what leaves memory
 * in a store whose capacity exceeds its memory.
 */
#ifndef LSMEM_POLICY_H
#define LSMEM_POLICY_H

#include <linux/types.h>

#include "../uapi/lsmem.h"

#define LSMEM_POLICY_VICTIMS	64u	/* most segments in one pass */

/**
 * enum lsmem_policy_rule - which segments are worth cleaning first
 * @LSMEM_RULE_LFS: cost-benefit: free * age / (held + live)
 * @LSMEM_RULE_GREEDY: the emptiest
 * @LSMEM_RULE_RAMCLOUD: free * age / live
 * @LSMEM_RULE_DECAY: free * age^(7/8) / live
 */
enum lsmem_policy_rule {
	LSMEM_RULE_LFS,
	LSMEM_RULE_GREEDY,
	LSMEM_RULE_RAMCLOUD,
	LSMEM_RULE_DECAY,
};

#define LSMEM_RULE_DEFAULT	LSMEM_RULE_DECAY

/**
 * struct lsmem_candidate - what the policy knows of a segment
 * @id: segment id
 * @held: bytes that are given back when it is worked on
 * @live: bytes of them that will be taken again
 * @age: since the segment was opened, or, for compaction, since it was compacted;
 *	in any unit
 * @score: set by lsmem_policy_select()
 * @cookie: the caller's
 * @reserved: 0
 */
struct lsmem_candidate {
	__u64 id;
	__u64 age;
	__u64 score;
	__u32 held;
	__u32 live;
	__u32 cookie;
	__u32 reserved;
};

/**
 * struct lsmem_policy_limits - tunables, all in sysfs
 * @free_low: memory is low when free seglets are below this share, per mille
 * @utilization_max: victims fuller than this, per mille, are passed over
 *	unless nothing else is left
 * @tombstones_max: when tombstones hold more than this share of memory, per
 *	mille, the oldest segments are cleaned first, so that records can go
 * @balancer: enum lsmem_balancer
 * @fixed_clean: LSMEM_BALANCER_FIXED: share of the time spent cleaning, per mille
 * @tombstone_ratio: LSMEM_BALANCER_TOMBSTONES: share of the memory that is not
 *	live that tombstones may have, per mille
 * @survivors: enum lsmem_survivors
 * @clean_price: LSMEM_BALANCER_ADAPTIVE: what a byte copied by cleaning costs more
 *	than one copied by compaction, per mille of the latter
 */
struct lsmem_policy_limits {
	__u32 free_low;
	__u32 utilization_max;
	__u32 tombstones_max;
	__u32 balancer;
	__u32 fixed_clean;
	__u32 tombstone_ratio;
	__u32 survivors;
	__u32 clean_price;
};

#define LSMEM_FREE_LOW_DEFAULT		20u
#define LSMEM_UTILIZATION_DEFAULT	980u
#define LSMEM_UTILIZATION_FORCED	1000u	/* as lsmem_policy_select() says */
#define LSMEM_UTILIZATION_ANY		1001u
#define LSMEM_TOMBSTONES_MAX_DEFAULT		20u
#define LSMEM_FIXED_CLEAN_DEFAULT	500u
#define LSMEM_TOMBSTONES_DEFAULT	400u
#define LSMEM_CLEAN_PRICE_VOLATILE	1000u	/* sorting, new headers, locks */
#define LSMEM_CLEAN_PRICE_DURABLE	4000u	/* and a write to the backup */

/**
 * enum lsmem_balancer - which level is to make room
 * @LSMEM_BALANCER_ADAPTIVE: the cheaper one, by what their best victims cost
 * @LSMEM_BALANCER_TOMBSTONES: compaction, until tombstones hold too much
 * @LSMEM_BALANCER_FIXED: each for its share of the time
 */
enum lsmem_balancer {
	LSMEM_BALANCER_ADAPTIVE,
	LSMEM_BALANCER_TOMBSTONES,
	LSMEM_BALANCER_FIXED,
};

/**
 * enum lsmem_survivors - in which order cleaning writes what survives
 * @LSMEM_SURVIVORS_COLDNESS: coldest first, lsmem_policy_coldness()
 * @LSMEM_SURVIVORS_AGE: oldest first
 */
enum lsmem_survivors {
	LSMEM_SURVIVORS_COLDNESS,
	LSMEM_SURVIVORS_AGE,
};

/**
 * struct lsmem_balance - what a balancer knows
 * @memory_low: seglets are few, or writers wait
 * @segments_used: segments in the log, that is frames of the backup
 * @segments_max: most there can be at present
 * @reserved: 0
 * @tombstones: bytes of tombstones
 * @live: bytes of all that counts
 * @bytes: of memory
 * @compact_cost: bytes copied for each byte that is freed, per mille, by
 *	compaction of the segment where that is least; LSMEM_COST_NONE: nothing
 *	can be gained
 * @clean_cost: the same for cleaning
 * @compact_ns: time that compaction has taken
 * @clean_ns: time that cleaning has taken
 */
struct lsmem_balance {
	__u32 memory_low;
	__u32 segments_used;
	__u32 segments_max;
	__u32 reserved;
	__u64 tombstones;
	__u64 live;
	__u64 bytes;
	__u64 compact_cost;
	__u64 clean_cost;
	__u64 compact_ns;
	__u64 clean_ns;
};

#define LSMEM_COST_NONE		(~0ull)

/*
 * How often an object is replaced, in so few bits that each can have its own:
 * 0 when it never was, else 1 + log2 of the interval in the unit of ages.
 */
#define LSMEM_INTERVAL_BITS	5u
#define LSMEM_INTERVAL_MAX	((1u << LSMEM_INTERVAL_BITS) - 1)

/*
 * Eviction waits while compaction alone copies at most so many bytes for each byte that it frees,
 * per mille, as lsmem_policy_cost() says of the best victim.
 */
#define LSMEM_EVICT_COST	4000u

/* Ages above this count as this in lsmem_policy_turn(); no sum of the hand's steps gets there. */
#define LSMEM_TURN_AGE_MAX	((1ull << 54) - 1)

/* A backup is short of room when so much of it, per mille, is in use. */
#define LSMEM_BACKUP_HIGH	950u
#define LSMEM_SEGMENTS_RESERVE	4u	/* segments that writers, and copies of lost replicas, leave to the cleaner */

__u64 lsmem_policy_lg(__u64 x);
__u64 lsmem_policy_score(__u32 live, __u32 held, __u64 age);
__u64 lsmem_policy_score_by(enum lsmem_policy_rule rule, __u32 live, __u32 held, __u64 age);
__u32 lsmem_policy_interval(__u32 interval, __u64 lifetime);
__u64 lsmem_policy_coldness(__u32 interval, __u64 age);
__u64 lsmem_policy_cost(__u64 live, __u64 held);
__u64 lsmem_policy_turn(__u64 id, __u64 age, __u32 swept);
__u32 lsmem_policy_keep(__u32 touched);
__u32 lsmem_policy_level(const struct lsmem_policy_limits *limits,
			 const struct lsmem_balance *balance);
__u32 lsmem_policy_select(struct lsmem_candidate *candidates, __u32 nr, __u64 room,
			  __u32 utilization_max, int oldest_first);
__u32 lsmem_policy_select_by(enum lsmem_policy_rule rule, struct lsmem_candidate *candidates,
			     __u32 nr, __u64 room, __u32 utilization_max, int oldest_first);

#endif
