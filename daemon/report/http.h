/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The metrics over HTTP, by libmicrohttpd: GET /metrics, and a page at / that links to it.
 *
 * A thread serves them from a copy of the status, which the daemon leaves at each tick. The daemon
 * never waits for that thread: if the thread is reading the copy, the daemon skips this update.
 * There are at most HTTP_CONNECTIONS connections, and each ends within HTTP_SECONDS, whatever a
 * client does.
 */
#ifndef LSMEMD_HTTP_H
#define LSMEMD_HTTP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "status.h"

#define HTTP_CONNECTIONS	16u
#define HTTP_SECONDS		10u

struct MHD_Daemon;

/**
 * struct http - the server
 * @mhd: NULL: no server is configured
 * @wake: an eventfd that ends the thread
 * @thread: serves the connections
 * @connections: socket of each connection, and when the connection must end; 0: the entry is free.
 *	The thread's
 * @closed: a connection was closed during MHD_run(); the thread's
 * @lock: protects @told_ns and @status
 * @told_ns: when @status was copied, by clock_now_ns(); 0: never
 * @status: the copy. Of its pointers only those to names and paths stay valid
 */
struct http {
	struct MHD_Daemon *mhd;
	int wake;
	pthread_t thread;
	struct {
		int fd;
		uint64_t end_ns;
	} connections[HTTP_CONNECTIONS];
	bool closed;
	pthread_mutex_t lock;
	uint64_t told_ns;
	struct status status;
};

int http_open(struct http *http, const struct sockaddr *address, socklen_t length);
void http_tell(struct http *http, const struct status *status);
void http_close(struct http *http);

#endif
