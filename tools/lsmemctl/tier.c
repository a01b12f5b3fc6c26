// SPDX-License-Identifier: GPL-2.0
/* lsmemctl tier: show memory, cold bytes and fetching of tiered stores, once or repeatedly. */
#include <stdio.h>
#include <string.h>

#include "ctl.h"

enum { INTERVAL, COUNT };

static const struct ctl_option options[] = {
	[INTERVAL]	= { "interval", 'i', true },
	[COUNT]		= { "count", 'n', true },
	{ 0 }
};

static const struct ctl_column totals[] = {
	{ "STORE",	"name",		CTL_TEXT },
	{ "MEMORY",	"memory_bytes",	CTL_BYTES },
	{ "CAPACITY",	"capacity_bytes", CTL_BYTES },
	{ "RESIDENT",	"resident_bytes", CTL_BYTES },
	{ "COLD",	"cold_bytes",	CTL_BYTES },
	{ "CACHED",	"cached_bytes",	CTL_BYTES },
	{ "UNVERIFIED",	"unverified_segments", CTL_NUMBER },
	{ "UNREADABLE",	"unreadable_segments", CTL_NUMBER },
	{ "REQUESTS",	"requests",	CTL_NUMBER },
	{ "FETCHES",	"fetches",	CTL_NUMBER },
	{ "FETCHED",	"fetched_bytes", CTL_BYTES },
	{ "EVICTED",	"evicted_bytes", CTL_BYTES },
	{ "FAILURES",	"failures",	CTL_NUMBER },
	{ "MEAN",	"mean_us",	CTL_MICROSECONDS },
	{ "99%",	"p99_us",	CTL_MICROSECONDS },
};

static const struct ctl_column rates[] = {
	{ "STORE",	"name",		CTL_TEXT },
	{ "RESIDENT",	"resident_bytes", CTL_BYTES },
	{ "COLD",	"cold_bytes",	CTL_BYTES },
	{ "CACHED",	"cached_bytes",	CTL_BYTES },
	{ "REQUESTS",	"requests",	CTL_NUMBER },
	{ "FETCHES/s",	"fetches_per_second", CTL_DECIMAL },
	{ "FETCHED/s",	"fetched_bytes_per_second", CTL_BYTES },
	{ "EVICTED/s",	"evicted_bytes_per_second", CTL_BYTES },
	{ "FAILURES",	"failures",	CTL_NUMBER },
	{ "MEAN",	"mean_us",	CTL_MICROSECONDS },
	{ "99%",	"p99_us",	CTL_MICROSECONDS },
};

/**
 * struct watch - a run of lsmemctl tier
 * @names: names of the stores to show; NULL: all tiered stores
 * @interval: seconds between lines; 0: print totals once
 * @count: number of intervals until the end; 0: no end
 */
struct watch {
	struct json_object *names;
	double interval;
	uint64_t count;
};

static struct json_object *make_row(struct json_object *store, struct json_object *tier)
{
	struct json_object *row = json_object_new_object();

	json_object_object_add(row, "name", json_object_get(ctl_find(store, "name")));
	json_object_object_foreach(tier, key, value)
		json_object_object_add(row, key, json_object_get(value));
	return row;
}

/*
 * The figures of the tiered stores in a snapshot.  @before: the snapshot before, NULL: none.
 * A store that is not in @before has rates that are null.
 */
static struct json_object *make_rows(struct json_object *stores, struct json_object *before,
				     double seconds)
{
	struct json_object *rows = json_object_new_array(), *store, *earlier, *tier;
	size_t i;

	for (i = 0; stores && i < json_object_array_length(stores); i++) {
		store = json_object_array_get_idx(stores, i);
		earlier = ctl_store_before(before, store);
		if (before && !earlier)
			tier = ctl_tier_figures(store, store, 0);
		else
			tier = ctl_tier_figures(store, earlier, seconds);
		if (tier)
			json_object_array_add(rows, make_row(store, tier));
		json_object_put(tier);
	}
	return rows;
}

/*
 * Names each store without a tier in an error, and forgets it.
 * Return: an exit code; CTL_FAILED: there was one.
 */
static int refuse_others(struct watch *watch)
{
	struct json_object *stores, *store, *tiered;
	int ret = CTL_OK;
	size_t i;

	if (!watch->names)
		return CTL_OK;
	stores = ctl_stores_named(watch->names);
	tiered = json_object_new_array();
	for (i = 0; i < json_object_array_length(stores); i++) {
		store = json_object_array_get_idx(stores, i);
		if (ctl_find(store, "tier.resident_bytes")) {
			json_object_array_add(tiered, json_object_get(ctl_find(store, "name")));
			continue;
		}
		ctl_error("%s: is not tiered: all its data are in memory", ctl_word(store, "name"));
		ret = CTL_FAILED;
	}
	json_object_put(stores);
	json_object_put(watch->names);
	watch->names = tiered;
	return ret;
}

static int print_totals(const struct watch *watch)
{
	struct json_object *stores = ctl_stores_named(watch->names);
	struct json_object *rows = make_rows(stores, NULL, 0);
	int ret = CTL_OK;

	if (ctl_json)
		ret = ctl_print_json(rows);
	else if (json_object_array_length(rows))
		ret = ctl_print_table(rows, totals, sizeof(totals) / sizeof(*totals));
	json_object_put(rows);
	json_object_put(stores);
	return ret;
}

static int print_rates(struct json_object *rows, double seconds)
{
	int ret = CTL_OK;

	if (ctl_json) {
		ctl_print_interval(seconds, rows);
	} else {
		ret = ctl_print_table(rows, rates, sizeof(rates) / sizeof(*rates));
		printf("\n");
	}
	return fflush(stdout) ? CTL_FAILED : ret;	/* main() says why */
}

/* Returns when no tiered store is left, at the end of the count, or when output fails. */
static int print_repeatedly(const struct watch *watch)
{
	struct json_object *before = ctl_stores_named(watch->names), *stores, *rows;
	double then = ctl_now(), seconds;
	bool any = true;
	uint64_t shown;
	int ret = CTL_OK;

	for (shown = 0; any && !ret && (!watch->count || shown < watch->count); shown++) {
		ctl_pause(then + watch->interval - ctl_now());
		stores = ctl_stores_named(watch->names);
		seconds = ctl_now() - then;
		then += seconds;
		rows = make_rows(stores, before, seconds);
		any = json_object_array_length(rows);
		if (any)
			ret = print_rates(rows, seconds);
		json_object_put(rows);
		json_object_put(before);
		before = stores;
	}
	json_object_put(before);
	if (shown == 1 && !any) {
		ctl_error("there is no tiered store (lsmemctl list shows all)");
		return CTL_FAILED;
	}
	return ret;
}

static int show(struct watch *watch)
{
	int refused, ret = CTL_OK;

	if (!ctl_module_loaded()) {
		ctl_error("the module is not loaded (modprobe lsmem)");
		return CTL_FAILED;
	}
	refused = refuse_others(watch);
	if (!refused || json_object_array_length(watch->names))
		ret = watch->interval > 0 ? print_repeatedly(watch) : print_totals(watch);
	return refused ? refused : ret;
}

static int run(int argc, char **argv)
{
	struct watch watch = { 0 };
	const char *value;
	uint64_t number;
	int option, ret;

	while ((option = ctl_next_option(argc, argv, options, &value)) != -1) {
		if (option < 0)
			return CTL_USAGE;
		if (option == INTERVAL && !ctl_parse_seconds(value, &number))
			return ctl_usage_error("--interval %s: write 1, 0.5 or 250ms", value);
		if (option == INTERVAL)
			watch.interval = (double)number / 1000;
		else if (!ctl_parse_number(value, UINT32_MAX, &watch.count) || !watch.count)
			return ctl_usage_error("--count %s: write a number from 1", value);
		else if (watch.interval <= 0)
			watch.interval = 1;
	}
	ret = ctl_store_names(argc, argv, &watch.names);
	if (!ret)
		ret = show(&watch);
	json_object_put(watch.names);
	return ret;
}

const struct ctl_command ctl_tier = {
	.name = "tier",
	.summary = "Show memory, cold bytes and fetching of tiered stores; with --interval, their rates",
	.usage = "tier [STORE...] [--interval SECONDS] [--count N] [--json]",
	.run = run,
};
