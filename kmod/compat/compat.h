/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where kernels differ: the only place that knows.
 *
 * The rest of the module is written once, against what is defined here; which
 * variant compiles is found by probe.sh.
 */
#ifndef LSMEM_COMPAT_H
#define LSMEM_COMPAT_H

#include <linux/blkdev.h>
#include <linux/err.h>
#include <linux/mm.h>

#include "probed.h"

#if defined(LSMEM_HAVE_PMD_PFNMAP) && !defined(LSMEM_HAVE_PFN_NUMBER)
#include <linux/pfn_t.h>
#endif

/* Is the device that devnode() gets const? */
#ifdef LSMEM_HAVE_DEVNODE_CONST
#define LSMEM_DEVNODE_CONST	const
#else
#define LSMEM_DEVNODE_CONST
#endif

/* Set and clear flags of a vma under construction. */
static inline void lsmem_vm_flags(struct vm_area_struct *vma, unsigned long set,
				  unsigned long clear)
{
#ifdef LSMEM_HAVE_VM_FLAGS_SET
	vm_flags_mod(vma, set, clear);
#else
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#endif
}

/*
 * Does the kernel ask for a writable mapping where an RDMA device is only to read?  Up to 6.1,
 * ib_umem_get() takes pages for writing whatever the access, and a shared mapping that has no
 * VM_WRITE refuses that.
 */
#ifdef LSMEM_HAVE_RDMA_READ_ONLY
#define LSMEM_RDMA_WRITES	false
#else
#define LSMEM_RDMA_WRITES	true
#endif

/*
 * Does the kernel mark the PMD of a VM_PFNMAP mapping (pmd_special()), so that nothing takes its
 * pages?  Before 6.12 it does not: get_user_pages_fast() takes them, and such mappings must have PTEs.
 */
#ifdef LSMEM_HAVE_PMD_PFNMAP
#define LSMEM_VM_HUGE			VM_HUGEPAGE	/* THP's setting "madvise" is enough */
#define LSMEM_GET_UNMAPPED_AREA		thp_get_unmapped_area
static inline vm_fault_t lsmem_insert_pfn_pmd(struct vm_fault *vmf, unsigned long pfn)
{
#ifdef LSMEM_HAVE_PFN_NUMBER
	return vmf_insert_pfn_pmd(vmf, pfn, false);
#else
	return vmf_insert_pfn_pmd(vmf, pfn_to_pfn_t(pfn), false);
#endif
}
#else
#define LSMEM_VM_HUGE			VM_NONE
#define LSMEM_GET_UNMAPPED_AREA		NULL
#endif

/* What the open() of a block device gets, and the disk it means. */
#ifdef LSMEM_HAVE_DISK_OPEN
#define LSMEM_OPENED		struct gendisk
#define LSMEM_OPEN_MODE		blk_mode_t
static inline struct gendisk *lsmem_opened_disk(struct gendisk *disk)
{
	return disk;
}
#else
#define LSMEM_OPENED		struct block_device
#define LSMEM_OPEN_MODE		fmode_t
static inline struct gendisk *lsmem_opened_disk(struct block_device *bdev)
{
	return bdev->bd_disk;
}
#endif

/**
 * lsmem_disk_alloc - a disk of memory whose driver takes bios
 * @block_bytes: logical and physical block
 * @delete_sectors: most in one discard or write-zeroes
 * @write_cache: it wants FLUSH and knows FUA
 * Return: the disk or an ERR_PTR().
 */
static inline struct gendisk *lsmem_disk_alloc(unsigned int block_bytes,
					       unsigned int delete_sectors, bool write_cache)
{
#ifdef LSMEM_HAVE_QUEUE_FEATURES
	struct queue_limits limits = {
		.logical_block_size = block_bytes,
		.physical_block_size = block_bytes,
		.io_min = block_bytes,
		.discard_granularity = block_bytes,
		.max_hw_discard_sectors = delete_sectors,
		.max_write_zeroes_sectors = delete_sectors,
		.features = BLK_FEAT_IO_STAT |
			    (write_cache ? BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA : 0),
	};

	return blk_alloc_disk(&limits, NUMA_NO_NODE);
#else
	struct gendisk *disk = blk_alloc_disk(NUMA_NO_NODE);

	if (!disk)
		return ERR_PTR(-ENOMEM);
	blk_queue_logical_block_size(disk->queue, block_bytes);
	blk_queue_physical_block_size(disk->queue, block_bytes);
	blk_queue_io_min(disk->queue, block_bytes);
	disk->queue->limits.discard_granularity = block_bytes;
	blk_queue_max_discard_sectors(disk->queue, delete_sectors);
	blk_queue_max_write_zeroes_sectors(disk->queue, delete_sectors);
	blk_queue_write_cache(disk->queue, write_cache, write_cache);
	blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
	blk_queue_flag_set(QUEUE_FLAG_IO_STAT, disk->queue);
	blk_queue_flag_clear(QUEUE_FLAG_ADD_RANDOM, disk->queue);
	blk_queue_flag_clear(QUEUE_FLAG_NOWAIT, disk->queue);
	return disk;
#endif
}

#endif
