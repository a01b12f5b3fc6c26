/* SPDX-License-Identifier: GPL-2.0 */
/* A connection of a client to a server whose answers are lines, with data of known length between them. */
#ifndef TESTS_COMMON_LINES_H
#define TESTS_COMMON_LINES_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct lines {
	int fd;
	size_t from;		/* bytes from here to @to were received and not taken */
	size_t to;
	char bytes[65536];	/* more than the longest line */
};

/* @where: path of a unix socket, or a TCP port of 127.0.0.1.  Returns a descriptor, or -1: see errno. */
static inline int lines_connect(const char *where)
{
	struct sockaddr_un path = { .sun_family = AF_UNIX };
	struct sockaddr_in port = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1, fd, ret;

	if (*where == '/') {
		snprintf(path.sun_path, sizeof(path.sun_path), "%s", where);
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		ret = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&path, sizeof(path));
	} else {
		port.sin_port = htons((uint16_t)atoi(where));
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		ret = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&port, sizeof(port));
		if (!ret)
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
	if (ret && fd >= 0)
		close(fd);
	return ret ? -1 : fd;
}

/* Returns false if the connection has ended. */
static inline bool lines_send(const struct lines *lines, const char *bytes, size_t length)
{
	ssize_t sent;

	for (; length; bytes += sent, length -= (size_t)sent) {
		sent = send(lines->fd, bytes, length, MSG_NOSIGNAL);
		if (sent <= 0)
			return false;
	}
	return true;
}

static inline bool lines_receive(struct lines *lines)
{
	ssize_t got;

	memmove(lines->bytes, lines->bytes + lines->from, lines->to - lines->from);
	lines->to -= lines->from;
	lines->from = 0;
	got = recv(lines->fd, lines->bytes + lines->to, sizeof(lines->bytes) - lines->to, 0);
	lines->to += got > 0 ? (size_t)got : 0;
	return got > 0;
}

/* The next line, without its end, until the next call; NULL: the connection has ended. */
static inline char *lines_next(struct lines *lines)
{
	char *end, *line;

	while (!(end = memchr(lines->bytes + lines->from, '\n', lines->to - lines->from)))
		if (!lines_receive(lines))
			return NULL;
	line = lines->bytes + lines->from;
	lines->from = (size_t)(end + 1 - lines->bytes);
	if (end > line && end[-1] == '\r')
		end--;
	*end = 0;
	return line;
}

/* Take @length bytes.  Returns false if the connection has ended before. */
static inline bool lines_take(struct lines *lines, void *to, size_t length)
{
	char *bytes = to;
	size_t some;

	for (; length; bytes += some, length -= some) {
		if (lines->from == lines->to && !lines_receive(lines))
			return false;
		some = lines->to - lines->from < length ? lines->to - lines->from : length;
		memcpy(bytes, lines->bytes + lines->from, some);
		lines->from += some;
	}
	return true;
}

#endif
