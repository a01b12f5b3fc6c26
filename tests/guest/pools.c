// SPDX-License-Identifier: GPL-2.0
/*
 * Pools and arrays of the library (lsm_pages_*, lsm_pool_*, lsm_array_*), in a volatile store: random
 * allocations, frees, stores, syncs and reopenings, compared with a model.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "store.h"

#define PAGE		4096ull
#define SECONDS		240	/* time limit of a test; sufficient under emulation */
#define TABLE		9u
#define PAGES		512u	/* of a pool */
#define BUFFER		(64 * PAGE)

static uint64_t state;	/* of the random numbers */

static uint64_t below(uint64_t n)
{
	return random_below(&state, n);
}

FIXTURE(pools)
{
	struct store store;
	struct lsm *lsm;
	uint64_t used;		/* handles of the empty store */
};

static uint64_t handles_used(struct lsm *lsm)
{
	struct lsmem_stat stat;

	return lsm_stat(lsm, &stat) ? UINT64_MAX : stat.handles_used;
}

FIXTURE_SETUP(pools)
{
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 100000, 0));
	self->lsm = self->store.lsm;
	ASSERT_NE(NULL, self->lsm);
	self->used = handles_used(self->lsm);
	state = test_seed;
}

FIXTURE_TEARDOWN(pools)
{
	/* Fails if something still holds the store. */
	EXPECT_EQ(0, store_destroy(&self->store));
}

/* ---- Ranges ---------------------------------------------------------------- */

TEST_F_TIMEOUT(pools, pages, SECONDS)
{
	uint64_t root = 0;
	struct stat stat;
	char text[8] = "";
	int fd;

	fd = lsm_pages_create(self->lsm, MIB + 1, 0, LSM_TABLE(TABLE), &root);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, fstat(fd, &stat));
	EXPECT_EQ(MIB + 1, (uint64_t)stat.st_size);
	ASSERT_EQ(5, pwrite(fd, "hello", 5, 5 * PAGE - 2));
	EXPECT_EQ(-EBUSY, lsm_pages_remove(self->lsm, root));
	ASSERT_EQ(0, close(fd));
	fd = lsm_pages_open(self->lsm, root, BUFFER);
	ASSERT_LE(0, fd);
	ASSERT_EQ(7, pread(fd, text, 7, 5 * PAGE - 3));
	EXPECT_EQ(0, memcmp(text, "\0hello\0", 7));
	ASSERT_EQ(0, close(fd));
	ASSERT_EQ(0, lsm_pages_remove(self->lsm, root));
	EXPECT_EQ(-ESTALE, lsm_pages_open(self->lsm, root, 0));
	EXPECT_EQ(-ESTALE, lsm_pages_remove(self->lsm, root));
	EXPECT_EQ(self->used, handles_used(self->lsm));
}

/* ---- Pools ------------------------------------------------------------------ */

enum kept {
	FREE,
	FREED,		/* free after the next sync */
	KEPT,
};

struct object {
	enum kept kept;
	uint64_t handle;
	uint32_t length;
	uint8_t bytes[PAGE];
};

struct model {
	struct lsm *lsm;
	struct lsm_pool *pool;
	uint64_t root;
	struct object objects[PAGES];
};

/* A random page whose state is @kept, or PAGES. */
static uint64_t choose(const struct model *m, enum kept kept)
{
	uint64_t from = below(PAGES), i;

	for (i = 0; i < PAGES; i++)
		if (m->objects[(from + i) % PAGES].kept == kept)
			return (from + i) % PAGES;
	return PAGES;
}

static int model_alloc(struct model *m)
{
	uint32_t length = (uint32_t)(1 + (below(4) ? below(200) : below(PAGE)));
	struct object *object;
	void *at = NULL;
	int64_t page;
	int ret;

	ret = lsm_pool_alloc(m->pool, length, &at);
	if (ret == -ENOSPC)	/* the kernel may have freed what is FREED, or not yet */
		return choose(m, FREE) == PAGES ? 0 : -EDOM;
	if (ret)
		return ret;
	page = lsm_pool_page(m->pool, at);
	if (page < 0 || page >= PAGES || m->objects[page].kept == KEPT ||
	    lsm_pool_pointer(m->pool, (uint64_t)page) != at)
		return -EDOM;
	object = &m->objects[page];
	object->kept = KEPT;
	object->length = length;
	memset(object->bytes, 0, PAGE);
	ret = lsm_pool_handle(m->pool, at, &object->handle);
	if (ret)
		return ret;
	return memcmp(at, object->bytes, PAGE) ? -EDOM : 0;
}

static int model_free(struct model *m)
{
	uint64_t page = choose(m, KEPT), handle;
	uint8_t *at;
	int ret;

	if (page == PAGES)
		return 0;
	at = lsm_pool_pointer(m->pool, page);
	ret = lsm_pool_free(m->pool, at + below(PAGE));
	if (ret)
		return ret;
	m->objects[page].kept = FREED;
	return lsm_pool_free(m->pool, at) == -ENOENT && lsm_pool_length(m->pool, at) == -ENOENT &&
	       lsm_pool_handle(m->pool, at, &handle) == -ENOENT ? 0 : -EDOM;
}

static int model_store(struct model *m)
{
	uint64_t page = choose(m, KEPT), from, n;
	struct object *object = &m->objects[page];

	if (page == PAGES)
		return 0;
	from = below(object->length);
	n = 1 + below(object->length - from);
	memset(object->bytes + from, 1 + (int)below(255), n);
	memcpy((uint8_t *)lsm_pool_pointer(m->pool, page) + from, object->bytes + from, n);
	return 0;
}

/* After a sync the store has what pages have. */
static int model_sync(struct model *m)
{
	uint8_t bytes[PAGE];
	struct lsm_object object;
	uint64_t i;
	ssize_t n;
	int ret;

	ret = lsm_pool_sync(m->pool);
	if (ret)
		return ret;
	for (i = 0; i < PAGES; i++) {
		if (m->objects[i].kept == FREED)
			m->objects[i].kept = FREE;
		if (m->objects[i].kept == FREE && m->objects[i].handle) {
			n = lsm_read(m->lsm, m->objects[i].handle, bytes, sizeof(bytes), 0, NULL);
			if (n != -ESTALE)
				return -EDOM;
			m->objects[i].handle = 0;
		}
		if (m->objects[i].kept != KEPT || below(8))
			continue;
		n = lsm_read(m->lsm, m->objects[i].handle, bytes, sizeof(bytes), 0, &object);
		if (n != m->objects[i].length || object.table != TABLE ||
		    memcmp(bytes, m->objects[i].bytes, (size_t)n))
			return -EDOM;
	}
	return 0;
}

static int model_reopen(struct model *m)
{
	uint64_t i;

	lsm_pool_close(m->pool);
	m->pool = NULL;
	for (i = 0; i < PAGES; i++)
		if (m->objects[i].kept == FREED)
			m->objects[i].kept = FREE;
	return lsm_pool_open(m->lsm, m->root, BUFFER, &m->pool);
}

/* Go through all objects. */
static int model_check(struct model *m)
{
	void *at = NULL;
	uint64_t i, handle;
	int ret;

	for (i = 0; i < PAGES; i++) {
		const struct object *object = &m->objects[i];

		if (object->kept != KEPT)
			continue;
		ret = lsm_pool_next(m->pool, &at);
		if (ret)
			return ret;
		if (!at || lsm_pool_page(m->pool, at) != (int64_t)i)
			return -EDOM;
		ret = lsm_pool_handle(m->pool, at, &handle);
		if (ret)
			return ret;
		if (handle != object->handle || lsm_pool_length(m->pool, at) != object->length ||
		    memcmp(at, object->bytes, PAGE))
			return -EDOM;
	}
	if (!at)
		return 0;
	ret = lsm_pool_next(m->pool, &at);
	return ret ? ret : at ? -EDOM : 0;
}

static int model_step(struct model *m)
{
	switch (below(32)) {
	case 0:
		return model_sync(m);
	case 1:
		return below(8) ? 0 : model_reopen(m);
	case 2 ... 10:
		return model_alloc(m);
	case 11 ... 17:
		return model_free(m);
	default:
		return model_store(m);
	}
}

static void pool_model(struct __test_metadata *_metadata, struct lsm *lsm, unsigned int flags)
{
	struct model *m = calloc(1, sizeof(*m));
	uint64_t steps = test_scaled(40000), i;

	ASSERT_NE(NULL, m);
	m->lsm = lsm;
	ASSERT_EQ(0, lsm_pool_create(lsm, PAGES * PAGE, BUFFER, flags | LSM_TABLE(TABLE), &m->root,
				     &m->pool));
	for (i = 0; i < steps; i++) {
		ASSERT_EQ(0, model_step(m)) {
			TH_LOG("step %llu", (unsigned long long)i);
		}
		if (i % 1000 == 999) {
			ASSERT_EQ(0, model_check(m)) {
				TH_LOG("after step %llu", (unsigned long long)i);
			}
		}
	}
	ASSERT_EQ(0, model_reopen(m));
	ASSERT_EQ(0, model_check(m));
	lsm_pool_close(m->pool);
	ASSERT_EQ(0, lsm_pages_remove(lsm, m->root));
	free(m);
}

TEST_F_TIMEOUT(pools, pool_model, SECONDS)
{
	pool_model(_metadata, self->lsm, 0);
	EXPECT_EQ(self->used, handles_used(self->lsm));
}

TEST_F_TIMEOUT(pools, pool_model_atomic, SECONDS)
{
	pool_model(_metadata, self->lsm, LSM_PAGES_ATOMIC);
	EXPECT_EQ(self->used, handles_used(self->lsm));
}

/* Allocations go on where the last one was, and find all that is free before they fail. */
TEST_F_TIMEOUT(pools, pool_fills, SECONDS)
{
	struct lsm_pool *pool = NULL;
	uint64_t root = 0, i;
	void *at = NULL;

	ASSERT_EQ(0, lsm_pool_create(self->lsm, PAGES * PAGE, 0, 0, &root, &pool));
	EXPECT_EQ(0, lsm_pool_next(pool, &at));
	EXPECT_EQ(NULL, at);
	for (i = 0; i < PAGES; i++) {
		ASSERT_EQ(0, lsm_pool_alloc(pool, 8, &at));
		ASSERT_EQ((int64_t)i, lsm_pool_page(pool, at));
		*(uint64_t *)at = i;
	}
	EXPECT_EQ(-ENOSPC, lsm_pool_alloc(pool, 8, &at));
	ASSERT_EQ(0, lsm_pool_sync(pool));
	ASSERT_EQ(0, lsm_pool_free(pool, lsm_pool_pointer(pool, 100)));
	ASSERT_EQ(0, lsm_pool_free(pool, lsm_pool_pointer(pool, 50)));
	EXPECT_EQ(0, lsm_pool_sync(pool));
	ASSERT_EQ(0, lsm_pool_alloc(pool, 8, &at));
	EXPECT_EQ(50, lsm_pool_page(pool, at));		/* the lowest */
	ASSERT_EQ(0, lsm_pool_alloc(pool, 8, &at));
	EXPECT_EQ(100, lsm_pool_page(pool, at));
	EXPECT_EQ(-ENOSPC, lsm_pool_alloc(pool, 8, &at));
	lsm_pool_close(pool);
	ASSERT_EQ(0, lsm_pages_remove(self->lsm, root));
	EXPECT_EQ(self->used, handles_used(self->lsm));
}

/* A child has the parent's pool. */
TEST_F_TIMEOUT(pools, pool_child, SECONDS)
{
	struct lsm_pool *pool = NULL;
	uint64_t root = 0;
	void *at = NULL;
	int status;
	pid_t pid;

	ASSERT_EQ(0, lsm_pool_create(self->lsm, PAGES * PAGE, 0, 0, &root, &pool));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (!lsm_pool_alloc(pool, 6, &at))
			memcpy(at, "child", 6);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, lsm_pool_next(pool, &at));
	ASSERT_NE(NULL, at);
	EXPECT_STREQ("child", (const char *)at);
	lsm_pool_close(pool);
}

/* ---- Arrays ----------------------------------------------------------------- */

static bool array_same(const struct lsm_array *array, const uint8_t *copy, uint64_t nr, size_t size)
{
	uint64_t i;

	for (i = 0; i < nr; i++)
		if (memcmp(lsm_array_at(array, i), copy + i * size, size))
			return false;
	return true;
}

static void array_model(struct __test_metadata *_metadata, struct lsm *lsm, uint64_t nr, size_t size)
{
	uint64_t root = 0, steps = test_scaled(5000), step, i;
	unsigned int flags = below(2) ? LSM_PAGES_ATOMIC : 0;
	struct lsm_array *array = NULL;
	uint8_t *copy = calloc(nr, size), *at;

	ASSERT_NE(NULL, copy);
	ASSERT_EQ(0, lsm_array_create(lsm, nr, size, BUFFER, flags, &root, &array));
	EXPECT_EQ(nr, lsm_array_nr(array));
	EXPECT_EQ(NULL, lsm_array_at(array, nr));
	EXPECT_EQ(NULL, lsm_array_at(array, UINT64_MAX));
	for (step = 0; step < steps; step++) {
		i = below(nr);
		at = lsm_array_at(array, i);
		ASSERT_EQ((uintptr_t)at / PAGE, (uintptr_t)(at + size - 1) / PAGE);
		memset(at, (int)step, size);
		memset(copy + i * size, (int)step, size);
		ASSERT_EQ(0, below(500) ? 0 : lsm_array_sync(array));
		if (below(1000))
			continue;
		lsm_array_close(array);
		ASSERT_EQ(0, lsm_array_open(lsm, root, size, BUFFER, &array));
		ASSERT_EQ(nr, lsm_array_nr(array));
		ASSERT_TRUE(array_same(array, copy, nr, size));
	}
	ASSERT_TRUE(array_same(array, copy, nr, size));
	lsm_array_close(array);
	ASSERT_EQ(0, lsm_pages_remove(lsm, root));
	free(copy);
}

TEST_F_TIMEOUT(pools, array_model, SECONDS)
{
	const size_t sizes[] = { 1, 3, 8, 24, 100, 1365, 1366, 2048, 2049, 4095, 4096 };
	uint32_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		array_model(_metadata, self->lsm, 1 + below(2 * MIB / (sizes[i] + 100)), sizes[i]);
	for (i = 0; i < 10; i++)
		array_model(_metadata, self->lsm, 1 + below(1000), 1 + below(PAGE));
	EXPECT_EQ(self->used, handles_used(self->lsm));
}

/* ---- Refused ---------------------------------------------------------------- */

TEST_F_TIMEOUT(pools, refused, SECONDS)
{
	uint64_t root = 0, region = 0, handle = 0;
	struct lsm_pool *pool = NULL;
	struct lsm_array *array = NULL;
	struct lsm *reader = NULL;
	void *at = NULL, *out = &root;
	uint64_t used;

	/* Flags of the ioctl that are none of the library's. */
	EXPECT_EQ(-EINVAL, lsm_pages_create(self->lsm, MIB, 0, LSMEM_PAGES_CREATE, &root));
	EXPECT_EQ(-EINVAL, lsm_pages_create(self->lsm, MIB, 0, LSMEM_PAGES_REMOVE, &root));
	EXPECT_EQ(-EINVAL, lsm_pages_create(self->lsm, MIB, 0, LSM_TABLE(4096), &root));
	EXPECT_EQ(-EINVAL, lsm_pages_create(self->lsm, (1ull << 44) + 1, 0, 0, &root));
	EXPECT_EQ(-EINVAL, lsm_array_create(self->lsm, 0, 8, 0, 0, &root, &array));
	EXPECT_EQ(-EINVAL, lsm_array_create(self->lsm, 8, 0, 0, 0, &root, &array));
	EXPECT_EQ(-EINVAL, lsm_array_create(self->lsm, 8, 4097, 0, 0, &root, &array));
	EXPECT_EQ(-EINVAL, lsm_array_create(self->lsm, 1ull << 44, 4096, 0, 0, &root, &array));
	EXPECT_EQ(-EINVAL, lsm_array_create(self->lsm, UINT64_MAX, 2000, 0, 0, &root, &array));
	EXPECT_EQ(-EINVAL, lsm_array_create(self->lsm, 8, 8, 0, LSM_PAGES_POOL, &root, &array));
	EXPECT_EQ(-EINVAL, lsm_pool_create(self->lsm, 0, 0, 0, &root, &pool));
	EXPECT_EQ(self->used, handles_used(self->lsm));

	ASSERT_EQ(0, lsm_pool_create(self->lsm, MIB, 0, 0, &root, &pool));
	EXPECT_EQ(-EOPNOTSUPP, lsm_array_open(self->lsm, root, 8, 0, &array));
	EXPECT_EQ(-EINVAL, lsm_pool_alloc(pool, 0, &at));
	EXPECT_EQ(-EINVAL, lsm_pool_alloc(pool, 4097, &at));
	EXPECT_EQ(-EINVAL, lsm_pool_alloc(pool, (1ull << 32) + 1, &at));
	EXPECT_EQ(-EINVAL, lsm_pool_free(pool, &root));
	EXPECT_EQ(-EINVAL, lsm_pool_free(pool, NULL));
	EXPECT_EQ(-EINVAL, lsm_pool_next(pool, &out));
	EXPECT_EQ(-EINVAL, lsm_pool_page(pool, (uint8_t *)lsm_pool_pointer(pool, 0) - 1));
	EXPECT_EQ(-EINVAL, lsm_pool_page(pool, (uint8_t *)lsm_pool_pointer(pool, 255) + PAGE));
	EXPECT_EQ(255, lsm_pool_page(pool, (uint8_t *)lsm_pool_pointer(pool, 255) + PAGE - 1));
	EXPECT_EQ(NULL, lsm_pool_pointer(pool, 256));
	EXPECT_EQ(NULL, lsm_pool_pointer(pool, UINT64_MAX));
	ASSERT_EQ(0, lsm_pool_alloc(pool, 5, &at));
	memcpy(at, "hello", 5);
	lsm_pool_close(pool);
	lsm_pool_close(NULL);
	lsm_array_close(NULL);

	ASSERT_EQ(0, lsm_array_create(self->lsm, 100, 100, 0, 0, &region, &array));
	lsm_array_close(array);
	EXPECT_EQ(-EOPNOTSUPP, lsm_pool_open(self->lsm, region, 0, &pool));
	EXPECT_EQ(-EINVAL, lsm_array_open(self->lsm, region, 0, 0, &array));
	EXPECT_EQ(-EINVAL, lsm_array_open(self->lsm, region, 4097, 0, &array));
	ASSERT_EQ(0, lsm_alloc(self->lsm, "x", 1, 0, &handle, NULL));
	EXPECT_EQ(-EBADMSG, lsm_pool_open(self->lsm, handle, 0, &pool));
	EXPECT_EQ(-EBADMSG, lsm_pages_remove(self->lsm, handle));

	/* A descriptor that only reads. */
	used = handles_used(self->lsm);
	ASSERT_EQ(0, lsm_open(self->store.path, LSM_RDONLY, &reader));
	EXPECT_EQ(-EBADF, lsm_pages_create(reader, MIB, 0, 0, &handle));
	EXPECT_EQ(-EBADF, lsm_pages_remove(reader, root));
	ASSERT_EQ(0, lsm_pool_open(reader, root, 0, &pool));
	lsm_close(reader);
	at = NULL;
	ASSERT_EQ(0, lsm_pool_next(pool, &at));
	EXPECT_EQ(0, memcmp(at, "hello", 5));
	EXPECT_EQ(-EBADF, lsm_pool_free(pool, at));
	EXPECT_EQ(-EBADF, lsm_pool_alloc(pool, 1, &at));
	lsm_pool_close(pool);
	EXPECT_EQ(used, handles_used(self->lsm));
}

TEST_HARNESS_MAIN
