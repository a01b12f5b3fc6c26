// SPDX-License-Identifier: GPL-2.0
/*
 * Reads of blocks that are on backups only.
 *
 * A bio that meets a COLD block goes through the rest of its blocks: those in memory are copied out, all
 * others are asked for at once (fetch.c).  Then its submitter goes on, and the bio waits here, in no
 * thread.  Each answer copies its block out in the thread that brings it, before the block can be evicted
 * again; the last one ends the bio.  So a bio that is larger than what memory can hold ends, too.
 *
 * A bio has a pending count: of each answer that is to come, and of the thread that asks.  The thread that
 * drops the last one looks: an error ends the bio; a block that has left memory again before it was copied is asked for
 * again; of a bio with more COLD blocks than its table has room for, the next ones are looked at.  For the
 * latter two it gets in line.
 *
 * Also those stand in line, in turn, that cannot ask because there are too many requests, or no memory.
 * The line moves on when an answer comes; since an answer may be to a request that no bio wants any more,
 * it moves every LSMEM_LINE_MS as well.
 *
 * A bio waits at most fetch_ms.  When the store goes, all requests are answered with an error, which ends
 * all bios.
 *
 * Locks: cold->lock for lists; none is held while blocks are asked for or copied.
 */
#include <linux/bio.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mempool.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "blockio.h"
#include "coldbio.h"
#include "fetch.h"
#include "handle.h"
#include "store.h"

#define LSMEM_COLD_MOST		256u	/* blocks that a bio asks for at once: 1 MiB */
#define LSMEM_COLD_FEW		16u	/* as many if there is no memory for more */
#define LSMEM_COLD_RESERVE	4	/* bios that need no memory */
#define LSMEM_LINE_MS		10

struct lsmem_coldbio;

/**
 * struct lsmem_cold_block - a block that is to be read
 * @want: for fetch.c
 * @c: of the bio
 * @block: which it is
 * @iter: where the block begins in the bio
 * @done: it has been copied out
 */
struct lsmem_cold_block {
	struct lsmem_want want;
	struct lsmem_coldbio *c;
	u64 block;
	struct bvec_iter iter;
	bool done;
};

/**
 * struct lsmem_coldbio - a bio that waits for blocks
 * @cold: the set
 * @node: in cold->bios, until it ends
 * @queued: in cold->line
 * @late: in the list of those that have waited too long
 * @bio: the bio
 * @next: what has not been looked at
 * @once: see struct lsmem_block_io
 * @start: when it began, in jiffies
 * @until: end of its waits, ktime in ns
 * @pending: see above
 * @expired: it has waited too long; under cold->lock
 * @error: 0, or that of the first block that cannot be read
 * @room: entries of @blocks
 * @nr: blocks found COLD
 * @asked: of these, those that had their turn in this round
 * @blocks: @nr
 */
struct lsmem_coldbio {
	struct lsmem_coldbios *cold;
	struct list_head node;
	struct list_head queued;
	struct list_head late;
	struct bio *bio;
	struct bvec_iter next;
	bool once;
	unsigned long start;
	u64 until;
	atomic_t pending;
	bool expired;
	int error;
	u32 room;
	u32 nr;
	u32 asked;
	struct lsmem_cold_block blocks[];
};

/**
 * struct lsmem_coldbios - the bios of a disk that wait for blocks
 * @store: of the disk
 * @end: ends a bio
 * @threads: for @ask and @expire
 * @pool: for bios that get no memory otherwise
 * @lock: for the lists, @nr and @due
 * @bios: all
 * @line: those that are to ask
 * @nr: of @bios, and of those that are just ending
 * @idle: @nr is 0
 * @due: time of @expire, ktime in ns; 0: none
 * @ask: the line moves on
 * @expire: ends what has waited too long
 */
struct lsmem_coldbios {
	struct lsmem_store *store;
	void (*end)(struct bio *bio, int error, unsigned long start);
	struct workqueue_struct *threads;
	mempool_t pool;
	spinlock_t lock;
	struct list_head bios;
	struct list_head line;
	u32 nr;
	wait_queue_head_t idle;
	u64 due;
	struct delayed_work ask;
	struct delayed_work expire;
};

/* ---- One bio ------------------------------------------------------------ */

static struct lsmem_coldbio *lsmem_coldbio_alloc(struct lsmem_coldbios *cold, u32 room)
{
	struct lsmem_coldbio *c = NULL;

	room = clamp(room, LSMEM_COLD_FEW, LSMEM_COLD_MOST);
	if (room > LSMEM_COLD_FEW)
		c = kmalloc(struct_size(c, blocks, room), GFP_NOWAIT | __GFP_NOWARN);
	if (!c) {
		room = LSMEM_COLD_FEW;
		c = mempool_alloc(&cold->pool, GFP_NOIO);
	}
	c->room = room;
	return c;
}

static void lsmem_coldbio_free(struct lsmem_coldbio *c)
{
	if (c->room > LSMEM_COLD_FEW)
		kfree(c);
	else
		mempool_free(c, &c->cold->pool);
}

static void lsmem_coldbio_end(struct lsmem_coldbio *c)
{
	struct lsmem_coldbios *cold = c->cold;

	spin_lock(&cold->lock);
	list_del(&c->node);
	spin_unlock(&cold->lock);
	cold->end(c->bio, c->error, c->start);
	lsmem_coldbio_free(c);
	spin_lock(&cold->lock);
	if (!--cold->nr)
		wake_up_all(&cold->idle);
	spin_unlock(&cold->lock);
}

/* Have all its blocks been read that were found COLD? */
static bool lsmem_coldbio_done(const struct lsmem_coldbio *c)
{
	u32 i;

	for (i = 0; i < c->nr; i++)
		if (!READ_ONCE(c->blocks[i].done))
			return false;
	return true;
}

static void lsmem_coldbio_fail(struct lsmem_coldbio *c, int error)
{
	cmpxchg(&c->error, 0, error);	/* the first one counts */
}

/* The line moves on, after @ms milliseconds at most. */
static void lsmem_coldbios_move(struct lsmem_coldbios *cold, unsigned int ms)
{
	mod_delayed_work(cold->threads, &cold->ask, msecs_to_jiffies(ms));
}

/* Get in line: at its head if it has been there. */
static void lsmem_coldbio_queue(struct lsmem_coldbio *c, bool first, unsigned int ms)
{
	struct lsmem_coldbios *cold = c->cold;

	spin_lock(&cold->lock);
	if (first)
		list_add(&c->queued, &cold->line);
	else
		list_add_tail(&c->queued, &cold->line);
	spin_unlock(&cold->lock);
	lsmem_coldbios_move(cold, ms);
}

/* An answer has come, or all have been asked for. */
static void lsmem_coldbio_put(struct lsmem_coldbio *c)
{
	if (!atomic_dec_and_test(&c->pending))
		return;
	if (c->error || (lsmem_coldbio_done(c) && !c->next.bi_size)) {
		lsmem_coldbio_end(c);
		return;
	}
	atomic_set(&c->pending, 1);
	c->asked = 0;
	lsmem_coldbio_queue(c, false, 0);
}

/* Copy a block out that was COLD. Returns false if it is COLD. */
static bool lsmem_cold_block_read(struct lsmem_cold_block *b)
{
	struct lsmem_block_io io = {
		.store = b->c->cold->store,
		.bio = b->c->bio,
		.iter = b->iter,
	};

	return !lsmem_block_read(&io, b->block, false);
}

static void lsmem_cold_block_answered(struct lsmem_want *want, int result)
{
	struct lsmem_cold_block *b = container_of(want, struct lsmem_cold_block, want);
	struct lsmem_coldbio *c = b->c;

	if (result)
		lsmem_coldbio_fail(c, result);
	else
		WRITE_ONCE(b->done, lsmem_cold_block_read(b));
	if (!list_empty_careful(&c->cold->line))
		lsmem_coldbios_move(c->cold, 0);
	lsmem_coldbio_put(c);
}

/* Go through the rest of the bio: copy out what is in memory, take note of what is COLD. */
static void lsmem_coldbio_look(struct lsmem_coldbio *c)
{
	struct lsmem_block_io io = { .store = c->cold->store, .bio = c->bio, .iter = c->next };
	u64 end = bio_end_sector(c->bio) / LSMEM_BLOCK_SECTORS;

	c->nr = 0;
	c->asked = 0;
	while (io.iter.bi_size && c->nr < c->room) {
		u64 block = end - io.iter.bi_size / LSMEM_BLOCK;
		struct lsmem_cold_block *b = &c->blocks[c->nr];

		if (lsmem_block_read(&io, block, !c->once)) {
			INIT_LIST_HEAD(&b->want.node);
			b->want.answered = lsmem_cold_block_answered;
			b->c = c;
			b->block = block;
			b->iter = io.iter;
			b->done = false;
			c->nr++;
			bio_advance_iter(c->bio, &io.iter, LSMEM_BLOCK);
		}
		cond_resched();
	}
	c->next = io.iter;
}

/* Ask for a block. Returns 0, or as lsmem_fetch_want(). */
static int lsmem_cold_block_ask(struct lsmem_cold_block *b)
{
	struct lsmem_store *store = b->c->cold->store;
	u64 word;
	int ret;

	do {
		word = READ_ONCE(lsmem_handle_at(&store->handles, b->block)->word);
		if (lsmem_word_state(word) == LSMEM_WORD_COLD)
			break;
		WRITE_ONCE(b->done, lsmem_cold_block_read(b));
	} while (!b->done);
	if (b->done)
		return 0;
	atomic_inc(&b->c->pending);
	ret = lsmem_fetch_want(store, b->block, word, &b->want);
	if (ret)
		atomic_dec(&b->c->pending);
	return ret;
}

/* It has failed: wait for no answers any more. */
static void lsmem_coldbio_unwant(struct lsmem_coldbio *c)
{
	u32 i;

	for (i = 0; i < c->nr; i++)
		if (lsmem_fetch_unwant(c->cold->store, &c->blocks[i].want))
			lsmem_coldbio_put(c);	/* not the last: the caller has one */
}

/*
 * Ask for all its blocks that are not there.  Returns false if it must stand in line for the rest; else
 * it may have ended.
 */
static bool lsmem_coldbio_ask(struct lsmem_coldbio *c)
{
	for (; c->asked < c->nr && !READ_ONCE(c->error); c->asked++) {
		struct lsmem_cold_block *b = &c->blocks[c->asked];
		int ret = b->done ? 0 : lsmem_cold_block_ask(b);

		if (ret == -EBUSY)
			return false;
		if (ret)
			lsmem_coldbio_fail(c, ret);
	}
	/* Whatever has failed, it may have been before the last was asked for. */
	if (READ_ONCE(c->error))
		lsmem_coldbio_unwant(c);
	lsmem_coldbio_put(c);
	return true;
}

/* ---- All bios ----------------------------------------------------------- */

static void lsmem_coldbios_ask(struct work_struct *work)
{
	struct lsmem_coldbios *cold = container_of(to_delayed_work(work), struct lsmem_coldbios, ask);
	struct lsmem_coldbio *c;

	for (;;) {
		spin_lock(&cold->lock);
		c = list_first_entry_or_null(&cold->line, struct lsmem_coldbio, queued);
		if (c)
			list_del(&c->queued);
		spin_unlock(&cold->lock);
		if (!c)
			return;
		if (!READ_ONCE(c->error) && lsmem_coldbio_done(c))
			lsmem_coldbio_look(c);
		if (!lsmem_coldbio_ask(c)) {
			lsmem_coldbio_queue(c, true, LSMEM_LINE_MS);
			return;
		}
		cond_resched();
	}
}

/* Have @expire run at @due; lock held. */
static void lsmem_coldbios_due(struct lsmem_coldbios *cold, u64 due)
{
	u64 now = ktime_get_ns();

	cold->due = due;
	mod_delayed_work(cold->threads, &cold->expire,
			 nsecs_to_jiffies(due > now ? due - now : 0) + 1);
}

static void lsmem_coldbios_expire(struct work_struct *work)
{
	struct lsmem_coldbios *cold = container_of(to_delayed_work(work), struct lsmem_coldbios,
						   expire);
	u64 now = ktime_get_ns(), due = U64_MAX;
	struct lsmem_coldbio *c, *next;
	LIST_HEAD(late);

	spin_lock(&cold->lock);
	cold->due = 0;
	list_for_each_entry(c, &cold->bios, node) {
		if (c->expired)
			continue;
		if (c->until > now) {
			due = min(due, c->until);
		} else if (atomic_inc_not_zero(&c->pending)) {
			c->expired = true;
			list_add_tail(&c->late, &late);
		} else {
			due = now;	/* it is ending, or about to ask again */
		}
	}
	if (due != U64_MAX)
		lsmem_coldbios_due(cold, due);
	spin_unlock(&cold->lock);
	list_for_each_entry_safe(c, next, &late, late) {
		lsmem_coldbio_fail(c, -ETIMEDOUT);
		lsmem_coldbio_unwant(c);
		lsmem_coldbio_put(c);
	}
	lsmem_coldbios_move(cold, 0);	/* those in line end there */
}

/**
 * lsmem_coldbio_add - have the rest of a bio read, which begins with a COLD block
 * @cold: of the disk
 * @io: a read; its iter is at that block
 *
 * Context: may sleep, for memory.  The bio ends at some time from now on.
 */
void lsmem_coldbio_add(struct lsmem_coldbios *cold, const struct lsmem_block_io *io)
{
	struct lsmem_coldbio *c = lsmem_coldbio_alloc(cold, io->iter.bi_size / LSMEM_BLOCK);
	bool line;

	c->cold = cold;
	c->bio = io->bio;
	c->next = io->iter;
	c->once = io->once;
	c->start = io->start;
	c->until = ktime_get_ns() + (u64)READ_ONCE(cold->store->fetches.fetch_ms) * NSEC_PER_MSEC;
	c->expired = false;
	c->error = 0;
	atomic_set(&c->pending, 1);
	lsmem_coldbio_look(c);
	spin_lock(&cold->lock);
	list_add_tail(&c->node, &cold->bios);
	cold->nr++;
	if (!cold->due || c->until < cold->due)
		lsmem_coldbios_due(cold, c->until);
	line = !list_empty(&cold->line);
	spin_unlock(&cold->lock);
	if (line)
		lsmem_coldbio_queue(c, false, LSMEM_LINE_MS);
	else if (!lsmem_coldbio_ask(c))
		lsmem_coldbio_queue(c, false, LSMEM_LINE_MS);
}

/**
 * lsmem_coldbios_make - make the set of a disk
 * @store: tiered
 * @end: ends a bio with 0 or an error: -EIO: no backup has a block whole; -ETIMEDOUT; -EAGAIN: the store
 *	is being destroyed.  Context: does not sleep; the thread may be that of a daemon's call
 * Return: the set or NULL.
 */
struct lsmem_coldbios *lsmem_coldbios_make(struct lsmem_store *store,
					   void (*end)(struct bio *bio, int error,
						       unsigned long start))
{
	struct lsmem_coldbios *cold = kzalloc(sizeof(*cold), GFP_KERNEL);
	struct lsmem_coldbio *c;

	if (!cold)
		return NULL;
	cold->threads = alloc_workqueue("%s-cold", WQ_UNBOUND | WQ_MEM_RECLAIM, 0, store->name);
	if (!cold->threads)
		goto err_free;
	if (mempool_init_kmalloc_pool(&cold->pool, LSMEM_COLD_RESERVE,
				      struct_size(c, blocks, LSMEM_COLD_FEW)))
		goto err_threads;
	cold->store = store;
	cold->end = end;
	spin_lock_init(&cold->lock);
	INIT_LIST_HEAD(&cold->bios);
	INIT_LIST_HEAD(&cold->line);
	init_waitqueue_head(&cold->idle);
	INIT_DELAYED_WORK(&cold->ask, lsmem_coldbios_ask);
	INIT_DELAYED_WORK(&cold->expire, lsmem_coldbios_expire);
	return cold;
err_threads:
	destroy_workqueue(cold->threads);
err_free:
	kfree(cold);
	return NULL;
}

static bool lsmem_coldbios_idle(struct lsmem_coldbios *cold)
{
	bool idle;

	spin_lock(&cold->lock);
	idle = !cold->nr;
	spin_unlock(&cold->lock);
	return idle;
}

/**
 * lsmem_coldbios_free - the last bio has been added
 * @cold: NULL: nothing
 *
 * Context: sleeps until all have ended: fetch_ms at most, and at once after lsmem_fetch_stop().
 */
void lsmem_coldbios_free(struct lsmem_coldbios *cold)
{
	if (!cold)
		return;
	lsmem_coldbios_move(cold, 0);
	wait_event(cold->idle, lsmem_coldbios_idle(cold));
	cancel_delayed_work_sync(&cold->ask);
	cancel_delayed_work_sync(&cold->expire);
	destroy_workqueue(cold->threads);
	mempool_exit(&cold->pool);
	kfree(cold);
}
