// SPDX-License-Identifier: GPL-2.0
/* lsmemcached: counters, and the answers to stats. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cached.h"

#define LINE_BYTES	512

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cached_counters base;	/* sums at the last stats reset, under the lock */

/* In the order of the structure */
static const char *const names[] = {
	"cmd_get", "cmd_set", "cmd_flush", "cmd_touch", "cmd_meta", "get_hits", "get_misses",
	"get_expired", "get_flushed", "delete_misses", "delete_hits", "incr_misses", "incr_hits",
	"decr_misses", "decr_hits", "cas_misses", "cas_hits", "cas_badval", "touch_hits",
	"touch_misses", "store_too_large", "store_no_memory", "store_failures", "total_items", "bytes_read",
	"bytes_written", "evictions", "reclaimed", "crawler_reclaimed", "crawler_items_checked",
	"batches", "durable_waits", "durable_failures", "total_connections", "rejected_connections",
	"idle_kicks", "auth_cmds", "auth_errors", "ssl_handshake_errors", "detail_uncounted",
};

#define COUNTERS	(sizeof(names) / sizeof(*names))

_Static_assert(sizeof(struct cached_counters) == COUNTERS * sizeof(uint64_t), "each counter has a name");

static void add_up(uint64_t *sums, const struct cached_counters *counters)
{
	const uint64_t *from = (const uint64_t *)counters;
	size_t i;

	for (i = 0; i < COUNTERS; i++)
		sums[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

static void sum(struct cached_counters *sums)
{
	unsigned int i;

	memset(sums, 0, sizeof(*sums));
	add_up((uint64_t *)sums, &cached.upkeep);
	for (i = 0; i < cached.options.threads; i++)
		add_up((uint64_t *)sums, &cached.workers[i].counters);
}

static void __attribute__((format(printf, 3, 4)))
stat_line(struct cached_connection *connection, const char *name, const char *format, ...)
{
	char line[LINE_BYTES];
	int head = snprintf(line, sizeof(line), "STAT %s ", name);
	va_list args;

	va_start(args, format);
	vsnprintf(line + head, sizeof(line) - (size_t)head, format, args);
	va_end(args);
	connection_say(connection, line);
}

static void stat_number(struct cached_connection *connection, const char *name, uint64_t number)
{
	stat_line(connection, name, "%llu", (unsigned long long)number);
}

static void stat_process(struct cached_connection *connection)
{
	uint32_t now = item_now();
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	stat_line(connection, "pid", "%d", (int)getpid());
	stat_number(connection, "uptime", now - cached.started);
	stat_number(connection, "time", now);
	stat_line(connection, "version", "%s", CACHED_VERSION);
	stat_number(connection, "pointer_size", 8 * sizeof(void *));
	stat_line(connection, "rusage_user", "%ld.%06ld", (long)usage.ru_utime.tv_sec, (long)usage.ru_utime.tv_usec);
	stat_line(connection, "rusage_system", "%ld.%06ld", (long)usage.ru_stime.tv_sec, (long)usage.ru_stime.tv_usec);
	stat_number(connection, "max_connections", cached.options.connections);
	stat_number(connection, "curr_connections", __atomic_load_n(&cached.open, __ATOMIC_RELAXED));
	stat_number(connection, "threads", cached.options.threads);
}

/* Bytes that items may take */
static uint64_t limit(const struct lsmem_stat *store)
{
	return __atomic_load_n(&cached.limit, __ATOMIC_RELAXED) ?: store->capacity;
}

static void stat_table(struct cached_connection *connection)
{
	struct lsm_table_stat table = { 0 };
	struct lsmem_stat store = { 0 };

	lsm_table_stat(cached.table, &table);
	lsm_stat(cached.lsm, &store);
	/* One item is the server's own */
	stat_number(connection, "curr_items", table.items ? table.items - 1 : 0);
	stat_number(connection, "bytes", store.live_bytes);
	stat_number(connection, "limit_maxbytes", limit(&store));
	stat_number(connection, "index_bytes", table.index_bytes);
	stat_number(connection, "accepting_conns", 1);
}

static void stat_all(struct cached_connection *connection)
{
	struct cached_counters sums;
	struct watch_stat watch;
	size_t i;

	stat_process(connection);
	sum(&sums);
	pthread_mutex_lock(&lock);
	for (i = 0; i < COUNTERS; i++)
		stat_number(connection, names[i], ((uint64_t *)&sums)[i] - ((uint64_t *)&base)[i]);
	pthread_mutex_unlock(&lock);
	watch_stat(&watch);
	stat_number(connection, "log_watchers", watch.watchers);
	stat_number(connection, "log_watcher_sent", watch.sent);
	stat_number(connection, "log_watcher_skipped", watch.skipped);
	stat_number(connection, "lru_crawler_running", __atomic_load_n(&cached.crawler.wanted, __ATOMIC_RELAXED));
	stat_table(connection);
}

static void stat_settings(struct cached_connection *connection)
{
	const struct cached_options *options = &cached.options;
	struct lsmem_stat store = { 0 };

	lsm_stat(cached.lsm, &store);
	stat_number(connection, "maxbytes", limit(&store));
	stat_number(connection, "maxconns", options->connections);
	stat_number(connection, "tcpport", options->path ? 0 : options->port);
	stat_number(connection, "udpport", 0);
	stat_line(connection, "inter", "%s", options->listen ? options->listen : "NULL");
	stat_number(connection, "verbosity", options->verbose);
	stat_line(connection, "evictions", "%s", options->keep ? "off" : "on");
	stat_line(connection, "domain_socket", "%s", options->path ? options->path : "NULL");
	stat_line(connection, "umask", "%o", options->access);
	stat_line(connection, "cas_enabled", "yes");
	stat_number(connection, "tcp_backlog", options->backlog);
	stat_line(connection, "stat_key_prefix", "%c", options->delimiter);
	stat_line(connection, "detail_enabled", "%s", __atomic_load_n(&cached.detail, __ATOMIC_RELAXED) ? "yes" : "no");
	stat_line(connection, "binding_protocol", "ascii");
	stat_line(connection, "auth_enabled_sasl", "no");
	stat_line(connection, "auth_enabled_ascii", "%s", options->auth_file ? options->auth_file : "no");
	stat_number(connection, "item_size_max", options->item_max);
	stat_number(connection, "num_threads", options->threads);
	stat_line(connection, "flush_enabled", "%s", options->no_flush ? "no" : "yes");
	stat_line(connection, "watch_enabled", "%s", options->no_watch ? "no" : "yes");
	stat_line(connection, "shutdown_command", "%s", options->shutdown ? "yes" : "no");
	stat_number(connection, "idle_timeout", options->idle);
	stat_line(connection, "lru_crawler", "%s", __atomic_load_n(&cached.crawler.disabled, __ATOMIC_RELAXED) ? "no" : "yes");
	stat_number(connection, "lru_crawler_sleep", __atomic_load_n(&cached.crawler.sleep, __ATOMIC_RELAXED));
	stat_number(connection, "lru_crawler_tocrawl", __atomic_load_n(&cached.crawler.most, __ATOMIC_RELAXED));
	stat_line(connection, "lru_maintainer_thread", "no");
	stat_line(connection, "slab_reassign", "no");
	stat_number(connection, "slab_automove", 0);
	stat_line(connection, "ssl_enabled", "%s", options->ssl ? "yes" : "no");
	stat_line(connection, "ssl_chain_cert", "%s", options->ssl_chain_cert ? options->ssl_chain_cert : "NULL");
	stat_line(connection, "ssl_key", "%s", options->ssl_key ? options->ssl_key : "NULL");
	stat_line(connection, "ssl_ca_cert", "%s", options->ssl_ca_cert ? options->ssl_ca_cert : "NULL");
	stat_line(connection, "store", "%s", options->store ? options->store : LSM_DEFAULT_STORE);
	stat_number(connection, "table", options->table);
	stat_line(connection, "mode", "%s", options->keep ? "store" : "cache");
	stat_line(connection, "durable", "%s", options->durable ? "yes" : "no");
	stat_number(connection, "memory", options->memory);
}

/* memcached has classes of items by size; here all are in one log */
static void stat_items(struct cached_connection *connection)
{
	struct lsm_table_stat table = { 0 };

	lsm_table_stat(cached.table, &table);
	if (table.items > 1)
		stat_number(connection, "items:1:number", table.items - 1);
}

static void stat_slabs(struct cached_connection *connection)
{
	struct lsmem_stat store = { 0 };

	lsm_stat(cached.lsm, &store);
	stat_number(connection, "active_slabs", 1);
	stat_number(connection, "total_malloced", store.capacity);
}

static void reset(struct cached_connection *connection)
{
	pthread_mutex_lock(&lock);
	sum(&base);
	pthread_mutex_unlock(&lock);
	prefix_forget();
	connection_say(connection, "RESET");
}

/* Names of items, up to a number of them */
static void dump(struct cached_connection *connection, uint32_t most)
{
	uint64_t cursor = 0;

	while (connection->out_end - connection->out_begin < CONNECTION_OUT_MAX) {
		char key[CACHED_KEY_MAX], line[CACHED_KEY_MAX + 64], *at = line;
		size_t key_length = sizeof(key);
		struct cached_header header;
		struct lsm_item item;

		if (lsm_table_next(cached.table, &cursor, key, &key_length, &header, sizeof(header), &item) != 1)
			break;
		if (key_length > CACHED_KEY_MAX || item.length < sizeof(header) || !item_is_live(&header))
			continue;
		memcpy(at, "ITEM ", 5);
		memcpy(at + 5, key, key_length);
		at += 5 + key_length;
		at += snprintf(at, 64, " [%zu b; %u s]\r\n", item.length - sizeof(header), header.expires);
		connection_add(connection, line, (size_t)(at - line));
		if (!--most)
			break;
	}
}

/**
 * stats_command - answer stats
 * @connection: to send on
 * @tokens: words of the command
 * @nr: of them
 */
void stats_command(struct cached_connection *connection, const struct cached_token *tokens, unsigned int nr)
{
	uint32_t class, most;

	if (nr == 1) {
		stat_all(connection);
	} else if (token_is(&tokens[1], "reset")) {
		reset(connection);
		return;
	} else if (token_is(&tokens[1], "detail")) {
		prefix_command(connection, nr > 2 ? &tokens[2] : NULL);
		return;
	} else if (token_is(&tokens[1], "settings")) {
		stat_settings(connection);
	} else if (token_is(&tokens[1], "items")) {
		stat_items(connection);
	} else if (token_is(&tokens[1], "slabs")) {
		stat_slabs(connection);
	} else if (token_is(&tokens[1], "sizes")) {
		stat_line(connection, "sizes_status", "disabled");
	} else if (token_is(&tokens[1], "cachedump")) {
		if (nr < 4 || !token_u32(&tokens[2], &class) || !token_u32(&tokens[3], &most)) {
			connection_say(connection, "CLIENT_ERROR bad command line");
			return;
		}
		/* Clients ask for one class after the other */
		if (class == 1)
			dump(connection, most);
	} else if (token_is(&tokens[1], "conns")) {
		connection->dump = DUMP_CONNECTIONS;
		connection->dump_cursor = 0;
		return;
	} else if (!token_is(&tokens[1], "extstore")) {
		connection_say(connection, "ERROR");
		return;
	}
	connection_say(connection, "END");
}
