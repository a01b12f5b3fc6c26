// SPDX-License-Identifier: GPL-2.0
#include <stddef.h>
#include <string.h>

#include "btree.h"

struct leaf {
	uint32_t level;		/* 0 */
	uint32_t nr;
	uint64_t reserved;
	struct {
		uint64_t key;
		uint8_t value[BTREE_VALUE];
	} entries[BTREE_LEAF];
};

/* The first child has all keys below that of the second; its own is not used. */
struct inner {
	uint32_t level;		/* of its children, plus 1 */
	uint32_t nr;
	uint64_t reserved;
	struct {
		uint64_t key;
		uint32_t page;
		uint32_t reserved;
	} children[BTREE_INNER];
};

_Static_assert(sizeof(struct leaf) <= BTREE_PAGE && sizeof(struct inner) <= BTREE_PAGE, "a page");

static void *node_at(const struct btree *tree, uint32_t page)
{
	return (char *)tree->at + (uint64_t)page * BTREE_PAGE;
}

struct btree_head *btree_head(const struct btree *tree)
{
	return tree->at;
}

static void *node_change(struct btree *tree, uint32_t page)
{
	tree->mark(tree->context, page);
	return node_at(tree, page);
}

/* A page of zeroes. There is one: btree_put() has looked. */
static void *node_new(struct btree *tree, uint32_t *page)
{
	*page = btree_head(tree)->used++;
	return node_change(tree, *page);
}

void btree_init(struct btree *tree)
{
	struct btree_head *head = node_change(tree, 0);

	head->used = 1;
	head->levels = 1;
	node_new(tree, &head->root);
}

/* The child for a key: the last one whose key is not larger. */
static uint32_t child_of(const struct inner *node, uint64_t key)
{
	uint32_t low = 0, high = node->nr;

	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;

		if (node->children[middle].key <= key)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The first entry whose key is not smaller. */
static uint32_t entry_of(const struct leaf *leaf, uint64_t key)
{
	uint32_t low = 0, high = leaf->nr;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (leaf->entries[middle].key < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Go down to the leaf of a key; @path: the pages of the nodes above it, the root first. */
static uint32_t leaf_of(const struct btree *tree, uint64_t key, uint32_t *path)
{
	uint32_t page = btree_head(tree)->root, level;

	for (level = btree_head(tree)->levels; level > 1; level--) {
		const struct inner *node = node_at(tree, page);

		if (path)
			*path++ = page;
		page = node->children[child_of(node, key)].page;
	}
	return page;
}

const void *btree_find(const struct btree *tree, uint64_t key)
{
	const struct leaf *leaf = node_at(tree, leaf_of(tree, key, NULL));
	uint32_t i = entry_of(leaf, key);

	return i < leaf->nr && leaf->entries[i].key == key ? leaf->entries[i].value : NULL;
}

/* The root gets a parent. */
static void grow(struct btree *tree, uint32_t *path)
{
	struct btree_head *head = node_change(tree, 0);
	uint32_t page;
	struct inner *root = node_new(tree, &page);

	root->level = head->levels++;
	root->nr = 1;
	root->children[0].page = head->root;
	head->root = page;
	memmove(path + 1, path, (BTREE_LEVELS - 1) * sizeof(*path));
	path[0] = page;
}

/* Put a child behind the one for its key, into the last node of @path; split that first if it is full. */
static void child_put(struct btree *tree, uint32_t *path, uint32_t depth, uint64_t key, uint32_t page)
{
	struct inner *node = node_change(tree, path[depth]), *right;
	uint32_t i, keep, new;

	if (node->nr == BTREE_INNER) {
		if (!depth) {
			grow(tree, path);
			depth++;
		}
		/* Keys that come in order leave full nodes behind. */
		keep = key > node->children[node->nr - 1].key ? node->nr - 1 : node->nr / 2;
		right = node_new(tree, &new);
		right->level = node->level;
		right->nr = node->nr - keep;
		memcpy(right->children, node->children + keep, right->nr * sizeof(node->children[0]));
		memset(node->children + keep, 0, right->nr * sizeof(node->children[0]));
		node->nr = keep;
		child_put(tree, path, depth - 1, right->children[0].key, new);
		if (key > right->children[0].key)
			node = right;
	}
	i = child_of(node, key) + 1;
	memmove(node->children + i + 1, node->children + i, (node->nr - i) * sizeof(node->children[0]));
	node->children[i].key = key;
	node->children[i].page = page;
	node->children[i].reserved = 0;
	node->nr++;
}

/* Split a full leaf; returns the half for @key. */
static struct leaf *leaf_split(struct btree *tree, uint32_t *path, uint32_t page, uint64_t key, uint32_t keep)
{
	struct leaf *leaf = node_at(tree, page), *right;
	uint32_t levels = btree_head(tree)->levels, new;

	right = node_new(tree, &new);
	right->nr = leaf->nr - keep;
	memcpy(right->entries, leaf->entries + keep, right->nr * sizeof(leaf->entries[0]));
	memset(leaf->entries + keep, 0, right->nr * sizeof(leaf->entries[0]));
	leaf->nr = keep;
	if (levels == 1) {
		grow(tree, path);
		levels++;
	}
	/* An empty half has only keys from this one on. */
	child_put(tree, path, levels - 2, right->nr ? right->entries[0].key : key, new);
	return !right->nr || key >= right->entries[0].key ? right : leaf;
}

void *btree_put(struct btree *tree, uint64_t key, uint32_t packed)
{
	uint32_t path[BTREE_LEVELS] = { 0 }, page = leaf_of(tree, key, path), i;
	struct leaf *leaf = node_at(tree, page);
	bool last = !leaf->nr || leaf->entries[leaf->nr - 1].key < key;

	i = entry_of(leaf, key);
	if (i < leaf->nr && leaf->entries[i].key == key) {
		node_change(tree, page);
		return leaf->entries[i].value;
	}
	if (btree_head(tree)->used + 2 * BTREE_LEVELS > tree->pages)
		return NULL;
	if (packed && last && leaf->nr >= packed) {
		node_change(tree, 0);
		leaf = leaf_split(tree, path, page, key, leaf->nr);
	} else {
		node_change(tree, page);
		if (leaf->nr == BTREE_LEAF) {
			node_change(tree, 0);
			leaf = leaf_split(tree, path, page, key, BTREE_LEAF / 2);
		}
	}
	i = entry_of(leaf, key);
	memmove(leaf->entries + i + 1, leaf->entries + i, (leaf->nr - i) * sizeof(leaf->entries[0]));
	leaf->entries[i].key = key;
	leaf->nr++;
	return leaf->entries[i].value;
}

bool btree_remove(struct btree *tree, uint64_t key)
{
	uint32_t page = leaf_of(tree, key, NULL), i;
	struct leaf *leaf = node_at(tree, page);

	i = entry_of(leaf, key);
	if (i == leaf->nr || leaf->entries[i].key != key)
		return false;
	node_change(tree, page);
	leaf->nr--;
	memmove(leaf->entries + i, leaf->entries + i + 1, (leaf->nr - i) * sizeof(leaf->entries[0]));
	memset(leaf->entries + leaf->nr, 0, sizeof(leaf->entries[0]));
	return true;
}

/* A walk: how many pages there were, and where the keys go. */
struct walk {
	const struct btree *tree;
	uint32_t nodes;
	void (*each)(void *context, uint64_t key, const void *value);
	void *context;
};

/* Walk through a node of @level with keys in [@low, @high). */
static bool node_walk(struct walk *walk, uint32_t page, uint32_t level, uint64_t low, uint64_t high)
{
	const struct btree_head *head = btree_head(walk->tree);
	const struct inner *node;
	const struct leaf *leaf;
	uint32_t i;

	if (!page || page >= head->used || walk->nodes++ >= head->used)
		return false;
	node = node_at(walk->tree, page);
	leaf = node_at(walk->tree, page);
	if (node->level != level || node->nr > (level ? BTREE_INNER : BTREE_LEAF) || (level && !node->nr))
		return false;
	for (i = 0; !level && i < leaf->nr; i++) {
		if (leaf->entries[i].key < low || leaf->entries[i].key >= high)
			return false;
		low = leaf->entries[i].key + 1;
		walk->each(walk->context, leaf->entries[i].key, leaf->entries[i].value);
	}
	for (i = 0; level && i < node->nr; i++) {
		uint64_t from = i ? node->children[i].key : low;
		uint64_t to = i + 1 < node->nr ? node->children[i + 1].key : high;

		if (from < low || to > high || from > to ||
		    !node_walk(walk, node->children[i].page, level - 1, from, to))
			return false;
	}
	return true;
}

bool btree_walk(const struct btree *tree, void (*each)(void *context, uint64_t key, const void *value),
		void *context)
{
	const struct btree_head *head = btree_head(tree);
	struct walk walk = { .tree = tree, .each = each, .context = context };

	return head->levels && head->levels <= BTREE_LEVELS && head->used <= tree->pages &&
	       node_walk(&walk, head->root, head->levels - 1, 0, UINT64_MAX) &&
	       walk.nodes + 1 == head->used;
}
