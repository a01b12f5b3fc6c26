/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A store: one log with its seglets, handles, cleaner and interfaces.  See store.c.
 * lsmem_store_create() decides whether a store can be made, lsmem_store_destroy() whether it can
 * go.  Callers: control.c, main.c.  The lock order of the module is here, at struct lsmem_store.
 */
#ifndef LSMEM_STORE_H
#define LSMEM_STORE_H

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/ktime.h>
#include <linux/mutex.h>
#include <linux/percpu_counter.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "balance.h"
#include "buffer.h"
#include "clean.h"
#include "cold.h"
#include "compact.h"
#include "counters.h"
#include "epoch.h"
#include "fault.h"
#include "fetch.h"
#include "seglet.h"
#include "handle.h"
#include "log.h"
#include "near.h"
#include "parked.h"
#include "repl.h"
#include "retire.h"
#include "segment.h"
#include "snapshot.h"
#include "space.h"

struct gendisk;
struct lsmem_watches;

#define LSMEM_GIVEN_BYTES	32	/* a given name and its terminating zero */

/**
 * struct lsmem_store - a store
 *
 * Lock order, outermost first; written here and nowhere else:
 *
 *	attachment->mutex		one call of a daemon at a time (repl.c)
 *	tier.fill			one answer of a daemon at a time (fetch.c)
 *	  file->users			descriptors of a range of pages (pagefs.c)
 *	  buffers.lock			set of page buffers (buffer.c)
 *	  inode_lock (the VFS's)	length and holes of a range of pages (pagefs.c)
 *	  mmap_lock (the kernel's)	a page fault of a range of pages takes the four below
 *	    store->views.hiding		what clients see of the handle table (window.c)
 *	    invalidate_lock (the VFS's)	a hole against faults (pagefs.c); shared by reads
 *	    file->leaving		the hand of a page buffer (pages.c)
 *	      file->writing		write-back of a range of pages (pages.c)
 *	        folio_lock (the kernel's)	many, in the order of pages, by write-back alone
 *	          range->lock		tree of a range of pages, and what is pending (range.c)
 *	    lsmem_stores_lock		the set of stores (store.c)
 *	      store->mutex		life: state, attach, load, activation
 *	        disk->open_mutex	(the block layer's) opens of a disk (block.c)
 *	        store->plan.mutex		levels and victims (balance.c)
 *	        store->views.lock	set of clients (epoch.c)
 *	          queue->lock		bios that wait for the daemon (bioqueue.c)
 *	          cold_bios->lock	bios that wait for blocks (coldbio.c)
 *	          aheads->lock		reads that go on where others have ended (ahead.c)
 *	          parks.lock		waits that no thread makes (parked.c)
 *	          fetches.lock		fetch requests (fetch.c)
 *	          tier.evicting		words that become COLD; groups, which hold objects (evict.c, group.c)
 *	          head->lock		one head (log.c); never two
 *	            store->segments.lock	segments, spares, retires (segment.c)
 *	              snapshots.lock	what snapshots keep back (snapshot.c)
 *	                seglets.lock	free seglets (seglet.c)
 *
 * Under tier.evicting, and in an append, a change takes ring->lock (watch.c), and under that only the lock of a chunk
 * of a snapshot's copy (livemap.c).  watches->mutex (watch.c) and watcher->mutex (watcher.c) are taken with none held;
 * user memory is accessed under the latter.
 * snapshots.cutting (snapshot.c) is taken with none of them held, and of them only snapshots.lock under it.
 *
 * No user memory is accessed under a spinlock or store->mutex.  The copies of NEXT, ACK, LOAD,
 * PLACE and WORDS run under attachment->mutex, those of FILL under tier.fill, which no page fault takes.  A page
 * fault in a range of pages can wait for space (log.c) and for a fetch (fetch.c), which a daemon ends: a
 * daemon whose buffers are such pages waits for itself, until these waits end.  Under a folio's lock
 * the kernel copies user memory with page faults disabled; under the others of the four it is not accessed.
 * Kernel readers of seglets hold rcu_read_lock(): a seglet is reused only after a grace period.
 *
 * @name: of its device, terminated
 * @kind: LSMEM_KIND_*
 * @durable: has a daemon and backups
 * @charged: its memory is charged to a memory cgroup
 * @state: LSMEM_STATE_*; under @mutex, read with lsmem_store_active()
 * @activation: wait queue of polls of its device (chardev.c)
 * @uuid: of its log; set when a daemon attaches, or when it is created for a log
 * @mutex: see above
 * @node: in the set of stores; under lsmem_stores_lock, as @opens, @lingering, @sealed and @given
 * @opens: how often it is held open (registry.c)
 * @lingering: by how many ranges of pages that are closed, and still written
 * @sealed: cannot be opened
 * @given: the name it was given, "": none
 * @minor: of its device, -1: none yet
 * @bytes: memory of the log, bytes
 * @capacity: most live bytes
 * @live: bytes of live entries (entry.c)
 * @counters: statistics of writers (counters.c)
 * @clock: store time when ktime was @clock_base
 * @clock_base: ktime in ns
 * @seglets: memory (seglet.c)
 * @segments: the log (segment.c)
 * @heads: open segments that appends go to (log.c)
 * @space: writers that wait for space (space.c)
 * @handles: the handle table (handle.c)
 * @views: views of user space (epoch.c)
 * @plan: which level makes room, from which segments (balance.c)
 * @compaction: the compactors (compact.c)
 * @cleaner: the cleaner (clean.c)
 * @retires: groups of segments that retire (retire.c)
 * @snapshots: snapshots of scans (snapshot.c)
 * @repl: the daemon (repl.c)
 * @parks: waits for durability that no thread makes (parked.c)
 * @tier: what a tiered store has beyond others (cold.c)
 * @fetches: its fetch requests (fetch.c)
 * @nears: the drive that is read without the daemon (near.c)
 * @buffers: its page buffers (buffer.c)
 * @shared: memory that its clients share, files by id (shared.c)
 * @watches: which tables are watched (watch.c)
 * @dev: its device, which counts references to the store
 * @cdev: of an object store
 * @disk: of a block store, while it is active; see lsmem_store_give()
 * @waiting: FLUSH and FUA bios of the disk of a durable store (bioqueue.c)
 * @cold_bios: bios of the disk of a tiered store that wait for blocks (coldbio.c)
 * @aheads: reads of this disk that go on where others have ended (ahead.c)
 * @debugfs: its directory in debugfs
 * @faults: fault injection (fault.c)
 * @uid: owner of its node
 * @gid: group of its node
 * @mode: permissions of its node
 */
struct lsmem_store {
	char name[LSMEM_NAME_BYTES];
	u32 kind;
	bool durable;
	bool charged;
	u32 state;
	wait_queue_head_t activation;
	u8 uuid[LSMEM_UUID_BYTES];
	struct mutex mutex;
	struct list_head node;
	u32 opens;
	u32 lingering;
	bool sealed;
	char given[LSMEM_GIVEN_BYTES];
	int minor;
	u64 bytes;

	u64 capacity;
	struct percpu_counter live;
	struct lsmem_counters __percpu *counters;
	u64 clock;
	u64 clock_base;

	struct lsmem_seglets seglets;
	struct lsmem_segments segments;
	struct lsmem_heads heads;
	struct lsmem_space space;
	struct lsmem_handles handles;
	struct lsmem_views views;
	struct lsmem_plan plan;
	struct lsmem_compaction compaction;
	struct lsmem_cleaner cleaner;
	struct lsmem_retires retires;
	struct lsmem_snapshots snapshots;
	struct lsmem_repl repl;
	struct lsmem_parks parks;
	struct lsmem_tier tier;
	struct lsmem_fetches fetches;
	struct lsmem_nears nears;
	struct lsmem_buffers buffers;
	struct xarray shared;
	struct lsmem_watches *watches;

	struct device dev;
	struct cdev cdev;
	struct gendisk *disk;
	struct lsmem_bioqueue *waiting;
	struct lsmem_coldbios *cold_bios;
	struct lsmem_aheads *aheads;
	struct dentry *debugfs;
	struct lsmem_faults faults;
	uid_t uid;
	gid_t gid;
	umode_t mode;
};

/*
 * Wait on a queue of the store until @condition, at most @bound jiffies.  Returns as
 * wait_event_killable_timeout().  Callers of object calls hold no locks, so the wait is killable
 * and freezable.  Block I/O also comes from kernel threads, and from under the locks of a
 * filesystem: it waits in TASK_IDLE and cannot be frozen.
 */
#define lsmem_wait_event(store, queue, condition, bound)				\
({											\
	long __bound = (bound), __ret = __bound;					\
											\
	might_sleep();									\
	if (___wait_cond_timeout(condition))						\
		;									\
	else if ((store)->kind == LSMEM_KIND_BLOCK)					\
		__ret = ___wait_event((store)->queue, ___wait_cond_timeout(condition),	\
				      TASK_IDLE, 0, __bound,				\
				      __ret = schedule_timeout(__ret));			\
	else										\
		__ret = ___wait_event((store)->queue, ___wait_cond_timeout(condition),	\
				      (TASK_KILLABLE | TASK_FREEZABLE), 0, __bound,	\
				      __ret = schedule_timeout(__ret));			\
	__ret;										\
})

int lsmem_store_create(const struct lsmem_create *create, struct lsmem_store **out);
int lsmem_store_destroy(const char *name, bool force);
int lsmem_stores_init(void);
void lsmem_stores_exit(void);


/**
 * lsmem_store_time - the store's clock
 * @store: the store
 * Return: units of 1024 ns; never decreases, also across recoveries.
 */
static inline u64 lsmem_store_time(const struct lsmem_store *store)
{
	return store->clock + ((ktime_get_ns() - store->clock_base) >> 10);
}

static inline bool lsmem_store_active(const struct lsmem_store *store)
{
	/* Pairs with lsmem_store_activate(): a task that sees it active sees all of it. */
	return smp_load_acquire(&store->state) == LSMEM_STATE_ACTIVE;
}

/**
 * lsmem_store_frozen - must clients wait, although the store is active?
 * @store: the store
 *
 * What looks in an append is waited for if it finds that they need not (freeze.c).
 */
static inline bool lsmem_store_frozen(const struct lsmem_store *store)
{
	return unlikely(READ_ONCE(store->repl.frozen));
}

/**
 * lsmem_store_thawed - wait while the store is frozen
 * @store: active
 * @deadline: as for lsmem_space_wait()
 * Return: 0, or as lsmem_space_thaw().
 */
static inline int lsmem_store_thawed(struct lsmem_store *store, u64 *deadline)
{
	return lsmem_store_frozen(store) ? lsmem_space_thaw(store, deadline) : 0;
}

#endif
