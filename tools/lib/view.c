// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: views.
 *
 * A view first publishes the view epoch in a view slot and then loads the handle word.  The kernel
 * first exchanges the handle words that point to a seglet, then increments the view epoch, and then
 * reads the view slots.  With a full barrier on both sides, either the kernel sees the epoch in the
 * view slot and does not free the seglet, or the view sees the new handle word.
 *
 *	view				kernel
 *	view slot = epoch		word = new place (exchange)
 *	full barrier			epoch + 1, full barrier
 *	read word			read view slots, free seglets emptied before all of them
 *
 * So an entry that is found after the epoch was published, and whose header holds the key of the
 * handle, does not change until the view ends.  The view does not have to load the word again.  An
 * epoch that is old when it is published is safe: it keeps more seglets.
 *
 * When a view has lasted longer than view_ms, the kernel revokes it: it exchanges the view slot for
 * LSMEM_SLOT_REVOKED.  The end of the view exchanges the view slot for LSMEM_SLOT_IDLE and compares
 * the old value: any value other than the published epoch means that the view was revoked.
 */
#include <errno.h>

#include "internal.h"

/* Most attempts to find an object that is changing, before lsm_view_begin() returns -EAGAIN */
#define TRIES	64

/*
 * Takes a free view slot.  A thread first tries the view slot that it had last.  Each thread begins
 * with another one, so that usually no two threads use the same cache line.
 * Return: index of the view slot, lsm->nr_slots if none is free.
 */
static unsigned int take_slot(struct lsm *lsm)
{
	static atomic_uint threads;
	static _Thread_local unsigned int hint;
	static _Thread_local bool known;
	unsigned int free, slot, tries;

	if (!known) {
		/* Relaxed: the numbers only have to be different. */
		hint = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
		known = true;
	}
	slot = hint % lsm->nr_slots;
	for (tries = 0; tries < lsm->nr_slots; tries++) {
		free = 0;
		/*
		 * Acquire: pairs with the release in give_slot().  What the last owner did with
		 * the view slot happens before what this thread does.
		 */
		if (!atomic_load_explicit(&lsm->owners[slot].taken, memory_order_relaxed) &&
		    atomic_compare_exchange_strong_explicit(&lsm->owners[slot].taken, &free, 1,
							    memory_order_acquire,
							    memory_order_relaxed)) {
			hint = slot;
			return slot;
		}
		slot = slot + 1 == lsm->nr_slots ? 0 : slot + 1;
	}
	return lsm->nr_slots;
}

static void give_slot(struct lsm *lsm, unsigned int slot)
{
	atomic_store_explicit(&lsm->owners[slot].taken, 0, memory_order_release);
}

/* Publishes the view epoch.  Returns it, or LSMEM_SLOT_IDLE if it is not a valid epoch. */
static uint64_t publish(const struct lsm *lsm, unsigned int slot)
{
	uint64_t epoch = __atomic_load_n(lsm->epoch, __ATOMIC_ACQUIRE);

	if (epoch == LSMEM_SLOT_IDLE || epoch == LSMEM_SLOT_REVOKED)
		return LSMEM_SLOT_IDLE;
	/* Release: reads of the view before, in the same view slot, come first. */
	__atomic_store_n(&lsm->slots[slot].epoch, epoch, __ATOMIC_RELEASE);
	/* Full: the store must come before the loads that follow; no weaker barrier orders this. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return epoch;
}

/*
 * Withdraws the epoch.  Returns the old value of the view slot.
 * Release: all reads of the view come before the kernel sees the view slot idle.  Acquire: what the
 * caller does after it has learned of a revocation comes after the revocation.
 */
static uint64_t withdraw(const struct lsm *lsm, unsigned int slot)
{
	return __atomic_exchange_n(&lsm->slots[slot].epoch, LSMEM_SLOT_IDLE, __ATOMIC_ACQ_REL);
}

/* Fills the pieces of @view from @place.  False: the chain of seglets is too short. */
static bool collect(const struct lsm *lsm, const struct lsm_place *place, struct lsm_view *view)
{
	uint32_t offset = place->offset, left = place->object.length, seglet = place->seglet, piece;
	struct iovec *last = NULL;
	uint8_t *base;

	view->nr = 0;
	while (left) {
		if (offset == LSMEM_SEGLET_BYTES) {
			if (!lsm_next_seglet(lsm, &seglet))
				return false;
			offset = 0;
		}
		piece = LSMEM_SEGLET_BYTES - offset;
		if (piece > left)
			piece = left;
		base = (uint8_t *)lsm_seglet_bytes(lsm, seglet) + offset;
		if (last && (uint8_t *)last->iov_base + last->iov_len == base) {
			last->iov_len += piece;
		} else {
			last = &view->iov[view->nr++];
			last->iov_base = base;
			last->iov_len = piece;
		}
		offset += piece;
		left -= piece;
	}
	return true;
}

/* The largest object fits in a view, wherever in a seglet the object begins. */
_Static_assert(LSMEM_OBJECT_MAX / LSMEM_SEGLET_BYTES + 2 <= LSM_VIEW_PIECES, "pieces of a view");

int lsm_view_begin(struct lsm *lsm, uint64_t handle, struct lsm_view *view)
{
	enum lsm_locate found;
	struct lsm_place place;
	unsigned int slot;
	int ret, tries;

	view->nr = 0;
	view->epoch = LSMEM_SLOT_IDLE;
	memset(view->reserved, 0, sizeof(view->reserved));
	if (!lsm->windows || !lsm->slots)
		return -EOPNOTSUPP;
	if (!lsm_windows_here(lsm))
		return -ECHILD;
	slot = take_slot(lsm);
	if (slot == lsm->nr_slots)
		return -EAGAIN;
	for (tries = 0; tries < TRIES; tries++) {
		view->epoch = publish(lsm, slot);
		if (view->epoch == LSMEM_SLOT_IDLE)
			break;
		found = lsm_locate(lsm, handle, &place);
		if (found == LSM_FOUND && collect(lsm, &place, view)) {
			view->object = place.object;
			view->slot = slot;
			lsm_touch(lsm, lsmem_handle_index(handle));
			return 0;
		}
		withdraw(lsm, slot);
		if (found == LSM_CHANGING) {
			lsm_relax();
			continue;
		}
		/* The windows do not show the object: the kernel knows whether it exists. */
		ret = lsm_kernel_read(lsm, handle, NULL, 0, 0, NULL);
		if (ret < 0)
			goto out;
	}
	ret = -EAGAIN;
out:
	view->nr = 0;
	view->epoch = LSMEM_SLOT_IDLE;
	give_slot(lsm, slot);
	return ret;
}

int lsm_view_end(struct lsm *lsm, struct lsm_view *view)
{
	uint64_t epoch = view->epoch;
	bool valid;

	if (epoch == LSMEM_SLOT_IDLE || view->slot >= lsm->nr_slots)
		return -EINVAL;
	if (!lsm_windows_here(lsm))
		return -ECHILD;
	view->epoch = LSMEM_SLOT_IDLE;
	view->nr = 0;
	valid = withdraw(lsm, view->slot) == epoch;
	give_slot(lsm, view->slot);
	return valid ? 0 : -ECANCELED;
}

int lsm_view_bound(const struct lsm *lsm)
{
	if (!lsm->windows)
		return -EOPNOTSUPP;
	return lsm->view_ms > INT32_MAX ? INT32_MAX : (int)lsm->view_ms;
}
