/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Misses: objects of a call that are on backups only, asked for together.  See misses.c.  chardev.c has those of a
 * vector call found by lsmem_objects_prefetch(), and waits for each in its turn.
 */
#ifndef LSMEM_MISSES_H
#define LSMEM_MISSES_H

#include <linux/types.h>

#include "../uapi/lsmem.h"

#define LSMEM_MISSES_MAX	64u	/* operations whose misses are asked for together */

struct lsmem_misses;
struct lsmem_store;

struct lsmem_misses *lsmem_misses_new(struct lsmem_store *store, const struct lsmem_op *ops, u64 cold);
bool lsmem_misses_has(const struct lsmem_misses *misses, u32 which);
int lsmem_misses_fetch(struct lsmem_store *store, struct lsmem_misses *misses, u32 which, u64 index, u64 *until,
		       u64 deadline);
void lsmem_misses_free(struct lsmem_misses *misses);

#endif
