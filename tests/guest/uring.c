// SPDX-License-Identifier: GPL-2.0
/*
 * The object calls as commands of io_uring (IORING_OP_URING_CMD): the results and errors of the
 * ioctls; what a command does instead of waiting for space; and that a durable command ends when
 * the daemon has acknowledged it, when its time has passed, or when its ring is closed.
 *
 * Every test destroys its store, which fails if a command still holds the file.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "store.h"

#define DEPTH		128u
#define LENGTH		100u
#define SECONDS		120	/* time limit of a test; sufficient under emulation */
#define QUIET_MS	100	/* nothing ends within this time */

/* Ways to have commands issued: flags of the ring, and of each SQE. */
static const struct way {
	const char *name;
	unsigned int setup;
	uint8_t sqe;
} ways[] = {
	{ "by the submitter", 0, 0 },
	{ "by a thread of io_uring", 0, IOSQE_ASYNC },
	{ "deferred", IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, 0 },
	{ "by a polling thread", IORING_SETUP_SQPOLL, 0 },
};

#define WAYS	(sizeof(ways) / sizeof(ways[0]))

/* Does this kernel end commands whose ring is closed? */
static bool cancels(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;

	if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return false;
	return major > 6 || (major == 6 && minor >= 7);
}

static bool no_uring(int error)
{
	return error == -ENOSYS || error == -EPERM;
}

static struct io_uring_sqe *prepare(struct io_uring *ring, int fd, unsigned long request,
				    void *structure, uint8_t flags)
{
	struct lsmem_command command = { .structure = (uintptr_t)structure };
	struct io_uring_sqe *sqe;

	/* A polling thread may not have taken the last ones yet. */
	while (!(sqe = io_uring_get_sqe(ring)))
		io_uring_sqring_wait(ring);
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = (uint32_t)request;
	sqe->flags = flags;
	sqe->user_data = (uintptr_t)structure;
	memcpy(sqe->cmd, &command, sizeof(command));
	return sqe;
}

/* Take one completion. Returns its result, or -ETIME if none comes in @ms. */
static int reap(struct io_uring *ring, uint64_t ms, uint64_t *which)
{
	struct __kernel_timespec wait = {
		.tv_sec = (long long)(ms / 1000),
		.tv_nsec = (long long)(ms % 1000) * 1000000,
	};
	struct io_uring_cqe *cqe;
	int ret = io_uring_wait_cqe_timeout(ring, &cqe, &wait);

	if (ret)
		return ret;
	ret = cqe->res;
	if (which)
		*which = cqe->user_data;
	io_uring_cqe_seen(ring, cqe);
	return ret;
}

static uint64_t patience(void)
{
	return test_limit(20000);
}

/* One command, and its end. */
static int command(struct io_uring *ring, int fd, unsigned long request, void *structure,
		   uint8_t flags)
{
	prepare(ring, fd, request, structure, flags);
	/* With a polling thread it also counts those that the thread has not taken yet. */
	if (io_uring_submit(ring) < 1)
		return -EIO;
	return reap(ring, patience(), NULL);
}

static int call(int fd, unsigned long request, void *structure)
{
	return ioctl(fd, request, structure) ? -errno : 0;
}

/* How long a store is held after the end of a ring or a process with commands. */
static uint64_t held_ms(void)
{
	return cancels() ? patience() / 2 : patience();
}

/* Set a bound of commands: kernels that do not cancel commands wait for them. */
static int bound(const struct store *store, const char *limit)
{
	return store_set_attribute(store, limit, cancels() ? 2 * patience() : 500);
}

/* Vectors that have carried out one of their operations when they have to wait for space. */
#define STALLED		20u	/* more than threads of the module */

struct stalled {
	struct lsmem_vector vectors[STALLED];
	struct lsmem_op ops[STALLED][3];
	char byte;
};

static int submit_stalled(struct io_uring *ring, int fd, struct stalled *stalled, uint64_t handle,
			  unsigned int nr, uint32_t flags)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		struct lsmem_op *ops = stalled->ops[i];

		ops[0] = ops[2] = lsm_op_read(handle, &stalled->byte, 1, 0);
		ops[1] = lsm_op_replace(handle, "y", 1, 0, 0);
		stalled->vectors[i] = (struct lsmem_vector){
			.size = sizeof(stalled->vectors[i]),
			.flags = flags,
			.ops = (uintptr_t)ops,
			.nr = 3,
			.stride = sizeof(*ops),
		};
		prepare(ring, fd, LSMEM_IOC_VECTOR, &stalled->vectors[i], 0);
	}
	return io_uring_submit(ring);
}

/*
 * Destroy the store as soon as no command holds its file: a thread of io_uring may let go of it
 * only after it has posted the result.
 */
static int destroy(struct store *store)
{
	struct lsmem_destroy destroy = { .size = sizeof(destroy), .flags = LSMEM_DESTROY_FORCE };
	uint64_t end = now_ms() + patience();
	int ret;

	lsm_close(store->lsm);
	close(store->fd);
	memcpy(destroy.name, store->name, sizeof(destroy.name));
	do {
		ret = control_call(LSMEM_CTL_DESTROY, &destroy);
		if (ret == -EBUSY)
			usleep(1000);
	} while (ret == -EBUSY && now_ms() < end);
	return ret;
}

/* ---- A volatile store --------------------------------------------------- */

FIXTURE(uring) {
	struct store store;
	struct io_uring ring;
	uint8_t bytes[LENGTH];
};

FIXTURE_SETUP(uring)
{
	int ret = io_uring_queue_init(DEPTH, &self->ring, 0);

	if (no_uring(ret))
		SKIP(return, "this kernel has no io_uring");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, 0));
	content_fill(self->bytes, sizeof(self->bytes), 1, 1);
}

FIXTURE_TEARDOWN(uring)
{
	io_uring_queue_exit(&self->ring);
	EXPECT_EQ(0, destroy(&self->store));
}

/* The life of an object, with each way of issuing a command. */
TEST_F_TIMEOUT(uring, life, SECONDS)
{
	unsigned int i;

	for (i = 0; i < WAYS; i++) {
		uint8_t read[2 * LENGTH] = { 0 };
		struct io_uring ring;
		struct lsmem_op op;
		uint64_t handle, version;
		int fd = self->store.fd, ret = io_uring_queue_init(8, &ring, ways[i].setup);

		if (ret) {
			TH_LOG("%s: %s", ways[i].name, strerror(-ret));
			continue;
		}
		op = lsm_op_alloc(self->bytes, LENGTH, LSM_TABLE(7));
		ASSERT_EQ(0, command(&ring, fd, LSMEM_IOC_ALLOC, &op, ways[i].sqe));
		handle = op.handle;
		version = op.version;
		op = lsm_op_read(handle, read, sizeof(read), 0);
		ASSERT_EQ(0, command(&ring, fd, LSMEM_IOC_READ, &op, ways[i].sqe));
		EXPECT_EQ(LENGTH, op.length);
		EXPECT_EQ(7, op.table);
		EXPECT_EQ(version, op.version);
		EXPECT_EQ(0, memcmp(read, self->bytes, LENGTH));
		op = lsm_op_replace(handle, "xyz", 3, LSMEM_OPF_EXPECT, version);
		ASSERT_EQ(0, command(&ring, fd, LSMEM_IOC_REPLACE, &op, ways[i].sqe));
		EXPECT_LT(version, op.version);
		op = lsm_op_replace(handle, "abc", 3, LSMEM_OPF_EXPECT, version);
		EXPECT_EQ(-EILSEQ, command(&ring, fd, LSMEM_IOC_REPLACE, &op, ways[i].sqe));
		EXPECT_LT(version, op.version);
		op = lsm_op_read(handle, read, sizeof(read), 0);
		ASSERT_EQ(0, call(fd, LSMEM_IOC_READ, &op));
		EXPECT_EQ(0, memcmp(read, "xyz", 3));
		op = lsm_op_free(handle, 0, 0);
		ASSERT_EQ(0, command(&ring, fd, LSMEM_IOC_FREE, &op, ways[i].sqe));
		op = lsm_op_free(handle, 0, 0);
		EXPECT_EQ(-ESTALE, command(&ring, fd, LSMEM_IOC_FREE, &op, ways[i].sqe));
		io_uring_queue_exit(&ring);
	}
}

/* A command that is refused has the error of the ioctl. */
TEST_F_TIMEOUT(uring, errors_as_ioctl, SECONDS)
{
	struct lsmem_query query = { .size = sizeof(query) }, same = query;
	struct lsmem_op ops[10], op;
	struct io_uring_sqe *sqe;
	int fd = self->store.fd, reader = open(self->store.path, O_RDONLY | O_CLOEXEC);
	unsigned int i;

	ASSERT_LE(0, reader);
	ops[0] = lsm_op_alloc(self->bytes, 0, 0);
	ops[1] = lsm_op_alloc(self->bytes, OBJECT_MAX + 1, 0);
	ops[2] = lsm_op_alloc(NULL, LENGTH, 0);
	ops[3] = lsm_op_alloc(self->bytes, LENGTH, LSMEM_OPF_DURABLE);
	ops[4] = lsm_op_alloc(self->bytes, LENGTH, LSM_TABLE(4096));
	ops[5] = lsm_op_read(12345, self->bytes, LENGTH, 0);
	ops[6] = lsm_op_alloc(self->bytes, LENGTH, 0);
	ops[6].size = 8;
	ops[7] = lsm_op_alloc(self->bytes, LENGTH, 1u << 30);
	ops[8] = lsm_op_alloc(self->bytes, LENGTH, 0);
	ops[8].result = 1;
	ops[9] = lsm_op_free(0, 0, 0);
	for (i = 0; i < 10; i++) {
		unsigned long request = ops[i].op == LSMEM_OP_READ ? LSMEM_IOC_READ :
					ops[i].op == LSMEM_OP_FREE ? LSMEM_IOC_FREE :
					LSMEM_IOC_ALLOC;
		int error;

		op = ops[i];
		error = call(fd, request, &op);
		EXPECT_NE(0, error);
		op = ops[i];
		EXPECT_EQ(error, command(&self->ring, fd, request, &op, 0)) TH_LOG("%u", i);
		op = ops[i];
		EXPECT_EQ(error, command(&self->ring, fd, request, &op, IOSQE_ASYNC))
			TH_LOG("%u", i);
	}
	op = lsm_op_alloc(self->bytes, LENGTH, 0);
	EXPECT_EQ(-EBADF, command(&self->ring, reader, LSMEM_IOC_ALLOC, &op, 0));
	EXPECT_EQ(-EFAULT, command(&self->ring, fd, LSMEM_IOC_ALLOC, (void *)8, 0));
	EXPECT_EQ(-EFAULT, command(&self->ring, fd, LSMEM_IOC_ALLOC, (void *)(1ull << 63), 0));
	EXPECT_EQ(-EINVAL, command(&self->ring, fd, LSMEM_IOC_FREE, &op, 0));
	EXPECT_EQ(-ENOTTY, command(&self->ring, fd, LSMEM_CTL_CREATE, &op, 0));
	EXPECT_EQ(-ENOTTY, command(&self->ring, fd, 0, &op, 0));
	sqe = prepare(&self->ring, fd, LSMEM_IOC_ALLOC, &op, 0);
	sqe->cmd[15] = 1;
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(-EINVAL, reap(&self->ring, patience(), NULL));
	/* A buffer that is not registered: EFAULT on some kernels. */
	sqe = prepare(&self->ring, fd, LSMEM_IOC_ALLOC, &op, 0);
	sqe->rw_flags = IORING_URING_CMD_FIXED;
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_GT(0, reap(&self->ring, patience(), NULL));
	EXPECT_EQ(0, store_attribute(&self->store, "handles_used"));
	ASSERT_EQ(0, call(fd, LSMEM_IOC_QUERY, &same));
	EXPECT_TRUE(same.features & LSMEM_FEATURE_URING);
	ASSERT_EQ(0, command(&self->ring, fd, LSMEM_IOC_QUERY, &query, 0));
	EXPECT_EQ(0, memcmp(&query, &same, sizeof(query)));
	close(reader);
}

/* A vector: its results are in its operations. */
TEST_F_TIMEOUT(uring, vector, SECONDS)
{
	enum { NR = 1024 };
	struct lsmem_op *ops = calloc(NR, sizeof(*ops));
	struct lsmem_vector vector = {
		.size = sizeof(vector),
		.ops = (uintptr_t)ops,
		.nr = NR,
		.stride = sizeof(*ops),
	};
	uint8_t read[LENGTH];
	unsigned int i, way;

	ASSERT_NE(NULL, ops);
	for (way = 0; way < 2; way++) {
		for (i = 0; i < NR; i++)
			ops[i] = lsm_op_alloc(self->bytes, i == 700 ? 0 : LENGTH, 0);
		ASSERT_EQ(0, command(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vector,
				     ways[way].sqe));
		EXPECT_EQ(NR, vector.nr);
		for (i = 0; i < NR; i++)
			ASSERT_EQ(i == 700 ? -EINVAL : 0, ops[i].result);
		EXPECT_EQ(NR - 1, store_attribute(&self->store, "handles_used"));
		for (i = 0; i < NR; i++)
			ops[i] = i % 2 ? lsm_op_free(ops[i].handle, 0, 0) :
				 lsm_op_read(ops[i].handle, read, sizeof(read), 0);
		ASSERT_EQ(0, command(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vector,
				     ways[way].sqe));
		for (i = 0; i < NR; i++)
			ASSERT_EQ(i == 700 ? -ENOENT : 0, ops[i].result);
		for (i = 0; i < NR; i += 2)
			ops[i] = ops[i + 1] = lsm_op_free(ops[i].handle, 0, 0);
		ASSERT_EQ(0, command(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vector,
				     ways[way].sqe));
		EXPECT_EQ(0, store_attribute(&self->store, "handles_used"));
	}
	vector.nr = 1025;
	EXPECT_EQ(-EINVAL, command(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vector, 0));
	EXPECT_EQ(1025, vector.nr);
	free(ops);
}

/* Many commands in flight, on objects of their own. */
TEST_F_TIMEOUT(uring, depth, SECONDS)
{
	const unsigned int rounds = (unsigned int)test_scaled(500);
	struct lsmem_op ops[DEPTH] = { 0 };
	uint8_t bytes[DEPTH][LENGTH], read[DEPTH][LENGTH];
	uint64_t handles[DEPTH];
	unsigned int i, round, way;

	for (way = 0; way < WAYS; way++) {
		struct io_uring ring;

		if (io_uring_queue_init(DEPTH, &ring, ways[way].setup))
			continue;
		for (round = 0; round < rounds; round++) {
			for (i = 0; i < DEPTH; i++) {
				content_fill(bytes[i], LENGTH, i, round);
				ops[i] = round % 2 ?
					 lsm_op_read(handles[i], read[i], LENGTH, 0) :
					 round ? lsm_op_replace(handles[i], bytes[i], LENGTH, 0, 0) :
						 lsm_op_alloc(bytes[i], LENGTH, 0);
				prepare(&ring, self->store.fd, round % 2 ? LSMEM_IOC_READ : round ?
					LSMEM_IOC_REPLACE : LSMEM_IOC_ALLOC, &ops[i], ways[way].sqe);
			}
			ASSERT_LE(DEPTH, io_uring_submit(&ring));
			for (i = 0; i < DEPTH; i++)
				ASSERT_EQ(0, reap(&ring, patience(), NULL));
			for (i = 0; i < DEPTH; i++) {
				if (!round)
					handles[i] = ops[i].handle;
				content_fill(bytes[i], LENGTH, i, round - 1);
				if (round % 2)
					ASSERT_EQ(0, memcmp(bytes[i], read[i], LENGTH));
			}
		}
		io_uring_queue_exit(&ring);
	}
}

/* A store that is full says so, and can delete. */
TEST_F_TIMEOUT(uring, full, SECONDS)
{
	uint8_t *bytes = calloc(1, OBJECT_MAX);
	uint64_t handles[256];
	unsigned int nr = 0, i;
	struct lsmem_op op;
	int ret;

	ASSERT_NE(NULL, bytes);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", test_limit(5000)));
	do {
		op = lsm_op_alloc(bytes, OBJECT_MAX, 0);
		ret = command(&self->ring, self->store.fd, LSMEM_IOC_ALLOC, &op, 0);
		if (!ret)
			handles[nr++] = op.handle;
	} while (!ret && nr < 256);
	EXPECT_EQ(-ENOSPC, ret);
	EXPECT_LT(64, nr);
	EXPECT_EQ(0, op.handle);
	for (i = 0; i < nr; i++) {
		op = lsm_op_free(handles[i], 0, 0);
		ASSERT_EQ(0, command(&self->ring, self->store.fd, LSMEM_IOC_FREE, &op, 0));
	}
	EXPECT_EQ(0, store_attribute(&self->store, "handles_used"));
	free(bytes);
}

/* More is written than the store holds: appends have to wait for the cleaners. */
TEST_F_TIMEOUT(uring, churn, SECONDS)
{
	enum { OBJECTS = 90, LARGE = 1000000 };
	const unsigned int writes = (unsigned int)test_scaled(600);
	uint8_t *bytes = calloc(1, LARGE);
	struct lsmem_op ops[OBJECTS];
	uint64_t which, random = test_seed;
	unsigned int i, begun = 0;

	ASSERT_NE(NULL, bytes);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", test_limit(20000)));
	for (i = 0; i < OBJECTS; i++) {
		ops[i] = lsm_op_alloc(bytes, LARGE, 0);
		ASSERT_EQ(0, call(self->store.fd, LSMEM_IOC_ALLOC, &ops[i]));
	}
	for (i = 0; i < 16; i++, begun++) {
		ops[i] = lsm_op_replace(ops[i].handle, bytes, LARGE, 0, 0);
		prepare(&self->ring, self->store.fd, LSMEM_IOC_REPLACE, &ops[i], 0);
	}
	ASSERT_EQ(16, io_uring_submit(&self->ring));
	for (i = 0; i < begun; i++) {
		struct lsmem_op *op, swap, *other = &ops[16 + random_next(&random) % (OBJECTS - 16)];

		ASSERT_EQ(0, reap(&self->ring, patience(), &which));
		if (begun >= writes)
			continue;
		op = (struct lsmem_op *)(uintptr_t)which;
		swap = *other;
		*other = *op;
		*op = lsm_op_replace(swap.handle, bytes, LARGE, 0, 0);
		prepare(&self->ring, self->store.fd, LSMEM_IOC_REPLACE, op, 0);
		ASSERT_EQ(1, io_uring_submit(&self->ring));
		begun++;
	}
	EXPECT_EQ(OBJECTS, store_attribute(&self->store, "handles_used"));
	free(bytes);
}

/*
 * An append that would wait is carried out once, by a thread; and so is the rest of a vector of
 * which some has been carried out.
 */
TEST_F_TIMEOUT(uring, would_wait, SECONDS)
{
	uint8_t read[LENGTH];
	struct lsmem_op ops[3], op = lsm_op_alloc(self->bytes, LENGTH, 0);
	struct lsmem_vector vector = {
		.size = sizeof(vector),
		.ops = (uintptr_t)ops,
		.nr = 3,
		.stride = sizeof(*ops),
	};
	unsigned int i, round;

	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", test_limit(5000)));
	if (!store_fault(&self->store, "no_space", 1))
		SKIP(return, "this kernel has no fault injection");
	ASSERT_EQ(0, command(&self->ring, self->store.fd, LSMEM_IOC_ALLOC, &op, 0));
	EXPECT_EQ(1, store_attribute(&self->store, "handles_used"));
	for (round = 0; round < 10; round++) {
		for (i = 0; i < 3; i++)
			ops[i] = i == 1 ? lsm_op_replace(op.handle, self->bytes, LENGTH, 0, 0) :
				 lsm_op_read(op.handle, read, LENGTH, 0);
		ASSERT_TRUE(store_fault(&self->store, "no_space", 1));
		ASSERT_EQ(0, command(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vector, 0));
		EXPECT_EQ(3, vector.nr);
		for (i = 0; i < 3; i++)
			EXPECT_EQ(0, ops[i].result);
		EXPECT_EQ(ops[1].version, ops[2].version);
		EXPECT_LT(ops[0].version, ops[1].version);
	}
	/* A group, too: it goes to the worker as a whole. */
	vector.flags = LSMEM_OPF_ATOMIC;
	for (i = 0; i < 3; i++)
		ops[i] = i == 1 ? lsm_op_replace(op.handle, self->bytes, LENGTH, 0, 0) :
			 lsm_op_alloc(self->bytes, LENGTH, 0);
	ASSERT_TRUE(store_fault(&self->store, "no_space", 1));
	ASSERT_EQ(0, command(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vector, 0));
	EXPECT_EQ(3, vector.nr);
	EXPECT_EQ(3, store_attribute(&self->store, "handles_used"));
	for (i = 0; i < 3; i += 2)
		ops[i] = lsm_op_free(ops[i].handle, LSM_EXPECT, ops[1].version);
	ops[1] = lsm_op_check(op.handle, LSM_EXPECT, ops[1].version - 1);
	EXPECT_EQ(-EILSEQ, command(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vector, 0));
	vector.nr = 3;
	ops[1] = lsm_op_check(op.handle, LSM_EXPECT, ops[1].version);
	EXPECT_EQ(0, command(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vector, 0));
	EXPECT_EQ(1, store_attribute(&self->store, "handles_used"));
	ops[0] = lsm_op_read(op.handle, read, LENGTH, 0);
	EXPECT_EQ(-EINVAL, command(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vector, 0));
	EXPECT_EQ(0, vector.nr);
	EXPECT_EQ(-ECANCELED, ops[1].result);
	vector.nr = 3;
	vector.flags = 0;
	for (i = 0; i < 3; i++)
		ops[i] = i == 1 ? lsm_op_replace(op.handle, self->bytes, LENGTH, 0, 0) :
			 lsm_op_read(op.handle, read, LENGTH, 0);
	/* No space comes: the worker's wait has its bound, and nothing has changed. */
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", 100));
	ASSERT_TRUE(store_fault(&self->store, "no_space", 1000000));
	op = lsm_op_alloc(self->bytes, LENGTH, 0);
	EXPECT_EQ(-ENOSPC, command(&self->ring, self->store.fd, LSMEM_IOC_ALLOC, &op, 0));
	EXPECT_EQ(0, op.handle);
	ops[1].version = 0;
	EXPECT_EQ(0, command(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vector, 0));
	EXPECT_EQ(-ENOSPC, ops[1].result);
	EXPECT_EQ(0, ops[2].result);
	ASSERT_TRUE(store_fault(&self->store, "no_space", 0));
	EXPECT_EQ(1, store_attribute(&self->store, "handles_used"));
}

/*
 * A ring is closed, or its process killed, while threads wait for space with the rest of vectors, and
 * others wait for a thread: soon nothing holds the store, and nr tells what was carried out, unless the
 * memory of the process was gone before.
 */
TEST(stalled_ends)
{
	struct stalled *stalled = mmap(NULL, sizeof(*stalled), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int i, killed;

	ASSERT_NE(MAP_FAILED, stalled);
	test_alarm(SECONDS);
	for (killed = 0; killed < 2; killed++) {
		struct lsmem_op op = lsm_op_alloc("x", 1, 0);
		struct io_uring ring;
		struct store store;
		int ready[2], status;
		uint64_t begin;
		pid_t child;
		char byte;

		ASSERT_EQ(0, store_create(&store, STORE_BYTES, 0, 0));
		ASSERT_EQ(0, call(store.fd, LSMEM_IOC_ALLOC, &op));
		ASSERT_EQ(0, bound(&store, "limits/stall_ms"));
		if (!store_fault(&store, "no_space", 1000000)) {
			EXPECT_EQ(0, destroy(&store));
			SKIP(return, "this kernel has no fault injection");
		}
		ASSERT_EQ(0, pipe(ready));
		child = fork();
		ASSERT_LE(0, child);
		if (!child) {
			if (io_uring_queue_init(DEPTH, &ring, 0))
				_exit(1);
			if (submit_stalled(&ring, store.fd, stalled, op.handle, STALLED, 0) != STALLED)
				_exit(2);
			/* None has ended. */
			if (reap(&ring, QUIET_MS, NULL) != -ETIME)
				_exit(3);
			if (!killed)
				io_uring_queue_exit(&ring);
			close(store.fd);
			close(lsm_fd(store.lsm));
			if (write(ready[1], "", 1) != 1)
				_exit(4);
			pause();
		}
		close(ready[1]);
		if (read(ready[0], &byte, 1) != 1) {
			ASSERT_EQ(child, waitpid(child, &status, 0));
			if (WEXITSTATUS(status) == 1)
				SKIP(return, "this kernel has no io_uring");
			ASSERT_EQ(0, status);
		}
		begin = now_ms();
		if (killed)
			ASSERT_EQ(0, kill(child, SIGKILL));
		EXPECT_EQ(0, destroy(&store));
		EXPECT_GT(held_ms(), now_ms() - begin);
		for (i = 0; i < STALLED; i++) {
			if (!killed || stalled->vectors[i].nr != 3)
				EXPECT_EQ(cancels() ? 1 : 3, stalled->vectors[i].nr);
			EXPECT_EQ(0, stalled->ops[i][0].result);
			if (!killed)
				EXPECT_EQ(cancels() ? 0 : -ENOSPC, stalled->ops[i][1].result);
			EXPECT_EQ(0, stalled->ops[i][1].version);
		}
		kill(child, SIGKILL);
		ASSERT_EQ(child, waitpid(child, &status, 0));
		close(ready[0]);
	}
	munmap(stalled, sizeof(*stalled));
}

/* Pages that are missing are brought in. */
TEST_F_TIMEOUT(uring, new_pages, SECONDS)
{
	const size_t length = OBJECT_MAX;
	uint8_t *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
	struct lsmem_op op;

	ASSERT_NE(MAP_FAILED, pages);
	op = lsm_op_alloc(pages, length, 0);
	ASSERT_EQ(0, command(&self->ring, self->store.fd, LSMEM_IOC_ALLOC, &op, 0));
	ASSERT_EQ(0, madvise(pages, length, MADV_DONTNEED));
	op = lsm_op_read(op.handle, pages, length, 0);
	ASSERT_EQ(0, command(&self->ring, self->store.fd, LSMEM_IOC_READ, &op, 0));
	EXPECT_EQ(length, op.length);
	munmap(pages, length);
}

/* ---- A durable store ---------------------------------------------------- */

FIXTURE(durable) {
	struct follower follower;
	struct store store;
	struct io_uring ring;
	bool started;
};

/*
 * Open the segment of every head, so that no command has to wait for a daemon that is asleep: a
 * durable change on each processor.
 */
static int warm(int fd)
{
	struct lsmem_op op;
	cpu_set_t all, one;
	int cpu, ret = sched_getaffinity(0, sizeof(all), &all) ? -errno : 0;

	for (cpu = 0; !ret && cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof(one), &one))
			return -errno;
		op = lsm_op_alloc("x", 1, LSMEM_OPF_DURABLE);
		ret = call(fd, LSMEM_IOC_ALLOC, &op);
		if (ret)
			break;
		op = lsm_op_free(op.handle, LSMEM_OPF_DURABLE, 0);
		ret = call(fd, LSMEM_IOC_FREE, &op);
	}
	return sched_setaffinity(0, sizeof(all), &all) ? -errno : ret;
}

FIXTURE_SETUP(durable)
{
	int ret = io_uring_queue_init(2 * DEPTH, &self->ring, 0);

	if (no_uring(ret))
		SKIP(return, "this kernel has no io_uring");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_start(&self->follower, self->store.name));
	self->started = true;
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", patience()));
	ASSERT_EQ(0, warm(self->store.fd));
	/* User-mode Linux 7.2 corrupts the pages of a ring that a child process has, too. */
	ASSERT_EQ(0, io_uring_ring_dontfork(&self->ring));
}

/* Stop the daemon and destroy the store; @follower as it is, awake or asleep. */
static int end(struct follower *follower, struct store *store)
{
	follower_stop(follower);
	follower_free(follower);
	return destroy(store);
}

FIXTURE_TEARDOWN(durable)
{
	if (!self->started)
		return;
	io_uring_queue_exit(&self->ring);
	EXPECT_STREQ("", self->follower.wrong);
	EXPECT_EQ(0, end(&self->follower, &self->store));
}

/* Durable commands, each of which makes an object. */
static void submit_durable(struct io_uring *ring, int fd, struct lsmem_op *ops, unsigned int nr,
			   uint8_t flags)
{
	static uint8_t bytes[LENGTH];
	unsigned int i;

	for (i = 0; i < nr; i++) {
		ops[i] = lsm_op_alloc(bytes, LENGTH, LSMEM_OPF_DURABLE);
		prepare(ring, fd, LSMEM_IOC_ALLOC, &ops[i], flags);
	}
	io_uring_submit(ring);
}

/* Durable commands end after the acknowledgement, and all of them do; with each way. */
TEST_F_TIMEOUT(durable, acknowledged, SECONDS)
{
	struct lsmem_op ops[DEPTH];
	unsigned int i, way;

	for (way = 0; way < WAYS; way++) {
		struct io_uring ring;

		if (io_uring_queue_init(DEPTH, &ring, ways[way].setup))
			continue;
		follower_sleep(&self->follower, true);
		submit_durable(&ring, self->store.fd, ops, DEPTH, ways[way].sqe);
		EXPECT_EQ(-ETIME, reap(&ring, QUIET_MS, NULL)) TH_LOG("%s", ways[way].name);
		follower_sleep(&self->follower, false);
		for (i = 0; i < DEPTH; i++)
			ASSERT_EQ(0, reap(&ring, patience(), NULL)) TH_LOG("%s", ways[way].name);
		io_uring_queue_exit(&ring);
	}
}

/*
 * A durable command signals the eventfd of its ring when it is acknowledged, not when it is carried out: a program that
 * waits for many things at once needs no thread for it.
 */
TEST_F_TIMEOUT(durable, eventfd, SECONDS)
{
	unsigned int way;

	for (way = 0; way < WAYS; way++) {
		struct pollfd signals = { .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .events = POLLIN };
		struct io_uring ring;
		struct lsmem_op op;
		uint64_t sum = 0;
		char byte;

		ASSERT_LE(0, signals.fd);
		if (io_uring_queue_init(8, &ring, ways[way].setup)) {
			close(signals.fd);
			continue;
		}
		ASSERT_EQ(0, io_uring_register_eventfd(&ring, signals.fd));
		follower_sleep(&self->follower, true);
		submit_durable(&ring, self->store.fd, &op, 1, ways[way].sqe);
		EXPECT_EQ(0, poll(&signals, 1, QUIET_MS)) TH_LOG("%s", ways[way].name);
		follower_sleep(&self->follower, false);
		EXPECT_EQ(1, poll(&signals, 1, (int)patience())) TH_LOG("%s", ways[way].name);
		EXPECT_EQ(sizeof(sum), read(signals.fd, &sum, sizeof(sum)));
		EXPECT_LE(1, sum);
		EXPECT_EQ(0, reap(&ring, patience(), NULL)) TH_LOG("%s", ways[way].name);
		/* It was carried out and is there. */
		op = lsm_op_read(op.handle, &byte, 1, 0);
		EXPECT_EQ(0, call(self->store.fd, LSMEM_IOC_READ, &op));
		EXPECT_EQ(LENGTH, op.object_length);
		EXPECT_EQ(0, io_uring_unregister_eventfd(&ring));
		io_uring_queue_exit(&ring);
		close(signals.fd);
	}
}

/* With a daemon that acknowledges all the time; REPLACE, FREE, and plain commands in between. */
TEST_F_TIMEOUT(durable, depth, SECONDS)
{
	const unsigned int rounds = (unsigned int)test_scaled(200);
	struct lsmem_op ops[DEPTH];
	uint64_t handles[DEPTH];
	unsigned int i, round;
	char byte;

	submit_durable(&self->ring, self->store.fd, ops, DEPTH, 0);
	for (i = 0; i < DEPTH; i++)
		ASSERT_EQ(0, reap(&self->ring, patience(), NULL));
	for (i = 0; i < DEPTH; i++)
		handles[i] = ops[i].handle;
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < DEPTH; i++) {
			bool read = i % 4 == 3;

			ops[i] = read ? lsm_op_read(handles[i], &byte, 1, 0) :
				 lsm_op_replace(handles[i], "y", 1,
						i % 4 ? LSMEM_OPF_DURABLE : 0, 0);
			prepare(&self->ring, self->store.fd, read ? LSMEM_IOC_READ :
				LSMEM_IOC_REPLACE, &ops[i], i % 8 ? 0 : IOSQE_ASYNC);
		}
		ASSERT_EQ(DEPTH, io_uring_submit(&self->ring));
		for (i = 0; i < DEPTH; i++)
			ASSERT_EQ(0, reap(&self->ring, patience(), NULL));
	}
	for (i = 0; i < DEPTH; i++) {
		ops[i] = lsm_op_free(handles[i], LSMEM_OPF_DURABLE, 0);
		prepare(&self->ring, self->store.fd, LSMEM_IOC_FREE, &ops[i], 0);
	}
	ASSERT_EQ(DEPTH, io_uring_submit(&self->ring));
	for (i = 0; i < DEPTH; i++)
		ASSERT_EQ(0, reap(&self->ring, patience(), NULL));
	EXPECT_EQ(0, store_attribute(&self->store, "handles_used"));
}

/* Without an acknowledgement: ETIMEDOUT, not before durable_ms; a later sync waits again. */
TEST_F_TIMEOUT(durable, timeout, SECONDS)
{
	struct lsmem_sync sync = { .size = sizeof(sync) };
	struct lsmem_op ops[DEPTH];
	uint64_t begin, value;
	unsigned int i;
	char byte;

	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 300));
	follower_sleep(&self->follower, true);
	begin = now_ms();
	submit_durable(&self->ring, self->store.fd, ops, DEPTH, 0);
	for (i = 0; i < DEPTH; i++) {
		ASSERT_EQ(-ETIMEDOUT, reap(&self->ring, patience(), &value));
		if (!i)
			EXPECT_LE(300, now_ms() - begin);
	}
	EXPECT_GT(test_limit(5000), now_ms() - begin);
	ops[0] = lsm_op_read(ops[0].handle, &byte, 1, 0);
	EXPECT_EQ(0, command(&self->ring, self->store.fd, LSMEM_IOC_READ, &ops[0], 0));
	/* SYNC is carried out by a thread of io_uring. */
	prepare(&self->ring, self->store.fd, LSMEM_IOC_SYNC, &sync, 0);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(-ETIME, reap(&self->ring, QUIET_MS, NULL));
	follower_sleep(&self->follower, false);
	EXPECT_EQ(0, reap(&self->ring, patience(), NULL));
	/* The bound is that of the time when a command is submitted. */
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", patience()));
	follower_sleep(&self->follower, true);
	submit_durable(&self->ring, self->store.fd, ops, 1, 0);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 100));
	submit_durable(&self->ring, self->store.fd, ops + 1, 1, 0);
	EXPECT_EQ(-ETIMEDOUT, reap(&self->ring, patience() / 2, &value));
	EXPECT_EQ((uintptr_t)&ops[1], value);
	follower_sleep(&self->follower, false);
	EXPECT_EQ(0, reap(&self->ring, patience(), &value));
	EXPECT_EQ((uintptr_t)&ops[0], value);
}

/* A durable vector waits for all its operations; what it says after a timeout, as the ioctl. */
TEST_F_TIMEOUT(durable, vectors, SECONDS)
{
	enum { VECTORS = 32, OPS = 20 };
	static struct lsmem_op ops[VECTORS][OPS];
	struct lsmem_vector vectors[VECTORS];
	unsigned int i, j, round;
	uint64_t handle;
	char byte;

	ops[0][0] = lsm_op_alloc("x", 1, 0);
	ASSERT_EQ(0, call(self->store.fd, LSMEM_IOC_ALLOC, &ops[0][0]));
	handle = ops[0][0].handle;
	for (round = 0; round < 2; round++) {
		if (round)
			ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 200));
		follower_sleep(&self->follower, true);
		for (i = 0; i < VECTORS; i++) {
			for (j = 0; j < OPS; j++)
				ops[i][j] = j % 2 ? lsm_op_read(handle, &byte, 1, 0) :
					    lsm_op_alloc("abc", 3, i % 2 && j ? LSMEM_OPF_DURABLE : 0);
			vectors[i] = (struct lsmem_vector){
				.size = sizeof(vectors[i]),
				.flags = i % 2 ? 0 : LSMEM_OPF_DURABLE,
				.ops = (uintptr_t)ops[i],
				.nr = OPS,
				.stride = sizeof(ops[i][0]),
			};
			prepare(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vectors[i],
				i % 4 ? 0 : IOSQE_ASYNC);
		}
		ASSERT_EQ(VECTORS, io_uring_submit(&self->ring));
		if (!round) {
			EXPECT_EQ(-ETIME, reap(&self->ring, QUIET_MS, NULL));
			follower_sleep(&self->follower, false);
		}
		for (i = 0; i < VECTORS; i++)
			ASSERT_EQ(0, reap(&self->ring, patience(), NULL));
		for (i = 0; i < VECTORS; i++) {
			EXPECT_EQ(OPS, vectors[i].nr);
			for (j = 0; j < OPS; j++)
				ASSERT_EQ(!round || j % 2 || (i % 2 && !j) ? 0 : -ETIMEDOUT,
					  ops[i][j].result) TH_LOG("%u %u %u", round, i, j);
		}
	}
	follower_sleep(&self->follower, false);
}

/* A durable group of checks alone waits until what it has found is durable. */
TEST_F_TIMEOUT(durable, checks, SECONDS)
{
	struct lsmem_op op = lsm_op_alloc("x", 1, 0);
	struct lsmem_vector vector = {
		.size = sizeof(vector),
		.flags = LSMEM_OPF_DURABLE | LSMEM_OPF_ATOMIC,
		.ops = (uintptr_t)&op,
		.nr = 1,
		.stride = sizeof(op),
	};

	follower_sleep(&self->follower, true);
	ASSERT_EQ(0, call(self->store.fd, LSMEM_IOC_ALLOC, &op));
	op = lsm_op_check(op.handle, LSM_EXPECT, op.version);
	prepare(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vector, 0);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(-ETIME, reap(&self->ring, QUIET_MS, NULL));
	follower_sleep(&self->follower, false);
	EXPECT_EQ(0, reap(&self->ring, patience(), NULL));
	EXPECT_EQ(0, op.result);
}

/* The rest of a durable vector is carried out by a thread, and waits as the others. */
TEST_F_TIMEOUT(durable, vector_would_wait, SECONDS)
{
	struct lsmem_op ops[3];
	struct lsmem_vector vector = {
		.size = sizeof(vector),
		.flags = LSMEM_OPF_DURABLE,
		.ops = (uintptr_t)ops,
		.nr = 3,
		.stride = sizeof(*ops),
	};
	uint64_t handle;
	unsigned int round;
	char byte;

	ops[0] = lsm_op_alloc("x", 1, 0);
	ASSERT_EQ(0, call(self->store.fd, LSMEM_IOC_ALLOC, &ops[0]));
	handle = ops[0].handle;
	for (round = 0; round < 2; round++) {
		ops[0] = lsm_op_read(handle, &byte, 1, 0);
		ops[1] = lsm_op_replace(handle, "y", 1, 0, 0);
		ops[2] = lsm_op_read(handle, &byte, 1, 0);
		follower_sleep(&self->follower, true);
		if (round)
			ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 200));
		if (!store_fault(&self->store, "no_space", 1)) {
			follower_sleep(&self->follower, false);
			SKIP(return, "this kernel has no fault injection");
		}
		prepare(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vector, 0);
		ASSERT_EQ(1, io_uring_submit(&self->ring));
		if (!round) {
			EXPECT_EQ(-ETIME, reap(&self->ring, QUIET_MS, NULL));
			follower_sleep(&self->follower, false);
		}
		EXPECT_EQ(0, reap(&self->ring, patience(), NULL));
		EXPECT_EQ(3, vector.nr);
		EXPECT_EQ(0, ops[0].result);
		EXPECT_EQ(round ? -ETIMEDOUT : 0, ops[1].result);
		EXPECT_EQ(0, ops[2].result);
	}
	follower_sleep(&self->follower, false);
}

/* How many threads of io_uring this process has. */
static unsigned int workers(void)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned int nr = 0;

	while (dir && (entry = readdir(dir))) {
		char path[64], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fgets(name, sizeof(name), file) && !strncmp(name, "iou-wrk", 7))
			nr++;
		fclose(file);
	}
	if (dir)
		closedir(dir);
	return nr;
}

/* As many commands as a store may have parked; further ones wait in threads.  All are carried out once. */
TEST_F_TIMEOUT(durable, parked_most, SECONDS)
{
	enum { MOST = 65536, MORE = 8, AT_A_TIME = 64 };
	struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE, .cq_entries = 65536 };
	struct lsmem_op *ops = calloc(MOST + MORE, sizeof(*ops));
	struct lsmem_vector vectors[MORE / 2];
	unsigned int i, j;
	long long before;
	uint64_t end;
	struct io_uring rings[2];

	ASSERT_NE(NULL, ops);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 4 * patience()));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, io_uring_queue_init_params(AT_A_TIME, &rings[i], &params));
		ASSERT_EQ(0, io_uring_ring_dontfork(&rings[i]));
	}
	before = store_attribute(&self->store, "handles_used");
	follower_sleep(&self->follower, true);
	for (i = 0; i < MOST; i += AT_A_TIME)
		submit_durable(&rings[i / (MOST / 2)], self->store.fd, &ops[i], AT_A_TIME, 0);
	EXPECT_EQ(before + MOST, store_attribute(&self->store, "handles_used"));
	EXPECT_EQ(0, workers());
	submit_durable(&self->ring, self->store.fd, &ops[MOST], MORE / 2, 0);
	for (i = 0; i < MORE / 2; i++) {
		ops[MOST + MORE / 2 + i] = lsm_op_alloc("x", 1, 0);
		vectors[i] = (struct lsmem_vector){
			.size = sizeof(vectors[i]),
			.flags = LSMEM_OPF_DURABLE,
			.ops = (uintptr_t)&ops[MOST + MORE / 2 + i],
			.nr = 1,
			.stride = sizeof(*ops),
		};
		prepare(&self->ring, self->store.fd, LSMEM_IOC_VECTOR, &vectors[i], 0);
	}
	ASSERT_EQ(MORE / 2, io_uring_submit(&self->ring));
	/* The threads carry them out, and wait. */
	end = now_ms() + patience();
	while (store_attribute(&self->store, "handles_used") < before + MOST + MORE &&
	       now_ms() < end)
		usleep(1000);
	EXPECT_LE(MORE, workers());
	EXPECT_EQ(-ETIME, reap(&self->ring, QUIET_MS, NULL));
	follower_sleep(&self->follower, false);
	for (i = 0; i < MORE; i++)
		ASSERT_EQ(0, reap(&self->ring, patience(), NULL));
	for (j = 0; j < 2; j++) {
		for (i = 0; i < MOST / 2; i++)
			ASSERT_EQ(0, reap(&rings[j], patience(), NULL));
		io_uring_queue_exit(&rings[j]);
	}
	EXPECT_EQ(before + MOST + MORE, store_attribute(&self->store, "handles_used"));
	free(ops);
}

/*
 * A ring is closed while commands are parked, vectors among them whose rest a thread has carried out:
 * soon nothing holds the store.
 */
TEST_F_TIMEOUT(durable, ring_closed, SECONDS)
{
	struct lsmem_op ops[DEPTH], op = lsm_op_alloc("x", 1, 0);
	struct stalled stalled;
	struct io_uring ring;
	uint64_t begin;

	ASSERT_EQ(0, bound(&self->store, "limits/durable_ms"));
	ASSERT_EQ(0, io_uring_queue_init(DEPTH, &ring, 0));
	ASSERT_EQ(0, call(self->store.fd, LSMEM_IOC_ALLOC, &op));
	follower_sleep(&self->follower, true);
	submit_durable(&ring, self->store.fd, ops, DEPTH, 0);
	store_fault(&self->store, "no_space", 4);
	ASSERT_EQ(4, submit_stalled(&ring, self->store.fd, &stalled, op.handle, 4,
				    LSMEM_OPF_DURABLE));
	EXPECT_EQ(-ETIME, reap(&ring, QUIET_MS, NULL));
	begin = now_ms();
	io_uring_queue_exit(&ring);
	self->started = false;
	io_uring_queue_exit(&self->ring);
	EXPECT_EQ(0, end(&self->follower, &self->store));
	EXPECT_GT(held_ms(), now_ms() - begin);
}

/* A process is killed while its commands are parked. */
TEST_F_TIMEOUT(durable, process_killed, SECONDS)
{
	struct lsmem_op ops[DEPTH];
	struct io_uring ring;
	int ready[2], status;
	uint64_t begin;
	pid_t child;
	char byte;

	ASSERT_EQ(0, bound(&self->store, "limits/durable_ms"));
	ASSERT_EQ(0, pipe(ready));
	follower_sleep(&self->follower, true);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		if (io_uring_queue_init(DEPTH, &ring, 0))
			_exit(1);
		submit_durable(&ring, self->store.fd, ops, DEPTH / 2, 0);
		submit_durable(&ring, self->store.fd, ops + DEPTH / 2, DEPTH / 2, IOSQE_ASYNC);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
	}
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	begin = now_ms();
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	self->started = false;
	io_uring_queue_exit(&self->ring);
	EXPECT_EQ(0, end(&self->follower, &self->store));
	EXPECT_GT(held_ms(), now_ms() - begin);
	close(ready[0]);
	close(ready[1]);
}

struct submitter {
	struct io_uring *ring;
	int fd;
	struct lsmem_op ops[DEPTH];
};

static void *submitter_main(void *argument)
{
	struct submitter *submitter = argument;

	submit_durable(submitter->ring, submitter->fd, submitter->ops, DEPTH, 0);
	return NULL;
}

/* The thread that submitted commands ends: a kernel thread posts their results. */
TEST_F_TIMEOUT(durable, submitter_ends, SECONDS)
{
	struct submitter submitter = { .ring = &self->ring, .fd = self->store.fd };
	pthread_t thread;
	unsigned int i;

	follower_sleep(&self->follower, true);
	ASSERT_EQ(0, pthread_create(&thread, NULL, submitter_main, &submitter));
	pthread_join(thread, NULL);
	EXPECT_EQ(-ETIME, reap(&self->ring, QUIET_MS, NULL));
	follower_sleep(&self->follower, false);
	for (i = 0; i < DEPTH; i++)
		ASSERT_EQ(0, reap(&self->ring, patience(), NULL));
}

/*
 * Rings are closed, and processes killed, while commands are issued, wait for space, are acknowledged,
 * cancelled and timed out: each command ends once.
 */
TEST_F_TIMEOUT(durable, ends_race, SECONDS)
{
	struct lsmem_op op = lsm_op_alloc("x", 1, 0);
	const unsigned int rounds = (unsigned int)test_scaled(400);
	uint64_t random = test_seed;
	unsigned int round;

	ASSERT_EQ(0, call(self->store.fd, LSMEM_IOC_ALLOC, &op));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 100));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", 100));
	for (round = 0; round < rounds; round++) {
		const struct way *way = &ways[random_next(&random) % WAYS];
		useconds_t delay = (useconds_t)(random_next(&random) % 3000);
		pid_t child;

		/* Where faults can be injected. */
		store_fault(&self->store, "no_space", random_next(&random) % 100);
		child = fork();
		ASSERT_LE(0, child);
		if (!child) {
			struct lsmem_op ops[DEPTH];
			struct stalled stalled;
			struct io_uring ring;

			if (io_uring_queue_init(DEPTH, &ring, way->setup))
				_exit(0);
			submit_stalled(&ring, self->store.fd, &stalled, op.handle, STALLED,
				       round % 2 ? LSMEM_OPF_DURABLE : 0);
			submit_durable(&ring, self->store.fd, ops, DEPTH, way->sqe);
			if (round % 3)
				_exit(0);
			io_uring_queue_exit(&ring);
			pause();
		}
		follower_sleep(&self->follower, round % 7 == 0);
		usleep(delay);
		kill(child, SIGKILL);
		ASSERT_EQ(child, waitpid(child, NULL, 0));
	}
	store_fault(&self->store, "no_space", 0);
	follower_sleep(&self->follower, false);
}

/* The daemon goes: the commands end when their time has passed, as other calls. */
TEST_F_TIMEOUT(durable, daemon_gone, SECONDS)
{
	struct lsmem_op ops[DEPTH];
	unsigned int i;

	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/durable_ms", 500));
	follower_sleep(&self->follower, true);
	submit_durable(&self->ring, self->store.fd, ops, DEPTH, 0);
	follower_stop(&self->follower);
	for (i = 0; i < DEPTH; i++)
		ASSERT_EQ(-ETIMEDOUT, reap(&self->ring, patience(), NULL));
	follower_free(&self->follower);
	self->started = false;
	io_uring_queue_exit(&self->ring);
	EXPECT_EQ(0, destroy(&self->store));
}

/* A store without a daemon: EAGAIN, at once and with each way. */
TEST(inactive)
{
	struct lsmem_op op = lsm_op_alloc("x", 1, 0);
	struct io_uring ring;
	struct store store;
	unsigned int i;

	if (no_uring(io_uring_queue_init(8, &ring, 0)))
		SKIP(return, "this kernel has no io_uring");
	io_uring_queue_exit(&ring);
	ASSERT_EQ(0, store_create(&store, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	for (i = 0; i < WAYS; i++) {
		if (io_uring_queue_init(8, &ring, ways[i].setup))
			continue;
		EXPECT_EQ(-EAGAIN, command(&ring, store.fd, LSMEM_IOC_ALLOC, &op, ways[i].sqe))
			TH_LOG("%s", ways[i].name);
		io_uring_queue_exit(&ring);
	}
	EXPECT_EQ(0, destroy(&store));
}

TEST_HARNESS_MAIN
