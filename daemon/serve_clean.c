// SPDX-License-Identifier: GPL-2.0
/*
 * Cleaning while the store is served: core/clean.h chooses segments, the kernel cleans. Segments
 * that are damaged on the backups are cleaned first, whether a recovery found them or scrubbing:
 * until they have left the digest, the next recovery finds losses. A shutdown waits for them, within
 * half of its time.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/log.h"
#include "serve.h"

#define FRUITLESS_NS	10000000u	/* pause after an event, if the last choice was empty */

static void clean_polled(struct loop_op *op, int res)
{
	struct serve *s = (struct serve *)((char *)op - offsetof(struct serve, clean_poll));

	if (res < 0 && res != -EINTR && res != -EAGAIN) {
		log_err("%s: cannot be waited for: %s", s->d->kernel.name, strerror(-res));
		s->error = res;
		return;
	}
	s->clean = res > 0 ? CLEAN_WANTED : CLEAN_IDLE;
}

static void clean_paused(struct loop_op *op, int res)
{
	struct serve *s = (struct serve *)((char *)op - offsetof(struct serve, clean_pause.op));

	(void)res;
	s->clean = CLEAN_IDLE;
}

/* Choose segments and ask for a pass. Return: false: a pass is wanted, and none has begun. */
static bool clean_ask(struct serve *s)
{
	struct kernel *kernel = &s->d->kernel;
	struct clean_choice *choice = &s->choice;
	struct lsmem_cleaning want;
	uint32_t nr;
	int err;

	kernel_cleaning(kernel, &want);
	if (want.level != LSMEM_LEVEL_CLEAN || want.begun != want.ended)
		return true;
	clean_choose(&want, kernel->segments, kernel->nr_segments, core_frames_left(s->core),
		     store_segment_bytes(s->d), s->d->candidates, choice);
	if (!choice->nr) {
		s->d->status.passes_fruitless++;
		log_debug("%s: cleaning is wanted%s, and no segment is worth it", kernel->name,
			  want.urgent ? " urgently" : "");
		return false;
	}
	nr = choice->nr;
	err = kernel_clean(kernel, choice->segments, &nr, false);
	log_debug("%s: cleaning%s%s: %" PRIu32 " of %" PRIu32 " segments chosen, from %" PRIu64 ", by %s: %" PRIu64 " KiB live of %" PRIu64 " KiB%s%s",
		  kernel->name, want.urgent ? ", urgent" : "",
		  want.oldest_first ? ", oldest first" : "", nr, choice->nr, choice->segments[0],
		  clean_measure_name(choice->measure), choice->live >> 10, choice->held >> 10,
		  err ? ": " : "", err ? strerror(-err) : "");
	if (err && err != -EBUSY && err != -ENOENT) {
		log_err("%s: segments cannot be cleaned: %s", kernel->name, strerror(-err));
		s->error = err;
		return false;
	}
	s->d->status.passes += !err;
	s->d->status.passes_segments += nr;
	return !err;
}

/**
 * serve_mend_stop - leave the segments that are still damaged as they are
 * @s: the steady state; nothing happens if no segment is
 * @why: for the message
 */
void serve_mend_stop(struct serve *s, const char *why)
{
	struct lsmemd *d = s->d;

	if (!d->nr_damaged)
		return;
	log_warn("%s: %" PRIu32 " damaged segments stay on %s: %s; the next recovery names the same losses again",
		 d->kernel.name, d->nr_damaged, d->where, why);
	d->nr_damaged = 0;
	if (s->stopping)
		kernel_clean_last(&d->kernel);
	s->ready = true;
}

/**
 * serve_mend_also - have one more segment cleaned, since no replica of it is sound
 * @s: the steady state
 * @segment: its id
 *
 * What is live of it is in memory, and its copies are written to other segments.
 *
 * Return: false: of a store that leaves objects on the backups some may not be in memory, the daemon
 * stops, or there is no room to note it.
 */
bool serve_mend_also(struct serve *s, uint64_t segment)
{
	struct lsmemd *d = s->d;

	/* Once it stops, the kernel may have been told of the last pass. */
	if (d->fetch || s->stopping || !d->kernel.cleaning || d->nr_damaged >= d->kernel.nr_segments)
		return false;
	d->damaged[d->nr_damaged++] = segment;
	return true;
}

/**
 * serve_mend - have the segments cleaned that are damaged on the backups
 * @s: the steady state
 *
 * Return: true: none is left, since this call.
 */
bool serve_mend(struct serve *s)
{
	struct lsmemd *d = s->d;
	struct lsmem_cleaning want;
	uint32_t left = 0, nr, i;
	int err;

	if (!d->nr_damaged || core_state(s->core) != CORE_RUNNING)
		return false;
	for (i = 0; i < d->nr_damaged; i++)
		if (core_lists(s->core, d->damaged[i]))
			d->damaged[left++] = d->damaged[i];
	d->nr_damaged = left;
	if (!left) {
		log_notice("%s: the damaged segments have been cleaned: what %s has is whole again",
			   d->kernel.name, d->where);
		if (s->stopping)
			kernel_clean_last(&d->kernel);
		s->ready = true;
		return true;
	}
	if (!d->kernel.cleaning) {
		serve_mend_stop(s, "the module does not clean for the daemon");
		return true;
	}
	kernel_cleaning(&d->kernel, &want);
	nr = core_frames_left(s->core);
	if (want.begun != want.ended || !nr)
		return false;
	if (nr > left)
		nr = left;
	if (nr > LSMEM_POLICY_VICTIMS)
		nr = LSMEM_POLICY_VICTIMS;
	err = kernel_clean(&d->kernel, d->damaged, &nr, true);
	if (err && err != -EBUSY && err != -ENOENT)
		serve_mend_stop(s, strerror(-err));
	return false;
}

/**
 * serve_clean - ask the kernel for a pass, if it wants one and segments are worth it
 * @s: the steady state
 * @progress: events, requests or acknowledgements have gone through core
 */
void serve_clean(struct serve *s, bool progress)
{
	if (!s->d->kernel.cleaning || s->stopping)
		return;
	/* Before CORE_RUNNING the kernel and the digest may list different segments. */
	if (s->clean == CLEAN_WANTED && core_state(s->core) == CORE_RUNNING)
		s->clean = clean_ask(s) ? CLEAN_IDLE : CLEAN_FRUITLESS;
	else if (s->clean == CLEAN_FRUITLESS && progress) {
		s->clean = CLEAN_PAUSED;
		loop_timer_start(&s->d->loop, &s->clean_pause, FRUITLESS_NS);
	}
	if (s->clean == CLEAN_IDLE) {
		s->clean = CLEAN_POLLED;
		loop_poll(&s->d->loop, &s->clean_poll, s->d->kernel.fd, POLLPRI);
	}
}

/**
 * serve_clean_init - prepare cleaning, before the first serve_clean()
 * @s: the steady state
 */
void serve_clean_init(struct serve *s)
{
	s->clean_poll.done = clean_polled;
	s->clean_pause.op.done = clean_paused;
}
