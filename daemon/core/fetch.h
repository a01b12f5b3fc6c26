/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fetching: objects of a tiered store that are on backups only. The kernel asks for blocks of closed
 * segments (struct lsmem_fetch_one). This part of core chooses the replica that is read, and a
 * second one if the first is late or wrong. Requests for what lies close together in a segment are read
 * together, and answered each by itself. Of a coded segment the blocks are read from the data shards that have them; if one
 * cannot be read, is late, or gives wrong bytes, they are decoded from any k shards. As all of core it makes no system call and reads no
 * clock: the caller says what time it is, by a clock of its choice in ns.
 *
 * In:	fetch_take()	a request of the kernel		fetch_done()	a read has ended
 *	fetch_filled()	what the kernel has answered	fetch_late()	deadlines
 * Out:	fetch_next()	reads to start at once		fetch_fills()	answers for the kernel
 *	fetch_due()	when fetch_late() is next needed
 *
 * One round of the loop, after core's requests were started:
 *
 *	read completions -> fetch_done() for each
 *	fetch_fills() -> LSMEM_REPL_FILL -> fetch_filled()
 *	LSMEM_REPL_FETCH with nr = fetch_room() -> fetch_take() for each
 *	fetch_next() until it returns false
 *
 * Reads and writes share the drives. While core has requests in flight on a backup, at most
 * FETCH_READS_BUSY reads, together FETCH_BYTES_BUSY long, are added. So a group commit finds at most
 * so much before it on its drive; the first one after a pause finds at most FETCH_READS and
 * FETCH_BYTES.
 */
#ifndef LSMEMD_FETCH_H
#define LSMEMD_FETCH_H

#include "core.h"

#define FETCH_REQUESTS		256u		/* of the kernel, under way */
#define FETCH_READS		32u		/* in flight on a backup */
#define FETCH_BYTES		(4u << 20)	/* of these reads */
#define FETCH_READS_BUSY	16u		/* the same, while core uses the backup */
#define FETCH_BYTES_BUSY	(1u << 20)
#define FETCH_PART_BYTES	(128u << 10)	/* longest read: twice that took twice as long */
/*
 * Blocks that are read in vain to save a read.  Each took 2.5 us where a read of one took 90: 36 would have paid.
 * A drive that answers 500,000 reads a second, or 3 GB/s, takes 2 us for a read and as much for 6 KiB, and the
 * daemon and the kernel take some 4 us for a read: there it is 4.
 */
#define FETCH_GAP		4u
#define FETCH_NEVER		UINT64_MAX

struct fetch;

/**
 * struct fetch_params - for fetch_new()
 * @core: knows the segments and their replicas; must stay
 * @wait_ns: how long readers wait for an object
 */
struct fetch_params {
	struct core *core;
	uint64_t wait_ns;
};

/**
 * struct fetch_read - a read to start
 * @id: for fetch_done(); ids are below FETCH_READS * CORE_BACKUPS
 * @backup: index of the backup
 * @offset: byte in the backup, a multiple of LSMEM_BLOCK
 * @length: bytes, a multiple of LSMEM_BLOCK, at most FETCH_PART_BYTES
 * @data: memory for it, aligned to LSMEM_BLOCK; stays until fetch_done()
 */
struct fetch_read {
	uint32_t id;
	uint32_t backup;
	uint64_t offset;
	uint32_t length;
	void *data;
};

/**
 * struct fetch_bad - a request that was answered with an error
 * @segment: that it was for
 * @block: first block
 * @backups: mask of the backups whose replica failed; 0: there was no replica to be read
 */
struct fetch_bad {
	uint64_t segment;
	uint32_t block;
	uint32_t backups;
};

/**
 * struct fetch_stats - counters since fetch_new(), and gauges
 * @fetches: requests that the kernel got data for
 * @bytes: of these data
 * @latency: ns from taking such a request to its answer
 * @segments: of @fetches, those of whole segments, for the cleaner
 * @merged: reads that were saved: times that a request was read together with another
 * @second: times that another replica, or other shards, were asked because the first was late
 * @replaced: times that another replica, or other shards, were asked because the first failed or was wrong
 * @degraded: of coded segments: of @fetches, those with blocks that were decoded from those of other shards
 * @longer: times that more was read because an object was longer than expected
 * @again: answers that were given again because the kernel had no memory
 * @failures: requests that were answered with EIO
 * @under_way: gauge: requests
 * @backup: by index of the backup
 * @backup.reads: reads that have ended
 * @backup.bytes: of these reads
 * @backup.in_flight: gauge: reads
 * @backup.mean_ns: gauge: moving mean of the latency of a read
 */
struct fetch_stats {
	uint64_t fetches, bytes;
	struct histogram latency;
	uint64_t segments, merged;
	uint64_t second, replaced, degraded, longer, again, failures;
	uint64_t under_way;
	struct {
		uint64_t reads, bytes, in_flight, mean_ns;
	} backup[CORE_BACKUPS];
};

struct fetch *fetch_new(const struct fetch_params *params);
void fetch_free(struct fetch *f);
void fetch_wait(struct fetch *f, uint64_t wait_ns);
void fetch_remote(struct fetch *f, uint32_t remote);
uint32_t fetch_room(const struct fetch *f);
void fetch_take(struct fetch *f, const struct lsmem_fetch_one *one, uint64_t now);
bool fetch_next(struct fetch *f, struct fetch_read *read, uint64_t now);
void fetch_done(struct fetch *f, uint32_t id, int error, uint64_t now);
uint32_t fetch_fills(struct fetch *f, struct lsmem_fill_one *fills, uint32_t max);
void fetch_filled(struct fetch *f, const struct lsmem_fill_one *fills, uint32_t nr, uint64_t now);
uint64_t fetch_due(const struct fetch *f);
void fetch_late(struct fetch *f, uint64_t now);
void fetch_second(struct fetch *f);
bool fetch_place(const struct fetch *f, const struct lsmem_fetch_one *one, uint32_t backup, uint64_t *offset);
bool fetch_bad_next(struct fetch *f, struct fetch_bad *bad);
void fetch_stats(const struct fetch *f, struct fetch_stats *stats);

#endif
