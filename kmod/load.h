/* SPDX-License-Identifier: GPL-2.0 */
/* Loading a durable store, for a recovery.  See load.c. */
#ifndef LSMEM_LOAD_H
#define LSMEM_LOAD_H

struct lsmem_activate;
struct lsmem_load;
struct lsmem_op;
struct lsmem_store;

int lsmem_load(struct lsmem_store *store, const struct lsmem_load *load);
int lsmem_load_activate(struct lsmem_store *store, const struct lsmem_activate *activate);
int lsmem_load_read(struct lsmem_store *store, struct lsmem_op *op);
void lsmem_load_forget(struct lsmem_store *store);

#endif
