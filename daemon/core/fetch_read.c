// SPDX-License-Identifier: GPL-2.0
/*
 * Fetching: attempts to read a replica, their buffers, their reads, and the bounds of these. When an
 * attempt begins, it takes along those of the requests waiting for the same backup that lie close by.
 */
#include <errno.h>
#include <string.h>

#include "fetch_private.h"
#include "base/memory.h"

/* A deadline leaves so much time for each byte, beside the mean latency: 50 MB/s. */
#define FETCH_BYTE_NS	20u
#define FETCH_DUE_NS	5000000u	/* shortest deadline */
#define FETCH_DUE_MEANS	4u		/* deadline, in mean latencies */
#define FETCH_MEAN_NS	1000000u	/* of a backup that was not read yet */
#define FETCH_LINES	(2u * FETCH_CLASSES)	/* of a backup: for replicas, by class, and for shards */

/**
 * struct fetch_class_info - a class of attempts
 * @most: bytes of the longest request
 * @bytes: of each buffer
 * @nr: of buffers, at most
 * @each: of these, a backup has so many at most, if it is not the only one
 * @left: .. and at most so many for each one that is left
 */
struct fetch_class_info {
	uint32_t most, bytes, nr, each, left;
};

static const struct fetch_class_info classes[FETCH_CLASSES] = {
	[FETCH_SMALL] = { FETCH_SMALL_BYTES, FETCH_PART_BYTES, FETCH_SMALL_NR, FETCH_SMALL_NR / 2, 2 },
	[FETCH_MEDIUM] = { FETCH_MEDIUM_BYTES, FETCH_MEDIUM_BYTES, FETCH_MEDIUM_NR, FETCH_MEDIUM_NR / 2, 1 },
	[FETCH_LARGE] = { LSMEM_SEGMENT_BYTES, LSMEM_SEGMENT_BYTES, FETCH_LARGE_NR, 1, 1 },
};

static uint32_t fetch_least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- Buffers ----------------------------------------------------------- */

/* Can a store have segments of a kind? New ones are of one kind, those of the other are there from the start. */
static bool fetch_may_need(const struct core *core, bool coded)
{
	uint32_t i;

	for (i = 0; core->coding != coded && i < core->nr_segments; i++)
		if (core->segments[i].life && core->segments[i].coded == coded)
			return true;
	return core->coding == coded;
}

/* Return: buffers of a class. Of the largest there is one for each replica of a segment, and two for the only one. */
static uint32_t fetch_buffers_of(const struct core *core, uint32_t class)
{
	uint32_t replicas = core->coding ? core->shards.m + 1 : core->replicas ? core->replicas : core->nr_backups;

	if (class != FETCH_LARGE)
		return classes[class].nr;
	return replicas < 2 ? 2 : fetch_least(replicas, classes[class].nr);
}

/**
 * fetch_buffers - allocate the buffers of all attempts, and of rows, as far as the store can need them
 * @f: zeroed
 *
 * Return: 0 or -ENOMEM.
 */
int fetch_buffers(struct fetch *f)
{
	struct fetch_attempt *a = f->attempts;
	uint32_t class, i, b;
	size_t bytes = 0;
	uint8_t *at;

	for (b = 0; b < CORE_BACKUPS; b++)
		f->backups[b].mean_ns = FETCH_MEAN_NS;
	if (fetch_may_need(f->core, true) && fetch_rows_buffers(f))
		return -ENOMEM;
	if (!fetch_may_need(f->core, false))
		return 0;
	for (class = 0; class < FETCH_CLASSES; class++)
		bytes += (size_t)classes[class].bytes * fetch_buffers_of(f->core, class);
	f->memory = memory_get(bytes);
	if (!f->memory)
		return -ENOMEM;
	at = f->memory;
	for (class = 0; class < FETCH_CLASSES; class++) {
		f->nr_spare[class] = fetch_buffers_of(f->core, class);
		for (i = 0; i < f->nr_spare[class]; i++, a++, at += classes[class].bytes) {
			TAILQ_INIT(&a->shares);
			a->class = class;
			a->buffer = at;
			a->next = f->spare[class];
			f->spare[class] = a;
		}
	}
	return 0;
}

/*
 * May a backup have one more buffer? If it hangs, the others need some; and if another one hangs as well, and has what it may have
 * of the rest, the third one. So what each has is bounded by what is left: Choudhury and Hahne's dynamic thresholds (INFOCOM
 * 1996). Three that hang have 32, 22 and 7 of 64 buffers, 4, 2 and 1 of 8, 1 each of 4: some are left for the fourth. Two that are
 * busy have 25 each of 64, which is more than there are reads on a backup while it is written to.
 */
static bool fetch_may_have(const struct fetch *f, uint32_t backup, uint32_t class)
{
	uint32_t has = f->backups[backup].buffers[class];

	if (f->core->nr_backups == 1)
		return f->spare[class];
	return has < classes[class].each && has < classes[class].left * f->nr_spare[class];
}

/* An attempt has ended: its backup is not late with it any more. */
static void fetch_ended(struct fetch *f, struct fetch_attempt *a)
{
	f->backups[a->backup].late -= a->late;
	a->late = false;
}

/* Free an attempt that no request has a share of and that has no read in flight. */
static void fetch_put(struct fetch *f, struct fetch_attempt *a)
{
	fetch_ended(f, a);
	f->backups[a->backup].buffers[a->class]--;
	a->next = f->spare[a->class];
	f->spare[a->class] = a;
	f->nr_spare[a->class]++;
}

/**
 * fetch_release - take an attempt from a request
 * @f: fetching
 * @share: what the request has of it. After the last one the buffer is free again when its reads have
 *	ended
 */
void fetch_release(struct fetch *f, struct fetch_share *share)
{
	struct fetch_attempt *a = share->attempt;
	struct fetch_attempt **issuing = &f->backups[a->backup].issuing[a->class];

	TAILQ_REMOVE(&a->shares, share, link);
	share->attempt = NULL;
	share->request->attempts--;
	if (!a->done) {
		share->request->reading--;
		f->reading--;
	}
	if (!TAILQ_EMPTY(&a->shares))
		return;
	if (*issuing == a)
		*issuing = NULL;
	if (!a->in_flight)
		fetch_put(f, a);
}

/* ---- Reads ------------------------------------------------------------- */

/**
 * fetch_deadline - how long a read may take until others are asked
 * @f: fetching
 * @backup: that is read
 * @length: bytes of the read
 *
 * Return: ns.
 */
uint64_t fetch_deadline(const struct fetch *f, uint32_t backup, uint32_t length)
{
	uint64_t ns = f->backups[backup].mean_ns * FETCH_DUE_MEANS;

	if (ns < FETCH_DUE_NS)
		ns = FETCH_DUE_NS;
	ns += (uint64_t)length * FETCH_BYTE_NS;
	return ns < f->wait_ns / 2 ? ns : f->wait_ns / 2;
}

/**
 * fetch_unwait - take a request from the line of a backup
 * @f: fetching
 * @r: the request, FETCH_WAITING
 */
void fetch_unwait(struct fetch *f, struct fetch_request *r)
{
	struct fetch_backup *backup = &f->backups[r->backup];

	TAILQ_REMOVE(&backup->waiting[r->class], r, link);
	backup->nr_waiting--;
	r->state = FETCH_READING;
}

/* Give a request a share of an attempt, whose place is adjusted. @bytes: of the request's extent. */
static void fetch_join(struct fetch *f, struct fetch_attempt *a, struct fetch_request *r, uint32_t bytes)
{
	struct fetch_share *share = &r->shares[a->backup];
	uint32_t end = r->one.block * LSMEM_BLOCK + bytes;

	if (TAILQ_EMPTY(&a->shares)) {
		a->block = r->one.block;
		a->used = bytes;
	} else {
		uint32_t block = fetch_least(a->block, r->one.block);
		uint32_t before = a->block * LSMEM_BLOCK + a->used;

		a->merged = true;
		a->used = (end > before ? end : before) - block * LSMEM_BLOCK;
		a->block = block;
		f->stats.merged++;
	}
	a->length = lsmem_block_round(a->used);
	*share = (struct fetch_share) { .attempt = a, .request = r, .length = lsmem_block_round(bytes) };
	TAILQ_INSERT_TAIL(&a->shares, share, link);
	r->asked |= 1u << a->backup;
	r->attempts++;
	r->reading++;
	f->reading++;
}

/* Would an attempt that reads a request as well be one read, and not too much of it in vain? */
static bool fetch_close(const struct fetch_attempt *a, const struct fetch_request *r, uint32_t bytes,
			uint32_t most)
{
	uint32_t from = a->block, end = from + a->length / LSMEM_BLOCK;
	uint32_t first = r->one.block, last = first + lsmem_block_round(bytes) / LSMEM_BLOCK;

	if (first > end + FETCH_GAP || from > last + FETCH_GAP)
		return false;
	return ((end > last ? end : last) - fetch_least(from, first)) * LSMEM_BLOCK <= most;
}

/* Have an attempt read what waits and lies close by. @most: bytes of the read. */
static void fetch_merge(struct fetch *f, struct fetch_attempt *a, const struct core_segment *seg,
			uint32_t most)
{
	struct fetch_request *r, *next;
	uint32_t bytes;

	for (r = TAILQ_FIRST(&f->backups[a->backup].waiting[a->class]); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->one.segment != seg->item.segment || r->one.generation != seg->item.generation ||
		    r->alone || !fetch_extent(seg, r, &bytes) || !fetch_close(a, r, bytes, most))
			continue;
		fetch_unwait(f, r);
		fetch_join(f, a, r, bytes);
	}
}

/*
 * Begin an attempt for the first request that waits. @longest: bytes of a read.
 * Return: NULL: none waits, or no buffer is free.
 */
static struct fetch_attempt *fetch_begin(struct fetch *f, uint32_t b, uint32_t class, uint32_t longest,
					 uint64_t now)
{
	struct fetch_backup *backup = &f->backups[b];
	const struct core_segment *seg;
	struct fetch_request *r;
	struct fetch_attempt *a;
	uint32_t bytes;

	while ((r = TAILQ_FIRST(&backup->waiting[class]))) {
		if (!fetch_may_have(f, b, class))
			return NULL;
		fetch_unwait(f, r);
		seg = fetch_segment(f, r);
		if (!seg || !(seg->on >> b & 1u) || !fetch_extent(seg, r, &bytes)) {
			fetch_source(f, r);	/* the segment has changed meanwhile */
			continue;
		}
		a = f->spare[class];
		f->spare[class] = a->next;
		f->nr_spare[class]--;
		backup->buffers[class]++;
		a->backup = b;
		a->merged = false;
		a->late = false;
		a->done = false;
		fetch_join(f, a, r, bytes);
		if (class == FETCH_SMALL && !r->alone)
			fetch_merge(f, a, seg, longest);
		a->offset = core_where(f->core, seg, b) + (1 + (uint64_t)a->block) * LSMEM_BLOCK;
		a->issued = 0;
		a->in_flight = 0;
		a->error = 0;
		a->begun_ns = now;
		a->due_ns = now + fetch_deadline(f, b, a->length);
		backup->issuing[class] = a;
		return a;
	}
	return NULL;
}

/**
 * fetch_longest - how long can one more read be?
 * @f: fetching
 * @b: the backup
 * @class: enum fetch_class of the read
 *
 * Return: bytes; 0: there can be none now.
 */
uint32_t fetch_longest(const struct fetch *f, uint32_t b, uint32_t class)
{
	const struct fetch_backup *backup = &f->backups[b];
	bool busy = f->core->nr_ops[b];
	uint32_t reads = busy ? FETCH_READS_BUSY : FETCH_READS;
	uint32_t most = busy ? FETCH_BYTES_BUSY : FETCH_BYTES;
	uint32_t longest = fetch_least(f->core->io_bytes, FETCH_PART_BYTES);
	uint32_t bytes = fetch_least(longest, classes[class].most);

	if (backup->reads >= reads || backup->bytes + bytes > most)
		return 0;
	/* The other half is for readers. */
	if (class == FETCH_LARGE &&
	    (backup->large_reads >= reads / 2 || backup->large_bytes + bytes > most / 2))
		return 0;
	return fetch_least(longest, most - backup->bytes);
}

/**
 * fetch_part_get - count a read that begins
 * @f: fetching
 * @b: the backup; fetch_longest() allows the read
 * @class: enum fetch_class of the read
 * @length: bytes
 * @read: out: all but @offset and @data
 * @now: the time, ns
 *
 * Return: the read; the caller says what it is for.
 */
struct fetch_part *fetch_part_get(struct fetch *f, uint32_t b, uint32_t class, uint32_t length, struct fetch_read *read,
				  uint64_t now)
{
	struct fetch_backup *backup = &f->backups[b];
	struct fetch_part *part = backup->parts;

	while (part->attempt || part->column)
		part++;
	part->length = length;
	part->begun_ns = now;
	*read = (struct fetch_read) {
		.id = b * FETCH_READS + (uint32_t)(part - backup->parts),
		.backup = b,
		.length = length,
	};
	backup->reads++;
	backup->bytes += length;
	if (class == FETCH_LARGE) {
		backup->large_reads++;
		backup->large_bytes += length;
	}
	return part;
}

/* A read has ended. */
static void fetch_part_put(struct fetch *f, uint32_t b, uint32_t class, struct fetch_part *part)
{
	struct fetch_backup *backup = &f->backups[b];

	part->attempt = NULL;
	part->column = NULL;
	backup->reads--;
	backup->bytes -= part->length;
	if (class == FETCH_LARGE) {
		backup->large_reads--;
		backup->large_bytes -= part->length;
	}
	f->stats.backup[b].reads++;
	f->stats.backup[b].bytes += part->length;
}

static bool fetch_issue(struct fetch *f, uint32_t b, uint32_t class, struct fetch_read *read,
			uint64_t now)
{
	struct fetch_backup *backup = &f->backups[b];
	struct fetch_attempt *a = backup->issuing[class];
	struct fetch_part *part;
	uint32_t longest;

	if (!a && TAILQ_EMPTY(&backup->waiting[class]))
		return false;
	longest = fetch_longest(f, b, class);
	if (!longest)
		return false;
	if (!a)
		a = fetch_begin(f, b, class, longest, now);
	if (!a)
		return false;
	part = fetch_part_get(f, b, class, fetch_least(a->length - a->issued, longest), read, now);
	part->attempt = a;
	read->offset = a->offset + a->issued;
	read->data = a->buffer + a->issued;
	a->issued += part->length;
	a->in_flight++;
	backup->issuing[class] = a->issued < a->length ? a : NULL;
	return true;
}

/* Go on without the replicas of a backup that core has lost. */
static void fetch_gone(struct fetch *f, uint32_t b)
{
	struct fetch_backup *backup = &f->backups[b];
	struct fetch_request *r;
	uint32_t class, i;

	for (i = 0; i < FETCH_ATTEMPTS; i++) {
		struct fetch_attempt *a = &f->attempts[i];
		struct fetch_share *share, *next;

		if (a->done || a->backup != b)
			continue;
		for (share = TAILQ_FIRST(&a->shares); share; share = next) {
			next = TAILQ_NEXT(share, link);
			r = share->request;
			fetch_release(f, share);
			if (r->state == FETCH_READING)
				fetch_source(f, r);
		}
	}
	for (class = 0; class < FETCH_CLASSES; class++) {
		while ((r = TAILQ_FIRST(&backup->waiting[class]))) {
			fetch_unwait(f, r);
			fetch_source(f, r);
		}
	}
}

/* Go on without the backups that core has lost since. */
static void fetch_watch(struct fetch *f)
{
	uint32_t gone = f->alive & ~core_alive(f->core), b;

	f->alive = core_alive(f->core);
	core_each_backup(b, gone) {
		if (f->rows_memory)
			fetch_rows_gone(f, b);
		if (f->memory)
			fetch_gone(f, b);
	}
}

/**
 * fetch_next - get the next read to start
 * @f: fetching; core is CORE_RUNNING or CORE_DRAINING
 * @read: out
 * @now: the time, ns
 *
 * Return: false: there is none now.
 */
bool fetch_next(struct fetch *f, struct fetch_read *read, uint64_t now)
{
	uint32_t nr = f->core->nr_backups, i, c;

	fetch_watch(f);
	fetch_rows_begin(f);
	for (i = 0; i < nr; i++) {
		uint32_t b = (f->turn + i) % nr;
		struct fetch_backup *backup = &f->backups[b];

		if (!(f->alive >> b & 1u))
			continue;
		for (c = 0; c < FETCH_LINES; c++) {
			uint32_t line = (backup->turn + c) % FETCH_LINES, class = line % FETCH_CLASSES;

			if (line < FETCH_CLASSES ? !fetch_issue(f, b, class, read, now) :
						   !fetch_rows_issue(f, b, class, read, now))
				continue;
			backup->turn = line + 1;
			f->turn = b + 1;
			return true;
		}
	}
	return false;
}

/**
 * fetch_sample - take note of the latency of a read
 * @f: fetching
 * @backup: that was read
 * @ns: the latency, or how long the read has taken so far
 */
void fetch_sample(struct fetch *f, uint32_t backup, uint64_t ns)
{
	uint64_t *mean = &f->backups[backup].mean_ns;

	*mean = (*mean * 7 + ns) / 8;
	f->backups[backup].sampled = true;
}

/**
 * fetch_done - a read has ended
 * @f: fetching
 * @id: of the read
 * @error: 0: all of it is there; or a negative errno
 * @now: the time, ns
 */
void fetch_done(struct fetch *f, uint32_t id, int error, uint64_t now)
{
	uint32_t b = id / FETCH_READS;
	struct fetch_backup *backup = &f->backups[b];
	struct fetch_part *part = &backup->parts[id % FETCH_READS];
	struct fetch_column *column = part->column;
	struct fetch_attempt *a = part->attempt;

	fetch_part_put(f, b, column ? column->rows->class : a->class, part);
	if (!error)
		fetch_sample(f, b, now - part->begun_ns);
	if (column) {
		fetch_rows_done(f, column, error);
		return;
	}
	if (error && !a->error)
		a->error = error;
	if (a->error && backup->issuing[a->class] == a)
		backup->issuing[a->class] = NULL;
	if (--a->in_flight)
		return;
	if (TAILQ_EMPTY(&a->shares)) {
		fetch_put(f, a);
	} else if (a->error || a->issued == a->length) {
		fetch_ended(f, a);
		fetch_attempted(f, a);
	}
}
