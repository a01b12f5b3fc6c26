// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: large objects, and what crashes leave of them.
 *
 * The kernel is a table of objects, each as it is and as it is durable.  A crash comes before any change that a write
 * makes.  A crash of the writer leaves all that is done; one of the host leaves of each object what is durable or what
 * was done since, at random, as a log with several heads does.  Then the large object has all of the write or nothing,
 * and a sweep leaves no part over.  Instead of a crash another client can write, or sweep, at each change.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "fake.h"
#include "large.h"
#include "../common/tap.h"

#define OBJECTS		4096u
#define PART		4096u
#define LENGTH		(7 * PART + 100)
#define WRITES		60u
#define ROUNDS		100u

/* Bytes that are freed at the end of the test. */
struct payload {
	struct payload *next;
	uint8_t bytes[];
};

struct state {
	struct payload *payload;	/* NULL: there is no object */
	uint64_t version;
	uint32_t length;
	uint32_t table;
};

/**
 * struct kernel - objects
 * @lock: of all
 * @objects: as they are
 * @durable: as a crash leaves them at least
 * @nr: handles given out, from 1 on
 * @clock: the last version
 * @payloads: all that there were
 * @changes: since the beginning of a write
 * @stop_at: before this change: @stop()
 * @stop: NULL: a crash: this call, and all that follow, fail
 * @stop_read: before so many reads: @reader(); 0: never
 * @reader: another client
 * @dead: since @stop_at
 * @full: allocations fail after so many
 * @late: a durable change is made, and returns -ETIMEDOUT, if it is this one
 */
struct kernel {
	pthread_mutex_t lock;
	struct state objects[OBJECTS];
	struct state durable[OBJECTS];
	uint64_t nr;
	uint64_t clock;
	struct payload *payloads;
	unsigned int changes;
	unsigned int stop_at;
	void (*stop)(struct lsm *lsm);
	unsigned int stop_read;
	void (*reader)(struct lsm *lsm);
	bool dead;
	unsigned int full;
	unsigned int late;
};

static struct kernel kernel;
static struct lsm *store;
static uint64_t seed = 1;

static void set(struct state *state, const struct lsmem_op *op)
{
	struct payload *payload = malloc(sizeof(*payload) + op->length);

	if (!payload)
		abort();
	memcpy(payload->bytes, (void *)(uintptr_t)op->data, op->length);
	payload->next = kernel.payloads;
	kernel.payloads = payload;
	state->payload = payload;
	state->length = op->length;
	state->version = ++kernel.clock;
}

static int read_object(struct lsmem_op *op, const struct state *state)
{
	if (op->offset > state->length)
		return -EINVAL;
	if (op->length > state->length - op->offset)
		op->length = state->length - op->offset;
	memcpy((void *)(uintptr_t)op->data, state->payload->bytes + op->offset, op->length);
	op->version = state->version;
	op->object_length = state->length;
	op->table = state->table;
	return 0;
}

static int one(struct lsmem_op *op, uint32_t which)
{
	bool durable = op->flags & LSM_DURABLE;
	struct state *state;

	if (kernel.dead)
		return -EIO;
	if (which != LSMEM_OP_READ) {
		if (++kernel.changes == kernel.stop_at && !kernel.stop) {
			kernel.dead = true;
			return -EIO;
		}
		if (!op->length && which != LSMEM_OP_FREE)
			return -EINVAL;
	}
	if (which == LSMEM_OP_ALLOC) {
		if (!kernel.full || kernel.nr == OBJECTS - 1)
			return -ENOSPC;
		kernel.full--;
		op->handle = ++kernel.nr;
		kernel.objects[op->handle].table = op->table;
	} else if (!op->handle || op->handle > kernel.nr) {
		return -ENOENT;
	}
	state = &kernel.objects[op->handle];
	if (which != LSMEM_OP_ALLOC && !state->payload)
		return -ESTALE;
	if (which == LSMEM_OP_READ)
		return read_object(op, state);
	if (op->flags & LSM_EXPECT && op->version != state->version) {
		op->version = state->version;
		return -EILSEQ;
	}
	if (which == LSMEM_OP_FREE)
		state->payload = NULL;
	else
		set(state, op);
	op->version = state->version;
	if (!durable)
		return 0;
	if (kernel.changes == kernel.late)
		return -ETIMEDOUT;
	kernel.durable[op->handle] = *state;
	return 0;
}

/* Lets another client do something before the change that was chosen. */
static void interrupt(struct lsm *lsm, uint32_t changes)
{
	void (*stop)(struct lsm *lsm) = kernel.stop;

	if (!stop || kernel.changes >= kernel.stop_at || kernel.changes + changes < kernel.stop_at)
		return;
	kernel.stop = NULL;
	kernel.stop_at = 0;
	pthread_mutex_unlock(&kernel.lock);
	stop(lsm);
	pthread_mutex_lock(&kernel.lock);
}

static int call(struct lsm *lsm, unsigned long request, void *argument)
{
	struct lsmem_vector *vector = argument;
	struct lsmem_op *ops = request == LSMEM_IOC_VECTOR ? (void *)(uintptr_t)vector->ops : argument;
	int ret = 0;
	uint32_t i;

	pthread_mutex_lock(&kernel.lock);
	switch (request) {
	case LSMEM_IOC_VECTOR:
		interrupt(lsm, vector->nr);
		for (i = 0; i < vector->nr; i++)
			ops[i].result = one(&ops[i], ops[i].op);
		break;
	case LSMEM_IOC_READ:
		if (kernel.stop_read && !--kernel.stop_read) {
			pthread_mutex_unlock(&kernel.lock);
			kernel.reader(lsm);
			pthread_mutex_lock(&kernel.lock);
		}
		ret = one(ops, LSMEM_OP_READ);
		break;
	default:
		interrupt(lsm, 1);
		ret = one(ops, request == LSMEM_IOC_ALLOC ? LSMEM_OP_ALLOC :
			       request == LSMEM_IOC_FREE ? LSMEM_OP_FREE : LSMEM_OP_REPLACE);
	}
	pthread_mutex_unlock(&kernel.lock);
	return ret;
}

/* Forgets all objects. */
static void kernel_new(void)
{
	struct payload *next;

	while (kernel.payloads) {
		next = kernel.payloads->next;
		free(kernel.payloads);
		kernel.payloads = next;
	}
	kernel = (struct kernel){ .lock = PTHREAD_MUTEX_INITIALIZER, .full = ~0u };
}

/* The host has crashed, or, if not @host, the writer. */
static void crash(bool host)
{
	uint64_t i;

	kernel.dead = false;
	kernel.stop_at = 0;
	for (i = 1; host && i <= kernel.nr; i++)
		if (random_next(&seed) % 2)
			kernel.objects[i] = kernel.durable[i];
	memcpy(kernel.durable, kernel.objects, sizeof(kernel.durable));
}

/* Frees the orphans, as lsm_large_sweep() does.  Returns how many, or an error. */
static int sweep(struct lsm *lsm)
{
	struct lsm_large_part part;
	uint64_t i, nr = kernel.nr;
	int ret, found = 0;

	for (i = 1; i <= nr; i++) {
		if (lsm_read(lsm, i, &part, sizeof(part), 0, NULL) < (ssize_t)sizeof(part) ||
		    __le64_to_cpu(part.magic) != LSM_PART_MAGIC)
			continue;
		ret = lsm_large_orphan(lsm, i, &part);
		if (ret < 0)
			return ret;
		if (ret == 1) {
			ret = lsm_free(lsm, i, 0, NULL);
			if (ret && ret != -ESTALE)
				return ret;
			found++;
		}
	}
	return found;
}

/* How many objects there are. */
static unsigned int objects(void)
{
	unsigned int i, nr = 0;

	for (i = 1; i <= kernel.nr; i++)
		nr += !!kernel.objects[i].payload;
	return nr;
}

/* How many a large object takes. */
static unsigned int taken(uint64_t handle)
{
	struct lsm_large_index *index;
	struct lsm_object object;
	unsigned int nr = 1;
	uint64_t i;

	if (lsm_large_index_read(store, handle, &object, &index))
		return 0;
	for (i = 0; i < lsm_large_nr(__le64_to_cpu(index->length), __le32_to_cpu(index->part)); i++)
		nr += !!index->parts[i];
	free(index);
	return nr;
}

/* Does a large object have just these bytes? Reads all of them, and some pieces. */
static bool is(uint64_t handle, const uint8_t *bytes, size_t length)
{
	uint8_t *copy = malloc(length + 1);
	struct lsm_large large = { 0 };
	uint64_t offset;
	bool right;
	int i;

	right = copy && lsm_large_read(store, handle, copy, length + 1, 0, &large) == (ssize_t)length &&
		large.length == length && !memcmp(copy, bytes, length);
	for (i = 0; i < 5 && right; i++) {
		offset = random_next(&seed) % (length + 1);
		memset(copy, 0xee, length + 1);
		right = lsm_large_read(store, handle, copy, 3000, offset, NULL) ==
			(ssize_t)(length - offset < 3000 ? length - offset : 3000) &&
			!memcmp(copy, bytes + offset, length - offset < 3000 ? length - offset : 3000);
	}
	free(copy);
	return right;
}

static void fill(uint8_t *bytes, size_t length)
{
	size_t i;

	for (i = 0; i < length; i++)
		bytes[i] = (uint8_t)random_next(&seed);
}

/* A large object with @length bytes, which are at @bytes too. */
static uint64_t make(uint8_t *bytes, size_t length)
{
	uint64_t handle = 0;

	kernel_new();
	store->durable = LSM_DURABLE;
	fill(bytes, length);
	if (lsm_large_create(store, PART, LSM_TABLE(5), &handle) ||
	    (length && lsm_large_append(store, handle, bytes, length, 0, NULL, NULL)))
		abort();
	return handle;
}

/* ---- One client ------------------------------------------------------------- */

static void test_calls(void)
{
	static uint8_t bytes[LENGTH + 40 * PART], more[3 * PART];
	uint64_t handle, part, at = 0, version = 0, old;
	struct lsm_large_index *index = NULL;
	struct lsm_object object;
	struct lsm_large large;

	handle = make(bytes, 0);
	tap_ok(is(handle, bytes, 0), "a new one is empty");
	memset(bytes, 0, sizeof(bytes));
	fill(bytes, 10);
	tap_is(lsm_large_append(store, handle, bytes, 10, 0, &at, &version), 0, "append");
	tap_ok(is(handle, bytes, 10) && at == 0 && version == kernel.objects[handle].version, "append: where");
	fill(bytes + 10, PART);
	tap_is(lsm_large_append(store, handle, bytes + 10, PART, 0, &at, NULL), 0, "append: into the next part");
	tap_ok(is(handle, bytes, PART + 10) && at == 10 && taken(handle) == 3, "append: it is");
	old = version;
	tap_is(lsm_large_write(store, handle, more, 1, 0, LSM_EXPECT, &old), -EILSEQ, "another version is expected");
	version = kernel.objects[handle].version;
	tap_is(old, version, "which one is present");
	fill(bytes + 20 * PART + 5, 7);
	tap_is(lsm_large_write(store, handle, bytes + 20 * PART + 5, 7, 20 * PART + 5, LSM_EXPECT, &version), 0,
	       "write: far behind the end");
	tap_ok(is(handle, bytes, 20 * PART + 12) && taken(handle) == 4, "write: a hole takes nothing");
	fill(bytes + 5 * PART + 100, 50);
	tap_is(lsm_large_write(store, handle, bytes + 5 * PART + 100, 50, 5 * PART + 100, 0, NULL), 0, "write: into it");
	tap_ok(is(handle, bytes, 20 * PART + 12), "write: it is there");
	fill(bytes + 20, 2);
	tap_is(lsm_large_write(store, handle, bytes + 20, 2, 20, 0, NULL), 0, "write: inside a part");
	tap_ok(is(handle, bytes, 20 * PART + 12), "write: the rest is as it was");
	tap_is(objects(), taken(handle), "old parts are freed");
	tap_is(lsm_large_read(store, handle, NULL, 0, 0, &large), 0, "attributes");
	tap_ok(large.length == 20 * PART + 12 && large.part == PART && large.table == 5 &&
	       large.version == kernel.objects[handle].version, "attributes: which");
	tap_is(kernel.objects[kernel.nr].table, 5, "parts are of its table");
	tap_is(lsm_large_read(store, handle, more, 1, 20 * PART + 13, NULL), -EINVAL, "read: behind the end");
	tap_is(lsm_large_read(store, handle, more, 1, 20 * PART + 12, NULL), 0, "read: at the end");
	tap_is(lsm_large_write(store, handle, more, 1, LSM_LARGE_PARTS * PART, 0, NULL), -EFBIG, "write: beyond");
	tap_is(lsm_large_write(store, handle, more, 2, LSM_LARGE_PARTS * PART - 1, 0, NULL), -EFBIG, "write: across");
	tap_is(lsm_large_write(store, handle, more, 1, ~0ull, 0, NULL), -EFBIG, "write: far beyond");
	tap_is(lsm_large_write(store, handle, more, 0, 0, 0, NULL), -EINVAL, "write: nothing");
	tap_is(lsm_large_write(store, handle, more, 1, 0, LSM_DURABLE, NULL), -EINVAL, "write: another flag");
	tap_is(lsm_large_write(store, handle, more, 1, 0, LSM_EXPECT, NULL), -EINVAL, "write: no version");
	kernel.full = 2;
	tap_is(lsm_large_write(store, handle, more, 3 * PART, 100, 0, NULL), -ENOSPC, "write: the store is full");
	kernel.full = ~0u;
	tap_ok(is(handle, bytes, 20 * PART + 12) && objects() == taken(handle), "write: nothing is changed or left");
	part = lsm_large_index_read(store, handle, &object, &index) ? 0 : __le64_to_cpu(index->parts[0]);
	free(index);
	tap_is(lsm_large_write(store, part, more, 1, 0, 0, NULL), -EBADMSG, "a part is no large object");
	tap_is(lsm_large_read(store, part, more, 1, 0, NULL), -EBADMSG, "read: likewise");
	version = 1;
	tap_is(lsm_large_free(store, handle, LSM_EXPECT, &version), -EILSEQ, "free: another version");
	tap_is(lsm_large_free(store, handle, LSM_EXPECT, &version), 0, "free: the present one");
	tap_is(objects(), 0, "free: all is");
	tap_is(lsm_large_read(store, handle, more, 1, 0, NULL), -ESTALE, "read: it was freed");
	tap_is(lsm_large_create(store, LSM_LARGE_PART_MIN - 1, 0, &handle), -EINVAL, "create: parts too short");
	tap_is(lsm_large_create(store, LSM_LARGE_PART_MAX + 1, 0, &handle), -EINVAL, "create: parts too long");
	tap_is(lsm_large_create(store, 0, LSM_EXPECT, &handle), -EINVAL, "create: a flag");
	tap_is(lsm_large_create(store, LSM_LARGE_PART_MAX, 0, &handle), 0, "create: the longest parts");
}

static void test_broken(void)
{
	static uint8_t bytes[LENGTH], one_byte;
	uint64_t handle = make(bytes, LENGTH);

	lsm_free(store, handle + 3, 0, NULL);
	tap_is(lsm_large_read(store, handle, bytes, LENGTH, 0, NULL), -EUCLEAN, "a part is missing: read");
	tap_is(lsm_large_write(store, handle, &one_byte, 1, 2 * PART + 9, 0, NULL), -EUCLEAN, "a part is missing: write");
	tap_is(lsm_large_read(store, handle, bytes, PART, 0, NULL), PART, "others are there");
	handle = make(bytes, LENGTH);
	kernel.late = kernel.changes + 2;
	tap_is(lsm_large_write(store, handle, bytes, 2 * PART, 0, 0, NULL), -EBUSY, "new parts are not durable in time");
	tap_ok(is(handle, bytes, LENGTH) && objects() == taken(handle), "nothing is changed or left");
	kernel.late = kernel.changes + 2;
	bytes[0]++;
	tap_is(lsm_large_write(store, handle, bytes, 1, 0, 0, NULL), -ETIMEDOUT, "the index object is not");
	tap_ok(is(handle, bytes, LENGTH) && objects() == taken(handle) + 1, "it is changed, and the old part is kept");
	tap_is(sweep(store), 1, "a sweep frees it");
}

/* ---- Crashes ---------------------------------------------------------------- */

static void test_crashes(bool host)
{
	static uint8_t before[2 * LENGTH], after[2 * LENGTH];
	unsigned int i, stop, crashes = 0, news = 0;
	size_t offset, length, end;
	bool right = true, over, old;
	uint64_t handle;
	int ret;

	for (i = 0; i < WRITES && right; i++) {
		over = false;
		for (stop = 1; !over && right; stop++) {
			memset(before, 0, sizeof(before));
			handle = make(before, LENGTH);
			crash(true);
			offset = random_next(&seed) % (LENGTH + PART);
			length = 1 + random_next(&seed) % (4 * PART);
			end = offset + length > LENGTH ? offset + length : LENGTH;
			memcpy(after, before, sizeof(after));
			fill(after + offset, length);
			kernel.changes = 0;
			kernel.stop_at = stop;
			ret = lsm_large_write(store, handle, after + offset, length, offset, 0, NULL);
			over = !kernel.dead;
			crashes += kernel.dead;
			crash(host);
			old = is(handle, before, LENGTH);
			/* If the crash comes while old parts are freed, the write has succeeded. */
			right = old ? ret < 0 : is(handle, after, end);
			news += !old;
			right = right && sweep(store) >= 0 && objects() == taken(handle) &&
				is(handle, old ? before : after, old ? LENGTH : end);
		}
	}
	tap_ok(right && crashes > WRITES && news > WRITES / 2, "crashes of the %s: all or nothing, and no part is left (%u, %u new)",
	       host ? "host" : "writer", crashes, news);
}

static void test_crashes_free(void)
{
	static uint8_t bytes[LENGTH];
	bool right = true, over = false;
	unsigned int stop, i;
	uint64_t handle;

	for (i = 0; i < 10; i++, over = false) {
		for (stop = 1; !over && right; stop++) {
			handle = make(bytes, LENGTH);
			crash(true);
			kernel.changes = 0;
			kernel.stop_at = stop;
			lsm_large_free(store, handle, 0, NULL);
			over = !kernel.dead;
			crash(true);
			right = !kernel.objects[handle].payload || is(handle, bytes, LENGTH);
			right = right && sweep(store) >= 0 && objects() == taken(handle);
		}
	}
	tap_ok(right && stop > 8, "crashes while it is freed: whole or gone, and no part is left");
}

/* ---- Other clients ------------------------------------------------------------ */

static uint64_t shared;
static int shared_error;

static void write_too(struct lsm *lsm)
{
	shared_error = lsm_large_write(lsm, shared, "rival", 5, 2 * PART - 2, 0, NULL);
}

static void sweep_too(struct lsm *lsm)
{
	int ret = sweep(lsm);

	shared_error = ret < 0 ? ret : 0;
}

static void free_too(struct lsm *lsm)
{
	shared_error = lsm_large_free(lsm, shared, 0, NULL);
}

static void test_rivals(void (*rival)(struct lsm *lsm), const char *what)
{
	static uint8_t bytes[LENGTH], mine[3 * PART];
	unsigned int stop;
	bool right = true, met = true, frees = rival == free_too;
	int ret;

	for (stop = 1; met && right; stop++) {
		shared = make(bytes, LENGTH);
		fill(mine, sizeof(mine));
		kernel.changes = 0;
		kernel.stop_at = stop;
		kernel.stop = rival;
		shared_error = 0;
		ret = lsm_large_write(store, shared, mine, sizeof(mine), 3 * PART + 1, 0, NULL);
		met = !kernel.stop;
		kernel.stop = NULL;
		kernel.stop_at = 0;
		memcpy(bytes + 3 * PART + 1, mine, sizeof(mine));
		if (met && rival == write_too)
			memcpy(bytes + 2 * PART - 2, "rival", 5);
		if (met && frees)
			right = (!ret || ret == -ESTALE) && !shared_error && sweep(store) >= 0 && !objects();
		else
			right = !ret && !shared_error && is(shared, bytes, LENGTH) && objects() == taken(shared);
	}
	tap_ok(right && stop > 6, "another client %s at each change", what);
}

static void test_readers(void (*rival)(struct lsm *lsm), const char *what)
{
	static uint8_t bytes[LENGTH], now[LENGTH], copy[LENGTH];
	bool right = true, met = true, old;
	struct lsm_large large = { 0 };
	unsigned int stop;
	uint64_t version;
	ssize_t got;

	for (stop = 1; met && right; stop++) {
		shared = make(bytes, LENGTH);
		memcpy(now, bytes, LENGTH);
		memcpy(now + 2 * PART - 2, "rival", 5);
		kernel.stop_read = stop;
		kernel.reader = rival;
		shared_error = 0;
		version = kernel.objects[shared].version;
		got = lsm_large_read(store, shared, copy, LENGTH, 0, &large);
		met = !kernel.stop_read;
		kernel.stop_read = 0;
		old = got == LENGTH && large.version == version;
		if (got == -ESTALE)
			right = met && rival == free_too;
		else
			right = got == LENGTH && !memcmp(copy, old ? bytes : now, LENGTH);
		right = right && !shared_error;
	}
	tap_ok(right && stop > 9, "another client %s while it is read", what);
}

struct client {
	pthread_t thread;
	uint8_t id;
	bool failed;
};

static void *write_whole(void *argument)
{
	struct client *client = argument;
	uint8_t bytes[3 * PART];
	unsigned int i;

	memset(bytes, client->id, sizeof(bytes));
	for (i = 0; i < ROUNDS && !client->failed; i++)
		client->failed = lsm_large_write(store, shared, bytes, sizeof(bytes), PART / 2, 0, NULL);
	return NULL;
}

static void *read_whole(void *argument)
{
	struct client *client = argument;
	uint8_t bytes[3 * PART];
	unsigned int i, j;

	for (i = 0; i < ROUNDS && !client->failed; i++) {
		client->failed = lsm_large_read(store, shared, bytes, sizeof(bytes), PART / 2, NULL) != sizeof(bytes);
		for (j = 1; j < sizeof(bytes); j++)
			client->failed = client->failed || bytes[j] != bytes[0];
	}
	return NULL;
}

static void *sweep_whole(void *argument)
{
	struct client *client = argument;
	struct lsm_large_part part;
	unsigned int i;

	for (i = 1; i < 3 * ROUNDS; i++)
		if (lsm_read(store, i, &part, sizeof(part), 0, NULL) == sizeof(part) &&
		    __le64_to_cpu(part.magic) == LSM_PART_MAGIC && lsm_large_orphan(store, i, &part) == 1)
			lsm_free(store, i, 0, NULL);
	client->failed = false;
	return NULL;
}

static void test_threads(void)
{
	void *(*const calls[])(void *) = { write_whole, write_whole, read_whole, sweep_whole };
	static uint8_t bytes[LENGTH];
	struct client clients[4];
	bool failed = false;
	unsigned int i;

	shared = make(bytes, LENGTH);
	memset(bytes, 9, sizeof(bytes));
	failed = lsm_large_write(store, shared, bytes, LENGTH, 0, 0, NULL);
	for (i = 0; i < 4; i++) {
		clients[i] = (struct client){ .id = (uint8_t)i };
		failed = pthread_create(&clients[i].thread, NULL, calls[i], &clients[i]) || failed;
	}
	for (i = 0; i < 4; i++) {
		pthread_join(clients[i].thread, NULL);
		failed = failed || clients[i].failed;
	}
	tap_ok(!failed, "threads write, read and sweep: each read is of one write");
	tap_is(sweep(store), 0, "and no part is left");
}

int main(void)
{
	struct fake *fake = fake_new();

	/* The windows of the stand-in show no objects, so all calls come to the table. */
	store = fake->lsm;
	store->call = call;
	test_calls();
	test_broken();
	test_crashes(false);
	test_crashes(true);
	test_crashes_free();
	test_rivals(write_too, "writes");
	test_rivals(sweep_too, "sweeps");
	test_rivals(free_too, "frees");
	test_readers(write_too, "writes");
	test_readers(free_too, "frees");
	test_threads();
	kernel_new();
	fake_delete(fake);
	return tap_end();
}
