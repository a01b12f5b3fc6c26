/* SPDX-License-Identifier: GPL-2.0 */
/* Objects: allocate, read, replace, free.  See object.c. */
#ifndef LSMEM_OBJECT_H
#define LSMEM_OBJECT_H

#include "../uapi/lsmem.h"
#include "log.h"

void lsmem_objects_prefetch(struct lsmem_store *store, const struct lsmem_op *ops, u32 nr);
int lsmem_object_alloc(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_place *place);
int lsmem_object_read(struct lsmem_store *store, struct lsmem_op *op);
int lsmem_object_replace(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_place *place);
int lsmem_object_free(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_place *place);

int lsmem_entry_put(struct lsmem_store *store, unsigned int head, u64 key, u32 table,
		    const struct lsmem_source *source, u32 length, u64 *deadline,
		    struct lsmem_append *ap, u32 *pcrc);

#endif
