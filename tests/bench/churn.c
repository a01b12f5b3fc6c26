// SPDX-License-Identifier: GPL-2.0
/*
 * Objects of many sizes are allocated and freed: in a store, with malloc (the preloaded allocator),
 * in memcached.  All three get the same sequence.  Orders:
 *
 *	churn LOW HIGH BYTES LIVE HEADER SECONDS
 *		allocate BYTES in objects of LOW to HIGH bytes, until time is up;
 *		before each allocation free random objects, until all objects with
 *		the new one are at most LIVE bytes, with HEADER bytes for each
 *	drop PER_MILLE		free so many of the objects, chosen at random
 *	grow LOW HIGH		allocate until the store is full
 *	memory			print the most memory taken from the system since setup
 *	store			print the name of the store
 *
 * The arrays with the name (8 bytes) and the length of each object exist before the first object.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../guest/store.h"
#include "bench.h"

#define BATCH_MAX	1024u
#define SERVER_BUFFER	(128u << 10)

/**
 * struct keeper - a memory for objects
 * @put: allocates @nr objects; names: out.  Returns for how many there was room
 * @drop: frees @nr objects
 * @finish: waits until all earlier requests are done; may be NULL
 */
struct keeper {
	uint32_t (*put)(const struct bench *bench, const uint32_t *lengths, uint32_t nr,
			uint64_t *names);
	void (*drop)(const uint64_t *names, uint32_t nr);
	void (*finish)(void);
};

static const struct keeper *keeper;
static uint8_t *source;
static uint64_t *names, nr_objects, max_objects;
static uint32_t *lengths;
static uint64_t payload, most_payload, most_objects, taken;
static uint64_t state = 0x9e3779b97f4a7c15ull;

/* ---- A store ------------------------------------------------------------ */

static struct store store;
static struct lsmem_op ops[BATCH_MAX];

static void store_call(uint32_t nr)
{
	int ret = lsm_vector(store.lsm, ops, nr, 0, NULL);

	if (ret)
		fail("vector call", -ret);
}

static void store_drop(const uint64_t *which, uint32_t nr)
{
	uint32_t i;

	memset(ops, 0, sizeof(*ops) * nr);
	for (i = 0; i < nr; i++) {
		ops[i].size = sizeof(*ops);
		ops[i].op = LSMEM_OP_FREE;
		ops[i].handle = which[i];
	}
	store_call(nr);
	for (i = 0; i < nr; i++)
		if (ops[i].result)
			fail("free", -ops[i].result);
}

static uint32_t store_put(const struct bench *bench, const uint32_t *sizes, uint32_t nr,
			  uint64_t *out)
{
	uint32_t i, done = 0, nr_behind = 0;
	uint64_t behind[BATCH_MAX];

	(void)bench;
	memset(ops, 0, sizeof(*ops) * nr);
	for (i = 0; i < nr; i++) {
		ops[i].size = sizeof(*ops);
		ops[i].op = LSMEM_OP_ALLOC;
		ops[i].data = (uintptr_t)source;
		ops[i].length = sizes[i];
	}
	store_call(nr);
	for (i = 0; i < nr; i++) {
		if (ops[i].result && ops[i].result != -ENOSPC)
			fail("allocate", -ops[i].result);
		if (!ops[i].result && done == i)
			out[done++] = ops[i].handle;
		else if (!ops[i].result)
			behind[nr_behind++] = ops[i].handle;
	}
	/* Objects behind the first that failed do not count: free them. */
	if (nr_behind)
		store_drop(behind, nr_behind);
	return done;
}

static const struct keeper store_keeper = { store_put, store_drop, NULL };

/* ---- malloc ------------------------------------------------------------- */

static uint32_t malloc_put(const struct bench *bench, const uint32_t *sizes, uint32_t nr,
			   uint64_t *out)
{
	uint32_t i;
	void *object;

	(void)bench;
	for (i = 0; i < nr; i++) {
		object = malloc(sizes[i]);
		if (!object)
			return i;
		memcpy(object, source, sizes[i]);
		out[i] = (uintptr_t)object;
	}
	return nr;
}

static void malloc_drop(const uint64_t *which, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr; i++)
		free((void *)(uintptr_t)which[i]);
}

static const struct keeper malloc_keeper = { malloc_put, malloc_drop, NULL };

/* ---- memcached: objects have keys; no answers ("noreply") --------------- */

static int server = -1;
static char *buffer;
static size_t buffered;
static uint64_t next_name;

static void server_flush(void)
{
	size_t sent = 0;
	ssize_t ret;

	for (; sent < buffered; sent += (size_t)ret) {
		ret = write(server, buffer + sent, buffered - sent);
		if (ret < 0)
			fail("memcached", errno);
	}
	buffered = 0;
}

static void server_room(size_t bytes)
{
	if (buffered + bytes > SERVER_BUFFER)
		server_flush();
}

static uint32_t server_put(const struct bench *bench, const uint32_t *sizes, uint32_t nr,
			   uint64_t *out)
{
	uint32_t i;

	(void)bench;
	for (i = 0; i < nr; i++) {
		out[i] = next_name++;
		server_room(sizes[i] + 64u);
		buffered += (size_t)sprintf(buffer + buffered, "set %llx 0 0 %u noreply\r\n",
					    (unsigned long long)out[i], sizes[i]);
		memcpy(buffer + buffered, source, sizes[i]);
		buffered += sizes[i];
		memcpy(buffer + buffered, "\r\n", 2);
		buffered += 2;
	}
	return nr;
}

static void server_drop(const uint64_t *which, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr; i++) {
		server_room(64);
		buffered += (size_t)sprintf(buffer + buffered, "delete %llx noreply\r\n",
					    (unsigned long long)which[i]);
	}
}

/* Send a request that is answered; its answer comes after all earlier requests are done. */
static void server_finish(void)
{
	char answer[16];
	size_t got = 0;
	ssize_t ret;

	server_room(8);
	memcpy(buffer + buffered, "mn\r\n", 4);
	buffered += 4;
	server_flush();
	while (got < 4) {
		ret = read(server, answer + got, sizeof(answer) - got);
		if (ret <= 0)
			fail("memcached", ret ? errno : EPIPE);
		got += (size_t)ret;
	}
	if (memcmp(answer, "MN\r\n", 4))
		fail("memcached: an answer to what wants none", EPROTO);
}

static const struct keeper server_keeper = { server_put, server_drop, server_finish };

/* ---- Setting up --------------------------------------------------------- */

/* A number in kB from a file of /proc, in bytes. */
static uint64_t proc_bytes(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	unsigned long long value = 0;
	char line[128];

	if (!file)
		fail(path, errno);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			sscanf(line + strlen(name), " %llu", &value);
	fclose(file);
	return value << 10;
}

static void common_setup(const struct bench *bench)
{
	if (!bench->handles || bench->batch > BATCH_MAX)
		fail("-n OBJECTS, -b BATCH", EINVAL);
	source = get_memory(OBJECT_MAX, 64);
	max_objects = bench->handles;
	names = get_memory(max_objects * sizeof(*names), 4096);
	lengths = get_memory(max_objects * sizeof(*lengths), 4096);
}

static void destroy(void)
{
	store_destroy(&store);
}

static void store_setup(struct bench *bench)
{
	uint64_t before;
	int ret;

	common_setup(bench);
	keeper = &store_keeper;
	before = proc_bytes("/proc/meminfo", "MemFree:");
	ret = store_create(&store, bench->bytes, bench->handles, 0);
	if (ret)
		fail("store", -ret);
	atexit(destroy);
	taken = before - proc_bytes("/proc/meminfo", "MemFree:");
}

static void malloc_setup(struct bench *bench)
{
	common_setup(bench);
	keeper = &malloc_keeper;
	taken = proc_bytes("/proc/self/status", "VmRSS:");
}

static void server_setup(struct bench *bench)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	common_setup(bench);
	keeper = &server_keeper;
	buffer = get_memory(SERVER_BUFFER, 4096);
	if (!bench->path || strlen(bench->path) >= sizeof(address.sun_path))
		fail("-p SOCKET", EINVAL);
	strcpy(address.sun_path, bench->path);
	server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof(address)))
		fail(bench->path, errno);
}

/* ---- Orders ------------------------------------------------------------- */

/* Remove a random object from the list. Returns its name. */
static uint64_t choose_one(void)
{
	uint64_t nr = random_below(&state, nr_objects), name = names[nr];

	payload -= lengths[nr];
	nr_objects--;
	names[nr] = names[nr_objects];
	lengths[nr] = lengths[nr_objects];
	return name;
}

static void drop_to(const struct bench *bench, uint64_t objects, uint64_t bytes, uint32_t header)
{
	uint64_t which[BATCH_MAX];
	uint32_t nr;

	while (nr_objects && (nr_objects > objects || payload + nr_objects * header > bytes)) {
		for (nr = 0; nr < bench->batch && nr_objects &&
		     (nr_objects > objects || payload + nr_objects * header > bytes); nr++)
			which[nr] = choose_one();
		keeper->drop(which, nr);
	}
}

/* Allocate the objects of one call. False if there was no room for all. */
static bool put_some(const struct bench *bench, uint32_t low, uint32_t high, uint64_t live,
		     uint32_t header, uint64_t *bytes)
{
	uint32_t sizes[BATCH_MAX], nr, i, done;
	uint64_t sum = 0;

	for (nr = 0; nr < bench->batch; nr++) {
		sizes[nr] = low + random_below(&state, high - low + 1);
		sum += sizes[nr] + header;
	}
	drop_to(bench, max_objects - nr, live - sum, header);
	done = keeper->put(bench, sizes, nr, names + nr_objects);
	for (i = 0; i < done; i++) {
		lengths[nr_objects++] = sizes[i];
		payload += sizes[i];
		*bytes += sizes[i];
	}
	if (payload > most_payload)
		most_payload = payload;
	if (nr_objects > most_objects)
		most_objects = nr_objects;
	return done == nr;
}

static void answer(uint64_t allocated, uint64_t objects, uint64_t begin, bool full)
{
	printf("{\"allocated\": %llu, \"operations\": %llu, \"seconds\": %.6f, \"full\": %s, ",
	       (unsigned long long)allocated, (unsigned long long)objects,
	       (double)(now_ns() - begin) / 1e9, full ? "true" : "false");
	printf("\"payload\": %llu, \"objects\": %llu, \"most_payload\": %llu, \"most_objects\": %llu}\n",
	       (unsigned long long)payload, (unsigned long long)nr_objects,
	       (unsigned long long)most_payload, (unsigned long long)most_objects);
}

static void churn(const struct bench *bench, const double *arguments)
{
	uint32_t low = (uint32_t)arguments[0], high = (uint32_t)arguments[1];
	uint64_t live = (uint64_t)arguments[3], begin = now_ns(), bytes = 0, objects = 0;
	uint32_t header = (uint32_t)arguments[4];
	bool room = true;

	while (room && (double)bytes < arguments[2] &&
	       (double)(now_ns() - begin) < arguments[5] * 1e9) {
		room = put_some(bench, low, high, live, header, &bytes);
		objects += bench->batch;
	}
	if (keeper->finish)
		keeper->finish();
	answer(bytes, objects, begin, !room);
}

static void grow(const struct bench *bench, uint32_t low, uint32_t high)
{
	uint64_t begin = now_ns(), bytes = 0, before = nr_objects;
	bool room = true;

	while (room && nr_objects + bench->batch <= max_objects)
		room = put_some(bench, low, high, UINT64_MAX, 0, &bytes);
	answer(bytes, nr_objects - before, begin, !room);
}

static void memory(void)
{
	uint64_t bytes = taken;

	if (keeper == &malloc_keeper)
		bytes = proc_bytes("/proc/self/status", "VmHWM:") - taken;
	printf("{\"memory\": %llu}\n", (unsigned long long)bytes);
}

static bool churn_order(struct bench *bench, const char *verb, const double *arguments,
			unsigned int nr)
{
	use_cpu(0);
	if (!strcmp(verb, "churn") && nr == 6) {
		churn(bench, arguments);
	} else if (!strcmp(verb, "drop") && nr == 1) {
		drop_to(bench, nr_objects - nr_objects * (uint64_t)arguments[0] / 1000,
			UINT64_MAX, 0);
		if (keeper->finish)
			keeper->finish();
		answer(0, 0, now_ns(), false);
	} else if (!strcmp(verb, "grow") && nr == 2) {
		grow(bench, (uint32_t)arguments[0], (uint32_t)arguments[1]);
	} else if (!strcmp(verb, "memory") && !nr) {
		memory();
	} else if (!strcmp(verb, "store") && !nr) {
		printf("{\"store\": \"%s\"}\n", store.name);
	} else {
		return false;
	}
	return true;
}

const struct mode churn_modes[] = {
	{ "churn-store", store_setup, NULL, churn_order, false },
	{ "churn-malloc", malloc_setup, NULL, churn_order, false },
	{ "churn-memcached", server_setup, NULL, churn_order, false },
	{ 0 }
};
