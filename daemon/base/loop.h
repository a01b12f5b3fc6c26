/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The event loop: one io_uring carries every operation that the daemon waits for. A user embeds a
 * struct loop_op, takes an sqe with loop_sqe() and prepares it; the loop calls @done when it reaps
 * the completion. Submissions are collected and go out in one system call when the loop waits.
 *
 * A loop belongs to one thread. Nothing is allocated after loop_open(): each user bounds its
 * operations in flight, and the sum of these bounds is the size of the ring.
 */
#ifndef LSMEMD_LOOP_H
#define LSMEMD_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include <liburing.h>

#define LOOP_FILES	64u	/* entries of the ring's table of files */
#define LOOP_FIRST	(IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS)	/* see loop_sqe_first() */
#define LOOP_LATE_NS	1000000000u	/* a timer that is later: the loop was delayed */

/**
 * struct loop - an io_uring and its bookkeeping
 * @ring: the io_uring
 * @files: which entries of the ring's table of files are in use
 * @nr_files: number of entries in use
 * @in_flight: completions that are to come
 */
struct loop {
	struct io_uring ring;
	bool files[LOOP_FILES];
	unsigned int nr_files;
	unsigned int in_flight;
};

/**
 * struct loop_op - an operation in flight
 * @done: called once for each completion, with its result; may submit again
 */
struct loop_op {
	void (*done)(struct loop_op *op, int res);
};

/**
 * struct loop_timer - a one-shot timer
 * @op: set @op.done before loop_timer_start(); called with -ETIME when the timer expires,
 *	-ECANCELED when it is cancelled
 * @time: for the kernel: ns from the start of the timer
 * @due_ns: when it expires, by clock_now_ns()
 */
struct loop_timer {
	struct loop_op op;
	struct __kernel_timespec time;
	uint64_t due_ns;
};

int loop_open(struct loop *loop, unsigned int entries);
void loop_close(struct loop *loop);
int loop_file_add(struct loop *loop, int fd);
void loop_file_remove(struct loop *loop, int index);
struct io_uring_sqe *loop_sqe(struct loop *loop, struct loop_op *op);
struct io_uring_sqe *loop_sqe_first(struct loop *loop, struct loop_op *op);
void loop_poll(struct loop *loop, struct loop_op *op, int fd, unsigned int events);
void loop_cancel(struct loop *loop, struct loop_op *op);
void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t ns);
bool loop_stood_still(const struct loop_timer *timer);
int loop_run(struct loop *loop, bool wait);

#endif
