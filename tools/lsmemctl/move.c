// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl move: show the moves of stores from and to this host, and cancel one.
 * The daemon cancels on SIGUSR2, and answers in its status. See lsmemd(8).
 */
#include <signal.h>
#include <stdio.h>

#include "ctl.h"

static const struct ctl_option options[] = {
	{ "cancel", 'c', false },
	{ 0 },
};

static const struct ctl_column columns[] = {
	{ "STORE",	"name",			CTL_TEXT },
	{ "ROLE",	"role",			CTL_TEXT },
	{ "STATE",	"state",		CTL_TEXT },
	{ "RUNS",	"running",		CTL_YES },
	{ "HOST",	"host",			CTL_TEXT },
	{ "BLOCKS",	"blocks",		CTL_NUMBER },
	{ "TOLD",	"bytes",		CTL_BYTES },
	{ "OBJECTS",	"objects",		CTL_NUMBER },
	{ "LEFT",	"segments_left",	CTL_NUMBER },
	{ "STOPPED",	"stopped_us",		CTL_MICROSECONDS },
	{ "CAME",	"came_bytes",		CTL_BYTES },
	{ "TO COME",	"bring_left_bytes",	CTL_BYTES },
	{ "ENDS",	"ends",			CTL_NUMBER },
	{ "LAST END",	"last_end",		CTL_TEXT },
};

/* What is shown of a status: its move, with the store. */
static struct json_object *make_row(struct json_object *status)
{
	struct json_object *row = json_object_get(ctl_find(status, "move")), *last = ctl_find(row, "last");
	const char *const keys[] = { "store", "uuid", "running" };
	size_t i;

	json_object_object_add(row, "name", json_object_new_string(ctl_moves_name(status)));
	for (i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		json_object_object_add(row, keys[i], json_object_get(ctl_find(status, keys[i])));
	if (!ctl_json) {
		char text[512] = "";

		if (last)
			snprintf(text, sizeof(text), "%s: %s", ctl_word(last, "host"), ctl_word(last, "cause"));
		json_object_object_add(row, "last_end", json_object_new_string(text));
		if (ctl_find(row, "stopped_seconds"))
			json_object_object_add(row, "stopped_us", json_object_new_double(
				json_object_get_double(ctl_find(row, "stopped_seconds")) * 1e6));
		if (ctl_find(row, "brought_bytes"))
			json_object_object_add(row, "came_bytes", json_object_new_int64(
				ctl_number(row, "brought_bytes") + ctl_number(row, "pulled_bytes")));
	}
	return row;
}

/* Adds the moves of the store @text to @rows, or all. Return: an exit code. */
static int add_moves(struct json_object *rows, const char *text)
{
	bool failed = false;
	struct json_object *found = ctl_moves_read(text, &failed);
	size_t i, nr = json_object_array_length(found);

	for (i = 0; i < nr; i++)
		json_object_array_add(rows, make_row(json_object_array_get_idx(found, i)));
	json_object_put(found);
	if (text && !nr && !failed) {
		ctl_error("%s: no lsmemd on this host moves it or can let it be moved ([move] in its configuration)", text);
		failed = true;
	}
	return failed ? CTL_FAILED : CTL_OK;
}

/* Return: an exit code. */
static int cancel(const char *text)
{
	struct json_object *status = ctl_moves_running(text), *after = NULL;
	int ret = CTL_FAILED;

	if (status && !ctl_moves_ask(status, SIGUSR2, "cancel", &after))
		ret = CTL_OK;
	json_object_put(after);
	json_object_put(status);
	return ret;
}

static int run(int argc, char **argv)
{
	bool cancels = false;
	struct json_object *rows;
	const char *value;
	int ret = CTL_OK, option;

	while ((option = ctl_next_option(argc, argv, options, &value)) >= 0)
		cancels = true;
	if (option != -1)
		return CTL_USAGE;
	if (cancels) {
		value = ctl_one_argument(argc, argv, "STORE");
		return value ? cancel(value) : CTL_USAGE;
	}
	rows = json_object_new_array();
	if (optind == argc)
		ret = add_moves(rows, NULL);
	for (; optind < argc; optind++)
		if (add_moves(rows, argv[optind]))
			ret = CTL_FAILED;
	if (ctl_json)
		ctl_print_json(rows);
	else if (json_object_array_length(rows) && ctl_print_table(rows, columns, sizeof(columns) / sizeof(*columns)))
		ret = CTL_FAILED;
	json_object_put(rows);
	return ret;
}

const struct ctl_command ctl_move = {
	.name = "move",
	.summary = "Show the moves of stores from and to this host, or cancel one",
	.usage = "move [STORE...] [--json] | move --cancel STORE",
	.run = run,
};
