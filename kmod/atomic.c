// SPDX-License-Identifier: GPL-2.0
/*
 * Operations of a client that are carried out all or none: a vector call with LSMEM_OPF_ATOMIC.
 *
 * They become a group (group.c), whose payloads are the kernel's: they are copied from the user before
 * anything is reserved, so that a slow page of the user delays no other client.
 *
 * No locks.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "../uapi/lsmem.h"
#include "atomic.h"
#include "entry.h"
#include "group.h"
#include "object.h"
#include "store.h"

/**
 * struct lsmem_atomic - the operations of a call as a group
 * @payload: of all, one after the other
 * @changes: one for each operation
 */
struct lsmem_atomic {
	void *payload;
	struct lsmem_change changes[];
};

/* The bytes of all payloads, or -E2BIG. */
static int lsmem_atomic_bytes(const struct lsmem_op *ops, u32 nr)
{
	u64 bytes = 0;
	u32 i;

	/* Headers and gaps of that many small entries, and of 1 MiB in one, are the most besides. */
	BUILD_BUG_ON(LSMEM_ATOMIC_MAX > LSMEM_GROUP_MAX);
	BUILD_BUG_ON(LSMEM_OBJECT_MAX + (LSMEM_ATOMIC_MAX + LSMEM_OBJECT_MAX / LSMEM_SEGLET_BYTES + 1) *
		     2 * (LSMEM_LONG_BYTES + LSMEM_ALIGN) + LSMEM_LONG_BYTES > LSMEM_GROUP_BYTES);
	for (i = 0; i < nr; i++)
		bytes += ops[i].length;		/* of LSMEM_OP_FREE and LSMEM_OP_CHECK: 0 */
	return bytes > LSMEM_OBJECT_MAX ? -E2BIG : (int)bytes;
}

/* Make a change of an operation, with its payload at @to. */
static int lsmem_atomic_one(struct lsmem_store *store, struct lsmem_change *change,
			    const struct lsmem_op *op, void *to)
{
	*change = (struct lsmem_change){
		.op = op->op,
		.table = op->table,
		.handle = op->handle,
		.data = to,
		.length = op->length,
		.expect = op->flags & LSMEM_OPF_EXPECT,
		.settle = store->durable,
		.version = op->version,
	};
	if (change->length && copy_from_user(to, u64_to_user_ptr(op->data), change->length))
		return -EFAULT;
	return op->op == LSMEM_OP_ALLOC ? lsmem_object_handle(store, op, &change->handle) : 0;
}

/* The first @nr operations are not carried out: give their new handles back. */
static void lsmem_atomic_undo(struct lsmem_store *store, const struct lsmem_atomic *atomic, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++)
		if (atomic->changes[i].op == LSMEM_OP_ALLOC)
			lsmem_handle_free(store, atomic->changes[i].handle);
}

static int lsmem_atomic_try(struct lsmem_store *store, struct lsmem_atomic *atomic,
			    struct lsmem_op *ops, u32 nr, struct lsmem_place *place)
{
	void *to = atomic->payload;
	u32 i;
	int ret;

	for (i = 0; i < nr; i++) {
		ret = lsmem_atomic_one(store, &atomic->changes[i], &ops[i], to);
		if (ret) {
			ops[i].result = ret;
			lsmem_atomic_undo(store, atomic, i);
			return ret;
		}
		to += atomic->changes[i].length;
	}
	ret = lsmem_group_change(store, atomic->changes, nr, place);
	if (ret)
		lsmem_atomic_undo(store, atomic, nr);
	for (i = 0; i < nr; i++) {
		const struct lsmem_change *change = &atomic->changes[i];

		if (change->result)
			ops[i].result = change->result == -EUCLEAN ? -EINVAL : change->result;
		if (!ret || change->result == -EILSEQ)
			ops[i].version = change->version;
		if (!ret)
			ops[i].handle = change->handle;
	}
	return ret == -EUCLEAN ? -EINVAL : ret;
}

/**
 * lsmem_atomic_change - carry out operations, all or none
 * @store: active, object kind
 * @ops: checked: all but LSMEM_OP_READ, with their results 0; handles and
 *	versions are filled in, and with an error the result of the one that has caused it, if one has
 * @nr: 1 .. LSMEM_ATOMIC_MAX
 * @place: in: its deadline; out: for a durable wait; segment 0: nothing was written
 *
 * Context: sleeps; holds nothing.  Memory is charged to the caller.
 * Return: 0; -EINVAL: an object is named twice; -E2BIG: more than LSMEM_OBJECT_MAX bytes in all;
 * -EFAULT; as lsmem_handle_alloc() and lsmem_group_change().  With an error nothing is changed.
 */
int lsmem_atomic_change(struct lsmem_store *store, struct lsmem_op *ops, u32 nr,
			struct lsmem_place *place)
{
	struct lsmem_atomic *atomic;
	int bytes, ret = -ENOMEM;

	bytes = lsmem_atomic_bytes(ops, nr);
	if (bytes < 0)
		return bytes;
	if (lsmem_group_prepare(store))
		return -ENOMEM;
	atomic = kvmalloc(struct_size(atomic, changes, nr), GFP_KERNEL_ACCOUNT);
	if (!atomic)
		return -ENOMEM;
	atomic->payload = kvmalloc(bytes, GFP_KERNEL_ACCOUNT);
	if (atomic->payload || !bytes)
		ret = lsmem_atomic_try(store, atomic, ops, nr, place);
	kvfree(atomic->payload);
	kvfree(atomic);
	return ret;
}
