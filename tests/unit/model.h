/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A model of the kernel module: heads, handle words, versions, spares, tombstones, the cleaner and
 * the replication stream, with real entry bytes in seglets.  It is small and single-threaded; the
 * daemon cannot tell it from the module.  The oracle decides which states may be found after a
 * crash.
 *
 *	model.c		memory, segments, appends, the stream and its acknowledgements
 *	model_object.c	objects
 *	model_clean.c	compaction, passes of cleaning
 *	oracle.c	the states that are right
 */
#ifndef UNIT_MODEL_H
#define UNIT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <lsmem.h>
#include <lsmem_format.h>

#include "../common/content.h"
#include "../common/random.h"
#include "base/rule.h"

#define MODEL_HEADS		3u	/* head 0 is the cleaner's */
#define MODEL_HANDLES		10u
#define MODEL_SEGMENTS		64u
#define MODEL_SEGLETS		160u
#define MODEL_SPARES		3u
#define MODEL_RETIRES		4u
#define MODEL_VICTIMS		6u
#define MODEL_SURVIVORS		600u	/* entries of the victims of a pass */
#define MODEL_PENDING		24u	/* appends under way, of all heads */
#define MODEL_GROUP		5u	/* most changes in a group */

enum model_life {
	MODEL_FREE,
	MODEL_OPENING,
	MODEL_SPARE,
	MODEL_HEAD,
	MODEL_CLOSED,
	MODEL_VICTIM,
};

/**
 * struct model_entry - an entry in the memory of a segment
 * @at: memory offset
 * @size: bytes in the log
 * @length: bytes of payload
 * @barrier: of a tombstone
 * @of: for a tombstone: the segment that held the object, 0: not known
 * @whole: the committed prefix may pass the entry
 * @inside: its group goes on after it
 */
struct model_entry {
	uint64_t key, version, barrier, of;
	uint32_t at, size, length, type;
	bool whole, inside;
};

struct model_segment {
	uint64_t id;
	uint32_t generation, salt;
	enum model_life life;
	bool survivor, final, loaded;
	bool open_emitted, open_acked, close_emitted, close_acked;
	uint32_t limit;			/* bytes, then the head rolls: keeps the model small */
	uint32_t reserved, committed, emitted, acked, home, listed;
	uint32_t nr_seglets, seglets[LSMEM_SEGLETS];
	struct model_entry *entries;
	uint32_t nr_entries, room_entries, nr_whole;
};

struct model_handle {
	uint32_t generation;
	bool live;
	uint64_t version;
	uint32_t segment, entry, length;
};

/**
 * struct model_retire - segments whose survivors are written
 * @emitted: events given to the present daemon; @given: events given to any daemon
 */
struct model_retire {
	uint32_t nr;
	bool emitted, given;
	uint64_t victims[MODEL_VICTIMS];
	uint32_t nr_after;
	uint64_t after[MODEL_SEGMENTS];
	uint32_t offset[MODEL_SEGMENTS];
};

/* An entry of a victim */
struct model_survivor {
	uint64_t version;
	uint32_t segment, entry;
};

/**
 * struct model_pass - a pass of cleaning that is under way
 * @retire: its victims
 * @order: their entries, oldest first; the pass has still to handle those from @next on
 */
struct model_pass {
	bool under_way;
	struct model_retire retire;
	struct model_survivor order[MODEL_SURVIVORS];
	uint32_t nr, next;
};

/**
 * struct model_pending - an append between its stamp and its commit
 * @group: number of its group; 0: none
 * @record: entry of the group's record
 * @end: home offset at which the append, or its group, ends
 */
struct model_pending {
	uint32_t segment, entry, index, length;
	uint32_t group, record, end;
	uint64_t expected;		/* version that the exchange wants */
	uint32_t generation;
	bool alloc, free;
};

/* ---- Oracle ---- */

/**
 * struct oracle_op - an operation that was applied
 * @segment, @end: the operation is durable when @end bytes of @segment are
 * @group: number of its group; 0: none
 * @received: acknowledged as durable or as received in the memory of the backups
 */
struct oracle_op {
	uint64_t key, version, segment;
	uint32_t length, end, group;
	bool free, acked, received;
};

/**
 * struct oracle - the states that recovery may find
 * @base: by index, what the last recovery found: key 0 (no object), or handle, version, length
 * @ops: operations since then, in the order of their exchanges
 * @alone: the primary has failed, but no backup: received operations must be found too
 */
struct oracle {
	struct {
		uint64_t key, version;
		uint32_t length;
	} base[MODEL_HANDLES], found[MODEL_HANDLES];
	struct oracle_op *ops;
	uint32_t nr_ops, room_ops;
	uint32_t era, generation;
	uint64_t time, segment;
	uint64_t acked, checked, received, groups;
	bool alone;
};

struct model {
	uint64_t *random;
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint8_t *memory;
	struct lsmem_seglet table[MODEL_SEGLETS];
	uint32_t free[MODEL_SEGLETS], nr_free;
	struct model_segment segments[MODEL_SEGMENTS];
	uint32_t most_segments;		/* that the backup can hold */
	uint32_t heads[MODEL_HEADS];	/* segment + 1 */
	struct model_handle handles[MODEL_HANDLES];
	struct model_pending pending[MODEL_PENDING];
	uint32_t nr_pending;
	struct model_retire retires[MODEL_RETIRES];
	uint32_t nr_retires;
	struct model_pass pass;
	uint32_t era, generation_floor, generation_ceiling, generation_wanted;
	uint64_t clock, next_segment;
	uint32_t resuming;		/* 0 or the least id of the next RESUME event */
	bool pieces;			/* ranges are always given in pieces */
	uint32_t size;			/* of objects and segments: 0 small .. 2 large */
	struct oracle oracle;
	char error[256];
	/* counters */
	uint32_t groups;
	uint64_t applied, refused, cleaned, moved, tombstones_dropped, recovered;
	uint64_t compacted, passes;
};

struct model *model_new(uint64_t *random, const uint8_t *uuid, uint32_t most_segments);
void model_free(struct model *m);
void model_fail(struct model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* model.c */
/* @value: as for lsmem_entry_make(); of an object: bytes of @payload */
bool model_append(struct model *m, uint32_t head, uint32_t type, uint64_t key, uint64_t version,
		  uint32_t table, const void *payload, uint64_t value, bool whole,
		  uint32_t *segment, uint32_t *entry);
/*
 * Append the record of a group, and make sure that @nr appends to this head fit after it. @lengths:
 * of their payloads, 0: a tombstone; @end: out, home offset at which the last of them ends.
 */
bool model_append_record(struct model *m, uint32_t head, const uint32_t *lengths, uint32_t nr,
			 uint32_t *segment, uint32_t *record, uint32_t *end);
void model_whole(struct model *m, uint32_t segment, uint32_t entry);
void model_pad(struct model *m, uint32_t segment, uint32_t entry);
void model_write(struct model *m, struct model_segment *seg, uint32_t at, const void *data,
		 uint32_t length);
void model_copy(const struct model *m, const struct model_segment *seg, uint32_t at, void *data,
		uint32_t length);
bool model_roll(struct model *m, uint32_t head);
void model_shrink(struct model *m, struct model_segment *seg, uint32_t bytes);
void model_spares(struct model *m);
uint32_t model_next(struct model *m, struct lsmem_event *events, uint32_t room);
void model_ack(struct model *m, const struct lsmem_ack_one *ack);
void model_attach(struct model *m);
void model_reset(struct model *m);
void model_load(struct model *m, uint64_t segment, uint32_t generation, uint32_t sealed,
		const uint8_t *data, uint32_t length);
void model_activate(struct model *m, uint32_t era, uint32_t floor, uint32_t ceiling,
		    uint64_t time, uint64_t next_segment);

/* model_object.c */
void model_operate(struct model *m);
void model_finish(struct model *m, uint32_t n);
bool model_put(struct model *m, uint32_t index, uint32_t head, uint32_t length);
bool model_delete(struct model *m, uint32_t index, uint32_t head);
/*
 * Begin a group that changes @nr objects from @index on. @lengths: of each; 0: delete it, if there
 * is one.  It ends when model_finish() is called for one of its appends, which are the last pending.
 */
bool model_group_begin(struct model *m, uint32_t index, uint32_t head, const uint32_t *lengths,
		       uint32_t nr);
/* Begin and end a group. */
bool model_group(struct model *m, uint32_t index, uint32_t head, const uint32_t *lengths,
		 uint32_t nr);
/* Two writers replace one object at the same time; writer @first exchanges first. */
void model_race(struct model *m, uint32_t index, uint32_t first);

/* model_clean.c */
void model_compact(struct model *m, uint32_t slot);
bool model_pass_begin(struct model *m, const uint64_t *ids, uint32_t nr);
void model_pass_step(struct model *m, uint32_t nr);
void model_clean(struct model *m, uint32_t victims);
void model_window(const struct model *m, struct lsmem_cleaning *want,
		  struct lsmem_segment_stat table[MODEL_SEGMENTS]);

/* oracle.c */
void oracle_applied(struct model *m, uint64_t key, uint64_t version, uint32_t length,
		    const struct model_pending *pending, uint64_t segment);
void oracle_acked(struct model *m, uint64_t segment, uint32_t to);
void oracle_received(struct model *m, uint64_t segment, uint32_t to);
void oracle_begin(struct model *m);
void oracle_found(struct model *m, uint64_t key, uint64_t version, uint32_t length);
void oracle_check(struct model *m);
void oracle_look(struct model *m);
/* Are all operations acknowledged as durable? */
bool oracle_all_acked(const struct model *m);

#endif
