// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: sums of doubles without rounding.
 *
 * A double is an integer times a power of two.  The accumulator is one integer that is wide enough for
 * all of them (Kulisch; in this form, with chunks that overlap, Neal, "Fast exact summation using small
 * and large superaccumulators", 2015).  The order of additions makes no difference, so neither do
 * threads, plans and instruction sets.  The sum is rounded once, when it is asked for.
 */
#include <math.h>

#include "aggregate.h"

#define MANTISSA_BITS	52
#define CHUNK_BITS	32
/* Each add changes a chunk by less than 2^32, and a carry by less than 2^32. */
#define ADDS_MAX	(1u << 29)

/* Brings all chunks but the last into 0 .. 2^32 - 1: the last has the sign. */
static void carry(struct lsm_exact *exact)
{
	int64_t over = 0;
	int i;

	for (i = 0; i < LSM_EXACT_CHUNKS - 1; i++) {
		over += exact->chunks[i];
		exact->chunks[i] = over & UINT32_MAX;
		over >>= CHUNK_BITS;
	}
	exact->chunks[i] += over;
	exact->adds = 0;
}

/**
 * lsm_exact_add() - add a number
 * @exact: sum
 * @value: not NaN
 */
void lsm_exact_add(struct lsm_exact *exact, double value)
{
	uint64_t bits, mantissa;
	unsigned int exponent, i;
	unsigned __int128 wide;
	int64_t parts[3];

	memcpy(&bits, &value, sizeof(bits));
	mantissa = bits & ((1ull << MANTISSA_BITS) - 1);
	exponent = bits >> MANTISSA_BITS & 0x7ff;
	if (exponent == 0x7ff) {
		exact->infinite |= bits >> 63 ? 2 : 1;
		return;
	}
	if (exponent) {
		mantissa |= 1ull << MANTISSA_BITS;
		exponent--;
	}
	wide = (unsigned __int128)mantissa << exponent % CHUNK_BITS;
	for (i = 0; i < 3; i++)
		parts[i] = (uint32_t)(wide >> i * CHUNK_BITS);
	exponent /= CHUNK_BITS;
	for (i = 0; i < 3; i++)
		exact->chunks[exponent + i] += bits >> 63 ? -parts[i] : parts[i];
	if (++exact->adds == ADDS_MAX)
		carry(exact);
}

/**
 * lsm_exact_merge() - add a sum to another
 * @into: sum
 * @from: sum
 */
void lsm_exact_merge(struct lsm_exact *into, const struct lsm_exact *from)
{
	struct lsm_exact other = *from;
	int i;

	carry(into);
	carry(&other);
	for (i = 0; i < LSM_EXACT_CHUNKS; i++)
		into->chunks[i] += other.chunks[i];
	into->infinite |= other.infinite;
	carry(into);
}

static bool bit(const struct lsm_exact *exact, int at)
{
	return exact->chunks[at / CHUNK_BITS] >> at % CHUNK_BITS & 1;
}

/* Is any bit below @at set? */
static bool any_below(const struct lsm_exact *exact, int at)
{
	int i;

	for (i = 0; i < at / CHUNK_BITS; i++)
		if (exact->chunks[i])
			return true;
	return exact->chunks[i] & ((1ll << at % CHUNK_BITS) - 1);
}

/**
 * lsm_exact_value() - round a sum to the nearest double, half to even
 * @exact: sum
 *
 * Return: the double; infinite if that is what was added, or the sum is too large; NaN if both
 * infinities were added; +0 for a sum of nothing or of zeroes.
 */
double lsm_exact_value(const struct lsm_exact *exact)
{
	struct lsm_exact sum = *exact;
	uint64_t bits = 0, sign = 0;
	int i, top, at;
	double value;

	if (exact->infinite)
		return exact->infinite == 3 ? (double)NAN :
		       exact->infinite == 2 ? -(double)INFINITY : (double)INFINITY;
	carry(&sum);
	if (sum.chunks[LSM_EXACT_CHUNKS - 1] < 0) {
		sign = 1ull << 63;
		for (i = 0; i < LSM_EXACT_CHUNKS; i++)
			sum.chunks[i] = -sum.chunks[i];
		carry(&sum);
	}
	for (i = LSM_EXACT_CHUNKS - 1; i >= 0 && !sum.chunks[i]; i--)
		;
	if (i < 0)
		return 0;
	top = i * CHUNK_BITS + 63 - __builtin_clzll((uint64_t)sum.chunks[i]);
	/* The integer of a number below 2^53 is its representation: subnormal, or with the exponent 1. */
	at = top > MANTISSA_BITS ? top - MANTISSA_BITS : 0;
	for (i = top; i >= at; i--)
		bits = bits << 1 | bit(&sum, i);
	bits += (uint64_t)at << MANTISSA_BITS;
	if (at && bit(&sum, at - 1) && (bits & 1 || any_below(&sum, at - 1)))
		bits++;
	if (at >= 0x7fe || bits >> MANTISSA_BITS >= 0x7ff)
		bits = 0x7ffull << MANTISSA_BITS;
	bits |= sign;
	memcpy(&value, &bits, sizeof(value));
	return value;
}
