// SPDX-License-Identifier: GPL-2.0
/*
 * A start whose configuration names a host to move the store from: one attempt (take.c), or, with "standby", one after the other:
 * the host stands by, until an operator wants the move, or no daemon owns the store any more. Documentation/migration.rst, A host
 * that stands by.
 */
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/notify.h"
#include "lsmemd.h"
#include "remote/verbs.h"

#define SECOND_NS	1000000000ull
#define AGAIN_S		5u	/* between two attempts */

/**
 * struct standby - between two attempts
 * @timer: of the wait
 * @waiting: it is running
 * @unowned_ns: since when no daemon owns the store, by clock_now_ns(); 0: one does, or it is not known
 */
struct standby {
	struct loop_timer timer;
	bool waiting;
	uint64_t unowned_ns;
};

static void waited(struct loop_op *op, int res)
{
	(void)res;
	((struct standby *)((char *)op - offsetof(struct standby, timer.op)))->waiting = false;
}

/* Wait AGAIN_S, or until a signal comes. Return: 0, or a negative errno of the loop. */
static int wait_again(struct standby *s, struct lsmemd *d)
{
	int err = 0;

	http_tell(&d->http, &d->status);
	notify_send("READY=1\nWATCHDOG=1\nSTATUS=Standing by: host %s cannot be read", d->config.move.from.host);
	s->waiting = true;
	loop_timer_start(&d->loop, &s->timer, AGAIN_S * SECOND_NS);
	while (s->waiting && !d->signals.stop && !d->signals.ask && err >= 0) {
		if (d->signals.dump) {
			d->signals.dump = false;
			status_write(&d->status);
		}
		if (d->signals.cancel) {
			d->signals.cancel = false;
			status_move_cancel(&d->status.move, "no host moves the store");
		}
		if (d->signals.reload)
			take_refuse_reload(d);
		err = loop_run(&d->loop, true);
	}
	if (s->waiting)
		loop_cancel(&d->loop, &s->timer.op);
	while (s->waiting && err >= 0)
		err = loop_run(&d->loop, true);
	verbs_release();
	return err < 0 ? err : 0;
}

/* Read in etcd whether a daemon owns the store, of which take_attempt() has set the uuid if the backups could be read. */
static void look(struct standby *s, struct lsmemd *d, bool read)
{
	if (!read || own_look(d, d->status.uuid) || d->cluster.taken.owned)
		s->unowned_ns = 0;
	else if (!s->unowned_ns)
		s->unowned_ns = clock_now_ns();
}

/*
 * Does the start go on as without a move? An operator may want that, or the time of "failover" is over, or this kernel keeps the
 * store for another host.
 */
static bool goes_on(struct standby *s, struct lsmemd *d)
{
	static const uint8_t none[LSMEM_UUID_BYTES];
	unsigned int failover = d->config.move.failover;
	bool read = memcmp(d->status.uuid, none, sizeof(none));
	uint64_t since;

	look(s, d, read);
	if (read && frozen_is_kept(d))
		return true;
	if (d->signals.ask) {
		take_answer(d, s->unowned_ns ? NULL : read ?
			    "the host that may own it cannot be read, and its lease is not over" : "its backups cannot be read");
		if (s->unowned_ns)
			return true;
	}
	since = clock_now_ns() - s->unowned_ns;
	if (!s->unowned_ns || failover == CONFIG_FOREVER || since < failover * SECOND_NS)
		return false;
	log_notice("%s: no daemon has owned the store for %u s: this host takes it (failover = %u)", d->where,
		   (unsigned int)(since / SECOND_NS), failover);
	return true;
}

/* Attempts, until this host has the store, or the start goes on as without a move. Return: as take_store(). */
static int stand_by(struct lsmemd *d)
{
	struct standby s = { .timer.op.done = waited };
	bool repeated = false, again;
	int status, err;

	for (;; repeated = true) {
		log_hush(repeated);
		status = take_attempt(d, &again);
		log_hush(false);
		if (status || d->signals.stop || !again || goes_on(&s, d))
			return status;
		if (!repeated)
			log_notice("%s: stands by for host %s: trying again each %u s", d->where, d->config.move.from.host, AGAIN_S);
		err = wait_again(&s, d);
		if (err || d->signals.stop)
			return err ? STATUS_ERROR : STATUS_OK;
	}
}

/**
 * take_store - move the store to this host, if the configuration names a host to move it from
 * @d: the daemon, with its control device; its backups are known, and not open
 *
 * If that host does not have the store, or does not give it, the start goes on as without a move. With "standby" it waits instead,
 * until an operator wants the move, or no daemon owns the store any more. Logs what is done.
 *
 * Return: a STATUS_*. STATUS_OK: the start goes on, or a signal has come.
 */
int take_store(struct lsmemd *d)
{
	const struct options *o = &d->options;
	bool again;

	if (!d->config.move.from_line || !d->cluster.options || o->init || o->format || o->again || o->take_over)
		return STATUS_OK;
	return d->config.move.standby ? stand_by(d) : take_attempt(d, &again);
}
