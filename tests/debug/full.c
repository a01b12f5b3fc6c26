// SPDX-License-Identifier: GPL-2.0
/*
 * A store that has been filled until ENOSPC still accepts replacements.  A replacement of the same
 * length adds no live bytes, so the cleaner can always make space for it, in whichever segments
 * the garbage is, and each call returns within its bound.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kselftest_harness.h"
#include "store.h"

#define WRITERS		6
#define OBJECTS_MAX	500000u
#define LENGTH_MIN	64u
#define STALL_MS	10000u	/* bound of a call that waits for the cleaner */
#define BOUND_MS	20000u	/* what the test permits: the machine may be loaded */
#define GOAL		(3 * STORE_BYTES)	/* bytes to write */
#define CALLS		200000u	/* instead, number of writes of small objects */

struct object {
	uint64_t handle;
	uint64_t serial;
	uint32_t length;
};

struct work {
	struct store store;
	struct object *objects;
	uint32_t nr;
	uint32_t written_nr;	/* how many objects, from the first, are replaced */
	uint64_t goal;		/* bytes */
	_Atomic uint64_t written;	/* bytes */
	_Atomic uint64_t longest;	/* ms */
	_Atomic int error;
	_Atomic uint32_t wrong;
};

struct writer {
	struct work *work;
	uint32_t first;		/* it writes this object and each WRITERS-th after it */
};

static void *writer_main(void *argument)
{
	const struct writer *writer = argument;
	struct work *work = writer->work;
	uint8_t *data = malloc(OBJECT_MAX);
	uint64_t state = test_seed + writer->first;

	while (data && atomic_load(&work->written) < work->goal && !atomic_load(&work->error)) {
		uint32_t i = (uint32_t)(random_next(&state) % (work->written_nr / WRITERS)) *
			     WRITERS + writer->first;
		struct object *object = &work->objects[i];
		uint64_t begin = now_ms(), took, longest, serial;
		int ret;

		content_fill(data, object->length, i, ++object->serial);
		ret = lsm_replace(work->store.lsm, object->handle, data, object->length, 0, NULL);
		took = now_ms() - begin;
		longest = atomic_load(&work->longest);
		while (took > longest &&
		       !atomic_compare_exchange_weak(&work->longest, &longest, took))
			;
		if (ret)
			atomic_store(&work->error, ret);
		if (!ret && (lsm_read(work->store.lsm, object->handle, data, object->length, 0,
				      NULL) != object->length ||
			     !content_right(data, object->length, i, &serial) ||
			     serial != object->serial))
			atomic_fetch_add(&work->wrong, 1);
		atomic_fetch_add(&work->written, object->length);
	}
	free(data);
	return NULL;
}

FIXTURE(full) {
	struct work work;
};

/*
 * @span: range of the lengths, in bytes.  @few: if not 0, only that many objects are replaced, so
 * all garbage is in the few segments that these were written to last.
 */
FIXTURE_VARIANT(full) {
	uint32_t span;
	uint32_t few;
};

FIXTURE_VARIANT_ADD(full, all) {
	.span = 60 << 10,
};

FIXTURE_VARIANT_ADD(full, few) {
	.span = 60 << 10,
	.few = 10 * WRITERS,
};

FIXTURE_VARIANT_ADD(full, few_small) {
	.span = 400,
	.few = 10 * WRITERS,
};

FIXTURE_VARIANT_ADD(full, large) {
	.span = OBJECT_MAX - LENGTH_MIN,
};

FIXTURE_SETUP(full)
{
	memset(&self->work, 0, sizeof(self->work));
	ASSERT_EQ(0, store_create(&self->work.store, STORE_BYTES, OBJECTS_MAX, 0));
	ASSERT_EQ(0, store_set_attribute(&self->work.store, "limits/stall_ms", STALL_MS));
	self->work.objects = calloc(OBJECTS_MAX, sizeof(*self->work.objects));
	ASSERT_NE(NULL, self->work.objects);
}

FIXTURE_TEARDOWN(full)
{
	EXPECT_EQ(0, store_destroy(&self->work.store));
	free(self->work.objects);
}

TEST_F_TIMEOUT(full, replace, 600)
{
	struct work *work = &self->work;
	struct writer writers[WRITERS];
	pthread_t threads[WRITERS];
	uint8_t *data = malloc(OBJECT_MAX);
	uint64_t state = test_seed;
	uint32_t i;
	int ret = 0;

	for (; work->nr < OBJECTS_MAX; work->nr++) {
		struct object *object = &work->objects[work->nr];

		object->length = LENGTH_MIN + (uint32_t)(random_next(&state) % variant->span);
		content_fill(data, object->length, work->nr, 0);
		ret = lsm_alloc(work->store.lsm, data, object->length, 0, &object->handle, NULL);
		if (ret)
			break;
	}
	free(data);
	ASSERT_EQ(-ENOSPC, ret);
	work->written_nr = variant->few ?: work->nr;
	work->goal = test_scaled(variant->span < 4096 ? CALLS * variant->span / 2 : GOAL);
	for (i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ work, i };
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, writer_main, &writers[i]));
	}
	for (i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	TH_LOG("%u objects; %llu MiB written, the longest call %llu ms, %lld passes, %lld MiB moved",
	       work->nr, (unsigned long long)atomic_load(&work->written) >> 20,
	       (unsigned long long)atomic_load(&work->longest),
	       store_attribute(&work->store, "cleaner/passes"),
	       store_attribute(&work->store, "cleaner/relocated_bytes") >> 20);
	EXPECT_EQ(0, atomic_load(&work->error)) TH_LOG("%s", strerror(-atomic_load(&work->error)));
	EXPECT_EQ(0, atomic_load(&work->wrong));
	EXPECT_GT(test_limit(BOUND_MS), atomic_load(&work->longest));
}

TEST_HARNESS_MAIN
