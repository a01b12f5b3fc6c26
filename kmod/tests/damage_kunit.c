// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: damaged entries, with the compactors and the cleaner of the module: a damaged segment is found,
 * and nothing of it is lost.
 */
#include "compaction.h"
#include "../clean.h"

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
			KUNIT_EXPECT_EQ(test, lsmem_clean_ask(store, &t[i].id, &one, false), -ENOENT);
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

/* Room for the segments that are damaged together; what is to find the damage runs from now on. */
static struct compact_target *compact_targets(struct kunit *test, bool clean)
{
	struct compact_target *t = kunit_kcalloc(test, COMPACT_TARGETS, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	if (clean)
		compact_cleaner(test);
	else
		KUNIT_ASSERT_EQ(test, lsmem_test_compactors(test->priv), 0);
	return t;
}

/*
 * Whichever bit of an entry that must stay is flipped, compaction and cleaning find the segment damaged,
 * leave it in the log and the entry in its place: of the tombstone in a durable store, else of an object
 * of @length.  @header, @all: as compact_next().
 */
static void compact_flip_each(struct kunit *test, bool clean, u32 length, u32 header, u32 all)
{
	struct compact_target *t = compact_targets(test, clean);
	struct lsmem_store *store = test->priv;
	struct rnd_state random;
	u32 bit = 0, nr, i;

	lsmem_test_seed(test, &random);
	while (bit < all) {
		u8 *entry[COMPACT_TARGETS];

		for (nr = 0; nr < COMPACT_TARGETS && bit < all; nr++) {
			compact_target(test, &t[nr], length);
			entry[nr] = store->durable ? t[nr].dead :
				    (u8 *)lsmem_word_entry(&store->seglets, t[nr].o[1].word);
			KUNIT_ASSERT_EQ(test, lsmem_entry_type((void *)entry[nr]), store->durable ?
					LSMEM_TYPE_TOMBSTONE : LSMEM_TYPE_OBJECT);
			compact_flip(&t[nr], entry[nr], bit);
			bit = compact_next(&random, bit, header, all);
		}
		compact_flipped(test, t, nr, clean);
		for (i = 0; i < nr; i++) {
			KUNIT_EXPECT_TRUE_MSG(test, compact_damaged(&t[i]),
					      "not found: mask %x in the %ld. byte",
					      t[i].mask, (long)(t[i].flip - entry[i]));
			if (!store->durable) {
				KUNIT_EXPECT_EQ(test, compact_handle(store, &t[i].o[1])->word,
						t[i].o[1].word);
				if (!clean)
					KUNIT_EXPECT_EQ(test, atomic_read(t[i].seg->live),
							t[i].live);
			}
			compact_mend(test, &t[i]);
		}
	}
	compact_check_seglets(test);
}

static void compact_test_flip(struct kunit *test)
{
	const struct compact_flip_case *param = test->param_value;
	u32 header = 8 * lsmem_header_bytes(param->length);
	struct lsmem_store *store = test->priv;

	compact_flip_each(test, param->clean, param->length, header, header + 8 * param->length);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), 0);
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
	struct compact_target *t = compact_targets(test, param->clean);
	struct lsmem_store *store = test->priv;
	u32 bit = 0, nr, i;

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

/* A tombstone that is kept. */
static void compact_test_flip_tombstone(struct kunit *test)
{
	const struct compact_dead_case *param = test->param_value;
	struct lsmem_store *store = test->priv;
	struct compact_object keeper;

	store->repl.attached = (void *)test;	/* only compared with NULL */
	/* Tombstones wait for this one. */
	compact_put(test, &keeper, 100);
	compact_close(test);
	compact_flip_each(test, param->clean, 500, 8 * LSMEM_LONG_BYTES, 8 * LSMEM_LONG_BYTES);
	compact_look_all(test, &keeper, 1);
}

static struct kunit_case damage_cases[] = {
	KUNIT_CASE_PARAM(compact_test_damage, compact_damage_gen_params),
	KUNIT_CASE_PARAM(compact_test_flip, compact_flip_gen_params),
	KUNIT_CASE_PARAM(compact_test_flip_dead, compact_dead_gen_params),
	{}
};

static struct kunit_suite damage_suite = {
	.name = "lsmem-damage",
	.init = compact_init,
	.exit = compact_exit,
	.test_cases = damage_cases,
};

static struct kunit_case damage_durable_cases[] = {
	KUNIT_CASE_PARAM(compact_test_flip_tombstone, compact_dead_gen_params),
	{}
};

static struct kunit_suite damage_durable_suite = {
	.name = "lsmem-damage-durable",
	.init = compact_durable_init,
	.exit = compact_exit,
	.test_cases = damage_durable_cases,
};

kunit_test_suites(&damage_suite, &damage_durable_suite);
