/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The event loop: one io_uring through which everything comes that the daemon
 * waits for.  Whoever wants something embeds a struct loop_op, asks for an
 * sqe, fills it in, and has its @done called when the completion is reaped.
 * Submissions are gathered and go out in one system call as the loop waits.
 *
 * One thread.  Nothing is allocated after loop_open(): who submits bounds what
 * it has in flight, the sum of these bounds is the size of the ring.
 */
#ifndef LSMEMD_LOOP_H
#define LSMEMD_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include <liburing.h>

#define LOOP_FILES	64u	/* in the ring's table */
#define LOOP_LATE_NS	1000000000u	/* later than that a timer comes only if we stood still */

struct loop {
	struct io_uring ring;
	bool files[LOOP_FILES];		/* in use, of the table */
	unsigned int nr_files;
	unsigned int in_flight;
	int error;
};

/**
 * struct loop_op - something that the loop waits for
 * @done: called once for each completion with its result; may submit anew
 */
struct loop_op {
	void (*done)(struct loop_op *op, int res);
};

/**
 * struct loop_timer - a bound or a period
 * @op: set @op.done before loop_timer_start(); called with -ETIME when it ran
 *	out, -ECANCELED when it was stopped
 * @due_ns: when it runs out
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
void loop_poll(struct loop *loop, struct loop_op *op, int fd, unsigned int events);
void loop_cancel(struct loop *loop, struct loop_op *op);
void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t ns);
bool loop_stood_still(const struct loop_timer *timer);
int loop_run(struct loop *loop, bool wait);

#endif
