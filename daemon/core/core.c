// SPDX-License-Identifier: GPL-2.0
/*
 * core: see core.h. This file holds the inputs and outputs, the requests in flight, the flushes and
 * the queue of events.
 *
 * After each input core_run() does what has become possible, until nothing changes any more. The
 * result depends on the inputs alone.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "private.h"
#include "base/memory.h"

/**
 * core_fail - stop for good
 * @core: core; nothing happens if it has failed before
 * @format: why, for the operator, without a newline
 *
 * Invariant 3: core acknowledges nothing more.
 */
void core_fail(struct core *core, const char *format, ...)
{
	va_list args;

	if (core->state == CORE_FAILED)
		return;
	core->state = CORE_FAILED;
	va_start(args, format);
	vsnprintf(core->error, sizeof(core->error), format, args);
	va_end(args);
}

/* ---- Requests ---------------------------------------------------------- */

/**
 * core_op_get - begin a request
 * @core: core
 * @kind: CORE_OP_*
 * @backup: backup that it is for
 * @spare: it may be one of the last CORE_OPS_SPARE, which are for requests that all others wait for
 *
 * Return: the request; NULL: too many are in flight, try again after the next has ended.
 */
struct core_op *core_op_get(struct core *core, enum core_op_kind kind, uint32_t backup, bool spare)
{
	struct core_op *op;

	if (core->nr_ops[backup] + (spare ? 0 : CORE_OPS_SPARE) >= CORE_IOS)
		return NULL;
	for (op = &core->ops[backup * CORE_IOS]; op->kind != CORE_OP_FREE; op++)
		;
	memset(op, 0, offsetof(struct core_op, io));
	op->kind = kind;
	op->io.id = op - core->ops;
	op->io.kind = kind == CORE_OP_FLUSH ? CORE_IO_FLUSH : CORE_IO_WRITE;
	op->io.durable = false;
	op->io.backup = backup;
	op->io.length = 0;
	op->io.nr_iov = 0;
	core->nr_ops[backup]++;
	return op;
}

/**
 * core_op_add - add bytes to a request
 * @op: the request
 * @data: the bytes; they must not change until the request has ended
 * @length: bytes, a multiple of LSMEM_BLOCK
 */
void core_op_add(struct core_op *op, const void *data, uint32_t length)
{
	struct core_io *io = &op->io;
	struct iovec *last = io->nr_iov ? &io->iov[io->nr_iov - 1] : NULL;

	io->length += length;
	if (last && (const uint8_t *)last->iov_base + last->iov_len == data) {
		last->iov_len += length;
		return;
	}
	io->iov[io->nr_iov++] = (struct iovec) { .iov_base = (void *)data, .iov_len = length };
}

/**
 * core_op_start - hand a request to core_io_next()
 * @core: core
 * @op: the request
 * @offset: in the backup, bytes; 0 for a flush
 */
void core_op_start(struct core *core, struct core_op *op, uint64_t offset)
{
	op->io.offset = offset;
	core->out[core->out_next++ % CORE_OPS] = op->io.id;
	core->changes++;
}

/* Issue the flushes that something waits for, one at a time on each backup. */
static void core_flush_run(struct core *core)
{
	uint32_t b;

	core_each_backup(b, core_alive(core)) {
		struct core_op *op;

		if (!core->flush_wanted[b] || core->flushing[b])
			continue;
		op = core_op_get(core, CORE_OP_FLUSH, b, true);
		if (!op)
			continue;
		/* Invariant 16: the flush covers what has completed by now. */
		core_segments_flush(core, b);
		core_closes_flush(core, b);
		core_digest_flush(core, b);
		core_copy_flush(core, b);
		core_rebuild_flush(core, b);
		core->flush_wanted[b] = false;
		core->flushing[b] = true;
		core_op_start(core, op, 0);
	}
}

static void core_flushed(struct core *core, uint32_t backup, int error)
{
	core->flushing[backup] = false;
	if (error) {
		/* Only with rule FLUSH_FAILED switched off: repeat the flush. */
		core->flush_wanted[backup] = true;
		return;
	}
	core->stats.flushes++;
	core->stats.backup[backup].flushes++;
	core_segments_flushed(core, backup);
	core_closes_flushed(core, backup);
	core_digest_flushed(core, backup);
	core_copy_flushed(core, backup);
	core_rebuild_flushed(core, backup);
}

/* ---- The queue of events ----------------------------------------------- */

/* Handle an event. Return: false: it has to wait, and the events after it. */
static bool core_understand(struct core *core, const struct lsmem_event *event)
{
	if (core->state == CORE_RESUMING && event->type != LSMEM_EVENT_RESUME) {
		core_fail(core, "event %u of segment %llu came before the kernel sent all RESUME events",
			  event->type, (unsigned long long)event->segment);
		return true;
	}
	switch (event->type) {
	case LSMEM_EVENT_OPEN:
		return core_opened(core, event);
	case LSMEM_EVENT_RANGE:
		core_range(core, event);
		return true;
	case LSMEM_EVENT_CLOSE:
		core_closed(core, event);
		return true;
	case LSMEM_EVENT_RETIRE:
		return core_retire(core, event);
	case LSMEM_EVENT_RESUME:
		core_resume(core, event);
		return true;
	}
	core_fail(core, "event of type %u: is the module newer than the daemon?", event->type);
	return true;
}

/* Handle queued events in their order, as far as possible. */
static void core_take(struct core *core)
{
	while (core->queue_first != core->queue_next && core->state != CORE_FAILED) {
		if (!core_understand(core, &core->queue[core->queue_first % CORE_QUEUE]))
			return;
		core->queue_first++;
		core->changes++;
	}
}

/**
 * core_run - do what has become possible
 * @core: core
 */
void core_run(struct core *core)
{
	uint64_t before;

	do {
		before = core->changes;
		core_take(core);
		if (core->state == CORE_FAILED || core->state == CORE_RESUMING)
			return;
		core_segments_run(core);
		core_extend_run(core);
		core_closes_run(core);
		core_retires_run(core);
		core_copy_run(core);
		core_rebuild_run(core);
		core_stripes_run(core);
		core_digest_run(core);
		core_flush_run(core);
	} while (core->changes != before && core->state != CORE_FAILED);
}

/* ---- Inputs ------------------------------------------------------------ */

uint32_t core_room(const struct core *core)
{
	return CORE_QUEUE - (core->queue_next - core->queue_first);
}

bool core_lists(struct core *core, uint64_t segment)
{
	return core_segment_find(core, segment);
}

uint32_t core_unlike(const struct core *core, uint64_t from, uint64_t *segments, uint32_t *lengths, uint32_t most)
{
	uint32_t nr = 0, i, at;

	for (i = 0; i < core->nr_segments; i++) {
		const struct core_segment *seg = &core->segments[i];

		if ((seg->life != CORE_CLOSED && seg->life != CORE_SEALED) || seg->coded == core->coding ||
		    seg->item.segment < from || (nr == most && seg->item.segment > segments[nr - 1]))
			continue;
		nr += nr < most;
		for (at = nr - 1; at && segments[at - 1] > seg->item.segment; at--) {
			segments[at] = segments[at - 1];
			lengths[at] = lengths[at - 1];
		}
		segments[at] = seg->item.segment;
		lengths[at] = seg->item.length;
	}
	return nr;
}

bool core_listed(struct core *core, uint64_t segment, struct core_listed *listed)
{
	const struct core_segment *seg = core_segment_find(core, segment);
	uint32_t b;

	if (!seg || seg->coded || (seg->life != CORE_CLOSED && seg->life != CORE_SEALED))
		return false;
	*listed = (struct core_listed){
		.generation = seg->item.generation, .length = seg->item.length, .closed = seg->life == CORE_CLOSED,
		.replicas = seg->on & core_alive(core),
	};
	core_each_backup(b, listed->replicas)
		listed->offset[b] = core_where(core, seg, b);
	return true;
}

uint32_t core_frames_left(const struct core *core)
{
	uint32_t left = core_segments_left(core), i;

	/* A segment that waits for a frame is counted by the free frame that it will take. */
	for (i = 0; i < core->nr_opens; i++)
		left += core->list[i]->segment && !core->list[i]->committed &&
			!core->list[i]->closing;
	return left;
}

uint32_t core_limit(const struct core *core)
{
	uint32_t nr = core_segments_left(core), i;

	for (i = 0; i < core->nr_segments; i++)
		nr += core->segments[i].life != CORE_FREE;
	return nr;
}

void core_clock(struct core *core, uint32_t generation_wanted, uint64_t store_time,
		uint64_t next_segment)
{
	if (generation_wanted > LSMEM_GENERATION_MAX)
		generation_wanted = LSMEM_GENERATION_MAX;
	if (generation_wanted > core->generation_wanted)
		core->generation_wanted = generation_wanted;
	if (store_time > core->store_time)
		core->store_time = store_time;
	if (next_segment > core->next_segment)
		core->next_segment = next_segment;
	core_run(core);
}

void core_event(struct core *core, const struct lsmem_event *event)
{
	if (core->state == CORE_FAILED)
		return;
	if (core->state == CORE_DRAINING || core->state == CORE_STOPPED || !core_room(core)) {
		core_fail(core, "an event came after the shutdown had begun, or without room for it");
		return;
	}
	core->queue[core->queue_next++ % CORE_QUEUE] = *event;
	core_run(core);
}

/*
 * A backup becomes nearly full when fewer than one frame in LOW is free. It stops being nearly full
 * when twice as many are free: the cleaner keeps so many free in normal operation
 * (LSMEM_BACKUP_HIGH).
 */
#define LOW	40u

static void core_watch_room(struct core *core)
{
	uint32_t low = 0, b;

	if (core->coding) {
		/* Stripes keep their frames, so room is what lanes there are: the same for all backups. */
		uint32_t enough = (core_limit(core) + LOW - 1) / LOW << (core->low != 0);

		core->low = core_lanes_left(core) < enough ? core_alive(core) : 0;
		return;
	}
	core_each_backup(b, core_alive(core)) {
		uint64_t frames = __le64_to_cpu(core->super[b].frames);
		uint64_t enough = (frames + LOW - 1) / LOW << (core->low >> b & 1u);

		low |= (uint32_t)(core->nr_free[b] < enough) << b;
	}
	core->low = low;
}

uint32_t core_low(const struct core *core)
{
	return core->low;
}

void core_batch(struct core *core, uint64_t ns)
{
	core->batch_ns = ns;
	core_run(core);
}

void core_time(struct core *core, uint64_t ns)
{
	if (ns > core->time_ns)
		core->time_ns = ns;
	core_run(core);
}

uint64_t core_due(const struct core *core)
{
	uint64_t due = CORE_NEVER, at;
	uint32_t i;

	for (i = 0; core->batch_ns && i < core->nr_opens; i++) {
		at = core_rows_due(core, core->list[i]);
		if (at > core->time_ns && at < due)
			due = at;
	}
	return due;
}

void core_tick(struct core *core)
{
	core_watch_room(core);
	core->tick = true;
	core->copy_left = core->copy_bytes;
	core->copies = true;	/* frames may have become free */
	core->rebuilds = true;
	core_scrub_tick(core);
	core_run(core);
}

static void core_count_write(struct core *core, const struct core_op *op, uint8_t kind)
{
	static const uint8_t parts[] = {
		[CORE_OP_HEADER] = CORE_PART_HEADER,
		[CORE_OP_LOG] = CORE_PART_LOG,
		[CORE_OP_COPY] = CORE_PART_LOG,
		[CORE_OP_ROWS] = CORE_PART_LOG,
		[CORE_OP_REBUILD] = CORE_PART_LOG,
		[CORE_OP_CLOSE] = CORE_PART_DIRECTORY,
		[CORE_OP_DIGEST] = CORE_PART_DIGEST,
	};
	struct core_backup_stats *backup = &core->stats.backup[op->io.backup];

	core->stats.writes++;
	core->stats.written_bytes += op->io.length;
	backup->writes[parts[kind]]++;
	backup->bytes[parts[kind]] += op->io.length;
}

void core_io_done(struct core *core, uint32_t id, int error)
{
	struct core_op *op = &core->ops[id];
	uint32_t backup = op->io.backup;
	uint8_t kind = op->kind;

	bool over = op->rows && core_rows_release(op->rows);

	op->kind = CORE_OP_FREE;
	core->nr_ops[backup]--;
	if (core->state == CORE_FAILED)
		return;
	/* A completion of a lost backup proves nothing. */
	if (!(core_alive(core) >> backup & 1u) && kind != CORE_OP_COPY && kind != CORE_OP_REBUILD)
		return;
	/* Invariant 3: after a failed write or flush the content of the backup is not known, and
	 * the next flush can succeed without the lost bytes.
	 */
	if (error && op->io.kind != CORE_IO_READ &&
	    (RULE(FLUSH_FAILED) || kind != CORE_OP_FLUSH)) {
		char why[CORE_ERROR_BYTES / 2];

		snprintf(why, sizeof(why), "backup %u: %s at %llu, %u bytes, failed: %s", backup,
			 kind == CORE_OP_FLUSH ? "flush" : "write",
			 (unsigned long long)op->io.offset, op->io.length, strerror(-error));
		core_backup_stop(core, backup, why);
		if (kind == CORE_OP_COPY)
			core_copy_done(core, op, error);
		if (kind == CORE_OP_REBUILD)
			core_rebuild_done(core, op, error);
		core_run(core);
		return;
	}
	if (op->io.kind == CORE_IO_WRITE)
		core_count_write(core, op, kind);
	switch (over ? CORE_OP_FREE : kind) {
	case CORE_OP_HEADER:
		core_header_done(core, op);
		break;
	case CORE_OP_LOG:
		core_log_done(core, op);
		break;
	case CORE_OP_CLOSE:
		core_close_done(core, op);
		break;
	case CORE_OP_DIGEST:
		core_digest_done(core, op);
		break;
	case CORE_OP_FLUSH:
		core_flushed(core, backup, error);
		break;
	case CORE_OP_COPY:
		core_copy_done(core, op, error);
		break;
	case CORE_OP_ROWS:
		core_rows_done(core, op);
		break;
	case CORE_OP_SIDES:
		core_rows_sides(core, op, error);
		break;
	case CORE_OP_REBUILD:
		core_rebuild_done(core, op, error);
		break;
	}
	core_run(core);
}

void core_io_received(struct core *core, uint32_t id)
{
	struct core_op *op = &core->ops[id];

	if (op->kind != CORE_OP_LOG || core->state == CORE_FAILED ||
	    !(core_alive(core) >> op->io.backup & 1u))
		return;
	core_log_received(op);
	core->changes++;
	core_run(core);
}

void core_shutdown(struct core *core)
{
	if (core->state == CORE_RESUMING)
		core->state = CORE_STOPPED;
	if (core->state == CORE_RUNNING)
		core->state = CORE_DRAINING;
	core_run(core);
}

/* ---- Outputs ----------------------------------------------------------- */

bool core_io_next(struct core *core, struct core_io *io)
{
	while (core->state != CORE_FAILED && core->out_first != core->out_next) {
		struct core_op *op = &core->ops[core->out[core->out_first++ % CORE_OPS]];

		*io = op->io;
		if (core_alive(core) >> io->backup & 1u)
			return true;
		/* The backup was lost before the request started. */
		core_io_done(core, io->id, 0);
	}
	return false;
}

static uint32_t core_acks_segment(struct core *core, struct core_open *open,
				  struct lsmem_ack_one *acks, uint32_t max)
{
	uint64_t id = open->event.segment;
	uint32_t nr = 0;

	if (open->ack_open && nr < max) {
		acks[nr++] = (struct lsmem_ack_one) { .type = LSMEM_EVENT_OPEN, .segment = id };
		open->ack_open = false;
	}
	/* Only up to @stream: of a resumed segment more can be durable than the kernel has sent. */
	if (open->segment && !open->reopened && nr < max) {
		uint32_t to = open->durable < open->stream ? open->durable : open->stream;

		if (to > open->acked) {
			acks[nr++] = (struct lsmem_ack_one) {
				.type = LSMEM_EVENT_RANGE, .to = to, .segment = id,
			};
			open->acked = to;
		}
		to = open->received < open->stream ? open->received : open->stream;
		if (to > open->acked && to > open->acked_received && nr < max) {
			acks[nr++] = (struct lsmem_ack_one) {
				.type = LSMEM_ACK_RECEIVED, .to = to, .segment = id,
			};
			open->acked_received = to;
		}
	}
	if (open->ack_close && open->acked == open->length && nr < max) {
		acks[nr++] = (struct lsmem_ack_one) {
			.type = LSMEM_EVENT_CLOSE, .to = open->length, .segment = id,
		};
		open->ack_close = false;
		core_open_put(core, open);
		core->changes++;
	}
	return nr;
}

uint32_t core_acks(struct core *core, struct lsmem_ack_one *acks, uint32_t max,
		   uint32_t *ceiling)
{
	uint64_t before = core->changes;
	uint32_t nr = 0, i;

	*ceiling = 0;
	if (core->state == CORE_FAILED)
		return 0;
	*ceiling = core->ceiling_ack;
	core->ceiling_ack = 0;
	/* From the last one, because an acknowledgement can remove the segment from the list. */
	for (i = core->nr_opens; i-- > 0 && nr < max;)
		nr += core_acks_segment(core, core->list[i], acks + nr, max - nr);
	/* In their order, and after the acknowledgements of what supersedes them. */
	while (core->retire_first != core->retire_next && nr < max) {
		struct core_retire *retire = &core->retires[core->retire_first % CORE_RETIRES];

		if (!retire->ack)
			break;
		acks[nr++] = (struct lsmem_ack_one) {
			.type = LSMEM_EVENT_RETIRE, .segment = retire->last,
		};
		memset(retire, 0, offsetof(struct core_retire, segments));
		core->retire_first++;
		core->changes++;
	}
	if (core->changes != before)
		core_run(core);
	return nr;
}

bool core_bad_next(struct core *core, struct core_bad *bad)
{
	if (core->bads_first == core->bads_next)
		return false;
	*bad = core->bads[core->bads_first++ % CORE_BADS];
	return true;
}

enum core_state core_state(const struct core *core)
{
	return core->state;
}

const char *core_error(const struct core *core)
{
	return core->error;
}

enum core_backup_state core_backup(const struct core *core, uint32_t backup)
{
	if (core->joining >> backup & 1u)
		return CORE_BACKUP_JOINING;
	if (core->lost >> backup & 1u)
		return CORE_BACKUP_LEAVING;
	if (core->members >> backup & 1u)
		return CORE_BACKUP_MEMBER;
	return core->was_member >> backup & 1u ? CORE_BACKUP_LOST : CORE_BACKUP_NONE;
}

void core_stats(const struct core *core, struct core_stats *stats)
{
	uint32_t replicas = core_wanted(core), i, b;

	*stats = core->stats;
	for (b = 0; b < core->nr_backups; b++) {
		struct core_backup_stats *backup = &stats->backup[b];

		backup->state = core_backup(core, b);
		backup->in_flight = core->nr_ops[b];
		if (backup->state != CORE_BACKUP_MEMBER)
			continue;
		backup->frames = __le64_to_cpu(core->super[b].frames);
		backup->frames_free = core->nr_free[b];
		backup->frames_low = core->low >> b & 1u;
		stats->frames += backup->frames;
		stats->frames_free += backup->frames_free;
		stats->in_flight += backup->in_flight;
	}
	core_stripes_stats(core, stats);
	for (i = 0; i < core->nr_segments; i++) {
		const struct core_segment *seg = &core->segments[i];
		uint32_t on = seg->life < CORE_OPEN ? seg->on : seg->listed;
		uint32_t wanted = seg->coded ? core_shards(core) : replicas;

		stats->segments += seg->life != CORE_FREE;
		stats->coded += seg->life && seg->coded;
		stats->unlike += seg->life && seg->coded != core->coding;
		core_each_backup(b, seg->life && !seg->coded ? seg->on & ~core->lost : 0)
			stats->backup[b].replicas++;
		if (!seg->life || (uint32_t)__builtin_popcount(on & ~core->lost & ~seg->bad) >= wanted)
			continue;
		if (seg->life < CORE_CLOSED)
			stats->short_open++;
		else
			stats->short_segments++;
	}
	stats->term = core->map.term;
	stats->sequence = core->map.sequence;
	for (i = 0; i < core->nr_opens; i++) {
		const struct core_open *open = core->list[i];

		if (open->durable < open->committed) {
			stats->lag_segments++;
			stats->lag_bytes += open->committed - open->durable;
		}
		if (open->durable < open->acked_received)
			stats->memory_bytes += open->acked_received - open->durable;
		core_each_backup(b, open->segment ? open->segment->on : 0) {
			uint32_t flushed = open->replica[b].flushed;

			if (flushed >= open->committed)
				continue;
			stats->backup[b].lag_segments++;
			stats->backup[b].lag_bytes += open->committed - flushed;
		}
	}
}
