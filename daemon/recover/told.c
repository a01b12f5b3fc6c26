// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery by the target of a migration, pass 1: the source has told which entries count, and in which segments.
 * No directory is read, and no segment is scanned. Documentation/migration.rst, What the target makes of them.
 *
 * The digest proves that all of it is there: it must be the one that the source named, and list just the segments that
 * were told, as they were told, and besides only open ones that nothing was written to. And as many objects must count as
 * the source has by its handle table: a header that is damaged in its memory may look like that of something dead, and is
 * not told. Otherwise nothing that was told is used.
 */
#include <errno.h>

#include "private.h"

/**
 * recover_told_digest - is the newest digest the one that the source has named, and was each of its objects told?
 * @r: its newest digest was read
 * @told: what was told
 *
 * Return: 0, or -ESTALE, which is reported.
 */
int recover_told_digest(struct recover *r, const struct recover_told *told)
{
	if (told->term != r->map.term || told->sequence != r->map.sequence ||
	    r->map.sequence_seen > r->map.sequence) {
		recover_info(r, "the newest digest is %llu of term %llu, and the source named %llu of term %llu: what it told is not used",
			     (unsigned long long)r->map.sequence, (unsigned long long)r->map.term,
			     (unsigned long long)told->sequence, (unsigned long long)told->term);
		return -ESTALE;
	}
	if (told->objects == told->expected)
		return 0;
	recover_info(r, "the source has %llu objects, and told %llu, as if its memory were damaged: what it told is not used",
		     (unsigned long long)told->expected, (unsigned long long)told->objects);
	return -ESTALE;
}

static int told_segments(struct recover *r, const struct recover_told *told, uint64_t *oldest)
{
	uint32_t nr, all = 0;

	*oldest = UINT64_MAX;
	for (nr = 0; nr < r->nr_segments; nr++) {
		struct recover_segment *seg = &r->segments[nr];
		bool open = seg->item.state == LSMEM_ITEM_OPEN;
		uint32_t count = 0;
		bool is = told->segment(told->context, nr, seg->item.segment, seg->item.generation,
					seg->item.length, &count);

		/* The kernel had it for its next head; it may have told of it. */
		if (open && (!is || !seg->item.length)) {
			r->result.open++;
			all += is;
			continue;
		}
		all++;
		if (open || !is || seg->lost) {
			recover_info(r, "segment %llu of digest %llu was not told as it is: what the source told is not used",
				     (unsigned long long)seg->item.segment, (unsigned long long)r->map.sequence);
			return -ESTALE;
		}
		seg->salt = lsmem_segment_salt(r->super.uuid, seg->item.segment, seg->item.generation);
		seg->cut = seg->item.length;
		seg->closed = seg->item.state == LSMEM_ITEM_CLOSED;
		seg->placed = told->placing ? count : 0;
		r->result.closed += seg->closed;
		r->result.sealed += !seg->closed;
		if (seg->cut && seg->item.segment < *oldest)
			*oldest = seg->item.segment;
	}
	if (all == told->segments)
		return 0;
	recover_info(r, "digest %llu lists %u segments, and %u were told: what the source told is not used",
		     (unsigned long long)r->map.sequence, all, told->segments);
	return -ESTALE;
}

/* Let what was told of an index compete. */
static void told_consider(struct recover *r, const struct recover_told *told, uint64_t index)
{
	struct lsmem_directory_entry listing;
	uint32_t nr;

	if (told->listing(told->context, index, &listing, &nr))
		recover_consider(r, nr, &listing);
}

/* The kernel has the objects; the tombstones compete. Invariant 14: the digest covers all that was issued. */
static void told_placed(struct recover *r, const struct recover_told *told)
{
	uint64_t time, index;
	uint32_t era, generation, i;

	told->newest(told->placing, &time, &era, &generation);
	if (era > r->map.era || generation > r->map.generation_ceiling)
		recover_damage(r, "era %u or generation %u that was told is newer than digest %llu: newer digests are lost",
			       era, generation, (unsigned long long)r->map.sequence);
	if (time > r->time)
		r->time = time;
	if (era > r->era)
		r->era = era;
	if (generation > r->generation)
		r->generation = generation;
	r->result.objects = told->objects;
	r->result.live_bytes = told->bytes;
	for (i = 0; told->tombstone(told->placing, i, &index); i++)
		told_consider(r, told, index);
}

/**
 * recover_told - do pass 1 of all segments
 * @r: recovery, with the tables of segments and winners
 * @told: what was told
 * @oldest: out: lowest id of a listed segment that holds entries
 *
 * Return: 0, also if an entry contradicts the digest, which is reported; -ESTALE: a segment does, which is reported.
 */
int recover_told(struct recover *r, const struct recover_told *told, uint64_t *oldest)
{
	int ret = told_segments(r, told, oldest);
	uint64_t index;

	if (!ret && told->placing)
		told_placed(r, told);
	for (index = 0; index < r->indices && !ret && !told->placing; index++)
		told_consider(r, told, index);
	recover_progress(r, r->nr_segments);
	r->pass++;
	return ret;
}
