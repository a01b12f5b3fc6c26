// SPDX-License-Identifier: GPL-2.0
/*
 * Commands of io_uring: IORING_OP_URING_CMD on /dev/lsmem*.
 *
 * A command is a call of chardev.c whose structure the SQE points to.  The submitter is not made
 * to wait for what takes longer than a page fault, as with other files:
 *
 * - An append that has to wait for space, or at the gate (space.c), returns -LSMEM_EWAIT before it
 *   has changed anything; so does SYNC.  io_uring calls again in one of its threads, where the
 *   call may wait.
 * - A vector that has carried out some of its operations cannot be called again.  A thread of the
 *   module waits for space, and carries out the rest with the submitter's memory (@more).
 * - A wait for durability is parked (parked.c): no thread waits.
 *
 * The structure is copied back before a command is parked, because the submitter can find it ended
 * from then on.  The results of a vector whose wait fails are the exception; the submitter sets
 * them (@lapsed).
 *
 * A parked command ends once, by who takes it out of the store's trees: an acknowledgement, the
 * deadline or the cancellation.  The first two have the submitter post the result.  The
 * cancellation of a vector that a thread carries out only has that not wait any more.  The file,
 * and with it the store and the module, lives as long as the command.
 *
 * No locks.  Cancellation is called under a lock of io_uring's, and takes parks.lock.
 */
#include "../uapi/lsmem.h"
#include "uring.h"

#ifdef CONFIG_IO_URING

#include <linux/kthread.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "compat/uring.h"
#include "store.h"

#define LSMEM_URING_THREADS	8	/* vectors that wait for space at a time */

static struct workqueue_struct *lsmem_uring_threads;

/* ---- The end of a command ------------------------------------------------ */

/* Where a command has its struct lsmem_pending: valid from before it is parked. */
static struct lsmem_pending **lsmem_uring_pending(struct io_uring_cmd *cmd)
{
	BUILD_BUG_ON(sizeof(struct lsmem_pending *) > sizeof(cmd->pdu));
	return (struct lsmem_pending **)cmd->pdu;
}

/* Post the result: by the submitter, or by a kernel thread when that is gone. */
static void lsmem_uring_finish(struct io_uring_cmd *cmd, unsigned int flags)
{
	struct lsmem_pending *pending = *lsmem_uring_pending(cmd);

	/* Without the submitter's memory the results of operations cannot be seen either. */
	if (pending->waited == -ETIMEDOUT && pending->lapsed && current->mm &&
	    !(current->flags & PF_KTHREAD))
		pending->waited = pending->lapsed(pending);
	lsmem_uring_post(cmd, pending->ret ?: pending->waited, flags);
	/* Only now: until it is posted, it can be cancelled. */
	lsmem_pending_free(pending);
}

LSMEM_URING_IN_TASK(lsmem_uring_finish_there, lsmem_uring_finish)

static void lsmem_uring_ended(struct lsmem_parked *parked, int ret)
{
	struct lsmem_pending *pending = container_of(parked, struct lsmem_pending, parked);

	pending->waited = ret;
	lsmem_uring_finish_there(pending->cmd);
}

/**
 * lsmem_uring_cancel - end a command, because its ring is closed
 * @cmd: that was made cancelable, and whose result has not been posted
 * @flags: from io_uring
 *
 * Its change is made; whether that is durable is unknown.  A command that is on its way to or from
 * the trees is left alone, and so is one in a thread: io_uring tries again until it has ended.
 *
 * Context: under a lock of io_uring's, without which no result is posted.  May sleep for a tick.
 * Return: 0.
 */
int lsmem_uring_cancel(struct io_uring_cmd *cmd, unsigned int flags)
{
	struct lsmem_pending *pending = *lsmem_uring_pending(cmd);

	if (lsmem_unpark(&pending->parked)) {
		lsmem_uring_post(cmd, -ECANCELED, flags);
		lsmem_pending_free(pending);
	} else if (pending->mm) {
		bool first = lsmem_space_stop(pending->parked.store, &pending->until);

		/* All threads may wait; this command has little left to do. */
		if (cancel_work(&pending->work))
			schedule_work(&pending->work);
		else if (!first)
			schedule_timeout_uninterruptible(1);	/* do not try again without a rest */
	}
	return 0;
}

/* ---- The rest of a vector ------------------------------------------------ */

static void lsmem_uring_work(struct work_struct *work)
{
	struct lsmem_pending *pending = container_of(work, struct lsmem_pending, work);
	struct lsmem_store *store = pending->parked.store;
	struct mm_struct *mm = pending->mm;
	int ret, waited = 0;

	do {
		int serial = atomic_read(&store->space.serial);

		ret = -ECANCELED;
		if (READ_ONCE(pending->until) == LSMEM_NO_WAIT)
			waited = ret;
		if (!mmget_not_zero(mm))
			break;		/* the process has ended: no results */
		kthread_use_mm(mm);
		ret = pending->more(pending, waited);
		kthread_unuse_mm(mm);
		mmput(mm);
		if (ret == -LSMEM_EWAIT)
			waited = lsmem_space_wait(store, serial, &pending->until);
	} while (ret == -LSMEM_EWAIT);
	if (ret != -EIOCBQUEUED) {
		pending->ret = ret;
		lsmem_uring_ended(&pending->parked, 0);
	} else if (lsmem_park(&pending->parked)) {
		lsmem_uring_ended(&pending->parked, 0);
	}
	mmdrop(mm);	/* pending may be gone */
}

/* ---- For chardev.c ------------------------------------------------------- */

/**
 * lsmem_pending_new - prepare for a command that may end later
 * @store: of the command
 * @bytes: of the structure that begins with it
 * @out: zeroed, but for the wait
 *
 * Context: before anything is changed; sleeps.  Charged to the caller's memory cgroup.
 * Return: 0; -ENOMEM; -EBUSY: LSMEM_PARKED_MAX commands of the store may end later.
 */
int lsmem_pending_new(struct lsmem_store *store, size_t bytes, struct lsmem_pending **out)
{
	struct lsmem_pending *pending;

	if (!lsmem_parked_begin(store))
		return -EBUSY;
	pending = kzalloc(bytes, GFP_KERNEL_ACCOUNT);
	if (!pending) {
		lsmem_parked_end(store);
		return -ENOMEM;
	}
	RB_CLEAR_NODE(&pending->parked.node);
	pending->parked.store = store;
	pending->parked.ended = lsmem_uring_ended;
	*out = pending;
	return 0;
}

/**
 * lsmem_pending_free - undo lsmem_pending_new()
 * @pending: NULL: nothing
 */
void lsmem_pending_free(struct lsmem_pending *pending)
{
	if (!pending)
		return;
	lsmem_parked_end(pending->parked.store);
	kfree(pending);
}

/**
 * lsmem_uring_user - where the structure of a command is
 * @cmd: the command
 * @user: out
 * Return: 0; -EINVAL: an unknown flag, or a reserved field is not 0; -EFAULT.
 */
int lsmem_uring_user(struct io_uring_cmd *cmd, unsigned long *user)
{
	const struct lsmem_command *area = lsmem_uring_area(cmd);
	u64 structure = READ_ONCE(area->structure);

	if (cmd->flags & LSMEM_URING_USER_FLAGS || READ_ONCE(area->reserved))
		return -EINVAL;
	*user = (unsigned long)structure;
	return *user == structure ? 0 : -EFAULT;
}

/**
 * lsmem_uring_end - what becomes of a command after its call
 * @cmd: the command
 * @flags: from io_uring
 * @pending: from lsmem_pending_new(), consumed; NULL: the command cannot end later
 * @ret: of the call; -EIOCBQUEUED: @pending has @more, or the place and deadline to be parked
 *
 * Return: for io_uring; the command must not be used any more.
 */
int lsmem_uring_end(struct io_uring_cmd *cmd, unsigned int flags, struct lsmem_pending *pending,
		    int ret)
{
	if (ret == -EIOCBQUEUED) {
		pending->cmd = cmd;
		*lsmem_uring_pending(cmd) = pending;
		if (pending->more) {
			pending->mm = current->mm;
			mmgrab(pending->mm);
			INIT_WORK(&pending->work, lsmem_uring_work);
			lsmem_uring_cancelable(cmd, flags);
			queue_work(lsmem_uring_threads, &pending->work);
			return -EIOCBQUEUED;
		}
		lsmem_uring_cancelable(cmd, flags);
		if (lsmem_park(&pending->parked))
			lsmem_uring_finish(cmd, flags);
		return -EIOCBQUEUED;
	}
	lsmem_pending_free(pending);
	if (ret == -LSMEM_EWAIT)
		return -EAGAIN;		/* io_uring calls again, in a thread */
	if (ret != -EAGAIN)
		return ret;
	lsmem_uring_post(cmd, ret, flags);	/* this one is the result */
	return -EIOCBQUEUED;
}

/**
 * lsmem_uring_init - make the threads
 * Return: 0 or -ENOMEM.
 */
int lsmem_uring_init(void)
{
	lsmem_uring_threads = alloc_workqueue("lsmem-uring", WQ_UNBOUND, LSMEM_URING_THREADS);
	return lsmem_uring_threads ? 0 : -ENOMEM;
}

/**
 * lsmem_uring_exit - end the threads
 *
 * No command is left; a thread may still be about to rest.
 */
void lsmem_uring_exit(void)
{
	destroy_workqueue(lsmem_uring_threads);
}

#endif
