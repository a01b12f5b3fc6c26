// SPDX-License-Identifier: GPL-2.0
/*
 * Any bytes on the shards of a coded segment. Input: byte 0, bit 0: the code, bit 1: the segment is closed; bytes 1 and 2: a
 * mask of shards that are lost; then edits, each
 *
 *	byte 0	bits 0-3: shard; bit 4: make the CRC of the block valid, as a record or a table; bit 5: make the CRCs of
 *		the table's blocks valid; bit 6: make the CRC of the record's parity valid
 *	byte 1	block of the lane
 *	byte 2	where in the block, in units of 16 bytes
 *	byte 3	length of the bytes that follow, at most what is left of the block
 *
 * Whatever is read consists of whole entries of the segment, and lies within it; of a closed segment each row is made from
 * blocks that have the CRCs of the tables, or not at all.
 */
#include <stdlib.h>
#include <string.h>

#include "stripe/row.h"
#include "stripe/row_read.h"
#include "image.h"

#define ROWS	4u

static const uint32_t kinds[2][2] = { { 2, 1 }, { 3, 2 } };

/**
 * struct base - a segment on its shards
 * @open: lanes before it was closed; @closed: after
 * @lane: in use
 * @log: log data; @length: bytes of them
 */
struct base {
	struct code *code;
	struct shard_geometry g;
	struct shard_id id;
	uint32_t n;
	uint8_t *open[CODE_SHARDS], *closed[CODE_SHARDS], *lane[CODE_SHARDS];
	uint8_t *log, *stream;
	uint32_t length;
};

static const void *log_block(void *arg, uint32_t n)
{
	const struct base *base = arg;

	return base->log + (size_t)n * LSMEM_BLOCK;
}

static void put(uint8_t *const *lane, const struct row_write *writes, uint32_t nr)
{
	uint32_t n;

	for (; nr--; writes++)
		for (n = 0; n < writes->blocks; n++)
			memcpy(lane[writes->shard] + (size_t)(writes->block + n) * LSMEM_BLOCK, writes->from[n], LSMEM_BLOCK);
}

static void add_entry(struct base *base, uint32_t length)
{
	uint32_t at = lsmem_entry_start(base->length);
	struct lsmem_entry entry = lsmem_entry_make(LSMEM_TYPE_OBJECT, length, lsmem_handle_make(at, 1), at + 1, 0, 0, at);
	uint8_t *payload = base->log + at + lsmem_entry_header(&entry);

	memset(payload, (int)length, length);
	entry.crc = __cpu_to_le32(lsmem_entry_crc(&entry, lsmem_crc32c(~0u, payload, length),
						  lsmem_segment_salt(base->id.uuid, base->id.segment,
								     base->id.generation)));
	memcpy(base->log + at, &entry, lsmem_entry_header(&entry));
	base->length = at + lsmem_entry_size(length);
}

static void base_make(struct base *base, uint32_t k, uint32_t m)
{
	struct row_params params;
	struct row_finish finish;
	struct row_writer *w;
	const struct row_batch *batch;
	uint32_t i, steps;
	size_t bytes;

	base->code = code_new(k, m);
	base->n = k + m;
	if (!shard_geometry(&base->g, k, m, k * (ROWS + 6)))
		fuzz_fail("no geometry");
	base->id = (struct shard_id) { .uuid = "fuzz", .segment = 7, .generation = 3 };
	bytes = (size_t)base->g.blocks * LSMEM_BLOCK;
	for (i = 0; i < base->n; i++) {
		base->open[i] = calloc(1, bytes);
		base->closed[i] = calloc(1, bytes);
		base->lane[i] = calloc(1, bytes);
	}
	base->log = calloc(1, shard_room(&base->g));
	base->stream = calloc(1, shard_room(&base->g));
	params = (struct row_params) {
		.code = base->code, .g = &base->g, .id = base->id, .shards = (1u << base->n) - 1, .least = k,
		.block = log_block, .arg = base,
	};
	w = row_open(&params);
	for (steps = 0; steps < 5; steps++) {
		add_entry(base, steps == 3 ? 9000 : 300 + steps * 700);
		while ((batch = row_batch(w, base->length, row_durable(w), true))) {
			put(base->open, batch->writes, batch->nr);
			for (i = 0; i < base->n; i++)
				row_done(w, batch->number, i);
		}
	}
	row_free(w);
	for (i = 0; i < base->n; i++)
		memcpy(base->closed[i], base->open[i], bytes);
	finish = (struct row_finish) {
		.code = base->code, .g = &base->g, .id = base->id, .length = base->length, .back = base->g.rows * k - 1,
		.block = log_block, .arg = base,
	};
	if (!row_finish_begin(&finish))
		fuzz_fail("no memory");
	while (row_finish_next(&finish))
		put(base->closed, finish.writes, finish.nr);
	row_finish_end(&finish);
}

static void seal(struct base *base, uint32_t shard, uint32_t block, uint32_t flags)
{
	uint8_t *lane = base->lane[shard], *at = lane + (size_t)block * LSMEM_BLOCK;
	struct lsmem_shard_record *record = (void *)at;
	struct lsmem_shard_table *table = (void *)(lane + (size_t)base->g.table * LSMEM_BLOCK);
	uint32_t row, bytes;

	if (flags & 0x20)
		for (row = 0; row < base->g.rows; row++)
			table->block_crc[row] =
				__cpu_to_le32(lsmem_crc32c(~0u, lane + (size_t)shard_row(row) * LSMEM_BLOCK, LSMEM_BLOCK));
	if (flags & 0x30 && (flags & 0x20 || block == base->g.table))
		shard_table_seal(table, &base->g);
	if (block != shard_side(&base->g, 0) && block != shard_side(&base->g, 1))
		return;
	bytes = __le32_to_cpu(record->bytes);
	if (flags & 0x40 && bytes <= LSMEM_BLOCK)
		record->parity_crc =
			__cpu_to_le32(lsmem_crc32c(~0u, bytes <= LSMEM_PARITY_INSIDE ? record->parity : at + LSMEM_BLOCK,
						   bytes));
	if (flags & 0x10)
		shard_record_seal(record);
}

static void check_open(struct base *base, struct row_read *r)
{
	struct format_verify verify;
	uint64_t last;

	if (row_read_open(r))
		return;
	if (r->length > shard_room(&base->g) || r->proven > shard_room(&base->g))
		fuzz_fail("length %u, proven %u", r->length, r->proven);
	format_verify_begin(&verify, base->id.uuid, base->id.segment, base->id.generation, r->length);
	if (format_verify_data(&verify, base->stream, r->length) || format_verify_length(&verify))
		fuzz_fail("what was read is not the log of the segment");
	(void)row_read_next(r, r->length, &last);
}

static void check_closed(struct base *base, struct row_read *r)
{
	static uint8_t made[CODE_SHARDS][LSMEM_BLOCK];
	void *to[CODE_SHARDS];
	uint32_t row, i, good;

	if (row_read_closed(r))
		return;
	for (i = 0; i < base->n; i++)
		to[i] = made[i];
	if (r->front + r->back > base->g.rows || r->length > r->front * base->g.row_bytes + r->back * base->g.row_bytes)
		fuzz_fail("rows %u and %u, length %u", r->front, r->back, r->length);
	for (row = 0; row < base->g.rows + 2; row++) {
		int ret = row_make(r, row, (1u << base->n) - 1, to);

		if (!ret && row >= base->g.rows)
			fuzz_fail("a row that is not there");
		for (i = 0, good = 0; !ret && i < base->n; i++)
			good += r->whole >> i & 1 && !memcmp(made[i], base->lane[i] + (size_t)shard_row(row) * LSMEM_BLOCK,
							     LSMEM_BLOCK);
		if (!ret && good < base->g.k)
			fuzz_fail("row %u: made from %u blocks", row, good);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct base bases[2];
	struct base *base;
	struct row_read r;
	uint32_t i;
	bool closed;

	for (i = 0; i < 2 && !bases[i].code; i++)
		base_make(&bases[i], kinds[i][0], kinds[i][1]);
	if (size < 3)
		return 0;
	base = &bases[data[0] & 1];
	closed = data[0] & 2;
	r = (struct row_read) {
		.code = base->code, .g = &base->g, .id = base->id, .stream = base->stream,
		.there = ((1u << base->n) - 1) & ~(data[1] | (uint32_t)data[2] << 8),
	};
	for (i = 0; i < base->n; i++) {
		memcpy(base->lane[i], closed ? base->closed[i] : base->open[i], (size_t)base->g.blocks * LSMEM_BLOCK);
		r.lane[i] = base->lane[i];
	}
	data += 3;
	size -= 3;
	while (size >= 4) {
		uint32_t shard = (data[0] & 15) % base->n, block = data[1] % base->g.blocks, at = data[2] * 16u;
		size_t length = data[3];

		if (length > size - 4)
			length = size - 4;
		if (length > LSMEM_BLOCK - at)
			length = LSMEM_BLOCK - at;
		memcpy(base->lane[shard] + (size_t)block * LSMEM_BLOCK + at, data + 4, length);
		seal(base, shard, block, data[0]);
		data += 4 + length;
		size -= 4 + length;
	}
	if (closed)
		check_closed(base, &r);
	else
		check_open(base, &r);
	return 0;
}
