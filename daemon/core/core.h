/* SPDX-License-Identifier: GPL-2.0 */
/*
 * core: the daemon's decisions, a deterministic state machine apart from its
 * I/O.  No system calls, no clocks, no threads; all memory is allocated by
 * core_new().  The same calls in the same order give the same decisions, which
 * is how the tests crash it thousands of times a second.
 *
 * In:	core_event()	from the kernel, in order	core_clock()	with them
 *	core_io_done()	a request has ended		core_tick()	now and then
 *	core_shutdown()	drain and stop			core_lose()	a backup is not there any more
 *							core_add()	one is there, to be used
 * Out:	core_io_next()	requests to start at once	core_acks()	for the kernel
 *	core_state()	and core_error()
 *
 * After any input take all requests and all acknowledgements: one loop round is
 *
 *	read completions -> core_io_done() for each
 *	LSMEM_REPL_NEXT with nr = core_room() (if that is at least 128)
 *	    -> core_clock(), core_event() for each
 *	core_io_next() until it says no; core_acks() until it gives less than asked
 *
 * Outputs are pulled, never pushed: no callbacks.
 */
#ifndef LSMEMD_CORE_H
#define LSMEMD_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "format/digest.h"
#include "format/format.h"
#include "base/histogram.h"

#include <lsmem.h>

#define CORE_BACKUPS		LSMEM_BACKUPS
#define CORE_IO_BYTES		(1u << 20)
#define CORE_IO_VECTORS		(CORE_IO_BYTES / LSMEM_SEGLET_BYTES + 2)
#define CORE_IOS		64u	/* most requests in flight on a backup */
#define CORE_ERROR_BYTES	256u

struct core;

enum core_state {
	CORE_RESUMING,		/* wants RESUME events before anything else */
	CORE_RUNNING,
	CORE_DRAINING,		/* after core_shutdown() */
	CORE_STOPPED,		/* all durable, the last digest too: close and go */
	CORE_FAILED,		/* core_error() says why: nothing more is done or acknowledged */
};

/**
 * struct core_log - the store's log in memory: the daemon's windows
 * @frames: window of all frames; NULL-free, LSMEM_SEGLET_BYTES each
 * @table: the frame table; read once for each step, trusted never
 * @nr_frames: entries of both
 */
struct core_log {
	const uint8_t *frames;
	const struct lsmem_frame *table;
	uint32_t nr_frames;
};

/**
 * struct core_params - for core_new()
 * @super: superblocks by the index of the backup; NULL: it is not there.  Those
 *	that are members and not there are lost (core_lose())
 * @joining: superblocks of those that are to become members
 * @past: of these, what they held before; NULL: nothing that could be kept
 * @domain: where each is: replicas of a segment are in different ones
 * @domains: there are several, also if those that are there are in one; else each
 *	backup is a domain of its own
 * @replicas: wanted of each segment, 0: one on every backup
 * @min_replicas: nothing of a segment with fewer is acknowledged; 0: 1.  With fewer
 *	backups than that nothing at all is, until one is added
 * @copy_bytes: of segments that have lost a replica, to be copied between two
 *	ticks; 0: all at once
 * @map: the newest durable digest; copied
 * @log: the store's memory
 * @resume: the kernel's store was ACTIVE when we attached: RESUME events come
 * @io_bytes: longest request wanted, a multiple of LSMEM_BLOCK,
 *	64 KiB .. CORE_IO_BYTES
 */
struct core_params {
	const struct lsmem_super *super[CORE_BACKUPS];
	const struct lsmem_super *joining[CORE_BACKUPS];
	const struct digest_past *past[CORE_BACKUPS];
	uint32_t domain[CORE_BACKUPS];
	bool domains;
	uint32_t replicas;
	uint32_t min_replicas;
	uint64_t copy_bytes;
	const struct digest_map *map;
	struct core_log log;
	bool resume;
	uint32_t io_bytes;
};

enum core_io_kind {
	CORE_IO_WRITE,
	CORE_IO_FLUSH,
	CORE_IO_READ,
};

/**
 * struct core_io - a request
 * @id: to be given back to core_io_done()
 * @kind: a flush covers the writes whose core_io_done() was called before
 *	core_io_next() returned the flush; writes in flight are not ordered
 * @durable: of a write: it is durable when it is done, others are when a flush is
 * @backup: index of the backup
 * @offset, @length: in the backup, multiples of LSMEM_BLOCK; 0 for a flush
 * @iov, @nr_iov: where the bytes are, or go, all in multiples of LSMEM_BLOCK and aligned to it:
 *	log memory (zero-copy) or core's own, unchanged until core_io_done()
 */
struct core_io {
	uint32_t id;
	enum core_io_kind kind;
	bool durable;
	uint32_t backup;
	uint64_t offset;
	uint32_t length;
	uint32_t nr_iov;
	struct iovec iov[CORE_IO_VECTORS];
};

/* What a write is for. */
enum core_part {
	CORE_PART_HEADER,
	CORE_PART_LOG,		/* and replicas made anew, or kept */
	CORE_PART_DIRECTORY,	/* and footer */
	CORE_PART_DIGEST,
	CORE_PARTS,
};

enum core_backup_state {
	CORE_BACKUP_NONE,
	CORE_BACKUP_JOINING,		/* a member as soon as the next digest can be made */
	CORE_BACKUP_MEMBER,
	CORE_BACKUP_LEAVING,		/* lost, and no durable digest says so yet */
	CORE_BACKUP_LOST,
};

/**
 * struct core_backup_stats - one backup's part of struct core_stats
 * @bytes, @writes: done, by what they were for
 * @group_bytes, @group_segments: log data that were in a flush for the first
 *	time, or in a write that is durable by itself, and of how many segments;
 *	flushes without any are not counted
 * @lag_bytes, @lag_segments: gauges: committed, and not durable on this one
 * @state, @frames, @frames_free, @in_flight: gauges
 * @frames_low: gauge: too few of them are free; see core_low()
 */
struct core_backup_stats {
	uint64_t bytes[CORE_PARTS];
	uint64_t writes[CORE_PARTS];
	uint64_t flushes;
	struct histogram group_bytes, group_segments;
	uint64_t lag_bytes, lag_segments;
	enum core_backup_state state;
	uint64_t frames, frames_free, frames_low;
	uint64_t in_flight;
};

/**
 * struct core_stats - counters since core_new(), gauges marked
 */
struct core_stats {
	struct core_backup_stats backup[CORE_BACKUPS];
	uint64_t written_bytes;		/* of requests done, all kinds */
	uint64_t log_bytes;		/* made durable */
	uint64_t bounced_bytes;		/* copied: tail blocks */
	uint64_t writes;
	uint64_t flushes;
	uint64_t digests;
	uint64_t digests_full;
	uint64_t opened;
	uint64_t closed;
	uint64_t retired;
	uint64_t copied_bytes;		/* to restore replicas */
	uint64_t copied;		/* replicas */
	uint64_t copied_memory;		/* of these, segments whose replicas were all bad */
	uint64_t kept;			/* replicas that a backup which came back still had */
	uint64_t copies_failed;		/* segments of which no sound replica was found */
	uint64_t bad_replicas;		/* found while a segment was to be copied */
	uint32_t frames;		/* gauge: of all backups */
	uint32_t frames_free;		/* gauge */
	uint32_t segments;		/* gauge: listed or to be */
	uint32_t in_flight;		/* gauge: requests */
	uint32_t lag_segments;		/* gauge: segments with bytes not yet durable */
	uint64_t lag_bytes;		/* gauge */
	uint64_t memory_bytes;		/* gauge: acknowledged as received, not yet durable */
	uint64_t epoch;			/* gauges: of the last durable digest */
	uint64_t sequence;
	uint32_t short_segments;	/* gauge: with fewer sound replicas than wanted */
	uint32_t short_open;		/* gauge: those that are not closed yet */
};

/* NULL: no memory, or params that do not fit together (@error tells). */
struct core *core_new(const struct core_params *params, char error[CORE_ERROR_BYTES]);
void core_free(struct core *core);

/* How many more events core can take; take no more than this from the kernel. */
uint32_t core_room(const struct core *core);

/* Segments that survivors of cleaning can have: free, or opened and still empty. */
uint32_t core_frames_left(const struct core *core);

/* Which backups are nearly full: a mask, as of the last tick. */
uint32_t core_low(const struct core *core);

/* What LSMEM_REPL_NEXT said beside its events; call before core_event(). */
void core_clock(struct core *core, uint32_t generation_wanted, uint64_t store_time,
		uint64_t next_segment);

/* An event, in the kernel's order.  What does not make sense ends in FAILED. */
void core_event(struct core *core, const struct lsmem_event *event);

/* Something is worth a digest even if nobody waits for it: every second or so. */
void core_tick(struct core *core);

/* The request with @id has ended, @error 0 or a negative errno.  Whole or
 * failed: short transfers are the caller's to complete.  After a failed write or
 * flush the backup is lost (invariant 3): core_error() says why, if it was the
 * last that could be.
 */
void core_io_done(struct core *core, uint32_t id, int error);

/* The request with @id, a write, is under way, and its bytes are in the memory of who
 * keeps the backup, who writes them whatever becomes of us: acknowledged so,
 * LSMEM_ACK_RECEIVED.  A write given out after that may be of the same blocks, and must
 * land after it.
 */
void core_io_received(struct core *core, uint32_t id);

/* A backup is not there any more, or too slow.  What is in flight on it is to be
 * given to core_io_done() all the same, if it ends: until then its memory is in
 * use.  Nothing is acknowledged without the backup before a durable digest says
 * that it is no member.
 */
void core_lose(struct core *core, uint32_t backup, const char *why);

/* A backup that is no member is to become one: as those of core_params.joining, whose
 * @super and @domain these are, and @past.  False: it is one, or core is not CORE_RUNNING, or what it
 * had in flight has not ended: not now; or it has more frames than the digest has room for.
 */
bool core_add(struct core *core, uint32_t backup, const struct lsmem_super *super,
	      uint32_t domain, const struct digest_past *past);

/* Failure domains of the members that are not lost: so many replicas can a segment have. */
uint32_t core_domains_left(const struct core *core);

enum core_backup_state core_backup(const struct core *core, uint32_t backup);

/* The next request to start; false: none now. */
bool core_io_next(struct core *core, struct core_io *io);

/* Acknowledgements for LSMEM_REPL_ACK, up to @max; @ceiling is set to a newly
 * durable generation ceiling or 0.  They count as delivered: if the call to the
 * kernel fails, the daemon must end.
 */
uint32_t core_acks(struct core *core, struct lsmem_ack_one *acks, uint32_t max,
		   uint32_t *ceiling);

/* No more events are coming; make all durable, write a last full digest, stop. */
void core_shutdown(struct core *core);

/* Superblock of a member, which others are made like (recover_ready()); @log: out, of the
 * newest durable digest.
 */
const struct lsmem_super *core_super(const struct core *core, struct digest_log *log);

/* Low half of a backup's incarnation, as digests have it; 0: it was never there. */
uint32_t core_incarnation(const struct core *core, uint32_t backup);

/**
 * struct core_bad - a replica that was found bad, or a segment without a sound one
 * @segment: its id
 * @backup: index; CORE_BACKUPS: no replica of the segment is sound, and it is not copied
 * @frame: of the backup
 * @error: of the read, a negative errno; 0: @format tells
 * @format: what is wrong with what was read
 */
struct core_bad {
	uint64_t segment;
	uint32_t backup, frame;
	int error;
	enum format_error format;
};

/* The next one to be told to the operator; false: none.  Of many at once only the counters
 * in core_stats() know.
 */
bool core_bad_next(struct core *core, struct core_bad *bad);

enum core_state core_state(const struct core *core);
const char *core_error(const struct core *core);
void core_stats(const struct core *core, struct core_stats *stats);

#endif
