// SPDX-License-Identifier: GPL-2.0
/*
 * Regions against copies of them in memory, as fsx does with files: random reads, writes, loads, stores,
 * lengths, holes, write-backs, pages that are dropped, mappings that move, copies between regions,
 * reopenings.  Offsets and lengths are often at or next to the borders of pages, of nodes and of the file.
 * Several regions, plain and atomic, with page buffers that hold a fraction of them.
 *
 * What fails, prints the last steps.  The seed fixes the steps, but in "parallel" not how they interleave.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "store.h"

#define PAGE		4096ull
#define NODE		(512 * PAGE)	/* bytes below one node of the tree */
#define MOST		(2 * NODE + 77 * PAGE + 1234)	/* most bytes of a region */
#define SPAN		((MOST / PAGE + 1) * PAGE)	/* all of it, as a mapping */
#define BYTES_MOST	(300 * PAGE)	/* of a step: more than a group has room for */
#define SECONDS		240	/* time limit of a test; sufficient under emulation */
#define STEPS		8000
#define COMPARE		1000	/* steps between two comparisons of all bytes */
#define REGIONS		4u
#define THREADS		3u
#define LAST		40u	/* steps that are printed */
#define TABLE		7u

/**
 * struct region - a region and its copy
 * @root: its handle
 * @fd: descriptor
 * @at: where bytes from @first on are mapped
 * @first: a multiple of PAGE
 * @span: of the mapping, the same
 * @copy: its MOST bytes; zeroes behind @length
 * @length: bytes
 * @stained: something was stored behind the end, in its page
 */
struct region {
	uint64_t root;
	int fd;
	unsigned char *at;
	uint64_t first;
	uint64_t span;
	unsigned char *copy;
	uint64_t length;
	bool stained;
};

/* A step, for who looks for what went wrong. */
struct past {
	uint64_t step;
	unsigned int region;
	const char *name;
	uint64_t from;
	uint64_t n;
	uint64_t length;
};

/* One task, its regions and its random numbers. */
struct task {
	struct store *store;
	uint64_t state;
	uint64_t step;
	unsigned int nr;
	struct region regions[REGIONS];
	struct past past[LAST];
	unsigned char bytes[BYTES_MOST];
	bool good;
};

struct step {
	const char *name;
	unsigned int weight;
	bool (*run)(struct task *task, struct region *r, uint64_t from, uint64_t n);
};

static uint64_t below(struct task *task, uint64_t n)
{
	return random_below(&task->state, n);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- Offsets ----------------------------------------------------------------- */

/* An offset in [0, MOST]. */
static uint64_t some_offset(struct task *task, const struct region *r)
{
	static const int64_t beside[] = { -(int64_t)PAGE, -1, 0, 0, 1, PAGE };
	int64_t at;

	switch (below(task, 6)) {
	case 0:
		at = (int64_t)(below(task, MOST / NODE + 1) * NODE);
		break;
	case 1:
		at = (int64_t)r->length;
		break;
	case 2:
	case 3:
		at = (int64_t)(below(task, MOST / PAGE + 1) * PAGE);
		break;
	default:
		return below(task, MOST);
	}
	at += beside[below(task, sizeof(beside) / sizeof(*beside))];
	return at < 0 ? 0 : least((uint64_t)at, MOST);
}

static uint64_t some_bytes(struct task *task)
{
	switch (below(task, 16)) {
	case 0:
		return 1 + below(task, BYTES_MOST);
	case 1 ... 4:
		return PAGE * (1 + below(task, 4));
	case 5 ... 8:
		return 1 + below(task, 3 * PAGE);
	default:
		return 1 + below(task, PAGE);
	}
}

/* Cut [@from, @from + @n) to what is mapped and in the file. Returns false if that is nothing. */
static bool mapped(const struct region *r, uint64_t *from, uint64_t *n)
{
	uint64_t end = least(least(*from + *n, r->first + r->span), r->length);

	if (*from < r->first)
		*from = r->first;
	if (*from >= end)
		return false;
	*n = end - *from;
	return true;
}

static unsigned char *address(const struct region *r, uint64_t from)
{
	return r->at + (from - r->first);
}

/* The file is @length bytes long now. */
static void lengthened(struct region *r, uint64_t length)
{
	if (length < r->length)
		memset(r->copy + length, 0, r->length - length);
	if ((length + PAGE - 1) / PAGE != (r->length + PAGE - 1) / PAGE || length % PAGE == 0)
		r->stained = false;
	r->length = length;
}

static bool equal(const unsigned char *is, const unsigned char *should, uint64_t from, uint64_t n)
{
	uint64_t i;

	if (!memcmp(is, should, n))
		return true;
	for (i = 0; is[i] == should[i]; i++)
		;
	printf("# byte %llu: %u, not %u\n", (unsigned long long)(from + i), is[i], should[i]);
	return false;
}

/* ---- Steps ------------------------------------------------------------------- */

static bool step_read(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	uint64_t there = from < r->length ? least(n, r->length - from) : 0;

	return pread(r->fd, task->bytes, n, from) == (ssize_t)there &&
	       equal(task->bytes, r->copy + from, from, there);
}

static bool step_write(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	n = least(n, MOST - from);
	if (!n)
		return true;
	content_fill(task->bytes, n, r->root, task->step);
	memcpy(r->copy + from, task->bytes, n);
	if (from + n > r->length)
		lengthened(r, from + n);
	return pwrite(r->fd, task->bytes, n, from) == (ssize_t)n;
}

static bool step_load(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	static const unsigned char zeroes[PAGE];
	uint64_t rest;

	(void)task;
	if (!mapped(r, &from, &n))
		return true;
	if (!equal(address(r, from), r->copy + from, from, n))
		return false;
	rest = -r->length % PAGE;
	return from + n < r->length || r->stained ||
	       equal(address(r, r->length), zeroes, r->length, rest);
}

static bool step_store(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	if (!mapped(r, &from, &n))
		return true;
	content_fill(task->bytes, n, r->root, task->step);
	memcpy(r->copy + from, task->bytes, n);
	memcpy(address(r, from), task->bytes, n);
	return true;
}

/* Pages of zeroes have no object. */
static bool step_store_zeroes(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	(void)task;
	if (!mapped(r, &from, &n))
		return true;
	memset(r->copy + from, 0, n);
	memset(address(r, from), 0, n);
	return true;
}

/* Behind the end, which must not be seen when the file grows. */
static bool step_stain(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	(void)task;
	(void)from;
	(void)n;
	if (r->length % PAGE == 0 || r->length < r->first || r->length >= r->first + r->span)
		return true;
	r->stained = true;
	memset(address(r, r->length), 0xee, -r->length % PAGE);
	return true;
}

/* Between two regions, or within one, with a mapping as the buffer of the call. */
static bool step_copy(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	struct region *other = &task->regions[below(task, task->nr)];
	uint64_t to = some_offset(task, other);

	if (!mapped(r, &from, &n))
		return true;
	if (below(task, 2)) {
		n = least(n, MOST - to);
		if (!n || (r == other && to < from + n && from < to + n))
			return true;
		memcpy(other->copy + to, r->copy + from, n);
		if (to + n > other->length)
			lengthened(other, to + n);
		return pwrite(other->fd, address(r, from), n, to) == (ssize_t)n;
	}
	if (to >= other->length)
		return true;
	n = least(n, other->length - to);
	if (r == other && to < from + n && from < to + n)
		return true;
	memcpy(r->copy + from, other->copy + to, n);
	return pread(other->fd, address(r, from), n, to) == (ssize_t)n;
}

static bool step_length(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	(void)n;
	if (from < r->length / 2 && below(task, 2))
		return true;	/* or regions would be short most of the time */
	if (ftruncate(r->fd, from))
		return false;
	lengthened(r, from);
	return true;
}

static bool step_allocate(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	bool keep = below(task, 2);

	n = least(n, MOST - from);
	if (!n)
		return true;
	if (fallocate(r->fd, keep ? FALLOC_FL_KEEP_SIZE : 0, from, n))
		return false;
	if (!keep && from + n > r->length)
		lengthened(r, from + n);
	return true;
}

static bool step_hole(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	(void)task;
	if (from < r->length)
		memset(r->copy + from, 0, least(n, r->length - from));
	return !fallocate(r->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, n);
}

/* madvise() of whole pages. */
static bool advise(struct region *r, uint64_t from, uint64_t n, int advice)
{
	if (!mapped(r, &from, &n))
		return true;
	n += from % PAGE;
	from -= from % PAGE;
	if (advice == MADV_REMOVE) {
		uint64_t whole = (n + PAGE - 1) / PAGE * PAGE;

		memset(r->copy + from, 0, least(whole, r->length - from));
	}
	return !madvise(address(r, from), n, advice);
}

static bool step_advise(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	static const int advices[] = {
		MADV_REMOVE, MADV_DONTNEED, MADV_DONTNEED, MADV_WILLNEED, MADV_COLD, MADV_PAGEOUT,
	};
	static const int all[] = { MADV_SEQUENTIAL, MADV_RANDOM, MADV_NORMAL };

	if (!below(task, 3))	/* of a part they would split the mapping, and mremap() fail */
		return !madvise(r->at, r->span, all[below(task, sizeof(all) / sizeof(*all))]);
	return advise(r, from, n, advices[below(task, sizeof(advices) / sizeof(*advices))]);
}

static bool step_msync(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	(void)task;
	if (!mapped(r, &from, &n))
		return true;
	n += from % PAGE;
	return !msync(address(r, from - from % PAGE), n, MS_SYNC);
}

static bool step_fsync(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	switch (below(task, 4)) {
	case 0:
		return !fsync(r->fd);
	case 1:
		return !fdatasync(r->fd);
	case 2:
		return !msync(r->at, r->span, MS_SYNC);
	default:
		return !sync_file_range(r->fd, from, n, SYNC_FILE_RANGE_WRITE |
					SYNC_FILE_RANGE_WAIT_AFTER);
	}
}

/* Pages that no mapping uses leave. */
static bool step_drop(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	unsigned int way = below(task, 32);
	int fd, ret;

	if (way < 30)
		return advise(r, from, n, MADV_DONTNEED) &&
		       !posix_fadvise(r->fd, from, n, POSIX_FADV_DONTNEED);
	if (way == 30) {
		sync();
		return true;
	}
	fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ret = write(fd, "1", 1);
	close(fd);
	return ret == 1;
}

/* Map @span bytes from @first on. */
static bool map(struct region *r, uint64_t first, uint64_t span)
{
	r->first = first;
	r->span = span;
	r->at = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, first);
	return r->at != MAP_FAILED;
}

static bool step_remap(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	uint64_t first = from / PAGE * PAGE, span = (1 + below(task, SPAN / PAGE)) * PAGE;
	unsigned char *at;

	(void)n;
	switch (below(task, 4)) {
	case 0:		/* a part, from a page on */
		return !munmap(r->at, r->span) && map(r, first, span);
	case 1:		/* all */
		return !munmap(r->at, r->span) && map(r, 0, SPAN);
	default:	/* shorter or longer, and perhaps elsewhere */
		at = mremap(r->at, r->span, span, MREMAP_MAYMOVE);
		if (at == MAP_FAILED)
			return false;
		r->at = at;
		r->span = span;
		return true;
	}
}

static bool step_reopen(struct task *task, struct region *r, uint64_t from, uint64_t n)
{
	uint64_t buffer = PAGE << (6 + below(task, 5));

	(void)from;
	(void)n;
	if (munmap(r->at, r->span) || close(r->fd))
		return false;
	r->fd = lsm_pages_open(task->store->lsm, r->root, buffer);
	r->stained = false;
	return r->fd >= 0 && map(r, 0, SPAN);
}

static const struct step steps[] = {
	{ "read", 12, step_read },
	{ "write", 16, step_write },
	{ "load", 12, step_load },
	{ "store", 20, step_store },
	{ "store zeroes", 3, step_store_zeroes },
	{ "stain", 3, step_stain },
	{ "copy", 8, step_copy },
	{ "length", 4, step_length },
	{ "allocate", 2, step_allocate },
	{ "hole", 5, step_hole },
	{ "advise", 6, step_advise },
	{ "msync", 4, step_msync },
	{ "fsync", 2, step_fsync },
	{ "drop", 6, step_drop },
	{ "remap", 4, step_remap },
	{ "reopen", 1, step_reopen },
};

/* ---- Tasks ------------------------------------------------------------------- */

static void print_past(const struct task *task)
{
	uint64_t i = task->step < LAST ? 0 : task->step - LAST;

	for (; i < task->step; i++) {
		const struct past *p = &task->past[i % LAST];

		printf("# %llu: region %u of %llu bytes: %s, from %llu, %llu bytes\n",
		       (unsigned long long)p->step, p->region, (unsigned long long)p->length,
		       p->name, (unsigned long long)p->from, (unsigned long long)p->n);
	}
}

static bool one_step(struct task *task)
{
	unsigned int region = below(task, task->nr), weights = 0, i, draw;
	struct region *r = &task->regions[region];
	uint64_t from = some_offset(task, r), n = some_bytes(task);

	for (i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		weights += steps[i].weight;
	draw = below(task, weights);
	for (i = 0; draw >= steps[i].weight; i++)
		draw -= steps[i].weight;
	task->past[task->step % LAST] = (struct past){
		task->step, region, steps[i].name, from, n, r->length,
	};
	task->step++;
	errno = 0;
	return steps[i].run(task, r, from, n);
}

/* Is all of a region as it should be, in turn by read() and through the mapping? */
static bool same(struct task *task, struct region *r)
{
	uint64_t i;

	for (i = 0; i < MOST; i += PAGE)
		if (!(i / PAGE % 2 ? step_load : step_read)(task, r, i, PAGE))
			return false;
	return lseek(r->fd, 0, SEEK_END) == (off_t)r->length;
}

static bool all_same(struct task *task)
{
	unsigned int i;

	for (i = 0; i < task->nr; i++)
		if (!same(task, &task->regions[i])) {
			printf("# region %u differs\n", i);
			return false;
		}
	return true;
}

static bool begin(struct task *task, unsigned int i, bool atomic)
{
	struct region *r = &task->regions[i];

	r->length = some_offset(task, r);
	r->copy = calloc(1, MOST);
	r->fd = lsm_pages_create(task->store->lsm, r->length, 64 * PAGE,
				 LSM_TABLE(TABLE) | (atomic ? LSM_PAGES_ATOMIC : 0), &r->root);
	return r->copy && r->fd >= 0 && map(r, 0, SPAN);
}

static bool end(struct task *task, unsigned int i)
{
	struct region *r = &task->regions[i];
	bool good = step_reopen(task, r, 0, 0) && same(task, r);

	free(r->copy);
	return !munmap(r->at, r->span) && !close(r->fd) &&
	       !lsm_pages_remove(task->store->lsm, r->root) && good;
}

/* All of a task.  Bit i of @atomic: of region i. */
static bool run(struct task *task, unsigned int nr, unsigned int atomic)
{
	uint64_t todo = test_scaled(STEPS);
	unsigned int i;
	bool good = true;

	for (task->nr = 0; good && task->nr < nr; task->nr++)
		good = begin(task, task->nr, atomic & 1u << task->nr);
	while (good && task->step < todo)
		good = one_step(task) && (task->step % COMPARE || all_same(task));
	if (!good) {
		printf("# error %d in step %llu\n", errno, (unsigned long long)task->step);
		print_past(task);
	}
	for (i = 0; i < task->nr; i++)
		good = end(task, i) && good;
	return good;
}

FIXTURE(regions)
{
	struct store store;
	struct task *tasks;
	uint64_t used;		/* handles of the empty store */
};

static uint64_t handles_used(struct lsm *lsm)
{
	struct lsmem_stat stat;

	return lsm_stat(lsm, &stat) ? UINT64_MAX : stat.handles_used;
}

FIXTURE_SETUP(regions)
{
	unsigned int i;

	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 100000, 0));
	self->used = handles_used(self->store.lsm);
	self->tasks = calloc(THREADS, sizeof(*self->tasks));
	ASSERT_NE(NULL, self->tasks);
	for (i = 0; i < THREADS; i++) {
		self->tasks[i].store = &self->store;
		self->tasks[i].state = test_seed + i;
	}
}

FIXTURE_TEARDOWN(regions)
{
	EXPECT_EQ(self->used, handles_used(self->store.lsm));
	/* Fails if something still holds the store. */
	EXPECT_EQ(0, store_destroy(&self->store));
	free(self->tasks);
}

TEST_F_TIMEOUT(regions, plain, SECONDS)
{
	EXPECT_TRUE(run(&self->tasks[0], 3, 0));
}

TEST_F_TIMEOUT(regions, atomic, SECONDS)
{
	EXPECT_TRUE(run(&self->tasks[0], 3, 7));
}

TEST_F_TIMEOUT(regions, mixed, SECONDS)
{
	EXPECT_TRUE(run(&self->tasks[0], 4, 5));
}

/*
 * User-mode Linux 7.2 loses what a process stores to a page of a file while another processor cleans the
 * page: flush_tlb_page() only notes that the mapping is to be changed when the process next enters the
 * kernel.  Files of ext4 lose stores, too.
 */
static bool kernel_loses_stores(void)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[256];
	bool uml = false;

	while (file && fgets(line, sizeof(line), file))
		uml = uml || strstr(line, "User Mode Linux");
	if (file)
		fclose(file);
	return uml && sysconf(_SC_NPROCESSORS_ONLN) > 1;
}

static void *thread(void *context)
{
	struct task *task = context;

	task->good = run(task, 2, 2);
	return NULL;
}

TEST_F_TIMEOUT(regions, parallel, SECONDS)
{
	pthread_t threads[THREADS];
	unsigned int i;

	if (kernel_loses_stores())
		SKIP(return, "User-mode Linux with several processors loses stores");
	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, thread, &self->tasks[i]));
	for (i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
		EXPECT_TRUE(self->tasks[i].good) {
			TH_LOG("thread %u", i);
		}
	}
}

/* A byte, a length and a byte behind the end that the copy does not have are noticed. */
TEST_F_TIMEOUT(regions, differences, SECONDS)
{
	struct task *task = &self->tasks[0];
	struct region *r = &task->regions[0];

	ASSERT_TRUE(begin(task, 0, false));
	ASSERT_EQ(0, ftruncate(r->fd, MOST));
	lengthened(r, MOST);
	ASSERT_TRUE(step_write(task, r, PAGE - 1, 2 * PAGE));
	EXPECT_TRUE(same(task, r));
	r->at[3 * PAGE - 2]++;
	EXPECT_FALSE(same(task, r));
	r->at[3 * PAGE - 2]--;
	EXPECT_TRUE(same(task, r));
	r->at[MOST] = 1;
	EXPECT_FALSE(step_load(task, r, MOST - 1, 1));
	r->at[MOST] = 0;
	EXPECT_TRUE(same(task, r));
	ASSERT_EQ(0, ftruncate(r->fd, MOST - 1));
	EXPECT_FALSE(same(task, r));
	ASSERT_EQ(0, ftruncate(r->fd, MOST));
	EXPECT_TRUE(end(task, 0));
}

TEST_HARNESS_MAIN
