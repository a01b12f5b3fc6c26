/* SPDX-License-Identifier: GPL-2.0 */
/* Counts by powers of two. core/ and report/ keep them; the metrics show them. */
#ifndef LSMEMD_HISTOGRAM_H
#define LSMEMD_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS	48u

/**
 * struct histogram - counts of values by size, and their sum
 * @count: of values above 2^(index - 1) and up to 2^index; the first counts 0 and 1, the last also
 *	all larger values
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
