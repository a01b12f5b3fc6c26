// SPDX-License-Identifier: GPL-2.0
/*
 * Changes of parts of objects through the kernel, and waiting for stores.
 *
 * What the library does with each argument is tested in tests/lib/updates.c; here threads and a child, which reads by
 * system call, change the same objects.  Stores appear, get names, and become active while others wait for them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "follower.h"
#include "kselftest_harness.h"
#include "store.h"

#define THREADS		3u
#define ROUNDS		test_scaled(3000)
#define WAIT_MS		((int)test_limit(20000))
#define SECONDS		120

FIXTURE(updates) {
	struct store store;
	uint64_t handle;
};

FIXTURE_SETUP(updates)
{
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, 0));
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "abcdef", 6, 0, &self->handle, NULL));
}

FIXTURE_TEARDOWN(updates)
{
	EXPECT_EQ(0, store_destroy(&self->store));
}

TEST_F(updates, parts)
{
	struct lsm *lsm = self->store.lsm;
	uint8_t *bytes = calloc(1, OBJECT_MAX);
	uint64_t version, old;
	struct lsm_object object;
	union lsm_value value = { .i64 = -3 };
	char expected[2] = "ab";
	uint32_t at;

	ASSERT_TRUE(bytes);
	ASSERT_EQ(0, lsm_write(lsm, self->handle, "XY", 2, 8, 0, &version));
	ASSERT_EQ(10, lsm_read(lsm, self->handle, bytes, OBJECT_MAX, 0, &object));
	EXPECT_EQ(0, memcmp(bytes, "abcdef\0\0XY", 10));
	EXPECT_EQ(version, object.version);
	old = version;
	ASSERT_EQ(0, lsm_truncate(lsm, self->handle, OBJECT_MAX - 3, 0, &version));
	ASSERT_EQ(0, lsm_append(lsm, self->handle, "end", 3, 0, &at, NULL));
	EXPECT_EQ(OBJECT_MAX - 3, at);
	ASSERT_EQ(OBJECT_MAX, lsm_read(lsm, self->handle, bytes, OBJECT_MAX, 0, &object));
	EXPECT_EQ(0, memcmp(bytes + OBJECT_MAX - 5, "\0\0end", 5));
	EXPECT_EQ(-EFBIG, lsm_append(lsm, self->handle, "x", 1, 0, NULL, NULL));
	ASSERT_EQ(1, lsm_compare_exchange(lsm, self->handle, 0, expected, "CD", 2, 0, NULL));
	ASSERT_EQ(0, lsm_compare_exchange(lsm, self->handle, 0, expected, "EF", 2, 0, NULL));
	EXPECT_EQ(0, memcmp(expected, "CD", 2));
	ASSERT_EQ(0, lsm_add(lsm, self->handle, LSM_I64, 100, &value, 0, &version));
	EXPECT_EQ(-3, value.i64);
	EXPECT_EQ(-EILSEQ, lsm_replace(lsm, self->handle, "x", 1, LSM_OLDER, &old));
	EXPECT_EQ(version, old);
	EXPECT_EQ(-EILSEQ, lsm_free(lsm, self->handle, LSM_NEWER, &old));
	old = version - 1;
	EXPECT_EQ(0, lsm_free(lsm, self->handle, LSM_NEWER, &old));
	EXPECT_EQ(-ESTALE, lsm_write(lsm, self->handle, "x", 1, 0, 0, NULL));
	free(bytes);
}

struct changer {
	struct lsm *lsm;
	uint64_t handle, log;
	uint64_t rounds;
	uint8_t id;
	int error;
};

/* Adds to a number, and appends to a log that another client empties when it is full. */
static void *change(void *argument)
{
	struct changer *changer = argument;
	union lsm_value value;
	uint64_t i;

	for (i = 0; i < changer->rounds && !changer->error; i++) {
		value.i64 = 1;
		changer->error = lsm_add(changer->lsm, changer->handle, LSM_U64, 0, &value, 0, NULL);
		if (!changer->error)
			changer->error = lsm_append(changer->lsm, changer->log, &changer->id, 1, 0, NULL, NULL);
	}
	return NULL;
}

TEST_F_TIMEOUT(updates, all_count, SECONDS)
{
	uint64_t counts[THREADS + 1] = { 0 }, sum = 0, log, rounds = ROUNDS;
	struct changer changers[THREADS + 1];
	pthread_t threads[THREADS];
	uint8_t *bytes = malloc(OBJECT_MAX);
	int status = -1;
	ssize_t length;
	unsigned int i;
	pid_t child;

	ASSERT_TRUE(bytes);
	ASSERT_EQ(0, lsm_replace(self->store.lsm, self->handle, &sum, sizeof(sum), 0, NULL));
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "\377", 1, 0, &log, NULL));
	for (i = 0; i <= THREADS; i++)
		changers[i] = (struct changer){ self->store.lsm, self->handle, log, rounds, (uint8_t)i, 0 };
	child = fork();
	if (!child) {
		change(&changers[THREADS]);
		_exit(!!changers[THREADS].error);
	}
	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, change, &changers[i]));
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, changers[i].error);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(sizeof(sum), lsm_read(self->store.lsm, self->handle, &sum, sizeof(sum), 0, NULL));
	EXPECT_EQ((THREADS + 1) * rounds, sum);
	length = lsm_read(self->store.lsm, log, bytes, OBJECT_MAX, 0, NULL);
	ASSERT_EQ(1 + (THREADS + 1) * rounds, length);
	while (--length) {
		ASSERT_LE(bytes[length], THREADS);
		counts[bytes[length]]++;
	}
	for (i = 0; i <= THREADS; i++)
		EXPECT_EQ(rounds, counts[i]);
	free(bytes);
}

TEST_F(updates, active_at_once)
{
	struct pollfd wait = { .fd = self->store.fd, .events = POLLIN | POLLOUT };

	EXPECT_EQ(1, poll(&wait, 1, 0));
	EXPECT_EQ(POLLIN | POLLOUT, wait.revents);
	EXPECT_EQ(0, lsm_wait_active(self->store.path, 0));
}

/* ---- Waiting -------------------------------------------------------------------- */

struct waiter {
	pthread_t thread;
	const char *store;
	int timeout_ms;
	atomic_bool done;
	int result;
};

static void *wait_active(void *argument)
{
	struct waiter *waiter = argument;

	waiter->result = lsm_wait_active(waiter->store, waiter->timeout_ms);
	atomic_store(&waiter->done, true);
	return NULL;
}

static bool start(struct waiter *waiter, const char *store)
{
	waiter->store = store;
	waiter->timeout_ms = WAIT_MS;
	atomic_store(&waiter->done, false);
	return !pthread_create(&waiter->thread, NULL, wait_active, waiter);
}

static int end(struct waiter *waiter)
{
	pthread_join(waiter->thread, NULL);
	return waiter->result;
}

FIXTURE(waiting) {
	struct store store;
	struct follower follower;
};

FIXTURE_SETUP(waiting)
{
}

FIXTURE_TEARDOWN(waiting)
{
}

/* By its node, its given name and its uuid, before it exists: all are woken, and none before it is active. */
TEST_F_TIMEOUT(waiting, from_before, SECONDS)
{
	static const uint8_t uuid[LSMEM_UUID_BYTES] = { 0xab, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 };
	static const char *const stores[] = {
		"/dev/lsmem", "name:waited", "uuid:abcd0102-0304-0506-0708-090a0b0c0d0e",
	};
	struct lsmem_activate activate = { .size = sizeof(activate) };
	struct waiter waiters[3];
	struct pollfd wait = { .events = POLLIN };
	struct lsm *lsm;
	char path[64];
	unsigned int i;

	EXPECT_EQ(-ENOENT, lsm_path(stores[1], path, sizeof(path)));
	EXPECT_EQ(-ENOENT, lsm_open(stores[2], 0, &lsm));
	for (i = 0; i < 3; i++)
		ASSERT_TRUE(start(&waiters[i], stores[i]));
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	ASSERT_STREQ("/dev/lsmem", self->store.path);
	EXPECT_EQ(-EAGAIN, lsm_open(NULL, 0, &lsm));
	wait.fd = self->store.fd;
	EXPECT_EQ(0, poll(&wait, 1, 0));
	ASSERT_EQ(0, store_set_text(&self->store, "given_name", "waited"));
	ASSERT_EQ(0, follower_attach_as(&self->follower, self->store.name, uuid));
	for (i = 1; i < 3; i++) {
		EXPECT_EQ(0, lsm_path(stores[i], path, sizeof(path)));
		EXPECT_STREQ("/dev/lsmem", path);
	}
	EXPECT_EQ(-ETIMEDOUT, lsm_wait_active(stores[1], 50));
	for (i = 0; i < 3; i++)
		EXPECT_FALSE(atomic_load(&waiters[i].done));
	activate.era = 1;
	activate.next_segment = 1;
	activate.generation_ceiling = LSMEM_GENERATION_MAX;
	ASSERT_EQ(0, follower_activate(&self->follower, &activate));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(0, end(&waiters[i]));
	EXPECT_EQ(1, poll(&wait, 1, 0));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, lsm_open(stores[i], 0, &lsm));
		lsm_close(lsm);
	}
	EXPECT_EQ(-ENOENT, lsm_path("name:wait", path, sizeof(path)));
	follower_stop(&self->follower);
	EXPECT_STREQ("", self->follower.wrong);
	EXPECT_EQ(0, store_destroy(&self->store));
	follower_free(&self->follower);
}

/* A poll that sleeps is woken. */
TEST_F_TIMEOUT(waiting, poll_is_woken, SECONDS)
{
	struct pollfd wait = { .events = POLLIN };
	struct waiter waiter;

	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	wait.fd = self->store.fd;
	EXPECT_EQ(0, poll(&wait, 1, 100));
	ASSERT_TRUE(start(&waiter, self->store.path));
	ASSERT_EQ(0, follower_start(&self->follower, self->store.name));
	EXPECT_EQ(1, poll(&wait, 1, WAIT_MS));
	EXPECT_EQ(POLLIN, wait.revents);
	EXPECT_EQ(0, end(&waiter));
	follower_stop(&self->follower);
	EXPECT_EQ(0, store_destroy(&self->store));
	follower_free(&self->follower);
}

TEST_HARNESS_MAIN
