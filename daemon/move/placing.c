// SPDX-License-Identifier: GPL-2.0
/* Words that a target places ahead: see placing.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "placing.h"

#define LIST_FIRST	4096u	/* elements that there is room for in the beginning */

/**
 * struct list - elements in the order in which they came
 * @at: the first one
 * @bytes: of an element
 * @nr: elements in use
 * @done: of these, from the beginning: they are not needed any more
 * @room: elements that are allocated
 */
struct list {
	void *at;
	size_t bytes;
	uint32_t nr, done, room;
};

/* An object to be taken back from its segment, as the kernel has it. */
struct back {
	struct lsmem_directory_entry listing;
	uint64_t segment;
	uint32_t generation, home;
};

/* A segment, as the kernel has it, or is to. */
struct segment {
	uint64_t segment;
	uint32_t generation, home;
};

/**
 * struct placing - what of the known is placed
 * @watch: of @known
 * @known: what was told
 * @user: callbacks
 * @context: of @user
 * @fresh: indices for which something else counts now; some more than once
 * @backs: struct back
 * @gones: struct segment: those that are gone
 * @tombstones: indices for which tombstones count, or have counted; some more than once
 * @listings: of a call
 * @sifted: when @tombstones has more elements, those that count no more are dropped
 * @full: the kernel has no room for another segment
 * @error: what it cannot go on after, a negative errno: what the kernel has is not known
 */
struct placing {
	struct known_watch watch;
	struct known *known;
	const struct placing_user *user;
	void *context;
	struct list fresh, backs, gones, tombstones;
	struct lsmem_directory_entry listings[PLACING_BATCH];
	uint32_t sifted;
	bool full;
	int error;
};

/* ---- Lists --------------------------------------------------------------------- */

static void list_add(struct placing *p, struct list *list, const void *element)
{
	uint32_t room = list->room ? list->room * 2 : LIST_FIRST;
	void *at;

	if (p->error)
		return;
	if (list->nr == list->room) {
		at = list->room > UINT32_MAX / 2 ? NULL : realloc(list->at, room * list->bytes);
		if (!at) {
			p->error = -ENOMEM;
			return;
		}
		list->at = at;
		list->room = room;
	}
	memcpy((char *)list->at + list->nr++ * list->bytes, element, list->bytes);
}

/* All that is there is done. */
static void list_clear(struct list *list)
{
	list->nr = list->done = 0;
}

/* ---- What changes --------------------------------------------------------------- */

static struct lsmem_directory_entry entry_of(uint64_t index, const struct known_listing *listing)
{
	return (struct lsmem_directory_entry){
		__cpu_to_le64(lsmem_handle_make(index, listing->generation)),
		__cpu_to_le64(listing->version),
		__cpu_to_le64(listing->meta),
	};
}

static void on_counts(struct known_watch *watch, uint64_t index, bool object)
{
	struct placing *p = (struct placing *)watch;
	uint32_t element = (uint32_t)index;

	list_add(p, object ? &p->fresh : &p->tombstones, &element);
}

static void on_back(struct known_watch *watch, uint64_t index, const struct known_listing *listing,
		    const struct known_segment *seg)
{
	struct placing *p = (struct placing *)watch;

	list_add(p, &p->backs, &(struct back){
		.listing = entry_of(index, listing), .segment = seg->id, .generation = seg->generation, .home = seg->home,
	});
}

static void on_gone(struct known_watch *watch, const struct known_segment *seg)
{
	struct placing *p = (struct placing *)watch;

	list_add(p, &p->gones, &(struct segment){ .segment = seg->id, .generation = seg->generation, .home = seg->home });
}

/* ---- Calls ----------------------------------------------------------------------- */

static int give(struct placing *p, const struct segment *of, uint32_t flags, uint32_t nr)
{
	struct lsmem_placement place = {
		.segment = of->segment, .generation = of->generation, .sealed = of->home, .flags = flags,
		.entries = nr ? (uintptr_t)p->listings : 0, .nr = nr,
	};

	p->error = p->user->place(p->context, &place);
	return p->error;
}

/* Take back what counts no more, then the segments that are gone. */
static int give_backs(struct placing *p)
{
	const struct back *backs = p->backs.at;
	const struct segment *gones = p->gones.at;
	uint32_t i = 0, nr;

	while (i < p->backs.nr) {
		const struct back *first = &backs[i];

		for (nr = 0; nr < PLACING_BATCH && i < p->backs.nr && backs[i].segment == first->segment &&
			     backs[i].home == first->home; i++)
			p->listings[nr++] = backs[i].listing;
		if (give(p, &(struct segment){ first->segment, first->generation, first->home }, LSMEM_PLACEMENT_BACK, nr))
			return p->error;
	}
	list_clear(&p->backs);
	for (i = 0; i < p->gones.nr; i++)
		if (give(p, &gones[i], LSMEM_PLACEMENT_GONE, 0))
			return p->error;
	list_clear(&p->gones);
	return 0;
}

/* Have the kernel make a segment. Return: false: it has no room for one now, or an error. */
static bool make(struct placing *p, const struct segment *of)
{
	if (give(p, of, 0, 0) == -ENOSPC) {
		/* Of what is gone, it may have more than the source has told anew: what was deleted. */
		p->error = 0;
		known_take_back(p->known);
		if (p->error || give_backs(p) || !give(p, of, 0, 0) || p->error != -ENOSPC)
			return !p->error;
		p->error = 0;
		p->full = true;
	}
	return !p->error && !p->full;
}

/* Place the next objects of @fresh that are of one segment. */
static int give_fresh(struct placing *p)
{
	const uint32_t *fresh = p->fresh.at;
	const struct known_segment *seg;
	struct known_listing listing;
	struct segment of = { .segment = 0 };
	uint32_t at = p->fresh.done, nr = 0;
	uint64_t segment;

	for (; at < p->fresh.nr && nr < PLACING_BATCH; at++) {
		/* It may count no more, or be here twice. */
		if (!known_listing(p->known, fresh[at], &listing, &segment) || listing.placed ||
		    LSMEM_LISTING_GET(listing.meta, TYPE) != LSMEM_TYPE_OBJECT)
			continue;
		if (nr && segment != of.segment)
			break;
		seg = known_segment_of(p->known, &listing);
		of = (struct segment){ seg->id, seg->generation, seg->end };
		if (!seg->made && !make(p, &of))
			break;
		known_set_home(p->known, of.segment, of.home, true);
		known_set_placed(p->known, fresh[at]);
		p->listings[nr++] = entry_of(fresh[at], &listing);
	}
	p->fresh.done = at;
	return p->error || !nr ? p->error : give(p, &of, 0, nr);
}

static int by_index(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Of @tombstones keep those that count, each once. */
static void sift(struct placing *p)
{
	uint32_t *at = p->tombstones.at, nr = 0, i;
	struct known_listing listing;
	uint64_t segment;

	if (p->tombstones.nr)
		qsort(at, p->tombstones.nr, sizeof(*at), by_index);
	for (i = 0; i < p->tombstones.nr; i++)
		if ((!nr || at[i] != at[nr - 1]) && known_listing(p->known, at[i], &listing, &segment) &&
		    LSMEM_LISTING_GET(listing.meta, TYPE) == LSMEM_TYPE_TOMBSTONE)
			at[nr++] = at[i];
	p->tombstones.nr = nr;
}

/* ---- The caller ------------------------------------------------------------------ */

/**
 * placing_new - begin to place what is known
 * @known: no block was taken yet; must stay
 * @user: callbacks; must stay
 * @context: of @user
 *
 * Return: to be freed by placing_free(); NULL: there is no memory.
 */
struct placing *placing_new(struct known *known, const struct placing_user *user, void *context)
{
	struct placing *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->watch = (struct known_watch){ .counts = on_counts, .back = on_back, .gone = on_gone };
	p->known = known;
	p->user = user;
	p->context = context;
	p->fresh.bytes = p->tombstones.bytes = sizeof(uint32_t);
	p->backs.bytes = sizeof(struct back);
	p->gones.bytes = sizeof(struct segment);
	known_watch(known, &p->watch);
	return p;
}

/**
 * placing_free - place nothing more
 * @p: may be NULL; before @known is freed
 */
void placing_free(struct placing *p)
{
	if (!p)
		return;
	known_watch(p->known, NULL);
	free(p->fresh.at);
	free(p->backs.at);
	free(p->gones.at);
	free(p->tombstones.at);
	free(p);
}

/**
 * placing_run - tell the kernel what has changed
 * @p: the kernel has the store, without anything that @p has not placed
 * @most: objects to place, about
 *
 * Return: 0; or a negative errno, from then on: what the kernel has is to be dropped, and counts for nothing.
 */
int placing_run(struct placing *p, uint32_t most)
{
	uint32_t from = p->fresh.done;

	if (p->error)
		return p->error;
	if (p->gones.nr)
		p->full = false;
	if (give_backs(p))
		return p->error;
	while (placing_waits(p) && p->fresh.done - from < most && !give_fresh(p))
		;
	if (p->fresh.done == p->fresh.nr)
		list_clear(&p->fresh);
	if (p->tombstones.nr > p->sifted) {
		sift(p);
		p->sifted = 2 * p->tombstones.nr + LIST_FIRST;
	}
	return p->error;
}

/**
 * placing_waits - is something to be placed, for which the kernel has room?
 * @p: what is placed
 */
bool placing_waits(const struct placing *p)
{
	return !p->error && !p->full && p->fresh.done < p->fresh.nr;
}

/* The kernel is to have the segments that objects are of, as long as they were told, and no others. */
static int finish_segments(struct placing *p)
{
	const struct known_segment *seg;
	uint32_t nr = 0;

	while (!p->error && (seg = known_next_segment(p->known, &nr))) {
		struct segment of = { seg->id, seg->generation, seg->objects ? seg->end : seg->home };

		if (!seg->made || (seg->objects && seg->home == seg->end))
			continue;
		if (!give(p, &of, seg->objects ? 0 : LSMEM_PLACEMENT_GONE, 0))
			known_set_home(p->known, of.segment, of.home, seg->objects);
	}
	return p->error;
}

/**
 * placing_finish - all was told: what counts is placed, and nothing else
 * @p: what is placed
 *
 * Return: 0, or an error as placing_run(); -ENOSPC: the kernel has no room for all segments.
 */
int placing_finish(struct placing *p)
{
	known_take_back(p->known);
	do {
		if (placing_run(p, UINT32_MAX))
			return p->error;
	} while (placing_waits(p));
	if (p->full)
		p->error = -ENOSPC;
	sift(p);
	return p->error ? p->error : finish_segments(p);
}

/* ---- For a recovery ---------------------------------------------------------------- */

static void told_newest(void *context, uint64_t *time, uint32_t *era, uint32_t *generation)
{
	struct placing *p = context;
	struct known_newest newest;

	known_newest(p->known, &newest);
	*time = newest.time;
	*era = newest.era;
	*generation = newest.generation;
}

static bool told_tombstone(void *context, uint32_t i, uint64_t *index)
{
	struct placing *p = context;

	if (i >= p->tombstones.nr)
		return false;
	*index = ((const uint32_t *)p->tombstones.at)[i];
	return true;
}

/**
 * placing_told - let a recovery know that the objects are placed
 * @p: placing_finish() has returned 0, and no block was taken since
 * @told: from known_told(); changed
 */
void placing_told(struct placing *p, struct recover_told *told)
{
	told->placing = p;
	told->bytes = known_bytes(p->known);
	told->tombstone = told_tombstone;
	told->newest = told_newest;
}
