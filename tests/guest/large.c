// SPDX-License-Identifier: GPL-2.0
/*
 * Large objects through the kernel: many parts, writers that are killed, and what a sweep finds.
 *
 * What crashes leave at each step is tested in tests/lib/large.c.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "follower.h"
#include "kselftest_harness.h"
#include "store.h"

#define TABLE		9u
#define PART		(64u << 10)
#define KILLED_BYTES	(40u * PART)
#define BIG_BYTES	(40u << 20)
#define ROUNDS		test_scaled(30)
#define SECONDS		120

FIXTURE(large) {
	struct store store;
	struct follower follower;
	uint64_t handle;
	uint8_t *bytes;
};

FIXTURE_VARIANT(large) {
	bool durable;
};

FIXTURE_VARIANT_ADD(large, memory) {
	.durable = false,
};

FIXTURE_VARIANT_ADD(large, durable) {
	.durable = true,
};

FIXTURE_SETUP(large)
{
	self->bytes = malloc(BIG_BYTES);
	ASSERT_TRUE(self->bytes);
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, variant->durable ? LSMEM_STORE_DURABLE : 0));
	if (variant->durable) {
		ASSERT_EQ(0, follower_start(&self->follower, self->store.name));
		ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
	}
	ASSERT_EQ(0, lsm_large_create(self->store.lsm, PART, LSM_TABLE(TABLE), &self->handle));
}

FIXTURE_TEARDOWN(large)
{
	if (variant->durable) {
		follower_stop(&self->follower);
		EXPECT_STREQ("", self->follower.wrong);
	}
	EXPECT_EQ(0, store_destroy(&self->store));
	if (variant->durable)
		follower_free(&self->follower);
	free(self->bytes);
}

static uint64_t objects(struct lsm *lsm)
{
	struct lsmem_stat stat;

	return lsm_stat(lsm, &stat) ? 0 : stat.handles_used;
}

TEST_F_TIMEOUT(large, forty_mebibytes, SECONDS)
{
	struct lsm *lsm = self->store.lsm;
	uint8_t *copy = malloc(BIG_BYTES);
	struct lsm_large_report report;
	uint64_t offset, seed = test_seed;
	struct lsm_large large;
	size_t i;

	ASSERT_TRUE(copy);
	for (i = 0; i < BIG_BYTES; i += sizeof(seed)) {
		random_next(&seed);
		memcpy(self->bytes + i, &seed, sizeof(seed));
	}
	ASSERT_EQ(0, lsm_large_append(lsm, self->handle, self->bytes, 1000, 0, &offset, NULL));
	ASSERT_EQ(0, lsm_large_append(lsm, self->handle, self->bytes + 1000, BIG_BYTES - 1000, 0, &offset, NULL));
	EXPECT_EQ(1000, offset);
	ASSERT_EQ(BIG_BYTES, lsm_large_read(lsm, self->handle, copy, BIG_BYTES, 0, &large));
	EXPECT_EQ(0, memcmp(copy, self->bytes, BIG_BYTES));
	EXPECT_EQ(TABLE, large.table);
	memset(self->bytes + 3 * PART - 5, 0, 2 * PART);
	ASSERT_EQ(0, lsm_large_write(lsm, self->handle, self->bytes + 3 * PART - 5, 2 * PART, 3 * PART - 5, LSM_EXPECT,
				     &large.version));
	ASSERT_EQ(5 * PART, lsm_large_read(lsm, self->handle, copy, 5 * PART, PART, NULL));
	EXPECT_EQ(0, memcmp(copy, self->bytes + PART, 5 * PART));
	EXPECT_EQ(1 + BIG_BYTES / PART, objects(lsm));
	ASSERT_EQ(0, lsm_large_sweep(lsm, TABLE, &report));
	EXPECT_EQ(1, report.objects);
	EXPECT_EQ(BIG_BYTES / PART, report.parts);
	EXPECT_EQ(0, report.orphans + report.broken + report.unseen);
	ASSERT_EQ(0, lsm_large_free(lsm, self->handle, 0, NULL));
	EXPECT_EQ(0, objects(lsm));
	free(copy);
}

/* Writes the same byte everywhere, another one each time, until it is killed; tells @begun after the first. */
static void write_on(const char *path, uint64_t handle, uint8_t *bytes, int begun)
{
	struct lsm *lsm;
	uint8_t byte = 0;

	if (lsm_open(path, 0, &lsm))
		_exit(1);
	for (;;) {
		byte = byte % 255 + 1;
		memset(bytes, byte, KILLED_BYTES);
		if (lsm_large_write(lsm, handle, bytes, KILLED_BYTES, 0, 0, NULL))
			_exit(2);
		if (byte == 1 && write(begun, "w", 1) != 1)
			_exit(3);
	}
}

TEST_F_TIMEOUT(large, killed_writers, SECONDS)
{
	uint64_t seed = test_seed, orphans = 0, i;
	struct lsm *lsm = self->store.lsm;
	struct lsm_large_report report;
	struct lsm_large large;
	int status, begun[2];
	pid_t child;
	char byte;

	memset(self->bytes, 0, KILLED_BYTES);
	ASSERT_EQ(0, lsm_large_append(lsm, self->handle, self->bytes, KILLED_BYTES, 0, NULL, NULL));
	ASSERT_EQ(0, pipe(begun));
	/* In memory a write is over so soon that all may be killed elsewhere. */
	for (i = 0; i < ROUNDS || (!orphans && variant->durable && i < 100 * ROUNDS); i++) {
		child = fork();
		if (!child)
			write_on(self->store.path, self->handle, self->bytes, begun[1]);
		ASSERT_EQ(1, read(begun[0], &byte, 1));
		usleep(random_below(&seed, 10000));
		/* A sweep beside a writer takes nothing from it. */
		ASSERT_EQ(0, lsm_large_sweep(lsm, TABLE, &report));
		EXPECT_EQ(0, report.broken);
		orphans += report.orphans;
		kill(child, SIGKILL);
		ASSERT_EQ(child, waitpid(child, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status));
		ASSERT_EQ(KILLED_BYTES, lsm_large_read(lsm, self->handle, self->bytes, BIG_BYTES, 0, &large));
		EXPECT_EQ(0, memcmp(self->bytes, self->bytes + 1, KILLED_BYTES - 1));
		EXPECT_NE(0, self->bytes[0]);
		ASSERT_EQ(0, lsm_large_sweep(lsm, TABLE, &report));
		EXPECT_EQ(1, report.objects);
		EXPECT_EQ(KILLED_BYTES / PART, report.parts);
		EXPECT_EQ(0, report.broken);
		orphans += report.orphans;
		EXPECT_EQ(1 + KILLED_BYTES / PART, objects(lsm));
	}
	TH_LOG("%llu parts of killed writers were freed", (unsigned long long)orphans);
	EXPECT_TRUE(orphans || !variant->durable);
	close(begun[0]);
	close(begun[1]);
}

TEST_HARNESS_MAIN
