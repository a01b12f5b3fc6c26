/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cache segments: memory for what was fetched from backups.  See cache.c.  fetch.c puts entries there,
 * compact.c packs them and frees segments that are empty.
 */
#ifndef LSMEM_CACHE_H
#define LSMEM_CACHE_H

#include "cold.h"

int lsmem_cache_put(struct lsmem_store *store, const struct lsmem_entry *e, const void *payload,
		    u32 origin, u64 *position);
void lsmem_cache_free(struct lsmem_store *store, struct lsmem_segment *cache);
bool lsmem_cache_short(const struct lsmem_store *store);

#endif
