/* SPDX-License-Identifier: GPL-2.0 */
/* Repeatable random numbers (xorshift64*). */
#ifndef UNIT_RANDOM_H
#define UNIT_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *r)
{
	r->state ^= r->state >> 12;
	r->state ^= r->state << 25;
	r->state ^= r->state >> 27;
	return r->state * 0x2545f4914f6cdd1dull;
}

static inline void random_seed(struct random *r, uint64_t seed)
{
	r->state = seed * 0x9e3779b97f4a7c15ull + 0x1234567;
	if (!r->state)
		r->state = 1;
	random_next(r);
	random_next(r);
}

/* 0 .. n - 1 */
static inline uint32_t random_below(struct random *r, uint32_t n)
{
	return (random_next(r) >> 33) % n;
}

/* True in @percent of 100 */
static inline bool random_chance(struct random *r, uint32_t percent)
{
	return random_below(r, 100) < percent;
}

#endif
