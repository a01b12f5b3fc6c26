// SPDX-License-Identifier: GPL-2.0
/*
 * Words that a target places ahead (daemon/move/placing.h): whatever is told, and in whichever order, in the end the kernel has
 * the objects that count, and no others.
 *
 *	build/test_placing [--seed N]
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "lsmem.h"
#include "placed.h"
#include "../common/random.h"
#include "../common/tap.h"

#define INDICES		PLACED_INDICES
#define SEGMENTS	400u
#define MOST		100000u
#define GROWS		(64u << 10)

static union {
	struct ahead_head head;
	uint8_t bytes[AHEAD_BYTES];
} block;

static struct placed kernel;
static struct known *known;
static struct placing *placing;

/* What the source tells next is any of the following, but always something that a source can tell. */
static struct source {
	uint64_t random;
	struct { uint64_t version; uint32_t generation; bool live; } objects[INDICES];
	bool gone[SEGMENTS + 1];
	uint32_t end[SEGMENTS + 1];
	uint64_t open;
} source;

static void begin(uint64_t seed, uint32_t room)
{
	placing_free(placing);
	known_free(known);
	placed_begin(&kernel, room);
	memset(&source, 0, sizeof(source));
	source.random = seed;
	source.open = 1;
	known = known_new(INDICES, SEGMENTS);
	placing = placing_new(known, &placed_user, &kernel);
}

/* An entry at the end of the open segment. Length and place follow from index, version and segment, as they would. */
static bool tell(uint64_t index, bool object)
{
	uint64_t segment = source.open;
	uint32_t length = object ? 40 + (uint32_t)(index + source.objects[index].version) % 200 : 0;
	uint32_t home = source.end[segment];
	struct lsmem_directory_entry e = {
		__cpu_to_le64(lsmem_handle_make(index, source.objects[index].generation)),
		__cpu_to_le64(source.objects[index].version),
		__cpu_to_le64(lsmem_listing_make(length, object ? LSMEM_TYPE_OBJECT : LSMEM_TYPE_TOMBSTONE, home, 1, 0)),
	};

	source.end[segment] += lsmem_entry_size(length);
	ahead_begin_segment(&block.head, segment, 1, source.end[segment]);
	(void)ahead_add_listing(&block.head, &e, random_below(&source.random, 1u << 20));
	return !known_block(known, &block.head);
}

/* The same listings again, of a segment that was compacted: only their places are others. */
static bool tell_again(uint64_t segment)
{
	struct known_listing listing;
	uint64_t index, of;

	ahead_begin_segment(&block.head, segment, 1, source.end[segment]);
	for (index = 0; index < INDICES; index++) {
		struct lsmem_directory_entry e;

		if (!known_listing(known, index, &listing, &of) || of != segment)
			continue;
		e = (struct lsmem_directory_entry){
			__cpu_to_le64(lsmem_handle_make(index, listing.generation)),
			__cpu_to_le64(listing.version), __cpu_to_le64(listing.meta),
		};
		if (ahead_add_listing(&block.head, &e, 7))
			break;
	}
	return !known_block(known, &block.head);
}

static bool tell_gone(uint64_t segment)
{
	source.gone[segment] = true;
	ahead_begin(&block.head, AHEAD_GONE);
	(void)ahead_add_gone(&block.head, segment);
	return !known_block(known, &block.head);
}

static uint64_t any_segment(void)
{
	return 1 + random_below(&source.random, source.open);
}

/* What happens next. */
static bool tells(void)
{
	uint64_t index = random_below(&source.random, INDICES), segment;

	if (source.end[source.open] > GROWS || random_chance(&source.random, 1)) {
		for (segment = source.open + 1; segment < SEGMENTS && random_chance(&source.random, 20);)
			segment++;
		if (segment <= SEGMENTS)
			source.open = segment;
	}
	switch (random_below(&source.random, 20)) {
	case 0:
		segment = any_segment();
		if (segment != source.open && !source.gone[segment] && source.end[segment])
			return tell_again(segment);
		return true;
	case 1:
		segment = any_segment();
		if (segment == source.open || source.gone[segment])
			return true;
		return tell_gone(segment);
	case 2:
	case 3:
		if (!source.objects[index].live)
			return true;
		source.objects[index].version++;
		source.objects[index].live = false;
		return tell(index, false);
	case 4:
	case 5:		/* a cleaner moves it */
		return !source.objects[index].live || tell(index, true);
	default:
		if (!source.objects[index].live) {
			source.objects[index].generation++;
			source.objects[index].live = true;
		}
		source.objects[index].version++;
		return tell(index, true);
	}
}

/* The kernel has what counts. */
static bool has_all(void)
{
	uint32_t nr = 0, segments = 0;
	const struct known_segment *seg;
	struct known_listing listing;
	uint64_t index, segment, objects = 0;

	for (index = 0; index < INDICES; index++) {
		bool counts = known_listing(known, index, &listing, &segment) &&
			      LSMEM_LISTING_GET(listing.meta, TYPE) == LSMEM_TYPE_OBJECT;

		CHECK(counts == !!kernel.words[index].segment);
		objects += counts;
		if (counts)
			CHECK(kernel.words[index].segment == segment &&
			      __le64_to_cpu(kernel.words[index].listing.version) == listing.version &&
			      __le64_to_cpu(kernel.words[index].listing.meta) == listing.meta &&
			      kernel.words[index].generation == listing.generation);
	}
	CHECK(objects == known_objects(known));
	while ((seg = known_next_segment(known, &nr))) {
		const struct placed_segment *is = placed_find(&kernel, seg->id);

		CHECK(!is == !seg->objects && (!is || (is->home == seg->end && is->placed == seg->objects)));
		segments += !!is;
	}
	CHECK(segments == kernel.nr && !kernel.wrong);
	return true;
}

/* The tombstones that count, each once. */
static bool has_tombstones(void)
{
	struct recover_told told;
	struct known_listing listing;
	uint64_t index, segment, nr = 0, time;
	uint32_t i, era, generation;

	known_told(known, 1, 1, 0, &told);
	placing_told(placing, &told);
	for (i = 0; told.tombstone(told.placing, i, &index); i++)
		CHECK(known_listing(known, index, &listing, &segment) &&
		      LSMEM_LISTING_GET(listing.meta, TYPE) == LSMEM_TYPE_TOMBSTONE);
	for (index = 0; index < INDICES; index++)
		nr += known_listing(known, index, &listing, &segment) &&
		      LSMEM_LISTING_GET(listing.meta, TYPE) == LSMEM_TYPE_TOMBSTONE;
	CHECK(nr == i);
	told.newest(told.placing, &time, &era, &generation);
	for (index = 0; index < INDICES; index++)
		CHECK(source.objects[index].version <= time && source.objects[index].generation <= generation);
	return true;
}

static bool random_moves(uint64_t seed)
{
	uint32_t steps, i, most;

	begin(seed, SEGMENTS);
	steps = random_below(&source.random, 20000);
	most = random_chance(&source.random, 50) ? 50 : 100000;
	for (i = 0; i < steps; i++) {
		CHECK(tells());
		if (random_chance(&source.random, 5))
			CHECK(!placing_run(placing, most));
		CHECK(!kernel.wrong);
	}
	CHECK(!placing_finish(placing) && has_all() && has_tombstones());
	/* The source goes on, as if READY had not come. */
	for (i = 0; i < 100; i++)
		CHECK(tells());
	CHECK(!placing_finish(placing) && has_all() && has_tombstones());
	return true;
}

/* Nothing is said of what was placed, and told again with another place in memory. */
static bool test_again(void)
{
	uint32_t calls;

	begin(1, SEGMENTS);
	source.objects[5].generation = source.objects[5].version = 1;
	CHECK(tell(5, true) && !placing_run(placing, MOST) && kernel.calls == 2 && kernel.words[5].segment == 1);
	calls = kernel.calls;
	CHECK(tell_again(1) && !placing_waits(placing) && !placing_finish(placing) && kernel.calls == calls && has_all());
	return true;
}

/* Objects are deleted, their tombstones dropped, and the segments are gone. */
static bool test_deleted(void)
{
	uint64_t index;

	begin(1, SEGMENTS);
	for (index = 0; index < 10; index++) {
		source.objects[index].generation = source.objects[index].version = 1;
		source.open = index < 5 ? 1 : 2;
		CHECK(tell(index, true));
	}
	CHECK(!placing_run(placing, MOST) && tell_gone(1) && !placing_run(placing, MOST));
	CHECK(placed_find(&kernel, 1) && kernel.words[0].segment == 1);	/* what was in it may be told anew */
	CHECK(!placing_finish(placing) && has_all() && !placed_find(&kernel, 1) && placed_find(&kernel, 2)->placed == 5);
	/* All of a segment has moved, and the source has not retired it. */
	source.open = 3;
	for (index = 5; index < 10; index++)
		CHECK(tell(index, true));
	CHECK(!placing_finish(placing) && has_all() && !placed_find(&kernel, 2) && placed_find(&kernel, 3)->placed == 5);
	/* .. or has. */
	source.open = 4;
	for (index = 5; index < 10; index++)
		CHECK(tell(index, true));
	CHECK(!placing_run(placing, MOST) && placed_find(&kernel, 3) && tell_gone(3));
	CHECK(!placing_finish(placing) && has_all() && !placed_find(&kernel, 3));
	return true;
}

/* The kernel has room for the segments that are there, and no more; what is gone goes first. */
static bool test_full(void)
{
	uint64_t i;

	begin(1, 3);
	for (i = 1; i <= 20; i++) {
		source.objects[i].generation = source.objects[i].version = 1;
		source.open = i;
		CHECK(tell(i, true) && (i < 4 || tell_gone(i - 3)) && !placing_run(placing, MOST));
	}
	CHECK(!placing_finish(placing) && has_all() && kernel.nr == 3);
	source.objects[30].generation = source.objects[30].version = 1;
	source.open = 30;
	CHECK(tell(30, true) && !placing_run(placing, MOST) && !placing_waits(placing));
	CHECK(tell_gone(20) && !placing_finish(placing) && has_all());
	source.objects[31].generation = source.objects[31].version = 1;
	source.open = 31;
	CHECK(tell(31, true));
	/* Of one that is gone an object is placed, which was deleted. */
	CHECK(tell_gone(30) && !placing_run(placing, MOST) && has_all());
	source.objects[32].generation = source.objects[32].version = 1;
	source.open = 32;
	CHECK(tell(32, true) && placing_finish(placing) == -ENOSPC && placing_run(placing, MOST) == -ENOSPC && !kernel.wrong);
	return true;
}

/* After an error nothing more is said to the kernel. */
static bool test_fails(void)
{
	uint32_t calls, i;

	for (i = 1; i < 200; i += 7) {
		begin(i, SEGMENTS);
		kernel.fails = i;
		while (!placing_run(placing, MOST))
			CHECK(tells());
		calls = kernel.calls;
		CHECK(calls == i && tells() && placing_run(placing, MOST) == -EIO && placing_finish(placing) == -EIO);
		CHECK(kernel.calls == calls && !placing_waits(placing) && !kernel.wrong);
		placing_free(placing);		/* what is known stays, and nothing is placed of it */
		placing = NULL;
		for (calls = 0; calls < 1000; calls++)
			CHECK(tells());
	}
	return true;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc == 3 ? strtoull(argv[2], NULL, 0) : 0, i;
	bool good = true;

	if (!seed) {
		tap_ok(test_again(), "what is told again is placed once");
		tap_ok(test_deleted(), "what is gone, or all moved, is taken back");
		tap_ok(test_full(), "a kernel without room for another segment");
		tap_ok(test_fails(), "an error is the end");
	}
	for (i = seed ? seed : 1; good && i <= (seed ? seed : 300); i++)
		if (!random_moves(i)) {
			good = false;
			tap_note("again: build/test_placing --seed %llu", (unsigned long long)i);
		}
	tap_ok(good, "random moves");
	placing_free(placing);
	known_free(known);
	return tap_end();
}
