// SPDX-License-Identifier: GPL-2.0
/* lsmemctl spread: change a value in each of many objects of a store. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "objects.h"

enum { SET = CTL_OBJECTS_OPTIONS, ADD, SCALE, SHARE, WEIGHT, RESUME, DURABLE, GROUPS, DRY_RUN };

static const struct ctl_option options[] = {
	CTL_OBJECTS_OPTION_LIST,
	[SET]		= { "set", 0, true },
	[ADD]		= { "add", 0, true },
	[SCALE]		= { "scale", 0, true },
	[SHARE]		= { "share", 0, true },
	[WEIGHT]	= { "weight", 0, true },
	[RESUME]	= { "resume", 0, true },
	[DURABLE]	= { "durable", 0, false },
	[GROUPS]	= { "groups", 0, false },
	[DRY_RUN]	= { "dry-run", 'n', false },
	{ 0 }
};

/**
 * struct request - what the command line asks for
 * @objects: which
 * @spread: how they are to be changed
 * @weight: of @spread, if there is a --weight
 * @resume: value of --resume; NULL: none
 * @dry: change nothing
 * @begun: it is known which objects are to be changed
 * @terminal: show progress
 */
struct request {
	struct ctl_objects objects;
	struct lsm_spread spread;
	struct lsm_column weight;
	const char *resume;
	bool dry;
	bool begun;
	bool terminal;
};

/* ---- The command line ------------------------------------------------------ */

/* The type of what is added to values of @type. */
static uint32_t amount_type(uint32_t type)
{
	return type == LSM_F64 ? LSM_F64 : LSM_I64;
}

/* Parses COLUMN=AMOUNT. */
static bool parse_change(struct lsm_spread *spread, uint32_t how, const char *text)
{
	union lsm_value value;
	const char *rest;
	uint32_t type;

	if (!ctl_parse_column(text, false, &spread->column, &rest) || *rest != '=')
		return false;
	spread->how = how;
	type = how == LSM_SPREAD_SCALE ? LSM_F64 : spread->column.type;
	if (how == LSM_SPREAD_ADD || how == LSM_SPREAD_SHARE)
		type = amount_type(type);
	if (!ctl_parse_value(type, rest + 1, &value) || (type == LSM_F64 && !isfinite(value.f64)))
		return false;
	if (how == LSM_SPREAD_SCALE)
		spread->factor = value.f64;
	else
		spread->amount = value;
	return true;
}

/* The sum of weights has this type. */
static uint32_t weights_type(const struct lsm_spread *spread)
{
	return spread->column.type == LSM_F64 ? LSM_F64 : LSM_U64;
}

/* Parses VERSION, and of --share VERSION/WEIGHTS. */
static bool parse_resume(struct lsm_spread *spread, const char *text)
{
	const char *slash = strchr(text, '/');
	char version[24];

	if (!slash)
		slash = text + strlen(text);
	if ((size_t)(slash - text) >= sizeof(version) || !*slash != (spread->how != LSM_SPREAD_SHARE))
		return false;
	memcpy(version, text, (size_t)(slash - text));
	version[slash - text] = 0;
	if (!ctl_parse_number(version, UINT64_MAX, &spread->version) || !spread->version)
		return false;
	return !*slash || ctl_parse_value(weights_type(spread), slash + 1, &spread->weights);
}

static int parse_option(struct request *request, int option, const char *value)
{
	struct lsm_spread *spread = &request->spread;
	const char *rest;

	switch (option) {
	case SET:
	case ADD:
	case SCALE:
	case SHARE:
		if (spread->how)
			return ctl_usage_error("one of --set, --add, --scale and --share, once");
		if (!parse_change(spread, (uint32_t)(option - SET + LSM_SPREAD_SET), value))
			return ctl_usage_error("--%s %s: write u32@4=1, i64@0=-1 or f64@8=1.5, within the type",
					       options[option].name, value);
		return CTL_OK;
	case WEIGHT:
		if (!ctl_parse_column(value, false, &request->weight, &rest) || *rest)
			return ctl_usage_error("--weight %s: write u32@4, i64@0 or f64@8", value);
		spread->weight = &request->weight;
		return CTL_OK;
	case RESUME:
		request->resume = value;
		return CTL_OK;
	case DURABLE:
		spread->flags |= LSM_DURABLE;
		return CTL_OK;
	case GROUPS:
		spread->flags |= LSM_ATOMIC;
		return CTL_OK;
	case DRY_RUN:
		request->dry = true;
		return CTL_OK;
	default:
		return ctl_objects_option(&request->objects, option, value);
	}
}

/* Checks what depends on several options. */
static int check_options(struct request *request)
{
	struct lsm_spread *spread = &request->spread;

	if (!spread->how)
		return ctl_usage_error("what is to become of the values: --set, --add, --scale or --share?");
	if (spread->weight && spread->how != LSM_SPREAD_SHARE)
		return ctl_usage_error("--weight: only with --share");
	if (spread->weight && spread->weight->type == LSM_F64 && spread->column.type != LSM_F64)
		return ctl_usage_error("--weight: shares of integers need a weight of integers");
	if (request->resume && !parse_resume(spread, request->resume))
		return ctl_usage_error("--resume %s: write what the run that was cut off has printed",
				       request->resume);
	return CTL_OK;
}

/* ---- Results --------------------------------------------------------------- */

/* Writes the value of --resume. */
static void resume_text(const struct lsm_spread *spread, uint64_t version, union lsm_value weights,
			char *text, size_t size)
{
	int length = snprintf(text, size, "%" PRIu64, version);

	if (spread->how != LSM_SPREAD_SHARE)
		return;
	if (weights_type(spread) == LSM_F64)
		snprintf(text + length, size - (size_t)length, "/%.17g", weights.f64);
	else
		snprintf(text + length, size - (size_t)length, "/%" PRIu64, weights.u64);
}

static struct json_object *make_result(const struct request *request, const struct lsm_spread_report *report,
				       double seconds)
{
	const struct lsm_spread *spread = &request->spread;
	struct json_object *out = json_object_new_object();
	char resume[64];

	json_object_object_add(out, "dry_run", json_object_new_boolean(request->dry));
	ctl_add_number(out, "selected", (int64_t)report->selected);
	ctl_add_number(out, "changed", (int64_t)report->changed);
	ctl_add_number(out, "lost", (int64_t)report->lost);
	ctl_add_number(out, "gone", (int64_t)report->gone);
	ctl_add_number(out, "beyond", (int64_t)report->beyond);
	ctl_add_number(out, "short", (int64_t)report->shorter);
	if (spread->how == LSM_SPREAD_SHARE) {
		json_object_object_add(out, "weights", ctl_value_json(weights_type(spread), report->weights));
		json_object_object_add(out, "given", ctl_value_json(amount_type(spread->column.type),
								    report->given));
	}
	json_object_object_add(out, "version", json_object_new_uint64(report->version));
	resume_text(spread, report->version, report->weights, resume, sizeof(resume));
	json_object_object_add(out, "resume", json_object_new_string(resume));
	ctl_add_decimal(out, "seconds", seconds);
	return out;
}

static int print_result(const struct request *request, const struct lsm_spread_report *report, double seconds)
{
	struct json_object *out = make_result(request, report, seconds), *given;
	int ret = CTL_OK;

	if (ctl_json) {
		ret = ctl_print_json(out);
	} else if (request->dry) {
		printf("%" PRIu64 " objects would be changed, %" PRIu64 " are too short\n", report->selected,
		       report->shorter);
	} else {
		printf("%" PRIu64 " of %" PRIu64 " objects changed, %" PRIu64 " freed, %" PRIu64
		       " too short, %.3f s\n", report->changed, report->selected, report->gone,
		       report->shorter, seconds);
		if (json_object_object_get_ex(out, "given", &given))
			printf("%s given, sum of weights %s\n", json_object_get_string(given),
			       ctl_word(out, "weights"));
	}
	json_object_put(out);
	return ret;
}

/* ---- The command ----------------------------------------------------------- */

/* It is known which objects are to be changed, and none is changed yet. */
static int begin(void *context, uint64_t version, union lsm_value weights)
{
	struct request *request = context;
	char resume[64];

	request->begun = true;
	if (request->dry)
		return -ECANCELED;
	resume_text(&request->spread, version, weights, resume, sizeof(resume));
	ctl_error("if it is cut off, it goes on with the same options and --resume %s", resume);
	return 0;
}

static int show_progress(void *context, uint64_t done, uint64_t total)
{
	struct request *request = context;

	if (request->terminal)
		ctl_objects_progress(&request->objects, done, total);
	return 0;
}

static int report_error(const struct request *request, const char *name, int error,
			const struct lsm_spread_report *report)
{
	char resume[64];

	if (request->begun) {
		resume_text(&request->spread, report->version, report->weights, resume, sizeof(resume));
		ctl_error("%s: %" PRIu64 " of %" PRIu64 " objects are changed, --resume %s goes on: %s", name,
			  report->changed, report->selected, resume, lsm_strerror(error));
		return CTL_FAILED;
	}
	switch (error) {
	case ECANCELED:
		ctl_error("%s: its writers needed the memory that the scan held: nothing is changed, try again",
			  name);
		break;
	case EDOM:
		ctl_error("%s: a weight is negative or no number, or all are 0: choose objects with --where",
			  name);
		break;
	case EOVERFLOW:
		ctl_error("%s: the sum of weights is 2^64 or more: choose fewer objects with --where", name);
		break;
	default:
		return ctl_objects_error(name, error);
	}
	return CTL_FAILED;
}

/* Says which objects were to be changed and are not. */
static int report_left(const struct request *request, const char *name, const struct lsm_spread_report *report)
{
	bool again = request->spread.how == LSM_SPREAD_SET;

	if (report->lost)
		ctl_error("%s: %" PRIu64 " objects were changed by others meanwhile, and left as they are: %s",
			  name, report->lost, again ? "run it again" :
			  "another run would change the other objects twice, unless --where leaves them out");
	if (report->beyond)
		ctl_error("%s: %" PRIu64 " objects have no number there, or would have one beyond the type, and are left as they are: choose others with --where",
			  name, report->beyond);
	return report->lost || report->beyond ? CTL_FAILED : CTL_OK;
}

static int spread_store(struct request *request, const char *name)
{
	struct lsm_spread_report report = { 0 };
	double start = ctl_now();
	struct lsm *lsm;
	int ret, left;

	ret = ctl_objects_open(name, request->dry ? LSM_RDONLY : 0, &lsm);
	if (ret)
		return ctl_objects_error(name, -ret);
	ret = lsm_spread(lsm, &request->objects.scan, &request->spread, &report);
	lsm_close(lsm);
	ctl_objects_finished(&request->objects);
	if (ret && !(request->dry && request->begun))
		return report_error(request, name, -ret, &report);
	ret = print_result(request, &report, ctl_now() - start);
	left = report_left(request, name, &report);
	return ret ? ret : left;
}

static int run(int argc, char **argv)
{
	struct request request = { .spread = { .begun = begin, .progress = show_progress,
					       .context = &request } };
	char name[LSMEM_NAME_BYTES];
	const char *value;
	int option, ret;

	while ((option = ctl_next_option(argc, argv, options, &value)) != -1) {
		ret = parse_option(&request, option, value);
		if (ret)
			return ret;
	}
	request.spread.ranges = request.objects.ranges;
	request.spread.nr_ranges = request.objects.nr_ranges;
	ret = check_options(&request);
	if (!ret)
		ret = ctl_objects_store(argc, argv, name);
	if (ret)
		return ret;
	request.terminal = isatty(STDERR_FILENO);
	return spread_store(&request, name);
}

const struct ctl_command ctl_spread = {
	.name = "spread",
	.summary = "Set, raise or scale a value in each of many objects, or share out an amount",
	.usage = "spread STORE --set COLUMN=VALUE | --add COLUMN=AMOUNT | --scale COLUMN=FACTOR |\n"
		 "                       --share COLUMN=AMOUNT [--weight COLUMN]\n"
		 "                       [--table N] [--where 'TYPE@OFFSET<VALUE']... [--threads N]\n"
		 "                       [--durable] [--groups] [--dry-run] [--resume VERSION[/WEIGHTS]] [--json]",
	.run = run,
};
