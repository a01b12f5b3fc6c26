// SPDX-License-Identifier: GPL-2.0
/*
 * Retiring: what happens to segments from the end of a pass until their seglets are free.
 *
 * The victims of a pass are a group and retire together, when
 *
 *	durable stores	all of the log up to the end of the pass (survivors, and
 *			what superseded the entries that were not moved) is
 *			durable, and then a digest without the group (invariants
 *			9, 10); the daemon does both
 *	all stores	no view and no kernel reader can see the seglets
 *
 * Groups are a ring: they are told, acknowledged and freed in order.
 *
 * Locks: segments.lock for the ring; only the cleaner's thread adds and frees.
 */
#include "entry.h"
#include "epoch.h"
#include "log.h"
#include "retire.h"
#include "snapshot.h"
#include "space.h"
#include "store.h"
#include "trace.h"

/**
 * lsmem_retires_full - is there no room for another group?
 * @store: the store
 */
bool lsmem_retires_full(const struct lsmem_store *store)
{
	return READ_ONCE(store->retires.next) - READ_ONCE(store->retires.first) == LSMEM_RETIRES;
}

/**
 * lsmem_retire_add - add a group of segments whose entries have been moved
 * @store: lsmem_retires_full() does not hold
 * @victims: the segments, in state VICTIM
 * @nr: 1 .. LSMEM_VICTIMS
 */
void lsmem_retire_add(struct lsmem_store *store, struct lsmem_segment *const *victims, u32 nr)
{
	struct lsmem_vector_point after;
	struct lsmem_retire *retire;
	u64 epoch, records = 0;
	u32 i;

	for (i = 0; i < nr; i++)
		records += atomic_read(victims[i]->tombstones);
	lsmem_live_add(store, -(s64)records);	/* bytes that were not moved */
	lsmem_log_point(store, &after);
	epoch = lsmem_epoch_advance(store);
	spin_lock(&store->segments.lock);
	retire = &store->retires.ring[store->retires.next % LSMEM_RETIRES];
	retire->nr = nr;
	memcpy(retire->victims, victims, nr * sizeof(*victims));
	retire->after = after;
	retire->epoch = epoch;
	retire->rcu = get_state_synchronize_rcu();
	retire->begun = ktime_get_ns();
	retire->emitted = false;
	retire->acked = !store->durable;
	WRITE_ONCE(store->retires.next, store->retires.next + 1);
	WRITE_ONCE(store->retires.segments, store->retires.segments + retire->nr);
	spin_unlock(&store->segments.lock);
	if (store->durable)
		wake_up(&store->repl.events);
}

static struct lsmem_retire *lsmem_retire_oldest(struct lsmem_store *store)
{
	if (store->retires.first == READ_ONCE(store->retires.next))
		return NULL;
	return &store->retires.ring[store->retires.first % LSMEM_RETIRES];
}

/**
 * lsmem_retire_due - is there a group whose digest is durable?
 * @store: the store
 */
bool lsmem_retire_due(struct lsmem_store *store)
{
	struct lsmem_retire *retire = lsmem_retire_oldest(store);

	return retire && READ_ONCE(retire->acked);
}

/**
 * lsmem_retire_free - free the oldest group whose digest is durable
 * @store: the store
 *
 * The group leaves the ring first: its segments are freed one by one, segments.lock is
 * released between them, and an acknowledgement must not find a group of which some segments
 * are in use again.
 *
 * Context: the cleaner's thread; may sleep for an RCU grace period.
 * Return: false if there is none, or a view may see it.
 */
bool lsmem_retire_free(struct lsmem_store *store)
{
	struct lsmem_retire *retire = lsmem_retire_oldest(store);
	struct lsmem_segment *victims[LSMEM_VICTIMS];
	u32 nr, i;
	u64 epoch;

	if (!retire || !READ_ONCE(retire->acked) || !lsmem_epoch_passed(store, retire->epoch))
		return false;
	cond_synchronize_rcu_expedited(retire->rcu);	/* writers may wait for these seglets */
	trace_lsmem_retire(store->name, retire->nr, ktime_get_ns() - retire->begun);
	spin_lock(&store->segments.lock);
	nr = retire->nr;
	epoch = retire->epoch;
	memcpy(victims, retire->victims, nr * sizeof(*victims));
	retire->nr = 0;
	WRITE_ONCE(store->retires.first, store->retires.first + 1);
	for (i = 0; i < nr; i++) {
		victims[i]->nr_seglets = lsmem_snapshots_keep(store, victims[i]->seglets,
							      victims[i]->nr_seglets, epoch,
							      victims[i]->salt, false);
		lsmem_segment_free(store, victims[i]);
		WRITE_ONCE(store->retires.segments, store->retires.segments - 1);
		spin_unlock(&store->segments.lock);
		cond_resched();
		spin_lock(&store->segments.lock);
	}
	lsmem_segments_spare(store);
	spin_unlock(&store->segments.lock);
	lsmem_space_came(store);
	if (store->durable)
		wake_up(&store->repl.events);	/* spares can be opened */
	return true;
}

/* ---- The daemon --------------------------------------------------------- */

/**
 * lsmem_retire_tell - make RETIRE events of the groups that can retire
 * @store: segments.lock held
 * @events: out
 * @room: entries of @events; a group is told as a whole or not at all
 *
 * Return: how many events.
 */
u32 lsmem_retire_tell(struct lsmem_store *store, struct lsmem_event *events, u32 room)
{
	u32 nr = 0, i, j;

	lockdep_assert_held(&store->segments.lock);
	for (i = store->retires.first; i != store->retires.next; i++) {
		struct lsmem_retire *retire = &store->retires.ring[i % LSMEM_RETIRES];

		if (retire->emitted)
			continue;
		/* Invariant 9: else v1 could be dropped for a v2 that a crash loses. */
		if (!lsmem_log_emitted(store, &retire->after) || retire->nr > room - nr)
			break;
		for (j = 0; j < retire->nr; j++) {
			events[nr++] = (struct lsmem_event){
				.type = LSMEM_EVENT_RETIRE,
				.flags = j + 1 < retire->nr ? LSMEM_EVENT_MORE : 0,
				.segment = retire->victims[j]->id,
				.generation = retire->victims[j]->generation,
			};
			retire->victims[j]->retire_emitted = true;
		}
		retire->emitted = true;
	}
	return nr;
}

/**
 * lsmem_retire_pending - would lsmem_retire_tell() make events?
 * @store: segments.lock held
 */
bool lsmem_retire_pending(struct lsmem_store *store)
{
	u32 i;

	lockdep_assert_held(&store->segments.lock);
	for (i = store->retires.first; i != store->retires.next; i++) {
		const struct lsmem_retire *retire = &store->retires.ring[i % LSMEM_RETIRES];

		if (!retire->emitted && lsmem_log_emitted(store, &retire->after))
			return true;
	}
	return false;
}

/**
 * lsmem_retire_ack - take note that a digest without a group is durable
 * @store: segments.lock held
 * @last: id of the last segment of the group
 *
 * Return: false when no such group has been told.
 */
bool lsmem_retire_ack(struct lsmem_store *store, u64 last)
{
	u32 i, j;

	for (i = store->retires.first; i != store->retires.next; i++) {
		struct lsmem_retire *retire = &store->retires.ring[i % LSMEM_RETIRES];

		if (!retire->nr || !retire->emitted || retire->victims[retire->nr - 1]->id != last)
			continue;
		for (j = 0; j < retire->nr; j++)
			retire->victims[j]->retire_acked = true;
		WRITE_ONCE(retire->acked, true);
		return true;
	}
	return false;
}

/**
 * lsmem_retire_rewind - tell unacknowledged groups again, to another daemon
 * @store: segments.lock held
 */
void lsmem_retire_rewind(struct lsmem_store *store)
{
	u32 i;

	lockdep_assert_held(&store->segments.lock);
	for (i = store->retires.first; i != store->retires.next; i++)
		store->retires.ring[i % LSMEM_RETIRES].emitted =
			store->retires.ring[i % LSMEM_RETIRES].acked;
}

/**
 * lsmem_retire_forget - drop all groups, because a recovery was given up
 * @store: RECOVERING; segments.lock held
 */
void lsmem_retire_forget(struct lsmem_store *store)
{
	u32 i;

	lockdep_assert_held(&store->segments.lock);
	for (i = 0; i < LSMEM_RETIRES; i++)
		store->retires.ring[i].nr = 0;
	store->retires.first = 0;
	store->retires.next = 0;
	store->retires.segments = 0;
}
