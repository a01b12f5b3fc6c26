// SPDX-License-Identifier: GPL-2.0
/* The cleaning policy of the module. */
#include <string.h>

#include "../common/random.h"
#include "../common/tap.h"
#include "../../kmod/policy.h"

#define MANY	300u
#define RULES	(LSMEM_RULE_DECAY + 1)

static bool test_score(void)
{
	uint64_t random = 3;
	uint32_t i;

	CHECK(!lsmem_policy_score(100, 100, 1000));
	CHECK(!lsmem_policy_score(101, 100, 1000));
	CHECK(lsmem_policy_score(0, 1, 0));
	CHECK(lsmem_policy_score(0, 1u << 23, ~0ull));
	for (i = 0; i < 100000; i++) {
		uint32_t held = 1 + random_below(&random, 1u << 23);
		uint32_t live = random_below(&random, held);
		uint32_t shift = random_below(&random, 64);	/* in this order everywhere */
		uint64_t age = random_next(&random) >> shift;
		uint64_t score = lsmem_policy_score(live, held, age);

		/* Older and emptier is never worse. */
		CHECK(lsmem_policy_score(live, held, age < 1ull << 60 ? age + 1 : age) >= score);
		CHECK(lsmem_policy_score(live ? live - 1 : 0, held, age) >= score);
	}
	return true;
}

static bool test_lg(void)
{
	uint64_t random = 5;
	uint32_t i;

	CHECK(!lsmem_policy_lg(0) && !lsmem_policy_lg(1));
	CHECK(lsmem_policy_lg(~0ull) < 64ull << 16);
	for (i = 0; i < 64; i++)
		CHECK(lsmem_policy_lg(1ull << i) == (uint64_t)i << 16);
	for (i = 0; i < 100000; i++) {
		uint64_t x = random_next(&random) >> random_below(&random, 64);
		uint64_t a = random_next(&random) >> (32 + random_below(&random, 32));
		uint64_t b = random_next(&random) >> (32 + random_below(&random, 32));
		uint64_t sum = lsmem_policy_lg(a) + lsmem_policy_lg(b);

		CHECK(lsmem_policy_lg(x < ~0ull ? x + 1 : x) >= lsmem_policy_lg(x));
		if (a && b) {
			CHECK(lsmem_policy_lg(a * b) >= sum);
			CHECK(lsmem_policy_lg(a * b) <= sum + 3);
		}
	}
	return true;
}

static bool test_rules(void)
{
	uint64_t random = 6;
	uint32_t i;

	for (i = 0; i < 200000; i++) {
		enum lsmem_policy_rule rule = i % RULES;
		uint32_t held = 2 + random_below(&random, 1u << 23);
		uint32_t live = random_below(&random, held);
		uint32_t shift = random_below(&random, 64);	/* in this order everywhere */
		uint64_t age = random_next(&random) >> shift;
		uint64_t score = lsmem_policy_score_by(rule, live, held, age);

		CHECK(!lsmem_policy_score_by(rule, held, held, age));
		/* Any gain has a score, with LFS any gain that is not tiny. */
		CHECK(score || !live || (rule == LSMEM_RULE_LFS && held - live <= held / 2048));
		CHECK(lsmem_policy_score_by(rule, live, held, age < ~0ull ? age + 1 : age) >=
		      score);
		CHECK(lsmem_policy_score_by(rule, live ? live - 1 : 0, held, age) >= score);
		if (rule == LSMEM_RULE_GREEDY)
			CHECK(lsmem_policy_score_by(rule, live, held, age / 2) == score);
		if (rule != LSMEM_RULE_LFS)
			CHECK(live || score == ~0ull);
	}
	return true;
}

/* Scores of segments of 8 MiB that differ by a page, or by a ten-thousandth of the age. */
static bool test_fine(void)
{
	const uint32_t held = 8u << 20, page = 4096;
	const uint64_t hours = 65536000;	/* ms */
	uint32_t live;

	for (live = page; live < held; live += page) {
		CHECK(lsmem_policy_score_by(LSMEM_RULE_DECAY, live - page, held, hours) >
		      lsmem_policy_score_by(LSMEM_RULE_DECAY, live, held, hours));
		/* A clock in nanoseconds gives the same order. */
		CHECK(lsmem_policy_score_by(LSMEM_RULE_DECAY, live, held, hours * 1000001) >
		      lsmem_policy_score_by(LSMEM_RULE_DECAY, live, held, hours * 1000000 -
					    hours * 100));
	}
	return true;
}

/* The rules weigh age against emptiness differently. */
static bool test_order(void)
{
	const uint32_t held = 8u << 20, half = held / 2, most = held / 10 * 9;

	/* A young half empty segment, and a nearly full one that is a hundred times as old. */
	CHECK(lsmem_policy_score_by(LSMEM_RULE_GREEDY, half, held, 10) >
	      lsmem_policy_score_by(LSMEM_RULE_GREEDY, most, held, 1000));
	CHECK(lsmem_policy_score_by(LSMEM_RULE_LFS, half, held, 10) <
	      lsmem_policy_score_by(LSMEM_RULE_LFS, most, held, 1000));
	CHECK(lsmem_policy_score_by(LSMEM_RULE_RAMCLOUD, half, held, 10) <
	      lsmem_policy_score_by(LSMEM_RULE_RAMCLOUD, most, held, 1000));
	/* Ten times as old, with a tenth of the gain for each byte copied: decay weighs age less. */
	CHECK(lsmem_policy_score_by(LSMEM_RULE_RAMCLOUD, half, held, 99) <
	      lsmem_policy_score_by(LSMEM_RULE_RAMCLOUD, most, held, 999));
	CHECK(lsmem_policy_score_by(LSMEM_RULE_DECAY, half, held, 99) >
	      lsmem_policy_score_by(LSMEM_RULE_DECAY, most, held, 999));
	return true;
}

static bool test_interval(void)
{
	uint64_t random = 7;
	uint32_t i, k;

	CHECK(lsmem_policy_interval(0, 0) == 1);
	for (i = 0; i < LSMEM_INTERVAL_MAX; i++)
		CHECK(lsmem_policy_interval(0, 1ull << i) == i + 1);
	CHECK(lsmem_policy_interval(LSMEM_INTERVAL_MAX, ~0ull) == LSMEM_INTERVAL_MAX);
	for (i = 0; i < 100000; i++) {
		uint32_t old = random_below(&random, LSMEM_INTERVAL_MAX + 1);
		uint32_t shift = random_below(&random, 64);
		uint64_t life = random_next(&random) >> shift;
		uint32_t new = lsmem_policy_interval(old, life);

		CHECK(new >= 1 && new <= LSMEM_INTERVAL_MAX);
		CHECK(lsmem_policy_interval(old, life < ~0ull ? life + 1 : life) >= new);
		/* The same life again and again: the interval ends an octave or less away. */
		for (k = 0; k < LSMEM_INTERVAL_MAX; k++)
			new = lsmem_policy_interval(new, life);
		if (life && life < 1ull << (LSMEM_INTERVAL_MAX - 1))
			CHECK(1ull << (new - 1) <= life * 2 + 2 && 1ull << (new - 1) > life / 2);
	}
	/* A cold object that is written in quick succession loses an octave each time. */
	for (k = LSMEM_INTERVAL_MAX; k > 2; k--)
		CHECK(lsmem_policy_interval(k, 0) == k - 1);
	/* A hot object that was not written for a long time is cold with the next write. */
	CHECK(lsmem_policy_interval(2, 1ull << 20) >= 20);
	return true;
}

static bool test_coldness(void)
{
	CHECK(lsmem_policy_coldness(0, 1000) == 1000);
	CHECK(lsmem_policy_coldness(11, 0) == 1024);
	CHECK(lsmem_policy_coldness(LSMEM_INTERVAL_MAX, ~0ull) == ~0ull);
	/* An old hot object is hotter than a cold one that was just written ... */
	CHECK(lsmem_policy_coldness(5, 500) < lsmem_policy_coldness(16, 10));
	/* ... but not for ever. */
	CHECK(lsmem_policy_coldness(5, 50000) > lsmem_policy_coldness(16, 10));
	return true;
}

/* Each reason for a level in turn, and the balancers when no reason decides. */
static bool test_level(void)
{
	struct lsmem_policy_limits limits = {
		.tombstones_max = 20, .fixed_clean = 300, .tombstone_ratio = 400,
		.clean_price = 1000,
	};
	struct lsmem_balance b = {
		.segments_used = 100, .segments_max = 1000, .bytes = 1000000, .live = 900000,
		.compact_cost = 4000, .clean_cost = 3000,
	};

	CHECK(lsmem_policy_level(&limits, &b) == LSMEM_LEVEL_NONE);
	b.segments_used = LSMEM_BACKUP_HIGH;
	CHECK(lsmem_policy_level(&limits, &b) == LSMEM_LEVEL_CLEAN);
	b.segments_used--;
	CHECK(lsmem_policy_level(&limits, &b) == LSMEM_LEVEL_NONE);
	b.memory_low = 1;
	CHECK(lsmem_policy_level(&limits, &b) == LSMEM_LEVEL_COMPACT);
	b.compact_cost = 6001;		/* twice as much, and more */
	CHECK(lsmem_policy_level(&limits, &b) == LSMEM_LEVEL_CLEAN);
	b.compact_cost = LSMEM_COST_NONE;
	b.clean_cost = LSMEM_COST_NONE;
	CHECK(lsmem_policy_level(&limits, &b) == LSMEM_LEVEL_CLEAN);
	b.compact_cost = 6000;
	CHECK(lsmem_policy_level(&limits, &b) == LSMEM_LEVEL_COMPACT);
	b.tombstones = 20001;
	CHECK(lsmem_policy_level(&limits, &b) == LSMEM_LEVEL_CLEAN);
	limits.balancer = LSMEM_BALANCER_TOMBSTONES;
	CHECK(lsmem_policy_level(&limits, &b) == LSMEM_LEVEL_COMPACT);
	b.tombstones = 70000;		/* of 170,000 */
	CHECK(lsmem_policy_level(&limits, &b) == LSMEM_LEVEL_CLEAN);
	limits.balancer = LSMEM_BALANCER_FIXED;
	b.clean_ns = 29ull << 30;
	b.compact_ns = 71ull << 30;
	CHECK(lsmem_policy_level(&limits, &b) == LSMEM_LEVEL_CLEAN);
	b.clean_ns = 31ull << 30;
	CHECK(lsmem_policy_level(&limits, &b) == LSMEM_LEVEL_COMPACT);
	CHECK(lsmem_policy_cost(75, 100) == 3000 && lsmem_policy_cost(0, 1) == 0);
	CHECK(lsmem_policy_cost(5, 5) == LSMEM_COST_NONE);
	return true;
}

/* Longer ages, and segments that were not swept, come first; the spread is below two. */
static bool test_turn(void)
{
	uint64_t random = 8, least = ~0ull, most = 0, sum = 0, age;
	uint32_t i;

	for (i = 0; i < 100000; i++) {
		uint64_t a = random_next(&random), b = random_next(&random);
		uint32_t shift = random_below(&random, 64);	/* in this order everywhere */
		uint32_t swept = random_below(&random, 2);

		age = random_next(&random) >> shift;
		if (age < LSMEM_TURN_AGE_MAX)
			CHECK(lsmem_policy_turn(a, age + 1, swept) >
			      lsmem_policy_turn(a, age, swept));
		else
			CHECK(lsmem_policy_turn(a, age, swept) ==
			      lsmem_policy_turn(a, LSMEM_TURN_AGE_MAX, swept));
		if (!age)
			continue;
		CHECK(lsmem_policy_turn(a, age, 0) > lsmem_policy_turn(b, age, 1));
		if (age <= LSMEM_TURN_AGE_MAX / 2)
			CHECK(lsmem_policy_turn(a, 2 * age, swept) >
			      lsmem_policy_turn(b, age, swept));
	}
	/* Any 256 ids in sequence have the whole range. */
	age = random_next(&random);
	for (i = 0; i < 256; i++) {
		uint64_t turn = lsmem_policy_turn(age + i, 1000, 1);

		least = turn < least ? turn : least;
		most = turn > most ? turn : most;
		sum += turn;
	}
	CHECK(least < 260000 && most > 507000);
	CHECK(sum / 256 > 381000 && sum / 256 < 386000);
	return true;
}

#define HAND_SEGMENTS	100u

/* The hand goes round, and one segment is opened for each that it sweeps and empties. */
static bool test_hand(void)
{
	struct { uint64_t id, stamp; uint32_t swept; } s[HAND_SEGMENTS] = { };
	uint64_t step = 0, ids = 0, waited[2] = { }, seen[2] = { }, longest[2] = { };
	uint64_t random = 9;
	uint32_t i, k;

	for (i = 0; i < HAND_SEGMENTS; i++)
		s[i].id = ++ids;
	for (i = 0; i < 100000; i++) {
		uint64_t best = 0, turn, wait;
		uint32_t next = 0;

		for (k = 0; k < HAND_SEGMENTS; k++) {
			turn = lsmem_policy_turn(s[k].id, step - s[k].stamp, s[k].swept);
			if (turn > best) {
				best = turn;
				next = k;
			}
		}
		wait = step - s[next].stamp;
		step++;
		if (i > 10 * HAND_SEGMENTS) {
			waited[s[next].swept] += wait;
			seen[s[next].swept]++;
			if (wait > longest[s[next].swept])
				longest[s[next].swept] = wait;
		}
		s[next].swept = 1;
		if (random_chance(&random, 50)) {	/* nothing was kept */
			s[next].swept = 0;
			s[next].id = ++ids;
			step++;
		}
		s[next].stamp = step;
	}
	CHECK(seen[0] && seen[1]);
	/* Half a round for what is new, and no wait is longer than twice the shortest. */
	CHECK(waited[0] / seen[0] * 19 < waited[1] / seen[1] * 10);
	CHECK(waited[0] / seen[0] * 21 > waited[1] / seen[1] * 10);
	CHECK(longest[0] < 2 * waited[0] / seen[0] && longest[1] < 2 * waited[1] / seen[1]);
	return true;
}

static bool test_keep(void)
{
	CHECK(!lsmem_policy_keep(0));
	CHECK(lsmem_policy_keep(1) == 1 && lsmem_policy_keep(~0u) == 1);
	CHECK(lsmem_policy_keep(1u << 31) == 1);
	return true;
}

static bool test_select(void)
{
	struct lsmem_candidate c[MANY], copy[MANY];
	uint64_t random = 4;
	uint32_t round, i, n;

	for (round = 0; round < 2000; round++) {
		uint32_t nr = random_below(&random, MANY), most = 200 + random_below(&random, 801);
		enum lsmem_policy_rule rule = round % RULES;
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
		n = rule == LSMEM_RULE_DEFAULT ?
		    lsmem_policy_select(c, nr, room, most, oldest) :
		    lsmem_policy_select_by(rule, c, nr, room, most, oldest);
		CHECK(n <= LSMEM_POLICY_VICTIMS && n <= nr);
		for (i = 0; i < nr; i++) {
			const struct lsmem_candidate *was = &copy[c[i].cookie];

			/* All candidates are still there, each once, unchanged. */
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
		CHECK(!n || worst >= best);		/* no better candidate was left */
	}
	return true;
}

int main(void)
{
	tap_ok(test_score(), "score: bounds, never worse for older or emptier");
	tap_ok(test_lg(), "logarithm: exact at powers, never falls, adds up");
	tap_ok(test_rules(), "all rules: no gain, no score; never worse for older or emptier");
	tap_ok(test_fine(), "decay: a page and a ten-thousandth of an age change the score");
	tap_ok(test_order(), "rules: age against emptiness");
	tap_ok(test_interval(), "interval: monotone, settles, forgets an octave a write");
	tap_ok(test_coldness(), "coldness: interval and age");
	tap_ok(test_level(), "levels: each reason in its turn, each balancer");
	tap_ok(test_turn(), "turn: monotone, what is new first, spread over a factor of two");
	tap_ok(test_hand(), "hand: all segments in turn, new ones after half a round");
	tap_ok(test_keep(), "keep: what was touched");
	tap_ok(test_select(), "selection: room, limits, the best first, nothing lost");
	return tap_end();
}
