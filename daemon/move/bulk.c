// SPDX-License-Identifier: GPL-2.0
/* All of the memory of a migration's source: see bulk.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"
#include "core/fetch.h"
#include "bulk.h"

#define SECOND_NS	1000000000ull

enum bulk_state {
	BULK_FREE,
	BULK_READING,
	BULK_READ,		/* for bulk_objects() */
	BULK_BRINGING,		/* until bulk_brought() */
};

/* READs of a slot, in masks, and in tags: slot * BULK_KINDS + kind. */
enum bulk_kind {
	BULK_DATA,
	BULK_TABLE,		/* the entry of a seglet in the seglet table: which one follows */
	BULK_KINDS,
};

/**
 * struct bulk_seglet - a seglet in which listings begin
 * @after: the next one of the segment, plus 1; 0: there is none
 * @first: the lowest offset of a listing, in units of LSMEM_ALIGN
 * @cached: it is of a cache segment
 * @nr: listings that begin in it; 0: it is on no list
 */
struct bulk_seglet {
	uint32_t after;
	uint16_t first : 15, cached : 1, nr;
};

/**
 * struct bulk_segment - a segment of which something is to be read
 * @id: its id; 0: it has no seglets
 * @seglets: the first one on its list, plus 1
 */
struct bulk_segment {
	uint64_t id;
	uint32_t seglets;
};

/**
 * struct bulk_slot - a seglet that is being read, or given to the kernel
 * @state: enum bulk_state
 * @wanted: mask of READs to start
 * @reading: mask of READs in flight
 * @seglet: that was read
 * @at: byte in it of the entry that is next
 * @left: listings that were not passed yet
 * @need: bytes of the buffer that an entry needs which crosses the end of the seglet; 0: there is none, or not yet
 * @have: bytes of the buffer that are filled, from that of the first listing on
 * @piece: .. and those that are read now
 * @from: the seglet that has these
 * @offset: .. where
 */
struct bulk_slot {
	enum bulk_state state;
	uint32_t wanted, reading;
	uint32_t seglet, at, left, need;
	uint32_t have, piece, from, offset;
};

/**
 * struct bulk - what is read
 * @known: what the source has told
 * @indices: of the store
 * @looked: indices below are in @seglet
 * @nr_seglets: of the source's memory
 * @open: there is a connection with @keys
 * @over: nothing more is read
 * @behind_ns: until then requests of the kernel may come: one seglet is under way at a time
 * @rate: bytes a second; 0: no limit
 * @next_ns: when the next seglet may be read, by @rate
 * @keys: to its memory
 * @memory: BULK_SLOTS buffers
 * @seglet: for each seglet, what begins in it
 * @segment: by the numbers of @known; when all indices were looked at, those that have seglets, the youngest last
 * @nr_segments: elements of @segment that are left
 * @slots: seglets under way
 * @last_ns: when the list grew, or the kernel got an entry, last
 * @stats: counters
 */
struct bulk {
	const struct known *known;
	uint64_t indices, looked;
	uint32_t nr_seglets;
	bool open, over;
	uint64_t behind_ns;
	uint64_t rate, next_ns;
	struct move_keys keys;
	uint8_t *memory;
	struct bulk_seglet *seglet;
	struct bulk_segment *segment;
	uint32_t nr_segments;
	struct bulk_slot slots[BULK_SLOTS];
	uint64_t last_ns;
	struct bulk_stats stats;
};

/**
 * bulk_new - begin without a connection
 * @known: all that the source has told; must stay as long as the result
 * @indices: of the store, as for known_new()
 * @seglets: of the source's memory
 * @memory: BULK_MEMORY bytes of zeroes, for READs; must stay likewise
 * @now: the time, ns, of a clock that only rises
 *
 * Return: to be freed by bulk_free(); NULL: there is no memory.
 */
struct bulk *bulk_new(const struct known *known, uint64_t indices, uint32_t seglets, void *memory, uint64_t now)
{
	struct bulk *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->known = known;
	b->indices = indices;
	b->nr_seglets = seglets;
	b->memory = memory;
	b->last_ns = now;
	b->nr_segments = known_room(known);
	b->seglet = memory_table(seglets * sizeof(*b->seglet), false);
	b->segment = calloc(b->nr_segments, sizeof(*b->segment));
	if (b->seglet && b->segment)
		return b;
	bulk_free(b);
	return NULL;
}

/**
 * bulk_free - forget all
 * @b: no READ is in flight; may be NULL
 */
void bulk_free(struct bulk *b)
{
	if (!b)
		return;
	free(b->seglet);
	free(b->segment);
	free(b);
}

static uint8_t *bulk_buffer(const struct bulk *b, const struct bulk_slot *slot)
{
	return b->memory + (size_t)(slot - b->slots) * BULK_BYTES;
}

static struct lsmem_seglet *bulk_table(const struct bulk *b, const struct bulk_slot *slot)
{
	return (void *)(bulk_buffer(b, slot) + BULK_BYTES - LSMEM_BLOCK);
}

/* ---- The list of seglets ------------------------------------------------------------- */

/* The listing that counts for an index, if it is of an object in the source's memory. */
static bool bulk_listing(const struct bulk *b, uint64_t index, struct known_listing *listing, struct known_where *where,
			 uint64_t *id)
{
	return index < b->indices && known_listing(b->known, index, listing, id) && known_where(listing, b->nr_seglets, where);
}

static void bulk_add(struct bulk *b, uint32_t number, uint64_t id, const struct known_where *where)
{
	struct bulk_seglet *seglet = &b->seglet[where->seglet];
	struct bulk_segment *segment = &b->segment[number];
	uint16_t offset = (uint16_t)(where->offset / LSMEM_ALIGN);

	/* It is on the list of the first segment that has something there, as those of cache segments can have what others have. */
	if (!seglet->nr) {
		segment->id = id;
		seglet->after = segment->seglets;
		segment->seglets = where->seglet + 1;
		b->stats.seglets++;
		b->stats.left++;
	}
	if (!seglet->nr || offset < seglet->first)
		seglet->first = offset & 0x7fff;
	seglet->cached |= where->cache != 0;
	seglet->nr += seglet->nr < UINT16_MAX;
}

static int bulk_younger(const void *a, const void *b)
{
	const struct bulk_segment *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* Leave out the numbers of no segment, and put the others in the order of their age. */
static void bulk_sort(struct bulk *b)
{
	uint32_t nr = 0, i;

	for (i = 0; i < b->nr_segments; i++)
		if (b->segment[i].id)
			b->segment[nr++] = b->segment[i];
	b->nr_segments = nr;
	qsort(b->segment, nr, sizeof(*b->segment), bulk_younger);
}

static bool bulk_is_listed(const struct bulk *b)
{
	return b->looked == b->indices;
}

/**
 * bulk_step - go on with the list of seglets
 * @b: the state
 * @now: the time, ns
 *
 * Looks at BULK_STEP indices. Does nothing when all were looked at.
 */
void bulk_step(struct bulk *b, uint64_t now)
{
	uint64_t end = b->indices - b->looked < BULK_STEP ? b->indices : b->looked + BULK_STEP, id;
	struct known_listing listing;
	struct known_where where;

	if (b->over || bulk_is_listed(b))
		return;
	b->last_ns = now;
	for (; b->looked < end; b->looked++)
		if (bulk_listing(b, b->looked, &listing, &where, &id))
			bulk_add(b, listing.segment, id, &where);
	if (bulk_is_listed(b))
		bulk_sort(b);
}

/* ---- The connection --------------------------------------------------------------- */

/**
 * bulk_open - there is a connection with keys
 * @b: without one
 * @keys: as READY has them: to the whole memory, and its table
 */
void bulk_open(struct bulk *b, const struct move_keys *keys)
{
	b->keys = *keys;
	b->open = true;
}

/* Read the seglet of a slot, from the first listing on. */
static void bulk_begin(struct bulk *b, struct bulk_slot *slot, uint32_t seglet)
{
	const struct bulk_seglet *s = &b->seglet[seglet];
	uint32_t first = s->first * LSMEM_ALIGN;

	*slot = (struct bulk_slot){
		.state = BULK_READING,
		.wanted = 1u << BULK_DATA | 1u << BULK_TABLE,
		.seglet = seglet, .from = seglet,
		.at = first, .have = first, .offset = first,
		.piece = LSMEM_SEGLET_BYTES - first,
		.left = s->nr,
	};
}

/**
 * bulk_cut - the connection is destroyed: no READ of it writes to memory any more
 * @b: the state; it may have none
 *
 * What was being read is read again when there is another one.
 */
void bulk_cut(struct bulk *b)
{
	struct bulk_slot *slot;

	b->open = false;
	for (slot = b->slots; slot < b->slots + BULK_SLOTS; slot++)
		if (slot->state == BULK_READING)
			bulk_begin(b, slot, slot->seglet);
}

/* ---- READs -------------------------------------------------------------------------- */

/* The next seglet, the youngest segment's first. */
static uint32_t bulk_take(struct bulk *b)
{
	struct bulk_segment *segment = &b->segment[b->nr_segments - 1];
	uint32_t seglet = segment->seglets - 1;

	segment->seglets = b->seglet[seglet].after;
	if (!segment->seglets)
		b->nr_segments--;
	return seglet;
}

static uint32_t bulk_used(const struct bulk *b)
{
	uint32_t nr = 0, i;

	for (i = 0; i < BULK_SLOTS; i++)
		nr += b->slots[i].state != BULK_FREE;
	return nr;
}

/* Is there a seglet that may be read now, but for the rate? */
static bool bulk_more(const struct bulk *b, uint64_t now)
{
	uint32_t most = now < b->behind_ns ? 1 : BULK_SLOTS;

	return b->open && !b->over && bulk_is_listed(b) && b->nr_segments && bulk_used(b) < most;
}

/* The first slot with READs to start, or NULL. */
static struct bulk_slot *bulk_wanting(struct bulk *b)
{
	struct bulk_slot *slot;

	for (slot = b->slots; slot < b->slots + BULK_SLOTS; slot++)
		if (slot->wanted)
			return slot;
	return NULL;
}

static struct bulk_slot *bulk_fresh(struct bulk *b, uint64_t now)
{
	struct bulk_slot *slot = b->slots;

	if (!bulk_more(b, now) || now < b->next_ns)
		return NULL;
	while (slot->state != BULK_FREE)
		slot++;
	bulk_begin(b, slot, bulk_take(b));
	b->next_ns = b->rate ? now + LSMEM_SEGLET_BYTES * SECOND_NS / b->rate : 0;
	return slot;
}

/**
 * bulk_pace - how much may be read?
 * @b: the state
 * @rate: bytes a second; 0: no limit
 * @behind: requests of the kernel wait: for the next BULK_BEHIND_NS one seglet may be under way at a time, since a program that
 *	reads one object after the other has no request between two
 * @now: the time
 */
void bulk_pace(struct bulk *b, uint64_t rate, bool behind, uint64_t now)
{
	if (behind)
		b->behind_ns = now + BULK_BEHIND_NS;
	if (b->rate != rate)
		b->next_ns = 0;
	b->rate = rate;
}

/**
 * bulk_next - get the next READ to start
 * @b: the state
 * @now: the time, ns
 * @read: out; its tag is below BULK_TAGS, for bulk_done()
 *
 * Return: false: there is none now.
 */
bool bulk_next(struct bulk *b, uint64_t now, struct pull_read *read)
{
	struct bulk_slot *slot;
	enum bulk_kind kind;

	if (!b->open || b->over)
		return false;
	slot = bulk_wanting(b);
	if (!slot)
		slot = bulk_fresh(b, now);
	if (!slot)
		return false;
	kind = slot->wanted & 1u << BULK_DATA ? BULK_DATA : BULK_TABLE;
	slot->wanted &= ~(1u << kind);
	slot->reading |= 1u << kind;
	read->tag = (uint32_t)(slot - b->slots) * BULK_KINDS + kind;
	if (kind == BULK_DATA) {
		read->address = b->keys.seglets.address + (uint64_t)slot->from * LSMEM_SEGLET_BYTES + slot->offset;
		read->key = b->keys.seglets.key;
		read->length = slot->piece;
		read->data = bulk_buffer(b, slot) + slot->have;
	} else {
		read->address = b->keys.table.address + slot->from * sizeof(struct lsmem_seglet);
		read->key = b->keys.table.key;
		read->length = sizeof(struct lsmem_seglet);
		read->data = bulk_table(b, slot);
	}
	return true;
}

static void bulk_leave(struct bulk *b, struct bulk_slot *slot)
{
	slot->state = BULK_FREE;
	slot->wanted = 0;
	b->stats.left--;
}

/* The rest of an entry that crosses the end of what was read: the next piece, in the seglet that follows. */
static void bulk_follow(struct bulk *b, struct bulk_slot *slot)
{
	uint32_t next = bulk_table(b, slot)->next, rest = slot->need - slot->have;

	if (next >= b->nr_seglets) {
		b->stats.wrong++;
		bulk_leave(b, slot);
		return;
	}
	slot->from = next;
	slot->offset = 0;
	slot->piece = rest < LSMEM_SEGLET_BYTES ? rest : LSMEM_SEGLET_BYTES;
	slot->wanted = 1u << BULK_DATA | (rest > slot->piece ? 1u << BULK_TABLE : 0u);
	slot->state = BULK_READING;
}

/**
 * bulk_done - a READ has ended well
 * @b: the state, open
 * @tag: of bulk_next()
 */
void bulk_done(struct bulk *b, uint32_t tag)
{
	struct bulk_slot *slot = &b->slots[tag / BULK_KINDS % BULK_SLOTS];

	slot->reading &= ~(1u << tag % BULK_KINDS);
	if (slot->state != BULK_READING || slot->wanted || slot->reading)
		return;
	slot->have += slot->piece;
	if (slot->have < slot->need)
		bulk_follow(b, slot);
	else
		slot->state = BULK_READ;
}

/* ---- For the kernel -------------------------------------------------------------------- */

/* Is there one more listing in what was read, and how long is the entry at this place, if it can be one? */
static bool bulk_entry(const struct bulk *b, struct bulk_slot *slot, uint32_t *bytes)
{
	const struct lsmem_entry *e = (const void *)(bulk_buffer(b, slot) + slot->at);

	if (!slot->left || slot->at >= LSMEM_SEGLET_BYTES || !lsmem_entry_sane(e))
		return false;
	*bytes = lsmem_entry_bytes(e);
	return true;
}

/* Is it what was told of this place? @slot->left goes down if something was. @listing: out: that of the entry. */
static bool bulk_check(struct bulk *b, struct bulk_slot *slot, struct known_listing *listing)
{
	const struct lsmem_entry *e = (const void *)(bulk_buffer(b, slot) + slot->at);
	uint64_t index = lsmem_handle_index(lsmem_entry_handle(e)), id;
	struct known_where where;

	if (lsmem_entry_type(e) != LSMEM_TYPE_OBJECT || !bulk_listing(b, index, listing, &where, &id) ||
	    where.seglet != slot->seglet || where.offset != slot->at)
		return false;
	slot->left--;
	if (known_is(listing, index, e))
		return true;
	b->stats.wrong++;
	return false;
}

/* Where the entry behind one of @bytes begins. */
static uint32_t bulk_after(const struct bulk *b, const struct bulk_slot *slot, uint32_t bytes)
{
	return lsmem_entry_start(slot->at + bytes + (b->seglet[slot->seglet].cached ? LSMEM_TRAILER_BYTES : 0));
}

/* Entries of one slot, up to one that crosses the end of the seglet and was not read yet: then its READs are wanted. */
static uint32_t bulk_walk(struct bulk *b, struct bulk_slot *slot, struct lsmem_bring_one *ones)
{
	struct known_listing listing;
	uint32_t nr = 0, bytes;

	while (nr < BULK_OBJECTS && bulk_entry(b, slot, &bytes)) {
		if (slot->at + bytes > slot->have) {
			if (bytes > lsmem_entry_size(LSMEM_OBJECT_MAX) || !bulk_check(b, slot, &listing))
				break;		/* nothing else that was told begins here */
			slot->left++;		/* it is looked at again */
			slot->need = slot->at + bytes;
			if (!nr)
				bulk_follow(b, slot);
			return nr;
		}
		if (bulk_check(b, slot, &listing)) {
			void *e = bulk_buffer(b, slot) + slot->at;

			known_resalt(b->known, &listing, e);
			ones[nr++] = (struct lsmem_bring_one){ .data = (uintptr_t)e, .length = bytes };
		}
		slot->at = bulk_after(b, slot, bytes);
	}
	if (nr < BULK_OBJECTS) {
		b->stats.wrong += slot->left;
		slot->left = 0;
	}
	return nr;
}

/**
 * bulk_objects - get entries for LSMEM_REPL_BRING
 * @b: the state
 * @ones: out: up to BULK_OBJECTS; their data stay until bulk_brought(), which must follow
 *
 * Return: how many there are in @ones.
 */
uint32_t bulk_objects(struct bulk *b, struct lsmem_bring_one *ones)
{
	struct bulk_slot *slot;
	uint32_t nr;

	for (slot = b->slots; slot < b->slots + BULK_SLOTS; slot++) {
		if (slot->state != BULK_READ)
			continue;
		nr = b->over ? 0 : bulk_walk(b, slot, ones);
		if (nr) {
			slot->state = BULK_BRINGING;
			return nr;
		}
		if (slot->state == BULK_READ)
			bulk_leave(b, slot);
	}
	return 0;
}

/**
 * bulk_brought - take what the kernel has answered
 * @b: the state
 * @ones: as bulk_objects() gave them, with the results of the kernel
 * @nr: as it returned
 * @now: the time, ns
 *
 * When memory is full, nothing more is read.
 */
void bulk_brought(struct bulk *b, const struct lsmem_bring_one *ones, uint32_t nr, uint64_t now)
{
	uint32_t i;

	b->last_ns = now;
	for (i = 0; i < nr; i++) {
		if (!ones[i].result) {
			b->stats.objects++;
			b->stats.bytes += ones[i].length;
		}
		b->stats.wrong += ones[i].result == -EBADMSG;
		b->over |= ones[i].result == -EAGAIN;
	}
	for (i = 0; i < BULK_SLOTS; i++)
		if (b->slots[i].state == BULK_BRINGING)
			b->slots[i].state = BULK_READ;
}

/**
 * bulk_end - nothing more is to be read
 * @b: the state
 */
void bulk_end(struct bulk *b)
{
	b->over = true;
}

/**
 * bulk_is_all - was all given to the kernel that was told?
 * @b: the state
 */
bool bulk_is_all(const struct bulk *b)
{
	return !b->over && bulk_is_listed(b) && !b->nr_segments && !bulk_used(b) && !b->stats.wrong;
}

/**
 * bulk_waits - is there something to do now, without anything that has to come?
 * @b: the state
 * @now: the time, ns
 */
bool bulk_waits(const struct bulk *b, uint64_t now)
{
	bool any = !bulk_is_listed(b) || (bulk_more(b, now) && now >= b->next_ns);
	uint32_t i;

	for (i = 0; i < BULK_SLOTS; i++)
		any |= b->slots[i].state == BULK_READ || (b->open && b->slots[i].wanted);
	return any && !b->over;
}

/**
 * bulk_due - when may the next seglet be read?
 * @b: the state
 * @now: the time, ns
 *
 * Return: the time, ns; FETCH_NEVER: at once, or not until something else happens.
 */
uint64_t bulk_due(const struct bulk *b, uint64_t now)
{
	return bulk_more(b, now) && now < b->next_ns ? b->next_ns : FETCH_NEVER;
}

/**
 * bulk_wants - is something to be read from the source?
 * @b: the state
 * @now: the time, ns
 *
 * If nothing came for PULL_IDLE_S, nothing more is read: what is not here is on the backups.
 *
 * Return: false: CLOSE can be said: no READ is in flight, and none follows.
 */
bool bulk_wants(struct bulk *b, uint64_t now)
{
	bool reading = false;
	uint32_t i;

	if (now - b->last_ns >= PULL_IDLE_S * SECOND_NS)
		b->over = true;
	for (i = 0; i < BULK_SLOTS; i++)
		reading |= b->slots[i].reading;
	return reading || (!b->over && (!bulk_is_listed(b) || b->nr_segments || bulk_used(b)));
}

/**
 * bulk_stats - get counters
 * @b: the state
 * @stats: out
 */
void bulk_stats(const struct bulk *b, struct bulk_stats *stats)
{
	*stats = b->stats;
}
