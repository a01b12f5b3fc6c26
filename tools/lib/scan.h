/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* liblsmem: declarations that the files of scans share.  Nothing here is exported. */
#ifndef LSMEM_LIB_SCAN_H
#define LSMEM_LIB_SCAN_H

#include "internal.h"

#define LSM_THREADS_MAX	64u

/* The parts of LSM_PLAN_LOG, one after the other; without a tier the first is all. */
enum lsm_part {
	LSM_PART_MEMORY,	/* what was in memory: by seglets */
	LSM_PART_COLD,		/* what was not: by indices */
	LSM_PART_LATE,		/* what of that has changed before it was read: by seglets */
};

/**
 * struct lsm_run - a scan that is running
 * @lsm: store
 * @scan: what the caller asked for
 * @threads: that work on it
 * @sorted: of a list, but for LSM_PLAN_LOOKUP: its handles in the order of their indices
 * @nr_sorted: entries of @sorted
 * @members: of a list, for LSM_PLAN_TABLE and LSM_PLAN_LOG: a bit for each index that a handle of the list
 *	has.  NULL: all objects are wanted
 * @starts: likewise: for each word of @members, its first handle in @sorted
 * @part: of LSM_PLAN_LOG
 * @all: units of work of all parts
 * @total: units of work of this part: handles, indices or seglets
 * @unit: units that a worker takes at once
 * @next: first unit that no worker has taken
 * @error: the first error; the workers stop
 * @finished: units done, for the caller's progress(), in no order; protected by @lock
 * @lock: orders calls of progress() and of LSMEM_IOC_SNAPSHOT_DONE
 * @begun: of each worker: first unit of what it works on
 * @snapshot: of LSM_PLAN_LOG
 * @found: handles of the list that have an object; protected by @lock
 * @result: plan, and sums of the workers; protected by @lock
 */
struct lsm_run {
	struct lsm *lsm;
	const struct lsm_scan *scan;
	uint32_t threads;
	uint64_t *sorted;
	size_t nr_sorted;
	uint64_t *members;
	uint64_t *starts;
	enum lsm_part part;
	uint64_t all;
	uint64_t total;
	uint64_t unit;
	_Atomic uint64_t next;
	atomic_int error;
	uint64_t finished;
	pthread_mutex_t lock;
	_Atomic uint64_t begun[LSM_THREADS_MAX];
	struct lsm_snapshot *snapshot;
	uint64_t found;
	struct lsm_scan_result result;
};

/**
 * struct lsm_worker - a thread of a scan
 * @run: the scan
 * @nr: number of the thread
 * @rows: the batch
 * @nr_rows: entries of @rows
 * @row_bytes: bytes of these, in log order
 * @buffer: bytes of rows that are not used in place
 * @room: bytes at @buffer
 * @used: of these
 * @big: room for the largest object; NULL: not needed yet
 * @found: objects that were found, whether they suit or not
 * @result: what this worker has seen
 */
struct lsm_worker {
	struct lsm_run *run;
	unsigned int nr;
	struct lsm_row *rows;
	size_t nr_rows;
	size_t row_bytes;
	uint8_t *buffer;
	size_t room;
	size_t used;
	uint8_t *big;
	uint64_t found;
	struct lsm_scan_result result;
};

#define LSM_BATCH	256u	/* most rows of a batch */

/*
 * Is an object, whose index is in the table, in the list, if there is one?  As many handles as there are bits
 * below come before its own; more, if handles of the list share an index, one of which is stale.
 */
static inline bool lsm_wanted(const struct lsm_run *run, uint64_t handle)
{
	uint64_t index = lsmem_handle_index(handle), word, at;

	if (!run->members)
		return true;
	word = run->members[index / 64];
	if (!(word >> index % 64 & 1))
		return false;
	at = run->starts[index / 64] + (uint64_t)__builtin_popcountll(word & ((1ull << index % 64) - 1));
	for (; at < run->nr_sorted && lsmem_handle_index(run->sorted[at]) <= index; at++)
		if (run->sorted[at] == handle)
			return true;
	return false;
}

/* Is an object what the caller asked for, but for lists and ranges of handles? */
static inline bool lsm_suits(const struct lsm_scan *scan, uint64_t version, uint32_t length,
			     uint32_t table)
{
	return (!scan->one_table || table == scan->table) && version >= scan->version_min &&
	       (!scan->version_max || version <= scan->version_max) && length >= scan->length_min &&
	       (!scan->length_max || length <= scan->length_max);
}

/* Is the index of a handle what the caller asked for? */
static inline bool lsm_in_range(const struct lsm_scan *scan, uint64_t handle)
{
	uint64_t index = lsmem_handle_index(handle);

	return index >= scan->index_first && (!scan->index_end || index < scan->index_end);
}

int lsm_batch_deliver(struct lsm_worker *worker);
int lsm_run_all(struct lsm_run *run);

int lsm_snapshot_open(struct lsm_run *run);
void lsm_snapshot_close(struct lsm_run *run);
int lsm_snapshot_stands(const struct lsm_run *run);
int lsm_snapshot_seglets(struct lsm_worker *worker, uint64_t from, uint64_t to);
int lsm_snapshot_done(struct lsm_run *run, uint64_t seglet);
int lsm_snapshot_next(struct lsm_run *run);
bool lsm_snapshot_tiered(const struct lsm_run *run);
int lsm_snapshot_cold(struct lsm_worker *worker, uint64_t from, uint64_t to);
int lsm_worker_big(struct lsm_worker *worker);

int lsm_plan_choose(struct lsm *lsm, const struct lsm_scan *scan, struct lsm_explain *explain);

#endif
