/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waiting for durability.  See durable.c.  lsmem_place_durable() decides when a wait ends.
 * Callers: chardev.c, blockio.c, block.c, store.c, parked.c.  lsmem_ack_one() in repl.c takes the
 * acknowledgements that these calls wait for; core_update_durable() in daemon/core/segment.c
 * decides them.
 */
#ifndef LSMEM_DURABLE_H
#define LSMEM_DURABLE_H

#include <linux/types.h>

struct lsmem_place;
struct lsmem_store;

bool lsmem_place_durable(struct lsmem_store *store, const struct lsmem_place *place,
			 bool received);
int lsmem_wait_durable(struct lsmem_store *store, const struct lsmem_place *place,
		       unsigned int ms);
int lsmem_wait_received(struct lsmem_store *store, const struct lsmem_place *place);
int lsmem_sync(struct lsmem_store *store, u32 timeout_ms);
int lsmem_sync_received(struct lsmem_store *store);

#endif
