/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* liblsmem: the index of a table's keys, which the processes of a host share.  Nothing here is exported. */
#ifndef LSMEM_LIB_INDEX_H
#define LSMEM_LIB_INDEX_H

#include "internal.h"

#define LSM_SLOTS	7u	/* of a bucket, which is a cache line */

/*
 * A slot: bits 0..30 the index of an object, bit 31 set (0 is an empty slot), bit 32 touched, bits 33..63 tag, of the
 * key's hash.
 */
#define LSM_SLOT_INDEX		((1ull << 31) - 1)
#define LSM_SLOT_TAKEN		(1ull << 31)
#define LSM_SLOT_TOUCHED	(1ull << 32)
#define LSM_SLOT_TAG_SHIFT	33

#define LSM_SLOT_PENDING	LSM_SLOT_INDEX	/* a key that a group adds; no store has so many objects */

struct lsm_bucket {
	_Atomic uint32_t next;	/* number of an overflow bucket + 1; 0: none */
	uint32_t reserved;
	_Atomic uint64_t slots[LSM_SLOTS];
};

/**
 * struct lsm_stripe - a part of the index with its own lock: see index.c
 * @lock: low half: owner, and LSM_LOCK_WAITERS; high half: how often it was taken
 * @shape: low half: number that changes when slots may have been moved, odd: it is being made anew; high half:
 *	buckets
 * @items: slots that are taken
 * @removed: a version that is at least that of each item that was removed
 * @reserved: 0; fills the cache line
 */
struct lsm_stripe {
	_Atomic uint64_t lock;
	_Atomic uint64_t shape;
	_Atomic uint64_t items;
	_Atomic uint64_t removed;
	uint64_t reserved[4];
};

/**
 * struct lsm_index_header - the beginning of the shared memory
 * @magic: LSM_INDEX_MAGIC, once it is made
 * @lock: as that of a stripe; who makes the index holds it
 * @seed: of the hash
 * @reserved: 0; keeps what changes on a cache line of its own
 * @overflows: overflow buckets that were taken
 * @hand: items with versions up to this one were looked at in this sweep of lsm_table_evict()
 * @sweep: a sweep is over the items with versions up to this one
 * @evicted: items that lsm_table_evict() has removed
 */
struct lsm_index_header {
	_Atomic uint64_t magic;
	_Atomic uint64_t lock;
	uint64_t seed;
	uint64_t reserved[5];
	_Alignas(LSM_CACHE_LINE) _Atomic uint64_t overflows;
	_Atomic uint64_t hand;
	_Atomic uint64_t sweep;
	_Atomic uint64_t evicted;
};

/**
 * struct lsm_index - an index, mapped
 * @fd: of the shared memory; the file description is this client
 * @owner: number of the client: it holds the lock of this byte; 0: it cannot change the index
 * @bytes: of the mapping
 * @buckets_max: most buckets of a stripe
 * @overflows_max: most overflow buckets
 * @header: the mapping
 * @stripes: LSM_STRIPES
 * @buckets: bucket b of stripe s is at b * LSM_STRIPES + s
 * @overflow: overflow buckets
 * @anew: puts all items of a stripe, or of all (-1), into the empty index.  Return: 0 or a negative errno
 * @context: of @anew
 */
struct lsm_index {
	int fd;
	uint32_t owner;
	uint64_t bytes;
	uint32_t buckets_max;
	uint32_t overflows_max;
	struct lsm_index_header *header;
	struct lsm_stripe *stripes;
	struct lsm_bucket *buckets;
	struct lsm_bucket *overflow;
	int (*anew)(void *context, int stripe);
	void *context;
};

#define LSM_STRIPE_BITS	10u
#define LSM_STRIPES	(1u << LSM_STRIPE_BITS)

static inline uint32_t lsm_stripe_of(uint64_t hash)
{
	return (uint32_t)hash & (LSM_STRIPES - 1);
}

/* What of a hash a slot has. */
static inline uint64_t lsm_tag_of(uint64_t hash)
{
	return hash >> LSM_STRIPE_BITS & ((1ull << (64 - LSM_SLOT_TAG_SHIFT)) - 1);
}

/**
 * struct lsm_probe - the slots that may have a key
 * @index: the index
 * @hash: of the key
 * @locked: the caller holds the lock of the stripe
 * @shape: of the stripe, when the probe began
 * @bucket: that is being looked at; NULL: the first has not been looked for
 * @at: next slot of it
 * @steps: overflow buckets that may still follow
 * @slot: that was found
 * @value: of it
 */
struct lsm_probe {
	struct lsm_index *index;
	uint64_t hash;
	bool locked;
	uint64_t shape;
	struct lsm_bucket *bucket;
	uint32_t at;
	uint32_t steps;
	_Atomic uint64_t *slot;
	uint64_t value;
};

int lsm_index_open(struct lsm *lsm, uint32_t id, bool writable, int (*anew)(void *context, int stripe),
		   void *context, struct lsm_index **index);
void lsm_index_close(struct lsm_index *index, bool here);
uint64_t lsm_index_hash(const struct lsm_index *index, const void *key, size_t length);
void lsm_index_prefetch(const struct lsm_index *index, uint64_t hash);

void lsm_probe_begin(struct lsm_probe *probe, struct lsm_index *index, uint64_t hash, bool locked);
int lsm_probe_next(struct lsm_probe *probe);

#define LSM_LOCKS	64u	/* most stripes that are locked together */

/**
 * struct lsm_locks - stripes that are locked together
 * @nr: entries of @stripes
 * @stripes: in ascending order
 */
struct lsm_locks {
	uint32_t nr;
	uint32_t stripes[LSM_LOCKS];
};

int lsm_index_lock(struct lsm_index *index, uint32_t stripe);
void lsm_index_unlock(struct lsm_index *index, uint32_t stripe);
int lsm_index_settle(struct lsm_index *index, uint32_t stripe);
void lsm_locks_add(struct lsm_locks *locks, uint32_t stripe);
int lsm_locks_take(struct lsm_index *index, struct lsm_locks *locks);
void lsm_locks_give(struct lsm_index *index, struct lsm_locks *locks);
int lsm_index_room(struct lsm_index *index, uint64_t hash);
int lsm_index_insert(struct lsm_index *index, uint64_t hash, uint64_t object);
void lsm_index_clear(struct lsm_index *index, uint32_t stripe, _Atomic uint64_t *slot);
uint64_t lsm_index_items(const struct lsm_index *index);
uint64_t lsm_index_memory(const struct lsm_index *index);

static inline uint32_t lsm_shape_buckets(uint64_t shape)
{
	return (uint32_t)(shape >> 32);
}

#endif
