// SPDX-License-Identifier: GPL-2.0
/* What the target of a migration knows, block by block: daemon/move/known.h. test_tell.c has it at the end of a source. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "lsmem.h"
#include "move/known.h"
#include "../common/random.h"
#include "../common/tap.h"

#define INDICES	10000u
#define END	(1u << 20)

static union {
	struct ahead_head head;
	uint8_t bytes[AHEAD_BYTES];
} block;

static struct known *known;

static void begin(uint32_t most)
{
	known_free(known);
	known = known_new(INDICES, most);
}

static struct lsmem_directory_entry entry(uint64_t index, uint32_t generation, uint64_t version, uint32_t length,
					  uint32_t home)
{
	return (struct lsmem_directory_entry){
		__cpu_to_le64(lsmem_handle_make(index, generation)), __cpu_to_le64(version),
		__cpu_to_le64(lsmem_listing_make(length, length ? LSMEM_TYPE_OBJECT : LSMEM_TYPE_TOMBSTONE, home, 1, 0)),
	};
}

/* Tell one listing. */
static int tell(uint64_t segment, uint64_t index, uint32_t generation, uint64_t version, uint32_t length, uint64_t place)
{
	struct lsmem_directory_entry e = entry(index, generation, version, length, 64);

	ahead_begin_segment(&block.head, segment, 1, END);
	(void)ahead_add_listing(&block.head, &e, place);
	return known_block(known, &block.head);
}

static int tell_gone(uint64_t segment)
{
	ahead_begin(&block.head, AHEAD_GONE);
	(void)ahead_add_gone(&block.head, segment);
	return known_block(known, &block.head);
}

/* Does this count for an index? @segment 0: nothing does. */
static bool counts(uint64_t index, uint64_t segment, uint64_t version, uint64_t place)
{
	struct known_listing listing;
	uint64_t of;

	if (!known_listing(known, index, &listing, &of))
		return !segment;
	return of == segment && listing.version == version && listing.place == place;
}

/* The higher generation, then the higher version, then the later one; none of a segment that is gone. */
static bool listings_have_an_order(void)
{
	begin(100);
	CHECK(counts(7, 0, 0, 0));
	CHECK(!tell(1, 7, 2, 50, 100, 8) && counts(7, 1, 50, 8));
	CHECK(!tell(2, 7, 2, 49, 100, 9) && counts(7, 1, 50, 8));
	CHECK(!tell(2, 7, 1, 60, 100, 9) && counts(7, 1, 50, 8));
	CHECK(!tell(1, 7, 2, 50, 100, 10) && counts(7, 1, 50, 10));	/* compacted */
	CHECK(!tell(2, 7, 2, 50, 100, 11) && counts(7, 2, 50, 11));	/* moved */
	CHECK(known_objects(known) == 1);
	CHECK(!tell(3, 7, 2, 51, 0, 3) && counts(7, 3, 51, 3));		/* deleted */
	CHECK(!known_objects(known));
	CHECK(!tell(4, 7, 3, 20, 100, 12) && counts(7, 4, 20, 12));	/* a new object */
	CHECK(known_segments(known) == 4 && counts(8, 0, 0, 0));
	CHECK(!tell_gone(3) && counts(7, 4, 20, 12) && known_objects(known) == 1);
	CHECK(!tell_gone(4) && counts(7, 0, 0, 0) && known_segments(known) == 2 && !known_objects(known));
	/* It does not count, and nothing that counted less does. */
	CHECK(!tell(1, 7, 2, 50, 100, 10) && counts(7, 0, 0, 0) && !known_objects(known));
	CHECK(!tell(5, 7, 3, 20, 100, 13) && counts(7, 5, 20, 13) && known_objects(known) == 1);	/* the survivor */
	CHECK(!tell_gone(4) && !tell_gone(99) && known_segments(known) == 3);
	ahead_begin(&block.head, AHEAD_MARK);
	CHECK(!known_block(known, &block.head) && counts(7, 5, 20, 13));
	return true;
}

/* A segment without listings is one of the log. */
static bool segments_are_told(void)
{
	struct recover_told told;
	uint32_t count;

	begin(100);
	ahead_begin_segment(&block.head, 6, 3, 4096);
	CHECK(!known_block(known, &block.head) && known_segments(known) == 1);
	ahead_begin_segment(&block.head, 6, 3, 8192);
	CHECK(!known_block(known, &block.head) && known_segments(known) == 1);
	known_told(known, 1, 1, 0, &told);
	CHECK(told.segment(known, 0, 6, 3, 8192, &count) && !told.segment(known, 0, 6, 3, 4096, &count));
	CHECK(!tell_gone(6) && !known_segments(known) && !told.segment(known, 0, 6, 3, 8192, &count));
	return true;
}

static bool contradictions_are_refused(void)
{
	begin(2);
	CHECK(!tell(1, 7, 2, 50, 100, 8));
	CHECK(tell(2, 7, 2, 50, 101, 8) == -EPROTO);	/* another length */
	begin(2);
	CHECK(!tell(1, 7, 2, 50, 100, 8));
	CHECK(tell(2, 7, 2, 50, 0, 8) == -EPROTO);	/* a tombstone */
	begin(2);
	CHECK(!tell(1, 7, 2, 50, 100, 8) && !tell_gone(1));
	CHECK(tell(1, 8, 2, 50, 100, 8) == -EPROTO);	/* it is gone */
	begin(2);
	CHECK(!tell(1, 7, 2, 50, 100, 8));
	ahead_begin_segment(&block.head, 1, 2, END);
	CHECK(known_block(known, &block.head) == -EPROTO);	/* another generation */
	begin(2);
	CHECK(!tell(1, 7, 2, 50, 100, 8) && !tell(2, 8, 2, 50, 100, 8) && !tell_gone(1));
	CHECK(!tell(3, 9, 2, 50, 100, 8) && tell(4, 9, 2, 50, 100, 8) == -EPROTO);	/* more than there can be */
	return true;
}

/*
 * Objects that are written and deleted for ever, each deletion's tombstone dropped: what is gone takes no more room than
 * its bound, and what counts is not touched.
 */
static bool gone_takes_no_room(void)
{
	uint64_t segment = 1, i;

	begin(3000);
	for (i = 0; i < 2000; i++)
		CHECK(!tell(segment++, i, 1, 100, 64, i));
	for (i = 0; i < 2 * KNOWN_GONE + 200; i++) {
		uint64_t index = 2000 + i % (INDICES - 2000);

		CHECK(!tell(segment, index, 1 + (uint32_t)(i / (INDICES - 2000)), 100 + i, 64, 8));
		CHECK(!tell_gone(segment++) && counts(index, 0, 0, 0));
		CHECK(known_segments(known) == 2000 && known_objects(known) == 2000);
	}
	CHECK(known_room(known) <= 2 * (3000 + KNOWN_GONE));
	for (i = 0; i < 2000; i++)
		CHECK(counts(i, i + 1, 100, i));
	CHECK(!tell(1, 0, 1, 100, 64, 9) && !tell(2000, 1, 1, 100, 64, 9) && known_segments(known) == 2000);
	return true;
}

/* A segment that is gone is forgotten with its last listing. */
static bool gone_is_forgotten(void)
{
	uint32_t room, i;

	begin(10);
	room = known_room(known);
	for (i = 1; i < 4000; i++) {
		CHECK(!tell(i, 7, 1, i, 64, 8) && counts(7, i, i, 8));
		CHECK(!tell_gone(i) && !known_segments(known));
	}
	CHECK(known_room(known) == room);
	return true;
}

/* Random blocks of many segments, against a table of all that was told. */
static bool random_blocks(uint64_t random)
{
	static struct { uint64_t segment, version, place; uint32_t generation; } best[INDICES];
	static bool gone[3000];
	uint64_t step, index, objects = 0;

	begin(3000);
	memset(best, 0, sizeof(best));
	memset(gone, 0, sizeof(gone));
	for (step = 0; step < 30000; step++) {
		uint64_t segment = 1 + random_below(&random, 2999), version = 1 + random_below(&random, 20);
		uint32_t generation = 1 + random_below(&random, 3);

		index = random_below(&random, 1000);
		if (random_chance(&random, 5)) {
			CHECK(!tell_gone(segment));
			gone[segment] = true;
		}
		if (gone[segment])
			continue;
		CHECK(!tell(segment, index, generation, version, version % 4 ? 40 : 0, step));	/* or a tombstone */
		if (best[index].segment && (best[index].generation > generation ||
		    (best[index].generation == generation && best[index].version > version)))
			continue;
		best[index].segment = segment;
		best[index].generation = generation;
		best[index].version = version;
		best[index].place = step;
	}
	for (index = 0; index < INDICES; index++) {
		CHECK(counts(index, gone[best[index].segment] ? 0 : best[index].segment, best[index].version,
			     best[index].place));
		objects += best[index].segment && !gone[best[index].segment] && best[index].version % 4;
	}
	CHECK(known_objects(known) == objects);
	return true;
}

int main(void)
{
	uint64_t seed;
	bool good = true;

	tap_ok(listings_have_an_order(), "generation, version, the later one; none of a segment that is gone");
	tap_ok(segments_are_told(), "a segment without listings is one of the log");
	tap_ok(contradictions_are_refused(), "contradictions, and more segments than there can be, are refused");
	tap_ok(gone_takes_no_room(), "what is gone takes a bounded room");
	tap_ok(gone_is_forgotten(), "a segment that is gone is forgotten with its last listing");
	for (seed = 1; seed <= 20 && good; seed++)
		good = random_blocks(seed);
	tap_ok(good, "random blocks");
	known_free(known);
	return tap_end();
}
