// SPDX-License-Identifier: GPL-2.0
/*
 * The stripes of a coded store in digests: see Documentation/stripes.rst, What the digest names.
 *
 * A stripe has an item for each of its frames, a coded segment one for its lane. Each item is judged by those before it, so
 * a record that changes the frame of a shard removes the old one first, and one that lists the first stripe of a store
 * names it before a segment. How many shards the stripes have is judged at the end of a record.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "digest_private.h"

/**
 * digest_map_code - make room for stripes
 * @map: initialised, without stripes
 *
 * Return: 0, or -ENOMEM: nothing has changed.
 */
int digest_map_code(struct digest_map *map)
{
	size_t places = digest_places(map);
	struct digest_stripes *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	map->stripes = s;
	/* A code has at least two data shards. */
	s->stripe = calloc(places / 2 + 1, sizeof(*s->stripe));
	s->of = calloc(places, sizeof(*s->of));
	s->lanes = calloc(places, sizeof(*s->lanes));
	if (s->stripe && s->of && s->lanes)
		return 0;
	digest_stripes_free(map);
	return -ENOMEM;
}

/**
 * digest_stripes_free - free the room for stripes
 * @map: the map, with or without
 */
void digest_stripes_free(struct digest_map *map)
{
	struct digest_stripes *s = map->stripes;

	if (!s)
		return;
	free(s->stripe);
	free(s->of);
	free(s->lanes);
	free(s);
	map->stripes = NULL;
}

/**
 * digest_stripes_clear - remove all stripes and coded segments
 * @map: the map
 */
void digest_stripes_clear(struct digest_map *map)
{
	struct digest_stripes *s = map->stripes;
	size_t places = digest_places(map);

	if (!s)
		return;
	memset(s->stripe, 0, (places / 2 + 1) * sizeof(*s->stripe));
	memset(s->of, 0, places * sizeof(*s->of));
	memset(s->lanes, 0, places * sizeof(*s->lanes));
	s->k = s->m = 0;
	s->nr_shards = s->nr_segments = s->nr_lost = 0;
}

/* Has a stripe a segment that cannot be read? */
static bool is_lost(const struct digest_stripes *s, const struct digest_stripe *stripe)
{
	return stripe->used && (uint32_t)__builtin_popcount(stripe->there) < s->k;
}

/* A store from which all stripes are gone may have another code afterwards. */
static void forget_code(struct digest_stripes *s)
{
	if (!s->nr_shards && !s->nr_segments)
		s->k = s->m = 0;
}

static void put_shard(struct digest_map *map, uint32_t number, uint32_t shard, uint32_t place)
{
	struct digest_stripes *s = map->stripes;
	struct digest_stripe *stripe = &s->stripe[number];

	s->nr_lost -= is_lost(s, stripe);
	stripe->there |= 1u << shard;
	stripe->place[shard] = place;
	s->nr_lost += is_lost(s, stripe);
	s->of[place] = number + 1;
	s->nr_shards++;
}

static void take_shard(struct digest_map *map, uint32_t number, uint32_t shard)
{
	struct digest_stripes *s = map->stripes;
	struct digest_stripe *stripe = &s->stripe[number];

	s->nr_lost -= is_lost(s, stripe);
	stripe->there &= ~(1u << shard);
	s->nr_lost += is_lost(s, stripe);
	s->of[stripe->place[shard]] = 0;
	s->nr_shards--;
	forget_code(s);
}

/**
 * digest_stripes_drop - a frame is on a backup that is no member any more
 * @map: the map
 * @place: of the frame
 */
void digest_stripes_drop(struct digest_map *map, uint32_t place)
{
	const struct digest_stripe *stripe;
	uint32_t number, shard;

	if (!map->stripes || !map->stripes->of[place])
		return;
	number = map->stripes->of[place] - 1;
	stripe = &map->stripes->stripe[number];
	for (shard = 0; !(stripe->there >> shard & 1u) || stripe->place[shard] != place; shard++)
		;
	take_shard(map, number, shard);
}

/**
 * digest_lane_set - change what a map says of a coded segment, as a recovery does
 * @map: of a coded store
 * @lane: lane + number of the stripe * k; it has a segment
 * @item: the segment; state 0: it is listed no more
 */
void digest_lane_set(struct digest_map *map, uint32_t lane, const struct digest_item *item)
{
	struct digest_stripes *s = map->stripes;
	struct digest_stripe *stripe = &s->stripe[lane / s->k];

	s->lanes[lane] = *item;
	if (item->state)
		return;
	memset(&s->lanes[lane], 0, sizeof(s->lanes[lane]));
	s->nr_lost -= is_lost(s, stripe);
	stripe->used &= ~(1u << lane % s->k);
	s->nr_lost += is_lost(s, stripe);
	s->nr_segments--;
}

/**
 * digest_stripes_trim - remove what a recovery does not list: frames on backups that are no members, and stripes without a
 *	segment
 * @map: with the members of the new digest
 */
void digest_stripes_trim(struct digest_map *map)
{
	uint32_t number, shard, nr = map->stripes ? digest_stripes_nr(map) : 0;

	for (number = 0; number < nr; number++) {
		const struct digest_stripe *stripe = &map->stripes->stripe[number];

		for (shard = 0; shard < LSMEM_SHARDS; shard++)
			if (stripe->there >> shard & 1u &&
			    (!stripe->used || !(map->mask >> stripe->place[shard] / map->frames & 1u)))
				take_shard(map, number, shard);
	}
}

/* Has the stripe a shard on the backup with this place? */
static bool on_backup(const struct digest_map *map, const struct digest_stripe *stripe, uint32_t place)
{
	uint32_t shard;

	for (shard = 0; shard < LSMEM_SHARDS; shard++)
		if (stripe->there >> shard & 1u && stripe->place[shard] / map->frames == place / map->frames)
			return true;
	return false;
}

static enum format_error apply_shard(struct digest_map *map, const struct lsmem_digest_item *item)
{
	uint32_t code = __le32_to_cpu(item->generation), number = __le32_to_cpu(item->stripe), place;
	uint32_t k = lsmem_code_k(code), m = lsmem_code_m(code), shard = lsmem_code_shard(code);
	struct digest_stripes *s = map->stripes;
	const struct digest_stripe *stripe;
	bool is;

	if (item->segment || item->replica_generation || item->length || item->bitmap || item->cut ||
	    !digest_place(map, item, &place))
		return FORMAT_RANGE;
	/* With as many parity shards a digest would not count on the backups that can read a segment. */
	if (k < 2 || !m || m >= k || k + m > LSMEM_SHARDS || shard >= k + m || number >= digest_places(map) / k ||
	    (s->k && (s->k != k || s->m != m)))
		return FORMAT_RANGE;
	stripe = &s->stripe[number];
	is = stripe->there >> shard & 1u && stripe->place[shard] == place;
	if (__le32_to_cpu(item->state) == LSMEM_ITEM_REMOVED) {
		if (!is)
			return FORMAT_RANGE;
		take_shard(map, number, shard);
		return FORMAT_OK;
	}
	if (is)
		return FORMAT_OK;
	/* Invariant 10, as for replicas. No two shards of a stripe are on one backup. */
	if (stripe->there >> shard & 1u || s->of[place] || map->items[place].state || on_backup(map, stripe, place))
		return FORMAT_RANGE;
	s->k = k;
	s->m = m;
	put_shard(map, number, shard, place);
	return FORMAT_OK;
}

static enum format_error apply_lane(struct digest_map *map, const struct lsmem_digest_item *item)
{
	uint32_t number = __le32_to_cpu(item->stripe) >> LSMEM_ITEM_LANE_BITS;
	uint32_t lane = __le32_to_cpu(item->stripe) & ((1u << LSMEM_ITEM_LANE_BITS) - 1);
	struct digest_stripes *s = map->stripes;
	struct digest_stripe *stripe;
	enum format_error error;
	struct digest_item *to;

	if (number >= digest_stripes_nr(map) || lane >= s->k)
		return FORMAT_RANGE;
	stripe = &s->stripe[number];
	to = &s->lanes[number * s->k + lane];
	error = digest_update(to, item, &s->nr_segments);
	if (error)
		return error;
	s->nr_lost -= is_lost(s, stripe);
	stripe->used = (stripe->used & ~(1u << lane)) | (uint32_t)(to->state != 0) << lane;
	s->nr_lost += is_lost(s, stripe);
	forget_code(s);
	return FORMAT_OK;
}

/**
 * digest_apply_stripe - apply an item of a frame of a stripe, or of a coded segment
 * @map: the map
 * @item: of the record
 *
 * Return: FORMAT_OK; FORMAT_RANGE: the item contradicts itself or @map, or the store is not coded.
 */
enum format_error digest_apply_stripe(struct digest_map *map, const struct lsmem_digest_item *item)
{
	if (!map->stripes)
		return FORMAT_RANGE;
	return item->frame == __cpu_to_le32(LSMEM_ITEM_NO_FRAME) ? apply_lane(map, item) : apply_shard(map, item);
}

/**
 * digest_add_shard - add an item of a frame of a stripe to a record
 * @digest: begun, with room
 * @frame: index of the backup << LSMEM_ITEM_FRAME_BITS | frame
 * @stripe: number of the stripe
 * @code: the shard and the code: lsmem_code_make()
 * @state: LSMEM_ITEM_STRIPE or LSMEM_ITEM_REMOVED
 */
void digest_add_shard(struct lsmem_digest *digest, uint32_t frame, uint32_t stripe, uint32_t code, uint32_t state)
{
	uint32_t nr = __le32_to_cpu(digest->items);

	format_digest_items(digest)[nr] = (struct lsmem_digest_item) {
		.generation = __cpu_to_le32(code),
		.frame = __cpu_to_le32(frame),
		.state = __cpu_to_le32(state),
		.stripe = __cpu_to_le32(stripe),
	};
	digest->items = __cpu_to_le32(nr + 1);
}

/**
 * digest_add_lane - add an item of a coded segment to a record
 * @digest: begun, with room
 * @lane: number of the stripe << LSMEM_ITEM_LANE_BITS | lane
 * @item: the segment
 * @state: LSMEM_ITEM_*; @item->state is not used
 */
void digest_add_lane(struct lsmem_digest *digest, uint32_t lane, const struct digest_item *item, uint32_t state)
{
	uint32_t nr = __le32_to_cpu(digest->items);

	digest_add(digest, LSMEM_ITEM_NO_FRAME, item, state);
	format_digest_items(digest)[nr].stripe = __cpu_to_le32(lane);
}

/**
 * digest_add_stripes - add items of all stripes, and of all coded segments, to a full record
 * @digest: begun, with room
 * @map: the map
 */
void digest_add_stripes(struct lsmem_digest *digest, const struct digest_map *map)
{
	const struct digest_stripes *s = map->stripes;
	uint32_t number, shard, lane, place;

	if (!s)
		return;
	for (number = 0; number < digest_stripes_nr(map); number++) {
		for (shard = 0; shard < s->k + s->m; shard++) {
			if (!(s->stripe[number].there >> shard & 1u))
				continue;
			place = s->stripe[number].place[shard];
			digest_add_shard(digest, place / map->frames << LSMEM_ITEM_FRAME_BITS | place % map->frames,
					 number, lsmem_code_make(s->k, s->m, shard), LSMEM_ITEM_STRIPE);
		}
		for (lane = 0; lane < s->k; lane++) {
			const struct digest_item *item = &s->lanes[number * s->k + lane];

			if (item->state)
				digest_add_lane(digest, number << LSMEM_ITEM_LANE_BITS | lane, item, item->state);
		}
	}
}
