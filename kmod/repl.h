/* SPDX-License-Identifier: GPL-2.0 */
/* Replication: the stream to the daemon, and its acknowledgements.  See repl.c. */
#ifndef LSMEM_REPL_H
#define LSMEM_REPL_H

#include "object.h"
#include "store.h"

int lsmem_repl_attach(struct lsmem_attach *attach);
int lsmem_sync(struct lsmem_store *store, u32 timeout_ms);
int lsmem_sync_received(struct lsmem_store *store);
int lsmem_wait_durable(struct lsmem_store *store, const struct lsmem_place *place,
		       unsigned int ms);
int lsmem_wait_received(struct lsmem_store *store, const struct lsmem_place *place);

/* load.c: what a recovery brings back */
int lsmem_load(struct lsmem_store *store, const struct lsmem_load *load);
int lsmem_load_activate(struct lsmem_store *store, const struct lsmem_activate *activate);
int lsmem_load_read(struct lsmem_store *store, struct lsmem_op *op);
void lsmem_load_forget(struct lsmem_store *store);

#endif
