// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery: the winner of each handle index, which is its newest entry (pass 1 calls
 * recover_consider()), and pass 2, which reads the segments that hold winners, checks the CRC of
 * every byte that it hands on, and gives the winners to the kernel.
 *
 * There is one winner for an index, not for a handle: an index that is given out again has a higher
 * generation, and an entry of that generation supersedes all entries of older ones. Of the entries
 * of one handle the highest version wins.
 */
#include <errno.h>
#include <string.h>

#include "private.h"

static void recover_time(struct recover *r, uint64_t version)
{
	if (lsmem_version_time(version) > r->time)
		r->time = lsmem_version_time(version);
}

static void recover_count(struct recover *r, uint64_t version)
{
	r->result.entries++;
	recover_time(r, version);
}

/**
 * recover_consider - let an object or tombstone compete for its index
 * @r: recovery
 * @nr: number of its segment
 * @listing: its listing
 *
 * An entry that contradicts the digest or another entry is reported.
 */
void recover_consider(struct recover *r, uint32_t nr, const struct lsmem_directory_entry *listing)
{
	uint64_t key = __le64_to_cpu(listing->key), version = __le64_to_cpu(listing->version);
	uint64_t meta = __le64_to_cpu(listing->meta);
	uint32_t generation = lsmem_handle_generation(key);
	struct recover_segment *seg = &r->segments[nr];
	struct recover_winner *winner;

	recover_count(r, version);
	if (lsmem_handle_index(key) >= r->indices || !generation) {
		recover_damage(r, "segment %llu (frame %u): handle %#llx is out of range",
			       (unsigned long long)seg->item.segment, seg->frame,
			       (unsigned long long)key);
		return;
	}
	/* Invariant 14: the digest's era and ceiling cover everything that was issued. If the
	 * operator accepts that newer digests are lost, the entry is loaded all the same: the next
	 * recovery, in a higher era, would find it anyway.
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
		/* Invariant 5: every copy has the same bytes. */
		if (winner->generation == generation && winner->version == version &&
		    !format_listing_same(winner->meta, meta)) {
			recover_damage(r, "handle %#llx version %#llx differs between segments %llu and %llu",
				       (unsigned long long)key, (unsigned long long)version,
				       (unsigned long long)r->segments[winner->segment - 1]
				       .item.segment,
				       (unsigned long long)seg->item.segment);
			return;
		}
		/* Of equal copies the later one wins, so the segment of the earlier can go. */
		r->segments[winner->segment - 1].winners--;
	}
	if (!r->touched[lsmem_handle_index(key) / RECOVER_TOUCH])
		recover_touch(r, lsmem_handle_index(key));
	*winner = (struct recover_winner) {
		.version = version,
		.meta = meta,
		.generation = generation,
		.segment = nr + 1,
	};
	seg->winners++;
}

/**
 * recover_entry - take an entry of a segment that has no directory
 * @r: recovery
 * @nr: number of the segment
 * @entry: the entry, of any type
 * @home: its home offset
 */
void recover_entry(struct recover *r, uint32_t nr, const struct lsmem_entry *entry, uint32_t home)
{
	struct lsmem_directory_entry listing;

	if (format_is_listed(entry)) {
		listing = lsmem_entry_listing(entry, home);
		recover_consider(r, nr, &listing);
	} else {
		/* Padding has no version; that of commit and group records is the store's clock. */
		recover_count(r, lsmem_entry_type(entry) == LSMEM_TYPE_PAD ? 0 :
			      lsmem_entry_version(entry));
	}
}

static bool recover_wins(const struct recover *r, uint32_t nr, const struct lsmem_entry *entry,
			 uint32_t home)
{
	const struct lsmem_directory_entry listing = lsmem_entry_listing(entry, home);
	uint64_t key = __le64_to_cpu(listing.key);
	const struct recover_winner *winner;

	if (lsmem_handle_index(key) >= r->indices)
		return false;
	winner = &r->winners[lsmem_handle_index(key)];
	return winner->segment == nr + 1 && winner->meta == __le64_to_cpu(listing.meta) &&
	       winner->generation == lsmem_handle_generation(key) &&
	       winner->version == __le64_to_cpu(listing.version);
}

/**
 * recover_keeps - must a tombstone that won be kept?
 * @r: recovery
 * @entry: the tombstone
 * @oldest: lowest id of a listed segment that holds entries
 *
 * Invariant 13: a tombstone is kept while a listed segment can hold an older version; otherwise the
 * next recovery would find that version and no tombstone. All such segments have ids below the
 * barrier of the tombstone.
 */
bool recover_keeps(struct recover *r, const struct lsmem_entry *entry, uint64_t oldest)
{
	uint64_t barrier = lsmem_entry_value(entry);

	if (barrier > r->barrier)
		r->barrier = barrier;
	return barrier > oldest;
}

/**
 * recover_load_ahead - begin to read a segment for pass 2
 * @r: recovery
 * @nr: number of the segment
 * @turn: turn of its buffer; see recover_use()
 */
void recover_load_ahead(struct recover *r, uint32_t nr, uint32_t turn)
{
	const struct recover_segment *seg = &r->segments[nr];

	if (!seg->nr_copies || seg->coded)
		return;
	recover_ahead(r, recover_data_offset(r, seg),
		      r->frames[turn % r->nr_frames] + LSMEM_BLOCK, lsmem_block_round(seg->cut));
}

/**
 * struct load - pass 2 of a segment
 * @walk: through its entries
 * @entries: CRC of its entries, as in its footer
 * @directory: CRC of its directory, as in its footer
 * @damaged: bytes that are no entry
 * @nr: elements of @at in use
 * @at: home offsets of the next objects and tombstones
 */
struct load {
	struct format_walk walk;
	uint32_t entries, directory;
	uint32_t damaged;
	uint32_t nr;
	uint32_t at[RECOVER_PREFETCH];
};

/*
 * Find the next objects and tombstones, and prefetch their winners: otherwise each lookup would
 * wait for memory. Return: true if there are any.
 */
static bool load_walk(struct recover *r, struct load *load)
{
	struct format_walk *walk = &load->walk;

	load->nr = 0;
	while (load->nr < RECOVER_PREFETCH && walk->at < walk->end &&
	       walk->end - walk->at >= LSMEM_LONG_BYTES) {
		const struct lsmem_entry *entry = (const void *)(r->buffer + walk->at);
		struct lsmem_directory_entry listing;
		uint32_t home = walk->at;

		if (format_walk_step(walk, entry)) {
			/* The entry is damaged, its length too perhaps: look for the next one. */
			load->damaged += LSMEM_ALIGN;
			walk->at = lsmem_entry_start(walk->at + LSMEM_ALIGN);
			continue;
		}
		load->entries = lsmem_crc32c(load->entries, &entry->crc, sizeof(entry->crc));
		if (!format_is_listed(entry))
			continue;
		listing = lsmem_entry_listing(entry, home);
		load->directory = lsmem_crc32c(load->directory, &listing, sizeof(listing));
		recover_prefetch(r, lsmem_entry_handle(entry));
		load->at[load->nr++] = home;
	}
	return load->nr;
}

/* Is a sound entry to be given to the kernel? @found counts the winners. */
static bool load_entry(struct recover *r, uint32_t nr, const struct lsmem_entry *entry,
		       uint32_t home, uint64_t oldest, uint32_t *found)
{
	if (!recover_wins(r, nr, entry, home))
		return false;
	(*found)++;
	if (r->verifying)
		return false;
	r->winners[lsmem_handle_index(lsmem_entry_handle(entry))].segment = 0;
	if (lsmem_entry_type(entry) == LSMEM_TYPE_TOMBSTONE) {
		if (!recover_keeps(r, entry, oldest))
			return false;
		r->result.tombstones++;
	} else {
		r->result.objects++;
		r->result.live_bytes += lsmem_entry_bytes(entry);
	}
	return true;
}

/**
 * recover_loaded - wait until the kernel has loaded everything that it was given
 * @r: recovery
 *
 * Return: 0 or what a load returned.
 */
int recover_loaded(struct recover *r)
{
	return r->env.load && r->env.loaded ? r->env.loaded(r->env.context) : 0;
}

/* Are all checksums of the replica in the buffer right? */
static bool load_sound(const struct recover *r, const struct recover_segment *seg)
{
	struct format_verify verify;

	format_verify_begin(&verify, r->super.uuid, seg->item.segment, seg->item.generation,
			    seg->cut);
	return !format_verify_data(&verify, r->buffer, seg->cut) &&
	       (!seg->closed || verify.entries_crc == seg->entries_crc);
}

/*
 * Read the log data of the first sound replica. If there is only one, or none is sound, the data
 * are not checked here: recover_load() reports what is wrong.
 */
static int load_read(struct recover *r, struct recover_segment *seg)
{
	uint32_t first = seg->copy, good = seg->good, i;
	int ret;

	if (seg->coded)
		return recover_seg_read(r, seg, LSMEM_BLOCK, r->buffer, lsmem_block_round(seg->cut));
	for (i = 0; i < seg->nr_copies; i++) {
		uint32_t copy = (first + i) % seg->nr_copies;

		if (!(good >> copy & 1u))
			continue;
		recover_use_copy(seg, copy);
		ret = recover_read(r, recover_data_offset(r, seg), r->buffer,
				   lsmem_block_round(seg->cut));
		if (ret == -ECANCELED || (ret && good == 1u << copy))
			return ret;
		if (!ret && (good == 1u << copy || load_sound(r, seg)))
			return 0;
		recover_bad_copy(r, seg, ret ? strerror(-ret) : "wrong checksums");
	}
	seg->good = 1u << first;
	recover_use_copy(seg, first);
	return recover_read(r, recover_data_offset(r, seg), r->buffer,
			    lsmem_block_round(seg->cut));
}

/*
 * Add a tombstone for each winner of the segment that was not found, after @blob bytes of the
 * buffer: otherwise older versions would come back when the damaged segment has been cleaned. They
 * fit, since no entry is smaller, unless the directory lies. Return: bytes of the buffer that are in
 * use.
 */
static uint32_t load_bury(struct recover *r, uint32_t nr, uint32_t blob)
{
	const struct recover_segment *seg = &r->segments[nr];
	uint64_t index;

	for (index = recover_winner_from(r, 0); index < r->indices; index = recover_winner_from(r, index + 1)) {
		const struct recover_winner *winner = &r->winners[index];
		struct lsmem_entry tombstone;

		if (winner->segment != nr + 1)
			continue;
		if (blob + LSMEM_LONG_BYTES > seg->cut) {
			recover_damage(r, "segment %llu (frame %u): its directory lists more than it can hold",
				       (unsigned long long)seg->item.segment, seg->frame);
			break;
		}
		tombstone = lsmem_entry_make(LSMEM_TYPE_TOMBSTONE, r->max_segment + 1,
					     lsmem_handle_make(index, winner->generation),
					     winner->version + 1, 0,
					     LSMEM_LISTING_GET(winner->meta, TABLE),
					     LSMEM_LISTING_GET(winner->meta, HOME) * LSMEM_ALIGN);
		tombstone.crc = __cpu_to_le32(lsmem_entry_crc(&tombstone, ~0u, seg->salt));
		memcpy(r->buffer + blob, &tombstone, LSMEM_LONG_BYTES);
		blob += LSMEM_LONG_BYTES;
		recover_time(r, winner->version + 1);
		r->result.tombstones++;
	}
	if (r->barrier <= r->max_segment)
		r->barrier = r->max_segment + 1;
	return blob;
}

/**
 * recover_load - do pass 2 of one segment, or verify it
 * @r: pass 1 of all segments is done
 * @nr: number of the segment
 * @oldest: lowest id of a listed segment that holds entries
 *
 * Afterwards @winners of the segment counts the entries that were given to the kernel. If it was only
 * to be verified, nothing is given, and @winners stays.
 *
 * Return: 0, also if something is lost, which is reported; or what a call returned.
 */
int recover_load(struct recover *r, uint32_t nr, uint64_t oldest)
{
	struct recover_segment *seg = &r->segments[nr];
	struct load load = {
		.walk = { .salt = seg->salt, .end = seg->cut }, .entries = ~0u, .directory = ~0u,
	};
	uint32_t blob = 0, found = 0, kept = 0, end, i;
	int ret;

	ret = load_read(r, seg);
	if (ret)
		return ret;
	while (load_walk(r, &load)) {
		for (i = 0; i < load.nr; i++) {
			const struct lsmem_entry *entry = (const void *)(r->buffer + load.at[i]);
			uint32_t bytes = lsmem_entry_bytes(entry);

			if (!load_entry(r, nr, entry, load.at[i], oldest, &found))
				continue;
			/* Entries move down only, so they overwrite none that is still needed. */
			if (blob != load.at[i])
				memmove(r->buffer + blob, entry, bytes);
			blob += bytes;
			kept++;
		}
	}
	if (seg->closed && !load.damaged &&
	    (load.entries != seg->entries_crc || load.directory != seg->directory_crc))
		recover_damage(r, "segment %llu (frame %u): its entries differ from its directory",
			       (unsigned long long)seg->item.segment, seg->frame);
	/* A directory names all entries: if each one that counts was found, the rest is superseded. */
	if (load.damaged && seg->closed && found == seg->winners && !r->check)
		recover_info(r, "segment %llu (frame %u): at least %u bytes of superseded entries are damaged; nothing is lost",
			     (unsigned long long)seg->item.segment, seg->frame, load.damaged);
	else if (load.damaged)
		recover_damage(r, "segment %llu (frame %u): at least %u bytes of entries are damaged",
			       (unsigned long long)seg->item.segment, seg->frame, load.damaged);
	if (found != seg->winners)
		recover_damage(r, "segment %llu (frame %u): %u of %u objects or tombstones are lost",
			       (unsigned long long)seg->item.segment, seg->frame,
			       seg->winners - found, seg->winners);
	if (r->verifying)
		return 0;
	seg->damaged = seg->closed && (load.damaged || found != seg->winners);
	if (found != seg->winners && !r->check && RULE(BURY)) {
		end = load_bury(r, nr, blob);
		kept += (end - blob) / LSMEM_LONG_BYTES;
		blob = end;
	}
	seg->winners = kept;
	if (!r->env.load)
		return 0;
	/* The next turn can use the buffer of the load before: that must have ended. */
	if (!kept)
		return recover_loaded(r);
	return r->env.load(r->env.context, seg->item.segment, seg->item.generation, seg->cut,
			   r->buffer, blob);
}
