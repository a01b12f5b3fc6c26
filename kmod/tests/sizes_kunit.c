// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: sizes of the largest stores, and the map of indices.  No test machine has the memory for
 * the largest stores, so these tests only calculate: every number, position and offset fits into
 * its type and field.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/limits.h>

#include "../handle.h"
#include "../indices.h"
#include "../segment.h"
#include "../sizes.h"
#include "../store.h"

static const struct lsmem_create sizes_largest[] = {
	{ .kind = LSMEM_KIND_OBJECT, .bytes = LSMEM_BYTES_MAX,
	  .segments = LSMEM_SEGMENTS_MOST * (LSMEM_BYTES_MAX / LSMEM_SEGMENT_BYTES) },
	{ .kind = LSMEM_KIND_OBJECT, .bytes = LSMEM_BYTES_MAX, .handles_max = LSMEM_HANDLES_MAX },
	{ .kind = LSMEM_KIND_OBJECT, .bytes = LSMEM_BYTES_MIN, .handles_max = LSMEM_HANDLES_MAX },
	{ .kind = LSMEM_KIND_OBJECT, .bytes = 256ull << 30 },	/* this size once failed */
	{ .kind = LSMEM_KIND_BLOCK, .bytes = LSMEM_BYTES_MAX },
};

static void sizes_test_largest(struct kunit *test)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(sizes_largest); i++) {
		const struct lsmem_create *create = &sizes_largest[i];
		struct lsmem_sizes sizes;

		lsmem_sizes_of(create, &sizes);
		/* Numbers are u32, here and in windows, and none is LSMEM_NO_SEGLET. */
		KUNIT_EXPECT_EQ(test, sizes.seglets * LSMEM_SEGLET_BYTES, create->bytes);
		KUNIT_EXPECT_LT(test, sizes.seglets, (u64)LSMEM_NO_SEGLET);
		KUNIT_EXPECT_LT(test, sizes.segments, (u64)U32_MAX);
		KUNIT_EXPECT_LE(test, sizes.handles, (u64)INT_MAX);
		KUNIT_EXPECT_LE(test, sizes.handles, LSMEM_INDEX_END);
		/* The position of the last byte that an entry can begin at. */
		KUNIT_EXPECT_LE(test, sizes.seglets << LSMEM_POSITION_OFFSET_BITS,
				1ull << LSMEM_POSITION_BITS);
		/* kvmalloc() allocates INT_MAX bytes at most; vmalloc() counts pages in an int. */
		KUNIT_EXPECT_LE(test, sizes.largest, (u64)INT_MAX);
		KUNIT_EXPECT_LE(test, sizes.handles * sizeof(struct lsmem_handle) >> PAGE_SHIFT,
				(u64)INT_MAX);
	}
}

/* Memory of the tables, as the administrator's guide has it. */
static void sizes_test_tables(struct kunit *test)
{
	struct lsmem_create create = { .kind = LSMEM_KIND_OBJECT, .bytes = LSMEM_BYTES_MIN };
	struct lsmem_sizes sizes, twice;

	lsmem_sizes_of(&create, &sizes);
	KUNIT_EXPECT_EQ(test, sizes.handles, LSMEM_BYTES_MIN / LSMEM_HANDLE_BYTES);
	KUNIT_EXPECT_GT(test, sizes.table_bytes, sizes.handles * sizeof(struct lsmem_handle));
	KUNIT_EXPECT_LT(test, sizes.table_bytes, sizes.seglet_bytes / 12);
	create.bytes *= 2;
	lsmem_sizes_of(&create, &twice);
	/* The size of a map is rounded up to a word. */
	KUNIT_EXPECT_LE(test, twice.table_bytes, 2 * sizes.table_bytes);
	KUNIT_EXPECT_GE(test, twice.table_bytes + sizeof(unsigned long), 2 * sizes.table_bytes);
	create.handles_max = sizes.handles;
	lsmem_sizes_of(&create, &twice);
	KUNIT_EXPECT_EQ(test, twice.handles, sizes.handles);
	KUNIT_EXPECT_LT(test, twice.table_bytes, 2 * sizes.table_bytes);
}

/* A handle takes 8 bytes, and a bit of the map of indices; a block 8 bytes in each of two tables. */
static void sizes_test_handles(struct kunit *test)
{
	const u64 blocks = LSMEM_BYTES_MIN / LSMEM_BLOCK;
	struct lsmem_create create = { .kind = LSMEM_KIND_OBJECT, .bytes = LSMEM_BYTES_MIN };
	struct lsmem_sizes object, more, block;

	create.handles_max = blocks;
	lsmem_sizes_of(&create, &object);
	create.handles_max = 3 * blocks;
	lsmem_sizes_of(&create, &more);
	KUNIT_EXPECT_EQ(test, object.handles, blocks);
	KUNIT_EXPECT_EQ(test, more.table_bytes - lsmem_indices_bytes(3 * blocks),
			object.table_bytes - lsmem_indices_bytes(blocks) + 2 * blocks * 8);
	create = (struct lsmem_create){ .kind = LSMEM_KIND_BLOCK, .bytes = LSMEM_BYTES_MIN };
	lsmem_sizes_of(&create, &block);
	KUNIT_EXPECT_EQ(test, block.handles, blocks);
	KUNIT_EXPECT_EQ(test, block.table_bytes,
			object.table_bytes - lsmem_indices_bytes(blocks) + blocks * 8);
	/* A tiered disk follows its capacity. */
	create.capacity = 4 * create.bytes;
	lsmem_sizes_of(&create, &more);
	KUNIT_EXPECT_EQ(test, more.handles, 4 * blocks);
	KUNIT_EXPECT_GT(test, more.table_bytes, block.table_bytes + 3 * blocks * 16);
}

/* What a store allocates: block stores have a second table, and no map; object stores a map. */
static void sizes_test_allocated(struct kunit *test)
{
	static const u32 kinds[] = { LSMEM_KIND_OBJECT, LSMEM_KIND_BLOCK };
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct lsmem_store *store = kunit_kzalloc(test, sizeof(*store), GFP_KERNEL);
		bool block = kinds[i] == LSMEM_KIND_BLOCK;

		KUNIT_ASSERT_NOT_NULL(test, store);
		store->kind = kinds[i];
		store->handles.common = 1000;
		store->seglets.nr = 128;
		store->seglets.gfp = LSMEM_GFP;
		KUNIT_EXPECT_EQ(test, lsmem_handles_init(store), 0);
		KUNIT_EXPECT_NOT_NULL(test, store->handles.table);
		KUNIT_EXPECT_EQ(test, store->handles.livemap.bytes, 128 * 256);
		KUNIT_EXPECT_EQ(test, !!store->handles.discarded, block);
		KUNIT_EXPECT_EQ(test, !store->handles.map.map, block);
		for (j = 0; j < store->handles.nr; j++) {
			KUNIT_EXPECT_EQ(test, lsmem_handle_at(&store->handles, j)->word, 0);
			if (block)
				KUNIT_EXPECT_EQ(test, *lsmem_discarded_at(&store->handles, j), 0);
		}
		lsmem_handles_destroy(store);
	}
	KUNIT_EXPECT_EQ(test, sizeof(struct lsmem_handle), 8);
}

/* A map of any size gives out every index once, then none, then the freed ones. */
static void indices_test_all(struct kunit *test)
{
	static const u32 numbers[] = {
		1, 63, 64, 65, LSMEM_INDICES_GROUP - 1, LSMEM_INDICES_GROUP,
		LSMEM_INDICES_GROUP + 1, 3 * LSMEM_INDICES_GROUP - 7,
	};
	u32 n;

	for (n = 0; n < ARRAY_SIZE(numbers); n++) {
		struct lsmem_indices indices = { 0 };
		u32 nr = numbers[n], i;
		unsigned long *seen = bitmap_zalloc(nr, GFP_KERNEL);

		KUNIT_ASSERT_NOT_NULL(test, seen);
		KUNIT_ASSERT_EQ(test, lsmem_indices_init(&indices, nr, LSMEM_GFP), 0);
		lsmem_indices_set(&indices, nr / 2);
		__set_bit(nr / 2, seen);
		for (i = 1; i < nr; i++) {
			int index = lsmem_indices_get(&indices);

			KUNIT_ASSERT_GE(test, index, 0);
			KUNIT_ASSERT_LT(test, (u32)index, nr);
			KUNIT_ASSERT_FALSE(test, __test_and_set_bit(index, seen));
		}
		KUNIT_EXPECT_LT(test, lsmem_indices_get(&indices), 0);
		KUNIT_EXPECT_LT(test, lsmem_indices_get(&indices), 0);
		for (i = 0; i < nr; i += 1 + nr / 5) {
			lsmem_indices_put(&indices, i);
			KUNIT_EXPECT_EQ(test, lsmem_indices_get(&indices), (int)i);
			KUNIT_EXPECT_LT(test, lsmem_indices_get(&indices), 0);
		}
		lsmem_indices_clear(&indices);
		KUNIT_EXPECT_GE(test, lsmem_indices_get(&indices), 0);
		lsmem_indices_destroy(&indices);
		bitmap_free(seen);
	}
}

/* A freed index is given out after all others, so that generations grow slowly. */
static void indices_test_in_turn(struct kunit *test)
{
	struct lsmem_indices indices = { 0 };
	int first, i, index;

	KUNIT_ASSERT_EQ(test, lsmem_indices_init(&indices, 1000, LSMEM_GFP), 0);
	preempt_disable();	/* each CPU has its own place in the map */
	first = lsmem_indices_get(&indices);
	lsmem_indices_put(&indices, first);
	for (i = 1; i < 1000; i++) {
		index = lsmem_indices_get(&indices);
		lsmem_indices_put(&indices, index);
		if (index != (first + i) % 1000)
			break;
	}
	preempt_enable();
	KUNIT_EXPECT_EQ(test, i, 1000);
	lsmem_indices_destroy(&indices);
}

/*
 * Only the last index of a large map is free; it is found.  This is not the largest map: in
 * User-mode Linux each page of vmalloc() is a mapping on the host, and their number is limited.
 */
static void indices_test_large(struct kunit *test)
{
	const u32 nr = (1u << 29) - 1, last = nr - 1;
	struct lsmem_indices indices = { 0 };
	int index;

	KUNIT_EXPECT_LE(test, lsmem_indices_bytes(LSMEM_HANDLES_MAX), 257ull << 20);
	/* In the largest map, the end of the last group fits into a u32. */
	KUNIT_EXPECT_LE(test, round_up(LSMEM_HANDLES_MAX, LSMEM_INDICES_GROUP), (u64)U32_MAX);
	KUNIT_ASSERT_EQ(test, lsmem_indices_init(&indices, nr, LSMEM_GFP), 0);
	memset(indices.map, 0xff, BITS_TO_LONGS(nr) * sizeof(*indices.map));
	lsmem_indices_put(&indices, last);
	index = lsmem_indices_get(&indices);
	KUNIT_EXPECT_EQ(test, index, (int)last);
	KUNIT_EXPECT_LT(test, lsmem_indices_get(&indices), 0);
	lsmem_indices_put(&indices, 12345);
	KUNIT_EXPECT_EQ(test, lsmem_indices_get(&indices), 12345);
	lsmem_indices_destroy(&indices);
}

/*
 * A scan that finds no free index marks the groups as full, and no later scan reads the map of a
 * full group.  To show this, the test clears a bit of the map without lsmem_indices_put(), which
 * would clear the mark, too.
 */
static void indices_test_skips(struct kunit *test)
{
	const u32 groups = 3, nr = groups * LSMEM_INDICES_GROUP - 7, group = 1;
	const u32 index = group * LSMEM_INDICES_GROUP + 5;
	struct lsmem_indices indices = { 0 };
	u32 i;

	KUNIT_ASSERT_EQ(test, lsmem_indices_init(&indices, nr, LSMEM_GFP), 0);
	for (i = 0; i < nr; i++)
		lsmem_indices_set(&indices, i);
	KUNIT_EXPECT_LT(test, lsmem_indices_get(&indices), 0);
	KUNIT_EXPECT_EQ(test, bitmap_weight(indices.full, groups), groups);
	clear_bit(index, indices.map);
	KUNIT_EXPECT_LT(test, lsmem_indices_get(&indices), 0);
	lsmem_indices_put(&indices, index);
	KUNIT_EXPECT_FALSE(test, test_bit(group, indices.full));
	KUNIT_EXPECT_EQ(test, bitmap_weight(indices.full, groups), groups - 1);
	KUNIT_EXPECT_EQ(test, lsmem_indices_get(&indices), (int)index);
	lsmem_indices_destroy(&indices);
}

static struct kunit_case sizes_cases[] = {
	KUNIT_CASE(sizes_test_largest),
	KUNIT_CASE(sizes_test_tables),
	KUNIT_CASE(sizes_test_handles),
	KUNIT_CASE(sizes_test_allocated),
	KUNIT_CASE(indices_test_all),
	KUNIT_CASE(indices_test_in_turn),
	KUNIT_CASE(indices_test_large),
	KUNIT_CASE(indices_test_skips),
	{}
};

static struct kunit_suite sizes_suite = {
	.name = "lsmem-sizes",
	.test_cases = sizes_cases,
};

kunit_test_suite(sizes_suite);
