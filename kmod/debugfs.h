/* SPDX-License-Identifier: GPL-2.0 */
/* The inside of a store, for those who work on it.  See debugfs.c. */
#ifndef LSMEM_DEBUGFS_H
#define LSMEM_DEBUGFS_H

struct lsmem_store;

void lsmem_debugfs_init(void);
void lsmem_debugfs_exit(void);
void lsmem_debugfs_add(struct lsmem_store *store);
void lsmem_debugfs_del(struct lsmem_store *store);

#endif
