// SPDX-License-Identifier: GPL-2.0
/* lsmemctl stat: print all sysfs attributes of a store, once or repeatedly. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

#define HEADING_EVERY	20	/* lines */

enum { WATCH, INTERVAL };

static const struct ctl_option options[] = {
	[WATCH]		= { "watch", 'w', false },
	[INTERVAL]	= { "interval", 'i', true },
	{ 0 }
};

/* Columns of --watch: values of gauges, rates of counters. */
static const struct {
	const char *title;
	const char *key;
	int width;
	bool rate;
	bool bytes;
} watched[] = {
	{ "LIVE",	"live_bytes",			8,	false,	true },
	{ "FREE",	"free_seglets",			8,	false,	false },
	{ "SEGMENTS",	"segments",			9,	false,	false },
	{ "WRITE/s",	"stats.appended_bytes",		8,	true,	true },
	{ "MOVE/s",	"cleaner.relocated_bytes",	8,	true,	true },
	{ "COMPACT/s",	"cleaner.compacted_bytes",	10,	true,	true },
	{ "CLEAN/s",	"cleaner.segments_cleaned",	8,	true,	false },
	{ "DURABLE/s",	"stats.durable_bytes",		10,	true,	true },
	{ "STALLS/s",	"stats.stalls",			9,	true,	false },
};

#define WATCHED (sizeof(watched) / sizeof(*watched))

static void print_rates(struct json_object *now, struct json_object *before, double seconds)
{
	char text[24];
	size_t i;

	for (i = 0; i < WATCHED; i++) {
		int64_t value = ctl_number(now, watched[i].key);

		if (watched[i].rate)
			value = (int64_t)((double)(value - ctl_number(before, watched[i].key)) /
					  seconds + 0.5);
		if (value < 0)		/* another store has the name now */
			value = 0;
		if (watched[i].bytes)
			ctl_bytes_text((uint64_t)value, text, sizeof(text));
		else
			snprintf(text, sizeof(text), "%" PRId64, value);
		printf("%*s", watched[i].width, text);
	}
	printf("\n");
	fflush(stdout);
}

/* Returns when the store no longer exists or output fails. */
static int watch(const char *name, struct json_object *before, uint64_t interval_ms)
{
	double then = ctl_now(), seconds;
	struct json_object *now;
	unsigned int line = 0;
	size_t i;

	for (;;) {
		if (ctl_json) {
			printf("%s\n", json_object_to_json_string_ext(before,
								      JSON_C_TO_STRING_PLAIN));
			fflush(stdout);
		} else if (line++ % HEADING_EVERY == 0) {
			for (i = 0; i < WATCHED; i++)
				printf("%*s", watched[i].width, watched[i].title);
			printf("\n");
		}
		ctl_pause((double)interval_ms / 1000);
		now = ctl_store_read(name);
		if (!now || ferror(stdout)) {
			json_object_put(before);
			json_object_put(now);
			return ferror(stdout) ? CTL_FAILED : CTL_OK;
		}
		seconds = ctl_now() - then;
		then += seconds;
		if (!ctl_json)
			print_rates(now, before, seconds);
		json_object_put(before);
		before = now;
	}
}

static int run(int argc, char **argv)
{
	char name[LSMEM_NAME_BYTES];
	const char *text, *value;
	struct json_object *store;
	uint64_t interval_ms = 1000;
	bool watching = false;
	int option, ret;

	while ((option = ctl_next_option(argc, argv, options, &value)) != -1) {
		if (option < 0)
			return CTL_USAGE;
		watching = true;
		if (option == INTERVAL && !ctl_parse_seconds(value, &interval_ms))
			return ctl_usage_error("--interval %s: write 1, 0.5 or 250ms", value);
	}
	text = ctl_one_argument(argc, argv, "STORE");
	if (!text)
		return CTL_USAGE;
	if (!ctl_store_name(text, name))
		return CTL_USAGE;
	if (!ctl_store_exists(name))
		return CTL_FAILED;
	store = ctl_store_read(name);
	if (!store) {
		ctl_error("%s: went away", name);
		return CTL_FAILED;
	}
	if (watching)
		return watch(name, store, interval_ms);
	json_object_object_add(store, "cleaning", ctl_cleaning(store));
	ret = ctl_json ? ctl_print_json(store) : ctl_print_fields(store);
	json_object_put(store);
	return ret;
}

const struct ctl_command ctl_stat = {
	.name = "stat",
	.summary = "Show all attributes of a store; with --watch, print its rates repeatedly",
	.usage = "stat STORE [--watch] [--interval SECONDS] [--json]",
	.run = run,
};
