/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/lsmem*: the calls on an object store.  See chardev.c.  lsmem_op_check() alone checks the
 * fields of an operation; lsmem_op_run() passes it to object.c, and lsmem_vector_span() decides
 * which operations of a vector call go to span.c.  User space calls through lsmem_chardev_fops;
 * store.c adds the device.
 */
#ifndef LSMEM_CHARDEV_H
#define LSMEM_CHARDEV_H

#include <linux/fs.h>

extern const struct file_operations lsmem_chardev_fops;

#endif
