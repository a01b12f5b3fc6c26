/* SPDX-License-Identifier: GPL-2.0 */
/* Epochs: views of user space that hold frames.  See epoch.c. */
#ifndef LSMEM_EPOCH_H
#define LSMEM_EPOCH_H

#include "store.h"

#define LSMEM_SLOTS	(PAGE_SIZE / sizeof(struct lsmem_slot))

/**
 * struct lsmem_client - one open file of a store
 * @store: whose file
 * @node: in the store's list
 * @slots: one page, mapped read-write by its owner
 * @strikes: views that were not ended in time, of late: each halves the bound
 * @struck: when the last one was, jiffies
 * @seen: what is known of each slot; kernel-private, nothing here is taken from
 *	the page: it holds up no epoch up to @until; @value was seen last to hold up one,
 *	which is timed from @since on, when the epoch was @timed
 */
struct lsmem_client {
	struct lsmem_store *store;
	struct list_head node;
	struct lsmem_slot *slots;
	unsigned int strikes;
	unsigned long struck;
	struct {
		u64 until;
		u64 value;
		u64 timed;
		unsigned long since;
	} seen[PAGE_SIZE / sizeof(struct lsmem_slot)];
};

struct lsmem_client *lsmem_client_new(struct lsmem_store *store);
void lsmem_client_free(struct lsmem_client *client);
u64 lsmem_epoch_advance(struct lsmem_store *store);
bool lsmem_epoch_passed(struct lsmem_store *store, u64 epoch);

#endif
