/* SPDX-License-Identifier: GPL-2.0 */
/* Which objects that a snapshot reads through are one fetch request.  See joined.c. */
#ifndef LSMEM_JOINED_H
#define LSMEM_JOINED_H

#include <linux/types.h>

/*
 * Most of a request.  The daemon joins those that are no longer.  At most four blocks between two objects are read in vain
 * so, as in the daemon's reads.
 */
#define LSMEM_JOINED_BLOCKS	8u

/**
 * struct lsmem_joined - a fetch request that is being made
 * @segment: index of the segment
 * @block: the first, of its log
 * @blocks: to read
 * @nr: objects; 0: none yet, and nothing else is valid
 */
struct lsmem_joined {
	__u32 segment;
	__u32 block;
	__u32 blocks;
	__u32 nr;
};

bool lsmem_join(struct lsmem_joined *joined, __u32 segment, __u32 block, __u32 blocks);

#endif
