/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The root of a range of pages, and the range that is open.  See root.c.  lsmem_range_root_sane() decides
 * what is a root.  Callers: journal.c, range.c, pagefs.c.
 */
#ifndef LSMEM_ROOT_H
#define LSMEM_ROOT_H

#include <linux/rwsem.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include "entry.h"
#include "tree.h"

struct lsmem_journal;
struct lsmem_store;

#define LSMEM_RANGE_BATCH	256u	/* pages that a group takes, at most */
#define LSMEM_RANGE_WHOLE	2048u	/* pages that one lsmem_range_write() takes, at most */

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
 * @logged: the root, as it is in the log
 * @journal: of a write that has not come to its end, or NULL; only one task at a time writes
 * @last: where the last group lies that is to be durable before the next; only one task at a time writes
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
	struct lsmem_pages_root logged;
	struct lsmem_journal *journal;
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

/* Is this the error of an object that is not there, of which no backup has the bytes, or that is named twice? */
static inline bool lsmem_range_gone(int error)
{
	return error == -ENOENT || error == -ESTALE || error == -EIO || error == -EBADMSG || error == -EUCLEAN;
}

void lsmem_range_forget_root(struct lsmem_store *store, u64 root);
int lsmem_range_create(struct lsmem_store *store, u32 flags, u32 table, u64 length, u64 *root);
bool lsmem_range_root_sane(const struct lsmem_pages_root *root, u32 length);
u32 lsmem_page_bytes(const void *data);

#endif
