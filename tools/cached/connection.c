// SPDX-License-Identifier: GPL-2.0
/* lsmemcached: buffers of a connection, reading and writing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cached.h"

#define IN_BYTES	(16u << 10)
#define OUT_BYTES	(4u << 10)
#define KEEP_BYTES	(64u << 10)	/* larger buffers are freed when they are empty */
#define HEADROOM	sizeof(struct cached_header)

/**
 * connection_new - begin a connection
 * @worker: that serves it
 * @fd: socket, not blocking
 *
 * Return: it, not polled yet; NULL: no memory.
 */
struct cached_connection *connection_new(struct cached_worker *worker, int fd)
{
	struct cached_connection *connection = calloc(1, sizeof(*connection));

	if (!connection)
		return NULL;
	connection->worker = worker;
	connection->fd = fd;
	connection->authenticated = !cached.options.auth_file;
	if (cached.options.ssl && !tls_begin(connection)) {
		tls_end(connection);
		free(connection);
		return NULL;
	}
	return connection;
}

/**
 * connection_free - end a connection
 * @connection: in no list of the worker's
 */
void connection_free(struct cached_connection *connection)
{
	tls_end(connection);
	close(connection->fd);
	if (connection->in)
		free(connection->in - HEADROOM);
	free(connection->out);
	free(connection);
	__atomic_sub_fetch(&cached.open, 1, __ATOMIC_RELAXED);
}

/* Makes room for @bytes from in_begin on. */
static bool room_in(struct cached_connection *connection, size_t bytes)
{
	size_t used = connection->in_end - connection->in_begin;
	char *larger;

	if (connection->in_begin && (!used || connection->in_begin + bytes > connection->in_size)) {
		memmove(connection->in, connection->in + connection->in_begin, used);
		connection->in_begin = 0;
		connection->in_end = used;
	}
	if (connection->in && connection->in_begin + bytes <= connection->in_size)
		return true;
	larger = malloc(HEADROOM + bytes);
	if (!larger)
		return false;
	if (connection->in) {
		memcpy(larger + HEADROOM, connection->in, used);
		free(connection->in - HEADROOM);
	}
	connection->in = larger + HEADROOM;
	connection->in_size = bytes;
	return true;
}

/* As recv() */
static ssize_t receive(struct cached_connection *connection)
{
	char *to = connection->in + connection->in_end;
	size_t room = connection->in_size - connection->in_end;

	return connection->tls ? tls_receive(connection, to, room) : recv(connection->fd, to, room, 0);
}

/* As send() */
static ssize_t transmit(struct cached_connection *connection)
{
	const char *from = connection->out + connection->out_begin;
	size_t length = connection->out_end - connection->out_begin;

	return connection->tls ? tls_send(connection, from, length) : send(connection->fd, from, length, MSG_NOSIGNAL);
}

/**
 * connection_receive - read what is there, as far as there is room
 * @connection: whose socket can be read
 *
 * Return: false: the connection is at its end.
 */
bool connection_receive(struct cached_connection *connection)
{
	size_t used = connection->in_end - connection->in_begin;
	size_t bytes = connection->need > IN_BYTES ? connection->need : IN_BYTES;
	ssize_t got;

	if (bytes <= used)
		bytes = 2 * used;
	if (!used && connection->in_size > KEEP_BYTES && bytes <= IN_BYTES) {
		free(connection->in - HEADROOM);
		connection->in = NULL;
		connection->in_size = connection->in_begin = connection->in_end = 0;
	}
	do {
		if (!room_in(connection, bytes))
			return false;
		got = receive(connection);
		if (got < 0)
			return errno == EAGAIN || errno == EINTR;
		connection->in_end += (size_t)got;
		connection->worker->counters.bytes_read += (size_t)got;
		bytes = connection->in_end - connection->in_begin + tls_pending(connection);
	} while (got && tls_pending(connection));
	if (!got)
		connection->reason = "normal";
	return got > 0;
}

/**
 * connection_send - send what is there, as far as the socket has room
 * @connection: is dead afterwards if it cannot be written to
 */
void connection_send(struct cached_connection *connection)
{
	while (connection->out_begin < connection->out_end) {
		ssize_t sent = transmit(connection);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0) {
			if (errno != EAGAIN)
				connection->dead = true;
			break;
		}
		connection->out_begin += (size_t)sent;
		connection->worker->counters.bytes_written += (size_t)sent;
	}
	if (connection->out_begin == connection->out_end) {
		connection->out_begin = connection->out_end = 0;
		if (connection->out_size > KEEP_BYTES) {
			free(connection->out);
			connection->out = NULL;
			connection->out_size = 0;
		}
	}
	worker_poll_out(connection, (connection->out_end || connection->tls_full) && !connection->dead);
}

/**
 * connection_room - room for bytes to be sent
 * @connection: to send on
 * @bytes: that are wanted
 *
 * Return: the room, until the next call; the caller adds to out_end what it uses.  NULL: no memory: the connection is
 * dead.
 */
char *connection_room(struct cached_connection *connection, size_t bytes)
{
	size_t used = connection->out_end - connection->out_begin;

	if (connection->out_end + bytes > connection->out_size) {
		size_t size = connection->out_size ? connection->out_size : OUT_BYTES;
		char *larger;

		while (size < used + bytes)
			size *= 2;
		larger = malloc(size);
		if (!larger) {
			connection->dead = true;
			return NULL;
		}
		if (used)
			memcpy(larger, connection->out + connection->out_begin, used);
		free(connection->out);
		connection->out = larger;
		connection->out_size = size;
		connection->out_begin = 0;
		connection->out_end = used;
	}
	return connection->out + connection->out_end;
}

/**
 * connection_add - send bytes
 * @connection: to send on
 * @data: bytes
 * @length: of them
 */
void connection_add(struct cached_connection *connection, const void *data, size_t length)
{
	char *room = connection_room(connection, length);

	if (room) {
		memcpy(room, data, length);
		connection->out_end += length;
	}
}

/**
 * connection_say - send a line
 * @connection: to send on
 * @line: without its end
 */
void connection_say(struct cached_connection *connection, const char *line)
{
	size_t length = strlen(line);
	char *room = connection_room(connection, length + 2);

	if (room) {
		memcpy(room, line, length);
		memcpy(room + length, "\r\n", 2);
		connection->out_end += length + 2;
	}
}
