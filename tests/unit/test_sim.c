// SPDX-License-Identifier: GPL-2.0
/*
 * Thousands of crashes of core, recovery and the model of the kernel on the simulated disk.  A
 * failure prints its seed; --seed N repeats that life; --kind TEXT runs the kinds whose name has the text.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim.h"
#include "stripe/rule.h"
#include "../common/tap.h"

uint64_t lsmem_mutation;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static const struct {
	const char *name;
	struct sim_options options;
} kinds[] = {
	{ "small segments", { .frames = 24, .size = 0, .steps = 120, .kills = 20, .faults = 3 } },
	{ "middling segments", { .frames = 20, .size = 1, .steps = 250, .kills = 20, .faults = 3 } },
	{ "segments of several seglets", { .frames = 16, .size = 2, .steps = 250, .kills = 20,
					   .faults = 3 } },
	{ "more segments than frames", { .frames = 10, .extra = 3, .size = 0, .steps = 200,
					 .kills = 30, .faults = 3 } },
	{ "few frames", { .frames = 12, .size = 0, .steps = 200, .kills = 30, .faults = 3 } },
	{ "two backups", { .frames = 16, .size = 0, .steps = 150, .kills = 20, .faults = 10,
			   .backups = 2 } },
	{ "two that come back", { .frames = 16, .size = 0, .steps = 150, .kills = 20,
				  .faults = 20, .backups = 2, .join = true } },
	{ "three backups", { .frames = 16, .size = 1, .steps = 200, .kills = 20, .faults = 10,
			     .backups = 3, .min_replicas = 2 } },
	{ "two of three backups", { .frames = 14, .size = 0, .steps = 200, .kills = 20,
				    .faults = 10, .backups = 3, .replicas = 2 } },
	{ "two of four that come back", { .frames = 12, .size = 1, .steps = 200, .kills = 20,
					  .faults = 20, .backups = 4, .replicas = 2,
					  .join = true } },
	{ "two of three, and nothing with one", { .frames = 14, .size = 0, .steps = 200,
						  .kills = 20, .faults = 20, .backups = 3,
						  .replicas = 2, .min_replicas = 2, .join = true } },
	{ "two domains of two that come back", { .frames = 12, .size = 0, .steps = 150,
						 .kills = 20, .faults = 20, .backups = 4,
						 .replicas = 2, .pairs = true, .join = true } },
	{ "two of three domains", { .frames = 12, .size = 0, .steps = 150, .kills = 20,
				    .faults = 20, .backups = 5, .replicas = 2, .pairs = true } },
	{ "two of five backups", { .frames = 12, .size = 1, .steps = 200, .kills = 20,
				   .faults = 10, .backups = 5, .replicas = 2 } },
	{ "ack = memory, one backup", { .frames = 16, .size = 0, .steps = 150, .kills = 20,
					.faults = 3, .memory = 1 } },
	{ "ack = memory, two of two", { .frames = 16, .size = 1, .steps = 200, .kills = 20,
					.faults = 10, .backups = 2, .memory = 3 } },
	{ "ack = memory, two of four", { .frames = 12, .size = 0, .steps = 200, .kills = 20,
					 .faults = 20, .backups = 4, .replicas = 2,
					 .memory = 7, .join = true } },
	{ "tiered", { .frames = 20, .size = 1, .steps = 250, .kills = 20, .faults = 3,
		      .tiered = true } },
	{ "tiered, segments of several seglets", { .frames = 16, .size = 2, .steps = 250,
						   .kills = 20, .faults = 3, .tiered = true,
						   .verify = true } },
	{ "tiered, two of four that come back", { .frames = 12, .size = 1, .steps = 200,
						  .kills = 20, .faults = 20, .backups = 4,
						  .replicas = 2, .join = true, .tiered = true } },
	{ "two of three of several sizes", { .frames = 20, .size = 0, .steps = 200, .kills = 20,
					     .faults = 10, .backups = 3, .replicas = 2,
					     .smaller = 5, .join = true } },
	{ "three of nine that come back", { .frames = 12, .size = 0, .steps = 200, .kills = 20,
					    .faults = 20, .backups = 9, .replicas = 3,
					    .min_replicas = 2, .join = true } },
	{ "two of six domains of two", { .frames = 8, .size = 1, .steps = 200, .kills = 20,
					 .faults = 20, .backups = 12, .replicas = 2,
					 .pairs = true, .join = true } },
	{ "ack = memory, three of sixteen", { .frames = 8, .size = 0, .steps = 250, .kills = 20,
					      .faults = 20, .backups = 16, .replicas = 3,
					      .memory = 0x7fff, .join = true } },
	{ "tiered, sixteen of sixteen", { .frames = 12, .size = 0, .steps = 250, .kills = 20,
					  .faults = 20, .backups = 16, .join = true,
					  .tiered = true } },
	{ "coded 2+1", { .frames = 10, .size = 0, .steps = 150, .kills = 20, .faults = 10,
			 .backups = 3, .k = 2, .m = 1 } },
	{ "coded 3+2", { .frames = 10, .size = 1, .steps = 200, .kills = 20, .faults = 10,
			 .backups = 5, .k = 3, .m = 2 } },
	{ "coded 3+2 of six that come back", { .frames = 10, .size = 0, .steps = 200, .kills = 20, .faults = 20,
					       .backups = 6, .k = 3, .m = 2, .join = true } },
	{ "coded 2+1, large", { .frames = 10, .size = 2, .steps = 250, .kills = 20, .faults = 10,
				.backups = 3, .k = 2, .m = 1 } },
	{ "coded 2+1, often killed", { .frames = 10, .size = 1, .steps = 60, .kills = 80, .faults = 5,
				       .backups = 3, .k = 2, .m = 1 } },
	{ "coded 2+1 of four that come back", { .frames = 10, .size = 1, .steps = 250, .kills = 20, .faults = 20,
						.backups = 4, .k = 2, .m = 1, .join = true } },
	{ "coded 2+1, three domains of two", { .frames = 8, .size = 0, .steps = 250, .kills = 20, .faults = 20,
					       .backups = 6, .k = 2, .m = 1, .pairs = true, .join = true } },
	{ "coded 3+2, nothing with less than four", { .frames = 10, .size = 0, .steps = 250, .kills = 20,
						      .faults = 20, .backups = 6, .k = 3, .m = 2,
						      .min_parity = 1, .join = true } },
	{ "coded 3+2 of six that come back, rows that wait", { .frames = 10, .size = 2, .steps = 250, .kills = 30,
							       .faults = 20, .backups = 6, .k = 3, .m = 2,
							       .batch_us = 400, .join = true } },
	{ "coded 2+1, rows that wait", { .frames = 10, .size = 1, .steps = 200, .kills = 20, .faults = 10,
					 .backups = 3, .k = 2, .m = 1, .batch_us = 400 } },
	{ "coded 2+1, tiered", { .frames = 10, .size = 1, .steps = 200, .kills = 20, .faults = 10, .tiered = true,
				 .backups = 3, .k = 2, .m = 1 } },
	{ "coded 3+2 of six that come back, tiered", { .frames = 10, .size = 1, .steps = 200, .kills = 20, .faults = 20,
						       .tiered = true, .backups = 6, .k = 3, .m = 2, .join = true } },
	{ "coded 2+1 and two replicas", { .frames = 10, .size = 1, .steps = 150, .kills = 30, .faults = 10,
					  .backups = 3, .replicas = 2, .k = 2, .m = 1, .turns = true } },
	{ "coded 3+2 and three replicas of six that come back", { .frames = 10, .size = 0, .steps = 200, .kills = 30,
								  .faults = 20, .backups = 6, .replicas = 3,
								  .k = 3, .m = 2, .turns = true, .join = true } },
	{ "coded 2+1 and two replicas, tiered", { .frames = 10, .size = 1, .steps = 150, .kills = 30, .faults = 20,
						  .backups = 4, .replicas = 2, .k = 2, .m = 1, .turns = true,
						  .tiered = true, .join = true } },
	{ "coded 5+4", { .frames = 6, .size = 1, .steps = 200, .kills = 20, .faults = 20,
			 .backups = 9, .k = 5, .m = 4 } },
};

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "lives", required_argument, NULL, 'l' },
		{ "mutation", required_argument, NULL, 'm' },
		{ "stripe-mutation", required_argument, NULL, 'r' },
		{ "kind", required_argument, NULL, 'k' },
		{ NULL, 0, NULL, 0 }
	};
	uint64_t seed = 1, lives = 25, only = 0, all_kept = 0, n;
	const char *name = "";
	uint32_t kind;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			only = strtoull(optarg, NULL, 0);
		else if (c == 'l')
			lives = strtoull(optarg, NULL, 0);
		else if (c == 'r')
			stripe_mutation = 1ull << strtoul(optarg, NULL, 0);
		else if (c == 'k')
			name = optarg;
		else if (c == 'm')
			lsmem_mutation = 1ull << strtoul(optarg, NULL, 0);
		else
			return 2;
	}
	for (kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
		uint64_t crashes = 0, kills = 0, ops = 0, acked = 0, cleaned = 0, moved = 0;
		uint64_t lost = 0, copied = 0, kept = 0, few = 0, joined = 0, added = 0;
		uint64_t alone = 0, received = 0, mixed = 0, raised = 0, lowered = 0;
		uint64_t dropped = 0, refused = 0, recoveries = 0, compacted = 0, passes = 0;
		double begin = now();
		bool ok = true;

		if ((only && only / 1000000 != kind) || !strstr(kinds[kind].name, name))
			continue;
		/* If lost backups do not come back, one is left after a few crashes. */
		bool few_crashes = kinds[kind].options.backups && !kinds[kind].options.join;
		uint64_t all = lives * (few_crashes ? 3 : 1);

		/* Sixteen replicas take as long as many others. */
		if (kinds[kind].options.backups == LSMEM_BACKUPS && !kinds[kind].options.replicas)
			all = (all + 9) / 10;
		/* Recoveries read all shards, and try many sets of them. */
		if (kinds[kind].options.k && !only)
			all = (all + 14) / 15 + (all > 10 ? 2 : 0);
		for (n = 0; n < all && ok; n++) {
			uint64_t s = only ? only : seed + n + kind * 1000000;
			struct sim *sim;

			sim = sim_new(s, &kinds[kind].options);
			ok = sim_life(sim, few_crashes ? 8 : 30);
			if (!ok)
				tap_note("seed %llu, step %llu: %s", (unsigned long long)s,
					 (unsigned long long)sim->steps, sim->error);
			crashes += sim->crashes;
			kills += sim->kills;
			recoveries += sim->recoveries;
			ops += sim->model->applied;
			refused += sim->model->refused;
			acked += sim->model->oracle.acked;
			cleaned += sim->model->cleaned;
			moved += sim->model->moved;
			dropped += sim->model->tombstones_dropped;
			compacted += sim->model->compacted;
			passes += sim->model->passes;
			lost += sim->lost;
			copied += sim->copied;
			kept += sim->kept;
			few += sim->refused;
			joined += sim->joined;
			added += sim->added;
			alone += sim->alone;
			received += sim->model->oracle.received;
			mixed += sim->mixed;
			raised += sim->raised;
			lowered += sim->lowered;
			sim_free(sim);
			if (only)
				break;
		}
		tap_ok(ok, "%s: %llu crashes, %llu kills (%.0f a second)", kinds[kind].name,
		       (unsigned long long)crashes, (unsigned long long)kills,
		       (crashes + kills) / (now() - begin));
		tap_note("recoveries %llu, operations %llu, acknowledged %llu, refused %llu, passes %llu, cleaned %llu, compacted %llu, moved %llu, tombstones dropped %llu",
			 (unsigned long long)recoveries, (unsigned long long)ops,
			 (unsigned long long)acked, (unsigned long long)refused,
			 (unsigned long long)passes, (unsigned long long)cleaned,
			 (unsigned long long)compacted, (unsigned long long)moved,
			 (unsigned long long)dropped);
		if (kinds[kind].options.backups)
			tap_note("backups lost %llu, joined %llu (%llu while all went on), replicas made anew %llu, kept %llu, starts refused %llu",
				 (unsigned long long)lost, (unsigned long long)joined,
				 (unsigned long long)added, (unsigned long long)copied,
				 (unsigned long long)kept, (unsigned long long)few);
		if (kinds[kind].options.memory)
			tap_note("the primary alone crashed %llu, acknowledged from memory %llu",
				 (unsigned long long)alone, (unsigned long long)received);
		if (kinds[kind].options.join && !lsmem_mutation && !only)
			tap_ok(added && joined > added, "%s: backups joined at a start and later",
			       kinds[kind].name);
		if (kinds[kind].options.turns && !lsmem_mutation && !only)
			tap_ok(mixed && raised && lowered, "%s: starts with segments of both kinds: %llu, a code given %llu times and taken %llu times",
			       kinds[kind].name, (unsigned long long)mixed, (unsigned long long)raised,
			       (unsigned long long)lowered);
		all_kept += kept;
	}
	if (!lsmem_mutation && !only && !*name)
		tap_ok(all_kept, "replicas were kept on backups that came back: %llu",
		       (unsigned long long)all_kept);
	return tap_end();
}
