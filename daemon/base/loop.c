// SPDX-License-Identifier: GPL-2.0
/* The event loop: see loop.h. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "loop.h"

#define FEATURES	(IORING_FEAT_NODROP | IORING_FEAT_CQE_SKIP)

/**
 * loop_open - set up the io_uring of a loop
 * @loop: out
 * @entries: most operations in flight
 *
 * Logs why it fails.
 *
 * Return: 0; -EOPNOTSUPP: the kernel may drop completions, or cannot leave them out; or another
 * negative errno of the kernel.
 */
int loop_open(struct loop *loop, unsigned int entries)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER,
	};
	unsigned int workers[2] = { entries, 0 };	/* bounded; unbounded: 0 keeps the limit */
	int err;

	memset(loop, 0, sizeof(*loop));
	err = io_uring_queue_init_params(entries, &loop->ring, &params);
	if (err == -EINVAL) {
		memset(&params, 0, sizeof(params));
		err = io_uring_queue_init_params(entries, &loop->ring, &params);
	}
	if (err) {
		log_err("io_uring: cannot be set up: %s%s", strerror(-err),
			err == -EPERM || err == -ENOSYS ?
			"; it must be allowed (sysctl kernel.io_uring_disabled = 0)" : "");
		return err;
	}
	/* Requests to a drive that hangs must not occupy the workers that flush other drives. */
	err = io_uring_register_iowq_max_workers(&loop->ring, workers);
	if (err)
		log_warn("io_uring: workers: %s", strerror(-err));
	if ((params.features & FEATURES) != FEATURES) {
		log_err("io_uring: this kernel has no IORING_FEAT_NODROP or no IORING_FEAT_CQE_SKIP; Linux 6.1 or later is needed");
		io_uring_queue_exit(&loop->ring);
		return -EOPNOTSUPP;
	}
	return 0;
}

/**
 * loop_close - destroy the io_uring of a loop
 * @loop: the loop
 */
void loop_close(struct loop *loop)
{
	io_uring_queue_exit(&loop->ring);
}

/**
 * loop_file_add - add a file to the ring's table
 * @loop: the loop
 * @fd: the file
 *
 * Return: its index in the table, for IOSQE_FIXED_FILE; -EMFILE: the table is full; or another
 * negative errno.
 */
int loop_file_add(struct loop *loop, int fd)
{
	int index, err = 0;

	for (index = 0; index < (int)LOOP_FILES; index++)
		if (!loop->files[index])
			break;
	if (index == LOOP_FILES)
		return -EMFILE;
	if (!loop->nr_files)
		err = io_uring_register_files_sparse(&loop->ring, LOOP_FILES);
	if (!err)
		err = io_uring_register_files_update(&loop->ring, (unsigned int)index, &fd, 1);
	if (err < 0) {
		if (!loop->nr_files)
			io_uring_unregister_files(&loop->ring);
		return err;
	}
	loop->files[index] = true;
	loop->nr_files++;
	return index;
}

/**
 * loop_file_remove - remove a file from the ring's table
 * @loop: the loop
 * @index: of the file; no operation on it is in flight
 *
 * Removing the last file removes the table. The kernel drops its reference to a single file some
 * time later. It drops its references to all files of a table before the call returns, so the
 * device is free then.
 */
void loop_file_remove(struct loop *loop, int index)
{
	int none = -1;

	loop->files[index] = false;
	if (--loop->nr_files)
		(void)io_uring_register_files_update(&loop->ring, (unsigned int)index, &none, 1);
	else
		io_uring_unregister_files(&loop->ring);
}

/*
 * A kernel without memory takes a part of the collected entries. If it took the first of a pair and
 * not the second, then the second would not wait: a flush could end before its write, and the write
 * be acknowledged too early (invariant 2). The first has no completion to wait for. So end here,
 * before the second is submitted; the next lsmemd resumes the store.
 */
static void check_pairs(const struct loop *loop)
{
	const struct io_uring_sq *sq = &loop->ring.sq;
	unsigned int head = io_uring_smp_load_acquire(sq->khead);

	if (io_uring_sq_ready(&loop->ring) &&
	    sq->sqes[(head - 1) & sq->ring_mask].flags & IOSQE_IO_LINK) {
		log_err("io_uring: the kernel took a write without its flush, for want of memory");
		abort();
	}
}

/* Submit what has been collected, to make room for more. */
static void make_room(struct loop *loop)
{
	int n;

	check_pairs(loop);
	n = io_uring_submit(&loop->ring);
	check_pairs(loop);
	/*
	 * -EBUSY and -EAGAIN are transient. After any other error the operation would be
	 * lost, and its owner would wait for ever.
	 */
	if (n < 0 && n != -EINTR && n != -EBUSY && n != -EAGAIN) {
		log_err("io_uring: submission fails: %s", strerror(-n));
		abort();
	}
}

/**
 * loop_sqe - get an empty submission queue entry
 * @loop: the loop
 * @op: its @done is called with the result
 *
 * The caller must prepare the entry before the next call to the loop; io_uring_prep_*() keeps
 * user_data. If the queue is full, this function submits it. Aborts if the kernel refuses that.
 *
 * Return: the entry, never NULL.
 */
struct io_uring_sqe *loop_sqe(struct loop *loop, struct loop_op *op)
{
	struct io_uring_sqe *sqe;

	while (!(sqe = io_uring_get_sqe(&loop->ring)))
		make_room(loop);
	io_uring_sqe_set_data(sqe, op);
	loop->in_flight++;
	return sqe;
}

/**
 * loop_sqe_first - get an entry for an operation that the next entry waits for
 * @loop: the loop
 * @op: its @done is called only if the operation fails or is short
 *
 * As loop_sqe(). The caller adds LOOP_FIRST to the flags of the prepared entry, and then takes the
 * next entry with loop_sqe(). The kernel begins that operation when this one has succeeded as a
 * whole, and does not wake the loop in between. If this one fails or is short, the other does not
 * begin. One completion ends both: of @op, or of the other.
 *
 * Return: the entry, never NULL.
 */
struct io_uring_sqe *loop_sqe_first(struct loop *loop, struct loop_op *op)
{
	struct io_uring_sqe *sqe;

	/* A submission between the two would part them. */
	while (io_uring_sq_space_left(&loop->ring) < 2)
		make_room(loop);
	sqe = io_uring_get_sqe(&loop->ring);
	io_uring_sqe_set_data(sqe, op);
	return sqe;
}

/**
 * loop_poll - call @op once when @fd is ready
 * @loop: the loop
 * @op: its @done is called with the events that occurred, or a negative errno
 * @fd: the descriptor to watch
 * @events: POLLIN and the like
 */
void loop_poll(struct loop *loop, struct loop_op *op, int fd, unsigned int events)
{
	io_uring_prep_poll_add(loop_sqe(loop, op), fd, events);
}

static void cancelled(struct loop_op *op, int res)
{
	(void)op;
	(void)res;
}

/**
 * loop_cancel - end a poll or a timer early
 * @loop: the loop
 * @op: completes with -ECANCELED, or with its result if that came first
 */
void loop_cancel(struct loop *loop, struct loop_op *op)
{
	static struct loop_op cancel = { .done = cancelled };

	io_uring_prep_cancel(loop_sqe(loop, &cancel), op, 0);
}

/**
 * loop_timer_start - start a timer that is not running
 * @loop: the loop
 * @timer: its @op.done is set
 * @ns: from now
 */
void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t ns)
{
	timer->time.tv_sec = (long long)(ns / 1000000000u);
	timer->time.tv_nsec = (long long)(ns % 1000000000u);
	timer->due_ns = clock_now_ns() + ns;
	io_uring_prep_timeout(loop_sqe(loop, &timer->op), &timer->time, 0, 0);
}

/**
 * loop_stood_still - was the loop delayed when a timer expired?
 * @timer: its completion is being handed out
 *
 * If it was, operations that ended during the delay may not have been handed out yet: the ring
 * hands out the timer first. Callers must not charge this delay to peers.
 *
 * Context: @timer.op.done.
 * Return: true if the timer is handed out more than LOOP_LATE_NS after it was due.
 */
bool loop_stood_still(const struct loop_timer *timer)
{
	return clock_now_ns() > timer->due_ns + LOOP_LATE_NS;
}

/**
 * loop_run - submit the collected operations and hand out completions
 * @loop: the loop
 * @wait: wait for at least one completion
 *
 * Return: the number of completions handed out, or a negative errno, which was logged. A signal can
 * end the wait: then 0 is possible.
 */
int loop_run(struct loop *loop, bool wait)
{
	struct io_uring_cqe *cqe;
	struct loop_op *op;
	int n, res, count = 0;

	check_pairs(loop);
	n = wait ? io_uring_submit_and_wait(&loop->ring, 1) :
	    io_uring_submit_and_get_events(&loop->ring);
	check_pairs(loop);
	if (n < 0 && n != -EINTR && n != -EBUSY && n != -EAGAIN) {
		log_err("io_uring: waiting fails: %s", strerror(-n));
		return n;
	}
	while (!io_uring_peek_cqe(&loop->ring, &cqe)) {
		op = io_uring_cqe_get_data(cqe);
		res = cqe->res;
		io_uring_cqe_seen(&loop->ring, cqe);
		loop->in_flight--;
		op->done(op, res);
		count++;
	}
	return count;
}
