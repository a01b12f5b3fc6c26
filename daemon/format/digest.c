// SPDX-License-Identifier: GPL-2.0
/*
 * The digest log: see digest.h.
 *
 * Each half begins with a full record; deltas with the next sequence numbers follow. A record is
 * written only when the one before is durable, so the end of the newest chain is the newest durable
 * digest. The one exception is a record that was being written: if it is whole, it counts; if not,
 * it is ignored.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "digest_private.h"

/**
 * digest_map_init - make a map that lists nothing
 * @map: out
 * @backups: bound of the indexes of backups
 * @frames: bound of the numbers of frames
 *
 * Return: 0 or -ENOMEM.
 */
int digest_map_init(struct digest_map *map, uint32_t backups, uint32_t frames)
{
	memset(map, 0, sizeof(*map));
	map->items = calloc((size_t)backups * frames, sizeof(*map->items));
	if (!map->items)
		return -ENOMEM;
	map->backups = backups;
	map->frames = frames;
	map->mask = 1;
	map->floor = 1;
	map->set_generation = 1;
	return 0;
}

/**
 * digest_map_destroy - free the memory of a map
 * @map: initialised, zeroed or destroyed
 */
void digest_map_destroy(struct digest_map *map)
{
	free(map->items);
	map->items = NULL;
	digest_stripes_free(map);
}

/**
 * digest_items_clear - remove all replicas from a map; stripes stay
 * @map: initialised
 */
void digest_items_clear(struct digest_map *map)
{
	memset(map->items, 0, (size_t)digest_places(map) * sizeof(*map->items));
	map->nr = 0;
}

/**
 * digest_map_clear - remove all items from a map
 * @map: initialised
 */
void digest_map_clear(struct digest_map *map)
{
	digest_items_clear(map);
	digest_stripes_clear(map);
}

/* Remove all members but those of @mask, and the items of their replicas. */
static void digest_drop(struct digest_map *map, uint32_t mask)
{
	uint32_t b, place;

	for (b = 0; b < map->backups; b++) {
		if (mask & 1u << b || !(map->mask & 1u << b))
			continue;
		for (place = b * map->frames; place < (b + 1) * map->frames; place++) {
			map->nr -= map->items[place].state != 0;
			memset(&map->items[place], 0, sizeof(map->items[place]));
			digest_stripes_drop(map, place);
		}
	}
	map->mask &= mask;
}

/*
 * Find the failure domains of the members: @domains gets a mask of the members of each. If all
 * members are in one domain, each of them counts as a domain: a failure of that domain takes
 * everything anyway. Return: the number of domains.
 */
static uint32_t digest_domains(const struct digest_map *map, uint32_t domains[LSMEM_BACKUPS])
{
	uint32_t nr = 0, b, i;

	for (b = 0; b < LSMEM_BACKUPS; b++) {
		if (!(map->mask >> b & 1u))
			continue;
		for (i = 0; i < nr; i++)
			if (map->domain[b] &&
			    map->domain[b] == map->domain[__builtin_ctz(domains[i])])
				break;
		if (i == nr)
			domains[nr++] = 0;
		domains[i] |= 1u << b;
	}
	if (nr != 1)
		return nr;
	for (nr = 0, b = 0; b < LSMEM_BACKUPS; b++)
		if (map->mask >> b & 1u)
			domains[nr++] = 1u << b;
	return nr;
}

/**
 * digest_floor - compute the floor of a digest
 * @map: its members and their domains
 *
 * Of three or more domains the floor is a majority: one domain can be lost in a crash, and a
 * recovery that reads a majority finds the newest digest. Of two domains the floor is one, and a
 * recovery needs both: either domain can have gone on alone.
 *
 * Return: in how many failure domains of @map the next record must be durable.
 */
uint32_t digest_floor(const struct digest_map *map)
{
	uint32_t domains[LSMEM_BACKUPS], nr = digest_domains(map, domains);

	return nr > 2 ? nr / 2 + 1 : 1;
}

/**
 * digest_counts - does the record after a digest count?
 * @map: the digest
 * @have: mask of the backups on which the record is durable
 *
 * With a floor of one, all members of one domain must have the record; otherwise one member each in
 * as many domains as the floor says. If a set of backups counts, every larger set counts, too.
 */
bool digest_counts(const struct digest_map *map, uint32_t have)
{
	uint32_t domains[LSMEM_BACKUPS], nr = digest_domains(map, domains), count = 0, i;

	for (i = 0; i < nr; i++)
		count += map->floor > 1 ? (domains[i] & have) != 0 : !(domains[i] & ~have);
	return count >= map->floor;
}

/**
 * digest_enough - can a recovery rely on the newest digest that it has found?
 * @map: the digest
 * @have: mask of the members that the recovery has read
 *
 * A record must not count on the members that were not read: otherwise a newer digest could be
 * there. And a record must count on the members that were read: otherwise two recoveries could go
 * on from the same digest, apart from each other.
 */
bool digest_enough(const struct digest_map *map, uint32_t have)
{
	return digest_counts(map, have) && !digest_counts(map, map->mask & ~have);
}

/**
 * digest_need - count the members that a recovery must read at least
 * @map: the newest digest that was found
 *
 * It looks at all sets of members: milliseconds for 16 of them.
 *
 * Return: size of the smallest set for which digest_enough() is true.
 */
uint32_t digest_need(const struct digest_map *map)
{
	uint32_t least = __builtin_popcount(map->mask), have;

	/* All sets of members, which are up to 2^LSMEM_BACKUPS. All together are enough. */
	for (have = map->mask; have; have = (have - 1) & map->mask)
		if ((uint32_t)__builtin_popcount(have) < least && digest_enough(map, have))
			least = __builtin_popcount(have);
	return least;
}

/**
 * digest_split - can a backup hold acknowledged data that are not in this log?
 * @map: the newest digest on a backup that is no member
 * @branch: of the log
 *
 * A recovery that has read enough members has seen every record that counted. A recovery that was
 * told to go on without them has not: a backup that it did not read can have newer records, which
 * are not below the branch, or can have been recovered on its own. If there were two such
 * recoveries, a backup that was dropped between them looks like one that went on alone, and is
 * treated as such.
 */
bool digest_split(const struct digest_map *map, const struct digest_branch *branch)
{
	if (map->branch.term)
		return map->branch.term != branch->term || map->branch.id != branch->id;
	return branch->term &&
	       (map->term >= branch->term || map->sequence >= branch->sequence);
}

static enum format_error digest_apply_branch(struct digest_map *map,
					     const struct lsmem_digest_item *item)
{
	const struct digest_branch branch = {
		.term = __le64_to_cpu(item->cut),
		.sequence = __le64_to_cpu(item->segment),
		.id = __le32_to_cpu(item->generation),
	};

	if (!branch.term || !branch.sequence || !branch.id || map->branch.term)
		return FORMAT_RANGE;
	map->branch = branch;
	return FORMAT_OK;
}

/**
 * digest_update - take over what an item says of a segment
 * @to: the segment in the map
 * @item: of the record
 * @nr: number of such segments in the map
 *
 * Return: FORMAT_OK; FORMAT_RANGE: @item contradicts itself or @to.
 */
enum format_error digest_update(struct digest_item *to, const struct lsmem_digest_item *item,
				uint32_t *nr)
{
	uint32_t state = __le32_to_cpu(item->state);
	uint32_t length = __le32_to_cpu(item->length);
	uint64_t segment = __le64_to_cpu(item->segment);
	uint32_t generation = __le32_to_cpu(item->generation);

	if (!segment || segment >= LSMEM_SEGMENT_ID_END || state < LSMEM_ITEM_OPEN ||
	    state > LSMEM_ITEM_REMOVED || !lsmem_segment_fits(length, 0) || length % LSMEM_ALIGN)
		return FORMAT_RANGE;
	/* Invariant 10: a frame gets another segment only after a digest without the old one.
	 * Otherwise a crash could leave a listed segment that another has overwritten.
	 */
	if (to->state ? to->segment != segment || to->generation != generation
		      : state == LSMEM_ITEM_REMOVED)
		return FORMAT_RANGE;
	if (state == LSMEM_ITEM_REMOVED) {
		memset(to, 0, sizeof(*to));
		(*nr)--;
		return FORMAT_OK;
	}
	/* Invariant 3: the durable length never becomes less. */
	if (to->state && length < to->length)
		return FORMAT_RANGE;
	if (!to->state)
		(*nr)++;
	*to = (struct digest_item) {
		.segment = segment,
		.generation = generation,
		.replica_generation = __le32_to_cpu(item->replica_generation),
		.state = state,
		.length = length,
	};
	return FORMAT_OK;
}

static enum format_error digest_apply_item(struct digest_map *map,
					   const struct lsmem_digest_item *item)
{
	uint32_t state = __le32_to_cpu(item->state), place;

	if (item->live)
		return FORMAT_RANGE;
	if (state == LSMEM_ITEM_STRIPE || (state == LSMEM_ITEM_REMOVED && !item->segment) ||
	    item->frame == __cpu_to_le32(LSMEM_ITEM_NO_FRAME))
		return digest_apply_stripe(map, item);
	if (item->stripe)
		return FORMAT_RANGE;
	if (state == LSMEM_ITEM_BRANCH)
		return digest_apply_branch(map, item);
	if (!digest_place(map, item, &place) || (map->stripes && map->stripes->of[place]))
		return FORMAT_RANGE;
	return digest_update(&map->items[place], item, &map->nr);
}

/* Take over the members of a record; items of backups that are no longer members are removed. */
static enum format_error digest_apply_members(struct digest_map *map,
					      const struct lsmem_digest *digest)
{
	uint32_t mask = 0, b;

	for (b = 0; b < LSMEM_BACKUPS; b++) {
		map->members[b] = __le32_to_cpu(digest->members[b]);
		if (map->members[b])
			mask |= 1u << b;
	}
	if (!mask)
		mask = 1;
	map->floor = digest->floor ? __le32_to_cpu(digest->floor) : 1;
	if (mask >> map->backups)
		return FORMAT_RANGE;
	if (map->mask & ~mask)
		digest_drop(map, mask);
	map->mask = mask;
	memcpy(map->domain, digest->domains, sizeof(map->domain));
	if (!digest_counts(map, mask))
		return FORMAT_RANGE;
	map->set_generation = digest->set_generation ? __le32_to_cpu(digest->set_generation) : 1;
	return FORMAT_OK;
}

/**
 * digest_apply - apply a record
 * @map: the log before the record; undefined after an error
 * @digest: checked by format_digest_check()
 *
 * Return: FORMAT_OK; FORMAT_RANGE: the record contradicts itself or @map.
 */
enum format_error digest_apply(struct digest_map *map, const struct lsmem_digest *digest)
{
	const struct lsmem_digest_item *items = (const void *)(digest + 1);
	uint32_t nr = __le32_to_cpu(digest->items), i;
	enum format_error error;

	if (__le32_to_cpu(digest->kind) == LSMEM_DIGEST_FULL) {
		digest_map_clear(map);
		memset(&map->branch, 0, sizeof(map->branch));
	}
	if (__le64_to_cpu(digest->next_segment) > LSMEM_SEGMENT_ID_END)
		return FORMAT_RANGE;
	error = digest_apply_members(map, digest);
	if (error)
		return error;
	for (i = 0; i < nr; i++) {
		error = digest_apply_item(map, &items[i]);
		if (error)
			return error;
	}
	/* A coded segment with fewer shards cannot be read: it would be forgotten without a word. */
	if (map->stripes && map->stripes->nr_lost)
		return FORMAT_RANGE;
	map->term = __le64_to_cpu(digest->term);
	map->sequence = __le64_to_cpu(digest->sequence);
	map->era = __le32_to_cpu(digest->era);
	map->generation_ceiling = __le32_to_cpu(digest->generation_ceiling);
	map->store_time = __le64_to_cpu(digest->store_time);
	map->next_segment = __le64_to_cpu(digest->next_segment);
	map->exact = __le64_to_cpu(digest->exact);
	return FORMAT_OK;
}

/**
 * struct digest_chain - the consecutive records at the beginning of a half
 * @half: number of the half
 * @end: byte in the half after the last record; 0: there is no record
 * @term: of the last record; 0: there is none
 * @sequence: of the last record
 */
struct digest_chain {
	uint32_t half;
	uint64_t end;
	uint64_t term;
	uint64_t sequence;
};

static void digest_follow(struct digest_chain *chain, const struct lsmem_super *super,
			  const uint8_t *bytes, uint64_t length, uint64_t *seen)
{
	bool follows = true;
	uint64_t at = 0;

	while (length - at >= LSMEM_BLOCK) {
		const struct lsmem_digest *digest = (const void *)(bytes + at);
		uint32_t kind = __le32_to_cpu(digest->kind);

		if (format_digest_check(digest, super, length - at)) {
			follows = false;
			at += LSMEM_BLOCK;
			continue;
		}
		/* Invariant 1: digests are totally ordered by (term, sequence). */
		if (at ? kind != LSMEM_DIGEST_DELTA ||
			 __le64_to_cpu(digest->term) != chain->term ||
			 __le64_to_cpu(digest->sequence) != chain->sequence + 1
		       : kind != LSMEM_DIGEST_FULL)
			follows = false;
		if (__le64_to_cpu(digest->sequence) > *seen)
			*seen = __le64_to_cpu(digest->sequence);
		at += format_digest_bytes(__le32_to_cpu(digest->items));
		if (!follows)
			continue;
		chain->term = __le64_to_cpu(digest->term);
		chain->sequence = __le64_to_cpu(digest->sequence);
		chain->end = at;
	}
}

/**
 * digest_read - find the newest durable digest
 * @map: initialised for the backups of the store; out
 * @super: of the backup
 * @halves: both halves of the digest log, one after the other
 *
 * If @map->sequence_seen is above @map->sequence afterwards, records that were durable are lost: a
 * record is written only after the one before is durable.
 *
 * Return: FORMAT_OK; FORMAT_ZERO: there is no chain; FORMAT_RANGE: the newest chain contradicts
 * itself.
 */
enum format_error digest_read(struct digest_map *map, const struct lsmem_super *super,
			      const uint8_t *halves)
{
	uint64_t length = __le64_to_cpu(super->digest_bytes), at;
	struct digest_chain chain[2] = { { .half = 0 }, { .half = 1 } }, *best;
	enum format_error error;
	uint64_t seen = 0;

	digest_follow(&chain[0], super, halves, length, &seen);
	digest_follow(&chain[1], super, halves + length, length, &seen);
	best = &chain[chain[1].term > chain[0].term ||
		      (chain[1].term == chain[0].term && chain[1].sequence > chain[0].sequence)];
	if (!best->end)
		return FORMAT_ZERO;
	for (at = 0; at < best->end;) {
		const struct lsmem_digest *digest =
			(const void *)(halves + best->half * length + at);

		error = digest_apply(map, digest);
		if (error)
			return error;
		at += format_digest_bytes(__le32_to_cpu(digest->items));
	}
	map->half = best->half;
	map->at = best->end;
	map->sequence_seen = seen;
	return FORMAT_OK;
}

/**
 * digest_head - begin a record: make its head, without items and CRC
 * @digest: out
 * @map: the values of the head
 * @super: of a backup of the store
 * @kind: LSMEM_DIGEST_FULL or LSMEM_DIGEST_DELTA
 */
void digest_head(struct lsmem_digest *digest, const struct digest_map *map,
		 const struct lsmem_super *super, uint32_t kind)
{
	uint32_t b;

	memset(digest, 0, sizeof(*digest));
	digest->magic = __cpu_to_le64(LSMEM_DIGEST_MAGIC);
	digest->kind = __cpu_to_le32(kind);
	memcpy(digest->uuid, super->uuid, sizeof(digest->uuid));
	digest->term = __cpu_to_le64(map->term);
	digest->sequence = __cpu_to_le64(map->sequence);
	digest->era = __cpu_to_le32(map->era);
	digest->generation_ceiling = __cpu_to_le32(map->generation_ceiling);
	digest->store_time = __cpu_to_le64(map->store_time);
	digest->next_segment = __cpu_to_le64(map->next_segment);
	digest->exact = __cpu_to_le64(map->exact);
	if (super->features.incompat & __cpu_to_le32(LSMEM_INCOMPAT_BACKUPS)) {
		for (b = 0; b < LSMEM_BACKUPS; b++)
			digest->members[b] = __cpu_to_le32(map->members[b]);
		digest->floor = __cpu_to_le32(map->floor);
		digest->set_generation = __cpu_to_le32(map->set_generation);
		memcpy(digest->domains, map->domain, sizeof(map->domain));
	}
}

/**
 * digest_add - add an item to a record
 * @digest: begun, with room
 * @frame: index of the backup << LSMEM_ITEM_FRAME_BITS | frame of the replica
 * @item: the segment
 * @state: LSMEM_ITEM_*; @item->state is not used
 */
void digest_add(struct lsmem_digest *digest, uint32_t frame, const struct digest_item *item,
		uint32_t state)
{
	uint32_t nr = __le32_to_cpu(digest->items);

	format_digest_items(digest)[nr] = (struct lsmem_digest_item) {
		.segment = __cpu_to_le64(item->segment),
		.generation = __cpu_to_le32(item->generation),
		.replica_generation = __cpu_to_le32(item->replica_generation),
		.frame = __cpu_to_le32(frame),
		.state = __cpu_to_le32(state),
		.length = __cpu_to_le32(item->length),
	};
	digest->items = __cpu_to_le32(nr + 1);
}

/**
 * digest_add_branch - add an item that says where the log branched off to a full record
 * @digest: begun, with room
 * @branch: of the log; nothing is added if there is none
 */
void digest_add_branch(struct lsmem_digest *digest, const struct digest_branch *branch)
{
	uint32_t nr = __le32_to_cpu(digest->items);

	if (!branch->term)
		return;
	format_digest_items(digest)[nr] = (struct lsmem_digest_item) {
		.segment = __cpu_to_le64(branch->sequence),
		.generation = __cpu_to_le32(branch->id),
		.state = __cpu_to_le32(LSMEM_ITEM_BRANCH),
		.cut = __cpu_to_le64(branch->term),
	};
	digest->items = __cpu_to_le32(nr + 1);
}

/**
 * digest_full_bytes - compute the length of a full record of a map
 * @map: the log
 *
 * Return: bytes, whole blocks.
 */
uint64_t digest_full_bytes(const struct digest_map *map)
{
	uint32_t nr = map->nr + (map->branch.term != 0);

	if (map->stripes)
		nr += map->stripes->nr_shards + map->stripes->nr_segments;
	return format_digest_bytes(nr);
}

/**
 * digest_full - make a full record of a map
 * @digest: digest_full_bytes(), zeroed; out, sealed
 * @map: the log
 * @super: of a backup of the store
 */
void digest_full(struct lsmem_digest *digest, const struct digest_map *map,
		 const struct lsmem_super *super)
{
	uint32_t place;

	digest_head(digest, map, super, LSMEM_DIGEST_FULL);
	for (place = 0; place < digest_places(map); place++)
		if (map->items[place].state)
			digest_add(digest, place / map->frames << LSMEM_ITEM_FRAME_BITS |
				   place % map->frames, &map->items[place], map->items[place].state);
	digest_add_stripes(digest, map);
	digest_add_branch(digest, &map->branch);
	format_digest_seal(digest);
}
