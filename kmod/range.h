/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ranges of pages: a root, a tree, and an object for each page.  See range.c.  lsmem_range_read()
 * decides what a page holds, lsmem_range_write() which pages become one group.  Caller: pages.c.
 */
#ifndef LSMEM_RANGE_H
#define LSMEM_RANGE_H

#include <linux/rwsem.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include "entry.h"
#include "tree.h"

struct lsmem_store;

#define LSMEM_RANGE_BATCH	256u	/* pages that one lsmem_range_write() takes, at most */

/**
 * struct lsmem_range - a range that is open
 * @store: that has its objects
 * @root: handle of its root
 * @flags: LSMEM_PAGES_POOL, LSMEM_PAGES_ATOMIC; constant
 * @table: table id of its objects; constant
 * @lock: for all below
 * @tree: finds the objects of pages
 * @pending: by page: what the next write has to do besides (range.c)
 * @nr_freed: pages in @pending that are to be freed
 * @length: bytes
 * @written: length that the root in the log has
 * @last: where the last group lies; only one task at a time writes
 */
struct lsmem_range {
	struct lsmem_store *store;
	u64 root;
	u32 flags;
	u32 table;
	struct rw_semaphore lock;
	struct lsmem_tree tree;
	struct xarray pending;
	u64 nr_freed;
	u64 length;
	u64 written;
	struct lsmem_place last;
};

/**
 * struct lsmem_range_page - a page that is to be written
 * @page: its number
 * @data: LSMEM_BLOCK bytes
 * @error: out: it is not in the group: -EIO: its object is gone; -EAGAIN: write it again
 */
struct lsmem_range_page {
	u64 page;
	const void *data;
	int error;
};

void lsmem_range_forget_root(struct lsmem_store *store, u64 root);
int lsmem_range_create(struct lsmem_store *store, u32 flags, u32 table, u64 length, u64 *root);
int lsmem_range_open(struct lsmem_range *range, struct lsmem_store *store, u64 root);
void lsmem_range_close(struct lsmem_range *range);
int lsmem_range_remove(struct lsmem_range *range);
int lsmem_range_read(struct lsmem_range *range, u64 page, void *to);
void lsmem_range_ask(struct lsmem_range *range, u64 page);
int lsmem_range_write(struct lsmem_range *range, struct lsmem_range_page *pages, u32 nr);
bool lsmem_range_unwritten(struct lsmem_range *range);
int lsmem_range_free(struct lsmem_range *range, u64 from, u64 to);
int lsmem_range_resize(struct lsmem_range *range, u64 length);
int lsmem_range_alloc(struct lsmem_range *range, u64 *page, u32 length, u64 *handle);
int lsmem_range_find(struct lsmem_range *range, u64 *page, u64 to, u64 *handle, u32 *length);

#endif
