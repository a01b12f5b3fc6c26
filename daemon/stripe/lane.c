// SPDX-License-Identifier: GPL-2.0
/*
 * The index of stripes.
 *
 * New segments take the free lanes of stripes that are in use before new stripes: a stripe whose lanes are all free gives its
 * frames back, and a lane that stays free is space that is lost. Of several stripes that have a free lane the fullest comes
 * first, so that the others can become empty; they are in a list for each number of lanes in use.
 *
 * Shard i of stripe s is on the frame (i + s) mod n of those that the caller has given in the order of backups: so a backup
 * has parity in m of n stripes.
 */
#include <stdlib.h>
#include <string.h>

#include "lane.h"

/**
 * struct lane_stripe - a stripe
 * @known: it is in the index
 * @used: mask of the lanes that have a segment
 * @there: mask of the shards that have a frame
 * @frames: by shard
 * @before: in the list of the stripes with as many lanes in use, or LANE_NONE
 * @next: likewise; of a stripe that is not known: the next of those
 */
struct lane_stripe {
	bool known;
	uint16_t used, there;
	struct lane_frame frames[CODE_SHARDS];
	uint32_t before, next;
};

/**
 * struct lanes - the index
 * @k: lanes of a stripe, data shards
 * @m: parity shards
 * @nr: most stripes
 * @free: first stripe that is not known
 * @first: of the list of the stripes with so many lanes in use
 * @left: free lanes of the stripes that have so many shards
 * @stripes: by number
 */
struct lanes {
	uint32_t k, m, nr, free;
	uint32_t first[CODE_SHARDS + 1];
	uint32_t left[CODE_SHARDS + 1];
	struct lane_stripe stripes[];
};

/**
 * lanes_new - make an index
 * @k: data shards
 * @m: parity shards; @k + @m is at most CODE_SHARDS
 * @stripes: most stripes, below 2^28
 *
 * Return: the index, without stripes, to be given to lanes_free(); NULL: a number is out of range, or no memory.
 */
struct lanes *lanes_new(uint32_t k, uint32_t m, uint32_t stripes)
{
	struct lanes *lanes;
	uint32_t i;

	if (!k || !m || k > CODE_SHARDS || m > CODE_SHARDS - k || stripes >= LANE_NONE / CODE_SHARDS)
		return NULL;
	lanes = calloc(1, sizeof(*lanes) + stripes * sizeof(*lanes->stripes));
	if (!lanes)
		return NULL;
	lanes->k = k;
	lanes->m = m;
	lanes->nr = stripes;
	for (i = 0; i <= CODE_SHARDS; i++)
		lanes->first[i] = LANE_NONE;
	for (i = 0; i < stripes; i++)
		lanes->stripes[i].next = i + 1 < stripes ? i + 1 : LANE_NONE;
	lanes->free = stripes ? 0 : LANE_NONE;
	return lanes;
}

/**
 * lanes_free - free an index
 * @lanes: the index, or NULL
 */
void lanes_free(struct lanes *lanes)
{
	free(lanes);
}

static struct lane_stripe *stripe_get(const struct lanes *lanes, uint32_t stripe)
{
	if (stripe >= lanes->nr || !lanes->stripes[stripe].known)
		return NULL;
	return (struct lane_stripe *)&lanes->stripes[stripe];
}

static uint32_t *list_of(struct lanes *lanes, const struct lane_stripe *s)
{
	return &lanes->first[__builtin_popcount(s->used)];
}

static void list_add(struct lanes *lanes, struct lane_stripe *s)
{
	uint32_t *first = list_of(lanes, s), number = (uint32_t)(s - lanes->stripes);

	s->before = LANE_NONE;
	s->next = *first;
	if (*first != LANE_NONE)
		lanes->stripes[*first].before = number;
	*first = number;
	lanes->left[__builtin_popcount(s->there)] += lanes->k - (uint32_t)__builtin_popcount(s->used);
}

static void list_remove(struct lanes *lanes, struct lane_stripe *s)
{
	if (s->before == LANE_NONE)
		*list_of(lanes, s) = s->next;
	else
		lanes->stripes[s->before].next = s->next;
	if (s->next != LANE_NONE)
		lanes->stripes[s->next].before = s->before;
	lanes->left[__builtin_popcount(s->there)] -= lanes->k - (uint32_t)__builtin_popcount(s->used);
}

/* Give a stripe other shards. */
static void set_there(struct lanes *lanes, struct lane_stripe *s, uint32_t there)
{
	uint32_t left = lanes->k - (uint32_t)__builtin_popcount(s->used);

	lanes->left[__builtin_popcount(s->there)] -= left;
	s->there = (uint16_t)there;
	lanes->left[__builtin_popcount(s->there)] += left;
}

/**
 * lanes_add - add a stripe whose lanes are free
 * @lanes: the index
 * @frames: one on each of @nr backups, in the order of backups
 * @nr: k + m, or fewer if there are not so many backups: then the last shards, parity, are missing
 *
 * Return: number of the stripe; LANE_NONE: there are as many as there may be, or fewer than k or more than k + m frames.
 */
uint32_t lanes_add(struct lanes *lanes, const struct lane_frame *frames, uint32_t nr)
{
	uint32_t stripe = lanes->free, i;
	struct lane_stripe *s;

	if (stripe == LANE_NONE || nr < lanes->k || nr > lanes->k + lanes->m)
		return LANE_NONE;
	s = &lanes->stripes[stripe];
	lanes->free = s->next;
	s->known = true;
	s->used = 0;
	s->there = (uint16_t)((1u << nr) - 1);
	for (i = 0; i < nr; i++)
		s->frames[i] = frames[(i + stripe) % nr];
	list_add(lanes, s);
	return stripe;
}

/**
 * lanes_put_back - give a stripe a frame for a shard that is missing
 * @lanes: the index
 * @stripe: its number; a stripe that is not known is added, as a recovery does for each frame that the digest lists
 * @shard: the shard
 * @frame: where it is
 *
 * Return: false: there can be no such shard, or the shard has a frame, or another shard is on the same backup.
 */
bool lanes_put_back(struct lanes *lanes, uint32_t stripe, uint32_t shard, const struct lane_frame *frame)
{
	struct lane_stripe *s;
	uint32_t *link, i;

	if (stripe >= lanes->nr || shard >= lanes->k + lanes->m)
		return false;
	s = &lanes->stripes[stripe];
	for (i = 0; s->known && i < lanes->k + lanes->m; i++)
		if (s->there >> i & 1 && (i == shard || s->frames[i].backup == frame->backup))
			return false;
	if (!s->known) {
		for (link = &lanes->free; *link != stripe; link = &lanes->stripes[*link].next)
			;
		*link = s->next;
		s->known = true;
		s->used = 0;
		s->there = 0;
		list_add(lanes, s);
	}
	set_there(lanes, s, s->there | 1u << shard);
	s->frames[shard] = *frame;
	return true;
}

/**
 * lanes_take - take a lane for a new segment
 * @lanes: the index
 * @least: shards that the stripe must have, at least k
 * @lane: out
 *
 * Return: false: no stripe of so many shards has a free lane: lanes_add() another one.
 */
bool lanes_take(struct lanes *lanes, uint32_t least, struct lane *lane)
{
	uint32_t used, stripe;

	for (used = lanes->k; used--;) {
		for (stripe = lanes->first[used]; stripe != LANE_NONE; stripe = lanes->stripes[stripe].next) {
			struct lane_stripe *s = &lanes->stripes[stripe];

			if ((uint32_t)__builtin_popcount(s->there) < least)
				continue;
			lane->stripe = stripe;
			for (lane->lane = 0; s->used >> lane->lane & 1; lane->lane++)
				;
			return lanes_claim(lanes, lane);
		}
	}
	return false;
}

/**
 * lanes_claim - take this lane, as a recovery does for each segment that the digest lists
 * @lanes: the index
 * @lane: the lane
 *
 * Return: false: there is no such lane, or it has a segment.
 */
bool lanes_claim(struct lanes *lanes, const struct lane *lane)
{
	struct lane_stripe *s = stripe_get(lanes, lane->stripe);

	if (!s || lane->lane >= lanes->k || s->used >> lane->lane & 1)
		return false;
	list_remove(lanes, s);
	s->used |= (uint16_t)(1u << lane->lane);
	list_add(lanes, s);
	return true;
}

/**
 * lanes_give - give back the lane of a segment that no durable digest lists any more
 * @lanes: the index
 * @lane: lanes_take() or lanes_claim() has taken it
 *
 * Return: all lanes of the stripe are free: its frames may be given back, after lanes_remove().
 */
bool lanes_give(struct lanes *lanes, const struct lane *lane)
{
	struct lane_stripe *s = stripe_get(lanes, lane->stripe);

	if (!s || lane->lane >= lanes->k || !(s->used >> lane->lane & 1))
		return false;
	list_remove(lanes, s);
	s->used &= (uint16_t)~(1u << lane->lane);
	list_add(lanes, s);
	return !s->used;
}

/**
 * lanes_remove - remove a stripe
 * @lanes: the index
 * @stripe: its number; if one of its lanes has a segment, nothing is done
 */
void lanes_remove(struct lanes *lanes, uint32_t stripe)
{
	struct lane_stripe *s = stripe_get(lanes, stripe);

	if (!s || s->used)
		return;
	list_remove(lanes, s);
	s->known = false;
	s->next = lanes->free;
	lanes->free = stripe;
}

/**
 * lanes_lose - the shards on a backup are lost: a digest without the backup counts
 * @lanes: the index
 * @backup: its index
 */
void lanes_lose(struct lanes *lanes, uint32_t backup)
{
	uint32_t stripe, shard;

	for (stripe = 0; stripe < lanes->nr; stripe++) {
		struct lane_stripe *s = stripe_get(lanes, stripe);

		for (shard = 0; s && shard < lanes->k + lanes->m; shard++)
			if (s->there >> shard & 1 && s->frames[shard].backup == backup)
				set_there(lanes, s, s->there & ~(1u << shard));
	}
}

/**
 * lanes_missing - find a shard to be made anew
 * @lanes: the index
 * @stripe: out: number of the stripe: of those with a segment, one with the fewest shards
 * @shard: out: its first shard without a frame
 *
 * Return: false: none is missing, of stripes that have k shards. With fewer a shard cannot be made.
 */
bool lanes_missing(const struct lanes *lanes, uint32_t *stripe, uint32_t *shard)
{
	uint32_t n, fewest = lanes->k + lanes->m;

	for (n = 0; n < lanes->nr; n++) {
		const struct lane_stripe *s = stripe_get(lanes, n);
		uint32_t nr = s ? (uint32_t)__builtin_popcount(s->there) : 0;

		if (!s || !s->used || nr < lanes->k || nr >= fewest)
			continue;
		fewest = nr;
		*stripe = n;
		for (*shard = 0; s->there >> *shard & 1; (*shard)++)
			;
	}
	return fewest < lanes->k + lanes->m;
}

/**
 * lanes_there - say which shards of a stripe are there
 * @lanes: the index
 * @stripe: its number
 *
 * Return: mask; 0 if the stripe is not known.
 */
uint32_t lanes_there(const struct lanes *lanes, uint32_t stripe)
{
	const struct lane_stripe *s = stripe_get(lanes, stripe);

	return s ? s->there : 0;
}

/**
 * lanes_used - say which lanes of a stripe have a segment
 * @lanes: the index
 * @stripe: its number
 *
 * Return: mask; 0 if the stripe is not known.
 */
uint32_t lanes_used(const struct lanes *lanes, uint32_t stripe)
{
	const struct lane_stripe *s = stripe_get(lanes, stripe);

	return s ? s->used : 0;
}

/**
 * lanes_left - count the lanes that lanes_take() can give
 * @lanes: the index
 * @least: shards that their stripes have at least
 *
 * Return: how many lanes are free.
 */
uint32_t lanes_left(const struct lanes *lanes, uint32_t least)
{
	uint32_t nr = 0;

	for (; least <= CODE_SHARDS; least++)
		nr += lanes->left[least];
	return nr;
}

/**
 * lanes_where - find a shard
 * @lanes: the index
 * @stripe: its number
 * @shard: the shard
 *
 * Return: the frame; LANE_NONE in both members if there is none.
 */
struct lane_frame lanes_where(const struct lanes *lanes, uint32_t stripe, uint32_t shard)
{
	const struct lane_stripe *s = stripe_get(lanes, stripe);

	if (!s || shard >= CODE_SHARDS || !(s->there >> shard & 1))
		return (struct lane_frame) { LANE_NONE, LANE_NONE };
	return s->frames[shard];
}
