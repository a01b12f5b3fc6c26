// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: the live bitmap.  Each change of a word sets and clears the bits that it must, and no others;
 * at the end of these tests, as of those of compaction, fetches and groups, compact_exit() compares all
 * of the bitmap with all words.
 */
#include <linux/bitmap.h>

#include "compaction.h"
#include "fixture.h"
#include "../object.h"

#define LIVEMAP_NR	256u	/* entries of a test, in one segment */

/* How many bits are set. */
static u64 livemap_weight(struct lsmem_store *store)
{
	const struct lsmem_livemap *livemap = &store->handles.livemap;

	return bitmap_weight(livemap->bits, livemap->bytes * BITS_PER_BYTE);
}

/* Is the bit set at the place that a word points to, or pointed to? */
static bool livemap_has(struct lsmem_store *store, u64 word)
{
	return test_bit(lsmem_word_position(word) / 4, store->handles.livemap.bits);
}

/* Are bits set in seglets that are free? */
static bool livemap_free(struct lsmem_store *store)
{
	u32 i;

	for (i = 0; i < store->seglets.nr; i++)
		if (store->seglets.owner[i] == LSMEM_NO_SEGLET &&
		    find_next_bit(store->handles.livemap.bits, (i + 1ul) * 2048, i * 2048ul) <
		    (i + 1ul) * 2048)
			return true;
	return false;
}

/* No two entries have one bit, wherever they begin; the last place of the store has one. */
static void livemap_test_bits(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	u64 last = ((u64)store->seglets.nr << LSMEM_POSITION_OFFSET_BITS) - LSMEM_LONG_BYTES / LSMEM_ALIGN;
	u64 at;

	KUNIT_EXPECT_EQ(test, lsmem_entry_size(1), 32);
	for (at = 0; at < 64; at++)	/* in units of 8 bytes */
		KUNIT_EXPECT_EQ(test, lsmem_livemap_bit(at + 4), lsmem_livemap_bit(at) + 1);
	KUNIT_EXPECT_EQ(test, lsmem_livemap_bit(last) + 1, store->seglets.nr * 2048ull);
	KUNIT_EXPECT_GE(test, store->handles.livemap.bytes * BITS_PER_BYTE, lsmem_livemap_bit(last) + 1);
	/* 0.39 % of the log */
	KUNIT_EXPECT_EQ(test, store->handles.livemap.bytes, store->bytes / 256);
}

/* Neighbours of the smallest size: each change changes its own bits. */
static void livemap_test_changes(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	u32 i;

	for (i = 0; i < LIVEMAP_NR; i++) {
		compact_put(test, &o[i], 1);
		KUNIT_ASSERT_TRUE(test, livemap_has(store, o[i].word));
		KUNIT_ASSERT_EQ(test, livemap_weight(store), i + 1);
	}
	for (i = 0; i < LIVEMAP_NR; i += 2) {
		u64 old = o[i].word;

		KUNIT_ASSERT_EQ(test, compact_write(store, COMPACT_HEAD, &o[i], i, 1 + i), 0);
		KUNIT_EXPECT_FALSE(test, livemap_has(store, old));
		KUNIT_EXPECT_TRUE(test, livemap_has(store, o[i].word));
		KUNIT_ASSERT_EQ(test, livemap_weight(store), LIVEMAP_NR);
	}
	for (i = 0; i < LIVEMAP_NR; i++) {
		KUNIT_ASSERT_EQ(test, compact_free(store, &o[i]), 0);
		KUNIT_EXPECT_FALSE(test, livemap_has(store, o[i].word));
		KUNIT_ASSERT_EQ(test, livemap_weight(store), LIVEMAP_NR - 1 - i);
	}
}

/* An exchange that is lost: the object keeps its bit, and the entry that is padding then has none. */
static void livemap_test_lost(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct compact_object o, other;
	struct lsmem_handle *h;
	u64 word;

	compact_put(test, &o, 100);
	compact_put(test, &other, 100);
	KUNIT_ASSERT_EQ(test, compact_free(store, &other), 0);
	h = compact_handle(store, &o);
	word = h->word;
	KUNIT_EXPECT_FALSE(test, lsmem_word_exchange(&store->handles, h,
						     lsmem_word_next(word, LSMEM_WORD_LIVE,
								     lsmem_word_position(word)),
						     other.word));
	KUNIT_EXPECT_EQ(test, h->word, word);
	KUNIT_EXPECT_TRUE(test, livemap_has(store, word));
	KUNIT_EXPECT_FALSE(test, livemap_has(store, other.word));
}

/* Compaction and then cleaning move all that is live: the bits go with it, and stay nowhere. */
static void livemap_test_carried(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg;
	u64 id, word;
	u32 i;

	compact_cleaner(test);
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	seg = compact_fill(test, o, LIVEMAP_NR, 1000);
	id = seg->id;
	compact_all(test);
	KUNIT_EXPECT_EQ(test, compact_counters(store).compactions, 1);
	for (i = 0; i < LIVEMAP_NR; i++) {
		word = READ_ONCE(compact_handle(store, &o[i])->word);
		/* Its place is another seglet, at least. */
		KUNIT_EXPECT_NE(test, word, o[i].word);
		KUNIT_EXPECT_TRUE(test, livemap_has(store, word));
		o[i].word = word;
	}
	KUNIT_EXPECT_EQ(test, livemap_weight(store), LIVEMAP_NR);
	compact_await(test, !compact_ring(store));
	KUNIT_EXPECT_FALSE(test, livemap_free(store));
	for (i = 0; i < LIVEMAP_NR; i += 2)
		KUNIT_ASSERT_EQ(test, compact_free(store, &o[i]), 0);
	compact_clean(test, &id, 1);
	for (i = 1; i < LIVEMAP_NR; i += 2) {
		word = READ_ONCE(compact_handle(store, &o[i])->word);
		KUNIT_EXPECT_NE(test, word, o[i].word);
		KUNIT_EXPECT_TRUE(test, livemap_has(store, word));
	}
	KUNIT_EXPECT_EQ(test, livemap_weight(store), LIVEMAP_NR / 2);
	KUNIT_EXPECT_FALSE(test, livemap_free(store));
}

static struct kunit_case livemap_cases[] = {
	KUNIT_CASE(livemap_test_bits),
	KUNIT_CASE(livemap_test_changes),
	KUNIT_CASE(livemap_test_lost),
	KUNIT_CASE(livemap_test_carried),
	{}
};

static struct kunit_suite livemap_suite = {
	.name = "lsmem-livemap",
	.init = compact_init,
	.exit = compact_exit,
	.test_cases = livemap_cases,
};

kunit_test_suites(&livemap_suite);
