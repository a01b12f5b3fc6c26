// SPDX-License-Identifier: GPL-2.0
/*
 * Durability: waiting for it.
 *
 * A change is durable when its daemon has acknowledged the log up to its end (repl.c).  An
 * operation that is to be durable waits for its own place, until that is durable or, with
 * backups that answer for their memory, each of them has received it.  SYNC, fsync, FLUSH
 * and FUA wait for what is durable; those that want all changes take a point in every head
 * and wait for that.
 *
 * Each wait has a bound (durable_ms, flush_ms or the caller's) and ends when the store is
 * no longer active: nothing waits for a daemon that does not come.
 *
 * Locks: segments.lock to look; none while waiting.
 */
#include "durable.h"
#include "log.h"
#include "store.h"

/* A wait that ends when @condition holds or the store is no longer active. */
#define lsmem_wait_acks(store, condition, ms)						\
({											\
	long __left;									\
											\
	wake_up(&(store)->repl.events);							\
	__left = lsmem_wait_event(store, repl.acks,						\
				  (condition) || !lsmem_store_active(store),		\
				  msecs_to_jiffies(ms));				\
	__left < 0 ? -EINTR : !__left ? -ETIMEDOUT :					\
		lsmem_store_active(store) ? 0 : -EAGAIN;				\
})

/* Is this place durable, or @received?  A segment that has left the log was, whole. */
static bool lsmem_place_durable(struct lsmem_store *store, const struct lsmem_place *place,
				bool received)
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
 * Return: 0; -EOPNOTSUPP on a volatile store; -ETIMEDOUT after @ms: it is
 * applied, its durability unknown; -EINTR likewise; -EAGAIN.
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
 * Return: as lsmem_wait_durable(), the bound is durable_ms.
 */
int lsmem_wait_received(struct lsmem_store *store, const struct lsmem_place *place)
{
	return lsmem_wait_place(store, place, true, READ_ONCE(store->repl.durable_ms));
}

/**
 * lsmem_sync - make everything before it durable
 * @store: active
 * @timeout_ms: bound, 0 for flush_ms
 *
 * A snapshot of all heads at its arrival; what is written meanwhile is not
 * waited for.  Return: as lsmem_wait_durable().
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
 * lsmem_sync_received - wait until everything before it is durable, or received
 * @store: active
 *
 * For operations that wait together.  Return: as lsmem_wait_durable().
 */
int lsmem_sync_received(struct lsmem_store *store)
{
	struct lsmem_vector_point point;

	lsmem_log_point(store, &point);
	return lsmem_wait_acks(store, lsmem_log_reached(store, &point, LSMEM_REACH_RECEIVED),
			       READ_ONCE(store->repl.durable_ms));
}
