// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * lsm_table_next(): items of all lengths, as far as there is room for them; and of what is not wanted nothing is read: the
 * seglets in the middle of a long value cannot be accessed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake.h"
#include "table.h"
#include "../common/tap.h"

#define ROOM	200000u
#define CANARY	0xeeu

static struct fake *fake;
static uint8_t key[LSM_KEY_MAX + 1], value[ROOM + 1], bytes[ROOM + LSM_KEY_MAX + 64];

static uint8_t key_byte(uint32_t index, size_t i)
{
	return (uint8_t)(index * 7 + i * 13 + 1);
}

static uint8_t value_byte(uint32_t index, size_t i)
{
	return (uint8_t)(index * 3 + i / 251 + i * 5);
}

/* Writes the payload of an object, which can be in several seglets. */
static void write_payload(uint32_t index, const uint8_t *from, uint32_t length)
{
	const struct fake_object *object = &fake->objects[index];
	struct lsmem_entry header = lsmem_entry_make(LSMEM_TYPE_OBJECT, length, fake_handle(fake, index), object->version, 0,
						     index, 0);
	uint32_t at = object->offset + lsmem_entry_header(&header), i;

	for (i = 0; i < length; i++, at++)
		fake->seglets[(size_t)object->seglets[at / LSMEM_SEGLET_BYTES] * LSMEM_SEGLET_BYTES + at % LSMEM_SEGLET_BYTES] =
			from[i];
}

/* An object of table @index, which ends as an item does; @told: the length of its key, as it says. */
static bool put(uint32_t index, uint32_t length, uint32_t key_length, uint32_t told)
{
	struct lsmem_item_end end = { .key_length = __cpu_to_le16((uint16_t)told) };
	uint32_t i, all = length + (uint32_t)lsm_tail_bytes(key_length);

	for (i = 0; i < length; i++)
		bytes[i] = value_byte(index, i);
	for (i = 0; i < key_length; i++)
		bytes[length + i] = key_byte(index, i);
	memcpy(bytes + length + key_length, &end, sizeof(end));
	if (!fake_put(fake, index, 1, index + 1, all, 8 * (index % 100)))
		return false;
	write_payload(index, bytes, all);
	return true;
}

/* The only item of a table.  Return: as lsm_table_next(). */
static int next(uint32_t index, size_t key_room, size_t room, size_t *key_length, struct lsm_item *item)
{
	struct lsm_table table = { .lsm = fake->lsm, .id = index };
	uint64_t cursor = 0;
	int ret;

	memset(key, CANARY, sizeof(key));
	memset(value, CANARY, sizeof(value));
	*key_length = key_room;
	ret = lsm_table_next(&table, &cursor, key, key_length, value, room, item);
	if (ret > 0 && (lsm_table_next(&table, &cursor, bytes, &(size_t){ 0 }, NULL, 0, NULL) || cursor != FAKE_HANDLES))
		return -ERANGE;
	return ret;
}

static bool all_of(uint32_t index, const uint8_t *at, uint8_t (*byte)(uint32_t index, size_t i), size_t nr, size_t room)
{
	size_t i;

	for (i = 0; i < nr && i < room; i++)
		if (at[i] != byte(index, i))
			return false;
	return at[nr < room ? nr : room] == CANARY;
}

static bool right(uint32_t index, uint32_t length, uint32_t key_length, size_t key_room, size_t room)
{
	struct lsm_item item;
	size_t found;

	CHECK(next(index, key_room, room, &found, &item) == 1);
	CHECK(found == key_length && item.length == length);
	CHECK(item.handle == fake_handle(fake, index) && item.version == index + 1);
	CHECK(all_of(index, key, key_byte, key_length, key_room));
	CHECK(all_of(index, value, value_byte, length, room));
	CHECK(!atomic_load(&fake->calls));
	return true;
}

static bool lengths(void)
{
	static const uint32_t values[] = { 0, 1, 16, 300, 65000, 65536, 150000 };
	static const uint32_t keys[] = { 1, 16, 250, 700, LSM_KEY_MAX };
	static const size_t rooms[] = { 0, 1, 16, 65000, ROOM }, key_rooms[] = { 0, 8, 250, LSM_KEY_MAX };
	uint32_t v, k, i, index = 0;

	fake = fake_new();
	for (v = 0; v < sizeof(values) / sizeof(*values); v++) {
		for (k = 0; k < sizeof(keys) / sizeof(*keys); k++) {
			CHECK(put(index, values[v], keys[k], keys[k]));
			for (i = 0; i < 20; i++)
				CHECK(right(index, values[v], keys[k], key_rooms[i / 5], rooms[i % 5]));
			fake_free(fake, index);
			index++;
		}
	}
	fake_delete(fake);
	return true;
}

static bool no_items(void)
{
	struct lsm_item item;
	size_t found;

	fake = fake_new();
	CHECK(put(1, 10, 5, 0));
	CHECK(put(2, 10, 5, 16));		/* longer than the object */
	CHECK(fake_put(fake, 3, 1, 4, 1, 0));	/* shorter than the end of one */
	CHECK(!next(1, 100, 100, &found, &item));
	CHECK(!next(2, 100, 100, &found, &item));
	CHECK(!next(3, 100, 100, &found, &item));
	CHECK(!next(5, 100, 100, &found, &item));
	CHECK(put(6, 10, 5, 15));		/* all of it is the key */
	CHECK(next(6, 100, 100, &found, &item) == 1 && found == 15 && !item.length);
	fake_delete(fake);
	return true;
}

static bool bounded(void)
{
	const struct fake_object *object;
	uint8_t *middle;
	uint32_t i;

	fake = fake_new();
	CHECK(put(9, 150000, 16, 16));
	object = &fake->objects[9];
	CHECK(object->nr_seglets == 3);
	middle = fake->seglets + (size_t)object->seglets[1] * LSMEM_SEGLET_BYTES;
	CHECK(!mprotect(middle, LSMEM_SEGLET_BYTES, PROT_NONE));
	for (i = 0; i <= 16; i += 16)
		CHECK(right(9, 150000, 16, 250, i));
	CHECK(!mprotect(middle, LSMEM_SEGLET_BYTES, PROT_READ | PROT_WRITE));
	fake_delete(fake);
	return true;
}

int main(void)
{
	tap_ok(lengths(), "keys and values of all lengths");
	tap_ok(no_items(), "objects that are no items");
	tap_ok(bounded(), "what is not wanted is not read");
	return tap_end();
}
