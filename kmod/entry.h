/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Entries of the log: headers, checks, and accounting of live and dead bytes.  See entry.c.
 * lsmem_entry_stamp() writes a header, lsmem_entry_copied() decides whether an entry is what was
 * written, lsmem_segment_emptied() whether a cleaner has found all live entries of a segment, and
 * lsmem_tombstone_stamp() until when a tombstone is kept.  Callers: changes (object.c, span.c,
 * blockio.c), cleaners (clean.c, compact.c) and load.c.
 */
#ifndef LSMEM_ENTRY_H
#define LSMEM_ENTRY_H

#include <linux/types.h>

#include "segment.h"

#define LSMEM_LIVE_BATCH	(64 << 10)	/* bytes by which the count of a CPU may be off */
#define LSMEM_INTERVAL_SHIFT	10		/* intervals are in 2^10 units of store time, 1.05 ms */
#define LSMEM_LOOK_AHEAD	16		/* entries whose cache misses overlap */

struct lsmem_head;
struct lsmem_store;

/**
 * struct lsmem_append - an append under way, on its caller's stack: one entry, or several
 * @head: in which it is reserved
 * @segment: the segment of @head at that time
 * @offset: of the first entry in its segment
 * @size: bytes of all entries, headers and alignment included
 * @index: in the ring of @head
 * @position: of the first entry, for the handle word
 * @listed: how many of its entries the segment's directory will list
 * @unlisted: how many of these have become padding since
 * @bounce: memory to free after the commit, or NULL
 */
struct lsmem_append {
	struct lsmem_head *head;
	struct lsmem_segment *segment;
	u32 offset;
	u32 size;
	u32 index;
	u64 position;
	u32 listed;
	u32 unlisted;
	void *bounce;
};

/**
 * struct lsmem_place - where a change lies in the log
 * @segment: id; 0: nothing was written
 * @offset: end of the entry in the segment; a durable call waits until this is acknowledged
 * @head: in: of a writer: where it is to lie; 0: that of the CPU
 * @deadline: in and out: of all waits for space in a call; see lsmem_space_wait()
 * @lapsed: in and out: the call has waited in vain for an object (fetch_ms) or a group (durable_ms), and waits
 *	for no other one
 */
struct lsmem_place {
	u64 segment;
	u32 offset;
	u32 head;
	u64 deadline;
	bool lapsed;
};

void lsmem_entry_stamp(struct lsmem_store *store, const struct lsmem_append *ap,
		       struct lsmem_entry e, u32 pcrc);
u32 lsmem_entry_pcrc(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset,
		     u32 length);
u32 lsmem_entry_move(struct lsmem_store *store, const struct lsmem_segment *to, u32 at,
		     const struct lsmem_segment *from, u32 offset, const struct lsmem_entry *e);
bool lsmem_entry_fetch(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset,
		       struct lsmem_entry *e);
bool lsmem_entry_copied(const struct lsmem_entry *e, u32 pcrc, u32 salt);
bool lsmem_segment_emptied(struct lsmem_store *store, struct lsmem_segment *seg, u32 moved);
u32 lsmem_entry_step(const struct lsmem_store *store, const struct lsmem_segment *seg,
		     const struct lsmem_entry *e);
void lsmem_entry_look_ahead(struct lsmem_store *store, const struct lsmem_segment *seg, u32 *offset);
void lsmem_live_add(struct lsmem_store *store, s64 bytes);
void lsmem_entry_count(struct lsmem_store *store, const struct lsmem_append *ap, u64 key,
		       u32 table, u32 length);
void lsmem_entry_alive(const struct lsmem_append *ap);
void lsmem_entry_dead(struct lsmem_store *store, u64 position, u32 size);
void lsmem_tombstone_stamp(struct lsmem_store *store, const struct lsmem_append *ap, u64 key,
			u64 version, u32 table);
void lsmem_tombstone_done(struct lsmem_store *store, const struct lsmem_append *ap, u32 old);
void lsmem_tombstone_moved(struct lsmem_store *store, struct lsmem_segment *from,
			   const struct lsmem_append *ap, u64 barrier);

/* Is @e a newer version of the object of @than? */
static inline bool lsmem_entry_newer(const struct lsmem_entry *e, const struct lsmem_entry *than)
{
	u64 handle = lsmem_entry_handle(e), other = lsmem_entry_handle(than);

	if (lsmem_handle_index(handle) != lsmem_handle_index(other))
		return false;
	if (handle != other)
		return lsmem_handle_generation(handle) > lsmem_handle_generation(other);
	return lsmem_entry_version(e) > lsmem_entry_version(than);
}

/* Write the header of an object, whose payload has been copied; as lsmem_entry_stamp(). */
static inline void lsmem_object_stamp(struct lsmem_store *store, const struct lsmem_append *ap,
				      u64 handle, u64 version, u32 length, u32 interval, u32 table,
				      u32 pcrc)
{
	lsmem_entry_stamp(store, ap, lsmem_entry_make(LSMEM_TYPE_OBJECT, length, handle, version,
						      interval, table, ap->offset), pcrc);
}

#endif
