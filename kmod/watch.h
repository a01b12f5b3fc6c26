/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rings of notes: which objects of a watched table have changed.  See watch.c.  lsmem_watch_begin() decides whether a
 * change is to be noted, lsmem_ring_get() whether a table can be watched.  Callers: object.c, span.c and group.c, changes;
 * watcher.c, the descriptor.
 */
#ifndef LSMEM_WATCH_H
#define LSMEM_WATCH_H

#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "../uapi/lsmem.h"
#include "handle.h"

struct lsmem_store;

/**
 * struct lsmem_watches - the watched tables of a store
 * @users: the store, and each ring
 * @mutex: of all below, and of lsmem_ring.watchers
 * @handles: of the store, until @ended
 * @ended: the store is being destroyed
 * @nr: rings in @rings
 * @rings: by table; loaded under rcu_read_lock(), without @mutex
 */
struct lsmem_watches {
	refcount_t users;
	struct mutex mutex;
	struct lsmem_handles *handles;
	bool ended;
	u32 nr;
	struct xarray rings;
};

/**
 * struct lsmem_ring - the last changes of a table
 * @watches: of the store
 * @table: id
 * @entries: of @notes, a power of two
 * @watchers: open descriptors
 * @dead: the store is being destroyed: no more notes come
 * @era: of versions, as the store's; a store that can be watched does not change it
 * @clock: as the store's
 * @clock_base: as the store's
 * @wait: watchers that wait for notes
 * @wake: wakes them
 * @end: frees the ring when no writer uses it
 * @lock: of writers; held from the exchange of a word until it is noted
 * @begun: as @head, but raised before the note is written
 * @head: sequence number of the next note; begins anywhere, so that a cursor of another ring is not taken for one of
 *	this
 * @armed: a watcher has found nothing since the last wake
 * @notes: by sequence number, modulo @entries; cursor and what is not yet written are not looked at
 */
struct lsmem_ring {
	struct lsmem_watches *watches;
	u32 table;
	u32 entries;
	u32 watchers;
	bool dead;
	u32 era;
	u64 clock;
	u64 clock_base;
	wait_queue_head_t wait;
	struct work_struct wake;
	struct rcu_work end;
	spinlock_t lock ____cacheline_aligned_in_smp;
	u64 begun;
	u64 head;
	u32 armed;
	struct lsmem_note notes[] ____cacheline_aligned_in_smp;
};

struct lsmem_ring *lsmem_watch_lock(struct lsmem_watches *watches, u32 table);
void lsmem_watch_note(struct lsmem_ring *ring, u64 handle, u64 version, u32 kind, u32 flags);
void lsmem_watch_unlock(struct lsmem_ring *ring);

/*
 * An object of a table is about to be changed.  lsmem_watch_end() follows, with nothing in between that waits.
 *
 * Context: rcu_read_lock() held, or in an append, from before until lsmem_watch_end().
 * Return: the table's ring, locked, or NULL: the table is not watched.
 */
static inline struct lsmem_ring *lsmem_watch_begin(const struct lsmem_handles *handles, u32 table)
{
	struct lsmem_watches *watches = READ_ONCE(handles->watched);

	return likely(!watches) ? NULL : lsmem_watch_lock(watches, table);
}

/* The word was exchanged, if @done; returns @done. */
static inline bool lsmem_watch_end(struct lsmem_ring *ring, bool done, u64 handle, u64 version, u32 kind)
{
	if (unlikely(ring)) {
		if (done)
			lsmem_watch_note(ring, handle, version, kind, 0);
		lsmem_watch_unlock(ring);
	}
	return done;
}

int lsmem_watches_init(struct lsmem_store *store);
void lsmem_watches_end(struct lsmem_store *store);
void lsmem_watches_destroy(struct lsmem_store *store);
int lsmem_watch_init(void);
void lsmem_watch_exit(void);

struct lsmem_ring *lsmem_ring_get(struct lsmem_store *store, u32 table, u32 entries);
void lsmem_ring_put(struct lsmem_ring *ring);
void lsmem_ring_arm(struct lsmem_ring *ring);
u32 lsmem_ring_read(const struct lsmem_ring *ring, u64 cursor, struct lsmem_note *notes, u32 room, bool *lost);

/* The sequence number of the next note: those before are there, and what they tell is visible. */
static inline u64 lsmem_ring_head(const struct lsmem_ring *ring)
{
	return smp_load_acquire(&ring->head);	/* pairs with lsmem_watch_note() */
}

#endif
