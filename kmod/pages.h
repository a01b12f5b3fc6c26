/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages: the page cache of a range of pages, which is its page buffer.  See pages.c.
 * lsmem_pages_write() decides what is written back together, lsmem_pages_room() which pages leave the page
 * buffer.  Caller: pagefs.c.
 */
#ifndef LSMEM_PAGES_H
#define LSMEM_PAGES_H

#include <linux/fs.h>
#include <linux/workqueue.h>

#include "buffer.h"
#include "range.h"

struct lsmem_store;

/**
 * struct lsmem_file - a range that is open, as an inode
 * @inode: of the filesystem
 * @store: with @root, what identifies it; NULL: the filesystem's own directory
 * @root: see @store
 * @opened: @range is open
 * @range: the range
 * @buffer: in the store's list, while @opened
 * @users: held to open and to remove it
 * @nr_users: descriptors; under @users
 * @removed: it was removed, or in part: nothing is written; set under @users and @writing
 * @settle: applies a journal after the write that has made it
 * @late: what was not written at the last close is written by a thread
 * @until: of @late, jiffies
 * @lingers: the store is not held; under @users
 * @writing: held while pages are written back
 * @leaving: held by the hand
 * @hand: page from which the hand goes on
 * @most: pages of the page buffer
 * @full: pages that the hand waits for, since those that there are could not leave; under @leaving
 * @dirtied: dirty pages, and those that were dirty when they were truncated, since all were written
 * @last: page of the last fault, for faults in sequence; no lock
 */
struct lsmem_file {
	struct inode inode;
	struct lsmem_store *store;
	u64 root;
	bool opened;
	struct lsmem_range range;
	struct lsmem_buffer buffer;
	struct mutex users;
	u32 nr_users;
	bool removed;
	struct work_struct settle;
	struct delayed_work late;
	unsigned long until;
	bool lingers;
	struct mutex writing;
	struct mutex leaving;
	pgoff_t hand;
	unsigned long most;
	unsigned long full;
	atomic_long_t dirtied;
	pgoff_t last;
};

static inline struct lsmem_file *lsmem_file_of(const struct inode *inode)
{
	return container_of(inode, struct lsmem_file, inode);
}

/* Is an atomic range written back only when it is asked for? */
static inline bool lsmem_file_atomic(const struct lsmem_file *file)
{
	return file->range.flags & LSMEM_PAGES_ATOMIC;
}

extern const struct address_space_operations lsmem_pages_aops;

int lsmem_pages_write(struct lsmem_file *file, pgoff_t from, pgoff_t to, long *left);
int lsmem_pages_write_all(struct lsmem_file *file);
int lsmem_pages_settle(struct lsmem_file *file);
void lsmem_pages_dirty_room(struct lsmem_file *file);
int lsmem_pages_zero(struct lsmem_file *file, loff_t from, loff_t to);
int lsmem_pages_mmap(struct file *f, struct vm_area_struct *vma);

#endif
