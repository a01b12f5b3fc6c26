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
 * @seen: what is known of each slot, under epoch_lock; kernel-private, nothing here is
 *	taken from the page: the slot holds up no epoch up to @until; at the last look the
 *	newest epoch was @looked; @value was in the way at that look, and since the jiffy
 *	@since, or is IDLE or REVOKED: nothing was
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
		u64 looked;
		unsigned long since;
	} seen[PAGE_SIZE / sizeof(struct lsmem_slot)];
};

struct lsmem_client *lsmem_client_new(struct lsmem_store *store);
void lsmem_client_free(struct lsmem_client *client);
u64 lsmem_epoch_advance(struct lsmem_store *store);
bool lsmem_epoch_passed(struct lsmem_store *store, u64 epoch);

#endif
