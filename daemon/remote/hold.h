/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The hold: the right to write to an export. One client at a time has it.
 *
 * A client that fences sends a term. It gets the hold only when no I/O of the former holder can
 * reach the export any more (invariant 17: otherwise requests in flight of the former holder
 * overwrite what the new holder has read or has acknowledged). So hold_ask() does not grant a
 * fence; hold_left() does. In between, the caller destroys the former holder's queue pair and
 * memory keys and waits for its I/O.
 *
 * hold_ask() raises the term at once. From then on it refuses clients with the same or a lower
 * term, even if the client that sent the term disconnects.
 *
 * A term is at most HOLD_TERM_STEP above the highest so far, and at most HOLD_TERM_FIRST at
 * first. So a client with the secret cannot ask for a term that no other client can exceed. An
 * honest term counts takeovers and stays within these bounds.
 *
 * Nothing here does I/O or allocates: tests/unit/test_wire.c tests it.
 */
#ifndef LSMEMD_HOLD_H
#define LSMEMD_HOLD_H

#include <stdint.h>

#define HOLD_TERM_STEP		(1u << 20)	/* at most, above the highest that was asked for */
#define HOLD_TERM_FIRST	(1ull << 32)	/* at most, for the first term since the server started */

/**
 * struct hold - the hold of an export
 * @holder: the peer that may write; NULL: none
 * @fencer: the peer that gets the hold when @holder has left; NULL: no fence is pending
 * @term: the highest that a peer has asked for; 0: none
 */
struct hold {
	void *holder;
	void *fencer;
	uint64_t term;
};

enum hold_answer {
	HOLD_GRANTED,
	HOLD_HELD,		/* another peer has the hold, and the asking peer sent no term */
	HOLD_STALE,		/* the term is not above the highest so far */
	HOLD_FAR,		/* the term is too far above the highest so far */
	HOLD_FENCING,		/* end the holder; hold_left() then grants the hold */
};

enum hold_answer hold_ask(struct hold *hold, void *peer, uint64_t term, void **loser);
void *hold_left(struct hold *hold, void *peer);

#endif
