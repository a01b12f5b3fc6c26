/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands of io_uring.  See uring.c.  lsmem_uring_end() decides whether a command has ended, is
 * carried out by a thread that may wait, or is parked.  Callers: chardev.c, which carries out
 * the calls, and repl.c.
 */
#ifndef LSMEM_URING_H
#define LSMEM_URING_H

#include <linux/types.h>
#include <linux/workqueue.h>

#include "parked.h"

struct io_uring_cmd;
struct lsmem_store;
struct mm_struct;

/**
 * struct lsmem_pending - a command that may end later; part of a larger structure, or not
 * @parked: its wait for durability
 * @cmd: the command
 * @more: NULL, or: there is more to do, which may need space.  @waited: 0; -ETIMEDOUT: no space came;
 *	-ECANCELED: do no more.  Returns as a call does; -EIOCBQUEUED: park; -LSMEM_EWAIT: wait for
 *	space, and call again
 * @lapsed: NULL, or: called by the submitter after -ETIMEDOUT.  Returns the result of the wait
 * @until: of the waits for space; LSMEM_NO_WAIT: cancelled
 * @mm: in which @more is called; counted by mmgrab(), since a user would keep the ring mapped and so
 *	open
 * @work: calls @more
 * @ret: result of the command before its wait
 * @waited: result of its wait
 */
struct lsmem_pending {
	struct lsmem_parked parked;
	struct io_uring_cmd *cmd;
	int (*more)(struct lsmem_pending *pending, int waited);
	int (*lapsed)(struct lsmem_pending *pending);
	u64 until;
	struct mm_struct *mm;
	struct work_struct work;
	int ret;
	int waited;
};

#ifdef CONFIG_IO_URING

int lsmem_uring_init(void);
void lsmem_uring_exit(void);
int lsmem_pending_new(struct lsmem_store *store, size_t bytes, struct lsmem_pending **out);
void lsmem_pending_free(struct lsmem_pending *pending);
int lsmem_uring_user(struct io_uring_cmd *cmd, unsigned long *user);
int lsmem_uring_end(struct io_uring_cmd *cmd, unsigned int flags, struct lsmem_pending *pending,
		    int ret);
int lsmem_uring_cancel(struct io_uring_cmd *cmd, unsigned int flags);

#else

static inline int lsmem_uring_init(void)
{
	return 0;
}

static inline void lsmem_uring_exit(void)
{
}

/* No call comes from io_uring. */
static inline int lsmem_pending_new(struct lsmem_store *store, size_t bytes,
				    struct lsmem_pending **out)
{
	return -EOPNOTSUPP;
}

#endif
#endif
