// SPDX-License-Identifier: GPL-2.0
/*
 * New members: backups that join a store that has others.
 */
#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "private.h"

/* Return: a free index; or that of an absent member, which the next digest removes. */
static uint32_t recover_place(const struct recover *r)
{
	uint32_t members, index;

	for (members = 2; members-- > 0;)
		for (index = 0; index < r->map.backups; index++)
			if (recover_joiner(r, index) == RECOVER_NONE &&
			    recover_slot(r, index) == RECOVER_NONE &&
			    !(members && r->map.mask >> index & 1u))
				return index;
	return RECOVER_NONE;
}

/*
 * Can a backup that is no member hold acknowledged data that are not in the log? Then it is neither
 * used nor wiped.
 */
static bool recover_split(struct recover *r, uint32_t slot, const struct digest_branch *branch)
{
	const struct recover_backup *backup = &r->backups[slot];

	if (!backup->there || !backup->chain || !RULE(BRANCH) ||
	    !digest_split(&backup->map, branch))
		return false;
	recover_info(r, "%s: cannot join the others: split brain: it has gone on to digest %llu of term %llu without them, and they without it from digest %llu of term %llu on; if its data are not needed, \"lsmemctl format --force\" makes it blank, and it joins",
		     recover_name(r, slot), (unsigned long long)backup->map.sequence,
		     (unsigned long long)backup->map.term, (unsigned long long)branch->sequence,
		     (unsigned long long)branch->term);
	return true;
}

/* Overwrite the digest log with zeroes, so that old records are not taken for new ones. */
static int recover_wipe_digests(struct recover *r, uint32_t slot)
{
	uint64_t at = __le64_to_cpu(r->super.digest_start), part;
	uint64_t end = at + 2 * __le64_to_cpu(r->super.digest_bytes);
	int ret = 0;

	memset(r->frame, 0, LSMEM_SEGMENT_BYTES);
	for (; at < end && !ret; at += part) {
		part = end - at < LSMEM_SEGMENT_BYTES ? end - at : LSMEM_SEGMENT_BYTES;
		ret = r->env.write(r->env.context, recover_address(slot, at), r->frame, part);
	}
	return ret ? ret : r->env.flush(r->env.context, slot);
}

/* Note what a backup holds now. Replicas can be kept only if its frames stay where they are. */
static void recover_keep_past(struct recover *r, uint32_t slot)
{
	struct recover_backup *backup = &r->backups[slot];

	backup->past.index = RECOVER_NONE;
	if (!backup->there || !backup->chain || !backup->map.items ||
	    backup->super.frames_start != r->super.frames_start)
		return;
	backup->past = (struct digest_past) {
		.incarnation = backup->super.incarnation,
		.index = recover_index(r, &backup->map, slot),
		.map = backup->map,
	};
}

static int recover_make_ready(struct recover *r, uint32_t slot, uint64_t incarnation)
{
	struct recover_backup *backup = &r->backups[slot];
	uint64_t frames = recover_slot_frames(r, slot, __le64_to_cpu(r->super.frames_start));
	uint32_t times;
	int ret;

	if (frames > format_set_frames(&r->super))
		frames = format_set_frames(&r->super);
	recover_keep_past(r, slot);
	ret = frames ? recover_wipe_digests(r, slot) : -ENOSPC;
	incarnation = recover_incarnation(r, incarnation);
	backup->super = r->super;
	backup->super.incarnation = __cpu_to_le64(incarnation);
	backup->super.frames = __cpu_to_le64(frames);
	for (times = 0; times < 2 && !ret; times++)
		ret = recover_write_super(r, slot);
	backup->there = !ret;
	backup->blank = false;
	if (ret && ret != -ECANCELED)
		recover_info(r, "%s: cannot join the others: %s", recover_name(r, slot),
			     ret == -ENOSPC ? "it is too small" : strerror(-ret));
	else if (!ret)
		recover_info(r, "%s: joins the others", recover_name(r, slot));
	return ret;
}

/**
 * recover_join - prepare the backups that are blank or were dropped to become members
 * @r: recover_map() or recover_run() has succeeded
 * @incarnation: random; the incarnations of the backups are made from it
 *
 * The backups become members by @joining of struct core_params. If recovery has reported a loss,
 * nothing happens: the operator may want to look at the dropped backups.
 *
 * Return: 0, or -ECANCELED from a call; other errors are reported.
 */
int recover_join(struct recover *r, uint64_t incarnation)
{
	uint32_t slot;
	int ret = 0;

	for (slot = 0; slot < r->several && ret != -ECANCELED; slot++) {
		struct recover_backup *backup = &r->backups[slot];
		uint32_t place = recover_place(r);

		if (!backup->may_join || r->result.losses || place == RECOVER_NONE ||
		    recover_split(r, slot, &r->map.branch))
			continue;
		ret = recover_make_ready(r, slot, incarnation + slot * RECOVER_STEP);
		if (!ret)
			backup->joiner = place;
	}
	return ret == -ECANCELED ? ret : 0;
}

/**
 * recover_ready - prepare one backup to become a member of a store that is served
 * @r: for several backups; only @slot is there, and recover_open_slot() has succeeded
 * @slot: of the backup
 * @like: superblock of a member
 * @log: of the store, by core_super()
 * @incarnation: random; the incarnation of the backup is made from it
 *
 * The backup becomes a member by core_add().
 *
 * Return: 0; -EEXIST: the backup belongs to another store; -ESTALE: a daemon went on with the store
 * there, in a later term or apart from the others; -ENOSPC: it is too small; or what a call
 * returned. All errors except -ECANCELED are reported.
 */
int recover_ready(struct recover *r, uint32_t slot, const struct lsmem_super *like,
		  const struct digest_log *log, uint64_t incarnation)
{
	struct recover_backup *backup = &r->backups[slot];
	int ret = backup->there ? recover_read_log(r, slot) : 0;

	if (ret && ret != -ECANCELED)
		recover_info(r, "%s: cannot join the others: its digest log cannot be read: %s",
			     recover_name(r, slot), strerror(-ret));
	if (ret)
		return ret;
	if (backup->there && memcmp(backup->super.uuid, like->uuid, LSMEM_UUID_BYTES)) {
		recover_info(r, "%s: cannot join the others: it is the backup of another store",
			     recover_name(r, slot));
		return -EEXIST;
	}
	if (backup->there && backup->chain && backup->map.term > log->term) {
		recover_info(r, "%s: cannot join the others: a daemon went on with the store there, in term %llu, and here it has %llu",
			     recover_name(r, slot), (unsigned long long)backup->map.term,
			     (unsigned long long)log->term);
		return -ESTALE;
	}
	if (recover_split(r, slot, &log->branch))
		return -ESTALE;
	r->super = *like;
	memcpy(r->map.members, log->members, sizeof(r->map.members));
	return recover_make_ready(r, slot, incarnation);
}

/**
 * recover_past - what a backup held before recover_join() or recover_ready()
 * @r: recovery
 * @slot: of the backup
 *
 * Return: for core, valid as long as @r; NULL: nothing that core could keep.
 */
const struct digest_past *recover_past(const struct recover *r, uint32_t slot)
{
	const struct digest_past *past = &r->backups[slot].past;

	return past->index == RECOVER_NONE ? NULL : past;
}

/**
 * recover_joiner - find a backup that is to become a member
 * @r: recover_join() has succeeded
 * @index: that the backup is to have in the digest
 *
 * Return: its slot; LSMEM_BACKUPS: there is none.
 */
uint32_t recover_joiner(const struct recover *r, uint32_t index)
{
	uint32_t slot;

	for (slot = 0; slot < r->several; slot++)
		if (r->backups[slot].joiner == index)
			return slot;
	return RECOVER_NONE;
}
