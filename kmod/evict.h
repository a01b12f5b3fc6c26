/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Eviction: what leaves the memory of a tiered store.  See evict.c.  lsmem_evict_due() decides whether
 * objects must leave, lsmem_evict_next() from which segment, lsmem_evict() which of them.  Caller:
 * compact.c, which then frees the seglets.
 */
#ifndef LSMEM_EVICT_H
#define LSMEM_EVICT_H

#include <linux/types.h>

struct lsmem_rest;
struct lsmem_segment;
struct lsmem_store;

bool lsmem_evict_due(struct lsmem_store *store, bool last);
struct lsmem_segment *lsmem_evict_next(struct lsmem_store *store);
bool lsmem_evict(struct lsmem_store *store, struct lsmem_segment *seg, bool all,
		 struct lsmem_rest *rest);

#endif
