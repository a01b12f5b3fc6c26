/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The target of a migration: what it knows of a store from the blocks that have come, until a recovery takes it. No I/O.
 * Documentation/migration.rst, What the target makes of them.
 *
 *	known_new(), known_block() for each block, known_told() for recover_run(), known_free()
 *
 * One listing is kept for each index. Memory: sizeof(struct known_listing) for each index in use, and
 * sizeof(struct known_segment) and some bytes for each segment that a listing is of: at most twice as many as the log can
 * have, and KNOWN_GONE.
 */
#ifndef LSMEMD_KNOWN_H
#define LSMEMD_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "recover/recover.h"
#include "remote/ahead.h"

#define KNOWN_GONE	4096u	/* segments that are gone and have listings, before these are dropped */

/**
 * struct known_listing - of all that was told of an index, the listing that counts, if its segment is not gone
 * @version: of the entry
 * @meta: of its listing
 * @place: as in struct ahead_listing
 * @generation: of its handle
 * @segment: number of its segment; 0: nothing was told
 * @placed: this host's kernel has it (placing.h)
 */
struct known_listing {
	uint64_t version, meta, place;
	uint32_t generation;
	uint32_t segment : 31, placed : 1;
};

/**
 * struct known_segment - a segment that was told
 * @id: its id; 0: the entry is free
 * @generation: of its frame
 * @end: bytes of log data, as told last
 * @listings: how many of the listings that are kept are of it
 * @objects: .. and are of objects, not of tombstones
 * @bytes: of the entries of these
 * @placed: .. and this host's kernel has them
 * @home: bytes of log data that it has for this host's kernel
 * @next: number of the next one with this hash, or of the next free one; 0: there is none
 * @number: in the recovery that takes it
 * @gone: it is retired
 * @made: this host's kernel has it
 */
struct known_segment {
	uint64_t id, bytes;
	uint32_t generation, end, listings, objects, placed, home, next, number;
	bool gone, made;
};

/**
 * struct known_newest - the highest of all that was told
 * @time: of a version, without its era
 * @era: of a version
 * @generation: of a handle
 */
struct known_newest {
	uint64_t time;
	uint32_t era, generation;
};

/**
 * struct known_watch - is told what changes, as it changes: placing.h. No callback calls back
 * @counts: another listing counts for an index, and is not placed
 * @back: a listing that is placed counts no more; @seg: its segment
 * @gone: a segment that the kernel has is gone, and nothing of it is placed
 */
struct known_watch {
	void (*counts)(struct known_watch *watch, uint64_t index, bool object);
	void (*back)(struct known_watch *watch, uint64_t index, const struct known_listing *listing,
		     const struct known_segment *seg);
	void (*gone)(struct known_watch *watch, const struct known_segment *seg);
};

/**
 * struct known_where - where an object is in the source's memory
 * @seglet: in which its entry begins
 * @offset: byte in that
 * @cache: number of the cache segment that has it; 0: it is in its own segment
 */
struct known_where {
	uint32_t seglet, offset, cache;
};

struct known;

struct known *known_new(uint64_t indices, uint32_t most);
void known_free(struct known *known);
void known_watch(struct known *known, struct known_watch *watch);
int known_block(struct known *known, const struct ahead_head *block);
uint32_t known_segments(const struct known *known);
uint64_t known_objects(const struct known *known);
uint64_t known_bytes(const struct known *known);
void known_newest(const struct known *known, struct known_newest *newest);
uint32_t known_room(const struct known *known);
const struct known_segment *known_next_segment(const struct known *known, uint32_t *nr);
const struct known_segment *known_segment_of(const struct known *known, const struct known_listing *listing);
void known_set_placed(struct known *known, uint64_t index);
void known_set_home(struct known *known, uint64_t id, uint32_t home, bool made);
void known_take_back(struct known *known);
bool known_listing(const struct known *known, uint64_t index, struct known_listing *listing, uint64_t *segment);
bool known_where(const struct known_listing *listing, uint32_t seglets, struct known_where *where);
void known_resalt(const struct known *known, const struct known_listing *listing, struct lsmem_entry *e);
bool known_is(const struct known_listing *listing, uint64_t index, const struct lsmem_entry *e);
void known_told(struct known *known, uint64_t term, uint64_t sequence, uint64_t objects, struct recover_told *told);

#endif
