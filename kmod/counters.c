// SPDX-License-Identifier: GPL-2.0
/*
 * Counters: what a store has done.
 *
 * What writers count has one copy a CPU, so that they share no cache line; it is summed
 * when it is read, each number by itself.  No locks.
 */
#include <linux/percpu_counter.h>

#include "counters.h"
#include "store.h"

/**
 * lsmem_store_counters - sum the per-CPU counters
 * @store: the store
 * @sum: filled in
 */
void lsmem_store_counters(struct lsmem_store *store, struct lsmem_counters *sum)
{
	u64 *to = (u64 *)sum;
	unsigned int cpu, i;

	BUILD_BUG_ON(sizeof(*sum) % sizeof(u64));
	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const u64 *from = (const u64 *)per_cpu_ptr(store->counters, cpu);

		for (i = 0; i < sizeof(*sum) / sizeof(u64); i++)
			to[i] += READ_ONCE(from[i]);
	}
}

/**
 * lsmem_store_stat - LSMEM_IOC_STAT
 * @store: the store
 * @stat: filled in but for its size
 */
void lsmem_store_stat(struct lsmem_store *store, struct lsmem_stat *stat)
{
	struct lsmem_counters sum;

	lsmem_store_counters(store, &sum);
	*stat = (struct lsmem_stat){
		.size = stat->size,
		.capacity = store->capacity,
		.live_bytes = percpu_counter_sum_positive(&store->live),
		.seglets = store->seglets.nr,
		.free_seglets = READ_ONCE(store->seglets.nr_free),
		.handles_max = store->handles.common,
		.handles_used = percpu_counter_sum_positive(&store->handles.used),
		.segments = READ_ONCE(store->segments.nr_log),
		.segments_cleaned = READ_ONCE(store->cleaner.stats.segments_cleaned),
		.appended_bytes = sum.appended_bytes,
		.relocated_bytes = READ_ONCE(store->cleaner.stats.relocated_bytes) + sum.compacted_bytes,
		.durable_bytes = READ_ONCE(store->repl.durable_bytes),
		.stalls = sum.stalls,
		.stall_ns = sum.stall_ns,
		.segments_compacted = sum.compactions,
	};
}
