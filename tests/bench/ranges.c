// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges of pages, and what they are measured against: page faults, stores to a mapping, atomic syncs,
 * and how many bytes are written for an object that was changed.
 *
 * The modes fault* touch each page of a mapping once, over and over.  What takes the pages away between
 * two turns is not part of the time.  Each touch must be a fault of the kind that the mode names.
 *
 * Order of the modes changed-*:
 *
 *	change N		change N objects at random, and write them after each BATCH
 *	store			print the name of the store
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../guest/store.h"
#include "bench.h"

#define PAGE	4096u

static struct store store;
static struct lsm *lsm;
static struct lsm_pool *pool;
static struct lsm_array *array;
static uint8_t *at;		/* the mapping */
static uint64_t nr_pages;	/* of it */
static int fd = -1;		/* of the range or file */

/* ---- Mappings ------------------------------------------------------------ */

/* A mapping holds the store. */
static void remove_store(void)
{
	if (at)
		munmap(at, nr_pages * PAGE);
	if (fd >= 0)
		close(fd);
	lsm_pool_close(pool);
	lsm_array_close(array);
	if (store_destroy(&store))
		fprintf(stderr, "bench: %s is left\n", store.name);
}

/* Open the store at -p, or make a volatile one. */
static void open_store(const struct bench *bench)
{
	int ret;

	if (!bench->handles)
		fail("-n NUMBER", EINVAL);
	if (bench->path) {
		ret = lsm_open(bench->path, 0, &lsm);
	} else {
		ret = store_create(&store, bench->bytes, 2 * bench->handles + 1024, 0);
		lsm = store.lsm;
		if (!ret)
			atexit(remove_store);
	}
	if (ret)
		fail("store", -ret);
}

static void map(int flags)
{
	at = mmap(NULL, nr_pages * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (at == MAP_FAILED)
		fail("mmap", errno);
	/* One page for each fault. */
	if (madvise(at, nr_pages * PAGE, MADV_RANDOM))
		fail("madvise", errno);
	memset(at, 0x5a, nr_pages * PAGE);
}

static uint64_t region_root;

/* Of a store that stays: the next bench finds it as this one did. */
static void remove_region(void)
{
	int ret;

	munmap(at, nr_pages * PAGE);
	close(fd);
	ret = lsm_pages_remove(lsm, region_root);
	if (ret)
		fprintf(stderr, "bench: a region is left: %s\n", strerror(-ret));
}

/* A region of -n pages, all of which fit into its page buffer twice. */
static void region_make(struct bench *bench, unsigned int flags)
{
	open_store(bench);
	nr_pages = bench->handles;
	fd = lsm_pages_create(lsm, nr_pages * PAGE, 2 * nr_pages * PAGE, flags, &region_root);
	if (fd < 0)
		fail("range", -fd);
	map(MAP_SHARED);
	if (fsync(fd))
		fail("fsync", errno);
	if (bench->path)
		atexit(remove_region);
}

static void region_setup(struct bench *bench)
{
	region_make(bench, 0);
}

static void atomic_setup(struct bench *bench)
{
	region_make(bench, LSM_PAGES_ATOMIC);
}

/* A file of -n pages, at -p. */
static void file_make(struct bench *bench)
{
	uint8_t *page = get_memory(PAGE, PAGE);
	uint64_t i;

	nr_pages = bench->handles;
	if (!bench->path || !nr_pages)
		fail("-p PATH -n PAGES", EINVAL);
	fd = open(bench->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	for (i = 0; i < nr_pages && fd >= 0; i++)
		if (pwrite(fd, page, PAGE, (off_t)(i * PAGE)) != PAGE)
			fail(bench->path, errno);
	if (fd < 0 || fsync(fd))
		fail(bench->path, errno);
	free(page);
}

static void file_setup(struct bench *bench)
{
	file_make(bench);
	map(MAP_SHARED);
}

/* ---- Faults -------------------------------------------------------------- */

static _Atomic uint64_t nr_signals;

static void on_segv(int number, siginfo_t *info, void *context)
{
	uint8_t *page = (uint8_t *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));

	(void)number;
	(void)context;
	if (page < at || page >= at + nr_pages * PAGE || mprotect(page, PAGE, PROT_READ | PROT_WRITE))
		_exit(1);
	nr_signals++;
}

static void signal_setup(struct bench *bench)
{
	struct sigaction action = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO };

	nr_pages = bench->handles;
	if (!nr_pages)
		fail("-n PAGES", EINVAL);
	map(MAP_PRIVATE | MAP_ANONYMOUS);
	if (sigaction(SIGSEGV, &action, NULL))
		fail("sigaction", errno);
}

/* Touch all pages: in turn, or, with a step that leads to all of them, far from one another. */
static void touch_all(const struct bench *bench)
{
	uint64_t step = bench->random ? 2654435761u : 1, i;

	while (nr_pages % step == 0 && step > 1)
		step += 2;
	for (i = 0; i < nr_pages; i++)
		(void)__atomic_load_n(at + i * step % nr_pages * PAGE, __ATOMIC_RELAXED);
}

static uint64_t all_faults(uint64_t *major)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		fail("getrusage", errno);
	*major = (uint64_t)usage.ru_majflt;
	return (uint64_t)(usage.ru_minflt + usage.ru_majflt);
}

/*
 * @take: takes the pages away.  @major: each touch copies an object; else it finds the page.  A few more
 * faults are those of the program.
 */
static uint64_t fault_rounds(struct worker *worker, void (*take)(void), bool major)
{
	uint64_t operations = 0, begin, before, after, major_before, major_after;

	while (worker_goes_on(worker, operations)) {
		begin = now_ns();
		take();
		worker->begin += now_ns() - begin;
		before = all_faults(&major_before);
		touch_all(worker->bench);
		after = all_faults(&major_after);
		if (after - before < nr_pages || after - before > nr_pages + 64 ||
		    (major_after - major_before == nr_pages) != major) {
			fprintf(stderr, "bench: %" PRIu64 " pages, %" PRIu64 " faults, %" PRIu64 " of them major\n",
				nr_pages, after - before, major_after - major_before);
			fail("faults", ERANGE);
		}
		operations += nr_pages;
	}
	return operations;
}

static void take_mapping(void)
{
	if (madvise(at, nr_pages * PAGE, MADV_DONTNEED))
		fail("madvise", errno);
}

static void take_pages(void)
{
	take_mapping();
	if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		fail("fadvise", errno);
}

/* The object of each page is in memory, the page is not in the page buffer. */
static uint64_t fault_work(struct worker *worker)
{
	return fault_rounds(worker, take_pages, true);
}

/* The page is in the page buffer, or in the page cache. */
static uint64_t kept_work(struct worker *worker)
{
	return fault_rounds(worker, take_mapping, false);
}

/* A handler of signals, which only gives access: it fetches nothing. */
static uint64_t signal_work(struct worker *worker)
{
	uint64_t operations = 0, begin;

	while (worker_goes_on(worker, operations)) {
		begin = now_ns();
		if (mprotect(at, nr_pages * PAGE, PROT_NONE))
			fail("mprotect", errno);
		nr_signals = 0;
		worker->begin += now_ns() - begin;
		touch_all(worker->bench);
		if (nr_signals != nr_pages)
			fail("signals", ERANGE);
		operations += nr_pages;
	}
	return operations;
}

/* ---- Stores -------------------------------------------------------------- */

/* What is not mapped or not dirty faults: after write-back, again. */
static uint64_t stores_work(struct worker *worker)
{
	uint64_t operations = 0, words = nr_pages * PAGE / sizeof(uint64_t);
	uint32_t i;

	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < worker->bench->batch; i++)
			__atomic_store_n((uint64_t *)at + worker_next(worker, words), operations + i,
					 __ATOMIC_RELAXED);
		operations += worker->bench->batch;
	}
	return operations;
}

/* ---- Syncs --------------------------------------------------------------- */

/* @batch pages change and are durable: in a mapping, or by write(), which no page faults for. */
static uint64_t sync_rounds(struct worker *worker, bool mapped)
{
	uint8_t *page = get_memory(PAGE, PAGE);
	uint64_t operations = 0, offset;
	uint32_t i;

	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < worker->bench->batch; i++) {
			memset(page, (int)(operations + i), 64);
			offset = worker_next(worker, nr_pages) * PAGE;
			if (mapped)
				memcpy(at + offset, page, PAGE);
			else if (pwrite(fd, page, PAGE, (off_t)offset) != PAGE)
				fail("write", errno);
		}
		if (mapped ? msync(at, nr_pages * PAGE, MS_SYNC) : fdatasync(fd))
			fail(mapped ? "msync" : "fdatasync", errno);
		operations++;
	}
	free(page);
	return operations;
}

static uint64_t msync_work(struct worker *worker)
{
	return sync_rounds(worker, true);
}

static uint64_t write_work(struct worker *worker)
{
	return sync_rounds(worker, false);
}

/* ---- Objects that were changed ------------------------------------------- */

/* A pool of -n objects of -s bytes; its page buffer has room for a batch of them many times. */
static void pool_setup(struct bench *bench)
{
	uint64_t root, i;
	void *object;
	int ret;

	open_store(bench);
	ret = lsm_pool_create(lsm, bench->handles * PAGE, bench->bytes / 8, 0, &root, &pool);
	for (i = 0; i < bench->handles && !ret; i++) {
		ret = lsm_pool_alloc(pool, bench->size, &object);
		if (!ret)
			memset(object, 0x5a, bench->size);
	}
	ret = ret ?: lsm_pool_sync(pool);
	if (ret)
		fail("pool", -ret);
}

/* The same objects, as many in a page as fit. */
static void array_setup(struct bench *bench)
{
	uint64_t root, i;
	int ret;

	open_store(bench);
	ret = lsm_array_create(lsm, bench->handles, bench->size, bench->bytes / 8, 0, &root, &array);
	if (ret)
		fail("array", -ret);
	for (i = 0; i < bench->handles; i++)
		memset(lsm_array_at(array, i), 0x5a, bench->size);
	ret = lsm_array_sync(array);
	if (ret)
		fail("array", -ret);
}

/* The same in a mapped file. */
static void mapped_setup(struct bench *bench)
{
	uint64_t objects = bench->handles;

	bench->handles = (objects * bench->size + PAGE - 1) / PAGE;
	file_setup(bench);
	bench->handles = objects;
	if (msync(at, nr_pages * PAGE, MS_SYNC))
		fail("msync", errno);
}

static void *changed_object(const struct bench *bench, uint64_t nr)
{
	return pool ? lsm_pool_pointer(pool, nr) :
	       array ? lsm_array_at(array, nr) : at + nr * bench->size;
}

static void changed_sync(void)
{
	int ret = pool ? lsm_pool_sync(pool) :
		  array ? lsm_array_sync(array) : msync(at, nr_pages * PAGE, MS_SYNC) ? -errno : 0;

	if (ret)
		fail("sync", -ret);
}

static bool changed_order(struct bench *bench, const char *verb, const double *arguments,
			  unsigned int nr)
{
	static uint64_t state = 1;
	uint64_t i, changes;

	if (!strcmp(verb, "store") && !bench->path) {
		printf("{\"store\": \"%s\"}\n", store.name);
		return true;
	}
	if (strcmp(verb, "change") || nr != 1)
		return false;
	changes = (uint64_t)arguments[0];
	for (i = 1; i <= changes; i++) {
		__atomic_store_n((uint64_t *)changed_object(bench, random_below(&state, bench->handles)), i,
				 __ATOMIC_RELAXED);
		if (i % bench->batch == 0 || i == changes)
			changed_sync();
	}
	printf("{\"changes\": %" PRIu64 "}\n", changes);
	return true;
}

const struct mode range_modes[] = {
	{ "fault", region_setup, fault_work, NULL, false },
	{ "fault-kept", region_setup, kept_work, NULL, false },
	{ "fault-file", file_setup, kept_work, NULL, false },
	{ "fault-signal", signal_setup, signal_work, NULL, false },
	{ "stores", region_setup, stores_work, NULL, false },
	{ "stores-file", file_setup, stores_work, NULL, false },
	{ "msync", atomic_setup, msync_work, NULL, false },
	{ "msync-write", atomic_setup, write_work, NULL, false },
	{ "write-sync", file_make, write_work, NULL, false },
	{ "changed-pool", pool_setup, NULL, changed_order, false },
	{ "changed-array", array_setup, NULL, changed_order, false },
	{ "changed-file", mapped_setup, NULL, changed_order, false },
	{ 0 }
};
