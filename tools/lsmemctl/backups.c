// SPDX-License-Identifier: GPL-2.0
/* lsmemctl backups: show the backups of durable stores, from the status files of their daemons. */
#include <errno.h>
#include <inttypes.h>
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
	{ "SHARDS",	"shards",		CTL_TEXT },
	{ "LAG",	"lag_bytes",		CTL_BYTES },
	{ "REQUESTS",	"in_flight",		CTL_NUMBER },
	{ "WRITTEN",	"written_bytes",	CTL_BYTES },
	{ "DOMAIN",	"domain",		CTL_TEXT },
	{ "PATH",	"path",			CTL_TEXT },
	{ "ERROR",	"error",		CTL_TEXT },
};

/* Status fields of a store that has an owner in etcd. */
static const char *const owner_fields[] = {
	"cluster_host", "cluster_term", "cluster_left_seconds", "cluster_members_stale",
};

/* Of a coded store: its code, and "3 data, 2 parity", with ", 4 replicas" if there are any; "" of other stores. */
static void add_shards(struct json_object *row, struct json_object *status)
{
	struct json_object *code = ctl_find(status, "code");
	int64_t replicas = json_object_get_int64(ctl_find(row, "replicas"));
	char text[96] = "";
	int n;

	if (code) {
		json_object_object_add(row, "code", json_object_get(code));
		n = snprintf(text, sizeof(text), "%" PRId64 " data, %" PRId64 " parity",
			     json_object_get_int64(ctl_find(row, "data_shards")),
			     json_object_get_int64(ctl_find(row, "parity_shards")));
		if (replicas)
			snprintf(text + n, sizeof(text) - (size_t)n, ", %" PRId64 " replicas", replicas);
	}
	json_object_object_add(row, "shards", json_object_new_string(text));
}

static void add_owner(struct json_object *row, struct json_object *status)
{
	struct json_object *value;
	size_t i;

	for (i = 0; i < sizeof(owner_fields) / sizeof(*owner_fields); i++) {
		value = ctl_find(status, owner_fields[i]);
		if (value)
			json_object_object_add(row, owner_fields[i], json_object_get(value));
	}
}

/* Prints a line for each store that has an owner in etcd.  Rows of one store are adjacent. */
static void print_owners(struct json_object *rows)
{
	const char *before = "", *store;
	struct json_object *row;
	size_t i;

	for (i = 0; i < json_object_array_length(rows); i++) {
		row = json_object_array_get_idx(rows, i);
		store = json_object_get_string(ctl_find(row, "store"));
		if (!strcmp(store, before) || !ctl_find(row, "cluster_host"))
			continue;
		before = store;
		printf("%s: host %s owns it, term %" PRId64 "; its lease ends in %.1f s if etcd does not answer%s\n",
		       store, json_object_get_string(ctl_find(row, "cluster_host")),
		       json_object_get_int64(ctl_find(row, "cluster_term")),
		       json_object_get_double(ctl_find(row, "cluster_left_seconds")),
		       json_object_get_boolean(ctl_find(row, "cluster_members_stale")) ?
		       "; where its backups are, etcd has not been told yet" : "");
	}
}

/* Adds the backups of @store to @rows.  Return: an exit code. */
static int add_store(struct json_object *rows, const char *store)
{
	struct json_object *status = ctl_daemon_status(store, true), *backups;
	int error = errno;
	size_t i;

	if (!status) {
		if (error == ESRCH || error == ENOENT)
			ctl_error("%s: no lsmemd serves it", store);
		else
			ctl_system_error(error, "%s: cannot get the status of its lsmemd", store);
		return CTL_FAILED;
	}
	backups = ctl_find(status, "backups");
	for (i = 0; backups && i < json_object_array_length(backups); i++) {
		struct json_object *row = json_object_get(json_object_array_get_idx(backups, i));

		json_object_object_add(row, "store", json_object_new_string(store));
		add_shards(row, status);
		add_owner(row, status);
		json_object_array_add(rows, row);
	}
	json_object_put(status);
	return CTL_OK;
}

/* Is @store served, or recovered by a daemon that reports?  Not so on a host that stands by. */
static bool is_served(struct json_object *store)
{
	char file[LSMEM_NAME_BYTES + 8];
	struct json_object *status;
	bool reported;

	if (!strcmp(ctl_word(store, "state"), "active"))
		return true;
	snprintf(file, sizeof(file), "%s.json", ctl_word(store, "name"));
	status = ctl_daemon_read(file);
	reported = status;
	json_object_put(status);
	return reported;
}

/* Adds all durable stores to @rows that are served.  Return: an exit code. */
static int add_all(struct json_object *rows)
{
	struct json_object *stores = ctl_stores_read();
	int ret = CTL_OK;
	size_t i;

	if (!stores)
		return CTL_FAILED;
	for (i = 0; i < json_object_array_length(stores); i++) {
		struct json_object *store = json_object_array_get_idx(stores, i);

		if (!strcmp(ctl_word(store, "durability"), "durable") && is_served(store) &&
		    add_store(rows, ctl_word(store, "name")))
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
	else if (ret != CTL_USAGE && json_object_array_length(rows)) {
		if (ctl_print_table(rows, columns, sizeof(columns) / sizeof(*columns)))
			ret = CTL_FAILED;
		print_owners(rows);
	}
	json_object_put(rows);
	return ret;
}

const struct ctl_command ctl_backups = {
	.name = "backups",
	.summary = "Show the backups of durable stores: state, space, lag, errors",
	.usage = "backups [STORE...] [--json]",
	.run = run,
};
