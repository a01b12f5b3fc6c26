// SPDX-License-Identifier: GPL-2.0
/*
 * Random calls: the load beside them.  It replaces objects and writes blocks, so that the cleaner
 * and the daemon have work, and reads them again to check their contents.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <lsmem.h>

#include "../guest/store.h"
#include "calls.h"

#define OBJECTS		2000u
#define OBJECT_MIN	64u
#define OBJECT_SPAN	(60u << 10)
#define TIER_SPAN	(150u << 10)	/* so that they take more than the memory of the store */
#define CALLS_AN_OBJECT	50u	/* write one object for so many calls of callers */
#define CALLS_A_BLOCK	20u
#define PAUSE_US	2000u
#define POOL_ONE_IN	8u	/* callers may change one in so many objects */
#define LOAD_NICE	10
#define SWEEP_EVERY	64u	/* check after so many objects whether the store is full */
#define SWEEP_ABOVE	32u	/* it is full if less than 1/n of the capacity is left */

static bool stopped(void)
{
	return atomic_load_explicit(&shared->stop, memory_order_relaxed);
}

/*
 * Wait until the callers have made @calls more calls, so that the load does not take the machine
 * from them.  Returns false after shared->stop.
 */
static bool goes_on(uint64_t *done, uint32_t calls)
{
	++*done;
	while (!stopped() && *done > calls_made() / calls)
		usleep(PAUSE_US);
	return !stopped();
}

/* Is @ret a permitted result for a store that callers may have filled? */
static bool tolerable(int ret)
{
	return !ret || ret == -ENOSPC || ret == -EMFILE || ret == -ETIMEDOUT;
}

struct object {
	uint64_t handle;
	uint64_t serial;
	uint32_t length;
	bool loose;	/* callers know its handle and may change it */
};

static void own(uint64_t handle)
{
	uint64_t index = lsmem_handle_index(handle);

	atomic_fetch_or(&shared->owned[index / 64], 1ull << index % 64);
}

static void object_check(struct lsm *lsm, const struct object *object, uint32_t i, uint8_t *data)
{
	struct lsm_object what;
	uint64_t serial;
	ssize_t length;

	length = lsm_read(lsm, object->handle, data, OBJECT_MIN + TIER_SPAN, 0, &what);
	if (object->loose && length == -ESTALE)
		return;
	/* A tiered store: callers set a low bound for fetching.  tier_report() looks for failures. */
	if (length == -ETIMEDOUT)
		return;
	if (object->loose)	/* a caller may have replaced it */
		return;
	if (length != object->length || !content_right(data, object->length, i, &serial) ||
	    serial != object->serial)
		failed(VERDICT_LOAD, "object %#llx: %zd bytes, not the %u that were written",
		       (unsigned long long)object->handle, length, object->length);
}

/* Is so little space left that callers would spend most time waiting for it? */
static bool is_full(int fd)
{
	struct lsmem_stat stat = { .size = sizeof(stat) };

	return !ioctl(fd, LSMEM_IOC_STAT, &stat) &&
	       stat.live_bytes > stat.capacity - stat.capacity / SWEEP_ABOVE;
}

/*
 * Free all objects in memory except those of the load.  Callers lose handles when they cannot read the
 * result of an allocation, and these objects would fill the store in the end.  The generation of
 * an object is in its entry; if that is overwritten meanwhile, the store refuses the handle.
 */
static void sweep(int fd)
{
	const struct lsmem_window *window = &shared->info.handles, *log = &shared->info.seglets;
	const struct lsmem_handle *handles;
	const uint8_t *seglets;
	uint64_t i, key;

	handles = mmap(NULL, window->length, PROT_READ, MAP_SHARED, fd, (off_t)window->offset);
	seglets = mmap(NULL, log->length, PROT_READ, MAP_SHARED, fd, (off_t)log->offset);
	if (handles == MAP_FAILED || seglets == MAP_FAILED) {
		failed(VERDICT_LOAD, "the windows cannot be mapped: %s", strerror(errno));
		return;
	}
	for (i = 0; i < WORK_HANDLES; i++) {
		uint64_t word = __atomic_load_n(&handles[i].word, __ATOMIC_ACQUIRE);
		struct lsmem_op op = { .size = sizeof(op), .op = LSMEM_OP_FREE };
		const struct lsmem_entry *e;

		if ((word >> LSMEM_WORD_STATE_SHIFT & ((1u << LSMEM_WORD_STATE_BITS) - 1)) !=
		    LSMEM_WORD_LIVE)
			continue;
		e = (const void *)(seglets + (word & ((1ull << LSMEM_POSITION_BITS) - 1)) *
				   LSMEM_ALIGN);
		key = __atomic_load_n(&e->key, __ATOMIC_RELAXED);
		op.handle = lsmem_handle_make(i, lsmem_handle_generation(key));
		if (!is_owned(op.handle))
			ioctl(fd, LSMEM_IOC_FREE, &op);	/* a caller may have freed it */
	}
	munmap((void *)handles, window->length);
	munmap((void *)seglets, log->length);
	atomic_fetch_add(&shared->sweeps, 1);
}

static void *load_objects(void *argument)
{
	const unsigned int which = (unsigned int)(uintptr_t)argument;
	const uint32_t span = shared->store[which].tiered ? TIER_SPAN : OBJECT_SPAN;
	struct object *objects = calloc(OBJECTS, sizeof(*objects));
	uint8_t *data = malloc(OBJECT_MIN + TIER_SPAN);
	uint64_t random = test_seed ^ (0x10ad00 + which);
	uint64_t serial = 0, done = 0;
	struct lsm *lsm;
	char path[64];
	int ret, fd;

	snprintf(path, sizeof(path), "/dev/%.31s", shared->store[which].name);
	ret = lsm_open(path, 0, &lsm);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (ret || fd < 0 || !objects || !data) {
		failed(VERDICT_LOAD, "%s: %s", path, strerror(-ret));
		return NULL;
	}
	/* Fill the log at full speed first; then write at the speed of the callers. */
	while (serial < 5 * OBJECTS / 2 || goes_on(&done, CALLS_AN_OBJECT)) {
		uint32_t i = serial < OBJECTS ? serial : random_below(&random, OBJECTS);
		uint32_t length = OBJECT_MIN + random_below(&random, span);
		struct object *object = &objects[i];

		if (object->handle)
			object_check(lsm, object, i, data);
		content_fill(data, length, i, ++serial);
		ret = -ESTALE;
		if (object->handle)
			ret = lsm_replace(lsm, object->handle, data, length, 0, NULL);
		/* Callers can only free loose objects; any other object must exist. */
		if (ret == -ESTALE && (!object->handle || object->loose)) {
			object->handle = 0;
			ret = lsm_alloc(lsm, data, length, 0, &object->handle, NULL);
			object->loose = i % POOL_ONE_IN == 0;
			if (ret)
				object->handle = 0;
			else if (!object->loose)
				own(object->handle);
			else
				(void)pool_put(&shared->store[which].live, object->handle, 0);
		}
		if (serial % SWEEP_EVERY == 0 && is_full(fd))
			sweep(fd);
		if (!ret) {
			object->serial = serial;
			object->length = length;
		} else if (!tolerable(ret)) {
			failed(VERDICT_LOAD, "%s: an object could not be written: %s", path,
			       strerror(-ret));
		}
	}
	close(fd);
	lsm_close(lsm);
	return NULL;
}

/* Write and check blocks at the end of the device, to which no caller writes. */
static void *load_blocks(void *argument)
{
	uint64_t bytes = shared->block_bytes, first = bytes - bytes / LOAD_BLOCKS;
	uint32_t blocks = (uint32_t)(bytes / LOAD_BLOCKS / PAGE) - 1, i;
	uint64_t *serials = calloc(blocks, sizeof(*serials)), serial = 0, done = 0, seen;
	uint8_t *data = aligned_alloc(PAGE, PAGE);
	uint64_t random;
	char path[64];
	int fd;

	(void)argument;
	first = (first + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	random = test_seed ^ 0xb10c;
	snprintf(path, sizeof(path), "/dev/%.31s", shared->store[STORE_BLOCK].name);
	fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0 || !serials || !data) {
		failed(VERDICT_LOAD, "%s: %s", path, strerror(errno));
		return NULL;
	}
	while (goes_on(&done, CALLS_A_BLOCK)) {
		off_t at;

		i = random_below(&random, blocks);
		at = (off_t)(first + (uint64_t)i * PAGE);
		if (serials[i] && (pread(fd, data, PAGE, at) != PAGE ||
				   !content_right(data, PAGE, i, &seen) || seen != serials[i]))
			failed(VERDICT_LOAD, "block %u of the end is not what was written", i);
		content_fill(data, PAGE, i, ++serial);
		serials[i] = serial;
		if (pwrite(fd, data, PAGE, at) != PAGE)
			failed(VERDICT_LOAD, "a block could not be written: %s", strerror(errno));
	}
	close(fd);
	return NULL;
}

void load_main(void)
{
	pthread_t threads[LOADED_STORES + 1];
	uint32_t i;

	/* Callers have priority over the load. */
	if (nice(LOAD_NICE) < 0 ||
	    pthread_create(&threads[LOADED_STORES], NULL, load_blocks, NULL))
		_exit(1);
	for (i = 0; i < LOADED_STORES; i++)
		if (pthread_create(&threads[i], NULL, load_objects, (void *)(uintptr_t)i))
			_exit(1);
	for (i = 0; i < LOADED_STORES + 1; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}
