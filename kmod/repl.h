/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Replication: the stream to the daemon, and its acknowledgements.  See repl.c.  lsmem_tell()
 * decides which events the daemon gets next, lsmem_ack_one() whether an acknowledgement is
 * accepted.  control.c calls lsmem_repl_attach(), which gives the daemon a file; the daemon calls
 * through this file.
 */
#ifndef LSMEM_REPL_H
#define LSMEM_REPL_H

#include <linux/types.h>
#include <linux/wait.h>

struct lsmem_attach;
struct lsmem_attachment;

/**
 * struct lsmem_repl - the daemon of a durable store
 * @attached: the daemon, or NULL; store->mutex for writing
 * @events: wait queue of its poll
 * @acks: wait queue of durable waits
 * @durable_bytes: bytes acknowledged so far; under segments.lock
 * @durable_ms: bound of a durable wait
 * @flush_ms: bound of FLUSH and fsync
 * @frozen: clients wait (freeze.c); under attachment->mutex for writing, as @term
 * @term: that the daemon has given the store, 0: none
 * @round: how often all words were to be told (words.c); under attachment->mutex
 */
struct lsmem_repl {
	struct lsmem_attachment *attached;
	wait_queue_head_t events;
	wait_queue_head_t acks;
	u64 durable_bytes;
	u32 durable_ms;
	u32 flush_ms;
	bool frozen;
	u64 term;
	u64 round;
};

int lsmem_repl_attach(struct lsmem_attach *attach);

#endif
