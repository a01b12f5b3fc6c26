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
 * struct lsmem_candidate - what the policy knows of a segment
 * @id: segment id
 * @held: bytes of memory it holds (its frames)
 * @live: bytes of entries that count
 * @age: store time since its youngest entry was created, milliseconds
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

__u64 lsmem_policy_score(__u32 live, __u32 held, __u64 age);
__u32 lsmem_policy_select(struct lsmem_candidate *candidates, __u32 nr, __u64 room,
			  __u32 utilization_max, int oldest_first);

#endif
