// SPDX-License-Identifier: GPL-2.0
/*
 * Fetching: see fetch.h. This file has the requests: which replica is read, what the kernel is
 * answered, and what is done if a replica is late, cannot be read, or does not have the object.
 *
 * Of the replicas on members that are not lost, the best is on this host, then has the shortest mean
 * latency; one on a backup that is late with another read comes after these, and one that core knows to be bad comes last.
 * When its deadline has passed, the next is read as well, and the first that the kernel accepts counts. Requests that
 * wait for the same backup are given to others. Only when each replica has failed does the kernel get an error.
 *
 * A store can have coded segments beside replicas: what is read for a request, rows or a replica, is as its segment is.
 *
 * What is read can be of another segment, if the frame was given away meanwhile: the kernel finds
 * nothing there that is tied to its segment, and the segment is not found here any more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fetch_private.h"
#include "base/memory.h"

#define FETCH_PAUSE_NS		1000000u	/* first pause when the kernel has no memory */
#define FETCH_PAUSE_MOST_NS	50000000u

/* ---- Requests ---------------------------------------------------------- */

static void fetch_list_init(struct fetch *f)
{
	uint32_t i, class;

	TAILQ_INIT(&f->free);
	TAILQ_INIT(&f->ready);
	TAILQ_INIT(&f->filling);
	TAILQ_INIT(&f->paused);
	for (i = 0; i < FETCH_REQUESTS; i++)
		TAILQ_INSERT_TAIL(&f->free, &f->requests[i], link);
	for (class = 0; class < FETCH_CLASSES; class++)
		TAILQ_INIT(&f->waiting[class]);
	for (i = 0; i < CORE_BACKUPS; i++) {
		for (class = 0; class < FETCH_CLASSES; class++) {
			TAILQ_INIT(&f->backups[i].waiting[class]);
			TAILQ_INIT(&f->backups[i].columns[class]);
		}
	}
}

/**
 * fetch_new - make the state of fetching, and allocate all of its memory
 * @params: what it works on
 *
 * Return: the state; NULL: no memory.
 */
struct fetch *fetch_new(const struct fetch_params *params)
{
	struct fetch *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->core = params->core;
	f->wait_ns = params->wait_ns;
	fetch_list_init(f);
	if (!fetch_buffers(f))
		return f;
	fetch_free(f);
	return NULL;
}

/**
 * fetch_free - free the state of fetching
 * @f: has no read in flight; may be NULL. The next daemon gets the requests
 */
void fetch_free(struct fetch *f)
{
	if (!f)
		return;
	memory_put(f->memory);
	memory_put(f->rows_memory);
	free(f);
}

/**
 * fetch_remote - say which backups are on other hosts
 * @f: fetching
 * @remote: mask of their indexes
 */
void fetch_remote(struct fetch *f, uint32_t remote)
{
	f->remote = remote;
}

/**
 * fetch_wait - say how long readers wait, which may have changed
 * @f: fetching
 * @wait_ns: ns
 */
void fetch_wait(struct fetch *f, uint64_t wait_ns)
{
	f->wait_ns = wait_ns;
}

/**
 * fetch_room - how many more requests can be taken
 * @f: fetching
 */
uint32_t fetch_room(const struct fetch *f)
{
	return FETCH_REQUESTS - f->nr;
}

/* Take all attempts from a request. */
static void fetch_detach(struct fetch *f, struct fetch_request *r)
{
	uint32_t i;

	if (r->rows)
		fetch_rows_release(f, r);
	if (r->answer)
		fetch_release(f, r->answer);
	r->answer = NULL;
	r->data = NULL;
	core_each_backup(i, r->attempts ? r->asked : 0)
		if (r->shares[i].attempt)
			fetch_release(f, &r->shares[i]);
}

static void fetch_forget(struct fetch *f, struct fetch_request *r)
{
	fetch_detach(f, r);
	r->state = FETCH_FREE;
	TAILQ_INSERT_TAIL(&f->free, r, link);
	f->nr--;
}

/**
 * fetch_give - answer a request
 * @f: fetching
 * @r: the request, in no list
 * @data: the answer; NULL: it is @r->result
 * @length: bytes of @data
 */
void fetch_give(struct fetch *f, struct fetch_request *r, const uint8_t *data, uint32_t length)
{
	r->data = data;
	r->length = length;
	r->state = FETCH_READY;
	TAILQ_INSERT_TAIL(&f->ready, r, link);
}

/* Answer with the data of an attempt. */
static void fetch_ready(struct fetch *f, struct fetch_request *r, struct fetch_share *share)
{
	const struct fetch_attempt *a = share->attempt;

	if (r->state == FETCH_WAITING)
		fetch_unwait(f, r);
	r->answer = share;
	fetch_give(f, r, a->buffer + (size_t)(r->one.block - a->block) * LSMEM_BLOCK, share->length);
}

/**
 * fetch_answer - answer a request without data
 * @f: fetching
 * @r: the request, in no list
 * @result: a negative errno
 */
void fetch_answer(struct fetch *f, struct fetch_request *r, int result)
{
	fetch_detach(f, r);
	r->result = result;
	fetch_give(f, r, NULL, 0);
	if (result == -ESTALE)
		return;
	f->stats.failures++;
	if (f->bads_next - f->bads_first < FETCH_BADS)
		f->bads[f->bads_next++ % FETCH_BADS] = (struct fetch_bad) {
			.segment = r->one.segment, .block = r->one.block, .backups = r->failed,
		};
}

/* ---- Sources ----------------------------------------------------------- */

/**
 * fetch_segment - find the segment of a request
 * @f: fetching
 * @r: the request
 *
 * Return: the segment; NULL: it was retired, and its objects are elsewhere.
 */
const struct core_segment *fetch_segment(struct fetch *f, const struct fetch_request *r)
{
	const struct core_segment *seg = core_segment_find(f->core, r->one.segment);

	return seg && seg->item.generation == r->one.generation ? seg : NULL;
}

/**
 * fetch_place - find a segment on a backup
 * @f: fetching
 * @one: a request for an object of it
 * @backup: the backup
 * @offset: out: of its log data, bytes
 *
 * Return: false: it is not there, not whole, not closed, or coded: then its log data are not together.
 */
bool fetch_place(const struct fetch *f, const struct lsmem_fetch_one *one, uint32_t backup, uint64_t *offset)
{
	const struct core_segment *seg = core_segment_find(f->core, one->segment);

	if (!seg || seg->item.generation != one->generation || seg->life < CORE_CLOSED || seg->coded ||
	    !((seg->on & ~seg->bad) >> backup & 1u))
		return false;
	*offset = core_where(f->core, seg, backup) + LSMEM_BLOCK;
	return true;
}

/**
 * fetch_extent - how much of a segment a request wants
 * @seg: the segment
 * @r: the request
 * @bytes: out: bytes of log data, from the first block on, without what is beyond the end of the
 *	segment
 *
 * Return: false: the request is beyond the segment, or the segment is not closed: its length is not
 * known, and the kernel has all of it in memory.
 */
bool fetch_extent(const struct core_segment *seg, const struct fetch_request *r, uint32_t *bytes)
{
	uint64_t from = (uint64_t)r->one.block * LSMEM_BLOCK, left;

	if (seg->life < CORE_CLOSED || from >= seg->item.length)
		return false;
	left = seg->item.length - from;
	*bytes = (uint64_t)r->blocks * LSMEM_BLOCK < left ? r->blocks * LSMEM_BLOCK : left;
	return true;
}

/* How long a read is likely to take; what waits is counted in groups that are read together. */
static uint64_t fetch_cost(const struct fetch *f, uint32_t b)
{
	const struct fetch_backup *backup = &f->backups[b];

	return backup->mean_ns * (1 + backup->nr_waiting / FETCH_READS_BUSY);
}

/**
 * fetch_better - compare two backups of a segment
 * @f: fetching
 * @seg: the segment
 * @a: a backup
 * @b: another one
 *
 * Return: is @a the better one to read?
 */
bool fetch_better(const struct fetch *f, const struct core_segment *seg, uint32_t a, uint32_t b)
{
	if ((seg->bad >> a ^ seg->bad >> b) & 1u)
		return seg->bad >> b & 1u;
	if (!f->backups[a].late != !f->backups[b].late)
		return !f->backups[a].late;
	if ((f->remote >> a ^ f->remote >> b) & 1u)
		return f->remote >> b & 1u;
	return fetch_cost(f, a) < fetch_cost(f, b);
}

/* Choose the replica to ask next. Return: its backup; CORE_BACKUPS: there is no other. */
static uint32_t fetch_choose(const struct fetch *f, const struct core_segment *seg,
			     const struct fetch_request *r)
{
	uint32_t best = CORE_BACKUPS, b;

	core_each_backup(b, seg->on & core_alive(f->core) & ~(uint32_t)(r->failed | r->asked))
		if (best == CORE_BACKUPS || fetch_better(f, seg, b, best))
			best = b;
	return best;
}

/* Have the next replica asked. Return: false: there is no other. */
static bool fetch_ask(struct fetch *f, const struct core_segment *seg, struct fetch_request *r)
{
	uint32_t b = fetch_choose(f, seg, r), bytes;

	if (b == CORE_BACKUPS || !fetch_extent(seg, r, &bytes))
		return false;
	r->class = r->one.flags & LSMEM_FETCH_SEGMENT ? FETCH_LARGE :
		   bytes <= FETCH_SMALL_BYTES ? FETCH_SMALL : FETCH_MEDIUM;
	r->backup = b;
	r->state = FETCH_WAITING;
	TAILQ_INSERT_TAIL(&f->backups[b].waiting[r->class], r, link);
	f->backups[b].nr_waiting++;
	return true;
}

/* Find an attempt that has ended and was not given to the kernel. */
static struct fetch_share *fetch_other(struct fetch_request *r)
{
	uint32_t i;

	core_each_backup(i, r->attempts > r->reading ? r->asked : 0)
		if (r->shares[i].attempt && r->shares[i].attempt->done)
			return &r->shares[i];
	return NULL;
}

/**
 * fetch_source - go on with a request that has no answer
 * @f: fetching
 * @r: the request, in no list
 */
void fetch_source(struct fetch *f, struct fetch_request *r)
{
	const struct core_segment *seg = fetch_segment(f, r);
	struct fetch_share *other;

	r->state = FETCH_READING;
	if (!seg) {
		fetch_answer(f, r, -ESTALE);
		return;
	}
	if (seg->coded) {
		fetch_rows_source(f, r);
		return;
	}
	other = fetch_other(r);
	if (other)
		fetch_ready(f, r, other);
	else if (!fetch_ask(f, seg, r) && !r->reading)
		fetch_answer(f, r, -EIO);
}

/**
 * fetch_blocks - how much to read at first
 * @one: a request
 *
 * Return: blocks.
 */
uint32_t fetch_blocks(const struct lsmem_fetch_one *one)
{
	uint32_t most = (one->flags & LSMEM_FETCH_SEGMENT ? LSMEM_SEGMENT_BYTES :
			 FETCH_MEDIUM_BYTES) / LSMEM_BLOCK;

	return !one->blocks ? 1 : one->blocks < most ? one->blocks : most;
}

/**
 * fetch_take - take a request of the kernel
 * @f: fetching; fetch_room() is not 0
 * @one: the request
 * @now: the time, ns
 */
void fetch_take(struct fetch *f, const struct lsmem_fetch_one *one, uint64_t now)
{
	struct fetch_request *r = TAILQ_FIRST(&f->free);

	TAILQ_REMOVE(&f->free, r, link);
	f->nr++;
	memset(r, 0, offsetof(struct fetch_request, link));
	r->one = *one;
	r->blocks = fetch_blocks(one);
	r->begun_ns = now;
	fetch_source(f, r);
}

static void fetch_wrong(struct fetch *f, struct fetch_request *r, uint32_t backup)
{
	r->failed |= 1u << backup;
	f->stats.replaced += fetch_segment(f, r) &&
			     fetch_choose(f, fetch_segment(f, r), r) < CORE_BACKUPS;
}

/* An attempt has failed: each request goes on by itself. */
static void fetch_attempt_failed(struct fetch *f, struct fetch_attempt *a)
{
	struct fetch_share *share, *next;
	uint32_t b = a->backup;
	bool merged = a->merged;

	for (share = TAILQ_FIRST(&a->shares); share; share = next) {
		struct fetch_request *r = share->request;

		next = TAILQ_NEXT(share, link);
		if (merged) {		/* it may be another's part that cannot be read */
			r->alone = true;
			r->asked &= ~(1u << b);
		} else {
			fetch_wrong(f, r, b);
		}
		fetch_release(f, share);	/* after the last one the attempt is free */
		if (r->state == FETCH_READING)
			fetch_source(f, r);
	}
}

/**
 * fetch_attempted - an attempt has ended
 * @f: fetching
 * @a: the attempt, with shares
 */
void fetch_attempted(struct fetch *f, struct fetch_attempt *a)
{
	struct fetch_share *share;

	if (a->error) {
		fetch_attempt_failed(f, a);
		return;
	}
	/* Beyond the cut of a sealed segment there can be whole entries: the kernel must not see them. */
	memset(a->buffer + a->used, 0, a->length - a->used);
	a->done = true;
	TAILQ_FOREACH(share, &a->shares, link) {
		struct fetch_request *r = share->request;

		r->reading--;
		f->reading--;
		if (r->state == FETCH_READING || r->state == FETCH_WAITING)
			fetch_ready(f, r, share);
	}
}

/* ---- Answers ----------------------------------------------------------- */

/**
 * fetch_fills - get answers for LSMEM_REPL_FILL
 * @f: fetching
 * @fills: out; their data stay until fetch_filled(), which must follow
 * @max: room in @fills
 *
 * Return: how many there are in @fills.
 */
uint32_t fetch_fills(struct fetch *f, struct lsmem_fill_one *fills, uint32_t max)
{
	struct fetch_request *r;
	uint32_t nr = 0;

	while (nr < max && (r = TAILQ_FIRST(&f->ready))) {
		TAILQ_REMOVE(&f->ready, r, link);
		r->state = FETCH_FILLING;
		TAILQ_INSERT_TAIL(&f->filling, r, link);
		fills[nr++] = (struct lsmem_fill_one) {
			.cookie = r->one.cookie,
			.data = (uintptr_t)r->data,
			.length = r->length,
			.result = r->result,
		};
	}
	return nr;
}

/* The kernel has the object: have the replicas checked that should have had it. */
static void fetch_succeeded(struct fetch *f, struct fetch_request *r, uint64_t now)
{
	uint32_t b;

	f->stats.fetches++;
	f->stats.bytes += r->length;
	f->stats.degraded += r->rows && r->rows->decoded;
	f->stats.segments += r->one.flags & LSMEM_FETCH_SEGMENT ? 1 : 0;
	histogram_add(&f->stats.latency, now - r->begun_ns);
	core_each_backup(b, r->failed)
		core_replica_doubt(f->core, r->one.segment, r->one.generation, b);
}

static void fetch_pause(struct fetch *f, struct fetch_request *r, uint64_t now)
{
	f->stats.again++;
	r->pause_ns = !r->pause_ns ? FETCH_PAUSE_NS : 2 * r->pause_ns < FETCH_PAUSE_MOST_NS ?
		      2 * r->pause_ns : FETCH_PAUSE_MOST_NS;
	r->again_ns = now + r->pause_ns;
	r->state = FETCH_PAUSED;
	TAILQ_INSERT_TAIL(&f->paused, r, link);
}

/* Read more, because the object is longer. Return: false: there is no more. */
static bool fetch_longer(struct fetch *f, struct fetch_request *r)
{
	const struct core_segment *seg = fetch_segment(f, r);
	uint32_t bytes;

	if (r->one.flags & LSMEM_FETCH_SEGMENT || r->blocks >= FETCH_MEDIUM_BYTES / LSMEM_BLOCK ||
	    (seg && (!fetch_extent(seg, r, &bytes) || bytes < r->blocks * LSMEM_BLOCK)))
		return false;
	r->blocks *= 2;
	if (r->blocks > FETCH_MEDIUM_BYTES / LSMEM_BLOCK)
		r->blocks = FETCH_MEDIUM_BYTES / LSMEM_BLOCK;
	f->stats.longer++;
	fetch_detach(f, r);
	r->asked = 0;
	fetch_source(f, r);
	return true;
}

/* Go on with a request that was answered with data. */
static void fetch_answered(struct fetch *f, struct fetch_request *r, int result, uint64_t now)
{
	switch (result) {
	case 0:
		fetch_succeeded(f, r, now);
		fetch_forget(f, r);
		return;
	case -EAGAIN:
		fetch_pause(f, r, now);
		return;
	case -ENODATA:
		if (fetch_longer(f, r))
			return;
		/* An object that does not end is none. */
		/* fall through */
	case -EBADMSG:
		if (r->rows) {
			fetch_rows_wrong(f, r);
			return;
		}
		fetch_wrong(f, r, r->answer->attempt->backup);
		fetch_release(f, r->answer);
		r->answer = NULL;
		r->blocks = fetch_blocks(&r->one);
		fetch_source(f, r);
		return;
	default:			/* -ENOENT: the object was replaced or freed meanwhile */
		fetch_forget(f, r);
	}
}

/**
 * fetch_filled - take what the kernel has answered to LSMEM_REPL_FILL
 * @f: fetching
 * @fills: as fetch_fills() gave them, with the results of the kernel
 * @nr: as fetch_fills() returned
 * @now: the time, ns
 */
void fetch_filled(struct fetch *f, const struct lsmem_fill_one *fills, uint32_t nr, uint64_t now)
{
	uint32_t i;

	for (i = 0; i < nr; i++) {
		struct fetch_request *r = TAILQ_FIRST(&f->filling);

		TAILQ_REMOVE(&f->filling, r, link);
		if (r->data)
			fetch_answered(f, r, fills[i].result, now);
		else
			fetch_forget(f, r);
	}
}

/* ---- Time -------------------------------------------------------------- */

/* Does an attempt have a deadline? With a single backup there is nothing else to read. */
static bool fetch_has_deadline(const struct fetch *f, const struct fetch_attempt *a)
{
	return !TAILQ_EMPTY(&a->shares) && !a->done && !a->late && f->core->nr_backups > 1;
}

/**
 * fetch_due - when fetch_late() is needed
 * @f: fetching
 *
 * Return: the time, ns; FETCH_NEVER: not until something else happens.
 */
uint64_t fetch_due(const struct fetch *f)
{
	const struct fetch_request *r;
	uint64_t due = FETCH_NEVER;
	uint32_t i;

	TAILQ_FOREACH(r, &f->paused, link)
		if (r->again_ns < due)
			due = r->again_ns;
	for (i = 0; f->reading && i < FETCH_ATTEMPTS; i++)
		if (fetch_has_deadline(f, &f->attempts[i]) && f->attempts[i].due_ns < due)
			due = f->attempts[i].due_ns;
	if (f->rows_memory && fetch_rows_due(f) < due)
		due = fetch_rows_due(f);
	return due;
}

/* What waits for a backup is read from others, if there are any. */
static void fetch_avoid(struct fetch *f, struct fetch_backup *backup)
{
	struct fetch_request *r;
	uint32_t class, nr;

	for (class = 0; class < FETCH_CLASSES; class++) {
		nr = 0;
		TAILQ_FOREACH(r, &backup->waiting[class], link)
			nr++;
		/* What has no other source comes back, behind these. */
		for (; nr && (r = TAILQ_FIRST(&backup->waiting[class])); nr--) {
			fetch_unwait(f, r);
			fetch_source(f, r);
		}
	}
}

/**
 * fetch_slow - take note that an attempt, or the read of a shard, is late
 * @f: fetching
 * @b: its backup
 * @ns: how long it has taken so far
 */
void fetch_slow(struct fetch *f, uint32_t b, uint64_t ns)
{
	/* Until it ends its latency does not count; others must know earlier that the backup is slow. */
	fetch_sample(f, b, ns);
	if (f->backups[b].late++)
		return;
	fetch_avoid(f, &f->backups[b]);
	fetch_rows_avoid(f, b);
}

/* A replica is late: ask the next as well. */
static void fetch_hurry(struct fetch *f, struct fetch_attempt *a, uint64_t now)
{
	struct fetch_share *share;

	a->late = true;
	fetch_slow(f, a->backup, now - a->begun_ns);
	TAILQ_FOREACH(share, &a->shares, link) {
		const struct core_segment *seg = fetch_segment(f, share->request);

		if (share->request->state == FETCH_READING && seg && fetch_ask(f, seg, share->request))
			f->stats.second++;
	}
}

/**
 * fetch_late - see to deadlines, and to answers that the kernel had no memory for
 * @f: fetching
 * @now: the time, ns
 */
void fetch_late(struct fetch *f, uint64_t now)
{
	struct fetch_request *r, *next;
	uint32_t i;

	for (r = TAILQ_FIRST(&f->paused); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->again_ns > now)
			continue;
		TAILQ_REMOVE(&f->paused, r, link);
		fetch_give(f, r, r->data, r->length);
	}
	for (i = 0; f->reading && i < FETCH_ATTEMPTS; i++)
		if (fetch_has_deadline(f, &f->attempts[i]) && f->attempts[i].due_ns <= now)
			fetch_hurry(f, &f->attempts[i], now);
	if (f->rows_memory)
		fetch_rows_late(f, now);
}

/**
 * fetch_second - do the periodic work
 * @f: fetching
 *
 * The caller calls this about every second. A backup that was not read lately is tried again some
 * time: its mean falls.
 */
void fetch_second(struct fetch *f)
{
	uint32_t b;

	for (b = 0; b < CORE_BACKUPS; b++) {
		if (!f->backups[b].sampled)
			f->backups[b].mean_ns -= f->backups[b].mean_ns / 4;
		f->backups[b].sampled = false;
	}
}

/* ---- Reports ----------------------------------------------------------- */

/**
 * fetch_bad_next - get the next request that the operator should know of
 * @f: fetching
 * @bad: out
 *
 * If many fail at once, some are only counted.
 *
 * Return: false: there is none.
 */
bool fetch_bad_next(struct fetch *f, struct fetch_bad *bad)
{
	if (f->bads_first == f->bads_next)
		return false;
	*bad = f->bads[f->bads_first++ % FETCH_BADS];
	return true;
}

/**
 * fetch_stats - get counters and gauges
 * @f: fetching
 * @stats: out
 */
void fetch_stats(const struct fetch *f, struct fetch_stats *stats)
{
	uint32_t b;

	*stats = f->stats;
	stats->under_way = f->nr;
	for (b = 0; b < CORE_BACKUPS; b++) {
		stats->backup[b].in_flight = f->backups[b].reads;
		stats->backup[b].mean_ns = f->backups[b].mean_ns;
	}
}
