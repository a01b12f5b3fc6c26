// SPDX-License-Identifier: GPL-2.0
/*
 * Scrubbing: in each period core reads and checks every replica of the segments that are closed or
 * sealed, to find the bad ones while others are sound. core_tick() chooses the segments, one place in
 * the table of segments after the other, at an even pace; core/copy.c reads, checks and restores.
 *
 * A segment that exists for a whole period is met once in it. One that is opened and retired within
 * a period may not be met.
 */
#include "private.h"

void core_scrub(struct core *core, uint32_t ticks)
{
	/* So a daemon that is often restarted does not check the same segments each time: multiples of
	 * the golden ratio lie far apart (Knuth, The Art of Computer Programming 3, 6.4).
	 */
	if (ticks && !core->scrub_ticks)
		core->scrub_next = (core->map.sequence * 0x9e3779b97f4a7c15ull >> 32) *
				   core->nr_segments >> 32;
	core->scrub_ticks = ticks;
	core->scrub_due = 0;
}

/**
 * core_scrub_tick - have the next segments checked
 * @core: core
 */
void core_scrub_tick(struct core *core)
{
	if (!core->scrub_ticks || core->state != CORE_RUNNING)
		return;
	for (core->scrub_due += core->nr_segments; core->scrub_due >= core->scrub_ticks;
	     core->scrub_due -= core->scrub_ticks) {
		struct core_segment *seg = &core->segments[core->scrub_next];

		if ((seg->life == CORE_CLOSED || seg->life == CORE_SEALED) && !seg->open)
			seg->doubted |= seg->on & ~seg->bad;
		if (++core->scrub_next == core->nr_segments)
			core->scrub_next = 0;
	}
}
