// SPDX-License-Identifier: GPL-2.0
/*
 * Replicas made anew: a segment that has fewer than it should is copied, as it is
 * on one of its backups, to another.  One at a time, when it is closed or sealed:
 * what is in memory may have been compacted, and same segment and generation mean
 * same bytes (invariant 4).  For open ones see core/extend.c.
 *
 * All of a segment is read and checked before any of it is written: header, every entry
 * with its payload, directory, footer.  A replica that does not pass is bad: it counts as
 * not there, and the next source is read.  The last source is the log's memory, which still
 * holds a closed segment as it was until the kernel compacts it; what is found there passes
 * the same checks, so a segment that is compacted meanwhile is not taken.  When no source
 * passes, the segment keeps the replicas that it has and core_bad_next() names it.  Bad
 * replicas leave the digest when a sound one has been found, and the segment has all its
 * replicas without them or nothing but their places is left for new ones.
 *
 * What a backup that has come back still has of a segment is a source too, the first one, and
 * needs no writing but for its header (core/keep.c).
 *
 * The copy counts, and is listed, when all of it is durable; a crash before leaves
 * a frame that no digest knows of.  core_tick() gives out what may be copied until
 * the next, so that writers keep their share of the backups.
 */
#include <string.h>

#include "private.h"

/* ---- Sources ----------------------------------------------------------- */

static void core_copy_tell(struct core *core, const struct core_segment *seg, uint32_t backup,
			   int error, enum format_error format)
{
	if (core->bads_next - core->bads_first == CORE_BADS)
		return;
	core->bads[core->bads_next++ % CORE_BADS] = (struct core_bad) {
		.segment = seg->item.segment,
		.backup = backup,
		.frame = backup == CORE_BACKUPS ? 0 : seg->frame[backup],
		.error = error,
		.format = format,
	};
}

/*
 * The segment as it lies in the log's memory, into the buffer.  The kernel may compact it
 * meanwhile, or have done so: what results is checked as a replica is.
 */
static bool core_copy_memory(struct core *core, const struct core_segment *seg)
{
	uint32_t length = seg->item.length, seglet = seg->first_seglet, at, piece;
	struct core_copy *copy = &core->copy;
	uint8_t *data = copy->buffer + LSMEM_BLOCK;

	if (seg->life != CORE_CLOSED)
		return false;
	memset(copy->buffer, 0, LSMEM_SEGMENT_BYTES);
	for (at = 0; at < length; at += piece) {
		if (seglet >= core->log.nr_seglets)
			return false;
		piece = length - at < LSMEM_SEGLET_BYTES ? length - at : LSMEM_SEGLET_BYTES;
		memcpy(data + at, core->log.seglets + (uint64_t)seglet * LSMEM_SEGLET_BYTES, piece);
		if (at + piece < length)
			seglet = core_follow(core, seglet);
	}
	format_verify_begin(&copy->verify, core->uuid, seg->item.segment, seg->item.generation,
			    length);
	return !format_verify_data(&copy->verify, data, length) &&
	       !format_verify_length(&copy->verify) &&
	       lsmem_segment_fits(length, copy->verify.entries);
}

/* Header, directory and footer of what core_copy_memory() has found. */
static void core_copy_frame(struct core *core, const struct core_segment *seg)
{
	struct core_copy *copy = &core->copy;
	struct lsmem_segment_footer *footer =
		(void *)(copy->buffer + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK);
	struct lsmem_directory_entry *directory =
		(void *)((uint8_t *)footer - lsmem_directory_bytes(copy->verify.entries));
	const uint8_t *data = copy->buffer + LSMEM_BLOCK;
	struct format_walk walk = { .salt = copy->verify.walk.salt, .end = seg->item.length };
	const struct lsmem_entry *entry;
	uint32_t type;

	core_make_header(core, seg, copy->to, core->store_time, (void *)copy->buffer);
	core_make_footer(core, seg, &copy->verify, footer);
	while (walk.at < walk.end) {
		entry = (const void *)(data + walk.at);
		if (format_walk_step(&walk, entry))
			break;			/* it was valid just now */
		type = lsmem_entry_type(entry);
		if (type == LSMEM_TYPE_OBJECT || type == LSMEM_TYPE_TOMBSTONE)
			*directory++ = (struct lsmem_directory_entry) {
				.key = entry->key, .version = entry->version, .meta = entry->meta,
			};
	}
}

/* Where to read a segment, @keeps: where it is to be; false: no source of it is sound. */
static bool core_copy_source(struct core *core, struct core_segment *seg, bool keeps)
{
	uint32_t sound = seg->on & ~seg->bad, first = core_number(core, seg), i;
	struct core_copy *copy = &core->copy;

	if (sound || keeps) {
		for (i = first; !keeps && !(sound >> i % core->nr_backups & 1u); i++)
			;
		copy->from = keeps ? copy->to : i % core->nr_backups;
		copy->state = CORE_IDLE;
		format_verify_begin(&copy->verify, core->uuid, seg->item.segment,
				    seg->item.generation, seg->item.length);
		return true;
	}
	if (core_copy_memory(core, seg)) {
		copy->from = CORE_BACKUPS;
		copy->state = CORE_WRITING;
		core->copy_left = 0;
		if (copy->to < CORE_BACKUPS)
			core_copy_frame(core, seg);
		return true;
	}
	seg->uncopied = true;
	core->stats.copies_failed++;
	core_copy_tell(core, seg, CORE_BACKUPS, 0, FORMAT_OK);
	return false;
}

/* Does the backup still have what is to be on it? */
static bool core_copy_keeps(const struct core_copy *copy)
{
	return copy->to < CORE_BACKUPS && copy->from == copy->to;
}

/* ---- One segment after the other --------------------------------------- */

static bool core_copy_wants(const struct core *core, const struct core_segment *seg)
{
	return (seg->life == CORE_CLOSED || seg->life == CORE_SEALED) && !seg->open &&
	       !seg->uncopied && !(seg->on & core->lost) &&
	       (uint32_t)__builtin_popcount(seg->on & ~seg->bad) < core_wanted(core);
}

static void core_copy_end(struct core *core)
{
	if (core->copy.to < CORE_BACKUPS)
		core_frame_free(core, core->copy.to, core->copy.frame);
	core->copy.segment = CORE_NONE;
	core->changes++;
}

/* A segment to be copied, and from where to where. */
static bool core_copy_begin(struct core *core)
{
	struct core_copy *copy = &core->copy;
	bool keeps;
	uint32_t i;

	for (i = 0; i < core->nr_segments; i++) {
		uint32_t n = core->copy_next++ % core->nr_segments;
		struct core_segment *seg = &core->segments[n];

		if (!core_copy_wants(core, seg)) {
			core_keep_none(core, seg);
			continue;
		}
		copy->to = core_keep_choose(core, seg);
		keeps = copy->to < CORE_BACKUPS;
		if (!keeps)
			copy->to = core_choose_copy(core, seg);
		/* A place that a bad replica takes becomes free when another is sound. */
		if (copy->to == CORE_BACKUPS && !(seg->on & seg->bad))
			continue;
		if (keeps)
			copy->frame = seg->frame[copy->to];
		else if (copy->to < CORE_BACKUPS)
			copy->frame = core->free_frames[copy->to][--core->nr_free[copy->to]];
		copy->segment = n;
		copy->at = 0;
		copy->stop = false;
		core->changes++;
		if (core_copy_source(core, seg, keeps))
			return true;
		core_copy_end(core);
	}
	core->copies = false;
	return false;
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

/* What is known bad is listed no more: another replica is sound. */
static void core_copy_drop(struct core *core, struct core_segment *seg)
{
	seg->on &= ~seg->bad;
	seg->bad = 0;
	core_segment_dirty(core, seg);
	core->urgent = true;
	core->copies = true;
	core->changes++;
}

/* A sound source, and no place for one more replica but those of bad ones. */
static bool core_copy_nowhere(struct core *core)
{
	struct core_copy *copy = &core->copy;
	struct core_segment *seg = &core->segments[copy->segment];

	if (copy->to < CORE_BACKUPS)
		return false;
	/* Memory is no replica: without the bad ones there would be none. */
	if (copy->from < CORE_BACKUPS) {
		core_copy_drop(core, seg);
	} else {
		seg->uncopied = true;
		core->stats.copies_failed++;
		core_copy_tell(core, seg, CORE_BACKUPS, 0, FORMAT_OK);
	}
	core_copy_end(core);
	return true;
}

/* Bytes that are to be read, or written. */
static uint32_t core_copy_bytes(const struct core_copy *copy)
{
	return copy->state != CORE_IDLE && core_copy_keeps(copy) ? LSMEM_BLOCK :
								  LSMEM_SEGMENT_BYTES;
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
	    (write && core_copy_nowhere(core)) || (!write && core->copy_bytes && !core->copy_left))
		return;
	op = core_op_get(core, CORE_OP_COPY, write ? copy->to : copy->from, false);
	if (!op)
		return;
	copy->part = core_copy_bytes(copy) - copy->at;
	if (copy->part > core->io_bytes)
		copy->part = core->io_bytes;
	if (!write) {
		core->copy_left -= core->copy_left < copy->part ? core->copy_left : copy->part;
		op->io.kind = CORE_IO_READ;
	}
	copy->in_flight = true;
	core_op_add(op, copy->buffer + copy->at, copy->part);
	core_op_start(core, op, copy->at + (write ?
		      format_frame_offset(&core->super[copy->to], copy->frame) :
		      core_where(core, &core->segments[copy->segment], copy->from)));
}

/* What has been read so far: is it sound? */
static enum format_error core_copy_check(struct core *core)
{
	struct core_copy *copy = &core->copy;
	const struct core_segment *seg = &core->segments[copy->segment];
	struct lsmem_super super = core->super[copy->from];
	enum format_error error;

	if (core_copy_keeps(copy))
		super.incarnation = core->past_incarnation[copy->from];
	error = format_header_check((const void *)copy->buffer, &super, seg->item.segment,
				    seg->item.generation);
	if (!RULE(COPY_VERIFIED))
		return error;
	if (!error)
		error = format_verify_data(&copy->verify, copy->buffer + LSMEM_BLOCK,
					   copy->at - LSMEM_BLOCK);
	if (error || copy->at < LSMEM_SEGMENT_BYTES)
		return error;
	error = format_verify_length(&copy->verify);
	if (!error && seg->life == CORE_CLOSED)
		error = format_verify_closed(&copy->verify, copy->buffer, &super,
					     seg->item.segment, seg->item.generation);
	return error;
}

/* A part has been read; false: the replica is bad. */
static bool core_copy_read(struct core *core, int error)
{
	struct core_copy *copy = &core->copy;
	struct core_segment *seg = &core->segments[copy->segment];
	struct lsmem_segment_header *header = (void *)copy->buffer;
	enum format_error format = FORMAT_OK;

	copy->at += copy->part;
	if (!error)
		format = core_copy_check(core);
	if (error || format) {
		if (!core_copy_keeps(copy))
			seg->bad |= 1u << copy->from;
		core->stats.bad_replicas++;
		core_copy_tell(core, seg, copy->from, error, format);
		return false;
	}
	if (copy->at < LSMEM_SEGMENT_BYTES)
		return true;
	/* The header names the backup: for the copy it is another. */
	if (copy->to < CORE_BACKUPS)
		header->incarnation = core->super[copy->to].incarnation;
	format_header_seal(header);
	copy->state = CORE_WRITING;
	copy->at = 0;
	return true;
}

/**
 * core_copy_done - a request of the copy has ended
 * @core: core
 * @op: it
 * @error: of a read; after a failed write the backup is lost, and the copy stopped
 */
void core_copy_done(struct core *core, struct core_op *op, int error)
{
	struct core_copy *copy = &core->copy;

	copy->in_flight = false;
	if (!copy->stop && op->io.kind == CORE_IO_READ) {
		/* What it should have been copied to is chosen anew, with the source. */
		if (!core_copy_read(core, error))
			core_copy_stop(core, copy->segment);
	} else if (!copy->stop) {
		copy->at += copy->part;
		core->stats.copied_bytes += copy->part;
		if (copy->at == core_copy_bytes(copy) || !RULE(COPY_WHOLE)) {
			copy->state = CORE_WRITTEN;
			core->flush_wanted[copy->to] = true;
		}
	} else {
		core_copy_end(core);
	}
	core->changes++;
}

/**
 * core_copy_flush - a flush begins: it covers the copy if that is written
 * @core: core
 * @backup: its number
 */
void core_copy_flush(struct core *core, uint32_t backup)
{
	if (core->copy.segment != CORE_NONE && core->copy.to == backup &&
	    core->copy.state == CORE_WRITTEN)
		core->copy.state = CORE_FLUSHING;
}

/**
 * core_copy_flushed - a flush has ended: the copy it covered is durable
 * @core: core
 * @backup: its number
 */
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
	if (core_copy_keeps(copy))
		core->stats.kept++;
	else
		core->stats.copied++;
	core->stats.copied_memory += copy->from == CORE_BACKUPS;
	if (seg->bad)
		core_copy_drop(core, seg);
	copy->segment = CORE_NONE;
	core->changes++;
}
