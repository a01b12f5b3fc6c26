/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The inside of a store as files in debugfs, for developers.  See debugfs.c.  Each *_show() prints
 * one file; nothing depends on the contents.  store.c adds and removes a store's files, main.c the
 * directory.
 */
#ifndef LSMEM_DEBUGFS_H
#define LSMEM_DEBUGFS_H

struct lsmem_store;

void lsmem_debugfs_init(void);
void lsmem_debugfs_exit(void);
void lsmem_debugfs_add(struct lsmem_store *store);
void lsmem_debugfs_del(struct lsmem_store *store);

#endif
