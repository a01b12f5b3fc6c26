// SPDX-License-Identifier: GPL-2.0
/* A store whose words are told: see words.h. */
#include <errno.h>
#include <string.h>

#include "words.h"
#include "../common/random.h"

#define NONE	WORDS_SEGMENTS
#define ALL	UINT32_MAX

struct words_segment *words_find(struct words *w, uint64_t id)
{
	uint32_t i;

	for (i = 0; i < WORDS_SEGMENTS; i++)
		if (w->segments[i].state != WORDS_FREE && w->segments[i].id == id)
			return &w->segments[i];
	return NULL;
}

/* The lowest id in the log. */
uint64_t words_oldest(const struct words *w)
{
	uint64_t oldest = UINT64_MAX;
	uint32_t i;

	for (i = 0; i < WORDS_SEGMENTS; i++)
		if (w->segments[i].state != WORDS_FREE && w->segments[i].id < oldest)
			oldest = w->segments[i].id;
	return oldest;
}

struct lsmem_directory_entry words_listing(const struct words_entry *e, uint32_t home)
{
	return (struct lsmem_directory_entry){
		__cpu_to_le64(e->key), __cpu_to_le64(e->version),
		__cpu_to_le64(lsmem_listing_make(e->length, e->barrier ? LSMEM_TYPE_TOMBSTONE : LSMEM_TYPE_OBJECT,
						 home, 1, 0)),
	};
}

uint64_t words_place(const struct words *w, uint32_t segment, const struct words_entry *e)
{
	uint64_t cache = e->cold && w->cached ? segment + 1 : 0;

	if (e->cold && !w->cached)
		return LSMEM_PLACE_COLD;
	return cache << LSMEM_PLACE_CACHE_SHIFT | (uint64_t)(2 * segment + w->segments[segment].flip) << LSMEM_POSITION_OFFSET_BITS |
	       e->memory / LSMEM_ALIGN;
}

/* Is this the newest version of its object? */
static bool is_live(const struct words *w, uint32_t segment, uint32_t entry)
{
	const struct words_object *object =
		&w->objects[lsmem_handle_index(w->segments[segment].entries[entry].key)];

	return object->live && object->segment == segment && object->entry == entry;
}

static bool opens(struct words *w, uint32_t head)
{
	uint32_t i;

	for (i = 0; i < WORDS_SEGMENTS; i++) {
		struct words_segment *seg = &w->segments[i];

		if (seg->state != WORDS_FREE)
			continue;
		*seg = (struct words_segment){
			.state = WORDS_HEAD, .id = w->next_id++, .generation = seg->generation + 1, .damage = ALL,
		};
		w->heads[head] = i;
		return true;
	}
	return false;
}

static void closes(struct words *w, uint32_t head)
{
	if (w->heads[head] == NONE)
		return;
	w->segments[w->heads[head]].state = WORDS_CLOSED;
	w->segments[w->heads[head]].changed = true;
	w->heads[head] = NONE;
}

/* Append an entry. Returns false: there is no room in the log. */
static bool append(struct words *w, uint32_t head, struct words_entry e, uint32_t *segment)
{
	uint32_t bytes = lsmem_entry_size(e.length);
	struct words_segment *seg;

	if (w->heads[head] != NONE) {
		seg = &w->segments[w->heads[head]];
		if (seg->nr == WORDS_ENTRIES || seg->end + bytes + LSMEM_LONG_BYTES > LSMEM_SEGLET_BYTES)
			closes(w, head);
	}
	if (w->heads[head] == NONE && !opens(w, head))
		return false;
	seg = &w->segments[w->heads[head]];
	e.home = e.memory = seg->end;
	e.cold = e.moved = false;
	seg->end += bytes;
	seg->entries[seg->nr++] = e;
	*segment = w->heads[head];
	return true;
}

static void point(struct words *w, uint32_t segment)
{
	uint32_t entry = w->segments[segment].nr - 1;
	const struct words_entry *e = &w->segments[segment].entries[entry];
	struct words_object *object = &w->objects[lsmem_handle_index(e->key)];

	object->version = e->version;
	object->segment = segment;
	object->entry = entry;
	object->live = !e->barrier;
}

static void change(struct words *w)
{
	uint32_t index = random_below(&w->random, WORDS_INDICES), segment;
	struct words_object *object = &w->objects[index];
	bool delete = object->live && random_chance(&w->random, 35), fresh = !object->live;
	struct words_entry e = {
		.key = lsmem_handle_make(index, object->generation + fresh), .version = ++w->time,
		.length = delete ? 0 : 1 + random_below(&w->random, random_chance(&w->random, 10) ? 9000 : 300),
		.barrier = delete ? w->next_id + 1 : 0,	/* the tombstone may open a segment */
	};

	if (!append(w, random_below(&w->random, WORDS_HEADS - 1), e, &segment))
		return;
	object->generation += fresh;
	point(w, segment);
}

/* ---- The cleaner ----------------------------------------------------------- */

static void pass_begin(struct words *w)
{
	uint32_t nr = 1 + random_below(&w->random, 4), i;

	for (i = 0; i < 3 * nr; i++) {
		struct words_segment *seg = &w->segments[random_below(&w->random, WORDS_SEGMENTS)];

		if (seg->state != WORDS_CLOSED || !nr)
			continue;
		seg->state = WORDS_VICTIM;
		w->passing = true;
		nr--;
	}
}

/* Move some of what is live in the victims. Returns false: nothing is left, or there is no room. */
static bool pass_move(struct words *w)
{
	uint64_t oldest = words_oldest(w);
	uint32_t i, n, to;

	for (i = 0; i < WORDS_SEGMENTS; i++) {
		struct words_segment *seg = &w->segments[i];

		for (n = 0; seg->state == WORDS_VICTIM && n < seg->nr; n++) {
			struct words_entry *e = &seg->entries[n];

			if (e->barrier ? e->barrier <= oldest || e->moved : !is_live(w, i, n))
				continue;
			if (!append(w, WORDS_HEADS - 1, *e, &to))
				return false;
			if (e->barrier)
				e->moved = true;
			else
				point(w, to);
			if (random_chance(&w->random, 30))
				return true;
		}
	}
	return false;
}

static bool is_empty(const struct words *w, uint32_t segment)
{
	const struct words_segment *seg = &w->segments[segment];
	uint64_t oldest = words_oldest(w);
	uint32_t n;

	for (n = 0; n < seg->nr; n++)
		if (seg->entries[n].barrier ? seg->entries[n].barrier > oldest && !seg->entries[n].moved :
		    is_live(w, segment, n))
			return false;
	return true;
}

/* The victims are retired; those that are not empty leave the pass. */
static void pass_end(struct words *w)
{
	bool empty[WORDS_SEGMENTS];
	uint32_t i, n;

	for (i = 0; i < WORDS_SEGMENTS; i++)
		empty[i] = w->segments[i].state == WORDS_VICTIM && is_empty(w, i);
	for (i = 0; i < WORDS_SEGMENTS; i++) {
		struct words_segment *seg = &w->segments[i];

		if (seg->state != WORDS_VICTIM)
			continue;
		for (n = 0; n < seg->nr; n++)
			seg->entries[n].moved = false;
		seg->state = empty[i] ? WORDS_RETIRED : WORDS_CLOSED;
		if (empty[i])
			w->retired[w->nr_retired++] = seg->id;
	}
	w->passing = false;
}

/* ---- What moves in memory -------------------------------------------------- */

static struct words_segment *closed(struct words *w)
{
	struct words_segment *seg = &w->segments[random_below(&w->random, WORDS_SEGMENTS)];

	return seg->state == WORDS_CLOSED ? seg : NULL;
}

static void compact(struct words *w)
{
	struct words_segment *seg = closed(w);
	uint32_t at = 0, i;

	if (!seg)
		return;
	seg->flip ^= 1;
	for (i = 0; i < seg->nr; i++) {
		if (!seg->entries[i].barrier && !is_live(w, (uint32_t)(seg - w->segments), i))
			continue;
		seg->entries[i].memory = at;
		at += seg->entries[i].cold ? 0 : lsmem_entry_size(seg->entries[i].length);
	}
	seg->changed = seg->again = true;
}

static void evict(struct words *w)
{
	struct words_segment *seg = closed(w);
	uint32_t i;

	for (i = 0; seg && i < seg->nr; i++)
		if (is_live(w, (uint32_t)(seg - w->segments), i) && random_chance(&w->random, 50)) {
			seg->entries[i].cold = true;
			seg->changed = seg->again = true;
		}
}

/* ---- History ---------------------------------------------------------------- */

void words_begin(struct words *w, uint64_t random)
{
	uint32_t i;

	memset(w, 0, sizeof(*w));
	w->random = random;
	w->next_id = 1;
	for (i = 0; i < WORDS_HEADS; i++)
		w->heads[i] = NONE;
}

void words_step(struct words *w)
{
	uint32_t what = random_below(&w->random, 1000);

	if (what < 800)
		change(w);
	else if (what < 970 && w->passing && !pass_move(w))
		pass_end(w);
	else if (what < 950 && !w->passing && w->nr_retired + 4 < WORDS_EVENTS)
		pass_begin(w);
	else if (what >= 970 && what < 972 && w->passing)
		pass_end(w);
	else if (what >= 972 && what < 982)
		compact(w);
	else if (what >= 982 && what < 990)
		evict(w);
	else if (what >= 990)
		closes(w, random_below(&w->random, WORDS_HEADS));
}

/* No client, no pass, no open segment. */
void words_freeze(struct words *w)
{
	uint32_t i;

	if (w->passing)
		pass_end(w);
	for (i = 0; i < WORDS_HEADS; i++)
		closes(w, i);
}

/* The next event of the stream. Returns false if there is none. */
bool words_event(struct words *w, uint64_t *retired)
{
	if (w->taken == w->nr_retired)
		return false;
	*retired = w->retired[w->taken++];
	return true;
}

/* All events that were taken are acknowledged. */
void words_ack(struct words *w)
{
	uint32_t i;

	for (i = 0; i < w->taken; i++)
		words_find(w, w->retired[i])->state = WORDS_FREE;
	w->nr_retired -= w->taken;
	memmove(w->retired, w->retired + w->taken, w->nr_retired * sizeof(w->retired[0]));
	w->taken = 0;
}

/* ---- LSMEM_REPL_WORDS -------------------------------------------------------- */

static struct words_segment *choose(struct words *w)
{
	struct words_segment *seg;
	uint32_t i;

	for (i = 0; i < WORDS_SEGMENTS; i++) {
		seg = &w->segments[(w->cursor + i) % WORDS_SEGMENTS];
		if (!seg->changed || seg->state == WORDS_VICTIM)
			continue;
		seg->changed = false;
		if (seg->state == WORDS_HEAD || seg->state == WORDS_CLOSED)
			return seg;
	}
	for (i = 0; i < WORDS_HEADS; i++)
		if (w->heads[i] != NONE && w->segments[w->heads[i]].told < w->segments[w->heads[i]].nr)
			return &w->segments[w->heads[i]];
	return NULL;
}

static void list(struct words *w, struct words_segment *seg, struct lsmem_words *call)
{
	struct lsmem_listing *to = (struct lsmem_listing *)(uintptr_t)call->listings;
	uint32_t room = call->nr < w->room ? call->nr : w->room, segment = (uint32_t)(seg - w->segments), i;
	uint64_t oldest = words_oldest(w);

	if (seg->again)
		seg->told = seg->home = 0;
	seg->again = false;
	call->nr = 0;
	for (; seg->told < seg->nr && call->nr < room; seg->told++) {
		const struct words_entry *e = &seg->entries[seg->told];
		uint32_t block = e->home & ~(LSMEM_BLOCK - 1), home = block > seg->home ? block : seg->home;
		struct lsmem_directory_entry entry = words_listing(e, lsmem_entry_start(home));

		if (seg->told >= seg->damage) {
			seg->told = seg->nr;
			call->state |= LSMEM_WORDS_DAMAGED;
			break;
		}
		if (e->barrier ? e->barrier <= oldest : !is_live(w, segment, seg->told) || e->cold)
			continue;
		seg->home = home + lsmem_entry_size(e->length);
		to[call->nr++] = (struct lsmem_listing){
			entry.key, entry.version, entry.meta,
			__cpu_to_le64(e->barrier ? e->barrier : words_place(w, segment, e)),
		};
	}
	if (seg->told < seg->nr) {
		call->state |= LSMEM_WORDS_MORE;
		seg->changed = true;
	}
	for (i = 0; i < seg->nr; i++)
		call->cold += seg->entries[i].cold && is_live(w, segment, i) ? seg->entries[i].length : 0;
	w->cursor = segment + !(call->state & LSMEM_WORDS_MORE);
}

static uint64_t place_of(const struct words *w, const struct words_segment *seg, const struct lsmem_listing *listing)
{
	uint64_t meta = __le64_to_cpu(listing->meta), key = __le64_to_cpu(listing->key);
	const struct words_object *object = &w->objects[lsmem_handle_index(key)];
	const struct words_entry *e = &seg->entries[object->entry];
	uint32_t home = LSMEM_LISTING_GET(meta, HOME) * LSMEM_ALIGN;

	if (!LSMEM_LISTING_GET(meta, LENGTH) || !object->live || &w->segments[object->segment] != seg)
		return LSMEM_PLACE_NONE;
	if (e->cold && !w->cached)
		return e->home / LSMEM_BLOCK == home / LSMEM_BLOCK ? LSMEM_PLACE_COLD : LSMEM_PLACE_NONE;
	return e->key == key && e->version == __le64_to_cpu(listing->version) ?
	       words_place(w, object->segment, e) : LSMEM_PLACE_NONE;
}

static int places(struct words *w, struct lsmem_words *call)
{
	struct lsmem_listing *listings = (struct lsmem_listing *)(uintptr_t)call->listings;
	struct words_segment *seg = words_find(w, call->segment);
	uint32_t i;

	if (!call->nr || call->nr > LSMEM_WORDS_PLACES_MAX)
		return -EINVAL;
	for (i = 0; seg && i < call->nr; i++)
		listings[i].place = __cpu_to_le64(place_of(w, seg, &listings[i]));
	if (!seg)
		return -ENOENT;
	w->places += call->nr;
	call->generation = seg->generation;
	call->end = seg->end;
	return 0;
}

int words_call(struct words *w, struct lsmem_words *call)
{
	struct words_segment *seg;
	uint32_t i;

	if (call->size != sizeof(*call) || !call->nr || call->generation || call->end || call->cold || call->state ||
	    call->left || !(call->flags & LSMEM_WORDS_PLACES) != !call->segment)
		return -EINVAL;
	if (call->flags & ~(LSMEM_WORDS_BEGIN | LSMEM_WORDS_PLACES | (w->caches ? LSMEM_WORDS_CACHED : 0u)))
		return -EINVAL;
	if (call->flags & LSMEM_WORDS_PLACES) {
		w->cached = call->flags & LSMEM_WORDS_CACHED;
		return places(w, call);
	}
	for (i = 0; call->flags & LSMEM_WORDS_BEGIN && i < WORDS_SEGMENTS; i++)
		w->segments[i].changed = w->segments[i].again = true;
	seg = choose(w);
	if (seg) {
		call->segment = seg->id;
		call->generation = seg->generation;
		call->end = seg->end;
		list(w, seg, call);
	} else {
		call->nr = 0;
	}
	for (i = 0; i < WORDS_SEGMENTS; i++)
		call->left += w->segments[i].changed;
	return 0;
}
