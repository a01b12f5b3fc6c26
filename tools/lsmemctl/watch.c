// SPDX-License-Identifier: GPL-2.0
/* lsmemctl: show figures of those stores that have them, once or repeatedly: tier, pages. */
#include <stdio.h>

#include "ctl.h"

enum { INTERVAL, COUNT };

static const struct ctl_option options[] = {
	[INTERVAL]	= { "interval", 'i', true },
	[COUNT]		= { "count", 'n', true },
	{ 0 }
};

/**
 * struct watch - a run of one of the commands
 * @what: which one
 * @names: names of the stores to show; NULL: all that have the figures
 * @interval: seconds between lines; 0: print totals once
 * @count: number of intervals until the end; 0: no end
 */
struct watch {
	const struct ctl_watched *what;
	struct json_object *names;
	double interval;
	uint64_t count;
};

static struct json_object *make_row(struct json_object *store, struct json_object *figures)
{
	struct json_object *row = json_object_new_object();

	json_object_object_add(row, "name", json_object_get(ctl_find(store, "name")));
	json_object_object_foreach(figures, key, value)
		json_object_object_add(row, key, json_object_get(value));
	return row;
}

/*
 * The figures of the stores in a snapshot that have them.  @before: the snapshot before, NULL: none.
 * A store that is not in @before has rates that are null.
 */
static struct json_object *make_rows(const struct watch *watch, struct json_object *stores,
				     struct json_object *before, double seconds)
{
	struct json_object *rows = json_object_new_array(), *store, *earlier, *figures;
	size_t i;

	for (i = 0; stores && i < json_object_array_length(stores); i++) {
		store = json_object_array_get_idx(stores, i);
		earlier = ctl_store_before(before, store);
		if (before && !earlier)
			figures = watch->what->figures(store, store, 0);
		else
			figures = watch->what->figures(store, earlier, seconds);
		if (figures)
			json_object_array_add(rows, make_row(store, figures));
		json_object_put(figures);
	}
	return rows;
}

/*
 * Names each store without the figures in an error, and forgets it.
 * Return: an exit code; CTL_FAILED: there was one.
 */
static int refuse_others(struct watch *watch)
{
	struct json_object *stores, *store, *having;
	int ret = CTL_OK;
	size_t i;

	if (!watch->names)
		return CTL_OK;
	stores = ctl_stores_named(watch->names);
	having = json_object_new_array();
	for (i = 0; i < json_object_array_length(stores); i++) {
		store = json_object_array_get_idx(stores, i);
		if (ctl_find(store, watch->what->key)) {
			json_object_array_add(having, json_object_get(ctl_find(store, "name")));
			continue;
		}
		ctl_error("%s: %s", ctl_word(store, "name"), watch->what->without);
		ret = CTL_FAILED;
	}
	json_object_put(stores);
	json_object_put(watch->names);
	watch->names = having;
	return ret;
}

static int print_totals(const struct watch *watch)
{
	struct json_object *stores = ctl_stores_named(watch->names);
	struct json_object *rows = make_rows(watch, stores, NULL, 0);
	int ret = CTL_OK;

	if (ctl_json)
		ret = ctl_print_json(rows);
	else if (json_object_array_length(rows))
		ret = ctl_print_table(rows, watch->what->totals, watch->what->nr_totals);
	json_object_put(rows);
	json_object_put(stores);
	return ret;
}

static int print_rates(const struct watch *watch, struct json_object *rows, double seconds)
{
	int ret = CTL_OK;

	if (ctl_json) {
		ctl_print_interval(seconds, rows);
	} else {
		ret = ctl_print_table(rows, watch->what->rates, watch->what->nr_rates);
		printf("\n");
	}
	return fflush(stdout) ? CTL_FAILED : ret;	/* main() says why */
}

/* Returns when no such store is left, at the end of the count, or when output fails. */
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
		rows = make_rows(watch, stores, before, seconds);
		any = json_object_array_length(rows);
		if (any)
			ret = print_rates(watch, rows, seconds);
		json_object_put(rows);
		json_object_put(before);
		before = stores;
	}
	json_object_put(before);
	if (shown == 1 && !any) {
		ctl_error("there is no %s store (lsmemctl list shows all)", watch->what->kind);
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

/**
 * ctl_watch() - show figures of stores, once or repeatedly
 * @argc: as for the function of a command
 * @argv: the same
 * @what: which figures
 *
 * Return: an exit code.
 */
int ctl_watch(int argc, char **argv, const struct ctl_watched *what)
{
	struct watch watch = { .what = what };
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
