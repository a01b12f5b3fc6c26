// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: the choice of a plan for a scan, without a kernel.
 *
 * The store is what the kernel tells of it, as large as is wanted: a choice reads nothing but handle words, and those
 * only in a tiered store.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "internal.h"
#include "../common/tap.h"

#define SEGLETS		4096u
#define HANDLES		1000000u
#define LENGTH		200u

/**
 * struct kernel - what it tells
 * @features: of the kernel and the store
 * @objects: that there are
 */
struct kernel {
	uint64_t features;
	uint64_t objects;
};

static struct kernel kernel;
static struct lsmem_handle *words;
static struct lsm *lsm;

static int call(struct lsm *of, unsigned long request, void *argument)
{
	(void)of;
	switch (request) {
	case LSMEM_IOC_QUERY:
		((struct lsmem_query *)argument)->features = kernel.features;
		return 0;
	case LSMEM_IOC_STAT:
		((struct lsmem_stat *)argument)->handles_used = kernel.objects;
		((struct lsmem_stat *)argument)->live_bytes = kernel.objects * (LENGTH + 32);
		return 0;
	default:
		return -ENOTTY;
	}
}

/* Memory that is not there until it is touched. */
static void *window(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

static void open_store(void)
{
	struct lsmem_info info = {
		.magic = LSMEM_INFO_MAGIC, .abi = LSMEM_ABI, .compat = LSMEM_ABI, .length = sizeof(info),
		.kind = LSMEM_KIND_OBJECT, .nr_seglets = SEGLETS, .nr_handles = HANDLES,
		.seglets.length = (uint64_t)SEGLETS * LSMEM_SEGLET_BYTES,
		.seglet_table.length = SEGLETS * sizeof(struct lsmem_seglet),
		.handles.length = HANDLES * sizeof(struct lsmem_handle),
	};
	struct lsm_memory memory = { .info = &info, .epoch = &info.epoch };

	words = window(info.handles.length);
	memory.seglets = window(info.seglets.length);
	memory.seglet_table = window(info.seglet_table.length);
	memory.handles = words;
	if (lsm_from_memory(&memory, 8, call, NULL, &lsm))
		abort();
}

/* ---- Choices ------------------------------------------------------------------ */

static int nothing(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	(void)context;
	(void)thread;
	(void)rows;
	(void)nr;
	return 0;
}

static struct lsm_scan all = { .threads = 1, .batch = nothing };

static struct lsm_explain explain(const struct lsm_scan *scan)
{
	struct lsm_explain explain = { 0 };

	if (lsm_scan_explain(lsm, scan, &explain))
		explain.plan = LSM_PLANS;
	return explain;
}

static bool possible(const struct lsm_explain *explain, bool lookup, bool sorted, bool table, bool log)
{
	const bool wanted[LSM_PLANS] = { false, lookup, sorted, table, log };
	uint32_t plan;

	for (plan = 0; plan < LSM_PLANS_MAX; plan++)
		CHECK((explain->cost_ns[plan] >= 0) == (plan < LSM_PLANS && wanted[plan]));
	for (plan = 0; plan < LSM_PLANS; plan++)
		CHECK(explain->cost_ns[plan] < 0 || explain->cost_ns[plan] >= explain->cost_ns[explain->plan]);
	return true;
}

static bool all_objects(void)
{
	struct lsm_explain few, many, less;
	struct lsm_scan scan = all;

	kernel = (struct kernel){ LSMEM_FEATURE_SNAPSHOT | LSMEM_FEATURE_WINDOWS, HANDLES / 2 };
	many = explain(&all);
	CHECK(possible(&many, false, false, true, true));
	CHECK(many.plan == LSM_PLAN_LOG && many.wanted == HANDLES / 2 && many.objects == HANDLES / 2 && !many.cold);
	/* A snapshot is not worth its cost for some objects. */
	kernel.objects = 1000;
	few = explain(&all);
	CHECK(few.plan == LSM_PLAN_TABLE && few.cost_ns[LSM_PLAN_LOG] > 2000000);
	kernel.objects = HANDLES / 2;
	/* What is asked for less of costs less. */
	scan.prefix = 8;
	less = explain(&scan);
	CHECK(less.cost_ns[LSM_PLAN_TABLE] < many.cost_ns[LSM_PLAN_TABLE]);
	CHECK(less.cost_ns[LSM_PLAN_LOG] < many.cost_ns[LSM_PLAN_LOG]);
	scan.prefix = 0;
	scan.index_first = HANDLES / 4;
	scan.index_end = HANDLES / 2;
	less = explain(&scan);
	CHECK(less.cost_ns[LSM_PLAN_TABLE] < many.cost_ns[LSM_PLAN_TABLE]);
	scan.index_first = 0;
	scan.index_end = 0;
	scan.threads = 8;
	less = explain(&scan);
	CHECK(less.threads == 8);
	CHECK(less.cost_ns[LSM_PLAN_TABLE] < many.cost_ns[LSM_PLAN_TABLE]);
	CHECK(less.cost_ns[LSM_PLAN_LOG] < many.cost_ns[LSM_PLAN_LOG]);
	scan.threads = 1;
	/* What is asked for by name is what is done. */
	scan.plan = LSM_PLAN_TABLE;
	less = explain(&scan);
	CHECK(less.plan == LSM_PLAN_TABLE && less.cost_ns[LSM_PLAN_LOG] < less.cost_ns[LSM_PLAN_TABLE]);
	return true;
}

static bool lists(void)
{
	uint64_t *handles = malloc(HANDLES * sizeof(*handles)), had;
	struct lsm_explain short_one, long_one, ordered, whole;
	struct lsm_scan scan = all;
	uint32_t plan, i;

	kernel = (struct kernel){ LSMEM_FEATURE_SNAPSHOT | LSMEM_FEATURE_WINDOWS, HANDLES };
	for (i = 0; i < HANDLES; i++)
		handles[i] = lsmem_handle_make(i, 1);
	whole = explain(&scan);
	scan.handles = handles;
	scan.nr_handles = 1000;
	ordered = explain(&scan);
	CHECK(possible(&ordered, true, true, true, true) && ordered.wanted == 1000);
	CHECK(ordered.plan == LSM_PLAN_LOOKUP && ordered.cost_ns[LSM_PLAN_LOOKUP] < ordered.cost_ns[LSM_PLAN_SORTED]);
	/* Two that are exchanged: look-ups go to and fro, or the list is sorted. */
	had = handles[0];
	handles[0] = handles[999];
	handles[999] = had;
	short_one = explain(&scan);
	CHECK(short_one.cost_ns[LSM_PLAN_LOOKUP] > ordered.cost_ns[LSM_PLAN_LOOKUP]);
	CHECK(short_one.cost_ns[LSM_PLAN_SORTED] == ordered.cost_ns[LSM_PLAN_SORTED]);
	CHECK(short_one.plan == LSM_PLAN_LOOKUP);
	scan.nr_handles = HANDLES;
	long_one = explain(&scan);
	for (plan = LSM_PLAN_LOOKUP; plan < LSM_PLANS; plan++)
		CHECK(short_one.cost_ns[plan] < long_one.cost_ns[plan]);
	/* All that there is, by a list: the log, at the price of the list */
	CHECK(long_one.plan == LSM_PLAN_LOG);
	CHECK(long_one.cost_ns[LSM_PLAN_LOG] > whole.cost_ns[LSM_PLAN_LOG] + 10000000);
	CHECK(long_one.cost_ns[LSM_PLAN_TABLE] > whole.cost_ns[LSM_PLAN_TABLE]);
	free(handles);
	return true;
}

static bool exact(void)
{
	uint64_t one = lsmem_handle_make(5, 1);
	struct lsm_scan scan = all;
	struct lsm_explain found;

	kernel = (struct kernel){ LSMEM_FEATURE_SNAPSHOT | LSMEM_FEATURE_WINDOWS, HANDLES };
	scan.flags = LSM_SCAN_EXACT;
	scan.handles = &one;
	scan.nr_handles = 1;
	found = explain(&scan);
	CHECK(possible(&found, false, false, false, true) && found.plan == LSM_PLAN_LOG);
	scan.plan = LSM_PLAN_LOOKUP;
	CHECK(lsm_scan_explain(lsm, &scan, &found) == -EOPNOTSUPP);
	scan.plan = LSM_PLAN_AUTO;
	kernel.features = LSMEM_FEATURE_WINDOWS;
	CHECK(lsm_scan_explain(lsm, &scan, &found) == -EOPNOTSUPP);
	scan.flags = 0;
	found = explain(&all);
	CHECK(possible(&found, false, false, true, false) && found.plan == LSM_PLAN_TABLE);
	return true;
}

/* A tiered store, of whose objects some are on backups only. */
static bool tiered(void)
{
	uint64_t one = lsmem_handle_make(5, 1);
	struct lsm_explain warm, cold;
	struct lsm_scan scan = all;
	uint32_t i;

	kernel = (struct kernel){ LSMEM_FEATURE_SNAPSHOT | LSMEM_FEATURE_WINDOWS | LSMEM_FEATURE_TIER, HANDLES };
	for (i = 0; i < HANDLES; i++)
		words[i].word = (uint64_t)LSMEM_WORD_LIVE << LSMEM_WORD_STATE_SHIFT;
	warm = explain(&all);
	CHECK(possible(&warm, false, false, false, true) && warm.plan == LSM_PLAN_LOG && !warm.cold);
	for (i = 0; i < HANDLES / 2; i++)
		words[i].word = (uint64_t)LSMEM_WORD_COLD << LSMEM_WORD_STATE_SHIFT;
	cold = explain(&all);
	CHECK(cold.cold > HANDLES / 2 - HANDLES / 100 && cold.cold < HANDLES / 2 + HANDLES / 100);
	CHECK(cold.cost_ns[LSM_PLAN_LOG] > warm.cost_ns[LSM_PLAN_LOG]);
	scan.plan = LSM_PLAN_TABLE;
	cold = explain(&scan);
	CHECK(cold.plan == LSM_PLAN_TABLE && cold.cost_ns[LSM_PLAN_TABLE] >= 0);
	scan.plan = LSM_PLAN_AUTO;
	scan.handles = &one;
	scan.nr_handles = 1;
	cold = explain(&scan);
	CHECK(cold.plan == LSM_PLAN_LOOKUP);
	return true;
}

static bool named(void)
{
	struct lsm_explain found;
	char text[1024], small[8];
	int length;

	kernel = (struct kernel){ LSMEM_FEATURE_SNAPSHOT | LSMEM_FEATURE_WINDOWS, HANDLES };
	found = explain(&all);
	length = lsm_explain_text(&found, text, sizeof(text));
	CHECK(length > 0 && (size_t)length == strlen(text));
	CHECK(strstr(text, "* log ") && strstr(text, "  lookup  not possible\n"));
	CHECK(lsm_explain_text(&found, small, sizeof(small)) == length && strlen(small) == sizeof(small) - 1);
	CHECK(!lsm_plan_name(LSM_PLANS) && !strcmp(lsm_plan_name(LSM_PLAN_TABLE), "table"));
	return true;
}

int main(void)
{
	open_store();
	tap_ok(all_objects(), "all objects");
	tap_ok(lists(), "lists");
	tap_ok(exact(), "a scan that is to be exact");
	tap_ok(tiered(), "a tiered store");
	tap_ok(named(), "words");
	lsm_close(lsm);
	return tap_end();
}
