/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Loading a durable store, for a recovery.  See load.c.  lsmem_load_entries() checks what the
 * daemon passes, lsmem_load_older() decides which of two entries counts, lsmem_load_activate()
 * whether the store can be activated.  Callers: repl.c; and chardev.c for reads before the store is
 * active.
 */
#ifndef LSMEM_LOAD_H
#define LSMEM_LOAD_H

struct lsmem_activate;
struct lsmem_load;
struct lsmem_placement;
struct lsmem_op;
struct lsmem_store;

int lsmem_load(struct lsmem_store *store, const struct lsmem_load *load);
int lsmem_load_place(struct lsmem_store *store, const struct lsmem_placement *place);
int lsmem_load_activate(struct lsmem_store *store, const struct lsmem_activate *activate);
int lsmem_load_read(struct lsmem_store *store, struct lsmem_op *op);
void lsmem_load_forget(struct lsmem_store *store);

#endif
