// SPDX-License-Identifier: GPL-2.0
/*
 * Cleaning policy: which segments, in which order, how many.
 *
 * LSMEM_RULE_DEFAULT, which the module uses, is decay.  The other rules are
 * there to be compared with it (tools/sim).
 *
 * lfs.  Cost-benefit as LFS (Rosenblum and Ousterhout, 1992) defines it, with
 * the age of the segment instead of its objects', as RAMCloud found better
 * (Rumble et al., FAST 2014, section 5.3):
 *
 *	benefit / cost = (1 - u) * age / (1 + u),	u = live / held
 *
 * Integers only: (held - live) * age / (held + live), with 12 bits of fraction.
 * Sizes are at most 2^23 and ages are held below 2^28, so that the product
 * stays within 64 bits; in units of a millisecond that is three days, beyond
 * which all segments are equally old.
 *
 * The scores of the other rules are sums of logarithms, with 16 bits of
 * fraction: any age, in any unit, and sizes to the byte.
 *
 * Decay.  Copying costs u / (1 - u) per byte that it frees.  While a segment is
 * left alone it empties, and what the wait saves grows with the rate r at which
 * its live bytes die: the cost falls by r u / (1 - u)^2 in a unit of time.  The
 * segments to clean now are those whose cost falls slowest (Lomet and Luo,
 * "Efficiently Reclaiming Space in a Log Structured Store", 2020, call it
 * minimum declining cost).  The only r that is known without keeping more is
 * the mean since the segment was opened, (1 - u) / (u age): then the order is
 * that of (1 - u) age / u, which is RAMCloud's own formula.  That r is a sample:
 * it overestimates differences, the more so the more kinds of data a segment
 * holds, hence age^(7/8), which pulls every r towards the others'.  On uniform
 * writes all r are the same and the order is that of greedy, the best there.
 *
 * Coldness.  Survivors are written coldest first, so that those that die
 * together lie together.  The age of an object alone is a poor estimate of when
 * it dies: a hot one that happens to be old looks cold, and each cold one that
 * was just replaced looks hot.  SepBIT (Wang et al., FAST 2022) infers from the
 * lifetime of the version that a write replaces; here each object remembers its
 * interval, half of it from the last lifetime, half from those before, and the
 * order is that of interval + age.  It is kept as a logarithm because a factor
 * of two is all the order needs: no state but 5 bits an object.  Whole octaves
 * also bound how long a wrong one is believed: one that is too long loses an
 * octave with each replacement, one that is too short grows at once.
 *
 * Eviction.  A hand sweeps the segments in memory one by one, and drops what was not read since the
 * last sweep: CLOCK (Corbato, 1968), with segments that stay where they are.  Two changes make it
 * better.  A segment that was never swept comes after half a round, because most of what is new is
 * not read again soon, and what the hand has kept once deserves more time than what it has not seen
 * (as in S3-FIFO, Yang et al., SOSP 2023, and SIEVE, Zhang et al., NSDI 2024, whose hands return to
 * what they have kept only when nothing new is left, and so learn a new working set slowly).  And
 * the segments' rounds differ in length, up to a factor of two: else a loop that is larger than
 * memory drops each object just before it is read again.
 *
 * tools/sim measures all this; Documentation/policies.rst has the results.
 *
 * No locks, no calls, no state.
 */
#include "policy.h"

#define AGE_MAX		((1ull << 28) - 1)
#define SCORE_SHIFT	12
#define LG_SHIFT	16

/**
 * lsmem_policy_score - how much cleaning a segment is worth
 * @live: bytes of entries that count, at most @held
 * @held: bytes it holds, below 2^24
 * @age: see struct lsmem_candidate
 *
 * Return: larger is better; 0 when nothing would be gained, or, from what is new, less
 * than a 4096th of what it has.
 */
__u64 lsmem_policy_score(__u32 live, __u32 held, __u64 age)
{
	if (live >= held)
		return 0;
	if (age > AGE_MAX)
		age = AGE_MAX;
	/* An age of 0 would hide an empty segment: count from one. */
	return (((__u64)(held - live) * (age + 1)) << SCORE_SHIFT) / (held + live);
}

/**
 * lsmem_policy_lg - binary logarithm
 * @x: 0 counts as 1
 *
 * Return: log2(@x) in units of 1 / 65536, rounded down; it never falls when @x
 * grows.
 */
__u64 lsmem_policy_lg(__u64 x)
{
	__u64 mantissa, lg = 0;
	__u32 i, top;

	for (i = 32; i; i /= 2)
		if (x >> lg >> i)
			lg += i;
	top = lg;
	mantissa = top > 31 ? x >> (top - 31) : x << (31 - top);	/* 1.31 bits */
	for (i = 0; i < LG_SHIFT; i++) {
		mantissa = (mantissa * mantissa) >> 31;
		lg = lg << 1 | mantissa >> 32;
		mantissa >>= mantissa >> 32;
	}
	return lg;
}

/**
 * lsmem_policy_score_by - how much cleaning a segment is worth, by a rule
 * @rule: by which
 * @live: bytes of entries that count
 * @held: bytes it holds
 * @age: in any unit
 *
 * Return: larger is better, within a rule; 0 when nothing would be gained.
 */
__u64 lsmem_policy_score_by(enum lsmem_policy_rule rule, __u32 live, __u32 held, __u64 age)
{
	__u64 gain;

	if (live >= held)
		return 0;
	if (rule == LSMEM_RULE_LFS)
		return lsmem_policy_score(live, held, age);
	if (!live)
		return ~0ull;	/* costs nothing */
	/* Eighths, so that 7/8 needs no division; above 0 even when held is 2^32. */
	gain = 8 * ((32ull << LG_SHIFT) + lsmem_policy_lg(held - live) - lsmem_policy_lg(live)) + 1;
	switch (rule) {
	case LSMEM_RULE_RAMCLOUD:
		return gain + 8 * lsmem_policy_lg(age + 1 ? age + 1 : age);
	case LSMEM_RULE_DECAY:
		return gain + 7 * lsmem_policy_lg(age + 1 ? age + 1 : age);
	default:
		return gain;
	}
}

/**
 * lsmem_policy_interval - an object has been replaced
 * @interval: of the version that was replaced
 * @lifetime: of that version, in the unit of ages
 *
 * Return: the interval of the new version; that of a new object is 0.
 */
__u32 lsmem_policy_interval(__u32 interval, __u64 lifetime)
{
	__u64 mean = lifetime >> LSMEM_INTERVAL_MAX ? 1ull << LSMEM_INTERVAL_MAX : lifetime;
	__u32 lg = 0;

	if (interval)
		mean = (mean + (1ull << (interval - 1)) + 1) >> 1;
	if (mean)
		lg = 63u - (__u32)__builtin_clzll(mean);
	if (lg > LSMEM_INTERVAL_MAX - 1)
		lg = LSMEM_INTERVAL_MAX - 1;
	/* To the nearer octave: 1.5 is about the middle between 1 and 2. */
	if (lg && lg < LSMEM_INTERVAL_MAX - 1 && mean >> (lg - 1) & 1)
		lg++;
	return lg + 1;
}

/**
 * lsmem_policy_coldness - where an object belongs among survivors
 * @interval: see lsmem_policy_interval()
 * @age: time since this version was written
 *
 * Return: larger is colder.
 */
__u64 lsmem_policy_coldness(__u32 interval, __u64 age)
{
	__u64 before = interval ? 1ull << (interval - 1) : 0;

	return age + before < age ? ~0ull : age + before;
}

static int lsmem_policy_before(const struct lsmem_candidate *a, const struct lsmem_candidate *b)
{
	if (a->score != b->score)
		return a->score > b->score;
	return a->id < b->id;	/* the same on every run */
}

/* Sift down in a heap whose root is the candidate to be taken first. */
static void lsmem_policy_sift(struct lsmem_candidate *heap, __u32 nr, __u32 i)
{
	for (;;) {
		__u32 best = i, child = 2 * i + 1;
		struct lsmem_candidate swap;

		if (child < nr && lsmem_policy_before(&heap[child], &heap[best]))
			best = child;
		if (child + 1 < nr && lsmem_policy_before(&heap[child + 1], &heap[best]))
			best = child + 1;
		if (best == i)
			return;
		swap = heap[i];
		heap[i] = heap[best];
		heap[best] = swap;
		i = best;
	}
}

/* Per mille of what all candidates hold that is live, rounded up. */
static __u64 lsmem_policy_mean(const struct lsmem_candidate *candidates, __u32 nr)
{
	__u64 live = 0, held = 0;
	__u32 i;

	for (i = 0; i < nr; i++) {
		live += candidates[i].live;
		held += candidates[i].held;
	}
	return held ? (live * 1000 + held - 1) / held : 1000;
}

/**
 * lsmem_policy_select_by - choose the victims of one pass by a rule
 * @rule: of the scores
 * @candidates: in: segments that may be cleaned; out: the chosen ones are the
 *	last of the array, the first chosen the very last
 * @nr: candidates
 * @room: bytes the survivors may take
 * @utilization_max: per mille; fuller segments are passed over.  A caller whose
 *	writers wait for space says LSMEM_UTILIZATION_FORCED: then those are that
 *	are fuller than all together.  One of them is not, so as long as anything
 *	can be gained, something is; and what is very old and nearly full does not
 *	win over and over, for next to nothing, while there is better.
 *	LSMEM_UTILIZATION_ANY: none is
 * @oldest_first: by id instead of score, whether or not memory is gained: what
 *	is gained are the tombstones that the oldest segments hold in place
 *
 * Return: the number chosen, at most LSMEM_POLICY_VICTIMS; 0 when no
 * selection would free memory.
 */
__u32 lsmem_policy_select_by(enum lsmem_policy_rule rule, struct lsmem_candidate *candidates,
			     __u32 nr, __u64 room, __u32 utilization_max, int oldest_first)
{
	__u64 limit = utilization_max, live = 0, held = 0;
	__u32 chosen = 0, left = nr, i;

	if (limit == LSMEM_UTILIZATION_FORCED)
		limit = lsmem_policy_mean(candidates, nr);

	for (i = 0; i < nr; i++) {
		struct lsmem_candidate *c = &candidates[i];

		if (oldest_first)
			c->score = ~c->id;
		else if ((__u64)c->live * 1000 > c->held * limit)
			c->score = 0;
		else
			c->score = lsmem_policy_score_by(rule, c->live, c->held, c->age);
	}
	for (i = nr / 2; i-- > 0;)
		lsmem_policy_sift(candidates, nr, i);

	while (left && chosen < LSMEM_POLICY_VICTIMS) {
		struct lsmem_candidate best = candidates[0];

		if (!best.score || (chosen && live + best.live > room))
			break;
		if (best.live > room) {		/* another may fit */
			candidates[0].score = 0;
			lsmem_policy_sift(candidates, left, 0);
			continue;
		}
		left--;
		candidates[0] = candidates[left];
		lsmem_policy_sift(candidates, left, 0);
		candidates[left] = best;
		live += best.live;
		held += best.held;
		chosen++;
	}
	return held > live || oldest_first ? chosen : 0;
}

/**
 * lsmem_policy_select - choose the victims of one pass by LSMEM_RULE_DEFAULT
 * @candidates: as lsmem_policy_select_by(), with all that follows
 * @nr: candidates
 * @room: bytes the survivors may take
 * @utilization_max: per mille
 * @oldest_first: by id instead of score
 *
 * Return: the number chosen.
 */
__u32 lsmem_policy_select(struct lsmem_candidate *candidates, __u32 nr, __u64 room,
			  __u32 utilization_max, int oldest_first)
{
	return lsmem_policy_select_by(LSMEM_RULE_DEFAULT, candidates, nr, room, utilization_max,
				      oldest_first);
}

/**
 * lsmem_policy_cost - what is copied for what is gained
 * @live: bytes that are copied
 * @held: bytes that are given back
 *
 * Return: bytes copied for each byte freed, per mille; LSMEM_COST_NONE when none
 * is.
 */
__u64 lsmem_policy_cost(__u64 live, __u64 held)
{
	return live < held ? live * 1000 / (held - live) : LSMEM_COST_NONE;
}

/**
 * lsmem_policy_turn - which segment the hand of eviction sweeps next
 * @id: of the segment; it does not change while the segment is in memory
 * @age: since the hand last swept the segment, or, if it never did, since the segment was opened;
 *	in steps of the store, which makes one when it opens a segment and one when the hand sweeps
 *	one.  Steps, not time: the order then depends on what came into memory, not on how fast
 * @swept: nonzero: the hand has swept the segment before
 *
 * At the same age one that was never swept always comes before one that was.
 *
 * Return: the segment with the largest comes next, of several the one with the lowest id; never
 * less for a larger @age, and more if that is at most LSMEM_TURN_AGE_MAX.
 */
__u64 lsmem_policy_turn(__u64 id, __u64 age, __u32 swept)
{
	/* Fibonacci hashing: evenly spread over 256 .. 511, also for ids in sequence. */
	__u64 spread = 256 + (id * 0x9e3779b97f4a7c15ull >> 56);

	if (age > LSMEM_TURN_AGE_MAX)
		age = LSMEM_TURN_AGE_MAX;
	return (swept ? age : 2 * age) * spread;
}

/**
 * lsmem_policy_keep - whether an object stays in memory when the hand sweeps it
 * @touched: its touched bit, 0 or not.  Reads set the bit and the hand clears it, also when it
 *	drops the object.  A write leaves the bit of its object as it is.  A fetch leaves it clear,
 *	and so does the read that has waited for the fetch
 *
 * Return: 1: it stays; 0: it is dropped, its handle becomes COLD.
 */
__u32 lsmem_policy_keep(__u32 touched)
{
	return touched != 0;
}

/* Is a share of time below @permille?  Shifted so that it cannot overflow. */
static int lsmem_policy_behind(__u64 part, __u64 rest, __u32 permille)
{
	return (part >> 16) * 1000 < ((part >> 16) + (rest >> 16)) * permille;
}

/**
 * lsmem_policy_level - which level is to make room now
 * @limits: the balancer and its parameters
 * @balance: how things stand
 *
 * Compaction costs no I/O; cleaning gives back frames of the backup, lets tombstones
 * go, and brings what will die together to lie together.  So with every
 * balancer cleaning is due when the backup is short of room or compaction can
 * gain nothing, and nothing is while memory is not low.
 *
 * The tombstone ratio is RAMCloud's (TombstoneRatioBalancer), as is the fixed
 * share.  Adaptive asks what the cheapest victim of each level costs: compaction
 * gives back whole seglets only, so the smaller segments become the more it
 * copies for each byte, until cleaning, dearer by its price, is cheaper.
 *
 * Return: LSMEM_LEVEL_*.
 */
__u32 lsmem_policy_level(const struct lsmem_policy_limits *limits,
			 const struct lsmem_balance *balance)
{
	__u64 spare = balance->bytes > balance->live ? balance->bytes - balance->live : 0;

	if ((__u64)balance->segments_used * 1000 >= (__u64)balance->segments_max * LSMEM_BACKUP_HIGH)
		return LSMEM_LEVEL_CLEAN;
	if (!balance->memory_low)
		return LSMEM_LEVEL_NONE;
	if (balance->compact_cost == LSMEM_COST_NONE)
		return LSMEM_LEVEL_CLEAN;
	switch (limits->balancer) {
	case LSMEM_BALANCER_TOMBSTONES:
		if (balance->tombstones &&
		    balance->tombstones * 1000 >= (spare + balance->tombstones) * limits->tombstone_ratio)
			return LSMEM_LEVEL_CLEAN;
		return LSMEM_LEVEL_COMPACT;
	case LSMEM_BALANCER_FIXED:
		if (lsmem_policy_behind(balance->clean_ns, balance->compact_ns,
					limits->fixed_clean))
			return LSMEM_LEVEL_CLEAN;
		return LSMEM_LEVEL_COMPACT;
	default:
		if (balance->tombstones * 1000 > balance->bytes * limits->tombstones_max)
			return LSMEM_LEVEL_CLEAN;
		if (balance->clean_cost != LSMEM_COST_NONE &&
		    balance->compact_cost > balance->clean_cost +
					    balance->clean_cost * limits->clean_price / 1000)
			return LSMEM_LEVEL_CLEAN;
		return LSMEM_LEVEL_COMPACT;
	}
}
