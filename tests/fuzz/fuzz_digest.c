// SPDX-License-Identifier: GPL-2.0
/*
 * Digest logs.  Input: a byte of flags (1: seal all records; 2: of a coded store of BACKUPS backups), a byte with the
 * number of blocks of a half, then records: a byte with the block, a byte with the length in units of 4 bytes, the bytes.
 */
#include <stdlib.h>
#include <string.h>

#include <lsmem.h>

#include "image.h"
#include "core/core.h"

#define FRAMES		12u
#define BACKUPS		4u
#define MOST_BLOCKS	24u
#define UUID		0x5a

/* Writes the digest as one full record, reads it again, and compares. */
static void round_trip(const struct digest_map *map, const struct lsmem_super *super)
{
	struct lsmem_digest *digest = calloc(1, digest_full_bytes(map));
	const struct digest_stripes *s = map->stripes;
	uint32_t places = digest_places(map), i;
	struct digest_map again;

	digest_full(digest, map, super);
	if (format_digest_check(digest, super, digest_full_bytes(map)))
		fuzz_fail("a digest that was just made is not sound");
	if (digest_map_init(&again, map->backups, map->frames) || (s && digest_map_code(&again)) ||
	    digest_apply(&again, digest))
		fuzz_fail("a full digest of a sound map contradicts itself");
	for (i = 0; i < places; i++)
		if (memcmp(&again.items[i], &map->items[i], sizeof(map->items[i])))
			fuzz_fail("place %u is not what was written", i);
	if (s && (again.stripes->k != s->k || again.stripes->m != s->m || again.stripes->nr_shards != s->nr_shards ||
		  again.stripes->nr_segments != s->nr_segments ||
		  memcmp(again.stripes->of, s->of, places * sizeof(*s->of)) ||
		  memcmp(again.stripes->lanes, s->lanes, places * sizeof(*s->lanes))))
		fuzz_fail("the stripes are not what was written");
	if (again.branch.term != map->branch.term ||
	    again.branch.sequence != map->branch.sequence ||
	    again.branch.id != map->branch.id || again.nr != map->nr || again.term != map->term || again.sequence != map->sequence ||
	    again.era != map->era || again.generation_ceiling != map->generation_ceiling ||
	    again.store_time != map->store_time || again.next_segment != map->next_segment)
		fuzz_fail("the head is not what was written");
	digest_map_destroy(&again);
	free(digest);
}

/* The stripes, counted anew: each frame of one is of one, and on a backup of its own. */
static void check_stripes(const struct digest_map *map)
{
	const struct digest_stripes *s = map->stripes;
	uint32_t number, shard, lane, shards = 0, segments = 0, of = 0;

	for (number = 0; number < digest_stripes_nr(map); number++) {
		const struct digest_stripe *stripe = &s->stripe[number];
		uint32_t on = 0;

		for (shard = 0; shard < LSMEM_SHARDS; shard++) {
			if (!(stripe->there >> shard & 1u))
				continue;
			shards++;
			if (shard >= s->k + s->m || on >> stripe->place[shard] / map->frames & 1u ||
			    s->of[stripe->place[shard]] != number + 1 || map->items[stripe->place[shard]].state)
				fuzz_fail("stripe %u: shard %u is where it cannot be", number, shard);
			on |= 1u << stripe->place[shard] / map->frames;
		}
		if (on & ~map->mask || (stripe->used && (uint32_t)__builtin_popcount(stripe->there) < s->k))
			fuzz_fail("stripe %u has shards on no member, or too few", number);
		for (lane = 0; lane < s->k; lane++) {
			segments += s->lanes[number * s->k + lane].state != 0;
			if (!s->lanes[number * s->k + lane].state != !(stripe->used >> lane & 1u))
				fuzz_fail("stripe %u: lane %u", number, lane);
		}
	}
	for (number = 0; number < digest_places(map); number++)
		of += s->of[number] != 0;
	if (shards != s->nr_shards || shards != of || segments != s->nr_segments)
		fuzz_fail("the map does not count its stripes");
}

/* Starts core with the digest, after recovery or resuming. */
static void begin(const struct digest_map *map, const struct lsmem_super *super)
{
	static uint8_t frames[LSMEM_SEGLET_BYTES];
	static struct lsmem_seglet table[1];
	struct core_params params = {
		.super = { super, super, super, super }, .map = map, .io_bytes = CORE_IO_BYTES,
		.log = { .seglets = frames, .table = table, .nr_seglets = 1 },
	};
	char error[CORE_ERROR_BYTES];

	core_free(core_new(&params, error));
	params.resume = true;
	core_free(core_new(&params, error));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lsmem_super super = { 0 };
	struct digest_map map;
	enum format_error error;
	uint64_t half, at;
	uint32_t i, nr = 0;
	bool coded;
	uint8_t *log;

	if (size < 2)
		return 0;
	coded = data[0] & 2;
	half = (1 + data[1] % (MOST_BLOCKS / 2)) * LSMEM_BLOCK;
	memset(super.uuid, UUID, sizeof(super.uuid));
	super.digest_start = __cpu_to_le64(2 * LSMEM_BLOCK);
	super.digest_bytes = __cpu_to_le64(half);
	super.frames_start = __cpu_to_le64(1u << 20);
	super.frames = __cpu_to_le64(FRAMES);
	super.max_handles = __cpu_to_le64(100);
	super.kind = __cpu_to_le32(LSMEM_KIND_OBJECT);
	super.store_bytes = __cpu_to_le64(64u << 20);
	super.incarnation = __cpu_to_le64(1);
	if (coded)
		super.features.incompat = __cpu_to_le32(LSMEM_INCOMPAT_BACKUPS | LSMEM_INCOMPAT_CODE);
	log = calloc(1, 2 * half);
	for (at = 2; at + 2 <= size;) {
		uint64_t to = data[at] * LSMEM_BLOCK % (2 * half);
		uint64_t length = data[at + 1] * 4u;

		at += 2;
		if (length > size - at)
			length = size - at;
		if (length > 2 * half - to)
			length = 2 * half - to;
		memcpy(log + to, data + at, length);
		at += length;
	}
	if (data[0] & 1) {
		fuzz_seal_digests(log, half);
		fuzz_seal_digests(log + half, half);
	}
	if (digest_map_init(&map, coded ? BACKUPS : 1, FRAMES) || (coded && digest_map_code(&map)))
		abort();
	error = digest_read(&map, &super, log);
	if (!error) {
		for (i = 0; i < digest_places(&map); i++)
			nr += map.items[i].state != 0;
		if (nr != map.nr || map.half > 1 || map.at > half || map.at % LSMEM_BLOCK ||
		    map.sequence_seen < map.sequence)
			fuzz_fail("the map does not count what it lists");
		if (coded)
			check_stripes(&map);
		round_trip(&map, &super);
		begin(&map, &super);
	}
	digest_map_destroy(&map);
	free(log);
	return 0;
}
