// SPDX-License-Identifier: GPL-2.0
/*
 * A model of the kernel module, compaction and cleaning: see model.h.
 *
 * A compaction is one step, because the daemon does not see it.  A pass goes on between operations
 * of writers and events of the stream.
 */
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "../../kmod/policy.h"

static bool model_in(const struct model_retire *retire, uint64_t id)
{
	uint32_t i;

	for (i = 0; i < retire->nr; i++)
		if (retire->victims[i] == id)
			return true;
	return false;
}

/*
 * Invariant 13: a pass may drop a tombstone if no segment that is or may be listed, except the
 * victims of this pass, can hold an older copy.
 */
static bool model_droppable(const struct model *m, const struct model_retire *retire,
			    const struct model_entry *e)
{
	uint32_t i;

	if (!RULE(K_RELOCATE_DELETE))
		return true;
	if (!RULE(K_DELETE_BARRIER) && e->of) {
		for (i = 0; i < MODEL_SEGMENTS; i++)
			if (m->segments[i].life && m->segments[i].id == e->of &&
			    !model_in(retire, e->of))
				return false;
		return true;
	}
	for (i = 0; i < MODEL_SEGMENTS; i++) {
		const struct model_segment *s = &m->segments[i];

		if (!s->life || model_in(retire, s->id) || s->id >= e->barrier)
			continue;
		return false;
	}
	return true;
}

/* Is entry @n of @seg live, when the segments of @retire are freed? */
static bool model_counts(const struct model *m, const struct model_retire *retire,
			 const struct model_segment *seg, uint32_t n)
{
	const struct model_entry *e = &seg->entries[n];
	const struct model_handle *h = &m->handles[lsmem_handle_index(e->key) % MODEL_HANDLES];

	if (e->type == LSMEM_TYPE_OBJECT)
		return h->live && h->segment == seg - m->segments && h->entry == n;
	return e->type == LSMEM_TYPE_TOMBSTONE && !model_droppable(m, retire, e);
}

/* ---- Compaction -------------------------------------------------------- */

/**
 * model_compact - compact a segment in memory
 * @m: model
 * @slot: segment index; if the segment may not be compacted, nothing happens
 *
 * Moves the live entries together.  Their headers, their home offsets and the bytes on the backup
 * do not change.
 */
void model_compact(struct model *m, uint32_t slot)
{
	static const struct model_retire none;
	struct model_segment *seg = &m->segments[slot];
	bool early = !seg->close_acked;
	uint32_t at = 0, kept = 0, n;
	uint8_t *copy;

	/* Invariant 11: the daemon reads this memory until it has acknowledged the close. */
	if (seg->life != MODEL_CLOSED || (early && RULE(K_COMPACT_CLOSED)))
		return;
	copy = malloc(LSMEM_LONG_BYTES + LSMEM_OBJECT_MAX);
	for (n = 0; n < seg->nr_entries; n++) {
		struct model_entry e = seg->entries[n];

		if (!model_counts(m, &none, seg, n)) {
			m->tombstones_dropped += e.type == LSMEM_TYPE_TOMBSTONE;
			continue;
		}
		/* Entries move downwards, lowest first, so none is overwritten before it moves. */
		model_copy(m, seg, e.at, copy, e.size);
		e.at = at;
		at += e.size;
		model_write(m, seg, e.at, copy, e.size);
		if (early)
			continue;
		if (e.type == LSMEM_TYPE_OBJECT)
			m->handles[lsmem_handle_index(e.key)].entry = kept;
		seg->entries[kept++] = e;
	}
	free(copy);
	if (early)
		return;
	seg->nr_entries = seg->nr_whole = kept;
	model_shrink(m, seg, at);
	m->compacted++;
}

/* ---- Cleaning ---------------------------------------------------------- */

static int model_older(const void *a, const void *b)
{
	const struct model_survivor *x = a, *y = b;

	if (x->version != y->version)
		return x->version < y->version ? -1 : 1;
	return x->segment != y->segment ? (x->segment < y->segment ? -1 : 1) :
	       x->entry < y->entry ? -1 : x->entry > y->entry;
}

/**
 * model_pass_begin - begin a pass, as for LSMEM_REPL_CLEAN
 * @m: model
 * @ids, @nr: the segments to clean, in this order
 * Return: false if no pass begins.
 */
bool model_pass_begin(struct model *m, const uint64_t *ids, uint32_t nr)
{
	struct model_pass *pass = &m->pass;
	uint32_t i, n, s;

	if (pass->under_way || m->nr_retires == MODEL_RETIRES)
		return false;
	memset(pass, 0, sizeof(*pass));
	for (i = 0; i < nr && pass->retire.nr < MODEL_VICTIMS; i++) {
		struct model_segment *seg = NULL;

		for (s = 0; s < MODEL_SEGMENTS; s++)
			if (m->segments[s].life == MODEL_CLOSED && m->segments[s].close_acked &&
			    m->segments[s].id == ids[i])
				seg = &m->segments[s];
		if (!seg)
			continue;
		if (pass->nr + seg->nr_entries > MODEL_SURVIVORS)
			break;
		for (n = 0; n < seg->nr_entries; n++, pass->nr++) {
			pass->order[pass->nr].version = seg->entries[n].version;
			pass->order[pass->nr].segment = seg - m->segments;
			pass->order[pass->nr].entry = n;
		}
		seg->life = MODEL_VICTIM;
		pass->retire.victims[pass->retire.nr++] = seg->id;
	}
	qsort(pass->order, pass->nr, sizeof(*pass->order), model_older);
	pass->under_way = pass->retire.nr;
	return pass->under_way;
}

/* Move one entry of a victim to a survivor, if it is live. False if there is no room. */
static bool model_relocate(struct model *m, struct model_segment *seg, uint32_t n)
{
	static uint8_t payload[LSMEM_OBJECT_MAX];
	struct model_entry e = seg->entries[n];
	uint32_t segment, entry;
	struct lsmem_entry header;

	if (!model_counts(m, &m->pass.retire, seg, n)) {
		m->tombstones_dropped += e.type == LSMEM_TYPE_TOMBSTONE;
		return true;
	}
	model_copy(m, seg, e.at, &header, sizeof(header));
	model_copy(m, seg, e.at + lsmem_entry_header(&header), payload, e.length);
	if (!model_append(m, 0, e.type, e.key, e.version, lsmem_entry_table(&header), payload,
			  e.type == LSMEM_TYPE_TOMBSTONE ? e.barrier : e.length, true, &segment,
			  &entry))
		return false;
	m->moved++;
	m->segments[segment].entries[entry].of = e.of;
	if (e.type == LSMEM_TYPE_OBJECT) {
		m->handles[lsmem_handle_index(e.key)].segment = segment;
		m->handles[lsmem_handle_index(e.key)].entry = entry;
	}
	return true;
}

/* The pass is complete: retire its victims. */
static void model_pass_end(struct model *m)
{
	struct model_retire *retire = &m->retires[m->nr_retires++];
	uint32_t i;

	*retire = m->pass.retire;
	/* Invariant 9: the victims wait for all bytes that are reserved now, in all segments. */
	for (i = 0; i < MODEL_SEGMENTS; i++) {
		if (!m->segments[i].life || model_in(retire, m->segments[i].id))
			continue;
		retire->after[retire->nr_after] = m->segments[i].id;
		retire->offset[retire->nr_after++] = m->segments[i].reserved;
	}
	m->cleaned += retire->nr;
	m->passes++;
	m->pass.under_way = false;
}

/**
 * model_pass_step - continue a pass
 * @m: model
 * @nr: number of entries to handle at most; the pass waits if there is no room
 */
void model_pass_step(struct model *m, uint32_t nr)
{
	struct model_pass *pass = &m->pass;

	for (; pass->under_way && nr && pass->next < pass->nr; nr--, pass->next++)
		if (!model_relocate(m, &m->segments[pass->order[pass->next].segment],
				    pass->order[pass->next].entry))
			return;
	if (pass->under_way && pass->next == pass->nr)
		model_pass_end(m);
}

/**
 * model_clean - make a complete pass over random segments
 * @m: model
 * @victims: number of segments
 *
 * If there is no room for all survivors, the pass ends early; moved entries stay moved.
 */
void model_clean(struct model *m, uint32_t victims)
{
	uint32_t start = random_below(m->random, MODEL_SEGMENTS), nr = 0, i;
	uint64_t ids[MODEL_SEGMENTS];

	if (m->pass.under_way)
		return;
	for (i = 0; i < MODEL_SEGMENTS && nr < victims; i++) {
		const struct model_segment *seg = &m->segments[(start + i) % MODEL_SEGMENTS];

		if (seg->life == MODEL_CLOSED && seg->close_acked)
			ids[nr++] = seg->id;
	}
	if (!model_pass_begin(m, ids, nr))
		return;
	model_pass_step(m, UINT32_MAX);
	if (!m->pass.under_way)
		return;
	m->pass.under_way = false;
	for (i = 0; i < MODEL_SEGMENTS; i++)
		if (m->segments[i].life == MODEL_VICTIM &&
		    model_in(&m->pass.retire, m->segments[i].id))
			m->segments[i].life = MODEL_CLOSED;
}

/* ---- The window for the daemon ----------------------------------------- */

/**
 * model_window - fill the window of segments
 * @m: model
 * @want, @table: out
 *
 * Segments of the model are small.  In the table their numbers are scaled up to the full size;
 * otherwise all would look empty.
 */
void model_window(const struct model *m, struct lsmem_cleaning *want,
		  struct lsmem_segment_stat table[MODEL_SEGMENTS])
{
	static const struct model_retire none;
	uint32_t left = m->most_segments, i, n;

	memset(table, 0, MODEL_SEGMENTS * sizeof(*table));
	for (i = 0; i < MODEL_SEGMENTS; i++) {
		const struct model_segment *seg = &m->segments[i];
		uint64_t scale = LSMEM_SEGMENT_BYTES / (seg->limit + 1), live = 0, held = 0;

		if (!seg->life)
			continue;
		left -= seg->life >= MODEL_HEAD;
		for (n = 0; n < seg->nr_entries; n++) {
			uint32_t size = seg->entries[n].size;

			held += size;
			live += model_counts(m, &none, seg, n) ? size : 0;
		}
		table[i] = (struct lsmem_segment_stat) {
			.id = seg->id,
			.live = live * scale < LSMEM_SEGMENT_BYTES ? live * scale : LSMEM_SEGMENT_BYTES,
			.held = held * scale < LSMEM_SEGMENT_BYTES ? held * scale : LSMEM_SEGMENT_BYTES,
			.home = seg->life >= MODEL_HEAD ? LSMEM_SEGMENT_BYTES : 0,
			.flags = seg->life == MODEL_CLOSED && seg->close_acked ?
				 LSMEM_SEGMENT_CLEANABLE : 0,
		};
	}
	*want = (struct lsmem_cleaning) {
		.level = LSMEM_LEVEL_CLEAN,
		.urgent = left <= MODEL_SPARES,
		.utilization_max = left <= MODEL_SPARES ? LSMEM_UTILIZATION_FORCED : 980,
		.room = (uint64_t)(left / 2 > 2 ? left / 2 : left < 2 ? left : 2) *
			(LSMEM_SEGMENT_BYTES / 2),
		.store_time = m->clock,
	};
}
