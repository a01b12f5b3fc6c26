/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The index of stripes: which frames a stripe consists of, and which of its lanes have a segment. See
 * Documentation/stripes.rst, What the digest names.
 *
 * A stripe has one frame for each shard that is there; all its segments have their shards on the same backups. A caller
 * chooses the frames of a new stripe; the index deals the shards to them, so that all backups get their share of parity.
 */
#ifndef LSMEMD_LANE_H
#define LSMEMD_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include <lsmem_format.h>

#include "code.h"

#define LANE_NONE	0xffffffffu

/**
 * struct lane_frame - where one shard of all segments of a stripe is
 * @backup: index of the backup
 * @frame: on it
 */
struct lane_frame {
	uint32_t backup;
	uint32_t frame;
};

/**
 * struct lane - the place of a segment in a stripe
 * @stripe: its number
 * @lane: part of each of its frames, below k
 */
struct lane {
	uint32_t stripe;
	uint32_t lane;
};

struct lanes;

struct lanes *lanes_new(uint32_t k, uint32_t m, uint32_t stripes);
void lanes_free(struct lanes *lanes);
uint32_t lanes_add(struct lanes *lanes, const struct lane_frame *frames, uint32_t nr);
bool lanes_put_back(struct lanes *lanes, uint32_t stripe, uint32_t shard, const struct lane_frame *frame);
bool lanes_take(struct lanes *lanes, uint32_t least, struct lane *lane);
bool lanes_claim(struct lanes *lanes, const struct lane *lane);
bool lanes_give(struct lanes *lanes, const struct lane *lane);
void lanes_remove(struct lanes *lanes, uint32_t stripe);
void lanes_lose(struct lanes *lanes, uint32_t backup);
bool lanes_missing(const struct lanes *lanes, uint32_t *stripe, uint32_t *shard);
uint32_t lanes_there(const struct lanes *lanes, uint32_t stripe);
uint32_t lanes_used(const struct lanes *lanes, uint32_t stripe);
uint32_t lanes_left(const struct lanes *lanes, uint32_t least);
struct lane_frame lanes_where(const struct lanes *lanes, uint32_t stripe, uint32_t shard);

/* The field stripe of struct lsmem_digest_item of a coded segment. */
static inline uint32_t lane_item(const struct lane *lane)
{
	return lane->stripe << LSMEM_ITEM_LANE_BITS | lane->lane;
}

static inline struct lane lane_of_item(uint32_t stripe)
{
	return (struct lane) {
		.stripe = stripe >> LSMEM_ITEM_LANE_BITS, .lane = stripe & ((1u << LSMEM_ITEM_LANE_BITS) - 1)
	};
}

#endif
