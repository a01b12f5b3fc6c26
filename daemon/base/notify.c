// SPDX-License-Identifier: GPL-2.0
/* Readiness protocol: see notify.h. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "notify.h"

static int notify_fd = -1;

/**
 * notify_open - connect to $NOTIFY_SOCKET
 *
 * Return: 0: connected, or no service manager has set the variable; -EINVAL: it names no socket; or
 * another negative errno.
 */
int notify_open(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	socklen_t length;
	int fd, err;

	if (!path || !*path)
		return 0;
	if ((path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(address.sun_path))
		return -EINVAL;
	memcpy(address.sun_path, path, strlen(path));
	length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (path[0] == '@')
		address.sun_path[0] = 0;
	else
		length++;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, length)) {
		err = -errno;
		close(fd);
		return err;
	}
	notify_fd = fd;
	return 0;
}

/**
 * notify_managed - has a service manager started the daemon?
 *
 * Context: after notify_open().
 * Return: true: notify_open() has connected to it.
 */
bool notify_managed(void)
{
	return notify_fd >= 0;
}

/**
 * notify_send - send variables to the service manager, if there is one
 * @format: lines of VARIABLE=value
 *
 * Never blocks. A text of 512 bytes or more, or one that cannot be sent at once, is dropped.
 */
void notify_send(const char *format, ...)
{
	char text[512];
	va_list args;
	int n;

	if (notify_fd < 0)
		return;
	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n > 0 && (size_t)n < sizeof(text))
		(void)!send(notify_fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/**
 * notify_watchdog_us - the watchdog timeout of the service manager
 *
 * Return: microseconds within which the manager expects WATCHDOG=1; 0: it expects none.
 */
uint64_t notify_watchdog_us(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long value;
	char *end;

	if (!usec || (pid && strtol(pid, NULL, 10) != getpid()))
		return 0;
	errno = 0;
	value = strtoull(usec, &end, 10);
	return errno || *end || end == usec ? 0 : value;
}
