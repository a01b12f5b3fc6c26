// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: the index of a table's keys, natively, with many processors: the guest tests compare it with a store.
 *
 * Keys are numbers, and the index of an object is the number of its key.  The kernel is a file in memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "index.h"
#include "../common/random.h"
#include "../common/tap.h"

#define HANDLES		200000u
#define FIXED		2000u	/* keys that are there all the time */
#define THREADS		3u

static int memory;
static atomic_uint anew_calls;
static int anew_stripe;

/* Which keys are there, as the objects of a store would say. */
static atomic_bool present[HANDLES];

static int call(struct lsm *lsm, unsigned long request, void *argument)
{
	struct lsmem_shared *shared = argument;
	struct lsmem_query *query = argument;
	char path[40];

	(void)lsm;
	if (request == LSMEM_IOC_QUERY) {
		query->features = LSMEM_FEATURE_SHARED | LSMEM_FEATURE_INDEX;
		query->handles_max = HANDLES;
		return 0;
	}
	if (request != LSMEM_IOC_SHARED)
		return -ENOTTY;
	if (shared->bytes && ftruncate(memory, (off_t)shared->bytes))
		return -errno;
	shared->bytes = (uint64_t)lseek(memory, 0, SEEK_END);
	/* A file description of its own. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", memory);
	shared->fd = open(path, O_RDWR | O_CLOEXEC);
	return shared->fd < 0 ? -errno : 0;
}

static struct lsm store = { .fd = -1, .call = call };

static uint64_t hash_of(const struct lsm_index *index, uint32_t key)
{
	return lsm_index_hash(index, &key, sizeof(key));
}

static int anew(void *context, int stripe)
{
	struct lsm_index *index = *(struct lsm_index **)context;
	uint32_t key;
	int ret = 0;

	anew_calls++;
	anew_stripe = stripe;
	for (key = 0; key < HANDLES && !ret; key++)
		if (present[key] && (stripe < 0 || lsm_stripe_of(hash_of(index, key)) == (uint32_t)stripe))
			ret = lsm_index_insert(index, hash_of(index, key), key);
	return ret;
}

static struct lsm_index *open_index(struct lsm_index **place)
{
	return lsm_index_open(&store, 1, true, anew, place, place) ? NULL : *place;
}

/* The slot of a key.  1: it is there. */
static int look(struct lsm_index *index, uint32_t key, bool locked, struct lsm_probe *probe)
{
	int ret;

	lsm_probe_begin(probe, index, hash_of(index, key), locked);
	while ((ret = lsm_probe_next(probe)) > 0)
		if ((probe->value & LSM_SLOT_INDEX) == key)
			return 1;
	return ret;
}

static bool add(struct lsm_index *index, uint32_t key)
{
	uint64_t hash = hash_of(index, key);
	struct lsm_probe probe;

	CHECK(!lsm_index_lock(index, lsm_stripe_of(hash)));
	CHECK(!look(index, key, true, &probe));
	present[key] = true;
	CHECK(!lsm_index_insert(index, hash, key));
	lsm_index_unlock(index, lsm_stripe_of(hash));
	return true;
}

static bool take(struct lsm_index *index, uint32_t key)
{
	uint64_t hash = hash_of(index, key);
	struct lsm_probe probe;

	CHECK(!lsm_index_lock(index, lsm_stripe_of(hash)));
	CHECK(look(index, key, true, &probe) == 1);
	present[key] = false;
	lsm_index_clear(index, lsm_stripe_of(hash), probe.slot);
	lsm_index_unlock(index, lsm_stripe_of(hash));
	return true;
}

/* Does the index find the keys that are there, and no others? */
static bool exact(struct lsm_index *index)
{
	struct lsm_probe probe;
	uint64_t items = 0;
	uint32_t key;

	for (key = 0; key < HANDLES; key++) {
		CHECK(look(index, key, false, &probe) == present[key]);
		items += present[key];
	}
	CHECK(lsm_index_items(index) == items);
	return true;
}

static bool test_alone(struct lsm_index *index)
{
	uint32_t key;

	for (key = 0; key < HANDLES; key++)
		CHECK(add(index, key));
	CHECK(exact(index));
	/* A bucket is 64 bytes. */
	tap_note("%.1f bytes for each key", (double)lsm_index_memory(index) / HANDLES);
	CHECK(lsm_index_memory(index) / HANDLES < 24);
	for (key = 0; key < HANDLES; key += 3)
		CHECK(take(index, key));
	CHECK(exact(index));
	for (key = 0; key < HANDLES; key++)
		if (present[key])
			CHECK(take(index, key));
	return exact(index);
}

/* A probe that has begun finds its key, also if the key moves before it looks. */
static bool test_moves(struct lsm_index *index)
{
	uint32_t key, other, found = 0, moved = 0;
	struct lsm_probe probe;
	uint64_t shape;

	for (key = 0; key < 100; key++)
		CHECK(add(index, key));
	for (key = other = 0; key < 100; key++) {
		lsm_probe_begin(&probe, index, hash_of(index, key), false);
		shape = probe.shape;
		/* Its stripe grows to twice its size. */
		for (other = 100; other < HANDLES &&
		     lsm_shape_buckets(index->stripes[lsm_stripe_of(probe.hash)].shape) <
		     2 * lsm_shape_buckets(shape); other++)
			if (!present[other] && lsm_stripe_of(hash_of(index, other)) == lsm_stripe_of(probe.hash))
				CHECK(add(index, other));
		while (lsm_probe_next(&probe) > 0)
			if ((probe.value & LSM_SLOT_INDEX) == key) {
				found++;
				moved += probe.shape != shape;
				break;
			}
	}
	CHECK(found == 100 && moved > 20);
	for (key = 0; key < HANDLES; key++)
		if (present[key])
			CHECK(take(index, key));
	return exact(index);
}

/* ---- Threads -------------------------------------------------------------------- */

struct work {
	struct lsm_index *index;
	uint32_t nr;
	bool right;
};

static atomic_bool stop;

static void *reader(void *argument)
{
	struct work *work = argument;
	struct lsm_probe probe;
	uint32_t key = 0;

	while (!stop && work->right) {
		key = (key + 1) % FIXED;
		work->right = look(work->index, key, false, &probe) == 1;
	}
	return NULL;
}

/* Adds its own keys, takes some away and adds them again. */
static void *writer(void *argument)
{
	struct work *work = argument;
	uint32_t key;

	for (key = FIXED + work->nr; key < HANDLES && work->right; key += THREADS) {
		work->right = add(work->index, key);
		if (work->right && key % 4 == 0)
			work->right = take(work->index, key);
	}
	return NULL;
}

/* One at a time has the lock, also of those that have to wait. */
static void *locker(void *argument)
{
	struct work *work = argument;
	static atomic_uint inside;
	uint32_t turn;

	for (turn = 0; turn < 300 && work->right; turn++) {
		work->right = !lsm_index_lock(work->index, 5) && !inside++;
		sched_yield();
		work->right = work->right && inside-- == 1;
		lsm_index_unlock(work->index, 5);
	}
	return NULL;
}

static bool test_lock(struct lsm_index *index, struct lsm_index *second)
{
	struct work works[THREADS];
	pthread_t threads[THREADS];
	bool right = true;
	uint32_t i;

	for (i = 0; i < THREADS; i++) {
		works[i] = (struct work){ i % 2 ? second : index, i, true };
		CHECK(!pthread_create(&threads[i], NULL, locker, &works[i]));
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		right &= works[i].right;
	}
	return right;
}

static bool test_threads(struct lsm_index *index, struct lsm_index *second)
{
	struct work works[THREADS + 1];
	pthread_t threads[THREADS + 1];
	uint32_t i;

	for (i = 0; i < FIXED; i++)
		CHECK(add(index, i));
	for (i = 0; i <= THREADS; i++) {
		works[i] = (struct work){ i % 2 ? second : index, i, true };
		CHECK(!pthread_create(&threads[i], NULL, i < THREADS ? writer : reader, &works[i]));
	}
	for (i = 0; i <= THREADS; i++) {
		if (i == THREADS)
			stop = true;
		pthread_join(threads[i], NULL);
		CHECK(works[i].right);
	}
	return exact(index) && exact(second);
}

/* ---- Clients that die -------------------------------------------------------------- */

/* A client that dies with the lock of a key's stripe, whose slots it has lost. */
static bool die_with(uint32_t key)
{
	struct lsm_index *mine, *index;
	struct lsm_probe probe;
	int status;
	pid_t pid = fork();

	if (!pid) {
		index = open_index(&mine);
		if (!index || lsm_index_lock(index, lsm_stripe_of(hash_of(index, key))) ||
		    look(index, key, true, &probe) != 1)
			_exit(1);
		atomic_store(probe.slot, 0);
		kill(getpid(), SIGKILL);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	return true;
}

static bool test_death(struct lsm_index *index)
{
	uint32_t stripe = lsm_stripe_of(hash_of(index, 1));
	struct lsm_index *later, *opened;
	unsigned int before = anew_calls;
	struct lsm_probe probe;

	/* Found by who waits for the lock. */
	CHECK(die_with(1));
	CHECK(!look(index, 1, false, &probe));
	CHECK(!lsm_index_lock(index, stripe));
	CHECK(anew_calls == before + 1 && anew_stripe == (int)stripe);
	lsm_index_unlock(index, stripe);
	CHECK(exact(index));
	/* By who gets its number. */
	CHECK(die_with(1));
	opened = open_index(&later);
	CHECK(opened);
	CHECK(anew_calls == before + 2 && anew_stripe == (int)stripe);
	CHECK(exact(index));
	lsm_index_close(opened, true);
	/* A lock that was left behind is taken once. */
	CHECK(!lsm_index_lock(index, stripe));
	lsm_index_unlock(index, stripe);
	CHECK(anew_calls == before + 2);
	return true;
}

/* ---- Memory that others write -------------------------------------------------------- */

/* Whatever is in buckets and chains, calls end, and touch nothing else. */
static bool test_garbage(struct lsm_index *index)
{
	uint64_t random = 1;
	uint8_t *from = (uint8_t *)index->buckets, *end = (uint8_t *)index->header + index->bytes;
	struct lsm_probe probe;
	uint32_t round, i, key;

	for (round = 0; round < 200; round++) {
		for (i = 0; i < 500; i++)
			*(uint64_t *)(from + random_next(&random) % (uint64_t)(end - from - 8) / 8 * 8) =
				random_next(&random) >> random_below(&random, 64);
		for (i = 0; i < LSM_STRIPES; i += 7)
			index->stripes[i].shape = random_next(&random) << random_below(&random, 40) & ~1ull;
		index->header->overflows = random_next(&random);
		for (i = 0; i < 500; i++) {
			key = random_below(&random, HANDLES);
			look(index, key, false, &probe);
			CHECK(!lsm_index_lock(index, lsm_stripe_of(hash_of(index, key))));
			lsm_index_insert(index, hash_of(index, key), key);
			lsm_index_unlock(index, lsm_stripe_of(hash_of(index, key)));
		}
		lsm_index_memory(index);
	}
	return true;
}

int main(void)
{
	struct lsm_index *first, *second, *place[2];

	memory = memfd_create("index", MFD_CLOEXEC);
	first = open_index(&place[0]);
	second = open_index(&place[1]);
	tap_ok(first && second && first->owner != second->owner, "two clients");
	if (!first || !second)
		return 1;
	tap_is(anew_calls, 1, "the first makes the index");
	tap_ok(test_lock(first, second), "one at a time has a lock");
	tap_ok(test_moves(first), "a key that moves while it is looked for");
	tap_ok(test_alone(first), "keys come and go");
	tap_ok(test_threads(first, second), "no key is missed while others come and go");
	lsm_index_close(second, true);
	tap_ok(test_death(first), "a client that dies with a lock");
	tap_ok(test_garbage(first), "garbage");
	lsm_index_close(first, true);
	close(memory);
	return tap_end();
}
