// SPDX-License-Identifier: GPL-2.0
/*
 * Requests to a memcached server, from one thread:
 *
 *	load SOCKET CONNECTIONS SECONDS ITEMS BYTES GETS SEED
 *	load SOCKET BYTES
 *
 * SOCKET: path of a unix socket, or a TCP port of 127.0.0.1; the server may still be starting.  All items are set first.
 * Then each connection sends a request when the answer to the last one is there: GETS percent of them get, the others
 * set.  Prints requests a second, and percentiles of the time to the answer.
 *
 * The second form sets items until one is refused, then gets some of them.  Prints how many were set, and of how
 * many that it got the value was wrong.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "../common/lines.h"

#define BUCKETS		100000u		/* of 100 ns */
#define BUCKET_NS	100u
#define KEY_BYTES	16
#define COMMAND_BYTES	64u		/* more than those of a command, without data */
#define FILL_BATCH	64u		/* sets in a pipeline */
#define CHECK_STEP	16u		/* the second form gets one of so many */
#define START_MS	60000u		/* most that a server takes to start */

struct client {
	int fd;
	uint64_t sent;
	size_t got;
	int is_get;
};

static uint64_t buckets[BUCKETS];
static uint64_t state;
static unsigned int items, bytes, gets, misses;
static char *request, *answer;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint32_t dice(uint32_t sides)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((state >> 32) * sides >> 32);
}

static int connect_to(const char *where)
{
	unsigned int tries;
	int fd;

	for (tries = 0; (fd = lines_connect(where)) < 0 && tries < START_MS; tries++)
		usleep(1000);
	if (fd < 0)
		die(where);
	return fd;
}

static unsigned int put_set(char *to, unsigned int item)
{
	int length = sprintf(to, "set key%0*u 0 0 %u\r\n", KEY_BYTES - 3, item, bytes);

	memset(to + length, 'a' + (int)(item % 26), bytes);
	memcpy(to + length + bytes, "\r\n", 2);
	return (unsigned int)length + bytes + 2;
}

static void send_request(struct client *client, int is_get, unsigned int item)
{
	int length;

	length = is_get ? sprintf(request, "get key%0*u\r\n", KEY_BYTES - 3, item) : (int)put_set(request, item);
	client->is_get = is_get;
	client->got = 0;
	client->sent = now();
	if (send(client->fd, request, (size_t)length, MSG_NOSIGNAL) != length)
		die("send");
}

/* Return: whether the answer is complete. */
static int receive(struct client *client)
{
	ssize_t got = recv(client->fd, answer, bytes + 4096, 0);

	if (got <= 0)
		die("recv");
	client->got += (size_t)got;
	if (memcmp(answer + got - 2, "\r\n", 2))
		return 0;
	if (!client->is_get)
		return 1;
	if (client->got == 5)
		misses++;
	return (got >= 5 && !memcmp(answer + got - 5, "END\r\n", 5));
}

/* Set items up to @most, until one is refused.  Returns how many were stored. */
static unsigned int fill(const char *where, unsigned int most)
{
	static struct lines server;
	unsigned int item = 0, nr = FILL_BATCH, i;
	const char *line = "STORED";
	size_t length;

	server.fd = connect_to(where);
	for (; item < most && !strcmp(line, "STORED"); item += nr) {
		nr = most - item < FILL_BATCH ? most - item : FILL_BATCH;
		for (i = 0, length = 0; i < nr; i++)
			length += put_set(request + length, item + i);
		if (!lines_send(&server, request, length))
			die("send");
		for (i = 0; i < nr; i++) {
			line = lines_next(&server);
			if (!line)
				die("recv");
			if (strcmp(line, "STORED"))
				break;
		}
		nr = i;
	}
	if (strcmp(line, "STORED"))
		fprintf(stderr, "load: item %u: %s\n", item, line);
	close(server.fd);
	return item;
}

/* Is the value of an item the one that it was set to? */
static int is_right(struct lines *server, unsigned int item)
{
	int length = sprintf(request, "get key%0*u\r\n", KEY_BYTES - 3, item);
	unsigned int got, i;
	const char *line;

	if (!lines_send(server, request, (size_t)length))
		die("send");
	line = lines_next(server);
	if (!line || sscanf(line, "VALUE %*s 0 %u", &got) != 1 || got != bytes)
		return 0;
	if (!lines_take(server, answer, bytes + 2))
		die("recv");
	line = lines_next(server);
	for (i = 0; i < bytes && answer[i] == 'a' + (char)(item % 26); i++)
		;
	return i == bytes && line && !strcmp(line, "END");
}

static void keep(const char *where)
{
	static struct lines server;
	unsigned int kept = fill(where, UINT32_MAX), wrong = 0, item;

	server.fd = connect_to(where);
	for (item = 0; item < kept; item += CHECK_STEP)
		wrong += !is_right(&server, item);
	printf("items %u\nwrong %u\n", kept, wrong);
}

static void *get_memory(size_t length)
{
	void *memory = calloc(1, length);

	if (!memory)
		die("memory");
	return memory;
}

static void next(struct client *client)
{
	send_request(client, dice(100) < gets, dice(items));
}

static double percentile(uint64_t total, double share)
{
	uint64_t wanted = (uint64_t)((double)total * share), sum = 0;
	unsigned int i;

	for (i = 0; i < BUCKETS - 1 && sum <= wanted; i++)
		sum += buckets[i];
	return i * BUCKET_NS / 1000.0;
}

int main(int argc, char **argv)
{
	struct epoll_event events[64], event = { .events = EPOLLIN };
	unsigned int connections, i;
	uint64_t begin, end, total = 0;
	struct client *clients;
	int poll, nr;

	if (argc != 8 && argc != 3) {
		fprintf(stderr, "usage: requests SOCKET CONNECTIONS SECONDS ITEMS BYTES GETS SEED\n"
				"       requests SOCKET BYTES\n");
		return 1;
	}
	bytes = (unsigned int)atoi(argv[argc == 3 ? 2 : 5]);
	request = get_memory(FILL_BATCH * (bytes + COMMAND_BYTES));
	answer = get_memory(bytes + 4096);
	if (argc == 3) {
		keep(argv[1]);
		return 0;
	}
	connections = (unsigned int)atoi(argv[2]);
	items = (unsigned int)atoi(argv[4]);
	gets = (unsigned int)atoi(argv[6]);
	state = (uint64_t)atoll(argv[7]);
	clients = get_memory(connections * sizeof(*clients));
	poll = epoll_create1(0);
	if (poll < 0)
		die("epoll");
	if (fill(argv[1], items) != items)
		return 1;
	for (i = 0; i < connections; i++) {
		clients[i].fd = connect_to(argv[1]);
		event.data.ptr = &clients[i];
		epoll_ctl(poll, EPOLL_CTL_ADD, clients[i].fd, &event);
	}
	begin = now();
	end = begin + (uint64_t)(atof(argv[3]) * 1e9);
	for (i = 0; i < connections; i++)
		next(&clients[i]);
	while (now() < end) {
		nr = epoll_wait(poll, events, 64, -1);
		for (i = 0; (int)i < nr; i++) {
			struct client *client = events[i].data.ptr;
			uint64_t took;

			if (!receive(client))
				continue;
			took = (now() - client->sent) / BUCKET_NS;
			buckets[took < BUCKETS ? took : BUCKETS - 1]++;
			total++;
			next(client);
		}
	}
	end = now();
	printf("rate %.0f\np50_us %.1f\np99_us %.1f\np999_us %.1f\nmisses %u\n", (double)total * 1e9 / (double)(end - begin),
	       percentile(total, 0.5), percentile(total, 0.99), percentile(total, 0.999), misses);
	return 0;
}
