// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: which segments are told (words.c), where the order of a call and of what changes a segment meanwhile matters: a
 * victim, a segment that changes while it is told in parts, and one that is damaged.
 */
#include <linux/uaccess.h>

#include "compaction.h"
#include "../words.h"

#define WORDS_NR	6u	/* objects of a test */
#define WORDS_LENGTH	1000u

static struct lsmem_telling *words_telling;
static struct lsmem_listing __user *words_room;
static struct lsmem_listing words_told[WORDS_NR + 1];

static int words_init(struct kunit *test)
{
	struct lsmem_store *store;

	compact_durable_init(test);
	store = test->priv;
	store->state = LSMEM_STATE_ACTIVE;
	words_telling = kunit_kzalloc(test, sizeof(*words_telling), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, words_telling);
	words_room = lsmem_test_user(test, PAGE_SIZE);
	return 0;
}

/* Have some words told; at most @room. What was told is in words_told. */
static struct lsmem_words words_next(struct kunit *test, u32 flags, u32 room)
{
	struct lsmem_words words = {
		.size = sizeof(words), .flags = flags, .nr = room, .listings = (uintptr_t)words_room,
	};

	KUNIT_ASSERT_EQ(test, lsmem_words(test->priv, words_telling, &words), 0);
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
	struct lsmem_segment *seg = compact_fill(test, o, WORDS_NR, WORDS_LENGTH);
	struct lsmem_words words;

	words_state(store, seg, LSMEM_SEGMENT_VICTIM);
	words = words_next(test, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, 0);
	KUNIT_EXPECT_EQ(test, words.left, 1);
	words_state(store, seg, LSMEM_SEGMENT_CLOSED);
	words = words_next(test, 0, 2);
	KUNIT_EXPECT_EQ(test, words.nr, 2);
	KUNIT_EXPECT_EQ(test, words.state, LSMEM_WORDS_MORE);
	words_check(test, &words, seg, o, 0);
	/* Taken between two calls: what is left of it waits. */
	words_state(store, seg, LSMEM_SEGMENT_VICTIM);
	words = words_next(test, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, 0);
	words_state(store, seg, LSMEM_SEGMENT_CLOSED);
	words = words_next(test, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.nr, WORDS_NR - 2);
	KUNIT_EXPECT_EQ(test, words.state, 0);
	words_check(test, &words, seg, o, 2);
	words = words_next(test, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, 0);
	KUNIT_EXPECT_EQ(test, words.left, 0);
}

/* What has changed while it was told in parts is told from the beginning, and only then is it told to its end. */
static void words_test_again(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = compact_fill(test, o, WORDS_NR, WORDS_LENGTH);
	struct lsmem_words words = words_next(test, LSMEM_WORDS_BEGIN, 2);

	KUNIT_EXPECT_EQ(test, words.nr, 2);
	words_changed(store, seg, true);
	words = words_next(test, 0, 3);
	KUNIT_EXPECT_EQ(test, words.nr, 3);
	words_check(test, &words, seg, o, 0);
	words_changed(store, seg, false);	/* nothing new */
	words = words_next(test, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.nr, WORDS_NR - 3);
	words_check(test, &words, seg, o, 3);
	words = words_next(test, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, 0);
	words = words_next(test, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.nr, WORDS_NR);
	words_check(test, &words, seg, o, 0);
}

/* A compaction has a segment told anew, with other places; tombstones are told while they are needed. */
static void words_test_compact(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg, *old;
	struct lsmem_entry e[2];
	struct lsmem_words words;
	u32 i;

	old = compact_fill(test, o, 1, WORDS_LENGTH);
	compact_tombstone(test, old->id + 1, &e[0]);
	compact_tombstone(test, old->id, &e[1]);	/* nothing older is left */
	seg = compact_fill(test, o + 1, WORDS_NR - 1, LSMEM_SEGLET_BYTES);
	words = words_next(test, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, old->id);
	words = words_next(test, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, seg->id);
	KUNIT_ASSERT_EQ(test, words.nr, WORDS_NR);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(words_told[0].key), lsmem_entry_handle(&e[0]));
	KUNIT_EXPECT_EQ(test, le64_to_cpu(words_told[0].place), old->id + 1);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(words_told[1].key), o[1].handle);
	KUNIT_ASSERT_EQ(test, lsmem_test_compactors(store), 0);
	compact_all(test);
	for (i = 1; i < WORDS_NR; i++)
		o[i].word = compact_handle(store, &o[i])->word;
	do
		words = words_next(test, 0, WORDS_NR);
	while (words.segment && words.segment != seg->id);
	KUNIT_ASSERT_EQ(test, words.nr, WORDS_NR);
	for (i = 1; i < WORDS_NR; i++) {
		KUNIT_EXPECT_EQ(test, le64_to_cpu(words_told[i].key), o[i].handle);
		KUNIT_EXPECT_EQ(test, le64_to_cpu(words_told[i].place), lsmem_word_position(o[i].word));
	}
	compact_free(store, &o[2]);
	words_changed(store, seg, true);
	words = words_next(test, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.nr, WORDS_NR - 1);
}

/* What was damaged is said to be so, whether a header, or the way past live entries. */
static void words_test_damage(struct kunit *test)
{
	struct compact_object *o = compact_objects(test);
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = compact_fill(test, o, WORDS_NR, WORDS_LENGTH);
	struct lsmem_entry *e = lsmem_word_entry(&store->seglets, o[2].word), right = *e;
	struct lsmem_words words;

	e->meta = cpu_to_le32(~0u);
	words = words_next(test, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, seg->id);
	KUNIT_EXPECT_EQ(test, words.state, LSMEM_WORDS_DAMAGED);
	words = words_next(test, 0, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.segment, 0);	/* it is not told for ever */
	*e = right;
	seg->entries++;
	words = words_next(test, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.state, LSMEM_WORDS_DAMAGED);
	seg->entries--;
	words = words_next(test, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.state, 0);
	words_check(test, &words, seg, o, 0);
	WRITE_ONCE(seg->damaged, true);
	words = words_next(test, LSMEM_WORDS_BEGIN, WORDS_NR);
	KUNIT_EXPECT_EQ(test, words.state, LSMEM_WORDS_DAMAGED);
}

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

kunit_test_suite(words_suite);
