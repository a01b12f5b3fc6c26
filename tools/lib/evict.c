// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: eviction from tables with keys.
 *
 * A hand goes over the items in the order of the log: the oldest first, and those that were read since it passed last
 * are given a second chance (clock: F. J. Corbato, 1968).  So what is removed together lies together, and the cleaner
 * gets seglets in which nothing is left, where it would have to copy if the holes were all over memory.
 *
 * A survey reads the version of the first object of each seglet, or in large stores of some of them, and lists the
 * oldest ones.  The live bitmap leads to the objects of a seglet.  A sweep is over what was there when it began: what
 * it has left in its place, though older, comes again in the next one only.
 */
#include <errno.h>
#include <stdlib.h>

#include "table.h"

#define SURVEY		16384u	/* most seglets looked at in a survey */
#define PART		8u	/* of those that may be next, this part is listed */
#define NO_ITEM		UINT64_MAX

/**
 * struct lsm_aged - a seglet
 * @version: of its first object
 * @seglet: its number
 */
struct lsm_aged {
	uint64_t version;
	uint32_t seglet;
};

/* A call of lsm_table_evict_each(): what it has done, and who is told */
struct evicting {
	uint64_t gone;
	void (*each)(void *context, const struct lsm_evicted *evicted);
	void *context;
};

#define LOT_ROOM	(LSM_LOCKS * (LSM_KEY_ROOM + LSM_EVICTED_HEAD))	/* what is not used takes no memory */

/**
 * struct lot - items that are removed by one system call
 * @nr: of them
 * @ops: frees
 * @hashes: of the keys
 * @bytes: of the entries
 * @slots: of the items that are freed
 * @told: of the items, if the caller wants to be told; their keys and heads are in @room
 * @room: for keys; if the caller wants to be told, for all of them and their heads
 * @used: bytes of @room
 * @evicting: the call
 */
struct lot {
	size_t nr;
	struct lsmem_op ops[LSM_LOCKS];
	uint64_t hashes[LSM_LOCKS];
	size_t bytes[LSM_LOCKS];
	_Atomic uint64_t *slots[LSM_LOCKS];
	struct lsm_evicted told[LSM_LOCKS];
	uint8_t *room;
	size_t used;
	struct evicting *evicting;
};

/* The index of the live object whose entry begins at @position; NO_ITEM: none does. */
static uint64_t index_at(const struct lsm *lsm, uint64_t position)
{
	const uint8_t *entry = lsm->seglets + position * LSMEM_ALIGN;
	uint64_t key, index, word;

	if (position * LSMEM_ALIGN > lsm->last_header)
		return NO_ITEM;
	key = __atomic_load_n((const uint64_t *)(entry + offsetof(struct lsmem_entry, key)), __ATOMIC_RELAXED);
	index = lsmem_handle_index(__le64_to_cpu(key) & ~LSMEM_KEY_INTERVAL_MASK);
	if (index >= lsm->nr_handles)
		return NO_ITEM;
	word = __atomic_load_n(&lsm->handles[index].word, __ATOMIC_RELAXED);
	/* The word itself is the proof: only an entry's place is in one. */
	if ((word & ((1ull << (LSMEM_WORD_STATE_SHIFT + LSMEM_WORD_STATE_BITS)) - 1)) !=
	    ((uint64_t)LSMEM_WORD_LIVE << LSMEM_WORD_STATE_SHIFT | position))
		return NO_ITEM;
	return index;
}

/* The next bit of a seglet that is set, from @bit on; LSM_LIVE_WORDS * 64: none is. */
static uint32_t next_bit(const struct lsm *lsm, uint32_t seglet, uint32_t bit)
{
	const uint64_t *words = lsm->livemap + (size_t)seglet * LSM_LIVE_WORDS;
	uint64_t word;

	for (; bit < LSM_LIVE_WORDS * 64; bit = (bit | 63) + 1) {
		/* Acquire: the entry was written before. */
		word = __atomic_load_n(&words[bit / 64], __ATOMIC_ACQUIRE) >> bit % 64;
		if (word)
			return bit + (uint32_t)__builtin_ctzll(word);
	}
	return LSM_LIVE_WORDS * 64;
}

/* The index of the live object whose entry begins in the bytes of a bit. */
static uint64_t index_of_bit(const struct lsm *lsm, uint32_t seglet, uint32_t bit)
{
	uint64_t position = (uint64_t)seglet << LSMEM_POSITION_OFFSET_BITS | bit << LSMEM_LIVEMAP_SHIFT;
	uint64_t index = NO_ITEM;
	uint32_t i;

	for (i = 0; i < 1u << LSMEM_LIVEMAP_SHIFT && index == NO_ITEM; i++)
		index = index_at(lsm, position + i);
	return index;
}

/* The version of the first object of a seglet; 0: it has none. */
static uint64_t age_of(const struct lsm *lsm, uint32_t seglet)
{
	struct lsm_place place;
	uint64_t index, handle;
	uint32_t bit;

	for (bit = next_bit(lsm, seglet, 0); bit < LSM_LIVE_WORDS * 64; bit = next_bit(lsm, seglet, bit + 1)) {
		index = index_of_bit(lsm, seglet, bit);
		if (index != NO_ITEM && lsm_identify(lsm, index, &handle, &place) == LSM_FOUND)
			return place.object.version;
	}
	return 0;
}

static int by_age(const void *a, const void *b)
{
	const struct lsm_aged *one = a, *other = b;

	return (one->version > other->version) - (one->version < other->version);
}

/*
 * Lists the seglets that are next, the oldest first.  If this sweep has none, another one begins.  Return: 0, though
 * there may be none; -ENOMEM.
 */
static int survey(struct lsm_table *table, unsigned int *sweeps)
{
	struct lsm_index_header *header = table->index->header;
	uint64_t hand = atomic_load_explicit(&header->hand, memory_order_relaxed);
	uint64_t sweep = atomic_load_explicit(&header->sweep, memory_order_relaxed), newest = 0, version;
	uint64_t nr_seglets = table->lsm->nr_seglets, step = (nr_seglets + SURVEY - 1) / SURVEY;
	struct lsm_hand *next = &table->hand;
	uint64_t seglet;

	if (!next->seglets)
		next->seglets = calloc((nr_seglets + step - 1) / step, sizeof(*next->seglets));
	if (!next->seglets)
		return -ENOMEM;
	next->first = (uint32_t)((next->first + 1) % step);
	next->nr = next->at = 0;
	for (seglet = next->first; seglet < nr_seglets; seglet += step) {
		version = age_of(table->lsm, (uint32_t)seglet);
		if (version > newest)
			newest = version;
		if (version > hand && version <= sweep)
			next->seglets[next->nr++] = (struct lsm_aged){ version, (uint32_t)seglet };
	}
	if (next->nr) {
		qsort(next->seglets, next->nr, sizeof(*next->seglets), by_age);
		next->all = next->nr;
		next->nr = (next->nr + PART - 1) / PART;
	} else {
		atomic_store_explicit(&header->hand, 0, memory_order_relaxed);
		atomic_store_explicit(&header->sweep, newest, memory_order_relaxed);
		++*sweeps;
	}
	return 0;
}

/*
 * Notes what the caller is told of an item, whose key is at the end of the room.  One that was replaced meanwhile stays,
 * because its version is expected.
 */
static int note(struct lsm_table *table, struct lot *lot, const struct lsm_listed *listed, size_t key_length)
{
	struct lsm_evicted *told = &lot->told[lot->nr];
	uint8_t *key = lot->room + lot->used, *head = key + key_length;
	size_t length = listed->object.length - lsm_tail_bytes(key_length);
	struct lsm_object object;
	ssize_t got;

	if (listed->object.length < lsm_tail_bytes(key_length))
		return 0;
	got = lsm_read(table->lsm, listed->handle, head, length < LSM_EVICTED_HEAD ? length : LSM_EVICTED_HEAD, 0, &object);
	if (got < 0)
		return got == -ESTALE || got == -ENOENT ? 0 : (int)got;
	*told = (struct lsm_evicted){
		.key = key, .key_length = key_length, .head = head, .head_length = (size_t)got,
		.item = { .handle = listed->handle, .version = listed->object.version, .length = (uint32_t)length },
	};
	lot->used += key_length + (size_t)got;
	return 1;
}

/* Adds an item to the lot, if there is one at the bit.  Return: 0 or a negative errno. */
static int add_item(struct lsm_table *table, struct lot *lot, uint32_t seglet, uint32_t bit)
{
	uint64_t index = index_of_bit(table->lsm, seglet, bit);
	struct lsm_listed listed;
	struct lsm_place place;
	uint8_t *key = lot->room + lot->used;
	ssize_t length;
	int ret = 1;

	if (index == NO_ITEM || lsm_identify(table->lsm, index, &listed.handle, &place) != LSM_FOUND ||
	    place.object.table != table->id)
		return 0;
	listed.object = place.object;
	length = lsm_table_key(table, &listed, key);
	if (length <= 0)
		return (int)length;
	if (lot->evicting->each)
		ret = note(table, lot, &listed, (size_t)length);
	if (ret <= 0)
		return ret;
	lot->ops[lot->nr] = lsm_op_free(listed.handle, LSM_EXPECT, place.object.version);
	lot->bytes[lot->nr] = lsmem_entry_size(place.object.length);
	lot->hashes[lot->nr] = lsm_index_hash(table->index, key, (size_t)length);
	lsm_index_prefetch(table->index, lot->hashes[lot->nr++]);
	return 0;
}

/* The slot of an item that may go, or NULL.  The lock of its stripe is held. */
static _Atomic uint64_t *slot_of(struct lsm_table *table, uint64_t hash, uint64_t handle)
{
	struct lsm_probe probe;

	lsm_probe_begin(&probe, table->index, hash, true);
	while (lsm_probe_next(&probe) > 0) {
		if ((probe.value & LSM_SLOT_INDEX) != lsmem_handle_index(handle))
			continue;
		if (!(probe.value & LSM_SLOT_TOUCHED))
			return probe.slot;
		/* Readers set it, without the lock; they do not clear it. */
		atomic_fetch_and_explicit(probe.slot, ~LSM_SLOT_TOUCHED, memory_order_relaxed);
		return NULL;
	}
	return NULL;
}

/* Removes the items of a lot that were not read.  Return: bytes given back, or a negative errno. */
static ssize_t evict_lot(struct lsm_table *table, struct lot *lot)
{
	struct lsm_locks locks = { 0 };
	size_t i, nr = 0, done = 0;
	ssize_t bytes = 0;
	int ret;

	for (i = 0; i < lot->nr; i++)
		lsm_locks_add(&locks, lsm_stripe_of(lot->hashes[i]));
	ret = lsm_locks_take(table->index, &locks);
	if (ret)
		return ret;
	for (i = 0; i < lot->nr; i++) {
		lot->slots[nr] = slot_of(table, lot->hashes[i], lot->ops[i].handle);
		if (!lot->slots[nr])
			continue;
		lot->ops[nr] = lot->ops[i];
		lot->hashes[nr] = lot->hashes[i];
		if (lot->evicting->each)
			lot->told[nr] = lot->told[i];
		lot->bytes[nr++] = lot->bytes[i];
	}
	if (nr)
		ret = lsm_vector(table->lsm, lot->ops, nr, 0, &done);
	for (i = 0; i < done; i++) {
		if (!lot->ops[i].result) {
			lsm_table_forget(table, lsm_stripe_of(lot->hashes[i]), lot->slots[i], lot->ops[i].version);
			bytes += (ssize_t)lot->bytes[i];
			lot->evicting->gone++;
		} else if (lot->ops[i].result != -EILSEQ && lot->ops[i].result != -ESTALE &&
			   lot->ops[i].result != -ENOENT) {
			ret = lot->ops[i].result;
		}
	}
	lsm_locks_give(table->index, &locks);
	/* Without the locks: the caller may use the table. */
	for (i = 0; lot->evicting->each && i < done; i++)
		if (!lot->ops[i].result)
			lot->evicting->each(lot->evicting->context, &lot->told[i]);
	lot->nr = lot->used = 0;
	return ret ? ret : bytes;
}

/* Removes items of a seglet.  Return: bytes given back, or a negative errno. */
static ssize_t evict_seglet(struct lsm_table *table, struct lot *lot, uint32_t seglet)
{
	uint32_t bit = 0;
	size_t given = 0;
	ssize_t ret = 0;

	while (bit < LSM_LIVE_WORDS * 64) {
		for (; !ret && lot->nr < LSM_LOCKS; bit++) {
			bit = next_bit(table->lsm, seglet, bit);
			if (bit == LSM_LIVE_WORDS * 64)
				break;
			ret = add_item(table, lot, seglet, bit);
		}
		if (!ret)
			ret = evict_lot(table, lot);
		if (ret < 0)
			return ret;
		given += (size_t)ret;
		ret = 0;
	}
	return (ssize_t)given;
}

/* Goes on to the next seglet.  What is left of this one has been looked at, unless it is younger than the next one. */
static void move_hand(struct lsm_table *table)
{
	struct lsm_hand *next = &table->hand;
	const struct lsm_aged *aged = &next->seglets[next->at++];
	uint64_t hand = age_of(table->lsm, aged->seglet);

	if (next->at < next->all && hand >= next->seglets[next->at].version)
		hand = next->seglets[next->at].version - 1;
	if (hand < aged->version)
		hand = aged->version;
	atomic_store_explicit(&table->index->header->hand, hand, memory_order_relaxed);
}

ssize_t lsm_table_evict_each(struct lsm_table *table, size_t bytes,
			     void (*each)(void *context, const struct lsm_evicted *evicted), void *context,
			     uint64_t *evicted)
{
	struct lsm_hand *next = &table->hand;
	const struct lsm_aged *aged;
	struct evicting evicting = { .each = each, .context = context };
	uint64_t version;
	unsigned int sweeps = 0;
	struct lot *lot;
	size_t given = 0;
	ssize_t ret = 0;

	if (!table->index->owner)
		return -EBADF;
	if (!lsm_windows_here(table->lsm))
		return -ECHILD;
	if (!table->lsm->livemap)
		return -EOPNOTSUPP;
	lot = malloc(sizeof(*lot) + (each ? LOT_ROOM : LSM_KEY_ROOM));
	if (!lot)
		return -ENOMEM;
	lot->nr = lot->used = 0;
	lot->room = (uint8_t *)(lot + 1);
	lot->evicting = &evicting;
	pthread_mutex_lock(&table->evicting);
	/* What was read since the last sweep goes in the second one. */
	while (ret >= 0 && given < bytes && sweeps <= 2) {
		if (next->at == next->nr) {
			ret = survey(table, &sweeps);
			continue;
		}
		aged = &next->seglets[next->at];
		version = age_of(table->lsm, aged->seglet);
		/* What was there may have moved, and what is there now be new. */
		if (version && version <= next->seglets[next->nr - 1].version)
			ret = evict_seglet(table, lot, aged->seglet);
		if (ret < 0)
			break;
		given += (size_t)ret;
		ret = 0;
		move_hand(table);
	}
	pthread_mutex_unlock(&table->evicting);
	free(lot);
	atomic_fetch_add_explicit(&table->index->header->evicted, evicting.gone, memory_order_relaxed);
	if (evicted)
		*evicted = evicting.gone;
	return ret < 0 && !given ? ret : (ssize_t)given;
}

ssize_t lsm_table_evict(struct lsm_table *table, size_t bytes, uint64_t *evicted)
{
	return lsm_table_evict_each(table, bytes, NULL, NULL, evicted);
}
