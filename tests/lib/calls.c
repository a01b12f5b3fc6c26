// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* liblsmem: its ioctls and their results, the check of the info page, fork, lsm_open(). */
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake.h"
#include "../common/tap.h"

static void test_info(void)
{
	struct fake *fake = fake_new();
	struct lsmem_info good = fake->info, bad;

	tap_is(lsm_check_info(&good), 0, "a good info page");
	bad = good;
	bad.abi = 99;
	tap_is(lsm_check_info(&bad), 0, "a newer page that is compatible");
	bad = good;
	bad.handles.length = 1ull << 40;
	bad.nr_handles = LSMEM_INDEX_END;
	tap_is(lsm_check_info(&bad), 0, "as many handles as there can be");
	bad.nr_handles++;
	tap_is(lsm_check_info(&bad), -EPROTO, "and one more");
#define REFUSED(field, value) do {						\
	bad = good;								\
	bad.field = (value);							\
	tap_is(lsm_check_info(&bad), -EPROTO, "info page refused: " #field " = " #value); \
} while (0)
	REFUSED(magic, good.magic ^ 1);
	REFUSED(abi, LSMEM_ABI - 1);
	REFUSED(compat, LSMEM_ABI + 1);
	REFUSED(length, offsetof(struct lsmem_info, touched) - 1);
	REFUSED(kind, LSMEM_KIND_BLOCK);
	REFUSED(nr_seglets, 0);
	REFUSED(nr_seglets, good.nr_seglets + 1);
	REFUSED(nr_seglets, (1ull << 24) + 1);
	REFUSED(nr_seglets, ~0ull);
	REFUSED(nr_handles, 0);
	REFUSED(nr_handles, good.nr_handles + 1);
	REFUSED(nr_handles, 1ull << 60);
	REFUSED(nr_slots, good.nr_slots + 1);
	REFUSED(nr_slots, ~0u);
	REFUSED(seglets.length, good.seglets.length - 1);
	REFUSED(seglet_table.length, good.seglet_table.length - 1);
	REFUSED(handles.length, 0);
	REFUSED(slots.length, 64);
	REFUSED(touched.length, 1);
	REFUSED(livemap.length, 1);
	fake_delete(fake);
}

static void test_operations(void)
{
	struct fake *fake = fake_new();
	uint64_t handle = 0, version = 0;

	tap_is(lsm_alloc(fake->lsm, "x", 1, LSM_DURABLE | LSM_TABLE(4095), &handle, &version), 0,
	       "alloc");
	tap_ok(handle >> 32 == 4095 && (uint32_t)handle == LSMEM_OPF_DURABLE,
	    "alloc: flags and table are told apart");
	tap_is(version, 1, "alloc: version comes out");
	fake->refuse = -ETIMEDOUT;
	handle = 0;
	tap_is(lsm_alloc(fake->lsm, "x", 1, LSM_TABLE(3), &handle, NULL), -ETIMEDOUT,
	       "alloc: a time-out");
	tap_is(handle >> 32, 3, "alloc: a time-out gives the handle");
	fake->refuse = -ENOSPC;
	handle = 77;
	tap_is(lsm_alloc(fake->lsm, "x", 1, 0, &handle, &version), -ENOSPC, "alloc: refused");
	tap_ok(handle == 77 && version == 1, "alloc: refused, nothing written");
	tap_is(lsm_alloc(fake->lsm, "x", 1ull << 32, 0, &handle, NULL), -EINVAL,
	       "alloc: a length that does not fit");

	fake->refuse = 0;
	version = 41;
	tap_is(lsm_replace(fake->lsm, 1, "x", 1, LSM_EXPECT, &version), 0, "replace");
	tap_is(version, 42, "replace: the version went in and came out");
	version = 41;
	tap_is(lsm_replace(fake->lsm, 1, "x", 1, 0, &version), 0, "replace, none expected");
	tap_is(version, 1, "replace: without LSM_EXPECT no version goes in");
	tap_is(lsm_replace(fake->lsm, 1, "x", 1, LSM_EXPECT, NULL), -EINVAL,
	       "replace: LSM_EXPECT wants a version");
	fake->refuse = -EILSEQ;
	version = 9;
	tap_is(lsm_free(fake->lsm, 1, LSM_EXPECT, &version), -EILSEQ, "free: another version");
	tap_is(version, 10, "free: which one");
	fake->refuse = -ESTALE;
	tap_is(lsm_free(fake->lsm, 1, 0, &version), -ESTALE, "free: stale");
	tap_is(version, 10, "free: stale, nothing written");
	fake_delete(fake);
}

static void test_vector(void)
{
	struct lsmem_op ops[20];
	uint8_t bytes[20][100];
	struct fake *fake = fake_new();
	bool right = true;
	size_t done = 0;
	uint32_t i;

	for (i = 0; i < 20; i++) {
		fake_put(fake, i, 1, i + 1, 100, 8 * i);
		ops[i] = lsm_op_read(fake_handle(fake, i), bytes[i], 100, 0);
	}
	fake_free(fake, 7);
	tap_is(lsm_vector(fake->lsm, ops, 20, 0, &done), 0, "vector of 20");
	tap_is(done, 20, "vector: all are tried");
	tap_is(atomic_load(&fake->calls), 3, "vector: 8 in a call");
	tap_is(ops[7].result, -ESTALE, "vector: a failed one has its result");
	for (i = 0; i < 20; i++)
		right = right && (i == 7 || (!ops[i].result &&
			fake_bytes_right(bytes[i], ops[i].handle, i + 1, 0, 100)));
	tap_ok(right, "vector: the others have their own");
	fake->vector_stop = 3;
	tap_is(lsm_vector(fake->lsm, ops, 20, 0, &done), -EINTR, "vector, interrupted");
	tap_is(done, 3, "vector: how many were tried");
	fake->refuse = -EFAULT;
	tap_is(lsm_vector(fake->lsm, ops, 20, 0, &done), -EFAULT, "vector, refused whole");
	tap_is(done, 0, "vector: none was tried");
	tap_is(lsm_vector(fake->lsm, ops, 0, 0, NULL), 0, "vector of none");
	fake_delete(fake);
}

/* Structures of another version of the header than that of the library. */
static void test_sizes(void)
{
	struct {
		struct lsmem_op op;
		uint64_t more;
	} ops[20];
	uint8_t bytes[20][100], room[LSMEM_STAT_SIZE_VER0 + 64];
	struct fake *fake = fake_new();
	struct lsm_object object;
	struct lsm_view view;
	bool right = true;
	uint32_t i;
	size_t size;
	int way;

	for (i = 0; i < 20; i++)
		fake_put(fake, i, 1, i + 1, 100, 8 * i);
	fake_free(fake, 7);
	for (way = 0; way < 2; way++) {
		for (i = 0; i < 20; i++) {
			ops[i].op = lsm_op_read(fake_handle(fake, i), bytes[i], 100, 0);
			ops[i].op.size = sizeof(ops[i]);
			ops[i].more = i;
		}
		memset(bytes, 0, sizeof(bytes));
		if (way)
			tap_is(lsm_vector(fake->lsm, &ops[0].op, 20, 0, NULL), 0, "a vector of larger operations");
		else
			lsm_read_many(fake->lsm, &ops[0].op, 20);
		for (i = 0; i < 20; i++)
			right = right && ops[i].more == i && ops[i].op.size == sizeof(ops[i]) &&
				(i == 7 ? ops[i].op.result == -ESTALE :
					  !ops[i].op.result && fake_bytes_right(bytes[i], ops[i].op.handle, i + 1, 0, 100));
		tap_ok(right, "larger operations: each has its result, and what is behind it stays");
	}

	for (size = LSMEM_QUERY_SIZE_VER0; size <= LSMEM_QUERY_SIZE_VER0 + 16; size += 8) {
		memset(room, 0x55, sizeof(room));
		tap_is(lsm_query_sized(fake->lsm, (void *)room, size), 0, "a query of %zu bytes", size);
		tap_ok(room[size - 1] == 0xff && room[size] == 0x55, "it has %zu bytes", size);
		tap_is(((struct lsmem_query *)room)->size, size, "of which the kernel is told");
	}
	for (size = LSMEM_STAT_SIZE_VER0; size <= LSMEM_STAT_SIZE_VER0 + 16; size += 8) {
		memset(room, 0x55, sizeof(room));
		tap_is(lsm_stat_sized(fake->lsm, (void *)room, size), 0, "counters of %zu bytes", size);
		tap_ok(room[size - 1] == 0xff && room[size] == 0x55, "they have %zu bytes", size);
	}
	tap_is(lsm_query_sized(fake->lsm, (void *)room, LSMEM_QUERY_SIZE_VER0 - 1), -EINVAL, "too small a query");
	tap_is(lsm_stat_sized(fake->lsm, (void *)room, LSMEM_STAT_SIZE_VER0 - 1), -EINVAL, "too few counters");

	for (i = 0; i < 3; i++) {	/* quickly, not so quickly, by system call */
		if (i == 2)
			fake_set_word(fake, 1, LSMEM_WORD_BUSY, 0);
		memset(&object, 0xff, sizeof(object));
		tap_is(lsm_read(fake->lsm, fake_handle(fake, 1), bytes[0], 100, i == 1, &object), i == 1 ? 99 : 100,
		       "read %u", i);
		tap_ok(object.length == 100 && !object.reserved[0] && !object.reserved[1], "reserved members are 0");
	}
	memset(&view, 0xff, sizeof(view));
	tap_is(lsm_view_begin(fake->lsm, fake_handle(fake, 2), &view), 0, "a view");
	tap_ok(!view.reserved[0] && !view.reserved[1] && !view.object.reserved[0] && !view.object.reserved[1],
	       "reserved members are 0");
	lsm_view_end(fake->lsm, &view);
	fake_delete(fake);
}

static int in_child(struct fake *fake, uint64_t handle, struct lsm_view *parents)
{
	struct lsm_view view;
	uint8_t bytes[64];

	if (lsm_read(fake->lsm, handle, bytes, sizeof(bytes), 0, NULL) != 64)
		return 1;
	if (atomic_load(&fake->calls) != 1)
		return 2;
	if (lsm_view_begin(fake->lsm, handle, &view) != -ECHILD)
		return 3;
	if (lsm_view_end(fake->lsm, parents) != -ECHILD)
		return 4;
	lsm_close(fake->lsm);
	return 0;
}

static void test_fork(void)
{
	struct fake *fake = fake_new();
	struct lsm_view view;
	uint64_t handle;
	uint8_t bytes[64];
	int status = -1;
	pid_t child;

	fake_put(fake, 3, 1, 1, 64, 0);
	handle = fake_handle(fake, 3);
	tap_is(lsm_view_begin(fake->lsm, handle, &view), 0, "a view before fork");
	fflush(stdout);
	child = fork();
	if (!child)
		_exit(in_child(fake, handle, &view));
	waitpid(child, &status, 0);
	tap_ok(WIFEXITED(status) && !WEXITSTATUS(status),
	    "fork: the child reads by system call, has no views, and can close (status %#x)",
	    status);
	tap_is(lsm_read(fake->lsm, handle, bytes, 64, 0, NULL), 64, "fork: the parent reads on");
	tap_is(atomic_load(&fake->calls), 0, "fork: without a system call");
	tap_is(lsm_view_end(fake->lsm, &view), 0, "fork: the parent's view ends well");
	fake_delete(fake);
}

static void test_open(void)
{
	struct lsm *lsm = NULL;

	tap_is(lsm_open("/nonexistent/lsmem", 0, &lsm), -ENOENT, "open: no such device");
	tap_is(lsm_open("/dev/null", 0, &lsm), -ENOTTY, "open: not a store");
	tap_is(lsm_open("/dev/null", 1u << 31, &lsm), -EINVAL, "open: unknown flag");
	tap_ok(!lsm, "open: nothing given out");
	lsm_close(NULL);
}

int main(void)
{
	test_info();
	test_operations();
	test_vector();
	test_sizes();
	test_fork();
	test_open();
	return tap_end();
}
