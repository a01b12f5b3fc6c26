// SPDX-License-Identifier: GPL-2.0
/*
 * Backups that come back while the store is served: lost ones, and those that were missing at the
 * start. To open a backup may wait for a network, and to make it ready takes many writes. So a
 * thread does both, on a loop of its own, and hands over a backup that core_add() can take. Each
 * attempt starts the thread; only the end of the daemon waits for it.
 *
 * The first attempt comes "rejoin =" seconds after a backup is lost, and the next ones at the same
 * intervals. The first wait doubles if the backup is lost again soon after it has joined: it may be
 * slow, and each loss stops the writers for its "timeout =".
 *
 * No attempt begins while a lost backup may still count (CORE_BACKUP_LEAVING). So no durable digest
 * that counts refers to the contents that an attempt overwrites.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <lsmem_format.h>

#include "base/clock.h"
#include "base/log.h"
#include "lsmemd.h"
#include "base/thread.h"

#define LOOP_ENTRIES	64u
#define END_S		2u
#define STEADY_NS	600000000000ull	/* a backup that was used so long waits "rejoin =" again */
#define WAIT_MAX_NS	600000000000ull	/* most that a doubled wait can be */

/**
 * struct attempt - an attempt to open a backup and make it ready, by a thread
 * @thread: the thread
 * @running: the thread was started and not joined yet
 * @over: the thread has ended, or is about to end
 * @stop: the thread must end
 * @d: the daemon
 * @slot: of the backup
 * @index: index that the backup gets in the digest
 * @like: see recover_ready()
 * @log: see recover_ready()
 * @loop: the thread's loop
 * @backup: handed over by the thread, unless @error
 * @recover: handed over by the thread, unless @error
 * @error: why the backup cannot join, a negative errno; the thread's while @running
 * @waits: by slot: when the next attempt is due (0: not set, because the backup was used), the
 *	length of the wait, since when the backup was used, the last error, and if it was logged
 */
static struct attempt {
	pthread_t thread;
	bool running;
	atomic_bool over, stop;
	struct lsmemd *d;
	uint32_t slot, index;
	struct lsmem_super like;
	struct digest_log log;
	struct loop loop;
	struct backup backup;
	struct recover *recover;
	int error;
	struct wait {
		uint64_t due_ns, wait_ns, used_ns;
		int error;
		bool said;
	} waits[LSMEM_BACKUPS];
} attempt;

/* ---- The thread -------------------------------------------------------- */

static int attempt_read(void *context, uint64_t address, void *data, uint32_t length)
{
	struct attempt *a = context;

	return backup_transfer(&a->backup, BACKUP_READ, recover_address_offset(address), data,
			       length);
}

static int attempt_write(void *context, uint64_t address, const void *data, uint32_t length)
{
	struct attempt *a = context;

	if (a->stop)
		return -ECANCELED;
	if (!cluster_holds(&a->d->cluster))
		return -EPERM;
	return backup_transfer(&a->backup, BACKUP_WRITE, recover_address_offset(address),
			       (void *)data, length);
}

static int attempt_flush(void *context, uint32_t slot)
{
	struct attempt *a = context;

	(void)slot;
	return backup_transfer(&a->backup, BACKUP_FLUSH, 0, NULL, 0);
}

static void attempt_report(void *context, enum recover_severity severity, const char *text)
{
	(void)context;
	(void)severity;
	log_notice("%s", text);
}

static int attempt_progress(const char *what, uint64_t done, uint64_t all)
{
	(void)what, (void)done, (void)all;
	return attempt.stop ? -ECANCELED : 0;
}

static int check_blank(const struct recover_env *env, uint32_t slot)
{
	bool blank;
	int err = restore_blank(env, slot, &blank);

	if (err || blank)
		return err;
	log_err("%s: cannot join the others: it has no superblock, but is not blank; make it blank if its contents are not needed",
		env->names[slot]);
	return -EEXIST;
}

static int make_ready(struct attempt *a)
{
	struct recover_env env = {
		.context = a, .backups = a->d->config.nr_backups, .read = attempt_read,
		.write = attempt_write, .flush = attempt_flush, .report = attempt_report,
	};
	struct recover *r;
	uint64_t incarnation;
	int err;

	env.names[a->slot] = a->backup.path;
	env.backup_bytes[a->slot] = a->backup.limits.bytes;
	r = recover_new(&env);
	err = r ? recover_open_slot(r, a->slot) : -ENOMEM;
	if (!err && recover_slot_blank(r, a->slot))
		err = check_blank(&env, a->slot);
	if (!err && !new_incarnation(&incarnation))
		err = -EIO;
	if (!err)
		err = recover_ready(r, a->slot, &a->like, &a->log, incarnation);
	if (err)
		recover_free(r);
	else
		a->recover = r;
	return err;
}

static int attempt_once(struct attempt *a)
{
	const struct kernel *kernel = &a->d->kernel;
	struct backup_options options;
	int err;

	open_options(a->d, a->slot, OPEN_WRITE, &options);
	options.lock_wait = 0;
	options.progress = attempt_progress;
	err = backup_open(&a->backup, &a->loop, &options);
	if (err)
		return err;
	if (a->backup.limits.io_bytes < a->d->io_bytes) {
		log_err("%s: takes requests of at most %" PRIu32 " bytes, and this daemon sends up to %" PRIu32 ": it can join after a restart of the daemon",
			a->backup.path, a->backup.limits.io_bytes, a->d->io_bytes);
		err = -EINVAL;
	}
	if (!err)
		err = make_ready(a);
	if (err) {
		backup_close(&a->backup);
		return err;
	}
	backup_memory(&a->backup, kernel->seglets, kernel->seglets_bytes);
	backup_detach(&a->backup);
	return 0;
}

static void *attempt_run(void *context)
{
	struct attempt *a = context;

	thread_begin();
	log_hush(a->waits[a->slot].said);
	a->error = loop_open(&a->loop, LOOP_ENTRIES);
	if (!a->error) {
		a->error = attempt_once(a);
		loop_close(&a->loop);
	}
	a->over = true;
	return NULL;
}

/* ---- The daemon -------------------------------------------------------- */

static void try_again(struct attempt *a, uint64_t now)
{
	struct wait *wait = &a->waits[a->slot];

	wait->due_ns = now + a->d->config.store.rejoin * 1000000000ull;
	/* If the error is another one than the last, the next attempt logs it. */
	wait->said = !wait->said || wait->error == a->error;
	wait->error = a->error;
}

/* Take over the result of an attempt: if the backup is ready, add it to core. */
static void adopt(struct attempt *a, uint64_t now)
{
	struct lsmemd *d = a->d;
	struct status_backup *status = &d->status.backups[a->slot];

	if (!a->error)
		a->error = backup_move(&d->backups[a->slot], &d->loop, &a->backup);
	if (a->error) {
		snprintf(status->error, STATUS_ERROR_BYTES, "joining: %s", strerror(-a->error));
		try_again(a, now);
		return;
	}
	d->nr_open++;
	if (!core_add(d->core, a->index, recover_slot_super(a->recover, a->slot),
		      config_domain(&d->config, a->slot), recover_past(a->recover, a->slot))) {
		close_backup(d, a->slot);
		try_again(a, now);
		return;
	}
	d->slots[a->index] = a->slot;
	status->index = a->index;
	status->error[0] = 0;
	a->waits[a->slot].due_ns = 0;
	a->waits[a->slot].used_ns = now;
	a->waits[a->slot].said = false;
}

/*
 * Return: a free index in the digest, the backup's former one if possible; LSMEM_BACKUPS: none is
 * free now, or another backup is leaving or joining.
 */
static uint32_t free_index(const struct lsmemd *d, uint32_t slot)
{
	uint32_t index, found = LSMEM_BACKUPS;

	for (index = 0; index < d->config.nr_backups; index++) {
		enum core_backup_state state = core_backup(d->core, index);

		if (state == CORE_BACKUP_LEAVING || state == CORE_BACKUP_JOINING)
			return LSMEM_BACKUPS;
		if (state != CORE_BACKUP_MEMBER &&
		    (d->slots[index] == slot || (found == LSMEM_BACKUPS &&
						 d->slots[index] == LSMEM_BACKUPS)))
			found = index;
	}
	return found;
}

static bool is_due(struct attempt *a, uint32_t slot, uint64_t now)
{
	uint64_t least = a->d->config.store.rejoin * 1000000000ull, wait = a->waits[slot].wait_ns;

	if (a->d->backups[slot].private)
		return false;
	if (a->waits[slot].due_ns)
		return now >= a->waits[slot].due_ns;
	if (!wait || now - a->waits[slot].used_ns >= STEADY_NS)
		wait = least;
	else if (wait < WAIT_MAX_NS)
		wait = wait * 2 < WAIT_MAX_NS ? wait * 2 : WAIT_MAX_NS;
	a->waits[slot].wait_ns = wait;
	a->waits[slot].due_ns = now + wait;
	return false;
}

/**
 * rejoin_tick - take over the result of an attempt, or begin one if one is due
 * @d: the daemon, serving a store on several backups
 * @now: the time, by clock_now_ns()
 */
void rejoin_tick(struct lsmemd *d, uint64_t now)
{
	struct attempt *a = &attempt;
	uint32_t slot;
	bool due;
	int err;

	a->d = d;
	if (a->running && !a->over)
		return;
	if (a->running) {
		pthread_join(a->thread, NULL);
		a->running = false;
		adopt(a, now);
		recover_free(a->recover);
		a->recover = NULL;
		return;
	}
	/* After an accepted loss, a stale backup is kept: the operator may want to read it. */
	if (!d->config.store.rejoin || d->status.losses || core_state(d->core) != CORE_RUNNING)
		return;
	for (slot = 0; slot < d->config.nr_backups; slot++) {
		due = is_due(a, slot, now);
		a->index = due ? free_index(d, slot) : LSMEM_BACKUPS;
		if (a->index == LSMEM_BACKUPS)
			continue;
		a->slot = slot;
		a->like = *core_super(d->core, &a->log);
		a->over = false;
		/* Not into a->error: the thread may have ended already, with its error there. */
		err = thread_start(&a->thread, attempt_run, a);
		a->running = !err;
		if (err) {
			a->error = err;
			try_again(a, now);
		}
		return;
	}
}

/**
 * rejoin_running - is an attempt under way?
 *
 * Its thread reads the configuration.
 *
 * Return: true: yes. false at least once between two attempts: the call of rejoin_tick() that ends
 * one begins no other.
 */
bool rejoin_running(void)
{
	return attempt.running;
}

/**
 * rejoin_stop - end the attempt under way, and begin no other
 *
 * The thread writes nothing more after the request that it waits for.
 */
void rejoin_stop(void)
{
	attempt.stop = true;
}

/**
 * rejoin_end - wait for the thread, at most END_S seconds
 *
 * Context: after rejoin_stop().
 * Return: true: there is no thread; false: the thread still runs, and uses the daemon's memory.
 */
bool rejoin_end(void)
{
	uint64_t end = clock_now_ns() + END_S * 1000000000ull;
	struct timespec until = {
		.tv_sec = (time_t)(end / 1000000000u), .tv_nsec = (long)(end % 1000000000u),
	};

	if (attempt.running)
		attempt.running = pthread_clockjoin_np(attempt.thread, NULL, CLOCK_MONOTONIC,
						       &until);
	return !attempt.running;
}
