// SPDX-License-Identifier: GPL-2.0
/*
 * The steady state: events of the kernel go into core, requests of core to the backups, and
 * acknowledgements of core to the kernel.
 *
 * While a request is awaited, the daemon takes events from the kernel only at completions, so that
 * ranges committed meanwhile become one group. If none is awaited, the daemon polls the kernel's
 * descriptor. No timer collects a group, but for partial rows of a coded store with batch_us. A write
 * that a backup with ack = memory has received is not awaited any more, and flushes of such a backup
 * never are. The tick makes core write digests that nothing waits for, and serves the watchdog.
 * Another timer bounds the shutdown.
 *
 * POLLPRI on the same descriptor means that the kernel wants a pass of cleaning.
 * core/clean.h chooses the segments, the kernel does the pass. If no segment is worth a pass, the
 * next choice waits for progress in the stream, or for the tick. POLLRDBAND means that the kernel
 * wants objects that are on backups only (serve_fetch.c).
 *
 * Nothing here allocates memory, and only the loop blocks. A thread makes a backup ready that comes
 * back, and a tick takes it over (rejoin.c).
 *
 * With a cluster, the daemon acknowledges only while it owns the store (cluster/cluster.h). It
 * checks that after it has reaped completions, and before it acknowledges to the kernel.
 *
 * A backup is lost if a request to it fails, or takes too long on one of several backups (invariant
 * 3). If no backup is left, core fails and acknowledges nothing more: the daemon logs what failed
 * and ends, and the store stays as it is.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/notify.h"
#include "remote/verbs.h"
#include "serve.h"

#define EVENTS_MIN	128u		/* least room that the kernel accepts */
#define EVENTS_TOGETHER	64u		/* most events that the kernel never returns in two parts */
#define TICK_NS		1000000000u
#define QUIET_NS	5000000u	/* pause after a poll that brought no events */
#define STORE_TIME_NS	1024u		/* unit of the store's clock */

static struct serve the_serve;	/* large; locked in memory like all of the process */

/* ---- Requests ---------------------------------------------------------- */

static const char *const whats[] = {
	[CORE_IO_WRITE] = "write", [CORE_IO_FLUSH] = "flush", [CORE_IO_READ] = "read",
};

/**
 * serve_failed - log why a request failed, and keep it for the status
 * @slot: of the request
 * @error: a negative errno
 * @why: the reason, as text
 */
void serve_failed(const struct slot *slot, int error, const char *why)
{
	struct serve *s = slot->serve;
	uint32_t nr = s->d->slots[slot->request.backup];

	s->io_error = error;
	log_err("%s: %s of %" PRIu32 " bytes at %" PRIu64 " failed: %s",
		s->d->config.backups[nr].path, whats[slot->request.kind], slot->request.length,
		slot->request.offset, why);
	snprintf(s->d->status.backups[nr].error, STATUS_ERROR_BYTES, "%s: %s",
		 whats[slot->request.kind], why);
}

static void slot_await(struct slot *slot, bool awaited)
{
	slot->serve->awaited[slot->request.backup] += awaited - slot->awaited;
	slot->awaited = awaited;
}

static void slot_done(struct backup_io *io, int error)
{
	struct slot *slot = (struct slot *)((char *)io - offsetof(struct slot, io));
	struct serve *s = slot->serve;

	slot_await(slot, false);
	if (error && !s->io_error)
		s->d->unconnected = connection_lost(s->d);
	if (error && (!s->io_error || s->d->config.nr_backups > 1))
		serve_failed(slot, error, strerror(-error));
	core_io_done(s->core, slot->request.id, error);
	s->ready = true;
	slot->busy = false;
	slot->next = s->free;
	s->free = slot;
}

static void slot_received(struct backup_io *io)
{
	struct slot *slot = (struct slot *)((char *)io - offsetof(struct slot, io));

	slot_await(slot, false);
	core_io_received(slot->serve->core, slot->request.id);
	slot->serve->ready = true;
}

static bool start_requests(struct serve *s)
{
	static const enum backup_what kinds[] = {
		[CORE_IO_WRITE] = BACKUP_WRITE, [CORE_IO_FLUSH] = BACKUP_FLUSH,
		[CORE_IO_READ] = BACKUP_READ,
	};
	struct slot *slot;
	bool any = false;
	uint32_t nr;

	while (s->free && core_io_next(s->core, &s->free->request)) {
		slot = s->free;
		s->free = slot->next;
		slot->busy = true;
		/* Reading the clock can be a system call, and a single backup has no timeout. */
		slot->begun_ns = s->d->config.nr_backups > 1 ? clock_now_ns() : 0;
		nr = s->d->slots[slot->request.backup];
		slot->io.what = kinds[slot->request.kind];
		slot->io.durable = slot->request.durable;
		slot->io.offset = slot->request.offset;
		slot->io.length = slot->request.length;
		slot->io.iov = slot->request.iov;
		slot->io.nr_iov = slot->request.nr_iov;
		slot->io.done = slot_done;
		slot->io.received = slot_received;
		slot_await(slot, slot->request.kind != CORE_IO_FLUSH ||
				 !s->d->config.backups[nr].ack_memory);
		backup_submit(&slot->io, &s->d->backups[nr]);
		any = true;
	}
	return any;
}

/* ---- The kernel -------------------------------------------------------- */

static void note_range(struct serve *s, const struct lsmem_event *event, uint64_t now)
{
	struct range *range;

	s->d->status.ranges++;
	if (s->nr_ranges == RANGES)
		return;
	range = &s->ranges[s->nr_ranges++];
	range->segment = event->segment;
	range->to = event->to;
	range->ns = now;
}

static void measure(struct serve *s, const struct lsmem_ack_one *ack, uint64_t now)
{
	unsigned int i, kept = 0;

	for (i = 0; i < s->nr_ranges; i++) {
		uint64_t begun = s->ranges[i].ns;

		if (s->ranges[i].segment == ack->segment && s->ranges[i].to <= ack->to)
			histogram_add(&s->d->status.ack, now > begun ? now - begun : 0);
		else
			s->ranges[kept++] = s->ranges[i];
	}
	s->nr_ranges = kept;
}

/*
 * The time at which events came, by clock_now_ns(): it follows from the store's clock, which the
 * kernel tells with them. Both run at the same rate, so this takes no system call. It is late by
 * what lay between the kernel's answer and the call that read the clock, which can be more than a
 * write takes: then @now of measure() is earlier.
 */
static uint64_t events_ns(struct serve *s, uint64_t store_time)
{
	if (!s->clock_ns) {
		s->clock_ns = clock_now_ns();
		s->clock_store = store_time;
	}
	return s->clock_ns + (store_time - s->clock_store) * STORE_TIME_NS;
}

/* Take events from the kernel, as far as core has room. Return: true: something has changed. */
static bool take_events(struct serve *s)
{
	struct lsmem_cleaning cleaning;
	struct kernel_clock clock;
	uint32_t room;
	uint64_t now;
	int n, i;

	room = core_room(s->core);
	if (!s->ready || s->drained || room < EVENTS_MIN)
		return false;
	if (room > KERNEL_EVENTS)
		room = KERNEL_EVENTS;
	/* Read this first: the events of a pass that has ended by now are then in the stream. */
	kernel_cleaning(&s->d->kernel, &cleaning);
	n = kernel_next(&s->d->kernel, s->events, room, &clock);
	if (n < 0) {
		log_err("%s: its events cannot be taken: %s", s->d->kernel.name, strerror(-n));
		s->error = n;
		return false;
	}
	if (n && s->d->config.store.batch_us)
		core_time(s->core, clock_now_ns());
	core_clock(s->core, clock.generation_wanted, clock.store_time, clock.next_segment);
	now = n ? events_ns(s, clock.store_time) : 0;
	for (i = 0; i < n; i++) {
		if (s->events[i].type == LSMEM_EVENT_RANGE)
			note_range(s, &s->events[i], now);
		core_event(s->core, &s->events[i]);
		if (s->events[i].type == LSMEM_EVENT_RETIRE)
			serve_move_retired(s, s->events[i].segment);
	}
	s->d->status.events += (uint64_t)n;
	/*
	 * The kernel returns fewer events than there is room for rather than splitting events that
	 * belong together. If more room than that is left, the stream is empty.
	 */
	s->ready = (uint32_t)n + EVENTS_TOGETHER > room;
	if (n)
		s->quiet = false;
	if (s->stopping && !s->ready && !s->d->nr_damaged && cleaning.begun == cleaning.ended) {
		s->drained = true;
		core_shutdown(s->core);
	}
	return n > 0 || s->drained;
}

static bool give_acks(struct serve *s)
{
	uint32_t n, ceiling, i;
	bool any = false, ranges;
	uint64_t now;
	int err;

	do {
		ceiling = 0;
		n = core_acks(s->core, s->acks, ACKS, &ceiling);
		if (!n && !ceiling)
			break;
		err = kernel_ack(&s->d->kernel, s->acks, n, ceiling);
		if (err) {
			log_err("%s: does not take acknowledgements: %s", s->d->kernel.name,
				strerror(-err));
			s->error = err;
			return false;
		}
		any = true;
		now = clock_now_ns();
		ranges = false;
		for (i = 0; i < n; i++) {
			if (s->acks[i].type != LSMEM_EVENT_RANGE &&
			    s->acks[i].type != LSMEM_ACK_RECEIVED)
				continue;
			measure(s, &s->acks[i], now);
			ranges = true;
		}
		s->d->status.groups += ranges;
	} while (n == ACKS);
	return any;
}

/**
 * serve_is_quiet - take all events of the stream, and give all acknowledgements that there are
 * @s: the steady state
 *
 * Return: true: there was no event; false: there was one, or core has no room for one.
 */
bool serve_is_quiet(struct serve *s)
{
	(void)give_acks(s);
	s->ready = true;
	return !take_events(s) && !s->ready && !s->error;
}

static void poll_done(struct loop_op *op, int res)
{
	struct serve *s = (struct serve *)((char *)op - offsetof(struct serve, poll));

	s->armed = false;
	if (res < 0 && res != -EINTR && res != -EAGAIN) {
		log_err("%s: cannot be waited for: %s", s->d->kernel.name, strerror(-res));
		s->error = res;
		return;
	}
	s->ready = true;
	s->quiet = true;	/* until an event comes */
}

static void pause_done(struct loop_op *op, int res)
{
	struct serve *s = (struct serve *)((char *)op - offsetof(struct serve, pause.op));

	(void)res;
	s->pausing = false;
	s->quiet = false;
}

/*
 * Poll for the next event, if no completion is awaited. The descriptor can be readable without an
 * event to take: the kernel wants something that core is still making durable. Then poll again only
 * after a pause, so that the loop does not spin.
 */
static void arm(struct serve *s)
{
	if (s->armed || s->ready || s->drained || s->pausing || serve_waits_for_answers(s))
		return;
	if (s->quiet) {
		s->pausing = true;
		loop_timer_start(&s->d->loop, &s->pause, QUIET_NS);
		return;
	}
	s->armed = true;
	loop_poll(&s->d->loop, &s->poll, s->d->kernel.fd, POLLIN);
}

/* ---- Time -------------------------------------------------------------- */

/**
 * serve_tick_ns - the time from one core_tick() to the next
 *
 * Return: ns: a second, or less if the watchdog needs it.
 */
uint64_t serve_tick_ns(void)
{
	uint64_t watchdog_ns = notify_watchdog_us() * 1000;

	return watchdog_ns && watchdog_ns < 4ull * TICK_NS ? watchdog_ns / 4 : TICK_NS;
}

/**
 * serve_scrub - have replicas checked as the configuration says
 * @d: the daemon, with a core
 */
void serve_scrub(struct lsmemd *d)
{
	uint64_t ticks = d->config.store.scrub * 1000000000ull / serve_tick_ns();

	core_scrub(d->core, ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX);
}

/**
 * serve_batch - have partial rows wait as the configuration says
 * @d: the daemon, with a core
 */
void serve_batch(struct lsmemd *d)
{
	core_batch(d->core, d->config.store.batch_us * 1000ull);
	/* It may be due earlier now. */
	if (the_serve.batching)
		loop_cancel(&d->loop, &the_serve.batch.op);
}

static void batch_done(struct loop_op *op, int res)
{
	struct serve *s = (struct serve *)((char *)op - offsetof(struct serve, batch.op));

	(void)res;
	s->batching = false;
	if (s->d->core)	/* freed; a backup that is closed runs the loop */
		core_time(s->core, clock_now_ns());
}

/* Start a timer for what core writes when nothing more has come. */
static void arm_batch(struct serve *s)
{
	uint64_t due = core_due(s->core), now;

	if (s->batching || due == CORE_NEVER)
		return;
	now = clock_now_ns();
	s->batching = true;
	loop_timer_start(&s->d->loop, &s->batch, due > now ? due - now : 0);
}

static void gather(struct serve *s)
{
	core_stats(s->core, &s->d->status.core);
	if (s->d->fetch)
		fetch_stats(s->d->fetch, &s->d->status.fetch);
	cluster_tell(&s->d->cluster, &s->d->status.cluster);
	serve_move_gather(s);
	take_gather(s->d);
}

static void tell(struct serve *s)
{
	if (!s->d->http.mhd)
		return;
	gather(s);
	http_tell(&s->d->http, &s->d->status);
}

static void tick_backups(struct serve *s, uint64_t now)
{
	if (s->d->config.nr_backups > 1)
		serve_lose_slow(s, now);
	serve_lose_gone(s);
	serve_fetch_tick(s, now);
	if (s->d->config.nr_backups > 1 && !s->stopping && serve_move_ticks(s))
		rejoin_tick(s->d, now);
	if (s->stopping && now - s->stopped_ns > s->d->options.drain * 500000000ull)
		serve_mend_stop(s, "half of the time to drain is over");
	if (!s->drained && serve_move_ticks(s))
		core_tick(s->core);
	serve_watch_room(s);
	if (serve_move_ticks(s))
		serve_convert(s);
}

static void tick_done(struct loop_op *op, int res)
{
	struct serve *s = (struct serve *)((char *)op - offsetof(struct serve, tick.op));
	uint64_t now = clock_now_ns();

	(void)res;
	if (!s->d->core)	/* freed; a backup that is closed runs the loop */
		return;
	/* kernel_next() brings the store's clock to core, even without events. */
	s->ready = true;
	s->clock_ns = 0;
	if (s->clean == CLEAN_FRUITLESS)
		s->clean = CLEAN_IDLE;	/* compaction makes room, and sends no event */
	if (!serve_move_has_moved(s))
		tick_backups(s, now);
	verbs_release();	/* no connection looks for a removed device between two attempts */
	if (!s->stopping)
		reload_tick(s->d, now);
	serve_move_tick(s, now);
	take_tick(s->d, now);
	if (s->watchdog_ns && now - s->watchdog_last >= s->watchdog_ns / 4) {
		s->watchdog_last = now;
		notify_send("WATCHDOG=1");
	}
	cluster_tick(&s->d->cluster);
	if (s->resumed && !serve_move_has_moved(s))
		own_tell(s->d);
	tell(s);
	loop_timer_start(&s->d->loop, &s->tick, serve_tick_ns());
}

static void bound_done(struct loop_op *op, int res)
{
	struct serve *s = (struct serve *)((char *)op - offsetof(struct serve, bound.op));

	if (res == -ETIME)
		s->late = true;
}

static void dump(struct serve *s)
{
	gather(s);
	status_write(&s->d->status);
}

/* Store and backups belong together: publish that the store is served. */
static void begin(struct serve *s)
{
	struct lsmemd *d = s->d;
	char text[STAGES_TEXT];

	s->resumed = true;
	if (s->stopping)
		return;
	s->error = frozen_thaw(d);
	if (s->error)
		return;
	d->status.state = "active";
	own_tell(d);
	dump(s);
	tell(s);
	notify_send("READY=1\nSTATUS=Serving %s, backup %s", d->kernel.name, d->where);
	log_notice("%s: serving, backup %s", d->kernel.name, d->where);
	stages_end(&d->stages, "first digest");
	log_info("%s: time until it was served, ms: %s", d->kernel.name, stages_text(&d->stages, text));
	take_served(d);
	if (!take_is_open(d))
		serve_move_begin(s);
}

static void begin_stop(struct serve *s)
{
	s->stopping = true;
	s->ready = true;
	rejoin_stop();
	log_notice("%s: shutting down, draining for up to %u s", s->d->kernel.name,
		   s->d->options.drain);
	s->stopped_ns = clock_now_ns();
	if (!s->d->nr_damaged)
		kernel_clean_last(&s->d->kernel);
	s->d->status.state = "draining";
	tell(s);
	notify_send("STOPPING=1\nSTATUS=Draining");
	s->bound.op.done = bound_done;
	loop_timer_start(&s->d->loop, &s->bound, s->d->options.drain * 1000000000ull);
}

/* ---- The loop ---------------------------------------------------------- */

/*
 * Invariant 17: the next owner finds all bytes that were durable while this daemon owned the store,
 * but may not find bytes that became durable later. The acknowledgements after this call are only
 * of completions before it, and so of the former.
 */
static bool is_ours(struct serve *s)
{
	bool holds = cluster_holds(&s->d->cluster);

	s->unowned = !holds && !serve_move_goes_on(s);
	s->parked = !s->unowned && (!holds || serve_move_has_moved(s));
	return !s->unowned && !s->parked;
}

static int finish(struct serve *s)
{
	struct lsmemd *d = s->d;
	struct core_stats *core = &d->status.core;
	const char *reason;
	int status;

	rejoin_stop();
	gather(s);
	status = serve_move_is_over(s) ? serve_move_finish(s) : -1;
	if (status >= 0) {
		d->unconnected = false;
	} else if (s->unowned) {
		(void)owned(d, "nothing more is acknowledged; the store stays in memory and readable. See WHEN THE STORE IS ANOTHER HOST'S in lsmemd(8)");
		d->unconnected = false;
		d->status.state = "failed";
		status = STATUS_OWNER;
	} else if (core_state(s->core) == CORE_FAILED && !s->resumed && !s->io_error) {
		log_err("%s: does not resume on %s: %s. Nothing more is acknowledged; the store stays in memory and readable. If another host has recovered it, destroy this one (lsmemctl destroy --force %s); else keep it",
			d->kernel.name, d->where, core_error(s->core), d->kernel.name);
		d->status.state = "failed";
		status = STATUS_REFUSED;
	} else if (core_state(s->core) == CORE_FAILED && d->unconnected && !s->stopping) {
		log_warn("%s: the connection to %s is lost: nothing more is acknowledged until it is back; the store stays in memory and readable",
			 d->kernel.name, d->where);
		d->status.state = "waiting";
		status = STATUS_BACKUP;
	} else if (core_state(s->core) == CORE_FAILED || s->error) {
		d->unconnected = false;
		reason = core_state(s->core) == CORE_FAILED ? core_error(s->core) :
			 strerror(-s->error);
		log_err("%s: stopped: %s. Nothing more is acknowledged; the store stays in memory and readable. Do not destroy it or restart the machine: see WHEN A BACKUP FAILS in lsmemd(8)",
			d->kernel.name, reason);
		d->status.state = "failed";
		status = s->io_error ? STATUS_BACKUP : STATUS_ERROR;
	} else if (core_state(s->core) == CORE_STOPPED) {
		log_notice("%s: all that was committed is on %s", d->kernel.name, d->where);
		d->status.state = "stopped";
		status = STATUS_OK;
	} else {
		log_err("%s: %" PRIu64 " bytes of %" PRIu32 " segments are not on %s yet; the next lsmemd sends them",
			d->kernel.name, core->lag_bytes, core->lag_segments, d->where);
		d->status.state = "undrained";
		status = STATUS_DRAIN;
	}
	s->stopping = true;	/* the loop may still run, for requests in flight */
	serve_move_close(s);
	take_close(d);
	notify_send("STATUS=%s", d->status.state);
	status_write(&d->status);
	return status;
}

/**
 * serve - make the store durable until a signal or a failure
 * @d: the daemon; start() has succeeded
 *
 * Logs how it ends.
 *
 * Return: a STATUS_*. With @d->unconnected a successor can wait for the backup.
 */
int serve(struct lsmemd *d)
{
	struct serve *s = &the_serve;
	bool more, progress;
	int i, err;

	s->d = d;
	s->core = d->core;
	for (i = (int)(CORE_IOS * d->config.nr_backups) - 1; i >= 0; i--) {
		s->slots[i].serve = s;
		s->slots[i].next = s->free;
		s->free = &s->slots[i];
	}
	s->poll.done = poll_done;
	s->pause.op.done = pause_done;
	s->tick.op.done = tick_done;
	s->batch.op.done = batch_done;
	serve_clean_init(s);
	serve_fetch_init(s);
	serve_scrub(d);
	serve_batch(d);
	s->watchdog_ns = notify_watchdog_us() * 1000;
	s->ready = true;
	for (i = 0; i < (int)CORE_BACKUPS; i++)
		s->states[i] = core_backup(s->core, (uint32_t)i);
	loop_timer_start(&d->loop, &s->tick, s->watchdog_ns ? 1000000 : TICK_NS);
	d->status.serving = true;
	for (;;) {
		progress = false;
		do {
			if (!s->resumed && core_state(s->core) == CORE_RUNNING)
				begin(s);
			if (!is_ours(s))
				break;
			/* First what callers wait for. What they have written by then is taken
			 * in the same round, without another poll.
			 */
			more = give_acks(s);
			more |= take_events(s);
			more |= start_requests(s);
			more |= serve_fetch(s);
			more |= serve_mend(s);
			progress |= more;
		} while (more && !s->error && core_state(s->core) != CORE_FAILED);
		if (serve_move(s))
			continue;
		if (take_run(d) && !s->stopping)
			serve_move_begin(s);
		if (!s->parked && serve_watch_backups(s))
			continue;
		if (!s->parked && !s->unowned && !s->error && core_state(s->core) != CORE_FAILED)
			serve_clean(s, progress);
		/* A host that takes the store cuts this one off, maybe before etcd has said so. */
		if (s->unowned || s->error || (!serve_move_goes_on(s) && core_state(s->core) == CORE_FAILED) || s->late ||
		    d->signals.stop > 1 || serve_move_is_over(s))
			break;
		if (core_state(s->core) == CORE_STOPPED && !serve_waits_for_backups(s))
			break;
		if (d->signals.stop && !s->stopping && serve_move_stop(s)) {
			begin_stop(s);
			continue;
		}
		if (d->signals.cancel) {
			serve_move_cancel(s);
			continue;
		}
		if (d->signals.ask) {
			serve_move_ask(s);
			continue;
		}
		if (d->signals.dump) {
			d->signals.dump = false;
			dump(s);
		}
		if (!s->parked) {
			arm_batch(s);
			arm(s);
		}
		err = loop_run(&d->loop, s->parked || !serve_fetch_waits(s));
		if (err < 0)
			s->error = err;
	}
	return finish(s);
}
