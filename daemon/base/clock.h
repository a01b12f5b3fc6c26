/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The clock of all that is measured and bounded here: it is never set, and stands still while
 * the host sleeps.  A lease, which goes on meanwhile, has another one (cluster.c).
 */
#ifndef LSMEMD_CLOCK_H
#define LSMEMD_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_now_ms(void)
{
	return clock_now_ns() / 1000000;
}

#endif
