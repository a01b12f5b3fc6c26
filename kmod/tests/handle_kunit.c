// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: the handle table.  A handle names one object for ever: the table gives out no handle
 * twice, after any allocations, frees, exchanges and crashes.  And the objects behind it, as a user
 * reads and replaces them.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "fixture.h"
#include "../object.h"
#include "../policy.h"

#define HANDLE_NR	100u	/* no multiple of 64: the last word of the map is partly used */

static const struct lsmem_test_shape handle_shape = {
	.segments = 4, .heads = 3, .handles = HANDLE_NR,
};

static int handle_init(struct kunit *test)
{
	return lsmem_test_store(test, &handle_shape);
}

static u64 handle_alloc(struct kunit *test)
{
	u64 handle = 0;

	KUNIT_ASSERT_EQ(test, lsmem_handle_alloc(test->priv, &handle), 0);
	return handle;
}

/* The error of an operation on the object of @handle, as lsmem_look() finds it; 0 if there is one. */
static int handle_look(struct lsmem_store *store, u64 handle)
{
	struct lsmem_look look;
	int ret = lsmem_handle_find(store, handle, &look.h);

	if (ret)
		return ret;
	rcu_read_lock();
	ret = lsmem_look(store, handle, &look);
	rcu_read_unlock();
	return ret;
}

static u64 handle_tag(const struct lsmem_handle *h)
{
	return h->word >> LSMEM_WORD_TAG_SHIFT;
}

/* As if @generation had been the last one of an index that is free. */
static void handle_age(struct lsmem_store *store, u32 index, u32 generation)
{
	struct lsmem_handle *h = &store->handles.table[index];

	h->word = lsmem_word_next(h->word, LSMEM_WORD_FREE, generation);
}

/* Write an object of 100 bytes for an allocated handle. @ap: out, its entry. */
static void handle_write(struct kunit *test, u64 handle, u64 version, struct lsmem_append *ap)
{
	struct lsmem_source source = { .kernel = lsmem_test_payload(1) };
	struct lsmem_store *store = test->priv;
	struct lsmem_handle *h;
	u32 pcrc;

	KUNIT_ASSERT_EQ(test, lsmem_handle_find(store, handle, &h), 0);
	KUNIT_ASSERT_EQ(test, lsmem_append_begin(store, 1, 100, LSMEM_TYPE_OBJECT, ap), 0);
	lsmem_append_copy(store, ap, &source, 100, &pcrc);
	lsmem_object_stamp(store, ap, handle, version, 100, 0, 7, pcrc);
	lsmem_entry_alive(ap);
	h->word = lsmem_word_next(h->word, LSMEM_WORD_LIVE, ap->position);
	lsmem_append_commit(store, ap);
}

/* Allocation, life and death of an object; then its handle is stale. */
static void handle_test_stale(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_op op = { 0 };
	struct lsmem_place place;
	struct lsmem_append ap;
	struct lsmem_handle *h;
	u64 handle = handle_alloc(test), other = 0;
	u32 i;

	KUNIT_ASSERT_EQ(test, lsmem_handle_find(store, handle, &h), 0);
	KUNIT_EXPECT_EQ(test, lsmem_word_state(h->word), LSMEM_WORD_BUSY);
	KUNIT_EXPECT_EQ(test, lsmem_word_generation(h->word), lsmem_handle_generation(handle));
	/* A busy handle names no object yet: a user that guesses it cannot free it. */
	op.handle = handle;
	KUNIT_EXPECT_EQ(test, lsmem_object_free(store, &op, &place), -ESTALE);

	handle_write(test, handle, 5, &ap);
	op.flags = LSMEM_OPF_EXPECT;
	op.version = 4;
	KUNIT_EXPECT_EQ(test, lsmem_object_free(store, &op, &place), -EILSEQ);
	KUNIT_EXPECT_EQ(test, op.version, 5);
	KUNIT_EXPECT_EQ(test, atomic_read(ap.segment->live), ap.size);
	KUNIT_EXPECT_EQ(test, lsmem_object_free(store, &op, &place), 0);
	KUNIT_EXPECT_GT(test, op.version, 5);
	KUNIT_EXPECT_EQ(test, atomic_read(ap.segment->live), 0);
	op.flags = 0;
	KUNIT_EXPECT_EQ(test, lsmem_object_free(store, &op, &place), -ESTALE);
	/* The index keeps its last generation. */
	KUNIT_EXPECT_EQ(test, lsmem_word_state(h->word), LSMEM_WORD_FREE);
	KUNIT_EXPECT_EQ(test, lsmem_word_generation(h->word), lsmem_handle_generation(handle));

	/* The index is used for another object; the old handle stays stale. */
	for (i = 0; i < HANDLE_NR; i++) {
		u64 next = handle_alloc(test);

		KUNIT_EXPECT_NE(test, next, handle);
		if (lsmem_handle_index(next) == lsmem_handle_index(handle))
			other = next;
	}
	KUNIT_ASSERT_NE(test, other, 0);
	KUNIT_EXPECT_EQ(test, lsmem_handle_generation(other),
			lsmem_handle_generation(handle) + 1);
	KUNIT_EXPECT_EQ(test, handle_look(store, handle), -ESTALE);
	KUNIT_EXPECT_EQ(test, handle_look(store, other), -ESTALE);
	handle_write(test, other, 6, &ap);
	KUNIT_EXPECT_EQ(test, handle_look(store, other), 0);
	KUNIT_EXPECT_EQ(test, handle_look(store, handle), -ESTALE);
	KUNIT_EXPECT_EQ(test, lsmem_object_free(store, &op, &place), -ESTALE);
	/* One that will be given out later. */
	op.handle = other + (1ull << LSMEM_HANDLE_INDEX_BITS);
	KUNIT_EXPECT_EQ(test, lsmem_object_free(store, &op, &place), -ENOENT);
	KUNIT_EXPECT_EQ(test, atomic_read(ap.segment->live), ap.size);
	op.handle = other;
	KUNIT_EXPECT_EQ(test, lsmem_object_free(store, &op, &place), 0);
	KUNIT_EXPECT_EQ(test, lsmem_object_free(store, &op, &place), -ESTALE);
	KUNIT_EXPECT_EQ(test, handle_look(store, other + (1ull << LSMEM_HANDLE_INDEX_BITS)),
			-ENOENT);
}

/* A handle that was never given out: ENOENT.  One that a crash may have lost: ESTALE. */
static void handle_test_unknown(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_append ap;
	u64 handle;

	KUNIT_EXPECT_EQ(test, handle_look(store, 0), -ENOENT);
	KUNIT_EXPECT_EQ(test, handle_look(store, lsmem_handle_make(3, 0)), -ENOENT);
	KUNIT_EXPECT_EQ(test, handle_look(store, lsmem_handle_make(3, 1)), -ENOENT);
	KUNIT_EXPECT_EQ(test, handle_look(store, lsmem_handle_make(HANDLE_NR, 1)), -ENOENT);
	KUNIT_EXPECT_EQ(test, handle_look(store, ~0ull), -ENOENT);
	handle = handle_alloc(test);
	KUNIT_EXPECT_EQ(test, handle_look(store, handle), -ESTALE);
	handle_write(test, handle, 1, &ap);
	KUNIT_EXPECT_EQ(test, handle_look(store, handle), 0);
	KUNIT_EXPECT_EQ(test, handle_look(store, handle + (1ull << LSMEM_HANDLE_INDEX_BITS)),
			-ENOENT);

	/* As after recovery: all generations up to the floor may have been given out. */
	store->handles.floor = 40;
	KUNIT_EXPECT_EQ(test, handle_look(store, lsmem_handle_make(90, 40)), -ESTALE);
	KUNIT_EXPECT_EQ(test, handle_look(store, lsmem_handle_make(90, 41)), -ENOENT);
	KUNIT_EXPECT_EQ(test, handle_look(store, lsmem_handle_make(90, 0)), -ENOENT);
	KUNIT_EXPECT_EQ(test, handle_look(store, handle), 0);	/* as if recovered */
	KUNIT_EXPECT_EQ(test, lsmem_handle_generation(handle_alloc(test)), 41);
}

/* The table gives out each index once, then is full; it gives out freed indices again. */
static void handle_test_full(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	u64 handle, *all;
	u32 i, round;

	all = kunit_kcalloc(test, HANDLE_NR, sizeof(*all), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, all);
	for (i = 0; i < HANDLE_NR; i++) {
		handle = handle_alloc(test);
		KUNIT_ASSERT_LT(test, lsmem_handle_index(handle), HANDLE_NR);
		KUNIT_EXPECT_EQ(test, all[lsmem_handle_index(handle)], 0);
		all[lsmem_handle_index(handle)] = handle;
	}
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->handles.used), HANDLE_NR);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < HANDLE_NR; i++) {
			KUNIT_EXPECT_EQ(test, lsmem_handle_alloc(store, &handle), -EMFILE);
			lsmem_handle_free(store, all[i]);
			handle = handle_alloc(test);
			KUNIT_EXPECT_EQ(test, lsmem_handle_index(handle), i);
			KUNIT_EXPECT_EQ(test, lsmem_handle_generation(handle), round + 2);
			KUNIT_EXPECT_EQ(test, handle_look(store, all[i]), -ESTALE);
			all[i] = handle;
		}
	}
	for (i = 0; i < HANDLE_NR; i++)
		lsmem_handle_free(store, all[i]);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->handles.used), 0);
}

/* An index whose generations are used up is never given out again; the others are. */
static void handle_test_retired(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	const u32 old = 13;
	u64 handle, last = 0;
	u32 i, j;

	for (i = 0; i < HANDLE_NR; i++)
		handle_age(store, i, i == old ? LSMEM_GENERATION_MAX - 1 : 10);
	for (i = 0; i < 3; i++) {
		u64 all[HANDLE_NR];
		u32 nr = 0;

		while (!lsmem_handle_alloc(store, &handle)) {
			KUNIT_ASSERT_LT(test, nr, HANDLE_NR);
			KUNIT_EXPECT_NE(test, lsmem_handle_generation(handle), 0);
			if (lsmem_handle_index(handle) == old)
				last = handle;
			all[nr++] = handle;
		}
		KUNIT_EXPECT_EQ(test, nr, i ? HANDLE_NR - 1 : HANDLE_NR);
		KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->handles.used), nr);
		for (j = 0; j < nr; j++)
			lsmem_handle_free(store, all[j]);
	}
	KUNIT_EXPECT_EQ(test, last, lsmem_handle_make(old, LSMEM_GENERATION_MAX));
	KUNIT_EXPECT_EQ(test, lsmem_word_state(store->handles.table[old].word), LSMEM_WORD_FREE);

	/* All generations are used up: the table is full, though no index is in use. */
	for (i = 0; i < HANDLE_NR; i++)
		handle_age(store, i, LSMEM_GENERATION_MAX);
	KUNIT_EXPECT_EQ(test, lsmem_handle_alloc(store, &handle), -EMFILE);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->handles.used), 0);
}

/*
 * All indices of a durable store but one are in use, and that one is allocated and freed again and
 * again.  The table sets it aside long before its generations are used up, because the generations
 * of all indices begin above it after the next recovery.
 */
static void handle_test_aside(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	const u32 far = 1u << 20, most = far + 4 * HANDLE_NR;
	u64 handle = 0, next;
	u32 i;

	store->durable = true;
	store->handles.limit = 0;
	for (i = 0; i < HANDLE_NR; i++)
		handle = handle_alloc(test);
	for (i = 0; i < HANDLE_NR / 2; i++) {	/* a few times do not matter */
		lsmem_handle_free(store, handle);
		handle = handle_alloc(test);
	}
	lsmem_handle_free(store, handle);
	handle_age(store, lsmem_handle_index(handle), far);
	for (i = 0; i < most && !lsmem_handle_alloc(store, &next); i++) {
		KUNIT_ASSERT_EQ(test, lsmem_handle_index(next), lsmem_handle_index(handle));
		lsmem_handle_free(store, next);
	}
	KUNIT_EXPECT_GT(test, i, 0);
	KUNIT_EXPECT_EQ(test, lsmem_handle_alloc(store, &next), -EMFILE);
	KUNIT_EXPECT_LE(test, store->handles.max, most);
	KUNIT_EXPECT_EQ(test, atomic64_read(&store->handles.aside), 1);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->handles.used), HANDLE_NR - 1);

	/* Other indices are given out again when they are freed. */
	next = lsmem_handle_make((lsmem_handle_index(handle) + 1) % HANDLE_NR, 1);
	lsmem_handle_free(store, next);
	KUNIT_EXPECT_EQ(test, lsmem_handle_index(handle_alloc(test)), lsmem_handle_index(next));
}

/* The highest generation that an index can have, which is the only one in use since the recovery. */
static u32 handle_furthest(struct lsmem_store *store)
{
	u32 low = store->handles.floor, high = LSMEM_GENERATION_MAX;

	while (low < high) {
		u32 middle = low + (high - low + 1) / 2;
		u64 handle;

		store->handles.limit = 0;
		handle_age(store, 0, middle - 1);
		if (lsmem_handle_reserved(store, 0, &handle)) {
			high = middle - 1;
			continue;
		}
		low = middle;
		percpu_counter_dec(&store->handles.used);
		lsmem_count(store, handles_given, -1);
	}
	return low;
}

/* One index that is cycled alone uses up a part of what is left: a thousand recoveries after that do not use up all. */
static void handle_test_left(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	u32 recoveries;

	store->durable = true;
	for (recoveries = 0; recoveries < 1000; recoveries++) {
		u32 furthest = handle_furthest(store);

		KUNIT_ASSERT_GT(test, furthest, store->handles.floor);
		store->handles.floor = furthest + 4096;	/* the ceiling */
		KUNIT_ASSERT_LT(test, store->handles.floor, LSMEM_GENERATION_MAX);
	}
}

/* Indices that are all used equally often are never set aside. */
static void handle_test_even(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	const u32 far = 100u << 20;
	u64 handle;
	u32 i;

	store->durable = true;
	store->handles.limit = 0;
	lsmem_count(store, handles_given, (u64)far * HANDLE_NR);
	for (i = 0; i < HANDLE_NR; i++)
		handle_age(store, i, far);
	for (i = 0; i < HANDLE_NR; i++)
		KUNIT_EXPECT_EQ(test, lsmem_handle_generation(handle_alloc(test)), far + 1);
	KUNIT_EXPECT_EQ(test, lsmem_handle_alloc(store, &handle), -EMFILE);
	KUNIT_EXPECT_EQ(test, atomic64_read(&store->handles.aside), 0);
}

/* After a recovery that found all generations used up, allocation searches no index. */
static void handle_test_worn(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	u64 handle;

	store->handles.floor = LSMEM_GENERATION_MAX;
	KUNIT_EXPECT_EQ(test, lsmem_handle_alloc(store, &handle), -EMFILE);
	KUNIT_EXPECT_EQ(test, atomic64_read(&store->handles.aside), 0);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->handles.used), 0);
	KUNIT_EXPECT_EQ(test, bitmap_weight(store->handles.map.map, store->handles.nr), 0);
}

/* A fatal signal ends the search for an index whose generations are not used up. */
static void handle_test_killed(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	u64 handle;
	u32 i;
	int ret;

	for (i = 0; i < HANDLE_NR; i++)
		handle_age(store, i, LSMEM_GENERATION_MAX);
	allow_signal(SIGKILL);
	send_sig(SIGKILL, current, 1);
	ret = lsmem_handle_alloc(store, &handle);
	flush_signals(current);
	disallow_signal(SIGKILL);
	KUNIT_EXPECT_EQ(test, ret, -EINTR);
	KUNIT_EXPECT_EQ(test, atomic64_read(&store->handles.aside), 1);
	KUNIT_EXPECT_EQ(test, lsmem_handle_alloc(store, &handle), -EMFILE);
	KUNIT_EXPECT_EQ(test, atomic64_read(&store->handles.aside), HANDLE_NR);
}

/* No generation above the durable ceiling is given out; an allocation that waits loses no index. */
static void handle_test_ceiling(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	u64 handle, all[HANDLE_NR];
	u32 i, ceiling;

	store->handles.ceiling = 0;
	for (i = 0; i < 3 * HANDLE_NR; i++)
		KUNIT_EXPECT_EQ(test, lsmem_handle_alloc(store, &handle), -EAGAIN);
	KUNIT_EXPECT_EQ(test, store->handles.max, 0);
	for (ceiling = 1; ceiling <= 3; ceiling++) {
		store->handles.ceiling = ceiling;
		for (i = 0; i < HANDLE_NR; i++) {
			all[i] = handle_alloc(test);
			KUNIT_EXPECT_EQ(test, lsmem_handle_generation(all[i]), ceiling);
			KUNIT_EXPECT_EQ(test, store->handles.max, ceiling);
		}
		KUNIT_EXPECT_EQ(test, lsmem_handle_alloc(store, &handle), -EMFILE);
		for (i = 0; i < HANDLE_NR; i++)
			lsmem_handle_free(store, all[i]);
		KUNIT_EXPECT_EQ(test, lsmem_handle_alloc(store, &handle), -EAGAIN);
	}
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->handles.used), 0);
}

/* Objects are counted by their words: in memory and on backups, not those that are being made, nor those that are free. */
static void handle_test_count(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	u64 handles[4], objects = 9, old;
	u32 i;

	for (i = 0; i < 4; i++)
		handles[i] = handle_alloc(test);
	KUNIT_EXPECT_EQ(test, lsmem_handles_count(store, &objects), 0);
	KUNIT_EXPECT_EQ(test, objects, 0);
	old = store->handles.table[0].word;
	store->handles.table[0].word = lsmem_word_next(old, LSMEM_WORD_LIVE, 1);
	store->handles.table[HANDLE_NR - 1].word = lsmem_word_next(old, LSMEM_WORD_COLD, 1);
	lsmem_handle_free(store, handles[3]);
	KUNIT_EXPECT_EQ(test, lsmem_handles_count(store, &objects), 0);
	KUNIT_EXPECT_EQ(test, objects, 2);
	store->handles.table[HANDLE_NR - 1].word = 0;
	store->handles.table[0].word = old;
	for (i = 0; i < 3; i++)
		lsmem_handle_free(store, handles[i]);
}

static const struct handle_word_case {
	const char *name;
	u64 word;
	u32 state;
	u64 position;
} handle_words[] = {
	{ "empty", 0, LSMEM_WORD_BUSY, 0 },
	{ "lowest", 0, LSMEM_WORD_LIVE, 1 },
	{ "highest place", ~0ull >> 25, LSMEM_WORD_LIVE, (1ull << LSMEM_POSITION_BITS) - 1 },
	{ "last tag but one", 0xfffffeull << 40, LSMEM_WORD_LIVE, 42 },
	{ "last tag", 0xffffffull << 40, LSMEM_WORD_BUSY, 0 },
	{ "all ones", ~0ull, LSMEM_WORD_FREE, 0 },
	{ "all ones, live", ~0ull, LSMEM_WORD_LIVE, (1ull << LSMEM_POSITION_BITS) - 1 },
};

static void handle_word_desc(const struct handle_word_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(handle_word, handle_words, handle_word_desc);

/* The next word: the fields do not affect each other, and the tag grows by one. */
static void handle_test_word(struct kunit *test)
{
	const struct handle_word_case *param = test->param_value;
	u64 word = lsmem_word_next(param->word, param->state, param->position);

	KUNIT_EXPECT_EQ(test, lsmem_word_state(word), param->state);
	KUNIT_EXPECT_EQ(test, lsmem_word_position(word), param->position);
	KUNIT_EXPECT_EQ(test, word >> 40, ((param->word >> 40) + 1) & 0xffffff);
}

/* The word of an object that moved to another place and back is different. */
static void handle_test_aba(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	u64 handle = handle_alloc(test), seen, word;
	struct lsmem_handle *h;
	u32 i;

	KUNIT_ASSERT_EQ(test, lsmem_handle_find(store, handle, &h), 0);
	h->word = lsmem_word_next(h->word, LSMEM_WORD_LIVE, 100);
	seen = h->word;
	for (i = 0; i < 1000; i++) {
		word = h->word;
		KUNIT_ASSERT_TRUE(test, lsmem_word_exchange(&store->handles, h, word,
							    lsmem_word_next(word, LSMEM_WORD_LIVE,
									    i % 2 ? 100 : 200)));
		KUNIT_ASSERT_NE(test, h->word, seen);
		/* An exchange that expects the first word fails. */
		word = h->word;
		KUNIT_ASSERT_FALSE(test, lsmem_word_exchange(&store->handles, h, seen, 0));
		KUNIT_ASSERT_EQ(test, h->word, word);
	}
	/* The next object with this index has another word, too. */
	lsmem_handle_free(store, handle);
	KUNIT_EXPECT_EQ(test, lsmem_word_state(h->word), LSMEM_WORD_FREE);
	KUNIT_EXPECT_EQ(test, handle_tag(h), (word >> LSMEM_WORD_TAG_SHIFT) + 1);
	for (i = 0; i < HANDLE_NR; i++)
		handle_alloc(test);
	KUNIT_EXPECT_EQ(test, handle_tag(h), (word >> LSMEM_WORD_TAG_SHIFT) + 2);
}

/* The next version is larger, whatever the clock, the era and the last version are. */
static void handle_test_version(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	const u64 last_time = (1ull << LSMEM_VERSION_TIME_BITS) - 1;
	u64 version = 0, next;
	u32 i;

	for (i = 0; i < 10000; i++) {
		next = lsmem_handle_version(store, version);
		KUNIT_ASSERT_GT(test, next, version);
		version = next;
	}
	/* If the clock has not moved or is behind, the next version is the last one plus one. */
	next = lsmem_version_make(0, last_time - 1);
	KUNIT_EXPECT_EQ(test, lsmem_handle_version(store, next), next + 1);
	KUNIT_EXPECT_EQ(test, lsmem_handle_version(store, next + 1), next + 2);
	/* Versions of a new era are above all of the old one. */
	store->handles.era = 1;
	KUNIT_EXPECT_GT(test, lsmem_handle_version(store, 0), lsmem_version_make(0, last_time));
	store->handles.era = LSMEM_ERA_MAX;
	KUNIT_EXPECT_GT(test, lsmem_handle_version(store, 0),
			lsmem_version_make(LSMEM_ERA_MAX - 1, last_time));
}

/* ---- Several threads ---------------------------------------------------- */

#define HANDLE_THREADS	4
#define HANDLE_ROUNDS	20000

struct handle_shared {
	struct lsmem_store *store;
	atomic_t owner[HANDLE_NR];	/* thread that has the index, 0: none */
	u32 generation[HANDLE_NR];	/* the last one given out; only the owner uses it */
};

struct handle_user {
	struct lsmem_test_thread thread;
	struct handle_shared *shared;
	struct rnd_state random;
	u32 number;
	u64 tags;		/* exchanges that this thread won */
};

/* Allocates and frees. All threads together leave at least a fifth of the table free. */
static const char *handle_user(void *data)
{
	struct handle_user *u = data;
	struct handle_shared *shared = u->shared;
	u64 mine[HANDLE_NR / HANDLE_THREADS - 5];
	u32 nr = 0, i;

	for (i = 0; i < HANDLE_ROUNDS || nr; i++) {
		u64 handle, index, word;
		u32 which;

		if (i < HANDLE_ROUNDS && nr < ARRAY_SIZE(mine) &&
		    lsmem_test_below(&u->random, 2)) {
			if (lsmem_handle_alloc(shared->store, &handle))
				return "the table is full, and should not be";
			index = lsmem_handle_index(handle);
			if (atomic_cmpxchg(&shared->owner[index], 0, u->number))
				return "an index was given to two";
			if (lsmem_handle_generation(handle) != shared->generation[index] + 1)
				return "a generation came twice, or was left out";
			shared->generation[index]++;
			mine[nr++] = handle;
		} else if (nr) {
			which = lsmem_test_below(&u->random, nr);
			handle = mine[which];
			index = lsmem_handle_index(handle);
			mine[which] = mine[--nr];
			word = READ_ONCE(shared->store->handles.table[index].word);
			if (lsmem_word_state(word) != LSMEM_WORD_BUSY ||
			    lsmem_word_generation(word) != lsmem_handle_generation(handle))
				return "a thread wrote to another's index";
			atomic_set(&shared->owner[index], 0);
			lsmem_handle_free(shared->store, handle);
		}
		if (i % 64 == 0)
			cond_resched();
	}
	return NULL;
}

static void handle_test_threads(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct handle_shared *shared;
	struct rnd_state random;
	struct handle_user *u;
	u32 i;

	lsmem_test_seed(test, &random);
	shared = kunit_kzalloc(test, sizeof(*shared), GFP_KERNEL);
	u = kunit_kcalloc(test, HANDLE_THREADS, sizeof(*u), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, shared && u);
	shared->store = store;
	for (i = 0; i < HANDLE_THREADS; i++) {
		u[i].shared = shared;
		u[i].number = i + 1;
		prandom_seed_state(&u[i].random, lsmem_test_u64(&random));
		KUNIT_ASSERT_EQ(test, lsmem_test_start(&u[i].thread, handle_user, &u[i]), 0);
	}
	for (i = 0; i < HANDLE_THREADS; i++)
		lsmem_test_join(test, &u[i].thread);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->handles.used), 0);
	for (i = 0; i < HANDLE_NR; i++)
		handle_alloc(test);	/* no index is lost */
}

/* Exchanges one word again and again, as writers and the cleaner do. */
static const char *handle_swinger(void *data)
{
	struct handle_user *u = data;
	struct lsmem_handle *h = &u->shared->store->handles.table[0];
	u64 last = READ_ONCE(h->word);
	u32 i;

	for (i = 0; i < HANDLE_ROUNDS; i++) {
		u64 word = READ_ONCE(h->word);
		u64 next = lsmem_word_next(word, LSMEM_WORD_LIVE,
					   lsmem_test_below(&u->random, 2));

		if (word >> LSMEM_WORD_TAG_SHIFT < last >> LSMEM_WORD_TAG_SHIFT)
			return "a tag went back";
		last = word;
		u->tags += lsmem_word_exchange(&u->shared->store->handles, h, word, next);
		if (i % 64 == 0)
			cond_resched();
	}
	return NULL;
}

/* The tag has grown by the number of exchanges that succeeded. */
static void handle_test_exchange(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct handle_shared *shared;
	struct rnd_state random;
	struct handle_user *u;
	u64 tags = 0;
	u32 i;

	lsmem_test_seed(test, &random);
	shared = kunit_kzalloc(test, sizeof(*shared), GFP_KERNEL);
	u = kunit_kcalloc(test, HANDLE_THREADS, sizeof(*u), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, shared && u);
	shared->store = store;
	for (i = 0; i < HANDLE_THREADS; i++) {
		u[i].shared = shared;
		prandom_seed_state(&u[i].random, lsmem_test_u64(&random));
		KUNIT_ASSERT_EQ(test, lsmem_test_start(&u[i].thread, handle_swinger, &u[i]), 0);
	}
	for (i = 0; i < HANDLE_THREADS; i++) {
		lsmem_test_join(test, &u[i].thread);
		tags += u[i].tags;
	}
	KUNIT_EXPECT_EQ(test, handle_tag(&store->handles.table[0]), tags);
	KUNIT_EXPECT_GE(test, tags, HANDLE_ROUNDS);
}

/* ---- Objects of a user -------------------------------------------------- */

static const u32 handle_lengths[] = { 1, 8, 2046, 2047, 2048, 2049, 70000, LSMEM_OBJECT_MAX };

static void handle_length_desc(const u32 *param, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u bytes", *param);
}

KUNIT_ARRAY_PARAM(handle_length, handle_lengths, handle_length_desc);

/* Put the payload of @key into the user's memory. */
static void handle_source(struct kunit *test, struct lsmem_op *op, u64 key, u32 length)
{
	op->length = length;
	KUNIT_ASSERT_EQ(test, copy_to_user(u64_to_user_ptr(op->data), lsmem_test_payload(key),
					   length), 0);
}

/* Read @length bytes of the object from @offset on: they are what is there of the payload of @key. */
static void handle_read(struct kunit *test, struct lsmem_op op, u64 key, u32 offset, u32 length)
{
	u32 object = op.length, all = min(length, object - offset);
	u8 *got = kunit_kmalloc(test, length ?: 1, GFP_KERNEL);
	u64 version = op.version;

	KUNIT_ASSERT_NOT_NULL(test, got);
	op.offset = offset;
	op.length = length;
	KUNIT_ASSERT_EQ(test, clear_user(u64_to_user_ptr(op.data), length), 0);
	KUNIT_EXPECT_EQ(test, lsmem_object_read(test->priv, &op), 0);
	KUNIT_EXPECT_EQ(test, op.length, all);
	KUNIT_EXPECT_EQ(test, op.object_length, object);
	KUNIT_EXPECT_EQ(test, op.version, version);
	KUNIT_EXPECT_EQ(test, op.table, 7);
	KUNIT_ASSERT_EQ(test, copy_from_user(got, u64_to_user_ptr(op.data), all), 0);
	KUNIT_EXPECT_EQ(test, memcmp(got, lsmem_test_payload(key) + offset, all), 0);
	kunit_kfree(test, got);
}

/* An object of any length is read as it was written, as a whole and in parts, also when replaced. */
static void handle_test_object(struct kunit *test)
{
	u32 length = *(const u32 *)test->param_value, i;
	struct lsmem_store *store = test->priv;
	void __user *data = lsmem_test_user(test, LSMEM_OBJECT_MAX);
	struct lsmem_op op = { .data = (uintptr_t)data, .table = 7 };
	struct lsmem_place place = { 0 };
	struct lsmem_append ap;
	u64 handle;

	handle_source(test, &op, 1, length);
	KUNIT_ASSERT_EQ(test, lsmem_object_alloc(store, &op, &place), 0);
	handle = op.handle;
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), lsmem_entry_size(length));
	for (i = 0; i < 2; i++) {
		handle_read(test, op, 1 + i, 0, length);
		handle_read(test, op, 1 + i, length / 2, length);
		handle_read(test, op, 1 + i, length - 1, 1);
		handle_read(test, op, 1 + i, length, 8);
		/* Replace it by one of another size, and back. */
		handle_source(test, &op, 9, length == 2047 ? 2048 : 2047);
		KUNIT_ASSERT_EQ(test, lsmem_object_replace(store, &op, &place), 0);
		handle_read(test, op, 9, 0, 3000);
		handle_source(test, &op, 2 + i, length);
		KUNIT_ASSERT_EQ(test, lsmem_object_replace(store, &op, &place), 0);
	}
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), lsmem_entry_size(length));
	KUNIT_EXPECT_EQ(test, lsmem_object_free(store, &op, &place), 0);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), 0);
	KUNIT_EXPECT_EQ(test, lsmem_object_read(store, &op), -ESTALE);
	KUNIT_EXPECT_EQ(test, lsmem_object_replace(store, &op, &place), -ESTALE);
	op.handle = handle + (1ull << LSMEM_HANDLE_INDEX_BITS);
	KUNIT_EXPECT_EQ(test, lsmem_object_read(store, &op), -ENOENT);
	KUNIT_EXPECT_EQ(test, lsmem_object_replace(store, &op, &place), -ENOENT);
	/* Nothing was written by what was refused. */
	KUNIT_ASSERT_EQ(test, lsmem_append_begin(store, lsmem_log_head(store), 1,
						 LSMEM_TYPE_OBJECT, &ap), 0);
	lsmem_append_abort(store, &ap);
	KUNIT_EXPECT_EQ(test, atomic_read(ap.segment->live), 0);
}

/*
 * The interval of an object begins as unknown, and each replacement makes it what
 * lsmem_policy_interval() says of the lifetime that has ended.  A free object leaves none.
 */
static void handle_test_interval(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	void __user *data = lsmem_test_user(test, PAGE_SIZE);
	struct lsmem_op op = { .data = (uintptr_t)data, .table = 7 };
	struct lsmem_place place = { 0 };
	u32 interval = 0, seen = 0, i;
	struct lsmem_look look;
	struct rnd_state random;

	lsmem_test_seed(test, &random);
	handle_source(test, &op, 1, 100);
	KUNIT_ASSERT_EQ(test, lsmem_object_alloc(store, &op, &place), 0);
	KUNIT_ASSERT_EQ(test, lsmem_handle_find(store, op.handle, &look.h), 0);
	for (i = 0; i < 200; i++) {
		u64 old = op.version, lifetime;

		KUNIT_ASSERT_EQ(test, lsmem_look(store, op.handle, &look), 0);
		KUNIT_ASSERT_EQ(test, look.interval, interval);
		KUNIT_ASSERT_EQ(test, look.table, 7);
		KUNIT_ASSERT_EQ(test, look.version, op.version);
		/* The store's clock goes on by some time: up to two weeks. */
		if (i)
			store->clock += lsmem_test_u64(&random) >>
					(24 + lsmem_test_below(&random, 40));
		handle_source(test, &op, i, i % 3 ? 100 : 3000);
		KUNIT_ASSERT_EQ(test, lsmem_object_replace(store, &op, &place), 0);
		lifetime = (lsmem_version_time(op.version) - lsmem_version_time(old)) >> 10;
		interval = lsmem_policy_interval(interval, lifetime);
		seen |= 1u << interval;
		KUNIT_ASSERT_GT(test, interval, 0);
		if (!i)
			KUNIT_EXPECT_LT(test, interval, 20);	/* the test is not so slow */
	}
	KUNIT_EXPECT_GT(test, hweight32(seen), 8);
	/* A version that is ahead of the clock, as of another era: no lifetime. */
	KUNIT_ASSERT_EQ(test, lsmem_look(store, op.handle, &look), 0);
	look.interval = 0;
	KUNIT_EXPECT_EQ(test, lsmem_look_interval(&look, look.version), 1);
	KUNIT_EXPECT_EQ(test, lsmem_look_interval(&look, look.version + (1 << 20)), 11);
	look.version = lsmem_version_make(1, 1ull << 40);
	KUNIT_EXPECT_EQ(test, lsmem_look_interval(&look, lsmem_version_make(2, 5)), 1);
	look.interval = 11;
	KUNIT_EXPECT_EQ(test, lsmem_look_interval(&look, lsmem_version_make(2, 5)), 10);
	KUNIT_EXPECT_EQ(test, lsmem_object_free(store, &op, &place), 0);
	/* An object that gets the same index begins as unknown. */
	for (i = 0; i < HANDLE_NR; i++) {
		handle_source(test, &op, i, 100);
		KUNIT_ASSERT_EQ(test, lsmem_object_alloc(store, &op, &place), 0);
		KUNIT_ASSERT_EQ(test, lsmem_handle_find(store, op.handle, &look.h), 0);
		KUNIT_ASSERT_EQ(test, lsmem_look(store, op.handle, &look), 0);
		KUNIT_EXPECT_EQ(test, look.interval, 0);
	}
}

#define HANDLE_MOVES	1000000u

struct handle_toucher {
	struct lsmem_handle *h;
	bool stop;
};

/* As lsmem_group_hold(), again and again: another tag, the same place. */
static const char *handle_toucher(void *data)
{
	struct handle_toucher *toucher = data;

	while (!READ_ONCE(toucher->stop)) {
		u64 word = READ_ONCE(toucher->h->word);

		lsmem_word_swap(toucher->h, word,
				lsmem_word_next(word, LSMEM_WORD_LIVE, lsmem_word_position(word)));
		cond_resched();
	}
	return NULL;
}

/* An object is moved although its word is exchanged meanwhile for one with the same place; not from elsewhere. */
static void handle_test_move(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct handle_toucher toucher = { .h = &store->handles.table[1] };
	u64 old = toucher.h->word, first = lsmem_word_next(old, LSMEM_WORD_LIVE, 0), i;
	struct lsmem_test_thread thread;

	toucher.h->word = first;
	KUNIT_ASSERT_EQ(test, lsmem_test_start(&thread, handle_toucher, &toucher), 0);
	for (i = 0; i < HANDLE_MOVES; i++) {
		if (!lsmem_word_move(&store->handles, toucher.h, i % 8, (i + 1) % 8) ||
		    lsmem_word_move(&store->handles, toucher.h, i % 8, 5))
			break;
		if (i % 1024 == 0)
			cond_resched();
	}
	WRITE_ONCE(toucher.stop, true);
	lsmem_test_join(test, &thread);
	KUNIT_EXPECT_EQ(test, i, HANDLE_MOVES);
	KUNIT_EXPECT_EQ(test, lsmem_word_position(toucher.h->word), i % 8);
	KUNIT_EXPECT_NE(test, toucher.h->word, first);
	lsmem_livemap_clear(&store->handles.livemap, i % 8);
	toucher.h->word = old;
}

static struct kunit_case handle_cases[] = {
	KUNIT_CASE(handle_test_stale),
	KUNIT_CASE(handle_test_unknown),
	KUNIT_CASE(handle_test_full),
	KUNIT_CASE(handle_test_retired),
	KUNIT_CASE(handle_test_aside),
	KUNIT_CASE(handle_test_left),
	KUNIT_CASE(handle_test_even),
	KUNIT_CASE(handle_test_worn),
	KUNIT_CASE(handle_test_killed),
	KUNIT_CASE(handle_test_ceiling),
	KUNIT_CASE(handle_test_count),
	KUNIT_CASE_PARAM(handle_test_word, handle_word_gen_params),
	KUNIT_CASE(handle_test_aba),
	KUNIT_CASE(handle_test_version),
	KUNIT_CASE(handle_test_threads),
	KUNIT_CASE(handle_test_exchange),
	KUNIT_CASE(handle_test_move),
	KUNIT_CASE_PARAM(handle_test_object, handle_length_gen_params),
	KUNIT_CASE(handle_test_interval),
	{}
};

static struct kunit_suite handle_suite = {
	.name = "lsmem-handle",
	.init = handle_init,
	.exit = lsmem_test_store_exit,
	.test_cases = handle_cases,
};

kunit_test_suite(handle_suite);
