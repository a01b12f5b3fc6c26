// SPDX-License-Identifier: GPL-2.0
/* lsmemd as a server of backups (remote/server.h): options, readiness, exit statuses. */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/log.h"
#include "base/notify.h"
#include "lsmemd.h"
#include "remote/server.h"

static struct lsmemd *opening;

static int open_progress(const char *what, uint64_t done, uint64_t all)
{
	(void)what;
	signals_poll(&opening->signals);
	if (opening->signals.stop)
		return -ECANCELED;
	if (all >= 1u << 20)
		notify_send("STATUS=Creating a backup: %" PRIu64 " of %" PRIu64 " MiB",
			    done >> 20, all >> 20);
	return 0;
}

static int status_of(int err)
{
	switch (err) {
	case -EBUSY:
		return STATUS_BUSY;
	case -ELOOP:
		return STATUS_REFUSED;
	case -ECANCELED:
		return STATUS_OK;
	default:
		return STATUS_ERROR;
	}
}

static int listen_and_serve(struct lsmemd *d, struct server *s)
{
	const struct wire_address *listen = &s->options->listen;
	int err = server_listen(s);

	if (err)
		return status_of(err);
	if (prepare(false))
		return STATUS_ERROR;
	notify_send("READY=1\nSTATUS=Serving %u backups", s->nr_exports);
	log_notice("serving %u backups at %s port %s", s->nr_exports, listen->host, listen->port);
	err = server_run(s, &d->signals);
	if (err == -ETIMEDOUT) {
		log_err("requests to a drive do not end: exiting without them");
		_exit(STATUS_DRAIN);
	}
	return d->signals.stop ? STATUS_OK : STATUS_ERROR;
}

/**
 * serve_exports - serve backups to other hosts until a signal arrives
 * @d: options, configuration, loop, signals
 *
 * Logs errors.
 *
 * Return: a STATUS_*.
 */
int serve_exports(struct lsmemd *d)
{
	static struct server server;
	const struct backup_options how = {
		.lock_wait = CONFIG_LOCK_WAIT_DEFAULT,
		.progress = open_progress,
		.create = d->options.init,
	};
	int status = STATUS_OK, err;

	opening = d;
	err = server_open(&server, &d->loop, &d->config.server.options, &how);
	if (err)
		return status_of(err);
	if (d->options.init)
		log_notice("all files of the exports exist; start lsmemd without --init");
	else
		status = listen_and_serve(d, &server);
	server_close(&server);
	return status;
}
