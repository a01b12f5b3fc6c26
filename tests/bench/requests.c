// SPDX-License-Identifier: GPL-2.0
/*
 * Requests to a server that speaks memcached's protocol, or that of Redis, from one thread.  -p is the path of its unix
 * socket.  The key of an item is its number.  What the server answers must be of the key that was asked for, or the
 * program ends.  Orders:
 *
 *	sizes KEY LOW HIGH	items have keys of KEY bytes, and values of LOW to HIGH
 *	etc SCALE		items have keys of 31 bytes, and values as Facebook's pool ETC has them (Atikoglu et
 *				al., 2012: generalised Pareto), SCALE times as large, 64 KiB at most
 *	fill FIRST NR		set items; answers how many the server refused
 *	drop FIRST NR PER_MILLE	delete so many of items; memcached only, as the next two
 *	held NR			count which of the first items are there
 *	hits ITEMS NR SETS	NR requests for items by Zipf's law: SETS per mille set, the others get, and what is
 *				not there is set
 *	run CONNECTIONS SECONDS READS INSERTS MODIFIES CHOICE
 *		each connection sends a request when the answer to its last one is there: so many per mille get, set
 *		a new item, or get an item and then set it; the others set.  CHOICE of the item: 0 any; 1 by Zipf's
 *		law; 2 likewise, the latest most often
 *
 * All but "run" send and receive BULK requests together.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"

#define BULK		32u
#define VALUE_MAX	(64u << 10)
#define KEY_MAX		64u
#define ANSWER_MAX	(VALUE_MAX + 512u)	/* a value, its key, and words */
#define CLIENTS		64u
#define EVENTS		64
#define BUCKETS		1000000u	/* of BUCKET_NS, of latencies */
#define BUCKET_NS	100u

#define ETC_KEY		31u
#define ETC_SIGMA	214.476
#define ETC_K		0.348238

enum request { READ, SET, MODIFY };	/* MODIFY: the read; a SET follows */
enum choice { ANY, ZIPF, LATEST };

/**
 * struct protocol - how to ask a server
 * @set: writes all of a request but the value and the end of its line
 * @get: writes a request
 * @got: the answer to a get at @at: its length, 0: not complete; @value: NULL: no such item
 * @stored: answer to a set
 */
struct protocol {
	size_t (*set)(char *to, uint64_t item, uint32_t length);
	size_t (*get)(char *to, uint64_t item);
	size_t (*got)(const char *at, size_t bytes, uint64_t item, const char **value, uint32_t *length);
	const char *stored;
};

/**
 * struct client - a connection
 * @sent: when its request was sent, in ns
 * @got: bytes of the answer
 */
struct client {
	int fd;
	enum request request;
	bool insert;
	uint64_t item;
	uint64_t sent;
	size_t got;
	char *answer;
};

static const struct protocol *protocol;
static struct client clients[CLIENTS];
static unsigned int nr_clients;
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static char *bulk, *bulk_answer;
static uint32_t *buckets;
static uint64_t nr_items, state = 1;
static uint32_t key_bytes = 16, low = 100, high = 100;
static double etc;	/* scale; 0: from low to high */

/* ---- Items -------------------------------------------------------------------- */

static uint32_t value_length(uint64_t item)
{
	uint64_t own = item;
	double length;

	if (!etc)
		return low + random_below(&own, high - low + 1);
	length = etc * ETC_SIGMA / ETC_K * (pow(1 - (double)(random_next(&own) >> 11) / (double)(1ull << 53), -ETC_K) - 1);
	return length < 1 ? 1 : length > VALUE_MAX ? VALUE_MAX : (uint32_t)length;
}

static void make_key(char *to, uint64_t item)
{
	uint32_t i;

	for (i = key_bytes; i--; item /= 10)
		to[i] = (char)('0' + item % 10);
}

static void make_value(char *to, uint64_t item, uint32_t length)
{
	memset(to, 'a' + (int)(item % 26), length);
	memcpy(to + length, "\r\n", 2);
}

static void check_value(const char *value, uint64_t item, uint32_t length)
{
	char wanted = (char)('a' + item % 26);

	if (!length || *value != wanted || value[length - 1] != wanted)
		fail("value", EBADMSG);
}

static bool is_key(const char *text, uint64_t item)
{
	char key[KEY_MAX];

	make_key(key, item);
	return !memcmp(text, key, key_bytes);
}

/* ---- Protocols ------------------------------------------------------------------ */

static size_t memcached_set(char *to, uint64_t item, uint32_t length)
{
	memcpy(to, "set ", 4);
	make_key(to + 4, item);
	return 4 + key_bytes + (size_t)sprintf(to + 4 + key_bytes, " 0 0 %u\r\n", length);
}

static size_t memcached_get(char *to, uint64_t item)
{
	memcpy(to, "get ", 4);
	make_key(to + 4, item);
	memcpy(to + 4 + key_bytes, "\r\n", 2);
	return 6 + key_bytes;
}

/* A value at @at, without the END behind it.  Return: its length with all before it; 0: it is not complete. */
static size_t memcached_value(const char *at, size_t bytes, const char **value, uint32_t *length)
{
	const char *end = memchr(at, '\n', bytes);
	size_t head = 6 + key_bytes;

	if (!end)
		return 0;
	if ((size_t)(end - at) < head || memcmp(at, "VALUE ", 6))
		fail("answer", EPROTO);
	*length = (uint32_t)strtoul(at + head + 3, NULL, 10);	/* behind the flags, which are 0 */
	*value = end + 1;
	head = (size_t)(end + 1 - at) + *length + 2;
	return bytes < head ? 0 : head;
}

static size_t memcached_got(const char *at, size_t bytes, uint64_t item, const char **value, uint32_t *length)
{
	size_t whole;

	*value = NULL;
	if (bytes >= 5 && !memcmp(at, "END\r\n", 5))
		return 5;
	whole = memcached_value(at, bytes, value, length);
	if (!whole || bytes < whole + 5)
		return 0;
	if (!is_key(at + 6, item))
		fail("key", EBADMSG);
	return whole + 5;
}

static size_t redis_set(char *to, uint64_t item, uint32_t length)
{
	size_t head = (size_t)sprintf(to, "*3\r\n$3\r\nSET\r\n$%u\r\n", key_bytes);

	make_key(to + head, item);
	head += key_bytes;
	return head + (size_t)sprintf(to + head, "\r\n$%u\r\n", length);
}

static size_t redis_get(char *to, uint64_t item)
{
	size_t head = (size_t)sprintf(to, "*2\r\n$3\r\nGET\r\n$%u\r\n", key_bytes);

	make_key(to + head, item);
	memcpy(to + head + key_bytes, "\r\n", 2);
	return head + key_bytes + 2;
}

static size_t redis_got(const char *at, size_t bytes, uint64_t item, const char **value, uint32_t *length)
{
	const char *end = memchr(at, '\n', bytes);
	size_t head;

	(void)item;
	*value = NULL;
	if (!end)
		return 0;
	if (!memcmp(at, "$-1", 3))
		return 5;
	if (*at != '$')
		fail("answer", EPROTO);
	*length = (uint32_t)strtoul(at + 1, NULL, 10);
	*value = end + 1;
	head = (size_t)(end + 1 - at) + *length + 2;
	return bytes < head ? 0 : head;
}

static const struct protocol memcached = { memcached_set, memcached_get, memcached_got, "STORED\r\n" };
static const struct protocol redis = { redis_set, redis_get, redis_got, "+OK\r\n" };

/* ---- Connections ---------------------------------------------------------------- */

static void client_open(struct client *client)
{
	client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (client->fd < 0 || connect(client->fd, (struct sockaddr *)&address, sizeof(address)))
		fail(address.sun_path, errno);
	client->answer = get_memory(ANSWER_MAX, 64);
}

static void send_all(int fd, const char *bytes, size_t length)
{
	ssize_t sent;

	for (; length; bytes += sent, length -= (size_t)sent) {
		sent = send(fd, bytes, length, MSG_NOSIGNAL);
		if (sent < 0)
			fail("send", errno);
	}
}

static size_t receive(int fd, char *to, size_t room)
{
	ssize_t got = room ? recv(fd, to, room, 0) : 0;

	if (got <= 0)
		fail("receive", got ? errno : EPIPE);
	return (size_t)got;
}

static size_t put_set(char *to, uint64_t item)
{
	uint32_t length = value_length(item);
	size_t head = protocol->set(to, item, length);

	make_value(to + head, item, length);
	return head + length + 2;
}

/* ---- Many at once --------------------------------------------------------------- */

/* Sends what is in @bulk, and receives as many lines.  Return: how many are SERVER_ERROR. */
static uint32_t bulk_lines(size_t length, uint32_t lines)
{
	uint32_t column = 0, refused = 0;
	char before = 0;
	size_t got, i;

	send_all(clients->fd, bulk, length);
	while (lines) {
		got = receive(clients->fd, bulk_answer, BULK * ANSWER_MAX);
		for (i = 0; i < got; i++) {
			refused += column++ == 1 && before == 'S' && bulk_answer[i] == 'E';
			before = bulk_answer[i];
			if (before != '\n')
				continue;
			column = 0;
			lines--;
		}
	}
	return refused;
}

static void fill(uint64_t first, uint64_t nr)
{
	uint64_t item = first, refused = 0;
	size_t length;
	uint32_t i;

	while (item < first + nr) {
		for (i = 0, length = 0; i < BULK && item < first + nr; i++)
			length += put_set(bulk + length, item++);
		refused += bulk_lines(length, i);
	}
	if (nr_items < first + nr)
		nr_items = first + nr;
	printf("{\"refused\": %llu}\n", (unsigned long long)refused);
}

static void drop(uint64_t first, uint64_t nr, uint32_t share)
{
	uint64_t item = first;
	size_t length;
	uint32_t i;

	while (item < first + nr) {
		for (i = 0, length = 0; i < BULK && item < first + nr; item++) {
			if (random_below(&state, 1000) >= share)
				continue;
			memcpy(bulk + length, "delete ", 7);
			make_key(bulk + length + 7, item);
			memcpy(bulk + length + 7 + key_bytes, "\r\n", 2);
			length += 9 + key_bytes;
			i++;
		}
		bulk_lines(length, i);
	}
}

/* Gets @nr items, at most BULK, by one request.  @there: out, for each.  Return: bytes of keys and values. */
static uint64_t bulk_get(const uint64_t *items, uint32_t nr, bool *there)
{
	size_t length = 3, got = 0, parsed = 0, whole;
	const char *value;
	uint64_t bytes = 0;
	uint32_t i, of_value;

	memcpy(bulk, "get", 3);
	for (i = 0; i < nr; i++) {
		bulk[length] = ' ';
		make_key(bulk + length + 1, items[i]);
		length += 1 + key_bytes;
		there[i] = false;
	}
	memcpy(bulk + length, "\r\n", 2);
	send_all(clients->fd, bulk, length + 2);
	for (i = 0;;) {
		if (got - parsed >= 5 && !memcmp(bulk_answer + parsed, "END\r\n", 5))
			return bytes;
		whole = memcached_value(bulk_answer + parsed, got - parsed, &value, &of_value);
		if (!whole) {
			got += receive(clients->fd, bulk_answer + got, BULK * ANSWER_MAX - got);
			continue;
		}
		while (i < nr && !is_key(bulk_answer + parsed + 6, items[i]))
			i++;
		if (i == nr)
			fail("key", EBADMSG);
		check_value(value, items[i], of_value);
		bytes += key_bytes + of_value;
		there[i++] = true;
		parsed += whole;
	}
}

static void held(uint64_t nr)
{
	uint64_t items[BULK], item = 0, count = 0, bytes = 0;
	bool there[BULK];
	uint32_t i, now;

	while (item < nr) {
		now = nr - item < BULK ? (uint32_t)(nr - item) : BULK;
		for (i = 0; i < now; i++)
			items[i] = item++;
		bytes += bulk_get(items, now, there);
		for (i = 0; i < now; i++)
			count += there[i];
	}
	printf("{\"items\": %llu, \"bytes\": %llu}\n", (unsigned long long)count, (unsigned long long)bytes);
}

static void hits(uint64_t nr, uint64_t requests, uint32_t sets)
{
	uint64_t items[BULK], gets = 0, hit = 0, item, done;
	uint32_t i, nr_gets, nr_sets;
	bool there[BULK];
	size_t length;

	zipf_setup(nr);
	for (done = 0; done < requests; done += BULK) {
		nr_gets = nr_sets = 0;
		length = 0;
		for (i = 0; i < BULK; i++) {
			item = zipf_next(&state) * 4294967291ull % nr;
			if (random_below(&state, 1000) >= sets) {
				items[nr_gets++] = item;
				continue;
			}
			length += put_set(bulk + length, item);
			nr_sets++;
		}
		bulk_lines(length, nr_sets);
		if (!nr_gets)
			continue;
		bulk_get(items, nr_gets, there);
		gets += nr_gets;
		length = nr_sets = 0;
		for (i = 0; i < nr_gets; i++) {
			if (there[i]) {
				hit++;
				continue;
			}
			length += put_set(bulk + length, items[i]);
			nr_sets++;
		}
		bulk_lines(length, nr_sets);
	}
	printf("{\"gets\": %llu, \"hits\": %llu}\n", (unsigned long long)gets, (unsigned long long)hit);
}

/* ---- One after the other, on many connections ------------------------------------ */

/* Items below this one are all there. */
static uint64_t items_stored(void)
{
	uint64_t stored = nr_items;
	unsigned int i;

	for (i = 0; i < nr_clients; i++)
		if (clients[i].insert && clients[i].item < stored)
			stored = clients[i].item;
	return stored;
}

static uint64_t choose(enum choice choice, uint64_t items)
{
	switch (choice) {
	case ZIPF:
		return zipf_next(&state) * 4294967291ull % items;
	case LATEST:
		return items_stored() - 1 - zipf_next(&state);
	case ANY:
		break;
	}
	return random_below(&state, items);
}

static void send_request(struct client *client, uint64_t now)
{
	size_t length = client->request == SET ? put_set(bulk, client->item) : protocol->get(bulk, client->item);

	client->got = 0;
	client->sent = now;
	send_all(client->fd, bulk, length);
}

/* Return: whether the answer is complete. */
static bool receive_answer(struct client *client, uint64_t *misses)
{
	size_t stored = strlen(protocol->stored);
	const char *value;
	uint32_t length;

	client->got += receive(client->fd, client->answer + client->got, ANSWER_MAX - client->got);
	if (client->request == SET) {
		if (client->got < stored)
			return false;
		if (memcmp(client->answer, protocol->stored, stored))
			fail("set", EPROTO);
		return true;
	}
	if (!protocol->got(client->answer, client->got, client->item, &value, &length))
		return false;
	if (value)
		check_value(value, client->item, length);
	else
		++*misses;
	return true;
}

static double percentile(uint64_t total, double share)
{
	uint64_t wanted = (uint64_t)((double)total * share), sum = 0;
	uint32_t i;

	for (i = 0; i < BUCKETS - 1 && sum <= wanted; i++)
		sum += buckets[i];
	return i * BUCKET_NS / 1000.0;
}

/**
 * struct mix - of requests
 * @reads: per mille, as the others; the rest sets
 * @items: when the run began
 */
struct mix {
	uint32_t reads;
	uint32_t inserts;
	uint32_t modifies;
	enum choice choice;
	uint64_t items;
};

static void next_request(struct client *client, const struct mix *mix, uint64_t now)
{
	uint32_t dice = random_below(&state, 1000);

	client->insert = false;
	client->request = dice < mix->reads ? READ : SET;
	if (dice >= mix->reads && dice < mix->reads + mix->inserts) {
		client->item = nr_items++;
		client->insert = true;
	} else {
		if (dice >= mix->reads + mix->inserts && dice < mix->reads + mix->inserts + mix->modifies)
			client->request = MODIFY;
		client->item = choose(mix->choice, mix->items);
	}
	send_request(client, now);
}

/* The second half of a modify counts with the first as one request. */
static void modify(struct client *client)
{
	uint64_t sent = client->sent;

	client->request = SET;
	send_request(client, sent);
}

static void run(unsigned int connections, double seconds, const struct mix *mix)
{
	struct epoll_event events[EVENTS], event = { .events = EPOLLIN };
	uint64_t begin, now, end, total = 0, misses = 0, took, sum_ns = 0;
	int poll = epoll_create1(EPOLL_CLOEXEC), nr, i;

	if (poll < 0)
		fail("epoll", errno);
	memset(buckets, 0, BUCKETS * sizeof(*buckets));
	zipf_setup(mix->items);
	for (; nr_clients < connections; nr_clients++)
		client_open(&clients[nr_clients]);
	begin = now = now_ns();
	end = begin + (uint64_t)(seconds * 1e9);
	for (i = 0; i < (int)connections; i++) {
		event.data.ptr = &clients[i];
		if (epoll_ctl(poll, EPOLL_CTL_ADD, clients[i].fd, &event))
			fail("epoll", errno);
		next_request(&clients[i], mix, now);
	}
	for (; connections; now = now_ns()) {
		nr = epoll_wait(poll, events, EVENTS, -1);
		for (i = 0; i < nr; i++) {
			struct client *client = events[i].data.ptr;

			if (!receive_answer(client, &misses))
				continue;
			if (client->request == MODIFY) {
				modify(client);
				continue;
			}
			now = now_ns();
			sum_ns += now - client->sent;
			took = (now - client->sent) / BUCKET_NS;
			buckets[took < BUCKETS ? took : BUCKETS - 1]++;
			total++;
			client->insert = false;
			/* The last answers are waited for: nothing is left on a connection. */
			if (now < end)
				next_request(client, mix, now);
			else
				connections--;
		}
	}
	close(poll);
	printf("{\"rate\": %.1f, \"mean\": %.1f, \"p50\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"misses\": %llu}\n",
	       (double)total * 1e9 / (double)(now - begin), (double)sum_ns / 1000.0 / (double)total, percentile(total, 0.5), percentile(total, 0.99),
	       percentile(total, 0.999), (unsigned long long)misses);
}

/* ---- The modes ------------------------------------------------------------------- */

static void setup(const struct bench *bench, const struct protocol *of_server)
{
	if (!bench->path || strlen(bench->path) >= sizeof(address.sun_path))
		fail("-p SOCKET", EINVAL);
	protocol = of_server;
	strcpy(address.sun_path, bench->path);
	bulk = get_memory(BULK * ANSWER_MAX, 64);
	bulk_answer = get_memory(BULK * ANSWER_MAX, 64);
	buckets = get_memory(BUCKETS * sizeof(*buckets), 64);
	client_open(&clients[nr_clients++]);
}

static void memcached_setup(struct bench *bench)
{
	setup(bench, &memcached);
}

static void redis_setup(struct bench *bench)
{
	setup(bench, &redis);
}

static bool order(struct bench *bench, const char *verb, const double *a, unsigned int nr)
{
	(void)bench;
	if (!strcmp(verb, "run") && nr == 6 && a[0] >= 1 && a[0] <= CLIENTS && nr_items) {
		struct mix mix = { (uint32_t)a[2], (uint32_t)a[3], (uint32_t)a[4], (enum choice)a[5], nr_items };

		run((unsigned int)a[0], a[1], &mix);
		return true;
	}
	if (!strcmp(verb, "held") && nr == 1) {
		held((uint64_t)a[0]);
		return true;
	}
	if (!strcmp(verb, "hits") && nr == 3 && a[0] >= 1) {
		hits((uint64_t)a[0], (uint64_t)a[1], (uint32_t)a[2]);
		return true;
	}
	if (!strcmp(verb, "fill") && nr == 2) {
		fill((uint64_t)a[0], (uint64_t)a[1]);
		return true;
	}
	if (!strcmp(verb, "sizes") && nr == 3 && a[0] >= 16 && a[0] <= KEY_MAX && a[1] >= 1 && a[2] >= a[1] &&
	    a[2] <= VALUE_MAX) {
		key_bytes = (uint32_t)a[0];
		low = (uint32_t)a[1];
		high = (uint32_t)a[2];
		etc = 0;
	} else if (!strcmp(verb, "etc") && nr == 1) {
		key_bytes = ETC_KEY;
		etc = a[0];
	} else if (!strcmp(verb, "drop") && nr == 3) {
		drop((uint64_t)a[0], (uint64_t)a[1], (uint32_t)a[2]);
	} else {
		return false;
	}
	printf("{}\n");
	return true;
}

const struct mode request_modes[] = {
	{ "requests", memcached_setup, NULL, order, false },
	{ "requests-redis", redis_setup, NULL, order, false },
	{ 0 }
};
