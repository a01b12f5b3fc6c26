// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: what a scan costs by each plan.
 *
 * A scan waits for memory, so the costs are those of cache misses, and of the bytes that follow.  What a
 * plan costs depends on how many objects it touches, and not on what is computed of them, which is the
 * same for all plans.  The constants are measured (tests/bench/scans); the ratios between plans vary less
 * from machine to machine than the times.
 */
#include <errno.h>
#include <stdio.h>

#include "scan.h"

/*
 * Nanoseconds.  A look-up misses the cache at the entry, and at the handle word if the handle table is larger
 * than caches are; in the order of the table the words are neighbours; in that of the memory, the
 * processor fetches entries ahead.
 */
#define LOOKUP		40.0	/* an object of a list in any order */
#define WORD		12.0	/* and its handle word, of a large table */
#define ORDERED		35.0	/* an object in the order of the table */
#define SORT		12.0	/* a handle of a list that is sorted */
#define MARK		2.0	/* a handle of a list, to be found quickly */
#define PAGE		2000.0	/* a page that is needed for that */
#define INDEX		1.0	/* an entry of the handle table */
#define ENTRY		12.0	/* an object in the order of memory */
#define MEMBER		2.0	/* to look whether it is in a list */
#define SEGLET		60.0	/* a seglet of the store, with its words of the bitmap */
#define SNAPSHOT	2e6	/* a snapshot: the grace period, and some work */
#define FREEZE		40.0	/* of a seglet, in the kernel, and for its pages */
#define COLD		8000.0	/* an object that is on backups only, of many that are read in their order there */
#define FETCHED		80000.0	/* of a list: it is fetched into memory */
#define COPY		0.10	/* a byte that is copied from anywhere */
#define STREAM		0.08	/* a byte that is used where it lies, in order */

#define HEADER		32.0		/* bytes of an entry before its object */
#define CACHES		(16u << 20)	/* handle tables that are smaller stay in them */
#define PAGE_BYTES	4096.0
#define SAMPLES		65536u		/* handle words that are looked at, at most, to know how many are cold */

static const char *const names[LSM_PLANS] = { "auto", "lookup", "sorted", "table", "log" };

const char *lsm_plan_name(uint32_t plan)
{
	return plan < LSM_PLANS ? names[plan] : NULL;
}

/* A list that is to be sorted, and its copies. */
static int64_t sorting(uint64_t wanted)
{
	return (int64_t)((double)wanted * (SORT + 2 * sizeof(uint64_t) / PAGE_BYTES * PAGE));
}

static void estimate(const struct lsm *lsm, const struct lsm_scan *scan, struct lsm_explain *explain)
{
	double objects = (double)explain->objects, wanted = (double)explain->wanted, threads = explain->threads;
	double length = objects > 0 ? (double)explain->bytes / objects : 0, bytes, indices, cost, cold;
	double end = scan->index_end && scan->index_end < lsm->nr_handles ? (double)scan->index_end :
									   (double)lsm->nr_handles;
	int64_t marking = 0;

	/* Live bytes have headers and padding. */
	if (scan->handles)
		marking = sorting(explain->wanted) + (int64_t)(wanted * MARK);
	length = length > HEADER ? length - HEADER : 0;
	bytes = scan->prefix && scan->prefix < length ? scan->prefix : length;
	cold = objects > 0 ? (double)explain->cold / objects : 0;
	indices = end > (double)scan->index_first ? end - (double)scan->index_first : 0;

	cost = LOOKUP + (lsm->nr_handles * sizeof(uint64_t) > CACHES ? WORD : 0) + bytes * COPY + cold * FETCHED;
	explain->cost_ns[LSM_PLAN_LOOKUP] = (int64_t)(wanted * cost / threads);
	explain->cost_ns[LSM_PLAN_SORTED] = (int64_t)(wanted * (ORDERED + bytes * COPY + cold * FETCHED) / threads) +
					    sorting(explain->wanted);
	cost = indices * INDEX + wanted * (ORDERED + bytes * COPY);
	explain->cost_ns[LSM_PLAN_TABLE] = (int64_t)(cost / threads) + marking;
	/* All entries pass, as far as the processor fetches ahead. */
	cost = (double)lsm->nr_seglets * SEGLET + objects * (ENTRY + (scan->handles ? MEMBER : 0)) +
	       wanted * bytes * STREAM + wanted * cold * COLD;
	explain->cost_ns[LSM_PLAN_LOG] = (int64_t)(cost / threads + SNAPSHOT +
						   (double)lsm->nr_seglets * FREEZE) + marking;
}

/* How many objects are on backups only, by handle words at equal distances. */
static uint64_t count_cold(const struct lsm *lsm, uint64_t objects)
{
	uint64_t step = lsm->nr_handles / SAMPLES + 1, i, word, all = 0, cold = 0;

	for (i = 0; i < lsm->nr_handles; i += step) {
		word = __atomic_load_n(&lsm->handles[i].word, __ATOMIC_RELAXED) >> LSMEM_WORD_STATE_SHIFT &
		       ((1u << LSMEM_WORD_STATE_BITS) - 1);
		cold += word == LSMEM_WORD_COLD;
		all += word == LSMEM_WORD_COLD || word == LSMEM_WORD_LIVE;
	}
	return all ? (uint64_t)((double)objects * (double)cold / (double)all) : 0;
}

/* Is the list in the order of the table already? */
static bool in_order(const struct lsm_scan *scan)
{
	size_t i;

	for (i = 1; i < scan->nr_handles; i++)
		if (lsmem_handle_index(scan->handles[i - 1]) > lsmem_handle_index(scan->handles[i]))
			return false;
	return true;
}

static void forbid(struct lsm_explain *explain, uint32_t plan)
{
	explain->cost_ns[plan] = -1;
}

/**
 * lsm_plan_choose() - estimate what the plans cost, and choose one
 * @lsm: store
 * @scan: checked
 * @explain: its threads are set; out: the rest
 *
 * Return: 0; -EOPNOTSUPP: the plan that is wanted is not possible; -ECHILD: because of a fork.
 */
int lsm_plan_choose(struct lsm *lsm, const struct lsm_scan *scan, struct lsm_explain *explain)
{
	struct lsmem_query query;
	struct lsmem_stat stat;
	uint32_t plan, best = LSM_PLAN_AUTO;
	int ret;

	ret = lsm_query(lsm, &query);
	if (!ret)
		ret = lsm_stat(lsm, &stat);
	if (ret)
		return ret;
	explain->objects = stat.handles_used;
	explain->bytes = stat.live_bytes;
	explain->wanted = scan->handles ? scan->nr_handles : stat.handles_used;
	if (query.features & LSMEM_FEATURE_TIER && lsm_windows_here(lsm))
		explain->cold = count_cold(lsm, explain->objects);
	estimate(lsm, scan, explain);
	forbid(explain, LSM_PLAN_AUTO);
	for (plan = LSM_PLANS; plan < LSM_PLANS_MAX; plan++)
		forbid(explain, plan);
	if (!scan->handles) {
		forbid(explain, LSM_PLAN_LOOKUP);
		forbid(explain, LSM_PLAN_SORTED);
	} else if (in_order(scan)) {
		explain->cost_ns[LSM_PLAN_LOOKUP] = explain->cost_ns[LSM_PLAN_SORTED] -
						    sorting(explain->wanted);
	}
	if (!lsm_windows_here(lsm)) {
		forbid(explain, LSM_PLAN_TABLE);
		forbid(explain, LSM_PLAN_LOG);
	}
	if (!(query.features & LSMEM_FEATURE_SNAPSHOT))
		forbid(explain, LSM_PLAN_LOG);
	/* The table does not show what is on backups only: only a caller who names this plan gets it. */
	else if (query.features & LSMEM_FEATURE_TIER && scan->plan == LSM_PLAN_AUTO && lsm_windows_here(lsm))
		forbid(explain, LSM_PLAN_TABLE);
	if (scan->flags & LSM_SCAN_EXACT)
		for (plan = 0; plan < LSM_PLAN_LOG; plan++)
			forbid(explain, plan);
	for (plan = 0; plan < LSM_PLANS; plan++) {
		if (explain->cost_ns[plan] < 0 || (scan->plan != LSM_PLAN_AUTO && scan->plan != plan))
			continue;
		if (best == LSM_PLAN_AUTO || explain->cost_ns[plan] < explain->cost_ns[best])
			best = plan;
	}
	if (best == LSM_PLAN_AUTO)
		return lsm->windows && !lsm_windows_here(lsm) ? -ECHILD : -EOPNOTSUPP;
	explain->plan = best;
	return 0;
}

int lsm_explain_text(const struct lsm_explain *explain, char *text, size_t size)
{
	int length = 0, made;
	uint32_t plan;

	for (plan = LSM_PLAN_AUTO; plan < LSM_PLANS; plan++) {
		char *at = (size_t)length < size ? text + length : NULL;
		size_t room = at ? size - (size_t)length : 0;

		if (plan == LSM_PLAN_AUTO)
			made = snprintf(at, room, "%s: %llu of %llu objects, %llu cold, %llu bytes, threads: %u\n",
					names[explain->plan], (unsigned long long)explain->wanted,
					(unsigned long long)explain->objects, (unsigned long long)explain->cold,
					(unsigned long long)explain->bytes, explain->threads);
		else if (explain->cost_ns[plan] < 0)
			made = snprintf(at, room, "  %-6s  not possible\n", names[plan]);
		else
			made = snprintf(at, room, "%c %-6s %10.3f ms\n", plan == explain->plan ? '*' : ' ',
					names[plan], (double)explain->cost_ns[plan] / 1e6);
		if (made < 0)
			return made;
		length += made;
	}
	return length;
}
