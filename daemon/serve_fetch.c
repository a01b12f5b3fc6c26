// SPDX-License-Identifier: GPL-2.0
/*
 * Objects of a tiered store that are on backups only: core/fetch.h chooses what is read, the kernel
 * checks it.
 *
 * The kernel's descriptor polls POLLRDBAND while there are requests that were not taken. They are
 * taken at once, as far as there is room; reads begin after core's requests were started, and go
 * out in the same system call. All reads that have ended in one round of the loop are answered in
 * one call.
 *
 * While this host has a connection to the source of a move, its memory is asked first (move/pull.h): the backups get what it does
 * not have, or does not answer in time. Behind that all of this memory is read (move/bulk.h), and given to the kernel unasked.
 *
 * If a backup is a block device, not on another host, the kernel reads it itself (LSMEM_REPL_NEAR): it is told
 * where a segment is there when it asks for an object of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup/nvmf_address.h"
#include "base/clock.h"
#include "base/log.h"
#include "move/bulk.h"
#include "move/pull.h"
#include "remote/wire.h"
#include "serve.h"

#define FETCH_STEP_NS	1000000u	/* shortest time from one look at deadlines to the next */
#define FETCH_LOOK_NS	5000000u	/* and the longest, while something has a deadline */
#define FETCH_SAY_NS	1000000000u	/* from one message about failures to the next */

_Static_assert(BULK_OBJECTS <= KERNEL_FETCHES, "objects of a call");

static void fetch_polled(struct loop_op *op, int res)
{
	struct serve *s = (struct serve *)((char *)op - offsetof(struct serve, fetch_poll));

	s->fetch_armed = false;
	if (res < 0 && res != -EINTR && res != -EAGAIN) {
		log_err("%s: cannot be waited for: %s", s->d->kernel.name, strerror(-res));
		s->error = res;
		return;
	}
	s->fetch_wanted = res > 0;
}

static void fetch_timed(struct loop_op *op, int res)
{
	struct serve *s = (struct serve *)((char *)op - offsetof(struct serve, fetch_timer.op));

	(void)res;
	s->fetch_timing = false;
	fetch_late(s->d->fetch, clock_now_ns());
	if (take_pull(s->d))
		pull_late(take_pull(s->d), clock_now_ns());
}

static void fetch_ended(struct backup_io *io, int error)
{
	struct fetch_slot *slot = (struct fetch_slot *)((char *)io -
							offsetof(struct fetch_slot, io));
	struct serve *s = slot->serve;

	/* A lost connection says nothing of the replica. The only backup can come back. */
	if (error && io->backup->error)
		serve_lose_gone(s);
	slot->begun_ns = 0;
	fetch_done(s->d->fetch, slot->read.id, error, clock_now_ns());
}

static void start_reads(struct serve *s, uint64_t now)
{
	struct fetch_slot *slot;
	struct fetch_read read;

	while (fetch_next(s->d->fetch, &read, now)) {
		slot = &s->fetch_slots[read.id];
		slot->read = read;
		slot->begun_ns = now;
		slot->iov.iov_base = read.data;
		slot->iov.iov_len = read.length;
		slot->io = (struct backup_io) {
			.what = BACKUP_READ,
			.offset = read.offset,
			.length = read.length,
			.iov = &slot->iov,
			.nr_iov = 1,
			.done = fetch_ended,
		};
		backup_submit(&slot->io, &s->d->backups[s->d->slots[read.backup]]);
	}
}

/* ---- The near drive ------------------------------------------------------ */

/* Is a backup of this host a block device? */
static bool near_can(const struct serve *s, uint32_t slot)
{
	struct stat st;

	return slot < LSMEM_BACKUPS && !stat(s->d->config.backups[slot].path, &st) && S_ISBLK(st.st_mode);
}

/* Tell the kernel which drive it reads, if the backups of this host have changed. Without one it asks as before. */
static void near_choose(struct serve *s, uint32_t remote)
{
	uint32_t slots[CORE_BACKUPS], index;
	int fd = -1, err;

	for (index = 0; index < CORE_BACKUPS; index++)
		slots[index] = core_backup(s->core, index) == CORE_BACKUP_MEMBER && !(remote >> index & 1u) ?
			       s->d->slots[index] : LSMEM_BACKUPS;
	if (!memcmp(slots, s->near_slots, sizeof(slots)))
		return;
	memcpy(s->near_slots, slots, sizeof(slots));
	index = 0;
	while (index < CORE_BACKUPS && !near_can(s, slots[index]))
		index++;
	s->near = index;
	memset(s->near_told, 0, sizeof(s->near_told));
	if (index < CORE_BACKUPS)
		fd = open(s->d->config.backups[slots[index]].path, O_RDONLY | O_CLOEXEC);
	err = kernel_near(&s->d->kernel, fd);
	if (fd >= 0)
		close(fd);
	if (err && err != -ENOTTY)	/* an older module */
		log_warn("%s: the kernel cannot read %s itself: %s", s->d->kernel.name,
			 index < CORE_BACKUPS ? s->d->config.backups[slots[index]].path : "nothing",
			 strerror(-err));
}

static void near_tell(struct serve *s, const struct lsmem_fetch_one *one)
{
	struct near_told *told = &s->near_told[one->segment % NEAR_TOLD];
	uint64_t offset;

	if (s->near == CORE_BACKUPS || one->flags & LSMEM_FETCH_SEGMENT ||
	    !fetch_place(s->d->fetch, one, s->near, &offset) ||
	    (told->segment == one->segment && told->offset == offset))
		return;
	*told = (struct near_told){ .segment = one->segment, .offset = offset };
	kernel_near_place(&s->d->kernel, one->segment, offset);		/* in vain: it asks again */
}

/* Give the kernel what has been read. Return: false: there was nothing. */
static bool give_fills(struct serve *s)
{
	uint32_t n = fetch_fills(s->d->fetch, s->fills, KERNEL_FETCHES);
	struct pull *pull = take_pull(s->d);
	uint32_t pulled = pull ? pull_fills(pull, s->fills + n, KERNEL_FETCHES - n) : 0;
	uint64_t now;
	int err;

	if (!n && !pulled)
		return false;
	err = kernel_fill(&s->d->kernel, s->fills, n + pulled);
	if (err) {
		log_err("%s: does not take what it asked for: %s", s->d->kernel.name, strerror(-err));
		s->error = err;
		return false;
	}
	now = clock_now_ns();
	fetch_filled(s->d->fetch, s->fills, n, now);
	if (pulled)
		pull_filled(pull, s->fills + n, pulled, now);
	return true;
}

/* Give the kernel what has been read behind its requests: of one seglet at a time, as its requests wait meanwhile. */
static void bring(struct serve *s)
{
	struct bulk *bulk = take_bulk(s->d);
	uint32_t n = bulk ? bulk_objects(bulk, s->brings) : 0;
	int err;

	if (!n)
		return;
	err = kernel_bring(&s->d->kernel, s->brings, n);
	if (err) {
		if (err != -ENOTTY)	/* an older module: what it asks for it gets */
			log_warn("%s: does not take what it has not asked for: %s", s->d->kernel.name, strerror(-err));
		bulk_end(bulk);
		n = 0;
	}
	bulk_brought(bulk, s->brings, n, clock_now_ns());
}

/* How many requests can be taken: those that the source's memory is asked for may have to be read from the backups. */
static uint32_t room_for(const struct serve *s)
{
	const struct pull *pull = take_pull(s->d);
	uint32_t room = fetch_room(s->d->fetch), held = pull ? pull_held(pull) : 0;

	return room > held ? room - held : 0;
}

static void take_back(struct serve *s, uint64_t now)
{
	struct pull *pull = take_pull(s->d);
	struct lsmem_fetch_one one;

	while (pull && pull_back(pull, &one))
		fetch_take(s->d->fetch, &one, now);
}

static void take_fetches(struct serve *s, uint64_t now)
{
	struct pull *pull = take_pull(s->d);
	uint32_t room;
	int n, i;

	while (s->fetch_wanted && (room = room_for(s))) {
		if (room > KERNEL_FETCHES)
			room = KERNEL_FETCHES;
		n = kernel_fetch(&s->d->kernel, s->fetches, room);
		if (n < 0) {
			log_err("%s: its fetch requests cannot be taken: %s", s->d->kernel.name,
				strerror(-n));
			s->error = n;
			return;
		}
		for (i = 0; i < n; i++) {
			near_tell(s, &s->fetches[i]);
			if (!pull || !pull_take(pull, &s->fetches[i], now))
				fetch_take(s->d->fetch, &s->fetches[i], now);
		}
		s->fetch_wanted = (uint32_t)n == room;
	}
}

/* Log requests that no backup could answer, once a second at most. */
static void tell_failed(struct serve *s, uint64_t now)
{
	struct fetch_bad bad;
	char names[512] = "";
	uint32_t index, slot;
	size_t n = 0;

	if (now < s->fetch_said_ns || !fetch_bad_next(s->d->fetch, &bad))
		return;
	s->fetch_said_ns = now + FETCH_SAY_NS;
	for (index = 0; index < CORE_BACKUPS && n < sizeof(names); index++) {
		slot = s->d->slots[index];
		if (bad.backups >> index & 1u && slot < LSMEM_BACKUPS)
			n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n ? ", " : "",
					      s->d->config.backups[slot].path);
	}
	log_err("%s: segment %" PRIu64 ", block %" PRIu32 ": what the kernel asks for cannot be fetched: %s%s; reading what is damaged is an error. See \"The tier\" in the admin guide",
		s->d->kernel.name, bad.segment, bad.block,
		*names ? "no sound replica on " : "no backup that is there has the segment", names);
	while (fetch_bad_next(s->d->fetch, &bad))
		s->fetch_unsaid++;
	if (s->fetch_unsaid)
		log_err("%s: %" PRIu64 " more requests cannot be answered", s->d->kernel.name, s->fetch_unsaid);
	s->fetch_unsaid = 0;
}

static void arm(struct serve *s, uint64_t now)
{
	const struct pull *pull = take_pull(s->d);
	uint64_t due;

	if (!s->fetch_armed && !s->fetch_wanted) {
		s->fetch_armed = true;
		loop_poll(&s->d->loop, &s->fetch_poll, s->d->kernel.fd, POLLRDBAND);
	}
	if (s->fetch_timing)
		return;
	due = fetch_due(s->d->fetch);
	if (pull && pull_due(pull) < due)
		due = pull_due(pull);
	if (pull && bulk_due(take_bulk(s->d), now) < due)
		due = bulk_due(take_bulk(s->d), now);
	if (due == FETCH_NEVER)
		return;
	due = due > now + FETCH_STEP_NS ? due - now : FETCH_STEP_NS;
	s->fetch_timing = true;
	loop_timer_start(&s->d->loop, &s->fetch_timer, due < FETCH_LOOK_NS ? due : FETCH_LOOK_NS);
}

/* Before CORE_RUNNING core may not know the state of segments. A pass of cleaning may need answers until core has stopped. */
static bool fetches(const struct serve *s)
{
	enum core_state state = core_state(s->core);

	return s->d->fetch && (state == CORE_RUNNING || state == CORE_DRAINING);
}

/**
 * serve_fetch - take the kernel's fetch requests, read, and answer
 * @s: the steady state
 *
 * Return: true: requests were answered, and core may have something to do.
 */
bool serve_fetch(struct serve *s)
{
	bool any = false, gave;
	uint64_t now;

	if (!fetches(s))
		return false;
	now = clock_now_ns();
	do {
		take_back(s, now);
		take_fetches(s, now);
		if (take_pull(s->d))
			take_pull_start(s->d);
		start_reads(s, now);
		/* Answers make room for more, and some need another replica. */
		gave = !s->error && give_fills(s);
		any |= gave;
	} while (gave && !s->error);
	bring(s);
	tell_failed(s, now);
	arm(s, now);
	return any;
}

/**
 * serve_fetch_waits - has serve_fetch() to go on, though nothing has come?
 * @s: the steady state
 *
 * Return: true: take_run() has lost the source's connection, and the backups are to answer what was asked of it; or more of the
 * source's memory is to be read, or given to the kernel.
 */
bool serve_fetch_waits(const struct serve *s)
{
	return take_pull_waits(s->d) && fetches(s);
}

/* Lose the backups that have not answered a read for their timeout. */
static void lose_slow(struct serve *s, uint64_t now)
{
	bool stood_still = loop_stood_still(&s->tick);
	char why[64];
	uint32_t i;

	for (i = 0; i < FETCH_READS * CORE_BACKUPS; i++) {
		struct fetch_slot *slot = &s->fetch_slots[i];
		uint32_t index = slot->read.backup, nr;

		if (!slot->begun_ns || core_backup(s->core, index) != CORE_BACKUP_MEMBER)
			continue;
		if (stood_still)
			slot->begun_ns = now;
		nr = s->d->slots[index];
		if (now - slot->begun_ns < s->d->config.backups[nr].timeout * 1000000000ull)
			continue;
		snprintf(why, sizeof(why), "no answer for %u s", s->d->config.backups[nr].timeout);
		log_err("%s: read of %" PRIu32 " bytes at %" PRIu64 " failed: %s",
			s->d->config.backups[nr].path, slot->read.length, slot->read.offset, why);
		snprintf(s->d->status.backups[nr].error, STATUS_ERROR_BYTES, "read: %s", why);
		s->io_error = -ETIMEDOUT;
		core_lose(s->core, index, why);
	}
}

static void find_remote(struct serve *s)
{
	uint32_t index, remote = 0;

	for (index = 0; index < CORE_BACKUPS; index++) {
		const char *path = s->d->slots[index] < LSMEM_BACKUPS ?
				   s->d->config.backups[s->d->slots[index]].path : "";

		if (wire_scheme(path) || nvmf_scheme(path))
			remote |= 1u << index;
	}
	fetch_remote(s->d->fetch, remote);
	/* What the kernel reads itself it does not ask for. */
	near_choose(s, take_pull(s->d) ? UINT32_MAX : remote);
}

/**
 * serve_fetch_tick - do the periodic work of fetching
 * @s: the steady state
 * @now: the time, by clock_now_ns()
 *
 * Context: in the tick.
 */
void serve_fetch_tick(struct serve *s, uint64_t now)
{
	uint64_t ms;

	if (!s->d->fetch)
		return;
	if (kernel_number(s->d->kernel.name, "limits/fetch_ms", &ms))
		fetch_wait(s->d->fetch, ms * 1000000u);
	find_remote(s);		/* a backup that has joined may be elsewhere */
	fetch_second(s->d->fetch);
	if (s->d->config.nr_backups > 1)
		lose_slow(s, now);
}

/**
 * serve_fetch_init - prepare fetching, before the first serve_fetch()
 * @s: the steady state
 */
void serve_fetch_init(struct serve *s)
{
	uint32_t i;

	if (!s->d->fetch)
		return;
	s->fetch_poll.done = fetch_polled;
	s->fetch_timer.op.done = fetch_timed;
	for (i = 0; i < FETCH_READS * CORE_BACKUPS; i++)
		s->fetch_slots[i].serve = s;
	s->near = CORE_BACKUPS;
	for (i = 0; i < CORE_BACKUPS; i++)
		s->near_slots[i] = LSMEM_BACKUPS;
	find_remote(s);
}
