/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A store whose words are told, as kmod/words.c does it, without bytes: objects are written, replaced and deleted,
 * segments closed, cleaned, compacted and evicted, in a random order. Each segment has one seglet at a time.
 */
#ifndef UNIT_WORDS_H
#define UNIT_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "lsmem.h"
#include "lsmem_format.h"

#define WORDS_INDICES	300u
#define WORDS_SEGMENTS	24u	/* in the log at a time, at most */
#define WORDS_HEADS	3u	/* the last one is for survivors */
#define WORDS_ENTRIES	600u	/* of a segment, at most */
#define WORDS_SEGLETS	(2 * WORDS_SEGMENTS)
#define WORDS_EVENTS	64u

enum words_state { WORDS_FREE, WORDS_HEAD, WORDS_CLOSED, WORDS_VICTIM, WORDS_RETIRED };

/* @barrier 0: an object. @memory: offset in the seglet. @moved: a tombstone that is in a survivor as well */
struct words_entry {
	uint64_t key, version, barrier;
	uint32_t length, home, memory;
	bool cold, moved;
};

/* @told: entries that were told; @flip: which of its two seglets; @damage: the first entry that cannot be read */
struct words_segment {
	enum words_state state;
	uint64_t id;
	uint32_t generation, end, nr, told, home, flip, damage;
	bool changed, again;
	struct words_entry entries[WORDS_ENTRIES];
};

/* @segment: place in the table of the newest entry, if @live */
struct words_object {
	uint64_t version;
	uint32_t generation, segment, entry;
	bool live;
};

/**
 * struct words - the store
 * @random: state
 * @passing: a pass of the cleaner is under way
 * @retired: ids that the stream has to tell
 * @taken: .. of these, told and not acknowledged
 * @room: most listings of a call
 * @places: listings that LSMEM_WORDS_PLACES was asked for
 * @caches: the module knows LSMEM_WORDS_CACHED: to it, all that is cold lies in cache segments
 * @cached: .. and was asked so
 */
struct words {
	uint64_t random, next_id, time;
	uint32_t cursor, room;
	bool passing, caches, cached;
	uint64_t retired[WORDS_EVENTS];
	uint32_t nr_retired, taken, heads[WORDS_HEADS];
	uint64_t places;
	struct words_segment segments[WORDS_SEGMENTS];
	struct words_object objects[WORDS_INDICES];
};

void words_begin(struct words *words, uint64_t random);
void words_step(struct words *words);
void words_freeze(struct words *words);
int words_call(struct words *words, struct lsmem_words *call);
struct words_segment *words_find(struct words *words, uint64_t id);
struct lsmem_directory_entry words_listing(const struct words_entry *entry, uint32_t home);
uint64_t words_place(const struct words *words, uint32_t segment, const struct words_entry *entry);
uint64_t words_oldest(const struct words *words);
bool words_event(struct words *words, uint64_t *retired);
void words_ack(struct words *words);

#endif
