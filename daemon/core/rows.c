// SPDX-License-Identifier: GPL-2.0
/*
 * The rows of coded segments. stripe/row.h decides which blocks go where and how much is durable; here is what stands between
 * that and the requests: writes of batches, flushes, backups that are lost, a segment that is resumed, and its end.
 *
 * A batch is durable on a shard when each of its writes to the shard is: a durable write when it is done, others by a flush
 * that was issued afterwards. Rules: Documentation/stripes.rst.
 *
 * Requests to a lost backup use the memory of rows after the segment is closed; so that is freed when the last one has ended.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "private.h"

#define CORE_ROWS_ALONE	4u	/* with fewer requests to a backup in flight, writes are durable */
#define CORE_SIDES	(SHARD_SIDES * SHARD_SIDE * LSMEM_BLOCK)

/* A block of log data; when the segment ends, of directory and footer. */
static const void *rows_block(void *arg, uint32_t n)
{
	const struct core_rows *rows = arg;

	if (rows->finishing && n >= rows->finish.back)
		return rows->end + (size_t)(n - rows->finish.back) * LSMEM_BLOCK;
	return core_memory(rows->core, rows->open, n * LSMEM_BLOCK);
}

static struct shard_id rows_id(const struct core *core, const struct core_segment *seg)
{
	struct shard_id id = { .segment = seg->item.segment, .generation = seg->item.generation };

	memcpy(id.uuid, core->uuid, sizeof(id.uuid));
	return id;
}

/* Return: the backup with a shard; CORE_BACKUPS: none. */
static uint32_t rows_backup(const struct core_segment *seg, uint32_t shard)
{
	uint32_t b;

	core_each_backup(b, seg->on | seg->adding)
		if (seg->shard[b] == shard)
			return b;
	return CORE_BACKUPS;
}

static struct core_rows *rows_new(struct core *core, struct core_open *open)
{
	struct core_rows *rows = calloc(1, sizeof(*rows));

	if (rows) {
		rows->core = core;
		rows->open = open;
	}
	return rows;
}

/* Make the writer; log data up to @from are durable. Return: false: no memory. */
static bool rows_write(struct core_rows *rows, uint32_t from, uint64_t record, uint64_t last)
{
	struct core *core = rows->core;
	const struct core_segment *seg = rows->open->segment;
	struct row_params params = {
		.code = core->code, .g = &core->shards, .id = rows_id(core, seg), .least = core->least_shards,
		.from = from, .record = record, .last = last, .block = rows_block, .arg = rows,
	};
	uint32_t b;

	core_each_backup(b, seg->on)
		params.shards |= 1u << seg->shard[b];
	rows->writer = row_open(&params);
	core_each_backup(b, rows->writer ? seg->on & core->lost : 0)
		row_lost(rows->writer, seg->shard[b]);
	return rows->writer;
}

static void rows_destroy(struct core_rows *rows)
{
	row_free(rows->writer);
	if (rows->finishing)
		row_finish_end(&rows->finish);
	free(rows->sides);
	free(rows);
}

/**
 * core_rows_put - the segment is closed, or has lost its place
 * @rows: of the segment, or NULL
 */
void core_rows_put(struct core_rows *rows)
{
	if (!rows)
		return;
	if (!rows->in_flight) {
		rows_destroy(rows);
		return;
	}
	rows->open = NULL;
	rows->next = rows->core->rows;
	rows->core->rows = rows;
}

/**
 * core_rows_free - free all rows
 * @core: with no request in flight
 */
void core_rows_free(struct core *core)
{
	struct core_rows *rows;
	uint32_t i;

	while ((rows = core->rows)) {
		core->rows = rows->next;
		rows_destroy(rows);
	}
	for (i = 0; i < core->nr_opens; i++)
		if (core->list[i]->rows)
			rows_destroy(core->list[i]->rows);
}

/**
 * core_rows_release - a request that uses the memory of rows has ended
 * @rows: the rows; invalid afterwards if true is returned
 *
 * Return: true: the request concerns no segment any more.
 */
bool core_rows_release(struct core_rows *rows)
{
	struct core_rows **link = &rows->core->rows;

	rows->in_flight--;
	if (rows->open)
		return false;
	if (rows->in_flight)
		return true;
	while (*link != rows)
		link = &(*link)->next;
	*link = rows->next;
	rows_destroy(rows);
	return true;
}

/**
 * core_rows_place - give a segment a lane, and write its headers; later, if there is no lane, memory or request now
 * @core: whose new segments are coded
 * @open: without a segment
 */
void core_rows_place(struct core *core, struct core_open *open)
{
	struct digest_item item = {
		.segment = open->event.segment,
		.generation = open->event.generation,
		.replica_generation = core->map.set_generation,
	};
	struct core_segment *seg;
	struct core_rows *rows;
	struct lane lane;
	uint32_t b;

	core_each_backup(b, core_alive(core))
		if (core->nr_ops[b] + CORE_OPS_SPARE >= CORE_IOS)
			return;
	rows = core->nr_free_segments ? rows_new(core, open) : NULL;
	if (!rows || !core_lane_take(core, item.segment, &lane)) {
		core_rows_put(rows);
		return;
	}
	seg = core_segment_put(core, &item, CORE_HEADER);
	core_lane_use(core, seg, &lane);
	seg->open = open;
	open->segment = seg;
	if (!rows_write(rows, 0, 0, 0)) {
		open->segment = NULL;
		core_rows_put(rows);
		core_segment_free(core, seg);
		return;
	}
	open->rows = rows;
	core_each_backup(b, seg->on)
		core_write_header(core, open, b);
	if (!RULE(HEADER_BEFORE_LISTED)) {
		seg->life = CORE_OPENING;
		core_segment_dirty(core, seg);
		core->urgent = true;
	}
}

/**
 * core_rows_resume - begin to go on with a segment of a former daemon
 * @core: core; fails if there is no memory, or if the last row is not in the log's memory
 * @open: the segment
 */
void core_rows_resume(struct core *core, struct core_open *open)
{
	open->rows = rows_new(core, open);
	if (open->rows)
		open->rows->sides = aligned_alloc(LSMEM_BLOCK, core->shards.m * CORE_SIDES);
	if (!open->rows || !open->rows->sides)
		core_fail(core, "segment %llu: no memory for its rows", (unsigned long long)open->event.segment);
	else if (!open->placed && open->durable % core->shards.row_bytes)
		core_fail(core, "segment %llu: its last row is not in memory",
			  (unsigned long long)open->event.segment);
}

static uint8_t *rows_sides(const struct core_rows *rows, uint32_t shard)
{
	return rows->sides + (size_t)(shard - rows->core->shards.k) * CORE_SIDES;
}

/*
 * Read the sides of a resumed segment, which have parity records of the former daemon: the first record of this one must not
 * overwrite one that protects what was acknowledged (S2). Return: the writer is there.
 */
static bool rows_ready(struct core *core, struct core_open *open)
{
	const struct core_segment *seg = open->segment;
	struct core_rows *rows = open->rows;
	const uint8_t *sides[CODE_SHARDS] = { NULL };
	struct shard_id id = rows_id(core, seg);
	uint32_t alive = seg->on & ~core->lost, b;
	uint64_t record, last;

	if (rows->writer)
		return true;
	core_each_backup(b, rows->asked ? 0 : alive)
		if (core->nr_ops[b] + CORE_OPS_SPARE >= CORE_IOS)
			return false;
	core_each_backup(b, rows->asked ? 0 : alive) {
		struct core_op *op;

		if (seg->shard[b] < core->shards.k)
			continue;
		op = core_op_get(core, CORE_OP_SIDES, b, false);
		op->open = open;
		op->rows = rows;
		op->io.kind = CORE_IO_READ;
		rows->in_flight++;
		rows->reading |= 1u << b;
		core_op_add(op, rows_sides(rows, seg->shard[b]), CORE_SIDES);
		core_op_start(core, op, core_where(core, seg, b) + (uint64_t)core->shards.side * LSMEM_BLOCK);
	}
	rows->asked = true;
	if (rows->reading & alive)
		return false;
	core_each_backup(b, alive)
		if (seg->shard[b] >= core->shards.k)
			sides[seg->shard[b]] = rows_sides(rows, seg->shard[b]);
	record = row_next(&core->shards, &id, sides, open->durable, &last);
	return rows_write(rows, open->durable, record, last);
}

/**
 * core_rows_sides - sides have been read
 * @core: core
 * @op: the request
 * @error: 0 or a negative errno
 */
void core_rows_sides(struct core *core, struct core_op *op, int error)
{
	op->rows->reading &= ~(1u << op->io.backup);
	core->changes++;
	if (error)
		core_backup_stop(core, op->io.backup, "the parity of an open segment cannot be read");
}

/* A batch is durable on the shard of a backup. */
static void rows_durable(struct core_rows *rows, struct core_row_batch *batch, uint32_t backup)
{
	batch->to[backup].state = CORE_DURABLE;
	row_done(rows->writer, batch->number, rows->open->segment->shard[backup]);
}

/**
 * core_rows_waiting - is anything of a segment in no batch yet?
 * @open: the segment
 */
bool core_rows_waiting(const struct core_open *open)
{
	return open->rows && (!open->rows->writer || row_issued(open->rows->writer) < open->committed);
}

/**
 * core_rows_due - when is a partial row to be written?
 * @core: core
 * @open: a segment
 *
 * Return: when its oldest byte that is in no batch has waited for long enough, by core_time(), which may be over: then it waits
 * for something else; CORE_NEVER: there is none.
 */
uint64_t core_rows_due(const struct core *core, const struct core_open *open)
{
	uint32_t issued, i;

	if (!open->rows || !open->rows->writer)
		return CORE_NEVER;
	issued = row_issued(open->rows->writer);
	for (i = 0; i < open->nr_bounds; i++)
		if (open->bounds[i] > issued)
			return open->came[i] + core->batch_ns;
	return CORE_NEVER;
}

/* Is a partial row to be written now? Nothing more comes to one that ends, and a shard that is made anew waits for its row. */
static bool rows_partial(const struct core *core, const struct core_open *open)
{
	return !core->batch_ns || core->state != CORE_RUNNING || open->closing || row_again(open->rows->writer) ||
	       core_rows_due(core, open) <= core->time_ns;
}

static void rows_count(struct core *core, const struct row_batch *made, uint32_t from)
{
	const struct shard_geometry *g = &core->shards;
	uint32_t i;

	core->stats.batches++;
	core->stats.batches_partial += made->end % g->row_bytes != 0;
	core->stats.rows_full += made->end / g->row_bytes - from / g->row_bytes;
	for (i = 0; i < made->nr; i++)
		*(made->writes[i].shard < g->k ? &core->stats.data_blocks : &core->stats.parity_blocks) +=
			made->writes[i].blocks;
}

/* Start the writes of the next batch. Return: false: there is none now. */
static bool rows_batch(struct core *core, struct core_open *open)
{
	const struct core_segment *seg = open->segment;
	struct core_rows *rows = open->rows;
	uint32_t alive = (seg->on | seg->adding) & ~core->lost, alone = 0, from, i, n, b;
	struct core_row_batch *batch;
	const struct row_batch *made;

	if (open->committed < open->hold || !rows_ready(core, open) ||
	    (row_issued(rows->writer) >= open->committed && !row_again(rows->writer)))
		return false;
	core_each_backup(b, alive) {
		/* A parity shard can get two writes. */
		if (core->nr_ops[b] + CORE_OPS_SPARE + 1 >= CORE_IOS)
			return false;
		alone |= (uint32_t)(core->nr_ops[b] < CORE_ROWS_ALONE) << b;
	}
	if (!core_exact_allows(core, open))
		return false;
	from = row_issued(rows->writer);
	made = row_batch(rows->writer, open->committed, open->durable, rows_partial(core, open));
	if (!made)
		return false;
	rows_count(core, made, from);
	batch = &rows->batches[made->number % ROW_BATCHES];
	memset(batch, 0, sizeof(*batch));
	batch->number = made->number;
	for (i = 0; i < made->nr; i++) {
		const struct row_write *write = &made->writes[i];
		struct core_op *op;

		b = rows_backup(seg, write->shard);
		op = core_op_get(core, CORE_OP_ROWS, b, false);
		op->open = open;
		op->rows = rows;
		op->write = (uint32_t)made->number;
		op->io.durable = alone >> b & 1u;
		for (n = 0; n < write->blocks; n++)
			core_op_add(op, write->from[n], LSMEM_BLOCK);
		rows->in_flight++;
		batch->to[b].left++;
		batch->to[b].blocks += write->blocks;
		batch->to[b].state = CORE_WRITING;
		batch->to[b].durable = alone >> b & 1u;
		core_op_start(core, op, core_where(core, seg, b) + (uint64_t)write->block * LSMEM_BLOCK);
	}
	core_each_backup(b, alive)
		if (!batch->to[b].left)
			rows_durable(rows, batch, b);
	return true;
}

/*
 * A segment that is not listed yet has lost so many shards that nothing of it could be acknowledged. It gets another place
 * when none of its headers is in flight: another segment may get its lane.
 */
static void rows_replace(struct core *core, struct core_open *open)
{
	struct core_segment *seg = open->segment;
	uint32_t b;

	if ((uint32_t)__builtin_popcount(seg->on) >= core->least_shards)
		return;
	core_each_backup(b, seg->on)
		if (open->replica[b].header == CORE_WRITING)
			return;
	core_each_backup(b, seg->on)
		open->replica[b].header = CORE_IDLE;
	open->segment = NULL;
	core_rows_put(open->rows);
	open->rows = NULL;
	core_segment_free(core, seg);
}

/**
 * core_rows_run - start writes of rows, and take note of what has become durable
 * @core: core
 * @open: a coded segment
 */
void core_rows_run(struct core *core, struct core_open *open)
{
	uint32_t b;

	if (open->segment->life == CORE_HEADER) {
		rows_replace(core, open);
		return;
	}
	while (rows_batch(core, open))
		;
	if (!open->rows->writer)
		return;
	if (open->nr_bounds)
		core_take_durable(core, open, row_durable(open->rows->writer), row_durable(open->rows->writer));
	core_each_backup(b, open->segment->on)
		open->replica[b].flushed = open->durable;
}

/**
 * core_rows_done - complete a write of a batch
 * @core: core
 * @op: the write
 */
void core_rows_done(struct core *core, struct core_op *op)
{
	struct core_rows *rows = op->rows;
	struct core_row_batch *batch = &rows->batches[op->write % ROW_BATCHES];
	uint32_t b = op->io.backup;

	/* Only with a rule switched off can the batch have counted. */
	if ((uint32_t)batch->number != op->write || !batch->to[b].left)
		return;
	core->changes++;
	if (--batch->to[b].left)
		return;
	if (batch->to[b].durable) {
		core_count_group(core, b, (uint64_t)batch->to[b].blocks * LSMEM_BLOCK, 1);
		rows_durable(rows, batch, b);
		return;
	}
	batch->to[b].state = CORE_WRITTEN;
	core->flush_wanted[b] = true;
	if (!RULE(ACK_AFTER_FLUSH))
		rows_durable(rows, batch, b);
}

/**
 * core_rows_flush - note which batches a flush covers
 * @rows: of a segment
 * @backup: backup to which the flush is being issued
 *
 * Return: bytes of these batches on the backup.
 */
uint64_t core_rows_flush(struct core_rows *rows, uint32_t backup)
{
	uint64_t blocks = 0;
	uint32_t i;

	for (i = 0; i < ROW_BATCHES; i++) {
		if (rows->batches[i].to[backup].state != CORE_WRITTEN)
			continue;
		rows->batches[i].to[backup].state = CORE_FLUSHING;
		blocks += rows->batches[i].to[backup].blocks;
	}
	return blocks * LSMEM_BLOCK;
}

/**
 * core_rows_flushed - note that the batches that a flush covered are durable
 * @rows: of a segment
 * @backup: backup of the flush
 */
void core_rows_flushed(struct core_rows *rows, uint32_t backup)
{
	uint32_t i;

	if (!RULE(FLUSH_COVERS))
		core_rows_flush(rows, backup);
	for (i = 0; i < ROW_BATCHES; i++)
		if (rows->batches[i].to[backup].state == CORE_FLUSHING)
			rows_durable(rows, &rows->batches[i], backup);
}

/**
 * core_rows_lost - a backup is lost: it gets no more writes, and still counts
 * @rows: of a segment
 * @backup: its index
 */
void core_rows_lost(struct core_rows *rows, uint32_t backup)
{
	const struct core_segment *seg = rows->open->segment;

	if (rows->writer && seg->on >> backup & 1u)
		row_lost(rows->writer, seg->shard[backup]);
}

/**
 * core_rows_shrunk - a lost backup does not count any more
 * @rows: of a segment
 * @backup: its index; the segment has a shard on it still
 */
void core_rows_shrunk(struct core_rows *rows, uint32_t backup)
{
	if (rows->writer)
		row_shrunk(rows->writer, rows->open->segment->shard[backup]);
}

/**
 * core_rows_may_add - can a shard of an open segment be made of its log data in memory?
 * @core: core
 * @open: a coded segment, or one without a place
 *
 * As in core_may_extend(). A backup that is lost counts still, maybe for the same shard.
 */
bool core_rows_may_add(const struct core *core, const struct core_open *open)
{
	const struct core_segment *seg = open->segment;

	return seg && seg->life == CORE_OPEN && open->rows && open->rows->writer && open->placed && !open->reopened &&
	       !open->closed && !open->close && !seg->adding && !(seg->on & core->lost) &&
	       row_may_add(open->rows->writer);
}

/**
 * core_rows_add - begin to make a shard of an open segment
 * @core: core
 * @seg: core_rows_may_add() was true; backup, frame and shard are noted in it
 * @backup: backup of the shard
 * @to: out: blocks of the rows that are to be written to it; later ones get there with batches
 * @scratch: m blocks, overwritten
 *
 * Until the shard counts, or is given up, the segment is not closed: its memory stays as it is (invariant 11).
 *
 * Return: how many rows.
 */
uint32_t core_rows_add(struct core *core, struct core_segment *seg, uint32_t backup, uint8_t *to, uint8_t *scratch)
{
	struct core_rows *rows = seg->open->rows;
	uint32_t nr, i;

	/* Nothing of an earlier life of the backup is in flight (ADD_QUIET). */
	for (i = 0; i < ROW_BATCHES; i++)
		memset(&rows->batches[i].to[backup], 0, sizeof(rows->batches[i].to[backup]));
	seg->adding = (uint16_t)(1u << backup);
	nr = row_add(rows->writer, seg->shard[backup]);
	row_fill(rows->writer, seg->shard[backup], nr, to, scratch);
	core->changes++;
	return nr;
}

/**
 * core_rows_give_up - write no more to a shard that is being added
 * @seg: the segment
 * @backup: backup of the shard
 *
 * Return: true: no write to it is in flight.
 */
bool core_rows_give_up(struct core_segment *seg, uint32_t backup)
{
	struct core_rows *rows = seg->open->rows;
	uint32_t i;

	row_lost(rows->writer, seg->shard[backup]);
	for (i = 0; i < ROW_BATCHES; i++)
		if (rows->batches[i].to[backup].left)
			return false;
	return true;
}

/**
 * core_rows_listed - a durable digest says which shards a segment has
 * @rows: of the segment
 */
void core_rows_listed(struct core_rows *rows)
{
	const struct core_segment *seg = rows->open->segment;
	uint32_t b;

	core_each_backup(b, rows->writer ? seg->listed & seg->on : 0)
		row_listed(rows->writer, seg->shard[b]);
}

/**
 * core_rows_close - begin to write the end of a segment
 * @rows: all log data of the segment are durable
 * @close: directory and footer
 *
 * Return: false: no memory now.
 */
bool core_rows_close(struct core_rows *rows, const struct core_close *close)
{
	struct core *core = rows->core;
	const struct core_open *open = rows->open;

	rows->end = close->buffer;
	rows->finish = (struct row_finish) {
		.code = core->code, .g = &core->shards, .id = rows_id(core, open->segment), .length = open->length,
		.back = core->shards.rows * core->shards.k - close->bytes / LSMEM_BLOCK,
		.from = open->length / core->shards.row_bytes, .block = rows_block, .arg = rows,
	};
	rows->finishing = row_finish_begin(&rows->finish);
	return rows->finishing;
}

/* Start the writes of the next step. Return: false: not now, or there is none. */
static bool rows_finish(struct core *core, struct core_close *close)
{
	const struct core_segment *seg = close->open->segment;
	uint32_t alive = seg->on & ~core->lost, i, n, b;
	struct core_rows *rows = close->open->rows;
	struct row_finish *f = &rows->finish;

	/* The memory of a step is used again by the next one. */
	core_each_backup(b, alive)
		if (close->to[b].done < close->to[b].issued || core->nr_ops[b] + CORE_OPS_SPARE >= CORE_IOS)
			return false;
	if (!row_finish_next(f)) {
		rows->finished = true;
		return false;
	}
	for (i = 0; i < f->nr; i++) {
		const struct row_write *write = &f->writes[i];
		struct core_op *op;

		b = rows_backup(seg, write->shard);
		if (b == CORE_BACKUPS || !(alive >> b & 1u))
			continue;
		op = core_op_get(core, CORE_OP_CLOSE, b, false);
		op->close = close;
		op->rows = rows;
		for (n = 0; n < write->blocks; n++)
			core_op_add(op, write->from[n], LSMEM_BLOCK);
		rows->in_flight++;
		close->to[b].issued += op->io.length;
		core_op_start(core, op, core_where(core, seg, b) + (uint64_t)write->block * LSMEM_BLOCK);
	}
	return true;
}

/**
 * core_rows_close_run - write the end of a segment
 * @core: core
 * @close: core_rows_close() was called
 *
 * Return: all of it is written, and was not before.
 */
bool core_rows_close_run(struct core *core, struct core_close *close)
{
	struct core_rows *rows = close->open->rows;
	uint32_t b;

	if (rows->finished)
		return false;
	while (rows_finish(core, close))
		;
	if (!rows->finished)
		return false;
	core_each_backup(b, close->open->segment->on & ~core->lost) {
		close->to[b].state = CORE_WRITTEN;
		core->flush_wanted[b] = true;
	}
	core->changes++;
	return true;
}
