// SPDX-License-Identifier: GPL-2.0
/* Large buffers: see memory.h. */
#include <stdlib.h>

#include <lsmem_format.h>

#include "memory.h"

/**
 * memory_get - a buffer for I/O
 * @bytes: wanted
 * Return: NULL when there is no memory.
 */
void *memory_get(size_t bytes)
{
	return aligned_alloc(LSMEM_BLOCK, (bytes + LSMEM_BLOCK - 1) & ~(size_t)(LSMEM_BLOCK - 1));
}

void memory_put(void *memory)
{
	free(memory);
}
