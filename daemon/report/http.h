/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics.h over HTTP, by libmicrohttpd: GET /metrics, and / that names it.
 *
 * A thread of its own does all of it, from a copy of the status that the daemon
 * leaves here now and then.  The daemon never waits for that thread: a copy that
 * is being read just then stays as it is until the next one.  Whatever a client
 * does, HTTP_CONNECTIONS is the most of them and HTTP_SECONDS the end of each.
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
 * @mhd: NULL: there is none
 * @wake: ends the thread
 * @connections: the thread's: when each is over, 0 if there is none
 * @closed: one of them just now
 * @lock: of all that follows
 * @status: as it was at @told_ns, 0: never; its pointers to memory are not to
 *	be followed, but for those to names and paths
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
