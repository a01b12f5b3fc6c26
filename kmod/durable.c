// SPDX-License-Identifier: GPL-2.0
/*
 * Waiting for durability.
 *
 * A change is durable when the daemon has acknowledged the log up to its end (repl.c).  A
 * durable operation waits for its own place: until it is durable or, with ack = memory, until
 * each backup has received it.  SYNC, fsync, FLUSH and FUA wait until it is durable; waits for
 * all changes take the reserved end of every head and wait for these.
 *
 * Each wait has a bound (durable_ms, flush_ms or the caller's) and ends when the store is no
 * longer active: nothing waits for a daemon that does not come back.
 *
 * Locks: segments.lock for each look; none while waiting.
 */
#include "durable.h"
#include "log.h"
#include "store.h"

/*
 * A wait that ends when @condition holds or the store is no longer active, and not before @ms have
 * passed by the clock: ticks can be late, and the current one has begun already.
 */
#define lsmem_wait_acks(store, condition, ms)						\
({											\
	u64 __end = ktime_get_ns() + (u64)(ms) * NSEC_PER_MSEC, __now;				\
	long __left;									\
											\
	wake_up(&(store)->repl.events);							\
	do {										\
		__now = ktime_get_ns();							\
		__left = __now >= __end ? 0 : lsmem_wait_event(store, repl.acks,	\
				(condition) || !lsmem_store_active(store),		\
				nsecs_to_jiffies(__end - __now) + 1);			\
	} while (!__left && __now < __end);						\
	__left < 0 ? -EINTR : !__left ? -ETIMEDOUT :					\
		lsmem_store_active(store) ? 0 : -EAGAIN;				\
})

/**
 * lsmem_place_durable - is a change durable?
 * @store: durable
 * @place: of the change
 * @received: or has each backup received it
 *
 * A segment that left the log was durable.
 * Context: takes segments.lock.
 */
bool lsmem_place_durable(struct lsmem_store *store, const struct lsmem_place *place, bool received)
{
	const struct lsmem_segment *seg;
	bool durable;

	spin_lock(&store->segments.lock);
	seg = lsmem_segment_find(store, place->segment);
	durable = !seg || place->offset <= (received ? lsmem_segment_received(seg) : seg->acked);
	spin_unlock(&store->segments.lock);
	return durable;
}

static int lsmem_wait_place(struct lsmem_store *store, const struct lsmem_place *place,
			    bool received, unsigned int ms)
{
	if (!store->durable)
		return -EOPNOTSUPP;
	if (!place->segment)
		return 0;
	lsmem_count(store, durable_waits, 1);
	return lsmem_wait_acks(store, lsmem_place_durable(store, place, received), ms);
}

/**
 * lsmem_wait_durable - wait until a change is durable
 * @store: active
 * @place: of the change; segment 0: none
 * @ms: bound
 *
 * Return: 0; -EOPNOTSUPP on a volatile store; -ETIMEDOUT after @ms, -EINTR: the change is
 * applied, and whether it is durable is unknown; -EAGAIN: the store is not active.
 */
int lsmem_wait_durable(struct lsmem_store *store, const struct lsmem_place *place,
		       unsigned int ms)
{
	return lsmem_wait_place(store, place, false, ms);
}

/**
 * lsmem_wait_received - wait until a change is durable, or each backup has received it
 * @store: active
 * @place: of the change; segment 0: none
 *
 * Return: as lsmem_wait_durable(), with durable_ms as the bound.
 */
int lsmem_wait_received(struct lsmem_store *store, const struct lsmem_place *place)
{
	return lsmem_wait_place(store, place, true, READ_ONCE(store->repl.durable_ms));
}

/**
 * lsmem_sync - wait until all changes so far are durable
 * @store: active
 * @timeout_ms: bound, 0 for flush_ms
 *
 * Changes that are made during the call are not waited for.
 * Return: as lsmem_wait_durable().
 */
int lsmem_sync(struct lsmem_store *store, u32 timeout_ms)
{
	struct lsmem_vector_point point;

	if (!store->durable)
		return -EOPNOTSUPP;
	lsmem_log_point(store, &point);
	return lsmem_wait_acks(store, lsmem_log_reached(store, &point, LSMEM_REACH_DURABLE),
			       timeout_ms ?: READ_ONCE(store->repl.flush_ms));
}

/**
 * lsmem_sync_received - wait until all changes so far are durable, or received
 * @store: active
 *
 * For the operations of one vector call.  Return: as lsmem_wait_durable().
 */
int lsmem_sync_received(struct lsmem_store *store)
{
	struct lsmem_vector_point point;

	lsmem_log_point(store, &point);
	return lsmem_wait_acks(store, lsmem_log_reached(store, &point, LSMEM_REACH_RECEIVED),
			       READ_ONCE(store->repl.durable_ms));
}
