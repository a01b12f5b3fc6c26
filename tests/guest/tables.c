// SPDX-License-Identifier: GPL-2.0
/*
 * Tables with keys, roots, and lsm_next().
 *
 * At rest: what each call does, and how it fails.  Then a model: random puts and removes, compared with what the table
 * says; threads on the same keys; processes that are killed while they change the table, again and again.  After each the
 * index must be exact: what lsm_next() finds in the store is what the index finds, each key once.
 */
#include <errno.h>
#include <lsmem/lsmem_format.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "store.h"

#define TABLE		7u
#define KEYS		3000u
#define THREADS		4
#define VALUE_MAX	600u

FIXTURE(tables) {
	struct store store;
	struct lsm_table *table;
	uint8_t *bytes;
};

FIXTURE_SETUP(tables)
{
	self->bytes = calloc(1, OBJECT_MAX + 1);
	ASSERT_TRUE(self->bytes);
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, 0));
	ASSERT_EQ(0, lsm_table_open(self->store.lsm, TABLE, 0, &self->table));
}

FIXTURE_TEARDOWN(tables)
{
	lsm_table_close(self->table);
	EXPECT_EQ(0, store_livemap(&self->store, NULL));
	EXPECT_EQ(0, store_destroy(&self->store));
	free(self->bytes);
}

/* The key of a number: of different lengths, some of them long. */
static size_t key_of(uint32_t number, char *key)
{
	size_t length = (size_t)sprintf(key, "key %u ", number);

	for (; number % 50 == 7 && length < 700; length++)
		key[length] = (char)('a' + number % 26);
	return length;
}

#define KEY_ROOM	1024

/* The value of a key says which key it has and how often it was put; its length follows from both. */
struct value {
	uint32_t number;
	uint32_t serial;
};

static size_t value_of(uint32_t number, uint32_t serial, uint8_t *value)
{
	struct value v = { number, serial };
	size_t length = sizeof(v) + (number * 31 + serial * 17) % VALUE_MAX;

	memset(value, (int)(number + serial), length);
	memcpy(value, &v, sizeof(v));
	return length;
}

/* The serial of a value of a key; 0: it is none. */
static uint32_t serial_of(uint32_t number, const uint8_t *value, size_t length)
{
	uint8_t wanted[sizeof(struct value) + VALUE_MAX];
	struct value v;

	if (length < sizeof(v))
		return 0;
	memcpy(&v, value, sizeof(v));
	return v.number == number && value_of(number, v.serial, wanted) == length && !memcmp(wanted, value, length) ?
	       v.serial : 0;
}

static int put(struct lsm_table *table, uint32_t number, uint32_t serial, unsigned int flags, uint64_t *version)
{
	uint8_t value[sizeof(struct value) + VALUE_MAX];
	char key[KEY_ROOM];

	return lsm_table_put(table, key, key_of(number, key), value, value_of(number, serial, value), flags, version);
}

/* The serial of a key's value; 0: the key is not there; a negative errno. */
static int64_t get(struct lsm_table *table, uint32_t number, struct lsm_item *item)
{
	uint8_t value[sizeof(struct value) + VALUE_MAX];
	char key[KEY_ROOM];
	ssize_t ret = lsm_table_get(table, key, key_of(number, key), value, sizeof(value), item);

	if (ret == -ENOENT)
		return 0;
	if (ret < 0)
		return ret;
	ret = serial_of(number, value, (size_t)ret);
	return ret ?: -EUCLEAN;
}

static int take(struct lsm_table *table, uint32_t number, unsigned int flags, uint64_t *version)
{
	char key[KEY_ROOM];

	return lsm_table_remove(table, key, key_of(number, key), flags, version);
}

/* What is wrong between the index and the store?  "": nothing. */
static const char *inexact(struct lsm_table *table)
{
	uint8_t value[sizeof(struct value) + VALUE_MAX];
	static uint8_t seen[KEYS];
	char key[KEY_ROOM], wanted[KEY_ROOM];
	size_t length = sizeof(key);
	struct lsm_table_stat stat;
	struct lsm_item item, found;
	uint64_t cursor = 0, nr = 0;
	uint32_t number;
	int ret;

	memset(seen, 0, sizeof(seen));
	while ((ret = lsm_table_next(table, &cursor, key, &length, value, sizeof(value), &item)) > 0) {
		if (sscanf(key, "key %u ", &number) != 1 || number >= KEYS || key_of(number, wanted) != length ||
		    memcmp(key, wanted, length))
			return "a key that was never put";
		if (!serial_of(number, value, item.length))
			return "a value that was never put";
		if (seen[number]++)
			return "a key that is there twice";
		if (get(table, number, &found) <= 0 || found.handle != item.handle || found.version != item.version)
			return "an item that the index does not find";
		length = sizeof(key);
		nr++;
	}
	if (ret)
		return "lsm_table_next()";
	for (number = 0; number < KEYS; number++)
		if (!seen[number] && get(table, number, NULL))
			return "an item that the store does not have";
	if (lsm_table_stat(table, &stat) || stat.items != nr)
		return "the number of items";
	return "";
}

/* ---- At rest ---------------------------------------------------------------------- */

TEST_F(tables, calls)
{
	struct lsm_table *table = self->table, *second;
	uint64_t version = 0, first, removed;
	struct lsm_item item;
	char value[16];

	EXPECT_EQ(-ENOENT, lsm_table_get(table, "a", 1, value, sizeof(value), &item));
	EXPECT_EQ(-ENOENT, lsm_table_put(table, "a", 1, "1", 1, LSM_OLD, &version));
	EXPECT_EQ(-ENOENT, lsm_table_put(table, "a", 1, "1", 1, LSM_EXPECT, &version));
	ASSERT_EQ(0, lsm_table_put(table, "a", 1, "one", 3, LSM_NEW, &first));
	EXPECT_EQ(-EEXIST, lsm_table_put(table, "a", 1, "two", 3, LSM_NEW, &version));
	ASSERT_EQ(3, lsm_table_get(table, "a", 1, value, sizeof(value), &item));
	EXPECT_EQ(0, memcmp(value, "one", 3));
	EXPECT_EQ(first, item.version);
	EXPECT_EQ(3, item.length);
	EXPECT_EQ(-ENOENT, lsm_table_get(table, "a ", 2, value, sizeof(value), &item));

	version = first + 1;
	EXPECT_EQ(-EILSEQ, lsm_table_put(table, "a", 1, "two", 3, LSM_EXPECT, &version));
	EXPECT_EQ(first, version);
	EXPECT_EQ(0, lsm_table_put(table, "a", 1, "second", 6, LSM_EXPECT, &version));
	EXPECT_GT(version, first);
	EXPECT_EQ(2, lsm_table_get(table, "a", 1, value, 2, &item));
	EXPECT_EQ(6, item.length);
	EXPECT_EQ(0, lsm_table_get(table, "a", 1, NULL, 0, NULL));

	/* Another descriptor, as another process has, sees the same. */
	ASSERT_EQ(0, lsm_table_open(self->store.lsm, TABLE, LSM_RDONLY, &second));
	EXPECT_EQ(6, lsm_table_get(second, "a", 1, value, sizeof(value), &item));
	EXPECT_EQ(-EBADF, lsm_table_put(second, "a", 1, "x", 1, 0, NULL));
	EXPECT_EQ(-EBADF, lsm_table_remove(second, "a", 1, 0, NULL));
	EXPECT_EQ(-EBADF, lsm_table_evict(second, 1, NULL));
	lsm_table_close(second);
	EXPECT_EQ(-EAGAIN, lsm_table_open(self->store.lsm, TABLE + 1, LSM_RDONLY, &second));
	EXPECT_EQ(-EINVAL, lsm_table_open(self->store.lsm, 4096, 0, &second));

	first = version - 1;
	EXPECT_EQ(-EILSEQ, lsm_table_remove(table, "a", 1, LSM_EXPECT, &first));
	ASSERT_EQ(0, lsm_table_remove(table, "a", 1, LSM_EXPECT, &version));
	removed = version;
	EXPECT_EQ(-ENOENT, lsm_table_remove(table, "a", 1, 0, NULL));
	EXPECT_EQ(-ENOENT, lsm_table_get(table, "a", 1, value, sizeof(value), &item));
	/* Versions of a key rise, also over a removal. */
	ASSERT_EQ(0, lsm_table_put(table, "a", 1, "", 0, 0, &version));
	EXPECT_GT(version, removed);
	EXPECT_EQ(0, lsm_table_get(table, "a", 1, value, sizeof(value), &item));
	EXPECT_EQ(0, item.length);

	/* Bounds. */
	EXPECT_EQ(-EINVAL, lsm_table_put(table, "", 0, "x", 1, 0, NULL));
	EXPECT_EQ(-EINVAL, lsm_table_put(table, self->bytes, LSM_KEY_MAX + 1, "x", 1, 0, NULL));
	EXPECT_EQ(-EINVAL, lsm_table_put(table, "b", 1, self->bytes, OBJECT_MAX - 2, 0, NULL));
	EXPECT_EQ(-EINVAL, lsm_table_put(table, "b", 1, "x", 1, LSM_NEW | LSM_OLD, NULL));
	EXPECT_EQ(-EINVAL, lsm_table_put(table, "b", 1, "x", 1, LSM_EXPECT, NULL));
	/* What cannot become durable in this store changes nothing. */
	EXPECT_EQ(-EOPNOTSUPP, lsm_table_put(table, "a", 1, "x", 1, LSM_DURABLE, NULL));
	EXPECT_EQ(-EOPNOTSUPP, lsm_table_put(table, "new", 3, "x", 1, LSM_DURABLE, NULL));
	EXPECT_EQ(-ENOENT, lsm_table_get(table, "new", 3, NULL, 0, NULL));
	EXPECT_EQ(-EOPNOTSUPP, lsm_table_remove(table, "a", 1, LSM_DURABLE, NULL));
	EXPECT_EQ(0, lsm_table_get(table, "a", 1, NULL, 0, NULL));
	memset(self->bytes, 'k', OBJECT_MAX);
	ASSERT_EQ(0, lsm_table_put(table, self->bytes, LSM_KEY_MAX, self->bytes, 1, 0, NULL));
	EXPECT_EQ(1, lsm_table_get(table, self->bytes, LSM_KEY_MAX, value, sizeof(value), &item));
	EXPECT_EQ(-ENOENT, lsm_table_get(table, self->bytes, LSM_KEY_MAX - 1, value, sizeof(value), &item));
	ASSERT_EQ(0, lsm_table_put(table, "b", 1, self->bytes, OBJECT_MAX - 3, 0, NULL));
	ASSERT_EQ(OBJECT_MAX - 3, lsm_table_get(table, "b", 1, self->bytes, OBJECT_MAX, &item));

	/* An object that others free. */
	ASSERT_EQ(0, lsm_free(self->store.lsm, item.handle, 0, NULL));
	EXPECT_EQ(-ENOENT, lsm_table_get(table, "b", 1, value, sizeof(value), &item));
	EXPECT_EQ(0, lsm_table_put(table, "b", 1, "x", 1, 0, NULL));
	EXPECT_EQ(1, lsm_table_get(table, "b", 1, value, sizeof(value), &item));
}

/* Adds @nr names to the object of all roots, as its format tells; returns its handle. */
static uint64_t fill_roots(struct __test_metadata *_metadata, struct store *store, int nr)
{
	struct lsmem_root root = { .handle = __cpu_to_le64(9), .length = __cpu_to_le16(200) };
	uint8_t *bytes = malloc(LSMEM_OBJECT_MAX);
	struct lsmem_roots *header = (void *)bytes;
	struct lsmem_query query;
	struct lsmem_op op;
	char name[201];
	int i;

	ASSERT_TRUE(bytes);
	ASSERT_EQ(0, lsm_query(store->lsm, &query));
	op = lsm_op_read(query.handles_max + LSMEM_RESERVED_ROOTS, bytes, LSMEM_OBJECT_MAX, 0);
	op.flags = LSMEM_OPF_INDEX;
	ASSERT_EQ(0, ioctl(store->fd, LSMEM_IOC_READ, &op));
	header->nr = __cpu_to_le32(__le32_to_cpu(header->nr) + (uint32_t)nr);
	for (i = 0; i < nr; i++) {
		sprintf(name, "%0200d", i);
		memcpy(bytes + op.length, &root, sizeof(root));
		memcpy(bytes + op.length + sizeof(root), name, 200);
		op.length += sizeof(root) + 200;
	}
	ASSERT_EQ(0, lsm_replace(store->lsm, op.handle, bytes, op.length, 0, NULL));
	free(bytes);
	return op.handle;
}

TEST_F(tables, roots)
{
	struct lsm *lsm = self->store.lsm;
	uint64_t handle, none = 0, other = 5;
	struct lsm_root roots[4];
	struct lsm_listed listed;
	struct lsmem_stat stat;
	char name[300];
	int i;

	EXPECT_EQ(-ENOENT, lsm_root_get(lsm, "tree", &handle));
	EXPECT_EQ(0, lsm_root_list(lsm, roots, 4));
	EXPECT_EQ(-EILSEQ, lsm_root_set(lsm, "tree", 1, 0, &other));
	EXPECT_EQ(0, lsm_root_set(lsm, "tree", 1, 0, &none));
	EXPECT_EQ(-EILSEQ, lsm_root_set(lsm, "tree", 2, 0, &none));
	EXPECT_EQ(0, lsm_root_get(lsm, "tree", &handle));
	EXPECT_EQ(1, handle);
	EXPECT_EQ(0, lsm_root_set(lsm, "tre", 3, 0, NULL));
	EXPECT_EQ(0, lsm_root_set(lsm, "tree", 4, 0, NULL));
	EXPECT_EQ(2, lsm_root_list(lsm, roots, 1));
	EXPECT_STREQ("tre", roots[0].name);
	EXPECT_EQ(3, roots[0].handle);
	EXPECT_EQ(0, lsm_root_set(lsm, "tre", 0, 0, NULL));
	EXPECT_EQ(-ENOENT, lsm_root_get(lsm, "tre", &handle));
	EXPECT_EQ(0, lsm_root_get(lsm, "tree", &handle));
	EXPECT_EQ(4, handle);
	memset(name, 'n', sizeof(name));
	name[256] = 0;
	EXPECT_EQ(-EINVAL, lsm_root_set(lsm, name, 1, 0, NULL));
	EXPECT_EQ(-EINVAL, lsm_root_set(lsm, "", 1, 0, NULL));
	name[255] = 0;
	EXPECT_EQ(0, lsm_root_set(lsm, name, 1, 0, NULL));
	/* As many as there is room for; all but the last are written at once. */
	handle = fill_roots(_metadata, &self->store, 4980);
	for (i = 4980; i < 5010; i++) {
		sprintf(name, "%0200d", i);
		if (lsm_root_set(lsm, name, handle, 0, NULL))
			break;
	}
	EXPECT_EQ(-ENOSPC, lsm_root_set(lsm, name, handle, 0, NULL));
	EXPECT_EQ(i + 2, lsm_root_list(lsm, roots, 4));
	EXPECT_GT(i, 4980);
	EXPECT_EQ(0, lsm_root_set(lsm, "tree", 0, 0, NULL));
	/* It is an object as others, but no scan and no index of a handle leads to it. */
	ASSERT_EQ(0, lsm_stat(lsm, &stat));
	EXPECT_EQ(1, stat.handles_used);
	handle = 0;
	EXPECT_EQ(0, lsm_next(lsm, -1, &handle, &listed, 1));
}

/* Reserved indices, and objects by index, as the kernel has them. */
TEST_F(tables, by_index)
{
	struct lsmem_query query;
	struct lsmem_op op = lsm_op_alloc("root", 4, 0);
	uint64_t handle, reserved;
	char bytes[8];

	ASSERT_EQ(0, lsm_query(self->store.lsm, &query));
	ASSERT_TRUE(query.features & LSMEM_FEATURE_INDEX);
	reserved = query.handles_max + LSMEM_RESERVED_ROOTS;
	op.flags = LSMEM_OPF_INDEX;
	op.handle = 0;
	EXPECT_EQ(-1, ioctl(self->store.fd, LSMEM_IOC_ALLOC, &op));
	EXPECT_EQ(EINVAL, errno);
	op.handle = query.handles_max + LSMEM_RESERVED;
	EXPECT_EQ(-1, ioctl(self->store.fd, LSMEM_IOC_ALLOC, &op));
	EXPECT_EQ(EINVAL, errno);
	op.handle = reserved;
	EXPECT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_ALLOC, &op));
	handle = op.handle;
	EXPECT_EQ(reserved, lsmem_handle_index(handle));
	op.handle = reserved;
	EXPECT_EQ(-1, ioctl(self->store.fd, LSMEM_IOC_ALLOC, &op));
	EXPECT_EQ(EEXIST, errno);
	op = lsm_op_read(reserved, bytes, sizeof(bytes), 0);
	op.flags = LSMEM_OPF_INDEX;
	EXPECT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_READ, &op));
	EXPECT_EQ(handle, op.handle);
	EXPECT_EQ(4, op.length);
	/* By its handle it is as any other. */
	EXPECT_EQ(4, lsm_read(self->store.lsm, handle, bytes, sizeof(bytes), 0, NULL));
	EXPECT_EQ(0, lsm_replace(self->store.lsm, handle, "rot", 3, 0, NULL));
	EXPECT_EQ(0, lsm_free(self->store.lsm, handle, 0, NULL));
	op.handle = reserved;
	EXPECT_EQ(-1, ioctl(self->store.fd, LSMEM_IOC_READ, &op));
	EXPECT_EQ(ENOENT, errno);
	op = lsm_op_alloc("root", 4, 0);
	op.flags = LSMEM_OPF_INDEX;
	op.handle = reserved;
	EXPECT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_ALLOC, &op));
	EXPECT_NE(handle, op.handle);
	/* Beyond all, and of none. */
	op = lsm_op_read(reserved + 1, bytes, sizeof(bytes), 0);
	op.flags = LSMEM_OPF_INDEX;
	EXPECT_EQ(-1, ioctl(self->store.fd, LSMEM_IOC_READ, &op));
	EXPECT_EQ(ENOENT, errno);
	op = lsm_op_replace(5, "x", 1, 0, 0);
	op.flags = LSMEM_OPF_INDEX;
	EXPECT_EQ(-1, ioctl(self->store.fd, LSMEM_IOC_REPLACE, &op));
	EXPECT_EQ(EINVAL, errno);
}

/*
 * A cursor of lsm_next() goes on in another process, which opens the store for itself: what is there all the time is
 * listed once, whatever goes meanwhile.
 */
TEST_F(tables, cursor_elsewhere)
{
	enum { NR = 2000, FIRST = 700 };
	struct lsm_listed *listed = mmap(NULL, NR * sizeof(*listed), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t *handles = calloc(NR, sizeof(*handles)), cursor = 0, random = test_seed;
	uint32_t i, j, times[NR] = { 0 };
	int status;
	pid_t pid;

	ASSERT_TRUE(listed != MAP_FAILED && handles);
	for (i = 0; i < NR; i++)
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, &i, sizeof(i), LSM_TABLE(i % 10 ? 3 : 4), &handles[i], NULL));
	ASSERT_EQ(FIRST, lsm_next(self->store.lsm, 3, &cursor, listed, FIRST));
	/* Others go meanwhile, before the cursor and behind it. */
	for (i = 0; i < NR; i += 1 + random_below(&random, 20)) {
		ASSERT_EQ(0, lsm_free(self->store.lsm, handles[i], 0, NULL));
		handles[i] = 0;
	}
	pid = fork();
	if (!pid) {
		struct lsm_listed *to = listed + FIRST;
		struct lsm *lsm;
		ssize_t ret;

		if (lsm_open(self->store.path, LSM_RDONLY, &lsm))
			_exit(1);
		while ((ret = lsm_next(lsm, 3, &cursor, to, 100)) > 0)
			to += ret;
		_exit(ret || lsm_next(lsm, 3, &cursor, to, 1) ? 2 : 0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	for (i = 0; i < NR; i++)
		for (j = 0; listed[i].handle && j < NR; j++)
			times[j] += handles[j] == listed[i].handle;
	for (i = 0; i < NR; i++)
		ASSERT_EQ(handles[i] && i % 10 ? 1 : 0, times[i]) TH_LOG("object %u", i);
	munmap(listed, NR * sizeof(*listed));
	free(handles);
}

TEST_F(tables, shared)
{
	struct lsmem_shared shared = { .size = sizeof(shared), .id = 9 }, again;
	uint8_t *one, *two;

	EXPECT_EQ(-1, ioctl(self->store.fd, LSMEM_IOC_SHARED, &shared));
	EXPECT_EQ(ENOENT, errno);
	shared.bytes = 4097;
	EXPECT_EQ(-1, ioctl(self->store.fd, LSMEM_IOC_SHARED, &shared));
	EXPECT_EQ(EINVAL, errno);
	shared.bytes = 1ull << 33;
	ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_SHARED, &shared));
	again = (struct lsmem_shared){ .size = sizeof(again), .id = 9 };
	ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_SHARED, &again));
	EXPECT_EQ(1ull << 33, again.bytes);
	one = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, shared.fd, 0);
	two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, again.fd, 0);
	ASSERT_TRUE(one != MAP_FAILED && two != MAP_FAILED);
	one[5000] = 3;
	EXPECT_EQ(3, two[5000]);
	/* No client can take pages from under the others. */
	EXPECT_EQ(-1, ftruncate(shared.fd, 0));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(-1, ftruncate(shared.fd, 1ll << 34));
	munmap(one, 8192);
	munmap(two, 8192);
	close(shared.fd);
	close(again.fd);
}

/* ---- A model ------------------------------------------------------------------------- */

TEST_F_TIMEOUT(tables, model, 120)
{
	static uint32_t model[KEYS];
	uint32_t serial = 0, number, i;
	uint64_t random;
	uint64_t version;
	int ret;

	random = test_seed;
	memset(model, 0, sizeof(model));
	for (i = 0; i < test_scaled(60000); i++) {
		number = random_below(&random, KEYS);
		switch (random_below(&random, 8)) {
		case 0 ... 3:
			ret = put(self->table, number, ++serial, 0, &version);
			ASSERT_EQ(0, ret);
			model[number] = serial;
			break;
		case 4:
			ret = put(self->table, number, ++serial, LSM_NEW, &version);
			ASSERT_EQ(model[number] ? -EEXIST : 0, ret);
			if (!ret)
				model[number] = serial;
			break;
		case 5:
			ret = put(self->table, number, ++serial, LSM_OLD, &version);
			ASSERT_EQ(model[number] ? 0 : -ENOENT, ret);
			if (!ret)
				model[number] = serial;
			break;
		default:
			ASSERT_EQ(model[number] ? 0 : -ENOENT, take(self->table, number, 0, NULL));
			model[number] = 0;
		}
		ASSERT_EQ(model[number], get(self->table, number, NULL));
	}
	for (number = 0; number < KEYS; number++)
		ASSERT_EQ(model[number], get(self->table, number, NULL));
	EXPECT_STREQ("", inexact(self->table)) {
		TH_LOG("wrong: %s", inexact(self->table));
	}
}

TEST_F(tables, many)
{
	uint8_t values[40][sizeof(struct value) + VALUE_MAX], out[40][sizeof(struct value) + VALUE_MAX];
	struct lsm_put puts[40];
	struct lsm_get gets[40];
	char keys[40][KEY_ROOM];
	uint32_t i;

	for (i = 0; i < 40; i++) {
		/* The last ten are the keys of the first ten once more. */
		puts[i] = (struct lsm_put){
			.key = keys[i], .key_length = key_of(i % 30, keys[i]), .value = values[i],
			.length = value_of(i % 30, i + 1, values[i]),
		};
		gets[i] = (struct lsm_get){ .key = keys[i], .key_length = puts[i].key_length, .value = out[i],
					    .room = sizeof(out[i]) };
	}
	puts[3].flags = LSM_OLD;
	puts[4].key_length = 0;
	ASSERT_EQ(0, put(self->table, 5, 999, 0, NULL));
	puts[5].flags = LSM_NEW;
	puts[6].flags = LSM_EXPECT;
	ASSERT_EQ(0, lsm_table_put_many(self->table, puts, 40, 0));
	for (i = 0; i < 40; i++)
		EXPECT_EQ(i == 3 || i == 6 ? -ENOENT : i == 4 ? -EINVAL : i == 5 ? -EEXIST : 0, puts[i].result);
	gets[4].key_length = key_of(4, keys[4]);
	gets[2].flags = 1;	/* of a later version */
	lsm_table_get_many(self->table, gets, 40);
	EXPECT_EQ(-EINVAL, gets[2].result);
	gets[2].flags = 0;
	lsm_table_get_many(self->table, gets, 40);
	for (i = 0; i < 40; i++) {
		ASSERT_GT(gets[i].result, 0);
		EXPECT_EQ(i % 30 < 10 ? i % 30 + 31 : i + 1,
			  serial_of(i % 30, out[i], (size_t)gets[i].result));
	}
	/* All are there now: replaced in one system call. */
	for (i = 0; i < 40; i++) {
		puts[i].flags = i == 7 ? LSM_EXPECT : 0;
		puts[i].version = 1;
		puts[i].key_length = key_of(i % 30, keys[i]);
		puts[i].length = value_of(i % 30, i + 100, values[i]);
	}
	ASSERT_EQ(0, lsm_table_put_many(self->table, puts, 40, 0));
	for (i = 0; i < 40; i++)
		EXPECT_EQ(i == 7 ? -EILSEQ : 0, puts[i].result);
	for (i = 0; i < 30; i++)
		EXPECT_EQ(i < 10 ? i + 130 : i + 100, get(self->table, i, NULL));
	puts[39].key_length = key_of(30, keys[39]);
	EXPECT_EQ(-EOPNOTSUPP, lsm_table_put_many(self->table, puts, 40, LSM_DURABLE));
	EXPECT_EQ(-EOPNOTSUPP, puts[39].result);
	EXPECT_EQ(-ENOENT, lsm_table_get(self->table, keys[39], puts[39].key_length, NULL, 0, NULL));
	EXPECT_STREQ("", inexact(self->table));
}

/*
 * Two objects with one key, as a crash leaves them that loses a tombstone: the index is made anew, has the newer one,
 * and the other one is freed.  What is no item stays.
 */
TEST_F(tables, twice)
{
	static const struct lsmem_item_end end = { .key_length = 1 }, long_end = { .key_length = 500 };
	uint64_t handles[4];
	uint32_t i;
	char value[8], bytes[8];
	struct lsm_item item;
	size_t length = 2 + sizeof(end);

	ASSERT_EQ(0, lsm_table_put(self->table, "x", 1, "other", 5, 0, NULL));
	lsm_table_close(self->table);
	for (i = 0; i < 3; i++) {
		bytes[0] = (char)('0' + i);
		bytes[1] = 'k';
		memcpy(bytes + 2, &end, sizeof(end));
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, bytes, length, LSM_TABLE(TABLE), &handles[i], NULL));
	}
	/* The newest is not the last one in the handle table. */
	bytes[0] = 'n';
	ASSERT_EQ(0, lsm_replace(self->store.lsm, handles[1], bytes, length, 0, NULL));
	memcpy(bytes + 2, &long_end, sizeof(end));
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, bytes, length, LSM_TABLE(TABLE), &handles[3], NULL));
	ASSERT_EQ(0, store_forget_index(&self->store, TABLE));
	ASSERT_EQ(0, lsm_table_open(self->store.lsm, TABLE, 0, &self->table));
	ASSERT_EQ(1, lsm_table_get(self->table, "k", 1, value, sizeof(value), &item));
	EXPECT_EQ('n', value[0]);
	EXPECT_EQ(handles[1], item.handle);
	EXPECT_EQ(-ESTALE, lsm_read(self->store.lsm, handles[0], value, 1, 0, NULL));
	EXPECT_EQ(-ESTALE, lsm_read(self->store.lsm, handles[2], value, 1, 0, NULL));
	EXPECT_EQ(1, lsm_read(self->store.lsm, handles[3], value, 1, 0, NULL));
	EXPECT_EQ(5, lsm_table_get(self->table, "x", 1, value, sizeof(value), &item));
}

/* ---- Threads ---------------------------------------------------------------------------- */

/**
 * struct work - what a thread does
 * @table: of the thread
 * @nr: of the thread: keys below KEYS / 2 are its own, if their number modulo THREADS is @nr; the rest are of all
 * @seed: of its random numbers
 * @turns: operations
 * @stop: ends a thread that has no end
 * @failed: an error, or -EUCLEAN
 * @own: serials of its own keys
 */
struct work {
	struct lsm_table *table;
	uint32_t nr;
	uint64_t seed;
	uint64_t turns;
	atomic_bool stop;
	int failed;
	uint32_t own[KEYS];
};

static void *worker(void *argument)
{
	struct work *work = argument;
	uint64_t random;
	uint32_t number, serial = 0;
	uint64_t turn;
	int64_t got;
	int ret = 0;

	random = work->seed;
	for (turn = 0; turn < work->turns && !work->failed; turn++) {
		number = random_below(&random, KEYS);
		if (number < KEYS / 2)
			number = number / THREADS * THREADS + work->nr;
		switch (random_below(&random, 4)) {
		case 0:
			ret = take(work->table, number, 0, NULL);
			if (ret == -ENOENT)
				ret = number < KEYS / 2 && work->own[number] ? -EUCLEAN : 0;
			work->own[number] = 0;
			break;
		case 1:
			ret = put(work->table, number, ++serial, 0, NULL);
			work->own[number] = serial;
			break;
		default:
			got = get(work->table, number, NULL);
			ret = got < 0 ? (int)got : number < KEYS / 2 && got != work->own[number] ? -EUCLEAN : 0;
		}
		if (ret)
			work->failed = ret;
	}
	return NULL;
}

TEST_F_TIMEOUT(tables, threads, 180)
{
	struct work *works = calloc(THREADS, sizeof(*works));
	pthread_t threads[THREADS];
	struct lsm_table *second;
	uint32_t i, number;
	int64_t got;

	ASSERT_TRUE(works);
	/* Two clients: their locks are their own. */
	ASSERT_EQ(0, lsm_table_open(self->store.lsm, TABLE, 0, &second));
	for (i = 0; i < THREADS; i++) {
		works[i].table = i % 2 ? second : self->table;
		works[i].nr = i;
		works[i].seed = test_seed + i;
		works[i].turns = test_scaled(60000);
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, worker, &works[i]));
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, works[i].failed);
	}
	for (number = 0; number < KEYS / 2 / THREADS * THREADS; number++) {
		got = get(self->table, number, NULL);
		EXPECT_EQ(works[number % THREADS].own[number], got);
	}
	EXPECT_STREQ("", inexact(self->table));
	EXPECT_STREQ("", inexact(second));
	lsm_table_close(second);
	free(works);
}

/* The same, several at a time. */
static void add_together(struct work *work)
{
	enum { TOGETHER = 8 };
	struct lsm_put puts[TOGETHER];
	char keys[TOGETHER][32];
	uint64_t turn;
	uint32_t i;

	for (turn = 0; turn < work->turns && !work->failed; turn += TOGETHER) {
		for (i = 0; i < TOGETHER; i++)
			puts[i] = (struct lsm_put){
				.key = keys[i], .value = &work->nr, .length = sizeof(work->nr), .flags = LSM_NEW,
				.key_length = (size_t)sprintf(keys[i], "%llu", (unsigned long long)turn + i),
			};
		work->failed = lsm_table_put_many(work->table, puts, work->turns - turn < TOGETHER ?
						  work->turns - turn : TOGETHER, 0);
		for (i = 0; i < TOGETHER && turn + i < work->turns; i++) {
			work->own[0] += !puts[i].result;
			if (puts[i].result && puts[i].result != -EEXIST)
				work->failed = puts[i].result;
		}
	}
}

/* Adds the same keys as the other threads, in the same order, and counts how often it was the first. */
static void *adder(void *argument)
{
	struct work *work = argument;
	uint64_t turn;
	char key[32];
	int ret;

	if (work->nr < 2) {
		add_together(work);
		return NULL;
	}

	for (turn = 0; turn < work->turns; turn++) {
		ret = lsm_table_put(work->table, key, (size_t)sprintf(key, "%llu", (unsigned long long)turn),
				    &work->nr, sizeof(work->nr), LSM_NEW, NULL);
		work->own[0] += !ret;
		if (ret && ret != -EEXIST)
			work->failed = ret;
	}
	return NULL;
}

/* Looks up keys that are there all the time, while the index grows. */
static void *looker(void *argument)
{
	struct work *work = argument;
	uint32_t number = 0;

	while (!work->failed && !atomic_load(&work->stop)) {
		number = (number + 1) % 500;
		if (get(work->table, number, NULL) != 1)
			work->failed = -EUCLEAN;
	}
	return NULL;
}

TEST_F_TIMEOUT(tables, growing, 180)
{
	struct work *works = calloc(THREADS + 1, sizeof(*works)), *reader = &works[THREADS];
	uint64_t turns = test_scaled(60000), added = 0;
	pthread_t threads[THREADS + 1];
	struct lsm_table_stat stat;
	struct lsm_table *second;
	uint32_t i;

	ASSERT_TRUE(works);
	ASSERT_EQ(0, lsm_table_open(self->store.lsm, TABLE, 0, &second));
	for (i = 0; i < 500; i++)
		ASSERT_EQ(0, put(self->table, i, 1, 0, NULL));
	reader->table = self->table;
	ASSERT_EQ(0, pthread_create(&threads[THREADS], NULL, looker, reader));
	for (i = 0; i < THREADS; i++) {
		works[i].table = i % 2 ? second : self->table;
		works[i].nr = i;
		works[i].turns = turns;
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, adder, &works[i]));
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, works[i].failed);
		added += works[i].own[0];
	}
	atomic_store(&reader->stop, true);
	pthread_join(threads[THREADS], NULL);
	EXPECT_EQ(0, reader->failed);
	/* Each was added once. */
	EXPECT_EQ(turns, added);
	ASSERT_EQ(0, lsm_table_stat(self->table, &stat));
	EXPECT_EQ(turns + 500, stat.items);
	lsm_table_close(second);
	free(works);
}

/* Numbers are raised by threads that expect the version that they have read: none is lost. */
static void *raise_counter(void *argument)
{
	struct work *work = argument;
	struct lsm_item item;
	uint64_t turn, value;
	ssize_t ret;

	for (turn = 0; turn < work->turns; turn++) {
		do {
			ret = lsm_table_get(work->table, "counter", 7, &value, sizeof(value), &item);
			if (ret != sizeof(value))
				break;
			value++;
			ret = lsm_table_put(work->table, "counter", 7, &value, sizeof(value), LSM_EXPECT,
					    &item.version);
		} while (ret == -EILSEQ);
		if (ret)
			work->failed = (int)ret;
	}
	return NULL;
}

TEST_F_TIMEOUT(tables, counter, 120)
{
	struct work *works = calloc(THREADS, sizeof(*works));
	pthread_t threads[THREADS];
	uint64_t value = 0;
	uint32_t i;

	ASSERT_TRUE(works);
	ASSERT_EQ(0, lsm_table_put(self->table, "counter", 7, &value, sizeof(value), 0, NULL));
	for (i = 0; i < THREADS; i++) {
		works[i].table = self->table;
		works[i].turns = test_scaled(5000);
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, raise_counter, &works[i]));
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, works[i].failed);
	}
	EXPECT_EQ(sizeof(value), lsm_table_get(self->table, "counter", 7, &value, sizeof(value), NULL));
	EXPECT_EQ(THREADS * test_scaled(5000), value);
	free(works);
}

/* ---- Processes that are killed -------------------------------------------------------------- */

/* What a child has acknowledged of each key, and what it was about to do: the serial, 0: removed. */
struct journal {
	_Atomic uint32_t done[KEYS];
	_Atomic uint32_t doing[KEYS];
	_Atomic uint32_t serial;
	_Atomic uint64_t turns;
};

static void child(const char *path, struct journal *journal, uint64_t seed)
{
	struct lsm_table *table;
	uint64_t random;
	struct lsm *lsm;
	uint32_t number, serial;

	if (lsm_open(path, 0, &lsm) || lsm_table_open(lsm, TABLE, 0, &table))
		_exit(1);
	random = seed;
	for (;;) {
		number = random_below(&random, KEYS);
		serial = random_below(&random, 3) ? ++journal->serial : 0;
		journal->doing[number] = serial;
		if (serial ? put(table, number, serial, 0, NULL) :
			     (take(table, number, 0, NULL) + ENOENT) % ENOENT)
			_exit(2);
		journal->done[number] = serial;
		journal->turns++;
	}
}

/* Find the locks of all that have died, whose stripes are made anew.  Return: 0, or an error. */
static int find_locks(struct lsm_table *table)
{
	uint32_t number;
	int ret = -ENOENT;

	/* So many keys that are not there that all stripes are locked. */
	for (number = KEYS; number < KEYS + 20000 && ret == -ENOENT; number++)
		ret = take(table, number, 0, NULL);
	return ret == -ENOENT ? 0 : ret ?: -EUCLEAN;
}

TEST_F_TIMEOUT(tables, killed, 240)
{
	struct journal *journal = mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t rounds = (uint32_t)test_scaled(40), round, number, doing, lost = 0;
	struct lsm_table *second = NULL, *third;
	uint64_t random;
	uint64_t turns;
	int64_t got;
	int status;
	pid_t pid;

	ASSERT_TRUE(journal != MAP_FAILED);
	random = test_seed;
	for (round = 0; round < (rounds < 5 ? 5 : rounds); round++) {
		pid = fork();
		if (!pid)
			child(self->store.path, journal, test_seed + round);
		ASSERT_GT(pid, 0);
		turns = journal->turns + 1 + random_below(&random, 2000);
		while (journal->turns < turns && !waitpid(pid, &status, WNOHANG))
			sched_yield();
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		ASSERT_TRUE(WIFSIGNALED(status));
		/* What it has begun is there or not as soon as another client has found its locks. */
		if (round % 2) {
			ASSERT_EQ(0, find_locks(self->table));
		} else {
			/* A client that gets the number of the dead one: that of the last such client is in use. */
			ASSERT_EQ(0, lsm_table_open(self->store.lsm, TABLE, 0, &third));
			lsm_table_close(second);
			second = third;
		}
		for (number = 0; number < KEYS; number++) {
			got = get(self->table, number, NULL);
			doing = journal->doing[number];
			if (got != journal->done[number] && got != doing)
				lost++;
			journal->done[number] = (uint32_t)got;
			journal->doing[number] = (uint32_t)got;
		}
		EXPECT_STREQ("", inexact(self->table)) {
			TH_LOG("round %u: %s", round, inexact(self->table));
		}
	}
	EXPECT_EQ(0, lost);
	lsm_table_close(second);
	munmap(journal, sizeof(*journal));
}

/* ---- One object for each key ---------------------------------------------------------------- */

/* What the clients that make objects know of each other: the handles that they were told, and where they are. */
struct makers {
	_Atomic uint64_t handles[KEYS];
	_Atomic uint32_t next;
	_Atomic uint64_t turns;
	_Atomic uint32_t again;
};

/* Has a child ended?  waitpid() still returns it. */
static bool gone(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid;
}

/* Returns as lsm_table_alloc(), -EUCLEAN: another object than before. */
static int make(struct lsm_table *table, struct makers *makers, uint32_t number, uint32_t serial)
{
	uint8_t value[sizeof(struct value) + VALUE_MAX];
	struct lsm_item item;
	char key[KEY_ROOM];
	int ret;

	ret = lsm_table_alloc(table, key, key_of(number, key), value, value_of(number, serial, value), 0, &item);
	if (ret >= 0 && makers->handles[number] && (!ret || makers->handles[number] != item.handle))
		return -EUCLEAN;
	if (ret >= 0)
		makers->handles[number] = item.handle;
	return ret;
}

static void maker(const char *path, struct makers *makers, uint32_t serial)
{
	uint32_t number = makers->next < 5 ? 0 : makers->next - 5;
	struct lsm_table *table;
	struct lsm *lsm;
	int ret;

	if (lsm_open(path, 0, &lsm) || lsm_table_open(lsm, TABLE, 0, &table))
		_exit(1);
	for (; number < KEYS; number++) {
		ret = make(table, makers, number, serial);
		if (ret < 0)
			_exit(2);
		makers->again += ret;
		if (number >= makers->next)
			makers->next = number + 1;
		makers->turns++;
	}
	_exit(0);
}

/*
 * Clients make an object for each key, and are killed; the next one begins some keys before.  Each key has one object, and
 * a client that repeats what another had begun is told of that one; also when the index was made anew in between.
 */
TEST_F_TIMEOUT(tables, alloc_once, 240)
{
	struct makers *makers = mmap(NULL, sizeof(*makers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const uint32_t wanted = test_scaled(60) < 10 ? 10 : (uint32_t)test_scaled(60);
	uint64_t random = test_seed, turns, cursor = 0, objects = 0;
	uint32_t clients, number, kills = 0;
	struct lsm_listed listed[64];
	struct lsm_item item;
	ssize_t ret;
	int status;
	pid_t pid;

	ASSERT_TRUE(makers != MAP_FAILED);
	/* The last one makes all that are left. */
	for (clients = 1; kills < wanted || makers->next < KEYS; clients++) {
		for (number = 0; makers->next == KEYS && number < KEYS; number++) {
			ASSERT_EQ(0, take(self->table, number, 0, NULL));
			makers->handles[number] = 0;
		}
		if (makers->next == KEYS)
			makers->next = 0;
		turns = kills < wanted ? makers->turns + 5 + random_below(&random, 300) : UINT64_MAX;
		pid = fork();
		if (!pid)
			maker(self->store.path, makers, clients);
		ASSERT_GT(pid, 0);
		while (makers->turns < turns && !gone(pid))
			sched_yield();
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status) || !status) TH_LOG("exit code %d", WEXITSTATUS(status));
		kills += WIFSIGNALED(status);
	}
	TH_LOG("%u clients, %u killed; %u objects found again", clients - 1, kills, makers->again);
	EXPECT_LT(0, makers->again);
	EXPECT_STREQ("", inexact(self->table)) {
		TH_LOG("wrong: %s", inexact(self->table));
	}
	while ((ret = lsm_next(self->store.lsm, TABLE, &cursor, listed, 64)) > 0)
		objects += (uint64_t)ret;
	EXPECT_EQ(KEYS, objects);
	lsm_table_close(self->table);
	ASSERT_EQ(0, store_forget_index(&self->store, TABLE));
	ASSERT_EQ(0, lsm_table_open(self->store.lsm, TABLE, 0, &self->table));
	for (number = 0; number < KEYS; number++)
		ASSERT_EQ(1, make(self->table, makers, number, 0));
	/* Removed, it is made again. */
	ASSERT_EQ(0, take(self->table, 0, 0, NULL));
	EXPECT_EQ(0, lsm_table_alloc(self->table, "key 0 ", 6, "", 0, 0, &item));
	EXPECT_NE(makers->handles[0], item.handle);
	EXPECT_EQ(1, lsm_table_alloc(self->table, "key 0 ", 6, "other", 5, 0, NULL));
	EXPECT_EQ(0, lsm_table_get(self->table, "key 0 ", 6, NULL, 0, &item));
	EXPECT_EQ(0, item.length);
	EXPECT_EQ(-EINVAL, lsm_table_alloc(self->table, "x", 1, "", 0, LSM_NEW, NULL));
	EXPECT_EQ(-EINVAL, lsm_table_alloc(self->table, "", 0, "", 0, 0, NULL));
	EXPECT_EQ(-EOPNOTSUPP, lsm_table_alloc(self->table, "x", 1, "", 0, LSM_DURABLE, NULL));
	EXPECT_EQ(-ENOENT, lsm_table_get(self->table, "x", 1, NULL, 0, NULL));
	munmap(makers, sizeof(*makers));
}

/* ---- A hundred clients ---------------------------------------------------------------------- */

#define CLIENTS		100u
#define COUNTERS	32u
#define OWN		4u	/* keys of a client that come and go */

/* A counter of all clients: how often each has raised it. */
struct tally {
	uint64_t all;
	uint32_t by[CLIENTS];
};

/* What a client has done, of each counter, and what it was about to do. */
struct client {
	_Atomic uint32_t raised[COUNTERS];
	_Atomic uint32_t own[OWN];	/* serial; 0: removed */
	_Atomic uint32_t raising;	/* number of the counter + 1; 0: none */
	_Atomic uint32_t changing;	/* number of its own key + 1 */
	_Atomic uint32_t serial;	/* that it is to have */
	_Atomic uint64_t turns;
};

/* Others raise it between the get and the put, also with one processor. */
static int raise_tally(struct lsm_table *table, uint32_t counter, uint32_t client, uint64_t *random)
{
	struct lsm_item item;
	struct tally tally;
	ssize_t ret;

	do {
		ret = lsm_table_get(table, &counter, sizeof(counter), &tally, sizeof(tally), &item);
		if (ret != sizeof(tally))
			return ret < 0 ? (int)ret : -EUCLEAN;
		tally.all++;
		tally.by[client]++;
		if (!random_below(random, 4))
			sched_yield();
		ret = lsm_table_put(table, &counter, sizeof(counter), &tally, sizeof(tally), LSM_EXPECT, &item.version);
	} while (ret == -EILSEQ);
	return (int)ret;
}

/* One of @turns, or until it is killed. */
static void client_main(const char *path, struct client *client, uint32_t nr, uint64_t turns)
{
	uint64_t random = test_seed + nr;
	struct lsm_table *table, *counters;
	uint32_t which, serial;
	struct lsm *lsm;

	if (lsm_open(path, 0, &lsm) || lsm_table_open(lsm, TABLE, 0, &table) ||
	    lsm_table_open(lsm, TABLE + 1, 0, &counters))
		_exit(1);
	for (; client->turns < turns; client->turns++) {
		which = random_below(&random, COUNTERS);
		client->raising = which + 1;
		if (raise_tally(counters, which, nr, &random))
			_exit(2);
		client->raised[which]++;
		client->raising = 0;
		which = random_below(&random, OWN);
		serial = client->own[which] ? 0 : (uint32_t)client->turns + 1;
		client->serial = serial;
		client->changing = which + 1;
		if (serial ? put(table, nr * OWN + which, serial, LSM_NEW, NULL) : take(table, nr * OWN + which, 0, NULL))
			_exit(3);
		client->own[which] = serial;
		client->changing = 0;
	}
	_exit(0);
}

/* What of a client is not as it says?  "": nothing. */
static const char *client_wrong(struct lsm_table *table, const struct tally *tallies, const struct client *client,
				uint32_t nr)
{
	uint32_t i, raised;
	int64_t got;

	for (i = 0; i < COUNTERS; i++) {
		raised = client->raised[i];
		if (tallies[i].by[nr] != raised && (client->raising != i + 1 || tallies[i].by[nr] != raised + 1))
			return "a counter";
	}
	for (i = 0; i < OWN; i++) {
		got = get(table, nr * OWN + i, NULL);
		if (got != client->own[i] && (client->changing != i + 1 || got != client->serial))
			return "a key of its own";
	}
	return "";
}

/*
 * A hundred processes, each with the store and two tables open, raise the same counters and have keys of their own come
 * and go.  Half of them are killed at random times.  No raise is lost or made twice, and the indices are exact.
 */
TEST_F_TIMEOUT(tables, hundred, 300)
{
	const uint32_t nr = test_scaled(CLIENTS) < 20 ? 20 : test_scaled(CLIENTS) < CLIENTS ? (uint32_t)test_scaled(CLIENTS) :
			    CLIENTS;
	struct client *clients = mmap(NULL, CLIENTS * sizeof(*clients), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t turns = test_scaled(200), random = test_seed, sum, cursor = 0;
	struct tally tallies[COUNTERS] = { 0 };
	struct lsm_table *counters;
	struct lsm_table_stat stat;
	uint32_t i, j, killed = 0;
	struct lsm_item item;
	pid_t pids[CLIENTS];
	char key[KEY_ROOM];
	size_t length;
	int status;

	ASSERT_TRUE(clients != MAP_FAILED);
	turns = turns < 20 ? 20 : turns;
	ASSERT_EQ(0, lsm_table_open(self->store.lsm, TABLE + 1, 0, &counters));
	for (i = 0; i < COUNTERS; i++)
		ASSERT_EQ(0, lsm_table_put(counters, &i, sizeof(i), &tallies[i], sizeof(*tallies), LSM_NEW, NULL));
	for (i = 0; i < nr; i++) {
		/* Those that are killed have no end. */
		pids[i] = fork();
		if (!pids[i])
			client_main(self->store.path, &clients[i], i, i % 2 ? UINT64_MAX : turns);
		ASSERT_GT(pids[i], 0);
	}
	for (i = 1; i < nr; i += 2) {
		uint64_t until = 1 + random_below(&random, (uint32_t)turns);

		while (clients[i].turns < until && !gone(pids[i]))
			sched_yield();
		kill(pids[i], SIGKILL);
	}
	for (i = 0; i < nr; i++) {
		ASSERT_EQ(pids[i], waitpid(pids[i], &status, 0));
		killed += WIFSIGNALED(status);
		EXPECT_TRUE(WIFSIGNALED(status) ? i % 2 : !status) TH_LOG("client %u: status %x", i, status);
	}
	EXPECT_EQ(nr / 2, killed);
	for (i = 0; i < COUNTERS; i++) {
		ASSERT_EQ(sizeof(*tallies), lsm_table_get(counters, &i, sizeof(i), &tallies[i], sizeof(*tallies), NULL));
		for (j = 0, sum = 0; j < CLIENTS; j++)
			sum += tallies[i].by[j];
		EXPECT_EQ(tallies[i].all, sum);
	}
	for (i = 0; i < nr; i++)
		EXPECT_STREQ("", client_wrong(self->table, tallies, &clients[i], i)) TH_LOG("client %u", i);
	/* What they had begun is there or not as soon as another client has found their locks. */
	ASSERT_EQ(0, find_locks(self->table));
	/* Both ways: of the counters each is there once, and no more. */
	EXPECT_STREQ("", inexact(self->table)) {
		TH_LOG("wrong: %s", inexact(self->table));
	}
	for (i = 0; (length = sizeof(key)), lsm_table_next(counters, &cursor, key, &length, NULL, 0, &item) > 0; i++)
		EXPECT_EQ(sizeof(i), length);
	EXPECT_EQ(COUNTERS, i);
	ASSERT_EQ(0, lsm_table_stat(counters, &stat));
	EXPECT_EQ(COUNTERS, stat.items);
	lsm_table_close(counters);
	munmap(clients, CLIENTS * sizeof(*clients));
}

/* In the child of a fork the parent's table cannot be used, and the parent's lives on. */
TEST_F(tables, forked)
{
	int status;
	pid_t pid;

	ASSERT_EQ(0, put(self->table, 1, 1, 0, NULL));
	pid = fork();
	if (!pid)
		_exit(get(self->table, 1, NULL) == -ECHILD && put(self->table, 1, 2, 0, NULL) == -ECHILD ? 0 : 1);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(1, get(self->table, 1, NULL));
	EXPECT_EQ(0, put(self->table, 1, 2, 0, NULL));
}

/* ---- Eviction ------------------------------------------------------------------------------- */

struct told {
	uint64_t wrong;
	uint64_t nr;
	struct lsm_table *table;
	uint8_t seen[KEYS];
};

/* Each item that went is told once, as it was, and is gone by then. */
static void is_told(void *context, const struct lsm_evicted *evicted)
{
	uint8_t value[sizeof(struct value) + VALUE_MAX];
	struct told *told = context;
	char key[KEY_ROOM];
	struct value head;
	size_t length;

	told->nr++;
	told->wrong++;
	if (evicted->head_length < sizeof(head))
		return;
	memcpy(&head, evicted->head, sizeof(head));
	if (head.number >= KEYS || told->seen[head.number]++ || head.serial != 1 || !evicted->item.version ||
	    evicted->key_length != key_of(head.number, key) || memcmp(evicted->key, key, evicted->key_length))
		return;
	length = value_of(head.number, 1, value);
	if (evicted->item.length != length || memcmp(evicted->head, value, evicted->head_length) ||
	    evicted->head_length != (length < LSM_EVICTED_HEAD ? length : LSM_EVICTED_HEAD) ||
	    get(told->table, head.number, NULL))
		return;
	told->wrong--;
}

TEST_F(tables, evict)
{
	struct told told = { .table = self->table };
	uint64_t evicted, all = 0;
	struct lsm_table_stat stat;
	uint32_t number, hot = 0;
	ssize_t given;

	for (number = 0; number < KEYS; number++)
		ASSERT_EQ(0, put(self->table, number, 1, 0, NULL));
	for (number = 0; number < KEYS; number += 3)
		EXPECT_EQ(1, get(self->table, number, NULL));
	/* Less than what was not read takes. */
	given = lsm_table_evict(self->table, KEYS / 3 * 300, &evicted);
	EXPECT_GE(given, KEYS / 3 * 300);
	EXPECT_GT(evicted, 0);
	for (number = 0; number < KEYS; number += 3)
		hot += get(self->table, number, NULL) == 1;
	EXPECT_EQ(KEYS / 3, hot);
	/* The oldest went: none of those that were put last. */
	for (number = KEYS - KEYS / 4; number < KEYS; number++)
		ASSERT_EQ(1, get(self->table, number, NULL));
	EXPECT_STREQ("", inexact(self->table));
	ASSERT_EQ(0, lsm_table_stat(self->table, &stat));
	EXPECT_EQ(evicted, stat.evicted);
	EXPECT_EQ(KEYS - evicted, stat.items);
	/* All can go: after two rounds none is hot. */
	for (all = evicted; all < KEYS; all += evicted) {
		told.nr = 0;
		ASSERT_GT(lsm_table_evict_each(self->table, SIZE_MAX / 2, is_told, &told, &evicted), 0);
		ASSERT_GT(evicted, 0);
		EXPECT_EQ(evicted, told.nr);
		EXPECT_EQ(0, told.wrong);
	}
	EXPECT_EQ(0, lsm_table_evict(self->table, 1, &evicted));
	EXPECT_STREQ("", inexact(self->table));
}

/* An index that is larger than its first buckets, and its making anew. */
TEST_F_TIMEOUT(tables, large, 120)
{
	uint32_t nr = (uint32_t)test_scaled(200000), i;
	struct lsm_table_stat stat;
	struct lsm_item item;
	uint64_t value;
	char key[32];

	for (i = 0; i < nr; i++)
		ASSERT_EQ(0, lsm_table_put(self->table, key, (size_t)sprintf(key, "%u", i), &i, sizeof(i), LSM_NEW, NULL));
	ASSERT_EQ(0, lsm_table_stat(self->table, &stat));
	EXPECT_EQ(nr, stat.items);
	if (nr >= 50000)
		EXPECT_LT(stat.index_bytes / nr, 24);
	for (i = 0; i < nr; i++) {
		value = 0;
		ASSERT_EQ(sizeof(i), lsm_table_get(self->table, key, (size_t)sprintf(key, "%u", i), &value, sizeof(value),
						   &item));
		ASSERT_EQ(i, value);
	}
}

TEST_HARNESS_MAIN
