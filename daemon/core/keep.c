// SPDX-License-Identifier: GPL-2.0
/*
 * Replicas, and shards, that a returning backup still has. Core checks them there, and does not copy, or decode, what has
 * not changed while the backup was away.
 *
 * The newest digest on the backup says what it held. If that digest and the current one list a
 * segment as closed or sealed, with the same generation and length, the replica has the same bytes
 * (invariant 4). They are still in the frame that the old digest names, because a frame is reused
 * only after a digest without it is durable on the backup (invariant 10). Such a frame does not
 * become free when the backup joins. core/copy.c reads and checks all of the replica, because the
 * backup may be damaged, and then writes the header with the new incarnation of the backup. A
 * replica that fails the check is copied, and so is one that was not listed before a crash.
 *
 * A frame is kept only for a segment that is to have a replica on this backup anyway. So new
 * segments find as many free frames as if the replica had been copied.
 *
 * A frame of a stripe has a shard of each of its segments. It is kept if the stripe still lacks this shard, and one of the
 * segments is as it was. Core makes the shard in this frame then, and of the segments that are as they were it only reads the
 * table and the rows there (core/rebuild.c): their table has the segment's id and generation, and a checksum of each block.
 */
#include <stdlib.h>

#include "private.h"

static bool core_keep_same(const struct core_segment *seg, const struct digest_item *item)
{
	return seg->life == (item->state == LSMEM_ITEM_CLOSED ? CORE_CLOSED : CORE_SEALED) &&
	       seg->item.generation == item->generation && seg->item.length == item->length &&
	       seg->item.replica_generation == item->replica_generation;
}

/* Note what a backup had of one stripe. @shard: its number; @place: in the digest of then. */
static void core_keep_stripe(struct core *core, uint32_t backup, const struct digest_map *map, uint32_t number, uint32_t shard,
			     uint32_t place)
{
	const struct digest_stripes *s = map->stripes;
	struct core_kept *kept = &core->kept[backup][number];
	uint32_t lane;

	*kept = (struct core_kept){ .frame = place % map->frames, .shard = (uint8_t)shard };
	if (kept->frame >= __le64_to_cpu(core->super[backup].frames))
		return;
	for (lane = 0; lane < s->k; lane++) {
		const struct digest_item *item = &s->lanes[number * s->k + lane];
		const struct core_segment *seg;

		if (item->state != LSMEM_ITEM_CLOSED && item->state != LSMEM_ITEM_SEALED)
			continue;
		seg = core_segment_find(core, item->segment);
		if (seg && seg->coded && seg->lane.stripe == number && seg->lane.lane == lane && core_keep_same(seg, item))
			kept->lanes |= (uint16_t)(1u << lane);
	}
}

/* Find the shards that a backup that joins may still have. Without memory it has none. */
static void core_keep_stripes(struct core *core, uint32_t backup, const struct digest_past *past)
{
	const struct digest_map *map = &past->map;
	const struct digest_stripes *s = map->stripes;
	uint32_t number, shard;

	core_keep_lose(core, backup);
	if (!core->lanes || !s || s->k != core->shards.k || s->m != core->shards.m)
		return;
	core->kept[backup] = calloc(core->nr_stripes, sizeof(**core->kept));
	for (number = 0; core->kept[backup] && number < digest_stripes_nr(map) && number < core->nr_stripes; number++)
		core_each_backup(shard, s->stripe[number].there)
			if (s->stripe[number].place[shard] / map->frames == past->index)
				core_keep_stripe(core, backup, map, number, shard, s->stripe[number].place[shard]);
}

/* Does the stripe need this shard, and may the backup have it? */
static bool core_keep_needed(const struct core *core, uint32_t stripe, uint32_t backup, const struct core_kept *kept)
{
	uint32_t there = lanes_there(core->lanes, stripe);

	return kept->lanes && core->stripes[stripe] == CORE_STRIPE_LISTED && lanes_used(core->lanes, stripe) &&
	       !(there >> kept->shard & 1u) && (uint32_t)__builtin_popcount(there) >= core->shards.k &&
	       !core_domain_taken(core, core_stripe_on(core, stripe), backup);
}

/**
 * core_keep_shard - choose a backup that may still have a shard that a stripe lacks
 * @core: of a coded store
 * @stripe: its number
 * @kept: out: which shard, and where
 *
 * Return: the backup, and its frame belongs to the caller; CORE_BACKUPS: there is none.
 */
uint32_t core_keep_shard(struct core *core, uint32_t stripe, struct core_kept *kept)
{
	uint32_t b;

	core_each_backup(b, core_alive(core)) {
		if (!core->kept[b] || !core_keep_needed(core, stripe, b, &core->kept[b][stripe]))
			continue;
		*kept = core->kept[b][stripe];
		core->kept[b][stripe].lanes = 0;
		return b;
	}
	return CORE_BACKUPS;
}

/**
 * core_keep_no_shard - free the kept frames of a stripe that it does not need any more
 * @core: core
 * @stripe: its number
 * @gone: it needs none
 */
void core_keep_no_shard(struct core *core, uint32_t stripe, bool gone)
{
	uint32_t b;

	core_each_backup(b, core_alive(core)) {
		struct core_kept *kept = core->kept[b] ? &core->kept[b][stripe] : NULL;

		if (!kept || !kept->lanes || (!gone && core_keep_needed(core, stripe, b, kept)))
			continue;
		kept->lanes = 0;
		core_frame_free(core, b, kept->frame);
	}
}

/**
 * core_keep_lose - forget what a backup may have had
 * @core: core
 * @backup: its index; it is lost, or about to join
 */
void core_keep_lose(struct core *core, uint32_t backup)
{
	free(core->kept[backup]);
	core->kept[backup] = NULL;
}

/**
 * core_keep_past - find the replicas, and shards, that a backup that joins may still have
 * @core: core
 * @backup: its index
 * @past: what it held; its frames begin at the same offsets as now
 */
void core_keep_past(struct core *core, uint32_t backup, const struct digest_past *past)
{
	uint64_t frames = __le64_to_cpu(core->super[backup].frames);
	const struct digest_map *map = &past->map;
	uint32_t frame;

	core->past_incarnation[backup] = past->incarnation;
	for (frame = 0; frame < map->frames && frame < frames; frame++) {
		const struct digest_item *item = &map->items[past->index * map->frames + frame];
		struct core_segment *seg;

		if (item->state != LSMEM_ITEM_CLOSED && item->state != LSMEM_ITEM_SEALED)
			continue;
		seg = core_segment_find(core, item->segment);
		if (!seg || seg->coded || !core_keep_same(seg, item) ||
		    (seg->on | seg->listed | seg->kept) >> backup & 1u)
			continue;
		seg->kept |= 1u << backup;
		seg->frame[backup] = frame;
		seg->uncopied = false;
	}
	core_keep_stripes(core, backup, past);
}

/* Does the segment need one more replica, and may the backup have it? */
static bool core_keep_useful(const struct core *core, const struct core_segment *seg,
			     uint32_t backup)
{
	uint32_t on = seg->on & ~seg->bad & ~core->lost;

	return (seg->life == CORE_CLOSED || seg->life == CORE_SEALED) &&
	       (uint32_t)__builtin_popcount(on) < core_wanted(core) &&
	       !core_domain_taken(core, on, backup);
}

/**
 * core_keep_join - free the frames of a new member, except those that are kept
 * @core: core
 * @backup: its index
 */
void core_keep_join(struct core *core, uint32_t backup)
{
	uint32_t frames = __le64_to_cpu(core->super[backup].frames), i;
	uint32_t *free = core->free_frames[backup];

	/* Highest frame first, because frames are taken from the end of the list. At first, free[i]
	 * says whether frame (frames - 1 - i) is free.
	 */
	for (i = 0; i < frames; i++)
		free[i] = true;
	for (i = 0; i < core->nr_segments; i++) {
		struct core_segment *seg = &core->segments[i];

		if (!(seg->kept >> backup & 1u))
			continue;
		if (core_keep_useful(core, seg, backup) && RULE(KEEP_FRAME))
			free[frames - 1 - seg->frame[backup]] = false;
		else if (RULE(KEEP_FRAME))
			seg->kept &= ~(1u << backup);
	}
	for (i = 0; core->kept[backup] && i < core->nr_stripes; i++) {
		struct core_kept *kept = &core->kept[backup][i];

		if (!core_keep_needed(core, i, backup, kept) || !RULE(KEEP_FRAME))
			kept->lanes = 0;
		else
			free[frames - 1 - kept->frame] = false;
	}
	for (i = 0; i < frames; i++)
		if (free[i])
			free[core->nr_free[backup]++] = frames - 1 - i;
}

/**
 * core_keep_choose - choose a backup that may still have a replica of a segment
 * @core: core
 * @seg: needs one more replica
 *
 * Return: the backup, and its frame belongs to the caller; CORE_BACKUPS: there is none.
 */
uint32_t core_keep_choose(struct core *core, struct core_segment *seg)
{
	uint32_t b;

	core_each_backup(b, seg->kept & core_alive(core)) {
		seg->kept &= ~(1u << b);
		if (!core_domain_taken(core, seg->on | seg->listed, b))
			return b;
		core_frame_free(core, b, seg->frame[b]);
	}
	return CORE_BACKUPS;
}

/**
 * core_keep_none - free the kept frames of a segment that it does not need any more
 * @core: core
 * @seg: needs no replica now
 */
void core_keep_none(struct core *core, struct core_segment *seg)
{
	uint32_t b;

	core_each_backup(b, seg->kept & core_alive(core)) {
		if (core_keep_useful(core, seg, b))
			continue;
		seg->kept &= ~(1u << b);
		core_frame_free(core, b, seg->frame[b]);
	}
}
