// SPDX-License-Identifier: GPL-2.0
/* Extents of liblsmem-preload.so (tools/preload/extents.c) against a table of all pages: TAP. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../tools/preload/extents.h"
#include "../common/random.h"
#include "../common/tap.h"

#define PAGES	5000u
#define HELD	60u	/* extents at a time */
#define STEPS	200000u

struct held {
	uint32_t first;
	uint32_t pages;
};

static uint64_t state;
static struct extents all;
static uint8_t owner[PAGES];	/* of each page: its extent + 1 */
static struct held held[HELD];

/* Pages [@first, @first + @pages) have been @from, and are @to now. */
static bool own(uint32_t first, uint32_t pages, uint8_t from, uint8_t to)
{
	for (; pages--; first++) {
		if (first >= PAGES || owner[first] != from)
			return false;
		owner[first] = to;
	}
	return true;
}

/* Is there a run of @pages free pages? */
static bool room(uint32_t pages)
{
	uint32_t i, run = 0;

	for (i = 0; i < PAGES && run < pages; i++)
		run = owner[i] ? 0 : run + 1;
	return run >= pages;
}

static bool free_at(uint32_t first, uint32_t pages)
{
	for (; pages--; first++)
		if (first >= PAGES || owner[first])
			return false;
	return true;
}

static bool take(uint8_t i)
{
	uint32_t pages = 1 + random_below(&state, random_chance(&state, 10) ? PAGES : 150);
	uint32_t align = 1u << random_below(&state, 7), skew = random_below(&state, 1000);

	held[i].first = extents_take(&all, pages, align, skew);
	held[i].pages = pages;
	if (held[i].first == EXTENTS_NONE) {
		held[i].pages = 0;
		return !room(pages + align - 1);
	}
	return (held[i].first - skew) % align == 0 && own(held[i].first, pages, 0, i + 1);
}

static bool change(uint8_t i)
{
	struct held *h = &held[i];
	uint32_t pages, rest;

	if (extents_size(&all, h->first) != h->pages)
		return false;
	switch (random_below(&state, 3)) {
	case 0:
		pages = h->pages + 1 + random_below(&state, 100);
		if (!extents_grow(&all, h->first, pages))
			return !free_at(h->first + h->pages, pages - h->pages);
		rest = h->pages;
		h->pages = pages;
		return own(h->first + rest, pages - rest, 0, i + 1);
	case 1:
		if (h->pages == 1)
			return true;
		pages = 1 + random_below(&state, h->pages - 1);
		rest = extents_split(&all, h->first, pages);
		if (rest != h->first + pages || extents_size(&all, rest) != h->pages - pages ||
		    !own(rest, h->pages - pages, i + 1, 0))
			return false;
		extents_give(&all, rest);
		h->pages = pages;
		return true;
	default:
		if (!own(h->first, h->pages, i + 1, 0))
			return false;
		extents_give(&all, h->first);
		h->pages = 0;
		return extents_size(&all, h->first) == 0;
	}
}

static bool step(void)
{
	uint8_t i = random_below(&state, HELD);
	uint32_t used = 0, j;

	if (!(held[i].pages ? change(i) : take(i)))
		return false;
	for (j = 0; j < HELD; j++)
		used += held[j].pages;
	return used == all.used;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
	uint32_t i;

	state = seed;
	tap_note("seed %" PRIu64, seed);
	if (extents_init(&all, PAGES))
		return 1;
	tap_ok(extents_take(&all, PAGES + 1, 1, 0) == EXTENTS_NONE, "more than all: refused");
	for (i = 0; i < STEPS && step(); i++)
		;
	tap_is(i, STEPS, "%u random steps", STEPS);
	for (i = 0; i < HELD; i++)
		if (held[i].pages)
			extents_give(&all, held[i].first);
	tap_is(all.used, 0, "nothing is in use");
	tap_is(extents_take(&all, PAGES, 1, 0), 0, "all free extents are one again");
	return tap_end();
}
