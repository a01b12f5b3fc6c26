// SPDX-License-Identifier: GPL-2.0
/* The hold: see hold.h. */
#include <stddef.h>

#include "hold.h"

/**
 * hold_ask - ask for the hold
 * @hold: of the export
 * @peer: asks for it
 * @term: must be above the highest so far; 0: the peer gets the hold only if it is free
 * @loser: out: a peer with a lower term whose pending fence this one replaces, or NULL
 *
 * Return: HOLD_GRANTED, a reason to refuse, or HOLD_FENCING: the caller must end the holder, and
 * hold_left() then grants the hold.
 */
enum hold_answer hold_ask(struct hold *hold, void *peer, uint64_t term, void **loser)
{
	*loser = NULL;
	if (term && term <= hold->term)
		return HOLD_STALE;
	if (term > (hold->term ? hold->term + HOLD_TERM_STEP : HOLD_TERM_FIRST))
		return HOLD_FAR;
	if (hold->holder && !term)
		return HOLD_HELD;
	if (term)
		hold->term = term;
	if (!hold->holder) {
		hold->holder = peer;
		return HOLD_GRANTED;
	}
	*loser = hold->fencer;
	hold->fencer = peer;
	return HOLD_FENCING;
}

/**
 * hold_left - no I/O of a peer can reach the export any more
 * @hold: of the export
 * @peer: its queue pair and keys are destroyed, its last request has ended
 *
 * Return: the peer that gets the hold now, which the caller must tell; NULL: none.
 */
void *hold_left(struct hold *hold, void *peer)
{
	if (hold->fencer == peer)
		hold->fencer = NULL;
	if (hold->holder != peer)
		return NULL;
	hold->holder = hold->fencer;
	hold->fencer = NULL;
	return hold->holder;
}
