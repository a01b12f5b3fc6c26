// SPDX-License-Identifier: GPL-2.0
/* lsmemcached: classic commands. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cached.h"

#define BAD_FORMAT	"CLIENT_ERROR bad command line format"
#define NO_ROOM		"SERVER_ERROR out of memory storing object"

/* The connection of a command, its words, and what follows its line */
struct command {
	struct cached_connection *connection;
	const struct cached_token *tokens;
	unsigned int nr;
	const char *after;
	size_t left;
	size_t *used;
	bool quiet;
};

/* Answers, unless the client wants none. */
static enum text_result answer(const struct command *command, const char *line)
{
	if (!command->quiet)
		connection_say(command->connection, line);
	return TEXT_DONE;
}

/* Whether the last word is noreply. */
static bool is_quiet(const struct command *command)
{
	return command->nr > 1 && token_is(&command->tokens[command->nr - 1], "noreply");
}

/**
 * text_value - send an item
 * @connection: to send on
 * @key: of the item
 * @key_length: bytes
 * @view: of the item
 * @with_cas: its version as well
 */
void text_value(struct cached_connection *connection, const char *key, size_t key_length,
		const struct cached_view *view, bool with_cas)
{
	char *start = connection_room(connection, key_length + view->length + 64), *at = start;

	if (!start)
		return;
	memcpy(at, "VALUE ", 6);
	memcpy(at + 6, key, key_length);
	at += 6 + key_length;
	*at++ = ' ';
	at = put_u64(at, view->header.flags);
	*at++ = ' ';
	at = put_u64(at, view->length);
	if (with_cas) {
		*at++ = ' ';
		at = put_u64(at, view->item.version);
	}
	memcpy(at, "\r\n", 2);
	memcpy(at + 2, view->data, view->length);
	at += 2 + view->length;
	memcpy(at, "\r\n", 2);
	connection->out_end += (size_t)(at + 2 - start);
}

/**
 * text_stored - the answer to a command that stores
 * @result: of item_store()
 *
 * Return: a line without its end.
 */
const char *text_stored(enum cached_result result)
{
	switch (result) {
	case ITEM_STORED:
		return "STORED";
	case ITEM_NOT_STORED:
		return "NOT_STORED";
	case ITEM_EXISTS:
		return "EXISTS";
	case ITEM_NOT_FOUND:
		return "NOT_FOUND";
	case ITEM_TOO_LARGE:
		return "SERVER_ERROR object too large for cache";
	case ITEM_NO_ROOM:
		return NO_ROOM;
	default:
		return "SERVER_ERROR the store failed";
	}
}

/**
 * text_data - find the data of a command
 * @connection: of the command
 * @after: what follows the command's line
 * @left: bytes there
 * @length: of the data
 * @used: in: bytes of the line; out: with the data and their end
 * @sound: out: the data end as they must
 *
 * Return: false: they are not all there; connection->need is set.
 */
bool text_data(struct cached_connection *connection, const char *after, size_t left, size_t length, size_t *used,
	       bool *sound)
{
	if (left < length + 2) {
		connection->need = *used + length + 2;
		return false;
	}
	*sound = !memcmp(after + length, "\r\n", 2);
	*used += length + 2;
	return true;
}

static enum text_result store(struct command *command, enum cached_mode mode)
{
	const struct cached_token *tokens = command->tokens;
	struct cached_connection *connection = command->connection;
	unsigned int words = mode == ITEM_CAS ? 6 : 5;
	struct cached_change change = {
		.mode = mode, .key = tokens[1].at, .key_length = tokens[1].length,
		.data = (char *)command->after,
	};
	enum cached_result result;
	int32_t expires, length;
	bool sound;

	if (command->nr != words && command->nr != words + 1) {
		batch_say(connection, "ERROR");
		return TEXT_DONE;
	}
	command->quiet = is_quiet(command);
	if (change.key_length > CACHED_KEY_MAX || !token_u32(&tokens[2], &change.flags) ||
	    !token_i32(&tokens[3], &expires) || !token_i32(&tokens[4], &length) || length < 0 ||
	    length > INT32_MAX - 2 || (mode == ITEM_CAS && !token_u64(&tokens[5], &change.cas))) {
		batch_settle(connection);
		return answer(command, BAD_FORMAT);
	}
	change.length = (size_t)length;
	if (!item_fits(change.key_length, change.length)) {
		batch_settle(connection);
		connection->swallow = change.length + 2;
		connection->worker->counters.store_too_large++;
		if (is_watched(WATCH_MUTATIONS))
			watch_stored(connection, &change, ITEM_TOO_LARGE);
		detail_count(connection->worker, change.key, change.key_length, PREFIX_SET);
		/* The client takes the old data for replaced */
		if (mode == ITEM_SET)
			item_remove(connection->worker, change.key, change.key_length);
		return answer(command, text_stored(ITEM_TOO_LARGE));
	}
	if (!text_data(connection, command->after, command->left, change.length, command->used, &sound))
		return TEXT_MORE;
	detail_count(connection->worker, change.key, change.key_length, PREFIX_SET);
	if (!sound) {
		batch_settle(connection);
		return answer(command, "CLIENT_ERROR bad data chunk");
	}
	change.expires = item_expires(expires);
	if (batch_takes(&change)) {
		batch_set(connection, command->quiet ? BATCH_SET_QUIET : BATCH_SET, &change, NULL);
		return TEXT_DONE;
	}
	batch_settle(connection);
	result = item_store(connection->worker, &change);
	return answer(command, text_stored(result));
}

/**
 * text_get_keys - get items, as far as their answers find room
 * @connection: of the command
 * @at: first key of those that are left, or blanks
 * @end: of the line
 * @kind: BATCH_GET or BATCH_GETS
 * @used: in: bytes up to @end; out: of them, those that need not be looked at again
 *
 * A line can have more keys than there is room for: then @connection->keys tells the kind, and the next call goes on.
 *
 * Return: TEXT_DONE.
 */
enum text_result text_get_keys(struct cached_connection *connection, const char *at, const char *end,
			       enum batch_kind kind, size_t *used)
{
	while (at < end && *at != '\n') {
		const char *key = at;
		size_t length;

		if (connection->out_end - connection->out_begin > CONNECTION_OUT_MAX) {
			connection->keys = kind;
			*used -= (size_t)(end - at);
			return TEXT_DONE;
		}
		while (*at != ' ' && *at != '\n')
			at++;
		length = (size_t)(at - key) - (*at == '\n' && at > key && at[-1] == '\r');
		if (length)
			batch_get(connection, kind, key, length, NULL);
		at += *at == ' ';
	}
	connection->keys = BATCH_TEXT;
	batch_say(connection, "END");
	return TEXT_DONE;
}

/* get, gets: keys are added to the batch one by one; a line can have more than any batch. */
static enum text_result get(struct command *command, enum batch_kind kind)
{
	struct cached_connection *connection = command->connection;
	const char *at = command->tokens[1].at, *end = command->after;
	const char *check;
	size_t length = 0;

	for (check = at; check < end; check++) {
		bool blank = *check == ' ' || *check == '\n' || (*check == '\r' && check[1] == '\n');

		length = blank ? 0 : length + 1;
		if (length > CACHED_KEY_MAX) {
			batch_say(connection, BAD_FORMAT);
			return TEXT_DONE;
		}
	}
	return text_get_keys(connection, at, end, kind, command->used);
}

/* gat, gats: get and touch.  The line has up to CACHED_TOKENS words, or more: the last token has the rest. */
static enum text_result get_and_touch(struct command *command, bool with_cas)
{
	struct cached_connection *connection = command->connection;
	struct cached_worker *worker = connection->worker;
	const char *at, *end = command->after;
	int32_t seconds;
	uint32_t expires;

	batch_settle(connection);
	if (!token_i32(&command->tokens[1], &seconds))
		return answer(command, "CLIENT_ERROR invalid exptime argument");
	expires = item_expires(seconds);
	for (at = command->tokens[2].at; at < end && *at != '\n';) {
		const char *key = at;
		struct cached_view view;
		size_t length;

		while (*at != ' ' && *at != '\n')
			at++;
		length = (size_t)(at - key) - (*at == '\n' && at > key && at[-1] == '\r');
		at += *at == ' ';
		if (!length)
			continue;
		if (length > CACHED_KEY_MAX)
			return answer(command, BAD_FORMAT);
		worker->counters.cmd_get++;
		if (item_touch(worker, key, length, expires, &view) != ITEM_STORED) {
			detail_count(worker, key, length, PREFIX_MISS);
			worker->counters.get_misses++;
			continue;
		}
		detail_count(worker, key, length, PREFIX_HIT);
		worker->counters.get_hits++;
		text_value(connection, key, length, &view, with_cas);
		access_note(&view.item, worker->now);
	}
	return answer(command, "END");
}

static enum text_result touch(struct command *command)
{
	const struct cached_token *tokens = command->tokens;
	struct cached_view view;
	int32_t seconds;

	command->quiet = is_quiet(command);
	if (tokens[1].length > CACHED_KEY_MAX)
		return answer(command, BAD_FORMAT);
	if (!token_i32(&tokens[2], &seconds))
		return answer(command, "CLIENT_ERROR invalid exptime argument");
	switch (item_touch(command->connection->worker, tokens[1].at, tokens[1].length, item_expires(seconds), &view)) {
	case ITEM_STORED:
		return answer(command, "TOUCHED");
	case ITEM_NOT_FOUND:
		return answer(command, "NOT_FOUND");
	default:
		return answer(command, NO_ROOM);
	}
}

static enum text_result arithmetic(struct command *command, bool decrement)
{
	const struct cached_token *tokens = command->tokens;
	struct cached_sum sum = {
		.key = tokens[1].at, .key_length = tokens[1].length, .decrement = decrement,
	};
	char digits[21];

	command->quiet = is_quiet(command);
	if (sum.key_length > CACHED_KEY_MAX)
		return answer(command, BAD_FORMAT);
	if (!token_u64(&tokens[2], &sum.delta))
		return answer(command, "CLIENT_ERROR invalid numeric delta argument");
	switch (item_sum(command->connection->worker, &sum)) {
	case ITEM_STORED:
		*put_u64(digits, sum.number) = '\0';
		return answer(command, digits);
	case ITEM_NOT_FOUND:
		return answer(command, "NOT_FOUND");
	case ITEM_NOT_NUMERIC:
		return answer(command, "CLIENT_ERROR cannot increment or decrement non-numeric value");
	default:
		return answer(command, NO_ROOM);
	}
}

static enum text_result remove_item(struct command *command)
{
	const struct cached_token *tokens = command->tokens;
	bool zero = command->nr > 2 && token_is(&tokens[2], "0");

	command->quiet = command->nr > 2 && is_quiet(command);
	/* Old clients send a time of 0 */
	if (command->nr > 2 && command->nr != 2u + zero + command->quiet)
		return answer(command, BAD_FORMAT ".  Usage: delete <key> [noreply]");
	if (tokens[1].length > CACHED_KEY_MAX)
		return answer(command, BAD_FORMAT);
	detail_count(command->connection->worker, tokens[1].at, tokens[1].length, PREFIX_DELETE);
	switch (item_remove(command->connection->worker, tokens[1].at, tokens[1].length)) {
	case ITEM_STORED:
		return answer(command, "DELETED");
	case ITEM_NOT_FOUND:
		return answer(command, "NOT_FOUND");
	default:
		return answer(command, text_stored(ITEM_FAILED));
	}
}

static enum text_result flush_all(struct command *command)
{
	struct cached_worker *worker = command->connection->worker;
	int32_t seconds = 0;
	uint32_t when = 0;

	command->quiet = is_quiet(command);
	worker->counters.cmd_flush++;
	if (cached.options.no_flush)
		return answer(command, "CLIENT_ERROR flush_all not allowed");
	if (command->nr > 1u + command->quiet && !token_i32(&command->tokens[1], &seconds))
		return answer(command, "CLIENT_ERROR invalid exptime argument");
	if (seconds > 0)
		when = item_expires(seconds);
	if (when <= item_now())
		when = 0;
	return answer(command, item_flush(worker, when) ? NO_ROOM : "OK");
}

static enum text_result verbosity(struct command *command)
{
	uint32_t level;

	command->quiet = is_quiet(command);
	if (!token_u32(&command->tokens[1], &level))
		return answer(command, BAD_FORMAT);
	cached.options.verbose = level;
	return answer(command, "OK");
}

static enum text_result shut_down(struct command *command)
{
	bool graceful = command->nr == 2 && token_is(&command->tokens[1], "graceful");

	if (!cached.options.shutdown)
		return answer(command, "ERROR: shutdown not enabled");
	if (command->nr > 1 && !graceful)
		return answer(command, "CLIENT_ERROR invalid shutdown mode");
	command->connection->reason = "shutdown";
	command->connection->closing = true;
	kill(getpid(), SIGTERM);
	return TEXT_DONE;
}

static enum text_result move_time(struct command *command)
{
	int32_t seconds;

	if (!cached.options.debug_time || !token_i32(&command->tokens[1], &seconds))
		return answer(command, "ERROR");
	__atomic_add_fetch(&cached.clock_offset, seconds, __ATOMIC_RELAXED);
	command->connection->worker->now = item_now();
	worker_wake_all();
	return answer(command, "OK");
}

/* Commands that are carried out one at a time, and the number of their words */
enum single {
	INCR, DECR, DELETE, TOUCH, GAT, GATS, FLUSH_ALL, VERSION, VERBOSITY, STATS, SHUTDOWN, DEBUGTIME, LRU_CRAWLER, SLABS,
	CACHE_MEMLIMIT, WATCH,
};

static const struct {
	const char *name;
	unsigned int least, most;
} singles[] = {
	[INCR] = { "incr", 3, 4 },
	[DECR] = { "decr", 3, 4 },
	[DELETE] = { "delete", 2, 4 },
	[TOUCH] = { "touch", 3, 4 },
	[GAT] = { "gat", 3, CACHED_TOKENS },
	[GATS] = { "gats", 3, CACHED_TOKENS },
	[FLUSH_ALL] = { "flush_all", 1, 3 },
	[VERSION] = { "version", 1, CACHED_TOKENS },
	[VERBOSITY] = { "verbosity", 2, 3 },
	[STATS] = { "stats", 1, CACHED_TOKENS },
	[SHUTDOWN] = { "shutdown", 1, CACHED_TOKENS },
	[DEBUGTIME] = { "debugtime", 2, 2 },
	[LRU_CRAWLER] = { "lru_crawler", 2, CACHED_TOKENS },
	[SLABS] = { "slabs", 2, CACHED_TOKENS },
	[CACHE_MEMLIMIT] = { "cache_memlimit", 2, 3 },
	[WATCH] = { "watch", 1, CACHED_TOKENS },
};

static enum text_result single(struct command *command, enum single which)
{
	const char *line;

	switch (which) {
	case INCR:
		return arithmetic(command, false);
	case DECR:
		return arithmetic(command, true);
	case DELETE:
		return remove_item(command);
	case TOUCH:
		return touch(command);
	case GAT:
		return get_and_touch(command, false);
	case GATS:
		return get_and_touch(command, true);
	case FLUSH_ALL:
		return flush_all(command);
	case VERSION:
		return answer(command, "VERSION " CACHED_VERSION);
	case VERBOSITY:
		return verbosity(command);
	case STATS:
		stats_command(command->connection, command->tokens, command->nr);
		return TEXT_DONE;
	case SHUTDOWN:
		return shut_down(command);
	case DEBUGTIME:
		return move_time(command);
	case LRU_CRAWLER:
		line = operate_crawler(command->connection, command->tokens, command->nr);
		return line ? answer(command, line) : TEXT_DONE;
	case SLABS:
		command->quiet = is_quiet(command);
		return answer(command, operate_slabs(command->tokens, command->nr - command->quiet));
	case CACHE_MEMLIMIT:
		command->quiet = is_quiet(command);
		return answer(command, operate_limit(&command->tokens[1]));
	case WATCH:
		return answer(command, watch_command(command->connection, command->tokens, command->nr));
	}
	return TEXT_DONE;
}

static enum text_result other(struct command *command)
{
	const struct cached_token *last = &command->tokens[command->nr - 1];
	unsigned int i;

	batch_settle(command->connection);
	for (i = 0; i < sizeof(singles) / sizeof(*singles); i++) {
		if (!token_is(command->tokens, singles[i].name))
			continue;
		if (command->nr < singles[i].least || command->nr > singles[i].most)
			return answer(command, "ERROR");
		return single(command, (enum single)i);
	}
	if (token_is(command->tokens, "quit")) {
		command->connection->reason = "normal";
		command->connection->closing = true;
		return TEXT_DONE;
	}
	/* A browser: it would take the answers for a page */
	if (last->length >= 5 && !memcmp(last->at, "HTTP/", 5)) {
		command->connection->dead = true;
		return TEXT_DONE;
	}
	return answer(command, "ERROR");
}

/**
 * text_command - carry out a classic command
 * @connection: that it came from
 * @tokens: its words; the last one has the rest if there are more
 * @nr: of them, at least 1
 * @after: what follows its line
 * @left: bytes there
 * @used: in: bytes of the line; out: with its data
 *
 * Return: TEXT_*
 */
enum text_result text_command(struct cached_connection *connection, const struct cached_token *tokens, unsigned int nr,
			      const char *after, size_t left, size_t *used)
{
	struct command command = {
		.connection = connection, .tokens = tokens, .nr = nr, .after = after, .left = left, .used = used,
	};

	if (token_is(tokens, "get") || token_is(tokens, "gets")) {
		if (nr < 2) {
			batch_say(connection, "ERROR");
			return TEXT_DONE;
		}
		return get(&command, tokens->length == 4 ? BATCH_GETS : BATCH_GET);
	}
	if (token_is(tokens, "set"))
		return store(&command, ITEM_SET);
	if (token_is(tokens, "add"))
		return store(&command, ITEM_ADD);
	if (token_is(tokens, "replace"))
		return store(&command, ITEM_REPLACE);
	if (token_is(tokens, "append"))
		return store(&command, ITEM_APPEND);
	if (token_is(tokens, "prepend"))
		return store(&command, ITEM_PREPEND);
	if (token_is(tokens, "cas"))
		return store(&command, ITEM_CAS);
	return other(&command);
}
