// SPDX-License-Identifier: GPL-2.0
/*
 * A store whose capacity is larger than its memory: objects leave memory and come back, whole, whatever
 * is done to them meanwhile.  The backup is in this program (keeper.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "keeper.h"
#include "store.h"

#define CAPACITY	(320 * MIB)
#define OBJECTS		30000u
#define LENGTH_MAX	(200u << 10)
#define THREADS		3u
#define STEPS		10000u	/* of each thread: together they write more than the log has room for */
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
static uint32_t choose_length(uint64_t *state)
{
	uint32_t dice = random_below(state, 1000);

	if (dice < 500)
		return CONTENT_MIN + random_below(state, 2000);
	if (dice < 900)
		return 2000 + random_below(state, 40000);
	return LENGTH_MAX - random_below(state, LENGTH_MAX - 40000);
}

static int put_length(struct lsm *lsm, struct object *object, uint32_t id, uint8_t *bytes, uint32_t length)
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

static int put(struct lsm *lsm, struct object *object, uint32_t id, uint8_t *bytes, uint64_t *state)
{
	return put_length(lsm, object, id, bytes, choose_length(state));
}

/* 0: it is as it was written; 1: it is not; else a negative errno. */
static int check(struct lsm *lsm, const struct object *object, uint32_t id, uint8_t *bytes)
{
	ssize_t ret = lsm_read(lsm, object->handle, bytes, LENGTH_MAX, 0, NULL);

	if (ret < 0)
		return (int)ret;
	return ret != object->length || !content_is(bytes, object->length, id, object->serial);
}

/* Objects until @percent of the capacity is live. */
static int fill(struct _test_data_tier *self, uint32_t percent)
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

/* More than memory holds, all read back, twice; replaced; deleted. */
TEST_F_TIMEOUT(tier, more_than_memory, SECONDS)
{
	uint32_t each = 100 / (uint32_t)test_scaled(100), i, round;
	uint64_t first;

	ASSERT_EQ(0, fill(self, 80));
	tier_print(&self->store);
	EXPECT_LT(0, tier_attribute(&self->store, "cold_bytes"));
	EXPECT_GT((long long)STORE_BYTES, tier_attribute(&self->store, "resident_bytes"));
	for (round = 0; round < 2; round++)
		for (i = 0; i < self->nr; i += round ? each : 1)
			ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	tier_print(&self->store);
	EXPECT_LT((long long)self->nr / 2, tier_attribute(&self->store, "fetches"));
	for (i = 0; i < self->nr; i += 3 * each)
		ASSERT_EQ(0, put(self->store.lsm, &self->objects[i], i, self->bytes, &self->random));
	for (i = 0; i < self->nr; i += each)
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	tier_print(&self->store);
	for (i = 0; i < self->nr; i++)
		ASSERT_EQ(0, lsm_free(self->store.lsm, self->objects[i].handle, 0, NULL));
	EXPECT_EQ(-ESTALE, check(self->store.lsm, &self->objects[0], 0, self->bytes));
	first = self->objects[1].handle;
	self->objects[1].handle = 0;
	ASSERT_EQ(0, put(self->store.lsm, &self->objects[1], 1, self->bytes, &self->random));
	EXPECT_NE(first, self->objects[1].handle);
	tier_print(&self->store);
	EXPECT_EQ(0, tier_attribute(&self->store, "cold_bytes"));
	EXPECT_EQ(0, tier_attribute(&self->store, "cached_bytes"));
	EXPECT_EQ(0, tier_attribute(&self->store, "fetch_failures"));
}

/* Find an object that is COLD, from the one with number @i on. */
static uint32_t find_cold(struct _test_data_tier *self, uint32_t i)
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

/*
 * Pages of a range whose objects have left memory come back when they are read, and are counted apart.  They are
 * written while the store fills up, so that they are in all segments, whichever of them the hand sweeps.
 */
TEST_F_TIMEOUT(tier, pages, SECONDS)
{
	enum { PAGES = 256, TOGETHER = 8, PERCENT = 80 };
	struct lsmem_pages range = {
		.size = sizeof(range), .flags = LSMEM_PAGES_CREATE, .length = PAGES * 4096,
	};
	long long fetched;
	uint32_t i;

	ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_PAGES, &range));
	for (i = 0; i < PAGES; i++) {
		content_fill(self->bytes, 4096, i, 1);
		ASSERT_EQ(4096, pwrite(range.fd, self->bytes, 4096, (off_t)i * 4096));
		if ((i + 1) % TOGETHER)
			continue;
		ASSERT_EQ(0, fsync(range.fd));
		ASSERT_EQ(0, fill(self, PERCENT * (i + 1) / PAGES));
	}
	close(range.fd);
	range = (struct lsmem_pages){ .size = sizeof(range), .root = range.root };
	ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_PAGES, &range));
	for (i = 0; i < PAGES; i++) {
		ASSERT_EQ(4096, pread(range.fd, self->bytes, 4096, (off_t)i * 4096));
		ASSERT_TRUE(content_is(self->bytes, 4096, i, 1)) TH_LOG("page %u", i);
	}
	close(range.fd);
	fetched = store_attribute(&self->store, "pages/fetched_pages");
	printf("# of %u pages %lld were fetched\n", PAGES, fetched);
	EXPECT_EQ(PAGES, fetched + store_attribute(&self->store, "pages/read_pages"));
	EXPECT_LT(PAGES / 16, fetched);
	EXPECT_GT(PAGES, fetched);
}

/* Items of a table of which some are not in memory: they are found, listed, and found by an index that is made anew. */
TEST_F_TIMEOUT(tier, table, SECONDS)
{
	enum { ITEMS = 400, TOGETHER = 8, PERCENT = 80, TABLE = 9 };
	struct lsm *lsm = self->store.lsm;
	struct lsm_listed listed[64];
	struct lsm_table *table;
	uint64_t cursor = 0, all = 0;
	long long fetched;
	uint32_t i, round;
	ssize_t nr;

	ASSERT_EQ(0, lsm_table_open(lsm, TABLE, 0, &table));
	for (i = 0; i < ITEMS; i++) {
		content_fill(self->bytes, 1000, i, 1);
		ASSERT_EQ(0, lsm_table_put(table, &i, sizeof(i), self->bytes, 1000, LSM_NEW, NULL));
		if ((i + 1) % TOGETHER == 0)
			ASSERT_EQ(0, fill(self, PERCENT * (i + 1) / ITEMS));
	}
	fetched = tier_attribute(&self->store, "fetches");
	for (round = 0; round < 2; round++) {
		for (i = 0; i < ITEMS; i++) {
			ASSERT_EQ(1000, lsm_table_get(table, &i, sizeof(i), self->bytes, LENGTH_MAX, NULL));
			ASSERT_TRUE(content_is(self->bytes, 1000, i, 1)) TH_LOG("item %u", i);
		}
		lsm_table_close(table);
		if (round)
			break;
		/* All objects are listed, those on the backups only as well. */
		while ((nr = lsm_next(lsm, -1, &cursor, listed, 64)) > 0)
			all += (uint64_t)nr;
		ASSERT_EQ(0, nr);
		EXPECT_EQ(self->nr + ITEMS, all);
		for (cursor = all = 0; (nr = lsm_next(lsm, TABLE, &cursor, listed, 64)) > 0; all += (uint64_t)nr)
			EXPECT_EQ(1000 + sizeof(i) + sizeof(struct lsmem_item_end), listed[0].object.length);
		EXPECT_EQ(ITEMS, all);
		ASSERT_EQ(0, store_forget_index(&self->store, TABLE));
		ASSERT_EQ(0, lsm_table_open(lsm, TABLE, 0, &table));
	}
	fetched = tier_attribute(&self->store, "fetches") - fetched;
	printf("# %lld fetches\n", fetched);
	EXPECT_LT(ITEMS / 16, fetched);
}

/* Groups of objects of which some are not in memory: they are fetched, and all are replaced, or one is checked, or none. */
TEST_F_TIMEOUT(tier, groups, SECONDS)
{
	enum { GROUPS = 100, NR = 16 };
	uint32_t group, i, at, cold = 0, checked = 0;
	struct lsmem_op ops[NR];

	ASSERT_EQ(0, fill(self, 80));
	for (group = 0; group < GROUPS; group++) {
		for (i = 0; i < NR; i++) {
			at = (group * NR + i) * (self->nr / (GROUPS * NR));
			content_fill(self->bytes + i * CONTENT_MIN, CONTENT_MIN, at, self->objects[at].serial + 1);
			ops[i] = lsm_op_replace(self->objects[at].handle, self->bytes + i * CONTENT_MIN,
						CONTENT_MIN, 0, 0);
			cold += find_cold(self, at) == at;
			checked += !i && find_cold(self, at) == at;
			if (!i)
				ops[i] = lsm_op_check(self->objects[at].handle, 0, 0);
		}
		/* The last operation of every other group fails. */
		if (group % 2)
			ops[NR - 1] = lsm_op_replace(ops[NR - 1].handle, self->bytes, 1, LSM_EXPECT, 1);
		ASSERT_EQ(group % 2 ? -EILSEQ : 0, lsm_vector(self->store.lsm, ops, NR, LSM_ATOMIC, NULL));
		for (i = 0; i < NR; i++) {
			at = (group * NR + i) * (self->nr / (GROUPS * NR));
			if (i && group % 2 == 0) {
				self->objects[at].serial++;
				self->objects[at].length = CONTENT_MIN;
			}
			ASSERT_EQ(0, check(self->store.lsm, &self->objects[at], at, self->bytes));
		}
	}
	printf("# of %u objects %u were not in memory, %u of those that were checked\n", GROUPS * NR, cold, checked);
	EXPECT_LT(0, checked);
	EXPECT_LT(checked, cold);
}

/* As long as memory holds all that is live, nothing leaves it, however much is overwritten. */
TEST_F_TIMEOUT(tier, all_fits, SECONDS)
{
	uint32_t rounds = (uint32_t)test_scaled(3), i, at;

	ASSERT_EQ(0, fill(self, 32));		/* 80 % of the memory, and so it stays: 83 % are the limit */
	for (i = 0; i < rounds * self->nr; i++) {
		at = random_below(&self->random, self->nr);
		ASSERT_EQ(0, put_length(self->store.lsm, &self->objects[at], at, self->bytes,
					self->objects[at].length));
	}
	tier_print(&self->store);
	EXPECT_LT((long long)STORE_BYTES / 4 * 3, store_attribute(&self->store, "live_bytes"));
	EXPECT_LT(0, store_attribute(&self->store, "cleaner/compactions"));
	EXPECT_EQ(0, tier_attribute(&self->store, "evicted"));
	EXPECT_EQ(0, tier_attribute(&self->store, "cold_bytes"));
	for (i = 0; i < self->nr; i++)
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	EXPECT_EQ(0, tier_attribute(&self->store, "fetches"));
}

struct worker {
	struct _test_data_tier *tier;
	pthread_t thread;
	struct lsm *lsm;
	uint64_t random;
	uint8_t *bytes;
	uint32_t steps;
	int error;
	uint32_t at;
};

static int step(struct worker *worker, struct object *object, uint32_t id)
{
	uint32_t dice = random_below(&worker->random, 100);
	int ret;

	if (!object->handle)
		return put(worker->lsm, object, id, worker->bytes, &worker->random);
	if (dice < 45)
		return check(worker->lsm, object, id, worker->bytes);
	if (dice < 97)
		return put(worker->lsm, object, id, worker->bytes, &worker->random);
	ret = lsm_free(worker->lsm, object->handle, 0, NULL);
	object->handle = 0;
	return ret;
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;

	while (!worker->error && worker->steps--) {
		struct object *object;

		/* Half of all goes to a tenth of the objects. */
		worker->at = random_below(&worker->random, worker->tier->nr);
		if (random_chance(&worker->random, 50))
			worker->at /= 10;
		object = &worker->tier->objects[worker->at];
		pthread_mutex_lock(&object->lock);
		worker->error = step(worker, object, worker->at);
		pthread_mutex_unlock(&object->lock);
	}
	return NULL;
}

/* Several threads do what they like; eviction, fetching, compaction and cleaning go on beside. */
TEST_F_TIMEOUT(tier, all_at_once, SECONDS)
{
	struct worker workers[THREADS] = { 0 };
	uint32_t i;

	ASSERT_EQ(0, fill(self, 90));
	tier_print(&self->store);
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){
			.tier = self,
			.random = test_seed + i + 1,
			.bytes = malloc(LENGTH_MAX),
			.steps = STEPS,
			.lsm = self->store.lsm,
		};
		ASSERT_EQ(0, pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]));
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		EXPECT_EQ(0, workers[i].error) TH_LOG("object %u", workers[i].at);
		free(workers[i].bytes);
	}
	tier_print(&self->store);
	for (i = 0; i < self->nr; i++)
		if (self->objects[i].handle)
			ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	EXPECT_LT(0, store_attribute(&self->store, "cleaner/segments_cleaned"));
	EXPECT_LT(0ul, atomic_load(&self->keeper.segments));
	EXPECT_EQ(0, tier_attribute(&self->store, "fetch_failures"));
}

/* Objects that were asked for come without a wait, and their reads need no request. */
TEST_F_TIMEOUT(tier, prefetch, SECONDS)
{
	uint64_t handles[100], end;
	long long fetches;
	uint32_t first, i;

	ASSERT_EQ(0, fill(self, 70));
	first = find_cold(self, 0);
	ASSERT_GT(self->nr, first + ARRAY_SIZE(handles));
	for (i = 0; i < ARRAY_SIZE(handles); i++)
		handles[i] = self->objects[first + i].handle;
	fetches = tier_attribute(&self->store, "fetches");
	ASSERT_EQ(0, lsm_prefetch(self->store.lsm, handles, ARRAY_SIZE(handles)));
	end = now_ms() + test_limit(20000);
	while (tier_attribute(&self->store, "requests") && now_ms() < end)
		usleep(1000);
	EXPECT_EQ(0, tier_attribute(&self->store, "requests"));
	EXPECT_LT(fetches, tier_attribute(&self->store, "fetches"));
	fetches = tier_attribute(&self->store, "fetches");
	for (i = 0; i < ARRAY_SIZE(handles); i++)
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[first + i], first + i, self->bytes));
	EXPECT_EQ(fetches, tier_attribute(&self->store, "fetches"));

	/* The daemon does not answer: there is no wait. */
	first = find_cold(self, first + ARRAY_SIZE(handles));
	ASSERT_GT(self->nr, first);
	atomic_store(&self->keeper.mood, KEEPER_SILENT);
	end = now_ms() + test_limit(2000);
	EXPECT_EQ(0, lsm_prefetch(self->store.lsm, &self->objects[first].handle, 1));
	EXPECT_GT(end, now_ms());
	EXPECT_EQ(1, tier_attribute(&self->store, "requests"));
}

/**
 * struct scanned - what a scan has found
 * @objects: by the ids in their bytes
 * @nr: entries of @objects
 * @rows: objects
 * @wrong: of these, other bytes than they should have
 */
struct scanned {
	const struct object *objects;
	uint32_t nr;
	uint64_t rows;
	uint64_t wrong;
};

static int look(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	struct scanned *scanned = context;
	uint64_t id;
	size_t i;

	(void)thread;
	for (i = 0; i < nr; i++) {
		memcpy(&id, (const uint8_t *)rows[i].data + 8, sizeof(id));
		scanned->wrong += id >= scanned->nr || rows[i].handle != scanned->objects[id].handle ||
				  rows[i].bytes != scanned->objects[id].length ||
				  !content_is(rows[i].data, rows[i].bytes, id, scanned->objects[id].serial);
	}
	scanned->rows += nr;
	return 0;
}

/*
 * A scan of the handle table tells how many objects are not in memory, an exact one finds them; one of a list fetches
 * them.
 */
TEST_F_TIMEOUT(tier, scans, SECONDS)
{
	struct scanned scanned = { .objects = self->objects };
	struct lsm_scan scan = { .threads = 1, .batch = look, .context = &scanned };
	struct lsm_scan_result result;
	uint64_t handles[300];
	uint32_t first, i;

	ASSERT_EQ(0, fill(self, 70));
	scanned.nr = self->nr;
	first = find_cold(self, 0);
	ASSERT_GT(self->nr, first + ARRAY_SIZE(handles));
	scan.plan = LSM_PLAN_TABLE;
	ASSERT_EQ(0, lsm_scan(self->store.lsm, &scan, &result));
	EXPECT_LT(0, result.cold);
	EXPECT_LT(0, result.rows);
	EXPECT_EQ(self->nr, result.rows + result.cold);
	EXPECT_EQ(result.rows, scanned.rows);
	scanned.rows = 0;
	scan.plan = LSM_PLAN_AUTO;
	ASSERT_EQ(0, lsm_scan(self->store.lsm, &scan, &result));
	EXPECT_EQ(LSM_PLAN_LOG, result.explain.plan);
	EXPECT_EQ(self->nr, scanned.rows);
	EXPECT_EQ(0, result.cold);
	for (i = 0; i < ARRAY_SIZE(handles); i++)
		handles[i] = self->objects[first + i].handle;
	scan.handles = handles;
	scan.nr_handles = ARRAY_SIZE(handles);
	for (scan.plan = LSM_PLAN_LOOKUP; scan.plan <= LSM_PLAN_SORTED; scan.plan++) {
		scanned.rows = 0;
		ASSERT_EQ(0, lsm_scan(self->store.lsm, &scan, &result));
		EXPECT_EQ(ARRAY_SIZE(handles), scanned.rows);
		EXPECT_EQ(0, result.gone);
	}
	EXPECT_EQ(0, scanned.wrong);
}

/* A backup that is damaged: an error, and never other bytes; it is good again: the object is there. */
TEST_F_TIMEOUT(tier, damaged_backup, SECONDS)
{
	uint32_t i;

	ASSERT_EQ(0, fill(self, 70));
	i = find_cold(self, 0);
	ASSERT_GT(self->nr, i);
	atomic_store(&self->keeper.mood, KEEPER_DAMAGED);
	EXPECT_EQ(-EIO, check(self->store.lsm, &self->objects[i], i, self->bytes));
	EXPECT_EQ(-EIO, lsm_free(self->store.lsm, self->objects[i].handle, 0, NULL));
	EXPECT_EQ(-EIO, put(self->store.lsm, &self->objects[i], i, self->bytes, &self->random));
	EXPECT_LE(3, tier_attribute(&self->store, "fetch_failures"));
	atomic_store(&self->keeper.mood, KEEPER_SHORT);
	for (; i < self->nr; i++)
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	EXPECT_LT(0ul, atomic_load(&self->keeper.again));
}

/* A pass that gains nothing is refused: two segments become one. */
#define VICTIMS	2u

/* The emptiest segments that have cold objects and can be cleaned. Returns how many there are. */
static uint32_t find_cold_segments(const struct lsmem_cleaning *cleaning,
				   const struct lsmem_segment_stat *best[VICTIMS])
{
	const struct lsmem_segment_stat *stats = (const void *)((const uint8_t *)cleaning + cleaning->segments);
	uint32_t i, j, nr = 0;

	for (i = 0; i < cleaning->nr_segments; i++) {
		if (!stats[i].id || !stats[i].cold || !(stats[i].flags & LSMEM_SEGMENT_CLEANABLE))
			continue;
		for (j = nr; j && stats[i].live + stats[i].cold < best[j - 1]->live + best[j - 1]->cold; j--)
			if (j < VICTIMS)
				best[j] = best[j - 1];
		if (j < VICTIMS)
			best[j] = &stats[i];
		nr += nr < VICTIMS;
	}
	return nr;
}

static const struct lsmem_cleaning *segments_window(const struct _test_data_tier *self)
{
	const struct lsmem_window *segments = &self->follower.info->segments;

	return mmap(NULL, segments->length, PROT_READ, MAP_SHARED, self->follower.attach.fd,
		    (off_t)segments->offset);
}

/* Have segments cleaned, and wait for the end of the pass. Returns 0 or a negative errno. */
static int clean(const struct _test_data_tier *self, const struct lsmem_cleaning *cleaning,
		 const uint64_t ids[VICTIMS])
{
	struct lsmem_clean call = { .size = sizeof(call), .segments = (uintptr_t)ids, .nr = VICTIMS };
	uint64_t end = now_ms() + test_limit(20000);

	if (ioctl(self->follower.attach.fd, LSMEM_REPL_CLEAN, &call))
		return -errno;
	while (__atomic_load_n(&cleaning->begun, __ATOMIC_ACQUIRE) !=
	       __atomic_load_n(&cleaning->ended, __ATOMIC_ACQUIRE)) {
		if (now_ms() > end)
			return -ETIMEDOUT;
		usleep(1000);
	}
	return 0;
}

/* Segments that no backup has whole stay, and are no victims again until another daemon attaches. */
TEST_F_TIMEOUT(tier, unreadable_segment, SECONDS)
{
	const struct lsmem_segment_stat *best[VICTIMS];
	const struct lsmem_cleaning *cleaning;
	uint64_t ids[VICTIMS], end;
	size_t length;
	uint32_t i;
	int ret;

	ASSERT_EQ(0, fill(self, 70));
	for (i = 0; i < self->nr; i++)
		if (i % 10)
			ASSERT_EQ(0, lsm_free(self->store.lsm, self->objects[i].handle, 0, NULL));
	length = self->follower.info->segments.length;
	cleaning = segments_window(self);
	ASSERT_NE(MAP_FAILED, (void *)cleaning);
	atomic_store(&self->keeper.mood, KEEPER_DAMAGED);
	end = now_ms() + test_limit(20000);
	do {	/* a compactor may take one first */
		ASSERT_GT(end, now_ms());
		ASSERT_EQ(VICTIMS, find_cold_segments(cleaning, best));
		for (i = 0; i < VICTIMS; i++)
			ids[i] = best[i]->id;
		ret = clean(self, cleaning, ids);
	} while (ret == -ENOENT);
	ASSERT_EQ(0, ret);
	for (i = 0; i < VICTIMS; i++) {
		EXPECT_EQ(ids[i], best[i]->id);
		EXPECT_EQ(0u, best[i]->flags & LSMEM_SEGMENT_CLEANABLE);
	}
	EXPECT_EQ(-ENOENT, clean(self, cleaning, ids));

	munmap((void *)cleaning, length);	/* it holds the descriptor */
	ASSERT_EQ(0, keeper_succeed(&self->keeper, &self->follower, &self->store));
	cleaning = segments_window(self);
	ASSERT_NE(MAP_FAILED, (void *)cleaning);
	end = now_ms() + test_limit(20000);
	do {
		ASSERT_GT(end, now_ms());
		ret = clean(self, cleaning, ids);
	} while (ret == -ENOENT);
	ASSERT_EQ(0, ret);
	for (i = 0; i < self->nr; i += 10)
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	EXPECT_EQ(VICTIMS, store_attribute(&self->store, "cleaner/segments_cleaned"));
	munmap((void *)cleaning, length);
}

#define WAITERS	64u	/* operations of a vector */

/* A daemon that does not answer: the wait is bounded; its successor is told again. */
TEST_F_TIMEOUT(tier, silent_daemon, SECONDS)
{
	struct lsmem_op ops[WAITERS];
	uint64_t begin;
	uint32_t i, k;

	ASSERT_EQ(0, fill(self, 70));
	i = find_cold(self, 0);
	ASSERT_GT(self->nr, i);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/fetch_ms", 300));
	atomic_store(&self->keeper.mood, KEEPER_SILENT);
	begin = now_ms();
	EXPECT_EQ(-ETIMEDOUT, check(self->store.lsm, &self->objects[i], i, self->bytes));
	EXPECT_LE(300, now_ms() - begin);
	EXPECT_GT(test_limit(2000), now_ms() - begin);
	EXPECT_EQ(1, tier_attribute(&self->store, "requests"));
	/* A vector waits once, and what is in memory is read. */
	for (k = 0; k < WAITERS; k++)
		ops[k] = lsm_op_read(self->objects[k < WAITERS - 1 ? i : self->nr - 1].handle, self->bytes,
				     LENGTH_MAX, 0);
	begin = now_ms();
	EXPECT_EQ(0, lsm_vector(self->store.lsm, ops, WAITERS, 0, NULL));
	EXPECT_GT(test_limit(2000), now_ms() - begin);
	for (k = 0; k < WAITERS; k++)
		EXPECT_EQ(k < WAITERS - 1 ? -ETIMEDOUT : 0, ops[k].result);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/fetch_ms", 10000));

	/* The same store, another attachment. */
	ASSERT_EQ(0, keeper_succeed(&self->keeper, &self->follower, &self->store));
	EXPECT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes));
}

/* Where the newest version of an object is on the backup; id 0: nowhere. */
struct place {
	uint64_t id;
	struct lsmem_directory_entry listing;
};

/* Note the objects of a frame that are newer than what is known. */
static void list_frame(const struct keeper_frame *frame, struct place *places, uint64_t nr)
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
static int place_frame(const struct follower *follower, const struct keeper_frame *frame,
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

static int by_id(const void *a, const void *b)
{
	const struct keeper_frame *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/*
 * Lose all memory, and place what the backup lists in a new store; the keeper stands still.  @places: for
 * each handle.  Returns the number of segments that have any, or a negative errno.
 */
static int place_all(struct _test_data_tier *self, struct place *places, uint32_t flags)
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

static int place_call(const struct follower *follower, const struct keeper_frame *frame,
		      struct lsmem_directory_entry *listing, uint32_t length, uint32_t flags)
{
	struct lsmem_placement place = {
		.size = sizeof(place),
		.flags = flags,
		.segment = frame->id,
		.generation = 1,
		.sealed = length,
		.entries = (uintptr_t)listing,
		.nr = !!listing,
	};

	return ioctl(follower->attach.fd, LSMEM_REPL_PLACE, &place) ? -errno : 0;
}

static struct keeper_frame *frame_of(struct keeper *keeper, uint64_t id)
{
	struct keeper_frame *frame = keeper->frames;

	while (frame->id != id)
		frame++;
	return frame;
}

/*
 * Place all entries of a frame that are newer than what is placed, as if they were told while the frame grew: an older
 * one is taken back.  Returns how many were, or a negative errno.
 */
static int place_growing(struct _test_data_tier *self, const struct keeper_frame *frame, struct place *places, uint64_t nr)
{
	const struct follower *follower = &self->follower;
	uint32_t at = 0, size;
	int again = 0, ret;

	for (; at < frame->length; at = lsmem_entry_start(at + size)) {
		const struct lsmem_entry *e = (const void *)(frame->bytes + at);
		uint64_t index = lsmem_handle_index(lsmem_entry_handle(e));
		struct lsmem_directory_entry listing = lsmem_entry_listing(e, at);
		struct place *place = &places[index];

		size = lsmem_entry_bytes(e);
		if (lsmem_entry_type(e) != LSMEM_TYPE_OBJECT || index >= nr ||
		    (place->id && lsmem_entry_version(e) <= __le64_to_cpu(place->listing.version)))
			continue;
		if (place->id) {
			const struct keeper_frame *old = frame_of(&self->keeper, place->id);

			ret = place_call(follower, old, &place->listing, place->id == frame->id ? at : old->length,
					 LSMEM_PLACEMENT_BACK);
			if (ret)
				return ret;
			again++;
		}
		ret = place_call(follower, frame, &listing, at + size, 0);
		if (ret)
			return ret;
		*place = (struct place){ frame->id, listing };
	}
	return again;
}

/* Wait until an attribute of the tier has a value. Returns false if it does not. */
static bool becomes(const struct _test_data_tier *self, const char *name, long long value)
{
	uint64_t end = now_ms() + test_limit(60000);

	while (tier_attribute(&self->store, name) != value) {
		if (now_ms() > end)
			return false;
		usleep(10000);
	}
	return true;
}

/* All memory is lost: what the backup lists is there at once, and is read when it is wanted. */
TEST_F_TIMEOUT(tier, everything_is_placed, SECONDS)
{
	struct place *places = calloc(self->follower.attach.handles_max, sizeof(*places));
	uint32_t each = 100 / (uint32_t)test_scaled(100), i;
	struct scanned scanned = { .objects = self->objects };
	struct lsm_scan scan = { .flags = LSM_SCAN_EXACT, .threads = 1, .batch = look, .context = &scanned };
	int placed;

	ASSERT_EQ(0, fill(self, 60));
	scanned.nr = self->nr;
	for (i = 0; i < self->nr; i += 5)
		ASSERT_EQ(0, put(self->store.lsm, &self->objects[i], i, self->bytes, &self->random));
	ASSERT_EQ(0, lsm_sync(self->store.lsm, 0));
	placed = place_all(self, places, 0);
	ASSERT_LT(0, placed);
	atomic_store(&self->keeper.segments, 0);
	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
	EXPECT_EQ(store_attribute(&self->store, "live_bytes"),
		  tier_attribute(&self->store, "cold_bytes"));
	EXPECT_EQ(self->nr, store_attribute(&self->store, "handles_used"));
	/* A scan finds all, while what it reads comes into memory. */
	ASSERT_EQ(0, lsm_scan(self->store.lsm, &scan, NULL));
	EXPECT_EQ(self->nr, scanned.rows);
	EXPECT_EQ(0, scanned.wrong);
	/* What fits comes into memory by itself; the rest is verified. */
	ASSERT_EQ(0, check(self->store.lsm, &self->objects[0], 0, self->bytes));
	EXPECT_TRUE(becomes(self, "warm_segments", 0));
	EXPECT_TRUE(becomes(self, "unverified_segments", 0));
	EXPECT_EQ((unsigned long)placed, atomic_load(&self->keeper.segments));
	EXPECT_EQ(0, tier_attribute(&self->store, "unreadable_segments"));
	EXPECT_LT((long long)STORE_BYTES / 2, tier_attribute(&self->store, "resident_bytes"));
	EXPECT_EQ(0, tier_attribute(&self->store, "evicted"));
	tier_print(&self->store);
	for (i = 0; i < self->nr; i += each)
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	for (i = 0; i < self->nr; i += 3 * each)
		ASSERT_EQ(0, put(self->store.lsm, &self->objects[i], i, self->bytes, &self->random));
	for (i = 0; i < self->nr; i += each)
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	free(places);
}

/* Another daemon attaches: how many of the segments of @places is it told, in the order of their ids? */
static int resumed(struct _test_data_tier *self, const uint8_t *uuid, const struct place *places, uint64_t nr)
{
	static struct lsmem_event events[1024];
	uint64_t last = 0, i;
	bool more = true;
	int ret, told = 0;
	uint32_t k;

	keeper_stop(&self->keeper);
	follower_stop(&self->follower);
	follower_free(&self->follower);
	ret = follower_attach_as(&self->follower, self->store.name, uuid);
	while (!ret && more) {
		struct lsmem_next next = { .size = sizeof(next), .events = (uintptr_t)events, .nr = 1024 };

		if (ioctl(self->follower.attach.fd, LSMEM_REPL_NEXT, &next))
			ret = -errno;
		for (k = 0; !ret && more && k < next.nr; k++) {
			uint64_t id = events[k].segment;

			more = id != ~0ull;
			if (more && (events[k].type != LSMEM_EVENT_RESUME || id <= last))
				ret = -EPROTO;
			last = id;
			for (i = 0; i < nr && places[i].id != id; i++)
				;
			told += i < nr;
		}
	}
	close(self->follower.attach.fd);
	follower_free(&self->follower);
	self->follower.keeper = &self->keeper;
	if (!ret)
		ret = follower_succeed(&self->follower, &self->store, uuid);
	if (!ret)
		ret = keeper_start(&self->keeper, &self->follower);
	return ret ? ret : told;
}

/* What changes is placed again: segments come in any order, as they grow, and those that have nothing any more go. */
TEST_F_TIMEOUT(tier, placed_while_it_changes, SECONDS)
{
	uint64_t nr = self->follower.attach.handles_max, next = 0;
	struct place *places = calloc(nr, sizeof(*places));
	struct keeper_frame *frame;
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint32_t i, again = 0, turn;
	int ret, listed = 0;

	ASSERT_EQ(0, fill(self, 30));
	for (i = 0; i < self->nr; i += 3)
		ASSERT_EQ(0, put(self->store.lsm, &self->objects[i], i, self->bytes, &self->random));
	for (i = 0; i < self->nr; i += 10)
		ASSERT_EQ(0, put(self->store.lsm, &self->objects[i], i, self->bytes, &self->random));
	ASSERT_EQ(0, lsm_sync(self->store.lsm, 0));
	memcpy(uuid, self->follower.attach.uuid, sizeof(uuid));
	keeper_stop(&self->keeper);
	follower_stop(&self->follower);
	follower_free(&self->follower);
	ASSERT_EQ(0, store_destroy(&self->store));
	qsort(self->keeper.frames, KEEPER_FRAMES, sizeof(*self->keeper.frames), by_id);
	ASSERT_EQ(0, store_create_tiered(&self->store, STORE_BYTES, CAPACITY, 0, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_attach_as(&self->follower, self->store.name, uuid));
	self->follower.keeper = &self->keeper;
	/* Every other segment, and then those in between. */
	for (turn = 0; turn < 2; turn++)
		for (i = turn; i < KEEPER_FRAMES; i += 2) {
			frame = &self->keeper.frames[i];
			if (!frame->id)
				continue;
			ret = place_growing(self, frame, places, nr);
			ASSERT_LE(0, ret) TH_LOG("segment %llu: %d", (unsigned long long)frame->id, ret);
			again += ret;
			next = frame->id >= next ? frame->id + 1 : next;
		}
	EXPECT_LT(0u, again);
	EXPECT_EQ(self->nr, store_attribute(&self->store, "handles_used"));
	/* One goes when all of it is taken back, and comes again. */
	for (frame = self->keeper.frames; !frame->id || place_frame(&self->follower, frame, places, nr) != -EINVAL;)
		frame++;
	EXPECT_EQ(-EBUSY, place_call(&self->follower, frame, NULL, frame->length, LSMEM_PLACEMENT_GONE));
	for (i = 0; i < nr; i++)
		if (places[i].id == frame->id)
			ASSERT_EQ(0, place_call(&self->follower, frame, &places[i].listing, frame->length,
						LSMEM_PLACEMENT_BACK));
	EXPECT_GT(self->nr, store_attribute(&self->store, "handles_used"));
	ASSERT_EQ(0, place_call(&self->follower, frame, NULL, frame->length, LSMEM_PLACEMENT_GONE));
	ASSERT_EQ(-ENOENT, place_call(&self->follower, frame, NULL, frame->length, LSMEM_PLACEMENT_GONE));
	ASSERT_LT(0, place_frame(&self->follower, frame, places, nr));
	EXPECT_EQ(self->nr, store_attribute(&self->store, "handles_used"));
	ksft_print_msg("%u of %u objects placed again\n", again, self->nr);
	ASSERT_EQ(0, follower_activate(&self->follower, &(struct lsmem_activate){
		.size = sizeof(struct lsmem_activate),
		.era = 2,
		.next_segment = next,
		.generation_floor = 100,
		.generation_ceiling = 1u << 20,
		.store_time = 1ull << 40,
	}));
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
	for (i = 0; i < KEEPER_FRAMES; i++)
		listed += self->keeper.frames[i].id &&
			  place_frame(&self->follower, &self->keeper.frames[i], places, nr);
	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
	ASSERT_EQ(listed, resumed(self, uuid, places, nr));
	for (i = 0; i < self->nr; i++)
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	EXPECT_TRUE(becomes(self, "warm_segments", 0));
	EXPECT_TRUE(becomes(self, "unverified_segments", 0));
	for (i = 0; i < self->nr; i += 4)
		ASSERT_EQ(0, put(self->store.lsm, &self->objects[i], i, self->bytes, &self->random));
	for (i = 0; i < self->nr; i++)
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	free(places);
}

/* Change a byte of an object on the backup. */
static void damage(struct keeper *keeper, const struct place *place)
{
	struct keeper_frame *frame = keeper->frames;

	while (frame->id != place->id)
		frame++;
	frame->bytes[LSMEM_LISTING_GET(__le64_to_cpu(place->listing.meta), HOME) * LSMEM_ALIGN +
		     LSMEM_LONG_BYTES] ^= 1;
}

/*
 * All segments are verified behind a restart, also by a daemon that comes later, and nothing is put into
 * memory that is not to be warm.  One that no backup has whole is named; of its objects those are errors
 * that are damaged.
 */
TEST_F_TIMEOUT(tier, verified_behind, SECONDS)
{
	struct place *places = calloc(self->follower.attach.handles_max, sizeof(*places)), *bad;
	const char *text = "is not whole on any backup";
	uint32_t each = 100 / (uint32_t)test_scaled(100), i;
	uint8_t uuid[LSMEM_UUID_BYTES];
	int placed, said;
	uint64_t end;

	memcpy(uuid, self->follower.attach.uuid, sizeof(uuid));
	ASSERT_EQ(0, fill(self, 50));
	ASSERT_EQ(0, lsm_sync(self->store.lsm, 0));
	/* Off: only what is wanted is read. */
	ASSERT_LT(0, place_all(self, places, LSMEM_ACTIVATE_COLD | LSMEM_ACTIVATE_UNVERIFIED));
	atomic_store(&self->keeper.segments, 0);
	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
	EXPECT_EQ(0, tier_attribute(&self->store, "unverified_segments"));
	EXPECT_EQ(0, check(self->store.lsm, &self->objects[0], 0, self->bytes));
	EXPECT_EQ(0u, atomic_load(&self->keeper.segments));

	/* A daemon goes that has not answered. */
	bad = &places[lsmem_handle_index(self->objects[self->nr / 2].handle)];
	damage(&self->keeper, bad);
	said = log_says(text);
	placed = place_all(self, places, LSMEM_ACTIVATE_COLD);
	ASSERT_LT(0, placed);
	atomic_store(&self->keeper.mood, KEEPER_ASLEEP);
	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
	EXPECT_TRUE(becomes(self, "requests", 1));
	keeper_stop(&self->keeper);
	follower_stop(&self->follower);
	follower_free(&self->follower);
	EXPECT_EQ(placed, tier_attribute(&self->store, "unverified_segments"));
	atomic_store(&self->keeper.mood, KEEPER_GOOD);
	ASSERT_EQ(0, follower_succeed(&self->follower, &self->store, uuid));
	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
	EXPECT_TRUE(becomes(self, "unverified_segments", 0));
	EXPECT_EQ((unsigned long)placed, atomic_load(&self->keeper.segments));
	EXPECT_EQ(1, tier_attribute(&self->store, "unreadable_segments"));
	EXPECT_EQ(1, tier_attribute(&self->store, "fetch_failures"));
	EXPECT_EQ(0, tier_attribute(&self->store, "warm_segments"));
	EXPECT_EQ(0, tier_attribute(&self->store, "resident_bytes"));
	EXPECT_EQ(said < 0 ? said : said + 1, log_says(text));
	for (i = self->nr / 2 % each; i < self->nr; i += each)
		EXPECT_EQ(i == self->nr / 2 ? -EIO : 0,
			  check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);

	/* Another daemon has a backup that is whole: it is read again. */
	keeper_stop(&self->keeper);
	follower_stop(&self->follower);
	follower_free(&self->follower);
	damage(&self->keeper, bad);
	ASSERT_EQ(0, follower_succeed(&self->follower, &self->store, uuid));
	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
	end = now_ms() + test_limit(20000);
	while (atomic_load(&self->keeper.segments) == (unsigned long)placed && now_ms() < end)
		usleep(1000);
	EXPECT_EQ((unsigned long)placed + 1, atomic_load(&self->keeper.segments));
	EXPECT_TRUE(becomes(self, "unverified_segments", 0));
	EXPECT_EQ(0, tier_attribute(&self->store, "unreadable_segments"));
	EXPECT_EQ(0, check(self->store.lsm, &self->objects[self->nr / 2], self->nr / 2, self->bytes));
	free(places);
}

/* ---- Near reads: from a drive, without the daemon ------------------------- */

#define NOT_FORGED	UINT64_MAX

static int near_tell(const struct _test_data_tier *self, uint64_t segment, uint64_t offset, int fd)
{
	struct lsmem_near near = { .size = sizeof(near), .segment = segment, .offset = offset, .fd = fd };

	return ioctl(self->follower.attach.fd, LSMEM_REPL_NEAR, &near) ? -errno : 0;
}

/*
 * Put what the keeper has on the drive, with a byte in each 16 changed by @mask, and tell the kernel places
 * that are @wrong by so many bytes.  Returns how many segments were told, or a negative errno.
 */
static int near_place(struct _test_data_tier *self, int drive, uint8_t mask, uint64_t wrong)
{
	struct keeper *keeper = &self->keeper;
	uint8_t *copy = aligned_alloc(LSMEM_BLOCK, LSMEM_SEGMENT_BYTES);	/* the drive is O_DIRECT */
	uint64_t offset = 0, bytes;
	int ret = 0, nr = 0;
	uint32_t i, j;

	pthread_mutex_lock(&keeper->lock);
	for (i = 0; i < KEEPER_FRAMES && ret >= 0; i++) {
		const struct keeper_frame *frame = &keeper->frames[i];

		if (!frame->id)
			continue;
		bytes = lsmem_block_round(frame->length);
		memcpy(copy, frame->bytes, bytes);
		for (j = 0; j < bytes; j += 16)
			copy[j] ^= mask;
		ret = pwrite(drive, copy, bytes, (off_t)offset) == (ssize_t)bytes && !fsync(drive) ? 0 : -errno;
		if (!ret)
			ret = near_tell(self, frame->id, offset + wrong, 0);
		offset += bytes;
		nr += !ret;
		ret = ret == -ENOENT ? 0 : ret;		/* it was retired */
	}
	pthread_mutex_unlock(&keeper->lock);
	free(copy);
	return ret ?: nr;
}

/* Read some cold objects, and replace some. Returns how many fetches the kernel made alone, or -1. */
static long long read_cold(struct _test_data_tier *self, bool replace)
{
	long long before = tier_attribute(&self->store, "fetches_near");
	uint32_t left = 100 + (uint32_t)test_scaled(2000), i;
	int ret = 0;

	for (i = find_cold(self, 0); !ret && i < self->nr && left--; i = find_cold(self, i + 5)) {
		if (replace && i % 3 == 0)
			ret = put(self->store.lsm, &self->objects[i], i, self->bytes, &self->random);
		if (!ret)
			ret = check(self->store.lsm, &self->objects[i], i, self->bytes);
		if (ret)
			printf("# object %u: %d\n", i, ret);
	}
	return ret ? -1 : tier_attribute(&self->store, "fetches_near") - before;
}

TEST_F_TIMEOUT(tier, near, SECONDS)
{
	int drive = open_drive();
	long long near;

	if (drive < 0)
		SKIP(return, "no drive in /dev/drive");
	ASSERT_EQ(0, fill(self, 80));
	ASSERT_EQ(0, near_tell(self, 0, 0, drive));
	ASSERT_LT(0, near_place(self, drive, 0, 0));
	near = read_cold(self, false);
	tier_print(&self->store);
	printf("# %lld of %lld fetches were near\n", near, tier_attribute(&self->store, "fetches"));
	EXPECT_LT(tier_attribute(&self->store, "fetches") / 2, near);
	EXPECT_LT(tier_attribute(&self->store, "near_reads") / 2, tier_attribute(&self->store, "near_waited"));

	/* What is damaged, or another's, comes from the daemon. */
	ASSERT_LT(0, near_place(self, drive, 1, 0));
	EXPECT_EQ(0, read_cold(self, false));
	ASSERT_LT(0, near_place(self, drive, 0, LSMEM_BLOCK));
	EXPECT_EQ(0, read_cold(self, false));

	/* All at once, as objects are replaced. */
	ASSERT_LT(0, near_place(self, drive, 0, 0));
	EXPECT_LT(0, read_cold(self, true));
	EXPECT_EQ(0, tier_attribute(&self->store, "fetch_failures"));

	/* Another daemon has named none, and neither has this one any more. */
	ASSERT_EQ(0, near_tell(self, 0, 0, -1));
	EXPECT_EQ(-ENODEV, near_place(self, drive, 0, 0));
	ASSERT_EQ(0, near_tell(self, 0, 0, drive));
	ASSERT_EQ(0, keeper_succeed(&self->keeper, &self->follower, &self->store));
	EXPECT_EQ(-ENODEV, near_place(self, drive, 0, 0));
	EXPECT_EQ(0, check(self->store.lsm, &self->objects[0], 0, self->bytes));
	close(drive);
}

/*
 * Behind the end of a frame put another version of its last object, if there is room in the object's block.
 * Returns the index of the handle, or NOT_FORGED; @where: out: the entry.
 */
static uint64_t forge(const struct _test_data_tier *self, const struct keeper_frame *frame,
		      const struct place *places, struct lsmem_entry **where)
{
	uint32_t salt = lsmem_segment_salt(self->follower.attach.uuid, frame->id, 1), at, last = 0, length;
	const struct lsmem_entry *e;
	struct lsmem_entry forged;
	uint64_t index;
	uint8_t *payload;

	for (at = 0; at < frame->length; at = lsmem_entry_start(at + lsmem_entry_bytes(e))) {
		e = (const void *)(frame->bytes + at);
		if (lsmem_entry_type(e) == LSMEM_TYPE_OBJECT)
			last = at;
	}
	e = (const void *)(frame->bytes + last);
	length = lsmem_entry_length(e);
	index = lsmem_handle_index(lsmem_entry_handle(e));
	if (lsmem_entry_type(e) != LSMEM_TYPE_OBJECT || places[index].id != frame->id ||
	    last / LSMEM_BLOCK != at / LSMEM_BLOCK || at % LSMEM_BLOCK + lsmem_entry_bytes(e) > LSMEM_BLOCK)
		return NOT_FORGED;
	*where = (void *)(frame->bytes + at);
	forged = lsmem_entry_make(LSMEM_TYPE_OBJECT, length, lsmem_entry_handle(e),
				  lsmem_entry_version(e) + 1, lsmem_entry_interval(e), lsmem_entry_table(e), at);
	payload = (uint8_t *)*where + lsmem_entry_header(&forged);
	memset(payload, 0x5a, length);
	forged.crc = lsmem_entry_crc(&forged, crc32c(~0u, payload, length), salt);
	memcpy(*where, &forged, lsmem_entry_header(&forged));
	return index;
}

/* Behind the cut of a sealed segment there can be whole entries: they do not count. */
TEST_F_TIMEOUT(tier, near_sealed, SECONDS)
{
	struct place *places = calloc(self->follower.attach.handles_max, sizeof(*places));
	uint8_t *forged = calloc(self->follower.attach.handles_max, 1);
	struct lsmem_entry *where[KEEPER_FRAMES] = { NULL };
	int drive = open_drive(), nr = 0;
	uint64_t index;
	uint32_t i;

	if (drive < 0)
		SKIP(return, "no drive in /dev/drive");
	/* Every other one is small, so that some segments end with one, and have room behind it in its block. */
	while (self->nr < OBJECTS / 2) {
		ASSERT_EQ(0, put_length(self->store.lsm, &self->objects[self->nr], self->nr, self->bytes,
					self->nr % 2 ? CONTENT_MIN : choose_length(&self->random)));
		self->nr++;
	}
	ASSERT_EQ(0, lsm_sync(self->store.lsm, 0));
	ASSERT_LT(0, place_all(self, places, LSMEM_ACTIVATE_COLD | LSMEM_ACTIVATE_UNVERIFIED));
	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
	ASSERT_EQ(0, near_tell(self, 0, 0, drive));
	for (i = 0; i < KEEPER_FRAMES; i++) {
		index = self->keeper.frames[i].id ? forge(self, &self->keeper.frames[i], places, &where[i]) :
						    NOT_FORGED;
		if (index != NOT_FORGED)
			forged[index] = 1;
	}
	ASSERT_LT(0, near_place(self, drive, 0, 0));
	for (i = 0; i < KEEPER_FRAMES; i++)	/* the keeper has none, so that it could not answer for the drive */
		if (where[i])
			memset(where[i], 0, lsmem_entry_bytes(where[i]));
	for (i = 0; i < self->nr; i++) {
		if (!forged[lsmem_handle_index(self->objects[i].handle)])
			continue;
		nr++;
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	}
	ASSERT_LT(0, nr);
	EXPECT_EQ(nr, tier_attribute(&self->store, "fetches_near"));
	close(drive);
	free(forged);
	free(places);
}

static bool dm_there(void)
{
	int fd;

	/* Where it is a module, nothing else may have loaded it. If it cannot be loaded, the open says so. */
	(void)!system("modprobe -q dm_mod");
	fd = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);	/* the file can be there without the device mapper */
	if (fd < 0)
		return false;
	close(fd);
	return !system("set -- /dev/drive/*; [ -b $1 ]");
}

/* A device on the drive that can be suspended. Returns its descriptor, or -1. */
static int dm_make(const char *name, int flags)
{
	char text[256];

	snprintf(text, sizeof(text), "set -- /dev/drive/*; dmsetup create %s --table \"0 $(blockdev --getsz $1) linear $1 0\"",
		 name);
	if (system(text) || system("dmsetup mknodes"))
		return -1;
	snprintf(text, sizeof(text), "/dev/mapper/%s", name);
	return open(text, O_RDWR | O_CLOEXEC | flags);
}

/* The drive answers again: reads are near. Then it is given back. Returns 0, or a line. */
static int near_resume(struct _test_data_tier *self, int fd)
{
	if (system("dmsetup resume near"))
		return __LINE__;
	if (read_cold(self, false) <= 0)
		return __LINE__;
	if (tier_attribute(&self->store, "fetch_failures"))
		return __LINE__;
	if (near_tell(self, 0, 0, -1))
		return __LINE__;
	close(fd);
	return system("dmsetup remove --retry near") ? __LINE__ : 0;
}

/* A drive that does not answer: the daemon gets the requests. */
TEST_F_TIMEOUT(tier, near_late, SECONDS)
{
	uint32_t i, nr;
	uint64_t begin;
	int fd;

	if (!dm_there())
		SKIP(return, "no drive in /dev/drive, or no device mapper");
	ASSERT_EQ(0, fill(self, 80));
	fd = dm_make("near", O_DIRECT);		/* with pages cached, the close takes long */
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, near_tell(self, 0, 0, fd));
	ASSERT_LT(0, near_place(self, fd, 0, 0));
	ASSERT_EQ(0, system("dmsetup suspend --noflush near"));
	begin = now_ms();
	for (nr = 0, i = find_cold(self, 0); nr < 20; nr++, i = find_cold(self, i + 1))	/* all reads of the drive */
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	EXPECT_GT(10000u, now_ms() - begin);
	EXPECT_EQ(0, tier_attribute(&self->store, "fetches_near"));
	EXPECT_EQ(0, near_resume(self, fd));
}

/* ---- Near reads of several objects ----------------------------------------- */

#define SMALL		20u		/* objects that lie one behind the other, then one that is as long as can be */
#define SMALL_BYTES	200u
#define GROUP		(SMALL + 1u)
#define TOGETHER	64u		/* operations that a call asks for together */
#define READ_MOST	16u		/* objects of a near read */
#define EACH_MOST	12u		/* near reads of a thread, at a time */
#define READS		16u		/* of a store */

static int fill_groups(struct _test_data_tier *self)
{
	struct lsmem_stat stat = { 0 };
	int ret = 0;

	while (!ret && self->nr < OBJECTS && stat.live_bytes <= CAPACITY / 10 * 8) {
		ret = put_length(self->store.lsm, &self->objects[self->nr], self->nr, self->bytes,
				 self->nr % GROUP < SMALL ? SMALL_BYTES : LENGTH_MAX);
		self->nr += !ret;
		if (!ret && self->nr % GROUP == 0)
			ret = lsm_stat(self->store.lsm, &stat);
	}
	return ret;
}

/*
 * Choose the first @each objects of @nr groups, none of which is in memory, from group @from on.  Returns the group behind
 * them, or 0: there are too few.
 */
static uint32_t choose_cold(struct _test_data_tier *self, uint32_t from, uint32_t nr, uint32_t each, uint32_t *ids)
{
	uint32_t i;

	for (; nr && (from + 1) * GROUP <= self->nr; from++) {
		for (i = 0; i < each && find_cold(self, from * GROUP + i) == from * GROUP + i; i++)
			*ids++ = from * GROUP + i;
		if (i < each)
			ids -= i;
		nr -= i == each;
	}
	return nr ? 0 : from;
}

/* Read objects in one call, in any order. Returns how many are right, or a negative errno. */
static int read_together(struct _test_data_tier *self, uint32_t *ids, uint32_t nr, uint64_t *random)
{
	static _Thread_local uint8_t bytes[TOGETHER][SMALL_BYTES];
	struct lsmem_op ops[TOGETHER];
	uint32_t i, other, id;
	int ret;

	for (i = nr; i-- > 1; ids[i] = ids[other], ids[other] = id) {
		id = ids[i];
		other = random_below(random, i + 1);
	}
	for (i = 0; i < nr; i++)
		ops[i] = lsm_op_read(self->objects[ids[i]].handle, bytes[i], SMALL_BYTES, 0);
	ret = lsm_vector(self->store.lsm, ops, nr, 0, NULL);
	for (i = 0; i < nr && ret >= 0; i++)
		ret += !ops[i].result && ops[i].length == SMALL_BYTES &&
		       content_is(bytes[i], SMALL_BYTES, ids[i], self->objects[ids[i]].serial);
	return ret;
}

/* What lies close together is one read, whatever the order of the operations, and so is what comes later in the call. */
TEST_F_TIMEOUT(tier, near_together, SECONDS)
{
	enum { GROUPS = 21, EACH = 3 };
	uint32_t ids[TOGETHER], next, round;
	long long reads, near;
	int drive = open_drive();

	if (drive < 0)
		SKIP(return, "no drive in /dev/drive");
	ASSERT_EQ(0, fill_groups(self));
	ASSERT_EQ(0, near_tell(self, 0, 0, drive));
	ASSERT_LT(0, near_place(self, drive, 0, 0));
	for (next = 0, round = 0; round < 4; round++) {
		next = choose_cold(self, next, GROUPS, EACH, ids);
		ASSERT_LT(0, next);
		reads = tier_attribute(&self->store, "near_reads");
		near = tier_attribute(&self->store, "fetches_near");
		ASSERT_EQ(GROUPS * EACH, read_together(self, ids, GROUPS * EACH, &self->random));
		reads = tier_attribute(&self->store, "near_reads") - reads;
		near = tier_attribute(&self->store, "fetches_near") - near;
		printf("# %u objects of %u places: %lld fetches in %lld near reads\n", GROUPS * EACH, GROUPS, near, reads);
		EXPECT_LE(GROUPS * EACH - EACH, near);
		EXPECT_GE(GROUPS + 2, reads);		/* a segment can end within a group */
	}
	/* More than one read has room for. */
	next = choose_cold(self, next, 1, SMALL, ids);
	ASSERT_LT(0, next);
	reads = tier_attribute(&self->store, "near_reads");
	near = tier_attribute(&self->store, "fetches_near");
	ASSERT_EQ(SMALL, read_together(self, ids, SMALL, &self->random));
	EXPECT_EQ(SMALL, tier_attribute(&self->store, "fetches_near") - near);
	reads = tier_attribute(&self->store, "near_reads") - reads;
	EXPECT_LE((SMALL + READ_MOST - 1) / READ_MOST, reads);
	EXPECT_GE(3, reads);
	EXPECT_EQ(0, tier_attribute(&self->store, "fetch_failures"));
	close(drive);
}

struct beside {
	struct _test_data_tier *tier;
	pthread_t thread;
	uint32_t ids[TOGETHER];
	uint32_t nr;
	int ret;
};

static void *beside_main(void *argument)
{
	struct beside *beside = argument;
	uint64_t random = test_seed + 1;

	beside->ret = read_together(beside->tier, beside->ids, beside->nr, &random);
	return NULL;
}

/* A call leaves near reads to others; the daemon gets all objects of a read that takes too long. */
TEST_F_TIMEOUT(tier, near_share, SECONDS)
{
	enum { GROUPS = 20, EACH = 3, OTHERS = 8 };
	struct beside beside = { .tier = self, .nr = OTHERS };
	uint32_t ids[TOGETHER], next, single;
	uint64_t begin;
	int fd;

	if (!dm_there())
		SKIP(return, "no drive in /dev/drive, or no device mapper");
	ASSERT_EQ(0, fill_groups(self));
	fd = dm_make("near", O_DIRECT);		/* with pages cached, the close takes long */
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, near_tell(self, 0, 0, fd));
	ASSERT_LT(0, near_place(self, fd, 0, 0));
	next = choose_cold(self, 0, GROUPS, EACH, ids);
	next = next ? choose_cold(self, next, OTHERS, 1, beside.ids) : 0;
	next = next ? choose_cold(self, next, 1, 1, &single) : 0;
	ASSERT_LT(0, next);
	ASSERT_EQ(0, system("dmsetup suspend --noflush near"));
	begin = now_ms();
	EXPECT_EQ(GROUPS * EACH, read_together(self, ids, GROUPS * EACH, &self->random));
	EXPECT_EQ(EACH_MOST, tier_attribute(&self->store, "near_reads"));
	ASSERT_EQ(0, pthread_create(&beside.thread, NULL, beside_main, &beside));
	pthread_join(beside.thread, NULL);
	EXPECT_EQ(OTHERS, beside.ret);
	EXPECT_EQ(READS, tier_attribute(&self->store, "near_reads"));
	EXPECT_EQ(0, check(self->store.lsm, &self->objects[single], single, self->bytes));
	EXPECT_EQ(READS, tier_attribute(&self->store, "near_reads"));
	EXPECT_GT(10000u, now_ms() - begin);
	EXPECT_EQ(0, tier_attribute(&self->store, "fetches_near"));
	EXPECT_EQ(0, near_resume(self, fd));
}

/* Wait until so many objects more have come from the near drive. */
static bool near_come(const struct _test_data_tier *self, long long nr)
{
	uint64_t end = now_ms() + test_limit(5000);

	while (tier_attribute(&self->store, "fetches_near") < nr && now_ms() < end)
		usleep(200);
	return tier_attribute(&self->store, "fetches_near") >= nr;
}

/* Suspend or resume a device of the device mapper, as dmsetup does, but at once.  Returns 0 or a negative errno. */
static int dm_hold(const char *name, bool hold)
{
	struct dm_ioctl dm = {
		.version = { 4 }, .data_size = sizeof(dm),
		.flags = hold ? DM_SUSPEND_FLAG | DM_NOFLUSH_FLAG | DM_SKIP_LOCKFS_FLAG : 0,
	};
	int fd = open("/dev/mapper/control", O_RDWR | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	strncpy(dm.name, name, sizeof(dm.name) - 1);
	ret = ioctl(fd, DM_DEV_SUSPEND, &dm) ? -errno : 0;
	close(fd);
	return ret;
}

/*
 * Ask for a cold object and do not wait, while the drive is held, so that it cannot be there at once.  Returns after how many
 * ms it is, UINT32_MAX if the daemon had to be asked as well, or a negative errno or line.
 */
static int64_t near_leave(struct _test_data_tier *self, uint32_t id)
{
	long long before = tier_attribute(&self->store, "fetches_near");
	unsigned long answered = atomic_load(&self->keeper.answered);
	struct lsmem_op op = lsm_op_read(self->objects[id].handle, self->bytes, SMALL_BYTES, 0);
	uint64_t begin;
	int ret;

	op.flags = LSMEM_OPF_NOWAIT;
	ret = dm_hold("near", true);
	if (ret)
		return ret;
	begin = now_ms();
	ret = lsm_vector(self->store.lsm, &op, 1, 0, NULL);
	ret = dm_hold("near", false) ?: ret;
	if (ret)
		return ret;
	if (op.result != -EAGAIN)
		return -__LINE__;
	while (tier_attribute(&self->store, "fetches_near") == before) {
		if (atomic_load(&self->keeper.answered) != answered)
			return UINT32_MAX;
		if (now_ms() > begin + test_limit(5000))
			return -__LINE__;
		usleep(200);
	}
	return (int64_t)(now_ms() - begin);
}

/*
 * A call that does not wait leaves what it has asked for to a worker, at once; so does one that is killed.  What is not left
 * is taken over when it is late, never within SOON_MS: one try in which it is there sooner is proof, and a busy machine may
 * need several.
 */
TEST_F_TIMEOUT(tier, near_left, SECONDS)
{
	enum { TRIES = 64, SOON_MS = 80 };
	int64_t took = INT64_MAX, best = INT64_MAX;
	uint32_t ids[TRIES], i;
	long long reads;
	uint64_t end;
	pid_t child;
	int fd;

	if (!dm_there())
		SKIP(return, "no drive in /dev/drive, or no device mapper");
	ASSERT_EQ(0, fill_groups(self));
	fd = dm_make("near", O_DIRECT);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, near_tell(self, 0, 0, fd));
	ASSERT_LT(0, near_place(self, fd, 0, 0));
	ASSERT_LT(0, choose_cold(self, 0, TRIES, 1, ids));
	for (i = 0; i < TRIES - 1 && best >= SOON_MS; i++) {
		took = near_leave(self, ids[i]);
		ASSERT_LE(0, took);
		best = took < best ? took : best;
	}
	printf("# left: there after %lld ms at best of %u\n", (long long)best, i);
	EXPECT_GT(SOON_MS, best);

	/* Killed while it waits. */
	ASSERT_EQ(0, dm_hold("near", true));
	reads = tier_attribute(&self->store, "near_reads");
	child = fork();
	if (!child) {
		check(self->store.lsm, &self->objects[ids[i]], ids[i], self->bytes);
		_exit(0);
	}
	end = now_ms() + SECONDS * 500;
	while (tier_attribute(&self->store, "near_reads") == reads && now_ms() < end)
		usleep(200);
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	ASSERT_EQ(0, dm_hold("near", false));
	EXPECT_EQ(0, check(self->store.lsm, &self->objects[ids[i]], ids[i], self->bytes));
	EXPECT_EQ(0, near_resume(self, fd));
}

struct stuck {
	struct _test_data_tier *tier;
	pthread_t thread;
	uint32_t ids[TOGETHER];
	uint32_t nr;
	uint32_t hot;
	uint8_t *mapped;		/* a store to it waits */
	uint32_t right;
};

static void *stuck_main(void *argument)
{
	struct stuck *stuck = argument;
	const struct object *objects = stuck->tier->objects;
	static uint8_t bytes[TOGETHER][SMALL_BYTES];
	struct lsmem_op ops[TOGETHER + 1];
	uint32_t i;

	ops[0] = lsm_op_read(objects[stuck->hot].handle, stuck->mapped, SMALL_BYTES, 0);
	for (i = 0; i < stuck->nr; i++)
		ops[i + 1] = lsm_op_read(objects[stuck->ids[i]].handle, bytes[i], SMALL_BYTES, 0);
	if (lsm_vector(stuck->tier->store.lsm, ops, stuck->nr + 1, 0, NULL))
		return NULL;
	for (i = 0; i < stuck->nr; i++)
		stuck->right += !ops[i + 1].result &&
				content_is(bytes[i], SMALL_BYTES, stuck->ids[i], objects[stuck->ids[i]].serial);
	return NULL;
}

/*
 * A thread has asked for objects, and is held up by a page fault, for as long as its user likes.  Another thread that wants
 * one does not wait for it; and when the reads are late, a worker takes them over.
 */
TEST_F_TIMEOUT(tier, near_stuck, SECONDS)
{
	enum { GROUPS = 6, ROUNDS = 4 };
	struct stuck stuck = { .tier = self, .nr = GROUPS };
	uint32_t next = 0, i, round;
	long long near, waited = 0, reads;
	uint64_t end;
	int fd, hung;

	if (!dm_there())
		SKIP(return, "no drive in /dev/drive, or no device mapper");
	ASSERT_EQ(0, fill_groups(self));
	fd = dm_make("near", O_DIRECT);
	hung = dm_make("hung", 0);
	ASSERT_LE(0, fd);
	ASSERT_LE(0, hung);
	ASSERT_EQ(0, near_tell(self, 0, 0, fd));
	ASSERT_LT(0, near_place(self, fd, 0, 0));
	ASSERT_EQ(0, put_length(self->store.lsm, &self->objects[self->nr], self->nr, self->bytes, SMALL_BYTES));
	stuck.hot = self->nr;
	for (round = 0; round < ROUNDS && (round < 2 || !waited); round++) {
		bool alone = !round;	/* no other thread wants the objects */

		next = choose_cold(self, next, GROUPS, 1, stuck.ids);
		ASSERT_LT(0, next);
		stuck.right = 0;
		stuck.mapped = mmap(NULL, LSMEM_BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, hung, 0);
		ASSERT_NE(MAP_FAILED, stuck.mapped);
		ASSERT_EQ(0, posix_fadvise(hung, 0, 0, POSIX_FADV_DONTNEED));
		ASSERT_EQ(0, system("dmsetup suspend --noflush hung"));
		near = tier_attribute(&self->store, "fetches_near");
		reads = tier_attribute(&self->store, "near_reads");
		waited = tier_attribute(&self->store, "near_waited");
		EXPECT_EQ(0, pthread_create(&stuck.thread, NULL, stuck_main, &stuck));
		if (alone) {
			EXPECT_TRUE(near_come(self, near + GROUPS));
		} else {
			end = now_ms() + test_limit(5000);
			while (tier_attribute(&self->store, "near_reads") < reads + GROUPS && now_ms() < end)
				usleep(100);
			for (i = GROUPS; i-- > 0;)
				EXPECT_EQ(0, check(self->store.lsm, &self->objects[stuck.ids[i]], stuck.ids[i], self->bytes));
		}
		waited = tier_attribute(&self->store, "near_waited") - waited;
		printf("# stuck, round %u: %lld of %lld reads ended by a thread that waits\n", round, waited,
		       tier_attribute(&self->store, "near_reads") - reads);
		EXPECT_EQ(near + GROUPS, tier_attribute(&self->store, "fetches_near"));
		EXPECT_EQ(0, system("dmsetup resume hung"));
		pthread_join(stuck.thread, NULL);
		EXPECT_EQ(GROUPS, stuck.right);
		munmap(stuck.mapped, LSMEM_BLOCK);
	}
	EXPECT_LT(0, waited);
	close(hung);
	EXPECT_EQ(0, system("dmsetup remove --retry hung"));
	EXPECT_EQ(0, near_resume(self, fd));
}

/* Each object of a call that no backup has whole is one failure, and fails no other. */
TEST_F_TIMEOUT(tier, failed_together, SECONDS)
{
	enum { GROUPS = 10, EACH = 2 };
	uint32_t ids[TOGETHER], i;

	ASSERT_EQ(0, fill_groups(self));
	ASSERT_LT(0, choose_cold(self, 0, GROUPS, EACH, ids));
	atomic_store(&self->keeper.mood, KEEPER_DAMAGED);
	EXPECT_EQ(0, read_together(self, ids, GROUPS * EACH, &self->random));
	EXPECT_EQ(GROUPS * EACH, tier_attribute(&self->store, "fetch_failures"));
	atomic_store(&self->keeper.mood, KEEPER_GOOD);
	EXPECT_EQ(GROUPS * EACH, read_together(self, ids, GROUPS * EACH, &self->random));
	for (i = 0; i < GROUPS * EACH; i++)
		EXPECT_EQ(0, check(self->store.lsm, &self->objects[ids[i]], ids[i], self->bytes));
	EXPECT_EQ(GROUPS * EACH, tier_attribute(&self->store, "fetch_failures"));
}

TEST_F_TIMEOUT(tier, near_errors, SECONDS)
{
	struct lsmem_near near = { .size = sizeof(near), .flags = 1, .fd = -1 };
	int null = open("/dev/null", O_RDONLY), drive = open_drive();

	EXPECT_EQ(-EBADF, near_tell(self, 0, 0, 10000));
	EXPECT_EQ(-ENOTBLK, near_tell(self, 0, 0, null));
	EXPECT_EQ(-ENODEV, near_tell(self, 1, 0, 0));
	EXPECT_EQ(-EINVAL, near_tell(self, 1, 512, 0));
	EXPECT_EQ(-EINVAL, near_tell(self, 1, 1ull << 63, 0));
	EXPECT_EQ(-1, ioctl(self->follower.attach.fd, LSMEM_REPL_NEAR, &near));
	EXPECT_EQ(EINVAL, errno);
	close(null);
	if (drive < 0)
		SKIP(return, "no drive in /dev/drive");
	close(drive);
	drive = open_drive();
	EXPECT_EQ(0, near_tell(self, 0, 0, drive));
	close(drive);		/* the kernel holds it, and lets it go */
	EXPECT_EQ(-ENOENT, near_tell(self, 1ull << 60, 0, 0));
}

TEST_HARNESS_MAIN
