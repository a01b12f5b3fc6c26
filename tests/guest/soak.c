// SPDX-License-Identifier: GPL-2.0
/*
 * A store that stays full while writers, readers, compactors and the cleaner run at the same
 * time, for $LSMEM_SOAK_SECONDS.
 *
 * Objects of all sizes fill the store up to its capacity.  Then each writer replaces the objects
 * of its own half, without a change of length.  Two in a hundred objects are private: no reader
 * reads them, and their writer frees and allocates them.  Readers copy and view the other objects
 * and check every byte: they must find one whole version, which is not older than the last one
 * that was complete before the read began.  Meanwhile the test changes the balancer and the number
 * of compactors, and requests passes through sysfs.  No replacement may be refused for want of
 * space, and no call may wait longer than limits/stall_ms permits.  At the end every object must
 * have the contents that its writer recorded.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "store.h"

#define SOAK_SECONDS	20u		/* unless $LSMEM_SOAK_SECONDS is set */
#define SOAK_BYTES	(192 * MIB)
#define WRITERS		2u
#define READERS		2u
#define OBJECTS_MAX	600000u
#define LENGTH_MAX	(200u << 10)
#define SMALL_MAX	8000u
#define BATCH		64u
#define PRIVATE		50u		/* one object in PRIVATE is private */
#define STALL_MS	20000u
#define TURN_MS		200u

struct object {
	uint64_t handle;
	_Atomic uint64_t serial;	/* of the last complete version */
	uint32_t length;
};

struct soak;

struct worker {
	struct soak *soak;
	unsigned int nr;
	uint64_t state;
	uint64_t done;
	uint64_t longest_ms;
	uint64_t wrong;			/* torn, old or of another length */
	int error;
};

struct soak {
	struct lsm *lsm;
	struct object *objects;
	uint32_t nr;
	atomic_bool stop;
	struct worker writers[WRITERS];
	struct worker readers[READERS];
};

FIXTURE(soak) {
	struct store store;
	struct follower follower;
	struct soak soak;
};

FIXTURE_VARIANT(soak) {
	uint32_t flags;
};

FIXTURE_VARIANT_ADD(soak, unbacked) {
	.flags = 0,
};

FIXTURE_VARIANT_ADD(soak, backed) {
	.flags = LSMEM_STORE_DURABLE,
};

static unsigned int soak_seconds(void)
{
	const char *text = getenv("LSMEM_SOAK_SECONDS");
	unsigned long seconds = text ? strtoul(text, NULL, 0) : 0;

	return seconds ? (unsigned int)seconds : SOAK_SECONDS;
}

/* By number nearly all objects are small; those above SMALL_MAX hold almost half of the bytes. */
static uint32_t choose_length(uint64_t *state)
{
	uint64_t dice = random_next(state) % 1000, number = random_next(state);

	if (dice < 700)
		return 16 + (uint32_t)(number % 200);
	if (dice < 980)
		return 200 + (uint32_t)(number % (SMALL_MAX - 200));
	if (dice < 998)
		return SMALL_MAX + (uint32_t)(number % 60000);
	return LENGTH_MAX - (uint32_t)(number % 100000);
}

static bool is_private(uint32_t which)
{
	return which / WRITERS % PRIVATE == 0;
}

FIXTURE_SETUP(soak)
{
	uint8_t *bytes = malloc(LENGTH_MAX);
	struct soak *soak = &self->soak;
	uint64_t state = test_seed;
	unsigned int refused = 0;

	ASSERT_EQ(0, store_create(&self->store, SOAK_BYTES, OBJECTS_MAX, variant->flags));
	if (variant->flags) {
		ASSERT_EQ(0, follower_start(&self->follower, self->store.name));
		ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
	}
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms",
					 test_limit(STALL_MS)));
	soak->lsm = self->store.lsm;
	soak->objects = calloc(OBJECTS_MAX, sizeof(*soak->objects));
	ASSERT_TRUE(bytes && soak->objects);
	/* Fill the store as far as possible: after a refusal, try smaller objects. */
	while (refused < 100 && soak->nr < OBJECTS_MAX) {
		struct object *object = &soak->objects[soak->nr];
		int ret;

		object->length = choose_length(&state);
		if (refused)
			object->length = object->length % (refused > 50 ? 64 : 2000) + 16;
		content_fill(bytes, object->length, soak->nr, 0);
		ret = lsm_alloc(soak->lsm, bytes, object->length, 0, &object->handle, NULL);
		if (ret == -ENOSPC) {
			refused++;
			continue;
		}
		ASSERT_EQ(0, ret);
		soak->nr++;
	}
	free(bytes);
	soak->nr -= soak->nr % WRITERS;
	ASSERT_LE(100, refused);
}

FIXTURE_TEARDOWN(soak)
{
	if (variant->flags) {
		follower_stop(&self->follower);
		EXPECT_STREQ("", self->follower.wrong);
		follower_free(&self->follower);
	}
	EXPECT_EQ(0, store_destroy(&self->store));
	free(self->soak.objects);
}

/* ---- Writers ---------------------------------------------------------------- */

/*
 * Free a private object and allocate another of its size.  The allocation may find no space,
 * because tombstones take space until they are dropped; a later call tries again.
 */
static int renew(struct worker *w, uint32_t which, uint8_t *bytes)
{
	struct object *object = &w->soak->objects[which];
	int ret = 0;

	if (object->handle)
		ret = lsm_free(w->soak->lsm, object->handle, 0, NULL);
	if (ret)
		return ret;
	object->handle = 0;
	content_fill(bytes, object->length, which, ++object->serial);
	ret = lsm_alloc(w->soak->lsm, bytes, object->length, 0, &object->handle, NULL);
	return ret == -ENOSPC ? 0 : ret;
}

static int replace_one(struct worker *w, uint32_t which, uint8_t *bytes)
{
	struct object *object = &w->soak->objects[which];
	uint64_t serial = atomic_load(&object->serial) + 1;
	int ret;

	content_fill(bytes, object->length, which, serial);
	ret = lsm_replace(w->soak->lsm, object->handle, bytes, object->length, 0, NULL);
	if (!ret)
		atomic_store(&object->serial, serial);
	return ret;
}

static int replace_many(struct worker *w, const uint32_t *which, uint32_t nr, uint8_t *bytes)
{
	struct lsmem_op ops[BATCH];
	uint32_t i;
	int ret;

	for (i = 0; i < nr; i++) {
		struct object *object = &w->soak->objects[which[i]];

		content_fill(bytes + i * SMALL_MAX, object->length, which[i],
			     atomic_load(&object->serial) + 1);
		ops[i] = lsm_op_replace(object->handle, bytes + i * SMALL_MAX, object->length, 0,
					0);
	}
	ret = lsm_vector(w->soak->lsm, ops, nr, 0, NULL);
	for (i = 0; i < nr && !ret; i++) {
		ret = ops[i].result;
		if (!ret)
			atomic_fetch_add(&w->soak->objects[which[i]].serial, 1);
	}
	return ret;
}

/* Write up to BATCH different objects of this worker; large and private ones one by one. */
static int write_some(struct worker *w, uint8_t *bytes)
{
	uint32_t ours = w->soak->nr / WRITERS, at = (uint32_t)(random_next(&w->state) % ours);
	uint32_t step = 1 + (uint32_t)(random_next(&w->state) % 997), batch[BATCH], nr = 0, i;
	int ret = 0;

	/* Nine in ten batches go to a tenth of the objects. */
	if (random_next(&w->state) % 10)
		at %= ours / 10 + 1;
	for (i = 0; i < BATCH && !ret && at < ours; i++, at += step) {
		uint32_t which = at * WRITERS + w->nr;

		if (is_private(which))
			ret = renew(w, which, bytes);
		else if (w->soak->objects[which].length > SMALL_MAX)
			ret = replace_one(w, which, bytes);
		else
			batch[nr++] = which;
	}
	if (!ret && nr)
		ret = replace_many(w, batch, nr, bytes);
	w->done += i;
	return ret;
}

static void *writer_main(void *argument)
{
	struct worker *w = argument;
	uint8_t *bytes = malloc(BATCH * SMALL_MAX);	/* more than LENGTH_MAX */

	if (!bytes)
		w->error = -ENOMEM;
	while (!w->error && !atomic_load(&w->soak->stop)) {
		uint64_t begin = now_ms(), took;

		w->error = write_some(w, bytes);
		took = now_ms() - begin;
		if (took > w->longest_ms)
			w->longest_ms = took;
	}
	free(bytes);
	return NULL;
}

/* ---- Readers ---------------------------------------------------------------- */

static void check(struct worker *w, const void *data, ssize_t length, uint32_t which, uint64_t least)
{
	uint64_t serial;

	if (length != (ssize_t)w->soak->objects[which].length ||
	    !content_right(data, (uint32_t)length, which, &serial) || serial < least)
		w->wrong++;
}

static void copy_one(struct worker *w, uint32_t which, uint8_t *bytes)
{
	const struct object *object = &w->soak->objects[which];
	uint64_t least = atomic_load(&object->serial);
	ssize_t length = lsm_read(w->soak->lsm, object->handle, bytes, LENGTH_MAX, 0, NULL);

	if (length < 0)
		w->error = (int)length;
	else
		check(w, bytes, length, which, least);
}

static void view_one(struct worker *w, uint32_t which, uint8_t *bytes)
{
	const struct object *object = &w->soak->objects[which];
	uint64_t least = atomic_load(&object->serial), wrong = w->wrong;
	struct lsm_view view;
	uint32_t at = 0, i;
	int ret = lsm_view_begin(w->soak->lsm, object->handle, &view);

	if (ret) {
		w->error = ret;
		return;
	}
	for (i = 0; i < view.nr && at + view.iov[i].iov_len <= LENGTH_MAX; i++) {
		memcpy(bytes + at, view.iov[i].iov_base, view.iov[i].iov_len);
		at += (uint32_t)view.iov[i].iov_len;
	}
	check(w, bytes, at, which, least);
	if (lsm_view_end(w->soak->lsm, &view))
		w->wrong = wrong;	/* revoked: the bytes that were read do not count */
}

static void *reader_main(void *argument)
{
	struct worker *w = argument;
	uint8_t *bytes = malloc(LENGTH_MAX);

	if (!bytes)
		w->error = -ENOMEM;
	while (!w->error && !atomic_load(&w->soak->stop)) {
		uint32_t which = (uint32_t)(random_next(&w->state) % w->soak->nr);

		if (is_private(which))
			continue;
		if (w->done++ % 2)
			copy_one(w, which, bytes);
		else
			view_one(w, which, bytes);
	}
	free(bytes);
	return NULL;
}

/* ---- All of it --------------------------------------------------------------- */

/* Choose a balancer and a number of compactors, and request some cleaning or compaction. */
static int turn(const struct store *store, uint64_t *state)
{
	static const char *const balancers[] = { "adaptive", "tombstone-ratio", "fixed" };
	int ret;

	ret = store_set_text(store, "cleaner/balancer", balancers[random_next(state) % 3]);
	if (!ret)
		ret = store_set_attribute(store, "cleaner/nr_compactors", random_next(state) % 5);
	return ret ?: store_set_attribute(store, random_next(state) % 2 ?
					  "cleaner/request_clean" : "cleaner/request_compact",
					  1 + random_next(state) % 8);
}

static void begin(struct soak *soak, pthread_t *threads)
{
	uint32_t i;

	for (i = 0; i < WRITERS + READERS; i++) {
		struct worker *w = i < WRITERS ? &soak->writers[i] : &soak->readers[i - WRITERS];

		w->soak = soak;
		w->nr = i;
		w->state = test_seed + 1 + i;
		if (pthread_create(&threads[i], NULL, i < WRITERS ? writer_main : reader_main, w))
			abort();
	}
}

TEST_F_TIMEOUT(soak, full, 240)
{
	uint64_t end = now_ms() + soak_seconds() * 1000ull, state = test_seed + 99, serial;
	struct soak *soak = &self->soak;
	uint8_t *bytes = malloc(LENGTH_MAX);
	pthread_t threads[WRITERS + READERS];
	struct lsmem_stat stat;
	uint32_t i, lost = 0;

	ASSERT_NE(NULL, bytes);
	ASSERT_EQ(0, lsm_stat(soak->lsm, &stat));
	TH_LOG("%u objects, %llu of %llu MiB live, capacity %llu", soak->nr,
	       (unsigned long long)(stat.live_bytes / MIB),
	       (unsigned long long)(SOAK_BYTES / MIB), (unsigned long long)(stat.capacity / MIB));
	begin(soak, threads);
	while (now_ms() < end) {
		struct timespec pause = { .tv_nsec = TURN_MS * 1000000l };

		nanosleep(&pause, NULL);
		ASSERT_EQ(0, turn(&self->store, &state));
	}
	atomic_store(&soak->stop, true);
	for (i = 0; i < WRITERS + READERS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < WRITERS; i++) {
		EXPECT_EQ(0, soak->writers[i].error);
		EXPECT_GE(test_limit(STALL_MS) + 5000, soak->writers[i].longest_ms);
		TH_LOG("writer %u: %llu objects written, the longest batch took %llu ms", i,
		       (unsigned long long)soak->writers[i].done,
		       (unsigned long long)soak->writers[i].longest_ms);
		EXPECT_LT(0, soak->writers[i].done);
	}
	for (i = 0; i < READERS; i++) {
		EXPECT_EQ(0, soak->readers[i].error);
		EXPECT_EQ(0, soak->readers[i].wrong);
		EXPECT_LT(0, soak->readers[i].done);
	}
	for (i = 0; i < soak->nr; i++) {
		const struct object *object = &soak->objects[i];
		ssize_t length = lsm_read(soak->lsm, object->handle, bytes, LENGTH_MAX, 0, NULL);

		if (!object->handle)
			continue;
		lost += length != (ssize_t)object->length ||
			!content_right(bytes, object->length, i, &serial) ||
			serial != atomic_load(&object->serial);
	}
	EXPECT_EQ(0, lost);
	ASSERT_EQ(0, lsm_stat(soak->lsm, &stat));
	TH_LOG("%llu MiB written, %llu MiB moved, %llu compactions, %llu segments cleaned, %llu stalls",
	       (unsigned long long)(stat.appended_bytes / MIB),
	       (unsigned long long)(stat.relocated_bytes / MIB),
	       (unsigned long long)stat.segments_compacted,
	       (unsigned long long)stat.segments_cleaned, (unsigned long long)stat.stalls);
	EXPECT_LT(0, stat.segments_compacted);
	EXPECT_LT(0, stat.segments_cleaned);
	free(bytes);
}

TEST_HARNESS_MAIN
