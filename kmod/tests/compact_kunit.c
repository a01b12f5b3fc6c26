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

#include "fixture.h"
#include "../balance.h"
#include "../clean.h"
#include "../compact.h"
#include "../epoch.h"
#include "../load.h"
#include "../object.h"
#include "../retire.h"

#define COMPACT_HEAD	1u
#define COMPACT_ALL	1000	/* victims to ask for: more than there are */
#define COMPACT_BOUND	(60 * HZ)
#define COMPACT_READING	(HZ / 10)	/* longer than a grace period */
#define COMPACT_OBJECTS	2048u
#define COMPACT_KEPT	8u	/* free seglets that compaction does not take */

static const struct lsmem_test_shape compact_shape = {
	.segments = 8, .heads = 3, .handles = COMPACT_OBJECTS,
};

static const struct lsmem_test_shape compact_durable_shape = {
	.segments = 8, .heads = 3, .handles = COMPACT_OBJECTS, .durable = true,
};

/* The smallest store, for the test with a cleaner, which frees segments. */
static const struct lsmem_test_shape compact_race_shape = {
	.segments = 16, .heads = 3, .handles = COMPACT_OBJECTS,
};

static int compact_store(struct kunit *test, const struct lsmem_test_shape *shape, u32 reserve)
{
	struct lsmem_store *store;

	lsmem_test_store(test, shape);
	store = test->priv;
	KUNIT_ASSERT_EQ(test, lsmem_balance_init(store), 0);
	KUNIT_ASSERT_EQ(test, lsmem_compactors_init(store), 0);
	store->seglets.base = reserve;
	store->seglets.reserve = reserve;
	lsmem_balance_tune(store);
	store->compaction.nr_compactors = 1;
	store->handles.ceiling = LSMEM_GENERATION_MAX;
	store->views.info->epoch = 1000;
	return 0;
}

static int compact_init(struct kunit *test)
{
	return compact_store(test, &compact_shape, LSMEM_TEST_RESERVE);
}

static int compact_durable_init(struct kunit *test)
{
	return compact_store(test, &compact_durable_shape, LSMEM_TEST_RESERVE);
}

static int compact_race_init(struct kunit *test)
{
	compact_store(test, &compact_race_shape, LSMEM_CLEANER_RESERVE);
	KUNIT_ASSERT_EQ(test, lsmem_cleaner_init(test->priv), 0);
	return 0;
}

static void compact_exit(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_client *client, *next;

	if (!store)
		return;
	lsmem_cleaner_stop(store);
	if (store->compaction.compactors)
		lsmem_compactors_stop(store);
	lsmem_cleaner_destroy(store);
	lsmem_compactors_destroy(store);
	lsmem_balance_destroy(store);
	list_for_each_entry_safe(client, next, &store->views.clients, node)
		lsmem_client_free(client);
	lsmem_test_store_exit(test);
}

/* Wait until a condition holds, for COMPACT_BOUND at most. No event shows it: poll every tick. */
#define compact_await(test, condition)						\
do {										\
	unsigned long __end = jiffies + COMPACT_BOUND;				\
	bool __so;								\
										\
	while (!(__so = (condition)) && time_before(jiffies, __end))		\
		schedule_timeout_uninterruptible(1);				\
	KUNIT_ASSERT_TRUE_MSG(test, __so, "never: %s", #condition);		\
} while (0)

/* ---- Objects ------------------------------------------------------------ */

/**
 * struct compact_object - an object as the model has it
 * @handle: its handle; 0: there is no object
 * @key: key of its payload
 * @length: length of its payload in bytes
 * @seg: segment of its entry
 * @word: word of its handle, when the test last read it
 * @e: header of its entry as written; compaction does not change it, cleaning only the home block
 */
struct compact_object {
	u64 handle;
	u64 key;
	u32 length;
	struct lsmem_segment *seg;
	u64 word;
	struct lsmem_entry e;
};

static struct lsmem_handle *compact_handle(struct lsmem_store *store,
					   const struct compact_object *o)
{
	return &store->handles.table[lsmem_handle_index(o->handle)];
}

/*
 * Append an entry for the handle of @o, and set the handle's word to it.  Table and interval depend on
 * handle and key, so that each is used.  Returns 0 or an error.
 */
static int compact_write(struct lsmem_store *store, unsigned int head, struct compact_object *o,
			 u64 key, u32 length)
{
	struct lsmem_source source = { .kernel = lsmem_test_payload(key) };
	struct lsmem_handle *h = compact_handle(store, o);
	u32 table = lsmem_handle_index(o->handle) % LSMEM_TABLES, pcrc, old = 0;
	u64 deadline = 0, word, version = 0;
	struct lsmem_append ap;
	bool live;
	int ret;

	ret = lsmem_entry_put(store, head, o->handle, table, &source, length, &deadline, &ap, &pcrc);
	if (ret)
		return ret;
	rcu_read_lock();
	do {	/* as lsmem_object_replace() */
		word = smp_load_acquire(&h->word);	/* orders reads of its entry */
		live = lsmem_word_state(word) == LSMEM_WORD_LIVE;
		if (live) {
			version = lsmem_entry_version(lsmem_word_entry(&store->seglets, word));
			old = lsmem_entry_length(lsmem_word_entry(&store->seglets, word));
		}
		version = lsmem_handle_version(store, version);
		lsmem_object_stamp(store, &ap, o->handle, version, length,
				   key % (LSMEM_INTERVAL_MAX + 1), table, pcrc);
	} while (!lsmem_word_exchange(h, word,
				      lsmem_word_next(word, LSMEM_WORD_LIVE, ap.position)));
	lsmem_entry_alive(&ap);
	if (live)
		lsmem_entry_dead(store, lsmem_word_position(word), lsmem_entry_size(old));
	rcu_read_unlock();
	lsmem_live_add(store, (s64)ap.size - (live ? lsmem_entry_size(old) : 0));
	o->key = key;
	o->length = length;
	o->seg = ap.segment;
	o->word = lsmem_word_next(word, LSMEM_WORD_LIVE, ap.position);
	lsmem_test_read(store, ap.segment, ap.offset, &o->e, sizeof(o->e));
	lsmem_append_commit(store, &ap);
	return 0;
}

static int compact_free(struct lsmem_store *store, struct compact_object *o)
{
	struct lsmem_op op = { .handle = o->handle };
	struct lsmem_place place = { 0 };

	o->handle = 0;
	if (store->durable)
		lsmem_test_list_spares(store);
	return lsmem_object_free(store, &op, &place);
}

static void compact_put(struct kunit *test, struct compact_object *o, u32 length)
{
	struct lsmem_store *store = test->priv;

	lsmem_test_list_spares(store);
	KUNIT_ASSERT_EQ(test, lsmem_handle_alloc(store, &o->handle), 0);
	KUNIT_ASSERT_EQ(test, compact_write(store, COMPACT_HEAD, o, o->handle, length), 0);
}

/* Write an entry and free it. In a volatile store this writes no tombstone. */
static void compact_garbage(struct kunit *test, u32 length)
{
	struct compact_object o;

	compact_put(test, &o, length);
	KUNIT_ASSERT_EQ(test, compact_free(test->priv, &o), 0);
}

/* Close the segment of the head; in a durable store the daemon acknowledges it. */
static struct lsmem_segment *compact_close(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = store->heads.table[COMPACT_HEAD].segment;

	lsmem_test_list_spares(store);
	KUNIT_ASSERT_EQ(test, lsmem_head_roll(store, COMPACT_HEAD), 0);
	KUNIT_ASSERT_EQ(test, seg->state, LSMEM_SEGMENT_CLOSED);
	if (store->durable) {
		seg->acked = seg->committed;
		spin_lock(&store->segments.lock);
		lsmem_segment_done(seg);
		spin_unlock(&store->segments.lock);
	}
	return seg;
}

/* Is this header, if it is read where the entry is now, that of @o? */
static bool compact_header(const struct lsmem_entry *e, const struct compact_object *o)
{
	return lsmem_entry_type(e) == LSMEM_TYPE_OBJECT && lsmem_entry_handle(e) == o->handle &&
	       lsmem_entry_header(e) == (o->length < 2048 ? 24 : 32) &&
	       lsmem_entry_interval(e) == o->key % 32 &&
	       lsmem_entry_table(e) == lsmem_handle_index(o->handle) % LSMEM_TABLES;
}

/* Does the payload of @key, of @length bytes, follow the header at @position? */
static bool compact_same(struct lsmem_store *store, u64 position, u64 key, u32 length)
{
	u32 seglet = position >> LSMEM_POSITION_OFFSET_BITS, done = 0;
	u32 at = (position & ((1u << LSMEM_POSITION_OFFSET_BITS) - 1)) * LSMEM_ALIGN +
		 lsmem_header_bytes(length);

	while (done < length) {
		u32 piece;

		/* Follow the chain of seglets in the table, as clients do. */
		if (at >= LSMEM_SEGLET_BYTES) {
			at -= LSMEM_SEGLET_BYTES;
			seglet = READ_ONCE(store->seglets.table[seglet].next);
		}
		if (seglet >= store->seglets.nr)
			return false;
		piece = min(length - done, LSMEM_SEGLET_BYTES - at);
		if (memcmp(lsmem_seglet_address(&store->seglets, seglet) + at,
			   lsmem_test_payload(key) + done, piece))
			return false;
		done += piece;
		at += piece;
	}
	return true;
}

/* Check an object that no other thread changes. Returns NULL or an error message. */
static const char *compact_look(struct lsmem_store *store, const struct compact_object *o)
{
	const struct lsmem_entry *e = NULL;
	const char *wrong = NULL;
	u64 word;

	rcu_read_lock();
	/* Acquire: orders the reads of the entry. */
	word = smp_load_acquire(&compact_handle(store, o)->word);
	if (lsmem_word_state(word) == LSMEM_WORD_LIVE)
		e = lsmem_word_entry(&store->seglets, word);
	if (!e)
		wrong = "an object has gone";
	else if (lsmem_entry_version(e) != lsmem_entry_version(&o->e))
		wrong = "an object has another version";
	else if (lsmem_entry_length(e) != o->length)
		wrong = "an object has another length";
	else if (!compact_header(e, o))
		wrong = "an object has another header";
	else if (!compact_same(store, lsmem_word_position(word), o->key, o->length))
		wrong = "an object has other bytes";
	rcu_read_unlock();
	return wrong;
}

static void compact_look_all(struct kunit *test, const struct compact_object *o, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++)
		if (o[i].handle)
			KUNIT_EXPECT_STREQ(test, compact_look(test->priv, &o[i]) ?: "", "");
}

/* ---- Asking for compaction ---------------------------------------------- */

static struct lsmem_counters compact_counters(struct lsmem_store *store)
{
	struct lsmem_counters sum;

	lsmem_store_counters(store, &sum);
	return sum;
}

static bool compact_busy(struct lsmem_store *store)
{
	u32 i;

	for (i = 0; i < store->segments.nr; i++)
		if (READ_ONCE(store->segments.table[i].state) == LSMEM_SEGMENT_COMPACTING)
			return true;
	return atomic_read(&store->plan.compact_asked);
}

static u32 compact_ring(const struct lsmem_store *store)
{
	return READ_ONCE(store->compaction.next) - READ_ONCE(store->compaction.first);
}

static void compact_ask(struct lsmem_store *store, int nr)
{
	atomic_set(&store->plan.compact_asked, nr);
	wake_up_all(&store->plan.work);
}

/* Compact until nothing more can be gained. */
static void compact_all(struct kunit *test)
{
	struct lsmem_store *store = test->priv;

	compact_ask(store, COMPACT_ALL);
	compact_await(test, !compact_busy(store));
	compact_await(test, !compact_ring(store));
	compact_await(test, !READ_ONCE(store->compaction.vacating));
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

/* Fields of a segment that compaction does not change */
struct compact_before {
	u64 id;
	u64 open_time;
	u64 barrier;
	u32 home;
	u32 acked;
	u32 emitted;
	u32 entries;
};

static struct compact_before compact_before(const struct lsmem_segment *seg)
{
	return (struct compact_before){
		.id = seg->id, .open_time = seg->open_time, .barrier = seg->barrier,
		.home = seg->home, .acked = seg->acked, .emitted = seg->emitted,
		.entries = seg->entries,
	};
}

static void compact_unchanged(struct kunit *test, const struct lsmem_segment *seg,
			      const struct compact_before *before)
{
	KUNIT_EXPECT_EQ(test, seg->id, before->id);
	KUNIT_EXPECT_EQ(test, seg->open_time, before->open_time);
	KUNIT_EXPECT_EQ(test, seg->barrier, before->barrier);
	KUNIT_EXPECT_EQ(test, seg->home, before->home);
	KUNIT_EXPECT_EQ(test, seg->acked, before->acked);
	KUNIT_EXPECT_EQ(test, seg->emitted, before->emitted);
	KUNIT_EXPECT_EQ(test, seg->entries, before->entries);
	KUNIT_EXPECT_EQ(test, seg->state, LSMEM_SEGMENT_CLOSED);
	KUNIT_EXPECT_EQ(test, seg->stat->id, before->id);
	KUNIT_EXPECT_EQ(test, seg->stat->home, before->home);
}

/* The seglets of each segment name it as owner and are chained in order; no seglet is lost. */
static void compact_check_seglets(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	u32 held = 0, s, i;

	for (s = 0; s < store->segments.nr; s++) {
		const struct lsmem_segment *seg = &store->segments.table[s];

		for (i = 0; i < seg->nr_seglets; i++) {
			KUNIT_EXPECT_EQ(test, store->seglets.owner[seg->seglets[i]], s);
			KUNIT_EXPECT_EQ(test, store->seglets.table[seg->seglets[i]].next,
					i + 1 < seg->nr_seglets ? seg->seglets[i + 1] :
								 LSMEM_NO_SEGLET);
		}
		held += seg->nr_seglets;
	}
	for (i = store->compaction.first; i != store->compaction.next; i++)
		held += store->compaction.vacated[i % LSMEM_VACATED].nr;
	for (i = 0; i < store->seglets.nr; i++)
		held += store->seglets.owner[i] == LSMEM_NO_SEGLET;
	KUNIT_EXPECT_EQ(test, held, store->seglets.nr);
}

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

static struct compact_object *compact_objects(struct kunit *test)
{
	struct compact_object *o = kunit_kcalloc(test, COMPACT_OBJECTS, sizeof(*o), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, o);
	return o;
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

/* Fill a segment with objects of @length, each followed by 2000 bytes of garbage, and close it. */
static struct lsmem_segment *compact_fill(struct kunit *test, struct compact_object *o, u32 nr,
					  u32 length)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		compact_put(test, &o[i], length);
		compact_garbage(test, 2000);
	}
	return compact_close(test);
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

/* ---- Missing seglets and damaged entries -------------------------------- */

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

static const struct compact_damage_case {
	const char *name;
	u32 object;
} compact_damages[] = {
	{ "the first", 0 },
	{ "one in the middle", 170 },
	{ "the last", 299 },
};

static void compact_damage_desc(const struct compact_damage_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(compact_damage, compact_damages, compact_damage_desc);

/* A segment with a damaged entry is never compacted again; its objects stay readable. */
static void compact_test_damage(struct kunit *test)
{
	const struct compact_damage_case *param = test->param_value;
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = compact_fill(test, o, 300, 1000);
	struct compact_before before = compact_before(seg);
	u32 held = seg->nr_seglets, first = seg->seglets[0], live, moved = 0, i;
	struct lsmem_entry *e = lsmem_word_entry(&store->seglets, o[param->object].word);

	live = atomic_read(seg->live);
	e->crc ^= cpu_to_le32(1);
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	compact_ask(store, COMPACT_ALL);
	compact_await(test, READ_ONCE(seg->damaged));
	compact_await(test, !compact_busy(store));	/* there is no other segment */
	e->crc ^= cpu_to_le32(1);
	KUNIT_EXPECT_EQ(test, compact_counters(store).compactions, 0);
	compact_unchanged(test, seg, &before);
	KUNIT_EXPECT_FALSE(test, seg->stat->flags & LSMEM_SEGMENT_CLEANABLE);
	KUNIT_EXPECT_EQ(test, seg->nr_seglets, held);
	KUNIT_EXPECT_EQ(test, seg->seglets[0], first);
	KUNIT_EXPECT_EQ(test, atomic_read(seg->live), live);
	compact_look_all(test, o, 300);
	for (i = 0; i < 300; i++) {
		if (!o[i].handle || compact_handle(store, &o[i])->word == o[i].word)
			continue;
		KUNIT_EXPECT_LT(test, i, param->object);
		moved++;
	}
	KUNIT_EXPECT_EQ(test, !!moved, param->object > 100);
	/* The death of every object is counted, whether the object has moved or not. */
	for (i = 0; i < 300; i++)
		if (o[i].handle)
			KUNIT_ASSERT_EQ(test, compact_free(store, &o[i]), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(seg->live), 0);
}

/* ---- The cleaner --------------------------------------------------------- */

static void compact_cleaner(struct kunit *test)
{
	struct lsmem_store *store = test->priv;

	KUNIT_ASSERT_EQ(test, lsmem_cleaner_init(store), 0);
	KUNIT_ASSERT_EQ(test, lsmem_cleaner_make(store), 0);
	lsmem_cleaner_run(store);
}

/* Is the segment of this id in the log, closed, and not damaged? */
static bool compact_cleanable(struct lsmem_store *store, u64 id)
{
	const struct lsmem_segment *seg;
	bool cleanable;

	spin_lock(&store->segments.lock);
	seg = lsmem_segment_find(store, id);
	cleanable = seg && seg->state == LSMEM_SEGMENT_CLOSED && !seg->damaged;
	spin_unlock(&store->segments.lock);
	return cleanable;
}

/* Clean these segments in one pass, and wait for its end.  In a volatile store they are free then. */
static void compact_clean(struct kunit *test, const u64 *ids, u32 nr)
{
	struct lsmem_store *store = test->priv;
	u32 victims = nr;

	KUNIT_ASSERT_EQ(test, lsmem_clean_ask(store, ids, &victims), 0);
	KUNIT_ASSERT_EQ(test, victims, nr);
	compact_await(test, !lsmem_clean_underway(store));
	if (!store->durable)
		compact_await(test, !READ_ONCE(store->retires.segments));
}

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

/* ---- Any bit of an entry ------------------------------------------------- */

#define COMPACT_TARGETS	6u	/* segments that are damaged together */
#define COMPACT_BESIDE	1000u	/* length of the other entries: they take 1024 bytes */

/**
 * struct compact_target - a segment of which a bit is flipped
 * @seg: closed; a dead entry, the objects, and garbage
 * @id: of @seg
 * @dead: address of the dead entry, or in a durable store of its tombstone
 * @o: objects; the second is the one that is damaged
 * @live: bytes that were live in @seg
 * @held: seglets that @seg had
 * @flip: the byte that was changed
 * @mask: the bit
 */
struct compact_target {
	struct lsmem_segment *seg;
	u64 id;
	u8 *dead;
	struct compact_object o[3];
	u32 live;
	u32 held;
	u8 *flip;
	u8 mask;
};

/* Write a tombstone with @barrier, as lsmem_object_free() does. @e: out, its header. */
static void compact_tombstone(struct kunit *test, u64 barrier, struct lsmem_entry *e)
{
	struct lsmem_store *store = test->priv;
	u64 now = store->segments.barrier;
	struct lsmem_append ap;

	KUNIT_ASSERT_EQ(test, lsmem_append_begin(store, COMPACT_HEAD, 0, LSMEM_TYPE_TOMBSTONE,
						 &ap), 0);
	store->segments.barrier = barrier;
	lsmem_tombstone_stamp(store, &ap, lsmem_handle_make(9, 1), barrier, 7);
	store->segments.barrier = now;
	lsmem_test_read(store, ap.segment, ap.offset, e, sizeof(*e));
	lsmem_tombstone_done(store, &ap, 0);
	lsmem_append_commit(store, &ap);
	lsmem_live_add(store, lsmem_entry_size(0));	/* undo: no object was deleted */
}

static void compact_target(struct kunit *test, struct compact_target *t, u32 length)
{
	struct lsmem_store *store = test->priv;
	struct compact_object dead;
	struct lsmem_entry e;
	u32 i;

	*t = (struct compact_target){ };
	compact_put(test, &dead, COMPACT_BESIDE);
	t->dead = (u8 *)lsmem_word_entry(&store->seglets, dead.word);
	KUNIT_ASSERT_EQ(test, compact_free(store, &dead), 0);
	if (store->durable) {	/* that of the free can be in another head */
		t->dead += lsmem_entry_size(COMPACT_BESIDE);
		compact_tombstone(test, store->segments.barrier, &e);
	}
	for (i = 0; i < ARRAY_SIZE(t->o); i++)
		compact_put(test, &t->o[i], i == 1 ? length : COMPACT_BESIDE);
	compact_garbage(test, LSMEM_SEGLET_BYTES);
	t->seg = compact_close(test);
	t->id = t->seg->id;
	t->live = atomic_read(t->seg->live);
	t->held = t->seg->nr_seglets;
	KUNIT_ASSERT_PTR_EQ(test, t->o[0].seg, t->seg);
}

static void compact_flip(struct compact_target *t, u8 *entry, u32 bit)
{
	t->flip = entry + bit / 8;
	t->mask = 1 << bit % 8;
	*t->flip ^= t->mask;
}

/* Compact or clean all that is damaged, until there is nothing to be gained. */
static void compact_flipped(struct kunit *test, const struct compact_target *t, u32 nr, bool clean)
{
	struct lsmem_store *store = test->priv;
	u32 pass, i;

	if (!clean) {
		/* As if a writer waited: else a compactor that gains nothing looks less and less often. */
		atomic_inc(&store->space.stalled);
		compact_all(test);
		atomic_dec(&store->space.stalled);
		return;
	}
	/* A pass that lists something damaged moves nothing; the next is without that. */
	for (pass = 0; pass < 3; pass++) {
		u64 ids[COMPACT_TARGETS];
		u32 victims = 0;

		for (i = 0; i < nr; i++)
			if (compact_cleanable(store, t[i].id))
				ids[victims++] = t[i].id;
		if (victims)
			compact_clean(test, ids, victims);
	}
	/* A damaged segment is not a victim any more, even if it is asked for. */
	for (i = 0; i < nr; i++) {
		u32 one = 1;

		if (t[i].seg->id == t[i].id && t[i].seg->damaged)
			KUNIT_EXPECT_EQ(test, lsmem_clean_ask(store, &t[i].id, &one), -ENOENT);
	}
}

static bool compact_damaged(const struct compact_target *t)
{
	return t->seg->id == t->id && t->seg->damaged;
}

/* Repair the entry; all objects are there, whether the segment was found damaged or not. */
static void compact_mend(struct kunit *test, struct compact_target *t)
{
	struct lsmem_store *store = test->priv;
	bool damaged = compact_damaged(t), gone = t->seg->id != t->id;
	u32 i, seglet;

	if (damaged) {
		*t->flip ^= t->mask;
		KUNIT_EXPECT_EQ(test, t->seg->state, LSMEM_SEGMENT_CLOSED);
		KUNIT_EXPECT_FALSE(test, t->seg->stat->flags & LSMEM_SEGMENT_CLEANABLE);
		KUNIT_EXPECT_EQ(test, t->seg->nr_seglets, t->held);
	}
	compact_look_all(test, t->o, ARRAY_SIZE(t->o));
	for (i = 0; i < ARRAY_SIZE(t->o); i++)
		KUNIT_ASSERT_EQ(test, compact_free(store, &t->o[i]), 0);
	if (gone)
		return;
	KUNIT_EXPECT_EQ(test, atomic_read(t->seg->live), atomic_read(t->seg->tombstones));
	spin_lock(&store->segments.lock);
	lsmem_segment_free(store, t->seg);
	lsmem_segments_spare(store);
	spin_unlock(&store->segments.lock);
	/* A compaction that found damage has left its seglets with the segment. */
	for (seglet = 0; damaged && seglet < store->seglets.nr; seglet++)
		if (store->seglets.owner[seglet] == t->seg->index)
			lsmem_seglets_put(&store->seglets, &seglet, 1);
	lsmem_test_list_spares(store);
}

static const struct compact_flip_case {
	const char *name;
	bool clean;
	u32 length;	/* of the object that is damaged */
} compact_flips[] = {
	{ "compaction, 1 byte", false, 1 },
	{ "compaction, the longest short entry", false, 2047 },
	{ "compaction, the shortest long entry", false, 2048 },
	{ "cleaning, 1 byte", true, 1 },
	{ "cleaning, the longest short entry", true, 2047 },
	{ "cleaning, the shortest long entry", true, 2048 },
};

static void compact_flip_desc(const struct compact_flip_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(compact_flip, compact_flips, compact_flip_desc);

/* Does this byte of a header say where the next entry begins, or what the entry is? */
static bool compact_decides(u32 byte, u32 header)
{
	return byte == offsetof(struct lsmem_entry, meta) ||
	       byte == offsetof(struct lsmem_entry, meta) + 1 ||
	       (byte == offsetof(struct lsmem_entry, more) && header == 8 * LSMEM_LONG_BYTES);
}

/*
 * The bit after @bit that a test flips: all of those that decide about the entry, one of each other
 * byte of the header, by chance, one of the first byte of the payload, and the last.  The module tells
 * of each damage: with all bits the kernel's log would overflow.  @header, @all: bits of the header, and
 * with the payload.
 */
static u32 compact_next(struct rnd_state *random, u32 bit, u32 header, u32 all)
{
	u32 byte = bit / 8 + 1;

	if (bit >= header)
		return max(bit + 1, all - 1);
	if (compact_decides(bit / 8, header) && bit % 8 < 7)
		return bit + 1;
	return 8 * byte + (compact_decides(byte, header) ? 0 : lsmem_test_below(random, 8));
}

/*
 * Whichever bit of a live entry is flipped, compaction and cleaning find the segment damaged, leave it
 * in the log and the entry in its place.
 */
static void compact_test_flip(struct kunit *test)
{
	const struct compact_flip_case *param = test->param_value;
	u32 header = 8 * lsmem_header_bytes(param->length), all = header + 8 * param->length;
	struct lsmem_store *store = test->priv;
	struct compact_target *t;
	struct rnd_state random;
	u32 bit = 0, nr, i;

	lsmem_test_seed(test, &random);
	t = kunit_kcalloc(test, COMPACT_TARGETS, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	if (param->clean)
		compact_cleaner(test);
	else
		KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	while (bit < all) {
		for (nr = 0; nr < COMPACT_TARGETS && bit < all; nr++) {
			compact_target(test, &t[nr], param->length);
			compact_flip(&t[nr], (u8 *)lsmem_word_entry(&store->seglets,
								    t[nr].o[1].word), bit);
			bit = compact_next(&random, bit, header, all);
		}
		compact_flipped(test, t, nr, param->clean);
		for (i = 0; i < nr; i++) {
			KUNIT_EXPECT_TRUE_MSG(test, compact_damaged(&t[i]),
					      "not found: mask %x in the %ld. byte",
					      t[i].mask, (long)(t[i].flip - (u8 *)
					      lsmem_word_entry(&store->seglets, t[i].o[1].word)));
			KUNIT_EXPECT_EQ(test, compact_handle(store, &t[i].o[1])->word,
					t[i].o[1].word);
			if (!param->clean)
				KUNIT_EXPECT_EQ(test, atomic_read(t[i].seg->live), t[i].live);
			compact_mend(test, &t[i]);
		}
	}
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), 0);
	compact_check_seglets(test);
}

static const struct compact_dead_case {
	const char *name;
	bool clean;
} compact_deads[] = {
	{ "compaction", false },
	{ "cleaning", true },
};

static void compact_dead_desc(const struct compact_dead_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(compact_dead, compact_deads, compact_dead_desc);

/*
 * The CRC of a dead entry is not checked, so a wrong length can lead past live entries.  One case is
 * made so that only the counts of entries and live bytes tell: what follows is in order.  Whatever
 * else is flipped in a dead header, no object is lost.
 */
static void compact_test_flip_dead(struct kunit *test)
{
	const struct compact_dead_case *param = test->param_value;
	const u32 bits = 8 * LSMEM_SHORT_BYTES, length = 32 + 10;	/* 1000 becomes 2024 */
	struct lsmem_store *store = test->priv;
	struct compact_target *t;
	u32 bit = 0, nr, i;

	t = kunit_kcalloc(test, COMPACT_TARGETS, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	if (param->clean)
		compact_cleaner(test);
	else
		KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	while (bit < bits) {
		u32 first = bit;

		for (nr = 0; nr < COMPACT_TARGETS && bit < bits; nr++, bit++) {
			const struct lsmem_entry *dead;

			compact_target(test, &t[nr], 500);
			dead = (const struct lsmem_entry *)t[nr].dead;
			KUNIT_ASSERT_EQ(test, lsmem_entry_bytes(dead), 1024);
			compact_flip(&t[nr], t[nr].dead, bit);
			if (bit == length)
				KUNIT_ASSERT_EQ(test, lsmem_entry_bytes(dead), 2048);
		}
		compact_flipped(test, t, nr, param->clean);
		for (i = 0; i < nr; i++) {
			bool damaged = compact_damaged(&t[i]);

			if (first + i == length) {
				KUNIT_EXPECT_TRUE(test, damaged);
				KUNIT_EXPECT_EQ(test, compact_handle(store, &t[i].o[0])->word,
						t[i].o[0].word);
			}
			/* Neither CRC nor key, version and table of what is dead matter. */
			if (first + i < 32 || first + i >= 32 + LSMEM_META_TABLE_SHIFT)
				KUNIT_EXPECT_FALSE(test, damaged);
			compact_mend(test, &t[i]);
		}
	}
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), 0);
	compact_check_seglets(test);
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

/* Each bit of a tombstone that is kept: whichever is flipped, its segment is found damaged. */
static void compact_test_flip_tombstone(struct kunit *test)
{
	const struct compact_dead_case *param = test->param_value;
	struct lsmem_store *store = test->priv;
	struct compact_object keeper;
	struct compact_target *t;
	struct rnd_state random;
	u32 bit = 0, nr, i;

	lsmem_test_seed(test, &random);
	t = kunit_kcalloc(test, COMPACT_TARGETS, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	store->repl.attached = (void *)test;	/* only compared with NULL */
	if (param->clean)
		compact_cleaner(test);
	else
		KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	/* Tombstones wait for this one. */
	compact_put(test, &keeper, 100);
	compact_close(test);
	while (bit < 8 * LSMEM_LONG_BYTES) {
		for (nr = 0; nr < COMPACT_TARGETS && bit < 8 * LSMEM_LONG_BYTES; nr++) {
			compact_target(test, &t[nr], 500);
			KUNIT_ASSERT_EQ(test, lsmem_entry_type((void *)t[nr].dead),
					LSMEM_TYPE_TOMBSTONE);
			compact_flip(&t[nr], t[nr].dead, bit);
			bit = compact_next(&random, bit, 8 * LSMEM_LONG_BYTES,
					   8 * LSMEM_LONG_BYTES);
		}
		compact_flipped(test, t, nr, param->clean);
		for (i = 0; i < nr; i++) {
			KUNIT_EXPECT_TRUE_MSG(test, compact_damaged(&t[i]),
					      "not found: mask %x in the %ld. byte",
					      t[i].mask, (long)(t[i].flip - t[i].dead));
			compact_mend(test, &t[i]);
		}
		/* The objects' tombstones are in the head's segment. */
		lsmem_test_list_spares(store);
	}
	compact_look_all(test, &keeper, 1);
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
	KUNIT_ASSERT_EQ(test, lsmem_clean_ask(store, ids, &victims), 0);
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
	KUNIT_ASSERT_EQ(test, lsmem_clean_ask(store, ids, &victims), 0);
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
	KUNIT_CASE_PARAM(compact_test_damage, compact_damage_gen_params),
	KUNIT_CASE(compact_test_boundary),
	KUNIT_CASE_PARAM(compact_test_order, compact_order_gen_params),
	KUNIT_CASE_PARAM(compact_test_flip, compact_flip_gen_params),
	KUNIT_CASE_PARAM(compact_test_flip_dead, compact_dead_gen_params),
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
	KUNIT_CASE_PARAM(compact_test_flip_tombstone, compact_dead_gen_params),
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
