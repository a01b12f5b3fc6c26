/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who may write to an export: one at a time.
 *
 * A primary that takes over says an epoch.  It gets the hold when the one
 * before can do nothing any more (invariant 17: else what the old one has under
 * way lands on what the new one has read, or after what it has acknowledged).
 * So the answer to a fence is not given when the fence is asked for but in
 * hold_left(): the caller first takes the old one's queue pair and keys away,
 * then waits for its I/O.
 *
 * The epoch is raised as soon as it is asked for.  One that is lower, or the
 * same, never gets in again, even if who asked for it is gone by then.
 *
 * The epoch goes up by HOLD_EPOCH_STEP at most, and begins below HOLD_EPOCH_FIRST: however often
 * it is asked for, a client that may ask does not reach an epoch that none can exceed.  Epochs are
 * counted, one for each takeover: an honest one is never so far away.
 *
 * No I/O, no memory of its own: the test is tests/unit/test_wire.c.
 */
#ifndef LSMEMD_HOLD_H
#define LSMEMD_HOLD_H

#include <stdint.h>

#define HOLD_EPOCH_STEP		(1u << 20)	/* above the highest that was asked for */
#define HOLD_EPOCH_FIRST	(1ull << 32)	/* if none has been, since the server began */

/**
 * struct hold - of an export
 * @holder: may write; NULL: nobody
 * @fencer: gets the hold when @holder has left; NULL: nobody waits
 * @epoch: highest that was asked for
 */
struct hold {
	void *holder;
	void *fencer;
	uint64_t epoch;
};

enum hold_answer {
	HOLD_GRANTED,
	HOLD_HELD,		/* and no epoch was said */
	HOLD_STALE,		/* the epoch is not above @epoch */
	HOLD_FAR,		/* it is too far above @epoch */
	HOLD_FENCING,		/* end the holder: hold_left() answers */
};

/*
 * @who wants the hold with @epoch, 0: only if it is free.  After HOLD_FENCING,
 * *@loser is who had asked for a fence before and waits in vain, or NULL.
 */
enum hold_answer hold_ask(struct hold *hold, void *who, uint64_t epoch, void **loser);

/*
 * @who is gone: its queue pair, its keys, its last request.  Returns who has
 * the hold from now on and is to be told, or NULL.
 */
void *hold_left(struct hold *hold, void *who);

#endif
