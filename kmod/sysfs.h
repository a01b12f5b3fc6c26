/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files of a store in sysfs.  See sysfs.c.  lsmem_limit_store() checks a limit that the
 * administrator sets, lsmem_request() a request for compaction or cleaning; the other writable
 * files have a *_store() of their own.  store.c creates the device with lsmem_store_groups.
 */
#ifndef LSMEM_SYSFS_H
#define LSMEM_SYSFS_H

#include <linux/device.h>

struct lsmem_store;

extern const struct attribute_group *lsmem_store_groups[];

#endif
