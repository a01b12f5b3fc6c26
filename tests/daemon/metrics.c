// SPDX-License-Identifier: GPL-2.0
/*
 * The metrics of an imaginary daemon, for metrics.py.
 *
 *	metrics CONFIG
 *
 * Executes each line of standard input and answers with "ok":
 *
 *	recovering	a recovery that is half done
 *	active		an active store with figures
 *	more N		add N acknowledgements, each of a group
 *	hold		http_tell() while a client reads: it returns at once
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "config/config.h"
#include "report/http.h"

static struct status status;
static struct http http;

static void recovering(void)
{
	status.state = "recovering";
	status.recovery = true;
	status.recovery_done = 30;
	status.recovery_all = 60;
	status.recovery_ms = 1250;
	status.read_bytes = 5 << 20;
}

static void active(void)
{
	struct core_backup_stats *backup = &status.core.backup[0];
	unsigned int i;

	status.state = "active";
	status.serving = true;
	status.recovery_done = status.recovery_all;
	for (i = 0; i < CORE_PARTS; i++) {
		backup->bytes[i] = 4096 << i;
		backup->writes[i] = i + 1;
	}
	status.cluster = (struct cluster_figures) {
		.host = "here", .term = 7, .left_ns = 11500000000, .failures = 3,
		.stale = true,
	};
	backup->frames = 40;
	backup->frames_free = 30;
	backup->frames_low = 1;
	backup->data_shards = 31;
	backup->parity_shards = 17;
	backup->lag_bytes = 123456;
	status.core.memory_bytes = 4242;
	status.core.batches = 90;
	status.core.batches_partial = 80;
	status.core.rows_full = 12;
	status.core.data_blocks = 116;
	status.core.parity_blocks = 344;
	backup->lag_segments = 2;
	status.tiered = true;
	status.fetch.fetches = 77;
	status.fetch.merged = 5;
	status.fetch.degraded = 3;
	status.move.role = "source";
	status.move.standby = true;
	status.move.pull = (struct pull_stats){ .objects = 9, .bytes = 900, .late = 1, .wrong = 2, .cut = 4 };
	status.move.bulk = (struct bulk_stats){ .objects = 11, .bytes = 1100 };
	status.fetch.backup[0].reads = 80;
	status.fetch.backup[0].mean_ns = 1500000;
	histogram_add(&status.fetch.latency, 100000);
}

/* Add latencies of all sizes, from 0 to more than the largest bucket. */
static void more(unsigned int nr)
{
	struct core_backup_stats *backup = &status.core.backup[0];

	while (nr--) {
		status.ranges++;
		histogram_add(&status.ack, status.ranges % 2 ? 1ull << status.ranges % 60 : 20000);
		histogram_add(&backup->group_bytes, 4096 * status.ranges);
		histogram_add(&backup->group_segments, status.ranges % 9);
	}
}

int main(int argc, char **argv)
{
	char error[CONFIG_ERROR_BYTES], line[64];
	static struct config config;
	unsigned int i;
	int err;

	if (argc != 2 || config_read(argv[1], &config, error))
		return 2;
	err = http_open(&http, (struct sockaddr *)&config.metrics.address, config.metrics.length);
	if (err) {
		fprintf(stderr, "%s: %s\n", config.metrics.listen, strerror(-err));
		return 1;
	}
	status.state = "starting";
	strcpy(status.store, "lsmem");
	strcpy(status.name, "data");
	memset(status.uuid, 0xab, sizeof(status.uuid));
	status.where = config.backups[0].path;
	status.nr_backups = config.nr_backups;
	for (i = 0; i < status.nr_backups; i++)
		status.backups[i] = (struct status_backup) {
			.name = config.backups[i].name, .path = config.backups[i].path,
			.domain = config.backups[i].domain, .ack_memory = true, .index = i,
		};
	status.start_ns = clock_now_ns();
	status.start_time = 1700000000;
	for (puts("ok"); fflush(stdout), fgets(line, sizeof(line), stdin); puts("ok")) {
		if (!strcmp(line, "recovering\n"))
			recovering();
		else if (!strcmp(line, "active\n"))
			active();
		else if (!strncmp(line, "more ", 5))
			more((unsigned int)atoi(line + 5));
		else if (strcmp(line, "hold\n"))
			return 2;
		if (!strcmp(line, "hold\n")) {
			status.events += 1000000;
			pthread_mutex_lock(&http.lock);
			http_tell(&http, &status);
			pthread_mutex_unlock(&http.lock);
			status.events -= 1000000;
		} else {
			http_tell(&http, &status);
		}
	}
	http_close(&http);
	return 0;
}
