// SPDX-License-Identifier: GPL-2.0
/*
 * The tree of a range of pages: from the number of a page to the handle of its object.
 *
 * A radix tree whose nodes are objects of the store.  A node is loaded when a page below it is looked
 * for, and stays until the range is closed: 4 KiB for each 2 MiB of the range, charged to the task
 * that looks.  A change of a slot makes its node dirty; lsmem_tree_changes() makes all dirty nodes part
 * of the group that writes the pages, so that tree and pages are never of different times.
 *
 * Nodes are not freed before the range is: one without children is an object of a few bytes.
 *
 * Locks: the caller's.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "../uapi/lsmem.h"
#include "handle.h"
#include "object.h"
#include "store.h"
#include "tree.h"

/**
 * struct lsmem_node - a node in memory
 * @handle: of its object, 0: none yet
 * @fresh: its object is not in the log yet
 * @taken: it is part of the group that is being made
 * @level: 0: its slots are of pages
 * @slot: of its handle in its parent
 * @parent: NULL: it is the top node
 * @dirty: in the tree's list of dirty nodes, or empty
 * @slots: as in its object
 * @children: nodes that are loaded; level 0 has none
 */
struct lsmem_node {
	u64 handle;
	bool fresh;
	bool taken;
	u32 level;
	u32 slot;
	struct lsmem_node *parent;
	struct list_head dirty;
	__le64 slots[LSMEM_NODE_SLOTS];
	struct lsmem_node *children[];
};

/**
 * lsmem_tree_init - make a tree that has nothing loaded
 * @tree: the tree
 * @store: that has the objects
 * @table: table id for nodes
 * @levels: from the root, at most LSMEM_TREE_LEVELS
 * @top: from the root
 */
void lsmem_tree_init(struct lsmem_tree *tree, struct lsmem_store *store, u32 table, u32 levels,
		     u64 top)
{
	u32 i;

	*tree = (struct lsmem_tree){
		.store = store, .table = table, .levels = levels, .top = top,
	};
	for (i = 0; i < LSMEM_TREE_LEVELS; i++)
		INIT_LIST_HEAD(&tree->dirty[i]);
}

/* ---- Nodes --------------------------------------------------------------- */

static struct lsmem_node *lsmem_node_new(u32 level)
{
	struct lsmem_node *node;

	node = kvzalloc(struct_size(node, children, level ? LSMEM_NODE_SLOTS : 0),
			GFP_KERNEL_ACCOUNT);
	if (!node)
		return NULL;
	node->level = level;
	INIT_LIST_HEAD(&node->dirty);
	return node;
}

static void lsmem_node_free(struct lsmem_node *node)
{
	u32 i;

	if (!node)
		return;
	/* Its depth is bounded: LSMEM_TREE_LEVELS. */
	for (i = 0; node->level && i < LSMEM_NODE_SLOTS; i++)
		lsmem_node_free(node->children[i]);
	kvfree(node);
}

static void lsmem_node_dirty(struct lsmem_tree *tree, struct lsmem_node *node)
{
	if (!list_empty(&node->dirty))
		return;
	list_add_tail(&node->dirty, &tree->dirty[node->level]);
	tree->nr_dirty++;
}

/* Which slot of a node of @level leads to @page? */
static u32 lsmem_node_slot(u64 page, u32 level)
{
	return (page >> (level * LSMEM_NODE_BITS)) % LSMEM_NODE_SLOTS;
}

/* Is @page within a tree of so many levels? */
static bool lsmem_tree_has(u32 levels, u64 page)
{
	return !(page >> (levels * LSMEM_NODE_BITS));
}

/* The node of an object. */
static struct lsmem_node *lsmem_node_load(struct lsmem_tree *tree, u64 handle, u32 level)
{
	struct lsmem_node *node = lsmem_node_new(level);
	u32 length;
	int ret;

	if (!node)
		return ERR_PTR(-ENOMEM);
	ret = lsmem_object_get(tree->store, handle, node->slots, sizeof(node->slots), &length);
	if (!ret && (length > sizeof(node->slots) || length % sizeof(*node->slots)))
		ret = -EBADMSG;
	if (!ret) {
		node->handle = handle;
		return node;
	}
	lsmem_node_free(node);
	return ERR_PTR(ret == -ESTALE ? -ENOENT : ret);
}

/* What is said of a node that could not be loaded. */
static int lsmem_tree_error(const struct lsmem_tree *tree, u64 page, long error)
{
	if (error != -ENOENT && error != -EBADMSG)
		return error;
	pr_err_ratelimited("%s: a range of pages: the object of the node above page %llu is %s\n",
			   tree->store->name, page, error == -ENOENT ? "missing" : "no node");
	return -EIO;
}

/* The top node; NULL: the tree has none. */
static struct lsmem_node *lsmem_tree_top(struct lsmem_tree *tree)
{
	struct lsmem_node *node = tree->node;

	if (node || !tree->top)
		return node;
	node = lsmem_node_load(tree, tree->top, tree->levels - 1);
	if (!IS_ERR(node))
		tree->node = node;
	return node;
}

/* The child in a slot; NULL: there is none. */
static struct lsmem_node *lsmem_node_child(struct lsmem_tree *tree, struct lsmem_node *node,
					   u32 slot)
{
	struct lsmem_node *child = node->children[slot];

	if (child || !node->slots[slot])
		return child;
	child = lsmem_node_load(tree, le64_to_cpu(node->slots[slot]), node->level - 1);
	if (IS_ERR(child))
		return child;
	child->parent = node;
	child->slot = slot;
	node->children[slot] = child;
	return child;
}

/* ---- Look ---------------------------------------------------------------- */

/**
 * lsmem_tree_peek - look for a page, in what is loaded
 * @tree: held shared
 * @page: its number
 * @handle: out: of its object, 0: it has none
 * Return: 0, or -EAGAIN: lsmem_tree_find() has to load a node.
 */
int lsmem_tree_peek(const struct lsmem_tree *tree, u64 page, u64 *handle)
{
	const struct lsmem_node *node = tree->node;
	u32 slot;

	*handle = 0;
	if (!node)
		return tree->top ? -EAGAIN : 0;
	if (!lsmem_tree_has(tree->levels, page))
		return 0;
	for (;;) {
		slot = lsmem_node_slot(page, node->level);
		if (!node->level) {
			*handle = le64_to_cpu(READ_ONCE(node->slots[slot]));
			return 0;
		}
		if (!node->children[slot])
			return node->slots[slot] ? -EAGAIN : 0;
		node = node->children[slot];
	}
}

/**
 * lsmem_tree_find - look for a page
 * @tree: held
 * @page: its number
 * @handle: out: of its object, 0: it has none
 *
 * Context: sleeps.  Return: 0; -ENOMEM; -EIO; -ETIMEDOUT, -EINTR, -EAGAIN as lsmem_object_get().
 */
int lsmem_tree_find(struct lsmem_tree *tree, u64 page, u64 *handle)
{
	return lsmem_tree_next(tree, &page, page + 1, handle);
}

/**
 * lsmem_tree_next - look for the first page of some that has an object
 * @tree: held
 * @page: in: the first; out: that which has one
 * @to: behind the last
 * @handle: out: of its object, 0: none has one
 *
 * Context: sleeps.  Return: as lsmem_tree_find().
 */
int lsmem_tree_next(struct lsmem_tree *tree, u64 *page, u64 to, u64 *handle)
{
	struct lsmem_node *top = lsmem_tree_top(tree), *node;
	u32 slot;

	*handle = 0;
	if (IS_ERR_OR_NULL(top))
		return top ? lsmem_tree_error(tree, *page, PTR_ERR(top)) : 0;
	for (node = top; *page < to && lsmem_tree_has(tree->levels, *page);) {
		slot = lsmem_node_slot(*page, node->level);
		if (!node->slots[slot] && (!node->level || !node->children[slot])) {
			/* To the next slot; and, behind the last one, down again from the top. */
			*page = ((*page >> (node->level * LSMEM_NODE_BITS)) + 1)
				<< (node->level * LSMEM_NODE_BITS);
			if (slot == LSMEM_NODE_SLOTS - 1)
				node = top;
			continue;
		}
		if (!node->level) {
			*handle = le64_to_cpu(node->slots[slot]);
			return 0;
		}
		node = lsmem_node_child(tree, node, slot);
		if (IS_ERR(node))
			return lsmem_tree_error(tree, *page, PTR_ERR(node));
		cond_resched();
	}
	return 0;
}

/* ---- Change -------------------------------------------------------------- */

/* Give the tree a level more. */
static int lsmem_tree_grow(struct lsmem_tree *tree)
{
	struct lsmem_node *old = lsmem_tree_top(tree), *node;

	if (IS_ERR(old))
		return lsmem_tree_error(tree, 0, PTR_ERR(old));
	if (tree->levels == LSMEM_TREE_LEVELS)
		return -EFBIG;
	node = lsmem_node_new(tree->levels);
	if (!node)
		return -ENOMEM;
	node->fresh = true;
	if (old) {
		old->parent = node;
		old->slot = 0;
		node->children[0] = old;
		node->slots[0] = cpu_to_le64(old->handle);	/* 0: lsmem_tree_changes() */
	}
	tree->levels++;
	tree->node = node;
	tree->top = 0;
	tree->root_dirty = true;
	lsmem_node_dirty(tree, node);
	return 0;
}

/* The node of level 0 above a page, made if there is none. */
static struct lsmem_node *lsmem_tree_leaf(struct lsmem_tree *tree, u64 page)
{
	struct lsmem_node *node, *child;
	int ret;

	while (!tree->levels || !lsmem_tree_has(tree->levels, page)) {
		ret = lsmem_tree_grow(tree);
		if (ret)
			return ERR_PTR(ret);
	}
	node = lsmem_tree_top(tree);
	while (!IS_ERR_OR_NULL(node) && node->level) {
		u32 slot = lsmem_node_slot(page, node->level);

		child = lsmem_node_child(tree, node, slot);
		if (!child) {
			child = lsmem_node_new(node->level - 1);
			if (!child)
				return ERR_PTR(-ENOMEM);
			child->fresh = true;
			child->parent = node;
			child->slot = slot;
			node->children[slot] = child;
			lsmem_node_dirty(tree, node);	/* it will get a handle */
			lsmem_node_dirty(tree, child);
		}
		node = child;
	}
	if (IS_ERR_OR_NULL(node))
		return ERR_PTR(lsmem_tree_error(tree, page, node ? PTR_ERR(node) : -ENOENT));
	return node;
}

/**
 * lsmem_tree_make - make the nodes that a page needs
 * @tree: held
 * @page: its number
 *
 * Those that are new are dirty.
 *
 * Context: sleeps.  Return: as lsmem_tree_set().
 */
int lsmem_tree_make(struct lsmem_tree *tree, u64 page)
{
	return PTR_ERR_OR_ZERO(lsmem_tree_leaf(tree, page));
}

/**
 * lsmem_tree_set - change the handle of a page
 * @tree: held
 * @page: its number
 * @handle: of its object, 0: it has none any more
 *
 * To set it back after an error cannot fail, nor to set that of a page whose nodes were made.
 *
 * Context: sleeps.  Return: 0; -EFBIG; as lsmem_tree_find().
 */
int lsmem_tree_set(struct lsmem_tree *tree, u64 page, u64 handle)
{
	struct lsmem_node *node = lsmem_tree_leaf(tree, page);

	if (IS_ERR(node))
		return PTR_ERR(node);
	WRITE_ONCE(node->slots[lsmem_node_slot(page, 0)], cpu_to_le64(handle));
	lsmem_node_dirty(tree, node);
	return 0;
}

/* Bytes of a node's object. */
static u32 lsmem_node_bytes(const struct lsmem_node *node)
{
	u32 nr = LSMEM_NODE_SLOTS;

	while (nr > 1 && !node->slots[nr - 1])
		nr--;
	return nr * sizeof(*node->slots);
}

/* Give a new node a handle, in its parent, too. */
static int lsmem_node_name(struct lsmem_tree *tree, struct lsmem_node *node)
{
	struct lsmem_node *parent = node->parent;
	int ret;

	if (!node->handle) {
		ret = lsmem_handle_alloc(tree->store, &node->handle);
		if (ret)
			return ret;
	}
	if (!parent) {
		tree->root_dirty |= tree->top != node->handle;
		tree->top = node->handle;
	} else if (parent->slots[node->slot] != cpu_to_le64(node->handle)) {
		parent->slots[node->slot] = cpu_to_le64(node->handle);
		lsmem_node_dirty(tree, parent);
	}
	return 0;
}

/**
 * lsmem_tree_changes - make dirty nodes part of a group, those of low levels first
 * @tree: held until the group is made, and after it lsmem_tree_done() called
 * @changes: the group
 * @nr: in and out: changes in it
 * @most: @nr may become.  If that is not enough for all (@tree->nr_taken), the root does not go with them
 *
 * Return: 0 or what lsmem_handle_alloc() says: then it can be called again later.
 */
int lsmem_tree_changes(struct lsmem_tree *tree, struct lsmem_change *changes, u32 *nr, u32 most)
{
	struct lsmem_node *node;
	u32 level;
	int ret;

	tree->nr_taken = 0;
	for (level = 0; level < LSMEM_TREE_LEVELS; level++)
		list_for_each_entry(node, &tree->dirty[level], dirty) {
			node->taken = false;
			if (*nr == most)
				continue;
			ret = lsmem_node_name(tree, node);
			if (ret)
				return ret;
			node->taken = true;
			tree->nr_taken++;
			changes[(*nr)++] = (struct lsmem_change){
				.op = node->fresh ? LSMEM_OP_ALLOC : LSMEM_OP_REPLACE,
				.table = tree->table,
				.handle = node->handle,
				.data = node->slots,
				.length = lsmem_node_bytes(node),
			};
		}
	return 0;
}

/**
 * lsmem_tree_done - the group with lsmem_tree_changes() has been made
 * @tree: held since then
 */
void lsmem_tree_done(struct lsmem_tree *tree)
{
	struct lsmem_node *node, *next;
	u32 level;

	for (level = 0; level < LSMEM_TREE_LEVELS; level++)
		list_for_each_entry_safe(node, next, &tree->dirty[level], dirty) {
			if (!node->taken)
				continue;
			node->fresh = false;
			list_del_init(&node->dirty);
			tree->nr_dirty--;
		}
	if (!tree->nr_dirty)
		tree->root_dirty = false;
}

/* ---- The end ------------------------------------------------------------- */

/* Give back the handles of nodes whose objects are not in the log. */
static void lsmem_node_unname(struct lsmem_store *store, struct lsmem_node *node)
{
	u32 i;

	if (!node)
		return;
	for (i = 0; node->level && i < LSMEM_NODE_SLOTS; i++)
		lsmem_node_unname(store, node->children[i]);
	if (node->fresh && node->handle)
		lsmem_handle_free(store, node->handle);
}

/**
 * lsmem_tree_destroy - forget a tree
 * @tree: what is dirty in it is lost
 */
void lsmem_tree_destroy(struct lsmem_tree *tree)
{
	lsmem_node_unname(tree->store, tree->node);
	lsmem_node_free(tree->node);
	lsmem_tree_init(tree, tree->store, tree->table, 0, 0);
}

/* Free the objects of a node and of those below it. Returns an error of the first that failed. */
static int lsmem_node_remove(struct lsmem_tree *tree, struct lsmem_node *node)
{
	struct lsmem_change change = { .op = LSMEM_OP_FREE, .handle = node->handle };
	struct lsmem_place place = { };
	int ret;
	u32 i;

	for (i = 0; node->level && i < LSMEM_NODE_SLOTS; i++) {
		struct lsmem_node *child = lsmem_node_child(tree, node, i);

		if (!child || child == ERR_PTR(-ENOENT))	/* it went before a crash */
			continue;
		ret = IS_ERR(child) ? lsmem_tree_error(tree, 0, PTR_ERR(child)) :
				      lsmem_node_remove(tree, child);
		if (ret)
			return ret;
		node->children[i] = NULL;
		node->slots[i] = 0;
		lsmem_node_free(child);
	}
	if (fatal_signal_pending(current))
		return -EINTR;
	if (node->fresh || !node->handle)
		return 0;
	ret = lsmem_group_change(tree->store, &change, 1, &place);
	return ret == -ENOENT || ret == -ESTALE ? 0 : ret;
}

/**
 * lsmem_tree_remove - free the objects of all nodes
 * @tree: none of its pages has an object, nothing is dirty
 *
 * Nodes go from below, so it can be called again after an error or a crash.
 *
 * Context: sleeps, killable.  Return: 0, or an error.
 */
int lsmem_tree_remove(struct lsmem_tree *tree)
{
	struct lsmem_node *top = lsmem_tree_top(tree);

	if (!top || top == ERR_PTR(-ENOENT))
		return 0;
	return IS_ERR(top) ? lsmem_tree_error(tree, 0, PTR_ERR(top)) :
			     lsmem_node_remove(tree, top);
}
