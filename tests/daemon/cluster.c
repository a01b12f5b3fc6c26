// SPDX-License-Identifier: GPL-2.0
/*
 * An owner of stores that do not exist, for etcd.py.
 *
 *	cluster CONFIG
 *
 * Each line of standard input is answered by one:
 *
 *	claim UUID ABOVE [take-over] [alone]	"claimed EPOCH KNOWN", or "refused ERROR"
 *	holds					"yes MS FAILURES", or "no WHY"
 *
 * At the end of the input what is owned is given back.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../daemon/cluster.h"
#include "../../daemon/log.h"

static struct cluster cluster;

static void claim(const char *line)
{
	struct cluster_claim claim = {
		.take_over = strstr(line, "take-over"), .alone = strstr(line, "alone"),
	};
	char uuid[40];
	int err;

	if (sscanf(line, "claim %39s %" SCNu64, uuid, &claim.above) != 2)
		exit(2);
	claim.uuid = uuid;
	err = cluster_claim(&cluster, &claim);
	if (err)
		printf("refused %s\n", strerrorname_np(-err));
	else
		printf("claimed %" PRIu64 " %d\n", cluster.epoch, cluster.known);
}

static void holds(void)
{
	struct status_cluster status;
	char why[ETCD_WHY_BYTES];

	cluster_tick(&cluster);
	if (cluster_holds(&cluster)) {
		cluster_tell(&cluster, &status);
		printf("yes %" PRIu64 " %" PRIu64 "\n", status.left_ns / 1000000, status.failures);
	} else {
		cluster_why(&cluster, why, sizeof(why));
		printf("no %s\n", why);
	}
}

int main(int argc, char **argv)
{
	char error[CONFIG_ERROR_BYTES], line[128];
	static struct config config;

	log_setup(LOG_PRI_DEBUG);
	if (argc != 2 || config_read(argv[1], &config, error) ||
	    cluster_open(&cluster, &config.cluster))
		return 2;
	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "claim ", 6))
			claim(line);
		else
			holds();
		fflush(stdout);
	}
	cluster_close(&cluster);
	return 0;
}
