// SPDX-License-Identifier: GPL-2.0
/*
 * What the source of a migration tells, and what its target knows: daemon/move/. A random history is told while it goes
 * on; in the end the target knows just what is live. words.h is the kernel.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "move/known.h"
#include "move/tell.h"
#include "words.h"
#include "../common/random.h"
#include "../common/tap.h"

#define REST	2u

static union {
	struct ahead_head head;
	uint8_t bytes[AHEAD_BYTES];
} block;

/**
 * struct world - both ends
 * @words: the source's kernel
 * @directory: segment whose directory is being read; 0: none
 * @listings: what was read of a segment
 * @blocks: told, by kind
 * @calls: of LSMEM_REPL_WORDS
 * @fails: the next call returns this
 * @more: the last call has not told all of its segment
 * @wrong: a directory was asked for too early
 */
static struct world {
	struct tell tell;
	struct words words;
	struct known *known;
	struct ahead_stream from, to;
	uint64_t directory;
	struct lsmem_listing listings[WORDS_ENTRIES];
	uint32_t blocks[AHEAD_KINDS];
	uint32_t calls, directories;
	int fails;
	bool more, wrong;
} world;

static int words(struct tell *tell, struct lsmem_words *call)
{
	int ret = world.fails ? world.fails : words_call(&world.words, call);

	(void)tell;
	world.calls++;
	world.more = call->state & LSMEM_WORDS_MORE;
	return ret;
}

static void directory(struct tell *tell, uint64_t segment)
{
	(void)tell;
	world.wrong |= world.directory || world.more;
	world.directory = segment;
}

static const struct tell_user user = { .words = words, .directory = directory };

/* A target connects, the first or another one. */
static void connects(void)
{
	known_free(world.known);
	memset(world.blocks, 0, sizeof(world.blocks));
	world.directory = 0;
	world.known = known_new(WORDS_INDICES, WORDS_SEGMENTS);
	world.from = (struct ahead_stream){
		.uuid = "a store", .term = 4, .sequence = 1, .indices = WORDS_INDICES, .seglets = WORDS_SEGLETS,
	};
	world.to = world.from;
	tell_begin(&world.tell, &user, REST);
}

static void begin(uint64_t seed)
{
	known_free(world.known);
	memset(&world, 0, sizeof(world));
	words_begin(&world.words, seed);
	world.words.room = 1 + random_below(&world.words.random, 40);
	connects();
}

/* The directory that was asked for has been read. */
static void answer(void)
{
	struct words_segment *seg = words_find(&world.words, world.directory);
	uint32_t i;

	world.directory = 0;
	if (!seg || seg->state == WORDS_HEAD) {
		tell_directory(&world.tell, NULL, 0, -ENOENT);
		return;
	}
	for (i = 0; i < seg->nr; i++) {
		struct lsmem_directory_entry e = words_listing(&seg->entries[i], seg->entries[i].home);

		world.listings[i] = (struct lsmem_listing){ e.key, e.version, e.meta, 0 };
	}
	world.directories++;
	tell_directory(&world.tell, world.listings, seg->nr, 0);
}

static void events(void)
{
	uint64_t retired;

	while (words_event(&world.words, &retired))
		tell_gone(&world.tell, retired);
}

/* A READ of the target. Return: 1; 0: there is no block; or a negative errno. */
static int reads(void)
{
	int ret = tell_block(&world.tell, &block.head);

	if (ret <= 0)
		return ret;
	world.blocks[__le32_to_cpu(block.head.kind)]++;
	if (ahead_check(&world.to, &block.head, ahead_seal(&world.from, &block.head)))
		return -EBADMSG;
	ret = known_block(world.known, &block.head);
	return ret ? ret : 1;
}

/* Some steps of a history, told now and then. */
static bool goes_on(uint32_t steps, uint32_t often)
{
	uint64_t *random = &world.words.random;

	while (steps--) {
		words_step(&world.words);
		if (random_chance(random, often))
			CHECK(reads() >= 0);
		if (random_chance(random, 20))
			tell_tick(&world.tell);
		if (random_chance(random, 10))
			events();
		if (random_chance(random, 10))
			words_ack(&world.words);
		if (world.directory && random_chance(random, 50))
			answer();
	}
	return true;
}

/* Freeze the store, and tell the rest. */
static bool ends(void)
{
	uint32_t blocks = 0;
	int ret;

	words_freeze(&world.words);
	events();
	words_ack(&world.words);
	CHECK(!tell_is_all(&world.tell));
	tell_last(&world.tell);
	while (!tell_is_all(&world.tell)) {
		ret = reads();
		CHECK(ret >= 0 && ++blocks < 100000);
		if (world.directory)
			answer();
		else
			CHECK(ret || tell_is_all(&world.tell));
	}
	CHECK(!reads() && tell_is_all(&world.tell));
	CHECK(world.blocks[AHEAD_MARK] == 1 && !world.wrong);
	return true;
}

/* ---- What the target knows ------------------------------------------------- */

/* Is the listing that of an entry, within its block? */
static bool is_entry(const struct known_listing *listing, const struct words_entry *e)
{
	struct lsmem_directory_entry entry = words_listing(e, e->home);
	uint32_t home = LSMEM_LISTING_GET(listing->meta, HOME) * LSMEM_ALIGN;

	return listing->version == e->version && listing->generation == lsmem_handle_generation(e->key) &&
	       format_listing_same(listing->meta, __le64_to_cpu(entry.meta)) &&
	       home / LSMEM_BLOCK == e->home / LSMEM_BLOCK;
}

/* Is there a tombstone of the newest version of an index that is needed? */
static bool is_needed(uint32_t index)
{
	const struct words_object *object = &world.words.objects[index];
	uint64_t key = lsmem_handle_make(index, object->generation), oldest = words_oldest(&world.words);
	uint32_t i, n;

	for (i = 0; i < WORDS_SEGMENTS; i++) {
		const struct words_segment *seg = &world.words.segments[i];

		for (n = 0; seg->state != WORDS_FREE && n < seg->nr; n++)
			if (seg->entries[n].key == key && seg->entries[n].version == object->version &&
			    seg->entries[n].barrier > oldest)
				return true;
	}
	return false;
}

/* Of an index that is not live: nothing counts, or a tombstone; the newest one, if it is needed. */
static bool knows_dead(uint32_t index)
{
	const struct words_object *object = &world.words.objects[index];
	struct known_listing listing;
	const struct words_segment *seg;
	uint64_t segment;
	uint32_t i;

	if (!known_listing(world.known, index, &listing, &segment)) {
		CHECK(!is_needed(index));
		return true;
	}
	seg = words_find(&world.words, segment);
	CHECK(seg && (listing.version == object->version || !is_needed(index)));
	/* A segment can have two copies of a tombstone. */
	for (i = 0; i < seg->nr; i++)
		if (lsmem_handle_index(seg->entries[i].key) == index && is_entry(&listing, &seg->entries[i]))
			break;
	CHECK(i < seg->nr && seg->entries[i].barrier && listing.place == seg->entries[i].barrier);
	return true;
}

static bool knows_live(uint32_t index)
{
	const struct words_object *object = &world.words.objects[index];
	const struct words_segment *seg = &world.words.segments[object->segment];
	const struct words_entry *e = &seg->entries[object->entry];
	struct known_listing listing;
	uint64_t segment;

	CHECK(known_listing(world.known, index, &listing, &segment));
	CHECK(segment == seg->id && is_entry(&listing, e));
	CHECK(listing.place == words_place(&world.words, object->segment, e));
	return true;
}

/* What the target knows is what is live, in the segments that there are, and a recovery gets it. */
static bool knows_all(void)
{
	struct lsmem_directory_entry entry;
	uint32_t there = 0, i, nr;
	struct recover_told told;
	uint64_t id;

	known_told(world.known, 4, 9, &told);
	CHECK(told.term == 4 && told.sequence == 9);
	for (i = 0; i < WORDS_SEGMENTS; i++) {
		const struct words_segment *seg = &world.words.segments[i];

		if (seg->state == WORDS_FREE)
			continue;
		CHECK(!told.segment(told.context, i, seg->id, seg->generation + 1, seg->end));
		CHECK(!told.segment(told.context, i, seg->id, seg->generation, seg->end + LSMEM_ALIGN));
		CHECK(told.segment(told.context, i, seg->id, seg->generation, seg->end));
		there++;
	}
	CHECK(known_segments(world.known) == there && told.segments == there);
	CHECK(!told.segment(told.context, 0, world.words.next_id, 1, 0));
	for (i = 0; i < WORDS_INDICES; i++) {
		struct known_listing listing;

		CHECK(world.words.objects[i].live ? knows_live(i) : knows_dead(i));
		CHECK(told.listing(told.context, i, &entry, &nr) == known_listing(world.known, i, &listing, &id));
		if (!world.words.objects[i].live)
			continue;
		CHECK(nr == world.words.objects[i].segment);
		CHECK(entry.key == __cpu_to_le64(lsmem_handle_make(i, world.words.objects[i].generation)));
		CHECK(entry.version == __cpu_to_le64(world.words.objects[i].version));
	}
	return true;
}

/* ---- Tests -------------------------------------------------------------------- */

static bool history(uint64_t seed)
{
	uint32_t often;

	begin(seed);
	often = 5 + random_below(&world.words.random, 90);
	while (world.words.time < 1000)		/* before the target */
		words_step(&world.words);
	CHECK(goes_on(500 + random_below(&world.words.random, 4000), often));
	if (random_chance(&world.words.random, 30)) {
		connects();
		CHECK(goes_on(random_below(&world.words.random, 1000), often));
	}
	return ends() && knows_all();
}

/* Its histories have what they are for. */
static bool histories(uint64_t first, uint64_t nr)
{
	uint64_t gone = 0, places = 0, directories = 0, seed;

	for (seed = first; seed < first + nr; seed++) {
		if (!history(seed)) {
			tap_note("seed %llu", (unsigned long long)seed);
			return false;
		}
		gone += world.blocks[AHEAD_GONE];
		places += world.words.places;
		directories += world.directories;
	}
	tap_note("%llu blocks of gone segments, %llu directories, %llu places", (unsigned long long)gone,
		 (unsigned long long)directories, (unsigned long long)places);
	CHECK(gone > nr && directories > nr && places > 20 * nr);
	return true;
}

/* An open segment is as if it had grown. */
static void grows(void)
{
	struct words_segment *seg = &world.words.segments[world.words.heads[0]];

	seg->told = seg->nr - 1;
	seg->home = 0;
}

/* A store that changes all the time costs a bounded number of calls after the MARK. */
static bool calls_are_bounded(void)
{
	uint32_t i;

	begin(1);
	world.words.room = 100;
	for (i = 0; i < 20; i++)
		words_step(&world.words);
	for (i = 0; !world.blocks[AHEAD_MARK]; i++) {
		grows();
		CHECK(reads() > 0 && i < 100);		/* it does not wait for a store that stands still */
	}
	grows();
	CHECK(!reads());
	tell_tick(&world.tell);
	world.calls = 0;
	for (i = 0; i < 20 * TELL_CALLS; i++) {
		grows();
		CHECK(reads() == (i < TELL_CALLS));
	}
	CHECK(world.calls == TELL_CALLS);
	tell_tick(&world.tell);
	CHECK(reads() == 1);
	/* In the end nothing is held back. */
	CHECK(ends() && knows_all());
	return true;
}

/* A target that reads nothing costs a bounded number of ids, then its connection. */
static bool gone_is_bounded(void)
{
	uint32_t i;

	begin(2);
	tell_gone(&world.tell, 5);	/* before the first call: the target has not heard of it */
	words_step(&world.words);
	CHECK(reads() == 1 && world.blocks[AHEAD_LISTINGS] == 1 && !world.tell.nr_gone);
	for (i = 0; i < TELL_GONE; i++)
		tell_gone(&world.tell, 2 * TELL_GONE - i / 2);	/* falling, and twice */
	CHECK(reads() == 1 && world.blocks[AHEAD_GONE] == 1 && __le32_to_cpu(block.head.nr) == (TELL_GONE + 1) / 2);
	for (i = 0; i < TELL_GONE; i++)
		tell_gone(&world.tell, i + 1);
	CHECK(reads() == 1 && __le32_to_cpu(block.head.nr) == TELL_GONE);
	for (i = 0; i <= TELL_GONE; i++)
		tell_gone(&world.tell, i + 1);
	CHECK(reads() == -EOVERFLOW && reads() == -EOVERFLOW);
	return true;
}

/* An error of the kernel or of a backup is the end; a segment that is not there is none. */
static bool errors_end_it(void)
{
	uint32_t i;

	begin(3);
	world.fails = -ENOTTY;
	CHECK(reads() == -ENOTTY);
	world.fails = 0;
	CHECK(reads() == -ENOTTY && !tell_is_all(&world.tell));

	begin(4);
	for (i = 0; !world.directory; i++) {
		CHECK(i < 100000);
		words_step(&world.words);
		CHECK(reads() >= 0);
		tell_tick(&world.tell);
	}
	CHECK(!reads());		/* until it is read */
	tell_directory(&world.tell, NULL, 0, -EIO);
	CHECK(reads() == -EIO);

	begin(5);			/* a header in memory is not what was written */
	words_step(&world.words);
	world.words.segments[0].damage = 0;
	CHECK(reads() == -EUCLEAN && reads() == -EUCLEAN);
	return true;
}

int main(void)
{
	tap_ok(histories(1, 400), "what is told of a history is what is live");
	tap_ok(calls_are_bounded(), "a store that changes costs a bounded number of calls");
	tap_ok(gone_is_bounded(), "a target that reads nothing costs a bounded number of ids");
	tap_ok(errors_end_it(), "an error is the end of the connection");
	known_free(world.known);
	return tap_end();
}
