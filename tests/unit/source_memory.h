/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The memory of a migration's source, for tests of what reads it: objects in seglets of any order, and what was told of
 * them. Each program that includes this has one.
 */
#ifndef TESTS_UNIT_SOURCE_MEMORY_H
#define TESTS_UNIT_SOURCE_MEMORY_H

#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "move/known.h"
#include "move/pull.h"
#include "../common/random.h"
#include "../common/tap.h"

#define INDICES		1000u
#define SEGLETS		256u
#define OBJECTS		60u
#define SEGMENT		7u	/* the first */
#define SEGMENT_OBJECTS	20u	/* in each, of a dense log */
#define GENERATION	3u
#define MS		1000000ull

static const uint8_t uuid[LSMEM_UUID_BYTES] = { 1, 2, 3 };
static const uint32_t lengths[] = { 1, 100, 2047, 2048, 4000, 9000, 65000, 70000, 300000, LSMEM_OBJECT_MAX };

/**
 * struct object - an object of the source
 * @version: the newest
 * @length: bytes
 * @segment: id
 * @home: in the segment
 * @cache: number of the cache segment in which it lies; 0: it lies in its own
 * @place: as it is told
 * @told: there was room for it there
 * @asked: pull_take() has taken the request
 * @got: it came, so many times
 * @back: the backups are to answer it
 */
struct object {
	uint64_t version, place, segment;
	uint32_t length, home, cache;
	bool told, asked;
	uint32_t got, back;
};

static struct {
	uint8_t *memory;
	struct lsmem_seglet table[SEGLETS];
	uint32_t order[SEGLETS];	/* seglets of the log, in its order */
	struct object objects[OBJECTS];
	struct known *known;
	uint64_t random;
} source;

static union {
	struct ahead_head head;
	uint8_t bytes[AHEAD_BYTES];
} block;

static inline uint8_t content(uint32_t index, uint64_t version, uint32_t i)
{
	return (uint8_t)(index * 31 + version * 7 + i * 3 + (i >> 8));
}

/* Byte @at of the log, as the source has it. */
static inline uint8_t *byte_at(uint64_t at)
{
	return source.memory + (size_t)source.order[at / LSMEM_SEGLET_BYTES] * LSMEM_SEGLET_BYTES + at % LSMEM_SEGLET_BYTES;
}

static inline void copy_in(uint64_t at, const void *data, uint32_t bytes)
{
	uint32_t i;

	for (i = 0; i < bytes; i++)
		*byte_at(at + i) = ((const uint8_t *)data)[i];
}

/* What the CRC of an object is salted with, where it lies. */
static inline uint32_t source_salt(const struct object *o)
{
	return o->cache ? lsmem_segment_salt(uuid, LSMEM_SEGMENT_ID_END + o->cache, 1) :
	       lsmem_segment_salt(uuid, o->segment, GENERATION);
}

/* Put an entry into the source's memory at @at of the log, in a cache segment with what follows it there. */
static inline void put_entry(uint64_t at, uint32_t index, uint64_t version, uint32_t length, uint32_t home)
{
	struct lsmem_entry e = lsmem_entry_make(LSMEM_TYPE_OBJECT, length, lsmem_handle_make(index, 2), version, 4, 1, home);
	static uint8_t payload[LSMEM_OBJECT_MAX];
	uint32_t i;

	for (i = 0; i < length; i++)
		payload[i] = content(index, version, i);
	e.crc = __cpu_to_le32(lsmem_entry_crc(&e, lsmem_crc32c(~0u, payload, length), source_salt(&source.objects[index])));
	copy_in(at, &e, lsmem_entry_header(&e));
	copy_in(at + lsmem_entry_header(&e), payload, length);
	if (source.objects[index].cache)
		copy_in(at + lsmem_entry_size(length), "trailer", LSMEM_TRAILER_BYTES);
}

/* Bytes of an entry where it lies. */
static inline uint32_t source_bytes(const struct object *o, uint32_t length)
{
	return lsmem_entry_size(length) + (o->cache ? LSMEM_TRAILER_BYTES : 0);
}

/* Tell the listing of an object to the target. */
static inline int tell(uint32_t index, uint64_t version, uint64_t place)
{
	const struct object *o = &source.objects[index];
	struct lsmem_directory_entry e = {
		__cpu_to_le64(lsmem_handle_make(index, 2)), __cpu_to_le64(version),
		__cpu_to_le64(lsmem_listing_make(o->length, LSMEM_TYPE_OBJECT, o->home, 1, 4)),
	};

	ahead_begin_segment(&block.head, o->segment, GENERATION, LSMEM_SEGMENT_BYTES - 4 * LSMEM_BLOCK);
	(void)ahead_add_listing(&block.head, &e, place);
	return known_block(source.known, &block.head);
}

/* A position, without the number of a cache segment. */
static inline uint64_t position(uint64_t at)
{
	return (uint64_t)source.order[at / LSMEM_SEGLET_BYTES] << LSMEM_POSITION_OFFSET_BITS | at % LSMEM_SEGLET_BYTES / LSMEM_ALIGN;
}

static inline uint64_t position_of(const struct object *o)
{
	return o->place & ((1ull << LSMEM_POSITION_BITS) - 1);
}

/* As READY has them. */
static const struct move_keys source_keys = {
	.seglets = { 0x100000000ull, (uint64_t)SEGLETS * LSMEM_SEGLET_BYTES, 11 },
	.table = { 0x7000, sizeof(source.table), 22 },
};

/* Is a READ within the memory of its key? */
static inline bool source_has(const struct pull_read *read)
{
	const struct move_region *region = read->key == source_keys.seglets.key ? &source_keys.seglets : &source_keys.table;

	return read->key == region->key && read->length && read->address >= region->address &&
	       read->address - region->address + read->length <= region->bytes;
}

static inline void source_read(const struct pull_read *read)
{
	if (read->key == source_keys.seglets.key)
		memcpy(read->data, source.memory + (read->address - source_keys.seglets.address), read->length);
	else
		memcpy(read->data, (uint8_t *)source.table + (read->address - source_keys.table.address), read->length);
}

static inline void source_free(void)
{
	known_free(source.known);
	free(source.memory);
	source.known = NULL;
	source.memory = NULL;
}

/* Where the entry of an object is put in the log, @at being the end of the one before it. */
static inline uint64_t source_place(uint32_t i, uint64_t at, bool dense)
{
	uint64_t seglet = (at + LSMEM_SEGLET_BYTES - 1) / LSMEM_SEGLET_BYTES * LSMEM_SEGLET_BYTES;

	if (!dense)
		return seglet + random_below(&source.random, LSMEM_SEGLET_BYTES / 8 - 4) * 8;
	if (i % SEGMENT_OBJECTS == 0)
		return seglet;
	at = lsmem_entry_start((uint32_t)at);
	/* What was replaced lies between what is live. */
	if (random_chance(&source.random, 40) && at + 4200 < (uint64_t)SEGLETS * LSMEM_SEGLET_BYTES) {
		put_entry(at, i, 1, 4000, source.objects[i].home);
		at = lsmem_entry_start((uint32_t)at + source_bytes(&source.objects[i], 4000));
	}
	return at;
}

/*
 * A source with all its objects, told. @dense: as a log is, of several segments; else each begins in a seglet of its own, at any
 * offset, in one segment.
 */
static inline bool source_begin(uint64_t seed, bool dense)
{
	uint32_t i, j;
	uint64_t at = 0;

	source_free();
	memset(&source, 0, sizeof(source));
	source.random = seed;
	source.memory = calloc(SEGLETS, LSMEM_SEGLET_BYTES);
	source.known = known_new(INDICES, 100);
	for (i = 0; i < SEGLETS; i++)
		source.order[i] = i;
	for (i = SEGLETS - 1; i; i--) {
		uint32_t other = random_below(&source.random, i + 1), was = source.order[i];

		source.order[i] = source.order[other];
		source.order[other] = was;
	}
	for (i = 0; i < SEGLETS; i++)
		source.table[source.order[i]].next = i + 1 < SEGLETS ? source.order[i + 1] : UINT32_MAX;
	for (i = 0; i < OBJECTS; i++) {
		struct object *o = &source.objects[i];

		j = random_below(&source.random, sizeof(lengths) / sizeof(lengths[0]));
		o->length = lengths[j];
		o->version = 100 + i;
		o->segment = SEGMENT + (dense ? i / SEGMENT_OBJECTS : 0);
		/* Of a dense log one is in a cache segment, else each third object in one of its own. */
		o->cache = dense ? (o->segment == SEGMENT + 1) * 9 : (i % 3 == 2) * i;
		/* There it can lie in a seglet with those of other segments. */
		if (dense && i == SEGMENT_OBJECTS + 1)
			o->segment = SEGMENT + 9;
		o->home = i * 9 * LSMEM_BLOCK + random_below(&source.random, LSMEM_BLOCK / 8) * 8;
		at = source_place(i, at, dense);
		if (at + source_bytes(o, o->length) > (uint64_t)SEGLETS * LSMEM_SEGLET_BYTES) {
			o->length = 100;
			at = i * 24ull;		/* never told */
			continue;
		}
		put_entry(at, i, o->version, o->length, o->home);
		o->place = position(at) | (uint64_t)o->cache << LSMEM_PLACE_CACHE_SHIFT;
		CHECK(!tell(i, o->version, o->place));
		o->told = true;
		at += source_bytes(o, o->length);
	}
	return true;
}

#endif
