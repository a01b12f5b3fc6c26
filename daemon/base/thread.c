// SPDX-License-Identifier: GPL-2.0
/* Threads: see thread.h. */
#include <errno.h>
#include <malloc.h>
#include <sys/prctl.h>

#include "thread.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

#define STACK_BYTES	(256u << 10)	/* small: all of it is locked in memory */

/**
 * thread_start - start a thread
 * @thread: out
 * @run: must call thread_begin() first
 * @context: for @run
 *
 * The thread inherits the signal mask of the caller, which blocks the signals of signals_open().
 *
 * Return: 0 or a negative errno.
 */
int thread_start(pthread_t *thread, void *(*run)(void *context), void *context)
{
	pthread_attr_t attr;
	int err;

	/* A second arena would reserve 64 MiB of address space, which count as locked. */
	mallopt(M_ARENA_MAX, 1);
	err = pthread_attr_init(&attr);
	if (err)
		return -err;
	err = pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (!err)
		err = pthread_create(thread, &attr, run, context);
	pthread_attr_destroy(&attr);
	return -err;
}

/**
 * thread_begin - mark the calling thread as one that completes I/O
 *
 * Memory allocations of such a thread do not wait for writeback, which would wait for the daemon if
 * a filesystem lies on the store.
 *
 * Context: the first call of a thread; the main thread calls it in prepare().
 * Return: 0 or a negative errno.
 */
int thread_begin(void)
{
	return prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) ? -errno : 0;
}
