// SPDX-License-Identifier: GPL-2.0
/*
 * A store whose capacity is larger than its memory: objects leave memory and come back, whole, whatever
 * is done to them meanwhile.  The backup is in this program (keeper.h).
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tier.h"

#define THREADS		3u
#define STEPS		10000u	/* of each thread: together they write more than the log has room for */

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

/* Load an object instead. */
static int load_place(const struct follower *follower, const struct keeper_frame *frame, const struct place *place)
{
	uint32_t at = LSMEM_LISTING_GET(__le64_to_cpu(place->listing.meta), HOME) * LSMEM_ALIGN;
	struct lsmem_load load = {
		.size = sizeof(load),
		.segment = frame->id,
		.generation = 1,
		.sealed = frame->length,
		.data = (uintptr_t)(frame->bytes + at),
		.length = lsmem_entry_bytes((const struct lsmem_entry *)(frame->bytes + at)),
	};

	return ioctl(follower->attach.fd, LSMEM_REPL_LOAD, &load) ? -errno : 0;
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
	/* It is made without an object, and grows. */
	ASSERT_EQ(0, place_call(&self->follower, frame, NULL, LSMEM_BLOCK, 0));
	ASSERT_EQ(0, place_call(&self->follower, frame, NULL, frame->length, 0));
	EXPECT_EQ(-EINVAL, place_call(&self->follower, frame, NULL, LSMEM_BLOCK, 0));
	EXPECT_EQ(-EINVAL, place_call(&self->follower, frame, NULL, frame->length, LSMEM_PLACEMENT_BACK));
	ASSERT_EQ(0, place_call(&self->follower, frame, NULL, frame->length, LSMEM_PLACEMENT_GONE));
	/* One of its objects is loaded, although there are younger segments; the others are placed. */
	for (i = 0; places[i].id != frame->id;)
		i++;
	ASSERT_EQ(0, load_place(&self->follower, frame, &places[i]));
	places[i].id = 0;
	ASSERT_LT(0, place_frame(&self->follower, frame, places, nr));
	places[i].id = frame->id;
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

/* The entry of an object, as its backup has it. */
static struct lsmem_bring_one brings(const struct _test_data_tier *self, const struct place *places, uint32_t i)
{
	const struct place *place = &places[lsmem_handle_index(self->objects[i].handle)];
	const struct keeper_frame *frame = self->keeper.frames;
	const struct lsmem_entry *e;

	while (frame->id != place->id)
		frame++;
	e = (const void *)(frame->bytes + LSMEM_LISTING_GET(__le64_to_cpu(place->listing.meta), HOME) * LSMEM_ALIGN);
	return (struct lsmem_bring_one){ .data = (uintptr_t)e, .length = lsmem_entry_bytes(e) };
}

/* Return: 0 or a negative errno of the call; the results are in @ones. */
static int bring(const struct _test_data_tier *self, struct lsmem_bring_one *ones, uint32_t nr)
{
	struct lsmem_bring call = { .size = sizeof(call), .entries = (uintptr_t)ones, .nr = nr };

	return ioctl(self->follower.attach.fd, LSMEM_REPL_BRING, &call) ? -errno : 0;
}

static int bring_bytes(const struct _test_data_tier *self, const void *bytes, uint32_t length)
{
	struct lsmem_bring_one one = { .data = (uintptr_t)bytes, .length = length };
	int ret = bring(self, &one, 1);

	return ret ? ret : one.result;
}

/*
 * A daemon brings what it has, before anything is asked for: until memory has no more room, and only what is whole, and cold.
 * Meanwhile the kernel reads no segments, and goes on with that afterwards.
 */
TEST_F_TIMEOUT(tier, brought_by_daemon, SECONDS)
{
	struct place *places = calloc(self->follower.attach.handles_max, sizeof(*places));
	struct lsmem_bring wrong = { .size = sizeof(wrong), .nr = 257 };
	static uint8_t bytes[LSMEM_OBJECT_MAX];
	struct lsmem_bring_one ones[256];
	uint32_t here = 0, each, nr, i;
	int ret = 0;

	ASSERT_EQ(0, fill(self, 60));
	for (i = 0; i < self->nr; i += 5)
		ASSERT_EQ(0, put(self->store.lsm, &self->objects[i], i, self->bytes, &self->random));
	ASSERT_EQ(0, lsm_sync(self->store.lsm, 0));
	ASSERT_LT(0, place_all(self, places, 0));
	atomic_store(&self->keeper.segments, 0);

	/* What is no object of this place. */
	ones[0] = brings(self, places, 0);
	memcpy(bytes, (void *)(uintptr_t)ones[0].data, ones[0].length);
	EXPECT_EQ(-EBADMSG, bring_bytes(self, bytes, 0));
	EXPECT_EQ(-EBADMSG, bring_bytes(self, bytes, UINT32_MAX));
	EXPECT_EQ(-EBADMSG, bring_bytes(self, bytes, ones[0].length - LSMEM_ALIGN));
	EXPECT_EQ(-EBADMSG, bring_bytes(self, bytes, ones[0].length + LSMEM_ALIGN));
	bytes[LSMEM_LONG_BYTES] ^= 1;
	EXPECT_EQ(-EBADMSG, bring_bytes(self, bytes, ones[0].length));
	EXPECT_EQ(-EFAULT, bring_bytes(self, NULL, ones[0].length));
	EXPECT_EQ(-1, ioctl(self->follower.attach.fd, LSMEM_REPL_BRING, &wrong));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(0, tier_attribute(&self->store, "resident_bytes"));

	while (here < self->nr && ret != -EAGAIN) {
		for (nr = 0; nr < 256 && here + nr < self->nr; nr++)
			ones[nr] = brings(self, places, here + nr);
		ASSERT_EQ(0, bring(self, ones, nr));
		for (i = 0; i < nr && ret != -EAGAIN; i++, here += !ret) {
			ret = ones[i].result;
			ASSERT_TRUE(!ret || ret == -EAGAIN) TH_LOG("object %u: %d", here, ret);
		}
	}
	EXPECT_EQ(-EAGAIN, ret);
	EXPECT_LT((long long)STORE_BYTES / 2, tier_attribute(&self->store, "resident_bytes"));
	EXPECT_EQ(0, tier_attribute(&self->store, "evicted"));
	ASSERT_LT(500u, here);
	ones[0] = brings(self, places, 0);
	EXPECT_EQ(-ENOENT, bring_bytes(self, (void *)(uintptr_t)ones[0].data, ones[0].length));
	/* The keeper does not run: these are read without it. */
	each = 100 / (uint32_t)test_scaled(100);
	for (i = 0; i < here; i += each)
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);

	ASSERT_EQ(0, keeper_start(&self->keeper, &self->follower));
	for (i = here; i < here + 300; i++)
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	EXPECT_GE(1u, atomic_load(&self->keeper.segments));	/* one was asked for before the first object was brought */
	i = self->nr - 1;
	ones[0] = brings(self, places, i);
	ASSERT_EQ(0, put(self->store.lsm, &self->objects[i], i, self->bytes, &self->random));
	EXPECT_EQ(-ENOENT, bring_bytes(self, (void *)(uintptr_t)ones[0].data, ones[0].length));

	ASSERT_EQ(0, bring(self, NULL, 0));
	EXPECT_TRUE(becomes(self, "unverified_segments", 0));
	EXPECT_LT(1u, atomic_load(&self->keeper.segments));
	for (i = 0; i < self->nr; i += each)
		ASSERT_EQ(0, check(self->store.lsm, &self->objects[i], i, self->bytes)) TH_LOG("object %u", i);
	free(places);
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

TEST_HARNESS_MAIN
