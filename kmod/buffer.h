/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page buffers: which a store has, and what they hold.  See buffer.c.  Callers: pagefs.c, which adds and
 * removes them; sysfs.c, store.c.
 */
#ifndef LSMEM_BUFFER_H
#define LSMEM_BUFFER_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>

struct address_space;
struct lsmem_store;

/**
 * struct lsmem_buffers - the page buffers of a store
 * @lock: for @list
 * @list: of struct lsmem_buffer
 */
struct lsmem_buffers {
	struct mutex lock;
	struct list_head list;
};

/**
 * struct lsmem_buffer - the page buffer of a range that is open
 * @node: in the store's list
 * @mapping: has the pages
 */
struct lsmem_buffer {
	struct list_head node;
	struct address_space *mapping;
};

/**
 * struct lsmem_buffered - what the page buffers of a store hold
 * @ranges: that are open
 * @pages: in them
 * @dirty: of @pages, those that the log does not have
 */
struct lsmem_buffered {
	u64 ranges;
	u64 pages;
	u64 dirty;
};

void lsmem_buffers_init(struct lsmem_buffers *buffers);
void lsmem_buffer_add(struct lsmem_store *store, struct lsmem_buffer *buffer,
		      struct address_space *mapping);
void lsmem_buffer_remove(struct lsmem_store *store, struct lsmem_buffer *buffer);
bool lsmem_buffers_there(struct lsmem_store *store);
struct lsmem_buffered lsmem_buffers_count(struct lsmem_store *store, bool dirty);

#endif
