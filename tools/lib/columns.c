// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: columns of the objects of a scan, as arrays.
 *
 * Each thread of the scan fills a batch of its own, field by field for some rows at a time.  It gives the batch
 * away when the next rows have no place in it.  By then the scan has found that the snapshot stood after the
 * last rows of the batch were read, so that they are right.
 */
#include <errno.h>
#include <stdlib.h>

#include "aggregate.h"
#include "scan.h"

#define ROWS_DEFAULT	65536u
/* Of a batch by default, but for ROWS_DEFAULT: malloc() has the kernel make new pages for larger ones each time */
#define BYTES_DEFAULT	(1u << 20)
#define ROWS_MOST	(1u << 24)
#define ALIGN		64u	/* of arrays: what Arrow recommends */

/**
 * struct gatherer - a thread of the scan
 * @aggregate: chooses rows, and counts them
 * @columns: batch that is not full; NULL: none
 */
struct gatherer {
	struct lsm_aggregate *aggregate;
	struct lsm_columns *columns;
};

/**
 * struct gathering - a scan of columns
 * @gather: what is asked for
 * @rows_max: objects of a batch
 * @threads: of the scan
 * @gatherers: of each thread
 */
struct gathering {
	const struct lsm_gather *gather;
	size_t rows_max;
	uint32_t threads;
	struct gatherer gatherers[LSM_THREADS_MAX];
};

/* Bytes of a field in a batch.  0: there is no such type. */
static uint32_t field_bytes(const struct lsm_field *field)
{
	switch (field->type) {
	case LSM_U32:
	case LSM_U64:
	case LSM_I64:
	case LSM_F64:
		return lsm_type_bytes(field->type);
	case LSM_FIELD_BYTES:
		return field->bytes;
	case LSM_FIELD_HANDLE:
	case LSM_FIELD_VERSION:
		return sizeof(uint64_t);
	case LSM_FIELD_LENGTH:
	case LSM_FIELD_TABLE:
		return sizeof(uint32_t);
	default:
		return 0;
	}
}

/* Is a field one of the object's bytes? */
static bool has_offset(const struct lsm_field *field)
{
	return field->type <= LSM_FIELD_BYTES;
}

/* Checks the fields.  Return: the shortest object that has all of them; -EINVAL. */
static int check_fields(const struct lsm_gather *gather)
{
	uint64_t end, need = 0;
	size_t i;

	if (gather->flags || !gather->batch || !gather->nr_fields || gather->nr_fields > LSM_FIELDS_MAX ||
	    (gather->rows_max && (gather->rows_max < LSM_BATCH || gather->rows_max > ROWS_MOST)))
		return -EINVAL;
	for (i = 0; i < gather->nr_fields; i++) {
		const struct lsm_field *field = &gather->fields[i];

		if (!field_bytes(field) || (field->bytes && field->type != LSM_FIELD_BYTES) ||
		    (field->offset && !has_offset(field)))
			return -EINVAL;
		end = has_offset(field) ? (uint64_t)field->offset + field_bytes(field) : 0;
		if (end > LSMEM_OBJECT_MAX)
			return -EINVAL;
		need = end > need ? end : need;
	}
	return (int)need;
}

static size_t default_rows(const struct lsm_gather *gather)
{
	size_t bytes = 0, rows, i;

	for (i = 0; i < gather->nr_fields; i++)
		bytes += field_bytes(&gather->fields[i]);
	rows = BYTES_DEFAULT / bytes;
	return rows < LSM_BATCH ? LSM_BATCH : rows < ROWS_DEFAULT ? rows : ROWS_DEFAULT;
}

static size_t aligned(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Makes an empty batch, arrays included, in one piece of memory.  NULL: there is none. */
static struct lsm_columns *make_columns(const struct gathering *gathering)
{
	const struct lsm_gather *gather = gathering->gather;
	struct lsm_columns *columns;
	size_t bytes, i;

	bytes = aligned(sizeof(*columns) + gather->nr_fields * sizeof(*columns->data));
	for (i = 0; i < gather->nr_fields; i++)
		bytes += aligned(gathering->rows_max * field_bytes(&gather->fields[i]));
	columns = aligned_alloc(ALIGN, bytes);
	if (!columns)
		return NULL;
	*columns = (struct lsm_columns){ .nr = gather->nr_fields };
	bytes = aligned(sizeof(*columns) + gather->nr_fields * sizeof(*columns->data));
	for (i = 0; i < gather->nr_fields; i++) {
		columns->data[i] = (uint8_t *)columns + bytes;
		bytes += aligned(gathering->rows_max * field_bytes(&gather->fields[i]));
	}
	return columns;
}

void lsm_columns_free(struct lsm_columns *columns)
{
	free(columns);
}

/* Adds a field of some rows to an array, from value @at on. */
static void gather_field(const struct lsm_field *field, void *array, size_t at, const struct lsm_row *rows,
			 const uint32_t *which, size_t nr)
{
	uint8_t *bytes = (uint8_t *)array + at * field->bytes;
	uint64_t *wide = (uint64_t *)array + at;
	uint32_t *half = (uint32_t *)array + at;
	size_t i;

#define FROM(i)	((const uint8_t *)rows[which[i]].data + field->offset)
	switch (field->type) {
	case LSM_U32:
		for (i = 0; i < nr; i++) {
			memcpy(&half[i], FROM(i), sizeof(*half));
			half[i] = __le32_to_cpu(half[i]);
		}
		break;
	case LSM_FIELD_BYTES:
		for (i = 0; i < nr; i++)
			memcpy(bytes + i * field->bytes, FROM(i), field->bytes);
		break;
	case LSM_FIELD_HANDLE:
		for (i = 0; i < nr; i++)
			wide[i] = rows[which[i]].handle;
		break;
	case LSM_FIELD_VERSION:
		for (i = 0; i < nr; i++)
			wide[i] = rows[which[i]].version;
		break;
	case LSM_FIELD_LENGTH:
		for (i = 0; i < nr; i++)
			half[i] = rows[which[i]].length;
		break;
	case LSM_FIELD_TABLE:
		for (i = 0; i < nr; i++)
			half[i] = rows[which[i]].table;
		break;
	default:
		for (i = 0; i < nr; i++) {
			memcpy(&wide[i], FROM(i), sizeof(*wide));
			wide[i] = __le64_to_cpu(wide[i]);
		}
	}
#undef FROM
}

/* Gives the batch of a thread away, if there is one. */
static int give(struct gathering *gathering, unsigned int thread)
{
	struct lsm_columns *columns = gathering->gatherers[thread].columns;

	gathering->gatherers[thread].columns = NULL;
	return columns ? gathering->gather->batch(gathering->gather->context, thread, columns) : 0;
}

static int gather_rows(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	struct gathering *gathering = context;
	struct gatherer *gatherer = &gathering->gatherers[thread];
	const struct lsm_gather *gather = gathering->gather;
	uint32_t which[LSM_BLOCK];
	ssize_t chosen;
	size_t i;
	int ret;

	chosen = lsm_aggregate_select(gatherer->aggregate, rows, nr, which);
	if (chosen <= 0)
		return (int)chosen;
	if (gatherer->columns && (size_t)chosen > gathering->rows_max - gatherer->columns->rows) {
		ret = give(gathering, thread);
		if (ret)
			return ret;
	}
	if (!gatherer->columns)
		gatherer->columns = make_columns(gathering);
	if (!gatherer->columns)
		return -ENOMEM;
	for (i = 0; i < gather->nr_fields; i++)
		gather_field(&gather->fields[i], gatherer->columns->data[i], gatherer->columns->rows, rows,
			     which, (size_t)chosen);
	gatherer->columns->rows += (size_t)chosen;
	return 0;
}

static int make_gatherers(struct gathering *gathering, uint32_t need)
{
	const struct lsm_question question = { .ranges = gathering->gather->ranges,
					       .nr_ranges = gathering->gather->nr_ranges };
	uint32_t i;
	int ret;

	for (i = 0; i < gathering->threads; i++) {
		ret = lsm_aggregate_create(&question, &gathering->gatherers[i].aggregate);
		if (ret)
			return ret;
		lsm_aggregate_need(gathering->gatherers[i].aggregate, need);
	}
	return 0;
}

int lsm_scan_columns(struct lsm *lsm, const struct lsm_scan *scan, const struct lsm_gather *gather,
		     struct lsm_counts *counts, struct lsm_scan_result *result)
{
	struct gathering gathering = { .gather = gather };
	struct gatherer *first = &gathering.gatherers[0];
	struct lsm_scan inner = *scan;
	struct lsm_explain explain;
	uint32_t i;
	int ret, need;

	need = check_fields(gather);
	ret = need < 0 ? need : lsm_scan_explain(lsm, scan, &explain);
	if (ret)
		return ret;
	gathering.rows_max = gather->rows_max ? gather->rows_max : default_rows(gather);
	gathering.threads = explain.threads;
	ret = make_gatherers(&gathering, (uint32_t)need);
	if (!ret) {
		inner.threads = explain.threads;
		inner.prefix = lsm_aggregate_prefix(first->aggregate);
		inner.batch = gather_rows;
		inner.progress = NULL;
		inner.context = &gathering;
		ret = lsm_scan(lsm, &inner, result);
	}
	for (i = 0; i < gathering.threads; i++) {
		if (!ret)
			ret = give(&gathering, i);
		if (!ret && i)
			ret = lsm_aggregate_merge(first->aggregate, gathering.gatherers[i].aggregate);
	}
	if (!ret && counts)
		ret = lsm_aggregate_counts(first->aggregate, counts);
	if (!ret && counts)
		counts->groups = 0;
	for (i = 0; i < gathering.threads; i++) {
		lsm_aggregate_destroy(gathering.gatherers[i].aggregate);
		lsm_columns_free(gathering.gatherers[i].columns);
	}
	return ret;
}
