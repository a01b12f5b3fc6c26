/* SPDX-License-Identifier: GPL-2.0 */
/* What a store shows in sysfs.  See sysfs.c. */
#ifndef LSMEM_SYSFS_H
#define LSMEM_SYSFS_H

#include <linux/device.h>

struct lsmem_store;

extern const struct attribute_group *lsmem_store_groups[];

#endif
