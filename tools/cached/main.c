// SPDX-License-Identifier: GPL-2.0
/* lsmemcached: start and stop. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cached.h"

#define OTHER_DESCRIPTORS	64u	/* of the store, sockets, signals */

struct cached cached = {
	.evicting = PTHREAD_MUTEX_INITIALIZER,
	.flushing = PTHREAD_MUTEX_INITIALIZER,
};

static bool pidfile_written, upkeep_started;
static unsigned int workers_started;

static const char *store_name(void)
{
	return cached.options.store ? cached.options.store : LSM_DEFAULT_STORE;
}

static const char *advice(int error)
{
	switch (error) {
	case -ENOENT:
		return ": make it with lsmemctl create, or give another one with --store";
	case -EACCES:
	case -EPERM:
		return ": its owner can be set with lsmemctl create --owner";
	case -EAGAIN:
		return ": its daemon has not recovered it yet";
	case -EOPNOTSUPP:
		return ": the store is volatile, make it with lsmemctl create --durable, or leave out --durable";
	}
	return "";
}

static int store_error(const char *what, int error)
{
	fprintf(stderr, "lsmemcached: %s: %s: %s%s\n", store_name(), what, lsm_strerror(error), advice(error));
	return error;
}

static int store_open(void)
{
	int ret = lsm_open(cached.options.store, 0, &cached.lsm);

	if (ret)
		return store_error("cannot open the store", ret);
	ret = lsm_table_open(cached.lsm, cached.options.table, 0, &cached.table);
	if (ret)
		return store_error("cannot open the table", ret);
	ret = item_flush_load();
	if (ret)
		return store_error("cannot use the table", ret);
	ret = cached.options.durable ? lsm_sync(cached.lsm, 0) : 0;
	return ret ? store_error("cannot make changes durable", ret) : 0;
}

/* As many descriptors as connections, and some; if there cannot be as many, fewer connections */
static int raise_limit(void)
{
	rlim_t others = OTHER_DESCRIPTORS + 2 * cached.options.threads, wanted = cached.options.connections + others;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit)) {
		perror("lsmemcached: getrlimit");
		return -1;
	}
	if (limit.rlim_cur >= wanted)
		return 0;
	limit.rlim_cur = wanted;
	if (limit.rlim_max < wanted)
		limit.rlim_max = wanted;
	if (!setrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_max <= others) {
		fprintf(stderr, "lsmemcached: -c %u, -t %u: the limit of descriptors is too low, see ulimit -n\n",
			cached.options.connections, cached.options.threads);
		return -1;
	}
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (cached.options.connections > limit.rlim_max - others)
		cached.options.connections = (unsigned int)(limit.rlim_max - others);
	fprintf(stderr, "lsmemcached: the limit of descriptors is low: %u connections at most, see ulimit -n\n",
		cached.options.connections);
	return 0;
}

static void block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int write_pidfile(void)
{
	FILE *file;

	if (!cached.options.pidfile)
		return 0;
	file = fopen(cached.options.pidfile, "w");
	pidfile_written = file;
	if (!file || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file)) {
		fprintf(stderr, "lsmemcached: -P %s: %s\n", cached.options.pidfile, strerror(errno));
		return -1;
	}
	return 0;
}

static int start(void)
{
	int ret;

	cached.workers = calloc(cached.options.threads, sizeof(*cached.workers));
	if (!cached.workers) {
		fprintf(stderr, "lsmemcached: -t %u: no memory\n", cached.options.threads);
		return -1;
	}
	for (; workers_started < cached.options.threads; workers_started++) {
		ret = worker_start(&cached.workers[workers_started]);
		if (ret) {
			fprintf(stderr, "lsmemcached: cannot start thread %u of %u: %s\n", workers_started + 1,
				cached.options.threads, strerror(-ret));
			return -1;
		}
	}
	ret = upkeep_start();
	if (ret) {
		fprintf(stderr, "lsmemcached: cannot start the thread that removes items: %s\n", strerror(-ret));
		return -1;
	}
	upkeep_started = true;
	return 0;
}

/* What was started, which may be a part */
static void stop(void)
{
	__atomic_store_n(&cached.stop, true, __ATOMIC_RELEASE);
	while (workers_started)
		worker_stop(&cached.workers[--workers_started]);
	if (upkeep_started)
		upkeep_stop();
	free(cached.workers);
	lsm_table_close(cached.table);
	lsm_close(cached.lsm);
	if (pidfile_written)
		unlink(cached.options.pidfile);
}

int main(int argc, char **argv)
{
	int ret = cached_options_parse(argc, argv, &cached.options);

	if (ret)
		return ret < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	block_signals();
	cached.started = item_now();
	cached.detail = cached.options.detail;
	if (auth_load() || tls_load() || raise_limit())
		return EXIT_FAILURE;
	/* Each prints what is wrong */
	ret = store_open() || listen_open() || write_pidfile() || start();
	if (!ret && cached.options.verbose)
		fprintf(stderr, "lsmemcached: serving table %u of %s\n", cached.options.table, store_name());
	if (!ret)
		ret = listen_serve();
	listen_close();
	stop();
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
