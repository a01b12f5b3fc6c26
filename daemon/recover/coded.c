// SPDX-License-Identifier: GPL-2.0
/*
 * Coded segments: see Documentation/stripes.rst. A segment is read from the shards that are there, and laid out like a frame
 * with a replica: header, log data, directory, footer. So the passes read it as they read a replica. One that is cut is
 * finished here: its rows are made whole, and each shard gets a table (S7).
 *
 * The shards of one segment are in memory at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "private.h"
#include "stripe/row.h"
#include "stripe/row_read.h"

#define CODED_PIECE	(LSMEM_SEGLET_BYTES / LSMEM_BLOCK)	/* blocks: what may be a hole */
#define CODED_READ	(16u * CODED_PIECE)			/* blocks of a read, at most */

/**
 * struct recover_coded - what recovery needs for coded segments
 * @code: of the store
 * @g: geometry
 * @lanes: all blocks of all shards of a segment, one shard after the other
 * @stream: shard_room() bytes: log data, directory and footer
 * @parity: a block for each parity shard
 * @frame: LSMEM_SEGMENT_BYTES: the segment like a replica
 * @has: the segment in @frame; NULL: none
 * @whole: all of it is there; else header, directory and footer
 * @read: of the segment that was read last
 */
struct recover_coded {
	struct code *code;
	struct shard_geometry g;
	uint8_t *lanes, *stream, *parity, *frame;
	const struct recover_segment *has;
	bool whole;
	struct row_read read;
};

/**
 * recover_coded_free - free what coded segments need
 * @coded: from recover_coded_new(), or NULL
 */
void recover_coded_free(struct recover_coded *coded)
{
	if (!coded)
		return;
	code_free(coded->code);
	memory_put(coded->lanes);
	memory_put(coded->stream);
	memory_put(coded->parity);
	memory_put(coded->frame);
	free(coded);
}

/**
 * recover_coded_new - allocate what coded segments need
 * @k: data shards
 * @m: parity shards
 *
 * Return: to be given to recover_coded_free(); NULL: no memory, or there is no such code.
 */
struct recover_coded *recover_coded_new(uint32_t k, uint32_t m)
{
	struct recover_coded *c = calloc(1, sizeof(*c));

	if (!c || !shard_geometry(&c->g, k, m, SHARD_FRAME)) {
		free(c);
		return NULL;
	}
	c->code = code_new(k, m);
	c->lanes = memory_get((size_t)(k + m) * c->g.blocks * LSMEM_BLOCK);
	c->stream = memory_get(shard_room(&c->g));
	c->parity = memory_get((size_t)m * LSMEM_BLOCK);
	c->frame = memory_get(LSMEM_SEGMENT_BYTES);
	if (c->code && c->lanes && c->stream && c->parity && c->frame)
		return c;
	recover_coded_free(c);
	return NULL;
}

static uint8_t *coded_block(const struct recover_coded *c, uint32_t shard, uint32_t block)
{
	return c->lanes + ((size_t)shard * c->g.blocks + block) * LSMEM_BLOCK;
}

/* The address of a block of a shard. */
static uint64_t coded_where(const struct recover *r, const struct recover_segment *seg, uint32_t copy, uint32_t block)
{
	uint64_t lane = (uint64_t)seg->lane * r->coded->g.blocks;

	return recover_address(seg->copies[copy].slot,
			       format_frame_offset(&r->backups[seg->copies[copy].slot].super, seg->copies[copy].frame) +
			       (lane + block) * LSMEM_BLOCK);
}

static int coded_read(struct recover *r, const struct recover_segment *seg, uint32_t copy, uint32_t block, uint32_t nr)
{
	return recover_read(r, coded_where(r, seg, copy, block), coded_block(r->coded, seg->copies[copy].shard, block),
			    nr * LSMEM_BLOCK);
}

static bool coded_hole(const struct recover *r, const struct recover_segment *seg, uint32_t copy, uint32_t block,
		       uint32_t nr)
{
	return r->env.hole && r->env.hole(r->env.context, coded_where(r, seg, copy, block), nr * LSMEM_BLOCK);
}

/* Read all blocks of a shard after its header, but not holes. */
static int coded_lane(struct recover *r, const struct recover_segment *seg, uint32_t copy)
{
	const struct recover_coded *c = r->coded;
	uint32_t at = 1, end, next;
	int ret = 0;

	for (; at < c->g.blocks && !ret; at = end) {
		end = at + CODED_PIECE < c->g.blocks ? at + CODED_PIECE : c->g.blocks;
		if (coded_hole(r, seg, copy, at, end - at)) {
			memset(coded_block(c, seg->copies[copy].shard, at), 0, (size_t)(end - at) * LSMEM_BLOCK);
			continue;
		}
		for (; end < c->g.blocks && end - at < CODED_READ; end = next) {
			next = end + CODED_PIECE < c->g.blocks ? end + CODED_PIECE : c->g.blocks;
			if (coded_hole(r, seg, copy, end, next - end))
				break;
		}
		ret = coded_read(r, seg, copy, at, end - at);
	}
	return ret;
}

/* Read rows [@from, @to) of all shards with a table. One that cannot be read counts as lost. */
static int coded_rows(struct recover *r, const struct recover_segment *seg, uint32_t from, uint32_t to)
{
	struct row_read *read = &r->coded->read;
	uint32_t copy;
	int ret;

	for (copy = 0; copy < seg->nr_copies && from < to; copy++) {
		if (!(read->whole >> seg->copies[copy].shard & 1u))
			continue;
		ret = coded_read(r, seg, copy, shard_row(from), to - from);
		if (ret == -ECANCELED)
			return ret;
		if (ret)
			read->whole &= ~(1u << seg->copies[copy].shard);
	}
	return 0;
}

/* Does the parity that was read belong to the data? */
static bool coded_parity(const struct recover_coded *c, uint32_t row)
{
	const void *data[CODE_SHARDS];
	void *parity[CODE_SHARDS];
	uint32_t shard;

	for (shard = 0; shard < c->g.k; shard++)
		data[shard] = c->stream + (size_t)row * c->g.row_bytes + (size_t)shard * LSMEM_BLOCK;
	for (shard = 0; shard < c->g.m; shard++)
		parity[shard] = c->parity + (size_t)shard * LSMEM_BLOCK;
	code_encode(c->code, LSMEM_BLOCK, data, parity);
	for (shard = 0; shard < c->g.m; shard++)
		if ((c->read.whole & ~c->read.bad) >> (c->g.k + shard) & 1u &&
		    memcmp(parity[shard], coded_block(c, c->g.k + shard, shard_row(row)), LSMEM_BLOCK))
			return false;
	return true;
}

/* Make rows [@from, @to) of the stream. What cannot be made is zero: the passes say what is lost. */
static int coded_make(struct recover *r, const struct recover_segment *seg, uint32_t from, uint32_t to)
{
	struct recover_coded *c = r->coded;
	uint32_t row, shard, wrong = 0;
	void *data[CODE_SHARDS];
	int ret = coded_rows(r, seg, from, to);

	for (row = from; row < to && !ret; row++) {
		uint8_t *at = c->stream + (size_t)row * c->g.row_bytes;

		for (shard = 0; shard < c->g.k; shard++)
			data[shard] = at + (size_t)shard * LSMEM_BLOCK;
		if (row_make(&c->read, row, (1u << c->g.k) - 1, data))
			memset(at, 0, c->g.row_bytes);
		else if (r->check)
			wrong += !coded_parity(c, row);
	}
	if (wrong)
		recover_damage(r, "segment %llu: parity of %u rows does not belong to their data",
			       (unsigned long long)seg->item.segment, wrong);
	return ret;
}

/* Report a shard that is not used, once: each pass reads the segment. */
static void coded_bad(struct recover *r, struct recover_segment *seg, uint32_t copy, const char *why)
{
	if (!(seg->good >> copy & 1u))
		return;
	seg->good &= ~(1u << copy);
	r->result.bad_copies++;
	recover_info(r, "segment %llu: shard %u in frame %u of %s is passed over: %s",
		     (unsigned long long)seg->item.segment, seg->copies[copy].shard, seg->copies[copy].frame,
		     recover_name(r, seg->copies[copy].slot), why);
}

/*
 * Read the header of each shard, and then what @body reads of it. Shards without a sound header are not there. The first
 * header is that of the segment.
 */
static int coded_shards(struct recover *r, struct recover_segment *seg,
			int (*body)(struct recover *r, const struct recover_segment *seg, uint32_t copy))
{
	struct recover_coded *c = r->coded;
	enum format_error error;
	uint32_t copy, shard;
	int ret;

	c->read = (struct row_read) { .code = c->code, .g = &c->g, .stream = c->stream };
	memcpy(c->read.id.uuid, r->super.uuid, sizeof(c->read.id.uuid));
	c->read.id.segment = seg->item.segment;
	c->read.id.generation = seg->item.generation;
	for (copy = 0; copy < seg->nr_copies; copy++) {
		shard = seg->copies[copy].shard;
		error = FORMAT_OK;
		ret = coded_read(r, seg, copy, 0, 1);
		if (!ret)
			error = format_header_check((const void *)coded_block(c, shard, 0),
						    &r->backups[seg->copies[copy].slot].super, seg->item.segment,
						    seg->item.generation);
		if (!ret && !error)
			ret = body(r, seg, copy);
		if (ret == -ECANCELED)
			return ret;
		if (ret || error) {
			coded_bad(r, seg, copy, ret ? strerror(-ret) : format_strerror(error));
			continue;
		}
		if (!c->read.there) {
			memcpy(c->frame, coded_block(c, shard, 0), LSMEM_BLOCK);
			recover_use_copy(seg, copy);
		}
		c->read.there |= 1u << shard;
		c->read.lane[shard] = coded_block(c, shard, 0);
	}
	return 0;
}

static int coded_table(struct recover *r, const struct recover_segment *seg, uint32_t copy)
{
	return coded_read(r, seg, copy, r->coded->g.table, r->coded->g.tables);
}

/* Read a segment that is open. */
static int coded_open(struct recover *r, struct recover_segment *seg)
{
	struct recover_coded *c = r->coded;
	int ret = coded_shards(r, seg, coded_lane);

	if (ret)
		return ret;
	memset(c->stream, 0, shard_room(&c->g));
	ret = row_read_open(&c->read);
	if (ret)
		return ret;
	seg->proven = c->read.proven;
	memset(c->frame + LSMEM_BLOCK, 0, LSMEM_SEGMENT_BYTES - LSMEM_BLOCK);
	memcpy(c->frame + LSMEM_BLOCK, c->stream, c->read.length);
	return 0;
}

/* Read a segment that is closed or sealed; or only what a closed one has behind its log data. */
static int coded_closed(struct recover *r, struct recover_segment *seg, bool whole)
{
	struct recover_coded *c = r->coded;
	uint32_t first, n, copy;
	int ret = coded_shards(r, seg, coded_table);

	if (ret)
		return ret;
	ret = row_read_closed(&c->read);
	if (ret || c->read.length != seg->item.length)
		return -ENODATA;
	for (copy = 0; copy < seg->nr_copies; copy++)
		if ((c->read.there & ~c->read.whole) >> seg->copies[copy].shard & 1u)
			coded_bad(r, seg, copy, "its table is damaged");
	/* Directory and footer end with the last row, and may begin in the last row of log data. */
	first = c->read.front + c->read.back < c->g.rows ? (c->g.rows - c->read.back) * c->g.k :
		lsmem_block_round(c->read.length) / LSMEM_BLOCK;
	if (whole) {
		ret = coded_make(r, seg, 0, c->read.front);
		if (!ret)
			ret = coded_make(r, seg, c->g.rows - c->read.back, c->g.rows);
	} else {
		ret = coded_make(r, seg, first / c->g.k, c->g.rows);
	}
	if (ret)
		return ret;
	for (copy = 0; copy < seg->nr_copies; copy++)
		if (c->read.bad >> seg->copies[copy].shard & 1u)
			coded_bad(r, seg, copy, "wrong checksums");
	if (whole)
		memcpy(c->frame + LSMEM_BLOCK, c->stream, lsmem_block_round(c->read.length));
	n = c->g.rows * c->g.k - first;
	memcpy(c->frame + LSMEM_SEGMENT_BYTES - (size_t)n * LSMEM_BLOCK, c->stream + (size_t)first * LSMEM_BLOCK,
	       (size_t)n * LSMEM_BLOCK);
	return 0;
}

/* Read a coded segment, as recover_seg_read(). @whole: with the log data, which only a closed segment can be without. */
static int coded_decode(struct recover *r, struct recover_segment *seg, bool whole)
{
	int ret;

	whole |= seg->item.state != LSMEM_ITEM_CLOSED;
	if (r->coded->has == seg && (r->coded->whole || !whole))
		return 0;
	r->coded->has = NULL;
	ret = seg->item.state == LSMEM_ITEM_OPEN ? coded_open(r, seg) : coded_closed(r, seg, whole);
	if (ret)
		return ret;
	r->coded->has = seg;
	r->coded->whole = whole;
	return 0;
}

/**
 * recover_seg_read - read a part of a segment
 * @r: recovery
 * @seg: the segment; of several replicas the one in use
 * @at: byte in the frame of a replica, a multiple of LSMEM_BLOCK
 * @data: as for recover_read()
 * @length: as for recover_read()
 *
 * Return: as recover_read(); of a coded segment also -ENODATA: it cannot be read from the shards that are there; -ECANCELED;
 * -ENOMEM.
 */
int recover_seg_read(struct recover *r, struct recover_segment *seg, uint32_t at, void *data, uint32_t length)
{
	int ret;

	if (!seg->coded)
		return recover_read(r, recover_data_offset(r, seg) - LSMEM_BLOCK + at, data, length);
	ret = coded_decode(r, seg, at + length > LSMEM_BLOCK && at < LSMEM_BLOCK + lsmem_block_round(seg->item.length));
	if (!ret)
		memcpy(data, r->coded->frame + at, length);
	return ret;
}

/* What a segment that is being finished is made of. */
struct coded_finish {
	const struct recover_coded *c;
	const struct recover_segment *seg;
	uint32_t back;
};

static const void *coded_finish_block(void *arg, uint32_t n)
{
	const struct coded_finish *finish = arg;

	if (n >= finish->back)
		return finish->seg->end + (size_t)(n - finish->back) * LSMEM_BLOCK;
	return finish->c->stream + (size_t)n * LSMEM_BLOCK;
}

/* Write the blocks of a step. @r->frame is not in use. */
static int coded_write(struct recover *r, const struct recover_segment *seg, const struct row_write *write)
{
	uint32_t copy, n;

	for (copy = 0; copy < seg->nr_copies && seg->copies[copy].shard != write->shard; copy++)
		;
	if (copy == seg->nr_copies || !(r->coded->read.there >> write->shard & 1u))
		return 0;
	for (n = 0; n < write->blocks; n++)
		memcpy(r->frame + (size_t)n * LSMEM_BLOCK, write->from[n], LSMEM_BLOCK);
	return r->env.write(r->env.context, coded_where(r, seg, copy, write->block), r->frame,
			    write->blocks * LSMEM_BLOCK);
}

/**
 * recover_coded_finish - make the rows of a segment whole that was open, and write its tables
 * @r: recovery, after its passes
 * @seg: the segment, which is going to be closed or sealed; with or without directory and footer
 * @slots: mask of slots to be flushed; those that are written to are added
 *
 * Return: 0, or what a call returned; -ENOMEM.
 */
int recover_coded_finish(struct recover *r, struct recover_segment *seg, uint32_t *slots)
{
	struct recover_coded *c = r->coded;
	struct coded_finish finish = { .c = c, .seg = seg };
	struct row_finish f = { .code = c->code, .g = &c->g, .length = seg->cut, .whole = true };
	uint32_t copy, i;
	int ret;

	c->has = NULL;
	ret = coded_open(r, seg);
	if (ret)
		return ret;
	finish.back = c->g.rows * c->g.k - (seg->end ? seg->end_bytes / LSMEM_BLOCK : 0);
	f.id = c->read.id;
	f.back = finish.back;
	f.block = coded_finish_block;
	f.arg = &finish;
	for (i = 0; i < CODE_SHARDS; i++)
		f.lane[i] = c->read.there >> i & 1u ? c->read.lane[i] : NULL;
	if (!row_finish_begin(&f))
		return -ENOMEM;
	while (!ret && row_finish_next(&f))
		for (i = 0; i < f.nr && !ret; i++)
			ret = coded_write(r, seg, &f.writes[i]);
	row_finish_end(&f);
	for (copy = 0; copy < seg->nr_copies; copy++)
		*slots |= 1u << seg->copies[copy].slot;
	return ret;
}

/**
 * recover_coded_room - do directory and footer have room in rows of their own?
 * @r: recovery
 * @length: bytes of log data
 * @end: bytes of directory and footer
 *
 * What follows the log data in their last row is left as it is: its parity may protect them (S7).
 */
bool recover_coded_room(const struct recover *r, uint32_t length, uint32_t end)
{
	const struct shard_geometry *g = &r->coded->g;
	uint32_t front = (length + g->row_bytes - 1) / g->row_bytes, back = (end + g->row_bytes - 1) / g->row_bytes;

	return front + back <= g->rows;
}
