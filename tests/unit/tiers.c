// SPDX-License-Identifier: GPL-2.0
/* A tiered store on simulated drives, for tests of its recovery: see tiers.h. */
#include "tiers.h"

static void limits(struct sim *sim)
{
	uint32_t i;

	for (i = 0; i < MODEL_SEGMENTS; i++)
		sim->model->segments[i].limit = 5u << 20;
}

/* Close what head 2 has written; the digest lists it as closed. */
void tier_close(struct sim *sim)
{
	model_roll(sim->model, 2);
	sim_settle(sim);
	core_tick(sim->core);
	sim_issue(sim);
	sim_settle(sim);
}

/* A store with large objects, two of them deleted: objects and tombstones are in closed segments of their own. */
struct sim *tier_begin(const struct sim_options *options)
{
	struct sim *sim = sim_new(5, options);
	uint32_t i;

	sim_start(sim, false);
	limits(sim);
	sim_settle(sim);
	limits(sim);
	for (i = 0; i < 8; i++)
		model_put(sim->model, i, 1, TIER_LARGE);
	model_roll(sim->model, 1);
	sim_settle(sim);
	limits(sim);
	model_put(sim->model, 8, 2, 100);
	model_delete(sim->model, 3, 2);
	model_put(sim->model, 9, 2, 70000);	/* between the blocks of two tombstones */
	model_delete(sim->model, 5, 2);
	tier_close(sim);
	return sim;
}

/* The entry of an object, or its tombstone, on one of the drives. Returns its byte on the disk. */
uint64_t tier_where(struct sim *sim, uint32_t drive, uint32_t type, uint32_t object)
{
	struct lsmem_segment_header header;
	uint32_t i, n, frame;

	for (i = 0; i < MODEL_SEGMENTS; i++) {
		const struct model_segment *seg = &sim->model->segments[i];

		for (n = 0; seg->id && n < seg->nr_entries; n++) {
			const struct model_entry *e = &seg->entries[n];

			if (e->type != type || lsmem_handle_index(e->key) != object)
				continue;
			for (frame = 0; frame < sim->options.frames; frame++) {
				uint64_t at = drive * sim->span + sim->frames_start +
					      (uint64_t)frame * LSMEM_SEGMENT_BYTES;

				disk_read(sim->disk, at, &header, sizeof(header));
				if (__le64_to_cpu(header.segment) == seg->id)
					return at + LSMEM_BLOCK + e->at;
			}
		}
	}
	return 0;
}

void tier_flip(struct sim *sim, uint64_t at, uint32_t bit)
{
	disk_flip(sim->disk, at & ~(uint64_t)(LSMEM_BLOCK - 1), at % LSMEM_BLOCK * 8 + bit);
}

/* Are all objects there but those in the mask @dead? */
bool tier_live(const struct sim *sim, uint32_t dead)
{
	uint32_t i;

	for (i = 0; i < MODEL_HANDLES; i++)
		if (sim->model->handles[i].live == (dead >> i & 1u))
			return false;
	return true;
}
