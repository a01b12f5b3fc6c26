/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading a coded segment from some of its shards, without I/O. See Documentation/stripes.rst, S4 to S8.
 *
 * An open segment: row_read_open() finds the longest prefix of whole entries. A closed or sealed one: row_read_closed()
 * checks the tables, and row_make() then makes any blocks of a row: for a degraded read, a rebuild, a scrub.
 *
 * The bytes of shards are not trusted. The caller has compared their headers with the digest's segment, and leaves out
 * shards that cannot be read.
 */
#ifndef LSMEMD_ROW_READ_H
#define LSMEMD_ROW_READ_H

#include "shard.h"

/**
 * struct row_read - a segment being read
 * @code: its code
 * @g: geometry of its shards
 * @id: the segment
 * @there: mask of the shards that are there
 * @lane: all blocks of each of these, by shard
 * @least: open: bytes of log data that are known to have been durable, by the digest
 * @stream: open: shard_room() bytes, out: the log data up to @length, then what the last row has; aligned as entries are
 * @length: open: out: end of the last whole entry; closed: out: bytes of log data
 * @proven: open: out: so much was durable; more than @length: data are lost
 * @whole: closed: out: shards with a whole table
 * @front: closed: out: rows from the first one on that there are
 * @back: closed: out: rows up to the last one that there are
 * @bad: closed: out: shards on which row_make() has found a bad block so far
 * @odd: closed: out: parity shards whose tables are of other data than row_compare() has found
 */
struct row_read {
	struct code *code;
	const struct shard_geometry *g;
	struct shard_id id;
	uint32_t there;
	const uint8_t *lane[CODE_SHARDS];
	uint32_t least;
	uint8_t *stream;
	uint32_t length;
	uint32_t proven;
	uint32_t whole, front, back, bad, odd;
};

int row_read_open(struct row_read *r);
uint64_t row_read_next(const struct row_read *r, uint32_t from, uint64_t *last);
uint64_t row_next(const struct shard_geometry *g, const struct shard_id *id, const uint8_t *const *sides, uint32_t from,
		  uint64_t *last);
int row_read_closed(struct row_read *r);
int row_make(struct row_read *r, uint32_t row, uint32_t want, void *const *to);
int row_compare(struct row_read *r, uint8_t *stream, uint8_t *parity);
int row_rebuild(struct row_read *r, uint32_t shard, uint8_t *lane);

#endif
