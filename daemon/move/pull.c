// SPDX-License-Identifier: GPL-2.0
/* Objects from the memory of a migration's source: see pull.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/fetch.h"
#include "pull.h"

#define SECOND_NS	1000000000ull

enum pull_state {
	PULL_FREE,
	PULL_READING,
	PULL_READY,		/* for pull_fills() */
	PULL_FILLING,		/* until pull_filled() */
};

/* READs of a slot, in masks, and in tags: slot * PULL_KINDS + kind. */
enum pull_kind {
	PULL_DATA,		/* a piece of the entry: what is of it in one seglet */
	PULL_TABLE,		/* the entry of this seglet in the seglet table: which one follows */
	PULL_KINDS,
};

/**
 * struct pull_slot - a request
 * @state: enum pull_state
 * @left: the backups have the request: only the ends of READs are waited for
 * @wanted: mask of READs to start
 * @reading: mask of READs in flight
 * @one: as the kernel told it
 * @listing: that counts for its index
 * @index: of its handle
 * @bytes: of the entry
 * @have: of these, bytes that are here
 * @piece: bytes of the present piece
 * @seglet: that has it
 * @offset: in the seglet
 * @due_ns: when the backups are to be asked
 */
struct pull_slot {
	enum pull_state state;
	bool left;
	uint32_t wanted, reading;
	struct lsmem_fetch_one one;
	struct known_listing listing;
	uint64_t index;
	uint32_t bytes, have, piece;
	uint32_t seglet, offset;
	uint64_t due_ns;
};

/**
 * struct pull - what is read from the source
 * @known: what it has told
 * @indices: of the store
 * @seglets: of its memory
 * @open: there is a connection with @keys
 * @stopped: no request is taken any more
 * @keys: to its memory
 * @memory: PULL_SLOTS buffers, then as many blocks for entries of the seglet table
 * @slots: the requests
 * @back: requests for pull_back()
 * @nr_back: how many
 * @begun_ns: of pull_new()
 * @last_ns: when a request was answered last, or the beginning
 * @stats: counters
 */
struct pull {
	const struct known *known;
	uint64_t indices;
	uint32_t seglets;
	bool open, stopped;
	struct move_keys keys;
	uint8_t *memory;
	struct pull_slot slots[PULL_SLOTS];
	struct lsmem_fetch_one back[PULL_SLOTS];
	uint32_t nr_back;
	uint64_t begun_ns, last_ns;
	struct pull_stats stats;
};

/**
 * pull_new - begin without a connection
 * @known: all that the source has told; must stay as long as the result
 * @indices: of the store, as for known_new()
 * @seglets: of the source's memory
 * @memory: PULL_MEMORY bytes of zeroes, for READs; must stay likewise
 * @now: the time, ns, of a clock that only rises
 *
 * Return: to be freed by pull_free(); NULL: there is no memory.
 */
struct pull *pull_new(const struct known *known, uint64_t indices, uint32_t seglets, void *memory, uint64_t now)
{
	struct pull *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->known = known;
	p->indices = indices;
	p->seglets = seglets;
	p->begun_ns = p->last_ns = now;
	p->memory = memory;
	return p;
}

/**
 * pull_free - forget all
 * @p: no READ is in flight; may be NULL. Requests that it has are lost: the kernel tells the next daemon
 */
void pull_free(struct pull *p)
{
	free(p);
}

static uint8_t *pull_buffer(const struct pull *p, const struct pull_slot *slot)
{
	return p->memory + (size_t)(slot - p->slots) * PULL_BYTES;
}

static struct lsmem_seglet *pull_table(const struct pull *p, const struct pull_slot *slot)
{
	return (void *)(p->memory + PULL_SLOTS * PULL_BYTES + (size_t)(slot - p->slots) * LSMEM_BLOCK);
}

/* Is the kernel's request still to be answered here? */
static bool pull_has(const struct pull_slot *slot)
{
	return slot->state != PULL_FREE && !slot->left;
}

/* The backups are to answer. The slot is free when no READ writes to it any more. */
static void pull_leave(struct pull *p, struct pull_slot *slot)
{
	if (pull_has(slot))
		p->back[p->nr_back++] = slot->one;
	slot->left = true;
	slot->wanted = 0;
	if (!slot->reading)
		slot->state = PULL_FREE;
}

/* ---- The connection --------------------------------------------------------------- */

/**
 * pull_open - there is a connection with keys
 * @p: without one
 * @keys: as READY has them: to the whole memory, and its table
 */
void pull_open(struct pull *p, const struct move_keys *keys)
{
	p->keys = *keys;
	p->open = true;
}

/**
 * pull_cut - the connection is destroyed: no READ of it writes to memory any more
 * @p: the state; it may have none
 */
void pull_cut(struct pull *p)
{
	struct pull_slot *slot;

	p->open = false;
	for (slot = p->slots; slot < p->slots + PULL_SLOTS; slot++) {
		if (slot->state != PULL_READING)
			continue;
		p->stats.cut += pull_has(slot);
		slot->reading = 0;
		pull_leave(p, slot);
	}
}

/**
 * pull_is_open - is there a connection?
 * @p: the state
 */
bool pull_is_open(const struct pull *p)
{
	return p->open;
}

/* ---- Requests --------------------------------------------------------------------- */

/* The next piece of the entry: up to the end of its seglet. */
static void pull_piece(struct pull_slot *slot)
{
	uint32_t rest = slot->bytes - slot->have, room = LSMEM_SEGLET_BYTES - slot->offset;

	slot->piece = rest < room ? rest : room;
	slot->wanted = 1u << PULL_DATA | (rest > room ? 1u << PULL_TABLE : 0u);
}

/* Has the source what a request is for, and where? The listing is that of an object, at the place of the request. */
static bool pull_find(const struct pull *p, const struct lsmem_fetch_one *one, struct pull_slot *slot)
{
	struct known_listing *listing = &slot->listing;
	uint64_t index = (uint32_t)one->cookie, segment;
	struct known_where where;
	uint32_t length;

	if (one->flags & LSMEM_FETCH_SEGMENT || index >= p->indices ||
	    !known_listing(p->known, index, listing, &segment) || segment != one->segment ||
	    !known_where(listing, p->seglets, &where) ||
	    LSMEM_LISTING_GET(listing->meta, HOME) * LSMEM_ALIGN / LSMEM_BLOCK != one->block)
		return false;
	length = (uint32_t)LSMEM_LISTING_GET(listing->meta, LENGTH);
	slot->index = index;
	slot->seglet = where.seglet;
	slot->offset = where.offset;
	slot->bytes = lsmem_entry_size(length);
	/* So many blocks are those of a scan, which would have to ask again for all but the first object. */
	if (one->blocks > 2 * lsmem_block_round(PULL_HEAD + slot->bytes) / LSMEM_BLOCK)
		return false;
	return length && length <= LSMEM_OBJECT_MAX;
}

/* Is a READ late, so that the next one would be? */
static bool pull_hangs(const struct pull *p)
{
	uint32_t i;

	for (i = 0; i < PULL_SLOTS; i++)
		if (p->slots[i].state != PULL_FREE && p->slots[i].left)
			return true;
	return false;
}

/**
 * pull_take - take a request of the kernel
 * @p: the state
 * @one: the request
 * @now: the time, ns
 *
 * Return: false: the backups are to answer it.
 */
bool pull_take(struct pull *p, const struct lsmem_fetch_one *one, uint64_t now)
{
	struct pull_slot *slot = p->slots, new = { .state = PULL_READING, .one = *one, .due_ns = now + PULL_LATE_NS };

	if (!p->open || p->stopped || p->nr_back || pull_hangs(p) || !pull_find(p, one, &new))
		return false;
	while (slot < p->slots + PULL_SLOTS && slot->state != PULL_FREE)
		slot++;
	if (slot == p->slots + PULL_SLOTS)
		return false;
	*slot = new;
	pull_piece(slot);
	return true;
}

/**
 * pull_held - how many requests has it that the backups may have to answer?
 * @p: the state
 *
 * Return: their number: so much of fetch_room() is not to be used for others.
 */
uint32_t pull_held(const struct pull *p)
{
	uint32_t nr = p->nr_back, i;

	for (i = 0; i < PULL_SLOTS; i++)
		nr += pull_has(&p->slots[i]);
	return nr;
}

/**
 * pull_has_back - is there a request for pull_back()?
 * @p: the state
 */
bool pull_has_back(const struct pull *p)
{
	return p->nr_back;
}

/**
 * pull_back - get a request that the backups are to answer
 * @p: the state
 * @one: out
 *
 * Return: false: there is none.
 */
bool pull_back(struct pull *p, struct lsmem_fetch_one *one)
{
	if (!p->nr_back)
		return false;
	*one = p->back[--p->nr_back];
	return true;
}

/* ---- READs -------------------------------------------------------------------------- */

/**
 * pull_next - get the next READ to start
 * @p: the state
 * @read: out
 *
 * Return: false: there is none now.
 */
bool pull_next(struct pull *p, struct pull_read *read)
{
	struct pull_slot *slot = p->slots;
	enum pull_kind kind;

	while (slot < p->slots + PULL_SLOTS && !slot->wanted)
		slot++;
	if (slot == p->slots + PULL_SLOTS || !p->open)
		return false;
	kind = slot->wanted & 1u << PULL_DATA ? PULL_DATA : PULL_TABLE;
	slot->wanted &= ~(1u << kind);
	slot->reading |= 1u << kind;
	read->tag = (uint32_t)(slot - p->slots) * PULL_KINDS + kind;
	if (kind == PULL_DATA) {
		read->address = p->keys.seglets.address + (uint64_t)slot->seglet * LSMEM_SEGLET_BYTES + slot->offset;
		read->key = p->keys.seglets.key;
		read->length = slot->piece;
		read->data = pull_buffer(p, slot) + PULL_HEAD + slot->have;
	} else {
		read->address = p->keys.table.address + slot->seglet * sizeof(struct lsmem_seglet);
		read->key = p->keys.table.key;
		read->length = sizeof(struct lsmem_seglet);
		read->data = pull_table(p, slot);
	}
	return true;
}

static void pull_wrong(struct pull *p, struct pull_slot *slot)
{
	p->stats.wrong++;
	pull_leave(p, slot);
}

/**
 * pull_done - a READ has ended well
 * @p: the state, open
 * @tag: of pull_next()
 */
void pull_done(struct pull *p, uint32_t tag)
{
	struct pull_slot *slot = &p->slots[tag / PULL_KINDS % PULL_SLOTS];
	struct lsmem_entry *e;

	slot->reading &= ~(1u << tag % PULL_KINDS);
	if (slot->state != PULL_READING || slot->wanted || slot->reading)
		return;
	if (slot->left) {
		slot->state = PULL_FREE;
		return;
	}
	slot->have += slot->piece;
	if (slot->have < slot->bytes) {
		slot->seglet = pull_table(p, slot)->next;
		slot->offset = 0;
		if (slot->seglet >= p->seglets)
			pull_wrong(p, slot);
		else
			pull_piece(slot);
		return;
	}
	e = (void *)(pull_buffer(p, slot) + PULL_HEAD);
	if (!known_is(&slot->listing, slot->index, e)) {
		pull_wrong(p, slot);
		return;
	}
	known_resalt(p->known, &slot->listing, e);
	slot->state = PULL_READY;
}

/* ---- Answers ------------------------------------------------------------------------- */

/**
 * pull_fills - get answers for LSMEM_REPL_FILL
 * @p: the state
 * @fills: out; their data stay until pull_filled(), which must follow
 * @max: room in @fills
 *
 * Return: how many there are in @fills.
 */
uint32_t pull_fills(struct pull *p, struct lsmem_fill_one *fills, uint32_t max)
{
	struct pull_slot *slot;
	uint32_t nr = 0;

	for (slot = p->slots; slot < p->slots + PULL_SLOTS && nr < max; slot++) {
		uint32_t end = PULL_HEAD + slot->bytes;

		if (slot->state != PULL_READY)
			continue;
		slot->state = PULL_FILLING;
		/* What an earlier entry has left there is no part of this one. */
		memset(pull_buffer(p, slot) + end, 0, lsmem_block_round(end) - end);
		fills[nr++] = (struct lsmem_fill_one){
			.cookie = slot->one.cookie,
			.data = (uintptr_t)pull_buffer(p, slot),
			.length = lsmem_block_round(end),
		};
	}
	return nr;
}

/* The kernel has refused it, or has no memory for it now, which is the affair of fetch.h. */
static void pull_answered(struct pull *p, struct pull_slot *slot, int result, uint64_t now)
{
	if (result && result != -ENOENT) {
		p->stats.wrong += result != -EAGAIN;
		pull_leave(p, slot);
		return;
	}
	if (!result) {
		p->stats.objects++;
		p->stats.bytes += slot->bytes;
	}
	p->last_ns = now;
	slot->state = PULL_FREE;
}

/**
 * pull_filled - take what the kernel has answered to LSMEM_REPL_FILL
 * @p: the state
 * @fills: as pull_fills() gave them, with the results of the kernel
 * @nr: as pull_fills() returned
 * @now: the time, ns
 */
void pull_filled(struct pull *p, const struct lsmem_fill_one *fills, uint32_t nr, uint64_t now)
{
	struct pull_slot *slot = p->slots;
	uint32_t i;

	for (i = 0; i < nr; i++, slot++) {
		while (slot->state != PULL_FILLING)
			slot++;
		pull_answered(p, slot, fills[i].result, now);
	}
}

/* ---- Time ------------------------------------------------------------------------------ */

/**
 * pull_due - when pull_late() is needed
 * @p: the state
 *
 * Return: the time, ns; FETCH_NEVER: not until something else happens.
 */
uint64_t pull_due(const struct pull *p)
{
	uint64_t due = FETCH_NEVER;
	uint32_t i;

	for (i = 0; i < PULL_SLOTS; i++)
		if (p->slots[i].state == PULL_READING && !p->slots[i].left && p->slots[i].due_ns < due)
			due = p->slots[i].due_ns;
	return due;
}

/**
 * pull_late - see to deadlines
 * @p: the state
 * @now: the time, ns
 */
void pull_late(struct pull *p, uint64_t now)
{
	struct pull_slot *slot;

	for (slot = p->slots; slot < p->slots + PULL_SLOTS; slot++) {
		if (slot->state != PULL_READING || slot->left || slot->due_ns > now)
			continue;
		p->stats.late++;
		pull_leave(p, slot);
	}
}

/**
 * pull_wants - is something to be read from the source?
 * @p: the state
 * @all: nothing of the store is on the backups alone any more
 * @now: the time, ns
 *
 * It is asked again and again. When there was nothing to be read for PULL_IDLE_S, or PULL_MOST_S are over, nothing is taken any
 * more: what is not here is on the backups.
 *
 * Return: false: CLOSE can be said: no READ is in flight, and none follows.
 */
bool pull_wants(struct pull *p, bool all, uint64_t now)
{
	uint32_t i;

	if (all || now - p->last_ns >= PULL_IDLE_S * SECOND_NS || now - p->begun_ns >= PULL_MOST_S * SECOND_NS)
		p->stopped = true;
	for (i = 0; i < PULL_SLOTS; i++)
		if (p->slots[i].state != PULL_FREE)
			return true;
	return p->nr_back || !p->stopped;
}

/**
 * pull_stats - get counters
 * @p: the state
 * @stats: out
 */
void pull_stats(const struct pull *p, struct pull_stats *stats)
{
	*stats = p->stats;
}
