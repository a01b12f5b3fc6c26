// SPDX-License-Identifier: GPL-2.0
/* lsmemcached: from bytes of a connection to commands. */
#include <string.h>

#include "cached.h"

#define LINE_MAX_BYTES	2048u		/* of a command, but for get and gets */
#define GET_MAX_BYTES	(8u << 20)	/* of these */
#define BINARY_MAGIC	0x80		/* first byte of a request in the binary protocol */

/* Splits a line at blanks.  The last word has all that are over CACHED_TOKENS. */
static unsigned int split(const char *line, const char *end, struct cached_token *tokens)
{
	unsigned int nr = 0;

	while (line < end) {
		const char *word;

		while (line < end && *line == ' ')
			line++;
		word = line;
		if (nr == CACHED_TOKENS - 1)
			line = end;
		while (line < end && *line != ' ')
			line++;
		if (line > word) {
			tokens[nr].at = word;
			tokens[nr++].length = (size_t)(line - word);
		}
	}
	return nr;
}

/* No end of the line is there.  Only a get can be that long; what else comes is no memcached client. */
static void check_length(struct cached_connection *connection, const char *at, size_t length)
{
	if (length <= LINE_MAX_BYTES)
		return;
	while (length && *at == ' ') {
		at++;
		length--;
	}
	if (length > GET_MAX_BYTES || length < 5 || !connection->authenticated ||
	    (memcmp(at, "get ", 4) && memcmp(at, "gets ", 5))) {
		batch_settle(connection);
		connection_say(connection, "CLIENT_ERROR line too long");
		connection->closing = true;
	}
}

/* A set whose data are user and password. */
static enum text_result authenticate(struct cached_connection *connection, const struct cached_token *tokens,
				     unsigned int nr, const char *after, size_t left, size_t *used)
{
	struct cached_counters *counters = &connection->worker->counters;
	uint32_t length;
	bool sound;

	if (token_is(tokens, "quit")) {
		connection->closing = true;
		return TEXT_DONE;
	}
	if (nr < 5 || !token_is(tokens, "set") || !token_u32(&tokens[4], &length) || length > LINE_MAX_BYTES) {
		connection_say(connection, "CLIENT_ERROR unauthenticated");
		return TEXT_DONE;
	}
	if (!text_data(connection, after, left, length, used, &sound))
		return TEXT_MORE;
	counters->auth_cmds++;
	connection->authenticated = sound && auth_check(after, length);
	if (!connection->authenticated)
		counters->auth_errors++;
	connection_say(connection, connection->authenticated ? "STORED" : "CLIENT_ERROR authentication failure");
	return TEXT_DONE;
}

static bool is_meta(const struct cached_token *token)
{
	return token->length == 2 && *token->at == 'm';
}

/* Carries out one command.  Return: false: it is not complete. */
static bool run_one(struct cached_connection *connection)
{
	const char *at = connection->in + connection->in_begin;
	size_t length = connection->in_end - connection->in_begin;
	const char *line_end = memchr(at, '\n', length), *after;
	struct cached_token tokens[CACHED_TOKENS];
	enum text_result result;
	unsigned int nr;
	size_t used;

	/* The client would wait for an answer that it understands */
	if ((unsigned char)*at == BINARY_MAGIC && !connection->keys) {
		connection->dead = true;
		return false;
	}
	if (!line_end) {
		check_length(connection, at, length);
		return false;
	}
	after = line_end + 1;
	used = (size_t)(after - at);
	if (connection->keys) {
		text_get_keys(connection, at, after, connection->keys, &used);
		connection->in_begin += used;
		return true;
	}
	if (line_end > at && line_end[-1] == '\r')
		line_end--;
	nr = split(at, line_end, tokens);
	if (!nr || tokens->length < 2) {
		batch_say(connection, "ERROR");
		result = TEXT_DONE;
	} else if (!connection->authenticated) {
		result = authenticate(connection, tokens, nr, after, length - used, &used);
	} else if (is_meta(tokens)) {
		result = meta_command(connection, tokens, nr, after, length - used, &used);
	} else {
		result = text_command(connection, tokens, nr, after, length - used, &used);
	}
	if (result == TEXT_MORE)
		return false;
	connection->need = 0;
	connection->in_begin += used;
	return true;
}

static void dump(struct cached_connection *connection)
{
	struct cached_worker *worker = connection->worker;

	if (connection->dump == DUMP_CONNECTIONS) {
		conns_list(connection);
		return;
	}
	operate_dump(connection);
	connection->dead |= worker->failed;
	worker->failed = false;
}

static bool can_go_on(const struct cached_connection *connection)
{
	size_t length = connection->in_end - connection->in_begin;

	return length && length >= connection->need && !connection->dead && !connection->closing;
}

/**
 * command_run - carry out the commands that a connection has sent
 * @connection: whose answers are made when its worker's batch is flushed
 *
 * Return: true: there are more, but the answers have to be sent first.
 */
bool command_run(struct cached_connection *connection)
{
	struct cached_worker *worker = connection->worker;

	worker->serving = connection;
	while (connection->dump ? !connection->dead : can_go_on(connection)) {
		bool before = worker->changed, complete;

		if (connection->watcher)
			break;
		if (connection->swallow) {
			size_t length = connection->in_end - connection->in_begin;
			size_t bytes = length < connection->swallow ? length : connection->swallow;

			connection->in_begin += bytes;
			connection->swallow -= bytes;
			continue;
		}
		if (connection->out_end - connection->out_begin > CONNECTION_OUT_MAX)
			return true;
		if (connection->dump) {
			dump(connection);
			return true;
		}
		worker->changed = false;
		complete = run_one(connection);
		connection->changed |= worker->changed;
		worker->changed |= before;
		if (worker->failed) {
			connection->dead = true;
			worker->failed = false;
		}
		if (!complete)
			break;
	}
	return connection->watcher && !connection->dead && watch_run(connection);
}
