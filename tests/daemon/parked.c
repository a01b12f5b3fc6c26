// SPDX-License-Identifier: GPL-2.0
/*
 * Durable commands of io_uring that wait while their daemon is stopped, for guest.sh.
 *
 *	parked DEVICE PID NR RESULT
 *
 * Stops the daemon PID, submits NR commands, says "parked" when none has ended, and waits until all
 * have: each must have RESULT.  Status: 0, 1, or 77 if this kernel has no io_uring.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <lsmem.h>

#define SECONDS		120
#define QUIET_US	200000

static int failed(const char *what, int error)
{
	fprintf(stderr, "parked: %s: %s\n", what, strerror(error));
	return 1;
}

int main(int argc, char **argv)
{
	unsigned int nr = argc == 5 ? (unsigned int)atoi(argv[3]) : 0, i;
	int fd = argc == 5 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1, result, ret;
	struct lsmem_op first = lsm_op_alloc("x", 1, LSMEM_OPF_DURABLE);
	struct lsmem_op *ops = calloc(nr ? nr : 1, sizeof(*ops));
	struct __kernel_timespec limit = { .tv_sec = SECONDS };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	cpu_set_t one;

	if (fd < 0 || !ops || !nr)
		return failed("usage: parked DEVICE PID NR RESULT", EINVAL);
	result = atoi(argv[4]);
	ret = io_uring_queue_init(nr, &ring, 0);
	if (ret == -ENOSYS || ret == -EPERM)
		return 77;
	if (ret)
		return failed("io_uring", -ret);
	/* Open a segment while the daemon can: afterwards no append may have to wait for one. */
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return failed("affinity", errno);
	/* A busy machine may need longer than the store's limit, which is short for the commands. */
	while (ioctl(fd, LSMEM_IOC_ALLOC, &first))
		if (errno != ETIMEDOUT)
			return failed("first object", errno);
	if (kill(atoi(argv[2]), SIGSTOP))
		return failed("the daemon", errno);
	usleep(QUIET_US);	/* its threads stop one after the other */
	for (i = 0; i < nr; i++) {
		struct lsmem_command command = { .structure = (uintptr_t)&ops[i] };
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

		ops[i] = lsm_op_alloc("y", 1, LSMEM_OPF_DURABLE);
		io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
		sqe->cmd_op = (uint32_t)LSMEM_IOC_ALLOC;
		memcpy(sqe->cmd, &command, sizeof(command));
	}
	if (io_uring_submit(&ring) != (int)nr)
		return failed("submit", EIO);
	usleep(QUIET_US);
	if (io_uring_cq_ready(&ring))
		return failed("a command has ended without a daemon", EALREADY);
	puts("parked");
	fflush(stdout);
	for (i = 0; i < nr; i++) {
		ret = io_uring_wait_cqe_timeout(&ring, &cqe, &limit);
		if (ret)
			return failed("a command does not end", -ret);
		if (cqe->res != result)
			return failed("a command has another result", -cqe->res);
		io_uring_cqe_seen(&ring, cqe);
	}
	for (i = 0; i < nr; i++) {
		struct lsmem_op op = lsm_op_free(ops[i].handle, 0, 0);

		if (ioctl(fd, LSMEM_IOC_FREE, &op))
			return failed("an object is not there", errno);
	}
	return 0;
}
