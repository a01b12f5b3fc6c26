// SPDX-License-Identifier: GPL-2.0
/*
 * Without a kernel: the comparison of ranges of pages (ranges.c), of a range in memory after a cut, as it may
 * be and with faults planted in it, each of which must be found; and the tree of make demo-pages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/tap.h"
#include "../common/transaction.h"
#include "../common/zipf.h"
#include "acked.h"
#include "commits.h"

#define PAGES	128u
#define MOST	64u
#define ROUNDS	60u
#define BYTES	(PAGES * TRANSACTION_PAGE)
#define RANGE	1u	/* its slot */

struct figures figures;

/* The oracle takes a record of transaction @number. */
static void take(struct oracle *o, uint8_t what, uint64_t number, uint32_t bits)
{
	struct record r;

	record_fill(&r, 'r', what, OP_REPLACE, 0);
	r.slot = RANGE;
	r.sequence = number;
	r.handle = 1;
	r.length = bits;
	record_seal(&r);
	oracle_take(o, &r);
}

static void store(uint64_t number, uint32_t bits, char *range)
{
	const struct transactions all = { .seed = bits, .id = RANGE, .pages = PAGES, .most = MOST };

	transaction_store(&all, number, range);
}

/* The pages that are not the same in two ranges; returns their number. */
static uint32_t differing(const char *a, const char *b, uint32_t *pages)
{
	uint32_t i, nr = 0;

	for (i = 0; i < PAGES; i++)
		if (memcmp(a + i * TRANSACTION_PAGE, b + i * TRANSACTION_PAGE, TRANSACTION_PAGE))
			pages[nr++] = i;
	return nr;
}

static void copy_page(char *to, const char *from, uint32_t page, uint32_t bytes)
{
	memcpy(to + page * TRANSACTION_PAGE, from + page * TRANSACTION_PAGE, bytes);
}

/* The transaction that a range shows, or 0: none. */
static uint64_t shown(const struct oracle *o, const char *range)
{
	struct state found;

	return range_look(o, RANGE, range, &found) ? 0 : found.sequence;
}

/*
 * @older, @base, @next: the range before the last acknowledged transaction, after it, which is @last, and
 * after transaction @number, which is under way.
 */
static bool faults_found(const struct oracle *o, const char *older, const char *base, const char *next,
			 uint64_t last, uint64_t number, uint64_t *random)
{
	static char range[BYTES];
	uint32_t pages[PAGES], nr, page, some, i;

	CHECK(shown(o, base) == last);
	nr = differing(base, next, pages);
	if (nr)
		CHECK(shown(o, next) == number);
	/* A part of the transaction: some pages, all but one, a part of each page */
	if (nr > 1) {
		memcpy(range, base, BYTES);
		some = 1 + random_below(random, nr - 1);
		for (i = 0; i < some; i++)
			copy_page(range, next, pages[i], TRANSACTION_PAGE);
		CHECK(!shown(o, range));
		memcpy(range, next, BYTES);
		copy_page(range, base, pages[random_below(random, nr)], TRANSACTION_PAGE);
		CHECK(!shown(o, range));
	}
	for (i = 0; i < nr; i++) {
		memcpy(range, next, BYTES);
		copy_page(range, base, pages[i], 512 * (1 + random_below(random, 7)));
		CHECK(!shown(o, range));
	}
	/* The acknowledged one is lost: all of it, or a page */
	nr = differing(older, base, pages);
	if (nr) {
		CHECK(!shown(o, older));
		memcpy(range, base, BYTES);
		copy_page(range, older, pages[random_below(random, nr)], TRANSACTION_PAGE);
		CHECK(!shown(o, range));
	}
	/* A page in the place of another one; one bit */
	page = random_below(random, PAGES - 1);
	memcpy(range, base, BYTES);
	memcpy(range + page * TRANSACTION_PAGE, base + (page + 1) * TRANSACTION_PAGE, TRANSACTION_PAGE);
	if (memcmp(range, base, BYTES))
		CHECK(!shown(o, range));
	memcpy(range, base, BYTES);
	range[random_below(random, BYTES)] ^= 1 << random_below(random, 8);
	CHECK(!shown(o, range));
	return true;
}

/* ---- The tree ------------------------------------------------------------ */

#define KEYS	20000u
#define CHANGES	100000u

static uint64_t tree_values[2 * KEYS + 1];
static uint64_t tree_found, tree_wrong, tree_unmarked;
static uint8_t tree_marked[KEYS];

static void tree_mark(void *context, uint32_t page)
{
	(void)context;
	tree_marked[page] = 1;
}

static void tree_each(void *context, uint64_t key, const void *value)
{
	(void)context;
	tree_found++;
	tree_wrong += key > 2 * KEYS || memcmp(value, &tree_values[key], sizeof(uint64_t));
}

/* Every change has marked all pages that it has changed. */
static void tree_see_marks(const struct btree *tree, char *before)
{
	uint32_t page, used = btree_head(tree)->used;

	for (page = 0; page < used; page++) {
		const char *at = (const char *)tree->at + page * BTREE_PAGE;

		tree_unmarked += !tree_marked[page] && memcmp(at, before + page * BTREE_PAGE, BTREE_PAGE);
		tree_marked[page] = 0;
		memcpy(before + page * BTREE_PAGE, at, BTREE_PAGE);
	}
}

/* Keys in order, then puts and removes at random: the tree is as an array of values. */
static bool tree_right(uint32_t packed, uint64_t *random)
{
	struct btree tree = { .at = calloc(KEYS, BTREE_PAGE), .pages = KEYS, .mark = tree_mark };
	char *before = calloc(KEYS, BTREE_PAGE);
	uint64_t key, i, nr = 0;
	uint32_t *head;
	void *value;

	CHECK(tree.at && before);
	memset(tree_values, 0, sizeof(tree_values));
	tree_found = 0;
	btree_init(&tree);
	for (i = 1; i <= KEYS + CHANGES; i++) {
		bool put = i <= KEYS || random_chance(random, 60);

		key = i <= KEYS ? 2 * i : 1 + random_below(random, 2 * KEYS);
		nr += (put != 0) - (tree_values[key] != 0);
		if (!put) {
			CHECK(btree_remove(&tree, key) == (tree_values[key] != 0));
			tree_values[key] = 0;
		} else {
			value = btree_put(&tree, key, i <= KEYS ? packed : 0);
			CHECK(value);
			tree_values[key] = i;
			memcpy(value, &i, sizeof(i));
		}
		value = (void *)btree_find(&tree, key);
		CHECK(put ? value && !memcmp(value, &i, sizeof(i)) : !value);
		if (i % 1000 == 0)
			tree_see_marks(&tree, before);
	}
	CHECK(btree_walk(&tree, tree_each, NULL));
	CHECK(tree_found == nr && !tree_wrong && !tree_unmarked);
	/* A walk finds a page that is in use twice, and keys in a wrong place. */
	head = (uint32_t *)((char *)tree.at + (uint64_t)btree_head(&tree)->root * BTREE_PAGE);
	CHECK(head[0] == btree_head(&tree)->levels - 1 && head[1] > 1);
	head[4 + 2] = head[8 + 2];
	CHECK(!btree_walk(&tree, tree_each, NULL));
	free(before);
	free(tree.at);
	return true;
}

/* ---- Commits on it ------------------------------------------------------- */

#define COMMIT_KEYS	3000u
#define COMMIT_PAGES	600u
#define COMMITS		60u

static void commit_note(struct oracle *o, uint8_t what, uint64_t number, uint32_t bits)
{
	struct record r;

	record_fill(&r, 't', what, OP_REPLACE, 0);
	r.sequence = number;
	r.length = bits;
	record_seal(&r);
	oracle_take(o, &r);
}

static void nothing(void *context)
{
	(void)context;
}

/* The commit that a tree shows whole, or 0: none. */
static uint64_t commit_shown(struct btree *tree, const struct oracle *o)
{
	struct state found;

	return commits_look(tree, o, &found, nothing, NULL) ? 0 : found.sequence;
}

/* The tree before and after a commit under way: faults in each are found. */
static bool commit_faults(struct btree *tree, const char *base, const char *next, const struct oracle *o,
			  uint64_t number, uint64_t *random)
{
	uint32_t pages[COMMIT_PAGES], nr = 0, i, some;

	memcpy(tree->at, base, COMMIT_PAGES * BTREE_PAGE);
	CHECK(commit_shown(tree, o) == number - 1);
	memcpy(tree->at, next, COMMIT_PAGES * BTREE_PAGE);
	CHECK(commit_shown(tree, o) == number);
	for (i = 0; i < COMMIT_PAGES; i++)
		if (memcmp(base + i * BTREE_PAGE, next + i * BTREE_PAGE, BTREE_PAGE))
			pages[nr++] = i;
	CHECK(nr && !pages[0]);
	/* Any page of the commit is missing, or only some are there, with the first or without. */
	for (i = 1; i < nr; i++) {
		memcpy(tree->at, next, COMMIT_PAGES * BTREE_PAGE);
		copy_page(tree->at, base, pages[i], BTREE_PAGE);
		CHECK(!commit_shown(tree, o));
	}
	if (nr > 1) {
		memcpy(tree->at, base, COMMIT_PAGES * BTREE_PAGE);
		some = 1 + random_below(random, nr - 1);
		for (i = random_below(random, 2); i <= some && i < nr - 1; i++)
			copy_page(tree->at, next, pages[i], BTREE_PAGE);
		if (i > 1)
			CHECK(!commit_shown(tree, o));
	}
	return true;
}

static bool commits_right(uint64_t *random)
{
	struct btree tree = { .at = calloc(COMMIT_PAGES, BTREE_PAGE), .pages = COMMIT_PAGES,
			      .mark = tree_mark };
	char *base = calloc(COMMIT_PAGES, BTREE_PAGE), *next = calloc(COMMIT_PAGES, BTREE_PAGE);
	static struct oracle o;
	struct state found;
	struct verdict v = { 0 };
	uint64_t number;

	CHECK(tree.at && base && next && !commits_init(&o, COMMIT_KEYS, 64));
	zipf_setup(COMMIT_KEYS);
	for (number = 1; number <= COMMITS; number++) {
		bool fill = ((struct commits *)o.model)->filled < COMMIT_KEYS;
		uint32_t bits = fill ? 0 : (uint32_t)random_next(random) | 1, all = UINT32_MAX;

		memcpy(tree.at, next, COMMIT_PAGES * BTREE_PAGE);
		memcpy(base, next, COMMIT_PAGES * BTREE_PAGE);
		commit_note(&o, ISSUED, number, bits);
		CHECK(!commit_store(&tree, &o, number, bits, &all));
		CHECK(all && all <= (bits ? 25u : 56u * 20));
		memcpy(next, tree.at, COMMIT_PAGES * BTREE_PAGE);
		CHECK(number == 1 || commit_faults(&tree, base, next, &o, number, random));
		commit_note(&o, DURABLE, number, bits);
	}
	/* The acknowledged commit is lost. */
	memcpy(tree.at, base, COMMIT_PAGES * BTREE_PAGE);
	commits_look(&tree, &o, &found, nothing, NULL);
	verify_slot(&o, 0, &found, false, &v);
	CHECK(v.lost == 1);
	free(next);
	free(base);
	free(tree.at);
	return true;
}

#define GROUP_SLOTS	16u
#define GROUP_OPS	40u

/* The oracle takes an operation on an object or a key. */
static void group_note(struct oracle *o, uint8_t what, uint8_t op, uint64_t slot, uint64_t number, uint64_t group)
{
	struct record r;

	record_fill(&r, o->kind, what, op, 0);
	r.slot = slot;
	r.sequence = number;
	r.group = group;
	r.handle = o->kind == 'o' ? slot + 1 : 0;
	r.length = 100;
	record_seal(&r);
	oracle_take(o, &r);
}

/* So many objects, or keys, which operations 1 .. @nr have made. */
static bool group_begin(struct oracle *o, uint8_t kind, uint64_t nr)
{
	uint64_t slot;

	CHECK(!oracle_init(o, kind, nr));
	o->shows = true;
	for (slot = 0; slot < nr; slot++) {
		group_note(o, ISSUED, OP_ALLOC, slot, slot + 1, 0);
		group_note(o, DURABLE, OP_ALLOC, slot, slot + 1, 0);
	}
	return true;
}

static void group_end(struct oracle *o)
{
	uint64_t slot;

	for (slot = 0; slot < o->nr_slots; slot++)
		free(o->slots[slot].pending);
	free(o->slots);
	free(o->shown);
}

/* Verify all objects as they are after operation @cut, but object @fault as before operation @before. */
static uint64_t group_torn(struct oracle *o, uint64_t cut, uint64_t fault, uint64_t before)
{
	struct verdict v = { 0 };
	uint64_t slot, i, all;

	for (slot = 0; slot < o->nr_slots; slot++) {
		struct state found = o->slots[slot].base;

		for (i = 0; i < o->slots[slot].nr_pending; i++)
			if (o->slots[slot].pending[i].sequence <= cut &&
			    (slot != fault || o->slots[slot].pending[i].sequence < before))
				found = o->slots[slot].pending[i];
		verify_slot(o, slot, &found, false, &v);
	}
	return v.lost || v.corrupt ? ~0ull : oracle_torn(o, &all);
}

/* Objects after a cut, changed by groups and alone: none is torn, unless one object lacks what the others have. */
static bool groups_right(uint64_t *random)
{
	bool tear = random_below(random, 2);
	uint64_t group, cut, slot, number = GROUP_SLOTS + 1;
	struct oracle o;

	CHECK(group_begin(&o, 'o', GROUP_SLOTS));
	/* The first is a group of all; then some of some. */
	for (group = number, slot = 0; slot < GROUP_SLOTS; slot++, number++)
		group_note(&o, ISSUED, OP_REPLACE, slot, number, group);
	for (cut = number - 1; number < GROUP_OPS + 2 * GROUP_SLOTS; number++) {
		slot = random_below(random, GROUP_SLOTS / 2);
		group_note(&o, ISSUED, OP_REPLACE, slot, number, 0);
		if (random_below(random, 4) == 0)
			group_note(&o, DURABLE, OP_REPLACE, slot, number, 0);
	}
	if (random_below(random, 2))
		cut = number;
	CHECK(group_torn(&o, cut, tear ? GROUP_SLOTS - 1 : GROUP_SLOTS, group) == tear);
	group_end(&o);
	return true;
}

/*
 * A group changes one object and checks another, whose version is not known to be durable: a cut leaves the group with
 * that version or a later one, or does not leave it.
 */
static bool checks_right(void)
{
	enum { CHANGED, CHECKED, OBJECTS };
	enum { VERSION = OBJECTS + 1, GROUP, CHECKS, LATER };	/* operations, in order */
	static const struct {
		uint64_t cut, fault, before;
		bool torn, durable;
	} cases[] = {
		{ OBJECTS, OBJECTS, 0, false, false },
		{ VERSION, OBJECTS, 0, false, false },
		{ CHECKS, OBJECTS, 0, false, false },
		{ LATER, OBJECTS, 0, false, false },
		{ LATER, CHANGED, GROUP, false, false },	/* not the group, but what it has checked */
		{ CHECKS, CHECKED, VERSION, true, false },	/* the group alone */
		{ LATER, CHECKED, VERSION, true, false },
		{ CHECKS, OBJECTS, 0, false, true },
		{ LATER, OBJECTS, 0, false, true },
	};
	struct oracle o;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK(group_begin(&o, 'o', OBJECTS));
		group_note(&o, ISSUED, OP_REPLACE, CHECKED, VERSION, 0);
		group_note(&o, ISSUED, OP_REPLACE, CHANGED, GROUP, GROUP);
		group_note(&o, ISSUED, OP_CHECK, CHECKED, CHECKS, GROUP);
		if (cases[i].durable) {
			group_note(&o, DURABLE, OP_REPLACE, CHANGED, GROUP, GROUP);
			group_note(&o, DURABLE, OP_CHECK, CHECKED, CHECKS, GROUP);
			/* What the group depends on is durable with it. */
			CHECK(o.slots[CHECKED].base.sequence == VERSION);
		}
		CHECK(slot_now(&o.slots[CHECKED]).sequence == VERSION);
		group_note(&o, ISSUED, OP_REPLACE, CHECKED, LATER, 0);
		CHECK(group_torn(&o, cases[i].cut, cases[i].fault, cases[i].before) == cases[i].torn);
		CHECK(o.checks == !cases[i].durable);
		group_end(&o);
	}
	CHECK(group_begin(&o, 'o', OBJECTS));
	group_note(&o, ISSUED, OP_CHECK, CHECKED, VERSION, VERSION);
	CHECK(!group_torn(&o, VERSION, OBJECTS, 0) && !o.checks);	/* of what is durable */
	group_end(&o);
	return true;
}

/*
 * Keys after a cut: a group has put some that were there and some that were not, and removed others; later changes are
 * of a part of them.  None is torn, unless one key is as it was before the group; which one it is does not matter.
 */
static bool keys_right(uint64_t *random)
{
	enum { THERE = GROUP_SLOTS / 2, LATER = GROUP_SLOTS / 4 };
	uint64_t fault = random_below(random, 2) ? GROUP_SLOTS : LATER + random_below(random, GROUP_SLOTS - LATER);
	uint64_t slot, group, number = GROUP_SLOTS + 1, cut;
	struct oracle o;

	CHECK(group_begin(&o, 'i', GROUP_SLOTS));
	for (slot = THERE; slot < GROUP_SLOTS; slot++, number++) {
		group_note(&o, ISSUED, OP_FREE, slot, number, 0);
		group_note(&o, DURABLE, OP_FREE, slot, number, 0);
	}
	for (group = number, slot = 0; slot < GROUP_SLOTS; slot++, number++)
		group_note(&o, ISSUED, slot < THERE && slot % 2 ? OP_FREE : OP_REPLACE, slot, number, group);
	for (cut = number - 1; number < group + GROUP_OPS; number++)
		group_note(&o, ISSUED, random_below(random, 2) ? OP_FREE : OP_REPLACE, random_below(random, LATER), number, 0);
	CHECK(group_torn(&o, random_below(random, 2) ? number : cut, fault, group) == (fault < GROUP_SLOTS));
	group_end(&o);
	return true;
}

/*
 * An object was made without a wait, and asked for again with one, by what @what answers: durable, it is there after any cut;
 * else it is there or not.
 */
static bool asked_right(uint8_t what)
{
	struct state none = { .op = OP_FREE };
	struct verdict v = { 0 };
	struct oracle o;

	CHECK(!oracle_init(&o, 'i', 1));
	group_note(&o, ISSUED, OP_ALLOC, 0, 1, 0);
	group_note(&o, DONE, OP_ALLOC, 0, 1, 0);
	group_note(&o, ISSUED, OP_CHECK, 0, 2, 0);
	group_note(&o, what, OP_CHECK, 0, 2, 0);
	verify_slot(&o, 0, &none, false, &v);
	CHECK(v.lost == (what == DURABLE));
	CHECK(!o.checks);
	group_end(&o);
	return true;
}

int main(void)
{
	static char older[BYTES], base[BYTES], next[BYTES];
	const char *given = getenv("LSMEM_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : 1, random = seed, number, last = 0;
	static struct oracle o;
	bool right = true;
	uint32_t bits, last_bits = 0, i;

	if (ranges_init(&o, 2, PAGES, MOST))
		return 1;
	tap_note("seed %llu", (unsigned long long)seed);
	/* What the comparison prints of each fault */
	if (!freopen("/dev/null", "w", stderr))
		return 1;
	for (number = 1; right && number <= ROUNDS; number++) {
		bits = random_next(&random);
		take(&o, ISSUED, number, bits);
		store(number, bits, next);
		right = !last || faults_found(&o, older, base, next, last, number, &random);
		take(&o, DONE, number, bits);
		if (last && random_chance(&random, 30)) {	/* a cut has undone it */
			take(&o, RESOLVED, last, last_bits);
			memcpy(next, base, BYTES);
			continue;
		}
		take(&o, random_chance(&random, 50) ? DURABLE : RESOLVED, number, bits);
		memcpy(older, base, BYTES);
		memcpy(base, next, BYTES);
		last = number;
		last_bits = bits;
	}
	tap_ok(right, "a range shows one transaction, and no fault is taken for one");
	tap_ok(tree_right(0, &random), "a tree, split in halves");
	tap_ok(tree_right(20, &random), "a tree that was filled in order");
	tap_ok(commits_right(&random), "a tree shows one commit, and no fault is taken for one");
	setenv("LSMEM_JOURNAL", "/dev/null", 1);
	right = !journal_open();
	for (i = 0; i < ROUNDS && right; i++)
		right = groups_right(&random);
	tap_ok(right, "a group is there or not, and one that is torn is found");
	tap_ok(checks_right(), "so is one without what it has checked");
	for (i = 0, right = true; i < ROUNDS && right; i++)
		right = keys_right(&random);
	tap_ok(right, "a group of keys is there or not, and one that is torn is found");
	tap_ok(asked_right(DURABLE) && asked_right(DONE), "an object that was asked for again, and is durable, is there");
	return tap_end();
}
