// SPDX-License-Identifier: GPL-2.0
/* lsmemctl backups: where durable stores are kept, as their daemons say. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

static const struct ctl_option options[] = { { 0 } };

static const struct ctl_column columns[] = {
	{ "STORE",	"store",		CTL_TEXT },
	{ "BACKUP",	"name",			CTL_TEXT },
	{ "STATE",	"state",		CTL_TEXT },
	{ "ACK",	"ack",			CTL_TEXT },
	{ "SEGMENTS",	"frames",		CTL_NUMBER },
	{ "FREE",	"frames_free",		CTL_NUMBER },
	{ "LOW",	"frames_low",		CTL_YES },
	{ "LAG",	"lag_bytes",		CTL_BYTES },
	{ "REQUESTS",	"in_flight",		CTL_NUMBER },
	{ "WRITTEN",	"written_bytes",	CTL_BYTES },
	{ "DOMAIN",	"domain",		CTL_TEXT },
	{ "PATH",	"path",			CTL_TEXT },
	{ "ERROR",	"error",		CTL_TEXT },
};

/* Adds to @rows.  Return: an exit code. */
static int add_store(struct json_object *rows, const char *store)
{
	struct json_object *status = ctl_daemon_status(store, true), *backups;
	int error = errno;
	size_t i;

	if (!status) {
		if (error == ESRCH || error == ENOENT)
			ctl_error("%s: no lsmemd serves it", store);
		else
			ctl_system_error(error, "%s: what its lsmemd says", store);
		return CTL_FAILED;
	}
	backups = ctl_find(status, "backups");
	for (i = 0; backups && i < json_object_array_length(backups); i++) {
		struct json_object *row = json_object_get(json_object_array_get_idx(backups, i));

		json_object_object_add(row, "store", json_object_new_string(store));
		json_object_array_add(rows, row);
	}
	json_object_put(status);
	return CTL_OK;
}

/* Every durable store.  Return: an exit code. */
static int add_all(struct json_object *rows)
{
	struct json_object *stores = ctl_stores_read();
	int ret = CTL_OK;
	size_t i;

	if (!stores)
		return CTL_FAILED;
	for (i = 0; i < json_object_array_length(stores); i++) {
		struct json_object *store = json_object_array_get_idx(stores, i);
		struct json_object *durability = ctl_find(store, "durability");

		if (durability && !strcmp(json_object_get_string(durability), "durable") &&
		    add_store(rows, json_object_get_string(ctl_find(store, "name"))))
			ret = CTL_FAILED;
	}
	json_object_put(stores);
	return ret;
}

static int run(int argc, char **argv)
{
	char name[LSMEM_NAME_BYTES];
	struct json_object *rows;
	const char *value;
	int ret = CTL_OK;

	if (ctl_next_option(argc, argv, options, &value) != -1)
		return CTL_USAGE;
	rows = json_object_new_array();
	if (optind == argc)
		ret = add_all(rows);
	for (; optind < argc && ret != CTL_USAGE; optind++) {
		if (!ctl_store_name(argv[optind], name))
			ret = CTL_USAGE;
		else if (add_store(rows, name))
			ret = CTL_FAILED;
	}
	if (ret != CTL_USAGE && ctl_json)
		ctl_print_json(rows);
	else if (ret != CTL_USAGE && json_object_array_length(rows) &&
		 ctl_print_table(rows, columns, sizeof(columns) / sizeof(*columns)))
		ret = CTL_FAILED;
	json_object_put(rows);
	return ret;
}

const struct ctl_command ctl_backups = {
	.name = "backups",
	.summary = "Show where durable stores are kept: state, space, lag, errors",
	.usage = "backups [STORE...] [--json]",
	.run = run,
};
