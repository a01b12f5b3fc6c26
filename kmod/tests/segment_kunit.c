// SPDX-License-Identifier: GPL-2.0
/* KUnit: seglets and segments. */
#include <linux/slab.h>

#include "fixture.h"

#define SEGMENT_THREADS	4
#define SEGMENT_ROUNDS	5000

static const struct lsmem_test_shape segment_shape = {
	.segments = 4, .heads = 3, .handles = 64,
};

static int segment_init(struct kunit *test)
{
	return lsmem_test_store(test, &segment_shape);
}

/* ---- Seglets ------------------------------------------------------------- */

static const struct segment_claim_case {
	const char *name;
	u32 free;	/* seglets */
	u32 most;	/* that the pass can use */
	u32 claimed;	/* with a base of LSMEM_TEST_RESERVE, 8 */
} segment_claims[] = {
	{ "nothing free", 0, 100, 0 },
	{ "less than the base", 5, 100, 5 },
	{ "the base", 8, 100, 8 },
	{ "one more", 9, 100, 8 },
	{ "two more", 10, 100, 9 },
	{ "half of what is beyond the base", 108, 100, 58 },
	{ "no more than can be used", 308, 100, 100 },
	{ "the base, though less can be used", 308, 3, 8 },
};

static void segment_claim_desc(const struct segment_claim_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(segment_claim, segment_claims, segment_claim_desc);

/* A pass gets the seglets that it has claimed, however many writers take. After it, writers may. */
static void segment_test_claim(struct kunit *test)
{
	const struct segment_claim_case *param = test->param_value;
	struct lsmem_store *store = test->priv;
	u32 taken, writers = 0, cleaner = 0;

	taken = lsmem_test_take_seglets(store, param->free);
	KUNIT_EXPECT_EQ(test, lsmem_seglets_claim(&store->seglets, param->most), param->claimed);
	/* The cleaner takes every third seglet, as long as writers get any. */
	while (lsmem_seglet_get(&store->seglets, 0, LSMEM_TAKER_WRITER) >= 0) {
		writers++;
		if (writers % 2 == 0 && cleaner < param->claimed &&
		    lsmem_seglet_get(&store->seglets, 1, LSMEM_TAKER_CLEANER) >= 0)
			cleaner++;
	}
	while (lsmem_seglet_get(&store->seglets, 1, LSMEM_TAKER_CLEANER) >= 0)
		cleaner++;
	KUNIT_EXPECT_GE(test, cleaner, param->claimed);
	KUNIT_EXPECT_EQ(test, writers + cleaner, param->free);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, 0);

	lsmem_seglets_unclaim(&store->seglets);
	KUNIT_EXPECT_EQ(test, store->seglets.reserve, LSMEM_TEST_RESERVE);
	KUNIT_EXPECT_LT(test, lsmem_seglet_get(&store->seglets, 0, LSMEM_TAKER_CLEANER), 0);
	lsmem_test_put_seglets(store, taken);
}

static const struct segment_run_case {
	const char *name;
	u32 free;	/* seglets */
	u32 needed;	/* seglets that a pass still needs; ~0: there is no pass */
	u32 nr;		/* seglets that a compaction takes */
	bool enough;	/* does it get them?  8 seglets are not for compaction. */
} segment_runs[] = {
	{ "one of none", 0, ~0u, 1, false },
	{ "one of the seglets that are kept", 8, ~0u, 1, false },
	{ "the first beyond these", 9, ~0u, 1, true },
	{ "all beyond these", 136, ~0u, 128, true },
	{ "one too few", 135, ~0u, 128, false },
	{ "beyond what a pass has claimed", 108, 58, 42, true },
	{ "one that a pass has claimed", 108, 58, 43, false },
	{ "what a pass does not need", 108, 20, 80, true },
	{ "one that a pass needs", 108, 20, 81, false },
	{ "a pass needs more than it has claimed", 108, 100, 42, true },
	{ "a pass needs more, one too few", 108, 100, 43, false },
	{ "a pass needs nothing", 108, 0, 100, true },
};

static void segment_run_desc(const struct segment_run_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(segment_run, segment_runs, segment_run_desc);

/* @taken is a chain of @nr different seglets, all with owner 5. */
static void segment_run_check(struct kunit *test, const u32 *taken, u32 nr)
{
	struct lsmem_seglets *seglets = &((struct lsmem_store *)test->priv)->seglets;
	u32 i, j;

	for (i = 0; i < nr; i++) {
		KUNIT_ASSERT_LT(test, taken[i], seglets->nr);
		KUNIT_EXPECT_EQ(test, seglets->owner[taken[i]], 5);
		KUNIT_EXPECT_EQ(test, seglets->table[taken[i]].next,
				i + 1 < nr ? taken[i + 1] : LSMEM_NO_SEGLET);
		for (j = 0; j < i; j++)
			KUNIT_EXPECT_NE(test, taken[i], taken[j]);
	}
}

/* A compaction takes all seglets that it needs or none; a pass still gets those it has claimed. */
static void segment_test_run(struct kunit *test)
{
	const struct segment_run_case *param = test->param_value;
	struct lsmem_store *store = test->priv;
	struct lsmem_seglets *seglets = &store->seglets;
	u32 away, taken[LSMEM_SEGLETS], claimed = 0, begun = 0, i;

	memset(taken, 0xff, sizeof(taken));
	away = lsmem_test_take_seglets(store, param->free);
	if (param->needed != ~0u) {
		claimed = min(lsmem_seglets_claim(seglets, 100), param->needed);
		lsmem_seglets_reclaim(seglets, param->needed);
		KUNIT_EXPECT_EQ(test, seglets->reserve, max(claimed, LSMEM_TEST_RESERVE));
	}
	for (i = 0; i < seglets->nr; i++)
		begun -= seglets->table[i].incarnation;
	KUNIT_EXPECT_EQ(test, lsmem_seglets_take(seglets, 5, param->nr, taken), param->enough);
	for (i = 0; i < seglets->nr; i++)
		begun += seglets->table[i].incarnation;
	if (param->enough) {
		KUNIT_EXPECT_EQ(test, begun, param->nr);
		segment_run_check(test, taken, param->nr);
		for (i = 0; i < claimed; i++)
			KUNIT_EXPECT_GE(test, lsmem_seglet_get(seglets, LSMEM_NO_SEGLET - 1,
							      LSMEM_TAKER_CLEANER), 0);
		lsmem_test_put_seglets(store, claimed);
		/* Give back the end of the chain, then the rest. */
		i = param->nr / 3;
		lsmem_seglets_give(seglets, taken[i], param->nr - i, param->nr - i);
		KUNIT_EXPECT_EQ(test, seglets->nr_free, param->free - i);
		lsmem_seglets_give(seglets, taken[0], i, i);
		for (i = 0; i < param->nr; i++)
			KUNIT_EXPECT_EQ(test, seglets->owner[taken[i]], LSMEM_NO_SEGLET);
	} else {
		KUNIT_EXPECT_EQ(test, begun, 0);
		KUNIT_EXPECT_EQ(test, taken[0], ~0u);
	}
	KUNIT_EXPECT_EQ(test, seglets->nr_free, param->free);
	lsmem_seglets_unclaim(seglets);
	lsmem_test_put_seglets(store, away);
	KUNIT_EXPECT_EQ(test, seglets->nr_free, seglets->nr);
}

static void segment_put(struct lsmem_seglets *seglets, u32 seglet)
{
	lsmem_seglets_put(seglets, &seglet, 1);
}

/* Take seglets as writers until none is left for them. Returns how many. */
static u32 segment_write(struct lsmem_seglets *seglets)
{
	u32 nr = 0;

	while (lsmem_seglet_get(seglets, 6, LSMEM_TAKER_WRITER) >= 0)
		nr++;
	return nr;
}

/* The seglets of a compaction are lent from the reserve: writers get as many as without it. */
static void segment_test_lent(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_seglets *seglets = &store->seglets;
	const u32 reserve = 40, lent = reserve - 10;
	u32 taken[LSMEM_SEGLETS], first, i;

	seglets->base = reserve;
	seglets->reserve = reserve;
	lsmem_test_take_seglets(store, reserve + 20);
	KUNIT_ASSERT_TRUE(test, lsmem_seglets_take(seglets, 5, lent, taken));
	KUNIT_EXPECT_EQ(test, lsmem_seglets_free(seglets), reserve + 20);
	KUNIT_EXPECT_EQ(test, segment_write(seglets), 20);
	KUNIT_EXPECT_EQ(test, seglets->nr_free, 10);
	/* A pass can claim the seglets that remain; writers get none. */
	KUNIT_EXPECT_EQ(test, lsmem_seglets_claim(seglets, 100), 10);
	KUNIT_EXPECT_EQ(test, segment_write(seglets), 0);
	lsmem_seglets_unclaim(seglets);
	/* The lent seglets come back together with 5 others: the reserve is complete again. */
	first = taken[0];
	for (i = 0; i < 5; i++) {
		int seglet = lsmem_seglet_get(seglets, 5, LSMEM_TAKER_CLEANER);

		KUNIT_ASSERT_GE(test, seglet, 0);
		seglets->table[seglet].next = first;
		first = seglet;
	}
	KUNIT_EXPECT_EQ(test, seglets->nr_free, 5);
	lsmem_seglets_give(seglets, first, lent + 5, lent);
	KUNIT_EXPECT_EQ(test, seglets->lent, 0);
	KUNIT_EXPECT_EQ(test, seglets->nr_free, reserve);
	KUNIT_EXPECT_EQ(test, segment_write(seglets), 0);
	/* Seglets that the compaction keeps are not lent any more. */
	KUNIT_ASSERT_TRUE(test, lsmem_seglets_take(seglets, 5, lent, taken));
	lsmem_seglets_keep(seglets, lent);
	KUNIT_EXPECT_EQ(test, segment_write(seglets), 0);
	KUNIT_EXPECT_EQ(test, seglets->nr_free, 10);
}

struct segment_user {
	struct lsmem_test_thread thread;
	struct lsmem_seglets *seglets;
	atomic_t *users;	/* by seglet: number + 1 of the thread that has it, or 0 */
	struct rnd_state random;
	u32 number;
};

/* Note that @u has @seglet. False if another thread has it. */
static bool segment_use(struct segment_user *u, u32 seglet)
{
	return seglet < u->seglets->nr && !atomic_xchg(&u->users[seglet], u->number + 1) &&
	       READ_ONCE(u->seglets->owner[seglet]) == u->number;
}

static bool segment_unuse(struct segment_user *u, u32 seglet)
{
	return atomic_xchg(&u->users[seglet], 0) == u->number + 1;
}

/* A compactor: takes runs of seglets, and gives each back in two parts. */
static const char *segment_compactor(void *data)
{
	struct segment_user *u = data;
	u32 taken[24], round, i;

	for (round = 0; round < SEGMENT_ROUNDS; round++) {
		u32 nr = 1 + lsmem_test_below(&u->random, ARRAY_SIZE(taken));
		u32 part = lsmem_test_below(&u->random, nr);

		if (!lsmem_seglets_take(u->seglets, u->number, nr, taken)) {
			cond_resched();
			continue;
		}
		for (i = 0; i < nr; i++)
			if (!segment_use(u, taken[i]))
				return "a seglet was given to two";
		for (i = 0; i < nr; i++)
			if (READ_ONCE(u->seglets->table[taken[i]].next) !=
			    (i + 1 < nr ? taken[i + 1] : LSMEM_NO_SEGLET))
				return "seglets are not chained";
		if (round % 16 == 0)
			cond_resched();
		for (i = 0; i < nr; i++)
			if (!segment_unuse(u, taken[i]))
				return "a seglet was given to two at once";
		lsmem_seglets_give(u->seglets, taken[part], nr - part, nr - part);
		lsmem_seglets_give(u->seglets, taken[0], part, part);
	}
	return NULL;
}

/* The cleaner: gets the seglets that it has claimed. */
static const char *segment_cleaner(void *data)
{
	struct segment_user *u = data;
	u32 round, i;

	for (round = 0; round < SEGMENT_ROUNDS / 10; round++) {
		u32 claimed = lsmem_seglets_claim(u->seglets, 60), nr = 0;
		int mine[64];

		cond_resched();
		if (round % 2) {
			u32 needed = lsmem_test_below(&u->random, 64);

			lsmem_seglets_reclaim(u->seglets, needed);
			claimed = min(claimed, needed);
		}
		for (i = 0; i < claimed; i++) {
			mine[nr] = lsmem_seglet_get(u->seglets, u->number, LSMEM_TAKER_CLEANER);
			if (mine[nr] < 0)
				return "a pass did not get what it had claimed";
			if (!segment_use(u, mine[nr++]))
				return "a seglet was given to two";
			if (i % 8 == 0)
				cond_resched();
		}
		lsmem_seglets_unclaim(u->seglets);
		while (nr--) {
			if (!segment_unuse(u, mine[nr]))
				return "a seglet was given to two at once";
			segment_put(u->seglets, mine[nr]);
		}
	}
	return NULL;
}

/* A writer: takes one seglet after the other, as long as there are any for it. */
static const char *segment_writer(void *data)
{
	struct segment_user *u = data;
	u32 round, nr = 0;
	int mine[32];

	for (round = 0; round < SEGMENT_ROUNDS || nr; round++) {
		if (round < SEGMENT_ROUNDS && nr < ARRAY_SIZE(mine)) {
			mine[nr] = lsmem_seglet_get(u->seglets, u->number, LSMEM_TAKER_WRITER);
			if (mine[nr] >= 0) {
				if (!segment_use(u, mine[nr++]))
					return "a seglet was given to two";
				continue;
			}
		}
		while (nr) {
			if (!segment_unuse(u, mine[--nr]))
				return "a seglet was given to two at once";
			segment_put(u->seglets, mine[nr]);
		}
		cond_resched();
	}
	return NULL;
}

/* Compactors, a cleaner and a writer share few seglets. */
static void segment_test_share(struct kunit *test)
{
	static const char *(*const runs[])(void *) = {
		segment_compactor, segment_compactor, segment_cleaner, segment_writer,
	};
	struct lsmem_store *store = test->priv;
	struct segment_user *u;
	struct rnd_state random;
	atomic_t *users;
	u32 away, i;

	lsmem_test_seed(test, &random);
	u = kunit_kcalloc(test, ARRAY_SIZE(runs), sizeof(*u), GFP_KERNEL);
	users = kunit_kcalloc(test, store->seglets.nr, sizeof(*users), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, u && users);
	away = lsmem_test_take_seglets(store, 120);
	for (i = 0; i < ARRAY_SIZE(runs); i++) {
		u[i].seglets = &store->seglets;
		u[i].users = users;
		u[i].number = i;
		prandom_seed_state(&u[i].random, lsmem_test_u64(&random));
		KUNIT_ASSERT_EQ(test, lsmem_test_start(&u[i].thread, runs[i], &u[i]), 0);
	}
	for (i = 0; i < ARRAY_SIZE(runs); i++)
		lsmem_test_join(test, &u[i].thread);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, 120);
	KUNIT_EXPECT_EQ(test, store->seglets.claimed, 0);
	KUNIT_EXPECT_EQ(test, store->seglets.reserve, LSMEM_TEST_RESERVE);
	lsmem_test_put_seglets(store, away);
	for (i = 0; i < store->seglets.nr; i++) {
		KUNIT_EXPECT_EQ(test, atomic_read(&users[i]), 0);
		KUNIT_EXPECT_EQ(test, store->seglets.owner[i], LSMEM_NO_SEGLET);
	}
}

struct segment_taker {
	struct lsmem_test_thread thread;
	struct lsmem_seglets *seglets;
	struct rnd_state random;
	u32 number;
	u32 gotten;
};

static const char *segment_taker(void *data)
{
	struct segment_taker *t = data;
	int mine[64];
	u32 nr = 0, i;

	for (i = 0; i < SEGMENT_ROUNDS || nr; i++) {
		u32 which;

		if (i < SEGMENT_ROUNDS && nr < ARRAY_SIZE(mine) &&
		    lsmem_test_below(&t->random, 2)) {
			mine[nr] = lsmem_seglet_get(t->seglets, t->number,
						   t->number % 2 ? LSMEM_TAKER_CLEANER :
								   LSMEM_TAKER_WRITER);
			if (mine[nr] >= 0) {
				nr++;
				t->gotten++;
			}
		} else if (nr) {
			which = lsmem_test_below(&t->random, nr);
			if (READ_ONCE(t->seglets->owner[mine[which]]) != t->number)
				return "a seglet was given to two";
			segment_put(t->seglets, mine[which]);
			mine[which] = mine[--nr];
		}
		if (i % 64 == 0)
			cond_resched();
	}
	return NULL;
}

/* Threads take and give back the seglets of a store that is almost full. */
static void segment_test_seglets(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	u32 taken, free, gotten = 0, i;
	struct segment_taker *t;
	struct rnd_state random;
	u64 incarnations = 0;

	lsmem_test_seed(test, &random);
	t = kunit_kcalloc(test, SEGMENT_THREADS, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	taken = lsmem_test_take_seglets(store, 100);
	free = store->seglets.nr_free;
	for (i = 0; i < store->seglets.nr; i++)
		incarnations -= store->seglets.table[i].incarnation;
	for (i = 0; i < SEGMENT_THREADS; i++) {
		t[i].seglets = &store->seglets;
		t[i].number = i;
		prandom_seed_state(&t[i].random, lsmem_test_u64(&random));
		KUNIT_ASSERT_EQ(test, lsmem_test_start(&t[i].thread, segment_taker, &t[i]), 0);
	}
	for (i = 0; i < SEGMENT_THREADS; i++) {
		lsmem_test_join(test, &t[i].thread);
		gotten += t[i].gotten;
	}
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, free);
	/* Readers recognise a seglet that was reused: each use increments its incarnation. */
	for (i = 0; i < store->seglets.nr; i++)
		incarnations += store->seglets.table[i].incarnation;
	KUNIT_EXPECT_EQ(test, incarnations, gotten);
	lsmem_test_put_seglets(store, taken);
	KUNIT_EXPECT_EQ(test, store->seglets.nr_free, store->seglets.nr);
}

/* ---- The table ---------------------------------------------------------- */

/*
 * Writers get segments while enough remain for the cleaner, and the cleaner gets the rest.  No id
 * comes twice, and the id of a freed segment is not found any more.
 */
static void segment_test_take(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg, *first = NULL, *before, *after;
	u32 claimed, left, taken = 0;
	u64 last = 0;

	KUNIT_ASSERT_EQ(test, store->segments.nr, 6);
	claimed = lsmem_segments_claim(store);
	KUNIT_EXPECT_EQ(test, claimed, 3);
	while ((seg = lsmem_segment_take(store, false))) {
		KUNIT_EXPECT_GT(test, seg->id, last);
		KUNIT_EXPECT_EQ(test, seg->state, LSMEM_SEGMENT_HEAD);
		KUNIT_EXPECT_FALSE(test, seg->survivor);
		KUNIT_EXPECT_GT(test, store->segments.barrier, seg->id);
		last = seg->id;
		first = first ?: seg;
		taken++;
	}
	left = store->segments.nr_spares + store->segments.nr - store->segments.nr_log;
	KUNIT_EXPECT_EQ(test, left, 4);
	KUNIT_EXPECT_EQ(test, taken, 2);
	KUNIT_EXPECT_TRUE(test, lsmem_segments_short(store));
	while ((seg = lsmem_segment_take(store, true))) {
		KUNIT_EXPECT_GT(test, seg->id, last);
		KUNIT_EXPECT_TRUE(test, seg->survivor);
		last = seg->id;
		taken++;
	}
	KUNIT_EXPECT_EQ(test, taken, store->segments.nr);
	lsmem_segments_unclaim(store);

	last = first->id;
	spin_lock(&store->segments.lock);
	before = lsmem_segment_find(store, last);
	lsmem_segment_free(store, first);
	after = lsmem_segment_find(store, last);
	lsmem_segments_spare(store);
	spin_unlock(&store->segments.lock);
	KUNIT_EXPECT_PTR_EQ(test, before, first);
	KUNIT_EXPECT_NULL(test, after);
	/* The index is used again, with a new id and a new salt for the headers. */
	KUNIT_EXPECT_EQ(test, store->segments.nr_spares, 1);
	KUNIT_EXPECT_EQ(test, first->state, LSMEM_SEGMENT_SPARE);
	KUNIT_EXPECT_EQ(test, first->id, 7);
	KUNIT_EXPECT_EQ(test, first->salt, lsmem_segment_salt(store->uuid, 7, 1));
	KUNIT_EXPECT_NE(test, first->salt, lsmem_segment_salt(store->uuid, last, 1));
	KUNIT_EXPECT_NULL(test, lsmem_segment_take(store, false));
	KUNIT_EXPECT_PTR_EQ(test, lsmem_segment_take(store, true), first);
}

/* Acknowledge the OPEN of segments, as the daemon does, in the order of @ids. */
static void segment_list(struct lsmem_store *store, const u64 *ids, u32 nr)
{
	u32 i;

	spin_lock(&store->segments.lock);
	for (i = 0; i < nr; i++)
		lsmem_segment_listed(store, lsmem_segment_find(store, ids[i]));
	spin_unlock(&store->segments.lock);
}

/*
 * Heads take the oldest spare, in whatever order the spares were listed.  The indices of the table
 * are used in turns.  A head cannot take a segment that recovery has loaded or forgotten.
 */
static void segment_test_order(struct kunit *test)
{
	static const u64 orders[][3] = { { 9, 8, 7 }, { 8, 7, 9 }, { 7, 9, 8 }, { 9, 7, 8 } };
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg, *first, *used[6];
	u64 id = 7;
	u32 i, j;

	store->durable = true;	/* segments that are opening wait for the daemon */
	for (i = 0; i < ARRAY_SIZE(orders); i++) {
		/* As lsmem_load_forget(): free all segments, spares included. */
		spin_lock(&store->segments.lock);
		while ((seg = list_first_entry_or_null(&store->segments.log, struct lsmem_segment,
						       node)))
			lsmem_segment_free(store, seg);
		store->segments.nr_spares = 0;
		store->segments.next_id = 7;
		/* As lsmem_load_segment(): create a closed segment. */
		seg = lsmem_segment_new(store, 6, 1);
		seg->state = LSMEM_SEGMENT_CLOSED;
		lsmem_segment_done(seg);
		lsmem_segments_spare(store);
		spin_unlock(&store->segments.lock);
		KUNIT_EXPECT_EQ(test, store->segments.nr_spares, 3);
		KUNIT_EXPECT_EQ(test, store->segments.nr_log, 4);
		KUNIT_EXPECT_NULL(test, lsmem_segment_take(store, true));
		segment_list(store, orders[i], 2);
		segment_list(store, orders[i], 3);	/* the first 2 are already listed */
		for (j = 0, id = 7; j < 3; j++, id++) {
			seg = lsmem_segment_take(store, true);
			KUNIT_ASSERT_NOT_NULL(test, seg);
			KUNIT_EXPECT_EQ(test, seg->id, id);
		}
		KUNIT_EXPECT_NULL(test, lsmem_segment_take(store, true));
		KUNIT_EXPECT_EQ(test, store->segments.nr_spares, 2);	/* the table is full */
		KUNIT_EXPECT_EQ(test, store->segments.nr_log, store->segments.nr);
		KUNIT_EXPECT_TRUE(test, list_empty(&store->segments.free));
	}
	/* Indices are used again in the order in which they were freed. */
	spin_lock(&store->segments.lock);
	KUNIT_EXPECT_NULL(test, lsmem_segment_new(store, 100, 1));
	for (i = 0; i < ARRAY_SIZE(used); i++)
		used[i] = &store->segments.table[(i * 5 + 2) % ARRAY_SIZE(used)];
	for (i = 0; i < ARRAY_SIZE(used); i++)
		lsmem_segment_free(store, used[i]);
	KUNIT_EXPECT_EQ(test, store->segments.nr_log, 0);
	for (i = 0; i < ARRAY_SIZE(used); i++)
		KUNIT_EXPECT_PTR_EQ(test, lsmem_segment_new(store, 100 + i, 1), used[i]);
	first = lsmem_segment_new(store, 100 + i, 1);
	spin_unlock(&store->segments.lock);
	KUNIT_EXPECT_NULL(test, first);
}

/*
 * lsmem_segment_new() and lsmem_segment_take() use their lists; they search neither the table nor
 * the segments that wait for the daemon.  The test writes wrong states: a search would find the
 * wrong segment.
 */
static void segment_test_steps(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *head, *spare, *seg;
	u8 states[6];
	u32 i;

	KUNIT_ASSERT_EQ(test, store->segments.nr, ARRAY_SIZE(states));
	store->durable = true;
	head = lsmem_segment_take(store, true);
	KUNIT_ASSERT_NOT_NULL(test, head);
	KUNIT_EXPECT_EQ(test, store->segments.nr_log, 4);
	spin_lock(&store->segments.lock);
	spare = list_first_entry(&store->segments.spares, struct lsmem_segment, spare);
	for (i = 0; i < ARRAY_SIZE(states); i++) {
		states[i] = store->segments.table[i].state;
		store->segments.table[i].state = states[i] == LSMEM_SEGMENT_FREE ?
						 LSMEM_SEGMENT_HEAD : LSMEM_SEGMENT_FREE;
	}
	seg = lsmem_segment_new(store, 100, 1);	/* none with the state FREE */
	spin_unlock(&store->segments.lock);
	KUNIT_ASSERT_NOT_NULL(test, seg);
	KUNIT_ASSERT_EQ(test, states[seg->index], LSMEM_SEGMENT_FREE);
	states[seg->index] = LSMEM_SEGMENT_OPENING;
	for (i = 0; i < ARRAY_SIZE(states); i++)
		store->segments.table[i].state = states[i];
	head->state = LSMEM_SEGMENT_SPARE;	/* the oldest with this state */
	KUNIT_EXPECT_PTR_EQ(test, lsmem_segment_take(store, true), spare);
	head->state = LSMEM_SEGMENT_HEAD;
}

/* When a segment is freed, each of its seglets is free again. */
static void segment_test_seglets_back(struct kunit *test)
{
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg = lsmem_segment_take(store, false);
	u32 round, i;

	KUNIT_ASSERT_NOT_NULL(test, seg);
	for (round = 0; round < 3; round++) {
		u32 index = seg - store->segments.table;

		/* Let the segment grow to its last byte, in several steps or in one. */
		for (i = 1; round && i < LSMEM_SEGLETS; i += 5 * round)
			KUNIT_EXPECT_EQ(test, lsmem_segment_grow(store, seg,
								 i * LSMEM_SEGLET_BYTES + 1,
								 LSMEM_TAKER_WRITER), 0);
		KUNIT_EXPECT_EQ(test, lsmem_segment_grow(store, seg, LSMEM_SEGMENT_BYTES,
							 LSMEM_TAKER_WRITER), 0);
		KUNIT_EXPECT_EQ(test, seg->nr_seglets, LSMEM_SEGLETS);
		KUNIT_EXPECT_EQ(test, store->seglets.nr_free, store->seglets.nr - LSMEM_SEGLETS);
		for (i = 0; i < LSMEM_SEGLETS; i++)
			KUNIT_EXPECT_EQ(test, store->seglets.owner[seg->seglets[i]], index);
		spin_lock(&store->segments.lock);
		lsmem_segment_free(store, seg);
		lsmem_segments_spare(store);
		spin_unlock(&store->segments.lock);
		KUNIT_EXPECT_EQ(test, store->seglets.nr_free, store->seglets.nr);
		for (i = 0; i < store->seglets.nr; i++)
			KUNIT_EXPECT_EQ(test, store->seglets.owner[i], LSMEM_NO_SEGLET);
		seg = lsmem_segment_take(store, true);
		KUNIT_ASSERT_NOT_NULL(test, seg);
	}
}

/* ---- Bytes -------------------------------------------------------------- */

/* Move the payload of an entry, whose length decides how it is copied; in @flat, too. */
static void segment_move_bytes(struct kunit *test, struct lsmem_store *store,
			       const struct lsmem_segment *seg, u8 *flat, u32 at,
			       const struct lsmem_segment *from_seg, const u8 *from_flat, u32 from,
			       u32 bytes)
{
	u32 room, length, header, crc;
	struct lsmem_entry e;

	at = ALIGN_DOWN(at, LSMEM_ALIGN);
	from = ALIGN_DOWN(from, LSMEM_ALIGN);
	room = bytes - max(at, from);
	if (room <= LSMEM_LONG_BYTES)
		return;
	length = 1 + (at + from) / LSMEM_ALIGN % (room - LSMEM_LONG_BYTES);
	e = lsmem_entry_make(LSMEM_TYPE_OBJECT, length, 0, 0, 0, 0, 0);
	header = lsmem_entry_header(&e);
	crc = lsmem_entry_move(store, seg, at, from_seg, from, &e);
	memcpy(flat + at + header, from_flat + from + header, length);
	memset(flat + at + header + length, 0, lsmem_align(length) - length);
	KUNIT_ASSERT_EQ(test, crc, lsmem_crc32c(~0u, flat + at + header, length));
}

/* Writes, reads and copies across seglets have the same result as in flat memory. */
static void segment_test_bytes(struct kunit *test)
{
	const u32 bytes = 5 * LSMEM_SEGLET_BYTES;
	struct lsmem_store *store = test->priv;
	struct lsmem_segment *seg[2];
	struct rnd_state random;
	u8 *flat[2], *got;
	u32 i, j, k;

	lsmem_test_seed(test, &random);
	got = kunit_kmalloc(test, bytes, GFP_KERNEL);
	for (i = 0; i < 2; i++) {
		flat[i] = kunit_kzalloc(test, bytes, GFP_KERNEL);
		seg[i] = lsmem_segment_take(store, true);
		KUNIT_ASSERT_TRUE(test, flat[i] && got && seg[i]);
		/* Take seglets for both in turns, so that no segment has adjacent seglets. */
		for (j = 0; i && j < 5; j++)
			for (k = 0; k < 2; k++)
				KUNIT_ASSERT_EQ(test, lsmem_segment_grow(store, seg[k],
									 (j + 1) *
									 LSMEM_SEGLET_BYTES,
									 LSMEM_TAKER_WRITER), 0);
	}
	for (i = 0; i < 2; i++)
		lsmem_segment_write(store, seg[i], 0, NULL, bytes);
	for (i = 0; i < 1000; i++) {
		u32 to = lsmem_test_below(&random, 2), at = lsmem_test_below(&random, bytes);
		u32 length = lsmem_test_below(&random, bytes - at + 1);
		u32 from = lsmem_test_below(&random, bytes - length + 1);

		/* Most accesses are near the border of two seglets. */
		if (i % 4) {
			at = LSMEM_SEGLET_BYTES * (1 + i % 4) - lsmem_test_below(&random, 16);
			from = LSMEM_SEGLET_BYTES * (1 + i % 3) - lsmem_test_below(&random, 16);
			length = lsmem_test_below(&random, 32);
		}
		if (lsmem_test_below(&random, 2)) {
			lsmem_segment_write(store, seg[to], at, lsmem_test_payload(i), length);
			memcpy(flat[to] + at, lsmem_test_payload(i), length);
		} else {
			segment_move_bytes(test, store, seg[to], flat[to], at, seg[!to], flat[!to],
					   from, bytes);
		}
		memset(got, 0x5a, bytes);
		lsmem_test_read(store, seg[to], 0, got, bytes);
		KUNIT_ASSERT_EQ(test, memcmp(got, flat[to], bytes), 0);
		cond_resched();
	}
	for (i = 0; i < 2; i++) {
		lsmem_test_read(store, seg[i], 0, got, bytes);
		KUNIT_EXPECT_EQ(test, memcmp(got, flat[i], bytes), 0);
	}
}

static struct kunit_case segment_cases[] = {
	KUNIT_CASE_PARAM(segment_test_claim, segment_claim_gen_params),
	KUNIT_CASE_PARAM(segment_test_run, segment_run_gen_params),
	KUNIT_CASE(segment_test_lent),
	KUNIT_CASE(segment_test_seglets),
	KUNIT_CASE(segment_test_share),
	KUNIT_CASE(segment_test_take),
	KUNIT_CASE(segment_test_order),
	KUNIT_CASE(segment_test_steps),
	KUNIT_CASE(segment_test_seglets_back),
	KUNIT_CASE(segment_test_bytes),
	{}
};

static struct kunit_suite segment_suite = {
	.name = "lsmem-segment",
	.init = segment_init,
	.exit = lsmem_test_store_exit,
	.test_cases = segment_cases,
};

kunit_test_suite(segment_suite);
