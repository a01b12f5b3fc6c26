/* SPDX-License-Identifier: GPL-2.0 */
/*
 * View epochs: views of user space that hold up seglets.  See epoch.c.  lsmem_epoch_passed()
 * decides whether a view can still see seglets that were emptied, and lsmem_slot_holds() when a
 * view is revoked; compact.c and retire.c call before they free seglets.
 */
#ifndef LSMEM_EPOCH_H
#define LSMEM_EPOCH_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/types.h>

#include "../uapi/lsmem.h"

struct lsmem_store;

#define LSMEM_CLIENTS_MAX	4096u	/* default of limits/clients_max */
#define LSMEM_SLOTS	(PAGE_SIZE / sizeof(struct lsmem_slot))

/**
 * struct lsmem_seen - what the scans have seen of a slot
 * @until: the slot holds up no epoch up to this one
 * @value: that held up an epoch at the last scan; IDLE or REVOKED: none did
 * @looked: the newest epoch at the last scan
 * @since: since when @value has held up an epoch, jiffies
 *
 * Kernel-private: the page of slots is not trusted.
 */
struct lsmem_seen {
	u64 until;
	u64 value;
	u64 looked;
	unsigned long since;
};

/**
 * struct lsmem_client - one open file of a store
 * @store: of the file
 * @node: in views.clients, while the file has slots
 * @shown: in views.shown, from the first mapping of the handle table on
 * @mapping: of the file; NULL before that
 * @slots: one page, mapped read-write by the client; NULL before the first mmap
 * @strikes: recent revocations; each halves the bound of the file
 * @struck: time of the last one, jiffies
 * @seen: LSMEM_SLOTS entries, under views.lock; NULL while @slots is NULL
 */
struct lsmem_client {
	struct lsmem_store *store;
	struct list_head node;
	struct list_head shown;
	struct address_space *mapping;
	struct lsmem_slot *slots;
	unsigned int strikes;
	unsigned long struck;
	struct lsmem_seen *seen;
};

/**
 * struct lsmem_views - the views that user space has of a store
 * @info: the info page, mapped read-only into clients; its epoch grows under @lock
 * @clients: open files that have slots; under @lock
 * @nr_clients: entries of @clients; under @lock
 * @shown: open files that have mapped the handle table; under @lock
 * @lock: protects @clients, the @seen of each, and @shown
 * @cold: of a durable store: a page of COLD words
 * @hidden: clients see @cold instead of the handle table; under @hiding
 * @hiding: held for reading by page faults of the handle table
 * @view_ms: how long a view may hold up seglets
 * @clients_max: most files with slots
 */
struct lsmem_views {
	struct lsmem_info *info;
	struct list_head clients;
	u32 nr_clients;
	struct list_head shown;
	struct mutex lock;
	u64 *cold;
	bool hidden;
	struct rw_semaphore hiding;
	u32 view_ms;
	u32 clients_max;
};

struct lsmem_client *lsmem_client_new(struct lsmem_store *store);
int lsmem_client_map(struct lsmem_client *client);
void lsmem_client_show(struct lsmem_client *client, struct address_space *mapping);
void lsmem_client_free(struct lsmem_client *client);
u64 lsmem_epoch_advance(struct lsmem_store *store);
bool lsmem_epoch_passed(struct lsmem_store *store, u64 epoch);

#endif
