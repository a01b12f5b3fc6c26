// SPDX-License-Identifier: GPL-2.0
/*
 * Restoring replicas of closed and sealed segments. Core reads a replica of a segment that has too
 * few, and writes it to another backup, one segment at a time. The log's memory is the last source
 * only, because the kernel may have compacted the segment there: same segment and generation mean
 * same bytes (invariant 4). core/extend.c does the same for open segments.
 *
 * Core reads and checks all of a segment before it writes any of it: header, every entry with its
 * payload, directory, footer. A replica that fails the check is bad: it does not count, and core
 * reads the next source. The log's memory holds a closed segment until the kernel compacts it; its
 * bytes pass the same checks, so a segment that is being compacted is not used. If no source
 * passes, the segment keeps the replicas that it has, and core_bad_next() names it. The next digest
 * removes the bad replicas when a sound one has been restored, or when a sound one has been read
 * and a new replica has no place but that of a bad one.
 *
 * A replica that a reader of the tier could not use is read and checked as well (core_replica_doubt()), and so is
 * each one in turn (core/scrub.c). A single backup has no other source, and no other place: what is bad on it is only
 * named.
 *
 * A replica that a returning backup still has is the first source. Core writes its header only
 * (core/keep.c).
 *
 * The new replica counts, and is listed, when all of it is durable. A crash before that leaves a
 * frame that no digest names. core_tick() sets how much may be copied until the next tick, so
 * writers keep their share of the backups.
 */
#include <string.h>

#include "private.h"

/* ---- Sources ----------------------------------------------------------- */

/**
 * core_copy_tell - have core_bad_next() name a bad replica or shard
 * @core: core
 * @seg: its segment
 * @backup: its backup; CORE_BACKUPS: the segment has no sound one to make others of
 * @error: of a read, or 0
 * @format: what is wrong
 */
void core_copy_tell(struct core *core, const struct core_segment *seg, uint32_t backup, int error,
		    enum format_error format)
{
	if (core->bads_next - core->bads_first == CORE_BADS)
		return;
	core->bads[core->bads_next++ % CORE_BADS] = (struct core_bad) {
		.segment = seg->item.segment,
		.coded = seg->coded,
		.backup = backup,
		.frame = backup == CORE_BACKUPS ? 0 : seg->frame[backup],
		.error = error,
		.format = format,
	};
}

/**
 * core_replica_doubt - have a replica checked that was read in vain
 * @core: core
 * @segment: id of the segment
 * @generation: of the segment
 * @backup: of the replica
 *
 * The reader may have met a passing error. So core reads and checks all of the replica, and restores
 * it if it is bad.
 */
void core_replica_doubt(struct core *core, uint64_t segment, uint32_t generation, uint32_t backup)
{
	struct core_segment *seg = core_segment_find(core, segment);

	if (!seg || seg->item.generation != generation || core->state == CORE_FAILED)
		return;
	seg->doubted |= 1u << backup;
	core->copies = true;
	core->rebuilds = true;
	core_run(core);
}

/*
 * Copy a segment from the log's memory into the buffer, and check it as a replica: the kernel may
 * compact it at the same time, or have done so before. Return: it is sound.
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

/* Make header, directory and footer for what core_copy_memory() has copied and checked. */
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
	uint32_t at;

	core_make_header(core, seg, copy->to, core->store_time, (void *)copy->buffer);
	format_footer_make(footer, core->uuid, seg->item.segment, seg->item.generation,
			   &copy->verify);
	while (walk.at < walk.end) {
		at = walk.at;
		entry = (const void *)(data + at);
		if (format_walk_step(&walk, entry))
			break;			/* impossible: it was checked */
		if (format_is_listed(entry))
			*directory++ = lsmem_entry_listing(entry, at);
	}
}

/*
 * Choose the source of a copy; @keeps: the backup that it is for still has the replica.
 * Return: false: no source is sound.
 */
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

/* Does the backup that the copy is for still have the replica? */
static bool core_copy_keeps(const struct core_copy *copy)
{
	return copy->to < CORE_BACKUPS && copy->from == copy->to;
}

/* ---- The copy ---------------------------------------------------------- */

static bool core_copy_wants(const struct core *core, const struct core_segment *seg)
{
	return (seg->life == CORE_CLOSED || seg->life == CORE_SEALED) && !seg->open &&
	       !seg->coded && !seg->uncopied && !(seg->on & core->lost) &&
	       (uint32_t)__builtin_popcount(seg->on & ~seg->bad) < core_wanted(core);
}

/* Return: replicas of a segment that are to be checked, as a mask of backups. */
static uint32_t core_copy_doubted(const struct core *core, const struct core_segment *seg)
{
	return (seg->life == CORE_CLOSED || seg->life == CORE_SEALED) && !seg->open && !seg->coded ?
	       seg->doubted & seg->on & ~seg->bad & core_alive(core) : 0;
}

static void core_copy_end(struct core *core)
{
	if (core->copy.to < CORE_BACKUPS)
		core_frame_free(core, core->copy.to, core->copy.frame);
	core->copy.segment = CORE_NONE;
	core->changes++;
}

/* Begin to check a replica of a segment. */
static void core_copy_check_only(struct core *core, struct core_segment *seg)
{
	struct core_copy *copy = &core->copy;

	copy->segment = core_number(core, seg);
	copy->from = __builtin_ctz(core_copy_doubted(core, seg));
	copy->to = CORE_BACKUPS;
	copy->only = true;
	copy->at = 0;
	copy->stop = false;
	copy->state = CORE_IDLE;
	format_verify_begin(&copy->verify, core->uuid, seg->item.segment, seg->item.generation,
			    seg->item.length);
	core->changes++;
}

/*
 * Choose a segment to copy, its source, and a backup for it; or one to check. Return: false: there is
 * none now.
 */
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
			if (!core_copy_doubted(core, seg))
				continue;
			core_copy_check_only(core, seg);
			return true;
		}
		copy->only = false;
		copy->to = core_keep_choose(core, seg);
		keeps = copy->to < CORE_BACKUPS;
		if (!keeps)
			copy->to = core_choose_copy(core, seg);
		/* If another replica is sound, the place of a bad one becomes free: go on. */
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
 * core_copy_stop - stop the copy of a segment
 * @core: core
 * @segment: its number; nothing happens if it is not being copied
 *
 * The copy ends when none of its requests is in flight.
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

/* Have the next digest remove the bad replicas of a segment; another replica is sound. */
static void core_copy_drop(struct core *core, struct core_segment *seg)
{
	seg->on &= ~seg->bad;
	seg->bad = 0;
	core_segment_dirty(core, seg);
	core->urgent = true;
	core->copies = true;
	core->changes++;
}

/* End a copy that has a sound source, but no place except those of bad replicas. */
static bool core_copy_nowhere(struct core *core)
{
	struct core_copy *copy = &core->copy;
	struct core_segment *seg = &core->segments[copy->segment];

	if (copy->to < CORE_BACKUPS)
		return false;
	/* Memory is no replica: without the bad replicas the segment would have none. */
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

/* Return: bytes of the replica to read, or to write. */
static uint32_t core_copy_bytes(const struct core_copy *copy)
{
	return copy->state != CORE_IDLE && core_copy_keeps(copy) ? LSMEM_BLOCK :
								  LSMEM_SEGMENT_BYTES;
}

/**
 * core_copy_run - begin a copy, or start its next request
 * @core: core
 */
void core_copy_run(struct core *core)
{
	struct core_copy *copy = &core->copy;
	struct core_op *op;
	bool write;

	if (core->state != CORE_RUNNING ||
	    (copy->segment == CORE_NONE && (!core->copies || !core_copy_begin(core))))
		return;
	/* Read @state after core_copy_begin() only: a copy that was stopped ends in any state. */
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

/* Check what has been read so far. */
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

/* Take a part that has been read. Return: false: the replica is bad. */
static bool core_copy_read(struct core *core, int error)
{
	struct core_copy *copy = &core->copy;
	struct core_segment *seg = &core->segments[copy->segment];
	struct lsmem_segment_header *header = (void *)copy->buffer;
	enum format_error format = FORMAT_OK;

	copy->at += copy->part;
	if (!error)
		format = core_copy_check(core);
	if (error || format || copy->at == LSMEM_SEGMENT_BYTES) {
		core->stats.checked += seg->doubted >> copy->from & 1u;
		seg->doubted &= ~(1u << copy->from);
	}
	if (error || format) {
		if (!core_copy_keeps(copy))
			seg->bad |= 1u << copy->from;
		core->stats.bad_replicas++;
		core_copy_tell(core, seg, copy->from, error, format);
		return false;
	}
	if (copy->at < LSMEM_SEGMENT_BYTES)
		return true;
	if (copy->only) {
		core_copy_end(core);
		return true;
	}
	/* The header names the backup: the new replica is on another one. */
	if (copy->to < CORE_BACKUPS)
		header->incarnation = core->super[copy->to].incarnation;
	format_header_seal(header);
	copy->state = CORE_WRITING;
	copy->at = 0;
	return true;
}

/**
 * core_copy_done - complete a request of the copy
 * @core: core
 * @op: the request
 * @error: of a read: 0 or a negative errno; after a failed write core_backup_stop() has stopped the
 *	copy
 */
void core_copy_done(struct core *core, struct core_op *op, int error)
{
	struct core_copy *copy = &core->copy;

	copy->in_flight = false;
	if (!copy->stop && op->io.kind == CORE_IO_READ) {
		/* If the replica is bad: choose a source and a place again. */
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
 * core_copy_flush - note that a flush covers the copy, if that is written
 * @core: core
 * @backup: backup to which the flush is being issued
 */
void core_copy_flush(struct core *core, uint32_t backup)
{
	if (core->copy.segment != CORE_NONE && core->copy.to == backup &&
	    core->copy.state == CORE_WRITTEN)
		core->copy.state = CORE_FLUSHING;
}

/**
 * core_copy_flushed - if a flush covered the copy, count the new replica
 * @core: core
 * @backup: backup of the flush
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
