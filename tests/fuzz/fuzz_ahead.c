// SPDX-License-Identifier: GPL-2.0
/*
 * Any blocks of what the source of a migration tells its target. Input: blocks, each
 *
 *	byte 0	bit 0: make magic, uuid, term and sequence valid; bit 1: make the length valid; bit 2:
 *		make the number of records valid; bit 3: make the CRC valid; bit 4: place words after it
 *	byte 1	length of the bytes that follow, in units of 8
 *
 * A block that is accepted keeps what ahead.h says, and each record lies within it. What the target knows of the accepted
 * blocks (known.h) is of segments that are there. Words are placed of it (placing.h) so that the kernel has no reason to refuse them,
 * but for a segment that shrinks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lsmem.h"
#include "move/placing.h"
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

/* The kernel: of each index the segment in which it is placed, or 0; of some segments how long they are. */
static struct kernel {
	uint64_t words[INDICES];
	struct { uint64_t id; uint32_t home, placed; } segments[MOST];
} kernel;

static int place(void *context, struct lsmem_placement *p)
{
	const struct lsmem_directory_entry *entries = (const void *)(uintptr_t)p->entries;
	bool back = p->flags & LSMEM_PLACEMENT_BACK, gone = p->flags & LSMEM_PLACEMENT_GONE;
	uint32_t nr = 0, i;

	(void)context;
	while (nr < MOST && kernel.segments[nr].id != p->segment)
		nr++;
	if (nr == MOST && (back || gone))
		fuzz_fail("a segment that is not there");
	if (nr == MOST)
		for (nr = 0; nr < MOST && kernel.segments[nr].id;)
			nr++;
	if (nr == MOST)
		return -ENOSPC;
	if (p->sealed < kernel.segments[nr].home)
		return -EINVAL;
	kernel.segments[nr].id = p->segment;
	kernel.segments[nr].home = p->sealed;
	for (i = 0; i < p->nr; i++) {
		uint64_t index = lsmem_handle_index(__le64_to_cpu(entries[i].key)), meta = __le64_to_cpu(entries[i].meta);

		if (kernel.words[index] != (back ? p->segment : 0) || LSMEM_LISTING_GET(meta, TYPE) != LSMEM_TYPE_OBJECT)
			fuzz_fail("index %ju is placed twice, or taken back", (uintmax_t)index);
		kernel.words[index] = back ? 0 : p->segment;
		kernel.segments[nr].placed += back ? -1 : 1;
	}
	if (gone && kernel.segments[nr].placed)
		fuzz_fail("a segment is gone, and something of it is placed");
	if (gone)
		memset(&kernel.segments[nr], 0, sizeof(kernel.segments[nr]));
	return 0;
}

static const struct placing_user user = { .place = place };

/* In the end the kernel has the objects that count. */
static void check_placed(struct known *known, struct placing *placing)
{
	struct known_listing listing;
	uint64_t index, segment;

	if (placing_finish(placing))
		return;
	for (index = 0; index < INDICES; index++) {
		bool counts = known_listing(known, index, &listing, &segment) &&
			      LSMEM_LISTING_GET(listing.meta, TYPE) == LSMEM_TYPE_OBJECT;

		if (kernel.words[index] != (counts ? segment : 0))
			fuzz_fail("index %ju is not placed as it was told", (uintmax_t)index);
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
	static const uint32_t records[AHEAD_KINDS] = { 1, sizeof(struct ahead_listing), sizeof(__le64), 1, 1 };
	struct known *known = known_new(INDICES, MOST);
	struct placing *placing = placing_new(known, &user, NULL);
	bool whole = true;

	memset(&kernel, 0, sizeof(kernel));
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
		if (whole && flags & 16)
			(void)placing_run(placing, 20);
		free(block);
	}
	if (whole)
		check_placed(known, placing);
	placing_free(placing);
	known_free(known);
	return 0;
}
