// SPDX-License-Identifier: GPL-2.0
/*
 * Objects in pages: an array in anonymous memory, which the kernel swaps, or in a mapped device or
 * file.  What a store with a tier is measured against; the caller bounds the memory by a cgroup.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

#define SOURCE_BYTES	(1u << 20)	/* random: no page of objects can be compressed */

static uint8_t *array;
static uint8_t *source;
static uint32_t nr_sources;
static uint64_t nr_objects;

static void array_setup(struct bench *bench)
{
	int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint64_t bytes, i, state = 1;

	nr_objects = bench->handles;
	if (!nr_objects)
		fail("-n OBJECTS", EINVAL);
	bytes = nr_objects * bench->size;
	if (bench->path) {
		fd = open(bench->path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			fail(bench->path, errno);
		flags = MAP_SHARED;
	}
	nr_sources = SOURCE_BYTES / bench->size;
	source = get_memory(SOURCE_BYTES, 64);
	for (i = 0; i < SOURCE_BYTES / 8; i++)
		((uint64_t *)source)[i] = random_next(&state);
	array = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (array == MAP_FAILED)
		fail("mmap", errno);
	/* A large page would be read and written as a whole. */
	if (madvise(array, bytes, MADV_RANDOM))
		fail("madvise", errno);
	if (madvise(array, bytes, MADV_NOHUGEPAGE) && errno != EINVAL)	/* the kernel has none */
		fail("madvise", errno);
	for (i = 0; i < nr_objects; i++)
		memcpy(array + i * bench->size, source + i % nr_sources * bench->size, bench->size);
	if (bench->zipf)
		zipf_setup(nr_objects);
}

static uint64_t array_work(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	uint8_t *copy = get_memory(bench->size, 64);
	uint64_t operations = 0;
	uint32_t i;

	while (worker_goes_on(worker, operations)) {
		for (i = 0; i < bench->batch; i++) {
			uint64_t nr = worker_any(worker, nr_objects);
			uint8_t *object = array + nr * bench->size;

			if (random_below(&worker->state, 1000) < bench->writes)
				memcpy(object, source + (size_t)random_below(&worker->state, nr_sources) *
				       bench->size, bench->size);
			else
				memcpy(copy, object, bench->size);
			__asm__ volatile("" : : "r"(copy) : "memory");	/* keep the memcpy() */
		}
		operations += bench->batch;
	}
	free(copy);
	return operations;
}

const struct mode page_modes[] = {
	{ "array", array_setup, array_work, NULL, false },
	{ 0 }
};
