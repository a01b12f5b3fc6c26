/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The descriptor of a watcher.  See watcher.c.  lsmem_watcher_ioctl() decides who may watch a table; chardev.c calls it.
 */
#ifndef LSMEM_WATCHER_H
#define LSMEM_WATCHER_H

#include <linux/types.h>

struct lsmem_store;
struct lsmem_watch;

long lsmem_watcher_ioctl(struct lsmem_store *store, fmode_t mode, struct lsmem_watch *watch);

#endif
