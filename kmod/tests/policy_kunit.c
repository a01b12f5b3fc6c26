// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: the cleaning policy, with the kernel's compiler flags.
 *
 * tests/unit/test_policy.c checks properties that any policy must have.  This file checks exact
 * results: it computes each score a second time, slowly, with 128 bits, and each selection a
 * second time, by repeated search for the best candidate.
 */
#include <kunit/test.h>

#include "fixture.h"
#include "../policy.h"

#define POLICY_MANY	200u

/* ---- The score ---------------------------------------------------------- */

/* (@a * @b) << 12 divided by @c, bit by bit; @c below 2^63. */
static u64 policy_divide(u64 a, u64 b, u64 c)
{
	u64 high = 0, low = 0, rest = 0, quotient = 0;
	int i;

	/* high:low = a * b, by additions */
	for (i = 63; i >= 0; i--) {
		high = high << 1 | low >> 63;
		low <<= 1;
		if (b >> i & 1) {
			high += low + a < low;
			low += a;
		}
	}
	high = high << 12 | low >> 52;
	low <<= 12;
	for (i = 127; i >= 0; i--) {
		rest = rest << 1 | ((i < 64 ? low >> i : high >> (i - 64)) & 1);
		quotient <<= 1;
		if (rest >= c) {
			rest -= c;
			quotient |= 1;
		}
	}
	return quotient;
}

/* (1 - u) * age / (1 + u) with u = live / held; age from 1 to 2^28; 12 bits of fraction */
static u64 policy_reference(u32 live, u32 held, u64 age)
{
	u64 time = age >= (1ull << 28) - 1 ? 1ull << 28 : age + 1;

	return live >= held ? 0 : policy_divide(held - live, time, (u64)held + live);
}

static const struct policy_case {
	const char *name;
	u32 live;
	u32 held;
	u64 age;
	u64 score;
} policy_scores[] = {
	{ "nothing held", 0, 0, 1000, 0 },
	{ "full", 1 << 23, 1 << 23, ~0ull, 0 },
	{ "more than full", (1 << 23) + 8, 1 << 23, ~0ull, 0 },
	{ "empty and new", 0, 1 << 23, 0, 1 << 12 },
	{ "the smallest", 0, 1, 0, 1 << 12 },
	{ "half full", 4096, 8192, 2, 1 << 12 },
	{ "a third full", 100, 300, 1, 1 << 12 },
	{ "almost full and new", (1 << 23) - 1, 1 << 23, 0, 0 },
	{ "almost full and old", (1 << 23) - 1, 1 << 23, ~0ull, 1 << 16 },
	{ "one below the oldest", 0, 1 << 23, (1 << 28) - 2, ((1ull << 28) - 1) << 12 },
	{ "the oldest", 0, 1 << 23, (1 << 28) - 1, 1ull << 40 },
	{ "older than the oldest", 0, 1 << 23, 1 << 28, 1ull << 40 },
	{ "the largest product", 0, (1 << 24) - 1, ~0ull, 1ull << 40 },
	{ "the largest product, one live", 1, (1 << 24) - 1, ~0ull, (1ull << 40) - (1ull << 17) },
};

static void policy_score_desc(const struct policy_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(policy_score, policy_scores, policy_score_desc);

static void policy_test_score(struct kunit *test)
{
	const struct policy_case *param = test->param_value;

	KUNIT_EXPECT_EQ(test, lsmem_policy_score(param->live, param->held, param->age),
			param->score);
	KUNIT_EXPECT_EQ(test, policy_reference(param->live, param->held, param->age),
			param->score);
}

static void policy_test_reference(struct kunit *test)
{
	struct rnd_state random;
	u32 i;

	lsmem_test_seed(test, &random);
	for (i = 0; i < 100000; i++) {
		u32 held = lsmem_test_below(&random, 1 << 24) >> lsmem_test_below(&random, 24);
		u32 live = lsmem_test_below(&random, held + 2);
		u64 age = lsmem_test_u64(&random) >> lsmem_test_below(&random, 64);

		KUNIT_ASSERT_EQ(test, lsmem_policy_score(live, held, age),
				policy_reference(live, held, age));
		cond_resched();
	}
}

/* ---- The selection ------------------------------------------------------ */

struct policy_pick {
	u64 room;
	u32 most;
	bool oldest;
};

/* Choose as the head of policy.c specifies. @ids: out, in order. Returns their number. */
static u32 policy_pick(struct lsmem_candidate *c, u32 nr, const struct policy_pick *p,
		       u64 *ids)
{
	u64 live = 0, held = 0, all_live = 0, all_held = 0, most = p->most;
	u32 chosen, i;

	for (i = 0; i < nr; i++) {
		all_live += c[i].live;
		all_held += c[i].held;
	}
	if (most == LSMEM_UTILIZATION_FORCED && all_held)
		most = DIV_ROUND_UP(all_live * 1000, all_held);
	for (i = 0; i < nr; i++) {
		c[i].score = p->oldest ? 1 : policy_reference(c[i].live, c[i].held, c[i].age);
		if ((!p->oldest && (u64)c[i].live * 1000 > c[i].held * most))
			c[i].score = 0;
	}
	for (chosen = 0; chosen < 64;) {
		const struct lsmem_candidate *best = NULL;

		for (i = 0; i < nr; i++) {
			u32 j;

			for (j = 0; j < chosen && ids[j] != c[i].id; j++)
				;
			if (j == chosen && (!best || c[i].score > best->score ||
					    (c[i].score == best->score && c[i].id < best->id)))
				best = &c[i];
		}
		if (!best || !best->score || (chosen && live + best->live > p->room))
			break;
		if (best->live > p->room) {
			c[best - c].score = 0;	/* skip it: the next one may fit */
			continue;
		}
		live += best->live;
		held += best->held;
		ids[chosen++] = best->id;
	}
	return p->oldest || held > live ? chosen : 0;
}

static void policy_compare(struct kunit *test, struct lsmem_candidate *c, u32 nr,
			   const struct policy_pick *p, u64 *ids)
{
	u32 want = policy_pick(c, nr, p, ids), i;

	KUNIT_ASSERT_EQ(test, lsmem_policy_select_by(LSMEM_RULE_LFS, c, nr, p->room, p->most,
						     p->oldest), want);
	for (i = 0; i < want; i++)
		KUNIT_ASSERT_EQ(test, c[nr - 1 - i].id, ids[i]);
}

/* The policy chooses the same victims as policy_pick(), in the same order, with ties and limits. */
static void policy_test_select(struct kunit *test)
{
	struct lsmem_candidate *c;
	struct rnd_state random;
	u32 round, i;
	u64 ids[64];

	lsmem_test_seed(test, &random);
	c = kunit_kcalloc(test, POLICY_MANY, sizeof(*c), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, c);
	for (round = 0; round < 100; round++) {
		/* In every other round there are few values, so that most scores are equal. */
		u32 values = round % 2 ? 3 : 1 << 20;
		u32 nr = lsmem_test_below(&random, POLICY_MANY + 1);
		struct policy_pick p = {
			.room = lsmem_test_below(&random, 1 << 27),
			.most = 1000 - lsmem_test_below(&random, 2) *
				lsmem_test_below(&random, 1000),
			.oldest = round % 10 == 9,
		};

		for (i = 0; i < nr; i++)
			c[i] = (struct lsmem_candidate){
				.id = i + 1,
				.held = (1 + lsmem_test_below(&random, values)) * 8,
				.live = lsmem_test_below(&random, values) * 8,
				.age = lsmem_test_below(&random, values),
			};
		for (i = nr; i > 1; i--) {
			u32 other = lsmem_test_below(&random, i);

			swap(c[i - 1], c[other]);
		}
		policy_compare(test, c, nr, &p, ids);
		cond_resched();
	}
}

/* Limits of room and of the live share: exactly the limit is accepted, a little more is not. */
static void policy_test_limits(struct kunit *test)
{
	struct lsmem_candidate *c;
	u32 i, nr;

	c = kunit_kcalloc(test, POLICY_MANY, sizeof(*c), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, c);
	for (i = 0; i < 3; i++)
		c[i] = (struct lsmem_candidate){ .id = 1 + i, .held = 1000, .live = 980, .age = 9 };
	KUNIT_EXPECT_EQ(test, lsmem_policy_select(c, 3, 1960, 980, 0), 2);
	KUNIT_EXPECT_EQ(test, c[2].id, 1);
	KUNIT_EXPECT_EQ(test, c[1].id, 2);
	KUNIT_EXPECT_EQ(test, lsmem_policy_select(c, 3, 1959, 980, 0), 1);
	KUNIT_EXPECT_EQ(test, lsmem_policy_select(c, 3, 979, 980, 0), 0);
	KUNIT_EXPECT_EQ(test, lsmem_policy_select(c, 3, 1960, 979, 0), 0);

	/* If all are equal, the lowest ids are chosen, and not more than a pass takes. */
	for (i = 0; i < POLICY_MANY; i++)
		c[i] = (struct lsmem_candidate){ .id = POLICY_MANY - i, .held = 1 << 23 };
	nr = lsmem_policy_select(c, POLICY_MANY, ~0ull, 1000, 0);
	KUNIT_EXPECT_EQ(test, nr, LSMEM_POLICY_VICTIMS);
	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_EQ(test, c[POLICY_MANY - 1 - i].id, i + 1);

	/* "oldest" takes the oldest first, even if it gains nothing.  Without it none is taken. */
	for (i = 0; i < 4; i++)
		c[i] = (struct lsmem_candidate){ .id = 5 + i, .held = 8, .live = 8, .age = i };
	KUNIT_EXPECT_EQ(test, lsmem_policy_select(c, 4, 24, 1000, 1), 3);
	KUNIT_EXPECT_EQ(test, c[3].id, 5);
	KUNIT_EXPECT_EQ(test, lsmem_policy_select(c, 4, 24, 1000, 0), 0);
	KUNIT_EXPECT_EQ(test, lsmem_policy_select(c, 0, ~0ull, 1000, 0), 0);
}

/* A first choice that is larger than the room is skipped; the best that fits is taken. */
static void policy_test_too_large(struct kunit *test)
{
	struct lsmem_candidate c[3];
	u32 rule, oldest, room, got;

	for (oldest = 0; oldest < 2; oldest++) {
		for (rule = LSMEM_RULE_LFS; rule <= LSMEM_RULE_DECAY; rule++) {
			static const u32 rooms[] = { 499, 500, 999, 1000, 1001, 1501 };
			static const u32 first[] = { 0, 3, 3, 2, 1, 1 };

			for (room = 0; room < ARRAY_SIZE(rooms); room++) {
				/* The emptier a segment, the older it is and the lower its id. */
				c[0] = (struct lsmem_candidate){ 1, 1 << 20, 0, 100000, 1001 };
				c[1] = (struct lsmem_candidate){ 2, 1 << 10, 0, 10000, 1000 };
				c[2] = (struct lsmem_candidate){ 3, 1, 0, 1000, 500 };
				got = lsmem_policy_select_by(rule, c, 3, rooms[room], 980, oldest);
				KUNIT_EXPECT_EQ(test, got, !!first[room]);
				if (got)
					KUNIT_EXPECT_EQ(test, c[2].id, first[room]);
			}
		}
	}
}

/* Make random candidates, none with more live bytes than it holds. Returns the garbage in bytes. */
static u64 policy_candidates(struct rnd_state *random, struct lsmem_candidate *c, u32 nr)
{
	u32 fullness = lsmem_test_below(random, 4), i;
	u64 garbage = 0;

	for (i = 0; i < nr; i++) {
		c[i] = (struct lsmem_candidate){
			.id = i + 1,
			.held = 1 + lsmem_test_below(random, LSMEM_SEGMENT_BYTES),
			.age = lsmem_test_u64(random) >> lsmem_test_below(random, 64),
		};
		switch (fullness) {
		case 0:		/* any */
			c[i].live = lsmem_test_below(random, c[i].held + 1);
			break;
		case 1:		/* full but for some bytes */
			c[i].live = c[i].held - min(c[i].held, lsmem_test_below(random, 3));
			break;
		case 2:		/* one in eight is not full */
			c[i].live = lsmem_test_below(random, 8) ? c[i].held : c[i].held - 1;
			break;
		default:	/* all the same */
			c[i].held = 1000;
			c[i].live = 999;
		}
		garbage += c[i].held - c[i].live;
	}
	return garbage;
}

/*
 * When writers wait, victims are chosen as long as there is garbage, and none that is fuller than
 * the average.  Without a bound, all segments with garbage are chosen.  This does not hold for
 * LSMEM_RULE_LFS: its score of a new segment that is almost full is 0.
 */
static void policy_test_forced(struct kunit *test)
{
	struct lsmem_candidate *c;
	struct rnd_state random;
	u32 round;

	lsmem_test_seed(test, &random);
	c = kunit_kcalloc(test, POLICY_MANY, sizeof(*c), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, c);
	for (round = 0; round < 400; round++) {
		u32 rule = LSMEM_RULE_GREEDY + lsmem_test_below(&random, 3);
		u32 nr = lsmem_test_below(&random, POLICY_MANY + 1), chosen, some = 0, i;
		u64 garbage = policy_candidates(&random, c, nr), live = 0, held = 0;

		for (i = 0; i < nr; i++) {
			live += c[i].live;
			held += c[i].held;
			some += c[i].live < c[i].held;
		}
		chosen = lsmem_policy_select_by(rule, c, nr, ~0ull, LSMEM_UTILIZATION_FORCED, 0);
		KUNIT_ASSERT_EQ(test, !!chosen, !!garbage);
		KUNIT_ASSERT_LE(test, chosen, LSMEM_POLICY_VICTIMS);
		for (i = 0; i < chosen; i++) {
			const struct lsmem_candidate *one = &c[nr - 1 - i];

			KUNIT_ASSERT_LT(test, one->live, one->held);
			KUNIT_ASSERT_LE(test, (u64)one->live * 1000,
					one->held * DIV_ROUND_UP_ULL(live * 1000, held));
		}
		chosen = lsmem_policy_select_by(rule, c, nr, ~0ull, LSMEM_UTILIZATION_ANY, 0);
		KUNIT_ASSERT_EQ(test, chosen, min_t(u32, some, LSMEM_POLICY_VICTIMS));
		/* The victims are in the order of their scores. */
		for (i = 1; i < chosen; i++)
			KUNIT_ASSERT_LE(test, c[nr - 1 - i].score, c[nr - i].score);
		cond_resched();
	}
}

/* ---- Cost --------------------------------------------------------------- */

static void policy_test_cost(struct kunit *test)
{
	struct rnd_state random;
	u32 i;

	lsmem_test_seed(test, &random);
	KUNIT_EXPECT_EQ(test, lsmem_policy_cost(0, 0), LSMEM_COST_NONE);
	KUNIT_EXPECT_EQ(test, lsmem_policy_cost(0, 8), 0);
	KUNIT_EXPECT_EQ(test, lsmem_policy_cost(4, 8), 1000);
	KUNIT_EXPECT_EQ(test, lsmem_policy_cost(7, 8), 7000);
	KUNIT_EXPECT_EQ(test, lsmem_policy_cost(8, 8), LSMEM_COST_NONE);
	KUNIT_EXPECT_EQ(test, lsmem_policy_cost(9, 8), LSMEM_COST_NONE);
	KUNIT_EXPECT_EQ(test, lsmem_policy_cost(~0u - 1, ~0u), (~0u - 1) * 1000ull);
	for (i = 0; i < 10000; i++) {
		u32 held = 1 + lsmem_test_below(&random, ~0u >> lsmem_test_below(&random, 32));
		u32 live = lsmem_test_below(&random, held);
		u64 cost = lsmem_policy_cost(live, held), gain = held - live;

		KUNIT_ASSERT_LE(test, cost * gain, live * 1000ull);
		KUNIT_ASSERT_GT(test, (cost + 1) * gain, live * 1000ull);
	}
}

/* ---- The level ---------------------------------------------------------- */

#define POLICY_NONE	LSMEM_LEVEL_NONE
#define POLICY_PACK	LSMEM_LEVEL_COMPACT
#define POLICY_CLEAN	LSMEM_LEVEL_CLEAN
#define POLICY_NO_COST	LSMEM_COST_NONE

/* 1000 bytes of memory, 500 of them live; 1000 segments; cleaning costs five times its copies. */
static const struct policy_level_case {
	const char *name;
	bool low;
	u32 segments;
	u64 tombstones;
	u64 compact_cost;
	u64 clean_cost;
	u64 compact_time;
	u64 clean_time;
	u32 level[3];	/* adaptive, tombstones, fixed */
} policy_levels[] = {
	{ "memory is not low", false, 100, 0, 9, 9, 9, 9,
	  { POLICY_NONE, POLICY_NONE, POLICY_NONE } },
	{ "memory is not low, many tombstones", false, 100, 900, 9000, 0, 9, 0,
	  { POLICY_NONE, POLICY_NONE, POLICY_NONE } },
	{ "memory is not low, nothing to compact", false, 100, 0, POLICY_NO_COST, 9, 9, 9,
	  { POLICY_NONE, POLICY_NONE, POLICY_NONE } },
	{ "one segment below 95 %", false, 949, 0, 9, 9, 9, 9,
	  { POLICY_NONE, POLICY_NONE, POLICY_NONE } },
	{ "95 % of the segments", false, 950, 0, 9, 9, 9, 9,
	  { POLICY_CLEAN, POLICY_CLEAN, POLICY_CLEAN } },
	{ "95 %, though compaction is free", true, 950, 0, 0, 9000, 0, 9,
	  { POLICY_CLEAN, POLICY_CLEAN, POLICY_CLEAN } },
	{ "all segments", true, 1000, 0, 0, 9000, 0, 9,
	  { POLICY_CLEAN, POLICY_CLEAN, POLICY_CLEAN } },
	{ "nothing to compact", true, 949, 0, POLICY_NO_COST, 9, 0, 9,
	  { POLICY_CLEAN, POLICY_CLEAN, POLICY_CLEAN } },
	{ "nothing to compact or clean", true, 100, 0, POLICY_NO_COST, POLICY_NO_COST, 9, 9,
	  { POLICY_CLEAN, POLICY_CLEAN, POLICY_CLEAN } },
	{ "as expensive as cleaning and its price", true, 949, 0, 500, 100, 9, 9,
	  { POLICY_PACK, POLICY_PACK, POLICY_PACK } },
	{ "more expensive", true, 100, 0, 501, 100, 9, 9,
	  { POLICY_CLEAN, POLICY_PACK, POLICY_PACK } },
	{ "more expensive than free cleaning", true, 100, 0, 1, 0, 9, 9,
	  { POLICY_CLEAN, POLICY_PACK, POLICY_PACK } },
	{ "both are free", true, 100, 0, 0, 0, 9, 9, { POLICY_PACK, POLICY_PACK, POLICY_PACK } },
	{ "expensive, but nothing to clean", true, 100, 0, 9000000, POLICY_NO_COST, 9, 9,
	  { POLICY_PACK, POLICY_PACK, POLICY_PACK } },
	{ "tombstones at their limit", true, 100, 20, 9, 9, 9, 9,
	  { POLICY_PACK, POLICY_PACK, POLICY_PACK } },
	{ "more tombstones", true, 100, 21, 9, 9, 9, 9,
	  { POLICY_CLEAN, POLICY_PACK, POLICY_PACK } },
	{ "more tombstones, nothing to clean", true, 100, 21, 9, POLICY_NO_COST, 9, 9,
	  { POLICY_CLEAN, POLICY_PACK, POLICY_PACK } },
	{ "tombstones below their ratio", true, 100, 499, 9, 9, 9, 9,
	  { POLICY_CLEAN, POLICY_PACK, POLICY_PACK } },
	{ "tombstones at their ratio", true, 100, 500, 9, 9, 9, 9,
	  { POLICY_CLEAN, POLICY_CLEAN, POLICY_PACK } },
	{ "half the time", true, 100, 0, 9, 9, 10, 10, { POLICY_PACK, POLICY_PACK, POLICY_PACK } },
	{ "less than half", true, 100, 0, 9, 9, 10, 9, { POLICY_PACK, POLICY_PACK, POLICY_CLEAN } },
	{ "more than half", true, 100, 0, 9, 9, 9, 10, { POLICY_PACK, POLICY_PACK, POLICY_PACK } },
	{ "no time yet", true, 100, 0, 9, 9, 0, 0, { POLICY_PACK, POLICY_PACK, POLICY_PACK } },
	{ "centuries", true, 100, 0, 9, 9, (1ull << 48) - 1, (1ull << 48) - 2,
	  { POLICY_PACK, POLICY_PACK, POLICY_CLEAN } },
};

static void policy_level_desc(const struct policy_level_case *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(policy_level, policy_levels, policy_level_desc);

static const struct lsmem_policy_limits policy_limits = {
	.tombstones_max = 20,
	.fixed_clean = 500,
	.tombstone_ratio = 500,
	.clean_price = 4000,
};

static void policy_test_level(struct kunit *test)
{
	const struct policy_level_case *param = test->param_value;
	struct lsmem_balance balance = {
		.memory_low = param->low,
		.segments_used = param->segments,
		.segments_max = 1000,
		.tombstones = param->tombstones,
		.live = 500,
		.bytes = 1000,
		.compact_cost = param->compact_cost,
		.clean_cost = param->clean_cost,
		.compact_ns = param->compact_time << 16,
		.clean_ns = param->clean_time << 16,
	};
	struct lsmem_policy_limits limits = policy_limits;

	for (limits.balancer = 0; limits.balancer < 3; limits.balancer++)
		KUNIT_EXPECT_EQ(test, lsmem_policy_level(&limits, &balance),
				param->level[limits.balancer]);
}

/* A random number of random size, at most 64 - @least bits. */
static u64 policy_shifted(struct rnd_state *random, u32 least)
{
	return lsmem_test_u64(random) >> (least + lsmem_test_below(random, 64 - least));
}

/*
 * Every balancer: no level while memory is not low, some level when it is.  If it cleans, it also
 * cleans with more tombstones, more expensive compaction, and less time spent on cleaning.
 */
static void policy_test_any_level(struct kunit *test)
{
	struct rnd_state random;
	u32 i;

	lsmem_test_seed(test, &random);
	for (i = 0; i < 20000; i++) {
		struct lsmem_policy_limits limits = {
			.balancer = lsmem_test_below(&random, 3),
			.tombstones_max = 1 + lsmem_test_below(&random, 500),
			.fixed_clean = lsmem_test_below(&random, 1001),
			.tombstone_ratio = 1 + lsmem_test_below(&random, 1000),
			.clean_price = lsmem_test_below(&random, 100001),
		};
		u64 bytes = 1ull << (27 + lsmem_test_below(&random, 14));
		struct lsmem_balance balance = {
			.memory_low = lsmem_test_below(&random, 2),
			.segments_used = lsmem_test_below(&random, 1100),
			.segments_max = 1000,
			.bytes = bytes,
			.live = lsmem_test_u64(&random) % (bytes + bytes / 8),
			.tombstones = policy_shifted(&random, 0) % bytes,
			.compact_cost = policy_shifted(&random, 24),
			.clean_cost = policy_shifted(&random, 24),
			.compact_ns = policy_shifted(&random, 0),
			.clean_ns = policy_shifted(&random, 0),
		};
		u32 level = lsmem_policy_level(&limits, &balance);
		struct lsmem_balance more = balance;

		if (balance.segments_used >= 950)
			KUNIT_ASSERT_EQ(test, level, LSMEM_LEVEL_CLEAN);
		else
			KUNIT_ASSERT_EQ(test, level == LSMEM_LEVEL_NONE, !balance.memory_low);
		if (level != LSMEM_LEVEL_CLEAN)
			continue;
		more.tombstones += balance.tombstones / 2;
		more.compact_cost += 1 + balance.compact_cost / 2;
		more.clean_ns /= 2;
		KUNIT_ASSERT_EQ(test, lsmem_policy_level(&limits, &more), LSMEM_LEVEL_CLEAN);
		more.compact_cost = LSMEM_COST_NONE;
		KUNIT_ASSERT_EQ(test, lsmem_policy_level(&limits, &more), LSMEM_LEVEL_CLEAN);
	}
}

static struct kunit_case policy_cases[] = {
	KUNIT_CASE_PARAM(policy_test_score, policy_score_gen_params),
	KUNIT_CASE(policy_test_reference),
	KUNIT_CASE(policy_test_select),
	KUNIT_CASE(policy_test_limits),
	KUNIT_CASE(policy_test_too_large),
	KUNIT_CASE(policy_test_forced),
	KUNIT_CASE(policy_test_cost),
	KUNIT_CASE_PARAM(policy_test_level, policy_level_gen_params),
	KUNIT_CASE(policy_test_any_level),
	{}
};

static struct kunit_suite policy_suite = {
	.name = "lsmem-policy",
	.test_cases = policy_cases,
};

kunit_test_suite(policy_suite);
