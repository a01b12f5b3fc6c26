/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Near reads: objects that are on backups only, read from a drive of this host without the daemon.  See
 * near.c.  fetch.c asks, and decides which bytes are the object's; repl.c passes the daemon's calls on.
 */
#ifndef LSMEM_NEAR_H
#define LSMEM_NEAR_H

#include <linux/spinlock.h>
#include <linux/types.h>

#include "../uapi/lsmem.h"

struct lsmem_near_drive;
struct lsmem_store;

/**
 * struct lsmem_nears - the near drive of a store
 * @lock: for @drive, its frames and its idle reads
 * @drive: NULL: there is none
 */
struct lsmem_nears {
	spinlock_t lock;
	struct lsmem_near_drive *drive;
};

/**
 * struct lsmem_near_want - what a near read is for
 * @segment: index of the segment
 * @id: of the segment
 * @block: of its log on backups
 * @bytes: of the log to be read from there on; what follows in the last block does not count
 * @what: for @done
 * @done: called once, in a thread of its own, with what was read, whole blocks; @length 0: it could not be.
 *	Returns -EIO or -EBADMSG if what was wanted is not in it.  Context: may sleep
 * @late: called at most once, before @done, if the read takes long.  Context: nears.lock held
 */
struct lsmem_near_want {
	u32 segment;
	u64 id;
	u32 block;
	u32 bytes;
	void *what;
	int (*done)(struct lsmem_store *store, void *what, const void *data, u32 length);
	void (*late)(struct lsmem_store *store, void *what);
};

static inline bool lsmem_near_any(const struct lsmem_nears *nears)
{
	return READ_ONCE(nears->drive);
}

int lsmem_near_init(void);
void lsmem_near_exit(void);
void lsmem_near_prepare(struct lsmem_store *store);
long lsmem_near_tell(struct lsmem_store *store, const struct lsmem_near *near);
void lsmem_near_forget(struct lsmem_store *store);
bool lsmem_near_read(struct lsmem_store *store, const struct lsmem_near_want *want);

#endif
