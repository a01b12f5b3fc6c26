// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a segment on its shards: full rows, the last one filled with zeros; directory and footer in the last rows; and
 * a table of checksums for each shard. An owner that closes has the log data in memory, and has written all but the last
 * rows. A recovery that seals has the log data that it has read, and compares all rows with what shards have: behind the
 * proven length a batch was in flight, and before it a block may be bad. Sides are not written: until the digest says that the segment is closed, they protect its last row.
 */
#include <stdlib.h>
#include <string.h>

#include "row.h"
#include "rule.h"

static uint32_t finish_front(const struct row_finish *f)
{
	return (f->length + f->g->row_bytes - 1) / f->g->row_bytes;
}

/* The first row behind the front that is written. */
static uint32_t finish_back(const struct row_finish *f)
{
	uint32_t row = f->back / f->g->k, front = finish_front(f);

	return row > front ? row : front;
}

static struct lsmem_shard_table *finish_table(const struct row_finish *f, uint32_t shard)
{
	return (void *)(f->tables + (size_t)shard * f->g->tables * LSMEM_BLOCK);
}

/**
 * row_finish_begin - begin to finish a segment
 * @f: all members up to @arg are set. The log data are durable; with directory and footer also acknowledged
 *
 * Return: false: no memory, and row_finish_end() need not be called.
 */
bool row_finish_begin(struct row_finish *f)
{
	const struct shard_geometry *g = f->g;
	size_t tables = (size_t)(g->k + g->m) * g->tables * LSMEM_BLOCK;
	uint32_t shard;

	/* Aligned: drives are written without the page cache. */
	f->row = 0;
	f->nr = 0;
	f->buffers = aligned_alloc(LSMEM_BLOCK, (size_t)(g->m * ROW_ROWS + 2) * LSMEM_BLOCK);
	f->tables = aligned_alloc(LSMEM_BLOCK, tables);
	if (!f->buffers || !f->tables) {
		row_finish_end(f);
		return false;
	}
	memset(f->tables, 0, tables);
	for (shard = 0; shard < g->k + g->m; shard++) {
		struct lsmem_shard_table *table = finish_table(f, shard);

		memcpy(table->head.uuid, f->id.uuid, sizeof(table->head.uuid));
		table->head.segment = __cpu_to_le64(f->id.segment);
		table->head.generation = __cpu_to_le32(f->id.generation);
		table->head.length = __cpu_to_le32(f->length);
		table->head.k = (uint8_t)g->k;
		table->head.m = (uint8_t)g->m;
		table->head.shard = (uint8_t)shard;
		table->front = __cpu_to_le32(finish_front(f));
		table->back = __cpu_to_le32(g->rows - finish_back(f));
	}
	return true;
}

/* A block of the stream: log data, what follows them, or directory and footer. The last block of log data is copied to the buffers. */
static const void *finish_block(struct row_finish *f, uint32_t n)
{
	uint8_t *tail = f->buffers + (size_t)f->g->m * ROW_ROWS * LSMEM_BLOCK, *zero = tail + LSMEM_BLOCK;
	uint32_t last = f->length / LSMEM_BLOCK, at = f->length % LSMEM_BLOCK;

	if (n < last || n >= f->back || f->whole)
		return f->block(f->arg, n);
	if (n == last && at) {
		memcpy(tail, f->block(f->arg, n), at);
		memset(tail + at, 0, LSMEM_BLOCK - at);
		return tail;
	}
	memset(zero, 0, LSMEM_BLOCK);
	return zero;
}

/* Code a row; the pointers of a step are those of its @n rows for each shard, side by side. */
static void finish_row(struct row_finish *f, uint32_t row, uint32_t n)
{
	const struct shard_geometry *g = f->g;
	const void *data[CODE_SHARDS];
	void *parity[CODE_SHARDS];
	uint32_t shard;

	for (shard = 0; shard < g->k; shard++)
		data[shard] = finish_block(f, row * g->k + shard);
	for (shard = 0; shard < g->m; shard++)
		parity[shard] = f->buffers + (size_t)(shard * ROW_ROWS + n) * LSMEM_BLOCK;
	code_encode(f->code, LSMEM_BLOCK, data, parity);
	for (shard = 0; shard < g->k + g->m; shard++) {
		const void *block = shard < g->k ? data[shard] : parity[shard - g->k];

		f->pointers[shard * ROW_ROWS + n] = block;
		finish_table(f, shard)->block_crc[row] = __cpu_to_le32(lsmem_crc32c(~0u, block, LSMEM_BLOCK));
	}
}

/* Do rows [@first, @first + @n) have to be written to a shard? */
static bool finish_differs(const struct row_finish *f, uint32_t shard, uint32_t first, uint32_t n)
{
	const uint8_t *lane = f->lane[shard];

	if (!STRIPE_RULE(FINISH_ROWS))
		return false;
	if (!lane)
		return first + n > f->from;
	while (n--)
		if (memcmp(lane + (size_t)shard_row(first + n) * LSMEM_BLOCK, f->pointers[shard * ROW_ROWS + n],
			   LSMEM_BLOCK))
			return true;
	return false;
}

static void finish_tables(struct row_finish *f)
{
	const struct shard_geometry *g = f->g;
	uint32_t shard, n;

	for (shard = 0; shard < g->k + g->m; shard++) {
		struct lsmem_shard_table *table = finish_table(f, shard);

		shard_table_seal(table, g);
		for (n = 0; n < g->tables; n++)
			f->pointers[shard * ROW_ROWS + n] = (uint8_t *)table + n * LSMEM_BLOCK;
		f->writes[f->nr++] = (struct row_write) {
			.shard = shard, .block = g->table, .blocks = g->tables, .from = f->pointers + shard * ROW_ROWS,
		};
	}
}

/**
 * row_finish_next - make the next writes
 * @f: the writes of the step before are done: their memory is used again
 *
 * Writes are to all shards; the caller leaves out those that are lost. All that have been made must be durable before a
 * digest says that the segment is closed or sealed.
 *
 * Return: false: there are no more. True: @f->writes has @f->nr writes, which may be none.
 */
bool row_finish_next(struct row_finish *f)
{
	const struct shard_geometry *g = f->g;
	uint32_t front = finish_front(f), n = 0, first, shard;

	f->nr = 0;
	if (f->row > g->rows)
		return false;
	if (f->row == front)
		f->row = finish_back(f);
	if (f->row == g->rows) {
		finish_tables(f);
		f->row++;
		return true;
	}
	first = f->row;
	do
		finish_row(f, f->row++, n++);
	while (n < ROW_ROWS && f->row != front && f->row < g->rows);
	for (shard = 0; shard < g->k + g->m; shard++)
		if (finish_differs(f, shard, first, n))
			f->writes[f->nr++] = (struct row_write) {
				.shard = shard, .block = shard_row(first), .blocks = n,
				.from = f->pointers + shard * ROW_ROWS,
			};
	return true;
}

/**
 * row_finish_end - free what row_finish_begin() has allocated
 * @f: its writes are done, or given up
 */
void row_finish_end(struct row_finish *f)
{
	free(f->buffers);
	free(f->tables);
	f->buffers = NULL;
	f->tables = NULL;
}
