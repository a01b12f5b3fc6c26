/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The bytes of a shard: what one backup has of a coded segment, in one lane of a frame. See Documentation/stripes.rst, A
 * shard. All integers are little-endian; CRCs are CRC-32C without inversion, with seed ~0.
 *
 *	block 0				struct lsmem_segment_header
 *	block 1 .. rows			a block of each row
 *	block side, side + 2		a parity record each, and a block for its parity; on parity shards
 *	block table ..			the table of a closed or sealed segment
 */
#ifndef LSMEMD_SHARD_H
#define LSMEMD_SHARD_H

#include "code.h"
#include "format/format.h"

#define SHARD_FRAME	(LSMEM_SEGMENT_BYTES / LSMEM_BLOCK)	/* blocks of a frame */
#define SHARD_SIDES	2u
#define SHARD_SIDE	2u	/* blocks of a side: record, parity */

#define SHARD_RECORD_MAGIC	0x3130524150534d4cull	/* "LMSPAR01" */
#define SHARD_TABLE_MAGIC	0x3130424154534d4cull	/* "LMSTAB01" */
#define SHARD_PARITY_INSIDE	3840u	/* parity of up to so many bytes is in the block of its record */

/**
 * struct shard_record - the parity of a partial row on one parity shard
 * @magic: SHARD_RECORD_MAGIC
 * @crc: of this block with this field zero
 * @parity_crc: of the parity: @bytes bytes, in @parity if they fit, else at the beginning of the next block
 * @uuid: of the store
 * @segment: its id
 * @generation: of the segment
 * @k: data shards
 * @m: parity shards
 * @shard: on which this record is
 * @reserved0: 0
 * @number: of the record, the same on all parity shards; a later record of the segment has a higher one
 * @length: log data up to here, home offset, are in the row, which is not full
 * @durable: so many bytes of log data were durable on all shards before this record was made; a range ends there
 * @bytes: of parity: as many as the row's first data block has below @length
 * @reserved1: 0
 * @data_crc: of each data block of the row, of its bytes below @length; ~0 if it has none
 * @reserved: 0
 * @parity: parity of up to SHARD_PARITY_INSIDE bytes; else 0
 */
struct shard_record {
	__le64 magic;
	__le32 crc;
	__le32 parity_crc;
	__u8 uuid[LSMEM_UUID_BYTES];
	__le64 segment;
	__le32 generation;
	__u8 k;
	__u8 m;
	__u8 shard;
	__u8 reserved0;
	__le64 number;
	__le32 length;
	__le32 durable;
	__le32 bytes;
	__le32 reserved1;
	__le32 data_crc[CODE_SHARDS];
	__u8 reserved[120];
	__u8 parity[SHARD_PARITY_INSIDE];
};

/**
 * struct shard_table - the checksums of a shard of a closed or sealed segment; the rest of the table's blocks is zero
 * @magic: SHARD_TABLE_MAGIC
 * @crc: of all blocks of the table, with this field zero
 * @length: bytes of log data of the segment
 * @uuid: of the store
 * @segment: its id
 * @generation: of the segment
 * @k: data shards
 * @m: parity shards
 * @shard: whose table this is
 * @reserved0: 0
 * @front: rows from the first one on that are written
 * @back: rows up to the last one that are written, not among @front
 * @reserved: 0
 * @block_crc: of the shard's block of each row; 0 of rows that are not written
 */
struct shard_table {
	__le64 magic;
	__le32 crc;
	__le32 length;
	__u8 uuid[LSMEM_UUID_BYTES];
	__le64 segment;
	__le32 generation;
	__u8 k;
	__u8 m;
	__u8 shard;
	__u8 reserved0;
	__le32 front;
	__le32 back;
	__u8 reserved[8];
	__le32 block_crc[];
};

_Static_assert(sizeof(struct shard_record) == LSMEM_BLOCK, "shard_record is a block");
_Static_assert(sizeof(struct shard_table) == 64, "shard_table has no padding");

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

void shard_record_seal(struct shard_record *record);
enum format_error shard_record_check(const struct shard_record *record, const struct shard_geometry *g,
				     const struct shard_id *id, uint32_t shard);
const uint8_t *shard_record_parity(const struct shard_record *record);
void shard_table_seal(struct shard_table *table, const struct shard_geometry *g);
enum format_error shard_table_check(const struct shard_table *table, const struct shard_geometry *g,
				    const struct shard_id *id, uint32_t shard);

#endif
