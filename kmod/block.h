/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The block device of a block store: blocks as entries of the log.  See block.c.
 * lsmem_block_submit() decides which thread carries out a bio; what happens to its blocks is in
 * blockio.c.  The block layer calls it; activate.c adds the disk, store.c removes it.
 */
#ifndef LSMEM_BLOCK_H
#define LSMEM_BLOCK_H

#include <linux/types.h>

struct lsmem_store;

u64 lsmem_block_capacity(const struct lsmem_store *store);
int lsmem_block_add(struct lsmem_store *store);
void lsmem_block_del(struct lsmem_store *store);
bool lsmem_block_busy(struct lsmem_store *store);
int lsmem_block_init(void);
void lsmem_block_exit(void);

#endif
