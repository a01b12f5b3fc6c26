// SPDX-License-Identifier: GPL-2.0
/*
 * Exact scans of a store whose capacity is larger than its memory: each object once, as it was at the version, whether it
 * was in memory or not, whatever is done to it meanwhile; and what is in memory stays there.
 *
 * The model: writers replace, free and allocate objects, and readers fetch them, while others are evicted and cleaned.
 * Each writer logs what its changes made of an object.  When all have ended, each scan must have found what the last
 * change up to its version had made.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "keeper.h"
#include "store.h"

#define OBJECTS		260000u
#define LENGTH_MAX	9000u
#define LARGE		300000u	/* spans seglets */
#define SECONDS		300
#define THREADS		2u	/* of a scan */
#define WRITERS		2u
#define CHANGES		60000u	/* most of a writer */
#define SCANS		4u	/* that must have succeeded, and more until segments were cleaned */
#define SCANS_MOST	16u

struct object {
	pthread_mutex_t lock;
	uint64_t handle;		/* 0: freed */
	uint64_t serial;
	uint32_t length;
};

FIXTURE(tier_scan) {
	struct store store;
	struct follower follower;
	struct keeper keeper;
	struct object *objects;
	uint32_t nr;
	uint8_t *bytes;
	uint64_t random;
};

/* Five times as much as memory holds; and twice, which fills the backup, so that segments are cleaned. */
FIXTURE_VARIANT(tier_scan) {
	uint64_t capacity;
	uint32_t percent;
	bool wide;
};

FIXTURE_VARIANT_ADD(tier_scan, wide) {
	.capacity = 6 * STORE_BYTES,
	.percent = 84,
	.wide = true,
};

FIXTURE_VARIANT_ADD(tier_scan, narrow) {
	.capacity = 2 * STORE_BYTES,
	.percent = 80,
};

static uint32_t choose_length(uint64_t *state)
{
	uint32_t dice = random_below(state, 1000);

	return dice ? CONTENT_MIN + random_below(state, LENGTH_MAX - CONTENT_MIN) : LARGE;
}

static int put(struct lsm *lsm, struct object *object, uint32_t id, uint8_t *bytes, uint64_t *state,
	       uint64_t *version)
{
	uint32_t length = choose_length(state);
	int ret;

	content_fill(bytes, length, id, object->serial + 1);
	ret = object->handle ? lsm_replace(lsm, object->handle, bytes, length, 0, version) :
			       lsm_alloc(lsm, bytes, length, LSM_TABLE(id % 7), &object->handle, version);
	if (ret)
		return ret;
	object->serial++;
	object->length = length;
	return 0;
}

/* Objects until so many percent of the capacity are live. */
static int fill(struct _test_data_tier_scan *self, uint64_t percent)
{
	struct lsmem_stat stat = { .capacity = 100 };
	int ret = 0;

	while (!ret && self->nr < OBJECTS && stat.live_bytes < stat.capacity / 100 * percent) {
		ret = put(self->store.lsm, &self->objects[self->nr], self->nr, self->bytes, &self->random, NULL);
		self->nr += !ret;
		if (!ret && self->nr % 100 == 0)
			ret = lsm_stat(self->store.lsm, &stat);
	}
	return ret;
}

FIXTURE_SETUP(tier_scan)
{
	uint32_t i;

	self->random = test_seed;
	self->objects = calloc(OBJECTS, sizeof(*self->objects));
	self->bytes = malloc(LARGE);
	ASSERT_TRUE(self->objects && self->bytes);
	for (i = 0; i < OBJECTS; i++)
		pthread_mutex_init(&self->objects[i].lock, NULL);
	keeper_init(&self->keeper);
	ASSERT_EQ(0, store_create_tiered(&self->store, STORE_BYTES, variant->capacity, 0, LSMEM_STORE_DURABLE));
	/* A scan of a debug kernel is slow; too_slow is about room. */
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/snapshot_ms", SECONDS * 1000));
	ASSERT_EQ(0, keeper_follow(&self->keeper, &self->follower, self->store.name));
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
}

FIXTURE_TEARDOWN(tier_scan)
{
	EXPECT_EQ(0, store_attribute(&self->store, "cleaner/snapshots"));
	EXPECT_EQ(0, store_attribute(&self->store, "cleaner/snapshot_seglets"));
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

/* ---- What a scan has found -------------------------------------------------- */

struct found {
	uint64_t id;
	uint64_t handle;
	uint64_t version;
	uint64_t serial;
	uint32_t length;
};

/**
 * struct seen - the rows of a scan
 * @found: of each thread
 * @nr: of each
 * @wrong: rows with other bytes than any change has written
 * @during: called once, when memory has been read, by progress(); NULL: nothing is done
 * @at: units of work after which it is called
 * @self: for it
 * @version: of the scan
 */
struct seen {
	struct found *found[THREADS];
	size_t nr[THREADS];
	atomic_ulong wrong;
	void (*during)(struct _test_data_tier_scan *self);
	uint64_t at;
	struct _test_data_tier_scan *self;
	uint64_t version;
};

static int see(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	struct seen *seen = context;
	struct found *found;
	uint64_t id = 0;
	size_t i;

	for (i = 0; i < nr; i++) {
		if (seen->nr[thread] == OBJECTS)
			return -E2BIG;
		found = &seen->found[thread][seen->nr[thread]++];
		if (rows[i].bytes >= CONTENT_MIN)
			memcpy(&id, (const uint8_t *)rows[i].data + 8, sizeof(id));
		*found = (struct found){ id, rows[i].handle, rows[i].version, 0, rows[i].length };
		seen->wrong += !content_right(rows[i].data, rows[i].bytes, id, &found->serial) ||
			       rows[i].table != id % 7;
	}
	return 0;
}

static void go_on(void *context, uint64_t done, uint64_t total)
{
	struct seen *seen = context;

	(void)total;
	if (!seen->during || done < seen->at)
		return;
	seen->during(seen->self);
	seen->during = NULL;
}

static int seen_init(struct seen *seen)
{
	uint32_t i;

	*seen = (struct seen){ 0 };
	for (i = 0; i < THREADS; i++) {
		seen->found[i] = calloc(OBJECTS, sizeof(*seen->found[i]));
		if (!seen->found[i])
			return -ENOMEM;
	}
	return 0;
}

static void seen_free(struct seen *seen)
{
	uint32_t i;

	for (i = 0; i < THREADS; i++)
		free(seen->found[i]);
}

static int found_cmp(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->version < y->version ? -1 : x->version > y->version;
}

/* All rows in the first array, by ids.  Return: how many. */
static size_t seen_gather(struct seen *seen)
{
	size_t nr = seen->nr[0];
	uint32_t i;

	for (i = 1; i < THREADS; i++) {
		size_t more = seen->nr[i] < OBJECTS - nr ? seen->nr[i] : OBJECTS - nr;

		memcpy(seen->found[0] + nr, seen->found[i], more * sizeof(*seen->found[i]));
		nr += more;
	}
	qsort(seen->found[0], nr, sizeof(*seen->found[0]), found_cmp);
	seen->nr[0] = nr;
	return nr;
}

static int scan_exactly(struct _test_data_tier_scan *self, struct seen *seen, uint32_t threads,
			struct lsm_scan_result *result)
{
	struct lsm_scan scan = {
		.flags = LSM_SCAN_EXACT, .threads = threads, .batch = see, .progress = go_on, .context = seen,
	};
	int ret;

	memset(seen->nr, 0, sizeof(seen->nr));
	atomic_store(&seen->wrong, 0);	/* rows of one that was revoked may be anything */
	seen->at = self->store.lsm ? (uint64_t)store_attribute(&self->store, "seglets") : 0;
	seen->self = self;
	ret = lsm_scan(self->store.lsm, &scan, result);
	seen->version = result->version;
	return ret;
}

/* How many objects were not found exactly once, as they are in @objects. */
static uint32_t differ(struct seen *seen, const struct object *objects, uint32_t nr)
{
	size_t found = seen_gather(seen), at = 0;
	uint32_t wrong = 0, id;

	for (id = 0; id < nr; id++) {
		const struct found *f = &seen->found[0][at];
		uint32_t times = 0, right = 0;

		for (; at < found && f->id == id; f = &seen->found[0][++at], times++)
			right += f->handle == objects[id].handle && f->serial == objects[id].serial &&
				 f->length == objects[id].length && f->version <= seen->version;
		wrong += times != !!objects[id].handle || right != times;
	}
	return wrong + (uint32_t)(found - at);
}

/* ---- At rest ------------------------------------------------------------------ */

/*
 * Five times what memory holds: all is found, what was hot is in memory afterwards, and nothing else has come there.
 */
TEST_F_TIMEOUT(tier_scan, hot_stays_hot, SECONDS)
{
	enum { HOT = 1000 };
	uint32_t nr_hot = (uint32_t)test_scaled(HOT), i, round;
	long long fetches, evicted;	/* bytes */
	struct lsm_explain explain;
	struct lsm_scan_result result;
	struct lsm_scan scan = { .threads = 1 };
	struct seen seen;
	uint64_t cold;

	if (!variant->wide)
		SKIP(return, "a store of five times its memory");
	ASSERT_EQ(0, seen_init(&seen));
	ASSERT_EQ(0, fill(self, 20 + test_scaled(variant->percent - 20)));
	for (round = 0; round < 3; round++)
		for (i = 0; i < nr_hot; i++)
			ASSERT_LT(0, lsm_read(self->store.lsm, self->objects[i * 17].handle, self->bytes, LARGE, 0, NULL));
	tier_print(&self->store);
	fetches = tier_attribute(&self->store, "fetches");
	evicted = tier_attribute(&self->store, "evicted_bytes");
	ASSERT_EQ(0, lsm_scan_explain(self->store.lsm, &scan, &explain));
	EXPECT_EQ(LSM_PLAN_LOG, explain.plan);
	cold = explain.cold;
	EXPECT_LT(0, cold);
	EXPECT_GT(self->nr, cold);
	for (i = 1; i <= THREADS; i++) {
		ASSERT_EQ(0, scan_exactly(self, &seen, i, &result));
		EXPECT_EQ(self->nr, result.rows);
		EXPECT_EQ(0, result.cold);
		EXPECT_EQ(0, differ(&seen, self->objects, self->nr));
		EXPECT_EQ(0, atomic_load(&seen.wrong));
	}
	tier_print(&self->store);
	printf("# of %u objects %llu were cold, by the planner; %lld were read through by %u scans\n", self->nr,
	       (unsigned long long)cold, tier_attribute(&self->store, "fetches_through"), THREADS);
	EXPECT_EQ(fetches, tier_attribute(&self->store, "fetches"));
	/* Room for what is kept back was made once, of what was not read. */
	EXPECT_GT(evicted + (long long)STORE_BYTES / 4, tier_attribute(&self->store, "evicted_bytes"));
	EXPECT_LE((long long)(THREADS * cold / 10 * 9), tier_attribute(&self->store, "fetches_through"));
	for (i = 0; i < nr_hot; i++)
		ASSERT_LT(0, lsm_read(self->store.lsm, self->objects[i * 17].handle, self->bytes, LARGE, 0, NULL));
	EXPECT_EQ(fetches, tier_attribute(&self->store, "fetches"));
	seen_free(&seen);
}

static int add_rows(void *context, unsigned int thread, struct lsm_columns *columns)
{
	const uint64_t *ids = columns->data[0];
	uint64_t *sums = context;
	size_t i;

	(void)thread;
	for (i = 0; i < columns->rows; i++)
		sums[0] += ids[i];
	sums[1] += columns->rows;
	lsm_columns_free(columns);
	return 0;
}

/* Lists, tables, aggregates, columns, spreads: cold objects are no special case. */
TEST_F_TIMEOUT(tier_scan, questions, SECONDS)
{
	const struct lsm_measure measure = { .column = { .type = LSM_U64, .offset = 8 } };
	const struct lsm_question question = { .measures = &measure, .nr_measures = 1 };
	const struct lsm_field field = { .type = LSM_U64, .offset = 8 };
	uint64_t *handles, sums[2] = { 0 }, sum[2] = { 0 }, all, i;
	const struct lsm_gather gather = { .fields = &field, .nr_fields = 1, .batch = add_rows, .context = sums };
	const struct lsm_spread spread = {
		.how = LSM_SPREAD_ADD, .column = { .type = LSM_U64, .offset = 0 }, .amount.i64 = 1,
	};
	struct lsm_scan scan = { .threads = 1 };
	struct lsm_spread_report report;
	struct lsm_aggregate *aggregate;
	struct lsm_scan_result result;
	struct lsm_total total;

	if (variant->wide)
		SKIP(return, "hot_stays_hot has it");
	ASSERT_EQ(0, fill(self, variant->percent));
	handles = calloc(self->nr, sizeof(*handles));
	ASSERT_NE(NULL, handles);
	for (i = 0; i < self->nr; i++) {
		handles[i / 2] = i % 2 ? handles[i / 2] : self->objects[i].handle;
		sum[0] += i % 2 ? 0 : i;
		sum[1] += i % 7 == 3 ? i : 0;
	}
	all = (uint64_t)self->nr * (self->nr - 1) / 2;
	scan.one_table = 1;
	scan.table = 3;
	ASSERT_EQ(0, lsm_scan_aggregate(self->store.lsm, &scan, &question, &aggregate, &result));
	ASSERT_EQ(0, lsm_aggregate_total(aggregate, 0, &total));
	EXPECT_EQ(sum[1], total.sum_low);
	EXPECT_EQ(LSM_PLAN_LOG, result.explain.plan);
	lsm_aggregate_destroy(aggregate);
	scan.one_table = 0;
	scan.plan = LSM_PLAN_LOG;
	scan.handles = handles;
	scan.nr_handles = (self->nr + 1) / 2;
	ASSERT_EQ(0, lsm_scan_aggregate(self->store.lsm, &scan, &question, &aggregate, &result));
	ASSERT_EQ(0, lsm_aggregate_total(aggregate, 0, &total));
	EXPECT_EQ(sum[0], total.sum_low);
	EXPECT_EQ(0, result.gone);
	lsm_aggregate_destroy(aggregate);
	scan = (struct lsm_scan){ .threads = 1 };
	ASSERT_EQ(0, lsm_scan_columns(self->store.lsm, &scan, &gather, NULL, &result));
	EXPECT_EQ(all, sums[0]);
	EXPECT_EQ(self->nr, sums[1]);
	scan.handles = handles;
	scan.nr_handles = self->nr / 20;	/* those that change come into memory */
	ASSERT_EQ(0, lsm_spread(self->store.lsm, &scan, &spread, &report));
	EXPECT_EQ(scan.nr_handles, report.changed);
	EXPECT_EQ(0, report.lost + report.gone);
	free(handles);
}

/* ---- Changes meanwhile -------------------------------------------------------- */

static void change_some(struct _test_data_tier_scan *self, uint32_t from, uint32_t step)
{
	uint32_t i;

	/* Other objects each time. */
	for (i = from; i + 3 < self->nr; i += step) {
		struct object replaced = self->objects[i], freed = self->objects[i + 1];
		int ret;

		ret = put(self->store.lsm, &replaced, i, self->bytes, &self->random, NULL);
		if (!ret)
			ret = put(self->store.lsm, &replaced, i, self->bytes, &self->random, NULL);
		if (!ret)
			ret = lsm_free(self->store.lsm, freed.handle, 0, NULL);
		freed.handle = 0;
		if (!ret && i % (2 * step) == from)	/* its index, perhaps, has another object */
			ret = put(self->store.lsm, &freed, i + 1, self->bytes, &self->random, NULL);
		if (!ret)
			ret = (int)lsm_read(self->store.lsm, self->objects[i + 2].handle, self->bytes, LARGE, 0, NULL);
		if (ret < 0)
			printf("# object %u: %d\n", i, ret);
	}
}

static void change_after_memory(struct _test_data_tier_scan *self)
{
	change_some(self, 1, self->nr / 300);
}

/* What was cold, and is replaced, freed or fetched before it is read, is found as it was. */
TEST_F_TIMEOUT(tier_scan, changed_before_read, SECONDS)
{
	struct lsm_scan_result result;
	struct seen seen;

	if (variant->wide)
		SKIP(return, "hot_stays_hot has it");
	ASSERT_EQ(0, seen_init(&seen));
	ASSERT_EQ(0, fill(self, variant->percent));
	seen.during = change_after_memory;
	ASSERT_EQ(0, scan_exactly(self, &seen, 1, &result));
	EXPECT_EQ(NULL, seen.during);
	EXPECT_EQ(0, differ(&seen, self->objects, self->nr));
	EXPECT_EQ(0, atomic_load(&seen.wrong));
	tier_print(&self->store);
	seen_free(&seen);
}

static void change_much(struct _test_data_tier_scan *self)
{
	uint32_t round;

	for (round = 0; round < 4; round++)
		change_some(self, 1 + 3 * round, 60);
}

/* A scan for which too much must be kept back is told so, and nothing is kept afterwards. */
TEST_F_TIMEOUT(tier_scan, too_slow, SECONDS)
{
	struct seen seen;
	struct lsm_scan scan = {
		.flags = LSM_SCAN_EXACT, .threads = 1, .kept_max = 1, .batch = see, .progress = go_on, .context = &seen,
	};
	struct lsm_scan_result result;

	if (variant->wide)
		SKIP(return, "hot_stays_hot has it");
	ASSERT_EQ(0, seen_init(&seen));
	ASSERT_EQ(0, fill(self, variant->percent));
	seen.self = self;
	seen.at = 1;
	seen.during = change_much;
	EXPECT_EQ(-ECANCELED, lsm_scan(self->store.lsm, &scan, &result));
	EXPECT_EQ(0, store_attribute(&self->store, "cleaner/snapshot_seglets"));
	seen_free(&seen);
}

/* ---- The model ------------------------------------------------------------------ */

struct writer {
	struct _test_data_tier_scan *self;
	pthread_t thread;
	struct found *log;
	size_t nr;
	size_t most;
	uint64_t random;
	atomic_bool *stop;
	int error;
};

static void *write_all(void *argument)
{
	struct writer *writer = argument;
	struct lsm *lsm = writer->self->store.lsm;
	uint8_t *bytes = malloc(LARGE);

	while (!writer->error && writer->nr < writer->most && !atomic_load(writer->stop)) {
		uint32_t id = random_below(&writer->random, writer->self->nr);
		struct object *object = &writer->self->objects[id];
		uint64_t version, handle;
		int ret;

		pthread_mutex_lock(&object->lock);
		handle = object->handle;
		if (handle && random_below(&writer->random, 4) == 0) {
			ret = lsm_free(lsm, handle, 0, &version);
			object->handle = ret ? handle : 0;
		} else if (handle && random_below(&writer->random, 3) == 0) {
			writer->error = lsm_read(lsm, handle, bytes, LARGE, 0, NULL) < 0;
			ret = 1;
		} else {
			ret = put(lsm, object, id, bytes, &writer->random, &version);
		}
		if (!ret)
			writer->log[writer->nr++] = (struct found){ id, object->handle, version, object->serial,
								    object->length };
		pthread_mutex_unlock(&object->lock);
		if (ret < 0 && ret != -ENOSPC)
			writer->error = ret;
	}
	free(bytes);
	return NULL;
}

/* How many objects of a scan are not what the last change up to its version had made of them. */
static uint32_t compare(struct seen *seen, const struct found *changes, size_t nr)
{
	size_t found = seen_gather(seen), at = 0, i = 0;
	uint32_t wrong = 0;

	while (i < nr) {
		const struct found *last = NULL, *f = &seen->found[0][at];
		uint64_t id = changes[i].id;
		bool same = true;
		uint32_t times = 0;

		for (; i < nr && changes[i].id == id; i++)
			if (changes[i].version <= seen->version)
				last = &changes[i];
		if (last && !last->handle)
			last = NULL;
		for (; at < found && f->id == id; f = &seen->found[0][++at], times++)
			same = last && f->handle == last->handle && f->version == last->version &&
			       f->serial == last->serial && f->length == last->length;
		if (times != !!last || !same) {
			if (!wrong)
				printf("# object %llu: found %u times, version %llu, scan at %llu\n",
				       (unsigned long long)id, times, last ? (unsigned long long)last->version : 0,
				       (unsigned long long)seen->version);
			wrong++;
		}
	}
	return wrong + (uint32_t)(found - at);
}

TEST_F_TIMEOUT(tier_scan, model, SECONDS)
{
	uint32_t scans = (uint32_t)test_scaled(SCANS), most = (uint32_t)test_scaled(SCANS_MOST), done = 0, tries, i;
	size_t changes_most = test_scaled(CHANGES);
	struct lsm_scan_result result;
	struct writer writers[WRITERS];
	struct found *changes;
	struct seen *seen = calloc(most, sizeof(*seen));
	atomic_bool stop = false;
	size_t nr = 0;
	int ret;

	if (variant->wide)
		SKIP(return, "hot_stays_hot has it");
	ASSERT_NE(NULL, seen);
	/* The first version of each object is read from the store, which is at rest. */
	ASSERT_EQ(0, fill(self, variant->percent));
	changes = calloc((size_t)self->nr + WRITERS * CHANGES, sizeof(*changes));
	ASSERT_NE(NULL, changes);
	ASSERT_EQ(0, seen_init(&seen[0]));
	ASSERT_EQ(0, scan_exactly(self, &seen[0], THREADS, &result));
	ASSERT_EQ(0, differ(&seen[0], self->objects, self->nr));
	nr = seen_gather(&seen[0]);
	memcpy(changes, seen[0].found[0], nr * sizeof(*changes));
	for (i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ .self = self, .random = test_seed + i, .stop = &stop,
						.most = changes_most };
		writers[i].log = calloc(CHANGES, sizeof(*writers[i].log));
		ASSERT_NE(NULL, writers[i].log);
		ASSERT_EQ(0, pthread_create(&writers[i].thread, NULL, write_all, &writers[i]));
	}
	/* Writers at full speed leave a snapshot little room.  When they have made their changes, it has more. */
	for (tries = 0; done < scans ||
	     (done < most && !store_attribute(&self->store, "cleaner/segments_cleaned")); tries++) {
		if (!seen[done].found[0])
			ASSERT_EQ(0, seen_init(&seen[done]));
		ret = scan_exactly(self, &seen[done], THREADS, &result);
		done += !ret;
		if (ret && ret != -ECANCELED && ret != -ENOSPC && ret != -ETIMEDOUT)
			break;
	}
	atomic_store(&stop, true);
	for (i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		EXPECT_EQ(0, writers[i].error);
		memcpy(changes + nr, writers[i].log, writers[i].nr * sizeof(*changes));
		nr += writers[i].nr;
		free(writers[i].log);
	}
	qsort(changes, nr, sizeof(*changes), found_cmp);
	tier_print(&self->store);
	printf("# %u of %u scans, %zu changes, %lld segments cleaned\n", done, tries, nr - self->nr,
	       store_attribute(&self->store, "cleaner/segments_cleaned"));
	EXPECT_LE(scans, done) TH_LOG("the last: %d", ret);
	if (test_scaled(100) >= 100)
		EXPECT_LT(0, store_attribute(&self->store, "cleaner/segments_cleaned"));
	for (i = 0; i < done; i++) {
		EXPECT_EQ(0, compare(&seen[i], changes, nr)) TH_LOG("scan %u", i);
		EXPECT_EQ(0, atomic_load(&seen[i].wrong));
	}
	for (i = 0; i < most; i++)
		seen_free(&seen[i]);
	free(seen);
	free(changes);
}

/* ---- The call --------------------------------------------------------------------- */

static int read_one(int fd, struct lsmem_op *op, uint32_t prefix)
{
	struct lsmem_snapshot_read call = { .size = sizeof(call), .ops = (uintptr_t)op, .nr = 1, .prefix = prefix };

	return ioctl(fd, LSMEM_IOC_SNAPSHOT_READ, &call) ? -errno : op->result;
}

static struct lsmem_op op_of(uint64_t index, void *data, uint32_t length)
{
	struct lsmem_op op = lsm_op_read(index, data, length, 0);

	op.flags = LSMEM_OPF_INDEX;
	return op;
}

TEST_F_TIMEOUT(tier_scan, call, SECONDS)
{
	struct lsmem_snapshot call = { .size = sizeof(call) };
	struct lsmem_snapshot_read read = { .size = sizeof(read), .nr = 1 };
	struct lsmem_snapshot_done done = { .size = sizeof(done), .flags = LSMEM_SNAPSHOT_SETTLE };
	const struct lsmem_snapshot_page *page;
	const uint64_t *cold;
	struct lsmem_op op;
	uint64_t index = 0;

	if (variant->wide)
		SKIP(return, "hot_stays_hot has it");
	ASSERT_EQ(0, fill(self, variant->percent));
	ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_SNAPSHOT, &call));
	page = mmap(NULL, call.bytes, PROT_READ, MAP_SHARED, call.fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	ASSERT_LT(0, page->cold.length);
	EXPECT_EQ(page->livemap.length, page->late.length);
	/* Memory was full: room was made. */
	printf("# %u of %llu seglets may be kept back\n", call.kept_max, (unsigned long long)page->nr_seglets);
	EXPECT_LE(page->nr_seglets / 32, call.kept_max);
	EXPECT_EQ(call.bytes, page->late.offset + page->late.length);
	cold = (const void *)((const uint8_t *)page + page->cold.offset);
	while (!(cold[index / 64] >> index % 64 & 1))
		ASSERT_GT(page->cold.length * 8, ++index);
	read.ops = (uintptr_t)&op;
	op = op_of(index, self->bytes, LARGE);
	read.flags = 1;
	EXPECT_EQ(-1, ioctl(call.fd, LSMEM_IOC_SNAPSHOT_READ, &read));
	EXPECT_EQ(EINVAL, errno);
	read.flags = 0;
	read.nr = 0;
	EXPECT_EQ(-1, ioctl(call.fd, LSMEM_IOC_SNAPSHOT_READ, &read));
	EXPECT_EQ(EINVAL, errno);
	read.nr = LSMEM_SNAPSHOT_READ_MAX + 1;
	EXPECT_EQ(-1, ioctl(call.fd, LSMEM_IOC_SNAPSHOT_READ, &read));
	EXPECT_EQ(EINVAL, errno);
	read.nr = 1;
	read.ops = 8;
	EXPECT_EQ(-1, ioctl(call.fd, LSMEM_IOC_SNAPSHOT_READ, &read));
	EXPECT_EQ(EFAULT, errno);
	op.flags = 0;
	EXPECT_EQ(-EINVAL, read_one(call.fd, &op, 0));
	op = lsm_op_replace(index, self->bytes, LARGE, 0, 0);
	EXPECT_EQ(-EINVAL, read_one(call.fd, &op, 0));
	op = op_of(page->cold.length * 8, self->bytes, LARGE);
	EXPECT_EQ(-ENOENT, read_one(call.fd, &op, 0));
	op = op_of(UINT64_MAX, self->bytes, LARGE);
	EXPECT_EQ(-ENOENT, read_one(call.fd, &op, 0));
	op = op_of(index, (void *)8, LARGE);
	EXPECT_EQ(-EFAULT, read_one(call.fd, &op, 0));
	op = op_of(index, (void *)(1ull << 63), LARGE);
	EXPECT_EQ(-EFAULT, read_one(call.fd, &op, 0));
	op = op_of(index, self->bytes, 4);
	EXPECT_EQ(-EMSGSIZE, read_one(call.fd, &op, 0));
	EXPECT_LT(4, op.object_length);
	EXPECT_TRUE(cold[index / 64] >> index % 64 & 1);
	op = op_of(index, self->bytes, 4);
	EXPECT_EQ(0, read_one(call.fd, &op, 4));
	EXPECT_EQ(index, lsmem_handle_index(op.handle));
	EXPECT_GE(call.version, op.version);
	EXPECT_FALSE(cold[index / 64] >> index % 64 & 1);
	op = op_of(index, self->bytes, LARGE);
	EXPECT_EQ(-ENOENT, read_one(call.fd, &op, 0));
	EXPECT_EQ(0, ioctl(call.fd, LSMEM_IOC_SNAPSHOT_DONE, &done));
	done.flags = 2;
	EXPECT_EQ(-1, ioctl(call.fd, LSMEM_IOC_SNAPSHOT_DONE, &done));
	EXPECT_EQ(EINVAL, errno);
	munmap((void *)page, call.bytes);
	close(call.fd);
}

TEST_HARNESS_MAIN
