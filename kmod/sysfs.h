/* SPDX-License-Identifier: GPL-2.0 */
/* The files of a store in sysfs.  See sysfs.c. */
#ifndef LSMEM_SYSFS_H
#define LSMEM_SYSFS_H

#include <linux/device.h>

struct lsmem_store;

extern const struct attribute_group *lsmem_store_groups[];

#endif
