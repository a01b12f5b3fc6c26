// SPDX-License-Identifier: GPL-2.0
/*
 * Common to the KUnit suites.
 *
 * lsmem_test_store() creates a store from the module's own parts, in the order of store.c, but
 * without device, cleaner and daemon.  A test calls what these would call.
 */
#include <linux/kthread.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "fixture.h"
#include "../compact.h"
#include "../window.h"

/* Keys that differ by less than this have different payloads. */
#define LSMEM_TEST_KEYS		4093u
#define LSMEM_TEST_CACHES	4u	/* cache segments of a tiered store */
#define LSMEM_TEST_TAKEN	(LSMEM_NO_SEGLET - 1)	/* owner in lsmem_test_take_seglets() */

static unsigned long kunit_seed;
module_param(kunit_seed, ulong, 0444);
MODULE_PARM_DESC(kunit_seed, "Seed of the KUnit suites, as printed by an earlier run (0: any)");

static u8 *lsmem_test_bytes;	/* random bytes, the same in every run */

/**
 * lsmem_test_payload - the payload that belongs to a key
 * @key: any number
 * Return: the address of LSMEM_OBJECT_MAX bytes.  An entry holds the first of them.
 */
const void *lsmem_test_payload(u64 key)
{
	return lsmem_test_bytes + key % LSMEM_TEST_KEYS;
}

/**
 * lsmem_test_seek - the length of an entry that ends at a given place of a seglet
 * @end: where the entry before it ends
 * @left: bytes of the seglet that remain after it, a multiple of LSMEM_ALIGN
 *
 * Return: payload bytes of an object, not 0.
 */
u32 lsmem_test_seek(u32 end, u32 left)
{
	u32 payload = lsmem_entry_start(end) + LSMEM_LONG_BYTES;
	u32 length = (2 * LSMEM_SEGLET_BYTES - left - payload % LSMEM_SEGLET_BYTES) %
		     LSMEM_SEGLET_BYTES;

	if (length > LSMEM_SHORT_MAX)
		return length;
	if (length + LSMEM_LONG_BYTES - LSMEM_SHORT_BYTES <= LSMEM_SHORT_MAX)
		return length + LSMEM_LONG_BYTES - LSMEM_SHORT_BYTES;
	return length + LSMEM_SEGLET_BYTES;	/* too long for a short entry, too short for a long one */
}

/**
 * lsmem_test_user - get memory of a user
 * @test: only its own thread can use the memory; it is freed with the test
 * @bytes: how many
 *
 * Return: the address, for copy_to_user() and the like.  Without memory the test is ended.
 */
void __user *lsmem_test_user(struct kunit *test, size_t bytes)
{
	unsigned long address = kunit_vm_mmap(test, NULL, 0, bytes, PROT_READ | PROT_WRITE,
					      MAP_ANONYMOUS | MAP_PRIVATE, 0);

	KUNIT_ASSERT_NE_MSG(test, address, 0, "no user memory");
	KUNIT_ASSERT_LT_MSG(test, address, (unsigned long)TASK_SIZE, "no user memory");
	return (void __user *)address;
}

/**
 * lsmem_test_seed - begin a sequence of random numbers
 * @test: the seed is printed to its log
 * @random: out, the state
 */
void lsmem_test_seed(struct kunit *test, struct rnd_state *random)
{
	if (!kunit_seed)
		kunit_seed = 1 + get_random_u32() / 2;
	kunit_info(test, "kunit_seed=%lu", kunit_seed);
	prandom_seed_state(random, kunit_seed);
}

static void lsmem_test_memory(struct kunit *test, struct lsmem_store *store)
{
	u32 i;

	KUNIT_ASSERT_EQ(test, percpu_counter_init(&store->live, 0, GFP_KERNEL), 0);
	KUNIT_ASSERT_EQ(test, percpu_counter_init(&store->handles.used, 0, GFP_KERNEL), 0);
	store->counters = alloc_percpu(struct lsmem_counters);
	store->heads.table = kvcalloc(store->heads.nr, sizeof(*store->heads.table), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, store->counters && store->heads.table);
	lsmem_log_init(store);
	KUNIT_ASSERT_EQ(test, lsmem_seglets_init(&store->seglets, store->bytes, LSMEM_GFP), 0);
	KUNIT_ASSERT_EQ(test, lsmem_seglets_fill(&store->seglets), 0);
	store->seglets.base = LSMEM_TEST_RESERVE;
	store->seglets.reserve = LSMEM_TEST_RESERVE;
	/* A seglet that nothing was written to must not look like written data. */
	for (i = 0; i < store->seglets.nr; i++)
		memset(lsmem_seglet_address(&store->seglets, i), 0xa5, LSMEM_SEGLET_BYTES);
	KUNIT_ASSERT_EQ(test, lsmem_segments_init(store, store->capacity,
						  store->tier.on ? LSMEM_TEST_CACHES : 0), 0);
	KUNIT_ASSERT_EQ(test, lsmem_handles_init(store), 0);
	KUNIT_ASSERT_EQ(test, lsmem_tier_init(store), 0);
	KUNIT_ASSERT_EQ(test, lsmem_fetches_init(store), 0);
	KUNIT_ASSERT_EQ(test, lsmem_window_init(store), 0);
}

/**
 * lsmem_test_store - create the store of a test
 * @test: its priv becomes the store
 * @shape: sizes and kind of the store
 *
 * For the init of a suite; the exit of the suite must be lsmem_test_store_exit().
 * Return: 0.  If there is no memory, the test fails and is ended.
 */
int lsmem_test_store(struct kunit *test, const struct lsmem_test_shape *shape)
{
	struct lsmem_store *store = kunit_kzalloc(test, sizeof(*store), GFP_KERNEL);
	struct rnd_state random;

	KUNIT_ASSERT_NOT_NULL(test, store);
	mutex_init(&store->mutex);
	mutex_init(&store->views.lock);
	INIT_LIST_HEAD(&store->views.clients);
	init_waitqueue_head(&store->activation);
	init_waitqueue_head(&store->space.wait);
	init_waitqueue_head(&store->repl.acks);
	init_waitqueue_head(&store->plan.work);
	init_waitqueue_head(&store->repl.events);
	lsmem_snapshots_setup(store);
	store->kind = LSMEM_KIND_OBJECT;
	store->durable = shape->durable;
	store->bytes = (u64)shape->segments * LSMEM_SEGMENT_BYTES;
	store->tier.on = shape->tiered;
	store->capacity = shape->tiered ? 2 * store->bytes : store->bytes;
	store->heads.nr = shape->heads;
	store->handles.common = shape->handles;
	store->views.view_ms = 1000;
	store->views.clients_max = LSMEM_CLIENTS_MAX;
	store->space.stall_ms = 1;
	store->clock_base = ktime_get_ns();
	strscpy(store->name, "kunit", sizeof(store->name));
	test->priv = store;

	lsmem_test_bytes = kvmalloc(LSMEM_OBJECT_MAX + LSMEM_TEST_KEYS, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, lsmem_test_bytes);
	prandom_seed_state(&random, 1);
	prandom_bytes_state(&random, lsmem_test_bytes, LSMEM_OBJECT_MAX + LSMEM_TEST_KEYS);
	lsmem_test_memory(test, store);
	spin_lock(&store->segments.lock);
	lsmem_segments_spare(store);
	spin_unlock(&store->segments.lock);
	lsmem_test_list_spares(store);
	smp_store_release(&store->state, LSMEM_STATE_ACTIVE);	/* see lsmem_store_active() */
	return 0;
}

/**
 * lsmem_test_store_exit - free the store of a test, complete or not
 * @test: its priv is the store or NULL
 */
void lsmem_test_store_exit(struct kunit *test)
{
	struct lsmem_store *store = test->priv;

	if (!store)
		return;
	lsmem_window_destroy(store);
	lsmem_fetches_destroy(store);
	lsmem_tier_destroy(store);
	lsmem_handles_destroy(store);
	lsmem_segments_destroy(store);
	lsmem_seglets_destroy(&store->seglets);
	kvfree(store->heads.table);
	free_percpu(store->counters);
	percpu_counter_destroy(&store->handles.used);
	percpu_counter_destroy(&store->live);
	kvfree(lsmem_test_bytes);
	lsmem_test_bytes = NULL;
}

/**
 * lsmem_test_livemap - compare the live bitmap with the handle table
 * @test: its priv is the store, in which no change is under way, or one that is not complete
 */
void lsmem_test_livemap(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	const struct lsmem_livemap *livemap;
	unsigned long *wanted;
	u64 wrong = 0, i;

	if (!store || !store->handles.livemap.bits)
		return;
	livemap = &store->handles.livemap;
	wanted = kvzalloc(livemap->bytes, GFP_KERNEL);
	if (!wanted) {
		KUNIT_FAIL(test, "no memory for a copy of the live bitmap");
		return;
	}
	for (i = 0; i < store->handles.nr; i++) {
		u64 word = store->handles.table[i].word;

		if (lsmem_word_state(word) == LSMEM_WORD_LIVE)
			KUNIT_EXPECT_FALSE(test, __test_and_set_bit(lsmem_word_position(word) / 4,
								    wanted));
	}
	for (i = 0; i < livemap->bytes / sizeof(long); i++)
		wrong += hweight_long(livemap->bits[i] ^ wanted[i]);
	KUNIT_EXPECT_EQ(test, wrong, 0);
	kvfree(wanted);
}

/**
 * lsmem_test_list_spares - do what the daemon does for OPEN
 * @store: afterwards a durable digest has all its segments that were opening
 */
void lsmem_test_list_spares(struct lsmem_store *store)
{
	struct lsmem_segment *seg;

	spin_lock(&store->segments.lock);
	list_for_each_entry(seg, &store->segments.log, node) {
		if (seg->state == LSMEM_SEGMENT_OPENING)
			lsmem_segment_listed(store, seg);
	}
	spin_unlock(&store->segments.lock);
}

/**
 * lsmem_test_read - copy bytes of a segment out, across seglets
 * @store: the store
 * @seg: has seglets up to @offset + @length
 * @offset: where
 * @to: @length bytes
 * @length: how many
 */
void lsmem_test_read(struct lsmem_store *store, const struct lsmem_segment *seg, u32 offset,
		     void *to, u32 length)
{
	while (length) {
		u32 piece = min(length, LSMEM_SEGLET_BYTES - offset % LSMEM_SEGLET_BYTES);

		memcpy(to, lsmem_segment_at(store, seg, offset), piece);
		to += piece;
		offset += piece;
		length -= piece;
	}
}

/**
 * lsmem_test_take_seglets - take free seglets away
 * @store: the store
 * @leave: number of free seglets that remain
 *
 * Return: the number of seglets taken.
 */
u32 lsmem_test_take_seglets(struct lsmem_store *store, u32 leave)
{
	u32 taken = 0;

	while (store->seglets.nr_free > leave &&
	       lsmem_seglet_get(&store->seglets, LSMEM_TEST_TAKEN, LSMEM_TAKER_CLEANER) >= 0)
		taken++;
	return taken;
}

/**
 * lsmem_test_put_seglets - give back seglets that lsmem_test_take_seglets() took
 * @store: the store
 * @nr: number of seglets
 */
void lsmem_test_put_seglets(struct lsmem_store *store, u32 nr)
{
	u32 seglet;

	for (seglet = 0; nr && seglet < store->seglets.nr; seglet++) {
		if (store->seglets.owner[seglet] == LSMEM_TEST_TAKEN) {
			lsmem_seglets_put(&store->seglets, &seglet, 1);
			nr--;
		}
	}
}

static int lsmem_test_thread(void *data)
{
	struct lsmem_test_thread *thread = data;

	thread->wrong = thread->run(thread->data);
	/* The joiner may unload the module, so no code of the module may run after this. */
	kthread_complete_and_exit(&thread->done, 0);
}

/**
 * lsmem_test_compactors - create the compactors of a store and start them
 * @store: the store
 * Return: 0 or a negative errno; then there are no compactors.
 */
int lsmem_test_compactors(struct lsmem_store *store)
{
	int ret = lsmem_compactors_make(store);

	if (!ret)
		lsmem_compactors_run(store);
	return ret;
}

/**
 * lsmem_test_start - start a thread
 * @thread: out; the caller must pass it to lsmem_test_join()
 * @run: function of the thread, see struct lsmem_test_thread
 * @data: argument of @run
 * Return: 0 or a negative errno; then the thread does not exist and must not be joined.
 */
int lsmem_test_start(struct lsmem_test_thread *thread, const char *(*run)(void *), void *data)
{
	struct task_struct *task;

	*thread = (struct lsmem_test_thread){ .run = run, .data = data };
	init_completion(&thread->done);
	task = kthread_run(lsmem_test_thread, thread, "lsmem-kunit");
	return PTR_ERR_OR_ZERO(task);
}

/**
 * lsmem_test_join - wait until a thread has ended
 * @test: fails if the thread returned an error message
 * @thread: a thread that lsmem_test_start() started
 */
void lsmem_test_join(struct kunit *test, struct lsmem_test_thread *thread)
{
	wait_for_completion(&thread->done);
	KUNIT_EXPECT_STREQ(test, thread->wrong ?: "", "");
}
