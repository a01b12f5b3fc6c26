// SPDX-License-Identifier: GPL-2.0
/* Log lines on stderr: see log.h. Any thread may log; nothing here allocates or blocks. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"

static int log_level = LOG_PRI_NOTICE;
static _Thread_local bool log_hushed;
static bool log_prefixes = true;
static atomic_ulong log_dropped;

/**
 * log_setup - set which lines are printed
 * @level: the least important priority that is printed
 *
 * Context: before other threads start.
 */
void log_setup(int level)
{
	log_level = level;
	log_prefixes = !isatty(STDERR_FILENO);
}

/**
 * log_hush - lower all lines of the calling thread to LOG_PRI_DEBUG
 * @hush: true: from now on; false: no longer
 */
void log_hush(bool hush)
{
	log_hushed = hush;
}

static bool log_put(const char *line, size_t length)
{
	struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };

	if (send(STDERR_FILENO, line, length, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return true;
	if (errno != ENOTSOCK)
		return false;
	/* A pipe that polls writable takes PIPE_BUF bytes without blocking; a line is shorter. */
	if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT))
		return false;
	return write(STDERR_FILENO, line, length) >= 0;
}

static size_t log_prefix(char *line, size_t room, int priority)
{
	int n;

	if (log_prefixes)
		n = snprintf(line, room, "<%d>", priority);
	else
		n = snprintf(line, room, "lsmemd: %s", priority <= LOG_PRI_ERR ? "error: " :
			     priority == LOG_PRI_WARNING ? "warning: " : "");
	return (size_t)n;
}

/**
 * log_line - print one line if its priority is wanted
 * @priority: LOG_PRI_*
 * @format: as for printf, without the newline
 *
 * Keeps errno: a caller can log an error and then return it.
 */
void log_line(int priority, const char *format, ...)
{
	char line[LOG_LINE_BYTES + 32];
	unsigned long dropped;
	int error = errno;
	size_t used;
	va_list args;
	int n;

	if (log_hushed)
		priority = LOG_PRI_DEBUG;
	if (priority > log_level)
		return;
	dropped = atomic_exchange(&log_dropped, 0);
	if (dropped) {
		used = log_prefix(line, sizeof(line), LOG_PRI_WARNING);
		n = snprintf(line + used, sizeof(line) - used, "%lu lines could not be logged\n",
			     dropped);
		if (!log_put(line, used + (size_t)n))
			atomic_fetch_add(&log_dropped, dropped);
	}
	used = log_prefix(line, sizeof(line), priority);
	va_start(args, format);
	n = vsnprintf(line + used, LOG_LINE_BYTES - used, format, args);
	va_end(args);
	if (n < 0)
		n = 0;
	used += (size_t)n < LOG_LINE_BYTES - used ? (size_t)n : LOG_LINE_BYTES - used - 1;
	line[used++] = '\n';
	if (!log_put(line, used))
		atomic_fetch_add(&log_dropped, 1);
	errno = error;
}
