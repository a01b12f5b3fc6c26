/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The registry: all stores, by name; their opens.  See registry.c.  lsmem_registry_take() decides
 * whether a store can be destroyed, lsmem_store_open() whether it can be opened, and
 * lsmem_store_give() whether a store can have a given name.  Callers: store.c, chardev.c, repl.c,
 * sysfs.c.
 */
#ifndef LSMEM_REGISTRY_H
#define LSMEM_REGISTRY_H

#include <linux/types.h>

#include "store.h"

void lsmem_registry_add(struct lsmem_store *store);
struct lsmem_store *lsmem_registry_take(const char *name, bool force,
					bool (*busy)(struct lsmem_store *store));
struct lsmem_store *lsmem_registry_pop(void);
struct lsmem_store *lsmem_registry_next(struct lsmem_store *store);
struct lsmem_store *lsmem_store_open_name(const char *name);
int lsmem_store_open(struct lsmem_store *store);
void lsmem_store_release(struct lsmem_store *store);
void lsmem_store_linger(struct lsmem_store *store);
int lsmem_store_linger_end(struct lsmem_store *store);
void lsmem_store_linger_release(struct lsmem_store *store);
int lsmem_store_give(struct lsmem_store *store, const char *name, size_t length);
void lsmem_store_given(struct lsmem_store *store, char name[LSMEM_GIVEN_BYTES]);

#endif
