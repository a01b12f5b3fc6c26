/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cache segments: memory for what was fetched from backups.  See cache.c.  fetch.c and warm.c put entries
 * there, compact.c packs them and frees segments that are empty.
 */
#ifndef LSMEM_CACHE_H
#define LSMEM_CACHE_H

#include "cold.h"

int lsmem_cache_install(struct lsmem_store *store, u64 word, const struct lsmem_entry *e, u32 inside,
			const void *payload, u32 pcrc);
void lsmem_cache_free(struct lsmem_store *store, struct lsmem_segment *cache);
bool lsmem_cache_short(const struct lsmem_store *store);

#endif
