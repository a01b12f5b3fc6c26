// SPDX-License-Identifier: GPL-2.0
/*
 * Items of a server for clients of memcached under power cuts: pipelines of sets, whose answers mean that they are
 * durable.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/lines.h"
#include "acked.h"

#define SERVED_BATCH	16u	/* commands in a pipeline, keys in a get */
#define SERVED_MAX	1024u	/* bytes of a value */
#define SERVED_LINE	64u	/* more than those of a command, without data */

static void die(const char *what, const char *why)
{
	fprintf(stderr, "acked: %s: %s\n", what, why ? why : "the server has ended the connection");
	exit(1);
}

static void served_open(const char *where, struct lines *server)
{
	server->from = 0;
	server->to = 0;
	do {
		server->fd = lines_connect(where);
	} while (server->fd < 0 && wait_store());
	if (server->fd < 0)
		die(where, strerror(errno));
}

static void note(struct work *w, struct record *records, uint8_t what)
{
	uint32_t i;

	for (i = 0; i < SERVED_BATCH; i++) {
		records[i].what = what;
		record_seal(&records[i]);
		oracle_take(w->oracle, &records[i]);
	}
	journal_write(records, SERVED_BATCH);
}

/* Set some of the thread's items; they are neighbours, so none is twice in a pipeline. */
static void set_batch(struct work *w, struct lines *server)
{
	uint64_t mine = w->oracle->nr_slots / w->step, at = random_next(&w->random);
	char request[SERVED_BATCH * (SERVED_MAX + SERVED_LINE)];
	struct record records[SERVED_BATCH], *r;
	size_t length = 0;
	const char *line;
	uint32_t i;

	for (i = 0; i < SERVED_BATCH; i++) {
		r = &records[i];
		record_fill(r, 'm', ISSUED, OP_REPLACE, w->thread);
		r->slot = w->first + (at + i) % mine * w->step;
		r->sequence = atomic_fetch_add(w->sequence, 1) + 1;
		r->length = CONTENT_MIN + random_below(&w->random, SERVED_MAX - CONTENT_MIN + 1);
		length += (size_t)sprintf(request + length, "set item-%llu 0 0 %u\r\n", (unsigned long long)r->slot,
					  r->length);
		content_fill(request + length, r->length, r->slot, r->sequence);
		length += r->length;
		memcpy(request + length, "\r\n", 2);
		length += 2;
	}
	note(w, records, ISSUED);
	if (!lines_send(server, request, length))
		die("set", NULL);
	for (i = 0; i < SERVED_BATCH; i++) {
		line = lines_next(server);
		if (!line || strcmp(line, "STORED"))
			die("set", line);
	}
	note(w, records, DURABLE);
	atomic_fetch_add(&figures.changes, SERVED_BATCH);
}

void *load_served(void *arg)
{
	struct work *w = arg;
	struct lines *server = malloc(sizeof(*server));

	if (!server)
		die("memory", strerror(ENOMEM));
	served_open(w->path, server);
	atomic_fetch_add(w->ready, 1);
	for (;;)
		set_batch(w, server);
	return NULL;
}

/* Get the items from @first on.  @found: what they are; @corrupt: whether their bytes are wrong. */
static void get_batch(struct lines *server, uint64_t first, uint32_t nr, struct state *found, bool *corrupt)
{
	char request[SERVED_BATCH * SERVED_LINE], data[SERVED_MAX + 2], *line;
	unsigned long long slot;
	size_t length = 3;
	uint32_t i, bytes;

	memcpy(request, "get", 3);
	for (i = 0; i < nr; i++) {
		found[i] = (struct state){ .op = OP_FREE };
		corrupt[i] = false;
		length += (size_t)sprintf(request + length, " item-%llu", (unsigned long long)first + i);
	}
	memcpy(request + length, "\r\n", 2);
	if (!lines_send(server, request, length + 2))
		die("get", NULL);
	while ((line = lines_next(server)) && strcmp(line, "END")) {
		if (sscanf(line, "VALUE item-%llu 0 %u", &slot, &bytes) != 2 || slot < first || slot - first >= nr ||
		    bytes > SERVED_MAX)
			die("get", line);
		if (!lines_take(server, data, bytes + 2))
			die("get", NULL);
		i = (uint32_t)(slot - first);
		found[i] = (struct state){ .op = OP_REPLACE, .length = bytes };
		corrupt[i] = !content_right(data, bytes, slot, &found[i].sequence);
	}
	if (!line)
		die("get", NULL);
}

void verify_served(const char *where, struct oracle *o, struct verdict *v)
{
	struct state found[SERVED_BATCH];
	bool corrupt[SERVED_BATCH];
	struct lines server;
	uint64_t first, wrong;
	uint32_t i, nr;

	served_open(where, &server);
	for (first = 0; first < o->nr_slots; first += nr) {
		nr = o->nr_slots - first < SERVED_BATCH ? (uint32_t)(o->nr_slots - first) : SERVED_BATCH;
		get_batch(&server, first, nr, found, corrupt);
		for (i = 0; i < nr; i++) {
			wrong = v->lost + v->corrupt;
			verify_slot(o, first + i, &found[i], corrupt[i], v);
			if (v->first_read == 0 && found[i].op != OP_FREE && v->lost + v->corrupt == wrong)
				v->first_read = seconds_now();
		}
		atomic_fetch_add(&figures.checked, nr);
	}
	v->all_read = seconds_now();
	close(server.fd);
}
