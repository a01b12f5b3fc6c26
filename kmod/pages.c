// SPDX-License-Identifier: GPL-2.0
/*
 * Pages: the page cache of a range, which is its page buffer, and write-back from it.
 *
 * A fault copies an object into a page and maps it, the first store to a clean page faults again and
 * makes it dirty, and write-back puts dirty pages into the log in groups (range.c).  What mmap()
 * promises of a shared file mapping (fork, mremap, madvise, GUP, a page that is charged to the task that
 * first uses it) the kernel's page cache keeps.
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
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/writeback.h>

#include "../uapi/lsmem.h"
#include "compat/fs.h"
#include "journal.h"
#include "pages.h"
#include "range.h"
#include "store.h"

#define LSMEM_PAGES_LEAVE	64u		/* pages that leave at a time */
#define LSMEM_PAGES_AHEAD	16u		/* pages that are read ahead of faults in sequence */
#define LSMEM_PAGES_ASKED	128u		/* of one read-ahead, pages that may be counted as fetched though they came early */
#define LSMEM_NO_PAGE		((pgoff_t)-1)	/* no file has it */

/* ---- Write-back ---------------------------------------------------------- */

/**
 * struct lsmem_batch - dirty pages that are written together
 * @most: how many there is room for
 * @nr: how many
 * @pages: in folios that are locked, under write-back, clean
 */
struct lsmem_batch {
	u32 most;
	u32 nr;
	struct lsmem_range_page pages[];
};

static struct lsmem_batch *lsmem_batch_new(const struct lsmem_file *file)
{
	u32 most = lsmem_range_whole(&file->range) ? LSMEM_RANGE_WHOLE : LSMEM_RANGE_BATCH;
	struct lsmem_batch *batch;

	batch = kvmalloc(struct_size(batch, pages, most), GFP_NOFS);
	if (batch)
		batch->most = most;
	return batch;
}

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
	batch->pages[batch->nr++] = (struct lsmem_range_page){
		.page = folio->index,
		.data = folio_address(folio),
	};
}

/* Take dirty pages from @from on, up to @to; @from: out: where to go on. */
static void lsmem_batch_gather(struct lsmem_batch *batch, struct address_space *mapping,
			       pgoff_t *from, pgoff_t to)
{
	struct folio_batch found;
	u32 i;

	batch->nr = 0;
	folio_batch_init(&found);
	while (batch->nr < batch->most &&
	       filemap_get_folios_tag(mapping, from, to, PAGECACHE_TAG_DIRTY, &found)) {
		for (i = 0; i < folio_batch_count(&found) && batch->nr < batch->most; i++)
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
		struct folio *folio = virt_to_folio(batch->pages[i].data);

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

/**
 * lsmem_pages_write - write dirty pages, and what else is to be written
 * @file: open
 * @from: the first page
 * @to: the last; before @from: no page
 * @left: pages that are to be written at most; out: how many are left of it
 *
 * Context: sleeps; holds no folio's lock.  Return: 0 or an error, which the mapping has noted as well.
 */
int lsmem_pages_write(struct lsmem_file *file, pgoff_t from, pgoff_t to, long *left)
{
	struct address_space *mapping = &file->inode.i_data;
	struct lsmem_batch *batch = lsmem_batch_new(file);
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

/**
 * lsmem_pages_write_all - write all that is to be written
 * @file: open
 *
 * Context, return: as lsmem_pages_write().
 */
int lsmem_pages_write_all(struct lsmem_file *file)
{
	long left = LONG_MAX;
	int ret = lsmem_pages_write(file, 0, -1, &left);

	/* Pages that were made dirty meanwhile are not counted: the bound is not exact. */
	atomic_long_set(&file->dirtied, 0);
	return ret;
}

/**
 * lsmem_pages_settle - have nothing left of a journal
 * @file: open
 *
 * Context: sleeps; holds no folio's lock.  Return: as lsmem_journal_settle().
 */
int lsmem_pages_settle(struct lsmem_file *file)
{
	int ret = 0;

	mutex_lock(&file->writing);
	if (!file->removed)
		ret = lsmem_journal_settle(&file->range);
	mutex_unlock(&file->writing);
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
	return min_t(unsigned long, LSMEM_RANGE_WHOLE, READ_ONCE(file->most) / 2);
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
 * the hand, and no further than four times around.  What cannot leave, because it is locked in memory or
 * held, is looked at again when LSMEM_PAGES_LEAVE pages more are there: else a fault would find that the page
 * which it has read before it was repeated had left, being the only one that could, for ever.
 */
static void lsmem_pages_room(struct lsmem_file *file)
{
	struct address_space *mapping = &file->inode.i_data;
	unsigned long passes = 4 * READ_ONCE(mapping->nrpages) / LSMEM_FOLIO_BATCH + 2;
	unsigned long most = READ_ONCE(file->most), pages;
	long gone = 0, ret = 0;

	if (READ_ONCE(mapping->nrpages) < max(most, READ_ONCE(file->full)) ||
	    !mutex_trylock(&file->leaving))
		return;
	while (READ_ONCE(mapping->nrpages) + LSMEM_PAGES_LEAVE / 2 > most && gone < LSMEM_PAGES_LEAVE &&
	       ret >= 0 && passes-- && !fatal_signal_pending(current)) {
		ret = lsmem_pages_pass(file);
		gone += ret;
		cond_resched();
	}
	pages = READ_ONCE(mapping->nrpages);
	WRITE_ONCE(file->full, ret >= 0 && gone < LSMEM_PAGES_LEAVE / 2 && pages >= most ?
		   pages + LSMEM_PAGES_LEAVE : 0);
	mutex_unlock(&file->leaving);
}

/**
 * lsmem_pages_dirty_room - make room in the page buffer for a page that becomes dirty
 * @file: open
 *
 * Of an atomic range, all that is dirty is written if it is much.
 *
 * Context: sleeps, killable; holds no folio's lock.
 */
void lsmem_pages_dirty_room(struct lsmem_file *file)
{
	if (lsmem_file_atomic(file) &&
	    atomic_long_read(&file->dirtied) >= lsmem_pages_dirty_most(file))
		(void)lsmem_pages_write_all(file);
	lsmem_pages_room(file);
}

/* Fill a folio. It stays locked. @asked: its object was asked for, as it was on backups only. */
static int lsmem_pages_fill(struct lsmem_file *file, struct folio *folio, bool asked)
{
	int ret = lsmem_range_read(&file->range, folio->index, folio_address(folio), asked);

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
	int ret = lsmem_pages_fill(file, folio, false);

	folio_unlock(folio);
	lsmem_pages_room(file);
	return ret;
}

static void lsmem_pages_readahead(struct readahead_control *rac)
{
	struct lsmem_file *file = lsmem_file_of(rac->mapping->host);
	pgoff_t first = readahead_index(rac), i;
	DECLARE_BITMAP(asked, LSMEM_PAGES_ASKED) = { };
	struct folio *folio;
	int ret = 0;

	for (i = 0; i < readahead_count(rac); i++)
		if (lsmem_range_ask(&file->range, first + i) && i < LSMEM_PAGES_ASKED)
			__set_bit(i, asked);
	while ((folio = readahead_folio(rac))) {
		i = folio->index - first;
		if (!ret)	/* after an error, the next use of a page reads it again */
			ret = lsmem_pages_fill(file, folio, i < LSMEM_PAGES_ASKED && test_bit(i, asked));
		folio_unlock(folio);
	}
	lsmem_pages_room(file);
}

/**
 * lsmem_pages_zero - zero a part of a page
 * @file: open
 * @from: the first byte
 * @to: behind the last; not before @from, and in the same page
 *
 * Context: sleeps.  Return: 0 or an error of the page's read.
 */
int lsmem_pages_zero(struct lsmem_file *file, loff_t from, loff_t to)
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

	lsmem_pages_dirty_room(file);
	ret = lsmem_pages_grow(file, old, pos, pos + len);
	if (ret)
		return ret;
	folio = lsmem_folio_begin(mapping, pos >> PAGE_SHIFT);
	if (IS_ERR(folio))
		return PTR_ERR(folio);
	if (!folio_test_uptodate(folio) &&
	    (len < PAGE_SIZE || file->range.flags & LSMEM_PAGES_POOL))
		ret = lsmem_pages_fill(file, folio, false);
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

/* What the kernel's page cache calls. */
const struct address_space_operations lsmem_pages_aops = {
	.read_folio = lsmem_pages_read_folio,
	.readahead = lsmem_pages_readahead,
	.writepages = lsmem_pages_writepages,
	.dirty_folio = lsmem_pages_dirty_folio,
	.write_begin = lsmem_pages_write_begin,
	.write_end = lsmem_pages_write_end,
	.migrate_folio = filemap_migrate_folio,
};

/* ---- Faults -------------------------------------------------------------- */

/* Is this a page that could not be read?  While it is read it is locked. */
static bool lsmem_pages_failed(struct address_space *mapping, pgoff_t index)
{
	struct folio *folio;
	bool failed;

	rcu_read_lock();
	folio = xa_load(&mapping->i_pages, index);
	failed = folio && !xa_is_value(folio) && !folio_test_locked(folio) &&
		 !folio_test_uptodate(folio);
	rcu_read_unlock();
	return failed;
}

static vm_fault_t lsmem_pages_fault(struct vm_fault *vmf)
{
	struct file *f = vmf->vma->vm_file;
	struct lsmem_file *file = lsmem_file_of(file_inode(f));
	bool next = vmf->pgoff == READ_ONCE(file->last) + 1;

	lsmem_count(file->store, page_faults, 1);
	/* filemap_fault() would ask for a repetition again, and mm_populate() would repeat it for ever. */
	if (lsmem_pages_failed(f->f_mapping, vmf->pgoff))
		vmf->flags |= FAULT_FLAG_TRIED;
	if (!(vmf->flags & FAULT_FLAG_RETRY_NOWAIT))
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
	if (!(vmf->flags & FAULT_FLAG_RETRY_NOWAIT))
		lsmem_pages_dirty_room(lsmem_file_of(file_inode(vmf->vma->vm_file)));
	return filemap_page_mkwrite(vmf);
}

static const struct vm_operations_struct lsmem_pages_vm_ops = {
	.fault = lsmem_pages_fault,
	.map_pages = filemap_map_pages,
	.page_mkwrite = lsmem_pages_mkwrite,
};

/**
 * lsmem_pages_mmap - map a range
 * @f: of an open range
 * @vma: as the kernel has prepared it
 *
 * Return: 0.
 */
int lsmem_pages_mmap(struct file *f, struct vm_area_struct *vma)
{
	vma->vm_ops = &lsmem_pages_vm_ops;
	return 0;
}
