// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: groups, as the heads of group.c and group.h specify them.  Each group is read back from the log:
 * its record, and behind it an entry for each change, side by side and in order.
 */
#include <linux/slab.h>

#include "fixture.h"
#include "../crc32c.h"
#include "../durable.h"
#include "../group.h"
#include "../object.h"

#define GROUP_PAGE	LSMEM_BLOCK
#define GROUP_TABLE	3u
#define GROUP_RACES	3000u	/* groups of group_test_race() */
#define GROUP_RACED	24u	/* their objects */

static const struct lsmem_test_shape group_shape = {
	.segments = 8, .heads = 2, .handles = 4096, .durable = true,
};

static const struct lsmem_test_shape group_heads_shape = {
	.segments = 8, .heads = 3, .handles = 4096, .durable = true,
};

static const struct lsmem_test_shape group_volatile_shape = {
	.segments = 8, .heads = 2, .handles = 4096,
};

static int group_init_as(struct kunit *test, const struct lsmem_test_shape *shape)
{
	int ret = lsmem_test_store(test, shape);
	struct lsmem_store *store = test->priv;

	if (!ret)
		store->handles.ceiling = 1000000;	/* what a daemon gives */
	return ret;
}

static int group_init(struct kunit *test)
{
	return group_init_as(test, &group_shape);
}

static int group_heads_init(struct kunit *test)
{
	return group_init_as(test, &group_heads_shape);
}

static int group_volatile_init(struct kunit *test)
{
	return lsmem_test_store(test, &group_volatile_shape);
}

/* ---- Changes ------------------------------------------------------------ */

/**
 * struct group - a group that is being made
 * @store: of the test
 * @place: of the last change
 * @nr: changes
 * @keys: of each, of the payload
 * @changes: of different objects
 * @bytes: room to read one object
 */
struct group {
	struct lsmem_store *store;
	struct lsmem_place place;
	u32 nr;
	u64 keys[LSMEM_GROUP_MAX];
	struct lsmem_change changes[LSMEM_GROUP_MAX];
	u8 bytes[GROUP_PAGE * 2];
};

static struct group *group_new(struct kunit *test)
{
	struct group *g = kunit_kzalloc(test, sizeof(*g), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, g);
	g->store = test->priv;
	return g;
}

static struct lsmem_change *group_add(struct group *g, u32 op, u64 handle, u64 key, u32 length)
{
	struct lsmem_change *change = &g->changes[g->nr];

	*change = (struct lsmem_change){
		.op = op, .handle = handle, .table = op == LSMEM_OP_ALLOC ? GROUP_TABLE : 0,
		.length = length, .result = -EPROTO,
	};
	change->data = length ? lsmem_test_payload(key) : NULL;
	g->keys[g->nr++] = key;
	return change;
}

/* Add a new object. */
static u64 group_alloc(struct kunit *test, struct group *g, u64 key, u32 length)
{
	u64 handle = 0;

	KUNIT_ASSERT_EQ(test, lsmem_handle_alloc(g->store, &handle), 0);
	group_add(g, LSMEM_OP_ALLOC, handle, key, length);
	return handle;
}

static int group_change(struct group *g)
{
	lsmem_test_list_spares(g->store);
	g->place = (struct lsmem_place){ .segment = ~0ull };
	return lsmem_group_change(g->store, g->changes, g->nr, &g->place);
}

/* Make @nr objects, each by a group of its own.  The next group is empty. */
static void group_objects(struct kunit *test, struct group *g, u64 *handles, u32 nr, u32 length)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		g->nr = 0;
		handles[i] = group_alloc(test, g, i, length);
		KUNIT_ASSERT_EQ(test, group_change(g), 0);
		KUNIT_ASSERT_EQ(test, g->changes[0].result, 0);
	}
	g->nr = 0;
}

/* ---- Reading ------------------------------------------------------------ */

static struct lsmem_segment *group_segment(const struct group *g)
{
	struct lsmem_segment *seg;

	list_for_each_entry(seg, &g->store->segments.log, node)
		if (seg->id == g->place.segment)
			return seg;
	return NULL;
}

static u32 group_type(const struct lsmem_change *change)
{
	if (change->result)
		return LSMEM_TYPE_PAD;
	return change->op == LSMEM_OP_FREE ? LSMEM_TYPE_TOMBSTONE : LSMEM_TYPE_OBJECT;
}

/* One entry. Returns NULL or an error message. */
static const char *group_read_entry(const struct group *g, const struct lsmem_segment *seg, u32 at,
				    const struct lsmem_change *change, u64 key)
{
	const struct lsmem_entry *e = lsmem_segment_at(g->store, seg, at);
	const u8 *want = lsmem_test_payload(key);
	u32 header = lsmem_entry_header(e), i, pcrc = ~0u;

	if (lsmem_entry_type(e) != group_type(change))
		return "an entry has another type";
	if (lsmem_entry_bytes(e) != lsmem_entry_size(change->length))
		return "an entry has another size";
	if (change->result)
		return NULL;
	if (lsmem_entry_handle(e) != change->handle)
		return "an entry is of another change";
	if (change->op == LSMEM_OP_ALLOC && lsmem_entry_table(e) != GROUP_TABLE)
		return "an object has another table";
	for (i = 0; i < change->length; i++)
		if (*(u8 *)lsmem_segment_at(g->store, seg, at + header + i) != want[i])
			return "a payload is not what was written";
	if (change->length)
		pcrc = lsmem_crc32c(~0u, want, change->length);
	return lsmem_entry_copied(e, pcrc, seg->salt) ? NULL : "a CRC is wrong";
}

/* The offset of the group record whose group ends at the group's place; ~0: there is none. */
static u32 group_record(const struct group *g, const struct lsmem_segment *seg)
{
	u32 at = 0;

	while (at < seg->committed) {
		const struct lsmem_entry *e;

		at = lsmem_entry_start(at);
		e = lsmem_segment_at(g->store, seg, at);
		if (lsmem_entry_type(e) == LSMEM_TYPE_GROUP &&
		    at + LSMEM_LONG_BYTES + lsmem_entry_value(e) == g->place.offset &&
		    lsmem_entry_copied(e, ~0u, seg->salt))
			return at;
		at += lsmem_entry_bytes(e);
	}
	return ~0u;
}

/* The group in the log. Returns NULL or an error message. */
static const char *group_read(const struct group *g)
{
	const struct lsmem_segment *seg = group_segment(g);
	const char *wrong = NULL;
	u32 at, i;

	if (!seg)
		return "its segment is not in the log";
	if (seg->committed < g->place.offset)
		return "it is not readable";
	at = group_record(g, seg);
	if (at == ~0u)
		return "there is no record of it";
	at += LSMEM_LONG_BYTES;
	for (i = 0; i < g->nr && !wrong; i++) {
		at = lsmem_entry_start(at);
		wrong = group_read_entry(g, seg, at, &g->changes[i], g->keys[i]);
		at += lsmem_entry_size(g->changes[i].length);
	}
	return wrong ?: at == g->place.offset ? NULL : "it ends elsewhere";
}

/* What clients find behind the handle of a change that was made. */
static void group_expect(struct kunit *test, struct group *g, const struct lsmem_change *change, u64 key)
{
	u32 length = 0;
	int ret = lsmem_object_get(g->store, change->handle, g->bytes, sizeof(g->bytes), &length);

	if (change->op == LSMEM_OP_FREE) {
		KUNIT_EXPECT_EQ(test, ret, -ESTALE);
		return;
	}
	KUNIT_EXPECT_EQ(test, ret, 0);
	KUNIT_ASSERT_EQ(test, length, change->length);
	KUNIT_EXPECT_EQ(test, memcmp(g->bytes, lsmem_test_payload(key), length), 0);
}

static void group_expect_made(struct kunit *test, struct group *g)
{
	u32 i;

	for (i = 0; i < g->nr; i++) {
		KUNIT_EXPECT_EQ(test, g->changes[i].result, 0);
		group_expect(test, g, &g->changes[i], g->keys[i]);
	}
	KUNIT_EXPECT_STREQ(test, group_read(g) ?: "", "");
}

/* The live bytes of all segments are those of the store: @bytes. */
static void group_expect_live(struct kunit *test, struct lsmem_store *store, s64 bytes)
{
	struct lsmem_segment *seg;
	s64 live = 0;

	list_for_each_entry(seg, &store->segments.log, node)
		live += atomic_read(seg->live);
	KUNIT_EXPECT_EQ(test, live, bytes);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&store->live), bytes);
}

/* ---- Whole -------------------------------------------------------------- */

/* Bytes that a seglet has left where a group begins. */
static const u32 group_lefts[] = { 0, 8, 16, 24, 32, 40, 64, 1000, 4096 };

static void group_left_desc(const u32 *param, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u bytes left", *param);
}

KUNIT_ARRAY_PARAM(group_left, group_lefts, group_left_desc);

/* Have the seglet of the head that the next group uses end @left bytes behind what is written. */
static void group_seek(struct kunit *test, struct group *g, u32 left)
{
	u32 length = lsmem_test_seek(0, left);
	struct lsmem_append ap;

	lsmem_test_list_spares(g->store);
	KUNIT_ASSERT_EQ(test, lsmem_append_begin(g->store, 1, 1, LSMEM_TYPE_OBJECT, &ap), 0);
	lsmem_append_abort(g->store, &ap);
	length = lsmem_test_seek(ap.segment->reserved, left);
	KUNIT_ASSERT_EQ(test, lsmem_append_begin(g->store, 1, length, LSMEM_TYPE_OBJECT, &ap), 0);
	lsmem_append_abort(g->store, &ap);
	KUNIT_ASSERT_EQ(test, -ap.segment->reserved % LSMEM_SEGLET_BYTES, left);
}

/*
 * New, replaced and freed objects of several lengths: the group is in the log as one, in the order of its
 * changes; what it supersedes is dead; versions grow.
 */
static void group_test_whole(struct kunit *test)
{
	static const u32 lengths[] = { 1, 100, 2047, 2048, GROUP_PAGE, 5000, 8000 };
	struct group *g = group_new(test);
	struct lsmem_look before, after;
	u64 handles[8];
	s64 live = 0;
	u32 i;

	group_objects(test, g, handles, ARRAY_SIZE(handles), 3000);
	KUNIT_ASSERT_EQ(test, lsmem_handle_find(g->store, handles[0], &before.h), 0);
	KUNIT_ASSERT_EQ(test, lsmem_look(g->store, handles[0], &before), 0);
	group_seek(test, g, *(const u32 *)test->param_value);
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		group_add(g, LSMEM_OP_REPLACE, handles[i], 100 + i, lengths[i]);
		group_alloc(test, g, 200 + i, lengths[i]);
		live += 2 * lsmem_entry_size(lengths[i]);
	}
	group_add(g, LSMEM_OP_FREE, handles[7], 0, 0);
	live += lsmem_entry_size(0);	/* the tombstone */
	KUNIT_ASSERT_EQ(test, group_change(g), 0);
	group_expect_made(test, g);
	group_expect_live(test, g->store, live);
	after.h = before.h;
	KUNIT_ASSERT_EQ(test, lsmem_look(g->store, handles[0], &after), 0);
	KUNIT_EXPECT_GT(test, after.version, before.version);
	KUNIT_EXPECT_EQ(test, after.table, GROUP_TABLE);
}

/* A group of one change has no record: it is whole as every entry is. */
static void group_test_one(struct kunit *test)
{
	struct group *g = group_new(test);
	const struct lsmem_segment *seg;

	group_alloc(test, g, 1, 100);
	KUNIT_ASSERT_EQ(test, group_change(g), 0);
	group_expect(test, g, &g->changes[0], 1);
	seg = group_segment(g);
	KUNIT_ASSERT_NOT_NULL(test, seg);
	KUNIT_EXPECT_EQ(test, group_record(g, seg), ~0u);
	KUNIT_EXPECT_EQ(test, seg->committed, lsmem_entry_start(0) + lsmem_entry_size(100));
	KUNIT_EXPECT_EQ(test, g->place.offset, seg->committed);
}

/* A volatile store has no records, and no entries of objects that are freed. */
static void group_test_volatile(struct kunit *test)
{
	struct group *g = group_new(test);
	const struct lsmem_segment *seg;
	u64 handles[2];
	u32 end;

	group_objects(test, g, handles, 2, 100);
	seg = g->store->heads.table[1].segment;
	end = seg->reserved;
	group_add(g, LSMEM_OP_FREE, handles[0], 0, 0);
	group_add(g, LSMEM_OP_REPLACE, handles[1], 7, 100);
	KUNIT_ASSERT_EQ(test, group_change(g), 0);
	group_expect(test, g, &g->changes[0], 0);
	group_expect(test, g, &g->changes[1], 7);
	KUNIT_EXPECT_EQ(test, seg->reserved, lsmem_entry_start(end) + lsmem_entry_size(100));
	KUNIT_EXPECT_EQ(test, seg->committed, seg->reserved);
	group_expect_live(test, g->store, lsmem_entry_size(100));
	end = seg->reserved;
	g->nr = 0;
	group_add(g, LSMEM_OP_FREE, handles[1], 0, 0);
	KUNIT_ASSERT_EQ(test, group_change(g), 0);
	group_expect(test, g, &g->changes[0], 0);
	KUNIT_EXPECT_EQ(test, g->place.segment, 0);
	KUNIT_EXPECT_EQ(test, seg->reserved, end);
	group_expect_live(test, g->store, 0);
}

static u64 group_version(struct group *g, u64 handle)
{
	struct lsmem_look look;
	int ret = lsmem_handle_find(g->store, handle, &look.h);

	rcu_read_lock();
	ret = ret ?: lsmem_look(g->store, handle, &look);
	rcu_read_unlock();
	return ret ? 0 : look.version;
}

/* One version for all changes, also where an object is ahead of the clock: a snapshot cuts before or after. */
static void group_test_version(struct kunit *test)
{
	const u64 ahead = 1ull << 30;	/* about 18 minutes */
	struct group *g = group_new(test);
	u64 handles[4], version;
	u32 i;

	group_objects(test, g, handles, 3, 100);
	g->store->clock += ahead;
	group_add(g, LSMEM_OP_REPLACE, handles[1], 1, 100);
	KUNIT_ASSERT_EQ(test, group_change(g), 0);
	g->store->clock -= ahead;
	version = group_version(g, handles[1]);
	KUNIT_ASSERT_GT(test, version, group_version(g, handles[0]));
	g->nr = 0;
	for (i = 0; i < 3; i++)
		group_add(g, LSMEM_OP_REPLACE, handles[i], 10 + i, 200);
	handles[3] = group_alloc(test, g, 13, 50);
	KUNIT_ASSERT_EQ(test, group_change(g), 0);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, group_version(g, handles[i]), version + 1);
	KUNIT_EXPECT_EQ(test, (u64)atomic64_read(&g->store->handles.mark), version + 1);
}

/* ---- The largest group -------------------------------------------------- */

/*
 * As many changes as there can be, each of a page, wherever the group begins.  They fit into what a group
 * may take, and into one segment: where the last one has no room for all, none is written there.
 */
static void group_test_largest(struct kunit *test)
{
	struct group *g = group_new(test);
	u32 left = *(const u32 *)test->param_value, borders = 0, round, i;
	u64 segment = 0;

	KUNIT_ASSERT_LE(test, LSMEM_GROUP_MAX * lsmem_group_bytes(GROUP_PAGE), lsmem_group_room());
	for (i = 0; i < LSMEM_GROUP_MAX; i++)
		group_alloc(test, g, i, GROUP_PAGE);
	for (round = 0; round < 12; round++) {
		for (i = 0; round && i < g->nr; i++) {
			g->changes[i].op = LSMEM_OP_REPLACE;
			g->keys[i] = round * 300 + i;
			g->changes[i].data = lsmem_test_payload(g->keys[i]);
		}
		group_seek(test, g, left);
		KUNIT_ASSERT_EQ(test, group_change(g), 0);
		group_expect_made(test, g);
		borders += segment && g->place.segment != segment;
		segment = g->place.segment;
	}
	/* 12 groups of 1.13 MiB in segments of 8 MiB */
	KUNIT_EXPECT_EQ(test, borders, 1);
	group_expect_live(test, g->store, LSMEM_GROUP_MAX * lsmem_entry_size(GROUP_PAGE));
}

/* ---- Refused ------------------------------------------------------------ */

/* What of a group that is refused must be as before it. */
struct group_before {
	s64 live;
	const struct lsmem_segment *seg;
	u32 reserved;
};

static struct group_before group_before(const struct group *g)
{
	const struct lsmem_segment *seg = g->store->heads.table[1].segment;

	return (struct group_before){
		.live = percpu_counter_sum(&g->store->live), .seg = seg, .reserved = seg->reserved,
	};
}

/* Nothing was changed: the objects are those of group_objects(), and what is new is the caller's. */
static void group_expect_none(struct kunit *test, struct group *g, const struct group_before *before)
{
	const struct lsmem_segment *seg = g->store->heads.table[1].segment;
	u32 length, i;

	for (i = 0; i < g->nr; i++) {
		const struct lsmem_change *change = &g->changes[i];
		int ret = lsmem_object_get(g->store, change->handle, g->bytes, sizeof(g->bytes), &length);

		if (change->op == LSMEM_OP_ALLOC) {
			KUNIT_EXPECT_EQ(test, ret, -ESTALE);	/* given out, without an object */
			lsmem_handle_free(g->store, change->handle);	/* it is out of use once */
		} else if (change->result != -ESTALE) {
			KUNIT_EXPECT_EQ(test, ret, 0);
			KUNIT_EXPECT_EQ(test, length, 3000);
			KUNIT_EXPECT_EQ(test, memcmp(g->bytes, lsmem_test_payload(i), 3000), 0);
		}
	}
	KUNIT_EXPECT_EQ(test, g->place.segment, 0);
	KUNIT_EXPECT_PTR_EQ(test, seg, before->seg);
	KUNIT_EXPECT_EQ(test, seg->reserved, before->reserved);
	KUNIT_EXPECT_EQ(test, seg->committed, before->reserved);
	group_expect_live(test, g->store, before->live);
}

/* Changes of three objects that group_objects() has made, and a new one. */
static struct group_before group_mixed(struct kunit *test, struct group *g, u64 *handles)
{
	group_objects(test, g, handles, 3, 3000);
	group_add(g, LSMEM_OP_REPLACE, handles[0], 50, 5000);
	group_add(g, LSMEM_OP_FREE, handles[1], 0, 0);
	group_add(g, LSMEM_OP_REPLACE, handles[2], 52, 100);
	group_alloc(test, g, 53, GROUP_PAGE);
	return group_before(g);
}

/*
 * A store that is full by one unit of alignment refuses the whole group, and takes it when there is that
 * much more.  What the group makes smaller or frees does not count before it has ended.
 */
static void group_test_full(struct kunit *test)
{
	struct group *g = group_new(test);
	struct group_before before;
	u64 handles[3];
	s64 growth;

	before = group_mixed(test, g, handles);
	growth = lsmem_entry_size(5000) - lsmem_entry_size(3000) + lsmem_entry_size(GROUP_PAGE);
	g->store->capacity = before.live + growth - LSMEM_ALIGN;
	KUNIT_EXPECT_EQ(test, group_change(g), -ENOSPC);
	group_expect_none(test, g, &before);
	g->nr--;
	group_alloc(test, g, 54, GROUP_PAGE);
	g->store->capacity = before.live + growth;
	KUNIT_EXPECT_EQ(test, group_change(g), 0);
	group_expect_made(test, g);
	group_expect_live(test, g->store, lsmem_entry_size(5000) + lsmem_entry_size(0) +
			  lsmem_entry_size(100) + lsmem_entry_size(GROUP_PAGE));
}

/* Without seglets the largest group waits for stall_ms, and is refused. */
static void group_test_no_seglets(struct kunit *test)
{
	struct group *g = group_new(test);
	struct group_before before;
	u64 handles[3];
	u32 taken, i;

	group_objects(test, g, handles, 3, 3000);
	for (i = 0; i < 3; i++)
		group_add(g, LSMEM_OP_REPLACE, handles[i], 50 + i, GROUP_PAGE);
	while (g->nr < LSMEM_GROUP_MAX)
		group_alloc(test, g, g->nr, GROUP_PAGE);
	before = group_before(g);
	taken = lsmem_test_take_seglets(g->store, 0);
	KUNIT_EXPECT_EQ(test, group_change(g), -ENOSPC);
	lsmem_test_put_seglets(g->store, taken);
	group_expect_none(test, g, &before);
}

/* An object that is not there: the error is that of its change, and no other is made. */
static void group_test_missing(struct kunit *test)
{
	struct group *g = group_new(test);
	struct lsmem_op op = { };
	struct group_before before;
	u64 handles[3];

	before = group_mixed(test, g, handles);
	op.handle = handles[2];
	KUNIT_ASSERT_EQ(test, lsmem_object_free(g->store, &op, &g->place), 0);
	before = group_before(g);
	KUNIT_EXPECT_EQ(test, group_change(g), -ESTALE);
	KUNIT_EXPECT_EQ(test, g->changes[2].result, -ESTALE);
	group_expect_none(test, g, &before);
}

/* Each change expects a version: the first that has another is told it, and none is made. */
static void group_test_expect(struct kunit *test)
{
	struct group *g = group_new(test);
	struct group_before before;
	u64 handles[3];
	u32 i;

	group_objects(test, g, handles, ARRAY_SIZE(handles), 3000);
	for (i = 0; i < ARRAY_SIZE(handles); i++)
		group_add(g, i == 1 ? LSMEM_OP_FREE : LSMEM_OP_REPLACE, handles[i], 50 + i,
			  i == 1 ? 0 : 5000)->expect = true;
	before = group_before(g);
	for (i = 0; i < ARRAY_SIZE(handles); i++) {
		KUNIT_EXPECT_EQ(test, group_change(g), -EILSEQ);
		KUNIT_EXPECT_EQ(test, g->changes[i].result, -EILSEQ);
		group_expect_none(test, g, &before);
	}
	KUNIT_EXPECT_EQ(test, group_change(g), 0);
	group_expect_made(test, g);
	KUNIT_EXPECT_NE(test, g->changes[0].version, 0);
	for (i = 1; i < ARRAY_SIZE(handles); i++)
		KUNIT_EXPECT_EQ(test, g->changes[i].version, g->changes[0].version);
}

/* Where a change may lie that follows a group: behind it in its segment, or anywhere when it is durable. */
static void group_test_follow(struct kunit *test)
{
	struct group *g = group_new(test);
	struct lsmem_handles *handles = &g->store->handles;
	struct lsmem_place place = { .deadline = LSMEM_NO_WAIT };
	u64 objects[2], index;
	u32 i;

	group_objects(test, g, objects, ARRAY_SIZE(objects), 3000);
	index = lsmem_handle_index(objects[0]);
	KUNIT_ASSERT_EQ(test, lsmem_group_prepare(g->store), 0);
	KUNIT_EXPECT_FALSE(test, lsmem_word_unsettled(handles, index, 0, 0));
	for (i = 0; i < ARRAY_SIZE(objects); i++)
		group_add(g, LSMEM_OP_REPLACE, objects[i], 50 + i, 100)->settle = !i;
	KUNIT_ASSERT_EQ(test, group_change(g), 0);
	KUNIT_EXPECT_FALSE(test, lsmem_word_unsettled(handles, index, g->place.segment, g->place.offset));
	KUNIT_EXPECT_TRUE(test, lsmem_word_unsettled(handles, index, g->place.segment, g->place.offset - 1));
	KUNIT_EXPECT_TRUE(test, lsmem_word_unsettled(handles, index, g->place.segment + 1, g->place.offset));
	KUNIT_EXPECT_FALSE(test, lsmem_word_unsettled(handles, lsmem_handle_index(objects[1]), 0, 0));
	/* First the group's head, then a wait. */
	KUNIT_EXPECT_EQ(test, lsmem_group_follow(g->store, index, &place), 0);
	KUNIT_EXPECT_EQ(test, g->store->heads.table[place.head].segment->id, g->place.segment);
	KUNIT_EXPECT_EQ(test, lsmem_group_follow(g->store, index, &place), -LSMEM_EWAIT);
	group_segment(g)->acked = g->place.offset;
	WRITE_ONCE(g->store->state, LSMEM_STATE_ACTIVE);
	WRITE_ONCE(g->store->repl.durable_ms, 1000);
	place.head = 1;
	KUNIT_EXPECT_EQ(test, lsmem_group_follow(g->store, index, &place), 0);
	KUNIT_EXPECT_EQ(test, place.head, 0);
	KUNIT_EXPECT_FALSE(test, lsmem_word_unsettled(handles, index, 0, 0));
}

/* An object that is checked has no entry, and stays as it is; what is expected of it is. */
static void group_test_check(struct kunit *test)
{
	struct group *g = group_new(test);
	const struct lsmem_segment *seg;
	u64 objects[2], version;
	u32 end;

	group_objects(test, g, objects, ARRAY_SIZE(objects), 3000);
	version = group_version(g, objects[0]);
	seg = g->store->heads.table[1].segment;
	end = seg->reserved;
	group_add(g, LSMEM_OP_CHECK, objects[0], 0, 0);
	KUNIT_EXPECT_EQ(test, group_change(g), 0);
	KUNIT_EXPECT_EQ(test, g->changes[0].version, version);
	KUNIT_EXPECT_EQ(test, g->place.segment, 0);
	KUNIT_EXPECT_EQ(test, seg->reserved, end);
	/* As a group of one change. */
	group_add(g, LSMEM_OP_REPLACE, objects[1], 7, 100);
	g->changes[0].expect = true;
	KUNIT_EXPECT_EQ(test, group_change(g), 0);
	KUNIT_EXPECT_EQ(test, g->changes[0].version, version);
	KUNIT_EXPECT_EQ(test, group_version(g, objects[0]), version);
	KUNIT_EXPECT_GT(test, g->changes[1].version, version);
	KUNIT_EXPECT_EQ(test, seg->committed, lsmem_entry_start(end) + lsmem_entry_size(100));
	group_expect(test, g, &g->changes[1], 7);
	end = seg->reserved;
	g->changes[0].version = version - 1;
	KUNIT_EXPECT_EQ(test, group_change(g), -EILSEQ);
	KUNIT_EXPECT_EQ(test, g->changes[0].result, -EILSEQ);
	KUNIT_EXPECT_EQ(test, g->changes[0].version, version);
	KUNIT_EXPECT_EQ(test, seg->reserved, end);
	group_expect_live(test, g->store, lsmem_entry_size(3000) + lsmem_entry_size(100));
}

/* Where a group may lie that has checked an object: behind its entry, or anywhere when that is durable. */
static void group_test_follow_checked(struct kunit *test)
{
	struct group *g = group_new(test);
	struct lsmem_segment *seg;
	u64 objects[2];
	u32 i, end;

	group_objects(test, g, objects, ARRAY_SIZE(objects), 3000);
	KUNIT_ASSERT_EQ(test, lsmem_group_prepare(g->store), 0);
	/* The object in the other head's segment. */
	group_add(g, LSMEM_OP_REPLACE, objects[0], 1, 5000);
	g->place = (struct lsmem_place){ .head = 2 };
	KUNIT_ASSERT_EQ(test, lsmem_group_change(g->store, g->changes, g->nr, &g->place), 0);
	seg = g->store->heads.table[2].segment;
	KUNIT_ASSERT_EQ(test, g->place.segment, seg->id);
	end = g->place.offset;
	g->nr = 0;
	group_add(g, LSMEM_OP_CHECK, objects[0], 0, 0)->settle = true;
	group_add(g, LSMEM_OP_REPLACE, objects[1], 2, 100);
	for (i = 0; i < 3; i++) {
		/* The last byte of the entry counts. */
		seg->acked = i == 2 ? end : i ? end - 1 : 0;
		g->place = (struct lsmem_place){ .head = i != 1, .deadline = LSMEM_NO_WAIT };
		KUNIT_EXPECT_EQ(test, lsmem_group_change(g->store, g->changes, g->nr, &g->place),
				i ? 0 : -LSMEM_EWAIT);
		/* The first head has a segment only now, if the objects are in that of the other one. */
		if (i)
			KUNIT_EXPECT_EQ(test, g->place.segment,
					g->store->heads.table[i == 1 ? 2 : 1].segment->id);
	}
}

/* An object that is named twice, as in a tree of pages that a client has forged: nothing is changed. */
static void group_test_twice(struct kunit *test)
{
	static const u32 ops[] = { LSMEM_OP_FREE, LSMEM_OP_REPLACE };
	struct group *g = group_new(test);
	struct group_before before;
	u64 handles[3];
	u32 i;

	before = group_mixed(test, g, handles);
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		group_add(g, ops[i], handles[1], 60, ops[i] == LSMEM_OP_FREE ? 0 : 70);
		KUNIT_EXPECT_EQ(test, group_change(g), -EUCLEAN);
		KUNIT_EXPECT_EQ(test, g->changes[--g->nr].result, -EUCLEAN);
		KUNIT_EXPECT_EQ(test, g->changes[1].result, 0);
	}
	/* Of an object and one that got its index later, the older one is gone: a client has not noticed that yet. */
	group_add(g, LSMEM_OP_REPLACE, lsmem_handle_make(lsmem_handle_index(handles[1]),
							 lsmem_handle_generation(handles[1]) + 1), 60, 70);
	KUNIT_EXPECT_EQ(test, group_change(g), -ESTALE);
	KUNIT_EXPECT_EQ(test, g->changes[--g->nr].result, 0);
	KUNIT_EXPECT_EQ(test, g->changes[1].result, -ESTALE);
	g->nr--;	/* the new object has no handle to be looked at twice */
	group_expect_none(test, g, &before);
}

/* ---- Other clients ------------------------------------------------------ */

struct group_racer {
	struct lsmem_store *store;
	u64 *handles;
	struct rnd_state random;
	bool stop;
	u32 freed;
};

/* Frees objects, and makes none: the groups do. */
static const char *group_racer(void *data)
{
	struct group_racer *racer = data;

	while (!READ_ONCE(racer->stop)) {
		u32 i = lsmem_test_below(&racer->random, GROUP_RACED);
		struct lsmem_op op = { .handle = READ_ONCE(racer->handles[i]) };
		struct lsmem_place place = { };
		int ret = lsmem_object_free(racer->store, &op, &place);

		if (ret && ret != -ESTALE && ret != -ENOENT)
			return "an object could not be freed";
		racer->freed += !ret;
		cond_resched();
	}
	return NULL;
}

/*
 * Groups against a client that frees their objects: a group is refused with the result of the object that
 * was gone, or made as a whole; what is live is counted right in the end.
 */
static void group_test_race(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct group *g = group_new(test);
	struct lsmem_test_thread thread;
	u64 handles[GROUP_RACED];
	struct group_racer racer = { .store = store, .handles = handles };
	u32 refused = 0, i, n;
	s64 live = 0;

	lsmem_test_seed(test, &racer.random);
	store->capacity *= 4;	/* the test counts live bytes, no cleaner runs */
	group_objects(test, g, handles, GROUP_RACED, 1);
	KUNIT_ASSERT_EQ(test, lsmem_test_start(&thread, group_racer, &racer), 0);
	for (n = 0; n < GROUP_RACES; n++) {
		int ret;

		g->nr = 0;
		for (i = 0; i < GROUP_RACED; i++)
			group_add(g, LSMEM_OP_REPLACE, handles[i], n, 1 + (n + i) % 9);
		ret = group_change(g);
		if (ret && ret != -ESTALE && ret != -ENOENT) {
			KUNIT_EXPECT_EQ(test, ret, 0);
			break;
		}
		refused += ret < 0;
		for (i = 0; i < GROUP_RACED; i++) {
			if (!g->changes[i].result || g->changes[i].result == -EPROTO)
				continue;
			KUNIT_EXPECT_EQ(test, ret, g->changes[i].result);
			g->nr = 0;
			WRITE_ONCE(handles[i], group_alloc(test, g, i, 5));
			KUNIT_EXPECT_EQ(test, group_change(g), 0);
			break;	/* the array of changes is that of the new object now */
		}
	}
	WRITE_ONCE(racer.stop, true);
	lsmem_test_join(test, &thread);
	kunit_info(test, "%u freed, %u groups refused", racer.freed, refused);
	KUNIT_EXPECT_GT(test, refused, 0);
	for (i = 0; i < GROUP_RACED; i++) {
		u32 length;

		if (!lsmem_object_get(store, handles[i], g->bytes, sizeof(g->bytes), &length))
			live += lsmem_entry_size(length);
	}
	group_expect_live(test, store, live + (s64)racer.freed * lsmem_entry_size(0));
}

static void group_exit(struct kunit *test)
{
	lsmem_test_livemap(test);
	lsmem_test_store_exit(test);
}

static struct kunit_case group_cases[] = {
	KUNIT_CASE_PARAM(group_test_whole, group_left_gen_params),
	KUNIT_CASE(group_test_one),
	KUNIT_CASE(group_test_version),
	KUNIT_CASE_PARAM(group_test_largest, group_left_gen_params),
	KUNIT_CASE(group_test_full),
	KUNIT_CASE(group_test_no_seglets),
	KUNIT_CASE(group_test_missing),
	KUNIT_CASE(group_test_expect),
	KUNIT_CASE(group_test_follow),
	KUNIT_CASE(group_test_check),
	KUNIT_CASE(group_test_twice),
	KUNIT_CASE(group_test_race),
	{}
};

static struct kunit_suite group_suite = {
	.name = "lsmem-group",
	.init = group_init,
	.exit = group_exit,
	.test_cases = group_cases,
};

static struct kunit_case group_volatile_cases[] = {
	KUNIT_CASE(group_test_volatile),
	{}
};

static struct kunit_suite group_volatile_suite = {
	.name = "lsmem-group-volatile",
	.init = group_volatile_init,
	.exit = group_exit,
	.test_cases = group_volatile_cases,
};

static struct kunit_case group_heads_cases[] = {
	KUNIT_CASE(group_test_follow_checked),
	{ }
};

static struct kunit_suite group_heads_suite = {
	.name = "lsmem-group-heads",
	.init = group_heads_init,
	.exit = group_exit,
	.test_cases = group_heads_cases,
};

kunit_test_suites(&group_suite, &group_volatile_suite, &group_heads_suite);
