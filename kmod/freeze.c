// SPDX-License-Identifier: GPL-2.0
/*
 * Freezing a store, so that another host can take it over: no client is served, nothing changes the log, and all
 * that is committed is in closed segments.  Documentation/migration.rst, rule 2.
 *
 * Who changes the log appends, with preemption off or as a reader of RCU from before it looks whether the store is
 * frozen: after a grace period all appends are committed.  Reads look when they begin.  One that began before may
 * end later: what it finds was true during the call, because nothing has changed since.  So they are not waited
 * for.  The same holds for views that were begun before.  Who looks and finds the store frozen waits in
 * lsmem_space_thaw().
 *
 * Nothing waits here for what the daemon may have to answer: it calls again.  Cleaner and compactors end
 * what they have begun, and begin nothing (lsmem_clean_possible(), lsmem_snapshots_hold()).  What they free, and what
 * is fetched for a call that began before, changes no entry.
 *
 * Ranges of pages must be closed: the stores of a process to a mapped page are no calls.
 *
 * The objects are counted by their words when no call can change one any more: handles.used also has indices that are
 * BUSY, as that of an ALLOC which waits for the thaw.
 *
 * Locks: attachment->mutex.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/rcupdate.h>

#include "buffer.h"
#include "clean.h"
#include "freeze.h"
#include "handle.h"
#include "log.h"
#include "snapshot.h"
#include "space.h"
#include "store.h"
#include "window.h"

static void lsmem_freeze_end(struct lsmem_store *store)
{
	if (!store->repl.frozen)
		return;
	WRITE_ONCE(store->repl.frozen, false);
	lsmem_window_hide(store, false);
	lsmem_space_came(store);
	wake_up_all(&store->plan.work);
	pr_info("%s: not frozen any more\n", store->name);
}

/* Returns 0 or -EBUSY: then the store is not frozen. */
static int lsmem_freeze_begin(struct lsmem_store *store)
{
	if (store->repl.frozen)
		return 0;
	if (lsmem_buffers_there(store))
		return -EBUSY;
	WRITE_ONCE(store->repl.frozen, true);
	mutex_lock(&store->plan.mutex);	/* no victims are being chosen */
	mutex_unlock(&store->plan.mutex);
	/* Appends.  A full barrier, too: pairs with lsmem_snapshots_moving(). */
	synchronize_rcu_expedited();
	if (lsmem_buffers_there(store)) {	/* pairs with lsmem_pages_use() */
		lsmem_freeze_end(store);
		return -EBUSY;
	}
	lsmem_window_hide(store, true);
	pr_info("%s: frozen\n", store->name);
	return 0;
}

/* Close all heads, unless something is under way. Returns whether that is so. */
static bool lsmem_freeze_reached(struct lsmem_store *store)
{
	if (!lsmem_snapshots_stop(store) || lsmem_clean_underway(store) || atomic_read(&store->snapshots.moving))
		return false;
	lsmem_log_close(store);
	return true;
}

/**
 * lsmem_freeze - LSMEM_REPL_FREEZE
 * @store: attached
 * @freeze: see there
 *
 * Context: attachment->mutex held; sleeps.  Return: 0 or an error as there.
 */
long lsmem_freeze(struct lsmem_store *store, struct lsmem_freeze *freeze)
{
	bool thaw = freeze->flags & LSMEM_FREEZE_THAW;
	int ret = 0;

	if (freeze->flags & ~LSMEM_FREEZE_THAW || freeze->frozen || freeze->reserved || freeze->objects ||
	    (!freeze->term && !thaw))
		return -EINVAL;
	if (!lsmem_store_active(store))
		return -EAGAIN;
	if (thaw)
		lsmem_freeze_end(store);
	else
		ret = lsmem_freeze_begin(store);
	if (ret)
		return ret;
	store->repl.term = freeze->term;
	if (thaw || !lsmem_freeze_reached(store))
		return 0;
	ret = lsmem_handles_count(store, &freeze->objects);
	freeze->frozen = !ret;
	return ret;
}
