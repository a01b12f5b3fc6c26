/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Freezing a store: no client is served, and nothing changes the log.  See freeze.c.  lsmem_freeze() decides when
 * a store is frozen; repl.c calls it.
 */
#ifndef LSMEM_FREEZE_H
#define LSMEM_FREEZE_H

#include "../uapi/lsmem.h"

struct lsmem_store;

long lsmem_freeze(struct lsmem_store *store, struct lsmem_freeze *freeze);

#endif
