// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * lsm_async_open(), lsm_scan_open() and lsm_scan(), of which one call of the C library or the kernel fails, the first
 * one, then the second, and so on (tests/common/nth.h): each time they say so, or do all of their work.  What they had
 * opened is closed; that nothing leaks ASan sees.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "../common/nth.h"
#include "../common/tap.h"

#define OBJECTS	40u
#define MOST	100u	/* calls of a function */

static struct fake *fake;
static uint64_t handles[OBJECTS];

static const char *const functions[] = {
	"malloc", "calloc", "aligned_alloc", "mmap64", "pthread_create", "io_uring_setup",
};

static int (*other_calls)(struct lsm *lsm, unsigned long request, void *argument);

/* What a plan is chosen by */
static int call(struct lsm *lsm, unsigned long request, void *argument)
{
	int ret = other_calls(lsm, request, argument);

	if (request == LSMEM_IOC_QUERY) {
		((struct lsmem_query *)argument)->features = LSMEM_FEATURE_WINDOWS;
	} else if (request == LSMEM_IOC_STAT) {
		((struct lsmem_stat *)argument)->handles_used = OBJECTS;
		((struct lsmem_stat *)argument)->live_bytes = 200 * OBJECTS;
	}
	return ret;
}

static unsigned int count_files(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned int nr = 0;

	if (!directory)
		abort();
	while (readdir(directory))
		nr++;
	closedir(directory);
	return nr;
}

/* Carries it out with each call of each function failing in turn.  @least: so many of them make it return an error. */
static bool sweep(int (*run)(void), unsigned int least)
{
	unsigned int i, nth, errors = 0, files = count_files();
	bool hit;
	int ret;

	ret = run();
	if (ret)
		tap_note("without a failure: %d", ret);
	CHECK(!ret);
	for (i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		for (nth = 1, hit = true; hit; nth++) {
			nth_set(functions[i], nth);
			ret = run();
			hit = nth_hit();
			nth_set(NULL, 0);
			if ((ret && !hit) || (ret && ret != -ENOMEM && ret != -EAGAIN) || count_files() != files)
				tap_note("%s, call %u: %d, %u files, not %u", functions[i], nth, ret, count_files(), files);
			CHECK(!ret || hit);
			CHECK(!ret || ret == -ENOMEM || ret == -EAGAIN);
			CHECK(count_files() == files);
			CHECK(nth < MOST);
			errors += !!ret;
		}
	}
	tap_note("%u errors", errors);
	CHECK(errors >= least);
	return true;
}

static int async_run(void)
{
	struct lsm_async *async = NULL;
	int ret = lsm_async_open(fake->lsm, 4, &async);

	if (ret && async)
		return -EFAULT;
	lsm_async_close(async);
	return ret;
}

/* Return: 0: all rows were there, once. */
static int judge(uint64_t seen)
{
	return seen == (1ull << OBJECTS) - 1 ? 0 : -EILSEQ;
}

static int add(uint64_t *seen, const struct lsm_row *rows, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++) {
		uint64_t bit = 1ull << lsmem_handle_index(rows[i].handle);

		if (*seen & bit || !fake_bytes_right(rows[i].data, rows[i].handle, rows[i].version, 0, rows[i].length))
			return -EBADMSG;
		*seen |= bit;
	}
	return 0;
}

static int cursor_run(const struct lsm_scan *scan)
{
	struct lsm_cursor *cursor = NULL;
	const struct lsm_row *rows;
	uint64_t seen = 0;
	ssize_t nr = 0;
	int ret = lsm_scan_open(fake->lsm, scan, &cursor);

	if (ret)
		return cursor ? -EFAULT : ret;
	while (!ret && (nr = lsm_scan_next(cursor, &rows)) > 0)
		ret = add(&seen, rows, (size_t)nr);
	lsm_scan_close(cursor, NULL);
	if (nr < 0)
		ret = (int)nr;
	return ret ? ret : judge(seen);
}

static int cursor_table(void)
{
	const struct lsm_scan scan = { .plan = LSM_PLAN_TABLE };

	return cursor_run(&scan);
}

static int cursor_sorted(void)
{
	const struct lsm_scan scan = { .plan = LSM_PLAN_SORTED, .handles = handles, .nr_handles = OBJECTS };

	return cursor_run(&scan);
}

static int cursor_list(void)
{
	const struct lsm_scan scan = { .plan = LSM_PLAN_TABLE, .handles = handles, .nr_handles = OBJECTS };

	return cursor_run(&scan);
}

static int look(void *context, unsigned int thread, const struct lsm_row *rows, size_t nr)
{
	uint64_t seen = 0, *all = context;
	int ret = add(&seen, rows, nr);

	(void)thread;
	if (!ret && __atomic_fetch_or(all, seen, __ATOMIC_RELAXED) & seen)
		ret = -EBADMSG;
	return ret;
}

static int threads_run(void)
{
	uint64_t seen = 0;
	const struct lsm_scan scan = { .plan = LSM_PLAN_TABLE, .threads = 4, .batch = look, .context = &seen };
	int ret = lsm_scan(fake->lsm, &scan, NULL);

	return ret ? ret : judge(seen);
}

int main(void)
{
	uint32_t i;

	fake = fake_new();
	other_calls = fake->lsm->call;
	fake->lsm->call = call;
	for (i = 0; i < OBJECTS; i++) {
		if (!fake_put(fake, i, 1, i + 1, 100 + i, 8 * i))
			abort();
		handles[i] = fake_handle(fake, i);
	}
	if (async_run() == -EOPNOTSUPP)
		tap_ok(true, "lsm_async_open() # SKIP no io_uring");
	else
		tap_ok(sweep(async_run, 4), "lsm_async_open()");
	tap_ok(sweep(cursor_table, 4), "lsm_scan_open(), in the order of the table");
	tap_ok(sweep(cursor_sorted, 5), "lsm_scan_open(), a list that is sorted");
	tap_ok(sweep(cursor_list, 7), "lsm_scan_open(), a list in the order of the table");
	tap_ok(sweep(threads_run, 2), "lsm_scan(), which needs no thread but its own");
	fake_delete(fake);
	return tap_end();
}
