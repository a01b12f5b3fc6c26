// SPDX-License-Identifier: GPL-2.0
/*
 * Switches off each rule in turn; a named scenario (litmus.c) or the simulation must fail.  If
 * neither fails, the rule is not needed or not tested.
 */
#include <stdlib.h>
#include <string.h>

#include "litmus.h"
#include "sim.h"
#include "stripe/rule.h"
#include "../common/tap.h"

uint64_t lsmem_mutation;

#define CRASHES_MOST	12000u		/* give up after so many */
#define CRASHES_LIFE	20u		/* of a life */
#define CRASHES_SHORT	6u		/* with several backups: each may lose one */

static const struct {
	const char *name, *text;
} rules[] = {
#define RULE_ENTRY(name, text) { #name, text },
#include "base/rules.h"
#undef RULE_ENTRY
};

static const struct sim_options kinds[] = {
	{ .frames = 24, .size = 0, .steps = 120, .kills = 20, .faults = 10 },
	{ .frames = 14, .size = 0, .steps = 250, .kills = 30, .faults = 10 },
	{ .frames = 20, .size = 1, .steps = 250, .kills = 20, .faults = 10 },
	{ .frames = 14, .size = 0, .steps = 150, .kills = 20, .faults = 30, .backups = 2 },
	{ .frames = 14, .size = 0, .steps = 150, .kills = 20, .faults = 30, .backups = 3,
	  .replicas = 2 },
};

static const struct sim_options coded[] = {
	{ .frames = 10, .size = 0, .steps = 150, .kills = 20, .faults = 10, .backups = 3, .k = 2, .m = 1 },
	{ .frames = 10, .size = 1, .steps = 200, .kills = 20, .faults = 10, .backups = 5, .k = 3, .m = 2 },
	{ .frames = 10, .size = 2, .steps = 250, .kills = 20, .faults = 10, .backups = 3, .k = 2, .m = 1 },
	{ .frames = 10, .size = 0, .steps = 200, .kills = 20, .faults = 20, .backups = 6, .k = 3, .m = 2, .join = true },
	{ .frames = 10, .size = 1, .steps = 250, .kills = 20, .faults = 20, .backups = 4, .k = 2, .m = 1, .join = true },
};

/* Stores with coded segments and replicas at the same time: frames go from one kind to the other. */
static const struct sim_options turned[] = {
	{ .frames = 8, .size = 0, .steps = 150, .kills = 30, .faults = 10, .backups = 3, .replicas = 2, .k = 2, .m = 1,
	  .turns = true },
	{ .frames = 10, .size = 0, .steps = 200, .kills = 30, .faults = 20, .backups = 6, .replicas = 3, .k = 3, .m = 2,
	  .turns = true, .join = true },
	{ .frames = 8, .size = 1, .steps = 150, .kills = 30, .faults = 20, .backups = 4, .replicas = 2, .k = 2, .m = 1,
	  .turns = true, .join = true },
	{ .frames = 8, .size = 0, .steps = 250, .kills = 60, .faults = 10, .backups = 3, .replicas = 2, .k = 2, .m = 1,
	  .turns = true },
	{ .frames = 8, .size = 0, .steps = 150, .kills = 30, .faults = 20, .backups = 4, .replicas = 2, .k = 2, .m = 1,
	  .turns = true, .tiered = true, .join = true },
};

/* Rules that coded stores have in common with others, and that have code of their own there. */
static const struct {
	const char *name;
	uint32_t rule;
} shared[] = {
#define SHARED(name) { #name, RULE_##name }
	SHARED(ACK_AFTER_FLUSH), SHARED(CLOSE_AFTER_FLUSH), SHARED(FRAME_REUSE), SHARED(COPY_WHOLE),
};

/* Rules of rows that random lives notice soon. test_row has all of them. */
static const struct {
	const char *name;
	uint32_t rule;
} rows[] = {
#define ROWS(name) { #name, STRIPE_RULE_##name }
	ROWS(ALL_SHARDS), ROWS(OTHER_SIDE), ROWS(PARTIAL_ALONE), ROWS(RECORD_SEGMENT), ROWS(FINISH_ROWS),
};

/* Rules of stores that are converted. */
static const struct {
	const char *name;
	uint32_t rule;
} conversions[] = {
	ROWS(CODE_FIRST), ROWS(CODE_LAST),
};

/* The number of crashes until the simulation of one of five kinds fails; 0: it does not. */
static uint64_t hunt(const struct sim_options *of, char *why, size_t room, uint64_t *seed)
{
	uint64_t crashes = 0, n;

	for (n = 0; crashes < CRASHES_MOST; n++) {
		struct sim *sim = sim_new(n + 1, &of[n % 5]);
		bool ok = sim_life(sim, of[n % 5].backups && !of[n % 5].join ? CRASHES_SHORT : CRASHES_LIFE);

		crashes += sim->crashes + 1;
		snprintf(why, room, "%.150s", sim->error);
		sim_free(sim);
		*seed = n + 1;
		if (!ok)
			return crashes;
	}
	return 0;
}

/* A rule that is switched off in stores that are @what. */
static void test_coded(const struct sim_options *of, const char *what, const char *name)
{
	uint64_t seed, crashes;
	char why[160];

	crashes = hunt(of, why, sizeof(why), &seed);
	tap_ok(crashes, "a %s store without %s: noticed within %llu crashes, seed %llu", what, name,
	       (unsigned long long)crashes, (unsigned long long)seed);
	if (crashes)
		tap_note("%s", why);
}

int main(int argc, char **argv)
{
	uint32_t rule, from = 0, to = RULE_COUNT;

	if (argc > 1) {
		from = strtoul(argv[1], NULL, 0);
		to = from + 1;
	}
	for (rule = from; rule < to; rule++) {
		const char *named;
		uint64_t crashes, seed;
		char why[160];

		lsmem_mutation = 1ull << rule;
		named = litmus_fails();
		if (named) {
			tap_ok(true, "without %s (%s): litmus \"%s\" fails", rules[rule].name,
			       rules[rule].text, named);
			continue;
		}
		crashes = hunt(kinds, why, sizeof(why), &seed);
		tap_ok(crashes, "without %s (%s): noticed within %llu crashes, seed %llu",
		       rules[rule].name, rules[rule].text, (unsigned long long)crashes,
		       (unsigned long long)seed);
		if (crashes)
			tap_note("%s", why);
	}
	for (rule = 0; argc < 2 && rule < sizeof(shared) / sizeof(shared[0]); rule++) {
		lsmem_mutation = 1ull << shared[rule].rule;
		test_coded(coded, "coded", shared[rule].name);
		if (shared[rule].rule == RULE_ACK_AFTER_FLUSH || shared[rule].rule == RULE_CLOSE_AFTER_FLUSH)
			test_coded(turned, "half coded", shared[rule].name);
	}
	lsmem_mutation = 0;
	for (rule = 0; argc < 2 && rule < sizeof(rows) / sizeof(rows[0]); rule++) {
		stripe_mutation = 1ull << rows[rule].rule;
		test_coded(coded, "coded", rows[rule].name);
	}
	for (rule = 0; argc < 2 && rule < sizeof(conversions) / sizeof(conversions[0]); rule++) {
		stripe_mutation = 1ull << conversions[rule].rule;
		test_coded(turned, "half coded", conversions[rule].name);
	}
	return tap_end();
}
