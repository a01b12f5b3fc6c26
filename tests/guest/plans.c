// SPDX-License-Identifier: GPL-2.0
/*
 * lsm_scan(): each plan finds what look-ups find.
 *
 * A store is filled with objects of all sizes and some tables; many are replaced and freed, and segments are
 * compacted and cleaned.  At rest each plan must then give each object that was asked for exactly
 * once, with its bytes, whatever the predicates, the list and the number of threads.  While writers
 * change all objects, a scan in the order of the log must see each object as it was at its version, also one that is
 * read batch by batch.  And of a store that does not change, the planner must choose by how much of it is wanted.
 */
#include <errno.h>
#include <lsmem/lsmem_format.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "store.h"

#define OBJECTS		30000u
#define HANDLES		(OBJECTS + 1000u)
#define CHANGES		120000u
#define TABLES		4u
#define SCANS		40u
#define THREADS		3u
#define LENGTH_MAX	200000u

/**
 * struct object - what a store must have
 * @handle: 0: freed
 * @gone: a handle that was freed; 0: none
 * @version: of the object
 * @length: of the object
 * @table: of the object
 * @seen: by the scan that is running
 */
struct object {
	uint64_t handle;
	uint64_t gone;
	uint64_t version;
	uint32_t length;
	uint32_t table;
	_Atomic uint32_t seen;
};

/**
 * struct content - a store, and what it must have
 * @store: store
 * @objects: OBJECTS
 * @by_index: by handle index, number in @objects plus 1; 0: none
 * @nr_indices: entries of @by_index
 * @state: of random numbers
 */
struct content {
	struct store store;
	struct object *objects;
	uint32_t *by_index;
	uint64_t nr_indices;
	uint64_t state;
};

FIXTURE(plans) {
	struct content content;
};

FIXTURE_SETUP(plans)
{
	struct content *content = &self->content;
	struct lsmem_query query;

	/* So few indices that those of freed objects are used again. */
	ASSERT_EQ(0, store_create(&content->store, STORE_BYTES, HANDLES, 0));
	ASSERT_EQ(0, lsm_query(content->store.lsm, &query));
	content->nr_indices = query.handles_max + 1;
	content->objects = calloc(OBJECTS, sizeof(*content->objects));
	content->by_index = calloc(content->nr_indices, sizeof(*content->by_index));
	content->state = test_seed;
	ASSERT_TRUE(content->objects && content->by_index);
}

FIXTURE_TEARDOWN(plans)
{
	free(self->content.objects);
	free(self->content.by_index);
	EXPECT_EQ(0, store_destroy(&self->content.store));
}

static uint32_t choose_length(uint64_t *state)
{
	uint64_t dice = random_below(state, 1000);

	return 1 + random_below(state, dice < 900 ? 400 : dice < 998 ? 5000 : LENGTH_MAX);
}

/* The first word of an object: content_fill() makes the rest of it and of the object's number. */
static uint64_t value_of(uint32_t which, uint32_t length)
{
	return (which + 1) * 0x9e3779b97f4a7c15ull * length;
}

/* Allocates, replaces or frees an object.  Return: 0 or an error. */
static int change(struct lsm *lsm, struct object *object, uint32_t which, uint64_t *state, uint8_t *bytes)
{
	uint32_t length = choose_length(state), dice = random_below(state, 10);
	int ret;

	content_fill(bytes, length, which, value_of(which, length));
	if (!object->handle) {
		object->table = random_below(state, TABLES);
		ret = lsm_alloc(lsm, bytes, length, LSM_TABLE(object->table), &object->handle, &object->version);
	} else if (dice < 2) {
		ret = lsm_free(lsm, object->handle, 0, NULL);
		object->gone = object->handle;
		object->handle = 0;
	} else {
		ret = lsm_replace(lsm, object->handle, bytes, length, 0, &object->version);
	}
	object->length = length;
	return ret;
}

static int make_objects(struct content *content)
{
	uint64_t i, changes = OBJECTS + test_scaled(CHANGES);
	uint8_t *bytes = malloc(LENGTH_MAX);
	int ret = bytes ? 0 : -ENOMEM;

	for (i = 0; !ret && i < changes; i++) {
		uint32_t which = i < OBJECTS ? (uint32_t)i : random_below(&content->state, OBJECTS);

		ret = change(content->store.lsm, &content->objects[which], which, &content->state, bytes);
		if (i % 50000 == 49999)
			store_set_attribute(&content->store, "cleaner/request_compact", 4);
	}
	store_set_attribute(&content->store, "cleaner/request_clean", 4);
	for (i = 0; i < OBJECTS; i++)
		if (content->objects[i].handle)
			content->by_index[lsmem_handle_index(content->objects[i].handle)] = (uint32_t)i + 1;
	free(bytes);
	return ret;
}

/* ---- At rest ----------------------------------------------------------------- */

/**
 * struct check - a scan, and what its callback finds
 * @objects: what there is
 * @by_index: numbers in @objects, plus 1
 * @nr_indices: entries of @by_index
 * @scan: the scan
 * @rows: given
 * @wrong: of these, objects that are not those of @objects
 * @told: last progress
 */
struct check {
	struct object *objects;
	const uint32_t *by_index;
	uint64_t nr_indices;
	struct lsm_scan scan;
	_Atomic uint64_t rows, wrong;
	uint64_t told;
};

static int look(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	struct check *check = context;
	size_t i;

	(void)thread;
	for (i = 0; i < nr; i++) {
		uint64_t index = lsmem_handle_index(rows[i].handle);
		uint32_t which = index < check->nr_indices ? check->by_index[index] : 0, want;
		struct object *object = &check->objects[which - 1];

		check->rows++;
		want = check->scan.prefix && check->scan.prefix < rows[i].length ? check->scan.prefix :
										   rows[i].length;
		if (!which || object->handle != rows[i].handle || object->version != rows[i].version ||
		    object->length != rows[i].length || object->table != rows[i].table ||
		    rows[i].bytes < want || !content_is(rows[i].data, want, which - 1, value_of(which - 1, object->length)))
			check->wrong++;
		else
			object->seen++;
	}
	return 0;
}

static void look_progress(void *context, uint64_t done, uint64_t total)
{
	struct check *check = context;

	if (done < check->told || done > total)
		check->wrong++;
	check->told = done;
}

static void random_scan(struct content *content, struct check *check, uint64_t *list)
{
	static const uint32_t percents[] = { 0, 1, 10, 60, 100 };
	struct lsm_scan *scan = &check->scan;
	uint64_t *state = &content->state;
	uint32_t i, percent;

	*scan = (struct lsm_scan){ .batch = look, .progress = look_progress, .context = check,
				   .threads = 1 + random_below(state, THREADS) };
	if (random_chance(state, 50)) {
		scan->one_table = 1;
		scan->table = random_below(state, TABLES + 1);
	}
	if (random_chance(state, 30))
		scan->length_min = random_below(state, 300);
	if (random_chance(state, 30))
		scan->length_max = 1 + random_below(state, 3000);
	if (random_chance(state, 30))
		scan->version_min = content->objects[random_below(state, OBJECTS)].version;
	if (random_chance(state, 30))
		scan->version_max = content->objects[random_below(state, OBJECTS)].version;
	if (random_chance(state, 30))
		scan->index_first = random_below(state, content->nr_indices);
	if (random_chance(state, 30))
		scan->index_end = 1 + random_below(state, content->nr_indices);
	if (random_chance(state, 50))
		scan->prefix = 1 + random_below(state, 3000);
	if (random_chance(state, 50))
		return;
	scan->handles = list;
	percent = percents[random_below(state, 5)];
	for (i = 0; i < OBJECTS; i++) {
		/* Also some that were freed, whose index may have another object now. */
		uint64_t handle = random_chance(state, 10) ? content->objects[i].gone : content->objects[i].handle;

		if (handle && random_chance(state, percent))
			list[scan->nr_handles++] = handle;
	}
	for (i = (uint32_t)scan->nr_handles; i > 1; i--) {
		uint32_t other = random_below(state, i);
		uint64_t had = list[i - 1];

		list[i - 1] = list[other];
		list[other] = had;
	}
}

/* How often the scan must have seen an object. */
static uint32_t expected(const struct check *check, const struct object *object, const uint8_t *listed)
{
	const struct lsm_scan *scan = &check->scan;
	uint64_t index = lsmem_handle_index(object->handle);

	return object->handle && (!scan->handles || listed[object - check->objects]) &&
	       (!scan->one_table || object->table == scan->table) && object->length >= scan->length_min &&
	       (!scan->length_max || object->length <= scan->length_max) &&
	       object->version >= scan->version_min &&
	       (!scan->version_max || object->version <= scan->version_max) &&
	       index >= scan->index_first && (!scan->index_end || index < scan->index_end);
}

TEST_F_TIMEOUT(plans, rest, 240)
{
	struct content *content = &self->content;
	struct check check = { .objects = content->objects, .by_index = content->by_index,
			       .nr_indices = content->nr_indices };
	uint64_t *list = malloc(OBJECTS * sizeof(*list)), used[LSM_PLANS] = { 0 }, rows = 0, copied = 0, gone;
	uint8_t *listed = malloc(OBJECTS);
	struct lsm_scan_result result;
	struct lsm_explain explain;
	uint32_t number, plan, i;

	ASSERT_TRUE(list && listed);
	ASSERT_EQ(0, make_objects(content));
	for (number = 0; number < test_scaled(SCANS) + 5; number++) {
		random_scan(content, &check, list);
		memset(listed, 0, OBJECTS);
		gone = 0;
		for (i = 0; i < check.scan.nr_handles; i++) {
			uint64_t index = lsmem_handle_index(list[i]);
			uint32_t which = content->by_index[index];
			bool in = index >= check.scan.index_first &&
				  (!check.scan.index_end || index < check.scan.index_end);

			if (which && content->objects[which - 1].handle == list[i])
				listed[which - 1] = 1;
			else
				gone += in;
		}
		ASSERT_EQ(0, lsm_scan_explain(content->store.lsm, &check.scan, &explain));
		for (plan = LSM_PLAN_AUTO; plan < LSM_PLANS; plan++) {
			if (plan != LSM_PLAN_AUTO && explain.cost_ns[plan] < 0)
				continue;
			check.scan.plan = plan;
			check.told = check.rows = check.wrong = 0;
			for (i = 0; i < OBJECTS; i++)
				content->objects[i].seen = 0;
			ASSERT_EQ(0, lsm_scan(content->store.lsm, &check.scan, &result));
			ASSERT_EQ(0, check.wrong);
			for (i = 0; i < OBJECTS; i++) {
				ASSERT_EQ(expected(&check, &content->objects[i], listed), content->objects[i].seen)
					TH_LOG("scan %u, plan %s: object %u", number, lsm_plan_name(plan), i);
			}
			EXPECT_EQ(check.rows, result.rows);
			EXPECT_EQ(check.scan.handles ? gone : 0, result.gone);
			EXPECT_EQ(0, result.cold);
			EXPECT_EQ(result.explain.plan == LSM_PLAN_LOG, !!result.version);
			used[result.explain.plan]++;
			rows += result.rows;
			copied += result.copied;
		}
	}
	TH_LOG("%llu rows by %llu look-ups, %llu sorted, %llu in the table, %llu in the log; %llu copied",
	       (unsigned long long)rows, (unsigned long long)used[LSM_PLAN_LOOKUP],
	       (unsigned long long)used[LSM_PLAN_SORTED], (unsigned long long)used[LSM_PLAN_TABLE],
	       (unsigned long long)used[LSM_PLAN_LOG], (unsigned long long)copied);
	for (plan = LSM_PLAN_LOOKUP; plan < LSM_PLANS; plan++)
		EXPECT_LT(0, used[plan]);
	EXPECT_LT(0, copied);
	free(list);
	free(listed);
}

/* The aggregate of each plan is that of the objects. */
TEST_F_TIMEOUT(plans, aggregate, 240)
{
	struct content *content = &self->content;
	struct lsm_measure measure = { .column = { .type = LSM_U64 }, .top = 3 };
	struct lsm_range range = { .column = { .type = LSM_U32, .offset = 8 }, .high.u64 = UINT32_MAX / 2 };
	struct lsm_question question = { .measures = &measure, .nr_measures = 1, .ranges = &range,
					 .nr_ranges = 1 };
	uint64_t list[1] = { 0 }, shorter = 0, count = 0, largest = 0, best = 0, i;
	unsigned __int128 sum = 0;
	uint8_t *bytes = malloc(LENGTH_MAX);
	struct lsm_aggregate *aggregate;
	struct lsm_scan_result result;
	struct lsm_scan scan = { 0 };
	struct lsm_counts counts;
	struct lsm_total total;
	struct lsm_top top;
	uint32_t plan;

	ASSERT_NE(NULL, bytes);
	ASSERT_EQ(0, make_objects(content));
	for (i = 0; i < OBJECTS; i++) {
		const struct object *object = &content->objects[i];
		uint64_t value = value_of((uint32_t)i, object->length);
		uint32_t half;

		if (!object->handle)
			continue;
		if (object->length < 12) {
			shorter++;
			continue;
		}
		content_fill(bytes, object->length, i, value);
		memcpy(&half, bytes + 8, sizeof(half));
		if (half > UINT32_MAX / 2)
			continue;
		count++;
		sum += value;
		if (value > largest || (value == largest && object->handle < best)) {
			largest = value;
			best = object->handle;
		}
	}
	for (plan = LSM_PLAN_TABLE; plan < LSM_PLANS; plan++) {
		scan.plan = plan;
		scan.threads = THREADS;
		ASSERT_EQ(0, lsm_scan_aggregate(content->store.lsm, &scan, &question, &aggregate, &result));
		ASSERT_EQ(0, lsm_aggregate_counts(aggregate, &counts));
		ASSERT_EQ(0, lsm_aggregate_total(aggregate, 0, &total));
		EXPECT_EQ(shorter, counts.shorter);
		EXPECT_EQ(count, counts.selected);
		EXPECT_EQ(count, total.count);
		EXPECT_EQ((uint64_t)sum, total.sum_low);
		EXPECT_EQ((int64_t)(sum >> 64), total.sum_high);
		ASSERT_EQ(1, lsm_aggregate_top(aggregate, 0, &top, 1));
		EXPECT_EQ(largest, top.value.u64);
		EXPECT_EQ(best, top.handle);
		lsm_aggregate_destroy(aggregate);
	}
	scan.plan = LSM_PLAN_AUTO;
	scan.flags = LSM_SCAN_EXACT;
	ASSERT_EQ(0, lsm_scan_aggregate(content->store.lsm, &scan, &question, &aggregate, &result));
	EXPECT_EQ(LSM_PLAN_LOG, result.explain.plan);
	lsm_aggregate_destroy(aggregate);
	/* What is refused. */
	scan.plan = LSM_PLAN_TABLE;
	EXPECT_EQ(-EOPNOTSUPP, lsm_scan_aggregate(content->store.lsm, &scan, &question, &aggregate, NULL));
	scan.flags = 0;
	scan.plan = LSM_PLAN_LOOKUP;
	EXPECT_EQ(-EINVAL, lsm_scan_aggregate(content->store.lsm, &scan, &question, &aggregate, NULL));
	scan.handles = list;
	EXPECT_EQ(0, lsm_scan_aggregate(content->store.lsm, &scan, &question, &aggregate, &result));
	EXPECT_EQ(0, result.rows);
	lsm_aggregate_destroy(aggregate);
	scan.plan = LSM_PLANS;
	EXPECT_EQ(-EINVAL, lsm_scan_aggregate(content->store.lsm, &scan, &question, &aggregate, NULL));
	scan.plan = LSM_PLAN_AUTO;
	EXPECT_EQ(-EINVAL, lsm_scan(content->store.lsm, &scan, NULL));
	free(bytes);
}

/* ---- With writers ------------------------------------------------------------- */

#define OWNED		4000u	/* objects of a writer */
#define HISTORY		200000u	/* most changes of a writer */

/**
 * struct event - a change
 * @which: object of the writer
 * @version: of the object after it; of a free: 0, and of an allocation the first of another handle
 * @handle: of the object
 * @length: of the object; 0: it was freed
 */
struct event {
	uint32_t which;
	uint32_t length;
	uint64_t handle;
	uint64_t version;
};

/**
 * struct writer - a thread that changes its own objects at random, and writes down how
 * @lsm: store
 * @first: number of the first of its objects
 * @objects: OWNED
 * @events: HISTORY
 * @nr: of these; release: the entries before are complete
 * @state: of its random numbers
 * @stop: set by the test
 * @error: the first
 */
struct writer {
	struct lsm *lsm;
	uint32_t first;
	struct object *objects;
	struct event *events;
	_Atomic uint32_t nr;
	uint64_t state;
	atomic_bool stop;
	int error;
};

static int write_one(struct writer *writer, uint32_t which, uint8_t *bytes)
{
	struct object *object = &writer->objects[which];
	uint32_t nr = writer->nr;
	int ret;

	ret = change(writer->lsm, object, writer->first + which, &writer->state, bytes);
	if (ret)
		return ret;
	writer->events[nr] = (struct event){
		.which = which, .handle = object->handle ? object->handle : object->gone,
		.version = object->handle ? object->version : 0,
		.length = object->handle ? object->length : 0,
	};
	writer->nr = nr + 1;
	return 0;
}

static void *write_all(void *argument)
{
	struct writer *writer = argument;
	uint8_t *bytes = malloc(LENGTH_MAX);
	int ret = bytes ? 0 : -ENOMEM;

	while (!ret && !writer->stop && writer->nr < HISTORY)
		ret = write_one(writer, random_below(&writer->state, OWNED), bytes);
	writer->error = ret;
	free(bytes);
	return NULL;
}

/* A row of a scan.  @head: its first bytes; @right: the others follow from them. */
struct seen {
	uint64_t handle;
	uint64_t version;
	uint32_t length;
	bool right;
	uint64_t head[CONTENT_MIN / 8];
};

struct collected {
	struct seen *seen;
	_Atomic uint32_t nr;
	uint32_t room;
};

static int collect(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	struct collected *collected = context;
	struct seen *seen;
	uint32_t at;
	size_t i;

	(void)thread;
	for (i = 0; i < nr; i++) {
		at = collected->nr++;
		if (at >= collected->room)
			return -E2BIG;
		seen = &collected->seen[at];
		*seen = (struct seen){ rows[i].handle, rows[i].version, rows[i].length, true, { 0 } };
		memcpy(seen->head, rows[i].data, rows[i].length < CONTENT_MIN ? rows[i].length : CONTENT_MIN);
		if (rows[i].length > CONTENT_MIN)
			seen->right = content_is(rows[i].data, rows[i].length, seen->head[1], seen->head[0]);
	}
	return 0;
}

static int compare_seen(const void *a, const void *b)
{
	const struct seen *one = a, *other = b;

	return one->handle < other->handle ? -1 : one->handle > other->handle;
}

/*
 * Are the rows the objects at @version?  The events of an object are in the order of their versions.  Of a free
 * no version is known: what is seen of an object that was freed next is right in both cases, if the
 * version is the last before.  Return: rows that are wrong, and objects that are missing.
 */
static uint64_t compare(struct writer *writers, struct collected *collected, uint64_t version,
			uint64_t *certain)
{
	struct event *last = calloc(OWNED, sizeof(*last));
	bool *unsure = calloc(OWNED, sizeof(*unsure));
	uint32_t i, j, bytes, matched = 0;
	uint64_t wrong = 0;

	qsort(collected->seen, collected->nr, sizeof(*collected->seen), compare_seen);
	for (i = 1; i < collected->nr; i++)
		wrong += collected->seen[i].handle == collected->seen[i - 1].handle;
	for (i = 0; i < THREADS; i++) {
		struct writer *writer = &writers[i];
		uint32_t nr = writer->nr;

		memset(last, 0, OWNED * sizeof(*last));
		memset(unsure, 0, OWNED * sizeof(*unsure));
		for (j = 0; j < nr; j++) {
			const struct event *event = &writer->events[j];

			if (event->length && event->version <= version) {
				last[event->which] = *event;
				unsure[event->which] = false;
			} else if (!event->length && last[event->which].handle == event->handle) {
				unsure[event->which] = true;
			}
		}
		for (j = 0; j < OWNED; j++) {
			struct seen key = { .handle = last[j].handle }, *found;

			if (!last[j].handle)
				continue;
			found = bsearch(&key, collected->seen, collected->nr, sizeof(key), compare_seen);
			if (!found) {
				wrong += !unsure[j];
				continue;
			}
			matched++;
			*certain += !unsure[j];
			bytes = found->length < CONTENT_MIN ? found->length : CONTENT_MIN;
			wrong += found->version != last[j].version || found->length != last[j].length ||
				 !found->right || !content_is(found->head, bytes, writer->first + j,
							      value_of(writer->first + j, found->length));
		}
	}
	wrong += collected->nr - matched;
	free(last);
	free(unsure);
	return wrong;
}

TEST_F_TIMEOUT(plans, writers, 240)
{
	struct content *content = &self->content;
	struct collected collected = { .room = 2 * THREADS * OWNED };
	struct lsm_scan scan = { .plan = LSM_PLAN_LOG, .batch = collect, .context = &collected };
	uint64_t certain = 0, revoked = 0, scans = 0, events = 0;
	struct writer writers[THREADS] = { 0 };
	uint8_t *bytes = malloc(LENGTH_MAX);
	struct lsm_scan_result result;
	pthread_t threads[THREADS];
	uint32_t i, j, number;
	int ret;

	collected.seen = malloc(collected.room * sizeof(*collected.seen));
	ASSERT_TRUE(bytes && collected.seen);
	for (i = 0; i < THREADS; i++) {
		struct writer *writer = &writers[i];

		writer->lsm = content->store.lsm;
		writer->first = i * OWNED;
		writer->state = test_seed + i;
		writer->objects = calloc(OWNED, sizeof(*writer->objects));
		writer->events = calloc(HISTORY, sizeof(*writer->events));
		ASSERT_TRUE(writer->objects && writer->events);
		for (j = 0; j < OWNED; j++)
			ASSERT_EQ(0, write_one(writer, j, bytes));
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, write_all, writer));
	}
	for (number = 0; number < test_scaled(SCANS) + 5; number++) {
		collected.nr = 0;
		scan.threads = 1 + number % THREADS;
		ret = lsm_scan(content->store.lsm, &scan, &result);
		if (ret == -ECANCELED || ret == -ENOSPC || ret == -EBUSY) {
			revoked++;
			continue;
		}
		ASSERT_EQ(0, ret);
		scans++;
		/* What was changed up to the version is written down when each writer has made one more change. */
		for (i = 0; i < THREADS; i++) {
			uint32_t nr = writers[i].nr;

			while (writers[i].nr == nr && nr < HISTORY && !writers[i].error)
				sched_yield();
		}
		ASSERT_EQ(0, compare(writers, &collected, result.version, &certain));
	}
	for (i = 0; i < THREADS; i++) {
		writers[i].stop = true;
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, writers[i].error);
		events += writers[i].nr - OWNED;
		free(writers[i].objects);
		free(writers[i].events);
	}
	TH_LOG("%llu scans, %llu revoked, %llu objects compared, %llu changes meanwhile",
	       (unsigned long long)scans, (unsigned long long)revoked, (unsigned long long)certain,
	       (unsigned long long)events);
	EXPECT_LT(0, scans);
	EXPECT_LT(0, certain);
	EXPECT_LT(0, events);
	free(collected.seen);
	free(bytes);
}

/* ---- The choice --------------------------------------------------------------- */

#define FIXED		200000u
#define FIXED_BYTES	200u

/* A plan is chosen that costs least of those that are possible. */
static bool cheapest(const struct lsm_explain *explain)
{
	uint32_t plan;

	if (explain->plan >= LSM_PLANS || explain->cost_ns[explain->plan] < 0)
		return false;
	for (plan = 0; plan < LSM_PLANS_MAX; plan++)
		if (explain->cost_ns[plan] >= 0 && explain->cost_ns[plan] < explain->cost_ns[explain->plan])
			return false;
	return true;
}

static int count_rows(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	uint64_t *count = context;

	(void)thread;
	(void)rows;
	*count += nr;
	return 0;
}

FIXTURE(fixed) {
	struct store store;
	uint64_t *handles;
	uint64_t *list;
};

FIXTURE_SETUP(fixed)
{
	uint8_t bytes[FIXED_BYTES] = { 0 };
	struct lsmem_op ops[64];
	uint32_t i, nr;

	self->handles = calloc(FIXED, sizeof(*self->handles));
	self->list = calloc(FIXED, sizeof(*self->list));
	ASSERT_TRUE(self->handles && self->list);
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, FIXED, 0));
	for (i = 0; i < FIXED; i += 64) {
		for (nr = 0; nr < 64; nr++)
			ops[nr] = lsm_op_alloc(bytes, sizeof(bytes), 0);
		ASSERT_EQ(0, lsm_vector(self->store.lsm, ops, 64, 0, NULL));
		for (nr = 0; nr < 64; nr++)
			self->handles[i + nr] = ops[nr].handle;
	}
}

FIXTURE_TEARDOWN(fixed)
{
	free(self->handles);
	free(self->list);
	EXPECT_EQ(0, store_destroy(&self->store));
}

/* Of a store that does not change, the plan follows from how much of it is wanted. */
TEST_F_TIMEOUT(fixed, choice, 240)
{
	static const size_t wanted[] = { 1, 10, 100, 1000, 10000, FIXED / 4, FIXED / 2, FIXED };
	struct lsm_explain whole, exact, some, less, before = { 0 };
	uint64_t *handles = self->handles, *list = self->list;
	struct lsm *lsm = self->store.lsm;
	uint64_t state = test_seed, rows = 0, had, i, other;
	struct lsm_scan scan = { .threads = 1, .batch = count_rows, .context = &rows };
	struct lsm_scan_result result;
	uint32_t plan;

	/* All of it, without a list: the log, also by a scan; there are no look-ups without a list. */
	ASSERT_EQ(0, lsm_scan_explain(lsm, &scan, &whole));
	EXPECT_EQ(LSM_PLAN_LOG, whole.plan);
	EXPECT_TRUE(cheapest(&whole));
	EXPECT_EQ(FIXED, whole.objects);
	EXPECT_EQ(FIXED, whole.wanted);
	EXPECT_GT(0, whole.cost_ns[LSM_PLAN_LOOKUP]);
	EXPECT_GT(0, whole.cost_ns[LSM_PLAN_SORTED]);
	EXPECT_LT(whole.cost_ns[LSM_PLAN_LOG], whole.cost_ns[LSM_PLAN_TABLE]);
	ASSERT_EQ(0, lsm_scan(lsm, &scan, &result));
	EXPECT_EQ(LSM_PLAN_LOG, result.explain.plan);
	EXPECT_EQ(FIXED, rows);

	/* Fewer bytes of each, fewer indices, and more threads cost less. */
	scan.prefix = 8;
	ASSERT_EQ(0, lsm_scan_explain(lsm, &scan, &less));
	EXPECT_LT(less.cost_ns[LSM_PLAN_TABLE], whole.cost_ns[LSM_PLAN_TABLE]);
	EXPECT_LT(less.cost_ns[LSM_PLAN_LOG], whole.cost_ns[LSM_PLAN_LOG]);
	scan.prefix = 0;
	scan.index_end = FIXED / 2;
	ASSERT_EQ(0, lsm_scan_explain(lsm, &scan, &less));
	EXPECT_LT(less.cost_ns[LSM_PLAN_TABLE], whole.cost_ns[LSM_PLAN_TABLE]);
	scan.index_end = 0;
	scan.threads = 2;
	ASSERT_EQ(0, lsm_scan_explain(lsm, &scan, &less));
	EXPECT_LT(less.cost_ns[LSM_PLAN_TABLE], whole.cost_ns[LSM_PLAN_TABLE]);
	EXPECT_LT(less.cost_ns[LSM_PLAN_LOG], whole.cost_ns[LSM_PLAN_LOG]);
	scan.threads = 1;

	/* Lists in random order, ever longer: a short one is looked up, and no plan becomes cheaper. */
	memcpy(list, handles, FIXED * sizeof(*list));
	for (i = FIXED; i > 1; i--) {
		other = random_below(&state, i);
		had = list[i - 1];
		list[i - 1] = list[other];
		list[other] = had;
	}
	scan.handles = list;
	for (i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		scan.nr_handles = wanted[i];
		ASSERT_EQ(0, lsm_scan_explain(lsm, &scan, &some));
		EXPECT_TRUE(cheapest(&some));
		EXPECT_EQ(wanted[i], some.wanted);
		for (plan = LSM_PLAN_LOOKUP; plan < LSM_PLANS; plan++)
			EXPECT_LT(before.cost_ns[plan], some.cost_ns[plan])
				TH_LOG("%zu wanted, plan %s", wanted[i], lsm_plan_name(plan));
		if (wanted[i] <= FIXED / 20)
			EXPECT_EQ(LSM_PLAN_LOOKUP, some.plan)
				TH_LOG("%zu wanted", wanted[i]);
		before = some;
	}
	/* All of them in a list: the list is no help, and costs more than none. */
	EXPECT_LT(whole.cost_ns[LSM_PLAN_LOG], some.cost_ns[LSM_PLAN_LOG]);
	EXPECT_LT(whole.cost_ns[LSM_PLAN_TABLE], some.cost_ns[LSM_PLAN_TABLE]);
	scan.nr_handles = 100;
	rows = 0;
	ASSERT_EQ(0, lsm_scan(lsm, &scan, &result));
	EXPECT_EQ(LSM_PLAN_LOOKUP, result.explain.plan);
	EXPECT_EQ(100, rows);

	/* A list in the order of the table needs no sorting. */
	scan.handles = handles;
	ASSERT_EQ(0, lsm_scan_explain(lsm, &scan, &less));
	EXPECT_EQ(LSM_PLAN_LOOKUP, less.plan);
	EXPECT_LT(less.cost_ns[LSM_PLAN_LOOKUP], less.cost_ns[LSM_PLAN_SORTED]);

	/* Exactness leaves the log alone, whatever it costs. */
	scan.flags = LSM_SCAN_EXACT;
	ASSERT_EQ(0, lsm_scan_explain(lsm, &scan, &exact));
	EXPECT_EQ(LSM_PLAN_LOG, exact.plan);
	EXPECT_LT(less.cost_ns[LSM_PLAN_LOOKUP], exact.cost_ns[LSM_PLAN_LOG]);
	for (plan = 0; plan < LSM_PLAN_LOG; plan++)
		EXPECT_GT(0, exact.cost_ns[plan]);
	rows = 0;
	ASSERT_EQ(0, lsm_scan(lsm, &scan, &result));
	EXPECT_EQ(LSM_PLAN_LOG, result.explain.plan);
	EXPECT_EQ(100, rows);
	scan.plan = LSM_PLAN_LOOKUP;
	EXPECT_EQ(-EOPNOTSUPP, lsm_scan_explain(lsm, &scan, &exact));
}

/* ---- Batch by batch ------------------------------------------------------------- */

/*
 * Reads all batches of a scan, and replaces an eighth of the objects before the second one.  All must be as they were
 * made.  Return: rows, or the error.
 */
static ssize_t read_steps(struct lsm *lsm, struct lsm_cursor *cursor, const uint64_t *handles, uint64_t *wrong)
{
	uint8_t bytes[FIXED_BYTES] = { 1 };
	const struct lsm_row *rows;
	ssize_t total = 0, nr, i;

	while ((nr = lsm_scan_next(cursor, &rows)) > 0) {
		for (i = 0; i < nr; i++)
			*wrong += *(const uint8_t *)rows[i].data || rows[i].length != FIXED_BYTES ||
				  rows[i].version > lsm_scan_version(cursor);
		for (i = 0; !total && i < FIXED; i += 8)
			*wrong += !!lsm_replace(lsm, handles[i], bytes, sizeof(bytes), 0, NULL);
		total += nr;
	}
	return nr ? nr : total;
}

TEST_F_TIMEOUT(fixed, steps, 240)
{
	struct lsm_scan scan = { .flags = LSM_SCAN_EXACT };
	struct lsm *lsm = self->store.lsm;
	struct lsm_scan_result result;
	const struct lsm_row *rows;
	struct lsm_cursor *cursor;
	uint64_t wrong = 0;
	ssize_t nr;

	/* As it was when the scan was opened, whatever is written between two batches. */
	ASSERT_EQ(0, lsm_scan_open(lsm, &scan, &cursor));
	EXPECT_EQ(FIXED, read_steps(lsm, cursor, self->handles, &wrong));
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, lsm_scan_next(cursor, &rows));
	lsm_scan_close(cursor, &result);
	EXPECT_EQ(FIXED, result.rows);
	EXPECT_EQ(LSM_PLAN_LOG, result.explain.plan);

	/* Ended early, and with a list. */
	ASSERT_EQ(0, lsm_scan_open(lsm, &scan, &cursor));
	nr = lsm_scan_next(cursor, &rows);
	ASSERT_LT(0, nr);
	lsm_scan_close(cursor, &result);
	EXPECT_EQ(nr, result.rows);
	EXPECT_LT(0, result.version);
	scan = (struct lsm_scan){ .handles = self->handles, .nr_handles = 100 };
	ASSERT_EQ(0, lsm_scan_open(lsm, &scan, &cursor));
	EXPECT_EQ(0, lsm_scan_version(cursor));
	for (wrong = 0; (nr = lsm_scan_next(cursor, &rows)) > 0;)
		wrong += (uint64_t)nr;
	EXPECT_EQ(0, nr);
	EXPECT_EQ(100, wrong);
	lsm_scan_close(cursor, NULL);

	/* None, and what is refused. */
	scan = (struct lsm_scan){ .one_table = 1, .table = 7 };
	ASSERT_EQ(0, lsm_scan_open(lsm, &scan, &cursor));
	EXPECT_EQ(0, lsm_scan_next(cursor, &rows));
	EXPECT_EQ(0, lsm_scan_next(cursor, &rows));
	lsm_scan_close(cursor, NULL);
	scan = (struct lsm_scan){ .plan = LSM_PLAN_SORTED };
	EXPECT_EQ(-EINVAL, lsm_scan_open(lsm, &scan, &cursor));
	lsm_scan_close(NULL, NULL);

	/* The time of a snapshot is over between two batches. On a slow machine it can be over while the scan is opened. */
	scan = (struct lsm_scan){ .flags = LSM_SCAN_EXACT, .time_ms = 1 };
	while ((nr = lsm_scan_open(lsm, &scan, &cursor)) == -ECANCELED && scan.time_ms < 1000)
		scan.time_ms *= 2;
	ASSERT_EQ(0, nr);
	do {
		nr = lsm_scan_next(cursor, &rows);
		usleep(2000 * scan.time_ms);
	} while (nr > 0);
	EXPECT_EQ(-ECANCELED, nr);
	EXPECT_EQ(-ECANCELED, lsm_scan_next(cursor, &rows));
	lsm_scan_close(cursor, NULL);
}

TEST_HARNESS_MAIN
