// SPDX-License-Identifier: GPL-2.0
/*
 * Shards made anew, and checked. A stripe that has lost a backup gets a frame on another one. See Documentation/stripes.rst, When backups
 * fail.
 *
 * One shard of one stripe at a time, lane after lane: core reads the tables of k shards of a segment, then the rows that these
 * name, checks each block by its table, decodes the missing blocks, and writes them with a header and a table. Memory is no
 * source, since the kernel may have compacted it. If a block is bad, core reads all shards. The entries, directory and footer
 * must be right as well: of k shards, one that was written wrong, with right checksums, shows in them alone. The stripe gets the frame, and its
 * segments count the shard, when all lanes are durable; the next digest names it. A crash before that leaves a frame that no
 * digest names.
 *
 * If a backup has come back that had the shard, it is made in the frame of then; of segments that are as they were, the table and the
 * rows are read and checked there, and the header is written.
 *
 * A segment that is doubted (core/scrub.c, core_replica_doubt()) is read from all of its shards. A shard with a bad block, header
 * or table, or parity of other data, is made of the others, and written in its place. If the entries are wrong, no shard is
 * known to be right: the segment is named, and what is live of it is written anew from memory.
 *
 * Segments of the stripe that are open get their shard at last, from memory: the rows that there are, and with each batch
 * from then on what that writes (row_add(), S9). Until the end no other segment gets a lane of the stripe: the free ones are taken.
 * core_tick() sets how much may be read until the next tick.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../kmod/policy.h"
#include "base/memory.h"
#include "private.h"
#include "stripe/rule.h"

#define REBUILD_FLIGHT	4u	/* requests in flight, at most */

/**
 * core_rebuild_alloc - allocate what is needed to make shards anew
 * @core: of a coded store
 *
 * Return: 0 or -ENOMEM.
 */
int core_rebuild_alloc(struct core *core)
{
	size_t lane = (size_t)core->shards.blocks * LSMEM_BLOCK;

	core->rebuild.stripe = CORE_NONE;
	core->rebuild.lanes = memory_get((core->shards.k + core->shards.m) * lane);
	core->rebuild.parity = memory_get((size_t)core->shards.m * LSMEM_BLOCK);
	core->rebuild.whole = memory_get(LSMEM_SEGMENT_BYTES);
	core->rebuild.unmade = calloc(core->nr_stripes, sizeof(*core->rebuild.unmade));
	return core->rebuild.lanes && core->rebuild.parity && core->rebuild.whole && core->rebuild.unmade ? 0 : -ENOMEM;
}

/**
 * core_rebuild_free - free what core_rebuild_alloc() has allocated
 * @core: core
 */
void core_rebuild_free(struct core *core)
{
	memory_put(core->rebuild.lanes);
	memory_put(core->rebuild.parity);
	memory_put(core->rebuild.whole);
	free(core->rebuild.unmade);
}

/**
 * core_rebuild_retry - try again to make the shards that could not be made
 * @core: core, whose backups have changed
 */
void core_rebuild_retry(struct core *core)
{
	core->rebuilds = true;
	if (core->lanes)
		memset(core->rebuild.unmade, 0, core->nr_stripes * sizeof(*core->rebuild.unmade));
}

static uint8_t *rebuild_block(const struct core *core, uint32_t shard, uint32_t block)
{
	return core->rebuild.lanes + ((size_t)shard * core->shards.blocks + block) * LSMEM_BLOCK;
}

/* Has the stripe a segment that is being opened or closed, or that memory does not have all of? */
static bool rebuild_busy(const struct core *core, uint32_t stripe)
{
	uint32_t i;

	for (i = 0; i < core->nr_opens; i++) {
		const struct core_segment *seg = core->list[i]->segment;

		if (seg && seg->coded && seg->lane.stripe == stripe && !core_rows_may_add(core, core->list[i]))
			return true;
	}
	return false;
}

/*
 * Choose a backup for one more shard. @wait: writers wait for it: it may take the last frame. Return: CORE_BACKUPS: there is
 * no place.
 */
static uint32_t rebuild_place(const struct core *core, uint32_t stripe, bool wait)
{
	uint32_t shards = core_shards(core), to, left;

	to = core_choose_shard(core, core_stripe_on(core, stripe), stripe);
	if (to == CORE_BACKUPS || shards < core->least_shards || wait)
		return to;
	/* The last frames are left for new segments: core_choose_copy(). */
	left = lanes_left(core->lanes, core->least_shards) + core->shards.k * core_left_without(core, shards, to);
	return left == core_lanes_left(core) || left >= LSMEM_SEGMENTS_RESERVE ? to : CORE_BACKUPS;
}

/* Find the segment in each lane, and take the free lanes. */
static void rebuild_take(struct core *core)
{
	struct core_rebuild *re = &core->rebuild;
	struct lane lane = { .stripe = re->stripe };
	uint32_t i;

	re->held = 0;
	for (; lane.lane < core->shards.k; lane.lane++) {
		re->segments[lane.lane] = CORE_NONE;
		if (lanes_claim(core->lanes, &lane))
			re->held |= 1u << lane.lane;
	}
	for (i = 0; i < core->nr_segments; i++) {
		const struct core_segment *seg = &core->segments[i];

		if (seg->life && seg->coded && seg->lane.stripe == re->stripe)
			re->segments[seg->lane.lane] = i;
	}
}

/* Choose a segment to check. Return: false: there is none. */
static bool rebuild_check(struct core *core)
{
	struct core_rebuild *re = &core->rebuild;
	uint32_t i;

	for (i = 0; i < core->nr_segments; i++) {
		uint32_t n = re->check_next++ % core->nr_segments;
		const struct core_segment *seg = &core->segments[n];

		if (!seg->coded || !(seg->doubted & seg->on) || seg->open || seg->on & core->lost ||
		    (seg->life != CORE_CLOSED && seg->life != CORE_SEALED))
			continue;
		re->to = CORE_BACKUPS;
		re->stripe = seg->lane.stripe;
		re->lane = seg->lane.lane;
		re->held = 0;
		re->segments[re->lane] = n;
		re->step = CORE_REBUILD_LANE;
		re->check = true;
		re->all = true;
		re->stop = false;
		core->changes++;
		return true;
	}
	core->rebuilds = false;
	return false;
}

/* Begin to make a shard of a stripe. Return: false: it lacks none, or not now. */
static bool rebuild_stripe(struct core *core, uint32_t stripe, bool wait)
{
	uint32_t all = (1u << (core->shards.k + core->shards.m)) - 1, there = lanes_there(core->lanes, stripe);
	struct core_rebuild *re = &core->rebuild;
	struct core_kept kept;

	if (core->stripes[stripe] != CORE_STRIPE_LISTED || !lanes_used(core->lanes, stripe) || there == all || re->unmade[stripe] ||
	    (uint32_t)__builtin_popcount(there) < core->shards.k || rebuild_busy(core, stripe))
		return false;
	re->to = core_keep_shard(core, stripe, &kept);
	if (re->to == CORE_BACKUPS) {
		re->to = rebuild_place(core, stripe, wait);
		if (re->to == CORE_BACKUPS)
			return false;
		kept = (struct core_kept){
			.frame = core->free_frames[re->to][--core->nr_free[re->to]],
			.shard = (uint8_t)__builtin_ctz(~there),
		};
	}
	re->frame = kept.frame;
	re->keeps = kept.lanes;
	re->stripe = stripe;
	re->shard = kept.shard;
	re->kept = 0;
	re->made = false;
	re->lane = 0;
	re->done = 0;
	re->step = CORE_REBUILD_LANE;
	re->check = false;
	re->all = false;
	re->stop = false;
	rebuild_take(core);
	core->changes++;
	return true;
}

/*
 * Choose a stripe that lacks a shard, first one with an open segment of which nothing is acknowledged without it, or a segment
 * to check. Return: false: there is none now.
 */
static bool rebuild_begin(struct core *core)
{
	struct core_rebuild *re = &core->rebuild;
	uint32_t i;

	for (i = 0; i < core->nr_opens; i++) {
		const struct core_segment *seg = core->list[i]->segment;

		if (seg && seg->coded && (uint32_t)__builtin_popcount(seg->on) < core->least_shards &&
		    rebuild_stripe(core, seg->lane.stripe, true))
			return true;
	}
	if (core->state != CORE_RUNNING)
		return false;
	for (i = 0; i < core->nr_stripes; i++)
		if (rebuild_stripe(core, re->next++ % core->nr_stripes, false))
			return true;
	return rebuild_check(core);
}

/* Give back the free lanes, and forget the stripe. */
static void rebuild_end(struct core *core)
{
	struct core_rebuild *re = &core->rebuild;
	struct lane lane = { .stripe = re->stripe };

	core_each_backup(lane.lane, re->held)
		core->stripes_changed |= lanes_give(core->lanes, &lane);
	re->stripe = CORE_NONE;
	core->changes++;
}

/* Return: the segment of a lane, if it is open and the shard is being added to it; else NULL. */
static struct core_segment *rebuild_adding(struct core *core, uint32_t lane)
{
	const struct core_rebuild *re = &core->rebuild;
	uint32_t n = re->segments[lane];
	struct core_segment *seg = re->check || n == CORE_NONE ? NULL : &core->segments[n];

	return seg && seg->adding >> re->to & 1u ? seg : NULL;
}

/*
 * Let open segments go on without the shard. Return: no batch is on its way to the frame: else it could arrive after what
 * the next owner of the frame writes.
 */
static bool rebuild_give_up(struct core *core)
{
	uint32_t lane, nr = 0;

	for (lane = 0; lane < core->shards.k; lane++) {
		struct core_segment *seg = rebuild_adding(core, lane);

		if (!seg)
			continue;
		if (core_rows_give_up(seg, core->rebuild.to) || !(core_alive(core) >> core->rebuild.to & 1u))
			core_extend_stop(seg, core->rebuild.to);
		else
			nr++;
	}
	return !nr;
}

/**
 * core_rebuild_stop - give up the shard that is being made
 * @core: core
 *
 * It ends when no request is in flight; until then core_rebuild_run() calls this again.
 */
void core_rebuild_stop(struct core *core)
{
	struct core_rebuild *re = &core->rebuild;

	if (!core->lanes || re->stripe == CORE_NONE)
		return;
	re->stop = true;
	core->rebuilds = true;
	if (!rebuild_give_up(core) || re->in_flight)
		return;
	if (!re->check)
		core_frame_free(core, re->to, re->frame);
	rebuild_end(core);
}

/**
 * core_rebuild_lost - a backup is lost: give up the shard that is being made, if it is for or from this backup
 * @core: core, which knows it as lost, and its index of stripes not yet
 * @backup: its index
 */
void core_rebuild_lost(struct core *core, uint32_t backup)
{
	const struct core_rebuild *re = &core->rebuild;

	if (core->lanes && re->stripe != CORE_NONE &&
	    (re->to == backup || core_stripe_on(core, re->stripe) >> backup & 1u))
		core_rebuild_stop(core);
}

/**
 * core_rebuild_holds - is the stripe of a lane that becomes free being rebuilt?
 * @core: of a coded store
 * @lane: the lane; if so, it becomes free at the end
 */
bool core_rebuild_holds(struct core *core, const struct lane *lane)
{
	if (core->rebuild.stripe != lane->stripe)
		return false;
	core->rebuild.held |= 1u << lane->lane;
	core->rebuild.segments[lane->lane] = CORE_NONE;
	return true;
}

/* Return: the segment of the present lane, if it is to be read; NULL: there is none, or it is leaving. */
static struct core_segment *rebuild_segment(struct core *core)
{
	uint32_t n = core->rebuild.segments[core->rebuild.lane];
	struct core_segment *seg = n == CORE_NONE ? NULL : &core->segments[n];

	return seg && seg->life != CORE_LEAVING ? seg : NULL;
}

static void rebuild_range(struct core_rebuild *re, uint32_t backup, uint32_t shard, uint32_t block, uint32_t blocks)
{
	if (blocks)
		re->ranges[re->nr++] = (struct core_rebuild_range) {
			.backup = backup, .shard = shard, .block = block, .blocks = blocks,
		};
}

/* Read a part of the lane from the shards that are used. */
static void rebuild_read(struct core *core, uint32_t block, uint32_t blocks)
{
	struct core_rebuild *re = &core->rebuild;
	uint32_t shard;

	core_each_backup(shard, re->read.there)
		rebuild_range(re, lanes_where(core->lanes, re->stripe, shard).backup, shard, block, blocks);
}

/* The frame may have the shard of this segment already: see keep.c. */
static void rebuild_kept(struct core *core)
{
	struct core_rebuild *re = &core->rebuild;

	rebuild_range(re, re->to, re->shard, core->shards.table, core->shards.tables);
	re->step = CORE_REBUILD_KEPT_TABLE;
}

static const struct lsmem_shard_table *rebuild_table(const struct core *core)
{
	return (const void *)rebuild_block(core, core->rebuild.shard, core->shards.table);
}

/* The table that the frame has is read. */
static void rebuild_kept_table(struct core *core, const struct core_segment *seg)
{
	const struct lsmem_shard_table *table = rebuild_table(core);
	const struct shard_geometry *g = &core->shards;
	struct core_rebuild *re = &core->rebuild;
	struct shard_id id = { .segment = seg->item.segment, .generation = seg->item.generation };

	memcpy(id.uuid, core->uuid, sizeof(id.uuid));
	if (shard_table_check(table, g, &id, re->shard) || __le32_to_cpu(table->head.length) != seg->item.length) {
		re->keeps &= ~(1u << re->lane);
		re->step = CORE_REBUILD_LANE;
		return;
	}
	re->read.front = __le32_to_cpu(table->front);
	re->read.back = __le32_to_cpu(table->back);
	rebuild_range(re, re->to, re->shard, shard_row(0), re->read.front);
	rebuild_range(re, re->to, re->shard, shard_row(g->rows - re->read.back), re->read.back);
	re->step = CORE_REBUILD_KEPT_ROWS;
}

/* The rows that the frame has are read: if they are right, only the header is written, since the backup has another incarnation. */
static void rebuild_kept_rows(struct core *core, const struct core_segment *seg)
{
	const struct lsmem_shard_table *table = rebuild_table(core);
	struct core_rebuild *re = &core->rebuild;
	uint32_t rows = core->shards.rows, row;

	core->stats.checked++;
	for (row = 0; row < rows; row++) {
		if ((row >= re->read.front && row < rows - re->read.back) || !STRIPE_RULE(KEEP_BLOCK) ||
		    lsmem_crc32c(~0u, rebuild_block(core, re->shard, shard_row(row)), LSMEM_BLOCK) ==
		    __le32_to_cpu(table->block_crc[row]))
			continue;
		re->keeps &= ~(1u << re->lane);
		re->step = CORE_REBUILD_LANE;
		return;
	}
	re->kept++;
	core_make_header(core, seg, re->to, core->store_time, (void *)rebuild_block(core, re->shard, 0));
	rebuild_range(re, re->to, re->shard, 0, 1);
	re->step = CORE_REBUILD_WRITE;
}

/* Begin to read the segment of a lane. */
static void rebuild_lane(struct core *core, const struct core_segment *seg)
{
	struct core_rebuild *re = &core->rebuild;
	const struct shard_geometry *g = &core->shards;
	uint32_t there = lanes_there(core->lanes, re->stripe), shard, nr = 0;

	re->read = (struct row_read) { .code = core->code, .g = g };
	memcpy(re->read.id.uuid, core->uuid, sizeof(re->read.id.uuid));
	re->read.id.segment = seg->item.segment;
	re->read.id.generation = seg->item.generation;
	core_each_backup(shard, there) {
		if (!re->all && nr == g->k)
			break;
		re->read.there |= 1u << shard;
		re->read.lane[shard] = rebuild_block(core, shard, 0);
		nr++;
	}
	rebuild_read(core, 0, re->check);	/* headers */
	rebuild_read(core, g->table, g->tables);
	re->step = CORE_REBUILD_TABLES;
}

/*
 * Too few blocks are right, or they are of wrong data (FORMAT_UNFIT): read all shards; if they were read, the stripe stays as
 * it is until one of its segments leaves, a shard is mended, or backups change.
 */
static void rebuild_again(struct core *core, enum format_error format)
{
	struct core_rebuild *re = &core->rebuild;

	rebuild_segment(core)->doubted = 0;
	if (re->all) {
		core->stats.copies_failed++;
		core->stats.unfit += format == FORMAT_UNFIT;
		core_copy_tell(core, rebuild_segment(core), CORE_BACKUPS, 0, format);
		re->unmade[re->stripe] |= !re->check;
		core_rebuild_stop(core);
		return;
	}
	re->all = true;
	re->step = CORE_REBUILD_LANE;
	core->changes++;
}

/* Return: shards of the segment that are bad. */
static uint32_t rebuild_bad(struct core *core, const struct core_segment *seg)
{
	struct row_read *read = &core->rebuild.read;
	uint32_t bad = read->there & ~read->whole, row, b;

	for (row = 0; row < core->shards.rows; row++)
		if (row < read->front || row >= core->shards.rows - read->back)
			(void)row_make(read, row, 0, NULL);
	core_each_backup(b, seg->on)
		if (format_header_check((const void *)rebuild_block(core, seg->shard[b], 0), &core->super[b],
					seg->item.segment, seg->item.generation))
			bad |= 1u << seg->shard[b];
	return bad | read->bad;
}

/* Are the data that the shards give those of the segment? Parity of other data is noted in @re->read.odd. */
static bool rebuild_fits(struct core *core, const struct core_segment *seg)
{
	struct core_rebuild *re = &core->rebuild;
	uint8_t *stream = re->whole + LSMEM_SEGMENT_BYTES - shard_room(&core->shards);
	struct format_verify verify;

	/* If a row cannot be made, row_rebuild() will say so. */
	if (row_compare(&re->read, stream, re->parity))
		return true;
	format_verify_begin(&verify, core->uuid, seg->item.segment, seg->item.generation, seg->item.length);
	return !format_verify_data(&verify, stream, seg->item.length) && !format_verify_length(&verify) &&
	       (seg->life != CORE_CLOSED ||
		!format_verify_closed(&verify, re->whole, &core->super[__builtin_ctz(seg->on)], seg->item.segment,
				      seg->item.generation));
}

/* Name a shard, and count it. */
static void rebuild_tell(struct core *core, const struct core_segment *seg, uint32_t shard)
{
	bool odd = core->rebuild.read.odd >> shard & 1u;
	uint32_t b;

	core->stats.unfit += odd;
	core_each_backup(b, seg->on)
		if (seg->shard[b] == shard)
			core_copy_tell(core, seg, b, 0, odd ? FORMAT_UNFIT : FORMAT_CRC);
}

/* All of the segment has been read. Return: a shard is to be written. */
static bool rebuild_checked(struct core *core, struct core_segment *seg)
{
	struct core_rebuild *re = &core->rebuild;
	uint32_t bad = rebuild_bad(core, seg) | re->read.odd;

	core->stats.checked += __builtin_popcount(re->read.there);
	if (!bad) {
		seg->doubted = 0;
		rebuild_end(core);
		return false;
	}
	/* One after the other: the next check finds the next one. */
	re->shard = __builtin_ctz(bad);
	re->read.whole &= ~(1u << re->shard);
	rebuild_tell(core, seg, re->shard);
	return true;
}

static void rebuild_write(struct core *core, struct core_segment *seg)
{
	struct core_rebuild *re = &core->rebuild;
	const struct shard_geometry *g = &core->shards;
	uint32_t to = re->to, b;

	if (!rebuild_fits(core, seg)) {
		rebuild_again(core, FORMAT_UNFIT);
		return;
	}
	/* It is checked, and made anew, when this shard is done. */
	core_each_backup(b, re->check ? 0 : seg->on)
		seg->doubted |= (re->read.odd >> seg->shard[b] & 1u) << b;
	if (re->check && !rebuild_checked(core, seg))
		return;
	if (re->check)
		to = lanes_where(core->lanes, re->stripe, re->shard).backup;
	if (row_rebuild(&re->read, re->shard, rebuild_block(core, re->shard, 0))) {
		rebuild_again(core, FORMAT_OK);
		return;
	}
	core->stats.bad_replicas += re->check ? 1 : __builtin_popcount(re->read.bad);
	core_make_header(core, seg, to, core->store_time, (void *)rebuild_block(core, re->shard, 0));
	rebuild_range(re, to, re->shard, 0, 1 + re->read.front);
	rebuild_range(re, to, re->shard, shard_row(g->rows - re->read.back), re->read.back);
	rebuild_range(re, to, re->shard, g->table, g->tables);
	re->step = CORE_REBUILD_WRITE;
}

/*
 * Choose the next lane; first those of closed segments: an open one is not closed while it is given the shard. Return: false:
 * they are all done, or what is left is being closed.
 */
static bool rebuild_next(struct core *core)
{
	struct core_rebuild *re = &core->rebuild;
	uint32_t i;

	for (i = 0; i < 2 * core->shards.k; i++) {
		const struct core_segment *seg;
		bool open = i >= core->shards.k;

		re->lane = i % core->shards.k;
		if (re->done >> re->lane & 1u)
			continue;
		seg = rebuild_segment(core);
		if (!seg)
			re->done |= 1u << re->lane;
		else if (seg->open ? open && core_rows_may_add(core, seg->open) : !open)
			return true;
	}
	return false;
}

/*
 * The frame may be that which the segment had before its backup was lost, with records of then: to a daemon that goes on they
 * could seem newer than what protects now.
 */
static void rebuild_sides(struct core *core)
{
	struct core_rebuild *re = &core->rebuild;

	memset(rebuild_block(core, re->shard, core->shards.side), 0, SHARD_SIDES * SHARD_SIDE * LSMEM_BLOCK);
	rebuild_range(re, re->to, re->shard, core->shards.side, STRIPE_RULE(ADD_SIDES) ? SHARD_SIDES * SHARD_SIDE : 0);
	re->step = CORE_REBUILD_SIDES;
}

/* Give an open segment the shard. */
static void rebuild_open(struct core *core, struct core_segment *seg)
{
	struct core_rebuild *re = &core->rebuild;
	uint32_t rows;

	seg->frame[re->to] = re->frame;
	seg->shard[re->to] = (uint8_t)re->shard;
	core_make_header(core, seg, re->to, seg->open->event.time, (void *)rebuild_block(core, re->shard, 0));
	rows = core_rows_add(core, seg, re->to, rebuild_block(core, re->shard, shard_row(0)), re->parity);
	rebuild_range(re, re->to, re->shard, 0, RULE(EXTEND_WHOLE) ? 1 + rows : 1);
	re->step = CORE_REBUILD_WRITE;
}

/* Have open segments got the batches that were made before the shard was added, or that complete it? */
static bool rebuild_whole(struct core *core)
{
	uint32_t lane;

	for (lane = 0; lane < core->shards.k; lane++) {
		const struct core_segment *seg = rebuild_adding(core, lane);

		if (seg && !row_whole(seg->open->rows->writer) && RULE(EXTEND_WHOLE))
			return false;
	}
	return true;
}

/* All requests of a step are done: begin the next one. Return: false: not now. */
static bool rebuild_step(struct core *core)
{
	struct core_rebuild *re = &core->rebuild;
	const struct shard_geometry *g = &core->shards;
	struct core_segment *seg;

	re->nr = 0;
	re->at = 0;
	if (re->check && (re->step == CORE_REBUILD_WRITE || !rebuild_segment(core))) {
		if (re->step == CORE_REBUILD_WRITE) {
			core->flush_wanted[lanes_where(core->lanes, re->stripe, re->shard).backup] = true;
			re->unmade[re->stripe] = false;
		}
		rebuild_end(core);
		return true;
	}
	if (re->step == CORE_REBUILD_WRITE) {
		re->done |= 1u << re->lane;
		re->all = false;
	}
	seg = rebuild_segment(core);
	if (re->step == CORE_REBUILD_WRITE || !seg ||
	    (re->step == CORE_REBUILD_SIDES && !(seg->open && core_rows_may_add(core, seg->open))))
		re->step = CORE_REBUILD_LANE;
	if (!re->check && re->step == CORE_REBUILD_LANE && (!RULE(COPY_WHOLE) || !rebuild_next(core))) {
		if (RULE(COPY_WHOLE) && (re->done != (1u << g->k) - 1 || !rebuild_whole(core)))
			return false;
		core->changes++;
		re->step = CORE_REBUILD_WRITTEN;
		core->flush_wanted[re->to] = true;
		return true;
	}
	core->changes++;
	seg = rebuild_segment(core);
	switch (re->step) {
	case CORE_REBUILD_LANE:
		if (!re->check && !seg->open && re->keeps >> re->lane & 1u) {
			rebuild_kept(core);
			break;
		}
		re->made |= !re->check;
		if (seg->open)
			rebuild_sides(core);
		else
			rebuild_lane(core, seg);
		break;
	case CORE_REBUILD_KEPT_TABLE:
		rebuild_kept_table(core, seg);
		break;
	case CORE_REBUILD_KEPT_ROWS:
		rebuild_kept_rows(core, seg);
		break;
	case CORE_REBUILD_SIDES:
		rebuild_open(core, seg);
		break;
	case CORE_REBUILD_TABLES:
		if (row_read_closed(&re->read) || re->read.length != seg->item.length) {
			rebuild_again(core, FORMAT_OK);
			break;
		}
		rebuild_read(core, shard_row(0), re->read.front);
		rebuild_read(core, shard_row(g->rows - re->read.back), re->read.back);
		re->step = CORE_REBUILD_ROWS;
		break;
	case CORE_REBUILD_ROWS:
		rebuild_write(core, seg);
		break;
	default:
		break;
	}
	return true;
}

/* Where a lane begins on a backup. */
static uint64_t rebuild_where(const struct core *core, const struct core_rebuild_range *range)
{
	const struct core_rebuild *re = &core->rebuild;
	uint32_t frame = range->backup == re->to ? re->frame :
			 lanes_where(core->lanes, re->stripe, range->shard).frame;

	return format_frame_offset(&core->super[range->backup], frame) +
	       ((uint64_t)re->lane * core->shards.blocks + range->block) * LSMEM_BLOCK;
}

/* Start the next request of a step. Return: false: not now. */
static bool rebuild_request(struct core *core)
{
	struct core_rebuild *re = &core->rebuild;
	struct core_rebuild_range *range = &re->ranges[re->at];
	bool write = re->step == CORE_REBUILD_SIDES || re->step == CORE_REBUILD_WRITE;
	uint32_t most = core->io_bytes / LSMEM_BLOCK, nr;
	struct core_op *op;

	if (re->at == re->nr || re->in_flight == REBUILD_FLIGHT || (!write && core->copy_bytes && !core->copy_left))
		return false;
	op = core_op_get(core, CORE_OP_REBUILD, range->backup, false);
	if (!op)
		return false;
	nr = range->blocks < most ? range->blocks : most;
	if (!write) {
		op->io.kind = CORE_IO_READ;
		core->copy_left -= core->copy_left < nr * LSMEM_BLOCK ? core->copy_left : nr * LSMEM_BLOCK;
	}
	core_op_add(op, rebuild_block(core, range->shard, range->block), nr * LSMEM_BLOCK);
	core_op_start(core, op, rebuild_where(core, range));
	re->in_flight++;
	range->block += nr;
	range->blocks -= nr;
	re->at += !range->blocks;
	return true;
}

/**
 * core_rebuild_run - begin to make a shard anew, or start its next requests
 * @core: core
 */
void core_rebuild_run(struct core *core)
{
	struct core_rebuild *re = &core->rebuild;

	/* What waits for a shard is waited for by a daemon that ends, too. */
	if (!core->lanes || (core->state != CORE_RUNNING &&
			     (core->state != CORE_DRAINING || (re->stripe != CORE_NONE && re->check))))
		return;
	if (re->stripe != CORE_NONE && re->stop)
		core_rebuild_stop(core);
	if (re->stripe == CORE_NONE && (!core->rebuilds || !rebuild_begin(core)))
		return;
	while (re->stripe != CORE_NONE && !re->stop && re->step < CORE_REBUILD_WRITTEN) {
		if (rebuild_request(core))
			continue;
		if (re->in_flight || re->at < re->nr || !rebuild_step(core))
			return;
	}
}

/**
 * core_rebuild_done - complete a request
 * @core: core
 * @op: the request
 * @error: of a read: 0 or a negative errno; after a failed write core_backup_stop() has stopped all
 */
void core_rebuild_done(struct core *core, const struct core_op *op, int error)
{
	struct core_rebuild *re = &core->rebuild;

	re->in_flight--;
	core->changes++;
	if (op->io.kind == CORE_IO_WRITE && !error)
		core->stats.copied_bytes += op->io.length;
	if (re->stop) {
		core_rebuild_stop(core);
		return;
	}
	/* What was not read has no valid checksum: so the shard counts as lost. */
	if (error)
		memset(op->io.iov[0].iov_base, 0, op->io.length);
}

/**
 * core_rebuild_flush - note that a flush covers the shard, if all of it is written
 * @core: core
 * @backup: backup to which the flush is being issued
 */
void core_rebuild_flush(struct core *core, uint32_t backup)
{
	struct core_rebuild *re = &core->rebuild;

	if (core->lanes && re->stripe != CORE_NONE && re->to == backup && re->step == CORE_REBUILD_WRITTEN)
		re->step = CORE_REBUILD_FLUSHING;
}

/**
 * core_rebuild_flushed - if a flush covered the shard, count it
 * @core: core
 * @backup: backup of the flush
 */
void core_rebuild_flushed(struct core *core, uint32_t backup)
{
	struct core_rebuild *re = &core->rebuild;
	struct lane_frame where = { .backup = re->to, .frame = re->frame };
	uint32_t lane;

	if (!core->lanes || re->stripe == CORE_NONE || re->to != backup || re->step != CORE_REBUILD_FLUSHING)
		return;
	if ((core->state != CORE_RUNNING && core->state != CORE_DRAINING) || re->stop ||
	    !lanes_put_back(core->lanes, re->stripe, re->shard, &where)) {
		core_rebuild_stop(core);
		return;
	}
	core_stripe_dirty(core, re->stripe, CORE_STRIPE_LISTED);
	for (lane = 0; lane < core->shards.k; lane++) {
		struct core_segment *seg = re->segments[lane] == CORE_NONE ? NULL : &core->segments[re->segments[lane]];

		if (!seg || seg->life == CORE_LEAVING)
			continue;
		if (rebuild_adding(core, lane)) {
			row_join(seg->open->rows->writer, re->shard);
			core_extend_stop(seg, backup);
		}
		seg->on |= 1u << backup;
		seg->frame[backup] = re->frame;
		seg->shard[backup] = (uint8_t)re->shard;
		core_segment_dirty(core, seg);
	}
	core->stats.copied += re->made;
	core->stats.kept += re->kept;
	core->urgent = true;
	core_keep_no_shard(core, re->stripe, false);
	rebuild_end(core);
}
