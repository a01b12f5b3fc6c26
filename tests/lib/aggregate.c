// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: aggregates against a slow reference, to the bit, for each instruction set that this processor
 * has.  Questions and rows are random: LSMEM_SEED repeats them.
 *
 * The reference knows no keys and no blocks.  It compares values in their types, adds doubles to an integer
 * of 2304 bits, and finds the nearest double by bisection.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "aggregate.h"
#include "../common/random.h"
#include "../common/tap.h"

#if defined(__SANITIZE_THREAD__)
#define QUESTIONS	15	/* one thread, slowly */
#else
#define QUESTIONS	100
#endif
#define ROWS_MAX	4000u
#define LENGTH_MAX	1200u
#define MEASURES	3u
#define PARTS		3u
#define BOUNDS_MAX	80u
#define TOP_MAX		50u
#define GROUPS_MAX	512u

static uint64_t seed;

/* ---- The reference -------------------------------------------------------- */

#define WORDS	72

/* An integer in two's complement, in units of 2^-1074. */
struct big {
	uint32_t words[WORDS];
};

static void big_shift(struct big *big, unsigned int bits)
{
	while (bits--) {
		uint32_t over = 0, next;
		int i;

		for (i = 0; i < WORDS; i++) {
			next = big->words[i] >> 31;
			big->words[i] = big->words[i] << 1 | over;
			over = next;
		}
	}
}

static void big_add(struct big *to, const struct big *from)
{
	uint64_t over = 0;
	int i;

	for (i = 0; i < WORDS; i++) {
		over += (uint64_t)to->words[i] + from->words[i];
		to->words[i] = (uint32_t)over;
		over >>= 32;
	}
}

static void big_negate(struct big *big)
{
	struct big one = { { 1 } };
	int i;

	for (i = 0; i < WORDS; i++)
		big->words[i] = ~big->words[i];
	big_add(big, &one);
}

static bool big_negative(const struct big *big)
{
	return big->words[WORDS - 1] >> 31;
}

static struct big big_from(double value)
{
	struct big big = { { 0 } };
	int exponent, bit;
	uint64_t integer;
	double part = frexp(fabs(value), &exponent);

	integer = (uint64_t)ldexp(part, 53);
	exponent += 1074 - 53;
	/* Of a subnormal the lowest bits are zero. */
	if (exponent < 0) {
		integer >>= -exponent;
		exponent = 0;
	}
	bit = exponent % 32;
	big.words[0] = (uint32_t)integer;
	big.words[1] = (uint32_t)(integer >> 32);
	big_shift(&big, (unsigned int)bit);
	memmove(&big.words[exponent / 32], big.words,
		(size_t)(WORDS - exponent / 32) * sizeof(big.words[0]));
	memset(big.words, 0, (size_t)(exponent / 32) * sizeof(big.words[0]));
	if (value < 0)
		big_negate(&big);
	return big;
}

/* a - b < 0 */
static bool big_below(struct big a, struct big b)
{
	big_negate(&b);
	big_add(&a, &b);
	return big_negative(&a);
}

/* The nearest double, half to even. */
static double big_round(struct big big)
{
	uint64_t low = 0, high = 0x7fefffffffffffffull, middle;
	bool negative = big_negative(&big);
	struct big twice, sum, next;
	double value, above;

	if (negative)
		big_negate(&big);
	/* The largest double that is not above. */
	while (low < high) {
		middle = low + (high - low + 1) / 2;
		memcpy(&value, &middle, sizeof(value));
		if (big_below(big, big_from(value)))
			high = middle - 1;
		else
			low = middle;
	}
	memcpy(&value, &low, sizeof(value));
	sum = big_from(value);
	low++;
	memcpy(&above, &low, sizeof(above));
	/* 2^1024 is infinite, and has its place in the order. */
	next = isinf(above) ? big_from(ldexp(1, 1023)) : big_from(above);
	if (isinf(above))
		big_shift(&next, 1);
	twice = big;
	big_shift(&twice, 1);
	big_add(&sum, &next);
	if (big_below(sum, twice) || (!big_below(twice, sum) && !(low & 1)))
		value = above;
	return negative ? -value : value;
}

/* Is a below b, as the order of minima and maxima has it? */
static bool below(uint32_t type, union lsm_value a, union lsm_value b)
{
	if (type == LSM_F64)
		return a.f64 < b.f64 || (a.f64 == 0 && b.f64 == 0 && signbit(a.f64) && !signbit(b.f64));
	return type == LSM_I64 ? a.i64 < b.i64 : a.u64 < b.u64;
}

/* The same, but zeroes are equal. */
static bool less(uint32_t type, union lsm_value a, union lsm_value b)
{
	return type == LSM_F64 ? a.f64 < b.f64 : below(type, a, b);
}

static union lsm_value value_at(const struct lsm_row *row, const struct lsm_column *column, uint32_t i)
{
	uint32_t bytes = column->type == LSM_U32 ? 4 : 8;
	union lsm_value value = { 0 };

	memcpy(&value, (const char *)row->data + column->offset +
	       (size_t)i * (column->stride ? column->stride : bytes), bytes);
	return value;
}

/* How many values of @column the row has; 0: it is too short. */
static uint32_t values_of(const struct lsm_row *row, const struct lsm_column *column)
{
	uint32_t bytes = column->type == LSM_U32 ? 4 : 8, nr = 0;
	uint32_t stride = column->stride ? column->stride : bytes;
	uint32_t want = column->nr ? column->nr : 1;

	while (nr < want && column->offset + (uint64_t)nr * stride + bytes <= row->length)
		nr++;
	return want == LSM_TO_END || nr == want ? nr : 0;
}

struct expected {
	uint64_t count, nan;
	union lsm_value min, max;
	__int128 sum;
	struct big big;
	bool plus, minus;
};

static void expect_value(uint32_t type, struct expected *expected, union lsm_value value)
{
	struct big big;

	if (type == LSM_F64 && isnan(value.f64)) {
		expected->nan++;
		return;
	}
	if (!expected->count || below(type, value, expected->min))
		expected->min = value;
	if (!expected->count || below(type, expected->max, value))
		expected->max = value;
	expected->count++;
	if (type != LSM_F64) {
		expected->sum += type == LSM_I64 ? (__int128)value.i64 : (__int128)value.u64;
	} else if (isinf(value.f64)) {
		expected->plus |= value.f64 > 0;
		expected->minus |= value.f64 < 0;
	} else {
		big = big_from(value.f64);
		big_add(&expected->big, &big);
	}
}

static bool same_double(double a, double b)
{
	return !memcmp(&a, &b, sizeof(a)) || (isnan(a) && isnan(b));
}

static bool total_right(uint32_t type, const struct expected *expected, const struct lsm_total *total)
{
	double sum;

	CHECK(total->count == expected->count && total->nan == expected->nan);
	CHECK(total->min.u64 == expected->min.u64 && total->max.u64 == expected->max.u64);
	if (type != LSM_F64) {
		CHECK(total->sum_low == (uint64_t)expected->sum);
		CHECK(total->sum_high == (int64_t)(expected->sum >> 64));
		sum = (double)expected->sum;
	} else if (expected->plus || expected->minus) {
		sum = !expected->minus ? (double)INFINITY : !expected->plus ? -(double)INFINITY : (double)NAN;
	} else {
		sum = big_round(expected->big);
		if (sum == 0)
			sum = 0;
	}
	CHECK(same_double(total->sum, sum));
	CHECK(same_double(total->average, expected->count ? sum / (double)expected->count : 0));
	return true;
}

/* ---- Random questions and rows --------------------------------------------- */

struct trial {
	struct lsm_question question;
	struct lsm_range ranges[2];
	struct lsm_measure measures[MEASURES];
	struct lsm_column group;
	union lsm_value bounds[MEASURES][BOUNDS_MAX];
	struct lsm_row *rows;
	uint8_t *bytes;
	size_t nr_rows;
	uint64_t state;
	uint32_t kind;	/* of the values */
};

/* A value in memory: half of the words are small numbers, so that columns of all types have sense. */
static uint64_t random_word(struct trial *trial)
{
	static const double special[] = { 0.0, -0.0, (double)INFINITY, -(double)INFINITY, (double)NAN,
		1.7976931348623157e308, -1.7976931348623157e308, 4.9406564584124654e-324,
		-2.2250738585072014e-308, 1.0, 9007199254740993.0, 1e-300 };
	uint64_t number = random_next(&trial->state), kind = trial->kind, bits;
	double value;

	if (kind == 4)
		kind = number % 4;
	switch (kind) {
	case 0:
		return number;
	case 1:
		return number >> (number & 63);
	case 2:
		/* Of any size. */
		value = ldexp((double)(int64_t)number, (int)random_below(&trial->state, 2000) - 1070);
		break;
	default:
		/* Prices, and now and then something special. */
		value = (double)(int32_t)number / 100;
		if (!random_below(&trial->state, trial->kind == 4 ? 8 : 500))
			value = special[random_below(&trial->state, sizeof(special) / sizeof(*special))];
		break;
	}
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static uint32_t random_type(struct trial *trial)
{
	return LSM_U32 + random_below(&trial->state, 4);
}

static union lsm_value random_value(struct trial *trial, uint32_t type)
{
	union lsm_value value = { random_word(trial) };

	if (type == LSM_U32)
		value.u64 &= UINT32_MAX;
	if (type == LSM_F64 && isnan(value.f64))
		value.f64 = 0;
	return value;
}

static uint32_t compared;

static int compare_values(const void *a, const void *b)
{
	return below(compared, *(union lsm_value *)a, *(union lsm_value *)b) ? -1 :
	       below(compared, *(union lsm_value *)b, *(union lsm_value *)a);
}

static void random_measure(struct trial *trial, struct lsm_measure *measure, union lsm_value *bounds)
{
	uint32_t shape = random_below(&trial->state, 4), type = random_type(trial), i;

	*measure = (struct lsm_measure){ .column = { type, random_below(&trial->state, 60), 0, 0 } };
	if (shape == 1)
		measure->column.nr = 1 + random_below(&trial->state, 100);
	if (shape == 2)
		measure->column.nr = LSM_TO_END;
	if (random_chance(&trial->state, 30))
		measure->column.stride = 8 + random_below(&trial->state, 20);
	if (random_chance(&trial->state, 50))
		measure->top = 1 + random_below(&trial->state, TOP_MAX);
	if (random_chance(&trial->state, 50))
		measure->flags = LSM_SMALLEST;
	if (random_chance(&trial->state, 40))
		return;
	measure->nr_bounds = random_below(&trial->state, BOUNDS_MAX + 1);
	for (i = 0; i < measure->nr_bounds; i++)
		bounds[i] = random_value(trial, type);
	compared = type;
	qsort(bounds, measure->nr_bounds, sizeof(*bounds), compare_values);
	measure->bounds = bounds;
}

static void random_trial(struct trial *trial, uint64_t number)
{
	size_t i, j;

	memset(trial, 0, sizeof(*trial));
	trial->state = seed + number * 1000003;
	trial->kind = number % 5;
	trial->nr_rows = random_below(&trial->state, number % 4 ? ROWS_MAX : 40);
	trial->rows = calloc(trial->nr_rows + 1, sizeof(*trial->rows));
	trial->bytes = malloc(trial->nr_rows * LENGTH_MAX + 1);
	for (i = 0; i < trial->nr_rows; i++) {
		uint32_t length = 1 + random_below(&trial->state, random_chance(&trial->state, 10) ? 60 : LENGTH_MAX);
		/* Without anything behind: a sanitizer sees what is read there in the last row. */
		uint8_t *bytes = trial->bytes + (trial->nr_rows - i) * LENGTH_MAX - length;

		trial->rows[i] = (struct lsm_row){ .handle = random_next(&trial->state), .data = bytes,
						   .bytes = length, .length = length };
		for (j = 0; j < length; j += 8) {
			uint64_t word = random_word(trial);

			memcpy(bytes + j, &word, length - j < 8 ? length - j : 8);
		}
		/* Few groups, so that they have rows. */
		if (length >= 12)
			memcpy(bytes + 4, &(uint64_t){ random_below(&trial->state, 200) - 100ull }, 8);
	}
	trial->question.ranges = trial->ranges;
	trial->question.nr_ranges = random_below(&trial->state, 3);
	for (i = 0; i < trial->question.nr_ranges; i++) {
		uint32_t type = random_type(trial);
		union lsm_value one = random_value(trial, type), other = random_value(trial, type);

		trial->ranges[i] = (struct lsm_range){
			{ type, 8 * random_below(&trial->state, 5), 0, 0 },
			below(type, one, other) ? one : other, below(type, one, other) ? other : one
		};
	}
	trial->question.measures = trial->measures;
	trial->question.nr_measures = random_below(&trial->state, MEASURES + 1);
	for (i = 0; i < trial->question.nr_measures; i++)
		random_measure(trial, &trial->measures[i], trial->bounds[i]);
	if (random_chance(&trial->state, 50)) {
		trial->group = (struct lsm_column){ LSM_U32 + random_below(&trial->state, 3), 4, 0, 0 };
		trial->question.group = &trial->group;
	}
	trial->question.groups_max = GROUPS_MAX;
}

/* ---- Comparing -------------------------------------------------------------- */

/* Is the row left out by a column, and by a range? */
static void judge(const struct trial *trial, const struct lsm_row *row, bool *shorter, bool *in)
{
	const struct lsm_question *question = &trial->question;
	size_t i;

	*shorter = question->group && !values_of(row, question->group);
	*in = true;
	for (i = 0; i < question->nr_measures; i++)
		*shorter |= !values_of(row, &question->measures[i].column);
	for (i = 0; i < question->nr_ranges; i++)
		*shorter |= !values_of(row, &question->ranges[i].column);
	for (i = 0; !*shorter && i < question->nr_ranges; i++) {
		const struct lsm_range *range = &question->ranges[i];
		union lsm_value value = value_at(row, &range->column, 0);

		if (range->column.type == LSM_F64 && isnan(value.f64))
			*in = false;
		else if (less(range->column.type, value, range->low) ||
			 less(range->column.type, range->high, value))
			*in = false;
	}
}

static bool top_before(const struct lsm_measure *measure, const struct lsm_top *a, const struct lsm_top *b)
{
	uint32_t type = measure->column.type;

	if (below(type, a->value, b->value) || below(type, b->value, a->value))
		return below(type, a->value, b->value) == !!(measure->flags & LSM_SMALLEST);
	return a->handle != b->handle ? a->handle < b->handle : a->position < b->position;
}

/* The measure of all rows, and of those of one group if @group. */
static bool measure_right(const struct trial *trial, struct lsm_aggregate *aggregate, size_t which,
			  const union lsm_value *group, const struct lsm_total *total)
{
	const struct lsm_measure *measure = &trial->measures[which];
	uint64_t counted[BOUNDS_MAX + 1] = { 0 }, buckets[BOUNDS_MAX + 1];
	struct lsm_top best[TOP_MAX], top[TOP_MAX], entry;
	uint32_t type = measure->column.type, nr, j;
	struct expected expected = { 0 };
	size_t i, at, nr_best = 0;
	bool shorter, in;

	for (i = 0; i < trial->nr_rows; i++) {
		const struct lsm_row *row = &trial->rows[i];

		judge(trial, row, &shorter, &in);
		if (shorter || !in || (group && value_at(row, &trial->group, 0).u64 != group->u64))
			continue;
		nr = values_of(row, &measure->column);
		for (j = 0; j < nr; j++) {
			entry = (struct lsm_top){ .value = value_at(row, &measure->column, j),
						  .handle = row->handle, .position = j };
			expect_value(type, &expected, entry.value);
			if (type == LSM_F64 && isnan(entry.value.f64))
				continue;
			for (at = 0; at < measure->nr_bounds &&
			     !less(type, entry.value, measure->bounds[at]); at++)
				;
			counted[at]++;
			for (at = nr_best; at && top_before(measure, &entry, &best[at - 1]); at--)
				if (at < measure->top)
					best[at] = best[at - 1];
			if (at < measure->top)
				best[at] = entry;
			nr_best += nr_best < measure->top;
		}
	}
	CHECK(total_right(type, &expected, total));
	if (group)
		return true;
	if (measure->bounds) {
		CHECK(!lsm_aggregate_histogram(aggregate, which, buckets));
		CHECK(!memcmp(buckets, counted, (measure->nr_bounds + 1) * sizeof(*buckets)));
	} else {
		CHECK(lsm_aggregate_histogram(aggregate, which, buckets) == -EINVAL);
	}
	CHECK(lsm_aggregate_top(aggregate, which, top, TOP_MAX) == (ssize_t)nr_best);
	for (i = 0; i < nr_best; i++)
		CHECK(top[i].value.u64 == best[i].value.u64 && top[i].handle == best[i].handle &&
		      top[i].position == best[i].position);
	return true;
}

static bool aggregate_right(const struct trial *trial, struct lsm_aggregate *aggregate)
{
	uint64_t fed = 0, shorts = 0, selected = 0, rows, sum = 0;
	struct lsm_total totals[MEASURES];
	struct lsm_counts counts;
	union lsm_value value, last = { 0 };
	bool shorter, in;
	size_t i, j;

	for (i = 0; i < trial->nr_rows; i++) {
		judge(trial, &trial->rows[i], &shorter, &in);
		fed++;
		shorts += shorter;
		selected += !shorter && in;
	}
	CHECK(!lsm_aggregate_counts(aggregate, &counts));
	CHECK(counts.fed == fed && counts.shorter == shorts && counts.selected == selected);
	for (i = 0; i < trial->question.nr_measures; i++) {
		CHECK(!lsm_aggregate_total(aggregate, i, &totals[0]));
		CHECK(measure_right(trial, aggregate, i, NULL, &totals[0]));
	}
	for (i = 0; trial->question.group && i < counts.groups; i++) {
		CHECK(!lsm_aggregate_group(aggregate, i, &value, &rows, totals));
		CHECK(!i || below(trial->group.type, last, value));
		last = value;
		sum += rows;
		/* All groups of all trials would take minutes. */
		for (j = 0; i % 16 == 0 && j < trial->question.nr_measures; j++)
			CHECK(measure_right(trial, aggregate, j, &value, &totals[j]));
	}
	CHECK(!trial->question.group || sum == selected);
	CHECK(lsm_aggregate_group(aggregate, counts.groups, NULL, NULL, NULL) == -EINVAL);
	return true;
}

/* Feeds rows in batches to some aggregates in turn, and merges them.  Return: NULL: an error. */
static struct lsm_aggregate *answer(struct trial *trial, const struct lsm_kernels *kernels, unsigned int parts)
{
	struct lsm_aggregate *part[PARTS];
	size_t done = 0, now;
	unsigned int i, turn = 0;
	int ret = 0;

	for (i = 0; i < parts; i++) {
		if (lsm_aggregate_create(&trial->question, &part[i]))
			return NULL;
		lsm_aggregate_use(part[i], kernels);
	}
	while (!ret && done < trial->nr_rows) {
		now = 1 + random_below(&trial->state, random_chance(&trial->state, 50) ? 20 : 3000);
		if (now > trial->nr_rows - done)
			now = trial->nr_rows - done;
		ret = lsm_aggregate_feed(part[turn++ % parts], trial->rows + done, now);
		done += now;
	}
	for (i = 1; i < parts; i++) {
		ret = ret ? ret : lsm_aggregate_merge(part[0], part[i]);
		lsm_aggregate_destroy(part[i]);
	}
	if (!ret)
		return part[0];
	tap_note("error %d", ret);
	lsm_aggregate_destroy(part[0]);
	return NULL;
}

static bool trials_right(const struct lsm_kernels *kernels)
{
	struct lsm_aggregate *aggregate;
	struct trial trial;
	uint64_t i;
	bool right;

	for (i = 0; i < QUESTIONS; i++) {
		random_trial(&trial, i);
		aggregate = answer(&trial, kernels, 1 + i % PARTS);
		right = aggregate && aggregate_right(&trial, aggregate);
		lsm_aggregate_destroy(aggregate);
		free(trial.rows);
		free(trial.bytes);
		if (!right) {
			tap_note("question %llu", (unsigned long long)i);
			return false;
		}
	}
	return true;
}

/* ---- Sums of doubles --------------------------------------------------------- */

static bool sums_right(const struct lsm_kernels *kernels)
{
	static const double hard[][4] = {
		{ 1, 1e100, 1, -1e100 }, { 1e308, 1e308, -1e308, 0 }, { 1.7976931348623157e308, 9.9792015476735991e291, 0, 0 },
		{ 1.7976931348623157e308, 9.9792015476735990e291, 0, 0 }, { -0.0, -0.0, 0, 0 },
		{ 4.9406564584124654e-324, 2.2250738585072014e-308, -2.2250738585072009e-308, 0 },
		{ 9007199254740992, 1, 0, 0 }, { 9007199254740994, 1, 0, 0 }, { 9007199254740992, 1, 1e-300, 0 },
		{ -9007199254740992, -1, -1e-300, 0 }, { 1.7976931348623157e308, 1.7976931348623157e308, 0, 0 },
	};
	double values[LSM_BLOCK + 8];
	struct lsm_exact exact;
	uint64_t state = seed;
	struct big big, one;
	size_t i, j, nr;

	for (i = 0; i < 3000; i++) {
		int spread = (int)random_below(&state, 6) * (int)random_below(&state, 400);

		memset(&exact, 0, sizeof(exact));
		memset(&big, 0, sizeof(big));
		nr = i < sizeof(hard) / sizeof(*hard) ? 4 : random_below(&state, i % 50 ? 40 : LSM_BLOCK + 1);
		for (j = 0; j < nr; j++) {
			values[j] = i < sizeof(hard) / sizeof(*hard) ? hard[i][j] :
				    ldexp((double)(int64_t)random_next(&state),
					  (int)random_below(&state, 2 * (uint64_t)spread + 1) - spread - 30);
			if (!isfinite(values[j]))
				values[j] = 1;
			one = big_from(values[j]);
			big_add(&big, &one);
		}
		kernels->sum(values, nr, &exact);
		if (!same_double(lsm_exact_value(&exact), big_round(big) + 0.0)) {
			tap_note("sum %zu of %zu values: %a, not %a", i, nr, lsm_exact_value(&exact), big_round(big));
			return false;
		}
	}
	return true;
}

/* Carries: as many adds as need one, from both sides. */
static bool carries_right(void)
{
	struct lsm_exact exact = { 0 }, all = { 0 };
	int i;

	exact.adds = (1u << 29) - 4;
	for (i = 0; i < 100; i++) {
		lsm_exact_add(&exact, i % 2 ? 0x1.fffffffffffffp+60 : -0x1.fffffffffffffp+30);
		lsm_exact_merge(&all, &exact);
	}
	CHECK(exact.adds < 100);
	CHECK(lsm_exact_value(&exact) == 50 * 0x1.fffffffffffffp+60 - 50 * 0x1.fffffffffffffp+30);
	return lsm_exact_value(&all) > 0;
}

/* Infinities of one sign are the sum, those of both have none. */
static bool infinities_right(void)
{
	struct lsm_exact plus = { 0 }, minus = { 0 };

	lsm_exact_add(&plus, (double)INFINITY);
	lsm_exact_add(&plus, -1);
	lsm_exact_add(&minus, -(double)INFINITY);
	lsm_exact_add(&minus, 1);
	CHECK(lsm_exact_value(&plus) == (double)INFINITY);
	CHECK(lsm_exact_value(&minus) == -(double)INFINITY);
	lsm_exact_merge(&plus, &minus);
	return isnan(lsm_exact_value(&plus));
}

/* ---- Edges -------------------------------------------------------------------- */

static void test_edges(void)
{
	struct lsm_measure measure = { .column = { .type = LSM_U64 } };
	struct lsm_question question = { .measures = &measure, .nr_measures = 1 };
	struct lsm_column group = { .type = LSM_U32 };
	struct lsm_aggregate *aggregate, *other;
	uint64_t most[2] = { UINT64_MAX, UINT64_MAX };
	struct lsm_row row = { .handle = 1, .data = most, .bytes = 16, .length = 16 };
	struct lsm_counts counts;
	struct lsm_total total;
	struct lsm_top top;
	uint32_t i;

#define REFUSED(what, ...) do {								\
	struct lsm_question asked = question;						\
	struct lsm_measure asks = measure;						\
	struct lsm_range range = { .column = { .type = LSM_F64 } };			\
											\
	asked.measures = &asks;								\
	(void)range;									\
	__VA_ARGS__;									\
	tap_is(lsm_aggregate_create(&asked, &aggregate), -EINVAL, "refused: %s", what);	\
} while (0)
	REFUSED("no type", asks.column.type = 0);
	REFUSED("an unknown type", asks.column.type = LSM_F64 + 1);
	REFUSED("a column behind all objects", asks.column.offset = (1u << 20) - 7);
	REFUSED("a column that is too long", asks.column.nr = (1u << 17) + 1);
	REFUSED("a column that overflows", asks.column = (struct lsm_column){ LSM_U32, 4, 0xfffffffe, ~0u });
	REFUSED("values that overlap", asks.column.stride = 7);
	REFUSED("an unknown flag", asks.flags = 2);
	REFUSED("an unknown flag of the question", asked.flags = 1);
	REFUSED("a NaN as a bound", asks.bounds = &(union lsm_value){ .f64 = (double)NAN }; asks.nr_bounds = 1;
		asks.column.type = LSM_F64);
	REFUSED("bounds that descend", asks.bounds = (union lsm_value[]){ { 2 }, { 1 } }; asks.nr_bounds = 2);
	REFUSED("a range with NaN", range.low.f64 = (double)NAN; asked.ranges = &range; asked.nr_ranges = 1);
	REFUSED("a range over an array", range.column.nr = 2; asked.ranges = &range; asked.nr_ranges = 1);
	REFUSED("groups of doubles", asked.group = &range.column);
	REFUSED("too many groups", asked.groups_max = (1u << 24) + 1);

	tap_is(lsm_aggregate_create(&question, &aggregate), 0, "an aggregate");
	tap_ok(!lsm_aggregate_total(aggregate, 0, &total) && !total.count && !total.sum_low && !total.average,
	       "of no rows");
	tap_is(lsm_aggregate_top(aggregate, 0, &top, 1), 0, "no top");
	tap_is(lsm_aggregate_total(aggregate, 1, &total), -EINVAL, "no such measure");
	tap_is(lsm_aggregate_merge(aggregate, aggregate), -EINVAL, "not merged with itself");
	for (i = 0; i < 3; i++)
		lsm_aggregate_feed(aggregate, &row, 1);
	lsm_aggregate_total(aggregate, 0, &total);
	tap_ok(total.sum_low == UINT64_MAX - 2 && total.sum_high == 2 && total.average == 0x1p64,
	       "a sum of more than 64 bits");
	row.bytes = 7;
	row.length = 7;
	tap_is(lsm_aggregate_feed(aggregate, &row, 1), 0, "a short object is left out");
	memset(&counts, 0xff, sizeof(counts));
	lsm_aggregate_counts(aggregate, &counts);
	tap_ok(!counts.reserved[0] && !counts.reserved[3], "reserved members are 0");
	tap_ok(counts.fed == 4 && counts.shorter == 1 && counts.selected == 3, "and counted");
	row.length = 16;
	tap_is(lsm_aggregate_feed(aggregate, &row, 1), -EINVAL, "bytes that are missing are an error");
	tap_is(lsm_aggregate_total(aggregate, 0, &total), -EINVAL, "after which there is no result");
	lsm_aggregate_destroy(aggregate);

	question.group = &group;
	question.groups_max = 2;
	row.bytes = 16;
	lsm_aggregate_create(&question, &aggregate);
	lsm_aggregate_create(&question, &other);
	for (i = 0; i < 4; i++) {
		most[0] = i;
		tap_is(lsm_aggregate_feed(i == 3 ? other : aggregate, &row, 1), i == 2 ? -EOVERFLOW : 0,
		       "group %u of 2", i + 1);
	}
	tap_is(lsm_aggregate_total(aggregate, 0, &total), -EOVERFLOW, "after too many groups there is no result");
	tap_is(lsm_aggregate_merge(other, aggregate), -EOVERFLOW, "nor of what it is merged into");
	lsm_aggregate_destroy(aggregate);
	lsm_aggregate_destroy(other);

	lsm_aggregate_create(&question, &aggregate);
	lsm_aggregate_create(&question, &other);
	for (i = 0; i < 4; i++) {
		most[0] = i;
		lsm_aggregate_feed(i % 2 ? other : aggregate, &row, 1);
	}
	tap_is(lsm_aggregate_merge(other, aggregate), -EOVERFLOW, "two groups and two others are too many");
	lsm_aggregate_destroy(other);
	measure.column.offset = 8;
	lsm_aggregate_create(&question, &other);
	tap_is(lsm_aggregate_merge(other, aggregate), -EINVAL, "another question is not merged");
	lsm_aggregate_destroy(other);
	lsm_aggregate_destroy(aggregate);
	lsm_aggregate_destroy(NULL);
}

/* A range, and the bounds of a histogram, do not tell the two zeroes apart. */
static bool zeroes_equal(void)
{
	static const double zeroes[] = { 0.0, -0.0 };
	uint64_t buckets[2];
	int i, j;

	for (i = 0; i < 2; i++) {
		union lsm_value zero = { .f64 = zeroes[i] };
		struct lsm_range range = { .column = { .type = LSM_F64 }, .low = zero, .high = zero };
		struct lsm_measure measure = { .column = { .type = LSM_F64 }, .bounds = &zero, .nr_bounds = 1 };
		struct lsm_question question = { .ranges = &range, .nr_ranges = 1,
						 .measures = &measure, .nr_measures = 1 };
		struct lsm_aggregate *aggregate;
		struct lsm_total total;

		CHECK(!lsm_aggregate_create(&question, &aggregate));
		for (j = 0; j < 2; j++) {
			struct lsm_row row = { .data = &zeroes[j], .bytes = 8, .length = 8 };

			CHECK(!lsm_aggregate_feed(aggregate, &row, 1));
		}
		CHECK(!lsm_aggregate_total(aggregate, 0, &total));
		CHECK(total.count == 2 && signbit(total.min.f64) && !signbit(total.max.f64));
		CHECK(!signbit(total.sum));
		CHECK(!lsm_aggregate_histogram(aggregate, 0, buckets) && !buckets[0] && buckets[1] == 2);
		lsm_aggregate_destroy(aggregate);
	}
	return true;
}

int main(void)
{
	const char *given = getenv("LSMEM_SEED");
	const struct lsm_kernels *kernels;
	unsigned int level;

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	tap_note("LSMEM_SEED=%llu", (unsigned long long)seed);
	test_edges();
	tap_ok(zeroes_equal(), "zeroes of both signs are equal");
	tap_ok(carries_right(), "carries");
	tap_ok(infinities_right(), "infinities");
	for (level = 0; level < 3; level++) {
		kernels = lsm_kernels_get(level);
		if (!kernels) {
			tap_note("this processor has no instruction set %u", level);
			continue;
		}
		tap_ok(sums_right(kernels), "%s: sums of doubles are exact", kernels->name);
		tap_ok(trials_right(kernels), "%s: %d random questions", kernels->name, QUESTIONS);
	}
	return tap_end();
}
