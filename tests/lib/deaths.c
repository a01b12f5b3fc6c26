// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: a client that is killed at any step of a call; tables with keys, groups of keys, and roots.
 *
 * A step is a call of the kernel, or a store to the shared memory of an index (steps.h).  The kernel is a table of
 * objects in memory that processes share.  A process makes a call, and is killed before its first step, then before its
 * second, and so on until the call ends.  Each time another client, which had the tables open, or opens them then, goes
 * on: what the call changes is there or not, of a group all or nothing; the tables have these keys and no others, by
 * the index and by the objects; and it can change them all.
 *
 * Of roots another client changes one at each step, too, and neither change is lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "table.h"
#include "../common/tap.h"

#define OBJECTS		128u
#define BYTES_MAX	256u
#define TABLES		2u
#define FIRST_TABLE	7u
#define KEYS		16u	/* of each table: all of one stripe, so that it grows */
#define THERE		5u	/* of them are there at the beginning: one more makes the stripe grow */
#define KEY_BYTES	16u
#define ROOTS		3u
#define OBJECT_TABLE	1u
#define STEPS_MOST	2000u

/* ---- The kernel ------------------------------------------------------------------ */

struct object {
	bool there;
	uint32_t generation;
	uint32_t table;
	uint32_t length;
	uint64_t version;
	uint8_t bytes[BYTES_MAX];
};

/* @objects: those of the reserved indices are last. */
struct kernel {
	struct lsmem_handle handles[OBJECTS];
	struct object objects[OBJECTS + LSMEM_RESERVED];
	uint64_t clock;
};

static struct kernel *kernel, *kernel_before;
static int memories[TABLES];
static uint8_t *memory_before[TABLES];
static off_t memory_bytes[TABLES];

/* Of this process: the steps that it has made; before which it dies, or another client does something; 0: none */
static unsigned int steps, die_at, other_at;
static void (*other)(void);

void step(void)
{
	steps++;
	if (steps == die_at)
		kill(getpid(), SIGKILL);
	if (steps == other_at)
		other();
}

static void set(struct object *object, const struct lsmem_op *op)
{
	if (op->length > BYTES_MAX)
		abort();
	memcpy(object->bytes, (void *)(uintptr_t)op->data, op->length);
	object->length = op->length;
	object->there = true;
}

static uint32_t free_object(void)
{
	uint32_t i;

	for (i = 0; i < OBJECTS && kernel->objects[i].there; i++)
		;
	return i;
}

static void show(uint32_t index)
{
	if (index < OBJECTS)
		kernel->handles[index].word = (uint64_t)(kernel->objects[index].there ? LSMEM_WORD_COLD : LSMEM_WORD_FREE) <<
					      LSMEM_WORD_STATE_SHIFT;
}

static int read_object(struct lsmem_op *op, const struct object *object, uint32_t index)
{
	if (op->offset > object->length)
		return -EINVAL;
	op->handle = lsmem_handle_make(index, object->generation);
	op->version = object->version;
	op->table = object->table;
	op->object_length = object->length;
	if (op->length > object->length - op->offset)
		op->length = object->length - op->offset;
	memcpy((void *)(uintptr_t)op->data, object->bytes + op->offset, op->length);
	return 0;
}

/* The object of an operation.  Return: 0; or a negative errno. */
static int find(const struct lsmem_op *op, uint32_t which, uint32_t *index)
{
	bool by_index = op->flags & LSMEM_OPF_INDEX;

	if (which == LSMEM_OP_ALLOC) {
		*index = by_index ? (uint32_t)op->handle : free_object();
		if (by_index && kernel->objects[*index].there)
			return -EEXIST;
		return *index == OBJECTS && !by_index ? -ENOSPC : 0;
	}
	*index = (uint32_t)lsmem_handle_index(op->handle);
	if (*index >= OBJECTS + LSMEM_RESERVED)
		return -ENOENT;
	if (by_index)
		return kernel->objects[*index].there ? 0 : -ENOENT;
	return kernel->objects[*index].there &&
	       kernel->objects[*index].generation == lsmem_handle_generation(op->handle) ? 0 : -ESTALE;
}

static int one(struct lsmem_op *op, uint32_t which, bool only_look)
{
	struct object *object;
	uint32_t index;
	int ret = find(op, which, &index);

	if (ret)
		return ret;
	object = &kernel->objects[index];
	if (which == LSMEM_OP_READ)
		return read_object(op, object, index);
	if (which != LSMEM_OP_ALLOC && op->flags & LSM_EXPECT && op->version != object->version) {
		op->version = object->version;
		return -EILSEQ;
	}
	if (only_look || which == LSMEM_OP_CHECK) {
		op->version = object->version;
		return 0;
	}
	if (which == LSMEM_OP_FREE) {
		object->there = false;
	} else {
		if (which == LSMEM_OP_ALLOC) {
			object->generation++;
			object->table = op->table;
			op->handle = lsmem_handle_make(index, object->generation);
		}
		set(object, op);
	}
	op->version = object->version = ++kernel->clock;
	show(index);
	return 0;
}

static int vector(struct lsmem_vector *vector)
{
	struct lsmem_op *ops = (void *)(uintptr_t)vector->ops;
	bool group = vector->flags & LSM_ATOMIC;
	uint32_t i;
	int ret = 0;

	for (i = 0; group && i < vector->nr && !ret; i++)
		ret = ops[i].result = one(&ops[i], ops[i].op, true);
	for (i = 0; i < vector->nr && !ret; i++) {
		if (!group && i)
			step();
		ops[i].result = one(&ops[i], ops[i].op, false);
	}
	return ret;
}

static int shared_memory(struct lsmem_shared *shared)
{
	int memory = memories[shared->id - FIRST_TABLE];
	char path[40];

	if (shared->bytes && ftruncate(memory, (off_t)shared->bytes))
		return -errno;
	shared->bytes = (uint64_t)lseek(memory, 0, SEEK_END);
	/* A file description of its own. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", memory);
	shared->fd = open(path, O_RDWR | O_CLOEXEC);
	return shared->fd < 0 ? -errno : 0;
}

static int call(struct lsm *lsm, unsigned long request, void *argument)
{
	struct lsmem_query *query = argument;

	(void)lsm;
	step();
	switch (request) {
	case LSMEM_IOC_QUERY:
		query->features = LSMEM_FEATURE_SHARED | LSMEM_FEATURE_INDEX;
		query->handles_max = OBJECTS;
		return 0;
	case LSMEM_IOC_SHARED:
		return shared_memory(argument);
	case LSMEM_IOC_VECTOR:
		return vector(argument);
	case LSMEM_IOC_ALLOC:
		return one(argument, LSMEM_OP_ALLOC, false);
	case LSMEM_IOC_REPLACE:
		return one(argument, LSMEM_OP_REPLACE, false);
	case LSMEM_IOC_FREE:
		return one(argument, LSMEM_OP_FREE, false);
	case LSMEM_IOC_READ:
		return one(argument, LSMEM_OP_READ, false);
	default:
		return -ENOTTY;
	}
}

/* ---- Clients --------------------------------------------------------------------- */

struct client {
	struct lsm *lsm;
	struct lsm_table *tables[TABLES];
};

static bool open_client(struct client *client)
{
	static uint64_t epoch;
	static uint8_t seglets[LSMEM_SEGLET_BYTES];
	static struct lsmem_seglet seglet_table;
	struct lsmem_info info = {
		.magic = LSMEM_INFO_MAGIC, .abi = LSMEM_ABI, .compat = LSMEM_ABI, .length = sizeof(info),
		.kind = LSMEM_KIND_OBJECT, .nr_seglets = 1, .nr_handles = OBJECTS, .view_ms = 1000, .epoch = 1,
		.seglets.length = sizeof(seglets), .seglet_table.length = sizeof(seglet_table),
		.handles.length = sizeof(kernel->handles),
	};
	struct lsm_memory memory = { .info = &info, .epoch = (void *)&epoch, .seglets = seglets,
				     .seglet_table = &seglet_table, .handles = kernel->handles };
	uint32_t i;

	CHECK(!lsm_from_memory(&memory, 64, call, NULL, &client->lsm));
	client->lsm->group_max = 64;
	for (i = 0; i < TABLES; i++)
		CHECK(!lsm_table_open(client->lsm, FIRST_TABLE + i, 0, &client->tables[i]));
	return true;
}

static void close_client(struct client *client)
{
	uint32_t i;

	for (i = 0; i < TABLES; i++)
		lsm_table_close(client->tables[i]);
	lsm_close(client->lsm);
}

/* ---- What is there --------------------------------------------------------------- */

/* Names of keys: with KEYS of each table in the stripe of the first.  Values: 0: the key is not there */
static char keys[TABLES][KEYS][KEY_BYTES];
static uint64_t object;		/* its handle */

struct values {
	uint64_t of_keys[TABLES][KEYS];
	uint64_t of_object;
	uint64_t of_roots[ROOTS];
};

static bool put(const struct client *client, uint32_t table, uint32_t key, uint64_t value, unsigned int flags)
{
	CHECK(!lsm_table_put(client->tables[table], keys[table][key], strlen(keys[table][key]), &value, sizeof(value),
			     flags, NULL));
	return true;
}

static const char *root_name(uint32_t root, char *name)
{
	sprintf(name, "root %u", root);
	return name;
}

static bool look(const struct client *client, struct values *values)
{
	char name[KEY_BYTES];
	uint32_t table, key, root;
	ssize_t ret;

	memset(values, 0, sizeof(*values));
	for (table = 0; table < TABLES; table++) {
		for (key = 0; key < KEYS; key++) {
			ret = lsm_table_get(client->tables[table], keys[table][key], strlen(keys[table][key]),
					    &values->of_keys[table][key], sizeof(uint64_t), NULL);
			CHECK(ret == sizeof(uint64_t) || ret == -ENOENT);
		}
	}
	CHECK(lsm_read(client->lsm, object, &values->of_object, sizeof(uint64_t), 0, NULL) == sizeof(uint64_t));
	for (root = 0; root < ROOTS; root++) {
		ret = lsm_root_get(client->lsm, root_name(root, name), &values->of_roots[root]);
		CHECK(!ret || ret == -ENOENT);
	}
	return true;
}

static bool fill(const struct client *client)
{
	uint64_t first = 1;
	uint32_t table, key, found;
	char name[KEY_BYTES];

	for (table = 0; table < TABLES; table++) {
		const struct lsm_index *index = client->tables[table]->index;
		uint32_t number, stripe = 0;

		for (number = found = 0; found < KEYS; number++) {
			sprintf(name, "key %u", number);
			if (!found)
				stripe = lsm_stripe_of(lsm_index_hash(index, name, strlen(name)));
			if (lsm_stripe_of(lsm_index_hash(index, name, strlen(name))) == stripe)
				strcpy(keys[table][found++], name);
		}
		for (key = 0; key < THERE; key++)
			CHECK(put(client, table, key, 100 + key, LSM_NEW));
	}
	CHECK(!lsm_alloc(client->lsm, &first, sizeof(first), LSM_TABLE(OBJECT_TABLE), &object, NULL));
	CHECK(!lsm_root_set(client->lsm, "root 0", 100, 0, NULL));
	return !lsm_root_set(client->lsm, "root 1", 100, 0, NULL);
}

/* Every object of a table is an item, which the index finds; and there are so many. */
static bool exact(const struct client *client)
{
	uint32_t table, i, items, listed;
	struct lsm_table_stat stat;
	struct lsm_item item;
	size_t length;
	char name[KEY_BYTES];
	uint64_t cursor;
	int ret;

	for (table = 0; table < TABLES; table++) {
		struct lsm_table *at = client->tables[table];

		for (i = items = 0; i < OBJECTS; i++)
			items += kernel->objects[i].there && kernel->objects[i].table == FIRST_TABLE + table;
		for (cursor = 0, listed = 0;; listed++) {
			length = sizeof(name);
			ret = lsm_table_next(at, &cursor, name, &length, NULL, 0, &item);
			if (ret <= 0)
				break;
			i = (uint32_t)lsmem_handle_index(item.handle);
			CHECK(length < sizeof(name) && lsm_table_get(at, name, length, NULL, 0, &item) == 0);
			CHECK(lsmem_handle_index(item.handle) == i);
		}
		CHECK(!ret && listed == items);
		CHECK(!lsm_table_stat(at, &stat) && stat.items == items);
	}
	return true;
}

/* This client can change every key, and has no lock left after that. */
static bool changes_all(const struct client *client)
{
	const struct lsm_index *index;
	uint32_t table, key, i;
	uint64_t value;
	char name[KEY_BYTES];

	for (table = 0; table < TABLES; table++) {
		struct lsm_table *at = client->tables[table];

		for (key = 0; key < KEYS; key++) {
			size_t length = strlen(keys[table][key]);

			CHECK(put(client, table, key, 1000 + key, 0));
			CHECK(lsm_table_get(at, keys[table][key], length, &value, sizeof(value), NULL) == sizeof(value));
			CHECK(value == 1000 + key);
			CHECK(!lsm_table_remove(at, keys[table][key], length, 0, NULL));
			CHECK(lsm_table_get(at, keys[table][key], length, NULL, 0, NULL) == -ENOENT);
			CHECK(key % 2 || put(client, table, key, 2000 + key, LSM_NEW));
		}
		index = at->index;
		CHECK(!(uint32_t)index->header->lock);
		for (i = 0; i < LSM_STRIPES; i++)
			CHECK(!(uint32_t)index->stripes[i].lock && !(index->stripes[i].shape & 1));
	}
	for (i = 0; i < ROOTS; i++) {
		CHECK(!lsm_root_set(client->lsm, root_name(i, name), 3000 + i, 0, NULL));
		CHECK(!lsm_root_get(client->lsm, name, &value) && value == 3000 + i);
	}
	return exact(client);
}

/* ---- The calls ------------------------------------------------------------------- */

/* Each returns what the library does. */
static int add_key(const struct client *client)
{
	return put(client, 0, THERE, 1, LSM_NEW) ? 0 : -1;
}

static int replace_key(const struct client *client)
{
	return put(client, 0, 1, 2, LSM_OLD) ? 0 : -1;
}

static int remove_key(const struct client *client)
{
	return lsm_table_remove(client->tables[0], keys[0][1], strlen(keys[0][1]), 0, NULL);
}

static int put_many(const struct client *client)
{
	static const uint32_t which[] = { 2, THERE, THERE + 1, 3, THERE + 2 };
	struct lsm_put puts[5] = { { 0 } };
	uint64_t value = 4;
	uint32_t i;

	for (i = 0; i < 5; i++)
		puts[i] = (struct lsm_put){ .key = keys[0][which[i]], .key_length = strlen(keys[0][which[i]]),
					    .value = &value, .length = sizeof(value) };
	return lsm_table_put_many(client->tables[0], puts, 5, 0);
}

static int change_group(const struct client *client)
{
	static const struct {
		uint32_t op, table, key;
	} changes[] = {
		{ LSM_ITEM_PUT, 0, THERE }, { LSM_ITEM_PUT, 0, 2 }, { LSM_ITEM_REMOVE, 0, 3 }, { LSM_ITEM_CHECK, 0, 4 },
		/* In the other table the lock is that of keys that come. */
		{ LSM_ITEM_PUT, 1, THERE }, { LSM_ITEM_PUT, 1, THERE + 1 }, { LSM_ITEM_PUT, 1, 0 },
	};
	struct lsm_item_op items[7];
	struct lsmem_op op;
	uint64_t value = 5;
	uint32_t i;

	for (i = 0; i < 7; i++) {
		const char *key = keys[changes[i].table][changes[i].key];

		items[i] = (struct lsm_item_op){ .table = client->tables[changes[i].table], .op = changes[i].op,
						 .key = key, .key_length = strlen(key) };
		if (changes[i].op == LSM_ITEM_PUT) {
			items[i].value = &value;
			items[i].length = sizeof(value);
		}
	}
	op = lsm_op_replace(object, &value, sizeof(value), 0, 0);
	return lsm_table_group(client->lsm, items, 7, &op, 1, 0);
}

/* A key that the group before was adding: its stripe is locked. */
static int put_added(const struct client *client)
{
	return put(client, 0, THERE, 6, 0) ? 0 : -1;
}

static int change_root(const struct client *client)
{
	const uint64_t expected = 100;

	return lsm_root_set(client->lsm, "root 0", 6, 0, &expected);
}

static int add_root(const struct client *client)
{
	return lsm_root_set(client->lsm, "root 2", 7, 0, NULL);
}

static int remove_root(const struct client *client)
{
	return lsm_root_set(client->lsm, "root 1", 0, 0, NULL);
}

/* The death of another client, in a group, that comes before a call: before and after the kernel has made it */
enum first { NONE, UNMADE, MADE };

/* @several: each of its changes is there or not */
static const struct {
	const char *name;
	int (*call)(const struct client *client);
	bool several;
	enum first first;
} calls[] = {
	{ "a key that comes", add_key, false, NONE },
	{ "a key with a new value", replace_key, false, NONE },
	{ "a key that goes", remove_key, false, NONE },
	{ "several keys", put_many, true, NONE },
	{ "a group of keys", change_group, false, NONE },
	{ "a key of a group that a dead client was about to make", put_added, false, UNMADE },
	{ "a key of a group that a dead client has made", put_added, false, MADE },
	{ "a root that changes", change_root, false, NONE },
	{ "a root that comes", add_root, false, NONE },
	{ "a root that goes", remove_root, false, NONE },
};

/* Does a store, which was as @before, show a call that makes it as @after, or a part of it if it is @several? */
static bool permitted(const struct values *before, const struct values *after, const struct values *found, bool several)
{
	const uint64_t *old = (const void *)before, *new = (const void *)after, *is = (const void *)found;
	size_t i;

	if (!several)
		return !memcmp(before, found, sizeof(*found)) || !memcmp(after, found, sizeof(*found));
	for (i = 0; i < sizeof(*found) / sizeof(*is); i++)
		if (is[i] != old[i] && is[i] != new[i])
			return false;
	return true;
}

/* ---- Deaths ---------------------------------------------------------------------- */

static bool save(void)
{
	uint32_t i;

	memcpy(kernel_before, kernel, sizeof(*kernel));
	for (i = 0; i < TABLES; i++) {
		memory_bytes[i] = lseek(memories[i], 0, SEEK_END);
		memory_before[i] = malloc((size_t)memory_bytes[i]);
		CHECK(memory_before[i] && pread(memories[i], memory_before[i], (size_t)memory_bytes[i], 0) == memory_bytes[i]);
	}
	return true;
}

static bool restore(void)
{
	uint32_t i;

	memcpy(kernel, kernel_before, sizeof(*kernel));
	for (i = 0; i < TABLES; i++)
		CHECK(pwrite(memories[i], memory_before[i], (size_t)memory_bytes[i], 0) == memory_bytes[i]);
	return true;
}

/* A client makes a call, and is killed before step @at of it.  Return: 1: it was; 0: the call has ended; -1: failed. */
static int killed(int (*make)(const struct client *client), unsigned int at)
{
	struct client mine;
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (!open_client(&mine))
			_exit(1);
		steps = 0;
		die_at = at;
		status = make(&mine);
		die_at = 0;
		_exit(status ? 1 : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGKILL ? 1 : -1;
	return WEXITSTATUS(status) ? -1 : 0;
}

/* The step before which a group is killed for @first; 0: none is. */
static bool first_step(const struct client *there, enum first first, unsigned int *step_of)
{
	struct values before, found;
	unsigned int at = 1;

	*step_of = 0;
	if (first == NONE)
		return true;
	CHECK(restore() && look(there, &before));
	do {
		CHECK(restore() && at < STEPS_MOST && killed(change_group, at++) == 1);
		CHECK(look(there, &found));
	} while (!memcmp(&before, &found, sizeof(found)));
	*step_of = at - 1 - (first == UNMADE);
	return true;
}

/*
 * The store as it is before a call.  The client that dies first has not the number that the next one gets, which would
 * take its locks when it opens the tables.
 */
static bool prepare(unsigned int first)
{
	struct client lower;

	CHECK(restore());
	if (!first)
		return true;
	CHECK(open_client(&lower));
	CHECK(killed(change_group, first) == 1);
	close_client(&lower);
	return true;
}

/* What goes on after a death: a client that was there or a new one, which looks first, or changes keys first. */
static bool goes_on(const struct client *there, const struct values *before, const struct values *after, size_t which,
		    unsigned int mode)
{
	struct values found;
	struct client new;
	const struct client *client = there;

	if (mode & 1) {
		CHECK(open_client(&new));
		client = &new;
	}
	if (mode & 2) {
		CHECK(look(client, &found));
		CHECK(permitted(before, after, &found, calls[which].several));
		/* And so it stays, but for what no client can see until it has the lock. */
		CHECK(look(client, &found));
		CHECK(permitted(before, after, &found, calls[which].several));
	}
	CHECK(changes_all(client));
	if (mode & 1)
		close_client(&new);
	return true;
}

static bool dies(const struct client *there, size_t which, unsigned int *died)
{
	struct values before, after;
	unsigned int at, first, mode;
	int ret = 1;

	CHECK(first_step(there, calls[which].first, &first));
	CHECK(prepare(first) && look(there, &before));
	CHECK(!calls[which].call(there) && look(there, &after));
	CHECK(memcmp(&before, &after, sizeof(after)));
	for (at = 1; ret == 1; at++) {
		CHECK(at < STEPS_MOST);
		/* After two deaths there are many steps: one way of going on each. */
		for (mode = first ? at % 4 : 0; mode < 4 && ret == 1; mode += first ? 4 : 1) {
			CHECK(prepare(first));
			ret = killed(calls[which].call, at);
			CHECK(ret >= 0);
			CHECK(goes_on(there, &before, &after, which, mode));
		}
		*died = at - 1;
	}
	return true;
}

/* ---- A client that is killed while it makes the index ------------------------------ */

#define STRIDE	499u	/* steps: there are thousands, of stripes that are alike */

/* A client that opens the tables first is killed before some step.  Return: as killed(). */
static int killed_opening(unsigned int at)
{
	struct client mine;
	int status;
	pid_t pid = fork();

	if (!pid) {
		steps = 0;
		die_at = at;
		_exit(open_client(&mine) ? 0 : 1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGKILL ? 1 : -1;
	return WEXITSTATUS(status) ? -1 : 0;
}

/* Another client opens them then, which has the number of the dead one or not: all keys are there. */
static bool opens_after(const struct values *before, unsigned int at, int *ret)
{
	struct client lower, new;
	struct values found;
	uint32_t i;

	CHECK(restore());
	for (i = 0; i < TABLES; i++) {
		void *nothing = calloc(1, (size_t)memory_bytes[i]);

		CHECK(nothing && (!(at % 2) || i || open_client(&lower)));
		CHECK(pwrite(memories[i], nothing, (size_t)memory_bytes[i], 0) == memory_bytes[i]);
		free(nothing);
	}
	*ret = killed_opening(at);
	if (at % 2)
		close_client(&lower);
	CHECK(*ret >= 0 && open_client(&new));
	CHECK(look(&new, &found) && !memcmp(before, &found, sizeof(found)) && exact(&new));
	close_client(&new);
	return true;
}

static bool dies_opening(const struct client *there, unsigned int *died)
{
	struct values before;
	unsigned int at;
	int ret = 1;

	CHECK(restore() && look(there, &before));
	for (at = 1, *died = 0; ret == 1; at += at < 8 ? 1 : STRIDE, ++*died)
		CHECK(opens_after(&before, at, &ret));
	CHECK(*died > 20);
	return restore();
}

/* ---- Two clients that change roots ----------------------------------------------- */

static struct client *interrupting;
static bool interrupted;

static void change_other_root(void)
{
	other_at = 0;
	interrupted = lsm_root_set(interrupting->lsm, "root 1", 8, 0, NULL) == 0;
}

/* Another client changes another root before each step: neither change is lost. */
static bool both_roots(const struct client *there, struct client *second)
{
	uint64_t expected = 100, one, two;
	unsigned int at;

	interrupting = second;
	for (at = 1, interrupted = true; interrupted; at++) {
		CHECK(restore());
		interrupted = false;
		steps = 0;
		other_at = at;
		other = change_other_root;
		CHECK(!lsm_root_set(there->lsm, "root 0", 9, 0, &expected));
		other_at = 0;
		CHECK(!lsm_root_get(there->lsm, "root 0", &one) && one == 9);
		CHECK(!lsm_root_get(there->lsm, "root 1", &two) && two == (interrupted ? 8 : 100));
	}
	CHECK(at > 3);
	/* And one that names something else is not changed. */
	CHECK(lsm_root_set(there->lsm, "root 0", 10, 0, &expected) == -EILSEQ);
	return !lsm_root_get(there->lsm, "root 0", &one) && one == 9;
}

int main(void)
{
	unsigned int died;
	struct client client, second;
	uint32_t i;
	bool right;

	kernel = mmap(NULL, sizeof(*kernel), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	kernel_before = malloc(sizeof(*kernel));
	for (i = 0; i < TABLES; i++)
		memories[i] = memfd_create("index", MFD_CLOEXEC);
	if (kernel == MAP_FAILED || !kernel_before || !open_client(&client) || !fill(&client) || !save())
		return 1;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		died = 0;
		right = dies(&client, i, &died);
		/* After a failure each lock may take ten seconds. */
		if (!tap_ok(right, "%s: killed before each of %u steps", calls[i].name, died))
			return tap_end();
	}
	right = dies_opening(&client, &died);
	tap_ok(right, "the making of the index: killed before each of %u steps", died);
	tap_ok(open_client(&second) && both_roots(&client, &second), "two roots that two clients change");
	close_client(&second);
	close_client(&client);
	for (i = 0; i < TABLES; i++) {
		free(memory_before[i]);
		close(memories[i]);
	}
	free(kernel_before);
	return tap_end();
}
