/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Activation: a store starts to take data calls.  See activate.c.  lsmem_store_activate() creates
 * the threads that make room, sets the state and, for a block store, adds the disk; store.c calls
 * it for a volatile store, lsmem_load_activate() in load.c for a durable one.
 */
#ifndef LSMEM_ACTIVATE_H
#define LSMEM_ACTIVATE_H

struct lsmem_store;

int lsmem_store_activate(struct lsmem_store *store);
void lsmem_store_rest(struct lsmem_store *store);

#endif
