// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that the clients of a store share: files of the kernel's shmem, one for each id that is in use.
 *
 * liblsmem keeps the index of a table's keys there.  The memory lives as long as the store in memory: no client
 * can take what another incarnation of the store has left for its own.  The length is sealed, so that no client can
 * take pages from under the mappings of others.
 *
 * No locks: the first file of an id stays.  A caller holds the store open.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/shmem_fs.h>
#include <linux/xarray.h>
#include <uapi/linux/fcntl.h>

#include "compat/fs.h"
#include "ioctl.h"
#include "shared.h"
#include "store.h"

#define LSMEM_SHARED_BYTES_MAX	(1ull << 40)

/**
 * lsmem_shared_setup - nothing is shared yet
 * @store: new
 */
void lsmem_shared_setup(struct lsmem_store *store)
{
	xa_init_flags(&store->shared, XA_FLAGS_ACCOUNT);
}

/**
 * lsmem_shared_destroy - give the files back
 * @store: it is not open
 */
void lsmem_shared_destroy(struct lsmem_store *store)
{
	struct file *file;
	unsigned long id;

	xa_for_each(&store->shared, id, file)
		fput(file);
	xa_destroy(&store->shared);
}

#ifdef CONFIG_SHMEM
/* Make the file of an id, unless another task is faster.  Returns the file of the id, or an ERR_PTR(). */
static struct file *lsmem_shared_make(struct lsmem_store *store, u32 id, u64 bytes)
{
	struct file *file = lsmem_shmem_file("lsmem-shared", bytes), *old;

	if (IS_ERR(file))	/* shmem says ENOSPC where it has no memory for an inode */
		return PTR_ERR(file) == -ENOSPC ? ERR_PTR(-ENOMEM) : file;
	SHMEM_I(file_inode(file))->seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;
	old = xa_cmpxchg(&store->shared, id, NULL, file, GFP_KERNEL_ACCOUNT);
	if (!old)
		return file;
	fput(file);
	return xa_is_err(old) ? ERR_PTR(xa_err(old)) : old;
}

/**
 * lsmem_shared_ioctl - LSMEM_IOC_SHARED
 * @store: held by the caller's descriptor
 * @mode: of that descriptor
 * @shared: as there
 *
 * Context: sleeps.  Return: 0 or an error as there.
 */
long lsmem_shared_ioctl(struct lsmem_store *store, fmode_t mode, struct lsmem_shared *shared)
{
	int flags = (mode & FMODE_WRITE ? O_RDWR : O_RDONLY) | O_LARGEFILE, fd;
	struct file *file, *opened;

	if (store->kind != LSMEM_KIND_OBJECT)
		return -EOPNOTSUPP;
	if (shared->flags || shared->fd || shared->id >= LSMEM_TABLES || shared->bytes % PAGE_SIZE ||
	    shared->bytes > LSMEM_SHARED_BYTES_MAX)
		return -EINVAL;
	if (!lsmem_store_active(store))
		return -EAGAIN;
	file = xa_load(&store->shared, shared->id);
	if (!file) {
		if (!shared->bytes)
			return -ENOENT;
		if (!(mode & FMODE_WRITE))
			return -EBADF;
		file = lsmem_shared_make(store, shared->id, shared->bytes);
		if (IS_ERR(file))
			return PTR_ERR(file);
	}
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	opened = dentry_open(&file->f_path, flags, current_cred());
	if (IS_ERR(opened)) {
		put_unused_fd(fd);
		return PTR_ERR(opened);
	}
	shared->bytes = i_size_read(file_inode(file));
	shared->fd = fd;
	fd_install(fd, opened);
	return 0;
}
#else
long lsmem_shared_ioctl(struct lsmem_store *store, fmode_t mode, struct lsmem_shared *shared)
{
	return -EOPNOTSUPP;
}
#endif
