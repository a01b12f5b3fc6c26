/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commits on a B+tree, and a check of the tree against them: for tree.c.
 *
 * What a commit changes follows from its number and random bits.  With bits 0 it fills in the next even
 * keys, in order; leaves are two thirds full then, as after insertions at random.  With COMMIT_HOT it changes
 * only a thousand keys and their neighbours, whose pages stay in memory: such a commit is mostly msync().
 */
#ifndef TESTS_POWER_COMMITS_H
#define TESTS_POWER_COMMITS_H

#include "btree.h"
#include "oracle.h"

#define COMMIT_HOT	2u	/* of the bits; bit 0 is 1 unless all are 0 */

/**
 * struct commits - the tree as it must be
 * @filled: keys that are filled in by now
 * @present: keys that are in the tree
 * @keys: how many are filled in
 * @most: pages of a commit
 * @commit: of each key, when its value was written; 0: there is no such key
 */
struct commits {
	uint64_t filled;
	uint64_t present;
	uint32_t keys;
	uint32_t most;
	uint32_t commit[];
};

/* Set up an oracle of kind 't' with one slot, the tree.  zipf_setup(@keys) is to be called, too. */
int commits_init(struct oracle *o, uint32_t keys, uint32_t most);
/* A key number by Zipf's law; the frequent ones are far from each other. */
uint32_t commit_key(uint64_t *random, uint32_t keys);
/*
 * Carry out a commit on the tree, which @o has not settled.  @changes: in: most changes of keys, out: how
 * many there were.  Returns -1 if the tree has no pages left.
 */
int commit_store(struct btree *tree, const struct oracle *o, uint64_t number, uint32_t bits,
		 uint32_t *changes);
/*
 * Which commit does the tree show?  @found: that commit; @checked is called for each value that is compared.
 * Returns how many keys are not as after this commit, and 1 more if the pages are no tree.
 */
uint64_t commits_look(const struct btree *tree, const struct oracle *o, struct state *found,
		      void (*checked)(void *context), void *context);

#endif
