// SPDX-License-Identifier: GPL-2.0
/* Who may write to an export: see hold.h. */
#include <stddef.h>

#include "hold.h"

enum hold_answer hold_ask(struct hold *hold, void *who, uint64_t epoch, void **loser)
{
	*loser = NULL;
	if (epoch && epoch <= hold->epoch)
		return HOLD_STALE;
	if (epoch > (hold->epoch ? hold->epoch + HOLD_EPOCH_STEP : HOLD_EPOCH_FIRST))
		return HOLD_FAR;
	if (hold->holder && !epoch)
		return HOLD_HELD;
	if (epoch)
		hold->epoch = epoch;
	if (!hold->holder) {
		hold->holder = who;
		return HOLD_GRANTED;
	}
	*loser = hold->fencer;
	hold->fencer = who;
	return HOLD_FENCING;
}

void *hold_left(struct hold *hold, void *who)
{
	if (hold->fencer == who)
		hold->fencer = NULL;
	if (hold->holder != who)
		return NULL;
	hold->holder = hold->fencer;
	hold->fencer = NULL;
	return hold->holder;
}
