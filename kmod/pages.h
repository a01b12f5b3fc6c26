/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages: ranges of pages as files.  See pages.c.  lsmem_pages_write() decides what is written back as one
 * group, lsmem_pages_room() which pages leave the page buffer.  Caller: chardev.c, for
 * LSMEM_IOC_PAGES.
 */
#ifndef LSMEM_PAGES_H
#define LSMEM_PAGES_H

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
