// SPDX-License-Identifier: GPL-2.0
/*
 * Warming and verifying: after a restart all segments are read, before anything of them is asked for.
 *
 * A recovery by places leaves all objects on the backups, and the store is served at once.  Then the
 * cleaner's thread, when it has nothing else to do, fetches one segment after the other and verifies all
 * of it.  Until memory has no more room than writers want, it puts what is live into cache segments.  The
 * youngest come first: new objects and, of the survivors of each pass, which are written coldest first,
 * those that change most.  Either can be off: warming ends the list when memory is full, verifying goes on.
 *
 * What cannot be verified is named in the kernel's log, and its objects are errors when they are read.
 * When another daemon attaches, it is read again.
 *
 * A daemon that has the bytes of many objects, as the target of a migration has, brings these itself, and the thread reads no
 * segments until no more come.
 *
 * Lock: tier.fill while an object is put into memory.  The list of segments is the thread's own.
 */
#include <linux/nospec.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "cache.h"
#include "entry.h"
#include "fetch.h"
#include "fetched.h"
#include "handle.h"
#include "store.h"
#include "warm.h"

#define LSMEM_WARM_BATCH	64	/* entries between two looks at the scheduler */
#define LSMEM_WARM_REST		4	/* rest so many times as long as the read took, if readers wait */
#define LSMEM_BRING_NR		256	/* objects in a call */

/**
 * lsmem_warm_begin - list the segments that are to be read
 * @store: recovered, not active yet; segments.next_id is set
 * @fill: put what is read into memory
 * @verify: read all, whether memory has room or not
 *
 * Context: store->mutex held; nothing else changes the log, so that it is walked without a lock.
 * Without memory for the list nothing is read: objects come, and are verified, when they are wanted.
 */
void lsmem_warm_begin(struct lsmem_store *store, bool fill, bool verify)
{
	struct lsmem_warm *warm = &store->tier.warm;
	const struct lsmem_segment *seg;

	lockdep_assert_held(&store->mutex);
	lsmem_warm_end(store);	/* of an activation that failed */
	if (!store->tier.on || !(fill || verify) || percpu_counter_sum(&store->tier.cold) <= 0)
		return;
	warm->indices = kvmalloc_array(store->segments.nr_log, sizeof(*warm->indices),
				       GFP_KERNEL_ACCOUNT);
	if (!warm->indices)
		return;
	warm->before = store->segments.next_id;
	warm->next = 0;
	warm->fill = fill;
	warm->verify = verify;
	list_for_each_entry(seg, &store->segments.log, node)
		if (atomic_read(seg->cold))
			warm->indices[warm->left++] = seg->index;
}

/**
 * lsmem_warm_end - read nothing more
 * @store: the store; its cleaner's thread calls, or does not run
 */
void lsmem_warm_end(struct lsmem_store *store)
{
	WRITE_ONCE(store->tier.warm.left, 0);
	store->tier.warm.failed = 0;
	kvfree(store->tier.warm.indices);
	store->tier.warm.indices = NULL;
}

/* Is there memory for one more segment, so that writers do not have to wait? */
static bool lsmem_warm_fits(const struct lsmem_store *store)
{
	return lsmem_seglets_free(&store->seglets) >
	       READ_ONCE(store->space.clean_below) + 2 * LSMEM_SEGLETS;
}

/* Put what is COLD of a segment that was fetched into memory. Returns 0, or -EAGAIN: it is full. */
static int lsmem_warm_put(struct lsmem_store *store, const struct lsmem_segment *seg)
{
	const void *data = store->fetches.segment;
	u32 at = 0, first = 0, nr = 0;
	int ret = 0;

	while (at < seg->home && !ret) {
		const struct lsmem_entry *e = data + at;
		u64 word;

		if (at / LSMEM_BLOCK != first / LSMEM_BLOCK)
			first = at;
		rcu_read_lock();
		word = lsmem_fetched_word(store, seg, at, first, e);
		rcu_read_unlock();
		if (lsmem_word_state(word) == LSMEM_WORD_COLD) {
			const void *payload = (const void *)e + lsmem_entry_header(e);

			mutex_lock(&store->tier.fill);
			ret = lsmem_cache_install(store, word, e, at % LSMEM_BLOCK, payload,
						  lsmem_crc32c(~0u, payload, lsmem_entry_length(e)));
			mutex_unlock(&store->tier.fill);
		}
		at = lsmem_entry_start(at + lsmem_entry_bytes(e));
		if (++nr % LSMEM_WARM_BATCH == 0)
			cond_resched();
	}
	return ret;
}

/* Is there anything to verify in a segment? */
static bool lsmem_warm_wants(const struct lsmem_warm *warm, const struct lsmem_segment *seg)
{
	/* A segment that was cleaned has lost its id, perhaps to a new one. */
	return seg->id && seg->id < warm->before && seg->close_acked && atomic_read(seg->cold);
}

/* Read the segment that is next. Returns 0, -EIO: no backup has it whole; or: again later. */
static int lsmem_warm_read(struct lsmem_store *store, struct lsmem_segment *seg)
{
	struct lsmem_warm *warm = &store->tier.warm;
	u64 begun = ktime_get_ns();
	int ret;

	if (!lsmem_warm_wants(warm, seg))
		return 0;
	if (READ_ONCE(seg->unreadable))		/* the cleaner has tried */
		return -EIO;
	ret = lsmem_fetched(store, seg);
	warm->next = ktime_get_ns() + LSMEM_WARM_REST * (ktime_get_ns() - begun);
	if (!ret && warm->fill && lsmem_warm_put(store, seg))
		WRITE_ONCE(warm->fill, false);
	return ret;
}

/* Take the segment that was read off the list, or keep it for another daemon. */
static void lsmem_warm_next(struct lsmem_warm *warm, bool failed)
{
	u32 last = warm->left - 1;

	if (failed)
		warm->failed++;
	else
		warm->indices[last] = warm->indices[last + warm->failed];
	WRITE_ONCE(warm->left, last);
}

/**
 * lsmem_warm - read one segment
 * @store: active
 *
 * Context: the cleaner's thread, when no pass is under way; waits at most fetch_ms.
 * Return: false: there is nothing to do, or not now.
 */
bool lsmem_warm(struct lsmem_store *store)
{
	struct lsmem_warm *warm = &store->tier.warm;
	int ret;

	if (!READ_ONCE(store->repl.attached) || READ_ONCE(warm->brought))	/* again is set after it, and wakes */
		return false;
	if (atomic_xchg(&warm->again, 0)) {
		WRITE_ONCE(warm->left, warm->left + warm->failed);
		warm->failed = 0;
	}
	if (!warm->left)
		return false;
	if (warm->fill && !lsmem_warm_fits(store))
		WRITE_ONCE(warm->fill, false);
	if (!warm->fill && !warm->verify) {
		lsmem_warm_end(store);
		return false;
	}
	/* Readers wait for the drives, and nothing waits for this. */
	if (!warm->fill && READ_ONCE(store->fetches.nr) && ktime_get_ns() < warm->next)
		return false;
	ret = lsmem_warm_read(store, &store->segments.table[warm->indices[warm->left - 1]]);
	if (ret && ret != -EIO)
		return false;
	lsmem_warm_next(warm, ret);
	if (!warm->left && !warm->failed)
		lsmem_warm_end(store);
	return true;
}

/**
 * lsmem_warm_again - another daemon has attached: its backups may have what others had not
 * @store: lsmem_segments_readable() has been called, repl.attached is set; plan.work is woken afterwards
 */
void lsmem_warm_again(struct lsmem_store *store)
{
	WRITE_ONCE(store->tier.warm.brought, false);
	/* Pairs with the exchange in lsmem_warm(): the segments are readable, by the new daemon. */
	atomic_set_release(&store->tier.warm.again, 1);
}

/* ---- What the daemon brings ---------------------------------------------- */

/* The entry in fetches.buffer.  Returns as lsmem_bring_one.result. */
static int lsmem_bring_entry(struct lsmem_store *store, u32 length)
{
	const struct lsmem_entry *e = store->fetches.buffer;
	const void *payload = (const void *)e + lsmem_entry_header(e);
	u64 index = lsmem_handle_index(lsmem_entry_handle(e)), word;
	const struct lsmem_segment *seg;
	u32 salt, pcrc;

	if (!lsmem_entry_sane(e) || lsmem_entry_type(e) != LSMEM_TYPE_OBJECT || lsmem_entry_bytes(e) != length ||
	    index >= store->handles.nr)
		return -EBADMSG;
	index = array_index_nospec(index, store->handles.nr);
	word = READ_ONCE(lsmem_handle_at(&store->handles, index)->word);
	if (lsmem_word_state(word) != LSMEM_WORD_COLD || lsmem_cold_block(word) != lsmem_entry_home(e))
		return -ENOENT;
	if (!lsmem_warm_fits(store))
		return -EAGAIN;
	seg = &store->segments.table[lsmem_cold_segment(word)];
	/* As long as the word is this one, as the exchange finds, the segment cannot become another. */
	spin_lock(&store->segments.lock);
	salt = seg->salt;
	spin_unlock(&store->segments.lock);
	pcrc = lsmem_crc32c(~0u, payload, lsmem_entry_length(e));
	if (!lsmem_entry_copied(e, pcrc, salt))
		return READ_ONCE(lsmem_handle_at(&store->handles, index)->word) == word ? -EBADMSG : -ENOENT;
	return lsmem_cache_install(store, word, e, LSMEM_INSIDE_UNKNOWN, payload, pcrc);
}

/* Returns as lsmem_bring_one.result, or -EFAULT. */
static int lsmem_bring_one(struct lsmem_store *store, const struct lsmem_bring_one *one)
{
	int ret;

	if (one->length < LSMEM_LONG_BYTES || one->length > LSMEM_LONG_BYTES + LSMEM_OBJECT_MAX)
		return -EBADMSG;
	mutex_lock(&store->tier.fill);
	if (copy_from_user(store->fetches.buffer, u64_to_user_ptr(one->data), one->length))
		ret = -EFAULT;
	else
		ret = lsmem_bring_entry(store, one->length);
	mutex_unlock(&store->tier.fill);
	return ret;
}

/**
 * lsmem_warm_bring - LSMEM_REPL_BRING
 * @store: attached
 * @bring: see there
 * Return: 0 or an error as there.
 */
long lsmem_warm_bring(struct lsmem_store *store, struct lsmem_bring *bring)
{
	struct lsmem_bring_one __user *user = u64_to_user_ptr(bring->entries);
	struct lsmem_bring_one one;
	u32 i;

	if (!store->tier.on)
		return -EOPNOTSUPP;
	if (bring->flags || bring->reserved || bring->nr > LSMEM_BRING_NR)
		return -EINVAL;
	if (!lsmem_store_active(store))
		return -EAGAIN;
	WRITE_ONCE(store->tier.warm.brought, true);
	for (i = 0; i < bring->nr; i++) {
		int ret;

		if (copy_from_user(&one, user + i, sizeof(one)))
			return -EFAULT;
		ret = lsmem_bring_one(store, &one);
		if (ret == -EFAULT || put_user(ret, &user[i].result))
			return -EFAULT;
		cond_resched();
	}
	if (!bring->nr) {
		lsmem_warm_again(store);
		wake_up_all(&store->plan.work);
	}
	return 0;
}
