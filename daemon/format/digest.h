/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The meaning of the digest log: which segments the log of the store consists of. A map holds what
 * the newest durable digest says; records are applied to it. digest.c reads the digest log.
 * core/digest.c writes it in normal operation, and recover/digest.c when backups are formatted or
 * recovered. There is one writer at a time.
 */
#ifndef LSMEMD_DIGEST_H
#define LSMEMD_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "format.h"

/**
 * struct digest_item - a listed replica, as struct lsmem_digest_item
 * @segment: id of its segment
 * @generation: of the segment
 * @replica_generation: of the header in the frame
 * @state: LSMEM_ITEM_OPEN, _CLOSED, _SEALED; 0: the frame is free
 * @length: bytes of log data that are durable; exact if closed or sealed
 */
struct digest_item {
	uint64_t segment;
	uint32_t generation;
	uint32_t replica_generation;
	uint32_t state;
	uint32_t length;
};

/**
 * struct digest_stripe - a stripe
 * @there: mask of the shards that are listed
 * @used: mask of the lanes that have a segment
 * @place: by shard: place of its frame, as in struct digest_map
 */
struct digest_stripe {
	uint16_t there, used;
	uint32_t place[LSMEM_SHARDS];
};

/**
 * struct digest_stripes - the stripes of a coded store, and the segments in their lanes
 * @k: data shards; 0: nothing is listed
 * @m: parity shards
 * @nr_shards: listed frames of stripes
 * @nr_segments: listed coded segments
 * @nr_lost: stripes with a segment and fewer than @k shards; 0 between two records
 * @stripe: by number, below digest_stripes_nr()
 * @of: by place: number of the stripe with this frame, plus 1; 0: none
 * @lanes: coded segments, by lane + number of the stripe * @k
 */
struct digest_stripes {
	uint32_t k, m;
	uint32_t nr_shards, nr_segments, nr_lost;
	struct digest_stripe *stripe;
	uint32_t *of;
	struct digest_item *lanes;
};

/**
 * struct digest_branch - the last recovery that went on without members that it could not read
 * @term: the term that it began; 0: there was no such recovery
 * @sequence: of its first record
 * @id: random, not 0
 */
struct digest_branch {
	uint64_t term;
	uint64_t sequence;
	uint32_t id;
};

/**
 * struct digest_log - what recover_ready() must know of the log that a backup is to join
 * @term: of the newest digest
 * @branch: of the newest digest
 * @members: low halves of incarnations that the backup must not get, by index; 0: none
 */
struct digest_log {
	uint64_t term;
	struct digest_branch branch;
	uint32_t members[LSMEM_BACKUPS];
};

/**
 * struct digest_map - the log according to the newest durable digest
 * @term: of the newest record, as in struct lsmem_digest
 * @sequence: of the newest record
 * @era: of versions, as in struct lsmem_digest
 * @generation_ceiling: the kernel has issued no generation of a handle above it
 * @store_time: the store's clock, as in struct lsmem_digest
 * @next_segment: no segment id at or above it has been opened
 * @members: low halves of incarnations, by index of the backup; 0: none. With one backup alone all
 *	are 0
 * @domain: failure domains of the members, as in struct lsmem_digest
 * @mask: indexes of the members; bit 0 with one backup alone
 * @floor: as in struct lsmem_digest
 * @set_generation: as in struct lsmem_digest
 * @exact: as in struct lsmem_digest
 * @half: half of the digest log to which the next delta goes
 * @odd: mask of the backups on which the next delta goes to the other half
 * @at: byte in the half at which the next delta begins
 * @sequence_seen: highest sequence of all records found, in the chain or not
 * @branch: as the last full record says
 * @backups: bound of the indexes of backups
 * @frames: bound of the numbers of frames
 * @nr: elements of @items in use
 * @items: replicas, by *place*: frame + index of the backup * @frames
 * @stripes: NULL: the store is not coded, and a record with a stripe contradicts itself
 */
struct digest_map {
	uint64_t term;
	uint64_t sequence;
	uint32_t era;
	uint32_t generation_ceiling;
	uint64_t store_time;
	uint64_t next_segment;
	uint32_t members[LSMEM_BACKUPS];
	uint8_t domain[LSMEM_BACKUPS];
	uint32_t mask;
	uint32_t floor;
	uint32_t set_generation;
	uint64_t exact;
	uint32_t half;
	uint32_t odd;
	uint64_t at;
	uint64_t sequence_seen;
	struct digest_branch branch;
	uint32_t backups;
	uint32_t frames;
	uint32_t nr;
	struct digest_item *items;
	struct digest_stripes *stripes;
};

/**
 * struct digest_past - what a backup held before it is formatted to join
 * @incarnation: of the backup at that time, as in struct lsmem_super
 * @index: index of the backup in @map
 * @map: the newest digest on the backup
 */
struct digest_past {
	__le64 incarnation;
	uint32_t index;
	struct digest_map map;
};

int digest_map_init(struct digest_map *map, uint32_t backups, uint32_t frames);
int digest_map_code(struct digest_map *map);
void digest_map_destroy(struct digest_map *map);
void digest_map_clear(struct digest_map *map);
void digest_items_clear(struct digest_map *map);
void digest_lane_set(struct digest_map *map, uint32_t lane, const struct digest_item *item);
void digest_stripes_trim(struct digest_map *map);

enum format_error digest_apply(struct digest_map *map, const struct lsmem_digest *digest);
enum format_error digest_read(struct digest_map *map, const struct lsmem_super *super,
			      const uint8_t *halves);
void digest_head(struct lsmem_digest *digest, const struct digest_map *map,
		 const struct lsmem_super *super, uint32_t kind);
uint32_t digest_floor(const struct digest_map *map);
bool digest_counts(const struct digest_map *map, uint32_t have);
bool digest_enough(const struct digest_map *map, uint32_t have);
uint32_t digest_need(const struct digest_map *map);
bool digest_split(const struct digest_map *map, const struct digest_branch *branch);
uint64_t digest_full_bytes(const struct digest_map *map);
void digest_add(struct lsmem_digest *digest, uint32_t frame, const struct digest_item *item,
		uint32_t state);
void digest_add_shard(struct lsmem_digest *digest, uint32_t frame, uint32_t stripe, uint32_t code,
		      uint32_t state);
void digest_add_lane(struct lsmem_digest *digest, uint32_t lane, const struct digest_item *item,
		     uint32_t state);
void digest_add_branch(struct lsmem_digest *digest, const struct digest_branch *branch);
void digest_full(struct lsmem_digest *digest, const struct digest_map *map,
		 const struct lsmem_super *super);

static inline uint32_t digest_places(const struct digest_map *map)
{
	return map->backups * map->frames;
}

/* Return: bound of the numbers of stripes of a coded store that has one: each has at least k frames. */
static inline uint32_t digest_stripes_nr(const struct digest_map *map)
{
	return map->stripes->k ? digest_places(map) / map->stripes->k : 0;
}

#endif
