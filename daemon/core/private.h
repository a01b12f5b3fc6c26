/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of core share; core.h describes core as a whole.
 *
 *	core.c		inputs, outputs, requests, flushes, the event queue
 *	set.c		the set of backups: places for replicas, joining and lost backups
 *	copy.c		restoring replicas of closed segments
 *	keep.c		replicas that a returning backup still has
 *	scrub.c		checking all replicas, now and then
 *	extend.c	restoring replicas of open segments
 *	segment.c	backup frames, open segments, ranges, what is durable
 *	stripe.c	stripes of a coded store: lanes for segments, and what digests say of them
 *	rows.c		log data, directory and footer of coded segments, in rows
 *	rebuild.c	shards made anew, and checked
 *	exact.c		segments in which nothing lies beyond what a digest lists
 *	close.c		directory and footer
 *	digest.c	digest records, retirement
 *	resume.c	the kernel's segments compared with the segments of the digest
 *	fetch.c		objects that are on backups only; a state of its own: see fetch.h
 *	clean.c		the choice of segments to clean; independent of the rest: see clean.h
 *
 * The life of a segment:
 *
 *	(none)	the segment waits for a struct core_open or for a frame
 *	HEADER	its header is being written
 *	OPENING	its header is durable; no durable digest lists the segment yet
 *	OPEN	a durable digest lists it: it takes data, then closes
 *	CLOSED	directory and footer are durable; or SEALED by a recovery
 *	LEAVING	superseded: the next digest removes it
 *
 * Everything that is written goes WRITING -> WRITTEN -> FLUSHING -> DURABLE. A flush covers what
 * was WRITTEN when the flush was issued, and nothing else (invariant 16).
 *
 * Backups are numbered by their index in the digest; a set of them is a mask of these indexes.
 */
#ifndef LSMEMD_CORE_PRIVATE_H
#define LSMEMD_CORE_PRIVATE_H

#include "core.h"
#include "base/rule.h"
#include "stripe/lane.h"
#include "stripe/row.h"
#include "stripe/row_read.h"

#define CORE_QUEUE	1024u	/* events taken and not yet handled */
#define CORE_OPENS	128u	/* segments from OPEN to CLOSED */
#define CORE_WRITES	8u	/* writes of log data of one segment in flight to a backup */
#define CORE_BOUNDS	32u	/* ends of ranges remembered */
#define CORE_CLOSES	2u	/* directories being written */
#define CORE_RETIRES	16u	/* groups being retired */
#define CORE_VICTIMS	256u	/* segments in a group */
#define CORE_GONE	4096u	/* resumed segments that the digest no longer lists */
#define CORE_OPS_SPARE	8u	/* requests of a backup reserved for flushes and digests */
#define CORE_OPS	(CORE_IOS * CORE_BACKUPS)

#define CORE_NONE	0xffffffffu

/* Sets of backups that are kept for each segment or request take 16 bits. */
_Static_assert(CORE_BACKUPS <= 16, "such a set has a bit for each backup");

/* Entries of the largest directory: of a segment full of the smallest entries. */
#define CORE_DIRECTORY_MAX \
	(LSMEM_SEGMENT_BYTES / (LSMEM_LONG_BYTES + sizeof(struct lsmem_directory_entry)))
/* The largest directory, and the footer. */
#define CORE_CLOSE_BYTES \
	(lsmem_directory_bytes(CORE_DIRECTORY_MAX) + LSMEM_BLOCK)

enum core_progress {
	CORE_IDLE,
	CORE_WRITING,
	CORE_WRITTEN,
	CORE_FLUSHING,
	CORE_DURABLE,
};

enum core_life {
	CORE_FREE,
	CORE_HEADER,
	CORE_OPENING,
	CORE_OPEN,
	CORE_CLOSED,
	CORE_SEALED,
	CORE_LEAVING,
};

/**
 * struct core_segment - a segment that has backup frames
 * @item: the segment; @item.state is what the durable digest says of it
 * @life: enum core_life; CORE_FREE: the entry is not in use
 * @on: backups with a replica of it; all of them count for what is durable
 * @listed: of @on, those that the durable digest lists
 * @adding: backups to which a replica or shard of the open segment is being written; see extend.c and rebuild.c
 * @near: of @adding, those to which all committed data have been issued
 * @bad: of @on, those whose replica failed the check when the segment was copied
 * @doubted: backups whose replica is to be checked
 * @kept: backups, none of @on, that may still have a replica: see keep.c
 * @uncopied: neither a replica nor the memory is sound: core does not try to copy it again
 * @dirty: it is in @dirty of struct core: the next digest record has to name it
 * @frame: backup frame, by backup
 * @coded: the segment is in a lane of a stripe. Sets of backups are those with a shard, and nothing is copied
 * @lane: of a coded segment
 * @shard: of a coded segment: its shard, by backup
 * @first_seglet: its first seglet in the log's memory when it was closed; CORE_NONE: not known
 * @seen: a RESUME event named it
 * @open: its struct core_open, or NULL
 * @next: segment number of the next entry in its hash chain; CORE_NONE: the last one
 */
struct core_segment {
	struct digest_item item;
	uint8_t life;
	uint16_t on, listed, adding, near, bad, doubted, kept;
	bool uncopied;
	bool dirty;
	uint32_t frame[CORE_BACKUPS];
	bool coded;
	struct lane lane;
	uint8_t shard[CORE_BACKUPS];
	uint32_t first_seglet;
	bool seen;
	struct core_open *open;
	uint32_t next;
};

/**
 * struct core_write - a write of log data in flight
 * @to: home offset, bytes: where its data end
 * @durable: it is a durable write: when it is done, all data up to @to are durable
 * @received: its bytes are in the memory of the host that keeps the backup
 * @done: it is done, and an earlier one is not
 */
struct core_write {
	uint32_t to;
	bool durable, received, done;
};

/**
 * struct core_replica - an open segment on one backup
 * @header: enum core_progress of the header block
 * @issued: bytes of log data given to writes
 * @received: bytes of the prefix that the host that keeps the backup has in memory
 * @written: bytes of the prefix whose writes are done
 * @flushing: @written when the last flush was issued
 * @flushed: bytes of the prefix that is durable
 * @first: of @writes, the oldest in flight
 * @next: of @writes, the next to use; both count modulo CORE_WRITES
 * @writes: in the order of their offsets
 * @block: LSMEM_BLOCK bytes: the header block, later the tail block
 */
struct core_replica {
	uint8_t header;
	uint32_t issued;
	uint32_t received;
	uint32_t written;
	uint32_t flushing;
	uint32_t flushed;
	uint32_t first, next;
	struct core_write writes[CORE_WRITES];
	uint8_t *block;
};

enum core_stripe_life {
	CORE_STRIPE_NONE,
	CORE_STRIPE_NEW,		/* the next digest names it */
	CORE_STRIPE_LISTED,
	CORE_STRIPE_LEAVING,		/* empty, with too few shards: the next digest removes it; its lanes are taken */
};

/**
 * struct core_rows - the rows of a coded segment from OPEN to CLOSED
 * @core: core
 * @open: the segment; NULL: it is closed, and requests to lost backups are in flight
 * @next: in the list of those
 * @in_flight: requests that use its memory
 * @writer: NULL: resumed, and the sides have not been read
 * @batches: by number of the batch, modulo ROW_BATCHES
 * @asked: resumed: reads of the sides have been started
 * @reading: backups on which these are in flight
 * @sides: resumed: both sides of each parity shard
 * @finish: closing: directory, footer, tables
 * @finishing: @finish is in use
 * @finished: all of its writes have been started
 * @end: closing: directory and footer
 */
struct core_rows {
	struct core *core;
	struct core_open *open;
	struct core_rows *next;
	uint32_t in_flight;
	struct row_writer *writer;
	/**
	 * @batches.number: of the batch
	 * @batches.to: by backup: writes in flight, whether all of them are durable writes, enum core_progress, and blocks of all
	 */
	struct core_row_batch {
		uint64_t number;
		struct {
			uint8_t left, state;
			bool durable;
			uint32_t blocks;
		} to[CORE_BACKUPS];
	} batches[ROW_BATCHES];
	bool asked;
	uint32_t reading;
	uint8_t *sides;
	struct row_finish finish;
	bool finishing, finished;
	const uint8_t *end;
};

/**
 * struct core_open - a segment from OPEN to CLOSED
 * @event: the OPEN event, or the RESUME event of a resumed segment
 * @segment: NULL while it waits for a frame
 * @used: the entry is in use
 * @headed: all headers are durable
 * @ack_open: OPEN is to be acknowledged
 * @ack_close: CLOSE is to be acknowledged
 * @reopened: resumed: the kernel will send OPEN again
 * @placed: @seglets is known from the first piece on
 * @closed: resumed: directory and footer are durable already
 * @closing: CLOSE has come, with @length, @entries and @first_seglet
 * @close: directory and footer being written, or NULL
 * @rows: of a coded segment; NULL: the segment has replicas, or is @closed
 * @stream: home offset at which the next range must begin
 * @committed: end of the ranges so far, home offset
 * @hold: nothing is written before @committed has reached this home offset
 * @durable: end of the last range that is durable on all replicas
 * @received: end of the last range that is, on each replica, durable or in the memory of the host
 *	that keeps it
 * @acked: @durable as acknowledged to the kernel
 * @acked_received: @received as acknowledged to the kernel
 * @length: bytes of log data, by CLOSE
 * @entries: objects and tombstones, by CLOSE
 * @first_seglet: first seglet of the log's memory, by CLOSE
 * @nr_bounds: elements of @bounds in use
 * @bounds: ends of ranges that are not durable yet; the last is @committed. What core acknowledges
 *	or lists ends where a range ends, and so where an entry ends: a recovery that checks it must
 *	not look for a part of an entry
 * @came: when each of these came, ns by core_time()
 * @need: by number of the retirement: bytes that must be durable before it
 * @need_close: retirements, as a mask, that wait until the segment is closed
 * @replica: by backup
 * @seglets: seglets of the log's memory that hold its pieces of 64 KiB, as far as ranges named them
 */
struct core_open {
	struct lsmem_event event;
	struct core_segment *segment;
	bool used;
	bool headed;
	bool ack_open, ack_close;
	bool reopened;
	bool placed;
	bool closed;
	bool closing;
	struct core_close *close;
	struct core_rows *rows;
	uint32_t stream;
	uint32_t committed;
	uint32_t hold;
	uint32_t durable, received;
	uint32_t acked, acked_received;
	uint32_t length, entries, first_seglet;
	uint32_t nr_bounds;
	uint32_t bounds[CORE_BOUNDS];
	uint64_t came[CORE_BOUNDS];
	uint32_t need[CORE_RETIRES];
	uint32_t need_close;
	struct core_replica replica[CORE_BACKUPS];
	uint32_t seglets[LSMEM_SEGLETS];
};

/**
 * struct core_close - a directory and footer being written
 * @open: its segment; NULL: not in use
 * @bytes: bytes at @buffer in use
 * @buffer: CORE_CLOSE_BYTES: the directory and the footer
 * @to: by backup: enum core_progress, and the bytes whose writes were issued and are done
 */
struct core_close {
	struct core_open *open;
	uint32_t bytes;
	uint8_t *buffer;
	struct core_transfer {
		uint8_t state;
		uint64_t issued, done;
	} to[CORE_BACKUPS];
};

/**
 * struct core_retire - a group of segments being retired
 * @nr: elements of @segments in use
 * @ready: everything that supersedes the segments is durable
 * @recorded: a digest without the segments is being written
 * @ack: RETIRE is to be acknowledged
 * @last: id of the segment that the last RETIRE event of the group named
 * @segments: their numbers
 */
struct core_retire {
	uint32_t nr;
	bool ready;
	bool recorded;
	bool ack;
	uint64_t last;
	uint32_t segments[CORE_VICTIMS];
};

/**
 * struct core_record - the digest record being written
 * @under_way: there is one
 * @full: it is a full record
 * @map: what its head says; no items
 * @first: backups that become members by it: they get it before the others
 * @half: half of the digest log to which it goes
 * @at: byte in the half
 * @bytes: its length
 * @buffers: one more than backups can be lost: a request to a lost backup keeps its buffer
 * @buffer: number of the buffer in use
 * @used: by backup: number of the buffer of its last request
 * @to: by backup: its progress
 * @nr: number of segments that it changes
 * @segments: numbers of these segments
 * @states: LSMEM_ITEM_* that it gives each of them; 0: it does not name the segment
 * @on: backups of the replicas that it lists of each
 * @nr_stripes: number of stripes that it lists or removes
 * @stripes: numbers of these stripes
 */
struct core_record {
	bool under_way;
	bool full;
	struct digest_map map;
	uint32_t first;
	uint32_t half;
	uint64_t at;
	uint64_t bytes;
	uint8_t *buffers[CORE_BACKUPS];
	uint32_t buffer, used[CORE_BACKUPS];
	struct core_transfer to[CORE_BACKUPS];
	uint32_t nr;
	uint32_t *segments;
	uint8_t *states;
	uint16_t *on;
	uint32_t nr_stripes;
	uint32_t *stripes;
};

/**
 * struct core_copy - the replica being restored
 * @segment: number of its segment; CORE_NONE: no replica is being restored
 * @from: backup that is read; CORE_BACKUPS: the log's memory
 * @to: backup that is written; CORE_BACKUPS: none yet, because bad replicas take the places; the
 *	same as @from: the backup still has the replica, and core writes its header only
 * @frame: backup frame on @to
 * @at: bytes that have been read, then bytes that have been written
 * @part: bytes in flight
 * @state: enum core_progress; CORE_IDLE: reading
 * @only: the replica on @from is only checked
 * @stop: the copy ends with the request in flight
 * @in_flight: a request is in flight
 * @verify: the check of what has been read
 * @buffer: LSMEM_SEGMENT_BYTES: core reads and checks all of a segment before it writes any of it
 */
struct core_copy {
	uint32_t segment;
	uint32_t from, to, frame;
	uint32_t at, part;
	uint8_t state;
	bool only, stop, in_flight;
	struct format_verify verify;
	uint8_t *buffer;
};

enum core_rebuild_step {
	CORE_REBUILD_LANE,		/* the next lane is to be read */
	CORE_REBUILD_KEPT_TABLE,	/* the table that the frame may have already is being read */
	CORE_REBUILD_KEPT_ROWS,		/* the rows that it names are being read there */
	CORE_REBUILD_TABLES,		/* tables are being read */
	CORE_REBUILD_ROWS,		/* rows are being read */
	CORE_REBUILD_SIDES,		/* of an open segment: records that the frame still has are being overwritten */
	CORE_REBUILD_WRITE,		/* the shard of a segment is being written */
	CORE_REBUILD_WRITTEN,		/* all lanes are written */
	CORE_REBUILD_FLUSHING,
};

/**
 * struct core_kept - a shard of a stripe that a returning backup may still have: see keep.c
 * @frame: of the backup
 * @lanes: segments that were the same there, as a mask of their lanes; 0: it has none
 * @shard: its number
 */
struct core_kept {
	uint32_t frame;
	uint16_t lanes;
	uint8_t shard;
};

/**
 * struct core_rebuild - the shard that is being made anew
 * @stripe: number of its stripe; CORE_NONE: none is being made
 * @shard: of all segments of the stripe
 * @to: backup that is written
 * @frame: on @to
 * @lane: that is being made
 * @done: lanes that are made, as a mask
 * @keeps: lanes that @frame may have already, as a mask
 * @kept: how many of these it had
 * @made: a lane was made anew
 * @held: lanes without a segment, which are taken until the end
 * @segments: by lane: number of its segment; CORE_NONE: none
 * @step: enum core_rebuild_step
 * @check: the segment in @lane is checked, and a bad shard of it written in its place: there is no @to
 * @all: all shards are read, not the first k
 * @stop: it ends when no request is in flight
 * @in_flight: requests
 * @read: of the segment in @lane
 * @nr: elements of @ranges in use
 * @at: of @ranges, the next to start
 * @ranges: what is to be read or written: blocks of a lane, which become fewer as requests are started
 * @next: number of the stripe to look at next
 * @check_next: number of the segment to look at next
 * @unmade: by number of the stripe: no shard of it could be made, and nothing has changed since
 * @lanes: blocks of all shards of a lane
 * @parity: m blocks
 * @whole: LSMEM_SEGMENT_BYTES, at their end the data of a lane: what is last in a segment is where a replica has it
 */
struct core_rebuild {
	uint32_t stripe, shard, to, frame;
	uint32_t lane, done, held, keeps, kept;
	uint32_t segments[CODE_SHARDS];
	uint8_t step;
	bool check, all, stop, made;
	uint32_t in_flight;
	struct row_read read;
	uint32_t nr, at;
	struct core_rebuild_range {
		uint32_t backup, shard, block, blocks;
	} ranges[2 * CODE_SHARDS];
	uint32_t next, check_next;
	bool *unmade;
	uint8_t *lanes, *parity, *whole;
};

#define CORE_BADS	32u	/* struct core_bad that wait for core_bad_next() */

enum core_op_kind {
	CORE_OP_FREE,
	CORE_OP_HEADER,
	CORE_OP_LOG,
	CORE_OP_CLOSE,
	CORE_OP_DIGEST,
	CORE_OP_FLUSH,
	CORE_OP_COPY,
	CORE_OP_ROWS,
	CORE_OP_SIDES,
	CORE_OP_REBUILD,
};

/**
 * struct core_op - a request in flight, or about to be started
 * @kind: enum core_op_kind
 * @open: the segment of a header or of log data, or NULL
 * @close: the directory and footer that it writes, or NULL
 * @rows: whose memory it uses, or NULL
 * @write: of log data: number in @writes of struct core_replica; of rows: the low half of the number of the batch; of a
 *	digest record: the low half of the sequence of the record before it
 * @io: the request
 */
struct core_op {
	uint8_t kind;
	struct core_open *open;
	struct core_close *close;
	struct core_rows *rows;
	uint32_t write;
	struct core_io io;
};

struct core {
	struct lsmem_super super[CORE_BACKUPS];
	__le64 past_incarnation[CORE_BACKUPS];	/* in the headers of kept replicas */
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint32_t domain[CORE_BACKUPS];
	uint32_t replicas, min_replicas;
	uint64_t copy_bytes, copy_left;
	struct core_log log;
	uint32_t io_bytes;
	uint32_t nr_backups;			/* bound of the indexes of backups */
	uint32_t members;			/* by the durable digest, and joining by @record */
	uint32_t lost;				/* of @members, those that get no requests */
	uint32_t joining;			/* members by a digest record not made yet */
	bool domains;				/* false: each backup is a domain of its own */
	uint32_t was_member;			/* members at any time */
	uint32_t nr_segments;			/* room in @segments */
	enum core_state state;
	char error[CORE_ERROR_BYTES];
	uint64_t changes;			/* counts progress; see core_run() */

	struct lsmem_event *queue;
	uint32_t queue_first, queue_next;
	struct lsmem_event *waiting;		/* OPENs without a struct core_open */
	uint32_t waiting_first, waiting_next;
	uint32_t generation_wanted;
	uint64_t store_time, next_segment;

	struct core_segment *segments;
	uint32_t *hash;
	uint32_t hash_mask;
	uint32_t *free_segments;
	uint32_t nr_free_segments;
	uint32_t *free_frames[CORE_BACKUPS];
	uint32_t nr_free[CORE_BACKUPS];
	uint32_t low;				/* backups with few free frames */
	uint32_t *dirty;			/* segments that the next digest has to name */
	uint32_t nr_dirty;
	bool urgent;				/* something waits for the next digest */
	bool full;				/* the next digest is to be a full one */
	bool tick;				/* core_tick() has come since the last digest */

	struct core_open opens[CORE_OPENS];
	struct core_open *list[CORE_OPENS];	/* of @opens, those in use, in the order of OPEN */
	uint32_t nr_opens;			/* elements of @list in use */
	uint8_t *blocks;			/* the blocks of all replicas of @opens */
	struct core_close closes[CORE_CLOSES];
	struct core_retire retires[CORE_RETIRES];
	uint32_t retire_first, retire_next;
	struct core_retire group;		/* being gathered from RETIRE events */
	uint32_t group_gone;			/* segments of the group that are in @gone */
	uint64_t *gone;				/* resumed segments that the digest has removed */
	uint32_t nr_gone;

	struct digest_map map;			/* of the last durable digest; no items */
	struct core_record record;
	uint32_t ceiling_ack;			/* generation ceiling for core_acks(); 0: none */

	struct code *code;			/* NULL: the store has no coded segments */
	bool coding;				/* new segments are coded */
	uint32_t least_shards;			/* a coded segment with fewer is not acknowledged */
	struct shard_geometry shards;
	uint64_t batch_ns;			/* partial rows wait for so long */
	uint64_t time_ns;			/* by core_time() */
	struct lanes *lanes;
	uint32_t nr_stripes;			/* bound of the numbers of stripes */
	uint8_t *stripes;			/* enum core_stripe_life */
	uint32_t *dirty_stripes;		/* that the next digest has to name */
	uint32_t nr_dirty_stripes;
	bool stripes_changed;			/* a stripe may have to leave */
	struct core_kept *kept[CORE_BACKUPS];	/* by number of the stripe; NULL: the backup has not come back */
	struct core_rows *rows;			/* of closed segments, used by requests to lost backups */

	struct core_rebuild rebuild;
	bool rebuilds;				/* a stripe may lack a shard that can be made */

	struct core_copy copy;
	uint32_t copy_next;			/* number of the segment to look at next */
	bool copies;				/* a segment may need a copy */
	uint32_t scrub_ticks;			/* in a period; 0: no scrubbing */
	uint32_t scrub_next;			/* number of the segment to check next */
	uint64_t scrub_due;			/* segments to check, times @scrub_ticks */
	struct core_bad bads[CORE_BADS];
	uint32_t bads_first, bads_next;

	struct core_op ops[CORE_OPS];		/* CORE_IOS of each backup */
	uint32_t nr_ops[CORE_BACKUPS];		/* of @ops, in use */
	uint32_t out[CORE_OPS];			/* of @ops, those for core_io_next() */
	uint32_t out_first, out_next;
	bool flush_wanted[CORE_BACKUPS];
	bool flushing[CORE_BACKUPS];

	struct core_stats stats;
};

/* Backups that take requests. */
static inline uint32_t core_alive(const struct core *core)
{
	return core->members & ~core->lost;
}

#define core_each_backup(b, mask)						\
	for (uint32_t left_ = (mask); left_ && ((b) = __builtin_ctz(left_), true);	\
	     left_ &= left_ - 1)

/* core.c */
void core_fail(struct core *core, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
struct core_op *core_op_get(struct core *core, enum core_op_kind kind, uint32_t backup, bool spare);
void core_op_add(struct core_op *op, const void *data, uint32_t length);
void core_op_start(struct core *core, struct core_op *op, uint64_t offset);
void core_run(struct core *core);

/* core/set.c */
uint32_t core_wanted(const struct core *core);
uint32_t core_join(struct core *core);
uint32_t core_choose(const struct core *core, uint64_t id);
uint32_t core_choose_some(const struct core *core, uint64_t id, uint32_t nr, uint32_t left);
uint32_t core_choose_shard(const struct core *core, uint32_t taken, uint32_t first);
uint32_t core_left_of(const struct core *core, uint32_t nr);
uint32_t core_left_without(const struct core *core, uint32_t nr, uint32_t less);
bool core_domain_taken(const struct core *core, uint32_t taken, uint32_t b);
uint32_t core_choose_more(const struct core *core, const struct core_segment *seg);
uint32_t core_choose_copy(const struct core *core, const struct core_segment *seg);
uint32_t core_segments_left(const struct core *core);
void core_frame_free(struct core *core, uint32_t backup, uint32_t frame);
void core_shrunk(struct core *core, uint32_t members);
void core_backup_stop(struct core *core, uint32_t backup, const char *why);

/* core/copy.c */
void core_copy_tell(struct core *core, const struct core_segment *seg, uint32_t backup, int error,
		    enum format_error format);
void core_replica_doubt(struct core *core, uint64_t segment, uint32_t generation, uint32_t backup);
void core_copy_run(struct core *core);
void core_copy_done(struct core *core, struct core_op *op, int error);
void core_copy_stop(struct core *core, uint32_t segment);
void core_copy_flush(struct core *core, uint32_t backup);
void core_copy_flushed(struct core *core, uint32_t backup);

/* core/keep.c */
void core_keep_past(struct core *core, uint32_t backup, const struct digest_past *past);
uint32_t core_keep_shard(struct core *core, uint32_t stripe, struct core_kept *kept);
void core_keep_no_shard(struct core *core, uint32_t stripe, bool gone);
void core_keep_lose(struct core *core, uint32_t backup);
void core_keep_join(struct core *core, uint32_t backup);
uint32_t core_keep_choose(struct core *core, struct core_segment *seg);
void core_keep_none(struct core *core, struct core_segment *seg);

/* core/scrub.c */
void core_scrub_tick(struct core *core);

/* core/extend.c */
void core_extend_run(struct core *core);
void core_extend_flushed(struct core *core, struct core_open *open, uint32_t backup);
void core_extend_stop(struct core_segment *seg, uint32_t backup);

/* core/stripe.c */
int core_stripes_alloc(struct core *core, const struct core_params *params);
void core_stripes_free(struct core *core);
bool core_stripes_adopt(struct core *core, const struct digest_map *map);
uint32_t core_shards(const struct core *core);
uint32_t core_lanes_left(const struct core *core);
void core_stripes_stats(const struct core *core, struct core_stats *stats);
bool core_lane_take(struct core *core, uint64_t id, struct lane *lane);
void core_lane_use(struct core *core, struct core_segment *seg, const struct lane *lane);
void core_lane_give(struct core *core, const struct core_segment *seg);
void core_stripe_dirty(struct core *core, uint32_t stripe, enum core_stripe_life life);
void core_stripes_run(struct core *core);
uint32_t core_stripe_on(const struct core *core, uint32_t stripe);
void core_stripes_lose(struct core *core, uint32_t backup);
uint32_t core_stripes_items(const struct core *core);
void core_stripes_record(struct core *core, struct lsmem_digest *digest);
void core_stripes_durable(struct core *core);

/* core/rebuild.c */
int core_rebuild_alloc(struct core *core);
void core_rebuild_free(struct core *core);
void core_rebuild_retry(struct core *core);
void core_rebuild_run(struct core *core);
void core_rebuild_stop(struct core *core);
void core_rebuild_lost(struct core *core, uint32_t backup);
bool core_rebuild_holds(struct core *core, const struct lane *lane);
void core_rebuild_done(struct core *core, const struct core_op *op, int error);
void core_rebuild_flush(struct core *core, uint32_t backup);
void core_rebuild_flushed(struct core *core, uint32_t backup);

/* core/rows.c */
void core_rows_place(struct core *core, struct core_open *open);
void core_rows_resume(struct core *core, struct core_open *open);
void core_rows_put(struct core_rows *rows);
void core_rows_free(struct core *core);
bool core_rows_release(struct core_rows *rows);
void core_rows_run(struct core *core, struct core_open *open);
bool core_rows_waiting(const struct core_open *open);
uint64_t core_rows_due(const struct core *core, const struct core_open *open);
void core_rows_done(struct core *core, struct core_op *op);
uint64_t core_rows_flush(struct core_rows *rows, uint32_t backup);
void core_rows_flushed(struct core_rows *rows, uint32_t backup);
void core_rows_sides(struct core *core, struct core_op *op, int error);
void core_rows_lost(struct core_rows *rows, uint32_t backup);
void core_rows_shrunk(struct core_rows *rows, uint32_t backup);
bool core_rows_may_add(const struct core *core, const struct core_open *open);
uint32_t core_rows_add(struct core *core, struct core_segment *seg, uint32_t backup, uint8_t *to, uint8_t *scratch);
bool core_rows_give_up(struct core_segment *seg, uint32_t backup);
void core_rows_listed(struct core_rows *rows);
bool core_rows_close(struct core_rows *rows, const struct core_close *close);
bool core_rows_close_run(struct core *core, struct core_close *close);

/* core/segment.c */
const uint8_t *core_memory(const struct core *core, const struct core_open *open, uint32_t at);
bool core_fits(const struct core *core, const struct core_segment *seg, uint32_t length, uint32_t entries);
void core_count_group(struct core *core, uint32_t backup, uint64_t bytes, uint32_t segments);
void core_take_durable(struct core *core, struct core_open *open, uint32_t durable, uint32_t received);
struct core_segment *core_segment_find(struct core *core, uint64_t id);
struct core_segment *core_segment_put(struct core *core, const struct digest_item *item,
				      enum core_life life);
void core_segment_free(struct core *core, struct core_segment *seg);
void core_segment_dirty(struct core *core, struct core_segment *seg);
struct core_open *core_open_get(struct core *core);
void core_open_put(struct core *core, struct core_open *open);
bool core_opened(struct core *core, const struct lsmem_event *event);
void core_range(struct core *core, const struct lsmem_event *event);
void core_make_header(const struct core *core, const struct core_segment *seg, uint32_t backup,
		      uint64_t time, struct lsmem_segment_header *header);
void core_write_header(struct core *core, struct core_open *open, uint32_t backup);
void core_segments_run(struct core *core);
void core_header_check(struct core *core, struct core_open *open);
void core_header_done(struct core *core, struct core_op *op);
void core_log_done(struct core *core, struct core_op *op);
void core_log_received(struct core_op *op);
void core_segments_flush(struct core *core, uint32_t backup);
void core_segments_flushed(struct core *core, uint32_t backup);
bool core_segments_drained(const struct core *core);
uint32_t core_follow(const struct core *core, uint32_t seglet);
uint32_t core_seglets(const struct core *core, struct core_open *open,
		      const struct lsmem_event *event, uint32_t from);

/* core/exact.c */
uint64_t core_exact(const struct core *core);
bool core_exact_allows(struct core *core, const struct core_open *open);

static inline uint32_t core_number(const struct core *core, const struct core_segment *seg)
{
	return seg - core->segments;
}

/* Return: the byte at which a replica, or the lane of a shard, begins on its backup. */
static inline uint64_t core_where(const struct core *core, const struct core_segment *seg,
				  uint32_t backup)
{
	uint64_t lane = seg->coded ? (uint64_t)seg->lane.lane * core->shards.blocks * LSMEM_BLOCK : 0;

	return format_frame_offset(&core->super[backup], seg->frame[backup]) + lane;
}

/* Return: can a segment that has only the replicas or shards on @on be read? */
static inline bool core_readable(const struct core *core, const struct core_segment *seg, uint32_t on)
{
	return seg->coded ? (uint32_t)__builtin_popcount(on) >= core->shards.k : on != 0;
}

/* core/close.c */
void core_closed(struct core *core, const struct lsmem_event *event);
void core_closes_run(struct core *core);
void core_close_done(struct core *core, struct core_op *op);
void core_closes_flush(struct core *core, uint32_t backup);
void core_closes_flushed(struct core *core, uint32_t backup);

/* core/digest.c */
uint64_t core_record_bytes(const struct core *core);
bool core_retire(struct core *core, const struct lsmem_event *event);
void core_retires_run(struct core *core);
void core_digest_run(struct core *core);
void core_digest_done(struct core *core, struct core_op *op);
void core_digest_flush(struct core *core, uint32_t backup);
void core_digest_flushed(struct core *core, uint32_t backup);
void core_record_check(struct core *core);

/* core/resume.c */
void core_resume(struct core *core, const struct lsmem_event *event);

#endif
