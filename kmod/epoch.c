// SPDX-License-Identifier: GPL-2.0
/*
 * View epochs: when can a seglet be reused although user space may read it?
 *
 * A client publishes the store's epoch in a slot of its own page, executes a full
 * barrier, and then loads handle words.  The cleaner exchanges the words of all entries
 * in a seglet and advances the epoch, which is a full barrier; then a thread loads the
 * epoch (acquire) and scans the slots.  Either that thread sees the slot, or the client
 * sees the new words; the scanning thread need not be the one that advanced
 * (tests/litmus/view-*.litmus).  A slot with an older epoch holds up the seglets; a slot
 * with the new epoch, or none, does not.
 *
 * Nothing in the page is trusted.  The kernel knows of a slot only what its own scans
 * have seen:
 *
 * - A value that differs from that of the last scan was published after that scan.  It
 *   holds up no epoch that existed at that scan.
 * - A slot of a new file holds up no epoch that existed when the file was opened.
 * - A value is timed from the first scan at which it is older than the newest epoch,
 *   whichever epoch that scan was for.  After view_ms the slot is exchanged for
 *   LSMEM_SLOT_REVOKED and holds up no epoch that exists by then.
 *
 * So the first scan after an epoch knows all slots that hold it up, and times them from
 * then on at the latest, all at once: the epoch has passed view_ms after that scan,
 * whatever clients write into slots, however many slots there are and however often
 * files are opened.  Each revocation halves the bound of its file for a while.
 *
 * A file has slots after its first mmap of them.  Only such files are scanned, and
 * limits/clients_max bounds their number.
 *
 * Lock: store->views.lock, a mutex, for the set of clients and @seen; a scan reschedules
 * after each client.  Nothing is allocated under it.
 */
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "epoch.h"
#include "store.h"
#include "trace.h"

#define LSMEM_STRIKES_MAX	10u		/* then the bound is a thousandth */
#define LSMEM_STRIKES_LAST	(60 * HZ)	/* a minute without a revocation restores the bound */

/**
 * lsmem_client_new - make the client of a file that is being opened
 * @store: held open by the file
 *
 * Context: may sleep.  Return: the client, or NULL if there is no memory.
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

/* Add a client with slots to the list of its store. Returns 0, or -ENFILE if that is full. */
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
	 * Views of this file begin after this point and see the words exchanged before the
	 * present epoch.  A scan that misses this file in the list took the lock earlier: its
	 * epoch is not above this one.
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
 * lsmem_client_map - prepare to map the slots of a file
 * @client: from lsmem_client_new()
 *
 * The first call allocates the slots: a file without views takes no memory for slots and is
 * not scanned.  The memory is charged to the caller's cgroup.
 *
 * Context: may sleep; any number of threads.
 * Return: 0; -ENOMEM (also: the cgroup's limit), -ENFILE (@clients_max files of the
 * store have slots).
 */
int lsmem_client_map(struct lsmem_client *client)
{
	/* At the cgroup's limit the call fails; no task is killed for it. */
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
	if (!client->slots) {	/* another thread may have done it */
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
 * lsmem_client_show - a file maps the handle table
 * @client: from lsmem_client_new()
 * @mapping: of the file
 *
 * Context: sleeps; under mmap_lock, before a page is mapped.
 */
void lsmem_client_show(struct lsmem_client *client, struct address_space *mapping)
{
	struct lsmem_store *store = client->store;

	mutex_lock(&store->views.lock);
	if (!client->mapping) {
		client->mapping = mapping;
		list_add_tail(&client->shown, &store->views.shown);
	}
	mutex_unlock(&store->views.lock);
}

/**
 * lsmem_client_free - free the client of a file that is closed and unmapped
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
	if (client->mapping) {
		mutex_lock(&client->store->views.lock);
		list_del(&client->shown);
		mutex_unlock(&client->store->views.lock);
	}
	free_page((unsigned long)client->slots);
	kfree(client->seen);
	kfree(client);
}

/**
 * lsmem_epoch_advance - begin a new epoch
 * @store: the words of all entries in the seglets to be freed have been exchanged
 * Return: the new epoch; views that publish it, or a later one, see the new words.
 */
u64 lsmem_epoch_advance(struct lsmem_store *store)
{
	static_assert(sizeof(atomic64_t) == sizeof(store->views.info->epoch) &&
		      __alignof__(atomic64_t) <= __alignof__(store->views.info->epoch));
	/*
	 * Fully ordered.  A client that publishes the new epoch sees the words exchanged
	 * before it.  Pairs with the full barrier of the client after publishing.
	 */
	return atomic64_inc_return((atomic64_t *)&store->views.info->epoch);
}

/* How long a view of this client may hold up seglets, jiffies. */
static unsigned long lsmem_client_bound(struct lsmem_client *client)
{
	if (time_after(jiffies, client->struck + LSMEM_STRIKES_LAST))
		client->strikes = 0;
	return msecs_to_jiffies(READ_ONCE(client->store->views.view_ms)) >> client->strikes;
}

/* Revoke the view in a slot, which did not end in time. @now: the epoch before the scan. */
static void lsmem_slot_revoke(struct lsmem_client *client, unsigned int i, u64 value, u64 now)
{
	/*
	 * If the view ends meanwhile, its client finds its own value.  Any value in the slot
	 * after that was published after the scan and sees the words of @now.
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
 * Does a slot hold up @epoch?  Revokes its view if that lasts too long.
 * @now: the newest epoch, loaded with acquire before; at least @epoch.
 */
static bool lsmem_slot_holds(struct lsmem_client *client, unsigned int i, u64 epoch, u64 now)
{
	u64 value = READ_ONCE(client->slots[i].epoch), looked = client->seen[i].looked;

	client->seen[i].looked = now;
	/*
	 * No view holds up anything; REVOKED, the largest value, is included.  A view that is
	 * published later executes a full barrier and then sees the new words.
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
 * lsmem_epoch_passed - have all views that began before an epoch ended?
 * @store: the store
 * @epoch: from lsmem_epoch_advance()
 *
 * Scans the slots of all files, and reschedules after each file.
 *
 * Context: process; sleeps.  Return: true at the latest view_ms after the first call,
 * for whichever epoch, that follows the advance to @epoch.
 */
bool lsmem_epoch_passed(struct lsmem_store *store, u64 epoch)
{
	struct lsmem_client *client;
	bool passed = true;
	unsigned int i;
	u64 now;

	mutex_lock(&store->views.lock);
	/*
	 * Load the epoch before the slots: a slot that is idle after this load holds up no
	 * epoch up to this one.  Pairs with lsmem_epoch_advance(), also in another thread.
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
