// SPDX-License-Identifier: GPL-2.0
/*
 * Closing the segments that recovery cuts: a directory and a footer for what is there.
 *
 * A segment that was open has none. Sealed without, it would be read as a whole by each recovery
 * until it is cleaned. Recovery has its entries in memory anyway, so it makes both, and writes them
 * when nothing but the digest of the new term is left to be written. That digest calls the segment
 * closed, and so they are durable before (invariant 15).
 *
 * If recovery ends before that digest, the segment is open as before, with a footer that says what
 * the next recovery finds too. If the store is still active in a kernel, a daemon that resumes
 * writes over the footer when the segment is closed, and over the directory when data come so far.
 */
#include <stdlib.h>
#include <string.h>

#include "private.h"

static void close_list(const struct recover *r, const struct recover_segment *seg,
		       struct lsmem_directory_entry *directory)
{
	struct format_walk walk = { .salt = seg->salt, .end = seg->cut };
	const struct lsmem_entry *entry;
	uint32_t at;

	while (walk.at < walk.end) {
		at = walk.at;
		entry = (const void *)(r->buffer + at);
		/* Stepped over before: a gap before the next seglet belongs to no entry. */
		if (format_walk_look(&walk, entry) || format_walk_step(&walk, entry))
			return;
		if (format_is_listed(entry))
			*directory++ = lsmem_entry_listing(entry, at);
	}
}

/**
 * recover_close - make directory and footer of a segment that is to be cut
 * @r: recovery; @r->buffer has the log data of the segment up to the cut
 * @seg: the segment; nothing of it is lost
 *
 * Without memory, or room in the frame, the segment is sealed without them.
 */
void recover_close(struct recover *r, struct recover_segment *seg)
{
	struct format_verify sums;
	uint32_t bytes;

	/* A sealed coded segment stays so: a crash must not leave all shards without a whole table. */
	if (r->check || !seg->cut || !RULE(SEAL) || (seg->coded && seg->item.state == LSMEM_ITEM_SEALED))
		return;
	format_verify_begin(&sums, r->super.uuid, seg->item.segment, seg->item.generation, seg->cut);
	if (format_verify_data(&sums, r->buffer, seg->cut) || format_verify_length(&sums) ||
	    !lsmem_segment_fits(seg->cut, sums.entries))
		return;
	bytes = lsmem_directory_bytes(sums.entries);
	if (seg->coded && !recover_coded_room(r, seg->cut, bytes + LSMEM_BLOCK))
		return;
	seg->end = aligned_alloc(LSMEM_BLOCK, bytes + LSMEM_BLOCK);
	if (!seg->end)
		return;
	memset(seg->end, 0, bytes + LSMEM_BLOCK);
	seg->end_bytes = bytes + LSMEM_BLOCK;
	close_list(r, seg, (void *)seg->end);
	format_footer_make((void *)(seg->end + bytes), r->super.uuid, seg->item.segment,
			   seg->item.generation, &sums);
}

static int close_write(struct recover *r, struct recover_segment *seg, uint32_t *slots)
{
	uint32_t copy, slot, done, part;
	uint64_t where;
	int ret = 0;

	for (copy = 0; copy < seg->nr_copies && !ret; copy++) {
		if (!(seg->good >> copy & 1u))
			continue;
		slot = seg->copies[copy].slot;
		where = format_frame_offset(&r->backups[slot].super, seg->copies[copy].frame) +
			LSMEM_SEGMENT_BYTES - seg->end_bytes;
		for (done = 0; done < seg->end_bytes && !ret; done += part) {
			part = seg->end_bytes - done < LSMEM_SEGLET_BYTES ? seg->end_bytes - done :
			       LSMEM_SEGLET_BYTES;
			ret = r->env.write(r->env.context, recover_address(slot, where + done),
					   seg->end + done, part);
		}
		*slots |= 1u << slot;
	}
	return ret;
}

/**
 * recover_close_all - write what recover_close() has made, and flush it
 * @r: recovery, after its passes
 *
 * Return: 0: the segments with winners are closed; or what a call returned.
 */
int recover_close_all(struct recover *r)
{
	uint32_t slots = 0, slot, i;
	int ret = 0;

	for (i = 0; i < r->nr_segments && !ret; i++) {
		struct recover_segment *seg = &r->segments[i];

		if (!seg->winners || seg->lost)
			continue;
		/* S7: also without a directory */
		if (seg->coded && seg->item.state == LSMEM_ITEM_OPEN)
			ret = recover_coded_finish(r, seg, &slots);
		if (ret || !seg->end)
			continue;
		if (!seg->coded)
			ret = close_write(r, seg, &slots);
		seg->item.state = LSMEM_ITEM_CLOSED;
		seg->closed = true;
	}
	for (slot = 0; slot < LSMEM_BACKUPS && !ret; slot++)
		if (slots >> slot & 1u && RULE(CUT_FLUSH))
			ret = r->env.flush(r->env.context, slot);
	return ret;
}

/**
 * recover_close_end - free what recover_close() has made
 * @r: recovery; its segments are not used afterwards
 */
void recover_close_end(struct recover *r)
{
	uint32_t i;

	for (i = 0; i < r->nr_segments; i++)
		free(r->segments[i].end);
}
