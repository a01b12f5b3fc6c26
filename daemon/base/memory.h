/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Large buffers: aligned to LSMEM_BLOCK as I/O wants them, their contents
 * undefined.  The unit tests bring a version of their own that keeps them.
 */
#ifndef LSMEMD_MEMORY_H
#define LSMEMD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

void *memory_get(size_t bytes);
void memory_put(void *memory);
/* All zero, for what is looked up at random places; to be freed by free(). */
void *memory_table(size_t bytes, bool dense);

#endif
