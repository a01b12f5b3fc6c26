// SPDX-License-Identifier: GPL-2.0
/*
 * Large buffers for the tests.  A freed buffer is kept, and given out again with its old contents.
 * This allows thousands of lives a second, and finds code that takes a new buffer to be zero.
 */
#include <stdlib.h>

#include "base/memory.h"

#define KEPT	192u

static struct {
	void *memory;
	size_t bytes;
	int used;
} kept[KEPT];

void *memory_get(size_t bytes)
{
	unsigned int i;

	bytes = (bytes + 4095) & ~(size_t)4095;
	for (i = 0; i < KEPT && kept[i].memory; i++) {
		if (!kept[i].used && kept[i].bytes == bytes) {
			kept[i].used = 1;
			return kept[i].memory;
		}
	}
	if (i == KEPT)
		abort();
	kept[i].memory = aligned_alloc(4096, bytes);
	kept[i].bytes = bytes;
	kept[i].used = 1;
	return kept[i].memory;
}

void *memory_table(size_t bytes, bool dense)
{
	(void)dense;
	return calloc(1, bytes);
}

void memory_touch(void *memory, size_t bytes)
{
	(void)memory;
	(void)bytes;
}

void memory_put(void *memory)
{
	unsigned int i;

	for (i = 0; i < KEPT && memory; i++)
		if (kept[i].memory == memory)
			kept[i].used = 0;
}
