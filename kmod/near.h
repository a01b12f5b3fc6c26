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
struct lsmem_near_one;
struct lsmem_store;

#define LSMEM_NEAR_OBJECTS	16u	/* of a read, at most */

/**
 * struct lsmem_nears - the near drive of a store
 * @lock: for @drive, its frames and its idle reads
 * @ends: for the ends of reads, and struct lsmem_near_part; taken by the drive's interrupts
 * @drive: NULL: there is none
 */
struct lsmem_nears {
	spinlock_t lock;
	spinlock_t ends;
	struct lsmem_near_drive *drive;
};

/**
 * struct lsmem_near_part - one of the requests of a near read
 * @read: whose end a thread that waits for a part carries out; NULL: a worker does, or it has been.  nears.ends
 * @ended: the drive has ended @read.  Written under nears.ends
 */
struct lsmem_near_part {
	struct lsmem_near_one *read;
	bool ended;
};

/**
 * struct lsmem_near_want - what a near read is for
 * @segment: index of the segment
 * @id: of the segment
 * @block: of its log on backups
 * @bytes: of the log to be read from there on; what follows in the last block does not count
 * @owner: the thread that waits for a part, or calls lsmem_near_leave() for one; what it has under way is bounded.  NULL:
 *	none waits
 * @nr: of @part, 1 .. LSMEM_NEAR_OBJECTS
 * @part: for the other calls; not used for another read
 * @ended: called at most once for each of @part, before @done: a thread that waits for it should call lsmem_near_end().
 *	Context: nears.ends held, interrupts are off
 * @done: called once, by lsmem_near_end() or a worker, with what was read, whole blocks; @length 0: it could not be.
 *	Returns -EIO or -EBADMSG if something that was wanted is not in it.  Context: tier.fill held, may sleep
 * @late: called at most once for each of @part, before @done, if the read takes long.  Context: nears.lock held
 */
struct lsmem_near_want {
	u32 segment;
	u64 id;
	u32 block;
	u32 bytes;
	const void *owner;
	u32 nr;
	struct lsmem_near_part *part[LSMEM_NEAR_OBJECTS];
	void (*ended)(struct lsmem_near_part *part);
	int (*done)(struct lsmem_store *store, const struct lsmem_near_want *want, const void *data, u32 length);
	void (*late)(struct lsmem_store *store, struct lsmem_near_part *part);
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

/* Is there something for lsmem_near_end() to do? */
static inline bool lsmem_near_has_ended(const struct lsmem_near_part *part)
{
	return READ_ONCE(part->ended);
}

int lsmem_near_init(void);
void lsmem_near_exit(void);
void lsmem_near_prepare(struct lsmem_store *store);
long lsmem_near_tell(struct lsmem_store *store, const struct lsmem_near *near);
void lsmem_near_forget(struct lsmem_store *store);
enum lsmem_near_room lsmem_near_room(struct lsmem_store *store, u32 segment, const void *owner);
bool lsmem_near_read(struct lsmem_store *store, const struct lsmem_near_want *want);
void lsmem_near_end(struct lsmem_store *store, struct lsmem_near_part *part);
void lsmem_near_leave(struct lsmem_store *store, struct lsmem_near_part *part);

#endif
