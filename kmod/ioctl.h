/* SPDX-License-Identifier: GPL-2.0 */
/* Extensible ioctls: size first, a table of calls.  See ioctl.c. */
#ifndef LSMEM_IOCTL_H
#define LSMEM_IOCTL_H

#include <linux/types.h>

/**
 * struct lsmem_ioctl - one call
 * @cmd: its number; the size in it is not looked at
 * @size: of the structure as this kernel knows it
 * @call: gets the context of the table's owner and the structure in kernel memory
 */
struct lsmem_ioctl {
	unsigned int cmd;
	size_t size;
	long (*call)(void *context, void *arg);
};

#define LSMEM_IOCTL(number, type, function) {					\
	.cmd = (number),							\
	.size = sizeof(type),							\
	.call = (function),							\
}

long lsmem_ioctl_call(const struct lsmem_ioctl *table, size_t entries, void *context,
		      unsigned int cmd, unsigned long arg);

#endif
