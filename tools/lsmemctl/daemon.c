// SPDX-License-Identifier: GPL-2.0
/*
 * What a store's daemon says of itself: its status file, which it writes anew on
 * SIGUSR1.  See lsmemd(8), STATUS FILE.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "ctl.h"

#define RUN		"/run/lsmem"
#define ANSWER_SECONDS	5.0

/* Has the process that wrote the file ended?  Another may have its number. */
static int open_daemon(struct json_object *status)
{
	struct json_object *pid = ctl_find(status, "pid");
	char path[64], name[16] = "";
	FILE *file;
	int fd;

	if (!pid)
		return -1;
	fd = pidfd_open(json_object_get_int(pid), 0);
	if (fd < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/comm", json_object_get_int(pid));
	file = fopen(path, "re");
	if (file && !fgets(name, sizeof(name), file))
		*name = 0;
	if (file)
		fclose(file);
	if (!strcmp(name, "lsmemd\n"))
		return fd;
	close(fd);
	return -1;
}

/* Until a file of this name has been put there. */
static bool wait_for(int watch, const char *name)
{
	char buffer[sizeof(struct inotify_event) + NAME_MAX + 1]
		__attribute__((aligned(__alignof__(struct inotify_event))));
	const struct inotify_event *event = (const void *)buffer;
	struct pollfd wait = { .fd = watch, .events = POLLIN };
	double end = ctl_now() + ANSWER_SECONDS, left;

	while ((left = end - ctl_now()) > 0) {
		if (poll(&wait, 1, (int)(left * 1000) + 1) > 0 &&
		    read(watch, buffer, sizeof(buffer)) > 0 && event->len &&
		    !strcmp(event->name, name))
			return true;
	}
	return false;
}

/**
 * ctl_daemon_status() - what the daemon of a store says
 * @name: of the store
 * @wait: for figures of now; else those of the last time that it was asked, and
 *	the daemon is asked for the next
 *
 * Return: NULL when there is no daemon, or it does not answer: errno is ESRCH, EPERM,
 * ETIMEDOUT or what the status file's reading gave.
 */
struct json_object *ctl_daemon_status(const char *name, bool wait)
{
	char path[PATH_MAX], file[LSMEM_NAME_BYTES + 8];
	struct json_object *status;
	int watch = -1, daemon, err = 0;

	snprintf(file, sizeof(file), "%s.json", name);
	snprintf(path, sizeof(path), RUN "/%s", file);
	status = access(path, R_OK) ? NULL : json_object_from_file(path);
	if (!status)
		return NULL;
	daemon = open_daemon(status);
	if (daemon < 0)
		err = ESRCH;
	if (!err && wait) {
		watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
		if (watch < 0 || inotify_add_watch(watch, RUN, IN_MOVED_TO) < 0)
			err = errno;
	}
	if (!err && pidfd_send_signal(daemon, SIGUSR1, NULL, 0))
		err = errno;
	if (!err && wait && !wait_for(watch, file))
		err = ETIMEDOUT;
	if (watch >= 0)
		close(watch);
	if (daemon >= 0)
		close(daemon);
	if (err || wait) {
		json_object_put(status);
		status = err ? NULL : json_object_from_file(path);
	}
	if (err)
		errno = err;
	return status;
}
