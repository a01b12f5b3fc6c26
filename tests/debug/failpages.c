// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges of pages, with each allocation and each copy from or to user memory made to fail in turn: see
 * failnth.c.  After an error the range is as before the call, or, of a write, as after a part of it; the
 * same call without a failure succeeds, and in the end a range that is removed leaves nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "failnth.h"
#include "follower.h"
#include "store.h"

#define SECONDS		600	/* time limit of a test */
#define PAGE		4096ull
#define LENGTH		(64 * PAGE)
#define WHOLE		600ull	/* pages that are written by a journal */

FIXTURE(pages)
{
	struct store store;
	uint64_t used;
};

static uint64_t used(const struct store *store)
{
	struct lsmem_stat stat = { .size = sizeof(stat) };

	return ioctl(store->fd, LSMEM_IOC_STAT, &stat) ? UINT64_MAX : stat.handles_used;
}

FIXTURE_SETUP(pages)
{
	const char *why = fail_setup();

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 10000, 0));
	self->used = used(&self->store);
}

FIXTURE_TEARDOWN(pages)
{
	if (self->store.name[0])
		EXPECT_EQ(0, store_destroy(&self->store));
}

static int range(const struct store *store, uint32_t flags, uint64_t *root)
{
	struct lsmem_pages pages = {
		.size = sizeof(pages), .flags = flags, .root = *root,
		.length = flags & LSMEM_PAGES_CREATE ? LENGTH : 0,
	};
	int ret = call(store->fd, LSMEM_IOC_PAGES, &pages);

	if (ret)
		return ret;
	*root = pages.root;
	return flags & LSMEM_PAGES_REMOVE ? 0 : pages.fd;
}

static int page(int fd, uint32_t op, uint64_t at, uint32_t length)
{
	struct lsmem_page page = { .size = sizeof(page), .op = op, .page = at, .length = length };

	return call(fd, LSMEM_IOC_PAGE, &page);
}

/* The next descriptor that is given out. */
static int next_fd(const struct store *store)
{
	int fd = dup(store->fd);

	close(fd);
	return fd;
}

/* After EFAULT the descriptor @next may be open although its number was not returned. */
static void close_range_fd(int ret, int next)
{
	if (ret >= 0)
		close(ret);
	else if (ret == -EFAULT)
		close(next);
}

static int result(long long ret)
{
	return ret < 0 ? -errno : 0;
}

TEST_F_TIMEOUT(pages, create_and_open, SECONDS)
{
	struct failing last = { 0 };
	uint64_t root;
	int ret;

	FOR_EACH_FAILURE(f) {
		int next = next_fd(&self->store);

		root = 0;
		INJECT(f, ret = range(&self->store, LSMEM_PAGES_CREATE, &root));
		JUDGE(f, ret < 0 ? ret : 0);
		close_range_fd(ret, next);
	}
	JUDGE_ALL(1);
	FOR_EACH_FAILURE(f) {
		int next = next_fd(&self->store);

		INJECT(f, ret = range(&self->store, 0, &root));
		JUDGE(f, ret < 0 ? ret : 0);
		close_range_fd(ret, next);
	}
	JUDGE_ALL(1);
	FOR_EACH_FAILURE(f) {
		INJECT(f, ret = range(&self->store, LSMEM_PAGES_REMOVE, &root));
		JUDGE(f, ret);
		if (!ret)
			break;
	}
	EXPECT_GT(0, range(&self->store, 0, &root));
}

/* Write, write back, forget what is in memory, read: with failures in @which of these. */
TEST_F_TIMEOUT(pages, region, SECONDS)
{
	unsigned char bytes[2 * PAGE], back[2 * PAGE];
	enum { WRITE, SYNC, OPEN, READ, PUNCH, RESIZE, STEPS } which;
	struct failing last = { 0 };
	unsigned int i, errors = 0;
	uint64_t root = 0;
	int fd, next, ret;

	fd = range(&self->store, LSMEM_PAGES_CREATE, &root);
	ASSERT_LE(0, fd);
	for (which = 0; which < STEPS; which++) {
		FOR_EACH_FAILURE(f) {
			const uint64_t at = f.nth % 32 * PAGE + 100;
			int rets[STEPS] = { 0 };

			memset(bytes, 1 + (f.nth + which) % 255, sizeof(bytes));
#define STEP(step, statement) do {						\
	if (which == (step)) {							\
		INJECT(f, rets[step] = (statement));				\
		JUDGE(f, rets[step]);						\
	}									\
	if (which != (step) || rets[step])					\
		ASSERT_EQ(0, (statement)) TH_LOG("step %d, failure %u of step %d: %s", step,	\
						 f.nth, which, strerror(errno));	\
} while (0)
			STEP(WRITE, result(pwrite(fd, bytes, sizeof(bytes), at) ==
					   (ssize_t)sizeof(bytes) ? 0 :
					   (errno = errno ?: EIO, -1)));
			STEP(SYNC, result(fsync(fd)));
			close(fd);
			errno = 0;
			next = next_fd(&self->store);
			STEP(OPEN, (ret = range(&self->store, 0, &root)) < 0 ?
				   (ret == -EFAULT ? close(next), ret : ret) : (fd = ret, 0));
			STEP(READ, result(pread(fd, back, sizeof(back), at) ==
					  (ssize_t)sizeof(back) ? 0 : (errno = errno ?: EIO, -1)));
			ASSERT_EQ(0, memcmp(bytes, back, sizeof(back)));
			STEP(PUNCH, result(fallocate(fd, FALLOC_FL_PUNCH_HOLE |
						     FALLOC_FL_KEEP_SIZE, at, sizeof(bytes))));
			STEP(RESIZE, result(ftruncate(fd, LENGTH - f.nth % 3 * PAGE)));
			ASSERT_EQ((ssize_t)sizeof(back), pread(fd, back, sizeof(back), at));
			for (i = 0; i < sizeof(back); i++)
				ASSERT_EQ(0, back[i]);
		}
		JUDGE_ALL(0);	/* in some steps one allocation counts, which may be absorbed */
		errors += last.errors;
	}
	EXPECT_LT(0, errors);
	close(fd);
	ASSERT_EQ(0, range(&self->store, LSMEM_PAGES_REMOVE, &root));
	EXPECT_EQ(self->used, used(&self->store));
}

TEST_F_TIMEOUT(pages, pool, SECONDS)
{
	struct failing last = { 0 };
	uint64_t root = 0;
	int fd, ret;

	fd = range(&self->store, LSMEM_PAGES_CREATE | LSMEM_PAGES_POOL, &root);
	ASSERT_LE(0, fd);
	FOR_EACH_FAILURE(f) {
		INJECT(f, ret = page(fd, LSMEM_PAGE_ALLOC, 0, 100));
		JUDGE(f, ret);
		ASSERT_TRUE(ret || !page(fd, LSMEM_PAGE_FIND, 0, 0));
		if (ret && ret != -EFAULT) {
			ASSERT_EQ(-ENOENT, page(fd, LSMEM_PAGE_FIND, 0, 0));
		} else {
			ret = page(fd, LSMEM_PAGE_FREE, 0, 0) && !ret;
			ASSERT_EQ(0, ret);
		}
	}
	JUDGE_ALL(1);
	ASSERT_EQ(0, page(fd, LSMEM_PAGE_ALLOC, 1, 100));
	ASSERT_EQ(0, fsync(fd));
	FOR_EACH_FAILURE(f) {
		INJECT(f, ret = page(fd, LSMEM_PAGE_FREE, 1, 0));
		JUDGE(f, ret);
		if (!ret || ret == -EFAULT) {
			ASSERT_EQ(0, fsync(fd));
			page(fd, LSMEM_PAGE_ALLOC, 1, 100);
			ASSERT_EQ(0, fsync(fd));
		}
	}
	close(fd);
	ASSERT_EQ(0, range(&self->store, LSMEM_PAGES_REMOVE, &root));
	EXPECT_EQ(self->used, used(&self->store));
}

/* What only looks at a pool changes nothing. */
TEST_F_TIMEOUT(pages, look, SECONDS)
{
	struct failing last = { 0 };
	uint64_t root = 0;
	int fd, ret;

	fd = range(&self->store, LSMEM_PAGES_CREATE | LSMEM_PAGES_POOL, &root);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, page(fd, LSMEM_PAGE_ALLOC, 5, 100));
	ASSERT_EQ(0, fsync(fd));
	close(fd);
	FOR_EACH_FAILURE(f) {
		/* Nodes are read anew. */
		fd = range(&self->store, 0, &root);
		ASSERT_LE(0, fd);
		INJECT(f, ret = page(fd, f.nth % 2 ? LSMEM_PAGE_FIND : LSMEM_PAGE_NEXT, 5, 0));
		JUDGE(f, ret);
		ASSERT_EQ(0, page(fd, LSMEM_PAGE_FIND, 5, 0));
		ASSERT_EQ(0, page(fd, LSMEM_PAGE_NEXT, 0, 0));
		close(fd);
	}
	JUDGE_ALL(1);
	EXPECT_EQ(0, range(&self->store, LSMEM_PAGES_REMOVE, &root));
	EXPECT_EQ(self->used, used(&self->store));
}

/* Map, fault, store, write back; the faults are those of madvise(), which can return an error. */
TEST_F_TIMEOUT(pages, mapping, SECONDS)
{
	enum { MAP, FAULT, STORE, SYNC, STEPS };
	const uint64_t length = 8 * PAGE;
	struct failing last = { 0 };
	unsigned int errors = 0;
	uint64_t root = 0, i;
	unsigned char *at;
	int fd, which, ret;

	fd = range(&self->store, LSMEM_PAGES_CREATE, &root);
	ASSERT_LE(0, fd);
	for (which = 0; which < STEPS; which++) {
		FOR_EACH_FAILURE(f) {
			const unsigned char byte = (unsigned char)(1 + (f.nth + (unsigned int)which) % 255);

			if (which == MAP)
				INJECT(f, at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
				       ret = result(at == MAP_FAILED ? -1 : 0));
			if (which == MAP)
				JUDGE(f, ret);
			if (which != MAP || ret)
				at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			ASSERT_NE(MAP_FAILED, at);
			if (which == FAULT || which == STORE) {
				INJECT(f, ret = result(madvise(at, length, which == FAULT ?
							       MADV_POPULATE_READ : MADV_POPULATE_WRITE)));
				JUDGE(f, ret);
			}
			memset(at, byte, length);
			if (which == SYNC) {
				INJECT(f, ret = result(msync(at, length, MS_SYNC)));
				JUDGE(f, ret);
			}
			if (which != SYNC || ret)
				ASSERT_EQ(0, msync(at, length, MS_SYNC));
			munmap(at, length);
			close(fd);	/* the pages leave the buffer */
			fd = range(&self->store, 0, &root);
			ASSERT_LE(0, fd);
			for (i = 0; i < length; i += PAGE / 2) {
				unsigned char got = 0;

				ASSERT_EQ(1, pread(fd, &got, 1, (off_t)i));
				ASSERT_EQ(byte, got);
			}
			close(fd);
			fd = range(&self->store, 0, &root);
			ASSERT_LE(0, fd);
		}
		JUDGE_ALL(0);	/* as above */
		errors += last.errors;
	}
	EXPECT_LT(0, errors);
	close(fd);
	ASSERT_EQ(0, range(&self->store, LSMEM_PAGES_REMOVE, &root));
	EXPECT_EQ(self->used, used(&self->store));
}

/* ---- A durable store ----------------------------------------------------- */

FIXTURE(durable)
{
	struct store store;
	struct follower follower;
	uint64_t used;
};

FIXTURE_SETUP(durable)
{
	const char *why = fail_setup();

	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 10000, LSMEM_STORE_DURABLE));
	ASSERT_EQ(0, follower_start(&self->follower, self->store.name));
	self->used = used(&self->store);
}

FIXTURE_TEARDOWN(durable)
{
	struct lsmem_sync sync = { .size = sizeof(sync) };

	if (!self->store.name[0])
		return;
	EXPECT_EQ(0, call(self->store.fd, LSMEM_IOC_SYNC, &sync));
	follower_stop(&self->follower);
	EXPECT_STREQ("", self->follower.wrong);
	follower_free(&self->follower);
	EXPECT_EQ(0, store_destroy(&self->store));
}

/* Pages of which every other one is changed, some become holes, and one is freed, with each failure. */
TEST_F_TIMEOUT(durable, journal, SECONDS)
{
	struct lsmem_pages make = {
		.size = sizeof(make), .flags = LSMEM_PAGES_CREATE | LSMEM_PAGES_ATOMIC,
		.length = 2 * WHOLE * PAGE, .buffer = 16 * MIB,
	};
	unsigned char (*bytes)[PAGE] = calloc(2 * WHOLE, PAGE), back[PAGE];
	struct failing last = { 0 };
	uint64_t root, i;
	int fd, ret;

	ASSERT_TRUE(bytes);
	ASSERT_EQ(0, call(self->store.fd, LSMEM_IOC_PAGES, &make));
	fd = make.fd;
	root = make.root;
	FOR_EACH_FAILURE(f) {
		for (i = f.nth % 2; i < 2 * WHOLE; i += 2) {
			memset(bytes[i], i % 7 ? (int)(f.nth + i) % 256 : 0, PAGE);
			ASSERT_EQ((ssize_t)PAGE, pwrite(fd, bytes[i], PAGE, (off_t)(i * PAGE)));
		}
		i = (f.nth + 1) % (2 * WHOLE);
		memset(bytes[i], 0, PAGE);
		ASSERT_EQ(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				       (off_t)(i * PAGE), PAGE));
		INJECT(f, ret = result(fsync(fd)));
		JUDGE(f, ret);
		if (ret)
			ASSERT_EQ(0, fsync(fd)) TH_LOG("failure %u: %s", f.nth, strerror(errno));
		close(fd);
		fd = range(&self->store, 0, &root);
		ASSERT_LE(0, fd);
		for (i = 0; i < 2 * WHOLE; i++) {
			ASSERT_EQ((ssize_t)PAGE, pread(fd, back, PAGE, (off_t)(i * PAGE)));
			ASSERT_EQ(0, memcmp(bytes[i], back, PAGE)) TH_LOG("failure %u, page %d",
									 f.nth, (int)i);
		}
	}
	JUDGE_ALL(1);
	close(fd);
	ASSERT_EQ(0, range(&self->store, LSMEM_PAGES_REMOVE, &root));
	EXPECT_EQ(self->used, used(&self->store));
	free(bytes);
}

TEST_HARNESS_MAIN
