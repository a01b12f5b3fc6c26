// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: spreads, which change a value in each of many objects.
 *
 * As the disaggregation of C. Tinnefeld and H. Plattner, "Deploying Enterprise Applications on RAMCloud", without
 * its server: an exact scan lists the objects that are selected with their versions, and sums their
 * weights.  The snapshot is over then, so that what is replaced is not kept back.
 * Each object is read again, in the order of memory, and replaced if it has the version that the list has.
 */
#include <errno.h>
#include <stdlib.h>

#include "aggregate.h"
#include "scan.h"

#define MANY		64u	/* objects of a vector */
#define ROW_BYTES	2048u	/* room for one of them; larger ones are replaced alone */

/* An object that is to be changed. */
struct listed {
	uint64_t handle;
	uint64_t version;
};

/**
 * struct lister - a thread of the scan
 * @aggregate: selects, and sums weights
 * @listed: what is selected
 * @nr: entries of @listed
 * @room: for so many
 */
struct lister {
	struct lsm_aggregate *aggregate;
	struct listed *listed;
	size_t nr;
	size_t room;
};

/**
 * struct spreading - a spread that is under way
 * @lsm: store
 * @spread: what is asked for
 * @listers: threads of the scan
 * @nr: how many
 * @report: so far
 * @given: of doubles: the sum of their shares
 * @rows: MANY times ROW_BYTES
 * @big: for an object that is larger; NULL: not needed yet
 */
struct spreading {
	struct lsm *lsm;
	const struct lsm_spread *spread;
	struct lister listers[LSM_THREADS_MAX];
	uint32_t nr;
	struct lsm_spread_report report;
	struct lsm_exact given;
	uint8_t *rows;
	uint8_t *big;
};

/**
 * struct share - what becomes of an object
 * @integer: share of an integer
 * @real: share of a double
 */
struct share {
	int64_t integer;
	double real;
};

/* ---- Values ---------------------------------------------------------------- */

static bool is_real(const struct spreading *spreading)
{
	return spreading->spread->column.type == LSM_F64;
}

static union lsm_value read_value(const struct lsm_column *column, const uint8_t *object)
{
	return lsm_value_read(column->type, object + column->offset);
}

static double as_double(uint32_t type, union lsm_value value)
{
	if (type == LSM_F64)
		return value.f64;
	return type == LSM_I64 ? (double)value.i64 : (double)value.u64;
}

/* Changes a double. False: it is no number, or the new one is not finite. */
static bool change_real(const struct spreading *spreading, const uint8_t *object, union lsm_value *value,
			struct share *share)
{
	const struct lsm_spread *spread = spreading->spread;
	double weight = 1;

	switch (spread->how) {
	case LSM_SPREAD_SET:
		value->f64 = spread->amount.f64;
		return true;
	case LSM_SPREAD_SCALE:
		value->f64 *= spread->factor;
		break;
	case LSM_SPREAD_SHARE:
		if (spread->weight)
			weight = as_double(spread->weight->type, read_value(spread->weight, object));
		share->real = spread->amount.f64 * (weight / spreading->report.weights.f64);
		value->f64 += share->real;
		break;
	default:
		value->f64 += spread->amount.f64;
	}
	return __builtin_isfinite(value->f64);
}

/* Changes an integer. False: the new one is beyond the type. */
static bool change_integer(const struct spreading *spreading, const uint8_t *object, union lsm_value *value,
			   struct share *share)
{
	const struct lsm_spread *spread = spreading->spread;
	uint32_t type = spread->column.type;
	__int128 now = lsm_value_wide(type, *value);
	uint64_t weight = 1;
	long double scaled;

	switch (spread->how) {
	case LSM_SPREAD_SET:
		*value = spread->amount;
		return true;
	case LSM_SPREAD_SCALE:
		scaled = (long double)now * (long double)spread->factor;
		if (!(scaled > -0x1p65L && scaled < 0x1p65L))
			return false;
		now = (__int128)(scaled + (scaled < 0 ? -0.5L : 0.5L));
		break;
	case LSM_SPREAD_SHARE:
		if (spread->weight)
			weight = read_value(spread->weight, object).u64;
		share->integer = (int64_t)((__int128)spread->amount.i64 * weight /
					   (__int128)spreading->report.weights.u64);
		now += share->integer;
		break;
	default:
		now += spread->amount.i64;
	}
	return lsm_value_set(type, now, value);
}

/* Changes an object in memory. False: it is to stay as it is. */
static bool change(const struct spreading *spreading, uint8_t *object, struct share *share)
{
	const struct lsm_column *column = &spreading->spread->column;
	union lsm_value value = read_value(column, object);

	*share = (struct share){ 0 };
	if (!(is_real(spreading) ? change_real : change_integer)(spreading, object, &value, share))
		return false;
	lsm_value_write(column->type, object + column->offset, value);
	return true;
}

/* ---- Which objects ---------------------------------------------------------- */

static int list_rows(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	struct spreading *spreading = context;
	struct lister *lister = &spreading->listers[thread];
	uint32_t which[LSM_BLOCK];
	struct listed *more;
	ssize_t chosen;
	size_t room;
	ssize_t i;

	chosen = lsm_aggregate_select(lister->aggregate, rows, nr, which);
	if (chosen < 0)
		return (int)chosen;
	if (lister->nr + (size_t)chosen > lister->room) {
		room = lister->room ? 2 * lister->room : 4 * LSM_BLOCK;
		more = realloc(lister->listed, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		lister->listed = more;
		lister->room = room;
	}
	for (i = 0; i < chosen; i++)
		lister->listed[lister->nr++] = (struct listed){ rows[which[i]].handle, rows[which[i]].version };
	return 0;
}

static int make_listers(struct spreading *spreading, uint32_t nr)
{
	const struct lsm_spread *spread = spreading->spread;
	struct lsm_measure measures[2] = { { .column = spread->column } };
	struct lsm_question question = { .ranges = spread->ranges, .nr_ranges = spread->nr_ranges,
					 .measures = measures, .nr_measures = 1 };
	int ret = 0;

	if (spread->how == LSM_SPREAD_SHARE && spread->weight) {
		measures[1].column = *spread->weight;
		question.nr_measures = 2;
	}
	for (; !ret && spreading->nr < nr; spreading->nr += !ret)
		ret = lsm_aggregate_create(&question, &spreading->listers[spreading->nr].aggregate);
	return ret;
}

static bool is_negative(uint32_t type, union lsm_value value)
{
	return type == LSM_F64 ? value.f64 < 0 : type == LSM_I64 && value.i64 < 0;
}

/* The sum of all weights. */
static int sum_weights(struct spreading *spreading, const struct lsm_aggregate *all)
{
	const struct lsm_spread *spread = spreading->spread;
	struct lsm_spread_report *report = &spreading->report;
	struct lsm_total total;
	int ret;

	if (spread->version) {
		report->weights = spread->weights;
	} else if (!spread->weight) {
		report->weights.u64 = report->selected;
		if (is_real(spreading))
			report->weights.f64 = (double)report->selected;
	} else {
		ret = lsm_aggregate_total(all, 1, &total);
		if (ret)
			return ret;
		if (total.nan || (total.count && is_negative(spread->weight->type, total.min)))
			return -EDOM;
		if (!is_real(spreading) && total.sum_high)
			return -EOVERFLOW;
		report->weights.u64 = total.sum_low;
		if (is_real(spreading))
			report->weights.f64 = total.sum;
	}
	if (is_real(spreading))
		return __builtin_isfinite(report->weights.f64) && report->weights.f64 > 0 ? 0 : -EDOM;
	return report->weights.u64 ? 0 : -EDOM;
}

static int list_objects(struct spreading *spreading, const struct lsm_scan *scan)
{
	const struct lsm_spread *spread = spreading->spread;
	struct lister *listers = spreading->listers;
	struct lsm_scan inner = *scan;
	struct lsm_scan_result result;
	struct lsm_explain explain;
	struct lsm_counts counts;
	uint32_t i;
	int ret;

	inner.plan = LSM_PLAN_AUTO;
	inner.flags = LSM_SCAN_EXACT;
	if (spread->version && (!inner.version_max || inner.version_max > spread->version))
		inner.version_max = spread->version;
	ret = lsm_scan_explain(spreading->lsm, &inner, &explain);
	if (!ret)
		ret = make_listers(spreading, explain.threads);
	if (ret)
		return ret;
	inner.threads = explain.threads;
	inner.prefix = lsm_aggregate_prefix(listers[0].aggregate);
	inner.batch = list_rows;
	inner.progress = NULL;
	inner.context = spreading;
	ret = lsm_scan(spreading->lsm, &inner, &result);
	for (i = 1; !ret && i < spreading->nr; i++)
		ret = lsm_aggregate_merge(listers[0].aggregate, listers[i].aggregate);
	if (!ret)
		ret = lsm_aggregate_counts(listers[0].aggregate, &counts);
	if (ret)
		return ret;
	spreading->report.version = spread->version ? spread->version : result.version;
	spreading->report.selected = counts.selected;
	spreading->report.shorter = counts.shorter;
	if (spread->how != LSM_SPREAD_SHARE || !counts.selected)
		return 0;
	return sum_weights(spreading, listers[0].aggregate);
}

/* ---- Changes ------------------------------------------------------------------ */

/* Counts what has become of an object.  Return: 0, or an error that ends the spread. */
static int count(struct spreading *spreading, int result, const struct share *share)
{
	struct lsm_spread_report *report = &spreading->report;

	switch (result) {
	case 0:
		report->changed++;
		if (is_real(spreading))
			lsm_exact_add(&spreading->given, share->real);
		else
			report->given.i64 += share->integer;
		return 0;
	case -EILSEQ:
		report->lost++;
		return 0;
	case -ENOENT:
	case -ESTALE:
		report->gone++;
		return 0;
	default:
		return result;
	}
}

/* Changes an object that is larger than ROW_BYTES. */
static int change_big(struct spreading *spreading, const struct listed *listed)
{
	uint64_t version = listed->version;
	struct lsm_object object;
	struct share share;
	ssize_t bytes;

	if (!spreading->big) {
		spreading->big = malloc(LSMEM_OBJECT_MAX);
		if (!spreading->big)
			return -ENOMEM;
	}
	bytes = lsm_read(spreading->lsm, listed->handle, spreading->big, LSMEM_OBJECT_MAX, 0, &object);
	if (bytes < 0)
		return count(spreading, (int)bytes, NULL);
	if (object.version != version)
		return count(spreading, -EILSEQ, NULL);
	if (!change(spreading, spreading->big, &share)) {
		spreading->report.beyond++;
		return 0;
	}
	return count(spreading, lsm_replace(spreading->lsm, listed->handle, spreading->big, (uint32_t)bytes,
					    (spreading->spread->flags & LSM_DURABLE) | LSM_EXPECT, &version), &share);
}

/*
 * Replaces objects as one group.  One that has lost a race is left out and counted, and the others are tried again.
 * @tried: out: those that are replaced, the first of @ops
 */
static int replace_group(struct spreading *spreading, struct lsmem_op *ops, struct share *shares, size_t nr,
			 size_t *tried)
{
	size_t failed;
	int ret;

	for (*tried = 0; nr; nr--) {
		ret = lsm_vector(spreading->lsm, ops, nr, spreading->spread->flags, tried);
		for (failed = 0; ret && failed < nr && ops[failed].result != ret; failed++)
			;
		if (!ret || failed == nr)
			return ret;
		ret = count(spreading, ret, NULL);
		if (ret)
			return ret;
		memmove(ops + failed, ops + failed + 1, (nr - failed - 1) * sizeof(*ops));
		memmove(shares + failed, shares + failed + 1, (nr - failed - 1) * sizeof(*shares));
	}
	return 0;
}

/* Changes up to MANY objects. */
static int change_some(struct spreading *spreading, const struct listed *listed, size_t nr)
{
	struct lsmem_op reads[MANY], ops[MANY];
	struct share shares[MANY];
	size_t i, made = 0, tried;
	int ret = 0, failed;

	for (i = 0; i < nr; i++)
		reads[i] = lsm_op_read(listed[i].handle, spreading->rows + i * ROW_BYTES, ROW_BYTES, 0);
	lsm_read_many(spreading->lsm, reads, nr);
	for (i = 0; !ret && i < nr; i++) {
		uint8_t *row = spreading->rows + i * ROW_BYTES;

		if (reads[i].result)
			ret = count(spreading, reads[i].result, NULL);
		else if (reads[i].version != listed[i].version)
			ret = count(spreading, -EILSEQ, NULL);
		else if (reads[i].length < reads[i].object_length)
			ret = change_big(spreading, &listed[i]);
		else if (!change(spreading, row, &shares[made]))
			spreading->report.beyond++;
		else
			ops[made++] = lsm_op_replace(listed[i].handle, row, reads[i].length, LSM_EXPECT,
						     listed[i].version);
	}
	if (ret || !made)
		return ret;
	if (spreading->spread->flags & LSM_ATOMIC)
		ret = replace_group(spreading, ops, shares, made, &tried);
	else
		ret = lsm_vector(spreading->lsm, ops, made, spreading->spread->flags, &tried);
	for (i = 0; i < tried; i++) {
		failed = count(spreading, ops[i].result, &shares[i]);
		ret = ret ? ret : failed;
	}
	return ret;
}

static int change_all(struct spreading *spreading)
{
	const struct lsm_spread *spread = spreading->spread;
	uint64_t done = 0;
	uint32_t i;
	size_t at, nr;
	int ret = 0;

	for (i = 0; i < spreading->nr; i++) {
		for (at = 0; !ret && at < spreading->listers[i].nr; at += nr) {
			nr = spreading->listers[i].nr - at < MANY ? spreading->listers[i].nr - at : MANY;
			ret = change_some(spreading, &spreading->listers[i].listed[at], nr);
			done += nr;
			if (!ret && spread->progress)
				ret = spread->progress(spread->context, done, spreading->report.selected);
		}
	}
	return ret;
}

static int check_spread(const struct lsm_spread *spread)
{
	const struct lsm_column *weight = spread->weight;
	uint32_t type = spread->column.type;

	if (spread->how < LSM_SPREAD_SET || spread->how > LSM_SPREAD_SHARE || spread->flags & ~(LSM_DURABLE | LSM_ATOMIC) ||
	    spread->column.nr > 1 || (weight && weight->nr > 1))
		return -EINVAL;
	if (spread->how == LSM_SPREAD_SET && type == LSM_U32 && spread->amount.u64 > UINT32_MAX)
		return -EINVAL;
	if (spread->how == LSM_SPREAD_SHARE && weight && type != LSM_F64 && weight->type == LSM_F64)
		return -EINVAL;
	if (type == LSM_F64 && spread->how != LSM_SPREAD_SCALE && !__builtin_isfinite(spread->amount.f64))
		return -EINVAL;
	return spread->how == LSM_SPREAD_SCALE && !__builtin_isfinite(spread->factor) ? -EINVAL : 0;
}

int lsm_spread(struct lsm *lsm, const struct lsm_scan *scan, const struct lsm_spread *spread,
	       struct lsm_spread_report *report)
{
	struct spreading *spreading = calloc(1, sizeof(*spreading));
	uint32_t i;
	int ret;

	if (!spreading)
		return -ENOMEM;
	spreading->lsm = lsm;
	spreading->spread = spread;
	spreading->rows = malloc((size_t)MANY * ROW_BYTES);
	ret = check_spread(spread);
	if (!ret)
		ret = spreading->rows ? list_objects(spreading, scan) : -ENOMEM;
	if (!ret && spread->begun)
		ret = spread->begun(spread->context, spreading->report.version, spreading->report.weights);
	if (!ret)
		ret = change_all(spreading);
	if (is_real(spreading))
		spreading->report.given.f64 = lsm_exact_value(&spreading->given);
	if (report)
		*report = spreading->report;
	for (i = 0; i < LSM_THREADS_MAX; i++) {
		lsm_aggregate_destroy(spreading->listers[i].aggregate);
		free(spreading->listers[i].listed);
	}
	free(spreading->rows);
	free(spreading->big);
	free(spreading);
	return ret;
}
