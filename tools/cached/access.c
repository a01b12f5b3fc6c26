// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemcached: which items were read, and when.
 *
 * The flags h and l of mg ask for it.  A read must not write to the store, so a table in memory remembers it for
 * the items that were read last; two items can have the same place, and the one that was read later has it.
 */
#include "cached.h"

#define PLACES	(1u << 16)

/* Above: the second; below: half of a mark of the item and its version */
static uint64_t places[PLACES];

static uint64_t mark(const struct lsm_item *item)
{
	uint64_t mixed = (item->handle ^ item->version << 20) * 0x9e3779b97f4a7c15u;

	return mixed ^ mixed >> 32;
}

/**
 * access_note - an item was read
 * @item: attributes of its object
 * @now: second since 1970
 */
void access_note(const struct lsm_item *item, uint32_t now)
{
	uint64_t found = mark(item);
	uint64_t *place = &places[found >> 48];
	uint64_t entry = (uint64_t)now << 32 | (uint32_t)found;

	if (__atomic_load_n(place, __ATOMIC_RELAXED) != entry)
		__atomic_store_n(place, entry, __ATOMIC_RELAXED);
}

/**
 * access_last - when an item was read
 * @item: attributes of its object
 *
 * Return: second since 1970; 0: not since it was stored, or not known.
 */
uint32_t access_last(const struct lsm_item *item)
{
	uint64_t found = mark(item);
	uint64_t entry = __atomic_load_n(&places[found >> 48], __ATOMIC_RELAXED);

	return (uint32_t)entry == (uint32_t)found ? (uint32_t)(entry >> 32) : 0;
}
