/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The source of a migration: makes the blocks that a target reads, from what the kernel says of its words. No I/O, no
 * clock, no allocations: the callbacks do that. Documentation/migration.rst, The source's blocks.
 *
 * The caller asks for a block when a READ waits for one (@block of struct move_source_user). Blocks are in the order of the
 * kernel's calls, which say of two listings of one version which is the later one.
 *
 *	tell_begin()				the target has connected
 *	tell_block()				.. the next block
 *	tell_gone()				the stream tells RETIRE
 *	tell_directory()			what @directory has read
 *	tell_tick()				once a second, then ask for a block again
 *	tell_come()				the target, which stands by, is wanted
 *	tell_last(), tell_is_all()		the store is frozen: the rest
 */
#ifndef LSMEMD_TELL_H
#define LSMEMD_TELL_H

#include <stdbool.h>
#include <stdint.h>

#include "lsmem.h"
#include "remote/ahead.h"

#define TELL_GONE	((AHEAD_BYTES - sizeof(struct ahead_head)) / sizeof(__le64))	/* ids of a block */
#define TELL_AGAIN	10u	/* ticks from a MARK to the next one */
#define TELL_CALLS	256u	/* after the MARK: calls for words between two ticks, at most */

struct tell;

/**
 * struct tell_user - what the source's blocks need of their caller; no callback calls back
 * @words: do LSMEM_REPL_WORDS; @size is filled in already. Return: 0 or a negative errno
 * @directory: read the listings of a segment from a backup, then call tell_directory()
 */
struct tell_user {
	int (*words)(struct tell *tell, struct lsmem_words *words);
	void (*directory)(struct tell *tell, uint64_t segment);
};

/**
 * struct tell - what a target was told, and what is next
 * @user: callbacks
 * @rest: segments that may be left at the MARK
 * @left: segments that were left to tell at the last call for words
 * @calls: for words, until the next tick; those that are made while the target is @behind do not count
 * @error: of a call: no block follows
 * @begun: the kernel was asked, with LSMEM_WORDS_BEGIN
 * @behind: more than @rest segments are left
 * @marks: the MARK is due
 * @marked: .. and was told
 * @cached: places in cache segments are told
 * @again: the MARK is told again, and COME at all
 * @ticks: since the last MARK; at TELL_AGAIN the next one is due
 * @comes: COME is due
 * @last: the store is frozen, and its stream has told everything
 * @all: .. and no segment is left
 * @segment: whose listings are read from a backup, or told; 0: none
 * @listings: of @segment; NULL: they are being read
 * @nr_listings: number of @listings
 * @listing: of @listings, the next one to be told
 * @gone: ids of segments that are to be told as GONE
 * @nr_gone: number of @gone
 */
struct tell {
	const struct tell_user *user;
	uint32_t rest, left, calls;
	int error;
	bool begun, behind, marks, marked, cached, again, comes, last, all;
	uint32_t ticks;
	uint64_t segment;
	const struct lsmem_listing *listings;
	uint32_t nr_listings, listing;
	uint64_t gone[TELL_GONE];
	uint32_t nr_gone;
};

void tell_begin(struct tell *tell, const struct tell_user *user, uint32_t rest, unsigned int version);
int tell_block(struct tell *tell, struct ahead_head *block);
void tell_gone(struct tell *tell, uint64_t segment);
void tell_directory(struct tell *tell, const struct lsmem_listing *listings, uint32_t nr, int error);
void tell_tick(struct tell *tell);
bool tell_come(struct tell *tell);
void tell_last(struct tell *tell);
bool tell_is_all(const struct tell *tell);

#endif
