// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: views.
 *
 * A view publishes the store's epoch in a slot of its own, and only then looks
 * at the handle word.  The kernel does it the other way round: it exchanges the
 * words that point to a seglet, raises the epoch, and only then looks at the
 * slots.  With a full barrier on both sides, either the kernel sees the slot
 * and leaves the seglet alone, or the view sees the new word.
 *
 *	view				kernel
 *	slot = epoch			word = new place (exchange)
 *	full barrier			epoch + 1, full barrier
 *	read word			read slots: free seglets older than all
 *
 * So an entry whose header bears the handle's key, found after the epoch was
 * published, stays what it is, and there is no need to look at the word again.
 * An epoch that was already old when it was published only holds more.
 *
 * The kernel revokes a slot when its bound has passed, by exchanging it for
 * LSMEM_SLOT_REVOKED.  The end of a view exchanges it for 0 and so learns of it.
 * A slot that is not the one published, whatever it is, counts as revoked.
 */
#include <errno.h>

#include "internal.h"

/* Looks at a changing object before the caller is told to come again. */
#define TRIES	64

/* Where a thread begins to look for a slot: where it was last.  Threads are
 * given different beginnings, so in the usual case each has a line of its own.
 */
static unsigned int take_slot(struct lsm *lsm)
{
	static atomic_uint threads;
	static _Thread_local unsigned int hint;
	static _Thread_local bool known;
	unsigned int free, slot, tries;

	if (!known) {
		/* Relaxed: only that the numbers differ counts. */
		hint = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
		known = true;
	}
	slot = hint % lsm->nr_slots;
	for (tries = 0; tries < lsm->nr_slots; tries++) {
		free = 0;
		/* Acquire: pairs with the release in give_slot(), so that what the
		 * last owner did to the slot comes before what we do.
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

/* Publish the epoch of now.  Returns it, or LSMEM_SLOT_IDLE if it cannot be one. */
static uint64_t publish(const struct lsm *lsm, unsigned int slot)
{
	uint64_t epoch = __atomic_load_n(lsm->epoch, __ATOMIC_ACQUIRE);

	if (epoch == LSMEM_SLOT_IDLE || epoch == LSMEM_SLOT_REVOKED)
		return LSMEM_SLOT_IDLE;
	/* Release: what was read under the slot's last epoch comes before. */
	__atomic_store_n(&lsm->slots[slot].epoch, epoch, __ATOMIC_RELEASE);
	/* Full: a store before, loads after; no weaker order keeps these two. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return epoch;
}

/* Withdraw it.  Release: the bytes were read before the kernel sees the slot
 * idle; acquire: so that a caller who learns of a revocation learns of it first.
 */
static uint64_t withdraw(const struct lsm *lsm, unsigned int slot)
{
	return __atomic_exchange_n(&lsm->slots[slot].epoch, LSMEM_SLOT_IDLE, __ATOMIC_ACQ_REL);
}

/* The pieces of @place.  False: the chain of seglets has an end. */
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

/* The largest object has room in a view, wherever in a seglet it begins. */
_Static_assert(LSMEM_OBJECT_MAX / LSMEM_SEGLET_BYTES + 2 <= LSM_VIEW_PIECES, "pieces of a view");

int lsm_view_begin(struct lsm *lsm, uint64_t handle, struct lsm_view *view)
{
	enum lsm_locate found;
	struct lsm_place place;
	unsigned int slot;
	int ret, tries;

	view->nr = 0;
	view->epoch = LSMEM_SLOT_IDLE;
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
			return 0;
		}
		withdraw(lsm, slot);
		if (found == LSM_CHANGING) {
			lsm_relax();
			continue;
		}
		/* Not in the windows as it is now: is it an object at all? */
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
