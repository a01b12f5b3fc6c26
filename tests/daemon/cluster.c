// SPDX-License-Identifier: GPL-2.0
/*
 * An owner of imaginary stores, for etcd.py.
 *
 *	cluster CONFIG
 *
 * Answers each line of standard input with one line:
 *
 *	claim UUID ABOVE [take-over] [alone] [stop] [consent TERM REVISION]
 *						"claimed TERM KNOWN", or "refused ERROR"
 *	found					"TERM HOST[ here];" for each time the last claim was told which
 *						host took the store; HOST is "-": not known. With stop, the claim ends then
 *	frozen TERM				what that says of a store that is frozen with TERM, as the last claim has
 *						read it last, also if it was refused
 *	consent					"consent TERM REVISION", or "none"
 *	void TERM REVISION			"void", or "valid"
 *	prepare UUID				"prepared": there is a lease for the next claim, and what it reads, if etcd answers
 *	watch					"watching": a claim was refused, and ask works all the same
 *	ask					"asked": which host has the store?
 *	told					the answer, "TERM HOST[ here]", or "nothing yet"
 *	look UUID				the record in etcd: "NR TERM NAME:PATH:STATE ..", or
 *						"refused ERROR"
 *	take SECRET				"taken NR DOMAINS": put the backups of the last look
 *						into a configuration without backups; or the error
 *	members STATE ..			write backups b0, b1 .. with these states; "known" as
 *						soon as etcd has them, or "stale"
 *	write					write them like an owner that does not know that it
 *						has lost the store: "written", or "refused"
 *	holds					"yes MS FAILURES", or "no REASON"
 *
 * At the end of the input it gives back all stores that it owns.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.c"
#include "config/config.h"

static struct cluster cluster;
static char found[1024];

static int note(const struct cluster_taken *taken)
{
	size_t n = strlen(found);

	snprintf(found + n, sizeof(found) - n, "%" PRIu64 " %s%s;", taken->term,
		 *taken->host ? taken->host : "-", taken->here ? " here" : "");
	return 0;
}

static int note_and_stop(const struct cluster_taken *taken)
{
	note(taken);
	return -ENOTUNIQ;
}

static void claim(const char *line)
{
	struct cluster_claim claim = {
		.take_over = strstr(line, "take-over"), .alone = strstr(line, "alone"),
		.found = strstr(line, "stop") ? note_and_stop : note,
	};
	const char *consent = strstr(line, "consent");
	struct cluster_consent given;
	char uuid[40];
	int err;

	if (consent && sscanf(consent, "consent %" SCNu64 " %" SCNd64, &given.term, &given.revision) == 2)
		claim.consent = &given;
	if (sscanf(line, "claim %39s %" SCNu64, uuid, &claim.above) != 2)
		exit(2);
	claim.uuid = uuid;
	found[0] = 0;
	err = cluster_claim(&cluster, &claim);
	if (err)
		printf("refused %s\n", strerrorname_np(-err));
	else
		printf("claimed %" PRIu64 " %d\n", cluster.term, cluster.known);
}

static void frozen(const char *line)
{
	static const char *const images[] = {
		[CLUSTER_UNKNOWN] = "unknown", [CLUSTER_NEWEST] = "newest",
		[CLUSTER_FOLLOWED] = "followed", [CLUSTER_PASSED] = "passed",
	};
	uint64_t term;

	if (sscanf(line, "frozen %" SCNu64, &term) != 1)
		exit(2);
	printf("%s\n", images[cluster_frozen(&cluster.taken, term)]);
}

static void consent(void)
{
	struct cluster_consent given;

	if (cluster_consent(&cluster, &given))
		printf("consent %" PRIu64 " %" PRId64 "\n", given.term, given.revision);
	else
		printf("none\n");
}

static void void_it(const char *line)
{
	struct cluster_consent given;

	if (sscanf(line, "void %" SCNu64 " %" SCNd64, &given.term, &given.revision) != 2)
		exit(2);
	printf("%s\n", cluster_void(&cluster, &given) ? "void" : "valid");
}

static void tell_taken(void)
{
	struct cluster_taken taken;

	if (cluster_looked(&cluster, &taken))
		printf("%" PRIu64 " %s%s\n", taken.term, *taken.host ? taken.host : "-", taken.here ? " here" : "");
	else
		printf("nothing yet\n");
}

static void ask_taken(void)
{
	cluster_look(&cluster);
	printf("asked\n");
}

static void prepare(const char *line)
{
	char uuid[40];

	if (sscanf(line, "prepare %39s", uuid) != 1)
		exit(2);
	cluster_prepare(&cluster, uuid);
	puts("prepared");
}

static void watch_it(void)
{
	if (cluster_watch(&cluster))
		exit(2);
	printf("watching\n");
}

static void look_at(const char *line)
{
	const struct members *members = &cluster.members;
	struct cluster_claim claim = { .look = true };
	char uuid[40];
	unsigned int i;
	int err;

	if (sscanf(line, "look %39s", uuid) != 1)
		exit(2);
	claim.uuid = uuid;
	err = cluster_claim(&cluster, &claim);
	if (err)
		printf("refused %s", strerrorname_np(-err));
	else
		printf("%u %" PRIu64, members->nr, members->term);
	for (i = 0; !err && i < members->nr; i++)
		printf(" %s:%s:%s", members->member[i].name, members->member[i].path,
		       members->member[i].state);
	printf("\n");
}

static void take_them(const char *line)
{
	static struct config fresh;
	char error[CONFIG_ERROR_BYTES];

	memset(&fresh, 0, sizeof(fresh));
	fresh.cluster.secret_line = sscanf(line, "take %100s", fresh.cluster.secret) == 1;
	if (config_take(&fresh, "file", "etcd", &cluster.members, error))
		printf("%s\n", error);
	else
		printf("taken %u %u\n", fresh.nr_backups, fresh.store.replicas);
}

/* Write backups with the longest names and paths. */
static void tell(char *line)
{
	struct members members;
	struct cluster_figures status;
	struct member *m;
	char *state;

	memset(&members, 0, sizeof(members));
	members.term = cluster.term;
	strtok(line, "\n ");
	while ((state = strtok(NULL, "\n ")) && members.nr < LSMEM_BACKUPS) {
		m = &members.member[members.nr];
		sprintf(m->name, "b%u", members.nr++);
		memset(m->domain, 'd', sizeof(m->domain) - 1);
		memset(m->path, 'p', sizeof(m->path) - 1);
		memcpy(m->path, "rdma://10.0.0.1/x", 17);
		members_copy(m->state, sizeof(m->state), state);
		m->incarnation = UINT32_MAX;
		m->secret = true;
	}
	if (members.nr)
		cluster_members(&cluster, &members);
	cluster_tell(&cluster, &status);
	printf("%s\n", status.stale ? "stale" : "known");
}

/* Write the backups without the check of the lease, as after a pause at the worst time. */
static void force(void)
{
	put_members(&cluster);
	printf("%s\n", cluster.members_failed ? "refused" : "written");
}

static void holds(void)
{
	struct cluster_figures status;
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
	    cluster_open(&cluster, &config.cluster.options))
		return 2;
	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "claim ", 6))
			claim(line);
		else if (!strncmp(line, "found", 5))
			printf("%s\n", found);
		else if (!strncmp(line, "frozen ", 7))
			frozen(line);
		else if (!strncmp(line, "consent", 7))
			consent();
		else if (!strncmp(line, "void ", 5))
			void_it(line);
		else if (!strncmp(line, "prepare", 7))
			prepare(line);
		else if (!strncmp(line, "watch", 5))
			watch_it();
		else if (!strncmp(line, "ask", 3))
			ask_taken();
		else if (!strncmp(line, "told", 4))
			tell_taken();
		else if (!strncmp(line, "look ", 5))
			look_at(line);
		else if (!strncmp(line, "take", 4))
			take_them(line);
		else if (!strncmp(line, "members", 7))
			tell(line);
		else if (!strncmp(line, "write", 5))
			force();
		else
			holds();
		fflush(stdout);
	}
	cluster_close(&cluster);
	return 0;
}
