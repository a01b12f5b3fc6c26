// SPDX-License-Identifier: GPL-2.0
/*
 * Conversion while the store is served: Documentation/stripes.rst, S11. New segments have the kind of the configuration; the
 * others are cleaned, the oldest first, up to convert_rate bytes a second, whether or not that gains anything. The passes are
 * those of the kernel, as for damaged segments (serve_clean.c); those that make room go on, and come first.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "serve.h"

/* Return: is there something to convert? Logs when that changes. */
static bool is_needed(struct serve *s)
{
	const struct lsmemd *d = s->d;
	struct core_stats stats;

	core_stats(s->core, &stats);
	if (stats.unlike && !s->converting)
		log_notice("%s: of %" PRIu32 " segments %" PRIu32 " are to be converted to %s", d->kernel.name, stats.segments,
			   stats.unlike, d->coded ? "shards" : "replicas");
	else if (!stats.unlike && s->converting)
		log_notice("%s: all %" PRIu32 " segments have %s now%s", d->kernel.name, stats.segments,
			   d->coded ? "shards" : "replicas",
			   d->coded ? "" : "; after the next recovery the store is not coded any more");
	s->converting = stats.unlike;
	return s->converting;
}

/* Choose the segments of a pass. Return: how many. */
static uint32_t choose(struct serve *s, uint64_t segments[LSMEM_POLICY_VICTIMS],
		       uint32_t lengths[LSMEM_POLICY_VICTIMS])
{
	uint32_t most = core_frames_left(s->core), found, nr;
	int64_t left = s->convert_left;

	if (most > LSMEM_POLICY_VICTIMS)
		most = LSMEM_POLICY_VICTIMS;
	if (!most)
		return 0;
	found = core_unlike(s->core, s->convert_from, segments, lengths, most);
	if (!found)
		found = core_unlike(s->core, 0, segments, lengths, most);
	for (nr = 0; nr < found && left > 0; nr++)
		left -= lengths[nr];
	/* What cannot be cleaned now is passed over, and comes again. */
	s->convert_from = nr ? segments[nr - 1] + 1 : 0;
	return nr;
}

/**
 * serve_convert - have segments cleaned that have not the kind of new ones
 * @s: the steady state
 *
 * Context: at each tick.
 */
void serve_convert(struct serve *s)
{
	int64_t rate = (int64_t)s->d->config.store.convert_rate;
	int64_t most = rate > LSMEM_SEGMENT_BYTES ? rate : LSMEM_SEGMENT_BYTES;
	uint64_t segments[LSMEM_POLICY_VICTIMS];
	uint32_t lengths[LSMEM_POLICY_VICTIMS];
	struct kernel *kernel = &s->d->kernel;
	struct lsmem_cleaning want;
	uint32_t nr, taken;
	int err;

	if (!rate || !kernel->cleaning || s->stopping || s->d->nr_damaged || core_state(s->core) != CORE_RUNNING ||
	    !is_needed(s))
		return;
	s->convert_left += rate * (int64_t)(serve_tick_ns() / 1000000u) / 1000;
	if (s->convert_left > most)
		s->convert_left = most;
	kernel_cleaning(kernel, &want);
	if (s->convert_left <= 0 || want.begun != want.ended)
		return;
	nr = taken = choose(s, segments, lengths);
	if (!nr)
		return;
	err = kernel_clean(kernel, segments, &taken, true);
	log_debug("%s: converting: %" PRIu32 " of %" PRIu32 " segments, from %" PRIu64 "%s%s", kernel->name, taken, nr, segments[0],
		  err ? ": " : "", err ? strerror(-err) : "");
	if (err && err != -EBUSY && err != -ENOENT) {
		log_err("%s: segments cannot be converted: %s", kernel->name, strerror(-err));
		s->error = err;
		return;
	}
	s->d->status.passes += !err;
	s->d->status.passes_segments += taken;
	while (taken) {
		s->convert_left -= lengths[--taken];
		s->d->status.converted += lengths[taken];
	}
}
