// SPDX-License-Identifier: GPL-2.0
/* A model of the kernel module, objects: see model.h. */
#include <string.h>

#include "model.h"

static uint64_t model_version(const struct model *m, uint64_t old)
{
	uint64_t version = lsmem_version_make(m->era, m->clock);

	return version > old ? version : old + 1;
}

/* Prepare an append.  @length: of the payload; 0: free the object. */
static bool model_prepare(struct model *m, uint32_t index, uint32_t length,
			  struct model_pending *p)
{
	struct model_handle *h = &m->handles[index];
	uint32_t i;

	*p = (struct model_pending) {
		.index = index, .length = length, .alloc = !h->live, .free = !length,
	};
	if (h->live) {
		p->generation = h->generation;
		p->expected = h->version;
	} else {
		for (i = 0; i < m->nr_pending; i++)
			if (m->pending[i].index == index && m->pending[i].alloc)
				return false;
		p->generation = (h->generation > m->generation_floor ? h->generation :
				 m->generation_floor) + 1;
		if (random_chance(m->random, 2))
			p->generation += random_below(m->random, 2000);
		if (p->generation > m->generation_ceiling) {
			m->generation_wanted = p->generation + 100;
			return false;
		}
		/* Even if the append fails, this generation is not given out again. */
		h->generation = p->generation;
		if (p->generation > m->oracle.generation)
			m->oracle.generation = p->generation;
	}
	return true;
}

/* Reserve, copy and stamp an append that is prepared.  The entry is not committed. */
static bool model_stamp_append(struct model *m, uint32_t head, struct model_pending *p)
{
	static uint8_t payload[LSMEM_OBJECT_MAX];
	uint64_t key = lsmem_handle_make(p->index, p->generation);
	uint64_t version = model_version(m, p->alloc ? 0 : m->handles[p->index].version);
	const struct model_entry *e;

	if (!p->free)
		content_fill(payload, p->length, key, version);
	if (!model_append(m, head, p->free ? LSMEM_TYPE_TOMBSTONE : LSMEM_TYPE_OBJECT, key, version,
			  p->index % 5, payload, p->free ? m->next_segment : p->length, false,
			  &p->segment, &p->entry))
		return false;
	e = &m->segments[p->segment].entries[p->entry];
	if (!p->group)
		p->end = e->at + e->size;
	m->pending[m->nr_pending++] = *p;
	return true;
}

static bool model_begin(struct model *m, uint32_t index, uint32_t head, uint32_t length,
			bool free)
{
	struct model_pending p;

	return m->nr_pending < MODEL_PENDING && model_prepare(m, index, free ? 0 : length, &p) &&
	       model_stamp_append(m, head, &p);
}

bool model_group_begin(struct model *m, uint32_t index, uint32_t head, const uint32_t *lengths,
		       uint32_t nr)
{
	uint32_t taken[MODEL_GROUP], group = m->groups + 1, segment, record, end, i, n = 0;
	struct model_pending p[MODEL_GROUP];

	if (m->nr_pending + nr > MODEL_PENDING)
		return false;
	for (i = 0; i < nr; i++) {
		uint32_t of = (index + i) % MODEL_HANDLES;

		if ((!lengths[i] && !m->handles[of].live) || !model_prepare(m, of, lengths[i], &p[n]))
			continue;
		taken[n++] = lengths[i];
	}
	if (!n || !model_append_record(m, head, taken, n, &segment, &record, &end))
		return false;
	m->groups++;
	for (i = 0; i < n; i++) {
		p[i].group = group;
		p[i].record = record;
		p[i].end = end;
		if (!model_stamp_append(m, head, &p[i]) || p[i].segment != segment) {
			model_fail(m, "a group does not fit where it was reserved");
			return false;
		}
		m->segments[segment].entries[p[i].entry].inside = i + 1 < n;
	}
	return true;
}

/* Exchange the word of a pending append, and remove it: it takes effect or loses. */
static void model_exchange(struct model *m, uint32_t n)
{
	struct model_pending p = m->pending[n];
	struct model_segment *seg = &m->segments[p.segment];
	struct model_entry *e = &seg->entries[p.entry];
	struct model_handle *h = &m->handles[p.index];
	uint64_t key = e->key;
	bool wins;

	m->nr_pending--;
	memmove(&m->pending[n], &m->pending[n + 1], (m->nr_pending - n) * sizeof(p));
	if (p.alloc)
		wins = true;
	else
		/* Invariant 6: the order of exchanges is the order of versions. */
		wins = h->live && h->generation == p.generation &&
		       (h->version == p.expected || !RULE(K_VERSION_ORDER));
	/* If the object has moved since, the barrier of the tombstone is too low. */
	if (wins && p.free)
		wins = m->segments[h->segment].id < e->barrier;
	if (!wins) {
		model_pad(m, p.segment, p.entry);
		return;
	}
	oracle_applied(m, key, e->version, e->length, &p, seg->id);
	m->applied++;
	if (p.free) {
		e->of = m->segments[h->segment].id;
		h->live = false;
	} else {
		*h = (struct model_handle) {
			.generation = p.generation, .live = true, .version = e->version,
			.length = e->length, .segment = p.segment, .entry = p.entry,
		};
	}
	model_whole(m, p.segment, p.entry);
}

/**
 * model_finish - end a pending append, or all of its group
 * @m: model
 * @n: number of the pending append
 */
void model_finish(struct model *m, uint32_t n)
{
	struct model_pending p = m->pending[n];
	uint32_t i = 0;

	if (!p.group) {
		model_exchange(m, n);
		return;
	}
	while (i < m->nr_pending)
		if (m->pending[i].group == p.group)
			model_exchange(m, i);
		else
			i++;
	/* Invariant 21: the committed prefix passes all of the group at once. */
	model_whole(m, p.segment, p.record);
}

static uint32_t model_length(struct model *m)
{
	uint32_t kind = random_below(m->random, 100);

	if (kind < 60)
		return 1 + random_below(m->random, 200);
	if (kind < 75)		/* many entries have the same size and boundaries */
		return 64;
	if (kind < 95 || !m->size)
		return 1 + random_below(m->random, 1500);
	return 1 + random_below(m->random, m->size > 1 ? 90000 : 9000);
}

static bool model_at_once(struct model *m, uint32_t index, uint32_t head, uint32_t length,
			  bool free)
{
	if (!model_begin(m, index, head, length, free))
		return false;
	model_finish(m, m->nr_pending - 1);
	return true;
}

bool model_put(struct model *m, uint32_t index, uint32_t head, uint32_t length)
{
	return model_at_once(m, index, head, length, false);
}

bool model_delete(struct model *m, uint32_t index, uint32_t head)
{
	return m->handles[index].live && model_at_once(m, index, head, 0, true);
}

bool model_group(struct model *m, uint32_t index, uint32_t head, const uint32_t *lengths,
		 uint32_t nr)
{
	if (!model_group_begin(m, index, head, lengths, nr))
		return false;
	model_finish(m, m->nr_pending - 1);
	return true;
}

void model_race(struct model *m, uint32_t index, uint32_t first)
{
	uint32_t n = m->nr_pending;

	if (!model_begin(m, index, 1, 100, false))
		return;
	m->clock++;
	if (model_begin(m, index, 2, 100, false))
		model_finish(m, n + first);
	model_finish(m, n);
}

/* Begin a random operation of a random writer, or finish one. */
void model_operate(struct model *m)
{
	uint32_t index = random_below(m->random, MODEL_HANDLES);
	uint32_t head = 1 + random_below(m->random, MODEL_HEADS - 1);
	uint32_t lengths[MODEL_GROUP], nr, i;
	bool free;

	m->clock += random_below(m->random, 3);
	if (m->nr_pending && random_chance(m->random, 40)) {
		model_finish(m, random_below(m->random, m->nr_pending));
		return;
	}
	if (random_chance(m->random, 15)) {
		nr = 1 + random_below(m->random, MODEL_GROUP);
		for (i = 0; i < nr; i++)
			lengths[i] = random_chance(m->random, 25) ? 0 : model_length(m);
		if (model_group_begin(m, index, head, lengths, nr) && random_chance(m->random, 80))
			model_finish(m, m->nr_pending - 1);
		return;
	}
	free = m->handles[index].live && random_chance(m->random, 25);
	if (model_begin(m, index, head, model_length(m), free) && random_chance(m->random, 80))
		model_finish(m, m->nr_pending - 1);
}
