/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* liblsmem: what aggregate.c needs of exact.c and kernels.c.  Nothing here is exported. */
#ifndef LSMEM_LIB_AGGREGATE_H
#define LSMEM_LIB_AGGREGATE_H

#include <stdbool.h>

#include <lsmem/lsmem_format.h>

#include "lsmem.h"

/* 2098 bits from the lowest of a subnormal to the highest of a double, and room for carries */
#define LSM_EXACT_CHUNKS	68

/**
 * struct lsm_exact - a sum of doubles without any rounding
 * @chunks: the sum is that of chunks[i] * 2^(32 * i - 1074)
 * @adds: since carries were passed on
 * @infinite: bit 0: +infinity was added; bit 1: -infinity
 */
struct lsm_exact {
	int64_t chunks[LSM_EXACT_CHUNKS];
	uint32_t adds;
	uint32_t infinite;
};

void lsm_exact_add(struct lsm_exact *exact, double value);
void lsm_exact_merge(struct lsm_exact *into, const struct lsm_exact *from);
double lsm_exact_value(const struct lsm_exact *exact);

/* Most values in a call of a kernel.  lsm_kernels.sum relies on it. */
#define LSM_BLOCK	1024u

/**
 * struct lsm_fold - what the values of some blocks have in common
 * @min: smallest key
 * @max: largest key
 * @low: sum of the lower halves of the keys
 * @high: sum of the upper halves, which are signed
 *
 * The sums cannot overflow within LSM_BLOCK values.
 */
struct lsm_fold {
	int64_t min;
	int64_t max;
	int64_t low;
	int64_t high;
};

/**
 * struct lsm_kernels - loops over blocks, for one kind of processor
 * @name: of the instruction set
 * @load: makes keys of @nr values that follow each other
 * @fold: over @nr keys, at least one
 * @outside: how many of @nr keys are not in @low .. @high
 * @least: how many of @nr keys are at least @bound
 * @sum: adds @nr values, none of them infinite or NaN; @values has room up to a multiple of 8, and
 *	is overwritten
 *
 * A key is an int64_t in the order of the values of a type: see lsm_key().  All instruction sets give
 * the same results to the bit: integers are added without overflow, doubles without rounding.
 */
struct lsm_kernels {
	const char *name;
	void (*load)(uint32_t type, const uint8_t *from, size_t nr, int64_t *keys);
	void (*fold)(const int64_t *keys, size_t nr, struct lsm_fold *fold);
	size_t (*outside)(const int64_t *keys, size_t nr, int64_t low, int64_t high);
	size_t (*least)(const int64_t *keys, size_t nr, int64_t bound);
	void (*sum)(double *values, size_t nr, struct lsm_exact *exact);
};

const struct lsm_kernels *lsm_kernels_get(unsigned int level);
const struct lsm_kernels *lsm_kernels_best(void);
void lsm_aggregate_use(struct lsm_aggregate *aggregate, const struct lsm_kernels *kernels);
void lsm_aggregate_need(struct lsm_aggregate *aggregate, uint32_t bytes);
uint32_t lsm_aggregate_prefix(const struct lsm_aggregate *aggregate);
ssize_t lsm_aggregate_select(struct lsm_aggregate *aggregate, const struct lsm_row *rows, size_t nr,
			     uint32_t *which);

/* The key of a double, or its reverse: negative numbers have all bits but the sign inverted. */
static inline int64_t lsm_key_f64(int64_t bits)
{
	return bits ^ (int64_t)((uint64_t)(bits >> 63) >> 1);
}

#define LSM_SIGN	((int64_t)(1ull << 63))

/* The key of a value in memory. */
static inline int64_t lsm_key(uint32_t type, const uint8_t *from)
{
	uint64_t wide;
	uint32_t half;

	if (type == LSM_U32) {
		memcpy(&half, from, sizeof(half));
		return (int64_t)(uint64_t)__le32_to_cpu(half);
	}
	memcpy(&wide, from, sizeof(wide));
	wide = __le64_to_cpu(wide);
	if (type == LSM_U64)
		return (int64_t)wide ^ LSM_SIGN;
	return type == LSM_F64 ? lsm_key_f64((int64_t)wide) : (int64_t)wide;
}

/* The value of a key. */
static inline union lsm_value lsm_key_value(uint32_t type, int64_t key)
{
	union lsm_value value;

	if (type == LSM_U64)
		key ^= LSM_SIGN;
	else if (type == LSM_F64)
		key = lsm_key_f64(key);
	value.i64 = key;
	return value;
}

static inline uint32_t lsm_type_bytes(uint32_t type)
{
	return type == LSM_U32 ? 4 : 8;
}

static inline union lsm_value lsm_value_read(uint32_t type, const uint8_t *from)
{
	return lsm_key_value(type, lsm_key(type, from));
}

static inline void lsm_value_write(uint32_t type, uint8_t *to, union lsm_value value)
{
	__le64 wide = __cpu_to_le64(value.u64);

	/* The lower half comes first. */
	memcpy(to, &wide, lsm_type_bytes(type));
}

/* An integer, so wide that a sum with another does not overflow. */
static inline __int128 lsm_value_wide(uint32_t type, union lsm_value value)
{
	return type == LSM_I64 ? (__int128)value.i64 : (__int128)value.u64;
}

/* The reverse. False: @wide is beyond the type. */
static inline bool lsm_value_set(uint32_t type, __int128 wide, union lsm_value *value)
{
	__int128 low = type == LSM_I64 ? INT64_MIN : 0, high = type == LSM_I64 ? INT64_MAX :
		       type == LSM_U32 ? UINT32_MAX : UINT64_MAX;

	value->i64 = (int64_t)wide;
	return wide >= low && wide <= high;
}

#endif
