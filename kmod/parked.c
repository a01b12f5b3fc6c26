// SPDX-License-Identifier: GPL-2.0
/*
 * Waits for durability that no thread makes.
 *
 * A change whose caller does not wait is parked: under its place in the log, in one tree of its
 * store, and under its deadline, in another.  An acknowledgement takes the waits out that it
 * reaches, in the order of the log; delayed work takes out those whose deadline has passed.  Both
 * take LSMEM_PARKED_BATCH at a time, and end them with nothing held.  So a step under the lock
 * takes O(log n) for each wait, and no longer than that for a batch, however many wait.
 *
 * A wait for a point (a vector call) is parked under one place before the point that has not been
 * reached.  When that is reached it is parked under the next one: at most once for each segment
 * that was open, or on its way to the backups, at the point.
 *
 * What an acknowledgement changes, it changes before it looks here.  lsmem_park() looks at it
 * with the lock held: either it finds the place reached, or the acknowledgement finds the wait.
 * An acknowledgement that finds @nr zero does not take the lock: a wait is counted before its
 * change is looked at under segments.lock, so one that is not counted yet finds the place reached.
 *
 * Locks: parks.lock; inside it segments.lock, for a look at one place.
 */
#include <linux/ktime.h>

#include "durable.h"
#include "log.h"
#include "parked.h"
#include "store.h"

#define LSMEM_PARKED_BATCH	32

static bool lsmem_place_less(struct rb_node *a, const struct rb_node *b)
{
	const struct lsmem_place *pa = &rb_entry(a, struct lsmem_parked, node)->place;
	const struct lsmem_place *pb = &rb_entry(b, struct lsmem_parked, node)->place;

	return pa->segment != pb->segment ? pa->segment < pb->segment : pa->offset < pb->offset;
}

static bool lsmem_deadline_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct lsmem_parked, until)->deadline <
	       rb_entry(b, struct lsmem_parked, until)->deadline;
}

/* Have the work look at @deadline; lock held. */
static void lsmem_parks_arm(struct lsmem_parks *parks, u64 deadline)
{
	u64 now = ktime_get_ns();

	lockdep_assert_held(&parks->lock);
	parks->armed = deadline;
	/* A tick more: the current one has begun already. */
	mod_delayed_work(system_freezable_wq, &parks->work,
			 deadline > now ? nsecs_to_jiffies(deadline - now) + 1 : 0);
}

/* Take a wait out; lock held. */
static void lsmem_parked_remove(struct lsmem_parks *parks, struct lsmem_parked *parked)
{
	lockdep_assert_held(&parks->lock);
	rb_erase_cached(&parked->node, &parks->places);
	RB_CLEAR_NODE(&parked->node);
	rb_erase_cached(&parked->until, &parks->deadlines);
}

/**
 * lsmem_parked_begin - announce a wait
 * @store: durable
 *
 * Before the change is made: a change whose wait cannot be parked has a thread wait for it.
 * Return: false if there are LSMEM_PARKED_MAX waits.
 */
bool lsmem_parked_begin(struct lsmem_store *store)
{
	if (atomic_inc_return(&store->parks.nr) <= LSMEM_PARKED_MAX)
		return true;
	atomic_dec(&store->parks.nr);
	return false;
}

/**
 * lsmem_parked_end - undo lsmem_parked_begin()
 * @store: the store
 */
void lsmem_parked_end(struct lsmem_store *store)
{
	atomic_dec(&store->parks.nr);
}

/**
 * lsmem_park - park a wait, unless it is over
 * @parked: announced; all members but the nodes are set, @place only without a point
 *
 * Context: may be called again when the wait has ended.
 * Return: true if all is durable or received: the wait is not parked.  With false the wait may
 * have ended already, and have been freed.
 */
bool lsmem_park(struct lsmem_parked *parked)
{
	struct lsmem_store *store = parked->store;
	struct lsmem_parks *parks = &store->parks;
	bool reached;

	do {
		if (parked->point && !lsmem_log_missing(store, parked->point, &parked->place))
			return true;
		spin_lock(&parks->lock);
		reached = lsmem_place_durable(store, &parked->place, true);
		if (!reached) {
			rb_add_cached(&parked->node, &parks->places, lsmem_place_less);
			rb_add_cached(&parked->until, &parks->deadlines, lsmem_deadline_less);
			if (parked->deadline < parks->armed)
				lsmem_parks_arm(parks, parked->deadline);
			spin_unlock(&parks->lock);
			return false;
		}
		spin_unlock(&parks->lock);
	} while (parked->point);
	return true;
}

/**
 * lsmem_unpark - end a wait early
 * @parked: not freed yet
 *
 * Return: false if it is not parked, or its end has been called.
 */
bool lsmem_unpark(struct lsmem_parked *parked)
{
	struct lsmem_parks *parks = &parked->store->parks;
	bool waits;

	spin_lock(&parks->lock);
	waits = !RB_EMPTY_NODE(&parked->node);
	if (waits)
		lsmem_parked_remove(parks, parked);
	spin_unlock(&parks->lock);
	return waits;
}

/* The first wait at or behind the beginning of a segment; lock held. */
static struct rb_node *lsmem_parked_first(const struct lsmem_parks *parks, u64 segment)
{
	struct rb_node *node = parks->places.rb_root.rb_node, *first = NULL;

	lockdep_assert_held(&parks->lock);
	while (node) {
		if (rb_entry(node, struct lsmem_parked, node)->place.segment < segment) {
			node = node->rb_right;
		} else {
			first = node;
			node = node->rb_left;
		}
	}
	return first;
}

/**
 * lsmem_parked_acked - end the waits that an acknowledgement reaches
 * @store: the store
 * @segment: id
 * @to: all before this offset is durable, or received by each backup, and seen to be so by a
 *	wait that looks now
 *
 * Context: holds nothing.
 */
void lsmem_parked_acked(struct lsmem_store *store, u64 segment, u32 to)
{
	struct lsmem_parked *batch[LSMEM_PARKED_BATCH];
	struct lsmem_parks *parks = &store->parks;
	unsigned int nr, i;

	if (!atomic_read(&parks->nr))
		return;
	do {
		struct rb_node *node;

		nr = 0;
		spin_lock(&parks->lock);
		node = lsmem_parked_first(parks, segment);
		while (node && nr < LSMEM_PARKED_BATCH) {
			struct lsmem_parked *parked = rb_entry(node, struct lsmem_parked, node);

			if (parked->place.segment != segment || parked->place.offset > to)
				break;
			node = rb_next(node);
			lsmem_parked_remove(parks, parked);
			batch[nr++] = parked;
		}
		spin_unlock(&parks->lock);
		for (i = 0; i < nr; i++)
			if (!batch[i]->point || lsmem_park(batch[i]))
				batch[i]->ended(batch[i], 0);
		cond_resched();
	} while (nr == LSMEM_PARKED_BATCH);
}

/* End the waits whose deadline has passed, and look again at the next deadline. */
static void lsmem_parks_work(struct work_struct *work)
{
	struct lsmem_parks *parks = container_of(to_delayed_work(work), struct lsmem_parks, work);
	struct lsmem_parked *batch[LSMEM_PARKED_BATCH];
	unsigned int nr, i;

	do {
		u64 now = ktime_get_ns();
		struct rb_node *node;

		nr = 0;
		spin_lock(&parks->lock);
		while ((node = rb_first_cached(&parks->deadlines)) && nr < LSMEM_PARKED_BATCH) {
			struct lsmem_parked *parked = rb_entry(node, struct lsmem_parked, until);

			if (parked->deadline > now)
				break;
			lsmem_parked_remove(parks, parked);
			batch[nr++] = parked;
		}
		parks->armed = ~0ull;
		if (node)
			lsmem_parks_arm(parks,
					rb_entry(node, struct lsmem_parked, until)->deadline);
		spin_unlock(&parks->lock);
		for (i = 0; i < nr; i++)
			batch[i]->ended(batch[i], -ETIMEDOUT);
		cond_resched();
	} while (nr == LSMEM_PARKED_BATCH);
}

/**
 * lsmem_parks_init - no wait is parked yet
 * @store: zeroed
 */
void lsmem_parks_init(struct lsmem_store *store)
{
	spin_lock_init(&store->parks.lock);
	store->parks.places = RB_ROOT_CACHED;
	store->parks.deadlines = RB_ROOT_CACHED;
	store->parks.armed = ~0ull;
	INIT_DELAYED_WORK(&store->parks.work, lsmem_parks_work);
}

/**
 * lsmem_parks_stop - no wait is parked any more
 * @store: not open: each wait holds a file of it
 *
 * Context: sleeps.
 */
void lsmem_parks_stop(struct lsmem_store *store)
{
	cancel_delayed_work_sync(&store->parks.work);
}
