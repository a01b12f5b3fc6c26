// SPDX-License-Identifier: GPL-2.0
/*
 * Fetching: what is on backups only is brought into memory.
 *
 * A call that finds a COLD word asks for the object and waits.  The request names the word; calls
 * that want the same share it.  The daemon takes requests, reads from a backup and answers with what is
 * there (repl.c).  The object is found in that by its index and its home, and checked by its CRC; of
 * several versions in the block the newest is the one, since the word is that of the newest.  Then it
 * is copied into a cache segment and the word exchanged: COLD becomes LIVE.  A fill loses every race: if
 * the word is not the one that was asked for, the copy is dead, and who waits looks again.
 *
 * If the object lies on a near drive (near.c), it is read from there, and the daemon gets the request only if
 * that is in vain.  Requests for objects that lie close together can be one read; each is answered, or becomes the
 * daemon's, on its own.
 *
 * A request stays until it is answered, or the store goes; the waits for it are bounded by
 * fetch_ms and killable.  What the daemon has taken and not answered is told to its successor.  Where
 * the bytes come from is the daemon's affair: a drive, another host, later another owner's memory.
 *
 * The cleaner asks for whole segments in the same way.  What a snapshot reads through (through.c) is not put into memory; a
 * request can be for several such objects, which lie close together.  Those that are not found in its answer are no
 * failure, and have to be asked for one by one: each may be whole on another backup.
 *
 * Locks: tier.fill for answers; fetches.lock, and inside it segments.lock for a look at a segment.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/freezer.h>
#include <linux/hash.h>
#include <linux/kthread.h>
#include <linux/nospec.h>
#include <linux/poll.h>
#include <linux/refcount.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "cache.h"
#include "entry.h"
#include "fetch.h"
#include "handle.h"
#include "log.h"
#include "space.h"
#include "store.h"

#define LSMEM_FETCH_NR		256	/* requests or answers in a call */
/* The largest object, the blocks around it, and the step from one class of lengths to the next. */
#define LSMEM_FETCH_BYTES	(2 * LSMEM_OBJECT_MAX)
#define LSMEM_FETCH_WHOLE	(1u << 31)	/* in an index: it is that of a segment */
#define LSMEM_FETCH_KEY		16u	/* bytes of a header that tell whose it is */

/**
 * struct lsmem_wanted - a fetch request
 * @node: in fetches.hash
 * @queued: in fetches.queue or fetches.ahead, until it is taken
 * @wait: threads that wait for it
 * @wants: what waits for it in no thread (struct lsmem_want)
 * @refs: the table, until it is answered, and what waits
 * @word: that is wanted; of a segment, its id
 * @since: ktime in ns
 * @index: of the handle, or LSMEM_FETCH_WHOLE and that of the segment
 * @serial: makes it one of many with the same @index
 * @salt: of the segment
 * @segment: its id
 * @block: of its log
 * @left: bytes of its log from there on
 * @limit: the same, of an object whole blocks
 * @result: when it is @answered: 0, or a negative errno
 * @answered: see @result
 * @ahead: nothing has waited for it
 * @near: it is read from a near drive: not the daemon's, until that was in vain
 * @part: of the read from the near drive
 * @through: room for what is read, which is not put into memory; NULL: it is
 * @room: bytes of @through
 * @blocks: to be read for @sought
 * @nr: of @sought; 0: the object is put into memory, or it is a segment
 * @sought: what is read through; the first has @index and @word
 */
struct lsmem_wanted {
	struct hlist_node node;
	struct list_head queued;
	wait_queue_head_t wait;
	struct list_head wants;
	refcount_t refs;
	u64 word;
	u64 since;
	u32 index;
	u32 serial;
	u32 salt;
	u64 segment;
	u32 block;
	u32 left;
	u32 limit;
	int result;
	bool answered;
	bool ahead;
	bool near;
	struct lsmem_near_part part;
	void *through;
	u32 room;
	u32 blocks;
	u32 nr;
	struct lsmem_sought sought[];
};

/**
 * struct lsmem_spot - where an object is looked for
 * @index: of its handle
 * @block: of the log of its segment
 * @limit: bytes of the log from there on, whole blocks
 * @salt: of the segment
 */
struct lsmem_spot {
	u32 index;
	u32 block;
	u32 limit;
	u32 salt;
};

static u64 lsmem_wanted_cookie(const struct lsmem_wanted *wanted)
{
	return (u64)wanted->serial << 32 | wanted->index;
}

/**
 * lsmem_fetches_init - make what fetching needs
 * @store: tier.on is set
 * Return: 0 or -ENOMEM.
 */
int lsmem_fetches_init(struct lsmem_store *store)
{
	struct lsmem_fetches *fetches = &store->fetches;

	spin_lock_init(&fetches->lock);
	INIT_LIST_HEAD(&fetches->queue);
	INIT_LIST_HEAD(&fetches->ahead);
	fetches->fetch_ms = LSMEM_FETCH_MS;
	if (!store->tier.on)
		return 0;
	fetches->hash = kvcalloc(1u << LSMEM_FETCH_BITS, sizeof(*fetches->hash), store->seglets.gfp);
	fetches->buffer = __vmalloc(LSMEM_FETCH_BYTES, store->seglets.gfp);
	fetches->segment = __vmalloc(LSMEM_SEGMENT_BYTES, store->seglets.gfp);
	return fetches->hash && fetches->buffer && fetches->segment ? 0 : -ENOMEM;
}

/**
 * lsmem_fetches_destroy - free what lsmem_fetches_init() has taken
 * @store: initialised, in part or whole; lsmem_fetch_stop() has been called if it was active
 */
void lsmem_fetches_destroy(struct lsmem_store *store)
{
	vfree(store->fetches.segment);
	vfree(store->fetches.buffer);
	kvfree(store->fetches.hash);
}

/* ---- Requests ----------------------------------------------------------- */

static int lsmem_fetch_near(struct lsmem_store *store, const struct lsmem_near_want *want, const void *data,
			    u32 length);

static struct hlist_head *lsmem_wanted_bucket(struct lsmem_store *store, u32 index)
{
	return &store->fetches.hash[hash_32(index, LSMEM_FETCH_BITS)];
}

static void lsmem_wanted_put(struct lsmem_wanted *wanted)
{
	if (!wanted || !refcount_dec_and_test(&wanted->refs))
		return;
	kvfree(wanted->through);
	kvfree(wanted);
}

/* The request for a word, with a reference, or NULL. @ahead: nothing waits for it. */
static struct lsmem_wanted *lsmem_wanted_find(struct lsmem_store *store, u32 index, u64 word, bool ahead)
{
	struct lsmem_wanted *wanted;

	lockdep_assert_held(&store->fetches.lock);
	hlist_for_each_entry(wanted, lsmem_wanted_bucket(store, index), node) {
		if (wanted->index != index || wanted->word != word || wanted->through)
			continue;
		refcount_inc(&wanted->refs);
		if (wanted->ahead && !ahead) {
			wanted->ahead = false;
			if (!list_empty(&wanted->queued))
				list_move_tail(&wanted->queued, &store->fetches.queue);
		}
		return wanted;
	}
	return NULL;
}

static struct lsmem_wanted *lsmem_wanted_by_cookie(struct lsmem_store *store, u64 cookie)
{
	struct lsmem_wanted *wanted, *found = NULL;

	spin_lock(&store->fetches.lock);
	hlist_for_each_entry(wanted, lsmem_wanted_bucket(store, (u32)cookie), node)
		if (lsmem_wanted_cookie(wanted) == cookie && list_empty(&wanted->queued) && !wanted->near)
			found = wanted;
	if (found)
		refcount_inc(&found->refs);
	spin_unlock(&store->fetches.lock);
	return found;
}

/* Fill in a request for the daemon. Returns false if what is wanted is there no more. */
static bool lsmem_wanted_tell(struct lsmem_store *store, struct lsmem_wanted *wanted,
			      struct lsmem_fetch_one *one)
{
	bool whole = wanted->index & LSMEM_FETCH_WHOLE, there;
	u32 index = whole ? wanted->index & ~LSMEM_FETCH_WHOLE : lsmem_cold_segment(wanted->word);
	const struct lsmem_segment *seg = &store->segments.table[index];

	lockdep_assert_held(&store->fetches.lock);
	spin_lock(&store->segments.lock);
	wanted->segment = seg->id;
	wanted->salt = seg->salt;
	wanted->block = whole ? 0 : lsmem_cold_block(wanted->word);
	there = seg->id && seg->close_acked && wanted->block * LSMEM_BLOCK < seg->home;
	wanted->left = there ? seg->home - wanted->block * LSMEM_BLOCK : 0;
	wanted->limit = lsmem_block_round(wanted->left);
	*one = (struct lsmem_fetch_one){
		.cookie = lsmem_wanted_cookie(wanted),
		.segment = seg->id,
		.generation = seg->generation,
		.block = wanted->block,
		.blocks = whole ? wanted->limit / LSMEM_BLOCK : wanted->blocks ?: lsmem_cold_blocks(wanted->word),
		.flags = whole ? LSMEM_FETCH_SEGMENT : 0,
	};
	if (whole)
		wanted->limit = wanted->left;
	spin_unlock(&store->segments.lock);
	return there;
}

/* The daemon is to have a request that was to be read from the near drive. */
static void lsmem_wanted_queue(struct lsmem_store *store, struct lsmem_wanted *wanted)
{
	bool queue;

	spin_lock(&store->fetches.lock);
	queue = wanted->near && !wanted->answered;
	wanted->near = false;
	if (queue)
		list_add_tail(&wanted->queued, &store->fetches.queue);
	spin_unlock(&store->fetches.lock);
	if (queue)
		wake_up_poll(&store->repl.events, EPOLLRDBAND);
}

static struct lsmem_wanted *lsmem_wanted_of(struct lsmem_near_part *part)
{
	return container_of(part, struct lsmem_wanted, part);
}

/* struct lsmem_near_want.late() */
static void lsmem_wanted_late(struct lsmem_store *store, struct lsmem_near_part *part)
{
	lsmem_wanted_queue(store, lsmem_wanted_of(part));
}

/* struct lsmem_near_want.ended(): what waits carries out the end of the read. */
static void lsmem_wanted_ended(struct lsmem_near_part *part)
{
	wake_up_all(&lsmem_wanted_of(part)->wait);
}

/*
 * Read requests from the near drive, as far as that can be; the others are the daemon's.  @wanted: of one segment, near, the
 * first block first; @end: block behind what is to be read, at most; @owner: see struct lsmem_near_want.
 */
static void lsmem_wanted_read(struct lsmem_store *store, struct lsmem_wanted *const *wanted, u32 nr, u32 end,
			      const void *owner)
{
	struct lsmem_near_want want = {
		.segment = lsmem_cold_segment(wanted[0]->word),
		.owner = owner,
		.ended = lsmem_wanted_ended,
		.done = lsmem_fetch_near,
		.late = lsmem_wanted_late,
	};
	u32 read = 0, i;

	spin_lock(&store->fetches.lock);
	for (i = 0; i < nr; i++) {
		struct lsmem_fetch_one one;
		bool there = lsmem_wanted_tell(store, wanted[i], &one);

		if (there && !want.nr) {
			want.id = one.segment;
			want.block = one.block;
			want.bytes = min((end - one.block) * LSMEM_BLOCK, wanted[i]->left);
		}
		if (there && one.segment == want.id) {
			refcount_inc(&wanted[i]->refs);
			want.part[want.nr++] = &wanted[i]->part;
			read |= 1u << i;
		}
	}
	spin_unlock(&store->fetches.lock);
	if (want.nr && !lsmem_near_read(store, &want)) {
		while (want.nr)
			lsmem_wanted_put(lsmem_wanted_of(want.part[--want.nr]));
		read = 0;
	}
	for (i = 0; i < nr; i++)
		if (!(read >> i & 1))
			lsmem_wanted_queue(store, wanted[i]);
}

/* @nr: objects that are read through. */
static struct lsmem_wanted *lsmem_wanted_new(u32 index, u64 word, bool ahead, u32 nr, gfp_t gfp)
{
	struct lsmem_wanted *made = kvzalloc(struct_size(made, sought, nr), gfp);

	if (!made)
		return NULL;
	init_waitqueue_head(&made->wait);
	INIT_LIST_HEAD(&made->queued);
	INIT_LIST_HEAD(&made->wants);
	refcount_set(&made->refs, 2);
	made->index = index;
	made->word = word;
	made->ahead = ahead;
	made->nr = nr;
	made->since = ktime_get_ns();
	return made;
}

/* A new request takes its place, unless there are @most.  Returns 0, -EAGAIN or -EBUSY as lsmem_wanted_get(). */
static int lsmem_wanted_add(struct lsmem_store *store, struct lsmem_wanted *made, u32 most)
{
	struct lsmem_fetches *fetches = &store->fetches;

	lockdep_assert_held(&fetches->lock);
	if (fetches->stopped)
		return -EAGAIN;
	if (fetches->nr >= most)
		return -EBUSY;
	made->serial = ++fetches->serial;
	hlist_add_head(&made->node, lsmem_wanted_bucket(store, made->index));
	if (!made->near)
		list_add_tail(&made->queued, made->ahead ? &fetches->ahead : &fetches->queue);
	WRITE_ONCE(fetches->nr, fetches->nr + 1);
	return 0;
}

/*
 * The request for a word, with a reference; a new one is read from the near drive, or queued.  @ahead:
 * nothing waits for it; @owner: see struct lsmem_near_want.  Returns an ERR_PTR(): -ENOMEM; -EBUSY: there are too many;
 * -EAGAIN: the store is being destroyed.
 */
static struct lsmem_wanted *lsmem_wanted_get(struct lsmem_store *store, u32 index, u64 word, bool ahead,
					     const void *owner, gfp_t gfp)
{
	u32 most = ahead ? LSMEM_FETCHES_AHEAD : LSMEM_FETCHES_MAX;
	struct lsmem_fetches *fetches = &store->fetches;
	struct lsmem_wanted *found, *made;
	int ret = 0;

	spin_lock(&fetches->lock);
	found = lsmem_wanted_find(store, index, word, ahead);
	spin_unlock(&fetches->lock);
	if (found)
		return found;
	made = lsmem_wanted_new(index, word, ahead, 0, gfp);
	if (!made)
		return ERR_PTR(-ENOMEM);
	made->near = !ahead && gfpflags_allow_blocking(gfp) && !(index & LSMEM_FETCH_WHOLE) &&
		     lsmem_near_any(&store->nears);
	spin_lock(&fetches->lock);
	found = lsmem_wanted_find(store, index, word, ahead);
	if (!found)
		ret = lsmem_wanted_add(store, made, index & LSMEM_FETCH_WHOLE ? U32_MAX : most);
	spin_unlock(&fetches->lock);
	if (!ret && !found) {
		if (!made->near)
			wake_up_poll(&store->repl.events, EPOLLRDBAND);
		else
			lsmem_wanted_read(store, &made, 1, lsmem_cold_block(word) + lsmem_cold_blocks(word), owner);
		return made;
	}
	kvfree(made);
	return found ?: ERR_PTR(ret);
}

static bool lsmem_wanted_answered(const struct lsmem_wanted *wanted)
{
	return smp_load_acquire(&wanted->answered);	/* pairs with lsmem_wanted_answer() */
}

/* Tell what waits in no thread. No other is added: the request is answered. */
static void lsmem_wants_answer(struct lsmem_store *store, struct lsmem_wanted *wanted)
{
	struct lsmem_want *want;

	for (;;) {
		spin_lock(&store->fetches.lock);
		want = list_first_entry_or_null(&wanted->wants, struct lsmem_want, node);
		if (want)
			list_del_init(&want->node);
		spin_unlock(&store->fetches.lock);
		if (!want)
			return;
		want->answered(want, wanted->result);
	}
}

/* Answer a request, unless it has been. */
static void lsmem_wanted_answer(struct lsmem_store *store, struct lsmem_wanted *wanted, int result)
{
	bool first, wants;

	spin_lock(&store->fetches.lock);
	first = !wanted->answered;
	wants = !list_empty(&wanted->wants);
	if (first) {
		hlist_del(&wanted->node);
		list_del_init(&wanted->queued);
		WRITE_ONCE(store->fetches.nr, store->fetches.nr - 1);
		wanted->result = result;
		/* Pairs with lsmem_wanted_answered(): the result is there. */
		smp_store_release(&wanted->answered, true);
	}
	spin_unlock(&store->fetches.lock);
	if (!first)
		return;
	wake_up_all(&wanted->wait);
	if (wants)
		lsmem_wants_answer(store, wanted);
	lsmem_wanted_put(wanted);
}

/**
 * lsmem_fetch_stop - end all waits, because the store is being destroyed
 * @store: it is not open
 */
void lsmem_fetch_stop(struct lsmem_store *store)
{
	struct lsmem_fetches *fetches = &store->fetches;
	u32 i;

	if (!fetches->hash)
		return;
	spin_lock(&fetches->lock);
	fetches->stopped = true;
	spin_unlock(&fetches->lock);
	for (i = 0; i < 1u << LSMEM_FETCH_BITS; i++) {
		struct lsmem_wanted *wanted;

		do {
			spin_lock(&fetches->lock);
			wanted = hlist_entry_safe(fetches->hash[i].first, struct lsmem_wanted, node);
			if (wanted)
				refcount_inc(&wanted->refs);
			spin_unlock(&fetches->lock);
			if (wanted)
				lsmem_wanted_answer(store, wanted, -EAGAIN);
			lsmem_wanted_put(wanted);
		} while (wanted);
	}
	/* A near read that ends from here on finds its request answered. */
	mutex_lock(&store->tier.fill);
	mutex_unlock(&store->tier.fill);
}

/* ---- Asking ------------------------------------------------------ */

/*
 * Wait for the answer, or for the end of a near read that is to be carried out, @left jiffies at most; the callers' waits can
 * be frozen.  Returns jiffies that are left, or a negative errno.
 */
static long lsmem_wanted_sleep(struct lsmem_wanted *wanted, long left)
{
	return ___wait_event(wanted->wait, lsmem_wanted_answered(wanted) ||
			     lsmem_near_has_ended(&wanted->part) || !__ret,
			     (TASK_KILLABLE | TASK_FREEZABLE), 0, left, __ret = schedule_timeout(__ret));
}

/* What came of a wait; @left: from lsmem_wanted_sleep(). */
static int lsmem_wanted_result(const struct lsmem_wanted *wanted, long left)
{
	if (left < 0)
		return -EINTR;
	return lsmem_wanted_answered(wanted) ? wanted->result : -ETIMEDOUT;
}

/* Wait for the answer, and carry out ends of the near read on the way. @left, and returns, as lsmem_wanted_sleep(). */
static long lsmem_wanted_wait(struct lsmem_store *store, struct lsmem_wanted *wanted, long left)
{
	for (;;) {
		left = lsmem_wanted_sleep(wanted, left);
		if (left < 0 || lsmem_wanted_answered(wanted) || !lsmem_near_has_ended(&wanted->part))
			return left;
		lsmem_near_end(store, &wanted->part);	/* once at most: then it is claimed */
	}
}

/**
 * lsmem_fetch_ask - have an object fetched, without waiting
 * @store: tiered, active
 * @index: of its handle
 * @word: COLD
 *
 * Context: does not sleep.  Does nothing if there is no memory, or are too many requests.
 */
void lsmem_fetch_ask(struct lsmem_store *store, u64 index, u64 word)
{
	struct lsmem_wanted *wanted = lsmem_wanted_get(store, index, word, false, NULL,
						       GFP_NOWAIT | __GFP_NOWARN | __GFP_ACCOUNT);

	if (!IS_ERR(wanted))
		lsmem_wanted_put(wanted);
}

/**
 * lsmem_fetch_ahead - have a block fetched that may be read soon
 * @store: tiered, active
 * @index: of its handle
 * @word: COLD
 *
 * The daemon takes the request after all that something waits for.
 *
 * Context: does not sleep.
 * Return: false: nothing was done, because there is no memory, or are many requests.
 */
bool lsmem_fetch_ahead(struct lsmem_store *store, u64 index, u64 word)
{
	struct lsmem_wanted *wanted = lsmem_wanted_get(store, index, word, true, NULL,
						       GFP_NOWAIT | __GFP_NOWARN);

	if (IS_ERR(wanted))
		return false;
	lsmem_wanted_put(wanted);
	return true;
}

/**
 * lsmem_fetch_together - have objects fetched that lie close together, without waiting
 * @store: tiered, active
 * @misses: of one segment, the first block first, no object twice; the requests that could be made are filled in
 * @nr: of @misses, 1 .. LSMEM_NEAR_OBJECTS
 * @end: block behind what is read of the log of the segment, if they are read from the near drive
 *
 * Context: sleeps.  Each request is for lsmem_fetch_wait() or lsmem_fetch_leave().
 */
void lsmem_fetch_together(struct lsmem_store *store, struct lsmem_miss *misses, u32 nr, u32 end)
{
	struct lsmem_wanted *made[LSMEM_NEAR_OBJECTS], *near[LSMEM_NEAR_OBJECTS];
	bool any = lsmem_near_any(&store->nears);
	u32 nr_near = 0, nr_far = 0, i;

	for (i = 0; i < nr; i++) {
		made[i] = lsmem_wanted_new(misses[i].index, misses[i].word, false, 0, GFP_KERNEL_ACCOUNT);
		if (made[i])
			made[i]->near = any;
	}
	spin_lock(&store->fetches.lock);
	for (i = 0; i < nr; i++) {
		struct lsmem_wanted *found = lsmem_wanted_find(store, misses[i].index, misses[i].word, false);

		misses[i].wanted = found;
		if (found || !made[i] || lsmem_wanted_add(store, made[i], LSMEM_FETCHES_MAX))
			continue;
		misses[i].wanted = made[i];
		if (any)
			near[nr_near++] = made[i];
		else
			nr_far++;
		made[i] = NULL;
	}
	spin_unlock(&store->fetches.lock);
	for (i = 0; i < nr; i++)
		kvfree(made[i]);
	if (nr_near)
		lsmem_wanted_read(store, near, nr_near, end, current);
	if (nr_far)
		wake_up_poll(&store->repl.events, EPOLLRDBAND);
}

/* Begin the waits of an operation, if they have not begun. Returns jiffies that are left, or -ETIMEDOUT. */
static long lsmem_fetch_left(const struct lsmem_store *store, u64 *until)
{
	u64 now = ktime_get_ns();

	if (!*until)
		*until = now + (u64)READ_ONCE(store->fetches.fetch_ms) * NSEC_PER_MSEC;
	return *until <= now ? -ETIMEDOUT : (long)nsecs_to_jiffies(*until - now) + 1;
}

/**
 * lsmem_fetch_end - if what a request is for has been read from the near drive, put it into memory
 * @store: tiered, active
 * @wanted: from lsmem_fetch_together()
 *
 * Context: may sleep.
 * Return: false: there was nothing to do.
 */
bool lsmem_fetch_end(struct lsmem_store *store, struct lsmem_wanted *wanted)
{
	bool ended = lsmem_near_has_ended(&wanted->part);

	if (ended)
		lsmem_near_end(store, &wanted->part);
	return ended;
}

/**
 * lsmem_fetch_wait - wait for a request
 * @store: tiered, active
 * @wanted: from lsmem_fetch_together(), given back
 * @until: as of lsmem_fetch()
 * @deadline: as of lsmem_fetch()
 *
 * Context: sleeps, killable; holds nothing.
 * Return: as lsmem_fetch().
 */
int lsmem_fetch_wait(struct lsmem_store *store, struct lsmem_wanted *wanted, u64 *until, u64 deadline)
{
	long left = lsmem_fetch_left(store, until);
	int ret;

	lsmem_fetch_end(store, wanted);
	if (left < 0) {
		ret = left;
	} else if (deadline == LSMEM_NO_WAIT && !lsmem_wanted_answered(wanted)) {
		ret = -LSMEM_EWAIT;
	} else {
		left = lsmem_wanted_wait(store, wanted, left);
		ret = lsmem_wanted_result(wanted, left);
	}
	lsmem_fetch_leave(store, wanted);
	/* Ticks can come late, and then several at once: the clock decides. */
	return ret == -ETIMEDOUT && ktime_get_ns() < *until ? 0 : ret;
}

/**
 * lsmem_fetch_leave - do not wait for a request
 * @store: tiered, active
 * @wanted: from lsmem_fetch_together(), given back
 *
 * What is read for it comes into memory nevertheless.
 */
void lsmem_fetch_leave(struct lsmem_store *store, struct lsmem_wanted *wanted)
{
	lsmem_near_leave(store, &wanted->part);
	lsmem_wanted_put(wanted);
}

/**
 * lsmem_fetch - have an object in memory
 * @store: tiered, active
 * @index: of its handle, below handles.nr
 * @until: in and out: end of the waits of the operation, ktime in ns; 0: not begun
 * @deadline: LSMEM_NO_WAIT: do not wait
 *
 * Returns as well when the word is not COLD any more: the caller looks again.
 *
 * Context: sleeps, killable; holds nothing.
 * Return: 0; -EIO: no backup has the object whole; -ETIMEDOUT; -EINTR; -ENOMEM; -EAGAIN: the store is
 * being destroyed; -LSMEM_EWAIT: it is asked for, and @deadline is LSMEM_NO_WAIT.
 */
int lsmem_fetch(struct lsmem_store *store, u64 index, u64 *until, u64 deadline)
{
	u64 word = READ_ONCE(lsmem_handle_at(&store->handles, index)->word);
	struct lsmem_wanted *wanted;

	if (lsmem_word_state(word) != LSMEM_WORD_COLD)
		return 0;
	if (lsmem_fetch_left(store, until) < 0)
		return -ETIMEDOUT;
	wanted = lsmem_wanted_get(store, index, word, false, current, GFP_KERNEL_ACCOUNT);
	if (wanted == ERR_PTR(-EBUSY)) {
		if (deadline == LSMEM_NO_WAIT)
			return -LSMEM_EWAIT;
		schedule_timeout_killable(1);	/* others are being answered */
		return fatal_signal_pending(current) ? -EINTR : 0;
	}
	return IS_ERR(wanted) ? PTR_ERR(wanted) : lsmem_fetch_wait(store, wanted, until, deadline);
}

/**
 * lsmem_through_ask - have the bytes of objects that are COLD, which stay COLD
 * @store: tiered, active
 * @sought: of one segment, the first block first
 * @nr: of @sought, 1 .. LSMEM_SNAPSHOT_READ_MAX
 * @blocks: to read, from the block of the first on
 *
 * The daemon takes the request after all others, but for those that nothing waits for.
 *
 * Context: sleeps.
 * Return: for lsmem_through_wait() and lsmem_through_put(), to be called for each object; an ERR_PTR(): -ENOMEM;
 * -EBUSY: there are many requests; -EAGAIN: the store is being destroyed.
 */
struct lsmem_wanted *lsmem_through_ask(struct lsmem_store *store, const struct lsmem_sought *sought, u32 nr,
				       u32 blocks)
{
	struct lsmem_wanted *made = lsmem_wanted_new(sought->index, sought->word, true, nr, GFP_KERNEL_ACCOUNT);
	int ret;

	if (!made)
		return ERR_PTR(-ENOMEM);
	refcount_set(&made->refs, 1 + nr);
	memcpy(made->sought, sought, nr * sizeof(*sought));
	made->blocks = blocks;
	made->room = blocks * LSMEM_BLOCK;
	made->through = kvmalloc(made->room, GFP_KERNEL_ACCOUNT);
	if (made->through) {
		spin_lock(&store->fetches.lock);
		ret = lsmem_wanted_add(store, made, LSMEM_FETCHES_AHEAD);
		spin_unlock(&store->fetches.lock);
		if (!ret) {
			wake_up_poll(&store->repl.events, EPOLLRDBAND);
			return made;
		}
	} else {
		ret = -ENOMEM;
	}
	kvfree(made->through);
	kvfree(made);
	return ERR_PTR(ret);
}

/**
 * lsmem_through_wait - wait for what lsmem_through_ask() has asked for
 * @wanted: from it
 * @which: of its objects
 * @until: end of the wait, ktime in ns
 * @found: out: header of the entry
 *
 * Context: sleeps, killable.
 * Return: the object's bytes, until lsmem_through_put(); NULL: the word has changed, or the object was one of several and
 * is to be asked for alone; an ERR_PTR(): as lsmem_fetch().
 */
const void *lsmem_through_wait(struct lsmem_wanted *wanted, u32 which, u64 until, struct lsmem_entry *found)
{
	const struct lsmem_sought *sought = &wanted->sought[which];
	u64 now = ktime_get_ns();
	int ret = lsmem_wanted_result(wanted, lsmem_wanted_sleep(wanted, until > now ?
							  nsecs_to_jiffies(until - now) + 1 : 0));

	if (ret)
		return ERR_PTR(ret);
	*found = sought->found;
	return lsmem_entry_length(found) ? wanted->through + sought->at : NULL;
}

/**
 * lsmem_through_put - what was read through is not needed any more
 * @wanted: from lsmem_through_ask(), answered or not
 *
 * Context: may sleep.
 */
void lsmem_through_put(struct lsmem_wanted *wanted)
{
	lsmem_wanted_put(wanted);
}

/**
 * lsmem_fetch_want - have a block in memory, without waiting in a thread
 * @store: tiered, active
 * @index: of its handle, below handles.nr
 * @word: COLD
 * @want: of the caller, of no list; until it is answered or taken back
 *
 * Context: process context; allocates without I/O.
 * Return: 0: @want is answered, perhaps before the call returns; -EBUSY: there are too many requests,
 * or there is no memory now; -EAGAIN: the store is being destroyed.
 */
int lsmem_fetch_want(struct lsmem_store *store, u64 index, u64 word, struct lsmem_want *want)
{
	struct lsmem_wanted *wanted = lsmem_wanted_get(store, index, word, false, NULL,
						       GFP_NOIO | __GFP_NORETRY | __GFP_NOWARN);
	bool answered;

	if (IS_ERR(wanted))
		return wanted == ERR_PTR(-ENOMEM) ? -EBUSY : PTR_ERR(wanted);
	spin_lock(&store->fetches.lock);
	answered = wanted->answered;
	if (!answered)
		list_add_tail(&want->node, &wanted->wants);
	spin_unlock(&store->fetches.lock);
	if (answered)
		want->answered(want, wanted->result);
	lsmem_wanted_put(wanted);
	return 0;
}

/**
 * lsmem_fetch_unwant - take back what lsmem_fetch_want() was told
 * @store: tiered
 * @want: see there
 * Return: false: it is answered, or of no request.
 */
bool lsmem_fetch_unwant(struct lsmem_store *store, struct lsmem_want *want)
{
	bool listed;

	spin_lock(&store->fetches.lock);
	listed = !list_empty(&want->node);
	list_del_init(&want->node);
	spin_unlock(&store->fetches.lock);
	return listed;
}

/**
 * lsmem_fetch_segment - have all of a segment, as it is on a backup, in fetches.segment
 * @store: tiered, active
 * @seg: VICTIM, the caller's
 *
 * Its entries are whole.  Nothing else may be fetched into that buffer before the caller has read it: the
 * cleaner alone calls.
 *
 * Context: a kernel thread; waits, freezable, until the thread is to stop.
 * Return: 0; -EIO; -ETIMEDOUT; -EAGAIN; -ENOMEM.
 */
int lsmem_fetch_segment(struct lsmem_store *store, const struct lsmem_segment *seg)
{
	struct lsmem_wanted *wanted;
	int ret;

	wanted = lsmem_wanted_get(store, LSMEM_FETCH_WHOLE | seg->index, seg->id, false, NULL, GFP_KERNEL);
	if (IS_ERR(wanted))
		return PTR_ERR(wanted);
	wait_event_freezable_timeout(wanted->wait, lsmem_wanted_answered(wanted) ||
				     kthread_should_stop(),
				     msecs_to_jiffies(READ_ONCE(store->fetches.fetch_ms)));
	/* An answer that comes later must not be put into the buffer. */
	mutex_lock(&store->tier.fill);
	lsmem_wanted_answer(store, wanted, -ETIMEDOUT);
	mutex_unlock(&store->tier.fill);
	ret = wanted->result;
	lsmem_wanted_put(wanted);
	return ret;
}

/* ---- The daemon takes requests ------------------------------------------- */

/**
 * lsmem_fetch_pending - are there requests that the daemon has not taken?
 * @store: the store
 */
bool lsmem_fetch_pending(const struct lsmem_store *store)
{
	return store->tier.on && (!list_empty_careful(&store->fetches.queue) ||
				  !list_empty_careful(&store->fetches.ahead));
}

/**
 * lsmem_fetch_rewind - tell requests that were not answered again, to another daemon
 * @store: durable
 */
void lsmem_fetch_rewind(struct lsmem_store *store)
{
	struct lsmem_wanted *wanted;
	u32 i;

	if (!store->tier.on)
		return;
	spin_lock(&store->fetches.lock);
	for (i = 0; i < 1u << LSMEM_FETCH_BITS; i++)
		hlist_for_each_entry(wanted, &store->fetches.hash[i], node)
			if (list_empty(&wanted->queued) && !wanted->near)
				list_add_tail(&wanted->queued, &store->fetches.queue);
	spin_unlock(&store->fetches.lock);
}

/*
 * Take the oldest request that something waits for, or else the oldest, with a reference, or NULL.
 * @one: out; @there: out: see lsmem_wanted_tell().  It is filled in under the lock: an answer to a
 * request that is taken finds all of it.
 */
static struct lsmem_wanted *lsmem_wanted_take(struct lsmem_store *store, struct lsmem_fetch_one *one,
					      bool *there)
{
	struct lsmem_fetches *fetches = &store->fetches;
	struct lsmem_wanted *wanted;

	spin_lock(&fetches->lock);
	wanted = list_first_entry_or_null(list_empty(&fetches->queue) ? &fetches->ahead : &fetches->queue,
					  struct lsmem_wanted, queued);
	if (wanted) {
		*there = lsmem_wanted_tell(store, wanted, one);
		list_del_init(&wanted->queued);
		refcount_inc(&wanted->refs);
	}
	spin_unlock(&fetches->lock);
	return wanted;
}

static bool lsmem_wanted_still(const struct lsmem_store *store, const struct lsmem_wanted *wanted)
{
	return wanted->index & LSMEM_FETCH_WHOLE ||
	       READ_ONCE(store->handles.table[wanted->index].word) == wanted->word;
}

/*
 * Nothing has what is wanted. Returns the result of the request: -EIO; 0: it is not where it was, or it was one of several.
 */
static int lsmem_wanted_failed(struct lsmem_store *store, const struct lsmem_wanted *wanted)
{
	if (wanted->nr > 1 || !lsmem_wanted_still(store, wanted))
		return 0;
	lsmem_count(store, fetch_failures, 1);
	if (!(wanted->index & LSMEM_FETCH_WHOLE))	/* fetched.c names segments */
		pr_err_ratelimited("%s: no backup has %s %u whole: segment %llu, block %u\n",
				   store->name, store->kind == LSMEM_KIND_BLOCK ? "block" : "object",
				   wanted->index, wanted->segment, wanted->block);
	return -EIO;
}

/**
 * lsmem_fetch_take - LSMEM_REPL_FETCH
 * @store: attached
 * @fetch: see there
 * Return: 0 or an error as there; on -EFAULT no request is lost, those told last are told again.
 */
long lsmem_fetch_take(struct lsmem_store *store, struct lsmem_fetch *fetch)
{
	struct lsmem_fetch_one __user *user = u64_to_user_ptr(fetch->requests);
	struct lsmem_fetch_one one;
	struct lsmem_wanted *wanted;
	u32 nr = 0;
	bool there;

	if (!store->tier.on)
		return -EOPNOTSUPP;
	if (fetch->flags || fetch->reserved || !fetch->nr || fetch->nr > LSMEM_FETCH_NR)
		return -EINVAL;
	if (!lsmem_store_active(store))
		return -EAGAIN;
	while (nr < fetch->nr && (wanted = lsmem_wanted_take(store, &one, &there))) {
		if (!there) {
			lsmem_wanted_answer(store, wanted, lsmem_wanted_failed(store, wanted));
		} else if (copy_to_user(user + nr, &one, sizeof(one))) {
			lsmem_wanted_put(wanted);
			lsmem_fetch_rewind(store);
			return -EFAULT;
		}
		nr += there;
		lsmem_wanted_put(wanted);
	}
	fetch->nr = nr;
	return 0;
}

/* ---- The daemon answers --------------------------------------------------- */

static void lsmem_fetch_count(struct lsmem_store *store, u64 ns)
{
	u32 bucket = min_t(u32, ilog2(div_u64(ns, NSEC_PER_USEC) + 1), LSMEM_WAITS - 1);

	lsmem_count(store, fetches, 1);
	lsmem_count(store, fetch_ns, ns);
	lsmem_count(store, fetch_waits[bucket], 1);
}

/* What lies at @at in @data, of which @length bytes are there; the rest of the header is zero. */
static struct lsmem_entry lsmem_fetch_header(const void *data, u32 length, u32 at)
{
	struct lsmem_entry e = { 0 };

	memcpy(&e, data + at, min_t(u32, sizeof(e), length - at));
	return e;
}

/*
 * May another entry begin in the last bytes of the first block, where its key cannot be seen?  @at: of
 * an entry that is whole: those behind it follow.
 */
static bool lsmem_fetch_hidden(const struct lsmem_spot *spot, const void *data, u32 length, u32 at)
{
	u32 base = spot->block * LSMEM_BLOCK;

	while (at + LSMEM_FETCH_KEY <= length) {
		struct lsmem_entry e = lsmem_fetch_header(data, length, at);

		if (!lsmem_entry_sane(&e))
			return true;	/* its header is cut */
		at = lsmem_entry_start(base + at + lsmem_entry_bytes(&e)) - base;
	}
	return at < length && at < LSMEM_BLOCK;
}

/* The first place from @at on, below @end, whose entry has a key of @index, if one begins there; @end: there is none. */
static u32 lsmem_fetch_next(const void *data, u32 at, u32 end, u32 index)
{
	enum { KEY = offsetof(struct lsmem_entry, key), STEP = LSMEM_ALIGN };
	const __le64 mask = cpu_to_le64(LSMEM_HANDLE_INDEX_MASK & ~LSMEM_KEY_INTERVAL_MASK);
	const __le64 key = cpu_to_le64(index);

	/* Most places are of no such entry: four at a time. */
	for (; at + 4 * STEP <= end; at += 4 * STEP) {
		const __le64 *there = data + at + KEY;

		if (!((there[0] ^ key) & mask) || !((there[1] ^ key) & mask) ||
		    !((there[2] ^ key) & mask) || !((there[3] ^ key) & mask))
			break;
	}
	while (at < end && (*(const __le64 *)(data + at + KEY) ^ key) & mask)
		at += STEP;
	return min(at, end);
}

/*
 * Find the newest version of what is wanted among the entries that begin in the first block of @data,
 * whose bytes may be anything.  Each place is looked at: to follow the lengths could miss the newest, if one is damaged.
 * @pcrc: out: CRC of the payload.  Returns 0; -ENODATA: more bytes are needed; -EBADMSG: it is not there.
 */
static int lsmem_fetch_find(const struct lsmem_spot *spot, const void *data, u32 length,
			    struct lsmem_entry *best, u32 *where, u32 *pcrc)
{
	u32 end = length < LSMEM_FETCH_KEY ? 0 : min(LSMEM_BLOCK, length - LSMEM_FETCH_KEY + 1), at;
	bool found = false, cut = false, more = length < spot->limit;

	for (at = 0; (at = lsmem_fetch_next(data, at, end, spot->index)) < end; at += LSMEM_ALIGN) {
		struct lsmem_entry e = lsmem_fetch_header(data, length, at);
		u32 crc;

		if (at + LSMEM_LONG_BYTES > length) {
			cut = true;
			continue;
		}
		if (!lsmem_entry_sane(&e) || lsmem_entry_type(&e) != LSMEM_TYPE_OBJECT ||
		    lsmem_entry_home(&e) != spot->block)
			continue;
		if (at + lsmem_entry_bytes(&e) > length) {
			cut = true;
			continue;
		}
		if (found && !lsmem_entry_newer(&e, best))
			continue;
		crc = lsmem_crc32c(~0u, data + at + lsmem_entry_header(&e), lsmem_entry_length(&e));
		if (lsmem_entry_copied(&e, crc, spot->salt)) {
			found = true;
			*best = e;
			*where = at;
			*pcrc = crc;
		}
	}
	if (more && (cut || (length < LSMEM_BLOCK + LSMEM_FETCH_KEY &&
			     (!found || lsmem_fetch_hidden(spot, data, length, *where)))))
		return -ENODATA;
	return found ? 0 : -EBADMSG;
}

/* Are these @length bytes the whole log of a segment? */
static bool lsmem_fetch_whole(const struct lsmem_wanted *wanted, const void *data, u32 length)
{
	u32 at = 0;

	if (length != wanted->limit)
		return false;
	while (at < length) {
		const struct lsmem_entry *e = data + at;
		u32 left = length - at;

		if (left < LSMEM_LONG_BYTES || !lsmem_entry_sane(e) || lsmem_entry_bytes(e) > left ||
		    !lsmem_entry_valid(e, (const void *)e + lsmem_entry_header(e), wanted->salt))
			return false;
		at = lsmem_entry_start(at + lsmem_entry_bytes(e));
		cond_resched();
	}
	return true;
}

/* Keep an object that is read through. @used: of the room, in and out. Returns as lsmem_fill_one.result. */
static int lsmem_through_keep(struct lsmem_store *store, struct lsmem_wanted *wanted, struct lsmem_sought *sought,
			      const void *data, u32 length, u32 *used)
{
	u32 from = (lsmem_cold_block(sought->word) - wanted->block) * LSMEM_BLOCK, at;
	struct lsmem_spot spot = {
		.index = sought->index,
		.block = lsmem_cold_block(sought->word),
		.limit = wanted->limit - from,
		.salt = wanted->salt,
	};
	struct lsmem_entry e;
	u32 pcrc;
	int ret;

	if (from > length)
		return -EBADMSG;
	ret = lsmem_fetch_find(&spot, data + from, length - from, &e, &at, &pcrc);
	if (ret)
		return ret;
	/* More than there can be: another entry than that of the word, which has changed. */
	if (lsmem_entry_length(&e) > wanted->room - *used)
		return -EBADMSG;
	memcpy(wanted->through + *used, data + from + at + lsmem_entry_header(&e), lsmem_entry_length(&e));
	sought->at = *used;
	sought->found = e;
	*used += lsmem_entry_length(&e);
	lsmem_count(store, fetches_through, 1);
	return 0;
}

/* Keep what is read through. Of several objects it does not matter which are there. */
static int lsmem_through_fill(struct lsmem_store *store, struct lsmem_wanted *wanted, const void *data, u32 length)
{
	u32 used = 0, i;
	int ret = 0;

	for (i = 0; i < wanted->nr; i++) {
		ret = lsmem_through_keep(store, wanted, &wanted->sought[i], data, length, &used);
		cond_resched();
	}
	return wanted->nr > 1 ? 0 : ret;
}

/* Find an object in the bytes of a backup, and install it. Returns as lsmem_fill_one.result. */
static int lsmem_fetch_object(struct lsmem_store *store, struct lsmem_wanted *wanted, const void *data,
			      u32 length)
{
	struct lsmem_spot spot = {
		.index = wanted->index, .block = wanted->block, .limit = wanted->limit, .salt = wanted->salt,
	};
	struct lsmem_entry e;
	u32 at, pcrc;
	int ret;

	if (wanted->nr)
		return lsmem_through_fill(store, wanted, data, length);
	ret = lsmem_fetch_find(&spot, data, length, &e, &at, &pcrc);
	return ret ?: lsmem_cache_install(store, wanted->word, &e, at, data + at + lsmem_entry_header(&e), pcrc);
}

/* Try the bytes of a backup that the daemon has. Returns as lsmem_fill_one.result, or -EFAULT. */
static int lsmem_fetch_try(struct lsmem_store *store, struct lsmem_wanted *wanted,
			   const struct lsmem_fill_one *one)
{
	bool whole = wanted->index & LSMEM_FETCH_WHOLE;
	void *to = whole ? store->fetches.segment : store->fetches.buffer;
	u32 length = min_t(u32, one->length, whole ? LSMEM_SEGMENT_BYTES : LSMEM_FETCH_BYTES);

	if (whole)
		length = min(length, wanted->limit);
	if (copy_from_user(to, u64_to_user_ptr(one->data), length))
		return -EFAULT;
	if (whole)
		return lsmem_fetch_whole(wanted, to, length) ? 0 : -EBADMSG;
	return lsmem_fetch_object(store, wanted, to, length);
}

/* The end of a request, if @ret is that of a try and is 0. @result: of the request. Returns @ret, or 0. */
static int lsmem_fetch_tried(struct lsmem_store *store, struct lsmem_wanted *wanted, int ret, int result)
{
	/* It is not where it was: nothing is wrong with the backup. */
	if ((ret == -EBADMSG || ret == -ENODATA) && !lsmem_wanted_still(store, wanted))
		ret = 0;
	if (ret)
		return ret;
	lsmem_wanted_answer(store, wanted, result);
	if (!wanted->nr)
		lsmem_fetch_count(store, ktime_get_ns() - wanted->since);
	return 0;
}

/* One answer. Returns as lsmem_fill_one.result, or -EFAULT. */
static int lsmem_fetch_answer(struct lsmem_store *store, const struct lsmem_fill_one *one)
{
	struct lsmem_wanted *wanted = lsmem_wanted_by_cookie(store, one->cookie);
	int ret = 0, result = 0;

	if (!wanted)
		return -ENOENT;
	if (one->result < 0)
		result = lsmem_wanted_failed(store, wanted);
	else
		ret = lsmem_fetch_try(store, wanted, one);
	ret = lsmem_fetch_tried(store, wanted, ret, result);
	lsmem_wanted_put(wanted);
	return ret;
}

/* What the near drive has of a request; @length 0: nothing. Returns 0, or an error: it is the daemon's. tier.fill held. */
static int lsmem_fetch_near_one(struct lsmem_store *store, struct lsmem_wanted *wanted, const void *data, u32 length)
{
	int ret;

	if (lsmem_wanted_answered(wanted))
		return 0;
	ret = length ? lsmem_fetch_object(store, wanted, data, length) : -EIO;
	if (!ret)
		lsmem_count(store, fetches_near, 1);
	return lsmem_fetch_tried(store, wanted, ret, 0);
}

/* What the near drive has, struct lsmem_near_want.done(). tier.fill held. */
static int lsmem_fetch_near(struct lsmem_store *store, const struct lsmem_near_want *want, const void *data,
			    u32 length)
{
	int worst = 0, ret;
	bool room = false;
	u32 i;

	for (i = 0; i < want->nr; i++) {
		struct lsmem_wanted *wanted = lsmem_wanted_of(want->part[i]);
		u32 from = min((wanted->block - want->block) * LSMEM_BLOCK, length);

		ret = lsmem_fetch_near_one(store, wanted, data + from, length - from);
		if (ret)
			lsmem_wanted_queue(store, wanted);
		room |= ret == -EAGAIN;
		if (ret == -EIO || ret == -EBADMSG)
			worst = ret;
		lsmem_wanted_put(wanted);
	}
	if (room)
		wake_up_all(&store->plan.work);
	return worst;
}

/**
 * lsmem_fetch_fill - LSMEM_REPL_FILL
 * @store: attached
 * @fill: see there
 * Return: 0 or an error as there; -EFAULT: answers before the one at fault count.
 */
long lsmem_fetch_fill(struct lsmem_store *store, struct lsmem_fill *fill)
{
	struct lsmem_fill_one __user *user = u64_to_user_ptr(fill->fills);
	u32 nr, i;

	if (!store->tier.on)
		return -EOPNOTSUPP;
	if (fill->flags || fill->reserved || !fill->nr || fill->nr > LSMEM_FETCH_NR)
		return -EINVAL;
	if (!lsmem_store_active(store))
		return -EAGAIN;
	nr = array_index_nospec(fill->nr, LSMEM_FETCH_NR + 1);
	for (i = 0; i < nr; i++) {
		struct lsmem_fill_one one;
		int ret;

		if (copy_from_user(&one, user + i, sizeof(one)))
			return -EFAULT;
		mutex_lock(&store->tier.fill);
		ret = lsmem_fetch_answer(store, &one);
		mutex_unlock(&store->tier.fill);
		if (ret == -EFAULT || put_user(ret, &user[i].result))
			return -EFAULT;
		if (ret == -EAGAIN)	/* make room */
			wake_up_all(&store->plan.work);
	}
	return 0;
}
