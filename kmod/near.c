// SPDX-License-Identifier: GPL-2.0
/*
 * Near reads: what is on backups only comes from a drive of this host without a switch to the daemon and
 * back.
 *
 * The daemon names a block device that is one of its backups, and where the log of a segment begins on it,
 * once for each segment, when it has answered a request for it.  A request for an object of such a segment
 * is read here.  Nothing of what the daemon says is trusted: what was read counts only if the object is
 * found in it, tied to its segment and with its CRC (fetch.c).  So a frame that was given away meanwhile
 * has nothing for us.  Whatever goes wrong, the daemon gets the request, as if it had not been tried: it
 * knows the other replicas, repeats, mends, and says what is lost.  If the object was not there, or the drive
 * failed, nothing more of that segment is read here.
 *
 * The reads of a store are few, and have their memory from the beginning, on the daemon's account: a call that
 * finds all busy asks the daemon, whose own reads are bounded, so that a group commit has the drive.  One thread
 * has LSMEM_NEAR_EACH of them at most, so that a vector call of many objects leaves some to other calls.
 *
 * A worker for each read would cost two switches of threads, more than all else: so the thread that waits for an
 * object of a read carries out its end, whichever is there first.  The drive's interrupt only says that it has ended.
 * From then on the read is the waiters', until one claims it, or the thread that has asked waits no more: that leaves it
 * to a worker.  So does the watch, LSMEM_NEAR_LATE_MS after the read has begun: the thread may be held up, by a page fault
 * of its own memory, for as long as its user likes.  And so does a thread that would have to wait for tier.fill, since
 * that wait could not be bounded.
 *
 * A read holds the drive, and the memory of the store, until it has ended, however late.  No task waits so long:
 * of one that takes LSMEM_NEAR_LATE_MS, the daemon gets the request, too.  The drive holds the module.
 *
 * Locks: tier.fill; nears.lock, with fetches.lock inside; nears.ends, with locks of wait queues inside.  The last orders
 * what the drive has written, and all else of the read, before the claim.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "near.h"
#include "store.h"

#define LSMEM_NEAR_READS	16u	/* of a store, at a time */
#define LSMEM_NEAR_EACH		12u	/* of these, of one thread */
#define LSMEM_NEAR_ORDER	3	/* of a read's memory: longer ones are the daemon's */
#define LSMEM_NEAR_BYTES	(PAGE_SIZE << LSMEM_NEAR_ORDER)
#define LSMEM_NEAR_LATE_MS	100	/* a drive that works, under load, takes less */

/**
 * struct lsmem_near_frame - where the log of a segment is on the drive
 * @id: of the segment; 0: it is not known
 * @offset: of its first block, bytes
 */
struct lsmem_near_frame {
	u64 id;
	u64 offset;
};

/**
 * struct lsmem_near_one - a read
 * @node: in @idle of the drive, unless it is under way
 * @drive: of this drive
 * @store: while it is under way, with a reference
 * @want: what it is for; @want.nr is 0 if it is not under way
 * @begun: when, jiffies
 * @late: it has been under way for long; nears.lock
 * @left: a worker carries out its end, none of @want.part knows it; nears.ends, as @ended
 * @ended: the drive has ended it
 * @pages: its memory
 * @bio: the request
 * @vec: of @bio
 * @work: carries out its end, if it was @left
 */
struct lsmem_near_one {
	struct list_head node;
	struct lsmem_near_drive *drive;
	struct lsmem_store *store;
	struct lsmem_near_want want;
	unsigned long begun;
	bool late;
	bool left;
	bool ended;
	struct page *pages;
	struct bio *bio;
	struct bio_vec vec;
	struct work_struct work;
};

/**
 * struct lsmem_near_drive - a drive that is read here
 * @refs: the store's, one of each read that is under way, and one while it is @watched
 * @store: of the drive
 * @file: of the block device
 * @watch: looks for late reads
 * @watched: @watch is to run, and has a reference to @store, too
 * @idle: reads that are not under way
 * @ones: all of them
 * @gone: frees it, if that is no matter of the thread that gives back the last reference
 * @nr: elements of @frames
 * @frames: by index of the segment
 */
struct lsmem_near_drive {
	struct kref refs;
	struct lsmem_store *store;
	struct file *file;
	struct delayed_work watch;
	bool watched;
	struct list_head idle;
	struct lsmem_near_one ones[LSMEM_NEAR_READS];
	struct work_struct gone;
	u32 nr;
	struct lsmem_near_frame frames[];
};

static struct workqueue_struct *lsmem_near_threads;

/* ---- The drive ----------------------------------------------------------- */

static void lsmem_near_free(struct kref *refs)
{
	struct lsmem_near_drive *drive = container_of(refs, struct lsmem_near_drive, refs);
	u32 i;

	for (i = 0; i < LSMEM_NEAR_READS; i++) {
		if (drive->ones[i].pages)
			__free_pages(drive->ones[i].pages, LSMEM_NEAR_ORDER);
		kfree(drive->ones[i].bio);
	}
	fput(drive->file);
	kvfree(drive);
	module_put(THIS_MODULE);
}

static void lsmem_near_gone(struct work_struct *work)
{
	struct lsmem_near_drive *drive = container_of(work, struct lsmem_near_drive, gone);

	lsmem_near_free(&drive->refs);
}

static void lsmem_near_free_later(struct kref *refs)
{
	queue_work(lsmem_near_threads, &container_of(refs, struct lsmem_near_drive, refs)->gone);
}

static void lsmem_near_put(struct lsmem_near_drive *drive)
{
	if (drive)
		kref_put(&drive->refs, lsmem_near_free);
}

/* No thread that waits for a part carries out the end from here on: the caller does, or a worker. */
static void lsmem_near_claim(struct lsmem_near_one *one)
{
	u32 i;

	lockdep_assert_held(&one->store->nears.ends);
	for (i = 0; i < one->want.nr; i++) {
		WRITE_ONCE(one->want.part[i]->read, NULL);
		WRITE_ONCE(one->want.part[i]->ended, false);
	}
}

/* A read becomes a worker's, unless it is already, or is claimed. Returns true if it is to be queued: it has ended. */
static bool lsmem_near_give(struct lsmem_near_one *one)
{
	lockdep_assert_held(&one->store->nears.ends);
	one->left = true;
	lsmem_near_claim(one);
	return one->ended;
}

/* A read takes long. Returns true if its request is to be the daemon's, too: the drive has not ended it. */
static bool lsmem_near_overdue(struct lsmem_store *store, struct lsmem_near_one *one)
{
	bool queue = false, ended;
	unsigned long flags;

	lockdep_assert_held(&store->nears.lock);
	spin_lock_irqsave(&store->nears.ends, flags);
	ended = one->ended;
	if (READ_ONCE(one->want.part[0]->read) == one)
		queue = lsmem_near_give(one);
	spin_unlock_irqrestore(&store->nears.ends, flags);
	if (queue)
		queue_work(lsmem_near_threads, &one->work);
	return !ended;
}

/* Late reads are the daemon's, too. Runs as long as reads are under way. */
static void lsmem_near_watch(struct work_struct *work)
{
	struct lsmem_near_drive *drive = container_of(work, struct lsmem_near_drive, watch.work);
	struct lsmem_store *store = drive->store;
	bool any = false;
	u32 i, j;

	spin_lock(&store->nears.lock);
	for (i = 0; i < LSMEM_NEAR_READS; i++) {
		struct lsmem_near_one *one = &drive->ones[i];

		if (!one->want.nr || one->late)
			continue;
		one->late = time_after_eq(jiffies, one->begun + msecs_to_jiffies(LSMEM_NEAR_LATE_MS));
		if (one->late && lsmem_near_overdue(store, one))
			for (j = 0; j < one->want.nr; j++)
				one->want.late(store, one->want.part[j]);
		any |= !one->late;
	}
	drive->watched = any;
	spin_unlock(&store->nears.lock);
	if (any) {
		queue_delayed_work(lsmem_near_threads, &drive->watch, msecs_to_jiffies(LSMEM_NEAR_LATE_MS));
		return;
	}
	put_device(&store->dev);
	lsmem_near_put(drive);
}

/* Carry out the end of a read that the caller has claimed, and gives back its references after that. tier.fill held. */
static void lsmem_near_finish(struct lsmem_near_one *one)
{
	u32 length = one->bio->bi_status ? 0 : lsmem_block_round(one->want.bytes);
	const struct lsmem_near_want want = one->want;
	struct lsmem_near_drive *drive = one->drive;
	void *data = page_address(one->pages);
	struct lsmem_store *store = one->store;
	int ret;

	lockdep_assert_held(&store->tier.fill);
	bio_uninit(one->bio);
	/* Behind the cut of a sealed segment there can be whole entries that do not count. */
	if (length)
		memset(data + want.bytes, 0, length - want.bytes);
	spin_lock(&store->nears.lock);
	one->want.nr = 0;		/* late no more, and none of its owner */
	spin_unlock(&store->nears.lock);
	ret = want.done(store, &want, data, length);
	spin_lock(&store->nears.lock);
	/* Something has moved, or is damaged: to look here again is in vain. */
	if ((ret == -EIO || ret == -EBADMSG) && drive->frames[want.segment].id == want.id)
		drive->frames[want.segment].id = 0;
	list_add(&one->node, &drive->idle);
	spin_unlock(&store->nears.lock);
}

static void lsmem_near_work(struct work_struct *work)
{
	struct lsmem_near_one *one = container_of(work, struct lsmem_near_one, work);
	struct lsmem_near_drive *drive = one->drive;
	struct lsmem_store *store = one->store;

	mutex_lock(&store->tier.fill);
	lsmem_near_finish(one);
	mutex_unlock(&store->tier.fill);
	put_device(&store->dev);
	lsmem_near_put(drive);
}

/*
 * As soon as the lock is free, another processor can have carried out the end: no member of @one is used from then on, unless
 * it is left to a worker, which only this queues.  The lock itself is as a completion's.
 */
static void lsmem_near_ended(struct bio *bio)
{
	struct lsmem_near_one *one = bio->bi_private;
	struct lsmem_nears *nears = &one->store->nears;
	unsigned long flags;
	bool left;
	u32 i;

	spin_lock_irqsave(&nears->ends, flags);
	left = one->left;
	one->ended = true;
	for (i = 0; !left && i < one->want.nr; i++) {
		WRITE_ONCE(one->want.part[i]->ended, true);
		one->want.ended(one->want.part[i]);
	}
	spin_unlock_irqrestore(&nears->ends, flags);
	if (left)
		queue_work(lsmem_near_threads, &one->work);
}

/* Returns a drive with one reference, or an ERR_PTR(). @file: its reference becomes the drive's. */
static struct lsmem_near_drive *lsmem_near_make(struct lsmem_store *store, struct file *file)
{
	struct lsmem_near_drive *drive;
	u32 i;

	drive = kvzalloc(struct_size(drive, frames, store->segments.nr), GFP_KERNEL_ACCOUNT);
	if (!drive) {
		fput(file);
		return ERR_PTR(-ENOMEM);
	}
	__module_get(THIS_MODULE);	/* this is a call of a file of it */
	kref_init(&drive->refs);
	INIT_LIST_HEAD(&drive->idle);
	INIT_DELAYED_WORK(&drive->watch, lsmem_near_watch);
	INIT_WORK(&drive->gone, lsmem_near_gone);
	drive->store = store;
	drive->file = file;
	drive->nr = store->segments.nr;
	for (i = 0; i < LSMEM_NEAR_READS; i++) {
		struct lsmem_near_one *one = &drive->ones[i];

		one->drive = drive;
		INIT_WORK(&one->work, lsmem_near_work);
		one->pages = alloc_pages(GFP_KERNEL_ACCOUNT | __GFP_COMP, LSMEM_NEAR_ORDER);
		one->bio = bio_kmalloc(0, GFP_KERNEL_ACCOUNT);
		if (!one->pages || !one->bio) {
			lsmem_near_put(drive);
			return ERR_PTR(-ENOMEM);
		}
		list_add_tail(&one->node, &drive->idle);
	}
	return drive;
}

/* The block device that a descriptor of the caller reads, or an ERR_PTR(). */
static struct file *lsmem_near_open(int fd)
{
	struct file *file = fget(fd);
	int ret = 0;

	if (!file)
		return ERR_PTR(-EBADF);
	if (!S_ISBLK(file_inode(file)->i_mode))
		ret = -ENOTBLK;
	else if (!(file->f_mode & FMODE_READ))
		ret = -EBADF;
	else if (bdev_logical_block_size(I_BDEV(file->f_mapping->host)) > LSMEM_BLOCK)
		ret = -EINVAL;
	if (!ret)
		return file;
	fput(file);
	return ERR_PTR(ret);
}

static void lsmem_near_exchange(struct lsmem_store *store, struct lsmem_near_drive *drive)
{
	struct lsmem_near_drive *old;

	spin_lock(&store->nears.lock);
	old = store->nears.drive;
	WRITE_ONCE(store->nears.drive, drive);	/* see lsmem_near_any() */
	spin_unlock(&store->nears.lock);
	if (old)	/* do not keep the store until @watch looks the next time */
		flush_delayed_work(&old->watch);
	lsmem_near_put(old);
}

/**
 * lsmem_near_forget - read nothing here from now on
 * @store: the store
 *
 * Reads that are under way end later.  Context: may sleep.
 */
void lsmem_near_forget(struct lsmem_store *store)
{
	lsmem_near_exchange(store, NULL);
}

static int lsmem_near_drive_tell(struct lsmem_store *store, int fd)
{
	struct lsmem_near_drive *drive = NULL;
	struct file *file;

	if (fd >= 0) {
		file = lsmem_near_open(fd);
		if (IS_ERR(file))
			return PTR_ERR(file);
		drive = lsmem_near_make(store, file);
		if (IS_ERR(drive))
			return PTR_ERR(drive);
	}
	lsmem_near_exchange(store, drive);
	return 0;
}

static int lsmem_near_frame_tell(struct lsmem_store *store, const struct lsmem_near *near)
{
	struct lsmem_near_drive *drive;
	struct lsmem_segment *seg;
	u32 index = 0;
	int ret = 0;

	if (!lsmem_near_any(&store->nears))
		return -ENODEV;
	spin_lock(&store->segments.lock);
	seg = lsmem_segment_find(store, near->segment);
	if (seg)
		index = seg->index;
	spin_unlock(&store->segments.lock);
	if (!seg)
		return -ENOENT;
	spin_lock(&store->nears.lock);
	drive = store->nears.drive;
	if (!drive)		/* it has gone meanwhile */
		ret = -ENODEV;
	else
		drive->frames[array_index_nospec(index, drive->nr)] = (struct lsmem_near_frame){
			.id = near->segment, .offset = near->offset,
		};
	spin_unlock(&store->nears.lock);
	return ret;
}

/**
 * lsmem_near_tell - LSMEM_REPL_NEAR
 * @store: attached
 * @near: see there
 * Return: 0 or an error as there.
 */
long lsmem_near_tell(struct lsmem_store *store, const struct lsmem_near *near)
{
	if (!store->tier.on)
		return -EOPNOTSUPP;
	if (near->flags || near->reserved || near->offset % LSMEM_BLOCK ||
	    near->offset > S64_MAX - LSMEM_SEGMENT_BYTES)
		return -EINVAL;
	return near->segment ? lsmem_near_frame_tell(store, near) : lsmem_near_drive_tell(store, near->fd);
}

/* ---- Reads -------------------------------------------------------------- */

/* A read that is not under way, unless the owner has enough, or NULL. */
static struct lsmem_near_one *lsmem_near_idle(struct lsmem_near_drive *drive, const void *owner)
{
	u32 own = 0, i;

	lockdep_assert_held(&drive->store->nears.lock);
	for (i = 0; owner && i < LSMEM_NEAR_READS; i++)
		own += drive->ones[i].want.nr && drive->ones[i].want.owner == owner;
	return own < LSMEM_NEAR_EACH ? list_first_entry_or_null(&drive->idle, struct lsmem_near_one, node) : NULL;
}

/**
 * lsmem_near_room - could something be read from the near drive now?
 * @store: active
 * @segment: index of the segment
 * @owner: as in struct lsmem_near_want
 *
 * A moment later all can be different.
 */
enum lsmem_near_room lsmem_near_room(struct lsmem_store *store, u32 segment, const void *owner)
{
	enum lsmem_near_room room = LSMEM_NEAR_NEVER;
	struct lsmem_near_drive *drive;

	if (!lsmem_near_any(&store->nears))
		return room;
	spin_lock(&store->nears.lock);
	drive = store->nears.drive;
	if (drive && drive->frames[segment].id)
		room = lsmem_near_idle(drive, owner) ? LSMEM_NEAR_NOW : LSMEM_NEAR_LATER;
	spin_unlock(&store->nears.lock);
	return room;
}

/* A read is about to be under way: those that wait for its parts can learn of it. */
static void lsmem_near_begin(struct lsmem_near_one *one)
{
	struct lsmem_nears *nears = &one->store->nears;
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&nears->ends, flags);
	one->ended = false;
	one->left = !one->want.owner;
	for (i = 0; !one->left && i < one->want.nr; i++)
		WRITE_ONCE(one->want.part[i]->read, one);
	spin_unlock_irqrestore(&nears->ends, flags);
}

/**
 * lsmem_near_read - read from the near drive, if there is one that has what is wanted
 * @store: active
 * @want: copied
 *
 * If it has an owner, a thread has to call lsmem_near_end() for a part of it that has ended, or lsmem_near_leave(); until
 * one does, nothing is done for LSMEM_NEAR_LATE_MS.
 *
 * Context: may sleep; called by what can wait for a request of the drive.
 * Return: true: @want->done will be called; false: it will not.
 */
bool lsmem_near_read(struct lsmem_store *store, const struct lsmem_near_want *want)
{
	struct lsmem_near_drive *drive;
	struct lsmem_near_one *one = NULL;
	bool watch = false;
	u64 offset = 0;

	if (!want->bytes || want->bytes > LSMEM_NEAR_BYTES)
		return false;
	spin_lock(&store->nears.lock);
	drive = store->nears.drive;
	if (drive && drive->frames[want->segment].id == want->id)
		one = lsmem_near_idle(drive, want->owner);
	if (one) {
		list_del_init(&one->node);
		one->want = *want;
		one->begun = jiffies;
		one->late = false;
		one->store = store;
		get_device(&store->dev);
		kref_get(&drive->refs);
		lsmem_near_begin(one);
		offset = drive->frames[want->segment].offset;
		watch = !drive->watched;
		drive->watched = true;
	}
	spin_unlock(&store->nears.lock);
	if (!one)
		return false;
	if (watch) {
		kref_get(&drive->refs);		/* the read's is still there */
		get_device(&store->dev);
		queue_delayed_work(lsmem_near_threads, &drive->watch, msecs_to_jiffies(LSMEM_NEAR_LATE_MS));
	}
	bio_init(one->bio, I_BDEV(drive->file->f_mapping->host), &one->vec, 1, REQ_OP_READ | REQ_SYNC);
	one->bio->bi_iter.bi_sector = (offset + (u64)want->block * LSMEM_BLOCK) >> SECTOR_SHIFT;
	__bio_add_page(one->bio, one->pages, lsmem_block_round(want->bytes), 0);
	one->bio->bi_end_io = lsmem_near_ended;
	one->bio->bi_private = one;
	lsmem_count(store, near_reads, 1);
	submit_bio(one->bio);
	return true;
}

/**
 * lsmem_near_end - carry out the end of the read of a part, if the drive has ended it
 * @store: active
 * @part: of it; the caller keeps it
 *
 * Does nothing if that has been done meanwhile; if tier.fill is held, a worker is to do it.
 *
 * Context: may sleep.
 */
void lsmem_near_end(struct lsmem_store *store, struct lsmem_near_part *part)
{
	struct lsmem_near_drive *drive = NULL;
	struct lsmem_near_one *one;
	unsigned long flags;

	if (!mutex_trylock(&store->tier.fill)) {
		lsmem_near_leave(store, part);
		return;
	}
	spin_lock_irqsave(&store->nears.ends, flags);
	one = part->read;
	if (one && one->ended)
		lsmem_near_claim(one);
	else
		one = NULL;
	spin_unlock_irqrestore(&store->nears.ends, flags);
	if (one) {
		drive = one->drive;
		lsmem_count(store, near_waited, 1);
		lsmem_near_finish(one);
	}
	mutex_unlock(&store->tier.fill);
	if (!drive)
		return;
	put_device(&store->dev);
	/* The last close of a drive writes its pages, and can take as long as the drive likes. */
	kref_put(&drive->refs, lsmem_near_free_later);
}

/**
 * lsmem_near_leave - leave the end of the read of a part to a worker
 * @store: active
 * @part: of it, or of none that is under way; the caller keeps it
 *
 * Threads that wait for a part go on to wait, for what it is for.
 *
 * Context: does not sleep.
 */
void lsmem_near_leave(struct lsmem_store *store, struct lsmem_near_part *part)
{
	struct lsmem_near_one *one;
	unsigned long flags;
	bool queue = false;

	if (!READ_ONCE(part->read))	/* a thread sees what it has begun itself; of others' reads this is a hint */
		return;
	spin_lock_irqsave(&store->nears.ends, flags);
	one = part->read;
	if (one)
		queue = lsmem_near_give(one);
	spin_unlock_irqrestore(&store->nears.ends, flags);
	if (queue)
		queue_work(lsmem_near_threads, &one->work);
}

/**
 * lsmem_near_prepare - prepare a store without a near drive
 * @store: the store
 */
void lsmem_near_prepare(struct lsmem_store *store)
{
	spin_lock_init(&store->nears.lock);
	spin_lock_init(&store->nears.ends);
}

/**
 * lsmem_near_init - prepare near reads
 * Return: 0 or -ENOMEM.
 */
int lsmem_near_init(void)
{
	lsmem_near_threads = alloc_workqueue("lsmem-near", WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_HIGHPRI, 0);
	return lsmem_near_threads ? 0 : -ENOMEM;
}

/**
 * lsmem_near_exit - undo lsmem_near_init()
 *
 * No read is under way: each holds the module.
 */
void lsmem_near_exit(void)
{
	destroy_workqueue(lsmem_near_threads);
}
