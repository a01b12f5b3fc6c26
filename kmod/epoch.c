// SPDX-License-Identifier: GPL-2.0
/*
 * Epochs: when may a seglet be given out again although user space looks at it?
 *
 * A client publishes the store's epoch in a slot of its own page, then a full
 * barrier, then it loads handle words.  The cleaner exchanges the words of all
 * entries in a seglet, advances the epoch, which is a full barrier, then a thread
 * loads the epoch (acquire) and looks at the slots.  Either that thread sees the
 * slot, or the client sees the new words; the thread that looks need not be the
 * one that advanced (tests/litmus/view-*.litmus).  A slot that holds an older
 * epoch holds up the seglets; a slot that holds the new epoch or none does not.
 *
 * Nothing in the page is trusted.  What the kernel knows of a slot comes from its
 * own looks:
 *
 * - A value that differs from that of the last look was published after that
 *   look.  It holds up no epoch that there was at that look.
 * - A slot of a new file holds up no epoch that there was when the file was opened.
 * - A value is timed from the first look at which it is older than the newest
 *   epoch, whichever epoch was asked for.  After view_ms the slot is exchanged for
 *   LSMEM_SLOT_REVOKED and holds up no epoch that there is by then.
 *
 * So the slots that hold up an epoch are known at the first look after it, their
 * time runs from then on at the latest, and all of them run at the same time: the
 * epoch has passed view_ms after that look, whatever is written into slots, however
 * many there are and however often files are opened.  Each revocation halves the
 * bound of its file for a while.
 *
 * A file has slots from its first mmap of them on; only such files are looked at, and
 * limits/clients_max bounds how many there are.
 *
 * Lock: store->views.lock, a mutex, for the set of clients and @seen: the look at all of
 * them rests in between.  Nothing is allocated under it.
 */
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "epoch.h"
#include "store.h"
#include "trace.h"

#define LSMEM_STRIKES_MAX	10u		/* then a bound is a thousandth */
#define LSMEM_STRIKES_LAST	(60 * HZ)	/* after a minute without, all is forgiven */

/**
 * lsmem_client_new - a file has been opened
 * @store: held open by the file
 *
 * Context: may sleep.  Return: the client, or NULL when out of memory.
 */
struct lsmem_client *lsmem_client_new(struct lsmem_store *store)
{
	struct lsmem_client *client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);

	if (!client)
		return NULL;
	INIT_LIST_HEAD(&client->node);
	client->store = store;
	return client;
}

/* Put a client with slots in the list of its store; 0, or -ENFILE when that is full. */
static int lsmem_client_list(struct lsmem_client *client)
{
	struct lsmem_store *store = client->store;
	unsigned int i;
	u64 epoch;

	lockdep_assert_held(&store->views.lock);
	if (store->views.nr_clients >= READ_ONCE(store->views.clients_max))
		return -ENFILE;
	store->views.nr_clients++;
	/*
	 * Views of this file begin after its slots were made.  They see the words exchanged
	 * before the epoch that there is now.  A walk that misses this file in the list took
	 * the lock before: its epoch is not above this one.
	 */
	epoch = smp_load_acquire(&store->views.info->epoch);
	for (i = 0; i < LSMEM_SLOTS; i++) {
		client->seen[i].until = epoch;
		client->seen[i].looked = epoch;
	}
	list_add_tail(&client->node, &store->views.clients);
	return 0;
}

/**
 * lsmem_client_map - a file's slots are about to be mapped
 * @client: from lsmem_client_new()
 *
 * Makes the slots when it is the first time: a file that has no views costs no more
 * than itself, and is not looked at.  The memory is charged to the caller's cgroup.
 *
 * Context: may sleep; any number of threads.
 * Return: 0; -ENOMEM (also: the cgroup's limit), -ENFILE (@clients_max files of the
 * store have slots).
 */
int lsmem_client_map(struct lsmem_client *client)
{
	/* At a cgroup's limit the call fails; its tasks are not killed for it. */
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;
	struct lsmem_store *store = client->store;
	struct lsmem_seen *seen = NULL;
	struct lsmem_slot *slots;
	bool mapped, full;
	int ret = 0;

	mutex_lock(&store->views.lock);
	mapped = client->slots;
	full = store->views.nr_clients >= READ_ONCE(store->views.clients_max);
	mutex_unlock(&store->views.lock);
	if (mapped || full)
		return mapped ? 0 : -ENFILE;
	slots = (void *)__get_free_page(gfp | __GFP_ZERO);
	if (slots)
		seen = kcalloc(LSMEM_SLOTS, sizeof(*seen), gfp);
	mutex_lock(&store->views.lock);
	if (!client->slots) {	/* another thread may have been as far */
		ret = -ENOMEM;
		if (slots && seen) {
			client->slots = slots;
			client->seen = seen;
			ret = lsmem_client_list(client);
		}
		if (!ret) {
			slots = NULL;
			seen = NULL;
		} else {
			client->slots = NULL;
			client->seen = NULL;
		}
	}
	mutex_unlock(&store->views.lock);
	free_page((unsigned long)slots);
	kfree(seen);
	return ret;
}

/**
 * lsmem_client_free - its file is closed and its windows are gone
 * @client: from lsmem_client_new()
 */
void lsmem_client_free(struct lsmem_client *client)
{
	if (client->slots) {
		mutex_lock(&client->store->views.lock);
		client->store->views.nr_clients--;
		list_del(&client->node);
		mutex_unlock(&client->store->views.lock);
	}
	free_page((unsigned long)client->slots);
	kfree(client->seen);
	kfree(client);
}

/**
 * lsmem_epoch_advance - begin a new epoch
 * @store: the words of what is to be freed have been exchanged
 * Return: the new epoch; views that published it or a later one see the new words.
 */
u64 lsmem_epoch_advance(struct lsmem_store *store)
{
	static_assert(sizeof(atomic64_t) == sizeof(store->views.info->epoch) &&
		      __alignof__(atomic64_t) <= __alignof__(store->views.info->epoch));
	/*
	 * Ordered on both sides.  A client that publishes the new epoch sees the words
	 * exchanged before it.  Pairs with the client's barrier after it published.
	 */
	return atomic64_inc_return((atomic64_t *)&store->views.info->epoch);
}

/* How long this client's views may hold a seglet up, jiffies. */
static unsigned long lsmem_client_bound(struct lsmem_client *client)
{
	if (time_after(jiffies, client->struck + LSMEM_STRIKES_LAST))
		client->strikes = 0;
	return msecs_to_jiffies(READ_ONCE(client->store->views.view_ms)) >> client->strikes;
}

/* The view in this slot did not end in time: end it.  @now: the epoch before the look. */
static void lsmem_slot_revoke(struct lsmem_client *client, unsigned int i, u64 value, u64 now)
{
	/*
	 * If the view ends meanwhile, its client finds its own value.  What is in the slot
	 * then was published after the look, and sees the words of @now.
	 */
	cmpxchg(&client->slots[i].epoch, value, LSMEM_SLOT_REVOKED);
	client->seen[i].value = LSMEM_SLOT_REVOKED;
	client->seen[i].until = now;
	client->strikes = min(client->strikes + 1, LSMEM_STRIKES_MAX);
	client->struck = jiffies;
	lsmem_count(client->store, views_revoked, 1);
	trace_lsmem_revoke(client->store->name, value);
}

/*
 * Look at a slot: does it hold up @epoch?  Revokes it when its time is over.
 * @now: the newest epoch, loaded with acquire before; not below @epoch.
 */
static bool lsmem_slot_holds(struct lsmem_client *client, unsigned int i, u64 epoch, u64 now)
{
	u64 value = READ_ONCE(client->slots[i].epoch), looked = client->seen[i].looked;

	client->seen[i].looked = now;
	/*
	 * Nothing is held up so far, REVOKED, the largest, included.  A view published in the
	 * slot later is followed by a full barrier, then by loads that see the new words.
	 */
	if (value == LSMEM_SLOT_IDLE || value >= now) {
		client->seen[i].until = now;
		client->seen[i].value = LSMEM_SLOT_IDLE;
		return false;
	}
	if (client->seen[i].value != value) {
		client->seen[i].until = looked;
		client->seen[i].value = value;
		client->seen[i].since = jiffies;
	}
	if (epoch <= client->seen[i].until || epoch <= value)
		return false;
	if (time_before(jiffies, client->seen[i].since + lsmem_client_bound(client)))
		return true;
	lsmem_slot_revoke(client, i, value, now);
	return false;
}

/**
 * lsmem_epoch_passed - can no view see what was replaced before an epoch?
 * @store: the store
 * @epoch: from lsmem_epoch_advance()
 *
 * Looks at all slots of all files that have some, and rests after each file.
 *
 * Context: process; sleeps.  Return: true at the latest view_ms after the first call
 * for any epoch that follows the advance to @epoch.
 */
bool lsmem_epoch_passed(struct lsmem_store *store, u64 epoch)
{
	struct lsmem_client *client;
	bool passed = true;
	unsigned int i;
	u64 now;

	mutex_lock(&store->views.lock);
	/*
	 * The epoch first, then the slots: a slot that is idle after this load holds up no
	 * epoch up to this one.  Pairs with lsmem_epoch_advance(), also of another thread.
	 */
	now = smp_load_acquire(&store->views.info->epoch);
	list_for_each_entry(client, &store->views.clients, node) {
		for (i = 0; i < LSMEM_SLOTS; i++)
			if (lsmem_slot_holds(client, i, epoch, now))
				passed = false;
		cond_resched();
	}
	mutex_unlock(&store->views.lock);
	return passed;
}
