/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Warming: after a restart what fits comes into memory.  See warm.c.  lsmem_warm() decides whether there is
 * room for more.  activate.c begins, the cleaner's thread carries out.
 */
#ifndef LSMEM_WARM_H
#define LSMEM_WARM_H

#include <linux/types.h>

struct lsmem_store;

void lsmem_warm_begin(struct lsmem_store *store);
void lsmem_warm_end(struct lsmem_store *store);
bool lsmem_warm(struct lsmem_store *store);

#endif
