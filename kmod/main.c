// SPDX-License-Identifier: GPL-2.0
/*
 * lsmem: log-structured memory.
 *
 * Module entry, exit and parameters (main.c).  The files, from the lowest layer up, which is also
 * the order of Kbuild; a file calls only files before it:
 *
 *	crc32c.c, fault.c			CRC of entries, fault injection
 *	policy.c, indices.c, joined.c		cleaning policy, sets of indices, joined requests
 *	ioctl.c, bioqueue.c, trace.c		helpers that know no store
 *	counters.c				statistics
 *	seglet.c, segment.c			memory, segments of the log
 *	livemap.c, handle.c			the live bitmap, the handle table
 *	cold.c, entry.c				what is not in memory, entries
 *	space.c, snapshot.c, log.c		waiting for space, snapshots of scans, appending
 *	epoch.c				views of user space
 *	cache.c, near.c, fetch.c, misses.c	from backups into memory
 *	watch.c					notes of changes
 *	object.c, span.c			changes
 *	durable.c				waiting until they are durable
 *	group.c, atomic.c			several changes, all or none
 *	parked.c				waits that no thread makes
 *	blockio.c, coldbio.c, ahead.c, block.c	blocks, the disk of a block store
 *	balance.c, rest.c, evict.c, compact.c	making room in memory
 *	retire.c, fetched.c, warm.c, clean.c	and on backups; what is read from there as a whole
 *	registry.c, sizes.c			the set of stores, the memory that one takes
 *	window.c				memory of a store mapped into user space
 *	tree.c, root.c, journal.c, range.c,
 *	buffer.c, pages.c, pagefs.c	ranges of pages, as files
 *	through.c, frozen.c			what a snapshot reads from backups; its descriptor
 *	shared.c				memory that clients share
 *	watcher.c				the descriptor that reads notes
 *	uring.c				commands of io_uring
 *	activate.c, load.c, freeze.c, words.c,
 *	repl.c				the daemon: recovery, and the stream
 *	chardev.c, sysfs.c, debugfs.c	interfaces of one store
 *	store.c, control.c			stores created and destroyed
 *
 * Lock order: store.h.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "block.h"
#include "control.h"
#include "crc32c.h"
#include "debugfs.h"
#include "near.h"
#include "pagefs.h"
#include "snapshot.h"
#include "store.h"
#include "uring.h"
#include "watch.h"

static unsigned int object_mb;
module_param(object_mb, uint, 0444);
MODULE_PARM_DESC(object_mb, "Make a volatile object store of this many MiB (a multiple of 8, from 128; 0: none)");

static unsigned int block_mb;
module_param(block_mb, uint, 0444);
MODULE_PARM_DESC(block_mb, "Make a volatile block store of this many MiB (a multiple of 8, from 128; 0: none)");

/*
 * A store that cannot be created does not fail the module: one created before may be open
 * already, and others can be created through /dev/lsmem-control.
 */
static void __init lsmem_make(u32 kind, unsigned int mb, const char *parameter)
{
	struct lsmem_create create = { .kind = kind, .bytes = (u64)mb << 20 };
	struct lsmem_store *store;
	int ret;

	if (!mb)
		return;
	ret = lsmem_store_create(&create, &store);
	if (ret)
		pr_err("%s=%u: no store could be made (error %d); use a multiple of 8 from 128 up to what memory is free\n",
		       parameter, mb, ret);
}

static int __init lsmem_init(void)
{
	int ret;

	lsmem_crc32c_init();
	lsmem_debugfs_init();
	ret = lsmem_uring_init();
	if (ret)
		goto err_debugfs;
	ret = lsmem_pages_init();
	if (ret)
		goto err_uring;
	ret = lsmem_near_init();
	if (ret)
		goto err_pages;
	ret = lsmem_snapshots_init();
	if (ret)
		goto err_near;
	ret = lsmem_watch_init();
	if (ret)
		goto err_snapshots;
	ret = lsmem_stores_init();
	if (ret)
		goto err_watch;
	ret = lsmem_block_init();
	if (ret)
		goto err_stores;
	ret = lsmem_control_init();
	if (ret)
		goto err_block;
	lsmem_make(LSMEM_KIND_OBJECT, object_mb, "object_mb");
	lsmem_make(LSMEM_KIND_BLOCK, block_mb, "block_mb");
	return 0;
err_block:
	lsmem_block_exit();
err_stores:
	lsmem_stores_exit();
err_watch:
	lsmem_watch_exit();
err_snapshots:
	lsmem_snapshots_exit();
err_near:
	lsmem_near_exit();
err_pages:
	lsmem_pages_exit();
err_uring:
	lsmem_uring_exit();
err_debugfs:
	lsmem_debugfs_exit();
	return ret;
}

static void __exit lsmem_exit(void)
{
	lsmem_control_exit();
	lsmem_stores_exit();
	lsmem_block_exit();
	lsmem_watch_exit();
	lsmem_snapshots_exit();
	lsmem_near_exit();
	lsmem_pages_exit();
	lsmem_uring_exit();
	lsmem_debugfs_exit();
}

module_init(lsmem_init);
module_exit(lsmem_exit);
MODULE_DESCRIPTION("Log-structured memory");
MODULE_LICENSE("GPL");
