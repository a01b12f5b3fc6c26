// SPDX-License-Identifier: GPL-2.0
/* The right to write to an export: see hold.h. */
#include <stddef.h>

#include "hold.h"

/**
 * hold_ask - ask for the hold
 * @hold: of the export
 * @peer: that asks
 * @term: above all that were asked for before; 0: only if the export is free
 * @loser: out: the peer that had asked for a fence before and now waits in vain, or NULL
 *
 * Return: HOLD_FENCING means that the holder must be ended; hold_left() then gives the answer.
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
 * hold_left - a peer is gone: its queue pair, its keys, its last request
 * @hold: of the export
 * @peer: that is gone
 *
 * Return: the peer that has the hold from now on, and is to be told; NULL: none.
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
