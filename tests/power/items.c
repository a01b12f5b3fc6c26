// SPDX-License-Identifier: GPL-2.0
/*
 * Items of a table with keys under power cuts, and a root: durable puts and removes; others, then a sync.  The last slot
 * is the root, whose handle is the sequence.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lsmem.h>

#include "acked.h"

#define ITEMS_TABLE	100u
#define ITEMS_BATCH	16u
#define ITEM_MAX	600u
#define ROOT		"items"

static void die(const char *what, int error)
{
	fprintf(stderr, "acked: %s: %s\n", what, strerror(-error));
	exit(1);
}

static void open_items(const char *path, struct lsm **lsm, struct lsm_table **table)
{
	int ret;

	do {
		ret = lsm_open(path, 0, lsm);
	} while (ret == -EAGAIN && wait_store());
	if (ret)
		die("lsm_open", ret);
	ret = lsm_table_open(*lsm, ITEMS_TABLE, 0, table);
	if (ret)
		die("lsm_table_open", ret);
}

static size_t item_key(uint64_t slot, char *key)
{
	return (size_t)sprintf(key, "item %llu", (unsigned long long)slot);
}

static bool is_root(const struct oracle *o, uint64_t slot)
{
	return slot == o->nr_slots - 1;
}

static int change_one(struct lsm *lsm, struct lsm_table *table, const struct oracle *o, const struct record *r,
		      unsigned int flags)
{
	uint8_t data[ITEM_MAX];
	char key[32];
	int ret;

	if (is_root(o, r->slot))
		return lsm_root_set(lsm, ROOT, r->op == OP_FREE ? 0 : r->sequence, flags, NULL);
	if (r->op == OP_FREE) {
		ret = lsm_table_remove(table, key, item_key(r->slot, key), flags, NULL);
		if (ret == -ENOENT) {
			fprintf(stderr, "acked: item %llu is not there\n", (unsigned long long)r->slot);
			exit(1);
		}
		return ret;
	}
	content_fill(data, r->length, r->slot, r->sequence);
	return lsm_table_put(table, key, item_key(r->slot, key), data, r->length, flags, NULL);
}

/* Change some items, of the thread's own. */
static void items_batch(struct work *w, struct lsm *lsm, struct lsm_table *table, bool durable)
{
	uint64_t mine = w->oracle->nr_slots / w->step, at = random_next(&w->random);
	struct record r, synced;
	struct state now;
	uint32_t i;
	int ret;

	for (i = 0; i < ITEMS_BATCH; i++) {
		uint64_t slot = w->first + (at + i * 61) % mine * w->step;

		/* Each batch of its thread changes the root. */
		if (!i && (w->oracle->nr_slots - 1) % w->step == w->first)
			slot = w->oracle->nr_slots - 1;

		now = slot_now(&w->oracle->slots[slot]);
		record_fill(&r, 'i', ISSUED, random_chance(&w->random, 40) && now.op == OP_REPLACE ? OP_FREE :
			    OP_REPLACE, w->thread);
		r.slot = slot;
		r.sequence = atomic_fetch_add(w->sequence, 1) + 1;
		r.length = r.op == OP_FREE ? 0 : is_root(w->oracle, slot) ? sizeof(r.sequence) :
			   32 + random_below(&w->random, ITEM_MAX - 32);
		record_seal(&r);
		oracle_take(w->oracle, &r);
		journal_write(&r, 1);
		ret = change_one(lsm, table, w->oracle, &r, durable ? LSM_DURABLE : 0);
		if (ret && ret != -ENOSPC && ret != -ETIMEDOUT)
			die("an item", ret);
		r.what = ret == -ENOSPC ? REFUSED : durable && !ret ? DURABLE : DONE;
		record_seal(&r);
		oracle_take(w->oracle, &r);
		journal_write(&r, 1);
	}
	atomic_fetch_add(&figures.changes, ITEMS_BATCH);
	if (durable)
		return;
	ret = lsm_sync(lsm, 0);
	if (ret)
		die("sync", ret);
	record_fill(&synced, 'i', SYNCED, OP_NONE, w->thread);
	synced.sequence = atomic_load(w->sequence);
	record_seal(&synced);
	journal_write(&synced, 1);
	oracle_take(w->oracle, &synced);
}

void *load_items(void *arg)
{
	struct work *w = arg;
	struct lsm_table *table;
	struct lsm *lsm;

	open_items(w->path, &lsm, &table);
	atomic_fetch_add(w->ready, 1);
	for (;;)
		items_batch(w, lsm, table, random_next(&w->random) % 2);
	return NULL;
}

/* Read an item and set @found.  Returns true if its bytes are not those that were written. */
static bool item_look(struct lsm *lsm, struct lsm_table *table, const struct oracle *o, uint64_t slot,
		      struct state *found)
{
	uint8_t data[ITEM_MAX];
	uint64_t root;
	char key[32];
	ssize_t ret;

	*found = (struct state){ .op = OP_FREE };
	if (is_root(o, slot)) {
		ret = lsm_root_get(lsm, ROOT, &root);
		if (!ret)
			*found = (struct state){ .op = OP_REPLACE, .sequence = root, .length = sizeof(root) };
		if (ret && ret != -ENOENT)
			die("a root", (int)ret);
		return false;
	}
	ret = lsm_table_get(table, key, item_key(slot, key), data, sizeof(data), NULL);
	if (ret == -ENOENT)
		return false;
	if (ret < 0)
		die("an item", (int)ret);
	*found = (struct state){ .op = OP_REPLACE, .length = (uint32_t)ret };
	return !content_right(data, (uint32_t)ret, slot, &found->sequence);
}

void verify_items(const char *path, struct oracle *o, struct verdict *v)
{
	uint8_t *seen = calloc(o->nr_slots, 1);
	uint64_t cursor = 0, slot;
	struct lsm_table *table;
	struct state found;
	struct lsm *lsm;
	size_t length;
	bool corrupt;
	char key[32];
	int ret;

	if (!seen)
		die("memory", -ENOMEM);
	open_items(path, &lsm, &table);
	for (slot = 0; slot < o->nr_slots; slot++) {
		corrupt = item_look(lsm, table, o, slot, &found);
		verify_slot(o, slot, &found, corrupt, v);
	}
	/* The store has each key once, and those alone that the index finds. */
	for (;;) {
		length = sizeof(key) - 1;
		ret = lsm_table_next(table, &cursor, key, &length, NULL, 0, NULL);
		if (ret <= 0)
			break;
		key[length < sizeof(key) ? length : sizeof(key) - 1] = 0;
		if (sscanf(key, "item %llu", (unsigned long long *)&slot) != 1 || slot >= o->nr_slots || seen[slot]++ ||
		    lsm_table_get(table, key, length, NULL, 0, NULL) < 0) {
			fprintf(stderr, "an item that is not right: %s\n", key);
			v->corrupt++;
		}
	}
	if (ret)
		die("lsm_table_next", ret);
	free(seen);
	lsm_table_close(table);
	lsm_close(lsm);
}
