// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: view epochs.  The kernel keeps seglets as long as a view may read them, but not longer
 * than the bound of a view, whatever clients write into view slots.
 *
 * The tests do not wait.  They change the time at which the kernel first found that a slot holds up
 * an epoch.
 */
#include <linux/slab.h>

#include "fixture.h"
#include "../epoch.h"

#define EPOCH_MS	3600000u	/* bound of a view: longer than any test */

static const struct lsmem_test_shape epoch_shape = {
	.segments = 4, .heads = 3, .handles = 64,
};

static int epoch_init(struct kunit *test)
{
	int ret = lsmem_test_store(test, &epoch_shape);
	struct lsmem_store *store = test->priv;

	store->views.view_ms = EPOCH_MS;
	store->views.info->epoch = 1000;
	return ret;
}

static void epoch_exit(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_client *client, *next;

	if (store && store->views.clients.next)
		list_for_each_entry_safe(client, next, &store->views.clients, node)
			lsmem_client_free(client);
	lsmem_test_store_exit(test);
}

static struct lsmem_client *epoch_client(struct kunit *test)
{
	struct lsmem_client *client = lsmem_client_new(test->priv);

	KUNIT_ASSERT_NOT_NULL(test, client);
	KUNIT_ASSERT_EQ(test, lsmem_client_map(client), 0);
	return client;
}

static u64 epoch_revoked(struct kunit *test)
{
	struct lsmem_counters sum;

	lsmem_store_counters(test->priv, &sum);
	return sum.views_revoked;
}

/* Make slot @i of @client hold up an epoch since @time jiffies ago. */
static void epoch_elapse(struct lsmem_client *client, u32 i, unsigned long time)
{
	client->seen[i].since = jiffies - time;
}

/* Less than the bound of @ms, with slack for a slow machine; in jiffies. */
static unsigned long epoch_almost(u32 ms)
{
	return msecs_to_jiffies(ms) * 3 / 4;
}

/* ---- Slots that hold up an epoch ---------------------------------------- */

static const struct epoch_slot_case {
	const char *name;
	u64 value;		/* value in the slot; the test waits for epoch 1001 */
	bool holds;		/* does it hold up that epoch? */
} epoch_slots[] = {
	{ "idle", LSMEM_SLOT_IDLE, false },
	{ "one", 1, true },
	{ "long ago", 500, true },
	{ "the epoch before", 1000, true },
	{ "the epoch", 1001, false },
	{ "a later one", 1002, false },
	{ "a far later one", 1ull << 63, false },
	{ "almost revoked", LSMEM_SLOT_REVOKED - 1, false },
	{ "revoked", LSMEM_SLOT_REVOKED, false },
};

static void epoch_slot_desc(const struct epoch_slot_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(epoch_slot, epoch_slots, epoch_slot_desc);

/* One value in the first, a middle and the last slot of the first and of the last client. */
static void epoch_test_slot(struct kunit *test)
{
	static const u32 where[] = { 0, LSMEM_SLOTS / 2, LSMEM_SLOTS - 1 };
	const struct epoch_slot_case *param = test->param_value;
	struct lsmem_store *store = test->priv;
	u32 i, first;

	KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, lsmem_epoch_advance(store)));
	for (first = 0; first < 2; first++) {
		for (i = 0; i < ARRAY_SIZE(where); i++) {
			struct lsmem_client *a, *b, *client;
			u64 epoch;

			store->views.info->epoch = 1000;
			a = epoch_client(test);
			b = epoch_client(test);
			client = first ? a : b;
			client->slots[where[i]].epoch = param->value;
			epoch = lsmem_epoch_advance(store);
			KUNIT_EXPECT_EQ(test, epoch, 1001);
			KUNIT_EXPECT_EQ(test, store->views.info->epoch, 1001);
			KUNIT_EXPECT_EQ(test, lsmem_epoch_passed(store, epoch), !param->holds);
			KUNIT_EXPECT_EQ(test, lsmem_epoch_passed(store, epoch), !param->holds);
			/* The view ends. */
			client->slots[where[i]].epoch = LSMEM_SLOT_IDLE;
			KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, epoch));
			KUNIT_EXPECT_EQ(test, epoch_revoked(test), 0);
			lsmem_client_free(a);
			lsmem_client_free(b);
		}
	}
}

/* A view holds up all epochs after the one that it began in, and none before. */
static void epoch_test_order(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_client *client = epoch_client(test);
	u64 epoch;
	u32 i;

	epoch = lsmem_epoch_advance(store);
	client->slots[3].epoch = store->views.info->epoch;
	/* The view does not hold up the epoch that it began in. */
	KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, epoch));
	for (i = 0; i < 10; i++) {
		epoch = lsmem_epoch_advance(store);
		KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
	}
	/* Another view, of the newest epoch, in another slot. */
	client->slots[4].epoch = epoch;
	client->slots[3].epoch = LSMEM_SLOT_IDLE;
	KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, epoch));
	epoch = lsmem_epoch_advance(store);
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
	/* A slot that was idle does not hold up this epoch any more, even with an old value. */
	client->slots[3].epoch = 1;
	client->slots[4].epoch = LSMEM_SLOT_IDLE;
	KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, epoch));
	epoch = lsmem_epoch_advance(store);
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));	/* but the next one */
	/* Its file is closed. */
	lsmem_client_free(client);
	KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, epoch));
}

/* ---- The bound ---------------------------------------------------------- */

/* The kernel revokes a view when its bound is over, not before, and then leaves the slot alone. */
static void epoch_test_bound(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_client *client = epoch_client(test);
	u64 epoch;

	client->slots[5].epoch = 1000;
	epoch = lsmem_epoch_advance(store);
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
	epoch_elapse(client, 5, epoch_almost(EPOCH_MS));
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
	KUNIT_EXPECT_EQ(test, client->slots[5].epoch, 1000);
	epoch_elapse(client, 5, msecs_to_jiffies(EPOCH_MS));
	KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, epoch));
	KUNIT_EXPECT_EQ(test, client->slots[5].epoch, LSMEM_SLOT_REVOKED);
	KUNIT_EXPECT_EQ(test, epoch_revoked(test), 1);

	/* The epoch has passed; a later value in the slot does not change this. */
	client->slots[5].epoch = 1000;
	KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, epoch));
	KUNIT_EXPECT_EQ(test, client->slots[5].epoch, 1000);
	KUNIT_EXPECT_EQ(test, epoch_revoked(test), 1);

	/* The slot holds up the next epoch; its time runs from the next look at it. */
	epoch = lsmem_epoch_advance(store);
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
	KUNIT_EXPECT_EQ(test, client->slots[5].epoch, 1000);
}

/* The time of a slot starts again when another view begins in it. */
static void epoch_test_since(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_client *client = epoch_client(test);
	u64 epoch;

	client->slots[0].epoch = 1000;
	epoch = lsmem_epoch_advance(store);
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
	/* The view ends, and another one begins before the kernel's next look. */
	epoch_elapse(client, 0, 2 * msecs_to_jiffies(EPOCH_MS));
	client->slots[0].epoch = epoch;
	epoch = lsmem_epoch_advance(store);
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
	KUNIT_EXPECT_EQ(test, client->slots[0].epoch, epoch - 1);
	KUNIT_EXPECT_EQ(test, epoch_revoked(test), 0);
}

/*
 * The cleaner and the compactors wait for different epochs, and look in turns.  This does not
 * restart the time of the view.
 */
static void epoch_test_two(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_client *client = epoch_client(test);
	u64 first, second;

	client->slots[2].epoch = 1000;
	first = lsmem_epoch_advance(store);
	second = lsmem_epoch_advance(store);
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, first));
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, second));
	epoch_elapse(client, 2, epoch_almost(EPOCH_MS));
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, first));
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, second));
	epoch_elapse(client, 2, msecs_to_jiffies(EPOCH_MS));
	KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, first));
	KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, second));
	KUNIT_EXPECT_EQ(test, client->slots[2].epoch, LSMEM_SLOT_REVOKED);
	KUNIT_EXPECT_EQ(test, epoch_revoked(test), 1);
}

/* A newly opened file does not hold up epochs from before, whatever values its slots have. */
static void epoch_test_reopened(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_client *client = epoch_client(test);
	u64 epoch, next;
	u32 i;

	client->slots[0].epoch = 1;
	epoch = lsmem_epoch_advance(store);
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
	for (i = 0; i < 10; i++) {
		lsmem_client_free(client);
		client = epoch_client(test);
		client->slots[0].epoch = 1;
		KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, epoch));
	}
	/* It holds up the next epoch. */
	next = lsmem_epoch_advance(store);
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, next));
	KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, epoch));
	KUNIT_EXPECT_EQ(test, epoch_revoked(test), 0);
}

#define EPOCH_FILES	8u

/*
 * A slot of each file holds up a different epoch.  The time of all slots runs from the first look
 * on, whichever epoch the caller waits for: the times do not add up.
 */
static void epoch_test_in_turn(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_client *client[EPOCH_FILES];
	u64 epoch[EPOCH_FILES];
	u32 i;

	for (i = 0; i < EPOCH_FILES; i++)
		client[i] = epoch_client(test);
	for (i = 0; i < EPOCH_FILES; i++) {
		client[i]->slots[0].epoch = store->views.info->epoch;
		epoch[i] = lsmem_epoch_advance(store);
	}
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch[0]));
	for (i = 0; i < EPOCH_FILES; i++)
		epoch_elapse(client[i], 0, msecs_to_jiffies(EPOCH_MS));
	for (i = 0; i < EPOCH_FILES; i++)
		KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, epoch[i]));
	KUNIT_EXPECT_EQ(test, epoch_revoked(test), EPOCH_FILES);
}

/* A slot whose value has changed does not hold up epochs that began before the previous look. */
static void epoch_test_values(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_client *client = epoch_client(test);
	u64 first, second;

	first = lsmem_epoch_advance(store);
	second = lsmem_epoch_advance(store);
	client->slots[9].epoch = 1000;
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, first));
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, second));
	client->slots[9].epoch = first;
	KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, second));
	KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, first));
	second = lsmem_epoch_advance(store);
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, second));
	KUNIT_EXPECT_EQ(test, epoch_revoked(test), 0);
}

/* Each revocation halves the bound of the client, down to 1/1024; after a minute this is undone. */
static void epoch_test_strikes(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_client *client = epoch_client(test);
	u32 round;
	u64 epoch;

	for (round = 0; round < 14; round++) {
		u32 ms = EPOCH_MS >> min(round, 10u);

		client->slots[1].epoch = 1;
		epoch = lsmem_epoch_advance(store);
		KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
		epoch_elapse(client, 1, epoch_almost(ms));
		KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
		epoch_elapse(client, 1, msecs_to_jiffies(ms) + 1);
		KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, epoch));
		KUNIT_EXPECT_EQ(test, client->slots[1].epoch, LSMEM_SLOT_REVOKED);
	}
	KUNIT_EXPECT_EQ(test, epoch_revoked(test), round);

	client->struck = jiffies - 61 * HZ;
	client->slots[1].epoch = 1;
	epoch = lsmem_epoch_advance(store);
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
	epoch_elapse(client, 1, epoch_almost(EPOCH_MS));
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
}

/*
 * A client writes random values into all its slots, again and again.  Its own bound decreases.
 * The bound and the view of another client do not change.
 */
static void epoch_test_garbage(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_client *bad = epoch_client(test), *good = epoch_client(test);
	struct rnd_state random;
	u32 round, i;
	u64 epoch;

	lsmem_test_seed(test, &random);
	good->slots[7].epoch = store->views.info->epoch;
	for (round = 0; round < 30; round++) {
		for (i = 0; i < LSMEM_SLOTS; i++)
			bad->slots[i].epoch = lsmem_test_u64(&random) >>
					      lsmem_test_below(&random, 64);
		bad->slots[round].epoch = 1;	/* at least one that holds up the epoch */
		epoch = lsmem_epoch_advance(store);
		KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
		for (i = 0; i < LSMEM_SLOTS; i++)
			epoch_elapse(bad, i, msecs_to_jiffies(EPOCH_MS));
		KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
		KUNIT_EXPECT_EQ(test, bad->slots[round].epoch, LSMEM_SLOT_REVOKED);
		for (i = 0; i < LSMEM_SLOTS; i++) {
			u64 value = bad->slots[i].epoch;

			/* No slot is left that holds up this epoch. */
			KUNIT_EXPECT_TRUE(test, value == LSMEM_SLOT_IDLE || value >= epoch);
			bad->slots[i].epoch = 1;
		}
		KUNIT_EXPECT_EQ(test, good->slots[7].epoch, 1000);
	}
	KUNIT_EXPECT_GT(test, epoch_revoked(test), round);
	KUNIT_EXPECT_EQ(test, good->strikes, 0);
	epoch_elapse(good, 7, epoch_almost(EPOCH_MS));
	KUNIT_EXPECT_FALSE(test, lsmem_epoch_passed(store, epoch));
	good->slots[7].epoch = LSMEM_SLOT_IDLE;
	KUNIT_EXPECT_TRUE(test, lsmem_epoch_passed(store, epoch));
}

/* ---- Views and seglets --------------------------------------------------- */

#define EPOCH_READERS	3
#define EPOCH_SEGLETS	4u
#define EPOCH_VIEWS	1000u	/* views of each reader, at least */
#define EPOCH_REVOKED	20u	/* revoked views of a lazy reader, at least */
#define EPOCH_DEAD	0xdeadull

static const struct epoch_view_case {
	const char *name;
	u32 view_ms;
	bool lazy;		/* one reader ends its views only when they are revoked */
} epoch_views[] = {
	{ "none is revoked", EPOCH_MS, false },
	{ "some are revoked", 1, true },
};

static void epoch_view_desc(const struct epoch_view_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(epoch_view, epoch_views, epoch_view_desc);

struct epoch_reader {
	struct lsmem_test_thread thread;
	struct lsmem_store *store;
	struct lsmem_client *client;
	u32 slot;
	bool lazy;
	bool stop;
	u64 views;
	u64 revoked;
};

/* The seglet of the only object. Each of its 8-byte words is the position of the object. */
static u64 *epoch_seglet(struct lsmem_store *store, u64 word)
{
	return lsmem_seglet_address(&store->seglets,
				   lsmem_word_position(word) >> LSMEM_POSITION_OFFSET_BITS);
}

/* A client, like liblsmem: publish the epoch, barrier, load the word, read, end the view. */
static const char *epoch_reader(void *data)
{
	struct epoch_reader *r = data;
	struct lsmem_store *store = r->store;
	u64 *slot = &r->client->slots[r->slot].epoch;

	while (!READ_ONCE(r->stop)) {
		bool wrong = false;
		u64 word, *seglet;
		u32 i, rounds;

		/* Acquire: a reader that sees the epoch sees the words exchanged before it. */
		WRITE_ONCE(*slot, smp_load_acquire(&store->views.info->epoch));
		smp_mb();	/* pairs with lsmem_epoch_advance() */
		word = READ_ONCE(store->handles.table[0].word);
		seglet = epoch_seglet(store, word);
		for (rounds = 0; rounds < 4; rounds++) {
			for (i = 0; i < LSMEM_SEGLET_BYTES / sizeof(u64); i += 512)
				wrong |= READ_ONCE(seglet[i]) != lsmem_word_position(word);
			cond_resched();
		}
		while (r->lazy && READ_ONCE(*slot) != LSMEM_SLOT_REVOKED && !READ_ONCE(r->stop))
			cond_resched();
		WRITE_ONCE(r->views, r->views + 1);
		if (xchg(slot, LSMEM_SLOT_IDLE) == LSMEM_SLOT_REVOKED)
			WRITE_ONCE(r->revoked, r->revoked + 1);
		else if (wrong)
			return "a view that was not revoked saw a seglet that had been freed";
		cond_resched();
	}
	return NULL;
}

/* Have all readers done enough, or has one ended with an error? */
static bool epoch_enough(struct epoch_reader *r)
{
	u32 i;

	for (i = 0; i < EPOCH_READERS; i++) {
		if (r[i].lazy ? READ_ONCE(r[i].revoked) <= EPOCH_REVOKED :
				READ_ONCE(r[i].views) < EPOCH_VIEWS)
			break;
	}
	if (i == EPOCH_READERS)
		return true;
	for (i = 0; i < EPOCH_READERS; i++)
		if (completion_done(&r[i].thread.done))
			return true;
	return false;
}

/*
 * An object moves from seglet to seglet.  The old seglet is overwritten as soon as its epoch has
 * passed.  A view that is not revoked never sees the overwritten bytes.
 */
static void epoch_test_views(struct kunit *test)
{
	const struct epoch_view_case *param = test->param_value;
	struct lsmem_store *store = test->priv;
	struct lsmem_handle *h = &store->handles.table[0];
	struct epoch_reader *r;
	u64 revoked = 0, *seglet;
	u32 i, j, move;

	store->views.view_ms = param->view_ms;
	r = kunit_kcalloc(test, EPOCH_READERS, sizeof(*r), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, r);
	for (i = 0; i < LSMEM_SEGLET_BYTES / sizeof(u64); i++)
		((u64 *)lsmem_seglet_address(&store->seglets, 0))[i] = 0;
	h->word = lsmem_word_next(h->word, LSMEM_WORD_LIVE, 0);
	for (i = 0; i < EPOCH_READERS; i++) {
		r[i].store = store;
		r[i].slot = i;
		/* The first two share a file. */
		r[i].client = i == 1 ? r[0].client : epoch_client(test);
		r[i].lazy = param->lazy && i == EPOCH_READERS - 1;
		KUNIT_ASSERT_EQ(test, lsmem_test_start(&r[i].thread, epoch_reader, &r[i]), 0);
	}
	for (move = 1; !epoch_enough(r); move++) {
		u64 to = (u64)(move % EPOCH_SEGLETS) << LSMEM_POSITION_OFFSET_BITS;
		u64 old = h->word, epoch;

		seglet = epoch_seglet(store, to);
		for (j = 0; j < LSMEM_SEGLET_BYTES / sizeof(u64); j += 512)
			WRITE_ONCE(seglet[j], to);
		/* A reader that sees the word sees the seglet. */
		smp_store_release(&h->word, lsmem_word_next(old, LSMEM_WORD_LIVE, to));
		epoch = lsmem_epoch_advance(store);
		while (!lsmem_epoch_passed(store, epoch))
			cond_resched();
		seglet = epoch_seglet(store, old);
		for (j = 0; j < LSMEM_SEGLET_BYTES / sizeof(u64); j += 512)
			WRITE_ONCE(seglet[j], EPOCH_DEAD);
		cond_resched();
	}
	for (i = 0; i < EPOCH_READERS; i++)
		WRITE_ONCE(r[i].stop, true);
	for (i = 0; i < EPOCH_READERS; i++) {
		lsmem_test_join(test, &r[i].thread);
		revoked += r[i].revoked;
	}
	/* The kernel counts a revocation also if the client ends the view just before it. */
	KUNIT_EXPECT_LE(test, revoked, epoch_revoked(test));
	if (!param->lazy)
		KUNIT_EXPECT_EQ(test, revoked, 0);
}

static struct kunit_case epoch_cases[] = {
	KUNIT_CASE_PARAM(epoch_test_slot, epoch_slot_gen_params),
	KUNIT_CASE(epoch_test_order),
	KUNIT_CASE(epoch_test_bound),
	KUNIT_CASE(epoch_test_since),
	KUNIT_CASE(epoch_test_two),
	KUNIT_CASE(epoch_test_reopened),
	KUNIT_CASE(epoch_test_in_turn),
	KUNIT_CASE(epoch_test_values),
	KUNIT_CASE(epoch_test_strikes),
	KUNIT_CASE(epoch_test_garbage),
	KUNIT_CASE_PARAM(epoch_test_views, epoch_view_gen_params),
	{}
};

static struct kunit_suite epoch_suite = {
	.name = "lsmem-epoch",
	.init = epoch_init,
	.exit = epoch_exit,
	.test_cases = epoch_cases,
};

kunit_test_suite(epoch_suite);
