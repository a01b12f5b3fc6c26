// SPDX-License-Identifier: GPL-2.0
/* A model of the kernel module, the log and the stream: see model.h. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "base/memory.h"
#include "format/format.h"

#define RECORD_ROOM	(2 * LSMEM_LONG_BYTES)

void model_fail(struct model *m, const char *format, ...)
{
	va_list args;

	if (m->error[0])
		return;
	va_start(args, format);
	vsnprintf(m->error, sizeof(m->error), format, args);
	va_end(args);
}

struct model *model_new(uint64_t *random, const uint8_t *uuid, uint32_t most_segments)
{
	struct model *m = calloc(1, sizeof(*m));

	m->random = random;
	memcpy(m->uuid, uuid, sizeof(m->uuid));
	m->memory = memory_get((size_t)MODEL_SEGLETS * LSMEM_SEGLET_BYTES);
	m->most_segments = most_segments < MODEL_SEGMENTS ? most_segments : MODEL_SEGMENTS;
	model_reset(m);
	return m;
}

void model_free(struct model *m)
{
	uint32_t i;

	if (!m)
		return;
	for (i = 0; i < MODEL_SEGMENTS; i++)
		free(m->segments[i].entries);
	free(m->oracle.ops);
	memory_put(m->memory);
	free(m);
}

/* The memory of the host is lost.  The oracle stays. */
void model_reset(struct model *m)
{
	uint32_t i;

	for (i = 0; i < MODEL_SEGMENTS; i++) {
		struct model_entry *entries = m->segments[i].entries;
		uint32_t room = m->segments[i].room_entries;

		memset(&m->segments[i], 0, offsetof(struct model_segment, seglets));
		m->segments[i].nr_entries = m->segments[i].nr_whole = 0;
		m->segments[i].entries = entries;
		m->segments[i].room_entries = room;
	}
	for (i = 0; i < MODEL_SEGLETS; i++)
		m->free[i] = MODEL_SEGLETS - 1 - i;
	m->nr_free = MODEL_SEGLETS;
	memset(m->heads, 0, sizeof(m->heads));
	memset(m->handles, 0, sizeof(m->handles));
	m->nr_pending = 0;
	m->nr_retires = 0;
	m->pass.under_way = false;
	m->generation_wanted = 0;
	m->resuming = 0;
}

/* ---- Memory ------------------------------------------------------------ */

static uint8_t *model_at(const struct model *m, const struct model_segment *seg, uint32_t at)
{
	return m->memory + (size_t)seg->seglets[at / LSMEM_SEGLET_BYTES] * LSMEM_SEGLET_BYTES +
	       at % LSMEM_SEGLET_BYTES;
}

static bool model_grow(struct model *m, struct model_segment *seg, uint32_t to)
{
	uint32_t needed = (to + LSMEM_SEGLET_BYTES - 1) / LSMEM_SEGLET_BYTES;

	if (needed > seg->nr_seglets && needed - seg->nr_seglets > m->nr_free)
		return false;
	while (seg->nr_seglets < needed) {
		uint32_t frame = m->free[--m->nr_free];

		m->table[frame].next = LSMEM_NO_SEGLET;
		m->table[frame].incarnation++;
		if (seg->nr_seglets)
			m->table[seg->seglets[seg->nr_seglets - 1]].next = frame;
		seg->seglets[seg->nr_seglets++] = frame;
	}
	return true;
}

void model_write(struct model *m, struct model_segment *seg, uint32_t at, const void *data,
		 uint32_t length)
{
	while (length) {
		uint32_t piece = LSMEM_SEGLET_BYTES - at % LSMEM_SEGLET_BYTES;

		if (piece > length)
			piece = length;
		if (data) {
			memcpy(model_at(m, seg, at), data, piece);
			data = (const uint8_t *)data + piece;
		} else {
			memset(model_at(m, seg, at), 0, piece);
		}
		at += piece;
		length -= piece;
	}
}

void model_copy(const struct model *m, const struct model_segment *seg, uint32_t at, void *data,
		uint32_t length)
{
	while (length) {
		uint32_t piece = LSMEM_SEGLET_BYTES - at % LSMEM_SEGLET_BYTES;

		if (piece > length)
			piece = length;
		memcpy(data, model_at(m, seg, at), piece);
		data = (uint8_t *)data + piece;
		at += piece;
		length -= piece;
	}
}

/* ---- Segments ---------------------------------------------------------- */

static struct model_segment *model_find(struct model *m, uint64_t id)
{
	uint32_t i;

	for (i = 0; i < MODEL_SEGMENTS; i++)
		if (m->segments[i].life && m->segments[i].id == id)
			return &m->segments[i];
	return NULL;
}

static struct model_segment *model_segment_new(struct model *m, uint64_t id)
{
	static const uint32_t most[] = { 2000, 14000, 200000 };
	struct model_segment *seg = m->segments;
	uint32_t used = 0, i;

	for (i = 0; i < MODEL_SEGMENTS; i++)
		used += m->segments[i].life != MODEL_FREE;
	if (used >= m->most_segments)
		return NULL;
	while (seg->life)
		seg++;
	memset(seg, 0, offsetof(struct model_segment, seglets));
	seg->nr_entries = seg->nr_whole = 0;
	seg->id = id;
	seg->generation = 1;
	seg->salt = lsmem_segment_salt(m->uuid, id, 1);
	seg->life = MODEL_OPENING;
	seg->limit = 400 + random_below(m->random, most[m->size]);
	return seg;
}

/* Give back the seglets behind the first @bytes. */
void model_shrink(struct model *m, struct model_segment *seg, uint32_t bytes)
{
	while (seg->nr_seglets && (uint64_t)(seg->nr_seglets - 1) * LSMEM_SEGLET_BYTES >= bytes)
		m->free[m->nr_free++] = seg->seglets[--seg->nr_seglets];
	if (seg->nr_seglets)
		m->table[seg->seglets[seg->nr_seglets - 1]].next = LSMEM_NO_SEGLET;
}

static void model_segment_free(struct model *m, struct model_segment *seg)
{
	model_shrink(m, seg, 0);
	seg->life = MODEL_FREE;
	seg->nr_entries = 0;
}

void model_spares(struct model *m)
{
	uint32_t spares = 0, i;

	for (i = 0; i < MODEL_SEGMENTS; i++)
		spares += m->segments[i].life == MODEL_OPENING ||
			  m->segments[i].life == MODEL_SPARE;
	while (spares++ < MODEL_SPARES && model_segment_new(m, m->next_segment))
		m->next_segment++;
}

static void model_advance(struct model_segment *seg)
{
	while (seg->nr_whole < seg->nr_entries && seg->entries[seg->nr_whole].whole) {
		const struct model_entry *e = &seg->entries[seg->nr_whole++];

		seg->committed = e->at + e->size;
	}
	if (seg->final && seg->committed == seg->reserved)
		seg->life = MODEL_CLOSED;
}

static uint32_t model_entry_add(struct model_segment *seg, const struct model_entry *e)
{
	if (seg->nr_entries == seg->room_entries) {
		seg->room_entries = seg->room_entries ? 2 * seg->room_entries : 64;
		seg->entries = realloc(seg->entries, seg->room_entries * sizeof(*e));
	}
	seg->entries[seg->nr_entries] = *e;
	return seg->nr_entries++;
}

static void model_stamp(struct model *m, struct model_segment *seg, uint32_t at,
			struct lsmem_entry *e, uint32_t pcrc)
{
	e->crc = __cpu_to_le32(lsmem_entry_crc(e, pcrc, seg->salt));
	model_write(m, seg, at, e, lsmem_entry_header(e));
}

/* Reserve, copy and stamp an entry at the end of a segment. */
static bool model_put_entry(struct model *m, struct model_segment *seg, uint32_t type,
			    uint64_t key, uint64_t version, uint32_t table, const void *payload,
			    uint64_t value, bool whole, uint32_t *entry)
{
	uint32_t at = lsmem_entry_start(seg->reserved), to;
	/* An object has the same interval in all its copies. */
	struct lsmem_entry header = lsmem_entry_make(type, value, key, version,
						     lsmem_handle_index(key) * 7 % 32, table, at);
	uint32_t length = lsmem_entry_length(&header);
	struct model_entry e = {
		.key = key, .version = version, .at = at, .size = lsmem_entry_bytes(&header),
		.barrier = type == LSMEM_TYPE_TOMBSTONE ? value : 0, .length = length,
		.type = type, .whole = whole,
	};

	if (!model_grow(m, seg, at + e.size))
		return false;
	to = at + lsmem_entry_header(&header);
	model_write(m, seg, seg->reserved, NULL, at - seg->reserved);
	model_write(m, seg, to, payload, length);
	model_write(m, seg, to + length, NULL, at + e.size - to - length);
	model_stamp(m, seg, at, &header, lsmem_crc32c(~0u, payload, length));
	seg->reserved = at + e.size;
	seg->listed += type == LSMEM_TYPE_OBJECT || type == LSMEM_TYPE_TOMBSTONE;
	*entry = model_entry_add(seg, &e);
	model_advance(seg);
	return true;
}

static void model_record(struct model *m, struct model_segment *seg)
{
	uint32_t entry;

	if (seg->reserved == seg->emitted)
		return;
	model_put_entry(m, seg, LSMEM_TYPE_COMMIT, 0, m->clock, 0, NULL, seg->acked, true, &entry);
}

/* Close the segment of a head and take a listed spare. False if there is none. */
bool model_roll(struct model *m, uint32_t head)
{
	struct model_segment *old = m->heads[head] ? &m->segments[m->heads[head] - 1] : NULL;
	struct model_segment *seg = NULL;
	uint32_t i, spares = 0;

	for (i = 0; i < MODEL_SEGMENTS; i++) {
		struct model_segment *s = &m->segments[i];

		/* Invariant 8: the successor is listed before its predecessor closes. */
		if (s->life != MODEL_SPARE &&
		    (RULE(K_CLOSE_SUCCESSOR) || s->life != MODEL_OPENING || !s->open_emitted))
			continue;
		spares++;
		if (!seg || s->id < seg->id)
			seg = s;
	}
	/* The last spare is for the cleaner, which makes room. */
	if (!seg || (head && spares < 2))
		return false;
	if (old) {
		model_record(m, old);
		old->final = true;
		model_advance(old);
	}
	seg->life = MODEL_HEAD;
	seg->survivor = !head;
	m->heads[head] = seg - m->segments + 1;
	model_spares(m);
	return true;
}

/* Return: where entries with payloads of @lengths bytes end that begin at @at. */
static uint32_t model_end(uint32_t at, const uint32_t *lengths, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr; i++)
		at = lsmem_entry_start(at) + lsmem_entry_size(lengths[i]);
	return at;
}

/* Return: the segment of a head with room for entries side by side; NULL: there is none. */
static struct model_segment *model_room(struct model *m, uint32_t head, const uint32_t *lengths,
					uint32_t nr)
{
	struct model_segment *seg = m->heads[head] ? &m->segments[m->heads[head] - 1] : NULL;
	uint32_t end;

	if (seg) {
		end = model_end(seg->reserved, lengths, nr);
		if ((!seg->reserved || end <= seg->limit) &&
		    lsmem_segment_fits(end + RECORD_ROOM, seg->listed + nr))
			return seg;
	}
	return model_roll(m, head) ? &m->segments[m->heads[head] - 1] : NULL;
}

bool model_append(struct model *m, uint32_t head, uint32_t type, uint64_t key, uint64_t version,
		  uint32_t table, const void *payload, uint64_t value, bool whole,
		  uint32_t *segment, uint32_t *entry)
{
	uint32_t length = type == LSMEM_TYPE_OBJECT ? value : 0;
	struct model_segment *seg = model_room(m, head, &length, 1);

	if (!seg)
		return false;
	if (!model_put_entry(m, seg, type, key, version, table, payload, value, whole, entry))
		return false;
	*segment = seg - m->segments;
	return true;
}

bool model_append_record(struct model *m, uint32_t head, const uint32_t *lengths, uint32_t nr,
			 uint32_t *segment, uint32_t *record, uint32_t *end)
{
	uint32_t sizes[1 + MODEL_GROUP] = { 0 }, at;
	struct model_segment *seg;

	memcpy(sizes + 1, lengths, nr * sizeof(*lengths));
	seg = model_room(m, head, sizes, 1 + nr);
	if (!seg)
		return false;
	at = model_end(seg->reserved, sizes, 1);
	*end = model_end(at, lengths, nr);
	if (!model_grow(m, seg, *end))
		return false;
	/* The appends that follow do not roll the head. */
	if (seg->limit < *end)
		seg->limit = *end;
	*segment = seg - m->segments;
	model_put_entry(m, seg, LSMEM_TYPE_GROUP, 0, m->clock, 0, NULL, *end - at, false, record);
	seg->entries[*record].inside = true;
	return true;
}

void model_whole(struct model *m, uint32_t segment, uint32_t entry)
{
	m->segments[segment].entries[entry].whole = true;
	model_advance(&m->segments[segment]);
}

/* A refused append becomes padding before the committed prefix passes it (invariant 7). */
void model_pad(struct model *m, uint32_t segment, uint32_t entry)
{
	struct model_segment *seg = &m->segments[segment];
	struct model_entry *e = &seg->entries[entry];

	m->refused++;
	if (RULE(K_LOSER_PADDED)) {
		uint32_t length = e->size - LSMEM_LONG_BYTES;
		struct lsmem_entry pad = lsmem_entry_make(LSMEM_TYPE_PAD, length, 0, 0, 0, 0, e->at);

		seg->listed -= e->type == LSMEM_TYPE_OBJECT || e->type == LSMEM_TYPE_TOMBSTONE;
		e->type = LSMEM_TYPE_PAD;
		e->length = length;
		model_stamp(m, seg, e->at, &pad, ~0u);
	}
	model_whole(m, segment, entry);
}

/* ---- The stream -------------------------------------------------------- */

static uint32_t model_emit_segment(struct model *m, struct model_segment *seg,
				   struct lsmem_event *e)
{
	memset(e, 0, sizeof(*e));
	e->segment = seg->id;
	e->generation = seg->generation;
	e->first_seglet = seg->nr_seglets ? seg->seglets[0] : LSMEM_NO_SEGLET;
	e->flags = seg->survivor ? LSMEM_EVENT_SURVIVOR : 0;
	if (seg->life == MODEL_OPENING && !seg->open_emitted) {
		e->type = LSMEM_EVENT_OPEN;
		seg->open_emitted = true;
		return 1;
	}
	if (seg->life < MODEL_HEAD || seg->loaded)
		return 0;
	e->flags = 0;
	if (seg->life == MODEL_HEAD && seg->committed == seg->reserved)
		model_record(m, seg);
	if (seg->emitted < seg->committed) {
		uint32_t to = seg->committed;

		/* After a restart the module gives ranges in pieces of whole entries. */
		if (m->pieces || random_chance(m->random, 20)) {
			uint32_t n = random_below(m->random, seg->nr_whole);

			/* Invariant 21: a range ends where a group ends, or outside. */
			while (seg->entries[n].inside && RULE(K_GROUP_BORDER))
				n++;
			if (seg->entries[n].at + seg->entries[n].size > seg->emitted)
				to = seg->entries[n].at + seg->entries[n].size;
		}
		e->type = LSMEM_EVENT_RANGE;
		e->first_seglet = seg->seglets[seg->emitted / LSMEM_SEGLET_BYTES];
		e->from = seg->emitted;
		e->to = to;
		seg->emitted = to;
		return 1;
	}
	if (seg->life >= MODEL_CLOSED && !seg->close_emitted) {
		e->type = LSMEM_EVENT_CLOSE;
		e->to = seg->reserved;
		e->entries = seg->listed;
		seg->close_emitted = true;
		return 1;
	}
	return 0;
}

static uint32_t model_emit_retire(struct model *m, struct lsmem_event *events, uint32_t room)
{
	struct model_retire *retire;
	uint32_t i, n;

	for (n = 0; n < m->nr_retires && m->retires[n].emitted; n++)
		;
	retire = &m->retires[n];
	if (n == m->nr_retires || retire->nr > room)
		return 0;
	for (i = 0; i < retire->nr_after && RULE(K_SURVIVORS); i++) {
		const struct model_segment *seg = model_find(m, retire->after[i]);

		if (seg && seg->emitted < retire->offset[i] && !seg->loaded)
			return 0;
	}
	for (i = 0; i < retire->nr; i++) {
		const struct model_segment *seg = model_find(m, retire->victims[i]);

		memset(&events[i], 0, sizeof(events[i]));
		events[i].type = LSMEM_EVENT_RETIRE;
		events[i].flags = i + 1 < retire->nr ? LSMEM_EVENT_MORE : 0;
		events[i].segment = seg->id;
		events[i].generation = seg->generation;
	}
	retire->emitted = true;
	retire->given = true;
	return retire->nr;
}

static uint32_t model_emit_resume(struct model *m, struct lsmem_event *e)
{
	struct model_segment *seg = NULL;
	uint32_t i, n, v;

	/* Oldest first: find the segment with the next id. */
	for (i = 0; i < MODEL_SEGMENTS; i++) {
		struct model_segment *s = &m->segments[i];

		if (s->life && s->id >= m->resuming && (!seg || s->id < seg->id))
			seg = s;
	}
	memset(e, 0, sizeof(*e));
	e->type = LSMEM_EVENT_RESUME;
	if (!seg) {
		e->segment = ~0ull;
		m->resuming = 0;
		return 1;
	}
	m->resuming = seg->id + 1;
	e->segment = seg->id;
	e->generation = seg->generation;
	e->first_seglet = seg->nr_seglets ? seg->seglets[0] : LSMEM_NO_SEGLET;
	e->from = seg->loaded ? seg->home : seg->acked;
	e->to = seg->loaded ? seg->home : seg->committed;
	e->flags = (seg->open_acked ? LSMEM_EVENT_OPENED : 0) |
		   (seg->close_acked ? LSMEM_EVENT_CLOSED : 0) |
		   (seg->survivor ? LSMEM_EVENT_SURVIVOR : 0);
	for (n = 0; n < m->nr_retires; n++)
		for (v = 0; v < m->retires[n].nr; v++)
			if (m->retires[n].victims[v] == seg->id && m->retires[n].given)
				e->flags |= LSMEM_EVENT_RETIRED;
	return 1;
}

static void model_resumed(struct model *m)
{
	uint32_t i;

	for (i = 0; i < MODEL_SEGMENTS; i++) {
		struct model_segment *seg = &m->segments[i];

		seg->emitted = seg->acked;
		seg->open_emitted = seg->open_acked;
		seg->close_emitted = seg->close_acked;
	}
	for (i = 0; i < m->nr_retires; i++)
		m->retires[i].emitted = false;
}

/* A new daemon attaches to a store that has stayed up. */
void model_attach(struct model *m)
{
	m->resuming = 1;
}

uint32_t model_next(struct model *m, struct lsmem_event *events, uint32_t room)
{
	uint32_t nr = 0, start, i;

	while (nr < room && m->resuming) {
		nr += model_emit_resume(m, &events[nr]);
		if (!m->resuming)
			model_resumed(m);
	}
	if (m->resuming)
		return nr;
	start = random_below(m->random, MODEL_SEGMENTS);
	for (i = 0; i < MODEL_SEGMENTS && nr < room; i++) {
		struct model_segment *seg = &m->segments[(start + i) % MODEL_SEGMENTS];

		if (random_chance(m->random, 80))
			nr += model_emit_segment(m, seg, &events[nr]);
	}
	if (nr < room)
		nr += model_emit_retire(m, events + nr, room - nr);
	return nr;
}

static void model_ack_retire(struct model *m, uint64_t last)
{
	struct model_retire *retire = &m->retires[0];
	uint32_t i;

	if (!m->nr_retires || !retire->emitted || retire->victims[retire->nr - 1] != last) {
		model_fail(m, "retirement of %llu acknowledged out of order",
			   (unsigned long long)last);
		return;
	}
	for (i = 0; i < retire->nr; i++)
		model_segment_free(m, model_find(m, retire->victims[i]));
	m->nr_retires--;
	memmove(retire, retire + 1, m->nr_retires * sizeof(*retire));
	model_spares(m);
}

void model_ack(struct model *m, const struct lsmem_ack_one *ack)
{
	struct model_segment *seg = model_find(m, ack->segment);

	if (!seg) {
		model_fail(m, "acknowledgement %u of segment %llu, which is not there", ack->type,
			   (unsigned long long)ack->segment);
		return;
	}
	switch (ack->type) {
	case LSMEM_EVENT_OPEN:
		if (!seg->open_emitted || seg->open_acked)
			break;
		seg->open_acked = true;
		if (seg->life == MODEL_OPENING)
			seg->life = MODEL_SPARE;
		return;
	case LSMEM_EVENT_RANGE:
		if (ack->to > seg->emitted || ack->to <= seg->acked)
			break;
		seg->acked = ack->to;
		oracle_acked(m, seg->id, ack->to);
		return;
	case LSMEM_ACK_RECEIVED:
		if (ack->to > seg->emitted || ack->to <= seg->acked)
			break;
		oracle_received(m, seg->id, ack->to);
		return;
	case LSMEM_EVENT_CLOSE:
		if (!seg->close_emitted || seg->close_acked || seg->acked != seg->reserved)
			break;
		seg->close_acked = true;
		return;
	case LSMEM_EVENT_RETIRE:
		model_ack_retire(m, ack->segment);
		return;
	}
	model_fail(m, "acknowledgement %u of segment %llu to %u was not asked for", ack->type,
		   (unsigned long long)ack->segment, ack->to);
}

/* ---- Recovery ---------------------------------------------------------- */

void model_load(struct model *m, uint64_t segment, uint32_t generation, uint32_t sealed,
		const uint8_t *data, uint32_t length)
{
	struct model_segment *seg = model_segment_new(m, segment);
	uint32_t at = 0;

	if (!seg) {
		model_fail(m, "recovery adopts more segments than the backup holds");
		return;
	}
	seg->salt = lsmem_segment_salt(m->uuid, segment, generation);
	seg->generation = generation;
	seg->life = MODEL_CLOSED;
	seg->loaded = seg->final = true;
	seg->open_emitted = seg->open_acked = seg->close_emitted = seg->close_acked = true;
	seg->home = sealed;
	if (!model_grow(m, seg, length)) {
		model_fail(m, "no memory for what recovery loads");
		return;
	}
	model_write(m, seg, 0, data, length);
	while (at < length) {
		const struct lsmem_entry *e = (const void *)(data + at);
		uint64_t key = lsmem_entry_handle(e);
		struct model_entry entry = {
			.key = key, .version = lsmem_entry_version(e), .at = at,
			.type = lsmem_entry_type(e), .whole = true,
		};
		struct model_handle *h = &m->handles[lsmem_handle_index(key) % MODEL_HANDLES];

		if (length - at < LSMEM_LONG_BYTES || !lsmem_entry_sane(e) ||
		    lsmem_entry_bytes(e) > length - at ||
		    !lsmem_entry_valid(e, format_payload(e), seg->salt) ||
		    lsmem_handle_index(key) >= MODEL_HANDLES) {
			model_fail(m, "recovery loads what is no entry, segment %llu",
				   (unsigned long long)segment);
			return;
		}
		entry.size = lsmem_entry_bytes(e);
		entry.length = lsmem_entry_length(e);
		entry.barrier = entry.type == LSMEM_TYPE_TOMBSTONE ? lsmem_entry_value(e) : 0;
		at += entry.size;
		model_entry_add(seg, &entry);
		seg->nr_whole++;
		if (entry.type != LSMEM_TYPE_OBJECT)
			continue;
		if (h->live) {
			model_fail(m, "recovery loads index %u twice",
				   (uint32_t)lsmem_handle_index(key));
			return;
		}
		if (!content_is(format_payload(e), entry.length, key, entry.version))
			model_fail(m, "handle %#llx version %#llx has wrong bytes",
				   (unsigned long long)key, (unsigned long long)entry.version);
		*h = (struct model_handle) {
			.generation = lsmem_handle_generation(key), .live = true,
			.version = entry.version, .length = entry.length,
			.segment = seg - m->segments, .entry = seg->nr_entries - 1,
		};
		oracle_found(m, key, entry.version, entry.length);
	}
}

void model_activate(struct model *m, uint32_t era, uint32_t floor, uint32_t ceiling,
		    uint64_t time, uint64_t next_segment)
{
	/* Invariant 14. */
	if (era <= m->oracle.era)
		model_fail(m, "era %u has been used before", era);
	if (floor < m->oracle.generation)
		model_fail(m, "generation %u has been used before", m->oracle.generation);
	if (time < m->oracle.time)
		model_fail(m, "the clock went back: %llu after %llu", (unsigned long long)time,
			   (unsigned long long)m->oracle.time);
	if (next_segment <= m->oracle.segment)
		model_fail(m, "segment %llu has been used before",
			   (unsigned long long)next_segment);
	m->era = era;
	m->oracle.era = era;
	m->generation_floor = floor;
	m->generation_ceiling = ceiling;
	m->clock = time;
	m->next_segment = next_segment;
	m->recovered++;
	model_spares(m);
}
