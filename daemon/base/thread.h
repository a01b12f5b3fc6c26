/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads that live as long as the daemon does, below a filesystem as it is: what they have is
 * locked in memory, and they never wait for I/O to make room.
 */
#ifndef LSMEMD_THREAD_H
#define LSMEMD_THREAD_H

#include <pthread.h>

int thread_start(pthread_t *thread, void *(*run)(void *context), void *context);
void thread_begin(void);

#endif
