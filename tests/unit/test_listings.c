// SPDX-License-Identifier: GPL-2.0
/* The listings of a segment from the bytes of a replica: daemon/move/listings.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "move/listings.h"
#include "../common/random.h"
#include "../common/tap.h"

#define SEGMENT		7u
#define GENERATION	3u
#define INDICES		5000u
#define BARRIER		6u

static struct lsmem_super super = { .uuid = "a store" };

/**
 * struct frame - a closed segment on a backup
 * @bytes: of it
 * @length: of its log data
 * @listings: that are wanted
 * @nr: number of them
 */
static struct frame {
	_Alignas(8) uint8_t bytes[LSMEM_SEGMENT_BYTES];
	uint32_t length, nr;
	struct lsmem_listing listings[LISTINGS_MAX];
} frame;

static struct lsmem_listing made[LISTINGS_MAX];

static struct listings listings(bool closed)
{
	return (struct listings){
		.super = &super, .indices = INDICES, .segment = SEGMENT, .generation = GENERATION,
		.length = frame.length, .closed = closed,
	};
}

/* Add an entry. Returns false: the segment is full. */
static bool add(uint32_t type, uint32_t length, uint64_t index, uint64_t version)
{
	uint32_t home = lsmem_entry_start(frame.length), i;
	uint64_t value = type == LSMEM_TYPE_TOMBSTONE ? BARRIER : length;
	struct lsmem_entry e = lsmem_entry_make(type, value, lsmem_handle_make(index, 5), version, 2, 1, home);
	struct lsmem_directory_entry listing = lsmem_entry_listing(&e, home);
	uint8_t *at = frame.bytes + LSMEM_BLOCK + home;

	if (!lsmem_segment_fits(home + lsmem_entry_bytes(&e), frame.nr + 1))
		return false;
	for (i = 0; i < length; i++)
		at[lsmem_entry_header(&e) + i] = (uint8_t)(version + i);
	e.crc = __cpu_to_le32(lsmem_entry_crc(&e, lsmem_crc32c(~0u, at + lsmem_entry_header(&e), length),
					      lsmem_segment_salt(super.uuid, SEGMENT, GENERATION)));
	memcpy(at, &e, lsmem_entry_header(&e));
	frame.length = home + lsmem_entry_bytes(&e);
	if (type == LSMEM_TYPE_OBJECT || type == LSMEM_TYPE_TOMBSTONE)
		frame.listings[frame.nr++] = (struct lsmem_listing){
			listing.key, listing.version, listing.meta,
			__cpu_to_le64(LSMEM_PLACE_NONE),
		};
	return true;
}

/* Directory and footer, as core/close.c makes them. */
static void closes(void)
{
	struct lsmem_segment_footer *footer = (void *)(frame.bytes + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK);
	struct lsmem_directory_entry *directory = (void *)((uint8_t *)footer - lsmem_directory_bytes(frame.nr));
	uint32_t i;

	for (i = 0; i < frame.nr; i++)
		directory[i] = (struct lsmem_directory_entry){
			frame.listings[i].key, frame.listings[i].version, frame.listings[i].meta,
		};
	*footer = (struct lsmem_segment_footer){
		.magic = __cpu_to_le64(LSMEM_FOOTER_MAGIC), .format = __cpu_to_le32(LSMEM_FORMAT),
		.segment = __cpu_to_le64(SEGMENT), .generation = __cpu_to_le32(GENERATION),
		.length = __cpu_to_le32(frame.length), .entries = __cpu_to_le32(frame.nr),
		.directory_crc = __cpu_to_le32(lsmem_crc32c(~0u, directory, frame.nr * sizeof(*directory))),
	};
	memcpy(footer->uuid, super.uuid, sizeof(footer->uuid));
	format_footer_seal(footer);
}

/* Objects, tombstones and commit records of random lengths, below @most; at most @nr. */
static void fill(uint64_t random, uint32_t most, uint32_t nr)
{
	memset(&frame, 0, sizeof(frame));
	while (nr--) {
		uint32_t what = random_below(&random, 10);
		uint32_t type = what < 7 ? LSMEM_TYPE_OBJECT : what < 9 ? LSMEM_TYPE_TOMBSTONE : LSMEM_TYPE_COMMIT;
		uint32_t length = type == LSMEM_TYPE_OBJECT ? 1 + random_below(&random, most) : 0;

		if (!add(type, length, random_below(&random, INDICES), 1 + nr))
			break;
	}
	closes();
}

/* The range is copied, so that ASan sees a read outside. */
static int make(const struct listings *l)
{
	uint32_t from, to;
	uint8_t *copy;
	int ret;

	listings_range(l, &from, &to);
	copy = malloc(to - from + 1);
	memcpy(copy, frame.bytes + from, to - from);
	ret = listings_make(l, copy, made);
	free(copy);
	return ret;
}

static bool wanted(void)
{
	return !memcmp(frame.listings, made, frame.nr * sizeof(made[0]));
}

static bool test_made(void)
{
	static const struct { uint32_t most, nr; } kinds[] = {
		{ 100, 50 }, { 1, UINT32_MAX }, { 3000, UINT32_MAX }, { 100000, UINT32_MAX }, { 1, 0 },
	};
	struct listings l;
	uint32_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		fill(i, kinds[i].most, kinds[i].nr);
		l = listings(true);
		CHECK(make(&l) == (int)frame.nr && wanted());
		memset(made, 0, sizeof(made));
		l = listings(false);
		CHECK(make(&l) == (int)frame.nr && wanted());
	}
	return true;
}

/* What is not of the segment, or damaged, is refused. */
static bool test_refused(void)
{
	struct listings l;
	uint32_t kind;

	for (kind = 0; kind < 2; kind++) {
		fill(9, 1000, 2000);
		l = listings(!kind);
		CHECK(make(&l) == (int)frame.nr);
		l.segment++;
		CHECK(make(&l) == -EBADMSG);
		l = listings(!kind);
		l.generation++;
		CHECK(make(&l) == -EBADMSG);
		l = listings(!kind);
		l.indices = 100;
		CHECK(make(&l) == -EBADMSG);
		l = listings(!kind);
		l.length -= LSMEM_ALIGN;
		CHECK(make(&l) == -EBADMSG);
		l.length += LSMEM_ALIGN + LSMEM_LONG_BYTES;
		CHECK(make(&l) == -EBADMSG);
		l = listings(!kind);
		frame.bytes[kind ? LSMEM_BLOCK + frame.length / 2 :
			    LSMEM_SEGMENT_BYTES - LSMEM_BLOCK - lsmem_directory_bytes(frame.nr) + 100] ^= 4;
		CHECK(make(&l) == -EBADMSG);
	}
	return true;
}

int main(void)
{
	tap_ok(test_made(), "listings from a directory, and from the entries");
	tap_ok(test_refused(), "what is not of the segment, or damaged, is refused");
	return tap_end();
}
