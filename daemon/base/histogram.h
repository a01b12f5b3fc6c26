/* SPDX-License-Identifier: GPL-2.0 */
/* Counts by powers of two: what core and status keep and metrics tell. */
#ifndef LSMEMD_HISTOGRAM_H
#define LSMEMD_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS	48u

/**
 * struct histogram - how often, and how much together
 * @count: of values up to 2^index and above the one before; the last also larger
 * @sum: of all values
 */
struct histogram {
	uint64_t count[HISTOGRAM_BUCKETS];
	uint64_t sum;
};

static inline void histogram_add(struct histogram *histogram, uint64_t value)
{
	unsigned int index = value > 1 ? 64u - (unsigned int)__builtin_clzll(value - 1) : 0;

	histogram->count[index < HISTOGRAM_BUCKETS ? index : HISTOGRAM_BUCKETS - 1]++;
	histogram->sum += value;
}

#endif
