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
 * Bytes on backups are read through (lsmem_through_ask()): the object stays COLD.
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
 */
struct lsmem_through {
	struct lsmem_frozen *frozen;
	u32 prefix;
	u64 until;
	u32 bytes;
	struct lsmem_wanted *asked[LSMEM_SNAPSHOT_READ_MAX];
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

/* Ask for the object of operation @i, if it is COLD, and enough is not on its way. */
static void lsmem_through_begin(struct lsmem_through *through, const struct lsmem_op *op, u32 i)
{
	struct lsmem_wanted *wanted;
	u64 word;

	if (!lsmem_through_left(through, op->handle) || through->bytes >= LSMEM_THROUGH_BYTES)
		return;
	word = lsmem_through_word(through, op->handle);
	if (lsmem_word_state(word) != LSMEM_WORD_COLD)
		return;
	wanted = lsmem_through_ask(through->frozen->store, op->handle, word);
	if (IS_ERR(wanted))
		return;		/* it is tried again */
	through->asked[i] = wanted;
	through->bytes += lsmem_cold_blocks(word) * LSMEM_BLOCK;
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

/* Get the bytes of operation @i from where they are.  Returns 0; -EAGAIN: look again; or its result. */
static int lsmem_through_get(struct lsmem_through *through, struct lsmem_op *op, u32 i)
{
	struct lsmem_wanted *wanted = through->asked[i];
	struct lsmem_store *store = through->frozen->store;
	struct lsmem_entry found;
	const void *bytes;
	int ret;

	if (!wanted) {
		ret = lsmem_object_read(store, op);
		if (ret != -LSMEM_ECOLD)
			return ret;
		wanted = lsmem_through_ask(store, op->handle, lsmem_through_word(through, op->handle));
		if (wanted == ERR_PTR(-EBUSY)) {
			schedule_timeout_killable(1);	/* others are being answered */
			return -EAGAIN;
		}
		if (IS_ERR(wanted))
			return PTR_ERR(wanted);
	}
	bytes = lsmem_through_wait(wanted, through->until, &found);
	ret = IS_ERR(bytes) ? PTR_ERR(bytes) : bytes ? lsmem_through_copy(op, &found, bytes) : -EAGAIN;
	lsmem_through_put(wanted);
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
