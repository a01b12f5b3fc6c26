// SPDX-License-Identifier: GPL-2.0
/*
 * How a client connects to the server of a backup on another host: address and route, the queue
 * pair, then messages until the server accepts or refuses. An export that another client holds is
 * asked for again, for @lock_wait seconds at most.
 */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "backup/backup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "client.h"

#define CONNECT_MS	10000	/* to connect; then again for HELLO to ACCEPT */
#define RESOLVE_MS	2000
#define HELD_STEP_MS	200	/* between attempts while it is held; between calls of @progress */
#define HELD_SAY_MS	5000	/* between messages about that */
#define MS		1000000u

static const char *event_error(const struct rdma_cm_event *event, int *error)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		*error = -EHOSTUNREACH;
		return "no RDMA device of this host has a way to it (rdma link; ip route)";
	case RDMA_CM_EVENT_REJECTED:
		*error = -ECONNREFUSED;
		return "nothing listens there: is lsmemd running as its server?";
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		*error = -EHOSTUNREACH;
		return "it does not answer";
	default:
		*error = -EIO;
		return rdma_event_str(event->event);
	}
}

/* Wait until @deadline for an event of the connection manager or a completion. */
static int wait_for(struct rdma_backup *r, const struct backup_options *options,
		    uint64_t deadline)
{
	struct pollfd fds[2] = {
		{ .fd = r->events->fd, .events = POLLIN },
		{ .fd = r->verbs.channel ? r->verbs.channel->fd : -1, .events = POLLIN },
	};
	int err;

	do {
		err = options->progress ? options->progress("waited", 0, 0) : 0;
		if (err)
			return err;
		if (clock_now_ns() >= deadline) {
			log_err("%s: the server does not answer in time; does rping? See lsmemd(8)",
				options->path);
			return -ETIMEDOUT;
		}
		if (r->verbs.id && verbs_gone(r->verbs.id)) {
			log_err("%s: the RDMA device is gone", options->path);
			return -ENODEV;
		}
		err = poll(fds, 2, HELD_STEP_MS);
	} while (!err || (err < 0 && errno == EINTR));
	return err < 0 ? -errno : 0;
}

/* Take one event while connecting. Return: 0 if it is @wanted. */
static int await(struct rdma_backup *r, const struct backup_options *options,
		 enum rdma_cm_event_type wanted, uint64_t deadline)
{
	struct rdma_cm_event *event;
	const char *why;
	int err;

	while (verbs_get_event(r->events, &event)) {
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		err = wait_for(r, options, deadline);
		if (err)
			return err;
	}
	err = 0;
	if (event->event != wanted) {
		why = event_error(event, &err);
		log_err("%s: %s", options->path, why);
	}
	rdma_ack_cm_event(event);
	return err;
}

static int resolve(struct rdma_backup *r, const struct backup_options *options,
		   struct rdma_cm_id *id, uint64_t deadline)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *info;
	int err = getaddrinfo(r->address.host, r->address.port, &hints, &info);

	if (err) {
		log_err("%s: %s: %s", options->path, r->address.host, gai_strerror(err));
		return -EHOSTUNREACH;
	}
	err = rdma_resolve_addr(id, NULL, info->ai_addr, RESOLVE_MS) ? -errno : 0;
	freeaddrinfo(info);
	if (err) {
		log_err("%s: its address: %s", options->path, strerror(-err));
		return err;
	}
	err = await(r, options, RDMA_CM_EVENT_ADDR_RESOLVED, deadline);
	if (!err)
		err = rdma_resolve_route(id, RESOLVE_MS) ? -errno : 0;
	return err ? err : await(r, options, RDMA_CM_EVENT_ROUTE_RESOLVED, deadline);
}

/*
 * Exchange messages until ACCEPT. The deadline includes @lock_wait: the server answers a fence only
 * when the I/O of the fenced client has ended.
 */
static int agree(struct rdma_backup *r, const struct backup_options *options)
{
	uint64_t deadline = clock_now_ns() + (CONNECT_MS + options->lock_wait * 1000ull) * MS;
	struct session_setup setup = {
		.lowest = WIRE_VERSION_MIN, .highest = WIRE_VERSION_MAX,
	};
	char who[WIRE_NAME] = "";
	size_t i;
	int err;

	err = verbs_qps(&r->verbs, &setup.link.client_qp, &setup.link.server_qp);
	if (!err)
		err = secret_random(setup.nonce, sizeof(setup.nonce));
	if (err)
		return err;
	(void)gethostname(who, sizeof(who) - 1);
	for (i = 0; who[i]; i++)
		if (who[i] <= ' ' || who[i] > '~')
			who[i] = '?';
	session_call(&r->session, &setup, &r->key, r->address.name, *who ? who : "?",
		     options->fence_term, (options->read_only ? WIRE_READ_ONLY : 0) |
					   (options->receipts ? WIRE_RECEIPTS : 0));
	verbs_send(&r->verbs, &r->session.out, WIRE_SLOTS);
	while (!r->error && r->session.state != SESSION_SERVING) {
		client_take_events(r);
		verbs_poll(&r->verbs);
		if (r->error || r->session.state == SESSION_SERVING)
			break;
		err = wait_for(r, options, deadline);
		if (err)
			return err;
	}
	return r->error;
}

static int connect_once(struct rdma_backup *r, const struct backup_options *options)
{
	uint64_t deadline = clock_now_ns() + (uint64_t)CONNECT_MS * MS;
	struct rdma_conn_param params;
	struct rdma_cm_id *id;
	int err;

	if (rdma_create_id(r->events, &id, NULL, RDMA_PS_TCP)) {
		err = -errno;
		log_err("%s: no RDMA connection can be made: %s", options->path, strerror(-err));
		return err;
	}
	r->error = 0;
	err = resolve(r, options, id, deadline);
	if (err) {
		rdma_destroy_id(id);
		verbs_release();	/* nothing ticks while the store is opened */
		return err;
	}
	err = verbs_open(&r->verbs, id, &client_user);
	if (err) {
		log_err("%s: the RDMA device %s has no queues for it: %s", options->path,
			ibv_get_device_name(id->verbs->device), strerror(-err));
		goto fail;
	}
	verbs_params(&r->verbs, &params);
	err = rdma_connect(id, &params) ? -errno : 0;
	if (!err)
		err = await(r, options, RDMA_CM_EVENT_ESTABLISHED, deadline);
	if (!err)
		err = agree(r, options);
	if (!err)
		return 0;
fail:
	verbs_close(&r->verbs);
	return err;
}

/* Log why the server refused. Return: a negative errno; 0: the export is held, ask again. */
static int refused(struct rdma_backup *r, const struct backup_options *options, uint64_t since,
		   uint64_t *said)
{
	const struct wire_refuse *refuse = &r->session.refused;
	uint32_t reason = le32toh(refuse->reason);
	uint64_t waited = (clock_now_ns() - since) / MS;

	if (reason == WIRE_REASON_HELD) {
		if (waited >= options->lock_wait * 1000ull) {
			log_err("%s: still held by %s after %u s; if that host is lost, take the store over: see --take-over in lsmemd(8)",
				options->path, refuse->who, options->lock_wait);
			return -EBUSY;
		}
		if (!*said || waited - *said >= HELD_SAY_MS) {
			*said = waited + 1;
			log_notice("%s: waiting up to %u s: held by %s", options->path,
				   options->lock_wait, refuse->who);
		}
		return 0;
	}
	if (reason == WIRE_REASON_TERM)
		log_err("%s: refused: term %" PRIu64 " was asked for, %s has had %" PRIu64,
			options->path, options->fence_term, refuse->who,
			(uint64_t)le64toh(refuse->term));
	else
		log_err("%s: refused: %s", options->path, r->session.why);
	return reason == WIRE_REASON_BUSY ? -EBUSY :
	       reason == WIRE_REASON_EXPORT ? -ENODATA :
	       reason == WIRE_REASON_PROOF ? -EKEYREJECTED : -ESTALE;
}

/**
 * client_connect - connect to the server of a backup, until it accepts or refuses
 * @r: the backup, with an event channel
 * @options: of the backup; @lock_wait is for how many seconds an export that another client holds
 *	is asked for again
 *
 * Return: 0, or a negative errno that has been logged: -EHOSTUNREACH, -ECONNREFUSED or -ETIMEDOUT if
 * there is no way to the server or no answer, -ENODEV without the RDMA device, -EBUSY if the export
 * is held, -ENODATA if the server has no such export, -EKEYREJECTED, -ESTALE for an old term, what
 * @progress returned, or what ended the connection.
 */
int client_connect(struct rdma_backup *r, const struct backup_options *options)
{
	uint64_t start = clock_now_ns(), said = 0;
	int err;

	r->closing = true;	/* errors are logged here, not by rdma_broken() */
	for (;;) {
		err = connect_once(r, options);
		if (!err)
			break;
		if (!r->error)
			return err;
		if (!r->session.refused.reason) {
			log_err("%s: %s: %s", options->path, r->session.why ? r->session.why :
				"the connection is over", strerror(-err));
			return err;
		}
		err = refused(r, options, start, &said);
		if (!err && options->progress)
			err = options->progress("waited", 0, 0);
		if (err)
			return err;
		usleep(HELD_STEP_MS * 1000);
	}
	r->closing = false;
	if (options->read_only && !options->beside &&
	    le32toh(r->session.accept.flags) & WIRE_HELD) {
		log_err("%s: held by another client, which may write to it", options->path);
		verbs_close(&r->verbs);
		return -EBUSY;
	}
	return 0;
}
