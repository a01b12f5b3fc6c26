// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: which segments are told (words.c), where the order of a call and of what changes a segment meanwhile matters: a
 * victim, a segment that changes while it is told in parts, and one that is damaged.
 */
#include <linux/uaccess.h>

#include "compaction.h"
#include "../evict.h"
#include "../rest.h"
#include "../words.h"

#define WORDS_NR	6u	/* objects of a test */
#define WORDS_LENGTH	1000u

static struct lsmem_telling *words_telling;
static struct lsmem_listing __user *words_room;
static struct lsmem_listing words_told[WORDS_NR + 1];

static const struct lsmem_test_shape words_tiered_shape = {
	.segments = 8, .heads = 3, .handles = COMPACT_OBJECTS, .durable = true, .tiered = true,
};

/* The store of a test is there. */
static int words_ready(struct kunit *test)
{
	struct lsmem_store *store = test->priv;

	store->state = LSMEM_STATE_ACTIVE;
	words_telling = kunit_kzalloc(test, sizeof(*words_telling), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, words_telling);
	words_room = lsmem_test_user(test, PAGE_SIZE);
	return 0;
}

static int words_init(struct kunit *test)
{
	compact_init(test);
	return words_ready(test);
}

static int words_tiered_init(struct kunit *test)
{
	compact_store(test, &words_tiered_shape, LSMEM_TEST_RESERVE);
	return words_ready(test);
}

/* Write objects to a segment, and close it. */
static struct lsmem_segment *words_fill(struct kunit *test, struct compact_object *o)
{
	u32 i;

	for (i = 0; i < WORDS_NR; i++)
		compact_put(test, &o[i], WORDS_LENGTH);
	return compact_close(test);
}

/* Have words told, until some are of @seg, or there are none; at most @room. What was told is in words_told. */
static struct lsmem_words words_next(struct kunit *test, const struct lsmem_segment *seg, u32 flags, u32 room)
{
	struct lsmem_words words;

	do {
		words = (struct lsmem_words){
			.size = sizeof(words), .flags = flags, .nr = room, .listings = (uintptr_t)words_room,
		};
		KUNIT_ASSERT_EQ(test, lsmem_words(test->priv, words_telling, &words), 0);
		flags = 0;
	} while (words.segment && words.segment != seg->id);
	KUNIT_ASSERT_LE(test, words.nr, room);
	KUNIT_ASSERT_EQ(test, copy_from_user(words_told, words_room, words.nr * sizeof(*words_told)), 0);
	return words;
}

/* What is told are the objects of @o from @from on, as many as @words says, at their places. */
static void words_check(struct kunit *test, const struct lsmem_words *words, const struct lsmem_segment *seg,
			const struct compact_object *o, u32 from)
{
	u32 i;

	KUNIT_EXPECT_EQ(test, words->segment, seg->id);
	KUNIT_EXPECT_EQ(test, words->generation, seg->generation);
	KUNIT_EXPECT_EQ(test, words->end, seg->home);
	for (i = 0; i < words->nr; i++) {
		KUNIT_EXPECT_EQ(test, le64_to_cpu(words_told[i].key), o[from + i].handle);
		KUNIT_EXPECT_EQ(test, le64_to_cpu(words_told[i].place), lsmem_word_position(o[from + i].word));
	}
}

static void words_state(struct lsmem_store *store, struct lsmem_segment *seg, u32 state)
{
	spin_lock(&store->segments.lock);
	seg->state = state;
	spin_unlock(&store->segments.lock);
}

static void words_changed(struct lsmem_store *store, struct lsmem_segment *seg, bool again)
{
	spin_lock(&store->segments.lock);
	lsmem_segment_changed(store, seg, again);
	spin_unlock(&store->segments.lock);
}

/* A segment in a pass is not told, and is when it leaves that. */
static void words_test_victim(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = words_fill(test, o);
	struct lsmem_words words;

	words_state(store, seg, LSMEM_SEGMENT_VICTIM);
	words = words_next(test, seg, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, 0);
	KUNIT_EXPECT_EQ(test, words.left, 1);
	words_state(store, seg, LSMEM_SEGMENT_CLOSED);
	words = words_next(test, seg, 0, 2);
	KUNIT_EXPECT_EQ(test, words.nr, 2);
	KUNIT_EXPECT_EQ(test, words.state, LSMEM_WORDS_MORE);
	words_check(test, &words, seg, o, 0);
	/* Taken between two calls: what is left of it waits. */
	words_state(store, seg, LSMEM_SEGMENT_VICTIM);
	words = words_next(test, seg, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, 0);
	words_state(store, seg, LSMEM_SEGMENT_CLOSED);
	words = words_next(test, seg, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.nr, WORDS_NR - 2);
	KUNIT_EXPECT_EQ(test, words.state, 0);
	words_check(test, &words, seg, o, 2);
	words = words_next(test, seg, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, 0);
	KUNIT_EXPECT_EQ(test, words.left, 0);
}

/* What has changed while it was told in parts is told from the beginning, and only then is it told to its end. */
static void words_test_again(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = words_fill(test, o);
	struct lsmem_words words = words_next(test, seg, LSMEM_WORDS_BEGIN, 2);

	KUNIT_EXPECT_EQ(test, words.nr, 2);
	words_changed(store, seg, true);
	words = words_next(test, seg, 0, 3);
	KUNIT_EXPECT_EQ(test, words.nr, 3);
	words_check(test, &words, seg, o, 0);
	words_changed(store, seg, false);	/* nothing new */
	words = words_next(test, seg, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.nr, WORDS_NR - 3);
	words_check(test, &words, seg, o, 3);
	words = words_next(test, seg, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, 0);
	words = words_next(test, seg, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.nr, WORDS_NR);
	words_check(test, &words, seg, o, 0);
}

/* A compaction has a segment told anew, with other places. */
static void words_test_compact(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg;
	struct lsmem_words words;
	u64 place;
	u32 i;

	for (i = 0; i < WORDS_NR; i++) {
		compact_garbage(test, LSMEM_SEGLET_BYTES);
		compact_put(test, &o[i], WORDS_LENGTH);
	}
	seg = compact_close(test);
	words = words_next(test, seg, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_ASSERT_EQ(test, words.nr, WORDS_NR);
	words_check(test, &words, seg, o, 0);
	place = lsmem_word_position(o[1].word);
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	compact_all(test);
	for (i = 0; i < WORDS_NR; i++)
		o[i].word = compact_handle(store, &o[i])->word;
	KUNIT_EXPECT_NE(test, lsmem_word_position(o[1].word), place);
	words = words_next(test, seg, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.nr, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.state, 0);
	words_check(test, &words, seg, o, 0);
	words = words_next(test, seg, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, 0);
}

/* What was damaged is said to be so, whether a header, or the way past live entries. */
static void words_test_damage(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = words_fill(test, o);
	struct lsmem_entry *e = lsmem_word_entry(&store->seglets, o[2].word), right = *e;
	struct lsmem_words words;

	e->meta = cpu_to_le32(~0u);
	words = words_next(test, seg, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, seg->id);
	KUNIT_EXPECT_EQ(test, words.state, LSMEM_WORDS_DAMAGED);
	words = words_next(test, seg, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, 0);	/* it is not told for ever */
	*e = right;
	seg->entries++;
	words = words_next(test, seg, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.state, LSMEM_WORDS_DAMAGED);
	seg->entries--;
	words = words_next(test, seg, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.state, 0);
	words_check(test, &words, seg, o, 0);
	WRITE_ONCE(seg->damaged, true);
	words = words_next(test, seg, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.state, LSMEM_WORDS_DAMAGED);
}

/* Objects leave memory: nothing of them is told there, and their listings are said to be cold. */
static void words_test_evict(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = words_fill(test, o);
	struct lsmem_words words = words_next(test, seg, LSMEM_WORDS_BEGIN, WORDS_NR + 1);
	struct lsmem_rest rest = { };
	u32 i;

	KUNIT_ASSERT_EQ(test, words.nr, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.cold, 0);
	KUNIT_EXPECT_EQ(test, words.state, 0);	/* to its end, the commit record */
	words_state(store, seg, LSMEM_SEGMENT_COMPACTING);
	KUNIT_EXPECT_TRUE(test, lsmem_evict(store, seg, true, &rest));
	set_user_nice(current, 0);	/* what it has changed */
	words_state(store, seg, LSMEM_SEGMENT_CLOSED);
	words = words_next(test, seg, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, seg->id);
	KUNIT_EXPECT_EQ(test, words.nr, 0);
	KUNIT_EXPECT_EQ(test, words.cold, WORDS_NR * lsmem_entry_size(WORDS_LENGTH));
	words = (struct lsmem_words){
		.size = sizeof(words), .flags = LSMEM_WORDS_PLACES, .segment = seg->id, .nr = WORDS_NR,
		.listings = (uintptr_t)words_room,
	};
	/* The room still has what was told before. */
	KUNIT_ASSERT_EQ(test, lsmem_words(store, words_telling, &words), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(words_told, words_room, WORDS_NR * sizeof(*words_told)), 0);
	for (i = 0; i < WORDS_NR; i++) {
		KUNIT_EXPECT_EQ(test, le64_to_cpu(words_told[i].key), o[i].handle);
		KUNIT_EXPECT_EQ(test, le64_to_cpu(words_told[i].place), LSMEM_PLACE_COLD);
	}
}

static struct kunit_case words_tiered_cases[] = {
	KUNIT_CASE(words_test_evict),
	{ }
};

static struct kunit_suite words_tiered_suite = {
	.name = "lsmem_words_tiered",
	.init = words_tiered_init,
	.exit = compact_exit,
	.test_cases = words_tiered_cases,
};

static struct kunit_case words_cases[] = {
	KUNIT_CASE(words_test_victim),
	KUNIT_CASE(words_test_again),
	KUNIT_CASE(words_test_compact),
	KUNIT_CASE(words_test_damage),
	{ }
};

static struct kunit_suite words_suite = {
	.name = "lsmem_words",
	.init = words_init,
	.exit = compact_exit,
	.test_cases = words_cases,
};

kunit_test_suites(&words_suite, &words_tiered_suite);
