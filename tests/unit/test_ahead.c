// SPDX-License-Identifier: GPL-2.0
/* The blocks that the source of a migration tells its target: daemon/remote/ahead.h. */
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "lsmem.h"
#include "remote/ahead.h"
#include "../common/random.h"
#include "../common/tap.h"

#define INDICES	100000u
#define SEGLETS	256u
#define END	(4u << 20)
#define SEGMENT	7u
#define GENERATION	3u
#define LISTINGS_MAX	((AHEAD_BYTES - sizeof(struct ahead_head)) / sizeof(struct ahead_listing))

static union {
	struct ahead_head head;
	struct {
		struct ahead_head before;
		struct ahead_listing listing[2];
	};
	struct {
		struct ahead_head before_ids;
		__le64 id[2];
	};
	uint8_t bytes[AHEAD_BYTES];
} block;

static struct ahead_stream stream(void)
{
	return (struct ahead_stream){
		.uuid = "a store", .term = 4, .sequence = 1, .indices = INDICES, .seglets = SEGLETS,
	};
}

static struct lsmem_directory_entry entry(uint64_t index, uint32_t length, uint32_t home)
{
	return (struct lsmem_directory_entry){
		__cpu_to_le64(lsmem_handle_make(index, 5)),
		__cpu_to_le64(lsmem_version_make(2, 1000 + home)),
		__cpu_to_le64(lsmem_listing_make(length, length ? LSMEM_TYPE_OBJECT : LSMEM_TYPE_TOMBSTONE,
						 home, 9, 3)),
	};
}

static uint64_t position(uint32_t seglet, uint32_t offset)
{
	return (uint64_t)seglet << LSMEM_POSITION_OFFSET_BITS | offset / LSMEM_ALIGN;
}

/* An object of 100 bytes, and a tombstone behind it. Return: bytes of the block. */
static size_t two(struct ahead_stream *from)
{
	struct lsmem_directory_entry object = entry(11, 100, 64), tombstone = entry(12, 0, 256);

	ahead_begin_segment(&block.head, SEGMENT, GENERATION, END);
	(void)ahead_add_listing(&block.head, &object, position(SEGLETS - 1, 4096));
	(void)ahead_add_listing(&block.head, &tombstone, 6);
	return ahead_seal(from, &block.head);
}

/* Seal what was changed in a block, as a source that does not keep the rules would. */
static void seal_again(void)
{
	struct ahead_stream from = stream();

	from.term = __le64_to_cpu(block.head.term);
	from.sequence = __le64_to_cpu(block.head.sequence);
	memcpy(from.uuid, block.head.uuid, sizeof(from.uuid));
	(void)ahead_seal(&from, &block.head);
}

/* The block is copied, so that ASan sees a read behind its end. */
static bool accepts(size_t length)
{
	struct ahead_stream to = stream();
	void *copy = malloc(length ? length : 1);
	bool good;

	memcpy(copy, &block, length);
	good = !ahead_check(&to, copy, length);
	free(copy);
	return good;
}

/* Fill a block with entries from @home on. Return: the segment has no room for more. */
static bool fill(uint64_t *random, uint32_t most, uint32_t *home, struct ahead_listing *told, uint32_t *nr)
{
	for (*nr = 0;; ++*nr) {
		uint32_t length = random_below(random, most), at = lsmem_entry_start(*home);
		uint64_t place = length ? position(random_below(random, SEGLETS), 8) : random_below(random, 99);
		struct lsmem_directory_entry e = entry(random_below(random, INDICES), length, at);

		if (at + lsmem_entry_size(length) > END)
			return true;
		if (!ahead_add_listing(&block.head, &e, place))
			return false;
		told[*nr] = (struct ahead_listing){ e, __cpu_to_le64(place) };
		*home = at + lsmem_entry_size(length);
	}
}

/* Listings of random segments come as they were told, in as many blocks as it takes. */
static bool round_trip(uint64_t random)
{
	static struct ahead_listing told[LISTINGS_MAX];
	struct ahead_stream from = stream(), to = stream();
	uint64_t segment;
	bool over;

	for (segment = 1; segment < 40; segment++) {
		uint32_t most = random_chance(&random, 10) ? 16 : 3000, home = 0, nr;

		do {
			ahead_begin_segment(&block.head, segment, GENERATION, END);
			over = fill(&random, most, &home, told, &nr);
			CHECK(!ahead_check(&to, &block.head, ahead_seal(&from, &block.head)));
			CHECK(__le64_to_cpu(block.head.segment) == segment);
			CHECK(__le32_to_cpu(block.head.nr) == nr && (over || nr == LISTINGS_MAX));
			CHECK(!memcmp(ahead_listings(&block.head), told, nr * sizeof(told[0])));
		} while (!over);
	}
	CHECK(to.sequence == from.sequence && to.sequence > 40);
	return true;
}

static bool records_are_told(void)
{
	struct ahead_stream from = stream(), to = stream();
	size_t length = two(&from);

	CHECK(length == sizeof(struct ahead_head) + 2 * sizeof(struct ahead_listing));
	CHECK(!ahead_check(&to, &block.head, length));
	CHECK(__le32_to_cpu(block.head.nr) == 2 && __le32_to_cpu(block.head.generation) == GENERATION);
	CHECK(__le64_to_cpu(ahead_listings(&block.head)[0].entry.key) == lsmem_handle_make(11, 5));
	CHECK(__le64_to_cpu(ahead_listings(&block.head)[0].place) == position(SEGLETS - 1, 4096));
	CHECK(__le64_to_cpu(ahead_listings(&block.head)[1].place) == 6);

	ahead_begin(&block.head, AHEAD_GONE);
	CHECK(ahead_add_gone(&block.head, 3) && ahead_add_gone(&block.head, 9));
	length = ahead_seal(&from, &block.head);
	CHECK(!ahead_check(&to, &block.head, length));
	CHECK(__le64_to_cpu(ahead_gone(&block.head)[1]) == 9);

	ahead_begin(&block.head, AHEAD_MARK);
	length = ahead_seal(&from, &block.head);
	CHECK(!ahead_check(&to, &block.head, length) && to.sequence == 4);

	ahead_begin(&block.head, AHEAD_COME);
	length = ahead_seal(&from, &block.head);
	CHECK(!ahead_check(&to, &block.head, length) && to.sequence == 5);

	ahead_begin_segment(&block.head, SEGMENT, GENERATION, 0);	/* a segment without entries */
	length = ahead_seal(&from, &block.head);
	CHECK(!ahead_check(&to, &block.head, length));
	return true;
}

static bool a_full_block_takes_no_more(void)
{
	struct ahead_stream from = stream();
	uint64_t id = 1;
	size_t length;

	ahead_begin(&block.head, AHEAD_GONE);
	while (ahead_add_gone(&block.head, id))
		id++;
	CHECK(id - 1 == (AHEAD_BYTES - sizeof(struct ahead_head)) / sizeof(__le64));
	length = ahead_seal(&from, &block.head);
	CHECK(length <= AHEAD_BYTES && accepts(length));
	return true;
}

/* A block that is missing, repeated, or of another connection, store or term is not taken. */
static bool blocks_have_an_order(void)
{
	struct ahead_stream from = stream(), to = stream(), other = stream();
	size_t length = two(&from);

	CHECK(!ahead_check(&to, &block.head, length));
	CHECK(ahead_check(&to, &block.head, length) && to.sequence == 2);	/* again */
	(void)two(&from);
	(void)two(&from);
	CHECK(ahead_check(&to, &block.head, length) && to.sequence == 2);	/* 2 is missing */

	other.term++;
	(void)two(&other);
	CHECK(!accepts(length));
	other = stream();
	other.uuid[15] ^= 1;
	(void)two(&other);
	CHECK(!accepts(length));
	return true;
}

/* No block with a flipped bit, and none of another length, is taken. */
static bool damage_is_found(void)
{
	struct ahead_stream from = stream();
	size_t length = two(&from), bit;

	for (bit = 0; bit < 8 * length; bit++) {
		block.bytes[bit / 8] ^= 1u << bit % 8;
		CHECK(!accepts(length));
		block.bytes[bit / 8] ^= 1u << bit % 8;
	}
	for (bit = 0; bit < length + 64; bit += 8)
		CHECK(accepts(bit) == (bit == length));
	return true;
}

/* One change of the block of two(), sealed as if it were right. */
#define REFUSED(change)							\
	do {								\
		struct ahead_stream refused_from = stream();		\
		size_t refused_length = two(&refused_from);		\
									\
		change;							\
		seal_again();						\
		CHECK(!accepts(refused_length));			\
	} while (0)

static bool heads_have_bounds(void)
{
	REFUSED(block.head.magic ^= 1);
	REFUSED(block.head.kind = 0);
	REFUSED(block.head.kind = __cpu_to_le32(AHEAD_KINDS));
	REFUSED(block.head.kind = __cpu_to_le32(UINT32_MAX));
	REFUSED(block.head.kind = __cpu_to_le32(AHEAD_MARK));
	REFUSED(block.head.nr = __cpu_to_le32(1));
	REFUSED(block.head.nr = __cpu_to_le32(3));
	REFUSED(block.head.nr = __cpu_to_le32((1u << 27) + 2));	/* 2 in 32 bits of bytes */
	REFUSED(block.head.zero = 1);
	REFUSED(block.head.segment = 0);
	REFUSED(block.head.segment = __cpu_to_le64(LSMEM_SEGMENT_ID_END));
	REFUSED(block.head.end = __cpu_to_le32(LSMEM_SEGMENT_BYTES + LSMEM_ALIGN));
	REFUSED(block.head.end = __cpu_to_le32(END + 1));
	return true;
}

static bool listings_have_bounds(void)
{
	REFUSED(block.head.end = __cpu_to_le32(256 + LSMEM_LONG_BYTES - LSMEM_ALIGN));
	REFUSED(block.listing[1].entry = entry(12, 0, 64));		/* where the object is */
	REFUSED(block.listing[1].entry = entry(12, 0, 64 + 120));	/* its end is at 64 + 128 */
	REFUSED(block.listing[1].entry = entry(12, 0, 8));		/* out of order */
	REFUSED(block.listing[1].entry = entry(12, 0, LSMEM_SEGLET_BYTES - LSMEM_SHORT_BYTES));
	REFUSED(block.listing[0].entry.key = __cpu_to_le64(lsmem_handle_make(INDICES, 5)));
	REFUSED(block.listing[0].entry.key = __cpu_to_le64(lsmem_handle_make(11, 0)));
	REFUSED(block.listing[0].entry.version |= __cpu_to_le64(1ull << LSMEM_ENTRY_VERSION_BITS));
	REFUSED(block.listing[0].entry.meta = __cpu_to_le64(lsmem_listing_make(0, LSMEM_TYPE_OBJECT, 64, 0, 0)));
	REFUSED(block.listing[0].entry.meta =
		__cpu_to_le64(lsmem_listing_make(8, LSMEM_TYPE_TOMBSTONE, 64, 0, 0)));
	REFUSED(block.listing[0].place = __cpu_to_le64(position(SEGLETS, 0)));
	REFUSED(block.listing[0].place = __cpu_to_le64(position(0, LSMEM_SEGLET_BYTES - LSMEM_SHORT_BYTES + 8)));
	REFUSED(block.listing[0].place = __cpu_to_le64(AHEAD_COLD - 1));
	REFUSED(block.listing[0].place = __cpu_to_le64(position(0, 8) | 1ull << LSMEM_PLACE_CACHE_SHIFT));
	REFUSED(block.listing[1].place = __cpu_to_le64(LSMEM_SEGMENT_ID_END));
	REFUSED(block.listing[1].place = __cpu_to_le64(AHEAD_COLD));
	return true;
}

/* What lies just within the bounds is taken. */
static bool bounds_are_not_narrower(void)
{
	struct lsmem_directory_entry last = entry(INDICES - 1, 100, 256);
	struct ahead_stream from = stream();
	size_t length;

	ahead_begin_segment(&block.head, LSMEM_SEGMENT_ID_END - 1, 0, 256 + lsmem_entry_size(100));
	(void)ahead_add_listing(&block.head, &last, position(SEGLETS - 1, LSMEM_SEGLET_BYTES - LSMEM_SHORT_BYTES));
	length = ahead_seal(&from, &block.head);
	CHECK(accepts(length));
	block.listing[0].place = __cpu_to_le64(AHEAD_COLD);
	seal_again();
	CHECK(accepts(length));
	return true;
}

/* Places in cache segments: where they were agreed on, and their positions have the same bounds. */
static bool cached_places_have_bounds(void)
{
	const uint64_t number = (1ull << LSMEM_PLACE_CACHE_BITS) - 1;
	const uint64_t places[] = {
		position(SEGLETS - 1, LSMEM_SEGLET_BYTES - LSMEM_SHORT_BYTES) | number << LSMEM_PLACE_CACHE_SHIFT,
		position(SEGLETS, 0) | 1ull << LSMEM_PLACE_CACHE_SHIFT,
		position(0, 8) | (number + 1) << LSMEM_PLACE_CACHE_SHIFT,
		position(0, 8) | 1ull << 63,
		LSMEM_PLACE_NONE,
	};
	struct lsmem_directory_entry last = entry(INDICES - 1, 100, 256);
	struct ahead_stream from, to;
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		from = to = stream();
		to.cached = true;
		ahead_begin_segment(&block.head, 7, 1, 256 + lsmem_entry_size(100));
		(void)ahead_add_listing(&block.head, &last, places[i]);
		CHECK(!ahead_check(&to, &block.head, ahead_seal(&from, &block.head)) == !i);
	}
	return true;
}

static bool gone_segments_have_bounds(void)
{
	static const uint64_t pairs[][2] = {
		{ 0, 1 }, { 2, 2 }, { 3, 2 }, { 1, LSMEM_SEGMENT_ID_END },
	};
	struct ahead_stream from;
	size_t i, length;

	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		from = stream();
		ahead_begin(&block.head, AHEAD_GONE);
		(void)ahead_add_gone(&block.head, pairs[i][0]);
		(void)ahead_add_gone(&block.head, pairs[i][1]);
		length = ahead_seal(&from, &block.head);
		CHECK(!accepts(length));
	}
	block.id[0] = __cpu_to_le64(LSMEM_SEGMENT_ID_END - 2);
	block.id[1] = __cpu_to_le64(LSMEM_SEGMENT_ID_END - 1);
	seal_again();
	CHECK(accepts(length));
	block.head.generation = __cpu_to_le32(1);
	seal_again();
	CHECK(!accepts(length));

	from = stream();
	ahead_begin(&block.head, AHEAD_MARK);	/* it has no records to count */
	block.head.nr = __cpu_to_le32(1);
	length = ahead_seal(&from, &block.head);
	CHECK(!accepts(length));
	return true;
}

int main(void)
{
	uint64_t seed;
	bool good = true;

	for (seed = 1; seed <= 10 && good; seed++)
		good = round_trip(seed);
	tap_ok(good, "listings of segments come in blocks as they were told");
	tap_ok(records_are_told(), "listings, segments that are gone, a mark");
	tap_ok(a_full_block_takes_no_more(), "a full block takes no more");
	tap_ok(blocks_have_an_order(), "a block that is missing, repeated or of another connection is not taken");
	tap_ok(damage_is_found(), "no flipped bit and no other length");
	tap_ok(heads_have_bounds(), "heads have bounds");
	tap_ok(listings_have_bounds(), "listings have bounds");
	tap_ok(bounds_are_not_narrower(), "what is within the bounds is taken");
	tap_ok(cached_places_have_bounds(), "places in cache segments: where they were agreed on");
	tap_ok(gone_segments_have_bounds(), "segments that are gone have bounds, a mark has nothing");
	return tap_end();
}
