// SPDX-License-Identifier: GPL-2.0
/*
 * Groups: changes of several objects that are whole or none after a crash.
 *
 * All entries of a group, and a group record before them, are one append: side by side in one segment,
 * made readable by one commit, told to the daemon as one range.  A recovery that does not find all
 * of them ends the log of the segment before the record (invariant 21).  The group is acknowledged when
 * its last byte is.
 *
 *	look	at each object; fetch those that are COLD; admit what the group needs
 *	begin	reserve the record and the entries
 *	copy	all payloads
 *	publish	look again at each object, stamp its entry, exchange its word
 *	commit	all entries at once
 *
 * Until the exchanges begin, every error undoes all.  From then on a change can only lose against
 * another client that frees its object, or makes it smaller in a store that is full then: it fails alone,
 * and its entry becomes padding.  No object leaves memory from the second look to the exchanges
 * (tier.evicting): a COLD object says neither how long it is nor which version it has, and cannot be
 * fetched there.
 *
 * Other clients of a running system see the changes one after the other, in their order.
 *
 * Locks: tier.evicting, for at most LSMEM_GROUP_MAX exchanges.
 */
#include <linux/slab.h>

#include "../uapi/lsmem.h"
#include "entry.h"
#include "fetch.h"
#include "group.h"
#include "handle.h"
#include "log.h"
#include "object.h"
#include "store.h"

/**
 * struct lsmem_group - a group
 * @ap: the append of all entries
 * @changes: what is to be changed
 * @nr: how many
 * @marked: there is a group record
 * @listed: entries that the directory lists
 * @admitted: live bytes that were admitted
 * @live: bytes by which the live bytes have changed
 * @lost: bytes of entries that became padding after they were counted
 * @until: end of the waits for what is COLD, ktime in ns; 0: none was
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
	u32 lost;
	u64 until;
	u32 sizes[LSMEM_GROUP_MAX + 1];
};

/* ---- Look --------------------------------------------------------------- */

/* Look at the object of a change, and have it in memory. */
static int lsmem_group_look(struct lsmem_store *store, struct lsmem_change *change,
			    struct lsmem_look *look, u64 *until)
{
	int ret = lsmem_handle_find(store, change->handle, &look->h);

	while (!ret) {
		rcu_read_lock();
		ret = lsmem_look(store, change->handle, look);
		rcu_read_unlock();
		if (ret != -LSMEM_ECOLD)
			return ret;
		ret = lsmem_fetch(store, lsmem_handle_index(change->handle), until, 0);
	}
	return ret;
}

/* Look at all, admit what they need, and say what is to be reserved. Returns how many entries. */
static int lsmem_group_plan(struct lsmem_store *store, struct lsmem_group *group)
{
	u32 growth = 0, entries = 0, i;
	int ret;

	group->listed = 0;
	group->marked = store->durable && group->nr > 1;
	if (group->marked)
		group->sizes[entries++] = LSMEM_LONG_BYTES;
	for (i = 0; i < group->nr; i++) {
		struct lsmem_change *change = &group->changes[i];
		struct lsmem_look look;

		change->result = 0;
		change->old = 0;
		change->size = change->op != LSMEM_OP_FREE || store->durable ?
			       lsmem_entry_size(change->length) : 0;
		if (change->op != LSMEM_OP_ALLOC) {
			ret = lsmem_group_look(store, change, &look, &group->until);
			change->result = ret;
			if (ret)
				return ret;
			change->old = lsmem_entry_size(look.length);
		}
		if (change->op != LSMEM_OP_FREE)
			growth += lsmem_growth(change->size, change->old);
		if (!change->size)
			continue;
		group->sizes[entries++] = change->size;
		group->listed++;
	}
	ret = lsmem_admit_to(store, growth, &group->admitted);
	return ret ?: entries;
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

/* ---- Publish ------------------------------------------------------------ */

static int lsmem_group_alloc(struct lsmem_store *store, struct lsmem_group *group,
			     struct lsmem_change *change, u64 now)
{
	struct lsmem_append ap = lsmem_group_entry(group, change);
	struct lsmem_handle *h = &store->handles.table[lsmem_handle_index(change->handle)];

	lsmem_object_stamp(store, &ap, change->handle, now, change->length, 0, change->table,
			   change->crc);
	lsmem_word_publish(&store->handles, h, ap.position);
	group->live += change->size;
	return 0;
}

/* As lsmem_object_replace(). */
static int lsmem_group_replace(struct lsmem_store *store, struct lsmem_group *group,
			       struct lsmem_change *change, u64 now)
{
	struct lsmem_append ap = lsmem_group_entry(group, change);
	struct lsmem_look look = {
		.h = lsmem_handle_at(&store->handles, lsmem_handle_index(change->handle)),
	};
	u64 version;
	u32 old;
	int ret;

	do {
		ret = lsmem_look(store, change->handle, &look);
		if (ret)
			return ret;
		old = lsmem_entry_size(look.length);
		/* Another client has made it smaller since it was admitted. */
		if (lsmem_growth(change->size, old) > lsmem_growth(change->size, change->old)) {
			ret = lsmem_admit_to(store, group->admitted +
					     lsmem_growth(change->size, old) -
					     lsmem_growth(change->size, change->old),
					     &group->admitted);
			if (ret)
				return ret;
			change->old = old;
		}
		version = lsmem_version_after(&store->handles, now, look.version);
		lsmem_object_stamp(store, &ap, change->handle, version, change->length,
				   lsmem_look_interval(&look, version), look.table, change->crc);
	} while (!lsmem_word_change(&store->handles, look.h, look.word,
				    lsmem_word_next(look.word, LSMEM_WORD_LIVE, ap.position), version));
	lsmem_entry_dead(store, lsmem_word_position(look.word), old);
	group->live += (s32)change->size - (s32)old;
	return 0;
}

/* As lsmem_object_free(); the handle is given back after the commit. */
static int lsmem_group_free(struct lsmem_store *store, struct lsmem_group *group,
			    struct lsmem_change *change, u64 now)
{
	struct lsmem_append ap = { };
	struct lsmem_look look = {
		.h = lsmem_handle_at(&store->handles, lsmem_handle_index(change->handle)),
	};
	u64 version;
	int ret;

	if (store->durable)
		ap = lsmem_group_entry(group, change);
	do {
		ret = lsmem_look(store, change->handle, &look);
		if (ret)
			return ret;
		version = lsmem_version_after(&store->handles, now, look.version);
		if (store->durable)
			lsmem_tombstone_stamp(store, &ap, change->handle, version, look.table);
	} while (!lsmem_word_change(&store->handles, look.h, look.word,
				    lsmem_word_next(look.word, LSMEM_WORD_BUSY,
						    lsmem_handle_generation(change->handle)),
				    version));
	lsmem_entry_dead(store, lsmem_word_position(look.word), lsmem_entry_size(look.length));
	lsmem_tombstone_done(store, &ap, look.length);
	return 0;
}

static int lsmem_group_one(struct lsmem_store *store, struct lsmem_group *group,
			   struct lsmem_change *change, u64 now)
{
	switch (change->op) {
	case LSMEM_OP_ALLOC:
		return lsmem_group_alloc(store, group, change, now);
	case LSMEM_OP_REPLACE:
		return lsmem_group_replace(store, group, change, now);
	default:
		return lsmem_group_free(store, group, change, now);
	}
}

/* Is any of the objects COLD again? */
static bool lsmem_group_cold(struct lsmem_store *store, const struct lsmem_group *group)
{
	u32 i;

	for (i = 0; i < group->nr; i++) {
		u64 index = lsmem_handle_index(group->changes[i].handle);

		if (lsmem_word_state(READ_ONCE(lsmem_handle_at(&store->handles, index)->word)) ==
		    LSMEM_WORD_COLD)
			return true;
	}
	return false;
}

/*
 * A version for all changes: a snapshot has all of them or none, unless another client changes an object
 * before its turn.
 */
static u64 lsmem_group_version(struct lsmem_store *store, const struct lsmem_group *group)
{
	u64 last = 0;
	u32 i;

	for (i = 0; i < group->nr; i++) {
		u64 handle = group->changes[i].handle;
		struct lsmem_look look = {
			.h = lsmem_handle_at(&store->handles, lsmem_handle_index(handle)),
		};

		if (group->changes[i].op != LSMEM_OP_ALLOC && !lsmem_look(store, handle, &look))
			last = max(last, look.version);
	}
	return lsmem_handle_version(store, last);
}

/* Make the changes, in order. Returns false, with none made, if objects are to be fetched again. */
static bool lsmem_group_publish(struct lsmem_store *store, struct lsmem_group *group)
{
	u32 replaced = 0, bytes = 0, made = 0, i;
	u64 now;

	write_lock(&store->tier.evicting);
	if (store->tier.on && lsmem_group_cold(store, group)) {
		write_unlock(&store->tier.evicting);
		return false;
	}
	for (i = 0; i < group->nr; i++)
		if (group->changes[i].op != LSMEM_OP_FREE)	/* a tombstone counts itself */
			bytes += group->changes[i].size;
	/* Before the exchanges: a racing change may count an entry of the group as dead. */
	if (bytes)
		atomic_add(bytes, group->ap.segment->live);
	rcu_read_lock();
	now = lsmem_group_version(store, group);
	for (i = 0; i < group->nr; i++) {
		struct lsmem_change *change = &group->changes[i];

		change->result = lsmem_group_one(store, group, change, now);
		if (!change->result) {
			replaced += change->op == LSMEM_OP_REPLACE;
			made += change->op != LSMEM_OP_FREE;
		} else if (change->size) {
			lsmem_append_pad(store, &group->ap, change->offset, change->size, 1);
			if (change->op != LSMEM_OP_FREE)
				group->lost += change->size;
		}
	}
	rcu_read_unlock();
	write_unlock(&store->tier.evicting);
	if (group->lost)
		atomic_sub(group->lost, group->ap.segment->live);
	lsmem_count(store, appends, made);
	lsmem_count(store, appended_bytes, bytes - group->lost);
	lsmem_count(store, replaced, replaced);
	return true;
}

/* Returns -LSMEM_ECOLD if objects are to be fetched again. */
static int lsmem_group_try(struct lsmem_store *store, struct lsmem_group *group,
			   struct lsmem_place *place)
{
	int entries = lsmem_group_plan(store, group), ret;

	if (entries < 0)
		return entries;
	if (!entries)	/* deletions in a volatile store */
		return lsmem_group_publish(store, group) ? 0 : -LSMEM_ECOLD;
	ret = lsmem_append_begin_group(store, lsmem_log_head(store), group->sizes, entries,
				       group->listed, &place->deadline, &group->ap);
	if (ret)
		return ret;
	lsmem_group_copy(store, group);
	if (!lsmem_group_publish(store, group)) {
		lsmem_append_abort(store, &group->ap);
		return -LSMEM_ECOLD;
	}
	place->segment = group->ap.segment->id;
	place->offset = group->ap.offset + group->ap.size;
	lsmem_append_commit(store, &group->ap);
	return 0;
}

/**
 * lsmem_group_change - change several objects, whole or not at all
 * @store: active, object kind
 * @changes: of different objects; their results are filled in
 * @nr: 1 .. LSMEM_GROUP_MAX; the sum of lsmem_group_bytes() is at most lsmem_group_room()
 * @place: in: its deadline; out: for a durable wait; segment 0: nothing was written
 *
 * Context: sleeps, also for objects that are on backups only; holds no spinlock.
 * Return: 0: made, but for changes with a result that another client was faster than.  Otherwise
 * nothing is changed: -ENOSPC, -EINTR, -EAGAIN, -ENOMEM; -ENOENT, -ESTALE, -EBADMSG, -EIO, -ETIMEDOUT:
 * an object is not there, or could not be read, and the result of its change is set.
 */
int lsmem_group_change(struct lsmem_store *store, struct lsmem_change *changes, u32 nr,
		       struct lsmem_place *place)
{
	struct lsmem_group *group = kzalloc(sizeof(*group), GFP_NOFS);
	int ret;
	u32 i;

	if (!group)
		return -ENOMEM;
	group->changes = changes;
	group->nr = nr;
	place->segment = 0;
	do {
		ret = lsmem_group_try(store, group, place);
	} while (ret == -LSMEM_ECOLD);
	/* Never more than was admitted; tombstones have counted themselves. */
	lsmem_live_add(store, (s64)group->live - group->admitted);
	for (i = 0; !ret && i < nr; i++)
		if (changes[i].op == LSMEM_OP_FREE && !changes[i].result)
			lsmem_handle_free(store, changes[i].handle);
	kfree(group);
	return ret;
}
