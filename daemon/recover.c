// SPDX-License-Identifier: GPL-2.0
/*
 * Bringing a backup up: see recover.h.
 *
 * Superblocks, formatting, the digest log, the order of recovery's passes and
 * its commit point.  Until the one write of recover_commit() is flushed nothing
 * of what was there has been changed: a crash before it finds the old digest, a
 * crash after it the new one (invariant 20).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "recover_private.h"

#define RECOVER_TEXT_BYTES	256
#define RECOVER_FRAMES_ALIGN	(64u << 10)

static void recover_report(struct recover *r, enum recover_severity severity,
			   const char *format, va_list args)
{
	char text[RECOVER_TEXT_BYTES];

	vsnprintf(text, sizeof(text), format, args);
	if (r->env.report)
		r->env.report(r->env.context, severity, text);
}

void recover_info(struct recover *r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	recover_report(r, RECOVER_INFO, format, args);
	va_end(args);
}

void recover_damage(struct recover *r, const char *format, ...)
{
	va_list args;

	r->result.losses++;
	va_start(args, format);
	recover_report(r, RECOVER_DAMAGE, format, args);
	va_end(args);
}

int recover_read(struct recover *r, uint64_t offset, void *data, uint32_t length)
{
	const struct recover_range *begun = &r->begun[r->begun_first % RECOVER_AHEAD];

	if (r->begun_first != r->begun_next && begun->data == data && begun->offset == offset &&
	    begun->length == length)
		r->begun_first++;
	r->result.read_bytes += length;
	return r->env.read(r->env.context, offset, data, length);
}

/**
 * recover_ahead - begin a read that a recover_read() of the same will end
 * @r: recovery
 * @offset, @data, @length: of the read; other reads may come in between, but
 *	those that are begun end in their order
 */
void recover_ahead(struct recover *r, uint64_t offset, void *data, uint32_t length)
{
	if (!r->env.ahead || !length || r->begun_next - r->begun_first == RECOVER_AHEAD)
		return;
	r->begun[r->begun_next++ % RECOVER_AHEAD] = (struct recover_range) {
		.offset = offset, .data = data, .length = length,
	};
	r->env.ahead(r->env.context, offset, data, length);
}

/* What is being read for nobody any more: the passes are over, or were ended. */
static void recover_ahead_end(struct recover *r)
{
	while (r->begun_first != r->begun_next) {
		const struct recover_range *begun = &r->begun[r->begun_first++ % RECOVER_AHEAD];

		r->env.read(r->env.context, begun->offset, begun->data, begun->length);
	}
}

/**
 * recover_new - begin to bring a backup up
 * @env: what we need of the caller; copied
 * Return: NULL when there is no memory.
 */
struct recover *recover_new(const struct recover_env *env)
{
	struct recover *r = calloc(1, sizeof(*r));
	uint32_t i;

	if (!r)
		return NULL;
	r->env = *env;
	for (i = 0; i < RECOVER_FRAMES; i++) {
		r->frames[i] = memory_get(LSMEM_SEGMENT_BYTES);
		if (!r->frames[i]) {
			recover_free(r);
			return NULL;
		}
	}
	recover_use(r, 0);
	return r;
}

static void recover_forget(struct recover *r)
{
	free(r->winners);
	r->winners = NULL;
	free(r->segments);
	r->segments = NULL;
	r->nr_segments = 0;
}

void recover_free(struct recover *r)
{
	uint32_t i;

	if (!r)
		return;
	recover_forget(r);
	digest_map_destroy(&r->map);
	for (i = 0; i < RECOVER_FRAMES; i++)
		memory_put(r->frames[i]);
	free(r);
}

const struct lsmem_super *recover_super(const struct recover *r)
{
	return &r->super;
}

const struct digest_map *recover_digest(const struct recover *r)
{
	return &r->map;
}

void recover_activation(const struct recover *r, struct recover_activation *activation)
{
	*activation = r->activation;
}

/* ---- Superblocks and formatting ---------------------------------------- */

/**
 * recover_open - what is on the backup
 * @r: new
 * @state: out
 * Return: 0; -EBADMSG when it is damaged or not for this program: reported; or
 * what a read returned.
 */
int recover_open(struct recover *r, enum recover_state *state)
{
	const struct lsmem_super *slots = (const void *)r->buffer;
	enum format_error error[2];
	int ret, best = -1, i;

	if (r->env.backup_bytes < 2 * LSMEM_BLOCK) {
		recover_info(r, "the backup has %llu bytes: too small to hold anything",
			     (unsigned long long)r->env.backup_bytes);
		return -EBADMSG;
	}
	ret = recover_read(r, 0, r->buffer, 2 * LSMEM_BLOCK);
	if (ret)
		return ret;
	for (i = 0; i < 2; i++) {
		uint64_t sequence = __le64_to_cpu(slots[i].sequence);

		error[i] = format_super_check(&slots[i], r->env.backup_bytes);
		/* Sound, but not for us: an older slot must not stand in for it. */
		if (error[i] == FORMAT_VERSION || error[i] == FORMAT_INCOMPATIBLE ||
		    error[i] == FORMAT_READ_ONLY || error[i] == FORMAT_RANGE) {
			recover_info(r, "superblock slot %d: %s", i, format_strerror(error[i]));
			return -EBADMSG;
		}
		if (!error[i] && (best < 0 || sequence > r->super_sequence)) {
			best = i;
			r->super_sequence = sequence;
		}
	}
	r->opened = true;
	r->blank = false;
	if (best < 0) {
		if (error[0] == FORMAT_ZERO && error[1] == FORMAT_ZERO) {
			r->blank = true;
			*state = RECOVER_BLANK;
			return 0;
		}
		recover_info(r, "no superblock: slot 0: %s, slot 1: %s: not a backup of lsmem, or damaged",
			     format_strerror(error[0]), format_strerror(error[1]));
		return -EBADMSG;
	}
	if (error[!best] && error[!best] != FORMAT_ZERO)
		recover_info(r, "superblock slot %d: %s; slot %d is used", !best,
			     format_strerror(error[!best]), best);
	r->super = slots[best];
	r->slot = best;
	r->max_handles = __le64_to_cpu(r->super.max_handles);
	*state = RECOVER_FULL;
	return 0;
}

/* Bytes before the frames, on a backup with @frames of them. */
static uint64_t recover_before_frames(uint64_t frames, uint64_t half)
{
	uint64_t bytes = 2 * LSMEM_BLOCK + 2 * (half ? half : format_half_bytes(frames));

	return (bytes + RECOVER_FRAMES_ALIGN - 1) & ~(uint64_t)(RECOVER_FRAMES_ALIGN - 1);
}

/**
 * recover_backup_bytes - size of the smallest backup for a number of frames
 * @frames: segments that it is to hold
 */
uint64_t recover_backup_bytes(uint64_t frames)
{
	return recover_before_frames(frames, 0) + frames * LSMEM_SEGMENT_BYTES;
}

/* How many frames fit, behind what the digest log for so many takes. */
static uint64_t recover_frames(const struct recover *r, const struct recover_geometry *g,
			       uint64_t *half, uint64_t *start)
{
	uint64_t frames = r->env.backup_bytes / LSMEM_SEGMENT_BYTES, fit;

	for (;;) {
		*half = g->half_bytes ? g->half_bytes : format_half_bytes(frames);
		*start = recover_before_frames(frames, *half);
		if (*start > r->env.backup_bytes)
			return 0;
		fit = (r->env.backup_bytes - *start) / LSMEM_SEGMENT_BYTES;
		if (fit >= frames)
			return frames;
		frames = fit;
	}
}

/* Write a superblock, with the next sequence number, into the older slot. */
static int recover_write_super(struct recover *r)
{
	struct lsmem_super *block = (void *)r->buffer;
	/* Only the older slot is overwritten, and the newer is durable by then:
	 * a write that is cut short can spoil the block it was for.
	 */
	uint32_t slot = RULE(SUPER_OLDER) ? !r->slot : r->slot;
	int ret;

	r->super.sequence = __cpu_to_le64(r->super_sequence + 1);
	format_super_seal(&r->super);
	*block = r->super;
	ret = r->env.write(r->env.context, (uint64_t)slot * LSMEM_BLOCK, block, LSMEM_BLOCK);
	if (!ret)
		ret = r->env.flush(r->env.context);
	if (ret)
		return ret;
	r->super_sequence++;
	r->slot = slot;
	return 0;
}

/* Write the map as a full record to the beginning of half @half. */
static int recover_write_digest(struct recover *r, uint32_t half)
{
	uint64_t bytes = format_digest_bytes(r->map.nr), done;
	uint8_t *record = memory_get(bytes);
	uint64_t where = format_half_offset(&r->super, half);
	int ret = 0;

	if (!record)
		return -ENOMEM;
	memset(record, 0, bytes);
	digest_full((struct lsmem_digest *)record, &r->map, &r->super);
	for (done = 0; done < bytes && !ret;) {
		uint32_t part = bytes - done < LSMEM_SEGMENT_BYTES ? bytes - done :
				LSMEM_SEGMENT_BYTES;

		ret = r->env.write(r->env.context, where + done, record + done, part);
		done += part;
	}
	if (!ret && RULE(COMMIT_FLUSH))
		ret = r->env.flush(r->env.context);
	memory_put(record);
	r->map.half = half;
	r->map.at = bytes;
	r->map.sequence_seen = r->map.sequence;
	return ret;
}

/**
 * recover_format - make a backup hold a new, empty store
 * @r: recover_open() was called
 * @g: the store
 * Return: 0, -EEXIST, -ENOSPC, -EINVAL, or what a call returned.
 *
 * The superblock comes last: a crash before it finds the backup as blank as it
 * was.  Digests of an earlier store bear another uuid.
 */
int recover_format(struct recover *r, const struct recover_geometry *g)
{
	uint64_t frames, start;
	uint64_t half;
	int ret;

	/* Invariant 18: an empty store never replaces a full backup unasked. */
	if (RULE(FORMAT_FORCE) && !r->blank && !g->force) {
		recover_info(r, "the backup is not blank: it is formatted with force only");
		return -EEXIST;
	}
	frames = recover_frames(r, g, &half, &start);
	if (!frames || frames < g->frames) {
		recover_info(r, "the backup has %llu bytes; at least %llu are needed for %u segments",
			     (unsigned long long)r->env.backup_bytes,
			     (unsigned long long)(recover_before_frames(g->frames, g->half_bytes) +
						  (uint64_t)g->frames * LSMEM_SEGMENT_BYTES),
			     g->frames);
		return -ENOSPC;
	}
	memset(&r->super, 0, sizeof(r->super));
	r->super.magic = __cpu_to_le64(LSMEM_SUPER_MAGIC);
	r->super.format = __cpu_to_le32(LSMEM_FORMAT);
	memcpy(r->super.uuid, g->uuid, sizeof(r->super.uuid));
	r->super.incarnation = __cpu_to_le64(g->incarnation);
	r->super.digest_start = __cpu_to_le64(2 * LSMEM_BLOCK);
	r->super.digest_bytes = __cpu_to_le64(half);
	r->super.frames_start = __cpu_to_le64(start);
	r->super.frames = __cpu_to_le64(frames);
	r->super.kind = __cpu_to_le32(g->kind);
	r->super.store_bytes = __cpu_to_le64(g->store_bytes);
	r->super.max_handles = __cpu_to_le64(g->max_handles);
	format_super_seal(&r->super);
	if (format_super_check(&r->super, r->env.backup_bytes)) {
		recover_info(r, "the store's geometry is out of range");
		return -EINVAL;
	}
	r->max_handles = g->max_handles;

	digest_map_destroy(&r->map);
	ret = digest_map_init(&r->map, frames);
	if (ret)
		return ret;
	r->map.epoch = 1;
	r->map.sequence = 1;
	r->map.era = 1;
	r->map.generation_ceiling = RECOVER_GENERATIONS;
	r->map.next_segment = 1;
	ret = recover_write_digest(r, 0);
	if (!ret)
		ret = recover_write_super(r);
	/* The other slot too: a store that was there before must not come back. */
	if (!ret)
		ret = recover_write_super(r);
	if (ret)
		return ret;
	r->blank = false;
	r->activation = (struct recover_activation) {
		.era = 1,
		.generation_ceiling = RECOVER_GENERATIONS,
		.next_segment = 1,
	};
	return 0;
}

/* ---- The digest log ---------------------------------------------------- */

/* Read the digest log; newer digests than the newest found are reported. */
static int recover_read_digests(struct recover *r)
{
	uint64_t length = 2 * __le64_to_cpu(r->super.digest_bytes), done;
	enum format_error error;
	uint8_t *halves;
	int ret = 0;

	/* What is read may still be on its way from a predecessor that was killed.
	 * Nothing may be built on it, and the other half of the digest log not be
	 * overwritten, before it is durable.
	 */
	if (!r->check && RULE(RESUME_FLUSH))
		ret = r->env.flush(r->env.context);
	if (ret)
		return ret;
	halves = memory_get(length);
	if (!halves)
		return -ENOMEM;
	for (done = 0; done < length && !ret;) {
		uint32_t part = length - done < LSMEM_SEGMENT_BYTES ? length - done :
				LSMEM_SEGMENT_BYTES;

		ret = recover_read(r, __le64_to_cpu(r->super.digest_start) + done, halves + done,
				   part);
		done += part;
	}
	digest_map_destroy(&r->map);
	if (!ret)
		ret = digest_map_init(&r->map, __le64_to_cpu(r->super.frames));
	if (!ret) {
		error = digest_read(&r->map, &r->super, halves);
		if (error) {
			recover_damage(r, "digest log: %s",
				       error == FORMAT_ZERO ? "no digest is there" :
				       "a digest contradicts the one before it");
			ret = -EBADMSG;
		}
	}
	memory_put(halves);
	if (!ret && r->map.sequence_seen > r->map.sequence && RULE(PROOF_DIGEST))
		recover_damage(r, "digest log: digests %llu to %llu are lost",
			       (unsigned long long)r->map.sequence + 1,
			       (unsigned long long)r->map.sequence_seen);
	return ret;
}

/**
 * recover_map - read the digest log
 * @r: recover_open() said RECOVER_FULL
 * Return: 0; -EBADMSG: there is no digest; -ENODATA: there were newer ones, and
 * they are lost; or what a call returned.
 */
int recover_map(struct recover *r)
{
	int ret = recover_read_digests(r);

	if (!ret && r->map.sequence_seen > r->map.sequence)
		ret = -ENODATA;
	return ret;
}

/* ---- Recovery ---------------------------------------------------------- */

static int recover_by_id(const void *a, const void *b)
{
	const struct recover_segment *x = a, *y = b;

	return x->item.segment < y->item.segment ? -1 : x->item.segment > y->item.segment;
}

/* Listed segments in the order of their ids, and a table of winners. */
static int recover_prepare(struct recover *r)
{
	uint32_t frame, nr = 0;

	recover_forget(r);
	r->segments = calloc(r->map.nr + 1, sizeof(*r->segments));
	r->winners = memory_table(r->max_handles * sizeof(*r->winners));
	if (!r->segments || !r->winners)
		return -ENOMEM;
	for (frame = 0; frame < r->map.frames; frame++) {
		if (!r->map.items[frame].state)
			continue;
		r->segments[nr].item = r->map.items[frame];
		r->segments[nr++].frame = frame;
	}
	r->nr_segments = nr;
	qsort(r->segments, nr, sizeof(*r->segments), recover_by_id);
	r->time = r->map.store_time;
	r->era = r->map.era;
	r->generation = r->map.generation_ceiling;
	r->sequence = r->map.sequence_seen;
	r->max_segment = nr ? r->segments[nr - 1].item.segment : 0;
	for (frame = 1; frame < nr; frame++) {
		if (r->segments[frame].item.segment != r->segments[frame - 1].item.segment)
			continue;
		recover_damage(r, "digest log: segment %llu is listed twice, in frames %u and %u",
			       (unsigned long long)r->segments[frame].item.segment,
			       r->segments[frame - 1].frame, r->segments[frame].frame);
		return -EBADMSG;
	}
	return 0;
}

static void recover_progress(const struct recover *r, uint64_t done)
{
	if (r->env.progress)
		r->env.progress(r->env.context, done, 2 * r->nr_segments);
}

/* Pass 2 reads the first of these, from @nr on; their number when there is none. */
static uint32_t recover_next(const struct recover *r, uint32_t nr)
{
	while (nr < r->nr_segments && !r->segments[nr].winners &&
	       !(r->check && !r->segments[nr].lost))
		nr++;
	return nr;
}

/* Pass 1: all directories.  @oldest: lowest id of a segment that holds anything. */
static int recover_scans(struct recover *r, uint64_t *oldest)
{
	uint32_t nr, ahead = 0;
	int ret = 0;

	*oldest = UINT64_MAX;
	for (nr = 0; nr < r->nr_segments && !ret; nr++) {
		for (; ahead < r->nr_segments && ahead < nr + RECOVER_WINDOW; ahead++)
			recover_scan_ahead(r, ahead, ahead);
		recover_use(r, nr);
		ret = recover_scan(r, nr);
		if (!ret && r->segments[nr].cut && r->segments[nr].item.segment < *oldest)
			*oldest = r->segments[nr].item.segment;
		recover_progress(r, nr + 1);
	}
	recover_ahead_end(r);
	return ret;
}

/* Pass 2: all data. */
static int recover_loads(struct recover *r, uint64_t oldest)
{
	uint32_t nr = recover_next(r, 0), ahead = nr, turn = 0, turn_ahead = 0;
	int ret = 0, err;

	for (; nr < r->nr_segments && !ret; nr = recover_next(r, nr + 1), turn++) {
		for (; ahead < r->nr_segments && turn_ahead < turn + RECOVER_WINDOW; turn_ahead++) {
			recover_load_ahead(r, ahead, turn_ahead);
			ahead = recover_next(r, ahead + 1);
		}
		recover_use(r, turn);
		ret = recover_load(r, nr, oldest);
		recover_progress(r, r->nr_segments + nr + 1);
	}
	recover_ahead_end(r);
	err = recover_loaded(r);
	return ret ? ret : err;
}

/* Both passes; nothing is written. */
static int recover_passes(struct recover *r, bool accept_loss)
{
	uint64_t oldest;
	int ret;

	ret = recover_read_digests(r);
	if (!ret)
		ret = recover_prepare(r);
	if (!ret)
		ret = recover_scans(r, &oldest);
	if (!ret && r->result.losses && !accept_loss && !r->check)
		return -ENODATA;
	if (!ret)
		ret = recover_loads(r, oldest);
	if (ret)
		return ret;
	return r->result.losses && !accept_loss ? -ENODATA : 0;
}

/*
 * The commit point: the digest of a new epoch.  Segments are adopted where they
 * are; those without a winner are left out, as everything in them has been
 * superseded by what was read from the same backup.
 */
static int recover_commit(struct recover *r)
{
	struct digest_map *map = &r->map;
	uint32_t floor = r->generation, i;
	uint32_t half;

	if (r->era >= LSMEM_ERA_MAX) {
		recover_info(r, "the store has been recovered %u times: its eras are used up; copy it to a new one",
			     r->era);
		return -EOVERFLOW;
	}
	digest_map_clear(map);
	for (i = 0; i < r->nr_segments; i++) {
		const struct recover_segment *seg = &r->segments[i];
		struct digest_item *item = &map->items[seg->frame];

		if (!seg->winners) {
			r->result.dropped++;
			continue;
		}
		*item = seg->item;
		item->length = seg->cut;
		/* Invariant 15: sealed, never extended: what was cut off may be whole
		 * behind the cut, and would follow new entries as if it were theirs.
		 */
		if (!seg->closed && RULE(SEAL))
			item->state = LSMEM_ITEM_SEALED;
		map->nr++;
	}
	r->result.segments = map->nr;

	map->epoch++;
	map->sequence = r->sequence + 1;
	/* Invariant 14: above everything ever issued, what the crash has lost and
	 * what was deleted included: the era tops all versions, the old ceiling
	 * all generations.
	 */
	if (RULE(ERA))
		map->era = r->era + 1;
	map->generation_ceiling = LSMEM_GENERATION_MAX - floor < RECOVER_GENERATIONS ?
				  LSMEM_GENERATION_MAX : floor + RECOVER_GENERATIONS;
	if (r->time > map->store_time)
		map->store_time = r->time;
	if (map->next_segment <= r->max_segment)
		map->next_segment = r->max_segment + 1;
	if (map->next_segment < r->barrier)
		map->next_segment = r->barrier;
	r->activation = (struct recover_activation) {
		.era = map->era,
		.generation_floor = RULE(GENERATION) ? floor : 0,
		.generation_ceiling = map->generation_ceiling,
		.store_time = map->store_time,
		.next_segment = map->next_segment,
	};
	/* In the half that the chain read does not use: until this record is
	 * whole, the chain is what counts.
	 */
	half = RULE(DIGEST_HALF) ? !map->half : map->half;
	return recover_write_digest(r, half);
}

/**
 * recover_run - recover a backup
 * @r: recover_open() said RECOVER_FULL
 * @options: how
 * @result: what was found; may be NULL
 * Return: 0; -ENODATA: acknowledged data are lost and that was not accepted;
 * or an error.
 */
int recover_run(struct recover *r, const struct recover_options *options,
		struct recover_result *result)
{
	int ret;

	memset(&r->result, 0, sizeof(r->result));
	r->check = false;
	ret = recover_passes(r, options && options->accept_loss);
	if (!ret)
		ret = recover_commit(r);
	if (result)
		*result = r->result;
	recover_forget(r);
	return ret;
}

/**
 * recover_check - would a recovery find everything, and is all of it sound
 * @r: recover_open() said RECOVER_FULL
 * @result: what was found; may be NULL
 * Return: 0; -ENODATA: something is lost or damaged; or an error.
 */
int recover_check(struct recover *r, struct recover_result *result)
{
	uint32_t nr;
	int ret;

	memset(&r->result, 0, sizeof(r->result));
	r->check = true;
	ret = recover_passes(r, false);
	for (nr = 0; nr < r->nr_segments; nr++)
		r->result.segments += r->segments[nr].winners != 0;
	if (result)
		*result = r->result;
	recover_forget(r);
	return ret;
}
