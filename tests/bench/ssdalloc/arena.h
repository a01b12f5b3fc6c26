/* SPDX-License-Identifier: GPL-2.0 */
/* malloc() and free() of a mapped file.  The programs do not include this: see arena.c. */
#ifndef TESTS_BENCH_SSDALLOC_ARENA_H
#define TESTS_BENCH_SSDALLOC_ARENA_H

#include <stddef.h>

void *arena_malloc(size_t size);
void arena_free(void *memory);

#endif
