// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl move: show the moves of stores from and to this host, from the status files of their daemons, and cancel one.
 * The daemon cancels on SIGUSR2, and answers in its status. See lsmemd(8).
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

#define ANSWER_SECONDS	5.0
#define PAUSE_SECONDS	0.05

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

/* Is @text the store of this status: its node, its given name or its uuid, or a path of these in /dev? */
static bool is_named(struct json_object *status, const char *text)
{
	static const char *const keys[] = { "store", "given_name", "uuid" };
	const char *slash = strrchr(text, '/');
	size_t i;

	if (slash)
		text = slash + 1;
	for (i = 0; *text && i < sizeof(keys) / sizeof(*keys); i++)
		if (!strcmp(ctl_word(status, keys[i]), text))
			return true;
	return false;
}

/* The name to show: the given one, else the node, else the uuid. */
static const char *name_of(struct json_object *status)
{
	if (*ctl_word(status, "given_name"))
		return ctl_word(status, "given_name");
	return *ctl_word(status, "store") ? ctl_word(status, "store") : ctl_word(status, "uuid");
}

/*
 * Return: the status in @file, as new as its daemon can tell; "running" says whether that runs. NULL: it is no status with a
 * move, or, which has been printed, the daemon does not answer: then *@failed is set.
 */
static struct json_object *read_move(const char *file, bool *failed)
{
	struct json_object *status = ctl_daemon_file(file, true);
	bool running = status;

	if (!status && errno == ESRCH)
		status = ctl_daemon_read(file);
	else if (!status && errno != ENOENT) {
		ctl_system_error(errno, "%s: cannot get the status of its lsmemd", file);
		*failed = true;
	}
	if (status && !ctl_find(status, "move")) {
		json_object_put(status);
		return NULL;
	}
	if (status)
		json_object_object_add(status, "running", json_object_new_boolean(running));
	return status;
}

static int is_file(const struct dirent *entry)
{
	const char *end = strrchr(entry->d_name, '.');

	return end && !strcmp(end, ".json");
}

/*
 * The statuses of moves, of the store @text, or of all if it is NULL: an array of objects with "file" too. Errors have been
 * printed.
 */
static struct json_object *read_moves(const char *text, bool *failed)
{
	struct json_object *found = json_object_new_array(), *status;
	struct dirent **files;
	int nr = scandir(CTL_RUN, &files, is_file, alphasort), i;

	for (i = 0; i < nr; i++) {
		status = read_move(files[i]->d_name, failed);
		if (status && (!text || is_named(status, text))) {
			json_object_object_add(status, "file", json_object_new_string(files[i]->d_name));
			json_object_array_add(found, status);
		} else {
			json_object_put(status);
		}
		free(files[i]);
	}
	if (nr >= 0)
		free(files);
	return found;
}

/* What is shown of a status: its move, with the store. */
static struct json_object *make_row(struct json_object *status)
{
	struct json_object *row = json_object_get(ctl_find(status, "move")), *last = ctl_find(row, "last");
	const char *const keys[] = { "store", "uuid", "running" };
	size_t i;

	json_object_object_add(row, "name", json_object_new_string(name_of(status)));
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
	struct json_object *found = read_moves(text, &failed);
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

/* ---- Cancelling ---------------------------------------------------------------- */

/* Waits for the answer of the daemon, which may end after it. Return: its status; NULL: there was none. */
static struct json_object *wait_for_answer(struct json_object *before)
{
	double end = ctl_now() + ANSWER_SECONDS;
	struct json_object *status;

	while (ctl_now() < end) {
		ctl_daemon_signal(before, SIGUSR1);
		ctl_pause(PAUSE_SECONDS);
		status = ctl_daemon_read(ctl_word(before, "file"));
		if (status && ctl_number(status, "move.cancels") > ctl_number(before, "move.cancels"))
			return status;
		json_object_put(status);
	}
	return NULL;
}

/* Return: an exit code. */
static int cancel_one(struct json_object *before)
{
	const char *name = name_of(before), *refused;
	struct json_object *status;
	int error;

	/* The signal would end a daemon that does not know it. */
	if (!ctl_find(before, "move.cancels")) {
		ctl_error("%s: its lsmemd is older than this command: stop it to end the move", name);
		return CTL_FAILED;
	}
	error = ctl_daemon_signal(before, SIGUSR2);
	if (error) {
		ctl_system_error(-error, "%s: cannot send its lsmemd a signal", name);
		return CTL_FAILED;
	}
	status = wait_for_answer(before);
	if (!status) {
		ctl_error("%s: its lsmemd does not answer", name);
		return CTL_FAILED;
	}
	refused = ctl_word(status, "move.cancel_refused");
	error = *refused ? CTL_FAILED : CTL_OK;
	if (*refused)
		ctl_error("%s: is not cancelled: %s", name, refused);
	json_object_put(status);
	return error;
}

static int cancel(const char *text)
{
	bool failed = false;
	struct json_object *found = read_moves(text, &failed), *running = NULL;
	size_t i, nr = 0;
	int ret = CTL_FAILED;

	for (i = 0; i < json_object_array_length(found); i++) {
		struct json_object *status = json_object_array_get_idx(found, i);

		if (!json_object_get_boolean(ctl_find(status, "running")))
			continue;
		running = status;
		nr++;
	}
	if (nr == 1)
		ret = cancel_one(running);
	else if (nr)
		ctl_error("%s: several lsmemd on this host have a store of this name or uuid: name its node", text);
	else if (!failed)
		ctl_error("%s: no lsmemd on this host moves it or can let it be moved", text);
	json_object_put(found);
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
