/* SPDX-License-Identifier: GPL-2.0 */
/*
 * lsmemcached: a server that speaks memcached's text and meta protocols over a table with keys of liblsmem.
 *
 * Layers, lowest first:
 *	options.c	command line
 *	number.c	numbers and keys in the text of commands
 *	access.c	which items were read, and when
 *	item.c		items in the table: layout, expiry, changes, room
 *	prefix.c	commands by prefix of their keys, and the answers to stats detail
 *	batch.c		gets and sets of all connections of a worker, in few calls of the library
 *	tls.c		encryption of connections
 *	connection.c	buffers of a connection, reading and writing
 *	conns.c		which descriptors are connections, and the answer to stats conns
 *	stats.c		counters, and the answers to stats
 *	watch.c		lines of a log for clients that watch
 *	operate.c	dumps of all items, the crawler, the limit of memory
 *	text.c		classic commands
 *	meta.c		meta commands
 *	auth.c		users and passwords
 *	command.c	from bytes of a connection to commands
 *	worker.c	threads that serve connections
 *	upkeep.c	the thread that removes expired items, evicts ahead, carries out delayed flushes
 *	listen.c	sockets that accept
 *	main.c		start and stop
 */
#ifndef _CACHED_H
#define _CACHED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "lsmem.h"

#define CACHED_VERSION		"1.6.18-lsmem"	/* clients look at the number for what they may send */
#define CACHED_KEY_MAX		250u		/* bytes of a key */
#define CACHED_OBJECT_MAX	(1u << 20)	/* bytes of value, header and key: an object of the store */
#define CACHED_OBJECT_SPARE	64u		/* of them, for the table and the key's length */
#define CACHED_TOKENS		32u		/* words of a command that are told apart */

/**
 * struct cached_counters - counters of one thread, which alone changes them; stats.c has their names
 * @cmd_get: keys asked for
 * @cmd_set: items that were to be stored
 * @cmd_flush: flush_all
 * @cmd_touch: items that were to be touched
 * @cmd_meta: meta commands, but mn
 * @get_hits: of @cmd_get, found
 * @get_misses: of @cmd_get, not found
 * @get_expired: reads that found an expired item
 * @get_flushed: reads that found an item that a flush made invalid
 * @delete_misses: no item
 * @delete_hits: done
 * @incr_misses: no item
 * @incr_hits: done
 * @decr_misses: no item
 * @decr_hits: done
 * @cas_misses: no item
 * @cas_hits: done
 * @cas_badval: another version
 * @touch_hits: done
 * @touch_misses: no item
 * @store_too_large: items refused for their size
 * @store_no_memory: items refused for want of room
 * @store_failures: reads that failed: their clients are disconnected
 * @total_items: items stored
 * @bytes_read: from connections
 * @bytes_written: to connections
 * @evictions: items evicted
 * @reclaimed: expired or flushed items that were removed
 * @crawler_reclaimed: of @reclaimed, by upkeep.c
 * @crawler_items_checked: items that it looked at
 * @batches: flushes of batches
 * @durable_waits: of passes
 * @durable_failures: waits that failed
 * @total_connections: accepted
 * @rejected_connections: over the limit
 * @idle_kicks: connections closed because they were idle, or late with TLS or the password
 * @auth_cmds: users and passwords that were given
 * @auth_errors: of @auth_cmds, wrong
 * @ssl_handshake_errors: connections that never spoke TLS as they must
 * @detail_uncounted: commands that stats detail would have, but for the number of prefixes
 */
struct cached_counters {
	uint64_t cmd_get;
	uint64_t cmd_set;
	uint64_t cmd_flush;
	uint64_t cmd_touch;
	uint64_t cmd_meta;
	uint64_t get_hits;
	uint64_t get_misses;
	uint64_t get_expired;
	uint64_t get_flushed;
	uint64_t delete_misses;
	uint64_t delete_hits;
	uint64_t incr_misses;
	uint64_t incr_hits;
	uint64_t decr_misses;
	uint64_t decr_hits;
	uint64_t cas_misses;
	uint64_t cas_hits;
	uint64_t cas_badval;
	uint64_t touch_hits;
	uint64_t touch_misses;
	uint64_t store_too_large;
	uint64_t store_no_memory;
	uint64_t store_failures;
	uint64_t total_items;
	uint64_t bytes_read;
	uint64_t bytes_written;
	uint64_t evictions;
	uint64_t reclaimed;
	uint64_t crawler_reclaimed;
	uint64_t crawler_items_checked;
	uint64_t batches;
	uint64_t durable_waits;
	uint64_t durable_failures;
	uint64_t total_connections;
	uint64_t rejected_connections;
	uint64_t idle_kicks;
	uint64_t auth_cmds;
	uint64_t auth_errors;
	uint64_t ssl_handshake_errors;
	uint64_t detail_uncounted;
};

/**
 * struct cached_options - what the command line says
 * @store: device of the store
 * @table: id of the table
 * @keep: store mode: items are never evicted
 * @durable: changes are answered when they are durable
 * @listen: addresses to listen on, separated by commas; NULL: all
 * @path: of a unix socket; NULL: TCP
 * @access: permissions of @path
 * @pidfile: NULL: none
 * @port: TCP port
 * @threads: workers
 * @connections: most at a time
 * @backlog: of sockets that listen
 * @item_max: bytes of the largest item
 * @memory: cache mode: percent of the store's capacity that items may take
 * @idle: seconds after which a connection without commands is closed; 0: never
 * @auth_file: users and passwords; NULL: clients are not authenticated
 * @ssl: TCP connections speak TLS
 * @ssl_chain_cert: file of the server's certificate and those that lead to its root
 * @ssl_key: file of its key; NULL: it is in @ssl_chain_cert
 * @ssl_ca_cert: file of certificates, by one of which those of clients must be signed; NULL: clients need none
 * @delimiter: byte that ends the prefix of a key
 * @detail: count by prefix from the start on
 * @verbose: level of messages
 * @no_flush: flush_all is refused
 * @no_watch: watch is refused
 * @shutdown: the command shutdown is obeyed
 * @debug_time: the command debugtime moves the clock
 */
struct cached_options {
	const char *store;
	uint32_t table;
	bool keep;
	bool durable;
	const char *listen;
	const char *path;
	unsigned int access;
	const char *pidfile;
	unsigned int port;
	unsigned int threads;
	unsigned int connections;
	unsigned int backlog;
	unsigned int item_max;
	unsigned int memory;
	unsigned int idle;
	const char *auth_file;
	bool ssl;
	const char *ssl_chain_cert;
	const char *ssl_key;
	const char *ssl_ca_cert;
	char delimiter;
	bool detail;
	unsigned int verbose;
	bool no_flush;
	bool no_watch;
	bool shutdown;
	bool debug_time;
};

/**
 * struct cached_crawler - what clients have said of the look for expired items; zeros: as it is at the start
 * @disabled: there is none, and no dump either
 * @wanted: a look at all of them from the first one on has not ended
 * @sleep: microseconds for each item at least; 0: as fast as it does at the start
 * @most: items of a look that was asked for; 0: all
 */
struct cached_crawler {
	bool disabled;
	bool wanted;
	uint32_t sleep;
	uint32_t most;
};

/**
 * struct cached - the server
 * @options: of the command line
 * @lsm: the store
 * @table: all items
 * @workers: threads that serve, options.threads of them
 * @upkeep: counters of the thread of upkeep.c and of the one that accepts
 * @evicting: held by who evicts
 * @flushing: protects @flush_at and the item that holds it
 * @generation: of the items that are valid: a flush begins a new one
 * @flush_at: second at which the next flush is due, 0: none
 * @clock_offset: seconds by which debugtime moved the clock
 * @limit: bytes of live data that cache_memlimit allows, 0: options.memory says
 * @crawler: of upkeep.c
 * @detail: commands are counted by prefix
 * @watching: WATCH_*: what any watcher wants
 * @started: second at which the server started
 * @open: connections
 * @stop: the server ends
 */
struct cached {
	struct cached_options options;
	struct lsm *lsm;
	struct lsm_table *table;
	struct cached_worker *workers;
	struct cached_counters upkeep;
	pthread_mutex_t evicting;
	pthread_mutex_t flushing;
	uint32_t generation;
	uint32_t flush_at;
	int64_t clock_offset;
	uint64_t limit;
	struct cached_crawler crawler;
	bool detail;
	unsigned int watching;
	uint32_t started;
	unsigned int open;
	bool stop;
};

extern struct cached cached;

/* options.c */
int cached_options_parse(int argc, char **argv, struct cached_options *options);

/* number.c */

/**
 * struct cached_token - a word of a command
 * @at: its first byte; no 0 follows it
 * @length: bytes
 */
struct cached_token {
	const char *at;
	size_t length;
};

bool token_is(const struct cached_token *token, const char *text);
bool token_u32(const struct cached_token *token, uint32_t *number);
bool token_u64(const struct cached_token *token, uint64_t *number);
bool token_i32(const struct cached_token *token, int32_t *number);
char *put_u64(char *at, uint64_t number);
bool is_plain(unsigned char byte);
bool is_of_word(unsigned char byte);
char *put_encoded(char *at, const char *bytes, size_t length, bool (*as_is)(unsigned char byte));
size_t base64_decode(const char *from, size_t length, void *to, size_t room);
char *base64_encode(const void *from, size_t length, char *to);

/* access.c */
void access_note(const struct lsm_item *item, uint32_t now);
uint32_t access_last(const struct lsm_item *item);

/* item.c */

/**
 * struct cached_header - what an item's value in the table begins with; the client's data follow
 * @flags: of the client
 * @expires: second since 1970 from which on the item is gone, 0: never
 * @stored: second since 1970 when the data were stored
 * @state: ITEM_*
 *
 * In the byte order of the host.
 */
struct cached_header {
	uint32_t flags;
	uint32_t expires;
	uint32_t stored;
	uint32_t state;
};

#define ITEM_STALE		(1u << 31)	/* marked by md or ms with I */
#define ITEM_WON		(1u << 30)	/* a client has been told to make it anew */
#define ITEM_BINARY		(1u << 29)	/* the key came in base64 */
#define ITEM_GENERATION		((1u << 29) - 1) /* cached.generation, when it was stored */

/**
 * struct cached_view - an item that was read
 * @header: of its value
 * @data: of the client, until the worker's next call
 * @length: bytes of @data
 * @item: attributes of the object; @item.version is what clients know as cas unique
 */
struct cached_view {
	struct cached_header header;
	char *data;
	size_t length;
	struct lsm_item item;
};

enum cached_result {
	ITEM_STORED,
	ITEM_NOT_STORED,
	ITEM_EXISTS,
	ITEM_NOT_FOUND,
	ITEM_TOO_LARGE,
	ITEM_NO_ROOM,
	ITEM_NOT_NUMERIC,
	ITEM_FAILED,
};

enum cached_mode {
	ITEM_SET,
	ITEM_ADD,
	ITEM_REPLACE,
	ITEM_APPEND,
	ITEM_PREPEND,
	ITEM_CAS,
};

/**
 * struct cached_change - an item to be stored
 * @mode: how
 * @key: of the item
 * @key_length: bytes, 1 .. CACHED_KEY_MAX
 * @data: with room for a struct cached_header before them, whose bytes are restored
 * @length: bytes of @data
 * @flags: of the client
 * @expires: as struct cached_header
 * @state: ITEM_BINARY or 0
 * @has_cas: with ITEM_APPEND and ITEM_PREPEND: @cas is the version that must be there; ITEM_CAS has it always
 * @invalidate: with ITEM_CAS: if @cas is older than the item, store it all the same, but as stale
 * @cas: in: see @has_cas; out: version of the item
 */
struct cached_change {
	enum cached_mode mode;
	const char *key;
	size_t key_length;
	char *data;
	size_t length;
	uint32_t flags;
	uint32_t expires;
	uint32_t state;
	bool has_cas;
	bool invalidate;
	uint64_t cas;
};

/**
 * struct cached_sum - an item whose number is to be changed
 * @key: of the item
 * @key_length: bytes, 1 .. CACHED_KEY_MAX
 * @decrement: subtract, down to 0; else add, modulo 2^64
 * @delta: how much
 * @has_cas: @cas is the version that must be there
 * @new_expires: set @expires
 * @create: an item that is not there is made, with @initial and @create_expires
 * @binary: of an item that is made: the key came in base64
 * @expires: as struct cached_header; out: what it is
 * @create_expires: likewise
 * @initial: number of an item that is made
 * @cas: in: see @has_cas; out: version of the item
 * @number: out
 */
struct cached_sum {
	const char *key;
	size_t key_length;
	bool decrement;
	uint64_t delta;
	bool has_cas;
	bool new_expires;
	bool create;
	bool binary;
	uint32_t expires;
	uint32_t create_expires;
	uint64_t initial;
	uint64_t cas;
	uint64_t number;
};

struct cached_worker;

uint32_t item_now(void);
uint32_t item_expires(int64_t seconds);
bool item_fits(size_t key_length, size_t length);
void item_header_fill(const struct cached_worker *worker, struct cached_header *header, uint32_t flags, uint32_t expires,
		      uint32_t state);
bool item_is_live(const struct cached_header *header);
bool item_is_absent(struct cached_worker *worker, ssize_t got);
bool item_retire(struct cached_counters *counters, const char *key, size_t key_length, const struct lsm_item *item);
bool item_read(struct cached_worker *worker, const char *key, size_t key_length, struct cached_view *view);
enum cached_result item_write(struct cached_worker *worker, const char *key, size_t key_length, const void *value,
			      size_t length, unsigned int flags, uint64_t *version);
enum cached_result item_rewrite(struct cached_worker *worker, const char *key, size_t key_length,
				struct cached_view *view);
enum cached_result item_store(struct cached_worker *worker, struct cached_change *change);
enum cached_result item_sum(struct cached_worker *worker, struct cached_sum *sum);
enum cached_result item_touch(struct cached_worker *worker, const char *key, size_t key_length, uint32_t expires,
			      struct cached_view *view);
enum cached_result item_remove(struct cached_worker *worker, const char *key, size_t key_length);
enum cached_result item_remove_version(struct cached_worker *worker, const char *key, size_t key_length,
				       const struct lsm_item *item);
int item_flush_load(void);
int item_flush(struct cached_worker *worker, uint32_t when);
void item_flush_due(void);
bool item_evict(struct cached_counters *counters, size_t bytes);

/* auth.c */
int auth_load(void);
bool auth_check(const char *data, size_t length);

/* tls.c */
struct cached_connection;

int tls_load(void);
bool tls_begin(struct cached_connection *connection);
ssize_t tls_receive(struct cached_connection *connection, void *to, size_t room);
bool tls_is_ready(const struct cached_connection *connection);
size_t tls_pending(const struct cached_connection *connection);
ssize_t tls_send(struct cached_connection *connection, const void *from, size_t length);
void tls_end(struct cached_connection *connection);

/* connection.c */

enum batch_kind {
	BATCH_TEXT,		/* a line, when its turn comes */
	BATCH_GET,
	BATCH_GETS,
	BATCH_META_GET,
	BATCH_SET,
	BATCH_SET_QUIET,
	BATCH_META_SET,
};

enum cached_dump {
	DUMP_NONE,
	DUMP_META,		/* lines of key=... */
	DUMP_META_GET,		/* commands mg */
	DUMP_CONNECTIONS,	/* stats conns */
};

enum cached_state {
	STATE_READ,		/* for a command */
	STATE_DATA,		/* for the rest of one */
	STATE_SWALLOW,		/* for bytes to be thrown away */
	STATE_WRITE,		/* for room in the socket */
	STATE_CLOSING,
};

/**
 * struct cached_connection - a client
 * @worker: that serves it
 * @next: in a list of its worker: those that are active, those that were handed over
 * @place: in the queue of its worker that @greeted tells
 * @fd: socket
 * @tls: state of TLS, NULL: without
 * @tls_full: TLS waits for room in the socket before it can read on
 * @tls_ready: the handshake is over
 * @authenticated: its commands are carried out
 * @greeted: it is in the worker's queue of those that have done with TLS and the password
 * @in: bytes that were read; room for a header is before it
 * @in_size: bytes of room at @in
 * @in_begin: of the bytes that are not used yet
 * @in_end: of them
 * @need: bytes of a command that is not complete; less: wait for more
 * @swallow: bytes to be thrown away before the next command
 * @keys: BATCH_GET, BATCH_GETS: more keys of such a command are to come; BATCH_TEXT: none
 * @dump: what is made before the next command
 * @dump_cursor: where it is in the table; DUMP_CONNECTIONS: the next descriptor
 * @out: bytes to be sent
 * @out_size: bytes of room at @out
 * @out_begin: of the bytes that are not sent yet
 * @out_end: of them
 * @pending: what the worker's batch has of it
 * @active: it is in the list of its worker's pass
 * @waits_out: the socket is polled for room
 * @more: it has commands left, for which the answers must be sent first
 * @closing: to be closed when everything has been sent
 * @dead: to be closed at once
 * @changed: in this pass it has changed items
 * @watcher: of watch.c; NULL: it is none
 * @reason: why it ends; NULL: an error
 * @state: what it waits for, between passes
 * @since: second of the worker's clock from which its time counts: that of its last command, or of its begin
 *
 * The worker alone uses it; other threads, in conns.c, read @state and @since.
 */
struct cached_connection {
	struct cached_worker *worker;
	struct cached_connection *next;
	TAILQ_ENTRY(cached_connection) place;
	int fd;
	struct ssl_st *tls;
	bool tls_full;
	bool tls_ready;
	bool authenticated;
	bool greeted;
	char *in;
	size_t in_size;
	size_t in_begin;
	size_t in_end;
	size_t need;
	size_t swallow;
	enum batch_kind keys;
	enum cached_dump dump;
	uint64_t dump_cursor;
	char *out;
	size_t out_size;
	size_t out_begin;
	size_t out_end;
	enum { PENDING_NONE, PENDING_GETS, PENDING_PUTS } pending;
	bool active;
	bool waits_out;
	bool more;
	bool closing;
	bool dead;
	bool changed;
	struct watcher *watcher;
	const char *reason;
	enum cached_state state;
	int64_t since;
};

TAILQ_HEAD(cached_queue, cached_connection);

#define CONNECTION_OUT_MAX	(2u << 20)	/* bytes to be sent from which on no command is carried out */

struct cached_connection *connection_new(struct cached_worker *worker, int fd);
void connection_free(struct cached_connection *connection);
bool connection_receive(struct cached_connection *connection);
void connection_send(struct cached_connection *connection);
char *connection_room(struct cached_connection *connection, size_t bytes);
void connection_add(struct cached_connection *connection, const void *data, size_t length);
void connection_say(struct cached_connection *connection, const char *line);

/* conns.c */
bool conns_add(int fd, struct cached_connection *connection);
void conns_remove(int fd);
void conns_note(struct cached_connection *connection);
void conns_list(struct cached_connection *asks);

/* prefix.c */

enum prefix_what {
	PREFIX_MISS,
	PREFIX_HIT,
	PREFIX_SET,
	PREFIX_DELETE,
};

void prefix_count(struct cached_worker *worker, const char *key, size_t key_length, enum prefix_what what);
void prefix_forget(void);
void prefix_command(struct cached_connection *connection, const struct cached_token *what);

/* Counts a command, if commands are counted */
static inline void detail_count(struct cached_worker *worker, const char *key, size_t key_length, enum prefix_what what)
{
	if (__builtin_expect(__atomic_load_n(&cached.detail, __ATOMIC_RELAXED), false))
		prefix_count(worker, key, key_length, what);
}

/* meta.c, but needed by the batch */

/**
 * struct cached_meta - flags of a meta command
 * @nr: of @tokens
 * @first: index of the first flag
 * @key: that is meant: @decoded, if it came in base64
 * @key_length: bytes
 * @seen: bit of each flag's letter, of the first of its kind
 * @mode: token of M, 0: none
 * @expires: of T, as struct cached_header
 * @create_expires: of N
 * @recache: of R
 * @client_flags: of F
 * @cas: of C
 * @delta: of D
 * @initial: of J
 * @decoded: room for a key that came in base64
 * @tokens: all words of the command
 */
struct cached_meta {
	unsigned int nr;
	unsigned int first;
	const char *key;
	size_t key_length;
	uint64_t seen;
	char mode;
	uint32_t expires;
	uint32_t create_expires;
	uint32_t recache;
	uint32_t client_flags;
	uint64_t cas;
	uint64_t delta;
	uint64_t initial;
	char decoded[CACHED_KEY_MAX];
	struct cached_token tokens[CACHED_TOKENS];
};

/* batch.c */

#define BATCH_OPS	64u	/* gets, and puts, that are gathered */
#define BATCH_VALUE	2048u	/* largest value that is */

struct cached_batch;

struct cached_batch *batch_new(void);
void batch_get(struct cached_connection *connection, enum batch_kind kind, const char *key, size_t key_length,
	       const struct cached_meta *meta);
void batch_set(struct cached_connection *connection, enum batch_kind kind, const struct cached_change *change,
	       const struct cached_meta *meta);
void batch_say(struct cached_connection *connection, const char *line);
void batch_settle(struct cached_connection *connection);
void batch_flush(struct cached_worker *worker);

/* stats.c */
void stats_command(struct cached_connection *connection, const struct cached_token *tokens, unsigned int nr);

/* watch.c */

#define WATCH_FETCHERS		(1u << 0)
#define WATCH_MUTATIONS		(1u << 1)
#define WATCH_EVICTIONS		(1u << 2)
#define WATCH_CONNEVENTS	(1u << 3)
#define WATCH_DELETIONS		(1u << 4)

/**
 * struct watch_stat - figures of all watchers
 * @watchers: there are
 * @sent: lines for them, each counted for each that wants it
 * @skipped: lines that were dropped
 */
struct watch_stat {
	uint64_t watchers;
	uint64_t sent;
	uint64_t skipped;
};

void watch_fetched(const struct cached_connection *connection, const char *key, size_t key_length, const char *status,
		   size_t length);
void watch_stored(const struct cached_connection *connection, const struct cached_change *change,
		  enum cached_result result);
void watch_deleted(const struct cached_connection *connection, const char *key, size_t key_length,
		   const struct lsm_item *item);
void watch_evicted(void *context, const struct lsm_evicted *evicted);
void watch_connection(const struct cached_connection *connection, const char *reason);
const char *watch_command(struct cached_connection *connection, const struct cached_token *tokens, unsigned int nr);
bool watch_run(struct cached_connection *connection);
void watch_each(struct cached_worker *worker);
void watch_end(struct cached_connection *connection);
void watch_stat(struct watch_stat *stat);

/* Whether a watcher wants to be told */
static inline bool is_watched(unsigned int what)
{
	return __builtin_expect((__atomic_load_n(&cached.watching, __ATOMIC_RELAXED) & what) != 0, false);
}

/* Whether a batch takes a change: not if a watcher has to be told what was there before it */
static inline bool batch_takes(const struct cached_change *change)
{
	return change->mode == ITEM_SET && change->length <= BATCH_VALUE && !is_watched(WATCH_FETCHERS);
}

/* operate.c */
void operate_dump(struct cached_connection *connection);
const char *operate_crawler(struct cached_connection *connection, const struct cached_token *tokens, unsigned int nr);
const char *operate_slabs(const struct cached_token *tokens, unsigned int nr);
const char *operate_limit(const struct cached_token *token);

/* text.c */

enum text_result {
	TEXT_DONE,		/* the command was carried out, or refused */
	TEXT_MORE,		/* its data are not there: connection->need says how much it is */
};

enum text_result text_command(struct cached_connection *connection, const struct cached_token *tokens, unsigned int nr,
			      const char *after, size_t left, size_t *used);
void text_value(struct cached_connection *connection, const char *key, size_t key_length,
		const struct cached_view *view, bool with_cas);
enum text_result text_get_keys(struct cached_connection *connection, const char *at, const char *end,
			       enum batch_kind kind, size_t *used);
const char *text_stored(enum cached_result result);
bool text_data(struct cached_connection *connection, const char *after, size_t left, size_t length, size_t *used,
	       bool *sound);

/* meta.c */
enum text_result meta_command(struct cached_connection *connection, const struct cached_token *tokens,
			      unsigned int nr, const char *after, size_t left, size_t *used);
void meta_got(struct cached_connection *connection, const struct cached_meta *meta, struct cached_view *view);
void meta_stored(struct cached_connection *connection, const struct cached_meta *meta, enum cached_result result,
		 uint64_t version);

/* command.c */
bool command_run(struct cached_connection *connection);

/* worker.c */

/**
 * struct cached_worker - a thread that serves connections
 * @counters: of its commands
 * @batch: what it has gathered
 * @large: room for one object
 * @active: connections with something to do in this pass
 * @greeting: connections that have not done with TLS or the password, the oldest first
 * @served: the others, the one whose last command is the oldest first
 * @prefix_lock: protects @prefix_counts
 * @prefix_counts: of prefix.c; NULL: none yet
 * @lock: protects @handed
 * @handed: new connections, from the thread that accepts
 * @thread: id
 * @poll: epoll descriptor
 * @wake: eventfd: look at @handed and at the clock, or stop
 * @timer: timerfd: a second has passed
 * @now: second of this pass
 * @tick: of this pass: second of a clock that is never set
 * @timed: @timer expires each second
 * @busy: there were commands since it expired
 * @changed: connections have changed items in this pass
 * @failed: a read of the command failed, so that its answer is not known
 * @serving: connection whose command is carried out
 */
struct cached_worker {
	struct cached_counters counters;
	struct cached_batch *batch;
	char *large;
	struct cached_connection *active;
	struct cached_queue greeting;
	struct cached_queue served;
	pthread_mutex_t prefix_lock;
	struct prefix_counts *prefix_counts;
	pthread_mutex_t lock;
	struct cached_connection *handed;
	pthread_t thread;
	int poll;
	int wake;
	int timer;
	uint32_t now;
	int64_t tick;
	bool timed;
	bool busy;
	bool changed;
	bool failed;
	struct cached_connection *serving;
};

int worker_start(struct cached_worker *worker);
void worker_hand(struct cached_worker *worker, int fd);
void worker_wake_all(void);
void worker_wake(struct cached_worker *worker);
void worker_activate(struct cached_connection *connection);
void worker_stop(struct cached_worker *worker);
void worker_poll_out(struct cached_connection *connection, bool out);

/* upkeep.c */
int upkeep_start(void);
void upkeep_stop(void);

/* listen.c */
int listen_open(void);
int listen_serve(void);
void listen_close(void);

#endif
