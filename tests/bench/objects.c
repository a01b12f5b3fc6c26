// SPDX-License-Identifier: GPL-2.0
/*
 * What lsmem does: replacements by vector call, volatile and durable, and reads
 * by mapping, in place, and by ioctl.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "../guest/store.h"
#include "bench.h"

static struct store store;
static struct lsm *lsm;
static uint64_t *handles;
static uint64_t nr_handles;
static uint8_t *source;

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
		ops[i].data = (uintptr_t)(source + (size_t)i * bench->size);
		ops[i].length = bench->size;
	}
}

/* Objects up to the live share of the store, whatever there is of them. */
static void fill(const struct bench *bench)
{
	struct lsmem_op *ops = get_memory(sizeof(*ops) * bench->batch, 64);
	uint32_t entry = 32 + ((bench->size + 7) & ~7u), i, nr;
	uint64_t made = 0;
	struct lsmem_query query;
	int ret = lsm_query(lsm, &query);

	if (ret)
		fail("query", -ret);
	source = get_memory((uint64_t)bench->size * bench->batch, 64);
	nr_handles = query.capacity / 1000 * bench->live / entry;
	handles = get_memory(nr_handles * sizeof(*handles), 64);
	while (made < nr_handles) {
		nr = nr_handles - made < bench->batch ? (uint32_t)(nr_handles - made) :
		     bench->batch;
		prepare(ops, bench, LSMEM_OP_ALLOC);
		vector(ops, nr, 0);
		for (i = 0; i < nr; i++)
			handles[made++] = ops[i].handle;
	}
	free(ops);
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
		uint32_t entry = 32 + ((bench->size + 7) & ~7u);

		ret = store_create(&store, bench->bytes, bench->bytes / entry, 0);
		if (ret)
			fail("store", -ret);
		lsm = store.lsm;
		atexit(destroy);
	}
	fill(bench);
}

/* Every page of the windows is mapped before reads are measured. */
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
			ops[i].handle = handles[worker_next(worker, nr_handles)];
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

static uint64_t durable_work(struct worker *worker)
{
	return replace(worker, LSMEM_OPF_DURABLE);
}

static uint64_t read_work(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	uint8_t *copy = get_memory(bench->size, 64);
	uint64_t operations = 0;
	uint32_t i;

	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < bench->batch; i++)
			if (lsm_read(lsm, handles[worker_next(worker, nr_handles)], copy,
				     bench->size, 0, NULL) != (ssize_t)bench->size)
				fail("lsm_read", EIO);
		operations += bench->batch;
	}
	free(copy);
	return operations;
}

/* The bytes are used where they lie, that is copied: as all others here do. */
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

			ret = lsm_view_begin(lsm, handles[worker_next(worker, nr_handles)],
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
			.handle = handles[worker_next(worker, nr_handles)],
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
	{ "replace", objects_setup, replace_work },
	{ "durable", objects_setup, durable_work },
	{ "read", reads_setup, read_work },
	{ "view", reads_setup, view_work },
	{ "ioctl-read", objects_setup, ioctl_work },
	{ 0 }
};
