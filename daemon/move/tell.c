// SPDX-License-Identifier: GPL-2.0
/* The blocks of a migration's source: see tell.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "remote/wire.h"
#include "tell.h"

/* The kernel writes listings where they are told. */
_Static_assert(sizeof(struct lsmem_listing) == sizeof(struct ahead_listing), "listing");
_Static_assert(LSMEM_PLACE_COLD == AHEAD_COLD, "cold");

/**
 * tell_begin - a target has connected
 * @tell: out
 * @user: callbacks; must stay
 * @rest: segments that may be left to tell at the MARK
 * @version: of the protocol: what the target takes
 */
void tell_begin(struct tell *tell, const struct tell_user *user, uint32_t rest, unsigned int version)
{
	*tell = (struct tell){
		.user = user, .rest = rest, .cached = version >= WIRE_VERSION_CACHED, .again = version >= WIRE_VERSION_STANDBY,
	};
}

static int by_id(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void tell_block_gone(struct tell *tell, struct ahead_head *block)
{
	uint32_t i;

	qsort(tell->gone, tell->nr_gone, sizeof(tell->gone[0]), by_id);
	ahead_begin(block, AHEAD_GONE);
	for (i = 0; i < tell->nr_gone; i++)
		if (!i || tell->gone[i] != tell->gone[i - 1])
			(void)ahead_add_gone(block, tell->gone[i]);	/* they fit: TELL_GONE */
	tell->nr_gone = 0;
}

static int tell_words(struct tell *tell, struct lsmem_words *words)
{
	uint32_t room = words->nr;
	int ret;

	words->size = sizeof(*words);
	ret = tell->user->words(tell, words);
	return !ret && words->nr > room ? -EPROTO : ret;
}

/* Have the places of listings. An older module does not tell where what it has fetched is: then that is cold. */
static int tell_places(struct tell *tell, struct lsmem_words *words)
{
	int ret;

	words->flags = LSMEM_WORDS_PLACES | (tell->cached ? LSMEM_WORDS_CACHED : 0u);
	ret = tell_words(tell, words);
	if (ret != -EINVAL || !tell->cached)
		return ret;
	tell->cached = false;
	return tell_places(tell, words);
}

/* Keep those of @nr listings that are live; no tombstone is among them. Return: how many there are. */
static uint32_t tell_keep(struct lsmem_listing *placed, uint32_t nr)
{
	uint32_t kept = 0, i;

	for (i = 0; i < nr; i++)
		if (placed[i].place != __cpu_to_le64(LSMEM_PLACE_NONE))
			placed[kept++] = placed[i];
	return kept;
}

/* Tell what was read of a segment. Return: 1; 0: nothing of it is left; or a negative errno. */
static int tell_block_places(struct tell *tell, struct ahead_head *block)
{
	struct lsmem_listing *to = (struct lsmem_listing *)ahead_room(block);
	struct lsmem_words told = { 0 };
	uint32_t nr = 0, most, left;
	int ret = 0;

	while (tell->listing < tell->nr_listings && AHEAD_ROOM - nr >= LSMEM_WORDS_PLACES_MAX) {
		struct lsmem_words words = {
			.segment = tell->segment, .listings = (uintptr_t)(to + nr),
		};

		left = tell->nr_listings - tell->listing;
		most = left < LSMEM_WORDS_PLACES_MAX ? left : LSMEM_WORDS_PLACES_MAX;
		memcpy(to + nr, tell->listings + tell->listing, most * sizeof(*to));
		words.nr = most;
		ret = tell_places(tell, &words);
		if (ret)
			break;
		told = words;
		nr += tell_keep(to + nr, most);
		tell->listing += most;
	}
	if (ret && ret != -ENOENT)
		return ret;
	if (ret || tell->listing == tell->nr_listings)		/* ENOENT: it is retired */
		tell->segment = 0;
	if (!nr)
		return 0;
	ahead_begin_segment(block, told.segment, told.generation, told.end);
	ahead_added(block, nr);
	return 1;
}

/* Ask the kernel for words. Return: 1; 0: none has changed; or a negative errno. */
static int tell_block_words(struct tell *tell, struct ahead_head *block)
{
	struct lsmem_words words = {
		.flags = tell->begun ? 0 : LSMEM_WORDS_BEGIN,
		.listings = (uintptr_t)ahead_room(block),
		.nr = AHEAD_ROOM,
	};
	int ret = tell_words(tell, &words);

	if (ret)
		return ret;
	/* An object whose header it is has no place that the kernel could tell. The backups have it. */
	if (words.state & LSMEM_WORDS_DAMAGED)
		return -EUCLEAN;
	tell->begun = true;
	tell->left = words.left;
	tell->behind = words.segment && words.left > tell->rest;
	tell->marks |= !tell->behind;
	tell->calls -= tell->calls && !tell->behind;
	if (!words.segment) {
		tell->all = tell->last;
		tell->calls = 0;
		return 0;
	}
	ahead_begin_segment(block, words.segment, words.generation, words.end);
	ahead_added(block, words.nr);
	/* What is not in memory is told behind the last of what is. */
	if (words.cold && !(words.state & LSMEM_WORDS_MORE)) {
		tell->segment = words.segment;
		tell->listings = NULL;
		tell->user->directory(tell, words.segment);
	}
	return 1;
}

static int tell_next(struct tell *tell, struct ahead_head *block)
{
	int ret;

	if (tell->nr_gone) {
		tell_block_gone(tell, block);
		return 1;
	}
	while (tell->segment) {
		if (!tell->listings)
			return 0;
		ret = tell_block_places(tell, block);
		if (ret)
			return ret;
	}
	if (!tell->marked || tell->behind || tell->calls || tell->last) {
		ret = tell->marks && !tell->marked ? 0 : tell_block_words(tell, block);
		if (ret)
			return ret;
	}
	if (!tell->marks || (tell->marked && !tell->comes && tell->ticks < TELL_AGAIN))
		return 0;
	if (tell->marked && tell->comes) {
		ahead_begin(block, AHEAD_COME);
		tell->comes = false;
		return 1;
	}
	ahead_begin(block, AHEAD_MARK);
	tell->marked = true;
	tell->ticks = 0;
	return 1;
}

/**
 * tell_block - make the next block
 * @tell: begun
 * @block: AHEAD_BYTES of room, aligned to 8; out: all but ahead_seal()
 *
 * After a 0 the caller asks again when it has called tell_directory(), tell_gone() or tell_tick().
 *
 * Return: 1; 0: there is none now; -EOVERFLOW: the target reads too slowly; -EUCLEAN: a segment is damaged in memory, and the
 * store must be recovered from its backups instead; -EPROTO: the kernel's answer cannot be; an error of tell_directory(); or
 * one of LSMEM_REPL_WORDS. After an error no block follows.
 */
int tell_block(struct tell *tell, struct ahead_head *block)
{
	int ret = tell->error ? tell->error : tell_next(tell, block);

	if (ret < 0)
		tell->error = ret;
	return ret;
}

/**
 * tell_gone - the stream has told RETIRE
 * @tell: begun
 * @segment: id
 */
void tell_gone(struct tell *tell, uint64_t segment)
{
	if (!tell->begun)	/* the target does not know it, and will not */
		return;
	if (tell->nr_gone == TELL_GONE)
		tell->error = -EOVERFLOW;
	else
		tell->gone[tell->nr_gone++] = segment;
}

/**
 * tell_directory - the listings of a segment have been read
 * @tell: @directory was called
 * @listings: checked, in the order of their home offsets; @place counts for nothing. They stay until the next call of
 *	@directory or the end of the connection
 * @nr: number of @listings
 * @error: 0; -ENOENT: the segment is not on the backups any more, or not yet: it is told anew when it is closed, if it has to
 *	be; or another negative errno, which ends the connection
 */
void tell_directory(struct tell *tell, const struct lsmem_listing *listings, uint32_t nr, int error)
{
	if (error && error != -ENOENT)
		tell->error = error;
	if (error || !nr) {
		tell->segment = 0;
		return;
	}
	tell->listings = listings;
	tell->nr_listings = nr;
	tell->listing = 0;
}

/**
 * tell_tick - some time has passed: open segments are told again, and that the source is there
 * @tell: begun
 */
void tell_tick(struct tell *tell)
{
	tell->calls = TELL_CALLS;
	tell->ticks += tell->again && tell->marked && !tell->last;
}

/**
 * tell_come - the target is wanted: it stands by
 * @tell: begun, not tell_last()
 *
 * Then ask for a block again.
 *
 * Return: true: it will be told; false: it does not know COME.
 */
bool tell_come(struct tell *tell)
{
	tell->comes |= tell->again && !tell->last;
	return tell->comes;
}

/**
 * tell_last - the store is frozen, and all events of the stream are acknowledged
 * @tell: begun; tell_gone() was called for each RETIRE
 */
void tell_last(struct tell *tell)
{
	tell->last = true;
	tell->all = tell->comes = false;
	tell->ticks = 0;
}

/**
 * tell_is_all - has the target been told everything?
 * @tell: begun
 *
 * Before that a 0 of tell_block() is not the end, so the caller calls move_source_ready() only afterwards.
 *
 * Return: true: what counts of all that was told is what is live, and stays it until the store is thawed; tell_block()
 * returns 0 from now on.
 */
bool tell_is_all(const struct tell *tell)
{
	return tell->all && tell->marked && !tell->segment && !tell->nr_gone && !tell->error;
}
