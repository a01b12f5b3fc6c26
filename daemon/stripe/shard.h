/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The bytes of a shard: what one backup has of a coded segment, in one lane of a frame. lsmem_format.h has the blocks; here
 * is where they are, and whether they are right. See Documentation/stripes.rst, A shard.
 */
#ifndef LSMEMD_SHARD_H
#define LSMEMD_SHARD_H

#include "code.h"
#include "format/format.h"

#define SHARD_FRAME	(LSMEM_SEGMENT_BYTES / LSMEM_BLOCK)	/* blocks of a frame */
#define SHARD_SIDES	2u
#define SHARD_SIDE	2u	/* blocks of a side: record, parity */
#define SHARD_NO_RECORD	UINT64_MAX	/* no number of a record */

_Static_assert(CODE_SHARDS == LSMEM_SHARDS, "a record has the CRCs of all data shards");

/**
 * struct shard_geometry - where the parts of a shard are
 * @k: data shards
 * @m: parity shards
 * @blocks: of a lane
 * @rows: of a segment
 * @side: block of the first side; the other one follows
 * @table: first block of the table
 * @tables: blocks of the table
 * @row_bytes: log data of a row
 */
struct shard_geometry {
	uint32_t k, m;
	uint32_t blocks, rows, side, table, tables;
	uint32_t row_bytes;
};

/**
 * struct shard_id - the segment that a shard belongs to
 * @uuid: of the store
 * @segment: its id
 * @generation: of the segment
 */
struct shard_id {
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint64_t segment;
	uint32_t generation;
};

bool shard_geometry(struct shard_geometry *g, uint32_t k, uint32_t m, uint32_t frame);
uint32_t shard_below(const struct shard_geometry *g, uint32_t length, uint32_t shard);

/* Return: bytes of log data, directory and footer that a segment has room for. */
static inline uint32_t shard_room(const struct shard_geometry *g)
{
	return g->rows * g->row_bytes;
}

/* Return: bytes that a segment has on backups: a block for the header, log data, directory and footer. */
static inline uint32_t shard_segment_bytes(const struct shard_geometry *g)
{
	return LSMEM_BLOCK + shard_room(g);
}

/* Return: the block of a lane that has a row. */
static inline uint32_t shard_row(uint32_t row)
{
	return 1 + row;
}

/* Return: the block of a lane with the record of a side. */
static inline uint32_t shard_side(const struct shard_geometry *g, uint32_t side)
{
	return g->side + side * SHARD_SIDE;
}

void shard_record_seal(struct lsmem_shard_record *record);
enum format_error shard_record_check(const struct lsmem_shard_record *record, const struct shard_geometry *g,
				     const struct shard_id *id, uint32_t shard);
const uint8_t *shard_record_parity(const struct lsmem_shard_record *record);
void shard_table_seal(struct lsmem_shard_table *table, const struct shard_geometry *g);
enum format_error shard_table_check(const struct lsmem_shard_table *table, const struct shard_geometry *g,
				    const struct shard_id *id, uint32_t shard);

#endif
