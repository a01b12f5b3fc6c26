/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The clock for measurements and timeouts: CLOCK_MONOTONIC, which is never set and stops while the
 * host is suspended. Leases use CLOCK_BOOTTIME (cluster/cluster.c), which runs during suspension.
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
