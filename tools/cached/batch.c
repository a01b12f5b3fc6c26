// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemcached: gets and sets of all connections of a worker, in few calls of the library.
 *
 * A batch has gets, puts and lines, in the order in which they came.  A connection has gets in it or puts, never both,
 * so that each connection's commands take effect in order; those of different connections were never ordered.
 * The answers are made when the batch is flushed, at the latest at the end of the worker's pass.
 */
#include <stdlib.h>
#include <string.h>

#include "cached.h"

#define ENTRIES		(2 * BATCH_OPS)
#define SLOT_BYTES	(sizeof(struct cached_header) + BATCH_VALUE)

struct entry {
	struct cached_connection *connection;
	enum batch_kind kind;
	unsigned int op;		/* index in gets or puts */
	const char *line;		/* BATCH_TEXT: a constant */
	unsigned int meta;		/* index in metas */
};

/**
 * struct cached_batch - what a worker has gathered
 * @nr: entries
 * @nr_gets: of @gets
 * @nr_puts: of @puts
 * @nr_metas: of @metas
 * @changed: an mg of this flush has changed its item: what was read before it is not used any more
 * @entries: in order
 * @gets: of them
 * @puts: likewise
 * @metas: flags of meta commands among them
 * @got: values of @gets
 * @put: values of @puts
 */
struct cached_batch {
	unsigned int nr;
	unsigned int nr_gets;
	unsigned int nr_puts;
	unsigned int nr_metas;
	bool changed;
	struct entry entries[ENTRIES];
	struct lsm_get gets[BATCH_OPS];
	struct lsm_put puts[BATCH_OPS];
	struct cached_meta metas[BATCH_OPS];
	char got[BATCH_OPS][SLOT_BYTES];
	char put[BATCH_OPS][SLOT_BYTES];
};

/**
 * batch_new - make a batch
 *
 * Return: it; NULL: no memory.
 */
struct cached_batch *batch_new(void)
{
	return calloc(1, sizeof(struct cached_batch));
}

static struct entry *add(struct cached_connection *connection, enum batch_kind kind, const struct cached_meta *meta)
{
	struct cached_batch *batch = connection->worker->batch;
	struct entry *entry = &batch->entries[batch->nr++];

	entry->connection = connection;
	entry->kind = kind;
	if (meta) {
		struct cached_meta *copy = &batch->metas[batch->nr_metas];

		entry->meta = batch->nr_metas++;
		memcpy(copy, meta, offsetof(struct cached_meta, decoded));
		memcpy(copy->tokens, meta->tokens, meta->nr * sizeof(*meta->tokens));
		if (meta->key == meta->decoded) {
			memcpy(copy->decoded, meta->decoded, meta->key_length);
			copy->key = copy->decoded;
		}
	}
	return entry;
}

static struct cached_batch *with_room(struct cached_connection *connection, int pending)
{
	struct cached_batch *batch = connection->worker->batch;

	if (batch->nr == ENTRIES || batch->nr_gets == BATCH_OPS || batch->nr_puts == BATCH_OPS ||
	    batch->nr_metas == BATCH_OPS || (connection->pending && (int)connection->pending != pending))
		batch_flush(connection->worker);
	return batch;
}

/**
 * batch_get - add a get
 * @connection: that has to be answered
 * @kind: BATCH_GET, BATCH_GETS or BATCH_META_GET
 * @key: of the item, in the input of @connection or in @meta
 * @key_length: bytes
 * @meta: of BATCH_META_GET, else NULL
 */
void batch_get(struct cached_connection *connection, enum batch_kind kind, const char *key, size_t key_length,
	       const struct cached_meta *meta)
{
	struct cached_batch *batch = with_room(connection, PENDING_GETS);
	struct entry *entry = add(connection, kind, meta);
	struct lsm_get *get = &batch->gets[batch->nr_gets];

	get->key = meta ? batch->metas[entry->meta].key : key;
	get->key_length = key_length;
	get->value = batch->got[batch->nr_gets];
	get->room = SLOT_BYTES;
	get->flags = 0;
	entry->op = batch->nr_gets++;
	connection->pending = PENDING_GETS;
}

/**
 * batch_set - add an unconditional set
 * @connection: that has to be answered
 * @kind: BATCH_SET, BATCH_SET_QUIET or BATCH_META_SET
 * @change: of the item, with ITEM_SET and up to BATCH_VALUE bytes; the key is in the input of @connection or in @meta
 * @meta: of BATCH_META_SET, else NULL
 */
void batch_set(struct cached_connection *connection, enum batch_kind kind, const struct cached_change *change,
	       const struct cached_meta *meta)
{
	struct cached_batch *batch = with_room(connection, PENDING_PUTS);
	struct entry *entry = add(connection, kind, meta);
	struct lsm_put *put = &batch->puts[batch->nr_puts];
	char *value = batch->put[batch->nr_puts];
	struct cached_header header;

	item_header_fill(connection->worker, &header, change->flags, change->expires, change->state);
	memcpy(value, &header, sizeof(header));
	memcpy(value + sizeof(header), change->data, change->length);
	put->key = meta ? batch->metas[entry->meta].key : change->key;
	put->key_length = change->key_length;
	put->value = value;
	put->length = sizeof(header) + change->length;
	put->flags = 0;
	put->version = 0;
	entry->op = batch->nr_puts++;
	connection->pending = PENDING_PUTS;
}

/**
 * batch_say - send a line, after the answers to all that the connection has in the batch
 * @connection: to send on
 * @line: without its end; a constant
 */
void batch_say(struct cached_connection *connection, const char *line)
{
	if (!connection->pending) {
		connection_say(connection, line);
		return;
	}
	if (connection->worker->batch->nr == ENTRIES) {
		batch_flush(connection->worker);
		connection_say(connection, line);
		return;
	}
	add(connection, BATCH_TEXT, NULL)->line = line;
}

/**
 * batch_settle - carry out what a connection has in the batch, if anything
 * @connection: whose next command has to come after it
 */
void batch_settle(struct cached_connection *connection)
{
	if (connection->pending)
		batch_flush(connection->worker);
}

/* Answers a get. */
static void got(struct cached_worker *worker, struct entry *entry, struct lsm_get *get)
{
	struct cached_connection *connection = entry->connection;
	const struct cached_meta *meta = entry->kind == BATCH_META_GET ? &worker->batch->metas[entry->meta] : NULL;
	struct cached_view view;
	bool found, before;

	worker->counters.cmd_get++;
	found = !item_is_absent(worker, get->result) && get->result >= (ssize_t)sizeof(view.header);
	if (found && get->item.length <= SLOT_BYTES) {
		memcpy(&view.header, get->value, sizeof(view.header));
		view.data = (char *)get->value + sizeof(view.header);
		view.length = (size_t)get->result - sizeof(view.header);
		view.item = get->item;
		found = item_is_live(&view.header);
	}
	/* It is large, or has to be removed, or may have changed */
	if (get->result >= 0 && (get->item.length > SLOT_BYTES || !found || worker->batch->changed))
		found = item_read(worker, get->key, get->key_length, &view);
	else if (is_watched(WATCH_FETCHERS) && !worker->failed)
		watch_fetched(connection, get->key, get->key_length, found ? "found" : "not_found",
			      found ? view.length : 0);
	if (worker->failed)
		return;
	detail_count(worker, get->key, get->key_length, found ? PREFIX_HIT : PREFIX_MISS);
	if (found)
		worker->counters.get_hits++;
	else
		worker->counters.get_misses++;
	if (meta) {
		before = worker->changed;
		worker->changed = false;
		meta_got(connection, meta, found ? &view : NULL);
		worker->batch->changed |= worker->changed;
		worker->changed |= before;
		return;
	}
	if (!found)
		return;
	text_value(connection, get->key, get->key_length, &view, entry->kind == BATCH_GETS);
	access_note(&view.item, worker->now);
}

/* Answers a set. */
static void was_put(struct cached_worker *worker, struct entry *entry, struct lsm_put *put)
{
	struct cached_connection *connection = entry->connection;
	enum cached_result result = ITEM_STORED;

	if (put->result)
		result = item_write(worker, put->key, put->key_length, put->value, put->length, put->flags,
				    &put->version);
	worker->counters.cmd_set++;
	if (result == ITEM_STORED) {
		worker->counters.total_items++;
		worker->changed = true;
		connection->changed = true;
	}
	if (is_watched(WATCH_MUTATIONS)) {
		const struct cached_header *header = put->value;
		struct cached_change change = {
			.mode = ITEM_SET, .key = put->key, .key_length = put->key_length,
			.length = put->length - sizeof(*header), .expires = header->expires,
		};

		watch_stored(connection, &change, result);
	}
	if (entry->kind == BATCH_META_SET)
		meta_stored(connection, &worker->batch->metas[entry->meta], result, put->version);
	else if (entry->kind == BATCH_SET)
		connection_say(connection, text_stored(result));
}

/**
 * batch_flush - carry out all that a worker has gathered, and answer it
 * @worker: the caller
 */
void batch_flush(struct cached_worker *worker)
{
	struct cached_connection *before = worker->serving;
	struct cached_batch *batch = worker->batch;
	unsigned int i;

	if (!batch->nr)
		return;
	worker->counters.batches++;
	if (batch->nr_puts == 1)
		batch->puts->result = lsm_table_put(cached.table, batch->puts->key, batch->puts->key_length,
						    batch->puts->value, batch->puts->length, 0, &batch->puts->version);
	else if (batch->nr_puts)
		lsm_table_put_many(cached.table, batch->puts, batch->nr_puts, 0);
	if (batch->nr_gets == 1)
		batch->gets->result = lsm_table_get(cached.table, batch->gets->key, batch->gets->key_length,
						    batch->gets->value, batch->gets->room, &batch->gets->item);
	else if (batch->nr_gets)
		lsm_table_get_many(cached.table, batch->gets, batch->nr_gets);
	for (i = 0; i < batch->nr; i++) {
		struct entry *entry = &batch->entries[i];

		entry->connection->pending = PENDING_NONE;
		worker->serving = entry->connection;
		switch (entry->kind) {
		case BATCH_TEXT:
			connection_say(entry->connection, entry->line);
			break;
		case BATCH_GET:
		case BATCH_GETS:
		case BATCH_META_GET:
			got(worker, entry, &batch->gets[entry->op]);
			entry->connection->dead |= worker->failed;
			worker->failed = false;
			break;
		case BATCH_SET:
		case BATCH_SET_QUIET:
		case BATCH_META_SET:
			was_put(worker, entry, &batch->puts[entry->op]);
			break;
		}
	}
	batch->nr = batch->nr_gets = batch->nr_puts = batch->nr_metas = 0;
	batch->changed = false;
	worker->serving = before;
}
