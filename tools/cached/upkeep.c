// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemcached: the thread that removes expired items, evicts ahead and carries out delayed flushes.
 *
 * It wakes up ten times a second, and looks at a bounded number of items each time, so that it takes a small part of
 * one processor.
 */
#include <errno.h>
#include <time.h>

#include "cached.h"

#define TICK_NS		100000000l
#define CRAWL_ITEMS	2000u		/* in a tick */

static pthread_t thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;

/* Where a look at all items is, how many of them it has looked at, and whether a client asked for it */
struct pass {
	uint64_t cursor;
	uint32_t looked;
	bool asked;
};

/* How many items may be looked at in a tick; one at least */
static unsigned int pace(void)
{
	uint32_t sleep = __atomic_load_n(&cached.crawler.sleep, __ATOMIC_RELAXED);
	unsigned int items = sleep ? (unsigned int)(TICK_NS / 1000 / sleep) : CRAWL_ITEMS;

	if (!items)
		return 1;
	return items < CRAWL_ITEMS ? items : CRAWL_ITEMS;
}

/* Looks at the next items of the table.  A pass over it begins again at its end.  Return: how many. */
static unsigned int crawl(uint64_t *cursor)
{
	unsigned int i, most = pace();

	for (i = 0; i < most; i++) {
		char key[CACHED_KEY_MAX];
		size_t key_length = sizeof(key);
		struct cached_header header;
		struct lsm_item item;

		if (lsm_table_next(cached.table, cursor, key, &key_length, &header, sizeof(header), &item) != 1) {
			*cursor = 0;
			break;
		}
		cached.upkeep.crawler_items_checked++;
		if (key_length <= CACHED_KEY_MAX && item.length >= sizeof(header) && !item_is_live(&header))
			cached.upkeep.crawler_reclaimed += item_retire(&cached.upkeep, key, key_length, &item);
	}
	return i;
}

/* A pass that a client asked for begins at the first item, and ends after as many as it said. */
static void crawl_on(struct pass *pass)
{
	uint32_t most = __atomic_load_n(&cached.crawler.most, __ATOMIC_RELAXED);

	if (__atomic_load_n(&cached.crawler.disabled, __ATOMIC_RELAXED))
		return;
	if (!pass->asked && __atomic_load_n(&cached.crawler.wanted, __ATOMIC_RELAXED))
		*pass = (struct pass) { .asked = true };
	pass->looked += crawl(&pass->cursor);
	if (pass->asked && (!pass->cursor || (most && pass->looked >= most))) {
		pass->asked = false;
		__atomic_store_n(&cached.crawler.wanted, false, __ATOMIC_RELAXED);
	}
}

/* Evicts ahead, so that writers seldom have to. */
static void evict(void)
{
	struct lsmem_stat stat;
	uint64_t most;

	if (cached.options.keep || lsm_stat(cached.lsm, &stat))
		return;
	most = __atomic_load_n(&cached.limit, __ATOMIC_RELAXED);
	if (!most)
		most = stat.capacity / 100 * cached.options.memory;
	if (stat.live_bytes > most)
		item_evict(&cached.upkeep, stat.live_bytes - most);
}

static void *keep_up(void *argument)
{
	struct pass pass = { 0 };
	struct timespec until;

	(void)argument;
	/* Tools that show the time of threads tell it from those that serve */
	pthread_setname_np(pthread_self(), "upkeep");
	pthread_mutex_lock(&lock);
	clock_gettime(CLOCK_MONOTONIC, &until);
	while (!__atomic_load_n(&cached.stop, __ATOMIC_ACQUIRE)) {
		until.tv_nsec += TICK_NS;
		if (until.tv_nsec >= 1000000000l) {
			until.tv_nsec -= 1000000000l;
			until.tv_sec++;
		}
		if (pthread_cond_timedwait(&wake, &lock, &until) != ETIMEDOUT)
			continue;
		item_flush_due();
		evict();
		crawl_on(&pass);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/**
 * upkeep_start - start the thread
 *
 * Return: 0; -EAGAIN.
 */
int upkeep_start(void)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&wake, &attributes);
	pthread_condattr_destroy(&attributes);
	return -pthread_create(&thread, NULL, keep_up, NULL);
}

/**
 * upkeep_stop - wait until the thread has ended; cached.stop is set
 */
void upkeep_stop(void)
{
	pthread_mutex_lock(&lock);
	pthread_cond_signal(&wake);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
}
