// SPDX-License-Identifier: GPL-2.0
/*
 * The backups that must have a digest and those that recovery must read, for all divisions of up
 * to MOST backups into failure domains and all sets of backups.
 */
#include "format/digest.h"
#include "../common/tap.h"

#define MOST	6u

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
static bool meets_digests(void)
{
	uint32_t read, wrote;

	for (read = 0; read <= map.mask; read++)
		for (wrote = 0; wrote <= map.mask; wrote++)
			if (digest_enough(&map, read) && digest_counts(&map, wrote) &&
			    !(read & wrote))
				return false;
	return true;
}

/* Any two sets that recoveries may read have a backup in common: one finds the other's promise. */
static bool meets_recoveries(void)
{
	uint32_t one, other;

	for (one = 0; one <= map.mask; one++)
		for (other = 0; other <= map.mask; other++)
			if (digest_enough(&map, one) && digest_enough(&map, other) &&
			    !(one & other))
				return false;
	return true;
}

/* More backups are never worse than fewer.  All are enough, none is not. */
static bool grows(void)
{
	uint32_t have, more;

	for (have = 0; have <= map.mask; have++)
		for (more = have; more <= map.mask; more = (more + 1) | have)
			if ((digest_counts(&map, have) && !digest_counts(&map, more)) ||
			    (digest_enough(&map, have) && !digest_enough(&map, more)))
				return false;
	return digest_enough(&map, map.mask) && !digest_counts(&map, 0) &&
	       !digest_enough(&map, 0);
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

/* Each backup in its own domain, or all in one: the numbers of durability.rst. */
static bool singles(void)
{
	static const uint32_t floors[] = { 0, 1, 1, 2, 3, 3, 4, 4, 5 };
	static const uint32_t needs[] = { 0, 1, 2, 2, 3, 3, 4, 4, 5 };
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
	tap_ok(singles(), "each backup in its own domain, or all in one");
	return tap_end();
}
