/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Warming and verifying: after a restart all segments are read.  See warm.c.  lsmem_warm() decides whether
 * there is room for more in memory.  load.c begins, the cleaner's thread carries out; lsmem_warm_bring() takes what the daemon has.
 */
#ifndef LSMEM_WARM_H
#define LSMEM_WARM_H

#include <linux/types.h>

struct lsmem_bring;
struct lsmem_store;

void lsmem_warm_begin(struct lsmem_store *store, bool fill, bool verify);
void lsmem_warm_end(struct lsmem_store *store);
bool lsmem_warm(struct lsmem_store *store);
void lsmem_warm_again(struct lsmem_store *store);
long lsmem_warm_bring(struct lsmem_store *store, struct lsmem_bring *bring);

#endif
