// SPDX-License-Identifier: GPL-2.0
/* Large buffers: see memory.h. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <lsmem_format.h>

#include "memory.h"

#define HUGE_BYTES	((size_t)2 << 20)	/* a huge page of most kernels */

/**
 * memory_get - allocate a buffer for I/O
 * @bytes: its size
 *
 * Return: the buffer, or NULL: no memory.
 */
void *memory_get(size_t bytes)
{
	size_t align = bytes < HUGE_BYTES ? LSMEM_BLOCK : HUGE_BYTES;

	return aligned_alloc(align, (bytes + align - 1) & ~(align - 1));
}

/**
 * memory_put - free what memory_get() returned
 * @memory: may be NULL
 */
void memory_put(void *memory)
{
	free(memory);
}

/**
 * memory_table - allocate a table of zeroes, for look-ups at random places
 * @bytes: its size
 * @dense: nearly all of its pages will be used
 *
 * Only pages that are used take memory. A dense table uses huge pages if the kernel has them: most
 * of the cost of a look-up is the walk through the page table. Free it with free().
 *
 * Return: the table, or NULL: no memory.
 */
void *memory_table(size_t bytes, bool dense)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from, to;
	void *memory = calloc(1, bytes);

	from = ((uintptr_t)memory + page - 1) & ~(page - 1);
	to = ((uintptr_t)memory + bytes) & ~(page - 1);
	if (dense && memory && to > from)
		(void)madvise((void *)from, to - from, MADV_HUGEPAGE);
	return memory;
}

/**
 * memory_touch - take the pages of a range now
 * @memory: first byte
 * @bytes: from there; pages that are only partly in the range are left out
 *
 * Otherwise each page is taken by a page fault when it is first used, or by two if it is first
 * read. Does nothing if the kernel cannot do it.
 */
void memory_touch(void *memory, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = ((uintptr_t)memory + page - 1) & ~(page - 1);
	uintptr_t to = ((uintptr_t)memory + bytes) & ~(page - 1);

	if (to <= from)
		return;
	(void)madvise((void *)from, to - from, MADV_HUGEPAGE);
	(void)madvise((void *)from, to - from, MADV_POPULATE_WRITE);
}
