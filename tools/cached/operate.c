// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemcached: commands of who operates the server: a dump of all items, the crawler, the limit of memory.
 *
 * A dump is made in passes of DUMP_ITEMS items or DUMP_BYTES, each when the lines of the one before have been sent: so
 * it delays no other client, and one that does not read its lines keeps few of them in memory.
 */
#include <stdio.h>
#include <string.h>

#include "cached.h"

#define DUMP_ITEMS	256u		/* looked at in a pass */
#define DUMP_BYTES	(1u << 20)	/* of their values: the library reads those that are on backups */
#define CLASS_MAX	63u		/* memcached's last class */
#define MIB_LEAST	8u		/* of cache_memlimit, as with memcached */
#define MIB_MOST	1000000000u
#define SLEEP_MOST	1000000u	/* microseconds */
#define BAD_FORMAT	"CLIENT_ERROR bad command line format"

static char *put_line(char *at, const char *key, size_t key_length, const struct cached_header *header,
		      const struct lsm_item *item)
{
	uint32_t last = access_last(item);

	memcpy(at, "key=", 4);
	at = put_encoded(at + 4, key, key_length, is_plain);
	at += sprintf(at, " exp=%lld la=%u cas=%llu fetch=%s cls=1 size=%zu\n",
		      header->expires ? (long long)header->expires : -1, last ? last : header->stored,
		      (unsigned long long)item->version, last ? "yes" : "no", key_length + (size_t)item->length);
	return at;
}

/* A command that reads the item.  Keys that cannot be words of one go as base64, too: other programs can make such. */
static char *put_meta_get(char *at, const char *key, size_t key_length, const struct cached_header *header)
{
	bool binary = header->state & ITEM_BINARY;
	size_t i;

	for (i = 0; i < key_length; i++)
		binary |= !is_of_word((unsigned char)key[i]);
	memcpy(at, "mg ", 3);
	at += 3;
	if (binary) {
		at = base64_encode(key, key_length, at);
		memcpy(at, " b", 2);
		at += 2;
	} else {
		memcpy(at, key, key_length);
		at += key_length;
	}
	memcpy(at, "\r\n", 2);
	return at + 2;
}

/**
 * operate_dump - go on with a dump, whose end clears connection->dump
 * @connection: that wants it
 */
void operate_dump(struct cached_connection *connection)
{
	bool meta_get = connection->dump == DUMP_META_GET;
	struct lsm_item item;
	unsigned int i;
	size_t bytes;

	for (i = bytes = 0; i < DUMP_ITEMS && bytes < DUMP_BYTES; i++, bytes += item.length) {
		char key[CACHED_KEY_MAX], line[3 * CACHED_KEY_MAX + 160], *at;
		size_t key_length = sizeof(key);
		struct cached_header header;
		int ret = lsm_table_next(cached.table, &connection->dump_cursor, key, &key_length, &header, sizeof(header),
					 &item);

		if (ret < 0) {
			/* An end would say that these were all */
			connection->worker->failed = true;
			connection->worker->counters.store_failures++;
			connection->dump = DUMP_NONE;
			return;
		}
		if (!ret) {
			connection->dump = DUMP_NONE;
			connection_say(connection, meta_get ? "EN" : "END");
			return;
		}
		if (key_length > CACHED_KEY_MAX || item.length < sizeof(header) || !item_is_live(&header))
			continue;
		at = meta_get ? put_meta_get(line, key, key_length, &header)
			      : put_line(line, key, key_length, &header, &item);
		connection_add(connection, line, (size_t)(at - line));
	}
}

/* Finds the classes of a list that memcached could have.  Return: NULL: that of all items is named; an answer. */
static const char *find_class(const struct cached_token *classes)
{
	const char *at = classes->at, *end = at + classes->length;
	bool found = false;

	if (token_is(classes, "all") || token_is(classes, "hash"))
		return NULL;
	while (at < end) {
		struct cached_token number = { .at = at };
		uint32_t class;

		while (at < end && *at != ',')
			at++;
		number.length = (size_t)(at - number.at);
		at += at < end;
		if (!number.length)
			continue;
		if (!token_u32(&number, &class) || !class || class > CLASS_MAX)
			return "BADCLASS invalid class id";
		found |= class == 1;
	}
	return found ? NULL : "NOTSTARTED no items to crawl";
}

static const char *begin_dump(struct cached_connection *connection, const struct cached_token *classes,
			      enum cached_dump dump)
{
	const char *wrong = find_class(classes);

	if (wrong)
		return wrong;
	connection->dump = dump;
	connection->dump_cursor = 0;
	return NULL;
}

static const char *begin_crawl(const struct cached_token *classes)
{
	const char *wrong = find_class(classes);
	bool before = false;

	if (wrong)
		return wrong;
	if (!__atomic_compare_exchange_n(&cached.crawler.wanted, &before, true, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return "BUSY currently processing crawler request";
	return "OK";
}

/**
 * operate_crawler - lru_crawler
 * @connection: that sent it; its dump is begun if it wants one
 * @tokens: words of the command
 * @nr: of them
 *
 * Return: the answer, without its end; NULL: the dump is the answer.
 */
const char *operate_crawler(struct cached_connection *connection, const struct cached_token *tokens, unsigned int nr)
{
	bool disabled = __atomic_load_n(&cached.crawler.disabled, __ATOMIC_RELAXED);
	const struct cached_token *what = &tokens[1];
	uint32_t number;

	if (nr == 2 && (token_is(what, "enable") || token_is(what, "disable"))) {
		__atomic_store_n(&cached.crawler.disabled, token_is(what, "disable"), __ATOMIC_RELAXED);
		return "OK";
	}
	if (nr != 3)
		return "ERROR";
	if (token_is(what, "sleep") || token_is(what, "tocrawl")) {
		if (!token_u32(&tokens[2], &number))
			return BAD_FORMAT;
		if (token_is(what, "tocrawl")) {
			__atomic_store_n(&cached.crawler.most, number, __ATOMIC_RELAXED);
			return "OK";
		}
		if (number > SLEEP_MOST)
			return "CLIENT_ERROR sleep must be one second or less";
		__atomic_store_n(&cached.crawler.sleep, number, __ATOMIC_RELAXED);
		return "OK";
	}
	if (!token_is(what, "crawl") && !token_is(what, "metadump") && !token_is(what, "mgdump"))
		return "ERROR";
	if (disabled)
		return "CLIENT_ERROR lru crawler disabled";
	if (token_is(what, "crawl"))
		return begin_crawl(&tokens[2]);
	return begin_dump(connection, &tokens[2], token_is(what, "mgdump") ? DUMP_META_GET : DUMP_META);
}

/**
 * operate_slabs - slabs: the log has none to be moved
 * @tokens: words of the command
 * @nr: of them
 *
 * Return: what memcached answers when it does not move any.
 */
const char *operate_slabs(const struct cached_token *tokens, unsigned int nr)
{
	uint32_t level;

	if (nr == 4 && token_is(&tokens[1], "reassign"))
		return "CLIENT_ERROR slab reassignment disabled";
	if (nr < 3 || !token_is(&tokens[1], "automove") || token_is(&tokens[2], "ratio"))
		return "ERROR";
	if (!token_u32(&tokens[2], &level))
		return BAD_FORMAT;
	return level ? "ERROR" : "OK";
}

/**
 * operate_limit - cache_memlimit
 * @token: MiB of the store that items may take from now on
 *
 * Return: the answer, without its end.
 */
const char *operate_limit(const struct cached_token *token)
{
	struct lsmem_stat stat = { 0 };
	uint64_t bytes;
	uint32_t mib;

	if (!token_u32(token, &mib))
		return "ERROR";
	if (mib < MIB_LEAST)
		return "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m";
	if (mib > MIB_MOST)
		return "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes";
	bytes = (uint64_t)mib << 20;
	/* A store keeps all, and has its size */
	if (cached.options.keep || lsm_stat(cached.lsm, &stat) || bytes > stat.capacity)
		return "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust";
	__atomic_store_n(&cached.limit, bytes, __ATOMIC_RELAXED);
	return "OK";
}
