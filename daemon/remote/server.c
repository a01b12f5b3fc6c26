// SPDX-License-Identifier: GPL-2.0
/* The server of backups: see server.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/secret.h"
#include "server.h"

#define TICK_NS		1000000000u
#define BACKLOG		16
#define END_S		9u	/* at the end: to wait for requests to drives */

/* ---- Secrets ------------------------------------------------------------- */

/**
 * server_secret - get the secret that a client must prove
 * @server: a struct server
 * @name: of the export that the client asks for
 *
 * Return: the export's own secret, or the server's. For a name without an export it is the
 * server's: only a client that knows this secret learns that there is no such export.
 */
const struct secret *server_secret(void *server, const char *name)
{
	const struct server *s = server;
	unsigned int i;

	for (i = 0; i < s->nr_exports; i++)
		if (!strcmp(s->exports[i].options->name, name) && s->exports[i].key)
			return s->exports[i].key;
	return &s->key;
}

static int read_secret(struct export *export)
{
	if (!*export->options->secret)
		return 0;
	export->key = calloc(1, sizeof(*export->key));
	return export->key ? secret_read(export->options->secret, export->key) : -ENOMEM;
}

/* Read the server's secret. If none is configured, use random bytes: no client can prove them. */
static int read_key(struct server *s)
{
	if (*s->options->key)
		return secret_read(s->options->key, &s->key);
	s->key.length = WIRE_NONCE;
	return secret_random(s->key.bytes, WIRE_NONCE);
}

static void forget_key(struct export *export)
{
	if (export->key)
		explicit_bzero(export->key, sizeof(*export->key));
	free(export->key);
	export->key = NULL;
}

/* ---- Exports ------------------------------------------------------------- */

static int open_exports(struct server *s, const struct backup_options *how)
{
	struct backup_options options = *how;
	struct export *export;
	int err;

	for (; s->nr_exports < s->options->nr_exports; s->nr_exports++) {
		export = &s->exports[s->nr_exports];
		export->options = &s->options->exports[s->nr_exports];
		options.path = export->options->path;
		options.bytes = export->options->size;
		err = read_secret(export);
		if (!err)
			err = backup_open(&export->backup, s->loop, &options);
		if (err) {
			forget_key(export);
			return err;
		}
		log_notice("%s: %s, %" PRIu64 " MiB", export->options->name, export->options->path,
			   export->backup.limits.bytes >> 20);
	}
	return 0;
}

/* ---- Events of the connection manager ------------------------------------ */

static void take_events(struct server *s)
{
	struct rdma_cm_event *event, copy;

	while (!verbs_get_event(s->events, &event)) {
		copy = *event;
		rdma_ack_cm_event(event);
		/* The kernel removes the device only after the server has closed it. */
		if (copy.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
			s->lost = true;
		if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			peer_new(s, copy.id);
		else if (copy.id == s->listener)
			log_warn("listening: %s", rdma_event_str(copy.event));
		else
			verbs_event(&((struct peer *)copy.id->context)->verbs, &copy);
	}
}

static void events_done(struct loop_op *op, int res)
{
	struct server *s = (struct server *)((char *)op - offsetof(struct server, events_op));

	(void)res;
	take_events(s);
	loop_poll(s->loop, &s->events_op, s->events->fd, POLLIN);
}

static void tick_done(struct loop_op *op, int res)
{
	struct server *s = (struct server *)((char *)op - offsetof(struct server, tick.op));
	struct peer *peer;

	(void)res;
	s->lost |= s->listener && verbs_gone(s->listener);
	for (peer = s->peers; peer; peer = peer->next) {
		s->lost |= verbs_gone(peer->verbs.id);
		peer_tick(peer);
	}
	notify_send("WATCHDOG=1");
	loop_timer_start(s->loop, &s->tick, TICK_NS);
}

static int bind_to(struct server *s, const struct wire_address *listen)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *info;
	int err = getaddrinfo(listen->host, listen->port, &hints, &info);

	if (err) {
		log_err("listen: %s: %s", listen->host, gai_strerror(err));
		return -EINVAL;
	}
	err = rdma_bind_addr(s->listener, info->ai_addr) ? -errno : 0;
	freeaddrinfo(info);
	if (!err)
		err = rdma_listen(s->listener, BACKLOG) ? -errno : 0;
	if (err)
		log_err("listen: %s port %s: %s%s", listen->host, listen->port, strerror(-err),
			err == -ENODEV ? "; no RDMA device has this address (rdma link)" : "");
	return err;
}

/**
 * server_listen - begin to accept connections
 * @s: open
 *
 * Logs why it fails.
 *
 * Return: 0; -EINVAL: the address cannot be resolved; or another negative errno.
 */
int server_listen(struct server *s)
{
	int err;

	s->events = rdma_create_event_channel();
	if (!s->events || fcntl(s->events->fd, F_SETFL, O_NONBLOCK) ||
	    rdma_create_id(s->events, &s->listener, NULL, RDMA_PS_TCP)) {
		err = -errno;
		log_err("no RDMA here: %s; modprobe rdma_ucm, and a driver for the device",
			strerror(-err));
		return err;
	}
	err = bind_to(s, &s->options->listen);
	if (err)
		return err;
	s->events_op.done = events_done;
	loop_poll(s->loop, &s->events_op, s->events->fd, POLLIN);
	s->tick.op.done = tick_done;
	loop_timer_start(s->loop, &s->tick, TICK_NS);
	return 0;
}

/* ---- The loop ------------------------------------------------------------ */

static void free_gone(struct server *s)
{
	struct peer **at = &s->peers, *next;

	while (*at) {
		next = (*at)->next;
		if (!peer_free(*at)) {
			at = &(*at)->next;
			continue;
		}
		*at = next;
		s->nr_peers--;
	}
}

/**
 * server_run - serve until a signal comes, or the RDMA device is removed
 * @s: listening
 * @signals: signals of this process
 *
 * Return: 0; -ENODEV: the device is being removed; -ETIMEDOUT: requests to drives do not end, and
 * @s must not be closed; or the error of the loop.
 */
int server_run(struct server *s, struct signals *signals)
{
	int err;
	uint64_t end = 0;
	struct peer *peer;

	for (;;) {
		free_gone(s);
		if ((signals->stop || s->lost) && !end) {
			if (s->lost)
				log_err("the RDMA device is gone");
			log_notice("shutting down");
			notify_send("STOPPING=1");
			end = clock_now_ns() + END_S * 1000000000ull;
			rdma_destroy_id(s->listener);
			s->listener = NULL;
			for (peer = s->peers; peer; peer = peer->next)
				peer_end(peer, "the server ends");
		}
		if (end && !s->peers)
			return s->lost ? -ENODEV : 0;
		if (end && clock_now_ns() > end)
			return -ETIMEDOUT;
		if (signals->reload) {
			signals->reload = false;
			log_warn("of a server nothing can change while it runs: start it again");
		}
		err = loop_run(s->loop, true);
		if (err < 0)
			return s->peers ? -ETIMEDOUT : err;
	}
}

/**
 * server_open - read the secrets and open the exports
 * @s: out
 * @loop: carries its I/O
 * @options: must stay until server_close()
 * @how: for backup_open(); @path and @bytes are those of each export
 *
 * Logs why it fails.
 *
 * Return: 0; -ENOMEM; an errno of secret_read() or of backup_open(). On an error @s is closed.
 */
int server_open(struct server *s, struct loop *loop, const struct server_options *options,
		const struct backup_options *how)
{
	int err;

	memset(s, 0, sizeof(*s));
	s->loop = loop;
	s->options = options;
	err = read_key(s);
	if (!err)
		err = open_exports(s, how);
	if (err)
		server_close(s);
	return err;
}

/**
 * server_close - close the exports and the listener
 * @s: without peers
 */
void server_close(struct server *s)
{
	if (s->listener)
		rdma_destroy_id(s->listener);
	while (s->nr_exports) {
		backup_close(&s->exports[--s->nr_exports].backup);
		forget_key(&s->exports[s->nr_exports]);
	}
	explicit_bzero(&s->key, sizeof(s->key));
}
