// SPDX-License-Identifier: GPL-2.0
/* lsmemctl scan: aggregate values of the objects of a store. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lsmem.h>
#include <lsmem/lsmem_format.h>

#include "ctl.h"

#define COLUMNS_MAX	16u
#define RANGES_MAX	16u
#define PERCENT_EACH	0.1	/* seconds between two lines of progress */

enum { TABLE, SUM, GROUP, WHERE, TOP, PLAN, THREADS, EXACT, EXPLAIN };

static const struct ctl_option options[] = {
	[TABLE]		= { "table", 't', true },
	[SUM]		= { "sum", 's', true },
	[GROUP]		= { "group-by", 'g', true },
	[WHERE]		= { "where", 'w', true },
	[TOP]		= { "top", 0, true },
	[PLAN]		= { "plan", 0, true },
	[THREADS]	= { "threads", 0, true },
	[EXACT]		= { "exact", 0, false },
	[EXPLAIN]	= { "explain", 0, false },
	{ 0 }
};

/**
 * struct request - what the command line asks for
 * @scan: which objects, and how
 * @question: of them
 * @measures: of @question
 * @names: of the columns of @measures, as on the command line
 * @ranges: of @question
 * @group: of @question, if @grouped
 * @grouped: there is a --group-by
 * @explain: only say what the plans cost
 * @shown: time of the last line of progress
 */
struct request {
	struct lsm_scan scan;
	struct lsm_question question;
	struct lsm_measure measures[COLUMNS_MAX];
	const char *names[COLUMNS_MAX];
	struct lsm_range ranges[RANGES_MAX];
	struct lsm_column group;
	bool grouped;
	bool explain;
	double shown;
};

/* ---- The command line ------------------------------------------------------ */

/* Parses TYPE@OFFSET, and with @many an x and a number of values, or x*, behind it. */
static bool parse_column(const char *text, bool many, struct lsm_column *column, const char **end)
{
	static const char *const types[] = { NULL, "u32@", "u64@", "i64@", "f64@" };
	unsigned long long number;
	uint32_t type;
	char *rest;

	for (type = LSM_U32; type <= LSM_F64; type++)
		if (!strncmp(text, types[type], 4))
			break;
	if (type > LSM_F64 || text[4] < '0' || text[4] > '9')
		return false;
	number = strtoull(text + 4, &rest, 10);
	if (number >= LSMEM_OBJECT_MAX)
		return false;
	*column = (struct lsm_column){ .type = type, .offset = (uint32_t)number };
	if (many && *rest == 'x') {
		if (rest[1] == '*') {
			column->nr = LSM_TO_END;
			rest += 2;
		} else {
			number = strtoull(rest + 1, &rest, 10);
			if (!number || number >= LSMEM_OBJECT_MAX)
				return false;
			column->nr = (uint32_t)number;
		}
	}
	*end = rest;
	return true;
}

static bool parse_value(uint32_t type, const char *text, union lsm_value *value)
{
	char *end;

	errno = 0;
	if (type == LSM_F64)
		value->f64 = strtod(text, &end);
	else if (type == LSM_I64)
		value->i64 = strtoll(text, &end, 10);
	else
		value->u64 = strtoull(text, &end, 10);
	/* A number that is too small for a double is one: the nearest. */
	if (end == text || *end || (errno && type != LSM_F64))
		return false;
	if (type == LSM_F64)
		return !isnan(value->f64);
	return *text != '-' || type == LSM_I64 ? type != LSM_U32 || value->u64 <= UINT32_MAX : false;
}

/* Steps to the next value of the type, upwards or downwards.  False: there is none. */
static bool step(uint32_t type, bool up, union lsm_value *value)
{
	uint64_t last = type == LSM_U32 ? UINT32_MAX : UINT64_MAX;

	switch (type) {
	case LSM_F64:
		value->f64 = nextafter(value->f64, up ? (double)INFINITY : -(double)INFINITY);
		return true;
	case LSM_I64:
		if (value->i64 == (up ? INT64_MAX : INT64_MIN))
			return false;
		value->i64 += up ? 1 : -1;
		return true;
	default:
		if (value->u64 == (up ? last : 0))
			return false;
		value->u64 += up ? 1 : UINT64_MAX;
		return true;
	}
}

/* Parses COLUMN<VALUE, <=, >, >= or =. */
static bool parse_where(const char *text, struct lsm_range *range)
{
	union lsm_value value;
	const char *rest;
	bool below, above, equal;
	uint32_t type;

	if (!parse_column(text, false, &range->column, &rest))
		return false;
	type = range->column.type;
	below = *rest == '<';
	above = *rest == '>';
	rest += below || above;
	equal = *rest == '=';
	rest += equal;
	if ((!below && !above && !equal) || !parse_value(type, rest, &value))
		return false;
	range->low.u64 = 0;
	range->high.u64 = type == LSM_U32 ? UINT32_MAX : UINT64_MAX;
	if (type == LSM_I64) {
		range->low.i64 = INT64_MIN;
		range->high.i64 = INT64_MAX;
	} else if (type == LSM_F64) {
		range->low.f64 = -(double)INFINITY;
		range->high.f64 = (double)INFINITY;
	}
	if (!below)
		range->low = value;
	if (!above)
		range->high = value;
	/* Without a value below or above there is nothing in the range: turn it round. */
	if ((below && !equal && !step(type, false, &range->high)) ||
	    (above && !equal && !step(type, true, &range->low)) ||
	    (type == LSM_F64 && !equal && isinf(value.f64) && below == (value.f64 < 0))) {
		range->low = value;
		range->high = value;
		step(type, below, &range->low);
		step(type, !below && !above, &range->high);
	}
	return true;
}

static int parse_option(struct request *request, int option, const char *value)
{
	struct lsm_question *question = &request->question;
	struct lsm_measure *measure = &request->measures[question->nr_measures];
	const char *rest;
	uint64_t number;
	uint32_t plan;

	switch (option) {
	case TABLE:
		if (!ctl_parse_number(value, LSMEM_TABLES - 1, &number))
			return ctl_usage_error("--table %s: write a number below %u", value, LSMEM_TABLES);
		request->scan.one_table = 1;
		request->scan.table = (uint32_t)number;
		return CTL_OK;
	case SUM:
		if (question->nr_measures == COLUMNS_MAX)
			return ctl_usage_error("--sum: at most %u", COLUMNS_MAX);
		if (!parse_column(value, true, &measure->column, &rest) || *rest)
			return ctl_usage_error("--sum %s: write u32@4, i64@0, f64@8x100 or f64@8x*", value);
		request->names[question->nr_measures++] = value;
		return CTL_OK;
	case GROUP:
		if (!parse_column(value, false, &request->group, &rest) || *rest ||
		    request->group.type == LSM_F64)
			return ctl_usage_error("--group-by %s: write u32@4, u64@0 or i64@8", value);
		request->grouped = true;
		question->group = &request->group;
		return CTL_OK;
	case WHERE:
		if (question->nr_ranges == RANGES_MAX)
			return ctl_usage_error("--where: at most %u", RANGES_MAX);
		if (!parse_where(value, &request->ranges[question->nr_ranges]))
			return ctl_usage_error("--where %s: write 'u32@4<100', with <, <=, >, >= or =", value);
		question->nr_ranges++;
		return CTL_OK;
	case TOP:
		if (!ctl_parse_number(value, 1000, &number))
			return ctl_usage_error("--top %s: write a number up to 1000", value);
		request->measures[0].top = (uint32_t)number;
		return CTL_OK;
	case PLAN:
		for (plan = 0; plan < LSM_PLANS; plan++)
			if (!strcmp(value, lsm_plan_name(plan)))
				break;
		if (plan != LSM_PLAN_AUTO && plan != LSM_PLAN_TABLE && plan != LSM_PLAN_LOG)
			return ctl_usage_error("--plan %s: write auto, table or log", value);
		request->scan.plan = plan;
		return CTL_OK;
	case THREADS:
		if (!ctl_parse_number(value, 64, &number) || !number)
			return ctl_usage_error("--threads %s: write a number from 1 to 64", value);
		request->scan.threads = (uint32_t)number;
		return CTL_OK;
	case EXACT:
		request->scan.flags = LSM_SCAN_EXACT;
		return CTL_OK;
	case EXPLAIN:
		request->explain = true;
		return CTL_OK;
	default:
		return CTL_USAGE;
	}
}

/* ---- Results --------------------------------------------------------------- */

/* A double with all its digits; JSON has no infinity and no NaN. */
static struct json_object *decimal(double value)
{
	char text[32];

	if (!isfinite(value))
		return NULL;
	snprintf(text, sizeof(text), "%.17g", value);
	return json_object_new_double_s(value, text);
}

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

static struct json_object *value_of(uint32_t type, union lsm_value value)
{
	if (type == LSM_F64)
		return decimal(value.f64);
	return type == LSM_I64 ? json_object_new_int64(value.i64) : json_object_new_uint64(value.u64);
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
	json_object_object_add(row, "sum", type == LSM_F64 ? decimal(total->sum) : wide(total));
	json_object_object_add(row, "min", any ? value_of(type, total->min) : NULL);
	json_object_object_add(row, "max", any ? value_of(type, total->max) : NULL);
	json_object_object_add(row, "average", any ? decimal(total->average) : NULL);
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

			json_object_object_add(row, "group", value_of(request->group.type, value));
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
		json_object_object_add(row, "value", value_of(request->measures[0].column.type, top[i].value));
		json_object_object_add(row, "handle", json_object_new_string(handle));
		ctl_add_number(row, "position", (int64_t)top[i].position);
		json_object_array_add(rows, row);
	}
	free(top);
	return found < 0 ? (int)found : 0;
}

static struct json_object *explained(const struct lsm_explain *explain)
{
	struct json_object *out = json_object_new_object(), *costs = json_object_new_object();
	uint32_t plan;

	json_object_object_add(out, "plan", json_object_new_string(lsm_plan_name(explain->plan)));
	ctl_add_number(out, "threads", explain->threads);
	ctl_add_number(out, "objects", (int64_t)explain->objects);
	ctl_add_number(out, "bytes", (int64_t)explain->bytes);
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
	const size_t nr = sizeof(columns) / sizeof(*columns), first = request->grouped ? 0 : 2;
	struct json_object *out = json_object_new_object(), *rows = json_object_new_array();
	struct json_object *top = json_object_new_array();
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
	if (ret) {
		ctl_system_error(-ret, "result");
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
	}
	json_object_put(top);
	json_object_put(out);
	return ret;
}

/* ---- The command ----------------------------------------------------------- */

static void show_progress(void *context, uint64_t done, uint64_t total)
{
	struct request *request = context;
	double now = ctl_now();

	if (now - request->shown < PERCENT_EACH)
		return;
	request->shown = now;
	fprintf(stderr, "\r%3.0f %%", 100.0 * (double)done / (double)total);
}

static int report(const char *name, int error)
{
	switch (error) {
	case ENOTTY:
		ctl_error("%s is no object store", name);
		break;
	case EAGAIN:
		ctl_error("%s is not active: its daemon has not activated it (systemctl status lsmemd)", name);
		break;
	case ECANCELED:
		ctl_error("%s: its writers needed the memory that the scan held: try again, or with --plan table, which is not exact",
			  name);
		break;
	case EOPNOTSUPP:
		ctl_error("%s cannot be scanned that way: it is tiered, or the module is older than this program",
			  name);
		break;
	case EOVERFLOW:
		ctl_error("%s: --group-by finds too many groups", name);
		break;
	case EBUSY:
		ctl_error("%s has as many snapshots as it may have (limits/snapshots_max): try again", name);
		break;
	default:
		ctl_system_error(error, "%s", name);
	}
	return CTL_FAILED;
}

static int scan_store(struct request *request, const char *name)
{
	struct lsm_aggregate *aggregate = NULL;
	struct lsm_scan_result result;
	char path[256], text[1024];
	struct json_object *out;
	double begin = ctl_now();
	struct lsm *lsm;
	int ret;

	snprintf(path, sizeof(path), "/dev/%s", name);
	ret = lsm_open(path, LSM_RDONLY, &lsm);
	if (ret)
		return report(name, -ret);
	if (request->explain)
		ret = lsm_scan_explain(lsm, &request->scan, &result.explain);
	else
		ret = lsm_scan_aggregate(lsm, &request->scan, &request->question, &aggregate, &result);
	lsm_close(lsm);
	if (request->shown > 0)
		fprintf(stderr, "\r\033[K");
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
	struct request request = { .scan.context = &request };
	char name[LSMEM_NAME_BYTES];
	const char *text, *value;
	int option, ret;

	request.question.ranges = request.ranges;
	request.question.measures = request.measures;
	while ((option = ctl_next_option(argc, argv, options, &value)) != -1) {
		ret = parse_option(&request, option, value);
		if (ret)
			return ret;
	}
	text = ctl_one_argument(argc, argv, "STORE");
	if (!text)
		return CTL_USAGE;
	if (request.measures[0].top && !request.question.nr_measures)
		return ctl_usage_error("--top: of which --sum?");
	if (!ctl_store_name(text, name))
		return CTL_USAGE;
	if (!ctl_store_exists(name))
		return CTL_FAILED;
	if (isatty(STDERR_FILENO))
		request.scan.progress = show_progress;
	return scan_store(&request, name);
}

const struct ctl_command ctl_scan = {
	.name = "scan",
	.summary = "Sum, count and group values of all objects of a store",
	.usage = "scan STORE [--table N] [--sum TYPE@OFFSET[xN]]... [--group-by TYPE@OFFSET]\n"
		 "                     [--where 'TYPE@OFFSET<VALUE']... [--top N] [--plan auto|table|log]\n"
		 "                     [--threads N] [--exact] [--explain] [--json]",
	.run = run,
};
