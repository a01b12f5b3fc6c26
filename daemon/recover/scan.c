// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery, pass 1: find the entries of each listed segment.
 *
 * A closed segment has a directory. Any other is scanned from its beginning; its cut is where the
 * last valid entry ends that is not of a torn group. Bytes after the cut that were never
 * acknowledged may be missing. If one of these proves that more was acknowledged, recovery reports a
 * loss:
 *
 *	- the length in a durable digest,
 *	- a commit record after the cut: it bears what had been acknowledged,
 *	- a footer: it is written when all data before it are durable.
 *
 * None of these says that part of a group was acknowledged (invariant 21): each is where a range of
 * the kernel ends, or the segment, and so a cut before a torn group is no loss.
 */
#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "private.h"

#define SCAN_READ_FIRST		LSMEM_SEGLET_BYTES	/* first read of a scan, bytes */
#define SCAN_READ_MOST		(1u << 20)		/* longest read of a scan, about */
#define SCAN_END_FIRST		(1u << 18)		/* first read of footer and directory, bytes */

/* Return: the address of the replica that is read, which is not coded. */
static uint64_t scan_offset(const struct recover *r, const struct recover_segment *seg)
{
	return recover_data_offset(r, seg) - LSMEM_BLOCK;
}

/**
 * struct scan - a scan of a segment in @r->buffer
 * @r: recovery
 * @seg: the segment
 * @have: bytes of log data that have been read, from the beginning
 */
struct scan {
	struct recover *r;
	struct recover_segment *seg;
	uint32_t have;
};

/* Read the log data up to @to into the buffer, and some more: each read doubles what is there. */
static int scan_need(struct scan *scan, uint32_t to)
{
	uint32_t more, end;
	int ret;

	if (to <= scan->have)
		return 0;
	more = scan->have < SCAN_READ_FIRST ? SCAN_READ_FIRST :
	       scan->have < SCAN_READ_MOST ? scan->have : SCAN_READ_MOST;
	end = lsmem_block_round(to);
	if (end < scan->have + more)
		end = scan->have + more;
	if (end > RECOVER_DATA_MAX)
		end = RECOVER_DATA_MAX;
	ret = recover_seg_read(scan->r, scan->seg, LSMEM_BLOCK + scan->have, scan->r->buffer + scan->have,
			       end - scan->have);
	if (!ret)
		scan->have = end;
	return ret;
}

/*
 * Step over the entry at @walk. Return: the entry; NULL: no whole entry is there, or a read failed,
 * and @ret is its error.
 */
static const struct lsmem_entry *scan_step(struct scan *scan, struct format_walk *walk, int *ret)
{
	const struct lsmem_entry *entry = (const void *)(scan->r->buffer + walk->at);

	if (walk->at >= walk->end || walk->end - walk->at < LSMEM_LONG_BYTES)
		return NULL;
	*ret = scan_need(scan, walk->at + LSMEM_LONG_BYTES);
	if (*ret || format_walk_look(walk, entry))
		return NULL;
	/* Only the whole entry has a CRC: read as far as the header claims. */
	*ret = scan_need(scan, walk->at + lsmem_entry_bytes(entry));
	return *ret || format_walk_step(walk, entry) ? NULL : entry;
}

/* Return: the home offset at which an entry in the buffer ends. */
static uint32_t scan_end(const struct scan *scan, const struct lsmem_entry *entry)
{
	return (uint32_t)((const uint8_t *)entry - scan->r->buffer) + lsmem_entry_bytes(entry);
}

/*
 * Look ahead over a group: are all its entries whole, up to the end that its @record says? @walk is
 * behind the record. No group lies inside another.
 */
static bool scan_group(struct scan *scan, struct format_walk walk,
		       const struct lsmem_entry *record, int *ret)
{
	uint32_t at = scan_end(scan, record), end = at + (uint32_t)lsmem_entry_value(record);
	const struct lsmem_entry *entry;

	if (end > walk.end)
		return false;
	walk.end = end;
	while (at != end) {
		entry = scan_step(scan, &walk, ret);
		if (!entry || lsmem_entry_type(entry) == LSMEM_TYPE_GROUP)
			return false;
		at = scan_end(scan, entry);
	}
	return true;
}

/*
 * Scan a segment from its beginning while entries are whole, up to @limit, and set its cut. @dry:
 * the entries do not compete.
 */
static int scan_entries(struct recover *r, uint32_t nr, uint32_t limit, bool dry)
{
	struct recover_segment *seg = &r->segments[nr];
	struct scan scan = { .r = r, .seg = seg };
	struct format_walk walk = { .salt = seg->salt, .end = limit };
	uint32_t home = 0;
	int ret = 0;

	seg->cut = 0;
	for (;;) {
		const struct lsmem_entry *entry = scan_step(&scan, &walk, &ret);

		/* Invariant 21: the log ends before a group that is not whole. */
		if (!entry || (lsmem_entry_type(entry) == LSMEM_TYPE_GROUP &&
			       !scan_group(&scan, walk, entry, &ret) && RULE(GROUP_WHOLE)))
			return ret;
		if (!dry)
			recover_entry(r, nr, entry, home);
		seg->cut = scan_end(&scan, entry);
		home = walk.at;
	}
}

/**
 * struct behind - what follows the cut
 * @proven: home offset up to which data are known to have been acknowledged
 * @last: home offset at which the last commit record ends; 0: there is none
 */
struct behind {
	uint32_t proven;
	uint32_t last;
};

static void scan_records(const struct recover *r, const struct recover_segment *seg,
			 uint32_t from, uint32_t to, struct behind *behind)
{
	uint32_t at;

	for (at = from; at < to && to - at >= LSMEM_LONG_BYTES; at += LSMEM_ALIGN) {
		const struct lsmem_entry *entry = (const void *)(r->buffer + at);
		uint64_t acked = lsmem_entry_value(entry);

		if (lsmem_entry_type(entry) != LSMEM_TYPE_COMMIT ||
		    lsmem_entry_home(entry) != at / LSMEM_BLOCK || lsmem_entry_start(at) != at ||
		    !lsmem_entry_valid(entry, format_payload(entry), seg->salt))
			continue;
		behind->last = at + lsmem_entry_bytes(entry);
		if (acked <= RECOVER_DATA_MAX && acked > behind->proven && RULE(PROOF_RECORD))
			behind->proven = acked;
	}
}

/*
 * Find the commit records after the cut, and what they prove. Recovery looks at every 8-byte
 * position, because the missing bytes may be those that say where the next entry begins. Entries of
 * a segment that had the frame before do not count: they have another salt.
 *
 * Other entries prove nothing, and a commit record ends all that the kernel sends together, so
 * recovery does not look for them: it would have to compute a CRC over as many bytes as any bytes
 * there claim.
 */
static int scan_behind(struct recover *r, struct recover_segment *seg, struct behind *behind)
{
	uint32_t at = seg->cut & ~(LSMEM_BLOCK - 1);
	int ret;

	while (at < RECOVER_DATA_MAX) {
		uint32_t end = (at | (LSMEM_SEGLET_BYTES - 1)) + 1, next;
		uint64_t where = seg->coded ? 0 : recover_data_offset(r, seg);

		/* No header crosses the end of a seglet, so each seglet can be scanned alone. */
		if (end > RECOVER_DATA_MAX)
			end = RECOVER_DATA_MAX;
		if (!seg->coded && r->env.hole && r->env.hole(r->env.context, where + at, end - at)) {
			at = end;
			continue;
		}
		while (!r->env.hole && end - at < SCAN_READ_MOST && end < RECOVER_DATA_MAX)
			end = end + LSMEM_SEGLET_BYTES < RECOVER_DATA_MAX ?
			      end + LSMEM_SEGLET_BYTES : RECOVER_DATA_MAX;
		ret = recover_seg_read(r, seg, LSMEM_BLOCK + at, r->buffer + at, end - at);
		if (ret)
			return ret;
		for (; at < end; at = next) {
			next = (at | (LSMEM_SEGLET_BYTES - 1)) + 1;
			if (next > end)
				next = end;
			scan_records(r, seg, at > seg->cut ? at : seg->cut, next, behind);
		}
	}
	return 0;
}

static int scan_footer(struct recover *r, struct recover_segment *seg,
		       struct lsmem_segment_footer *footer, enum format_error *error)
{
	int ret;

	/* Read into the buffer: the caller's footer need not be aligned. */
	ret = recover_seg_read(r, seg, LSMEM_SEGMENT_BYTES - LSMEM_BLOCK, r->buffer + RECOVER_DATA_MAX, LSMEM_BLOCK);
	if (ret)
		return ret;
	memcpy(footer, r->buffer + RECOVER_DATA_MAX, sizeof(*footer));
	*error = format_footer_check(footer, &r->super, seg->item.segment, seg->item.generation);
	return 0;
}

/*
 * Invariant 23: does a digest say that nothing was written beyond the cut? Then no commit record is
 * there, and recovery does not read up to the end of the frame to look for one.
 */
static bool scan_is_exact(const struct recover *r, const struct recover_segment *seg)
{
	return r->map.exact && seg->item.segment >= r->map.exact && seg->cut == seg->item.length;
}

/* Pass 1 of an open segment. */
static int scan_open(struct recover *r, uint32_t nr)
{
	struct recover_segment *seg = &r->segments[nr];
	struct lsmem_segment_footer footer;
	enum format_error error;
	struct behind behind = { 0 };
	int ret;

	ret = scan_entries(r, nr, RECOVER_DATA_MAX, false);
	if (!ret && !scan_is_exact(r, seg)) {
		r->result.whole++;
		ret = scan_behind(r, seg, &behind);
	}
	if (!ret)
		ret = scan_footer(r, seg, &footer, &error);
	if (ret)
		return ret;
	if (seg->proven > behind.proven)
		behind.proven = seg->proven;
	if (RULE(PROOF_LENGTH) && seg->item.length > behind.proven)
		behind.proven = seg->item.length;
	if (RULE(PROOF_FOOTER) && !error && __le32_to_cpu(footer.length) > behind.proven)
		behind.proven = __le32_to_cpu(footer.length);
	if (behind.last > seg->cut) {
		r->result.torn++;
		r->result.torn_bytes += behind.last - seg->cut;
	}
	if (behind.proven <= seg->cut)
		recover_close(r, seg);
	else
		recover_damage(r, "segment %llu (frame %u): bytes %u to %u were acknowledged and are lost",
			       (unsigned long long)seg->item.segment, seg->frame, seg->cut, behind.proven);
	return 0;
}

/* Pass 1 of a segment that is sealed, or closed and without a sound directory. */
static int scan_sealed(struct recover *r, uint32_t nr)
{
	struct recover_segment *seg = &r->segments[nr];
	int ret;

	/* Invariant 15: a scan beyond the seal could bring back entries that were cut off, and
	 * perhaps superseded since.
	 */
	ret = scan_entries(r, nr, seg->item.length, false);
	if (!ret && seg->cut == seg->item.length && seg->item.state == LSMEM_ITEM_SEALED)
		recover_close(r, seg);
	else if (!ret && seg->cut != seg->item.length)
		recover_damage(r, "segment %llu (frame %u): bytes %u to %u are lost",
			       (unsigned long long)seg->item.segment, seg->frame, seg->cut,
			       seg->item.length);
	return ret;
}

/*
 * Return: bytes at the end of the frame of a closed segment that are read first. They hold the footer,
 * and of objects of 1 KB or more the whole directory: what it can have at most would be nearly all of a
 * short segment.
 */
static uint32_t scan_end_bytes(const struct recover_segment *seg)
{
	uint32_t most = format_end_bytes(seg->item.length);

	return most < SCAN_END_FIRST ? most : SCAN_END_FIRST;
}

/* Read what is missing of the directory of a closed segment, if there is a footer. */
static int scan_rest(struct recover *r, struct recover_segment *seg, uint32_t have)
{
	const struct lsmem_segment_footer *footer =
		(const void *)(r->frame + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK);
	uint32_t need;

	if (format_footer_check(footer, &r->super, seg->item.segment, seg->item.generation) ||
	    !lsmem_segment_fits(seg->item.length, __le32_to_cpu(footer->entries)))
		return 0;	/* scan_directory() says what is wrong */
	need = LSMEM_BLOCK + lsmem_directory_bytes(__le32_to_cpu(footer->entries));
	if (need <= have)
		return 0;
	return recover_seg_read(r, seg, LSMEM_SEGMENT_BYTES - need, r->frame + LSMEM_SEGMENT_BYTES - need,
				need - have);
}

/* Check footer and directory, which are in @r->frame. */
static enum format_error scan_directory(struct recover *r, const struct recover_segment *seg,
					const struct lsmem_directory_entry **entries)
{
	return format_end_check(r->frame + LSMEM_SEGMENT_BYTES, &r->super, seg->item.segment,
				seg->item.generation, seg->item.length, r->indices, entries);
}

/* Pass 1 of a closed segment, as scan_read() has read it. */
static int scan_closed(struct recover *r, uint32_t nr)
{
	struct recover_segment *seg = &r->segments[nr];
	const struct lsmem_segment_footer *footer =
		(const void *)(r->frame + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK);
	const struct lsmem_directory_entry *entries = NULL;
	enum format_error error = scan_directory(r, seg, &entries);
	uint32_t nr_entries, i;

	if (error) {
		/* No other replica is better. */
		seg->good = 1u << seg->copy;
		recover_damage(r, "segment %llu (frame %u): directory of a closed segment: %s",
			       (unsigned long long)seg->item.segment, seg->frame,
			       format_strerror(error));
		/* The entries themselves say the same as the directory. */
		return scan_sealed(r, nr);
	}
	seg->closed = true;
	seg->cut = seg->item.length;
	seg->entries_crc = __le32_to_cpu(footer->entries_crc);
	seg->directory_crc = __le32_to_cpu(footer->directory_crc);
	nr_entries = __le32_to_cpu(footer->entries);
	for (i = 0; i < nr_entries; i++) {
		if (i + RECOVER_PREFETCH < nr_entries)
			recover_prefetch(r, __le64_to_cpu(entries[i + RECOVER_PREFETCH].key));
		recover_consider(r, nr, &entries[i]);
	}
	return 0;
}

/* Read the header of a replica, and if it is closed its end, into @r->frame. */
static int scan_read(struct recover *r, struct recover_segment *seg)
{
	uint32_t end = scan_end_bytes(seg);
	int ret;

	ret = recover_seg_read(r, seg, 0, r->frame, LSMEM_BLOCK);
	if (!ret && seg->item.state == LSMEM_ITEM_CLOSED)
		ret = recover_seg_read(r, seg, LSMEM_SEGMENT_BYTES - end, r->frame + LSMEM_SEGMENT_BYTES - end, end);
	if (!ret && seg->item.state == LSMEM_ITEM_CLOSED)
		ret = scan_rest(r, seg, end);
	return ret;
}

/*
 * Look at one of several replicas, and set the cut to how much of it is there. @why gets what is
 * wrong; NULL: this replica alone shows nothing wrong.
 */
static int scan_copy(struct recover *r, uint32_t nr, const char **why)
{
	struct recover_segment *seg = &r->segments[nr];
	const struct lsmem_directory_entry *entries;
	enum format_error error;
	int ret = scan_read(r, seg);

	*why = NULL;
	seg->cut = 0;
	if (ret == -ECANCELED)
		return ret;
	if (ret) {
		*why = strerror(-ret);
		return 0;
	}
	error = format_header_check((const void *)r->frame, &r->backups[seg->slot].super,
				    seg->item.segment, seg->item.generation);
	if (!error && seg->item.state == LSMEM_ITEM_CLOSED)
		error = scan_directory(r, seg, &entries);
	if (error) {
		*why = format_strerror(error);
		return 0;
	}
	if (seg->item.state == LSMEM_ITEM_CLOSED) {
		seg->cut = seg->item.length;
		return 0;
	}
	ret = scan_entries(r, nr, seg->item.state == LSMEM_ITEM_SEALED ? seg->item.length :
			   RECOVER_DATA_MAX, true);
	if (!ret && seg->item.state == LSMEM_ITEM_SEALED && seg->cut != seg->item.length)
		*why = "it ends too early";
	if (ret && ret != -ECANCELED) {
		*why = strerror(-ret);
		return 0;
	}
	return ret;
}

/*
 * Choose the replica of a segment to use. Of a closed or sealed segment it is the first sound one.
 * Of an open one it is the longest: each replica has everything that was acknowledged, unless it is
 * damaged, and all have the same bytes (invariant 4). The new digest does not list shorter ones.
 * Afterwards @r->frame is as after scan_read() of the replica in use.
 */
static int scan_choose(struct recover *r, uint32_t nr)
{
	struct recover_segment *seg = &r->segments[nr];
	uint32_t cuts[LSMEM_BACKUPS] = { 0 }, first = seg->copy, best = first, i;
	bool open = seg->item.state == LSMEM_ITEM_OPEN;
	const char *why;
	int ret;

	for (i = 0; i < seg->nr_copies; i++) {
		recover_use_copy(seg, (first + i) % seg->nr_copies);
		ret = scan_copy(r, nr, &why);
		if (ret)
			return ret;
		cuts[seg->copy] = seg->cut;
		if (why)
			recover_bad_copy(r, seg, why);
		if (!(seg->good >> best & 1u) ? seg->good >> seg->copy & 1u || seg->cut > cuts[best]
					      : !why && seg->cut > cuts[best] && RULE(LONGEST))
			best = seg->copy;
		if (!open && !why)
			break;
	}
	for (i = 0; i < seg->nr_copies && open; i++)
		if (cuts[i] != cuts[best] && RULE(LONGEST))
			seg->good &= ~(1u << i);
	if (!seg->good)
		seg->good = 1u << best;
	if (seg->copy == best && !open)
		return 0;
	recover_use_copy(seg, best);
	return scan_read(r, seg);
}

/**
 * recover_scan_ahead - begin to read a segment for pass 1
 * @r: recovery
 * @nr: number of the segment
 * @turn: turn of its buffer; see recover_use()
 */
void recover_scan_ahead(struct recover *r, uint32_t nr, uint32_t turn)
{
	const struct recover_segment *seg = &r->segments[nr];
	uint8_t *frame = r->frames[turn % r->nr_frames];
	uint32_t end = scan_end_bytes(seg);

	if (turn < r->nr_frames)
		memory_touch(frame, LSMEM_SEGMENT_BYTES);
	if (!seg->nr_copies || seg->coded)
		return;
	recover_ahead(r, scan_offset(r, seg), frame, LSMEM_BLOCK);
	if (seg->item.state == LSMEM_ITEM_CLOSED)
		recover_ahead(r, scan_offset(r, seg) + LSMEM_SEGMENT_BYTES - end,
			      frame + LSMEM_SEGMENT_BYTES - end, end);
}

/**
 * recover_scan - do pass 1 of one segment
 * @r: recovery, with the newest digest
 * @nr: number of the segment
 *
 * Return: 0, also if something is lost, which is reported; or what a read returned.
 */
int recover_scan(struct recover *r, uint32_t nr)
{
	struct recover_segment *seg = &r->segments[nr];
	const struct lsmem_segment_header *header = (const void *)r->frame;
	enum format_error error;
	int ret;

	if (!seg->nr_copies || seg->lost)
		return 0;
	seg->salt = lsmem_segment_salt(r->super.uuid, seg->item.segment, seg->item.generation);
	ret = seg->nr_copies > 1 && !seg->coded ? scan_choose(r, nr) : scan_read(r, seg);
	if (ret == -ENODATA && seg->coded) {
		seg->lost = true;
		if (RULE(PROOF_HEADER))
			recover_damage(r, "segment %llu is lost: too few of its %u shards can be used",
				       (unsigned long long)seg->item.segment, seg->nr_copies);
		return 0;
	}
	if (ret)
		return ret;
	/* Invariant 2: the header was durable before the segment was listed: if bad, it is lost. */
	error = format_header_check(header, &r->backups[seg->slot].super, seg->item.segment,
				    seg->item.generation);
	if (error) {
		seg->lost = true;
		if (RULE(PROOF_HEADER))
			recover_damage(r, "segment %llu (frame %u) is lost: header: %s",
				       (unsigned long long)seg->item.segment, seg->frame,
				       format_strerror(error));
		return 0;
	}
	if (__le64_to_cpu(header->digest_sequence) > r->sequence)
		r->sequence = __le64_to_cpu(header->digest_sequence);
	if (__le64_to_cpu(header->digest_sequence) > r->map.sequence)
		recover_damage(r, "segment %llu was opened after digest %llu, the newest found is %llu: newer digests are lost",
			       (unsigned long long)seg->item.segment,
			       (unsigned long long)__le64_to_cpu(header->digest_sequence),
			       (unsigned long long)r->map.sequence);
	switch (seg->item.state) {
	case LSMEM_ITEM_CLOSED:
		r->result.closed++;
		return scan_closed(r, nr);
	case LSMEM_ITEM_SEALED:
		r->result.sealed++;
		return scan_sealed(r, nr);
	default:
		r->result.open++;
		return scan_open(r, nr);
	}
}
