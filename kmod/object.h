/* SPDX-License-Identifier: GPL-2.0 */
/* Objects: allocate, read, replace, free.  See object.c. */
#ifndef LSMEM_OBJECT_H
#define LSMEM_OBJECT_H

#include "../uapi/lsmem.h"
#include "log.h"

/**
 * struct lsmem_place - where a change lies in the log
 * @segment: 0: nothing was written
 * @offset: end of it: what a durable call waits for
 * @deadline: in: of all waits for space in a call, as lsmem_space_wait() says
 */
struct lsmem_place {
	u64 segment;
	u32 offset;
	u64 deadline;
};

void lsmem_objects_prefetch(struct lsmem_store *store, const struct lsmem_op *ops, u32 nr);
int lsmem_object_alloc(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_place *place);
int lsmem_object_read(struct lsmem_store *store, struct lsmem_op *op);
int lsmem_object_replace(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_place *place);
int lsmem_object_free(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_place *place);

int lsmem_entry_put(struct lsmem_store *store, unsigned int head, u64 key, u32 table,
		    const struct lsmem_source *source, u32 length, u64 *deadline,
		    struct lsmem_append *ap, u32 *pcrc);
void lsmem_delete_stamp(struct lsmem_store *store, const struct lsmem_append *ap, u64 key,
			u64 version, u32 table);
void lsmem_delete_done(struct lsmem_store *store, struct lsmem_append *ap, u32 length);
void lsmem_delete_moved(struct lsmem_store *store, struct lsmem_segment *from,
			const struct lsmem_append *ap);
void lsmem_live_add(struct lsmem_store *store, s64 bytes);
void lsmem_entry_count(struct lsmem_store *store, const struct lsmem_append *ap, u64 key,
		       u32 table, u32 length);
void lsmem_entry_alive(const struct lsmem_append *ap);
void lsmem_entry_dead(struct lsmem_store *store, u64 position, u32 length);

#endif
