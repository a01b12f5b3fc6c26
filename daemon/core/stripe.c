// SPDX-License-Identifier: GPL-2.0
/*
 * Stripes of a coded store: lanes for new segments, and what digests say of stripes. See Documentation/stripes.rst, What the
 * digest names.
 *
 * A new segment takes a free lane of a stripe that has as many shards as the present backups allow; else the frames of a new
 * stripe; else a lane of any stripe on which it can be acknowledged. Digests name a stripe before its first segment. A stripe
 * whose lanes are all free stays as it is, for the next segments, unless it has fewer shards than a new one would have, or new
 * segments get replicas: then the next digest removes it, and its frames are free when that is durable (invariant 10).
 *
 * A backup that is lost is gone from the index of stripes at once: the next digest does not name it, and with it the digest
 * forgets its frames.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"
#include "private.h"

/**
 * core_stripes_alloc - allocate what a coded store needs
 * @core: new
 * @params: of the store, checked
 *
 * Return: 0, also if the store is not coded; -ENOMEM.
 */
int core_stripes_alloc(struct core *core, const struct core_params *params)
{
	const struct digest_stripes *s = params->map->stripes;
	uint32_t k = s && s->k ? s->k : params->k, m = s && s->k ? s->m : params->m;

	if (!s || !k)
		return 0;
	core->least_shards = k + params->min_parity;
	core->nr_stripes = digest_places(params->map) / k;
	core->code = code_new(k, m);
	core->lanes = lanes_new(k, m, core->nr_stripes);
	core->stripes = calloc(core->nr_stripes, sizeof(*core->stripes));
	core->dirty_stripes = calloc(core->nr_stripes, sizeof(*core->dirty_stripes));
	core->record.stripes = calloc(core->nr_stripes, sizeof(*core->record.stripes));
	if (!core->code || !core->lanes || !core->stripes || !core->dirty_stripes || !core->record.stripes ||
	    !shard_geometry(&core->shards, k, m, SHARD_FRAME))
		return -ENOMEM;
	core->rebuilds = true;
	return core_rebuild_alloc(core);
}

/**
 * core_stripes_free - free what core_stripes_alloc() has allocated
 * @core: core
 */
void core_stripes_free(struct core *core)
{
	code_free(core->code);
	lanes_free(core->lanes);
	free(core->stripes);
	free(core->dirty_stripes);
	free(core->record.stripes);
	core_rebuild_free(core);
}

/**
 * core_lane_use - put a segment into a lane
 * @core: core
 * @seg: without replicas
 * @lane: it has been taken
 */
void core_lane_use(struct core *core, struct core_segment *seg, const struct lane *lane)
{
	uint32_t there = lanes_there(core->lanes, lane->stripe), shard;

	seg->coded = true;
	seg->lane = *lane;
	core_each_backup(shard, there) {
		struct lane_frame where = lanes_where(core->lanes, lane->stripe, shard);

		seg->on |= 1u << where.backup;
		seg->frame[where.backup] = where.frame;
		seg->shard[where.backup] = (uint8_t)shard;
	}
}

/* Take over the shards of a listed stripe, and the segments in its lanes. */
static bool core_stripe_adopt(struct core *core, const struct digest_map *map, uint32_t number)
{
	const struct digest_stripes *s = map->stripes;
	const struct digest_stripe *stripe = &s->stripe[number];
	struct lane lane = { .stripe = number };
	uint32_t shard;

	core_each_backup(shard, stripe->there) {
		const struct lane_frame where = {
			.backup = stripe->place[shard] / map->frames, .frame = stripe->place[shard] % map->frames,
		};

		if (!lanes_put_back(core->lanes, number, shard, &where))
			return false;
		core->stripes[number] = CORE_STRIPE_LISTED;
	}
	for (lane.lane = 0; lane.lane < s->k; lane.lane++) {
		const struct digest_item *item = &s->lanes[number * s->k + lane.lane];
		struct core_segment *seg;

		if (!item->state)
			continue;
		if (core_segment_find(core, item->segment) || !lanes_claim(core->lanes, &lane))
			return false;
		seg = core_segment_put(core, item, item->state == LSMEM_ITEM_CLOSED ? CORE_CLOSED :
				       item->state == LSMEM_ITEM_SEALED ? CORE_SEALED : CORE_OPEN);
		core_lane_use(core, seg, &lane);
		seg->listed = seg->on;
	}
	return true;
}

/**
 * core_stripes_adopt - take over the stripes of the newest digest
 * @core: core, after the replicas
 * @map: the digest
 *
 * Return: false: it contradicts itself.
 */
bool core_stripes_adopt(struct core *core, const struct digest_map *map)
{
	uint32_t number, b;

	if (!core->lanes)
		return true;
	for (number = 0; map->stripes->k && number < core->nr_stripes; number++)
		if (!core_stripe_adopt(core, map, number))
			return false;
	core_each_backup(b, core->lost)
		lanes_lose(core->lanes, b);
	core->stripes_changed = true;
	return true;
}

/**
 * core_stripe_on - the backups with a shard of a stripe
 * @core: of a coded store
 * @stripe: its number
 *
 * Return: a mask.
 */
uint32_t core_stripe_on(const struct core *core, uint32_t stripe)
{
	uint32_t on = 0, shard;

	core_each_backup(shard, lanes_there(core->lanes, stripe))
		on |= 1u << lanes_where(core->lanes, stripe, shard).backup;
	return on;
}

/**
 * core_shards - count the shards that a new segment should have with the present backups
 * @core: of a coded store
 *
 * Return: k + m, or fewer: shards are in different failure domains.
 */
uint32_t core_shards(const struct core *core)
{
	uint32_t domains = core_domains_left(core), all = core->shards.k + core->shards.m;

	return all < domains ? all : domains;
}

/* Count the stripes that there are frames for. */
static uint32_t core_stripes_left(const struct core *core)
{
	uint32_t shards = core_shards(core);

	return shards < core->least_shards ? 0 : core_left_of(core, shards);
}

/**
 * core_lanes_left - count the coded segments that there is room for
 * @core: of a coded store
 */
uint32_t core_lanes_left(const struct core *core)
{
	return lanes_left(core->lanes, core->least_shards) + core->shards.k * core_stripes_left(core);
}

/**
 * core_stripes_stats - add what is on each backup of a coded store to the statistics
 * @core: core
 * @stats: the statistics, with the free frames
 */
void core_stripes_stats(const struct core *core, struct core_stats *stats)
{
	uint32_t number, i, b;

	for (number = 0; core->lanes && number < core->nr_stripes; number++) {
		if (core->stripes[number] == CORE_STRIPE_NONE || lanes_used(core->lanes, number))
			continue;
		core_each_backup(i, lanes_there(core->lanes, number)) {
			stats->backup[lanes_where(core->lanes, number, i).backup].frames_free++;
			stats->frames_free++;
		}
	}
	for (i = 0; core->lanes && i < core->nr_segments; i++) {
		const struct core_segment *seg = &core->segments[i];

		core_each_backup(b, seg->life && seg->coded ? seg->on & ~core->lost : 0) {
			if (seg->shard[b] < core->shards.k)
				stats->backup[b].data_shards++;
			else
				stats->backup[b].parity_shards++;
		}
	}
}

static bool stripe_is_dirty(const struct core *core, uint32_t stripe)
{
	uint32_t i;

	for (i = 0; i < core->nr_dirty_stripes; i++)
		if (core->dirty_stripes[i] == stripe)
			return true;
	return false;
}

/**
 * core_stripe_dirty - have the next digest record name a stripe
 * @core: core
 * @stripe: its number
 * @life: its state now
 */
void core_stripe_dirty(struct core *core, uint32_t stripe, enum core_stripe_life life)
{
	core->stripes[stripe] = (uint8_t)life;
	core->rebuild.unmade[stripe] = false;
	if (!stripe_is_dirty(core, stripe))
		core->dirty_stripes[core->nr_dirty_stripes++] = stripe;
}

/* Make a stripe, and take its first lane. */
static bool core_stripe_add(struct core *core, uint64_t id, struct lane *lane)
{
	uint32_t left = core_stripes_left(core), nr = 0, mask, b;
	struct lane_frame frames[CORE_BACKUPS];

	mask = left ? core_choose_some(core, id, core_shards(core), left) : 0;
	core_each_backup(b, mask)
		frames[nr++] = (struct lane_frame) {
			.backup = b, .frame = core->free_frames[b][core->nr_free[b] - 1],
		};
	lane->stripe = mask ? lanes_add(core->lanes, frames, nr) : LANE_NONE;
	lane->lane = 0;
	if (lane->stripe == LANE_NONE)
		return false;
	core_each_backup(b, mask)
		core->nr_free[b]--;
	core_stripe_dirty(core, lane->stripe, CORE_STRIPE_NEW);
	return lanes_claim(core->lanes, lane);
}

/**
 * core_lane_take - find a place for a new segment
 * @core: of a coded store
 * @id: of the segment
 * @lane: out
 *
 * Return: false: there is none.
 */
bool core_lane_take(struct core *core, uint64_t id, struct lane *lane)
{
	uint32_t shards = core_shards(core);

	return shards >= core->least_shards &&
	       (lanes_take(core->lanes, shards, lane) || core_stripe_add(core, id, lane) ||
		lanes_take(core->lanes, core->least_shards, lane));
}

/**
 * core_lane_give - give back the lane of a segment
 * @core: core
 * @seg: no durable digest lists it
 */
void core_lane_give(struct core *core, const struct core_segment *seg)
{
	core->rebuild.unmade[seg->lane.stripe] = false;
	if (!core_rebuild_holds(core, &seg->lane))
		core->stripes_changed |= lanes_give(core->lanes, &seg->lane);
}

/**
 * core_stripes_lose - a backup is lost
 * @core: core
 * @backup: its index
 */
void core_stripes_lose(struct core *core, uint32_t backup)
{
	if (core->lanes)
		lanes_lose(core->lanes, backup);
	core->stripes_changed = true;
}

/**
 * core_stripes_run - let empty stripes leave that have fewer shards than new ones would have, or that get no segment any more
 * @core: core
 */
void core_stripes_run(struct core *core)
{
	uint32_t shards, number;
	struct lane lane;

	if (!core->lanes || !core->stripes_changed || core->state != CORE_RUNNING)
		return;
	core->stripes_changed = false;
	shards = core_shards(core);
	for (number = 0; number < core->nr_stripes && (!core->coding || shards >= core->least_shards); number++) {
		if (core->stripes[number] != CORE_STRIPE_LISTED || lanes_used(core->lanes, number) ||
		    (core->coding && (uint32_t)__builtin_popcount(lanes_there(core->lanes, number)) >= shards))
			continue;
		/* A record removes what is listed: a shard that was made anew is not yet. */
		if (stripe_is_dirty(core, number))
			continue;
		for (lane = (struct lane) { .stripe = number }; lane.lane < core->shards.k; lane.lane++)
			lanes_claim(core->lanes, &lane);
		core_stripe_dirty(core, number, CORE_STRIPE_LEAVING);
		core->urgent = true;
		core->changes++;
	}
}

/* The frames of a stripe are free: no durable digest lists it. */
static void core_stripe_gone(struct core *core, uint32_t number)
{
	struct lane lane = { .stripe = number };
	uint32_t shard;

	core_keep_no_shard(core, number, true);
	core_each_backup(shard, lanes_there(core->lanes, number)) {
		struct lane_frame where = lanes_where(core->lanes, number, shard);

		core_frame_free(core, where.backup, where.frame);
	}
	for (; lane.lane < core->shards.k; lane.lane++)
		lanes_give(core->lanes, &lane);
	lanes_remove(core->lanes, number);
	core->stripes[number] = CORE_STRIPE_NONE;
}

/**
 * core_stripes_items - count the items of stripes that the next delta has
 * @core: core
 */
uint32_t core_stripes_items(const struct core *core)
{
	uint32_t items = 0, i;

	for (i = 0; i < core->nr_dirty_stripes; i++)
		items += __builtin_popcount(lanes_there(core->lanes, core->dirty_stripes[i]));
	return items;
}

static void core_stripe_items(const struct core *core, struct lsmem_digest *digest, uint32_t number, uint32_t state)
{
	uint32_t shard;

	core_each_backup(shard, lanes_there(core->lanes, number)) {
		struct lane_frame where = lanes_where(core->lanes, number, shard);

		digest_add_shard(digest, where.backup << LSMEM_ITEM_FRAME_BITS | where.frame, number,
				 lsmem_code_make(core->shards.k, core->shards.m, shard), state);
	}
}

/**
 * core_stripes_record - add the stripes to a record that is being made
 * @core: core
 * @digest: the record, begun, without items
 */
void core_stripes_record(struct core *core, struct lsmem_digest *digest)
{
	struct core_record *record = &core->record;
	uint32_t i;

	record->nr_stripes = core->nr_dirty_stripes;
	for (i = 0; i < core->nr_dirty_stripes; i++) {
		uint32_t number = core->dirty_stripes[i];

		record->stripes[i] = number;
		if (!record->full)
			core_stripe_items(core, digest, number, core->stripes[number] == CORE_STRIPE_LEAVING ?
					  LSMEM_ITEM_REMOVED : LSMEM_ITEM_STRIPE);
	}
	core->nr_dirty_stripes = 0;
	for (i = 0; record->full && i < core->nr_stripes; i++)
		if (core->stripes[i] == CORE_STRIPE_NEW || core->stripes[i] == CORE_STRIPE_LISTED)
			core_stripe_items(core, digest, i, LSMEM_ITEM_STRIPE);
}

/**
 * core_stripes_durable - the record counts: put into effect what it says of stripes
 * @core: core
 */
void core_stripes_durable(struct core *core)
{
	uint32_t i;

	for (i = 0; i < core->record.nr_stripes; i++) {
		uint32_t number = core->record.stripes[i];

		if (core->stripes[number] == CORE_STRIPE_NEW)
			core->stripes[number] = CORE_STRIPE_LISTED;
		else if (core->stripes[number] == CORE_STRIPE_LEAVING)
			core_stripe_gone(core, number);
		core->stripes_changed = true;
	}
	core->record.nr_stripes = 0;
}
