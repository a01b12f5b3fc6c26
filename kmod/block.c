// SPDX-License-Identifier: GPL-2.0
/*
 * The block device of a block store: blocks of 4 KiB over the same log.  Bios, and the disk; what
 * a bio does to its blocks is in blockio.c.
 *
 * A write never fails for lack of space.  The device is smaller than what the store admits,
 * by a tombstone per block and the share of memory that tombstones may take
 * (lsmem_block_capacity()), so an append that finds no seglet only waits for the cleaner.
 * A bio has one deadline, flush_ms after its start, for all waits; after that it ends with a
 * timeout, never with "no space".
 *
 * The task that submits a bio carries it out and completes it; that may be a kernel thread
 * that writes back pages to free memory.  Nothing is allocated, and nothing that a bio waits
 * for (cleaner, daemon) allocates either.  Bios that wait for the daemon are carried out by
 * other threads (bioqueue.c).  FLUSH waits for all heads as they are at its start, FUA for its
 * own places.  A read of a tiered store that meets blocks which are not in memory waits in no thread
 * (coldbio.c); it needs memory, and its daemon.
 *
 * Locks: none of its own.  Opens are counted by the block layer, under
 * disk->open_mutex, which comes after store->mutex.
 */
#include <linux/backing-dev.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/pagemap.h>

#include "ahead.h"
#include "bioqueue.h"
#include "block.h"
#include "blockio.h"
#include "coldbio.h"
#include "compat/compat.h"
#include "durable.h"
#include "log.h"
#include "store.h"

#define LSMEM_BLOCK_CAPACITY_UNIT ((1u << 20) / LSMEM_BLOCK)	/* whole MiB */

/* Most in one discard: the most that a bio can hold. */
#define LSMEM_DELETE_SECTORS	(round_down(UINT_MAX, LSMEM_BLOCK) >> SECTOR_SHIFT)

static int lsmem_block_major;

/**
 * lsmem_block_capacity - blocks that a block store can always hold
 * @store: its capacity is set
 *
 * Counts a tombstone of the former contents per block, and room for tombstones that wait for
 * the cleaner.
 */
u64 lsmem_block_capacity(const struct lsmem_store *store)
{
	u64 bytes = store->capacity - store->capacity * LSMEM_TOMBSTONES_MAX_DEFAULT / 1000;
	u64 blocks = bytes / (lsmem_entry_size(LSMEM_BLOCK) +
			      lsmem_entry_size(0));

	return round_down(blocks, LSMEM_BLOCK_CAPACITY_UNIT);
}

static u64 lsmem_block_deadline(const struct lsmem_store *store)
{
	return ktime_get_ns() + (u64)READ_ONCE(store->repl.flush_ms) * NSEC_PER_MSEC;
}

/* ---- The disk ----------------------------------------------------------- */

/* Carries out a bio, without the waits of lsmem_block_fua(). @ahead: out: what it means for next ones. */
static int lsmem_block_do(struct lsmem_block_io *io, struct lsmem_ahead *ahead)
{
	struct lsmem_store *store = io->store;
	struct bio *bio = io->bio;
	int ret;

	/* The sector indexes the table: do not rely on the checks of the layers above. */
	if ((bio->bi_iter.bi_sector | bio_sectors(bio)) % LSMEM_BLOCK_SECTORS ||
	    bio_end_sector(bio) > store->handles.nr * LSMEM_BLOCK_SECTORS)
		return -EINVAL;
	if (bio->bi_opf & REQ_PREFLUSH && store->durable) {
		ret = lsmem_sync(store, lsmem_block_left(io->deadline));
		if (ret)
			return ret;
	}
	if (!bio_sectors(bio))
		return 0;
	if (store->tier.on && bio_op(bio) == REQ_OP_READ) {
		lsmem_ahead_look(store, bio, ahead);
		io->once = ahead->once;
	}
	return lsmem_block_blocks(io);
}

/* Wait until the changes of a FUA bio are durable, on a durable store. */
static int lsmem_block_fua(const struct bio *bio, const struct lsmem_place *last, u64 deadline)
{
	struct lsmem_store *store = bio->bi_bdev->bd_disk->private_data;

	if (!(bio->bi_opf & REQ_FUA) || !bio_sectors(bio))
		return 0;
	/* The tombstone of a block that was found free may not be durable yet. */
	if (bio_op(bio) != REQ_OP_WRITE)
		return lsmem_sync(store, lsmem_block_left(deadline));
	return lsmem_wait_durable(store, last, lsmem_block_left(deadline));
}

static blk_status_t lsmem_block_status(int error)
{
	switch (error) {
	case 0:
		return BLK_STS_OK;
	case -EREMCHG:		/* the store is frozen */
	case -ETIMEDOUT:	/* of FLUSH and FUA: applied, durability unknown */
		return BLK_STS_TIMEOUT;
	case -ENODEV:
	case -EAGAIN:		/* the store is being destroyed */
		return BLK_STS_OFFLINE;
	case -EOPNOTSUPP:
		return BLK_STS_NOTSUPP;
	default:
		return BLK_STS_IOERR;
	}
}

/*
 * Carry out a bio, without the waits of lsmem_block_fua().  All waits end by @deadline; 0: flush_ms
 * after @start.  @last: out, place of its last change.  Returns as lsmem_block_blocks(); with
 * -LSMEM_ECOLD the bio is coldbio.c's, and may have ended.
 */
static int lsmem_block_begin_bio(struct bio *bio, unsigned int writer, unsigned long start,
				 u64 deadline, struct lsmem_place *last)
{
	struct lsmem_store *store = bio->bi_bdev->bd_disk->private_data;
	struct lsmem_block_io io = {
		.store = store,
		.bio = bio,
		.iter = bio->bi_iter,
		.head = lsmem_log_head_of(store, writer),
		.start = start,
		.deadline = deadline,
		.fua = bio->bi_opf & REQ_FUA && store->durable,
	};
	struct lsmem_ahead ahead = { 0 };
	int ret = lsmem_block_do(&io, &ahead);

	*last = io.last;
	if (unlikely(ret == -LSMEM_ECOLD))
		lsmem_coldbio_add(store->cold_bios, &io);
	if (unlikely(ahead.to && (ret == -LSMEM_ECOLD || ahead.from < ahead.end)))
		lsmem_ahead_ask(store, &ahead, ret == -LSMEM_ECOLD);
	return ret;
}

static void lsmem_block_complete(struct bio *bio, int error, unsigned long start)
{
	bio->bi_status = lsmem_block_status(error);
	bio_end_io_acct(bio, start);
	bio_endio(bio);
}

/*
 * Start all bios before waiting for the first: they become durable together, and the waits take
 * no longer than one.  Each carrier uses its own head, because I/O in flight for a segment holds
 * up later ranges of the same segment.
 */
static void lsmem_block_carry_out(struct bio_list *bios, unsigned int carrier)
{
	const struct lsmem_store *store = bios->head->bi_bdev->bd_disk->private_data;
	u64 deadline = lsmem_block_deadline(store);
	struct {
		struct bio *bio;
		struct lsmem_place last;
		unsigned long start;
		int error;
	} begun[LSMEM_BIOS_TOGETHER];
	unsigned int nr = 0, i;
	struct bio *bio;

	while ((bio = bio_list_pop(bios))) {
		begun[nr].bio = bio;
		begun[nr].start = bio_start_io_acct(bio);
		begun[nr].error = lsmem_block_begin_bio(bio, carrier, begun[nr].start, deadline,
							&begun[nr].last);
		nr += begun[nr].error != -LSMEM_ECOLD;	/* then it ends by itself */
	}
	for (i = 0; i < nr; i++)
		lsmem_block_complete(begun[i].bio,
				     begun[i].error ?:
				     lsmem_block_fua(begun[i].bio, &begun[i].last, deadline),
				     begun[i].start);
}

static void lsmem_block_submit(struct bio *bio)
{
	struct lsmem_store *store = bio->bi_bdev->bd_disk->private_data;
	struct lsmem_place last;
	unsigned long start;
	int ret;

	if (bio->bi_opf & REQ_NOWAIT) {	/* a write may wait for the cleaner */
		bio_wouldblock_error(bio);
	} else if (store->waiting && bio->bi_opf & (REQ_PREFLUSH | REQ_FUA)) {
		lsmem_bioqueue_add(store->waiting, bio);
	} else {
		start = bio_start_io_acct(bio);
		ret = lsmem_block_begin_bio(bio, raw_smp_processor_id(), start, 0, &last);
		if (likely(ret != -LSMEM_ECOLD))
			lsmem_block_complete(bio, ret, start);
	}
}

/* Called under disk->open_mutex: see lsmem_block_busy(). */
static int lsmem_block_open(LSMEM_OPENED *opened, LSMEM_OPEN_MODE mode)
{
	const struct lsmem_store *store = lsmem_opened_disk(opened)->private_data;

	return READ_ONCE(store->sealed) ? -EBUSY : 0;
}

static const struct block_device_operations lsmem_block_ops = {
	.owner = THIS_MODULE,
	.submit_bio = lsmem_block_submit,
	.open = lsmem_block_open,
};

static void lsmem_block_unwait(struct lsmem_store *store)
{
	lsmem_bioqueue_free(store->waiting);
	store->waiting = NULL;
	lsmem_coldbios_free(store->cold_bios);
	store->cold_bios = NULL;
	lsmem_aheads_free(store->aheads);
	store->aheads = NULL;
}

/* Make what bios need that wait. */
static int lsmem_block_wait(struct lsmem_store *store)
{
	if (store->durable)
		store->waiting = lsmem_bioqueue_make(store->name, lsmem_block_carry_out);
	if (store->tier.on) {
		store->cold_bios = lsmem_coldbios_make(store, lsmem_block_complete);
		store->aheads = lsmem_aheads_make();
	}
	return !store->waiting == !store->durable && !store->cold_bios == !store->tier.on &&
	       !store->aheads == !store->tier.on ? 0 : -ENOMEM;
}

/**
 * lsmem_block_add - add the disk of a block store
 * @store: active, which for a durable store is after recovery (invariant 18); its device
 *	exists
 *
 * The block layer scans for partitions, and so reads from the store.  Of a tiered store this needs the
 * daemon, whose call to activate it has not returned: the first who opens the disk scans.
 * Return: 0 or an error of the block layer.
 */
int lsmem_block_add(struct lsmem_store *store)
{
	struct gendisk *disk;
	int ret;

	disk = lsmem_disk_alloc(LSMEM_BLOCK, LSMEM_DELETE_SECTORS, store->durable);
	if (IS_ERR(disk))
		return PTR_ERR(disk);
	disk->major = lsmem_block_major;
	disk->first_minor = store->minor;
	disk->minors = 1;	/* the block layer numbers partitions */
	disk->fops = &lsmem_block_ops;
	disk->private_data = store;
	strscpy(disk->disk_name, store->name, DISK_NAME_LEN);
	set_capacity(disk, store->handles.nr * LSMEM_BLOCK_SECTORS);
	ret = lsmem_block_wait(store);
	if (ret)
		goto err_free;
	if (store->tier.on)
		set_bit(GD_SUPPRESS_PART_SCAN, &disk->state);
	ret = device_add_disk(&store->dev, disk, NULL);
	/* The arguments are valid: this means that there was no memory for the device's name. */
	if (ret == -EINVAL)
		ret = -ENOMEM;
	if (ret)
		goto err_free;
	if (store->tier.on) {
		/* Not before: 6.1 sets the default when a disk is added. A rule of udev may be faster. */
		if (disk->bdi->ra_pages == VM_READAHEAD_PAGES)
			disk->bdi->ra_pages = LSMEM_AHEAD_BYTES / PAGE_SIZE;
		clear_bit(GD_SUPPRESS_PART_SCAN, &disk->state);
		set_bit(GD_NEED_PART_SCAN, &disk->state);
	}
	smp_store_release(&store->disk, disk);	/* see lsmem_store_give() */
	return 0;
err_free:
	lsmem_block_unwait(store);
	put_disk(disk);
	return ret;
}

/**
 * lsmem_block_del - remove the disk
 * @store: sealed and not busy, or its disk was never added
 *
 * Returns when the last bio has been completed and no other can arrive.
 */
void lsmem_block_del(struct lsmem_store *store)
{
	if (!store->disk)
		return;
	del_gendisk(store->disk);
	lsmem_block_unwait(store);
	put_disk(store->disk);
	store->disk = NULL;
}

/**
 * lsmem_block_busy - is the disk, or a partition of it, open?
 * @store: sealed: an open at the same time is refused, or seen here
 */
bool lsmem_block_busy(struct lsmem_store *store)
{
	bool busy;

	if (!store->disk)
		return false;
	mutex_lock(&store->disk->open_mutex);
	busy = disk_openers(store->disk);
	mutex_unlock(&store->disk->open_mutex);
	return busy;
}

/**
 * lsmem_block_init - register the disks' major number
 *
 * Context: sleeps.  Return: 0 or an error of the block layer.
 */
int lsmem_block_init(void)
{
	int major = register_blkdev(0, "lsmem");

	if (major < 0)
		return major;
	lsmem_block_major = major;
	return 0;
}

/**
 * lsmem_block_exit - undo lsmem_block_init()
 *
 * Context: sleeps; there is no disk any more.
 */
void lsmem_block_exit(void)
{
	unregister_blkdev(lsmem_block_major, "lsmem");
}
