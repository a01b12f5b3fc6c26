// SPDX-License-Identifier: GPL-2.0
/*
 * How the threads that make room give way to writers.
 *
 * Writers come first while there is memory: compaction and cleaning have a low priority, and rest
 * after each LSMEM_REST_AFTER_NS if other tasks want their processor.  So a writer that shares the
 * processor is delayed by that time, not by a time slice of the scheduler.  With fewer than
 * throttle_below free seglets they have the priority of the writers, and do not rest; while a
 * writer waits for space they come before tasks that do not write, as the writer would.
 *
 * No locks.
 */
#include <linux/delay.h>
#include <linux/sched.h>
#include <linux/sched/stat.h>

#include "rest.h"
#include "seglet.h"
#include "store.h"

#define LSMEM_REST_AFTER_NS	(20 * NSEC_PER_USEC)
#define LSMEM_REST_US		20	/* at least, for other tasks */
#define LSMEM_REST_STALLED_NICE	(-10)	/* a waiting writer uses no processor; others may use all */

/* Are there so few free seglets that writers are slowed down? */
static bool lsmem_rest_urgent(const struct lsmem_store *store)
{
	return atomic_read(&store->space.stalled) ||
	       lsmem_seglets_free(&store->seglets) < READ_ONCE(store->space.throttle_below);
}

static void lsmem_rest_prioritize(const struct lsmem_store *store)
{
	int nice = atomic_read(&store->space.stalled) ? LSMEM_REST_STALLED_NICE :
		   lsmem_rest_urgent(store) ? 0 : MAX_NICE;

	if (nice != task_nice(current))
		set_user_nice(current, nice);
}

/**
 * lsmem_rest_begin - a piece of work begins
 * @rest: of the calling thread
 * Return: ktime in ns.
 */
u64 lsmem_rest_begin(struct lsmem_rest *rest)
{
	rest->ns = 0;
	rest->since = ktime_get_ns();
	return rest->since;
}

/**
 * lsmem_rest - let other tasks run that want this processor, unless memory is short
 * @store: the store
 * @rest: of the calling thread
 *
 * Context: may sleep; called every few microseconds of work.
 */
void lsmem_rest(const struct lsmem_store *store, struct lsmem_rest *rest)
{
	u64 now = ktime_get_ns();

	lsmem_rest_prioritize(store);
	if (now - rest->since < LSMEM_REST_AFTER_NS)
		return;
	rest->since = now;
	if (single_task_running() || lsmem_rest_urgent(store))
		return;
	usleep_range(LSMEM_REST_US, 2 * LSMEM_REST_US);
	rest->since = ktime_get_ns();
	rest->ns += rest->since - now;
}
