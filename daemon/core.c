// SPDX-License-Identifier: GPL-2.0
/*
 * core: see core.h.  Here are its inputs and outputs, the requests in flight,
 * the flush machine and the queue of events.
 *
 * After each input core_run() does what has become possible until nothing
 * changes any more.  Nothing here depends on anything but the inputs.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"
#include "memory.h"

/**
 * core_fail - stop for good
 * @core: core
 * @format: why, for the operator
 *
 * Invariant 3: whatever has gone wrong, nothing more is acknowledged.
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
 * @spare: for what everything waits for: may use the last ones
 * Return: NULL when too many are in flight; try again after the next has ended.
 */
struct core_op *core_op_get(struct core *core, enum core_op_kind kind, bool spare)
{
	struct core_op *op;

	if (core->nr_ops + (spare ? 0 : CORE_OPS_SPARE) >= CORE_IOS)
		return NULL;
	for (op = core->ops; op->kind != CORE_OP_FREE; op++)
		;
	memset(op, 0, offsetof(struct core_op, io));
	op->kind = kind;
	op->io.id = op - core->ops;
	op->io.kind = kind == CORE_OP_FLUSH ? CORE_IO_FLUSH : CORE_IO_WRITE;
	op->io.backup = 0;
	op->io.length = 0;
	op->io.nr_iov = 0;
	core->nr_ops++;
	return op;
}

/**
 * core_op_add - add bytes to a request
 * @op: the request
 * @data: they stay as they are until it has ended
 * @length: a multiple of LSMEM_BLOCK
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
 * core_op_start - give a request out
 * @core: core
 * @op: the request
 * @offset: in the backup
 */
void core_op_start(struct core *core, struct core_op *op, uint64_t offset)
{
	op->io.offset = offset;
	core->out[core->out_next++ % CORE_IOS] = op->io.id;
	core->changes++;
}

/* Issue a flush when something waits for one; one at a time on each backup. */
static void core_flush_run(struct core *core)
{
	uint32_t b;

	for (b = 0; b < CORE_BACKUPS; b++) {
		struct core_op *op;

		if (!core->flush_wanted[b] || core->flushing[b])
			continue;
		op = core_op_get(core, CORE_OP_FLUSH, true);
		if (!op)
			return;
		/* Invariant 16: it covers what has completed by now. */
		core_segments_flush(core, b);
		core_closes_flush(core);
		core_digest_flush(core);
		op->io.backup = b;
		core->flush_wanted[b] = false;
		core->flushing[b] = true;
		core_op_start(core, op, 0);
	}
}

static void core_flushed(struct core *core, uint32_t backup, int error)
{
	core->flushing[backup] = false;
	if (error) {
		/* Only with rule 3 switched off: taken for a flush to be repeated. */
		core->flush_wanted[backup] = true;
		return;
	}
	core->stats.flushes++;
	core->stats.backup[backup].flushes++;
	core_segments_flushed(core, backup);
	core_closes_flushed(core);
	core_digest_flushed(core);
}

/* ---- The queue of events ----------------------------------------------- */

/* Understand an event; false: not yet. */
static bool core_understand(struct core *core, const struct lsmem_event *event)
{
	if (core->state == CORE_RESUMING && event->type != LSMEM_EVENT_RESUME) {
		core_fail(core, "event %u of segment %llu comes before the kernel has said what it has",
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

/**
 * core_take - understand events in their order, as far as possible
 * @core: core
 */
void core_take(struct core *core)
{
	while (core->queue_first != core->queue_next && core->state != CORE_FAILED) {
		if (!core_understand(core, &core->queue[core->queue_first % CORE_QUEUE]))
			return;
		core->queue_first++;
		core->changes++;
	}
}

static void core_run(struct core *core)
{
	uint64_t before;

	do {
		before = core->changes;
		core_take(core);
		if (core->state == CORE_FAILED || core->state == CORE_RESUMING)
			return;
		core_segments_run(core);
		core_closes_run(core);
		core_retires_run(core);
		core_digest_run(core);
		core_flush_run(core);
	} while (core->changes != before && core->state != CORE_FAILED);
}

/* ---- Inputs ------------------------------------------------------------ */

uint32_t core_room(const struct core *core)
{
	return CORE_QUEUE - (core->queue_next - core->queue_first);
}

uint32_t core_frames_left(const struct core *core)
{
	uint32_t left = core->nr_free, i;

	/* A segment that waits for a frame takes a free one and is empty then. */
	for (i = 0; i < core->nr_opens; i++)
		left += core->list[i]->segment && !core->list[i]->committed &&
			!core->list[i]->closing;
	return left;
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
		core_fail(core, "an event came when none was to come");
		return;
	}
	core->queue[core->queue_next++ % CORE_QUEUE] = *event;
	core_run(core);
}

void core_tick(struct core *core)
{
	core->tick = true;
	core_run(core);
}

static void core_count_write(struct core *core, const struct core_op *op, uint8_t kind)
{
	static const uint8_t parts[] = {
		[CORE_OP_HEADER] = CORE_PART_HEADER,
		[CORE_OP_LOG] = CORE_PART_LOG,
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
	uint8_t kind = op->kind;

	op->kind = CORE_OP_FREE;
	core->nr_ops--;
	if (core->state == CORE_FAILED)
		return;
	/* Invariant 3: after a failed write or flush nobody knows what the replica
	 * holds, and the next flush may well succeed without it.
	 */
	if (error && (RULE(FLUSH_FAILED) || kind != CORE_OP_FLUSH)) {
		core_fail(core, "backup %u: %s at %llu, %u bytes, failed: %s: the replica is lost",
			  op->io.backup, kind == CORE_OP_FLUSH ? "flush" : "write",
			  (unsigned long long)op->io.offset, op->io.length, strerror(-error));
		return;
	}
	if (kind != CORE_OP_FLUSH)
		core_count_write(core, op, kind);
	switch (kind) {
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
		core_flushed(core, op->io.backup, error);
		break;
	}
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
	if (core->state == CORE_FAILED || core->out_first == core->out_next)
		return false;
	*io = core->ops[core->out[core->out_first++ % CORE_IOS]].io;
	return true;
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
	/* No further than the kernel has given out: of a resumed segment more may
	 * be durable than it remembers.
	 */
	if (open->segment && !open->reopened && nr < max) {
		uint32_t to = open->durable < open->stream ? open->durable : open->stream;

		if (to > open->acked) {
			acks[nr++] = (struct lsmem_ack_one) {
				.type = LSMEM_EVENT_RANGE, .to = to, .segment = id,
			};
			open->acked = to;
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
	/* From the last, as an acknowledgement may be the end of one. */
	for (i = core->nr_opens; i-- > 0 && nr < max;)
		nr += core_acks_segment(core, core->list[i], acks + nr, max - nr);
	/* In their order; their superseders' acknowledgements are above. */
	while (core->retire_first != core->retire_next && nr < max) {
		struct core_retire *retire = &core->retires[core->retire_first % CORE_RETIRES];

		if (!retire->ack)
			break;
		acks[nr++] = (struct lsmem_ack_one) {
			.type = LSMEM_EVENT_RETIRE, .segment = retire->last,
		};
		memset(retire, 0, offsetof(struct core_retire, frames));
		core->retire_first++;
		core->changes++;
	}
	if (core->changes != before)
		core_run(core);
	return nr;
}

enum core_state core_state(const struct core *core)
{
	return core->state;
}

const char *core_error(const struct core *core)
{
	return core->error;
}

void core_stats(const struct core *core, struct core_stats *stats)
{
	uint32_t i, b;

	*stats = core->stats;
	stats->frames = core->nr_frames;
	stats->frames_free = core->nr_free;
	stats->segments = core->nr_frames - core->nr_free;
	stats->in_flight = core->nr_ops;
	stats->epoch = core->map.epoch;
	stats->sequence = core->map.sequence;
	for (i = 0; i < core->nr_opens; i++) {
		const struct core_open *open = core->list[i];

		if (open->durable < open->committed) {
			stats->lag_segments++;
			stats->lag_bytes += open->committed - open->durable;
		}
		for (b = 0; b < CORE_BACKUPS; b++) {
			uint32_t flushed = open->replica[b].flushed;

			if (flushed >= open->committed)
				continue;
			stats->backup[b].lag_segments++;
			stats->backup[b].lag_bytes += open->committed - flushed;
		}
	}
}

/* ---- Life -------------------------------------------------------------- */

static int core_alloc_all(struct core *core)
{
	size_t frames = core->nr_frames, buckets = 1, i;

	while (buckets < 2 * frames)
		buckets *= 2;
	core->hash_mask = buckets - 1;
	core->queue = calloc(CORE_QUEUE, sizeof(*core->queue));
	core->waiting = calloc(CORE_QUEUE, sizeof(*core->waiting));
	core->segments = calloc(frames, sizeof(*core->segments));
	core->hash = malloc(buckets * sizeof(*core->hash));
	core->free_frames = calloc(frames, sizeof(*core->free_frames));
	core->dirty = calloc(frames, sizeof(*core->dirty));
	core->gone = calloc(CORE_GONE, sizeof(*core->gone));
	core->record.frames = calloc(frames, sizeof(*core->record.frames));
	core->record.states = calloc(frames, sizeof(*core->record.states));
	core->record.buffer = memory_get(format_digest_bytes(frames));
	core->blocks = memory_get((size_t)CORE_OPENS * CORE_BACKUPS * LSMEM_BLOCK);
	for (i = 0; i < CORE_CLOSES; i++) {
		core->closes[i].buffer = memory_get(CORE_CLOSE_BYTES);
		if (!core->closes[i].buffer)
			return -ENOMEM;
	}
	if (!core->queue || !core->waiting || !core->segments || !core->hash || !core->free_frames ||
	    !core->dirty || !core->gone || !core->record.frames || !core->record.states ||
	    !core->record.buffer || !core->blocks)
		return -ENOMEM;
	memset(core->hash, 0xff, buckets * sizeof(*core->hash));
	return 0;
}

static void core_adopt(struct core *core, const struct digest_map *map)
{
	uint32_t frame;

	/* From the top, so that the lowest free frame is used first. */
	for (frame = map->frames; frame-- > 0;) {
		const struct digest_item *item = &map->items[frame];

		if (!item->state)
			core->free_frames[core->nr_free++] = frame;
		else
			core_segment_put(core, frame, item,
					 item->state == LSMEM_ITEM_CLOSED ? CORE_CLOSED :
					 item->state == LSMEM_ITEM_SEALED ? CORE_SEALED :
					 CORE_OPEN);
	}
	core->map = *map;
	core->map.items = NULL;
	core->store_time = map->store_time;
	core->next_segment = map->next_segment;
}

/**
 * core_new - begin
 * @params: what core works on
 * @error: why it could not
 */
struct core *core_new(const struct core_params *params, char error[CORE_ERROR_BYTES])
{
	uint32_t frame;
	struct core *core;

	error[0] = '\0';
	if (params->map->frames != __le64_to_cpu(params->super->frames) ||
	    params->io_bytes % LSMEM_BLOCK || params->io_bytes < LSMEM_SEGLET_BYTES ||
	    params->io_bytes > CORE_IO_BYTES || !params->log.nr_frames) {
		snprintf(error, CORE_ERROR_BYTES, "core: parameters are out of range");
		return NULL;
	}
	for (frame = 0; !params->resume && frame < params->map->frames; frame++) {
		/* Invariant 15: recovery has sealed them all. */
		if (params->map->items[frame].state == LSMEM_ITEM_OPEN) {
			snprintf(error, CORE_ERROR_BYTES,
				 "core: segment %llu is open, and nobody has it: recover first",
				 (unsigned long long)params->map->items[frame].segment);
			return NULL;
		}
	}
	core = calloc(1, sizeof(*core));
	if (core)
		core->nr_frames = params->map->frames;
	if (!core || core_alloc_all(core)) {
		snprintf(error, CORE_ERROR_BYTES, "core: no memory for a backup of %u frames",
			 params->map->frames);
		core_free(core);
		return NULL;
	}
	core->super = *params->super;
	core->log = params->log;
	core->io_bytes = params->io_bytes;
	core->state = params->resume ? CORE_RESUMING : CORE_RUNNING;
	core_adopt(core, params->map);
	return core;
}

void core_free(struct core *core)
{
	uint32_t i;

	if (!core)
		return;
	for (i = 0; i < CORE_CLOSES; i++)
		memory_put(core->closes[i].buffer);
	free(core->queue);
	free(core->waiting);
	free(core->segments);
	free(core->hash);
	free(core->free_frames);
	free(core->dirty);
	free(core->gone);
	free(core->record.frames);
	free(core->record.states);
	memory_put(core->record.buffer);
	memory_put(core->blocks);
	free(core);
}
