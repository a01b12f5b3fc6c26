// SPDX-License-Identifier: GPL-2.0
/* What a migration's target knows: see known.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "format/format.h"
#include "known.h"
#include "lsmem.h"

#define KNOWN_FIRST	1024u	/* segments that there is room for in the beginning; a power of two */
#define KNOWN_PREFETCH	24u	/* listings ahead: so many cache misses a CPU has in flight */

/**
 * struct known - what a target knows
 * @listings: by index
 * @indices: elements of @listings
 * @segments: by number; 0 is none
 * @hash: numbers of segments by their ids
 * @room: elements of @segments and of @hash, a power of two
 * @used: elements of @segments that have been used
 * @free: number of the first one that is free again; 0: there is none
 * @most: segments that can be in a log
 * @there: segments that are not gone
 * @gone: .. that are, and have listings
 * @objects: how many objects count: the sum over those that are not gone
 * @bytes: of their entries
 * @stale: how many listings of segments that are gone are placed
 * @newest: of all that was told
 * @watch: NULL: none
 * @uuid: of the store
 */
struct known {
	struct known_listing *listings;
	uint64_t indices;
	struct known_segment *segments;
	uint32_t *hash;
	uint32_t room, used, free;
	uint32_t most, there, gone;
	uint64_t objects, bytes, stale;
	struct known_newest newest;
	struct known_watch *watch;
	uint8_t uuid[LSMEM_UUID_BYTES];
};

/**
 * known_new - begin with nothing
 * @indices: of the store: format_indices()
 * @most: segments that the log can have: frames of its backups
 *
 * Return: to be freed by known_free(); NULL: there is no memory.
 */
struct known *known_new(uint64_t indices, uint32_t most)
{
	struct known *known = calloc(1, sizeof(*known));

	if (!known)
		return NULL;
	known->indices = indices;
	known->most = most;
	known->room = KNOWN_FIRST;
	known->used = 1;
	known->listings = memory_table(indices * sizeof(*known->listings), false);
	known->segments = calloc(known->room, sizeof(*known->segments));
	known->hash = calloc(known->room, sizeof(*known->hash));
	if (known->listings && known->segments && known->hash)
		return known;
	known_free(known);
	return NULL;
}

/**
 * known_free - forget all
 * @known: may be NULL
 */
void known_free(struct known *known)
{
	if (!known)
		return;
	free(known->listings);
	free(known->segments);
	free(known->hash);
	free(known);
}

/* ---- Segments ------------------------------------------------------------ */

static uint32_t *known_bucket(struct known *known, uint64_t id)
{
	return &known->hash[id * 0x9e3779b97f4a7c15ull >> 32 & (known->room - 1)];
}

static uint32_t known_find(struct known *known, uint64_t id)
{
	uint32_t nr = *known_bucket(known, id);

	while (nr && known->segments[nr].id != id)
		nr = known->segments[nr].next;
	return nr;
}

static void known_link(struct known *known, uint32_t nr)
{
	uint32_t *bucket = known_bucket(known, known->segments[nr].id);

	known->segments[nr].next = *bucket;
	*bucket = nr;
}

/* A segment is gone, and no listing is of it: forget it. */
static void known_forget(struct known *known, uint32_t nr)
{
	uint32_t *at = known_bucket(known, known->segments[nr].id);

	while (*at != nr)
		at = &known->segments[*at].next;
	*at = known->segments[nr].next;
	known->segments[nr] = (struct known_segment){ .next = known->free };
	known->free = nr;
	known->gone--;
}

static bool known_is_object(const struct known_listing *listing)
{
	return LSMEM_LISTING_GET(listing->meta, TYPE) == LSMEM_TYPE_OBJECT;
}

/* What an object takes where it is; a tombstone: nothing. */
static uint32_t known_size(const struct known_listing *listing)
{
	return known_is_object(listing) ? lsmem_entry_size((uint32_t)LSMEM_LISTING_GET(listing->meta, LENGTH)) : 0;
}

/* A listing counts. */
static void known_count(struct known *known, const struct known_listing *listing)
{
	struct known_segment *seg = &known->segments[listing->segment];

	seg->listings++;
	seg->objects += known_is_object(listing);
	seg->bytes += known_size(listing);
	seg->placed += listing->placed;
	known->objects += known_is_object(listing);
	known->bytes += known_size(listing);
}

/* A listing is not kept any more. */
static void known_drop(struct known *known, const struct known_listing *listing)
{
	struct known_segment *seg = &known->segments[listing->segment];

	seg->listings--;
	seg->objects -= known_is_object(listing);
	seg->bytes -= known_size(listing);
	seg->placed -= listing->placed;
	if (!seg->gone) {
		known->objects -= known_is_object(listing);
		known->bytes -= known_size(listing);
		return;
	}
	known->stale -= listing->placed;
	if (listing->placed && !seg->placed && known->watch)
		known->watch->gone(known->watch, seg);
	if (!seg->listings)
		known_forget(known, listing->segment);
}

/* A listing counts no more, and the kernel must not have it. */
static void known_back(struct known *known, uint64_t index, const struct known_listing *listing)
{
	if (listing->placed && known->watch)
		known->watch->back(known->watch, index, listing, &known->segments[listing->segment]);
	known_drop(known, listing);
}

/* Drop all listings of segments that are gone. */
static void known_sweep(struct known *known)
{
	uint64_t index;

	for (index = 0; index < known->indices && known->gone; index++) {
		struct known_listing *listing = &known->listings[index];

		if (!listing->segment || !known->segments[listing->segment].gone)
			continue;
		known_back(known, index, listing);
		listing->segment = 0;
	}
}

static int known_grow(struct known *known)
{
	uint32_t room = known->room * 2, nr;
	struct known_segment *segments = realloc(known->segments, room * sizeof(*segments));
	uint32_t *hash;

	if (!segments)
		return -ENOMEM;
	known->segments = segments;
	hash = calloc(room, sizeof(*hash));
	if (!hash)
		return -ENOMEM;
	free(known->hash);
	known->hash = hash;
	known->room = room;
	for (nr = 1; nr < known->used; nr++)	/* none of them is free */
		known_link(known, nr);
	return 0;
}

/* Return: 0 and the number of a new segment, or a negative errno. */
static int known_add(struct known *known, uint64_t id, uint32_t generation, uint32_t *nr)
{
	int ret = known->there == known->most ? -EPROTO : 0;

	if (!ret && !known->free && known->used == known->room)
		ret = known_grow(known);
	if (ret)
		return ret;
	*nr = known->free;
	if (*nr)
		known->free = known->segments[*nr].next;
	else
		*nr = known->used++;
	known->segments[*nr] = (struct known_segment){ .id = id, .generation = generation };
	known_link(known, *nr);
	known->there++;
	return 0;
}

static void known_retire(struct known *known, uint64_t id)
{
	uint32_t nr = known_find(known, id);
	struct known_segment *seg = &known->segments[nr];

	if (!nr || seg->gone)
		return;		/* nothing was told of it */
	seg->gone = true;
	known->there--;
	known->gone++;
	known->objects -= seg->objects;
	known->stale += seg->placed;
	known->bytes -= seg->bytes;
	if (seg->made && !seg->placed && known->watch)
		known->watch->gone(known->watch, seg);
	if (!seg->listings)
		known_forget(known, nr);
	else if (known->gone > KNOWN_GONE && known->gone > known->there)
		known_sweep(known);
}

/* ---- Blocks ---------------------------------------------------------------- */

static void known_see(struct known *known, const struct known_listing *listing)
{
	uint64_t time = lsmem_version_time(listing->version);
	uint32_t era = (uint32_t)(listing->version >> LSMEM_VERSION_TIME_BITS);

	if (time > known->newest.time)
		known->newest.time = time;
	if (era > known->newest.era)
		known->newest.era = era;
	if (listing->generation > known->newest.generation)
		known->newest.generation = listing->generation;
}

/* Of two listings of an index the one with the higher generation counts, then the higher version, then the later one. */
static int known_consider(struct known *known, uint32_t nr, const struct ahead_listing *listing)
{
	uint64_t key = __le64_to_cpu(listing->entry.key), index = lsmem_handle_index(key);
	struct known_listing *old = &known->listings[index];
	struct known_listing new = {
		.version = __le64_to_cpu(listing->entry.version),
		.meta = __le64_to_cpu(listing->entry.meta),
		.place = __le64_to_cpu(listing->place),
		.generation = lsmem_handle_generation(key),
		.segment = nr,
	};

	known_see(known, &new);
	if (old->segment) {
		if (old->generation > new.generation ||
		    (old->generation == new.generation && old->version > new.version))
			return 0;
		if (old->generation == new.generation && old->version == new.version &&
		    !format_listing_same(old->meta, new.meta))
			return -EPROTO;
		/* It was told again with another place in the source's memory: the kernel's word stays. */
		new.placed = old->placed && old->segment == nr && old->generation == new.generation &&
			     old->version == new.version && old->meta == new.meta;
		if (new.placed)
			known_drop(known, old);
		else
			known_back(known, index, old);
	}
	*old = new;
	known_count(known, old);
	if (known->watch && !new.placed)
		known->watch->counts(known->watch, index, known_is_object(old));
	return 0;
}

static int known_listings(struct known *known, const struct ahead_head *block)
{
	uint32_t generation = __le32_to_cpu(block->generation), all = __le32_to_cpu(block->nr), nr, i;
	const struct ahead_listing *listings = ahead_listings(block);
	uint64_t id = __le64_to_cpu(block->segment);
	int ret = 0;

	nr = known_find(known, id);
	if (!nr)
		ret = known_add(known, id, generation, &nr);
	else if (known->segments[nr].gone || known->segments[nr].generation != generation)
		ret = -EPROTO;
	if (ret)
		return ret;
	known->segments[nr].end = __le32_to_cpu(block->end);
	for (i = 0; i < all && !ret; i++) {
		if (i + KNOWN_PREFETCH < all)
			__builtin_prefetch(&known->listings[lsmem_handle_index(
				__le64_to_cpu(listings[i + KNOWN_PREFETCH].entry.key))], 1);
		ret = known_consider(known, nr, &listings[i]);
	}
	return ret;
}

/* ---- What the kernel has -------------------------------------------------------- */

/**
 * known_watch - tell what changes
 * @known: no block was taken yet
 * @watch: must stay; NULL, at any time: no more
 */
void known_watch(struct known *known, struct known_watch *watch)
{
	known->watch = watch;
}

/**
 * known_set_placed - the kernel has got what counts for an index
 * @known: what is known, with a watch
 * @index: an object counts for it
 */
void known_set_placed(struct known *known, uint64_t index)
{
	struct known_listing *listing = &known->listings[index];

	known->segments[listing->segment].placed += !listing->placed;
	listing->placed = true;
}

/**
 * known_set_home - the kernel has a segment, or has it no more
 * @known: what is known, with a watch
 * @id: of the segment
 * @home: bytes of log data that it has for the kernel
 * @made: it has it
 */
void known_set_home(struct known *known, uint64_t id, uint32_t home, bool made)
{
	struct known_segment *seg = &known->segments[known_find(known, id)];

	if (seg->id != id)
		return;
	seg->home = home;
	seg->made = made;
}

/**
 * known_take_back - forget all that was placed of segments that are gone
 * @known: what is known, with a watch, which is told
 *
 * Walks through all indices, if there is any.
 */
void known_take_back(struct known *known)
{
	if (known->stale)
		known_sweep(known);
}

/**
 * known_next_segment - go through the segments that are not gone
 * @known: what is known
 * @nr: out: the number of the segment; 0 at first
 *
 * Return: the next one; NULL: there is none.
 */
const struct known_segment *known_next_segment(const struct known *known, uint32_t *nr)
{
	while (++*nr < known->used)
		if (known->segments[*nr].id && !known->segments[*nr].gone)
			return &known->segments[*nr];
	return NULL;
}

/**
 * known_segment_of - the segment of a listing
 * @known: what is known
 * @listing: as known_listing() has it
 *
 * Return: it, until the next block.
 */
const struct known_segment *known_segment_of(const struct known *known, const struct known_listing *listing)
{
	return &known->segments[listing->segment];
}

/**
 * known_block - take a block
 * @known: all blocks before it were taken
 * @block: accepted by ahead_check(), with the indices of known_new()
 *
 * Return: 0; -EPROTO: it contradicts the blocks before, or there are more segments than a log can have; -ENOMEM. After an
 * error what is known is worth nothing.
 */
int known_block(struct known *known, const struct ahead_head *block)
{
	uint32_t i;

	memcpy(known->uuid, block->uuid, sizeof(known->uuid));
	if (block->kind == __cpu_to_le32(AHEAD_LISTINGS))
		return known_listings(known, block);
	if (block->kind == __cpu_to_le32(AHEAD_GONE))
		for (i = 0; i < __le32_to_cpu(block->nr); i++)
			known_retire(known, __le64_to_cpu(ahead_gone(block)[i]));
	return 0;
}

/* ---- For a recovery ---------------------------------------------------------- */

/**
 * known_segments - how many segments have been told, and are not gone?
 * @known: what is known
 *
 * Return: their number.
 */
uint32_t known_segments(const struct known *known)
{
	return known->there;
}

/**
 * known_objects - how many objects have been told, and count?
 * @known: what is known
 *
 * If all has been told, it is the number that READY has, or a header in the source's memory is damaged.
 *
 * Return: their number, tombstones not included.
 */
uint64_t known_objects(const struct known *known)
{
	return known->objects;
}

/**
 * known_bytes - how large are the objects that count?
 * @known: what is known
 *
 * Return: bytes of their entries.
 */
uint64_t known_bytes(const struct known *known)
{
	return known->bytes;
}

/**
 * known_newest - what is the highest of all that was told?
 * @known: what is known
 * @newest: out
 */
void known_newest(const struct known *known, struct known_newest *newest)
{
	*newest = known->newest;
}

/**
 * known_room - how many segments is there room for?
 * @known: what is known
 *
 * Return: so many elements of struct known_segment are allocated.
 */
uint32_t known_room(const struct known *known)
{
	return known->room;
}

/**
 * known_listing - what counts for an index
 * @known: what is known
 * @index: below that of known_new()
 * @listing: out
 * @segment: out: id of its segment
 *
 * Return: false: nothing counts, and the outputs are not filled in. A tombstone may count.
 */
bool known_listing(const struct known *known, uint64_t index, struct known_listing *listing, uint64_t *segment)
{
	const struct known_listing *counts = &known->listings[index];

	if (!counts->segment || known->segments[counts->segment].gone)
		return false;
	*listing = *counts;
	*segment = known->segments[counts->segment].id;
	return true;
}

/**
 * known_is - is an entry the one that was told? (PULL_CHECK)
 * @listing: of an object, as known_listing() has it
 * @index: of its handle
 * @e: the entry, of which the header is there; it may be anything
 *
 * Its CRC, which the kernel checks, covers the rest.
 */
bool known_is(const struct known_listing *listing, uint64_t index, const struct lsmem_entry *e)
{
	return lsmem_entry_handle(e) == lsmem_handle_make(index, listing->generation) &&
	       lsmem_entry_version(e) == listing->version &&
	       lsmem_entry_home(e) == LSMEM_LISTING_GET(listing->meta, HOME) * LSMEM_ALIGN / LSMEM_BLOCK &&
	       lsmem_entry_sane(e) && lsmem_entry_type(e) == LSMEM_TYPE_OBJECT &&
	       lsmem_entry_bytes(e) == lsmem_entry_size((uint32_t)LSMEM_LISTING_GET(listing->meta, LENGTH));
}

/**
 * known_where - where is an object in the source's memory?
 * @listing: as known_listing() has it
 * @seglets: of the source's memory
 * @where: out
 *
 * Return: false: it is a tombstone, or not in memory.
 */
bool known_where(const struct known_listing *listing, uint32_t seglets, struct known_where *where)
{
	uint64_t position = listing->place & ((1ull << LSMEM_POSITION_BITS) - 1);

	*where = (struct known_where){
		.seglet = (uint32_t)(position >> LSMEM_POSITION_OFFSET_BITS),
		.offset = (uint32_t)(position & ((1u << LSMEM_POSITION_OFFSET_BITS) - 1)) * LSMEM_ALIGN,
		.cache = (uint32_t)(listing->place >> LSMEM_PLACE_CACHE_SHIFT),
	};
	return listing->place != AHEAD_COLD && where->seglet < seglets && known_is_object(listing);
}

/**
 * known_resalt - make the CRC of an entry from a cache segment that which it has on a backup
 * @known: what is known
 * @listing: known_is() says that it is this entry
 * @e: the entry
 *
 * The salt of its segment is added to a CRC without carry: so a CRC that is right stays so, and one that is wrong.
 */
void known_resalt(const struct known *known, const struct known_listing *listing, struct lsmem_entry *e)
{
	const struct known_segment *seg = &known->segments[listing->segment];
	uint64_t cache = listing->place >> LSMEM_PLACE_CACHE_SHIFT;

	if (cache)
		e->crc ^= __cpu_to_le32(lsmem_segment_salt(known->uuid, LSMEM_SEGMENT_ID_END + cache, 1) ^
					lsmem_segment_salt(known->uuid, seg->id, seg->generation));
}

static bool told_segment(void *context, uint32_t number, uint64_t id, uint32_t generation, uint32_t length, uint32_t *count)
{
	struct known *known = context;
	struct known_segment *seg = &known->segments[known_find(known, id)];

	if (seg->id != id || seg->gone || seg->generation != generation || seg->end != length)
		return false;
	seg->number = number;
	*count = seg->objects;
	return true;
}

static bool told_listing(void *context, uint64_t index, struct lsmem_directory_entry *entry, uint32_t *number)
{
	const struct known *known = context;
	struct known_listing listing;
	uint64_t segment;

	if (!known_listing(known, index, &listing, &segment))
		return false;
	*entry = (struct lsmem_directory_entry){
		__cpu_to_le64(lsmem_handle_make(index, listing.generation)),
		__cpu_to_le64(listing.version),
		__cpu_to_le64(listing.meta),
	};
	*number = known->segments[listing.segment].number;
	return true;
}

/**
 * known_told - let a recovery take what is known
 * @known: all blocks of a connection up to READY; must stay until recover_run() has returned
 * @term: of READY
 * @sequence: of READY: that of the digest
 * @objects: of READY
 * @told: out, for struct recover_options
 */
void known_told(struct known *known, uint64_t term, uint64_t sequence, uint64_t objects, struct recover_told *told)
{
	*told = (struct recover_told){
		.context = known,
		.term = term,
		.sequence = sequence,
		.segments = known->there,
		.objects = known->objects,
		.expected = objects,
		.segment = told_segment,
		.listing = told_listing,
	};
}
