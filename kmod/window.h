/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Windows: the memory of a store mapped into user space.  See window.c.  lsmem_window_mmap_client()
 * and lsmem_window_mmap_daemon() decide what may be mapped, and how; chardev.c and repl.c call them
 * for mmap().  store.c calls lsmem_window_init() and lsmem_window_destroy().
 */
#ifndef LSMEM_WINDOW_H
#define LSMEM_WINDOW_H

#include <linux/mm_types.h>

struct lsmem_client;
struct lsmem_store;

int lsmem_window_init(struct lsmem_store *store);
void lsmem_window_destroy(struct lsmem_store *store);
int lsmem_window_mmap_client(struct lsmem_client *client, struct vm_area_struct *vma);
void lsmem_window_hide(struct lsmem_store *store, bool hide);
int lsmem_window_mmap_daemon(struct lsmem_store *store, struct vm_area_struct *vma);

#endif
