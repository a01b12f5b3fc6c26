// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * lsmem-preload-end STORE PROCESS ROOT: remove range ROOT when a process has ended.  liblsmem-preload.so
 * starts it, with a descriptor of the store and one of the process (pidfd).
 *
 * Children of the process, which it has left behind, may still have the range mapped; there is no event for
 * their end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <lsmem/lsmem.h>

#define AGAIN_MS	1000	/* between two tries while children have the range */

static void nothing_else_open(int store, int process)
{
	int high = store > process ? store : process, low = store > process ? process : store;

	close_range(0, low - 1, 0);
	if (low + 1 < high)
		close_range(low + 1, high - 1, 0);
	close_range(high + 1, ~0u, 0);
}

int main(int argc, char **argv)
{
	struct lsmem_pages pages = { .size = sizeof(pages), .flags = LSMEM_PAGES_REMOVE };
	struct pollfd poll_for;
	sigset_t all;
	int store;

	if (argc != 4) {
		fprintf(stderr, "usage: lsmem-preload-end STORE PROCESS ROOT\n"
			"liblsmem-preload.so starts it: lsmem-preload(7)\n");
		return 2;
	}
	/* Not 0 to 2, which the program may have closed. */
	store = fcntl(atoi(argv[1]), F_DUPFD, 3);
	poll_for = (struct pollfd){ .fd = fcntl(atoi(argv[2]), F_DUPFD, 3), .events = POLLIN };
	pages.root = strtoull(argv[3], NULL, 16);
	if (store < 0 || poll_for.fd < 0)
		return 1;
	/* What ends the program must not end this process before it. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setsid();
	if (chdir("/"))
		return 1;
	nothing_else_open(store, poll_for.fd);
	while (poll(&poll_for, 1, -1) < 0 && errno == EINTR)
		;
	while (ioctl(store, LSMEM_IOC_PAGES, &pages) && (errno == EBUSY || errno == EINTR))
		poll(NULL, 0, AGAIN_MS);
	return 0;
}
