/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ranges of pages as files.  See pagefs.c.  lsmem_pages_ioctl() makes, opens and removes them.  Caller:
 * chardev.c, for LSMEM_IOC_PAGES.
 */
#ifndef LSMEM_PAGEFS_H
#define LSMEM_PAGEFS_H

#include <linux/fs.h>

#include "../uapi/lsmem_format.h"

struct lsmem_pages;
struct lsmem_store;

/* Are there ranges of pages?  Their pages are those of the kernel. */
static inline bool lsmem_pages_there(void)
{
	return PAGE_SIZE == LSMEM_BLOCK;
}

long lsmem_pages_ioctl(struct lsmem_store *store, fmode_t mode, struct lsmem_pages *pages);
int lsmem_pages_init(void);
void lsmem_pages_exit(void);

#endif
