// SPDX-License-Identifier: GPL-2.0
/* Common to the KUnit suites of compaction: objects, and compaction that is asked for. */
#include "compaction.h"
#include "../balance.h"
#include "../clean.h"
#include "../compact.h"
#include "../epoch.h"
#include "../object.h"

static const struct lsmem_test_shape compact_shape = {
	.segments = 8, .heads = 3, .handles = COMPACT_OBJECTS,
};

static const struct lsmem_test_shape compact_durable_shape = {
	.segments = 8, .heads = 3, .handles = COMPACT_OBJECTS, .durable = true,
};

/**
 * compact_store - create the store of a test, and what compacts it
 * @test: the test
 * @shape: of the store
 * @reserve: seglets that only the cleaner may take
 * Return: 0; a failure ends the test.
 */
int compact_store(struct kunit *test, const struct lsmem_test_shape *shape, u32 reserve)
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

/**
 * compact_init - init of a suite with a volatile store
 * @test: the test
 * Return: 0.
 */
int compact_init(struct kunit *test)
{
	return compact_store(test, &compact_shape, LSMEM_TEST_RESERVE);
}

/**
 * compact_durable_init - init of a suite with a durable store
 * @test: the test
 * Return: 0.
 */
int compact_durable_init(struct kunit *test)
{
	return compact_store(test, &compact_durable_shape, LSMEM_TEST_RESERVE);
}

/**
 * compact_exit - exit of a suite
 * @test: the test
 */
void compact_exit(struct kunit *test)
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
	lsmem_test_livemap(test);
	lsmem_test_store_exit(test);
}

/* ---- Objects ------------------------------------------------------------ */

/**
 * compact_handle - the handle of an object
 * @store: the store
 * @o: the object
 * Return: its entry in the table.
 */
struct lsmem_handle *compact_handle(struct lsmem_store *store,
				    const struct compact_object *o)
{
	return &store->handles.table[lsmem_handle_index(o->handle)];
}

/**
 * compact_write - write an object
 * @store: the store
 * @head: number of the head
 * @o: out
 * @key: of its payload
 * @length: of its payload, bytes
 *
 * Append an entry for the handle of @o, and set the handle's word to it.  Table and interval depend on
 * handle and key, so that each is used.
 *
 * Return: 0 or a negative errno.
 */
int compact_write(struct lsmem_store *store, unsigned int head, struct compact_object *o,
		  u64 key, u32 length)
{
	struct lsmem_source source = { .kernel = lsmem_test_payload(key) };
	struct lsmem_handle *h = compact_handle(store, o);
	u32 table = lsmem_handle_index(o->handle) % LSMEM_TABLES, pcrc, old = 0;
	u64 deadline = 0, word, next, version = 0;
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
		next = lsmem_word_next(word, LSMEM_WORD_LIVE, ap.position);
	} while (!(live ? lsmem_word_change(&store->handles, h, word, next, version) :
			  lsmem_word_exchange(&store->handles, h, word, next)));
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

/**
 * compact_free - free an object
 * @store: the store
 * @o: the object
 * Return: 0 or a negative errno.
 */
int compact_free(struct lsmem_store *store, struct compact_object *o)
{
	struct lsmem_op op = { .handle = o->handle };
	struct lsmem_place place = { 0 };

	o->handle = 0;
	if (store->durable)
		lsmem_test_list_spares(store);
	return lsmem_object_free(store, &op, &place);
}

/**
 * compact_put - write a new object
 * @test: the test
 * @o: out
 * @length: of its payload, bytes
 */
void compact_put(struct kunit *test, struct compact_object *o, u32 length)
{
	struct lsmem_store *store = test->priv;

	lsmem_test_list_spares(store);
	KUNIT_ASSERT_EQ(test, lsmem_handle_alloc(store, &o->handle), 0);
	KUNIT_ASSERT_EQ(test, compact_write(store, COMPACT_HEAD, o, o->handle, length), 0);
}

/**
 * compact_garbage - write an entry and free it
 * @test: the test
 * @length: of its payload, bytes
 *
 * In a volatile store this writes no tombstone.
 */
void compact_garbage(struct kunit *test, u32 length)
{
	struct compact_object o;

	compact_put(test, &o, length);
	KUNIT_ASSERT_EQ(test, compact_free(test->priv, &o), 0);
}

/**
 * compact_close - close the segment of the head
 * @test: the test
 *
 * In a durable store the daemon acknowledges it.
 *
 * Return: the segment.
 */
struct lsmem_segment *compact_close(struct kunit *test)
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

/**
 * compact_same - does a payload follow a header?
 * @store: the store
 * @position: of the header
 * @key: of the payload
 * @length: of the payload, bytes
 * Return: true if it does.
 */
bool compact_same(struct lsmem_store *store, u64 position, u64 key, u32 length)
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

/**
 * compact_look - check an object that no other thread changes
 * @store: the store
 * @o: the object
 * Return: NULL or an error message.
 */
const char *compact_look(struct lsmem_store *store, const struct compact_object *o)
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

/**
 * compact_look_all - check objects, but for those that were freed
 * @test: the test
 * @o: the objects
 * @nr: how many
 */
void compact_look_all(struct kunit *test, const struct compact_object *o, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++)
		if (o[i].handle)
			KUNIT_EXPECT_STREQ(test, compact_look(test->priv, &o[i]) ?: "", "");
}

/**
 * compact_objects - room for COMPACT_OBJECTS objects
 * @test: the test
 * Return: the room, zeroed.
 */
struct compact_object *compact_objects(struct kunit *test)
{
	struct compact_object *o = kunit_kcalloc(test, COMPACT_OBJECTS, sizeof(*o), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, o);
	return o;
}

/**
 * compact_fill - fill a segment with objects and garbage, and close it
 * @test: the test
 * @o: out
 * @nr: how many
 * @length: of the payload of each, bytes
 *
 * 2000 bytes of garbage follow each object.
 *
 * Return: the segment.
 */
struct lsmem_segment *compact_fill(struct kunit *test, struct compact_object *o, u32 nr,
				   u32 length)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		compact_put(test, &o[i], length);
		compact_garbage(test, 2000);
	}
	return compact_close(test);
}

/**
 * compact_tombstone - write a tombstone, as lsmem_object_free() does
 * @test: the test
 * @barrier: of the tombstone
 * @e: out, its header
 */
void compact_tombstone(struct kunit *test, u64 barrier, struct lsmem_entry *e)
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
	lsmem_tombstone_done(store, &ap, 0);	/* no object was deleted */
	lsmem_append_commit(store, &ap);
}

/* ---- Asking for compaction and cleaning --------------------------------- */

/**
 * compact_counters - the counters of a store
 * @store: the store
 * Return: their sums.
 */
struct lsmem_counters compact_counters(struct lsmem_store *store)
{
	struct lsmem_counters sum;

	lsmem_store_counters(store, &sum);
	return sum;
}

/**
 * compact_busy - is compaction under way, or asked for?
 * @store: the store
 * Return: true if it is.
 */
bool compact_busy(struct lsmem_store *store)
{
	u32 i;

	for (i = 0; i < store->segments.nr; i++)
		if (READ_ONCE(store->segments.table[i].state) == LSMEM_SEGMENT_COMPACTING)
			return true;
	return atomic_read(&store->plan.compact_asked);
}

/**
 * compact_ring - vacated seglets that wait for readers
 * @store: the store
 * Return: how many victims have left some.
 */
u32 compact_ring(const struct lsmem_store *store)
{
	return READ_ONCE(store->compaction.next) - READ_ONCE(store->compaction.first);
}

/**
 * compact_ask - ask for compaction
 * @store: the store
 * @nr: of victims
 */
void compact_ask(struct lsmem_store *store, int nr)
{
	atomic_set(&store->plan.compact_asked, nr);
	wake_up_all(&store->plan.work);
}

/**
 * compact_all - compact until nothing more can be gained
 * @test: the test
 */
void compact_all(struct kunit *test)
{
	struct lsmem_store *store = test->priv;

	compact_ask(store, COMPACT_ALL);
	compact_await(test, !compact_busy(store));
	compact_await(test, !compact_ring(store));
	compact_await(test, !READ_ONCE(store->compaction.vacating));
}

/**
 * compact_cleaner - make the cleaner and run it
 * @test: the test
 */
void compact_cleaner(struct kunit *test)
{
	struct lsmem_store *store = test->priv;

	KUNIT_ASSERT_EQ(test, lsmem_cleaner_init(store), 0);
	KUNIT_ASSERT_EQ(test, lsmem_cleaner_make(store), 0);
	lsmem_cleaner_run(store);
}

/**
 * compact_cleanable - can a segment be cleaned?
 * @store: the store
 * @id: of the segment
 * Return: true if it is in the log, closed, and not damaged.
 */
bool compact_cleanable(struct lsmem_store *store, u64 id)
{
	const struct lsmem_segment *seg;
	bool cleanable;

	spin_lock(&store->segments.lock);
	seg = lsmem_segment_find(store, id);
	cleanable = seg && seg->state == LSMEM_SEGMENT_CLOSED && !seg->damaged;
	spin_unlock(&store->segments.lock);
	return cleanable;
}

/**
 * compact_clean - clean segments in one pass, and wait for its end
 * @test: the test
 * @ids: of the segments
 * @nr: how many
 *
 * In a volatile store they are free then.
 */
void compact_clean(struct kunit *test, const u64 *ids, u32 nr)
{
	struct lsmem_store *store = test->priv;
	u32 victims = nr;

	KUNIT_ASSERT_EQ(test, lsmem_clean_ask(store, ids, &victims, false), 0);
	KUNIT_ASSERT_EQ(test, victims, nr);
	compact_await(test, !lsmem_clean_underway(store));
	if (!store->durable)
		compact_await(test, !READ_ONCE(store->retires.segments));
}

/* ---- A segment after compaction ----------------------------------------- */

/**
 * compact_before - what compaction must not change
 * @seg: the segment
 * Return: these fields.
 */
struct compact_before compact_before(const struct lsmem_segment *seg)
{
	return (struct compact_before){
		.id = seg->id, .open_time = seg->open_time, .barrier = seg->barrier,
		.home = seg->home, .acked = seg->acked, .emitted = seg->emitted,
		.entries = seg->entries,
	};
}

/**
 * compact_unchanged - check what compaction must not change
 * @test: the test
 * @seg: the segment
 * @before: from compact_before()
 */
void compact_unchanged(struct kunit *test, const struct lsmem_segment *seg,
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

/**
 * compact_check_seglets - check that no seglet is lost
 * @test: the test
 *
 * The seglets of each segment name it as owner and are chained in order.
 */
void compact_check_seglets(struct kunit *test)
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
