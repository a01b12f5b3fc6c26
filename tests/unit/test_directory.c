// SPDX-License-Identifier: GPL-2.0
/* The listings of a segment from any of its replicas: daemon/move/directory.h, with core on simulated drives. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/private.h"
#include "move/directory.h"
#include "tiers.h"
#include "../common/tap.h"

uint64_t lsmem_mutation;

static const struct sim_options three = {
	.frames = 12, .size = 2, .steps = 100, .tiered = true, .backups = 3, .min_replicas = 2,
};

static struct lsmem_listing listings[LISTINGS_MAX];
static uint8_t *bytes;

static struct directory begin(struct sim *sim)
{
	return (struct directory){ .core = sim->core, .indices = MODEL_HANDLES, .bytes = bytes, .listings = listings };
}

static uint64_t where(const struct sim *sim, const struct directory *d)
{
	return sim->drive[d->backup] * sim->span + d->offset;
}

static void read_it(const struct sim *sim, const struct directory *d)
{
	disk_read(sim->disk, where(sim, d), d->bytes, d->length);
}

/* Are these the objects and tombstones of a segment, in their order? */
static bool is_listed(const struct model_segment *seg, uint32_t nr)
{
	uint32_t i, n = 0;

	for (i = 0; i < seg->nr_entries; i++) {
		const struct model_entry *e = &seg->entries[i];

		if (e->type != LSMEM_TYPE_OBJECT && e->type != LSMEM_TYPE_TOMBSTONE)
			continue;
		CHECK(n < nr && __le64_to_cpu(listings[n].key) == e->key && __le64_to_cpu(listings[n].version) == e->version);
		n++;
	}
	CHECK(n == nr);
	return true;
}

/* Each closed segment, from the first replica. */
static bool test_all(void)
{
	struct sim *sim = tier_begin(&three);
	struct directory d = begin(sim);
	uint32_t closed = 0, open = 0, i, nr;

	for (i = 0; i < MODEL_SEGMENTS; i++) {
		const struct model_segment *seg = &sim->model->segments[i];

		if (seg->life != MODEL_CLOSED && seg->life != MODEL_HEAD)
			continue;
		if (seg->life == MODEL_HEAD) {
			CHECK(directory_begin(&d, seg->id) == -ENOENT);
			open++;
			continue;
		}
		CHECK(directory_begin(&d, seg->id) == 1 && d.length <= LSMEM_SEGMENT_BYTES);
		read_it(sim, &d);
		CHECK(!directory_read(&d, 0, &nr) && is_listed(seg, nr));
		closed++;
	}
	CHECK(closed > 1 && open && directory_begin(&d, 1000) == -ENOENT);
	sim_free(sim);
	return true;
}

static uint32_t first_closed(const struct sim *sim)
{
	uint32_t i;

	for (i = 0; i < MODEL_SEGMENTS; i++)
		if (sim->model->segments[i].life == MODEL_CLOSED && sim->model->segments[i].nr_entries > 2)
			break;
	return i;
}

/* A read fails, and bytes are damaged: the next replica; with none left it ends. */
static bool test_damaged(void)
{
	struct sim *sim = tier_begin(&three);
	const struct model_segment *seg = &sim->model->segments[first_closed(sim)];
	struct directory d = begin(sim);
	uint32_t backup, nr;

	CHECK(directory_begin(&d, seg->id) == 1);
	backup = d.backup;
	CHECK(directory_read(&d, -EIO, &nr) == 1 && d.backup != backup);
	read_it(sim, &d);
	CHECK(!directory_read(&d, 0, &nr) && is_listed(seg, nr));

	CHECK(directory_begin(&d, seg->id) == 1 && d.backup == backup);
	tier_flip(sim, where(sim, &d) + d.length - LSMEM_BLOCK, 5);	/* the footer */
	read_it(sim, &d);
	CHECK(directory_read(&d, 0, &nr) == 1 && d.backup != backup);
	read_it(sim, &d);
	CHECK(!directory_read(&d, 0, &nr) && is_listed(seg, nr));

	CHECK(directory_begin(&d, seg->id) == 1);
	CHECK(directory_read(&d, -EIO, &nr) == 1 && directory_read(&d, -EIO, &nr) == 1);
	CHECK(directory_read(&d, -EIO, &nr) == -EIO);
	CHECK(directory_begin(&d, seg->id) == 1 && d.backup == backup);
	sim_free(sim);
	return true;
}

/* A backup is lost, and the segment is retired, between two reads. */
static bool test_changes(void)
{
	struct sim *sim = tier_begin(&three);
	uint32_t slot = first_closed(sim), backup, nr, i;
	uint64_t id = sim->model->segments[slot].id;
	struct directory d = begin(sim);

	CHECK(directory_begin(&d, id) == 1);
	backup = d.backup;
	core_lose(sim->core, backup, "a test");
	CHECK(directory_read(&d, -EIO, &nr) == 1 && d.backup != backup);
	CHECK(directory_begin(&d, id) == 1 && d.backup != backup);
	sim_issue(sim);
	for (i = 0; i < 20; i++) {
		sim_settle(sim);
		core_tick(sim->core);
		sim_issue(sim);
	}
	CHECK(directory_begin(&d, id) == 1 && d.backup != backup);
	read_it(sim, &d);
	CHECK(!directory_read(&d, 0, &nr) && is_listed(&sim->model->segments[slot], nr));
	CHECK(directory_begin(&d, id) == 1 && model_pass_begin(sim->model, &id, 1));
	model_pass_step(sim->model, UINT32_MAX);
	CHECK(!sim->model->pass.under_way);
	for (i = 0; directory_begin(&d, id) != -ENOENT; i++) {
		CHECK(i < 10000 && d.of.closed);
		sim_events(sim);
		sim_acks(sim);
		if (disk_in_flight(sim->disk) && i % 5 == 0)
			sim_complete(sim, 0);
	}
	CHECK(core_lists(sim->core, id));	/* as yet the digest does */
	CHECK(directory_read(&d, -EIO, &nr) == -ENOENT);
	sim_free(sim);
	return true;
}

/*
 * A segment that a recovery could not close is sealed, and has no directory: its data are read. Which segments these are is
 * set here: a recovery has no memory for a directory, or accepts a loss.
 */
static bool test_sealed(void)
{
	struct sim *sim = tier_begin(&three);
	struct core_segment *seg;
	struct directory d;
	uint32_t sealed = 0, i, nr;

	model_put(sim->model, 2, 2, 5000);
	model_put(sim->model, 3, 2, 100);
	sim_settle(sim);
	sim_cut(sim, DISK_CUT_DROP);
	CHECK(sim_start(sim, false));
	d = begin(sim);
	for (i = 0; i < MODEL_SEGMENTS; i++) {
		if (sim->model->segments[i].life != MODEL_CLOSED)
			continue;
		seg = core_segment_find(sim->core, sim->model->segments[i].id);
		if (!seg || seg->life != CORE_CLOSED)
			continue;
		seg->life = CORE_SEALED;
		CHECK(directory_begin(&d, seg->item.segment) == 1);
		CHECK(d.length < LSMEM_SEGMENT_BYTES / 2 || seg->item.length > LSMEM_SEGMENT_BYTES / 2);
		read_it(sim, &d);
		CHECK(!directory_read(&d, 0, &nr));
		sealed += !d.of.closed && nr == 2;
	}
	CHECK(sealed);
	sim_free(sim);
	return true;
}

int main(void)
{
	bytes = aligned_alloc(LSMEM_BLOCK, LSMEM_SEGMENT_BYTES);
	tap_ok(test_all(), "listings of each closed segment");
	tap_ok(test_damaged(), "a read fails, or the bytes are damaged: another replica");
	tap_ok(test_changes(), "a backup is lost, a segment is retired");
	tap_ok(test_sealed(), "a segment that a recovery has only sealed");
	free(bytes);
	return tap_end();
}
