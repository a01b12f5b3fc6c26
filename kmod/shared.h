/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that the clients of a store share.  See shared.c.  lsmem_shared_ioctl() decides who may make it; chardev.c
 * calls it.
 */
#ifndef LSMEM_SHARED_H
#define LSMEM_SHARED_H

#include <linux/types.h>

struct lsmem_shared;
struct lsmem_store;

void lsmem_shared_setup(struct lsmem_store *store);
void lsmem_shared_destroy(struct lsmem_store *store);
long lsmem_shared_ioctl(struct lsmem_store *store, fmode_t mode, struct lsmem_shared *shared);

#endif
