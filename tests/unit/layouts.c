// SPDX-License-Identifier: GPL-2.0
/*
 * Prints what may fail, by layout, for the table in Documentation/admin-guide.rst, with the
 * functions that decide whether a digest counts.  tests/docs compares the output with the page.
 */
#include <stdio.h>
#include <string.h>

#include "format/digest.h"

static const struct layout {
	const char *domains;		/* number of backups in each */
	uint32_t replicas, least;
} layouts[] = {
	{ "1+1", 2, 1 },
	{ "1+1", 2, 2 },
	{ "1+1+1", 2, 1 },
	{ "1+1+1", 2, 2 },
	{ "1+1+1", 3, 1 },
	{ "1+1+1", 3, 2 },
	{ "2+1", 2, 1 },
	{ "2+2", 2, 1 },
	{ "2+2", 2, 2 },
	{ "2+1+1", 2, 1 },
	{ "2+2+1", 3, 2 },
	{ "2+2+2", 2, 1 },
	{ "2+2+2", 3, 2 },
	{ "3+3", 2, 1 },
	{ "1+1+1+1", 2, 1 },
	{ "1+1+1+1", 3, 2 },
	{ "1+1+1+1+1", 2, 1 },
	{ "1+1+1+1+1", 3, 2 },
};

static struct digest_map map;
static uint32_t domains;

static void lay_out(const struct layout *layout)
{
	const char *text;
	uint32_t nr = 0;
	char count;

	memset(&map, 0, sizeof(map));
	domains = 0;
	for (text = layout->domains; *text; text += text[1] ? 2 : 1) {
		domains++;
		for (count = '0'; count < *text; count++)
			map.domain[nr++] = domains;
	}
	map.mask = (1u << nr) - 1;
	map.floor = digest_floor(&map);
}

static uint32_t touched(uint32_t backups)
{
	uint32_t seen = 0, b;

	for (b = 0; b < LSMEM_BACKUPS; b++)
		if (backups >> b & 1u)
			seen |= 1u << map.domain[b];
	return __builtin_popcount(seen);
}

/*
 * No segment can have all its replicas on the backups in @lost: the replicas are in
 * @layout->replicas domains.
 */
static bool keeps(const struct layout *layout, uint32_t lost)
{
	return touched(lost) < layout->replicas;
}

static bool goes_on(const struct layout *layout, uint32_t lost)
{
	uint32_t left = map.mask & ~lost;

	return keeps(layout, lost) && digest_counts(&map, left) && touched(left) >= layout->least;
}

static bool starts(const struct layout *layout, uint32_t lost)
{
	return goes_on(layout, lost) && digest_enough(&map, map.mask & ~lost);
}

/* The number of backups, or of whole domains, that may be lost, whichever they are. */
static uint32_t most(const struct layout *layout, bool whole,
		     bool (*judge)(const struct layout *layout, uint32_t lost))
{
	uint32_t worst = LSMEM_BACKUPS, lost, b;

	for (lost = 1; lost <= map.mask; lost++) {
		uint32_t left = 0;

		for (b = 0; b < LSMEM_BACKUPS; b++)
			if (map.mask >> b & 1u && !(lost >> b & 1u))
				left |= 1u << map.domain[b];
		/* Whole domains only. */
		if (whole && __builtin_popcount(left) + touched(lost) > domains)
			continue;
		if (!judge(layout, lost)) {
			uint32_t nr = whole ? touched(lost) : (uint32_t)__builtin_popcount(lost);

			if (nr <= worst)
				worst = nr - 1;
		}
	}
	return worst;
}

static const char *say(const struct layout *layout,
		       bool (*judge)(const struct layout *layout, uint32_t lost))
{
	static char text[4][32];
	static uint32_t turn;
	uint32_t backups = most(layout, false, judge), whole = most(layout, true, judge);
	char *to = text[turn++ % 4];

	if (!whole || (uint32_t)__builtin_popcount(map.mask) == domains)
		sprintf(to, "%u", backups);
	else
		sprintf(to, "%u, or %u domain%s", backups, whole, whole == 1 ? "" : "s");
	return to;
}

int main(void)
{
	static const char line[] =
		"==========  ========  ============  ================  ================  ================";
	uint32_t i;

	printf("%s\n%-12s%-10s%-14s%-18s%-18s%s\n%s\n", line, "backups", "replicas",
	       "min_replicas", "data are kept", "writers go on", "starts again", line);
	for (i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		const struct layout *layout = &layouts[i];

		lay_out(layout);
		printf("%-12s%-10u%-14u%-18s%-18s%s\n", layout->domains, layout->replicas,
		       layout->least, say(layout, keeps), say(layout, goes_on),
		       say(layout, starts));
	}
	printf("%s\n", line);
	return 0;
}
