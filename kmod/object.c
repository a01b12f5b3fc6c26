// SPDX-License-Identifier: GPL-2.0
/*
 * Objects: allocate, read, replace, free.
 *
 * A change is: bring the payload into the log, then, under rcu_read_lock(),
 * look at the handle word, check what was expected, assign the version, stamp
 * the entry, exchange the word; a task that loses the exchange looks again.  Only then
 * is the entry committed.  So versions follow the order of exchanges
 * (invariant 6), and an entry that lost to a delete becomes padding before the
 * committed prefix passes it (invariant 7).
 *
 * An entry never changes in place, and a seglet is given out again only after
 * an RCU grace period: a reader that has loaded a word may use the entry until
 * rcu_read_unlock().  User memory is touched with page faults disabled inside,
 * and faulted in outside, with nothing held.
 *
 * Live bytes are admitted before anything is written, and what a change makes
 * less is given back after the exchange that makes it so: the sum of what is
 * admitted never exceeds the capacity.  A store that is full says ENOSPC, and can
 * delete, since a tombstone is no larger than the smallest entry.
 */
#include <linux/nospec.h>
#include <linux/pagemap.h>
#include <linux/prefetch.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "entry.h"
#include "handle.h"
#include "log.h"
#include "object.h"
#include "policy.h"
#include "store.h"
#include "trace.h"
#include "watch.h"

#define LSMEM_FAULT_TRIES	3	/* before a bounce buffer is used */

/**
 * lsmem_admit - admit more live bytes
 * @store: object kind
 * @bytes: how many
 * Return: 0, or -ENOSPC: the store is full.
 */
int lsmem_admit(struct lsmem_store *store, u32 bytes)
{
	if (!bytes)
		return 0;
	lsmem_live_add(store, bytes);
	if (__percpu_counter_compare(&store->live, store->capacity, LSMEM_LIVE_BATCH) > 0) {
		lsmem_live_add(store, -(s64)bytes);
		return -ENOSPC;
	}
	return 0;
}

/**
 * lsmem_admit_to - admit as many live bytes as a call needs by now
 * @store: object kind
 * @wanted: in all
 * @admitted: in and out: what has been admitted so far
 * Return: 0, or -ENOSPC: the store is full.
 */
int lsmem_admit_to(struct lsmem_store *store, u32 wanted, u32 *admitted)
{
	int ret;

	if (wanted <= *admitted)
		return 0;
	ret = lsmem_admit(store, wanted - *admitted);
	if (!ret)
		*admitted = wanted;
	return ret;
}

/**
 * lsmem_entry_put - reserve an entry and bring its payload into it
 * @store: active
 * @head: number of the head
 * @key: for the trace
 * @table: for the trace
 * @source: where the payload is; user memory has passed access_ok()
 * @length: payload bytes
 * @deadline: of waits for space
 * @ap: out: to be stamped and committed, or aborted
 * @pcrc: out: CRC of the payload
 *
 * No user can hold the head by a slow page: on a fault the reservation becomes
 * padding, the page is brought in with nothing held, and it is tried again, at
 * last from a buffer filled before.
 * Return: 0, -EFAULT, -EINTR, -ENOMEM or what lsmem_append_begin() says.
 */
int lsmem_entry_put(struct lsmem_store *store, unsigned int head, u64 key, u32 table,
		    const struct lsmem_source *source, u32 length, u64 *deadline,
		    struct lsmem_append *ap, u32 *pcrc)
{
	struct lsmem_source from = *source;
	void *bounce = NULL;
	int ret, tries;

	for (tries = 1;; tries++) {
		ret = lsmem_append_begin_by(store, head, length, LSMEM_TYPE_OBJECT, deadline,
					    ap);
		if (ret)
			break;
		ret = lsmem_append_copy(store, ap, &from, length, pcrc);
		if (!ret)
			break;
		lsmem_append_abort(store, ap);
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		if (tries < LSMEM_FAULT_TRIES) {
			if (fault_in_readable(source->user, length))
				break;
			continue;
		}
		bounce = kvmalloc(length, GFP_KERNEL_ACCOUNT);
		if (!bounce) {
			ret = -ENOMEM;
			break;
		}
		if (copy_from_user(bounce, source->user, length))
			break;
		from = (struct lsmem_source){ .kernel = bounce };
	}
	if (ret) {
		kvfree(bounce);
		return ret;
	}
	ap->bounce = bounce;	/* until after the commit: to free it may sleep */
	lsmem_entry_count(store, ap, key, table, length);
	return 0;
}

static void lsmem_place_set(struct lsmem_place *place, const struct lsmem_append *ap)
{
	place->segment = ap->segment->id;
	place->offset = ap->offset + ap->size;
}

/**
 * lsmem_look - look at an object
 * @store: object kind
 * @handle: of the object
 * @look: its h is set; the rest is filled in
 *
 * A handle with generation 0 is that of any object that the index has (LSMEM_OPF_INDEX).
 *
 * Context: rcu_read_lock() held.
 * Return: 0; -ENOENT, -ESTALE: lsmem_handle_missing(); -LSMEM_ECOLD: it has to be fetched first;
 * -EBADMSG: its length is not one, because a process with a replication descriptor can write to
 * seglets.
 */
int lsmem_look(struct lsmem_store *store, u64 handle, struct lsmem_look *look)
{
	const struct lsmem_entry *e;
	u64 found;

	/* Pairs with the exchange, or the store, that made it live: its entry is whole. */
	look->word = smp_load_acquire(&look->h->word);
	if (lsmem_word_state(look->word) == LSMEM_WORD_COLD)
		return -LSMEM_ECOLD;
	if (lsmem_word_state(look->word) != LSMEM_WORD_LIVE)
		return lsmem_handle_missing(store, handle, lsmem_word_generation(look->word));
	e = lsmem_word_entry(&store->seglets, look->word);
	found = lsmem_entry_handle(e);
	if (unlikely(found != handle) &&
	    (lsmem_handle_generation(handle) || lsmem_handle_index(found) != handle))
		return lsmem_handle_missing(store, handle, lsmem_handle_generation(found));
	look->handle = found;
	look->version = lsmem_entry_version(e);
	look->length = lsmem_entry_length(e);
	look->table = lsmem_entry_table(e);
	look->interval = lsmem_entry_interval(e);
	return look->length - 1 < LSMEM_OBJECT_MAX ? 0 : -EBADMSG;
}

/**
 * lsmem_look_interval - the interval of a new version
 * @look: at the version that it replaces
 * @version: the new one
 */
u32 lsmem_look_interval(const struct lsmem_look *look, u64 version)
{
	u64 lifetime = lsmem_version_time(version) - lsmem_version_time(look->version);

	/* Clocks of two eras can overlap. */
	return lsmem_policy_interval(look->interval, (s64)lifetime < 0 ? 0 :
				     lifetime >> LSMEM_INTERVAL_SHIFT);
}

/**
 * lsmem_look_for - look at the object of an operation
 * @store: object kind
 * @op: checked; its version is filled in with -EILSEQ
 * @look: as for lsmem_look()
 *
 * Waits while a group holds the object: for the exchanges of that group (lsmem_group_hold()).
 *
 * Context: rcu_read_lock() held.
 * Return: as lsmem_look(); -EILSEQ: another version was expected.
 */
int lsmem_look_for(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_look *look)
{
	int ret;

	for (;;) {
		ret = lsmem_look(store, op->handle, look);
		if (ret || !lsmem_word_held(&store->handles, lsmem_handle_index(op->handle)))
			break;
		cpu_relax();
	}
	if (!ret && op->flags & LSMEM_OPF_EXPECT && op->version != look->version) {
		op->version = look->version;
		ret = -EILSEQ;
	}
	return ret;
}

/**
 * lsmem_look_from - look at the object of an operation, whose new entry is reserved
 * @store: object kind
 * @op: checked; its version is filled in with -EILSEQ
 * @look: as for lsmem_look()
 * @ap: the new entry
 *
 * Context: rcu_read_lock() held.
 * Return: as lsmem_look_for(); -LSMEM_EUNSETTLED: lsmem_group_follow() first.
 */
int lsmem_look_from(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_look *look,
		    const struct lsmem_append *ap)
{
	int ret = lsmem_look_for(store, op, look);

	if (!ret && lsmem_word_unsettled(&store->handles, lsmem_handle_index(op->handle),
					 ap->segment->id, ap->offset))
		ret = -LSMEM_EUNSETTLED;
	return ret;
}

/**
 * lsmem_objects_prefetch - operations on these objects will follow
 * @store: the store
 * @ops: unchecked
 * @nr: how many, 64 at most
 *
 * Handle words first, then what they point to: the misses of one operation after
 * the other would cost more than all that it does.
 *
 * Return: a bit for each operation that needs an object which is COLD: lsmem_misses_new().
 */
u64 lsmem_objects_prefetch(struct lsmem_store *store, const struct lsmem_op *ops, u32 nr)
{
	u64 cold = 0;
	u32 i;

	if (store->kind != LSMEM_KIND_OBJECT)
		return 0;
	for (i = 0; i < nr; i++) {
		u64 index = lsmem_handle_index(ops[i].handle);

		if (index < store->handles.nr)
			prefetchw(lsmem_handle_at(&store->handles, index));
	}
	rcu_read_lock();
	for (i = 0; i < nr; i++) {
		u64 index = lsmem_handle_index(ops[i].handle), word;

		if (index >= store->handles.nr)
			continue;
		word = READ_ONCE(lsmem_handle_at(&store->handles, index)->word);
		if (lsmem_word_state(word) == LSMEM_WORD_COLD) {
			cold |= (u64)(ops[i].op != LSMEM_OP_ALLOC) << i;
		} else if (lsmem_word_state(word) == LSMEM_WORD_LIVE) {
			const struct lsmem_entry *e = lsmem_word_entry(&store->seglets, word);

			prefetch(e);
			prefetch(&e->version);	/* in two of eight places on the next line */
		}
	}
	rcu_read_unlock();
	return cold;
}

/**
 * lsmem_object_handle - a handle for a new object
 * @store: active, object kind
 * @op: checked: LSMEM_OP_ALLOC
 * @handle: out
 *
 * Context: may sleep.  Return: as lsmem_handle_alloc() or lsmem_handle_reserved().
 */
int lsmem_object_handle(struct lsmem_store *store, const struct lsmem_op *op, u64 *handle)
{
	return op->flags & LSMEM_OPF_INDEX ? lsmem_handle_reserved(store, op->handle, handle) :
					     lsmem_handle_alloc(store, handle);
}

/**
 * lsmem_object_alloc - a new object
 * @store: active, object kind
 * @op: checked; @op->handle and @op->version are filled in
 * @place: out: for a durable wait
 * Return: 0 or an error as struct lsmem_op says; nothing has changed then.  -LSMEM_EUNSETTLED:
 * lsmem_group_follow() of @op->handle, which another object had, first; then again without it.
 */
int lsmem_object_alloc(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_place *place)
{
	struct lsmem_source source = { .user = u64_to_user_ptr(op->data) };
	u32 size = lsmem_entry_size(op->length), pcrc;
	struct lsmem_append ap;
	struct lsmem_handle *h;
	struct lsmem_ring *ring;
	u64 handle, version;
	int ret;

	ret = lsmem_admit(store, size);
	if (ret)
		return ret;
	ret = lsmem_object_handle(store, op, &handle);
	if (ret)
		goto err_admit;
	if (lsmem_word_unsettled(&store->handles, lsmem_handle_index(handle), 0, 0)) {
		op->handle = handle;	/* for lsmem_group_follow(); it is not given out */
		ret = -LSMEM_EUNSETTLED;
		goto err_handle;
	}
	ret = lsmem_entry_put(store, place->head ?: lsmem_log_head(store), handle, op->table, &source,
			      op->length, &place->deadline, &ap, &pcrc);
	if (ret)
		goto err_handle;
	h = &store->handles.table[lsmem_handle_index(handle)];
	version = lsmem_handle_version(store, 0);
	lsmem_object_stamp(store, &ap, handle, version, op->length, 0, op->table, pcrc);
	lsmem_entry_alive(&ap);
	ring = lsmem_watch_begin(&store->handles, op->table);
	lsmem_word_publish(&store->handles, h, ap.position);
	lsmem_watch_end(ring, true, handle, version, LSMEM_NOTE_NEW);
	lsmem_place_set(place, &ap);
	lsmem_append_commit(store, &ap);
	op->handle = handle;
	op->version = version;
	return 0;
err_handle:
	lsmem_handle_free(store, handle);
err_admit:
	lsmem_live_add(store, -(s64)size);
	return ret;
}

/**
 * lsmem_object_replace - new contents for an object
 * @store: active, object kind
 * @op: checked; @op->version is filled in
 * @place: out: for a durable wait
 * Return: 0 or an error as struct lsmem_op says; -LSMEM_ECOLD; -LSMEM_EUNSETTLED; nothing has changed then.
 */
int lsmem_object_replace(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_place *place)
{
	struct lsmem_source source = { .user = u64_to_user_ptr(op->data) };
	u32 size = lsmem_entry_size(op->length), admitted = 0, old, pcrc;
	struct lsmem_append ap;
	struct lsmem_ring *ring;
	struct lsmem_look look;
	u64 version;
	bool done;
	int ret;

	ret = lsmem_handle_find(store, op->handle, &look.h);
	if (ret)
		return ret;
	rcu_read_lock();
	ret = lsmem_look_for(store, op, &look);
	rcu_read_unlock();
	if (ret)
		return ret;
	ret = lsmem_admit_to(store, lsmem_growth(size, lsmem_entry_size(look.length)), &admitted);
	if (ret)
		return ret;
	ret = lsmem_entry_put(store, place->head ?: lsmem_log_head(store), op->handle, look.table, &source,
			      op->length, &place->deadline, &ap, &pcrc);
	if (ret)
		goto err_admit;
	rcu_read_lock();
	do {
		ret = lsmem_look_from(store, op, &look, &ap);
		if (!ret) {
			/* Another call may have replaced it by another size in between. */
			old = lsmem_entry_size(look.length);
			ret = lsmem_admit_to(store, lsmem_growth(size, old), &admitted);
		}
		if (ret) {
			rcu_read_unlock();
			lsmem_append_abort(store, &ap);
			goto err_admit;
		}
		version = lsmem_handle_version(store, look.version);
		lsmem_object_stamp(store, &ap, op->handle, version, op->length,
				   lsmem_look_interval(&look, version), look.table, pcrc);
		ring = lsmem_watch_begin(&store->handles, look.table);
		done = lsmem_word_change(&store->handles, look.h, look.word,
					 lsmem_word_next(look.word, LSMEM_WORD_LIVE, ap.position), version);
	} while (!lsmem_watch_end(ring, done, op->handle, version, LSMEM_NOTE_REPLACED));
	lsmem_entry_alive(&ap);
	lsmem_entry_dead(store, lsmem_word_position(look.word), old);
	rcu_read_unlock();
	lsmem_live_add(store, (s64)size - old - admitted);	/* never more than was admitted */
	lsmem_place_set(place, &ap);
	lsmem_append_commit(store, &ap);
	lsmem_count(store, replaced, 1);
	op->version = version;
	return 0;
err_admit:
	lsmem_live_add(store, -(s64)admitted);
	return ret;
}

/**
 * lsmem_object_free - an object goes
 * @store: active, object kind
 * @op: checked; @op->version is filled in
 * @place: out: for a durable wait; segment 0 when nothing was written
 * Return: as lsmem_object_replace().
 */
int lsmem_object_free(struct lsmem_store *store, struct lsmem_op *op, struct lsmem_place *place)
{
	struct lsmem_append ap;
	struct lsmem_ring *ring;
	struct lsmem_look look;
	u64 version;
	bool done;
	u32 old;
	int ret;

	ret = lsmem_handle_find(store, op->handle, &look.h);
	if (ret)
		return ret;
	rcu_read_lock();
	ret = lsmem_look_for(store, op, &look);
	rcu_read_unlock();
	if (ret)
		return ret;
	if (store->durable) {
		ret = lsmem_append_begin_by(store, place->head ?: lsmem_log_head(store), 0, LSMEM_TYPE_TOMBSTONE,
					    &place->deadline, &ap);
		if (ret)
			return ret;
	}
	rcu_read_lock();
	do {
		ret = store->durable ? lsmem_look_from(store, op, &look, &ap) :
				       lsmem_look_for(store, op, &look);
		if (ret) {
			rcu_read_unlock();
			if (store->durable)
				lsmem_append_abort(store, &ap);
			return ret;
		}
		version = lsmem_handle_version(store, look.version);
		if (store->durable)
			lsmem_tombstone_stamp(store, &ap, op->handle, version, look.table);
		ring = lsmem_watch_begin(&store->handles, look.table);
		done = lsmem_word_change(&store->handles, look.h, look.word,
					 lsmem_word_next(look.word, LSMEM_WORD_BUSY,
							 lsmem_handle_generation(op->handle)), version);
	} while (!lsmem_watch_end(ring, done, op->handle, version, LSMEM_NOTE_FREED));
	old = lsmem_entry_size(look.length);
	lsmem_entry_dead(store, lsmem_word_position(look.word), old);
	rcu_read_unlock();
	lsmem_tombstone_done(store, &ap, old);
	if (store->durable) {
		lsmem_place_set(place, &ap);
		lsmem_append_commit(store, &ap);
	}
	lsmem_handle_free(store, op->handle);
	op->version = version;
	return 0;
}

/* Copy from the log to a user's or a bounce buffer, along the chain of seglets. */
static int lsmem_copy_out(struct lsmem_store *store, u64 position, u32 skip, void __user *user,
			  void *bounce, u32 length)
{
	u32 seglet = position >> LSMEM_POSITION_OFFSET_BITS;
	u32 offset = (position & ((1u << LSMEM_POSITION_OFFSET_BITS) - 1)) * LSMEM_ALIGN + skip;
	u32 done = 0;

	while (done < length) {
		u32 piece;

		for (; offset >= LSMEM_SEGLET_BYTES; offset -= LSMEM_SEGLET_BYTES) {
			seglet = READ_ONCE(store->seglets.table[seglet].next);
			if (seglet >= store->seglets.nr)
				return -EBADMSG;
		}
		piece = min(length - done, LSMEM_SEGLET_BYTES - offset);
		if (bounce) {
			memcpy(bounce + done, lsmem_seglet_address(&store->seglets, seglet) + offset,
			       piece);
		} else {
			unsigned long left;

			pagefault_disable();
			left = __copy_to_user_inatomic(user + done,
						       lsmem_seglet_address(&store->seglets, seglet) +
						       offset, piece);
			pagefault_enable();
			if (left)
				return -EFAULT;
		}
		done += piece;
		offset += piece;
	}
	return 0;
}

/* Find the word that a read means. */
static int lsmem_read_find(struct lsmem_store *store, const struct lsmem_op *op, struct lsmem_handle **found)
{
	if (!(op->flags & LSMEM_OPF_INDEX))
		return lsmem_handle_find(store, op->handle, found);
	if (op->handle >= store->handles.nr)
		return -ENOENT;
	*found = lsmem_handle_at(&store->handles, op->handle);
	return 0;
}

/**
 * lsmem_object_read - copy an object, or a part of it, to the user
 * @store: active or RECOVERING, object kind
 * @op: checked; handle, version, table, length and object_length are filled in
 * Return: 0 or an error as struct lsmem_op says.
 */
int lsmem_object_read(struct lsmem_store *store, struct lsmem_op *op)
{
	void __user *user = u64_to_user_ptr(op->data);
	struct lsmem_look look;
	void *bounce = NULL;
	u32 length = 0, offset;
	int ret, tries;

	ret = lsmem_read_find(store, op, &look.h);
	if (ret)
		return ret;
	for (tries = 1;; tries++) {
		rcu_read_lock();
		ret = lsmem_look(store, op->handle, &look);
		if (!ret && op->offset > look.length)
			ret = -EINVAL;
		if (!ret) {
			offset = array_index_nospec(op->offset, look.length + 1);
			length = min(op->length, look.length - offset);
			ret = lsmem_copy_out(store, lsmem_word_position(look.word),
					     lsmem_header_bytes(look.length) + offset, user,
					     bounce, length);
		}
		rcu_read_unlock();
		if (ret != -EFAULT)
			break;
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		if (tries < LSMEM_FAULT_TRIES) {
			if (fault_in_writeable(user, length))
				break;
			continue;
		}
		bounce = kvmalloc(op->length, GFP_KERNEL_ACCOUNT);
		if (!bounce) {
			ret = -ENOMEM;
			break;
		}
	}
	if (!ret && bounce && copy_to_user(user, bounce, length))
		ret = -EFAULT;
	kvfree(bounce);
	if (ret)
		return ret == -ESTALE && op->flags & LSMEM_OPF_INDEX ? -ENOENT : ret;
	op->handle = look.handle;
	op->version = look.version;
	op->table = look.table;
	op->length = length;
	op->object_length = look.length;
	return 0;
}

/**
 * lsmem_object_get - copy an object to memory of the kernel
 * @store: active, object kind
 * @handle: of the object
 * @to: room for @room bytes
 * @room: of an object that is longer, the beginning is copied
 * @length: out: of the object, bytes
 *
 * Context: sleeps, also for an object that is on backups only; holds no spinlock.
 * Return: 0; -ENOENT, -ESTALE; -EBADMSG; what lsmem_fetch() says.
 */
int lsmem_object_get(struct lsmem_store *store, u64 handle, void *to, u32 room, u32 *length)
{
	struct lsmem_look look;
	u64 until = 0;
	int ret;

	ret = lsmem_handle_find(store, handle, &look.h);
	while (!ret) {
		rcu_read_lock();
		ret = lsmem_look(store, handle, &look);
		if (!ret)
			ret = lsmem_copy_out(store, lsmem_word_position(look.word),
					     lsmem_header_bytes(look.length), NULL, to,
					     min(room, look.length));
		rcu_read_unlock();
		if (!ret) {
			*length = look.length;
			if (!until)	/* as lsmem_op_run() */
				lsmem_touch(&store->tier, lsmem_handle_index(handle));
			return 0;
		}
		if (ret == -LSMEM_ECOLD)
			ret = lsmem_fetch(store, lsmem_handle_index(handle), &until, 0);
	}
	return ret;
}
