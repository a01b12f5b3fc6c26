/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Repeatable random numbers: splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
 * number generators", 2014). Any value of the state begins a sequence.
 */
#ifndef TESTS_COMMON_RANDOM_H
#define TESTS_COMMON_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* 0 .. @n - 1; @n up to 2^32 */
static inline uint32_t random_below(uint64_t *state, uint64_t n)
{
	return (random_next(state) >> 32) * n >> 32;
}

/* True in @percent of 100 calls */
static inline bool random_chance(uint64_t *state, uint32_t percent)
{
	return random_below(state, 100) < percent;
}

#endif
