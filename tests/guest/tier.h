/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A store whose capacity is larger than its memory, for tests of it: objects with what they are to contain, filled until most of
 * them have left memory. The backup is in the program (keeper.h). Each program that includes this has the fixture.
 */
#ifndef LSMEM_TEST_TIER_H
#define LSMEM_TEST_TIER_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "keeper.h"
#include "store.h"

#define CAPACITY	(320 * MIB)
#define OBJECTS		30000u
#define LENGTH_MAX	(200u << 10)
#define SECONDS		300

struct object {
	pthread_mutex_t lock;
	uint64_t handle;		/* 0: freed */
	uint64_t serial;
	uint32_t length;
};

FIXTURE(tier) {
	struct store store;
	struct follower follower;
	struct keeper keeper;
	struct object *objects;
	uint32_t nr;
	uint8_t *bytes;
	uint64_t random;
};

/* Half are small; others are longer than a block, some longer than a seglet. */
static inline uint32_t choose_length(uint64_t *state)
{
	uint32_t dice = random_below(state, 1000);

	if (dice < 500)
		return CONTENT_MIN + random_below(state, 2000);
	if (dice < 900)
		return 2000 + random_below(state, 40000);
	return LENGTH_MAX - random_below(state, LENGTH_MAX - 40000);
}

static inline int put_length(struct lsm *lsm, struct object *object, uint32_t id, uint8_t *bytes, uint32_t length)
{
	int ret;

	content_fill(bytes, length, id, object->serial + 1);
	if (object->handle)
		ret = lsm_replace(lsm, object->handle, bytes, length, 0, NULL);
	else
		ret = lsm_alloc(lsm, bytes, length, 0, &object->handle, NULL);
	if (ret)
		return ret;
	object->serial++;
	object->length = length;
	return 0;
}

static inline int put(struct lsm *lsm, struct object *object, uint32_t id, uint8_t *bytes, uint64_t *state)
{
	return put_length(lsm, object, id, bytes, choose_length(state));
}

/* 0: it is as it was written; 1: it is not; else a negative errno. */
static inline int check(struct lsm *lsm, const struct object *object, uint32_t id, uint8_t *bytes)
{
	ssize_t ret = lsm_read(lsm, object->handle, bytes, LENGTH_MAX, 0, NULL);

	if (ret < 0)
		return (int)ret;
	return ret != object->length || !content_is(bytes, object->length, id, object->serial);
}

/* Objects until @percent of the capacity is live. */
static inline int fill(struct _test_data_tier *self, uint32_t percent)
{
	struct lsmem_stat stat;
	int ret;

	do {
		ret = put(self->store.lsm, &self->objects[self->nr], self->nr, self->bytes, &self->random);
		self->nr += !ret;
		if (!ret && self->nr % 100 == 0)
			ret = lsm_stat(self->store.lsm, &stat);
	} while (!ret && self->nr < OBJECTS &&
		 (self->nr % 100 || stat.live_bytes < stat.capacity / 100 * percent));
	return ret;
}

FIXTURE_SETUP(tier)
{
	uint32_t i;

	self->random = test_seed;
	self->objects = calloc(OBJECTS, sizeof(*self->objects));
	self->bytes = malloc(LENGTH_MAX);
	ASSERT_TRUE(self->objects && self->bytes);
	for (i = 0; i < OBJECTS; i++)
		pthread_mutex_init(&self->objects[i].lock, NULL);
	keeper_init(&self->keeper);
	ASSERT_EQ(0, store_create_tiered(&self->store, STORE_BYTES, CAPACITY, 0, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, keeper_follow(&self->keeper, &self->follower, self->store.name));
	EXPECT_EQ(CAPACITY, self->follower.attach.capacity);
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
}

FIXTURE_TEARDOWN(tier)
{
	keeper_stop(&self->keeper);
	EXPECT_EQ(0, atomic_load(&self->keeper.error));
	EXPECT_STREQ("", self->follower.wrong);
	follower_stop(&self->follower);
	EXPECT_EQ(0, store_destroy(&self->store));
	follower_free(&self->follower);
	keeper_free(&self->keeper);
	free(self->objects);
	free(self->bytes);
}

/* Find an object that is COLD, from the one with number @i on. */
static inline uint32_t find_cold(struct _test_data_tier *self, uint32_t i)
{
	const struct lsmem_info *info = self->follower.info;
	const struct lsmem_handle *handles;

	handles = mmap(NULL, info->handles.length, PROT_READ, MAP_SHARED, self->store.fd,
		       (off_t)info->handles.offset);
	if (handles == MAP_FAILED)
		return self->nr;
	for (; i < self->nr; i++)
		if ((handles[lsmem_handle_index(self->objects[i].handle)].word >> LSMEM_WORD_STATE_SHIFT &
		     ((1u << LSMEM_WORD_STATE_BITS) - 1)) == LSMEM_WORD_COLD)
			break;
	munmap((void *)handles, info->handles.length);
	return i;
}

/* Where the newest version of an object is on the backup; id 0: nowhere. */
struct place {
	uint64_t id;
	struct lsmem_directory_entry listing;
};

/* Note the objects of a frame that are newer than what is known. */
static inline void list_frame(const struct keeper_frame *frame, struct place *places, uint64_t nr)
{
	uint32_t at = 0;

	while (frame->id && at < frame->length) {
		const struct lsmem_entry *e = (const void *)(frame->bytes + at);
		struct place *place = &places[lsmem_handle_index(lsmem_entry_handle(e))];

		if (lsmem_entry_type(e) == LSMEM_TYPE_OBJECT &&
		    lsmem_handle_index(lsmem_entry_handle(e)) < nr &&
		    (!place->id || lsmem_entry_version(e) > __le64_to_cpu(place->listing.version)))
			*place = (struct place){ frame->id, lsmem_entry_listing(e, at) };
		at = lsmem_entry_start(at + lsmem_entry_bytes(e));
	}
}

/* Place all that one frame has the newest version of. Returns how many, or a negative errno. */
static inline int place_frame(const struct follower *follower, const struct keeper_frame *frame,
		       const struct place *places, uint64_t nr)
{
	struct lsmem_directory_entry *listings = calloc(nr, sizeof(*listings));
	struct lsmem_placement place = {
		.size = sizeof(place),
		.segment = frame->id,
		.generation = 1,
		.sealed = frame->length,
		.entries = (uintptr_t)listings,
	};
	uint64_t i;
	int ret;

	for (i = 0; i < nr; i++)
		if (places[i].id == frame->id)
			listings[place.nr++] = places[i].listing;
	ret = place.nr && ioctl(follower->attach.fd, LSMEM_REPL_PLACE, &place) ? -errno : (int)place.nr;
	free(listings);
	return ret;
}

static inline int by_id(const void *a, const void *b)
{
	const struct keeper_frame *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/*
 * Lose all memory, and place what the backup lists in a new store; the keeper stands still.  @places: for
 * each handle.  Returns the number of segments that have any, or a negative errno.
 */
static inline int place_all(struct _test_data_tier *self, struct place *places, uint32_t flags)
{
	struct lsmem_activate activate = {
		.size = sizeof(activate),
		.flags = flags,
		.era = 2,
		.generation_floor = 100,
		.generation_ceiling = 1u << 20,
		.store_time = 1ull << 40,
	};
	uint64_t nr = self->follower.attach.handles_max;
	uint8_t uuid[LSMEM_UUID_BYTES];
	int placed = 0, ret;
	uint32_t i;

	memcpy(uuid, self->follower.attach.uuid, sizeof(uuid));
	keeper_stop(&self->keeper);
	follower_stop(&self->follower);
	follower_free(&self->follower);
	ret = store_destroy(&self->store);
	if (ret)
		return ret;
	qsort(self->keeper.frames, KEEPER_FRAMES, sizeof(*self->keeper.frames), by_id);
	for (i = 0; i < KEEPER_FRAMES; i++)
		list_frame(&self->keeper.frames[i], places, nr);
	ret = store_create_tiered(&self->store, STORE_BYTES, CAPACITY, 0, LSMEM_STORE_DURABLE);
	if (!ret)
		ret = follower_attach_as(&self->follower, self->store.name, uuid);
	self->follower.keeper = &self->keeper;
	for (i = 0; i < KEEPER_FRAMES && ret >= 0; i++) {
		struct keeper_frame *frame = &self->keeper.frames[i];

		if (!frame->id)
			continue;
		activate.next_segment = frame->id + 1;
		ret = place_frame(&self->follower, frame, places, nr);
		placed += ret > 0;
	}
	if (ret >= 0)
		ret = follower_activate(&self->follower, &activate);
	if (!ret)
		ret = lsm_open(self->store.path, 0, &self->store.lsm);
	return ret ? ret : placed;
}

#endif
