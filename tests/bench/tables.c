// SPDX-License-Identifier: GPL-2.0
/*
 * A table with keys of liblsmem, and a hash table in the memory of a process, which is the limit: open addressing, a
 * pointer to each item, a copy of its value.  -n items of -s bytes; keys of 16 bytes.  Orders, of any item unless it
 * says otherwise; each answers nanoseconds for one, and how many there were:
 *
 *	get SECONDS		lsm_table_get()
 *	gets SECONDS		lsm_table_get_many(), batches of -b
 *	put SECONDS		lsm_table_put() of keys that are there
 *	puts SECONDS		lsm_table_put_many() of keys that are there, batches of -b
 *	add NR			lsm_table_put() of new keys
 *	remove NR		lsm_table_remove() of those that "add" has added
 *	open NR			lsm_table_open() that makes the index of as many items, which are in a store of their own
 *				and were not put into a table; for one of them.  The hash table: records that are
 *				there, in the order of memory, into a table that has none
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <asm/byteorder.h>
#include <lsmem/lsmem_format.h>

#include "../guest/store.h"
#include "bench.h"

#define TABLE		1u
#define KEY_BYTES	16u
#define CHECK		64u	/* operations between looks at the clock */
#define BATCH_MAX	64u

struct key {
	uint64_t words[KEY_BYTES / 8];
};

/*
 * struct kind - a table, with keys of struct key; items that @get, @gets, @put, @puts and @remove name are there; @open
 * returns the nanoseconds that it took
 */
struct kind {
	void (*get)(const struct key *key, uint8_t *value);
	void (*gets)(const struct key *keys, uint8_t *values, uint32_t nr);
	void (*put)(const struct key *key, const uint8_t *value);
	void (*puts)(const struct key *keys, const uint8_t *values, uint32_t nr);
	void (*add)(const struct key *key, const uint8_t *value);
	void (*remove)(const struct key *key);
	uint64_t (*open)(const struct bench *bench, uint64_t nr);
};

static const struct kind *kind;
static uint32_t size, batch;
static uint64_t nr_items, state = 1;
static uint8_t *values;		/* as many as a batch */

static struct key key_of(uint64_t item)
{
	return (struct key){ { item, item ^ 0x6b6579206f662062ull } };
}

/* ---- liblsmem -------------------------------------------------------------------- */

static struct store store;
static struct lsm_table *table;

static void check(const char *what, ssize_t got, ssize_t wanted)
{
	if (got != wanted)
		fail(what, got < 0 ? (int)-got : EBADMSG);
}

static void table_get(const struct key *key, uint8_t *value)
{
	check("get", lsm_table_get(table, key, sizeof(*key), value, size, NULL), size);
}

static void table_gets(const struct key *keys, uint8_t *to, uint32_t nr)
{
	struct lsm_get gets[BATCH_MAX];
	uint32_t i;

	for (i = 0; i < nr; i++)
		gets[i] = (struct lsm_get){ .key = &keys[i], .key_length = sizeof(*keys), .value = to + i * size,
					    .room = size };
	lsm_table_get_many(table, gets, nr);
	for (i = 0; i < nr; i++)
		check("get", gets[i].result, size);
}

static void table_put(const struct key *key, const uint8_t *value)
{
	check("put", lsm_table_put(table, key, sizeof(*key), value, size, LSM_OLD, NULL), 0);
}

static void table_puts(const struct key *keys, const uint8_t *from, uint32_t nr)
{
	struct lsm_put puts[BATCH_MAX];
	uint32_t i;

	for (i = 0; i < nr; i++)
		puts[i] = (struct lsm_put){ .key = &keys[i], .key_length = sizeof(*keys), .value = from + i * size,
					    .length = size };
	check("put", lsm_table_put_many(table, puts, nr, 0), 0);
	for (i = 0; i < nr; i++)
		check("put", puts[i].result, 0);
}

static void table_add(const struct key *key, const uint8_t *value)
{
	check("put", lsm_table_put(table, key, sizeof(*key), value, size, LSM_NEW, NULL), 0);
}

static void table_remove(const struct key *key)
{
	check("remove", lsm_table_remove(table, key, sizeof(*key), 0, NULL), 0);
}

/* struct item - an object that is an item of a table, as lsmem_format.h says; @end is behind the key */
struct item {
	struct key key;
	struct lsmem_item_end end;
} __attribute__((packed));

/* Makes items of TABLE in a store, whose index is not there. */
static void make_items(struct lsm *lsm, uint64_t nr)
{
	uint64_t bytes = size + sizeof(struct item), made, i;
	uint8_t *objects = get_memory(BATCH_MAX * bytes, 64);
	struct lsmem_op ops[BATCH_MAX];

	for (made = 0; made < nr; made += i) {
		for (i = 0; i < BATCH_MAX && made + i < nr; i++) {
			struct item item = { key_of(made + i), { __cpu_to_le16(KEY_BYTES) } };

			memcpy(objects + i * bytes + size, &item, sizeof(item));
			ops[i] = lsm_op_alloc(objects + i * bytes, (uint32_t)bytes, LSM_TABLE(TABLE));
		}
		check("alloc", lsm_vector(lsm, ops, i, 0, NULL), 0);
		check("alloc", ops[i - 1].result, 0);
	}
	free(objects);
}

static uint64_t table_open(const struct bench *bench, uint64_t nr)
{
	struct key last = key_of(nr - 1);
	struct lsm_table *opened;
	struct store full;
	uint64_t took;

	check("store", store_create(&full, bench->bytes, nr + 1, 0), 0);
	make_items(full.lsm, nr);
	took = now_ns();
	check("open", lsm_table_open(full.lsm, TABLE, 0, &opened), 0);
	took = now_ns() - took;
	check("get", lsm_table_get(opened, &last, sizeof(last), values, size, NULL), size);
	lsm_table_close(opened);
	store_destroy(&full);
	return took;
}

static const struct kind table_kind = {
	table_get, table_gets, table_put, table_puts, table_add, table_remove, table_open,
};

/* ---- In the memory of the process ------------------------------------------------- */

struct record {
	struct key key;
	uint8_t value[];
};

static struct slot {
	uint64_t hash;
	struct record *record;
} *slots;
static uint64_t mask;

static uint64_t hash_of(const struct key *key)
{
	return XXH3_64bits_withSeed(key, sizeof(*key), TABLE);
}

/* The slot of a key; without a record: it is not there. */
static struct slot *find(const struct key *key, uint64_t hash)
{
	uint64_t at;

	for (at = hash & mask; slots[at].record; at = (at + 1) & mask)
		if (slots[at].hash == hash && !memcmp(&slots[at].record->key, key, sizeof(*key)))
			break;
	return &slots[at];
}

static void plain_get(const struct key *key, uint8_t *value)
{
	memcpy(value, find(key, hash_of(key))->record->value, size);
}

static void plain_prefetch(const struct key *keys, uint64_t *hashes, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr; i++) {
		hashes[i] = hash_of(&keys[i]);
		__builtin_prefetch(&slots[hashes[i] & mask]);
	}
	for (i = 0; i < nr; i++) {
		const struct record *record = slots[hashes[i] & mask].record;

		__builtin_prefetch(record);
		__builtin_prefetch((const uint8_t *)record + 64);
	}
}

static void plain_gets(const struct key *keys, uint8_t *to, uint32_t nr)
{
	uint64_t hashes[BATCH_MAX];
	uint32_t i;

	plain_prefetch(keys, hashes, nr);
	for (i = 0; i < nr; i++)
		memcpy(to + i * size, find(&keys[i], hashes[i])->record->value, size);
}

static void plain_put(const struct key *key, const uint8_t *value)
{
	memcpy(find(key, hash_of(key))->record->value, value, size);
}

static void plain_puts(const struct key *keys, const uint8_t *from, uint32_t nr)
{
	uint64_t hashes[BATCH_MAX];
	uint32_t i;

	plain_prefetch(keys, hashes, nr);
	for (i = 0; i < nr; i++)
		memcpy(find(&keys[i], hashes[i])->record->value, from + i * size, size);
}

static void plain_add(const struct key *key, const uint8_t *value)
{
	struct record *record = malloc(sizeof(*record) + size);
	uint64_t hash = hash_of(key);

	if (!record)
		fail("memory", ENOMEM);
	record->key = *key;
	memcpy(record->value, value, size);
	*find(key, hash) = (struct slot){ hash, record };
}

static void plain_remove(const struct key *key)
{
	uint64_t hole = (uint64_t)(find(key, hash_of(key)) - slots), at = hole;

	free(slots[hole].record);
	/* What would not be found behind the hole moves into it. */
	for (;;) {
		at = (at + 1) & mask;
		if (!slots[at].record)
			break;
		if (((at - slots[at].hash) & mask) < ((at - hole) & mask))
			continue;
		slots[hole] = slots[at];
		hole = at;
	}
	slots[hole].record = NULL;
}

static int by_address(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;

	return (x > y) - (x < y);
}

static uint64_t plain_open(const struct bench *bench, uint64_t nr)
{
	struct record **all = get_memory(nr * sizeof(*all), 64);
	uint64_t i, found, begin, took;
	struct slot *full = slots;

	(void)bench;
	for (i = found = 0; i <= mask && found < nr; i++)
		if (full[i].record)
			all[found++] = full[i].record;
	qsort(all, found, sizeof(*all), by_address);
	begin = now_ns();
	slots = calloc(mask + 1, sizeof(*slots));
	if (!slots)
		fail("memory", ENOMEM);
	for (i = 0; i < found; i++) {
		uint64_t hash = hash_of(&all[i]->key);

		*find(&all[i]->key, hash) = (struct slot){ hash, all[i] };
	}
	took = now_ns() - begin;
	if (found != nr)
		fail("items", EBADMSG);
	free(slots);
	free(all);
	slots = full;
	return took;
}

static const struct kind plain_kind = {
	plain_get, plain_gets, plain_put, plain_puts, plain_add, plain_remove, plain_open,
};

/* ---- Orders ------------------------------------------------------------------------ */

static void setup(const struct bench *bench, const struct kind *of_mode)
{
	uint64_t i;

	kind = of_mode;
	size = bench->size;
	batch = bench->batch < BATCH_MAX ? bench->batch : BATCH_MAX;
	values = get_memory((uint64_t)batch * size, 64);
	for (i = 0; i < bench->handles; i++) {
		struct key key = key_of(i);

		kind->add(&key, values);
	}
	nr_items = bench->handles;
}

static void destroy(void)
{
	lsm_table_close(table);
	store_destroy(&store);
}

static void lsm_setup(struct bench *bench)
{
	/* "add" adds as many again at most */
	int ret = store_create(&store, bench->bytes, 2 * bench->handles, 0);

	if (ret)
		fail("store", -ret);
	atexit(destroy);
	ret = lsm_table_open(store.lsm, TABLE, 0, &table);
	if (ret)
		fail("table", -ret);
	setup(bench, &table_kind);
}

static void plain_setup(struct bench *bench)
{
	uint64_t nr = 1;

	while (nr < 2 * bench->handles)
		nr *= 2;
	mask = nr - 1;
	slots = get_memory(nr * sizeof(*slots), 64);
	memset(slots, 0, nr * sizeof(*slots));
	setup(bench, &plain_kind);
}

static struct key any_key(void)
{
	return key_of(random_below(&state, nr_items));
}

static void some(bool put)
{
	struct key keys[BATCH_MAX];
	uint32_t i;

	for (i = 0; i < batch; i++)
		keys[i] = any_key();
	if (put)
		kind->puts(keys, values, batch);
	else
		kind->gets(keys, values, batch);
}

static void one(bool put)
{
	struct key key;
	uint32_t i;

	for (i = 0; i < CHECK; i++) {
		key = any_key();
		if (put)
			kind->put(&key, values);
		else
			kind->get(&key, values);
	}
}

static uint64_t timed(double seconds, uint32_t each, void (*work)(bool put), bool put)
{
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), nr = 0;

	do {
		work(put);
		nr += each;
	} while (now_ns() < end);
	return nr;
}

static void change(uint64_t nr, bool add)
{
	uint64_t i;

	for (i = nr_items; i < nr_items + nr; i++) {
		struct key key = key_of(i);

		if (add)
			kind->add(&key, values);
		else
			kind->remove(&key);
	}
}

static bool order(struct bench *bench, const char *verb, const double *a, unsigned int nr)
{
	uint64_t begin = now_ns(), took, done = nr ? (uint64_t)a[0] : 0;

	if (nr != 1)
		return false;
	if (!strcmp(verb, "open") && done) {
		took = kind->open(bench, done);
		printf("{\"ns\": %.1f, \"operations\": %llu}\n", (double)took / (double)done, (unsigned long long)done);
		return true;
	}
	if (!strcmp(verb, "get"))
		done = timed(a[0], CHECK, one, false);
	else if (!strcmp(verb, "gets"))
		done = timed(a[0], batch, some, false);
	else if (!strcmp(verb, "put"))
		done = timed(a[0], CHECK, one, true);
	else if (!strcmp(verb, "puts"))
		done = timed(a[0], batch, some, true);
	else if (!strcmp(verb, "add") || !strcmp(verb, "remove"))
		change(done, *verb == 'a');
	else
		return false;
	printf("{\"ns\": %.1f, \"operations\": %llu}\n", (double)(now_ns() - begin) / (double)done,
	       (unsigned long long)done);
	return true;
}

const struct mode table_modes[] = {
	{ "table", lsm_setup, NULL, order, false },
	{ "table-plain", plain_setup, NULL, order, false },
	{ 0 }
};
