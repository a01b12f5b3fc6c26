/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Groups: changes of several objects that are whole or none after a crash.  See group.c.
 * lsmem_group_room() decides how much one group takes, lsmem_group_change() whether the changes are
 * made.  Callers: tree.c, range.c.
 */
#ifndef LSMEM_GROUP_H
#define LSMEM_GROUP_H

#include <linux/types.h>

#include "log.h"

struct lsmem_place;
struct lsmem_store;

#define LSMEM_GROUP_MAX		288u	/* changes in a group: 256 pages, and nodes above them */

/**
 * struct lsmem_change - a change of one object in a group
 * @op: LSMEM_OP_ALLOC, LSMEM_OP_REPLACE or LSMEM_OP_FREE
 * @table: LSMEM_OP_ALLOC: of the object
 * @handle: LSMEM_OP_ALLOC: from lsmem_handle_alloc(), and still the caller's if there is an error
 * @data: payload, in memory of the kernel; must not change until the call returns
 * @length: of @data, bytes; LSMEM_OP_FREE: 0
 * @result: out: 0, or the error of this change alone: another client was faster
 * @size: bytes of its entry, 0: it needs none
 * @offset: of its entry in the segment
 * @crc: of the payload
 * @old: bytes of the entry that it supersedes
 */
struct lsmem_change {
	u32 op;
	u32 table;
	u64 handle;
	const void *data;
	u32 length;
	int result;
	u32 size;
	u32 offset;
	u32 crc;
	u32 old;
};

/* Bytes of a group that a change with a payload of @length bytes takes at most. */
static inline u32 lsmem_group_bytes(u32 length)
{
	u32 size = lsmem_entry_size(length);

	return size + (size / LSMEM_SEGLET_BYTES + 1) * (LSMEM_LONG_BYTES - LSMEM_ALIGN);
}

/* Bytes that all changes of a group may take. */
static inline u32 lsmem_group_room(void)
{
	return LSMEM_GROUP_BYTES - LSMEM_LONG_BYTES;
}

int lsmem_group_change(struct lsmem_store *store, struct lsmem_change *changes, u32 nr,
		       struct lsmem_place *place);

#endif
