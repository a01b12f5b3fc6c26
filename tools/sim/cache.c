// SPDX-License-Identifier: GPL-2.0
/*
 * Simulator of eviction: which objects leave memory in a store whose capacity exceeds its memory.
 * trace.c makes the requests, tier.c has memory in segments and the policies, bounds.c has LRU and
 * MIN.  The output is one line of JSON on standard output.
 */
#include <error.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "tier.h"
#include "../../kmod/policy.h"

struct settings {
	struct tier_settings tier;
	const char *workload;
	uint64_t seed;
	double memory;			/* share of all objects */
	uint32_t data;			/* objects */
	uint32_t warm;
	uint32_t measure;
};

static void usage(FILE *to)
{
	fprintf(to, "usage: cache [OPTION]...\n"
		"  --workload NAME     (zipf-95) one of: %s\n"
		"  --policy NAME       (half-spread) one of: %s;\n"
		"                      or lru, min, for single objects without segments\n"
		"  --data N            (131072) objects in all\n"
		"  --memory X          (0.25) share of them that fits into memory\n"
		"  --objects N         (512) objects in a segment\n"
		"  --seglets N         (128) seglets of a segment\n"
		"  --room N            (1) seglets that are free when the hand stops\n"
		"  --plan N            (1) segments that are chosen at once\n"
		"  --evict-cost N      (%u) compact while that costs at most this, per mille\n"
		"  --merge N           (0) move what is kept to another segment if it is less than\n"
		"                      this, per mille of a segment\n"
		"  --remember X        (0) fetched objects come touched if they were evicted at most\n"
		"                      this long ago, in times to fill the memory\n"
		"  --fetch-touched     fetched objects come touched\n"
		"  --write NAME        (leave) what a write does with the touched bit: or set, clear\n"
		"  --warm N            (4) requests for each object before the measurement, on average\n"
		"  --measure N         (8) requests for each object in the measurement, on average\n"
		"  --seed N            (1) of the random numbers\n"
		"Prints one line of JSON: the miss ratio of reads, that of reads that no scan does; for\n"
		"each object evicted: objects copied because the hand has kept them, objects copied by\n"
		"compaction without eviction, segments that the hand has swept; the share of the memory\n"
		"that objects fill, and the number of segments.\n",
		trace_names(), tier_policies(), LSMEM_EVICT_COST);
}

static enum touch find_touch(const char *name)
{
	static const char *const names[] = {
		[TOUCH_LEAVE] = "leave",
		[TOUCH_SET] = "set",
		[TOUCH_CLEAR] = "clear",
	};
	uint32_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(names[i], name))
			return i;
	error(2, 0, "%s: not leave, set or clear", name);
	return 0;
}

static double ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / whole : 0;
}

static void print(const struct settings *set, const struct tier_result *result)
{
	const struct counts *counts = &result->counts;

	printf("{\"workload\": \"%s\", \"policy\": \"%s\", \"seed\": %llu, \"memory\": %u",
	       set->workload, set->tier.policy, (unsigned long long)set->seed, set->tier.memory);
	printf(", \"miss\": %.5f, \"own_miss\": %.5f", ratio(counts->missed, counts->reads),
	       ratio(counts->own_missed, counts->own));
	printf(", \"evicted\": %llu, \"copied\": %.4f, \"compacted\": %.4f, \"swept\": %.5f",
	       (unsigned long long)result->evicted, ratio(result->copied, result->evicted),
	       ratio(result->compacted, result->evicted), ratio(result->swept, result->evicted));
	printf(", \"resident\": %.4f, \"segments\": %.1f}\n", result->resident, result->segments);
}

static int run(struct settings *set)
{
	struct tier_result result = { };
	struct trace trace;
	int ret;

	ret = trace_init(&trace, set->workload, set->data, set->tier.memory, set->warm,
			 set->measure, set->seed);
	if (ret)
		error(1, -ret, "workload %s", set->workload);
	if (!strcmp(set->tier.policy, "lru"))
		ret = bounds_lru(&trace, set->tier.memory, &result.counts);
	else if (!strcmp(set->tier.policy, "min"))
		ret = bounds_min(&trace, set->tier.memory, &result.counts);
	else
		ret = tier_run(&set->tier, &trace, &result);
	if (ret)
		error(1, -ret, "policy %s", set->tier.policy);
	print(set, &result);
	trace_destroy(&trace);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "workload", required_argument, NULL, 'w' },
		{ "policy", required_argument, NULL, 'p' },
		{ "data", required_argument, NULL, 'd' },
		{ "memory", required_argument, NULL, 'm' },
		{ "objects", required_argument, NULL, 'o' },
		{ "seglets", required_argument, NULL, 'l' },
		{ "room", required_argument, NULL, 'r' },
		{ "plan", required_argument, NULL, 'n' },
		{ "evict-cost", required_argument, NULL, 'c' },
		{ "merge", required_argument, NULL, 'g' },
		{ "remember", required_argument, NULL, 'e' },
		{ "fetch-touched", no_argument, NULL, 'f' },
		{ "write", required_argument, NULL, 't' },
		{ "warm", required_argument, NULL, 'W' },
		{ "measure", required_argument, NULL, 'M' },
		{ "seed", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	struct settings set = {
		.tier = {
			.policy = "half-spread",
			.objects = 512,
			.seglets = 128,
			.room = 1,
			.plan = 1,
			.evict_cost = LSMEM_EVICT_COST,
		},
		.workload = "zipf-95",
		.seed = 1,
		.memory = 0.25,
		.data = 131072,
		.warm = 4,
		.measure = 8,
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'w':
			set.workload = optarg;
			break;
		case 'p':
			set.tier.policy = optarg;
			break;
		case 'd':
			set.data = number_parse(optarg, 1000, 1 << 24);
			break;
		case 'm':
			set.memory = number_parse(optarg, 0.01, 0.9);
			break;
		case 'o':
			set.tier.objects = number_parse(optarg, 1, 1 << 20);
			break;
		case 'l':
			set.tier.seglets = number_parse(optarg, 1, 128);
			break;
		case 'r':
			set.tier.room = number_parse(optarg, 1, 1 << 20);
			break;
		case 'n':
			set.tier.plan = number_parse(optarg, 1, 1 << 16);
			break;
		case 'c':
			set.tier.evict_cost = number_parse(optarg, 0, 1000000);
			break;
		case 'g':
			set.tier.merge = number_parse(optarg, 0, 1000);
			break;
		case 'e':
			set.tier.remember = number_parse(optarg, 0, 1000);
			break;
		case 'f':
			set.tier.fetch_touched = true;
			break;
		case 't':
			set.tier.write = find_touch(optarg);
			break;
		case 'W':
			set.warm = number_parse(optarg, 0, 1000);
			break;
		case 'M':
			set.measure = number_parse(optarg, 1, 1000);
			break;
		case 's':
			set.seed = number_parse(optarg, 0, 1e15);
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	set.tier.memory = set.data * set.memory;
	if (optind != argc || set.tier.objects % set.tier.seglets) {
		usage(stderr);
		return 2;
	}
	return run(&set);
}
