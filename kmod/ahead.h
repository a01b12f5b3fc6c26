/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading ahead: blocks of a tiered disk that are on backups only, before they are read.  See ahead.c.
 * block.c tells of each read of the disk, before and after it.
 */
#ifndef LSMEM_AHEAD_H
#define LSMEM_AHEAD_H

#include <linux/types.h>

struct bio;
struct lsmem_aheads;
struct lsmem_store;

/* What a disk of a tiered store begins with, for its page cache too: its queue/read_ahead_kb. */
#define LSMEM_AHEAD_BYTES	(1u << 20)

/**
 * struct lsmem_ahead - what a read of the disk means for the next ones
 * @to: block behind it
 * @follows: it goes on where another has ended
 * @once: its blocks are read for the first time since they were asked for ahead
 * @from: first block to ask for ahead
 * @end: block behind the last one
 */
struct lsmem_ahead {
	u64 to;
	bool follows;
	bool once;
	u64 from;
	u64 end;
};

struct lsmem_aheads *lsmem_aheads_make(void);
void lsmem_aheads_free(struct lsmem_aheads *aheads);
void lsmem_ahead_look(struct lsmem_store *store, const struct bio *bio, struct lsmem_ahead *ahead);
void lsmem_ahead_ask(struct lsmem_store *store, const struct lsmem_ahead *ahead, bool cold);

#endif
