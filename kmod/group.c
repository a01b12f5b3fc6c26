// SPDX-License-Identifier: GPL-2.0
/*
 * Groups: changes of several objects that are made all or none, also after a crash.  Objects that are checked
 * (LSMEM_OP_CHECK) are held as the others are, and have no entry.
 *
 * All entries of a group, and a group record before them, are one append: side by side in one segment,
 * made readable by one commit, told to the daemon as one range.  A recovery that does not find all
 * of them ends the log of the segment before the record (invariant 21).  The group is acknowledged when
 * its last byte is.
 *
 *	look	at each object; fetch those that are COLD; admit what the group needs
 *	begin	reserve the record and the entries
 *	copy	all payloads
 *	hold	all objects, look at each again, and admit what it needs by now
 *	publish	stamp each entry, exchange its word
 *	note	the changes in watched tables (watch.c)
 *	commit	all entries at once
 *
 * Until the last object is held, every error undoes all.  From then on nothing can fail.
 *
 * To hold an object is to set its bit in handles.held and then to exchange its word for one that differs only
 * by its tag.  Another client that had looked before loses its exchange, and looks again; one that looks now
 * sees the bit, and waits.  So no other client changes an object of a group between the look that checks its
 * version and the exchange that makes the new one.  Cleaners do not look at the bit: they may move an object
 * that is held, which changes neither its version nor its length.
 *
 * A later change of one of the objects may lie in another segment, and become durable before the group: a crash
 * would leave it, but nothing of the group.  So the place of a client's group is kept, by a hash of its objects, and
 * a change that does not follow in the same segment is tried there, or waits until that is durable
 * (lsmem_word_unsettled(), lsmem_group_follow()).  So is a group that checks an object whose entry is not durable.
 * Ranges of pages have an order of their own.
 *
 * No object leaves memory from the second look to the exchanges (tier.evicting): a COLD object says neither
 * how long it is nor which version it has, and cannot be fetched there.  The same lock has one group after
 * the other hold its objects.
 *
 * Readers of a running system see the changes one after the other, in their order; a snapshot has all or none.
 *
 * Locks: tier.evicting and the held bits, for at most 2 * LSMEM_GROUP_MAX exchanges, and LSMEM_GROUP_MAX notes.
 */
#include <linux/slab.h>
#include <linux/sort.h>

#include "../uapi/lsmem.h"
#include "durable.h"
#include "entry.h"
#include "fetch.h"
#include "group.h"
#include "handle.h"
#include "log.h"
#include "object.h"
#include "store.h"
#include "watch.h"

/**
 * struct lsmem_group - a group
 * @ap: the append of all entries
 * @changes: what is to be changed
 * @nr: how many
 * @marked: there is a group record
 * @listed: entries that the directory lists
 * @admitted: live bytes that were admitted
 * @live: bytes by which the live bytes have changed
 * @until: end of the waits for what is COLD, ktime in ns; 0: none was
 * @before: with -LSMEM_EUNSETTLED: what the group has to follow
 * @unsettled: that is kept there; NULL: it is an entry
 * @sizes: of the entries, the record's first
 */
struct lsmem_group {
	struct lsmem_append ap;
	struct lsmem_change *changes;
	u32 nr;
	bool marked;
	u32 listed;
	u32 admitted;
	s32 live;
	u64 until;
	struct lsmem_place before;
	struct lsmem_unsettled *unsettled;
	u32 sizes[LSMEM_GROUP_MAX + 1];
};

/* ---- Different objects -------------------------------------------------- */

static int lsmem_group_cmp(const void *a, const void *b, const void *priv)
{
	const struct lsmem_change *changes = priv;
	u16 i = *(const u16 *)a, j = *(const u16 *)b;
	u64 x = lsmem_handle_index(changes[i].handle), y = lsmem_handle_index(changes[j].handle);

	if (x != y)
		return x < y ? -1 : 1;
	return i - j;
}

/*
 * The number of a change whose object another one before it names; @nr: there is none.  Of two objects that have had
 * the same index the older one is gone.  @result: out: -EUCLEAN; of the older one -ESTALE
 */
static u32 lsmem_group_twice(const struct lsmem_change *changes, u32 nr, int *result)
{
	u16 order[LSMEM_GROUP_MAX];
	u32 i;

	for (i = 0; i < nr; i++)
		order[i] = i;
	sort_r(order, nr, sizeof(*order), lsmem_group_cmp, NULL, changes);
	for (i = 1; i < nr; i++) {
		u64 before = changes[order[i - 1]].handle, handle = changes[order[i]].handle;

		if (lsmem_handle_index(handle) != lsmem_handle_index(before))
			continue;
		*result = handle == before ? -EUCLEAN : -ESTALE;
		return lsmem_handle_generation(before) < lsmem_handle_generation(handle) ? order[i - 1] : order[i];
	}
	return nr;
}

/* ---- Look --------------------------------------------------------------- */

/*
 * Look at the object of a change, and note what the change supersedes.  @look: its h is set.
 * Context: rcu_read_lock() held.
 */
static int lsmem_group_look(struct lsmem_store *store, struct lsmem_change *change,
			    struct lsmem_look *look)
{
	int ret = lsmem_look(store, change->handle, look);

	if (ret)
		return ret;
	if (change->expect && change->version != look->version) {
		change->version = look->version;
		return -EILSEQ;
	}
	change->table = look->table;
	change->old = lsmem_entry_size(look->length);
	change->before = look->version;
	change->interval = look->interval;
	return 0;
}

/* The same, with the object in memory. */
static int lsmem_group_find(struct lsmem_store *store, struct lsmem_change *change, u64 *until,
			    u64 deadline)
{
	struct lsmem_look look;
	int ret = lsmem_handle_find(store, change->handle, &look.h);

	while (!ret) {
		rcu_read_lock();
		ret = lsmem_group_look(store, change, &look);
		rcu_read_unlock();
		if (ret != -LSMEM_ECOLD)
			return ret;
		ret = lsmem_fetch(store, lsmem_handle_index(change->handle), until, deadline);
	}
	return ret;
}

/* Has a change an entry? */
static bool lsmem_group_writes(const struct lsmem_store *store, const struct lsmem_change *change)
{
	return change->op == LSMEM_OP_FREE ? store->durable : change->op != LSMEM_OP_CHECK;
}

/* Look at all, admit what they need, and say what is to be reserved. Returns how many entries. */
static int lsmem_group_plan(struct lsmem_store *store, struct lsmem_group *group, u64 deadline)
{
	u32 growth = 0, i;
	int ret;

	group->listed = 0;
	for (i = 0; i < group->nr; i++) {
		struct lsmem_change *change = &group->changes[i];

		change->old = 0;
		change->before = 0;
		change->noted = change->op == LSMEM_OP_CHECK;
		change->size = lsmem_group_writes(store, change) ? lsmem_entry_size(change->length) : 0;
		if (change->op != LSMEM_OP_ALLOC) {
			ret = lsmem_group_find(store, change, &group->until, deadline);
			change->result = ret;
			if (ret)
				return ret;
		}
		if (change->op != LSMEM_OP_FREE)
			growth += lsmem_growth(change->size, change->old);
		if (change->size)
			group->sizes[++group->listed] = change->size;
	}
	group->marked = store->durable && group->listed > 1;
	ret = lsmem_admit_to(store, growth, &group->admitted);
	return ret ?: group->listed + group->marked;
}

/* ---- Copy --------------------------------------------------------------- */

/* The entry of a change as an append of its own, to copy and stamp it. */
static struct lsmem_append lsmem_group_entry(const struct lsmem_group *group,
					     const struct lsmem_change *change)
{
	return (struct lsmem_append){
		.segment = group->ap.segment,
		.offset = change->offset,
		.size = change->size,
		.position = lsmem_segment_position(group->ap.segment, change->offset),
	};
}

/* Place and copy all entries, and stamp the record. */
static void lsmem_group_copy(struct lsmem_store *store, struct lsmem_group *group)
{
	u32 end = group->ap.offset + (group->marked ? LSMEM_LONG_BYTES : 0), i;

	for (i = 0; i < group->nr; i++) {
		struct lsmem_change *change = &group->changes[i];
		struct lsmem_source source = { .kernel = change->data };
		struct lsmem_append ap;

		if (!change->size)
			continue;
		change->offset = lsmem_entry_start(end);
		if (change->offset > end)
			lsmem_segment_write(store, group->ap.segment, end, NULL,
					    change->offset - end);
		ap = lsmem_group_entry(group, change);
		change->crc = ~0u;
		if (change->length)	/* cannot fail: the source is the kernel's */
			lsmem_append_copy(store, &ap, &source, change->length, &change->crc);
		end = change->offset + change->size;
	}
	if (group->marked)
		lsmem_entry_stamp(store, &group->ap,
				  lsmem_entry_make(LSMEM_TYPE_GROUP, end - group->ap.offset -
						   LSMEM_LONG_BYTES, 0, lsmem_store_time(store), 0,
						   0, group->ap.offset), ~0u);
}

/* ---- Hold --------------------------------------------------------------- */

/*
 * The entry of an object that is LIVE, if a crash may lose it; segment 0: none can.  What a cleaner has moved was
 * durable before.
 */
static struct lsmem_place lsmem_group_entry_of(struct lsmem_store *store, u64 word, u32 size)
{
	u64 position = lsmem_word_position(word);
	const struct lsmem_segment *seg = lsmem_segment_of(store, position);
	struct lsmem_place place = { };

	if (seg->survivor || lsmem_segment_is_cache(&store->segments, seg->index) || READ_ONCE(seg->close_acked))
		return place;
	/* Not compacted: the block is that of the backup, and the entry lies in it as it does in memory. */
	place.offset = lsmem_entry_home(lsmem_word_entry(&store->seglets, word)) * LSMEM_BLOCK +
		       position * LSMEM_ALIGN % LSMEM_BLOCK + size;
	if (place.offset > READ_ONCE(seg->acked))
		place.segment = READ_ONCE(seg->id);
	return place;
}

/* May a crash leave the group, but not what it follows?  That is then noted in the group.  The object is held. */
static bool lsmem_group_unsettled(struct lsmem_store *store, struct lsmem_group *group,
				  const struct lsmem_change *change)
{
	u64 index = lsmem_handle_index(change->handle);

	if (lsmem_word_unsettled(&store->handles, index, group->ap.segment->id, group->ap.offset)) {
		group->unsettled = lsmem_unsettled_at(&store->handles, index);
		group->before.segment = group->unsettled->segment;
		group->before.offset = group->unsettled->offset;
		return true;
	}
	if (change->op != LSMEM_OP_CHECK)
		return false;
	group->unsettled = NULL;
	group->before = lsmem_group_entry_of(store, READ_ONCE(lsmem_handle_at(&store->handles, index)->word),
					     change->old);
	return group->before.segment && group->before.segment != group->ap.segment->id;
}

/* Hold an object. Returns 0, or an error of the look at it. */
static int lsmem_group_hold_one(struct lsmem_store *store, struct lsmem_change *change)
{
	struct lsmem_look look = {
		.h = lsmem_handle_at(&store->handles, lsmem_handle_index(change->handle)),
	};
	int ret;

	do {
		ret = lsmem_group_look(store, change, &look);
	} while (!ret && !lsmem_word_swap(look.h, look.word,
					  lsmem_word_next(look.word, LSMEM_WORD_LIVE,
							  lsmem_word_position(look.word))));
	/* What is COLD is fetched, which is no result: another change may fail before it is looked at again. */
	change->result = ret == -LSMEM_ECOLD ? 0 : ret;
	return ret;
}

/*
 * Hold all objects, and admit what the group needs: another client may have made them smaller.  Returns 0;
 * -LSMEM_ECOLD: objects are to be fetched again; -LSMEM_EUNSETTLED: a group before is to be waited for; or an
 * error.  lsmem_group_let_go() follows in any case.
 */
static int lsmem_group_hold(struct lsmem_store *store, struct lsmem_group *group)
{
	u32 growth = 0, i;
	u64 held = 0;
	int ret;

	/* New objects, too: until they are noted. */
	for (i = 0; i < group->nr; i++)
		held |= lsmem_hold_bit(lsmem_handle_index(group->changes[i].handle));
	/* Before the exchanges, which are fully ordered: who sees one of them sees the bits. */
	WRITE_ONCE(store->handles.held, held);
	for (i = 0; i < group->nr; i++) {
		struct lsmem_change *change = &group->changes[i];

		if (change->op != LSMEM_OP_ALLOC) {
			ret = lsmem_group_hold_one(store, change);
			if (ret)
				return ret;
		}
		/* A group that writes nothing has nothing that a crash may leave. */
		if (change->settle && group->ap.segment && lsmem_group_unsettled(store, group, change))
			return -LSMEM_EUNSETTLED;
		if (change->op != LSMEM_OP_FREE)
			growth += lsmem_growth(change->size, change->old);
	}
	return lsmem_admit_to(store, growth, &group->admitted);
}

static void lsmem_group_let_go(struct lsmem_store *store)
{
	/* Pairs with lsmem_word_held(): a task that sees the bits clear sees what has been published, and the version. */
	smp_store_release(&store->handles.held, 0);
}

/* ---- Settle ------------------------------------------------------------- */

/* The group's place is kept, before a word of it is seen. */
static void lsmem_group_unsettle(struct lsmem_store *store, const struct lsmem_group *group)
{
	u32 i;

	for (i = 0; i < group->nr; i++) {
		const struct lsmem_change *change = &group->changes[i];
		struct lsmem_unsettled *unsettled;

		unsettled = lsmem_unsettled_at(&store->handles, lsmem_handle_index(change->handle));
		if (!change->settle || change->op == LSMEM_OP_CHECK || !unsettled)
			continue;
		WRITE_ONCE(unsettled->offset, group->ap.offset + group->ap.size);
		smp_store_release(&unsettled->segment, group->ap.segment->id);	/* lsmem_word_unsettled() */
	}
}

/**
 * lsmem_group_prepare - there will be groups whose changes have @settle
 * @store: active, object kind
 *
 * Context: sleeps.  Return: 0 or -ENOMEM.
 */
int lsmem_group_prepare(struct lsmem_store *store)
{
	struct lsmem_unsettled *unsettled;

	if (!store->durable || READ_ONCE(store->handles.unsettled))
		return 0;
	unsettled = kvcalloc(1u << LSMEM_UNSETTLED_BITS, sizeof(*unsettled), GFP_KERNEL_ACCOUNT);
	if (!unsettled)
		return -ENOMEM;
	/* Zeroed before it is seen; the readers' loads depend on the pointer. */
	if (cmpxchg(&store->handles.unsettled, NULL, unsettled))
		kvfree(unsettled);
	return 0;
}

/* The place of the last group that has changed an object; segment 0: it is durable, or there was none. */
static struct lsmem_place lsmem_group_place(struct lsmem_store *store,
					    const struct lsmem_unsettled *unsettled)
{
	struct lsmem_place place = { };

	write_lock(&store->tier.evicting);
	if (unsettled) {
		place.segment = unsettled->segment;
		place.offset = unsettled->offset;
	}
	write_unlock(&store->tier.evicting);
	return place;
}

/* Wait until that is durable.  @unsettled: where it is kept, or NULL. */
static int lsmem_group_settle(struct lsmem_store *store, struct lsmem_unsettled *unsettled,
			      const struct lsmem_place *group, struct lsmem_place *place)
{
	int ret;

	if ((place->deadline == LSMEM_NO_WAIT || place->lapsed) &&
	    !lsmem_place_durable(store, group, false))
		return place->lapsed ? -EBUSY : -LSMEM_EWAIT;
	ret = lsmem_wait_durable(store, group, READ_ONCE(store->repl.durable_ms));
	if (ret) {
		place->lapsed = ret == -ETIMEDOUT;
		return ret == -ETIMEDOUT ? -EBUSY : ret;
	}
	if (!unsettled)
		return 0;
	write_lock(&store->tier.evicting);
	if (unsettled->segment == group->segment && unsettled->offset == group->offset)
		WRITE_ONCE(unsettled->segment, 0);
	write_unlock(&store->tier.evicting);
	return 0;
}

/* As lsmem_group_follow(), what @group is. */
static int lsmem_group_behind(struct lsmem_store *store, struct lsmem_unsettled *unsettled,
			      const struct lsmem_place *group, struct lsmem_place *place)
{
	u32 tried = place->head;

	if (!group->segment)
		return 0;
	place->head = tried ? 0 : lsmem_log_head_at(store, group->segment);
	return place->head ? 0 : lsmem_group_settle(store, unsettled, group, place);
}

/**
 * lsmem_group_follow - have a change follow the last group that has changed an object
 * @store: active
 * @index: of the object
 * @place: in: its deadline, LSMEM_NO_WAIT: do not wait.  In and out: its head: first the change is tried where the
 *	group lies; if that was tried, this waits until the group is durable; whether it has lapsed
 *
 * Context: sleeps, killable; holds nothing.
 * Return: 0: try again; -EBUSY: the group is not durable after durable_ms; -EINTR; -EAGAIN: the store is being
 * destroyed; -LSMEM_EWAIT.
 */
int lsmem_group_follow(struct lsmem_store *store, u64 index, struct lsmem_place *place)
{
	struct lsmem_unsettled *unsettled = lsmem_unsettled_at(&store->handles, index);
	struct lsmem_place group = lsmem_group_place(store, unsettled);

	return lsmem_group_behind(store, unsettled, &group, place);
}

/* ---- Publish ------------------------------------------------------------ */

/*
 * Exchange the word of an object that is held: meanwhile it can only be moved.  A tombstone is then stamped
 * again (lsmem_tombstone_stamp()).
 */
static void lsmem_group_exchange(struct lsmem_store *store, const struct lsmem_change *change,
				 const struct lsmem_append *ap)
{
	struct lsmem_handle *h = lsmem_handle_at(&store->handles,
						 lsmem_handle_index(change->handle));
	u64 word, next;

	do {
		word = smp_load_acquire(&h->word);	/* before the barrier is read */
		if (change->op == LSMEM_OP_REPLACE) {
			next = lsmem_word_next(word, LSMEM_WORD_LIVE, ap->position);
			continue;
		}
		if (change->size)
			lsmem_tombstone_stamp(store, ap, change->handle, change->version,
					      change->table);
		next = lsmem_word_next(word, LSMEM_WORD_BUSY,
				       lsmem_handle_generation(change->handle));
	} while (!lsmem_word_change(&store->handles, h, word, next, change->version));
	lsmem_entry_dead(store, lsmem_word_position(word), change->old);
}

/* Stamp the entry of an object. */
static void lsmem_group_stamp(struct lsmem_store *store, struct lsmem_append *ap,
			      const struct lsmem_change *change)
{
	const struct lsmem_look before = { .version = change->before, .interval = change->interval };

	lsmem_object_stamp(store, ap, change->handle, change->version, change->length,
			   change->before ? lsmem_look_interval(&before, change->version) : 0,
			   change->table, change->crc);
}

static void lsmem_group_one(struct lsmem_store *store, struct lsmem_group *group,
			    struct lsmem_change *change)
{
	struct lsmem_append ap = { };

	if (change->size)
		ap = lsmem_group_entry(group, change);
	switch (change->op) {
	case LSMEM_OP_ALLOC:
		lsmem_group_stamp(store, &ap, change);
		lsmem_word_publish(&store->handles,
				   lsmem_handle_at(&store->handles,
						   lsmem_handle_index(change->handle)),
				   ap.position);
		break;
	case LSMEM_OP_REPLACE:
		lsmem_group_stamp(store, &ap, change);
		lsmem_group_exchange(store, change, &ap);
		break;
	case LSMEM_OP_CHECK:
		return;
	default:	/* the handle is given back after the commit */
		lsmem_group_exchange(store, change, &ap);
		lsmem_tombstone_done(store, &ap, change->old);
		return;
	}
	group->live += (s32)change->size - (s32)change->old;
}

/* Make the changes, in order, of objects that are held, with one version: a snapshot has all of them or none. */
static void lsmem_group_publish(struct lsmem_store *store, struct lsmem_group *group)
{
	u32 replaced = 0, bytes = 0, made = 0, checks = 0, i;
	u64 last = 0, version;

	for (i = 0; i < group->nr; i++) {
		const struct lsmem_change *change = &group->changes[i];

		last = max(last, change->before);
		replaced += change->op == LSMEM_OP_REPLACE;
		checks += change->op == LSMEM_OP_CHECK;
		/* A tombstone counts itself. */
		if (change->op == LSMEM_OP_FREE || change->op == LSMEM_OP_CHECK)
			continue;
		made++;
		bytes += change->size;
	}
	/* Before the exchanges: a change that follows may count an entry of the group as dead. */
	if (bytes)
		atomic_add(bytes, group->ap.segment->live);
	lsmem_group_unsettle(store, group);
	version = lsmem_handle_version(store, last);
	/* Before the objects are let go: a client that changes one then has a higher version. */
	if (checks)
		WRITE_ONCE(store->handles.checked, version);
	for (i = 0; i < group->nr; i++) {
		struct lsmem_change *change = &group->changes[i];

		change->version = change->op == LSMEM_OP_CHECK ? change->before : version;
		lsmem_group_one(store, group, change);
	}
	lsmem_count(store, appends, made);
	lsmem_count(store, appended_bytes, bytes);
	lsmem_count(store, replaced, replaced);
}

static void lsmem_group_note_one(struct lsmem_ring *ring, struct lsmem_change *change, u32 flags)
{
	u32 kind = change->op == LSMEM_OP_ALLOC ? LSMEM_NOTE_NEW :
		   change->op == LSMEM_OP_REPLACE ? LSMEM_NOTE_REPLACED : LSMEM_NOTE_FREED;

	lsmem_watch_note(ring, change->handle, change->version, kind, flags);
	change->noted = true;
}

/* Note the changes, which are made: those of a table beside each other.  The objects are still held. */
static void lsmem_group_note(struct lsmem_store *store, struct lsmem_group *group)
{
	u32 i, j;

	for (i = 0; i < group->nr && READ_ONCE(store->handles.watched); i++) {
		struct lsmem_change *last = &group->changes[i];
		struct lsmem_ring *ring = last->noted ? NULL : lsmem_watch_begin(&store->handles, last->table);

		if (!ring)
			continue;
		for (j = i + 1; j < group->nr; j++) {
			if (group->changes[j].noted || group->changes[j].table != last->table)
				continue;
			lsmem_group_note_one(ring, last, LSMEM_NOTE_MORE);
			last = &group->changes[j];
		}
		lsmem_group_note_one(ring, last, 0);
		lsmem_watch_unlock(ring);
	}
}

/* Hold all objects, and change them. Returns as lsmem_group_hold(). */
static int lsmem_group_make(struct lsmem_store *store, struct lsmem_group *group)
{
	int ret;

	write_lock(&store->tier.evicting);
	rcu_read_lock();
	ret = lsmem_group_hold(store, group);
	if (!ret) {
		lsmem_group_publish(store, group);
		lsmem_group_note(store, group);
	}
	lsmem_group_let_go(store);
	rcu_read_unlock();
	write_unlock(&store->tier.evicting);
	return ret;
}

/* Returns -LSMEM_ECOLD if objects are to be fetched again. */
static int lsmem_group_try(struct lsmem_store *store, struct lsmem_group *group,
			   struct lsmem_place *place)
{
	int entries = lsmem_group_plan(store, group, place->deadline), ret;

	if (entries < 0)
		return entries;
	if (!entries)	/* checks, and deletions in a volatile store */
		return lsmem_group_make(store, group);
	group->sizes[0] = LSMEM_LONG_BYTES;	/* the record's */
	ret = lsmem_append_begin_group(store, place->head ?: lsmem_log_head(store),
				       &group->sizes[!group->marked], entries, group->listed,
				       &place->deadline, &group->ap);
	if (ret)
		return ret;
	lsmem_group_copy(store, group);
	ret = lsmem_group_make(store, group);
	if (ret) {
		lsmem_append_abort(store, &group->ap);
		return ret;
	}
	place->segment = group->ap.segment->id;
	place->offset = group->ap.offset + group->ap.size;
	lsmem_append_commit(store, &group->ap);
	return 0;
}

/**
 * lsmem_group_change - change several objects, all or none
 * @store: active, object kind
 * @changes: of different objects: a tree of pages that a client has forged may name one twice; their results are
 *	filled in, and their versions if they are made
 * @nr: 1 .. LSMEM_GROUP_MAX; the sum of lsmem_group_bytes() is at most lsmem_group_room()
 * @place: in: its deadline; out: for a durable wait; segment 0: nothing was written
 *
 * Context: sleeps, also for objects that are on backups only; holds no spinlock.
 * Return: 0: all are made.  Otherwise nothing is changed: -ENOSPC, -EINTR, -EAGAIN, -ENOMEM;
 * -LSMEM_EWAIT: the deadline is LSMEM_NO_WAIT; -EBUSY: as lsmem_group_follow(), or what is checked is not durable;
 * -ENOENT, -ESTALE, -EILSEQ, -EUCLEAN, -EBADMSG, -EIO, -ETIMEDOUT: an object is not there, has another version, is
 * named twice, or could not be read, and the result of its change is set.
 */
int lsmem_group_change(struct lsmem_store *store, struct lsmem_change *changes, u32 nr,
		       struct lsmem_place *place)
{
	struct lsmem_group *group;
	u32 twice, i;
	int ret = 0;

	place->segment = 0;
	twice = lsmem_group_twice(changes, nr, &ret);
	for (i = 0; i < nr; i++)
		changes[i].result = i == twice ? ret : 0;
	if (ret)
		return ret;
	group = kzalloc(sizeof(*group), GFP_NOFS | __GFP_ACCOUNT);
	if (!group)
		return -ENOMEM;
	group->changes = changes;
	group->nr = nr;
	do {
		ret = lsmem_group_try(store, group, place);
		if (ret == -LSMEM_EUNSETTLED)
			ret = lsmem_group_behind(store, group->unsettled, &group->before, place) ?: -LSMEM_ECOLD;
	} while (ret == -LSMEM_ECOLD);	/* again */
	/* Never more than was admitted; tombstones have counted themselves. */
	lsmem_live_add(store, (s64)group->live - group->admitted);
	for (i = 0; !ret && i < nr; i++)
		if (changes[i].op == LSMEM_OP_FREE)
			lsmem_handle_free(store, changes[i].handle);
	kfree(group);
	return ret;
}
