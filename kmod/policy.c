// SPDX-License-Identifier: GPL-2.0
/*
 * Cleaning policy: which segments, in which order, how many.
 *
 * The score is cost-benefit as LFS (Rosenblum and Ousterhout, 1992) defines
 * it, with the age of the segment instead of its objects', as RAMCloud found
 * better (Rumble et al., FAST 2014, section 5.3):
 *
 *	benefit / cost = (1 - u) * age / (1 + u),	u = live / held
 *
 * Integers only: (held - live) * age / (held + live), with 12 bits of fraction.
 * Sizes are at most 2^23 and ages are held below 2^28, so that the product
 * stays within 64 bits; in units of a millisecond that is three days, beyond
 * which all segments are equally old.
 *
 * No locks, no calls, no state.
 */
#include "policy.h"

#define AGE_MAX		((1ull << 28) - 1)
#define SCORE_SHIFT	12

/**
 * lsmem_policy_score - how much cleaning a segment is worth
 * @live: bytes of entries that count, at most @held
 * @held: bytes it holds, below 2^24
 * @age: see struct lsmem_candidate
 *
 * Return: larger is better; 0 when nothing would be gained.
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

/**
 * lsmem_policy_select - choose the victims of one pass
 * @candidates: in: segments that may be cleaned; out: the chosen ones are the
 *	last of the array, the first chosen the very last
 * @nr: candidates
 * @room: bytes the survivors may take
 * @utilization_max: per mille; fuller segments are passed over.  A caller whose
 *	writers wait for space says 1000: as long as anything can be gained,
 *	something is (forced progress)
 * @oldest_first: by id instead of score, whether or not memory is gained: what
 *	is gained are the delete records that the oldest segments hold in place
 *
 * Return: the number chosen, at most LSMEM_POLICY_VICTIMS; 0 when no
 * selection would free memory.
 */
__u32 lsmem_policy_select(struct lsmem_candidate *candidates, __u32 nr, __u64 room,
			  __u32 utilization_max, int oldest_first)
{
	__u64 live = 0, held = 0;
	__u32 chosen = 0, left = nr, i;

	for (i = 0; i < nr; i++) {
		struct lsmem_candidate *c = &candidates[i];

		c->score = oldest_first ? ~c->id : lsmem_policy_score(c->live, c->held, c->age);
	}
	for (i = nr / 2; i-- > 0;)
		lsmem_policy_sift(candidates, nr, i);

	while (left && chosen < LSMEM_POLICY_VICTIMS) {
		struct lsmem_candidate best = candidates[0];

		if (!best.score || live + best.live > room)
			break;
		if (!oldest_first && (__u64)best.live * 1000 > (__u64)best.held * utilization_max)
			break;
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
