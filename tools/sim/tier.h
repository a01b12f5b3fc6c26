/* SPDX-License-Identifier: GPL-2.0 */
/* Memory in segments, and the hand that evicts from it: see tier.c; and bounds without segments. */
#ifndef SIM_TIER_H
#define SIM_TIER_H

#include "trace.h"

/**
 * enum touch - what a write does with the touched bit of the object
 * @TOUCH_LEAVE: nothing
 * @TOUCH_SET: sets it, as a read
 * @TOUCH_CLEAR: clears it
 */
enum touch { TOUCH_LEAVE, TOUCH_SET, TOUCH_CLEAR };

/**
 * struct tier_settings - memory and policy
 * @policy: one of tier_policies()
 * @memory: objects that fit into memory
 * @objects: objects in a segment
 * @seglets: seglets of a segment; divides @objects
 * @room: the hand goes on until so many seglets are free
 * @plan: segments that are chosen at once
 * @evict_cost: compaction is preferred while it costs at most this, as LSMEM_EVICT_COST
 * @merge: per mille; when less of a segment is kept, its objects move to a segment of kept ones
 * @remember: an object that is fetched comes touched if it was evicted not longer ago than so many
 *	times the memory was filled; 0: never
 * @fetch_touched: all objects that are fetched come touched
 * @write: what a write does with the bit
 */
struct tier_settings {
	const char *policy;
	uint32_t memory;
	uint32_t objects;
	uint32_t seglets;
	uint32_t room;
	uint32_t plan;
	uint32_t evict_cost;
	uint32_t merge;
	double remember;
	bool fetch_touched;
	enum touch write;
};

/**
 * struct tier_result - what a simulation has found
 * @counts: hits and misses
 * @evicted: objects dropped by the hand
 * @copied: objects copied because the hand has kept them
 * @compacted: objects copied by compaction without eviction
 * @swept: segments that the hand has swept
 * @resident: share of the memory that objects fill, mean
 * @segments: segments in memory, mean
 */
struct tier_result {
	struct counts counts;
	uint64_t evicted;
	uint64_t copied;
	uint64_t compacted;
	uint64_t swept;
	double resident;
	double segments;
};

int tier_run(const struct tier_settings *set, const struct trace *trace,
	     struct tier_result *result);
const char *tier_policies(void);
int bounds_lru(const struct trace *trace, uint32_t memory, struct counts *counts);
int bounds_min(const struct trace *trace, uint32_t memory, struct counts *counts);

#endif
