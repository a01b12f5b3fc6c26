/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads beside the main thread. Like that one they can be below a filesystem on the store: their
 * memory is locked, and their memory allocations never wait for writeback.
 */
#ifndef LSMEMD_THREAD_H
#define LSMEMD_THREAD_H

#include <pthread.h>

int thread_start(pthread_t *thread, void *(*run)(void *context), void *context);
int thread_begin(void);

#endif
