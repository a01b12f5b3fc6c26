/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Retiring: victims from the end of their pass until their seglets are free.  See retire.c.
 * lsmem_retire_free() decides when they are freed: the digest is durable, and no view and no kernel
 * reader sees them.  clean.c adds groups and frees them; repl.c tells the daemon of them and takes
 * its acknowledgements.
 */
#ifndef LSMEM_RETIRE_H
#define LSMEM_RETIRE_H

#include <linux/types.h>

#include "log.h"
#include "policy.h"

#define LSMEM_VICTIMS		LSMEM_POLICY_VICTIMS	/* segments cleaned together */
#define LSMEM_RETIRES		8	/* groups that wait for their digest */

struct lsmem_event;
struct lsmem_segment;
struct lsmem_store;

/**
 * struct lsmem_retire - a group of segments whose survivors are written
 * @nr: entries of @victims; 0: no group
 * @epoch: views that began before it may still use the seglets
 * @rcu: grace period after which no kernel reader does
 * @begun: when the pass ended, ktime in ns
 * @after: a point in the log; what superseded their entries lies before it (invariant 9)
 * @emitted: the daemon has been told
 * @acked: a digest without them is durable
 * @victims: the segments
 */
struct lsmem_retire {
	u32 nr;
	bool emitted;
	bool acked;
	u64 epoch;
	unsigned long rcu;
	u64 begun;
	struct lsmem_vector_point after;
	struct lsmem_segment *victims[LSMEM_VICTIMS];
};

/**
 * struct lsmem_retires - groups that are retired, a ring
 * @ring: groups [@first, @next)
 * @first: the oldest group, not masked
 * @next: the group that the next pass makes
 * @segments: how many segments are in all groups
 *
 * Under segments.lock; the cleaner reads @first and @next without it, and others read
 * @segments as a hint.
 */
struct lsmem_retires {
	struct lsmem_retire ring[LSMEM_RETIRES];
	u32 first;
	u32 next;
	u32 segments;
};

bool lsmem_retires_full(const struct lsmem_store *store);
void lsmem_retire_add(struct lsmem_store *store, struct lsmem_segment *const *victims, u32 nr);
bool lsmem_retire_due(struct lsmem_store *store);
bool lsmem_retire_free(struct lsmem_store *store);
u32 lsmem_retire_tell(struct lsmem_store *store, struct lsmem_event *events, u32 room);
bool lsmem_retire_pending(struct lsmem_store *store);
bool lsmem_retire_ack(struct lsmem_store *store, u64 last);
void lsmem_retire_rewind(struct lsmem_store *store);
void lsmem_retire_forget(struct lsmem_store *store);

#endif
