// SPDX-License-Identifier: GPL-2.0
/*
 * Windows: the memory of a store mapped into user space.
 *
 * Clients map the info page, the seglets in the order of their numbers, the seglet table, the
 * handle table and the live bitmap shared and read-only, their own view slots, and what was touched of
 * a tiered store, read-write.  These are
 * VM_PFNMAP: their pages cannot be pinned, so no device and no splice can access seglets after
 * they are freed.  An object that moves changes no PTE.  No window is torn down while it is
 * mapped: the mapping holds its file, and the file its store.  Of a frozen store the handle table is replaced
 * (lsmem_window_hide()).
 *
 * The daemon maps seglets with struct pages (VM_MIXEDMAP), so that O_DIRECT and RDMA
 * registration take them.  It may make that mapping writable only on kernels that
 * register nothing else (LSMEM_RDMA_WRITES).
 *
 * Where the kernel can (LSMEM_HAVE_PMD_PFNMAP), a client maps 2 MiB at a time by one PMD, if they
 * are contiguous in memory and the addresses fit.  Else it maps pages, a seglet at a time.  The
 * daemon maps pages, 2 MiB at a time.
 *
 * Locks: called under mmap_lock; the first mmap of slots or handles takes store->views.lock, a fault views.hiding.
 */
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/vmalloc.h>

#include "compat/compat.h"
#include "epoch.h"
#include "sizes.h"
#include "store.h"
#include "window.h"

/*
 * Offsets of the windows in the file; each has room for the largest store.  All end below 2^44,
 * the reach of mmap2() in 32-bit programs.
 */
#define LSMEM_OFFSET_SEGLETS	(1ull << 41)
#define LSMEM_OFFSET_TABLE	(2ull << 41)
#define LSMEM_OFFSET_HANDLES	(4ull << 41)
#define LSMEM_OFFSET_SLOTS	(6ull << 41)
#define LSMEM_OFFSET_SEGMENTS	(7ull << 41)
#define LSMEM_OFFSET_TOUCHED	(15ull << 40)
#define LSMEM_OFFSET_LIVEMAP	(31ull << 39)
#define LSMEM_OFFSET_END	(8ull << 41)

/* What one fault of the daemon maps; by one page table, where that has 2 MiB or more. */
#define LSMEM_DAEMON_AROUND	(2ul << 20)

#define LSMEM_SEGLETS_MAX	(LSMEM_BYTES_MAX / LSMEM_SEGLET_BYTES)
#define LSMEM_TABLE_MAX		(LSMEM_BYTES_MAX / LSMEM_SEGMENT_BYTES * \
				 (LSMEM_SEGMENTS_MOST + LSMEM_CACHES))

static_assert(LSMEM_OFFSET_TABLE - LSMEM_OFFSET_SEGLETS >= LSMEM_BYTES_MAX);
static_assert(LSMEM_SEGLETS_MAX * sizeof(struct lsmem_seglet) <=
	      LSMEM_OFFSET_HANDLES - LSMEM_OFFSET_TABLE);
static_assert((LSMEM_HANDLES_MAX + 1) * sizeof(struct lsmem_handle) <=
	      LSMEM_OFFSET_SLOTS - LSMEM_OFFSET_HANDLES);
static_assert(2 * PAGE_SIZE + LSMEM_TABLE_MAX * sizeof(struct lsmem_segment_stat) <=
	      LSMEM_OFFSET_TOUCHED - LSMEM_OFFSET_SEGMENTS);
static_assert((LSMEM_HANDLES_MAX + 1) / BITS_PER_BYTE + PAGE_SIZE <=
	      LSMEM_OFFSET_LIVEMAP - LSMEM_OFFSET_TOUCHED);
static_assert(LSMEM_BYTES_MAX / (LSMEM_ALIGN << LSMEM_LIVEMAP_SHIFT) / BITS_PER_BYTE <=
	      LSMEM_OFFSET_END - LSMEM_OFFSET_LIVEMAP);
static_assert(LSMEM_OFFSET_END == 1ull << 44);

/**
 * lsmem_window_init - make a store's info page
 * @store: has seglets and handles
 * Return: 0 or -ENOMEM.
 */
int lsmem_window_init(struct lsmem_store *store)
{
	struct lsmem_info *info = (void *)get_zeroed_page(GFP_KERNEL);

	if (!info)
		return -ENOMEM;
	info->magic = LSMEM_INFO_MAGIC;
	info->abi = LSMEM_ABI;
	info->compat = LSMEM_ABI;
	info->length = sizeof(*info);
	info->kind = store->kind;
	info->nr_seglets = store->seglets.nr;
	info->nr_handles = store->handles.common;	/* reserved ones by a call only */
	info->nr_slots = LSMEM_SLOTS;
	info->view_ms = store->views.view_ms;
	info->seglets = (struct lsmem_window){ LSMEM_OFFSET_SEGLETS, store->bytes };
	info->seglet_table = (struct lsmem_window){
		LSMEM_OFFSET_TABLE,
		PAGE_ALIGN(store->seglets.nr * sizeof(struct lsmem_seglet)),
	};
	info->handles = (struct lsmem_window){
		LSMEM_OFFSET_HANDLES,
		PAGE_ALIGN(store->handles.nr * sizeof(struct lsmem_handle)),
	};
	info->slots = (struct lsmem_window){ LSMEM_OFFSET_SLOTS, PAGE_SIZE };
	info->segments = (struct lsmem_window){
		LSMEM_OFFSET_SEGMENTS,
		store->segments.shown_bytes,
	};
	if (store->tier.on)
		info->touched = (struct lsmem_window){
			LSMEM_OFFSET_TOUCHED,
			store->tier.touched_bytes,
		};
	info->livemap = (struct lsmem_window){
		LSMEM_OFFSET_LIVEMAP,
		store->handles.livemap.bytes,
	};
	info->epoch = 1;
	store->views.info = info;
	if (!store->durable)
		return 0;
	store->views.cold = (void *)__get_free_page(GFP_KERNEL);
	if (!store->views.cold)
		return -ENOMEM;
	memset64(store->views.cold, (u64)LSMEM_WORD_COLD << LSMEM_WORD_STATE_SHIFT, PAGE_SIZE / sizeof(u64));
	return 0;
}

/**
 * lsmem_window_destroy - free the info page
 * @store: may have no info page
 */
void lsmem_window_destroy(struct lsmem_store *store)
{
	free_page((unsigned long)store->views.info);
	free_page((unsigned long)store->views.cold);
}

/* The page of the seglets window at a byte offset. */
static struct page *lsmem_window_seglet_page(struct lsmem_store *store, u64 offset)
{
	u32 nr = array_index_nospec(offset / LSMEM_SEGLET_BYTES, store->seglets.nr);
	void *seglet = lsmem_seglet_address(&store->seglets, nr);

	return virt_to_page(seglet + offset % LSMEM_SEGLET_BYTES);
}

/* The pfn at an offset in the file. Returns false where no window lies. */
static bool lsmem_window_pfn(struct lsmem_store *store, struct lsmem_client *client, u64 offset,
			     unsigned long *pfn)
{
	const struct lsmem_info *info = store->views.info;

	if (offset < PAGE_SIZE)
		*pfn = page_to_pfn(virt_to_page(store->views.info));
	else if (offset - info->seglets.offset < info->seglets.length)
		*pfn = page_to_pfn(lsmem_window_seglet_page(store, offset - info->seglets.offset));
	else if (offset - info->seglet_table.offset < info->seglet_table.length)
		*pfn = vmalloc_to_pfn((void *)store->seglets.table +
				      (offset - info->seglet_table.offset));
	else if (client && offset - info->handles.offset < info->handles.length)
		*pfn = store->views.hidden ? page_to_pfn(virt_to_page(store->views.cold)) :
		       vmalloc_to_pfn((void *)store->handles.table + (offset - info->handles.offset));
	else if (client && offset - info->slots.offset < info->slots.length)
		*pfn = page_to_pfn(virt_to_page(client->slots));
	else if (client && offset - info->touched.offset < info->touched.length)
		*pfn = vmalloc_to_pfn((void *)store->tier.touched + (offset - info->touched.offset));
	else if (client && offset - info->livemap.offset < info->livemap.length)
		*pfn = vmalloc_to_pfn((void *)store->handles.livemap.bits +
				      (offset - info->livemap.offset));
	else if (!client && offset - info->segments.offset < info->segments.length)
		*pfn = vmalloc_to_pfn((void *)store->segments.shown +
				      (offset - info->segments.offset));
	else
		return false;
	return true;
}

/* Does the mapping lie in @window? -ENXIO: it begins outside; -EINVAL: it ends outside. */
static int lsmem_window_check(struct lsmem_store *store, const struct vm_area_struct *vma,
			      const struct lsmem_window *window)
{
	u64 from = (u64)vma->vm_pgoff << PAGE_SHIFT, length = vma->vm_end - vma->vm_start;

	if (from < window->offset || from - window->offset >= window->length)
		return -ENXIO;
	return length > window->length - (from - window->offset) ? -EINVAL : 0;
}

/* ---- Clients ------------------------------------------------------------ */

/* As lsmem_client_fault(); the handle table is not hidden, or shown, meanwhile. */
static vm_fault_t lsmem_client_pages(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct lsmem_client *client = vma->vm_private_data;
	unsigned long address = ALIGN_DOWN(vmf->address, LSMEM_SEGLET_BYTES);
	unsigned long end = address + LSMEM_SEGLET_BYTES, pfn;
	vm_fault_t ret = VM_FAULT_SIGBUS;
	u64 offset;

	/* Map the page of the fault, then its neighbours in the seglet. */
	offset = (u64)vmf->pgoff << PAGE_SHIFT;
	if (!lsmem_window_pfn(client->store, client, offset, &pfn))
		return VM_FAULT_SIGBUS;
	ret = vmf_insert_pfn(vma, vmf->address & PAGE_MASK, pfn);
	if (ret != VM_FAULT_NOPAGE)
		return ret;
	for (address = max(address, vma->vm_start); address < min(end, vma->vm_end);
	     address += PAGE_SIZE) {
		offset = ((u64)vma->vm_pgoff << PAGE_SHIFT) + (address - vma->vm_start);
		if (!lsmem_window_pfn(client->store, client, offset, &pfn) ||
		    vmf_insert_pfn(vma, address, pfn) != VM_FAULT_NOPAGE)
			break;
	}
	return VM_FAULT_NOPAGE;
}

static vm_fault_t lsmem_client_fault(struct vm_fault *vmf)
{
	struct lsmem_client *client = vmf->vma->vm_private_data;
	vm_fault_t ret;

	down_read(&client->store->views.hiding);
	ret = lsmem_client_pages(vmf);
	up_read(&client->store->views.hiding);
	return ret;
}

#ifdef LSMEM_HAVE_PMD_PFNMAP
/*
 * Map the 2 MiB of the fault by one PMD.  The core asks once, while there is no page table: after
 * VM_FAULT_FALLBACK these 2 MiB are mapped by pages.  It does not ask for the vma's range.
 */
static vm_fault_t lsmem_client_pmd(struct vm_fault *vmf, unsigned int order)
{
	struct vm_area_struct *vma = vmf->vma;
	struct lsmem_client *client = vma->vm_private_data;
	unsigned long address = ALIGN_DOWN(vmf->address, PMD_SIZE), first, pfn, i;
	u64 offset;

	if (order != PMD_ORDER || address < vma->vm_start || vma->vm_end - address < PMD_SIZE)
		return VM_FAULT_FALLBACK;
	offset = ((u64)vma->vm_pgoff << PAGE_SHIFT) + (address - vma->vm_start);
	/* Not aligned: the block was of a lower order, or address and offset do not fit. */
	if (!lsmem_window_pfn(client->store, client, offset, &first) ||
	    !IS_ALIGNED(first, PTRS_PER_PTE))
		return VM_FAULT_FALLBACK;
	for (i = 1; i < PTRS_PER_PTE; i++)
		if (!lsmem_window_pfn(client->store, client, offset + i * PAGE_SIZE, &pfn) ||
		    pfn != first + i)
			return VM_FAULT_FALLBACK;
	return lsmem_insert_pfn_pmd(vmf, first);
}

static vm_fault_t lsmem_client_huge_fault(struct vm_fault *vmf, unsigned int order)
{
	struct lsmem_client *client = vmf->vma->vm_private_data;
	vm_fault_t ret;

	down_read(&client->store->views.hiding);
	ret = lsmem_client_pmd(vmf, order);
	up_read(&client->store->views.hiding);
	return ret;
}
#endif

static int lsmem_window_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;	/* the client maps again instead */
}

static const struct vm_operations_struct lsmem_client_vm_ops = {
	.fault = lsmem_client_fault,
#ifdef LSMEM_HAVE_PMD_PFNMAP
	.huge_fault = lsmem_client_huge_fault,
#endif
	.mremap = lsmem_window_mremap,
};

/**
 * lsmem_window_mmap_client - mmap of /dev/lsmem*
 * @client: the open file
 * @vma: what is asked for
 *
 * Return: 0; -EINVAL (private, beyond the window, partly), -EPERM (writable
 * and not the slots, executable), -ENXIO (no window there); of slots, as
 * lsmem_client_map().
 */
int lsmem_window_mmap_client(struct lsmem_client *client, struct vm_area_struct *vma)
{
	const struct lsmem_window page = { LSMEM_WINDOW_INFO, PAGE_SIZE };
	struct lsmem_store *store = client->store;
	const struct lsmem_info *info = store->views.info;
	bool slots = false, handles = false, writable;
	int ret;

	/* In a file that is open for reading only a shared mapping has no VM_SHARED. */
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	ret = lsmem_window_check(store, vma, &page);
	if (ret == -ENXIO)
		ret = lsmem_window_check(store, vma, &info->seglets);
	if (ret == -ENXIO)
		ret = lsmem_window_check(store, vma, &info->seglet_table);
	if (ret == -ENXIO) {
		ret = lsmem_window_check(store, vma, &info->handles);
		handles = !ret;
	}
	if (ret == -ENXIO)
		ret = lsmem_window_check(store, vma, &info->livemap);
	if (ret == -ENXIO) {
		ret = lsmem_window_check(store, vma, &info->slots);
		slots = !ret;
	}
	writable = slots;
	if (ret == -ENXIO) {
		ret = lsmem_window_check(store, vma, &info->touched);
		writable = !ret;
	}
	if (ret)
		return ret;
	if (vma->vm_flags & VM_EXEC || (vma->vm_flags & VM_WRITE && !writable))
		return -EPERM;
	ret = slots ? lsmem_client_map(client) : 0;
	if (ret)
		return ret;
	if (handles)
		lsmem_client_show(client, vma->vm_file->f_mapping);
	lsmem_vm_flags(vma, VM_PFNMAP | VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP |
		       LSMEM_VM_HUGE, VM_MAYEXEC | (writable ? 0 : VM_MAYWRITE));
	vma->vm_private_data = client;
	vma->vm_ops = &lsmem_client_vm_ops;
	return 0;
}

/**
 * lsmem_window_hide - have clients see no object in their windows, or see objects again
 * @store: active, durable
 * @hide: see no object
 *
 * Where the handle table was, they have pages of COLD words, as if all objects were on backups only: they
 * make a call for each.
 *
 * Context: sleeps; without mmap_lock.
 */
void lsmem_window_hide(struct lsmem_store *store, bool hide)
{
	const struct lsmem_window *handles = &store->views.info->handles;
	struct address_space *last = NULL;
	struct lsmem_client *client;

	down_write(&store->views.hiding);
	store->views.hidden = hide;
	up_write(&store->views.hiding);
	mutex_lock(&store->views.lock);
	list_for_each_entry(client, &store->views.shown, shown) {
		if (client->mapping != last)	/* most files have that of one node */
			unmap_mapping_range(client->mapping, handles->offset, handles->length, 1);
		last = client->mapping;
	}
	mutex_unlock(&store->views.lock);
}

/* ---- The daemon --------------------------------------------------------- */

static vm_fault_t lsmem_daemon_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct lsmem_store *store = vma->vm_private_data;
	unsigned long address = ALIGN_DOWN(vmf->address, LSMEM_DAEMON_AROUND);
	unsigned long end = min(address + LSMEM_DAEMON_AROUND, vma->vm_end);
	struct page *pages[LSMEM_SEGLET_PAGES];

	address = max(address, vma->vm_start);
	while (address < end) {
		u64 offset = ((u64)vma->vm_pgoff << PAGE_SHIFT) + (address - vma->vm_start) -
			     store->views.info->seglets.offset;
		unsigned long nr = min((end - address) >> PAGE_SHIFT, LSMEM_SEGLET_PAGES);
		unsigned long left = nr, i;
		int ret;

		for (i = 0; i < nr; i++)
			pages[i] = lsmem_window_seglet_page(store, offset + i * PAGE_SIZE);
		ret = vm_insert_pages(vma, address, pages, &left);
		if (ret == -EBUSY)
			left--;		/* mapped before, or by the fault of another thread */
		else if (ret)
			return vmf_error(ret);
		address += (nr - left) << PAGE_SHIFT;
	}
	return VM_FAULT_NOPAGE;
}

static const struct vm_operations_struct lsmem_daemon_vm_ops = {
	.fault = lsmem_daemon_fault,
	.mremap = lsmem_window_mremap,
};

static vm_fault_t lsmem_daemon_table_fault(struct vm_fault *vmf)
{
	struct lsmem_store *store = vmf->vma->vm_private_data;
	unsigned long pfn;

	if (!lsmem_window_pfn(store, NULL, (u64)vmf->pgoff << PAGE_SHIFT, &pfn))
		return VM_FAULT_SIGBUS;
	return vmf_insert_pfn(vmf->vma, vmf->address & PAGE_MASK, pfn);
}

static const struct vm_operations_struct lsmem_daemon_table_vm_ops = {
	.fault = lsmem_daemon_table_fault,
	.mremap = lsmem_window_mremap,
};

/**
 * lsmem_window_mmap_daemon - mmap of a replication descriptor
 * @store: attached
 * @vma: what is asked for: seglets, info page, seglet table or segments
 * Return: as lsmem_window_mmap_client(); -EACCES for writable seglets on a kernel that
 * does not need them, where mprotect() says the same.
 */
int lsmem_window_mmap_daemon(struct lsmem_store *store, struct vm_area_struct *vma)
{
	const struct lsmem_window page = { LSMEM_WINDOW_INFO, PAGE_SIZE };
	const struct lsmem_info *info = store->views.info;
	int ret;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	vma->vm_private_data = store;
	ret = lsmem_window_check(store, vma, &info->seglets);
	if (!ret) {
		if (!LSMEM_RDMA_WRITES && vma->vm_flags & VM_WRITE)
			return -EACCES;
		lsmem_vm_flags(vma, VM_MIXEDMAP | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
			       VM_MAYEXEC | (LSMEM_RDMA_WRITES ? 0 : VM_MAYWRITE));
		vma->vm_ops = &lsmem_daemon_vm_ops;
		return 0;
	}
	if (ret == -ENXIO)
		ret = lsmem_window_check(store, vma, &page);
	if (ret == -ENXIO)
		ret = lsmem_window_check(store, vma, &info->seglet_table);
	if (ret == -ENXIO)
		ret = lsmem_window_check(store, vma, &info->segments);
	if (ret)
		return ret;
	if (vma->vm_flags & VM_WRITE)
		return -EPERM;
	lsmem_vm_flags(vma, VM_PFNMAP | VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		       VM_MAYEXEC | VM_MAYWRITE);
	vma->vm_ops = &lsmem_daemon_table_vm_ops;
	return 0;
}
