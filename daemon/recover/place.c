// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery of a tiered store, pass 2: the winners that are objects stay where they are. The kernel
 * gets their listings, which pass 1 has from directories, so no object is read. It checks an object
 * when it is fetched.
 *
 * Tombstones are given to the kernel as they are: only the entry has the barrier. Their blocks are
 * read, and no others that are not between two of them. Of listings that a migration's source told, the place of a
 * tombstone is known by its block only: it is found there by its key and version.
 *
 * The table of winners is by index, and segments are handed on one after the other: the indexes are
 * sorted by segment first. That takes four bytes for each winner.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "private.h"

#define PLACE_LISTINGS	65536u			/* of a call, at most */
#define PLACE_RANGE	(1u << 20)		/* longest read of tombstones, bytes */
#define PLACE_GAP	(64u << 10)		/* tombstones further apart are read apart */

/* A tombstone that has won. */
struct place_tombstone {
	uint32_t home, index;
};

/* A range of log data to read, in bytes. */
struct place_range {
	uint32_t from, to;
};

/**
 * struct places - pass 2
 * @r: recovery
 * @oldest: lowest id of a listed segment that holds entries
 * @order: indexes with a winner, by segment
 * @first: by number of the segment: place of its first one in @order; one more at the end
 * @listings: room for PLACE_LISTINGS
 * @tombstones: of the segment, by home offset
 * @nr: elements of @tombstones in use
 * @ranges: that have these
 * @nr_ranges: elements of @ranges in use
 * @turn: of the buffer for tombstones; see recover_use()
 */
struct places {
	struct recover *r;
	uint64_t oldest;
	uint32_t *order;
	uint64_t *first;
	struct lsmem_directory_entry *listings;
	struct place_tombstone *tombstones;
	uint32_t nr;
	struct place_range ranges[LSMEM_SEGMENT_BYTES / LSMEM_BLOCK];
	uint32_t nr_ranges;
	uint32_t turn;
};

static void places_free(struct places *p)
{
	free(p->order);
	free(p->first);
	free(p->listings);
	free(p->tombstones);
	free(p);
}

static struct places *places_new(struct recover *r, uint64_t oldest)
{
	struct places *p = calloc(1, sizeof(*p));
	uint32_t nr, most = 0;
	uint64_t index, all = 0;

	if (!p)
		return NULL;
	p->r = r;
	p->oldest = oldest;
	p->first = calloc((uint64_t)r->nr_segments + 1, sizeof(*p->first));
	p->listings = calloc(PLACE_LISTINGS, sizeof(*p->listings));
	for (nr = 0; p->first && nr < r->nr_segments; nr++) {
		p->first[nr] = all;
		all += r->segments[nr].winners;
		if (r->segments[nr].winners > most)
			most = r->segments[nr].winners;
	}
	p->order = malloc((all + 1) * sizeof(*p->order));
	p->tombstones = malloc((most + 1ul) * sizeof(*p->tombstones));
	if (!p->first || !p->listings || !p->order || !p->tombstones) {
		places_free(p);
		return NULL;
	}
	/* @first of a segment moves to its end, which is where the next one begins: move it back. */
	for (index = recover_winner_from(r, 0); index < r->indices; index = recover_winner_from(r, index + 1))
		p->order[p->first[r->winners[index].segment - 1]++] = (uint32_t)index;
	memmove(p->first + 1, p->first, r->nr_segments * sizeof(*p->first));
	p->first[0] = 0;
	return p;
}

static struct lsmem_directory_entry place_listing(const struct recover *r, uint32_t index)
{
	const struct recover_winner *winner = &r->winners[index];
	struct lsmem_directory_entry listing = {
		__cpu_to_le64(lsmem_handle_make(index, winner->generation)),
		__cpu_to_le64(winner->version),
		__cpu_to_le64(winner->meta),
	};

	return listing;
}

static int place_give(struct recover *r, const struct recover_segment *seg,
		      const struct lsmem_directory_entry *listings, uint32_t nr)
{
	return !nr ? 0 : r->env.place(r->env.context, seg->item.segment, seg->item.generation,
				      seg->cut, listings, nr);
}

/* Give the objects of a segment to the kernel, and note its tombstones. */
static int place_objects(struct places *p, uint32_t nr)
{
	struct recover *r = p->r;
	const struct recover_segment *seg = &r->segments[nr];
	uint64_t i, end = p->first[nr + 1];
	uint32_t full = 0, length;
	int ret;

	p->nr = 0;
	for (i = p->first[nr]; i < end; i++) {
		uint32_t index = p->order[i];
		uint64_t meta = r->winners[index].meta;

		if (i + RECOVER_PREFETCH < end)
			__builtin_prefetch(&r->winners[p->order[i + RECOVER_PREFETCH]]);
		if (LSMEM_LISTING_GET(meta, TYPE) == LSMEM_TYPE_TOMBSTONE) {
			p->tombstones[p->nr++] = (struct place_tombstone) {
				.home = LSMEM_LISTING_GET(meta, HOME) * LSMEM_ALIGN, .index = index,
			};
			continue;
		}
		length = LSMEM_LISTING_GET(meta, LENGTH);
		r->result.objects++;
		r->result.live_bytes += lsmem_entry_size(length);
		p->listings[full++] = place_listing(r, index);
		if (full < PLACE_LISTINGS)
			continue;
		ret = place_give(r, seg, p->listings, full);
		if (ret)
			return ret;
		full = 0;
	}
	return place_give(r, seg, p->listings, full);
}

static int place_by_home(const void *a, const void *b)
{
	const struct place_tombstone *x = a, *y = b;

	return x->home < y->home ? -1 : x->home > y->home;
}

/* Where does the last block end that can have bytes of the tombstone at @home? */
static uint32_t place_end(const struct places *p, const struct recover_segment *seg, uint32_t home)
{
	uint32_t last = p->r->told ? home | (LSMEM_BLOCK - LSMEM_ALIGN) : home;
	uint32_t end = lsmem_block_round(last + LSMEM_LONG_BYTES), cut = lsmem_block_round(seg->cut);

	return end < cut ? end : cut;
}

/* Find the ranges that have the tombstones of the segment. */
static void place_ranges(struct places *p, const struct recover_segment *seg)
{
	struct place_range *range = NULL;
	uint32_t i;

	qsort(p->tombstones, p->nr, sizeof(*p->tombstones), place_by_home);
	p->nr_ranges = 0;
	for (i = 0; i < p->nr; i++) {
		uint32_t from = p->tombstones[i].home & ~(LSMEM_BLOCK - 1);
		uint32_t to = place_end(p, seg, p->tombstones[i].home);

		if (!range || (from > range->to && from - range->to > PLACE_GAP) ||
		    to - range->from > PLACE_RANGE) {
			/* Two ranges can have a block in common: the later reads it again. */
			range = &p->ranges[p->nr_ranges++];
			range->from = from;
		}
		range->to = to;
	}
}

/* Read the ranges to where they belong in the buffer. */
static int place_read(struct places *p, struct recover_segment *seg)
{
	struct recover *r = p->r;
	uint32_t ahead = 0, i;
	uint64_t where;
	int ret = 0;

	if (seg->coded) {
		for (i = 0; i < p->nr_ranges && !ret; i++)
			ret = recover_seg_read(r, seg, LSMEM_BLOCK + p->ranges[i].from, r->buffer + p->ranges[i].from,
					       p->ranges[i].to - p->ranges[i].from);
		return ret;
	}
	where = recover_data_offset(r, seg);
	for (i = 0; i < p->nr_ranges && !ret; i++) {
		for (; ahead < p->nr_ranges && ahead < i + RECOVER_AHEAD; ahead++)
			recover_ahead(r, where + p->ranges[ahead].from,
				      r->buffer + p->ranges[ahead].from,
				      p->ranges[ahead].to - p->ranges[ahead].from);
		ret = recover_read(r, where + p->ranges[i].from, r->buffer + p->ranges[i].from,
				   p->ranges[i].to - p->ranges[i].from);
	}
	recover_ahead_end(r);
	return ret;
}

/* Is the tombstone at home offset @at in the buffer this one? Then its listing is exact from now on. */
static bool place_is(struct places *p, const struct recover_segment *seg, struct place_tombstone *tombstone,
		     uint32_t at)
{
	const struct lsmem_entry *entry = (const void *)(p->r->buffer + at);
	struct lsmem_directory_entry is, wanted = place_listing(p->r, tombstone->index);

	if (!lsmem_entry_is_long(entry) || lsmem_entry_type(entry) != LSMEM_TYPE_TOMBSTONE ||
	    !lsmem_entry_valid(entry, format_payload(entry), seg->salt))
		return false;
	is = lsmem_entry_listing(entry, at);
	if (is.key != wanted.key || is.version != wanted.version ||
	    !format_listing_same(__le64_to_cpu(is.meta), __le64_to_cpu(wanted.meta)))
		return false;
	p->r->winners[tombstone->index].meta = __le64_to_cpu(is.meta);
	tombstone->home = at;
	return true;
}

/* Find the tombstones in their blocks, which are in the buffer. */
static void place_search(struct places *p, const struct recover_segment *seg)
{
	uint32_t i, at, end;

	for (i = 0; i < p->nr; i++) {
		at = p->tombstones[i].home & ~(LSMEM_BLOCK - 1);
		for (end = at + LSMEM_BLOCK; at < end && at + LSMEM_LONG_BYTES <= seg->cut; at += LSMEM_ALIGN)
			if (place_is(p, seg, &p->tombstones[i], at))
				break;
	}
	qsort(p->tombstones, p->nr, sizeof(*p->tombstones), place_by_home);
}

/* Is the tombstone that has won in the buffer, where it should be? */
static bool place_sound(const struct places *p, const struct recover_segment *seg, uint32_t i)
{
	const struct place_tombstone *tombstone = &p->tombstones[i];
	const struct lsmem_entry *entry = (const void *)(p->r->buffer + tombstone->home);
	struct lsmem_directory_entry is, wanted = place_listing(p->r, tombstone->index);

	if (!lsmem_entry_is_long(entry) || lsmem_entry_type(entry) != LSMEM_TYPE_TOMBSTONE ||
	    !lsmem_entry_valid(entry, format_payload(entry), seg->salt))
		return false;
	is = lsmem_entry_listing(entry, tombstone->home);
	return !memcmp(&is, &wanted, sizeof(is));
}

static uint32_t place_count(struct places *p, const struct recover_segment *seg)
{
	uint32_t sound = 0, i;

	if (p->r->told)
		place_search(p, seg);
	for (i = 0; i < p->nr; i++)
		sound += place_sound(p, seg, i);
	return sound;
}

/* Read the tombstones from the first replica that has all of them; @sound: how many there are. */
static int place_find(struct places *p, struct recover_segment *seg, uint32_t *sound)
{
	uint32_t first = seg->copy, good = seg->good, i;
	int ret;

	if (seg->coded) {
		ret = place_read(p, seg);
		*sound = ret ? 0 : place_count(p, seg);
		return ret;
	}
	for (i = 0; i < seg->nr_copies; i++) {
		uint32_t copy = (first + i) % seg->nr_copies;
		bool last;

		if (!(good >> copy & 1u))
			continue;
		recover_use_copy(seg, copy);
		ret = place_read(p, seg);
		last = seg->good == 1u << copy;
		if (ret == -ECANCELED || (ret && last))
			return ret;
		*sound = ret ? 0 : place_count(p, seg);
		if (*sound == p->nr || last)
			return 0;
		recover_bad_copy(p->r, seg, ret ? strerror(-ret) : "damaged tombstones");
	}
	return 0;
}

/* Give the tombstones of a segment that must be kept to the kernel. */
static int place_tombstones(struct places *p, struct recover_segment *seg)
{
	struct recover *r = p->r;
	uint32_t blob = 0, sound = 0, i;
	int ret;

	/*
	 * The kernel may still be loading from the buffer of the turn before, and from no other: the
	 * next turn begins when this one is given to the kernel.
	 */
	recover_use(r, p->turn);
	place_ranges(p, seg);
	ret = place_find(p, seg, &sound);
	if (ret)
		return ret;
	if (sound < p->nr)
		recover_damage(r, "segment %llu (frame %u): %u of %u tombstones are lost",
			       (unsigned long long)seg->item.segment, seg->frame, p->nr - sound,
			       p->nr);
	for (i = 0; i < p->nr; i++) {
		const struct lsmem_entry *entry = (const void *)(r->buffer + p->tombstones[i].home);

		if (!place_sound(p, seg, i) || !recover_keeps(r, entry, p->oldest))
			continue;
		/* Entries move down only, so they overwrite none that is still needed. */
		memmove(r->buffer + blob, entry, LSMEM_LONG_BYTES);
		blob += LSMEM_LONG_BYTES;
		r->result.tombstones++;
		seg->winners++;
	}
	if (!blob)
		return 0;
	p->turn++;
	return r->env.load(r->env.context, seg->item.segment, seg->item.generation, seg->cut,
			   r->buffer, blob);
}

/* Pass 2 of a segment. Afterwards @winners of it counts what was given to the kernel. */
static int place_segment(struct places *p, uint32_t nr)
{
	struct recover_segment *seg = &p->r->segments[nr];
	int ret = place_objects(p, nr);

	seg->winners -= p->nr;
	if (!ret && p->nr)
		ret = place_tombstones(p, seg);
	return ret;
}

/**
 * recover_places - pass 2 of all segments of a tiered store
 * @r: pass 1 of all segments is done
 * @oldest: lowest id of a listed segment that holds entries
 *
 * Return: 0, also if something is lost, which is reported; -ENOMEM; or what a call returned.
 */
int recover_places(struct recover *r, uint64_t oldest)
{
	struct places *p = places_new(r, oldest);
	uint32_t nr;
	int ret = p ? 0 : -ENOMEM, err;

	for (nr = 0; nr < r->nr_segments && !ret; nr++) {
		if (r->segments[nr].winners)
			ret = place_segment(p, nr);
		r->segments[nr].winners += r->segments[nr].placed;
		recover_progress(r, nr + 1);
	}
	err = recover_loaded(r);
	if (p)
		places_free(p);
	return ret ? ret : err;
}
