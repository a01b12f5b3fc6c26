// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: tables with keys.
 *
 * An item is an object: value, key, length of the key (struct lsmem_item_end).  The index (index.c) says which
 * objects may have a key; whether one has it, the object itself says.
 *
 * Which key is there is decided under the lock of its stripe: a key comes when its object is allocated, and goes when
 * that is freed.  A new value of a key that is there is a replace of its object, without a lock: if the object is
 * freed meanwhile, the replace fails, and all begins anew.
 *
 * After a crash of the host the index is made anew from the objects.  Of a key that was removed and put again the new
 * object may be durable and the tombstone of the old one not: then both are there, and the one with the higher version
 * is right.  Versions follow a clock, and a busy object's may be ahead of it; so who puts a key makes sure that its
 * version is higher than those of all that were removed from the stripe.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "table.h"

#define TRIES		64
#define BUFFER		4096u	/* bytes of an item that needs no malloc() */
#define TAIL		256u	/* bytes that are read first, to find a key */
#define LISTED		256u	/* objects looked at together, when the index is made */
#define MANY		32u	/* items whose cache misses overlap */

/* ---- Items -------------------------------------------------------------------- */

/* Does a tail, which ends the object, end with this key? */
static bool has_key(const uint8_t *tail, const struct lsm_key *key)
{
	struct lsmem_item_end end;

	memcpy(&end, tail + key->length, sizeof(end));
	return __le16_to_cpu(end.key_length) == key->length && !memcmp(tail, key->bytes, key->length);
}

/* Reads the key's tail of an object in memory, and its value.  Return: 1; 0: another key; -EAGAIN: it changes. */
static int read_place(struct lsm *lsm, uint64_t handle, const struct lsm_place *place, const struct lsm_key *key,
		      void *value, size_t room)
{
	uint32_t length = place->object.length, bytes = (uint32_t)lsm_tail_bytes(key->length), skip;
	uint8_t small[TAIL], *tail = small;
	bool whole, equal;

	skip = length - bytes;
	if (bytes > sizeof(small)) {
		tail = malloc(bytes);
		if (!tail)
			return -ENOMEM;
	}
	whole = lsm_place_copy(lsm, place, tail, bytes, skip);
	equal = whole && has_key(tail, key);
	if (tail != small)
		free(tail);
	if (equal)
		whole = lsm_place_copy(lsm, place, value, skip < room ? skip : (uint32_t)room, 0);
	if (!lsm_place_unchanged(lsm, handle, place) || !whole)
		return -EAGAIN;
	return equal;
}

/* The same of an object that is not in memory, or keeps changing: the kernel reads it. */
static int read_kernel(struct lsm_table *table, uint64_t index, const struct lsm_key *key, void *value, size_t room,
		       struct lsm_item *item)
{
	size_t bytes = lsm_tail_bytes(key->length);
	struct lsm_object object;
	uint64_t handle;
	uint8_t *whole;
	int ret;

	whole = malloc(LSMEM_OBJECT_MAX);
	if (!whole)
		return -ENOMEM;
	ret = lsm_index_read(table->lsm, index, whole, LSMEM_OBJECT_MAX, &handle, &object);
	if (ret == -ENOENT) {
		ret = 0;
	} else if (ret > 0) {
		if (object.table != table->id || object.length < bytes ||
		    !has_key(whole + object.length - bytes, key)) {
			ret = 0;
		} else {
			bytes = object.length - bytes;
			*item = (struct lsm_item){ .handle = handle, .version = object.version, .length = (uint32_t)bytes };
			if (room)
				memcpy(value, whole, bytes < room ? bytes : room);
			ret = 1;
		}
	}
	free(whole);
	return ret;
}

/* Has the object of an index this key?  Return: 1: @value and @item are its; 0; or a negative errno. */
static int read_item(struct lsm_table *table, uint64_t index, const struct lsm_key *key, void *value, size_t room,
		     struct lsm_item *item)
{
	enum lsm_locate found;
	struct lsm_place place;
	uint64_t handle;
	int tries, ret;

	if (index >= table->lsm->nr_handles)
		return 0;
	for (tries = 0; tries < TRIES; tries++) {
		found = lsm_identify(table->lsm, index, &handle, &place);
		if (found == LSM_ASK)
			return 0;	/* it has none */
		if (found == LSM_COLD)
			break;
		if (found == LSM_CHANGING) {
			lsm_relax();
			continue;
		}
		if (place.object.table != table->id || place.object.length < lsm_tail_bytes(key->length))
			return 0;
		ret = read_place(table->lsm, handle, &place, key, value, room);
		if (ret == -EAGAIN)
			continue;
		if (ret > 0) {
			lsm_touch(table->lsm, index);
			*item = (struct lsm_item){ .handle = handle, .version = place.object.version,
						   .length = place.object.length - (uint32_t)lsm_tail_bytes(key->length) };
		}
		return ret;
	}
	return read_kernel(table, index, key, value, room, item);
}

/**
 * lsm_table_fill() - write the bytes of an object
 * @bytes: out: as many as @length and lsm_tail_bytes()
 * @key: key
 * @value: its value
 * @length: bytes of @value
 */
void lsm_table_fill(uint8_t *bytes, const struct lsm_key *key, const void *value, size_t length)
{
	struct lsmem_item_end end = { .key_length = __cpu_to_le16((uint16_t)key->length) };

	if (length)
		memcpy(bytes, value, length);
	memcpy(bytes + length, key->bytes, key->length);
	memcpy(bytes + length + key->length, &end, sizeof(end));
}

/* ---- Find --------------------------------------------------------------------- */

/**
 * lsm_table_make_key() - hash a key
 * @table: table
 * @bytes: key
 * @length: of it
 * @key: out; keeps @bytes
 *
 * Return: 0; -EINVAL: @length; -ECHILD: after a fork.
 */
int lsm_table_make_key(const struct lsm_table *table, const void *bytes, size_t length, struct lsm_key *key)
{
	if (!length || length > LSM_KEY_MAX)
		return -EINVAL;
	if (!lsm_windows_here(table->lsm))
		return -ECHILD;
	*key = (struct lsm_key){ bytes, length, lsm_index_hash(table->index, bytes, length) };
	return 0;
}

/**
 * lsm_table_find() - find an item
 * @table: table
 * @key: key
 * @locked: the lock of its stripe is held
 * @value: out
 * @room: at @value
 * @item: out
 * @probe: out: its slot
 *
 * Return: 1; 0: it is not there; -ETIMEDOUT: whether it is cannot be said; a negative errno.
 */
int lsm_table_find(struct lsm_table *table, const struct lsm_key *key, bool locked, void *value, size_t room,
		   struct lsm_item *item, struct lsm_probe *probe)
{
	bool pending;
	int ret, tries;

	for (tries = 0; tries < TRIES; tries++) {
		pending = false;
		lsm_probe_begin(probe, table->index, key->hash, locked);
		while ((ret = lsm_probe_next(probe)) > 0) {
			pending |= (probe->value & LSM_SLOT_INDEX) == LSM_SLOT_PENDING;
			ret = read_item(table, probe->value & LSM_SLOT_INDEX, key, value, room, item);
			if (ret)
				return ret;
		}
		if (ret || !pending || locked)
			return ret;
		/* A group that adds it is being made, or was made by a process that died before it could say so. */
		ret = lsm_index_settle(table->index, lsm_stripe_of(key->hash));
		if (ret)
			return ret;
	}
	return -ETIMEDOUT;
}

static ssize_t get(struct lsm_table *table, const struct lsm_key *key, void *value, size_t room, struct lsm_item *item)
{
	struct lsm_probe probe;
	struct lsm_item found;
	int ret;

	ret = lsm_table_find(table, key, false, value, room, &found, &probe);
	if (ret <= 0)
		return ret ? ret : -ENOENT;
	/* Once for each time that lsm_table_evict() passes; if the slot has changed meanwhile, never. */
	if (table->index->owner && !(probe.value & LSM_SLOT_TOUCHED))
		atomic_compare_exchange_strong_explicit(probe.slot, &probe.value, probe.value | LSM_SLOT_TOUCHED,
							memory_order_relaxed, memory_order_relaxed);
	if (item)
		*item = found;
	return (ssize_t)(found.length < room ? found.length : room);
}

ssize_t lsm_table_get(struct lsm_table *table, const void *bytes, size_t key_length, void *value, size_t room,
		      struct lsm_item *item)
{
	struct lsm_key key;
	int ret = lsm_table_make_key(table, bytes, key_length, &key);

	return ret ? ret : get(table, &key, value, room, item);
}

/* Fetches what the first slot of a key leads to into the cache; stages: the word, then the entry. */
static void fetch(const struct lsm_table *table, const struct lsm_key *key, int stage)
{
	const struct lsm *lsm = table->lsm;
	struct lsm_probe probe;
	uint64_t at;

	lsm_probe_begin(&probe, table->index, key->hash, true);
	if (lsm_probe_next(&probe) <= 0 || (probe.value & LSM_SLOT_INDEX) >= lsm->nr_handles)
		return;
	if (!stage) {
		__builtin_prefetch(&lsm->handles[probe.value & LSM_SLOT_INDEX]);
		return;
	}
	at = (__atomic_load_n(&lsm->handles[probe.value & LSM_SLOT_INDEX].word, __ATOMIC_RELAXED) &
	      ((1ull << LSMEM_POSITION_BITS) - 1)) * LSMEM_ALIGN;
	if (at > lsm->last_header)
		return;
	__builtin_prefetch(lsm->seglets + at);
	__builtin_prefetch(lsm->seglets + at + LSM_CACHE_LINE);
	__builtin_prefetch(lsm->seglets + at + 2 * LSM_CACHE_LINE);
}

void lsm_table_get_many(struct lsm_table *table, struct lsm_get *gets, size_t nr)
{
	struct lsm_key keys[MANY];
	size_t i, now;
	int stage;

	for (; nr; gets += now, nr -= now) {
		now = nr < MANY ? nr : MANY;
		for (i = 0; i < now; i++) {
			gets[i].result = gets[i].flags ? -EINVAL : lsm_table_make_key(table, gets[i].key, gets[i].key_length, &keys[i]);
			if (!gets[i].result)
				lsm_index_prefetch(table->index, keys[i].hash);
		}
		for (stage = 0; now > 1 && stage < 2; stage++)
			for (i = 0; i < now; i++)
				if (!gets[i].result)
					fetch(table, &keys[i], stage);
		for (i = 0; i < now; i++)
			if (!gets[i].result)
				gets[i].result = get(table, &keys[i], gets[i].value, gets[i].room, &gets[i].item);
	}
}

/* ---- Change ------------------------------------------------------------------- */

/**
 * lsm_table_exceed() - raise the version of a new object above those of what was removed from its stripe
 * @table: table
 * @key: of the object; the lock of its stripe is held
 * @handle: of the object
 * @bytes: of the object
 * @length: of @bytes
 * @version: in and out: of the object
 *
 * Return: as lsm_replace().
 */
int lsm_table_exceed(struct lsm_table *table, const struct lsm_key *key, uint64_t handle, const void *bytes,
		     size_t length, uint64_t *version)
{
	uint64_t removed = atomic_load_explicit(&table->index->stripes[lsm_stripe_of(key->hash)].removed,
						memory_order_relaxed);
	int ret = 0;

	/* The store's clock goes on meanwhile. */
	while (!ret && *version <= removed)
		ret = lsm_replace(table->lsm, handle, bytes, length, 0, version);
	return ret;
}

/* Puts a key that is not there.  Return: 0; -EEXIST: it is there; a negative errno. */
static int add(struct lsm_table *table, const struct lsm_key *key, const void *bytes, size_t length, uint64_t *version)
{
	uint32_t stripe = lsm_stripe_of(key->hash);
	struct lsm_probe probe;
	struct lsm_item item;
	uint64_t handle;
	int ret;

	ret = lsm_index_lock(table->index, stripe);
	if (ret)
		return ret;
	ret = lsm_table_find(table, key, true, NULL, 0, &item, &probe);
	if (!ret)
		ret = lsm_index_room(table->index, key->hash);
	else if (ret > 0)
		ret = -EEXIST;
	if (!ret)
		ret = lsm_alloc(table->lsm, bytes, length, LSM_TABLE(table->id), &handle, version);
	if (!ret) {
		ret = lsm_table_exceed(table, key, handle, bytes, length, version);
		if (!ret)
			ret = lsm_index_insert(table->index, key->hash, lsmem_handle_index(handle));
		if (ret)
			lsm_free(table->lsm, handle, 0, NULL);
	}
	lsm_index_unlock(table->index, stripe);
	return ret;
}

/* Puts an item whose object is made. */
static int put(struct lsm_table *table, const struct lsm_key *key, const void *bytes, size_t length,
	       unsigned int flags, uint64_t *version, bool *added)
{
	struct lsm_probe probe;
	struct lsm_item item;
	int ret;

	for (;;) {
		ret = lsm_table_find(table, key, false, NULL, 0, &item, &probe);
		if (ret < 0)
			return ret;
		if (ret && flags & LSM_NEW)
			return -EEXIST;
		if (ret) {
			ret = lsm_replace(table->lsm, item.handle, bytes, length,
					  flags & (LSM_DURABLE | LSM_EXPECT), version);
			if (ret != -ESTALE && ret != -ENOENT)
				return ret;
		} else {
			if (flags & (LSM_OLD | LSM_EXPECT))
				return -ENOENT;
			ret = add(table, key, bytes, length, version);
			*added = !ret;
			if (ret != -EEXIST)
				return ret;
		}
		/* Another client has removed it, or put it. */
	}
}

/**
 * lsm_table_check_put() - look at the arguments of a put
 * @table: table
 * @key_length: bytes
 * @length: of the value
 * @flags: as of lsm_table_put()
 *
 * Return: 0; -EINVAL; -EBADF: the table was opened with LSM_RDONLY; -EOPNOTSUPP: durable, of a volatile store.
 */
int lsm_table_check_put(const struct lsm_table *table, size_t key_length, size_t length, unsigned int flags)
{
	if (flags & ~(LSM_DURABLE | LSM_EXPECT | LSM_NEW | LSM_OLD) || (flags & LSM_NEW && flags & (LSM_OLD | LSM_EXPECT)))
		return -EINVAL;
	if (key_length > LSM_KEY_MAX || length > LSMEM_OBJECT_MAX ||
	    length + lsm_tail_bytes(key_length) > LSMEM_OBJECT_MAX)
		return -EINVAL;
	/* Before anything changes: the wait comes behind it. */
	if (flags & LSM_DURABLE && !table->lsm->durable)
		return -EOPNOTSUPP;
	return table->index->owner ? 0 : -EBADF;
}

int lsm_table_put(struct lsm_table *table, const void *bytes, size_t key_length, const void *value, size_t length,
		  unsigned int flags, uint64_t *version)
{
	uint64_t unasked = 0;
	uint8_t small[BUFFER], *object;
	bool added = false;
	struct lsm_key key;
	int ret;

	ret = lsm_table_check_put(table, key_length, length, flags);
	if (!ret && flags & LSM_EXPECT && !version)
		ret = -EINVAL;
	if (!ret)
		ret = lsm_table_make_key(table, bytes, key_length, &key);
	if (ret)
		return ret;
	object = length + lsm_tail_bytes(key_length) <= sizeof(small) ? small : malloc(length + lsm_tail_bytes(key_length));
	if (!object)
		return -ENOMEM;
	lsm_table_fill(object, &key, value, length);
	ret = put(table, &key, object, length + lsm_tail_bytes(key_length), flags, version ? version : &unasked, &added);
	if (object != small)
		free(object);
	/* Not under the lock of a stripe. */
	if (!ret && added && flags & LSM_DURABLE)
		ret = lsm_sync(table->lsm, 0);
	return ret;
}

int lsm_table_alloc(struct lsm_table *table, const void *bytes, size_t key_length, const void *value, size_t length,
		    unsigned int flags, struct lsm_item *item)
{
	struct lsm_item unasked;
	bool there;
	ssize_t ret;

	if (flags & ~LSM_DURABLE)
		return -EINVAL;
	if (flags && !table->lsm->durable)
		return -EOPNOTSUPP;
	do {
		ret = lsm_table_put(table, bytes, key_length, value, length, LSM_NEW, NULL);
		if (ret && ret != -EEXIST)
			return (int)ret;
		there = ret;
		ret = lsm_table_get(table, bytes, key_length, NULL, 0, item ? item : &unasked);
	} while (ret == -ENOENT);	/* another client has removed it meanwhile */
	/* Also of one that was there: what has made it may have died before the object was durable. */
	if (!ret && flags & LSM_DURABLE)
		ret = lsm_sync(table->lsm, 0);
	return ret ? (int)ret : there;
}

/**
 * lsm_table_forget() - take an item whose object was freed out of the index
 * @table: table
 * @stripe: of the item; its lock is held
 * @slot: of the item
 * @version: of the tombstone; 0: not known
 */
void lsm_table_forget(struct lsm_table *table, uint32_t stripe, _Atomic uint64_t *slot, uint64_t version)
{
	_Atomic uint64_t *removed = &table->index->stripes[stripe].removed;

	if (version > atomic_load_explicit(removed, memory_order_relaxed))
		atomic_store_explicit(removed, version, memory_order_relaxed);
	lsm_index_clear(table->index, stripe, slot);
}

/* Frees the object of an item; the lock of its stripe is held. */
static int take_away(struct lsm_table *table, uint32_t stripe, struct lsm_probe *probe, uint64_t handle,
		     unsigned int flags, uint64_t *version)
{
	int ret = lsm_free(table->lsm, handle, flags & LSM_EXPECT, version);

	/* A client that knows objects only may have freed it. */
	if (ret == -ESTALE)
		ret = -ENOENT;
	if (!ret || ret == -ENOENT)
		lsm_table_forget(table, stripe, probe->slot, ret ? 0 : *version);
	return ret;
}

int lsm_table_remove(struct lsm_table *table, const void *bytes, size_t key_length, unsigned int flags,
		     uint64_t *version)
{
	uint64_t unasked = 0;
	struct lsm_probe probe;
	struct lsm_item item;
	uint32_t stripe;
	struct lsm_key key;
	int ret;

	if (flags & ~(LSM_DURABLE | LSM_EXPECT) || (flags & LSM_EXPECT && !version))
		return -EINVAL;
	ret = lsm_table_check_put(table, key_length, 0, flags);
	if (!ret)
		ret = lsm_table_make_key(table, bytes, key_length, &key);
	if (ret)
		return ret;
	stripe = lsm_stripe_of(key.hash);
	ret = lsm_index_lock(table->index, stripe);
	if (ret)
		return ret;
	ret = lsm_table_find(table, &key, true, NULL, 0, &item, &probe);
	if (ret >= 0)
		ret = ret ? take_away(table, stripe, &probe, item.handle, flags, version ? version : &unasked) :
			    -ENOENT;
	lsm_index_unlock(table->index, stripe);
	if (!ret && flags & LSM_DURABLE)
		ret = lsm_sync(table->lsm, 0);
	return ret;
}

/* ---- Several changes ----------------------------------------------------------- */

/**
 * struct batch - up to MANY puts
 * @puts: of the caller
 * @nr: how many
 * @keys: of each
 * @objects: of each; NULL: it is done, or has failed
 * @ops: replaces, in one system call
 * @which: put of each
 * @nr_ops: entries of @ops
 * @locks: of stripes, that are held
 * @buffer: all objects: @small, or allocated
 * @small: room for small objects
 */
struct batch {
	struct lsm_put *puts;
	size_t nr;
	struct lsm_key keys[MANY];
	uint8_t *objects[MANY];
	struct lsmem_op ops[MANY];
	size_t which[MANY];
	size_t nr_ops;
	struct lsm_locks locks;
	uint8_t *buffer;
	uint8_t small[BUFFER];
};

static size_t object_bytes(const struct lsm_put *put)
{
	return put->length + lsm_tail_bytes(put->key_length);
}

/* Return: 0; -ENOMEM, as the results. */
static int prepare(struct lsm_table *table, struct batch *batch)
{
	size_t i, bytes = 0;
	uint8_t *at;

	batch->nr_ops = 0;
	for (i = 0; i < batch->nr; i++) {
		struct lsm_put *p = &batch->puts[i];

		batch->objects[i] = NULL;
		p->result = p->flags & LSM_DURABLE ? -EINVAL : lsm_table_check_put(table, p->key_length, p->length, p->flags);
		if (!p->result)
			p->result = lsm_table_make_key(table, p->key, p->key_length, &batch->keys[i]);
		if (p->result)
			continue;
		lsm_index_prefetch(table->index, batch->keys[i].hash);
		bytes += object_bytes(p);
	}
	at = batch->buffer = bytes <= sizeof(batch->small) ? batch->small : malloc(bytes);
	for (i = 0; i < batch->nr; i++) {
		struct lsm_put *p = &batch->puts[i];

		if (p->result)
			continue;
		if (!at) {
			p->result = -ENOMEM;
			continue;
		}
		batch->objects[i] = at;
		lsm_table_fill(at, &batch->keys[i], p->value, p->length);
		at += object_bytes(p);
	}
	return at ? 0 : -ENOMEM;
}

/* Replaces the items that are there, in one system call.  What cannot be replaced so is left. */
static int replace_many(struct lsm_table *table, struct batch *batch, unsigned int flags)
{
	struct lsm_probe probe;
	struct lsm_item item;
	size_t i, done = 0;
	int ret, stage;

	for (stage = 0; batch->nr > 1 && stage < 2; stage++)
		for (i = 0; i < batch->nr; i++)
			if (batch->objects[i])
				fetch(table, &batch->keys[i], stage);
	for (i = 0; i < batch->nr; i++) {
		struct lsm_put *p = &batch->puts[i];

		if (!batch->objects[i] || p->flags & LSM_NEW ||
		    lsm_table_find(table, &batch->keys[i], false, NULL, 0, &item, &probe) <= 0)
			continue;
		batch->which[batch->nr_ops] = i;
		batch->ops[batch->nr_ops++] =
			lsm_op_replace(item.handle, batch->objects[i], (uint32_t)object_bytes(p),
				       p->flags & LSM_EXPECT, p->version);
	}
	if (!batch->nr_ops)
		return 0;
	ret = lsm_vector(table->lsm, batch->ops, batch->nr_ops, flags, &done);
	for (i = 0; i < done; i++) {
		const struct lsmem_op *op = &batch->ops[i];
		struct lsm_put *p = &batch->puts[batch->which[i]];

		if (op->result == -ESTALE || op->result == -ENOENT)
			continue;	/* as if it had not been found */
		p->result = op->result;
		p->version = op->version;
		batch->objects[batch->which[i]] = NULL;
	}
	return ret;
}

/* Is the key of a put that of an earlier one that is left?  That one comes first. */
static bool comes_again(const struct batch *batch, size_t i)
{
	size_t j;

	for (j = 0; j < i; j++)
		if (batch->objects[j] && batch->keys[j].hash == batch->keys[i].hash)
			return true;
	return false;
}

/* Locks the stripes of the keys that may be added. */
static int lock_stripes(struct lsm_table *table, struct batch *batch)
{
	size_t i;

	batch->locks.nr = 0;
	for (i = 0; i < batch->nr; i++)
		if (batch->objects[i])
			lsm_locks_add(&batch->locks, lsm_stripe_of(batch->keys[i].hash));
	return lsm_locks_take(table->index, &batch->locks);
}

/* Enters a new item, whose object is there. */
static int enter_new(struct lsm_table *table, struct batch *batch, size_t i, const struct lsmem_op *op)
{
	struct lsm_put *p = &batch->puts[i];
	int ret;

	p->version = op->version;
	ret = lsm_table_exceed(table, &batch->keys[i], op->handle, batch->objects[i], op->length, &p->version);
	if (!ret)
		ret = lsm_index_insert(table->index, batch->keys[i].hash, lsmem_handle_index(op->handle));
	if (ret)
		lsm_free(table->lsm, op->handle, 0, NULL);
	return ret;
}

/* Adds keys that are not there, in one system call.  What cannot be added so is left. */
static int add_many(struct lsm_table *table, struct batch *batch, bool *added)
{
	struct lsm_probe probe;
	struct lsm_item item;
	size_t i, left, done = 0;
	int ret;

	batch->nr_ops = 0;
	for (i = left = 0; i < batch->nr; i++)
		left += !!batch->objects[i];
	if (left < 2)	/* one by itself is as fast */
		return 0;
	ret = lock_stripes(table, batch);
	for (i = 0; !ret && i < batch->nr; i++) {
		struct lsm_put *p = &batch->puts[i];

		if (!batch->objects[i] || p->flags & (LSM_OLD | LSM_EXPECT) || comes_again(batch, i) ||
		    lsm_table_find(table, &batch->keys[i], true, NULL, 0, &item, &probe) ||
		    lsm_index_room(table->index, batch->keys[i].hash))
			continue;
		batch->which[batch->nr_ops] = i;
		batch->ops[batch->nr_ops++] =
			lsm_op_alloc(batch->objects[i], (uint32_t)object_bytes(p), LSM_TABLE(table->id));
	}
	if (batch->nr_ops)
		ret = lsm_vector(table->lsm, batch->ops, batch->nr_ops, 0, &done);
	for (i = 0; i < done; i++) {
		const struct lsmem_op *op = &batch->ops[i];
		struct lsm_put *p = &batch->puts[batch->which[i]];

		p->result = op->result ? op->result : enter_new(table, batch, batch->which[i], op);
		*added |= !p->result;
		batch->objects[batch->which[i]] = NULL;
	}
	lsm_locks_give(table->index, &batch->locks);
	return ret;
}

int lsm_table_put_many(struct lsm_table *table, struct lsm_put *puts, size_t nr, unsigned int flags)
{
	struct batch batch;
	bool any = false;
	size_t i, now;
	int ret = 0;

	if (flags & ~LSM_DURABLE)
		return -EINVAL;
	if (flags && !table->lsm->durable) {
		for (i = 0; i < nr; i++)
			puts[i].result = -EOPNOTSUPP;
		return -EOPNOTSUPP;
	}
	for (; nr && !ret; puts += now, nr -= now) {
		now = nr < MANY ? nr : MANY;
		batch.puts = puts;
		batch.nr = now;
		ret = prepare(table, &batch);
		if (!ret)
			ret = replace_many(table, &batch, flags);
		if (!ret)
			ret = add_many(table, &batch, &any);
		for (i = 0; i < now; i++) {
			struct lsm_put *p = &puts[i];
			bool added = false;

			if (!batch.objects[i])
				continue;
			p->result = ret ? ret : put(table, &batch.keys[i], batch.objects[i], object_bytes(p), p->flags,
						    &p->version, &added);
			/* put() may have replaced, too: one wait is enough for all. */
			any |= !p->result;
		}
		if (batch.buffer != batch.small)
			free(batch.buffer);
	}
	for (i = 0; ret && i < nr; i++)
		puts[i].result = ret;
	if (!ret && any && flags & LSM_DURABLE)
		ret = lsm_sync(table->lsm, 0);
	return ret;
}

/* ---- Making the index ----------------------------------------------------------- */

/**
 * lsm_table_key() - read the key of an object
 * @table: table
 * @listed: object
 * @key: out: room for LSM_KEY_ROOM bytes
 *
 * Return: length of the key; 0: the object is no item, or has gone; or a negative errno.
 */
ssize_t lsm_table_key(struct lsm_table *table, const struct lsm_listed *listed, uint8_t *key)
{
	uint32_t length = listed->object.length, bytes = length < TAIL ? length : TAIL;
	struct lsmem_item_end end;
	struct lsm_object object;
	ssize_t ret;

	for (;;) {
		if (length < sizeof(end))
			return 0;
		ret = lsm_read(table->lsm, listed->handle, key, bytes, length - bytes, &object);
		if (ret == -ESTALE || ret == -ENOENT)
			return 0;
		if (ret < 0 && ret != -EINVAL)
			return ret;
		if (object.length != length || ret < (ssize_t)bytes) {
			/* It was replaced meanwhile. */
			if (ret == -EINVAL)
				ret = lsm_read(table->lsm, listed->handle, NULL, 0, 0, &object);
			if (ret < 0)
				return ret == -ESTALE ? 0 : ret;
			length = object.length;
			bytes = length < TAIL ? length : TAIL;
			continue;
		}
		memcpy(&end, key + bytes - sizeof(end), sizeof(end));
		if (!end.key_length || lsm_tail_bytes(__le16_to_cpu(end.key_length)) > length)
			return 0;
		if (lsm_tail_bytes(__le16_to_cpu(end.key_length)) <= bytes) {
			bytes -= (uint32_t)lsm_tail_bytes(__le16_to_cpu(end.key_length));
			memmove(key, key + bytes, __le16_to_cpu(end.key_length));
			return __le16_to_cpu(end.key_length);
		}
		bytes = (uint32_t)lsm_tail_bytes(__le16_to_cpu(end.key_length));
	}
}

/* Enters an object; of two with the same key the newer one, and the other one is freed. */
static int enter(struct lsm_table *table, const struct lsm_listed *listed, const struct lsm_key *key)
{
	uint32_t stripe = lsm_stripe_of(key->hash);
	struct lsm_probe probe;
	struct lsm_item item;
	uint64_t version, old;
	int ret;

	ret = lsm_table_find(table, key, true, NULL, 0, &item, &probe);
	if (ret < 0)
		return ret;
	if (ret && item.handle == listed->handle)
		return 0;
	if (ret) {
		old = item.version < listed->object.version ? item.handle : listed->handle;
		version = item.version < listed->object.version ? item.version : listed->object.version;
		ret = lsm_free(table->lsm, old, LSM_EXPECT, &version);
		if (ret && ret != -ESTALE && ret != -ENOENT)
			return ret;
		if (old == listed->handle)
			return 0;
		lsm_index_clear(table->index, stripe, probe.slot);
	}
	return lsm_index_insert(table->index, key->hash, lsmem_handle_index(listed->handle));
}

/* Puts all items of a stripe, or of all, into the empty index. */
static int anew(void *context, int stripe)
{
	struct lsm_table *table = context;
	struct lsm_listed listed[LISTED];
	uint64_t cursor = 0;
	uint8_t *bytes;
	ssize_t nr, i, length;
	struct lsm_key key;
	int ret = 0;

	bytes = malloc(LSM_KEY_ROOM);
	if (!bytes)
		return -ENOMEM;
	while (!ret && (nr = lsm_next(table->lsm, (int)table->id, &cursor, listed, LISTED)) != 0) {
		ret = nr < 0 ? (int)nr : 0;
		for (i = 0; !ret && i < nr; i++) {
			length = lsm_table_key(table, &listed[i], bytes);
			if (length <= 0) {
				ret = (int)length;
				continue;
			}
			key = (struct lsm_key){ bytes, (size_t)length, lsm_index_hash(table->index, bytes, (size_t)length) };
			if (stripe < 0 || lsm_stripe_of(key.hash) == (uint32_t)stripe)
				ret = enter(table, &listed[i], &key);
		}
	}
	free(bytes);
	return ret;
}

int lsm_table_open(struct lsm *lsm, uint32_t id, unsigned int flags, struct lsm_table **out)
{
	struct lsm_table *table;
	int ret;

	if (id >= LSMEM_TABLES || flags & ~LSM_RDONLY)
		return -EINVAL;
	if (!lsm->windows)
		return -EOPNOTSUPP;
	table = calloc(1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	table->lsm = lsm;
	table->id = id;
	pthread_mutex_init(&table->evicting, NULL);
	ret = lsm_index_open(lsm, id, !(flags & LSM_RDONLY), anew, table, &table->index);
	if (ret) {
		free(table);
		return ret;
	}
	*out = table;
	return 0;
}

void lsm_table_close(struct lsm_table *table)
{
	if (!table)
		return;
	lsm_index_close(table->index, lsm_windows_here(table->lsm));
	free(table->hand.seglets);
	free(table);
}

/* ---- Enumerate ------------------------------------------------------------------- */

/*
 * Reads all of an object, for its key and its value: what is on backups only comes as a whole, and so does what keeps
 * changing.  @bytes: room for the largest.  Return: 1; 0: it is gone, or no item of the table; or a
 * negative errno.
 */
static int read_whole(struct lsm_table *table, uint64_t handle, uint8_t *bytes, void *key, size_t *key_length,
		      void *value, size_t room, struct lsm_item *item)
{
	struct lsmem_item_end end;
	struct lsm_object object;
	ssize_t ret = lsm_read(table->lsm, handle, bytes, LSMEM_OBJECT_MAX, 0, &object);
	size_t length;

	if (ret < 0)
		return ret == -ESTALE || ret == -ENOENT ? 0 : (int)ret;
	if (object.table != table->id || (size_t)ret < sizeof(end))
		return 0;
	memcpy(&end, bytes + ret - sizeof(end), sizeof(end));
	length = __le16_to_cpu(end.key_length);
	if (!length || lsm_tail_bytes(length) > (size_t)ret)
		return 0;
	ret -= (ssize_t)lsm_tail_bytes(length);
	memcpy(key, bytes + ret, length < *key_length ? length : *key_length);
	*key_length = length;
	if (room)
		memcpy(value, bytes, (size_t)ret < room ? (size_t)ret : room);
	if (item)
		*item = (struct lsm_item){ .handle = handle, .version = object.version, .length = (uint32_t)ret };
	return 1;
}

/* Copies key and value of an object in memory, as far as there is room.  Return: as read_whole(); -EAGAIN: it changes. */
static int copy_parts(struct lsm_table *table, uint64_t handle, const struct lsm_place *place, void *key,
		      size_t *key_length, void *value, size_t room, struct lsm_item *item)
{
	uint32_t length = place->object.length, bytes = 0;
	struct lsm *lsm = table->lsm;
	struct lsmem_item_end end;
	size_t found = 0;
	bool whole;

	whole = lsm_place_copy(lsm, place, &end, sizeof(end), length - (uint32_t)sizeof(end));
	if (whole)
		found = __le16_to_cpu(end.key_length);
	if (found && lsm_tail_bytes(found) <= length) {
		bytes = length - (uint32_t)lsm_tail_bytes(found);
		whole = lsm_place_copy(lsm, place, key, (uint32_t)(found < *key_length ? found : *key_length), bytes) &&
			lsm_place_copy(lsm, place, value, bytes < room ? bytes : (uint32_t)room, 0);
	} else {
		found = 0;
	}
	if (!lsm_place_unchanged(lsm, handle, place) || !whole)
		return -EAGAIN;
	if (!found)
		return 0;
	*key_length = found;
	if (item)
		*item = (struct lsm_item){ .handle = handle, .version = place->object.version, .length = bytes };
	return 1;
}

/* As read_whole(), from memory: what is not wanted is not read.  Return: -EAGAIN: it is not there, or keeps changing. */
static int read_parts(struct lsm_table *table, uint64_t handle, void *key, size_t *key_length, void *value, size_t room,
		      struct lsm_item *item)
{
	uint64_t index = lsmem_handle_index(handle), now;
	int tries, ret = -EAGAIN;
	struct lsm_place place;

	for (tries = 0; ret == -EAGAIN && index < table->lsm->nr_handles && tries < TRIES; tries++) {
		switch (lsm_identify(table->lsm, index, &now, &place)) {
		case LSM_FOUND:
			break;
		case LSM_CHANGING:
			lsm_relax();
			continue;
		default:
			return -EAGAIN;
		}
		if (now != handle || place.object.table != table->id || place.object.length < sizeof(struct lsmem_item_end))
			return 0;
		ret = copy_parts(table, handle, &place, key, key_length, value, room, item);
	}
	return ret;
}

/* Reads key and value of an object.  Return: as read_whole(). */
static int read_object(struct lsm_table *table, uint64_t handle, void *key, size_t *key_length, void *value, size_t room,
		       struct lsm_item *item)
{
	int ret = lsm_windows_here(table->lsm) ? read_parts(table, handle, key, key_length, value, room, item) : -EAGAIN;
	uint8_t *bytes;

	if (ret != -EAGAIN)
		return ret;
	bytes = malloc(LSMEM_OBJECT_MAX);
	if (!bytes)
		return -ENOMEM;
	ret = read_whole(table, handle, bytes, key, key_length, value, room, item);
	free(bytes);
	return ret;
}

int lsm_table_next(struct lsm_table *table, uint64_t *cursor, void *key, size_t *key_length, void *value,
		   size_t room, struct lsm_item *item)
{
	struct lsm_listed listed;
	int ret;

	while ((ret = (int)lsm_next(table->lsm, (int)table->id, cursor, &listed, 1)) > 0) {
		ret = read_object(table, listed.handle, key, key_length, value, room, item);
		if (ret)
			break;
	}
	return ret;
}

int lsm_table_watch(struct lsm_table *table, uint32_t entries, uint64_t cursor, unsigned int flags)
{
	return lsm_watch_open(table->lsm, table->id, entries, cursor, flags);
}

int lsm_table_note(struct lsm_table *table, const struct lsmem_note *note, void *key, size_t *key_length,
		   void *value, size_t room, struct lsm_item *item)
{
	if (note->kind == LSMEM_NOTE_LOST)
		return -EINVAL;
	if (note->kind == LSMEM_NOTE_FREED)
		return 0;
	return read_object(table, note->handle, key, key_length, value, room, item);
}

int lsm_table_stat(struct lsm_table *table, struct lsm_table_stat *stat)
{
	if (!lsm_windows_here(table->lsm))
		return -ECHILD;
	*stat = (struct lsm_table_stat){
		.items = lsm_index_items(table->index),
		.index_bytes = lsm_index_memory(table->index),
		.evicted = atomic_load_explicit(&table->index->header->evicted, memory_order_relaxed),
	};
	return 0;
}
