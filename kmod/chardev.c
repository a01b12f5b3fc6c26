// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/lsmem*: the object calls.
 *
 * Each field of an operation is checked here, once; lower layers trust it.  A call that changes
 * the store needs a file open for writing, one that reads needs it open for reading.  A vector
 * call carries out its operations one after the other, copies each back with its result, and
 * waits once for all durable operations.  A call that comes from io_uring does not wait: it says
 * what there is to wait for (uring.c).
 *
 * No locks.
 */
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "atomic.h"
#include "chardev.h"
#include "compat/compat.h"
#include "durable.h"
#include "epoch.h"
#include "frozen.h"
#include "group.h"
#include "ioctl.h"
#include "load.h"
#include "misses.h"
#include "object.h"
#include "pagefs.h"
#include "registry.h"
#include "shared.h"
#include "span.h"
#include "store.h"
#include "uring.h"
#include "watcher.h"
#include "window.h"

#ifdef CONFIG_IO_URING
#include "compat/uring.h"
#endif

#define LSMEM_VECTOR_MAX	1024
#define LSMEM_VECTOR_CHUNK	LSMEM_SPAN_MAX	/* operations fetched together */
static_assert(LSMEM_VECTOR_CHUNK <= LSMEM_MISSES_MAX);
#define LSMEM_OPF_CHANGE	(LSMEM_OPF_DURABLE | LSMEM_OPF_EXPECT)

/**
 * struct lsmem_call - the context of a call
 * @store: of the file
 * @mode: of the file
 * @user: the structure of the call
 * @uring: it is a command of io_uring: it does not wait for durability, but returns -EIOCBQUEUED
 * @nowait: it does not wait for space either, but returns -LSMEM_EWAIT and has changed nothing
 * @pending: of a command that may end later; NULL: a call that waits
 */
struct lsmem_call {
	struct lsmem_store *store;
	fmode_t mode;
	void __user *user;
	bool uring;
	bool nowait;
	struct lsmem_pending *pending;
};

/* ---- Calls that do not wait ---------------------------------------------- */

/*
 * Prepare for a call that may end later, in a structure of @bytes.  When too many may, a thread
 * waits for this one.
 */
static int lsmem_call_begin(struct lsmem_call *call, size_t bytes)
{
	int ret;

	if (!call->uring)
		return 0;
	ret = lsmem_pending_new(call->store, bytes, &call->pending);
	if (ret != -EBUSY)
		return ret;
	return call->nowait ? -LSMEM_EWAIT : 0;
}

/* Have a durable call end when all before @point is received, or else @place. */
static long lsmem_call_park(struct lsmem_call *call, const struct lsmem_place *place,
			    const struct lsmem_vector_point *point)
{
	struct lsmem_parked *parked = &call->pending->parked;

	if (place) {
		lsmem_count(call->store, durable_waits, 1);
		parked->place = *place;
	}
	parked->point = point;
	parked->deadline = ktime_get_ns() +
			   (u64)READ_ONCE(call->store->repl.durable_ms) * NSEC_PER_MSEC;
	return -EIOCBQUEUED;
}

static u64 lsmem_call_deadline(const struct lsmem_call *call)
{
	return call->nowait ? LSMEM_NO_WAIT : 0;
}

/* ---- One operation ------------------------------------------------------ */

/* The fields that each operation takes; index: LSMEM_OP_*. */
static const struct {
	u32 flags;
	fmode_t mode;
	bool payload;
	int (*change)(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_place *place);
} lsmem_ops[] = {
	[LSMEM_OP_ALLOC] = { LSMEM_OPF_DURABLE | LSMEM_OPF_INDEX, FMODE_WRITE, true, lsmem_object_alloc },
	[LSMEM_OP_READ] = { LSMEM_OPF_NOWAIT | LSMEM_OPF_INDEX, FMODE_READ, false, NULL },
	[LSMEM_OP_REPLACE] = { LSMEM_OPF_CHANGE, FMODE_WRITE, true, lsmem_object_replace },
	[LSMEM_OP_FREE] = { LSMEM_OPF_CHANGE, FMODE_WRITE, false, lsmem_object_free },
	[LSMEM_OP_CHECK] = { LSMEM_OPF_EXPECT, FMODE_WRITE, false, NULL },	/* in groups alone */
};

/* The row of an operation. An unknown or mispredicted one has row 0, which takes nothing. */
static u32 lsmem_op_row(u32 op)
{
	return op < ARRAY_SIZE(lsmem_ops) ? array_index_nospec(op, ARRAY_SIZE(lsmem_ops)) : 0;
}

/* Check which object an operation names, and the table of a new one. */
static int lsmem_op_check_object(const struct lsmem_store *store, const struct lsmem_op *op)
{
	bool by_index = op->flags & LSMEM_OPF_INDEX;

	if (op->op == LSMEM_OP_ALLOC) {
		u64 first = by_index ? store->handles.common : 0;

		if (op->table >= LSMEM_TABLES || op->handle < first ||
		    op->handle >= first + (by_index ? store->handles.nr - first : 1))
			return -EINVAL;
		return 0;
	}
	return op->handle || by_index ? 0 : -ENOENT;
}

static int lsmem_op_check(const struct lsmem_call *call, const struct lsmem_op *op, u32 flags)
{
	u32 row = lsmem_op_row(op->op);
	bool reads = op->op == LSMEM_OP_READ;
	int ret;

	if (!row)
		return -EINVAL;
	if (flags & ~lsmem_ops[row].flags)
		return -EINVAL;
	if (!(call->mode & lsmem_ops[row].mode))
		return -EBADF;
	if (flags & LSMEM_OPF_DURABLE && !call->store->durable)
		return -EOPNOTSUPP;
	if (lsmem_ops[row].payload && (!op->length || op->length > LSMEM_OBJECT_MAX))
		return -EINVAL;
	if (reads && op->length > LSMEM_OBJECT_MAX)
		return -EINVAL;
	ret = lsmem_op_check_object(call->store, op);
	if (ret)
		return ret;
	if (!reads && (op->offset || op->object_length))
		return -EINVAL;
	if (op->op != LSMEM_OP_ALLOC && !reads && op->table)
		return -EINVAL;
	if ((lsmem_ops[row].payload || reads) &&
	    !access_ok(u64_to_user_ptr(op->data), op->length))
		return -EFAULT;
	if (!lsmem_ops[row].payload && !reads && (op->data || op->length))
		return -EINVAL;
	return 0;
}

/*
 * Check and carry out one operation with @flags.  @place: out, where its change lies; segment 0:
 * no change.  @misses: NULL, or those of operations of which this is number @which.
 */
static int lsmem_op_run(const struct lsmem_call *call, struct lsmem_op *op, u32 flags,
			struct lsmem_place *place, struct lsmem_misses *misses, u32 which)
{
	int ret = op->op == LSMEM_OP_CHECK ? -EINVAL : lsmem_op_check(call, op, flags);
	u64 until = place->lapsed, never = LSMEM_NO_WAIT;	/* lapsed: over since long */

	place->segment = 0;
	place->head = 0;
	if (ret)
		return ret;
	if (!lsmem_store_active(call->store))
		return op->op == LSMEM_OP_READ ? lsmem_load_read(call->store, op) : -EAGAIN;
	ret = lsmem_store_thawed(call->store, flags & LSMEM_OPF_NOWAIT ? &never : &place->deadline);
	if (ret)
		return ret == -LSMEM_EWAIT && flags & LSMEM_OPF_NOWAIT ? -EAGAIN : ret;
	do {
		if (op->op == LSMEM_OP_READ)
			ret = lsmem_object_read(call->store, op);
		else
			ret = lsmem_ops[lsmem_op_row(op->op)].change(call->store, op, place);
		if (likely(ret != -LSMEM_ECOLD && ret != -LSMEM_EUNSETTLED)) {
			/* Writes tell little of reads; what was fetched must be read again to stay. */
			if (!until && !ret && op->op == LSMEM_OP_READ && !lsmem_misses_has(misses, which))
				lsmem_touch(&call->store->tier, lsmem_handle_index(op->handle));
			return ret;
		}
		if (ret == -LSMEM_EUNSETTLED) {
			ret = lsmem_group_follow(call->store, lsmem_handle_index(op->handle), place);
			if (op->op == LSMEM_OP_ALLOC)
				op->handle = op->flags & LSMEM_OPF_INDEX ? lsmem_handle_index(op->handle) : 0;
			continue;
		}
		ret = lsmem_misses_fetch(call->store, misses, which, lsmem_handle_index(op->handle), &until,
					 flags & LSMEM_OPF_NOWAIT ? LSMEM_NO_WAIT : place->deadline);
		if (ret == -LSMEM_EWAIT && flags & LSMEM_OPF_NOWAIT)
			return -EAGAIN;
	} while (!ret);
	place->lapsed |= ret == -ETIMEDOUT;
	return ret;
}

static long lsmem_op_single(void *context, struct lsmem_op *op, u32 which)
{
	struct lsmem_call *call = context;
	struct lsmem_place place = { .deadline = lsmem_call_deadline(call) };
	bool durable = op->flags & LSMEM_OPF_DURABLE && call->store->durable;
	long ret = 0;

	if (op->op != which || op->result)
		return -EINVAL;
	if (durable)
		ret = lsmem_call_begin(call, sizeof(*call->pending));
	if (!ret)
		ret = lsmem_op_run(call, op, op->flags, &place, NULL, 0);
	if (ret || !durable || !place.segment)
		return ret;
	return call->pending ? lsmem_call_park(call, &place, NULL) :
			       lsmem_wait_received(call->store, &place);
}

static long lsmem_ioctl_alloc(void *context, void *arg)
{
	return lsmem_op_single(context, arg, LSMEM_OP_ALLOC);
}

static long lsmem_ioctl_read(void *context, void *arg)
{
	return lsmem_op_single(context, arg, LSMEM_OP_READ);
}

static long lsmem_ioctl_replace(void *context, void *arg)
{
	return lsmem_op_single(context, arg, LSMEM_OP_REPLACE);
}

static long lsmem_ioctl_free(void *context, void *arg)
{
	return lsmem_op_single(context, arg, LSMEM_OP_FREE);
}

/* ---- Many operations ---------------------------------------------------- */

/**
 * struct lsmem_vector_run - how far a vector has come
 * @vector: from the user; its nr is that which was given
 * @done: operations carried out
 * @place: of the last change, and the deadline for space of all
 * @durable: an operation that is durable was carried out
 */
struct lsmem_vector_run {
	struct lsmem_vector vector;
	u32 done;
	struct lsmem_place place;
	bool durable;
};

/**
 * struct lsmem_vector_pending - a vector that ends later
 * @pending: first
 * @call: without a wait for durability
 * @run: for the rest
 * @point: that its durable operations lie before
 */
struct lsmem_vector_pending {
	struct lsmem_pending pending;
	struct lsmem_call call;
	struct lsmem_vector_run run;
	struct lsmem_vector_point point;
};

static struct lsmem_op __user *lsmem_vector_user(const struct lsmem_vector *vector, u32 i)
{
	return u64_to_user_ptr(vector->ops + (u64)i * vector->stride);
}

/* The flags of an operation in a vector: its own, and those of the vector. */
static u32 lsmem_vector_flags(const struct lsmem_vector *vector, u32 op, u32 flags)
{
	return flags | (vector->flags & lsmem_ops[lsmem_op_row(op)].flags);
}

/*
 * Carry out one operation of a vector.  Only a fault on the descriptor itself ends the vector.
 */
static int lsmem_vector_one(const struct lsmem_call *call, const struct lsmem_vector *vector,
			    struct lsmem_op __user *user, struct lsmem_place *place,
			    bool *durable)
{
	struct lsmem_op op;
	size_t shared;
	u32 size, flags;
	int ret;

	if (get_user(size, &user->size))
		return -EFAULT;
	if (size > vector->stride)
		ret = -EINVAL;
	else
		ret = lsmem_ioctl_fetch(&op, sizeof(op), LSMEM_OP_SIZE_VER0, user, size);
	if (ret)
		return put_user(ret, &user->result) ? -EFAULT : 0;
	shared = min_t(size_t, size, sizeof(op));
	/* Do nothing whose result cannot be copied back. */
	if (copy_to_user(user, &op, shared))
		return -EFAULT;
	flags = lsmem_vector_flags(vector, op.op, op.flags);
	op.result = lsmem_op_run(call, &op, flags, place, NULL, 0);
	if ((op.result == -EINTR && fatal_signal_pending(current)) || op.result == -LSMEM_EWAIT)
		return op.result;
	if (!op.result && flags & LSMEM_OPF_DURABLE)
		*durable = true;
	return copy_to_user(user, &op, shared) ? -EFAULT : 0;
}

/*
 * The wait of a vector failed: set the results of its durable operations, of a group also those of its checks: what was
 * checked is as uncertain as the group.
 */
static int lsmem_vector_unknown(const struct lsmem_vector *vector, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		struct lsmem_op __user *user = lsmem_vector_user(vector, i);
		u32 op, flags;
		s32 result;

		if (get_user(op, &user->op) || get_user(flags, &user->flags) ||
		    get_user(result, &user->result))
			return -EFAULT;
		if (!result && (op == LSMEM_OP_CHECK || lsmem_vector_flags(vector, op, flags) & LSMEM_OPF_DURABLE) &&
		    put_user(-ETIMEDOUT, &user->result))
			return -EFAULT;
	}
	return 0;
}

/* Carry out the first operations as one span. Returns how many; 0: there is no span. */
static u32 lsmem_vector_span(const struct lsmem_call *call, const struct lsmem_vector *vector,
			     struct lsmem_op *ops, u32 nr, u64 deadline)
{
	u32 i;

	if (!lsmem_store_active(call->store))
		return 0;
	for (i = 0; i < nr; i++) {
		u32 flags = lsmem_vector_flags(vector, ops[i].op, ops[i].flags);

		if ((ops[i].op != LSMEM_OP_ALLOC && ops[i].op != LSMEM_OP_REPLACE) || flags & LSMEM_OPF_INDEX ||
		    lsmem_op_check(call, &ops[i], flags))
			break;
	}
	return i < 2 ? 0 : lsmem_span_change(call->store, ops, i, deadline);
}

/*
 * Carry out operations of the size that this kernel knows as a batch: their descriptors are copied
 * together, and their cache misses overlap.  Returns how many were carried out; less than @nr only
 * with an error in @ret.
 */
static u32 lsmem_vector_chunk(const struct lsmem_call *call, const struct lsmem_vector *vector,
			      struct lsmem_op __user *user, struct lsmem_op *ops, u32 nr,
			      struct lsmem_place *place, bool *durable, long *ret)
{
	u64 cold = lsmem_objects_prefetch(call->store, ops, nr);
	u32 i = 0, done, span_at = 0, alone = 1;
	struct lsmem_misses *misses = NULL;

	if (unlikely(cold) && lsmem_store_active(call->store))
		misses = lsmem_misses_new(call->store, ops, cold);
	while (i < nr) {
		done = i < span_at ? 0 : lsmem_vector_span(call, vector, &ops[i], nr - i,
							   place->deadline);
		if (!done) {
			u32 flags = lsmem_vector_flags(vector, ops[i].op, ops[i].flags);

			ops[i].result = lsmem_op_run(call, &ops[i], flags, place, misses, i);
			if ((ops[i].result == -EINTR && fatal_signal_pending(current)) ||
			    ops[i].result == -LSMEM_EWAIT) {
				*ret = ops[i].result;
				break;
			}
			done = 1;
			/* What prevents a span may prevent the next: try again less and less often. */
			if (i >= span_at) {
				span_at = i + alone;
				alone *= 2;
			}
		}
		for (; done; done--, i++)
			if (!ops[i].result && lsmem_vector_flags(vector, ops[i].op, ops[i].flags) &
					      LSMEM_OPF_DURABLE)
				*durable = true;
	}
	lsmem_misses_free(misses);
	if (i && copy_to_user(user, ops, i * sizeof(*ops))) {
		*ret = -EFAULT;
		return 0;
	}
	return i;
}

/* Fetch @nr operations. Returns false if they must be fetched one by one. */
static bool lsmem_vector_fetch(const struct lsmem_vector *vector, struct lsmem_op __user *user,
			       struct lsmem_op *ops, u32 nr)
{
	u32 i;

	if (vector->stride != sizeof(*ops) || copy_from_user(ops, user, nr * sizeof(*ops)))
		return false;
	for (i = 0; i < nr; i++)
		if (ops[i].size != sizeof(*ops))
			return false;
	/* Do nothing whose result cannot be copied back: touch both pages that they may be on. */
	BUILD_BUG_ON(LSMEM_VECTOR_CHUNK * sizeof(*ops) > PAGE_SIZE);
	return !put_user(ops->size, &user->size) &&
	       !put_user(ops[nr - 1].object_length, &user[nr - 1].object_length);
}

/*
 * Carry out the operations that are left, which ends early only with an error.  -LSMEM_EWAIT: the
 * next one would wait.
 */
static long lsmem_vector_go(const struct lsmem_call *call, struct lsmem_vector_run *run)
{
	const struct lsmem_vector *vector = &run->vector;
	u32 most = min_t(u32, vector->nr - run->done, LSMEM_VECTOR_CHUNK);
	/* Without memory the operations are fetched one by one. */
	struct lsmem_op *ops = kmalloc_array(most, sizeof(*ops), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	long ret = 0;

	while (run->done < vector->nr && !ret) {
		struct lsmem_op __user *user = lsmem_vector_user(vector, run->done);
		u32 nr = min(vector->nr - run->done, most);

		if (ops && lsmem_vector_fetch(vector, user, ops, nr)) {
			run->done += lsmem_vector_chunk(call, vector, user, ops, nr, &run->place,
							&run->durable, &ret);
		} else {
			ret = lsmem_vector_one(call, vector, user, &run->place, &run->durable);
			run->done += !ret;
		}
		cond_resched();
	}
	kfree(ops);
	return ret;
}

/* ---- All operations or none --------------------------------------------- */

/* Fetch and check one operation. */
static int lsmem_atomic_fetch(const struct lsmem_call *call, const struct lsmem_vector *vector, u32 i,
			      struct lsmem_op *op)
{
	struct lsmem_op __user *user = lsmem_vector_user(vector, i);
	u32 size;
	int ret;

	if (get_user(size, &user->size))
		return -EFAULT;
	if (size > vector->stride)
		return -EINVAL;
	ret = lsmem_ioctl_fetch(op, sizeof(*op), LSMEM_OP_SIZE_VER0, user, size);
	if (ret)
		return ret;
	op->size = size;	/* it may have changed meanwhile */
	/* Do nothing whose result cannot be copied back. */
	if (copy_to_user(user, op, min_t(size_t, size, sizeof(*op))))
		return -EFAULT;
	if (op->op == LSMEM_OP_READ)
		return -EINVAL;
	return lsmem_op_check(call, op, lsmem_vector_flags(vector, op->op, op->flags));
}

/* Copy the results of operations back that are not carried out. */
static int lsmem_atomic_failed(const struct lsmem_vector *vector, const struct lsmem_op *ops)
{
	u32 i;

	for (i = 0; i < vector->nr; i++) {
		struct lsmem_op __user *user = lsmem_vector_user(vector, i);
		s32 result = ops[i].result;

		if (put_user(result ?: -ECANCELED, &user->result) ||
		    (result == -EILSEQ && put_user(ops[i].version, &user->version)))
			return -EFAULT;
	}
	return 0;
}

/* Copy the operations back that are carried out. */
static int lsmem_atomic_done(const struct lsmem_vector *vector, const struct lsmem_op *ops)
{
	u32 i;

	for (i = 0; i < vector->nr; i++)
		if (copy_to_user(lsmem_vector_user(vector, i), &ops[i],
				 min_t(size_t, ops[i].size, sizeof(*ops))))
			return -EFAULT;
	return 0;
}

/* Carry out all operations or none.  -LSMEM_EWAIT: they would wait. */
static long lsmem_vector_atomic(const struct lsmem_call *call, struct lsmem_vector_run *run)
{
	const struct lsmem_vector *vector = &run->vector;
	struct lsmem_op *ops;
	long ret = 0;
	u32 i;

	if (vector->nr > LSMEM_ATOMIC_MAX)
		return -E2BIG;
	if (!lsmem_store_active(call->store))
		return -EAGAIN;
	ops = kvcalloc(vector->nr, sizeof(*ops), GFP_KERNEL_ACCOUNT);
	if (!ops)
		return -ENOMEM;
	run->durable = vector->flags & LSMEM_OPF_DURABLE;	/* a check has no such flag */
	for (i = 0; i < vector->nr; i++) {
		ops[i].result = lsmem_atomic_fetch(call, vector, i, &ops[i]);
		ret = ret ?: ops[i].result;
		if (lsmem_vector_flags(vector, ops[i].op, ops[i].flags) & LSMEM_OPF_DURABLE)
			run->durable = true;
	}
	if (!ret)
		ret = lsmem_store_thawed(call->store, &run->place.deadline);
	if (!ret)
		ret = lsmem_atomic_change(call->store, ops, vector->nr, &run->place);
	if (!ret) {
		run->done = vector->nr;
		ret = lsmem_atomic_done(vector, ops);
	} else {
		run->durable = false;
		if (ret != -LSMEM_EWAIT && lsmem_atomic_failed(vector, ops))
			ret = -EFAULT;
	}
	kvfree(ops);
	return ret;
}

/* ---- Vectors: begin and end --------------------------------------------- */

/*
 * The operations are carried out, as far as @ret says: wait for the durable ones.  They can be in all segments that
 * are written; a group is in one.  Of a group that wrote nothing, that is what it has checked.
 */
static long lsmem_vector_wait(struct lsmem_call *call, const struct lsmem_vector_run *run, long ret)
{
	bool group = run->vector.flags & LSMEM_OPF_ATOMIC && run->place.segment;
	struct lsmem_vector_pending *pending;
	int waited;

	if (!run->durable)
		return ret;
	if (call->pending) {
		pending = container_of(call->pending, struct lsmem_vector_pending, pending);
		pending->pending.more = NULL;
		pending->pending.ret = ret;
		if (run != &pending->run)
			pending->run = *run;
		if (group)
			return lsmem_call_park(call, &run->place, NULL);
		lsmem_log_point(call->store, &pending->point);
		return lsmem_call_park(call, NULL, &pending->point);
	}
	waited = group ? lsmem_wait_received(call->store, &run->place) : lsmem_sync_received(call->store);
	if (waited == -ETIMEDOUT)
		waited = lsmem_vector_unknown(&run->vector, run->done);
	return ret ?: waited;
}

static int lsmem_vector_lapsed(struct lsmem_pending *p)
{
	struct lsmem_vector_pending *pending =
		container_of(p, struct lsmem_vector_pending, pending);

	return lsmem_vector_unknown(&pending->run.vector, pending->run.done);
}

/*
 * A thread carries out the rest of a vector.  As lsmem_ioctl_call() and lsmem_ioctl_vector(); when it
 * is cancelled, as these when the caller is killed.
 */
static int lsmem_vector_more(struct lsmem_pending *p, int waited)
{
	struct lsmem_vector_pending *pending =
		container_of(p, struct lsmem_vector_pending, pending);
	struct lsmem_vector_run *run = &pending->run;
	struct lsmem_vector vector;
	long ret = waited;

	if (ret != -ECANCELED) {
		run->place.deadline = ret == -ETIMEDOUT ? READ_ONCE(p->until) : LSMEM_NO_STALL;
		ret = lsmem_vector_go(&pending->call, run);
	}
	if (ret == -LSMEM_EWAIT)
		return ret;
	vector = run->vector;
	vector.nr = run->done;
	if (ret != -ECANCELED)
		ret = lsmem_vector_wait(&pending->call, run, ret);
	if (copy_to_user(pending->call.user, &vector, min_t(size_t, vector.size, sizeof(vector))))
		return !ret || ret == -EIOCBQUEUED ? -EFAULT : ret;
	return ret;
}

static int lsmem_vector_begin(struct lsmem_call *call)
{
	struct lsmem_vector_pending *pending;
	int ret;

	if (!call->nowait && !call->store->durable)
		return 0;
	ret = lsmem_call_begin(call, sizeof(*pending));
	if (call->pending)
		call->pending->lapsed = lsmem_vector_lapsed;
	return ret;
}

static long lsmem_ioctl_vector(void *context, void *arg)
{
	struct lsmem_call *call = context;
	struct lsmem_vector *vector = arg;
	struct lsmem_vector_run run = {
		.vector = *vector,
		.place.deadline = lsmem_call_deadline(call),	/* one for all */
	};
	long ret;

	if (vector->flags & ~(LSMEM_OPF_DURABLE | LSMEM_OPF_ATOMIC) || !vector->nr ||
	    vector->nr > LSMEM_VECTOR_MAX || vector->stride < LSMEM_OP_SIZE_VER0 ||
	    vector->stride > PAGE_SIZE || vector->stride % sizeof(u64))
		return -EINVAL;
	if (vector->flags & LSMEM_OPF_DURABLE && !call->store->durable)
		return -EOPNOTSUPP;
	ret = lsmem_vector_begin(call);
	if (ret)
		return ret;
	ret = vector->flags & LSMEM_OPF_ATOMIC ? lsmem_vector_atomic(call, &run) :
						 lsmem_vector_go(call, &run);
	if (ret == -LSMEM_EWAIT) {
		struct lsmem_vector_pending *pending;

		/* The nr in the structure stays what was given until the vector has ended. */
		if (!run.done)
			return ret;
		pending = container_of(call->pending, struct lsmem_vector_pending, pending);
		pending->pending.more = lsmem_vector_more;
		pending->run = run;
		pending->call = *call;
		pending->call.nowait = false;
		return -EIOCBQUEUED;
	}
	vector->nr = run.done;
	return lsmem_vector_wait(call, &run, ret);
}

/* ---- The rest ----------------------------------------------------------- */

static long lsmem_ioctl_query(void *context, void *arg)
{
	const struct lsmem_call *call = context;
	struct lsmem_store *store = call->store;
	struct lsmem_query *query = arg;

	if (query->flags || query->group_max)
		return -EINVAL;
	*query = (struct lsmem_query){
		.size = query->size,
		.features = LSMEM_FEATURE_VECTOR | LSMEM_FEATURE_WINDOWS | LSMEM_FEATURE_ATOMIC |
			    LSMEM_FEATURE_POLL | LSMEM_FEATURE_WATCH | LSMEM_FEATURE_CHECK |
			    (lsmem_pages_there() ? LSMEM_FEATURE_PAGES : 0) |
			    (store->durable ? LSMEM_FEATURE_DURABLE : 0) |
			    (store->tier.on ? LSMEM_FEATURE_TIER : 0) | LSMEM_FEATURE_SNAPSHOT |
			    LSMEM_FEATURE_INDEX | (IS_ENABLED(CONFIG_SHMEM) ? LSMEM_FEATURE_SHARED : 0) |
			    (IS_ENABLED(CONFIG_IO_URING) ? LSMEM_FEATURE_URING : 0),
		.abi = LSMEM_ABI,
		.kind = store->kind,
		.state = READ_ONCE(store->state),
		.object_max = LSMEM_OBJECT_MAX,
		.vector_max = LSMEM_VECTOR_MAX,
		.group_max = LSMEM_ATOMIC_MAX,
		.capacity = store->capacity,
		.handles_max = store->handles.common,
	};
	memcpy(query->uuid, store->uuid, sizeof(query->uuid));
	return 0;
}

static long lsmem_ioctl_stat(void *context, void *arg)
{
	const struct lsmem_call *call = context;
	struct lsmem_stat *stat = arg;

	if (stat->flags)
		return -EINVAL;
	lsmem_store_stat(call->store, stat);
	return 0;
}

static long lsmem_ioctl_sync(void *context, void *arg)
{
	const struct lsmem_call *call = context;
	struct lsmem_sync *sync = arg;

	if (sync->flags || sync->reserved)
		return -EINVAL;
	if (!lsmem_store_active(call->store))
		return -EAGAIN;
	if (call->nowait && call->store->durable)
		return -LSMEM_EWAIT;
	return lsmem_sync(call->store, sync->timeout_ms);
}

static long lsmem_ioctl_pages(void *context, void *arg)
{
	struct lsmem_call *call = context;

	if (call->store->kind != LSMEM_KIND_OBJECT)
		return -EOPNOTSUPP;
	if (!lsmem_store_active(call->store))
		return -EAGAIN;
	return call->nowait ? -LSMEM_EWAIT : lsmem_pages_ioctl(call->store, call->mode, arg);
}

static long lsmem_ioctl_snapshot(void *context, void *arg)
{
	struct lsmem_call *call = context;

	return call->nowait ? -LSMEM_EWAIT : lsmem_frozen_ioctl(call->store, call->mode, arg);
}

static long lsmem_ioctl_shared(void *context, void *arg)
{
	struct lsmem_call *call = context;

	return call->nowait ? -LSMEM_EWAIT : lsmem_shared_ioctl(call->store, call->mode, arg);
}

static long lsmem_ioctl_watch(void *context, void *arg)
{
	struct lsmem_call *call = context;

	return call->nowait ? -LSMEM_EWAIT : lsmem_watcher_ioctl(call->store, call->mode, arg);
}

static const struct lsmem_ioctl lsmem_ioctls[] = {
	LSMEM_IOCTL(LSMEM_IOC_QUERY, struct lsmem_query, LSMEM_QUERY_SIZE_VER0,
		    lsmem_ioctl_query),
	LSMEM_IOCTL(LSMEM_IOC_STAT, struct lsmem_stat, LSMEM_STAT_SIZE_VER0,
		    lsmem_ioctl_stat),
	LSMEM_IOCTL(LSMEM_IOC_ALLOC, struct lsmem_op, LSMEM_OP_SIZE_VER0,
		    lsmem_ioctl_alloc),
	LSMEM_IOCTL(LSMEM_IOC_READ, struct lsmem_op, LSMEM_OP_SIZE_VER0,
		    lsmem_ioctl_read),
	LSMEM_IOCTL(LSMEM_IOC_REPLACE, struct lsmem_op, LSMEM_OP_SIZE_VER0,
		    lsmem_ioctl_replace),
	LSMEM_IOCTL(LSMEM_IOC_FREE, struct lsmem_op, LSMEM_OP_SIZE_VER0,
		    lsmem_ioctl_free),
	LSMEM_IOCTL(LSMEM_IOC_VECTOR, struct lsmem_vector, LSMEM_VECTOR_SIZE_VER0,
		    lsmem_ioctl_vector),
	LSMEM_IOCTL(LSMEM_IOC_SYNC, struct lsmem_sync, LSMEM_SYNC_SIZE_VER0,
		    lsmem_ioctl_sync),
	LSMEM_IOCTL(LSMEM_IOC_PAGES, struct lsmem_pages, LSMEM_PAGES_SIZE_VER0,
		    lsmem_ioctl_pages),
	LSMEM_IOCTL(LSMEM_IOC_SNAPSHOT, struct lsmem_snapshot, LSMEM_SNAPSHOT_SIZE_VER0,
		    lsmem_ioctl_snapshot),
	LSMEM_IOCTL(LSMEM_IOC_SHARED, struct lsmem_shared, LSMEM_SHARED_SIZE_VER0,
		    lsmem_ioctl_shared),
	LSMEM_IOCTL(LSMEM_IOC_WATCH, struct lsmem_watch, LSMEM_WATCH_SIZE_VER0,
		    lsmem_ioctl_watch),
};

static long lsmem_chardev_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct lsmem_client *client = file->private_data;
	struct lsmem_call call = {
		.store = client->store,
		.mode = file->f_mode,
		.user = (void __user *)arg,
	};

	return lsmem_ioctl_call(lsmem_ioctls, ARRAY_SIZE(lsmem_ioctls), &call, cmd, arg);
}

#ifdef CONFIG_IO_URING
static int lsmem_chardev_uring_cmd(struct io_uring_cmd *cmd, unsigned int flags)
{
	struct lsmem_client *client = cmd->file->private_data;
	struct lsmem_call call = {
		.store = client->store,
		.mode = cmd->file->f_mode,
		.uring = true,
		.nowait = flags & IO_URING_F_NONBLOCK,
	};
	unsigned long user;
	int ret;

	if (flags & LSMEM_URING_CANCEL)
		return lsmem_uring_cancel(cmd, flags);
	ret = lsmem_uring_user(cmd, &user);
	if (ret)
		return ret;
	call.user = (void __user *)user;
	ret = lsmem_ioctl_call(lsmem_ioctls, ARRAY_SIZE(lsmem_ioctls), &call, cmd->cmd_op, user);
	return lsmem_uring_end(cmd, flags, call.pending, ret);
}
#endif

static int lsmem_chardev_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	struct lsmem_client *client = file->private_data;
	struct lsmem_store *store = client->store;

	if (!store->durable)
		return -EINVAL;	/* as fsync(2): does not support synchronization */
	if (!lsmem_store_active(store))
		return -EAGAIN;
	return lsmem_sync(store, 0);
}

/* A store that is active stays so while a file of it is open. */
static __poll_t lsmem_chardev_poll(struct file *file, poll_table *wait)
{
	struct lsmem_client *client = file->private_data;
	struct lsmem_store *store = client->store;

	poll_wait(file, &store->activation, wait);
	return lsmem_store_active(store) ? EPOLLIN | EPOLLRDNORM | EPOLLOUT | EPOLLWRNORM : 0;
}

static int lsmem_chardev_mmap(struct file *file, struct vm_area_struct *vma)
{
	return lsmem_window_mmap_client(file->private_data, vma);
}

static int lsmem_chardev_open(struct inode *inode, struct file *file)
{
	struct lsmem_store *store = container_of(inode->i_cdev, struct lsmem_store, cdev);
	struct lsmem_client *client;
	int ret;

	ret = lsmem_store_open(store);
	if (ret)
		return ret;
	client = lsmem_client_new(store);
	if (!client) {
		lsmem_store_release(store);
		return -ENOMEM;
	}
	file->private_data = client;
	return nonseekable_open(inode, file);
}

static int lsmem_chardev_release(struct inode *inode, struct file *file)
{
	struct lsmem_client *client = file->private_data;
	struct lsmem_store *store = client->store;

	lsmem_client_free(client);
	lsmem_store_release(store);
	return 0;
}

const struct file_operations lsmem_chardev_fops = {
	.owner = THIS_MODULE,
	.open = lsmem_chardev_open,
	.release = lsmem_chardev_release,
	.unlocked_ioctl = lsmem_chardev_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
#ifdef CONFIG_IO_URING
	.uring_cmd = lsmem_chardev_uring_cmd,
#endif
	.poll = lsmem_chardev_poll,
	.mmap = lsmem_chardev_mmap,
	.get_unmapped_area = LSMEM_GET_UNMAPPED_AREA,
	.fsync = lsmem_chardev_fsync,
	.llseek = noop_llseek,
};
