/* SPDX-License-Identifier: GPL-2.0 */
/* The cleaner.  See clean.c. */
#ifndef LSMEM_CLEAN_H
#define LSMEM_CLEAN_H

#include "store.h"

int lsmem_cleaner_init(struct lsmem_store *store);
int lsmem_cleaner_make(struct lsmem_store *store);
void lsmem_cleaner_run(struct lsmem_store *store);
void lsmem_cleaner_stop(struct lsmem_store *store);
void lsmem_cleaner_destroy(struct lsmem_store *store);
bool lsmem_clean_due(const struct lsmem_store *store);
void lsmem_clean_forget(struct lsmem_store *store);
void lsmem_clean_stop(struct lsmem_store *store, bool last);
int lsmem_clean_ask(struct lsmem_store *store, const u64 *ids, u32 *nr);

#endif
