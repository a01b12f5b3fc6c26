/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A B+tree in a mapping: 64-bit keys, values of 120 bytes.  It allocates nothing and calls nothing: who
 * uses it makes its pages durable, all that a change has marked at once.  One task changes it, and no
 * other looks at it meanwhile.
 *
 * Page 0 says where the root is.  A node is a page; what it does not use is zeroes.  Leaves have values, in
 * the order of keys; a node above has, for each child, the lowest key that may be below it.
 */
#ifndef TESTS_POWER_BTREE_H
#define TESTS_POWER_BTREE_H

#include <stdbool.h>
#include <stdint.h>

#define BTREE_PAGE	4096u
#define BTREE_VALUE	120u
#define BTREE_LEAF	((BTREE_PAGE - 16) / (8 + BTREE_VALUE))	/* keys of a leaf, at most */
#define BTREE_INNER	((BTREE_PAGE - 16) / 16)			/* children of a node, at most */
#define BTREE_LEVELS	8u

/**
 * struct btree - a tree that is mapped
 * @at: its pages
 * @pages: how many there are
 * @mark: called for each page before it is changed
 * @context: for @mark
 */
struct btree {
	void *at;
	uint32_t pages;
	void (*mark)(void *context, uint32_t page);
	void *context;
};

/**
 * struct btree_head - page 0
 * @commit: for the user of the tree
 * @root: page
 * @levels: of nodes; 1: the root is a leaf
 * @used: pages in use, this one included
 * @reserved: 0
 */
struct btree_head {
	uint64_t commit;
	uint32_t root;
	uint32_t levels;
	uint32_t used;
	uint32_t reserved;
};

/* Make an empty tree in pages of zeroes. */
void btree_init(struct btree *tree);
struct btree_head *btree_head(const struct btree *tree);
/* The place of a key's value, or NULL. */
const void *btree_find(const struct btree *tree, uint64_t key);
/*
 * The place for a key's value, which the caller writes.  @packed: a leaf that is full of smaller keys keeps
 * this many of them at most, for keys that come in order; 0: half.  NULL: no page is free.
 */
void *btree_put(struct btree *tree, uint64_t key, uint32_t packed);
/* Remove a key. Returns false if it is not there. */
bool btree_remove(struct btree *tree, uint64_t key);
/*
 * Call @each for all keys, in order.  Returns false if the pages are no tree: a page that is not in use, or
 * in use twice, or keys out of order, or in a wrong node.
 */
bool btree_walk(const struct btree *tree, void (*each)(void *context, uint64_t key, const void *value),
		void *context);

#endif
