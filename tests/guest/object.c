// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctls on objects, without the library: each with right arguments, and each with every
 * wrong argument.
 *
 * A call that is refused must change nothing.  So the fixture has an object, the "canary", and
 * compares it, the number of objects and the live bytes before and after the call.  Each test
 * destroys its store at the end, which fails if anything still holds the store.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include <lsmem/lsmem_format.h>

#include "store.h"

#define PAGE		4096u
#define CANARY		777u

FIXTURE(store) {
	struct store store;
	uint8_t canary_bytes[CANARY];
	uint64_t canary;
	uint64_t canary_version;
	struct lsmem_stat before;
};

static int call(const struct store *store, unsigned long request, void *argument)
{
	return ioctl(store->fd, request, argument) ? -errno : 0;
}

static int get_stat(const struct store *store, struct lsmem_stat *stat)
{
	memset(stat, 0, sizeof(*stat));
	stat->size = sizeof(*stat);
	return call(store, LSMEM_IOC_STAT, stat);
}

FIXTURE_SETUP(store)
{
	struct lsmem_op op;

	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, 0));
	content_fill(self->canary_bytes, CANARY, 1, 5);
	op = lsm_op_alloc(self->canary_bytes, CANARY, LSM_TABLE(5));
	ASSERT_EQ(0, call(&self->store, LSMEM_IOC_ALLOC, &op));
	self->canary = op.handle;
	self->canary_version = op.version;
	ASSERT_EQ(0, get_stat(&self->store, &self->before));
}

FIXTURE_TEARDOWN(store)
{
	EXPECT_EQ(0, store_destroy(&self->store));
}

/* What differs from the state after FIXTURE_SETUP? NULL if nothing does. */
static const char *changed(const struct _test_data_store *self)
{
	uint8_t bytes[CANARY + 1];
	struct lsmem_stat stat;
	struct lsmem_op op = lsm_op_read(self->canary, bytes, sizeof(bytes), 0);

	if (get_stat(&self->store, &stat))
		return "stat fails";
	if (stat.live_bytes != self->before.live_bytes)
		return "live_bytes";
	if (stat.handles_used != self->before.handles_used)
		return "handles_used";
	if (stat.appended_bytes < self->before.appended_bytes)
		return "appended_bytes";
	if (call(&self->store, LSMEM_IOC_READ, &op) || op.length != CANARY ||
	    memcmp(bytes, self->canary_bytes, CANARY))
		return "the canary's bytes";
	if (op.version != self->canary_version || op.table != 5 || op.object_length != CANARY)
		return "the canary's version, table or length";
	return NULL;
}

#define EXPECT_UNCHANGED() do {						\
	const char *what = changed(self);				\
									\
	EXPECT_EQ(NULL, what) TH_LOG("changed: %s", what);		\
} while (0)

/* The call fails with @error and changes nothing. */
#define EXPECT_REFUSED(error, request, argument) do {			\
	EXPECT_EQ(-(error), call(&self->store, request, argument))	\
		TH_LOG("%s", #request " " #argument);			\
	EXPECT_UNCHANGED();						\
} while (0)

/* ---- Calls with right arguments ----------------------------------------- */

TEST_F(store, query)
{
	struct lsmem_query query = { .size = sizeof(query) };

	ASSERT_EQ(0, call(&self->store, LSMEM_IOC_QUERY, &query));
	EXPECT_EQ(LSMEM_ABI, query.abi);
	EXPECT_EQ(LSMEM_KIND_OBJECT, query.kind);
	EXPECT_EQ(LSMEM_STATE_ACTIVE, query.state);
	EXPECT_EQ(OBJECT_MAX, query.object_max);
	EXPECT_EQ(LSMEM_FEATURE_VECTOR | LSMEM_FEATURE_WINDOWS | LSMEM_FEATURE_PAGES |
		  LSMEM_FEATURE_SNAPSHOT | LSMEM_FEATURE_ATOMIC | LSMEM_FEATURE_POLL |
		  LSMEM_FEATURE_INDEX | LSMEM_FEATURE_SHARED | LSMEM_FEATURE_WATCH | LSMEM_FEATURE_CHECK,
		  query.features & ~LSMEM_FEATURE_URING);	/* that: tests/guest/uring.c */
	EXPECT_LE(1, query.vector_max);
	EXPECT_LT(STORE_BYTES / 2, query.capacity);
	EXPECT_GT(STORE_BYTES, query.capacity);
	EXPECT_EQ(STORE_BYTES / 256, query.handles_max);
	EXPECT_EQ(query.capacity, self->before.capacity);
	EXPECT_EQ(query.handles_max, self->before.handles_max);
	query.flags = 1;
	EXPECT_REFUSED(EINVAL, LSMEM_IOC_QUERY, &query);
	query.flags = 0;
	query.group_max = 1;
	EXPECT_REFUSED(EINVAL, LSMEM_IOC_QUERY, &query);
}

TEST_F(store, stat)
{
	struct lsmem_stat stat;

	ASSERT_EQ(0, get_stat(&self->store, &stat));
	EXPECT_EQ(1, stat.handles_used);
	EXPECT_EQ(STORE_BYTES >> 16, stat.seglets);
	EXPECT_LT(0, stat.free_seglets);
	EXPECT_LE(CANARY, stat.live_bytes);
	EXPECT_GE(CANARY + 64, stat.live_bytes);
	stat.flags = 1;
	EXPECT_REFUSED(EINVAL, LSMEM_IOC_STAT, &stat);
}

TEST_F_TIMEOUT(store, every_length, 60)
{
	static const uint32_t lengths[] = { 1, 7, 8, 9, 31, 32, 33, 100, LSMEM_SHORT_MAX,
					    LSMEM_SHORT_MAX + 1, 4095, 4096, 4097, 65504, 65536,
					    100001, OBJECT_MAX - 1, OBJECT_MAX };
	uint8_t *bytes = malloc(OBJECT_MAX + 8), *back = malloc(OBJECT_MAX + 8);
	uint64_t state = test_seed, version = 0;
	struct lsmem_op op;
	uint32_t i, j;

	ASSERT_TRUE(bytes && back);
	for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		uint32_t length = lengths[i];
		/* Sources and targets need no alignment. */
		uint8_t *source = bytes + i % 8, *target = back + (i * 3) % 8;
		uint64_t handle;

		for (j = 0; j < length; j++)
			source[j] = (uint8_t)random_next(&state);
		op = lsm_op_alloc(source, length, LSM_TABLE(i));
		ASSERT_EQ(0, call(&self->store, LSMEM_IOC_ALLOC, &op));
		EXPECT_NE(0, op.handle);
		EXPECT_LT(version, op.version);
		version = op.version;
		handle = op.handle;

		op = lsm_op_read(handle, target, OBJECT_MAX, 0);
		ASSERT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
		EXPECT_EQ(length, op.length);
		EXPECT_EQ(length, op.object_length);
		EXPECT_EQ(i, op.table);
		EXPECT_EQ(version, op.version);
		EXPECT_EQ(0, memcmp(source, target, length));

		op = lsm_op_read(handle, target, length / 2 + 1, length / 3);
		ASSERT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
		EXPECT_EQ(0, memcmp(source + length / 3, target, op.length));
		op = lsm_op_read(handle, target, 1, length);
		EXPECT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
		EXPECT_EQ(0, op.length);
		op = lsm_op_read(handle, target, 1, length + 1);
		EXPECT_EQ(-EINVAL, call(&self->store, LSMEM_IOC_READ, &op));
		op = lsm_op_read(handle, NULL, 0, 0);
		EXPECT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
		EXPECT_EQ(length, op.object_length);

		/* Replace it by data of another length, twice. */
		for (j = 0; j < 2; j++) {
			uint32_t other = lengths[random_next(&state) % 10];

			memset(source, (int)(i + j), other);
			op = lsm_op_replace(handle, source, other, 0, 0);
			ASSERT_EQ(0, call(&self->store, LSMEM_IOC_REPLACE, &op));
			EXPECT_LT(version, op.version);
			version = op.version;
			op = lsm_op_read(handle, target, OBJECT_MAX, 0);
			ASSERT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
			EXPECT_EQ(other, op.length);
			EXPECT_EQ(version, op.version);
			EXPECT_EQ(0, memcmp(source, target, other));
		}
		op = lsm_op_free(handle, 0, 0);
		ASSERT_EQ(0, call(&self->store, LSMEM_IOC_FREE, &op));
		EXPECT_LT(version, op.version);
		op = lsm_op_read(handle, target, OBJECT_MAX, 0);
		EXPECT_EQ(-ESTALE, call(&self->store, LSMEM_IOC_READ, &op));
		EXPECT_UNCHANGED();
	}
	free(bytes);
	free(back);
}

TEST_F(store, expected_versions)
{
	uint64_t version = self->canary_version;
	struct lsmem_op op;
	char byte = 'x';

	op = lsm_op_replace(self->canary, &byte, 1, LSM_EXPECT, version + 1);
	EXPECT_REFUSED(EILSEQ, LSMEM_IOC_REPLACE, &op);
	EXPECT_EQ(version, op.version) TH_LOG("the current version is told");
	op = lsm_op_free(self->canary, LSM_EXPECT, version - 1);
	EXPECT_REFUSED(EILSEQ, LSMEM_IOC_FREE, &op);
	EXPECT_EQ(version, op.version);
	op = lsm_op_free(self->canary, LSM_EXPECT, 0);
	EXPECT_REFUSED(EILSEQ, LSMEM_IOC_FREE, &op);
	op = lsm_op_replace(self->canary, self->canary_bytes, CANARY, LSM_EXPECT, version);
	EXPECT_EQ(0, call(&self->store, LSMEM_IOC_REPLACE, &op));
	EXPECT_LT(version, op.version);
	version = op.version;
	op = lsm_op_free(self->canary, LSM_EXPECT, version);
	EXPECT_EQ(0, call(&self->store, LSMEM_IOC_FREE, &op));
}

struct counter {
	const struct store *store;
	uint64_t handle;
	unsigned int times;
	int error;
};

/* Increment the number in an object @times, each time by a replacement that expects a version. */
static void *count_up(void *argument)
{
	struct counter *counter = argument;
	struct lsmem_op op;
	uint64_t value;

	while (counter->times) {
		op = lsm_op_read(counter->handle, &value, sizeof(value), 0);
		counter->error = call(counter->store, LSMEM_IOC_READ, &op);
		if (counter->error)
			break;
		value++;
		op = lsm_op_replace(counter->handle, &value, sizeof(value), LSM_EXPECT, op.version);
		counter->error = call(counter->store, LSMEM_IOC_REPLACE, &op);
		if (counter->error == -EILSEQ)
			continue;
		if (counter->error)
			break;
		counter->times--;
	}
	return NULL;
}

TEST_F_TIMEOUT(store, expected_versions_race, 60)
{
	struct counter counters[4];
	pthread_t threads[4];
	struct lsmem_op op;
	uint64_t value = 0;
	unsigned int i;

	op = lsm_op_alloc(&value, sizeof(value), 0);
	ASSERT_EQ(0, call(&self->store, LSMEM_IOC_ALLOC, &op));
	for (i = 0; i < 4; i++) {
		counters[i] = (struct counter){ &self->store, op.handle, 1000, 0 };
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, count_up, &counters[i]));
	}
	for (i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, counters[i].error);
	}
	op = lsm_op_read(op.handle, &value, sizeof(value), 0);
	ASSERT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
	EXPECT_EQ(4000, value) TH_LOG("none lost, none twice");
}

/* ---- Structures --------------------------------------------------------- */

TEST_F(store, structure_sizes)
{
	struct {
		struct lsmem_op op;
		uint64_t tail[4];
	} large;
	uint8_t *page;
	uint32_t size;

	/* A structure of a later version: accepted if the bytes beyond this version are zero. */
	memset(&large, 0, sizeof(large));
	large.op = lsm_op_read(self->canary, NULL, 0, 0);
	large.op.size = sizeof(large);
	EXPECT_EQ(0, call(&self->store, LSMEM_IOC_READ, &large));
	EXPECT_EQ(sizeof(large), large.op.size) TH_LOG("the caller's size stays");
	large.tail[3] = 1;
	EXPECT_REFUSED(E2BIG, LSMEM_IOC_READ, &large);
	for (size = 0; size < sizeof(struct lsmem_op); size++) {
		large.op = lsm_op_free(self->canary, 0, 0);
		large.op.size = size;
		EXPECT_REFUSED(EINVAL, LSMEM_IOC_FREE, &large);
	}
	large.op.size = ~0u;
	EXPECT_REFUSED(E2BIG, LSMEM_IOC_FREE, &large);

	/* Structures that are not mapped, in whole or in part. */
	page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	ASSERT_EQ(0, munmap(page + PAGE, PAGE));
	EXPECT_REFUSED(EFAULT, LSMEM_IOC_FREE, NULL);
	EXPECT_REFUSED(EFAULT, LSMEM_IOC_FREE, (void *)8);
	EXPECT_REFUSED(EFAULT, LSMEM_IOC_FREE, page + PAGE);
	EXPECT_REFUSED(EFAULT, LSMEM_IOC_FREE, (void *)0xffff888000000000ul);
	large.op = lsm_op_free(self->canary, 0, 0);
	memcpy(page + PAGE - 24, &large.op, 24);
	EXPECT_REFUSED(EFAULT, LSMEM_IOC_FREE, page + PAGE - 24);

	/* A structure that cannot be written: the kernel could not return a result. */
	large.op = lsm_op_alloc("x", 1, 0);
	memcpy(page, &large.op, sizeof(large.op));
	ASSERT_EQ(0, mprotect(page, PAGE, PROT_READ));
	EXPECT_REFUSED(EFAULT, LSMEM_IOC_ALLOC, page);
	munmap(page, PAGE);
}

TEST_F(store, unknown_calls)
{
	struct lsmem_op op = lsm_op_free(self->canary, 0, 0);

	EXPECT_REFUSED(ENOTTY, _IOWR(LSMEM_IOC_MAGIC, 0xcf, struct lsmem_op), &op);
	EXPECT_REFUSED(ENOTTY, _IOWR('M', 0xc5, struct lsmem_op), &op);
	EXPECT_REFUSED(ENOTTY, LSMEM_CTL_DESTROY, &op);
	EXPECT_REFUSED(ENOTTY, LSMEM_REPL_ACK, &op);
	EXPECT_REFUSED(ENOTTY, TCGETS, &op);
	EXPECT_EQ(-1, read(self->store.fd, &op, sizeof(op)));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, write(self->store.fd, &op, sizeof(op)));
	EXPECT_EQ(EINVAL, errno);
}

/* ---- Fields ------------------------------------------------------------- */

TEST_F(store, bad_alloc)
{
	const struct lsmem_op good = lsm_op_alloc("bytes", 5, 0);
	struct lsmem_op op;

#define ALLOC_REFUSED(error, field, value) do {				\
	op = good;							\
	op.field = (value);						\
	EXPECT_REFUSED(error, LSMEM_IOC_ALLOC, &op);			\
} while (0)
	ALLOC_REFUSED(EINVAL, op, 0);
	ALLOC_REFUSED(EINVAL, op, LSMEM_OP_READ);
	ALLOC_REFUSED(EINVAL, op, 5);
	ALLOC_REFUSED(EINVAL, op, ~0u);
	ALLOC_REFUSED(EINVAL, flags, LSMEM_OPF_EXPECT);
	ALLOC_REFUSED(EINVAL, flags, 4);
	ALLOC_REFUSED(EINVAL, flags, 1u << 31);
	ALLOC_REFUSED(EOPNOTSUPP, flags, LSMEM_OPF_DURABLE);
	ALLOC_REFUSED(EINVAL, result, 1);
	ALLOC_REFUSED(EINVAL, handle, 1);
	ALLOC_REFUSED(EINVAL, length, 0);
	ALLOC_REFUSED(EINVAL, length, OBJECT_MAX + 1);
	ALLOC_REFUSED(EINVAL, length, ~0u);
	ALLOC_REFUSED(EINVAL, table, 4096);
	ALLOC_REFUSED(EINVAL, table, ~0u);
	ALLOC_REFUSED(EINVAL, offset, 1);
	ALLOC_REFUSED(EINVAL, object_length, 1);
}

TEST_F(store, bad_read)
{
	uint8_t byte;
	const struct lsmem_op good = lsm_op_read(self->canary, &byte, 1, 0);
	struct lsmem_op op;

#define READ_REFUSED(error, field, value) do {				\
	op = good;							\
	op.field = (value);						\
	EXPECT_REFUSED(error, LSMEM_IOC_READ, &op);			\
} while (0)
	READ_REFUSED(EINVAL, op, LSMEM_OP_FREE);
	READ_REFUSED(EINVAL, flags, LSMEM_OPF_DURABLE);
	READ_REFUSED(EINVAL, flags, LSMEM_OPF_EXPECT);
	READ_REFUSED(EINVAL, flags, 8);
	READ_REFUSED(EINVAL, result, -1);
	READ_REFUSED(EINVAL, length, OBJECT_MAX + 1);
	READ_REFUSED(EINVAL, offset, CANARY + 1);
	READ_REFUSED(EINVAL, offset, ~0u);
	/* Output fields may have any value before, so that an operation can be used again. */
	op = good;
	op.version = op.table = op.object_length = ~0u;
	EXPECT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
	op.length = 1;
	EXPECT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
	EXPECT_EQ(self->canary_version, op.version);
	EXPECT_EQ(CANARY, op.object_length);
}

TEST_F(store, bad_replace)
{
	const struct lsmem_op good = lsm_op_replace(self->canary, "bytes", 5, 0, 0);
	struct lsmem_op op;

#define REPLACE_REFUSED(error, field, value) do {			\
	op = good;							\
	op.field = (value);						\
	EXPECT_REFUSED(error, LSMEM_IOC_REPLACE, &op);			\
} while (0)
	REPLACE_REFUSED(EINVAL, op, LSMEM_OP_ALLOC);
	REPLACE_REFUSED(EINVAL, flags, 4);
	REPLACE_REFUSED(EINVAL, flags, ~0u);
	REPLACE_REFUSED(EOPNOTSUPP, flags, LSMEM_OPF_DURABLE);
	REPLACE_REFUSED(EINVAL, result, 1);
	REPLACE_REFUSED(EINVAL, length, 0);
	REPLACE_REFUSED(EINVAL, length, OBJECT_MAX + 1);
	REPLACE_REFUSED(EINVAL, offset, 1);
	REPLACE_REFUSED(EINVAL, object_length, 1);
	REPLACE_REFUSED(EINVAL, table, 1);
}

TEST_F(store, bad_free)
{
	const struct lsmem_op good = lsm_op_free(self->canary, 0, 0);
	struct lsmem_op op;

#define FREE_REFUSED(error, field, value) do {				\
	op = good;							\
	op.field = (value);						\
	EXPECT_REFUSED(error, LSMEM_IOC_FREE, &op);			\
} while (0)
	FREE_REFUSED(EINVAL, op, LSMEM_OP_REPLACE);
	FREE_REFUSED(EINVAL, flags, 4);
	FREE_REFUSED(EOPNOTSUPP, flags, LSMEM_OPF_DURABLE);
	FREE_REFUSED(EINVAL, result, 1);
	FREE_REFUSED(EINVAL, data, 4096);
	FREE_REFUSED(EINVAL, length, 1);
	FREE_REFUSED(EINVAL, offset, 1);
	FREE_REFUSED(EINVAL, object_length, 1);
	FREE_REFUSED(EINVAL, table, 1);
}

TEST_F(store, bad_sync)
{
	struct lsmem_sync sync = { .size = sizeof(sync) };

	EXPECT_REFUSED(EOPNOTSUPP, LSMEM_IOC_SYNC, &sync);
	sync.flags = 1;
	EXPECT_REFUSED(EINVAL, LSMEM_IOC_SYNC, &sync);
	sync.flags = 0;
	sync.reserved = 1;
	EXPECT_REFUSED(EINVAL, LSMEM_IOC_SYNC, &sync);
	EXPECT_EQ(-1, fsync(self->store.fd));
	EXPECT_EQ(EINVAL, errno) TH_LOG("as fsync(2) says of what cannot be synced");
}

/* ---- Handles ------------------------------------------------------------ */

TEST_F(store, forged_handles)
{
	const uint64_t index_mask = (1ull << 36) - 1;
	uint64_t index = self->canary & index_mask, generation = self->canary >> 36;
	struct {
		uint64_t handle;
		int error;
	} forged[] = {
		{ 0, ENOENT },
		{ index, ENOENT },				/* generation 0 */
		{ (generation + 1) << 36 | index, ENOENT },	/* not allocated yet */
		{ self->canary | 1ull << 63, ENOENT },
		{ 1ull << 36 | (STORE_BYTES / 256), ENOENT },	/* index too high */
		{ 1ull << 36 | index_mask, ENOENT },
		{ ~0ull, ENOENT },
		{ 1ull << 36 | ((index + 1000) % (STORE_BYTES / 256)), ENOENT },
	};
	struct lsmem_op op;
	uint8_t byte;
	size_t i;

	for (i = 0; i < sizeof(forged) / sizeof(*forged); i++) {
		op = lsm_op_read(forged[i].handle, &byte, 1, 0);
		EXPECT_REFUSED(forged[i].error, LSMEM_IOC_READ, &op);
		op = lsm_op_replace(forged[i].handle, "x", 1, 0, 0);
		EXPECT_REFUSED(forged[i].error, LSMEM_IOC_REPLACE, &op);
		op = lsm_op_free(forged[i].handle, 0, 0);
		EXPECT_REFUSED(forged[i].error, LSMEM_IOC_FREE, &op);
	}
}

TEST_F_TIMEOUT(store, stale_handles, 60)
{
	struct store small;
	uint64_t handles[64];
	struct lsmem_op op;
	uint8_t byte = 0;
	int i;

	/* Four indices, used again and again: every old handle stays stale. */
	ASSERT_EQ(0, store_create(&small, STORE_BYTES, 4, 0));
	for (i = 0; i < 64; i++) {
		op = lsm_op_alloc(&byte, 1, 0);
		ASSERT_EQ(0, call(&small, LSMEM_IOC_ALLOC, &op));
		handles[i] = op.handle;
		if (i < 63) {
			op = lsm_op_free(op.handle, 0, 0);
			ASSERT_EQ(0, call(&small, LSMEM_IOC_FREE, &op));
		}
	}
	for (i = 0; i < 63; i++) {
		op = lsm_op_read(handles[i], &byte, 1, 0);
		EXPECT_EQ(-ESTALE, call(&small, LSMEM_IOC_READ, &op));
		op = lsm_op_replace(handles[i], &byte, 1, 0, 0);
		EXPECT_EQ(-ESTALE, call(&small, LSMEM_IOC_REPLACE, &op));
		op = lsm_op_free(handles[i], 0, 0);
		EXPECT_EQ(-ESTALE, call(&small, LSMEM_IOC_FREE, &op));
		EXPECT_EQ(-ESTALE, lsm_read(small.lsm, handles[i], &byte, 1, 0, NULL));
	}
	op = lsm_op_read(handles[63], &byte, 1, 0);
	EXPECT_EQ(0, call(&small, LSMEM_IOC_READ, &op));
	EXPECT_EQ(0, store_destroy(&small));
}

TEST_F(store, no_handle_left)
{
	struct lsmem_stat stat;
	struct store small;
	struct lsmem_op op;
	uint64_t last = 0;
	int i;

	ASSERT_EQ(0, store_create(&small, STORE_BYTES, 16, 0));
	for (i = 0; i < 16; i++) {
		op = lsm_op_alloc("x", 1, 0);
		ASSERT_EQ(0, call(&small, LSMEM_IOC_ALLOC, &op));
		last = op.handle;
	}
	for (i = 0; i < 100; i++) {
		op = lsm_op_alloc("x", 1, 0);
		EXPECT_EQ(-EMFILE, call(&small, LSMEM_IOC_ALLOC, &op));
	}
	ASSERT_EQ(0, get_stat(&small, &stat));
	EXPECT_EQ(16, stat.handles_used);
	EXPECT_EQ(16 * lsmem_entry_size(1), stat.live_bytes);
	op = lsm_op_free(last, 0, 0);
	EXPECT_EQ(0, call(&small, LSMEM_IOC_FREE, &op));
	op = lsm_op_alloc("x", 1, 0);
	EXPECT_EQ(0, call(&small, LSMEM_IOC_ALLOC, &op));
	EXPECT_EQ(0, store_destroy(&small));
}

/* ---- Buffers ------------------------------------------------------------ */

TEST_F_TIMEOUT(store, bad_buffers, 60)
{
	uint8_t *area = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct {
		void *address;
		uint32_t length;
	} bad[] = {
		{ NULL, 1 },
		{ (void *)1, 1 },
		{ area + PAGE, 1 },			/* unmapped */
		{ area, 2 * PAGE },			/* its second page is unmapped */
		{ area + PAGE - 1, 2 },
		{ area + 3 * PAGE, 16 },		/* PROT_NONE */
		{ (void *)0x7ffffffff000ul, 1 },	/* the end of user space */
		{ (void *)0x7fffffffefffull, 2 },
		{ (void *)0x800000000000ul, 16 },	/* not canonical */
		{ (void *)0xffff888000000000ul, 16 },	/* kernel address */
		{ (void *)0xffffffffff600000ul, 16 },	/* vsyscall */
		{ (void *)~0ul, 1 },
		{ (void *)(~0ul - 100), OBJECT_MAX },
	};
	struct lsmem_op op;
	size_t i;

	ASSERT_NE(MAP_FAILED, area);
	memset(area, 0x55, PAGE);
	ASSERT_EQ(0, munmap(area + PAGE, PAGE));
	ASSERT_EQ(0, mprotect(area + 3 * PAGE, PAGE, PROT_NONE));
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		op = lsm_op_alloc(bad[i].address, bad[i].length, 0);
		EXPECT_REFUSED(EFAULT, LSMEM_IOC_ALLOC, &op);
		op = lsm_op_replace(self->canary, bad[i].address, bad[i].length, 0, 0);
		EXPECT_REFUSED(EFAULT, LSMEM_IOC_REPLACE, &op);
		op = lsm_op_read(self->canary, bad[i].address,
				 bad[i].length > CANARY ? CANARY : bad[i].length, 0);
		if (bad[i].address != area)	/* its first page holds all that is read */
			EXPECT_REFUSED(EFAULT, LSMEM_IOC_READ, &op);
	}
	/* A target that is read-only. */
	ASSERT_EQ(0, mprotect(area, PAGE, PROT_READ));
	op = lsm_op_read(self->canary, area, CANARY, 0);
	EXPECT_REFUSED(EFAULT, LSMEM_IOC_READ, &op);
	EXPECT_EQ(0x55, area[0]);
	munmap(area, PAGE);
	munmap(area + 2 * PAGE, 2 * PAGE);
}

TEST_F(store, buffers_in_our_windows)
{
	struct lsm_view view;
	struct lsmem_op op;
	uint8_t bytes[CANARY];
	void *inside;

	/* The source is in the window of seglets: an ordinary copy. */
	ASSERT_EQ(0, lsm_view_begin(self->store.lsm, self->canary, &view));
	inside = view.iov[0].iov_base;
	op = lsm_op_alloc(inside, (uint32_t)view.iov[0].iov_len, 0);
	EXPECT_EQ(0, call(&self->store, LSMEM_IOC_ALLOC, &op));
	EXPECT_EQ(view.iov[0].iov_len,
		  lsm_read(self->store.lsm, op.handle, bytes, sizeof(bytes), 0, NULL));
	EXPECT_EQ(0, memcmp(bytes, self->canary_bytes, view.iov[0].iov_len));
	op = lsm_op_free(op.handle, 0, 0);
	EXPECT_EQ(0, call(&self->store, LSMEM_IOC_FREE, &op));

	/* The target is in the window of seglets, which is read-only. */
	op = lsm_op_read(self->canary, inside, 8, 0);
	EXPECT_REFUSED(EFAULT, LSMEM_IOC_READ, &op);
	/* The argument of the call is in the window of seglets. */
	EXPECT_REFUSED(EINVAL, LSMEM_IOC_QUERY, inside);
	EXPECT_EQ(0, lsm_view_end(self->store.lsm, &view));
}

/* ---- Page faults that block --------------------------------------------- */

struct slow_write {
	const struct store *store;
	struct lsmem_op op;
	unsigned long request;
	int error;
	atomic_bool done;
};

static void *write_slowly(void *argument)
{
	struct slow_write *slow = argument;

	slow->error = call(slow->store, slow->request, &slow->op);
	atomic_store(&slow->done, true);
	return NULL;
}

TEST_F_TIMEOUT(store, userfaultfd_source, 90)
{
	struct slow_write slow[3] = { { 0 } };
	struct lsmem_op op;
	pthread_t threads[3];
	struct uffd_msg message;
	uint8_t page[PAGE], back[2 * PAGE], *pages;
	void *memory;
	uint64_t began;
	int fd, i;

	fd = slow_pages(&memory, 3 * PAGE);
	ASSERT_LE(0, fd);
	pages = memory;
	/* An allocation, a replacement and a read, each of which waits for its own page. */
	slow[0].op = lsm_op_alloc(pages, PAGE, 0);
	slow[0].request = LSMEM_IOC_ALLOC;
	slow[1].op = lsm_op_replace(self->canary, pages + PAGE, PAGE, 0, 0);
	slow[1].request = LSMEM_IOC_REPLACE;
	slow[2].op = lsm_op_read(self->canary, pages + 2 * PAGE, PAGE, 0);
	slow[2].request = LSMEM_IOC_READ;
	for (i = 0; i < 3; i++) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };

		slow[i].store = &self->store;
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, write_slowly, &slow[i]));
		ASSERT_EQ(1, poll(&wait, 1, 20000));
		ASSERT_EQ(sizeof(message), read(fd, &message, sizeof(message)));
		EXPECT_EQ(UFFD_EVENT_PAGEFAULT, message.event);
	}

	/* All three block.  Other writers continue, and write enough to fill every head. */
	began = now_ms();
	content_fill(page, PAGE, 9, 9);
	for (i = 0; i < 8000; i++) {
		op = lsm_op_replace(self->canary, page, PAGE, 0, 0);
		ASSERT_EQ(0, call(&self->store, LSMEM_IOC_REPLACE, &op));
	}
	TH_LOG("8000 writes beside three that hang took %llu ms",
	       (unsigned long long)(now_ms() - began));
	for (i = 0; i < 3; i++)
		EXPECT_FALSE(atomic_load(&slow[i].done));

	for (i = 0; i < 3; i++) {
		struct uffdio_copy copy = {
			.dst = (uintptr_t)pages + i * PAGE,
			.src = (uintptr_t)page,
			.len = PAGE,
		};

		memset(page, 'a' + i, PAGE);
		ASSERT_EQ(0, ioctl(fd, UFFDIO_COPY, &copy));
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, slow[i].error);
	}
	op = lsm_op_read(slow[0].op.handle, back, sizeof(back), 0);
	ASSERT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
	memset(page, 'a', PAGE);
	EXPECT_EQ(PAGE, op.length);
	EXPECT_EQ(0, memcmp(back, page, PAGE));
	op = lsm_op_read(self->canary, back, sizeof(back), 0);
	ASSERT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
	memset(page, 'b', PAGE);
	EXPECT_EQ(0, memcmp(back, page, PAGE)) TH_LOG("the slow replacement came last");
	EXPECT_EQ(0, memcmp(pages + 2 * PAGE, page, PAGE)) TH_LOG("and the slow read saw it");
	close(fd);
	munmap(pages, 3 * PAGE);
}

TEST_F_TIMEOUT(store, killed_while_it_waits, 60)
{
	struct pollfd wait = { .events = POLLIN };
	struct lsmem_op op;
	void *pages;
	int status, pipes[2];
	pid_t child;
	char byte;

	ASSERT_EQ(0, pipe(pipes));
	child = fork();
	if (!child) {
		struct slow_write slow = { .store = &self->store, .request = LSMEM_IOC_ALLOC };
		pthread_t thread;

		wait.fd = slow_pages(&pages, PAGE);
		slow.op = lsm_op_alloc(pages, PAGE, 0);
		pthread_create(&thread, NULL, write_slowly, &slow);
		if (poll(&wait, 1, 20000) == 1 && write(pipes[1], "w", 1) == 1)
			pause();
		_exit(1);
	}
	close(pipes[1]);
	ASSERT_EQ(1, read(pipes[0], &byte, 1));
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_UNCHANGED();
	op = lsm_op_replace(self->canary, "x", 1, 0, 0);
	EXPECT_EQ(0, call(&self->store, LSMEM_IOC_REPLACE, &op));
	close(pipes[0]);
}

/* ---- Vectors ------------------------------------------------------------ */

static int vector(const struct store *store, struct lsmem_op *ops, uint32_t nr,
		  struct lsmem_vector *vector)
{
	*vector = (struct lsmem_vector){
		.size = sizeof(*vector),
		.ops = (uintptr_t)ops,
		.nr = nr,
		.stride = sizeof(*ops),
	};
	return call(store, LSMEM_IOC_VECTOR, vector);
}

TEST_F(store, vector)
{
	struct lsmem_op ops[8];
	struct lsmem_vector done;
	uint8_t bytes[CANARY];

	ops[0] = lsm_op_alloc("first", 5, LSM_TABLE(7));
	ops[1] = lsm_op_read(self->canary, bytes, sizeof(bytes), 0);
	ops[2] = lsm_op_replace(self->canary, "x", 1, LSM_EXPECT, 1);	/* wrong version */
	ops[3] = lsm_op_free(~0ull, 0, 0);				/* no such object */
	ops[4] = lsm_op_alloc(NULL, 10, 0);				/* bad source */
	ops[5] = lsm_op_alloc("x", 1, 0);
	ops[5].op = 99;							/* unknown operation */
	ops[6] = lsm_op_alloc("x", 1, 0);
	ops[6].size = 8;						/* bad size */
	ops[7] = lsm_op_alloc("last", 4, 0);
	ASSERT_EQ(0, vector(&self->store, ops, 8, &done));
	EXPECT_EQ(8, done.nr);
	EXPECT_EQ(0, ops[0].result);
	EXPECT_EQ(0, ops[1].result);
	EXPECT_EQ(0, memcmp(bytes, self->canary_bytes, CANARY));
	EXPECT_EQ(-EILSEQ, ops[2].result);
	EXPECT_EQ(self->canary_version, ops[2].version);
	EXPECT_EQ(-ENOENT, ops[3].result);
	EXPECT_EQ(-EFAULT, ops[4].result);
	EXPECT_EQ(-EINVAL, ops[5].result);
	EXPECT_EQ(-EINVAL, ops[6].result);
	EXPECT_EQ(0, ops[7].result);

	/* Another vector reads and frees the objects that this one allocated. */
	ops[1] = lsm_op_read(ops[0].handle, bytes, sizeof(bytes), 0);
	ops[2] = lsm_op_free(ops[0].handle, LSM_EXPECT, ops[0].version);
	ops[3] = lsm_op_free(ops[7].handle, 0, 0);
	ops[4] = lsm_op_free(ops[7].handle, 0, 0);
	ASSERT_EQ(0, vector(&self->store, ops + 1, 4, &done));
	EXPECT_EQ(0, ops[1].result);
	EXPECT_EQ(5, ops[1].length);
	EXPECT_EQ(7, ops[1].table);
	EXPECT_EQ(0, memcmp(bytes, "first", 5));
	EXPECT_EQ(0, ops[2].result);
	EXPECT_EQ(0, ops[3].result);
	EXPECT_EQ(-ESTALE, ops[4].result);
	EXPECT_UNCHANGED();
}

/*
 * Operations beside each other share an append.  What a vector does, and what it says, is what
 * single calls in the same order would do and say.
 */
#define MODEL_OBJECTS	24u
#define MODEL_LENGTH	3000u
#define MODEL_OPS	70u

struct model_object {
	uint64_t handle;	/* 0: none yet, or freed */
	uint64_t version;
	uint64_t serial;	/* of its content */
	uint32_t length;
};

/* Make a random operation on @object. @bytes: room for its payload. */
static struct lsmem_op model_op(uint64_t *state, const struct model_object *object, uint8_t *bytes,
				uint64_t serial)
{
	uint32_t length = 1 + (uint32_t)random_below(state, random_below(state, 4) ? 200 :
							    MODEL_LENGTH);
	unsigned int flags = random_below(state, 4) ? 0 : LSM_EXPECT;
	uint64_t version = object->version + !random_below(state, 3);
	struct lsmem_op op;

	content_fill(bytes, length, 77, serial);
	if (!object->handle) {
		op = lsm_op_alloc(bytes, length, LSM_TABLE(3));
	} else if (random_below(state, 12)) {
		op = lsm_op_replace(object->handle, bytes, length, flags, version);
		if (!random_below(state, 16))
			op.data = 8;	/* not mapped */
	} else {
		op = lsm_op_free(object->handle, flags, version);
	}
	return op;
}

/* Carry out @op in the model. Returns NULL, or what is wrong with what the kernel has said. */
static const char *model_apply(struct model_object *object, const struct lsmem_op *op,
			       uint64_t asked, uint64_t serial)
{
	int want = 0;

	if (op->op != LSMEM_OP_ALLOC && !object->handle)
		want = -ESTALE;		/* freed by an earlier operation of the vector */
	else if (op->data == 8)
		want = -EFAULT;
	if ((!want || want == -EFAULT) && op->flags & LSMEM_OPF_EXPECT &&
	    asked != object->version)
		want = -EILSEQ;
	if (op->result != want)
		return "result";
	if (want == -EILSEQ && op->version != object->version)
		return "the version that is told";
	if (want)
		return NULL;
	if (op->op != LSMEM_OP_ALLOC && op->version <= object->version)
		return "the new version";
	*object = (struct model_object){ op->handle, op->version, serial, op->length };
	if (op->op == LSMEM_OP_FREE)
		object->handle = 0;
	return NULL;
}

TEST_F_TIMEOUT(store, vector_model, 60)
{
	uint8_t *bytes = malloc((size_t)MODEL_OPS * MODEL_LENGTH), back[MODEL_LENGTH];
	uint64_t state = test_seed, rounds = test_scaled(300), round, serial = 0, i;
	uint64_t asked[MODEL_OPS], first;
	struct model_object objects[MODEL_OBJECTS] = { 0 };
	struct lsmem_op ops[MODEL_OPS], op;
	uint32_t which[MODEL_OPS], nr;
	struct lsmem_vector done;
	const char *wrong;

	ASSERT_NE(NULL, bytes);
	for (round = 0; round < rounds; round++) {
		bool taken[MODEL_OBJECTS] = { 0 };

		nr = 2 + (uint32_t)random_below(&state, MODEL_OPS - 1);
		first = serial;
		for (i = 0; i < nr; i++, serial++) {
			which[i] = (uint32_t)random_below(&state, MODEL_OBJECTS);
			/* The handle of an allocation is known after the vector. */
			if (!objects[which[i]].handle && taken[which[i]])
				break;
			taken[which[i]] = true;
			ops[i] = model_op(&state, &objects[which[i]], bytes + i * MODEL_LENGTH,
					  serial);
			asked[i] = ops[i].version;
		}
		nr = (uint32_t)i;
		ASSERT_EQ(0, vector(&self->store, ops, nr, &done));
		ASSERT_EQ(nr, done.nr);
		for (i = 0; i < nr; i++) {
			wrong = model_apply(&objects[which[i]], &ops[i], asked[i], first + i);
			ASSERT_EQ(NULL, wrong)
				TH_LOG("round %llu, operation %llu of %u: %s", (unsigned long long)round,
				       (unsigned long long)i, nr, wrong);
		}
		for (i = 0; i < MODEL_OBJECTS; i++) {
			if (!objects[i].handle)
				continue;
			op = lsm_op_read(objects[i].handle, back, sizeof(back), 0);
			ASSERT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
			ASSERT_EQ(objects[i].length, op.object_length);
			ASSERT_EQ(objects[i].version, op.version);
			ASSERT_TRUE(content_is(back, op.length, 77, objects[i].serial));
		}
	}
	for (i = 0; i < MODEL_OBJECTS; i++) {
		op = lsm_op_free(objects[i].handle, 0, 0);
		if (objects[i].handle)
			EXPECT_EQ(0, call(&self->store, LSMEM_IOC_FREE, &op));
	}
	EXPECT_UNCHANGED();
	free(bytes);
}

/* Sources that are not in memory yet, between others that are. */
TEST_F(store, vector_of_new_pages)
{
	struct lsmem_op ops[16], op;
	struct lsmem_vector done;
	uint8_t *fresh, bytes[PAGE], zero[PAGE] = { 0 };
	uint32_t i;

	fresh = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, fresh);
	for (i = 0; i < 16; i++) {
		if (i % 5 == 0)
			fresh[i * PAGE] = 0;
		ops[i] = lsm_op_alloc(fresh + i * PAGE, 1000, 0);
	}
	ASSERT_EQ(0, vector(&self->store, ops, 16, &done));
	EXPECT_EQ(16, done.nr);
	for (i = 0; i < 16; i++) {
		EXPECT_EQ(0, ops[i].result);
		op = lsm_op_read(ops[i].handle, bytes, sizeof(bytes), 0);
		EXPECT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
		EXPECT_EQ(1000, op.object_length);
		EXPECT_EQ(0, memcmp(bytes, zero, 1000));
		op = lsm_op_free(ops[i].handle, 0, 0);
		EXPECT_EQ(0, call(&self->store, LSMEM_IOC_FREE, &op));
	}
	EXPECT_UNCHANGED();
	munmap(fresh, 16 * PAGE);
}

TEST_F(store, bad_vector)
{
	struct lsmem_query query = { .size = sizeof(query) };
	struct lsmem_op op = lsm_op_free(self->canary, 0, 0);
	const struct lsmem_vector good = {
		.size = sizeof(good),
		.ops = (uintptr_t)&op,
		.nr = 1,
		.stride = sizeof(op),
	};
	struct lsmem_vector bad;
	struct {
		struct lsmem_op op;
		uint64_t tail;
	} large[2];
	uint8_t *area;
	uint32_t i;

	ASSERT_EQ(0, call(&self->store, LSMEM_IOC_QUERY, &query));
#define VECTOR_REFUSED(error, field, value) do {			\
	bad = good;							\
	bad.field = (value);						\
	EXPECT_REFUSED(error, LSMEM_IOC_VECTOR, &bad);			\
} while (0)
	VECTOR_REFUSED(EINVAL, flags, LSMEM_OPF_EXPECT);
	VECTOR_REFUSED(EINVAL, flags, 1u << 31);
	VECTOR_REFUSED(EOPNOTSUPP, flags, LSMEM_OPF_DURABLE);
	VECTOR_REFUSED(EINVAL, nr, 0);
	VECTOR_REFUSED(EINVAL, nr, query.vector_max + 1);
	VECTOR_REFUSED(EINVAL, nr, ~0u);
	VECTOR_REFUSED(EINVAL, stride, 0);
	VECTOR_REFUSED(EINVAL, stride, sizeof(op) - 8);
	VECTOR_REFUSED(EINVAL, stride, sizeof(op) + 1);
	VECTOR_REFUSED(EINVAL, stride, ~0u);
	VECTOR_REFUSED(EFAULT, ops, 0);
	VECTOR_REFUSED(EFAULT, ops, 8);
	VECTOR_REFUSED(EFAULT, ops, ~0ull - 63);
	VECTOR_REFUSED(EFAULT, ops, 0xffff888000000000ull);
	VECTOR_REFUSED(EINVAL, size, sizeof(bad) - 4);
	EXPECT_EQ(0, op.result) TH_LOG("no vector was looked into");

	/* Operations of a later version: the bytes beyond this version must be zero. */
	for (i = 0; i < 2; i++) {
		large[i].op = lsm_op_read(self->canary, NULL, 0, 0);
		large[i].op.size = sizeof(large[i]);
		large[i].tail = i;
	}
	bad = good;
	bad.ops = (uintptr_t)large;
	bad.nr = 2;
	bad.stride = sizeof(*large);
	EXPECT_EQ(0, call(&self->store, LSMEM_IOC_VECTOR, &bad));
	EXPECT_EQ(0, large[0].op.result);
	EXPECT_EQ(-E2BIG, large[1].op.result);

	/* The third operation is not mapped: the kernel carries out two, and returns nr = 2. */
	area = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, area);
	ASSERT_EQ(0, munmap(area + PAGE, PAGE));
	for (i = 0; i < 2; i++) {
		op = lsm_op_read(self->canary, NULL, 0, 0);
		memcpy(area + PAGE - (2 - i) * sizeof(op), &op, sizeof(op));
	}
	bad = good;
	bad.ops = (uintptr_t)area + PAGE - 2 * sizeof(op);
	bad.nr = 3;
	EXPECT_REFUSED(EFAULT, LSMEM_IOC_VECTOR, &bad);
	EXPECT_EQ(2, bad.nr);

	/* An operation that cannot be written: the kernel could not return its result. */
	op = lsm_op_alloc("x", 1, 0);
	memcpy(area, &op, sizeof(op));
	ASSERT_EQ(0, mprotect(area, PAGE, PROT_READ));
	bad = good;
	bad.ops = (uintptr_t)area;
	EXPECT_REFUSED(EFAULT, LSMEM_IOC_VECTOR, &bad);
	munmap(area, PAGE);
}

/* ---- Full --------------------------------------------------------------- */

TEST_F_TIMEOUT(store, full, 110)
{
	const uint32_t length = 256u << 10;
	uint8_t *bytes = malloc(length), *back = malloc(length);
	uint64_t *handles = calloc(4096, sizeof(*handles)), state = test_seed, serial;
	uint32_t nr = 0, i, wrong = 0;
	struct lsmem_stat stat;
	struct lsmem_op op;
	int ret;

	ASSERT_TRUE(bytes && back && handles);
	for (;;) {
		content_fill(bytes, length, nr, 0);
		op = lsm_op_alloc(bytes, length, 0);
		ret = call(&self->store, LSMEM_IOC_ALLOC, &op);
		if (ret)
			break;
		handles[nr++] = op.handle;
	}
	EXPECT_EQ(-ENOSPC, ret);
	ASSERT_EQ(0, get_stat(&self->store, &stat));
	EXPECT_LT(stat.capacity / 100 * 95, stat.live_bytes) TH_LOG("it took what it promised");
	EXPECT_GE(stat.capacity, stat.live_bytes);
	TH_LOG("%u objects of 256 KiB, then ENOSPC", nr);

	/* A full store accepts any number of replacements that need no more space. */
	for (i = 0; i < 200; i++) {
		uint32_t which = (uint32_t)(random_next(&state) % nr);

		content_fill(bytes, length, which, i + 1);
		op = lsm_op_replace(handles[which], bytes, length, 0, 0);
		ret = call(&self->store, LSMEM_IOC_REPLACE, &op);
		ASSERT_EQ(0, ret) TH_LOG("replacement %u of a full store", i);
	}
	op = lsm_op_replace(self->canary, bytes, length, 0, 0);
	EXPECT_EQ(-ENOSPC, call(&self->store, LSMEM_IOC_REPLACE, &op)) TH_LOG("not more");
	for (i = 0; i < nr; i++) {
		op = lsm_op_read(handles[i], back, length, 0);
		ASSERT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
		wrong += op.length != length || !content_right(back, length, i, &serial);
	}
	EXPECT_EQ(0, wrong);
	ASSERT_EQ(0, get_stat(&self->store, &stat));
	EXPECT_LT(0, made_room(&stat));
	/* A full store can be emptied. */
	for (i = 0; i < nr; i++) {
		op = lsm_op_free(handles[i], 0, 0);
		ASSERT_EQ(0, call(&self->store, LSMEM_IOC_FREE, &op));
	}
	EXPECT_UNCHANGED();
	free(bytes);
	free(back);
	free(handles);
}

/*
 * A replacement by shorter data frees space only when it succeeds; no other caller may use that
 * space before.  Here the source blocks, and then it is unmapped.
 */
TEST_F_TIMEOUT(store, full_and_a_slow_source, 60)
{
	struct slow_write slow = { .store = &self->store, .request = LSMEM_IOC_REPLACE };
	struct pollfd wait = { .events = POLLIN };
	uint8_t *bytes = calloc(1, OBJECT_MAX);
	uint64_t large = 0, handle;
	struct lsmem_stat stat;
	struct lsmem_op op;
	uint32_t length;
	pthread_t thread;
	void *pages;

	ASSERT_NE(NULL, bytes);
	for (length = OBJECT_MAX; length >= 65536; length /= 4)
		while (!lsm_alloc(self->store.lsm, bytes, length, 0, &handle, NULL))
			if (length == OBJECT_MAX)
				large = handle;
	ASSERT_NE(0, large);
	ASSERT_EQ(0, get_stat(&self->store, &self->before));
	wait.fd = slow_pages(&pages, PAGE);
	ASSERT_LE(0, wait.fd);
	slow.op = lsm_op_replace(large, pages, 1, 0, 0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, write_slowly, &slow));
	ASSERT_EQ(1, poll(&wait, 1, 20000));
	EXPECT_UNCHANGED();
	op = lsm_op_alloc(bytes, OBJECT_MAX / 2, 0);
	EXPECT_EQ(-ENOSPC, call(&self->store, LSMEM_IOC_ALLOC, &op));
	ASSERT_EQ(0, munmap(pages, PAGE));
	close(wait.fd);
	pthread_join(thread, NULL);
	EXPECT_EQ(-EFAULT, slow.error);
	EXPECT_UNCHANGED();
	ASSERT_EQ(0, get_stat(&self->store, &stat));
	EXPECT_GE(stat.capacity, stat.live_bytes);

	/* A replacement by shorter data that succeeds does free space. */
	op = lsm_op_replace(large, bytes, 1, 0, 0);
	EXPECT_EQ(0, call(&self->store, LSMEM_IOC_REPLACE, &op));
	ASSERT_EQ(0, get_stat(&self->store, &stat));
	EXPECT_EQ(self->before.live_bytes - lsmem_entry_size(OBJECT_MAX) + lsmem_entry_size(1),
		  stat.live_bytes);
	op = lsm_op_alloc(bytes, OBJECT_MAX / 2, 0);
	EXPECT_EQ(0, call(&self->store, LSMEM_IOC_ALLOC, &op));
	free(bytes);
}

/* ---- Rare events, by fault injection ------------------------------------ */

#define REQUIRE_FAULT(name, times) do {						\
	if (!store_fault(&self->store, name, times))				\
		SKIP(return, "this kernel has no fault injection");		\
} while (0)

/* An append that finds no space waits up to stall_ms, then fails and changes nothing. */
TEST_F(store, stall)
{
	struct lsmem_op op;
	uint64_t begin;

	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", 200));
	REQUIRE_FAULT("no_space", 1);
	op = lsm_op_replace(self->canary, self->canary_bytes, CANARY, 0, 0);
	begin = now_ms();
	EXPECT_REFUSED(ENOSPC, LSMEM_IOC_REPLACE, &op);
	EXPECT_LE(200, now_ms() - begin);
	EXPECT_EQ(1, store_attribute(&self->store, "stats/stalls"));
	op = lsm_op_replace(self->canary, self->canary_bytes, CANARY, 0, 0);
	EXPECT_EQ(0, call(&self->store, LSMEM_IOC_REPLACE, &op));
	EXPECT_EQ(1, store_attribute(&self->store, "stats/stalls"));
}

/* Segments that are closed before they are full: each append opens one; all contents are right. */
TEST_F(store, segments_that_end_early)
{
	uint64_t handles[5], serial;
	uint8_t bytes[CANARY];
	struct lsmem_op op;
	long long segments;
	uint32_t i;

	REQUIRE_FAULT("segment_full", 0);
	segments = store_attribute(&self->store, "segments");
	ASSERT_TRUE(store_fault(&self->store, "segment_full", 3));
	for (i = 0; i < 5; i++) {
		content_fill(bytes, CANARY, i, i);
		op = lsm_op_alloc(bytes, CANARY, 0);
		ASSERT_EQ(0, call(&self->store, LSMEM_IOC_ALLOC, &op));
		handles[i] = op.handle;
	}
	EXPECT_LE(segments + 3, store_attribute(&self->store, "segments"));
	for (i = 0; i < 5; i++) {
		op = lsm_op_read(handles[i], bytes, CANARY, 0);
		ASSERT_EQ(0, call(&self->store, LSMEM_IOC_READ, &op));
		EXPECT_TRUE(content_right(bytes, CANARY, i, &serial) && serial == i);
	}
}

/* ---- Permissions -------------------------------------------------------- */

TEST_F(store, open_modes)
{
	struct lsmem_op op;
	uint8_t byte;
	int fd;

	fd = open(self->store.path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	op = lsm_op_alloc("x", 1, 0);
	EXPECT_EQ(-1, ioctl(fd, LSMEM_IOC_ALLOC, &op));
	EXPECT_EQ(EBADF, errno);
	op = lsm_op_replace(self->canary, "x", 1, 0, 0);
	EXPECT_EQ(-1, ioctl(fd, LSMEM_IOC_REPLACE, &op));
	EXPECT_EQ(EBADF, errno);
	op = lsm_op_free(self->canary, 0, 0);
	EXPECT_EQ(-1, ioctl(fd, LSMEM_IOC_FREE, &op));
	EXPECT_EQ(EBADF, errno);
	op = lsm_op_read(self->canary, &byte, 1, 0);
	EXPECT_EQ(0, ioctl(fd, LSMEM_IOC_READ, &op));
	close(fd);
	fd = open(self->store.path, O_WRONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, ioctl(fd, LSMEM_IOC_READ, &op));
	EXPECT_NE(0, errno);
	op = lsm_op_replace(self->canary, self->canary_bytes, CANARY, 0, 0);
	EXPECT_EQ(0, ioctl(fd, LSMEM_IOC_REPLACE, &op));
	self->canary_version = op.version;
	close(fd);
	EXPECT_UNCHANGED();
}

/* ---- Killed ------------------------------------------------------------- */

TEST_F_TIMEOUT(store, killed_at_any_moment, 90)
{
	uint64_t state = test_seed;
	struct lsmem_stat stat;
	int round, status;

	for (round = 0; round < 10; round++) {
		pid_t child = fork();

		if (!child) {
			static uint8_t bytes[100000];
			struct lsmem_op op;

			for (;;) {
				uint32_t length = (uint32_t)(random_next(&state) %
							     sizeof(bytes)) + 1;

				op = lsm_op_alloc(bytes, length, 0);
				if (ioctl(self->store.fd, LSMEM_IOC_ALLOC, &op))
					_exit(1);
				op = lsm_op_free(op.handle, 0, 0);
				if (ioctl(self->store.fd, LSMEM_IOC_FREE, &op))
					_exit(2);
			}
		}
		usleep((useconds_t)(20000 + random_next(&state) % 60000));
		ASSERT_EQ(0, kill(child, SIGKILL));
		ASSERT_EQ(child, waitpid(child, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status)) TH_LOG("the child failed: %#x", status);
	}
	/* Each child may leave one object that it has not freed. */
	ASSERT_EQ(0, get_stat(&self->store, &stat));
	EXPECT_GE(self->before.handles_used + 10, stat.handles_used);
	EXPECT_GE(self->before.live_bytes + 10 * lsmem_entry_size(100000), stat.live_bytes);
}

TEST_HARNESS_MAIN
