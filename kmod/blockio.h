/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a bio does to its blocks.  See blockio.c.  lsmem_block_write() and lsmem_block_delete()
 * decide when a change becomes visible; block.c calls lsmem_block_blocks() for each bio, and coldbio.c
 * lsmem_block_read() for what is left of it.
 */
#ifndef LSMEM_BLOCKIO_H
#define LSMEM_BLOCKIO_H

#include <linux/bvec.h>
#include <linux/types.h>

#include "entry.h"

#define LSMEM_BLOCK_SECTORS	(LSMEM_BLOCK >> SECTOR_SHIFT)

struct bio;
struct lsmem_store;

/**
 * struct lsmem_block_io - a bio under way
 * @store: the store
 * @bio: the bio; its own iterator does not change
 * @iter: position in its pages
 * @head: head for all its entries, whatever CPU the task moves to
 * @start: when it began, in jiffies
 * @deadline: ktime in ns by which all its waits end; 0: not yet computed from @start
 * @fua: it must be durable when it ends
 * @once: a read that is no use of its blocks (ahead.c)
 * @last: place of its last change; changes in earlier segments are already durable
 */
struct lsmem_block_io {
	struct lsmem_store *store;
	struct bio *bio;
	struct bvec_iter iter;
	unsigned int head;
	unsigned long start;
	u64 deadline;
	bool fua;
	bool once;
	struct lsmem_place last;
};

unsigned int lsmem_block_left(u64 deadline);
int lsmem_block_read(struct lsmem_block_io *io, u64 block, bool use);
int lsmem_block_blocks(struct lsmem_block_io *io);

#endif
