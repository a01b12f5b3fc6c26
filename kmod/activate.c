// SPDX-License-Identifier: GPL-2.0
/*
 * Activation: a store begins to work.
 *
 * A volatile store is active as soon as it is made.  A durable one is NEW until its
 * daemon has brought it up (load.c), and only then takes data calls and, if it is a block
 * store, has a block device (invariant 18).  While it is active it holds the module: its
 * memory may be the only copy of what its daemon has not written yet.
 *
 * Lock: store->mutex.
 */
#include <linux/module.h>

#include "activate.h"
#include "block.h"
#include "clean.h"
#include "compact.h"
#include "segment.h"
#include "store.h"

/**
 * lsmem_store_rest - end the threads that make room
 * @store: is going, or did not become active
 *
 * Context: sleeps until they have ended.
 */
void lsmem_store_rest(struct lsmem_store *store)
{
	lsmem_cleaner_stop(store);
	lsmem_compactors_stop(store);
}

/* Make what makes room; it does not run yet. */
static int lsmem_store_threads(struct lsmem_store *store)
{
	int ret = lsmem_compactors_make(store);

	if (!ret)
		ret = lsmem_cleaner_make(store);
	if (ret)
		lsmem_store_rest(store);
	return ret;
}

/**
 * lsmem_store_activate - a store takes data calls from now on
 * @store: era, clock, ids and generations are set
 *
 * Context: store->mutex held; may sleep.
 * Return: 0 or an error; then nothing has been moved, and a durable store is
 * RECOVERING, to be forgotten with its attachment.
 */
int lsmem_store_activate(struct lsmem_store *store)
{
	u32 before = store->durable ? LSMEM_STATE_RECOVERING : store->state;
	int ret;

	lockdep_assert_held(&store->mutex);
	spin_lock(&store->segments.lock);
	lsmem_segments_spare(store);
	spin_unlock(&store->segments.lock);
	ret = lsmem_store_threads(store);
	if (ret) {
		WRITE_ONCE(store->state, before);
		return ret;
	}
	smp_store_release(&store->state, LSMEM_STATE_ACTIVE);	/* see lsmem_store_active() */
	if (store->kind == LSMEM_KIND_BLOCK) {
		ret = lsmem_block_add(store);
		if (ret) {
			WRITE_ONCE(store->state, before);
			lsmem_store_rest(store);
			return ret;
		}
	}
	/* Nothing fails any more: or a pass would have begun on segments that are forgotten. */
	lsmem_compactors_run(store);
	lsmem_cleaner_run(store);
	if (store->durable) {
		__module_get(THIS_MODULE);
		kobject_uevent(&store->dev.kobj, KOBJ_CHANGE);	/* it can be used from now on */
	}
	wake_up(&store->repl.events);
	return 0;
}
