// SPDX-License-Identifier: GPL-2.0
/*
 * Vectors that end later (lsm_async_*): the results of lsm_vector(); a descriptor that is readable when one has ended, which
 * a durable one does when the daemon has acknowledged it, or its time has passed; how many there may be; and a close, which
 * waits for them.
 */
#include <errno.h>
#include <poll.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "store.h"

#define MOST		64u
#define OPS		20u
#define SECONDS		120
#define QUIET_MS	100	/* nothing ends within this time */

FIXTURE(async) {
	struct follower follower;
	struct store store;
	struct lsm_async *async;
	bool started;
};

/* Stop the daemon and destroy the store. */
static int end(struct follower *follower, struct store *store)
{
	follower_stop(follower);
	follower_free(follower);
	return store_destroy(store);
}

static uint64_t patience(void)
{
	return test_limit(20000);
}

FIXTURE_SETUP(async)
{
	struct lsmem_op op;
	unsigned int i;
	int ret;

	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_start(&self->follower, self->store.name));
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", patience()));
	/* The segment of the head is open, so that nothing waits for a daemon that is asleep. */
	for (i = 0; i < 4; i++) {
		op = lsm_op_alloc("x", 1, 0);
		ASSERT_EQ(0, lsm_vector(self->store.lsm, &op, 1, LSM_DURABLE, NULL));
		op = lsm_op_free(op.handle, 0, 0);
		ASSERT_EQ(0, lsm_vector(self->store.lsm, &op, 1, LSM_DURABLE, NULL));
	}
	ret = lsm_async_open(self->store.lsm, MOST, &self->async);
	if (ret == -EOPNOTSUPP) {
		ASSERT_EQ(0, end(&self->follower, &self->store));
		SKIP(return, "this kernel has no io_uring");
	}
	ASSERT_EQ(0, ret);
	self->started = true;
}

FIXTURE_TEARDOWN(async)
{
	if (!self->started)
		return;
	lsm_async_close(self->async);
	EXPECT_STREQ("", self->follower.wrong);
	EXPECT_EQ(0, end(&self->follower, &self->store));
}

static bool readable(const struct lsm_async *async, uint64_t ms)
{
	struct pollfd file = { .fd = lsm_async_fd(async), .events = POLLIN };
	uint64_t end = now_ms() + ms;
	int ret;

	do {
		uint64_t now = now_ms();

		ret = poll(&file, 1, now < end ? (int)(end - now) : 0);
	} while (ret < 0 && errno == EINTR);
	return ret == 1 && file.revents == POLLIN;
}

/* The next vector that ends; its context is where @done and the result are put. */
static int next(struct lsm_async *async, void **context, size_t *done)
{
	int result;

	if (!readable(async, patience()))
		return -ETIME;
	if (lsm_async_next(async, context, &result, done) != 1)
		return -ENODATA;
	return result;
}

/* What is not durable ends at once, with the results of lsm_vector(). */
TEST_F_TIMEOUT(async, results, SECONDS)
{
	struct lsmem_op ops[3], same[3];
	void *context;
	size_t done;
	int result;

	EXPECT_EQ(0, lsm_async_next(self->async, &context, &result, &done));
	EXPECT_FALSE(readable(self->async, 0));
	ops[0] = lsm_op_alloc("abc", 3, 0);
	ops[1] = lsm_op_free(12345, 0, 0);
	ops[2] = lsm_op_alloc("d", 1, 0);
	ASSERT_EQ(0, lsm_async_submit(self->async, ops, 3, 0, &ops[1]));
	EXPECT_EQ(0, next(self->async, &context, &done));
	EXPECT_EQ(&ops[1], context);
	EXPECT_EQ(3, done);
	EXPECT_EQ(0, ops[0].result);
	EXPECT_EQ(-ENOENT, ops[1].result);
	EXPECT_EQ(0, ops[2].result);
	EXPECT_EQ(0, lsm_async_next(self->async, &context, &result, NULL));
	EXPECT_FALSE(readable(self->async, 0));
	/* All or none */
	same[0] = lsm_op_replace(ops[0].handle, "new", 3, 0, 0);
	same[1] = lsm_op_check(ops[2].handle, LSM_EXPECT, ops[2].version - 1);
	ASSERT_EQ(0, lsm_async_submit(self->async, same, 2, LSM_ATOMIC | LSM_DURABLE, NULL));
	EXPECT_EQ(-EILSEQ, next(self->async, &context, &done));
	EXPECT_EQ(NULL, context);
	EXPECT_EQ(-EILSEQ, same[1].result);
	EXPECT_EQ(ops[2].version, same[1].version);
	same[1] = lsm_op_check(ops[2].handle, LSM_EXPECT, ops[2].version);
	ASSERT_EQ(0, lsm_async_submit(self->async, same, 2, LSM_ATOMIC | LSM_DURABLE, same));
	EXPECT_EQ(0, next(self->async, &context, &done));
	EXPECT_LT(ops[0].version, same[0].version);
	EXPECT_EQ(-EINVAL, lsm_async_submit(self->async, ops, 0, 0, NULL));
	EXPECT_EQ(-E2BIG, lsm_async_submit(self->async, ops, 100000, LSM_ATOMIC, NULL));
	EXPECT_EQ(-EINVAL, lsm_async_open(self->store.lsm, 0, &self->async));
	EXPECT_EQ(-EINVAL, lsm_async_open(self->store.lsm, 4097, &self->async));
}

/* Durable ones end when they are acknowledged; as many as may be, and one more; again and again. */
TEST_F_TIMEOUT(async, durable, SECONDS)
{
	static struct lsmem_op ops[MOST][OPS], more;
	bool ended[MOST] = { false };
	unsigned int i, j, round;
	void *context;
	size_t done;

	for (round = 0; round < 5; round++) {
		follower_sleep(&self->follower, true);
		for (i = 0; i < MOST; i++) {
			for (j = 0; j < OPS; j++)
				ops[i][j] = lsm_op_alloc("durable", 7, 0);
			ASSERT_EQ(0, lsm_async_submit(self->async, ops[i], OPS, LSM_DURABLE, &ended[i]));
			ended[i] = false;
		}
		more = lsm_op_alloc("more", 4, 0);
		EXPECT_EQ(-EBUSY, lsm_async_submit(self->async, &more, 1, 0, NULL));
		EXPECT_FALSE(readable(self->async, QUIET_MS));
		follower_sleep(&self->follower, false);
		for (i = 0; i < MOST; i++) {
			ASSERT_EQ(0, next(self->async, &context, &done));
			EXPECT_EQ(OPS, done);
			ASSERT_FALSE(*(bool *)context);
			*(bool *)context = true;
		}
		for (i = 0; i < MOST; i++) {
			for (j = 0; j < OPS; j++)
				ASSERT_EQ(0, ops[i][j].result);
		}
	}
	/* Without an acknowledgement: applied, and not known whether durable */
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 100));
	follower_sleep(&self->follower, true);
	more = lsm_op_alloc("more", 4, 0);
	ASSERT_EQ(0, lsm_async_submit(self->async, &more, 1, LSM_DURABLE, &more));
	EXPECT_EQ(0, next(self->async, &context, &done));
	EXPECT_EQ(-ETIMEDOUT, more.result);
	follower_sleep(&self->follower, false);
}

/* A close waits: the operations have their results. */
TEST_F_TIMEOUT(async, closed, SECONDS)
{
	struct lsmem_op ops[8];
	uint64_t begin = now_ms();
	unsigned int i;

	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 300));
	follower_sleep(&self->follower, true);
	for (i = 0; i < 8; i++) {
		ops[i] = lsm_op_alloc("closed", 6, 0);
		ASSERT_EQ(0, lsm_async_submit(self->async, &ops[i], 1, LSM_DURABLE, NULL));
	}
	lsm_async_close(self->async);
	self->async = NULL;
	EXPECT_LE(300, now_ms() - begin);
	for (i = 0; i < 8; i++)
		EXPECT_EQ(-ETIMEDOUT, ops[i].result);
	follower_sleep(&self->follower, false);
}

TEST_HARNESS_MAIN
