// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: aggregates.
 *
 * Objects lie scattered in memory.  So the values of a column are gathered into a block, as keys: int64_t
 * in the order of the values, whatever their type.  Ranges, minima and maxima, histograms and the top are
 * then the same for all types, and loops over a block are vectorised (kernels.c).  The sum of a block of
 * integers follows from its keys; doubles are made again of their keys, and added without rounding
 * (exact.c).
 *
 * Groups are in a hash table of bounded size.  A group that has no place is an error, not another group:
 * of several threads each may have refused others.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "aggregate.h"

#define GROUPS_DEFAULT	65536u
#define GROUPS_MOST	(1u << 24)
#define TOP_MOST	65536u
#define BOUNDS_MOST	65536u
#define MEASURES_MOST	64u
/* With fewer bounds than this, to compare all values with each is faster than a search for each value. */
#define BOUNDS_FEW	32u

/**
 * struct cell - a measure of the rows of a group
 * @count: values, without NaN
 * @nan: NaN
 * @min: smallest key, if @count is not 0
 * @max: largest key, if @count is not 0
 * @sum: of keys
 * @exact: of doubles; NULL: none was added
 */
struct cell {
	uint64_t count;
	uint64_t nan;
	int64_t min;
	int64_t max;
	__int128 sum;
	struct lsm_exact *exact;
};

/**
 * struct group - rows whose value of the group column is the same
 * @key: of that value; 0 if there is no group column
 * @rows: how many
 */
struct group {
	int64_t key;
	uint64_t rows;
};

/**
 * struct top - one of the largest values
 * @key: of the value, inverted with LSM_SMALLEST
 * @handle: of the object
 * @position: in the column
 */
struct top {
	int64_t key;
	uint64_t handle;
	uint64_t position;
};

/**
 * struct measure - a measure of the question, and what is not kept for each group
 * @column: its values
 * @flags: LSM_SMALLEST
 * @top_max: how many values to keep
 * @nr_top: entries of @top
 * @top: heap, the least on top
 * @nr_bounds: of the histogram
 * @bounds: keys; with LSM_F64 a zero is -0
 * @buckets: nr_bounds + 1 counts
 */
struct measure {
	struct lsm_column column;
	uint32_t flags;
	size_t top_max;
	size_t nr_top;
	struct top *top;
	size_t nr_bounds;
	int64_t *bounds;
	uint64_t *buckets;
};

/* A range of keys. */
struct range {
	struct lsm_column column;
	int64_t low;
	int64_t high;
};

/**
 * struct block - values on their way into a cell
 * @keys: of the values
 * @values: doubles, made of @keys
 * @handles: of the objects, if the top is wanted
 * @positions: in the column, likewise
 * @nr: values
 */
struct block {
	_Alignas(64) int64_t keys[LSM_BLOCK];
	_Alignas(64) double values[LSM_BLOCK];
	uint64_t handles[LSM_BLOCK];
	uint64_t positions[LSM_BLOCK];
	size_t nr;
};

/**
 * struct lsm_aggregate - an aggregate
 * @kernels: for this processor
 * @error: why there is no result; 0: there is
 * @need: shortest object that has all columns
 * @to_end: a column reaches to the end of objects
 * @fed: rows
 * @shorter: of these, too short
 * @selected: of these, in all ranges
 * @ranges: predicates
 * @nr_ranges: how many
 * @measures: of the question
 * @nr_measures: how many
 * @grouped: there is a column @group
 * @group: its value makes the group
 * @groups_max: most groups
 * @nr_groups: entries of @groups
 * @room: for groups in @groups and @cells
 * @groups: all groups
 * @cells: nr_measures for each group
 * @table: hash table: number of a group + 1, or 0
 * @table_size: a power of two, at least twice nr_groups
 * @order: numbers of the groups by their keys; NULL: not sorted yet
 * @block: of lsm_aggregate_feed()
 */
struct lsm_aggregate {
	const struct lsm_kernels *kernels;
	int error;
	uint32_t need;
	bool to_end;
	uint64_t fed;
	uint64_t shorter;
	uint64_t selected;
	struct range *ranges;
	size_t nr_ranges;
	struct measure *measures;
	size_t nr_measures;
	bool grouped;
	struct lsm_column group;
	size_t groups_max;
	size_t nr_groups;
	size_t room;
	struct group *groups;
	struct cell *cells;
	uint32_t *table;
	size_t table_size;
	uint32_t *order;
	struct block *block;
};

/* ---- The question -------------------------------------------------------- */

/* The key of a value that the caller gave. */
static int64_t value_key(uint32_t type, union lsm_value value)
{
	if (type == LSM_U64)
		return value.i64 ^ LSM_SIGN;
	return type == LSM_F64 ? lsm_key_f64(value.i64) : value.i64;
}

/* The key of a bound: a zero is the one that leaves both zeroes on the same side. */
static int64_t bound_key(uint32_t type, union lsm_value value, double zero)
{
	if (type == LSM_F64 && value.f64 == 0)
		value.f64 = zero;
	return value_key(type, value);
}

/* Takes over a column, and the length of objects that have it.  @many: it may have several values. */
static int take_column(struct lsm_aggregate *aggregate, const struct lsm_column *from, bool many,
		       struct lsm_column *column)
{
	uint32_t bytes;
	uint64_t end;

	*column = *from;
	if (column->type < LSM_U32 || column->type > LSM_F64)
		return -EINVAL;
	bytes = lsm_type_bytes(column->type);
	if (!column->nr)
		column->nr = 1;
	if (!column->stride)
		column->stride = bytes;
	if (column->stride < bytes || (column->nr != 1 && !many))
		return -EINVAL;
	end = (uint64_t)column->offset + bytes;
	if (column->nr == LSM_TO_END)
		aggregate->to_end = true;
	else
		end += (uint64_t)(column->nr - 1) * column->stride;
	if (end > LSMEM_OBJECT_MAX)
		return -EINVAL;
	if (end > aggregate->need)
		aggregate->need = (uint32_t)end;
	return 0;
}

static int take_range(struct lsm_aggregate *aggregate, const struct lsm_range *from,
		      struct range *range)
{
	uint32_t type = from->column.type;
	int ret = take_column(aggregate, &from->column, false, &range->column);

	if (ret)
		return ret;
	if (type == LSM_F64 && (isnan(from->low.f64) || isnan(from->high.f64)))
		return -EINVAL;
	range->low = bound_key(type, from->low, -0.0);
	range->high = bound_key(type, from->high, 0.0);
	return 0;
}

static int take_measure(struct lsm_aggregate *aggregate, const struct lsm_measure *from,
			struct measure *measure)
{
	int ret = take_column(aggregate, &from->column, true, &measure->column);
	size_t i;

	if (ret)
		return ret;
	if (from->flags & ~LSM_SMALLEST || from->top > TOP_MOST || from->nr_bounds > BOUNDS_MOST)
		return -EINVAL;
	measure->flags = from->flags;
	measure->top_max = from->top;
	if (from->top) {
		measure->top = malloc(from->top * sizeof(*measure->top));
		if (!measure->top)
			return -ENOMEM;
	}
	if (!from->bounds)
		return 0;
	measure->nr_bounds = from->nr_bounds;
	measure->bounds = malloc((from->nr_bounds + 1) * sizeof(*measure->bounds));
	measure->buckets = calloc(from->nr_bounds + 1, sizeof(*measure->buckets));
	if (!measure->bounds || !measure->buckets)
		return -ENOMEM;
	for (i = 0; i < from->nr_bounds; i++) {
		if (measure->column.type == LSM_F64 && isnan(from->bounds[i].f64))
			return -EINVAL;
		measure->bounds[i] = bound_key(measure->column.type, from->bounds[i], -0.0);
		if (i && measure->bounds[i] < measure->bounds[i - 1])
			return -EINVAL;
	}
	return 0;
}

static int take_question(struct lsm_aggregate *aggregate, const struct lsm_question *question)
{
	size_t i;
	int ret = 0;

	if (question->flags || question->groups_max > GROUPS_MOST || question->nr_measures > MEASURES_MOST)
		return -EINVAL;
	aggregate->groups_max = question->groups_max ? question->groups_max : GROUPS_DEFAULT;
	aggregate->block = aligned_alloc(64, (sizeof(*aggregate->block) + 63) / 64 * 64);
	aggregate->ranges = calloc(question->nr_ranges + 1, sizeof(*aggregate->ranges));
	aggregate->measures = calloc(question->nr_measures + 1, sizeof(*aggregate->measures));
	if (!aggregate->block || !aggregate->ranges || !aggregate->measures)
		return -ENOMEM;
	aggregate->nr_ranges = question->nr_ranges;
	for (i = 0; !ret && i < question->nr_ranges; i++)
		ret = take_range(aggregate, &question->ranges[i], &aggregate->ranges[i]);
	aggregate->nr_measures = question->nr_measures;
	for (i = 0; !ret && i < question->nr_measures; i++)
		ret = take_measure(aggregate, &question->measures[i], &aggregate->measures[i]);
	if (!ret && question->group) {
		aggregate->grouped = true;
		ret = take_column(aggregate, question->group, false, &aggregate->group);
		if (question->group->type == LSM_F64)
			ret = -EINVAL;
	}
	return ret;
}

int lsm_aggregate_create(const struct lsm_question *question, struct lsm_aggregate **out)
{
	struct lsm_aggregate *aggregate = calloc(1, sizeof(*aggregate));
	int ret;

	if (!aggregate)
		return -ENOMEM;
	aggregate->kernels = lsm_kernels_best();
	ret = take_question(aggregate, question);
	if (ret) {
		lsm_aggregate_destroy(aggregate);
		return ret;
	}
	*out = aggregate;
	return 0;
}

void lsm_aggregate_destroy(struct lsm_aggregate *aggregate)
{
	size_t i;

	if (!aggregate)
		return;
	for (i = 0; i < aggregate->nr_groups * aggregate->nr_measures; i++)
		free(aggregate->cells[i].exact);
	for (i = 0; i < aggregate->nr_measures; i++) {
		free(aggregate->measures[i].top);
		free(aggregate->measures[i].bounds);
		free(aggregate->measures[i].buckets);
	}
	free(aggregate->groups);
	free(aggregate->cells);
	free(aggregate->table);
	free(aggregate->order);
	free(aggregate->ranges);
	free(aggregate->measures);
	free(aggregate->block);
	free(aggregate);
}

/**
 * lsm_aggregate_use() - use other loops than those for this processor, for tests
 * @aggregate: aggregate
 * @kernels: loops
 */
void lsm_aggregate_use(struct lsm_aggregate *aggregate, const struct lsm_kernels *kernels)
{
	aggregate->kernels = kernels;
}

/**
 * lsm_aggregate_need() - leave out objects that are too short for its user
 * @aggregate: aggregate to which nothing was fed
 * @bytes: shortest object, at most LSMEM_OBJECT_MAX
 */
void lsm_aggregate_need(struct lsm_aggregate *aggregate, uint32_t bytes)
{
	if (bytes > aggregate->need)
		aggregate->need = bytes;
}

/**
 * lsm_aggregate_prefix() - how many bytes of each object it needs
 * @aggregate: aggregate
 *
 * Return: bytes; 0: all.
 */
uint32_t lsm_aggregate_prefix(const struct lsm_aggregate *aggregate)
{
	return aggregate->to_end ? 0 : aggregate->need ? aggregate->need : 1;
}

/* ---- Groups -------------------------------------------------------------- */

/* The end of MurmurHash3, as of splitmix64: all bits of the key reach the lower ones. */
static size_t hash(int64_t key)
{
	uint64_t z = (uint64_t)key;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (size_t)(z ^ z >> 31);
}

/* Makes room for one more group. */
static int grow(struct lsm_aggregate *aggregate)
{
	size_t room = aggregate->room ? 2 * aggregate->room : 16, size = 2 * room, i, at;
	struct group *groups;
	struct cell *cells;
	uint32_t *table;

	groups = realloc(aggregate->groups, room * sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	aggregate->groups = groups;
	cells = realloc(aggregate->cells, (room * aggregate->nr_measures + 1) * sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	aggregate->cells = cells;
	table = calloc(size, sizeof(*table));
	if (!table)
		return -ENOMEM;
	for (i = 0; i < aggregate->nr_groups; i++) {
		for (at = hash(groups[i].key); table[at & (size - 1)]; at++)
			;
		table[at & (size - 1)] = (uint32_t)i + 1;
	}
	free(aggregate->table);
	aggregate->table = table;
	aggregate->table_size = size;
	aggregate->room = room;
	return 0;
}

/* Finds the group with @key, or makes it.  Return: its number, or a negative errno. */
static ssize_t find_group(struct lsm_aggregate *aggregate, int64_t key)
{
	size_t at, mask = aggregate->table_size - 1, nr = aggregate->nr_groups;
	int ret;

	for (at = hash(key); aggregate->table_size && aggregate->table[at & mask]; at++) {
		uint32_t found = aggregate->table[at & mask] - 1;

		if (aggregate->groups[found].key == key)
			return found;
	}
	if (nr == aggregate->groups_max)
		return -EOVERFLOW;
	if (nr == aggregate->room) {
		ret = grow(aggregate);
		if (ret)
			return ret;
		mask = aggregate->table_size - 1;
		for (at = hash(key); aggregate->table[at & mask]; at++)
			;
	}
	aggregate->table[at & mask] = (uint32_t)nr + 1;
	aggregate->groups[nr] = (struct group){ .key = key };
	memset(&aggregate->cells[nr * aggregate->nr_measures], 0,
	       aggregate->nr_measures * sizeof(*aggregate->cells));
	aggregate->nr_groups++;
	free(aggregate->order);
	aggregate->order = NULL;
	return (ssize_t)nr;
}

/* ---- The top ------------------------------------------------------------- */

/* Is @a to be kept rather than @b? */
static bool above(const struct top *a, const struct top *b)
{
	if (a->key != b->key)
		return a->key > b->key;
	if (a->handle != b->handle)
		return a->handle < b->handle;
	return a->position < b->position;
}

/* Puts @entry, which replaces the root of the heap of @nr entries, in its place. */
static void sift_down(struct top *heap, size_t nr, struct top entry)
{
	size_t at = 0, child;

	while ((child = 2 * at + 1) < nr) {
		if (child + 1 < nr && above(&heap[child], &heap[child + 1]))
			child++;
		if (!above(&entry, &heap[child]))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = entry;
}

static void offer(struct measure *measure, struct top entry)
{
	struct top *heap = measure->top;
	size_t at;

	if (measure->nr_top == measure->top_max) {
		if (above(&entry, &heap[0]))
			sift_down(heap, measure->nr_top, entry);
		return;
	}
	for (at = measure->nr_top++; at && above(&heap[(at - 1) / 2], &entry); at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = entry;
}

static void offer_block(struct measure *measure, const struct block *block)
{
	/* LSM_SMALLEST: keys are in the reverse order. */
	int64_t turn = measure->flags & LSM_SMALLEST ? -1 : 0;
	size_t i;

	for (i = 0; i < block->nr; i++) {
		int64_t key = block->keys[i] ^ turn;

		if (measure->nr_top < measure->top_max || key >= measure->top[0].key)
			offer(measure, (struct top){ key, block->handles[i], block->positions[i] });
	}
}

/* ---- Blocks -------------------------------------------------------------- */

static void count_buckets(const struct lsm_aggregate *aggregate, struct measure *measure,
			  const struct block *block)
{
	size_t i, before, least;

	if (measure->nr_bounds < BOUNDS_FEW) {
		before = block->nr;
		for (i = 0; i < measure->nr_bounds; i++) {
			least = aggregate->kernels->least(block->keys, block->nr, measure->bounds[i]);
			measure->buckets[i] += before - least;
			before = least;
		}
		measure->buckets[i] += before;
		return;
	}
	for (i = 0; i < block->nr; i++) {
		const int64_t *bound = measure->bounds;
		size_t left = measure->nr_bounds;

		/* The first @left bounds from @bound on may be the last that is not above. */
		while (left > 1) {
			bound += bound[left / 2 - 1] <= block->keys[i] ? left / 2 : 0;
			left -= left / 2;
		}
		measure->buckets[bound - measure->bounds + (*bound <= block->keys[i])]++;
	}
}

/* Takes NaN out of the block. */
static uint64_t drop_nan(const struct lsm_kernels *kernels, struct block *block)
{
	const int64_t infinity = 0x7ffll << 52, low = lsm_key_f64(infinity | LSM_SIGN);
	uint64_t found = kernels->outside(block->keys, block->nr, low, infinity);
	size_t i, nr = 0;

	if (!found)
		return 0;
	for (i = 0; i < block->nr; i++) {
		block->keys[nr] = block->keys[i];
		block->handles[nr] = block->handles[i];
		block->positions[nr] = block->positions[i];
		nr += block->keys[i] >= low && block->keys[i] <= infinity;
	}
	block->nr = nr;
	return found;
}

static int add_doubles(const struct lsm_kernels *kernels, struct cell *cell, struct block *block,
		       const struct lsm_fold *fold)
{
	size_t i, nr = 0;

	if (!cell->exact) {
		cell->exact = calloc(1, sizeof(*cell->exact));
		if (!cell->exact)
			return -ENOMEM;
	}
	/* Keys become doubles as doubles become keys. */
	kernels->load(LSM_F64, (const uint8_t *)block->keys, block->nr, (int64_t *)block->values);
	if (isinf(lsm_key_value(LSM_F64, fold->min).f64) || isinf(lsm_key_value(LSM_F64, fold->max).f64)) {
		for (i = 0; i < block->nr; i++) {
			if (isinf(block->values[i]))
				lsm_exact_add(cell->exact, block->values[i]);
			else
				block->values[nr++] = block->values[i];
		}
	} else {
		nr = block->nr;
	}
	kernels->sum(block->values, nr, cell->exact);
	return 0;
}

/* Adds the values of the block to @cell, and empties it. */
static int add_block(struct lsm_aggregate *aggregate, struct measure *measure, struct cell *cell)
{
	const struct lsm_kernels *kernels = aggregate->kernels;
	struct block *block = aggregate->block;
	struct lsm_fold fold;
	int ret = 0;

	if (measure->column.type == LSM_F64)
		cell->nan += drop_nan(kernels, block);
	if (!block->nr)
		return 0;
	kernels->fold(block->keys, block->nr, &fold);
	if (!cell->count || fold.min < cell->min)
		cell->min = fold.min;
	if (!cell->count || fold.max > cell->max)
		cell->max = fold.max;
	cell->count += block->nr;
	if (measure->column.type == LSM_F64)
		ret = add_doubles(kernels, cell, block, &fold);
	else
		cell->sum += (__int128)fold.high * ((__int128)1 << 32) + fold.low;
	if (measure->buckets)
		count_buckets(aggregate, measure, block);
	if (measure->top)
		offer_block(measure, block);
	block->nr = 0;
	return ret;
}

/* Adds one value to a cell: for groups, whose values do not make blocks. */
static int add_value(struct measure *measure, struct cell *cell, int64_t key)
{
	uint32_t type = measure->column.type;

	if (type == LSM_F64 && isnan(lsm_key_value(type, key).f64)) {
		cell->nan++;
		return 0;
	}
	if (!cell->count || key < cell->min)
		cell->min = key;
	if (!cell->count || key > cell->max)
		cell->max = key;
	cell->count++;
	if (type != LSM_F64) {
		cell->sum += key;
		return 0;
	}
	if (!cell->exact) {
		cell->exact = calloc(1, sizeof(*cell->exact));
		if (!cell->exact)
			return -ENOMEM;
	}
	lsm_exact_add(cell->exact, lsm_key_value(type, key).f64);
	return 0;
}

/* ---- Rows ---------------------------------------------------------------- */

/**
 * struct chosen - rows of a batch, at most LSM_BLOCK
 * @rows: of the caller
 * @which: numbers of the chosen rows
 * @groups: of the chosen rows
 * @nr: entries of @which and @groups
 */
struct chosen {
	const struct lsm_row *rows;
	uint32_t which[LSM_BLOCK];
	uint32_t groups[LSM_BLOCK];
	size_t nr;
};

/* Gathers the keys of a column of one value. */
static inline __attribute__((always_inline)) void
gather_type(uint32_t type, uint32_t offset, const struct chosen *chosen, int64_t *keys)
{
	size_t i;

	for (i = 0; i < chosen->nr; i++)
		keys[i] = lsm_key(type, (const uint8_t *)chosen->rows[chosen->which[i]].data + offset);
}

static void gather(const struct lsm_column *column, const struct chosen *chosen, int64_t *keys)
{
	switch (column->type) {
	case LSM_U32:
		return gather_type(LSM_U32, column->offset, chosen, keys);
	case LSM_U64:
		return gather_type(LSM_U64, column->offset, chosen, keys);
	case LSM_I64:
		return gather_type(LSM_I64, column->offset, chosen, keys);
	default:
		return gather_type(LSM_F64, column->offset, chosen, keys);
	}
}

/* Keeps the chosen rows that are in @range. */
static void keep(struct lsm_aggregate *aggregate, const struct range *range, struct chosen *chosen)
{
	const int64_t *keys = aggregate->block->keys;
	size_t i, nr = 0;

	gather(&range->column, chosen, aggregate->block->keys);
	for (i = 0; i < chosen->nr; i++) {
		chosen->which[nr] = chosen->which[i];
		nr += keys[i] >= range->low && keys[i] <= range->high;
	}
	chosen->nr = nr;
}

static int choose_groups(struct lsm_aggregate *aggregate, struct chosen *chosen)
{
	const int64_t *keys = aggregate->block->keys;
	ssize_t found;
	size_t i;

	if (aggregate->grouped)
		gather(&aggregate->group, chosen, aggregate->block->keys);
	for (i = 0; i < chosen->nr; i++) {
		if (!aggregate->grouped && i) {
			aggregate->groups[0].rows++;
			continue;
		}
		found = find_group(aggregate, aggregate->grouped ? keys[i] : 0);
		if (found < 0)
			return (int)found;
		chosen->groups[i] = (uint32_t)found;
		aggregate->groups[found].rows++;
	}
	return 0;
}

static struct cell *cell_of(const struct lsm_aggregate *aggregate, size_t group, size_t measure)
{
	return &aggregate->cells[group * aggregate->nr_measures + measure];
}

/* Adds a measure that has one value in each row. */
static int add_ones(struct lsm_aggregate *aggregate, size_t which, const struct chosen *chosen)
{
	struct measure *measure = &aggregate->measures[which];
	struct block *block = aggregate->block;
	int ret = 0;
	size_t i;

	gather(&measure->column, chosen, block->keys);
	block->nr = chosen->nr;
	for (i = 0; measure->top && i < chosen->nr; i++) {
		block->handles[i] = chosen->rows[chosen->which[i]].handle;
		block->positions[i] = 0;
	}
	if (!aggregate->grouped)
		return add_block(aggregate, measure, cell_of(aggregate, 0, which));
	for (i = 0; !ret && i < chosen->nr; i++)
		ret = add_value(measure, cell_of(aggregate, chosen->groups[i], which), block->keys[i]);
	if (measure->column.type == LSM_F64)
		drop_nan(aggregate->kernels, block);
	if (measure->buckets && block->nr)
		count_buckets(aggregate, measure, block);
	if (measure->top)
		offer_block(measure, block);
	block->nr = 0;
	return ret;
}

/* Adds a measure that has several values in each row. */
static int add_many(struct lsm_aggregate *aggregate, size_t which, const struct chosen *chosen)
{
	struct measure *measure = &aggregate->measures[which];
	const struct lsm_column *column = &measure->column;
	uint32_t bytes = lsm_type_bytes(column->type), nr, i, j, now;
	struct block *block = aggregate->block;
	struct cell *cell = NULL;
	int ret = 0;
	size_t row;

	block->nr = 0;
	for (row = 0; row < chosen->nr; row++) {
		const struct lsm_row *object = &chosen->rows[chosen->which[row]];
		const uint8_t *from = (const uint8_t *)object->data + column->offset;

		cell = cell_of(aggregate, aggregate->grouped ? chosen->groups[row] : 0, which);
		nr = column->nr;
		if (nr == LSM_TO_END)
			nr = (object->length - column->offset - bytes) / column->stride + 1;
		for (i = 0; i < nr; i += now) {
			now = nr - i < LSM_BLOCK - block->nr ? nr - i : (uint32_t)(LSM_BLOCK - block->nr);
			if (column->stride == bytes)
				aggregate->kernels->load(column->type, from + (size_t)i * bytes, now,
							 block->keys + block->nr);
			else
				for (j = 0; j < now; j++)
					block->keys[block->nr + j] =
						lsm_key(column->type, from + (size_t)(i + j) * column->stride);
			for (j = 0; measure->top && j < now; j++) {
				block->handles[block->nr + j] = object->handle;
				block->positions[block->nr + j] = i + j;
			}
			block->nr += now;
			if (block->nr == LSM_BLOCK)
				ret = add_block(aggregate, measure, cell);
			if (ret)
				return ret;
		}
		if (aggregate->grouped)
			ret = add_block(aggregate, measure, cell);
		if (ret)
			return ret;
	}
	return cell ? add_block(aggregate, measure, cell) : 0;
}

/* Chooses those of @nr rows that have all columns and are in all ranges. */
static int choose(struct lsm_aggregate *aggregate, struct chosen *chosen, size_t nr)
{
	size_t i;

	chosen->nr = 0;
	for (i = 0; i < nr; i++) {
		const struct lsm_row *row = &chosen->rows[i];

		if (row->length < aggregate->need) {
			aggregate->shorter++;
			continue;
		}
		if (row->bytes < (aggregate->to_end ? row->length : aggregate->need))
			return -EINVAL;
		chosen->which[chosen->nr++] = (uint32_t)i;
	}
	aggregate->fed += nr;
	for (i = 0; i < aggregate->nr_ranges; i++)
		keep(aggregate, &aggregate->ranges[i], chosen);
	aggregate->selected += chosen->nr;
	return 0;
}

static int feed_some(struct lsm_aggregate *aggregate, struct chosen *chosen, size_t nr)
{
	size_t i;
	int ret;

	ret = choose(aggregate, chosen, nr);
	if (ret || !chosen->nr)
		return ret;
	ret = choose_groups(aggregate, chosen);
	for (i = 0; !ret && i < aggregate->nr_measures; i++) {
		if (aggregate->measures[i].column.nr == 1)
			ret = add_ones(aggregate, i, chosen);
		else
			ret = add_many(aggregate, i, chosen);
	}
	return ret;
}

int lsm_aggregate_feed(struct lsm_aggregate *aggregate, const struct lsm_row *rows, size_t nr)
{
	struct chosen chosen;
	size_t now;

	while (nr && !aggregate->error) {
		now = nr < LSM_BLOCK ? nr : LSM_BLOCK;
		chosen.rows = rows;
		aggregate->error = feed_some(aggregate, &chosen, now);
		rows += now;
		nr -= now;
	}
	return aggregate->error;
}

/**
 * lsm_aggregate_select() - feed rows, and tell which are selected
 * @aggregate: aggregate without an error
 * @rows: objects
 * @nr: at most LSM_BLOCK
 * @which: out: numbers of the rows that are selected
 *
 * Return: how many; as lsm_aggregate_feed().
 */
ssize_t lsm_aggregate_select(struct lsm_aggregate *aggregate, const struct lsm_row *rows, size_t nr,
			     uint32_t *which)
{
	struct chosen chosen = { .rows = rows };

	aggregate->error = feed_some(aggregate, &chosen, nr);
	if (aggregate->error)
		return aggregate->error;
	memcpy(which, chosen.which, chosen.nr * sizeof(*which));
	return (ssize_t)chosen.nr;
}

/* ---- Merging ------------------------------------------------------------- */

static bool same_column(const struct lsm_column *a, const struct lsm_column *b)
{
	return a->type == b->type && a->offset == b->offset && a->nr == b->nr && a->stride == b->stride;
}

static bool same_question(const struct lsm_aggregate *a, const struct lsm_aggregate *b)
{
	size_t i;

	if (a->nr_ranges != b->nr_ranges || a->nr_measures != b->nr_measures ||
	    a->grouped != b->grouped || (a->grouped && !same_column(&a->group, &b->group)))
		return false;
	for (i = 0; i < a->nr_ranges; i++)
		if (!same_column(&a->ranges[i].column, &b->ranges[i].column) ||
		    a->ranges[i].low != b->ranges[i].low || a->ranges[i].high != b->ranges[i].high)
			return false;
	for (i = 0; i < a->nr_measures; i++) {
		const struct measure *one = &a->measures[i], *other = &b->measures[i];

		if (!same_column(&one->column, &other->column) || one->flags != other->flags ||
		    one->top_max != other->top_max || one->nr_bounds != other->nr_bounds ||
		    !one->buckets != !other->buckets ||
		    (one->nr_bounds && memcmp(one->bounds, other->bounds,
					      one->nr_bounds * sizeof(*one->bounds))))
			return false;
	}
	return true;
}

static int merge_cell(struct cell *into, const struct cell *from)
{
	into->nan += from->nan;
	if (from->count && (!into->count || from->min < into->min))
		into->min = from->min;
	if (from->count && (!into->count || from->max > into->max))
		into->max = from->max;
	into->count += from->count;
	into->sum += from->sum;
	if (!from->exact)
		return 0;
	if (!into->exact) {
		into->exact = calloc(1, sizeof(*into->exact));
		if (!into->exact)
			return -ENOMEM;
	}
	lsm_exact_merge(into->exact, from->exact);
	return 0;
}

static int merge(struct lsm_aggregate *into, const struct lsm_aggregate *from)
{
	ssize_t group;
	size_t i, j;
	int ret;

	for (i = 0; i < from->nr_groups; i++) {
		group = find_group(into, from->groups[i].key);
		if (group < 0)
			return (int)group;
		into->groups[group].rows += from->groups[i].rows;
		for (j = 0; j < from->nr_measures; j++) {
			ret = merge_cell(cell_of(into, (size_t)group, j), cell_of(from, i, j));
			if (ret)
				return ret;
		}
	}
	for (i = 0; i < from->nr_measures; i++) {
		struct measure *one = &into->measures[i], *other = &from->measures[i];

		for (j = 0; other->buckets && j <= other->nr_bounds; j++)
			one->buckets[j] += other->buckets[j];
		for (j = 0; j < other->nr_top; j++)
			offer(one, other->top[j]);
	}
	into->fed += from->fed;
	into->shorter += from->shorter;
	into->selected += from->selected;
	return 0;
}

int lsm_aggregate_merge(struct lsm_aggregate *into, const struct lsm_aggregate *from)
{
	if (into == from || !same_question(into, from))
		return -EINVAL;
	if (!into->error)
		into->error = from->error;
	if (!into->error)
		into->error = merge(into, from);
	return into->error;
}

/* ---- Results ------------------------------------------------------------- */

int lsm_aggregate_counts(const struct lsm_aggregate *aggregate, struct lsm_counts *counts)
{
	*counts = (struct lsm_counts){
		.fed = aggregate->fed,
		.shorter = aggregate->shorter,
		.selected = aggregate->selected,
		.groups = aggregate->nr_groups,
	};
	return aggregate->error;
}

static void make_total(uint32_t type, const struct cell *cell, struct lsm_total *total)
{
	__int128 sum = cell->sum;

	memset(total, 0, sizeof(*total));
	total->count = cell->count;
	total->nan = cell->nan;
	if (!cell->count)
		return;
	total->min = lsm_key_value(type, cell->min);
	total->max = lsm_key_value(type, cell->max);
	if (type == LSM_F64) {
		total->sum = lsm_exact_value(cell->exact);
	} else {
		/* Each key is 2^63 less than its value. */
		if (type == LSM_U64)
			sum += (__int128)cell->count << 63;
		total->sum_low = (uint64_t)sum;
		total->sum_high = (int64_t)(sum >> 64);
		total->sum = (double)sum;
	}
	total->average = total->sum / (double)cell->count;
}

int lsm_aggregate_total(const struct lsm_aggregate *aggregate, size_t measure,
			struct lsm_total *total)
{
	struct cell all = { 0 };
	int ret = 0;
	size_t i;

	if (aggregate->error)
		return aggregate->error;
	if (measure >= aggregate->nr_measures)
		return -EINVAL;
	for (i = 0; !ret && i < aggregate->nr_groups; i++)
		ret = merge_cell(&all, cell_of(aggregate, i, measure));
	if (!ret)
		make_total(aggregate->measures[measure].column.type, &all, total);
	free(all.exact);
	return ret;
}

static int compare_groups(const void *a, const void *b, void *groups)
{
	int64_t one = ((const struct group *)groups)[*(const uint32_t *)a].key;
	int64_t other = ((const struct group *)groups)[*(const uint32_t *)b].key;

	return one < other ? -1 : one > other;
}

int lsm_aggregate_group(struct lsm_aggregate *aggregate, size_t group, union lsm_value *value,
			uint64_t *rows, struct lsm_total *totals)
{
	size_t i;

	if (aggregate->error)
		return aggregate->error;
	if (group >= aggregate->nr_groups)
		return -EINVAL;
	if (!aggregate->order) {
		aggregate->order = malloc(aggregate->nr_groups * sizeof(*aggregate->order));
		if (!aggregate->order)
			return -ENOMEM;
		for (i = 0; i < aggregate->nr_groups; i++)
			aggregate->order[i] = (uint32_t)i;
		qsort_r(aggregate->order, aggregate->nr_groups, sizeof(*aggregate->order),
			compare_groups, aggregate->groups);
	}
	group = aggregate->order[group];
	if (value)
		*value = lsm_key_value(aggregate->group.type, aggregate->groups[group].key);
	if (rows)
		*rows = aggregate->groups[group].rows;
	for (i = 0; totals && i < aggregate->nr_measures; i++)
		make_total(aggregate->measures[i].column.type, cell_of(aggregate, group, i), &totals[i]);
	return 0;
}

int lsm_aggregate_histogram(const struct lsm_aggregate *aggregate, size_t measure,
			    uint64_t *buckets)
{
	if (aggregate->error)
		return aggregate->error;
	if (measure >= aggregate->nr_measures || !aggregate->measures[measure].buckets)
		return -EINVAL;
	memcpy(buckets, aggregate->measures[measure].buckets,
	       (aggregate->measures[measure].nr_bounds + 1) * sizeof(*buckets));
	return 0;
}

static int compare_top(const void *a, const void *b)
{
	return above(a, b) ? -1 : above(b, a);
}

ssize_t lsm_aggregate_top(const struct lsm_aggregate *aggregate, size_t which, struct lsm_top *top,
			  size_t nr)
{
	const struct measure *measure;
	struct top *sorted;
	size_t i;

	if (aggregate->error)
		return aggregate->error;
	if (which >= aggregate->nr_measures)
		return -EINVAL;
	measure = &aggregate->measures[which];
	if (nr > measure->nr_top)
		nr = measure->nr_top;
	if (!nr)
		return 0;
	sorted = malloc(measure->nr_top * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, measure->top, measure->nr_top * sizeof(*sorted));
	qsort(sorted, measure->nr_top, sizeof(*sorted), compare_top);
	for (i = 0; i < nr; i++) {
		int64_t key = sorted[i].key ^ (measure->flags & LSM_SMALLEST ? -1 : 0);

		top[i] = (struct lsm_top){
			.value = lsm_key_value(measure->column.type, key),
			.handle = sorted[i].handle,
			.position = sorted[i].position,
		};
	}
	free(sorted);
	return (ssize_t)nr;
}
