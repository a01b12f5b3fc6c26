// SPDX-License-Identifier: GPL-2.0
/*
 * lsmem: replacements with vector calls, volatile and durable, and reads from the mapping, in place
 * and by ioctl.
 *
 * Orders of the modes that replace:
 *
 *	objects N		allocate up to N objects
 *	overwrite BYTES SECONDS	replace until so much is written or time is up
 *	latency N RATE		replace N times, RATE times a second (0: as often as
 *				possible), and measure the time of each
 *	store			print the name of the store
 *	updates			of mixed-durable, for one worker: print how many objects were replaced so far
 */
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include <lsmem/lsmem_format.h>

#include "../guest/store.h"
#include "bench.h"
#include "../common/zipf.h"

static struct store store;
static struct lsm *lsm;
static uint64_t *handles;
static uint64_t nr_handles;
static uint8_t *source;
static uint64_t updates;		/* by mixed() */

static void vector(struct lsmem_op *ops, uint32_t nr, unsigned int flags)
{
	int ret = lsm_vector(lsm, ops, nr, flags, NULL);
	uint32_t i;

	for (i = 0; i < nr && !ret; i++)
		ret = ops[i].result;
	if (ret)
		fail("vector call", -ret);
}

static void prepare(struct lsmem_op *ops, const struct bench *bench, uint32_t what)
{
	uint32_t i;

	memset(ops, 0, sizeof(*ops) * bench->batch);
	for (i = 0; i < bench->batch; i++) {
		ops[i].size = sizeof(*ops);
		ops[i].op = what;
		ops[i].data = (uintptr_t)(source + (size_t)(i % BENCH_SOURCES) * bench->size);
		ops[i].length = bench->size;
	}
}

/* Allocate objects up to the number @objects, in random order: frequent ones are anywhere. */
static void grow(const struct bench *bench, uint64_t objects)
{
	struct lsmem_op *ops = get_memory(sizeof(*ops) * bench->batch, 64);
	uint64_t state = 1, i, other, handle;
	uint32_t nr;

	if (!objects)
		return;
	handles = realloc(handles, objects * sizeof(*handles));
	if (!handles)
		fail("handles", ENOMEM);
	while (nr_handles < objects) {
		nr = objects - nr_handles < bench->batch ? (uint32_t)(objects - nr_handles) :
		     bench->batch;
		prepare(ops, bench, LSMEM_OP_ALLOC);
		vector(ops, nr, 0);
		for (i = 0; i < nr; i++)
			handles[nr_handles++] = ops[i].handle;
	}
	free(ops);
	if (!bench->zipf)
		return;
	zipf_setup_skewed(nr_handles, bench->skew);
	for (i = nr_handles - 1; i; i--) {
		other = random_below(&state, i + 1);
		handle = handles[i];
		handles[i] = handles[other];
		handles[other] = handle;
	}
}

static uint32_t entry_bytes(const struct bench *bench)
{
	return lsmem_entry_size(bench->size);
}

/* Allocate objects up to the wanted live share of the store. */
static void fill(const struct bench *bench)
{
	struct lsmem_query query;
	int ret = lsm_query(lsm, &query);

	if (ret)
		fail("query", -ret);
	source = get_memory((uint64_t)bench->size * BENCH_SOURCES, 64);
	grow(bench, bench->path && bench->handles ? bench->handles :
		    query.capacity / 1000 * bench->live / entry_bytes(bench));
}

static uint64_t next_handle(struct worker *worker)
{
	return handles[worker->bench->zipf ? zipf_next(&worker->state) :
					     worker_next(worker, nr_handles)];
}

static void destroy(void)
{
	store_destroy(&store);
}

static void objects_setup(struct bench *bench)
{
	int ret;

	if (bench->path) {
		ret = lsm_open(bench->path, 0, &lsm);
		if (ret)
			fail(bench->path, -ret);
	} else {
		ret = store_create(&store, bench->bytes,
				   bench->handles ?: bench->bytes / entry_bytes(bench), 0);
		if (ret)
			fail("store", -ret);
		lsm = store.lsm;
		atexit(destroy);
	}
	fill(bench);
}

/* Read all objects once, so that all pages of the windows are mapped before the measurement. */
static void reads_setup(struct bench *bench)
{
	uint8_t *copy = get_memory(bench->size, 64);
	uint64_t i;

	objects_setup(bench);
	for (i = 0; i < nr_handles; i++)
		if (lsm_read(lsm, handles[i], copy, bench->size, 0, NULL) != (ssize_t)bench->size)
			fail("lsm_read", EIO);
	free(copy);
}

static uint64_t replace(struct worker *worker, unsigned int flags)
{
	const struct bench *bench = worker->bench;
	struct lsmem_op *ops = get_memory(sizeof(*ops) * bench->batch, 64);
	uint64_t operations = 0;
	uint32_t i;

	prepare(ops, bench, LSMEM_OP_REPLACE);
	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < bench->batch; i++)
			ops[i].handle = next_handle(worker);
		vector(ops, bench->batch, flags);
		operations += bench->batch;
	}
	free(ops);
	return operations;
}

static uint64_t replace_work(struct worker *worker)
{
	return replace(worker, 0);
}

static uint64_t groups_work(struct worker *worker)
{
	return replace(worker, LSMEM_OPF_ATOMIC);
}

static uint64_t durable_work(struct worker *worker)
{
	return replace(worker, LSMEM_OPF_DURABLE);
}

/* Replacements of one object each, by ioctl. */
static uint64_t replace_ioctl(struct worker *worker, unsigned int flags)
{
	const struct bench *bench = worker->bench;
	uint64_t operations = 0;

	while (worker_goes_on(worker, operations)) {
		struct lsmem_op op = lsm_op_replace(next_handle(worker), source, bench->size,
						    flags, 0);

		if (ioctl(lsm_fd(lsm), LSMEM_IOC_REPLACE, &op))
			fail("LSMEM_IOC_REPLACE", errno);
		operations++;
	}
	return operations;
}

static uint64_t replace_ioctl_work(struct worker *worker)
{
	return replace_ioctl(worker, 0);
}

static uint64_t durable_ioctl_work(struct worker *worker)
{
	return replace_ioctl(worker, LSMEM_OPF_DURABLE);
}

static void submit_replace(struct io_uring *ring, struct worker *worker, struct lsmem_op *op,
			   unsigned int flags)
{
	struct lsmem_command command = { .structure = (uintptr_t)op };
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	*op = lsm_op_replace(next_handle(worker), source, worker->bench->size, flags, 0);
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, lsm_fd(lsm), NULL, 0, 0);
	sqe->cmd_op = LSMEM_IOC_REPLACE;
	memcpy(sqe->cmd, &command, sizeof(command));
	io_uring_sqe_set_data(sqe, op);
}

/* The same by commands of io_uring, with bench->batch in flight; those that end begin again. */
static uint64_t replace_uring(struct worker *worker, unsigned int flags)
{
	const unsigned int setup = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
	const struct bench *bench = worker->bench;
	struct lsmem_op *ops = get_memory(sizeof(*ops) * bench->batch, 64);
	uint64_t operations = 0;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	unsigned int head, nr, flying = bench->batch;
	int ret = io_uring_queue_init(bench->batch, &ring, setup);

	if (ret)
		fail("io_uring_queue_init", -ret);
	for (nr = 0; nr < bench->batch; nr++)
		submit_replace(&ring, worker, &ops[nr], flags);
	while (flying) {
		bool on = worker_goes_on(worker, operations);

		ret = io_uring_submit_and_wait(&ring, 1);
		if (ret < 0)
			fail("io_uring_submit_and_wait", -ret);
		nr = 0;
		io_uring_for_each_cqe(&ring, head, cqe) {
			if (cqe->res)
				fail("LSMEM_IOC_REPLACE by io_uring", -cqe->res);
			nr++;
			if (on)
				submit_replace(&ring, worker, io_uring_cqe_get_data(cqe), flags);
			else
				flying--;
		}
		io_uring_cq_advance(&ring, nr);
		operations += nr;
	}
	io_uring_queue_exit(&ring);
	free(ops);
	return operations;
}

static uint64_t replace_uring_work(struct worker *worker)
{
	return replace_uring(worker, 0);
}

static uint64_t durable_uring_work(struct worker *worker)
{
	return replace_uring(worker, LSMEM_OPF_DURABLE);
}

/* ---- Orders ------------------------------------------------------------- */

static struct worker orderly = { .state = 0x2545f4914f6cdd1dull };

static void overwrite(struct bench *bench, double bytes, double seconds)
{
	struct lsmem_op *ops = get_memory(sizeof(*ops) * bench->batch, 64);
	uint64_t begin = now_ns(), now, written = 0;
	uint32_t i, calls = 0;

	prepare(ops, bench, LSMEM_OP_REPLACE);
	do {
		for (i = 0; i < bench->batch; i++)
			ops[i].handle = next_handle(&orderly);
		vector(ops, bench->batch, 0);
		written += (uint64_t)bench->batch * entry_bytes(bench);
		now = ++calls % 16 ? begin : now_ns();	/* a system call in User-mode Linux */
	} while ((double)written < bytes && (double)(now - begin) < seconds * 1e9);
	free(ops);
	now = now_ns();
	printf("{\"bytes\": %llu, \"seconds\": %.6f}\n", (unsigned long long)written,
	       (double)(now - begin) / 1e9);
}

/*
 * Times are counted in classes, 256 in each octave: 0.4 % wide at most.  They are measured in ticks
 * of the processor, because clock_gettime() is a system call in User-mode Linux.
 */
#define LATENCY_BITS	8
#define LATENCY_CLASSES	((64 - LATENCY_BITS + 1) << LATENCY_BITS)

static uint64_t latencies[LATENCY_CLASSES];

static uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return now_ns();
#endif
}

static unsigned int latency_class(uint64_t time)
{
	unsigned int octave;

	if (time < 2ull << LATENCY_BITS)
		return (unsigned int)time;
	octave = 63 - (unsigned int)__builtin_clzll(time) - LATENCY_BITS;
	return (octave << LATENCY_BITS) + (unsigned int)(time >> octave);
}

static uint64_t latency_least(unsigned int class)
{
	unsigned int octave = class >> LATENCY_BITS;

	if (class < 2u << LATENCY_BITS)
		return class;
	return (uint64_t)(class - ((octave - 1) << LATENCY_BITS)) << (octave - 1);
}

#define BURST	64u	/* operations between two now_ns(), a system call in User-mode Linux */

/* Sleep until the time of operation @i, with @rate operations a second from @begin_ns on. */
static void pace(uint64_t begin_ns, uint64_t i, double rate)
{
	uint64_t due = begin_ns + (uint64_t)((double)i / rate * 1e9);
	struct timespec until = { .tv_sec = (time_t)(due / 1000000000u),
				  .tv_nsec = (long)(due % 1000000000u) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static void latency(struct bench *bench, uint64_t nr, double rate)
{
	uint64_t begin_ns = now_ns(), begin = ticks(), took_ns, i, last, now, max = 0;
	const char *comma = "";
	unsigned int class;
	double scale;
	int ret;

	memset(latencies, 0, sizeof(latencies));
	for (i = 0; i < nr; i++) {
		uint64_t handle = next_handle(&orderly);

		if (rate > 0 && i % BURST == 0)
			pace(begin_ns, i, rate);
		last = ticks();
		ret = lsm_replace(lsm, handle, source, bench->size, 0, NULL);
		now = ticks();
		if (ret)
			fail("lsm_replace", -ret);
		latencies[latency_class(now - last)]++;
		if (now - last > max)
			max = now - last;
	}
	now = ticks() - begin;
	took_ns = now_ns() - begin_ns;
	scale = (double)took_ns / (double)now;
	printf("{\"seconds\": %.6f, \"max\": %.1f, \"counts\": [", (double)took_ns / 1e9,
	       (double)max * scale);
	for (class = 0; class < LATENCY_CLASSES - 1; class++) {
		if (!latencies[class])
			continue;
		printf("%s[%.1f, %.1f, %llu]", comma, (double)latency_least(class) * scale,
		       (double)latency_least(class + 1) * scale,
		       (unsigned long long)latencies[class]);
		comma = ", ";
	}
	printf("]}\n");
}

static bool replace_order(struct bench *bench, const char *verb, const double *arguments,
			  unsigned int nr)
{
	bench->threads = 1;
	orderly.bench = bench;
	use_cpu(0);
	if (!strcmp(verb, "objects") && nr == 1) {
		grow(bench, (uint64_t)arguments[0]);
		printf("{\"objects\": %llu}\n", (unsigned long long)nr_handles);
	} else if (!strcmp(verb, "overwrite") && nr == 2) {
		overwrite(bench, arguments[0], arguments[1]);
	} else if (!strcmp(verb, "latency") && nr == 2) {
		latency(bench, (uint64_t)arguments[0], arguments[1]);
	} else if (!strcmp(verb, "store") && !nr) {
		printf("{\"store\": \"%s\"}\n", store.name);
	} else {
		return false;
	}
	return true;
}

/* ---- Reads -------------------------------------------------------------- */

static uint64_t read_work(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	uint8_t *copy = get_memory(bench->size, 64);
	uint64_t operations = 0;
	uint32_t i;

	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < bench->batch; i++)
			if (lsm_read(lsm, handles[worker_read_next(worker, nr_handles, copy)],
				     copy, bench->size, 0, NULL) != (ssize_t)bench->size)
				fail("lsm_read", EIO);
		operations += bench->batch;
	}
	free(copy);
	return operations;
}

static uint64_t read_many_work(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	uint8_t *copies = get_memory((size_t)bench->size * bench->batch, 64);
	struct lsmem_op *ops = get_memory(sizeof(*ops) * bench->batch, 64);
	uint64_t operations = 0;
	uint32_t i;

	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < bench->batch; i++)
			ops[i] = lsm_op_read(next_handle(worker), copies + (size_t)i * bench->size,
					     bench->size, 0);
		lsm_read_many(lsm, ops, bench->batch);
		for (i = 0; i < bench->batch; i++)
			if (ops[i].result || ops[i].length != bench->size)
				fail("lsm_read_many", EIO);
		operations += bench->batch;
	}
	free(ops);
	free(copies);
	return operations;
}

/* The first object of a store that others have made is read. */
static void first_setup(struct bench *bench)
{
	uint8_t *copy = get_memory(bench->size, 64);
	int ret = lsm_open(bench->path, 0, &lsm);
	ssize_t length;

	if (ret)
		fail(bench->path, -ret);
	length = lsm_read(lsm, lsmem_handle_make(0, 1), copy, bench->size, 0, NULL);
	if (length != (ssize_t)bench->size)
		fail("lsm_read", length < 0 ? (int)-length : EIO);
	free(copy);
}

/* Reads and replacements: of each batch the reads in one call of the library, then the replacements. */
static uint64_t mixed(struct worker *worker, unsigned int flags)
{
	const struct bench *bench = worker->bench;
	uint8_t *copies = get_memory((size_t)bench->size * bench->batch, 64);
	struct lsmem_op *ops = get_memory(sizeof(*ops) * bench->batch, 64);
	struct lsmem_op *reads = get_memory(sizeof(*reads) * bench->batch, 64);
	uint64_t operations = 0;
	uint32_t i, writes, nr;

	prepare(ops, bench, LSMEM_OP_REPLACE);
	while (worker_goes_on(worker, operations)) {
		for (i = 0, writes = 0, nr = 0; i < bench->batch; i++) {
			uint64_t handle = next_handle(worker);

			if (random_below(&worker->state, 1000) < bench->writes)
				ops[writes++].handle = handle;
			else
				reads[nr++] = lsm_op_read(handle, copies + (size_t)i * bench->size,
							  bench->size, 0);
		}
		lsm_read_many(lsm, reads, nr);
		for (i = 0; i < nr; i++)
			if (reads[i].result || reads[i].length != bench->size)
				fail("lsm_read_many", reads[i].result ? -reads[i].result : EIO);
		if (writes)
			vector(ops, writes, flags);
		updates += writes;
		operations += bench->batch;
	}
	free(reads);
	free(ops);
	free(copies);
	return operations;
}

static uint64_t mixed_work(struct worker *worker)
{
	return mixed(worker, 0);
}

static uint64_t mixed_durable_work(struct worker *worker)
{
	return mixed(worker, LSMEM_OPF_DURABLE);
}

static bool mixed_order(struct bench *bench, const char *verb, const double *arguments, unsigned int nr)
{
	if (strcmp(verb, "updates"))
		return replace_order(bench, verb, arguments, nr);
	printf("{\"updates\": %llu}\n", (unsigned long long)updates);
	return true;
}

/* A view reads the bytes in place; this copies them, as the other modes do. */
static uint64_t view_work(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	uint8_t *copy = get_memory(bench->size, 64);
	uint64_t operations = 0;
	struct lsm_view view;
	uint32_t i, j;
	int ret;

	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < bench->batch; i++) {
			size_t at = 0;

			ret = lsm_view_begin(lsm, next_handle(worker),
					     &view);
			if (ret)
				fail("lsm_view_begin", -ret);
			for (j = 0; j < view.nr; at += view.iov[j++].iov_len)
				memcpy(copy + at, view.iov[j].iov_base, view.iov[j].iov_len);
			__asm__ volatile("" : : "r"(copy) : "memory");
			ret = lsm_view_end(lsm, &view);
			if (ret && ret != -ECANCELED)
				fail("lsm_view_end", -ret);
		}
		operations += bench->batch;
	}
	free(copy);
	return operations;
}

static uint64_t ioctl_work(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	uint8_t *copy = get_memory(bench->size, 64);
	uint64_t operations = 0;

	while (worker_goes_on(worker, operations)) {
		struct lsmem_op op = {
			.size = sizeof(op),
			.op = LSMEM_OP_READ,
			.handle = next_handle(worker),
			.data = (uintptr_t)copy,
			.length = bench->size,
		};

		if (ioctl(lsm_fd(lsm), LSMEM_IOC_READ, &op))
			fail("LSMEM_IOC_READ", errno);
		operations++;
	}
	free(copy);
	return operations;
}

const struct mode object_modes[] = {
	{ "replace", objects_setup, replace_work, replace_order, true },
	{ "groups", objects_setup, groups_work, NULL, true },
	{ "durable", objects_setup, durable_work, NULL, true },
	{ "replace-ioctl", objects_setup, replace_ioctl_work, replace_order, true },
	{ "replace-uring", objects_setup, replace_uring_work, replace_order, true },
	{ "durable-ioctl", objects_setup, durable_ioctl_work, NULL, true },
	{ "durable-uring", objects_setup, durable_uring_work, NULL, true },
	{ "read", reads_setup, read_work, NULL, false },
	{ "read-many", objects_setup, read_many_work, NULL, false },
	{ "first", first_setup, NULL, NULL, false },
	{ "mixed", objects_setup, mixed_work, NULL, false },
	{ "mixed-durable", objects_setup, mixed_durable_work, mixed_order, false },
	{ "view", reads_setup, view_work, NULL, false },
	{ "ioctl-read", objects_setup, ioctl_work, NULL, true },
	{ 0 }
};
