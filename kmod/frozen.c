// SPDX-License-Identifier: GPL-2.0
/*
 * The descriptor of a snapshot: an anonymous file that holds its store, and shows the frozen bitmap.
 *
 * The window is memory of the kernel that belongs to the file alone, mapped read-only, page by page.  A mapping
 * holds the file: the snapshot ends with the last of both.
 *
 * No locks.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/vmalloc.h>

#include "compat/compat.h"
#include "frozen.h"
#include "ioctl.h"
#include "registry.h"
#include "snapshot.h"
#include "store.h"
#include "through.h"

static vm_fault_t lsmem_frozen_fault(struct vm_fault *vmf)
{
	const struct lsmem_frozen *frozen = vmf->vma->vm_private_data;
	u64 offset = (u64)vmf->pgoff << PAGE_SHIFT;

	if (vmf->pgoff >= frozen->bytes >> PAGE_SHIFT)
		return VM_FAULT_SIGBUS;
	if (offset < frozen->window->livemap.offset) {
		vmf->page = vmalloc_to_page((void *)frozen->window + offset);
	} else {
		const struct lsmem_livemap_copy *copy = &frozen->copy;
		u64 page = (offset - frozen->window->livemap.offset) >> PAGE_SHIFT;

		if (page >= copy->nr_pages) {
			page -= copy->nr_pages;
			copy = &frozen->late;
		}
		vmf->page = virt_to_page(copy->pages[page]);
	}
	get_page(vmf->page);
	return 0;
}

static const struct vm_operations_struct lsmem_frozen_vm_ops = {
	.fault = lsmem_frozen_fault,
};

static int lsmem_frozen_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct lsmem_frozen *frozen = file->private_data;

	/* In a file that is open for reading only a shared mapping has no VM_SHARED. */
	if (!(vma->vm_flags & VM_MAYSHARE) ||
	    vma->vm_pgoff + vma_pages(vma) > frozen->bytes >> PAGE_SHIFT)
		return -EINVAL;
	if (vma->vm_flags & (VM_EXEC | VM_WRITE))
		return -EPERM;
	lsmem_vm_flags(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC | VM_MAYWRITE);
	vma->vm_private_data = frozen;
	vma->vm_ops = &lsmem_frozen_vm_ops;
	return 0;
}

static long lsmem_frozen_done(void *context, void *arg)
{
	const struct lsmem_snapshot_done *done = arg;

	if (done->flags & ~LSMEM_SNAPSHOT_SETTLE || done->reserved)
		return -EINVAL;
	if (done->flags & LSMEM_SNAPSHOT_SETTLE)
		lsmem_snapshot_settle(context);
	return lsmem_snapshot_done(context, done->seglet);
}

static const struct lsmem_ioctl lsmem_frozen_ioctls[] = {
	LSMEM_IOCTL(LSMEM_IOC_SNAPSHOT_DONE, struct lsmem_snapshot_done,
		    LSMEM_SNAPSHOT_DONE_SIZE_VER0, lsmem_frozen_done),
	LSMEM_IOCTL(LSMEM_IOC_SNAPSHOT_READ, struct lsmem_snapshot_read,
		    LSMEM_SNAPSHOT_READ_SIZE_VER0, lsmem_through_ioctl),
};

static long lsmem_frozen_call(struct file *file, unsigned int cmd, unsigned long arg)
{
	return lsmem_ioctl_call(lsmem_frozen_ioctls, ARRAY_SIZE(lsmem_frozen_ioctls),
				file->private_data, cmd, arg);
}

static int lsmem_frozen_release(struct inode *inode, struct file *file)
{
	struct lsmem_frozen *frozen = file->private_data;
	struct lsmem_store *store = frozen->store;

	lsmem_snapshot_end(frozen);
	lsmem_store_release(store);
	return 0;
}

static const struct file_operations lsmem_frozen_fops = {
	.owner = THIS_MODULE,
	.release = lsmem_frozen_release,
	.unlocked_ioctl = lsmem_frozen_call,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = lsmem_frozen_mmap,
	.llseek = noop_llseek,
};

/* Make the snapshot and its file. Returns an ERR_PTR with nothing left. */
static struct file *lsmem_frozen_file(struct lsmem_store *store, struct lsmem_snapshot *snapshot)
{
	struct lsmem_frozen *frozen = lsmem_snapshot_new(store);
	struct file *file;
	int ret;

	if (IS_ERR(frozen))
		return ERR_CAST(frozen);
	ret = lsmem_snapshot_cut(frozen, snapshot->kept_max, snapshot->time_ms);
	if (ret)
		goto err_end;
	ret = lsmem_store_open(store);
	if (ret)
		goto err_end;
	file = anon_inode_getfile("[lsmem-snapshot]", &lsmem_frozen_fops, frozen, O_RDONLY);
	if (IS_ERR(file)) {
		lsmem_store_release(store);
		ret = PTR_ERR(file);
		goto err_end;
	}
	snapshot->kept_max = frozen->window->kept_max;
	snapshot->time_ms = frozen->window->time_ms;
	snapshot->version = frozen->window->version;
	snapshot->bytes = frozen->bytes;
	return file;
err_end:
	lsmem_snapshot_end(frozen);
	return ERR_PTR(ret);
}

/**
 * lsmem_frozen_ioctl - LSMEM_IOC_SNAPSHOT
 * @store: object kind; held by the caller's descriptor
 * @mode: of that descriptor
 * @snapshot: as struct lsmem_snapshot says
 *
 * Context: sleeps.  Return: 0 or an error as struct lsmem_snapshot says.
 */
long lsmem_frozen_ioctl(struct lsmem_store *store, fmode_t mode, struct lsmem_snapshot *snapshot)
{
	u64 deadline = 0;
	struct file *file;
	int fd;

	if (snapshot->flags || snapshot->reserved || snapshot->version || snapshot->bytes ||
	    snapshot->fd)
		return -EINVAL;
	if (!(mode & FMODE_READ))
		return -EBADF;
	if (!lsmem_store_active(store))
		return -EAGAIN;
	fd = lsmem_store_thawed(store, &deadline) ?: get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	file = lsmem_frozen_file(store, snapshot);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	fd_install(fd, file);
	snapshot->fd = fd;
	return 0;
}
