/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Extensible ioctls: size first, a table of calls.  See ioctl.c.  lsmem_ioctl_call() finds the call
 * and decides which sizes it takes, for the ioctl methods of chardev.c, control.c and repl.c, where
 * the tables are; structures, numbers and rules of compatibility are in ../uapi/lsmem.h.
 */
#ifndef LSMEM_IOCTL_H
#define LSMEM_IOCTL_H

#include <linux/build_bug.h>
#include <linux/ioctl.h>
#include <linux/types.h>

#define LSMEM_IOCTL_MAX	128	/* bytes of the largest structure */

/**
 * struct lsmem_ioctl - one call
 * @cmd: its number; the size in it is not looked at
 * @size: bytes of the structure as this kernel knows it
 * @min_size: bytes of the first version that was published: programs built
 *	against it still work
 * @call: gets the context of the table's owner and the structure in kernel memory,
 *	@size bytes
 */
struct lsmem_ioctl {
	unsigned int cmd;
	size_t size;
	size_t min_size;
	long (*call)(void *context, void *arg);
};

/*
 * An entry of a table; @first: bytes of the first version, LSMEM_*_SIZE_VER0.
 * Built only if @type is the structure that the number was made of, begins with
 * its size, fits the buffer, has no padding at its end and never shrank.
 */
#define LSMEM_IOCTL(number, type, first, function) {				\
	.cmd = (number) +							\
	       BUILD_BUG_ON_ZERO(_IOC_SIZE(number) != sizeof(type)) +		\
	       BUILD_BUG_ON_ZERO(offsetof(type, size)) +			\
	       BUILD_BUG_ON_ZERO(sizeof_field(type, size) != sizeof(u32)),	\
	.size = sizeof(type) +							\
		BUILD_BUG_ON_ZERO(sizeof(type) > LSMEM_IOCTL_MAX) +		\
		BUILD_BUG_ON_ZERO(sizeof(type) % sizeof(u64)),			\
	.min_size = (first) +							\
		    BUILD_BUG_ON_ZERO((first) > sizeof(type)) +			\
		    BUILD_BUG_ON_ZERO((first) % sizeof(u64)),			\
	.call = (function),							\
}

int lsmem_ioctl_fetch(void *to, size_t known, size_t least, const void __user *user, u32 size);
long lsmem_ioctl_call(const struct lsmem_ioctl *table, size_t entries, void *context,
		      unsigned int cmd, unsigned long arg);

#endif
