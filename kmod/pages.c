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
 * lsmem_pages_dirty_most() pages have been made dirty.  Dirty pages are written in their order, as many
 * as fit in each group.
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
#include <linux/workqueue.h>
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
#define LSMEM_NO_PAGE		((pgoff_t)-1)	/* no file has it */
#define LSMEM_PAGES_TRIES	60u		/* a second each, to write what is left at the end */
#define LSMEM_PAGES_WILLNEED	512u		/* pages that one madvise(MADV_WILLNEED) reads */

/**
 * struct lsmem_file - a range that is open, as an inode
 * @inode: of the filesystem
 * @store: with @root, what identifies it; NULL: the filesystem's own directory
 * @root: see @store
 * @opened: @range is open
 * @range: the range
 * @users: held to open and to remove it
 * @nr_users: descriptors; under @users
 * @removed: it was removed, or in part: nothing is written; set under @users and @writing
 * @late: what was not written at the last close is written by a thread
 * @tries: of @late
 * @writing: held while pages are written back
 * @leaving: held by the hand
 * @hand: page from which the hand goes on
 * @most: pages of the page buffer
 * @dirtied: dirty pages, and those that were dirty when they were truncated, since all were written
 * @last: page of the last fault, for faults in sequence; no lock
 */
struct lsmem_file {
	struct inode inode;
	struct lsmem_store *store;
	u64 root;
	bool opened;
	struct lsmem_range range;
	struct mutex users;
	u32 nr_users;
	bool removed;
	struct delayed_work late;
	u32 tries;
	struct mutex writing;
	struct mutex leaving;
	pgoff_t hand;
	unsigned long most;
	atomic_long_t dirtied;
	pgoff_t last;
};

static struct vfsmount *lsmem_pages_mount;
static struct workqueue_struct *lsmem_pages_works;

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

/* Zero what of a page lies behind the end of a region. */
static void lsmem_pages_clear_end(struct lsmem_file *file, struct folio *folio)
{
	loff_t end = i_size_read(&file->inode) - folio_pos(folio);

	if (end < (loff_t)PAGE_SIZE && !(file->range.flags & LSMEM_PAGES_POOL))
		folio_zero_segment(folio, max_t(loff_t, end, 0), PAGE_SIZE);
}

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
	lsmem_pages_clear_end(file, folio);	/* stores through mmap() behind it */
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

/*
 * The first @done pages are in the log; the others are dirty again, and so are those that are to be
 * written again, of which the first is @again.  Returns an error of a page.
 */
static int lsmem_batch_end(struct lsmem_batch *batch, u32 done, pgoff_t *again)
{
	int ret = 0;
	u32 i;

	for (i = 0; i < batch->nr; i++) {
		struct folio *folio = batch->folios[i];

		if (i >= done || batch->pages[i].error == -EAGAIN) {
			folio_mark_dirty(folio);
			*again = min(*again, folio->index);
		} else if (batch->pages[i].error) {
			ret = batch->pages[i].error;
		}
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
static int lsmem_pages_write(struct lsmem_file *file, pgoff_t from, pgoff_t to, long *left)
{
	struct address_space *mapping = &file->inode.i_data;
	struct lsmem_batch *batch = kvmalloc(sizeof(*batch), GFP_NOFS);
	int ret = 0, lost = 0;
	bool end = from > to;

	if (!batch)
		return -ENOMEM;
	mutex_lock(&file->writing);
	while (*left > 0 && !file->removed) {
		pgoff_t next = from, again = LSMEM_NO_PAGE;

		batch->nr = 0;
		if (!end)
			lsmem_batch_gather(batch, mapping, &next, to);
		if (!batch->nr && !lsmem_range_unwritten(&file->range))
			break;
		ret = lsmem_range_write(&file->range, batch->pages, batch->nr);
		lost = lsmem_batch_end(batch, max(ret, 0), &again) ?: lost;
		if (ret < 0)
			break;
		*left -= max(ret, 1);
		/* Behind the last page there may be more to write than pages. */
		end = again == LSMEM_NO_PAGE && (next > to || next <= from);
		from = again == LSMEM_NO_PAGE ? next : again;
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
	long left = LONG_MAX;
	int ret = lsmem_pages_write(file, 0, -1, &left);

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
	return lsmem_pages_write(file, from, to, &wbc->nr_to_write);
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

/* The hand passes some pages. Returns how many have left, or an error of write-back. */
static long lsmem_pages_pass(struct lsmem_file *file)
{
	struct address_space *mapping = &file->inode.i_data;
	pgoff_t first = file->hand, dirty = -1, last = 0;
	long gone = 0, left = LONG_MAX;
	struct folio_batch found;
	unsigned long stay = 0;
	int ret = 0;
	u32 i;

	BUILD_BUG_ON(LSMEM_FOLIO_BATCH > BITS_PER_LONG);
	folio_batch_init(&found);
	if (!filemap_get_folios(mapping, &file->hand, -1, &found)) {
		file->hand = 0;
		return 0;
	}
	for (i = 0; i < folio_batch_count(&found); i++) {
		struct folio *folio = found.folios[i];

		if (folio_test_mlocked(folio)) {
			__set_bit(i, &stay);
		} else if (folio_mapped(folio)) {
			unmap_mapping_pages(mapping, folio->index, 1, false);
			__set_bit(i, &stay);
		} else if (folio_test_dirty(folio)) {
			dirty = min(dirty, folio->index);
			last = folio->index;
		}
	}
	if (dirty <= last && !lsmem_file_atomic(file))
		ret = lsmem_pages_write(file, dirty, last, &left);
	for (i = 0; i < folio_batch_count(&found); i++) {
		struct folio *folio = found.folios[i];
		pgoff_t index = folio->index;

		folio_put(folio);	/* what is held does not leave */
		if (!test_bit(i, &stay) && index >= first)
			gone += invalidate_mapping_pages(mapping, index, index);
	}
	return ret ?: gone;
}

/*
 * Make room in the page buffer, if it is full.  Called without a folio's lock.  One task at a time moves
 * the hand, and no further than four times around.
 */
static void lsmem_pages_room(struct lsmem_file *file)
{
	struct address_space *mapping = &file->inode.i_data;
	unsigned long passes = 4 * mapping->nrpages / LSMEM_FOLIO_BATCH + 2;
	long gone = 0, ret = 0;

	if (lsmem_file_atomic(file) &&
	    atomic_long_read(&file->dirtied) >= lsmem_pages_dirty_most(file))
		(void)lsmem_pages_write_all(file);
	if (mapping->nrpages < file->most || !mutex_trylock(&file->leaving))
		return;
	while (mapping->nrpages + LSMEM_PAGES_LEAVE / 2 > file->most && gone < LSMEM_PAGES_LEAVE &&
	       ret >= 0 && passes-- && !fatal_signal_pending(current)) {
		ret = lsmem_pages_pass(file);
		gone += ret;
		cond_resched();
	}
	mutex_unlock(&file->leaving);
}

/* Fill a folio. It stays locked. */
static int lsmem_pages_fill(struct lsmem_file *file, struct folio *folio)
{
	int ret = lsmem_range_read(&file->range, folio->index, folio_address(folio));

	if (ret)
		return ret;
	lsmem_pages_clear_end(file, folio);
	flush_dcache_folio(folio);
	folio_mark_uptodate(folio);
	return 0;
}

static int lsmem_pages_read_folio(struct file *f, struct folio *folio)
{
	struct lsmem_file *file = lsmem_file_of(folio->mapping->host);
	int ret = lsmem_pages_fill(file, folio);

	folio_unlock(folio);
	lsmem_pages_room(file);
	return ret;
}

static void lsmem_pages_readahead(struct readahead_control *rac)
{
	struct lsmem_file *file = lsmem_file_of(rac->mapping->host);
	pgoff_t first = readahead_index(rac), i;
	struct folio *folio;
	int ret = 0;

	for (i = 0; i < readahead_count(rac); i++)
		lsmem_range_ask(&file->range, first + i);
	while ((folio = readahead_folio(rac))) {
		if (!ret)	/* after an error, who uses a page reads it again */
			ret = lsmem_pages_fill(file, folio);
		folio_unlock(folio);
	}
	lsmem_pages_room(file);
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

/*
 * The file will grow from @old bytes, to @to, by a write from @from on: nothing that is behind its end,
 * in the page cache or in objects that a shorter length has left, becomes visible.  Before its pages are
 * in the page cache.
 */
static int lsmem_pages_grow(struct lsmem_file *file, loff_t old, loff_t from, loff_t to)
{
	int ret = 0;

	if (to <= old)
		return 0;
	if (!(file->range.flags & LSMEM_PAGES_POOL))
		ret = lsmem_pages_zero(file, old, min_t(loff_t, PAGE_ALIGN(old), from));
	return ret ?: lsmem_range_free(&file->range, DIV_ROUND_UP_ULL(old, PAGE_SIZE),
				       DIV_ROUND_UP_ULL(to, PAGE_SIZE));
}

static int lsmem_pages_write_begin(LSMEM_WRITE *by, struct address_space *mapping, loff_t pos,
				   unsigned int len, LSMEM_WRITTEN **written, void **data)
{
	struct lsmem_file *file = lsmem_file_of(mapping->host);
	loff_t old = i_size_read(&file->inode);
	struct folio *folio;
	int ret;

	lsmem_pages_room(file);
	ret = lsmem_pages_grow(file, old, pos, pos + len);
	if (ret)
		return ret;
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
	if (pos + copied > i_size_read(inode)) {
		if (lsmem_range_resize(&lsmem_file_of(inode)->range, pos + copied))
			copied = 0;
		else
			i_size_write(inode, pos + copied);
	}
	if (copied) {
		folio_mark_uptodate(folio);
		folio_mark_dirty(folio);
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

static void lsmem_pages_fault_room(struct vm_fault *vmf)
{
	if (!(vmf->flags & FAULT_FLAG_RETRY_NOWAIT))
		lsmem_pages_room(lsmem_file_of(file_inode(vmf->vma->vm_file)));
}

static vm_fault_t lsmem_pages_fault(struct vm_fault *vmf)
{
	struct file *f = vmf->vma->vm_file;
	struct lsmem_file *file = lsmem_file_of(file_inode(f));
	bool next = vmf->pgoff == READ_ONCE(file->last) + 1;

	lsmem_pages_fault_room(vmf);
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
	lsmem_pages_fault_room(vmf);
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
	long left = LONG_MAX;
	int ret, err;

	/* What has only been ended by others may not be durable yet: hence lsmem_sync() in any case. */
	ret = lsmem_pages_write(file, start >> PAGE_SHIFT, end >> PAGE_SHIFT, &left);
	err = file_check_and_advance_wb_err(f);
	if (!ret)
		ret = err;
	return ret || !store->durable ? ret : lsmem_sync(store, 0);
}

/*
 * What could not be written at a close: because the task is being killed, or for a reason that may pass.
 * The work holds the inode.
 */
static void lsmem_pages_late(struct work_struct *work)
{
	struct lsmem_file *file = container_of(to_delayed_work(work), struct lsmem_file, late);
	int ret = lsmem_pages_write_all(file);

	if (ret && lsmem_store_active(file->store) && file->tries++ < LSMEM_PAGES_TRIES &&
	    queue_delayed_work(lsmem_pages_works, &file->late, HZ))
		return;
	if (ret)
		pr_err_ratelimited("%s: a range of pages (root %llx): not all of it could be written after it was closed (error %d)\n",
				   file->store->name, file->root, ret);
	iput(&file->inode);
}

static int lsmem_pages_release(struct inode *inode, struct file *f)
{
	struct lsmem_file *file = lsmem_file_of(inode);

	if (f->f_mode & FMODE_WRITE && lsmem_pages_write_all(file)) {
		ihold(inode);
		file->tries = 0;
		if (!queue_delayed_work(lsmem_pages_works, &file->late, 0))
			iput(inode);	/* it is queued, and not the last reference */
	}
	mutex_lock(&file->users);
	file->nr_users--;
	mutex_unlock(&file->users);
	return 0;
}

/* Free the pages [@from, @to). No fault brings an object back while it is freed. */
static int lsmem_pages_punch(struct lsmem_file *file, pgoff_t from, pgoff_t to)
{
	int ret;

	if (from >= to)
		return 0;
	filemap_invalidate_lock(&file->inode.i_data);
	truncate_pagecache_range(&file->inode, (loff_t)from << PAGE_SHIFT,
				 ((loff_t)to << PAGE_SHIFT) - 1);
	ret = lsmem_range_free(&file->range, from, to);
	filemap_invalidate_unlock(&file->inode.i_data);
	return ret;
}

/* Change the length; inode_lock() held. */
static int lsmem_pages_resize(struct lsmem_file *file, loff_t length)
{
	loff_t old = i_size_read(&file->inode), less = min(length, old);
	int ret = 0;

	if (length > LSMEM_PAGES_LENGTH_MAX)
		return -EFBIG;
	if (length != old && !(file->range.flags & LSMEM_PAGES_POOL))
		ret = lsmem_pages_zero(file, less, min_t(loff_t, PAGE_ALIGN(less), max(length, old)));
	if (ret)
		return ret;
	filemap_invalidate_lock(&file->inode.i_data);
	if (length < old)
		truncate_setsize(&file->inode, length);
	ret = lsmem_range_resize(&file->range, length);
	if (!ret && length > old)
		truncate_setsize(&file->inode, length);
	filemap_invalidate_unlock(&file->inode.i_data);
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
	mutex_init(&file->users);
	mutex_init(&file->writing);
	mutex_init(&file->leaving);
	INIT_DELAYED_WORK(&file->late, lsmem_pages_late);
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
	struct lsmem_file *file = lsmem_file_of(inode);

	truncate_inode_pages_final(&inode->i_data);
	clear_inode(inode);
	if (!file->opened)
		return;
	lsmem_range_close(&file->range);
	lsmem_store_release(file->store);
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
	const struct lsmem_file *file = lsmem_file_of(inode);

	return file->store == key->store && file->root == key->root;
}

/* Context: under a spinlock. */
static int lsmem_pages_set(struct inode *inode, void *data)
{
	const struct lsmem_pages_key *key = data;
	struct lsmem_file *file = lsmem_file_of(inode);

	file->store = key->store;
	file->root = key->root;
	return 0;
}

/* Fill in a new inode. */
static int lsmem_pages_fill_inode(struct inode *inode, u64 buffer)
{
	struct lsmem_file *file = lsmem_file_of(inode);
	int ret;

	ret = lsmem_store_open(file->store);
	if (ret)
		return ret;
	ret = lsmem_range_open(&file->range, file->store, file->root);
	if (ret) {
		lsmem_store_release(file->store);
		return ret;
	}
	__module_get(THIS_MODULE);	/* the caller's file holds it */
	file->opened = true;
	file->most = buffer;
	inode->i_mode = S_IFREG | 0600;
	inode->i_uid = GLOBAL_ROOT_UID;
	inode->i_gid = GLOBAL_ROOT_GID;
	inode->i_op = &lsmem_pages_iops;
	inode->i_fop = &lsmem_pages_fops;
	inode->i_flags |= S_NOATIME | S_NOCMTIME | S_PRIVATE;
	inode->i_data.a_ops = &lsmem_pages_aops;
	/* Pages with addresses.  The page cache charges them: no __GFP_ACCOUNT. */
	mapping_set_gfp_mask(&inode->i_data, GFP_USER);
	i_size_write(inode, file->range.length);
	return 0;
}

/* The inode of a range, open. */
static struct inode *lsmem_pages_inode(struct lsmem_store *store, u64 root, u64 buffer)
{
	struct lsmem_pages_key key = { store, root };
	struct inode *inode;
	int ret;

	inode = iget5_locked(lsmem_pages_mount->mnt_sb, hash_64(root ^ (unsigned long)store, 32),
			     lsmem_pages_test, lsmem_pages_set, &key);
	if (!inode)
		return ERR_PTR(-ENOMEM);
	if (!lsmem_inode_is_new(inode)) {
		if (lsmem_file_of(inode)->opened)
			return inode;
		iput(inode);		/* another task could not open it */
		return ERR_PTR(-EBUSY);
	}
	ret = lsmem_pages_fill_inode(inode, buffer);
	if (ret) {
		iget_failed(inode);
		return ERR_PTR(ret);
	}
	unlock_new_inode(inode);
	return inode;
}

/* A file for a range, which holds the inode; the caller's reference stays. */
static struct file *lsmem_pages_file(struct inode *inode, fmode_t mode)
{
	int flags = (mode & FMODE_WRITE ? O_RDWR : O_RDONLY) | O_LARGEFILE;
	struct file *f;

	__module_get(THIS_MODULE);	/* the caller's file holds it; the new file gives it back */
	ihold(inode);
	f = alloc_file_pseudo(inode, lsmem_pages_mount, "[lsmem_pages]", flags, &lsmem_pages_fops);
	if (IS_ERR(f)) {
		iput(inode);
		module_put(THIS_MODULE);
		return f;
	}
	f->f_mode |= FMODE_LSEEK | FMODE_PREAD | FMODE_PWRITE;
	f->f_mapping = inode->i_mapping;
	return f;
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

/* Remove a range that has no other user. */
static int lsmem_pages_remove(struct lsmem_file *file)
{
	int ret;

	if (mutex_lock_killable(&file->users))
		return -EINTR;
	ret = file->removed ? -ESTALE : file->nr_users ? -EBUSY : 0;
	if (!ret) {
		truncate_inode_pages(&file->inode.i_data, 0);
		mutex_lock(&file->writing);	/* lsmem_pages_late() */
		/* Also after an error: what is left is only known to who opens it anew. */
		file->removed = true;
		ret = lsmem_range_remove(&file->range);
		mutex_unlock(&file->writing);
		if (cancel_delayed_work(&file->late))
			iput(&file->inode);	/* it held the range, and so the store */
	}
	mutex_unlock(&file->users);
	return ret;
}

/* A descriptor for an open range: @fd is reserved. */
static int lsmem_pages_use(struct lsmem_file *file, fmode_t mode, struct lsmem_pages *pages, int fd)
{
	struct lsmem_store *store = file->store;
	struct file *f = NULL;
	int ret = 0;

	if (mutex_lock_killable(&file->users))
		return -EINTR;
	if (file->removed) {
		ret = -ESTALE;
	} else {
		f = lsmem_pages_file(&file->inode, mode);
		ret = PTR_ERR_OR_ZERO(f);
	}
	if (!ret) {
		file->nr_users++;
		if (pages->buffer && mode & FMODE_WRITE)
			WRITE_ONCE(file->most, lsmem_pages_buffer(store, pages->buffer));
	}
	mutex_unlock(&file->users);
	if (ret)
		return ret;
	pages->root = file->root;
	pages->flags = file->range.flags;
	pages->table = file->range.table;
	pages->length = i_size_read(&file->inode);
	pages->buffer = (u64)READ_ONCE(file->most) * PAGE_SIZE;
	pages->fd = fd;
	fd_install(fd, f);
	return 0;
}

/* Open a range, and, if it is to be, make or remove it. */
static int lsmem_pages_get(struct lsmem_store *store, fmode_t mode, struct lsmem_pages *pages, int fd)
{
	u32 make = pages->flags & (LSMEM_PAGES_POOL | LSMEM_PAGES_ATOMIC);
	bool create = pages->flags & LSMEM_PAGES_CREATE;
	u64 root = pages->root;
	struct inode *inode;
	int ret = 0;

	if (create)
		ret = lsmem_range_create(store, make, pages->table, pages->length, &root);
	if (ret)
		return ret;
	inode = lsmem_pages_inode(store, root, lsmem_pages_buffer(store, pages->buffer));
	if (IS_ERR(inode)) {
		ret = PTR_ERR(inode);
	} else {
		ret = pages->flags & LSMEM_PAGES_REMOVE ?
		      lsmem_pages_remove(lsmem_file_of(inode)) :
		      lsmem_pages_use(lsmem_file_of(inode), mode, pages, fd);
		iput(inode);
	}
	if (ret && create)
		lsmem_range_forget_root(store, root);
	return ret;
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
	int ret, fd;

	if (!lsmem_pages_there())
		return -EOPNOTSUPP;
	ret = lsmem_pages_check(pages, mode);
	if (ret)
		return ret;
	if (pages->flags & LSMEM_PAGES_REMOVE) {
		pages->fd = -1;
		return lsmem_pages_get(store, mode, pages, -1);
	}
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	ret = lsmem_pages_get(store, mode, pages, fd);
	if (ret)
		put_unused_fd(fd);
	return ret;
}

/**
 * lsmem_pages_init - make the filesystem
 * Context: sleeps.  Return: 0 or an error of the kernel.
 */
int lsmem_pages_init(void)
{
	struct vfsmount *mount;
	int ret;

	lsmem_pages_works = alloc_workqueue("lsmem_pages", WQ_UNBOUND, 0);
	if (!lsmem_pages_works)
		return -ENOMEM;
	mount = kern_mount(&lsmem_pages_type);
	ret = PTR_ERR_OR_ZERO(mount);
	if (ret)
		goto err_works;
	ret = super_setup_bdi(mount->mnt_sb);
	if (ret)
		goto err_mount;
	mount->mnt_sb->s_maxbytes = LSMEM_PAGES_LENGTH_MAX;
	mount->mnt_sb->s_iflags |= SB_I_NOEXEC;
	/* Faults read ahead by themselves (lsmem_pages_fault()); this is for MADV_WILLNEED. */
	mount->mnt_sb->s_bdi->ra_pages = 0;
	mount->mnt_sb->s_bdi->io_pages = LSMEM_PAGES_WILLNEED;
	lsmem_pages_mount = mount;
	return 0;
err_mount:
	kern_unmount(mount);
err_works:
	destroy_workqueue(lsmem_pages_works);
	return ret;
}

/**
 * lsmem_pages_exit - undo lsmem_pages_init(); no range is open
 */
void lsmem_pages_exit(void)
{
	destroy_workqueue(lsmem_pages_works);	/* the last work may be about to return */
	kern_unmount(lsmem_pages_mount);
	rcu_barrier();	/* inodes are freed by RCU callbacks */
}
