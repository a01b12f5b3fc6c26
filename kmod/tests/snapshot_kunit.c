// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: snapshots of a scan.  What a cut has and has not, which versions follow it, what is kept back
 * and for how long, and who revokes.  At the end of each test nothing is kept back.
 */
#include <linux/bitmap.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "compaction.h"
#include "fixture.h"
#include "../snapshot.h"

#define SNAPSHOT_NR		256u	/* objects of a test, in one segment */
#define SNAPSHOT_LENGTH		1000u
#define SNAPSHOT_OBJECTS	64u	/* that a writer replaces again and again */
#define SNAPSHOT_CHANGES	40000u	/* that it makes; they fit into the store */
#define SNAPSHOT_CUTS		16u
#define SNAPSHOT_ENDS		15u
#define SNAPSHOT_PACES		64u	/* cuts at most, until cleaners were seen to rest for long */
#define SNAPSHOT_REST		(2 * NSEC_PER_MSEC)	/* for so long */

/* Has a copy the entry that a word points to, or pointed to? */
static bool snapshot_copied(const struct lsmem_livemap_copy *copy, u64 word)
{
	u64 bit = lsmem_word_position(word) / 4;

	return test_bit(bit % LSMEM_CHUNK_BITS, lsmem_livemap_chunk(copy, bit / LSMEM_CHUNK_BITS));
}

static bool snapshot_has(const struct lsmem_frozen *frozen, u64 word)
{
	return snapshot_copied(&frozen->copy, word);
}

/* In how many bits differs a copy from what it was made of? */
static u64 snapshot_differs(const struct lsmem_livemap_copy *copy, const struct lsmem_livemap *livemap)
{
	u64 wrong = 0, i;

	for (i = 0; i < livemap->bytes / sizeof(long); i++)
		wrong += hweight_long(lsmem_livemap_chunk(copy, i / LSMEM_CHUNK_WORDS)[i % LSMEM_CHUNK_WORDS] ^
				      livemap->bits[i]);
	return wrong;
}

static struct lsmem_frozen *snapshot_cut(struct kunit *test, u32 kept_max, u32 time_ms)
{
	struct lsmem_frozen *frozen = lsmem_snapshot_new(test->priv);

	KUNIT_ASSERT_FALSE(test, IS_ERR(frozen));
	KUNIT_ASSERT_EQ(test, lsmem_snapshot_cut(frozen, kept_max, time_ms), 0);
	return frozen;
}

/* Seglets that are free or kept back: they belong to no segment. */
static u32 snapshot_idle(struct lsmem_store *store)
{
	return READ_ONCE(store->seglets.nr_free) + READ_ONCE(store->snapshots.kept);
}

/* Is a seglet that is kept back free? */
static bool snapshot_broken(struct lsmem_store *store, const struct lsmem_frozen *frozen)
{
	u32 i;

	for (i = 0; i < store->seglets.nr; i++)
		if (test_bit(i, frozen->kept) && store->seglets.owner[i] == LSMEM_NO_SEGLET)
			return true;
	return false;
}

/* A segment of objects and garbage, compacted after the cut: what it vacates is kept back. */
static struct compact_object *snapshot_fill(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);

	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(test->priv), 0);
	compact_fill(test, o, SNAPSHOT_NR, SNAPSHOT_LENGTH);
	return o;
}

static void snapshot_exit(struct kunit *test)
{
	struct lsmem_store *store = test->priv;

	/* Those that a failed assertion has left. */
	while (store && !list_empty(&store->snapshots.list))
		lsmem_snapshot_end(list_first_entry(&store->snapshots.list, struct lsmem_frozen, node));
	if (store) {
		KUNIT_EXPECT_EQ(test, store->snapshots.kept, 0);
		KUNIT_EXPECT_EQ(test, store->snapshots.nr, 0);
	}
	compact_exit(test);
}

/* A cut at rest is the live bitmap; the window says what it is; salts are those of the segments. */
static void snapshot_test_cut(struct kunit *test)
{
	struct compact_object *o = compact_objects(test), newer;
	struct lsmem_store *store = test->priv;
	const struct lsmem_livemap *livemap = &store->handles.livemap;
	struct lsmem_frozen *frozen;
	u32 i;

	compact_fill(test, o, SNAPSHOT_NR, SNAPSHOT_LENGTH);
	frozen = snapshot_cut(test, 10, 12345);
	KUNIT_EXPECT_EQ(test, snapshot_differs(&frozen->copy, livemap), 0);
	KUNIT_EXPECT_EQ(test, frozen->window->kept_max, 10);
	KUNIT_EXPECT_EQ(test, frozen->window->time_ms, 12345);
	KUNIT_EXPECT_EQ(test, frozen->window->state, LSMEM_SNAPSHOT_STANDS);
	KUNIT_EXPECT_EQ(test, frozen->window->nr_seglets, store->seglets.nr);
	for (i = 0; i < SNAPSHOT_NR; i++) {
		u32 seglet = lsmem_word_position(o[i].word) >> LSMEM_POSITION_OFFSET_BITS;

		KUNIT_EXPECT_LE(test, lsmem_entry_version(&o[i].e), frozen->window->version);
		KUNIT_EXPECT_EQ(test, frozen->salts[seglet], o[i].seg->salt);
		KUNIT_EXPECT_TRUE(test, test_bit(seglet, frozen->some));
	}
	compact_put(test, &newer, 1);
	KUNIT_EXPECT_GT(test, lsmem_entry_version(&newer.e), frozen->window->version);
	KUNIT_EXPECT_FALSE(test, snapshot_has(frozen, newer.word));
	KUNIT_EXPECT_FALSE(test, READ_ONCE(store->snapshots.copying));
	KUNIT_EXPECT_PTR_EQ(test, (void *)livemap->saved, NULL);
	lsmem_snapshot_end(frozen);
}

/* Versions ahead of the clock: V is not below any that was taken, and all later ones are above. */
static void snapshot_test_mark(struct kunit *test)
{
	const u64 ahead = 1ull << 30;	/* about 18 minutes */
	struct lsmem_store *store = test->priv;
	struct compact_object hot, other;
	struct lsmem_frozen *frozen;
	u64 first, version;
	int i;

	store->clock += ahead;
	compact_put(test, &hot, 100);
	compact_put(test, &other, 100);
	KUNIT_ASSERT_EQ(test, compact_free(store, &other), 0);
	store->clock -= ahead;
	for (i = 0; i < 3; i++) {
		first = lsmem_entry_version(&hot.e);
		KUNIT_ASSERT_EQ(test, compact_write(store, COMPACT_HEAD, &hot, i, 100), 0);
		KUNIT_ASSERT_EQ(test, lsmem_entry_version(&hot.e), first + 1);
		frozen = snapshot_cut(test, 0, 0);
		version = frozen->window->version;
		KUNIT_EXPECT_EQ(test, version, first + 1);
		KUNIT_EXPECT_TRUE(test, snapshot_has(frozen, hot.word));
		/* Another object, whose version would be that of the clock. */
		compact_put(test, &other, 100);
		KUNIT_EXPECT_EQ(test, lsmem_entry_version(&other.e), version + 1);
		lsmem_snapshot_end(frozen);
		/* It counts as a version ahead of the clock, too. */
		frozen = snapshot_cut(test, 0, 0);
		KUNIT_EXPECT_EQ(test, frozen->window->version, version + 1);
		KUNIT_EXPECT_TRUE(test, snapshot_has(frozen, other.word));
		KUNIT_ASSERT_EQ(test, compact_free(store, &other), 0);
		KUNIT_EXPECT_TRUE(test, snapshot_has(frozen, other.word));
		KUNIT_ASSERT_EQ(test, compact_write(store, COMPACT_HEAD, &hot, i, 100), 0);
		lsmem_snapshot_end(frozen);
	}
}

/* A copy of the store's live bitmap that a writer finds, in memory that was used before. */
static struct lsmem_livemap_copy *snapshot_copy(struct kunit *test)
{
	struct lsmem_livemap_copy *copy = kunit_kzalloc(test, sizeof(*copy), GFP_KERNEL);
	struct lsmem_store *store = test->priv;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, copy);
	KUNIT_ASSERT_EQ(test, lsmem_livemap_copy_init(copy, &store->handles.livemap, GFP_KERNEL), 0);
	for (i = 0; i < copy->nr_pages; i++)
		memset(copy->pages[i], 0xa5, PAGE_SIZE);
	store->handles.cut = lsmem_handle_version(store, 0);
	store->handles.livemap.saved = copy;
	return copy;
}

static void snapshot_copy_end(struct kunit *test, struct lsmem_livemap_copy *copy)
{
	struct lsmem_store *store = test->priv;

	store->handles.livemap.saved = NULL;
	lsmem_livemap_copy_destroy(copy);
}

/* Copy all chunks.  Returns how many seglets have bits. */
static u32 snapshot_copy_all(struct kunit *test, struct lsmem_livemap_copy *copy)
{
	struct lsmem_store *store = test->priv;
	unsigned long *some = kunit_kcalloc(test, BITS_TO_LONGS(store->seglets.nr), sizeof(long), GFP_KERNEL);
	u64 i;

	KUNIT_ASSERT_NOT_NULL(test, some);
	for (i = 0; i < store->handles.livemap.bytes / LSMEM_CHUNK_BYTES; i++)
		lsmem_livemap_copy_chunk(&store->handles.livemap, copy, i, some);
	return bitmap_weight(some, store->seglets.nr);
}

/*
 * Before a chunk is copied, a change above V leaves the bit of the older entry there; one up to V does not.  The
 * copy has these bits and those of the live bitmap, and nothing of what was in its memory.
 */
static void snapshot_test_saved(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_livemap_copy *copy;
	u64 olds[4], nr;
	u32 i;

	for (i = 0; i < 4; i++) {
		compact_put(test, &o[i], 1);
		olds[i] = o[i].word;
	}
	copy = snapshot_copy(test);
	nr = lsmem_livemap_bit(lsmem_word_position(olds[0])) / LSMEM_CHUNK_BITS;
	KUNIT_EXPECT_EQ(test, compact_write(store, COMPACT_HEAD, &o[0], 1, 1), 0);
	KUNIT_EXPECT_EQ(test, compact_free(store, &o[1]), 0);
	KUNIT_EXPECT_TRUE(test, snapshot_copied(copy, olds[0]));
	KUNIT_EXPECT_TRUE(test, snapshot_copied(copy, olds[1]));
	KUNIT_EXPECT_EQ(test, bitmap_weight(lsmem_livemap_chunk(copy, nr), LSMEM_CHUNK_BITS), 2);
	/* Versions of the clock are now at V and below, but for those that look at it. */
	for (i = 2; i < 4; i++) {
		struct lsmem_handle *h = compact_handle(store, &o[i]);
		u64 word = lsmem_word_next(h->word, LSMEM_WORD_BUSY, 1);

		/* At V: not saved.  Above, and lost: neither. */
		KUNIT_EXPECT_EQ(test, lsmem_word_change(&store->handles, h, i == 2 ? h->word : 0, word,
							store->handles.cut + (i == 3)), i == 2);
	}
	KUNIT_EXPECT_EQ(test, bitmap_weight(lsmem_livemap_chunk(copy, nr), LSMEM_CHUNK_BITS), 2);
	KUNIT_EXPECT_EQ(test, snapshot_copy_all(test, copy), 1);
	KUNIT_EXPECT_TRUE(test, snapshot_copied(copy, olds[0]));
	KUNIT_EXPECT_TRUE(test, snapshot_copied(copy, olds[1]));
	KUNIT_EXPECT_EQ(test, snapshot_differs(copy, &store->handles.livemap), 2);
	snapshot_copy_end(test, copy);
}

/* A chunk that is copied stays as it is, whatever changes. */
static void snapshot_test_copied(struct kunit *test)
{
	struct compact_object *o = compact_objects(test), newer;
	struct lsmem_store *store = test->priv;
	struct lsmem_livemap_copy *copy;
	u64 olds[4];
	u32 i;

	for (i = 0; i < 4; i++) {
		compact_put(test, &o[i], 1);
		olds[i] = o[i].word;
	}
	copy = snapshot_copy(test);
	KUNIT_EXPECT_EQ(test, snapshot_copy_all(test, copy), 1);
	KUNIT_EXPECT_EQ(test, snapshot_differs(copy, &store->handles.livemap), 0);
	compact_put(test, &newer, 1);
	KUNIT_EXPECT_FALSE(test, snapshot_copied(copy, newer.word));
	KUNIT_EXPECT_EQ(test, compact_write(store, COMPACT_HEAD, &o[0], 1, 1), 0);
	KUNIT_EXPECT_EQ(test, compact_free(store, &o[1]), 0);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_TRUE(test, snapshot_copied(copy, olds[i]));
	/* Two newer entries and two older ones. */
	KUNIT_EXPECT_EQ(test, snapshot_differs(copy, &store->handles.livemap), 4);
	snapshot_copy_end(test, copy);
}

/**
 * struct snapshot_change - a change as its writer knows it
 * @object: which
 * @version: of the change
 * @word: points to its entry
 */
struct snapshot_change {
	u32 object;
	u64 version;
	u64 word;
};

struct snapshot_writer {
	struct lsmem_store *store;
	struct compact_object *o;
	struct snapshot_change *changes;
	u32 nr;
	bool stop;
	struct rnd_state random;
};

static const char *snapshot_write(void *data)
{
	struct snapshot_writer *w = data;

	while (w->nr < SNAPSHOT_CHANGES && !READ_ONCE(w->stop)) {
		u32 object = lsmem_test_below(&w->random, SNAPSHOT_OBJECTS);

		if (compact_write(w->store, COMPACT_HEAD, &w->o[object], w->nr, 40))
			return "a write failed";
		w->changes[w->nr++] = (struct snapshot_change){
			.object = object,
			.version = lsmem_entry_version(&w->o[object].e),
			.word = w->o[object].word,
		};
		cond_resched();
	}
	return NULL;
}

/* Cuts beside a writer: each has exactly the last entry up to V of each object. */
static void snapshot_test_beside(struct kunit *test)
{
	struct snapshot_writer *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	struct lsmem_frozen *frozen[SNAPSHOT_CUTS];
	struct lsmem_store *store = test->priv;
	struct lsmem_test_thread thread;
	u32 wrong = 0, behind = 0, cut, i;

	KUNIT_ASSERT_NOT_NULL(test, w);
	w->store = store;
	w->o = compact_objects(test);
	w->changes = kunit_kcalloc(test, SNAPSHOT_CHANGES + SNAPSHOT_OBJECTS, sizeof(*w->changes),
				   GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, w->changes);
	lsmem_test_seed(test, &w->random);
	store->snapshots.most = SNAPSHOT_CUTS;
	for (i = 0; i < SNAPSHOT_OBJECTS; i++) {
		compact_put(test, &w->o[i], 40);
		w->changes[w->nr++] = (struct snapshot_change){
			.object = i, .version = lsmem_entry_version(&w->o[i].e), .word = w->o[i].word,
		};
	}
	KUNIT_ASSERT_EQ(test, lsmem_test_start(&thread, snapshot_write, w), 0);
	for (cut = 0; cut < SNAPSHOT_CUTS; cut++) {
		u32 before = READ_ONCE(w->nr);

		frozen[cut] = snapshot_cut(test, 0, 0);
		compact_await(test, READ_ONCE(w->nr) != before || READ_ONCE(w->nr) >= SNAPSHOT_CHANGES);
	}
	WRITE_ONCE(w->stop, true);
	lsmem_test_join(test, &thread);
	for (cut = 0; cut < SNAPSHOT_CUTS; cut++) {
		u64 last[SNAPSHOT_OBJECTS] = { 0 };
		u32 bits[SNAPSHOT_OBJECTS] = { 0 };

		for (i = 0; i < w->nr; i++) {
			const struct snapshot_change *c = &w->changes[i];

			if (c->version > frozen[cut]->window->version)
				continue;
			last[c->object] = c->word;
			bits[c->object] += snapshot_has(frozen[cut], c->word);
		}
		for (i = 0; i < SNAPSHOT_OBJECTS; i++) {
			wrong += bits[i] != 1 || !snapshot_has(frozen[cut], last[i]);
			behind += last[i] != w->o[i].word;
		}
		lsmem_snapshot_end(frozen[cut]);
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
	KUNIT_EXPECT_GT(test, behind, 0);
	kunit_info(test, "%u changes", w->nr);
}

/* What compaction vacates is not free before the snapshot ends; what it has not in it is at once. */
static void snapshot_test_kept(struct kunit *test)
{
	struct compact_object *o = snapshot_fill(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_frozen *frozen = snapshot_cut(test, 0, 0);
	u32 idle = snapshot_idle(store), i;

	compact_all(test);
	KUNIT_EXPECT_EQ(test, compact_counters(store).compactions, 1);
	KUNIT_EXPECT_GT(test, frozen->nr_kept, 0);
	KUNIT_EXPECT_EQ(test, frozen->window->kept, frozen->nr_kept);
	KUNIT_EXPECT_EQ(test, store->snapshots.kept, frozen->nr_kept);
	/* All that was vacated is free or kept back. */
	KUNIT_EXPECT_GT(test, snapshot_idle(store), idle);
	KUNIT_EXPECT_FALSE(test, snapshot_broken(store, frozen));
	for (i = 0; i < SNAPSHOT_NR; i++) {
		KUNIT_EXPECT_TRUE(test, snapshot_has(frozen, o[i].word));
		KUNIT_EXPECT_TRUE(test, compact_same(store, lsmem_word_position(o[i].word), o[i].key,
						     SNAPSHOT_LENGTH));
	}
	idle = snapshot_idle(store);
	lsmem_snapshot_end(frozen);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, idle);
	KUNIT_EXPECT_EQ(test, store->snapshots.kept, 0);
	compact_check_seglets(test);
}

/* The same of cleaning; the segment itself is free, and its place has another salt. */
static void snapshot_test_retired(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_frozen *frozen;
	struct lsmem_segment *seg;
	u32 i, salt, seglet;
	u64 id;

	compact_cleaner(test);
	seg = compact_fill(test, o, SNAPSHOT_NR, SNAPSHOT_LENGTH);
	id = seg->id;
	salt = seg->salt;
	frozen = snapshot_cut(test, 0, 0);
	compact_clean(test, &id, 1);
	KUNIT_EXPECT_GT(test, frozen->nr_kept, 0);
	KUNIT_EXPECT_NE(test, seg->id, id);
	KUNIT_EXPECT_FALSE(test, snapshot_broken(store, frozen));
	for (i = 0; i < SNAPSHOT_NR; i++) {
		seglet = lsmem_word_position(o[i].word) >> LSMEM_POSITION_OFFSET_BITS;
		KUNIT_EXPECT_EQ(test, frozen->salts[seglet], salt);
		KUNIT_EXPECT_TRUE(test, compact_same(store, lsmem_word_position(o[i].word), o[i].key,
						     SNAPSHOT_LENGTH));
	}
	lsmem_snapshot_end(frozen);
	KUNIT_EXPECT_EQ(test, store->snapshots.kept, 0);
}

/* What was vacated before a cut, and waits for its epoch, is not kept back. */
static void snapshot_test_before(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_frozen *frozen = snapshot_cut(test, 0, 0);
	u64 epoch = store->views.info->epoch;
	u32 seglets[2] = { 7, 8 };

	__set_bit(7, frozen->some);
	KUNIT_EXPECT_EQ(test, lsmem_snapshots_keep(store, seglets, 2, epoch, 0, false), 2);
	KUNIT_EXPECT_EQ(test, seglets[0], 7);
	KUNIT_EXPECT_EQ(test, seglets[1], 8);
	KUNIT_EXPECT_EQ(test, store->snapshots.kept, 0);
	lsmem_snapshot_end(frozen);
}

/* DONE: seglets go when all is read that begins before them, and ends in them. */
static void snapshot_test_done(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_frozen *frozen = snapshot_cut(test, 0, 0), *other;
	u64 epoch = store->views.info->epoch + 1;
	u32 free = store->seglets.nr_free, seglets[30], i;
	/* In the order of their segment: numbers are not, and bits are in the first and in the last but one. */
	u32 order[] = { 40, 12, 55, 13, 20 };

	lsmem_test_take_seglets(store, free - 200);	/* the lowest numbers */
	for (i = 0; i < ARRAY_SIZE(order); i++)
		seglets[i] = order[i];
	__set_bit(40, frozen->some);
	__set_bit(13, frozen->some);
	KUNIT_EXPECT_EQ(test, lsmem_snapshots_keep(store, seglets, 5, epoch, 99, false), 0);
	KUNIT_EXPECT_EQ(test, store->snapshots.kept, 5);
	KUNIT_EXPECT_EQ(test, frozen->salts[12], 99);
	KUNIT_EXPECT_EQ(test, lsmem_snapshot_done(frozen, 13), 0);
	KUNIT_EXPECT_EQ(test, store->snapshots.kept, 5);
	/* What begins in 13 ends in 20 at the latest.  In 13 itself an entry can end that begins in 40. */
	KUNIT_EXPECT_EQ(test, lsmem_snapshot_done(frozen, 14), 0);
	KUNIT_EXPECT_EQ(test, store->snapshots.kept, 4);
	KUNIT_EXPECT_FALSE(test, test_bit(20, frozen->kept));
	KUNIT_EXPECT_TRUE(test, test_bit(13, frozen->kept));
	KUNIT_EXPECT_EQ(test, lsmem_snapshot_done(frozen, 40), 0);
	KUNIT_EXPECT_EQ(test, store->snapshots.kept, 4);
	KUNIT_EXPECT_EQ(test, lsmem_snapshot_done(frozen, 3), 0);
	KUNIT_EXPECT_EQ(test, frozen->window->done, 40);
	/* Another snapshot keeps one of them back, too. */
	other = snapshot_cut(test, 0, 0);
	__set_bit(12, other->some);
	seglets[0] = 12;
	KUNIT_EXPECT_EQ(test, lsmem_snapshots_keep(store, seglets, 1, epoch, 99, false), 0);
	store->snapshots.kept--;	/* 12 was kept back before: no segment can retire it twice */
	KUNIT_EXPECT_EQ(test, lsmem_snapshot_done(frozen, 41), 0);
	KUNIT_EXPECT_EQ(test, frozen->nr_kept, 0);
	KUNIT_EXPECT_EQ(test, store->snapshots.kept, 1);
	lsmem_snapshot_end(other);
	KUNIT_EXPECT_EQ(test, store->snapshots.kept, 0);
	/* An entry reaches so far, and no further: what is behind is free at once. */
	for (i = 0; i < 30; i++)
		seglets[i] = 100 + i;
	__set_bit(100, frozen->some);
	KUNIT_EXPECT_EQ(test, lsmem_snapshots_keep(store, seglets, 30, epoch, 99, false), 13);
	KUNIT_EXPECT_EQ(test, seglets[0], 117);
	KUNIT_EXPECT_EQ(test, store->snapshots.kept, 17);
	lsmem_snapshot_end(frozen);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, free - 200 + 5 + 17);
	lsmem_test_put_seglets(store, 200);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, free);
}

/* The three causes of a revocation; what was kept back is free although the snapshot is open. */
static void snapshot_test_revoked(struct kunit *test)
{
	static const u32 states[] = { LSMEM_SNAPSHOT_KEPT, LSMEM_SNAPSHOT_TIME, LSMEM_SNAPSHOT_SPACE };
	struct lsmem_store *store = test->priv;
	u32 i;

	snapshot_fill(test);
	for (i = 0; i < ARRAY_SIZE(states); i++) {
		struct lsmem_frozen *frozen = snapshot_cut(test, states[i] == LSMEM_SNAPSHOT_KEPT ? 3 : 0,
							   states[i] == LSMEM_SNAPSHOT_TIME ? 1 : 0);
		struct lsmem_frozen *other = snapshot_cut(test, 0, 0);
		struct compact_object o[SNAPSHOT_NR / 8];

		KUNIT_EXPECT_EQ(test, store->snapshots.kept, 0);
		compact_all(test);
		if (states[i] == LSMEM_SNAPSHOT_SPACE)
			lsmem_snapshots_press(store);
		compact_await(test, READ_ONCE(frozen->window->state) == states[i]);
		compact_await(test, !READ_ONCE(frozen->nr_kept));
		KUNIT_EXPECT_EQ(test, lsmem_snapshot_done(frozen, 1), -ECANCELED);
		KUNIT_EXPECT_EQ(test, other->window->state, states[i] == LSMEM_SNAPSHOT_SPACE ?
				LSMEM_SNAPSHOT_SPACE : LSMEM_SNAPSHOT_STANDS);
		if (i)
			KUNIT_EXPECT_GE(test, store->snapshots.revoked, i + 1);
		lsmem_snapshot_end(frozen);
		lsmem_snapshot_end(other);
		KUNIT_EXPECT_EQ(test, store->snapshots.kept, 0);
		/* Garbage for the next one. */
		compact_fill(test, o, ARRAY_SIZE(o), SNAPSHOT_LENGTH);
		KUNIT_ASSERT_EQ(test, compact_free(store, &o[0]), 0);
	}
	compact_check_seglets(test);
}

/* A writer takes seglets until few are free. */
static void snapshot_test_pressed(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_frozen *frozen;
	struct compact_object o;
	u32 taken;

	snapshot_fill(test);
	frozen = snapshot_cut(test, 0, 0);
	compact_all(test);
	KUNIT_ASSERT_GT(test, frozen->nr_kept, 0);
	taken = lsmem_test_take_seglets(store, store->space.throttle_below + 2);
	while (READ_ONCE(store->seglets.nr_free) > store->space.throttle_below) {
		KUNIT_ASSERT_EQ(test, frozen->window->state, LSMEM_SNAPSHOT_STANDS);
		compact_put(test, &o, SNAPSHOT_LENGTH);
	}
	while (frozen->window->state == LSMEM_SNAPSHOT_STANDS &&
	       READ_ONCE(store->seglets.nr_free) + 3 > store->space.throttle_below)
		compact_put(test, &o, SNAPSHOT_LENGTH);
	KUNIT_EXPECT_EQ(test, frozen->window->state, LSMEM_SNAPSHOT_SPACE);
	compact_await(test, !READ_ONCE(store->snapshots.kept));
	lsmem_snapshot_end(frozen);
	/* Nothing may be kept back of so few. */
	lsmem_test_take_seglets(store, store->space.throttle_below);
	frozen = lsmem_snapshot_new(store);
	KUNIT_ASSERT_FALSE(test, IS_ERR(frozen));
	KUNIT_EXPECT_EQ(test, lsmem_snapshot_cut(frozen, 0, 0), -ENOSPC);
	lsmem_snapshot_end(frozen);
	lsmem_test_put_seglets(store, store->seglets.nr);
	KUNIT_EXPECT_GT(test, taken, 0);
}

/* What is kept back is missing to the cleaners: few seglets are free, and no writer takes any. */
static void snapshot_test_danger(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_frozen *frozen = snapshot_cut(test, 0, 0);
	u64 epoch = store->views.info->epoch + 1;
	u32 free = store->seglets.nr_free, seglet = 0;

	lsmem_test_take_seglets(store, store->space.throttle_below);
	__set_bit(seglet, frozen->some);
	KUNIT_EXPECT_EQ(test, lsmem_snapshots_keep(store, &seglet, 1, epoch, 0, false), 0);
	KUNIT_EXPECT_EQ(test, frozen->window->state, LSMEM_SNAPSHOT_STANDS);
	seglet = 1;
	lsmem_test_take_seglets(store, store->space.throttle_below - 1);
	__set_bit(seglet, frozen->some);
	KUNIT_EXPECT_EQ(test, lsmem_snapshots_keep(store, &seglet, 1, epoch, 0, false), 0);
	KUNIT_EXPECT_EQ(test, frozen->window->state, LSMEM_SNAPSHOT_SPACE);
	compact_await(test, !READ_ONCE(store->snapshots.kept));
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, store->space.throttle_below + 1);
	lsmem_snapshot_end(frozen);
	lsmem_test_put_seglets(store, store->seglets.nr);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, free);
}

/* Revocations by time, by writers and by the end of the snapshot meet. */
static void snapshot_test_end(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	u64 epoch = store->views.info->epoch + 1;
	u32 free = store->seglets.nr_free, i, left = 0;

	for (i = 0; i < SNAPSHOT_ENDS; i++) {
		struct lsmem_frozen *frozen = snapshot_cut(test, 0, i % 3 ? 1 : 0);
		u32 seglets[8], j;

		for (j = 0; j < ARRAY_SIZE(seglets); j++) {
			int seglet = lsmem_seglet_get(&store->seglets, 0, LSMEM_TAKER_CLEANER);

			KUNIT_ASSERT_GE(test, seglet, 0);
			seglets[j] = seglet;
			__set_bit(seglet, frozen->some);
		}
		left = lsmem_snapshots_keep(store, seglets, ARRAY_SIZE(seglets), epoch, 0, false);
		/* Its time is over already, or it keeps them back. */
		KUNIT_EXPECT_TRUE(test, !left || left == ARRAY_SIZE(seglets));
		lsmem_seglets_put(&store->seglets, seglets, left);
		if (i % 2)
			lsmem_snapshots_press(store);
		if (i % 5 == 0)
			lsmem_snapshot_done(frozen, seglets[4]);
		lsmem_snapshot_end(frozen);
		KUNIT_ASSERT_EQ(test, store->seglets.nr_free, free);
		KUNIT_ASSERT_EQ(test, store->snapshots.kept, 0);
	}
}

/* So many and no more. */
static void snapshot_test_few(struct kunit *test)
{
	struct lsmem_frozen *frozen[LSMEM_SNAPSHOTS_MAX];
	struct lsmem_store *store = test->priv;
	u32 i;

	for (i = 0; i < LSMEM_SNAPSHOTS_MAX; i++)
		frozen[i] = snapshot_cut(test, 0, 0);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(lsmem_snapshot_new(store)), -EBUSY);
	lsmem_snapshot_end(frozen[1]);
	frozen[1] = snapshot_cut(test, 0, 0);
	for (i = 0; i < LSMEM_SNAPSHOTS_MAX; i++)
		lsmem_snapshot_end(frozen[i]);
}

/* A copy ends when a writer waits for space, and nothing is left of it. */
static void snapshot_test_stalled(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_frozen *frozen = lsmem_snapshot_new(store);

	KUNIT_ASSERT_FALSE(test, IS_ERR(frozen));
	atomic_inc(&store->space.stalled);
	KUNIT_EXPECT_EQ(test, lsmem_snapshot_cut(frozen, 0, 0), -ENOSPC);
	atomic_dec(&store->space.stalled);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(store->snapshots.copying));
	KUNIT_EXPECT_PTR_EQ(test, (void *)store->handles.livemap.saved, NULL);
	lsmem_snapshot_end(frozen);
	lsmem_snapshot_end(snapshot_cut(test, 0, 0));
}

/**
 * struct snapshot_watch - how long a cut lets cleaners rest
 * @store: the store
 * @stop: set by the test
 * @first: when they were seen to rest, ktime in ns; 0: they were not yet
 * @last: when they still did
 */
struct snapshot_watch {
	struct lsmem_store *store;
	bool stop;
	u64 first;
	u64 last;
};

/* See cleaners rest, and have them rest for long: the cut waits for a reader that was there before. */
static const char *snapshot_watch(void *data)
{
	struct snapshot_watch *w = data;
	u64 now, end;

	while (!READ_ONCE(w->stop) && !w->first) {
		rcu_read_lock();
		end = ktime_get_ns() + SNAPSHOT_REST / 2;
		/* After the first look that finds them at rest, for SNAPSHOT_REST more. */
		while ((now = ktime_get_ns()) < end && !READ_ONCE(w->stop)) {
			if (!READ_ONCE(w->store->snapshots.copying)) {
				if (w->first)
					break;
				cpu_relax();
				continue;
			}
			if (!w->first) {
				w->first = ktime_get_ns();	/* after the look; w->last is before one */
				end = w->first + SNAPSHOT_REST;
			}
			w->last = now;
		}
		rcu_read_unlock();
		cond_resched();
	}
	return NULL;
}

/*
 * After a cut cleaners have eight times as long as they rested before the next one begins.  That they rested from
 * one time to another is seen from beside: by an account that has less, the next cut begins too early.
 */
static void snapshot_test_pace(struct kunit *test)
{
	struct snapshot_watch *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	struct lsmem_store *store = test->priv;
	struct lsmem_test_thread thread;
	u64 begin, next, rested = 0;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, w);
	for (i = 0; i < SNAPSHOT_PACES && rested < SNAPSHOT_REST / 2; i++) {
		*w = (struct snapshot_watch){ .store = store };
		KUNIT_ASSERT_EQ(test, lsmem_test_start(&thread, snapshot_watch, w), 0);
		next = store->snapshots.next_cut;
		begin = ktime_get_ns();
		lsmem_snapshot_end(snapshot_cut(test, 0, 0));
		WRITE_ONCE(w->stop, true);
		lsmem_test_join(test, &thread);
		rested = w->last > w->first ? w->last - w->first : 0;
		KUNIT_EXPECT_GE(test, ktime_get_ns(), next);
		KUNIT_EXPECT_GT(test, store->snapshots.next_cut, begin);
		KUNIT_EXPECT_TRUE(test, !w->first || w->first >= next);
		KUNIT_EXPECT_GE(test, store->snapshots.next_cut, w->last + 8 * rested);
	}
	kunit_info(test, "%llu us of rest seen, of cut %u", rested / NSEC_PER_USEC, i);
	/* With one processor a grace period is over at once. */
	if (num_online_cpus() > 1)
		KUNIT_EXPECT_GE(test, rested, SNAPSHOT_REST / 2);
	/* However long it takes. */
	next = ktime_get_ns() + 10 * SNAPSHOT_REST;
	store->snapshots.next_cut = next;
	lsmem_snapshot_end(snapshot_cut(test, 0, 0));
	KUNIT_EXPECT_GE(test, ktime_get_ns(), next);
}

/* Nothing moves while the bitmap is copied; then what waits goes on. */
static void snapshot_test_rest(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct compact_object *o;
	u32 i, moved = 0;

	WRITE_ONCE(store->snapshots.copying, true);
	o = snapshot_fill(test);
	compact_ask(store, COMPACT_ALL);
	compact_await(test, compact_busy(store));
	schedule_timeout_uninterruptible(HZ / 10);	/* nothing tells what does not happen */
	for (i = 0; i < SNAPSHOT_NR; i++)
		moved += READ_ONCE(compact_handle(store, &o[i])->word) != o[i].word;
	KUNIT_EXPECT_EQ(test, moved, 0);
	WRITE_ONCE(store->snapshots.copying, false);
	wake_up_all(&store->plan.work);
	compact_await(test, compact_counters(store).compactions == 1);
}

static struct kunit_case snapshot_cases[] = {
	KUNIT_CASE(snapshot_test_cut),
	KUNIT_CASE(snapshot_test_mark),
	KUNIT_CASE(snapshot_test_saved),
	KUNIT_CASE(snapshot_test_copied),
	KUNIT_CASE(snapshot_test_beside),
	KUNIT_CASE(snapshot_test_kept),
	KUNIT_CASE(snapshot_test_retired),
	KUNIT_CASE(snapshot_test_before),
	KUNIT_CASE(snapshot_test_done),
	KUNIT_CASE(snapshot_test_revoked),
	KUNIT_CASE(snapshot_test_pressed),
	KUNIT_CASE(snapshot_test_danger),
	KUNIT_CASE(snapshot_test_end),
	KUNIT_CASE(snapshot_test_few),
	KUNIT_CASE(snapshot_test_stalled),
	KUNIT_CASE(snapshot_test_pace),
	KUNIT_CASE(snapshot_test_rest),
	{}
};

static struct kunit_suite snapshot_suite = {
	.name = "lsmem-snapshot",
	.init = compact_init,
	.exit = snapshot_exit,
	.test_cases = snapshot_cases,
};

kunit_test_suites(&snapshot_suite);
