// SPDX-License-Identifier: GPL-2.0
/*
 * The digest log: see digest.h.
 *
 * Each half begins with a full record; deltas with the next sequence numbers
 * follow.  A record is written only when the one before is durable, so the end
 * of the newest chain is the newest durable digest, but for one record that was
 * on its way: if that is whole, it counts, if not, it never was.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"

/**
 * digest_map_init - a map that lists nothing
 * @map: to be initialised
 * @backups: how many there are, at least
 * @frames: of each, at most
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
 * digest_map_destroy - free what digest_map_init() has taken
 * @map: may have none of it
 */
void digest_map_destroy(struct digest_map *map)
{
	free(map->items);
	map->items = NULL;
}

/**
 * digest_map_clear - list nothing any more
 * @map: initialised
 */
void digest_map_clear(struct digest_map *map)
{
	memset(map->items, 0, (size_t)digest_places(map) * sizeof(*map->items));
	map->nr = 0;
}

/**
 * digest_drop - backups are members no more: what they hold is not listed
 * @map: the log
 * @mask: members that stay
 */
void digest_drop(struct digest_map *map, uint32_t mask)
{
	uint32_t b, place;

	for (b = 0; b < map->backups; b++) {
		if (mask & 1u << b || !(map->mask & 1u << b))
			continue;
		for (place = b * map->frames; place < (b + 1) * map->frames; place++) {
			map->nr -= map->items[place].state != 0;
			map->items[place].state = 0;
		}
	}
	map->mask &= mask;
}

/*
 * Failure domains of the members: @domains has the members of each.  When all members are in
 * one domain, each of them counts as one: what takes the domain takes everything anyway.
 * Returns their number.
 */
static uint32_t digest_domains(const struct digest_map *map, uint32_t domains[LSMEM_BACKUPS])
{
	uint32_t nr = 0, b, other;

	for (b = 0; b < LSMEM_BACKUPS; b++) {
		if (!(map->mask >> b & 1u))
			continue;
		for (other = 0; other < b; other++)
			if (map->mask >> other & 1u && map->domain[b] &&
			    map->domain[other] == map->domain[b])
				break;
		if (other < b)
			continue;
		domains[nr] = 1u << b;
		for (other = b + 1; other < LSMEM_BACKUPS; other++)
			if (map->mask >> other & 1u && map->domain[b] &&
			    map->domain[other] == map->domain[b])
				domains[nr] |= 1u << other;
		nr++;
	}
	if (nr != 1)
		return nr;
	for (nr = 0, b = 0; b < LSMEM_BACKUPS; b++)
		if (map->mask >> b & 1u)
			domains[nr++] = 1u << b;
	return nr;
}

/**
 * digest_floor - in how many failure domains of its members the record after it must be durable
 * @map: its members and their domains
 *
 * Most of three or more, so that one of them can be lost in a crash, and a recovery that
 * reads most of them meets the newest digest.  Two cannot be told apart: one may have gone on
 * alone, and a recovery needs both.
 */
uint32_t digest_floor(const struct digest_map *map)
{
	uint32_t domains[LSMEM_BACKUPS], nr = digest_domains(map, domains);

	return nr > 2 ? nr / 2 + 1 : 1;
}

/**
 * digest_counts - does the record after a digest count when some backups have it
 * @map: the digest
 * @have: backups on which the record is durable
 *
 * With a floor of one, all members of a domain must have it; else one member each in as many
 * domains as the floor says.  More backups never count less than fewer.
 */
bool digest_counts(const struct digest_map *map, uint32_t have)
{
	uint32_t domains[LSMEM_BACKUPS], nr = digest_domains(map, domains), count = 0, i;

	for (i = 0; i < nr; i++)
		count += map->floor > 1 ? (domains[i] & have) != 0 : !(domains[i] & ~have);
	return count >= map->floor;
}

/**
 * digest_enough - is a digest the newest, when it is the newest that some backups have
 * @map: the digest
 * @have: members that have been read
 *
 * Backups that were not read must not be enough for a record to count: else one may be
 * there.  And what the recovery writes must count, or two recoveries could go on from the
 * same digest apart from each other.
 */
bool digest_enough(const struct digest_map *map, uint32_t have)
{
	return digest_counts(map, have) && !digest_counts(map, map->mask & ~have);
}

/**
 * digest_need - the least number of members that may be enough to be read
 * @map: the newest digest that was found
 */
uint32_t digest_need(const struct digest_map *map)
{
	uint32_t least = LSMEM_BACKUPS, have;

	for (have = 1; have < 1u << LSMEM_BACKUPS; have++)
		if (!(have & ~map->mask) && (uint32_t)__builtin_popcount(have) < least &&
		    digest_enough(map, have))
			least = __builtin_popcount(have);
	return least;
}

/**
 * digest_split - may a backup hold what was acknowledged and is not in this log?
 * @map: the newest digest on a backup that is no member
 * @branch: of the log
 *
 * A recovery that has met enough members has seen all that counted.  One that was told to go
 * on without them has not: a backup that it did not see may have gone further, and its records
 * are not below the branch then; or it has been recovered without the others, too.  Two such
 * recoveries one after the other: a backup that was left behind between them cannot be told
 * from one that went apart, and counts as that.
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

static enum format_error digest_apply_item(struct digest_map *map,
					   const struct lsmem_digest_item *item)
{
	uint32_t backup = __le32_to_cpu(item->frame) >> LSMEM_ITEM_FRAME_BITS;
	uint32_t frame = __le32_to_cpu(item->frame) & ((1u << LSMEM_ITEM_FRAME_BITS) - 1);
	uint32_t state = __le32_to_cpu(item->state);
	uint32_t length = __le32_to_cpu(item->length);
	uint64_t segment = __le64_to_cpu(item->segment);
	uint32_t generation = __le32_to_cpu(item->generation);
	struct digest_item *to;

	if (state == LSMEM_ITEM_BRANCH)
		return digest_apply_branch(map, item);
	if (frame >= map->frames || backup >= map->backups || !(map->mask & 1u << backup) ||
	    !segment || state < LSMEM_ITEM_OPEN ||
	    state > LSMEM_ITEM_REMOVED || !lsmem_segment_fits(length, 0) || length % LSMEM_ALIGN)
		return FORMAT_RANGE;
	to = &map->items[backup * map->frames + frame];
	/* Invariant 10: a frame changes hands only through a digest without it, or
	 * a crash between would find a listed segment overwritten by the next.
	 */
	if (to->state ? to->segment != segment || to->generation != generation
		      : state == LSMEM_ITEM_REMOVED)
		return FORMAT_RANGE;
	if (state == LSMEM_ITEM_REMOVED) {
		memset(to, 0, sizeof(*to));
		map->nr--;
		return FORMAT_OK;
	}
	/* Invariant 3: what is known durable never becomes less. */
	if (to->state && length < to->length)
		return FORMAT_RANGE;
	if (!to->state)
		map->nr++;
	*to = (struct digest_item) {
		.segment = segment,
		.generation = generation,
		.replica_generation = __le32_to_cpu(item->replica_generation),
		.state = state,
		.length = length,
	};
	return FORMAT_OK;
}

/* Who the members are; those that are no more hold nothing that counts. */
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
 * digest_apply - what a record changes
 * @map: the log before it; on an error it is no use any more
 * @digest: checked by format_digest_check()
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
	error = digest_apply_members(map, digest);
	if (error)
		return error;
	for (i = 0; i < nr; i++) {
		error = digest_apply_item(map, &items[i]);
		if (error)
			return error;
	}
	map->term = __le64_to_cpu(digest->term);
	map->sequence = __le64_to_cpu(digest->sequence);
	map->era = __le32_to_cpu(digest->era);
	map->generation_ceiling = __le32_to_cpu(digest->generation_ceiling);
	map->store_time = __le64_to_cpu(digest->store_time);
	map->next_segment = __le64_to_cpu(digest->next_segment);
	return FORMAT_OK;
}

/**
 * struct digest_chain - the records of a half that follow each other
 * @half: which
 * @end: byte after the last
 * @term: of the last; 0: there is none
 * @sequence: of the last
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
 * @map: initialised for the backup's frames
 * @super: of the backup
 * @halves: both halves of the digest log, one after the other
 *
 * When @map->sequence_seen is above @map->sequence afterwards, records that
 * were durable are lost: each is written only after the one before is durable.
 * Return: FORMAT_ZERO when there is no chain, an error when one contradicts
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
 * digest_head - begin a record: all but its items and its CRC
 * @digest: to be filled in
 * @map: what the head is to say
 * @super: of the backup
 * @kind: LSMEM_DIGEST_FULL or _DELTA
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
	if (super->features.incompat & __cpu_to_le32(LSMEM_INCOMPAT_BACKUPS)) {
		for (b = 0; b < LSMEM_BACKUPS; b++)
			digest->members[b] = __cpu_to_le32(map->members[b]);
		digest->floor = __cpu_to_le32(map->floor);
		digest->set_generation = __cpu_to_le32(map->set_generation);
		memcpy(digest->domains, map->domain, sizeof(digest->domains));
	}
}

/**
 * digest_add - add an item to a record
 * @digest: begun, with room
 * @frame: digest_frame() of the replica
 * @item: the segment
 * @state: what to say of it, LSMEM_ITEM_*
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
 * digest_add_branch - say in a full record where the log branched off
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
 * digest_full_bytes - room that a full record of a map takes
 * @map: the log
 */
uint64_t digest_full_bytes(const struct digest_map *map)
{
	return format_digest_bytes(map->nr + (map->branch.term != 0));
}

/**
 * digest_full - make a whole full record of a map
 * @digest: digest_full_bytes() of it, zero
 * @map: the log
 * @super: of the backup
 */
void digest_full(struct lsmem_digest *digest, const struct digest_map *map,
		 const struct lsmem_super *super)
{
	uint32_t place;

	digest_head(digest, map, super, LSMEM_DIGEST_FULL);
	for (place = 0; place < digest_places(map); place++)
		if (map->items[place].state)
			digest_add(digest, digest_frame(map, place), &map->items[place],
				   map->items[place].state);
	digest_add_branch(digest, &map->branch);
	format_digest_seal(digest);
}
