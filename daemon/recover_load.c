// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery: which entry of each handle index is the newest (fed by pass 1),
 * and pass 2: segments that hold winners are read, every byte that is handed on
 * has its CRC checked, and the winners go to the kernel.
 *
 * Per index, not per handle: an index given out anew has a higher generation,
 * and an entry of that one ends whatever older generations left behind.  Among
 * the entries of one handle the highest version wins.
 */
#include <errno.h>
#include <string.h>

#include "recover_private.h"

/* All of an entry's meta but its place: what a copy has in common (invariant 5). */
#define META_PLACE_MASK	(((1ull << LSMEM_META_HOME_BITS) - 1) << LSMEM_META_HOME_SHIFT)

/**
 * recover_consider - an entry has been found
 * @r: recovery
 * @nr: number of its segment
 * @key, @version, @meta: of the entry, any type
 */
void recover_consider(struct recover *r, uint32_t nr, uint64_t key, uint64_t version,
		      uint64_t meta)
{
	uint32_t type = LSMEM_META_GET(meta, TYPE), generation = lsmem_handle_generation(key);
	struct recover_segment *seg = &r->segments[nr];
	struct recover_winner *winner;

	r->result.entries++;
	/* Padding has no version; a commit record's is the store's clock. */
	if (type != LSMEM_TYPE_PAD && lsmem_version_time(version) > r->time)
		r->time = lsmem_version_time(version);
	if (type != LSMEM_TYPE_OBJECT && type != LSMEM_TYPE_DELETE)
		return;
	if (lsmem_handle_index(key) >= r->max_handles || !generation) {
		recover_damage(r, "segment %llu (frame %u): handle %#llx is out of range",
			       (unsigned long long)seg->item.segment, seg->frame,
			       (unsigned long long)key);
		return;
	}
	/* Invariant 14: the digest's era and ceiling cover all that was issued.  Who
	 * accepts that newer digests are lost gets what is there all the same, or the
	 * next recovery, in a higher era, would find it.
	 */
	if (version >> LSMEM_VERSION_TIME_BITS > r->map.era ||
	    generation > r->map.generation_ceiling)
		recover_damage(r, "segment %llu (frame %u): handle %#llx version %#llx is newer than digest %llu: newer digests are lost",
			       (unsigned long long)seg->item.segment, seg->frame,
			       (unsigned long long)key, (unsigned long long)version,
			       (unsigned long long)r->map.sequence);
	if (version >> LSMEM_VERSION_TIME_BITS > r->era)
		r->era = version >> LSMEM_VERSION_TIME_BITS;
	if (generation > r->generation)
		r->generation = generation;
	winner = &r->winners[lsmem_handle_index(key)];
	if (winner->segment) {
		if (winner->generation > generation ||
		    (winner->generation == generation && winner->version > version))
			return;
		if (winner->generation == generation && winner->version == version &&
		    (winner->meta ^ meta) & ~META_PLACE_MASK) {
			recover_damage(r, "handle %#llx version %#llx is not the same in segments %llu and %llu",
				       (unsigned long long)key, (unsigned long long)version,
				       (unsigned long long)r->segments[winner->segment - 1]
				       .item.segment,
				       (unsigned long long)seg->item.segment);
			return;
		}
		/* Of equal ones the later: then the segment it came from may go. */
		r->segments[winner->segment - 1].winners--;
	}
	*winner = (struct recover_winner) {
		.version = version,
		.meta = meta,
		.generation = generation,
		.segment = nr + 1,
	};
	seg->winners++;
}

static bool recover_wins(const struct recover *r, uint32_t nr, const struct lsmem_entry *entry)
{
	uint64_t key = __le64_to_cpu(entry->key);
	const struct recover_winner *winner;

	if (lsmem_handle_index(key) >= r->max_handles)
		return false;
	winner = &r->winners[lsmem_handle_index(key)];
	return winner->segment == nr + 1 && winner->meta == __le64_to_cpu(entry->meta) &&
	       winner->generation == lsmem_handle_generation(key) &&
	       winner->version == __le64_to_cpu(entry->version);
}

/*
 * Must a delete record that won be kept?  Invariant 13: while any segment is
 * listed that may hold an older copy, or the next recovery would find the copy
 * and not the delete.  All such segments have ids below the record's barrier.
 */
static bool recover_keeps(struct recover *r, const struct lsmem_entry *entry, uint64_t oldest)
{
	const struct lsmem_delete *delete = (const void *)(entry + 1);
	uint64_t barrier = __le64_to_cpu(delete->barrier);

	if (barrier > r->barrier)
		r->barrier = barrier;
	return barrier > oldest;
}

/* Have segment @nr in the buffer, and begin to read @next. */
static int load_read(struct recover *r, uint32_t nr, uint32_t next)
{
	const struct recover_segment *seg = &r->segments[nr];
	uint8_t *buffer = r->buffer;
	int ret;

	if (r->ahead == nr + 1) {
		r->buffer = r->other;
		r->other = buffer;
		r->ahead = 0;
	}
	ret = recover_read(r, recover_data_offset(r, seg), r->buffer, lsmem_block_round(seg->cut));
	if (!ret && r->env.ahead && next < r->nr_segments) {
		seg = &r->segments[next];
		r->ahead = next + 1;
		r->env.ahead(r->env.context, recover_data_offset(r, seg), r->other,
			     lsmem_block_round(seg->cut));
	}
	return ret;
}

/**
 * recover_load_end - pass 2 is over, at its end or before
 * @r: nothing is being read any more
 */
void recover_load_end(struct recover *r)
{
	const struct recover_segment *seg;

	if (!r->ahead)
		return;
	seg = &r->segments[r->ahead - 1];
	r->ahead = 0;
	r->env.read(r->env.context, recover_data_offset(r, seg), r->other,
		    lsmem_block_round(seg->cut));
}

/**
 * recover_load - pass 2 of one segment
 * @r: all segments have been through pass 1
 * @nr: number of the segment
 * @next: of the one that will be next; it is read meanwhile
 * @oldest: lowest segment id that stays listed
 *
 * Afterwards the segment's @winners counts what was handed on.
 * Return: 0, also when something is lost, which is reported; or what a call
 * returned.
 */
int recover_load(struct recover *r, uint32_t nr, uint32_t next, uint64_t oldest)
{
	struct recover_segment *seg = &r->segments[nr];
	struct format_walk walk = { .salt = seg->salt, .end = seg->cut };
	uint32_t headers = ~0u, directory = ~0u, blob = 0, found = 0, kept = 0, home, bytes;
	uint32_t damaged = 0;
	int ret;

	ret = load_read(r, nr, next);
	if (ret)
		return ret;
	while (walk.at < seg->cut && seg->cut - walk.at >= LSMEM_ENTRY_BYTES) {
		struct lsmem_entry *entry = (void *)(r->buffer + walk.at);
		uint32_t length, type;

		home = walk.at;
		if (format_walk_step(&walk, entry)) {
			/* Damaged: the next entry is somewhere behind. */
			damaged += LSMEM_ALIGN;
			walk.at = lsmem_entry_start(walk.at + LSMEM_ALIGN);
			continue;
		}
		length = lsmem_entry_length(entry);
		type = lsmem_entry_type(entry);
		bytes = lsmem_entry_size(length);
		headers = lsmem_crc32c(headers, &entry->hcrc, sizeof(entry->hcrc));
		if (type != LSMEM_TYPE_OBJECT && type != LSMEM_TYPE_DELETE)
			continue;
		directory = lsmem_crc32c(directory, &entry->key,
					 sizeof(struct lsmem_directory_entry));
		if (!recover_wins(r, nr, entry) && !r->check)
			continue;
		if (lsmem_crc32c(~0u, entry + 1, length) != __le32_to_cpu(entry->pcrc)) {
			recover_damage(r, "segment %llu (frame %u) offset %u: handle %#llx version %#llx: wrong checksum",
				       (unsigned long long)seg->item.segment, seg->frame, home,
				       (unsigned long long)__le64_to_cpu(entry->key),
				       (unsigned long long)__le64_to_cpu(entry->version));
			continue;
		}
		if (!recover_wins(r, nr, entry))
			continue;
		found++;
		if (type == LSMEM_TYPE_DELETE && !recover_keeps(r, entry, oldest))
			continue;
		kept++;
		if (type == LSMEM_TYPE_DELETE) {
			r->result.deletes++;
		} else {
			r->result.objects++;
			r->result.live_bytes += bytes;
		}
		memmove(r->buffer + blob, entry, bytes);
		blob += bytes;
	}
	if (seg->closed && !damaged &&
	    (headers != seg->headers_crc || directory != seg->directory_crc))
		recover_damage(r, "segment %llu (frame %u): its entries are not those of its directory",
			       (unsigned long long)seg->item.segment, seg->frame);
	if (damaged)
		recover_damage(r, "segment %llu (frame %u): at least %u bytes of entries are damaged",
			       (unsigned long long)seg->item.segment, seg->frame, damaged);
	if (found != seg->winners)
		recover_damage(r, "segment %llu (frame %u): %u of %u objects or deletes are lost",
			       (unsigned long long)seg->item.segment, seg->frame,
			       seg->winners - found, seg->winners);
	seg->winners = kept;
	if (!kept || !r->env.load)
		return 0;
	return r->env.load(r->env.context, seg->item.segment, seg->item.generation, seg->cut,
			   r->buffer, blob);
}
