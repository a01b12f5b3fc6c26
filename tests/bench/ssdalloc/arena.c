// SPDX-License-Identifier: GPL-2.0
/*
 * malloc() and free() whose memory is a mapped file, at $ARENA, of $ARENA_MIB: the programs are compiled
 * with malloc=arena_malloc and free=arena_free.  Memory that was freed is used again for the same size.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../bench.h"

#define UNIT		16u
#define CLASSES		256u		/* freed memory of up to so many units is used again */

static uint8_t *arena;
static uint64_t used, length;
static void *freed[CLASSES];

static void arena_open(void)
{
	const char *path = getenv("ARENA"), *mib = getenv("ARENA_MIB");
	int fd;

	if (!path || !mib)
		fail("ARENA, ARENA_MIB", EINVAL);
	length = strtoull(mib, NULL, 0) << 20;
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)length))
		fail(path, errno);
	arena = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* No page is read before it is wanted. */
	if (arena == MAP_FAILED || madvise(arena, length, MADV_RANDOM))
		fail("mmap", errno);
	close(fd);
}

/* The units before an allocation tell its size. */
void *arena_malloc(size_t size)
{
	uint64_t units = (size + UNIT - 1) / UNIT + 1, *memory;

	if (!arena)
		arena_open();
	if (units < CLASSES && freed[units]) {
		memory = freed[units];
		freed[units] = *(void **)memory;
		return memory;
	}
	if (units * UNIT > length - used)
		return NULL;
	memory = (uint64_t *)(arena + used + UNIT);
	used += units * UNIT;
	memory[-1] = units;
	return memory;
}

void arena_free(void *memory)
{
	uint64_t units;

	if (!memory)
		return;
	units = ((uint64_t *)memory)[-1];
	if (units >= CLASSES)
		return;
	*(void **)memory = freed[units];
	freed[units] = memory;
}
