// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: ranges of pages, without a kernel: a range is a file in memory.  What is asked for, where
 * elements are, what is refused; no descriptor and no range is left after an error.  The calls on a
 * pool's objects need the module: tests/guest/pools.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"
#include "../common/tap.h"

#define PAGE	4096u
#define ROOT	77u

/* The range that exists, and the last call. */
static struct lsmem_pages asked;
static uint64_t length;
static uint32_t kind;
static int ranges, last_fd, refuse;

static int call(struct lsm *lsm, unsigned long request, void *argument)
{
	struct lsmem_pages *pages = argument;

	(void)lsm;
	asked = *pages;
	if (request != LSMEM_IOC_PAGES || pages->size != sizeof(*pages))
		return -ENOTTY;
	if (refuse)
		return refuse;
	if (pages->flags & LSMEM_PAGES_REMOVE) {
		ranges--;
		return 0;
	}
	if (pages->flags & LSMEM_PAGES_CREATE) {
		ranges++;
		length = pages->length;
		kind = pages->flags & (LSMEM_PAGES_POOL | LSMEM_PAGES_ATOMIC);
	}
	pages->root = ROOT;
	pages->length = length;
	pages->flags = kind;
	last_fd = memfd_create("range", MFD_CLOEXEC);
	if (last_fd < 0 || ftruncate(last_fd, (off_t)length))
		return -errno;
	pages->fd = last_fd;
	return 0;
}

static bool fd_open(void)
{
	return fcntl(last_fd, F_GETFD) >= 0;
}

static void test_asked(struct lsm *lsm)
{
	uint64_t root = 0;
	int fd;

	fd = lsm_pages_create(lsm, 12345, 678, LSM_PAGES_POOL | LSM_PAGES_ATOMIC | LSM_TABLE(4095), &root);
	tap_ok(fd == last_fd && root == ROOT, "create");
	tap_ok(asked.flags == (LSMEM_PAGES_CREATE | LSMEM_PAGES_POOL | LSMEM_PAGES_ATOMIC) &&
	       asked.length == 12345 && asked.buffer == 678 && asked.table == 4095 && !asked.root &&
	       !asked.fd, "create: arguments");
	close(fd);
	fd = lsm_pages_open(lsm, ROOT, 910);
	tap_ok(fd == last_fd && !asked.flags && asked.root == ROOT && asked.buffer == 910 &&
	       !asked.length && !asked.table, "open");
	close(fd);
	tap_ok(!lsm_pages_remove(lsm, ROOT) && asked.flags == LSMEM_PAGES_REMOVE && asked.root == ROOT,
	       "remove");
	refuse = -EMFILE;
	root = 0;
	tap_ok(lsm_pages_create(lsm, 1, 0, 0, &root) == -EMFILE && !root, "create is refused");
	tap_is(lsm_pages_open(lsm, ROOT, 0), -EMFILE, "open is refused");
	tap_is(lsm_pages_remove(lsm, ROOT), -EMFILE, "remove is refused");
	refuse = 0;
	for (unsigned int flag = 0; flag < 16; flag++)
		if (1u << flag != LSM_PAGES_POOL && 1u << flag != LSM_PAGES_ATOMIC)
			tap_is(lsm_pages_create(lsm, 1, 0, 1u << flag, &root), -EINVAL,
			       "create: flag %u is not known", flag);
	tap_is(ranges, 0, "no range is left");
}

static bool array_right(struct lsm *lsm, uint64_t nr, size_t size)
{
	struct lsm_array *array = NULL;
	uint64_t root, i, j, pages = (nr + PAGE / size - 1) / (PAGE / size);
	uint8_t *at, *before = NULL;
	int round;

	CHECK(!lsm_array_create(lsm, nr, size, 0, 0, &root, &array));
	CHECK(length > (pages - 1) * PAGE && length <= pages * PAGE);
	for (round = 0; round < 2; round++) {
		CHECK(lsm_array_nr(array) == nr);
		CHECK(!lsm_array_at(array, nr));
		CHECK(!lsm_array_at(array, UINT64_MAX));
		for (i = 0; i < nr; i++) {
			at = lsm_array_at(array, i);
			CHECK(!i || at >= before + size);
			CHECK((uintptr_t)at / PAGE == (uintptr_t)(at + size - 1) / PAGE);
			before = at;
			memset(at, (int)i, size);
		}
		at = lsm_array_at(array, 0);
		CHECK(before + size <= at + length);
		for (i = 0; i < nr; i++)
			for (j = 0, at = lsm_array_at(array, i); j < size; j++)
				CHECK(at[j] == (uint8_t)i);
		CHECK(!lsm_array_sync(array));
		lsm_array_close(array);
		CHECK(!fd_open());
		CHECK(!lsm_array_open(lsm, root, size, 0, &array));
	}
	lsm_array_close(array);
	CHECK(!lsm_pages_remove(lsm, root));
	return true;
}

static void test_array(struct lsm *lsm)
{
	struct lsm_array *array = NULL;
	struct lsm_pool *pool = NULL;
	uint64_t root = 0;
	size_t size;
	bool right = true;

	for (size = 1; size <= PAGE; size++) {
		right = right && array_right(lsm, 1, size) && array_right(lsm, PAGE / size, size) &&
			array_right(lsm, PAGE / size + 1, size) && array_right(lsm, 2 * (PAGE / size) + 1, size);
	}
	tap_ok(right, "elements of 1 to 4096 bytes");
	memset(&asked, 0, sizeof(asked));
	tap_is(lsm_array_create(lsm, 0, 1, 0, 0, &root, &array), -EINVAL, "no elements");
	tap_is(lsm_array_create(lsm, 1, 0, 0, 0, &root, &array), -EINVAL, "elements of no bytes");
	tap_is(lsm_array_create(lsm, 1, 4097, 0, 0, &root, &array), -EINVAL, "elements of 4097 bytes");
	tap_is(lsm_array_create(lsm, 1ull << 32, 4096, 0, 0, &root, &array), -EINVAL, "one element too many");
	tap_is(lsm_array_create(lsm, UINT64_MAX, 1, 0, 0, &root, &array), -EINVAL, "far too many elements");
	tap_is(lsm_array_create(lsm, 1, 1, 0, LSM_PAGES_POOL, &root, &array), -EINVAL, "an array in a pool");
	tap_is(lsm_array_open(lsm, ROOT, 0, 0, &array), -EINVAL, "open: elements of no bytes");
	tap_is(lsm_array_open(lsm, ROOT, 4097, 0, &array), -EINVAL, "open: elements of 4097 bytes");
	tap_ok(!asked.size && !array, "the kernel is not asked");
	tap_is(lsm_array_create(lsm, 10, 10, 0, LSM_PAGES_ATOMIC, &root, &array), 0, "an array");
	tap_is(kind, LSMEM_PAGES_ATOMIC, "which is atomic");
	tap_is(lsm_pool_open(lsm, root, 0, &pool), -EOPNOTSUPP, "is no pool");
	tap_ok(!fd_open() && !pool, "and is closed");
	lsm_array_close(array);
	lsm_array_close(NULL);
	tap_is(lsm_pages_remove(lsm, root), 0, "remove");
	tap_is(ranges, 0, "no range is left");
}

static void test_pool(struct lsm *lsm)
{
	struct lsm_array *array = NULL;
	struct lsm_pool *pool = NULL;
	uint64_t root = 0;
	void *object;
	uint8_t *at;

	tap_is(lsm_pool_create(lsm, 0, 0, 0, &root, &pool), -EINVAL, "a pool of no bytes cannot be mapped");
	tap_ok(!ranges && !root && !pool && !fd_open(), "its range is removed");
	tap_is(lsm_pool_create(lsm, 2 * PAGE + 1, 0, 0, &root, &pool), 0, "a pool");
	tap_is(kind, LSMEM_PAGES_POOL, "its range is one");
	at = lsm_pool_pointer(pool, 0);
	tap_ok(lsm_pool_pointer(pool, 2) == at + 2 * PAGE, "its last page");
	tap_ok(!lsm_pool_pointer(pool, 3) && !lsm_pool_pointer(pool, UINT64_MAX), "no page behind the last");
	tap_is(lsm_pool_page(pool, at), 0, "the first byte");
	tap_is(lsm_pool_page(pool, at + PAGE - 1), 0, "the last byte of the first page");
	tap_is(lsm_pool_page(pool, at + PAGE), 1, "the next page");
	tap_is(lsm_pool_page(pool, at - 1), -EINVAL, "an address below the pool");
	tap_is(lsm_pool_page(pool, at + 3 * PAGE), -EINVAL, "an address behind the pool");
	tap_is(lsm_pool_page(pool, NULL), -EINVAL, "no address");
	object = at - 1;
	tap_is(lsm_pool_next(pool, &object), -EINVAL, "next of an address that is not in the pool");
	tap_is(lsm_pool_free(pool, object), -EINVAL, "free of it");
	tap_is(lsm_pool_length(pool, object), -EINVAL, "length of it");
	tap_is(lsm_pool_handle(pool, object, &root), -EINVAL, "handle of it");
	tap_is(lsm_pool_alloc(pool, (1ull << 32) + 1, &object), -EINVAL, "a length of more than 32 bits");
	tap_is(lsm_array_open(lsm, root, 8, 0, &array), -EOPNOTSUPP, "a pool is no array");
	tap_ok(!fd_open() && !array, "and is closed");
	lsm_pool_close(pool);
	lsm_pool_close(NULL);
	tap_is(lsm_pages_remove(lsm, root), 0, "remove");
	tap_is(ranges, 0, "no range is left");
}

int main(void)
{
	struct fake *fake = fake_new();

	fake->lsm->call = call;
	test_asked(fake->lsm);
	test_array(fake->lsm);
	test_pool(fake->lsm);
	fake_delete(fake);
	return tap_end();
}
