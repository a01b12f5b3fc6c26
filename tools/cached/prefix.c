// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemcached: commands by prefix of their keys, and the answers to stats detail.
 *
 * The prefix of a key is what comes before the first delimiter; keys without one have none.  All prefixes are in one
 * table, to which they are only added; each worker has counters of its own for them, so that workers that count do not
 * wait for each other.  A worker holds its lock while it counts; who forgets all prefixes holds those of all workers,
 * so nothing is counted meanwhile.
 *
 * Order of locks: reading, those of the workers by their number, adding.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cached.h"

#define PREFIXES	1024u
#define SLOTS		(2 * PREFIXES)
#define NUMBERS_BYTES	128u		/* of a line: its words, and four numbers */

struct prefix {
	size_t length;
	char bytes[CACHED_KEY_MAX];
};

/* Of one prefix, by one worker */
struct prefix_counts {
	uint64_t gets;
	uint64_t hits;
	uint64_t sets;
	uint64_t deletes;
};

static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;	/* held to read all counters, and to forget them */
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;	/* held to change what follows */
static struct prefix prefixes[PREFIXES];
static unsigned int nr_prefixes;
static uint16_t slots[SLOTS];		/* by hash: index of a prefix, plus 1; 0: free.  Half of them are always free */

static unsigned int hash(const char *bytes, size_t length)
{
	uint32_t sum = 2166136261u;

	while (length--)
		sum = (sum ^ (unsigned char)*bytes++) * 16777619u;
	return (sum ^ sum >> 16) % SLOTS;
}

/* @slot: in: of the hash; out: of the prefix, or free.  Return: its index; -1. */
static int find(const char *bytes, size_t length, unsigned int *slot)
{
	uint16_t index;

	/* What a slot says was written before it: acquire pairs with the release of add() */
	while ((index = __atomic_load_n(&slots[*slot], __ATOMIC_ACQUIRE))) {
		const struct prefix *prefix = &prefixes[index - 1];

		if (prefix->length == length && !memcmp(prefix->bytes, bytes, length))
			return index - 1;
		*slot = (*slot + 1) % SLOTS;
	}
	return -1;
}

/* @slot: that find() left.  Return: index of a new prefix, or of what another worker has added; -1: no room. */
static int add(const char *bytes, size_t length, unsigned int slot)
{
	int index;

	pthread_mutex_lock(&adding);
	index = find(bytes, length, &slot);
	if (index < 0 && nr_prefixes < PREFIXES) {
		index = (int)nr_prefixes;
		prefixes[index].length = length;
		memcpy(prefixes[index].bytes, bytes, length);
		__atomic_store_n(&slots[slot], index + 1, __ATOMIC_RELEASE);
		nr_prefixes++;
	}
	pthread_mutex_unlock(&adding);
	return index;
}

/* The counters of a prefix, under the worker's lock.  Return: NULL: no room. */
static struct prefix_counts *counts_of(struct cached_worker *worker, const char *bytes, size_t length)
{
	unsigned int slot = hash(bytes, length);
	int index = find(bytes, length, &slot);

	if (index < 0)
		index = add(bytes, length, slot);
	if (!worker->prefix_counts)
		worker->prefix_counts = calloc(PREFIXES, sizeof(*worker->prefix_counts));
	return index < 0 || !worker->prefix_counts ? NULL : &worker->prefix_counts[index];
}

/**
 * prefix_count - count a command
 * @worker: the caller
 * @key: of the command
 * @key_length: bytes
 * @what: it was
 *
 * What has no room is in counters.detail_uncounted.
 */
void prefix_count(struct cached_worker *worker, const char *key, size_t key_length, enum prefix_what what)
{
	const char *end = memchr(key, cached.options.delimiter, key_length);
	struct prefix_counts *counts;

	if (!end)
		return;
	pthread_mutex_lock(&worker->prefix_lock);
	counts = counts_of(worker, key, (size_t)(end - key));
	if (!counts) {
		worker->counters.detail_uncounted++;
	} else if (what == PREFIX_SET) {
		counts->sets++;
	} else if (what == PREFIX_DELETE) {
		counts->deletes++;
	} else {
		counts->gets++;
		counts->hits += what == PREFIX_HIT;
	}
	pthread_mutex_unlock(&worker->prefix_lock);
}

/**
 * prefix_forget - forget all prefixes
 */
void prefix_forget(void)
{
	unsigned int i;

	pthread_mutex_lock(&reading);
	for (i = 0; i < cached.options.threads; i++)
		pthread_mutex_lock(&cached.workers[i].prefix_lock);
	pthread_mutex_lock(&adding);
	nr_prefixes = 0;
	memset(slots, 0, sizeof(slots));
	for (i = 0; i < cached.options.threads; i++) {
		struct prefix_counts *counts = cached.workers[i].prefix_counts;

		if (counts)
			memset(counts, 0, PREFIXES * sizeof(*counts));
	}
	pthread_mutex_unlock(&adding);
	for (i = 0; i < cached.options.threads; i++)
		pthread_mutex_unlock(&cached.workers[i].prefix_lock);
	pthread_mutex_unlock(&reading);
}

static void add_up(struct prefix_counts *sums, struct cached_worker *worker, unsigned int nr)
{
	unsigned int i;

	pthread_mutex_lock(&worker->prefix_lock);
	for (i = 0; worker->prefix_counts && i < nr; i++) {
		const struct prefix_counts *counts = &worker->prefix_counts[i];

		sums[i].gets += counts->gets;
		sums[i].hits += counts->hits;
		sums[i].sets += counts->sets;
		sums[i].deletes += counts->deletes;
	}
	pthread_mutex_unlock(&worker->prefix_lock);
}

/* What no word of a command can have came in base64: it is written as % and two digits. */
static void say_prefix(struct cached_connection *connection, const struct prefix *prefix,
		       const struct prefix_counts *sums)
{
	char line[3 * CACHED_KEY_MAX + NUMBERS_BYTES], *at = line;

	memcpy(at, "PREFIX ", 7);
	at = put_encoded(at + 7, prefix->bytes, prefix->length, is_of_word);
	snprintf(at, NUMBERS_BYTES, " get %llu hit %llu set %llu del %llu", (unsigned long long)sums->gets,
		 (unsigned long long)sums->hits, (unsigned long long)sums->sets, (unsigned long long)sums->deletes);
	connection_say(connection, line);
}

static void dump(struct cached_connection *connection)
{
	struct prefix_counts sums[PREFIXES] = { 0 };
	unsigned int i, nr;

	pthread_mutex_lock(&reading);
	pthread_mutex_lock(&adding);
	nr = nr_prefixes;
	pthread_mutex_unlock(&adding);
	for (i = 0; i < cached.options.threads; i++)
		add_up(sums, &cached.workers[i], nr);
	for (i = 0; i < nr; i++)
		say_prefix(connection, &prefixes[i], &sums[i]);
	pthread_mutex_unlock(&reading);
	connection_say(connection, "END");
}

/**
 * prefix_command - answer stats detail
 * @connection: to send on
 * @what: the word after it; NULL: none
 */
void prefix_command(struct cached_connection *connection, const struct cached_token *what)
{
	if (what && token_is(what, "dump")) {
		dump(connection);
	} else if (what && (token_is(what, "on") || token_is(what, "off"))) {
		__atomic_store_n(&cached.detail, token_is(what, "on"), __ATOMIC_RELAXED);
		connection_say(connection, "OK");
	} else {
		connection_say(connection, "CLIENT_ERROR usage: stats detail on|off|dump");
	}
}
