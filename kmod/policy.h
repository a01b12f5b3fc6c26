/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cleaning policy: pure integers, no kernel and no libc call, so that module,
 * daemon, simulator and tests share it.  See policy.c.
 */
#ifndef LSMEM_POLICY_H
#define LSMEM_POLICY_H

#include <linux/types.h>

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

#define LSMEM_RULE_DEFAULT	LSMEM_RULE_LFS

/**
 * struct lsmem_candidate - what the policy knows of a segment
 * @id: segment id
 * @held: bytes of memory it holds (its frames)
 * @live: bytes of entries that count
 * @age: store time since its youngest entry was created, milliseconds; every
 *	rule does better with the time since the segment was opened
 * @score: set by lsmem_policy_select()
 * @cookie: the caller's
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
 * @free_low: clean when free frames are below this share, per mille
 * @utilization_max: victims fuller than this, per mille, are passed over
 *	unless nothing else is left
 * @deletes_max: when delete records hold more than this share of memory, per
 *	mille, the oldest segments are cleaned first, so that records can go
 */
struct lsmem_policy_limits {
	__u32 free_low;
	__u32 utilization_max;
	__u32 deletes_max;
};

#define LSMEM_FREE_LOW_DEFAULT		40u
#define LSMEM_UTILIZATION_DEFAULT	980u
#define LSMEM_DELETES_DEFAULT		20u

/*
 * How often an object is replaced, in so few bits that each can have its own:
 * 0 when it never was, else 1 + log2 of the interval in the unit of ages.
 */
#define LSMEM_INTERVAL_BITS	5u
#define LSMEM_INTERVAL_MAX	((1u << LSMEM_INTERVAL_BITS) - 1)

/* A backup is short of room when so much of it, per mille, is in use. */
#define LSMEM_BACKUP_HIGH	950u

__u64 lsmem_policy_lg(__u64 x);
__u64 lsmem_policy_score(__u32 live, __u32 held, __u64 age);
__u64 lsmem_policy_score_by(enum lsmem_policy_rule rule, __u32 live, __u32 held, __u64 age);
__u32 lsmem_policy_interval(__u32 interval, __u64 lifetime);
__u64 lsmem_policy_coldness(__u32 interval, __u64 age);
__u32 lsmem_policy_compact(enum lsmem_policy_rule rule, const struct lsmem_candidate *candidates,
			   __u32 nr, __u32 backup_used);
__u32 lsmem_policy_select(struct lsmem_candidate *candidates, __u32 nr, __u64 room,
			  __u32 utilization_max, int oldest_first);
__u32 lsmem_policy_select_by(enum lsmem_policy_rule rule, struct lsmem_candidate *candidates,
			     __u32 nr, __u64 room, __u32 utilization_max, int oldest_first);

#endif
