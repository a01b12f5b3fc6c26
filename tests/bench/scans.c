// SPDX-License-Identifier: GPL-2.0
/*
 * Scans: the sum of a value of some or all objects, by each plan of lsm_scan().
 *
 * The objects were replaced in random order after they were allocated, so that they lie in memory in another
 * order than in the handle table, between dead ones.
 *
 * Order of the mode scan:
 *
 *	sum PLAN PER_MILLE THREADS	add the values of so many objects; PLAN as enum lsm_plan, or 5:
 *				lsm_read() of one after the other in random order
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lsmem/lsmem_format.h>

#include "../guest/store.h"
#include "bench.h"

#define ONE_BY_ONE	5
#define OTHER_BYTES	(128u << 20)

static struct store store;
static uint64_t *handles;	/* in random order */
static uint64_t nr_handles;

/* Each sum begins with a cold cache, as a scan does that is not one of many. */
static void empty_cache(void)
{
	static uint8_t *other;
	static uint8_t turn;

	if (!other)
		other = get_memory(OTHER_BYTES, 64);
	memset(other, ++turn, OTHER_BYTES);
	/* Else nothing reads it. */
	__asm__ volatile("" : : "r"(other) : "memory");
}

static void remove_store(void)
{
	if (store_destroy(&store))
		fprintf(stderr, "bench: %s is left\n", store.name);
}

static void write_all(const struct bench *bench, bool first)
{
	struct lsmem_op *ops = get_memory(sizeof(*ops) * bench->batch, 64);
	uint8_t *data = get_memory((uint64_t)bench->size * bench->batch, 64);
	uint64_t done;
	uint32_t nr, i;
	int ret;

	for (done = 0; done < nr_handles; done += nr) {
		nr = nr_handles - done < bench->batch ? (uint32_t)(nr_handles - done) : bench->batch;
		for (i = 0; i < nr; i++) {
			uint8_t *bytes = data + (size_t)i * bench->size;

			content_fill(bytes, bench->size, done + i, done + i);
			ops[i] = first ? lsm_op_alloc(bytes, bench->size, 0) :
					 lsm_op_replace(handles[done + i], bytes, bench->size, 0, 0);
		}
		ret = lsm_vector(store.lsm, ops, nr, 0, NULL);
		for (i = 0; i < nr && !ret; i++) {
			ret = ops[i].result;
			handles[done + i] = ops[i].handle;
		}
		if (ret)
			fail("vector call", -ret);
	}
	free(data);
	free(ops);
}

static void scan_setup(struct bench *bench)
{
	uint64_t state = 1, i, other, handle;
	int ret;

	if (!bench->handles || bench->size < sizeof(uint64_t))
		fail("-n NUMBER -s BYTES", EINVAL);
	ret = store_create(&store, bench->bytes, bench->handles + 1024, 0);
	if (ret)
		fail("store", -ret);
	atexit(remove_store);
	nr_handles = bench->handles;
	handles = get_memory(nr_handles * sizeof(*handles), 64);
	write_all(bench, true);
	for (i = nr_handles; i > 1; i--) {
		other = random_below(&state, i);
		handle = handles[i - 1];
		handles[i - 1] = handles[other];
		handles[other] = handle;
	}
	write_all(bench, false);
	/* Look-ups are in yet another order than memory. */
	for (i = nr_handles; i > 1; i--) {
		other = random_below(&state, i);
		handle = handles[i - 1];
		handles[i - 1] = handles[other];
		handles[other] = handle;
	}
}

static uint64_t read_all(uint64_t nr)
{
	uint64_t sum = 0, value, i;

	for (i = 0; i < nr; i++) {
		if (lsm_read(store.lsm, handles[i], &value, sizeof(value), 0, NULL) != sizeof(value))
			fail("lsm_read", EIO);
		sum += value;
	}
	return sum;
}

static uint64_t scan_all(struct lsm_scan *scan, struct lsm_scan_result *result)
{
	const struct lsm_measure measure = { .column = { .type = LSM_U64 } };
	const struct lsm_question question = { .measures = &measure, .nr_measures = 1 };
	struct lsm_aggregate *aggregate;
	struct lsm_total total;
	int ret;

	ret = lsm_scan_aggregate(store.lsm, scan, &question, &aggregate, result);
	if (!ret)
		ret = lsm_aggregate_total(aggregate, 0, &total);
	if (ret)
		fail("scan", -ret);
	lsm_aggregate_destroy(aggregate);
	return total.sum_low;
}

static bool scan_order(struct bench *bench, const char *verb, const double *arguments, unsigned int nr)
{
	struct lsm_scan_result result = { 0 };
	struct lsm_scan scan = { 0 };
	uint64_t wanted, sum, time;
	bool alone;

	(void)bench;
	if (strcmp(verb, "sum") || nr != 3)
		return false;
	alone = arguments[0] == ONE_BY_ONE;
	wanted = (uint64_t)((double)nr_handles * arguments[1] / 1000);
	scan.plan = alone ? LSM_PLAN_LOOKUP : (uint32_t)arguments[0];
	scan.threads = (uint32_t)arguments[2];
	/* All objects are those of a list, or need none. */
	if (wanted < nr_handles || scan.plan == LSM_PLAN_LOOKUP || scan.plan == LSM_PLAN_SORTED) {
		scan.handles = handles;
		scan.nr_handles = wanted;
	}
	empty_cache();
	time = now_ns();
	sum = alone ? read_all(wanted) : scan_all(&scan, &result);
	time = now_ns() - time;
	printf("{\"ns\": %.3f, \"ms\": %.3f, \"sum\": %" PRIu64 ", \"plan\": \"%s\", \"estimate_ms\": %.3f}\n",
	       (double)time / (double)wanted, (double)time / 1e6, sum, lsm_plan_name(result.explain.plan),
	       (double)result.explain.cost_ns[result.explain.plan] / 1e6);
	return true;
}

const struct mode scan_modes[] = {
	{ "scan", scan_setup, NULL, scan_order, false },
	{ 0 }
};
