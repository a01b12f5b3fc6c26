// SPDX-License-Identifier: GPL-2.0
/* lsmemctl list: print one line for each store. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

static const struct ctl_option options[] = { { 0 } };

static const struct ctl_column columns[] = {
	{ "NAME",	"name",			CTL_TEXT },
	{ "KIND",	"kind",			CTL_TEXT },
	{ "DURABILITY",	"durability",		CTL_TEXT },
	{ "STATE",	"state",		CTL_TEXT },
	{ "SIZE",	"size_bytes",		CTL_BYTES },
	{ "CAPACITY",	"capacity_bytes",	CTL_BYTES },
	{ "LIVE",	"live_bytes",		CTL_BYTES },
	{ "USE%",	"used_percent",		CTL_DECIMAL },
	{ "SEGMENTS",	"segments",		CTL_NUMBER },
	{ "HANDLES",	"handles_used",		CTL_NUMBER },
	{ "GIVEN",	"given_name",		CTL_TEXT },
};

/* Does a daemon of this host stand by for the store, which another host serves? */
static bool stands_by(struct json_object *store)
{
	char file[64];
	struct json_object *status;
	bool yes;

	snprintf(file, sizeof(file), "%s.json", ctl_word(store, "uuid"));
	status = ctl_daemon_read(file);
	yes = json_object_get_boolean(ctl_find(status, "move.standby"));
	json_object_put(status);
	return yes;
}

/* In the table, a store that its daemon has frozen is not "active", and one that a daemon stands by for not "recovering". */
static void show_states(struct json_object *stores)
{
	size_t i;

	for (i = 0; i < json_object_array_length(stores); i++) {
		struct json_object *store = json_object_array_get_idx(stores, i);

		if (ctl_number(store, "frozen") == 1)
			json_object_object_add(store, "state", json_object_new_string("frozen"));
		else if (ctl_number(store, "attached") == 1 && strcmp(ctl_word(store, "state"), "active") &&
			 stands_by(store))
			json_object_object_add(store, "state", json_object_new_string("standby"));
	}
}

static int run(int argc, char **argv)
{
	struct json_object *stores;
	const char *value;
	int ret;

	if (ctl_next_option(argc, argv, options, &value) != -1)
		return CTL_USAGE;
	if (optind < argc)
		return ctl_usage_error("too many arguments: '%s'", argv[optind]);
	stores = ctl_stores_read();
	if (!stores)
		return CTL_FAILED;
	if (!ctl_json)
		show_states(stores);
	if (ctl_json)
		ret = ctl_print_json(stores);
	else if (json_object_array_length(stores))
		ret = ctl_print_table(stores, columns, sizeof(columns) / sizeof(*columns));
	else
		ret = CTL_OK;
	json_object_put(stores);
	return ret;
}

const struct ctl_command ctl_list = {
	.name = "list",
	.summary = "Show all stores",
	.usage = "list [--json]",
	.run = run,
};
