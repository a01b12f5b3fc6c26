// SPDX-License-Identifier: GPL-2.0
/* Fetching: attempts to read a replica, their buffers, their reads, and the bounds of these. */
#include <errno.h>
#include <string.h>

#include "fetch_private.h"
#include "base/memory.h"

/* A deadline leaves so much time for each byte, beside the mean latency: 50 MB/s. */
#define FETCH_BYTE_NS	20u
#define FETCH_DUE_NS	5000000u	/* shortest deadline */
#define FETCH_DUE_MEANS	4u		/* deadline, in mean latencies */
#define FETCH_MEAN_NS	1000000u	/* of a backup that was not read yet */

static const struct {
	uint32_t bytes, nr;
} classes[FETCH_CLASSES] = {
	[FETCH_SMALL] = { FETCH_SMALL_BYTES, FETCH_SMALL_NR },
	[FETCH_MEDIUM] = { FETCH_MEDIUM_BYTES, FETCH_MEDIUM_NR },
	[FETCH_LARGE] = { LSMEM_SEGMENT_BYTES, FETCH_LARGE_NR },
};

/* ---- Buffers ----------------------------------------------------------- */

/**
 * fetch_buffers - allocate the buffers of all attempts
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

	for (class = 0; class < FETCH_CLASSES; class++)
		bytes += (size_t)classes[class].bytes * classes[class].nr;
	f->memory = memory_get(bytes);
	if (!f->memory)
		return -ENOMEM;
	at = f->memory;
	for (class = 0; class < FETCH_CLASSES; class++) {
		for (i = 0; i < classes[class].nr; i++, a++, at += classes[class].bytes) {
			a->class = class;
			a->buffer = at;
			a->next = f->spare[class];
			f->spare[class] = a;
		}
	}
	for (b = 0; b < CORE_BACKUPS; b++)
		f->backups[b].mean_ns = FETCH_MEAN_NS;
	return 0;
}

/* May a backup have one more buffer? If it hangs, the others need some. */
static bool fetch_may_have(const struct fetch *f, uint32_t backup, uint32_t class)
{
	uint32_t most = f->core->nr_backups > 1 ? classes[class].nr / 2 : classes[class].nr;

	return f->spare[class] && f->backups[backup].buffers[class] < most;
}

/* Free an attempt that no request needs and that has no read in flight. */
static void fetch_put(struct fetch *f, struct fetch_attempt *a)
{
	f->backups[a->backup].buffers[a->class]--;
	a->next = f->spare[a->class];
	f->spare[a->class] = a;
}

/**
 * fetch_release - take an attempt from its request
 * @f: fetching
 * @a: the attempt; its buffer is free again when its reads have ended
 */
void fetch_release(struct fetch *f, struct fetch_attempt *a)
{
	struct fetch_attempt **issuing = &f->backups[a->backup].issuing[a->class];

	if (*issuing == a)
		*issuing = NULL;
	a->request->attempts--;
	if (!a->done) {
		a->request->reading--;
		f->reading--;
	}
	a->request = NULL;
	if (!a->in_flight)
		fetch_put(f, a);
}

/* ---- Reads ------------------------------------------------------------- */

static uint64_t fetch_deadline(const struct fetch *f, uint32_t backup, uint32_t length)
{
	uint64_t ns = f->backups[backup].mean_ns * FETCH_DUE_MEANS;

	if (ns < FETCH_DUE_NS)
		ns = FETCH_DUE_NS;
	ns += (uint64_t)length * FETCH_BYTE_NS;
	return ns < f->wait_ns / 2 ? ns : f->wait_ns / 2;
}

/* Begin an attempt for the first request that waits. Return: NULL: none waits, or no buffer is free. */
static struct fetch_attempt *fetch_begin(struct fetch *f, uint32_t b, uint32_t class, uint64_t now)
{
	struct fetch_backup *backup = &f->backups[b];
	const struct core_segment *seg;
	struct fetch_request *r;
	struct fetch_attempt *a;
	uint32_t bytes;

	while ((r = TAILQ_FIRST(&backup->waiting[class]))) {
		if (!fetch_may_have(f, b, class))
			return NULL;
		TAILQ_REMOVE(&backup->waiting[class], r, link);
		backup->nr_waiting--;
		r->state = FETCH_READING;
		seg = fetch_segment(f, r);
		if (!seg || !(seg->on >> b & 1u) || !fetch_extent(seg, r, &bytes)) {
			fetch_source(f, r);	/* the segment has changed meanwhile */
			continue;
		}
		a = f->spare[class];
		f->spare[class] = a->next;
		backup->buffers[class]++;
		a->request = r;
		a->backup = b;
		a->late = false;
		a->done = false;
		a->offset = core_where(f->core, seg, b) +
			    (1 + (uint64_t)r->one.block) * LSMEM_BLOCK;
		a->length = lsmem_block_round(bytes);
		a->used = bytes;
		a->issued = 0;
		a->in_flight = 0;
		a->error = 0;
		a->begun_ns = now;
		a->due_ns = now + fetch_deadline(f, b, a->length);
		r->asked |= 1u << b;
		r->attempts++;
		r->reading++;
		f->reading++;
		backup->issuing[class] = a;
		return a;
	}
	return NULL;
}

/* Is there room for one more read of @bytes? */
static bool fetch_fits(const struct fetch *f, uint32_t b, uint32_t class, uint32_t bytes)
{
	const struct fetch_backup *backup = &f->backups[b];
	bool busy = f->core->nr_ops[b];
	uint32_t reads = busy ? FETCH_READS_BUSY : FETCH_READS;
	uint32_t most = busy ? FETCH_BYTES_BUSY : FETCH_BYTES;

	if (backup->reads >= reads || backup->bytes + bytes > most)
		return false;
	/* The other half is for readers. */
	return class != FETCH_LARGE ||
	       (backup->large_reads < reads / 2 && backup->large_bytes + bytes <= most / 2);
}

static bool fetch_issue(struct fetch *f, uint32_t b, uint32_t class, struct fetch_read *read,
			uint64_t now)
{
	struct fetch_backup *backup = &f->backups[b];
	uint32_t most = f->core->io_bytes < FETCH_PART_BYTES ? f->core->io_bytes : FETCH_PART_BYTES;
	struct fetch_attempt *a = backup->issuing[class];
	struct fetch_part *part = backup->parts;

	if (!fetch_fits(f, b, class, most < classes[class].bytes ? most : classes[class].bytes))
		return false;
	if (!a)
		a = fetch_begin(f, b, class, now);
	if (!a)
		return false;
	while (part->attempt)
		part++;
	part->attempt = a;
	part->length = a->length - a->issued < most ? a->length - a->issued : most;
	part->begun_ns = now;
	*read = (struct fetch_read) {
		.id = b * FETCH_READS + (uint32_t)(part - backup->parts),
		.backup = b,
		.offset = a->offset + a->issued,
		.length = part->length,
		.data = a->buffer + a->issued,
	};
	a->issued += part->length;
	a->in_flight++;
	backup->issuing[class] = a->issued < a->length ? a : NULL;
	backup->reads++;
	backup->bytes += part->length;
	if (class == FETCH_LARGE) {
		backup->large_reads++;
		backup->large_bytes += part->length;
	}
	return true;
}

/* Go on without the backups that core has lost since. */
static void fetch_watch(struct fetch *f)
{
	uint32_t gone = f->alive & ~core_alive(f->core), b, class, i;
	struct fetch_request *r;

	f->alive = core_alive(f->core);
	core_each_backup(b, gone) {
		struct fetch_backup *backup = &f->backups[b];

		for (i = 0; i < FETCH_ATTEMPTS; i++) {
			struct fetch_attempt *a = &f->attempts[i];

			r = a->request;
			if (!r || a->done || a->backup != b)
				continue;
			fetch_release(f, a);
			if (r->state == FETCH_READING)
				fetch_source(f, r);
		}
		for (class = 0; class < FETCH_CLASSES; class++) {
			while ((r = TAILQ_FIRST(&backup->waiting[class]))) {
				TAILQ_REMOVE(&backup->waiting[class], r, link);
				backup->nr_waiting--;
				r->state = FETCH_READING;
				fetch_source(f, r);
			}
		}
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
	for (i = 0; i < nr; i++) {
		uint32_t b = (f->turn + i) % nr;
		struct fetch_backup *backup = &f->backups[b];

		if (!(f->alive >> b & 1u))
			continue;
		for (c = 0; c < FETCH_CLASSES; c++) {
			uint32_t class = (backup->turn + c) % FETCH_CLASSES;

			if (!fetch_issue(f, b, class, read, now))
				continue;
			backup->turn = class + 1;
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
	struct fetch_attempt *a = part->attempt;

	part->attempt = NULL;
	backup->reads--;
	backup->bytes -= part->length;
	if (a->class == FETCH_LARGE) {
		backup->large_reads--;
		backup->large_bytes -= part->length;
	}
	f->stats.backup[b].reads++;
	f->stats.backup[b].bytes += part->length;
	if (error && !a->error)
		a->error = error;
	if (!error)
		fetch_sample(f, b, now - part->begun_ns);
	if (a->error && backup->issuing[a->class] == a)
		backup->issuing[a->class] = NULL;
	if (--a->in_flight)
		return;
	if (!a->request)
		fetch_put(f, a);
	else if (a->error || a->issued == a->length)
		fetch_attempted(f, a);
}
