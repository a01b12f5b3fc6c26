// SPDX-License-Identifier: GPL-2.0
/*
 * Switches off each rule in turn; a named scenario (litmus.c) or the simulation must fail.  If
 * neither fails, the rule is not needed or not tested.
 */
#include <stdlib.h>
#include <string.h>

#include "litmus.h"
#include "sim.h"
#include "../common/tap.h"

uint64_t lsmem_mutation;

#define CRASHES_MOST	4000u		/* give up after so many */
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

/* The number of crashes until the simulation fails; 0: it does not. */
static uint64_t hunt(char *why, size_t room, uint64_t *seed)
{
	uint64_t crashes = 0, n;

	for (n = 0; crashes < CRASHES_MOST; n++) {
		struct sim *sim = sim_new(n + 1, &kinds[n % 5]);
		bool ok = sim_life(sim, n % 5 < 3 ? CRASHES_LIFE : CRASHES_SHORT);

		crashes += sim->crashes + 1;
		snprintf(why, room, "%.150s", sim->error);
		sim_free(sim);
		*seed = n + 1;
		if (!ok)
			return crashes;
	}
	return 0;
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
		crashes = hunt(why, sizeof(why), &seed);
		tap_ok(crashes, "without %s (%s): noticed within %llu crashes, seed %llu",
		       rules[rule].name, rules[rule].text, (unsigned long long)crashes,
		       (unsigned long long)seed);
		if (crashes)
			tap_note("%s", why);
	}
	return tap_end();
}
