/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tree of a range of pages: from the number of a page to the handle of its object.  See tree.c.
 * lsmem_tree_set() decides which nodes are to be written, lsmem_tree_changes() makes them part of a
 * group.  Caller: range.c.
 */
#ifndef LSMEM_TREE_H
#define LSMEM_TREE_H

#include <linux/list.h>
#include <linux/types.h>

#include "../uapi/lsmem_format.h"
#include "group.h"

struct lsmem_node;
struct lsmem_store;

#define LSMEM_TREE_LEVELS	4u	/* most: LSMEM_PAGES_LENGTH_MAX */

/**
 * struct lsmem_tree - a tree; the caller has a lock for it
 * @store: that has the objects
 * @table: table id of the nodes' objects
 * @levels: 0: there is no node
 * @top: handle of the top node, 0: none, or not yet
 * @node: the top node, NULL: not loaded
 * @dirty: nodes that are to be written, by level; leaves are level 0
 * @nr_dirty: how many
 * @nr_taken: of them, how many lsmem_tree_changes() has taken
 * @root_dirty: @levels or @top have changed since lsmem_tree_done()
 */
struct lsmem_tree {
	struct lsmem_store *store;
	u32 table;
	u32 levels;
	u64 top;
	struct lsmem_node *node;
	struct list_head dirty[LSMEM_TREE_LEVELS];
	u32 nr_dirty;
	u32 nr_taken;
	bool root_dirty;
};

void lsmem_tree_init(struct lsmem_tree *tree, struct lsmem_store *store, u32 table, u32 levels,
		     u64 top);
void lsmem_tree_destroy(struct lsmem_tree *tree);
int lsmem_tree_peek(const struct lsmem_tree *tree, u64 page, u64 *handle);
int lsmem_tree_find(struct lsmem_tree *tree, u64 page, u64 *handle);
int lsmem_tree_next(struct lsmem_tree *tree, u64 *page, u64 to, u64 *handle);
int lsmem_tree_make(struct lsmem_tree *tree, u64 page);
int lsmem_tree_set(struct lsmem_tree *tree, u64 page, u64 handle);
int lsmem_tree_changes(struct lsmem_tree *tree, struct lsmem_change *changes, u32 *nr, u32 most);
void lsmem_tree_done(struct lsmem_tree *tree);
int lsmem_tree_remove(struct lsmem_tree *tree);

#endif
