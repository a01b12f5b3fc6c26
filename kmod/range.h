/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ranges of pages: a root, a tree, and an object for each page.  See range.c.  lsmem_range_read()
 * decides what a page holds, lsmem_range_write() which pages are written together.  Callers: pages.c,
 * pagefs.c.
 */
#ifndef LSMEM_RANGE_H
#define LSMEM_RANGE_H

#include "root.h"

int lsmem_range_open(struct lsmem_range *range, struct lsmem_store *store, u64 root);
void lsmem_range_close(struct lsmem_range *range);
int lsmem_range_remove(struct lsmem_range *range);
int lsmem_range_read(struct lsmem_range *range, u64 page, void *to, bool asked);
bool lsmem_range_ask(struct lsmem_range *range, u64 page);
bool lsmem_range_whole(const struct lsmem_range *range);
int lsmem_range_write(struct lsmem_range *range, struct lsmem_range_page *pages, u32 nr);
bool lsmem_range_unwritten(struct lsmem_range *range);
int lsmem_range_free(struct lsmem_range *range, u64 from, u64 to);
int lsmem_range_resize(struct lsmem_range *range, u64 length);
int lsmem_range_alloc(struct lsmem_range *range, u64 *page, u32 length, u64 *handle);
int lsmem_range_find(struct lsmem_range *range, u64 *page, u64 to, u64 *handle, u32 *length);

#endif
