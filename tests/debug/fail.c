// SPDX-License-Identifier: GPL-2.0
/* Injection of failures by fail-nth: failnth.h describes the functions. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "failnth.h"

#define DEBUGFS		"/sys/kernel/debug/"

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
