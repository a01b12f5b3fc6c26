/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which indices of a handle table are taken.  See indices.c.  lsmem_indices_get() decides which
 * free index is next; handle.c calls it, and load.c marks the indices of a recovered store.
 */
#ifndef LSMEM_INDICES_H
#define LSMEM_INDICES_H

#include <linux/percpu.h>
#include <linux/types.h>

/* Indices that one bit of @full stands for: 64 cache lines of @map on most machines. */
#define LSMEM_INDICES_GROUP	32768u

/**
 * struct lsmem_indices - a set of indices, given out in turn
 * @nr: indices, below 2^31
 * @map: a bit per index, set while it is taken
 * @full: a bit per group, set when a scan has found no free index in it; the group is
 *	skipped until one of its indices is freed
 * @next: per CPU, the index at which the next scan starts
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
