// SPDX-License-Identifier: GPL-2.0
/*
 * The limits of memory: a ring into which the same objects are copied, as the limit of an append;
 * the same replacements with malloc (the preloaded allocator); and reads with a plain pointer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lsmem/lsmem_format.h>

#include "bench.h"

static uint8_t *source;		/* the data, as for a vector call */
static uint8_t *ring;
static uint8_t **objects;
static uint64_t nr_objects;

static void source_setup(const struct bench *bench)
{
	source = get_memory((uint64_t)bench->size * BENCH_SOURCES, 64);
}

static const uint8_t *source_of(const struct bench *bench, uint32_t i)
{
	return source + (size_t)(i % BENCH_SOURCES) * bench->size;
}

static void ring_setup(struct bench *bench)
{
	source_setup(bench);
	ring = get_memory(bench->bytes, 4096);
}

static uint64_t ring_work(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	uint64_t length = bench->bytes / bench->threads, at = worker->next, operations = 0;
	uint8_t *own = ring + worker->nr * length;
	uint32_t i, size = bench->size;

	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < bench->batch; i++) {
			if (at + size > length)
				at = 0;
			memcpy(own + at, source_of(bench, i), size);
			at += (size + 7) & ~7u;
		}
		operations += bench->batch;
	}
	worker->next = at;
	return operations;
}

/*
 * The limit of a store: replacements go to the end of a ring, and a table has the places of the
 * objects.  Nothing is cleaned: the ring overwrites only versions that were replaced long before.
 */
static void limit_setup(struct bench *bench)
{
	uint64_t i;

	ring_setup(bench);
	nr_objects = bench->bytes / 1000 * bench->live / lsmem_entry_size(bench->size);
	objects = get_memory(nr_objects * sizeof(*objects), 64);
	for (i = 0; i < nr_objects; i++)
		objects[i] = ring + i * ((bench->size + 7) & ~7u);
}

static uint64_t limit_work(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	uint64_t length = bench->bytes / bench->threads, at = worker->next, operations = 0;
	uint64_t *which = get_memory(sizeof(*which) * bench->batch, 64);
	uint8_t *own = ring + worker->nr * length;
	uint32_t i, size = bench->size;

	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < bench->batch; i++) {
			which[i] = worker_next(worker, nr_objects);
			__builtin_prefetch(&objects[which[i]], 1);
		}
		for (i = 0; i < bench->batch; i++) {
			if (at + size > length)
				at = 0;
			memcpy(own + at, source_of(bench, i), size);
			objects[which[i]] = own + at;
			at += (size + 7) & ~7u;
		}
		operations += bench->batch;
	}
	worker->next = at;
	free(which);
	return operations;
}

/* As many objects as the store holds, without headers. */
static void malloc_setup(struct bench *bench)
{
	uint64_t i;

	source_setup(bench);
	nr_objects = bench->bytes / 1000 * bench->live / lsmem_entry_size(bench->size);
	objects = get_memory(nr_objects * sizeof(*objects), 64);
	for (i = 0; i < nr_objects; i++) {
		objects[i] = malloc(bench->size);
		if (!objects[i])
			fail("malloc", ENOMEM);
		memset(objects[i], 1, bench->size);
	}
}

static uint64_t malloc_work(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	uint64_t operations = 0;
	uint32_t i;

	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < bench->batch; i++) {
			uint64_t nr = worker_next(worker, nr_objects);
			uint8_t *object = malloc(bench->size);

			if (!object)
				fail("malloc", ENOMEM);
			memcpy(object, source_of(bench, i), bench->size);
			free(objects[nr]);
			objects[nr] = object;
		}
		operations += bench->batch;
	}
	return operations;
}

static uint64_t plain_work(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	uint8_t *copy = get_memory(bench->size, 64);
	uint64_t operations = 0;
	uint32_t i;

	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < bench->batch; i++) {
			memcpy(copy, objects[worker_read_next(worker, nr_objects, copy)],
			       bench->size);
			__asm__ volatile("" : : "r"(copy) : "memory");	/* keep the memcpy() */
		}
		operations += bench->batch;
	}
	free(copy);
	return operations;
}

static void nothing_setup(struct bench *bench)
{
	(void)bench;
}

/* The cost of a system call that does nothing. */
static uint64_t syscall_work(struct worker *worker)
{
	uint64_t operations = 0;

	while (worker_goes_on(worker, operations)) {
		getppid();
		operations++;
	}
	return operations;
}

const struct mode memory_modes[] = {
	{ "ring", ring_setup, ring_work, NULL, false },
	{ "limit", limit_setup, limit_work, NULL, false },
	{ "malloc", malloc_setup, malloc_work, NULL, false },
	{ "plain-read", malloc_setup, plain_work, NULL, false },
	{ "syscall", nothing_setup, syscall_work, NULL, false },
	{ 0 }
};
