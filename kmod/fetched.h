/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A segment as it was fetched from a backup.  See fetched.c.  Callers: warm.c, clean.c.
 */
#ifndef LSMEM_FETCHED_H
#define LSMEM_FETCHED_H

#include <linux/types.h>

struct lsmem_entry;
struct lsmem_segment;
struct lsmem_store;

int lsmem_fetched(struct lsmem_store *store, struct lsmem_segment *seg);
u64 lsmem_fetched_word(struct lsmem_store *store, const struct lsmem_segment *seg, u32 at, u32 first,
		       const struct lsmem_entry *e);

#endif
