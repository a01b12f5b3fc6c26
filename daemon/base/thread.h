/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads beside the loop's. Like the loop's thread they can be below a filesystem that lies on the
 * store: their memory is locked, and they never wait for writeback to free memory.
 */
#ifndef LSMEMD_THREAD_H
#define LSMEMD_THREAD_H

#include <pthread.h>

int thread_start(pthread_t *thread, void *(*run)(void *context), void *context);
void thread_begin(void);

#endif
