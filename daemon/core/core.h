/* SPDX-License-Identifier: GPL-2.0 */
/*
 * core: the decisions of the daemon while it serves a store, as a deterministic state machine
 * without I/O. Core makes no system call, reads no clock, and has no threads and no locks: one
 * thread calls it at a time. core_new() allocates all of its memory, but for the rows of a coded segment,
 * which waits for that if there is none. The same calls in the same
 * order give the same decisions, so the tests can crash core thousands of times a second.
 *
 * In:	core_event()	from the kernel, in order	core_clock()	what comes with events
 *	core_io_done()	a request has ended		core_tick()	about every second
 *	core_lose()	a backup is gone		core_add()	a backup is to join
 *	core_time()	of a coded store whose rows wait: before events, and when core_due() has come
 *	core_shutdown()	drain and stop
 * Out:	core_io_next()	requests to start at once	core_acks()	for the kernel
 *	core_state()	and core_error()
 *
 * After each input the caller takes all requests and all acknowledgements. One round of the loop:
 *
 *	read completions -> core_io_done() for each
 *	LSMEM_REPL_NEXT with nr = core_room() (if that is at least 128)
 *	    -> core_clock(), core_event() for each
 *	core_io_next() until it returns false; core_acks() until it returns less than @max
 *
 * The caller pulls outputs; core calls nothing back.
 */
#ifndef LSMEMD_CORE_H
#define LSMEMD_CORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "format/digest.h"
#include "format/format.h"
#include "base/histogram.h"

#include <lsmem.h>

#define CORE_BACKUPS		LSMEM_BACKUPS
#define CORE_IO_BYTES		(1u << 20)
#define CORE_IO_VECTORS		(CORE_IO_BYTES / LSMEM_SEGLET_BYTES + 2)
#define CORE_IOS		64u	/* requests in flight on a backup, at most */
#define CORE_ERROR_BYTES	256u
#define CORE_NEVER		UINT64_MAX

struct core;

enum core_state {
	CORE_RESUMING,		/* expects RESUME events before all others */
	CORE_RUNNING,
	CORE_DRAINING,		/* after core_shutdown() */
	CORE_STOPPED,		/* everything is durable, the last digest too */
	CORE_FAILED,		/* core_error() says why; core starts and acknowledges nothing */
};

/**
 * struct core_log - the store's log in memory, as the kernel's windows show it
 * @seglets: all seglets, LSMEM_SEGLET_BYTES each
 * @table: the table of seglets. The kernel can change it at any time: core loads each entry once
 *	and checks it
 * @nr_seglets: number of seglets, and of entries of @table
 */
struct core_log {
	const uint8_t *seglets;
	const struct lsmem_seglet *table;
	uint32_t nr_seglets;
};

/**
 * struct core_params - for core_new()
 * @super: superblocks by the index of the backup; NULL: absent. A member that is absent is lost
 *	(core_lose())
 * @joining: superblocks of the backups that are to become members; NULL: none with this index
 * @past: what each of @joining held before; NULL: nothing that core could keep
 * @domain: failure domain of each backup; the replicas of a segment are in different ones
 * @domains: domains are configured; false: each backup is a domain of its own
 * @replicas: wanted of each segment; 0: one on every backup
 * @min_replicas: core acknowledges nothing of a segment with fewer replicas; 0: 1
 * @k: of a coded store: data shards of new segments, which get no replicas; 0: new segments get replicas. Whatever it is, each
 *	segment that @map lists stays as it is listed, with shards or replicas
 * @m: parity shards
 * @min_parity: core acknowledges nothing of a coded segment with fewer than @k + @min_parity shards
 * @copy_bytes: bytes that core reads between two ticks to restore replicas, at most; 0: no limit
 * @map: the newest durable digest; core copies it
 * @log: the store's memory
 * @resume: the store was ACTIVE when the daemon attached: RESUME events come first
 * @io_bytes: length of the longest request, a multiple of LSMEM_BLOCK, LSMEM_SEGLET_BYTES ..
 *	CORE_IO_BYTES
 */
struct core_params {
	const struct lsmem_super *super[CORE_BACKUPS];
	const struct lsmem_super *joining[CORE_BACKUPS];
	const struct digest_past *past[CORE_BACKUPS];
	uint32_t domain[CORE_BACKUPS];
	bool domains;
	uint32_t replicas;
	uint32_t min_replicas;
	uint32_t k, m, min_parity;
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
 * @id: for core_io_done()
 * @kind: a flush covers the writes whose core_io_done() was called before core_io_next() returned
 *	the flush; writes in flight are not ordered
 * @durable: of a write: its bytes must be durable when it completes; otherwise a later flush makes
 *	them durable
 * @backup: index of the backup
 * @offset: byte in the backup, a multiple of LSMEM_BLOCK; 0 for a flush
 * @length: bytes, a multiple of LSMEM_BLOCK; 0 for a flush
 * @nr_iov: elements of @iov
 * @iov: memory to write from or to read into, in multiples of LSMEM_BLOCK and aligned to it. The
 *	memory is the log's (not copied) or core's own, and stays until core_io_done()
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

/* The content of a write, for statistics. */
enum core_part {
	CORE_PART_HEADER,
	CORE_PART_LOG,		/* log data, their parity, and copies that restore a replica */
	CORE_PART_DIRECTORY,	/* directory and footer; of a coded segment its last rows and tables */
	CORE_PART_DIGEST,
	CORE_PARTS,
};

enum core_backup_state {
	CORE_BACKUP_NONE,
	CORE_BACKUP_JOINING,		/* the next digest makes it a member */
	CORE_BACKUP_MEMBER,
	CORE_BACKUP_LEAVING,		/* lost, but the durable digest still names it */
	CORE_BACKUP_LOST,		/* was a member */
};

/**
 * struct core_backup_stats - one backup's part of struct core_stats
 * @bytes: bytes written, by enum core_part
 * @writes: writes done, by enum core_part
 * @flushes: flushes done
 * @group_bytes: bytes of log data, or of rows of coded segments, that one flush or one durable write made durable; flushes
 *	without any do not count
 * @group_segments: segments that these bytes belong to
 * @lag_bytes: gauge: bytes that are committed, and not durable on this backup
 * @lag_segments: gauge: segments with such bytes
 * @state: gauge
 * @frames: gauge: backup frames
 * @frames_free: gauge: of @frames, free; of a coded store also those of stripes without a segment
 * @frames_low: gauge: 1: too few are free; see core_low()
 * @replicas: gauge: replicas on it
 * @data_shards: gauge: of a coded store: shards on it that have log data
 * @parity_shards: gauge: of a coded store: shards on it that have parity
 * @in_flight: gauge: requests in flight
 */
struct core_backup_stats {
	uint64_t bytes[CORE_PARTS];
	uint64_t writes[CORE_PARTS];
	uint64_t flushes;
	struct histogram group_bytes, group_segments;
	uint64_t lag_bytes, lag_segments;
	enum core_backup_state state;
	uint64_t frames, frames_free, frames_low;
	uint64_t replicas, data_shards, parity_shards;
	uint64_t in_flight;
};

/**
 * struct core_stats - counters since core_new(), and gauges
 * @backup: by index of the backup
 * @written_bytes: bytes of all writes that are done
 * @log_bytes: bytes of log data made durable
 * @bounced_bytes: bytes of log data that core copied before it wrote them: tail blocks
 * @writes: writes done
 * @flushes: flushes done
 * @digests: digest records made durable
 * @digests_full: of @digests, full records
 * @opened: segments opened
 * @closed: segments closed
 * @retired: segments retired
 * @copied_bytes: bytes written to restore replicas
 * @copied: replicas restored by copying
 * @copied_memory: of @copied, those copied from memory because all replicas were bad
 * @kept: replicas, and shards of segments, that a returning backup still had
 * @copies_failed: segments without a sound replica to copy
 * @checked: replicas read to check them, because of core_scrub() or of a read in vain
 * @bad_replicas: bad replicas found while copying and checking
 * @unfit: of a coded store: shards, and segments, that were found to be of other data than what they belong to
 * @batches: of a coded store: batches of rows, as they were started
 * @batches_partial: of @batches, those that end with a partial row
 * @rows_full: full rows in these
 * @data_blocks: blocks of log data in these, each as often as it was written
 * @parity_blocks: blocks of parity and of parity records in these
 * @frames: gauge: backup frames of all members
 * @frames_free: gauge: of @frames, free
 * @segments: gauge: segments that have backup frames
 * @coded: gauge: of @segments, coded ones; the others have replicas
 * @unlike: gauge: of @segments, those of another kind than new ones
 * @in_flight: gauge: requests in flight on members
 * @lag_segments: gauge: segments with committed bytes that are not durable yet
 * @lag_bytes: gauge: these bytes
 * @memory_bytes: gauge: bytes acknowledged as received, not durable yet
 * @term: gauge: of the last durable digest
 * @sequence: gauge: of the last durable digest
 * @short_segments: gauge: closed segments with fewer sound replicas, or shards, than wanted
 * @short_open: gauge: the same of segments that are not closed yet
 */
struct core_stats {
	struct core_backup_stats backup[CORE_BACKUPS];
	uint64_t written_bytes;
	uint64_t log_bytes;
	uint64_t bounced_bytes;
	uint64_t writes;
	uint64_t flushes;
	uint64_t digests;
	uint64_t digests_full;
	uint64_t opened;
	uint64_t closed;
	uint64_t retired;
	uint64_t copied_bytes;
	uint64_t copied;
	uint64_t copied_memory;
	uint64_t kept;
	uint64_t copies_failed;
	uint64_t checked;
	uint64_t bad_replicas;
	uint64_t unfit;
	uint64_t batches, batches_partial;
	uint64_t rows_full;
	uint64_t data_blocks, parity_blocks;
	uint32_t frames;
	uint32_t frames_free;
	uint32_t segments, coded, unlike;
	uint32_t in_flight;
	uint32_t lag_segments;
	uint64_t lag_bytes;
	uint64_t memory_bytes;
	uint64_t term;
	uint64_t sequence;
	uint32_t short_segments;
	uint32_t short_open;
};

/**
 * core_new - make a state machine
 * @params: what it works on; not used after the call, but for the memory of @params->log
 * @error: out: why there is none; "" on success
 *
 * Return: the state machine; NULL: no memory, or @params contradict each other.
 */
struct core *core_new(const struct core_params *params, char error[CORE_ERROR_BYTES]);

/**
 * core_free - free a state machine
 * @core: has no request in flight; may be NULL
 */
void core_free(struct core *core);

/**
 * core_room - how many more events core can take
 * @core: core
 *
 * The caller must not take more events than this from the kernel.
 */
uint32_t core_room(const struct core *core);

/**
 * core_frames_left - how many segments the survivors of cleaning can have
 * @core: core
 *
 * Return: the segments that can still be opened, plus the open segments that are empty.
 */
uint32_t core_frames_left(const struct core *core);

/**
 * core_limit - how many segments the backups have room for
 * @core: core
 *
 * Return: the segments that there are, and those that can still be opened.
 */
uint32_t core_limit(const struct core *core);

/**
 * core_lists - does a segment have frames on backups?
 * @core: core
 * @segment: its id
 *
 * Return: false: it never had any, or a durable digest without it has been written.
 */
bool core_lists(struct core *core, uint64_t segment);

/**
 * core_unlike - find segments of another kind than new ones: with replicas, if these are coded, or coded ones
 * @core: core
 * @from: lowest id
 * @segments: out: ids of closed and sealed ones, the lowest from @from on
 * @lengths: out: bytes of their log data
 * @most: how many, at least 1
 *
 * Return: how many there are in @segments.
 */
uint32_t core_unlike(const struct core *core, uint64_t from, uint64_t *segments, uint32_t *lengths, uint32_t most);

/**
 * struct core_listed - a segment of which nothing changes any more, and its replicas
 * @generation: of the segment
 * @length: bytes of log data
 * @closed: it has a directory; false: a recovery has sealed it
 * @replicas: mask of the backups with a replica, which may be damaged
 * @offset: by index of the backup: where the frame of the replica begins, bytes
 */
struct core_listed {
	uint32_t generation, length;
	bool closed;
	uint32_t replicas;
	uint64_t offset[CORE_BACKUPS];
};

/**
 * core_listed - where can the directory of a segment be read?
 * @core: core
 * @segment: its id
 * @listed: out
 *
 * Return: false: the segment is open, or retired, or coded, or has no frames.
 */
bool core_listed(struct core *core, uint64_t segment, struct core_listed *listed);

/**
 * core_low - which backups are nearly full
 * @core: core
 *
 * Return: a mask of their indexes, as of the last core_tick().
 */
uint32_t core_low(const struct core *core);

/**
 * core_clock - take what LSMEM_REPL_NEXT returns beside its events
 * @core: core
 * @generation_wanted: as in struct lsmem_next
 * @store_time: as in struct lsmem_next
 * @next_segment: as in struct lsmem_next
 *
 * The caller calls this before core_event() for these events.
 */
void core_clock(struct core *core, uint32_t generation_wanted, uint64_t store_time,
		uint64_t next_segment);

/**
 * core_event - take an event
 * @core: core
 * @event: the next one, in the kernel's order; at most core_room() of them. An impossible event
 *	leads to CORE_FAILED
 */
void core_event(struct core *core, const struct lsmem_event *event);

/**
 * core_tick - do the periodic work
 * @core: core
 *
 * The caller calls this about every second. Core then writes changed lengths and states to the
 * digest log, allows the next @copy_bytes of copies, has replicas checked (core_scrub()), and updates
 * core_low().
 */
void core_tick(struct core *core);

/**
 * core_scrub - have all replicas checked, now and then
 * @core: core
 * @ticks: calls of core_tick() in which each replica of a closed segment is read and checked once, if
 *	@copy_bytes allows as much; 0: none is checked
 *
 * A replica that is bad is restored; without a sound one, core_bad_next() names the segment.
 */
void core_scrub(struct core *core, uint32_t ticks);

/**
 * core_batch - have partial rows of a coded store wait for more
 * @core: core
 * @ns: a partial row is written when its oldest byte that is in no batch has waited for so long, by core_time(); 0: at
 *	once, as after core_new()
 *
 * Rows that are full never wait, nor do those of a segment that is being closed, or of a core that drains.
 */
void core_batch(struct core *core, uint64_t ns);

/**
 * core_time - tell the time
 * @core: core
 * @ns: the time, of any clock; an earlier one than before counts as that
 *
 * Needed only after core_batch(): before core_event(), and when core_due() has come.
 */
void core_time(struct core *core, uint64_t ns);

/**
 * core_due - when is something to be done although nothing happens?
 * @core: core
 *
 * Return: the time by core_time(), later than the last one; CORE_NEVER: not before the next input.
 */
uint64_t core_due(const struct core *core);

/**
 * core_io_done - a request has ended
 * @core: core
 * @id: of the request
 * @error: 0: all of it is done; or a negative errno. The caller completes short transfers itself
 *
 * A write or a flush that failed means that the backup is lost (invariant 3): core_backup_stop() in
 * set.c. If core cannot go on without the backup, core is CORE_FAILED and core_error() says why.
 */
void core_io_done(struct core *core, uint32_t id, int error);

/**
 * core_io_received - the bytes of a write are in the memory of the host that keeps the backup
 * @core: core
 * @id: of the write, which is still in flight
 *
 * That host writes the bytes even if this daemon dies, so core acknowledges them as
 * LSMEM_ACK_RECEIVED. A write that core_io_next() returns later can be of the same blocks, and must
 * take effect after this one.
 */
void core_io_received(struct core *core, uint32_t id);

/**
 * core_lose - a backup is gone, or too slow
 * @core: core
 * @backup: its index; nothing happens if it is no member, or lost
 * @why: for core_error(), if core cannot go on without the backup
 *
 * When a request in flight to the backup ends, the caller still calls core_io_done(); until then
 * the request uses its memory. Core acknowledges nothing of the segments on the backup before a
 * durable digest has removed the backup from the members (invariant 3).
 */
void core_lose(struct core *core, uint32_t backup, const char *why);

/**
 * core_add - let a backup join the members
 * @core: core
 * @backup: its index; it is no member
 * @super: its superblock; copied
 * @domain: its failure domain
 * @past: what it held before, used during the call only; NULL: nothing that core could keep
 *
 * Return: true; or false: core is not CORE_RUNNING, @backup is out of range, the backup is a member
 * or joins already, a request to it is still in flight, or it has more frames than the digest has
 * room for.
 */
bool core_add(struct core *core, uint32_t backup, const struct lsmem_super *super,
	      uint32_t domain, const struct digest_past *past);

/**
 * core_domains_left - count the failure domains of the members that are not lost
 * @core: core
 *
 * A segment can have at most so many replicas.
 */
uint32_t core_domains_left(const struct core *core);

/**
 * core_backup - the state of a backup
 * @core: core
 * @backup: its index
 */
enum core_backup_state core_backup(const struct core *core, uint32_t backup);

/**
 * core_io_next - get the next request to start
 * @core: core
 * @io: out
 *
 * Return: false: there is none now.
 */
bool core_io_next(struct core *core, struct core_io *io);

/**
 * core_acks - get acknowledgements for LSMEM_REPL_ACK
 * @core: core
 * @acks: out
 * @max: room in @acks
 * @ceiling: out: a generation ceiling that has become durable; 0: none
 *
 * Core takes them for delivered: if the call to the kernel fails, the daemon must end.
 *
 * Return: how many there are in @acks; fewer than @max: there are no more.
 */
uint32_t core_acks(struct core *core, struct lsmem_ack_one *acks, uint32_t max,
		   uint32_t *ceiling);

/**
 * core_shutdown - make everything durable, write a last full digest, and stop
 * @core: core; the caller calls core_event() no more
 */
void core_shutdown(struct core *core);

/**
 * core_settled - is all that the kernel has sent durable, closed and acknowledged, and is it so in the digest?
 * @core: core
 *
 * The last durable digest, @sequence of struct core_stats, then says all that there is of a store whose kernel sends no more.
 * A tick, or a backup that is lost or joins, can lead to another digest.
 *
 * Return: false: not yet; core_tick() may be needed.
 */
bool core_settled(const struct core *core);

/**
 * core_super - the superblock of a member, as a pattern for a backup that is to join
 * @core: core, with a member that is not lost
 * @log: out: what recover_ready() must know
 *
 * See recover_ready().
 */
const struct lsmem_super *core_super(const struct core *core, struct digest_log *log);

/**
 * core_incarnation - the low half of a backup's incarnation, as digests have it
 * @core: core
 * @backup: its index
 *
 * Return: the low half; 0: core has never had a superblock of the backup.
 */
uint32_t core_incarnation(const struct core *core, uint32_t backup);

/**
 * struct core_bad - a replica that was found bad, or a segment without a sound one
 * @segment: its id
 * @coded: it has shards
 * @backup: index; CORE_BACKUPS: no replica of the segment is sound, and it is not copied
 * @frame: of the backup
 * @error: of the read, a negative errno; 0: @format says what is wrong
 * @format: what is wrong with what was read
 */
struct core_bad {
	uint64_t segment;
	bool coded;
	uint32_t backup, frame;
	int error;
	enum format_error format;
};

/**
 * core_bad_next - get the next bad replica that the operator should know of
 * @core: core
 * @bad: out
 *
 * If core finds many at once, some are only counted, in struct core_stats.
 *
 * Return: false: there is none.
 */
bool core_bad_next(struct core *core, struct core_bad *bad);

/**
 * core_state - the state of the machine
 * @core: core
 */
enum core_state core_state(const struct core *core);

/**
 * core_error - why the machine has failed
 * @core: core
 *
 * Return: "" if it has not.
 */
const char *core_error(const struct core *core);

/**
 * core_stats - get counters and gauges
 * @core: core
 * @stats: out
 */
void core_stats(const struct core *core, struct core_stats *stats);

#endif
