/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Groups: changes of several objects that are made all or none, also after a crash.  See group.c.
 * lsmem_group_room() decides how much one group takes, lsmem_group_change() whether the changes are
 * made, lsmem_group_follow() where, or when, a change may follow them.  Callers: atomic.c, tree.c, range.c, root.c, journal.c.
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
 * @op: LSMEM_OP_ALLOC, LSMEM_OP_REPLACE, LSMEM_OP_FREE; or LSMEM_OP_CHECK: the object stays as it is
 * @table: LSMEM_OP_ALLOC: of the object; otherwise out
 * @handle: LSMEM_OP_ALLOC: from lsmem_handle_alloc(), and still the caller's if there is an error
 * @data: payload, in memory of the kernel; must not change until the call returns
 * @length: of @data, bytes; LSMEM_OP_FREE, LSMEM_OP_CHECK: 0
 * @expect: only if @version is current; not LSMEM_OP_ALLOC
 * @settle: changes that follow must not survive a crash that the group does not; LSMEM_OP_CHECK: nor the group one that
 *	the version that is checked does not
 * @version: in: if @expect; out: the new version, or, with -EILSEQ and LSMEM_OP_CHECK, the present one
 * @noted: watchers of its table will be told, or have nothing to be told
 * @result: out: 0, or why the group was not made
 * @size: bytes of its entry, 0: it needs none
 * @offset: of its entry in the segment
 * @crc: of the payload
 * @old: bytes of the entry that it supersedes
 * @before: version of that entry
 * @interval: of that entry, see lsmem_policy_interval()
 */
struct lsmem_change {
	u32 op;
	u32 table;
	u64 handle;
	const void *data;
	u32 length;
	bool expect;
	bool settle;
	bool noted;
	int result;
	u64 version;
	u32 size;
	u32 offset;
	u32 crc;
	u32 old;
	u64 before;
	u32 interval;
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

int lsmem_group_prepare(struct lsmem_store *store);
int lsmem_group_follow(struct lsmem_store *store, u64 index, struct lsmem_place *place);
int lsmem_group_change(struct lsmem_store *store, struct lsmem_change *changes, u32 nr,
		       struct lsmem_place *place);

#endif
