// SPDX-License-Identifier: GPL-2.0
/*
 * Any bytes from a client to lsmemcached.  Input: a byte, from which the lengths of pieces come, and what the client
 * sends.  It is sent at once, and then in pieces to a server that begins anew: both times the answers must be the same.
 * With one of the highest bytes the server has users: who has given no password changes and reads nothing.
 *
 * The table is in memory (tests/cached/table.c), of TABLE_ITEMS items: what is over that has no room.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../cached/table.h"
#include "cached/cached.h"
#include "image.h"

#define TABLE_ITEMS	64u
#define ANSWER_MAX	(16u << 20)
#define FIRST_VERSION	100u
#define WITH_USERS	0xe0u		/* first bytes from this one on */
#define USERS		"u:p\nname:a password\n"

struct answers {
	char *bytes;
	size_t length;
};

struct cached cached = { .evicting = PTHREAD_MUTEX_INITIALIZER, .flushing = PTHREAD_MUTEX_INITIALIZER };

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

/* A clock that stands still, so that both answers are the same */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	now->tv_sec = 1700000000;
	now->tv_nsec = 0;
	return 0;
}

void worker_poll_out(struct cached_connection *connection, bool out)
{
	(void)connection;
	(void)out;
}

void worker_wake(struct cached_worker *unused)
{
	(void)unused;
}

void worker_activate(struct cached_connection *unused)
{
	(void)unused;
}

void worker_wake_all(void)
{
}

static void take(struct cached_connection *connection, struct answers *answers)
{
	size_t length = connection->out_end - connection->out_begin;

	if (answers->length + length > ANSWER_MAX) {
		connection->dead = true;
		return;
	}
	answers->bytes = realloc(answers->bytes, answers->length + length + 1);
	if (!answers->bytes)
		abort();
	if (length)
		memcpy(answers->bytes + answers->length, connection->out + connection->out_begin, length);
	answers->length += length;
	connection->out_begin = connection->out_end = 0;
}

static void check_stranger(const struct cached_connection *connection)
{
	const struct cached_counters *counters = &connection->worker->counters;

	if (counters->cmd_get | counters->cmd_set | counters->cmd_touch | counters->cmd_meta | counters->cmd_flush)
		fuzz_fail("a command was carried out without a password");
	if (table_items())
		fuzz_fail("an item was stored without a password");
}

static void run(struct cached_connection *connection, struct answers *answers)
{
	bool more;

	do {
		more = command_run(connection);
		batch_flush(connection->worker);
		if (!connection->authenticated)
			check_stranger(connection);
		take(connection, answers);
	} while (more && !connection->dead && !connection->closing);
}

static void converse(const uint8_t *data, size_t size, uint8_t pieces, struct answers *answers)
{
	struct cached_connection *connection;
	uint32_t dice = pieces;
	int sockets[2];
	unsigned int i;

	if (!table_begin(TABLE_ITEMS, UINT64_MAX, FIRST_VERSION + 1))
		abort();
	memset(&cached.workers->counters, 0, sizeof(cached.workers->counters));
	memset(&cached.upkeep, 0, sizeof(cached.upkeep));
	cached.generation = cached.flush_at = 0;
	cached.limit = 0;
	cached.detail = false;
	prefix_forget();
	cached.crawler = (struct cached_crawler) { 0 };
	cached.workers->now = item_now();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets))
		abort();
	connection = connection_new(cached.workers, sockets[0]);
	if (!connection || !conns_add(sockets[0], connection))
		abort();
	while (size && !connection->dead && !connection->closing) {
		size_t length = pieces ? 1 + (dice >> 8) % (pieces < size ? pieces : size) : size;
		ssize_t sent = write(sockets[1], data, length);

		if (sent <= 0)
			abort();
		dice = dice * 1103515245u + 12345u;
		data += sent;
		size -= (size_t)sent;
		if (!connection_receive(connection))
			fuzz_fail("the connection is at its end");
		run(connection, answers);
	}
	/* What the buffer had no room for */
	while (!connection->dead && !connection->closing && recv(sockets[0], &i, 1, MSG_PEEK) == 1) {
		connection_receive(connection);
		run(connection, answers);
	}
	conns_remove(sockets[0]);
	if (connection->watcher)
		watch_end(connection);
	connection_free(connection);
	close(sockets[1]);
}

/* The file of users, which the server reads as it does at its start. */
static void load_users(void)
{
	char path[] = "/tmp/fuzz-users-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || write(fd, USERS, strlen(USERS)) != (ssize_t)strlen(USERS))
		abort();
	close(fd);
	cached.options.auth_file = path;
	if (auth_load())
		abort();
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct answers whole = { 0 }, pieces = { 0 };

	if (size < 2)
		return 0;
	if (!cached.workers) {
		cached.options = (struct cached_options) { .threads = 1, .item_max = 8192, .keep = true, .delimiter = ':' };
		cached.workers = calloc(1, sizeof(*cached.workers));
		cached.workers->batch = batch_new();
		cached.workers->large = malloc(2 * CACHED_OBJECT_MAX);
		load_users();
	}
	cached.options.auth_file = data[0] >= WITH_USERS ? USERS : NULL;
	converse(data + 1, size - 1, 0, &whole);
	converse(data + 1, size - 1, (uint8_t)(data[0] | 1), &pieces);
	/* Counters and times of the process differ */
	if (!memmem(data, size, "stats", 5) &&
	    (whole.length != pieces.length || memcmp(whole.bytes, pieces.bytes, whole.length)))
		fuzz_fail("the answers differ: %.*s\nand %.*s", (int)whole.length, whole.bytes, (int)pieces.length,
			  pieces.bytes);
	free(whole.bytes);
	free(pieces.bytes);
	return 0;
}
