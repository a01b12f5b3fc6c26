// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: scans that the caller has go on, batch by batch (lsm_scan_open() and others).
 *
 * lsm_scan() calls its caller's function.  Here it runs in a thread of its own, whose function hands each batch over and
 * waits until the next one is asked for: at any time one of both runs.  So all plans, snapshots and tiers are what they
 * are for lsm_scan().
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "scan.h"

/**
 * struct lsm_cursor - a scan that waits for its caller
 * @scan: what is scanned
 * @run: the scan
 * @thread: that carries it out
 * @lock: protects all that follows
 * @turned: @callers has changed
 * @callers: it is the caller's turn: the thread waits, or has ended
 * @taken: the caller has the batch
 * @over: there are no more batches
 * @stop: the caller wants none
 * @error: once @over is set: of the scan
 * @rows: the batch, while it is the caller's turn
 * @nr: entries of @rows
 */
struct lsm_cursor {
	struct lsm_scan scan;
	struct lsm_run run;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t turned;
	bool callers;
	bool taken;
	bool over;
	bool stop;
	int error;
	const struct lsm_row *rows;
	size_t nr;
};

/* Gives the turn to the other one; under the lock. */
static void turn(struct lsm_cursor *cursor, bool callers)
{
	cursor->callers = callers;
	pthread_cond_signal(&cursor->turned);
}

static void await(struct lsm_cursor *cursor, bool callers)
{
	while (cursor->callers != callers)
		pthread_cond_wait(&cursor->turned, &cursor->lock);
}

static int hand_over(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	struct lsm_cursor *cursor = context;
	int ret;

	(void)thread;
	pthread_mutex_lock(&cursor->lock);
	cursor->rows = rows;
	cursor->nr = nr;
	turn(cursor, true);
	await(cursor, false);
	ret = cursor->stop ? -EINTR : 0;
	pthread_mutex_unlock(&cursor->lock);
	return ret;
}

static void *carry_out(void *argument)
{
	struct lsm_cursor *cursor = argument;
	int ret = lsm_run_all(&cursor->run);

	pthread_mutex_lock(&cursor->lock);
	cursor->error = ret;
	cursor->over = true;
	turn(cursor, true);
	pthread_mutex_unlock(&cursor->lock);
	return NULL;
}

/* Signals are the business of the caller's threads. */
static int start(struct lsm_cursor *cursor)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&cursor->thread, NULL, carry_out, cursor);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -ret;
}

static void release(struct lsm_cursor *cursor)
{
	pthread_cond_destroy(&cursor->turned);
	pthread_mutex_destroy(&cursor->lock);
	pthread_mutex_destroy(&cursor->run.lock);
	free(cursor);
}

int lsm_scan_open(struct lsm *lsm, const struct lsm_scan *scan, struct lsm_cursor **out)
{
	struct lsm_cursor *cursor = calloc(1, sizeof(*cursor));
	int ret;

	if (!cursor)
		return -ENOMEM;
	cursor->scan = *scan;
	cursor->scan.threads = 1;
	cursor->scan.batch = hand_over;
	cursor->scan.progress = NULL;
	cursor->scan.context = cursor;
	cursor->run.lsm = lsm;
	cursor->run.scan = &cursor->scan;
	pthread_mutex_init(&cursor->run.lock, NULL);
	pthread_mutex_init(&cursor->lock, NULL);
	pthread_cond_init(&cursor->turned, NULL);
	ret = start(cursor);
	if (ret) {
		release(cursor);
		return ret;
	}
	/* The version and most errors are known when the first batch is there. */
	pthread_mutex_lock(&cursor->lock);
	await(cursor, true);
	ret = cursor->over ? cursor->error : 0;
	pthread_mutex_unlock(&cursor->lock);
	if (ret) {
		lsm_scan_close(cursor, NULL);
		return ret;
	}
	*out = cursor;
	return 0;
}

ssize_t lsm_scan_next(struct lsm_cursor *cursor, const struct lsm_row **rows)
{
	ssize_t ret;

	pthread_mutex_lock(&cursor->lock);
	if (cursor->taken && !cursor->over) {
		turn(cursor, false);
		await(cursor, true);
	}
	cursor->taken = true;
	*rows = cursor->over ? NULL : cursor->rows;
	ret = cursor->over ? cursor->error : (ssize_t)cursor->nr;
	pthread_mutex_unlock(&cursor->lock);
	return ret;
}

uint64_t lsm_scan_version(const struct lsm_cursor *cursor)
{
	return cursor->run.result.version;
}

void lsm_scan_close(struct lsm_cursor *cursor, struct lsm_scan_result *result)
{
	if (!cursor)
		return;
	pthread_mutex_lock(&cursor->lock);
	cursor->stop = true;
	if (!cursor->over)
		turn(cursor, false);
	pthread_mutex_unlock(&cursor->lock);
	pthread_join(cursor->thread, NULL);
	if (result)
		*result = cursor->run.result;
	release(cursor);
}
