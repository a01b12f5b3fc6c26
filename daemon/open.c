// SPDX-License-Identifier: GPL-2.0
/*
 * The backups of a store: opens them, holds them against other daemons, takes them over.
 *
 * If one of several backups cannot be opened, the start goes on without it; recover/ decides if the
 * others are enough. If another daemon holds a backup, the start ends: that daemon may serve the
 * store.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <lsmem_format.h>

#include "base/clock.h"
#include "base/log.h"
#include "lsmemd.h"
#include "base/notify.h"

#define AGAIN_US	100000u	/* --again: between checks for signals */
#define AGAIN_LOOKS	10	/* --again: checks for signals before each attempt */
#define LOOKS		5	/* attempts to read digests while another daemon may write them */
#define WAIT_STEP_MS	1000	/* between attempts of wait_backups() */
#define WAIT_SAY_NS	60000000000ull	/* between its messages */

/* The progress call of backup_open() has no context; a process has one daemon. */
static struct {
	struct lsmemd *d;
	const char *path;
} opening;

static int open_progress(const char *what, uint64_t done, uint64_t all)
{
	static uint64_t said;
	uint64_t now = clock_now_ns();

	signals_poll(&opening.d->signals);
	if (opening.d->signals.stop)
		return -ECANCELED;
	if (opening.d->options.again && now - said >= 1000000000u) {
		said = now;
		notify_send("WATCHDOG=1");
	}
	if (all < 1u << 20 || now - said < 1000000000u)
		return 0;
	said = now;
	log_info("%s: %s %" PRIu64 " of %" PRIu64 " MiB", opening.path, what, done >> 20,
		 all >> 20);
	notify_send("STATUS=Creating %s: %" PRIu64 " of %" PRIu64 " MiB", opening.path,
		    done >> 20, all >> 20);
	return 0;
}

/**
 * open_options - options to open a backup, from the configuration
 * @d: the daemon
 * @slot: of the backup
 * @how: to write, to read, or to read beside another daemon
 * @options: out: all but the term and the progress call
 */
void open_options(const struct lsmemd *d, uint32_t slot, enum open_mode how,
		  struct backup_options *options)
{
	const struct config_backup *c = &d->config.backups[slot];

	*options = (struct backup_options) {
		.path = c->path,
		.bytes = how == OPEN_WRITE ? c->size : 0,
		.create = how == OPEN_WRITE && (d->options.init || d->options.format),
		.lock_wait = c->lock_wait,
		.read_only = how != OPEN_WRITE,
		.beside = how == OPEN_LOOK,
		.key = c->key_line ? c->key : NULL,
		.timeout = c->timeout,
		.receipts = how == OPEN_WRITE && c->ack_memory,
	};
}

/* Close a backup that was opened to be read beside its holder, if it was. */
static void close_look(struct backup *backup)
{
	if (!backup->private || !backup->read_only)
		return;
	backup_close(backup);
	backup->private = NULL;
}

static int open_one(struct lsmemd *d, uint32_t slot, enum open_mode how, uint64_t fence_term)
{
	const struct config_backup *c = &d->config.backups[slot];
	struct backup *backup = &d->backups[slot];
	const struct backup_limits *limits = &backup->limits;
	struct backup_options options;
	int err;

	open_options(d, slot, how, &options);
	options.fence_term = fence_term;
	options.progress = open_progress;
	opening.d = d;
	opening.path = c->path;
	err = backup->private ? backup_hold(backup, &options) : -EOPNOTSUPP;
	if (err) {
		close_look(backup);
		err = backup_open(backup, &d->loop, &options);
	}
	if (err)
		return err;
	log_info("%s: %" PRIu64 " MiB, requests up to %" PRIu32 " KiB, %s, blocks of %" PRIu32 "/%" PRIu32,
		 c->path, limits->bytes >> 20, limits->io_bytes >> 10,
		 limits->volatile_cache ? "volatile cache" : "no volatile cache", limits->logical,
		 limits->physical);
	if (limits->io_bytes >= LSMEM_SEGLET_BYTES)
		return 0;
	log_err("%s: takes requests of at most %" PRIu32 " bytes, %u are needed", c->path,
		limits->io_bytes, LSMEM_SEGLET_BYTES);
	return -EINVAL;
}

static void note_term(struct lsmemd *d, uint64_t term)
{
	if (term > d->term)
		d->term = term;
}

/* Does the error mean that the backup is gone? Other errors need a correction by the operator. */
static bool is_gone(int err)
{
	return err != -EBUSY && err != -ESTALE && err != -ELOOP && err != -EKEYREJECTED &&
	       err != -ECANCELED && err != -EINVAL && err != -ENOMEM;
}

/* Can the backup, or the path to it, be there later? See "wait =". */
static bool is_late(int err)
{
	switch (err) {
	case -ENOENT:
	case -ENODEV:
	case -ENXIO:
	case -ENOMEDIUM:
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ECONNABORTED:
	case -ENOTCONN:
	case -ENETDOWN:
	case -ENETUNREACH:
	case -EHOSTDOWN:
	case -EHOSTUNREACH:
	case -EADDRNOTAVAIL:
	case -ETIMEDOUT:
	case -EAGAIN:
		return true;
	default:
		return false;
	}
}

/**
 * connection_lost - is the store's only backup on another host, and its connection lost?
 * @d: the daemon
 *
 * Return: true: a successor can wait for the backup. false also if the backup's server refuses this
 * daemon: another daemon has fenced it, or the secrets differ.
 */
bool connection_lost(const struct lsmemd *d)
{
	const struct backup *backup = &d->backups[0];

	return d->config.nr_backups == 1 && config_any_remote(&d->config) && backup->private &&
	       backup->error && backup->error != -ESTALE && backup->error != -EKEYREJECTED;
}

/*
 * With --again the store is in memory and its writers wait: try until an attempt succeeds or fails
 * for good, or a signal arrives. A held backup counts as absent: its server may not know yet that
 * the former connection is lost.
 */
static int open_again(struct lsmemd *d, uint32_t slot, enum open_mode how, uint64_t fence_term)
{
	const char *path = d->config.backups[slot].path;
	int err, i;

	log_notice("%s: waiting for it", path);
	do {
		for (i = 0; i < AGAIN_LOOKS && !d->signals.stop; i++) {
			usleep(AGAIN_US);
			signals_poll(&d->signals);
		}
		notify_send("WATCHDOG=1\nSTATUS=Waiting for %s", path);
		err = d->signals.stop ? -ECANCELED : open_one(d, slot, how, fence_term);
		log_hush(true);		/* log the reason of the first failure only */
	} while (err && (is_gone(err) || err == -EBUSY));
	log_hush(false);
	if (!err)
		log_notice("%s: is there again", path);
	return err;
}

/**
 * open_backups - open the backups of the configuration
 * @d: the daemon; @d->nr_open is set. None is open, or OPEN_WRITE follows OPEN_LOOK: then those are held on their connections
 * @how: to write, to read, or to read beside another daemon
 * @fence_term: as in struct backup_options
 *
 * Logs errors.
 *
 * Return: a STATUS_*; STATUS_OK with no open backup: a signal has ended the opening.
 */
int open_backups(struct lsmemd *d, enum open_mode how, uint64_t fence_term)
{
	uint32_t slot;
	int err = 0;

	d->nr_open = 0;
	d->late = false;
	for (slot = 0; slot < d->config.nr_backups; slot++) {
		err = d->options.again && d->config.nr_backups == 1 ?
		      open_again(d, slot, how, fence_term) : open_one(d, slot, how, fence_term);
		d->nr_open += !err;
		note_term(d, err ? 0 : d->backups[slot].limits.term);
		if (!err) {
			d->status.backups[slot].error[0] = 0;
			continue;
		}
		d->late |= is_late(err);
		snprintf(d->status.backups[slot].error, STATUS_ERROR_BYTES, "%s", strerror(-err));
		if (d->config.nr_backups == 1 || !is_gone(err))
			break;
		log_warn("%s: is not there: continuing without it, if the others are enough",
			 d->config.backups[slot].path);
		err = 0;
	}
	for (slot = 0; how == OPEN_WRITE && slot < d->config.nr_backups; slot++)
		close_look(&d->backups[slot]);	/* those behind an error */
	if (!err && !d->nr_open)
		log_err("%s: all its backups are missing", d->options.config_path);
	if (err == -ECANCELED) {
		close_backups(d);
		return STATUS_OK;
	}
	return err == -EBUSY ? STATUS_BUSY :
	       err == -ELOOP || err == -ESTALE || err == -EKEYREJECTED ? STATUS_REFUSED :
	       err || !d->nr_open ? STATUS_ERROR : STATUS_OK;
}

/**
 * close_backup - close a backup, if it is open
 * @d: the daemon
 * @slot: of the backup; no request to it is in flight
 */
void close_backup(struct lsmemd *d, uint32_t slot)
{
	struct backup *backup = &d->backups[slot];

	if (!backup->private)
		return;
	backup_close(backup);
	backup->private = NULL;
	d->nr_open--;
}

/**
 * close_backups - close all backups
 * @d: the daemon; no request to a backup is in flight
 */
void close_backups(struct lsmemd *d)
{
	uint32_t slot;

	for (slot = 0; slot < d->config.nr_backups; slot++)
		close_backup(d, slot);
}

static void look_report(void *context, enum recover_severity severity, const char *text)
{
	(void)severity;
	log_debug("%s: while another daemon may write to it: %s", ((struct lsmemd *)context)->where,
		  text);
}

/*
 * Read, while another daemon may hold the backups: the store's uuid, and the highest term of the
 * holders and the digests. Another daemon that writes meanwhile can make the digests inconsistent:
 * then read them again. Return: a STATUS_*; @full: the backups hold a store.
 */
static int look_beside(struct lsmemd *d, bool *full, uint8_t uuid[LSMEM_UUID_BYTES])
{
	struct recover_env env;
	enum recover_state state;
	struct recover *r;
	int err = -EAGAIN, tries, status;

	*full = false;
	status = open_backups(d, OPEN_LOOK, 0);
	if (status || !d->nr_open)
		return status;
	restore_env(d, &env);
	env.report = look_report;
	for (tries = 0; tries < LOOKS && err && err != -ECANCELED; tries++) {
		r = recover_new(&env);
		if (!r)
			break;
		err = recover_open(r, &state);
		if (!err && state == RECOVER_FULL)
			err = recover_map(r, d->options.accept_missing);
		*full = !err && state == RECOVER_FULL;
		if (*full) {
			memcpy(uuid, recover_super(r)->uuid, LSMEM_UUID_BYTES);
			note_term(d, recover_digest(r)->term);
		}
		recover_free(r);
	}
	close_backups(d);
	/* Without --take-over, opening the backups waits for the holder and logs what is wrong. */
	if (!err || err == -ECANCELED || !d->options.take_over)
		return STATUS_OK;
	log_err("%s: the term cannot be read: %s; nothing was taken over", d->where,
		err == -ENODATA ? "too many backups are missing" : strerror(-err));
	return STATUS_REFUSED;
}

/* Open and hold the backups, and fence their holder if needed. Return: as open_backups(). */
static int hold_backups(struct lsmemd *d)
{
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint64_t term = 0;
	bool full;
	int status;

	if (take_has(d)) {	/* it has looked */
		term = config_any_remote(&d->config) ? d->cluster.term : 0;
	} else if (d->options.take_over || (d->cluster.options && config_any_remote(&d->config))) {
		status = look_beside(d, &full, uuid);
		if (!status && !d->signals.stop && full)
			status = expect_store(d, uuid);
		if (!status && !d->signals.stop && full)
			status = own(d, uuid);
		if (status || d->signals.stop)
			return status;
		/* This daemon owns the store: former owners are fenced. */
		term = d->cluster.known ? d->cluster.term : d->options.take_over ? d->term + 1 : 0;
	}
	if (term)
		log_notice("%s: taking over with term %" PRIu64, d->where, term);
	return open_backups(d, OPEN_WRITE, term);
}

/* ---- Backups that come later ----------------------------------------------- */

/*
 * Can the store be served from the open backups? If not, because a recovery must read more backups
 * or there is no store on these, the start waits for the others.
 */
static bool is_enough(struct lsmemd *d)
{
	struct recover_env env;
	enum recover_state state;
	struct recover *r;
	bool enough;

	if (d->nr_open == d->config.nr_backups)
		return true;
	restore_env(d, &env);
	env.report = look_report;
	r = recover_new(&env);
	enough = r && !recover_open(r, &state) && state == RECOVER_FULL &&
		 !recover_map(r, d->options.accept_missing);
	recover_free(r);
	return enough;
}

/* List the backups that are not open: "a: No such file or directory; b: Connection refused". */
static void name_missing(const struct lsmemd *d, char *text, size_t room)
{
	uint32_t slot;
	size_t n = 0;

	text[0] = 0;
	for (slot = 0; slot < d->config.nr_backups && n < room; slot++)
		if (!d->backups[slot].private)
			n += (size_t)snprintf(text + n, room - n, "%s%s: %s", n ? "; " : "",
					      d->config.backups[slot].path,
					      d->status.backups[slot].error);
}

/* Time to wait for backups. Without "wait =": for ever under a service manager, else not at all. */
static uint64_t wait_ns(const struct lsmemd *d)
{
	const struct options *o = &d->options;
	uint32_t wait = d->config.store.wait;

	if (o->init || o->format)
		return 0;
	if (!d->config.store.wait_line)
		wait = notify_managed() ? CONFIG_FOREVER : 0;
	return wait == CONFIG_FOREVER ? UINT64_MAX : wait * 1000000000ull;
}

/* Wait until a signal arrives, at most WAIT_STEP_MS. */
static void wait_step(struct lsmemd *d)
{
	struct pollfd fd = { .fd = d->signals.fd, .events = POLLIN };

	(void)poll(&fd, 1, WAIT_STEP_MS);
	signals_poll(&d->signals);
}

/**
 * wait_backups - open and hold the backups, and wait for missing ones
 * @d: the daemon
 *
 * Waits for missing files, devices and hosts, for the time of "wait ="; any other error ends the
 * wait. Holds no backup between two attempts. Logs errors.
 *
 * Return: as open_backups(); when the time is over, the result of the last attempt.
 */
int wait_backups(struct lsmemd *d)
{
	uint64_t start = clock_now_ns(), limit = wait_ns(d), now, said = 0;
	char missing[256];
	bool good, over;
	int status;

	for (;;) {
		over = clock_now_ns() - start >= limit;
		log_hush(said && !over);
		status = hold_backups(d);
		good = !status && (d->signals.stop || is_enough(d));
		log_hush(false);
		now = clock_now_ns();
		if (good && said && d->nr_open)
			log_notice("%s: there after %" PRIu64 " s", d->where,
				   (now - start) / 1000000000u);
		if (good || over || !d->late || d->signals.stop)
			return status;
		name_missing(d, missing, sizeof(missing));
		close_backups(d);
		if (!said)
			expect_missing(d);
		if (!said || now - said >= WAIT_SAY_NS) {
			said = now;
			log_notice("waiting for %s", missing);
		}
		notify_send("WATCHDOG=1\nSTATUS=Waiting for %s", missing);
		wait_step(d);
		if (d->signals.stop)
			return STATUS_OK;
	}
}
