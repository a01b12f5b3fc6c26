// SPDX-License-Identifier: GPL-2.0
/*
 * What a snapshot has of a tiered store that was COLD at its version.
 *
 * The snapshot has a bit for the index of each such object (lsmem_frozen.cold).  The bit is a token: who clears it
 * sees to it that the reader of the snapshot gets the object, once.
 *
 *	the reader	reads the object, then clears the bit.  If it is clear already, the object may have
 *			changed while it was read: what was read is dropped
 *	a writer	exchanges the word, then clears the bit, and sets one in the late bitmap, for the older
 *			entry, which is in memory (lsmem_word_late())
 *
 * So as long as the bit is set, the object is as it was at the version, or the writer that has exchanged its word has
 * not cleared the bit yet.  Then what is read has a higher version, or none, and is dropped.  Where the
 * object is does not matter: fetching, evicting and cleaning move it, and a look at its word tells where to.  Nothing
 * is kept back on the backups.
 *
 * Bytes on backups are read through (lsmem_through_ask()): the object stays COLD.  Objects of a call that lie close together
 * there are one request (joined.c), as far as they follow each other in the call.
 *
 * No locks.
 */
#include <linux/nospec.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "entry.h"
#include "fetch.h"
#include "handle.h"
#include "joined.h"
#include "object.h"
#include "snapshot.h"
#include "store.h"
#include "through.h"

/* Bytes that requests of a call have room for, on their way together. */
#define LSMEM_THROUGH_BYTES	(8u << 20)

/**
 * struct lsmem_through - a call
 * @frozen: the snapshot
 * @prefix: bytes that are wanted of each object
 * @until: end of its waits, ktime in ns
 * @bytes: of the requests that are on their way
 * @asked: of each operation: its request, or NULL
 * @which: of each: which object of the request
 * @joined: the request that is being made
 * @sought: its objects
 * @ops: their operations
 */
struct lsmem_through {
	struct lsmem_frozen *frozen;
	u32 prefix;
	u64 until;
	u32 bytes;
	struct lsmem_wanted *asked[LSMEM_SNAPSHOT_READ_MAX];
	u32 which[LSMEM_SNAPSHOT_READ_MAX];
	struct lsmem_joined joined;
	struct lsmem_sought sought[LSMEM_SNAPSHOT_READ_MAX];
	u32 ops[LSMEM_SNAPSHOT_READ_MAX];
};

static u64 lsmem_through_word(const struct lsmem_through *through, u64 index)
{
	return READ_ONCE(lsmem_handle_at(&through->frozen->store->handles, index)->word);
}

/* Is the object still to be read? */
static bool lsmem_through_left(const struct lsmem_through *through, u64 index)
{
	const struct lsmem_handles *handles = &through->frozen->store->handles;

	return index < handles->nr && test_bit(array_index_nospec(index, handles->nr), through->frozen->cold);
}

/* Ask for what is joined. */
static void lsmem_through_send(struct lsmem_through *through)
{
	struct lsmem_joined *joined = &through->joined;
	struct lsmem_wanted *wanted;
	u32 i;

	if (!joined->nr)
		return;
	wanted = lsmem_through_ask(through->frozen->store, through->sought, joined->nr, joined->blocks);
	if (!IS_ERR(wanted)) {		/* otherwise each is tried again */
		through->bytes += joined->blocks * LSMEM_BLOCK;
		for (i = 0; i < joined->nr; i++) {
			through->asked[through->ops[i]] = wanted;
			through->which[through->ops[i]] = i;
		}
	}
	joined->nr = 0;
}

/* Ask for the object of operation @i, with the next ones perhaps, if it is COLD, and enough is not on its way. */
static void lsmem_through_begin(struct lsmem_through *through, const struct lsmem_op *op, u32 i)
{
	u32 nr;
	u64 word;

	if (!lsmem_through_left(through, op->handle) || through->bytes >= LSMEM_THROUGH_BYTES)
		return;
	word = lsmem_through_word(through, op->handle);
	if (lsmem_word_state(word) != LSMEM_WORD_COLD)
		return;
	if (!lsmem_join(&through->joined, lsmem_cold_segment(word), lsmem_cold_block(word), lsmem_cold_blocks(word))) {
		lsmem_through_send(through);
		lsmem_join(&through->joined, lsmem_cold_segment(word), lsmem_cold_block(word),
			   lsmem_cold_blocks(word));
	}
	nr = through->joined.nr - 1;
	through->sought[nr] = (struct lsmem_sought){ .word = word, .index = op->handle };
	through->ops[nr] = i;
}

/* Copy what was read through to the user.  Returns 0 or -EFAULT. */
static int lsmem_through_copy(struct lsmem_op *op, const struct lsmem_entry *e, const void *bytes)
{
	op->handle = lsmem_entry_handle(e);
	op->version = lsmem_entry_version(e);
	op->table = lsmem_entry_table(e);
	op->object_length = lsmem_entry_length(e);
	op->length = min(op->length, op->object_length);
	return copy_to_user(u64_to_user_ptr(op->data), bytes, op->length) ? -EFAULT : 0;
}

/* Ask for the object of operation @i alone.  Returns 0; -EAGAIN: look again; or its result. */
static int lsmem_through_single(struct lsmem_through *through, u64 index, u32 i)
{
	struct lsmem_sought sought = { .word = lsmem_through_word(through, index), .index = index };
	struct lsmem_wanted *wanted = lsmem_through_ask(through->frozen->store, &sought, 1,
							lsmem_cold_blocks(sought.word));

	if (wanted == ERR_PTR(-EBUSY)) {
		schedule_timeout_killable(1);	/* others are being answered */
		return -EAGAIN;
	}
	if (IS_ERR(wanted))
		return PTR_ERR(wanted);
	through->asked[i] = wanted;
	through->which[i] = 0;
	return 0;
}

/* Get the bytes of operation @i from where they are.  Returns 0; -EAGAIN: look again; or its result. */
static int lsmem_through_get(struct lsmem_through *through, struct lsmem_op *op, u32 i)
{
	struct lsmem_entry found;
	const void *bytes;
	int ret;

	if (!through->asked[i]) {
		ret = lsmem_object_read(through->frozen->store, op);
		if (ret == -LSMEM_ECOLD)
			ret = lsmem_through_single(through, op->handle, i);
		if (!through->asked[i])
			return ret;
	}
	bytes = lsmem_through_wait(through->asked[i], through->which[i], through->until, &found);
	ret = IS_ERR(bytes) ? PTR_ERR(bytes) : bytes ? lsmem_through_copy(op, &found, bytes) : -EAGAIN;
	lsmem_through_put(through->asked[i]);
	through->asked[i] = NULL;
	return ret;
}

/* One operation.  Returns its result. */
static int lsmem_through_one(struct lsmem_through *through, struct lsmem_op *op, u32 i)
{
	const u64 nr = through->frozen->store->handles.nr;
	const u32 room = min(op->length, LSMEM_OBJECT_MAX);
	u64 index = op->handle;
	int ret;

	if (op->op != LSMEM_OP_READ || op->flags != LSMEM_OPF_INDEX || op->offset || op->result)
		return -EINVAL;
	if (!access_ok(u64_to_user_ptr(op->data), room))
		return -EFAULT;
	if (index >= nr)
		return -ENOENT;
	index = array_index_nospec(index, nr);
	do {
		if (!lsmem_through_left(through, index))
			return -ENOENT;
		if (fatal_signal_pending(current))
			return -EINTR;
		if (ktime_get_ns() >= through->until)
			return -ETIMEDOUT;
		op->handle = index;
		op->length = room;
		ret = lsmem_through_get(through, op, i);
	} while (ret == -EAGAIN && lsmem_store_active(through->frozen->store));
	if (ret)
		return ret;
	/* Of one that has changed a writer clears the bit. */
	if (op->version > through->frozen->window->version)
		return -ENOENT;
	if (op->length < min(op->object_length, through->prefix))
		return -EMSGSIZE;
	return test_and_clear_bit(index, through->frozen->cold) ? 0 : -ENOENT;
}

/* All operations, in order.  Returns 0 or a negative errno. */
static int lsmem_through_all(struct lsmem_through *through, struct lsmem_op *ops, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++)
		if (ops[i].op == LSMEM_OP_READ)
			lsmem_through_begin(through, &ops[i], i);
	lsmem_through_send(through);
	for (i = 0; i < nr; i++) {
		ops[i].result = lsmem_through_one(through, &ops[i], i);
		if (ops[i].result == -EINTR)
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/**
 * lsmem_through_ioctl - LSMEM_IOC_SNAPSHOT_READ
 * @context: struct lsmem_frozen, cut
 * @arg: struct lsmem_snapshot_read
 *
 * Context: sleeps, killable, limits/fetch_ms at most.  Return: as struct lsmem_snapshot_read says.
 */
long lsmem_through_ioctl(void *context, void *arg)
{
	struct lsmem_frozen *frozen = context;
	const struct lsmem_snapshot_read *read = arg;
	struct lsmem_store *store = frozen->store;
	struct lsmem_through *through;
	struct lsmem_op *ops;
	long ret;
	u32 i;

	if (!frozen->cold)
		return -EOPNOTSUPP;
	if (read->flags || !read->nr || read->nr > LSMEM_SNAPSHOT_READ_MAX)
		return -EINVAL;
	if (!lsmem_store_active(store))
		return -EAGAIN;
	if (!READ_ONCE(frozen->stands))
		return -ECANCELED;
	through = kvzalloc(sizeof(*through), GFP_KERNEL_ACCOUNT);
	ops = kvmalloc_array(read->nr, sizeof(*ops), GFP_KERNEL_ACCOUNT);
	ret = -ENOMEM;
	if (!through || !ops)
		goto out;
	ret = -EFAULT;
	if (copy_from_user(ops, u64_to_user_ptr(read->ops), read->nr * sizeof(*ops)))
		goto out;
	through->frozen = frozen;
	through->prefix = read->prefix ?: U32_MAX;
	through->until = ktime_get_ns() + (u64)READ_ONCE(store->fetches.fetch_ms) * NSEC_PER_MSEC;
	ret = lsmem_through_all(through, ops, read->nr);
	for (i = 0; i < read->nr; i++)
		if (through->asked[i])
			lsmem_through_put(through->asked[i]);
	/* Also after an error: what was read is the caller's. */
	if (copy_to_user(u64_to_user_ptr(read->ops), ops, read->nr * sizeof(*ops)))
		ret = -EFAULT;
out:
	kvfree(ops);
	kvfree(through);
	return ret;
}
