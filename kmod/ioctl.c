// SPDX-License-Identifier: GPL-2.0
/*
 * Extensible ioctls.
 *
 * Every structure begins with a __u32 size.  What user space gives beyond what
 * this kernel knows must be zero (E2BIG).  The structure of an older program is
 * filled up with zeros, down to the first version that was published; a smaller
 * one is refused (EINVAL).  As much of the structure as both sides know is
 * copied back whatever the call returns: what the call does not fill in is as
 * it was given.  It is copied back once before the call, too: a structure that
 * cannot be written is refused with nothing changed, or the call would make an
 * object whose handle the caller never learns.
 *
 * No locks.
 */
#include <linux/errno.h>
#include <linux/ioctl.h>
#include <linux/nospec.h>
#include <linux/uaccess.h>

#include "ioctl.h"

/**
 * lsmem_ioctl_fetch - copy a structure of any version from a user
 * @to: zeroed as far as the user's structure does not reach
 * @known: bytes of the structure as this kernel knows it
 * @least: bytes of its first version
 * @user: from the user
 * @size: bytes of the user's structure
 *
 * Context: sleeps.  Return: 0; -EINVAL (smaller than @least), -E2BIG (larger
 * than a page, or what is beyond @known is not zero), -EFAULT.
 */
int lsmem_ioctl_fetch(void *to, size_t known, size_t least, const void __user *user, u32 size)
{
	if (size < least)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	return copy_struct_from_user(to, known, user, size);
}

/**
 * lsmem_ioctl_call - find and make a call
 * @table: the calls
 * @entries: how many
 * @context: for them
 * @cmd: from the user
 * @arg: from the user
 *
 * A call that returns -EIOCBQUEUED ends later, but leaves the structure as it is to be copied back.
 *
 * Return: what the call returns; -ENOTTY, -EFAULT, -EINVAL, -E2BIG.
 */
long lsmem_ioctl_call(const struct lsmem_ioctl *table, size_t entries, void *context,
		      unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	u64 buffer[LSMEM_IOCTL_MAX / sizeof(u64)];
	size_t i, shared;
	u32 size;
	long ret;

	for (i = 0; i < entries; i++)
		if (_IOC_TYPE(cmd) == _IOC_TYPE(table[i].cmd) &&
		    _IOC_NR(cmd) == _IOC_NR(table[i].cmd))
			break;
	if (i == entries)
		return -ENOTTY;
	i = array_index_nospec(i, entries);
	if (get_user(size, (u32 __user *)user))
		return -EFAULT;
	ret = lsmem_ioctl_fetch(buffer, table[i].size, table[i].min_size, user, size);
	if (ret)
		return ret;
	shared = min_t(size_t, size, table[i].size);
	if (copy_to_user(user, buffer, shared))
		return -EFAULT;
	ret = table[i].call(context, buffer);
	if (copy_to_user(user, buffer, shared))
		return !ret || ret == -EIOCBQUEUED ? -EFAULT : ret;
	return ret;
}
