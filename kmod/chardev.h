/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/lsmem*: object stores.  See chardev.c. */
#ifndef LSMEM_CHARDEV_H
#define LSMEM_CHARDEV_H

#include <linux/fs.h>

extern const struct file_operations lsmem_chardev_fops;

#endif
