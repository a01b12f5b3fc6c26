// SPDX-License-Identifier: GPL-2.0
/*
 * Durable writes that arrive whether or not earlier ones have ended, at random times (Poisson): how long they take.
 *
 *	-p PATH -s BYTES -n OBJECTS	an object store, which gets so many objects of so many bytes
 *
 * Order: "arrive RATE SECONDS": each write replaces any object, with a group commit of its own, and no thread waits for it
 * (lsm_async_submit()). Its time counts from its arrival, also if it began late. Prints how many there were, the mean of
 * their times, percentiles and the longest, in us.
 */
#include <errno.h>
#include <lsmem.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "bench.h"

#define UNDER_WAY	4096u

/**
 * struct arrival - a write
 * @op: that it is
 * @due_ns: when it arrived
 * @link: in the list of those that are free
 */
struct arrival {
	struct lsmem_op op;
	uint64_t due_ns;
	SLIST_ENTRY(arrival) link;
};

static struct lsm *lsm;
static struct lsm_async *async;
static uint64_t *handles, state = 1;
static uint8_t *payload;
static struct arrival arrivals[UNDER_WAY];
static SLIST_HEAD(, arrival) spare = SLIST_HEAD_INITIALIZER(spare);
static double *took;	/* us */
static size_t nr_took, room;

static void arrivals_setup(struct bench *bench)
{
	uint64_t i;
	int ret = lsm_open(bench->path, 0, &lsm);

	if (ret)
		fail(bench->path, -ret);
	payload = get_memory(bench->size, 64);
	handles = calloc(bench->handles, sizeof(*handles));
	if (!handles)
		fail("memory", ENOMEM);
	for (i = 0; i < bench->handles && !ret; i++)
		ret = lsm_alloc(lsm, payload, bench->size, 0, &handles[i], NULL);
	if (!ret)
		ret = lsm_sync(lsm, 0);
	if (!ret)
		ret = lsm_async_open(lsm, UNDER_WAY, &async);
	if (ret)
		fail("objects", -ret);
	for (i = 0; i < UNDER_WAY; i++)
		SLIST_INSERT_HEAD(&spare, &arrivals[i], link);
}

/* Take the writes that have ended. Return: how many. */
static uint32_t take_ended(void)
{
	struct arrival *arrival;
	uint64_t now = now_ns();
	uint32_t nr = 0;
	void *context;
	int result;

	while (lsm_async_next(async, &context, &result, NULL)) {
		arrival = context;
		if (result || arrival->op.result)
			fail("write", -(result ? result : arrival->op.result));
		if (nr_took == room) {
			room = room ? 2 * room : 65536;
			took = realloc(took, room * sizeof(*took));
			if (!took)
				fail("memory", ENOMEM);
		}
		took[nr_took++] = (double)(now - arrival->due_ns) / 1e3;
		SLIST_INSERT_HEAD(&spare, arrival, link);
		nr++;
	}
	return nr;
}

static int by_time(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void tell(void)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < nr_took; i++)
		sum += took[i];
	qsort(took, nr_took, sizeof(*took), by_time);
	printf("{\"writes\": %zu, \"mean\": %.1f, \"p50\": %.1f, \"p99\": %.1f, \"most\": %.1f}\n", nr_took, sum / (double)nr_took,
	       took[nr_took / 2], took[nr_took - 1 - nr_took / 100], took[nr_took - 1]);
}

static void arrive(const struct bench *bench, double rate, double seconds)
{
	uint64_t begin = now_ns(), end = begin + (uint64_t)(seconds * 1e9), now;
	struct pollfd poll = { .fd = lsm_async_fd(async), .events = POLLIN };
	double next = (double)begin;
	uint32_t under_way = 0;
	struct timespec pause;
	int ret;

	nr_took = 0;
	while (next < (double)end || under_way) {
		for (now = now_ns(); next < (double)end && next <= (double)now && under_way < UNDER_WAY; under_way++) {
			struct arrival *arrival = SLIST_FIRST(&spare);

			SLIST_REMOVE_HEAD(&spare, link);
			arrival->due_ns = (uint64_t)next;
			arrival->op = lsm_op_replace(handles[random_below(&state, bench->handles)], payload, bench->size, 0, 0);
			ret = lsm_async_submit(async, &arrival->op, 1, LSM_DURABLE, arrival);
			if (ret)
				fail("write", -ret);
			next -= log(((double)(random_next(&state) >> 11) + 1) / 9007199254740992.0) * 1e9 / rate;
		}
		under_way -= take_ended();
		now = now_ns();
		pause = (struct timespec){ .tv_sec = 1 };
		if (next < (double)end && under_way < UNDER_WAY)
			pause = (struct timespec){ .tv_nsec = next > (double)now ? (long)fmin(next - (double)now, 999999999) : 0 };
		if (ppoll(&poll, 1, &pause, NULL) < 0 && errno != EINTR)
			fail("poll", errno);
	}
	tell();
}

static bool arrivals_order(struct bench *bench, const char *verb, const double *arguments, unsigned int nr)
{
	if (strcmp(verb, "arrive") || nr != 2 || arguments[0] <= 0 || arguments[1] <= 0)
		return false;
	arrive(bench, arguments[0], arguments[1]);
	return true;
}

const struct mode arrival_modes[] = {
	{ "arrivals", arrivals_setup, NULL, arrivals_order, false },
	{ 0 },
};
