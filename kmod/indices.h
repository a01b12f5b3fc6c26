/* SPDX-License-Identifier: GPL-2.0 */
/* Which indices of a handle table are taken.  See indices.c. */
#ifndef LSMEM_INDICES_H
#define LSMEM_INDICES_H

#include <linux/percpu.h>
#include <linux/types.h>

/* Indices that one bit of @full stands for: 64 cache lines of @map on most machines. */
#define LSMEM_INDICES_GROUP	32768u

/**
 * struct lsmem_indices - a set of indices, given out in turn
 * @nr: indices, below 2^31
 * @map: a bit for each, set while it is taken
 * @full: a bit for each group, set when a look has found none free in it: it is not
 *	looked through again before one of its indices is given back
 * @next: of each CPU, the index at which its next look begins
 *
 * All zero before lsmem_indices_init() and after lsmem_indices_destroy().
 */
struct lsmem_indices {
	u32 nr;
	unsigned long *map;
	unsigned long *full;
	u32 __percpu *next;
};

u64 lsmem_indices_bytes(u64 nr);
int lsmem_indices_init(struct lsmem_indices *indices, u32 nr, gfp_t gfp);
void lsmem_indices_destroy(struct lsmem_indices *indices);
int lsmem_indices_get(struct lsmem_indices *indices);
void lsmem_indices_put(struct lsmem_indices *indices, u32 index);
void lsmem_indices_set(struct lsmem_indices *indices, u32 index);
void lsmem_indices_clear(struct lsmem_indices *indices);

#endif
