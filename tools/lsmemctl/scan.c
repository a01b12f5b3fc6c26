// SPDX-License-Identifier: GPL-2.0
/* lsmemctl scan: aggregate values of the objects of a store. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lsmem/lsmem_format.h>

#include "objects.h"

#define COLUMNS_MAX	16u
#define BOUNDS_MAX	64u

enum { SUM = CTL_OBJECTS_OPTIONS, GROUP, TOP, HISTOGRAM, PLAN, EXACT, EXPLAIN };

static const struct ctl_option options[] = {
	CTL_OBJECTS_OPTION_LIST,
	[SUM]		= { "sum", 's', true },
	[GROUP]		= { "group-by", 'g', true },
	[TOP]		= { "top", 0, true },
	[HISTOGRAM]	= { "histogram", 0, true },
	[PLAN]		= { "plan", 0, true },
	[EXACT]		= { "exact", 0, false },
	[EXPLAIN]	= { "explain", 0, false },
	{ 0 }
};

/**
 * struct request - what the command line asks for
 * @objects: which
 * @question: of them
 * @measures: of @question
 * @names: of the columns of @measures, as on the command line
 * @histogram: bounds for the first of @measures, as on the command line; NULL: no histogram
 * @bounds: the same, for @measures
 * @group: of @question, if @grouped
 * @grouped: there is a --group-by
 * @explain: only say what the plans cost
 */
struct request {
	struct ctl_objects objects;
	struct lsm_question question;
	struct lsm_measure measures[COLUMNS_MAX];
	const char *names[COLUMNS_MAX];
	const char *histogram;
	union lsm_value bounds[BOUNDS_MAX];
	struct lsm_column group;
	bool grouped;
	bool explain;
};

/* ---- The command line ------------------------------------------------------ */

static int parse_option(struct request *request, int option, const char *value)
{
	struct lsm_question *question = &request->question;
	struct lsm_measure *measure = &request->measures[question->nr_measures];
	const char *rest;
	uint64_t number;
	uint32_t plan;

	switch (option) {
	case SUM:
		if (question->nr_measures == COLUMNS_MAX)
			return ctl_usage_error("--sum: at most %u", COLUMNS_MAX);
		if (!ctl_parse_column(value, true, &measure->column, &rest) || *rest)
			return ctl_usage_error("--sum %s: write u32@4, i64@0, f64@8x100 or f64@8x*", value);
		request->names[question->nr_measures++] = value;
		return CTL_OK;
	case GROUP:
		if (!ctl_parse_column(value, false, &request->group, &rest) || *rest ||
		    request->group.type == LSM_F64)
			return ctl_usage_error("--group-by %s: write u32@4, u64@0 or i64@8", value);
		request->grouped = true;
		question->group = &request->group;
		return CTL_OK;
	case TOP:
		if (!ctl_parse_number(value, 1000, &number))
			return ctl_usage_error("--top %s: write a number up to 1000", value);
		request->measures[0].top = (uint32_t)number;
		return CTL_OK;
	case HISTOGRAM:
		request->histogram = value;
		return CTL_OK;
	case PLAN:
		for (plan = 0; plan < LSM_PLANS; plan++)
			if (!strcmp(value, lsm_plan_name(plan)))
				break;
		if (plan != LSM_PLAN_AUTO && plan != LSM_PLAN_TABLE && plan != LSM_PLAN_LOG)
			return ctl_usage_error("--plan %s: write auto, table or log", value);
		request->objects.scan.plan = plan;
		return CTL_OK;
	case EXACT:
		request->objects.scan.flags = LSM_SCAN_EXACT;
		return CTL_OK;
	case EXPLAIN:
		request->explain = true;
		return CTL_OK;
	default:
		return ctl_objects_option(&request->objects, option, value);
	}
}

/* Are two values of a type in ascending order? */
static bool ascending(uint32_t type, union lsm_value a, union lsm_value b)
{
	if (type == LSM_F64)
		return a.f64 < b.f64;
	return type == LSM_I64 ? a.i64 < b.i64 : a.u64 < b.u64;
}

/* Parses the bounds of the histogram, whose type is known when all options are. */
static int parse_bounds(struct request *request)
{
	struct lsm_measure *measure = &request->measures[0];
	uint32_t type = measure->column.type;
	const char *at = request->histogram;
	char text[64];
	size_t length;

	if (!request->question.nr_measures)
		return ctl_usage_error("--histogram: of which --sum?");
	for (;; at += length + 1) {
		union lsm_value *bound = &request->bounds[measure->nr_bounds];

		if (measure->nr_bounds == BOUNDS_MAX)
			return ctl_usage_error("--histogram: at most %u bounds", BOUNDS_MAX);
		length = strcspn(at, ",");
		if (length >= sizeof(text))
			break;
		memcpy(text, at, length);
		text[length] = 0;
		if (!ctl_parse_value(type, text, bound) ||
		    (measure->nr_bounds && !ascending(type, bound[-1], *bound)))
			break;
		measure->nr_bounds++;
		if (!at[length]) {
			measure->bounds = request->bounds;
			return CTL_OK;
		}
	}
	return ctl_usage_error("--histogram %s: write ascending numbers of the first column's type, as 10,20,50",
			       request->histogram);
}

/* ---- Results --------------------------------------------------------------- */

/* An integer of 128 bits. */
static struct json_object *wide(const struct lsm_total *total)
{
	__int128 sum = (__int128)total->sum_high * ((__int128)1 << 64) + total->sum_low;
	char text[48], *at = text + sizeof(text) - 1;
	bool negative = sum < 0;

	*at = 0;
	do {
		*--at = (char)('0' + abs((int)(sum % 10)));
		sum /= 10;
	} while (sum);
	if (negative)
		*--at = '-';
	return json_object_new_double_s(total->sum, at);
}

/* Adds a measure to a row of the result. */
static void add_total(const struct request *request, size_t i, const struct lsm_total *total,
		      struct json_object *row)
{
	uint32_t type = request->measures[i].column.type;
	bool any = total->count;

	json_object_object_add(row, "column", json_object_new_string(request->names[i]));
	ctl_add_number(row, "count", (int64_t)total->count);
	ctl_add_number(row, "nan", (int64_t)total->nan);
	json_object_object_add(row, "sum", type == LSM_F64 ? ctl_value_decimal(total->sum) : wide(total));
	json_object_object_add(row, "min", any ? ctl_value_json(type, total->min) : NULL);
	json_object_object_add(row, "max", any ? ctl_value_json(type, total->max) : NULL);
	json_object_object_add(row, "average", any ? ctl_value_decimal(total->average) : NULL);
}

/* The rows of the result: one for each group and column. */
static int make_rows(const struct request *request, struct lsm_aggregate *aggregate,
		     const struct lsm_counts *counts, struct json_object *rows)
{
	size_t nr = request->question.nr_measures, group, i;
	struct lsm_total totals[COLUMNS_MAX];
	union lsm_value value;
	uint64_t objects;
	int ret;

	for (i = 0; !request->grouped && i < nr; i++) {
		struct json_object *row = json_object_new_object();

		ret = lsm_aggregate_total(aggregate, i, &totals[0]);
		if (ret)
			return ret;
		add_total(request, i, &totals[0], row);
		json_object_array_add(rows, row);
	}
	for (group = 0; request->grouped && group < counts->groups; group++) {
		ret = lsm_aggregate_group(aggregate, group, &value, &objects, totals);
		if (ret)
			return ret;
		for (i = 0; i < nr || !i; i++) {
			struct json_object *row = json_object_new_object();

			json_object_object_add(row, "group", ctl_value_json(request->group.type, value));
			ctl_add_number(row, "objects", (int64_t)objects);
			if (nr)
				add_total(request, i, &totals[i], row);
			json_object_array_add(rows, row);
		}
	}
	return 0;
}

static int make_top(const struct request *request, const struct lsm_aggregate *aggregate,
		    struct json_object *rows)
{
	uint32_t nr = request->measures[0].top;
	struct lsm_top *top = calloc(nr + 1, sizeof(*top));
	ssize_t found, i;

	if (!top)
		return -ENOMEM;
	found = lsm_aggregate_top(aggregate, 0, top, nr);
	for (i = 0; i < found; i++) {
		struct json_object *row = json_object_new_object();
		char handle[24];

		snprintf(handle, sizeof(handle), "%#" PRIx64, top[i].handle);
		json_object_object_add(row, "value", ctl_value_json(request->measures[0].column.type, top[i].value));
		json_object_object_add(row, "handle", json_object_new_string(handle));
		ctl_add_number(row, "position", (int64_t)top[i].position);
		json_object_array_add(rows, row);
	}
	free(top);
	return found < 0 ? (int)found : 0;
}

/* The rows of the histogram: how many values there are from one bound up to the next. */
static int make_histogram(const struct request *request, const struct lsm_aggregate *aggregate,
			  struct json_object *rows)
{
	const struct lsm_measure *measure = &request->measures[0];
	uint64_t buckets[BOUNDS_MAX + 1];
	uint32_t type = measure->column.type;
	size_t i;
	int ret;

	ret = lsm_aggregate_histogram(aggregate, 0, buckets);
	for (i = 0; !ret && i <= measure->nr_bounds; i++) {
		struct json_object *row = json_object_new_object();

		json_object_object_add(row, "from", i ? ctl_value_json(type, measure->bounds[i - 1]) : NULL);
		json_object_object_add(row, "below", i < measure->nr_bounds ?
				       ctl_value_json(type, measure->bounds[i]) : NULL);
		ctl_add_number(row, "values", (int64_t)buckets[i]);
		json_object_array_add(rows, row);
	}
	return ret;
}

static struct json_object *explained(const struct lsm_explain *explain)
{
	struct json_object *out = json_object_new_object(), *costs = json_object_new_object();
	uint32_t plan;

	json_object_object_add(out, "plan", json_object_new_string(lsm_plan_name(explain->plan)));
	ctl_add_number(out, "threads", explain->threads);
	ctl_add_number(out, "objects", (int64_t)explain->objects);
	ctl_add_number(out, "bytes", (int64_t)explain->bytes);
	ctl_add_number(out, "cold", (int64_t)explain->cold);
	for (plan = LSM_PLAN_TABLE; plan < LSM_PLANS; plan++)
		if (explain->cost_ns[plan] >= 0)
			ctl_add_number(costs, lsm_plan_name(plan), explain->cost_ns[plan]);
	json_object_object_add(out, "cost_ns", costs);
	return out;
}

static int print_result(const struct request *request, struct lsm_aggregate *aggregate,
			const struct lsm_scan_result *result, double seconds)
{
	static const struct ctl_column columns[] = {
		{ "GROUP",	"group",	CTL_NUMBER },
		{ "OBJECTS",	"objects",	CTL_NUMBER },
		{ "COLUMN",	"column",	CTL_TEXT },
		{ "COUNT",	"count",	CTL_NUMBER },
		{ "NAN",	"nan",		CTL_NUMBER },
		{ "SUM",	"sum",		CTL_NUMBER },
		{ "MIN",	"min",		CTL_NUMBER },
		{ "MAX",	"max",		CTL_NUMBER },
		{ "AVERAGE",	"average",	CTL_NUMBER },
	};
	static const struct ctl_column top_columns[] = {
		{ "TOP",	"value",	CTL_NUMBER },
		{ "HANDLE",	"handle",	CTL_TEXT },
		{ "POSITION",	"position",	CTL_NUMBER },
	};
	static const struct ctl_column histogram_columns[] = {
		{ "FROM",	"from",		CTL_NUMBER },
		{ "BELOW",	"below",	CTL_NUMBER },
		{ "VALUES",	"values",	CTL_NUMBER },
	};
	const size_t nr = sizeof(columns) / sizeof(*columns), first = request->grouped ? 0 : 2;
	struct json_object *out = json_object_new_object(), *rows = json_object_new_array();
	struct json_object *top = json_object_new_array(), *histogram = json_object_new_array();
	struct lsm_counts counts;
	int ret;

	json_object_object_add(out, "explain", explained(&result->explain));
	ret = lsm_aggregate_counts(aggregate, &counts);
	json_object_object_add(out, "version", result->version ? json_object_new_uint64(result->version) : NULL);
	ctl_add_decimal(out, "seconds", seconds);
	ctl_add_number(out, "objects", (int64_t)counts.fed);
	ctl_add_number(out, "short", (int64_t)counts.shorter);
	ctl_add_number(out, "selected", (int64_t)counts.selected);
	ctl_add_number(out, "not_in_memory", (int64_t)result->cold);
	json_object_object_add(out, "rows", rows);
	if (!ret)
		ret = make_rows(request, aggregate, &counts, rows);
	if (!ret && request->measures[0].top) {
		json_object_object_add(out, "top", json_object_get(top));
		ret = make_top(request, aggregate, top);
	}
	if (!ret && request->histogram) {
		json_object_object_add(out, "histogram", json_object_get(histogram));
		ret = make_histogram(request, aggregate, histogram);
	}
	if (ret) {
		ctl_error("result: %s", lsm_strerror(ret));
		ret = CTL_FAILED;
	} else if (ctl_json) {
		ret = ctl_print_json(out);
	} else {
		printf("%" PRIu64 " objects, %" PRIu64 " selected, %" PRIu64 " too short, plan %s, %.3f s\n",
		       counts.fed, counts.selected, counts.shorter, lsm_plan_name(result->explain.plan),
		       seconds);
		if (result->cold)
			printf("%" PRIu64 " objects are not in memory, and were left out\n", result->cold);
		if (json_object_array_length(rows))
			ret = ctl_print_table(rows, columns + first, nr - first);
		if (!ret && json_object_array_length(top))
			ret = ctl_print_table(top, top_columns, sizeof(top_columns) / sizeof(*top_columns));
		if (!ret && request->histogram)
			ret = ctl_print_table(histogram, histogram_columns,
					      sizeof(histogram_columns) / sizeof(*histogram_columns));
	}
	json_object_put(top);
	json_object_put(histogram);
	json_object_put(out);
	return ret;
}

/* ---- The command ----------------------------------------------------------- */

static int report(const char *name, int error)
{
	switch (error) {
	case ECANCELED:
		ctl_error("%s: its writers needed the memory that the scan held: try again, or with --plan table, which is not exact",
			  name);
		break;
	case EOVERFLOW:
		ctl_error("%s: --group-by finds too many groups", name);
		break;
	default:
		return ctl_objects_error(name, error);
	}
	return CTL_FAILED;
}

static int scan_store(struct request *request, const char *name)
{
	struct lsm_aggregate *aggregate = NULL;
	struct lsm_scan_result result;
	char text[1024];
	struct json_object *out;
	double begin = ctl_now();
	struct lsm *lsm;
	int ret;

	ret = ctl_objects_open(name, LSM_RDONLY, &lsm);
	if (ret)
		return report(name, -ret);
	if (request->explain)
		ret = lsm_scan_explain(lsm, &request->objects.scan, &result.explain);
	else
		ret = lsm_scan_aggregate(lsm, &request->objects.scan, &request->question, &aggregate, &result);
	lsm_close(lsm);
	ctl_objects_finished(&request->objects);
	if (ret)
		return report(name, -ret);
	if (!request->explain) {
		ret = print_result(request, aggregate, &result, ctl_now() - begin);
		lsm_aggregate_destroy(aggregate);
	} else if (ctl_json) {
		out = explained(&result.explain);
		ret = ctl_print_json(out);
		json_object_put(out);
	} else {
		lsm_explain_text(&result.explain, text, sizeof(text));
		printf("%s", text);
	}
	return ret;
}

static int run(int argc, char **argv)
{
	struct request request = { .objects.scan.context = &request.objects };
	char name[LSMEM_NAME_BYTES];
	const char *value;
	int option, ret;

	request.question.ranges = request.objects.ranges;
	request.question.measures = request.measures;
	while ((option = ctl_next_option(argc, argv, options, &value)) != -1) {
		ret = parse_option(&request, option, value);
		if (ret)
			return ret;
	}
	request.question.nr_ranges = request.objects.nr_ranges;
	if (request.measures[0].top && !request.question.nr_measures)
		return ctl_usage_error("--top: of which --sum?");
	if (request.histogram) {
		ret = parse_bounds(&request);
		if (ret)
			return ret;
	}
	ret = ctl_objects_store(argc, argv, name);
	if (ret)
		return ret;
	if (isatty(STDERR_FILENO))
		request.objects.scan.progress = ctl_objects_progress;
	return scan_store(&request, name);
}

const struct ctl_command ctl_scan = {
	.name = "scan",
	.summary = "Sum, count and group values of all objects of a store",
	.usage = "scan STORE [--table N] [--sum TYPE@OFFSET[xN]]... [--group-by TYPE@OFFSET]\n"
		 "                     [--where 'TYPE@OFFSET<VALUE']... [--top N] [--histogram N,..]\n"
		 "                     [--plan auto|table|log] [--threads N] [--exact] [--explain] [--json]",
	.run = run,
};
