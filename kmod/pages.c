// SPDX-License-Identifier: GPL-2.0
/*
 * Pages: ranges of pages as files.
 *
 * A range that is open is an inode of a filesystem of the module's own, which cannot be mounted.  Its
 * page cache is the page buffer: a fault copies an object into a page and maps it, the first store to a
 * clean page faults again and makes it dirty, and write-back puts dirty pages into the log in groups
 * (range.c).  What mmap() promises of a shared file mapping (fork, mremap, madvise, GUP, a page that is
 * charged to the task that first uses it) the kernel's page cache keeps.
 *
 * Write-back: when the kernel finds pages old or memory short (its flusher threads), by msync(), fsync(),
 * and when a descriptor that can write is closed.  Of an atomic range by the last three alone, and when
 * lsmem_pages_dirty_most() pages have been made dirty.  Dirty pages are written in their order, as many as fit in each group.
 *
 * The page buffer is bounded: when it is full, a hand goes through it.  A page that is mapped is unmapped,
 * one that is not leaves: so one that is used between two turns of the hand stays (a second chance, as
 * in evict.c, by a fault that copies nothing).
 *
 * Locks: see store.h for the order.  The hand holds file->leaving, write-back file->writing.
 */
#include <linux/backing-dev.h>
#include <linux/falloc.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/writeback.h>

#include "../uapi/lsmem.h"
#include "compat/fs.h"
#include "durable.h"
#include "entry.h"
#include "ioctl.h"
#include "pages.h"
#include "range.h"
#include "registry.h"
#include "store.h"

#define LSMEM_PAGES_FS		0x4c534d50	/* "LSMP" */
#define LSMEM_PAGES_DIRTY	(LSMEM_SEGMENT_BYTES / PAGE_SIZE) /* of an atomic range, before msync() */
#define LSMEM_PAGES_LEAST	64u		/* pages of the smallest page buffer */
#define LSMEM_PAGES_LEAVE	64u		/* pages that leave at a time */
#define LSMEM_PAGES_AHEAD	16u		/* pages that are read ahead of faults in sequence */
#define LSMEM_PAGES_WILLNEED	512u		/* pages that one madvise(MADV_WILLNEED) reads */

static_assert(PAGE_SIZE == LSMEM_BLOCK);

/**
 * struct lsmem_file - a range that is open, as an inode
 * @inode: of the filesystem
 * @range: range.store is NULL until it is opened
 * @writing: held while pages are written back
 * @leaving: held by the hand
 * @hand: page from which the hand goes on
 * @most: pages of the page buffer
 * @dirtied: dirty pages, and those that were dirty when they were truncated, since all were written
 * @last: page of the last fault, for faults in sequence; no lock
 */
struct lsmem_file {
	struct inode inode;
	struct lsmem_range range;
	struct mutex writing;
	struct mutex leaving;
	pgoff_t hand;
	unsigned long most;
	atomic_long_t dirtied;
	pgoff_t last;
};

static struct vfsmount *lsmem_pages_mount;

static struct lsmem_file *lsmem_file_of(const struct inode *inode)
{
	return container_of(inode, struct lsmem_file, inode);
}

/* Is an atomic range written back only when it is asked for? */
static bool lsmem_file_atomic(const struct lsmem_file *file)
{
	return file->range.flags & LSMEM_PAGES_ATOMIC;
}

/* ---- Write-back ---------------------------------------------------------- */

/**
 * struct lsmem_batch - dirty pages on their way into one group
 * @nr: how many
 * @folios: locked, under write-back, clean
 * @pages: the same
 */
struct lsmem_batch {
	u32 nr;
	struct folio *folios[LSMEM_RANGE_BATCH];
	struct lsmem_range_page pages[LSMEM_RANGE_BATCH];
};

/* Take a dirty folio, unless it is not dirty any more or was truncated. */
static void lsmem_batch_add(struct lsmem_batch *batch, struct address_space *mapping,
			    struct folio *folio)
{
	struct lsmem_file *file = lsmem_file_of(mapping->host);

	folio_lock(folio);
	if (folio->mapping != mapping || !folio_clear_dirty_for_io(folio)) {
		folio_unlock(folio);
		return;
	}
	atomic_long_dec(&file->dirtied);
	folio_start_writeback(folio);
	folio_get(folio);
	batch->folios[batch->nr] = folio;
	batch->pages[batch->nr] = (struct lsmem_range_page){
		.page = folio->index,
		.data = folio_address(folio),
	};
	batch->nr++;
}

/* Take dirty pages from @from on, up to @to; @from: out: where to go on. */
static void lsmem_batch_gather(struct lsmem_batch *batch, struct address_space *mapping,
			       pgoff_t *from, pgoff_t to)
{
	struct folio_batch found;
	u32 i;

	batch->nr = 0;
	folio_batch_init(&found);
	while (batch->nr < LSMEM_RANGE_BATCH &&
	       filemap_get_folios_tag(mapping, from, to, PAGECACHE_TAG_DIRTY, &found)) {
		for (i = 0; i < folio_batch_count(&found) && batch->nr < LSMEM_RANGE_BATCH; i++)
			lsmem_batch_add(batch, mapping, found.folios[i]);
		if (i < folio_batch_count(&found))
			*from = found.folios[i]->index;
		folio_batch_release(&found);
		cond_resched();
	}
}

/* The first @done pages are in the log: the others are dirty again. Returns an error of a page. */
static int lsmem_batch_end(struct lsmem_batch *batch, u32 done)
{
	int ret = 0;
	u32 i;

	for (i = 0; i < batch->nr; i++) {
		struct folio *folio = batch->folios[i];

		if (i >= done || batch->pages[i].error == -EAGAIN)
			folio_mark_dirty(folio);
		else if (batch->pages[i].error)
			ret = batch->pages[i].error;
		folio_end_writeback(folio);
		folio_unlock(folio);
		folio_put(folio);
	}
	return ret;
}

/*
 * Write dirty pages, and what else is to be written, until none is left, or @left pages are written.
 * Returns 0 or an error, which the mapping has noted as well.
 */
static int lsmem_pages_write(struct lsmem_file *file, pgoff_t from, pgoff_t to, long left)
{
	struct address_space *mapping = &file->inode.i_data;
	struct lsmem_batch *batch = kvmalloc(sizeof(*batch), GFP_NOFS);
	struct lsmem_place place = { };
	int ret = 0, lost = 0;

	if (!batch)
		return -ENOMEM;
	mutex_lock(&file->writing);
	while (ret >= 0 && left > 0) {
		pgoff_t next = from;

		lsmem_batch_gather(batch, mapping, &next, to);
		if (!batch->nr && !lsmem_range_unwritten(&file->range))
			break;
		ret = lsmem_range_write(&file->range, batch->pages, batch->nr, &place);
		if (ret < 0) {
			lsmem_batch_end(batch, 0);
			break;
		}
		if (ret && (u32)ret == batch->nr)
			from = next;
		else if (ret)
			from = batch->pages[ret].page;
		left -= batch->nr;
		lost = lsmem_batch_end(batch, ret) ?: lost;
		if (from > to || (!batch->nr && !place.segment))
			break;
	}
	mutex_unlock(&file->writing);
	kvfree(batch);
	ret = ret < 0 ? ret : lost;
	if (ret && ret != -EINTR && ret != -EAGAIN)
		mapping_set_error(mapping, ret);
	return ret;
}

static int lsmem_pages_write_all(struct lsmem_file *file)
{
	int ret = lsmem_pages_write(file, 0, -1, LONG_MAX);

	/* Pages that were made dirty meanwhile are not counted: the bound is not exact. */
	atomic_long_set(&file->dirtied, 0);
	return ret;
}

static int lsmem_pages_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	struct lsmem_file *file = lsmem_file_of(mapping->host);
	pgoff_t from = 0, to = -1;

	if (lsmem_file_atomic(file))
		return 0;
	if (!wbc->range_cyclic) {
		from = wbc->range_start >> PAGE_SHIFT;
		to = wbc->range_end >> PAGE_SHIFT;
	}
	return lsmem_pages_write(file, from, to, wbc->nr_to_write);
}

static bool lsmem_pages_dirty_folio(struct address_space *mapping, struct folio *folio)
{
	bool dirtied = filemap_dirty_folio(mapping, folio);

	if (dirtied)
		atomic_long_inc(&lsmem_file_of(mapping->host)->dirtied);
	return dirtied;
}

/* ---- The page buffer ----------------------------------------------------- */

/* Pages of an atomic range that may be dirty before they are written. */
static unsigned long lsmem_pages_dirty_most(const struct lsmem_file *file)
{
	return min_t(unsigned long, LSMEM_PAGES_DIRTY, file->most / 2);
}

/* The hand passes some pages. Returns how many have left. */
static unsigned long lsmem_pages_pass(struct lsmem_file *file)
{
	struct address_space *mapping = &file->inode.i_data;
	pgoff_t first = file->hand, dirty = -1, last = 0;
	struct folio_batch found;
	unsigned long left = 0;
	u32 i;

	folio_batch_init(&found);
	if (!filemap_get_folios(mapping, &file->hand, -1, &found)) {
		file->hand = 0;
		return 0;
	}
	for (i = 0; i < folio_batch_count(&found); i++) {
		struct folio *folio = found.folios[i];
		pgoff_t index = folio->index;

		if (folio_mapped(folio)) {
			unmap_mapping_pages(mapping, index, 1, false);
		} else if (folio_test_dirty(folio)) {
			dirty = min(dirty, index);
			last = index;
		}
	}
	if (dirty <= last && !lsmem_file_atomic(file))
		(void)lsmem_pages_write(file, dirty, last, LONG_MAX);
	for (i = 0; i < folio_batch_count(&found); i++) {
		struct folio *folio = found.folios[i];
		pgoff_t index = folio->index;
		bool leaves = !folio_mapped(folio) && index >= first;

		folio_put(folio);	/* what is held does not leave */
		if (leaves)
			left += invalidate_mapping_pages(mapping, index, index);
	}
	return left;
}

/*
 * Make room in the page buffer, if it is full.  Called without a folio's lock.  One task at a time moves
 * the hand, and no further than twice around.
 */
static void lsmem_pages_room(struct lsmem_file *file)
{
	struct address_space *mapping = &file->inode.i_data;
	unsigned long passes = 2 * mapping->nrpages / LSMEM_FOLIO_BATCH + 2, left = 0;

	if (lsmem_file_atomic(file) &&
	    atomic_long_read(&file->dirtied) >= lsmem_pages_dirty_most(file))
		(void)lsmem_pages_write_all(file);
	if (mapping->nrpages < file->most || !mutex_trylock(&file->leaving))
		return;
	while (mapping->nrpages + LSMEM_PAGES_LEAVE / 2 > file->most && left < LSMEM_PAGES_LEAVE &&
	       passes-- && !fatal_signal_pending(current)) {
		left += lsmem_pages_pass(file);
		cond_resched();
	}
	mutex_unlock(&file->leaving);
}

/* Fill a folio. It stays locked. */
static int lsmem_pages_fill(struct lsmem_file *file, struct folio *folio)
{
	loff_t end = i_size_read(&file->inode) - folio_pos(folio);
	int ret = lsmem_range_read(&file->range, folio->index, folio_address(folio));

	if (ret)
		return ret;
	if (end < PAGE_SIZE)	/* behind the end it reads as zeroes */
		folio_zero_segment(folio, max_t(loff_t, end, 0), PAGE_SIZE);
	flush_dcache_folio(folio);
	folio_mark_uptodate(folio);
	return 0;
}

static int lsmem_pages_read_folio(struct file *f, struct folio *folio)
{
	int ret = lsmem_pages_fill(lsmem_file_of(folio->mapping->host), folio);

	folio_unlock(folio);
	return ret;
}

static void lsmem_pages_readahead(struct readahead_control *rac)
{
	struct lsmem_file *file = lsmem_file_of(rac->mapping->host);
	pgoff_t first = readahead_index(rac), i;
	struct folio *folio;

	for (i = 0; i < readahead_count(rac); i++)
		lsmem_range_ask(&file->range, first + i);
	while ((folio = readahead_folio(rac))) {
		(void)lsmem_pages_fill(file, folio);	/* if it fails, its user reads it again */
		folio_unlock(folio);
	}
}

static int lsmem_pages_write_begin(LSMEM_WRITE *by, struct address_space *mapping, loff_t pos,
				   unsigned int len, LSMEM_WRITTEN **written, void **data)
{
	struct lsmem_file *file = lsmem_file_of(mapping->host);
	struct folio *folio;
	int ret = 0;

	lsmem_pages_room(file);
	folio = lsmem_folio_begin(mapping, pos >> PAGE_SHIFT);
	if (IS_ERR(folio))
		return PTR_ERR(folio);
	if (!folio_test_uptodate(folio) &&
	    (len < PAGE_SIZE || file->range.flags & LSMEM_PAGES_POOL))
		ret = lsmem_pages_fill(file, folio);
	if (ret) {
		folio_unlock(folio);
		folio_put(folio);
		return ret;
	}
	*written = lsmem_folio_written(folio);
	return 0;
}

static int lsmem_pages_write_end(LSMEM_WRITE *by, struct address_space *mapping, loff_t pos,
				 unsigned int len, unsigned int copied, LSMEM_WRITTEN *written,
				 void *data)
{
	struct folio *folio = lsmem_written_folio(written);
	struct inode *inode = mapping->host;

	if (!folio_test_uptodate(folio) && copied < len)
		copied = 0;	/* a part of a page that was not read */
	if (copied) {
		folio_mark_uptodate(folio);
		folio_mark_dirty(folio);
		if (pos + copied > i_size_read(inode)) {
			i_size_write(inode, pos + copied);
			lsmem_range_resize(&lsmem_file_of(inode)->range, pos + copied);
		}
	}
	folio_unlock(folio);
	folio_put(folio);
	return copied;
}

static const struct address_space_operations lsmem_pages_aops = {
	.read_folio = lsmem_pages_read_folio,
	.readahead = lsmem_pages_readahead,
	.writepages = lsmem_pages_writepages,
	.dirty_folio = lsmem_pages_dirty_folio,
	.write_begin = lsmem_pages_write_begin,
	.write_end = lsmem_pages_write_end,
	.migrate_folio = filemap_migrate_folio,
};

/* ---- Faults -------------------------------------------------------------- */

static vm_fault_t lsmem_pages_fault(struct vm_fault *vmf)
{
	struct file *f = vmf->vma->vm_file;
	struct lsmem_file *file = lsmem_file_of(file_inode(f));
	bool next = vmf->pgoff == READ_ONCE(file->last) + 1;

	lsmem_pages_room(file);
	WRITE_ONCE(file->last, vmf->pgoff);
	if ((next || vmf->vma->vm_flags & VM_SEQ_READ) && !(vmf->vma->vm_flags & VM_RAND_READ) &&
	    !xa_load(&f->f_mapping->i_pages, vmf->pgoff)) {
		struct file_ra_state ra = {
			.ra_pages = LSMEM_PAGES_AHEAD,
			.prev_pos = ((loff_t)vmf->pgoff - 1) << PAGE_SHIFT,
		};

		page_cache_sync_readahead(f->f_mapping, &ra, f, vmf->pgoff, LSMEM_PAGES_AHEAD);
	}
	return filemap_fault(vmf);
}

static vm_fault_t lsmem_pages_mkwrite(struct vm_fault *vmf)
{
	lsmem_pages_room(lsmem_file_of(file_inode(vmf->vma->vm_file)));
	return filemap_page_mkwrite(vmf);
}

static const struct vm_operations_struct lsmem_pages_vm_ops = {
	.fault = lsmem_pages_fault,
	.map_pages = filemap_map_pages,
	.page_mkwrite = lsmem_pages_mkwrite,
};

static int lsmem_pages_mmap(struct file *f, struct vm_area_struct *vma)
{
	vma->vm_ops = &lsmem_pages_vm_ops;
	return 0;
}

/* ---- The file ------------------------------------------------------------ */

static int lsmem_pages_fsync(struct file *f, loff_t start, loff_t end, int datasync)
{
	struct lsmem_file *file = lsmem_file_of(file_inode(f));
	struct lsmem_store *store = file->range.store;
	int ret, err;

	/* What has only been ended by others may not be durable yet: hence lsmem_sync() in any case. */
	ret = lsmem_pages_write(file, start >> PAGE_SHIFT, end >> PAGE_SHIFT, LONG_MAX);
	err = file_check_and_advance_wb_err(f);
	if (!ret)
		ret = err;
	return ret || !store->durable ? ret : lsmem_sync(store, 0);
}

static int lsmem_pages_release(struct inode *inode, struct file *f)
{
	struct lsmem_file *file = lsmem_file_of(inode);
	int ret = f->f_mode & FMODE_WRITE ? lsmem_pages_write_all(file) : 0;

	if (ret)
		pr_err("%s: a range of pages (root %llx): not all of it was written when it was closed (error %d)\n",
		       file->range.store->name, file->range.root, ret);
	return 0;
}

/* Free the pages [@from, @to). */
static int lsmem_pages_punch(struct lsmem_file *file, pgoff_t from, pgoff_t to)
{
	if (from >= to)
		return 0;
	truncate_pagecache_range(&file->inode, (loff_t)from << PAGE_SHIFT,
				 ((loff_t)to << PAGE_SHIFT) - 1);
	return lsmem_range_free(&file->range, from, to);
}

/* Zero a part of a page. */
static int lsmem_pages_zero(struct lsmem_file *file, loff_t from, loff_t to)
{
	struct folio *folio;

	if (from >= to)
		return 0;
	folio = read_mapping_folio(&file->inode.i_data, from >> PAGE_SHIFT, NULL);
	if (IS_ERR(folio))
		return PTR_ERR(folio);
	folio_lock(folio);
	if (folio->mapping == &file->inode.i_data) {
		folio_zero_segment(folio, offset_in_page(from), offset_in_page(to - 1) + 1);
		folio_mark_dirty(folio);
	}
	folio_unlock(folio);
	folio_put(folio);
	return 0;
}

/* Change the length; inode_lock() held. */
static int lsmem_pages_resize(struct lsmem_file *file, loff_t length)
{
	loff_t old = i_size_read(&file->inode);
	int ret = 0;

	if (length > LSMEM_PAGES_LENGTH_MAX)
		return -EFBIG;
	if (length < old && !(file->range.flags & LSMEM_PAGES_POOL))	/* it may grow again */
		ret = lsmem_pages_zero(file, length, min_t(loff_t, PAGE_ALIGN(length), old));
	if (ret)
		return ret;
	truncate_setsize(&file->inode, length);
	lsmem_range_resize(&file->range, length);
	if (length < old)
		ret = lsmem_range_free(&file->range, DIV_ROUND_UP_ULL(length, PAGE_SIZE),
				       DIV_ROUND_UP_ULL(old, PAGE_SIZE));
	mark_inode_dirty_sync(&file->inode);
	return ret;
}

static int lsmem_pages_setattr(LSMEM_IDMAP *idmap, struct dentry *dentry, struct iattr *attr)
{
	struct inode *inode = d_inode(dentry);
	int ret;

	if (attr->ia_valid & (ATTR_UID | ATTR_GID | ATTR_MODE))
		return -EPERM;
	ret = setattr_prepare(idmap, dentry, attr);
	if (ret || !(attr->ia_valid & ATTR_SIZE))
		return ret;
	return lsmem_pages_resize(lsmem_file_of(inode), attr->ia_size);
}

static long lsmem_pages_fallocate(struct file *f, int mode, loff_t offset, loff_t length)
{
	struct inode *inode = file_inode(f);
	struct lsmem_file *file = lsmem_file_of(inode);
	loff_t end = offset + length, first = PAGE_ALIGN(offset), last;
	int ret;

	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE))
		return -EOPNOTSUPP;
	inode_lock(inode);
	if (!(mode & FALLOC_FL_PUNCH_HOLE)) {
		ret = mode & FALLOC_FL_KEEP_SIZE || end <= i_size_read(inode) ? 0 :
		      lsmem_pages_resize(file, end);
		goto out;
	}
	end = min(end, i_size_read(inode));
	last = round_down(end, PAGE_SIZE);
	if (end == i_size_read(inode))
		last = PAGE_ALIGN(end);
	ret = lsmem_pages_zero(file, offset, min(first, end));
	if (!ret && last >= first)
		ret = lsmem_pages_zero(file, last, end);
	if (!ret && last > first)
		ret = lsmem_pages_punch(file, first >> PAGE_SHIFT, last >> PAGE_SHIFT);
out:
	inode_unlock(inode);
	return ret;
}

/* ---- Objects of a pool --------------------------------------------------- */

/* A new object, whose page is zeroes and dirty. */
static int lsmem_page_alloc(struct lsmem_file *file, struct lsmem_page *page)
{
	struct folio *folio;
	int ret;

	if (!page->length || page->length > LSMEM_BLOCK)
		return -EINVAL;
	lsmem_pages_room(file);
	ret = lsmem_range_alloc(&file->range, &page->page, page->length, &page->handle);
	if (ret)
		return ret;
	folio = read_mapping_folio(&file->inode.i_data, page->page, NULL);
	if (IS_ERR(folio)) {
		(void)lsmem_range_free(&file->range, page->page, page->page + 1);
		return PTR_ERR(folio);
	}
	folio_lock(folio);
	folio_mark_dirty(folio);
	folio_unlock(folio);
	folio_put(folio);
	return 0;
}

static int lsmem_page_do(struct lsmem_file *file, struct lsmem_page *page)
{
	u64 end = DIV_ROUND_UP_ULL(i_size_read(&file->inode), PAGE_SIZE), found = page->page;
	int ret;

	if (page->op == LSMEM_PAGE_ALLOC)
		return lsmem_page_alloc(file, page);
	if (page->page >= end)
		return -ENOENT;
	ret = lsmem_range_find(&file->range, &found,
			       page->op == LSMEM_PAGE_NEXT ? end : page->page + 1,
			       &page->handle, &page->length);
	if (ret)
		return ret;
	page->page = found;
	return page->op == LSMEM_PAGE_FREE ? lsmem_pages_punch(file, found, found + 1) : 0;
}

static long lsmem_page_ioctl(void *context, void *arg)
{
	struct file *f = context;
	struct inode *inode = file_inode(f);
	struct lsmem_file *file = lsmem_file_of(inode);
	struct lsmem_page *page = arg;
	bool changes = page->op == LSMEM_PAGE_ALLOC || page->op == LSMEM_PAGE_FREE;
	int ret;

	if (page->op < LSMEM_PAGE_ALLOC || page->op > LSMEM_PAGE_NEXT || page->reserved)
		return -EINVAL;
	if (!(file->range.flags & LSMEM_PAGES_POOL))
		return -EOPNOTSUPP;
	if (changes && !(f->f_mode & FMODE_WRITE))
		return -EBADF;
	if (!changes)
		return lsmem_page_do(file, page);
	inode_lock(inode);
	ret = lsmem_page_do(file, page);
	inode_unlock(inode);
	return ret;
}

static const struct lsmem_ioctl lsmem_page_ioctls[] = {
	LSMEM_IOCTL(LSMEM_IOC_PAGE, struct lsmem_page, LSMEM_PAGE_SIZE_VER0, lsmem_page_ioctl),
};

static long lsmem_pages_file_ioctl(struct file *f, unsigned int cmd, unsigned long arg)
{
	return lsmem_ioctl_call(lsmem_page_ioctls, ARRAY_SIZE(lsmem_page_ioctls), f, cmd, arg);
}

static const struct file_operations lsmem_pages_fops = {
	.owner = THIS_MODULE,
	.llseek = generic_file_llseek,
	.read_iter = generic_file_read_iter,
	.write_iter = generic_file_write_iter,
	.mmap = lsmem_pages_mmap,
	.fsync = lsmem_pages_fsync,
	.fallocate = lsmem_pages_fallocate,
	.release = lsmem_pages_release,
	.unlocked_ioctl = lsmem_pages_file_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static const struct inode_operations lsmem_pages_iops = {
	.setattr = lsmem_pages_setattr,
};

/* ---- The filesystem ------------------------------------------------------ */

static struct inode *lsmem_pages_alloc_inode(struct super_block *sb)
{
	struct lsmem_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return NULL;
	mutex_init(&file->writing);
	mutex_init(&file->leaving);
	inode_init_once(&file->inode);
	return &file->inode;
}

static void lsmem_pages_free_inode(struct inode *inode)
{
	kfree(lsmem_file_of(inode));
}

/* Nothing uses the range any more. */
static void lsmem_pages_evict_inode(struct inode *inode)
{
	struct lsmem_range *range = &lsmem_file_of(inode)->range;
	struct lsmem_store *store = range->store;

	truncate_inode_pages_final(&inode->i_data);
	clear_inode(inode);
	if (!store)
		return;
	lsmem_range_close(range);
	lsmem_store_release(store);
	module_put(THIS_MODULE);
}

/* Without users a range is closed at once: it holds its store. */
static int lsmem_pages_drop_inode(struct inode *inode)
{
	return 1;
}

static const struct super_operations lsmem_pages_sops = {
	.alloc_inode = lsmem_pages_alloc_inode,
	.free_inode = lsmem_pages_free_inode,
	.evict_inode = lsmem_pages_evict_inode,
	.drop_inode = lsmem_pages_drop_inode,
	.statfs = simple_statfs,
};

static int lsmem_pages_init_fs_context(struct fs_context *fc)
{
	struct pseudo_fs_context *context = init_pseudo(fc, LSMEM_PAGES_FS);

	if (!context)
		return -ENOMEM;
	context->ops = &lsmem_pages_sops;
	return 0;
}

/* It has no owner: its one mount must not hold the module. Inodes do. */
static struct file_system_type lsmem_pages_type = {
	.name = "lsmem_pages",
	.init_fs_context = lsmem_pages_init_fs_context,
	.kill_sb = kill_anon_super,
};

/* ---- Open ---------------------------------------------------------------- */

/* What identifies a range. */
struct lsmem_pages_key {
	struct lsmem_store *store;
	u64 root;
};

static int lsmem_pages_test(struct inode *inode, void *data)
{
	const struct lsmem_pages_key *key = data;
	const struct lsmem_range *range = &lsmem_file_of(inode)->range;

	return range->store == key->store && range->root == key->root;
}

/* Context: under a spinlock. */
static int lsmem_pages_set(struct inode *inode, void *data)
{
	const struct lsmem_pages_key *key = data;
	struct lsmem_range *range = &lsmem_file_of(inode)->range;

	range->store = key->store;
	range->root = key->root;
	return 0;
}

/* Fill in a new inode. */
static int lsmem_pages_fill_inode(struct inode *inode, struct lsmem_store *store, u64 root)
{
	struct lsmem_file *file = lsmem_file_of(inode);
	int ret;

	/* Until it is open, lsmem_pages_evict_inode() must not take it for open. */
	file->range.store = NULL;
	ret = lsmem_store_open(store);
	if (ret)
		return ret;
	ret = lsmem_range_open(&file->range, store, root);
	if (ret) {
		file->range.store = NULL;
		lsmem_store_release(store);
		return ret;
	}
	__module_get(THIS_MODULE);	/* the caller's file holds it */
	inode->i_mode = S_IFREG | 0600;
	inode->i_uid = GLOBAL_ROOT_UID;
	inode->i_gid = GLOBAL_ROOT_GID;
	inode->i_op = &lsmem_pages_iops;
	inode->i_fop = &lsmem_pages_fops;
	inode->i_flags |= S_NOATIME | S_NOCMTIME | S_PRIVATE;
	inode->i_data.a_ops = &lsmem_pages_aops;
	mapping_set_gfp_mask(&inode->i_data, GFP_USER | __GFP_ACCOUNT);
	i_size_write(inode, file->range.length);
	return 0;
}

/* The inode of a range; @new: it was not open before. */
static struct inode *lsmem_pages_inode(struct lsmem_store *store, u64 root, bool *new)
{
	struct lsmem_pages_key key = { store, root };
	struct inode *inode;
	int ret;

	inode = iget5_locked(lsmem_pages_mount->mnt_sb, hash_64(root ^ (unsigned long)store, 32),
			     lsmem_pages_test, lsmem_pages_set, &key);
	if (!inode)
		return ERR_PTR(-ENOMEM);
	*new = lsmem_inode_is_new(inode);
	if (!*new)
		return inode;
	ret = lsmem_pages_fill_inode(inode, store, root);
	if (ret) {
		iget_failed(inode);
		return ERR_PTR(ret);
	}
	unlock_new_inode(inode);
	return inode;
}

/* A descriptor for a range. Consumes the reference to @inode. */
static int lsmem_pages_descriptor(struct inode *inode, fmode_t mode)
{
	int flags = (mode & FMODE_WRITE ? O_RDWR : O_RDONLY) | O_LARGEFILE, fd;
	struct file *f;

	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0) {
		iput(inode);
		return fd;
	}
	__module_get(THIS_MODULE);	/* the caller's file holds it; the new file gives it back */
	f = alloc_file_pseudo(inode, lsmem_pages_mount, "[lsmem_pages]", flags, &lsmem_pages_fops);
	if (IS_ERR(f)) {
		module_put(THIS_MODULE);
		put_unused_fd(fd);
		iput(inode);
		return PTR_ERR(f);
	}
	f->f_mode |= FMODE_LSEEK | FMODE_PREAD | FMODE_PWRITE;
	f->f_mapping = inode->i_mapping;
	fd_install(fd, f);
	return fd;
}

static u64 lsmem_pages_buffer(const struct lsmem_store *store, u64 bytes)
{
	u64 pages = (bytes ?: store->bytes / 8) / PAGE_SIZE;

	return clamp_t(u64, pages, LSMEM_PAGES_LEAST, LSMEM_PAGES_LENGTH_MAX / PAGE_SIZE);
}

static int lsmem_pages_check(const struct lsmem_pages *pages, fmode_t mode)
{
	u32 make = LSMEM_PAGES_POOL | LSMEM_PAGES_ATOMIC;
	bool create = pages->flags & LSMEM_PAGES_CREATE, remove = pages->flags & LSMEM_PAGES_REMOVE;

	if (pages->flags & ~(make | LSMEM_PAGES_CREATE | LSMEM_PAGES_REMOVE) || (create && remove) ||
	    (!create && (pages->flags & make || pages->table || pages->length)) ||
	    (create && pages->root) || pages->fd || pages->table >= LSMEM_TABLES ||
	    pages->length > LSMEM_PAGES_LENGTH_MAX)
		return -EINVAL;
	return (create || remove) && !(mode & FMODE_WRITE) ? -EBADF : 0;
}

/**
 * lsmem_pages_ioctl - make, open or remove a range
 * @store: active, object kind; held by the caller's descriptor
 * @mode: of that descriptor
 * @pages: as struct lsmem_pages says
 *
 * Context: sleeps.  Return: 0 or an error as struct lsmem_pages says.
 */
long lsmem_pages_ioctl(struct lsmem_store *store, fmode_t mode, struct lsmem_pages *pages)
{
	struct inode *inode;
	struct lsmem_file *file;
	u64 root = pages->root;
	bool new;
	int ret;

	ret = lsmem_pages_check(pages, mode);
	if (!ret && pages->flags & LSMEM_PAGES_CREATE)
		ret = lsmem_range_create(store, pages->flags &
					 (LSMEM_PAGES_POOL | LSMEM_PAGES_ATOMIC), pages->table,
					 pages->length, &root);
	if (ret)
		return ret;
	inode = lsmem_pages_inode(store, root, &new);
	if (IS_ERR(inode))
		return PTR_ERR(inode);
	file = lsmem_file_of(inode);
	if (pages->flags & LSMEM_PAGES_REMOVE) {
		ret = new ? lsmem_range_remove(&file->range) : -EBUSY;
		iput(inode);
		pages->fd = -1;
		return ret;
	}
	if (new || pages->buffer)
		WRITE_ONCE(file->most, lsmem_pages_buffer(store, pages->buffer));
	pages->root = root;
	pages->flags = file->range.flags;
	pages->table = file->range.table;
	pages->length = i_size_read(inode);
	pages->buffer = (u64)READ_ONCE(file->most) * PAGE_SIZE;
	ret = lsmem_pages_descriptor(inode, mode);
	if (ret < 0)
		return ret;
	pages->fd = ret;
	return 0;
}

/**
 * lsmem_pages_init - make the filesystem
 * Context: sleeps.  Return: 0 or an error of the kernel.
 */
int lsmem_pages_init(void)
{
	struct vfsmount *mount = kern_mount(&lsmem_pages_type);
	int ret;

	if (IS_ERR(mount))
		return PTR_ERR(mount);
	ret = super_setup_bdi(mount->mnt_sb);
	if (ret) {
		kern_unmount(mount);
		return ret;
	}
	/* Faults read ahead by themselves (lsmem_pages_fault()); this is for MADV_WILLNEED. */
	mount->mnt_sb->s_bdi->ra_pages = 0;
	mount->mnt_sb->s_bdi->io_pages = LSMEM_PAGES_WILLNEED;
	lsmem_pages_mount = mount;
	return 0;
}

/**
 * lsmem_pages_exit - undo lsmem_pages_init(); no range is open
 */
void lsmem_pages_exit(void)
{
	kern_unmount(lsmem_pages_mount);
	rcu_barrier();	/* inodes are freed by RCU callbacks */
}
