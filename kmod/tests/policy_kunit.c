// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: the cleaning policy, with the kernel's compiler flags, to the last bit.
 *
 * tests/unit/test_policy.c has what has to hold of any policy; here the score
 * is computed a second time, slowly, in numbers of 128 bits, and a selection is
 * made a second time, by looking for the best again and again.
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

/* (1 - u) * age / (1 + u) with u = live / held, ages from 1 to 2^28, 12 bits of fraction */
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

/* Choose as the head of policy.c says; the ids, in order. */
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
			c[best - c].score = 0;	/* the next may fit */
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

/* The same victims in the same order as by looking, ties and limits included. */
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
		/* Few values in every other round: most scores are equal then. */
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

/* What exactly fits is taken, one byte more is not; the same of the share that is live. */
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

	/* The lowest ids when all are equal, and no more than a pass takes. */
	for (i = 0; i < POLICY_MANY; i++)
		c[i] = (struct lsmem_candidate){ .id = POLICY_MANY - i, .held = 1 << 23 };
	nr = lsmem_policy_select(c, POLICY_MANY, ~0ull, 1000, 0);
	KUNIT_EXPECT_EQ(test, nr, LSMEM_POLICY_VICTIMS);
	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_EQ(test, c[POLICY_MANY - 1 - i].id, i + 1);

	/* The oldest first, though nothing is gained; full ones alone gain nothing. */
	for (i = 0; i < 4; i++)
		c[i] = (struct lsmem_candidate){ .id = 5 + i, .held = 8, .live = 8, .age = i };
	KUNIT_EXPECT_EQ(test, lsmem_policy_select(c, 4, 24, 1000, 1), 3);
	KUNIT_EXPECT_EQ(test, c[3].id, 5);
	KUNIT_EXPECT_EQ(test, lsmem_policy_select(c, 4, 24, 1000, 0), 0);
	KUNIT_EXPECT_EQ(test, lsmem_policy_select(c, 0, ~0ull, 1000, 0), 0);
}

static struct kunit_case policy_cases[] = {
	KUNIT_CASE_PARAM(policy_test_score, policy_score_gen_params),
	KUNIT_CASE(policy_test_reference),
	KUNIT_CASE(policy_test_select),
	KUNIT_CASE(policy_test_limits),
	{}
};

static struct kunit_suite policy_suite = {
	.name = "lsmem-policy",
	.test_cases = policy_cases,
};

kunit_test_suite(policy_suite);
