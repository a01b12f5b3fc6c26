// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: compaction, with the compactors of the module.  A test asks for compaction as a user does
 * through sysfs, waits until the compactors have done it or have nothing to do, and reads every
 * object by its handle.
 *
 * A model predicts the place of each entry: the live entries follow one another in their old order,
 * and no header crosses two seglets.
 */
#include <linux/kthread.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "compaction.h"
#include "fixture.h"
#include "../balance.h"
#include "../clean.h"
#include "../compact.h"
#include "../epoch.h"
#include "../load.h"
#include "../object.h"
#include "../retire.h"

#define COMPACT_READING	(HZ / 10)	/* longer than a grace period */

/* The smallest store, for the test with a cleaner, which frees segments. */
static const struct lsmem_test_shape compact_race_shape = {
	.segments = 16, .heads = 3, .handles = COMPACT_OBJECTS,
};

static int compact_race_init(struct kunit *test)
{
	compact_store(test, &compact_race_shape, LSMEM_CLEANER_RESERVE);
	KUNIT_ASSERT_EQ(test, lsmem_cleaner_init(test->priv), 0);
	return 0;
}

/*
 * Ask for compaction, and wait until the only compactor has tried.  Each decision shows its time,
 * and the compactor decides again only when it has finished its victim.
 */
static void compact_try(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	u32 i;

	compact_ask(store, COMPACT_ALL);
	for (i = 0; i < 3; i++) {
		u64 time = READ_ONCE(store->segments.shown->store_time);

		compact_await(test, READ_ONCE(store->segments.shown->store_time) != time);
	}
}

/* ---- A segment after compaction ----------------------------------------- */

/*
 * @seg holds the objects of @o that were written to it and not freed, in the order of @o and at the
 * places that the model predicts, and nothing else.
 */
static void compact_check(struct kunit *test, struct lsmem_segment *seg,
			  struct compact_object *o, u32 nr)
{
	struct lsmem_store *store = test->priv;
	u32 end = 0, live = 0, i;

	for (i = 0; i < nr; i++) {
		u32 at = lsmem_entry_start(end);
		struct lsmem_entry e;
		u64 word;

		if (!o[i].handle || o[i].seg != seg)
			continue;
		KUNIT_ASSERT_LT(test, at, seg->committed);
		word = compact_handle(store, &o[i])->word;
		KUNIT_EXPECT_EQ(test, lsmem_word_state(word), LSMEM_WORD_LIVE);
		KUNIT_EXPECT_EQ(test, lsmem_word_position(word), lsmem_segment_position(seg, at));
		KUNIT_EXPECT_PTR_EQ(test, lsmem_segment_of(store, lsmem_word_position(word)), seg);
		lsmem_test_read(store, seg, at, &e, sizeof(e));
		KUNIT_EXPECT_EQ(test, memcmp(&e, &o[i].e, lsmem_entry_header(&o[i].e)), 0);
		KUNIT_EXPECT_TRUE(test, lsmem_entry_valid(&e, lsmem_test_payload(o[i].key),
							  seg->salt));
		KUNIT_EXPECT_STREQ(test, compact_look(store, &o[i]) ?: "", "");
		o[i].word = word;
		end = at + lsmem_entry_size(o[i].length);
		live += lsmem_entry_size(o[i].length);
	}
	KUNIT_EXPECT_EQ(test, seg->committed, end);
	KUNIT_EXPECT_EQ(test, seg->reserved, end);
	KUNIT_EXPECT_EQ(test, seg->nr_seglets, DIV_ROUND_UP(end, LSMEM_SEGLET_BYTES));
	KUNIT_EXPECT_EQ(test, seg->stat->held, seg->nr_seglets * LSMEM_SEGLET_BYTES);
	KUNIT_EXPECT_EQ(test, atomic_read(seg->live), live);
}

/*
 * Compaction moves entries to places where some bytes of a seglet remain, or to the beginning of a
 * seglet; the entries end within the next seglet, at its end, or in a later one.  Before, every
 * other entry is at the beginning of a seglet.  Then half of the entries are freed, and compaction
 * runs again: now no entry is at its home any more.
 */
static void compact_test_seams(struct kunit *test)
{
	static const u32 lefts[] = { 0, 8, 24, 32, 40, LSMEM_SEGLET_BYTES - 32 };
	static const u32 lengths[] = { 1, 2047, 2048, LSMEM_SEGLET_BYTES - 32, LSMEM_SEGLET_BYTES,
				       2 * LSMEM_SEGLET_BYTES - 32 };
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	u32 nr = 0, end = 0, old, free, i, j;
	struct compact_before before;
	struct lsmem_segment *seg;

	for (i = 0; i < ARRAY_SIZE(lefts); i++) {
		for (j = 0; j < ARRAY_SIZE(lengths); j++) {
			u32 length = lsmem_test_seek(end, lefts[i]);

			seg = store->heads.table[COMPACT_HEAD].segment;
			compact_garbage(test, lsmem_test_seek(seg ? seg->reserved : 0, 0));
			compact_put(test, &o[nr++], length);
			end = lsmem_entry_start(end) + lsmem_entry_size(length);
			KUNIT_ASSERT_EQ(test, -end % LSMEM_SEGLET_BYTES, lefts[i]);
			compact_garbage(test, 1 + 100 * (i + j));
			compact_put(test, &o[nr++], lengths[j]);
			end = lsmem_entry_start(end) + lsmem_entry_size(lengths[j]);
		}
	}
	seg = compact_close(test);
	KUNIT_ASSERT_PTR_EQ(test, o[0].seg, seg);
	before = compact_before(seg);
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	for (i = 0; i < 2; i++) {
		old = seg->nr_seglets;
		free = store->seglets.nr_free;
		compact_all(test);
		KUNIT_EXPECT_EQ(test, compact_counters(store).compactions, i + 1);
		compact_unchanged(test, seg, &before);
		compact_check(test, seg, o, nr);
		KUNIT_EXPECT_LT(test, seg->nr_seglets, old);
		KUNIT_EXPECT_EQ(test, store->seglets.nr_free, free + old - seg->nr_seglets);
		compact_check_seglets(test);
		for (j = 0; j < nr; j += 2)
			if (!i)
				KUNIT_ASSERT_EQ(test, compact_free(store, &o[j]), 0);
	}
}

/* Entries of random sizes in several segments; each round frees some and compacts. */
static void compact_test_random(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg[6];
	struct compact_before before[6];
	struct rnd_state random;
	u32 nr = 0, round, i;
	u64 packed[6];

	lsmem_test_seed(test, &random);
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	for (round = 0; round < 12; round++) {
		for (i = 0; round < ARRAY_SIZE(seg) && i < 100; i++) {
			u32 dice = lsmem_test_below(&random, 20);

			compact_put(test, &o[nr++],
				    1 + lsmem_test_below(&random, dice == 0 ? 300000 :
								  dice < 5 ? 70000 : 3000));
		}
		if (round < ARRAY_SIZE(seg)) {
			seg[round] = compact_close(test);
			before[round] = compact_before(seg[round]);
		}
		for (i = 0; i < nr; i++)
			if (o[i].handle && !lsmem_test_below(&random, 4))
				KUNIT_ASSERT_EQ(test, compact_free(store, &o[i]), 0);
		for (i = 0; i < min(round + 1, 6u); i++)
			packed[i] = seg[i]->packed_time;
		compact_all(test);
		compact_look_all(test, o, nr);
		for (i = 0; i < min(round + 1, 6u); i++) {
			compact_unchanged(test, seg[i], &before[i]);
			/* A segment with less than a seglet to gain is unchanged. */
			if (seg[i]->packed_time != packed[i])
				compact_check(test, seg[i], o, nr);
		}
		compact_check_seglets(test);
	}
	KUNIT_EXPECT_GT(test, compact_counters(store).compactions, 12);
}

/* A segment without live entries keeps its id but no seglet; there is no more to gain. */
static void compact_test_empty(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = compact_fill(test, o, 200, 1000), *oldest;
	struct compact_before before = compact_before(seg);
	u32 free = store->seglets.nr_free, held = seg->nr_seglets, i;

	for (i = 0; i < 200; i++)
		KUNIT_ASSERT_EQ(test, compact_free(store, &o[i]), 0);
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	for (i = 0; i < 2; i++) {
		compact_all(test);
		compact_unchanged(test, seg, &before);
		compact_check(test, seg, o, 0);
		KUNIT_EXPECT_EQ(test, seg->nr_seglets, 0);
		KUNIT_EXPECT_EQ(test, store->seglets.nr_free, free + held);
		KUNIT_EXPECT_EQ(test, compact_counters(store).compactions, 1);
	}
	/* The segment still has its entries on backups, so tombstones are kept for it. */
	spin_lock(&store->segments.lock);
	oldest = lsmem_log_oldest(store, NULL, 0);
	spin_unlock(&store->segments.lock);
	KUNIT_EXPECT_PTR_EQ(test, oldest, seg);
}

/* ---- Readers of vacated seglets ----------------------------------------- */

static const struct compact_view_case {
	const char *name;
	bool revoked;
} compact_views[] = {
	{ "the view ends", false },
	{ "the view is revoked", true },
};

static void compact_view_desc(const struct compact_view_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(compact_view, compact_views, compact_view_desc);

/* Vacated seglets stay unchanged for a view that began before, and are free when it has ended. */
static void compact_test_view(struct kunit *test)
{
	const struct compact_view_case *param = test->param_value;
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = compact_fill(test, o, 300, 1000);
	struct lsmem_client *client = lsmem_client_new(store);
	u32 held = seg->nr_seglets, free = store->seglets.nr_free, i;

	KUNIT_ASSERT_NOT_NULL(test, client);
	KUNIT_ASSERT_EQ(test, lsmem_client_map(client), 0);
	store->views.view_ms = 3600 * MSEC_PER_SEC;
	client->slots[3].epoch = store->views.info->epoch;
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	compact_ask(store, COMPACT_ALL);
	compact_await(test, !compact_busy(store));
	KUNIT_EXPECT_EQ(test, compact_ring(store), 1);
	/* A compactor has seen the view. */
	compact_await(test, READ_ONCE(client->seen[3].value) == client->slots[3].epoch);
	KUNIT_EXPECT_LT(test, seg->nr_seglets, held);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, free - seg->nr_seglets);
	KUNIT_EXPECT_EQ(test, store->compaction.vacating, held);
	for (i = 0; i < 300; i++) {
		u64 position = lsmem_word_position(o[i].word);

		KUNIT_EXPECT_EQ(test, memcmp(lsmem_word_entry(&store->seglets, o[i].word), &o[i].e,
					     lsmem_entry_header(&o[i].e)), 0);
		KUNIT_EXPECT_TRUE(test, compact_same(store, position, o[i].key, o[i].length));
	}
	compact_check(test, seg, o, 300);

	if (param->revoked) {
		/* The time of a view runs from the kernel's first look at the slot. */
		store->views.view_ms = 1;
		compact_await(test, READ_ONCE(client->slots[3].epoch) == LSMEM_SLOT_REVOKED);
	} else {
		/* A view that begins now does not keep the seglets. */
		client->slots[4].epoch = store->views.info->epoch;
		client->slots[3].epoch = LSMEM_SLOT_IDLE;
	}
	compact_await(test, !compact_ring(store));
	compact_await(test, !READ_ONCE(store->compaction.vacating));
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, free + held - seg->nr_seglets);
	KUNIT_EXPECT_EQ(test, compact_counters(store).views_revoked, param->revoked);
	compact_check_seglets(test);
	compact_look_all(test, o, 300);
}

/* A reader in the kernel; it holds rcu_read_lock() until @leave. */
struct compact_reader {
	struct completion in;
	bool leave;
};

static int compact_reader(void *data)
{
	struct compact_reader *reader = data;

	rcu_read_lock();
	complete(&reader->in);
	while (!READ_ONCE(reader->leave))
		cpu_relax();
	rcu_read_unlock();
	return 0;
}

/* Vacated seglets also stay for a reader in the kernel that began before. */
static void compact_test_reader(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = compact_fill(test, o, 300, 1000);
	u32 held = seg->nr_seglets, free = store->seglets.nr_free, i;
	struct compact_reader reader = { };
	struct task_struct *task;

	if (num_online_cpus() < 2)
		kunit_skip(test, "the reader needs a CPU of its own");
	init_completion(&reader.in);
	task = kthread_run(compact_reader, &reader, "lsmem-reader");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	wait_for_completion(&reader.in);
	KUNIT_EXPECT_EQ(test, lsmem_test_compactors(store), 0);
	compact_ask(store, COMPACT_ALL);
	/* No assertion may end the test while the reader uses the test's stack. */
	for (i = 0; i < COMPACT_BOUND && compact_busy(store); i++)
		schedule_timeout_uninterruptible(1);
	schedule_timeout_uninterruptible(COMPACT_READING);
	KUNIT_EXPECT_EQ(test, compact_ring(store), 1);
	KUNIT_EXPECT_EQ(test, store->compaction.vacating, held);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, free - seg->nr_seglets);
	for (i = 0; i < 300; i++)
		KUNIT_EXPECT_EQ(test, memcmp(lsmem_word_entry(&store->seglets, o[i].word), &o[i].e,
					     lsmem_entry_header(&o[i].e)), 0);
	WRITE_ONCE(reader.leave, true);
	compact_await(test, !compact_ring(store));
	compact_await(test, !READ_ONCE(store->compaction.vacating));
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, free + held - seg->nr_seglets);
	compact_check(test, seg, o, 300);
	compact_check_seglets(test);
}

static const u32 compact_rings[] = { LSMEM_VACATED - LSMEM_COMPACTORS,
				     LSMEM_VACATED - LSMEM_COMPACTORS + 1 };

static void compact_ring_desc(const u32 *param, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u wait", *param);
}

KUNIT_ARRAY_PARAM(compact_ring, compact_rings, compact_ring_desc);

/* If the ring of vacated runs is full, no compaction begins. */
static void compact_test_ring(struct kunit *test)
{
	u32 wait = *(const u32 *)test->param_value, i;
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = compact_fill(test, o, 300, 1000);
	struct lsmem_client *client = lsmem_client_new(store);
	bool room = wait + LSMEM_COMPACTORS <= LSMEM_VACATED;
	u32 free = store->seglets.nr_free, held = seg->nr_seglets;
	u64 epoch;

	KUNIT_ASSERT_NOT_NULL(test, client);
	KUNIT_ASSERT_EQ(test, lsmem_client_map(client), 0);
	store->views.view_ms = 3600 * MSEC_PER_SEC;
	client->slots[0].epoch = store->views.info->epoch;
	epoch = lsmem_epoch_advance(store);
	for (i = 0; i < wait; i++) {
		int seglet = lsmem_seglet_get(&store->seglets, seg->index, LSMEM_TAKER_CLEANER);

		KUNIT_ASSERT_GE(test, seglet, 0);
		store->compaction.vacated[i] = (struct lsmem_vacated){
			.first = seglet, .nr = 1, .epoch = epoch,
			.rcu = get_state_synchronize_rcu(),
		};
	}
	store->compaction.next = wait;
	store->compaction.vacating = wait;
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	if (room) {
		compact_ask(store, COMPACT_ALL);
		compact_await(test, !compact_busy(store));
		KUNIT_EXPECT_EQ(test, compact_ring(store), wait + 1);
	} else {
		compact_try(test);
		KUNIT_EXPECT_EQ(test, compact_ring(store), wait);
		KUNIT_EXPECT_EQ(test, seg->nr_seglets, held);
		KUNIT_EXPECT_EQ(test, store->seglets.nr_free, free - wait);
		for (i = 0; i < 300; i++)
			KUNIT_EXPECT_EQ(test, compact_handle(store, &o[i])->word, o[i].word);
	}
	KUNIT_EXPECT_EQ(test, compact_counters(store).compactions, room);
	client->slots[0].epoch = LSMEM_SLOT_IDLE;
	compact_await(test, !compact_busy(store));
	compact_await(test, !compact_ring(store));
	compact_await(test, !READ_ONCE(store->compaction.vacating));
	compact_check(test, seg, o, 300);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, free + held - seg->nr_seglets);
	compact_check_seglets(test);
}

/* ---- Missing seglets ---------------------------------------------------- */

/* With one free seglet too few nothing changes.  With one more the segment is compacted. */
static void compact_test_seglets(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = compact_fill(test, o, 300, 1000);
	struct compact_before before = compact_before(seg);
	u32 needed = lsmem_packed_seglets(atomic_read(seg->live)), held = seg->nr_seglets, taken, i;

	KUNIT_ASSERT_LT(test, needed, held);
	taken = lsmem_test_take_seglets(store, needed + COMPACT_KEPT - 1);
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	compact_try(test);
	KUNIT_EXPECT_EQ(test, compact_counters(store).compactions, 0);
	KUNIT_EXPECT_EQ(test, seg->nr_seglets, held);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, needed + COMPACT_KEPT - 1);
	for (i = 0; i < 300; i++)
		KUNIT_EXPECT_EQ(test, compact_handle(store, &o[i])->word, o[i].word);
	compact_look_all(test, o, 300);

	lsmem_test_put_seglets(store, 1);
	compact_all(test);
	KUNIT_EXPECT_EQ(test, compact_counters(store).compactions, 1);
	compact_unchanged(test, seg, &before);
	compact_check(test, seg, o, 300);
	lsmem_test_put_seglets(store, taken - 1);
	compact_check_seglets(test);
}

/* ---- The cleaner --------------------------------------------------------- */

/*
 * Short and long entries on both sides of the boundary between them, with all intervals.  They are
 * compacted, cleaned, and what the cleaner has written is compacted and cleaned again.
 */
static void compact_test_boundary(struct kunit *test)
{
	static const u32 lengths[] = { 1, 7, 8, 9, 2040, 2046, 2047, 2048, 2049, 4096 };
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	const u32 nr = 2 * 5 * ARRAY_SIZE(lengths);
	u32 live = 0, round, i;
	struct lsmem_segment *seg[2];
	u64 ids[2];

	compact_cleaner(test);
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	for (i = 0; i < nr; i++) {
		compact_put(test, &o[i], lengths[i % ARRAY_SIZE(lengths)]);
		compact_garbage(test, i % 2 ? 2000 : 3000);
		live += (o[i].length < 2048 ? 24 : 32) + ALIGN(o[i].length, 8);
		if (i + 1 == nr / 2)
			seg[0] = compact_close(test);
	}
	seg[1] = compact_close(test);
	KUNIT_EXPECT_EQ(test, atomic_read(seg[0]->live) + atomic_read(seg[1]->live), live);
	compact_all(test);
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, seg[i]->nr_seglets,
				DIV_ROUND_UP(seg[i]->committed, LSMEM_SEGLET_BYTES));
		compact_check(test, seg[i], o, nr);
		ids[i] = seg[i]->id;
	}
	for (round = 0; round < 2; round++) {
		struct lsmem_head *head = &store->heads.table[LSMEM_CLEANER_HEAD];

		/* Less than a seglet is to be gained otherwise. */
		for (i = round; i < nr; i += 5)
			if (o[i].handle) {
				live -= lsmem_entry_size(o[i].length);
				KUNIT_ASSERT_EQ(test, compact_free(store, &o[i]), 0);
			}
		compact_clean(test, ids, round ? 1 : 2);
		for (i = 0; i < 2; i++)
			KUNIT_EXPECT_FALSE(test, compact_cleanable(store, ids[i]));
		KUNIT_EXPECT_EQ(test, store->cleaner.stats.passes, 1 + round);
		compact_look_all(test, o, nr);
		seg[0] = head->segment;
		KUNIT_EXPECT_EQ(test, atomic_read(seg[0]->live), live);
		KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), live);
		KUNIT_EXPECT_EQ(test, seg[0]->committed, seg[0]->reserved);
		/* Garbage, so that something is to be gained; a survivor like any other segment. */
		lsmem_test_list_spares(store);
		for (i = 0; i < 40; i++) {
			struct compact_object garbage;

			KUNIT_ASSERT_EQ(test, lsmem_handle_alloc(store, &garbage.handle), 0);
			KUNIT_ASSERT_EQ(test, compact_write(store, LSMEM_CLEANER_HEAD, &garbage,
							    garbage.handle, 5000), 0);
			KUNIT_ASSERT_EQ(test, compact_free(store, &garbage), 0);
		}
		KUNIT_ASSERT_EQ(test, lsmem_head_roll(store, LSMEM_CLEANER_HEAD), 0);
		if (round) {
			compact_all(test);
			compact_look_all(test, o, nr);
			KUNIT_EXPECT_EQ(test, seg[0]->nr_seglets,
					DIV_ROUND_UP(seg[0]->committed, LSMEM_SEGLET_BYTES));
		}
		ids[0] = seg[0]->id;
	}
	for (i = 0; i < nr; i += 2)
		if (o[i].handle)
			KUNIT_ASSERT_EQ(test, compact_free(store, &o[i]), 0);
	compact_clean(test, ids, 1);
	compact_look_all(test, o, nr);
	compact_check_seglets(test);
}

static const struct compact_order_case {
	const char *name;
	u32 order;
} compact_orders[] = {
	{ "coldest first", LSMEM_SURVIVORS_COLDNESS },
	{ "oldest first", LSMEM_SURVIVORS_AGE },
};

static void compact_order_desc(const struct compact_order_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(compact_order, compact_orders, compact_order_desc);

/* How cold the entry of a survivor is, but for a constant, in units of store time. */
static s64 compact_coldness(const struct lsmem_entry *e, u32 order)
{
	u32 interval = order == LSMEM_SURVIVORS_COLDNESS ? lsmem_entry_interval(e) : 0;

	return (interval ? 1ll << (interval - 1 + LSMEM_INTERVAL_SHIFT) : 0) -
	       (s64)lsmem_version_time(lsmem_entry_version(e));
}

/* The cleaner writes the survivors of several segments coldest first, or oldest first. */
static void compact_test_order(struct kunit *test)
{
	const struct compact_order_case *param = test->param_value;
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	u32 nr = 0, found = 0, younger = 0, offset = 0, i;
	const struct lsmem_segment *survivor;
	struct rnd_state random;
	s64 last = S64_MAX;
	u64 time = 0;
	u64 ids[3];

	lsmem_test_seed(test, &random);
	compact_cleaner(test);
	store->plan.limits.survivors = param->order;
	store->clock = 1ull << 44;
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		u32 end = nr + 200;

		for (; nr < end; nr++) {
			/* The key has the interval: 0, unknown, to 24. */
			u64 key = 32 * nr + lsmem_test_below(&random, 25);

			lsmem_test_list_spares(store);
			store->clock += lsmem_test_below(&random, 1 << 20);
			KUNIT_ASSERT_EQ(test, lsmem_handle_alloc(store, &o[nr].handle), 0);
			KUNIT_ASSERT_EQ(test, compact_write(store, COMPACT_HEAD, &o[nr], key,
							    1 + lsmem_test_below(&random, 4000)),
					0);
			compact_garbage(test, 2000);
		}
		ids[i] = compact_close(test)->id;
	}
	compact_clean(test, ids, ARRAY_SIZE(ids));
	survivor = store->heads.table[LSMEM_CLEANER_HEAD].segment;
	KUNIT_ASSERT_NOT_NULL(test, survivor);
	while ((offset = lsmem_entry_start(offset)) < survivor->committed) {
		struct lsmem_entry e;
		s64 coldness;

		lsmem_test_read(store, survivor, offset, &e, sizeof(e));
		KUNIT_ASSERT_EQ(test, lsmem_entry_type(&e), LSMEM_TYPE_OBJECT);
		coldness = compact_coldness(&e, param->order);
		/* The cleaner counts ages in units of an interval, or exactly. */
		KUNIT_EXPECT_LE(test, coldness - (param->order == LSMEM_SURVIVORS_COLDNESS ?
						  1 << LSMEM_INTERVAL_SHIFT : 0), last);
		last = coldness;
		younger += lsmem_version_time(lsmem_entry_version(&e)) < time;
		time = lsmem_version_time(lsmem_entry_version(&e));
		offset += lsmem_entry_bytes(&e);
		found++;
	}
	KUNIT_EXPECT_EQ(test, found, nr);
	/* The two orders are not the same. */
	if (param->order == LSMEM_SURVIVORS_COLDNESS)
		KUNIT_EXPECT_GT(test, younger, nr / 10);
	else
		KUNIT_EXPECT_EQ(test, younger, 0);
	compact_look_all(test, o, nr);
}

/* ---- Tombstones ----------------------------------------------------- */

/* Get the barriers of the tombstones in a segment, in order. Returns their number. */
static u32 compact_barriers(struct lsmem_store *store, const struct lsmem_segment *seg,
			    u64 *barriers, u32 most)
{
	u32 offset = 0, nr = 0;

	while ((offset = lsmem_entry_start(offset)) < seg->committed) {
		struct lsmem_entry e;

		lsmem_test_read(store, seg, offset, &e, sizeof(e));
		if (!lsmem_entry_sane(&e) || lsmem_entry_bytes(&e) > seg->committed - offset)
			return ~0u;
		if (lsmem_entry_type(&e) == LSMEM_TYPE_TOMBSTONE && nr < most) {
			if (!lsmem_entry_valid(&e, NULL, seg->salt))
				return ~0u;
			barriers[nr++] = lsmem_entry_value(&e);
		}
		offset += lsmem_entry_bytes(&e);
	}
	return nr;
}

/*
 * Compaction drops a tombstone when no segment below its barrier is left, and keeps any other bit
 * for bit.  The fields that describe the segment on backups do not change.
 */
static void compact_test_tombstones(struct kunit *test)
{
	const u32 size = 32;	/* a tombstone has no payload */
	struct lsmem_store *store = test->priv;
	struct compact_object *o = compact_objects(test);
	struct lsmem_segment *old[3], *seg;
	struct compact_before before;
	struct lsmem_entry e[4], now;
	u64 barriers[8], at[4];
	s64 live;
	u32 i;

	for (i = 0; i < 3; i++) {
		compact_put(test, &o[i], 100);
		old[i] = compact_close(test);
	}
	/* Barriers: below the oldest id that remains, that id, one more, the next id. */
	at[0] = old[1]->id;
	at[1] = old[2]->id;
	at[2] = old[2]->id + 1;
	at[3] = store->segments.next_id;
	for (i = 0; i < 4; i++) {
		compact_tombstone(test, at[i], &e[i]);
		compact_put(test, &o[3 + i], 40000);
	}
	seg = compact_close(test);
	before = compact_before(seg);
	KUNIT_EXPECT_EQ(test, seg->barrier, at[3]);
	KUNIT_EXPECT_EQ(test, atomic_read(seg->tombstones), 4 * size);
	/* Make garbage in the segment; the tombstones of these objects are in another one. */
	for (i = 4; i < 7; i++)
		KUNIT_ASSERT_EQ(test, compact_free(store, &o[i]), 0);
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);

	/* While the oldest segment is there, all tombstones are kept. */
	compact_all(test);
	KUNIT_EXPECT_EQ(test, compact_barriers(store, seg, barriers, 8), 4);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, barriers[i], at[i]);
	KUNIT_EXPECT_EQ(test, atomic_read(seg->tombstones), 4 * size);
	compact_unchanged(test, seg, &before);
	lsmem_test_read(store, seg, 0, &now, sizeof(now));
	KUNIT_EXPECT_EQ(test, memcmp(&now, &e[0], sizeof(now)), 0);

	/* The two oldest segments are freed. Make more garbage, so that @seg is compacted. */
	for (i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, compact_free(store, &o[i]), 0);
	KUNIT_ASSERT_EQ(test, compact_free(store, &o[3]), 0);
	spin_lock(&store->segments.lock);
	for (i = 0; i < 2; i++)
		lsmem_segment_free(store, old[i]);
	spin_unlock(&store->segments.lock);
	KUNIT_ASSERT_EQ(test, seg->nr_seglets, 1);
	live = percpu_counter_sum(&store->live);
	/* There is less than a seglet to gain: add one, as if the segment had been longer. */
	spin_lock(&store->segments.lock);
	KUNIT_EXPECT_EQ(test, lsmem_segment_grow(store, seg, 2 * LSMEM_SEGLET_BYTES,
						 LSMEM_TAKER_CLEANER), 0);
	lsmem_segment_show(seg);
	spin_unlock(&store->segments.lock);
	compact_all(test);
	KUNIT_EXPECT_EQ(test, compact_barriers(store, seg, barriers, 8), 2);
	KUNIT_EXPECT_EQ(test, barriers[0], at[2]);
	KUNIT_EXPECT_EQ(test, barriers[1], at[3]);
	KUNIT_EXPECT_EQ(test, atomic_read(seg->tombstones), 2 * size);
	KUNIT_EXPECT_EQ(test, atomic_read(seg->live), 2 * size);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), live - 2 * size);
	compact_unchanged(test, seg, &before);
	compact_check_seglets(test);
}

/* A segment is not compacted before the daemon has acknowledged its close (invariant 11). */
static void compact_test_acked(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg;
	u32 held, i;

	for (i = 0; i < 10; i++)
		compact_put(test, &o[i], 100000);
	seg = o[0].seg;
	lsmem_test_list_spares(store);
	KUNIT_ASSERT_EQ(test, lsmem_head_roll(store, COMPACT_HEAD), 0);
	for (i = 0; i < 9; i++)
		KUNIT_ASSERT_EQ(test, compact_free(store, &o[i]), 0);
	held = seg->nr_seglets;
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	compact_all(test);
	KUNIT_EXPECT_EQ(test, seg->nr_seglets, held);
	KUNIT_EXPECT_EQ(test, compact_handle(store, &o[9])->word, o[9].word);
	spin_lock(&store->segments.lock);
	lsmem_segment_done(seg);
	spin_unlock(&store->segments.lock);
	compact_all(test);
	KUNIT_EXPECT_EQ(test, seg->nr_seglets, 2);
	compact_look_all(test, o, 10);
}

/* ---- A recovery that is given up ---------------------------------------- */

/*
 * The daemon goes away before activation, while a pass has victims and a claim, a group retires,
 * and a compaction is planned.  lsmem_load_forget() drops all of them, because the next recovery
 * uses the segments that they name for other data.  Then a pass on such a segment runs as usual.
 */
static void compact_test_forgotten(struct kunit *test)
{
	const u32 nr = 100;
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg[3];
	u32 victims, i;
	u64 ids[2];

	KUNIT_ASSERT_EQ(test, lsmem_cleaner_init(store), 0);
	store->repl.attached = (void *)test;	/* only compared with NULL */
	for (i = 0; i < ARRAY_SIZE(seg); i++)
		seg[i] = compact_fill(test, o + i * nr, nr, 1000);
	seg[0]->state = LSMEM_SEGMENT_VICTIM;
	lsmem_retire_add(store, &seg[0], 1);
	store->retires.ring[0].acked = true;	/* the next thing that the cleaner does is to free it */
	ids[0] = seg[1]->id;
	victims = 1;
	KUNIT_ASSERT_EQ(test, lsmem_clean_ask(store, ids, &victims, false), 0);
	KUNIT_ASSERT_TRUE(test, lsmem_clean_underway(store));
	KUNIT_ASSERT_GT(test, store->seglets.claimed, 0);
	KUNIT_ASSERT_GT(test, store->segments.claimed, 0);
	atomic_set(&store->plan.compact_asked, 1);
	lsmem_balance(store);
	atomic_set(&store->plan.compact_asked, 0);
	KUNIT_ASSERT_GT(test, store->plan.nr, 0);

	mutex_lock(&store->mutex);
	store->state = LSMEM_STATE_RECOVERING;
	lsmem_load_forget(store);
	KUNIT_EXPECT_EQ(test, store->state, LSMEM_STATE_NEW);
	mutex_unlock(&store->mutex);
	KUNIT_EXPECT_EQ(test, store->seglets.claimed, 0);
	KUNIT_EXPECT_EQ(test, store->seglets.reserve, store->seglets.base);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, store->seglets.nr);
	KUNIT_EXPECT_EQ(test, store->segments.claimed, 0);
	KUNIT_EXPECT_EQ(test, store->segments.nr_log, 0);
	KUNIT_EXPECT_EQ(test, store->plan.nr, 0);
	KUNIT_EXPECT_EQ(test, store->retires.segments, 0);
	for (i = 0; i < LSMEM_RETIRES; i++)
		KUNIT_EXPECT_EQ(test, store->retires.ring[i].nr, 0);
	/* The cleaner would crash: do not start it. */
	KUNIT_EXPECT_FALSE(test, lsmem_retire_due(store));
	KUNIT_ASSERT_FALSE(test, lsmem_clean_underway(store));
	KUNIT_ASSERT_EQ(test, store->retires.first, store->retires.next);

	/* Only the fixture has used the heads before the activation. */
	for (i = 0; i < store->heads.nr; i++)
		store->heads.table[i].segment = NULL;
	spin_lock(&store->segments.lock);
	lsmem_segments_spare(store);
	spin_unlock(&store->segments.lock);
	smp_store_release(&store->state, LSMEM_STATE_ACTIVE);	/* see lsmem_store_active() */
	lsmem_test_list_spares(store);
	for (i = 0; i < ARRAY_SIZE(seg); i++)
		seg[i] = compact_fill(test, o + i * nr, nr, 1000);
	KUNIT_ASSERT_EQ(test, lsmem_cleaner_make(store), 0);
	lsmem_cleaner_run(store);
	ids[0] = seg[1]->id;
	ids[1] = seg[2]->id;
	victims = 2;
	KUNIT_ASSERT_EQ(test, lsmem_clean_ask(store, ids, &victims, false), 0);
	KUNIT_EXPECT_EQ(test, victims, 2);
	compact_await(test, !lsmem_clean_underway(store));
	lsmem_cleaner_stop(store);
	KUNIT_EXPECT_EQ(test, store->cleaner.stats.passes, 1);
	KUNIT_EXPECT_EQ(test, store->retires.segments, 2);
	KUNIT_EXPECT_EQ(test, seg[0]->state, LSMEM_SEGMENT_CLOSED);
	compact_look_all(test, o, ARRAY_SIZE(seg) * nr);
	compact_check_seglets(test);
}

/* ---- Threads ------------------------------------------------------------ */

/* The number of threads with the name of compactor @number. */
static u32 compact_threads(unsigned int number)
{
	struct task_struct *task;
	char name[TASK_COMM_LEN];
	u32 nr = 0;

	snprintf(name, sizeof(name), "lsmem-%u/kunit", number);
	rcu_read_lock();
	for_each_process(task)
		nr += !(task->flags & PF_EXITING) && !strcmp(task->comm, name);
	rcu_read_unlock();
	return nr;
}

/*
 * Compactors are started, changed in number while they work, stopped and started again.  While
 * started, all their threads exist, each once, and as many of them work as are allowed.
 */
static void compact_test_threads(struct kunit *test)
{
	static const u32 numbers[] = { 1, LSMEM_COMPACTORS, 0, 2 };
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	u32 nr = 0, life, step, i;

	for (i = 0; i < 5; i++, nr += 400)
		compact_fill(test, o + nr, 400, 4000);
	for (life = 0; life < 3; life++) {
		KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
		for (i = 0; i < LSMEM_COMPACTORS + 1; i++)
			compact_await(test, compact_threads(i) == (i < LSMEM_COMPACTORS));
		for (step = 0; step < ARRAY_SIZE(numbers); step++) {
			u64 before = compact_counters(store).compactions;

			WRITE_ONCE(store->compaction.nr_compactors, numbers[step]);
			wake_up_all(&store->plan.work);
			/* Free every fourteenth object: more than a seglet of each segment. */
			for (i = life * ARRAY_SIZE(numbers) + step; i < nr; i += 14)
				if (o[i].handle)
					KUNIT_ASSERT_EQ(test, compact_free(store, &o[i]), 0);
			compact_all(test);
			if (!numbers[step])
				KUNIT_EXPECT_EQ(test, compact_counters(store).compactions, before);
			else
				KUNIT_EXPECT_GT(test, compact_counters(store).compactions, before);
			compact_look_all(test, o, nr);
			compact_check_seglets(test);
		}
		lsmem_compactors_stop(store);
		lsmem_compactors_stop(store);	/* as after a start that failed */
	}
	/* Stop the compactors while there is work: they finish what they have begun. */
	for (i = 0; i < nr; i++)
		if (o[i].handle && i % 5)
			KUNIT_ASSERT_EQ(test, compact_free(store, &o[i]), 0);
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	compact_ask(store, COMPACT_ALL);
	compact_await(test, compact_ring(store) || !compact_busy(store));
	lsmem_compactors_stop(store);
	for (i = 0; i < store->segments.nr; i++)
		KUNIT_EXPECT_NE(test, store->segments.table[i].state, LSMEM_SEGMENT_COMPACTING);
	compact_look_all(test, o, nr);
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	compact_all(test);
	compact_look_all(test, o, nr);
	compact_check_seglets(test);
}

/* ---- Replacements during compaction ------------------------------------- */

#define COMPACT_WRITERS	3u
#define COMPACT_OWN	600u	/* objects of each writer */
#define COMPACT_CHANGES	15000u	/* by each writer */

struct compact_writer {
	struct lsmem_test_thread thread;
	struct lsmem_store *store;
	struct rnd_state random;
	struct compact_object *o;
	unsigned int head;
};

/* Changes and checks its own objects.  No other thread changes them; compaction moves them. */
static const char *compact_writer(void *data)
{
	struct compact_writer *w = data;
	u32 i;

	for (i = 0; i < COMPACT_CHANGES; i++) {
		struct compact_object *o = &w->o[lsmem_test_below(&w->random, COMPACT_OWN)];
		u32 dice = lsmem_test_below(&w->random, 16), length;

		if (o->handle) {
			const char *wrong = compact_look(w->store, o);

			if (wrong)
				return wrong;
		}
		if (o->handle && !dice) {
			if (compact_free(w->store, o))
				return "an object could not be freed";
			continue;
		}
		if (!o->handle && lsmem_handle_alloc(w->store, &o->handle))
			return "there was no handle";
		length = 1 + lsmem_test_below(&w->random, dice < 4 ? 120000 : 20000);
		if (compact_write(w->store, w->head, o, prandom_u32_state(&w->random), length))
			return "an object could not be written";
		cond_resched();
	}
	return NULL;
}

/*
 * Writers replace, free and allocate objects while the compactors, whose number changes, and the
 * cleaner move them.  No change is lost, and at the end the counts of live bytes, of each segment
 * and of the store, are right.
 */
static void compact_test_race(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct compact_object *o = compact_objects(test);
	struct compact_writer *w;
	struct rnd_state random;
	bool running = true;
	u64 all = 0;
	u32 *live, i;

	lsmem_test_seed(test, &random);
	w = kunit_kcalloc(test, COMPACT_WRITERS, sizeof(*w), GFP_KERNEL);
	live = kunit_kcalloc(test, store->segments.nr, sizeof(*live), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, w && live);
	store->space.stall_ms = 120 * MSEC_PER_SEC;
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	KUNIT_ASSERT_EQ(test, lsmem_cleaner_make(store), 0);
	lsmem_cleaner_run(store);
	for (i = 0; i < COMPACT_WRITERS; i++) {
		w[i].store = store;
		w[i].o = o + i * COMPACT_OWN;
		w[i].head = 1 + i % 2;
		prandom_seed_state(&w[i].random, lsmem_test_u64(&random));
		KUNIT_ASSERT_EQ(test, lsmem_test_start(&w[i].thread, compact_writer, &w[i]), 0);
	}
	while (running) {
		running = false;
		for (i = 0; i < COMPACT_WRITERS; i++)
			running |= !completion_done(&w[i].thread.done);
		WRITE_ONCE(store->compaction.nr_compactors,
			   1 + lsmem_test_below(&random, LSMEM_COMPACTORS));
		/* Requests have priority over cleaning, but only cleaning frees segments. */
		if (!lsmem_segments_short(store))
			compact_ask(store, COMPACT_ALL);
		schedule_timeout_uninterruptible(1);
	}
	for (i = 0; i < COMPACT_WRITERS; i++)
		lsmem_test_join(test, &w[i].thread);
	lsmem_cleaner_stop(store);
	lsmem_compactors_stop(store);
	kunit_info(test, "%llu compactions, %llu passes", compact_counters(store).compactions,
		   store->cleaner.stats.passes);
	KUNIT_EXPECT_GT(test, compact_counters(store).compactions, 10);
	KUNIT_EXPECT_GT(test, store->cleaner.stats.passes, 0);
	compact_look_all(test, o, COMPACT_OBJECTS);
	for (i = 0; i < COMPACT_OBJECTS; i++) {
		u32 size = lsmem_entry_size(o[i].length);

		if (!o[i].handle)
			continue;
		live[lsmem_segment_of(store, lsmem_word_position(compact_handle(store,
				      &o[i])->word))->index] += size;
		all += size;
	}
	for (i = 0; i < store->segments.nr; i++)
		KUNIT_EXPECT_EQ(test, atomic_read(store->segments.table[i].live), live[i]);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), all);
	compact_check_seglets(test);
}

static struct kunit_case compact_cases[] = {
	KUNIT_CASE(compact_test_seams),
	KUNIT_CASE(compact_test_random),
	KUNIT_CASE(compact_test_empty),
	KUNIT_CASE_PARAM(compact_test_view, compact_view_gen_params),
	KUNIT_CASE(compact_test_reader),
	KUNIT_CASE_PARAM(compact_test_ring, compact_ring_gen_params),
	KUNIT_CASE(compact_test_seglets),
	KUNIT_CASE(compact_test_boundary),
	KUNIT_CASE_PARAM(compact_test_order, compact_order_gen_params),
	KUNIT_CASE(compact_test_threads),
	{}
};

static struct kunit_suite compact_suite = {
	.name = "lsmem-compact",
	.init = compact_init,
	.exit = compact_exit,
	.test_cases = compact_cases,
};

static struct kunit_case compact_durable_cases[] = {
	KUNIT_CASE(compact_test_tombstones),
	KUNIT_CASE(compact_test_acked),
	KUNIT_CASE(compact_test_forgotten),
	{}
};

static struct kunit_suite compact_durable_suite = {
	.name = "lsmem-compact-durable",
	.init = compact_durable_init,
	.exit = compact_exit,
	.test_cases = compact_durable_cases,
};

static struct kunit_case compact_race_cases[] = {
	KUNIT_CASE(compact_test_race),
	{}
};

static struct kunit_suite compact_race_suite = {
	.name = "lsmem-compact-race",
	.init = compact_race_init,
	.exit = compact_exit,
	.test_cases = compact_race_cases,
};

kunit_test_suites(&compact_suite, &compact_durable_suite, &compact_race_suite);
