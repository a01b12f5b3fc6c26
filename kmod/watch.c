// SPDX-License-Identifier: GPL-2.0
/*
 * Rings of notes: which objects of a watched table have changed.
 *
 * A table has one ring, however many descriptors watch it; the first makes it, and it goes with the last.  Writers pay
 * for one note, and wait for no watcher: a watcher that is too slow finds that its next note was overwritten.
 *
 *	writer					watcher (watcher.c)
 *	------					-------------------
 *	ring->lock
 *	exchange the word			head (acquire)
 *	begun = n + 1; barrier			copy the notes
 *	write note n				barrier
 *	head = n + 1 (release)			begun: was one of them overwritten?
 *	unlock
 *
 * - The word is exchanged under the lock of the ring, and noted before the lock is given back.  So notes of an object are
 *   in the order of its exchanges, which is that of its versions (invariant 6).  A group exchanges all its words first,
 *   and notes them while it still holds the objects: no other change of one of them comes in between (group.c).
 * - A watcher that loads head sees the exchanges before it: the store of head is a release.  What then reads the
 *   object finds this version or a later one (tests/litmus/watch-visible.litmus).
 * - A watcher that has copied a byte of note n + entries sees begun at n + entries + 1 or above, since both sides have a
 *   barrier in between (tests/litmus/watch-overwritten.litmus).
 * - Who goes to sleep sets armed, and then looks at head; a writer raises head, and then looks at armed; both with a full
 *   barrier in between (tests/litmus/watch-sleep.litmus).  The writer queues a work, which wakes all that wait: a
 *   change costs the same for one watcher and for a thousand, and many changes are one wake-up.
 *
 * A writer loads handles.watched, and the ring, in the RCU reader in which it makes its change.  So after the grace period
 * that follows the making of a ring, all changes are noted or visible; and after that which follows its end, none
 * writes to it.
 *
 * Locks: watches->mutex for the set of rings, ring->lock for its notes.
 */
#include <linux/mm.h>
#include <linux/poll.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "store.h"
#include "watch.h"

static struct workqueue_struct *lsmem_watch_threads;

/* ---- Writers ------------------------------------------------------------ */

/**
 * lsmem_watch_lock - lock the ring of a table, if it has one
 * @watches: of the store
 * @table: any number: it may come from an entry, which a daemon can write
 *
 * Context: as lsmem_watch_begin(); afterwards spinlock held.  Return: the ring or NULL.
 */
struct lsmem_ring *lsmem_watch_lock(struct lsmem_watches *watches, u32 table)
{
	struct lsmem_ring *ring = xa_load(&watches->rings, table);

	if (ring) {
		spin_lock(&ring->lock);
		__release(&ring->lock);	/* for sparse, which knows no locks that depend on what is returned */
	}
	return ring;
}

/**
 * lsmem_watch_note - note a change
 * @ring: locked
 * @handle: of the object
 * @version: that the change has made
 * @kind: LSMEM_NOTE_*
 * @flags: LSMEM_NOTE_*
 */
void lsmem_watch_note(struct lsmem_ring *ring, u64 handle, u64 version, u32 kind, u32 flags)
{
	u64 n = ring->head;
	struct lsmem_note *note = &ring->notes[n & (ring->entries - 1)];

	lockdep_assert_held(&ring->lock);
	WRITE_ONCE(ring->begun, n + 1);
	smp_wmb();	/* pairs with lsmem_ring_read() */
	WRITE_ONCE(note->handle, handle);
	WRITE_ONCE(note->version, version);
	WRITE_ONCE(note->kind, kind);
	WRITE_ONCE(note->flags, flags);
	smp_store_release(&ring->head, n + 1);	/* pairs with lsmem_ring_head() */
}

/**
 * lsmem_watch_unlock - unlock a ring, and have its watchers woken
 * @ring: locked
 */
void lsmem_watch_unlock(struct lsmem_ring *ring)
{
	__acquire(&ring->lock);	/* as lsmem_watch_lock() */
	spin_unlock(&ring->lock);
	smp_mb();	/* head before armed: pairs with lsmem_ring_arm() */
	if (READ_ONCE(ring->armed) && xchg(&ring->armed, 0))
		queue_work(lsmem_watch_threads, &ring->wake);
}

/* ---- Watchers ----------------------------------------------------------- */

/**
 * lsmem_ring_arm - a watcher is about to look at the head for the last time before it sleeps
 * @ring: held; the watcher can be woken by its queue
 */
void lsmem_ring_arm(struct lsmem_ring *ring)
{
	WRITE_ONCE(ring->armed, 1);
	smp_mb();	/* armed before head: pairs with lsmem_watch_unlock() */
}

/**
 * lsmem_ring_read - copy notes
 * @ring: held
 * @cursor: sequence number of the first
 * @notes: out; with their cursors
 * @room: at @notes
 * @lost: out: the first is not there (any more), and nothing was copied
 * Return: notes copied; 0: there are none yet, or @lost.
 */
u32 lsmem_ring_read(const struct lsmem_ring *ring, u64 cursor, struct lsmem_note *notes, u32 room, bool *lost)
{
	u32 nr = min_t(u64, lsmem_ring_head(ring) - cursor, room), i;

	for (i = 0; i < nr; i++) {
		const struct lsmem_note *note = &ring->notes[(cursor + i) & (ring->entries - 1)];

		notes[i] = (struct lsmem_note){
			.cursor = cursor + i + 1,
			.handle = READ_ONCE(note->handle),
			.version = READ_ONCE(note->version),
			.kind = READ_ONCE(note->kind),
			.flags = READ_ONCE(note->flags),
		};
	}
	smp_rmb();	/* pairs with lsmem_watch_note() */
	*lost = READ_ONCE(ring->begun) - cursor > ring->entries;
	return *lost ? 0 : nr;
}

static void lsmem_ring_wake(struct work_struct *work)
{
	struct lsmem_ring *ring = container_of(work, struct lsmem_ring, wake);

	wake_up_poll(&ring->wait, EPOLLIN | EPOLLRDNORM);
}

/* ---- Life of a ring ----------------------------------------------------- */

static void lsmem_watches_put(struct lsmem_watches *watches)
{
	if (!refcount_dec_and_test(&watches->users))
		return;
	xa_destroy(&watches->rings);
	kfree(watches);
}

/* A grace period has passed since the last watcher went: no writer uses the ring. */
static void lsmem_ring_end(struct work_struct *work)
{
	struct lsmem_ring *ring = container_of(to_rcu_work(work), struct lsmem_ring, end);
	struct lsmem_watches *watches = ring->watches;

	cancel_work_sync(&ring->wake);
	kvfree(ring);
	lsmem_watches_put(watches);
}

static struct lsmem_ring *lsmem_ring_make(struct lsmem_store *store, u32 table, u32 entries)
{
	struct lsmem_watches *watches = store->watches;
	struct lsmem_ring *ring;
	int ret;

	if (watches->nr >= LSMEM_WATCH_TABLES)
		return ERR_PTR(-EBUSY);
	ring = kvzalloc(struct_size(ring, notes, entries), GFP_KERNEL_ACCOUNT);
	if (!ring)
		return ERR_PTR(-ENOMEM);
	ring->watches = watches;
	ring->table = table;
	ring->entries = entries;
	ring->era = store->handles.era;
	ring->clock = store->clock;
	ring->clock_base = store->clock_base;
	init_waitqueue_head(&ring->wait);
	INIT_WORK(&ring->wake, lsmem_ring_wake);
	INIT_RCU_WORK(&ring->end, lsmem_ring_end);
	spin_lock_init(&ring->lock);
	ring->head = get_random_u64() >> 1 | 1;	/* is not 0 in this age */
	ring->begun = ring->head;
	ret = xa_err(xa_store(&watches->rings, table, ring, GFP_KERNEL_ACCOUNT));
	if (ret) {
		kvfree(ring);
		return ERR_PTR(ret);
	}
	refcount_inc(&watches->users);
	if (!watches->nr++)
		WRITE_ONCE(store->handles.watched, watches);
	synchronize_rcu();	/* all changes that come are noted, and all others visible */
	return ring;
}

/**
 * lsmem_ring_get - watch a table
 * @store: active, object kind; held by the caller
 * @table: below LSMEM_TABLES
 * @entries: a power of two up to LSMEM_WATCH_ENTRIES, if it is not watched yet
 *
 * Context: sleeps, for a grace period if it is not watched yet.
 * Return: its ring, held; or an ERR_PTR: -EBUSY: too many are; -ENOMEM; -EINTR: a fatal signal.
 */
struct lsmem_ring *lsmem_ring_get(struct lsmem_store *store, u32 table, u32 entries)
{
	struct lsmem_watches *watches = store->watches;
	struct lsmem_ring *ring;

	if (mutex_lock_killable(&watches->mutex))
		return ERR_PTR(-EINTR);
	ring = xa_load(&watches->rings, table);
	if (!ring)
		ring = lsmem_ring_make(store, table, entries);
	if (!IS_ERR(ring))
		ring->watchers++;
	mutex_unlock(&watches->mutex);
	return ring;
}

/**
 * lsmem_ring_put - undo lsmem_ring_get()
 * @ring: the caller's; the store may be gone
 *
 * Context: sleeps.
 */
void lsmem_ring_put(struct lsmem_ring *ring)
{
	struct lsmem_watches *watches = ring->watches;
	bool last;

	mutex_lock(&watches->mutex);
	last = !--ring->watchers;
	if (last && !watches->ended) {
		xa_erase(&watches->rings, ring->table);
		if (!--watches->nr)
			WRITE_ONCE(watches->handles->watched, NULL);
	}
	mutex_unlock(&watches->mutex);
	if (last)
		queue_rcu_work(lsmem_watch_threads, &ring->end);
}

/* ---- The store ---------------------------------------------------------- */

/**
 * lsmem_watches_init - no table is watched yet
 * @store: new
 * Return: 0 or -ENOMEM.
 */
int lsmem_watches_init(struct lsmem_store *store)
{
	struct lsmem_watches *watches = kzalloc(sizeof(*watches), GFP_KERNEL);

	if (!watches)
		return -ENOMEM;
	refcount_set(&watches->users, 1);
	mutex_init(&watches->mutex);
	xa_init_flags(&watches->rings, XA_FLAGS_ACCOUNT);
	watches->handles = &store->handles;
	store->watches = watches;
	return 0;
}

/**
 * lsmem_watches_end - no more notes come: tell the watchers
 * @store: is being destroyed; it is not open
 *
 * Context: sleeps.
 */
void lsmem_watches_end(struct lsmem_store *store)
{
	struct lsmem_watches *watches = store->watches;
	struct lsmem_ring *ring;
	unsigned long table;

	mutex_lock(&watches->mutex);
	watches->ended = true;
	WRITE_ONCE(store->handles.watched, NULL);
	xa_for_each(&watches->rings, table, ring) {
		WRITE_ONCE(ring->dead, true);
		wake_up_poll(&ring->wait, EPOLLIN | EPOLLRDNORM | EPOLLHUP);
	}
	mutex_unlock(&watches->mutex);
}

/**
 * lsmem_watches_destroy - undo lsmem_watches_init(); watchers keep their rings
 * @store: is freed
 */
void lsmem_watches_destroy(struct lsmem_store *store)
{
	if (store->watches)
		lsmem_watches_put(store->watches);
}

/**
 * lsmem_watch_init - prepare for watchers
 * Return: 0 or -ENOMEM.
 */
int lsmem_watch_init(void)
{
	lsmem_watch_threads = alloc_workqueue("lsmem-watch", WQ_UNBOUND, 0);
	return lsmem_watch_threads ? 0 : -ENOMEM;
}

/**
 * lsmem_watch_exit - undo lsmem_watch_init()
 *
 * There is no watcher, since each holds the module, but rings may still wait for their ends.
 */
void lsmem_watch_exit(void)
{
	rcu_barrier();
	destroy_workqueue(lsmem_watch_threads);
}
