/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The descriptor of a snapshot.  See frozen.c.  lsmem_frozen_ioctl() decides whether a store has
 * snapshots and who may make one; chardev.c calls it.
 */
#ifndef LSMEM_FROZEN_H
#define LSMEM_FROZEN_H

#include <linux/types.h>

struct lsmem_snapshot;
struct lsmem_store;

long lsmem_frozen_ioctl(struct lsmem_store *store, fmode_t mode, struct lsmem_snapshot *snapshot);

#endif
