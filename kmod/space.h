/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Space: waiting for it, and being slowed down before it is gone.  See space.c.
 * lsmem_space_taken() decides by how much writers are slowed down, lsmem_space_wait() how long an
 * append waits; log.c calls both.  What frees seglets or segments (compact.c, retire.c, clean.c,
 * repl.c) wakes the writers with lsmem_space_came().
 */
#ifndef LSMEM_SPACE_H
#define LSMEM_SPACE_H

#include <linux/atomic.h>
#include <linux/errno.h>
#include <linux/types.h>
#include <linux/wait.h>

struct lsmem_head;
struct lsmem_store;

/*
 * Deadlines of waits for space: do not wait, but return -LSMEM_EWAIT, which no user sees.
 * LSMEM_NO_STALL: but do wait at the gate, which is short.
 */
#define LSMEM_NO_WAIT	1ull
#define LSMEM_NO_STALL	2ull
#define LSMEM_EWAIT	EJUKEBOX

/**
 * struct lsmem_space - writers that wait for space
 * @wait: their wait queue
 * @stalled: how many wait
 * @serial: incremented when space may have become available
 * @clean_below: free seglets below which memory is low
 * @throttle_below: free seglets below which writers are slowed down
 * @gate: time before which no slowed-down writer continues, ktime in ns; see space.c
 * @seglet_ns: running mean of the time to free a seglet, ns
 * @stall_ms: bound of a wait
 *
 * No lock: each member is a single word.
 */
struct lsmem_space {
	wait_queue_head_t wait;
	atomic_t stalled;
	atomic_t serial;
	u32 clean_below;
	u32 throttle_below;
	atomic64_t gate;
	u64 seglet_ns;
	u32 stall_ms;
};

void lsmem_space_came(struct lsmem_store *store);
void lsmem_space_made(struct lsmem_store *store, u32 seglets, u64 ns);
void lsmem_space_taken(struct lsmem_store *store, struct lsmem_head *head);
int lsmem_space_throttle(struct lsmem_store *store, struct lsmem_head *head, u64 deadline);
int lsmem_space_wait(struct lsmem_store *store, int serial, u64 *deadline);
int lsmem_space_thaw(struct lsmem_store *store, u64 *deadline);
bool lsmem_space_stop(struct lsmem_store *store, u64 *deadline);

#endif
