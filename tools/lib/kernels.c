// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: loops over blocks of values.
 *
 * Each loop is written once, with vectors of 64 bytes, which the compiler makes of the registers that the
 * instruction set has.  It is then compiled for several instruction sets, one of which is chosen when
 * the program runs.
 */
#include <float.h>

#include "aggregate.h"

/* A vector of LANES values of 8 bytes */
#define VECTOR	__attribute__((vector_size(64)))
#define LANES	8u

static inline __attribute__((always_inline)) void
load_all(uint32_t type, const uint8_t *from, size_t nr, int64_t *keys)
{
	size_t i = 0;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	for (; type != LSM_U32 && i + LANES <= nr; i += LANES) {
		int64_t VECTOR values;

		memcpy(&values, from + i * sizeof(int64_t), sizeof(values));
		if (type == LSM_U64)
			values ^= LSM_SIGN;
		else if (type == LSM_F64)
			values ^= values >> 63 & INT64_MAX;
		memcpy(keys + i, &values, sizeof(values));
	}
#endif
	for (; i < nr; i++)
		keys[i] = lsm_key(type, from + i * lsm_type_bytes(type));
}

static inline __attribute__((always_inline)) void
fold_all(const int64_t *keys, size_t nr, struct lsm_fold *fold)
{
	int64_t VECTOR min = { 0 }, max, low = { 0 }, high = { 0 };
	size_t i, j;

	min += keys[0];
	max = min;
	for (i = 0; i + LANES <= nr; i += LANES) {
		int64_t VECTOR values, less, more;

		memcpy(&values, keys + i, sizeof(values));
		less = values < min;
		more = values > max;
		min = (values & less) | (min & ~less);
		max = (values & more) | (max & ~more);
		low += values & UINT32_MAX;
		high += values >> 32;
	}
	*fold = (struct lsm_fold){ keys[0], keys[0], 0, 0 };
	for (j = 0; j < LANES; j++) {
		fold->min = min[j] < fold->min ? min[j] : fold->min;
		fold->max = max[j] > fold->max ? max[j] : fold->max;
		fold->low += low[j];
		fold->high += high[j];
	}
	for (; i < nr; i++) {
		fold->min = keys[i] < fold->min ? keys[i] : fold->min;
		fold->max = keys[i] > fold->max ? keys[i] : fold->max;
		fold->low += keys[i] & UINT32_MAX;
		fold->high += keys[i] >> 32;
	}
}

static inline __attribute__((always_inline)) size_t
outside_all(const int64_t *keys, size_t nr, int64_t low, int64_t high)
{
	int64_t VECTOR found = { 0 };
	size_t i, sum = 0;

	for (i = 0; i + LANES <= nr; i += LANES) {
		int64_t VECTOR values;

		memcpy(&values, keys + i, sizeof(values));
		/* A comparison that holds is -1. */
		found -= (values < low) | (values > high);
	}
	for (; i < nr; i++)
		sum += keys[i] < low || keys[i] > high;
	for (i = 0; i < LANES; i++)
		sum += (size_t)found[i];
	return sum;
}

static inline __attribute__((always_inline)) size_t
least_all(const int64_t *keys, size_t nr, int64_t bound)
{
	int64_t VECTOR found = { 0 };
	size_t i, sum = 0;

	for (i = 0; i + LANES <= nr; i += LANES) {
		int64_t VECTOR values;

		memcpy(&values, keys + i, sizeof(values));
		found -= values >= bound;
	}
	for (; i < nr; i++)
		sum += keys[i] >= bound;
	for (i = 0; i < LANES; i++)
		sum += (size_t)found[i];
	return sum;
}

/*
 * Rump, Ogita and Oishi, "Accurate floating-point summation", 2008, algorithm 3.3: a power of two that is
 * 2^11 times larger than all values, added and subtracted, cuts the upper bits off each, at the same
 * place.  1024 such parts add up without rounding, in any order, and what is left of each value is exact,
 * too.  After some passes nothing is left.  Values far apart, and those near the ends of the
 * range of exponents, are added one by one.
 */
#define PASSES		4
#define EXPONENT_MIN	(1023 - 900)
#define EXPONENT_MAX	(1023 + 1000)
#define ROOM		12	/* LSM_BLOCK + 2 <= 2^11, and values are below twice their power of two */

_Static_assert(LSM_BLOCK + 2 <= 1u << (ROOM - 1), "values in a block");

static inline __attribute__((always_inline)) void
sum_all(double *values, size_t nr, struct lsm_exact *exact)
{
	size_t i, whole = (nr + LANES - 1) / LANES * LANES;
	int64_t top, bits;
	double sigma;
	int pass;

	for (i = nr; i < whole; i++)
		values[i] = 0;
	/* Elsewhere, x87 for example, additions have more bits than values in memory. */
	for (pass = 0; FLT_EVAL_METHOD == 0 && pass < PASSES; pass++) {
		int64_t VECTOR largest = { 0 };
		double VECTOR sum = { 0 };

		for (i = 0; i < whole; i += LANES) {
			int64_t VECTOR absolute, more;

			memcpy(&absolute, values + i, sizeof(absolute));
			absolute &= INT64_MAX;
			more = absolute > largest;
			largest = (absolute & more) | (largest & ~more);
		}
		for (top = 0, i = 0; i < LANES; i++)
			top = largest[i] > top ? largest[i] : top;
		if (!top)
			return;
		top >>= DBL_MANT_DIG - 1;
		if (top < EXPONENT_MIN || top > EXPONENT_MAX)
			break;
		bits = (top + ROOM) << (DBL_MANT_DIG - 1);
		memcpy(&sigma, &bits, sizeof(sigma));
		for (i = 0; i < whole; i += LANES) {
			double VECTOR part, left;

			memcpy(&left, values + i, sizeof(left));
			part = (left + sigma) - sigma;
			left -= part;
			sum += part;
			memcpy(values + i, &left, sizeof(left));
		}
		for (i = 0; i < LANES; i++)
			lsm_exact_add(exact, sum[i]);
	}
	for (i = 0; i < whole; i++)
		if (values[i] != 0)
			lsm_exact_add(exact, values[i]);
}

/* The loops for one instruction set. */
#define KERNELS(set, title, attributes)							\
static attributes void load_##set(uint32_t type, const uint8_t *from, size_t nr, int64_t *keys)	\
{											\
	if (type == LSM_U32)								\
		load_all(LSM_U32, from, nr, keys);					\
	else if (type == LSM_U64)							\
		load_all(LSM_U64, from, nr, keys);					\
	else if (type == LSM_I64)							\
		load_all(LSM_I64, from, nr, keys);					\
	else										\
		load_all(LSM_F64, from, nr, keys);					\
}											\
static attributes void fold_##set(const int64_t *keys, size_t nr, struct lsm_fold *fold)	\
{											\
	fold_all(keys, nr, fold);							\
}											\
static attributes size_t outside_##set(const int64_t *keys, size_t nr, int64_t low, int64_t high) \
{											\
	return outside_all(keys, nr, low, high);					\
}											\
static attributes size_t least_##set(const int64_t *keys, size_t nr, int64_t bound)	\
{											\
	return least_all(keys, nr, bound);						\
}											\
static attributes void sum_##set(double *values, size_t nr, struct lsm_exact *exact)	\
{											\
	sum_all(values, nr, exact);							\
}											\
static const struct lsm_kernels kernels_##set = {					\
	title, load_##set, fold_##set, outside_##set, least_##set, sum_##set		\
}

KERNELS(plain, "plain", __attribute__((noinline)));

#if defined(__x86_64__)
KERNELS(avx2, "avx2", __attribute__((target("avx2"))));
KERNELS(avx512, "avx512", __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))));
#endif

/**
 * lsm_kernels_get() - the loops for one instruction set
 * @level: 0: any processor; 1, 2 ..: more and more instructions
 *
 * Return: NULL: this processor, or the build, does not have them.
 */
const struct lsm_kernels *lsm_kernels_get(unsigned int level)
{
	if (!level)
		return &kernels_plain;
#if defined(__x86_64__)
	if (level == 1 && __builtin_cpu_supports("avx2"))
		return &kernels_avx2;
	if (level == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
		return &kernels_avx512;
#endif
	return NULL;
}

/**
 * lsm_kernels_best() - the loops for this processor
 */
const struct lsm_kernels *lsm_kernels_best(void)
{
	unsigned int level = 2;

	while (!lsm_kernels_get(level))
		level--;
	return lsm_kernels_get(level);
}
