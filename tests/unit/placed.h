/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel of a migration's target, as far as words are placed in it ahead (daemon/move/placing.h): it does what kmod/load.c says
 * of LSMEM_REPL_PLACE, and refuses all else. For a recovery on simulated drives it gives the simulation what was placed.
 */
#ifndef LSMEM_TEST_PLACED_H
#define LSMEM_TEST_PLACED_H

#include "move/placing.h"
#include "recover/recover.h"

#define PLACED_INDICES	2000u
#define PLACED_SEGMENTS	512u

/**
 * struct placed_word - an index
 * @listing: of its object, if @segment is not 0
 * @segment: in which it is; 0: it is free
 * @generation: of the last object that it had
 */
struct placed_word {
	struct lsmem_directory_entry listing;
	uint64_t segment;
	uint32_t generation;
};

/**
 * struct placed_segment - a segment
 * @id: 0: there is none
 * @generation: of its frame
 * @home: bytes of its log data
 * @placed: objects of it
 */
struct placed_segment {
	uint64_t id;
	uint32_t generation, home, placed;
};

/**
 * struct placed - the kernel
 * @words: by index
 * @segments: in no order
 * @nr: segments that it has
 * @room: .. at most
 * @calls: of LSMEM_REPL_PLACE
 * @fails: this one fails, with EIO
 * @wrong: what was not right
 */
struct placed {
	struct placed_word words[PLACED_INDICES];
	struct placed_segment segments[PLACED_SEGMENTS];
	uint32_t nr, room, calls, fails;
	const char *wrong;
};

extern const struct placing_user placed_user;	/* its context is a struct placed */

void placed_begin(struct placed *placed, uint32_t room);
const struct placed_segment *placed_find(const struct placed *placed, uint64_t id);
void placed_env(struct placed *placed, struct recover_env *env);

#endif
