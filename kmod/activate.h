/* SPDX-License-Identifier: GPL-2.0 */
/* Activation.  See activate.c. */
#ifndef LSMEM_ACTIVATE_H
#define LSMEM_ACTIVATE_H

struct lsmem_store;

int lsmem_store_activate(struct lsmem_store *store);
void lsmem_store_rest(struct lsmem_store *store);

#endif
