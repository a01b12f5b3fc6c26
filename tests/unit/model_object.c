// SPDX-License-Identifier: GPL-2.0
/* A model of the kernel module, objects: see model.h. */
#include <string.h>

#include "model.h"

static uint64_t model_version(const struct model *m, uint64_t old)
{
	uint64_t version = lsmem_version_make(m->era, m->clock);

	return version > old ? version : old + 1;
}

/* Begin an append: reserve, copy, stamp.  The entry is not committed. */
static bool model_begin(struct model *m, uint32_t index, uint32_t head, uint32_t length,
			bool free)
{
	static uint8_t payload[LSMEM_OBJECT_MAX];
	struct model_handle *h = &m->handles[index];
	struct model_pending *p = &m->pending[m->nr_pending];
	uint64_t key, version;
	uint32_t i;

	if (m->nr_pending == MODEL_PENDING)
		return false;
	*p = (struct model_pending) { .index = index, .alloc = !h->live, .free = free };
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
	key = lsmem_handle_make(index, p->generation);
	version = model_version(m, p->alloc ? 0 : h->version);
	if (!free)
		content_fill(payload, length, key, version);
	if (!model_append(m, head, free ? LSMEM_TYPE_TOMBSTONE : LSMEM_TYPE_OBJECT, key, version,
			  index % 5, payload, free ? m->next_segment : length, false, &p->segment,
			  &p->entry))
		return false;
	m->nr_pending++;
	return true;
}

/**
 * model_finish - exchange the word: the append takes effect or loses
 * @m: model
 * @n: number of the pending append
 */
void model_finish(struct model *m, uint32_t n)
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
	oracle_applied(m, key, e->version, e->length, p.free, seg->id,
		       e->at + e->size);
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
	bool free;

	m->clock += random_below(m->random, 3);
	if (m->nr_pending && random_chance(m->random, 40)) {
		model_finish(m, random_below(m->random, m->nr_pending));
		return;
	}
	free = m->handles[index].live && random_chance(m->random, 25);
	if (model_begin(m, index, head, model_length(m), free) && random_chance(m->random, 80))
		model_finish(m, m->nr_pending - 1);
}
