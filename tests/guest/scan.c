// SPDX-License-Identifier: GPL-2.0
/*
 * The live bitmap, as a client sees it.
 *
 * Writers allocate, replace and free objects that they share, singly and in vectors, while segments are
 * compacted and cleaned.  At rest the bitmap has exactly the live entries: the entry at each bit is found
 * by its header and its handle word, each LIVE word is among them, and their sizes add up to the live bytes
 * of the store.  Meanwhile observers check the rule: a word that points to a position, and stays, has
 * its bit.
 *
 * store_destroy() compares the bitmap with the handle table after each test of all guest programs, those
 * of durable, tiered and block stores included.
 */
#include <errno.h>
#include <lsmem/lsmem_format.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "store.h"

#define OBJECTS		160000u	/* most at a time: about 3/4 of the store */
#define WRITERS		3u
#define CHANGES		300000u	/* of each writer, in a round */
#define ROUNDS		3u
#define VECTOR		24u
#define LENGTH_MAX	9000u
#define REST_MS		10000u

/**
 * struct client - a store, and what a client sees of it
 * @store: has @info
 * @info: a copy of the info page
 * @seglets: window
 * @handles: window
 * @livemap: window
 * @objects: OBJECTS handles; 0: none
 */
struct client {
	struct store store;
	struct lsmem_info info;
	const uint8_t *seglets;
	const struct lsmem_handle *handles;
	const uint64_t *livemap;
	_Atomic uint64_t *objects;
};

FIXTURE(scan) {
	struct client client;
};

static const void *map(int fd, const struct lsmem_window *window)
{
	void *address = mmap(NULL, window->length, PROT_READ, MAP_SHARED, fd, (off_t)window->offset);

	return address == MAP_FAILED ? NULL : address;
}

FIXTURE_SETUP(scan)
{
	struct client *client = &self->client;
	const struct lsmem_window first = { LSMEM_WINDOW_INFO, 4096 };
	const struct lsmem_info *info;

	ASSERT_EQ(0, store_create(&client->store, STORE_BYTES, 0, 0));
	info = map(client->store.fd, &first);
	ASSERT_NE(NULL, info);
	client->info = *info;
	munmap((void *)info, first.length);
	client->seglets = map(client->store.fd, &client->info.seglets);
	client->handles = map(client->store.fd, &client->info.handles);
	client->livemap = map(client->store.fd, &client->info.livemap);
	client->objects = calloc(OBJECTS, sizeof(*client->objects));
	ASSERT_TRUE(client->seglets && client->handles && client->livemap && client->objects);
	ASSERT_EQ(STORE_BYTES / 256, client->info.livemap.length);
}

FIXTURE_TEARDOWN(scan)
{
	struct client *client = &self->client;

	munmap((void *)client->seglets, client->info.seglets.length);
	munmap((void *)client->handles, client->info.handles.length);
	munmap((void *)client->livemap, client->info.livemap.length);
	free((void *)client->objects);
	EXPECT_EQ(0, store_destroy(&client->store));
}

static uint64_t load(const uint64_t *from)
{
	return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

static bool word_live(uint64_t word)
{
	return (word >> LSMEM_WORD_STATE_SHIFT & ((1u << LSMEM_WORD_STATE_BITS) - 1)) == LSMEM_WORD_LIVE;
}

static uint64_t word_position(uint64_t word)
{
	return word & ((1ull << LSMEM_POSITION_BITS) - 1);
}

static bool bit_set(const uint64_t *livemap, uint64_t position)
{
	uint64_t bit = position >> LSMEM_LIVEMAP_SHIFT;

	return load(&livemap[bit / 64]) >> bit % 64 & 1;
}

/* ---- A scan ------------------------------------------------------------- */

/**
 * struct survey - what a scan of the bitmap finds
 * @objects: bits at which an object is
 * @bytes: of their entries
 * @strays: bits at which there is none
 * @missed: LIVE words without a bit
 */
struct survey {
	uint64_t objects;
	uint64_t bytes;
	uint64_t strays;
	uint64_t missed;
};

/* The size of the entry of the object that begins at @position; 0: there is none. */
static uint32_t entry_at(const struct client *client, uint64_t position)
{
	uint64_t at = position * LSMEM_ALIGN, index;
	struct lsmem_entry entry;

	if (at % LSMEM_SEGLET_BYTES > LSMEM_SEGLET_BYTES - LSMEM_LONG_BYTES)
		return 0;
	memcpy(&entry, client->seglets + at, sizeof(entry));
	index = lsmem_handle_index(lsmem_entry_handle(&entry));
	if (!lsmem_entry_sane(&entry) || lsmem_entry_type(&entry) != LSMEM_TYPE_OBJECT ||
	    index >= client->info.nr_handles || !word_live(load((void *)&client->handles[index].word)) ||
	    word_position(load((void *)&client->handles[index].word)) != position)
		return 0;
	return lsmem_entry_bytes(&entry);
}

static void scan(const struct client *client, struct survey *found)
{
	const uint64_t words = client->info.nr_seglets * LSMEM_SEGLET_BYTES / 32 / 64;
	uint64_t i, word;

	*found = (struct survey){ 0 };
	for (i = 0; i < words; i++) {
		for (word = load(&client->livemap[i]); word; word &= word - 1) {
			uint64_t first = (i * 64 + (uint64_t)__builtin_ctzll(word)) * 4, at;
			uint32_t size = 0;

			for (at = first; !size && at < first + 4; at++)
				size = entry_at(client, at);
			found->bytes += size;
			found->objects += !!size;
			found->strays += !size;
		}
	}
	for (i = 0; i < client->info.nr_handles; i++) {
		word = load((void *)&client->handles[i].word);
		found->missed += word_live(word) && !bit_set(client->livemap, word_position(word));
	}
}

/*
 * Scan until bitmap, words and counters agree, which they do as soon as the cleaners rest.  No event tells
 * that they do.
 */
static bool at_rest(const struct client *client, uint64_t objects)
{
	uint64_t end = now_ms() + test_limit(REST_MS);
	struct lsmem_stat stat;
	struct survey found;

	do {
		scan(client, &found);
		if (!lsm_stat(client->store.lsm, &stat) && !found.strays && !found.missed &&
		    found.objects == objects && found.bytes == stat.live_bytes &&
		    stat.handles_used == objects)
			return true;
		usleep(10000);
	} while (now_ms() < end);
	printf("# %llu objects of %llu, %llu bytes of %llu, %llu bits of nothing, %llu words without a bit\n",
	       (unsigned long long)found.objects, (unsigned long long)objects,
	       (unsigned long long)found.bytes, (unsigned long long)stat.live_bytes,
	       (unsigned long long)found.strays, (unsigned long long)found.missed);
	return false;
}

/* ---- Writers and observers ---------------------------------------------- */

/**
 * struct writer - a thread that changes objects at random
 * @client: the store
 * @state: of its random numbers
 * @changes: to make
 * @error: the first that is not one of a lost race
 */
struct writer {
	const struct client *client;
	uint64_t state;
	uint64_t changes;
	int error;
};

/* Most are small, from the smallest on; some cross a seglet. */
static uint32_t choose_length(uint64_t *state)
{
	uint64_t number = random_next(state);

	if (number % 8)
		return 1 + (uint32_t)(number >> 8) % 300;
	return 1 + (uint32_t)(number >> 8) % LENGTH_MAX;
}

static void replace_some(struct writer *writer, const uint8_t *bytes)
{
	struct lsmem_op ops[VECTOR];
	struct lsmem_vector vector = { .size = sizeof(vector), .ops = (uintptr_t)ops,
				       .stride = sizeof(ops[0]) };
	uint32_t i;

	for (i = 0; i < VECTOR; i++) {
		uint64_t which = random_next(&writer->state) % OBJECTS;

		ops[vector.nr] = (struct lsmem_op){
			.size = sizeof(ops[0]), .op = LSMEM_OP_REPLACE, .data = (uintptr_t)bytes,
			.handle = writer->client->objects[which],
			.length = choose_length(&writer->state),
		};
		vector.nr += !!ops[vector.nr].handle;
	}
	if (vector.nr && ioctl(writer->client->store.fd, LSMEM_IOC_VECTOR, &vector))
		writer->error = -errno;
	for (i = 0; i < vector.nr; i++)
		if (ops[i].result && ops[i].result != -ESTALE && ops[i].result != -ENOSPC)
			writer->error = ops[i].result;
}

static void *write_all(void *argument)
{
	struct writer *writer = argument;
	const struct client *client = writer->client;
	static uint8_t bytes[LENGTH_MAX];
	uint64_t i;

	for (i = 0; i < writer->changes && !writer->error; i++) {
		uint64_t which = random_next(&writer->state) % OBJECTS, handle = client->objects[which];
		uint32_t length = choose_length(&writer->state), dice = random_next(&writer->state) % 16;
		uint64_t none = 0;
		int ret = 0;

		if (!dice) {
			replace_some(writer, bytes);
		} else if (!handle) {
			ret = lsm_alloc(client->store.lsm, bytes, length, 0, &handle, NULL);
			if (!ret && !atomic_compare_exchange_strong(&client->objects[which], &none, handle))
				ret = lsm_free(client->store.lsm, handle, 0, NULL);
		} else if (dice < 4) {
			/* Freed before the slot is empty: others replace it meanwhile. */
			ret = lsm_free(client->store.lsm, handle, 0, NULL);
			if (!ret)
				client->objects[which] = 0;
		} else {
			ret = lsm_replace(client->store.lsm, handle, bytes, length, 0, NULL);
		}
		if (ret && ret != -ESTALE && ret != -ENOSPC)
			writer->error = ret;
	}
	return NULL;
}

/**
 * struct observer - a thread that checks the rule at random words
 * @client: the store
 * @state: of its random numbers
 * @stop: set by the test
 * @checks: words that were LIVE and stayed
 * @broken: of these, words without a bit
 */
struct observer {
	const struct client *client;
	uint64_t state;
	atomic_bool stop;
	uint64_t checks, broken;
};

static void *observe(void *argument)
{
	struct observer *observer = argument;
	const struct client *client = observer->client;

	while (!atomic_load(&observer->stop)) {
		uint64_t handle = client->objects[random_next(&observer->state) % OBJECTS], word;
		const uint64_t *at = (void *)&client->handles[lsmem_handle_index(handle)].word;
		bool set;

		word = load(at);
		if (!handle || !word_live(word))
			continue;
		set = bit_set(client->livemap, word_position(word));
		if (load(at) != word)
			continue;
		observer->checks++;
		observer->broken += !set;
	}
	return NULL;
}

static uint64_t count_objects(const struct client *client)
{
	uint64_t i, nr = 0;

	for (i = 0; i < OBJECTS; i++)
		nr += !!client->objects[i];
	return nr;
}

/* ---- Tests --------------------------------------------------------------- */

TEST_F_TIMEOUT(scan, changes, 300)
{
	struct client *client = &self->client;
	struct observer observer = { .client = client, .state = test_seed + WRITERS };
	struct writer writers[WRITERS] = { 0 };
	pthread_t watch, threads[WRITERS];
	struct lsmem_stat stat;
	uint32_t round, i;

	ASSERT_TRUE(at_rest(client, 0));
	for (round = 0; round < ROUNDS; round++) {
		ASSERT_EQ(0, pthread_create(&watch, NULL, observe, &observer));
		for (i = 0; i < WRITERS; i++) {
			writers[i].client = client;
			writers[i].state = test_seed + i + 10 * round;
			writers[i].changes = test_scaled(CHANGES);
			ASSERT_EQ(0, pthread_create(&threads[i], NULL, write_all, &writers[i]));
		}
		/* Whether there is anything to gain by now does not matter: it is asked for again. */
		store_set_attribute(&client->store, "cleaner/request_clean", 4);
		store_set_attribute(&client->store, "cleaner/request_compact", 4);
		for (i = 0; i < WRITERS; i++) {
			pthread_join(threads[i], NULL);
			EXPECT_EQ(0, writers[i].error);
		}
		ASSERT_TRUE(at_rest(client, count_objects(client)));
		EXPECT_EQ(0, store_set_attribute(&client->store, "cleaner/request_compact", 1000));
		ASSERT_TRUE(at_rest(client, count_objects(client)));
		EXPECT_EQ(0, store_set_attribute(&client->store, "cleaner/request_clean", 8));
		ASSERT_TRUE(at_rest(client, count_objects(client)));
		atomic_store(&observer.stop, true);
		pthread_join(watch, NULL);
		observer.stop = false;
	}
	ASSERT_EQ(0, lsm_stat(client->store.lsm, &stat));
	TH_LOG("%llu objects, %llu MiB; %llu segments compacted, %llu cleaned; %llu words observed",
	       (unsigned long long)count_objects(client), (unsigned long long)stat.live_bytes >> 20,
	       (unsigned long long)stat.segments_compacted, (unsigned long long)stat.segments_cleaned,
	       (unsigned long long)observer.checks);
	EXPECT_LT(0, stat.segments_compacted);
	EXPECT_LT(0, stat.segments_cleaned);
	EXPECT_LT(0, observer.checks);
	EXPECT_EQ(0, observer.broken);
	for (i = 0; i < OBJECTS; i++)
		if (client->objects[i])
			ASSERT_EQ(0, lsm_free(client->store.lsm, client->objects[i], 0, NULL));
	EXPECT_TRUE(at_rest(client, 0));
}

/* Groups: pages of a region are written, written again, and freed. */
TEST_F(scan, pages)
{
	struct client *client = &self->client;
	const uint64_t length = 8 * MIB;
	struct lsmem_stat stat;
	uint64_t root, i;
	uint8_t *bytes;
	int round, fd;

	fd = lsm_pages_create(client->store.lsm, length, 0, 0, &root);
	ASSERT_LE(0, fd);
	bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, bytes);
	for (round = 1; round < 4; round++) {
		for (i = 0; i < length; i += (uint64_t)round * 4096)
			bytes[i] = (uint8_t)round;
		ASSERT_EQ(0, msync(bytes, length, MS_SYNC));
		ASSERT_EQ(0, lsm_stat(client->store.lsm, &stat));
		ASSERT_LE(length / 4096, stat.handles_used);
		ASSERT_TRUE(at_rest(client, stat.handles_used));
	}
	munmap(bytes, length);
	close(fd);
	ASSERT_EQ(0, lsm_pages_remove(client->store.lsm, root));
	EXPECT_TRUE(at_rest(client, 0));
}

/* The kernel's own comparison, which store_destroy() uses, is there and has the same numbers. */
TEST_F(scan, comparison)
{
	struct client *client = &self->client;
	uint8_t bytes[100] = { 0 };
	uint64_t handle, live = 7;
	int i;

	ASSERT_EQ(0, store_livemap(&client->store, &live));
	EXPECT_EQ(0, live);
	for (i = 0; i < 50; i++)
		ASSERT_EQ(0, lsm_alloc(client->store.lsm, bytes, sizeof(bytes), 0, &handle, NULL));
	ASSERT_EQ(0, store_livemap(&client->store, &live));
	EXPECT_EQ(50, live);
	EXPECT_TRUE(at_rest(client, 50));
}

/* Another store's bitmap is another. */
TEST_F(scan, apart)
{
	struct client *client = &self->client;
	const uint64_t *others;
	struct store other;
	uint8_t byte = 1;
	uint64_t handle, i, set = 0;

	ASSERT_EQ(0, lsm_alloc(client->store.lsm, &byte, 1, 0, &handle, NULL));
	ASSERT_EQ(0, store_create(&other, STORE_BYTES, 0, 0));
	others = map(other.fd, &client->info.livemap);
	ASSERT_NE(NULL, others);
	for (i = 0; i < client->info.livemap.length / 8; i++)
		set |= load(&others[i]);
	EXPECT_EQ(0, set);
	munmap((void *)others, client->info.livemap.length);
	EXPECT_EQ(0, store_destroy(&other));
	EXPECT_TRUE(at_rest(client, 1));
}

TEST_HARNESS_MAIN
