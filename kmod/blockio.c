// SPDX-License-Identifier: GPL-2.0
/*
 * What a bio does to its blocks: writes, discards and reads.
 *
 * Block n is index n of the handle table, its handle's generation always 1.
 * Its word is in one of four states:
 *
 *	FREE	never written, or discarded: reads as zeroes.  A second table has the
 *		version under which it was discarded, 0 for none
 *	LIVE	an entry of LSMEM_BLOCK bytes
 *	COLD	the same, on the backups only (cold.c): a write or discard has no need of it
 *	BUSY	being discarded
 *
 * A write changes each but BUSY to LIVE with one exchange.  A discard changes LIVE or COLD to BUSY,
 * writes that version, and changes BUSY to FREE.  Between the two exchanges no other task
 * changes word or version, preemption is off, and a task that needs the version spins.  So the
 * version of a block always grows: a write that has read it before another write and discard
 * of the block fails its exchange, because the tag has changed.  Discard and write-zeroes are
 * the same; on a durable store both write a tombstone, because a recovery would bring the
 * old contents back.
 *
 * A write of many blocks is made in spans, each with one reservation, one place in the ring, one
 * commit and one look at the clock (compare span.c): all blocks are copied, then all words looked
 * at and all entries stamped, then the words exchanged, in the order of the blocks.  A block whose
 * word has changed in between is looked at, stamped and exchanged again: from the reservation on a
 * write cannot fail.  If there is no space for a span, its first block waits alone, by the bio's
 * deadline.
 *
 * No locks.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/highmem.h>
#include <linux/prefetch.h>
#include <linux/sched.h>

#include "blockio.h"
#include "crc32c.h"
#include "durable.h"
#include "handle.h"
#include "log.h"
#include "store.h"
#include "trace.h"

#define LSMEM_BLOCK_GENERATION	1
/* Most in a span: preemption is off as long as for an object of 64 KiB, a 16th of the largest. */
#define LSMEM_BLOCK_SPAN	16
#define LSMEM_BLOCK_AHEAD	8	/* headers that a discard fetches ahead */

/**
 * struct lsmem_block_span - consecutive blocks written by one append, on the writer's stack
 * @ap: the append
 * @block: the first
 * @nr: blocks
 * @offsets: of each entry in the segment
 * @crcs: of each payload
 * @words: of each block, for which its entry is stamped; at last those that it replaced
 */
struct lsmem_block_span {
	struct lsmem_append ap;
	u64 block;
	u32 nr;
	u32 offsets[LSMEM_BLOCK_SPAN];
	u32 crcs[LSMEM_BLOCK_SPAN];
	u64 words[LSMEM_BLOCK_SPAN];
};

/**
 * lsmem_block_left - milliseconds until a deadline
 * @deadline: ktime in ns
 * Return: at least 1: for the waits, 0 means their default bound.
 */
unsigned int lsmem_block_left(u64 deadline)
{
	u64 now = ktime_get_ns();

	return deadline > now ? 1 + div_u64(deadline - now, NSEC_PER_MSEC) : 1;
}

/*
 * The deadline of a bio. Most never wait, and need no look at the clock: the tick at which they
 * began is near enough.
 */
static u64 lsmem_block_due(struct lsmem_block_io *io)
{
	if (!io->deadline)
		io->deadline = ktime_get_ns() - jiffies_to_nsecs(jiffies - io->start) +
			       (u64)READ_ONCE(io->store->repl.flush_ms) * NSEC_PER_MSEC;
	return io->deadline;
}

/* Load a block's word and the version that its next one must exceed. */
static u64 lsmem_block_look(struct lsmem_store *store, u64 block, u64 *last)
{
	for (;;) {
		/* Before the entry, whose address depends on it. */
		u64 word = READ_ONCE(lsmem_handle_at(&store->handles, block)->word);

		switch (lsmem_word_state(word)) {
		case LSMEM_WORD_LIVE:
			*last = lsmem_entry_version(lsmem_word_entry(&store->seglets, word));
			return word;
		case LSMEM_WORD_FREE:
			smp_rmb();	/* pairs with the release in lsmem_block_delete() */
			*last = READ_ONCE(*lsmem_discarded_at(&store->handles, block));
			return word;
		case LSMEM_WORD_COLD:
			smp_rmb();	/* pairs with the exchange after lsmem_cold_version() */
			*last = atomic64_read(&store->tier.newest);
			return word;
		}
		cpu_relax();	/* the task that discards it is not preempted */
	}
}

/* Reserve an entry. There will be space: see lsmem_block_capacity(). */
static int lsmem_block_begin(struct lsmem_block_io *io, u32 length, u32 type,
			     struct lsmem_append *ap)
{
	int ret;

	lsmem_block_due(io);
	ret = lsmem_append_begin_by(io->store, io->head, length, type, &io->deadline, ap);
	if (ret && !lsmem_store_active(io->store))
		return -ENODEV;
	return ret ? -ETIMEDOUT : 0;
}

/* Take note of a change for FUA. Within a segment the last place is enough. */
static int lsmem_block_changed(struct lsmem_block_io *io, const struct lsmem_place *place)
{
	struct lsmem_place before = io->last;

	io->last = *place;
	if (!io->fua || before.segment == place->segment)
		return 0;
	return lsmem_wait_durable(io->store, &before, lsmem_block_left(lsmem_block_due(io)));
}

/* ---- Write -------------------------------------------------------------- */

/* Fetch what lsmem_block_look() will need: a header, or the version of a discard. */
static void lsmem_block_prefetch(const struct lsmem_store *store, u64 block)
{
	u64 word = READ_ONCE(lsmem_handle_at(&store->handles, block)->word);

	if (lsmem_word_state(word) == LSMEM_WORD_LIVE)
		prefetch(lsmem_word_entry(&store->seglets, word));
	else
		prefetch(lsmem_discarded_at(&store->handles, block));
}

/* Reserve entries for up to @nr blocks: for one only if there is no space for all at once. */
static int lsmem_block_reserve(struct lsmem_block_io *io, struct lsmem_block_span *span, u32 nr)
{
	u32 sizes[LSMEM_BLOCK_SPAN], i;

	for (i = 0; i < nr; i++)
		sizes[i] = lsmem_entry_size(LSMEM_BLOCK);
	span->nr = nr;
	if (!lsmem_append_begin_span(io->store, io->head, sizes, nr, 0, &span->ap))
		return 0;
	span->nr = 1;
	return lsmem_block_begin(io, LSMEM_BLOCK, LSMEM_TYPE_OBJECT, &span->ap);
}

/* Copy the next block of the bio behind a header at @offset. Does not sleep. Returns its CRC. */
static u32 lsmem_block_copy_in(struct lsmem_block_io *io, const struct lsmem_segment *seg,
			       u32 offset)
{
	u32 at = offset + lsmem_header_bytes(LSMEM_BLOCK), end = at + LSMEM_BLOCK;
	u32 crc = ~0u, piece;

	for (; at < end; at += piece) {
		struct bio_vec bv = bio_iter_iovec(io->bio, io->iter);
		void *from = kmap_local_page(bv.bv_page);

		piece = min3(end - at, bv.bv_len, LSMEM_SEGLET_BYTES - at % LSMEM_SEGLET_BYTES);
		crc = lsmem_crc32c_copy(crc, lsmem_segment_at(io->store, seg, at),
					from + bv.bv_offset, piece);
		kunmap_local(from);
		bio_advance_iter_single(io->bio, &io->iter, piece);
	}
	return crc;
}

static void lsmem_block_copy_span(struct lsmem_block_io *io, struct lsmem_block_span *span)
{
	const struct lsmem_segment *seg = span->ap.segment;
	u32 end = span->ap.offset, i;

	for (i = 0; i < span->nr; i++) {
		span->offsets[i] = lsmem_entry_start(end);
		if (span->offsets[i] > end)	/* a header does not cross seglets */
			lsmem_segment_write(io->store, seg, end, NULL, span->offsets[i] - end);
		span->crcs[i] = lsmem_block_copy_in(io, seg, span->offsets[i]);
		end = span->offsets[i] + lsmem_entry_size(LSMEM_BLOCK);
	}
}

/* Look at a block and stamp its entry. Returns the word that the exchange must find. */
static u64 lsmem_block_stamp(struct lsmem_store *store, const struct lsmem_block_span *span, u32 i,
			     u64 now)
{
	struct lsmem_append ap = { .segment = span->ap.segment, .offset = span->offsets[i] };
	u64 block = span->block + i, last;
	u64 word = lsmem_block_look(store, block, &last);

	lsmem_object_stamp(store, &ap, lsmem_handle_make(block, LSMEM_BLOCK_GENERATION),
			   max(now, last + 1), LSMEM_BLOCK, 0, 0, span->crcs[i]);
	return word;
}

static bool lsmem_block_exchange(struct lsmem_store *store, const struct lsmem_block_span *span,
				 u32 i)
{
	u64 position = lsmem_segment_position(span->ap.segment, span->offsets[i]);
	u64 word = span->words[i];

	return lsmem_word_exchange(&store->handles, lsmem_handle_at(&store->handles, span->block + i),
				   word, lsmem_word_next(word, LSMEM_WORD_LIVE, position));
}

/* Is there an entry, in memory or on the backups? */
static bool lsmem_block_there(u64 word)
{
	return lsmem_word_state(word) == LSMEM_WORD_LIVE || lsmem_word_state(word) == LSMEM_WORD_COLD;
}

/* Count the entry of a block as dead that is there; its word was loaded under rcu_read_lock(). */
static void lsmem_block_entry_dead(struct lsmem_store *store, u64 word)
{
	if (lsmem_word_state(word) == LSMEM_WORD_COLD)
		lsmem_cold_dead(store, word, lsmem_entry_size(LSMEM_BLOCK));
	else
		lsmem_entry_dead(store, lsmem_word_position(word), lsmem_entry_size(LSMEM_BLOCK));
}

/* Count the replaced entries as dead, each segment once for neighbours. Returns how many. */
static u32 lsmem_block_dead(struct lsmem_store *store, const struct lsmem_block_span *span)
{
	struct lsmem_segment *seg = NULL;
	u32 replaced = 0, bytes = 0, i;

	for (i = 0; i < span->nr; i++) {
		u64 word = span->words[i];
		struct lsmem_segment *of;

		if (!lsmem_block_there(word))
			continue;
		if (store->tier.on) {	/* it may lie in two segments */
			lsmem_block_entry_dead(store, word);
			replaced++;
			continue;
		}
		of = lsmem_segment_of(store, lsmem_word_position(word));
		if (seg && of != seg) {
			atomic_sub(bytes, seg->live);
			bytes = 0;
		}
		seg = of;
		bytes += lsmem_entry_size(LSMEM_BLOCK);
		replaced++;
	}
	if (seg)
		atomic_sub(bytes, seg->live);
	return replaced;
}

/* Make the entries visible, in the order of the blocks. Returns how many replaced one. */
static u32 lsmem_block_publish(struct lsmem_store *store, struct lsmem_block_span *span)
{
	u64 now = lsmem_handle_version(store, 0);
	u32 replaced, i;

	/* Before the exchanges: another write may count an entry of the span as dead. */
	atomic_add(span->nr * lsmem_entry_size(LSMEM_BLOCK), span->ap.segment->live);
	rcu_read_lock();
	/* No operation in between orders memory, so that the cache misses overlap. */
	for (i = 0; i < span->nr; i++)
		span->words[i] = lsmem_block_stamp(store, span, i, now);
	wmb();	/* Who finds an entry sees it whole; lsmem_crc32c_copy() says why not smp_wmb(). */
	for (i = 0; i < span->nr; i++)
		while (!lsmem_block_exchange(store, span, i))
			span->words[i] = lsmem_block_stamp(store, span, i, now);
	replaced = lsmem_block_dead(store, span);
	rcu_read_unlock();
	return replaced;
}

static void lsmem_block_count(struct lsmem_store *store, const struct lsmem_block_span *span,
			      u32 replaced)
{
	u32 made = span->nr - replaced, i;

	lsmem_count(store, appends, span->nr);
	lsmem_count(store, appended_bytes, span->nr * lsmem_entry_size(LSMEM_BLOCK));
	lsmem_count(store, replaced, replaced);
	if (made) {
		lsmem_live_add(store, made * lsmem_entry_size(LSMEM_BLOCK));
		percpu_counter_add(&store->handles.used, made);
	}
	if (!trace_lsmem_append_enabled())
		return;
	for (i = 0; i < span->nr; i++)
		trace_lsmem_append(store->name,
				   lsmem_handle_make(span->block + i, LSMEM_BLOCK_GENERATION), 0,
				   span->ap.segment->id, span->offsets[i], LSMEM_BLOCK);
}

/* Write up to @nr blocks as one span. Returns how many, or an error: then none. */
static int lsmem_block_write(struct lsmem_block_io *io, u64 block, u32 nr)
{
	struct lsmem_block_span span;
	struct lsmem_place place;
	u32 i;
	int ret;

	span.block = block;
	prefetchw(lsmem_handle_at(&io->store->handles, block));
	ret = lsmem_block_reserve(io, &span, nr);
	if (ret)
		return ret;
	for (i = 0; i < span.nr; i++)	/* used after the copy */
		lsmem_block_prefetch(io->store, block + i);
	lsmem_block_copy_span(io, &span);
	lsmem_block_count(io->store, &span, lsmem_block_publish(io->store, &span));
	place = (struct lsmem_place){ span.ap.segment->id, span.ap.offset + span.ap.size };
	lsmem_append_commit(io->store, &span.ap);
	return lsmem_block_changed(io, &place) ?: span.nr;
}

/* ---- Discard and write-zeroes ------------------------------------------- */

/* Returns how many blocks were discarded: 1, also if it was free; or an error. */
static int lsmem_block_delete(struct lsmem_block_io *io, u64 block)
{
	u64 key = lsmem_handle_make(block, LSMEM_BLOCK_GENERATION), word, busy, last, version;
	struct lsmem_store *store = io->store;
	struct lsmem_handle *h = lsmem_handle_at(&store->handles, block);
	struct lsmem_append ap;
	int ret;

	/* A block that becomes FREE meanwhile was discarded by another task. */
	if (!lsmem_block_there(READ_ONCE(h->word)))
		return 1;
	if (store->durable) {
		ret = lsmem_block_begin(io, 0, LSMEM_TYPE_TOMBSTONE, &ap);
		if (ret)
			return ret;
	}
	rcu_read_lock();
	preempt_disable();
	do {
		word = lsmem_block_look(store, block, &last);
		if (!lsmem_block_there(word)) {
			preempt_enable();
			rcu_read_unlock();
			if (store->durable)
				lsmem_append_abort(store, &ap);
			return 1;
		}
		version = lsmem_handle_version(store, last);
		if (store->durable)
			lsmem_tombstone_stamp(store, &ap, key, version, 0);
		busy = lsmem_word_next(word, LSMEM_WORD_BUSY, 0);
	} while (!lsmem_word_exchange(&store->handles, h, word, busy));
	WRITE_ONCE(*lsmem_discarded_at(&store->handles, block), version);
	/* A task that sees the word FREE sees the version. */
	smp_store_release(&h->word, lsmem_word_next(busy, LSMEM_WORD_FREE, 0));
	preempt_enable();
	lsmem_block_entry_dead(store, word);
	rcu_read_unlock();
	lsmem_tombstone_done(store, &ap, lsmem_entry_size(LSMEM_BLOCK));
	if (store->durable)
		lsmem_append_commit(store, &ap);
	percpu_counter_dec(&store->handles.used);
	return 1;
}

/* ---- Read --------------------------------------------------------------- */

/* Copy a block out to the bio, along the chain of seglets; rcu_read_lock() held. */
static void lsmem_block_copy_out(struct lsmem_block_io *io, u64 position)
{
	const struct lsmem_seglets *seglets = &io->store->seglets;
	u32 seglet = position >> LSMEM_POSITION_OFFSET_BITS;
	u32 offset = (position & ((1u << LSMEM_POSITION_OFFSET_BITS) - 1)) * LSMEM_ALIGN +
		     lsmem_header_bytes(LSMEM_BLOCK);
	u32 left, piece;

	for (left = LSMEM_BLOCK; left; left -= piece) {
		struct bio_vec bv = bio_iter_iovec(io->bio, io->iter);

		if (offset >= LSMEM_SEGLET_BYTES) {
			offset -= LSMEM_SEGLET_BYTES;
			seglet = READ_ONCE(seglets->table[seglet].next);
		}
		piece = min3(left, bv.bv_len, LSMEM_SEGLET_BYTES - offset);
		memcpy_to_page(bv.bv_page, bv.bv_offset,
			       lsmem_seglet_address(seglets, seglet) + offset, piece);
		bio_advance_iter_single(io->bio, &io->iter, piece);
		offset += piece;
	}
}

/*
 * Fetch a block that is read next.  The processor sees by itself that one line is loaded after the
 * other, but only within a page, and an entry lies across two.
 */
static void lsmem_block_fetch(const struct lsmem_store *store, u64 block)
{
	const struct lsmem_seglets *seglets = &store->seglets;
	u64 word = READ_ONCE(lsmem_handle_at(&store->handles, block)->word);
	u64 position = lsmem_word_position(word);
	const void *seglet;
	u32 offset, end;

	if (lsmem_word_state(word) != LSMEM_WORD_LIVE)
		return;
	seglet = lsmem_seglet_address(seglets, position >> LSMEM_POSITION_OFFSET_BITS);
	offset = (position & ((1u << LSMEM_POSITION_OFFSET_BITS) - 1)) * LSMEM_ALIGN;
	end = min(offset + lsmem_entry_size(LSMEM_BLOCK), LSMEM_SEGLET_BYTES);
	for (; offset < end; offset += SMP_CACHE_BYTES)
		prefetch(seglet + offset);
}

static void lsmem_block_zero_out(struct lsmem_block_io *io)
{
	u32 left, piece;

	for (left = LSMEM_BLOCK; left; left -= piece) {
		struct bio_vec bv = bio_iter_iovec(io->bio, io->iter);

		piece = min(left, bv.bv_len);
		memzero_page(bv.bv_page, bv.bv_offset, piece);
		bio_advance_iter_single(io->bio, &io->iter, piece);
	}
}

/**
 * lsmem_block_read - copy a block out to a bio
 * @io: its iter is at the block, afterwards behind it
 * @block: the block; iter.bi_sector does not tell, because the pieces of a block are not whole sectors
 * @use: the block is used; no wait for it came before
 * Return: 0, or -LSMEM_ECOLD: nothing has changed.
 */
int lsmem_block_read(struct lsmem_block_io *io, u64 block, bool use)
{
	int ret = 0;
	u64 word;

	rcu_read_lock();
	/* Before the entry, whose address depends on it. */
	word = READ_ONCE(lsmem_handle_at(&io->store->handles, block)->word);
	if (likely(lsmem_word_state(word) == LSMEM_WORD_LIVE)) {
		lsmem_block_copy_out(io, lsmem_word_position(word));
		if (use)
			lsmem_touch(&io->store->tier, block);
	} else if (lsmem_word_state(word) == LSMEM_WORD_COLD) {
		ret = -LSMEM_ECOLD;
	} else {
		lsmem_block_zero_out(io);
	}
	rcu_read_unlock();
	return ret;
}

/* Read the next block of a bio up to @end. Returns 1, or as lsmem_block_read(). */
static int lsmem_block_read_next(struct lsmem_block_io *io, u64 block, u64 end)
{
	if (block == io->bio->bi_iter.bi_sector / LSMEM_BLOCK_SECTORS)
		lsmem_block_fetch(io->store, block);
	if (block + 1 < end)
		lsmem_block_fetch(io->store, block + 1);
	return lsmem_block_read(io, block, !io->once) ?: 1;
}

/* ---- Bios --------------------------------------------------------------- */

/**
 * lsmem_block_blocks - carry out a bio, block by block
 * @io: its sectors are whole blocks of the disk
 *
 * Context: may sleep.
 * Return: 0; -ENODEV, -EAGAIN: the store is being destroyed; -ETIMEDOUT, -EREMCHG: the deadline has passed;
 * -EOPNOTSUPP; -LSMEM_ECOLD: a read, whose iter is now at a COLD block.
 */
int lsmem_block_blocks(struct lsmem_block_io *io)
{
	u64 block = io->iter.bi_sector / LSMEM_BLOCK_SECTORS;
	u64 end = block + bio_sectors(io->bio) / LSMEM_BLOCK_SECTORS;
	int ret = 0;

	if (lsmem_store_frozen(io->store)) {
		lsmem_block_due(io);
		ret = lsmem_space_thaw(io->store, &io->deadline);
	}
	if (ret)
		return ret;
	while (block < end) {
		switch (bio_op(io->bio)) {
		case REQ_OP_READ:
			ret = lsmem_block_read_next(io, block, end);
			break;
		case REQ_OP_WRITE:
			ret = lsmem_block_write(io, block, min_t(u64, end - block, LSMEM_BLOCK_SPAN));
			break;
		case REQ_OP_DISCARD:
		case REQ_OP_WRITE_ZEROES:
			/* REQ_NOUNMAP needs no handling: space is reserved for every block. */
			if (block + LSMEM_BLOCK_AHEAD < end)
				lsmem_block_prefetch(io->store, block + LSMEM_BLOCK_AHEAD);
			ret = lsmem_block_delete(io, block);
			break;
		default:
			return -EOPNOTSUPP;
		}
		if (ret < 0)
			return ret;
		block += ret;
		cond_resched();
	}
	return 0;
}
