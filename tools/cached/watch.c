// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemcached: watch, lines of a log for clients, as memcached writes them.
 *
 * The connection of a watcher is served by its worker, as any other.  Threads that have something to tell append a line
 * to the buffer of each watcher that wants it, and wake the worker if the buffer was empty; the worker moves it to the
 * connection when all that it had before has been sent.  A line that finds no room is dropped, and counted: the
 * next one that finds some comes after skipped=N.  So a watcher that does not read has two buffers of WATCH_BYTES, and
 * no thread ever waits for it.
 *
 * Without watchers a command has one branch: cached.watching has what all of them want.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "cached.h"

#define WATCHERS	20u		/* as with memcached */
#define WATCH_BYTES	(256u << 10)
#define SKIPPED_BYTES	32u		/* of a line skipped=N */
#define LINE_BYTES	(3 * CACHED_KEY_MAX + 512)

struct watcher {
	struct cached_connection *connection;	/* NULL: free */
	unsigned int wants;
	uint64_t skipped;
	size_t used;
	char *lines;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct watcher watchers[WATCHERS];	/* under the lock */
static struct watch_stat figures;		/* likewise */
static uint64_t last_id;

static const struct {
	const char *name;
	unsigned int wants;
} logs[] = {
	{ "fetchers", WATCH_FETCHERS }, { "mutations", WATCH_MUTATIONS }, { "evictions", WATCH_EVICTIONS },
	{ "connevents", WATCH_CONNEVENTS }, { "deletions", WATCH_DELETIONS },
	/* memcached has these, and what they tell does not happen here */
	{ "rawcmds", 0 }, { "sysevents", 0 }, { "proxyreqs", 0 }, { "proxyevents", 0 }, { "proxyuser", 0 },
};

/* Under the lock. */
static void set_watching(void)
{
	unsigned int i, wants = 0;

	for (i = 0; i < WATCHERS; i++)
		wants |= watchers[i].connection ? watchers[i].wants : 0;
	__atomic_store_n(&cached.watching, wants, __ATOMIC_RELAXED);
}

/* Under the lock. */
static void append(struct watcher *watcher, const char *line, size_t length)
{
	size_t before = watcher->used;

	if (before + length + (watcher->skipped ? SKIPPED_BYTES : 0) > WATCH_BYTES) {
		watcher->skipped++;
		figures.skipped++;
		return;
	}
	if (watcher->skipped)
		watcher->used += (size_t)sprintf(watcher->lines + before, "skipped=%llu\n",
						 (unsigned long long)watcher->skipped);
	watcher->skipped = 0;
	memcpy(watcher->lines + watcher->used, line, length);
	watcher->used += length;
	figures.sent++;
	if (!before)
		worker_wake(watcher->connection->worker);
}

/* Begins a line.  Return: behind what is there. */
static char *begin(char *line, const char *type)
{
	struct timeval now;

	gettimeofday(&now, NULL);
	return line + sprintf(line, "ts=%lld.%06ld gid=%llu type=%s ", (long long)now.tv_sec, (long)now.tv_usec,
			      (unsigned long long)__atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED), type);
}

static void tell(unsigned int what, const char *line, const char *end)
{
	unsigned int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < WATCHERS; i++)
		if (watchers[i].connection && watchers[i].wants & what)
			append(&watchers[i], line, (size_t)(end - line));
	pthread_mutex_unlock(&lock);
}

static char *put_key(char *at, const char *key, size_t key_length)
{
	memcpy(at, "key=", 4);
	return put_encoded(at + 4, key, key_length, is_plain);
}

/**
 * watch_fetched - tell of an item that was looked for
 * @connection: that asked
 * @key: of the item
 * @key_length: bytes
 * @status: found, not_found, flushed or expired
 * @length: bytes of its data; 0: it is not there
 */
void watch_fetched(const struct cached_connection *connection, const char *key, size_t key_length, const char *status,
		   size_t length)
{
	char line[LINE_BYTES], *at = put_key(begin(line, "item_get"), key, key_length);

	at += sprintf(at, " status=%s clsid=%d cfd=%d size=%zu\n", status, !strcmp(status, "found"), connection->fd,
		      length);
	tell(WATCH_FETCHERS, line, at);
}

/**
 * watch_stored - tell of an item that was to be stored
 * @connection: that asked
 * @change: the item
 * @result: of item_store()
 */
void watch_stored(const struct cached_connection *connection, const struct cached_change *change,
		  enum cached_result result)
{
	static const char *const commands[] = { "set", "add", "replace", "append", "prepend", "cas" };
	static const char *const results[] = {
		[ITEM_STORED] = "stored", [ITEM_NOT_STORED] = "not_stored", [ITEM_EXISTS] = "exists",
		[ITEM_NOT_FOUND] = "not_found", [ITEM_TOO_LARGE] = "too_large", [ITEM_NO_ROOM] = "no_memory",
		[ITEM_NOT_NUMERIC] = "not_stored", [ITEM_FAILED] = "not_stored",
	};
	char line[LINE_BYTES], *at = put_key(begin(line, "item_store"), change->key, change->key_length);
	uint32_t now = connection->worker->now;

	at += sprintf(at, " status=%s cmd=%s ttl=%u clsid=1 cfd=%d size=%zu\n", results[result], commands[change->mode],
		      change->expires > now ? change->expires - now : 0, connection->fd, change->length);
	tell(WATCH_MUTATIONS, line, at);
}

/**
 * watch_deleted - tell of an item that a client has removed
 * @connection: that asked
 * @key: of the item
 * @key_length: bytes
 * @item: its attributes
 */
void watch_deleted(const struct cached_connection *connection, const char *key, size_t key_length,
		   const struct lsm_item *item)
{
	char line[LINE_BYTES], *at = put_key(begin(line, "deleted"), key, key_length);

	at += sprintf(at, " cmd=delete clsid=1 cfd=%d size=%zu\n", connection->fd,
		      item->length - sizeof(struct cached_header));
	tell(WATCH_DELETIONS, line, at);
}

/**
 * watch_evicted - tell of an item that was evicted
 * @context: unused
 * @evicted: the item
 */
void watch_evicted(void *context, const struct lsm_evicted *evicted)
{
	char line[LINE_BYTES], *at = begin(line, "eviction");
	struct cached_header header;
	uint32_t last, now = item_now();

	(void)context;
	if (evicted->key_length > CACHED_KEY_MAX || evicted->head_length < sizeof(header))
		return;
	memcpy(&header, evicted->head, sizeof(header));
	last = access_last(&evicted->item);
	at = put_key(at, evicted->key, evicted->key_length);
	at += sprintf(at, " fetch=%s ttl=%lld la=%lld clsid=1 size=%zu\n", last ? "yes" : "no",
		      header.expires ? (long long)header.expires - now : -1, (long long)now - (last ? last : header.stored),
		      evicted->item.length - sizeof(header));
	tell(WATCH_EVICTIONS, line, at);
}

/**
 * watch_connection - tell of a connection that begins or ends
 * @connection: whose descriptor is open
 * @reason: why it ends; NULL: it begins
 */
void watch_connection(const struct cached_connection *connection, const char *reason)
{
	char line[LINE_BYTES], *at = begin(line, reason ? "conn_close" : "conn_new");
	struct sockaddr_storage address = { 0 };
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address;
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)&address;
	socklen_t length = sizeof(address);
	char text[INET6_ADDRSTRLEN] = "unix";
	unsigned int port = 0;

	/* What its client has closed may have no address any more */
	if (getpeername(connection->fd, (struct sockaddr *)&address, &length))
		address.ss_family = AF_UNSPEC;
	if (address.ss_family == AF_INET && inet_ntop(AF_INET, &in4->sin_addr, text, sizeof(text)))
		port = ntohs(in4->sin_port);
	else if (address.ss_family == AF_INET6 && inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text)))
		port = ntohs(in6->sin6_port);
	at += sprintf(at, "rip=%s rport=%u transport=%s%s%s cfd=%d\n", text, port, cached.options.path ? "local" : "tcp",
		      reason ? " reason=" : "", reason ? reason : "", connection->fd);
	tell(WATCH_CONNEVENTS, line, at);
}

static const char *find_wants(const struct cached_token *tokens, unsigned int nr, unsigned int *wants)
{
	unsigned int i, j;

	*wants = nr == 1 ? WATCH_FETCHERS : 0;
	for (i = 1; i < nr; i++) {
		for (j = 0; j < sizeof(logs) / sizeof(*logs) && !token_is(&tokens[i], logs[j].name); j++)
			;
		if (j == sizeof(logs) / sizeof(*logs))
			return "ERROR";
		*wants |= logs[j].wants;
	}
	return NULL;
}

/**
 * watch_command - watch
 * @connection: is a watcher from now on
 * @tokens: words of the command
 * @nr: of them
 *
 * Return: the answer, without its end.
 */
const char *watch_command(struct cached_connection *connection, const struct cached_token *tokens, unsigned int nr)
{
	struct watcher *watcher = watchers;
	const char *answer;
	unsigned int wants;

	if (cached.options.no_watch)
		return "CLIENT_ERROR watch commands not allowed";
	answer = find_wants(tokens, nr, &wants);
	if (answer)
		return answer;
	pthread_mutex_lock(&lock);
	while (watcher < watchers + WATCHERS && watcher->connection)
		watcher++;
	if (watcher == watchers + WATCHERS) {
		answer = "WATCHER_TOO_MANY log watcher limit reached";
	} else {
		*watcher = (struct watcher){ .wants = wants, .lines = malloc(WATCH_BYTES) };
		answer = watcher->lines ? "OK" : "WATCHER_FAILED failed to add log watcher";
	}
	if (!strcmp(answer, "OK")) {
		watcher->connection = connection;
		connection->watcher = watcher;
		figures.watchers++;
		set_watching();
	}
	pthread_mutex_unlock(&lock);
	return answer;
}

/**
 * watch_run - move lines to a watcher's connection, if it has sent all that it had
 * @connection: of a watcher; what its client sends is thrown away
 *
 * Return: true: there are more.
 */
bool watch_run(struct cached_connection *connection)
{
	struct watcher *watcher = connection->watcher;
	bool more;

	connection->in_begin = connection->in_end;
	connection->need = connection->swallow = 0;
	pthread_mutex_lock(&lock);
	if (!connection->out_end && watcher->used) {
		connection_add(connection, watcher->lines, watcher->used);
		watcher->used = 0;
	}
	more = watcher->used;
	pthread_mutex_unlock(&lock);
	return more;
}

/**
 * watch_each - activate the watchers of a worker
 * @worker: the caller, that was woken
 */
void watch_each(struct cached_worker *worker)
{
	unsigned int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < WATCHERS; i++)
		if (watchers[i].connection && watchers[i].connection->worker == worker && watchers[i].used)
			worker_activate(watchers[i].connection);
	pthread_mutex_unlock(&lock);
}

/**
 * watch_end - a watcher is about to be closed
 * @connection: that was one
 */
void watch_end(struct cached_connection *connection)
{
	struct watcher *watcher = connection->watcher;

	pthread_mutex_lock(&lock);
	free(watcher->lines);
	*watcher = (struct watcher){ 0 };
	figures.watchers--;
	set_watching();
	pthread_mutex_unlock(&lock);
}

/**
 * watch_stat - figures of all watchers
 * @stat: out
 */
void watch_stat(struct watch_stat *stat)
{
	pthread_mutex_lock(&lock);
	*stat = figures;
	pthread_mutex_unlock(&lock);
}
