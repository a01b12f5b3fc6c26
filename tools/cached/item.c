// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemcached: items in the table.
 *
 * The value of an item is a struct cached_header and the client's data.  Changes that depend on what is there read
 * the item, and put it with LSM_EXPECT, until no other change came in between.  An item that has expired, or
 * that a flush made invalid, is removed when a command or the thread of upkeep.c comes across it.
 *
 * A flush begins a new generation: items of others are not valid.  The generation is in an item itself, whose
 * key is longer than a client's can be, so that a flush outlives the server.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "cached.h"

#define EVICT_LEAST	(1u << 20)	/* bytes, so that writers seldom have to evict */
#define EVICT_TRIES	8u
#define NEW_TRIES	1000u
#define FLUSH_KEY_BYTES	(CACHED_KEY_MAX + 1)
#define MONTH		(60 * 60 * 24 * 30)	/* seconds; larger times of clients are absolute */
#define NUMBER_DIGITS	20u

struct flush_record {
	uint32_t generation;
	uint32_t at;
};

static const char flush_key[FLUSH_KEY_BYTES] = "lsmemcached: flush_all";

/**
 * item_now - the time
 *
 * Return: second since 1970.
 */
uint32_t item_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME_COARSE, &time);
	return (uint32_t)(time.tv_sec + __atomic_load_n(&cached.clock_offset, __ATOMIC_RELAXED));
}

/**
 * item_expires - when an item expires
 * @seconds: of a client: from now on, or, if they are more than 30 days, since 1970; negative: at once
 *
 * Return: for struct cached_header.
 */
uint32_t item_expires(int64_t seconds)
{
	if (!seconds)
		return 0;
	if (seconds < 0)
		return 1;
	return (uint32_t)(seconds > MONTH ? seconds : item_now() + seconds);
}

/**
 * item_fits - whether an item can be stored
 * @key_length: bytes of its key
 * @length: bytes of its data
 *
 * Return: false: it is larger than the largest item.
 */
bool item_fits(size_t key_length, size_t length)
{
	size_t most = cached.options.item_max;

	if (most > CACHED_OBJECT_MAX - CACHED_OBJECT_SPARE)
		most = CACHED_OBJECT_MAX - CACHED_OBJECT_SPARE;
	return length <= most && sizeof(struct cached_header) + key_length + length <= most;
}

/**
 * item_header_fill - begin an item
 * @worker: the caller
 * @header: out
 * @flags: of the client
 * @expires: as in @header
 * @state: ITEM_*, without the generation
 */
void item_header_fill(const struct cached_worker *worker, struct cached_header *header, uint32_t flags, uint32_t expires,
		      uint32_t state)
{
	header->flags = flags;
	header->expires = expires;
	header->stored = worker->now;
	header->state = state | (__atomic_load_n(&cached.generation, __ATOMIC_RELAXED) & ITEM_GENERATION);
}

static bool of_this_generation(const struct cached_header *header)
{
	return ((header->state ^ __atomic_load_n(&cached.generation, __ATOMIC_RELAXED)) & ITEM_GENERATION) == 0;
}

static bool has_expired(const struct cached_header *header)
{
	return header->expires && header->expires <= item_now();
}

/**
 * item_is_live - whether an item can be given to clients
 * @header: of its value
 *
 * Return: false: it has expired, or was flushed.
 */
bool item_is_live(const struct cached_header *header)
{
	return !has_expired(header) && of_this_generation(header);
}

/**
 * item_retire - remove an item that is not live
 * @counters: of the caller
 * @key: of the item
 * @key_length: bytes
 * @item: attributes of its object: one that was stored later stays
 *
 * Return: false: it was removed or stored meanwhile.
 */
bool item_retire(struct cached_counters *counters, const char *key, size_t key_length, const struct lsm_item *item)
{
	uint64_t version = item->version;

	if (lsm_table_remove(cached.table, key, key_length, LSM_EXPECT, &version))
		return false;
	counters->reclaimed++;
	return true;
}

/**
 * item_is_absent - whether a read of the table found nothing
 * @worker: the caller; @worker->failed is set if the read failed
 * @got: what the read returned
 *
 * Return: true: there is no value.
 */
bool item_is_absent(struct cached_worker *worker, ssize_t got)
{
	if (got >= 0)
		return false;
	if (got != -ENOENT) {
		worker->failed = true;
		worker->counters.store_failures++;
	}
	return true;
}

/* What a watcher of fetches is told; of a read that failed nothing. */
static void tell_read(const struct cached_worker *worker, const char *key, size_t key_length, const char *status,
		      size_t length)
{
	if (is_watched(WATCH_FETCHERS) && !worker->failed)
		watch_fetched(worker->serving, key, key_length, status, length);
}

static const char *status_of(const struct cached_header *header)
{
	if (has_expired(header))
		return "expired";
	return of_this_generation(header) ? "found" : "flushed";
}

/* Reads the header alone.  What has none is removed.  Return: false: there is no such item. */
static bool peek(struct cached_worker *worker, const char *key, size_t key_length, struct cached_header *header,
		 struct lsm_item *item)
{
	ssize_t got = lsm_table_get(cached.table, key, key_length, header, sizeof(*header), item);
	bool live;

	if (item_is_absent(worker, got)) {
		tell_read(worker, key, key_length, "not_found", 0);
		return false;
	}
	if (got == sizeof(*header)) {
		live = item_is_live(header);
		tell_read(worker, key, key_length, status_of(header), live ? item->length - sizeof(*header) : 0);
		if (live)
			return true;
	}
	item_retire(&worker->counters, key, key_length, item);
	return false;
}

/**
 * item_read - read an item
 * @worker: the caller
 * @key: of the item
 * @key_length: bytes
 * @view: out; its data are in @worker->large
 *
 * Return: false: there is no such item, or it is not live.
 */
bool item_read(struct cached_worker *worker, const char *key, size_t key_length, struct cached_view *view)
{
	ssize_t got = lsm_table_get(cached.table, key, key_length, worker->large, CACHED_OBJECT_MAX, &view->item);

	if (item_is_absent(worker, got)) {
		tell_read(worker, key, key_length, "not_found", 0);
		return false;
	}
	if (got < (ssize_t)sizeof(view->header)) {
		item_retire(&worker->counters, key, key_length, &view->item);
		return false;
	}
	memcpy(&view->header, worker->large, sizeof(view->header));
	view->data = worker->large + sizeof(view->header);
	view->length = (size_t)got - sizeof(view->header);
	if (item_is_live(&view->header)) {
		tell_read(worker, key, key_length, "found", view->length);
		return true;
	}
	tell_read(worker, key, key_length, status_of(&view->header), 0);
	if (has_expired(&view->header))
		worker->counters.get_expired++;
	else
		worker->counters.get_flushed++;
	item_retire(&worker->counters, key, key_length, &view->item);
	return false;
}

/**
 * item_evict - make room
 * @counters: of the caller
 * @bytes: that are wanted
 *
 * Return: false: nothing can be evicted.
 */
bool item_evict(struct cached_counters *counters, size_t bytes)
{
	uint64_t evicted = 0;
	ssize_t given;

	pthread_mutex_lock(&cached.evicting);
	given = lsm_table_evict_each(cached.table, bytes > EVICT_LEAST ? bytes : EVICT_LEAST,
				     is_watched(WATCH_EVICTIONS) ? watch_evicted : NULL, NULL, &evicted);
	pthread_mutex_unlock(&cached.evicting);
	counters->evictions += evicted;
	return given > 0;
}

static enum cached_result result_of(int ret)
{
	switch (ret) {
	case 0:
		return ITEM_STORED;
	case -EEXIST:
		return ITEM_NOT_STORED;
	case -ENOENT:
		return ITEM_NOT_FOUND;
	case -EILSEQ:
		return ITEM_EXISTS;
	case -ENOSPC:
	case -EMFILE:
		return ITEM_NO_ROOM;
	case -EMSGSIZE:
	case -E2BIG:
		return ITEM_TOO_LARGE;
	}
	return ITEM_FAILED;
}

/**
 * item_write - put an item
 * @worker: the caller
 * @key: of the item
 * @key_length: bytes
 * @value: header and data
 * @length: bytes of both
 * @flags: LSM_NEW, LSM_OLD, LSM_EXPECT
 * @version: as for lsm_table_put()
 *
 * In cache mode a store that is full is no error: other items are evicted.
 *
 * Return: ITEM_STORED; ITEM_NOT_STORED: LSM_NEW, and it is there; ITEM_NOT_FOUND: LSM_OLD or LSM_EXPECT, and it is not;
 * ITEM_EXISTS: LSM_EXPECT, and the version is another; ITEM_NO_ROOM; ITEM_FAILED.
 */
enum cached_result item_write(struct cached_worker *worker, const char *key, size_t key_length, const void *value,
			      size_t length, unsigned int flags, uint64_t *version)
{
	enum cached_result result;
	unsigned int tries = 0;

	do {
		result = result_of(lsm_table_put(cached.table, key, key_length, value, length, flags, version));
	} while (result == ITEM_NO_ROOM && !cached.options.keep && tries++ < EVICT_TRIES &&
		 item_evict(&worker->counters, 4 * length));
	if (result == ITEM_STORED)
		worker->changed = true;
	else if (result == ITEM_NO_ROOM)
		worker->counters.store_no_memory++;
	return result;
}

/**
 * item_rewrite - put an item that was read with item_read(), if no other change came in between
 * @worker: the caller
 * @key: of the item
 * @key_length: bytes
 * @view: of the item, changed; out: its version
 *
 * Return: as item_write() with LSM_EXPECT.
 */
enum cached_result item_rewrite(struct cached_worker *worker, const char *key, size_t key_length,
				struct cached_view *view)
{
	memcpy(worker->large, &view->header, sizeof(view->header));
	return item_write(worker, key, key_length, worker->large, sizeof(view->header) + view->length, LSM_EXPECT,
			  &view->item.version);
}

/* Puts a change as a new object: the bytes before the data are the header's for that long. */
static enum cached_result put_change(struct cached_worker *worker, const struct cached_change *change, uint32_t expires,
				     uint32_t state, unsigned int flags, uint64_t *version)
{
	char *value = change->data - sizeof(struct cached_header);
	struct cached_header header, before;
	enum cached_result result;
	char key[CACHED_KEY_MAX];

	/* It can be in these bytes */
	memcpy(key, change->key, change->key_length);
	item_header_fill(worker, &header, change->flags, expires, change->state | state);
	memcpy(&before, value, sizeof(before));
	memcpy(value, &header, sizeof(header));
	result = item_write(worker, key, change->key_length, value, sizeof(header) + change->length, flags, version);
	memcpy(value, &before, sizeof(before));
	return result;
}

static enum cached_result store_new(struct cached_worker *worker, struct cached_change *change)
{
	struct cached_header header;
	unsigned int tries = 0;
	struct lsm_item item;

	while (!peek(worker, change->key, change->key_length, &header, &item)) {
		enum cached_result result = put_change(worker, change, change->expires, 0, LSM_NEW, &change->cas);

		if (result != ITEM_NOT_STORED)
			return result;
		/* Another client put it, or what is there cannot be removed */
		if (tries++ == NEW_TRIES)
			return ITEM_FAILED;
	}
	access_note(&item, worker->now);
	return ITEM_NOT_STORED;
}

static enum cached_result store_old(struct cached_worker *worker, struct cached_change *change)
{
	struct cached_header header;
	struct lsm_item item;

	while (peek(worker, change->key, change->key_length, &header, &item)) {
		enum cached_result result;

		change->cas = item.version;
		result = put_change(worker, change, change->expires, 0, LSM_EXPECT, &change->cas);
		if (result != ITEM_EXISTS && result != ITEM_NOT_FOUND)
			return result;
	}
	return ITEM_NOT_STORED;
}

static enum cached_result store_expected(struct cached_worker *worker, struct cached_change *change)
{
	uint64_t expected = change->cas;
	enum cached_result result;
	struct cached_header header;
	struct lsm_item item;

	if (!peek(worker, change->key, change->key_length, &header, &item)) {
		worker->counters.cas_misses++;
		return ITEM_NOT_FOUND;
	}
	if (item.version == expected) {
		result = put_change(worker, change, change->expires, 0, LSM_EXPECT, &change->cas);
	} else if (change->invalidate && expected < item.version) {
		change->cas = item.version;
		result = put_change(worker, change, header.expires, (header.state & ITEM_WON) | ITEM_STALE, LSM_EXPECT,
				    &change->cas);
	} else {
		result = ITEM_EXISTS;
	}
	if (result == ITEM_STORED)
		worker->counters.cas_hits++;
	else if (result == ITEM_EXISTS)
		worker->counters.cas_badval++;
	return result;
}

static enum cached_result store_joined(struct cached_worker *worker, struct cached_change *change)
{
	struct cached_view view;

	while (item_read(worker, change->key, change->key_length, &view)) {
		enum cached_result result;

		if (change->has_cas && view.item.version != change->cas)
			return ITEM_EXISTS;
		if (!item_fits(change->key_length, view.length + change->length)) {
			worker->counters.store_too_large++;
			return ITEM_TOO_LARGE;
		}
		if (change->mode == ITEM_APPEND) {
			memcpy(view.data + view.length, change->data, change->length);
		} else {
			memmove(view.data + change->length, view.data, view.length);
			memcpy(view.data, change->data, change->length);
		}
		view.length += change->length;
		item_header_fill(worker, &view.header, view.header.flags, view.header.expires,
				 view.header.state & ITEM_BINARY);
		result = item_rewrite(worker, change->key, change->key_length, &view);
		if (result != ITEM_EXISTS && result != ITEM_NOT_FOUND) {
			change->cas = view.item.version;
			return result;
		}
	}
	return change->has_cas ? ITEM_NOT_FOUND : ITEM_NOT_STORED;
}

/**
 * item_store - store an item
 * @worker: the caller
 * @change: what, and how
 *
 * Return: ITEM_STORED; ITEM_NOT_STORED: the item is there already, or is not; ITEM_EXISTS: it has another version;
 * ITEM_NOT_FOUND: there is none to compare with; ITEM_TOO_LARGE; ITEM_NO_ROOM; ITEM_FAILED.
 */
enum cached_result item_store(struct cached_worker *worker, struct cached_change *change)
{
	enum cached_result result = ITEM_FAILED;
	struct cached_header header;
	struct lsm_item item;

	switch (change->mode) {
	case ITEM_SET:
		/* As memcached, which looks for what it replaces, and tells */
		if (is_watched(WATCH_FETCHERS))
			peek(worker, change->key, change->key_length, &header, &item);
		result = put_change(worker, change, change->expires, 0, 0, &change->cas);
		break;
	case ITEM_ADD:
		result = store_new(worker, change);
		break;
	case ITEM_REPLACE:
		result = store_old(worker, change);
		break;
	case ITEM_CAS:
		result = store_expected(worker, change);
		break;
	case ITEM_APPEND:
	case ITEM_PREPEND:
		result = store_joined(worker, change);
		break;
	}
	worker->counters.cmd_set++;
	if (result == ITEM_STORED)
		worker->counters.total_items++;
	if (is_watched(WATCH_MUTATIONS))
		watch_stored(worker->serving, change, result);
	return result;
}

static enum cached_result sum_create(struct cached_worker *worker, struct cached_sum *sum)
{
	char value[sizeof(struct cached_header) + NUMBER_DIGITS];
	struct cached_change change = {
		.mode = ITEM_ADD, .key = sum->key, .key_length = sum->key_length,
		.data = value + sizeof(struct cached_header), .expires = sum->create_expires,
		.state = sum->binary ? ITEM_BINARY : 0,
	};
	enum cached_result result;

	change.length = (size_t)(put_u64(change.data, sum->initial) - change.data);
	result = store_new(worker, &change);
	if (result == ITEM_STORED)
		worker->counters.total_items++;
	sum->number = sum->initial;
	sum->expires = change.expires;
	sum->cas = change.cas;
	return result;
}

/* Replaces the number in the data.  One that is shorter than it was leaves blanks, as with memcached. */
static bool add_up(struct cached_view *view, struct cached_sum *sum)
{
	struct cached_token digits = { view->data, view->length };
	uint64_t number;
	size_t length;

	while (digits.length && digits.at[digits.length - 1] == ' ')
		digits.length--;
	if (view->length > NUMBER_DIGITS || !token_u64(&digits, &number))
		return false;
	if (sum->decrement)
		number = number > sum->delta ? number - sum->delta : 0;
	else
		number += sum->delta;
	length = (size_t)(put_u64(view->data, number) - view->data);
	if (length < view->length)
		memset(view->data + length, ' ', view->length - length);
	else
		view->length = length;
	sum->number = number;
	return true;
}

/**
 * item_sum - add to the number that an item is, or subtract
 * @worker: the caller
 * @sum: what
 *
 * Return: ITEM_STORED; ITEM_NOT_FOUND; ITEM_EXISTS: it has another version; ITEM_NOT_NUMERIC; ITEM_NO_ROOM; ITEM_FAILED.
 */
enum cached_result item_sum(struct cached_worker *worker, struct cached_sum *sum)
{
	struct cached_counters *counters = &worker->counters;
	enum cached_result result;
	struct cached_view view;

	for (;;) {
		if (!item_read(worker, sum->key, sum->key_length, &view)) {
			if (!sum->create) {
				sum->decrement ? counters->decr_misses++ : counters->incr_misses++;
				return ITEM_NOT_FOUND;
			}
			result = sum_create(worker, sum);
			if (result != ITEM_NOT_STORED)
				return result;
			continue;
		}
		if (sum->has_cas && view.item.version != sum->cas)
			return ITEM_EXISTS;
		if (!add_up(&view, sum))
			return ITEM_NOT_NUMERIC;
		if (sum->new_expires)
			view.header.expires = sum->expires;
		result = item_rewrite(worker, sum->key, sum->key_length, &view);
		if (result != ITEM_EXISTS && result != ITEM_NOT_FOUND)
			break;
	}
	if (result == ITEM_STORED)
		sum->decrement ? counters->decr_hits++ : counters->incr_hits++;
	sum->expires = view.header.expires;
	sum->cas = view.item.version;
	return result;
}

/**
 * item_touch - change when an item expires
 * @worker: the caller
 * @key: of the item
 * @key_length: bytes
 * @expires: as struct cached_header
 * @view: out: the item
 *
 * Return: ITEM_STORED; ITEM_NOT_FOUND; ITEM_NO_ROOM; ITEM_FAILED.
 */
enum cached_result item_touch(struct cached_worker *worker, const char *key, size_t key_length, uint32_t expires,
			      struct cached_view *view)
{
	worker->counters.cmd_touch++;
	while (item_read(worker, key, key_length, view)) {
		enum cached_result result = ITEM_STORED;

		if (view->header.expires != expires) {
			view->header.expires = expires;
			result = item_rewrite(worker, key, key_length, view);
		}
		if (result == ITEM_EXISTS || result == ITEM_NOT_FOUND)
			continue;
		if (result == ITEM_STORED)
			worker->counters.touch_hits++;
		return result;
	}
	worker->counters.touch_misses++;
	return ITEM_NOT_FOUND;
}

/**
 * item_remove_version - remove an item, if it has a version
 * @worker: the caller
 * @key: of the item
 * @key_length: bytes
 * @item: its attributes, with the version that it must have
 *
 * Return: ITEM_STORED: it is removed; ITEM_EXISTS: it has another version; ITEM_NOT_FOUND; ITEM_FAILED.
 */
enum cached_result item_remove_version(struct cached_worker *worker, const char *key, size_t key_length,
				       const struct lsm_item *item)
{
	uint64_t version = item->version;
	enum cached_result result;

	result = result_of(lsm_table_remove(cached.table, key, key_length, LSM_EXPECT, &version));
	if (result == ITEM_STORED) {
		worker->counters.delete_hits++;
		worker->changed = true;
		if (is_watched(WATCH_DELETIONS))
			watch_deleted(worker->serving, key, key_length, item);
	}
	return result;
}

/**
 * item_remove - remove an item
 * @worker: the caller
 * @key: of the item
 * @key_length: bytes
 *
 * Return: ITEM_STORED: it is removed; ITEM_NOT_FOUND; ITEM_FAILED.
 */
enum cached_result item_remove(struct cached_worker *worker, const char *key, size_t key_length)
{
	struct cached_header header;
	struct lsm_item item;
	enum cached_result result = ITEM_EXISTS;

	while (result == ITEM_EXISTS && peek(worker, key, key_length, &header, &item))
		result = item_remove_version(worker, key, key_length, &item);
	if (result == ITEM_EXISTS)
		result = ITEM_NOT_FOUND;
	if (result == ITEM_NOT_FOUND)
		worker->counters.delete_misses++;
	return result;
}

/* Takes over what is in the table.  Return: 0; -ENOENT: nothing is. */
static int flush_read(void)
{
	struct flush_record record;
	ssize_t got = lsm_table_get(cached.table, flush_key, sizeof(flush_key), &record, sizeof(record), NULL);

	if (got < 0)
		return (int)got;
	if (got != sizeof(record))
		return -ENOENT;
	__atomic_store_n(&cached.generation, record.generation, __ATOMIC_RELAXED);
	cached.flush_at = record.at;
	return 0;
}

static int flush_write(uint32_t generation, uint32_t at)
{
	struct flush_record record = { .generation = generation, .at = at };
	int ret = lsm_table_put(cached.table, flush_key, sizeof(flush_key), &record, sizeof(record), 0, NULL);

	if (!ret) {
		__atomic_store_n(&cached.generation, generation, __ATOMIC_RELAXED);
		cached.flush_at = at;
	}
	return ret;
}

/**
 * item_flush_load - find out which items are valid
 *
 * Return: 0; as lsm_table_get(), lsm_table_put().
 */
int item_flush_load(void)
{
	int ret = flush_read();

	return ret == -ENOENT ? flush_write(0, 0) : ret;
}

/**
 * item_flush - make all items invalid
 * @worker: the caller
 * @when: second since 1970 at which to do so, 0: now
 *
 * Return: 0; as lsm_table_put().
 */
int item_flush(struct cached_worker *worker, uint32_t when)
{
	int ret;

	pthread_mutex_lock(&cached.flushing);
	ret = flush_write(cached.generation + !when, when);
	pthread_mutex_unlock(&cached.flushing);
	if (!ret)
		worker->changed = true;
	return ret;
}

/**
 * item_flush_due - carry out a flush whose time has come
 *
 * The item with the generation can have been evicted: then it is written again.
 */
void item_flush_due(void)
{
	pthread_mutex_lock(&cached.flushing);
	if (flush_read() == -ENOENT)
		flush_write(cached.generation, cached.flush_at);
	if (cached.flush_at && cached.flush_at <= item_now())
		flush_write(cached.generation + 1, 0);
	pthread_mutex_unlock(&cached.flushing);
}
