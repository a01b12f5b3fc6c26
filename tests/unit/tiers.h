/* SPDX-License-Identifier: GPL-2.0 */
/* A tiered store on simulated drives, for tests of its recovery. */
#ifndef UNIT_TIERS_H
#define UNIT_TIERS_H

#include "sim.h"

#define TIER_LARGE	400000u			/* bytes of objects 0 .. 7 */
#define TIER_DEAD	(1u << 3 | 1u << 5)	/* objects that are deleted */

struct sim *tier_begin(const struct sim_options *options);
void tier_close(struct sim *sim);
uint64_t tier_where(struct sim *sim, uint32_t drive, uint32_t type, uint32_t object);
void tier_flip(struct sim *sim, uint64_t at, uint32_t bit);
bool tier_live(const struct sim *sim, uint32_t dead);

#endif
