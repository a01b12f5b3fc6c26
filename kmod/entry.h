/* SPDX-License-Identifier: GPL-2.0 */
/* Entries: their headers, their checks, and what they count for.  See entry.c. */
#ifndef LSMEM_ENTRY_H
#define LSMEM_ENTRY_H

#include <linux/types.h>

#include "segment.h"

#define LSMEM_LIVE_BATCH	(64 << 10)	/* bytes a CPU may be off by */

struct lsmem_head;
struct lsmem_store;

/**
 * struct lsmem_append - an append under way, on its caller's stack
 * @head: where it was reserved
 * @segment: that it is part of
 * @offset: of the entry in its segment
 * @size: bytes of the entry, header and alignment included
 * @index: of its place in the ring of @head
 * @position: for the handle word
 * @listed: it has a place in the segment's directory
 * @bounce: memory to be freed after the commit, or NULL
 */
struct lsmem_append {
	struct lsmem_head *head;
	struct lsmem_segment *segment;
	u32 offset;
	u32 size;
	u32 index;
	u64 position;
	bool listed;
	void *bounce;
};

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

void lsmem_entry_stamp(struct lsmem_store *store, const struct lsmem_append *ap, u64 key,
		       u64 version, u32 length, u32 type, u32 table, u32 pcrc);
u32 lsmem_entry_pcrc(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset,
		     u32 length);
bool lsmem_entry_fetch(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset,
		       struct lsmem_entry *e);
void lsmem_live_add(struct lsmem_store *store, s64 bytes);
void lsmem_entry_count(struct lsmem_store *store, const struct lsmem_append *ap, u64 key,
		       u32 table, u32 length);
void lsmem_entry_alive(const struct lsmem_append *ap);
void lsmem_entry_dead(struct lsmem_store *store, u64 position, u32 length);
void lsmem_tombstone_stamp(struct lsmem_store *store, const struct lsmem_append *ap, u64 key,
			u64 version, u32 table);
void lsmem_tombstone_done(struct lsmem_store *store, const struct lsmem_append *ap, u32 length);
void lsmem_tombstone_moved(struct lsmem_store *store, struct lsmem_segment *from,
			const struct lsmem_append *ap);

#endif
