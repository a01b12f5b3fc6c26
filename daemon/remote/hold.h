/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The right to write to an export: one primary at a time has it.
 *
 * A primary that takes over sends a term. It gets the hold when the former holder can do nothing
 * any more (invariant 17: otherwise requests in flight of the former holder land on what the new one
 * has read, or after what it has acknowledged). So the answer to a fence is given by hold_left(), not
 * by hold_ask(): in between the caller destroys the former holder's queue pair and memory keys and
 * waits for its I/O.
 *
 * The term rises as soon as it is asked for. A primary with the same or a lower term is refused
 * from then on, even if the primary that asked is gone.
 *
 * The term rises by at most HOLD_TERM_STEP, and begins below HOLD_TERM_FIRST, so that a client
 * with the secret cannot reach, however often it asks, a term that no other can exceed. An honest
 * term counts takeovers and is never so far away.
 *
 * Nothing here does I/O or allocates: tests/unit/test_wire.c tests it.
 */
#ifndef LSMEMD_HOLD_H
#define LSMEMD_HOLD_H

#include <stdint.h>

#define HOLD_TERM_STEP		(1u << 20)	/* above the highest that was asked for */
#define HOLD_TERM_FIRST	(1ull << 32)	/* if none has been, since the server began */

/**
 * struct hold - the hold of an export
 * @holder: the peer that may write; NULL: none
 * @fencer: the peer that gets the hold when @holder has left; NULL: none waits
 * @term: the highest that was asked for
 */
struct hold {
	void *holder;
	void *fencer;
	uint64_t term;
};

enum hold_answer {
	HOLD_GRANTED,
	HOLD_HELD,		/* another peer has it, and no term was sent */
	HOLD_STALE,		/* the term is not above the highest so far */
	HOLD_FAR,		/* it is too far above that */
	HOLD_FENCING,		/* end the holder: hold_left() gives the answer */
};

enum hold_answer hold_ask(struct hold *hold, void *peer, uint64_t term, void **loser);
void *hold_left(struct hold *hold, void *peer);

#endif
