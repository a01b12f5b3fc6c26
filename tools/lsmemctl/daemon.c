// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl: the status file of a store's daemon.  The daemon writes it again on SIGUSR1.
 * See lsmemd(8), STATUS FILE.
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

#define ANSWER_SECONDS	5.0

/*
 * Opens the process that wrote the status file.  Another program may have its process id by now, so
 * the name of the process is compared.
 * Return: a pidfd; -1: the daemon has ended.
 */
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

/* Waits until the daemon has renamed a new status file to @name, at most ANSWER_SECONDS. */
static bool wait_for(int watch, const char *name)
{
	char buffer[sizeof(struct inotify_event) + NAME_MAX + 1]
		__attribute__((aligned(__alignof__(struct inotify_event))));
	const struct inotify_event *event;
	struct pollfd wait = { .fd = watch, .events = POLLIN };
	double end = ctl_now() + ANSWER_SECONDS, left;
	ssize_t length, at;

	while ((left = end - ctl_now()) > 0) {
		if (poll(&wait, 1, (int)(left * 1000) + 1) <= 0)
			continue;
		/* One read can return several events: other daemons write to this directory. */
		length = read(watch, buffer, sizeof(buffer));
		for (at = 0; at < length; at += (ssize_t)(sizeof(*event) + event->len)) {
			event = (const void *)(buffer + at);
			if (event->len && !strcmp(event->name, name))
				return true;
		}
	}
	return false;
}

/**
 * ctl_daemon_read() - read a status file as it is
 * @file: its name in CTL_RUN
 *
 * Return: the content; NULL: there is none, or it cannot be read.
 */
struct json_object *ctl_daemon_read(const char *file)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), CTL_RUN "/%s", file);
	return access(path, R_OK) ? NULL : json_object_from_file(path);
}

/**
 * ctl_daemon_signal() - send a daemon a signal
 * @status: its status
 * @number: of the signal
 *
 * Return: 0; -ESRCH: the daemon has ended; or another negative errno.
 */
int ctl_daemon_signal(struct json_object *status, int number)
{
	int daemon = open_daemon(status), err = 0;

	if (daemon < 0)
		return -ESRCH;
	if (pidfd_send_signal(daemon, number, NULL, 0))
		err = -errno;
	close(daemon);
	return err;
}

/**
 * ctl_daemon_file() - read a status file
 * @file: its name in CTL_RUN
 * @wait: true: ask the daemon for a new file and wait for it.  False: read the present file, and
 *	ask for a new file for the next call
 *
 * Return: the content; NULL with errno set.  ENOENT: no status file; ESRCH: the daemon has ended;
 * EPERM: not allowed to send it a signal; ETIMEDOUT: no answer within ANSWER_SECONDS; or an error
 * of reading the file.
 */
struct json_object *ctl_daemon_file(const char *file, bool wait)
{
	struct json_object *status = ctl_daemon_read(file);
	int watch = -1, err = 0;

	if (!status)
		return NULL;
	if (wait) {
		watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
		if (watch < 0 || inotify_add_watch(watch, CTL_RUN, IN_MOVED_TO) < 0)
			err = errno;
	}
	if (!err)
		err = -ctl_daemon_signal(status, SIGUSR1);
	if (!err && wait && !wait_for(watch, file))
		err = ETIMEDOUT;
	if (watch >= 0)
		close(watch);
	if (err || wait) {
		json_object_put(status);
		status = err ? NULL : ctl_daemon_read(file);
	}
	if (err)
		errno = err;
	return status;
}

/**
 * ctl_daemon_status() - read the status file of a store's daemon
 * @name: of the store's node
 * @wait: as for ctl_daemon_file()
 *
 * Return: as ctl_daemon_file().
 */
struct json_object *ctl_daemon_status(const char *name, bool wait)
{
	char file[LSMEM_NAME_BYTES + 8];

	snprintf(file, sizeof(file), "%s.json", name);
	return ctl_daemon_file(file, wait);
}
