// SPDX-License-Identifier: GPL-2.0
/*
 * Digest records and retirement.
 *
 * Core makes the next record only when the last one is durable and counts (invariant 1). Deltas
 * follow each other in a half of the digest log. If a record does not fit, core writes a full
 * record to the beginning of the other half, whose records no recovery needs any more.
 *
 * Core makes a record when something waits for it: segments to be listed, groups to be retired, a
 * generation ceiling, a change of the members; or at a tick, when lengths or states have changed.
 * One record takes everything that is ready.
 */
#include <string.h>

#include "private.h"

/* Return: the state that the next digest gives a segment, LSMEM_ITEM_*; 0: it does not name it. */
static uint32_t core_item_state(const struct core_segment *seg)
{
	switch (seg->life) {
	case CORE_OPENING:
	case CORE_OPEN:
		return LSMEM_ITEM_OPEN;
	case CORE_CLOSED:
		return LSMEM_ITEM_CLOSED;
	case CORE_SEALED:
		return LSMEM_ITEM_SEALED;
	case CORE_LEAVING:
		return LSMEM_ITEM_REMOVED;
	default:
		return 0;
	}
}

/**
 * core_record_bytes - compute the length of the longest record
 * @core: core
 *
 * Return: bytes. A full record has an item for each replica, and of a coded store one for each frame of a stripe and one for
 * each coded segment; and one says where the log branched off.
 */
uint64_t core_record_bytes(const struct core *core)
{
	return format_digest_bytes((core->nr_stripes ? 2 : 1) * core->nr_segments + 1);
}

/* Add the items of a segment's replicas. An item is removed only if the durable digest lists it. */
static void core_record_add(struct core *core, const struct core_segment *seg, uint32_t state)
{
	struct lsmem_digest *digest = (void *)core->record.buffers[core->record.buffer];
	uint32_t gone = state == LSMEM_ITEM_REMOVED ? seg->listed : seg->listed & ~seg->on, b;

	if (seg->coded) {
		if (state != LSMEM_ITEM_REMOVED || (seg->listed && !core->record.full))
			digest_add_lane(digest, lane_item(&seg->lane), &seg->item, state);
		return;
	}
	core_each_backup(b, core->record.map.mask & (seg->on | gone)) {
		bool stays = !(gone >> b & 1u);

		/* A full record does not name what is removed. */
		if (stays ? state != LSMEM_ITEM_REMOVED : !core->record.full)
			digest_add(digest, b << LSMEM_ITEM_FRAME_BITS | seg->frame[b], &seg->item,
				   stays ? state : LSMEM_ITEM_REMOVED);
	}
}

/*
 * The members of a record are the backups that are not lost; their failure domains are those of the
 * configuration.
 */
static void core_record_members(const struct core *core, struct digest_map *map)
{
	uint8_t domain[LSMEM_BACKUPS] = { 0 };
	uint32_t b;

	core_each_backup(b, core->domains ? core_alive(core) : 0)
		domain[b] = core->domain[b] + 1;
	if (core_alive(core) == map->mask && !memcmp(domain, map->domain, sizeof(domain)))
		return;
	map->mask = core_alive(core);
	map->set_generation++;
	for (b = 0; b < LSMEM_BACKUPS; b++)
		map->members[b] = map->mask >> b & 1u ?
				  __le64_to_cpu(core->super[b].incarnation) : 0;
	memcpy(map->domain, domain, sizeof(domain));
	map->floor = digest_floor(map);
}

static uint32_t core_record_items(const struct core *core, uint32_t mask)
{
	uint32_t items = 0, i;

	for (i = 0; i < core->nr_dirty; i++) {
		const struct core_segment *seg = &core->segments[core->dirty[i]];

		items += seg->coded ? 1 : __builtin_popcount(mask & (seg->on | seg->listed));
	}
	return items + core_stripes_items(core);
}

/* Choose a buffer for the record that no request in flight to a lost backup uses. */
static void core_record_buffer(struct core *core)
{
	struct core_record *record = &core->record;
	uint32_t alive = core_alive(core), busy = 0, b;

	for (b = 0; b < core->nr_backups; b++)
		if (!(alive >> b & 1u) && core->nr_ops[b])
			busy |= 1u << record->used[b];
	record->buffer = __builtin_ctz(~busy);	/* at least one backup is not lost */
	core_each_backup(b, alive) {
		record->to[b] = (struct core_transfer) { .state = CORE_WRITING };
		record->used[b] = record->buffer;
	}
}

/* Is a backup to become a member, and is its index free? */
static bool core_joiners(const struct core *core)
{
	return core->state == CORE_RUNNING && (core->joining & ~core->map.mask);
}

/*
 * Does each segment have a replica on a backup that is not lost? A record without the lost backups
 * would forget a segment that only they have, and a recovery would not miss it. So core fails
 * before it: the last digest names them still.
 */
static bool core_record_whole(struct core *core)
{
	uint32_t i;

	for (i = 0; RULE(RECORD_WHOLE) && i < core->nr_segments; i++) {
		const struct core_segment *seg = &core->segments[i];

		if (!seg->life || seg->life == CORE_HEADER || seg->life == CORE_LEAVING ||
		    core_readable(core, seg, seg->on & core_alive(core)))
			continue;
		core_fail(core, "segment %llu: its last %s lost", (unsigned long long)seg->item.segment,
			  seg->coded ? "shards that it can be read from are" : "replica is");
		return false;
	}
	return true;
}

/* Make the record of everything that has changed. */
static void core_make_record(struct core *core)
{
	uint32_t joiners = core_joiners(core) ? core_join(core) : 0;
	uint32_t any = __builtin_ctz(core_alive(core)), kind, items, i;
	uint64_t half_bytes = __le64_to_cpu(core->super[any].digest_bytes);
	struct core_record *record = &core->record;
	struct lsmem_digest *digest;

	record->map = core->map;
	record->map.sequence++;
	record->first = joiners;
	core_record_members(core, &record->map);
	/* Invariant 14: a ceiling is durable before the kernel issues generations up to it. */
	if (core->generation_wanted > record->map.generation_ceiling)
		record->map.generation_ceiling = core->generation_wanted;
	if (core->store_time > record->map.store_time)
		record->map.store_time = core->store_time;
	if (core->next_segment > record->map.next_segment)
		record->map.next_segment = core->next_segment;
	record->map.exact = core_exact(core);

	items = core_record_items(core, record->map.mask);
	record->full = core->full || joiners || format_digest_bytes(items) > half_bytes - core->map.at;
	kind = record->full ? LSMEM_DIGEST_FULL : LSMEM_DIGEST_DELTA;
	record->half = core->map.half;
	record->at = core->map.at;
	if (record->full) {
		/* In the same half, a crash during the write could leave no digest at all. */
		if (RULE(DIGEST_HALF))
			record->half = !core->map.half;
		record->at = 0;
	}
	core_record_buffer(core);
	digest = (void *)record->buffers[record->buffer];
	memset(digest, 0, record->full ? core_record_bytes(core) : format_digest_bytes(items));
	digest_head(digest, &record->map, &core->super[any], kind);
	/* Before the segments: a lane is of a stripe that is known. */
	core_stripes_record(core, digest);
	record->nr = 0;
	for (i = 0; i < core->nr_dirty; i++) {
		struct core_segment *seg = &core->segments[core->dirty[i]];

		seg->dirty = false;
		record->segments[record->nr] = core->dirty[i];
		record->on[record->nr] = seg->on & record->map.mask;
		record->states[record->nr++] = core_item_state(seg);
		if (!record->full)
			core_record_add(core, seg, core_item_state(seg));
	}
	core->nr_dirty = 0;
	for (i = 0; record->full && i < core->nr_segments; i++) {
		struct core_segment *seg = &core->segments[i];
		uint32_t state = core_item_state(seg);

		if (state && state != LSMEM_ITEM_REMOVED)
			core_record_add(core, seg, state);
	}
	if (record->full)
		digest_add_branch(digest, &record->map.branch);
	format_digest_seal(digest);
	if (!RULE(CEILING_DURABLE))
		core->ceiling_ack = record->map.generation_ceiling;
	record->bytes = format_digest_bytes(__le32_to_cpu(digest->items));
	record->under_way = true;
	core->urgent = false;
	core->full = false;
	core->tick = false;
	for (i = core->retire_first; i != core->retire_next; i++)
		if (core->retires[i % CORE_RETIRES].ready)
			core->retires[i % CORE_RETIRES].recorded = true;
	core->changes++;
	for (i = 0; !RULE(FRAME_REUSE) && i < record->nr; i++)
		if (record->states[i] == LSMEM_ITEM_REMOVED)
			core_segment_free(core, &core->segments[record->segments[i]]);
}

/*
 * Is everything durable and acknowledged that can be? What a resumed kernel has not sent again, and
 * the groups that wait for that, are left for the next daemon.
 */
static bool core_drained(const struct core *core)
{
	const struct core_retire *first = &core->retires[core->retire_first % CORE_RETIRES];

	return core->queue_first == core->queue_next && core_segments_drained(core) &&
	       (core->retire_first == core->retire_next || !first->ready);
}

bool core_settled(const struct core *core)
{
	uint32_t i;

	if (core->state != CORE_RUNNING || core->record.under_way || core->nr_dirty || !core_drained(core) ||
	    core->retire_first != core->retire_next)
		return false;
	for (i = 0; i < core->nr_opens; i++)
		if (core->list[i]->ack_open || core->list[i]->stream)
			return false;
	return true;
}

/* The record counts: put into effect what it says. */
static void core_record_durable(struct core *core)
{
	struct core_record *record = &core->record;
	uint32_t i, b;

	for (i = 0; i < record->nr; i++) {
		struct core_segment *seg = &core->segments[record->segments[i]];

		if (record->states[i] == LSMEM_ITEM_REMOVED) {
			/* Invariant 10: if a frame were reused earlier, a recovery could find
			 * the old digest, and the data of another segment in the frame.
			 */
			if (RULE(FRAME_REUSE))
				core_segment_free(core, seg);
			core->stats.retired++;
			continue;
		}
		seg->item.state = record->states[i];
		/* Replicas that the record removes: invariant 10 holds for their frames, too. */
		core_each_backup(b, seg->coded ? 0 : seg->listed & ~record->on[i])
			core_frame_free(core, b, seg->frame[b]);
		seg->listed = record->on[i];
		if (seg->open && seg->open->rows)
			core_rows_listed(seg->open->rows);
		if (seg->life == CORE_OPENING) {
			/* Invariant 2: the kernel may write to the segment from now on. */
			seg->life = CORE_OPEN;
			if (seg->open && RULE(ACK_AFTER_LISTED))
				seg->open->ack_open = true;
			core->stats.opened++;
		}
	}
	core_stripes_durable(core);
	for (i = core->retire_first; i != core->retire_next; i++)
		if (core->retires[i % CORE_RETIRES].recorded)
			core->retires[i % CORE_RETIRES].ack = true;
	if (record->map.generation_ceiling > core->map.generation_ceiling)
		core->ceiling_ack = record->map.generation_ceiling;
	if (record->map.mask != core->members)
		core_shrunk(core, record->map.mask);
	core->map = record->map;
	core->map.half = record->half;
	core->map.at = record->at + record->bytes;
	record->under_way = false;
	core->stats.digests++;
	core->stats.digests_full += record->full;
	core->changes++;
	if (core->state == CORE_DRAINING && record->full && !core->nr_dirty && core_drained(core))
		core->state = CORE_STOPPED;
}

/**
 * core_record_check - if the record counts, put it into effect
 * @core: core
 *
 * A record counts when it is durable on every member that is not lost, and in as many failure
 * domains of the record before it as the floor of that record says. So every recovery reads a
 * backup that has it (digest_enough()).
 */
void core_record_check(struct core *core)
{
	struct core_record *record = &core->record;
	uint32_t durable = 0, b;

	if (!record->under_way)
		return;
	core_each_backup(b, record->map.mask & ~core->lost)
		durable |= (record->to[b].state == CORE_DURABLE) << b;
	if (!RULE(DIGEST_QUORUM) ? !durable : durable != (record->map.mask & ~core->lost) ||
	    !digest_counts(&core->map, durable))
		return;
	core_record_durable(core);
}

static void core_record_write(struct core *core, uint32_t backup)
{
	uint32_t half = core->record.half ^ (core->map.odd >> backup & 1u);
	struct core_record *record = &core->record;
	struct core_transfer *to = &record->to[backup];

	while (to->issued < record->bytes) {
		struct core_op *op = core_op_get(core, CORE_OP_DIGEST, backup, true);
		uint64_t part = record->bytes - to->issued;

		if (!op)
			return;
		if (part > core->io_bytes)
			part = core->io_bytes;
		op->write = core->map.sequence;
		core_op_add(op, record->buffers[record->buffer] + to->issued, part);
		core_op_start(core, op, format_half_offset(&core->super[backup], half) +
					record->at + to->issued);
		to->issued += part;
	}
}

/*
 * New members get the record before the others: a recovery that finds the record has to read the
 * members that it names, and could not read one that has no record yet.
 * Return: new members that do not have it yet.
 */
static uint32_t core_record_first(const struct core *core)
{
	const struct core_record *record = &core->record;
	uint32_t first = 0, b;

	core_each_backup(b, RULE(JOIN_FIRST) ? record->first & ~core->lost : 0)
		first |= (record->to[b].state != CORE_DURABLE) << b;
	return first;
}

/**
 * core_digest_run - make a record, if one is due, and write it
 * @core: core
 */
void core_digest_run(struct core *core)
{
	struct core_record *record = &core->record;
	uint32_t to, b;

	if (core->state == CORE_DRAINING && !record->under_way && core_drained(core))
		core->full = true;
	if (!record->under_way &&
	    (core->urgent || core->full || core_joiners(core) || (core->tick && core->nr_dirty) ||
	     core->generation_wanted > core->map.generation_ceiling) && core_record_whole(core))
		core_make_record(core);
	if (!record->under_way)
		return;
	to = core_record_first(core);
	core_each_backup(b, to ? to : record->map.mask & ~core->lost)
		core_record_write(core, b);
}

/**
 * core_digest_done - complete a write of the digest record
 * @core: core
 * @op: the write
 */
void core_digest_done(struct core *core, struct core_op *op)
{
	struct core_record *record = &core->record;
	struct core_transfer *to = &record->to[op->io.backup];

	/* Only with a rule switched off can the write be of an earlier record. */
	if (!record->under_way || op->write != (uint32_t)core->map.sequence)
		return;
	to->done += op->io.length;
	if (to->done < record->bytes)
		return;
	to->state = CORE_WRITTEN;
	core->flush_wanted[op->io.backup] = true;
	if (!RULE(DIGEST_FLUSH)) {
		to->state = CORE_DURABLE;
		core_record_check(core);
	}
}

/**
 * core_digest_flush - note that a flush covers the digest record, if that is written
 * @core: core
 * @backup: backup to which the flush is being issued
 */
void core_digest_flush(struct core *core, uint32_t backup)
{
	if (core->record.under_way && core->record.to[backup].state == CORE_WRITTEN)
		core->record.to[backup].state = CORE_FLUSHING;
}

/**
 * core_digest_flushed - note that the digest record is durable, if a flush covered it
 * @core: core
 * @backup: backup of the flush
 */
void core_digest_flushed(struct core *core, uint32_t backup)
{
	if (!core->record.under_way || core->record.to[backup].state != CORE_FLUSHING)
		return;
	core->record.to[backup].state = CORE_DURABLE;
	core_record_check(core);
}

/* ---- Retirement -------------------------------------------------------- */

static bool core_is_gone(const struct core *core, uint64_t id)
{
	uint32_t i;

	for (i = 0; i < core->nr_gone; i++)
		if (core->gone[i] == id)
			return true;
	return false;
}

/* Is the segment closed, or has the kernel sent its CLOSE? */
static bool core_may_retire(const struct core_segment *seg)
{
	if (!seg || seg->life < CORE_OPEN || seg->life == CORE_LEAVING)
		return false;
	return seg->life != CORE_OPEN || (seg->open && seg->open->closing);
}

/**
 * core_retire - handle RETIRE: a segment is superseded
 * @core: core
 * @event: the event
 *
 * Return: false: the event has to wait, and the events after it.
 */
bool core_retire(struct core *core, const struct lsmem_event *event)
{
	struct core_segment *seg = core_segment_find(core, event->segment);
	struct core_retire *group = &core->group, *retire;
	uint32_t number = core->retire_next % CORE_RETIRES, i;

	if (core->retire_next - core->retire_first == CORE_RETIRES)
		return false;
	core->changes++;
	if (!seg && core_is_gone(core, event->segment)) {
		core->group_gone++;
	} else if (core_may_retire(seg) && group->nr < CORE_VICTIMS) {
		group->segments[group->nr++] = core_number(core, seg);
	} else {
		core_fail(core, "segment %llu: the kernel retires it, but it is not closed",
			  (unsigned long long)event->segment);
		return true;
	}
	if (event->flags & LSMEM_EVENT_MORE)
		return true;

	/* One record removes a whole group: the digest lists all of its segments or none. */
	if (core->group_gone && group->nr) {
		core_fail(core, "segment %llu: the digest has lost a part of the group that ends with it",
			  (unsigned long long)event->segment);
		return true;
	}
	retire = &core->retires[number];
	*retire = *group;
	retire->last = event->segment;
	retire->ready = core->group_gone;
	retire->recorded = core->group_gone;
	retire->ack = core->group_gone;
	core->retire_next++;
	group->nr = 0;
	core->group_gone = 0;
	/* Invariant 9: everything that came earlier in the stream, survivors and newer versions,
	 * must be durable first. Otherwise a crash could lose version 2 of an object after
	 * version 1 was removed.
	 */
	for (i = 0; i < core->nr_opens; i++) {
		struct core_open *open = core->list[i];

		open->need[number] = open->committed;
		if (open->closing)
			open->need_close |= 1u << number;
		else
			open->need_close &= ~(1u << number);
	}
	return true;
}

static bool core_retire_ready(const struct core *core, uint32_t number)
{
	uint32_t i;

	for (i = 0; i < core->nr_opens; i++) {
		const struct core_open *open = core->list[i];

		if (!open->segment)
			continue;
		if (open->durable < open->need[number])
			return false;
		if ((open->need_close & 1u << number) && open->segment->life == CORE_OPEN &&
		    !open->closed)
			return false;
	}
	return true;
}

/**
 * core_retires_run - let segments leave whose survivors and newer versions are durable
 * @core: core
 */
void core_retires_run(struct core *core)
{
	uint32_t i, n;

	for (n = core->retire_first; n != core->retire_next; n++) {
		struct core_retire *retire = &core->retires[n % CORE_RETIRES];

		if (retire->ready)
			continue;
		if (RULE(RETIRE_BARRIER) && !core_retire_ready(core, n % CORE_RETIRES))
			return;
		for (i = 0; i < retire->nr; i++) {
			struct core_segment *seg = &core->segments[retire->segments[i]];

			seg->life = CORE_LEAVING;
			core_copy_stop(core, retire->segments[i]);
			core_segment_dirty(core, seg);
		}
		retire->ready = true;
		core->urgent = true;
		core->changes++;
	}
}
