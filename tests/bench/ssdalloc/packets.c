// SPDX-License-Identifier: GPL-2.0
/*
 * A cache of packets of 100 to 1500 bytes, found by a hash table, where the oldest leaves first.  It has
 * room for three quarters of all packets.  A packet that is put replaces an older one of its key; one that is not
 * there when it is wanted is put.  Its contents tell which put it was.
 */
#include "program.h"

#define SHORTEST	100u
#define LONGEST		1500u
#define NONE		UINT32_MAX

/**
 * struct slot - place of a packet
 * @packet: NULL: the slot is free
 * @key: of the packet
 * @length: of the packet, bytes
 * @chain: next slot of the same hash, or next free slot
 * @older: slot of the packet that was put before
 * @newer: slot of the packet that was put after
 */
struct slot {
	uint8_t *packet;
	uint32_t key;
	uint32_t length;
	uint32_t chain;
	uint32_t older;
	uint32_t newer;
};

static struct slot *slots;
static uint32_t *heads, nr_heads, nr_slots, free_slot, oldest = NONE, newest = NONE;
static uint64_t serials;	/* packets that were put */
static uint64_t misses;
static uint8_t copy[LONGEST];

#ifdef LSMEM
#include <lsmem.h>

static struct lsm_pool *pool;

static void make_room(const struct bench *bench)
{
	struct lsm *lsm;
	uint64_t root;
	int ret;

	ret = lsm_open(bench->path, 0, &lsm) ?:
	      lsm_pool_create(lsm, 2ull * nr_slots * 4096, bench->bytes, 0, &root, &pool);
	if (ret)
		fail("pool", -ret);
}

/* Pages of packets that were freed can be used again after a sync. */
static uint8_t *new_packet(uint32_t length)
{
	void *packet;

	if (lsm_pool_alloc(pool, length, &packet) &&
	    (lsm_pool_sync(pool) || lsm_pool_alloc(pool, length, &packet)))
		fail("packet", ENOMEM);
	return packet;
}
#else
static uint8_t *new_packet(uint32_t length)
{
	uint8_t *packet = malloc(length);

	if (!packet)
		fail("packet", ENOMEM);
	return packet;
}
#endif

static void end_packet(uint8_t *packet)
{
#ifdef LSMEM
	lsm_pool_free(pool, packet);
#else
	free(packet);
#endif
}

static uint32_t *head_of(uint64_t key)
{
	return &heads[random_next(&key) % nr_heads];
}

static uint32_t find(uint32_t key)
{
	uint32_t slot = *head_of(key);

	while (slot != NONE && slots[slot].key != key)
		slot = slots[slot].chain;
	return slot;
}

static void drop(uint32_t number)
{
	struct slot *slot = &slots[number];
	uint32_t *link = head_of(slot->key);

	while (*link != number)
		link = &slots[*link].chain;
	*link = slot->chain;
	*(slot->older == NONE ? &oldest : &slots[slot->older].newer) = slot->newer;
	*(slot->newer == NONE ? &newest : &slots[slot->newer].older) = slot->older;
	end_packet(slot->packet);
	slot->packet = NULL;
	slot->chain = free_slot;
	free_slot = number;
}

static uint32_t length_of(uint32_t key, uint64_t serial)
{
	uint64_t state = key * 0x9e3779b97f4a7c15ull + serial;

	return SHORTEST + random_below(&state, LONGEST - SHORTEST + 1);
}

static void put(uint32_t key)
{
	uint32_t number = find(key), *head = head_of(key);
	struct slot *slot;

	if (number != NONE)
		drop(number);
	else if (free_slot == NONE)
		drop(oldest);
	number = free_slot;
	slot = &slots[number];
	free_slot = slot->chain;
	serials++;
	*slot = (struct slot){ .key = key, .length = length_of(key, serials), .chain = *head,
			       .older = newest, .newer = NONE };
	slot->packet = new_packet(slot->length);
	content_fill(slot->packet, slot->length, key, serials);
	*head = number;
	*(newest == NONE ? &oldest : &slots[newest].newer) = number;
	newest = number;
}

void program_make(const struct bench *bench)
{
	uint32_t i;

	if (bench->handles < 4 || bench->handles >= NONE)
		fail("-n PACKETS", EINVAL);
	nr_heads = (uint32_t)bench->handles;
	nr_slots = nr_heads / 4 * 3;
	heads = get_memory(nr_heads * sizeof(*heads), 64);
	memset(heads, 0xff, nr_heads * sizeof(*heads));
	slots = get_memory(nr_slots * sizeof(*slots), 64);
	for (i = 0; i < nr_slots; i++)
		slots[i] = (struct slot){ .chain = i + 1 < nr_slots ? i + 1 : NONE };
#ifdef LSMEM
	make_room(bench);
#endif
	for (i = 0; i < nr_slots; i++)
		put(i);
}

void program_put(uint64_t nr)
{
	put((uint32_t)nr);
}

void program_get(uint64_t nr)
{
	uint32_t slot = find((uint32_t)nr);
	uint64_t id;

	if (slot == NONE) {
		misses++;
		put((uint32_t)nr);
		return;
	}
	memcpy(copy, slots[slot].packet, slots[slot].length);
	memcpy(&id, copy + sizeof(id), sizeof(id));
	if (id != nr)
		wrong("packet");
}

void program_check(uint64_t puts)
{
	uint32_t slot, before = NONE, nr = 0;
	uint64_t serial, last = 0;

	for (slot = oldest; slot != NONE && nr < nr_slots; slot = slots[slot].newer, nr++) {
		if (find(slots[slot].key) != slot ||
		    !content_right(slots[slot].packet, slots[slot].length, slots[slot].key, &serial) ||
		    slots[slot].length != length_of(slots[slot].key, serial))
			wrong("packet");
		if (serial <= last || slots[slot].older != before)
			wrong("order of packets");
		last = serial;
		before = slot;
	}
	if (slot != NONE || nr != nr_slots || last != serials || serials != nr_slots + puts + misses)
		wrong("cache");
}
