// SPDX-License-Identifier: GPL-2.0
/*
 * Superblocks, the contents of backups, and formatting; backups that join: join.c.
 *
 * A formatting writes the superblocks last. After a crash before that, the backups are blank. After
 * a crash between two superblocks, some backups have a digest that lists nothing, and
 * recover_open() calls all of them blank, too.
 */
#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "private.h"

#define RECOVER_FRAMES_ALIGN	(64u << 10)

/**
 * recover_open_slot - read the superblock of one backup
 * @r: recovery
 * @slot: of the backup, whose size is in struct recover_env
 *
 * The caller of recover_ready() calls this first.
 *
 * Return: 0: there is a superblock, or recover_slot_blank() is true; -EBADMSG: neither, which is
 * reported; or what the call returned.
 */
int recover_open_slot(struct recover *r, uint32_t slot)
{
	const struct lsmem_super *copies = (const void *)r->buffer;
	struct recover_backup *backup = &r->backups[slot];
	uint64_t bytes = r->env.backup_bytes[slot];
	enum format_error error[2];
	int ret, best = -1, i;

	backup->there = false;
	backup->blank = false;
	backup->index = RECOVER_NONE;
	if (bytes < 2 * LSMEM_BLOCK) {
		recover_info(r, "the backup has %llu bytes: too small",
			     (unsigned long long)bytes);
		return -EBADMSG;
	}
	ret = recover_read(r, recover_address(slot, 0), r->buffer, 2 * LSMEM_BLOCK);
	if (ret)
		return ret;
	for (i = 0; i < 2; i++) {
		uint64_t sequence = __le64_to_cpu(copies[i].sequence);

		error[i] = format_super_check(&copies[i], bytes);
		if (error[i] == FORMAT_OLD) {
			recover_info(r, "a backup of format %u, and this version of lsmem reads format %u: use it with the version that wrote it",
				     __le32_to_cpu(copies[i].format), LSMEM_FORMAT);
			r->unread = true;
			return -EBADMSG;
		}
		/* The copy is sound, but not for this version: do not use an older one. */
		if (error[i] == FORMAT_VERSION || error[i] == FORMAT_INCOMPATIBLE ||
		    error[i] == FORMAT_READ_ONLY || error[i] == FORMAT_RANGE) {
			recover_info(r, "superblock copy %d: %s", i, format_strerror(error[i]));
			return -EBADMSG;
		}
		if (!error[i] && (best < 0 || sequence > backup->super_sequence)) {
			best = i;
			backup->super_sequence = sequence;
		}
	}
	if (best < 0) {
		if (error[0] == FORMAT_ZERO && error[1] == FORMAT_ZERO) {
			backup->blank = true;
			return 0;
		}
		recover_info(r, "no superblock: copy 0: %s, copy 1: %s: not a backup of lsmem, or damaged",
			     format_strerror(error[0]), format_strerror(error[1]));
		return -EBADMSG;
	}
	if (error[!best] && error[!best] != FORMAT_ZERO)
		recover_info(r, "superblock copy %d: %s; copy %d is used", !best,
			     format_strerror(error[!best]), best);
	backup->there = true;
	backup->super = copies[best];
	backup->super_copy = best;
	return 0;
}

/* Are two backups of the same store? Of one that is converted, their codes may differ: see recover_set_code(). */
static bool recover_same(const struct lsmem_super *a, const struct lsmem_super *b)
{
	return !memcmp(a->uuid, b->uuid, sizeof(a->uuid)) && a->kind == b->kind &&
	       a->store_bytes == b->store_bytes && a->max_handles == b->max_handles &&
	       a->digest_bytes == b->digest_bytes && format_backups(a) == format_backups(b) &&
	       format_set_frames(a) == format_set_frames(b) && a->incarnation != b->incarnation;
}

/*
 * Was a formatting cut off? It was if all digests that are there are the first of their store and
 * list nothing, and a backup is blank or has a superblock of another formatting.
 */
static int recover_half_formatted(struct recover *r, bool blank, bool *half)
{
	bool empty = true;
	uint32_t slot;
	int ret;

	for (slot = 0; slot < r->several; slot++) {
		struct recover_backup *backup = &r->backups[slot];

		if (!backup->there)
			continue;
		/* What cannot be read is not empty. recover_read_digests() says so, and may go on without it. */
		ret = recover_read_log(r, slot);
		if (ret == -ECANCELED || ret == -ENOMEM)
			return ret;
		empty &= backup->chain && backup->map.term == 1 && backup->map.sequence == 1 &&
			 !backup->map.nr && !(backup->map.stripes && backup->map.stripes->nr_segments);
		blank |= backup->chain && recover_index(r, &backup->map, slot) == RECOVER_NONE;
	}
	*half = empty && blank;
	return 0;
}

/* Decide what the superblocks of all backups mean together. */
static int recover_open_all(struct recover *r, uint32_t blank, uint32_t bad)
{
	uint32_t slot, first = RECOVER_NONE, last = RECOVER_NONE;
	bool half;
	int ret;

	for (slot = 0; slot < LSMEM_BACKUPS; slot++) {
		if (!r->backups[slot].there)
			continue;
		if (last == RECOVER_NONE || __le64_to_cpu(r->backups[slot].super.promise) >
					    __le64_to_cpu(r->backups[last].super.promise))
			last = slot;
		if (first == RECOVER_NONE)
			first = slot;
		else if (!recover_same(&r->backups[first].super, &r->backups[slot].super)) {
			recover_info(r, "%s and %s are of different stores, or a copy of each other",
				     recover_name(r, first), recover_name(r, slot));
			return -EBADMSG;
		}
	}
	if (first == RECOVER_NONE) {
		r->blank = blank && !bad;
		return r->blank ? 0 : -EBADMSG;
	}
	r->super = r->backups[last].super;
	r->indices = format_indices(&r->super);
	if (r->several && !bad) {
		ret = recover_half_formatted(r, blank, &half);
		if (ret)
			return ret;
		r->blank = half;
	}
	return 0;
}

/**
 * recover_open - look at what is on the backups
 * @r: new
 * @state: out
 *
 * Writes nothing. If there are several backups, one that cannot be read counts as absent.
 *
 * Return: 0; -EBADMSG: no superblock can be used, or two are of different stores; or what a call
 * returned.
 */
int recover_open(struct recover *r, enum recover_state *state)
{
	uint32_t slot, blank = 0, bad = 0;
	int ret;

	r->blank = false;
	for (slot = 0; slot < (r->several ? r->several : 1); slot++) {
		if (r->several && !r->env.backup_bytes[slot]) {
			r->backups[slot].there = false;
			r->backups[slot].blank = false;
			bad++;
			continue;
		}
		ret = recover_open_slot(r, slot);
		if (ret && (!r->several || ret == -ECANCELED))
			return ret;
		if (ret)
			recover_info(r, "%s cannot be used", recover_name(r, slot));
		bad += ret != 0;
		blank += r->backups[slot].blank;
	}
	ret = recover_open_all(r, blank, bad);
	if (!ret)
		*state = r->blank ? RECOVER_BLANK : RECOVER_FULL;
	return ret;
}

/* Return: bytes before the frames; a half of the digest log has @half, 0: enough for @frames. */
static uint64_t recover_before_frames(uint64_t frames, uint64_t half)
{
	uint64_t bytes = 2 * LSMEM_BLOCK + 2 * (half ? half : format_half_bytes(frames));

	return (bytes + RECOVER_FRAMES_ALIGN - 1) & ~(uint64_t)(RECOVER_FRAMES_ALIGN - 1);
}

/**
 * recover_backup_bytes - compute the size of the smallest backup for a number of frames
 * @frames: segments that it is to hold
 *
 * Return: bytes.
 */
uint64_t recover_backup_bytes(uint64_t frames)
{
	return recover_before_frames(frames, 0) + frames * LSMEM_SEGMENT_BYTES;
}

/*
 * Return: the frames that fit on one backup alone, after a digest log for so many. @half and @start
 * get the size of a half of the digest log and the byte at which the frames start.
 */
static uint64_t recover_frames(const struct recover *r, uint64_t half_bytes, uint64_t *half,
			       uint64_t *start)
{
	uint64_t bytes = r->env.backup_bytes[0], frames = bytes / LSMEM_SEGMENT_BYTES, fit;

	for (;;) {
		*half = half_bytes ? half_bytes : format_half_bytes(frames);
		*start = recover_before_frames(frames, *half);
		if (*start > bytes)
			return 0;
		fit = (bytes - *start) / LSMEM_SEGMENT_BYTES;
		if (fit >= frames)
			return frames;
		frames = fit;
	}
}

/* Return: bytes of a half of the digest log on each of several backups, for the frames of all. */
static uint64_t recover_half_bytes(const struct recover *r)
{
	uint64_t most = 0;
	uint32_t slot;

	for (slot = 0; slot < r->several; slot++)
		if (r->env.backup_bytes[slot] / LSMEM_SEGMENT_BYTES > most)
			most = r->env.backup_bytes[slot] / LSMEM_SEGMENT_BYTES;
	return format_half_bytes(r->several * most);
}

/**
 * recover_slot_frames - how many frames a backup has
 * @r: recovery
 * @slot: of the backup
 * @start: where the frames would begin, bytes; 0: where they begin, as the backup is formatted
 */
uint64_t recover_slot_frames(const struct recover *r, uint32_t slot, uint64_t start)
{
	uint64_t bytes = r->env.backup_bytes[slot];

	if (!start)
		return r->backups[slot].there ? __le64_to_cpu(r->backups[slot].super.frames) : 0;
	return bytes < start ? 0 : (bytes - start) / LSMEM_SEGMENT_BYTES;
}

/*
 * Count the segments that fit with @replicas of each, no two in one domain. If a domain that is
 * needed is absent, it may come back: the result must not be what fits without it and with fewer
 * replicas. It is what fits with as many replicas on the backups that are there, whatever their
 * domains.
 */
static uint64_t recover_segments(const struct recover *r, uint32_t replicas, uint64_t start)
{
	uint32_t domain[LSMEM_BACKUPS] = { 0 }, mask = 0, there, slot;
	uint64_t frames[LSMEM_BACKUPS] = { 0 };

	for (slot = 0; slot < r->several; slot++) {
		domain[slot] = r->domains ? r->env.domain[slot] : slot;
		frames[slot] = recover_slot_frames(r, slot, start);
		mask |= (uint32_t)(frames[slot] != 0) << slot;
	}
	there = format_domains(domain, (1u << r->several) - 1);
	if (!replicas || replicas > there)
		replicas = there;
	if (format_domains(domain, mask) < replicas)
		for (slot = 0; slot < r->several; slot++)
			domain[slot] = slot;
	there = format_domains(domain, mask);
	if (replicas > there)
		replicas = there;
	return replicas ? format_segments_of(frames, domain, r->several, replicas) : 0;
}

/**
 * recover_room - count the segments that the backups can hold
 * @r: recover_open() has succeeded
 * @replicas: of each segment; 0: one on every backup
 *
 * If recover_open() returned RECOVER_BLANK, the backups count as if they were formatted.
 */
uint64_t recover_room(const struct recover *r, uint32_t replicas)
{
	uint64_t half, start;

	if (r->several)
		return recover_segments(r, replicas, r->blank ?
					recover_before_frames(0, recover_half_bytes(r)) : 0);
	return r->blank ? recover_frames(r, 0, &half, &start) : __le64_to_cpu(r->super.frames);
}

/**
 * recover_write_super - write the superblock of a backup, and flush it
 * @r: recovery
 * @slot: of the backup
 *
 * It gets the next sequence number, and the place of the older copy.
 *
 * Return: 0, or the error of a write.
 */
int recover_write_super(struct recover *r, uint32_t slot)
{
	struct recover_backup *backup = &r->backups[slot];
	struct lsmem_super *block = (void *)r->buffer;
	/* A write that is cut off can destroy its block. So only the older copy is overwritten, and
	 * the newer one is durable by then.
	 */
	uint32_t super_copy = RULE(SUPER_OLDER) ? !backup->super_copy : backup->super_copy;
	int ret;

	backup->super.sequence = __cpu_to_le64(backup->super_sequence + 1);
	format_super_seal(&backup->super);
	*block = backup->super;
	ret = r->env.write(r->env.context,
			   recover_address(slot, (uint64_t)super_copy * LSMEM_BLOCK), block,
			   LSMEM_BLOCK);
	if (!ret)
		ret = r->env.flush(r->env.context, slot);
	if (ret)
		return ret;
	backup->super_sequence++;
	backup->super_copy = super_copy;
	return 0;
}

/* Write a superblock with a code, or without one. */
static void recover_super_code(struct lsmem_super *super, const struct recover_code *code)
{
	super->features.incompat &= ~__cpu_to_le32(LSMEM_INCOMPAT_CODE);
	if (code->k)
		super->features.incompat |= __cpu_to_le32(LSMEM_INCOMPAT_CODE);
	super->code = code->k ? __cpu_to_le32(lsmem_code_make(code->k, code->m, 0)) : 0;
}

/**
 * recover_set_code - set the code in the superblocks of all members; recover_promise() writes them
 * @r: recovery; its map has the members
 * @code: for new segments
 *
 * A digest lists stripes only when the superblocks of all its members are durable with the code. So after a crash between
 * two of them, whatever they say, no stripe is on a backup whose superblock has no code.
 */
void recover_set_code(struct recover *r, const struct recover_code *code)
{
	uint32_t slot;

	recover_super_code(&r->super, code);
	for (slot = 0; slot < r->several; slot++)
		if (r->backups[slot].there && r->backups[slot].index != RECOVER_NONE)
			recover_super_code(&r->backups[slot].super, code);
}

/**
 * recover_forget_code - remove the code from the superblocks of all members, and write them
 * @r: recovery; the durable digest of each member lists no stripe
 *
 * Return: 0 or what a call returned: those that have a code go on with it.
 */
int recover_forget_code(struct recover *r)
{
	uint32_t slot;
	int ret = 0;

	recover_set_code(r, &(struct recover_code){ .k = 0 });
	for (slot = 0; slot < r->several && !ret; slot++)
		if (r->backups[slot].there && r->backups[slot].index != RECOVER_NONE)
			ret = recover_write_super(r, slot);
	return ret;
}

/**
 * recover_promise - choose the next term, and write it to the superblocks of all members
 * @r: recovery; its map has the members
 *
 * If this recovery is cut off, a later one reads this term on a member and begins a higher term, so
 * a digest of this recovery never counts afterwards. Source: the promises of Paxos (Lamport, "Paxos
 * Made Simple", 2001).
 *
 * Return: 0 or what a call returned.
 */
int recover_promise(struct recover *r)
{
	uint64_t term = r->map.term;
	uint32_t slot;
	int ret = 0;

	for (slot = 0; slot < r->several; slot++) {
		const struct recover_backup *backup = &r->backups[slot];

		if (!backup->there)
			continue;
		if (__le64_to_cpu(backup->super.promise) > term)
			term = __le64_to_cpu(backup->super.promise);
		if (backup->chain && backup->map.term > term)
			term = backup->map.term;
	}
	r->map.term = term + 1;
	for (slot = 0; slot < r->several && !ret; slot++) {
		struct recover_backup *backup = &r->backups[slot];

		if (!backup->there || backup->index == RECOVER_NONE)
			continue;
		backup->super.promise = __cpu_to_le64(term + 1);
		ret = recover_write_super(r, slot);
	}
	return ret;
}

/**
 * recover_incarnation - an incarnation for a backup
 * @r: recovery
 * @incarnation: random
 *
 * Digests name a backup by the low half; 0 means none.
 *
 * Return: @incarnation, or the next one by RECOVER_STEP whose low half is free.
 */
uint64_t recover_incarnation(const struct recover *r, uint64_t incarnation)
{
	bool taken;
	uint32_t b;

	do {
		taken = !(uint32_t)incarnation;
		for (b = 0; b < LSMEM_BACKUPS; b++)
			taken |= r->map.members[b] == (uint32_t)incarnation ||
				 (uint32_t)__le64_to_cpu(r->backups[b].super.incarnation) ==
				 (uint32_t)incarnation;
		incarnation += taken ? RECOVER_STEP : 0;
	} while (taken);
	return incarnation;
}

/* Compute the geometry of several backups: all have the same size of the digest log. */
static int recover_layout(struct recover *r, const struct recover_geometry *g)
{
	uint64_t half = g->half_bytes ? g->half_bytes : recover_half_bytes(r);
	uint64_t start = recover_before_frames(0, half), frames = 0, fit;
	uint32_t slot;

	for (slot = 0; slot < r->several; slot++) {
		struct lsmem_super *super = &r->backups[slot].super;
		uint64_t incarnation = recover_incarnation(r, g->incarnation + slot * RECOVER_STEP);

		if (r->env.backup_bytes[slot] < start + LSMEM_SEGMENT_BYTES) {
			recover_info(r, "%s has %llu bytes: too small", recover_name(r, slot),
				     (unsigned long long)r->env.backup_bytes[slot]);
			return -ENOSPC;
		}
		*super = r->super;
		super->features.incompat |= __cpu_to_le32(LSMEM_INCOMPAT_BACKUPS);
		if (r->several > LSMEM_BACKUPS_FEW)
			super->features.incompat |= __cpu_to_le32(LSMEM_INCOMPAT_MANY);
		super->backups = __cpu_to_le32(r->several);
		super->incarnation = __cpu_to_le64(incarnation);
		super->digest_bytes = __cpu_to_le64(half);
		super->frames_start = __cpu_to_le64(start);
		super->frames = __cpu_to_le64(recover_slot_frames(r, slot, start));
		r->map.members[slot] = (uint32_t)incarnation;
		if (__le64_to_cpu(super->frames) > frames)
			frames = __le64_to_cpu(super->frames);
	}
	for (slot = 0; slot < r->several; slot++)
		r->backups[slot].super.set_frames = __cpu_to_le64(frames);
	r->super = r->backups[0].super;
	if (g->k && r->several < g->k + g->m) {
		recover_info(r, "a code %u+%u needs %u backups; there are %u", g->k, g->m, g->k + g->m, r->several);
		return -EINVAL;
	}
	/* A stripe has k segments. */
	fit = recover_segments(r, g->k ? g->k + g->m : g->replicas, start) * (g->k ? g->k : 1);
	if (fit < g->frames) {
		recover_info(r, "the backups have room for %llu segments with that many %s; %u are needed",
			     (unsigned long long)fit, g->k ? "shards" : "replicas", g->frames);
		return -ENOSPC;
	}
	return 0;
}

/* Compute the geometry of one backup alone. */
static int recover_layout_one(struct recover *r, const struct recover_geometry *g)
{
	uint64_t start, half, frames = recover_frames(r, g->half_bytes, &half, &start);

	if (!frames || frames < g->frames) {
		recover_info(r, "the backup has %llu bytes; at least %llu are needed for %u segments",
			     (unsigned long long)r->env.backup_bytes[0],
			     (unsigned long long)(recover_before_frames(g->frames, g->half_bytes) +
						  (uint64_t)g->frames * LSMEM_SEGMENT_BYTES),
			     g->frames);
		return -ENOSPC;
	}
	r->super.digest_bytes = __cpu_to_le64(half);
	r->super.frames_start = __cpu_to_le64(start);
	r->super.frames = __cpu_to_le64(frames);
	r->backups[0].super = r->super;
	return 0;
}

static int recover_write_all(struct recover *r)
{
	uint32_t slots = r->several ? r->several : 1, slot, times;
	int ret = recover_write_digest(r, 0);

	/* Write both copies: a superblock of an earlier store must not be left. */
	for (times = 0; times < 2; times++)
		for (slot = 0; slot < slots && !ret; slot++)
			ret = recover_write_super(r, slot);
	return ret;
}

/**
 * recover_format - format backups for a new, empty store
 * @r: recover_open() was called
 * @g: the store
 *
 * Afterwards the digest lists nothing, and recover_activation() can be called. Digests of an
 * earlier store have another uuid, so they do not count.
 *
 * Return: 0; -EEXIST: a backup holds a store, and @g->force is not set; -ENOSPC: a backup is too
 * small; -EINVAL: @g is out of range; -ENOMEM; or what a call returned. The first three are
 * reported.
 */
int recover_format(struct recover *r, const struct recover_geometry *g)
{
	uint32_t slots = r->several ? r->several : 1, slot;
	struct digest_map map;
	int ret;

	/* Invariant 18: an empty store never replaces a full backup without @force. */
	if (RULE(FORMAT_FORCE) && !r->blank && !g->force) {
		recover_info(r, "the backup is not blank: formatting it needs force");
		return -EEXIST;
	}
	memset(&r->super, 0, sizeof(r->super));
	memset(&r->map.members, 0, sizeof(r->map.members));
	r->super.magic = __cpu_to_le64(LSMEM_SUPER_MAGIC);
	r->super.format = __cpu_to_le32(LSMEM_FORMAT);
	memcpy(r->super.uuid, g->uuid, sizeof(r->super.uuid));
	r->super.incarnation = __cpu_to_le64(g->incarnation);
	r->super.digest_start = __cpu_to_le64(2 * LSMEM_BLOCK);
	r->super.kind = __cpu_to_le32(g->kind);
	r->super.store_bytes = __cpu_to_le64(g->store_bytes);
	r->super.max_handles = __cpu_to_le64(g->max_handles);
	r->super.capacity = __cpu_to_le64(g->capacity);
	if (g->capacity)
		r->super.features.incompat |= __cpu_to_le32(LSMEM_INCOMPAT_TIER);
	recover_super_code(&r->super, &(struct recover_code){ .k = g->k, .m = g->m });
	ret = r->several ? recover_layout(r, g) : recover_layout_one(r, g);
	if (ret)
		return ret;
	for (slot = 0; slot < slots; slot++) {
		struct recover_backup *backup = &r->backups[slot];

		format_super_seal(&backup->super);
		if (format_super_check(&backup->super, r->env.backup_bytes[slot])) {
			recover_info(r, "the store's geometry is out of range");
			return -EINVAL;
		}
		backup->there = true;
		backup->index = slot;
	}
	r->indices = format_indices(&r->super);

	ret = digest_map_init(&map, slots, format_set_frames(&r->super));
	if (!ret && g->k)
		ret = digest_map_code(&map);
	if (ret) {
		digest_map_destroy(&map);
		return ret;
	}
	memcpy(map.members, r->map.members, sizeof(map.members));
	digest_map_destroy(&r->map);
	r->map = map;
	r->map.term = 1;
	r->map.sequence = 1;
	r->map.era = 1;
	r->map.generation_ceiling = RECOVER_GENERATIONS;
	r->map.next_segment = 1;
	r->map.mask = (1u << slots) - 1;
	recover_members(r);
	ret = recover_write_all(r);
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
