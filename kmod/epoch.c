// SPDX-License-Identifier: GPL-2.0
/*
 * Epochs: when may a frame be given out again although user space looks at it?
 *
 * A client publishes the store's epoch in a slot of its own page, then a full
 * barrier, then it loads handle words.  The cleaner exchanges the words of all
 * entries in a frame, advances the epoch, then a full barrier, then it looks at
 * the slots.  So either it sees the slot, or the client sees the new words
 * (store buffering, forbidden by the two barriers).  A slot that holds an older
 * epoch holds up the frames; one that holds the new epoch or none does not.
 *
 * Nothing in the page is trusted.  A slot is timed from the kernel's own first
 * sight of its value, and anew only for one that a later view can have; after
 * view_ms it is exchanged for LSMEM_SLOT_REVOKED and for this epoch looked at no
 * more, whatever is written into it.  Each revocation halves the bound of its client for a while: nonsense
 * in slots makes their owner's views invalid, and soon holds nothing back.
 *
 * Lock: store->epoch_lock for the set of clients and @seen.
 */
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "epoch.h"
#include "trace.h"

#define LSMEM_STRIKES_MAX	10u		/* then a bound is a thousandth */
#define LSMEM_STRIKES_LAST	(60 * HZ)	/* after a minute without, all is forgiven */

/**
 * lsmem_client_new - a file has been opened
 * @store: held open by the file
 * Return: the client, or NULL when out of memory.
 */
struct lsmem_client *lsmem_client_new(struct lsmem_store *store)
{
	struct lsmem_client *client = kzalloc(sizeof(*client), GFP_KERNEL);

	if (!client)
		return NULL;
	client->slots = (void *)get_zeroed_page(GFP_KERNEL);
	if (!client->slots) {
		kfree(client);
		return NULL;
	}
	client->store = store;
	spin_lock(&store->epoch_lock);
	list_add_tail(&client->node, &store->clients);
	spin_unlock(&store->epoch_lock);
	return client;
}

/**
 * lsmem_client_free - its file is closed and its windows are gone
 * @client: from lsmem_client_new()
 */
void lsmem_client_free(struct lsmem_client *client)
{
	spin_lock(&client->store->epoch_lock);
	list_del(&client->node);
	spin_unlock(&client->store->epoch_lock);
	free_page((unsigned long)client->slots);
	kfree(client);
}

/**
 * lsmem_epoch_advance - begin a new epoch
 * @store: the words of what is to be freed have been exchanged
 * Return: the new epoch; views that published it or a later one see the new words.
 */
u64 lsmem_epoch_advance(struct lsmem_store *store)
{
	/*
	 * Ordered on both sides: who publishes the new epoch has seen the words
	 * exchanged before it, and it pairs with the client's barrier after it
	 * published.
	 */
	return atomic64_inc_return((atomic64_t *)&store->info->epoch);
}

/* How long this client's views may hold a frame up, jiffies. */
static unsigned long lsmem_client_bound(struct lsmem_client *client)
{
	if (time_after(jiffies, client->struck + LSMEM_STRIKES_LAST))
		client->strikes = 0;
	return msecs_to_jiffies(READ_ONCE(client->store->view_ms)) >> client->strikes;
}

/* Its view was not ended in time: end it for it. */
static void lsmem_slot_revoke(struct lsmem_client *client, unsigned int i, u64 value)
{
	/* An honest client that ends its view meanwhile gets its 0 back. */
	cmpxchg(&client->slots[i].epoch, value, LSMEM_SLOT_REVOKED);
	client->strikes = min(client->strikes + 1, LSMEM_STRIKES_MAX);
	client->struck = jiffies;
	lsmem_count(client->store, views_revoked, 1);
	trace_lsmem_revoke(client->store->name, value);
}

/*
 * Does this slot hold up @epoch?  Revokes it when its time is over.
 *
 * A slot that is seen idle, or revoked, holds up no epoch there has been so far:
 * whatever is published in it later was followed by a barrier, and then by a
 * load that sees the new words.
 */
static bool lsmem_slot_holds(struct lsmem_client *client, unsigned int i, u64 epoch)
{
	u64 now = READ_ONCE(client->store->info->epoch), value;

	if (epoch <= client->seen[i].until)
		return false;
	value = READ_ONCE(client->slots[i].epoch);
	if (value == LSMEM_SLOT_IDLE || value >= epoch) {	/* REVOKED is the largest */
		client->seen[i].until = value == LSMEM_SLOT_IDLE ? now : min(value, now);
		if (value == LSMEM_SLOT_IDLE)
			client->seen[i].value = value;
		return false;
	}
	/*
	 * Another view has another value, and one that began since this slot was timed has at
	 * least the epoch there was then.  Whatever else comes is no view's, or the same one's.
	 */
	if (client->seen[i].value != value) {
		if (client->seen[i].value == LSMEM_SLOT_IDLE || value >= client->seen[i].timed) {
			client->seen[i].since = jiffies;
			client->seen[i].timed = now;
		}
		client->seen[i].value = value;
	}
	if (time_before(jiffies, client->seen[i].since + lsmem_client_bound(client)))
		return true;
	lsmem_slot_revoke(client, i, value);
	client->seen[i].until = now;
	client->seen[i].value = LSMEM_SLOT_IDLE;	/* if it comes again, it is another */
	return false;
}

/**
 * lsmem_epoch_passed - can no view see what was replaced before an epoch?
 * @store: the store
 * @epoch: from lsmem_epoch_advance()
 *
 * Does not sleep.  Return: true at the latest view_ms after the first call.
 */
bool lsmem_epoch_passed(struct lsmem_store *store, u64 epoch)
{
	struct lsmem_client *client;
	bool passed = true;
	unsigned int i;

	spin_lock(&store->epoch_lock);
	list_for_each_entry(client, &store->clients, node)
		for (i = 0; i < LSMEM_SLOTS; i++)
			if (lsmem_slot_holds(client, i, epoch))
				passed = false;
	spin_unlock(&store->epoch_lock);
	return passed;
}
