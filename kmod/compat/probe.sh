#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# What this kernel's headers have: prints a header of LSMEM_HAVE_*.
#
# usage: probe.sh RELEASE COMPILER FLAGS... > probed.h
#
# Each probe is a piece of C that compiles where the newer interface is there.
# The kernel's version is not asked: backports make it lie.

release=$1
shift

check() {
	"$@" -Werror=incompatible-pointer-types -Werror=implicit-function-declaration \
		-fsyntax-only -x c - 2> /dev/null
}

# Else every probe would fail, and say "an old kernel".
if ! echo '#include <linux/blkdev.h>' | check "$@"; then
	echo "probe.sh: the kernel's headers do not compile:" >&2
	echo '#include <linux/blkdev.h>' | "$@" -fsyntax-only -x c - >&2
	exit 1
fi

echo "/* Made by probe.sh for $release. */"

# 6.2: devnode gets a const device
check "$@" << 'END' && echo "#define LSMEM_HAVE_DEVNODE_CONST"
#include <linux/device.h>
static char *probe(const struct device *dev, umode_t *mode, kuid_t *uid, kgid_t *gid)
{
	return NULL;
}
struct device_type probe_type = { .devnode = probe };
END

# 6.3: the flags of a vma are not assigned
check "$@" << 'END' && echo "#define LSMEM_HAVE_VM_FLAGS_SET"
#include <linux/mm.h>
void probe(struct vm_area_struct *vma)
{
	vm_flags_mod(vma, VM_IO, VM_EXEC);
}
END

# 6.2: what is registered for RDMA has to be writable only if the device writes to it.  No interface
# tells: gup_must_unshare(), which the same series changed, left linux/mm.h in 6.3.  A kernel of which
# this says nothing is taken for an old one: its daemon can register.
check "$@" << 'END' && echo "#define LSMEM_HAVE_RDMA_READ_ONLY"
#include <linux/mm.h>
extern int gup_must_unshare;
END

# With CONFIG_TRANSPARENT_HUGEPAGE, on some machines.  6.12: the PMD of a pfn is marked (pmd_special())
check "$@" << 'END' && echo "#define LSMEM_HAVE_PMD_PFNMAP"
#include <linux/mm.h>
#ifndef CONFIG_ARCH_SUPPORTS_PMD_PFNMAP
#error
#endif
static vm_fault_t probe(struct vm_fault *vmf, unsigned int order)
{
	return VM_FAULT_FALLBACK;
}
struct vm_operations_struct probe_ops = { .huge_fault = probe };
void *probe_insert = vmf_insert_pfn_pmd;
END

# After 6.12: a pfn is a number, not a pfn_t
check "$@" << 'END' && echo "#define LSMEM_HAVE_PFN_NUMBER"
#include <linux/mm.h>
vm_fault_t probe(struct vm_fault *vmf, unsigned long pfn)
{
	return vmf_insert_pfn_pmd(vmf, pfn, false);
}
END

# 6.5: open gets the disk
check "$@" << 'END' && echo "#define LSMEM_HAVE_DISK_OPEN"
#include <linux/blkdev.h>
static int probe(struct gendisk *disk, blk_mode_t mode)
{
	return 0;
}
struct block_device_operations probe_ops = { .open = probe };
END

# 6.11: the limits of a queue, its write cache among them, are given when it is made
check "$@" << 'END' && echo "#define LSMEM_HAVE_QUEUE_FEATURES"
#include <linux/blkdev.h>
struct gendisk *probe(struct queue_limits *limits)
{
	limits->features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA;
	return blk_alloc_disk(limits, NUMA_NO_NODE);
}
END

# With CONFIG_IO_URING.  6.7: a header for drivers
uring='#include <linux/io_uring.h>'
if echo '#include <linux/io_uring/cmd.h>' | check "$@"; then
	echo "#define LSMEM_HAVE_URING_CMD_H"
	uring='#include <linux/io_uring/cmd.h>'
fi

# 6.6: a command has its SQE
check "$@" << END && echo "#define LSMEM_HAVE_URING_SQE"
$uring
const void *probe(struct io_uring_cmd *cmd)
{
	return cmd->sqe->cmd;
}
END

# After 6.12: a command has one result
check "$@" << END && echo "#define LSMEM_HAVE_URING_ONE_RESULT"
$uring
void probe(struct io_uring_cmd *cmd)
{
	io_uring_cmd_done(cmd, 0, 0);
}
END

# 6.4: completions wake a waiting task when there are enough
check "$@" << END && echo "#define LSMEM_HAVE_URING_LAZY"
$uring
void *probe(void)
{
	return io_uring_cmd_do_in_task_lazy;
}
END

# After 6.12: task work gets the request, not the command
check "$@" << END && echo "#define LSMEM_HAVE_URING_TASK_REQ"
$uring
struct io_uring_cmd *probe(struct io_tw_req req)
{
	return io_uring_cmd_from_tw(req);
}
END

# 6.3: the ids of a mount have a type
check "$@" << 'END' && echo "#define LSMEM_HAVE_IDMAP"
#include <linux/fs.h>
static int probe(struct mnt_idmap *idmap, struct dentry *dentry, struct iattr *attr)
{
	return 0;
}
struct inode_operations probe_ops = { .setattr = probe };
END

# After 6.12: the flags of a vma have a type
check "$@" << 'END' && echo "#define LSMEM_HAVE_VMA_FLAGS_TYPE"
#include <linux/shmem_fs.h>
struct file *probe(void)
{
	return shmem_file_setup("probe", 0, mk_vma_flags(VMA_NORESERVE_BIT));
}
END

# 6.12: a folio is written
check "$@" << 'END' && echo "#define LSMEM_HAVE_WRITE_FOLIO"
#include <linux/fs.h>
int probe(struct address_space_operations *ops, struct folio *folio)
{
	return ops->write_end(NULL, NULL, 0, 0, 0, folio, NULL);
}
END

# After 6.12: by a kiocb, not a file
check "$@" << 'END' && echo "#define LSMEM_HAVE_WRITE_KIOCB"
#include <linux/fs.h>
int probe(struct address_space_operations *ops, const struct kiocb *iocb)
{
	return ops->write_end(iocb, NULL, 0, 0, 0, NULL, NULL);
}
END

# After 6.12: batches of folios have a header of their own
check "$@" << 'END' && echo "#define LSMEM_HAVE_FOLIO_BATCH_H"
#include <linux/folio_batch.h>
END

# After 6.12: the state of an inode is read by functions
check "$@" << 'END' && echo "#define LSMEM_HAVE_INODE_STATE"
#include <linux/fs.h>
int probe(struct inode *inode)
{
	return inode_state_read_once(inode) & I_NEW;
}
END

# 6.8: an eventfd is signalled by 1
check "$@" << 'END' && echo "#define LSMEM_HAVE_EVENTFD_ONE"
#include <linux/eventfd.h>
void probe(struct eventfd_ctx *eventfd)
{
	eventfd_signal(eventfd);
}
END

exit 0
