/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where kernels differ in what a filesystem sees.  See compat.h.
 */
#ifndef LSMEM_COMPAT_FS_H
#define LSMEM_COMPAT_FS_H

#include <linux/fs.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>

#include "probed.h"

/* After 6.12: batches of folios have a header of their own, and another size. */
#ifdef LSMEM_HAVE_FOLIO_BATCH_H
#include <linux/folio_batch.h>
#define LSMEM_FOLIO_BATCH	FOLIO_BATCH_SIZE
#else
#include <linux/pagevec.h>
#define LSMEM_FOLIO_BATCH	PAGEVEC_SIZE
#endif

/* The first argument of setattr(). */
#ifdef LSMEM_HAVE_IDMAP
#define LSMEM_IDMAP		struct mnt_idmap
#else
#define LSMEM_IDMAP		struct user_namespace
#endif

/* The first argument of write_begin() and write_end(). */
#ifdef LSMEM_HAVE_WRITE_KIOCB
#define LSMEM_WRITE		const struct kiocb
#else
#define LSMEM_WRITE		struct file
#endif

/* What write_begin() gives, and write_end() gets. */
#ifdef LSMEM_HAVE_WRITE_FOLIO
#define LSMEM_WRITTEN		struct folio
static inline struct folio *lsmem_written_folio(struct folio *folio)
{
	return folio;
}

static inline struct folio *lsmem_folio_written(struct folio *folio)
{
	return folio;
}
#else
#define LSMEM_WRITTEN		struct page
static inline struct folio *lsmem_written_folio(struct page *page)
{
	return page_folio(page);
}

static inline struct page *lsmem_folio_written(struct folio *folio)
{
	return &folio->page;
}
#endif

/* Is the inode new, and to be filled in?  From iget5_locked(). */
static inline bool lsmem_inode_is_new(struct inode *inode)
{
#ifdef LSMEM_HAVE_INODE_STATE
	return inode_state_read_once(inode) & I_NEW;
#else
	return inode->i_state & I_NEW;
#endif
}

/* A locked folio for write_begin(), or an ERR_PTR().  Before 6.4, without memory there is none. */
static inline struct folio *lsmem_folio_begin(struct address_space *mapping, pgoff_t index)
{
	struct folio *folio = __filemap_get_folio(mapping, index, FGP_LOCK | FGP_WRITE | FGP_CREAT |
						  FGP_STABLE, mapping_gfp_mask(mapping));

	return folio ?: ERR_PTR(-ENOMEM);
}

/**
 * lsmem_shmem_file - a file of the kernel's shmem, whose memory is charged as it comes into use
 * @name: shown in the maps of processes
 * @bytes: its length
 * Return: the file or an ERR_PTR().
 */
static inline struct file *lsmem_shmem_file(const char *name, loff_t bytes)
{
#ifdef LSMEM_HAVE_VMA_FLAGS_TYPE
	return shmem_file_setup(name, bytes, mk_vma_flags(VMA_NORESERVE_BIT));
#else
	return shmem_file_setup(name, bytes, VM_NORESERVE);
#endif
}

#endif
