// SPDX-License-Identifier: GPL-2.0
/*
 * The writer of rows.
 *
 * Log data of the segment lie behind one another: counted (durable on all shards), in batches, and not in a batch yet. The
 * parity of the row in which the batches end is gathered in memory, as bytes are added to it, and so are the CRCs of its data
 * blocks. What a batch writes, it has: parity is copied, and the block in which it ends.
 *
 * A batch counts when all shards have it; it is durable if there are enough of them. Without enough, batches are written and
 * count, and nothing is durable until a shard is added (S9): with batches from then on, and all rows before them.
 *
 * A partial row is written again and again, its parity to the two sides in turn; so there are two conditions. A batch is
 * made when no write of a partial batch is in flight, because it writes the same data block (rule PARTIAL_ALONE). And a
 * *partial* batch is made when the one before counts, which means with all rows before it: the record that it overwrites
 * is the one before that, and protects nothing any more (rule SIDE_FREE).
 */
#include <stdlib.h>
#include <string.h>

#include "row.h"
#include "rule.h"

/* Blocks of the buffers of a batch: for each parity shard its rows and a side, and the block in which the batch ends. */
#define ROW_PARITY	(ROW_ROWS + SHARD_SIDE)
#define ROW_BUFFERS(g)	((g)->m * ROW_PARITY + 1)

/**
 * struct row_slot - a batch, and what is to be known of it
 * @batch: what the caller sees
 * @waiting: shards on which it is not durable
 * @partial: it ends with a partial row
 * @used: it does not count yet
 * @pointers: of its writes
 * @buffers: ROW_BUFFERS() blocks
 */
struct row_slot {
	struct row_batch batch;
	uint32_t waiting;
	bool partial, used;
	const void *pointers[CODE_SHARDS * (ROW_PARITY + 1)];
	uint8_t *buffers;
};

/**
 * struct row_writer - the rows of an open segment
 * @p: parameters
 * @writing: shards that get writes
 * @counting: shards on which a batch must be durable to count
 * @listed: of @counting, those that a durable digest lists
 * @adding: shards that are being made; batches from row_add() on count when they have them, too
 * @fresh: of @adding, those that get all of the last row with the next batch
 * @whole_at: when all batches before this one count, @adding have what all batches have written
 * @issued: home offset: log data up to here are in batches
 * @counted: home offset up to which all batches count
 * @durable: the same, when the shards were enough
 * @partial_end: end of the last partial batch
 * @batches: number of the next batch
 * @oldest: number of the oldest batch that does not count
 * @record: number of the next parity record
 * @last: number of the record that ends at @partial_end
 * @crc: of the data blocks of the last row, up to @issued
 * @parity: of the last row, up to @issued; a block for each parity shard
 * @slots: batches, by number modulo ROW_BATCHES
 */
struct row_writer {
	struct row_params p;
	uint32_t writing, counting, listed, adding, fresh;
	uint32_t issued, counted, durable, partial_end;
	uint64_t batches, oldest, record, last, whole_at;
	uint32_t crc[CODE_SHARDS];
	uint8_t *parity;
	struct row_slot slots[ROW_BATCHES];
};

static void row_clear(struct row_writer *w)
{
	uint32_t i;

	for (i = 0; i < CODE_SHARDS; i++)
		w->crc[i] = ~0u;
	memset(w->parity, 0, (size_t)w->p.g->m * LSMEM_BLOCK);
}

/* Add log data [@from, @to), all of one row, to parity and CRCs of that row. */
static void row_gather(struct row_writer *w, uint32_t from, uint32_t to)
{
	while (from < to) {
		uint32_t block = from / LSMEM_BLOCK, at = from % LSMEM_BLOCK, bytes = LSMEM_BLOCK - at, p;
		const uint8_t *data = (const uint8_t *)w->p.block(w->p.arg, block) + at;
		void *parity[CODE_SHARDS];

		if (bytes > to - from)
			bytes = to - from;
		for (p = 0; p < w->p.g->m; p++)
			parity[p] = w->parity + (size_t)p * LSMEM_BLOCK + at;
		code_update(w->p.code, block % w->p.g->k, bytes, data, parity);
		w->crc[block % w->p.g->k] = lsmem_crc32c(w->crc[block % w->p.g->k], data, bytes);
		from += bytes;
	}
}

/**
 * row_free - free a writer
 * @w: the writer, none of whose writes is in flight; or NULL
 */
void row_free(struct row_writer *w)
{
	uint32_t i;

	if (!w)
		return;
	for (i = 0; i < ROW_BATCHES; i++)
		free(w->slots[i].buffers);
	free(w->parity);
	free(w);
}

/**
 * row_open - make a writer
 * @params: copied
 *
 * Return: the writer, to be given to row_free(); NULL: no memory.
 */
struct row_writer *row_open(const struct row_params *params)
{
	const struct shard_geometry *g = params->g;
	struct row_writer *w = calloc(1, sizeof(*w));
	uint32_t i;

	if (!w)
		return NULL;
	w->p = *params;
	w->writing = params->shards;
	w->counting = params->shards;
	w->listed = params->shards;
	w->issued = params->from;
	w->counted = params->from;
	w->durable = params->from;
	w->record = params->record;
	w->last = params->last;
	w->partial_end = params->last == SHARD_NO_RECORD ? 0 : params->from;
	w->parity = malloc((size_t)g->m * LSMEM_BLOCK);
	if (!w->parity)
		goto fail;
	for (i = 0; i < ROW_BATCHES; i++) {
		w->slots[i].buffers = aligned_alloc(LSMEM_BLOCK, (size_t)ROW_BUFFERS(g) * LSMEM_BLOCK);
		if (!w->slots[i].buffers)
			goto fail;
	}
	row_clear(w);
	row_gather(w, w->issued / g->row_bytes * g->row_bytes, w->issued);
	return w;
fail:
	row_free(w);
	return NULL;
}

/* The last partial batch: is none of its writes in flight? */
static bool row_partial_written(const struct row_writer *w)
{
	uint32_t i;

	for (i = 0; i < ROW_BATCHES; i++)
		if (w->slots[i].used && w->slots[i].partial && w->slots[i].waiting & w->writing)
			return false;
	return true;
}

static uint8_t *slot_parity(const struct row_writer *w, const struct row_slot *slot, uint32_t p, uint32_t n)
{
	(void)w;
	return slot->buffers + (size_t)(p * ROW_PARITY + n) * LSMEM_BLOCK;
}

/* Parity of full rows, [@row, @row + @rows): the first one may have been begun. */
static void row_full(struct row_writer *w, struct row_slot *slot, uint32_t row, uint32_t rows)
{
	const struct shard_geometry *g = w->p.g;
	uint32_t n, i, p;

	for (n = 0; n < rows; n++) {
		uint32_t end = (row + n + 1) * g->row_bytes;
		const void *data[CODE_SHARDS];
		void *parity[CODE_SHARDS];

		for (p = 0; p < g->m; p++)
			parity[p] = slot_parity(w, slot, p, n);
		if (w->issued % g->row_bytes) {
			row_gather(w, w->issued, end);
			for (p = 0; p < g->m; p++)
				memcpy(parity[p], w->parity + (size_t)p * LSMEM_BLOCK, LSMEM_BLOCK);
			row_clear(w);
		} else {
			for (i = 0; i < g->k; i++)
				data[i] = w->p.block(w->p.arg, (row + n) * g->k + i);
			code_encode(w->p.code, LSMEM_BLOCK, data, parity);
		}
		w->issued = end;
	}
}

/* The records of a partial row that ends at @end, with number @w->last. */
static void row_records(struct row_writer *w, struct row_slot *slot, uint32_t end, uint32_t acked)
{
	const struct shard_geometry *g = w->p.g;
	uint32_t bytes = shard_below(g, end, 0), p, i;

	row_gather(w, w->issued, end);
	w->issued = end;
	for (p = 0; p < g->m; p++) {
		struct lsmem_shard_record *record = (void *)slot_parity(w, slot, p, ROW_ROWS);
		const uint8_t *parity = w->parity + (size_t)p * LSMEM_BLOCK;

		memset(record, 0, sizeof(*record));
		memcpy(record->head.uuid, w->p.id.uuid, sizeof(record->head.uuid));
		record->head.segment = __cpu_to_le64(w->p.id.segment);
		record->head.generation = __cpu_to_le32(w->p.id.generation);
		record->head.k = (uint8_t)g->k;
		record->head.m = (uint8_t)g->m;
		record->head.shard = (uint8_t)(g->k + p);
		record->number = __cpu_to_le64(w->last);
		record->head.length = __cpu_to_le32(end);
		record->durable = __cpu_to_le32(acked);
		record->bytes = __cpu_to_le32(bytes);
		record->parity_crc = __cpu_to_le32(lsmem_crc32c(~0u, parity, bytes));
		for (i = 0; i < CODE_SHARDS; i++)
			record->data_crc[i] = __cpu_to_le32(w->crc[i]);
		if (bytes <= LSMEM_PARITY_INSIDE)
			memcpy(record->parity, parity, bytes);
		else
			memcpy(record + 1, parity, LSMEM_BLOCK);
		shard_record_seal(record);
	}
}

/* Add a write to a batch; @pointer: where its pointers are. */
static void slot_write(struct row_slot *slot, uint32_t shard, uint32_t block, uint32_t blocks, const void **pointer)
{
	if (blocks)
		slot->batch.writes[slot->batch.nr++] = (struct row_write) {
			.shard = shard, .block = block, .blocks = blocks, .from = pointer,
		};
}

/*
 * The writes to data shards of @to: blocks [@first, @last], to fresh ones from the beginning of the row on; the last one from
 * @tail, if that is not NULL.
 */
static const void **row_data(struct row_writer *w, struct row_slot *slot, uint32_t to, uint32_t first, uint32_t last,
			     const uint8_t *tail, const void **pointer)
{
	uint32_t k = w->p.g->k, shard, n;

	for (shard = 0; shard < k; shard++) {
		uint32_t begins = w->fresh >> shard & 1 ? first / k * k : first;
		uint32_t from = begins + (shard + k - begins % k) % k;
		const void **begin = pointer;

		if (!(to >> shard & 1))
			continue;
		for (n = from; n <= last; n += k)
			*pointer++ = n == last && tail ? tail : w->p.block(w->p.arg, n);
		slot_write(slot, shard, shard_row(from / k), (uint32_t)(pointer - begin), begin);
	}
	return pointer;
}

/* The writes to parity shards of @to: @rows rows from @row on, and the side if the batch is partial. */
static void row_parity(struct row_writer *w, struct row_slot *slot, uint32_t to, uint32_t row, uint32_t rows,
		       const void **pointer)
{
	const struct shard_geometry *g = w->p.g;
	uint32_t bytes = shard_below(g, slot->batch.end, 0), p, n;
	uint32_t side = STRIPE_RULE(OTHER_SIDE) ? (uint32_t)(w->last % SHARD_SIDES) : 0;

	for (p = 0; p < g->m; p++) {
		const void **begin = pointer;

		if (!(to >> (g->k + p) & 1))
			continue;
		for (n = 0; n < rows; n++)
			*pointer++ = slot_parity(w, slot, p, n);
		slot_write(slot, g->k + p, shard_row(row), rows, begin);
		if (!slot->partial)
			continue;
		begin = pointer;
		*pointer++ = slot_parity(w, slot, p, ROW_ROWS);
		if (bytes > LSMEM_PARITY_INSIDE)
			*pointer++ = slot_parity(w, slot, p, ROW_ROWS + 1);
		slot_write(slot, g->k + p, shard_side(g, side), (uint32_t)(pointer - begin), begin);
	}
}

/**
 * row_batch - make the next batch
 * @w: the writer
 * @committed: home offset at which the committed log data end, where a range ends; it never falls
 * @acked: home offset up to which they are durable, where a range ends: at most row_durable()
 * @partial: write the row in which they end, too
 *
 * A batch of full rows may leave rows for the next one, and ends anywhere in an entry.
 *
 * Return: the batch, valid until it counts; NULL: nothing is to be written, or has to wait until something is durable.
 */
const struct row_batch *row_batch(struct row_writer *w, uint32_t committed, uint32_t acked, bool partial)
{
	const struct shard_geometry *g = w->p.g;
	struct row_slot *slot = &w->slots[w->batches % ROW_BATCHES];
	uint32_t from = w->issued, row = from / g->row_bytes, rows = committed / g->row_bytes - row;
	uint32_t last, at, to = committed == from ? w->fresh : w->writing;
	const void **pointer;
	uint8_t *tail = NULL;

	if (slot->used || committed < from || !to ||
	    (STRIPE_RULE(PARTIAL_ALONE) && !row_partial_written(w)))
		return NULL;
	if (rows > ROW_ROWS)
		rows = ROW_ROWS;
	if (committed - row * g->row_bytes >= (rows + 1) * g->row_bytes || committed % g->row_bytes == 0)
		partial = false;	/* more full rows, or no partial one */
	if (STRIPE_RULE(SIDE_FREE) ? w->counted < w->partial_end : !row_partial_written(w))
		partial = false;
	if (!rows && !partial)
		return NULL;
	slot->used = true;
	slot->partial = partial;
	slot->waiting = w->counting | w->adding;
	slot->batch = (struct row_batch) {
		.number = w->batches++, .end = partial ? committed : (row + rows) * g->row_bytes,
	};
	row_full(w, slot, row, rows);
	if (partial) {
		if (committed != from)
			w->last = w->record++;
		row_records(w, slot, committed, acked);
		w->partial_end = committed;
	}
	last = (slot->batch.end - 1) / LSMEM_BLOCK;
	at = slot->batch.end % LSMEM_BLOCK;
	if (at) {
		tail = slot_parity(w, slot, g->m, 0);
		memcpy(tail, w->p.block(w->p.arg, last), at);
		memset(tail + at, 0, LSMEM_BLOCK - at);
	}
	pointer = row_data(w, slot, to, from / LSMEM_BLOCK, last, tail, slot->pointers);
	row_parity(w, slot, to, row, rows, pointer);
	w->fresh = 0;
	return &slot->batch;
}

static bool row_counts(const struct row_writer *w, const struct row_slot *slot)
{
	uint32_t all = w->counting | w->adding, has = all & ~slot->waiting;

	return (uint32_t)__builtin_popcount(has) >=
	       (STRIPE_RULE(ALL_SHARDS) ? (uint32_t)__builtin_popcount(all) : w->p.g->k);
}

/* Are the shards enough? One that no digest lists is not found by a recovery. */
static bool row_enough(const struct row_writer *w)
{
	uint32_t shards = STRIPE_RULE(ADD_LISTED) ? w->counting & w->listed : w->counting;

	return !STRIPE_RULE(LEAST_SHARDS) || (uint32_t)__builtin_popcount(shards) >= w->p.least;
}

static void row_count(struct row_writer *w)
{
	uint64_t n;

	while (w->oldest < w->batches && row_counts(w, &w->slots[w->oldest % ROW_BATCHES])) {
		struct row_slot *slot = &w->slots[w->oldest++ % ROW_BATCHES];

		slot->used = false;
		if (w->counted < slot->batch.end)
			w->counted = slot->batch.end;
	}
	if (!row_enough(w))
		return;
	if (w->durable < w->counted)
		w->durable = w->counted;
	for (n = w->oldest; !STRIPE_RULE(BATCH_ORDER) && n < w->batches; n++)
		if (row_counts(w, &w->slots[n % ROW_BATCHES]))
			w->durable = w->slots[n % ROW_BATCHES].batch.end;
}

/**
 * row_done - all writes of a batch to a shard are durable
 * @w: the writer
 * @number: of the batch
 * @shard: to which the batch may have had no write: also then
 */
void row_done(struct row_writer *w, uint64_t number, uint32_t shard)
{
	if (number < w->oldest || number >= w->batches)
		return;
	w->slots[number % ROW_BATCHES].waiting &= ~(1u << shard);
	row_count(w);
}

/**
 * row_lost - a backup is lost
 * @w: the writer
 * @shard: the one on it; it gets no more writes, and still counts, unless it is being added
 */
void row_lost(struct row_writer *w, uint32_t shard)
{
	w->writing &= ~(1u << shard);
	w->adding &= ~(1u << shard);
	w->fresh &= ~(1u << shard);
	row_count(w);
}

/**
 * row_shrunk - a digest without a lost backup counts
 * @w: the writer
 * @shard: row_lost() was called for it; it does not count any more
 */
void row_shrunk(struct row_writer *w, uint32_t shard)
{
	w->counting &= ~(1u << shard);
	w->listed &= ~(1u << shard);
	row_count(w);
}

/**
 * row_may_add - can a shard be made now?
 * @w: the writer; no shard that counts is lost
 *
 * A record protects a row together with those of the same time on the other parity shards: so a new one gets the record that
 * these have. After a SIGKILL there may be none of just the bytes that are durable; then what was written beyond them is
 * written again, and there is one.
 */
bool row_may_add(const struct row_writer *w)
{
	return w->issued % w->p.g->row_bytes == 0 || w->partial_end == w->issued;
}

/**
 * row_add - begin to make a shard
 * @w: the writer; row_may_add() is true
 * @shard: there is none of this number; its sides have no record
 *
 * Batches from now on are written to it, and wait for it. The next one writes all of the last row to it; if that is partial,
 * there is one also without new log data, for this shard alone.
 *
 * Return: rows before the last one, which are to be written to it as row_fill() makes them.
 */
uint32_t row_add(struct row_writer *w, uint32_t shard)
{
	bool begun = w->issued % w->p.g->row_bytes;
	uint32_t i;

	/* Of an earlier one that was lost */
	for (i = 0; i < ROW_BATCHES; i++)
		w->slots[i].waiting &= ~(1u << shard);
	w->writing |= 1u << shard;
	w->adding |= 1u << shard;
	w->fresh |= (uint32_t)begun << shard;
	w->whole_at = w->batches + begun;
	return w->issued / w->p.g->row_bytes;
}

/**
 * row_fill - make rows of one shard
 * @w: the writer
 * @shard: the shard
 * @rows: how many, from the first one on: all of them full, and in batches
 * @to: out: as many blocks
 * @scratch: m blocks, overwritten
 */
void row_fill(const struct row_writer *w, uint32_t shard, uint32_t rows, uint8_t *to, uint8_t *scratch)
{
	const struct shard_geometry *g = w->p.g;
	uint32_t row, i;

	for (row = 0; row < rows; row++, to += LSMEM_BLOCK) {
		const void *data[CODE_SHARDS];
		void *parity[CODE_SHARDS];

		if (shard < g->k) {
			memcpy(to, w->p.block(w->p.arg, row * g->k + shard), LSMEM_BLOCK);
			continue;
		}
		for (i = 0; i < g->k; i++)
			data[i] = w->p.block(w->p.arg, row * g->k + i);
		for (i = 0; i < g->m; i++)
			parity[i] = i == shard - g->k ? to : scratch + (size_t)i * LSMEM_BLOCK;
		code_encode(w->p.code, LSMEM_BLOCK, data, parity);
	}
}

/**
 * row_again - is a batch to be made without new log data?
 * @w: the writer
 */
bool row_again(const struct row_writer *w)
{
	return w->fresh;
}

/**
 * row_whole - do the shards that are added have what batches have written?
 * @w: the writer
 *
 * Return: true: with the rows of row_fill() they are whole.
 */
bool row_whole(const struct row_writer *w)
{
	return (!w->fresh && w->oldest >= w->whole_at) || !STRIPE_RULE(ADD_WHOLE);
}

/**
 * row_join - a shard counts from now on
 * @w: the writer
 * @shard: it is whole, durably
 */
void row_join(struct row_writer *w, uint32_t shard)
{
	w->adding &= ~(1u << shard);
	w->counting |= 1u << shard;
	row_count(w);
}

/**
 * row_listed - a durable digest lists a shard
 * @w: the writer
 * @shard: the shard
 */
void row_listed(struct row_writer *w, uint32_t shard)
{
	w->listed |= 1u << shard;
	row_count(w);
}

/**
 * row_durable - say how much of the log data is durable
 * @w: the writer
 *
 * Return: home offset, maybe within an entry; any k of the shards that count have all log data below it.
 */
uint32_t row_durable(const struct row_writer *w)
{
	return w->durable;
}

/**
 * row_issued - say how much of the log data is in batches
 * @w: the writer
 *
 * Return: home offset.
 */
uint32_t row_issued(const struct row_writer *w)
{
	return w->issued;
}
