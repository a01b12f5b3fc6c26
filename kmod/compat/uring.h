/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where kernels differ in what a driver sees of io_uring.  See compat.h; included only with
 * CONFIG_IO_URING.
 */
#ifndef LSMEM_COMPAT_URING_H
#define LSMEM_COMPAT_URING_H

#include "probed.h"

#ifdef LSMEM_HAVE_URING_CMD_H
#include <linux/io_uring/cmd.h>
#else
#include <linux/io_uring.h>
#endif

/* The flags of a command that user space can set; the others are io_uring's own. */
#define LSMEM_URING_USER_FLAGS	0x00ffffffu

/* The area for the command in its SQE: in memory of the ring, which user space can change. */
static inline const void *lsmem_uring_area(const struct io_uring_cmd *cmd)
{
#ifdef LSMEM_HAVE_URING_SQE
	return cmd->sqe->cmd;
#else
	return cmd->cmd;
#endif
}

/* Post the result. @flags: those that io_uring gave to the caller. */
static inline void lsmem_uring_post(struct io_uring_cmd *cmd, int result, unsigned int flags)
{
#ifdef LSMEM_HAVE_URING_ONE_RESULT
	io_uring_cmd_done(cmd, result, flags);
#else
	io_uring_cmd_done(cmd, result, 0, flags);
#endif
}

#ifdef LSMEM_HAVE_URING_LAZY
#define lsmem_uring_in_task	io_uring_cmd_do_in_task_lazy
#else
#define lsmem_uring_in_task	io_uring_cmd_complete_in_task
#endif

/*
 * Define @name(command), which has the task that submitted the command call @function(command,
 * flags), which posts one result.  If the task is gone, a kernel thread calls it.
 */
#ifdef LSMEM_HAVE_URING_TASK_REQ
#define LSMEM_URING_IN_TASK(name, function)						\
static void name##_task(struct io_tw_req req, io_tw_token_t token)			\
{											\
	function(io_uring_cmd_from_tw(req), IO_URING_CMD_TASK_WORK_ISSUE_FLAGS);	\
}											\
static void name(struct io_uring_cmd *cmd)						\
{											\
	lsmem_uring_in_task(cmd, name##_task);						\
}
#else
#define LSMEM_URING_IN_TASK(name, function)						\
static void name(struct io_uring_cmd *cmd)						\
{											\
	lsmem_uring_in_task(cmd, function);						\
}
#endif

/*
 * Before 6.7 io_uring does not cancel commands: when a ring is closed it waits for them, in a
 * kernel thread.
 */
#ifdef IORING_URING_CMD_CANCELABLE
#define LSMEM_URING_CANCEL	IO_URING_F_CANCEL
static inline void lsmem_uring_cancelable(struct io_uring_cmd *cmd, unsigned int flags)
{
	io_uring_cmd_mark_cancelable(cmd, flags);
}
#else
#define LSMEM_URING_CANCEL	0
static inline void lsmem_uring_cancelable(struct io_uring_cmd *cmd, unsigned int flags)
{
}
#endif

#endif
