/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Snapshots of a scan: a version, the live bitmap as it was then, and seglets that are kept back.  See
 * snapshot.c.  lsmem_snapshot_cut() chooses the version and copies the bitmap, lsmem_snapshots_keep()
 * decides which seglets are kept back, lsmem_snapshots_press() that writers need them.  Callers: frozen.c,
 * the descriptor of a snapshot; compact.c, clean.c and retire.c, what moves and frees; log.c, writers.
 */
#ifndef LSMEM_SNAPSHOT_H
#define LSMEM_SNAPSHOT_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>

#include "../uapi/lsmem.h"
#include "livemap.h"

struct lsmem_store;

#define LSMEM_SNAPSHOTS_MAX	4u	/* default of limits/snapshots_max */
#define LSMEM_SNAPSHOTS_MOST	16u	/* its bound: who frees a seglet asks each of them */
#define LSMEM_SNAPSHOT_MS	60000u	/* default of limits/snapshot_ms */
#define LSMEM_SNAPSHOT_SHARE	500u	/* default of limits/snapshot_kept, per mille of the free seglets */

/**
 * struct lsmem_frozen - a snapshot
 * @store: held open
 * @place: in snapshots.places
 * @user: who has made it
 * @node: in snapshots.list, until it has ended; under snapshots.lock, as all that follows @until
 * @window: what the reader maps first: a struct lsmem_snapshot_page in a page of its own, and @salts
 * @bytes: of @window and, behind it, the frozen bitmap and @late, whole pages
 * @copy: the frozen bitmap
 * @salts: of the seglets, in @window
 * @trailers: in @window: bit of a seglet: it is, or was, of a cache segment
 * @cold: of a tiered store, in @window: bit of an index: its object was COLD at the version, and neither has been
 *	read nor has changed since.  Who clears a bit sees to it that the reader gets the object
 * @late: of a tiered store: bits of the entries of those that have changed
 * @some: bit of a seglet: it has a bit in @copy; valid once @copied
 * @some_late: the same of @late
 * @kept: bit of a seglet: it is kept back
 * @until: of a seglet that is kept back: it can go when the reader is done with all below this number
 * @epoch: what was vacated or retired at this epoch or before holds nothing of the snapshot
 * @nr_kept: bits in @kept
 * @done: the reader is done with what begins in seglets below; from the number of seglets on, with @late
 * @copied: the copy is made
 * @stands: it has neither ended nor been revoked
 * @over: revokes it when its time is over; frees what it kept back when it is revoked
 */
struct lsmem_frozen {
	struct lsmem_store *store;
	struct list_head place;
	kuid_t user;
	struct list_head node;
	struct lsmem_snapshot_page *window;
	size_t bytes;
	struct lsmem_livemap_copy copy;
	__u32 *salts;
	unsigned long *trailers;
	unsigned long *cold;
	struct lsmem_livemap_copy late;
	unsigned long *some;
	unsigned long *some_late;
	unsigned long *kept;
	u32 *until;
	u64 epoch;
	u32 nr_kept;
	u32 done;
	bool copied;
	bool stands;
	struct delayed_work over;
};

/**
 * struct lsmem_snapshots - the snapshots of a store
 * @lock: protects @list and what snapshots keep back
 * @list: those that have not ended; changes of objects go through it under rcu_read_lock()
 * @places: all that there are, and those that are being made: at most LSMEM_SNAPSHOTS_MOST; under @lock
 * @nr: how many
 * @kept: seglets that any of them keeps back; read without the lock as a hint
 * @cutting: one cut at a time
 * @copying: a cut copies the live bitmap: nothing moves; read under rcu_read_lock()
 * @next_cut: no cut begins before, ktime in ns; under @cutting
 * @revoked: how many were revoked
 * @most: most snapshots at a time
 * @time_ms: how long one may last
 * @share: per mille of the free seglets that one may keep back
 * @waiting: a cut of a tiered store waits for compactors; see lsmem_snapshots_hold()
 * @moving: compactors that compact, or are about to
 * @room: of a tiered store: seglets that eviction makes free for a snapshot that is to be cut
 */
struct lsmem_snapshots {
	spinlock_t lock;
	struct list_head list;
	struct list_head places;
	u32 nr;
	u32 kept;
	struct mutex cutting;
	bool copying;
	u64 next_cut;
	u64 revoked;
	u32 most;
	u32 time_ms;
	u32 share;
	bool waiting;
	atomic_t moving;
	u32 room;
};

void lsmem_snapshots_setup(struct lsmem_store *store);
struct lsmem_frozen *lsmem_snapshot_new(struct lsmem_store *store);
int lsmem_snapshot_cut(struct lsmem_frozen *frozen, u32 kept_max, u32 time_ms);
int lsmem_snapshot_done(struct lsmem_frozen *frozen, u32 seglet);
void lsmem_snapshot_end(struct lsmem_frozen *frozen);
void lsmem_snapshot_settle(struct lsmem_frozen *frozen);
u32 lsmem_snapshots_keep(struct lsmem_store *store, u32 *seglets, u32 nr, u64 epoch, u32 salt, bool trailers);
bool lsmem_snapshots_stop(struct lsmem_store *store);
void lsmem_snapshots_press(struct lsmem_store *store);
bool lsmem_snapshots_hold(const struct lsmem_store *store);
void lsmem_snapshots_moving(struct lsmem_store *store, bool moving);
bool lsmem_snapshots_copying(const struct lsmem_store *store);
void lsmem_snapshots_rest(struct lsmem_store *store);
int lsmem_snapshots_init(void);
void lsmem_snapshots_exit(void);

#endif
