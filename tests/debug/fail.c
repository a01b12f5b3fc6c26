// SPDX-License-Identifier: GPL-2.0
/* Injection of failures by fail-nth: failnth.h describes the functions. */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <lsmem/lsmem.h>

#include "failnth.h"

#define DEBUGFS		"/sys/kernel/debug/"
#define COMMAND_SECONDS	600	/* then a command has been lost */

static int nth_fd;

static bool put(const char *path, const char *text)
{
	size_t length = strlen(text);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, length) == (ssize_t)length;

	if (fd >= 0)
		close(fd);
	return good;
}

const char *fail_setup(void)
{
	nth_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (nth_fd < 0)
		return "this kernel has no fail-nth (CONFIG_FAULT_INJECTION)";
	/* Fail allocations that may sleep and single pages too; log no back trace for each. */
	if (!put(DEBUGFS "failslab/ignore-gfp-wait", "N") ||
	    !put(DEBUGFS "failslab/verbose", "0") ||
	    !put(DEBUGFS "fail_page_alloc/ignore-gfp-wait", "N") ||
	    !put(DEBUGFS "fail_page_alloc/ignore-gfp-highmem", "N") ||
	    !put(DEBUGFS "fail_page_alloc/min-order", "0") ||
	    !put(DEBUGFS "fail_page_alloc/verbose", "0") ||
	    !put(DEBUGFS "fail_usercopy/verbose", "0"))
		return "this kernel lacks failslab, fail_page_alloc or fail_usercopy in debugfs";
	return NULL;
}

static void broken(const char *what)
{
	fprintf(stderr, "fail-nth: %s: %s\n", what, strerror(errno));
	exit(1);
}

void fail_begin(unsigned int nth)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", nth);

	if (pwrite(nth_fd, text, (size_t)length, 0) != length)
		broken("write");
}

bool fail_end(void)
{
	char text[16] = "";
	bool hit;

	/* If a user copy of these two calls fails, the tested call had ended before its failure. */
	hit = pread(nth_fd, text, sizeof(text) - 1, 0) > 0 && atoi(text) == 0;
	if (pwrite(nth_fd, "0", 1, 0) != 1) {
		if (errno != EFAULT || pwrite(nth_fd, "0", 1, 0) != 1)
			broken("write");
		return false;
	}
	return hit;
}

int call(int fd, unsigned long request, void *argument)
{
	return ioctl(fd, request, argument) ? -errno : 0;
}

int call_failing(struct io_uring *ring, int fd, struct failing *f, unsigned long request,
			void *structure)
{
	struct lsmem_command command = { .structure = (uintptr_t)structure };
	struct __kernel_timespec limit = { .tv_sec = COMMAND_SECONDS };
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	int ret;

	if (!ring) {
		INJECT(*f, ret = call(fd, request, structure));
		return ret;
	}
	sqe = io_uring_get_sqe(ring);
	if (!sqe)
		return -EBADE;
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = (uint32_t)request;
	memcpy(sqe->cmd, &command, sizeof(command));
	INJECT(*f, ret = io_uring_submit(ring));
	if (ret < 1 && io_uring_submit(ring) != 1)
		return -EBADE;
	if (io_uring_wait_cqe_timeout(ring, &cqe, &limit))
		return -EBADE;
	ret = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return ret;
}

bool fail_allowed(int ret)
{
	switch (ret) {
	case 0:
	case -ENOMEM:
	case -EFAULT:
	case -ENFILE:	/* open(2) without memory for a struct file */
	case -EIO:	/* block I/O */
		return true;
	default:
		return false;
	}
}

/* A constructor, because the harness runs a test even if its setup calls SKIP(). */
__attribute__((constructor)) static void skip_all(void)
{
	const char *why = fail_setup();

	if (!why)
		return;
	printf("TAP version 13\n1..1\nok 1 %s # SKIP %s\n", program_invocation_short_name, why);
	exit(0);
}
