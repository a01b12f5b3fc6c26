/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Objects: allocate, read, replace, free.  See object.c.  lsmem_admit() decides whether the store
 * has room, lsmem_look_for() whether an operation finds the object that it expects, and the word
 * exchange in each lsmem_object_*() which of two racing changes wins.  Caller: chardev.c; span.c
 * carries out several changes with the same parts.
 */
#ifndef LSMEM_OBJECT_H
#define LSMEM_OBJECT_H

#include "../uapi/lsmem.h"
#include "handle.h"
#include "log.h"

/**
 * struct lsmem_look - what a look at an object has found
 * @h: its entry in the handle table
 * @word: its word
 * @handle: of its entry
 * @version: of its entry
 * @length: of its payload, bytes
 * @table: of its entry
 * @interval: of its entry, see lsmem_policy_interval()
 */
struct lsmem_look {
	struct lsmem_handle *h;
	u64 word;
	u64 handle;
	u64 version;
	u32 length;
	u32 table;
	u32 interval;
};

/* What an entry of @size bytes takes beyond the one of @old bytes that it replaces. */
static inline u32 lsmem_growth(u32 size, u32 old)
{
	return size > old ? size - old : 0;
}

int lsmem_admit(struct lsmem_store *store, u32 bytes);
int lsmem_admit_to(struct lsmem_store *store, u32 wanted, u32 *admitted);
int lsmem_look(struct lsmem_store *store, u64 handle, struct lsmem_look *look);
u32 lsmem_look_interval(const struct lsmem_look *look, u64 version);
int lsmem_look_for(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_look *look);
int lsmem_look_from(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_look *look,
		    const struct lsmem_append *ap);

u64 lsmem_objects_prefetch(struct lsmem_store *store, const struct lsmem_op *ops, u32 nr);
int lsmem_object_handle(struct lsmem_store *store, const struct lsmem_op *op, u64 *handle);
int lsmem_object_alloc(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_place *place);
int lsmem_object_read(struct lsmem_store *store, struct lsmem_op *op);
int lsmem_object_replace(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_place *place);
int lsmem_object_free(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_place *place);

int lsmem_object_get(struct lsmem_store *store, u64 handle, void *to, u32 room, u32 *length);

int lsmem_entry_put(struct lsmem_store *store, unsigned int head, u64 key, u32 table,
		    const struct lsmem_source *source, u32 length, u64 *deadline,
		    struct lsmem_append *ap, u32 *pcrc);

#endif
