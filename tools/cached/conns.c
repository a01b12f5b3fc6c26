// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemcached: which descriptors are connections, and the answer to stats conns.
 *
 * A descriptor is in the table from when its worker takes it over until before it is closed.  These two take the lock,
 * no command does; who lists connections holds it for STEP descriptors at a time.  Under it no connection ends and no
 * descriptor becomes another's.  What a connection waits for its worker notes at the end of each pass, for others to
 * read.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "cached.h"

#define STEP		64u	/* descriptors, two system calls for each that is a connection */
#define LEAST_ROOM	64u
#define ADDRESS_BYTES	160u
#define LINE_BYTES	(ADDRESS_BYTES + 64u)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cached_connection **table;	/* by descriptor, under the lock */
static size_t room;				/* places of the table */
static struct cached_connection listens;	/* stands for a socket that listens */

/* As memcached's states are called */
static const char *const states[] = {
	[STATE_READ] = "conn_read", [STATE_DATA] = "conn_nread", [STATE_SWALLOW] = "conn_swallow",
	[STATE_WRITE] = "conn_mwrite", [STATE_CLOSING] = "conn_closing",
};

/* Makes room for a descriptor.  Return: false: no memory. */
static bool grow(size_t fd)
{
	size_t more = room ? room : LEAST_ROOM;
	struct cached_connection **larger;

	if (fd < room)
		return true;
	while (more <= fd)
		more *= 2;
	larger = realloc(table, more * sizeof(*table));
	if (!larger)
		return false;
	memset(larger + room, 0, (more - room) * sizeof(*table));
	table = larger;
	room = more;
	return true;
}

/**
 * conns_add - a descriptor is a connection from now on
 * @fd: that was opened
 * @connection: whose it is; NULL: it listens
 *
 * Return: false: no memory.
 */
bool conns_add(int fd, struct cached_connection *connection)
{
	bool added;

	pthread_mutex_lock(&lock);
	added = grow((size_t)fd);
	if (added)
		table[fd] = connection ? connection : &listens;
	pthread_mutex_unlock(&lock);
	return added;
}

/**
 * conns_remove - a descriptor is about to be closed
 * @fd: the same as for conns_add(), whether that had memory or not
 */
void conns_remove(int fd)
{
	pthread_mutex_lock(&lock);
	if ((size_t)fd < room)
		table[fd] = NULL;
	pthread_mutex_unlock(&lock);
}

/**
 * conns_note - note what a connection does until its next event
 * @connection: of the calling worker, which has sent what it could
 */
void conns_note(struct cached_connection *connection)
{
	enum cached_state state = STATE_READ;

	if (connection->closing)
		state = STATE_CLOSING;
	else if (connection->out_end)
		state = STATE_WRITE;
	else if (connection->swallow)
		state = STATE_SWALLOW;
	else if (connection->need)
		state = STATE_DATA;
	__atomic_store_n(&connection->state, state, __ATOMIC_RELAXED);
}

/* As memcached writes it: clients of a unix socket have no address. */
static void put_address(char *to, const struct sockaddr_storage *address)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)address;
	const struct sockaddr_un *un = (const struct sockaddr_un *)address;
	char text[INET6_ADDRSTRLEN] = "";

	if (address->ss_family == AF_INET && inet_ntop(AF_INET, &in4->sin_addr, text, sizeof(text)))
		snprintf(to, ADDRESS_BYTES, "tcp:%s:%u", text, ntohs(in4->sin_port));
	else if (address->ss_family == AF_INET6 && inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text)))
		snprintf(to, ADDRESS_BYTES, "tcp6:[%s]:%u", text, ntohs(in6->sin6_port));
	else if (address->ss_family == AF_UNIX && *un->sun_path)
		snprintf(to, ADDRESS_BYTES, "unix:%.*s", (int)sizeof(un->sun_path), un->sun_path);
	else
		strcpy(to, "?:<AF 0>");
}

static void say(struct cached_connection *asks, int fd, const char *what, const char *value)
{
	char line[LINE_BYTES];

	snprintf(line, sizeof(line), "STAT %d:%s %s", fd, what, value);
	connection_say(asks, line);
}

/* @get: getsockname() or getpeername() */
static void say_address(struct cached_connection *asks, int fd, const char *what,
			int (*get)(int fd, struct sockaddr *address, socklen_t *length))
{
	struct sockaddr_storage address = { 0 };
	socklen_t length = sizeof(address);
	char text[ADDRESS_BYTES];

	if (get(fd, (struct sockaddr *)&address, &length))
		address.ss_family = AF_UNSPEC;
	put_address(text, &address);
	say(asks, fd, what, text);
}

/* @connection: of another worker, perhaps */
static void list_one(struct cached_connection *asks, int fd, const struct cached_connection *connection)
{
	int64_t idle = asks->worker->tick - __atomic_load_n(&connection->since, __ATOMIC_RELAXED);
	char seconds[24];

	say_address(asks, fd, "addr", getpeername);
	say_address(asks, fd, "listen_addr", getsockname);
	say(asks, fd, "state", connection == asks ? "conn_parse_cmd"
						  : states[__atomic_load_n(&connection->state, __ATOMIC_RELAXED)]);
	/* Another worker's clock can have been read a moment later */
	snprintf(seconds, sizeof(seconds), "%lld", idle > 0 ? (long long)idle : 0);
	say(asks, fd, "secs_since_last_cmd", seconds);
}

/* The seconds of a socket that listens are those since the start: no command comes there. */
static void list_listener(struct cached_connection *asks, int fd)
{
	char seconds[16];

	say_address(asks, fd, "addr", getsockname);
	say(asks, fd, "state", "conn_listening");
	snprintf(seconds, sizeof(seconds), "%u", item_now() - cached.started);
	say(asks, fd, "secs_since_last_cmd", seconds);
}

/**
 * conns_list - go on with stats conns, whose end clears connection->dump
 * @asks: that wants it
 */
void conns_list(struct cached_connection *asks)
{
	size_t fd, end = asks->dump_cursor + STEP;

	pthread_mutex_lock(&lock);
	for (fd = asks->dump_cursor; fd < end && fd < room; fd++) {
		if (table[fd] == &listens)
			list_listener(asks, (int)fd);
		else if (table[fd])
			list_one(asks, (int)fd, table[fd]);
	}
	if (fd >= room) {
		asks->dump = DUMP_NONE;
		connection_say(asks, "END");
	}
	pthread_mutex_unlock(&lock);
	asks->dump_cursor = fd;
}
