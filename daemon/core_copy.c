// SPDX-License-Identifier: GPL-2.0
/*
 * Replicas made anew: a segment that has fewer than it should is copied, as it is
 * on one of its backups, to another.  One at a time, when it is closed or sealed:
 * what is in memory may have been compacted, and same segment and generation mean
 * same bytes (invariant 4).  For open ones see core_extend.c.
 *
 * The copy counts, and is listed, when all of it is durable; a crash before leaves
 * a frame that no digest knows of.  core_tick() gives out what may be copied until
 * the next, so that writers keep their share of the backups.
 */
#include <string.h>

#include "core_private.h"

/* A segment to be copied, and from where to where. */
static bool core_copy_begin(struct core *core)
{
	struct core_copy *copy = &core->copy;
	uint32_t wanted = core_wanted(core), i, from;

	for (i = 0; i < core->nr_segments; i++) {
		uint32_t n = core->copy_next++ % core->nr_segments;
		struct core_segment *seg = &core->segments[n];

		if ((seg->life != CORE_CLOSED && seg->life != CORE_SEALED) || seg->open ||
		    seg->uncopied || seg->on & core->lost ||
		    (uint32_t)__builtin_popcount(seg->on) >= wanted)
			continue;
		copy->to = core_choose_copy(core, seg);
		if (copy->to == CORE_BACKUPS)
			continue;
		for (from = n; !(seg->on >> from % core->nr_backups & 1u); from++)
			;
		copy->from = from % core->nr_backups;
		copy->frame = core->free_frames[copy->to][--core->nr_free[copy->to]];
		copy->segment = n;
		copy->at = 0;
		copy->state = CORE_IDLE;
		copy->stop = false;
		core->changes++;
		return true;
	}
	core->copies = false;
	return false;
}

static void core_copy_end(struct core *core)
{
	core_frame_free(core, core->copy.to, core->copy.frame);
	core->copy.segment = CORE_NONE;
	core->changes++;
}

/**
 * core_copy_stop - a segment is not to be copied any more
 * @core: core
 * @segment: its number
 */
void core_copy_stop(struct core *core, uint32_t segment)
{
	if (core->copy.segment != segment || segment == CORE_NONE)
		return;
	core->copy.stop = true;
	core->copies = true;
	if (!core->copy.in_flight)
		core_copy_end(core);
}

/**
 * core_copy_run - start what can be started
 * @core: core
 */
void core_copy_run(struct core *core)
{
	struct core_copy *copy = &core->copy;
	struct core_op *op;
	bool write;

	if (core->state != CORE_RUNNING || core->nr_backups == 1 ||
	    (copy->segment == CORE_NONE && (!core->copies || !core_copy_begin(core))))
		return;
	/* Not before: a copy that was stopped ends in any state. */
	write = copy->state == CORE_WRITING;
	if (copy->in_flight || (copy->state != CORE_IDLE && !write) ||
	    (!write && core->copy_bytes && !core->copy_left))
		return;
	op = core_op_get(core, CORE_OP_COPY, write ? copy->to : copy->from, false);
	if (!op)
		return;
	if (!write) {
		copy->part = LSMEM_SEGMENT_BYTES - copy->at;
		if (copy->part > core->io_bytes)
			copy->part = core->io_bytes;
		core->copy_left -= core->copy_left < copy->part ? core->copy_left : copy->part;
		op->io.kind = CORE_IO_READ;
	}
	copy->in_flight = true;
	core_op_add(op, copy->buffer, copy->part);
	core_op_start(core, op, copy->at + (write ?
		      format_frame_offset(&core->super[copy->to], copy->frame) :
		      core_where(core, &core->segments[copy->segment], copy->from)));
}

/* The header names the backup: for the copy it is another. */
static bool core_copy_header(struct core *core)
{
	const struct core_segment *seg = &core->segments[core->copy.segment];
	struct lsmem_segment_header *header = (void *)core->copy.buffer;

	if (format_header_check(header, &core->super[core->copy.from], seg->item.segment,
				seg->item.generation))
		return false;
	header->incarnation = core->super[core->copy.to].incarnation;
	format_header_seal(header);
	return true;
}

/**
 * core_copy_done - a request of the copy has ended
 * @core: core
 * @op: it
 * @error: of a read: what could not be read is copied from nowhere
 */
void core_copy_done(struct core *core, struct core_op *op, int error)
{
	struct core_copy *copy = &core->copy;

	copy->in_flight = false;
	if (op->io.kind == CORE_IO_READ) {
		if (!copy->stop && (error || (!copy->at && !core_copy_header(core)))) {
			core->segments[copy->segment].uncopied = true;
			core->stats.copies_failed++;
			copy->stop = true;
		}
		copy->state = CORE_WRITING;
	} else if (!copy->stop) {
		copy->at += copy->part;
		core->stats.copied_bytes += copy->part;
		copy->state = copy->at < LSMEM_SEGMENT_BYTES && RULE(COPY_WHOLE) ? CORE_IDLE : CORE_WRITTEN;
		if (copy->state == CORE_WRITTEN)
			core->flush_wanted[copy->to] = true;
	}
	if (copy->stop)
		core_copy_end(core);
	core->changes++;
}

void core_copy_flush(struct core *core, uint32_t backup)
{
	if (core->copy.segment != CORE_NONE && core->copy.to == backup &&
	    core->copy.state == CORE_WRITTEN)
		core->copy.state = CORE_FLUSHING;
}

void core_copy_flushed(struct core *core, uint32_t backup)
{
	struct core_copy *copy = &core->copy;
	struct core_segment *seg;

	if (copy->segment == CORE_NONE || copy->to != backup || copy->state != CORE_FLUSHING)
		return;
	if (core->state != CORE_RUNNING || copy->stop) {
		core_copy_end(core);
		return;
	}
	seg = &core->segments[copy->segment];
	seg->on |= 1u << copy->to;
	seg->frame[copy->to] = copy->frame;
	core_segment_dirty(core, seg);
	core->urgent = true;
	core->stats.copied++;
	copy->segment = CORE_NONE;
	core->changes++;
}
