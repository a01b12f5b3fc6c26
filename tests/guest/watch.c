// SPDX-License-Identifier: GPL-2.0
/*
 * Watchers: notes of the changes of a table (LSMEM_IOC_WATCH).
 *
 * At rest every way to change an object must be told once, with its version, and nothing else.  Then threads and processes
 * change objects at random while a watcher makes a picture of the table from its notes alone, with a ring that is large
 * enough and with one that overflows all the time: at the end it must be what the table is.  A reader that was told a
 * version must find it, or a later one.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <lsmem/lsmem_format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "store.h"

#define TABLE		5u
#define HANDLES		20000u
#define OBJECTS		512u		/* that the clients of the model share */
#define CLIENTS		4u		/* the last two are processes */
#define ROUNDS		20000u		/* changes of a client */
#define GROUP		5u
#define WATCHERS	100u
#define ROOM		64u
#define SECONDS		120

FIXTURE(watch) {
	struct store store;
	struct lsmem_note notes[ROOM];
};

FIXTURE_SETUP(watch)
{
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, HANDLES, 0));
}

FIXTURE_TEARDOWN(watch)
{
	EXPECT_EQ(0, store_livemap(&self->store, NULL));
	EXPECT_EQ(0, store_destroy(&self->store));
}

static int watch(struct store *store, uint32_t entries, uint64_t cursor)
{
	return lsm_watch_open(store->lsm, TABLE, entries, cursor, LSM_NONBLOCK);
}

/* The call itself.  Returns 0 or a negative errno. */
static int watch_call(int fd, struct lsmem_watch *watch)
{
	watch->size = sizeof(*watch);
	return ioctl(fd, LSMEM_IOC_WATCH, watch) ? -errno : 0;
}

static bool note_is(const struct lsmem_note *note, uint32_t kind, uint64_t handle, uint64_t version, uint32_t flags)
{
	return note->kind == kind && note->handle == handle && note->version == version && note->flags == flags;
}

static bool readable(int fd)
{
	struct pollfd poll_one = { .fd = fd, .events = POLLIN };

	return poll(&poll_one, 1, 0) == 1 && poll_one.revents == POLLIN;
}

/* Wait until it is, as long as a machine may take.  Returns what poll() says, 0: it took too long. */
static short wait_readable(int fd)
{
	struct pollfd poll_one = { .fd = fd, .events = POLLIN };

	return poll(&poll_one, 1, (int)test_limit(10000)) == 1 ? poll_one.revents : 0;
}

#define EXPECT_NOTHING(fd) do {								\
	EXPECT_FALSE(readable(fd));							\
	EXPECT_EQ(-EAGAIN, lsm_watch_read(fd, self->notes, ROOM));			\
} while (0)

/* ---- At rest ------------------------------------------------------------------------ */

TEST_F(watch, each_kind)
{
	struct lsm *lsm = self->store.lsm;
	uint64_t handle, other, version[3], cursor;
	int fd;

	ASSERT_EQ(0, lsm_alloc(lsm, "before", 6, LSM_TABLE(TABLE), &handle, NULL));
	fd = watch(&self->store, 0, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	EXPECT_NOTHING(fd);
	ASSERT_EQ(0, lsm_alloc(lsm, "other table", 11, LSM_TABLE(TABLE + 1), &other, NULL));
	ASSERT_EQ(0, lsm_replace(lsm, other, "x", 1, 0, NULL));
	EXPECT_NOTHING(fd);
	ASSERT_EQ(0, lsm_alloc(lsm, "a", 1, LSM_TABLE(TABLE), &handle, &version[0]));
	ASSERT_EQ(0, lsm_replace(lsm, handle, "ab", 2, 0, &version[1]));
	EXPECT_EQ(-EILSEQ, lsm_replace(lsm, handle, "abc", 3, LSM_EXPECT, &version[0]));
	ASSERT_EQ(0, lsm_free(lsm, handle, 0, &version[2]));
	EXPECT_EQ(-ESTALE, lsm_replace(lsm, handle, "a", 1, 0, NULL));
	EXPECT_EQ(POLLIN, wait_readable(fd));
	/* Two, as there is no more room, and then the last. */
	ASSERT_EQ(2, lsm_watch_read(fd, self->notes, 2));
	EXPECT_TRUE(readable(fd));
	ASSERT_EQ(1, lsm_watch_read(fd, self->notes + 2, ROOM - 2));
	EXPECT_EQ(LSMEM_NOTE_NEW, self->notes[0].kind);
	EXPECT_EQ(handle, self->notes[0].handle);
	EXPECT_TRUE(note_is(&self->notes[1], LSMEM_NOTE_REPLACED, handle, version[1], 0));
	EXPECT_TRUE(note_is(&self->notes[2], LSMEM_NOTE_FREED, handle, version[2], 0));
	cursor = self->notes[0].cursor;
	EXPECT_EQ(cursor + 1, self->notes[1].cursor);
	EXPECT_EQ(cursor + 2, self->notes[2].cursor);
	EXPECT_NOTHING(fd);
	EXPECT_EQ(0, close(fd));
}

/* A vector of which some fail, of one chunk and of several; an index; a range of pages. */
TEST_F(watch, each_way)
{
	struct lsm *lsm = self->store.lsm;
	struct lsmem_op ops[ROOM], op;
	uint64_t stale, root;
	size_t done, nr = 0;
	char bytes[8] = "bytes";
	ssize_t got;
	uint32_t i;
	int fd, pages;
	char *map;

	fd = watch(&self->store, 0, 0);
	ASSERT_LE(0, fd);
	for (i = 0; i < ROOM; i++)
		ops[i] = lsm_op_alloc(bytes, sizeof(bytes), LSM_TABLE(i % 2 ? TABLE : TABLE + 1));
	ASSERT_EQ(0, lsm_vector(lsm, ops, ROOM, 0, &done));
	ASSERT_EQ(ROOM / 2, lsm_watch_read(fd, self->notes, ROOM));
	for (i = 1; i < ROOM; i += 2)
		EXPECT_TRUE(note_is(&self->notes[i / 2], LSMEM_NOTE_NEW, ops[i].handle, ops[i].version, 0));
	ASSERT_EQ(0, lsm_alloc(lsm, "x", 1, 0, &stale, NULL));
	ASSERT_EQ(0, lsm_free(lsm, stale, 0, NULL));
	/* Some that are replaced twice, in one span, some that fail, some that are freed. */
	for (i = 0; i < ROOM; i++) {
		uint64_t handle = ops[i].handle;

		if (i % 8 == 3)
			ops[i] = lsm_op_replace(stale, bytes, 4, 0, 0);
		else if (i % 8 == 5)
			ops[i] = lsm_op_free(handle, 0, 0);
		else
			ops[i] = lsm_op_replace(i % 8 == 1 && i > 8 ? ops[i - 2].handle : handle, bytes, 3, 0, 0);
	}
	ASSERT_EQ(0, lsm_vector(lsm, ops, ROOM, 0, &done));
	got = lsm_watch_read(fd, self->notes, ROOM);
	for (i = 1; i < ROOM; i += 2) {
		if (ops[i].result)
			continue;
		ASSERT_LT((ssize_t)nr, got);
		EXPECT_TRUE(note_is(&self->notes[nr], i % 8 == 5 ? LSMEM_NOTE_FREED : LSMEM_NOTE_REPLACED, ops[i].handle,
				    ops[i].version, 0)) TH_LOG("operation %u", i);
		nr++;
	}
	EXPECT_EQ((ssize_t)nr, got);
	EXPECT_EQ(ROOM / 2 - ROOM / 8, nr);
	/* A reserved index. */
	op = lsm_op_alloc("root", 4, LSM_TABLE(TABLE));
	op.flags = LSMEM_OPF_INDEX;
	op.handle = HANDLES;
	ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_ALLOC, &op));
	ASSERT_EQ(1, lsm_watch_read(fd, self->notes, ROOM));
	EXPECT_TRUE(note_is(self->notes, LSMEM_NOTE_NEW, op.handle, op.version, 0));
	/* A range of pages: the page, a node above it and the root, when they are written back. */
	pages = lsm_pages_create(lsm, 4096, 0, LSM_TABLE(TABLE), &root);
	ASSERT_LE(0, pages);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, pages, 0);
	ASSERT_NE(MAP_FAILED, map);
	while (lsm_watch_read(fd, self->notes, ROOM) > 0)
		;
	map[7] = 7;
	EXPECT_NOTHING(fd);
	ASSERT_EQ(0, msync(map, 4096, MS_SYNC));
	got = lsm_watch_read(fd, self->notes, ROOM);
	EXPECT_LE(2, got);
	for (i = 0; (ssize_t)i < got; i++)
		EXPECT_EQ((ssize_t)i + 1 < got ? LSMEM_NOTE_MORE : 0, self->notes[i].flags);
	munmap(map, 4096);
	EXPECT_EQ(0, close(pages));
	EXPECT_EQ(0, close(fd));
}

/* Through io_uring: a change, a poll and a read. */
TEST_F(watch, uring)
{
	struct lsmem_note note;
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	uint64_t handle;
	int fd, ret;

	ret = io_uring_queue_init(8, &ring, 0);
	if (ret)
		SKIP(return, "no io_uring");
	fd = lsm_watch_open(self->store.lsm, TABLE, 0, 0, 0);
	ASSERT_LE(0, fd);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_read(sqe, fd, &note, sizeof(note), (__u64)-1);
	ASSERT_EQ(1, io_uring_submit(&ring));
	EXPECT_EQ(-EAGAIN, io_uring_peek_cqe(&ring, &cqe));
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "a", 1, LSM_TABLE(TABLE), &handle, NULL));
	ASSERT_EQ(0, io_uring_wait_cqe(&ring, &cqe));
	EXPECT_EQ(sizeof(note), cqe->res);
	EXPECT_EQ(handle, note.handle);
	io_uring_cqe_seen(&ring, cqe);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_poll_add(sqe, fd, POLLIN);
	ASSERT_EQ(1, io_uring_submit(&ring));
	ASSERT_EQ(0, lsm_free(self->store.lsm, handle, 0, NULL));
	ASSERT_EQ(0, io_uring_wait_cqe(&ring, &cqe));
	EXPECT_EQ(POLLIN, cqe->res & POLLIN);
	io_uring_cqe_seen(&ring, cqe);
	EXPECT_EQ(1, lsm_watch_read(fd, &note, 1));
	EXPECT_EQ(LSMEM_NOTE_FREED, note.kind);
	io_uring_queue_exit(&ring);
	EXPECT_EQ(0, close(fd));
}

/* What cleaners move is not changed. */
TEST_F_TIMEOUT(watch, cleaners_tell_nothing, SECONDS)
{
	uint64_t handles[2000], other[500], end = now_ms() + test_limit(60000);
	static uint8_t bytes[16000];
	struct lsmem_stat stat;
	uint32_t i, round;
	int fd;

	for (i = 0; i < 2000; i++) {
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, bytes, 1000, LSM_TABLE(TABLE), &handles[i], NULL));
		if (i < 500)
			ASSERT_EQ(0, lsm_alloc(self->store.lsm, bytes, sizeof(bytes), 0, &other[i], NULL));
	}
	fd = watch(&self->store, 0, 0);
	ASSERT_LE(0, fd);
	for (round = 0; now_ms() < end; round++) {
		for (i = 0; i < 500; i++)
			ASSERT_EQ(0, lsm_replace(self->store.lsm, other[i], bytes, sizeof(bytes), 0, NULL));
		ASSERT_EQ(0, lsm_stat(self->store.lsm, &stat));
		if (made_room(&stat) > 10 && stat.relocated_bytes > 1000000)
			break;
	}
	EXPECT_LT(10, made_room(&stat));
	EXPECT_LT(1000000, stat.relocated_bytes);
	EXPECT_NOTHING(fd);
	EXPECT_EQ(0, close(fd));
}

/* ---- Calls -------------------------------------------------------------------------- */

TEST_F(watch, fields)
{
	const struct lsmem_watch wrong[] = {
		{ .flags = 4 },
		{ .table = LSMEM_TABLES },
		{ .entries = 3 },
		{ .entries = 2 * LSMEM_WATCH_ENTRIES },
		{ .fd = 1 },
		{ .eventfd = 1 },
		{ .flags = LSMEM_WATCH_EVENTFD, .eventfd = self->store.fd },	/* no eventfd */
	};
	struct lsmem_watch good = { .entries = LSMEM_WATCH_ENTRIES, .table = LSMEM_TABLES - 1 }, next;
	struct lsmem_query query;
	uint64_t handle;
	char small[31];
	uint32_t i;

	ASSERT_EQ(0, lsm_query(self->store.lsm, &query));
	EXPECT_TRUE(query.features & LSMEM_FEATURE_WATCH);
	for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		next = wrong[i];
		EXPECT_EQ(-EINVAL, watch_call(self->store.fd, &next)) TH_LOG("%u", i);
	}
	next = (struct lsmem_watch){ .flags = LSMEM_WATCH_EVENTFD, .eventfd = 9999 };
	EXPECT_EQ(-EBADF, watch_call(self->store.fd, &next));
	ASSERT_EQ(0, watch_call(self->store.fd, &good));
	EXPECT_NE(0, good.cursor);
	EXPECT_EQ(LSMEM_WATCH_ENTRIES, good.entries);
	/* The second one gets what there is. */
	next = (struct lsmem_watch){ .table = LSMEM_TABLES - 1, .entries = 8, .flags = LSMEM_WATCH_NONBLOCK };
	ASSERT_EQ(0, watch_call(self->store.fd, &next));
	EXPECT_EQ(LSMEM_WATCH_ENTRIES, next.entries);
	EXPECT_EQ(good.cursor, next.cursor);
	/* Too small, and not there: the note stays. */
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, LSM_TABLE(LSMEM_TABLES - 1), &handle, NULL));
	EXPECT_EQ(-1, read(next.fd, small, sizeof(small)));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-EFAULT, lsm_watch_read(next.fd, (void *)8, 2));
	EXPECT_EQ(-1, write(next.fd, small, 8));
	EXPECT_EQ(1, lsm_watch_read(next.fd, self->notes, ROOM));
	EXPECT_EQ(1, lsm_watch_read(good.fd, self->notes, ROOM));
	EXPECT_EQ(0, close(next.fd));
	EXPECT_EQ(0, close(good.fd));
	/* The ring is gone with the last. */
	good = (struct lsmem_watch){ .table = LSMEM_TABLES - 1, .entries = 8 };
	ASSERT_EQ(0, watch_call(self->store.fd, &good));
	EXPECT_EQ(8, good.entries);
	EXPECT_EQ(0, close(good.fd));
}

TEST_F(watch, rights)
{
	struct lsmem_watch watch = { .table = TABLE };
	int writer = open(self->store.path, O_WRONLY), reader = open(self->store.path, O_RDONLY);

	ASSERT_LE(0, writer);
	ASSERT_LE(0, reader);
	EXPECT_EQ(-EBADF, watch_call(writer, &watch));
	EXPECT_EQ(0, watch_call(reader, &watch));
	EXPECT_EQ(0, close(watch.fd));
	EXPECT_EQ(0, close(writer));
	EXPECT_EQ(0, close(reader));
}

/* Tables, and nothing of another store. */
TEST_F_TIMEOUT(watch, bounds, SECONDS)
{
	int fds[LSMEM_WATCH_TABLES], second, foreign;
	struct store other;
	uint64_t handle;
	uint32_t i;

	for (i = 0; i < LSMEM_WATCH_TABLES; i++) {
		fds[i] = lsm_watch_open(self->store.lsm, i, 1, 0, LSM_NONBLOCK);
		ASSERT_LE(0, fds[i]);
	}
	EXPECT_EQ(-EBUSY, lsm_watch_open(self->store.lsm, i, 1, 0, 0));
	second = lsm_watch_open(self->store.lsm, 0, 1, 0, LSM_NONBLOCK);
	EXPECT_LE(0, second);
	ASSERT_EQ(0, store_create(&other, STORE_BYTES, HANDLES, 0));
	foreign = lsm_watch_open(other.lsm, 0, 1, 0, LSM_NONBLOCK);
	EXPECT_LE(0, foreign);
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, 0, &handle, NULL));
	EXPECT_NOTHING(foreign);
	EXPECT_EQ(1, lsm_watch_read(second, self->notes, ROOM));
	EXPECT_EQ(0, close(foreign));
	EXPECT_EQ(0, store_destroy(&other));
	EXPECT_EQ(0, close(fds[9]));
	fds[9] = lsm_watch_open(self->store.lsm, i, 1, 0, 0);
	EXPECT_LE(0, fds[9]);
	for (i = 0; i < LSMEM_WATCH_TABLES; i++)
		EXPECT_EQ(0, close(fds[i]));
	EXPECT_EQ(0, close(second));
}

/* ---- Lost, and cursors -------------------------------------------------------------- */

TEST_F(watch, lost)
{
	uint64_t handle, version, before;
	uint32_t i;
	int fd;

	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, LSM_TABLE(TABLE), &handle, &before));
	fd = watch(&self->store, 4, 0);
	ASSERT_LE(0, fd);
	/* As many as there is room for: none is lost. */
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, lsm_replace(self->store.lsm, handle, "y", 1, 0, &version));
	ASSERT_EQ(4, lsm_watch_read(fd, self->notes, ROOM));
	EXPECT_EQ(version, self->notes[3].version);
	/* One more: one note says so, and that is all. */
	for (i = 0; i < 5; i++)
		ASSERT_EQ(0, lsm_replace(self->store.lsm, handle, "z", 1, 0, &version));
	EXPECT_TRUE(readable(fd));
	ASSERT_EQ(1, lsm_watch_read(fd, self->notes, ROOM));
	EXPECT_EQ(LSMEM_NOTE_LOST, self->notes[0].kind);
	EXPECT_EQ(0, self->notes[0].handle);
	EXPECT_GT(version, self->notes[0].version);
	EXPECT_NOTHING(fd);
	ASSERT_EQ(0, lsm_replace(self->store.lsm, handle, "a", 1, 0, &version));
	ASSERT_EQ(1, lsm_watch_read(fd, self->notes, ROOM));
	EXPECT_TRUE(note_is(self->notes, LSMEM_NOTE_REPLACED, handle, version, 0));
	EXPECT_EQ(0, close(fd));
}

/* A watcher that has caught up learns from which version on it has to look. */
TEST_F(watch, lost_since)
{
	uint64_t handle, early, version, end = now_ms() + test_limit(10000);
	uint32_t i;
	int fd;

	fd = watch(&self->store, 4, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, LSM_TABLE(TABLE), &handle, &early));
	do {
		while (lsm_watch_read(fd, self->notes, ROOM) > 0)
			;
		for (i = 0; i < 5; i++)
			ASSERT_EQ(0, lsm_replace(self->store.lsm, handle, "z", 1, 0, i ? NULL : &version));
		ASSERT_EQ(1, lsm_watch_read(fd, self->notes, ROOM));
		ASSERT_EQ(LSMEM_NOTE_LOST, self->notes[0].kind);
		ASSERT_GT(version, self->notes[0].version);
	} while (self->notes[0].version < early && now_ms() < end);
	EXPECT_LE(early, self->notes[0].version);
	EXPECT_EQ(0, close(fd));
}

/* Another process goes on where this one stopped. */
TEST_F(watch, cursor)
{
	uint64_t handle, version[8], cursor;
	uint32_t i;
	int fd, status;
	pid_t child;

	fd = watch(&self->store, 8, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, LSM_TABLE(TABLE), &handle, NULL));
	for (i = 0; i < 5; i++)
		ASSERT_EQ(0, lsm_replace(self->store.lsm, handle, "y", 1, 0, &version[i]));
	ASSERT_EQ(3, lsm_watch_read(fd, self->notes, 3));
	cursor = self->notes[2].cursor;
	child = fork();
	if (!child) {
		int own = watch(&self->store, 0, cursor);

		if (lsm_watch_read(own, self->notes, ROOM) != 3)
			_exit(1);
		for (i = 0; i < 3; i++)
			if (!note_is(&self->notes[i], LSMEM_NOTE_REPLACED, handle, version[2 + i], 0))
				_exit(2);
		_exit(0);
	}
	EXPECT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	/* Overwritten meanwhile. */
	for (i = 0; i < 8; i++)
		ASSERT_EQ(0, lsm_replace(self->store.lsm, handle, "y", 1, 0, &version[i]));
	status = watch(&self->store, 0, cursor);
	ASSERT_LE(0, status);
	EXPECT_TRUE(readable(status));
	EXPECT_EQ(1, lsm_watch_read(status, self->notes, ROOM));
	EXPECT_EQ(LSMEM_NOTE_LOST, self->notes[0].kind);
	EXPECT_EQ(0, self->notes[0].version);
	EXPECT_EQ(0, close(status));
	/* Of the present end: nothing is lost. */
	status = watch(&self->store, 0, self->notes[0].cursor);
	ASSERT_LE(0, status);
	EXPECT_NOTHING(status);
	EXPECT_EQ(0, close(status));
	/* Of a ring that is gone. */
	EXPECT_EQ(0, close(fd));
	fd = watch(&self->store, 8, cursor);
	ASSERT_LE(0, fd);
	EXPECT_EQ(1, lsm_watch_read(fd, self->notes, ROOM));
	EXPECT_EQ(LSMEM_NOTE_LOST, self->notes[0].kind);
	EXPECT_NOTHING(fd);
	EXPECT_EQ(0, close(fd));
}

/* ---- Waiting ------------------------------------------------------------------------ */

struct sleeper {
	pthread_t thread;
	int fd;
	atomic_bool began;
	ssize_t got;
	struct lsmem_note note;
};

static void *sleep_in_read(void *argument)
{
	struct sleeper *sleeper = argument;

	atomic_store(&sleeper->began, true);
	sleeper->got = lsm_watch_read(sleeper->fd, &sleeper->note, 1);
	return NULL;
}

/* Wait until a process, or a thread of it, sleeps in an interruptible wait. */
static bool sleeps(pid_t pid)
{
	uint64_t end = now_ms() + test_limit(10000);
	char path[64], line[256], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	while (now_ms() < end && state != 'S') {
		file = fopen(path, "r");
		if (!file)
			return false;
		if (fgets(line, sizeof(line), file) && strrchr(line, ')'))
			state = strrchr(line, ')')[2];
		fclose(file);
	}
	return state == 'S';
}

TEST_F(watch, a_read_waits)
{
	struct sleeper sleepers[2] = { };
	uint64_t handle, version[2];
	int fd = lsm_watch_open(self->store.lsm, TABLE, 0, 0, 0), i;

	ASSERT_LE(0, fd);
	/* Two of one descriptor: each gets one of two notes. */
	for (i = 0; i < 2; i++) {
		sleepers[i].fd = fd;
		ASSERT_EQ(0, pthread_create(&sleepers[i].thread, NULL, sleep_in_read, &sleepers[i]));
		while (!atomic_load(&sleepers[i].began))
			sched_yield();
	}
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, LSM_TABLE(TABLE), &handle, &version[0]));
	ASSERT_EQ(0, lsm_replace(self->store.lsm, handle, "y", 1, 0, &version[1]));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, pthread_join(sleepers[i].thread, NULL));
		EXPECT_EQ(1, sleepers[i].got);
	}
	EXPECT_NE(sleepers[0].note.cursor, sleepers[1].note.cursor);
	EXPECT_EQ(0, close(fd));
}

/* Edges: one for a change after all was read, and again. */
TEST_F(watch, edges)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int fd = watch(&self->store, 0, 0), epoll = epoll_create1(0), i;
	uint64_t handle;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
	EXPECT_EQ(0, epoll_wait(epoll, &event, 1, 0));
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, LSM_TABLE(TABLE), &handle, NULL));
		ASSERT_EQ(1, epoll_wait(epoll, &event, 1, (int)test_limit(10000)));
		EXPECT_EQ(EPOLLIN, event.events);
		ASSERT_EQ(0, lsm_free(self->store.lsm, handle, 0, NULL));
		/* Fewer than there was room for: that was all. */
		while (lsm_watch_read(fd, self->notes, ROOM) == ROOM)
			;
	}
	EXPECT_EQ(0, close(epoll));
	EXPECT_EQ(0, close(fd));
}

TEST_F(watch, eventfd)
{
	struct lsmem_watch watch = { .table = TABLE, .flags = LSMEM_WATCH_EVENTFD | LSMEM_WATCH_NONBLOCK }, again;
	uint64_t handle, count;
	int i;

	watch.eventfd = eventfd(0, EFD_CLOEXEC);
	ASSERT_LE(0, watch.eventfd);
	ASSERT_EQ(0, watch_call(self->store.fd, &watch));
	EXPECT_FALSE(readable(watch.eventfd));
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, LSM_TABLE(TABLE), &handle, NULL));
		ASSERT_EQ(POLLIN, wait_readable(watch.eventfd));
		ASSERT_EQ(8, read(watch.eventfd, &count, 8));
		ASSERT_EQ(1, lsm_watch_read(watch.fd, self->notes, ROOM));
	}
	/* With a cursor behind which there is something it is signalled at once. */
	again = watch;
	again.fd = 0;
	again.cursor = self->notes[0].cursor - 1;
	ASSERT_EQ(0, watch_call(self->store.fd, &again));
	EXPECT_TRUE(readable(again.eventfd));
	/* It outlives the eventfd's descriptor, and the other way round. */
	EXPECT_EQ(0, close(watch.fd));
	EXPECT_EQ(0, close(watch.eventfd));
	ASSERT_EQ(0, lsm_free(self->store.lsm, handle, 0, NULL));
	EXPECT_EQ(POLLIN, wait_readable(again.fd));
	EXPECT_EQ(0, close(again.fd));
}

TEST_F(watch, killed)
{
	struct lsmem_watch watch = { .table = TABLE, .entries = 16 };
	int status, ready[2];
	uint64_t handle;
	pid_t child;

	ASSERT_EQ(0, pipe(ready));
	child = fork();
	if (!child) {
		int fd = open(self->store.path, O_RDWR);

		if (watch_call(fd, &watch) || write(ready[1], "x", 1) != 1)
			_exit(1);
		lsm_watch_read(watch.fd, self->notes, ROOM);
		_exit(2);
	}
	ASSERT_EQ(1, read(ready[0], &status, 1));
	EXPECT_TRUE(sleeps(child));
	EXPECT_EQ(0, kill(child, SIGKILL));
	EXPECT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	/* Its ring is gone, and writers go on. */
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, LSM_TABLE(TABLE), &handle, NULL));
	watch.entries = 32;
	ASSERT_EQ(0, watch_call(self->store.fd, &watch));
	EXPECT_EQ(32, watch.entries);
	EXPECT_EQ(0, close(watch.fd));
	close(ready[0]);
	close(ready[1]);
}

/* A watcher does not keep the store; it reads what there is, and the end. */
TEST_F(watch, destroyed)
{
	struct sleeper sleeper = { };
	struct lsmem_watch watch = { .table = TABLE };
	struct pollfd poll_one = { .events = POLLIN };
	struct store other;
	uint64_t handle;
	int behind;

	ASSERT_EQ(0, store_create(&other, STORE_BYTES, HANDLES, 0));
	ASSERT_EQ(0, watch_call(other.fd, &watch));
	sleeper.fd = watch.fd;
	watch.fd = 0;
	ASSERT_EQ(0, watch_call(other.fd, &watch));
	behind = watch.fd;
	ASSERT_EQ(0, lsm_alloc(other.lsm, "x", 1, LSM_TABLE(TABLE), &handle, NULL));
	ASSERT_EQ(1, lsm_watch_read(sleeper.fd, &sleeper.note, 1));
	ASSERT_EQ(0, pthread_create(&sleeper.thread, NULL, sleep_in_read, &sleeper));
	while (!atomic_load(&sleeper.began))
		sched_yield();
	ASSERT_EQ(0, store_destroy(&other));
	ASSERT_EQ(0, pthread_join(sleeper.thread, NULL));
	EXPECT_EQ(0, sleeper.got);
	EXPECT_EQ(1, lsm_watch_read(behind, self->notes, ROOM));
	EXPECT_EQ(handle, self->notes[0].handle);
	EXPECT_EQ(0, lsm_watch_read(behind, self->notes, ROOM));
	poll_one.fd = behind;
	EXPECT_EQ(1, poll(&poll_one, 1, 0));
	EXPECT_EQ(POLLIN | POLLHUP, poll_one.revents);
	EXPECT_EQ(0, close(sleeper.fd));
	EXPECT_EQ(0, close(behind));
}

/* All of them are told all, and woken. */
TEST_F_TIMEOUT(watch, hundred, SECONDS)
{
	static struct lsmem_note all[WATCHERS][ROOM];
	struct sleeper sleepers[WATCHERS] = { };
	uint64_t handle;
	uint32_t i, j;

	for (i = 0; i < WATCHERS; i++) {
		sleepers[i].fd = lsm_watch_open(self->store.lsm, TABLE, 0, 0, 0);
		ASSERT_LE(0, sleepers[i].fd);
		ASSERT_EQ(0, pthread_create(&sleepers[i].thread, NULL, sleep_in_read, &sleepers[i]));
	}
	for (j = 0; j < ROOM; j++)
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, "x", 1, LSM_TABLE(TABLE), &handle, NULL));
	for (i = 0; i < WATCHERS; i++) {
		ASSERT_EQ(0, pthread_join(sleepers[i].thread, NULL));
		ASSERT_EQ(1, sleepers[i].got);
		all[i][0] = sleepers[i].note;
		ASSERT_EQ(ROOM - 1, lsm_watch_read(sleepers[i].fd, &all[i][1], ROOM));
		EXPECT_EQ(0, memcmp(all[0], all[i], sizeof(all[0])));
		EXPECT_EQ(0, close(sleepers[i].fd));
	}
	EXPECT_EQ(handle, all[0][ROOM - 1].handle);
}

/* ---- Groups ------------------------------------------------------------------------- */

#define LAST		(LSMEM_WATCH_TABLES - 1)
#define EACH		4u	/* objects of each table before it */
#define LARGEST		(LAST * EACH + 2)

/* Groups of objects of all tables that can be watched: two of the last table, which is told last. */
struct wide {
	struct store *store;
	int fds[LSMEM_WATCH_TABLES];
	uint64_t handles[LAST * EACH];
	uint64_t objects[2];
	struct lsmem_op ops[LARGEST];
	atomic_bool stop;
	pthread_t thread;
	atomic_uint lost;
	uint64_t since;
	int ret;
};

static int wide_begin(struct wide *wide, struct store *store, uint32_t entries)
{
	uint32_t i;
	int ret = 0;

	memset(wide, 0, sizeof(*wide));
	wide->store = store;
	for (i = 0; i < LAST * EACH && !ret; i++)
		ret = lsm_alloc(store->lsm, "x", 1, LSM_TABLE(i / EACH), &wide->handles[i], NULL);
	for (i = 0; i <= LAST && !ret; i++) {
		wide->fds[i] = lsm_watch_open(store->lsm, i, i < LAST ? 1 : entries, 0, LSM_NONBLOCK);
		ret = wide->fds[i] < 0 ? wide->fds[i] : 0;
	}
	for (i = 0; i < 2 && !ret; i++)
		ret = lsm_alloc(store->lsm, "x", 1, LSM_TABLE(LAST), &wide->objects[i], NULL);
	return ret;
}

/* Make a group.  Returns 0 or a negative errno. */
static int wide_group(struct wide *wide)
{
	uint32_t i;

	for (i = 0; i < LAST * EACH; i++)
		wide->ops[i] = lsm_op_replace(wide->handles[i], "y", 1, 0, 0);
	for (i = 0; i < 2; i++)
		wide->ops[LARGEST - 2 + i] = lsm_op_replace(wide->objects[i], "y", 1, 0, 0);
	return lsm_vector(wide->store->lsm, wide->ops, LARGEST, LSM_ATOMIC, NULL);
}

static void wide_end(struct wide *wide)
{
	uint32_t i;

	for (i = 0; i <= LAST; i++)
		close(wide->fds[i]);
}

/* Change what the group has changed as soon as it can be: a span waits when all but its exchanges is done. */
static void *change_behind(void *argument)
{
	struct wide *wide = argument;

	while (!atomic_load(&wide->stop) && !wide->ret) {
		struct lsmem_op ops[2] = {
			lsm_op_replace(wide->objects[0], "z", 1, 0, 0),
			lsm_op_replace(wide->objects[1], "z", 1, 0, 0),
		};

		wide->ret = lsm_vector(wide->store->lsm, ops, 2, 0, NULL);
	}
	return NULL;
}

/* What a group has changed, and another client changes then, is noted in that order. */
TEST_F_TIMEOUT(watch, group_before_what_follows, SECONDS)
{
	static struct lsmem_note notes[1024];
	static uint64_t seen[HANDLES];
	static struct wide wide;
	uint64_t rounds;
	ssize_t nr, i;

	ASSERT_EQ(0, wide_begin(&wide, &self->store, LSMEM_WATCH_ENTRIES));
	ASSERT_EQ(0, pthread_create(&wide.thread, NULL, change_behind, &wide));
	for (rounds = 0; rounds < test_scaled(1000) && !wide.ret; rounds++) {
		ASSERT_EQ(0, wide_group(&wide));
		do {
			nr = lsm_watch_read(wide.fds[LAST], notes, 1024);
			for (i = 0; i < nr; i++) {
				uint64_t *last = &seen[lsmem_handle_index(notes[i].handle)];

				if (notes[i].kind == LSMEM_NOTE_LOST)	/* this thread did not run for long */
					continue;
				ASSERT_LT(*last, notes[i].version);
				*last = notes[i].version;
			}
		} while (nr == 1024);
	}
	atomic_store(&wide.stop, true);
	ASSERT_EQ(0, pthread_join(wide.thread, NULL));
	EXPECT_EQ(0, wide.ret);
	wide_end(&wide);
}

/* Read all the time: a ring of one note loses one of each group's two, unless it is read in between. */
static void *read_behind(void *argument)
{
	struct wide *wide = argument;
	struct lsmem_note note;

	while (!atomic_load(&wide->stop)) {
		if (lsm_watch_read(wide->fds[LAST], &note, 1) != 1)
			continue;
		if (note.kind == LSMEM_NOTE_LOST)
			wide->since = note.version;
		if (note.kind == LSMEM_NOTE_LOST || !(note.flags & LSMEM_NOTE_MORE))
			atomic_fetch_add(&wide->lost, 1);
	}
	return NULL;
}

/* The version that a watcher is told was that before the group, although it found nothing while the group was made. */
TEST_F_TIMEOUT(watch, lost_while_a_group_is_made, SECONDS)
{
	static struct wide wide;
	uint64_t rounds, end;

	ASSERT_EQ(0, wide_begin(&wide, &self->store, 1));
	ASSERT_EQ(1, lsm_watch_read(wide.fds[LAST], self->notes, ROOM));
	ASSERT_EQ(LSMEM_NOTE_LOST, self->notes[0].kind);
	ASSERT_EQ(0, pthread_create(&wide.thread, NULL, read_behind, &wide));
	for (rounds = 0; rounds < test_scaled(200); rounds++) {
		wide.since = 0;
		atomic_store(&wide.lost, 0);
		ASSERT_EQ(0, wide_group(&wide));
		for (end = now_ms() + test_limit(10000); !atomic_load(&wide.lost) && now_ms() < end;)
			sched_yield();
		ASSERT_LT(0, atomic_load(&wide.lost));
		ASSERT_GT(wide.ops[0].version, wide.since);
	}
	atomic_store(&wide.stop, true);
	ASSERT_EQ(0, pthread_join(wide.thread, NULL));
	wide_end(&wide);
}

/* ---- Tables with keys --------------------------------------------------------------- */

TEST_F(watch, keys)
{
	struct lsm_table *table;
	char key[8], value[8];
	struct lsm_item item;
	uint64_t version;
	size_t length;
	int fd;

	ASSERT_EQ(0, lsm_table_open(self->store.lsm, TABLE, 0, &table));
	fd = lsm_table_watch(table, 0, 0, LSM_NONBLOCK);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, lsm_table_put(table, "key", 3, "one", 3, 0, NULL));
	ASSERT_EQ(0, lsm_table_put(table, "key", 3, "other", 5, 0, &version));
	ASSERT_EQ(2, lsm_watch_read(fd, self->notes, ROOM));
	/* Both are about the item as it is by now. */
	length = sizeof(key);
	ASSERT_EQ(1, lsm_table_note(table, &self->notes[0], key, &length, value, sizeof(value), &item));
	EXPECT_EQ(3, length);
	EXPECT_EQ(0, memcmp(key, "key", 3));
	EXPECT_EQ(5, item.length);
	EXPECT_EQ(0, memcmp(value, "other", 5));
	EXPECT_EQ(version, item.version);
	EXPECT_EQ(self->notes[1].version, item.version);
	ASSERT_EQ(0, lsm_table_remove(table, "key", 3, 0, NULL));
	EXPECT_EQ(0, lsm_table_note(table, &self->notes[1], key, &length, value, sizeof(value), &item));
	ASSERT_EQ(1, lsm_watch_read(fd, self->notes, ROOM));
	EXPECT_EQ(LSMEM_NOTE_FREED, self->notes[0].kind);
	EXPECT_EQ(item.handle, self->notes[0].handle);
	EXPECT_EQ(0, lsm_table_note(table, self->notes, key, &length, value, sizeof(value), &item));
	self->notes[0].kind = LSMEM_NOTE_LOST;
	EXPECT_EQ(-EINVAL, lsm_table_note(table, self->notes, key, &length, value, sizeof(value), &item));
	EXPECT_EQ(0, close(fd));
	lsm_table_close(table);
}

/* ---- A model ------------------------------------------------------------------------ */

/* What the clients share: handles, 0: none. */
struct shared {
	_Atomic uint64_t handles[OBJECTS];
	atomic_uint running;
};

/* One change of an object, or of a group, chosen at random.  Returns 0 or a negative errno. */
static int change(struct store *store, struct shared *shared, uint64_t *state)
{
	struct lsmem_op ops[GROUP];
	uint64_t bytes[8] = { random_next(state) }, old[GROUP], none = 0;
	uint32_t length = 8 + (uint32_t)random_below(state, 7) * 8, table = LSM_TABLE(TABLE), i, at[GROUP], nr;
	size_t done;
	int ret;

	nr = random_below(state, 4) ? 1 : GROUP;
	for (i = 0; i < nr; i++) {
		at[i] = (uint32_t)(random_below(state, OBJECTS / GROUP) * GROUP + i);
		old[i] = atomic_load(&shared->handles[at[i]]);
		if (!old[i])
			ops[i] = lsm_op_alloc(bytes, length, table);
		else if (random_below(state, 4))
			ops[i] = lsm_op_replace(old[i], bytes, length, 0, 0);
		else
			ops[i] = lsm_op_free(old[i], 0, 0);
	}
	ret = lsm_vector(store->lsm, ops, nr, random_below(state, 2) ? LSM_ATOMIC : 0, &done);
	if (ret == -ESTALE)	/* another client has freed one of the group */
		return 0;
	if (ret)
		return ret;
	for (i = 0; i < nr; i++) {
		if (ops[i].result && ops[i].result != -ESTALE)
			return ops[i].result;
		if (ops[i].result || ops[i].op == LSMEM_OP_REPLACE)
			continue;
		none = old[i];
		if (!atomic_compare_exchange_strong(&shared->handles[at[i]], &none,
						    ops[i].op == LSMEM_OP_ALLOC ? ops[i].handle : 0) &&
		    ops[i].op == LSMEM_OP_ALLOC)
			lsm_free(store->lsm, ops[i].handle, 0, NULL);
	}
	return 0;
}

struct client {
	struct store store;
	struct shared *shared;
	uint64_t seed;
	pthread_t thread;
	pid_t pid;
	int ret;
};

static void *run_client(void *argument)
{
	struct client *client = argument;
	uint64_t state = client->seed, rounds = test_scaled(ROUNDS), i;

	for (i = 0; i < rounds && !client->ret; i++)
		client->ret = change(&client->store, client->shared, &state);
	atomic_fetch_sub(&client->shared->running, 1);
	return NULL;
}

/* The picture: by index, handle and version of an object that is there, or was last. */
struct seen {
	uint64_t handle;
	uint64_t version;
	bool live;
};

/* What the watcher has seen, and the first thing that is wrong. */
struct picture {
	struct seen seen[HANDLES];
	uint64_t notes;
	uint64_t lost;
	uint64_t groups;
	uint64_t version;	/* of a group that goes on, or 0 */
	const char *wrong;
};

/* The table, as it is, in place of what was lost: nothing that differs has a version up to @since. */
static void look_again(struct lsm *lsm, struct picture *picture, uint64_t since)
{
	static bool there[HANDLES];
	struct lsm_listed listed[ROOM];
	uint64_t cursor = 0;
	ssize_t nr, i;

	memset(there, 0, sizeof(there));
	while ((nr = lsm_next(lsm, TABLE, &cursor, listed, ROOM)) > 0) {
		for (i = 0; i < nr; i++) {
			struct seen *seen = &picture->seen[lsmem_handle_index(listed[i].handle)];

			there[seen - picture->seen] = true;
			if (seen->version == listed[i].object.version && seen->handle == listed[i].handle)
				continue;
			if (listed[i].object.version <= since)
				picture->wrong = "a version that was lost is not higher";
			if (seen->handle == listed[i].handle && listed[i].object.version < seen->version)
				picture->wrong = "a listed version went back";
			*seen = (struct seen){ listed[i].handle, listed[i].object.version, true };
		}
	}
	if (nr)
		picture->wrong = "lsm_next()";
	for (i = 0; i < HANDLES; i++)
		if (!there[i])
			picture->seen[i].live = false;
}

static void see(struct lsm *lsm, struct picture *picture, const struct lsmem_note *note)
{
	struct seen *seen = &picture->seen[lsmem_handle_index(note->handle)];
	struct lsm_object object;
	uint64_t bytes[8];
	ssize_t ret;

	picture->notes++;
	if (picture->version && note->kind != LSMEM_NOTE_LOST && note->version != picture->version)
		picture->wrong = "another change in a group";
	picture->groups += !picture->version && note->flags & LSMEM_NOTE_MORE;
	picture->version = note->flags & LSMEM_NOTE_MORE ? note->version : 0;
	if (note->kind == LSMEM_NOTE_LOST) {
		picture->lost++;
		look_again(lsm, picture, note->version);
		return;
	}
	/* What was listed after a loss may be told once more: its note may have come after that was read. */
	if (lsmem_handle_generation(note->handle) < lsmem_handle_generation(seen->handle) ||
	    (note->handle == seen->handle && note->version <= seen->version)) {
		if (!picture->lost)
			picture->wrong = "a version went back";
		return;
	}
	if (!picture->lost && (note->kind == LSMEM_NOTE_NEW ? seen->live : !seen->live || note->handle != seen->handle))
		picture->wrong = "a change of another object";
	*seen = (struct seen){ note->handle, note->version, note->kind != LSMEM_NOTE_FREED };
	if (picture->notes % 16)
		return;
	ret = lsm_read(lsm, note->handle, bytes, sizeof(bytes), 0, &object);
	if (note->kind == LSMEM_NOTE_FREED ? ret != -ESTALE : ret < 0 && ret != -ESTALE)
		picture->wrong = "an object after its note";
	if (ret > 0 && object.version < note->version)
		picture->wrong = "a note was before its change";
}

FIXTURE(model) {
	struct store store;
	struct shared *shared;
	struct client clients[CLIENTS];
	struct picture *picture;
};

FIXTURE_VARIANT(model) {
	uint32_t entries;
};

FIXTURE_VARIANT_ADD(model, whole) {
	.entries = LSMEM_WATCH_ENTRIES,
};

FIXTURE_VARIANT_ADD(model, overflows) {
	.entries = 8,
};

FIXTURE_SETUP(model)
{
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, HANDLES, 0));
	self->shared = mmap(NULL, sizeof(*self->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->shared);
	self->picture = calloc(1, sizeof(*self->picture));
	ASSERT_TRUE(self->picture);
}

FIXTURE_TEARDOWN(model)
{
	EXPECT_EQ(0, store_livemap(&self->store, NULL));
	EXPECT_EQ(0, store_destroy(&self->store));
	munmap(self->shared, sizeof(*self->shared));
	free(self->picture);
}

/* The picture and the table at the end. */
static const char *differs(struct lsm *lsm, struct picture *picture)
{
	struct lsm_listed listed[ROOM];
	uint64_t cursor = 0, there = 0, live = 0;
	ssize_t nr, i;

	while ((nr = lsm_next(lsm, TABLE, &cursor, listed, ROOM)) > 0) {
		for (i = 0; i < nr; i++, there++) {
			const struct seen *seen = &picture->seen[lsmem_handle_index(listed[i].handle)];

			if (!seen->live || seen->handle != listed[i].handle ||
			    seen->version != listed[i].object.version)
				return "an object is another one";
		}
	}
	for (i = 0; i < HANDLES; i++)
		live += picture->seen[i].live;
	return nr ? "lsm_next()" : live == there ? NULL : "an object is not there";
}

TEST_F_TIMEOUT(model, picture, SECONDS)
{
	static struct lsmem_note notes[1024];
	struct picture *picture = self->picture;
	int fd = watch(&self->store, variant->entries, 0), status;
	uint64_t state = test_seed;
	ssize_t nr, j;
	uint32_t i;

	ASSERT_LE(0, fd);
	atomic_store(&self->shared->running, CLIENTS);
	for (i = 0; i < CLIENTS; i++) {
		struct client *client = &self->clients[i];

		client->shared = self->shared;
		client->store = self->store;
		client->seed = random_next(&state);
		if (i < CLIENTS / 2) {
			ASSERT_EQ(0, pthread_create(&client->thread, NULL, run_client, client));
			continue;
		}
		client->pid = fork();
		if (client->pid)
			continue;
		if (lsm_open(self->store.path, 0, &client->store.lsm))
			_exit(1);
		run_client(client);
		_exit(client->ret ? 2 : 0);
	}
	do {
		bool last = !atomic_load(&self->shared->running);

		nr = lsm_watch_read(fd, notes, sizeof(notes) / sizeof(*notes));
		for (j = 0; j < nr; j++)
			see(self->store.lsm, picture, &notes[j]);
		if (last && nr == -EAGAIN)
			break;
		if (nr == -EAGAIN) {
			struct pollfd poll_one = { .fd = fd, .events = POLLIN };

			nr = poll(&poll_one, 1, 100);
		}
	} while (nr >= 0 && !picture->wrong);
	EXPECT_EQ(NULL, picture->wrong) TH_LOG("%s", picture->wrong);
	for (i = 0; i < CLIENTS; i++) {
		if (self->clients[i].pid) {
			EXPECT_EQ(self->clients[i].pid, waitpid(self->clients[i].pid, &status, 0));
			EXPECT_EQ(0, status);
		} else {
			pthread_join(self->clients[i].thread, NULL);
			EXPECT_EQ(0, self->clients[i].ret);
		}
	}
	if (!picture->wrong)
		picture->wrong = differs(self->store.lsm, picture);
	EXPECT_EQ(NULL, picture->wrong) TH_LOG("at the end: %s", picture->wrong);
	TH_LOG("%llu notes, %llu groups, lost %llu times", (unsigned long long)picture->notes,
	       (unsigned long long)picture->groups, (unsigned long long)picture->lost);
	EXPECT_TRUE(picture->groups || picture->lost);
	EXPECT_EQ(variant->entries != LSMEM_WATCH_ENTRIES, !!picture->lost);
	EXPECT_EQ(0, close(fd));
}

TEST_HARNESS_MAIN
