// SPDX-License-Identifier: GPL-2.0
/*
 * Objects in memcached, which keeps those that its memory does not hold in a file (extstore).  What a
 * store with a tier is measured against; the caller starts the server, and bounds its memory by a cgroup.
 *
 * The vector call of lsmem is a request of several lines here: writes, which are not answered, one "get" of
 * all that are read, and "mn", whose answer is the last.  A cache may have dropped an object: that is no
 * operation.  An object begins with its number, and what is read is compared.  Orders:
 *
 *	missed		objects that were wanted and not there, since the last order
 *	check		read all objects; ends the program if one is not there
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"

#define LINE_BYTES	64u	/* of a command, without data */
static int server = -1;
static char *request;		/* of a batch */
static size_t requested;
static char *answer;		/* bytes from @parsed to @got have not been looked at */
static size_t answer_bytes, parsed, got;
static uint8_t *source;
static uint64_t nr_objects, missed;

static void send_request(void)
{
	size_t sent = 0;
	ssize_t ret;

	memcpy(request + requested, "mn\r\n", 4);
	for (requested += 4; sent < requested; sent += (size_t)ret) {
		ret = write(server, request + sent, requested - sent);
		if (ret < 0)
			fail("memcached", errno);
	}
	requested = parsed = got = 0;
}

/* The bytes of an object. */
static const uint8_t *contents(const struct bench *bench, uint64_t nr)
{
	uint8_t *bytes = source + (size_t)(nr % BENCH_SOURCES) * bench->size;

	memcpy(bytes, &nr, bench->size < sizeof(nr) ? bench->size : sizeof(nr));
	return bytes;
}

static void add_write(const struct bench *bench, uint64_t nr)
{
	requested += (size_t)sprintf(request + requested, "set %llx 0 0 %u noreply\r\n",
				     (unsigned long long)nr, bench->size);
	memcpy(request + requested, contents(bench, nr), bench->size);
	requested += bench->size;
	memcpy(request + requested, "\r\n", 2);
	requested += 2;
}

static void add_reads(const uint64_t *wanted, uint32_t reads)
{
	uint32_t i;

	if (!reads)
		return;
	requested += (size_t)sprintf(request + requested, "get");
	for (i = 0; i < reads; i++)
		requested += (size_t)sprintf(request + requested, " %llx", (unsigned long long)wanted[i]);
	requested += (size_t)sprintf(request + requested, "\r\n");
}

static void receive(void)
{
	ssize_t ret = got < answer_bytes ? read(server, answer + got, answer_bytes - got) : 0;

	if (ret <= 0)
		fail("memcached", ret ? errno : EPIPE);
	got += (size_t)ret;
}

/* The next line of the answer, without its end. */
static char *answer_line(void)
{
	char *line, *end;

	while (!(end = memchr(answer + parsed, '\n', got - parsed)))
		receive();
	line = answer + parsed;
	parsed = (size_t)(end + 1 - answer);
	end[-1] = 0;
	return line;
}

/* Look at the answer of a batch, and compare what was read. Returns how many objects were there. */
static uint32_t receive_answer(const struct bench *bench)
{
	uint32_t there = 0;
	uint64_t nr;
	char *line;

	while (strcmp(line = answer_line(), "MN")) {
		if (!strcmp(line, "END"))
			continue;
		if (strncmp(line, "VALUE ", 6))
			fail(line, EPROTO);
		nr = strtoull(line + 6, NULL, 16);
		while (got - parsed < bench->size + 2)
			receive();
		if (memcmp(contents(bench, nr), answer + parsed, bench->size))
			fail("object", EBADMSG);
		parsed += bench->size + 2;
		there++;
	}
	return there;
}

static void server_setup(struct bench *bench)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	uint64_t words = (uint64_t)bench->size * BENCH_SOURCES / 8, i, state = 1;

	nr_objects = bench->handles;
	if (!nr_objects)
		fail("-n OBJECTS", EINVAL);
	if (!bench->path || strlen(bench->path) >= sizeof(address.sun_path))
		fail("-p SOCKET", EINVAL);
	source = get_memory(words * 8, 64);
	for (i = 0; i < words; i++)
		((uint64_t *)source)[i] = random_next(&state);
	answer_bytes = bench->batch * (bench->size + LINE_BYTES) + LINE_BYTES;
	answer = get_memory(answer_bytes, 64);
	request = get_memory(answer_bytes, 64);
	strcpy(address.sun_path, bench->path);
	server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof(address)))
		fail(bench->path, errno);
	for (i = 0; i < nr_objects; i++) {
		add_write(bench, i);
		if ((i + 1) % bench->batch && i + 1 < nr_objects)
			continue;
		send_request();
		receive_answer(bench);
	}
	if (bench->zipf)
		zipf_setup(nr_objects);
}

static uint64_t server_work(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	uint64_t *wanted = get_memory(bench->batch * sizeof(*wanted), 64), operations = 0;
	uint32_t i, reads, there;

	while (worker_goes_on(worker, operations)) {
		for (i = 0, reads = 0; i < bench->batch; i++) {
			uint64_t nr = worker_any(worker, nr_objects);

			if (random_below(&worker->state, 1000) < bench->writes)
				add_write(bench, nr);
			else
				wanted[reads++] = nr;
		}
		add_reads(wanted, reads);
		send_request();
		there = receive_answer(bench);
		operations += bench->batch - reads + there;
		missed += reads - there;
	}
	free(wanted);
	return operations;
}

static void check(const struct bench *bench)
{
	uint64_t *wanted = get_memory(bench->batch * sizeof(*wanted), 64), i;
	uint32_t reads = 0;

	for (i = 0; i < nr_objects; i++) {
		wanted[reads++] = i;
		if (reads < bench->batch && i + 1 < nr_objects)
			continue;
		add_reads(wanted, reads);
		send_request();
		if (receive_answer(bench) != reads)
			fail("objects", ENOENT);
		reads = 0;
	}
	free(wanted);
}

static bool server_order(struct bench *bench, const char *verb, const double *arguments, unsigned int nr)
{
	(void)arguments;
	if (nr)
		return false;
	if (!strcmp(verb, "check")) {
		check(bench);
		printf("{\"objects\": %llu}\n", (unsigned long long)nr_objects);
		return true;
	}
	if (strcmp(verb, "missed"))
		return false;
	printf("{\"missed\": %llu}\n", (unsigned long long)missed);
	missed = 0;
	return true;
}

const struct mode server_modes[] = {
	{ "memcached", server_setup, server_work, server_order, false },
	{ 0 }
};
