// SPDX-License-Identifier: GPL-2.0
/*
 * A B+tree with nodes of 1016 bytes: keys and values are numbers, and the value is how often the key was
 * put.  All even keys are there at the beginning; half of the puts are of odd keys.
 */
#include "program.h"

#define SLOTS		63u	/* of a node */
#define LEVELS		16u

/**
 * struct node - a node
 * @nr: slots in use
 * @leaf: it has values, else children
 * @keys: in ascending order; of a node with children, the least key that a child may have
 */
struct node {
	uint32_t nr;
	uint32_t leaf;
	uint64_t keys[SLOTS];
	union {
		uint64_t value;
		struct node *child;
	} slots[SLOTS];
};

static struct node *root;
static uint64_t nr_keys, puts_begun;

#ifdef LSMEM
#include <lsmem.h>

static struct lsm_pool *pool;

static void make_room(const struct bench *bench)
{
	struct lsm *lsm;
	uint64_t handle;
	int ret;

	/* Each node is at least half full, but the last ones; with odd keys there are twice as many. */
	ret = lsm_open(bench->path, 0, &lsm) ?:
	      lsm_pool_create(lsm, (nr_keys / 8 + 64) * 4096, bench->bytes, 0, &handle, &pool);
	if (ret)
		fail("pool", -ret);
}
#endif

static struct node *new_node(bool leaf)
{
	struct node *node;

#ifdef LSMEM
	if (lsm_pool_alloc(pool, sizeof(*node), (void **)&node))
		fail("node", ENOMEM);
#else
	node = malloc(sizeof(*node));
	if (!node)
		fail("node", ENOMEM);
#endif
	node->nr = 0;
	node->leaf = leaf;
	return node;
}

/* The last slot whose key is not above @key; 0 if there is none. */
static uint32_t slot_of(const struct node *node, uint64_t key)
{
	uint32_t low = 0, high = node->nr;

	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;

		if (node->keys[middle] <= key)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static uint64_t *look(uint64_t key)
{
	struct node *node = root;
	uint32_t slot;

	while (!node->leaf)
		node = node->slots[slot_of(node, key)].child;
	slot = slot_of(node, key);
	return slot < node->nr && node->keys[slot] == key ? &node->slots[slot].value : NULL;
}

/* Make room for a key in a slot. */
static void open_slot(struct node *node, uint32_t slot, uint64_t key)
{
	uint32_t behind = node->nr - slot;

	memmove(&node->keys[slot + 1], &node->keys[slot], behind * sizeof(node->keys[0]));
	memmove(&node->slots[slot + 1], &node->slots[slot], behind * sizeof(node->slots[0]));
	node->keys[slot] = key;
	node->nr++;
}

/* Split the full child in a slot of a node that is not full. */
static void split(struct node *parent, uint32_t slot)
{
	struct node *left = parent->slots[slot].child, *right = new_node(left->leaf);
	uint32_t half = SLOTS / 2;

	right->nr = SLOTS - half;
	memcpy(right->keys, &left->keys[half], right->nr * sizeof(right->keys[0]));
	memcpy(right->slots, &left->slots[half], right->nr * sizeof(right->slots[0]));
	left->nr = half;
	open_slot(parent, slot + 1, right->keys[0]);
	parent->slots[slot + 1].child = right;
}

/* The value of a key, which is made with the value 0 if there is none.  Full nodes on the way are split. */
static uint64_t *insert(uint64_t key)
{
	struct node *node = root, *child;
	uint32_t slot;

	if (root->nr == SLOTS) {
		node = new_node(false);
		open_slot(node, 0, 0);
		node->slots[0].child = root;
		root = node;
	}
	while (!node->leaf) {
		slot = slot_of(node, key);
		child = node->slots[slot].child;
		if (child->nr == SLOTS) {
			split(node, slot);
			child = node->slots[slot_of(node, key)].child;
		}
		node = child;
	}
	slot = slot_of(node, key);
	if (slot < node->nr && node->keys[slot] == key)
		return &node->slots[slot].value;
	if (slot < node->nr && node->keys[slot] < key)
		slot++;
	open_slot(node, slot, key);
	node->slots[slot].value = 0;
	return &node->slots[slot].value;
}

void program_make(const struct bench *bench)
{
	uint64_t i;

	nr_keys = bench->handles;
#ifdef LSMEM
	make_room(bench);
#endif
	root = new_node(true);
	for (i = 0; i < nr_keys; i++)
		insert(2 * i);
}

void program_put(uint64_t nr)
{
	uint64_t key = 2 * nr + (puts_begun++ & 1), *value = look(key);

	++*(value ?: insert(key));
}

void program_get(uint64_t nr)
{
	if (!look(2 * nr))
		wrong("key");
}

/**
 * struct walk - a check of all nodes
 * @last: the key before, @any: there was one
 * @even: how many even keys there were
 * @sum: of all values
 * @depth: of the leaves; 0: not known yet
 */
struct walk {
	uint64_t last;
	bool any;
	uint64_t even;
	uint64_t sum;
	uint32_t depth;
};

static void walk_leaf(struct walk *walk, const struct node *leaf, uint32_t depth)
{
	uint32_t i;

	if (walk->depth && walk->depth != depth)
		wrong("depth");
	walk->depth = depth;
	for (i = 0; i < leaf->nr; i++) {
		if (walk->any && leaf->keys[i] <= walk->last)
			wrong("order of keys");
		walk->any = true;
		walk->last = leaf->keys[i];
		walk->even += !(leaf->keys[i] & 1);
		walk->sum += leaf->slots[i].value;
	}
}

/* Below @from, all the way to the leaves: keys are from @from on, and below @to. */
static void walk_node(struct walk *walk, const struct node *node, uint64_t from, uint64_t to, uint32_t depth)
{
	uint32_t i;

	if (depth > LEVELS || node->nr > SLOTS)
		wrong("node");
	for (i = 0; i < node->nr; i++)
		if (node->keys[i] < from || node->keys[i] >= to)
			wrong("bounds of keys");
	if (node->leaf) {
		walk_leaf(walk, node, depth);
		return;
	}
	for (i = 0; i < node->nr; i++)
		walk_node(walk, node->slots[i].child, node->keys[i],
			  i + 1 < node->nr ? node->keys[i + 1] : to, depth + 1);
}

void program_check(uint64_t puts)
{
	struct walk walk = { 0 };

	walk_node(&walk, root, 0, UINT64_MAX, 1);
	if (walk.even != nr_keys || walk.sum != puts)
		wrong("tree");
}
