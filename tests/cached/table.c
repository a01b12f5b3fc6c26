// SPDX-License-Identifier: GPL-2.0
/*
 * A table with keys in memory.  What has the lowest version is evicted first.
 *
 * A server that opens it as a store, /dev/N, has one of N MiB.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cached.h"
#include "table.h"

#define STORE_ITEMS	4096u

struct table_item {
	char key[CACHED_KEY_MAX + 1];
	size_t key_length;		/* 0: free */
	char *value;
	struct lsm_item item;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table_item *table;	/* this and what follows under the lock */
static size_t places, used;
static uint64_t room, taken, versions, begins, evictions;

static uint64_t bytes_of(size_t key_length, size_t length)
{
	return key_length + length;
}

/* Takes the value out, for the caller to free. */
static char *take(struct table_item *found)
{
	char *value = found->value;

	taken -= bytes_of(found->key_length, found->item.length);
	used--;
	memset(found, 0, sizeof(*found));
	return value;
}

bool table_begin(size_t items, uint64_t bytes, uint64_t first)
{
	size_t i;

	for (i = 0; i < places; i++)
		if (table[i].key_length)
			free(take(&table[i]));
	if (places != items) {
		free(table);
		places = 0;
		table = items ? calloc(items, sizeof(*table)) : NULL;
		if (items && !table)
			return false;
		places = items;
	}
	room = bytes;
	versions = first - 1;
	begins++;
	return true;
}

size_t table_items(void)
{
	return used;
}

static struct table_item *find(const void *key, size_t length)
{
	size_t i;

	if (length > sizeof(table->key) || !length)
		abort();
	for (i = 0; i < places; i++)
		if (table[i].key_length == length && !memcmp(table[i].key, key, length))
			return &table[i];
	return NULL;
}

static ssize_t copy_value(const struct table_item *found, void *value, size_t most)
{
	size_t length = found->item.length < most ? found->item.length : most;

	if (length)
		memcpy(value, found->value, length);
	return (ssize_t)length;
}

ssize_t lsm_table_get(struct lsm_table *unused, const void *key, size_t key_length, void *value, size_t most,
		      struct lsm_item *item)
{
	struct table_item *found;
	ssize_t ret = -ENOENT;

	(void)unused;
	pthread_mutex_lock(&lock);
	found = find(key, key_length);
	if (found) {
		ret = copy_value(found, value, most);
		if (item)
			*item = found->item;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

void lsm_table_get_many(struct lsm_table *unused, struct lsm_get *gets, size_t nr)
{
	for (; nr--; gets++)
		gets->result = lsm_table_get(unused, gets->key, gets->key_length, gets->value, gets->room, &gets->item);
}

/* @found: the item, NULL: there is none; out: where it goes.  Return: 0; as lsm_table_put(). */
static int check_put(struct table_item **found, size_t key_length, size_t length, unsigned int flags, uint64_t *version)
{
	uint64_t had = *found ? bytes_of((*found)->key_length, (*found)->item.length) : 0;
	size_t i;

	if (*found && flags & LSM_NEW)
		return -EEXIST;
	if (!*found && flags & (LSM_OLD | LSM_EXPECT))
		return -ENOENT;
	if (flags & LSM_EXPECT && (*found)->item.version != *version) {
		*version = (*found)->item.version;
		return -EILSEQ;
	}
	for (i = 0; !*found && i < places; i++)
		if (!table[i].key_length)
			*found = &table[i];
	return !*found || taken - had + bytes_of(key_length, length) > room ? -ENOSPC : 0;
}

static int put(const void *key, size_t key_length, const void *value, size_t length, unsigned int flags,
	       uint64_t *version)
{
	struct table_item *found = find(key, key_length);
	int ret = check_put(&found, key_length, length, flags, version);
	char *copy;

	if (ret)
		return ret;
	copy = malloc(length + 1);
	if (!copy)
		return -ENOMEM;
	if (found->key_length)
		free(take(found));
	memcpy(copy, value, length);
	memcpy(found->key, key, key_length);
	found->key_length = key_length;
	found->value = copy;
	found->item = (struct lsm_item){ .version = ++versions, .length = (uint32_t)length };
	/* Handles of one run are those of no other: the server remembers by them what was read. */
	found->item.handle = begins << 32 | versions;
	taken += bytes_of(key_length, length);
	used++;
	if (version)
		*version = versions;
	return 0;
}

int lsm_table_put(struct lsm_table *unused, const void *key, size_t key_length, const void *value, size_t length,
		  unsigned int flags, uint64_t *version)
{
	int ret;

	(void)unused;
	pthread_mutex_lock(&lock);
	ret = put(key, key_length, value, length, flags, version);
	pthread_mutex_unlock(&lock);
	return ret;
}

int lsm_table_put_many(struct lsm_table *unused, struct lsm_put *puts, size_t nr, unsigned int flags)
{
	for (; nr--; puts++)
		puts->result = lsm_table_put(unused, puts->key, puts->key_length, puts->value, puts->length,
					     puts->flags | flags, &puts->version);
	return 0;
}

int lsm_table_remove(struct lsm_table *unused, const void *key, size_t key_length, unsigned int flags,
		     uint64_t *version)
{
	struct table_item *found;
	int ret = 0;

	(void)unused;
	pthread_mutex_lock(&lock);
	found = find(key, key_length);
	if (!found)
		ret = -ENOENT;
	else if (flags & LSM_EXPECT && found->item.version != *version)
		ret = -EILSEQ;
	else
		free(take(found));
	pthread_mutex_unlock(&lock);
	return ret;
}

int lsm_table_next(struct lsm_table *unused, uint64_t *cursor, void *key, size_t *key_length, void *value, size_t most,
		   struct lsm_item *item)
{
	int ret = 0;

	(void)unused;
	pthread_mutex_lock(&lock);
	while (!ret && *cursor < places) {
		struct table_item *found = &table[(*cursor)++];

		if (!found->key_length)
			continue;
		memcpy(key, found->key, found->key_length < *key_length ? found->key_length : *key_length);
		*key_length = found->key_length;
		copy_value(found, value, most);
		*item = found->item;
		ret = 1;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

/* Takes the oldest item out.  Return: false: there is none. */
static bool take_oldest(struct table_item *out)
{
	struct table_item *oldest = NULL;
	size_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < places; i++)
		if (table[i].key_length && (!oldest || table[i].item.version < oldest->item.version))
			oldest = &table[i];
	if (oldest) {
		*out = *oldest;
		take(oldest);
		evictions++;
	}
	pthread_mutex_unlock(&lock);
	return oldest;
}

ssize_t lsm_table_evict_each(struct lsm_table *unused, size_t bytes,
			     void (*each)(void *context, const struct lsm_evicted *evicted), void *context,
			     uint64_t *evicted)
{
	struct table_item item;
	uint64_t given = 0;

	(void)unused;
	*evicted = 0;
	while (given < bytes && take_oldest(&item)) {
		size_t head = item.item.length < LSM_EVICTED_HEAD ? item.item.length : LSM_EVICTED_HEAD;
		const struct lsm_evicted gone = { .key = item.key, .key_length = item.key_length, .head = item.value,
						  .head_length = head, .item = item.item };

		given += bytes_of(item.key_length, item.item.length);
		++*evicted;
		if (each)
			each(context, &gone);
		free(item.value);
	}
	return (ssize_t)given;
}

int lsm_table_stat(struct lsm_table *unused, struct lsm_table_stat *stat)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	*stat = (struct lsm_table_stat){ .items = used, .evicted = evictions };
	pthread_mutex_unlock(&lock);
	return 0;
}

/* ---- The store -------------------------------------------------------------------- */

int lsm_stat_sized(struct lsm *lsm, struct lsmem_stat *stat, size_t size)
{
	(void)lsm;
	(void)size;
	pthread_mutex_lock(&lock);
	stat->capacity = room;
	stat->live_bytes = taken;
	pthread_mutex_unlock(&lock);
	return 0;
}

int lsm_open(const char *path, unsigned int flags, struct lsm **lsm)
{
	const char *slash = strrchr(path, '/');

	(void)flags;
	if (!table_begin(STORE_ITEMS, strtoull(slash ? slash + 1 : path, NULL, 10) << 20, 1))
		return -ENOMEM;
	*lsm = (struct lsm *)&room;
	return 0;
}

void lsm_close(struct lsm *lsm)
{
	if (lsm)
		table_begin(0, 0, 1);
}

int lsm_sync(struct lsm *lsm, uint32_t timeout_ms)
{
	(void)lsm;
	(void)timeout_ms;
	return 0;
}

int lsm_table_open(struct lsm *lsm, uint32_t id, unsigned int flags, struct lsm_table **out)
{
	(void)lsm;
	(void)id;
	(void)flags;
	*out = (struct lsm_table *)&table;
	return 0;
}

void lsm_table_close(struct lsm_table *unused)
{
	(void)unused;
}
