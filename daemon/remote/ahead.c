// SPDX-License-Identifier: GPL-2.0
/* What the source of a migration tells its target: see ahead.h. Nothing here does I/O or allocates. */
#include <string.h>

#include "ahead.h"
#include "format/format.h"
#include "lsmem.h"

static const size_t record_bytes[AHEAD_KINDS] = {
	[AHEAD_LISTINGS] = sizeof(struct ahead_listing),
	[AHEAD_GONE] = sizeof(__le64),
};

static uint32_t ahead_crc(const struct ahead_head *block, size_t length)
{
	size_t from = offsetof(struct ahead_head, crc) + sizeof(block->crc);

	return lsmem_crc32c(~0u, (const uint8_t *)block + from, length - from);
}

/* ---- The source -------------------------------------------------------- */

/**
 * ahead_begin - begin a block
 * @block: AHEAD_BYTES of room, aligned to 8
 * @kind: AHEAD_GONE or AHEAD_MARK
 */
void ahead_begin(struct ahead_head *block, enum ahead_kind kind)
{
	*block = (struct ahead_head){
		.magic = __cpu_to_le32(AHEAD_MAGIC),
		.length = __cpu_to_le32(sizeof(*block)),
		.kind = __cpu_to_le32(kind),
	};
}

/**
 * ahead_begin_segment - begin a block of listings
 * @block: AHEAD_BYTES of room, aligned to 8
 * @segment: id, below LSMEM_SEGMENT_ID_END
 * @generation: of the segment
 * @end: bytes of log data that the segment has, at home, at most LSMEM_SEGMENT_BYTES
 */
void ahead_begin_segment(struct ahead_head *block, uint64_t segment, uint32_t generation, uint32_t end)
{
	ahead_begin(block, AHEAD_LISTINGS);
	block->segment = __cpu_to_le64(segment);
	block->generation = __cpu_to_le32(generation);
	block->end = __cpu_to_le32(end);
}

/* Append a record. Return: false: there is no room. */
static bool ahead_add(struct ahead_head *block, const void *record, size_t bytes)
{
	uint32_t length = __le32_to_cpu(block->length);

	if (AHEAD_BYTES - length < bytes)
		return false;
	memcpy((uint8_t *)block + length, record, bytes);
	block->length = __cpu_to_le32(length + (uint32_t)bytes);
	block->nr = __cpu_to_le32(__le32_to_cpu(block->nr) + 1);
	return true;
}

/**
 * ahead_add_listing - add an entry
 * @block: of listings
 * @entry: behind the one that was added before, by its home offset
 * @place: see struct ahead_listing
 *
 * Return: false: the block is full; seal it and begin another one.
 */
bool ahead_add_listing(struct ahead_head *block, const struct lsmem_directory_entry *entry, uint64_t place)
{
	struct ahead_listing listing = { *entry, __cpu_to_le64(place) };

	return ahead_add(block, &listing, sizeof(listing));
}

/**
 * ahead_added - take listings that have been written into the block
 * @block: of listings, begun, without records
 * @nr: how many there are at ahead_room(), at most AHEAD_ROOM
 */
void ahead_added(struct ahead_head *block, uint32_t nr)
{
	block->nr = __cpu_to_le32(nr);
	block->length = __cpu_to_le32(sizeof(*block) + nr * sizeof(struct ahead_listing));
}

/**
 * ahead_add_gone - add a retired segment
 * @block: AHEAD_GONE
 * @segment: id, above the one that was added before
 *
 * Return: false: the block is full; seal it and begin another one.
 */
bool ahead_add_gone(struct ahead_head *block, uint64_t segment)
{
	__le64 id = __cpu_to_le64(segment);

	return ahead_add(block, &id, sizeof(id));
}

/**
 * ahead_seal - complete a block
 * @stream: of the connection; its sequence number grows by one
 * @block: begun, with all its records
 *
 * Return: bytes of the block.
 */
size_t ahead_seal(struct ahead_stream *stream, struct ahead_head *block)
{
	uint32_t length = __le32_to_cpu(block->length);

	memcpy(block->uuid, stream->uuid, sizeof(block->uuid));
	block->term = __cpu_to_le64(stream->term);
	block->sequence = __cpu_to_le64(stream->sequence++);
	block->crc = __cpu_to_le32(ahead_crc(block, length));
	return length;
}

/* ---- The target -------------------------------------------------------- */

/* Is @place a position of a header in the source's memory, in a cache segment or not?  @length: of the payload. */
static bool ahead_is_position(const struct ahead_stream *stream, uint64_t place, uint32_t length)
{
	uint32_t offset = (uint32_t)(place & ((1u << LSMEM_POSITION_OFFSET_BITS) - 1)) * LSMEM_ALIGN;

	if (place >> (LSMEM_PLACE_CACHE_SHIFT + LSMEM_PLACE_CACHE_BITS) || (place >> LSMEM_PLACE_CACHE_SHIFT && !stream->cached))
		return false;
	place &= (1ull << LSMEM_POSITION_BITS) - 1;
	return place >> LSMEM_POSITION_OFFSET_BITS < stream->seglets &&
	       offset + lsmem_header_bytes(length) <= LSMEM_SEGLET_BYTES;
}

static const char *ahead_check_listings(const struct ahead_stream *stream, const struct ahead_head *block)
{
	const struct ahead_listing *listing = ahead_listings(block);
	uint32_t length = __le32_to_cpu(block->end), end = 0, i;

	if (__le64_to_cpu(block->segment) >= LSMEM_SEGMENT_ID_END || !__le64_to_cpu(block->segment) ||
	    length > LSMEM_SEGMENT_BYTES || length % LSMEM_ALIGN)
		return "a segment that cannot be";
	for (i = 0; i < __le32_to_cpu(block->nr); i++, listing++) {
		uint64_t place = __le64_to_cpu(listing->place);
		uint32_t bytes = LSMEM_LISTING_GET(__le64_to_cpu(listing->entry.meta), LENGTH);

		if (format_listing_check(&listing->entry, length, stream->indices, &end) ||
		    !lsmem_handle_generation(__le64_to_cpu(listing->entry.key)))
			return "an entry that cannot be there";
		if (bytes ? place != AHEAD_COLD && !ahead_is_position(stream, place, bytes) :
		    place >= LSMEM_SEGMENT_ID_END)
			return "an entry's place is outside the source's memory, or a barrier above all segments";
	}
	return NULL;
}

static const char *ahead_check_gone(const struct ahead_head *block)
{
	const __le64 *ids = ahead_gone(block);
	uint64_t before = 0;
	uint32_t i;

	for (i = 0; i < __le32_to_cpu(block->nr); i++) {
		uint64_t id = __le64_to_cpu(ids[i]);

		if (id <= before || id >= LSMEM_SEGMENT_ID_END)
			return "segments out of order, or one that cannot be";
		before = id;
	}
	return NULL;
}

/**
 * ahead_check - is a block the next one of its connection, and valid?
 * @stream: of the connection; if the block is valid, its sequence number grows by one
 * @block: unchecked, @length bytes, aligned to 8, in memory that the source cannot write to
 * @length: bytes that were read
 *
 * After an invalid block nothing of the connection can be trusted: the caller ends it.
 *
 * Return: NULL, or what is wrong.
 */
const char *ahead_check(struct ahead_stream *stream, const struct ahead_head *block, size_t length)
{
	const char *wrong = NULL;
	uint32_t kind;

	if (length < sizeof(*block) || length > AHEAD_BYTES || __le32_to_cpu(block->magic) != AHEAD_MAGIC)
		return "no block";
	if (__le32_to_cpu(block->length) != length || __le32_to_cpu(block->crc) != ahead_crc(block, length))
		return "damaged, or of another length";
	if (memcmp(block->uuid, stream->uuid, sizeof(block->uuid)) ||
	    __le64_to_cpu(block->term) != stream->term)
		return "of another store or term";
	if (__le64_to_cpu(block->sequence) != stream->sequence)
		return "a block is missing, or comes again";
	kind = __le32_to_cpu(block->kind);
	if (!kind || kind >= AHEAD_KINDS)
		return "of an unknown kind";
	if ((uint64_t)__le32_to_cpu(block->nr) * record_bytes[kind] != length - sizeof(*block) ||
	    (!record_bytes[kind] && block->nr))
		return "of a length that its records do not have";
	if (block->zero || (kind != AHEAD_LISTINGS && (block->segment || block->generation || block->end)))
		return "a reserved field is not zero";
	if (kind == AHEAD_LISTINGS)
		wrong = ahead_check_listings(stream, block);
	else if (kind == AHEAD_GONE)
		wrong = ahead_check_gone(block);
	if (!wrong)
		stream->sequence++;
	return wrong;
}
