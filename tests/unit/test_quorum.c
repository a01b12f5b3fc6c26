// SPDX-License-Identifier: GPL-2.0
/*
 * The backups that must have a digest and those that recovery must read: for all divisions of up
 * to MOST backups into failure domains and all sets of backups; for more backups, up to
 * LSMEM_BACKUPS, random divisions and sets.
 */
#include "format/digest.h"
#include "../common/random.h"
#include "../common/tap.h"

#define MOST	6u
#define LAYOUTS	200u			/* random divisions of each number of backups */
#define SETS	100u			/* random sets of each */
#define SEED	1u

static struct digest_map map;
static uint32_t nr;			/* members */
static uint64_t layouts;

/* All divisions: each backup is in the domain of an earlier one, or in a new one. */
static bool each_layout(uint32_t backup, uint8_t domains, bool (*judge)(void))
{
	uint8_t domain;

	if (backup == nr) {
		map.mask = (1u << nr) - 1;
		map.floor = digest_floor(&map);
		layouts++;
		return judge();
	}
	for (domain = 1; domain <= domains + 1; domain++) {
		map.domain[backup] = domain;
		if (!each_layout(backup + 1, domain > domains ? domain : domains, judge))
			return false;
	}
	map.domain[backup] = 0;
	return true;
}

static bool all_layouts(bool (*judge)(void))
{
	layouts = 0;
	for (nr = 1; nr <= MOST; nr++)
		if (!each_layout(0, 0, judge))
			return false;
	return layouts > 200;
}

/* Any set that recovery may read has a backup of each digest that counts. */
static bool pair_meets_digest(uint32_t read, uint32_t wrote)
{
	return read & wrote || !digest_enough(&map, read) || !digest_counts(&map, wrote);
}

/* Any two sets that recoveries may read have a backup in common: one finds the other's promise. */
static bool pair_meets_recovery(uint32_t one, uint32_t other)
{
	return one & other || !digest_enough(&map, one) || !digest_enough(&map, other);
}

/* More backups are never worse than fewer. */
static bool pair_grows(uint32_t have, uint32_t others)
{
	uint32_t more = have | others;

	return (!digest_counts(&map, have) || digest_counts(&map, more)) &&
	       (!digest_enough(&map, have) || digest_enough(&map, more));
}

static bool all_pairs(bool (*judge)(uint32_t one, uint32_t other))
{
	uint32_t one, other;

	for (one = 0; one <= map.mask; one++)
		for (other = 0; other <= map.mask; other++)
			if (!judge(one, other))
				return false;
	return true;
}

static bool meets_digests(void)
{
	return all_pairs(pair_meets_digest);
}

static bool meets_recoveries(void)
{
	return all_pairs(pair_meets_recovery);
}

static bool ends(void)
{
	return digest_enough(&map, map.mask) && !digest_counts(&map, 0) && !digest_enough(&map, 0);
}

/* All are enough, none is not. */
static bool grows(void)
{
	return all_pairs(pair_grows) && ends();
}

/* ---- More backups ------------------------------------------------------ */

/* Take backups from a set, in random order, as long as @holds is true of it. */
static uint32_t smallest(uint64_t *random, uint32_t set, bool (*holds)(const struct digest_map *map, uint32_t have))
{
	uint32_t times, b;

	for (times = 0; times < 4 * nr; times++) {
		b = random_below(random, nr);
		if (set >> b & 1u && holds(&map, set & ~(1u << b)))
			set &= ~(1u << b);
	}
	for (b = 0; b < nr; b++)
		if (set >> b & 1u && holds(&map, set & ~(1u << b)))
			set &= ~(1u << b);
	return set;
}

/*
 * A set that is just enough, and its complement, are the pair for which two sets miss each other first.
 * So are a record that just counts, and those that do not have it.
 */
static bool sampled_sets(uint64_t *random)
{
	uint32_t set, other, i;

	for (i = 0; i < SETS; i++) {
		set = smallest(random, map.mask, i % 2 ? digest_enough : digest_counts);
		other = random_below(random, map.mask + 1);
		if (!set || !pair_meets_digest(set, map.mask & ~set) || !pair_meets_digest(map.mask & ~set, set) ||
		    !pair_meets_recovery(set, map.mask & ~set) || !pair_meets_digest(set, other) ||
		    !pair_meets_recovery(set, other) || !pair_grows(set, other) || !pair_grows(other, set))
			return false;
	}
	return true;
}

/* The mask of the backups in the domain of @backup. */
static uint32_t domain_of(uint32_t backup)
{
	uint32_t mask = 0, b;

	for (b = 0; b < nr; b++)
		mask |= (uint32_t)(map.domain[b] == map.domain[backup]) << b;
	return mask;
}

static uint32_t count_domains(void)
{
	uint32_t domains = 0, b;

	for (b = 0; b < nr; b++)
		domains += __builtin_ctz(domain_of(b)) == (int)b;
	return domains;
}

/*
 * With two domains or more a whole domain may fail, and digests still count.  Together with the
 * power, a whole domain may fail with three domains or more, and a part of one with two.
 */
static bool survives_domain(void)
{
	uint32_t domains = count_domains(), b, part;

	for (b = 0; b < nr && domains > 1; b++) {
		uint32_t left = map.mask & ~domain_of(b);

		if (!digest_counts(&map, left) || digest_enough(&map, left) != (domains > 2))
			return false;
		part = domain_of(b) & ~(1u << b);
		if (part && !digest_enough(&map, left | part))
			return false;
	}
	return true;
}

/* What holds for few backups, for random divisions of more. */
static bool more_backups(void)
{
	uint64_t random = SEED;
	uint32_t layout, domains, b;

	for (nr = MOST + 1; nr <= LSMEM_BACKUPS; nr++) {
		for (layout = 0; layout < LAYOUTS; layout++) {
			domains = 1 + random_below(&random, nr);
			for (b = 0; b < nr; b++)
				map.domain[b] = 1 + random_below(&random, domains);
			map.mask = (1u << nr) - 1;
			map.floor = digest_floor(&map);
			if (!ends() || !survives_domain() || !sampled_sets(&random)) {
				tap_note("seed %u: %u backups, division %u", SEED, nr, layout);
				return false;
			}
		}
	}
	return true;
}

/* Each backup in its own domain, or all in one: the numbers of durability.rst. */
static bool singles(void)
{
	static const uint32_t floors[] = { 0, 1, 1, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9 };
	static const uint32_t needs[] = { 0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9 };
	uint32_t alike, b;

	for (alike = 0; alike < 3; alike++)
		for (nr = 1; nr <= LSMEM_BACKUPS; nr++) {
			for (b = 0; b < nr; b++)
				map.domain[b] = alike == 0 ? 0 : alike == 1 ? 1 : b + 1;
			map.mask = (1u << nr) - 1;
			map.floor = digest_floor(&map);
			if (map.floor != floors[nr] || digest_need(&map) != needs[nr])
				return false;
		}
	return true;
}

int main(void)
{
	tap_ok(all_layouts(meets_digests), "a recovery finds each digest that counts");
	tap_ok(all_layouts(meets_recoveries), "of two recoveries one finds the other");
	tap_ok(all_layouts(grows), "more backups are never worse");
	tap_ok(all_layouts(survives_domain), "a domain may fail");
	tap_ok(more_backups(), "all of this with up to %u backups, in random domains", LSMEM_BACKUPS);
	tap_ok(singles(), "each backup in its own domain, or all in one");
	return tap_end();
}
