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
#include "moves.h"
#include "words.h"
#include "../common/random.h"
#include "../common/tap.h"

#define REST	2u

static union {
	struct ahead_head head;
	uint8_t bytes[AHEAD_BYTES];
} block;

/**
 * struct both - both ends
 * @words: the source's kernel
 * @directory: segment whose directory is being read; 0: none
 * @listings: what was read of a segment
 * @blocks: told, by kind
 * @version: of the protocol
 * @comes: calls of tell_come() that have said that COME is told
 * @calls: of LSMEM_REPL_WORDS
 * @fails: the next call returns this
 * @more: the last call has not told all of its segment
 * @wrong: a directory was asked for too early
 */
static struct both {
	struct tell tell;
	struct words words;
	struct known *known;
	struct ahead_stream from, to;
	uint64_t directory;
	struct lsmem_listing listings[WORDS_ENTRIES];
	uint32_t blocks[AHEAD_KINDS];
	unsigned int version;
	uint32_t calls, comes, directories;
	int fails;
	bool more, wrong;
} both;

static int words(struct tell *tell, struct lsmem_words *call)
{
	int ret = both.fails ? both.fails : words_call(&both.words, call);

	(void)tell;
	both.calls++;
	both.more = call->state & LSMEM_WORDS_MORE;
	return ret;
}

static void directory(struct tell *tell, uint64_t segment)
{
	(void)tell;
	both.wrong |= both.directory || both.more;
	both.directory = segment;
}

static const struct tell_user user = { .words = words, .directory = directory };

/* A target connects, the first or another one. */
static void connects(void)
{
	known_free(both.known);
	memset(both.blocks, 0, sizeof(both.blocks));
	both.directory = 0;
	both.known = known_new(WORDS_INDICES, WORDS_SEGMENTS);
	both.from = (struct ahead_stream){
		.uuid = "a store", .term = 4, .sequence = 1, .indices = WORDS_INDICES, .seglets = WORDS_SEGLETS,
	};
	both.version = both.words.random & 1 ? WIRE_VERSION_CACHED + (both.words.random >> 2 & 2) : WIRE_VERSION_GIVE_UP;
	both.comes = 0;
	both.from.cached = both.version >= WIRE_VERSION_CACHED;
	both.words.caches = both.words.random & 2;
	both.words.cached = both.from.cached && both.words.caches;
	both.to = both.from;
	tell_begin(&both.tell, &user, REST, both.version);
}

static void begin(uint64_t seed)
{
	known_free(both.known);
	memset(&both, 0, sizeof(both));
	words_begin(&both.words, seed);
	both.words.room = 1 + random_below(&both.words.random, 40);
	connects();
}

/* The directory that was asked for has been read. */
static void answer(void)
{
	struct words_segment *seg = words_find(&both.words, both.directory);
	uint32_t i;

	both.directory = 0;
	if (!seg || seg->state == WORDS_HEAD) {
		tell_directory(&both.tell, NULL, 0, -ENOENT);
		return;
	}
	for (i = 0; i < seg->nr; i++) {
		struct lsmem_directory_entry e = words_listing(&seg->entries[i], seg->entries[i].home);

		both.listings[i] = (struct lsmem_listing){ e.key, e.version, e.meta, 0 };
	}
	both.directories++;
	tell_directory(&both.tell, both.listings, seg->nr, 0);
}

static void events(void)
{
	uint64_t retired;

	while (words_event(&both.words, &retired))
		tell_gone(&both.tell, retired);
}

/* A READ of the target. Return: 1; 0: there is no block; or a negative errno. */
static int reads(void)
{
	int ret = tell_block(&both.tell, &block.head);

	if (ret <= 0)
		return ret;
	both.blocks[__le32_to_cpu(block.head.kind)]++;
	if (ahead_check(&both.to, &block.head, ahead_seal(&both.from, &block.head)))
		return -EBADMSG;
	ret = known_block(both.known, &block.head);
	return ret ? ret : 1;
}

/* Some steps of a history, told now and then. */
static bool goes_on(uint32_t steps, uint32_t often)
{
	uint64_t *random = &both.words.random;

	while (steps--) {
		words_step(&both.words);
		if (random_chance(random, often))
			CHECK(reads() >= 0);
		if (random_chance(random, 20))
			tell_tick(&both.tell);
		if (random_chance(random, 10))
			events();
		if (random_chance(random, 10))
			words_ack(&both.words);
		if (both.directory && random_chance(random, 50))
			answer();
		if (random_chance(random, 2))
			both.comes += tell_come(&both.tell);
	}
	return true;
}

/* COME is told if it is wanted, and the MARK again, to a target that takes them. */
static bool is_wanted(void)
{
	bool again = both.version >= WIRE_VERSION_STANDBY;

	CHECK(both.blocks[AHEAD_MARK] >= 1 && (again || both.blocks[AHEAD_MARK] == 1));
	CHECK(both.blocks[AHEAD_COME] <= both.comes && (again || !both.comes));
	return !tell_come(&both.tell);
}

/* Freeze the store, and tell the rest. */
static bool ends(void)
{
	uint32_t blocks = 0;
	int ret;

	words_freeze(&both.words);
	events();
	words_ack(&both.words);
	CHECK(!tell_is_all(&both.tell));
	tell_last(&both.tell);
	while (!tell_is_all(&both.tell)) {
		ret = reads();
		CHECK(ret >= 0 && ++blocks < 100000);
		if (both.directory)
			answer();
		else
			CHECK(ret || tell_is_all(&both.tell));
	}
	CHECK(!reads() && tell_is_all(&both.tell));
	CHECK(is_wanted() && !both.wrong);
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
	const struct words_object *object = &both.words.objects[index];
	uint64_t key = lsmem_handle_make(index, object->generation), oldest = words_oldest(&both.words);
	uint32_t i, n;

	for (i = 0; i < WORDS_SEGMENTS; i++) {
		const struct words_segment *seg = &both.words.segments[i];

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
	const struct words_object *object = &both.words.objects[index];
	struct known_listing listing;
	const struct words_segment *seg;
	uint64_t segment;
	uint32_t i;

	if (!known_listing(both.known, index, &listing, &segment)) {
		CHECK(!is_needed(index));
		return true;
	}
	seg = words_find(&both.words, segment);
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
	const struct words_object *object = &both.words.objects[index];
	const struct words_segment *seg = &both.words.segments[object->segment];
	const struct words_entry *e = &seg->entries[object->entry];
	struct known_listing listing;
	uint64_t segment;

	CHECK(known_listing(both.known, index, &listing, &segment));
	CHECK(segment == seg->id && is_entry(&listing, e));
	CHECK(listing.place == words_place(&both.words, object->segment, e));
	return true;
}

/* What the target knows is what is live, in the segments that there are, and a recovery gets it. */
static bool knows_all(void)
{
	struct lsmem_directory_entry entry;
	uint32_t there = 0, live = 0, count, objects = 0, i, nr;
	struct recover_told told;
	uint64_t id;

	known_told(both.known, 4, 9, 5, &told);
	CHECK(told.term == 4 && told.sequence == 9 && told.expected == 5);
	for (i = 0; i < WORDS_SEGMENTS; i++) {
		const struct words_segment *seg = &both.words.segments[i];

		if (seg->state == WORDS_FREE)
			continue;
		CHECK(!told.segment(told.context, i, seg->id, seg->generation + 1, seg->end, &count));
		CHECK(!told.segment(told.context, i, seg->id, seg->generation, seg->end + LSMEM_ALIGN, &count));
		CHECK(told.segment(told.context, i, seg->id, seg->generation, seg->end, &count));
		objects += count;
		there++;
	}
	CHECK(known_segments(both.known) == there && told.segments == there);
	CHECK(!told.segment(told.context, 0, both.words.next_id, 1, 0, &count));
	for (i = 0; i < WORDS_INDICES; i++) {
		struct known_listing listing;

		CHECK(both.words.objects[i].live ? knows_live(i) : knows_dead(i));
		CHECK(told.listing(told.context, i, &entry, &nr) == known_listing(both.known, i, &listing, &id));
		if (!both.words.objects[i].live)
			continue;
		live++;
		CHECK(nr == both.words.objects[i].segment);
		CHECK(entry.key == __cpu_to_le64(lsmem_handle_make(i, both.words.objects[i].generation)));
		CHECK(entry.version == __cpu_to_le64(both.words.objects[i].version));
	}
	CHECK(known_objects(both.known) == live && told.objects == live && objects == live);
	return true;
}

/* ---- Tests -------------------------------------------------------------------- */

static bool history(uint64_t seed)
{
	uint32_t often;

	begin(seed);
	often = 5 + random_below(&both.words.random, 90);
	while (both.words.time < 1000)		/* before the target */
		words_step(&both.words);
	CHECK(goes_on(500 + random_below(&both.words.random, 4000), often));
	if (random_chance(&both.words.random, 30)) {
		connects();
		CHECK(goes_on(random_below(&both.words.random, 1000), often));
	}
	return ends() && knows_all();
}

/* Its histories have what they are for. */
static bool histories(uint64_t first, uint64_t nr)
{
	uint64_t gone = 0, places = 0, directories = 0, cached = 0, again = 0, comes = 0, seed;

	for (seed = first; seed < first + nr; seed++) {
		if (!history(seed)) {
			tap_note("seed %llu", (unsigned long long)seed);
			return false;
		}
		gone += both.blocks[AHEAD_GONE];
		places += both.words.places;
		directories += both.directories;
		cached += both.words.cached;
		again += both.blocks[AHEAD_MARK] - 1;
		comes += both.blocks[AHEAD_COME];
	}
	tap_note("%llu blocks of gone segments, %llu directories, %llu places", (unsigned long long)gone,
		 (unsigned long long)directories, (unsigned long long)places);
	CHECK(gone > nr && directories > nr && places > 20 * nr && cached > nr / 8 && cached < nr / 2 && again > nr && comes > nr);
	return true;
}

/* ---- Over a connection ------------------------------------------------------- */

static int over_tell(struct ahead_head *head)
{
	int ret = tell_block(&both.tell, head);

	if (ret > 0)
		both.blocks[__le32_to_cpu(head->kind)]++;
	return ret;
}

static int over_know(const struct ahead_head *head)
{
	return known_block(both.known, head);
}

/* Some steps of a history; the target reads now and then. */
static bool goes_over(struct link *link, uint32_t steps)
{
	uint64_t *random = &both.words.random;

	while (steps--) {
		words_step(&both.words);
		if (random_chance(random, 10))
			events();
		if (random_chance(random, 10))
			words_ack(&both.words);
		if (both.directory && random_chance(random, 50))
			answer();
		if (random_chance(random, 20))
			tell_tick(&both.tell);
		if (!random_chance(random, 30))
			continue;
		move_source_more(&link->peer);
		moves_settle();
		CHECK(!link->peer_ended && !link->target_ended);
	}
	return true;
}

/* The whole of a move's first part: both ends of the connection, MOVE, READY behind the last block. */
static bool over(uint64_t seed)
{
	struct link *link;
	uint32_t i;

	begin(seed);
	moves_start(NULL);
	world.tell = over_tell;
	world.know = over_know;
	world.blocks = 0;
	link = moves_call(0, "B", 0);
	while (both.words.time < 1000)
		words_step(&both.words);
	for (i = 0; !link->target.marked; i++)
		CHECK(i < 1000 && goes_over(link, 100));
	CHECK(goes_over(link, 500) && move_target_move(&link->target));
	moves_settle();
	CHECK(world.stops == 1 && goes_over(link, 20));
	words_freeze(&both.words);
	events();
	words_ack(&both.words);
	tell_last(&both.tell);
	for (i = 0; !tell_is_all(&both.tell); i++) {
		move_source_more(&link->peer);
		moves_settle();
		CHECK(i < 1000 && !link->ready.term && !link->peer_ended && !link->target_ended);
		if (both.directory)
			answer();
	}
	CHECK(move_source_ready(&world.source, REVISION, DIGEST, OBJECTS));
	moves_settle();
	CHECK(link->ready.term == TERM && link->ready.digest == DIGEST && link->ready.last == world.blocks);
	CHECK(!world.broken && !both.wrong && is_wanted());
	return knows_all();
}

static bool overs(uint64_t nr)
{
	uint64_t seed;

	for (seed = 1; seed <= nr; seed++)
		if (!over(seed)) {
			tap_note("seed %llu", (unsigned long long)seed);
			return false;
		}
	return true;
}

/* ---- Bounds --------------------------------------------------------------------- */

/* An open segment is as if it had grown. */
static void grows(void)
{
	struct words_segment *seg = &both.words.segments[both.words.heads[0]];

	seg->told = seg->nr - 1;
	seg->home = 0;
}

/* A store that changes all the time costs a bounded number of calls after the MARK. */
static bool calls_are_bounded(void)
{
	uint32_t i;

	begin(1);
	both.words.room = 100;
	for (i = 0; i < 20; i++)
		words_step(&both.words);
	for (i = 0; !both.blocks[AHEAD_MARK]; i++) {
		grows();
		CHECK(reads() > 0 && i < 100);		/* it does not wait for a store that stands still */
	}
	grows();
	CHECK(!reads());
	tell_tick(&both.tell);
	both.calls = 0;
	for (i = 0; i < 20 * TELL_CALLS; i++) {
		grows();
		CHECK(reads() == (i < TELL_CALLS));
	}
	CHECK(both.calls == TELL_CALLS);
	tell_tick(&both.tell);
	CHECK(reads() == 1);
	/* In the end nothing is held back. */
	CHECK(ends() && knows_all());
	return true;
}

/* A store that stands still: the target hears that the source is there, and when it is wanted. */
static bool stands_still(void)
{
	uint32_t i, n;

	for (i = 6; i < 8; i++) {
		begin(i);
		both.version = i + 2;
		tell_begin(&both.tell, &user, REST, both.version);
		while (!both.blocks[AHEAD_MARK])
			CHECK(reads() > 0);
		both.comes = tell_come(&both.tell);
		CHECK(both.comes == (i == 7));
		CHECK(reads() == (i == 7) && !reads() && both.blocks[AHEAD_COME] == (i == 7));
		for (n = 0; n < 5 * TELL_AGAIN; n++) {
			tell_tick(&both.tell);
			CHECK(reads() == (i == 7 && n % TELL_AGAIN == TELL_AGAIN - 1) && !reads());
		}
		CHECK(both.blocks[AHEAD_MARK] == (i == 7 ? 6 : 1));
		both.comes += tell_come(&both.tell);
		CHECK(ends());		/* what was wanted before the freeze is not told after it */
		for (n = 0; n < 2 * TELL_AGAIN; n++)
			tell_tick(&both.tell);
		CHECK(!reads() && tell_is_all(&both.tell));
	}
	return true;
}

/* A target that reads nothing costs a bounded number of ids, then its connection. */
static bool gone_is_bounded(void)
{
	uint32_t i;

	begin(2);
	tell_gone(&both.tell, 5);	/* before the first call: the target has not heard of it */
	words_step(&both.words);
	CHECK(reads() == 1 && both.blocks[AHEAD_LISTINGS] == 1 && !both.tell.nr_gone);
	for (i = 0; i < TELL_GONE; i++)
		tell_gone(&both.tell, 2 * TELL_GONE - i / 2);	/* falling, and twice */
	CHECK(reads() == 1 && both.blocks[AHEAD_GONE] == 1 && __le32_to_cpu(block.head.nr) == (TELL_GONE + 1) / 2);
	for (i = 0; i < TELL_GONE; i++)
		tell_gone(&both.tell, i + 1);
	CHECK(reads() == 1 && __le32_to_cpu(block.head.nr) == TELL_GONE);
	for (i = 0; i <= TELL_GONE; i++)
		tell_gone(&both.tell, i + 1);
	CHECK(reads() == -EOVERFLOW && reads() == -EOVERFLOW);
	return true;
}

/* An error of the kernel or of a backup is the end; a segment that is not there is none. */
static bool errors_end_it(void)
{
	uint32_t i;

	begin(3);
	both.fails = -ENOTTY;
	CHECK(reads() == -ENOTTY);
	both.fails = 0;
	CHECK(reads() == -ENOTTY && !tell_is_all(&both.tell));

	begin(4);
	for (i = 0; !both.directory; i++) {
		CHECK(i < 100000);
		words_step(&both.words);
		CHECK(reads() >= 0);
		tell_tick(&both.tell);
	}
	CHECK(!reads());		/* until it is read */
	tell_directory(&both.tell, NULL, 0, -EIO);
	CHECK(reads() == -EIO);

	begin(5);			/* a header in memory is not what was written */
	words_step(&both.words);
	both.words.segments[0].damage = 0;
	CHECK(reads() == -EUCLEAN && reads() == -EUCLEAN);
	return true;
}

int main(void)
{
	tap_ok(histories(1, 400), "what is told of a history is what is live");
	tap_ok(overs(100), "what is told over a connection, up to READY");
	tap_ok(calls_are_bounded(), "a store that changes costs a bounded number of calls");
	tap_ok(stands_still(), "a target that stands by is told that the source is there, and when it is wanted");
	tap_ok(gone_is_bounded(), "a target that reads nothing costs a bounded number of ids");
	tap_ok(errors_end_it(), "an error is the end of the connection");
	known_free(both.known);
	return tap_end();
}
