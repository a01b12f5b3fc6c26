// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl clean: request cleaning or compaction of segments, independently of the balancer.
 *
 * A write to cleaner/request_clean or cleaner/request_compact requests a number of segments.  A
 * read returns how many of them are left.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

#define SEGMENTS_MAX	1000000	/* of one request */
#define STEP		0.05	/* seconds between reads of what is left */
#define PATIENCE	60	/* seconds without progress before this program gives up */
#define QUIET		0.25	/* seconds without a change: all seglets are free */
#define QUIET_MAX	3	/* seconds to wait for QUIET */

enum { COMPACT, SEGMENTS, WAIT };

static const struct ctl_option options[] = {
	[COMPACT]	= { "compact", 0, false },
	[SEGMENTS]	= { "segments", 'n', true },
	[WAIT]		= { "wait", 0, true },
	{ 0 }
};

/* Levels of cleaning: name, request file and counters. */
static const struct level {
	const char *name, *file, *segments, *copied, *freed;
} levels[] = {
	{ "clean", "cleaner/request_clean", "cleaner.segments_cleaned", "cleaner.relocated_bytes",
	  "cleaner.freed_bytes" },
	{ "compact", "cleaner/request_compact", "cleaner.compactions", "cleaner.compacted_bytes",
	  "cleaner.compact_freed_bytes" },
};

/**
 * struct request - a request for cleaning or compaction
 * @store: name of the store's node
 * @level: level of cleaning
 * @segments: number of segments; 0: all closed segments
 * @wait: seconds to wait for the end; 0: wait as long as there is progress
 * @left: segments that are not done
 */
struct request {
	char store[LSMEM_NAME_BYTES];
	const struct level *level;
	int64_t segments;
	double wait;
	int64_t left;
};

/* Number of closed segments; of all segments, if the module does not count closed ones. */
static int64_t closed_segments(struct json_object *store)
{
	struct json_object *tenths = ctl_find(store, "cleaner.segments_by_memory");
	int64_t sum = 0;
	size_t i;

	if (!json_object_is_type(tenths, json_type_array))
		return ctl_number(store, "segments");
	for (i = 0; i < json_object_array_length(tenths); i++)
		sum += json_object_get_int64(json_object_array_get_idx(tenths, i));
	return sum < SEGMENTS_MAX ? sum : SEGMENTS_MAX;
}

/* Prints why the kernel refused the request with @error, and what to do. */
static void explain(const struct request *request, struct json_object *store, int error)
{
	struct json_object *state = ctl_find(store, "state");
	bool active = !state || !strcmp(json_object_get_string(state), "active");
	const char *name = request->store;

	switch (error) {
	case ENOENT:
		ctl_error("%s has no %s: the loaded module is older than this program", name,
			  request->level->file);
		break;
	case EACCES:
	case EPERM:
		ctl_error("%s: not permitted: only root has segments cleaned", name);
		break;
	case EAGAIN:
		if (ctl_number(store, "frozen") == 1)
			ctl_error("%s is frozen: another host takes it over", name);
		else if (!active)
			ctl_error("%s is not active: its daemon has not activated it (systemctl status lsmemd)",
				  name);
		else
			ctl_error("%s: no daemon is attached: cleaning needs it (systemctl status lsmemd), --compact does not",
				  name);
		break;
	case ENODEV:
		ctl_error("%s: went away", name);
		break;
	default:
		ctl_system_error(error, "%s: %s", name, request->level->file);
	}
}

/* Writes the request.  Return: 0 or a positive errno. */
static int ask(const struct request *request)
{
	char text[64];
	int fd, ret = 0;

	fd = ctl_open_attribute(request->store, request->level->file, O_WRONLY | O_TRUNC);
	if (fd < 0)
		return errno;
	snprintf(text, sizeof(text), "%" PRId64 "\n", request->segments);
	if (write(fd, text, strlen(text)) < 0)
		ret = errno;
	close(fd);
	return ret;
}

/* Return: number of segments that are left of the request; -1: the file cannot be read. */
static int64_t read_left(const struct request *request)
{
	ssize_t length;
	char text[64];
	int64_t left;
	int fd;

	fd = ctl_open_attribute(request->store, request->level->file, O_RDONLY);
	if (fd < 0)
		return -1;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length < 0)
		return -1;
	text[length] = 0;
	if (sscanf(text, "%" SCNd64, &left) != 1)
		return -1;
	return left > 0 ? left : 0;
}

static void show_progress(const struct request *request)
{
	fprintf(stderr, "\r%s: %s, %" PRId64 " of %" PRId64 " segments left ", request->store,
		request->level->name, request->left, request->segments);
}

/* Waits for the request, updates @request->left.  Return: false: the store no longer exists. */
static bool wait_done(struct request *request)
{
	bool terminal = isatty(STDERR_FILENO);
	double begin = ctl_now(), progress = begin, now;
	int64_t left;

	for (;;) {
		left = read_left(request);
		if (left < 0)
			break;
		now = ctl_now();
		if (left != request->left)
			progress = now;
		request->left = left;
		if (terminal)
			show_progress(request);
		if (!left || (request->wait > 0 ? now - begin >= request->wait :
						  now - progress >= PATIENCE))
			break;
		ctl_pause(STEP);
	}
	if (terminal)
		fprintf(stderr, "\r\033[K");
	return left >= 0;
}

/*
 * Waits until the counters of the store do not change, and returns a snapshot.  Seglets become free
 * some time after their segment is done: when no reader sees them and no backup needs the segment.
 * Return: NULL: the store no longer exists.
 */
static struct json_object *read_quiet(const struct level *level, const char *name)
{
	struct json_object *store = ctl_store_read(name), *before;
	double end = ctl_now() + QUIET_MAX;
	bool quiet = false;

	while (store && !quiet && ctl_now() < end) {
		before = store;
		ctl_pause(QUIET);
		store = ctl_store_read(name);
		quiet = store &&
			ctl_number(store, level->copied) == ctl_number(before, level->copied) &&
			ctl_number(store, "free_seglets") == ctl_number(before, "free_seglets");
		json_object_put(before);
	}
	return store;
}

static const struct ctl_column columns[] = {
	{ "STORE",		"name",			CTL_TEXT },
	{ "LEVEL",		"level",		CTL_TEXT },
	{ "ASKED",		"asked",		CTL_NUMBER },
	{ "LEFT",		"left",			CTL_NUMBER },
	{ "SEGMENTS",		"segments",		CTL_NUMBER },
	{ "COPIED",		"copied_bytes",		CTL_BYTES },
	{ "FREED",		"freed_bytes",		CTL_BYTES },
	{ "FREE-BEFORE",	"free_seglets_before",	CTL_NUMBER },
	{ "FREE-AFTER",		"free_seglets_after",	CTL_NUMBER },
	{ "SECONDS",		"seconds",		CTL_NUMBER },
};

static int print_gain(const struct request *request, struct json_object *before,
		      struct json_object *after, double seconds)
{
	const struct level *level = request->level;
	struct json_object *out = json_object_new_object(), *rows;
	int ret;

	json_object_object_add(out, "name", json_object_new_string(request->store));
	json_object_object_add(out, "level", json_object_new_string(level->name));
	ctl_add_number(out, "asked", request->segments);
	ctl_add_number(out, "left", request->left);
	ctl_add_number(out, "segments",
		       ctl_number(after, level->segments) - ctl_number(before, level->segments));
	ctl_add_number(out, "copied_bytes",
		       ctl_number(after, level->copied) - ctl_number(before, level->copied));
	ctl_add_number(out, "freed_bytes",
		       ctl_number(after, level->freed) - ctl_number(before, level->freed));
	ctl_add_number(out, "free_seglets_before", ctl_number(before, "free_seglets"));
	ctl_add_number(out, "free_seglets_after", ctl_number(after, "free_seglets"));
	ctl_add_decimal(out, "seconds", seconds);
	if (ctl_json) {
		ret = ctl_print_json(out);
		json_object_put(out);
		return ret;
	}
	rows = json_object_new_array();
	json_object_array_add(rows, out);
	ret = ctl_print_table(rows, columns, sizeof(columns) / sizeof(*columns));
	json_object_put(rows);
	return ret;
}

/* Requests, waits and prints the result.  Return: an exit code. */
static int clean(struct request *request, struct json_object *before)
{
	double begin = ctl_now(), seconds;
	struct json_object *after = NULL;
	int ret;

	if (!request->segments)
		request->segments = closed_segments(before);
	request->left = request->segments;
	ret = request->segments ? ask(request) : 0;
	if (ret) {
		explain(request, before, ret);
		return CTL_FAILED;
	}
	if (!request->segments || wait_done(request)) {
		seconds = ctl_now() - begin;
		after = read_quiet(request->level, request->store);
	}
	if (!after) {
		ctl_error("%s: went away", request->store);
		return CTL_FAILED;
	}
	ret = print_gain(request, before, after, seconds);
	if (request->left) {
		ctl_error("%s: %" PRId64 " segments are left; the kernel continues, see lsmemctl top",
			  request->store, request->left);
		ret = CTL_FAILED;
	}
	json_object_put(after);
	return ret;
}

static int run(int argc, char **argv)
{
	struct request request = { .level = &levels[0] };
	struct json_object *before;
	const char *text, *value;
	uint64_t number;
	int option, ret;

	while ((option = ctl_next_option(argc, argv, options, &value)) != -1) {
		if (option < 0)
			return CTL_USAGE;
		if (option == COMPACT) {
			request.level = &levels[1];
		} else if (option == SEGMENTS) {
			if (!ctl_parse_number(value, SEGMENTS_MAX, &number) || !number)
				return ctl_usage_error("--segments %s: write a number, 1 to %d",
						       value, SEGMENTS_MAX);
			request.segments = (int64_t)number;
		} else {
			if (!ctl_parse_seconds(value, &number))
				return ctl_usage_error("--wait %s: write 5, 0.5 or 250ms", value);
			request.wait = (double)number / 1000;
		}
	}
	text = ctl_one_argument(argc, argv, "STORE");
	if (!text || !ctl_store_name(text, request.store))
		return CTL_USAGE;
	if (!ctl_store_exists(request.store))
		return CTL_FAILED;
	before = ctl_store_read(request.store);
	if (!before) {
		ctl_error("%s: went away", request.store);
		return CTL_FAILED;
	}
	ret = clean(&request, before);
	json_object_put(before);
	return ret;
}

const struct ctl_command ctl_clean = {
	.name = "clean",
	.summary = "Clean or compact segments now, wait, and print what was gained",
	.usage = "clean STORE [--compact] [--segments N] [--wait SECONDS] [--json]",
	.run = run,
};
