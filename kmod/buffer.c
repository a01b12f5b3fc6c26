// SPDX-License-Identifier: GPL-2.0
/*
 * Page buffers: which a store has, and what they hold.
 *
 * The page cache adds pages to a buffer, and drops them, without a call of this module that could count
 * them.  So they are counted when they are asked for.
 *
 * Locks: buffers.lock; see store.h for the order.
 */
#include <linux/pagemap.h>

#include "buffer.h"
#include "store.h"

#define LSMEM_BUFFER_STEP	1024u	/* pages that are counted without a rest */

/**
 * lsmem_buffers_init - a store begins, without page buffers
 * @buffers: of the store
 */
void lsmem_buffers_init(struct lsmem_buffers *buffers)
{
	mutex_init(&buffers->lock);
	INIT_LIST_HEAD(&buffers->list);
}

/**
 * lsmem_buffer_add - a range is open
 * @store: that has it
 * @buffer: in no list
 * @mapping: has its pages, until lsmem_buffer_remove()
 */
void lsmem_buffer_add(struct lsmem_store *store, struct lsmem_buffer *buffer,
		      struct address_space *mapping)
{
	buffer->mapping = mapping;
	mutex_lock(&store->buffers.lock);
	list_add(&buffer->node, &store->buffers.list);
	mutex_unlock(&store->buffers.lock);
}

/**
 * lsmem_buffer_remove - undo lsmem_buffer_add()
 * @store: the same
 * @buffer: the same
 */
void lsmem_buffer_remove(struct lsmem_store *store, struct lsmem_buffer *buffer)
{
	mutex_lock(&store->buffers.lock);
	list_del(&buffer->node);
	mutex_unlock(&store->buffers.lock);
}

/**
 * lsmem_buffers_there - is a range of a store open, or still written?
 * @store: any
 * Context: sleeps.
 */
bool lsmem_buffers_there(struct lsmem_store *store)
{
	bool there;

	mutex_lock(&store->buffers.lock);
	there = !list_empty(&store->buffers.list);
	mutex_unlock(&store->buffers.lock);
	return there;
}

static u64 lsmem_buffer_dirty(struct address_space *mapping)
{
	XA_STATE(xas, &mapping->i_pages, 0);
	u64 nr = 0;
	void *folio;

	rcu_read_lock();
	xas_for_each_marked(&xas, folio, ULONG_MAX, PAGECACHE_TAG_DIRTY) {
		if (xas_retry(&xas, folio))
			continue;
		if (++nr % LSMEM_BUFFER_STEP)
			continue;
		xas_pause(&xas);
		rcu_read_unlock();
		cond_resched();
		rcu_read_lock();
	}
	rcu_read_unlock();
	return nr;
}

/**
 * lsmem_buffers_count - what the page buffers of a store hold
 * @store: any
 * @dirty: also the dirty pages, which takes a time that grows with their number
 *
 * Context: sleeps.  Return: numbers that were right for each buffer at a moment of the call.
 */
struct lsmem_buffered lsmem_buffers_count(struct lsmem_store *store, bool dirty)
{
	struct lsmem_buffered sum = { };
	struct lsmem_buffer *buffer;

	mutex_lock(&store->buffers.lock);
	list_for_each_entry(buffer, &store->buffers.list, node) {
		sum.ranges++;
		sum.pages += READ_ONCE(buffer->mapping->nrpages);
		if (dirty)
			sum.dirty += lsmem_buffer_dirty(buffer->mapping);
	}
	mutex_unlock(&store->buffers.lock);
	return sum;
}
