/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Large buffers, aligned to LSMEM_BLOCK for direct I/O, contents undefined. The unit tests link
 * another version, which reuses buffers.
 */
#ifndef LSMEMD_MEMORY_H
#define LSMEMD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

void *memory_get(size_t bytes);
void memory_put(void *memory);
void *memory_table(size_t bytes, bool dense);
void memory_touch(void *memory, size_t bytes);

#endif
