// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: the index of a table's keys: from the hash of a key to the index of an object.
 *
 * It is in memory that the kernel shares among the clients of a store (LSMEM_IOC_SHARED).  What it says is a
 * guess, which the caller checks: the object has the key, or not.  So it is enough that the slot of each item that is
 * there is found; a slot can lead to an object that is gone, or to another one.
 *
 * Stripes: each of LSM_STRIPES parts, by the low bits of the hash, is a linear hash table of its own (Litwin, 1980),
 * with a lock: of its n buckets, 2^k <= n < 2^(k+1), bucket b has the hashes whose low k+1 bits are b, or if there is
 * no such bucket, the low k bits.  A stripe grows by one bucket at a time, which takes its items from one other.
 * A slot has enough of the hash to say which.  Buckets with more than LSM_SLOTS items have overflow buckets, which stay.
 *
 * Readers take no lock, but where a group is adding their key (table_group.c).  An item that moves is in its new bucket before the shape changes, and leaves the old one
 * after that: a reader that has not found an item looks whether the shape is still that with which it began, and
 * begins again if it is not.  The slots are loaded with acquire: who sees that an item has left sees the new shape.
 *
 * Writers: a key comes and goes under the lock of its stripe.  The lock is taken by an exchange, without a system
 * call.  Its word has the number of a client.  A client holds, as long as it lives, the lock of the byte of that
 * number in the file (F_OFD_SETLK); the kernel gives that back, whatever the client dies of.  Who waits for a stripe
 * whose owner is gone takes the lock, and makes the stripe anew from the objects: what the owner had begun is there or
 * not, and in the index as it is in the store.  A new client with the number of a dead one does the same for what that
 * one held.  Each taking changes the upper half of the word, so that none is taken from who took it meanwhile.
 *
 * A process that can write the memory can write what it likes: numbers are checked before they are used, chains have
 * an end, and waits a bound.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "index.h"

#define LSM_INDEX_MAGIC		0x31584449534d534cull	/* changes with the layout */
#define LSM_LOCK_OWNER		0x3fffu			/* of the low half of a lock */
#define LSM_LOCK_WAITERS	(1u << 14)
#define OWNERS			4096u	/* most clients */
#define LOAD			5u	/* items for each bucket, beyond which a stripe grows */
#define CHAIN			64u	/* most overflow buckets of a bucket */
#define SPINS			200
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define LOW_HALF		4	/* offset of the low half of a word, bytes */
#else
#define LOW_HALF		0
#endif
#define CHECK_NS		20000000ll	/* a waiter asks so often whether the owner is there, nanoseconds */
#define LOCK_SECONDS		10	/* a lock is waited for */

/* ---- Memory ------------------------------------------------------------------- */

/**
 * bucket_at() - a bucket of a stripe
 * @index: index
 * @stripe: its number
 * @bucket: any number
 *
 * Return: the bucket; another one, if there is none of that number.
 */
static struct lsm_bucket *bucket_at(struct lsm_index *index, uint32_t stripe, uint32_t bucket)
{
	return &index->buckets[(uint64_t)(bucket & (index->buckets_max - 1)) * LSM_STRIPES + stripe];
}

/**
 * overflow_of() - what follows a bucket
 * @index: index
 * @bucket: bucket
 *
 * Return: an overflow bucket, or NULL.
 */
static struct lsm_bucket *overflow_of(struct lsm_index *index, const struct lsm_bucket *bucket)
{
	uint32_t next = atomic_load_explicit(&bucket->next, memory_order_acquire);

	return next && next <= index->overflows_max ? &index->overflow[next - 1] : NULL;
}

/* Adds an overflow bucket behind one that has none. */
static struct lsm_bucket *add_overflow(struct lsm_index *index, struct lsm_bucket *bucket)
{
	uint64_t number = atomic_fetch_add(&index->header->overflows, 1);

	if (number >= index->overflows_max)
		return NULL;
	atomic_store_explicit(&bucket->next, (uint32_t)number + 1, memory_order_release);
	return &index->overflow[number];
}

/* The bucket of a tag in a stripe of @buckets. */
static uint32_t bucket_of(uint64_t tag, uint32_t buckets)
{
	uint32_t mask, bucket;

	if (buckets < 2)
		return 0;
	mask = (2u << (31 - __builtin_clz(buckets))) - 1;
	bucket = (uint32_t)tag & mask;
	return bucket < buckets ? bucket : bucket & (mask >> 1);
}

/* ---- Locks --------------------------------------------------------------------- */

static long futex(const void *word, int operation, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

/* The half of a word that a futex compares. */
static const void *low_half(const _Atomic uint64_t *word)
{
	return (const uint8_t *)word + LOW_HALF;
}

/* Waits until a word changes in its low half, at most for CHECK_NS. */
static void wait_change(const _Atomic uint64_t *word, uint64_t value)
{
	const struct timespec most = { .tv_nsec = CHECK_NS };

	futex(low_half(word), FUTEX_WAIT, (uint32_t)value, &most);
}

/* Has the process of a client ended? */
static bool owner_gone(const struct lsm_index *index, uint32_t owner)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = owner, .l_len = 1 };

	return owner != index->owner && !fcntl(index->fd, F_OFD_GETLK, &lock) && lock.l_type == F_UNLCK;
}

/* The word of a lock that this client takes. */
static uint64_t taken_word(const struct lsm_index *index, uint64_t before, uint32_t waiters)
{
	return ((before >> 32) + 1) << 32 | index->owner | waiters;
}

/* Return: 0; 1: the owner has died with it; -ETIMEDOUT. */
static int lock_word(struct lsm_index *index, _Atomic uint64_t *lock)
{
	uint64_t word = atomic_load_explicit(lock, memory_order_relaxed);
	int64_t end = 0, now;
	uint32_t waiters = 0, owner;
	int spins = 0;

	for (;;) {
		owner = (uint32_t)word & LSM_LOCK_OWNER;
		if (!owner) {
			if (atomic_compare_exchange_weak_explicit(lock, &word, taken_word(index, word, waiters),
								  memory_order_acquire, memory_order_relaxed))
				return 0;
			continue;
		}
		if (spins++ < SPINS) {
			lsm_relax();
			word = atomic_load_explicit(lock, memory_order_relaxed);
			continue;
		}
		/* Others may wait, too, when this one has been woken. */
		waiters = LSM_LOCK_WAITERS;
		if (!(word & LSM_LOCK_WAITERS) &&
		    !atomic_compare_exchange_weak(lock, &word, word | LSM_LOCK_WAITERS))
			continue;
		word |= LSM_LOCK_WAITERS;
		wait_change(lock, word);
		now = lsm_now_ns();
		if (!end)
			end = now + LOCK_SECONDS * 1000000000ll;
		if (owner_gone(index, owner) &&
		    atomic_compare_exchange_strong(lock, &word, taken_word(index, word, waiters)))
			return 1;
		word = atomic_load_explicit(lock, memory_order_relaxed);
		if (now > end && word & LSM_LOCK_OWNER)
			return -ETIMEDOUT;
	}
}

static void unlock_word(_Atomic uint64_t *lock)
{
	uint64_t word = atomic_load_explicit(lock, memory_order_relaxed);

	/* Only the bit of the waiters can change. */
	while (!atomic_compare_exchange_weak_explicit(lock, &word, word & ~0xffffffffull, memory_order_release,
						      memory_order_relaxed))
		;
	if (word & LSM_LOCK_WAITERS)
		futex(low_half(lock), FUTEX_WAKE, 1, NULL);
}

/* ---- Making anew ---------------------------------------------------------------- */

/* With release: who sees that an item has left sees that its stripe is being made anew. */
static void wipe_bucket(struct lsm_index *index, struct lsm_bucket *bucket)
{
	uint32_t steps, i;

	for (steps = CHAIN; bucket && steps; bucket = overflow_of(index, bucket), steps--)
		for (i = 0; i < LSM_SLOTS; i++)
			atomic_store_explicit(&bucket->slots[i], 0, memory_order_release);
}

/* Empties a stripe, whose lock is held; readers wait from now on until show_stripe(). */
static void wipe_stripe(struct lsm_index *index, uint32_t number)
{
	struct lsm_stripe *stripe = &index->stripes[number];
	uint64_t shape = atomic_load(&stripe->shape);
	uint32_t buckets = lsm_shape_buckets(shape), i;

	if (!buckets || buckets > index->buckets_max)
		buckets = 1;
	atomic_store(&stripe->shape, (uint64_t)buckets << 32 | (uint32_t)(shape | 1));
	/* The bucket behind the last may have been about to be added. */
	for (i = 0; i <= buckets && i < index->buckets_max; i++)
		wipe_bucket(index, bucket_at(index, number, i));
	atomic_store(&stripe->items, 0);
}

static void show_stripe(struct lsm_index *index, uint32_t number)
{
	struct lsm_stripe *stripe = &index->stripes[number];
	uint64_t shape = atomic_load(&stripe->shape);

	atomic_store(&stripe->shape, (shape & ~0xffffffffull) | (uint32_t)(shape + 1));
	futex(low_half(&stripe->shape), FUTEX_WAKE, INT_MAX, NULL);
}

/* Makes a stripe anew, whose lock is held. */
static int remake_stripe(struct lsm_index *index, uint32_t number)
{
	int ret;

	wipe_stripe(index, number);
	ret = index->anew(index->context, (int)number);
	if (!ret)
		show_stripe(index, number);
	return ret;
}

/* ---- The interface --------------------------------------------------------------- */

/**
 * lsm_index_lock() - lock a stripe
 * @index: writable
 * @stripe: its number
 *
 * Return: 0; -ETIMEDOUT: its owner is there, and did not give it back; what @index->anew() returns.
 */
int lsm_index_lock(struct lsm_index *index, uint32_t stripe)
{
	int ret = lock_word(index, &index->stripes[stripe].lock);

	if (ret < 0)
		return ret;
	/* Also if the last one that was to make it anew could not. */
	if (ret || atomic_load_explicit(&index->stripes[stripe].shape, memory_order_relaxed) & 1) {
		ret = remake_stripe(index, stripe);
		if (ret)
			unlock_word(&index->stripes[stripe].lock);
	}
	return ret;
}

/**
 * lsm_index_unlock() - unlock a stripe
 * @index: index
 * @stripe: its number
 */
void lsm_index_unlock(struct lsm_index *index, uint32_t stripe)
{
	unlock_word(&index->stripes[stripe].lock);
}

/**
 * lsm_index_settle() - wait until who holds a stripe now has given it back, or is dead and the stripe made anew
 * @index: index
 * @stripe: its number; this thread does not hold it
 *
 * Return: 0; as lsm_index_lock(); -ETIMEDOUT: @index is not writable, and its owner has died.
 */
int lsm_index_settle(struct lsm_index *index, uint32_t stripe)
{
	const _Atomic uint64_t *lock = &index->stripes[stripe].lock;
	int64_t end = lsm_now_ns() + LOCK_SECONDS * 1000000000ll;
	uint64_t first, word;
	int ret;

	if (index->owner) {
		ret = lsm_index_lock(index, stripe);
		if (!ret)
			lsm_index_unlock(index, stripe);
		return ret;
	}
	first = word = atomic_load_explicit(lock, memory_order_acquire);
	while (word & LSM_LOCK_OWNER && word >> 32 == first >> 32) {
		if (lsm_now_ns() > end)
			return -ETIMEDOUT;
		wait_change(lock, word);
		word = atomic_load_explicit(lock, memory_order_acquire);
	}
	return 0;
}

/**
 * lsm_locks_add() - say that a stripe is to be locked
 * @locks: fewer than LSM_LOCKS
 * @stripe: its number; it may be there already
 */
void lsm_locks_add(struct lsm_locks *locks, uint32_t stripe)
{
	uint32_t at;

	for (at = locks->nr; at && locks->stripes[at - 1] > stripe; at--)
		;
	if (at && locks->stripes[at - 1] == stripe)
		return;
	memmove(&locks->stripes[at + 1], &locks->stripes[at], (locks->nr++ - at) * sizeof(*locks->stripes));
	locks->stripes[at] = stripe;
}

/**
 * lsm_locks_take() - lock all of them, in the order of stripes, so that no two wait for each other
 * @index: index
 * @locks: none is left locked if it fails
 *
 * Return: as lsm_index_lock().
 */
int lsm_locks_take(struct lsm_index *index, struct lsm_locks *locks)
{
	uint32_t at, nr = locks->nr;
	int ret = 0;

	for (at = 0; !ret && at < nr; at++) {
		ret = lsm_index_lock(index, locks->stripes[at]);
		if (ret) {
			locks->nr = at;
			lsm_locks_give(index, locks);
		}
	}
	return ret;
}

/**
 * lsm_locks_give() - unlock all of them
 * @index: index
 * @locks: out: empty
 */
void lsm_locks_give(struct lsm_index *index, struct lsm_locks *locks)
{
	while (locks->nr)
		lsm_index_unlock(index, locks->stripes[--locks->nr]);
}

/**
 * lsm_index_hash() - hash a key
 * @index: index
 * @key: key
 * @length: bytes
 */
uint64_t lsm_index_hash(const struct lsm_index *index, const void *key, size_t length)
{
	return XXH3_64bits_withSeed(key, length, index->header->seed);
}

/**
 * lsm_index_prefetch() - a probe will follow
 * @index: index
 * @hash: of the key
 */
void lsm_index_prefetch(const struct lsm_index *index, uint64_t hash)
{
	uint32_t stripe = lsm_stripe_of(hash);
	uint64_t shape = atomic_load_explicit(&index->stripes[stripe].shape, memory_order_relaxed);

	__builtin_prefetch(bucket_at((struct lsm_index *)index, stripe,
					    bucket_of(lsm_tag_of(hash), lsm_shape_buckets(shape))));
}

/**
 * lsm_probe_begin() - begin to look for a key
 * @probe: out
 * @index: index
 * @hash: of the key
 * @locked: the lock of its stripe is held
 */
void lsm_probe_begin(struct lsm_probe *probe, struct lsm_index *index, uint64_t hash, bool locked)
{
	uint32_t stripe = lsm_stripe_of(hash);

	probe->index = index;
	probe->hash = hash;
	probe->locked = locked;
	probe->shape = atomic_load_explicit(&index->stripes[stripe].shape, memory_order_acquire);
	probe->bucket = bucket_at(index, stripe,
					 bucket_of(lsm_tag_of(hash), lsm_shape_buckets(probe->shape)));
	probe->at = 0;
	probe->steps = CHAIN;
}

/*
 * A stripe is being made anew: wait until it is.  Who did that may have been killed: then this client does, if it can
 * change the index.
 */
static int await_anew(struct lsm_index *index, uint32_t number)
{
	const struct lsm_stripe *stripe = &index->stripes[number];
	int64_t end = lsm_now_ns() + LOCK_SECONDS * 1000000000ll;
	uint64_t shape;
	int ret;

	while ((shape = atomic_load_explicit(&stripe->shape, memory_order_acquire)) & 1) {
		if (lsm_now_ns() > end)
			return -ETIMEDOUT;
		wait_change(&stripe->shape, shape);
		if (!index->owner || !(atomic_load_explicit(&stripe->shape, memory_order_relaxed) & 1))
			continue;
		ret = lsm_index_settle(index, number);
		if (ret)
			return ret;
	}
	return 0;
}

/* All slots were looked at. Return: 0: the key is not there; 1: look again; as await_anew(). */
static int probe_end(struct lsm_probe *probe)
{
	uint32_t number = lsm_stripe_of(probe->hash);
	uint64_t shape = atomic_load_explicit(&probe->index->stripes[number].shape, memory_order_relaxed);
	int ret;

	if (probe->locked || (shape == probe->shape && !(shape & 1)))
		return 0;
	ret = await_anew(probe->index, number);
	return ret ? ret : 1;
}

/**
 * lsm_probe_next() - find the next slot that may have the key
 * @probe: from lsm_probe_begin()
 *
 * Return: 1: slot and value are set; 0: there is none; -ETIMEDOUT: the stripe is being made anew; as lsm_index_lock().
 */
int lsm_probe_next(struct lsm_probe *probe)
{
	uint64_t tag = lsm_tag_of(probe->hash);
	int ret;

	for (;;) {
		for (; probe->at < LSM_SLOTS; probe->at++) {
			_Atomic uint64_t *slot = &probe->bucket->slots[probe->at];
			uint64_t value = atomic_load_explicit(slot, memory_order_acquire);

			if (value >> LSM_SLOT_TAG_SHIFT != tag || !(value & LSM_SLOT_TAKEN))
				continue;
			probe->slot = slot;
			probe->value = value;
			probe->at++;
			return 1;
		}
		probe->bucket = probe->steps-- ? overflow_of(probe->index, probe->bucket) : NULL;
		probe->at = 0;
		if (probe->bucket)
			continue;
		ret = probe_end(probe);
		if (ret <= 0)
			return ret;
		lsm_probe_begin(probe, probe->index, probe->hash, false);
	}
}

/* An empty slot of a bucket, NULL: there can be none.  The lock of the stripe is held. */
static _Atomic uint64_t *empty_slot(struct lsm_index *index, struct lsm_bucket *bucket)
{
	struct lsm_bucket *last = bucket;
	uint32_t steps, i;

	for (steps = CHAIN; bucket && steps; bucket = overflow_of(index, bucket), steps--) {
		for (i = 0; i < LSM_SLOTS; i++)
			if (!atomic_load_explicit(&bucket->slots[i], memory_order_relaxed))
				return &bucket->slots[i];
		last = bucket;
	}
	bucket = steps ? add_overflow(index, last) : NULL;
	return bucket ? &bucket->slots[0] : NULL;
}

static struct lsm_bucket *hash_bucket(struct lsm_index *index, uint64_t hash)
{
	uint32_t stripe = lsm_stripe_of(hash);
	uint64_t shape = atomic_load_explicit(&index->stripes[stripe].shape, memory_order_relaxed);

	return bucket_at(index, stripe, bucket_of(lsm_tag_of(hash), lsm_shape_buckets(shape)));
}

/* Adds a bucket to a stripe, whose lock is held.  What cannot move stays, and the stripe as it is. */
static void grow(struct lsm_index *index, uint32_t number)
{
	struct lsm_stripe *stripe = &index->stripes[number];
	uint64_t shape = atomic_load_explicit(&stripe->shape, memory_order_relaxed);
	uint32_t buckets = lsm_shape_buckets(shape), from, steps, i;
	struct lsm_bucket *old, *new, *at;
	_Atomic uint64_t *slot;
	uint64_t value;

	if (buckets >= index->buckets_max)
		return;
	from = bucket_of(buckets, buckets);
	old = bucket_at(index, number, from);
	new = bucket_at(index, number, buckets);
	for (at = old, steps = CHAIN; at && steps; at = overflow_of(index, at), steps--) {
		for (i = 0; i < LSM_SLOTS; i++) {
			value = atomic_load_explicit(&at->slots[i], memory_order_relaxed);
			if (!value || bucket_of(value >> LSM_SLOT_TAG_SHIFT, buckets + 1) == from)
				continue;
			slot = empty_slot(index, new);
			if (!slot) {
				wipe_bucket(index, new);
				return;
			}
			atomic_store_explicit(slot, value, memory_order_relaxed);
		}
	}
	/* While a stripe is made anew its number stays odd. */
	atomic_store_explicit(&stripe->shape, (uint64_t)(buckets + 1) << 32 |
			      (uint32_t)(shape + (shape & 1 ? 0 : 2)), memory_order_release);
	for (at = old, steps = CHAIN; at && steps; at = overflow_of(index, at), steps--) {
		for (i = 0; i < LSM_SLOTS; i++) {
			value = atomic_load_explicit(&at->slots[i], memory_order_relaxed);
			if (value && bucket_of(value >> LSM_SLOT_TAG_SHIFT, buckets + 1) != from)
				atomic_store_explicit(&at->slots[i], 0, memory_order_release);
		}
	}
}

/**
 * lsm_index_room() - make sure that lsm_index_insert() will succeed
 * @index: writable
 * @hash: of the key; the lock of its stripe is held until then
 *
 * Return: 0; -ENOSPC.
 */
int lsm_index_room(struct lsm_index *index, uint64_t hash)
{
	return empty_slot(index, hash_bucket(index, hash)) ? 0 : -ENOSPC;
}

/**
 * lsm_index_insert() - enter an item
 * @index: writable
 * @hash: of the key; the lock of its stripe is held
 * @object: index of its object
 *
 * Return: 0; -ENOSPC.
 */
int lsm_index_insert(struct lsm_index *index, uint64_t hash, uint64_t object)
{
	struct lsm_stripe *stripe = &index->stripes[lsm_stripe_of(hash)];
	_Atomic uint64_t *slot = empty_slot(index, hash_bucket(index, hash));
	uint64_t items;

	if (!slot)
		return -ENOSPC;
	atomic_store_explicit(slot, lsm_tag_of(hash) << LSM_SLOT_TAG_SHIFT | LSM_SLOT_TAKEN |
			      (object & LSM_SLOT_INDEX), memory_order_release);
	items = atomic_fetch_add_explicit(&stripe->items, 1, memory_order_relaxed) + 1;
	if (items > (uint64_t)LOAD * lsm_shape_buckets(atomic_load_explicit(&stripe->shape,
									    memory_order_relaxed)))
		grow(index, lsm_stripe_of(hash));
	return 0;
}

/**
 * lsm_index_clear() - an item is gone
 * @index: writable
 * @stripe: its lock is held
 * @slot: taken, of this stripe
 */
void lsm_index_clear(struct lsm_index *index, uint32_t stripe, _Atomic uint64_t *slot)
{
	atomic_store_explicit(slot, 0, memory_order_release);
	atomic_fetch_sub_explicit(&index->stripes[stripe].items, 1, memory_order_relaxed);
}

/**
 * lsm_index_items() - how many items there are
 * @index: index
 */
uint64_t lsm_index_items(const struct lsm_index *index)
{
	uint64_t items = 0;
	uint32_t i;

	for (i = 0; i < LSM_STRIPES; i++)
		items += atomic_load_explicit(&index->stripes[i].items, memory_order_relaxed);
	return items;
}

/**
 * lsm_index_memory() - bytes of memory that the index has in use
 * @index: index
 */
uint64_t lsm_index_memory(const struct lsm_index *index)
{
	uint64_t buckets = atomic_load_explicit(&index->header->overflows, memory_order_relaxed);
	uint32_t i;

	if (buckets > index->overflows_max)
		buckets = index->overflows_max;
	for (i = 0; i < LSM_STRIPES; i++)
		buckets += lsm_shape_buckets(atomic_load_explicit(&index->stripes[i].shape,
								  memory_order_relaxed));
	return (uint64_t)((const uint8_t *)index->buckets - (const uint8_t *)index->header) +
	       buckets * sizeof(struct lsm_bucket);
}

/* ---- Open and close -------------------------------------------------------------- */

/* Takes the number of a client that no other has. */
static int take_owner(struct lsm_index *index)
{
	uint32_t owner;

	for (owner = 1; owner < OWNERS; owner++) {
		struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = owner, .l_len = 1 };

		if (!fcntl(index->fd, F_OFD_SETLK, &lock)) {
			index->owner = owner;
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES)
			return -errno;
	}
	return -EUSERS;
}

/* Takes a lock that a dead client with this number has left. Return: true: it is held. */
static bool take_over(struct lsm_index *index, _Atomic uint64_t *lock)
{
	uint64_t word = atomic_load(lock);

	while (((uint32_t)word & LSM_LOCK_OWNER) == index->owner)
		if (atomic_compare_exchange_weak(lock, &word, taken_word(index, word, (uint32_t)word &
									 LSM_LOCK_WAITERS)))
			return true;
	return false;
}

/* Gives the locks back that a dead client with this number has left. */
static int succeed(struct lsm_index *index)
{
	uint32_t i;
	int ret;

	if (take_over(index, &index->header->lock))
		unlock_word(&index->header->lock);	/* the magic number tells whether it had made it */
	for (i = 0; i < LSM_STRIPES; i++) {
		if (!take_over(index, &index->stripes[i].lock))
			continue;
		ret = atomic_load(&index->header->magic) == LSM_INDEX_MAGIC ? remake_stripe(index, i) : 0;
		unlock_word(&index->stripes[i].lock);
		if (ret)
			return ret;
	}
	return 0;
}

/* Makes the index, if it is not there. */
static int make(struct lsm_index *index)
{
	uint64_t magic = atomic_load_explicit(&index->header->magic, memory_order_acquire);
	uint32_t i;
	int ret;

	if (magic)
		return magic == LSM_INDEX_MAGIC ? 0 : -EPROTO;
	ret = lock_word(index, &index->header->lock);
	if (ret < 0)
		return ret;
	ret = 0;
	if (atomic_load(&index->header->magic) != LSM_INDEX_MAGIC) {
		if (getrandom(&index->header->seed, sizeof(index->header->seed), 0) !=
		    sizeof(index->header->seed))
			ret = -EIO;
		for (i = 0; !ret && i < LSM_STRIPES; i++)
			wipe_stripe(index, i);
		if (!ret)
			ret = index->anew(index->context, -1);
		for (i = 0; !ret && i < LSM_STRIPES; i++)
			show_stripe(index, i);
		if (!ret)
			atomic_store_explicit(&index->header->magic, LSM_INDEX_MAGIC, memory_order_release);
	}
	unlock_word(&index->header->lock);
	return ret;
}

/* Computes where everything is, for a store of @objects. */
static void lay_out(struct lsm_index *index, uint64_t objects)
{
	uint64_t buckets = 2, at;

	/* A power of two, with which each bucket has at most LOAD items. */
	while (buckets * LSM_STRIPES * LOAD < objects)
		buckets *= 2;
	index->buckets_max = (uint32_t)buckets;
	index->overflows_max = (uint32_t)(objects / LOAD + LSM_STRIPES);
	at = sizeof(struct lsm_index_header) + LSM_STRIPES * sizeof(struct lsm_stripe);
	index->bytes = at + (buckets * LSM_STRIPES + index->overflows_max) * sizeof(struct lsm_bucket);
	index->bytes = (index->bytes + 4095) & ~4095ull;
}

static void place(struct lsm_index *index, void *memory)
{
	index->header = memory;
	index->stripes = (struct lsm_stripe *)(index->header + 1);
	index->buckets = (struct lsm_bucket *)(index->stripes + LSM_STRIPES);
	index->overflow = index->buckets + (uint64_t)index->buckets_max * LSM_STRIPES;
}

static int open_memory(struct lsm *lsm, uint32_t id, bool writable, struct lsm_index *index)
{
	struct lsmem_shared shared = { .size = sizeof(shared), .id = id };
	struct lsmem_query query;
	void *memory;
	int ret;

	ret = lsm_query(lsm, &query);
	if (ret)
		return ret;
	if (!(query.features & LSMEM_FEATURE_SHARED) || !(query.features & LSMEM_FEATURE_INDEX))
		return -EOPNOTSUPP;
	lay_out(index, query.handles_max);
	shared.bytes = writable ? index->bytes : 0;
	ret = lsm->call(lsm, LSMEM_IOC_SHARED, &shared);
	if (ret)
		return ret == -ENOENT ? -EAGAIN : ret;
	index->fd = shared.fd;
	if (shared.bytes != index->bytes)
		return -EPROTO;
	memory = mmap(NULL, index->bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, index->fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	/* A child has no lock of its own by which its death could be seen. */
	if (madvise(memory, index->bytes, MADV_DONTFORK)) {
		ret = -errno;
		munmap(memory, index->bytes);
		return ret;
	}
	place(index, memory);
	return 0;
}

/**
 * lsm_index_open() - map the index of a table, and make it if it is not there
 * @lsm: store
 * @id: of the table
 * @writable: the index can be changed
 * @anew: see struct lsm_index
 * @context: its argument
 * @out: out
 *
 * Return: 0; -EAGAIN: it is not there, and not @writable; -EUSERS: too many clients; -EPROTO: another version of the
 * library has made it; -EOPNOTSUPP: an older kernel; -ETIMEDOUT; -ENOMEM; what @anew returns.
 */
int lsm_index_open(struct lsm *lsm, uint32_t id, bool writable, int (*anew)(void *context, int stripe),
		   void *context, struct lsm_index **out)
{
	struct lsm_index *index = calloc(1, sizeof(*index));
	int ret;

	if (!index)
		return -ENOMEM;
	index->fd = -1;
	index->anew = anew;
	index->context = context;
	*out = index;	/* for @anew */
	ret = open_memory(lsm, id, writable, index);
	if (!ret && writable) {
		ret = take_owner(index);
		if (!ret)
			ret = succeed(index);
		if (!ret)
			ret = make(index);
	} else if (!ret && atomic_load_explicit(&index->header->magic, memory_order_acquire) != LSM_INDEX_MAGIC) {
		ret = -EAGAIN;
	}
	if (ret) {
		lsm_index_close(index, true);
		*out = NULL;
	}
	return ret;
}

/**
 * lsm_index_close() - unmap an index
 * @index: may be NULL; this process holds no lock of it
 * @here: false in the child of a fork, where something else may be at the address of the mapping
 */
void lsm_index_close(struct lsm_index *index, bool here)
{
	if (!index)
		return;
	if (index->header && here)
		munmap(index->header, index->bytes);
	if (index->fd >= 0)
		close(index->fd);
	free(index);
}
