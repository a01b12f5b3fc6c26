// SPDX-License-Identifier: GPL-2.0
/*
 * What a bio does to its blocks: writes, discards and reads.
 *
 * Block n is index n of the handle table, its handle's generation always 1.
 * Its word is in one of three states:
 *
 *	FREE	never written, or discarded: reads as zeroes.  A second table has the
 *		version under which it was discarded, 0 for none
 *	LIVE	an entry of LSMEM_BLOCK bytes
 *	BUSY	being discarded
 *
 * A write changes FREE or LIVE to LIVE with one exchange.  A discard changes LIVE to BUSY,
 * writes that version, and changes BUSY to FREE.  Between the two exchanges no other task
 * changes word or version, preemption is off, and a task that needs the version spins.  So the
 * version of a block always grows: a write that has read it before another write and discard
 * of the block fails its exchange, because the tag has changed.  Discard and write-zeroes are
 * the same; on a durable store both write a tombstone, because a recovery would bring the
 * old contents back.
 *
 * No locks.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/highmem.h>
#include <linux/prefetch.h>
#include <linux/sched.h>

#include "blockio.h"
#include "durable.h"
#include "handle.h"
#include "log.h"
#include "store.h"

#define LSMEM_BLOCK_GENERATION	1

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

/* Load a block's word and the version that its next one must exceed. */
static u64 lsmem_block_look(struct lsmem_store *store, u64 block, u64 *last)
{
	for (;;) {
		/* Before the version, or the entry. */
		u64 word = smp_load_acquire(&lsmem_handle_at(&store->handles, block)->word);

		switch (lsmem_word_state(word)) {
		case LSMEM_WORD_LIVE:
			*last = lsmem_entry_version(lsmem_word_entry(&store->seglets, word));
			return word;
		case LSMEM_WORD_FREE:
			*last = READ_ONCE(*lsmem_discarded_at(&store->handles, block));
			return word;
		}
		cpu_relax();	/* the task that discards it is not preempted */
	}
}

/* Reserve an entry. There will be space: see lsmem_block_capacity(). */
static int lsmem_block_begin(struct lsmem_block_io *io, u32 length, u32 type,
			     struct lsmem_append *ap)
{
	int ret = lsmem_append_begin_by(io->store, io->head, length, type, &io->deadline, ap);

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
	return lsmem_wait_durable(io->store, &before, lsmem_block_left(io->deadline));
}

/* ---- Write -------------------------------------------------------------- */

/* Copy the next block of the bio into its entry. Does not sleep. */
static void lsmem_block_copy_in(struct lsmem_block_io *io, const struct lsmem_append *ap,
				u32 *pcrc)
{
	u32 begin = ap->offset + lsmem_header_bytes(LSMEM_BLOCK), end = begin + LSMEM_BLOCK;
	u32 at, piece;

	for (at = begin; at < end; at += piece) {
		struct bio_vec bv = bio_iter_iovec(io->bio, io->iter);
		void *from = kmap_local_page(bv.bv_page);

		piece = min(end - at, bv.bv_len);
		lsmem_segment_write(io->store, ap->segment, at, from + bv.bv_offset, piece);
		kunmap_local(from);
		bio_advance_iter_single(io->bio, &io->iter, piece);
	}
	/* Of the copy: the pages can change meanwhile. */
	*pcrc = lsmem_entry_pcrc(io->store, ap->segment, begin, LSMEM_BLOCK);
}

static int lsmem_block_write(struct lsmem_block_io *io, u64 block)
{
	u64 key = lsmem_handle_make(block, LSMEM_BLOCK_GENERATION), word, last, version;
	struct lsmem_store *store = io->store;
	struct lsmem_handle *h = lsmem_handle_at(&store->handles, block);
	struct lsmem_place place;
	struct lsmem_append ap;
	bool replaced;
	u32 pcrc;
	int ret;

	prefetchw(h);	/* used after the copy */
	ret = lsmem_block_begin(io, LSMEM_BLOCK, LSMEM_TYPE_OBJECT, &ap);
	if (ret)
		return ret;
	lsmem_block_copy_in(io, &ap, &pcrc);
	lsmem_entry_count(store, &ap, key, 0, LSMEM_BLOCK);
	rcu_read_lock();
	do {
		word = lsmem_block_look(store, block, &last);
		version = lsmem_handle_version(store, last);
		lsmem_object_stamp(store, &ap, key, version, LSMEM_BLOCK, 0, 0, pcrc);
	} while (!lsmem_word_exchange(h, word,
				      lsmem_word_next(word, LSMEM_WORD_LIVE, ap.position)));
	lsmem_entry_alive(&ap);
	replaced = lsmem_word_state(word) == LSMEM_WORD_LIVE;
	if (replaced)
		lsmem_entry_dead(store, lsmem_word_position(word), lsmem_entry_size(LSMEM_BLOCK));
	rcu_read_unlock();
	if (replaced) {
		lsmem_count(store, replaced, 1);
	} else {
		lsmem_live_add(store, ap.size);
		percpu_counter_inc(&store->handles.used);
	}
	place = (struct lsmem_place){ ap.segment->id, ap.offset + ap.size };
	lsmem_append_commit(store, &ap);
	return lsmem_block_changed(io, &place);
}

/* ---- Discard and write-zeroes ------------------------------------------- */

static int lsmem_block_delete(struct lsmem_block_io *io, u64 block)
{
	u64 key = lsmem_handle_make(block, LSMEM_BLOCK_GENERATION), word, busy, last, version;
	struct lsmem_store *store = io->store;
	struct lsmem_handle *h = lsmem_handle_at(&store->handles, block);
	struct lsmem_append ap;
	int ret;

	/* A block that becomes FREE meanwhile was discarded by another task. */
	if (lsmem_word_state(READ_ONCE(h->word)) != LSMEM_WORD_LIVE)
		return 0;
	if (store->durable) {
		ret = lsmem_block_begin(io, 0, LSMEM_TYPE_TOMBSTONE, &ap);
		if (ret)
			return ret;
	}
	rcu_read_lock();
	preempt_disable();
	do {
		word = lsmem_block_look(store, block, &last);
		if (lsmem_word_state(word) != LSMEM_WORD_LIVE) {
			preempt_enable();
			rcu_read_unlock();
			if (store->durable)
				lsmem_append_abort(store, &ap);
			return 0;
		}
		version = lsmem_handle_version(store, last);
		if (store->durable)
			lsmem_tombstone_stamp(store, &ap, key, version, 0);
		busy = lsmem_word_next(word, LSMEM_WORD_BUSY, 0);
	} while (!lsmem_word_exchange(h, word, busy));
	WRITE_ONCE(*lsmem_discarded_at(&store->handles, block), version);
	/* A task that sees the word FREE sees the version. */
	smp_store_release(&h->word, lsmem_word_next(busy, LSMEM_WORD_FREE, 0));
	preempt_enable();
	lsmem_entry_dead(store, lsmem_word_position(word), lsmem_entry_size(LSMEM_BLOCK));
	rcu_read_unlock();
	lsmem_tombstone_done(store, &ap, LSMEM_BLOCK);
	if (store->durable)
		lsmem_append_commit(store, &ap);
	percpu_counter_dec(&store->handles.used);
	return 0;
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

static void lsmem_block_read(struct lsmem_block_io *io, u64 block)
{
	u64 word;

	rcu_read_lock();
	/* Before the entry. */
	word = smp_load_acquire(&lsmem_handle_at(&io->store->handles, block)->word);
	if (lsmem_word_state(word) == LSMEM_WORD_LIVE)
		lsmem_block_copy_out(io, lsmem_word_position(word));
	else
		lsmem_block_zero_out(io);
	rcu_read_unlock();
}

/* ---- Bios --------------------------------------------------------------- */

/**
 * lsmem_block_blocks - carry out a bio, block by block
 * @io: its sectors are whole blocks of the disk
 *
 * Context: may sleep.
 * Return: 0; -ENODEV: the store is being destroyed; -ETIMEDOUT: the deadline has passed;
 * -EOPNOTSUPP.
 */
int lsmem_block_blocks(struct lsmem_block_io *io)
{
	u64 block = io->iter.bi_sector / LSMEM_BLOCK_SECTORS;
	u64 end = block + bio_sectors(io->bio) / LSMEM_BLOCK_SECTORS;
	int ret = 0;

	for (; block < end && !ret; block++) {
		switch (bio_op(io->bio)) {
		case REQ_OP_READ:
			lsmem_block_read(io, block);
			break;
		case REQ_OP_WRITE:
			ret = lsmem_block_write(io, block);
			break;
		case REQ_OP_DISCARD:
		case REQ_OP_WRITE_ZEROES:
			/* REQ_NOUNMAP needs no handling: space is reserved for every block. */
			ret = lsmem_block_delete(io, block);
			break;
		default:
			return -EOPNOTSUPP;
		}
		cond_resched();
	}
	return ret;
}
