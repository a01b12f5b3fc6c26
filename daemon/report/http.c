// SPDX-License-Identifier: GPL-2.0
/* Metrics over HTTP: see http.h. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <microhttpd.h>

#include "base/clock.h"
#include "http.h"
#include "metrics.h"
#include "base/thread.h"

#define REQUEST_BYTES	(8u << 10)	/* a request's line and headers */

/* ---- Answers ----------------------------------------------------------- */

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned int status,
			     const char *type, char *text, size_t length,
			     enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(length, text, mode);
	enum MHD_Result result;

	if (!response) {
		if (mode == MHD_RESPMEM_MUST_FREE)
			free(text);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result say(struct MHD_Connection *connection, unsigned int status, char *text)
{
	return reply(connection, status, "text/plain", text, strlen(text),
		     MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result tell_metrics(struct http *http, struct MHD_Connection *connection)
{
	struct status status;
	uint64_t told_ns;
	char *text = NULL;
	size_t length;
	FILE *out;

	pthread_mutex_lock(&http->lock);
	told_ns = http->told_ns;
	status = http->status;
	pthread_mutex_unlock(&http->lock);
	if (!told_ns)
		return say(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
			   "lsmemd has not found its store yet\n");
	out = open_memstream(&text, &length);
	if (!out)
		return MHD_NO;
	metrics_write(out, &status, clock_now_ns() - told_ns);
	if (fclose(out)) {
		free(text);
		return MHD_NO;
	}
	return reply(connection, MHD_HTTP_OK, METRICS_TYPE, text, length, MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_bytes, void **request)
{
	(void)version, (void)upload, (void)upload_bytes, (void)request;
	if (strcmp(url, "/") && strcmp(url, "/metrics"))
		return say(connection, MHD_HTTP_NOT_FOUND, "not found; there is /metrics\n");
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET or HEAD\n");
	if (!url[1])
		return say(connection, MHD_HTTP_OK, "lsmemd: metrics are at /metrics\n");
	return tell_metrics(context, connection);
}

/* ---- The thread -------------------------------------------------------- */

static void note(void *context, struct MHD_Connection *connection, void **socket,
		 enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info;
	struct http *http = context;
	uint64_t *end = *socket;
	unsigned int i;

	if (code != MHD_CONNECTION_NOTIFY_STARTED) {
		if (end)
			*end = 0;
		http->closed = true;
		return;
	}
	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	for (i = 0; info && i < HTTP_CONNECTIONS; i++) {
		if (http->connections[i].end_ns)
			continue;
		http->connections[i].fd = info->connect_fd;
		http->connections[i].end_ns = clock_now_ns() + HTTP_SECONDS * 1000000000ull;
		*socket = &http->connections[i].end_ns;
		break;
	}
}

/*
 * Shut down the connections whose time is over: libmicrohttpd then closes them.
 * Return: ms until the next one must end; -1: there is none.
 */
static int next_end_ms(struct http *http)
{
	uint64_t now = clock_now_ns(), end, next = UINT64_MAX;
	unsigned int i;

	for (i = 0; i < HTTP_CONNECTIONS; i++) {
		end = http->connections[i].end_ns;
		if (!end)
			continue;
		if (end <= now)
			shutdown(http->connections[i].fd, SHUT_RDWR);
		else if (end < next)
			next = end;
	}
	return next == UINT64_MAX ? -1 : (int)((next - now) / 1000000) + 1;
}

static void *run(void *context)
{
	struct http *http = context;
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	struct pollfd fds[] = {
		{ .fd = http->wake, .events = POLLIN },
		{ .fd = info->epoll_fd, .events = POLLIN },
	};
	MHD_UNSIGNED_LONG_LONG least;
	int timeout;

	thread_begin();
	while (!(fds[0].revents & POLLIN)) {
		do {
			/* Only another run accepts a connection in place of one that was closed. */
			http->closed = false;
			MHD_run(http->mhd);
		} while (http->closed);
		timeout = next_end_ms(http);
		if (MHD_get_timeout(http->mhd, &least) == MHD_YES &&
		    (timeout < 0 || least < (unsigned int)timeout))
			timeout = (int)least;
		poll(fds, 2, timeout);
	}
	return NULL;
}

/* ---- Life -------------------------------------------------------------- */

static int listen_at(const struct sockaddr *address, socklen_t length)
{
	int fd, err, on = 1, off = 0;

	fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/*
	 * REUSEADDR: connections of a former daemon may linger. FREEBIND: the network may come up
	 * after the store, so the host need not have the address yet.
	 */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->sa_family == AF_INET6) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on));
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	} else {
		setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on));
	}
	if (!bind(fd, address, length) && !listen(fd, HTTP_CONNECTIONS))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/**
 * http_open - listen at an address and serve the metrics
 * @http: out
 * @address: IPv4 or IPv6, with a port
 * @length: bytes of @address
 *
 * Return: 0, or a negative errno, which is not logged; -EADDRINUSE: another program has the port.
 */
int http_open(struct http *http, const struct sockaddr *address, socklen_t length)
{
	int fd, err;

	memset(http, 0, sizeof(*http));
	pthread_mutex_init(&http->lock, NULL);
	fd = listen_at(address, length);
	if (fd < 0)
		return fd;
	http->wake = eventfd(0, EFD_CLOEXEC);
	if (http->wake < 0) {
		err = -errno;
		goto err_listen;
	}
	http->mhd = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, answer, http,
				     MHD_OPTION_LISTEN_SOCKET, fd,
				     MHD_OPTION_CONNECTION_LIMIT, HTTP_CONNECTIONS,
				     MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
				     MHD_OPTION_NOTIFY_CONNECTION, note, http, MHD_OPTION_END);
	if (!http->mhd) {
		err = -ENOMEM;
		goto err_wake;
	}
	err = thread_start(&http->thread, run, http);
	if (!err)
		return 0;
	MHD_stop_daemon(http->mhd);	/* closes the socket */
	http->mhd = NULL;
	fd = -1;
err_wake:
	close(http->wake);
err_listen:
	if (fd >= 0)
		close(fd);
	return err;
}

/**
 * http_tell - publish a copy of the status
 * @http: the server, open or not
 * @status: the store is known
 *
 * Does not wait: if the thread is reading the last copy, that one stays.
 */
void http_tell(struct http *http, const struct status *status)
{
	if (!http->mhd || pthread_mutex_trylock(&http->lock))
		return;
	http->status = *status;
	http->told_ns = clock_now_ns();
	pthread_mutex_unlock(&http->lock);
}

/**
 * http_close - end the thread, close the connections and the socket
 * @http: the server, open or not
 */
void http_close(struct http *http)
{
	uint64_t one = 1;

	if (!http->mhd)
		return;
	while (write(http->wake, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(http->thread, NULL);
	MHD_stop_daemon(http->mhd);
	close(http->wake);
	http->mhd = NULL;
}
