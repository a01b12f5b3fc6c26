// SPDX-License-Identifier: GPL-2.0
/*
 * Replicas that a backup which comes back still has: what has not changed while it was away is
 * checked there, and not copied.
 *
 * Its own newest digest is the map of what it held.  A segment that is closed, or sealed, in it
 * and in ours, with the same generation and length, has the same bytes (invariant 4), and they are in the
 * frame that it names, as a frame is not used again before a digest without it is durable on the
 * backup (invariant 10).  Such a frame does not become free when the backup joins: core/copy.c
 * reads it and checks all of it, since what was away may be what was damaged, and then writes
 * the header, which names the life that the backup has begun.  What fails the checks is copied,
 * as all else is; so is what a crash finds not listed yet.
 *
 * A frame is kept only for a segment that will have a replica there anyway: nothing that is
 * opened finds fewer frames than if the replica had been copied.
 */
#include "private.h"

static bool core_keep_same(const struct core_segment *seg, const struct digest_item *item)
{
	return seg->life == (item->state == LSMEM_ITEM_CLOSED ? CORE_CLOSED : CORE_SEALED) &&
	       seg->item.generation == item->generation && seg->item.length == item->length &&
	       seg->item.replica_generation == item->replica_generation;
}

/**
 * core_keep_past - what one that is to become a member may still have
 * @core: core
 * @backup: its index
 * @past: what it held, on frames that begin where they did
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
		if (!seg || !core_keep_same(seg, item) ||
		    (seg->on | seg->listed | seg->kept) >> backup & 1u)
			continue;
		seg->kept |= 1u << backup;
		seg->frame[backup] = frame;
		seg->uncopied = false;
	}
}

/* Is there to be a replica, and may it be there? */
static bool core_keep_useful(const struct core *core, const struct core_segment *seg,
			     uint32_t backup)
{
	uint32_t on = seg->on & ~seg->bad & ~core->lost;

	return (seg->life == CORE_CLOSED || seg->life == CORE_SEALED) &&
	       (uint32_t)__builtin_popcount(on) < core_wanted(core) &&
	       !core_domain_taken(core, on, backup);
}

/**
 * core_keep_join - the frames of a new member: those that are not kept are free
 * @core: core
 * @backup: its index
 */
void core_keep_join(struct core *core, uint32_t backup)
{
	uint32_t frames = __le64_to_cpu(core->super[backup].frames), i;
	uint32_t *free = core->free_frames[backup];

	/* Highest first, as those are taken last; free[i] is what becomes of the i-th. */
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
	for (i = 0; i < frames; i++)
		if (free[i])
			free[core->nr_free[backup]++] = frames - 1 - i;
}

/**
 * core_keep_choose - a backup that may still have a replica of a segment
 * @core: core
 * @seg: wants one more
 *
 * Return: the backup, whose frame is the caller's now; CORE_BACKUPS: there is none.
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
 * core_keep_none - give up what is not needed any more
 * @core: core
 * @seg: wants no replica, or not now
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
