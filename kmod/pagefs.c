// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges of pages as files: what is done to an open range, and how it is opened.
 *
 * A range that is open is an inode of a filesystem of the module's own, which cannot be mounted.
 *
 * Locks: see store.h for the order.
 */
#include <linux/backing-dev.h>
#include <linux/falloc.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "../uapi/lsmem.h"
#include "compat/fs.h"
#include "durable.h"
#include "entry.h"
#include "ioctl.h"
#include "pages.h"
#include "pagefs.h"
#include "range.h"
#include "registry.h"
#include "store.h"
#include "trace.h"

#define LSMEM_PAGES_FS		0x4c534d50	/* "LSMP" */
#define LSMEM_PAGES_LEAST	64u		/* pages of the smallest page buffer */
#define LSMEM_PAGES_LATE	(60 * HZ)	/* for what is left at the end to be written */
#define LSMEM_PAGES_WILLNEED	512u		/* pages that one madvise(MADV_WILLNEED) reads */

static struct vfsmount *lsmem_pages_mount;
static struct workqueue_struct *lsmem_pages_works;

/* ---- The file ------------------------------------------------------------ */

static int lsmem_pages_fsync(struct file *f, loff_t start, loff_t end, int datasync)
{
	struct lsmem_file *file = lsmem_file_of(file_inode(f));
	struct lsmem_store *store = file->range.store;
	u64 begin = ktime_get_ns();
	long left = LONG_MAX;
	int ret, err;

	/* What has only been ended by others may not be durable yet: hence lsmem_sync() in any case. */
	ret = lsmem_pages_write(file, start >> PAGE_SHIFT, end >> PAGE_SHIFT, &left);
	err = file_check_and_advance_wb_err(f);
	if (!ret)
		ret = err;
	if (!ret && store->durable)
		ret = lsmem_sync(store, 0);
	lsmem_count(store, pages_syncs, 1);
	lsmem_count(store, pages_sync_ns, ktime_get_ns() - begin);
	trace_lsmem_pages_sync(store->name, ktime_get_ns() - begin);
	if (READ_ONCE(file->range.journal)) {
		ihold(&file->inode);
		if (!queue_work(lsmem_pages_works, &file->settle))
			iput(&file->inode);	/* it is queued, and not the last reference */
	}
	return ret;
}

/* Apply what a journal has made. If that fails the next write goes on. The work holds the inode. */
static void lsmem_pages_settle_work(struct work_struct *work)
{
	struct lsmem_file *file = container_of(work, struct lsmem_file, settle);

	(void)lsmem_pages_settle(file);
	iput(&file->inode);
}

static int lsmem_pages_write_last(struct lsmem_file *file)
{
	return lsmem_pages_write_all(file) ?: lsmem_pages_settle(file);
}

/*
 * What could not be written at a close: because the task is being killed, or for a reason that may pass.
 * The work holds the inode.
 */
static void lsmem_pages_late(struct work_struct *work)
{
	struct lsmem_file *file = container_of(to_delayed_work(work), struct lsmem_file, late);
	int ret = lsmem_pages_write_last(file);

	if (ret && lsmem_store_active(file->store) && time_before(jiffies, file->until) &&
	    queue_delayed_work(lsmem_pages_works, &file->late, HZ))
		return;
	if (ret)
		pr_err_ratelimited("%s: a range of pages (root %llx): not all of it could be written after it was closed (error %d)\n",
				   file->store->name, file->root, ret);
	iput(&file->inode);
}

/* Count a descriptor; file->users is held. */
static int lsmem_pages_count(struct lsmem_file *file)
{
	int ret;

	if (file->removed)
		return -ESTALE;
	if (file->lingers) {
		ret = lsmem_store_linger_end(file->store);
		if (ret)
			return ret;
		file->lingers = false;
	}
	file->nr_users++;
	return 0;
}

static void lsmem_pages_uncount(struct lsmem_file *file)
{
	if (!--file->nr_users) {
		file->lingers = true;
		lsmem_store_linger(file->store);
	}
}

/* By /proc/PID/fd: lsmem_pages_use() counts what LSMEM_IOC_PAGES returns. */
static int lsmem_pages_open(struct inode *inode, struct file *f)
{
	struct lsmem_file *file = lsmem_file_of(inode);
	int ret;

	if (mutex_lock_killable(&file->users))
		return -EINTR;
	ret = lsmem_pages_count(file);
	mutex_unlock(&file->users);
	return ret;
}

/* Does a signal end this task?  It does not see it any more, so that no wait of it would be killable. */
static bool lsmem_pages_killed(void)
{
	return current->flags & PF_EXITING && current->exit_code & 0x7f;
}

static int lsmem_pages_release(struct inode *inode, struct file *f)
{
	struct lsmem_file *file = lsmem_file_of(inode);
	bool killed = lsmem_pages_killed();

	if (!killed) {		/* they hold the store */
		flush_work(&file->settle);
		flush_delayed_work(&file->late);
	}
	if (f->f_mode & FMODE_WRITE && (killed || lsmem_pages_write_last(file))) {
		ihold(inode);
		file->until = jiffies + LSMEM_PAGES_LATE;
		if (!queue_delayed_work(lsmem_pages_works, &file->late, 0))
			iput(inode);	/* it is queued, and not the last reference */
	}
	mutex_lock(&file->users);
	lsmem_pages_uncount(file);
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
	lsmem_pages_dirty_room(file);
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
	.open = lsmem_pages_open,
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
	INIT_WORK(&file->settle, lsmem_pages_settle_work);
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
	lsmem_buffer_remove(file->store, &file->buffer);
	lsmem_range_close(&file->range);
	if (file->lingers)
		lsmem_store_linger_release(file->store);
	else
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
	lsmem_buffer_add(file->store, &file->buffer, &inode->i_data);
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
	/* While it is in the list of buffers, no freeze begins. */
	ret = lsmem_store_frozen(store) ? -EREMCHG : lsmem_pages_count(file);
	if (!ret) {
		f = lsmem_pages_file(&file->inode, mode);
		ret = PTR_ERR_OR_ZERO(f);
		if (ret)
			lsmem_pages_uncount(file);
		else if (pages->buffer && mode & FMODE_WRITE)
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
 * While the store is frozen, the call waits.
 *
 * Context: sleeps.  Return: 0 or an error as struct lsmem_pages says.
 */
long lsmem_pages_ioctl(struct lsmem_store *store, fmode_t mode, struct lsmem_pages *pages)
{
	u64 deadline = 0;
	int ret, fd;

	if (!lsmem_pages_there())
		return -EOPNOTSUPP;
	ret = lsmem_pages_check(pages, mode) ?: lsmem_store_thawed(store, &deadline);
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
