// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: fetching, with the cleaner and the compactors of the module.  A fill loses every race; what
 * a backup has is checked; the counters of the tier are right at the end of each test.
 *
 * The test is the daemon: it copies the log of a segment before the objects leave memory, and answers
 * fetch requests from that.
 */
#include <linux/uaccess.h>

#include "compaction.h"
#include "../balance.h"
#include "../cache.h"
#include "../clean.h"
#include "../evict.h"
#include "../load.h"
#include "../misses.h"
#include "../object.h"
#include "../rest.h"

#define FETCH_NR	8u	/* objects of a test */
#define FETCH_LENGTH	1000u
#define FETCH_SOON_MS	100

static const struct lsmem_test_shape fetch_shape = {
	.segments = 8, .heads = 3, .handles = 64, .durable = true, .tiered = true,
};

static void __user *fetch_room;	/* for the arrays of FETCH and FILL */

/**
 * struct fetch_backup - a segment as a backup has it
 * @seg: the segment
 * @id: of @seg
 * @home: its length
 * @log: @home bytes, and zeroes to the end of the last block
 */
struct fetch_backup {
	struct lsmem_segment *seg;
	u64 id;
	u32 home;
	u8 __user *log;
};

static int fetch_init(struct kunit *test)
{
	struct lsmem_store *store;

	compact_store(test, &fetch_shape, LSMEM_TEST_RESERVE);
	store = test->priv;
	store->repl.attached = (void *)test;	/* only compared with NULL */
	fetch_room = lsmem_test_user(test, PAGE_SIZE);
	return 0;
}

static u64 fetch_word(struct kunit *test, const struct compact_object *o)
{
	struct lsmem_store *store = test->priv;

	return READ_ONCE(compact_handle(store, o)->word);
}

static u32 fetch_state(struct kunit *test, const struct compact_object *o)
{
	return lsmem_word_state(fetch_word(test, o));
}

/* ---- The daemon ---------------------------------------------------------- */

/* Copy a closed segment to the backup. */
static void fetch_copy(struct kunit *test, struct fetch_backup *b, struct lsmem_segment *seg)
{
	struct lsmem_store *store = test->priv;
	u32 at, piece;

	*b = (struct fetch_backup){ .seg = seg, .id = seg->id, .home = seg->home };
	b->log = lsmem_test_user(test, lsmem_block_round(seg->home));
	for (at = 0; at < seg->home; at += piece) {
		piece = min(seg->home - at, LSMEM_SEGLET_BYTES);
		KUNIT_ASSERT_EQ(test, copy_to_user(b->log + at, lsmem_segment_at(store, seg, at), piece), 0);
	}
}

/* All objects leave a segment. */
static void fetch_evict(struct kunit *test, struct lsmem_segment *seg)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_rest rest;

	spin_lock(&store->segments.lock);
	seg->state = LSMEM_SEGMENT_COMPACTING;
	lsmem_segment_show(seg);
	spin_unlock(&store->segments.lock);
	bitmap_zero(store->tier.touched, store->handles.nr);
	KUNIT_EXPECT_TRUE(test, lsmem_evict(store, seg, false, &rest));
	set_user_nice(current, 0);	/* what it has changed */
	KUNIT_EXPECT_EQ(test, atomic_read(seg->live), atomic_read(seg->tombstones));
	spin_lock(&store->segments.lock);
	lsmem_segment_leave(seg);
	spin_unlock(&store->segments.lock);
}

/* Write objects to a segment, copy it to the backup, and have all leave memory. */
static void fetch_cold(struct kunit *test, struct fetch_backup *b, struct compact_object *o, u32 nr,
		       u32 length)
{
	u32 i;

	for (i = 0; i < nr; i++)
		compact_put(test, &o[i], length);
	fetch_copy(test, b, compact_close(test));
	fetch_evict(test, b->seg);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, fetch_state(test, &o[i]), LSMEM_WORD_COLD);
}

/* Take a request. Returns false if there is none. */
static bool fetch_take(struct kunit *test, struct lsmem_fetch_one *one)
{
	struct lsmem_fetch fetch = { .requests = (uintptr_t)fetch_room, .nr = 1 };

	KUNIT_ASSERT_EQ(test, lsmem_fetch_take(test->priv, &fetch), 0);
	if (fetch.nr)
		KUNIT_ASSERT_EQ(test, copy_from_user(one, fetch_room, sizeof(*one)), 0);
	return fetch.nr;
}

static int fetch_fill(struct kunit *test, u64 cookie, const void __user *data, u32 length, int result)
{
	struct lsmem_fill fill = { .fills = (uintptr_t)fetch_room, .nr = 1 };
	struct lsmem_fill_one one = {
		.cookie = cookie, .data = (uintptr_t)data, .length = length, .result = result,
	};

	KUNIT_ASSERT_EQ(test, copy_to_user(fetch_room, &one, sizeof(one)), 0);
	KUNIT_ASSERT_EQ(test, lsmem_fetch_fill(test->priv, &fill), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&one, fetch_room, sizeof(one)), 0);
	return one.result;
}

/* Answer a request with what the backup has. */
static int fetch_answer(struct kunit *test, const struct fetch_backup *b,
			const struct lsmem_fetch_one *one)
{
	u32 from = one->block * LSMEM_BLOCK;

	KUNIT_ASSERT_EQ(test, one->segment, b->id);
	if (one->flags & LSMEM_FETCH_SEGMENT)
		return fetch_fill(test, one->cookie, b->log, b->home, 0);
	return fetch_fill(test, one->cookie, b->log + from,
			  min(lsmem_block_round(b->home) - from, one->blocks * LSMEM_BLOCK), 0);
}

/* Ask for a COLD object, and take the request. */
static struct lsmem_fetch_one fetch_request(struct kunit *test, const struct compact_object *o)
{
	struct lsmem_fetch_one one = { };

	KUNIT_ASSERT_EQ(test, fetch_state(test, o), LSMEM_WORD_COLD);
	lsmem_fetch_ask(test->priv, lsmem_handle_index(o->handle), fetch_word(test, o));
	KUNIT_ASSERT_TRUE(test, fetch_take(test, &one));
	KUNIT_ASSERT_FALSE(test, fetch_take(test, &one));
	return one;
}

/* Bring an object into memory, and look at it. */
static void fetch_object(struct kunit *test, const struct fetch_backup *b, const struct compact_object *o)
{
	struct lsmem_fetch_one one = fetch_request(test, o);

	KUNIT_EXPECT_EQ(test, fetch_answer(test, b, &one), 0);
	KUNIT_EXPECT_STREQ(test, compact_look(test->priv, o) ?: "", "");
}

/* ---- The counters -------------------------------------------------------- */

/* Compare the counters of the tier with the words of all live objects. */
static void fetch_balance(struct kunit *test, const struct compact_object *o, u32 nr)
{
	struct lsmem_store *store = test->priv;
	s64 cold = 0, cached = 0;
	u32 i;

	for (i = 0; i < nr; i++) {
		u64 word = o[i].handle ? fetch_word(test, &o[i]) : 0;
		u32 size = lsmem_entry_size(o[i].length);

		if (lsmem_word_state(word) == LSMEM_WORD_COLD) {
			cold += size;
		} else if (lsmem_word_state(word) == LSMEM_WORD_LIVE &&
			   lsmem_segment_is_cache(&store->segments,
						  lsmem_segment_of(store, lsmem_word_position(word))->index)) {
			cold += size;
			cached += size + LSMEM_TRAILER_BYTES;
		}
	}
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->tier.cold), cold);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->tier.cached), cached);
	for (i = 0; i < store->segments.nr_all; i++) {
		const struct lsmem_segment *seg = &store->segments.table[i];

		KUNIT_EXPECT_GE(test, atomic_read(seg->live), 0);
		KUNIT_EXPECT_GE(test, atomic_read(seg->cold), 0);
		if (lsmem_segment_is_cache(&store->segments, i))
			cached -= atomic_read(seg->live);
		else
			cold -= atomic_read(seg->cold);
	}
	KUNIT_EXPECT_EQ(test, cold, 0);
	KUNIT_EXPECT_EQ(test, cached, 0);
	KUNIT_EXPECT_EQ(test, READ_ONCE(store->fetches.nr), 0);
}

/* ---- Right answers ------------------------------------------------------- */

/* Objects come back as they were, once; a second answer, and one to no request, have no effect. */
static void fetch_test_twice(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct compact_object o[FETCH_NR] = { };
	struct lsmem_fetch_one one;
	struct fetch_backup b;
	s64 live;
	u64 word;
	u32 i;

	fetch_cold(test, &b, o, FETCH_NR, FETCH_LENGTH);
	live = percpu_counter_sum(&store->live);
	fetch_balance(test, o, FETCH_NR);
	for (i = 0; i < FETCH_NR; i++) {
		one = fetch_request(test, &o[i]);
		KUNIT_EXPECT_EQ(test, fetch_fill(test, one.cookie + (1ull << 32), b.log, LSMEM_BLOCK, 0), -ENOENT);
		KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), 0);
		word = fetch_word(test, &o[i]);
		KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), -ENOENT);
		KUNIT_EXPECT_EQ(test, fetch_fill(test, one.cookie, NULL, 0, -EIO), -ENOENT);
		KUNIT_EXPECT_EQ(test, fetch_word(test, &o[i]), word);
		fetch_balance(test, o, FETCH_NR);
	}
	compact_look_all(test, o, FETCH_NR);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), live);
	for (i = 0; i < FETCH_NR; i++)
		KUNIT_EXPECT_EQ(test, compact_free(store, &o[i]), 0);
	fetch_balance(test, o, FETCH_NR);
}

/* A request that no daemon has taken is not answered: its cookie is a guess. */
static void fetch_test_not_taken(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct compact_object o = { };
	struct lsmem_fetch_one one;
	struct fetch_backup b;
	u64 guess;

	fetch_cold(test, &b, &o, 1, FETCH_LENGTH);
	guess = (u64)(store->fetches.serial + 1) << 32 | lsmem_handle_index(o.handle);
	lsmem_fetch_ask(store, lsmem_handle_index(o.handle), fetch_word(test, &o));
	KUNIT_EXPECT_EQ(test, fetch_fill(test, guess, b.log, LSMEM_BLOCK, 0), -ENOENT);
	KUNIT_EXPECT_EQ(test, fetch_state(test, &o), LSMEM_WORD_COLD);
	KUNIT_ASSERT_TRUE(test, fetch_take(test, &one));
	KUNIT_EXPECT_EQ(test, one.cookie, guess);
	/* Its daemon dies, the next one is told again. */
	lsmem_fetch_rewind(store);
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), -ENOENT);
	KUNIT_ASSERT_TRUE(test, fetch_take(test, &one));
	KUNIT_EXPECT_EQ(test, one.cookie, guess);
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), 0);
	fetch_balance(test, &o, 1);
}

/* What nothing waits for is told last, unless something waits for it meanwhile. */
static void fetch_test_ahead(struct kunit *test)
{
	static const u32 order[] = { 3, 1, 0, 2 };
	struct lsmem_store *store = test->priv;
	struct compact_object o[4] = { };
	struct lsmem_fetch_one one;
	struct fetch_backup b;
	u32 i;

	fetch_cold(test, &b, o, 4, FETCH_LENGTH);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_TRUE(test, lsmem_fetch_ahead(store, lsmem_handle_index(o[i].handle),
							  fetch_word(test, &o[i])));
	KUNIT_EXPECT_TRUE(test, lsmem_fetch_pending(store));
	lsmem_fetch_ask(store, lsmem_handle_index(o[3].handle), fetch_word(test, &o[3]));
	lsmem_fetch_ask(store, lsmem_handle_index(o[1].handle), fetch_word(test, &o[1]));
	for (i = 0; i < 4; i++) {
		KUNIT_ASSERT_TRUE(test, fetch_take(test, &one));
		KUNIT_EXPECT_EQ(test, (u32)one.cookie, lsmem_handle_index(o[order[i]].handle));
		KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), 0);
	}
	KUNIT_EXPECT_FALSE(test, lsmem_fetch_pending(store));
	compact_look_all(test, o, 4);
	fetch_balance(test, o, 4);
}

/* ---- Misses of a call ------------------------------------------------------ */

static void fetch_miss_op(struct lsmem_op *op, const struct compact_object *o)
{
	*op = (struct lsmem_op){ .op = LSMEM_OP_READ, .handle = o->handle };
}

/*
 * Operations whose objects are COLD are asked for together, each object once, and each takes the result of its request: what
 * has failed is not asked for again.
 */
static void fetch_test_misses(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct compact_object o[FETCH_NR] = { };
	struct lsmem_op ops[FETCH_NR + 2] = { };
	struct lsmem_misses *misses;
	struct lsmem_fetch_one one;
	struct fetch_backup b;
	u32 asked = 0, i;
	u64 until = 0;

	fetch_cold(test, &b, o, FETCH_NR, FETCH_LENGTH);
	for (i = 0; i < FETCH_NR; i++)
		fetch_miss_op(&ops[i], &o[FETCH_NR - 1 - i]);
	fetch_miss_op(&ops[FETCH_NR], &o[3]);			/* a second time */
	KUNIT_EXPECT_PTR_EQ(test, lsmem_misses_new(store, ops, 0), NULL);
	misses = lsmem_misses_new(store, ops, (1u << (FETCH_NR + 1)) - 1);
	KUNIT_ASSERT_NOT_NULL(test, misses);
	KUNIT_EXPECT_EQ(test, READ_ONCE(store->fetches.nr), FETCH_NR);
	while (fetch_take(test, &one)) {
		u32 index = (u32)one.cookie;

		asked++;
		if (index == lsmem_handle_index(o[0].handle))
			KUNIT_EXPECT_EQ(test, fetch_fill(test, one.cookie, NULL, 0, -EIO), 0);
		else if (index != lsmem_handle_index(o[1].handle))
			KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), 0);
		KUNIT_ASSERT_LE(test, asked, FETCH_NR);
	}
	KUNIT_EXPECT_EQ(test, asked, FETCH_NR);
	for (i = 0; i <= FETCH_NR; i++) {
		u64 index = lsmem_handle_index(ops[i].handle);
		int ret = lsmem_misses_fetch(store, misses, i, index, &until, LSMEM_NO_WAIT);

		KUNIT_EXPECT_EQ(test, lsmem_misses_has(misses, i), i < FETCH_NR);
		KUNIT_EXPECT_EQ(test, ret, index == lsmem_handle_index(o[0].handle) ? -EIO :
				index == lsmem_handle_index(o[1].handle) ? -LSMEM_EWAIT : 0);
	}
	KUNIT_EXPECT_EQ(test, compact_counters(store).fetch_failures, 1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(store->fetches.nr), 1);
	/* The call ends: what was asked for comes nevertheless. */
	lsmem_misses_free(misses);
	lsmem_fetch_rewind(store);
	KUNIT_ASSERT_TRUE(test, fetch_take(test, &one));
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), 0);
	fetch_object(test, &b, &o[0]);
	compact_look_all(test, o, FETCH_NR);
	/* Nothing is COLD any more, and what has been is not asked for. */
	misses = lsmem_misses_new(store, ops, (1u << (FETCH_NR + 1)) - 1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(store->fetches.nr), 0);
	lsmem_misses_free(misses);
	fetch_balance(test, o, FETCH_NR);
}

/* ---- What is read through ------------------------------------------------- */

/* Ask for objects of a segment in one request, and take it. */
static struct lsmem_wanted *fetch_through(struct kunit *test, const struct compact_object *o, u32 nr, u32 blocks,
					  struct lsmem_fetch_one *one)
{
	struct lsmem_sought sought[FETCH_NR] = { };
	struct lsmem_fetch_one none;
	struct lsmem_wanted *wanted;
	u32 i;

	for (i = 0; i < nr; i++)
		sought[i] = (struct lsmem_sought){ .word = fetch_word(test, &o[i]),
						   .index = lsmem_handle_index(o[i].handle) };
	wanted = lsmem_through_ask(test->priv, sought, nr, blocks);
	KUNIT_ASSERT_FALSE(test, IS_ERR(wanted));
	KUNIT_ASSERT_TRUE(test, fetch_take(test, one));
	KUNIT_ASSERT_FALSE(test, fetch_take(test, &none));
	KUNIT_EXPECT_EQ(test, one->block, lsmem_cold_block(sought[0].word));
	KUNIT_EXPECT_EQ(test, one->blocks, blocks);
	return wanted;
}

/* Give back a request that is answered. Returns a mask of its objects that were found; they are as they should be. */
static u32 fetch_through_found(struct kunit *test, struct lsmem_wanted *wanted, const struct compact_object *o, u32 nr)
{
	u32 mask = 0, i;

	for (i = 0; i < nr; i++) {
		struct lsmem_entry e;
		const void *bytes = lsmem_through_wait(wanted, i, 0, &e);

		KUNIT_ASSERT_FALSE(test, IS_ERR(bytes));
		if (!bytes)
			continue;
		mask |= 1u << i;
		KUNIT_EXPECT_EQ(test, lsmem_entry_handle(&e), o[i].handle);
		KUNIT_EXPECT_EQ(test, lsmem_entry_length(&e), o[i].length);
		KUNIT_EXPECT_EQ(test, memcmp(bytes, lsmem_test_payload(o[i].key), o[i].length), 0);
	}
	for (i = 0; i < nr; i++)
		lsmem_through_put(wanted);
	return mask;
}

/* Several objects are one request; what is not there fails none of the others, and is no failure. */
static void fetch_test_through(struct kunit *test)
{
	const u32 all = (1u << FETCH_NR) - 1, blocks = FETCH_NR * FETCH_LENGTH / LSMEM_BLOCK + 2;
	struct lsmem_store *store = test->priv;
	struct compact_object o[FETCH_NR] = { };
	struct lsmem_wanted *wanted;
	struct lsmem_fetch_one one;
	struct fetch_backup b;
	u8 __user *at;
	u32 i;
	u8 byte;

	fetch_cold(test, &b, o, FETCH_NR, FETCH_LENGTH);
	wanted = fetch_through(test, o, FETCH_NR, blocks, &one);
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), 0);
	KUNIT_EXPECT_EQ(test, fetch_through_found(test, wanted, o, FETCH_NR), all);
	for (i = 0; i < FETCH_NR; i++)
		KUNIT_EXPECT_EQ(test, fetch_state(test, &o[i]), LSMEM_WORD_COLD);
	/* Less is there than was asked for: whole objects are, and no others. */
	wanted = fetch_through(test, o, FETCH_NR, blocks, &one);
	KUNIT_EXPECT_EQ(test, fetch_fill(test, one.cookie, b.log, LSMEM_BLOCK, 0), 0);
	KUNIT_EXPECT_EQ(test, fetch_through_found(test, wanted, o, FETCH_NR),
			(1u << LSMEM_BLOCK / lsmem_entry_size(FETCH_LENGTH)) - 1);
	/* Those that begin in later blocks alone. */
	i = LSMEM_BLOCK / lsmem_entry_size(FETCH_LENGTH) + 1;
	wanted = fetch_through(test, o + i, FETCH_NR - i, blocks, &one);
	KUNIT_EXPECT_EQ(test, one.block, 1);
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), 0);
	KUNIT_EXPECT_EQ(test, fetch_through_found(test, wanted, o + i, FETCH_NR - i), all >> i);
	/* One is damaged. */
	at = b.log + 2 * lsmem_entry_size(FETCH_LENGTH) + FETCH_LENGTH / 2;
	KUNIT_ASSERT_EQ(test, get_user(byte, at), 0);
	KUNIT_ASSERT_EQ(test, put_user(byte ^ 1, at), 0);
	wanted = fetch_through(test, o, FETCH_NR, blocks, &one);
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), 0);
	KUNIT_EXPECT_EQ(test, fetch_through_found(test, wanted, o, FETCH_NR), all & ~(1u << 2));
	/* Alone it is to be read elsewhere. */
	wanted = fetch_through(test, o + 2, 1, 2, &one);
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), -EBADMSG);
	KUNIT_ASSERT_EQ(test, put_user(byte, at), 0);
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), 0);
	KUNIT_EXPECT_EQ(test, fetch_through_found(test, wanted, o + 2, 1), 1);
	/* The backup cannot be read. */
	wanted = fetch_through(test, o, FETCH_NR, blocks, &one);
	KUNIT_EXPECT_EQ(test, fetch_fill(test, one.cookie, NULL, 0, -EIO), 0);
	KUNIT_EXPECT_EQ(test, fetch_through_found(test, wanted, o, FETCH_NR), 0);
	KUNIT_EXPECT_EQ(test, compact_counters(store).fetch_failures, 0);
	KUNIT_EXPECT_EQ(test, compact_counters(store).fetches, 0);
	/* An answer to a request whose reader has gone. */
	wanted = fetch_through(test, o, 2, 1, &one);
	lsmem_through_put(wanted);
	lsmem_through_put(wanted);
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), 0);
	fetch_balance(test, o, FETCH_NR);
}

/* ---- Races --------------------------------------------------------------- */

/* Clean two segments that have nothing in memory; the daemon has both. */
static void fetch_clean(struct kunit *test, const struct fetch_backup *b)
{
	u64 ids[2] = { b[0].id, b[1].id };
	unsigned long end = jiffies + COMPACT_BOUND;
	struct lsmem_store *store = test->priv;
	struct lsmem_fetch_one one;
	u32 victims = 2, nr = 0;

	KUNIT_ASSERT_EQ(test, lsmem_clean_ask(store, ids, &victims, false), 0);
	KUNIT_ASSERT_EQ(test, victims, 2);
	wake_up_all(&store->plan.work);
	while (lsmem_clean_underway(store) && time_before(jiffies, end)) {
		if (!fetch_take(test, &one)) {
			schedule_timeout_uninterruptible(1);
			continue;
		}
		KUNIT_EXPECT_EQ(test, one.flags, LSMEM_FETCH_SEGMENT);
		KUNIT_EXPECT_EQ(test, fetch_answer(test, one.segment == b[0].id ? &b[0] : &b[1], &one), 0);
		nr++;
	}
	KUNIT_ASSERT_FALSE(test, lsmem_clean_underway(store));
	KUNIT_EXPECT_EQ(test, nr, 2);
	KUNIT_EXPECT_EQ(test, atomic_read(b[0].seg->cold), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(b[1].seg->cold), 0);
}

/* Close the survivor of a pass, and have its objects leave memory. */
static void fetch_evict_survivor(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = store->heads.table[LSMEM_CLEANER_HEAD].segment;

	KUNIT_ASSERT_NOT_NULL(test, seg);
	lsmem_test_list_spares(store);
	KUNIT_ASSERT_EQ(test, lsmem_head_roll(store, LSMEM_CLEANER_HEAD), 0);
	seg->acked = seg->committed;
	spin_lock(&store->segments.lock);
	lsmem_segment_done(seg);
	spin_unlock(&store->segments.lock);
	fetch_evict(test, seg);
}

enum fetch_meanwhile { CLEANED, EVICTED, REPLACED, FREED, USED_AGAIN };

static const struct fetch_race_case {
	const char *name;
	enum fetch_meanwhile what;
} fetch_races[] = {
	{ "its segment is cleaned", CLEANED },
	{ "it is cleaned and leaves memory again", EVICTED },
	{ "it is cleaned and replaced", REPLACED },
	{ "it is cleaned and freed", FREED },
	{ "it is cleaned, freed, and its index used again", USED_AGAIN },
};

static void fetch_race_desc(const struct fetch_race_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(fetch_race, fetch_races, fetch_race_desc);

/* Allocate until an index is used again; @o becomes the object that has it. */
static void fetch_use_again(struct kunit *test, struct compact_object *o, u64 index)
{
	struct compact_object other;

	for (compact_put(test, o, 500); lsmem_handle_index(o->handle) != index;
	     compact_put(test, o, 500)) {
		other = *o;
		KUNIT_ASSERT_EQ(test, compact_free(test->priv, &other), 0);
	}
}

/* A fill that comes after its object has changed has no effect. */
static void fetch_test_race(struct kunit *test)
{
	const struct fetch_race_case *param = test->param_value;
	struct compact_object o[2 * FETCH_NR] = { }, *first = &o[0];
	struct lsmem_store *store = test->priv;
	struct lsmem_fetch_one one, again;
	struct fetch_backup b[2];
	u64 word, index;

	fetch_cold(test, &b[0], o, FETCH_NR, FETCH_LENGTH);
	fetch_cold(test, &b[1], o + FETCH_NR, FETCH_NR, FETCH_LENGTH);
	compact_cleaner(test);
	one = fetch_request(test, first);
	fetch_clean(test, b);
	KUNIT_ASSERT_EQ(test, fetch_state(test, first), LSMEM_WORD_LIVE);
	index = lsmem_handle_index(first->handle);
	if (param->what == EVICTED)
		fetch_evict_survivor(test);
	if (param->what == REPLACED)
		KUNIT_ASSERT_EQ(test, compact_write(store, COMPACT_HEAD, first, first->key + 1, 2000), 0);
	if (param->what >= FREED)
		KUNIT_ASSERT_EQ(test, compact_free(store, first), 0);
	if (param->what == USED_AGAIN)
		fetch_use_again(test, first, index);

	word = store->handles.table[index].word;
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b[0], &one), 0);
	KUNIT_EXPECT_EQ(test, store->handles.table[index].word, word);
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b[0], &one), -ENOENT);
	KUNIT_EXPECT_FALSE(test, fetch_take(test, &again));
	if (param->what != EVICTED)
		compact_look_all(test, o, ARRAY_SIZE(o));
	fetch_balance(test, o, ARRAY_SIZE(o));
}

/* An error, or bytes that are wrong, after the object has changed: nothing is wrong with the backup. */
static void fetch_test_race_error(struct kunit *test)
{
	struct compact_object o[2 * FETCH_NR] = { };
	struct lsmem_store *store = test->priv;
	struct lsmem_fetch_one one, other;
	struct fetch_backup b[2];

	fetch_cold(test, &b[0], o, FETCH_NR, FETCH_LENGTH);
	fetch_cold(test, &b[1], o + FETCH_NR, FETCH_NR, FETCH_LENGTH);
	compact_cleaner(test);
	one = fetch_request(test, &o[0]);
	other = fetch_request(test, &o[1]);
	fetch_clean(test, b);
	KUNIT_EXPECT_EQ(test, fetch_fill(test, one.cookie, NULL, 0, -EIO), 0);
	KUNIT_EXPECT_EQ(test, clear_user(b[0].log, LSMEM_BLOCK), 0);
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b[0], &other), 0);
	KUNIT_EXPECT_EQ(test, compact_counters(store).fetch_failures, 0);
	compact_look_all(test, o, ARRAY_SIZE(o));
	fetch_balance(test, o, ARRAY_SIZE(o));
}

/* ---- Those who wait ------------------------------------------------------ */

struct fetch_waiter {
	struct lsmem_store *store;
	u64 index;
	int ret;
};

static const char *fetch_waiter_run(void *data)
{
	struct fetch_waiter *waiter = data;
	u64 until = 0;

	waiter->ret = lsmem_fetch(waiter->store, waiter->index, &until, 0);
	return NULL;
}

/* Wait for an object in another thread, until @end has answered. Returns the result of the wait. */
static int fetch_wait(struct kunit *test, const struct compact_object *o,
		      void (*end)(struct kunit *test, const struct lsmem_fetch_one *one))
{
	struct fetch_waiter waiter = { .store = test->priv, .index = lsmem_handle_index(o->handle) };
	struct lsmem_test_thread thread;
	struct lsmem_fetch_one one = { };

	KUNIT_ASSERT_EQ(test, lsmem_test_start(&thread, fetch_waiter_run, &waiter), 0);
	compact_await(test, lsmem_fetch_pending(waiter.store));
	KUNIT_EXPECT_TRUE(test, fetch_take(test, &one));
	end(test, &one);
	lsmem_test_join(test, &thread);
	return waiter.ret;
}

static void fetch_end_error(struct kunit *test, const struct lsmem_fetch_one *one)
{
	KUNIT_EXPECT_EQ(test, fetch_fill(test, one->cookie, NULL, 0, -ESTALE), 0);
}

static void fetch_end_silent(struct kunit *test, const struct lsmem_fetch_one *one)
{
}

static void fetch_end_stop(struct kunit *test, const struct lsmem_fetch_one *one)
{
	lsmem_fetch_stop(test->priv);
}

/* An error of the daemon is EIO, its silence ETIMEDOUT, and when it answers late the object is there. */
static void fetch_test_wait(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct compact_object o[FETCH_NR] = { };
	struct lsmem_fetch_one one;
	struct fetch_backup b;

	fetch_cold(test, &b, o, FETCH_NR, FETCH_LENGTH);
	KUNIT_EXPECT_EQ(test, fetch_wait(test, &o[0], fetch_end_error), -EIO);
	KUNIT_EXPECT_EQ(test, compact_counters(store).fetch_failures, 1);
	store->fetches.fetch_ms = FETCH_SOON_MS;
	KUNIT_EXPECT_EQ(test, fetch_wait(test, &o[1], fetch_end_silent), -ETIMEDOUT);
	KUNIT_EXPECT_EQ(test, READ_ONCE(store->fetches.nr), 1);
	lsmem_fetch_rewind(store);
	KUNIT_ASSERT_TRUE(test, fetch_take(test, &one));
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), 0);
	KUNIT_EXPECT_STREQ(test, compact_look(store, &o[1]) ?: "", "");
	fetch_object(test, &b, &o[0]);
	fetch_balance(test, o, FETCH_NR);
}

/* A COLD word that is of no place in its segment: an error at once, and no request to the daemon. */
static void fetch_test_nowhere(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct fetch_waiter waiter = { .store = store };
	struct lsmem_test_thread thread;
	struct compact_object o = { };
	struct lsmem_fetch_one one;
	struct fetch_backup b;
	u64 word, *at;

	fetch_cold(test, &b, &o, 1, FETCH_LENGTH);
	at = &compact_handle(store, &o)->word;
	word = *at;
	*at = lsmem_word_next(word, LSMEM_WORD_COLD,
			      lsmem_cold_place(b.seg->index, b.home / LSMEM_BLOCK + 1, 0, FETCH_LENGTH));
	waiter.index = lsmem_handle_index(o.handle);
	KUNIT_ASSERT_EQ(test, lsmem_test_start(&thread, fetch_waiter_run, &waiter), 0);
	compact_await(test, lsmem_fetch_pending(store));
	KUNIT_EXPECT_FALSE(test, fetch_take(test, &one));
	lsmem_test_join(test, &thread);
	KUNIT_EXPECT_EQ(test, waiter.ret, -EIO);
	KUNIT_EXPECT_EQ(test, compact_counters(store).fetch_failures, 1);
	*at = word;
	fetch_object(test, &b, &o);
	fetch_balance(test, &o, 1);
}

/* The store goes: waits end, an answer comes too late, and there are no new requests. */
static void fetch_test_stop(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct compact_object o[2] = { };
	struct lsmem_fetch_one one, none;
	struct fetch_backup b;
	u64 until = 0;

	fetch_cold(test, &b, o, 2, FETCH_LENGTH);
	one = fetch_request(test, &o[0]);
	KUNIT_EXPECT_EQ(test, fetch_wait(test, &o[1], fetch_end_stop), -EAGAIN);
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), -ENOENT);
	KUNIT_EXPECT_EQ(test, fetch_state(test, &o[0]), LSMEM_WORD_COLD);
	lsmem_fetch_ask(store, lsmem_handle_index(o[0].handle), fetch_word(test, &o[0]));
	KUNIT_EXPECT_FALSE(test, fetch_take(test, &none));
	KUNIT_EXPECT_EQ(test, lsmem_fetch(store, lsmem_handle_index(o[0].handle), &until, 0), -EAGAIN);
	fetch_balance(test, o, 2);
}

/* ---- What a backup has --------------------------------------------------- */

static const struct fetch_older_case {
	const char *name;
	bool behind;	/* the newest version is followed by the other */
	bool other;	/* that is of an earlier handle with the same index, with a higher version */
} fetch_olders[] = {
	{ "before it", false, false },
	{ "behind it", true, false },
	{ "behind it, of an earlier handle", true, true },
};

static void fetch_older_desc(const struct fetch_older_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(fetch_older, fetch_olders, fetch_older_desc);

/* Append an entry with the index of an object, to which no word points. */
static void fetch_append(struct kunit *test, u64 handle, u64 version)
{
	struct lsmem_source source = { .kernel = lsmem_test_payload(handle + 7) };
	struct lsmem_store *store = test->priv;
	struct lsmem_append ap;
	u64 deadline = 0;
	u32 pcrc;

	KUNIT_ASSERT_EQ(test, lsmem_entry_put(store, COMPACT_HEAD, handle, 0, &source, FETCH_LENGTH,
					      &deadline, &ap, &pcrc), 0);
	lsmem_object_stamp(store, &ap, handle, version, FETCH_LENGTH, 0, 0, pcrc);
	lsmem_append_commit(store, &ap);
}

/* A block has two versions of an object: the newest is the one. */
static void fetch_test_older(struct kunit *test)
{
	const struct fetch_older_case *param = test->param_value;
	struct lsmem_store *store = test->priv;
	struct compact_object o = { };
	struct fetch_backup b;
	u64 version;

	compact_put(test, &o, FETCH_LENGTH);
	if (param->other) {	/* so that there was one */
		u64 index = lsmem_handle_index(o.handle);

		KUNIT_ASSERT_EQ(test, compact_free(store, &o), 0);
		compact_close(test);
		fetch_use_again(test, &o, index);
	}
	version = lsmem_entry_version(&o.e);
	if (!param->behind)
		KUNIT_ASSERT_EQ(test, compact_write(store, COMPACT_HEAD, &o, o.key + 1, FETCH_LENGTH), 0);
	else if (param->other)
		fetch_append(test, lsmem_handle_make(lsmem_handle_index(o.handle),
						     lsmem_handle_generation(o.handle) - 1), version + 5);
	else
		fetch_append(test, o.handle, version - 1);
	fetch_copy(test, &b, compact_close(test));
	fetch_evict(test, b.seg);
	fetch_object(test, &b, &o);
	fetch_balance(test, &o, 1);
}

static const struct fetch_cut_case {
	const char *name;
	u32 before;	/* bytes of an object before it */
	u32 length;
} fetch_cuts[] = {
	{ "short, at the beginning", 8, FETCH_LENGTH },
	{ "header at the end of the block", LSMEM_BLOCK - 2 * LSMEM_LONG_BYTES - 16, 3000 },
	{ "it crosses blocks", 2000, 9000 },
};

static void fetch_cut_desc(const struct fetch_cut_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(fetch_cut, fetch_cuts, fetch_cut_desc);

/* Fewer bytes than the entry has are never an answer, and no reason to give up. */
static void fetch_test_cut(struct kunit *test)
{
	const struct fetch_cut_case *param = test->param_value;
	struct compact_object o[3] = { };
	struct lsmem_store *store = test->priv;
	u32 at, end, length;
	struct lsmem_fetch_one one;
	struct fetch_backup b;

	compact_put(test, &o[0], param->before);
	compact_put(test, &o[1], param->length);
	compact_put(test, &o[2], LSMEM_BLOCK);
	fetch_copy(test, &b, compact_close(test));
	at = lsmem_entry_size(param->before) % LSMEM_BLOCK;
	end = at + lsmem_entry_size(param->length);
	fetch_evict(test, b.seg);
	one = fetch_request(test, &o[1]);
	KUNIT_ASSERT_EQ(test, one.block, lsmem_entry_size(param->before) / LSMEM_BLOCK);
	for (length = 0; length < end; length += LSMEM_ALIGN) {
		KUNIT_ASSERT_EQ(test, fetch_fill(test, one.cookie, b.log + one.block * LSMEM_BLOCK,
						 length, 0), -ENODATA);
		KUNIT_ASSERT_EQ(test, fetch_state(test, &o[1]), LSMEM_WORD_COLD);
	}
	KUNIT_EXPECT_EQ(test, one.blocks, DIV_ROUND_UP(end, LSMEM_BLOCK));
	KUNIT_EXPECT_EQ(test, fetch_fill(test, one.cookie, b.log + one.block * LSMEM_BLOCK,
					 lsmem_block_round(max(end, LSMEM_BLOCK + 1)), 0), 0);
	KUNIT_EXPECT_STREQ(test, compact_look(store, &o[1]) ?: "", "");
	fetch_balance(test, o, 3);
}

/* Any bit of an entry is changed: it is not there, and with the right bytes it is. */
static void fetch_test_flip(struct kunit *test)
{
	const u32 length = 208;	/* no padding, whose bits count for nothing */
	struct compact_object o[2] = { };
	struct lsmem_fetch_one one;
	struct fetch_backup b;
	u32 bit, size, first;
	u8 __user *at;
	u8 byte;

	compact_put(test, &o[0], 104);
	compact_put(test, &o[1], length);
	fetch_copy(test, &b, compact_close(test));
	fetch_evict(test, b.seg);
	first = lsmem_entry_size(104);
	size = lsmem_entry_size(length);
	one = fetch_request(test, &o[1]);
	for (bit = 0; bit < 8 * size; bit++) {
		at = b.log + first + bit / 8;
		KUNIT_ASSERT_EQ(test, get_user(byte, at), 0);
		KUNIT_ASSERT_EQ(test, put_user(byte ^ 1 << bit % 8, at), 0);
		KUNIT_ASSERT_EQ_MSG(test, fetch_fill(test, one.cookie, b.log, lsmem_block_round(b.home), 0),
				    -EBADMSG, "bit %u", bit);
		KUNIT_ASSERT_EQ(test, put_user(byte, at), 0);
	}
	KUNIT_EXPECT_EQ(test, fetch_state(test, &o[1]), LSMEM_WORD_COLD);
	KUNIT_EXPECT_EQ(test, fetch_answer(test, &b, &one), 0);
	KUNIT_EXPECT_STREQ(test, compact_look(test->priv, &o[1]) ?: "", "");
	fetch_balance(test, o, 2);
}

/* ---- Cache segments ------------------------------------------------------ */

/* What was fetched is compacted, and leaves memory again: its word is that from before. */
static void fetch_test_back(struct kunit *test)
{
	const u32 nr = 10, length = LSMEM_OBJECT_MAX - 100;
	struct lsmem_store *store = test->priv;
	struct compact_object o[10] = { };
	struct lsmem_segment *cache;
	struct fetch_backup b[2];
	u64 place[10];
	u32 i;

	fetch_cold(test, &b[0], o, nr / 2, length);
	fetch_cold(test, &b[1], o + nr / 2, nr / 2, length);
	for (i = 0; i < nr; i++) {
		place[i] = lsmem_word_position(fetch_word(test, &o[i]));
		fetch_object(test, &b[i / (nr / 2)], &o[i]);
	}
	fetch_balance(test, o, nr);
	cache = lsmem_segment_of(store, lsmem_word_position(fetch_word(test, &o[0])));
	KUNIT_ASSERT_TRUE(test, lsmem_segment_is_cache(&store->segments, cache->index));
	KUNIT_ASSERT_EQ(test, cache->state, LSMEM_SEGMENT_CLOSED);	/* one is not enough for all */
	for (i = 0; i < nr; i += 2)
		KUNIT_ASSERT_EQ(test, compact_free(store, &o[i]), 0);
	fetch_balance(test, o, nr);

	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	compact_all(test);
	compact_look_all(test, o, nr);
	fetch_balance(test, o, nr);
	KUNIT_EXPECT_GT(test, compact_counters(store).compactions, 0);
	lsmem_compactors_stop(store);

	for (i = 1; i < nr; i += 2) {
		if (lsmem_segment_of(store, lsmem_word_position(fetch_word(test, &o[i]))) == cache)
			break;
	}
	KUNIT_ASSERT_LT(test, i, nr);
	fetch_evict(test, cache);
	for (i = 1; i < nr; i += 2) {
		if (fetch_state(test, &o[i]) == LSMEM_WORD_COLD)
			KUNIT_EXPECT_EQ(test, lsmem_word_position(fetch_word(test, &o[i])), place[i]);
	}
	fetch_balance(test, o, nr);
	KUNIT_EXPECT_EQ(test, fetch_state(test, &o[1]), LSMEM_WORD_COLD);
	fetch_object(test, &b[0], &o[1]);
	fetch_balance(test, o, nr);
}

/*
 * How many blocks an object lies in is known when it leaves the memory of its segment, and when what was fetched leaves memory
 * again: of its size alone two would be guessed.
 */
static void fetch_test_blocks(struct kunit *test)
{
	const u32 length = 1100, size = lsmem_entry_size(length), large = 10, nr = FETCH_NR + large;
	struct compact_object *o = kunit_kcalloc(test, nr, sizeof(*o), GFP_KERNEL);
	struct lsmem_store *store = test->priv;
	u32 at = 0, blocks, two = 0, i;
	struct lsmem_segment *cache;
	struct fetch_backup b[3];
	u64 place[FETCH_NR];

	KUNIT_ASSERT_NOT_NULL(test, o);
	fetch_cold(test, &b[0], o, FETCH_NR, length);
	for (i = 0; i < FETCH_NR; i++) {
		at = lsmem_entry_start(at);
		blocks = DIV_ROUND_UP(at % LSMEM_BLOCK + size, LSMEM_BLOCK);
		two += blocks == 2;
		at += size;
		KUNIT_EXPECT_EQ(test, lsmem_cold_blocks(fetch_word(test, &o[i])), blocks);
		place[i] = lsmem_word_position(fetch_word(test, &o[i]));
		fetch_object(test, &b[0], &o[i]);
	}
	KUNIT_EXPECT_GT(test, two, 0);
	KUNIT_EXPECT_LT(test, two, FETCH_NR);
	/* Until the cache segment is full. */
	fetch_cold(test, &b[1], o + FETCH_NR, large / 2, LSMEM_OBJECT_MAX - 100);
	fetch_cold(test, &b[2], o + FETCH_NR + large / 2, large / 2, LSMEM_OBJECT_MAX - 100);
	for (i = 0; i < large; i++)
		fetch_object(test, &b[1 + i / (large / 2)], &o[FETCH_NR + i]);
	cache = lsmem_segment_of(store, lsmem_word_position(fetch_word(test, &o[0])));
	KUNIT_ASSERT_TRUE(test, lsmem_segment_is_cache(&store->segments, cache->index));
	KUNIT_ASSERT_EQ(test, cache->state, LSMEM_SEGMENT_CLOSED);
	fetch_evict(test, cache);
	for (i = 0; i < FETCH_NR; i++) {
		KUNIT_ASSERT_EQ(test, fetch_state(test, &o[i]), LSMEM_WORD_COLD);
		KUNIT_EXPECT_EQ(test, lsmem_word_position(fetch_word(test, &o[i])), place[i]);
		fetch_object(test, &b[0], &o[i]);
	}
	fetch_balance(test, o, nr);
}

/* ---- Missing seglets ------------------------------------------------------ */

/*
 * With one free seglet too few a segment cannot be compacted, and nothing would ever free one: all
 * objects leave it, those that were just read too.
 */
static void fetch_test_starved(struct kunit *test)
{
	const u32 nr = 5, length = LSMEM_OBJECT_MAX - 100;
	struct lsmem_store *store = test->priv;
	struct compact_object o[5] = { };
	struct fetch_backup b;
	u32 i, taken, needed;

	for (i = 0; i < nr; i++)
		compact_put(test, &o[i], length);
	fetch_copy(test, &b, compact_close(test));
	KUNIT_ASSERT_EQ(test, compact_free(store, &o[0]), 0);
	needed = lsmem_packed_seglets(atomic_read(b.seg->live));
	KUNIT_ASSERT_LT(test, needed, b.seg->nr_seglets);
	bitmap_fill(store->tier.touched, store->handles.nr);
	taken = lsmem_test_take_seglets(store, needed + COMPACT_KEPT - 1);
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	compact_ask(store, COMPACT_ALL);
	compact_await(test, !READ_ONCE(b.seg->nr_seglets));
	lsmem_compactors_stop(store);
	for (i = 1; i < nr; i++)
		KUNIT_EXPECT_EQ(test, fetch_state(test, &o[i]), LSMEM_WORD_COLD);
	lsmem_test_put_seglets(store, taken);
	for (i = 1; i < nr; i++)
		fetch_object(test, &b, &o[i]);
	compact_look_all(test, o, nr);
	fetch_balance(test, o, nr);
}

/* ---- Placing ------------------------------------------------------------- */

/* A placement with an entry that is not valid: those before it are there, and are counted. */
static void fetch_test_place(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_directory_entry listings[3] = { };
	struct lsmem_placement place = {
		.segment = 1000, .generation = 1, .sealed = LSMEM_BLOCK,
		.entries = (uintptr_t)fetch_room, .nr = ARRAY_SIZE(listings),
	};
	struct compact_object o[2] = { };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(listings); i++)
		listings[i] = (struct lsmem_directory_entry){
			.key = cpu_to_le64(lsmem_handle_make(i, 1)),
			.version = cpu_to_le64(1 + i),
			.meta = cpu_to_le64(lsmem_listing_make(100, LSMEM_TYPE_OBJECT, 200 * i, 0, 0)),
		};
	listings[2].key = cpu_to_le64(lsmem_handle_make(1000, 1));	/* no such index */
	KUNIT_ASSERT_EQ(test, copy_to_user(fetch_room, listings, sizeof(listings)), 0);
	store->state = LSMEM_STATE_NEW;
	KUNIT_EXPECT_EQ(test, lsmem_load_place(store, &place), -EINVAL);
	for (i = 0; i < ARRAY_SIZE(o); i++)
		o[i] = (struct compact_object){ .handle = lsmem_handle_make(i, 1), .length = 100 };
	KUNIT_EXPECT_EQ(test, fetch_state(test, &o[1]), LSMEM_WORD_COLD);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), 2 * lsmem_entry_size(100));
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->handles.used), 2);
	fetch_balance(test, o, 2);
}

/* A call for one listing. */
static int fetch_place_one(struct kunit *test, struct lsmem_placement *place, u64 handle, u64 version, u32 home)
{
	struct lsmem_directory_entry listing = {
		cpu_to_le64(handle), cpu_to_le64(version),
		cpu_to_le64(lsmem_listing_make(100, LSMEM_TYPE_OBJECT, home, 0, 0)),
	};

	place->entries = (uintptr_t)fetch_room;
	place->nr = 1;
	KUNIT_ASSERT_EQ(test, copy_to_user(fetch_room, &listing, sizeof(listing)), 0);
	return lsmem_load_place(test->priv, place);
}

static int fetch_place_flags(struct kunit *test, const struct lsmem_placement *place, u32 flags, u64 handle, u32 home)
{
	struct lsmem_placement other = *place;

	other.flags = flags;
	return fetch_place_one(test, &other, handle, 1, home);
}

static int fetch_gone(struct kunit *test, const struct lsmem_placement *place)
{
	struct lsmem_placement gone = *place;

	gone.flags = LSMEM_PLACEMENT_GONE;
	gone.nr = 0;
	return lsmem_load_place(test->priv, &gone);
}

/* What was placed is taken back exactly, and only that. */
static void fetch_test_place_back(struct kunit *test)
{
	struct lsmem_placement a = { .segment = 1000, .generation = 1, .sealed = 3 * LSMEM_BLOCK };
	struct lsmem_placement b = { .segment = 1001, .generation = 1, .sealed = LSMEM_BLOCK };
	struct compact_object o = { .handle = lsmem_handle_make(3, 5), .length = 100 };
	const u32 back = LSMEM_PLACEMENT_BACK, size = lsmem_entry_size(100);
	struct lsmem_store *store = test->priv;
	u64 wrong = lsmem_handle_make(4, 5);

	store->state = LSMEM_STATE_NEW;
	KUNIT_EXPECT_EQ(test, fetch_place_flags(test, &a, back, o.handle, 0), -ENOENT);
	KUNIT_EXPECT_EQ(test, fetch_place_one(test, &a, o.handle, 7, LSMEM_BLOCK), 0);
	KUNIT_EXPECT_EQ(test, fetch_place_one(test, &a, o.handle, 8, 2 * LSMEM_BLOCK), -EINVAL);
	KUNIT_EXPECT_EQ(test, fetch_place_one(test, &b, o.handle, 8, 0), -EINVAL);
	/* Another object, block, segment; what cannot be. */
	KUNIT_EXPECT_EQ(test, fetch_place_flags(test, &a, back, wrong, LSMEM_BLOCK), -EINVAL);
	KUNIT_EXPECT_EQ(test, fetch_place_flags(test, &a, back, o.handle, 2 * LSMEM_BLOCK), -EINVAL);
	KUNIT_EXPECT_EQ(test, fetch_place_flags(test, &b, back, o.handle, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, fetch_place_flags(test, &a, back, o.handle, 3 * LSMEM_BLOCK), -EINVAL);
	KUNIT_EXPECT_EQ(test, fetch_place_flags(test, &a, back | LSMEM_PLACEMENT_GONE, o.handle, LSMEM_BLOCK), -EINVAL);
	KUNIT_EXPECT_EQ(test, fetch_place_flags(test, &a, 4, o.handle, LSMEM_BLOCK), -EINVAL);
	KUNIT_EXPECT_EQ(test, fetch_state(test, &o), LSMEM_WORD_COLD);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), size);
	fetch_balance(test, &o, 1);

	KUNIT_EXPECT_EQ(test, fetch_place_flags(test, &a, back, o.handle, LSMEM_BLOCK), 0);
	KUNIT_EXPECT_EQ(test, fetch_state(test, &o), LSMEM_WORD_FREE);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), 0);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->handles.used), 0);
	fetch_balance(test, &o, 1);
	KUNIT_EXPECT_EQ(test, fetch_place_flags(test, &a, back, o.handle, LSMEM_BLOCK), -EINVAL);
	/* The generation that it had, or a later one, elsewhere; none that is older. */
	KUNIT_EXPECT_EQ(test, fetch_place_one(test, &b, lsmem_handle_make(3, 4), 9, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, fetch_place_one(test, &b, o.handle, 8, 0), 0);
	KUNIT_EXPECT_EQ(test, fetch_place_flags(test, &b, back, o.handle, 0), 0);
	KUNIT_EXPECT_EQ(test, fetch_place_one(test, &a, lsmem_handle_make(3, 6), 9, 0), 0);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->handles.used), 1);
	fetch_balance(test, &o, 1);
}

/* Segments grow, come in any order, and go. */
static void fetch_test_place_segments(struct kunit *test)
{
	struct lsmem_placement a = { .segment = 1000, .generation = 1, .sealed = LSMEM_BLOCK };
	struct lsmem_placement b = { .segment = 990, .generation = 1, .sealed = LSMEM_BLOCK };
	struct lsmem_load load = { .segment = 990, .generation = 1, .sealed = 2 * LSMEM_BLOCK };
	struct lsmem_store *store = test->priv;
	u64 handle = lsmem_handle_make(3, 5);

	store->state = LSMEM_STATE_NEW;
	KUNIT_EXPECT_EQ(test, fetch_place_one(test, &a, handle, 7, LSMEM_BLOCK), -EINVAL);
	a.sealed = 2 * LSMEM_BLOCK;
	KUNIT_EXPECT_EQ(test, fetch_place_one(test, &a, handle, 7, LSMEM_BLOCK), 0);
	a.sealed = LSMEM_BLOCK;
	KUNIT_EXPECT_EQ(test, fetch_place_one(test, &a, lsmem_handle_make(4, 5), 7, 0), -EINVAL);
	a.sealed = 2 * LSMEM_BLOCK;
	a.generation = 2;
	KUNIT_EXPECT_EQ(test, fetch_place_one(test, &a, lsmem_handle_make(4, 5), 7, 0), -EINVAL);
	a.generation = 1;
	/* One that is older: a load makes it, or a call without an object, with which it grows, too. */
	load.segment = 980;
	KUNIT_EXPECT_EQ(test, lsmem_load(store, &load), 0);
	b.sealed = 0;
	KUNIT_EXPECT_EQ(test, lsmem_load_place(store, &b), 0);
	KUNIT_EXPECT_EQ(test, fetch_place_one(test, &b, lsmem_handle_make(5, 5), 7, LSMEM_BLOCK), -EINVAL);
	b.sealed = LSMEM_BLOCK;
	b.nr = 0;
	KUNIT_EXPECT_EQ(test, lsmem_load_place(store, &b), 0);
	b.sealed = 0;
	KUNIT_EXPECT_EQ(test, lsmem_load_place(store, &b), -EINVAL);
	b.sealed = LSMEM_BLOCK;
	b.flags = LSMEM_PLACEMENT_BACK;
	KUNIT_EXPECT_EQ(test, lsmem_load_place(store, &b), -EINVAL);
	b.flags = 0;
	KUNIT_EXPECT_EQ(test, fetch_place_one(test, &b, lsmem_handle_make(5, 5), 7, 0), 0);
	/* A load goes on with it once. */
	load.segment = 990;
	KUNIT_EXPECT_TRUE(test, store->segments.unordered);
	KUNIT_EXPECT_EQ(test, store->segments.next_id, 1001);
	KUNIT_EXPECT_EQ(test, store->segments.barrier, 1001);
	load.sealed = LSMEM_BLOCK;
	KUNIT_EXPECT_EQ(test, lsmem_load(store, &load), 0);
	load.sealed = 2 * LSMEM_BLOCK;
	KUNIT_EXPECT_EQ(test, lsmem_load(store, &load), -EINVAL);

	KUNIT_EXPECT_EQ(test, fetch_gone(test, &a), -EBUSY);
	KUNIT_EXPECT_EQ(test, fetch_place_flags(test, &a, LSMEM_PLACEMENT_BACK, handle, LSMEM_BLOCK), 0);
	a.generation = 2;
	KUNIT_EXPECT_EQ(test, fetch_gone(test, &a), -EINVAL);
	a.generation = 1;
	KUNIT_EXPECT_EQ(test, fetch_gone(test, &a), 0);
	KUNIT_EXPECT_EQ(test, fetch_gone(test, &a), -ENOENT);
	KUNIT_EXPECT_EQ(test, store->segments.next_id, 1001);
	KUNIT_EXPECT_EQ(test, fetch_place_one(test, &a, handle, 7, LSMEM_BLOCK), 0);
}

static struct kunit_case fetch_cases[] = {
	KUNIT_CASE(fetch_test_twice),
	KUNIT_CASE(fetch_test_not_taken),
	KUNIT_CASE(fetch_test_ahead),
	KUNIT_CASE(fetch_test_misses),
	KUNIT_CASE(fetch_test_through),
	KUNIT_CASE_PARAM(fetch_test_race, fetch_race_gen_params),
	KUNIT_CASE(fetch_test_race_error),
	KUNIT_CASE(fetch_test_wait),
	KUNIT_CASE(fetch_test_nowhere),
	KUNIT_CASE(fetch_test_stop),
	KUNIT_CASE_PARAM(fetch_test_older, fetch_older_gen_params),
	KUNIT_CASE_PARAM(fetch_test_cut, fetch_cut_gen_params),
	KUNIT_CASE(fetch_test_flip),
	KUNIT_CASE(fetch_test_back),
	KUNIT_CASE(fetch_test_blocks),
	KUNIT_CASE(fetch_test_starved),
	KUNIT_CASE(fetch_test_place),
	KUNIT_CASE(fetch_test_place_back),
	KUNIT_CASE(fetch_test_place_segments),
	{}
};

static struct kunit_suite fetch_suite = {
	.name = "lsmem-fetch",
	.init = fetch_init,
	.exit = compact_exit,
	.test_cases = fetch_cases,
};

kunit_test_suites(&fetch_suite);
