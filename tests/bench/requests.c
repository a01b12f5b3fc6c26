// SPDX-License-Identifier: GPL-2.0
/*
 * Requests to a memcached server, from one thread: requests SOCKET CONNECTIONS SECONDS ITEMS BYTES GETS SEED
 *
 * SOCKET: path of a unix socket, or a TCP port of 127.0.0.1.  All items are set first.  Then each connection sends a
 * request when the answer to the last one is there: GETS percent of them get, the others set.  Prints requests a
 * second, and percentiles of the time to the answer.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS		100000u		/* of 100 ns */
#define BUCKET_NS	100u
#define KEY_BYTES	16

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
	struct sockaddr_un path = { .sun_family = AF_UNIX };
	struct sockaddr_in port = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1, fd, ret;

	if (*where == '/') {
		strncpy(path.sun_path, where, sizeof(path.sun_path) - 1);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		ret = connect(fd, (struct sockaddr *)&path, sizeof(path));
	} else {
		port.sin_port = htons((uint16_t)atoi(where));
		fd = socket(AF_INET, SOCK_STREAM, 0);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		ret = connect(fd, (struct sockaddr *)&port, sizeof(port));
	}
	if (fd < 0 || ret)
		die(where);
	return fd;
}

static void send_request(struct client *client, int is_get, unsigned int item)
{
	int length;

	if (is_get) {
		length = sprintf(request, "get key%0*u\r\n", KEY_BYTES - 3, item);
	} else {
		length = sprintf(request, "set key%0*u 0 0 %u\r\n", KEY_BYTES - 3, item, bytes);
		memset(request + length, 'a' + (int)(item % 26), bytes);
		memcpy(request + length + bytes, "\r\n", 2);
		length += (int)bytes + 2;
	}
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

static void fill(struct client *client)
{
	unsigned int item;

	for (item = 0; item < items; item++) {
		send_request(client, 0, item);
		while (!receive(client))
			;
	}
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

	if (argc != 8) {
		fprintf(stderr, "usage: requests SOCKET CONNECTIONS SECONDS ITEMS BYTES GETS SEED\n");
		return 1;
	}
	connections = (unsigned int)atoi(argv[2]);
	items = (unsigned int)atoi(argv[4]);
	bytes = (unsigned int)atoi(argv[5]);
	gets = (unsigned int)atoi(argv[6]);
	state = (uint64_t)atoll(argv[7]);
	request = malloc(bytes + 4096);
	answer = malloc(bytes + 4096);
	clients = calloc(connections, sizeof(*clients));
	poll = epoll_create1(0);
	if (!request || !answer || !clients || poll < 0)
		die("memory");
	for (i = 0; i < connections; i++) {
		clients[i].fd = connect_to(argv[1]);
		event.data.ptr = &clients[i];
		epoll_ctl(poll, EPOLL_CTL_ADD, clients[i].fd, &event);
	}
	fill(clients);
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
