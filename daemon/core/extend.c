// SPDX-License-Identifier: GPL-2.0
/*
 * Restoring replicas of open segments. Core acknowledges nothing of a segment with fewer replicas
 * than min_replicas, so such a segment could wait for ever to be closed and copied. Core writes all
 * of the segment again from the log's memory, which does not change before the segment is durably
 * closed (invariant 11).
 *
 *	adding	header and data are being written; the replica does not count
 *	near	all committed data have been issued: this replica now bounds the durable prefix
 *	on	the replica has everything that is durable, and everything that was acknowledged as
 *		received: it counts, and the next digest lists it
 *
 * A crash before "on" leaves a frame that no digest names.
 */
#include <stddef.h>
#include <string.h>

#include "private.h"

static bool core_may_extend(const struct core *core, const struct core_open *open)
{
	const struct core_segment *seg = open->segment;

	return seg && !seg->coded && seg->life == CORE_OPEN && open->placed && !open->reopened &&
	       !open->closed && !open->close && !seg->adding && !(seg->on & core->lost) &&
	       (uint32_t)__builtin_popcount(seg->on) < core_wanted(core);
}

/**
 * core_extend_run - begin to add replicas to open segments, and mark replicas that are near
 * @core: core
 */
void core_extend_run(struct core *core)
{
	uint32_t i, b;

	if (core->state != CORE_RUNNING && core->state != CORE_DRAINING)
		return;
	for (i = 0; i < core->nr_opens; i++) {
		struct core_open *open = core->list[i];
		struct core_segment *seg = open->segment;

		core_each_backup(b, seg && !seg->coded ? seg->adding & ~seg->near : 0) {
			if (open->replica[b].issued < open->committed)
				continue;
			seg->near |= 1u << b;
			core->changes++;
		}
		if (!core_may_extend(core, open))
			continue;
		b = core_choose_more(core, seg);
		if (b == CORE_BACKUPS || core->nr_ops[b] + CORE_OPS_SPARE >= CORE_IOS)
			continue;
		memset(&open->replica[b], 0, offsetof(struct core_replica, block));
		seg->frame[b] = core->free_frames[b][--core->nr_free[b]];
		seg->adding = 1u << b;
		core_write_header(core, open, b);
	}
}

/**
 * core_extend_flushed - if a replica that is being added has everything, count it
 * @core: core
 * @open: its segment
 * @backup: backup of the replica, on which a flush has ended
 */
void core_extend_flushed(struct core *core, struct core_open *open, uint32_t backup)
{
	const struct core_replica *replica = &open->replica[backup];
	struct core_segment *seg = open->segment;
	/* What a former daemon acknowledged lies below @hold. */
	uint32_t received = open->hold > open->received ? open->hold : open->received;
	uint32_t wanted = RULE(EXTEND_WHOLE) ? open->durable : 0;

	if (received > open->durable && RULE(EXTEND_RECEIVED))
		wanted = received;
	if (!(seg->near >> backup & 1u) || replica->header != CORE_DURABLE ||
	    replica->flushed < wanted)
		return;
	seg->on |= 1u << backup;
	core_extend_stop(seg, backup);
	core_segment_dirty(core, seg);
	core->urgent = true;
	core->stats.copied++;
	core->changes++;
}

/**
 * core_extend_stop - stop adding a replica
 * @seg: its segment
 * @backup: its backup; the replica counts now, or the backup is lost
 */
void core_extend_stop(struct core_segment *seg, uint32_t backup)
{
	seg->adding &= ~(1u << backup);
	seg->near &= ~(1u << backup);
}
