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

#define LSMEM_NEAR_OBJECTS	16u	/* of a read, at most */

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
 * @owner: for the bound of what one thread has under way: it; NULL: it has none
 * @nr: of @what, 1 .. LSMEM_NEAR_OBJECTS
 * @what: for @done and @late
 * @done: called once, in a thread of its own, with what was read, whole blocks; @length 0: it could not be.
 *	Returns -EIO or -EBADMSG if something that was wanted is not in it.  Context: may sleep
 * @late: called at most once for each of @what, before @done, if the read takes long.  Context: nears.lock held
 */
struct lsmem_near_want {
	u32 segment;
	u64 id;
	u32 block;
	u32 bytes;
	const void *owner;
	u32 nr;
	void *what[LSMEM_NEAR_OBJECTS];
	int (*done)(struct lsmem_store *store, const struct lsmem_near_want *want, const void *data, u32 length);
	void (*late)(struct lsmem_store *store, void *what);
};

/**
 * enum lsmem_near_room - can something be read from the near drive?
 * @LSMEM_NEAR_NOW: it can
 * @LSMEM_NEAR_LATER: when a read has ended
 * @LSMEM_NEAR_NEVER: there is no drive, or it is not known where the segment is there: the daemon's
 */
enum lsmem_near_room {
	LSMEM_NEAR_NOW,
	LSMEM_NEAR_LATER,
	LSMEM_NEAR_NEVER,
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
enum lsmem_near_room lsmem_near_room(struct lsmem_store *store, u32 segment, const void *owner);
bool lsmem_near_read(struct lsmem_store *store, const struct lsmem_near_want *want);

#endif
