// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl: the daemons that move stores, or let them be moved: their status files, and what an operator asks of them by a
 * signal. They answer in their status. See lsmemd(8).
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

#define ANSWER_SECONDS	30.0	/* a host that stands by may be connecting */
#define PAUSE_SECONDS	0.05

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

/**
 * ctl_moves_name() - the name of a store to show
 * @status: of its daemon
 *
 * Return: the given one, else the node, else the uuid.
 */
const char *ctl_moves_name(struct json_object *status)
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

/**
 * ctl_moves_read() - read the statuses of daemons that move stores, or let them be moved
 * @text: node, name or uuid of a store; NULL: of all
 * @failed: set if one cannot be read, which has been printed
 *
 * Return: an array of statuses, each with "file" and "running" too.
 */
struct json_object *ctl_moves_read(const char *text, bool *failed)
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

/**
 * ctl_moves_running() - find the daemon of a store that moves, or can be moved
 * @text: node, name or uuid of the store
 *
 * Return: its status; NULL: there is none, or there are several, which has been printed.
 */
struct json_object *ctl_moves_running(const char *text)
{
	bool failed = false;
	struct json_object *found = ctl_moves_read(text, &failed), *running = NULL;
	size_t i, nr = 0;

	for (i = 0; i < json_object_array_length(found); i++) {
		struct json_object *status = json_object_array_get_idx(found, i);

		if (!json_object_get_boolean(ctl_find(status, "running")))
			continue;
		running = status;
		nr++;
	}
	if (nr > 1)
		ctl_error("%s: several lsmemd on this host have a store of this name or uuid: name its node", text);
	else if (!nr && !failed)
		ctl_error("%s: no lsmemd on this host moves it or can let it be moved", text);
	running = nr == 1 ? json_object_get(running) : NULL;
	json_object_put(found);
	return running;
}

/**
 * ctl_moves_of() - read the newest status of a daemon, as it is
 * @before: an earlier one: while a store is moved here its file has the name of the uuid, and then that of the node
 *
 * Return: the status; NULL: there is none.
 */
struct json_object *ctl_moves_of(struct json_object *before)
{
	struct json_object *status = ctl_daemon_read(ctl_word(before, "file")), *found = NULL;
	struct dirent **files;
	int nr, i;

	if (status && ctl_number(status, "pid") == ctl_number(before, "pid"))
		return status;
	json_object_put(status);
	nr = scandir(CTL_RUN, &files, is_file, alphasort);
	for (i = 0; i < nr; i++) {
		status = found ? NULL : ctl_daemon_read(files[i]->d_name);
		if (status && ctl_number(status, "pid") == ctl_number(before, "pid"))
			found = json_object_get(status);
		json_object_put(status);
		free(files[i]);
	}
	if (nr >= 0)
		free(files);
	return found;
}

/* Waits for the answer of the daemon, which may end after it. Return: its status; NULL: there was none. */
static struct json_object *wait_for_answer(struct json_object *before, const char *count)
{
	double end = ctl_now() + ANSWER_SECONDS;
	struct json_object *status;

	while (ctl_now() < end) {
		ctl_daemon_signal(before, SIGUSR1);
		ctl_pause(PAUSE_SECONDS);
		status = ctl_moves_of(before);
		if (status && ctl_number(status, count) > ctl_number(before, count))
			return status;
		json_object_put(status);
	}
	return NULL;
}

/**
 * ctl_moves_ask() - ask a daemon for something that it answers in its status
 * @before: its status, from ctl_moves_running()
 * @number: of the signal
 * @what: "cancel" or "ask": the keys of the answer begin with that
 * @after: out: the status with the answer, or NULL
 *
 * Return: 0; -1: it refuses, or does not answer, which has been printed.
 */
int ctl_moves_ask(struct json_object *before, int number, const char *what, struct json_object **after)
{
	const char *name = ctl_moves_name(before);
	char count[32], refused[32];
	int error;

	*after = NULL;
	snprintf(count, sizeof(count), "move.%ss", what);
	snprintf(refused, sizeof(refused), "move.%s_refused", what);
	/* The signal would end a daemon that does not know it. */
	if (!ctl_find(before, count)) {
		ctl_error("%s: its lsmemd is older than this command", name);
		return -1;
	}
	error = ctl_daemon_signal(before, number);
	if (error) {
		ctl_system_error(-error, "%s: cannot send its lsmemd a signal", name);
		return -1;
	}
	*after = wait_for_answer(before, count);
	if (!*after) {
		ctl_error("%s: its lsmemd does not answer", name);
		return -1;
	}
	if (!*ctl_word(*after, refused))
		return 0;
	ctl_error("%s: is not %s: %s", name, number == SIGUSR2 ? "cancelled" : "moved", ctl_word(*after, refused));
	return -1;
}
