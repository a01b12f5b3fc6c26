// SPDX-License-Identifier: GPL-2.0
/* Backups while the store is served: see serve.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/notify.h"
#include "serve.h"

/**
 * serve_waits_for_answers - can a completion lead to an acknowledgement?
 * @s: the steady state
 *
 * Return: true: a request to a member is awaited.
 */
bool serve_waits_for_answers(const struct serve *s)
{
	uint32_t index;

	for (index = 0; index < CORE_BACKUPS; index++)
		if (s->awaited[index] && core_backup(s->core, index) == CORE_BACKUP_MEMBER)
			return true;
	return false;
}

/**
 * serve_waits_for_backups - is a request in flight?
 * @s: the steady state
 *
 * Return: true: a request to a member is in flight.
 */
bool serve_waits_for_backups(const struct serve *s)
{
	uint32_t index;

	for (index = 0; index < CORE_BACKUPS; index++)
		if (s->d->slots[index] < LSMEM_BACKUPS &&
		    core_backup(s->core, index) == CORE_BACKUP_MEMBER &&
		    s->d->backups[s->d->slots[index]].in_flight)
			return true;
	return false;
}

/**
 * serve_lose_slow - lose the backups that have not answered for their timeout
 * @s: the steady state
 * @now: the time, by clock_now_ns()
 *
 * A slow backup delays acknowledgements for its timeout, and no longer. If the loop was delayed,
 * this function restarts the timeouts of all requests in flight.
 *
 * Context: in the tick.
 */
void serve_lose_slow(struct serve *s, uint64_t now)
{
	bool stood_still = loop_stood_still(&s->tick);
	char why[64];
	uint32_t i;

	for (i = 0; i < CORE_IOS * s->d->config.nr_backups; i++) {
		struct slot *slot = &s->slots[i];
		uint32_t index = slot->request.backup;
		unsigned int timeout;

		if (!slot->busy || core_backup(s->core, index) != CORE_BACKUP_MEMBER)
			continue;
		if (stood_still || !slot->begun_ns)
			slot->begun_ns = now;
		timeout = s->d->config.backups[s->d->slots[index]].timeout;
		if (now - slot->begun_ns < timeout * 1000000000ull)
			continue;
		snprintf(why, sizeof(why), "no answer for %u s", timeout);
		serve_failed(slot, -ETIMEDOUT, why);
		core_lose(s->core, index, why);
	}
}

/**
 * serve_lose_gone - lose the backups whose connection is lost
 * @s: the steady state
 *
 * Does not wait for the next request to fail.
 */
void serve_lose_gone(struct serve *s)
{
	uint32_t index, slot;
	const char *why;

	for (index = 0; index < CORE_BACKUPS; index++) {
		slot = s->d->slots[index];
		if (slot == LSMEM_BACKUPS || core_state(s->core) != CORE_RUNNING ||
		    core_backup(s->core, index) != CORE_BACKUP_MEMBER ||
		    !s->d->backups[slot].error)
			continue;
		s->d->unconnected = connection_lost(s->d);
		s->io_error = s->d->backups[slot].error;
		why = strerror(-s->io_error);
		snprintf(s->d->status.backups[slot].error, STATUS_ERROR_BYTES, "%s", why);
		core_lose(s->core, index, why);
	}
}

/* Log when too few backups are left, so that writers wait, and when there are enough again. */
static void count_backups(struct serve *s)
{
	unsigned int least = config_least(&s->d->config), nr = core_domains_left(s->core);
	bool few = nr < least;

	if (few == s->few || s->stopping)
		return;
	s->few = few;
	s->d->status.state = few ? "waiting" : "active";
	if (few)
		log_err("%s: failure domains with backups that are left: %u, and %s = %u: nothing more is acknowledged until another backup is back. See REPLACING A BACKUP in lsmemd(8)",
			s->d->kernel.name, nr, s->d->coded ? "K + min_parity" : "min_replicas", least);
	else
		log_notice("%s: enough backups are there again: writes that waited are acknowledged",
			   s->d->kernel.name);
	notify_send("STATUS=%s", few ? "Waiting for a backup" : "Serving");
}

/* Log the replicas that core found bad when it read them. */
static void tell_bad(struct serve *s)
{
		struct core_bad bad;
	uint32_t slot;

	while (core_bad_next(s->core, &bad)) {
		const char *none = bad.format == FORMAT_UNFIT ?
				   "its shards do not fit each other, or its entries: none is made of them" :
				   "none of its replicas is sound";

		slot = bad.backup < CORE_BACKUPS ? s->d->slots[bad.backup] : LSMEM_BACKUPS;
		if (slot < LSMEM_BACKUPS)
			log_warn("%s: frame %" PRIu32 ": the %s of segment %" PRIu64 " is bad: %s%s",
				 s->d->config.backups[slot].path, bad.frame, bad.coded ? "shard" : "replica", bad.segment,
				 bad.error ? strerror(-bad.error) : format_strerror(bad.format),
				 s->d->config.nr_backups == 1 ? "" : bad.coded ?
				 "; it is made anew of the others" :
				 "; another source is taken, and this replica is restored");
		else if (serve_mend_also(s, bad.segment))
			log_warn("%s: segment %" PRIu64 ": %s; what is live of it is in memory, and is written to other segments at once",
				 s->d->kernel.name, bad.segment, none);
		else if (s->d->fetch)
			log_err("%s: segment %" PRIu64 ": %s: objects of it that are not in memory cannot be read any more",
				s->d->kernel.name, bad.segment, none);
		else
			log_err("%s: segment %" PRIu64 ": %s, and it is not in memory as it was written: it is not copied, and keeps the replicas that it has. What users read now comes from memory and is sound; a recovery may find losses. See REPLACING A BACKUP in lsmemd(8)",
				s->d->kernel.name, bad.segment, none);
	}
}

/**
 * serve_watch_backups - log changes of the backups' states, and close lost backups
 * @s: the steady state
 *
 * Return: true: a backup was closed, which may have handed out completions of other backups.
 */
bool serve_watch_backups(struct serve *s)
{
	uint32_t index, slot;
	bool closed = false;

	tell_bad(s);
	if (s->d->config.nr_backups == 1)
		return false;
	count_backups(s);
	for (index = 0; index < CORE_BACKUPS; index++) {
		enum core_backup_state state = core_backup(s->core, index);

		slot = s->d->slots[index];
		if (slot == LSMEM_BACKUPS)
			continue;
		if (state == CORE_BACKUP_LOST && s->d->backups[slot].private &&
		    !s->d->backups[slot].in_flight) {
			close_backup(s->d, slot);
			closed = true;
		}
		if (state == s->states[index])
			continue;
		s->states[index] = state;
		if (state == CORE_BACKUP_MEMBER)
			log_notice("%s: has joined the others; missing %s to it", s->d->config.backups[slot].path,
				   s->d->coded ? "shards are made anew, and written" : "replicas are copied");
		else if (state == CORE_BACKUP_LEAVING)
			log_warn("%s: lost: nothing more is written to it", s->d->config.backups[slot].path);
		else if (state == CORE_BACKUP_LOST)
			log_warn("%s: is not used any more; its %s the others as far as there is room, and it may come back. See REPLACING A BACKUP in lsmemd(8)",
				 s->d->config.backups[slot].path,
				 s->d->coded ? "shards are made anew on" : "replicas are copied to");
	}
	return closed;
}

/* Tell the kernel how many segments there is room for, if that has ever been fewer than it has been made for. */
static void tell_limit(struct serve *s)
{
	uint32_t limit = core_limit(s->core), most = s->d->kernel.nr_segments;

	if (limit > most)
		limit = most;
	if (!limit || limit == s->limit || (!s->limit && limit == most))
		return;
	kernel_limit(&s->d->kernel, limit);
	s->limit = limit;
}

/* Lanes are room for segments on all backups of a coded store: log once that they become few, or are enough again. */
static void tell_low(const struct serve *s, uint32_t changed)
{
	uint32_t most = core_limit(s->core), left = core_frames_left(s->core);

	if (changed && s->low)
		log_warn("%s: the backups are nearly full: of %" PRIu32 " segments %" PRIu32 " are free; when none is, writers wait. See \"A backup becomes full\" in the admin guide",
			 s->d->kernel.name, most, left);
	else if (changed)
		log_notice("%s: the backups have room again: of %" PRIu32 " segments %" PRIu32 " are free",
			   s->d->kernel.name, most, left);
}

/**
 * serve_watch_room - tell how many segments there is room for, and log when a backup becomes nearly full and when it
 *	has room again
 * @s: the steady state
 */
void serve_watch_room(struct serve *s)
{
	uint32_t low = core_low(s->core), changed = low ^ s->low, index;
	const struct core_backup_stats *stats;
	const char *path;

	if (s->resumed)
		tell_limit(s);
	s->low = low;
	if (changed)
		core_stats(s->core, &s->d->status.core);
	if (s->d->coded) {
		tell_low(s, changed);
		return;
	}
	for (index = 0; index < CORE_BACKUPS; index++) {
		stats = &s->d->status.core.backup[index];
		if (!(changed >> index & 1u) || stats->state != CORE_BACKUP_MEMBER)
			continue;
		path = s->d->config.backups[s->d->slots[index]].path;
		if (low >> index & 1u)
			log_warn("%s: nearly full: of %" PRIu64 " segments %" PRIu64 " are free; when none is, writers wait. See \"A backup becomes full\" in the admin guide",
				 path, stats->frames, stats->frames_free);
		else
			log_notice("%s: has room again: of %" PRIu64 " segments %" PRIu64 " are free",
				   path, stats->frames, stats->frames_free);
	}
}
