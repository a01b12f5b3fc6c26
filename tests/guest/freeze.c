// SPDX-License-Identifier: GPL-2.0
/*
 * A store that its daemon freezes (LSMEM_REPL_FREEZE): each kind of call waits and then fails, or goes on after a thaw;
 * nothing changes, all that is committed is in closed segments, and a thaw loses nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "keeper.h"
#include "store.h"

#define PAGE		4096u
#define BLOCK		4096u
#define TERM		7u
#define STALL_MS	100u	/* the least that the kernel takes */
#define FREEZE_MS	20000u
#define WAITS_SEEN	20u	/* times, a millisecond apart */
#define WRITERS		3u
#define OBJECTS		500u	/* most of a writer */
#define LENGTH		200000u	/* most */
#define FREEZES		8u
#define BETWEEN		(STORE_BYTES / 4)	/* bytes that are written between two of them */
#define SECONDS		120	/* time limit of a test; sufficient under emulation */

static int call(int fd, unsigned long request, void *argument)
{
	return ioctl(fd, request, argument) ? -errno : 0;
}

static int freeze_once(const struct follower *follower, uint32_t flags, uint64_t term, bool *frozen)
{
	struct lsmem_freeze freeze = { .size = sizeof(freeze), .flags = flags, .term = term };
	int ret = call(follower->attach.fd, LSMEM_REPL_FREEZE, &freeze);

	*frozen = freeze.frozen;
	return ret ?: !freeze.frozen && freeze.objects ? -EBADMSG : 0;
}

/* Freeze the store, while the follower acknowledges.  Returns 0 or a negative errno. */
static int freeze(const struct follower *follower)
{
	uint64_t end = now_ms() + test_limit(FREEZE_MS);
	bool frozen;
	int ret;

	while (!(ret = freeze_once(follower, 0, TERM, &frozen)) && !frozen) {
		if (now_ms() > end)
			return -ETIMEDOUT;
		usleep(1000);
	}
	return ret;
}

static int thaw(const struct follower *follower)
{
	bool frozen;
	int ret = freeze_once(follower, LSMEM_FREEZE_THAW, TERM, &frozen);

	return frozen ? -EBADMSG : ret;
}

/* How many objects a frozen store has, says the kernel; or a negative errno. */
static int64_t objects(const struct follower *follower)
{
	struct lsmem_freeze freeze = { .size = sizeof(freeze), .term = TERM };
	int ret = call(follower->attach.fd, LSMEM_REPL_FREEZE, &freeze);

	return ret ?: freeze.frozen ? (int64_t)freeze.objects : -EAGAIN;
}

/* The follower has been told all that is committed, and that all segments with entries are closed. */
static bool all_closed(const struct follower *follower, int fd)
{
	uint64_t end = now_ms() + test_limit(FREEZE_MS);

	if (fsync(fd))
		return false;
	while (atomic_load(&follower->open) && now_ms() < end)
		usleep(1000);
	return !atomic_load(&follower->open);
}

/* ---- Objects --------------------------------------------------------------- */

FIXTURE(freeze) {
	struct follower follower;
	struct keeper keeper;
	struct store store;
	uint64_t handle;
};

/* With @capacity the store is tiered: @objects of each writer are more than its memory holds. */
FIXTURE_VARIANT(freeze) {
	uint64_t capacity;
	uint32_t objects;
};

FIXTURE_VARIANT_ADD(freeze, memory) {
	.objects = 150,
};

FIXTURE_VARIANT_ADD(freeze, tiered) {
	.capacity = 3 * STORE_BYTES,
	.objects = 500,
};

FIXTURE_SETUP(freeze)
{
	keeper_init(&self->keeper);
	ASSERT_EQ(0, store_create_tiered(&self->store, STORE_BYTES, variant->capacity, 0, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, variant->capacity ? keeper_follow(&self->keeper, &self->follower, self->store.name) :
					 follower_start(&self->follower, self->store.name));
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &self->store.lsm));
	ASSERT_EQ(0, lsm_alloc(self->store.lsm, "old", 4, 0, &self->handle, NULL));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", STALL_MS));
}

static void stop(struct follower *follower)
{
	if (follower->keeper)
		keeper_stop(follower->keeper);
	follower_stop(follower);
}

/* A test may have destroyed the store: then its name is empty. */
FIXTURE_TEARDOWN(freeze)
{
	if (*self->store.name) {
		stop(&self->follower);
		EXPECT_STREQ("", self->follower.wrong);
		follower_free(&self->follower);
		EXPECT_EQ(0, store_destroy(&self->store));
	}
	EXPECT_EQ(0, atomic_load(&self->keeper.error));
	keeper_free(&self->keeper);
}

static int read_op(int fd, uint64_t handle, uint32_t flags, char data[4])
{
	struct lsmem_op op = lsm_op_read(handle, data, 4, 0);

	op.flags = flags;
	return call(fd, LSMEM_IOC_READ, &op);
}

static int replace_op(int fd, uint64_t handle, const char *data)
{
	struct lsmem_op op = lsm_op_replace(handle, data, 4, 0, 0);

	return call(fd, LSMEM_IOC_REPLACE, &op);
}

/* Does lsmemctl say this of the store? */
static bool says(const struct store *store, const char *command, const char *text)
{
	char line[512];

	snprintf(line, sizeof(line),
		 "\"$(dirname \"$(readlink /proc/%d/exe)\")/../../../tools/lsmemctl/lsmemctl\" %s 2>&1 | grep -q '%s.*%s'",
		 (int)getpid(), command, store->name, text);
	return !system(line);
}

TEST_F(freeze, told)
{
	char clean[64];

	snprintf(clean, sizeof(clean), "clean %s", self->store.name);
	EXPECT_TRUE(says(&self->store, "list", "active") && !says(&self->store, "list", "frozen"));
	ASSERT_EQ(0, freeze(&self->follower));
	EXPECT_TRUE(says(&self->store, "list", "frozen") && !says(&self->store, "list", "active"));
	EXPECT_TRUE(says(&self->store, clean, "is frozen: another host takes it over"));
	ASSERT_EQ(0, thaw(&self->follower));
	EXPECT_TRUE(says(&self->store, "list", "active"));
}

/* Each call that reads or changes fails after its wait; the others work. */
TEST_F(freeze, calls)
{
	struct lsmem_op alloc = lsm_op_alloc("new", 4, 0), free = lsm_op_free(self->handle, 0, 0);
	struct lsmem_op check = lsm_op_check(self->handle, 0, 0), ops[2];
	struct lsmem_vector vector = {
		.size = sizeof(vector), .ops = (uintptr_t)ops, .nr = 2, .stride = sizeof(*ops),
	};
	struct lsmem_snapshot snapshot = { .size = sizeof(snapshot) };
	struct lsmem_pages pages = { .size = sizeof(pages), .flags = LSMEM_PAGES_CREATE, .length = PAGE };
	struct lsmem_query query = { .size = sizeof(query) };
	struct lsmem_stat stat = { .size = sizeof(stat) };
	int fd = self->store.fd;
	uint64_t begin;
	char data[4];

	EXPECT_EQ(0, store_attribute(&self->store, "frozen"));
	ASSERT_EQ(0, freeze(&self->follower));
	EXPECT_EQ(1, store_attribute(&self->store, "frozen"));
	begin = now_ms();
	EXPECT_EQ(-EREMCHG, read_op(fd, self->handle, 0, data));
	EXPECT_LE(STALL_MS, now_ms() - begin);
	begin = now_ms();
	EXPECT_EQ(-EREMCHG, replace_op(fd, self->handle, "bad"));
	EXPECT_LE(STALL_MS, now_ms() - begin);
	EXPECT_EQ(-EAGAIN, read_op(fd, self->handle, LSMEM_OPF_NOWAIT, data));
	EXPECT_EQ(-EREMCHG, call(fd, LSMEM_IOC_ALLOC, &alloc));
	EXPECT_EQ(-EREMCHG, call(fd, LSMEM_IOC_FREE, &free));
	EXPECT_EQ(-EREMCHG, call(fd, LSMEM_IOC_SNAPSHOT, &snapshot));
	EXPECT_EQ(-EREMCHG, call(fd, LSMEM_IOC_PAGES, &pages));
	ops[0] = lsm_op_read(self->handle, data, 4, 0);
	ops[1] = lsm_op_alloc("new", 4, 0);
	EXPECT_EQ(0, call(fd, LSMEM_IOC_VECTOR, &vector));
	EXPECT_EQ(2, vector.nr);
	EXPECT_EQ(-EREMCHG, ops[0].result);
	EXPECT_EQ(-EREMCHG, ops[1].result);
	ops[0] = lsm_op_alloc("new", 4, 0);	/* these two would be a span */
	ops[1] = lsm_op_replace(self->handle, "bad", 4, 0, 0);
	EXPECT_EQ(0, call(fd, LSMEM_IOC_VECTOR, &vector));
	EXPECT_EQ(-EREMCHG, ops[0].result);
	EXPECT_EQ(-EREMCHG, ops[1].result);
	ops[0].result = 0;
	ops[1].result = 0;
	vector.flags = LSMEM_OPF_ATOMIC;
	EXPECT_EQ(-EREMCHG, call(fd, LSMEM_IOC_VECTOR, &vector));
	EXPECT_EQ(0, vector.nr);
	EXPECT_EQ(-ECANCELED, ops[0].result);
	ops[0].result = 0;
	ops[1].result = 0;
	vector.nr = 1;
	vector.ops = (uintptr_t)&check;		/* a group that would write nothing */
	EXPECT_EQ(-EREMCHG, call(fd, LSMEM_IOC_VECTOR, &vector));
	vector.nr = 2;
	vector.ops = (uintptr_t)ops;
	EXPECT_EQ(0, lsm_sync(self->store.lsm, 0));
	EXPECT_EQ(0, call(fd, LSMEM_IOC_STAT, &stat));
	EXPECT_EQ(0, call(fd, LSMEM_IOC_QUERY, &query));
	EXPECT_EQ(1, stat.handles_used);
	/* What is wrong in a call is told at once: no thaw makes it right. */
	begin = now_ms();
	pages.table = LSMEM_TABLES;
	EXPECT_EQ(-EINVAL, call(fd, LSMEM_IOC_PAGES, &pages));
	snapshot.flags = 1;
	EXPECT_EQ(-EINVAL, call(fd, LSMEM_IOC_SNAPSHOT, &snapshot));
	alloc.length = 0;
	EXPECT_EQ(-EINVAL, call(fd, LSMEM_IOC_ALLOC, &alloc));
	ops[1].table = 1;
	EXPECT_EQ(-EINVAL, call(fd, LSMEM_IOC_VECTOR, &vector));
	EXPECT_EQ(-ECANCELED, ops[0].result);
	EXPECT_EQ(-EINVAL, ops[1].result);
	EXPECT_GT(STALL_MS, now_ms() - begin);
	snapshot.flags = 0;
	ops[0].result = 0;
	ops[1].result = 0;
	ops[1].table = 0;
	vector.nr = 2;

	ASSERT_EQ(0, thaw(&self->follower));
	EXPECT_EQ(0, store_attribute(&self->store, "frozen"));
	EXPECT_EQ(0, read_op(fd, self->handle, 0, data));
	EXPECT_STREQ("old", data);
	EXPECT_EQ(0, call(fd, LSMEM_IOC_VECTOR, &vector));
	EXPECT_EQ(0, read_op(fd, self->handle, 0, data));
	EXPECT_STREQ("bad", data);
	EXPECT_EQ(0, call(fd, LSMEM_IOC_SNAPSHOT, &snapshot));
	EXPECT_EQ(0, close(snapshot.fd));
	EXPECT_EQ(0, call(fd, LSMEM_IOC_FREE, &free));
}

TEST_F(freeze, refused)
{
	struct lsmem_freeze wrong[] = {
		{ .size = sizeof(*wrong), .term = TERM, .flags = LSMEM_FREEZE_THAW << 1 },
		{ .size = sizeof(*wrong), .term = TERM, .frozen = 1 },
		{ .size = sizeof(*wrong), .term = TERM, .reserved = 1 },
		{ .size = sizeof(*wrong), .term = TERM, .objects = 1 },
		{ .size = sizeof(*wrong), .term = 0 },
		{ .size = LSMEM_FREEZE_SIZE_VER0 - 1, .term = TERM },
	};
	struct follower other;
	struct store new;
	unsigned int i;
	bool frozen;
	char data[4];

	for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		EXPECT_EQ(-EINVAL, call(self->follower.attach.fd, LSMEM_REPL_FREEZE, &wrong[i]));
	EXPECT_EQ(0, read_op(self->store.fd, self->handle, 0, data));
	EXPECT_EQ(0, thaw(&self->follower));	/* it is not frozen */
	ASSERT_EQ(0, store_create(&new, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_attach(&other, new.name));
	EXPECT_EQ(-EAGAIN, freeze_once(&other, 0, TERM, &frozen));
	EXPECT_EQ(-EAGAIN, freeze_once(&other, LSMEM_FREEZE_THAW, TERM, &frozen));
	close(other.attach.fd);
	follower_free(&other);
	EXPECT_EQ(0, store_destroy(&new));
}

/* ---- Calls that wait --------------------------------------------------------- */

struct waiter {
	pthread_t thread;
	int fd;
	uint64_t handle;
	atomic_bool ended;
	int read;
	int ret;
	char data[4];
};

static void *waiter_main(void *argument)
{
	struct waiter *waiter = argument;

	waiter->ret = waiter->read ? read_op(waiter->fd, waiter->handle, 0, waiter->data) :
				     replace_op(waiter->fd, waiter->handle, "new");
	atomic_store(&waiter->ended, true);
	return NULL;
}

/* How many threads of a process wait in the kernel, not to be woken up by a signal that it handles? */
static unsigned int waiting(pid_t pid)
{
	char path[64], state, text[512];
	unsigned int nr = 0;
	struct dirent *entry;
	FILE *file;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", pid, entry->d_name);
		file = *entry->d_name == '.' ? NULL : fopen(path, "re");
		if (!file)
			continue;
		/* The name may have any bytes but a newline: the state follows its last parenthesis. */
		if (fgets(text, sizeof(text), file) && sscanf(strrchr(text, ')') + 1, " %c", &state) == 1)
			nr += state == 'D' || state == 'I';
		fclose(file);
	}
	if (dir)
		closedir(dir);
	return nr;
}

static bool waits(pid_t pid, unsigned int nr)
{
	uint64_t end = now_ms() + test_limit(FREEZE_MS);
	unsigned int seen = 0;

	/* A task sleeps like that for a moment in a page fault, too. */
	for (; seen < WAITS_SEEN && now_ms() < end; usleep(1000))
		seen = waiting(pid) >= nr ? seen + 1 : 0;
	return seen == WAITS_SEEN;
}

/* A call that waits goes on after a thaw, and can be killed before. */
TEST_F(freeze, thaw)
{
	struct waiter waiters[2] = {
		{ .fd = self->store.fd, .handle = self->handle },
		{ .fd = self->store.fd, .handle = self->handle, .read = true },
	};
	unsigned int i;
	int status;
	pid_t pid;

	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", 3600000));
	ASSERT_EQ(0, freeze(&self->follower));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(replace_op(self->store.fd, self->handle, "bad") ? 1 : 0);
	EXPECT_TRUE(waits(pid, 1));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&waiters[i].thread, NULL, waiter_main, &waiters[i]));
	EXPECT_TRUE(waits(getpid(), 2));
	EXPECT_FALSE(atomic_load(&waiters[0].ended) || atomic_load(&waiters[1].ended));
	ASSERT_EQ(0, thaw(&self->follower));
	for (i = 0; i < 2; i++) {
		pthread_join(waiters[i].thread, NULL);
		EXPECT_EQ(0, waiters[i].ret);
	}
	EXPECT_TRUE(!strcmp(waiters[1].data, "old") || !strcmp(waiters[1].data, "new"));
	EXPECT_EQ(0, read_op(self->store.fd, self->handle, 0, waiters[1].data));
	EXPECT_STREQ("new", waiters[1].data);
}

/*
 * How many objects there are: also those of a table, with its index, and of reserved indices; none that was freed, nor the
 * index that an ALLOC has taken which waits for the thaw.
 */
TEST_F(freeze, objects)
{
	struct lsmem_op alloc = lsm_op_alloc("new", 4, 0);
	struct lsmem_freeze old = { .size = LSMEM_FREEZE_SIZE_VER0, .term = TERM };
	struct lsm_table *table;
	struct lsmem_stat stat;
	uint64_t handles[100];
	unsigned int i;
	int status;
	pid_t pid;

	ASSERT_EQ(0, freeze(&self->follower));
	EXPECT_EQ(1, objects(&self->follower));
	ASSERT_EQ(0, thaw(&self->follower));
	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, lsm_alloc(self->store.lsm, "new", 4, 0, &handles[i], NULL));
	for (i = 0; i < 30; i++)
		ASSERT_EQ(0, lsm_free(self->store.lsm, handles[3 * i], 0, NULL));
	ASSERT_EQ(0, freeze(&self->follower));
	EXPECT_EQ(1 + 70, objects(&self->follower));
	ASSERT_EQ(0, thaw(&self->follower));
	ASSERT_EQ(0, lsm_table_open(self->store.lsm, 7, 0, &table));
	for (i = 0; i < 50; i++)
		ASSERT_EQ(0, lsm_table_put(table, &i, sizeof(i), "value", 5, 0, NULL));
	i = 9;
	ASSERT_EQ(0, lsm_table_remove(table, &i, sizeof(i), 0, NULL));
	lsm_table_close(table);
	ASSERT_EQ(0, freeze(&self->follower));
	ASSERT_EQ(0, lsm_stat(self->store.lsm, &stat));
	EXPECT_EQ(stat.handles_used, objects(&self->follower));
	EXPECT_LE(1 + 70 + 49, objects(&self->follower));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", 3600000));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(call(self->store.fd, LSMEM_IOC_ALLOC, &alloc) ? 1 : 0);
	EXPECT_TRUE(waits(pid, 1));
	EXPECT_EQ(stat.handles_used, objects(&self->follower));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	/* A daemon that does not know of the number. */
	EXPECT_EQ(0, call(self->follower.attach.fd, LSMEM_REPL_FREEZE, &old));
	EXPECT_EQ(1, old.frozen);
	EXPECT_EQ(0, old.objects);
	ASSERT_EQ(0, thaw(&self->follower));
}

static int uring_command(struct io_uring *ring, int fd, unsigned long request, struct lsmem_op *op)
{
	struct lsmem_command command = { .structure = (uintptr_t)op };
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = (uint32_t)request;
	memcpy(sqe->cmd, &command, sizeof(command));
	return io_uring_submit(ring) == 1 ? 0 : -EIO;
}

static int uring_result(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int ret = io_uring_wait_cqe(ring, &cqe);

	if (ret)
		return ret;
	ret = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return ret;
}

/* Commands of io_uring do the same, and their submitter does not wait. */
TEST_F(freeze, uring)
{
	struct lsmem_op op = lsm_op_replace(self->handle, "new", 4, LSM_DURABLE, 0);
	struct io_uring ring;
	char data[4];
	int ret;

	ret = io_uring_queue_init(8, &ring, 0);
	if (ret == -ENOSYS || ret == -EPERM)
		SKIP(return, "this kernel has no io_uring");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, freeze(&self->follower));
	ASSERT_EQ(0, uring_command(&ring, self->store.fd, LSMEM_IOC_REPLACE, &op));
	EXPECT_EQ(-EREMCHG, uring_result(&ring));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", 3600000));
	op = lsm_op_replace(self->handle, "new", 4, LSM_DURABLE, 0);
	ASSERT_EQ(0, uring_command(&ring, self->store.fd, LSMEM_IOC_REPLACE, &op));
	EXPECT_TRUE(waits(getpid(), 1));
	ASSERT_EQ(0, thaw(&self->follower));
	EXPECT_EQ(0, uring_result(&ring));
	EXPECT_EQ(0, read_op(self->store.fd, self->handle, 0, data));
	EXPECT_STREQ("new", data);
	io_uring_queue_exit(&ring);
}

/* ---- Windows ------------------------------------------------------------------ */

static uint32_t word_state(const struct lsmem_handle *handles, uint64_t handle)
{
	return __atomic_load_n(&handles[lsmem_handle_index(handle)].word, __ATOMIC_ACQUIRE) >>
	       LSMEM_WORD_STATE_SHIFT & ((1u << LSMEM_WORD_STATE_BITS) - 1);
}

/* No object is seen in a window, mapped before or after; a view that was begun before has the bytes. */
TEST_F(freeze, windows)
{
	const struct lsmem_info *info = self->follower.info;
	const struct lsmem_handle *handles, *late;
	struct lsm_view view, other;
	char data[4];

	handles = mmap(NULL, info->handles.length, PROT_READ, MAP_SHARED, self->store.fd, (off_t)info->handles.offset);
	ASSERT_NE(MAP_FAILED, handles);
	EXPECT_EQ(LSMEM_WORD_LIVE, word_state(handles, self->handle));
	ASSERT_EQ(4, lsm_read(self->store.lsm, self->handle, data, 4, 0, NULL));
	ASSERT_EQ(0, lsm_view_begin(self->store.lsm, self->handle, &view));
	ASSERT_EQ(0, freeze(&self->follower));
	EXPECT_EQ(LSMEM_WORD_COLD, word_state(handles, self->handle));
	EXPECT_EQ(LSMEM_WORD_COLD, word_state(handles, info->nr_handles - 1));
	late = mmap(NULL, info->handles.length, PROT_READ, MAP_SHARED, self->store.fd, (off_t)info->handles.offset);
	ASSERT_NE(MAP_FAILED, late);
	EXPECT_EQ(LSMEM_WORD_COLD, word_state(late, self->handle));
	EXPECT_EQ(-EREMCHG, lsm_read(self->store.lsm, self->handle, data, 4, 0, NULL));
	EXPECT_EQ(-EREMCHG, lsm_view_begin(self->store.lsm, self->handle, &other));
	EXPECT_STREQ("old", view.iov[0].iov_base);
	EXPECT_EQ(0, lsm_view_end(self->store.lsm, &view));
	ASSERT_EQ(0, thaw(&self->follower));
	EXPECT_EQ(LSMEM_WORD_LIVE, word_state(handles, self->handle));
	EXPECT_EQ(LSMEM_WORD_LIVE, word_state(late, self->handle));
	EXPECT_EQ(4, lsm_read(self->store.lsm, self->handle, data, 4, 0, NULL));
	EXPECT_STREQ("old", data);
	munmap((void *)handles, info->handles.length);
	munmap((void *)late, info->handles.length);
}

TEST_F(freeze, snapshot)
{
	struct lsmem_snapshot snapshot = { .size = sizeof(snapshot) };
	const struct lsmem_snapshot_page *page;

	ASSERT_EQ(0, call(self->store.fd, LSMEM_IOC_SNAPSHOT, &snapshot));
	page = mmap(NULL, snapshot.bytes, PROT_READ, MAP_SHARED, snapshot.fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	EXPECT_EQ(LSMEM_SNAPSHOT_STANDS, page->state);
	ASSERT_EQ(0, freeze(&self->follower));
	EXPECT_EQ(LSMEM_SNAPSHOT_FROZEN, __atomic_load_n(&page->state, __ATOMIC_ACQUIRE));
	ASSERT_EQ(0, thaw(&self->follower));
	munmap((void *)page, snapshot.bytes);
	close(snapshot.fd);
}

/* A range of pages must be closed. */
TEST_F(freeze, pages)
{
	struct lsmem_pages pages = { .size = sizeof(pages), .flags = LSMEM_PAGES_CREATE, .length = PAGE };
	uint64_t end = now_ms() + test_limit(FREEZE_MS);
	char data[4], *page;
	bool frozen;

	ASSERT_EQ(0, call(self->store.fd, LSMEM_IOC_PAGES, &pages));
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, pages.fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	strcpy(page, "page");
	EXPECT_EQ(-EBUSY, freeze_once(&self->follower, 0, TERM, &frozen));
	EXPECT_EQ(0, read_op(self->store.fd, self->handle, 0, data));
	munmap(page, PAGE);
	close(pages.fd);
	while (freeze_once(&self->follower, 0, TERM, &frozen) == -EBUSY && now_ms() < end)
		usleep(1000);	/* it is closed by a work */
	ASSERT_EQ(0, freeze(&self->follower));
	pages.flags = 0;
	pages.length = 0;
	pages.fd = 0;
	EXPECT_EQ(-EREMCHG, call(self->store.fd, LSMEM_IOC_PAGES, &pages));
	ASSERT_EQ(0, thaw(&self->follower));
	pages.length = 0;
	pages.buffer = 0;
	ASSERT_EQ(0, call(self->store.fd, LSMEM_IOC_PAGES, &pages));
	page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, pages.fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	EXPECT_STREQ("page", page);
	munmap(page, PAGE);
	close(pages.fd);
}

/* ---- Daemons -------------------------------------------------------------------- */

/* Another daemon follows the store, after stop() and follower_free(). */
static int succeed(struct follower *follower, const struct store *store, const uint8_t *uuid)
{
	int ret = follower_succeed(follower, store, uuid);

	return ret || !follower->keeper ? ret : keeper_start(follower->keeper, follower);
}

/* A daemon that ends leaves the store frozen; the next one is told, and thaws it. */
TEST_F(freeze, successor)
{
	struct lsmem_attach attach = self->follower.attach, old;
	char data[4];

	EXPECT_EQ(0, attach.frozen);
	EXPECT_EQ(0, attach.term);
	ASSERT_EQ(0, freeze(&self->follower));
	stop(&self->follower);
	EXPECT_STREQ("", self->follower.wrong);
	follower_free(&self->follower);
	EXPECT_EQ(-EREMCHG, read_op(self->store.fd, self->handle, 0, data));
	/* A daemon that does not know that stores can be frozen. */
	old = attach;
	old.instant = 0;
	old.size = LSMEM_ATTACH_SIZE_VER0;
	EXPECT_EQ(-EREMCHG, control_call(LSMEM_CTL_ATTACH, &old));
	old.size = sizeof(old);
	old.instant = 0;
	old.frozen = 1;	/* out only */
	EXPECT_EQ(-EINVAL, control_call(LSMEM_CTL_ATTACH, &old));
	ASSERT_EQ(0, succeed(&self->follower, &self->store, attach.uuid));
	EXPECT_EQ(1, self->follower.attach.frozen);
	EXPECT_EQ(TERM, self->follower.attach.term);
	EXPECT_EQ(-EREMCHG, replace_op(self->store.fd, self->handle, "bad"));
	ASSERT_EQ(0, freeze(&self->follower));		/* it may as well go on */
	ASSERT_EQ(0, thaw(&self->follower));
	EXPECT_EQ(0, replace_op(self->store.fd, self->handle, "new"));
	stop(&self->follower);
	follower_free(&self->follower);
	old.frozen = 0;
	old.term = 0;
	old.size = LSMEM_ATTACH_SIZE_VER0;
	ASSERT_EQ(0, control_call(LSMEM_CTL_ATTACH, &old));
	close(old.fd);
	ASSERT_EQ(0, succeed(&self->follower, &self->store, attach.uuid));
	EXPECT_EQ(0, self->follower.attach.frozen);
	EXPECT_EQ(TERM, self->follower.attach.term);
	EXPECT_EQ(0, read_op(self->store.fd, self->handle, 0, data));
	EXPECT_STREQ("new", data);
}

/* What is frozen and durable can be destroyed. */
TEST_F(freeze, destroy)
{
	struct lsmem_destroy destroy = { .size = sizeof(destroy) };

	ASSERT_EQ(0, freeze(&self->follower));
	EXPECT_TRUE(all_closed(&self->follower, self->store.fd));
	stop(&self->follower);
	follower_free(&self->follower);
	lsm_close(self->store.lsm);
	close(self->store.fd);
	memcpy(destroy.name, self->store.name, sizeof(destroy.name));
	EXPECT_EQ(0, control_call(LSMEM_CTL_DESTROY, &destroy));
	*self->store.name = '\0';
}

/* ---- Under load ------------------------------------------------------------------ */

struct writer {
	pthread_t thread;
	struct lsm *lsm;
	uint64_t random;
	uint32_t objects;
	uint64_t handles[OBJECTS];
	uint64_t versions[OBJECTS];
	uint32_t stamps[OBJECTS];
	atomic_bool stop;
	int error;
};

static void *writer_main(void *argument)
{
	struct writer *writer = argument;
	uint32_t *bytes = calloc(1, LENGTH), read, i, n;
	int ret = bytes ? 0 : -ENOMEM;

	for (n = 1; !ret && !atomic_load(&writer->stop); n++) {
		i = random_next(&writer->random) % writer->objects;
		if (writer->handles[i] && random_next(&writer->random) % 4 == 0) {
			ret = (int)lsm_read(writer->lsm, writer->handles[i], &read, sizeof(read), 0, NULL);
			ret = ret != sizeof(read) ? ret : read == writer->stamps[i] ? 0 : -EUCLEAN;
			continue;
		}
		*bytes = n;
		if (writer->handles[i])
			ret = lsm_replace(writer->lsm, writer->handles[i], bytes,
					  sizeof(n) + random_next(&writer->random) % (LENGTH - sizeof(n)), 0,
					  &writer->versions[i]);
		else
			ret = lsm_alloc(writer->lsm, bytes, LENGTH / 2, 0, &writer->handles[i], &writer->versions[i]);
		if (!ret)
			writer->stamps[i] = n;
	}
	free(bytes);
	writer->error = ret;
	return NULL;
}

/*
 * Writers and readers, cleaner and compactors.  While the store is frozen nothing is appended, and after the closes no
 * event comes; after it nothing is lost, in memory or in the stream.  The store is written to twice.
 */
TEST_F_TIMEOUT(freeze, load, SECONDS)
{
	struct writer *writers = calloc(WRITERS, sizeof(*writers));
	uint64_t end = now_ms() + test_limit(60000), entries, last = 0;
	struct lsmem_stat stat, still;
	uint32_t i, j, n, read, live = 1;

	ASSERT_NE(NULL, writers);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", 3600000));
	for (i = 0; i < WRITERS; i++) {
		writers[i].lsm = self->store.lsm;
		writers[i].random = test_seed + i;
		writers[i].objects = variant->objects;
		ASSERT_EQ(0, pthread_create(&writers[i].thread, NULL, writer_main, &writers[i]));
	}
	for (n = 0; n < FREEZES; n++) {
		do
			usleep(1000);
		while (!lsm_stat(self->store.lsm, &stat) && stat.appended_bytes < last + BETWEEN && now_ms() < end);
		ASSERT_EQ(0, freeze(&self->follower));
		EXPECT_TRUE(all_closed(&self->follower, self->store.fd));
		ASSERT_EQ(0, lsm_stat(self->store.lsm, &stat));
		entries = atomic_load(&self->follower.entries);
		EXPECT_EQ(-EAGAIN, store_set_text(&self->store, "cleaner/request_clean", "1"));
		EXPECT_EQ(0, store_set_text(&self->store, "cleaner/request_compact", "4"));
		usleep(50000);		/* in which nothing happens */
		ASSERT_EQ(0, lsm_stat(self->store.lsm, &still));
		EXPECT_EQ(entries, atomic_load(&self->follower.entries));
		EXPECT_EQ(stat.appended_bytes, still.appended_bytes);
		EXPECT_EQ(stat.relocated_bytes, still.relocated_bytes);
		EXPECT_EQ(stat.segments_cleaned, still.segments_cleaned);
		EXPECT_EQ(stat.segments_compacted, still.segments_compacted);
		last = stat.appended_bytes;
		ASSERT_EQ(0, thaw(&self->follower));
	}
	EXPECT_LT(0, made_room(&still)) TH_LOG("neither cleaner has worked");
	if (variant->capacity)
		EXPECT_LT(0, tier_attribute(&self->store, "evicted")) TH_LOG("nothing was evicted");
	for (i = 0; i < WRITERS; i++)
		atomic_store(&writers[i].stop, true);
	for (i = 0; i < WRITERS; i++)
		pthread_join(writers[i].thread, NULL);
	ASSERT_EQ(0, freeze(&self->follower));
	EXPECT_TRUE(all_closed(&self->follower, self->store.fd));
	for (i = 0; i < WRITERS; i++) {
		EXPECT_EQ(0, writers[i].error);
		for (j = 0; j < variant->objects; j++) {
			uint64_t index = lsmem_handle_index(writers[i].handles[j]);

			if (writers[i].handles[j])
				EXPECT_EQ(writers[i].versions[j], self->follower.keys[index].version);
			live += !!writers[i].handles[j];
		}
	}
	EXPECT_EQ(live, objects(&self->follower));
	ASSERT_EQ(0, thaw(&self->follower));
	for (i = 0; i < WRITERS; i++)
		for (j = 0; j < variant->objects; j++)
			if (writers[i].handles[j]) {
				EXPECT_EQ(sizeof(read), lsm_read(self->store.lsm, writers[i].handles[j], &read,
								 sizeof(read), 0, NULL));
				EXPECT_EQ(writers[i].stamps[j], read);
			}
	free(writers);
}

/* ---- A disk ------------------------------------------------------------------------ */

struct io {
	pthread_t thread;
	int fd;
	void *buffer;
	bool write;
	ssize_t ret;
};

static void *io_main(void *argument)
{
	struct io *io = argument;
	ssize_t ret = io->write ? pwrite(io->fd, io->buffer, BLOCK, 0) : pread(io->fd, io->buffer, BLOCK, BLOCK);

	io->ret = ret < 0 ? -errno : ret;
	return NULL;
}

/* Reads and writes of a disk wait for a thaw, and not for ever. */
TEST(disk)
{
	struct follower follower;
	struct io io[2] = { { .write = true } };
	struct store store;
	uint8_t *buffer;
	unsigned int i;

	ASSERT_EQ(0, store_create_disk(&store, STORE_BYTES, 0, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_start(&follower, store.name));
	store.fd = open(store.path, O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, store.fd);
	ASSERT_EQ(0, posix_memalign((void **)&buffer, BLOCK, 3 * BLOCK));
	memset(buffer, 1, BLOCK);
	ASSERT_EQ(BLOCK, pwrite(store.fd, buffer, BLOCK, 0));
	ASSERT_EQ(BLOCK, pwrite(store.fd, buffer, BLOCK, BLOCK));
	ASSERT_EQ(0, store_set_attribute(&store, "limits/flush_ms", STALL_MS));
	ASSERT_EQ(0, freeze(&follower));
	EXPECT_EQ(2, objects(&follower));
	EXPECT_TRUE(all_closed(&follower, store.fd));
	memset(buffer, 2, BLOCK);
	EXPECT_EQ(-1, pwrite(store.fd, buffer, BLOCK, 0));
	EXPECT_EQ(ETIMEDOUT, errno);
	EXPECT_EQ(-1, pread(store.fd, buffer, BLOCK, 0));
	EXPECT_EQ(ETIMEDOUT, errno);
	ASSERT_EQ(0, store_set_attribute(&store, "limits/flush_ms", 3600000));
	for (i = 0; i < 2; i++) {
		io[i].fd = store.fd;
		io[i].buffer = buffer + i * BLOCK;
		ASSERT_EQ(0, pthread_create(&io[i].thread, NULL, io_main, &io[i]));
	}
	EXPECT_TRUE(waits(getpid(), 2));
	ASSERT_EQ(0, thaw(&follower));
	for (i = 0; i < 2; i++) {
		pthread_join(io[i].thread, NULL);
		EXPECT_EQ(BLOCK, io[i].ret);
	}
	EXPECT_EQ(1, buffer[BLOCK]);
	ASSERT_EQ(BLOCK, pread(store.fd, buffer + 2 * BLOCK, BLOCK, 0));
	EXPECT_EQ(2, buffer[2 * BLOCK]);
	close(store.fd);
	store.fd = -1;
	follower_stop(&follower);
	EXPECT_STREQ("", follower.wrong);
	follower_free(&follower);
	EXPECT_EQ(0, store_destroy_disk(&store));
	free(buffer);
}

TEST_HARNESS_MAIN
