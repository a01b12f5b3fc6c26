// SPDX-License-Identifier: GPL-2.0
/*
 * Activation: a store starts to take data calls.
 *
 * A volatile store is active when it is created.  A durable store is NEW until its daemon
 * has recovered or formatted it (load.c); then it takes data calls and, if it is a block
 * store, gets its disk (invariant 18).  An active durable store holds a reference to the
 * module, because its memory may be the only copy of data that are not on a backup yet.
 *
 * Lock: store->mutex.
 */
#include <linux/module.h>
#include <linux/poll.h>

#include "activate.h"
#include "block.h"
#include "clean.h"
#include "compact.h"
#include "segment.h"
#include "store.h"

/**
 * lsmem_store_rest - end the threads that make room
 * @store: is being destroyed, or did not become active
 *
 * Context: sleeps until they have ended.
 */
void lsmem_store_rest(struct lsmem_store *store)
{
	lsmem_cleaner_stop(store);
	lsmem_compactors_stop(store);
}

/* Create the threads that make room; they do not run yet. */
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
 * lsmem_store_activate - let a store take data calls
 * @store: era, clock, ids and generations are set
 *
 * Context: store->mutex held; may sleep.
 * Return: 0 or an error; then no cleaner has run, and a durable store stays RECOVERING until its
 * daemon detaches.
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
	/* Nothing can fail from here on: a pass must not run on segments that would be dropped. */
	lsmem_compactors_run(store);
	lsmem_cleaner_run(store);
	if (store->durable) {
		__module_get(THIS_MODULE);
		kobject_uevent(&store->dev.kobj, KOBJ_CHANGE);	/* it can be used from now on */
	}
	wake_up_poll(&store->activation, EPOLLIN | EPOLLRDNORM | EPOLLOUT | EPOLLWRNORM);
	wake_up(&store->repl.events);
	return 0;
}
