// SPDX-License-Identifier: GPL-2.0
/*
 * Replicas that a returning backup still has. Core checks them there, and does not copy what has
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
 */
#include "private.h"

static bool core_keep_same(const struct core_segment *seg, const struct digest_item *item)
{
	return seg->life == (item->state == LSMEM_ITEM_CLOSED ? CORE_CLOSED : CORE_SEALED) &&
	       seg->item.generation == item->generation && seg->item.length == item->length &&
	       seg->item.replica_generation == item->replica_generation;
}

/**
 * core_keep_past - find the replicas that a backup that joins may still have
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
