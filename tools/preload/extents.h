/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* Extents of a range of pages: which are in use.  Nothing here locks, or allocates with malloc(). */
#ifndef LSMEM_PRELOAD_EXTENTS_H
#define LSMEM_PRELOAD_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#define EXTENTS_NONE	UINT32_MAX
#define EXTENTS_BINS	32

struct extent;

/**
 * struct extents - the pages of a range, each in an extent that is free or in use
 * @pages: how many
 * @used: how many are in use
 * @tags: of the first and the last page of each extent; an anonymous mapping, of which only what is
 *	written to takes memory
 * @bins: the first page of a list of free extents of 2^i pages and more
 */
struct extents {
	uint32_t pages;
	uint32_t used;
	struct extent *tags;
	uint32_t bins[EXTENTS_BINS];
};

int extents_init(struct extents *all, uint32_t pages);
uint32_t extents_take(struct extents *all, uint32_t pages, uint32_t align, uint32_t skew);
void extents_give(struct extents *all, uint32_t first);
uint32_t extents_size(const struct extents *all, uint32_t first);
bool extents_grow(struct extents *all, uint32_t first, uint32_t pages);
uint32_t extents_split(struct extents *all, uint32_t first, uint32_t pages);

#endif
