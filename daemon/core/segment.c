// SPDX-License-Identifier: GPL-2.0
/*
 * Segments on the backups: frames, headers, log data, and how much of them is durable.
 *
 * Core writes log data as they are committed: whole blocks from the log's memory itself; the tail
 * block, in which the committed bytes end, from a copy whose rest is zero. While a tail block is in
 * flight, the next write of the segment, which begins with the same block, waits; the commits that
 * gather meanwhile go out in one write. A write with which little else is in flight is a durable
 * write, and needs no flush.
 */
#include <string.h>

#include "private.h"

#define CORE_ALONE	4u	/* with fewer requests to a backup in flight, writes are durable */

static uint32_t *core_bucket(struct core *core, uint64_t id)
{
	return &core->hash[(id * 0x9e3779b97f4a7c15ull >> 32) & core->hash_mask];
}

/**
 * core_segment_find - find a segment
 * @core: core
 * @id: its id
 *
 * Return: the segment; NULL: it has no frame.
 */
struct core_segment *core_segment_find(struct core *core, uint64_t id)
{
	uint32_t n = *core_bucket(core, id);

	while (n != CORE_NONE && core->segments[n].item.segment != id)
		n = core->segments[n].next;
	return n == CORE_NONE ? NULL : &core->segments[n];
}

/**
 * core_segment_put - add a segment
 * @core: core, with a free entry
 * @item: the segment
 * @life: its state
 *
 * Return: the segment, without replicas.
 */
struct core_segment *core_segment_put(struct core *core, const struct digest_item *item,
				      enum core_life life)
{
	uint32_t n = core->free_segments[--core->nr_free_segments];
	struct core_segment *seg = &core->segments[n];
	uint32_t *bucket = core_bucket(core, item->segment);

	*seg = (struct core_segment) {
		.item = *item, .life = life, .first_seglet = CORE_NONE, .next = *bucket,
	};
	*bucket = n;
	return seg;
}

/**
 * core_segment_free - remove a segment and free its frames
 * @core: core
 * @seg: no durable digest lists it
 */
void core_segment_free(struct core *core, struct core_segment *seg)
{
	uint32_t *link = core_bucket(core, seg->item.segment), b;

	while (*link != core_number(core, seg))
		link = &core->segments[*link].next;
	*link = seg->next;
	core_copy_stop(core, core_number(core, seg));
	core_each_backup(b, seg->coded ? 0 : seg->on | seg->listed | seg->kept)
		core_frame_free(core, b, seg->frame[b]);
	if (seg->coded)
		core_lane_give(core, seg);
	memset(seg, 0, sizeof(*seg));
	core->free_segments[core->nr_free_segments++] = core_number(core, seg);
	core->changes++;
}

/**
 * core_segment_dirty - have the next digest record name a segment
 * @core: core
 * @seg: its state, length or replicas have changed
 */
void core_segment_dirty(struct core *core, struct core_segment *seg)
{
	if (seg->dirty)
		return;
	seg->dirty = true;
	core->dirty[core->nr_dirty++] = core_number(core, seg);
}

/**
 * core_open_get - get an entry for a segment that is not closed
 * @core: core
 *
 * Return: the entry, zeroed; NULL: too many segments are open.
 */
struct core_open *core_open_get(struct core *core)
{
	struct core_open *open;
	uint32_t i, b;

	for (i = 0; i < CORE_OPENS && core->opens[i].used; i++)
		;
	if (i == CORE_OPENS)
		return NULL;
	open = &core->opens[i];
	memset(open, 0, sizeof(*open));
	open->used = true;
	core->list[core->nr_opens++] = open;
	for (b = 0; b < core->nr_backups; b++)
		open->replica[b].block = core->blocks +
					 (size_t)(i * core->nr_backups + b) * LSMEM_BLOCK;
	return open;
}

/**
 * core_open_put - release the entry of a segment that is closed
 * @core: core
 * @open: from core_open_get(); the caller does not use it any more
 */
void core_open_put(struct core *core, struct core_open *open)
{
	uint32_t i;

	for (i = 0; core->list[i] != open; i++)
		;
	core->nr_opens--;
	memmove(&core->list[i], &core->list[i + 1], (core->nr_opens - i) * sizeof(*core->list));
	if (open->segment)
		open->segment->open = NULL;
	core_rows_put(open->rows);
	open->used = false;
}

/**
 * core_opened - handle OPEN: a segment needs frames
 * @core: core
 * @event: the event
 *
 * Return: false: the event has to wait, and the events after it.
 */
bool core_opened(struct core *core, const struct lsmem_event *event)
{
	struct core_segment *seg = core_segment_find(core, event->segment);

	if (seg && seg->open && seg->open->reopened && seg->item.generation == event->generation) {
		/* A former daemon has listed it, and ended before it acknowledged OPEN. */
		seg->open->reopened = false;
		seg->open->ack_open = true;
		core->changes++;
		return true;
	}
	if (seg || !event->segment) {
		core_fail(core, "segment %llu: the kernel opens it a second time",
			  (unsigned long long)event->segment);
		return true;
	}
	/* An OPEN that waits for a frame must not delay later events: they can free frames. */
	if (core->waiting_next - core->waiting_first == CORE_QUEUE)
		return false;
	core->waiting[core->waiting_next++ % CORE_QUEUE] = *event;
	if (event->segment >= core->next_segment)
		core->next_segment = event->segment + 1;
	core->changes++;
	return true;
}

/* Give waiting OPEN events a struct core_open, in their order. */
static void core_admit(struct core *core)
{
	while (core->waiting_first != core->waiting_next) {
		struct core_open *open = core_open_get(core);

		if (!open)
			return;
		open->event = core->waiting[core->waiting_first++ % CORE_QUEUE];
		open->placed = true;
		core->changes++;
	}
}

/**
 * core_make_header - make the header of a replica
 * @core: core
 * @seg: its segment
 * @backup: backup that the replica is on
 * @time: store time at which the segment was opened
 * @header: out, sealed
 */
void core_make_header(const struct core *core, const struct core_segment *seg, uint32_t backup,
		      uint64_t time, struct lsmem_segment_header *header)
{
	const struct digest_item *item = &seg->item;

	memset(header, 0, sizeof(*header));
	header->magic = __cpu_to_le64(LSMEM_SEGMENT_MAGIC);
	header->format = __cpu_to_le32(LSMEM_FORMAT);
	memcpy(header->uuid, core->uuid, sizeof(header->uuid));
	header->incarnation = core->super[backup].incarnation;
	header->term = __cpu_to_le64(core->map.term);
	header->segment = __cpu_to_le64(item->segment);
	header->generation = __cpu_to_le32(item->generation);
	header->replica_generation = __cpu_to_le32(item->replica_generation);
	header->digest_sequence = __cpu_to_le64(core->map.sequence);
	header->open_time = __cpu_to_le64(time);
	format_header_seal(header);
}

/**
 * core_write_header - write the header of a replica
 * @core: core
 * @open: has a frame on @backup
 * @backup: backup of the replica; fewer than CORE_IOS requests are in flight to it
 */
void core_write_header(struct core *core, struct core_open *open, uint32_t backup)
{
	struct core_replica *replica = &open->replica[backup];
	struct lsmem_segment_header *header = (void *)replica->block;
	struct core_op *op = core_op_get(core, CORE_OP_HEADER, backup, true);

	core_make_header(core, open->segment, backup, open->event.time, header);
	op->open = open;
	core_op_add(op, header, sizeof(*header));
	core_op_start(core, op, core_where(core, open->segment, backup));
	replica->header = CORE_WRITING;
}

/* Give a segment frames, and write its headers; later, if there are no frames or requests now. */
static void core_place(struct core *core, struct core_open *open)
{
	struct digest_item item = {
		.segment = open->event.segment,
		.generation = open->event.generation,
		.replica_generation = core->map.set_generation,
	};
	uint32_t on, b;

	if (core->coding) {
		core_rows_place(core, open);
		return;
	}
	on = core_choose(core, item.segment);
	if (!on || !core->nr_free_segments)
		return;
	core_each_backup(b, on)
		if (core->nr_ops[b] + CORE_OPS_SPARE >= CORE_IOS)
			return;
	open->segment = core_segment_put(core, &item, CORE_HEADER);
	open->segment->open = open;
	open->segment->on = on;
	core_each_backup(b, on) {
		open->segment->frame[b] = core->free_frames[b][--core->nr_free[b]];
		core_write_header(core, open, b);
	}
	if (!RULE(HEADER_BEFORE_LISTED)) {
		open->segment->life = CORE_OPENING;
		core_segment_dirty(core, open->segment);
		core->urgent = true;
	}
}

/**
 * core_header_done - complete the write of a replica's header
 * @core: core
 * @op: the write
 */
void core_header_done(struct core *core, struct core_op *op)
{
	op->open->replica[op->io.backup].header = CORE_WRITTEN;
	core->flush_wanted[op->io.backup] = true;
}

/**
 * core_header_check - if all headers of a segment are durable, have it listed
 * @core: core
 * @open: has frames
 */
void core_header_check(struct core *core, struct core_open *open)
{
	struct core_segment *seg = open->segment;
	uint32_t b;

	if (open->headed || (seg->coded && (uint32_t)__builtin_popcount(seg->on) < core->least_shards))
		return;
	core_each_backup(b, seg->on)
		if (open->replica[b].header != CORE_DURABLE)
			return;
	open->headed = true;
	/* Invariant 2: a digest lists the segment only after its headers are durable. Otherwise
	 * recovery could find old contents of the frame and report a lost segment.
	 */
	if (seg->life == CORE_HEADER) {
		seg->life = CORE_OPENING;
		core_segment_dirty(core, seg);
		core->urgent = true;
	}
	if (!RULE(ACK_AFTER_LISTED))
		open->ack_open = true;
	core->changes++;
}

/**
 * core_follow - find the next seglet of a segment
 * @core: core
 * @seglet: a seglet of the segment
 *
 * Return: its number; CORE_NONE: the table names no seglet.
 */
uint32_t core_follow(const struct core *core, uint32_t seglet)
{
	uint32_t next = __atomic_load_n(&core->log.table[seglet].next, __ATOMIC_ACQUIRE);

	return next < core->log.nr_seglets ? next : CORE_NONE;
}

/**
 * core_seglets - note which seglets hold the log data of a segment
 * @core: core
 * @open: the segment
 * @event: where its data end, and the seglet of @from
 * @from: home offset, bytes
 *
 * Return: CORE_NONE; or the number of the first piece of 64 KiB that is not in memory.
 */
uint32_t core_seglets(const struct core *core, struct core_open *open,
		      const struct lsmem_event *event, uint32_t from)
{
	uint32_t seglet = event->first_seglet, piece;

	for (piece = from / LSMEM_SEGLET_BYTES; piece * LSMEM_SEGLET_BYTES < event->to; piece++) {
		if (seglet >= core->log.nr_seglets)
			return piece;
		open->seglets[piece] = seglet;
		seglet = core_follow(core, seglet);
	}
	return CORE_NONE;
}

/**
 * core_fits - does a segment have room for so much?
 * @core: core
 * @seg: the segment
 * @length: bytes of log data
 * @entries: of its directory
 */
bool core_fits(const struct core *core, const struct core_segment *seg, uint32_t length, uint32_t entries)
{
	return lsmem_segment_fits_into(seg->coded ? shard_segment_bytes(&core->shards) : LSMEM_SEGMENT_BYTES, length,
				       entries);
}

/**
 * core_range - handle RANGE: more of a segment is committed
 * @core: core
 * @event: the event
 */
void core_range(struct core *core, const struct lsmem_event *event)
{
	struct core_segment *seg = core_segment_find(core, event->segment);
	struct core_open *open = seg ? seg->open : NULL;
	uint32_t piece;
	bool merged;

	/* Invariant 2: the kernel writes to listed segments only. */
	if (!open || open->closing ||
	    (seg->life != CORE_OPEN && !open->closed && RULE(ACK_AFTER_LISTED))) {
		core_fail(core, "segment %llu: the kernel writes to it, but it is not open",
			  (unsigned long long)event->segment);
		return;
	}
	if (event->from != open->stream || event->to <= event->from ||
	    !core_fits(core, seg, event->to, 0) || event->to % LSMEM_ALIGN) {
		core_fail(core, "segment %llu: the kernel sent bytes %u to %u; expected was a range from %u on",
			  (unsigned long long)event->segment, event->from, event->to, open->stream);
		return;
	}
	piece = core_seglets(core, open, event, event->from);
	if (piece != CORE_NONE) {
		core_fail(core, "segment %llu: piece %u is not in memory",
			  (unsigned long long)event->segment, piece);
		return;
	}
	open->stream = event->to;
	core->changes++;
	if (event->to <= open->committed)
		return;
	/* Without room it counts as one with the range before, and as old as that if that waits still. */
	merged = open->nr_bounds == CORE_BOUNDS;
	if (merged)
		open->nr_bounds--;
	if (!merged || !core_rows_waiting(open))
		open->came[open->nr_bounds] = core->time_ns;
	open->committed = event->to;
	open->bounds[open->nr_bounds++] = event->to;
}

/**
 * core_memory - find log data in memory
 * @core: core
 * @open: the segment
 * @at: home offset, committed
 *
 * Return: the log's memory of @at; the bytes up to the end of its seglet follow.
 */
const uint8_t *core_memory(const struct core *core, const struct core_open *open, uint32_t at)
{
	return core->log.seglets +
	       (uint64_t)open->seglets[at / LSMEM_SEGLET_BYTES] * LSMEM_SEGLET_BYTES +
	       at % LSMEM_SEGLET_BYTES;
}

/*
 * Is the next write of a segment to be a durable write? Such a write does not wait for the writes
 * of other segments, but if there are many, one flush for all of them is faster.
 *
 * Invariant 16: a durable write makes its own bytes durable only. Core counts the durable prefix of
 * a replica, so all bytes before the write must be durable already.
 */
static bool core_write_alone(const struct core *core, const struct core_open *open,
			     uint32_t backup)
{
	const struct core_replica *replica = &open->replica[backup];

	return core->nr_ops[backup] < CORE_ALONE && open->segment->listed >> backup & 1u &&
	       (replica->flushed == replica->issued || !RULE(DURABLE_PREFIX));
}

/* Start the next write of log data of a segment to a backup. Return: false: not now. */
static bool core_write_log(struct core *core, struct core_open *open, uint32_t backup)
{
	struct core_replica *replica = &open->replica[backup];
	uint32_t start = replica->issued & ~(LSMEM_BLOCK - 1);
	uint32_t whole = open->committed & ~(LSMEM_BLOCK - 1);
	uint32_t tail = open->committed - whole, length = 0, at, piece;
	bool alone = core_write_alone(core, open, backup);
	struct core_op *op;

	/* @block holds the header until that is written. */
	if (replica->issued >= open->committed || open->committed < open->hold ||
	    replica->header < CORE_WRITTEN || replica->next - replica->first == CORE_WRITES)
		return false;
	/* Invariant 16: one write in flight for each block. A tail block and the next write of
	 * the same block could take effect in either order, unless the host that keeps the backup
	 * has received the first one: it keeps their order.
	 */
	if (RULE(ONE_IN_FLIGHT) && start != replica->issued && replica->next != replica->first &&
	    !replica->writes[(replica->next - 1) % CORE_WRITES].received)
		return false;
	if (!core_exact_allows(core, open))
		return false;
	op = core_op_get(core, CORE_OP_LOG, backup, false);
	if (!op)
		return false;
	for (at = start; at < whole && length < core->io_bytes; at += piece) {
		piece = LSMEM_SEGLET_BYTES - at % LSMEM_SEGLET_BYTES;
		if (piece > whole - at)
			piece = whole - at;
		if (piece > core->io_bytes - length)
			piece = core->io_bytes - length;
		core_op_add(op, core_memory(core, open, at), piece);
		length += piece;
	}
	if (at == whole && tail && length < core->io_bytes) {
		/* Zeroes after the committed bytes: a writer may be copying to the memory there,
		 * and its operation can still be refused (invariant 7).
		 */
		memset(replica->block, 0, LSMEM_BLOCK);
		memcpy(replica->block, core_memory(core, open, whole),
		       RULE(TAIL_ZERO) ? tail : LSMEM_BLOCK);
		core->stats.bounced_bytes += tail;
		core_op_add(op, replica->block, LSMEM_BLOCK);
		at = open->committed;
	}
	op->open = open;
	op->write = replica->next;
	op->io.durable = alone && at == open->committed;
	replica->writes[replica->next++ % CORE_WRITES] = (struct core_write) {
		.to = at, .durable = op->io.durable,
	};
	replica->issued = at;
	core_op_start(core, op, core_where(core, open->segment, backup) + LSMEM_BLOCK + start);
	return true;
}

/**
 * core_log_received - take note that a host has the bytes of a write in memory
 * @op: the write
 */
void core_log_received(struct core_op *op)
{
	struct core_replica *replica = &op->open->replica[op->io.backup];
	uint32_t n;

	replica->writes[op->write % CORE_WRITES].received = true;
	for (n = replica->first; n != replica->next; n++) {
		if (!replica->writes[n % CORE_WRITES].received)
			break;
		replica->received = replica->writes[n % CORE_WRITES].to;
	}
}

/**
 * core_count_group - count what a flush or a durable write makes durable
 * @core: core
 * @backup: its backup
 * @bytes: of log data
 * @segments: that these belong to
 */
void core_count_group(struct core *core, uint32_t backup, uint64_t bytes, uint32_t segments)
{
	struct core_backup_stats *stats = &core->stats.backup[backup];

	histogram_add(&stats->group_bytes, bytes);
	histogram_add(&stats->group_segments, segments);
}

/*
 * Would a flush now make a further range durable on a replica?  A part of a range counts for nothing: the
 * flush waits for the writes of the rest, else that would wait for this flush, and then for its own.
 */
static bool core_range_written(const struct core_open *open, const struct core_replica *replica)
{
	uint32_t i;

	for (i = 0; i < open->nr_bounds; i++)
		if (open->bounds[i] > replica->flushing)
			return replica->written >= open->bounds[i];
	/* A replica that is being added: all ranges are durable on the others. */
	return replica->written == open->committed;
}

/**
 * core_log_done - complete a write of log data
 * @core: core
 * @op: the write
 *
 * Writes complete in any order; what counts as written is the prefix without a gap.
 */
void core_log_done(struct core *core, struct core_op *op)
{
	struct core_replica *replica = &op->open->replica[op->io.backup];

	replica->writes[op->write % CORE_WRITES].done = true;
	while (replica->first != replica->next &&
	       replica->writes[replica->first % CORE_WRITES].done) {
		const struct core_write *write = &replica->writes[replica->first++ % CORE_WRITES];

		if (write->durable) {
			core_count_group(core, op->io.backup, write->to - replica->flushed, 1);
			replica->flushing = write->to;
			replica->flushed = write->to;
		}
		replica->written = write->to;
	}
	if (replica->written > replica->flushing &&
	    (core_range_written(op->open, replica) || !RULE(WHOLE_RANGES)))
		core->flush_wanted[op->io.backup] = true;
}

/*
 * Compute how much of a segment is durable, and how much is received.
 *
 * Invariant 2: durable means durable on every replica; it ends where a range ends, however the range
 * was divided into writes.
 *
 * Invariant 21: so it never ends inside a group, of which the kernel tells as a whole, and nor does
 * what is acknowledged, what a digest says, or what a commit record says.
 *
 * Invariant 3: a replica on a lost backup counts until a durable digest has removed the backup from
 * the members. Otherwise, after a crash, this backup could come back alone, and a recovery would
 * take its shorter replica for all that was acknowledged. A replica that is being added counts from
 * @near on, but not for min_replicas: it is not listed.
 *
 * Received means that each replica has the bytes on its drive or in the memory of the host that
 * keeps it; a lost backup has no memory. Only the kernel uses this, for callers that do not wait
 * for a drive. Everything else uses what is durable: a host and its drive can fail together.
 */
static void core_update_durable(struct core *core, struct core_open *open)
{
	uint32_t on = RULE(SHRINK_DURABLE) ? open->segment->on : open->segment->on & ~core->lost;
	uint32_t least = UINT32_MAX, received = UINT32_MAX, b;

	if (open->rows || !open->nr_bounds ||
	    ((uint32_t)__builtin_popcount(on & open->segment->listed) < core->min_replicas &&
	     RULE(MIN_REPLICAS)))
		return;
	core_each_backup(b, on | open->segment->near) {
		const struct core_replica *replica = &open->replica[b];
		uint32_t durable = RULE(ACK_AFTER_FLUSH) ? replica->flushed : replica->written;
		uint32_t has = core->lost >> b & 1u || replica->received < durable ? durable :
			       replica->received;

		if (!RULE(RECEIVED_APART))
			durable = has;
		if (durable < least)
			least = durable;
		if (has < received)
			received = has;
	}
	core_take_durable(core, open, least, received);
}

/**
 * core_take_durable - more of a segment is durable or received
 * @core: core
 * @open: the segment
 * @durable: home offset up to which everything is durable
 * @received: home offset up to which everything is durable or in the memory of the hosts that keep the backups
 */
void core_take_durable(struct core *core, struct core_open *open, uint32_t durable, uint32_t received)
{
	uint32_t before = open->durable, gone;

	for (gone = 0; gone < open->nr_bounds && open->bounds[gone] <= received; gone++)
		if (open->bounds[gone] > open->received)
			open->received = open->bounds[gone];
	for (gone = 0; gone < open->nr_bounds && open->bounds[gone] <= durable; gone++)
		open->durable = open->bounds[gone];
	if (!RULE(WHOLE_RANGES) && durable > open->durable)
		open->durable = durable;
	if (open->durable == before)
		return;
	open->nr_bounds -= gone;
	memmove(open->bounds, open->bounds + gone, open->nr_bounds * sizeof(*open->bounds));
	memmove(open->came, open->came + gone, open->nr_bounds * sizeof(*open->came));
	core->stats.log_bytes += open->durable - before;
	/* The next digest names the new length; no digest is made for that alone. */
	open->segment->item.length = open->durable;
	core_segment_dirty(core, open->segment);
	core->changes++;
}

/**
 * core_segments_run - start headers and writes of log data
 * @core: core
 */
void core_segments_run(struct core *core)
{
	uint32_t i, b;

	core_admit(core);
	for (i = 0; i < core->nr_opens; i++) {
		struct core_open *open = core->list[i];

		if (!open->segment)
			core_place(core, open);
		if (!open->segment || open->closed)
			continue;
		if (open->rows) {
			core_rows_run(core, open);
			continue;
		}
		core_each_backup(b, (open->segment->on | open->segment->adding) & ~core->lost)
			while (core_write_log(core, open, b))
				;
		/* A replica may have been removed, and the others may be durable. */
		core_update_durable(core, open);
	}
}

/**
 * core_segments_flush - note what a flush covers
 * @core: core
 * @backup: backup to which the flush is being issued
 */
void core_segments_flush(struct core *core, uint32_t backup)
{
	uint32_t segments = 0, i;
	uint64_t bytes = 0, more;

	for (i = 0; i < core->nr_opens; i++) {
		const struct core_open *open = core->list[i];
		struct core_replica *replica = &core->list[i]->replica[backup];

		if (!open->segment || !((open->segment->on | open->segment->adding) >> backup & 1u))
			continue;
		if (replica->header == CORE_WRITTEN)
			replica->header = CORE_FLUSHING;
		more = open->rows ? core_rows_flush(open->rows, backup) :
		       replica->written > replica->flushing ? replica->written - replica->flushing : 0;
		bytes += more;
		segments += more != 0;
		replica->flushing = replica->written;
	}
	if (segments)
		core_count_group(core, backup, bytes, segments);
}

/**
 * core_segments_flushed - note that what a flush covered is durable
 * @core: core
 * @backup: backup of the flush
 */
void core_segments_flushed(struct core *core, uint32_t backup)
{
	uint32_t i;

	for (i = 0; i < core->nr_opens; i++) {
		struct core_open *open = core->list[i];
		struct core_replica *replica = &open->replica[backup];

		if (!open->segment || !((open->segment->on | open->segment->adding) >> backup & 1u))
			continue;
		if (!RULE(FLUSH_COVERS))
			replica->flushing = replica->written;
		if (replica->flushing > replica->flushed)
			replica->flushed = replica->flushing;
		if (replica->header == CORE_FLUSHING) {
			replica->header = CORE_DURABLE;
			core_header_check(core, open);
		}
		if (open->rows) {
			core_rows_flushed(open->rows, backup);
			continue;
		}
		core_extend_flushed(core, open, backup);
		core_update_durable(core, open);
	}
}

/**
 * core_segments_drained - is everything durable that the kernel has sent?
 * @core: core
 *
 * Bytes that a resumed segment holds back (@hold in struct core_open) do not count.
 */
bool core_segments_drained(const struct core *core)
{
	uint32_t i;

	for (i = 0; i < core->nr_opens; i++) {
		const struct core_open *open = core->list[i];

		if (!open->segment)
			continue;
		if (open->segment->life < CORE_OPEN || open->closing ||
		    (open->durable < open->committed && open->committed >= open->hold))
			return false;
	}
	return true;
}
