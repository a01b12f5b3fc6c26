/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters: what a store has done.  See counters.c.  Writers and cleaners count with
 * lsmem_count().  lsmem_store_counters() sums the CPUs for sysfs.c, balance.c and handle.c,
 * lsmem_store_stat() answers LSMEM_IOC_STAT for chardev.c.
 */
#ifndef LSMEM_COUNTERS_H
#define LSMEM_COUNTERS_H

#include <linux/percpu.h>
#include <linux/types.h>

struct lsmem_stat;
struct lsmem_store;

#define LSMEM_WAITS		24	/* buckets of the histogram of waits */

/* Counters that writers touch: one copy a CPU, summed when read. */
struct lsmem_counters {
	u64 appended_bytes;
	u64 appends;
	u64 replaced;
	u64 deleted;
	u64 stalls;
	u64 stall_ns;
	u64 throttles;
	u64 throttle_ns;
	u64 durable_waits;
	u64 padding_bytes;
	u64 compactions;
	u64 compacted_bytes;
	u64 compact_freed_bytes;
	u64 compact_ns;
	u64 forced_rolls;
	u64 views_revoked;
	u64 handles_given;		/* generations given out */
	u64 waits[LSMEM_WAITS];		/* for space, by powers of two of microseconds */
	u64 evicted;			/* objects that left memory */
	u64 evicted_bytes;
	u64 fetches;			/* requests that were answered */
	u64 fetched_bytes;
	u64 fetch_ns;
	u64 fetch_failures;		/* no backup had it */
	u64 fetches_near;		/* of @fetches, those that a near drive answered */
	u64 near_reads;			/* of near drives: each can answer several fetches */
	u64 near_waited;		/* of @near_reads, those whose end a thread that waited carried out */
	u64 fetches_through;		/* not in @fetches: what scans read, and was not put into memory */
	u64 fetches_ahead;		/* blocks that were asked for before they were read */
	u64 fetch_waits[LSMEM_WAITS];	/* as @waits */
	u64 page_faults;		/* of mappings of ranges */
	u64 pages_read;			/* into page buffers, of objects in memory */
	u64 pages_fetched;		/* the same, of objects that were on backups only */
	u64 pages_written;		/* in groups */
	u64 pages_bytes;		/* of these groups, with nodes, roots and what was freed */
	u64 pages_groups;
	u64 pages_syncs;		/* calls of msync() and fsync() */
	u64 pages_sync_ns;
};

#define lsmem_count(store, field, n) this_cpu_add((store)->counters->field, (n))

void lsmem_store_counters(struct lsmem_store *store, struct lsmem_counters *sum);
void lsmem_store_stat(struct lsmem_store *store, struct lsmem_stat *stat);

#endif
