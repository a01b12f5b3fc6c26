// SPDX-License-Identifier: GPL-2.0
/*
 * Extensible ioctls.
 *
 * Every structure begins with a __u32 size.  What user space gives beyond what
 * this kernel knows must be zero (E2BIG); every structure published so far is
 * the first of its kind, so a smaller one is refused (EINVAL).  The structure
 * is copied back whatever the call returns: what it does not fill in is as it
 * was given.  It is copied back once before the call, too: a structure that
 * cannot be written is refused with nothing changed, or an object would be
 * made whose handle nobody knows.
 *
 * No locks.
 */
#include <linux/errno.h>
#include <linux/ioctl.h>
#include <linux/nospec.h>
#include <linux/uaccess.h>

#include "ioctl.h"

#define LSMEM_IOCTL_MAX	128	/* bytes of the largest structure */

/**
 * lsmem_ioctl_call - find and make a call
 * @table: the calls
 * @entries: how many
 * @context: for them
 * @cmd: from the user
 * @arg: from the user
 *
 * Return: what the call returns; -ENOTTY, -EFAULT, -EINVAL, -E2BIG.
 */
long lsmem_ioctl_call(const struct lsmem_ioctl *table, size_t entries, void *context,
		      unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	u64 buffer[LSMEM_IOCTL_MAX / sizeof(u64)];
	size_t i;
	u32 size;
	long ret;

	for (i = 0; i < entries; i++)
		if (_IOC_TYPE(cmd) == _IOC_TYPE(table[i].cmd) &&
		    _IOC_NR(cmd) == _IOC_NR(table[i].cmd))
			break;
	if (i == entries)
		return -ENOTTY;
	i = array_index_nospec(i, entries);
	if (WARN_ON_ONCE(table[i].size > sizeof(buffer)))
		return -ENOTTY;
	if (get_user(size, (u32 __user *)user))
		return -EFAULT;
	if (size < table[i].size || size > PAGE_SIZE)
		return size > PAGE_SIZE ? -E2BIG : -EINVAL;
	ret = copy_struct_from_user(buffer, table[i].size, user, size);
	if (ret)
		return ret;
	if (copy_to_user(user, buffer, table[i].size))
		return -EFAULT;
	ret = table[i].call(context, buffer);
	if (copy_to_user(user, buffer, table[i].size))
		return ret ?: -EFAULT;
	return ret;
}
