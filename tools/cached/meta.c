// SPDX-License-Identifier: GPL-2.0
/* lsmemcached: meta commands. */
#include <string.h>

#include "cached.h"

#define BAD_FORMAT	"CLIENT_ERROR bad command line format"
#define BAD_TOKEN	"CLIENT_ERROR bad token in command line format"
#define OPAQUE_MAX	32u	/* bytes with the letter, of O */
#define FLAGS_MAX	17u	/* of a command */
#define ANSWER_BYTES	1024u	/* most of a line: flags, a key, an opaque */

static bool has(const struct cached_meta *meta, char flag)
{
	return meta->seen & 1ull << (flag - 'A');
}

static bool seconds_of(const struct cached_token *token, uint32_t *expires)
{
	int32_t seconds;

	if (!token_i32(token, &seconds))
		return false;
	*expires = item_expires(seconds);
	return true;
}

/* Takes the word that follows a flag's letter.  Return: NULL; an error. */
static const char *parse_flag(struct cached_meta *meta, char flag, const struct cached_token *word)
{
	switch (flag) {
	case 'b':
		meta->key_length = base64_decode(meta->key, meta->key_length, meta->decoded, sizeof(meta->decoded));
		meta->key = meta->decoded;
		return meta->key_length ? NULL : "CLIENT_ERROR error decoding key";
	case 'N':
		return seconds_of(word, &meta->create_expires) ? NULL : BAD_TOKEN;
	case 'T':
		return seconds_of(word, &meta->expires) ? NULL : BAD_TOKEN;
	case 'R':
		return seconds_of(word, &meta->recache) ? NULL : BAD_TOKEN;
	case 'F':
		return token_u32(word, &meta->client_flags) ? NULL : BAD_FORMAT;
	case 'C':
		return token_u64(word, &meta->cas) ? NULL : BAD_TOKEN;
	case 'J':
		return token_u64(word, &meta->initial) ? NULL : "CLIENT_ERROR invalid numeric initial value";
	case 'D':
		return token_u64(word, &meta->delta) ? NULL : "CLIENT_ERROR invalid numeric delta value";
	case 'M':
		meta->mode = word->length == 1 ? *word->at : 0;
		return meta->mode ? NULL : "CLIENT_ERROR incorrect length for M token";
	case 'O':
		return word->length < OPAQUE_MAX ? NULL : "CLIENT_ERROR opaque token too long";
	}
	/* P and L are for proxies */
	return strchr("PLIcfhklqstuv", flag) ? NULL : "CLIENT_ERROR invalid flag";
}

/* Return: NULL; an error. */
static const char *parse(struct cached_meta *meta, const struct cached_token *tokens, unsigned int nr,
			 unsigned int first)
{
	const char *error = NULL;
	unsigned int i;

	memcpy(meta->tokens, tokens, nr * sizeof(*tokens));
	meta->nr = nr;
	meta->first = first;
	meta->seen = 0;
	meta->mode = 0;
	meta->expires = meta->create_expires = meta->recache = meta->client_flags = 0;
	meta->cas = meta->initial = 0;
	meta->delta = 1;
	if (nr < 2)
		return "ERROR";
	meta->key = tokens[1].at;
	meta->key_length = tokens[1].length;
	if (meta->key_length > CACHED_KEY_MAX)
		return BAD_FORMAT;
	if (nr > first + FLAGS_MAX)
		return "CLIENT_ERROR options flags are too long";
	for (i = first; i < nr && !error; i++) {
		struct cached_token word = { tokens[i].at + 1, tokens[i].length - 1 };
		char flag = *tokens[i].at;

		if ((flag < 'A' || flag > 'Z') && (flag < 'a' || flag > 'z'))
			return "CLIENT_ERROR invalid flag";
		if (has(meta, flag))
			return "CLIENT_ERROR duplicate flag";
		meta->seen |= 1ull << (flag - 'A');
		error = parse_flag(meta, flag, &word);
	}
	return error;
}

static char *put_text(char *at, const char *text)
{
	size_t length = strlen(text);

	memcpy(at, text, length);
	return at + length;
}

static char *put_flag(char *at, char flag)
{
	*at++ = ' ';
	*at++ = flag;
	return at;
}

static char *put_flag_number(char *at, char flag, uint64_t number)
{
	return put_u64(put_flag(at, flag), number);
}

static char *put_ttl(char *at, uint32_t expires, uint32_t now)
{
	if (!expires)
		return put_text(put_flag(at, 't'), "-1");
	return put_flag_number(at, 't', expires > now ? expires - now : 0);
}

/* O and k: what every answer copies back */
static char *put_copied(char *at, const struct cached_meta *meta, const struct cached_token *token, bool binary)
{
	if (*token->at == 'O') {
		*at++ = ' ';
		memcpy(at, token->at, token->length);
		return at + token->length;
	}
	if (*token->at != 'k')
		return at;
	at = put_flag(at, 'k');
	if (binary)
		return put_text(base64_encode(meta->key, meta->key_length, at), " b");
	memcpy(at, meta->key, meta->key_length);
	return at + meta->key_length;
}

static char *put_end(char *at)
{
	return put_text(at, "\r\n");
}

/* Sends an item.  @won: the client is to make it anew; @before: when the item expired before the command. */
static void send_item(struct cached_connection *connection, const struct cached_meta *meta,
		      const struct cached_view *view, uint32_t before, bool won)
{
	bool with_value = has(meta, 'v'), sent = view->header.state & ITEM_WON && !won;
	char *start = connection_room(connection, ANSWER_BYTES + view->length), *at = start;
	/* One that was just made has no handle yet */
	uint32_t read = view->item.handle ? access_last(&view->item) : 0;
	uint32_t now = connection->worker->now, expires = before;
	bool was_read = read;
	unsigned int i;

	if (!start)
		return;
	at = with_value ? put_u64(put_text(at, "VA "), view->length) : put_text(at, "HD");
	for (i = meta->first; i < meta->nr; i++) {
		const struct cached_token *token = &meta->tokens[i];

		switch (*token->at) {
		case 'T':
			expires = view->header.expires;
			break;
		case 's':
			at = put_flag_number(at, 's', view->length);
			break;
		case 't':
			at = put_ttl(at, expires, now);
			break;
		case 'c':
			at = put_flag_number(at, 'c', view->item.version);
			break;
		case 'f':
			at = put_flag_number(at, 'f', view->header.flags);
			break;
		case 'l':
			if (!read)
				read = view->header.stored;
			at = put_flag_number(at, 'l', now > read ? now - read : 0);
			break;
		case 'h':
			at = put_flag_number(at, 'h', was_read);
			break;
		default:
			at = put_copied(at, meta, token, view->header.state & ITEM_BINARY);
		}
	}
	if (sent)
		at = put_flag(at, 'Z');
	if (view->header.state & ITEM_STALE)
		at = put_flag(at, 'X');
	if (won)
		at = put_flag(at, 'W');
	at = put_end(at);
	if (with_value) {
		memcpy(at, view->data, view->length);
		at = put_end(at + view->length);
	}
	connection->out_end += (size_t)(at - start);
	if (!has(meta, 'u') && view->item.handle)
		access_note(&view->item, now);
}

/* Makes an item without data, for the client that asked first.  Return: false: another one was faster. */
static bool create(struct cached_connection *connection, const struct cached_meta *meta)
{
	struct cached_worker *worker = connection->worker;
	char value[sizeof(struct cached_header)];
	struct cached_change change = {
		.mode = ITEM_ADD, .key = meta->key, .key_length = meta->key_length, .data = value + sizeof(value),
		.expires = meta->create_expires, .state = ITEM_WON | (has(meta, 'b') ? ITEM_BINARY : 0),
	};
	struct cached_view view = { .data = change.data };
	enum cached_result result = item_store(worker, &change);

	if (result == ITEM_NOT_STORED)
		return false;
	if (result != ITEM_STORED) {
		connection_say(connection, text_stored(result));
		return true;
	}
	item_header_fill(worker, &view.header, 0, change.expires, change.state);
	view.item.version = change.cas;
	send_item(connection, meta, &view, change.expires, true);
	return true;
}

/* mg that may change the item; the caller counts it.  Return: false: there is none. */
static bool get_and_change(struct cached_connection *connection, const struct cached_meta *meta)
{
	struct cached_worker *worker = connection->worker;
	struct cached_view view;

	for (;;) {
		struct cached_header *header = &view.header, before;
		enum cached_result result = ITEM_STORED;
		bool won = false;

		if (!item_read(worker, meta->key, meta->key_length, &view)) {
			if (has(meta, 'N')) {
				if (!create(connection, meta))
					continue;
			} else if (!has(meta, 'q')) {
				connection_say(connection, "EN");
			}
			return false;
		}
		before = *header;
		if (has(meta, 'T'))
			header->expires = meta->expires;
		if (!(header->state & ITEM_WON))
			won = header->state & ITEM_STALE ||
			      (has(meta, 'R') && before.expires && before.expires < meta->recache);
		if (won)
			header->state |= ITEM_WON;
		if (memcmp(&before, header, sizeof(before)))
			result = item_rewrite(worker, meta->key, meta->key_length, &view);
		if (result == ITEM_EXISTS || result == ITEM_NOT_FOUND)
			continue;
		if (result == ITEM_STORED)
			send_item(connection, meta, &view, before.expires, won);
		else
			connection_say(connection, text_stored(result));
		return true;
	}
}

/**
 * meta_got - answer mg
 * @connection: to send on
 * @meta: flags, without those that change the item
 * @view: of the item; NULL: there is none
 */
void meta_got(struct cached_connection *connection, const struct cached_meta *meta, struct cached_view *view)
{
	if (!view) {
		if (!has(meta, 'q'))
			connection_say(connection, "EN");
		return;
	}
	if ((view->header.state & (ITEM_STALE | ITEM_WON)) == ITEM_STALE) {
		get_and_change(connection, meta);
		connection->changed = true;
		return;
	}
	send_item(connection, meta, view, view->header.expires, false);
}

static void meta_get(struct cached_connection *connection, const struct cached_meta *meta)
{
	struct cached_counters *counters = &connection->worker->counters;
	bool found;

	if (has(meta, 'N') || has(meta, 'T') || has(meta, 'R')) {
		batch_settle(connection);
		counters->cmd_get++;
		found = get_and_change(connection, meta);
		found ? counters->get_hits++ : counters->get_misses++;
		detail_count(connection->worker, meta->key, meta->key_length, found ? PREFIX_HIT : PREFIX_MISS);
	} else {
		batch_get(connection, BATCH_META_GET, meta->key, meta->key_length, meta);
	}
}

/**
 * meta_stored - answer ms
 * @connection: to send on
 * @meta: flags
 * @result: of item_store()
 * @version: of the item
 */
void meta_stored(struct cached_connection *connection, const struct cached_meta *meta, enum cached_result result,
		 uint64_t version)
{
	static const char *const codes[] = {
		[ITEM_STORED] = "HD", [ITEM_NOT_STORED] = "NS", [ITEM_EXISTS] = "EX", [ITEM_NOT_FOUND] = "NF",
	};
	char answer[ANSWER_BYTES], *at = answer;
	unsigned int i;

	if (result > ITEM_NOT_FOUND) {
		connection_say(connection, text_stored(result));
		return;
	}
	if (result == ITEM_STORED && has(meta, 'q'))
		return;
	at = put_text(at, codes[result]);
	for (i = meta->first; i < meta->nr; i++) {
		if (*meta->tokens[i].at == 'c')
			at = put_flag_number(at, 'c', result == ITEM_STORED ? version : 0);
		else
			at = put_copied(at, meta, &meta->tokens[i], has(meta, 'b'));
	}
	connection_add(connection, answer, (size_t)(put_end(at) - answer));
}

/* The mode of ms.  Return: NULL; an error. */
static const char *store_mode(const struct cached_meta *meta, struct cached_change *change)
{
	static const char letters[] = "SERAP";
	static const enum cached_mode modes[] = { ITEM_SET, ITEM_ADD, ITEM_REPLACE, ITEM_APPEND, ITEM_PREPEND };
	const char *found = meta->mode ? strchr(letters, meta->mode) : letters;

	if (!found)
		return "CLIENT_ERROR invalid mode for ms M token";
	change->mode = modes[found - letters];
	if (change->has_cas && (change->mode == ITEM_SET || change->mode == ITEM_REPLACE))
		change->mode = ITEM_CAS;
	change->invalidate = has(meta, 'I');
	return NULL;
}

static enum text_result meta_set(struct cached_connection *connection, struct cached_meta *meta, const char *error,
				 const char *after, size_t left, size_t *used)
{
	struct cached_worker *worker = connection->worker;
	struct cached_change change = {
		.key = meta->key, .key_length = meta->key_length, .data = (char *)after,
		.flags = meta->client_flags, .expires = meta->expires, .state = has(meta, 'b') ? ITEM_BINARY : 0,
		.has_cas = has(meta, 'C'), .cas = meta->cas,
	};
	enum cached_result result;
	int32_t length;
	bool sound;

	if (meta->nr < 3 || !token_i32(&meta->tokens[2], &length) || length < 0 || length > INT32_MAX - 2) {
		batch_say(connection, BAD_FORMAT);
		return TEXT_DONE;
	}
	change.length = (size_t)length;
	if (!error)
		error = store_mode(meta, &change);
	if (!error && !item_fits(change.key_length, change.length)) {
		batch_settle(connection);
		error = text_stored(ITEM_TOO_LARGE);
		worker->counters.store_too_large++;
		if (is_watched(WATCH_MUTATIONS))
			watch_stored(connection, &change, ITEM_TOO_LARGE);
		detail_count(worker, change.key, change.key_length, PREFIX_SET);
		item_remove(worker, change.key, change.key_length);
	}
	if (error) {
		connection->swallow = change.length + 2;
		batch_say(connection, error);
		return TEXT_DONE;
	}
	if (!text_data(connection, after, left, change.length, used, &sound))
		return TEXT_MORE;
	worker->counters.cmd_meta++;
	detail_count(worker, change.key, change.key_length, PREFIX_SET);
	if (!sound) {
		batch_say(connection, "CLIENT_ERROR bad data chunk");
		return TEXT_DONE;
	}
	if (batch_takes(&change)) {
		batch_set(connection, BATCH_META_SET, &change, meta);
		return TEXT_DONE;
	}
	batch_settle(connection);
	result = item_store(worker, &change);
	meta_stored(connection, meta, result, change.cas);
	return TEXT_DONE;
}

/* Marks an item as stale: the next client that gets it makes it anew. */
static enum cached_result invalidate(struct cached_worker *worker, const struct cached_meta *meta)
{
	struct cached_view view;

	while (item_read(worker, meta->key, meta->key_length, &view)) {
		enum cached_result result;

		if (has(meta, 'C') && view.item.version != meta->cas)
			return ITEM_EXISTS;
		if (has(meta, 'T'))
			view.header.expires = meta->expires;
		view.header.state = (view.header.state | ITEM_STALE) & ~ITEM_WON;
		result = item_rewrite(worker, meta->key, meta->key_length, &view);
		if (result != ITEM_EXISTS && result != ITEM_NOT_FOUND)
			return result;
	}
	return ITEM_NOT_FOUND;
}

static void meta_delete(struct cached_connection *connection, struct cached_meta *meta)
{
	struct cached_worker *worker = connection->worker;
	enum cached_result result;
	struct cached_view view;

	detail_count(worker, meta->key, meta->key_length, PREFIX_DELETE);
	if (has(meta, 'I')) {
		result = invalidate(worker, meta);
	} else if (has(meta, 'C')) {
		result = ITEM_NOT_FOUND;
		if (item_read(worker, meta->key, meta->key_length, &view)) {
			result = ITEM_EXISTS;
			if (view.item.version == meta->cas)
				result = item_remove_version(worker, meta->key, meta->key_length, &view.item);
		}
		if (result != ITEM_STORED)
			worker->counters.delete_misses++;
	} else {
		result = item_remove(worker, meta->key, meta->key_length);
	}
	meta_stored(connection, meta, result, 0);
}

static void meta_arithmetic(struct cached_connection *connection, const struct cached_meta *meta)
{
	struct cached_worker *worker = connection->worker;
	struct cached_sum sum = {
		.key = meta->key, .key_length = meta->key_length, .delta = meta->delta, .has_cas = has(meta, 'C'),
		.new_expires = has(meta, 'T'), .expires = meta->expires, .create = has(meta, 'N'),
		.create_expires = meta->create_expires, .binary = has(meta, 'b'), .initial = meta->initial,
		.cas = meta->cas,
	};
	char answer[ANSWER_BYTES], number[21], *at = answer;
	enum cached_result result;
	size_t digits;
	unsigned int i;

	if (meta->mode && !strchr("I+D-", meta->mode)) {
		connection_say(connection, "CLIENT_ERROR invalid mode for ma M token");
		return;
	}
	sum.decrement = meta->mode == 'D' || meta->mode == '-';
	result = item_sum(worker, &sum);
	if (result == ITEM_NOT_NUMERIC) {
		connection_say(connection, "CLIENT_ERROR cannot increment or decrement non-numeric value");
		return;
	}
	if (result != ITEM_STORED) {
		meta_stored(connection, meta, result, 0);
		return;
	}
	if (has(meta, 'q'))
		return;
	digits = (size_t)(put_u64(number, sum.number) - number);
	at = has(meta, 'v') ? put_u64(put_text(at, "VA "), digits) : put_text(at, "HD");
	for (i = meta->first; i < meta->nr; i++) {
		const struct cached_token *token = &meta->tokens[i];

		if (*token->at == 'c')
			at = put_flag_number(at, 'c', sum.cas);
		else if (*token->at == 't')
			at = put_ttl(at, sum.expires, worker->now);
		else
			at = put_copied(at, meta, token, has(meta, 'b'));
	}
	at = put_end(at);
	if (has(meta, 'v')) {
		memcpy(at, number, digits);
		at = put_end(at + digits);
	}
	connection_add(connection, answer, (size_t)(at - answer));
}

/* me: what is known about an item */
static void meta_debug(struct cached_connection *connection, const struct cached_meta *meta)
{
	struct cached_worker *worker = connection->worker;
	char answer[ANSWER_BYTES], *at = answer;
	struct cached_view view;
	uint32_t read;

	if (!item_read(worker, meta->key, meta->key_length, &view)) {
		connection_say(connection, "EN");
		return;
	}
	read = access_last(&view.item);
	at = put_text(at, "ME ");
	memcpy(at, meta->tokens[1].at, meta->tokens[1].length);
	at = put_text(at + meta->tokens[1].length, " exp=");
	if (view.header.expires)
		at = put_u64(at, view.header.expires - worker->now);
	else
		at = put_text(at, "-1");
	at = put_u64(put_text(at, " la="), worker->now - (read ? read : view.header.stored));
	at = put_u64(put_text(at, " cas="), view.item.version);
	at = put_text(at, read ? " fetch=yes" : " fetch=no");
	at = put_u64(put_text(at, " cls=1 size="), sizeof(view.header) + meta->key_length + view.length);
	connection_add(connection, answer, (size_t)(put_end(at) - answer));
}

/**
 * meta_command - carry out a meta command
 * @connection: that it came from
 * @tokens: its words; the first has two letters
 * @nr: of them
 * @after: what follows its line
 * @left: bytes there
 * @used: in: bytes of the line; out: with its data
 *
 * Return: TEXT_*
 */
enum text_result meta_command(struct cached_connection *connection, const struct cached_token *tokens,
			      unsigned int nr, const char *after, size_t left, size_t *used)
{
	char which = tokens->at[1];
	struct cached_meta meta;
	const char *error;

	if (which == 'n') {
		batch_say(connection, "MN");
		return TEXT_DONE;
	}
	if (!strchr("gsdae", which)) {
		batch_say(connection, "ERROR");
		return TEXT_DONE;
	}
	error = parse(&meta, tokens, nr, which == 's' ? 3 : 2);
	if (which == 's' && nr > 1 && meta.key_length <= CACHED_KEY_MAX)
		return meta_set(connection, &meta, error, after, left, used);
	if (error) {
		batch_say(connection, error);
		return TEXT_DONE;
	}
	connection->worker->counters.cmd_meta++;
	if (which == 'g') {
		meta_get(connection, &meta);
		return TEXT_DONE;
	}
	batch_settle(connection);
	if (which == 'd')
		meta_delete(connection, &meta);
	else if (which == 'a')
		meta_arithmetic(connection, &meta);
	else
		meta_debug(connection, &meta);
	return TEXT_DONE;
}
