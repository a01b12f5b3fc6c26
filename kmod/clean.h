/* SPDX-License-Identifier: GPL-2.0 */
/* The cleaner.  See clean.c. */
#ifndef LSMEM_CLEAN_H
#define LSMEM_CLEAN_H

#include "store.h"

/* Frames that only the cleaner may take: a full survivor and its rest. */
#define LSMEM_CLEANER_RESERVE	(LSMEM_SEGLETS + LSMEM_SEGLETS / 8)

int lsmem_cleaner_init(struct lsmem_store *store);
int lsmem_cleaner_start(struct lsmem_store *store);
void lsmem_cleaner_stop(struct lsmem_store *store);
void lsmem_cleaner_destroy(struct lsmem_store *store);
void lsmem_cleaner_tune(struct lsmem_store *store);

#endif
