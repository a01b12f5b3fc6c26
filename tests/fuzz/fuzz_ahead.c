// SPDX-License-Identifier: GPL-2.0
/*
 * Any blocks of what the source of a migration tells its target. Input: blocks, each
 *
 *	byte 0	bit 0: make magic, uuid, term and sequence valid; bit 1: make the length valid; bit 2:
 *		make the number of records valid; bit 3: make the CRC valid
 *	byte 1	length of the bytes that follow, in units of 8
 *
 * A block that is accepted keeps what ahead.h says, and each record lies within it. What the target knows of the accepted
 * blocks (known.h) is of segments that are there.
 */
#include <stdlib.h>
#include <string.h>

#include "lsmem.h"
#include "move/known.h"
#include "remote/ahead.h"
#include "image.h"

#define INDICES	1000u
#define SEGLETS	16u
#define MOST	4u	/* segments of a log */

static void check_listings(const struct ahead_head *block)
{
	const struct ahead_listing *listing = ahead_listings(block);
	uint32_t i, end = 0;

	for (i = 0; i < __le32_to_cpu(block->nr); i++, listing++) {
		uint64_t meta = __le64_to_cpu(listing->entry.meta), key = __le64_to_cpu(listing->entry.key);
		uint64_t place = __le64_to_cpu(listing->place), position = place & ((1ull << LSMEM_POSITION_BITS) - 1);
		uint32_t length = LSMEM_LISTING_GET(meta, LENGTH), home = LSMEM_LISTING_GET(meta, HOME) * LSMEM_ALIGN;

		if (lsmem_handle_index(key) >= INDICES || !lsmem_handle_generation(key))
			fuzz_fail("handle %#jx", (uintmax_t)key);
		if (home < end || length > LSMEM_OBJECT_MAX)
			fuzz_fail("entries overlap");
		end = home + lsmem_entry_size(length);
		if (end > __le32_to_cpu(block->end) || end > LSMEM_SEGMENT_BYTES)
			fuzz_fail("an entry outside its segment");
		if (length && place != AHEAD_COLD && position * LSMEM_ALIGN + lsmem_header_bytes(length) >
		    (uint64_t)SEGLETS * LSMEM_SEGLET_BYTES)
			fuzz_fail("an object outside the source's memory");
	}
}

static void check_known(const struct known *known)
{
	struct known_listing listing;
	uint64_t index, segment;

	if (known_segments(known) > MOST)
		fuzz_fail("%u segments", known_segments(known));
	for (index = 0; index < INDICES; index++)
		if (known_listing(known, index, &listing, &segment) && (!segment || !known_segments(known)))
			fuzz_fail("a listing of no segment");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ahead_stream stream = {
		.uuid = "fuzz", .term = 1, .sequence = 1, .indices = INDICES, .seglets = SEGLETS,
		.cached = true,
	};
	static const uint32_t records[AHEAD_KINDS] = { 1, sizeof(struct ahead_listing), sizeof(__le64), 1 };
	struct known *known = known_new(INDICES, MOST);
	bool whole = true;

	while (size >= 2) {
		uint8_t flags = data[0];
		size_t length = 8u * data[1];
		struct ahead_head *block;

		data += 2;
		size -= 2;
		if (length > size)
			length = size;
		block = malloc(length ? length : 1);
		memcpy(block, data, length);
		data += length;
		size -= length;
		if (length >= sizeof(*block)) {
			uint32_t kind = __le32_to_cpu(block->kind);

			if (flags & 1) {
				block->magic = __cpu_to_le32(AHEAD_MAGIC);
				memcpy(block->uuid, stream.uuid, sizeof(block->uuid));
				block->term = __cpu_to_le64(stream.term);
				block->sequence = __cpu_to_le64(stream.sequence);
			}
			if (flags & 2)
				block->length = __cpu_to_le32((uint32_t)length);
			if (flags & 4 && kind < AHEAD_KINDS)
				block->nr = __cpu_to_le32((uint32_t)(length - sizeof(*block)) / records[kind]);
			if (flags & 8)
				block->crc = __cpu_to_le32(lsmem_crc32c(~0u, (uint8_t *)block + 8, length - 8));
		}
		if (ahead_check(&stream, block, length)) {
			free(block);
			continue;
		}
		if (__le32_to_cpu(block->kind) == AHEAD_LISTINGS) {
			if (length != sizeof(*block) + __le32_to_cpu(block->nr) * sizeof(struct ahead_listing))
				fuzz_fail("%u records in %zu bytes", __le32_to_cpu(block->nr), length);
			check_listings(block);
		}
		if (whole)
			whole = !known_block(known, block);	/* after an error nothing is known */
		if (whole)
			check_known(known);
		free(block);
	}
	known_free(known);
	return 0;
}
