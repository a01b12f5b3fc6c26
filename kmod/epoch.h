/* SPDX-License-Identifier: GPL-2.0 */
/* Epochs: views of user space that hold seglets.  See epoch.c. */
#ifndef LSMEM_EPOCH_H
#define LSMEM_EPOCH_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>

#include "../uapi/lsmem.h"

struct lsmem_store;

#define LSMEM_CLIENTS_MAX	4096u	/* limits/clients_max by default */
#define LSMEM_SLOTS	(PAGE_SIZE / sizeof(struct lsmem_slot))

/**
 * struct lsmem_seen - what is known of a slot
 * @until: the slot holds up no epoch up to this one
 * @value: was in the way at the last look; IDLE or REVOKED: nothing was
 * @looked: the newest epoch at the last look
 * @since: the jiffy since which @value was in the way
 *
 * Kernel-private: nothing here is taken from the page.
 */
struct lsmem_seen {
	u64 until;
	u64 value;
	u64 looked;
	unsigned long since;
};

/**
 * struct lsmem_client - one open file of a store
 * @store: whose file
 * @node: in the store's list, while it has slots
 * @slots: one page, mapped read-write by its owner; NULL before it is mapped
 * @strikes: views that were not ended in time, of late: each halves the bound
 * @struck: when the last one was, jiffies
 * @seen: LSMEM_SLOTS, under views.lock; NULL while @slots is
 */
struct lsmem_client {
	struct lsmem_store *store;
	struct list_head node;
	struct lsmem_slot *slots;
	unsigned int strikes;
	unsigned long struck;
	struct lsmem_seen *seen;
};

/**
 * struct lsmem_views - the views that user space has of a store
 * @info: the info page, mapped read-only into clients; its epoch grows under @lock
 * @clients: open files that have slots
 * @nr_clients: how many; under @lock
 * @lock: for the set of clients, and what is known of their slots
 * @view_ms: how long a view may hold up others
 * @clients_max: files that may have slots
 */
struct lsmem_views {
	struct lsmem_info *info;
	struct list_head clients;
	u32 nr_clients;
	struct mutex lock;
	u32 view_ms;
	u32 clients_max;
};

struct lsmem_client *lsmem_client_new(struct lsmem_store *store);
int lsmem_client_map(struct lsmem_client *client);
void lsmem_client_free(struct lsmem_client *client);
u64 lsmem_epoch_advance(struct lsmem_store *store);
bool lsmem_epoch_passed(struct lsmem_store *store, u64 epoch);

#endif
