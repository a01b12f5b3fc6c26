// SPDX-License-Identifier: GPL-2.0
/*
 * What the KUnit suites share.
 *
 * The store is made of the module's own parts in the order that store.c has,
 * but nothing else knows it: no device, no cleaner, no daemon.  What these would
 * do, a test does, when it wants it done.
 */
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "fixture.h"
#include "../compact.h"
#include "../window.h"

/* Keys that differ by less have different payloads. */
#define LSMEM_TEST_KEYS		4093u
#define LSMEM_TEST_TAKEN	(LSMEM_NO_SEGLET - 1)	/* owner of seglets taken away */

static unsigned long kunit_seed;
module_param(kunit_seed, ulong, 0444);
MODULE_PARM_DESC(kunit_seed, "Seed of the KUnit suites, as printed by an earlier run (0: any)");

static u8 *lsmem_test_bytes;	/* random, the same in every run */

/**
 * lsmem_test_payload - what the entry with a key holds
 * @key: any
 * Return: LSMEM_OBJECT_MAX bytes.
 */
const void *lsmem_test_payload(u64 key)
{
	return lsmem_test_bytes + key % LSMEM_TEST_KEYS;
}

/**
 * lsmem_test_seed - the random numbers of a test
 * @test: its log tells the seed
 * @random: out
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
	/* No test may take what a young seglet has for what was written. */
	for (i = 0; i < store->seglets.nr; i++)
		memset(lsmem_seglet_address(&store->seglets, i), 0xa5, LSMEM_SEGLET_BYTES);
	KUNIT_ASSERT_EQ(test, lsmem_segments_init(store), 0);
	KUNIT_ASSERT_EQ(test, lsmem_handles_init(store), 0);
	KUNIT_ASSERT_EQ(test, lsmem_window_init(store), 0);
}

/**
 * lsmem_test_store - make a test's store
 * @test: its priv will be the store
 * @shape: what is wanted
 *
 * For the init of a suite; lsmem_test_store_exit() is its exit.
 * Return: 0.  Fails the test when there is no memory.
 */
int lsmem_test_store(struct kunit *test, const struct lsmem_test_shape *shape)
{
	struct lsmem_store *store = kunit_kzalloc(test, sizeof(*store), GFP_KERNEL);
	struct rnd_state random;

	KUNIT_ASSERT_NOT_NULL(test, store);
	mutex_init(&store->views.lock);
	INIT_LIST_HEAD(&store->views.clients);
	init_waitqueue_head(&store->space.wait);
	init_waitqueue_head(&store->repl.acks);
	init_waitqueue_head(&store->plan.work);
	init_waitqueue_head(&store->repl.events);
	store->kind = LSMEM_KIND_OBJECT;
	store->durable = shape->durable;
	store->bytes = (u64)shape->segments * LSMEM_SEGMENT_BYTES;
	store->heads.nr = shape->heads;
	store->handles.nr = shape->handles;
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
 * lsmem_test_store_exit - free a test's store, however much of it there is
 * @test: its priv is the store, if it came to that
 */
void lsmem_test_store_exit(struct kunit *test)
{
	struct lsmem_store *store = test->priv;

	if (!store)
		return;
	lsmem_window_destroy(store);
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
 * lsmem_test_list_spares - what a daemon does on OPEN
 * @store: all that are opening are in a durable digest after it
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
 * lsmem_test_take_seglets - take free seglets away
 * @store: the store
 * @leave: so many are left
 *
 * Return: how many were taken.
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
 * lsmem_test_put_seglets - give back seglets that were taken
 * @store: the store
 * @nr: how many
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
	/* Not before the last instruction here: the module may go after it. */
	kthread_complete_and_exit(&thread->done, 0);
}

/**
 * lsmem_test_compactors - make a store's compactors, and have them run
 * @store: to be compacted
 * Return: 0 or an error; there is none then.
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
 * @thread: filled in; to be joined
 * @run: what it does
 * @data: for @run
 * Return: 0 or an error; nothing has to be joined then.
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
 * lsmem_test_join - wait for a thread's end
 * @test: fails when the thread says so
 * @thread: started
 */
void lsmem_test_join(struct kunit *test, struct lsmem_test_thread *thread)
{
	wait_for_completion(&thread->done);
	KUNIT_EXPECT_STREQ(test, thread->wrong ?: "", "");
}
