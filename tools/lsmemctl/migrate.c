// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl migrate: have the host that stands by move a store to itself, and wait until it has. On either host: the daemon
 * that gets SIGRTMIN begins the move, or tells its target so. See lsmemd(8).
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

#define PAUSE_SECONDS	0.1

static const struct ctl_option options[] = {
	{ "no-wait", 'n', false },
	{ 0 },
};

/**
 * struct migration - a move that was asked for
 * @name: of the store, as it is shown
 * @source: it was the source
 * @ends: moves that had ended when the daemon has answered
 * @host: that gets the store, as far as it is known
 * @why: it has failed: the cause
 * @stopped: seconds that clients were stopped
 */
struct migration {
	const char *name;
	bool source;
	int64_t ends;
	char host[128], why[512];
	double stopped;
};

/* Return: 1: it is over, and the store was moved; -1: it is over, and was not; 0: it goes on. */
static int judge(struct migration *m, struct json_object *status)
{
	bool ended = ctl_number(status, "move.ends") > m->ends;

	if (!m->source && *ctl_word(status, "cluster_host"))
		snprintf(m->host, sizeof(m->host), "%s", ctl_word(status, "cluster_host"));
	if (ctl_find(status, "move.stopped_seconds"))
		m->stopped = json_object_get_double(ctl_find(status, "move.stopped_seconds"));
	if (m->source) {
		/* A daemon that has given its store away may stand by. */
		if (!strcmp(ctl_word(status, "state"), "moved") || !strcmp(ctl_word(status, "move.role"), "target"))
			return 1;
		ended &= !strcmp(ctl_word(status, "move.state"), "serves");
	} else if (!strcmp(ctl_word(status, "state"), "active")) {
		return 1;
	}
	if (ended)
		snprintf(m->why, sizeof(m->why), "%s", ctl_word(status, "move.last.cause"));
	return ended ? -1 : 0;
}

static void show(const struct migration *m, struct json_object *status)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%s: %s, %lld objects\033[K", m->name, ctl_word(status, "move.state"),
			(long long)ctl_number(status, "move.objects"));
}

/* Return: as judge(), but not 0. */
static int wait_for_end(struct migration *m, struct json_object *before)
{
	struct json_object *status;
	bool gone;
	int ret;

	do {
		gone = ctl_daemon_signal(before, SIGUSR1);
		ctl_pause(PAUSE_SECONDS);
		status = ctl_moves_of(before);
		ret = status ? judge(m, status) : 0;
		if (status && !ret)
			show(m, status);
		json_object_put(status);
	} while (!ret && !gone);
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	if (ret)
		return ret;
	snprintf(m->why, sizeof(m->why), "its lsmemd has ended: see its log");
	return -1;
}

static int tell_end(const struct migration *m, int ret)
{
	char text[32];
	struct json_object *row;

	if (ret < 0) {
		ctl_error("%s: is not moved: %s", m->name, m->why);
		return CTL_FAILED;
	}
	if (ctl_json) {
		row = json_object_new_object();
		json_object_object_add(row, "store", json_object_new_string(m->name));
		json_object_object_add(row, "host", json_object_new_string(m->host));
		json_object_object_add(row, "stopped_seconds", json_object_new_double(m->stopped));
		return ctl_print_json(row);
	}
	printf("%s: host %s has it; its clients waited for %s\n", m->name, *m->host ? m->host : "that stood by",
	       ctl_time_text(m->stopped * 1e6, text, sizeof(text)));
	return CTL_OK;
}

/* The host that is to get the store is the one that @status tells of. */
static bool is_host(struct migration *m, struct json_object *status, const char *host)
{
	snprintf(m->host, sizeof(m->host), "%s", ctl_word(status, m->source ? "move.host" : "cluster_host"));
	if (!host || !strcmp(host, m->host))
		return true;
	if (*m->host)
		ctl_error("%s: host %s stands by for it, not %s", m->name, m->host, host);
	else
		ctl_error("%s: host %s does not stand by for it", m->name, host);
	return false;
}

static int migrate(const char *store, const char *host, bool waits)
{
	struct json_object *before = ctl_moves_running(store), *after = NULL;
	struct migration m;
	int ret = CTL_FAILED;

	if (!before)
		return CTL_FAILED;
	m = (struct migration){
		.name = ctl_moves_name(before), .source = !strcmp(ctl_word(before, "move.role"), "source"),
	};
	if (is_host(&m, before, host) && !ctl_moves_ask(before, SIGRTMIN, "ask", &after)) {
		m.ends = ctl_number(after, "move.ask_ends");
		ret = waits ? tell_end(&m, wait_for_end(&m, before)) : CTL_OK;
	}
	json_object_put(after);
	json_object_put(before);
	return ret;
}

static int run(int argc, char **argv)
{
	bool waits = true;
	const char *value;
	int option;

	while ((option = ctl_next_option(argc, argv, options, &value)) >= 0)
		waits = false;
	if (option != -1)
		return CTL_USAGE;
	if (argc - optind < 1 || argc - optind > 2)
		return ctl_usage_error("migrate: STORE, and a HOST if it is to be checked");
	return migrate(argv[optind], argv[optind + 1], waits);
}

const struct ctl_command ctl_migrate = {
	.name = "migrate",
	.summary = "Have the host that stands by move a store to itself",
	.usage = "migrate STORE [HOST] [--no-wait] [--json]",
	.run = run,
};
