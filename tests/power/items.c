// SPDX-License-Identifier: GPL-2.0
/*
 * Items of tables with keys under power cuts, objects with them, and roots.
 *
 * Half of the batches are groups: keys of several tables are put, removed and checked, and objects made, replaced and
 * checked, all or none, half of them durable.  The others are single changes, likewise.  The last slots are roots,
 * whose handles are the sequence; each is changed only if it names what its thread has set.
 *
 * Some slots are keys of a table of their own, for whose objects lsm_table_alloc() asks, again and again: what is there
 * must be the same object each time, also after a cut.  Asked for with LSM_DURABLE it is durable from then on, also if it
 * was made without: the oracle takes that as a durable check.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lsmem.h>

#include "acked.h"

#define ITEMS_TABLES	4u
#define ASKED		3u	/* index of the table whose keys lsm_table_alloc() asks for */
#define ITEMS_TABLE	100u	/* the first one's id */
#define OBJECTS_TABLE	99u
#define ITEMS_BATCH	16u
#define SYNC_EVERY	12u	/* batches that are not durable */
#define ITEM_MAX	600u
#define ITEM_KEY	32u
#define ROOTS		4u

/* One client's. */
struct items {
	struct lsm *lsm;
	struct lsm_table *tables[ITEMS_TABLES];
};

static void die(const char *what, int error)
{
	fprintf(stderr, "acked: %s: %s\n", what, strerror(-error));
	exit(1);
}

static void open_items(const char *path, struct items *items)
{
	uint32_t i;
	int ret;

	do {
		ret = lsm_open(path, 0, &items->lsm);
	} while (ret == -EAGAIN && wait_store());
	if (ret)
		die("lsm_open", ret);
	for (i = 0; i < ITEMS_TABLES; i++) {
		ret = lsm_table_open(items->lsm, ITEMS_TABLE + i, 0, &items->tables[i]);
		if (ret)
			die("lsm_table_open", ret);
	}
}

/* What a slot is, besides a key of a table. */
static bool is_root(const struct oracle *o, uint64_t slot)
{
	return slot >= o->nr_slots - ROOTS;
}

static bool is_object(const struct oracle *o, uint64_t slot)
{
	return !is_root(o, slot) && slot / WRITERS % 8 == 7;
}

static bool is_asked(const struct oracle *o, uint64_t slot)
{
	return !is_root(o, slot) && slot / WRITERS % 8 == 6;
}

static struct lsm_table *table_of(const struct items *items, const struct oracle *o, uint64_t slot)
{
	return items->tables[is_asked(o, slot) ? ASKED : slot / WRITERS % ASKED];
}

static size_t item_key(uint64_t slot, char *key)
{
	return (size_t)sprintf(key, "item %llu", (unsigned long long)slot);
}

static const char *root_name(uint64_t slot, char *name)
{
	sprintf(name, "root %llu", (unsigned long long)slot);
	return name;
}

static bool present(const struct state *s)
{
	return s->op == OP_ALLOC || s->op == OP_REPLACE;
}

/* ---- Changes ------------------------------------------------------------ */

/* A change of a slot, or, with OP_CHECK, a look at it.  Objects stay, once they are there. */
static void record_change(struct work *w, struct record *r, uint64_t slot, bool check)
{
	struct state now = slot_now(&w->oracle->slots[slot]);
	bool root = is_root(w->oracle, slot), object = is_object(w->oracle, slot);
	uint8_t op = OP_REPLACE;

	if (is_asked(w->oracle, slot))
		op = !present(&now) ? OP_ALLOC : random_chance(&w->random, 50) ? OP_CHECK : OP_FREE;
	else if (present(&now) && check)
		op = OP_CHECK;
	else if (object && !present(&now))
		op = OP_ALLOC;
	else if (!object && present(&now) && random_chance(&w->random, 40))
		op = OP_FREE;
	record_fill(r, 'i', ISSUED, op, w->thread);
	r->slot = slot;
	r->sequence = atomic_fetch_add(w->sequence, 1) + 1;
	r->handle = object || op == OP_CHECK ? now.handle : 0;
	if (op == OP_ALLOC || op == OP_REPLACE)
		r->length = root ? sizeof(r->sequence) : 32 + random_below(&w->random, ITEM_MAX - 32);
}

/* A root names what its thread has set: with anything else as what is expected, it does not change. */
static int change_root(struct lsm *lsm, const struct record *r, const struct state *now, unsigned int flags)
{
	uint64_t expected = present(now) ? now->sequence : 0, other = r->sequence;
	char name[ITEM_KEY];
	int ret;

	root_name(r->slot, name);
	ret = lsm_root_set(lsm, name, r->sequence, flags, &other);
	if (ret != -EILSEQ)
		die("a root that names something else", ret ? ret : -EILSEQ);
	ret = lsm_root_set(lsm, name, r->op == OP_FREE ? 0 : r->sequence, flags, &expected);
	if (ret == -EILSEQ)
		die("a root that does not name what it was set to", ret);
	return ret;
}

/* Whether an item of a key is the object, with the value, that was made */
static bool is_same(struct lsm_table *table, const char *key, size_t key_length, uint64_t slot, const struct state *made,
		    const struct lsm_item *item)
{
	struct lsm_item now;
	uint8_t data[ITEM_MAX];
	uint64_t sequence;
	ssize_t length;

	length = lsm_table_get(table, key, key_length, data, sizeof(data), &now);
	return length == made->length && item->length == made->length && now.handle == item->handle &&
	       (!made->handle || made->handle == item->handle) && content_right(data, (uint32_t)length, slot, &sequence) &&
	       sequence == made->sequence;
}

/* Asks for the object of a key, which is made if it is not there: of one that is there nothing changes. */
static int ask(const struct items *items, const struct oracle *o, struct record *r, const struct state *now,
	       unsigned int flags)
{
	struct lsm_table *table = table_of(items, o, r->slot);
	uint8_t data[ITEM_MAX];
	struct lsm_item item;
	char key[ITEM_KEY];
	uint32_t length = r->length ? r->length : ITEM_MAX / 2;
	size_t key_length = item_key(r->slot, key);
	int ret;

	content_fill(data, length, r->slot, r->sequence);
	ret = lsm_table_alloc(table, key, key_length, data, length, flags, &item);
	if (ret < 0)
		return ret;
	if (ret != present(now)) {
		fprintf(stderr, "acked: item %llu: made %s\n", (unsigned long long)r->slot, ret ? "before" : "again");
		exit(1);
	}
	if (ret && !is_same(table, key, key_length, r->slot, now, &item)) {
		fprintf(stderr, "acked: item %llu: another object than before\n", (unsigned long long)r->slot);
		exit(1);
	}
	r->handle = item.handle;
	return 0;
}

static int change_one(const struct items *items, const struct oracle *o, struct record *r, const struct state *now,
		      unsigned int flags)
{
	struct lsm_table *table = table_of(items, o, r->slot);
	uint8_t data[ITEM_MAX];
	char key[ITEM_KEY];
	int ret;

	if (is_root(o, r->slot))
		return change_root(items->lsm, r, now, flags);
	if (is_asked(o, r->slot) && r->op != OP_FREE)
		return ask(items, o, r, now, flags);
	if (r->op == OP_FREE) {
		ret = lsm_table_remove(table, key, item_key(r->slot, key), flags, NULL);
		if (ret == -ENOENT) {
			fprintf(stderr, "acked: item %llu is not there\n", (unsigned long long)r->slot);
			exit(1);
		}
		return ret;
	}
	content_fill(data, r->length, r->slot, r->sequence);
	if (r->op == OP_ALLOC)
		return lsm_alloc(items->lsm, data, r->length, flags | LSM_TABLE(OBJECTS_TABLE), &r->handle, NULL);
	if (is_object(o, r->slot))
		return lsm_replace(items->lsm, r->handle, data, r->length, flags, NULL);
	return lsm_table_put(table, key, item_key(r->slot, key), data, r->length, flags, NULL);
}

static void note(struct work *w, struct record *records, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr; i++) {
		record_seal(&records[i]);
		oracle_take(w->oracle, &records[i]);
	}
	journal_write(records, nr);
}

static uint8_t what_of(int ret, bool durable)
{
	if (ret == -ENOSPC || ret == -EBUSY)
		return REFUSED;
	if (ret && ret != -ETIMEDOUT)
		die("an item", ret);
	return durable && !ret ? DURABLE : DONE;
}

static void change_slot(struct work *w, const struct items *items, uint64_t slot, bool durable)
{
	struct state now = slot_now(&w->oracle->slots[slot]);
	struct record r;
	int ret;

	record_change(w, &r, slot, false);
	note(w, &r, 1);
	ret = change_one(items, w->oracle, &r, &now, durable ? LSM_DURABLE : 0);
	r.what = what_of(ret, durable);
	note(w, &r, 1);
}

/* Changes of slots of the thread's own, one after the other; the first is a root. */
static void change_each(struct work *w, const struct items *items, bool durable)
{
	uint64_t mine = w->oracle->nr_slots / w->step, at = random_next(&w->random), slot;
	uint32_t i;

	for (i = 0; i < ITEMS_BATCH; i++) {
		do {
			slot = i ? w->first + (at + i * 61) % mine * w->step :
			       w->oracle->nr_slots - 1 - random_below(&w->random, ROOTS);
		} while (slot % w->step != w->first);
		change_slot(w, items, slot, durable);
		/* What was made without a wait has to be durable as soon as the second call tells so. */
		if (!durable && is_asked(w->oracle, slot))
			change_slot(w, items, slot, true);
	}
}

/* ---- Groups ------------------------------------------------------------- */

/**
 * struct group - a group, of different slots
 * @records: its operations, @nr
 * @items: those on keys, @nr_items
 * @ops: those on objects, @nr_ops
 * @data: bytes of each
 * @keys: of @items
 * @before: slots of the group before, @nr_before
 */
struct group {
	struct record records[ITEMS_BATCH];
	uint32_t nr;
	struct lsm_item_op items[ITEMS_BATCH];
	uint32_t nr_items;
	struct lsmem_op ops[ITEMS_BATCH];
	uint32_t nr_ops;
	uint8_t data[ITEMS_BATCH][ITEM_MAX];
	char keys[ITEMS_BATCH][ITEM_KEY];
	uint64_t before[ITEMS_BATCH];
	uint32_t nr_before;
};

static struct lsmem_op object_op(const struct record *r, const uint8_t *data)
{
	if (r->op == OP_CHECK)
		return lsm_op_check(r->handle, 0, 0);
	if (r->op == OP_ALLOC)
		return lsm_op_alloc(data, r->length, LSM_TABLE(OBJECTS_TABLE));
	return lsm_op_replace(r->handle, data, r->length, 0, 0);
}

static struct lsm_item_op item_op(const struct items *items, const struct oracle *o, const struct record *r,
				  const uint8_t *data, char *key)
{
	struct lsm_item_op item = { .table = table_of(items, o, r->slot), .key = key };

	item.key_length = item_key(r->slot, key);
	if (r->op == OP_REPLACE) {
		item.op = LSM_ITEM_PUT;
		item.value = data;
		item.length = r->length;
	} else {
		item.op = r->op == OP_FREE ? LSM_ITEM_REMOVE : LSM_ITEM_CHECK;
	}
	return item;
}

static void group_add(struct work *w, const struct items *items, struct group *group, uint64_t slot, bool check)
{
	struct record *r = &group->records[group->nr];
	uint8_t *data = group->data[group->nr];
	uint32_t i;

	for (i = 0; i < group->nr; i++)
		if (group->records[i].slot == slot)
			return;
	if (group->nr == ITEMS_BATCH || is_root(w->oracle, slot) || is_asked(w->oracle, slot))
		return;
	record_change(w, r, slot, check);
	r->group = group->records[0].sequence;
	content_fill(data, r->length, slot, r->sequence);
	if (is_object(w->oracle, slot))
		group->ops[group->nr_ops++] = object_op(r, data);
	else
		group->items[group->nr_items++] = item_op(items, w->oracle, r, data,
							   group->keys[group->nr]);
	group->nr++;
}

/* Makes a group of changes, and of checks of some that the group before has changed. */
static void change_group(struct work *w, const struct items *items, struct group *group, bool durable)
{
	uint64_t mine = w->oracle->nr_slots / w->step, at = random_next(&w->random);
	uint32_t changes = 2 + random_below(&w->random, ITEMS_BATCH - 2), i, op = 0;
	uint8_t what;
	int ret;

	group->nr = group->nr_items = group->nr_ops = 0;
	for (i = 0; i < changes; i++)
		group_add(w, items, group, w->first + (at + i * 61) % mine * w->step, false);
	for (i = 0; i < group->nr_before; i++)
		if (random_chance(&w->random, 40))
			group_add(w, items, group, group->before[i], true);
	if (!group->nr)
		return;
	note(w, group->records, group->nr);
	ret = lsm_table_group(items->lsm, group->items, group->nr_items, group->ops, group->nr_ops,
			      durable ? LSM_DURABLE : 0);
	what = what_of(ret, durable);
	group->nr_before = group->nr;
	for (i = 0; i < group->nr; i++) {
		struct record *r = &group->records[i];

		r->what = what;
		if (is_object(w->oracle, r->slot))
			r->handle = what == REFUSED ? r->handle : group->ops[op].handle;
		op += is_object(w->oracle, r->slot);
		group->before[i] = r->slot;
	}
	note(w, group->records, group->nr);
}

static void sync_items(struct work *w, const struct items *items)
{
	struct record synced;
	int ret;

	ret = lsm_sync(items->lsm, 0);
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
	struct group *group = calloc(1, sizeof(*group));
	uint32_t unsynced = 0;
	struct work *w = arg;
	struct items items;
	bool durable;

	if (!group)
		die("memory", -ENOMEM);
	open_items(w->path, &items);
	atomic_fetch_add(w->ready, 1);
	for (;;) {
		durable = random_chance(&w->random, 50);
		if (random_chance(&w->random, 50))
			change_group(w, &items, group, durable);
		else
			change_each(w, &items, durable);
		atomic_fetch_add(&figures.changes, ITEMS_BATCH);
		if (!durable && ++unsynced % SYNC_EVERY == 0)
			sync_items(w, &items);
	}
	return NULL;
}

/* ---- Verification ------------------------------------------------------- */

/* Read an object that has one of the slot's handles: all that it may have are the same. */
static ssize_t object_look(const struct items *items, const struct slot *slot, uint8_t *data, struct state *found)
{
	uint64_t handle = slot->base.handle;
	uint32_t i;

	for (i = 0; i < slot->nr_pending && !handle; i++)
		handle = slot->pending[i].handle;
	found->handle = handle;
	return handle ? lsm_read(items->lsm, handle, data, ITEM_MAX, 0, NULL) : -ENOENT;
}

/*
 * The object of a key that was found: it is one that was made, and who asks for it again gets it, and changes nothing.
 * Returns true if that is not so.
 */
static bool asked_wrong(const struct items *items, const struct oracle *o, uint64_t number, struct state *found,
			const struct lsm_item *item, struct verdict *v)
{
	const struct slot *slot = &o->slots[number];
	struct lsm_item again;
	char key[ITEM_KEY];
	size_t key_length = item_key(number, key);
	uint32_t i;
	int ret;

	found->handle = item->handle;
	v->item_asked++;
	ret = lsm_table_alloc(table_of(items, o, number), key, key_length, "again", 5, 0, &again);
	if (ret < 0)
		die("lsm_table_alloc", ret);
	if (ret != 1 || again.handle != item->handle || again.version != item->version || again.length != item->length)
		return true;
	for (i = 0; i < slot->nr_pending; i++)
		if (slot->pending[i].sequence == found->sequence && slot->pending[i].handle &&
		    slot->pending[i].handle != item->handle)
			return true;
	return slot->base.sequence == found->sequence && slot->base.handle && slot->base.handle != item->handle;
}

/* Read an item and set @found.  Returns true if its bytes are not those that were written. */
static bool item_look(const struct items *items, const struct oracle *o, uint64_t slot, struct state *found,
		      struct verdict *v)
{
	uint8_t data[ITEM_MAX];
	struct lsm_item item;
	char key[ITEM_KEY];
	uint64_t root;
	ssize_t ret;
	bool right;

	*found = (struct state){ .op = OP_FREE };
	if (is_root(o, slot)) {
		ret = lsm_root_get(items->lsm, root_name(slot, key), &root);
		if (!ret)
			*found = (struct state){ .op = OP_REPLACE, .sequence = root, .length = sizeof(root) };
		if (ret && ret != -ENOENT)
			die("a root", (int)ret);
		return false;
	}
	if (is_object(o, slot))
		ret = object_look(items, &o->slots[slot], data, found);
	else
		ret = lsm_table_get(table_of(items, o, slot), key, item_key(slot, key), data, sizeof(data),
				    &item);
	if (ret == -ENOENT || ret == -ESTALE) {
		found->handle = 0;
		return false;
	}
	if (ret < 0)
		die("an item", (int)ret);
	found->op = OP_REPLACE;
	found->length = (uint32_t)ret;
	right = content_right(data, (uint32_t)ret, slot, &found->sequence);
	return !right || (is_asked(o, slot) && asked_wrong(items, o, slot, found, &item, v));
}

/* A table has each key once, and those alone that the index finds. */
static void verify_table(const struct items *items, struct lsm_table *table, const struct oracle *o, uint8_t *seen,
			 struct verdict *v)
{
	uint64_t cursor = 0, slot;
	char key[ITEM_KEY];
	size_t length;
	int ret;

	for (;;) {
		length = sizeof(key) - 1;
		ret = lsm_table_next(table, &cursor, key, &length, NULL, 0, NULL);
		if (ret <= 0)
			break;
		key[length < sizeof(key) ? length : sizeof(key) - 1] = 0;
		if (sscanf(key, "item %llu", (unsigned long long *)&slot) != 1 || slot >= o->nr_slots || seen[slot]++ ||
		    table_of(items, o, slot) != table || is_root(o, slot) || is_object(o, slot) ||
		    lsm_table_get(table, key, length, NULL, 0, NULL) < 0) {
			fprintf(stderr, "an item that is not right: %s\n", key);
			v->corrupt++;
		}
	}
	if (ret)
		die("lsm_table_next", ret);
}

void verify_items(const char *path, struct oracle *o, struct verdict *v)
{
	uint8_t *seen = calloc(o->nr_slots, 1);
	struct state found;
	struct items items;
	uint64_t slot;
	bool corrupt;
	uint32_t i;

	if (!seen)
		die("memory", -ENOMEM);
	open_items(path, &items);
	for (slot = 0; slot < o->nr_slots; slot++) {
		corrupt = item_look(&items, o, slot, &found, v);
		verify_slot(o, slot, &found, corrupt, v);
	}
	v->corrupt += oracle_torn(o, &v->item_groups);
	for (i = 0; i < ITEMS_TABLES; i++) {
		verify_table(&items, items.tables[i], o, seen, v);
		lsm_table_close(items.tables[i]);
	}
	free(seen);
	lsm_close(items.lsm);
}
