// SPDX-License-Identifier: GPL-2.0
/*
 * Entries: headers, checks, and accounting.
 *
 * A live entry is counted twice: in its segment (@live, @tombstones), where the cleaners
 * choose victims by it, and in the store's live bytes, which admission compares with the
 * capacity.  A tombstone is live while a segment with an older copy of the deleted object
 * may be listed (invariant 13); its barrier says until when.
 *
 * No locks: the counters are atomic or per CPU.
 */
#include "cold.h"
#include "entry.h"
#include "handle.h"
#include "store.h"
#include "trace.h"

/* ---- Bytes -------------------------------------------------------------- */

/*
 * The CRC of an entry, as lsmem_entry_crc(), but from registers where the processor can: to load
 * bytes that have just been stored, in pieces of other sizes, takes longer than the CRC.
 */
static u32 lsmem_entry_sum(const struct lsmem_entry *e, u32 pcrc, u32 salt)
{
#ifdef CONFIG_X86_64
	u64 key = le64_to_cpu(e->key), version = le64_to_cpu(e->version);
	u64 more = le64_to_cpu(e->more), crc = pcrc;

	if (lsmem_crc_fast) {
		crc = lsmem_crc_word(crc, le32_to_cpu(e->meta) | key << 32);
		crc = lsmem_crc_word(crc, key >> 32 | version << 32);
		if (!lsmem_entry_is_long(e))
			return lsmem_crc_half(crc, version >> 32) ^ salt;
		crc = lsmem_crc_word(crc, version >> 32 | more << 32);
		return lsmem_crc_half(crc, more >> 32) ^ salt;
	}
#endif
	return lsmem_entry_crc(e, pcrc, salt);
}

/**
 * lsmem_entry_stamp - write the header of an entry
 * @store: the store
 * @ap: reserved, its payload copied; can be stamped again until it is committed
 * @e: from lsmem_entry_make()
 * @pcrc: CRC of the payload; ~0 if it has none, or is padding
 */
void lsmem_entry_stamp(struct lsmem_store *store, const struct lsmem_append *ap,
		       struct lsmem_entry e, u32 pcrc)
{
	struct lsmem_entry *to = lsmem_segment_at(store, ap->segment, ap->offset);

	e.crc = cpu_to_le32(lsmem_entry_sum(&e, pcrc, ap->segment->salt));
	to->crc = e.crc;
	to->meta = e.meta;
	to->key = e.key;
	to->version = e.version;
	if (lsmem_entry_is_long(&e))	/* otherwise the payload is there */
		to->more = e.more;
}

/**
 * lsmem_entry_pcrc - compute the CRC of a payload in the log
 * @store: the store
 * @seg: its segment
 * @offset: of the payload in it
 * @length: of the payload, bytes
 */
u32 lsmem_entry_pcrc(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset,
		     u32 length)
{
	u32 crc = ~0u;

	while (length) {
		u32 piece = min(length, LSMEM_SEGLET_BYTES - offset % LSMEM_SEGLET_BYTES);

		crc = lsmem_crc32c(crc, lsmem_segment_at(store, seg, offset), piece);
		offset += piece;
		length -= piece;
	}
	return crc;
}

/**
 * lsmem_entry_move - copy the payload of an entry to another place in the log
 * @store: the store
 * @to: segment
 * @at: of the copy's header in it
 * @from: segment
 * @offset: of the header in it
 * @e: the header
 * Return: CRC of the copy.
 */
u32 lsmem_entry_move(struct lsmem_store *store, const struct lsmem_segment *to, u32 at,
		     const struct lsmem_segment *from, u32 offset, const struct lsmem_entry *e)
{
	u32 header = lsmem_entry_header(e), left = lsmem_entry_length(e), piece, crc = ~0u;

	at += header;
	offset += header;
	for (; left; left -= piece, at += piece, offset += piece) {
		void *copy = lsmem_segment_at(store, to, at);

		piece = min3(left, LSMEM_SEGLET_BYTES - at % LSMEM_SEGLET_BYTES,
			     LSMEM_SEGLET_BYTES - offset % LSMEM_SEGLET_BYTES);
		memcpy(copy, lsmem_segment_at(store, from, offset), piece);
		crc = lsmem_crc32c(crc, copy, piece);
	}
	if (at % LSMEM_ALIGN)
		lsmem_segment_write(store, to, at, NULL, LSMEM_ALIGN - at % LSMEM_ALIGN);
	return crc;
}

/**
 * lsmem_entry_fetch - copy the header of an entry
 * @store: the store
 * @seg: closed
 * @offset: of the entry, from lsmem_entry_start(), below @seg->committed
 * @e: out: a copy, because a process with a replication descriptor can write to the
 *	original between check and use
 *
 * The CRC of an entry covers its payload, and most entries that a cleaner passes are dead: it checks
 * those that it moves (lsmem_entry_copied()), and in the end that it has passed as many as there are
 * (lsmem_segment_entries()) and found all that are live (lsmem_segment_emptied()).
 *
 * Return: false if it cannot be a header, or the entry would end beyond the segment.
 */
bool lsmem_entry_fetch(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset,
		       struct lsmem_entry *e)
{
	u32 room = seg->committed - offset;

	if (room < LSMEM_LONG_BYTES)
		return false;
	*e = *(const struct lsmem_entry *)lsmem_segment_at(store, seg, offset);
	return lsmem_entry_sane(e) && lsmem_entry_bytes(e) <= room;
}

/**
 * lsmem_entry_step - from an entry to the next
 * @store: the store
 * @seg: of the log, or a cache segment, where each entry has a trailer
 * @e: from lsmem_entry_fetch()
 * Return: bytes.
 */
u32 lsmem_entry_step(const struct lsmem_store *store, const struct lsmem_segment *seg,
		     const struct lsmem_entry *e)
{
	u32 trailer = lsmem_segment_is_cache(&store->segments, seg->index) ? LSMEM_TRAILER_BYTES : 0;

	return lsmem_entry_bytes(e) + trailer;
}

/**
 * lsmem_entry_look_ahead - prefetch the handle of an entry
 * @store: the store
 * @seg: closed
 * @offset: in and out: of the entry; of the next one.  Stays where there is none
 */
void lsmem_entry_look_ahead(struct lsmem_store *store, const struct lsmem_segment *seg, u32 *offset)
{
	struct lsmem_entry e;
	u64 index;

	*offset = lsmem_entry_start(*offset);
	if (*offset >= seg->committed || !lsmem_entry_fetch(store, seg, *offset, &e))
		return;
	index = lsmem_handle_index(lsmem_entry_handle(&e));
	if (index < store->handles.nr)
		prefetch(lsmem_handle_at(&store->handles, index));
	*offset += lsmem_entry_step(store, seg, &e);
}

/**
 * lsmem_entry_copied - is the copy of an entry what was once written?
 * @e: its header, where it was copied from
 * @pcrc: CRC of the copied payload
 * @salt: of the segment that it was copied from
 */
bool lsmem_entry_copied(const struct lsmem_entry *e, u32 pcrc, u32 salt)
{
	return le32_to_cpu(e->crc) == lsmem_entry_sum(e, pcrc, salt);
}

/**
 * lsmem_segment_emptied - has a cleaner found all that is live in a segment?
 * @store: the store
 * @seg: COMPACTING or VICTIM; the cleaner has gone through all of it
 * @moved: bytes of live entries that it has moved, unless they have been subtracted from @seg->live,
 *	and of tombstones
 *
 * If not, a damaged length has led it past live entries.  A task that replaces an object counts the
 * old entry as dead a moment after the word has been exchanged, hence the second look.
 *
 * Context: may sleep for an RCU grace period.
 */
bool lsmem_segment_emptied(struct lsmem_store *store, struct lsmem_segment *seg, u32 moved)
{
	if (atomic_read(seg->live) <= moved)
		return true;
	synchronize_rcu_expedited();
	return atomic_read(seg->live) <= moved;
}

/* ---- Accounting --------------------------------------------------------- */

/**
 * lsmem_live_add - change the live bytes of a store
 * @store: the store
 * @bytes: to add; negative to subtract
 */
void lsmem_live_add(struct lsmem_store *store, s64 bytes)
{
	percpu_counter_add_batch(&store->live, bytes, LSMEM_LIVE_BATCH);
}

/**
 * lsmem_entry_count - count and trace an entry that has its payload
 * @store: the store
 * @ap: the entry
 * @key: its handle
 * @table: its table id
 * @length: of its payload, bytes
 */
void lsmem_entry_count(struct lsmem_store *store, const struct lsmem_append *ap, u64 key,
		       u32 table, u32 length)
{
	lsmem_count(store, appends, 1);
	lsmem_count(store, appended_bytes, ap->size);
	trace_lsmem_append(store->name, key, table, ap->segment->id, ap->offset, length);
}

/**
 * lsmem_entry_alive - count an entry as live in its segment
 * @ap: stamped, and not yet committed: no cleaner sees the segment without it
 */
void lsmem_entry_alive(const struct lsmem_append *ap)
{
	atomic_add(ap->size, ap->segment->live);
}

/**
 * lsmem_entry_dead - count an entry as dead where it lies
 * @store: the store
 * @position: of the entry, loaded from its word under the same rcu_read_lock()
 * @size: bytes, header and alignment included
 */
void lsmem_entry_dead(struct lsmem_store *store, u64 position, u32 size)
{
	struct lsmem_segment *seg = lsmem_segment_of(store, position);

	if (unlikely(lsmem_segment_is_cache(&store->segments, seg->index)))
		lsmem_cached_dead(store, position, size);
	else
		atomic_sub(size, seg->live);
}

/* ---- Tombstones ----------------------------------------------------- */

/* Raise a segment's barrier: its tombstones wait for all segments with lower ids. */
static void lsmem_barrier_raise(struct lsmem_segment *seg, u64 barrier)
{
	u64 old = READ_ONCE(seg->barrier);

	while (old < barrier) {
		u64 seen = cmpxchg(&seg->barrier, old, barrier);

		if (seen == old)
			break;
		old = seen;
	}
}

/**
 * lsmem_tombstone_stamp - make a reserved entry a tombstone
 * @store: durable
 * @ap: reserved, without a payload
 * @key: the handle
 * @version: higher than the object's
 * @table: table id
 *
 * The barrier is read before the word is exchanged.  If an older copy is written after
 * that, the word has changed, the exchange fails, and the caller stamps again.
 */
void lsmem_tombstone_stamp(struct lsmem_store *store, const struct lsmem_append *ap, u64 key,
			u64 version, u32 table)
{
	u64 barrier = READ_ONCE(store->segments.barrier);

	lsmem_barrier_raise(ap->segment, barrier);
	lsmem_entry_stamp(store, ap, lsmem_entry_make(LSMEM_TYPE_TOMBSTONE, barrier, key, version, 0,
						      table, ap->offset), ~0u);
}

/**
 * lsmem_tombstone_done - account for a delete whose word has been exchanged
 * @store: the store
 * @ap: its tombstone, stamped and not yet committed (durable stores)
 * @old: bytes of the entry of the deleted object
 *
 * The tombstone is live while an older copy may be listed.
 */
void lsmem_tombstone_done(struct lsmem_store *store, const struct lsmem_append *ap, u32 old)
{
	s64 live = -(s64)old;

	if (store->durable) {
		live += ap->size;
		lsmem_entry_alive(ap);
		atomic_add(ap->size, ap->segment->tombstones);
	}
	lsmem_live_add(store, live);
	lsmem_count(store, deleted, 1);
}

/**
 * lsmem_tombstone_moved - account for a tombstone that the cleaner has copied
 * @store: durable
 * @from: the segment of the original
 * @ap: the copy, stamped
 * @barrier: of the tombstone
 */
void lsmem_tombstone_moved(struct lsmem_store *store, struct lsmem_segment *from,
			   const struct lsmem_append *ap, u64 barrier)
{
	lsmem_barrier_raise(ap->segment, barrier);
	lsmem_entry_alive(ap);
	atomic_add(ap->size, ap->segment->tombstones);
	atomic_sub(ap->size, from->tombstones);
	atomic_sub(ap->size, from->live);
}
