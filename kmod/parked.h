/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waits for durability that no thread makes.  See parked.c.  lsmem_park() decides whether a change
 * has to wait, lsmem_parked_acked() which waits an acknowledgement ends.  Callers: uring.c, whose
 * commands wait here, repl.c, which has the acknowledgements, and store.c.
 */
#ifndef LSMEM_PARKED_H
#define LSMEM_PARKED_H

#include <linux/atomic.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "entry.h"

struct lsmem_store;
struct lsmem_vector_point;

#define LSMEM_PARKED_MAX	65536	/* of a store */

/**
 * struct lsmem_parks - the waits of a store that no thread makes
 * @lock: protects the trees, @armed, and the nodes of each wait
 * @places: waits, by segment and offset
 * @deadlines: the same waits, by deadline
 * @armed: when @work looks at the deadlines, ktime in ns; ~0: not at all
 * @work: ends waits whose deadline has passed
 * @nr: waits that have been announced by lsmem_parked_begin()
 */
struct lsmem_parks {
	spinlock_t lock;
	struct rb_root_cached places;
	struct rb_root_cached deadlines;
	u64 armed;
	struct delayed_work work;
	atomic_t nr;
};

/**
 * struct lsmem_parked - a wait that no thread makes; part of a larger structure
 * @store: where
 * @node: in places; under lock
 * @until: in deadlines; under lock
 * @place: that must be durable, or received by each backup; its deadline is not used
 * @point: NULL, or all before it must be: @place is the part that is waited for
 * @deadline: ktime in ns
 * @ended: called once, with nothing held, when the wait has ended: 0 or -ETIMEDOUT.  The wait may
 *	be freed from then on
 */
struct lsmem_parked {
	struct lsmem_store *store;
	struct rb_node node;
	struct rb_node until;
	struct lsmem_place place;
	const struct lsmem_vector_point *point;
	u64 deadline;
	void (*ended)(struct lsmem_parked *parked, int ret);
};

void lsmem_parks_init(struct lsmem_store *store);
void lsmem_parks_stop(struct lsmem_store *store);
bool lsmem_parked_begin(struct lsmem_store *store);
void lsmem_parked_end(struct lsmem_store *store);
bool lsmem_park(struct lsmem_parked *parked);
bool lsmem_unpark(struct lsmem_parked *parked);
void lsmem_parked_acked(struct lsmem_store *store, u64 segment, u32 to);

#endif
