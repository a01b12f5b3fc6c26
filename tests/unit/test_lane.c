// SPDX-License-Identifier: GPL-2.0
/* The index of stripes, stripe/lane.h, beside a table that is searched. */
#include <string.h>

#include "stripe/lane.h"
#include "../common/random.h"
#include "../common/tap.h"

#define K	3u
#define M	2u
#define STRIPES	40u
#define BACKUPS	7u

/**
 * struct model - what must be so
 * @has: by number of the item: a segment has this lane
 * @frames: by stripe and shard
 * @known: by stripe: there is one
 * @there: mask of shards, by stripe
 */
struct model {
	struct lanes *lanes;
	uint64_t random;
	bool has[STRIPES * CODE_SHARDS];
	bool known[STRIPES];
	struct lane_frame frames[STRIPES][K + M];
	uint32_t there[STRIPES];
	uint32_t next_frame;
};

static uint32_t used(const struct model *model, uint32_t stripe)
{
	uint32_t lane, nr = 0;

	for (lane = 0; lane < K; lane++)
		nr += model->has[stripe * CODE_SHARDS + lane];
	return nr;
}

/* Frames on any @nr backups. */
static void any_frames(struct model *model, struct lane_frame *frames, uint32_t nr)
{
	uint32_t b, left = BACKUPS;

	for (b = 0; b < BACKUPS; b++, left--)
		if (random_below(&model->random, left) < nr) {
			*frames++ = (struct lane_frame) { b, model->next_frame++ };
			nr--;
		}
}

static bool same(const struct model *model)
{
	uint32_t stripe, shard, least, left;

	for (stripe = 0; stripe < STRIPES; stripe++) {
		CHECK(lanes_there(model->lanes, stripe) == model->there[stripe]);
		CHECK((uint32_t)__builtin_popcount(lanes_used(model->lanes, stripe)) == used(model, stripe));
		for (shard = 0; shard < K + M; shard++) {
			struct lane_frame where = lanes_where(model->lanes, stripe, shard);

			if (model->there[stripe] >> shard & 1)
				CHECK(!memcmp(&where, &model->frames[stripe][shard], sizeof(where)));
			else
				CHECK(where.backup == LANE_NONE && where.frame == LANE_NONE);
		}
	}
	for (least = 0; least <= K + M; least++) {
		left = 0;
		for (stripe = 0; stripe < STRIPES; stripe++)
			if (model->known[stripe] && (uint32_t)__builtin_popcount(model->there[stripe]) >= least)
				left += K - used(model, stripe);
		CHECK(lanes_left(model->lanes, least) == left);
	}
	return true;
}

static bool take(struct model *model, uint32_t least)
{
	uint32_t stripe, best = STRIPES, nr, shard;
	struct lane_frame frames[K + M];
	struct lane lane;

	for (stripe = 0; stripe < STRIPES; stripe++)
		if ((uint32_t)__builtin_popcount(model->there[stripe]) >= least && used(model, stripe) < K &&
		    (best == STRIPES || used(model, stripe) > used(model, best)))
			best = stripe;
	if (lanes_take(model->lanes, least, &lane)) {
		CHECK(best < STRIPES && used(model, lane.stripe) == used(model, best));
		CHECK((uint32_t)__builtin_popcount(model->there[lane.stripe]) >= least);
		CHECK(lane.lane < K && !model->has[lane_item(&lane)]);
		model->has[lane_item(&lane)] = true;
		CHECK(lane_of_item(lane_item(&lane)).stripe == lane.stripe && lane_of_item(lane_item(&lane)).lane == lane.lane);
		CHECK(!lanes_claim(model->lanes, &lane));
		return true;
	}
	CHECK(best == STRIPES);
	nr = K + random_below(&model->random, M + 1);
	any_frames(model, frames, nr);
	stripe = lanes_add(model->lanes, frames, nr);
	if (stripe == LANE_NONE) {
		for (stripe = 0; stripe < STRIPES; stripe++)
			CHECK(model->known[stripe]);
		return true;
	}
	CHECK(!model->known[stripe] && !used(model, stripe));
	model->known[stripe] = true;
	model->there[stripe] = (1u << nr) - 1;
	for (shard = 0; shard < nr; shard++)
		model->frames[stripe][shard] = frames[(shard + stripe) % nr];
	return true;
}

static bool give(struct model *model)
{
	struct lane lane = { random_below(&model->random, STRIPES), random_below(&model->random, K) };
	bool empty;

	if (!model->has[lane_item(&lane)])
		return true;
	model->has[lane_item(&lane)] = false;
	lanes_remove(model->lanes, lane.stripe);	/* nothing is done: it has a segment */
	empty = lanes_give(model->lanes, &lane);
	CHECK(empty == !used(model, lane.stripe));
	CHECK(!lanes_give(model->lanes, &lane));
	if (empty) {
		lanes_remove(model->lanes, lane.stripe);
		model->there[lane.stripe] = 0;
		model->known[lane.stripe] = false;
	}
	return true;
}

static void lose(struct model *model)
{
	uint32_t backup = random_below(&model->random, BACKUPS), stripe, shard;

	lanes_lose(model->lanes, backup);
	for (stripe = 0; stripe < STRIPES; stripe++)
		for (shard = 0; shard < K + M; shard++)
			if (model->frames[stripe][shard].backup == backup)
				model->there[stripe] &= ~(1u << shard);
}

/* Is a shard made anew, of a stripe with the fewest shards? */
static bool rebuild(struct model *model)
{
	uint32_t stripe, shard, n, fewest = K + M, i;
	struct lane_frame frame;

	for (n = 0; n < STRIPES; n++) {
		uint32_t nr = (uint32_t)__builtin_popcount(model->there[n]);

		if (used(model, n) && nr >= K && nr < fewest)
			fewest = nr;
	}
	CHECK(lanes_missing(model->lanes, &stripe, &shard) == (fewest < K + M));
	if (fewest == K + M)
		return true;
	CHECK((uint32_t)__builtin_popcount(model->there[stripe]) == fewest && used(model, stripe));
	CHECK(shard < K + M && !(model->there[stripe] >> shard & 1));
	for (frame.backup = 0; frame.backup < BACKUPS; frame.backup++) {
		frame.frame = model->next_frame++;
		for (i = 0, n = 0; i < K + M; i++)
			n |= model->there[stripe] >> i & 1 && model->frames[stripe][i].backup == frame.backup;
		CHECK(lanes_put_back(model->lanes, stripe, shard, &frame) == !n);
		if (n)
			continue;
		CHECK(!lanes_put_back(model->lanes, stripe, shard, &frame));
		model->there[stripe] |= 1u << shard;
		model->frames[stripe][shard] = frame;
		return true;
	}
	return true;
}

/* A recovery makes the index from what the digest lists, in any order. */
static bool recover(struct model *model)
{
	struct lanes *lanes = lanes_new(K, M, STRIPES);
	uint32_t n, stripe, shard, item;

	for (n = 0; n < STRIPES * (K + M); n++) {
		stripe = (n * 7 + 3) % STRIPES;
		shard = n / STRIPES;
		if (model->there[stripe] >> shard & 1)
			CHECK(lanes_put_back(lanes, stripe, shard, &model->frames[stripe][shard]));
	}
	for (item = 0; item < STRIPES * CODE_SHARDS; item++) {
		struct lane lane = lane_of_item(item);

		if (model->has[item] && model->there[lane.stripe])
			CHECK(lanes_claim(lanes, &lane));
		/* A segment none of whose shards is left is lost. */
		model->has[item] &= model->there[lane.stripe] != 0;
	}
	/* A digest lists no stripe without a segment or a frame. */
	for (stripe = 0; stripe < STRIPES; stripe++)
		if (!used(model, stripe)) {
			lanes_remove(lanes, stripe);
			model->there[stripe] = 0;
			model->known[stripe] = false;
		}
	lanes_free(model->lanes);
	model->lanes = lanes;
	return true;
}

static bool test_random(void)
{
	static struct model model;
	uint32_t i;

	model.random = 3;
	model.lanes = lanes_new(K, M, STRIPES);
	for (i = 0; i < 100000; i++) {
		uint32_t what = random_below(&model.random, 1000);
		bool fill = i / 5000 % 2;

		if (what < (fill ? 600 : 300))
			CHECK(take(&model, K + random_below(&model.random, M + 1)));
		else if (what < 900)
			CHECK(give(&model));
		else if (what < 980)
			CHECK(rebuild(&model));
		else if (what < 990)
			lose(&model);
		else
			CHECK(recover(&model));
		if (i % 16 == 0)
			CHECK(same(&model));
	}
	lanes_free(model.lanes);
	return true;
}

/* All backups get their share of parity. */
static bool test_parity(void)
{
	struct lanes *lanes = lanes_new(K, M, K + M);
	uint32_t parity[K + M] = { 0 }, i, shard;
	struct lane_frame frames[K + M];

	for (i = 0; i < K + M; i++)
		frames[i] = (struct lane_frame) { i, 0 };
	for (i = 0; i < K + M; i++) {
		CHECK(lanes_add(lanes, frames, K + M) == i);
		for (shard = K; shard < K + M; shard++)
			parity[lanes_where(lanes, i, shard).backup]++;
	}
	for (i = 0; i < K + M; i++)
		CHECK(parity[i] == M);
	CHECK(lanes_add(lanes, frames, K + M) == LANE_NONE);
	lanes_free(lanes);
	return true;
}

static bool test_bounds(void)
{
	struct lanes *lanes = lanes_new(K, M, 2);
	struct lane_frame frames[K + M + 1] = { { 0, 0 }, { 1, 0 }, { 2, 0 }, { 3, 0 }, { 4, 0 }, { 5, 0 } };
	struct lane lane = { 0, 0 };
	uint32_t stripe, shard;

	CHECK(!lanes_new(0, 1, 1) && !lanes_new(1, 0, 1) && !lanes_new(9, 8, 1) && !lanes_new(2, ~0u, 1));
	CHECK(!lanes_new(2, 1, LANE_NONE / CODE_SHARDS));
	CHECK(lanes_add(lanes, frames, K - 1) == LANE_NONE && lanes_add(lanes, frames, K + M + 1) == LANE_NONE);
	CHECK(!lanes_claim(lanes, &lane) && !lanes_give(lanes, &lane) && !lanes_there(lanes, 0) && !lanes_there(lanes, 9));
	CHECK(!lanes_take(lanes, K, &lane));
	CHECK(!lanes_put_back(lanes, 2, 0, frames) && !lanes_put_back(lanes, 0, K + M, frames));
	CHECK(lanes_add(lanes, frames, K) == 0 && !lanes_take(lanes, K + 1, &lane) && lanes_take(lanes, K, &lane));
	CHECK(lanes_missing(lanes, &stripe, &shard) && stripe == 0 && shard == K);
	lanes_lose(lanes, 1);
	CHECK(!lanes_missing(lanes, &stripe, &shard));		/* too few are left */
	lane.lane = K;
	CHECK(!lanes_claim(lanes, &lane) && !lanes_give(lanes, &lane));
	CHECK(lanes_where(lanes, 0, 40).backup == LANE_NONE && lanes_where(lanes, 5, 0).backup == LANE_NONE);
	lanes_remove(lanes, 7);
	lanes_free(lanes);
	lanes = lanes_new(K, M, 0);
	CHECK(lanes_add(lanes, frames, K) == LANE_NONE);
	lanes_free(lanes);
	return true;
}

int main(void)
{
	tap_ok(test_bounds(), "stripes and lanes that cannot be");
	tap_ok(test_parity(), "all backups get their share of parity");
	tap_ok(test_random(), "segments, losses, rebuilds, recoveries, beside a table that is searched");
	return tap_end();
}
