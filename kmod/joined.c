// SPDX-License-Identifier: GPL-2.0
/*
 * Which objects that a snapshot reads through are one fetch request: those that lie close together on the backups.  No kernel
 * call: tests/unit/test_joined.c has it, too.
 */
#include "joined.h"

/**
 * lsmem_join - add an object to a request
 * @joined: the request
 * @segment: of the object
 * @block: in which its entry begins
 * @blocks: that are likely to have all of it, 1 or more: lsmem_cold_blocks()
 *
 * Some entries end in the block behind those.  If there are several objects it is read, too, which costs less than another
 * request for one of them.
 *
 * Return: false: it lies before the others, elsewhere, or too far from them, and the request is as it was.
 */
bool lsmem_join(struct lsmem_joined *joined, __u32 segment, __u32 block, __u32 blocks)
{
	__u32 end = joined->block + joined->blocks + (joined->nr == 1), last = block + blocks + 1;

	if (!joined->nr) {
		*joined = (struct lsmem_joined){ .segment = segment, .block = block, .blocks = blocks, .nr = 1 };
		return true;
	}
	if (last < end)
		last = end;
	if (segment != joined->segment || block < joined->block || last - joined->block > LSMEM_JOINED_BLOCKS)
		return false;
	joined->blocks = last - joined->block;
	joined->nr++;
	return true;
}
