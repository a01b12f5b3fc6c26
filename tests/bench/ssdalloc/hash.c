// SPDX-License-Identifier: GPL-2.0
/*
 * A hash index: buckets of 512 bytes, with a key and a value in 16 of them.  The value is how often the key
 * was put.  A bucket that is full leads to another one.
 */
#include "program.h"

#define ENTRIES		31u
#define LOAD		20u	/* keys for each bucket of the table */

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

/* The entry of a key, which is made with the value 0 if there is none and @make. */
static struct entry *find(uint64_t key, bool make)
{
	struct bucket **link = &table[key % nr_buckets], *bucket;
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
	uint64_t i, bucket;

	nr_keys = bench->handles;
	nr_buckets = nr_keys / LOAD + 1;
	table = get_memory(nr_buckets * sizeof(*table), 64);
	memset(table, 0, nr_buckets * sizeof(*table));
#ifdef LSMEM
	make_room(bench);
#endif
	for (bucket = 0; bucket < nr_buckets; bucket++)
		table[bucket] = new_bucket();
	for (i = 0; i < nr_keys; i++)
		find(key_of(i), true);
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
	uint64_t i, entries = 0, sum = 0;
	struct bucket *bucket;

	for (i = 0; i < nr_keys; i++) {
		struct entry *entry = find(key_of(i), false);

		if (!entry)
			wrong("key");
		sum += entry->value;
	}
	for (i = 0; i < nr_buckets; i++)
		for (bucket = table[i]; bucket; bucket = bucket->next)
			entries += bucket->nr;
	if (entries != nr_keys || sum != puts)
		wrong("index");
}
