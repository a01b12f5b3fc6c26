// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/content.h"
#include "../common/random.h"
#include "../common/zipf.h"
#include "commits.h"

#define PACKED		(BTREE_LEAF * 2 / 3)
#define COMPLAINTS	10u
#define SCATTER		2654435761ull	/* a prime */
#define HOT		1000u	/* keys */

/* A commit of @most pages has this many leaves while the tree is filled, and changes so many keys later. */
#define FILL_LEAVES(most)	((most) * 7 / 8)
#define CHANGES(most)		((most) * 2 / 5)

uint32_t commit_key(uint64_t *random, uint32_t keys)
{
	return zipf_next(random) * SCATTER % keys;
}

/*
 * Call @change for each key that a commit changes, with false if it is removed.  @bits: 0: the next keys
 * are filled in.
 */
static void commit_each(const struct commits *all, uint64_t number, uint32_t bits,
			void (*change)(void *context, uint32_t key, bool put), void *context)
{
	uint64_t state = number << 32 | bits, i;
	uint32_t nr, key;

	if (!bits) {
		for (i = 0; i < FILL_LEAVES(all->most) * PACKED && all->filled + i < all->keys; i++)
			change(context, 2 * (all->filled + i + 1), true);
		return;
	}
	for (nr = 1 + random_below(&state, CHANGES(all->most)); nr; nr--) {
		uint32_t dice = random_below(&state, 100);

		if (bits & COMMIT_HOT)
			key = zipf_next(&state) % HOT * SCATTER % all->keys;
		else
			key = dice < 70 ? commit_key(&state, all->keys) : random_below(&state, all->keys);
		change(context, 2 * (key + 1) - (dice >= 90), dice < 70 || dice >= 80);
	}
}

struct noting {
	struct commits *all;
	uint32_t number;
};

static void note_key(void *context, uint32_t key, bool put)
{
	const struct noting *noting = context;
	uint32_t *commit = &noting->all->commit[key];

	noting->all->present += put - (*commit != 0);
	*commit = put ? noting->number : 0;
}

static void note_commit(struct commits *all, uint64_t number, uint32_t bits)
{
	struct noting noting = { all, number };

	commit_each(all, number, bits, note_key, &noting);
	if (!bits)
		all->filled += all->keys - all->filled < FILL_LEAVES(all->most) * PACKED ?
				 all->keys - all->filled : FILL_LEAVES(all->most) * PACKED;
}

static void commit_settled(struct oracle *o, uint64_t slot, const struct state *state)
{
	(void)slot;
	if (state->op == OP_REPLACE)
		note_commit(o->model, state->sequence, state->length);
}

int commits_init(struct oracle *o, uint32_t keys, uint32_t most)
{
	const size_t bytes = sizeof(struct commits) + (2ull * keys + 1) * sizeof(uint32_t);
	struct commits *all = calloc(1, bytes);

	if (oracle_init(o, 't', 1) || !all)
		return -ENOMEM;
	all->keys = keys;
	all->most = most;
	o->model = all;
	o->model_bytes = bytes;
	o->settled = commit_settled;
	return 0;
}

struct storing {
	struct btree *tree;
	uint32_t number;
	uint32_t packed;
	uint32_t most;
	uint32_t done;
	bool full;
};

static void store_key(void *context, uint32_t key, bool put)
{
	struct storing *storing = context;
	void *value;

	if (storing->full || storing->done == storing->most)
		return;
	storing->done++;
	if (!put) {
		btree_remove(storing->tree, key);
		return;
	}
	value = btree_put(storing->tree, key, storing->packed);
	if (value)
		content_fill(value, BTREE_VALUE, key, storing->number);
	else
		storing->full = true;
}

int commit_store(struct btree *tree, const struct oracle *o, uint64_t number, uint32_t bits,
		 uint32_t *changes)
{
	struct storing storing = { .tree = tree, .number = number, .packed = bits ? 0 : PACKED,
				   .most = *changes };

	if (!btree_head(tree)->root)
		btree_init(tree);
	tree->mark(tree->context, 0);
	btree_head(tree)->commit = number;
	commit_each(o->model, number, bits, store_key, &storing);
	*changes = storing.done;
	return storing.full ? -1 : 0;
}

struct comparison {
	const struct commits *all;
	void (*checked)(void *context);
	void *context;
	uint64_t wrong;
	uint64_t found;
};

static void compare_key(void *context, uint64_t key, const void *value)
{
	struct comparison *c = context;
	uint32_t wanted = key <= 2ull * c->all->keys ? c->all->commit[key] : 0;

	c->found++;
	if ((!wanted || !content_is(value, BTREE_VALUE, key, wanted)) && c->wrong++ < COMPLAINTS)
		fprintf(stderr, "key %llu: not the value of commit %u\n", (unsigned long long)key, wanted);
	c->checked(c->context);
}

uint64_t commits_look(const struct btree *tree, const struct oracle *o, struct state *found,
		      void (*checked)(void *context), void *context)
{
	const struct slot *slot = &o->slots[0];
	struct comparison c = { .all = o->model, .checked = checked, .context = context };
	uint64_t commit = btree_head(tree)->commit;
	struct commits *copy = NULL;
	bool whole;

	*found = slot->base;
	if (slot->nr_pending && slot->pending[0].op == OP_REPLACE && slot->pending[0].sequence == commit) {
		*found = slot->pending[0];
		/* On a copy: verify_slot() settles it. */
		copy = malloc(o->model_bytes);
		if (!copy) {
			perror("memory");
			exit(1);
		}
		memcpy(copy, c.all, o->model_bytes);
		note_commit(copy, commit, found->length);
		c.all = copy;
	} else if (commit != slot->base.sequence) {
		found->sequence = commit;	/* an older one: verify_slot() counts it as lost */
	}
	whole = btree_walk(tree, compare_key, &c);
	if (!whole)
		fprintf(stderr, "the pages are no tree\n");
	if (c.found < c.all->present)
		c.wrong += c.all->present - c.found;
	fprintf(stderr, "commit %llu: %llu keys of %llu, %llu wrong\n", (unsigned long long)commit,
		(unsigned long long)c.found, (unsigned long long)c.all->present,
		(unsigned long long)c.wrong);
	free(copy);
	return c.wrong + !whole;
}
