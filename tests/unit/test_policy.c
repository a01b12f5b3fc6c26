// SPDX-License-Identifier: GPL-2.0
/* The cleaning policy, as the module has it. */
#include <string.h>

#include "random.h"
#include "tap.h"
#include "../../kmod/policy.h"

#define MANY	300u

static bool test_score(void)
{
	struct random random;
	uint32_t i;

	random_seed(&random, 3);
	CHECK(!lsmem_policy_score(100, 100, 1000));
	CHECK(!lsmem_policy_score(101, 100, 1000));
	CHECK(lsmem_policy_score(0, 1, 0));
	CHECK(lsmem_policy_score(0, 1u << 23, ~0ull));
	for (i = 0; i < 100000; i++) {
		uint32_t held = 1 + random_below(&random, 1u << 23);
		uint32_t live = random_below(&random, held);
		uint64_t age = random_next(&random) >> random_below(&random, 64);
		uint64_t score = lsmem_policy_score(live, held, age);

		/* Older and emptier is never worse. */
		CHECK(lsmem_policy_score(live, held, age < 1ull << 60 ? age + 1 : age) >= score);
		CHECK(lsmem_policy_score(live ? live - 1 : 0, held, age) >= score);
	}
	return true;
}

static bool test_select(void)
{
	struct lsmem_candidate c[MANY], copy[MANY];
	struct random random;
	uint32_t round, i, n;

	random_seed(&random, 4);
	for (round = 0; round < 2000; round++) {
		uint32_t nr = random_below(&random, MANY), most = 200 + random_below(&random, 801);
		uint64_t room = random_below(&random, 1u << 28), live = 0, held = 0;
		uint64_t worst = ~0ull, best = 0;
		int oldest = random_chance(&random, 30);
		uint64_t seen = 0, expected = 0;

		memset(c, 0, sizeof(c));
		for (i = 0; i < nr; i++) {
			c[i].id = i + 1;
			c[i].held = 1 + random_below(&random, 1u << 23);
			c[i].live = random_below(&random, c[i].held + 1);
			c[i].age = random_below(&random, 100000);
			c[i].cookie = i;
			expected += i;
		}
		memcpy(copy, c, sizeof(c));
		n = lsmem_policy_select(c, nr, room, most, oldest);
		CHECK(n <= LSMEM_POLICY_VICTIMS && n <= nr);
		for (i = 0; i < nr; i++) {
			const struct lsmem_candidate *was = &copy[c[i].cookie];

			/* All are still there, each once, unchanged. */
			seen += c[i].cookie;
			CHECK(c[i].id == was->id && c[i].live == was->live &&
			      c[i].held == was->held);
			if (i >= nr - n) {
				live += c[i].live;
				held += c[i].held;
				CHECK(oldest || (uint64_t)c[i].live * 1000 <=
						(uint64_t)c[i].held * most);
				if (c[i].score < worst)
					worst = c[i].score;
			} else if (c[i].score > best) {
				best = c[i].score;
			}
		}
		CHECK(seen == expected);
		CHECK(live <= room);
		CHECK(!n || oldest || held > live);
		CHECK(!n || worst >= best);		/* nothing better was left */
	}
	return true;
}

int main(void)
{
	tap_ok(test_score(), "score: bounds, never worse for older or emptier");
	tap_ok(test_select(), "selection: room, limits, the best first, nothing lost");
	return tap_end();
}
