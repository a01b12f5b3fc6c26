// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges of pages (LSMEM_IOC_PAGES): regions and pools behind mmap(), in a volatile store; of a durable
 * one, what its journals have besides.  regions.c compares regions with copies of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lsmem/lsmem_format.h>

#include "kselftest_harness.h"
#include "follower.h"
#include "store.h"

#define PAGE		4096ull
#define SECONDS		240	/* time limit of a test; sufficient under emulation */
#define TABLE		7u

FIXTURE(pages)
{
	struct store store;
	uint64_t used;		/* handles of the empty store */
};

static uint64_t handles_used(const struct store *store)
{
	struct lsmem_stat stat = { .size = sizeof(stat) };

	return ioctl(store->fd, LSMEM_IOC_STAT, &stat) ? UINT64_MAX : stat.handles_used;
}

static uint64_t appended(const struct store *store)
{
	struct lsmem_stat stat = { .size = sizeof(stat) };

	return ioctl(store->fd, LSMEM_IOC_STAT, &stat) ? UINT64_MAX : stat.appended_bytes;
}

FIXTURE_SETUP(pages)
{
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 100000, 0));
	self->used = handles_used(&self->store);
}

FIXTURE_TEARDOWN(pages)
{
	/* Fails if something still holds the store. */
	EXPECT_EQ(0, store_destroy(&self->store));
}

/* Returns a descriptor or a negative errno. */
static int range_make(const struct store *store, uint32_t flags, uint64_t length, uint64_t buffer,
		      uint64_t *root)
{
	struct lsmem_pages pages = {
		.size = sizeof(pages), .flags = LSMEM_PAGES_CREATE | flags, .length = length,
		.buffer = buffer, .table = TABLE,
	};

	if (ioctl(store->fd, LSMEM_IOC_PAGES, &pages))
		return -errno;
	*root = pages.root;
	return pages.fd;
}

static int range_open(const struct store *store, uint64_t root, uint64_t buffer)
{
	struct lsmem_pages pages = { .size = sizeof(pages), .root = root, .buffer = buffer };

	return ioctl(store->fd, LSMEM_IOC_PAGES, &pages) ? -errno : pages.fd;
}

static int range_remove(const struct store *store, uint64_t root)
{
	struct lsmem_pages pages = {
		.size = sizeof(pages), .flags = LSMEM_PAGES_REMOVE, .root = root,
	};

	return ioctl(store->fd, LSMEM_IOC_PAGES, &pages) ? -errno : 0;
}

static int page_call(int fd, uint32_t op, struct lsmem_page *page)
{
	page->size = sizeof(*page);
	page->op = op;
	return ioctl(fd, LSMEM_IOC_PAGE, page) ? -errno : 0;
}

static unsigned char *map(int fd, uint64_t length)
{
	return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

/* Is there nothing to be read?  (A load would raise SIGBUS.) */
static bool faults(const void *at)
{
	int ends[2], error;

	if (pipe(ends))
		return false;
	error = write(ends[1], at, 1) == 1 ? 0 : errno;
	close(ends[0]);
	close(ends[1]);
	return error == EFAULT;
}

/* ---- Regions --------------------------------------------------------------- */

TEST_F_TIMEOUT(pages, region_keeps, SECONDS)
{
	const uint64_t length = 64 * MIB;	/* sparse: more than half of the memory */
	unsigned char *at;
	uint64_t root = 0, i;
	int fd;

	fd = range_make(&self->store, 0, length, 0, &root);
	ASSERT_LE(0, fd);
	at = map(fd, length);
	ASSERT_NE(MAP_FAILED, at);
	EXPECT_EQ(0, at[0]);
	EXPECT_EQ(0, at[length - 1]);
	for (i = 0; i < length; i += 77 * PAGE)
		memset(at + i, 1 + i % 251, 100);
	at[length - 1] = 255;
	ASSERT_EQ(0, msync(at, length, MS_SYNC));
	ASSERT_EQ(0, munmap(at, length));
	ASSERT_EQ(0, close(fd));

	fd = range_open(&self->store, root, 0);
	ASSERT_LE(0, fd);
	at = map(fd, length);
	ASSERT_NE(MAP_FAILED, at);
	for (i = 0; i < length; i += 77 * PAGE) {
		ASSERT_EQ(1 + i % 251, at[i + 99]);
		ASSERT_EQ(0, at[i + 100]);
		ASSERT_EQ(0, at[i + PAGE]);
	}
	EXPECT_EQ(255, at[length - 1]);
	EXPECT_EQ(-EBUSY, range_remove(&self->store, root));
	ASSERT_EQ(0, munmap(at, length));
	ASSERT_EQ(0, close(fd));
	ASSERT_EQ(0, range_remove(&self->store, root));
	EXPECT_EQ(self->used, handles_used(&self->store));
	EXPECT_EQ(-ESTALE, range_open(&self->store, root, 0));
}

/* Nothing of an atomic range is written but when it is asked for. */
TEST_F_TIMEOUT(pages, atomic_waits, SECONDS)
{
	unsigned char *at;
	uint64_t root = 0, before;
	int fd;

	fd = range_make(&self->store, LSMEM_PAGES_ATOMIC, MIB, 0, &root);
	ASSERT_LE(0, fd);
	at = map(fd, MIB);
	ASSERT_NE(MAP_FAILED, at);
	before = appended(&self->store);
	memset(at, 1, 64 * PAGE);
	sync();
	ASSERT_EQ(0, msync(at, MIB, MS_ASYNC));
	EXPECT_EQ(before, appended(&self->store));
	ASSERT_EQ(0, msync(at, MIB, MS_SYNC));
	EXPECT_LE(before + 64 * PAGE, appended(&self->store));
	before = appended(&self->store);
	ASSERT_EQ(0, msync(at, MIB, MS_SYNC));
	EXPECT_EQ(before, appended(&self->store));	/* nothing is dirty */
	at[PAGE] = 2;
	ASSERT_EQ(0, msync(at, MIB, MS_SYNC));
	EXPECT_GE(before + 2 * PAGE, appended(&self->store));	/* one page, not 64 */
	munmap(at, MIB);
	close(fd);
}

static uint64_t resident(unsigned char *at, uint64_t length)
{
	static unsigned char pages[64 * MIB / PAGE];
	uint64_t n = 0, i;

	if (mincore(at, length, pages))
		return UINT64_MAX;
	for (i = 0; i < length / PAGE; i++)
		n += pages[i] & 1;
	return n;
}

TEST_F_TIMEOUT(pages, buffer_is_bounded, SECONDS)
{
	const uint64_t length = 32 * MIB, buffer = MIB;
	unsigned char *at;
	uint64_t root = 0, i, most = 0, n;
	int fd, round;

	fd = range_make(&self->store, 0, length, buffer, &root);
	ASSERT_LE(0, fd);
	at = map(fd, length);
	ASSERT_NE(MAP_FAILED, at);
	for (round = 0; round < 2; round++)
		for (i = 0; i < length; i += PAGE) {
			at[i] = (unsigned char)(i / PAGE);
			if (i % MIB)
				continue;
			n = resident(at, length);
			most = n > most ? n : most;
		}
	printf("# at most %llu pages in a buffer of %llu\n", (unsigned long long)most,
	       (unsigned long long)(buffer / PAGE));
	EXPECT_GE(buffer / PAGE + 64, most);
	for (i = 0; i < length; i += PAGE)
		ASSERT_EQ((unsigned char)(i / PAGE), at[i]);
	munmap(at, length);
	close(fd);
}

/*
 * More pages than the buffer holds can be locked in memory: mlock() ends.  A page more is not waited for, and
 * when they are unlocked the buffer is bounded again.
 */
TEST_F_TIMEOUT(pages, locked_beyond, SECONDS)
{
	const uint64_t length = 4 * MIB, buffer = MIB / 4, locked = MIB;
	unsigned char *at;
	uint64_t root = 0, i;
	int fd;

	fd = range_make(&self->store, 0, length, buffer, &root);
	ASSERT_LE(0, fd);
	at = map(fd, length);
	ASSERT_NE(MAP_FAILED, at);
	for (i = 0; i < length; i += PAGE)
		at[i] = (unsigned char)(1 + i / PAGE % 255);
	ASSERT_EQ(0, msync(at, length, MS_SYNC));
	ASSERT_EQ(0, mlock(at, locked));
	EXPECT_EQ(locked / PAGE, resident(at, locked));
	for (i = 0; i < length; i += PAGE)
		ASSERT_EQ((unsigned char)(1 + i / PAGE % 255), at[i]);
	EXPECT_EQ(locked / PAGE, resident(at, locked));
	EXPECT_GE((locked + buffer) / PAGE + 64, resident(at, length));
	ASSERT_EQ(0, munlock(at, locked));
	for (i = 0; i < length; i += PAGE)
		ASSERT_EQ((unsigned char)(1 + i / PAGE % 255), at[i]);
	EXPECT_GE(buffer / PAGE + 64, resident(at, length));
	munmap(at, length);
	close(fd);
}

/* A page of a pool that has no object cannot be locked, or read ahead of its use: the calls end. */
TEST_F_TIMEOUT(pages, locked_unread, SECONDS)
{
	struct lsmem_page page = { .size = sizeof(page), .op = LSMEM_PAGE_ALLOC, .length = 100 };
	const uint64_t length = 8 * PAGE;
	unsigned char *at;
	uint64_t root = 0;
	int fd;

	fd = range_make(&self->store, LSMEM_PAGES_POOL, length, 0, &root);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ioctl(fd, LSMEM_IOC_PAGE, &page));
	at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	ASSERT_NE(MAP_FAILED, at);
	EXPECT_EQ(1, resident(at, PAGE));
	EXPECT_EQ(-1, mlock(at, length));
	EXPECT_EQ(ENOMEM, errno);
	EXPECT_EQ(0, mlock(at, PAGE));
	munmap(at, length);
	close(fd);
}

static long long counted(const struct store *store, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "pages/%s", name);
	return store_attribute(store, path);
}

/* The files in pages/ of sysfs: what is open, what is in the buffers, and what was done. */
TEST_F_TIMEOUT(pages, is_counted, SECONDS)
{
	enum { CHANGED = 5, STRIDE = 3 };
	const uint64_t length = 64 * PAGE;
	uint64_t roots[2] = { 0 }, i;
	int fds[2], again;
	unsigned char *at;
	long long bytes;

	EXPECT_EQ(0, counted(&self->store, "ranges"));
	for (i = 0; i < 2; i++) {
		fds[i] = range_make(&self->store, 0, length, 0, &roots[i]);
		ASSERT_LE(0, fds[i]);
	}
	again = range_open(&self->store, roots[0], 0);
	ASSERT_LE(0, again);
	EXPECT_EQ(2, counted(&self->store, "ranges"));
	EXPECT_EQ(0, counted(&self->store, "buffered_pages"));
	at = map(fds[0], length);
	ASSERT_NE(MAP_FAILED, at);
	ASSERT_EQ(0, madvise(at, length, MADV_RANDOM));
	for (i = 0; i < CHANGED; i++)
		at[i * STRIDE * PAGE] = 1;
	EXPECT_EQ(CHANGED, counted(&self->store, "buffered_pages"));
	EXPECT_EQ(CHANGED, counted(&self->store, "dirty_pages"));
	EXPECT_LE(CHANGED, counted(&self->store, "faults"));
	EXPECT_GE(2 * CHANGED, counted(&self->store, "faults"));
	EXPECT_EQ(0, counted(&self->store, "read_pages"));	/* holes */
	EXPECT_EQ(0, counted(&self->store, "written_pages"));
	EXPECT_EQ(0, counted(&self->store, "syncs"));
	ASSERT_EQ(0, msync(at, length, MS_SYNC));
	EXPECT_EQ(CHANGED, counted(&self->store, "buffered_pages"));
	EXPECT_EQ(0, counted(&self->store, "dirty_pages"));
	EXPECT_EQ(CHANGED, counted(&self->store, "written_pages"));
	EXPECT_EQ(1, counted(&self->store, "groups"));
	EXPECT_EQ(1, counted(&self->store, "syncs"));
	EXPECT_LT(0, counted(&self->store, "sync_ns"));
	/* Five pages of a byte, a node with the last of their handles, and the root */
	bytes = counted(&self->store, "written_bytes");
	EXPECT_LE(CHANGED * 32 + ((CHANGED - 1) * STRIDE + 1) * 8 +
		  (long long)sizeof(struct lsmem_pages_root), bytes);
	EXPECT_GE(2048, bytes);
	munmap(at, length);
	close(again);
	EXPECT_EQ(2, counted(&self->store, "ranges"));
	close(fds[0]);
	EXPECT_EQ(1, counted(&self->store, "ranges"));
	EXPECT_EQ(0, counted(&self->store, "buffered_pages"));
	fds[0] = range_open(&self->store, roots[0], 0);
	ASSERT_LE(0, fds[0]);
	at = malloc(length);
	ASSERT_EQ((ssize_t)length, read(fds[0], at, length));
	free(at);
	EXPECT_EQ(CHANGED, counted(&self->store, "read_pages"));
	EXPECT_EQ(0, counted(&self->store, "fetched_pages"));
	EXPECT_EQ(64, counted(&self->store, "buffered_pages"));
	ASSERT_EQ(0, fsync(fds[0]));
	EXPECT_EQ(2, counted(&self->store, "syncs"));
	EXPECT_EQ(1, counted(&self->store, "groups"));	/* nothing was to be written */
	close(fds[0]);
	close(fds[1]);
	EXPECT_EQ(0, counted(&self->store, "ranges"));
}

/* What a shared file mapping can do. */
TEST_F_TIMEOUT(pages, as_a_file, SECONDS)
{
	unsigned char *at, *other, *moved, bytes[PAGE];
	uint64_t root = 0;
	int fd, file, status;
	struct stat stat;
	char name[] = "/tmp/lsmem-pages-XXXXXX";
	pid_t pid;

	fd = range_make(&self->store, 0, MIB, 0, &root);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, fstat(fd, &stat));
	EXPECT_EQ(MIB, (uint64_t)stat.st_size);
	at = map(fd, MIB);
	other = map(fd, MIB);
	ASSERT_NE(MAP_FAILED, at);
	ASSERT_NE(MAP_FAILED, other);
	at[5] = 1;
	EXPECT_EQ(1, other[5]);			/* two mappings */
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		at[6] = at[5] + 1;
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(2, at[6]);			/* a child's store */
	moved = mremap(other, MIB, MIB / 2, MREMAP_MAYMOVE);
	ASSERT_NE(MAP_FAILED, moved);
	EXPECT_EQ(2, moved[6]);
	ASSERT_EQ(0, mprotect(at, PAGE, PROT_READ));
	EXPECT_EQ(2, at[6]);
	ASSERT_EQ(0, mprotect(at, PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0));
	EXPECT_EQ(EPERM, errno);
	at[7] = 3;
	ASSERT_EQ(0, madvise(at, MIB, MADV_SEQUENTIAL));
	ASSERT_EQ(0, madvise(at, MIB, MADV_RANDOM));
	ASSERT_EQ(0, madvise(at, PAGE, MADV_DONTNEED));
	EXPECT_EQ(3, at[7]);			/* the file's pages stay */
	ASSERT_EQ(0, madvise(at, PAGE, MADV_REMOVE));
	EXPECT_EQ(0, at[7]);			/* a hole */
	memset(at, 9, PAGE);
	file = mkstemp(name);			/* the kernel takes its pages (GUP) */
	ASSERT_LE(0, file);
	unlink(name);
	ASSERT_EQ(PAGE, write(file, at, PAGE));
	ASSERT_EQ(PAGE, pread(file, at + PAGE, PAGE, 0));
	EXPECT_EQ(9, at[2 * PAGE - 1]);
	close(file);
	ASSERT_EQ(PAGE, pread(fd, bytes, PAGE, PAGE));
	EXPECT_EQ(9, bytes[0]);
	ASSERT_EQ(0, ftruncate(fd, PAGE));
	EXPECT_TRUE(faults(at + PAGE));
	EXPECT_FALSE(faults(at));
	ASSERT_EQ(0, ftruncate(fd, MIB));
	EXPECT_EQ(0, at[PAGE]);
	EXPECT_EQ(-1, fchmod(fd, 0644));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(-1, fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, PAGE));
	EXPECT_EQ(EOPNOTSUPP, errno);
	/* The mapping holds range and store. */
	close(fd);
	at[0] = 7;
	munmap(moved, MIB / 2);
	munmap(at, MIB);
	fd = range_open(&self->store, root, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(1, pread(fd, bytes, 1, 0));
	EXPECT_EQ(7, bytes[0]);
	close(fd);
}

/* A descriptor that is opened by the path of another one. */
TEST_F_TIMEOUT(pages, opened_by_path, SECONDS)
{
	uint64_t root = 0;
	char path[40], byte;
	int fd, other;

	fd = range_make(&self->store, 0, MIB, 0, &root);
	ASSERT_LE(0, fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, other);
	ASSERT_EQ(1, pwrite(other, "x", 1, PAGE));
	close(other);
	EXPECT_EQ(-EBUSY, range_remove(&self->store, root));
	other = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, other);
	close(fd);
	EXPECT_EQ(-EBUSY, range_remove(&self->store, root));
	ASSERT_EQ(1, pread(other, &byte, 1, PAGE));
	EXPECT_EQ('x', byte);
	close(other);
	fd = range_open(&self->store, root, 0);
	ASSERT_LE(0, fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, O_RDWR | O_TRUNC | O_CLOEXEC);
	ASSERT_LE(0, other);
	EXPECT_EQ(0, lseek(fd, 0, SEEK_END));
	close(other);
	close(fd);
	EXPECT_EQ(0, range_remove(&self->store, root));
	EXPECT_EQ(self->used, handles_used(&self->store));
}

/* ---- Pools ------------------------------------------------------------------ */

static int read_object(const struct store *store, uint64_t handle, void *to, uint32_t room,
		       uint32_t *length)
{
	struct lsmem_op op = {
		.size = sizeof(op), .op = LSMEM_OP_READ, .handle = handle,
		.data = (uintptr_t)to, .length = room,
	};

	if (ioctl(store->fd, LSMEM_IOC_READ, &op))
		return -errno;
	*length = op.object_length;
	return op.table == TABLE ? 0 : -EPROTO;
}

TEST_F_TIMEOUT(pages, pool_objects, SECONDS)
{
	const uint64_t length = 4 * MIB, nr = length / PAGE;
	struct lsmem_page page = { };
	unsigned char *at, bytes[PAGE];
	uint64_t root = 0, i, before, *handles;
	uint32_t n;
	int fd;

	handles = calloc(nr, sizeof(*handles));
	fd = range_make(&self->store, LSMEM_PAGES_POOL, length, 256 * PAGE, &root);
	ASSERT_LE(0, fd);
	at = map(fd, length);
	ASSERT_NE(MAP_FAILED, at);
	EXPECT_TRUE(faults(at));		/* a page without an object */
	EXPECT_EQ(-ENOENT, page_call(fd, LSMEM_PAGE_FIND, &page));
	for (i = 0; i < nr; i++) {
		page = (struct lsmem_page){ .page = i, .length = 1 + i % 200 };
		ASSERT_EQ(0, page_call(fd, LSMEM_PAGE_ALLOC, &page));
		ASSERT_EQ(i, page.page);
		handles[i] = page.handle;
		memset(at + i * PAGE, 1 + i % 255, page.length);
	}
	page = (struct lsmem_page){ .length = 1 };
	EXPECT_EQ(-ENOSPC, page_call(fd, LSMEM_PAGE_ALLOC, &page));
	before = appended(&self->store);
	ASSERT_EQ(0, msync(at, length, MS_SYNC));
	/* Objects of 100 bytes, and not pages, were written. */
	EXPECT_GE(before + nr * 400, appended(&self->store));
	for (i = 0; i < nr; i++) {
		ASSERT_EQ(0, read_object(&self->store, handles[i], bytes, sizeof(bytes), &n));
		ASSERT_EQ(1 + i % 200, n);
		ASSERT_EQ(1 + i % 255, bytes[n - 1]);
	}
	for (i = 0; i < nr; i += 2) {
		page = (struct lsmem_page){ .page = i };
		ASSERT_EQ(0, page_call(fd, LSMEM_PAGE_FREE, &page));
		ASSERT_EQ(handles[i], page.handle);
	}
	EXPECT_TRUE(faults(at));
	EXPECT_EQ(0, read_object(&self->store, handles[0], bytes, sizeof(bytes), &n));
	ASSERT_EQ(0, msync(at, length, MS_SYNC));	/* now they go */
	EXPECT_EQ(-ESTALE, read_object(&self->store, handles[0], bytes, sizeof(bytes), &n));
	ASSERT_EQ(0, munmap(at, length));
	ASSERT_EQ(0, close(fd));

	fd = range_open(&self->store, root, 0);
	ASSERT_LE(0, fd);
	at = map(fd, length);
	ASSERT_NE(MAP_FAILED, at);
	page = (struct lsmem_page){ };
	for (i = 1; i < nr; i += 2, page.page++) {
		ASSERT_EQ(0, page_call(fd, LSMEM_PAGE_NEXT, &page));
		ASSERT_EQ(i, page.page);
		ASSERT_EQ(handles[i], page.handle);
		ASSERT_EQ(1 + i % 200, page.length);
		ASSERT_EQ(1 + i % 255, at[i * PAGE + i % 200]);
		ASSERT_EQ(0, at[i * PAGE + 1 + i % 200]);
	}
	EXPECT_EQ(-ENOENT, page_call(fd, LSMEM_PAGE_NEXT, &page));
	page = (struct lsmem_page){ .length = 10 };
	ASSERT_EQ(0, page_call(fd, LSMEM_PAGE_ALLOC, &page));
	EXPECT_EQ(0, page.page);
	EXPECT_EQ(0, at[0]);
	/* An object that another client frees: its page cannot be written any more. */
	{
		struct lsmem_op op = {
			.size = sizeof(op), .op = LSMEM_OP_FREE, .handle = handles[1],
		};

		at[PAGE] = 77;
		ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_FREE, &op));
		EXPECT_EQ(-1, msync(at, length, MS_SYNC));
		EXPECT_EQ(EIO, errno);
		EXPECT_EQ(0, msync(at, length, MS_SYNC));
	}
	munmap(at, length);
	close(fd);
	ASSERT_EQ(0, range_remove(&self->store, root));
	EXPECT_EQ(self->used, handles_used(&self->store));
	free(handles);
}

/* ---- Refused ---------------------------------------------------------------- */

TEST_F_TIMEOUT(pages, refused, SECONDS)
{
	struct lsmem_op op = {
		.size = sizeof(op), .op = LSMEM_OP_ALLOC, .data = (uintptr_t)"x", .length = 1,
	};
	struct lsmem_page page = { .length = 1 };
	uint64_t root = 0;
	int fd, reader;

	EXPECT_EQ(-ENOENT, range_open(&self->store, 0, 0));
	ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_ALLOC, &op));
	EXPECT_EQ(-EBADMSG, range_open(&self->store, op.handle, 0));
	EXPECT_EQ(-EBADMSG, range_remove(&self->store, op.handle));
	EXPECT_EQ(-EINVAL, range_make(&self->store, 1u << 31, MIB, 0, &root));
	EXPECT_EQ(-EINVAL, range_make(&self->store, 0, (1ull << 44) + 1, 0, &root));
	EXPECT_EQ(-EINVAL, range_make(&self->store, LSMEM_PAGES_REMOVE, MIB, 0, &root));
	fd = range_make(&self->store, 0, MIB, 0, &root);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EOPNOTSUPP, page_call(fd, LSMEM_PAGE_ALLOC, &page));
	EXPECT_EQ(-EINVAL, page_call(fd, 99, &page));
	reader = open(self->store.path, O_RDONLY);
	ASSERT_LE(0, reader);
	{
		struct lsmem_pages pages = { .size = sizeof(pages), .root = root };

		ASSERT_EQ(0, ioctl(reader, LSMEM_IOC_PAGES, &pages));
		EXPECT_EQ(MAP_FAILED, map(pages.fd, MIB));
		EXPECT_EQ(EACCES, errno);
		close(pages.fd);
		pages = (struct lsmem_pages){ .size = sizeof(pages), .flags = LSMEM_PAGES_CREATE };
		EXPECT_EQ(-1, ioctl(reader, LSMEM_IOC_PAGES, &pages));
		EXPECT_EQ(EBADF, errno);
	}
	close(reader);
	EXPECT_EQ(-1, ftruncate(fd, (1ull << 44) + 1));
	EXPECT_EQ(EFBIG, errno);
	close(fd);
}

/* An object that says that it is a root, and is none. */
TEST_F_TIMEOUT(pages, forged_roots, SECONDS)
{
	static const struct lsmem_pages_root roots[] = {
		{ .levels = 0, .top = 1 },
		{ .levels = 1, .top = 0 },
		{ .levels = 5, .top = 1 },
		{ .length = LSMEM_PAGES_LENGTH_MAX + 1 },
		{ .table = LSMEM_TABLES },
		{ .flags = 1u << 20 },
		{ .stage = LSMEM_JOURNAL_MADE },
		{ .journal = 1 },
		{ .stage = LSMEM_JOURNAL_MADE + 1, .journal = 1 },
	};
	unsigned int i;
	int fd;

	for (i = 0; i <= sizeof(roots) / sizeof(*roots); i++) {
		struct lsmem_pages_root root = i ? roots[i - 1] : (struct lsmem_pages_root){ };
		struct lsmem_op op = {
			.size = sizeof(op), .op = LSMEM_OP_ALLOC, .data = (uintptr_t)&root,
			.length = sizeof(root),
		};

		root.magic = LSMEM_PAGES_MAGIC;
		ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_ALLOC, &op));
		fd = range_open(&self->store, op.handle, 0);
		EXPECT_EQ(i ? -EBADMSG : 0, fd < 0 ? fd : 0) {
			TH_LOG("root %u", i);
		}
		if (fd >= 0)
			close(fd);
	}
	{
		/* A root whose top node is the root itself. */
		struct lsmem_pages_root root = {
			.magic = LSMEM_PAGES_MAGIC, .length = MIB, .levels = 4,
		};
		struct lsmem_op op = {
			.size = sizeof(op), .op = LSMEM_OP_ALLOC, .data = (uintptr_t)&root,
			.length = sizeof(root),
		};
		char byte;

		ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_ALLOC, &op));
		root.top = op.handle;
		op.op = LSMEM_OP_REPLACE;
		op.version = 0;
		op.table = 0;
		ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_REPLACE, &op));
		fd = range_open(&self->store, op.handle, 0);
		ASSERT_LE(0, fd);
		EXPECT_EQ(-1, pread(fd, &byte, 1, 0));
		EXPECT_EQ(EIO, errno);
		close(fd);
	}
}

TEST_F_TIMEOUT(pages, far_end, SECONDS)
{
	const off_t end = LSMEM_PAGES_LENGTH_MAX;
	uint64_t root = 0;
	char byte = 1;
	int fd;

	fd = range_make(&self->store, 0, end, 0, &root);
	ASSERT_LE(0, fd);
	ASSERT_EQ(1, pwrite(fd, "y", 1, end - 1));
	ASSERT_EQ(1, pwrite(fd, "x", 1, 0));
	EXPECT_EQ(-1, pwrite(fd, "z", 1, end));
	EXPECT_EQ(EFBIG, errno);
	ASSERT_EQ(0, fsync(fd));
	close(fd);
	fd = range_open(&self->store, root, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(1, pread(fd, &byte, 1, end - 1));
	EXPECT_EQ('y', byte);
	ASSERT_EQ(1, pread(fd, &byte, 1, end / 2));
	EXPECT_EQ(0, byte);
	ASSERT_EQ(0, ftruncate(fd, 1));
	ASSERT_EQ(0, ftruncate(fd, end));
	ASSERT_EQ(1, pread(fd, &byte, 1, end - 1));
	EXPECT_EQ(0, byte);
	close(fd);
	ASSERT_EQ(0, range_remove(&self->store, root));
	EXPECT_EQ(self->used, handles_used(&self->store));
}

/* What is behind the end of a file, in its last page too, does not come back. */
TEST_F_TIMEOUT(pages, end_is_clean, SECONDS)
{
	unsigned char *at, bytes[PAGE];
	uint64_t root = 0;
	int fd, i;

	fd = range_make(&self->store, 0, MIB, 0, &root);
	ASSERT_LE(0, fd);
	at = map(fd, MIB);
	ASSERT_NE(MAP_FAILED, at);
	for (i = 0; i < 3; i++) {
		memset(at, 1, 3 * PAGE);
		ASSERT_EQ(0, msync(at, MIB, MS_SYNC));
		ASSERT_EQ(0, ftruncate(fd, 100));
		memset(at, 2, PAGE);		/* behind the end, too */
		ASSERT_EQ(0, msync(at, PAGE, MS_SYNC));
		switch (i) {		/* three ways to grow */
		case 0:
			ASSERT_EQ(0, ftruncate(fd, MIB));
			break;
		case 1:
			ASSERT_EQ(1, pwrite(fd, "x", 1, MIB - 1));
			break;
		case 2:
			ASSERT_EQ(0, fallocate(fd, 0, 0, MIB));
			break;
		}
		ASSERT_EQ((ssize_t)PAGE, pread(fd, bytes, PAGE, 0));
		EXPECT_EQ(2, bytes[99]);
		EXPECT_EQ(0, bytes[100]);
		EXPECT_EQ(0, bytes[PAGE - 1]);
		EXPECT_EQ(0, at[PAGE]);
		EXPECT_EQ(0, at[2 * PAGE]);
	}
	munmap(at, MIB);
	close(fd);
}

/* Stores of a process that is killed are those of the range, and it can be opened again at once. */
TEST_F_TIMEOUT(pages, killed, SECONDS)
{
	unsigned char *at, byte;
	uint64_t root = 0;
	int fd, ready[2], i;
	pid_t pid;

	fd = range_make(&self->store, 0, 16 * MIB, 0, &root);
	ASSERT_LE(0, fd);
	close(fd);
	for (i = 1; i <= 3; i++) {
		ASSERT_EQ(0, pipe(ready));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			fd = range_open(&self->store, root, 0);
			at = fd < 0 ? MAP_FAILED : map(fd, 16 * MIB);
			if (at == MAP_FAILED)
				_exit(1);
			memset(at, i, 8 * MIB);
			at[16 * MIB - 1] = (unsigned char)i;
			(void)!write(ready[1], "", 1);
			for (;;)
				pause();
		}
		close(ready[1]);
		ASSERT_EQ(1, read(ready[0], &byte, 1));
		close(ready[0]);
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, NULL, 0));
		fd = range_open(&self->store, root, 0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(1, pread(fd, &byte, 1, 16 * MIB - 1));
		EXPECT_EQ(i, byte);
		ASSERT_EQ(1, pread(fd, &byte, 1, 5 * MIB));
		EXPECT_EQ(i, byte);
		close(fd);
	}
}

/* ---- Races ------------------------------------------------------------------ */

struct racers {
	struct store *store;
	uint64_t root;
	int fd;
	unsigned char *at;
	_Atomic bool stop;
	_Atomic unsigned int opened, removed, wrong, looked;
};

static void *race_open(void *context)
{
	struct racers *r = context;
	char byte = 1;

	while (!r->stop) {
		int fd = range_open(r->store, r->root, 0);

		if (fd < 0)
			continue;
		r->opened++;
		(void)!pwrite(fd, &byte, 1, r->opened % 64 * PAGE);
		(void)!pread(fd, &byte, 1, 0);
		close(fd);
	}
	return NULL;
}

static void *race_remove(void *context)
{
	struct racers *r = context;
	struct lsmem_pages pages = {
		.size = sizeof(pages), .flags = LSMEM_PAGES_CREATE, .length = MIB, .table = TABLE,
	};

	while (!r->stop) {
		pages = (struct lsmem_pages){
			.size = sizeof(pages), .flags = LSMEM_PAGES_CREATE, .length = MIB,
		};
		if (ioctl(r->store->fd, LSMEM_IOC_PAGES, &pages)) {
			r->wrong++;
			break;
		}
		r->root = pages.root;
		close(pages.fd);
		while (range_remove(r->store, r->root) == -EBUSY)
			;
		r->removed++;
	}
	return NULL;
}

TEST_F_TIMEOUT(pages, race_of_open_and_remove, SECONDS)
{
	struct racers r = { .store = &self->store };
	pthread_t threads[3];
	unsigned int i;

	ASSERT_EQ(0, pthread_create(&threads[0], NULL, race_remove, &r));
	for (i = 1; i < 3; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, race_open, &r));
	usleep(test_scaled(3000000));
	r.stop = true;
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("# opened %u times, removed %u times\n", r.opened, r.removed);
	EXPECT_EQ(0, r.wrong);
	EXPECT_LT(0, r.removed);
	EXPECT_EQ(self->used, handles_used(&self->store));
}

static void *race_look(void *context)
{
	struct racers *r = context;

	while (!r->stop) {
		r->looked += r->at[0] != 255;
		if (r->looked % 16 == 0)
			madvise(r->at, PAGE, MADV_DONTNEED);
	}
	return NULL;
}

/* Has the page table of this process a page at @at? */
static bool has_page(const unsigned char *at)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry = 1ull << 63;

	(void)!pread(fd, &entry, sizeof(entry), (off_t)((uintptr_t)at / PAGE * sizeof(entry)));
	close(fd);
	return entry >> 63;
}

/*
 * A hole is empty, also while other threads look at it. A process of User-mode Linux can have a page left that was taken
 * from its page table, once in 10,000 holes and more: what it reads there says nothing of the file.
 */
TEST_F_TIMEOUT(pages, race_of_punch_and_fault, SECONDS)
{
	uint64_t end = now_ms() + test_scaled(3000), holes = 0;
	struct racers r = { .store = &self->store };
	pthread_t thread;

	r.fd = range_make(&self->store, 0, MIB, 0, &r.root);
	ASSERT_LE(0, r.fd);
	r.at = map(r.fd, MIB);
	ASSERT_NE(MAP_FAILED, r.at);
	ASSERT_EQ(0, pthread_create(&thread, NULL, race_look, &r));
	while (now_ms() < end) {
		r.at[0] = 7;
		ASSERT_EQ(0, fsync(r.fd));
		ASSERT_EQ(0, fallocate(r.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE));
		r.wrong += r.at[0] != 0 && has_page(r.at);
		holes++;
	}
	r.stop = true;
	pthread_join(thread, NULL);
	printf("# %llu holes, %u looks\n", (unsigned long long)holes, r.looked);
	EXPECT_EQ(0, r.wrong);
	munmap(r.at, MIB);
	close(r.fd);
}

/* A sync of other pages ends while an object is new. */
TEST_F_TIMEOUT(pages, pool_sync_beside_new, SECONDS)
{
	struct lsmem_page page = { .length = 10 };
	unsigned char *at;
	uint64_t root = 0;
	int fd;

	fd = range_make(&self->store, LSMEM_PAGES_POOL, MIB, 0, &root);
	ASSERT_LE(0, fd);
	at = map(fd, MIB);
	ASSERT_NE(MAP_FAILED, at);
	ASSERT_EQ(0, page_call(fd, LSMEM_PAGE_ALLOC, &page));
	ASSERT_EQ(0, msync(at, MIB, MS_SYNC));
	page = (struct lsmem_page){ .page = 9, .length = 10 };
	ASSERT_EQ(0, page_call(fd, LSMEM_PAGE_ALLOC, &page));
	ASSERT_EQ(0, msync(at, PAGE, MS_SYNC));
	munmap(at, MIB);
	close(fd);
}

/* What is freed makes room in a full store, though pages wait to be written. */
TEST_F_TIMEOUT(pages, full_can_free, SECONDS)
{
	const uint64_t length = 256 * MIB;
	unsigned char bytes[64 * PAGE];
	uint64_t root = 0, at;
	int fd;

	memset(bytes, 3, sizeof(bytes));
	fd = range_make(&self->store, 0, length, 32 * MIB, &root);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", 1000));
	for (at = 0; at < length; at += sizeof(bytes)) {
		ASSERT_EQ((ssize_t)sizeof(bytes), pwrite(fd, bytes, sizeof(bytes), at));
		if (at % (8 * MIB) == 0 && fsync(fd))
			break;
	}
	EXPECT_EQ(ENOSPC, errno);
	ASSERT_GT(length, at);
	ASSERT_EQ(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 64 * MIB));
	EXPECT_EQ(0, fsync(fd));
	ASSERT_EQ(1, pread(fd, bytes, 1, at));
	EXPECT_EQ(3, bytes[0]);
	close(fd);
	ASSERT_EQ(0, range_remove(&self->store, root));
	EXPECT_EQ(self->used, handles_used(&self->store));
}

/* A range that could not be written is removed while a thread of the kernel still tries to write it. */
TEST_F_TIMEOUT(pages, remove_unwritten, SECONDS)
{
	unsigned char bytes[64 * PAGE];
	uint64_t full = 0, root = 0, at, i;
	int fd;

	memset(bytes, 3, sizeof(bytes));
	ASSERT_EQ(0, store_set_attribute(&self->store, "limits/stall_ms", 1000));
	fd = range_make(&self->store, 0, 256 * MIB, 32 * MIB, &full);
	ASSERT_LE(0, fd);
	for (at = 0; at < 256 * MIB; at += sizeof(bytes))
		if (pwrite(fd, bytes, sizeof(bytes), at) < 0 || (at % MIB == 0 && fsync(fd)))
			break;
	ASSERT_GT(256 * MIB, at);
	close(fd);
	fd = range_make(&self->store, 0, 256 * MIB, 32 * MIB, &root);
	if (fd == -ENOSPC) {	/* not a byte more: make room for a root */
		struct lsmem_pages pages = { .size = sizeof(pages), .root = full };

		ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_PAGES, &pages));
		ASSERT_EQ(0, fallocate(pages.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				       4 * PAGE));
		(void)!fsync(pages.fd);
		close(pages.fd);
		fd = range_make(&self->store, 0, 256 * MIB, 32 * MIB, &root);
	}
	ASSERT_LE(0, fd);
	for (i = 0; i < 16; i++)	/* in nodes of their own */
		ASSERT_EQ((ssize_t)sizeof(bytes), pwrite(fd, bytes, sizeof(bytes), i * 16 * MIB));
	EXPECT_EQ(-1, fsync(fd));
	EXPECT_EQ(ENOSPC, errno);
	close(fd);
	ASSERT_EQ(0, range_remove(&self->store, root));
	usleep(2500000);		/* two more tries */
	ASSERT_EQ(0, range_remove(&self->store, full));
	EXPECT_EQ(self->used, handles_used(&self->store));
}

/* ---- A durable store -------------------------------------------------------- */

FIXTURE(durable)
{
	struct store store;
	struct follower follower;
};

FIXTURE_SETUP(durable)
{
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 100000, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_start(&self->follower, self->store.name));
}

static int destroy(const struct store *store, uint32_t flags)
{
	struct lsmem_destroy destroy = { .size = sizeof(destroy), .flags = flags };

	memcpy(destroy.name, store->name, sizeof(destroy.name));
	return control_call(LSMEM_CTL_DESTROY, &destroy);
}

FIXTURE_TEARDOWN(durable)
{
	if (self->store.fd < 0)
		return;		/* destroyed */
	follower_stop(&self->follower);
	EXPECT_STREQ("", self->follower.wrong);
	follower_free(&self->follower);
	close(self->store.fd);
	EXPECT_EQ(0, destroy(&self->store, LSMEM_DESTROY_FORCE));
}

/*
 * A process that is killed in msync(), while the daemon sleeps, ends at once, and the store can be
 * destroyed by force although something is left to write.
 */
TEST_F_TIMEOUT(durable, killed_in_msync, SECONDS)
{
	const long long waits = store_attribute(&self->store, "stats/durable_waits");
	uint64_t root = 0, since;
	unsigned char *at;
	pid_t pid;
	int fd;

	fd = range_make(&self->store, LSMEM_PAGES_ATOMIC, 16 * MIB, 0, &root);
	ASSERT_LE(0, fd);
	close(fd);
	follower_sleep(&self->follower, true);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		fd = range_open(&self->store, root, 0);
		at = fd < 0 ? MAP_FAILED : map(fd, 16 * MIB);
		if (at == MAP_FAILED)
			_exit(1);
		memset(at, 1, 4 * MIB);		/* more than a group */
		msync(at, 16 * MIB, MS_SYNC);
		_exit(2);
	}
	while (store_attribute(&self->store, "stats/durable_waits") == waits && !waitpid(pid, NULL, WNOHANG))
		usleep(1000);
	since = now_ms();
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_GT(test_limit(20000), now_ms() - since);
	close(self->store.fd);
	self->store.fd = -1;
	follower_stop(&self->follower);
	follower_free(&self->follower);
	EXPECT_EQ(-EBUSY, destroy(&self->store, 0));
	EXPECT_EQ(0, destroy(&self->store, LSMEM_DESTROY_FORCE));
}

/* Objects that say that they are a journal. A range that has one can be opened and removed, or is refused. */
TEST_F_TIMEOUT(durable, forged_journals, SECONDS)
{
	enum { PAGES = 5 };
	static const struct {
		uint64_t magic;
		uint64_t nr;
		uint32_t length;
		uint32_t stage;
		uint64_t page;
		int error;
	} journals[] = {
		{ LSMEM_JOURNAL_MAGIC, PAGES, 16 + 24 * PAGES, LSMEM_JOURNAL_PREPARED, 3, 0 },
		{ LSMEM_JOURNAL_MAGIC, PAGES, 16 + 24 * PAGES, LSMEM_JOURNAL_MADE, 3, 0 },
		{ LSMEM_JOURNAL_MAGIC, 0, 16, LSMEM_JOURNAL_MADE, 3, 0 },
		{ LSMEM_JOURNAL_MAGIC + 1, PAGES, 16 + 24 * PAGES, LSMEM_JOURNAL_MADE, 3, -EBADMSG },
		{ LSMEM_JOURNAL_MAGIC, PAGES + 1, 16 + 24 * PAGES, LSMEM_JOURNAL_MADE, 3, -EBADMSG },
		{ LSMEM_JOURNAL_MAGIC, PAGES, 16 + 24 * PAGES + 8, LSMEM_JOURNAL_MADE, 3, -EBADMSG },
		{ LSMEM_JOURNAL_MAGIC, 0, 8, LSMEM_JOURNAL_MADE, 3, -EBADMSG },
		{ LSMEM_JOURNAL_MAGIC, 30000, 16 + 24 * 30000, LSMEM_JOURNAL_MADE, 3, -EBADMSG },
		{ LSMEM_JOURNAL_MAGIC, PAGES, 16 + 24 * PAGES, LSMEM_JOURNAL_MADE,
		  LSMEM_PAGES_LENGTH_MAX / PAGE, -EBADMSG },
	};
	struct lsmem_pages_journal *journal = calloc(1, OBJECT_MAX);
	unsigned int i, j;
	int fd;

	ASSERT_TRUE(journal);
	for (i = 0; i < sizeof(journals) / sizeof(*journals); i++) {
		struct lsmem_pages_root root = {
			.magic = LSMEM_PAGES_MAGIC, .length = MIB, .stage = journals[i].stage,
		};
		struct lsmem_op op = {
			.size = sizeof(op), .op = LSMEM_OP_ALLOC, .data = (uintptr_t)journal,
			.length = journals[i].length,
		};
		unsigned char byte;

		memset(journal, 0, OBJECT_MAX);
		journal->magic = journals[i].magic;
		journal->nr = journals[i].nr;
		for (j = 0; j < PAGES; j++) {	/* handles of nothing, of one another, of itself */
			journal->moves[j].page = journals[i].page + j / 2;
			journal->moves[j].new = j ? lsmem_handle_make(j, 1) : 0;
			journal->moves[j].old = j % 2 ? lsmem_handle_make(j + 1, 1) : ~0ull;
		}
		ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_ALLOC, &op));
		root.journal = op.handle;
		op = (struct lsmem_op){
			.size = sizeof(op), .op = LSMEM_OP_ALLOC, .data = (uintptr_t)&root,
			.length = sizeof(root),
		};
		ASSERT_EQ(0, ioctl(self->store.fd, LSMEM_IOC_ALLOC, &op));
		fd = range_open(&self->store, op.handle, 0);
		EXPECT_EQ(journals[i].error, fd < 0 ? fd : 0) {
			TH_LOG("journal %u", i);
		}
		if (fd < 0)
			continue;
		/* What it names may have been anything: no error is wrong. */
		(void)!pread(fd, &byte, 1, (off_t)(3 * PAGE));
		(void)!pwrite(fd, "x", 1, 0);
		(void)!fsync(fd);
		close(fd);
		(void)range_remove(&self->store, op.handle);
	}
	free(journal);
}

TEST_HARNESS_MAIN
