// SPDX-License-Identifier: GPL-2.0
/*
 * A hash index: buckets of 512 bytes, with a key and a value in 16 of them.  The value is how often the key
 * was put.  A bucket that is full leads to another one.
 *
 * Keys are random numbers, and the buckets have the order of the keys.  The index is made and checked in that
 * order, so that no bucket is wanted again later: piece by piece, since all keys together would need too much
 * memory.
 */
#include "program.h"

#define ENTRIES		31u
#define LOAD		20u	/* keys for each bucket of the table */
#define PIECE		8192u	/* buckets of the table */

struct entry {
	uint64_t key;
	uint64_t value;
};

struct bucket {
	struct bucket *next;
	uint64_t nr;
	struct entry entries[ENTRIES];
};

static struct bucket **table;
static uint64_t nr_buckets, nr_keys;
static uint64_t piece[PIECE * ENTRIES];

#ifdef LSMEM
#include <lsmem.h>

static struct lsm_pool *pool;

static void make_room(const struct bench *bench)
{
	struct lsm *lsm;
	uint64_t root;
	int ret;

	/* Twice as many as the table has: for buckets behind buckets. */
	ret = lsm_open(bench->path, 0, &lsm) ?:
	      lsm_pool_create(lsm, 2 * nr_buckets * 4096, bench->bytes, 0, &root, &pool);
	if (ret)
		fail("pool", -ret);
}
#endif

/* Its bytes are zeroes. */
static struct bucket *new_bucket(void)
{
	struct bucket *bucket;

#ifdef LSMEM
	if (lsm_pool_alloc(pool, sizeof(*bucket), (void **)&bucket))
		fail("bucket", ENOMEM);
#else
	bucket = malloc(sizeof(*bucket));
	if (!bucket)
		fail("bucket", ENOMEM);
	memset(bucket, 0, sizeof(*bucket));
#endif
	return bucket;
}

static uint64_t key_of(uint64_t nr)
{
	return random_next(&nr);
}

static uint64_t bucket_of(uint64_t key)
{
	return (key >> 32) * nr_buckets >> 32;
}

static int compare(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return (one > other) - (one < other);
}

/* Put the keys of the buckets from @from on into piece[], in ascending order.  Returns how many there are. */
static uint64_t make_piece(uint64_t from)
{
	uint64_t i, key, nr = 0;

	for (i = 0; i < nr_keys; i++) {
		key = key_of(i);
		if (bucket_of(key) - from >= PIECE)
			continue;
		if (nr == PIECE * ENTRIES)
			fail("keys", EOVERFLOW);
		piece[nr++] = key;
	}
	qsort(piece, nr, sizeof(*piece), compare);
	return nr;
}

/* The entry of a key, which is made with the value 0 if there is none and @make. */
static struct entry *find(uint64_t key, bool make)
{
	struct bucket **link = &table[bucket_of(key)], *bucket;
	uint64_t i;

	for (; (bucket = *link); link = &bucket->next) {
		for (i = 0; i < bucket->nr; i++)
			if (bucket->entries[i].key == key)
				return &bucket->entries[i];
		if (bucket->nr < ENTRIES)
			break;
	}
	if (!make)
		return NULL;
	if (!bucket)
		*link = bucket = new_bucket();
	bucket->entries[bucket->nr] = (struct entry){ .key = key };
	return &bucket->entries[bucket->nr++];
}

void program_make(const struct bench *bench)
{
	uint64_t i, nr, from;

	nr_keys = bench->handles;
	nr_buckets = nr_keys / LOAD + 1;
	table = get_memory(nr_buckets * sizeof(*table), 64);
	memset(table, 0, nr_buckets * sizeof(*table));
#ifdef LSMEM
	make_room(bench);
#endif
	for (from = 0; from < nr_buckets; from += PIECE) {
		nr = make_piece(from);
		for (i = 0; i < nr; i++)
			find(piece[i], true);
	}
}

void program_put(uint64_t nr)
{
	find(key_of(nr), true)->value++;
}

void program_get(uint64_t nr)
{
	if (!find(key_of(nr), false))
		wrong("key");
}

void program_check(uint64_t puts)
{
	uint64_t i, nr, from, entries = 0, sum = 0;
	struct bucket *bucket;

	for (from = 0; from < nr_buckets; from += PIECE) {
		nr = make_piece(from);
		for (i = 0; i < nr; i++) {
			struct entry *entry = find(piece[i], false);

			if (!entry)
				wrong("key");
			sum += entry->value;
		}
		for (i = from; i < nr_buckets && i < from + PIECE; i++)
			for (bucket = table[i]; bucket; bucket = bucket->next)
				entries += bucket->nr;
	}
	if (entries != nr_keys || sum != puts)
		wrong("index");
}
