// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: waiting for a store.
 *
 * A store that is there and not active is polled.  That a store has come, or has got the name or uuid that is waited
 * for, is in the events that the kernel, and udev when it has made its links, send to the groups of
 * NETLINK_KOBJECT_UEVENT.  Each event is only a reason to look again, so what it says does not matter.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define GROUPS		3u	/* 1: events of the kernel, 2: of udev */

/* Is the store active? Returns 0; -EAGAIN: not yet, then @fd is open; another error. */
static int look(const char *store, int *fd)
{
	struct lsmem_query query = { .size = sizeof(query) };
	char path[PATH_MAX];
	int ret = lsm_path(store, path, sizeof(path));

	if (ret)
		return ret;
	*fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		return -errno;
	if (ioctl(*fd, LSMEM_IOC_QUERY, &query))
		ret = -errno;
	else if (query.kind != LSMEM_KIND_OBJECT)
		ret = -ENOTTY;
	else if (query.state != LSMEM_STATE_ACTIVE)
		ret = query.features & LSMEM_FEATURE_POLL ? -EAGAIN : -EOPNOTSUPP;
	if (ret != -EAGAIN) {
		close(*fd);
		*fd = -1;
	}
	return ret;
}

static int open_events(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = GROUPS };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT), ret;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address))) {
		ret = -errno;
		close(fd);
		return ret;
	}
	return fd;
}

/* Waits until @fd is ready. @deadline: negative: none. */
static int wait_for(int fd, int64_t deadline)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	struct timespec left, *bound = NULL;
	int64_t ns;
	int ret;

	if (deadline >= 0) {
		ns = deadline - lsm_now_ns();
		if (ns <= 0)
			return -ETIMEDOUT;
		left = (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
		bound = &left;
	}
	ret = ppoll(&wait, 1, bound, NULL);
	if (ret < 0)
		return -errno;
	return ret ? 0 : -ETIMEDOUT;
}

int lsm_wait_active(const char *store, int timeout_ms)
{
	int64_t deadline = timeout_ms < 0 ? -1 : lsm_now_ns() + timeout_ms * 1000000ll;
	int events = -1, fd = -1, ret;
	char nothing;

	for (;;) {
		ret = look(store, &fd);
		if (ret == -EAGAIN) {
			ret = wait_for(fd, deadline);
			close(fd);
		} else if (ret != -ENOENT && ret != -ENXIO && ret != -ENODEV) {
			break;	/* it is active, or cannot be */
		} else if (events < 0) {
			/* The store may come before the events can be heard: look again. */
			events = open_events();
			ret = events < 0 ? events : 0;
		} else {
			ret = wait_for(events, deadline);
			while (recv(events, &nothing, sizeof(nothing), 0) >= 0 || errno == ENOBUFS)
				;
		}
		if (ret)
			break;
	}
	if (events >= 0)
		close(events);
	return ret;
}
