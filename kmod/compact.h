/* SPDX-License-Identifier: GPL-2.0 */
/* Compaction.  See compact.c. */
#ifndef LSMEM_COMPACT_H
#define LSMEM_COMPACT_H

#include "store.h"

int lsmem_compactors_init(struct lsmem_store *store);
int lsmem_compactors_make(struct lsmem_store *store);
void lsmem_compactors_run(struct lsmem_store *store);
void lsmem_compactors_stop(struct lsmem_store *store);
void lsmem_compactors_destroy(struct lsmem_store *store);

#endif
