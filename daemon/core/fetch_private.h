/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of fetching share; fetch.h describes it as a whole.
 *
 *	fetch.c		requests: the choice of a replica, answers, deadlines
 *	fetch_read.c	attempts: buffers, reads, their bounds
 *	fetch_rows.c	coded segments: rows, of which blocks are read or decoded, in place of attempts
 *
 * A request has one attempt, or several if a replica was late: the first that the kernel accepts
 * answers it. An attempt that no request needs any more ends when its reads have ended.
 *
 * Small requests that lie close together in one segment share an attempt, which is one read of all of
 * them. Nothing else of them is common: each is answered, forgotten and tried again by itself. If that
 * read fails, each of them is read alone, from the same backup if that is the best: a bad sector is
 * an error only for what lies in it.
 */
#ifndef LSMEMD_FETCH_PRIVATE_H
#define LSMEMD_FETCH_PRIVATE_H

#include <sys/queue.h>

#include "fetch.h"
#include "private.h"

/* Attempts by their length: each class has buffers of its own, so none waits for longer ones. */
enum fetch_class {
	FETCH_SMALL,
	FETCH_MEDIUM,		/* the longest object, and what is before it in its first block */
	FETCH_LARGE,		/* a segment */
	FETCH_CLASSES,
};

#define FETCH_SMALL_BYTES	(32u << 10)	/* of one request; together FETCH_PART_BYTES */
#define FETCH_MEDIUM_BYTES	(LSMEM_OBJECT_MAX + LSMEM_SEGLET_BYTES)
#define FETCH_SMALL_NR		64u
#define FETCH_MEDIUM_NR		8u
#define FETCH_LARGE_NR		4u	/* of stores with so many replicas or more, else fewer */
#define FETCH_ATTEMPTS		(FETCH_SMALL_NR + FETCH_MEDIUM_NR + FETCH_LARGE_NR)

/* Rows of a coded segment that are read and decoded together: a read is no longer than core->io_bytes. */
#define FETCH_ROWS		(LSMEM_SEGLET_BYTES / LSMEM_BLOCK)
#define FETCH_ROWS_NR		(FETCH_SMALL_NR + FETCH_MEDIUM_NR + CODE_SHARDS)

#define FETCH_BADS		16u	/* struct fetch_bad that wait for fetch_bad_next() */

enum fetch_state {
	FETCH_FREE,
	FETCH_WAITING,		/* for an attempt to begin, or for rows */
	FETCH_READING,
	FETCH_READY,		/* for fetch_fills() */
	FETCH_FILLING,		/* until fetch_filled() */
	FETCH_PAUSED,		/* the kernel had no memory */
};

struct fetch_attempt;
struct fetch_request;
struct fetch_rows;

/**
 * struct fetch_share - what a request has of an attempt
 * @attempt: NULL: there is none
 * @request: that it is for
 * @length: bytes to give to the kernel, from the request's first block on
 * @link: in the list of the attempt
 */
struct fetch_share {
	struct fetch_attempt *attempt;
	struct fetch_request *request;
	uint32_t length;
	TAILQ_ENTRY(fetch_share) link;
};

TAILQ_HEAD(fetch_shares, fetch_share);

/**
 * struct fetch_request - a request of the kernel
 * @state: enum fetch_state
 * @class: enum fetch_class of its next attempt
 * @backup: that the next attempt is to read
 * @asked: backups that have an attempt, as a mask
 * @failed: backups whose replica could not be read, or was wrong
 * @alone: it shares no attempt, because one that was shared has failed
 * @checked: of a coded segment: the kernel has refused what was read: blocks are checked by their tables
 * @one: as the kernel told it
 * @blocks: blocks to read
 * @attempts: its attempts
 * @reading: of these, those whose reads have not ended
 * @shares: of its attempts, by backup
 * @answer: share with the data of the answer; NULL: there is none
 * @rows: of a coded segment: what is read for it, and has the data of the answer; NULL: nothing
 * @data: of the answer; NULL: the answer is @result
 * @length: of @data, bytes
 * @result: 0 or a negative errno
 * @begun_ns: when it was taken
 * @again_ns: FETCH_PAUSED: when it is to be answered again
 * @pause_ns: the last pause
 * @link: in the list of its state
 */
struct fetch_request {
	uint8_t state, class, backup;
	uint16_t asked, failed;
	bool alone, checked;
	struct lsmem_fetch_one one;
	uint32_t blocks;
	uint32_t attempts, reading;
	struct fetch_share shares[CORE_BACKUPS];
	struct fetch_share *answer;
	struct fetch_rows *rows;
	const uint8_t *data;
	uint32_t length;
	int result;
	uint64_t begun_ns, again_ns, pause_ns;

	TAILQ_ENTRY(fetch_request) link;
};

TAILQ_HEAD(fetch_requests, fetch_request);

/**
 * struct fetch_attempt - the reading of one replica
 * @shares: of requests; empty: none needs it any more, or it is free
 * @merged: several requests have had a share
 * @class: enum fetch_class of its buffer
 * @backup: of the replica
 * @late: its deadline has passed, and it has not ended
 * @done: all has been read
 * @block: first block, of the segment
 * @offset: on the backup, bytes
 * @length: bytes to read
 * @used: of these, log data; the rest is zero for the kernel
 * @issued: bytes given to reads
 * @in_flight: reads
 * @error: of the first read that failed; 0: none has
 * @begun_ns: when it began
 * @due_ns: its deadline
 * @buffer: as long as its class says
 * @next: in the list of free attempts
 */
struct fetch_attempt {
	struct fetch_shares shares;
	uint8_t class, backup;
	bool merged, late, done;
	uint64_t offset;
	uint32_t block, length, used, issued;
	uint32_t in_flight;
	int error;
	uint64_t begun_ns, due_ns;
	uint8_t *buffer;
	struct fetch_attempt *next;
};

/**
 * struct fetch_column - the reading of one shard of a coded segment
 * @rows: that it is for
 * @shard: its number
 * @backup: that has it
 * @waiting: for a read to begin
 * @reading: its read is in flight
 * @slow: the deadline of this read has passed
 * @table: the table is read, not rows
 * @step: of @rows, when the read began; that of another step says nothing of the present one
 * @begun_ns: when the read began
 * @due_ns: its deadline
 * @link: in the line of the backup
 */
struct fetch_column {
	struct fetch_rows *rows;
	uint8_t shard, backup;
	bool waiting, reading, slow, table;
	uint32_t step;
	uint64_t begun_ns, due_ns;
	TAILQ_ENTRY(fetch_column) link;
};

TAILQ_HEAD(fetch_columns, fetch_column);

/**
 * struct fetch_rows - what is read of a coded segment for a request, in steps of up to FETCH_ROWS rows
 * @request: it; NULL: no request needs it any more, or it is free
 * @class: enum fetch_class of its buffers
 * @done: @stream has all that is wanted
 * @decoded: some of it was decoded
 * @narrow: a step is one row, since too many shards have failed in longer ones
 * @tables: the step reads tables, of the rows that follow
 * @first: first block that is wanted, of log data
 * @end: block after the last one
 * @used: bytes of log data that are wanted
 * @row: first row of the step
 * @nr: rows of the step
 * @step: its number
 * @asked: shards that were asked for in this step, as a mask; those that have not answered and did not fail are on their way
 * @here: shards whose blocks of this step are in @lanes
 * @failed: shards that were not read in this step
 * @late: shards whose deadline has passed in this step
 * @sound: shards with a whole table in @table
 * @bad: by shard: rows of the step whose block has not the checksum that the table says, as a mask
 * @in_flight: reads
 * @stream: log data from the row of @first on
 * @lanes: by shard: its blocks of the step
 * @stride: blocks of @lanes from one shard to the next: most rows of a step
 * @table: by shard: its table
 * @columns: by shard
 * @next: in the list of those that are free
 */
struct fetch_rows {
	struct fetch_request *request;
	uint8_t class;
	bool done, decoded, narrow, tables;
	uint32_t first, end, used;
	uint32_t row, nr, step;
	uint32_t asked, here, failed, late, sound;
	uint32_t bad[CODE_SHARDS];
	uint32_t in_flight;
	uint8_t *stream, *lanes, *table;
	uint32_t stride;
	struct fetch_column columns[CODE_SHARDS];
	struct fetch_rows *next;
};

/**
 * struct fetch_part - a read
 * @attempt: that it is for
 * @column: of a coded segment: that it is for; if both are NULL the entry is free
 * @length: bytes
 * @begun_ns: when it was started
 */
struct fetch_part {
	struct fetch_attempt *attempt;
	struct fetch_column *column;
	uint32_t length;
	uint64_t begun_ns;
};

/**
 * struct fetch_backup - fetching from one backup
 * @waiting: requests whose next attempt is to read it, by class
 * @nr_waiting: how many
 * @issuing: attempts that have bytes to issue, by class
 * @columns: shards of coded segments that wait for a read, by class
 * @late: attempts, and reads of shards, that have not ended, and whose deadline has passed
 * @buffers: buffers of attempts in use, by class
 * @row_reads: reads of shards in flight, by class
 * @reads: reads in flight
 * @bytes: of these reads
 * @large_reads: of these reads, those of FETCH_LARGE
 * @large_bytes: of these reads
 * @mean_ns: moving mean of the latency of a read
 * @sampled: @mean_ns has changed since the last fetch_second()
 * @turn: line of the next read: those of replicas by class, then those of shards
 * @parts: the reads
 */
struct fetch_backup {
	struct fetch_requests waiting[FETCH_CLASSES];
	uint32_t nr_waiting;
	struct fetch_attempt *issuing[FETCH_CLASSES];
	struct fetch_columns columns[FETCH_CLASSES];
	uint32_t late;
	uint32_t buffers[FETCH_CLASSES], row_reads[FETCH_CLASSES];
	uint32_t reads, bytes, large_reads, large_bytes;
	uint64_t mean_ns;
	bool sampled;
	uint32_t turn;
	struct fetch_part parts[FETCH_READS];
};

struct fetch {
	struct core *core;
	uint64_t wait_ns;
	uint32_t remote;			/* backups on other hosts, as a mask */
	uint32_t alive;				/* core_alive() at the last fetch_next() */
	uint32_t turn;				/* backup of the next read */
	struct fetch_backup backups[CORE_BACKUPS];

	struct fetch_request requests[FETCH_REQUESTS];
	struct fetch_requests free, ready, filling, paused;
	uint32_t nr;				/* requests under way */

	struct fetch_attempt attempts[FETCH_ATTEMPTS];
	struct fetch_attempt *spare[FETCH_CLASSES];
	uint32_t nr_spare[FETCH_CLASSES];
	uint32_t reading;			/* shares of attempts whose reads have not ended */
	uint8_t *memory;			/* of all buffers of attempts; NULL: the store has no replicas */

	struct fetch_requests waiting[FETCH_CLASSES];	/* for rows */
	struct fetch_rows rows[FETCH_ROWS_NR];
	struct fetch_rows *spare_rows[FETCH_CLASSES];
	uint8_t *rows_memory;			/* of all buffers of rows; NULL: the store is not coded */

	struct fetch_bad bads[FETCH_BADS];
	uint32_t bads_first, bads_next;
	struct fetch_stats stats;
};

/* core/fetch.c */
const struct core_segment *fetch_segment(struct fetch *f, const struct fetch_request *r);
bool fetch_extent(const struct core_segment *seg, const struct fetch_request *r, uint32_t *bytes);
void fetch_source(struct fetch *f, struct fetch_request *r);
void fetch_answer(struct fetch *f, struct fetch_request *r, int result);
void fetch_give(struct fetch *f, struct fetch_request *r, const uint8_t *data, uint32_t length);
bool fetch_better(const struct fetch *f, const struct core_segment *seg, uint32_t a, uint32_t b);
uint32_t fetch_blocks(const struct lsmem_fetch_one *one);
void fetch_attempted(struct fetch *f, struct fetch_attempt *a);
void fetch_slow(struct fetch *f, uint32_t b, uint64_t ns);

/* core/fetch_read.c */
int fetch_buffers(struct fetch *f);
void fetch_release(struct fetch *f, struct fetch_share *share);
void fetch_unwait(struct fetch *f, struct fetch_request *r);
void fetch_sample(struct fetch *f, uint32_t backup, uint64_t ns);
uint64_t fetch_deadline(const struct fetch *f, uint32_t backup, uint32_t length);
uint32_t fetch_longest(const struct fetch *f, uint32_t b, uint32_t class);
struct fetch_part *fetch_part_get(struct fetch *f, uint32_t b, uint32_t class, uint32_t length, struct fetch_read *read,
				  uint64_t now);

/* core/fetch_rows.c */
int fetch_rows_buffers(struct fetch *f);
void fetch_rows_source(struct fetch *f, struct fetch_request *r);
void fetch_rows_release(struct fetch *f, struct fetch_request *r);
void fetch_rows_wrong(struct fetch *f, struct fetch_request *r);
void fetch_rows_begin(struct fetch *f);
void fetch_rows_gone(struct fetch *f, uint32_t backup);
bool fetch_rows_issue(struct fetch *f, uint32_t b, uint32_t class, struct fetch_read *read, uint64_t now);
void fetch_rows_done(struct fetch *f, struct fetch_column *column, int error);
void fetch_rows_avoid(struct fetch *f, uint32_t b);
uint64_t fetch_rows_due(const struct fetch *f);
void fetch_rows_late(struct fetch *f, uint64_t now);

#endif
