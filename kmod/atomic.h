/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Operations of a client that are carried out all or none.  See atomic.c.  lsmem_atomic_change()
 * decides whether they are.  Caller: chardev.c.
 */
#ifndef LSMEM_ATOMIC_H
#define LSMEM_ATOMIC_H

#include <linux/types.h>

struct lsmem_op;
struct lsmem_place;
struct lsmem_store;

#define LSMEM_ATOMIC_MAX	256u	/* operations: lsmem_query.group_max */

int lsmem_atomic_change(struct lsmem_store *store, struct lsmem_op *ops, u32 nr,
			struct lsmem_place *place);

#endif
