/* SPDX-License-Identifier: GPL-2.0 */
/* A table with keys in memory, in place of liblsmem and a store: for lsmemcached where there is no kernel module. */
#ifndef TESTS_CACHED_TABLE_H
#define TESTS_CACHED_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Forget all items, and begin anew with room for @items items of @bytes bytes in all; what is over has no room.
 * @first: version of the first change.  Return: false: no memory.
 */
bool table_begin(size_t items, uint64_t bytes, uint64_t first);
/* Return: items that are there. */
size_t table_items(void);

#endif
