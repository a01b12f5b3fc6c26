/* SPDX-License-Identifier: GPL-2.0 */
/* What a store shows in sysfs and debugfs.  See sysfs.c and debugfs.c. */
#ifndef LSMEM_SYSFS_H
#define LSMEM_SYSFS_H

#include <linux/device.h>

struct lsmem_store;

extern const struct attribute_group *lsmem_store_groups[];

void lsmem_debugfs_init(void);
void lsmem_debugfs_exit(void);
void lsmem_debugfs_add(struct lsmem_store *store);
void lsmem_debugfs_del(struct lsmem_store *store);

#endif
