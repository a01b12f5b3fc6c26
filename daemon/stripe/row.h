/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rows of an open segment, without I/O: which blocks of which shards are to be written, and how much of the log data
 * is durable. See Documentation/stripes.rst, How a batch is written, and its rules.
 *
 * The caller has row_batch() make a batch, sends its writes, in any order, and says with row_done() when all writes of
 * the batch to a shard are durable. When a backup is lost: row_lost(), and row_shrunk() when a digest without it counts.
 * row_finish_*() is the end of a segment, both when its owner closes it and when a recovery seals it.
 */
#ifndef LSMEMD_ROW_H
#define LSMEMD_ROW_H

#include "shard.h"

#define ROW_ROWS	8u	/* full rows of a batch, at most */
#define ROW_BATCHES	4u	/* batches that do not count yet, at most */
#define ROW_WRITES	(2u * CODE_SHARDS)

/**
 * struct row_write - a write of consecutive blocks of a lane
 * @shard: of the segment
 * @block: the first one, of the lane
 * @blocks: how many
 * @from: where the bytes of each block are; they stay there until the write is done
 */
struct row_write {
	uint32_t shard;
	uint32_t block;
	uint32_t blocks;
	const void *const *from;
};

/**
 * struct row_batch - what one group commit writes
 * @number: of the batch
 * @end: home offset: log data up to here are in this batch or an earlier one
 * @nr: elements of @writes
 * @writes: at most one to a data shard and two to a parity shard
 */
struct row_batch {
	uint64_t number;
	uint32_t end;
	uint32_t nr;
	struct row_write writes[ROW_WRITES];
};

/**
 * struct row_params - of an open segment
 * @code: its code
 * @g: geometry of its shards
 * @id: the segment
 * @shards: mask of those that there are, and that a digest lists before the first batch
 * @least: batches are durable on at least so many shards that a digest lists; at least k
 * @from: bytes of log data that are durable on all @shards, 0 of a new segment
 * @record: number of the next parity record, 0 of a new segment; else row_read_next()
 * @last: number of the record that all parity shards have of the row up to @from; SHARD_NO_RECORD: there is none
 * @block: gives the place in memory of a block of log data, by number; of the last one only the committed bytes are read
 * @arg: its argument
 */
struct row_params {
	const struct code *code;
	const struct shard_geometry *g;
	struct shard_id id;
	uint32_t shards;
	uint32_t least;
	uint32_t from;
	uint64_t record, last;
	const void *(*block)(void *arg, uint32_t n);
	void *arg;
};

struct row_writer;

struct row_writer *row_open(const struct row_params *params);
void row_free(struct row_writer *w);
const struct row_batch *row_batch(struct row_writer *w, uint32_t committed, uint32_t acked, bool partial);
void row_done(struct row_writer *w, uint64_t number, uint32_t shard);
void row_lost(struct row_writer *w, uint32_t shard);
void row_shrunk(struct row_writer *w, uint32_t shard);
bool row_may_add(const struct row_writer *w);
uint32_t row_add(struct row_writer *w, uint32_t shard);
void row_fill(const struct row_writer *w, uint32_t shard, uint32_t rows, uint8_t *to, uint8_t *scratch);
bool row_again(const struct row_writer *w);
bool row_whole(const struct row_writer *w);
void row_join(struct row_writer *w, uint32_t shard);
void row_listed(struct row_writer *w, uint32_t shard);
uint32_t row_durable(const struct row_writer *w);
uint32_t row_issued(const struct row_writer *w);

/**
 * struct row_finish - the end of a segment being written
 * @code: its code
 * @g: geometry of its shards
 * @id: the segment
 * @length: bytes of log data
 * @back: block of the stream at which directory and footer begin, which reach to the last block of the last row; all
 *	blocks of the stream: there are none
 * @from: closing: rows before this one have been written, and are not written again
 * @lane: sealing: all blocks of the shards that are there; what differs is written. Else NULL
 * @whole: sealing: the last row is filled with what follows the log data, as row_read_open() has left it; else with zeros
 * @block: gives the place in memory of a block of the stream, by number: of log data, of directory and footer
 * @arg: its argument
 * @row: next row
 * @nr: elements of @writes
 * @writes: of one step
 * @pointers: of @writes
 * @buffers: parity of ROW_ROWS rows, then two blocks
 * @tables: of all shards
 */
struct row_finish {
	const struct code *code;
	const struct shard_geometry *g;
	struct shard_id id;
	uint32_t length, back, from;
	const uint8_t *lane[CODE_SHARDS];
	bool whole;
	const void *(*block)(void *arg, uint32_t n);
	void *arg;
	uint32_t row, nr;
	struct row_write writes[ROW_WRITES];
	const void *pointers[CODE_SHARDS * ROW_ROWS];
	uint8_t *buffers;
	uint8_t *tables;
};

bool row_finish_begin(struct row_finish *f);
bool row_finish_next(struct row_finish *f);
void row_finish_end(struct row_finish *f);

#endif
