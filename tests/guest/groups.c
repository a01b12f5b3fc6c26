// SPDX-License-Identifier: GPL-2.0
/*
 * Vector calls with LSMEM_OPF_ATOMIC: all operations are carried out or none.
 *
 * At rest every way in which one operation can fail must leave the other objects as they are.  Then threads move
 * amounts between accounts, each by a group that expects the versions that it has read, while others replace and move
 * single accounts, and cleaners move all.  No amount is lost or made, in any snapshot either.
 *
 * What a crash leaves of a group: tests/power/objects.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <lsmem/lsmem_format.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "follower.h"
#include "kselftest_harness.h"
#include "store.h"

#define MOST		256u		/* operations in a group */
#define LENGTH		1000u
#define NR		6u		/* operations of the groups at rest */
#define NO_OPERATION		~0u

FIXTURE(groups) {
	struct store store;
	struct follower follower;
	uint8_t *bytes;
};

FIXTURE_VARIANT(groups) {
	bool backed;
};

FIXTURE_VARIANT_ADD(groups, unbacked) {
	.backed = false,
};

FIXTURE_VARIANT_ADD(groups, backed) {
	.backed = true,
};

FIXTURE_SETUP(groups)
{
	self->bytes = malloc(OBJECT_MAX + 1);
	ASSERT_TRUE(self->bytes);
	if (!variant->backed) {
		ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, 0));
		return;
	}
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_start(&self->follower, self->store.name));
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
}

FIXTURE_TEARDOWN(groups)
{
	EXPECT_EQ(0, store_livemap(&self->store, NULL));
	if (variant->backed) {
		follower_stop(&self->follower);
		EXPECT_STREQ("", self->follower.wrong);
	}
	EXPECT_EQ(0, store_destroy(&self->store));
	if (variant->backed)
		follower_free(&self->follower);
	free(self->bytes);
}

/* ---- At rest ---------------------------------------------------------------------- */

/* Objects, and a group that replaces, frees and makes some. */
struct rest {
	uint64_t handles[NR];
	uint64_t versions[NR];
	struct lsmem_op ops[MOST + 1];
	struct lsmem_stat before;
};

static int rest_begin(struct _test_data_groups *self, struct rest *rest)
{
	struct lsm *lsm = self->store.lsm;
	uint32_t i;
	int ret = 0;

	memset(rest, 0, sizeof(*rest));
	for (i = 0; i < NR && !ret; i++) {
		content_fill(self->bytes, LENGTH, i, 1);
		ret = lsm_alloc(lsm, self->bytes, LENGTH, LSM_TABLE(i), &rest->handles[i], &rest->versions[i]);
	}
	/* All have the same payload: that of serial 2. */
	content_fill(self->bytes, LENGTH, 0, 2);
	for (i = 0; i < NR; i++) {
		if (i % 3 == 0)
			rest->ops[i] = lsm_op_replace(rest->handles[i], self->bytes, LENGTH, LSM_EXPECT,
						      rest->versions[i]);
		else if (i % 3 == 1)
			rest->ops[i] = lsm_op_free(rest->handles[i], 0, 0);
		else
			rest->ops[i] = lsm_op_alloc(self->bytes, LENGTH, LSM_TABLE(77));
	}
	return ret ?: lsm_stat(lsm, &rest->before);
}

/* Is the object what rest_begin() has made? */
static bool rest_is_old(struct _test_data_groups *self, const struct rest *rest, uint32_t i)
{
	uint8_t bytes[LENGTH];
	struct lsm_object object;

	return lsm_read(self->store.lsm, rest->handles[i], bytes, LENGTH, 0, &object) == LENGTH &&
	       content_is(bytes, LENGTH, i, 1) && object.version == rest->versions[i] && object.table == i;
}

/*
 * Make a group that is refused with @error, which is that of operation @failing; NO_OPERATION: of none.  What is not as
 * it should be then?  NULL: all is.
 */
static const char *refused(struct _test_data_groups *self, struct rest *rest, uint32_t nr, int error,
			   uint32_t failing)
{
	struct lsmem_stat stat;
	size_t done = 1;
	uint32_t i;

	if (lsm_vector(self->store.lsm, rest->ops, nr, LSM_ATOMIC, &done) != -error)
		return "the error";
	if (done)
		return "the number of operations";
	for (i = 0; failing != NO_OPERATION && i < nr; i++)
		if (rest->ops[i].result != (i == failing ? -error : -ECANCELED))
			return "a result";
	for (i = 0; i < NR; i++)
		if (!rest_is_old(self, rest, i))
			return "an object";
	if (lsm_stat(self->store.lsm, &stat) || stat.live_bytes != rest->before.live_bytes)
		return "the live bytes";
	return stat.handles_used == rest->before.handles_used ? NULL : "the handles";
}

#define EXPECT_NONE(nr, error, failing) do {				\
	const char *what = refused(self, &rest, nr, error, failing);	\
									\
	EXPECT_EQ(NULL, what) TH_LOG("%s", what);			\
} while (0)

/* All are carried out: with one version, and as one append. */
TEST_F(groups, all)
{
	struct rest rest;
	struct lsm_object object;
	uint64_t version;
	size_t done;
	uint32_t i;

	ASSERT_EQ(0, rest_begin(self, &rest));
	ASSERT_EQ(0, lsm_vector(self->store.lsm, rest.ops, NR, LSM_ATOMIC | (variant->backed ? LSM_DURABLE : 0),
				&done));
	EXPECT_EQ(NR, done);
	version = rest.ops[0].version;
	EXPECT_LT(rest.versions[NR - 1], version);
	for (i = 0; i < NR; i++) {
		EXPECT_EQ(0, rest.ops[i].result);
		EXPECT_EQ(version, rest.ops[i].version);
		if (i % 3 == 1) {
			EXPECT_EQ(-ESTALE, lsm_read(self->store.lsm, rest.handles[i], self->bytes, LENGTH, 0, NULL));
			continue;
		}
		EXPECT_EQ(LENGTH, lsm_read(self->store.lsm, rest.ops[i].handle, self->bytes, LENGTH, 0, &object));
		EXPECT_TRUE(content_is(self->bytes, LENGTH, 0, 2));
		EXPECT_EQ(version, object.version);
		EXPECT_EQ(i % 3 ? 77 : i, object.table);
	}
	/* A group of one. */
	rest.ops[0] = lsm_op_free(rest.handles[0], LSM_EXPECT, version);
	EXPECT_EQ(0, lsm_vector(self->store.lsm, rest.ops, 1, LSM_ATOMIC, NULL));
	EXPECT_EQ(-ESTALE, lsm_read(self->store.lsm, rest.handles[0], self->bytes, LENGTH, 0, NULL));
}

/* Each operation in turn fails: none is carried out. */
TEST_F(groups, none)
{
	struct lsmem_op right;
	struct rest rest;
	uint64_t stale;
	uint32_t i;

	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, 0, &stale, NULL));
	ASSERT_EQ(0, lsm_free(self->store.lsm, stale, 0, NULL));
	ASSERT_EQ(0, rest_begin(self, &rest));
	for (i = 0; i < NR; i++) {
		right = rest.ops[i];
		if (i % 3 != 2) {
			rest.ops[i].flags = LSM_EXPECT;
			rest.ops[i].version = 5;
			EXPECT_NONE(NR, EILSEQ, i);
			EXPECT_EQ(rest.versions[i], rest.ops[i].version);
			rest.ops[i] = right;
			rest.ops[i].handle = stale;
			EXPECT_NONE(NR, ESTALE, i);
			rest.ops[i].handle = 0;
			EXPECT_NONE(NR, ENOENT, i);
			rest.ops[i].handle = rest.handles[(i + 3) % NR];
			EXPECT_NONE(NR, EINVAL, i > 2 ? i : i + 3);
		} else {
			rest.ops[i].table = 4096;
			EXPECT_NONE(NR, EINVAL, i);
		}
		if (i % 3 != 1) {
			rest.ops[i] = right;
			rest.ops[i].data = 8;
			EXPECT_NONE(NR, EFAULT, i);
			rest.ops[i] = right;
			rest.ops[i].length = 0;
			EXPECT_NONE(NR, EINVAL, i);
		}
		rest.ops[i] = lsm_op_read(rest.handles[i], self->bytes, LENGTH, 0);
		EXPECT_NONE(NR, EINVAL, i);
		rest.ops[i] = right;
		rest.ops[i].op = 9;
		EXPECT_NONE(NR, EINVAL, i);
		rest.ops[i] = right;
	}
	EXPECT_EQ(0, lsm_vector(self->store.lsm, rest.ops, NR, LSM_ATOMIC, NULL));
}

/* The bounds: 256 operations, 1 MiB of payloads; and that of the store. */
TEST_F(groups, bounds)
{
	struct rest rest;
	struct lsmem_stat stat;
	uint64_t handle;
	uint32_t i;
	int ret;

	ASSERT_EQ(0, rest_begin(self, &rest));
	for (i = 0; i <= MOST; i++)
		rest.ops[i] = lsm_op_alloc(self->bytes, OBJECT_MAX / MOST, 0);
	EXPECT_NONE(MOST + 1, E2BIG, NO_OPERATION);
	rest.ops[7].length++;
	EXPECT_NONE(MOST, E2BIG, NO_OPERATION);
	rest.ops[7].length--;
	EXPECT_EQ(0, lsm_vector(self->store.lsm, rest.ops, MOST, LSM_ATOMIC, NULL));
	for (i = 0; i < MOST; i++)
		rest.ops[i] = lsm_op_free(rest.ops[i].handle, 0, 0);
	EXPECT_EQ(0, lsm_vector(self->store.lsm, rest.ops, MOST, LSM_ATOMIC, NULL));
	/* Up to the capacity. */
	do {
		ret = lsm_alloc(self->store.lsm, self->bytes, OBJECT_MAX / 2, 0, &handle, NULL);
	} while (!ret);
	ASSERT_EQ(-ENOSPC, ret);
	do {
		ret = lsm_alloc(self->store.lsm, self->bytes, 4 * LENGTH, 0, &handle, NULL);
	} while (!ret);
	ASSERT_EQ(-ENOSPC, ret);
	ASSERT_EQ(0, lsm_stat(self->store.lsm, &rest.before));
	for (i = 0; i < NR; i++)
		rest.ops[i] = lsm_op_replace(rest.handles[i], self->bytes, 2 * LENGTH, 0, 0);
	EXPECT_NONE(NR, ENOSPC, NO_OPERATION);
	/* Can always delete. */
	for (i = 0; i < NR; i++)
		rest.ops[i] = lsm_op_free(rest.handles[i], 0, 0);
	EXPECT_EQ(0, lsm_vector(self->store.lsm, rest.ops, NR, LSM_ATOMIC, NULL));
	ASSERT_EQ(0, lsm_stat(self->store.lsm, &stat));
	EXPECT_GT(rest.before.live_bytes, stat.live_bytes);
}

/* Fields of the call, and descriptors that may not change anything. */
TEST_F(groups, fields)
{
	struct rest rest;
	struct lsmem_vector vector = {
		.size = sizeof(vector), .flags = LSMEM_OPF_ATOMIC, .nr = NR, .stride = sizeof(rest.ops[0]),
	};
	struct lsmem_query query = { .size = sizeof(query) };
	int fd;

	ASSERT_EQ(0, rest_begin(self, &rest));
	ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_QUERY, &query));
	EXPECT_TRUE(query.features & LSMEM_FEATURE_ATOMIC);
	EXPECT_EQ(MOST, query.group_max);
	vector.ops = (uintptr_t)rest.ops;
	vector.flags |= LSMEM_OPF_EXPECT;
	EXPECT_EQ(-1, ioctl(self->store.fd, LSMEM_IOC_VECTOR, &vector));
	EXPECT_EQ(EINVAL, errno);
	vector.flags = LSMEM_OPF_ATOMIC;
	EXPECT_TRUE(query.features & LSMEM_FEATURE_CHECK);
	/* An operation has no such flag. */
	rest.ops[2].flags = LSMEM_OPF_ATOMIC;
	EXPECT_NONE(NR, EINVAL, 2);
	rest.ops[2].flags = 0;
	/* A size of an operation that cannot be. */
	rest.ops[3].size = 8;
	EXPECT_NONE(NR, EINVAL, 3);
	rest.ops[3].size = sizeof(rest.ops[0]) + 8;
	EXPECT_NONE(NR, EINVAL, 3);
	rest.ops[3].size = sizeof(rest.ops[0]);
	vector.ops = 8;
	EXPECT_EQ(-1, ioctl(self->store.fd, LSMEM_IOC_VECTOR, &vector));
	EXPECT_EQ(EFAULT, errno);
	vector.ops = (uintptr_t)rest.ops;
	vector.nr = NR;
	fd = open(self->store.path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, ioctl(fd, LSMEM_IOC_VECTOR, &vector));
	EXPECT_EQ(EBADF, errno);
	EXPECT_EQ(0, vector.nr);
	close(fd);
	EXPECT_TRUE(rest_is_old(self, &rest, 0));
}

/* What is checked stays as it is, and the others are made only if it is what was expected. */
TEST_F(groups, check)
{
	struct lsm *lsm = self->store.lsm;
	struct lsmem_op ops[3];
	struct lsmem_note notes[8];
	struct lsm_object object;
	struct lsmem_stat stat;
	struct rest rest;
	uint64_t stale;
	uint32_t i;
	int watch;

	ASSERT_EQ(0, lsm_alloc(lsm, "x", 1, 0, &stale, NULL));
	ASSERT_EQ(0, lsm_free(lsm, stale, 0, NULL));
	ASSERT_EQ(0, rest_begin(self, &rest));
	/* All are checked: nothing changes, with LSM_DURABLE either. */
	for (i = 0; i < 3; i++)
		ops[i] = lsm_op_check(rest.handles[i], i ? LSM_EXPECT : 0, rest.versions[i]);
	EXPECT_EQ(0, lsm_vector(lsm, ops, 3, LSM_ATOMIC | (variant->backed ? LSM_DURABLE : 0), NULL));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, ops[i].result);
		EXPECT_EQ(rest.versions[i], ops[i].version);
		EXPECT_TRUE(rest_is_old(self, &rest, i));
	}
	ASSERT_EQ(0, lsm_stat(lsm, &stat));
	EXPECT_EQ(rest.before.live_bytes, stat.live_bytes);
	/* Wherever it comes, a check can fail. */
	for (i = 0; i < NR; i++) {
		struct lsmem_op right = rest.ops[i];

		rest.ops[i] = lsm_op_check(rest.handles[i], LSM_EXPECT, rest.versions[i] - 1);
		EXPECT_NONE(NR, EILSEQ, i);
		EXPECT_EQ(rest.versions[i], rest.ops[i].version);
		rest.ops[i] = lsm_op_check(stale, 0, 0);
		EXPECT_NONE(NR, ESTALE, i);
		rest.ops[i].handle = 0;
		EXPECT_NONE(NR, ENOENT, i);
		/* As an object that is changed, it is named once. */
		rest.ops[i].handle = rest.handles[i ? 0 : 3];
		EXPECT_NONE(NR, EINVAL, i ? i : 3);
		rest.ops[i] = lsm_op_check(rest.handles[i], 0, 0);
		rest.ops[i].flags = LSM_DURABLE;
		EXPECT_NONE(NR, EINVAL, i);
		rest.ops[i].flags = 0;
		rest.ops[i].length = 1;
		EXPECT_NONE(NR, EINVAL, i);
		rest.ops[i].length = 0;
		rest.ops[i].data = (uintptr_t)self->bytes;
		EXPECT_NONE(NR, EINVAL, i);
		rest.ops[i].data = 0;
		rest.ops[i].table = 1;
		EXPECT_NONE(NR, EINVAL, i);
		rest.ops[i].table = 0;
		rest.ops[i].offset = 1;
		EXPECT_NONE(NR, EINVAL, i);
		rest.ops[i] = right;
	}
	/* Only in groups. */
	EXPECT_EQ(0, lsm_vector(lsm, ops, 3, 0, NULL));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(-EINVAL, ops[i].result);
	EXPECT_EQ(-1, ioctl(self->store.fd, LSMEM_IOC_FREE, &ops[0]));
	EXPECT_EQ(EINVAL, errno);
	/* With one change: its watchers are told, and not those of what is checked. */
	watch = lsm_watch_open(lsm, 1, 0, 0, LSM_NONBLOCK);
	ASSERT_LE(0, watch);
	ops[0] = lsm_op_check(rest.handles[0], LSM_EXPECT, rest.versions[0]);
	ops[1] = lsm_op_check(rest.handles[1], 0, 0);
	ops[2] = lsm_op_alloc(self->bytes, LENGTH, LSM_TABLE(1));
	EXPECT_EQ(0, lsm_vector(lsm, ops, 3, LSM_ATOMIC | (variant->backed ? LSM_DURABLE : 0), NULL));
	EXPECT_EQ(0, ops[0].result);
	EXPECT_EQ(rest.versions[1], ops[1].version);
	EXPECT_LT(rest.versions[NR - 1], ops[2].version);
	EXPECT_TRUE(rest_is_old(self, &rest, 0));
	EXPECT_TRUE(rest_is_old(self, &rest, 1));
	EXPECT_EQ(LENGTH, lsm_read(lsm, ops[2].handle, self->bytes, LENGTH, 0, &object));
	EXPECT_EQ(1, lsm_watch_read(watch, notes, 8));
	EXPECT_EQ(ops[2].handle, notes[0].handle);
	EXPECT_EQ(0, notes[0].flags & LSMEM_NOTE_MORE);
	close(watch);
	/* An object that was checked can be changed. */
	EXPECT_EQ(0, lsm_vector(lsm, rest.ops, NR, LSM_ATOMIC, NULL));
}

/* ---- What follows a group ------------------------------------------------------------ */

/* A thread that replaces, or frees, an object from another processor, and so in another segment. */
struct other {
	struct lsm *lsm;
	uint64_t handle;
	bool frees;
	uint32_t more;		/* new objects of the largest size, behind that */
	int ret;
};

static const uint8_t largest[OBJECT_MAX];

static int run_on(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

static void *other_main(void *argument)
{
	struct other *other = argument;

	uint64_t handle;

	other->ret = run_on(1);
	if (!other->ret && other->frees)
		other->ret = lsm_free(other->lsm, other->handle, 0, NULL);
	else if (!other->ret)
		other->ret = lsm_replace(other->lsm, other->handle, "after", 5, 0, NULL);
	for (; !other->ret && other->more; other->more--)
		other->ret = lsm_alloc(other->lsm, largest, OBJECT_MAX, 0, &handle, NULL);
	return NULL;
}

/* Both at the same time; returns the error that both must have, or 1. */
static int others_go(struct other *others)
{
	pthread_t threads[2];
	uint32_t i;

	for (i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, other_main, &others[i]))
			return 1;
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return others[0].ret == others[1].ret ? others[0].ret : 1;
}

/* Whether a group is durable is known of all its operations or of none: also of those that only check. */
TEST_F(groups, unknown)
{
	struct rest rest;
	uint64_t version;

	if (!variant->backed)
		SKIP(return, "a volatile store has no durable groups");
	ASSERT_EQ(0, rest_begin(self, &rest));
	ASSERT_EQ(0, lsm_sync(self->store.lsm, 0));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 200));
	follower_sleep(&self->follower, true);
	rest.ops[0] = lsm_op_check(rest.handles[0], 0, 0);
	rest.ops[1] = lsm_op_replace(rest.handles[1], "new", 3, 0, 0);
	EXPECT_EQ(0, lsm_vector(self->store.lsm, rest.ops, 2, LSM_ATOMIC | LSM_DURABLE, NULL));
	EXPECT_EQ(-ETIMEDOUT, rest.ops[0].result);
	EXPECT_EQ(-ETIMEDOUT, rest.ops[1].result);
	version = rest.ops[1].version;
	/* Checks alone write nothing: what they have found is what has to be durable. */
	rest.ops[0] = lsm_op_check(rest.handles[0], 0, 0);
	rest.ops[1] = lsm_op_check(rest.handles[1], LSM_EXPECT, version);
	EXPECT_EQ(0, lsm_vector(self->store.lsm, rest.ops, 2, LSM_ATOMIC, NULL));
	EXPECT_EQ(0, rest.ops[0].result);
	EXPECT_EQ(0, rest.ops[1].result);
	EXPECT_EQ(0, lsm_vector(self->store.lsm, rest.ops, 2, LSM_ATOMIC | LSM_DURABLE, NULL));
	EXPECT_EQ(-ETIMEDOUT, rest.ops[0].result);
	EXPECT_EQ(-ETIMEDOUT, rest.ops[1].result);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 60000));
	follower_sleep(&self->follower, false);
	EXPECT_EQ(0, lsm_vector(self->store.lsm, rest.ops, 2, LSM_ATOMIC | LSM_DURABLE, NULL));
	EXPECT_EQ(0, rest.ops[0].result);
	EXPECT_EQ(0, rest.ops[1].result);
	rest.ops[0] = lsm_op_check(rest.handles[1], LSM_EXPECT, version);
	rest.ops[1] = lsm_op_replace(rest.handles[2], "new", 3, 0, 0);
	EXPECT_EQ(0, lsm_vector(self->store.lsm, rest.ops, 2, LSM_ATOMIC | LSM_DURABLE, NULL));
	EXPECT_EQ(0, rest.ops[0].result);
	EXPECT_EQ(0, rest.ops[1].result);
}

/*
 * A crash must not leave a change that follows a group, and nothing of the group.  While the segment of the group is
 * open, the change goes there, from whatever processor.  Then it waits until the group is durable, within a bound.
 */
TEST_F(groups, follow)
{
	struct other others[2] = { { .lsm = self->store.lsm }, { .lsm = self->store.lsm, .frees = true } };
	struct lsmem_op many[64];
	struct rest rest;
	uint64_t handle, begin;
	uint32_t i;

	if (!variant->backed)
		SKIP(return, "a volatile store has no crashes to survive");
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two processors");
	ASSERT_EQ(0, rest_begin(self, &rest));
	ASSERT_EQ(0, lsm_sync(self->store.lsm, 0));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 200));
	ASSERT_EQ(0, run_on(0));
	follower_sleep(&self->follower, true);
	ASSERT_EQ(0, lsm_vector(self->store.lsm, rest.ops, NR, LSM_ATOMIC, NULL));
	/* One object is replaced by the group, the other is new. */
	others[0].handle = rest.handles[0];
	others[1].handle = rest.ops[2].handle;
	EXPECT_EQ(0, others_go(others));
	/* Another segment: the group's is full. */
	for (i = 0; i < 10; i++)
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, self->bytes, OBJECT_MAX, 0, &handle, NULL));
	others[0].handle = rest.handles[3];
	others[1].handle = rest.ops[5].handle;
	EXPECT_EQ(-EBUSY, others_go(others));
	rest.ops[0] = lsm_op_replace(rest.handles[3], "again", 5, 0, 0);
	EXPECT_EQ(-EBUSY, lsm_vector(self->store.lsm, rest.ops, 1, LSM_ATOMIC, NULL));
	/* A vector waits once. */
	for (i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = lsm_op_replace(rest.handles[3], "again", 5, 0, 0);
	begin = now_ms();
	EXPECT_EQ(0, lsm_vector(self->store.lsm, many, ARRAY_SIZE(many), 0, NULL));
	EXPECT_GT(test_limit(2000), now_ms() - begin);
	for (i = 0; i < ARRAY_SIZE(many); i++)
		EXPECT_EQ(-EBUSY, many[i].result);
	/* Made, but whether it is durable is not known. */
	rest.ops[1] = lsm_op_replace(handle, "x", 1, 0, 0);
	EXPECT_EQ(0, lsm_vector(self->store.lsm, &rest.ops[1], 1, LSM_ATOMIC | LSM_DURABLE, NULL));
	EXPECT_EQ(-ETIMEDOUT, rest.ops[1].result);
	EXPECT_EQ(1, lsm_read(self->store.lsm, handle, self->bytes, LENGTH, 0, NULL));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 60000));
	follower_sleep(&self->follower, false);
	EXPECT_EQ(0, others_go(others));
	EXPECT_EQ(0, lsm_vector(self->store.lsm, rest.ops, 1, LSM_ATOMIC, NULL));
	EXPECT_EQ(5, lsm_read(self->store.lsm, rest.handles[0], self->bytes, LENGTH, 0, NULL));
	EXPECT_EQ(5, lsm_read(self->store.lsm, rest.handles[3], self->bytes, LENGTH, 0, NULL));
	for (i = 2; i < NR; i += 3)
		EXPECT_EQ(-ESTALE, lsm_read(self->store.lsm, rest.ops[i].handle, self->bytes, LENGTH, 0, NULL));
}

/*
 * A crash must not leave a group, and not a version that it has checked.  While the segment of that is open, the
 * group goes there.  Then it waits until the version is durable, within a bound.
 */
TEST_F(groups, follow_checked)
{
	struct other other = { .lsm = self->store.lsm };
	struct lsmem_op ops[2];
	uint64_t checked;
	pthread_t thread;
	uint32_t i;

	if (!variant->backed)
		SKIP(return, "a volatile store has no crashes to survive");
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two processors");
	ASSERT_EQ(0, lsm_alloc(other.lsm, "x", 1, 0, &checked, NULL));
	ASSERT_EQ(0, lsm_sync(other.lsm, 0));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 200));
	ASSERT_EQ(0, run_on(0));
	follower_sleep(&self->follower, true);
	ops[0] = lsm_op_check(checked, 0, 0);
	/* It is durable, then in an open segment, then in another one. */
	other.handle = checked;
	for (i = 0; i < 3; i++) {
		/* A new one, which follows nothing by itself. */
		ops[1] = lsm_op_alloc("y", 1, 0);
		EXPECT_EQ(i == 2 ? -EBUSY : 0, lsm_vector(other.lsm, ops, 2, LSM_ATOMIC, NULL));
		if (i == 2)
			break;
		ASSERT_EQ(0, pthread_create(&thread, NULL, other_main, &other));
		pthread_join(thread, NULL);
		ASSERT_EQ(0, other.ret);
		other.more = i ? 0 : 10;
	}
	/* One that changes nothing leaves nothing. */
	EXPECT_EQ(0, lsm_vector(other.lsm, ops, 1, LSM_ATOMIC, NULL));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 60000));
	follower_sleep(&self->follower, false);
	EXPECT_EQ(0, lsm_vector(other.lsm, ops, 2, LSM_ATOMIC, NULL));
}

/* ---- With others -------------------------------------------------------------------- */

#define CHECKED		32u		/* objects that groups check */
#define CHECKS		4000u		/* such groups */
#define VERSIONS	(1u << 17)	/* of each object, at most */

/* A thread that replaces objects, and writes their versions down. */
struct writer {
	struct lsm *lsm;
	uint64_t handles[CHECKED];
	uint64_t *versions[CHECKED];
	_Atomic uint32_t nr;	/* of each */
	atomic_bool stop;
	atomic_int ret;
};

/* All of them in one span, which looks at each before it exchanges the first word. */
static void *write_down(void *argument)
{
	struct writer *me = argument;
	struct lsmem_op ops[CHECKED];
	uint32_t i;

	while (!me->ret && !atomic_load(&me->stop) && me->nr < VERSIONS) {
		for (i = 0; i < CHECKED; i++)
			ops[i] = lsm_op_replace(me->handles[i], "x", 1, 0, 0);
		me->ret = lsm_vector(me->lsm, ops, CHECKED, 0, NULL);
		for (i = 0; i < CHECKED && !me->ret; i++) {
			me->ret = ops[i].result;
			me->versions[i][me->nr] = ops[i].version;
		}
		me->nr += !me->ret;
	}
	return NULL;
}

/* The version that an object had after @version; all ones: none. */
static uint64_t version_after(const struct writer *writer, uint32_t i, uint64_t version)
{
	uint32_t low = 0, high = writer->nr;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (writer->versions[i][middle] > version)
			high = middle;
		else
			low = middle + 1;
	}
	return low < writer->nr ? writer->versions[i][low] : ~0ull;
}

/* What a group has checked has no other version before that of the group: all of it is at one point of the order. */
TEST_F_TIMEOUT(groups, one_point, 300)
{
	static struct { uint64_t group, checked[CHECKED]; } seen[CHECKS];
	uint32_t groups = (uint32_t)test_scaled(CHECKS), wrong = 0, changed = 0, i, j;
	static struct lsmem_op ops[MOST];
	static struct writer writer;
	static uint64_t handles[MOST];
	pthread_t thread;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two processors");
	memset(&writer, 0, sizeof(writer));
	writer.lsm = self->store.lsm;
	for (i = 0; i < MOST; i++)
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, 0, &handles[i], NULL));
	for (i = 0; i < CHECKED; i++) {
		writer.handles[i] = handles[i];
		writer.versions[i] = malloc(VERSIONS * sizeof(uint64_t));
		ASSERT_TRUE(writer.versions[i]);
	}
	ASSERT_EQ(0, pthread_create(&thread, NULL, write_down, &writer));
	/* The more a group changes, the longer what it has checked must stay; the fewer, the fewer bits hold that. */
	for (i = 0; i < groups; i++) {
		uint32_t nr = i % 2 ? MOST : CHECKED + 1, before = writer.nr;

		/* Not all groups before the thread has begun, or while it waits for a processor. */
		while (i % 50 == 0 && writer.nr == before && before < VERSIONS && !writer.ret)
			sched_yield();
		for (j = 0; j < nr; j++)
			ops[j] = j < CHECKED ? lsm_op_check(handles[j], 0, 0) :
				 lsm_op_replace(handles[j], "y", 1, 0, 0);
		ASSERT_EQ(0, lsm_vector(self->store.lsm, ops, nr, LSM_ATOMIC, NULL));
		seen[i].group = ops[CHECKED].version;
		for (j = 0; j < CHECKED; j++)
			seen[i].checked[j] = ops[j].version;
	}
	atomic_store(&writer.stop, true);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, writer.ret);
	for (i = 0; i < groups; i++)
		for (j = 0; j < CHECKED; j++) {
			wrong += seen[i].checked[j] >= seen[i].group ||
				 version_after(&writer, j, seen[i].checked[j]) <= seen[i].group;
			changed += i && seen[i].checked[j] != seen[i - 1].checked[j];
		}
	TH_LOG("%u groups, %u versions, %u of those that were checked differ from the group before", groups,
	       writer.nr, changed);
	EXPECT_EQ(0, wrong);
	EXPECT_LT(0, changed);
	for (i = 0; i < CHECKED; i++)
		free(writer.versions[i]);
}

#define ACCOUNTS	64u
#define AMOUNT		1000000u	/* in each, at first */
#define AT_ONCE		40u		/* accounts in a group */
#define TOKENS		4u		/* objects that anyone replaces, whatever they are */
#define MOVERS		3u
#define STEPS		10000u		/* of each thread */
#define MORE		50u		/* times as many at most */

struct account {
	int64_t amount;
	uint8_t rest[2000];
};

/**
 * struct bank - accounts, and threads that use them
 * @store: of the accounts
 * @accounts: handles; one that is freed is stale until its place has the next
 * @tokens: handles
 * @retries: groups that were refused, because another was faster
 * @groups: that were made
 * @asked: what may have been added to all accounts by now
 * @added: what has been
 * @movers: threads that have not ended
 * @cleaned: cleaners have moved accounts
 * @stop: writers of single accounts shall end
 * @error: the first
 */
struct bank {
	const struct store *store;
	_Atomic uint64_t accounts[ACCOUNTS];
	uint64_t tokens[TOKENS];
	_Atomic uint64_t retries, groups;
	_Atomic int64_t asked, added;
	_Atomic uint32_t movers;
	atomic_bool cleaned;
	atomic_bool stop;
	atomic_int error;
};

struct banker {
	struct bank *bank;
	uint64_t state;		/* of random numbers */
	struct account accounts[AT_ONCE];
};

static void bank_failed(struct bank *bank, int ret)
{
	int none = 0;

	if (ret && ret != -EILSEQ && ret != -ESTALE)
		atomic_compare_exchange_strong(&bank->error, &none, ret);
}

/* An account and its version. */
static int bank_read(struct bank *bank, uint64_t handle, struct account *account, struct lsm_object *object)
{
	ssize_t ret = lsm_read(bank->store->lsm, handle, account, sizeof(*account), 0, object);

	return ret < 0 ? (int)ret : 0;
}

static uint32_t any_length(uint64_t *state)
{
	return (uint32_t)sizeof(int64_t) + random_below(state, sizeof(struct account) - sizeof(int64_t));
}

/* Replace a token by anything: the daemon of the test looks that no version is used twice. */
static struct lsmem_op token_op(struct banker *me)
{
	return lsm_op_replace(me->bank->tokens[random_below(&me->state, TOKENS)], &me->accounts[0],
			      1 + random_below(&me->state, 64), 0, 0);
}

/* Move amounts from one account to the next. Half of the groups give the last one another handle. */
static int move_some(struct banker *me)
{
	struct bank *bank = me->bank;
	uint32_t first = random_below(&me->state, ACCOUNTS), nr = 2 + random_below(&me->state, AT_ONCE - 1);
	uint32_t last = (first + nr - 1) % ACCOUNTS, i;
	struct lsm_object objects[AT_ONCE];
	struct lsmem_op ops[AT_ONCE + 2];
	int64_t amount = 0, next;
	int ret;

	for (i = 0; i < nr; i++) {
		uint64_t handle = atomic_load(&bank->accounts[(first + i) % ACCOUNTS]);

		ret = bank_read(bank, handle, &me->accounts[i], &objects[i]);
		if (ret)
			return ret;
		next = i + 1 < nr ? random_below(&me->state, 1000) : 0;
		me->accounts[i].amount += amount - next;
		amount = next;
		ops[i] = lsm_op_replace(handle, &me->accounts[i], any_length(&me->state), LSM_EXPECT,
					objects[i].version);
	}
	ops[nr] = token_op(me);
	if (random_chance(&me->state, 50))
		return lsm_vector(bank->store->lsm, ops, nr + 1, LSM_ATOMIC, NULL);
	ops[nr - 1] = lsm_op_free(ops[nr - 1].handle, LSM_EXPECT, objects[nr - 1].version);
	ops[nr + 1] = lsm_op_alloc(&me->accounts[nr - 1], any_length(&me->state), 0);
	ret = lsm_vector(bank->store->lsm, ops, nr + 2, LSM_ATOMIC, NULL);
	if (!ret)
		atomic_store(&bank->accounts[last], ops[nr + 1].handle);
	return ret;
}

static void *move_all(void *argument)
{
	struct banker *me = argument;
	uint64_t steps = test_scaled(STEPS), i;
	int ret;

	/* Until there was something to clean. */
	for (i = 0; (i < steps || (i < MORE * steps && !atomic_load(&me->bank->cleaned))) &&
	     !atomic_load(&me->bank->error); i++) {
		ret = move_some(me);
		atomic_fetch_add(ret ? &me->bank->retries : &me->bank->groups, 1);
		bank_failed(me->bank, ret);
	}
	atomic_fetch_sub(&me->bank->movers, 1);
	return NULL;
}

/* Add to single accounts, in vectors and alone, at the version that was read. */
static void *replace_all(void *argument)
{
	struct banker *me = argument;
	struct bank *bank = me->bank;
	struct lsm_object object;
	struct lsmem_op ops[8 + 2];
	uint32_t i, nr;

	while (!atomic_load(&bank->stop) && !atomic_load(&bank->error)) {
		uint32_t most = random_below(&me->state, 8);

		for (i = nr = 0; i < most; i++) {
			uint64_t handle = atomic_load(&bank->accounts[random_below(&me->state, ACCOUNTS)]);
			int ret = bank_read(bank, handle, &me->accounts[nr], &object);

			bank_failed(bank, ret);
			if (ret)
				continue;
			me->accounts[nr].amount++;
			ops[nr] = lsm_op_replace(handle, &me->accounts[nr], any_length(&me->state), LSM_EXPECT,
						 object.version);
			nr++;
		}
		ops[nr] = token_op(me);
		ops[nr + 1] = token_op(me);
		atomic_fetch_add(&bank->asked, nr);
		bank_failed(bank, lsm_vector(bank->store->lsm, ops, nr + 2, 0, NULL));
		for (i = 0; i < nr; i++) {
			atomic_fetch_add(&bank->added, ops[i].result ? 0 : 1);
			bank_failed(bank, ops[i].result);
		}
		/* What was refused is never added. */
		atomic_store(&bank->asked, atomic_load(&bank->added));
		if (random_chance(&me->state, 95))
			continue;
		store_set_attribute(bank->store, "cleaner/request_compact", 2);
		store_set_attribute(bank->store, "cleaner/request_clean", 1);
	}
	return NULL;
}

/* The sum of all accounts, and how many there are, in a snapshot. */
static int bank_sum(struct bank *bank, int64_t *sum, uint64_t *nr)
{
	struct lsm_measure amount = { .column = { .type = LSM_I64, .nr = 1 } };
	struct lsm_question question = { .measures = &amount, .nr_measures = 1 };
	struct lsm_scan scan = {
		.plan = LSM_PLAN_LOG, .flags = LSM_SCAN_EXACT, .threads = 1, .one_table = 1,
	};
	struct lsm_aggregate *aggregate;
	struct lsm_total total;
	int ret = lsm_scan_aggregate(bank->store->lsm, &scan, &question, &aggregate, NULL);

	if (ret)
		return ret;
	ret = lsm_aggregate_total(aggregate, 0, &total);
	lsm_aggregate_destroy(aggregate);
	*sum = (int64_t)total.sum_low;
	*nr = total.count;
	return ret;
}

TEST_F_TIMEOUT(groups, bank, 300)
{
	struct bank bank = { .store = &self->store, .movers = MOVERS };
	static struct banker movers[MOVERS], writer;
	pthread_t threads[MOVERS], other;
	struct account account = { .amount = AMOUNT };
	uint64_t sums = 0, nr = 0, handle;
	struct lsmem_stat stat;
	int64_t sum = 0, least;
	uint32_t i;
	int ret;

	for (i = 0; i < ACCOUNTS; i++) {
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, &account, sizeof(account), 0, &handle, NULL));
		atomic_store(&bank.accounts[i], handle);
	}
	for (i = 0; i < TOKENS; i++)
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, "token", 5, LSM_TABLE(1), &bank.tokens[i], NULL));
	writer.bank = &bank;
	writer.state = test_seed + MOVERS;
	ASSERT_EQ(0, pthread_create(&other, NULL, replace_all, &writer));
	for (i = 0; i < MOVERS; i++) {
		movers[i].bank = &bank;
		movers[i].state = test_seed + i;
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, move_all, &movers[i]));
	}
	while (atomic_load(&bank.movers)) {
		least = atomic_load(&bank.added);
		ret = bank_sum(&bank, &sum, &nr);
		if (ret == -ECANCELED || ret == -ENOSPC || ret == -ETIMEDOUT)
			continue;
		ASSERT_EQ(0, ret);
		ASSERT_EQ(ACCOUNTS, nr);
		sum -= (int64_t)ACCOUNTS * AMOUNT;
		ASSERT_LE(least, sum);
		ASSERT_GE(atomic_load(&bank.asked), sum);
		sums++;
		ASSERT_EQ(0, lsm_stat(self->store.lsm, &stat));
		atomic_store(&bank.cleaned, made_room(&stat) > 0);
	}
	for (i = 0; i < MOVERS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&bank.stop, true);
	pthread_join(other, NULL);
	EXPECT_EQ(0, atomic_load(&bank.error));
	for (i = 0, sum = 0; i < ACCOUNTS; i++) {
		ASSERT_EQ(0, bank_read(&bank, atomic_load(&bank.accounts[i]), &account, NULL));
		sum += account.amount;
	}
	EXPECT_EQ((int64_t)ACCOUNTS * AMOUNT + bank.added, sum);
	ASSERT_EQ(0, lsm_stat(self->store.lsm, &stat));
	EXPECT_EQ(ACCOUNTS + TOKENS, stat.handles_used);
	TH_LOG("%llu groups, %llu refused, %llu snapshots right; %llu segments compacted, %llu cleaned",
	       (unsigned long long)bank.groups, (unsigned long long)bank.retries, (unsigned long long)sums,
	       (unsigned long long)stat.segments_compacted, (unsigned long long)stat.segments_cleaned);
	/* Nothing is left: what each change has superseded was counted as it was. */
	for (i = 0; i < ACCOUNTS; i++)
		ASSERT_EQ(0, lsm_free(self->store.lsm, atomic_load(&bank.accounts[i]), 0, NULL));
	for (i = 0; i < TOKENS; i++)
		ASSERT_EQ(0, lsm_free(self->store.lsm, bank.tokens[i], 0, NULL));
	ASSERT_EQ(0, lsm_stat(self->store.lsm, &stat));
	EXPECT_EQ(0, stat.handles_used);
	EXPECT_TRUE(variant->backed || !stat.live_bytes);
	EXPECT_LT(0, sums);
	EXPECT_LT(0, bank.groups);
	EXPECT_LT(0, bank.retries);
	EXPECT_LT(0, made_room(&stat));
}

TEST_HARNESS_MAIN
