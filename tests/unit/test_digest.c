// SPDX-License-Identifier: GPL-2.0
/*
 * Digests of a coded store: stripes and coded segments in records, beside a table that is searched. Whatever the records
 * list, a full record of it lists the same, and an index of stripes (lane.h) can be made from it. Each contradiction is
 * refused, and a store that is not coded refuses all of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/random.h"
#include "../common/tap.h"
#include "format/digest.h"
#include "stripe/lane.h"
#include "base/rule.h"

uint64_t lsmem_mutation;

#define BACKUPS		7u
#define FRAMES		12u
#define K		3u
#define M		2u
#define STRIPES		(BACKUPS * FRAMES / K)
#define ITEMS		80u
#define STEPS		4000u
#define SEED		1u

#define FRAME(backup, frame)	((backup) << LSMEM_ITEM_FRAME_BITS | (frame))

/**
 * struct world - a map, and what it should be
 * @record: the record being made
 * @map: the map
 * @where: by stripe and shard: backup << LSMEM_ITEM_FRAME_BITS | frame of it, plus 1; 0: none
 * @lanes: by stripe and lane
 */
struct world {
	struct lsmem_super super;
	uint8_t record[sizeof(struct lsmem_digest) + ITEMS * sizeof(struct lsmem_digest_item)]
		__attribute__((aligned(8)));
	struct digest_map map;
	uint32_t where[STRIPES][K + M];
	struct digest_item lanes[STRIPES][K];
	uint64_t random, next;
};

static struct lsmem_digest *record(struct world *w)
{
	return (struct lsmem_digest *)w->record;
}

static struct lsmem_digest_item *last(struct world *w)
{
	return format_digest_items(record(w)) + __le32_to_cpu(record(w)->items) - 1;
}

static void map_new(struct digest_map *map, bool coded)
{
	uint32_t b;

	if (digest_map_init(map, BACKUPS, FRAMES) || (coded && digest_map_code(map)))
		abort();
	map->mask = (1u << BACKUPS) - 1;
	for (b = 0; b < BACKUPS; b++)
		map->members[b] = b + 1;
	map->floor = digest_floor(map);
	map->term = 1;
}

static void begin(struct world *w, uint32_t kind)
{
	w->map.sequence++;
	digest_head(record(w), &w->map, &w->super, kind);
}

static struct world *world_new(void)
{
	struct world *w = calloc(1, sizeof(*w));

	w->super.features.incompat = __cpu_to_le32(LSMEM_INCOMPAT_BACKUPS | LSMEM_INCOMPAT_CODE);
	w->random = SEED;
	w->next = 1;
	map_new(&w->map, true);
	begin(w, LSMEM_DIGEST_FULL);
	return w;
}

static void world_free(struct world *w)
{
	digest_map_destroy(&w->map);
	free(w);
}

static void add_shard(struct world *w, uint32_t stripe, uint32_t shard, uint32_t frame)
{
	digest_add_shard(record(w), frame, stripe, lsmem_code_make(K, M, shard), LSMEM_ITEM_STRIPE);
}

/* Add a stripe with frame @frame of the first backups. */
static void add_stripe(struct world *w, uint32_t stripe, uint32_t frame)
{
	uint32_t shard;

	for (shard = 0; shard < K + M; shard++)
		add_shard(w, stripe, shard, FRAME(shard, frame));
}

static void add_lane(struct world *w, uint32_t stripe, uint32_t lane, uint64_t segment, uint32_t state, uint32_t length)
{
	const struct digest_item item = { .segment = segment, .generation = 1, .length = length };

	digest_add_lane(record(w), stripe << LSMEM_ITEM_LANE_BITS | lane, &item, state);
}

/* ---- Contradictions ---------------------------------------------------- */

/* A map to which the record of @w is applied, after one of two stripes and two segments. */
static enum format_error applied(struct world *w, bool coded)
{
	struct world *before = world_new();
	enum format_error error;
	struct digest_map map;

	map_new(&map, coded);
	add_stripe(before, 1, 0);
	add_stripe(before, 4, 1);
	add_lane(before, 1, 0, 10, LSMEM_ITEM_OPEN, 80);
	add_lane(before, 4, 2, 11, LSMEM_ITEM_CLOSED, 800);
	error = digest_apply(&map, record(before));
	if (coded && error)
		abort();
	if (!error)
		error = digest_apply(&map, record(w));
	digest_map_destroy(&map);
	world_free(before);
	return error;
}

#define WITH(wanted, ...)							\
	do {									\
		struct world *w = world_new();					\
		enum format_error error;					\
										\
		begin(w, LSMEM_DIGEST_DELTA);					\
		__VA_ARGS__;							\
		error = applied(w, true);					\
		world_free(w);							\
		CHECK(error == (wanted));					\
	} while (0)

#define REMOVE(stripe, shard, frame)						\
	digest_add_shard(record(w), frame, stripe, lsmem_code_make(K, M, shard), LSMEM_ITEM_REMOVED)

static bool test_contradictions(void)
{
	/* Shards. */
	WITH(FORMAT_OK, add_stripe(w, 0, 2));
	WITH(FORMAT_OK, add_stripe(w, 1, 0));					/* named again */
	WITH(FORMAT_OK, add_stripe(w, STRIPES - 1, 2));
	WITH(FORMAT_RANGE, add_stripe(w, STRIPES, 2));
	WITH(FORMAT_RANGE, add_stripe(w, 0, FRAMES));
	WITH(FORMAT_RANGE, add_shard(w, 0, K + M, FRAME(0, 2)));
	WITH(FORMAT_RANGE, add_shard(w, 0, 0, FRAME(BACKUPS, 2)));		/* no member */
	WITH(FORMAT_RANGE, add_shard(w, 0, 0, FRAME(0, 0)));			/* of another stripe */
	WITH(FORMAT_RANGE, add_shard(w, 1, 0, FRAME(6, 2)));			/* the shard has a frame */
	WITH(FORMAT_RANGE, add_shard(w, 0, 0, FRAME(6, 2)); add_shard(w, 0, 1, FRAME(6, 3)));
	WITH(FORMAT_RANGE, add_shard(w, 0, 0, FRAME(6, 2)); last(w)->generation = __cpu_to_le32(lsmem_code_make(4, 2, 0)));
	WITH(FORMAT_RANGE, add_shard(w, 0, 0, FRAME(6, 2)); last(w)->generation = __cpu_to_le32(lsmem_code_make(3, 1, 0)));
	WITH(FORMAT_RANGE, add_shard(w, 0, 0, FRAME(6, 2)); last(w)->generation |= __cpu_to_le32(1u << 16));
	WITH(FORMAT_RANGE, add_shard(w, 0, 0, FRAME(6, 2)); last(w)->length = __cpu_to_le32(8));
	WITH(FORMAT_RANGE, add_shard(w, 0, 0, FRAME(6, 2)); last(w)->segment = __cpu_to_le64(8));
	WITH(FORMAT_RANGE, add_shard(w, 0, 0, FRAME(6, 2)); last(w)->cut = __cpu_to_le64(8));
	WITH(FORMAT_RANGE, add_shard(w, 0, 0, FRAME(6, 2)); last(w)->bitmap = __cpu_to_le32(8));
	WITH(FORMAT_RANGE, add_shard(w, 0, 0, FRAME(6, 2)); last(w)->replica_generation = __cpu_to_le32(8));
	WITH(FORMAT_RANGE, add_shard(w, 0, 0, FRAME(6, 2)); last(w)->live = __cpu_to_le32(8));
	WITH(FORMAT_OK, REMOVE(1, 0, FRAME(0, 0)));
	WITH(FORMAT_OK, REMOVE(1, 0, FRAME(0, 0)); add_shard(w, 1, 0, FRAME(6, 0)));
	WITH(FORMAT_OK, REMOVE(1, 0, FRAME(0, 0)); add_shard(w, 0, 0, FRAME(0, 0)));
	WITH(FORMAT_RANGE, add_shard(w, 1, 0, FRAME(6, 0)); REMOVE(1, 0, FRAME(0, 0)));
	WITH(FORMAT_RANGE, REMOVE(1, 1, FRAME(0, 0)));
	WITH(FORMAT_RANGE, REMOVE(4, 0, FRAME(0, 0)));
	WITH(FORMAT_RANGE, REMOVE(1, 0, FRAME(0, 1)));
	WITH(FORMAT_RANGE, REMOVE(0, 0, FRAME(0, 2)));
	/* Segments. */
	WITH(FORMAT_OK, add_lane(w, 1, 1, 12, LSMEM_ITEM_OPEN, 0));
	WITH(FORMAT_OK, add_lane(w, 1, 0, 10, LSMEM_ITEM_CLOSED, 88));
	WITH(FORMAT_OK, add_lane(w, 1, 0, 10, LSMEM_ITEM_REMOVED, 80));
	WITH(FORMAT_RANGE, add_lane(w, 1, 0, 10, LSMEM_ITEM_OPEN, 72));		/* shorter */
	WITH(FORMAT_RANGE, add_lane(w, 1, 0, 12, LSMEM_ITEM_OPEN, 80));		/* the lane has another segment */
	WITH(FORMAT_OK, add_lane(w, 1, 0, 10, LSMEM_ITEM_REMOVED, 80); add_lane(w, 1, 0, 12, LSMEM_ITEM_OPEN, 0));
	WITH(FORMAT_RANGE, add_lane(w, 1, 1, 12, LSMEM_ITEM_REMOVED, 0));
	WITH(FORMAT_RANGE, add_lane(w, 1, K, 12, LSMEM_ITEM_OPEN, 0));
	WITH(FORMAT_RANGE, add_lane(w, STRIPES, 0, 12, LSMEM_ITEM_OPEN, 0));
	WITH(FORMAT_RANGE, add_lane(w, 1, 1, 0, LSMEM_ITEM_OPEN, 0));
	WITH(FORMAT_RANGE, add_lane(w, 1, 1, 12, LSMEM_ITEM_OPEN, 4));
	WITH(FORMAT_RANGE, add_lane(w, 1, 1, 12, LSMEM_ITEM_STRIPE, 0));
	WITH(FORMAT_RANGE, add_lane(w, 1, 1, 12, LSMEM_ITEM_BRANCH, 0));
	/* A segment without k shards; one that goes with its stripe. */
	WITH(FORMAT_RANGE, add_lane(w, 0, 0, 12, LSMEM_ITEM_OPEN, 0));
	WITH(FORMAT_OK, add_lane(w, 0, 0, 12, LSMEM_ITEM_OPEN, 0); add_stripe(w, 0, 2));
	WITH(FORMAT_OK, REMOVE(1, 0, FRAME(0, 0)); REMOVE(1, 1, FRAME(1, 0)));
	WITH(FORMAT_RANGE, REMOVE(1, 0, FRAME(0, 0)); REMOVE(1, 1, FRAME(1, 0)); REMOVE(1, 2, FRAME(2, 0)));
	WITH(FORMAT_OK, REMOVE(1, 0, FRAME(0, 0)); REMOVE(1, 1, FRAME(1, 0)); REMOVE(1, 2, FRAME(2, 0));
	     add_lane(w, 1, 0, 10, LSMEM_ITEM_REMOVED, 80));
	/* Backups that are lost. */
	WITH(FORMAT_OK, record(w)->members[0] = record(w)->members[3] = 0);
	WITH(FORMAT_RANGE, record(w)->members[0] = record(w)->members[3] = record(w)->members[1] = 0);
	/* Replicas beside stripes. */
	WITH(FORMAT_OK, digest_add(record(w), FRAME(0, 2), &(struct digest_item){ .segment = 12 }, LSMEM_ITEM_OPEN));
	WITH(FORMAT_RANGE, digest_add(record(w), FRAME(0, 1), &(struct digest_item){ .segment = 12 }, LSMEM_ITEM_OPEN));
	WITH(FORMAT_RANGE, digest_add(record(w), FRAME(0, 2), &(struct digest_item){ .segment = 12 }, LSMEM_ITEM_OPEN);
	     add_shard(w, 0, 0, FRAME(0, 2)));
	WITH(FORMAT_RANGE, digest_add(record(w), FRAME(0, 2), &(struct digest_item){ .segment = 12 }, LSMEM_ITEM_OPEN);
	     last(w)->stripe = __cpu_to_le32(16));
	return true;
}

/* Codes, named by the first shard of a store. */
static bool test_codes(void)
{
	uint32_t k, m;

	for (k = 0; k < 16; k++) {
		for (m = 0; m < 16; m++) {
			struct world *w = world_new();
			bool may = k >= 2 && m && m < k && k + m <= LSMEM_SHARDS, ok;
			enum format_error error;

			digest_add_shard(record(w), 0, 0, lsmem_code_make(k, m, 0), LSMEM_ITEM_STRIPE);
			error = digest_apply(&w->map, record(w));
			ok = (error == FORMAT_OK) == may;
			/* When the last one is gone another code may come. */
			if (ok && may) {
				begin(w, LSMEM_DIGEST_DELTA);
				digest_add_shard(record(w), 0, 0, lsmem_code_make(k, m, 0), LSMEM_ITEM_REMOVED);
				add_shard(w, 0, 0, FRAME(1, 1));
				ok = digest_apply(&w->map, record(w)) == FORMAT_OK && w->map.stripes->k == K;
			}
			world_free(w);
			CHECK(ok);
		}
	}
	return true;
}

/* ---- Random records ---------------------------------------------------- */

static uint32_t shards_of(const struct world *w, uint32_t stripe)
{
	uint32_t nr = 0, shard;

	for (shard = 0; shard < K + M; shard++)
		nr += w->where[stripe][shard] != 0;
	return nr;
}

static uint32_t lanes_of(const struct world *w, uint32_t stripe)
{
	uint32_t nr = 0, lane;

	for (lane = 0; lane < K; lane++)
		nr += w->lanes[stripe][lane].state != 0;
	return nr;
}

/* Is the frame free, and its backup without a shard of the stripe? */
static bool may_put(const struct world *w, uint32_t stripe, uint32_t frame)
{
	uint32_t s, shard;

	for (s = 0; s < STRIPES; s++)
		for (shard = 0; shard < K + M; shard++)
			if (w->where[s][shard] && (w->where[s][shard] - 1 == frame ||
						   (s == stripe && (w->where[s][shard] - 1) >> LSMEM_ITEM_FRAME_BITS ==
						    frame >> LSMEM_ITEM_FRAME_BITS)))
				return false;
	return true;
}

/* Add one change that may be. */
static void change(struct world *w)
{
	uint32_t stripe = random_below(&w->random, STRIPES), shard = random_below(&w->random, K + M);
	uint32_t frame = FRAME((uint32_t)random_below(&w->random, BACKUPS), (uint32_t)random_below(&w->random, FRAMES));
	struct digest_item *item = &w->lanes[stripe][random_below(&w->random, K)];
	uint32_t lane = (uint32_t)(item - w->lanes[stripe]);

	switch (random_below(&w->random, 4)) {
	case 0:
		if (w->where[stripe][shard] || !may_put(w, stripe, frame))
			return;
		add_shard(w, stripe, shard, frame);
		w->where[stripe][shard] = frame + 1;
		return;
	case 1:
		if (!w->where[stripe][shard] || (lanes_of(w, stripe) && shards_of(w, stripe) <= K) ||
		    random_chance(&w->random, 60))
			return;
		REMOVE(stripe, shard, w->where[stripe][shard] - 1);
		w->where[stripe][shard] = 0;
		return;
	case 2:
		if (!item->state && shards_of(w, stripe) >= K)
			*item = (struct digest_item) { .segment = w->next++, .generation = 1, .state = LSMEM_ITEM_OPEN };
		else if (item->state == LSMEM_ITEM_OPEN)
			item->state = LSMEM_ITEM_CLOSED - random_below(&w->random, 2);
		if (item->state == LSMEM_ITEM_OPEN)
			item->length += 8 * random_below(&w->random, 100);
		if (item->state)
			digest_add_lane(record(w), stripe << LSMEM_ITEM_LANE_BITS | lane, item, item->state);
		return;
	default:
		if (!item->state)
			return;
		digest_add_lane(record(w), stripe << LSMEM_ITEM_LANE_BITS | lane, item, LSMEM_ITEM_REMOVED);
		memset(item, 0, sizeof(*item));
	}
}

static bool same(const struct world *w, const struct digest_map *map)
{
	const struct digest_stripes *s = map->stripes;
	uint32_t stripe, i, shards = 0, segments = 0;

	for (stripe = 0; stripe < STRIPES; stripe++) {
		for (i = 0; i < K + M; i++) {
			uint32_t where = w->where[stripe][i], place;

			shards += where != 0;
			CHECK(!!where == (s->stripe[stripe].there >> i & 1u));
			if (!where)
				continue;
			place = ((where - 1) >> LSMEM_ITEM_FRAME_BITS) * FRAMES + ((where - 1) & 0xffffff);
			CHECK(s->stripe[stripe].place[i] == place && s->of[place] == stripe + 1);
		}
		for (i = 0; i < K; i++) {
			segments += w->lanes[stripe][i].state != 0;
			CHECK(!!w->lanes[stripe][i].state == (s->stripe[stripe].used >> i & 1u));
			CHECK(!memcmp(&w->lanes[stripe][i], &s->lanes[stripe * K + i], sizeof(struct digest_item)));
		}
	}
	CHECK(s->nr_shards == shards && s->nr_segments == segments && !map->nr);
	CHECK(digest_full_bytes(map) == format_digest_bytes(shards + segments));
	return true;
}

/* A full record of the map, in a new one. */
static bool again(const struct world *w)
{
	struct lsmem_digest *full = calloc(1, digest_full_bytes(&w->map));
	struct digest_map map;
	bool ok;

	map_new(&map, true);
	digest_full(full, &w->map, &w->super);
	ok = format_digest_check(full, &w->super, digest_full_bytes(&w->map)) == FORMAT_OK &&
	     digest_apply(&map, full) == FORMAT_OK && same(w, &map);
	digest_map_destroy(&map);
	free(full);
	return ok;
}

/* The index of stripes, made from the map as a recovery would. */
static bool indexed(const struct world *w)
{
	const struct digest_stripes *s = w->map.stripes;
	struct lanes *lanes = lanes_new(K, M, STRIPES);
	uint32_t stripe, i;
	bool ok = true;

	for (stripe = 0; stripe < digest_stripes_nr(&w->map); stripe++) {
		for (i = 0; i < K + M; i++) {
			struct lane_frame frame = {
				s->stripe[stripe].place[i] / FRAMES, s->stripe[stripe].place[i] % FRAMES
			};

			if (s->stripe[stripe].there >> i & 1u)
				ok = ok && lanes_put_back(lanes, stripe, i, &frame);
		}
		for (i = 0; i < K; i++) {
			struct lane lane = lane_of_item(stripe << LSMEM_ITEM_LANE_BITS | i);

			if (s->stripe[stripe].used >> i & 1u)
				ok = ok && lane_item(&lane) == (stripe << LSMEM_ITEM_LANE_BITS | i) &&
				     lanes_claim(lanes, &lane);
		}
		ok = ok && lanes_there(lanes, stripe) == s->stripe[stripe].there;
	}
	lanes_free(lanes);
	return ok;
}

static bool test_records(void)
{
	struct world *w = world_new();
	uint32_t step, most = 0;
	bool ok = true;

	for (step = 0; step < STEPS && ok; step++) {
		begin(w, LSMEM_DIGEST_DELTA);
		if (!step)
			begin(w, LSMEM_DIGEST_FULL);
		do
			change(w);
		while (__le32_to_cpu(record(w)->items) < ITEMS - 2 && random_below(&w->random, 10));
		ok = digest_apply(&w->map, record(w)) == FORMAT_OK && same(w, &w->map) && again(w) && indexed(w);
		if (w->map.stripes->nr_segments > most)
			most = w->map.stripes->nr_segments;
		if (!ok)
			tap_note("seed %u, record %u", SEED, step);
	}
	world_free(w);
	CHECK(ok && most > 10);
	return true;
}

static bool test_others(void)
{
	struct world *w = world_new();
	enum format_error error = applied(w, false);

	world_free(w);
	CHECK(error == FORMAT_RANGE);
	return true;
}

int main(void)
{
	tap_ok(test_contradictions(), "records that contradict themselves or the map");
	tap_ok(test_codes(), "which codes there are, and when another may come");
	tap_ok(test_records(), "random records beside a table; full records; the index of stripes");
	tap_ok(test_others(), "a store that is not coded has no stripes");
	return tap_end();
}
