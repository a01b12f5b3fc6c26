/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel module as the daemon uses it: the control device, and one attached store with its
 * windows and its stream of events.
 *
 * Values in shared pages can change at any time. Each one is loaded once, checked against its
 * bounds, and used as loaded.
 */
#ifndef LSMEMD_KERNEL_H
#define LSMEMD_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lsmem.h"

#include "base/loop.h"

#define KERNEL_EVENTS	256u	/* most taken at a time; LSMEM_REPL_NEXT wants room for 128 */

#define KERNEL_FETCHES	256u	/* most requests, or answers, of a call */

#define UUID_TEXT_BYTES	37u	/* with the final zero */

/**
 * struct kernel - the store that this daemon is attached to
 * @fd: the replication descriptor; -1: not attached
 * @name: the store's node
 * @kind: enum lsmem_store_kind
 * @state: enum lsmem_store_state when the store was attached
 * @bytes: memory of the log
 * @handles_max: most objects
 * @capacity: of a tiered store, bytes; 0: the store is not tiered
 * @frozen: it was frozen when it was attached (kernel_freeze()), and is until kernel_thaw()
 * @term: as kernel_freeze() or kernel_thaw() has set it last; 0: never
 * @instant: a recovery may leave objects on the backups, and the daemon fetches them: the store is tiered,
 *	or was made for instant restarts
 * @nr_seglets: entries of @seglets and of @table
 * @info_bytes: length of the window @info
 * @seglets_bytes: length of the window @seglets
 * @table_bytes: length of the window @table
 * @segments_bytes: length of the window @segments
 * @info: window: sizes and places of the others, and the store's clock
 * @seglets: window: the memory of the log
 * @table: window: the segment of each seglet
 * @cleaning: window: does the kernel want a pass? NULL: the module cleans by itself, and @segments
 *	is NULL as well
 * @segments: live bytes and age of each segment, in the window of @cleaning
 * @nr_segments: entries of @segments
 */
struct kernel {
	int fd;
	char name[LSMEM_NAME_BYTES];
	uint32_t kind;
	uint32_t state;
	uint64_t bytes;
	uint64_t handles_max;
	uint64_t capacity;
	bool frozen;
	uint64_t term;
	bool instant;
	uint32_t nr_seglets;
	uint64_t info_bytes, seglets_bytes, table_bytes, segments_bytes;
	const struct lsmem_info *info;
	const uint8_t *seglets;
	const struct lsmem_seglet *table;
	const struct lsmem_cleaning *cleaning;
	const struct lsmem_segment_stat *segments;
	uint32_t nr_segments;
};

/**
 * struct kernel_clock - what LSMEM_REPL_NEXT returns beside events
 * @store_time: the store's clock, for the next digest
 * @next_segment: the kernel has opened no segment with this id or a higher one
 * @generation_wanted: the kernel wants a durable generation ceiling at least this high
 */
struct kernel_clock {
	uint64_t store_time;
	uint64_t next_segment;
	uint32_t generation_wanted;
};

int kernel_control_open(void);
int kernel_create(int control, struct lsmem_create *create);
int kernel_destroy(int control, const char *name, bool force);
int kernel_find(const uint8_t uuid[16], char name[LSMEM_NAME_BYTES]);
int kernel_find_orphan(uint32_t kind, char name[LSMEM_NAME_BYTES]);
int kernel_find_new(const uint8_t uuid[16], char name[LSMEM_NAME_BYTES]);
const char *kernel_kind(uint32_t kind);
const char *uuid_text(const uint8_t uuid[16], char text[UUID_TEXT_BYTES]);
void kernel_attribute(const char *store, const char *name, char *value, int room);
bool kernel_number(const char *store, const char *name, uint64_t *number);
int kernel_give_name(const struct kernel *kernel, const char *name);
int kernel_attach(struct kernel *kernel, int control, const char *name,
		  const uint8_t uuid[16]);
int kernel_freeze(struct kernel *kernel, uint64_t term, uint64_t *objects);
int kernel_thaw(struct kernel *kernel, uint64_t term);
int kernel_words(struct kernel *kernel, struct lsmem_words *words);
int kernel_map(struct kernel *kernel);
void kernel_detach(struct kernel *kernel);
int kernel_next(struct kernel *kernel, struct lsmem_event *events, uint32_t room,
		struct kernel_clock *clock);
int kernel_ack(struct kernel *kernel, const struct lsmem_ack_one *acks, uint32_t nr,
	       uint32_t generation_ceiling);
void kernel_load(struct kernel *kernel, struct loop *loop, struct loop_op *op,
		 struct lsmem_load *load);
int kernel_place(struct kernel *kernel, struct lsmem_placement *place);
int kernel_activate(struct kernel *kernel, const struct lsmem_activate *activate);
void kernel_cleaning(const struct kernel *kernel, struct lsmem_cleaning *now);
void kernel_clean_last(struct kernel *kernel);
void kernel_limit(struct kernel *kernel, uint32_t segments);
int kernel_clean(struct kernel *kernel, const uint64_t *segments, uint32_t *nr, bool anyway);
int kernel_fetch(struct kernel *kernel, struct lsmem_fetch_one *requests, uint32_t room);
int kernel_fill(struct kernel *kernel, struct lsmem_fill_one *fills, uint32_t nr);
int kernel_bring(struct kernel *kernel, struct lsmem_bring_one *ones, uint32_t nr);
int kernel_near(struct kernel *kernel, int fd);
int kernel_near_place(struct kernel *kernel, uint64_t segment, uint64_t offset);

#endif
