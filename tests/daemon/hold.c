// SPDX-License-Identifier: GPL-2.0
/*
 * For guest-take.sh, by LD_PRELOAD: lsmemd says in its log that the kernel has made a store, and goes on when it can read from the
 * FIFO $HOLD, or its last writer has gone.  Until then it has not attached to the store.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lsmem.h"

int ioctl(int fd, unsigned long request, ...)
{
	int (*real)(int fd, unsigned long request, ...) = dlsym(RTLD_NEXT, "ioctl");
	const char *path = getenv("HOLD");
	va_list args;
	void *argument;
	char byte;
	int ret;

	va_start(args, request);
	argument = va_arg(args, void *);
	va_end(args);
	ret = real(fd, request, argument);
	if (ret || request != LSMEM_CTL_CREATE || !path)
		return ret;
	fputs("held: the kernel has made a store\n", stderr);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, &byte, 1) < 0)
		perror("held");
	if (fd >= 0)
		close(fd);
	return 0;
}
