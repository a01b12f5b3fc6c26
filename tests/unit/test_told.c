// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery by the target of a migration (daemon/recover/told.c): from blocks, through daemon/move/known.h, to a store that
 * is live; and what it refuses. The simulated kernel is the source, and then the target. Each once with the words placed ahead
 * (daemon/move/placing.h), and once without.
 */
#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "move/known.h"
#include "placed.h"
#include "tiers.h"
#include "../common/tap.h"

uint64_t lsmem_mutation;

#define AHEAD	"; words placed ahead"
#define DEAD	(TIER_DEAD | 1u << 7 | 1u << 6 | 1u << 1)

static const struct sim_options one = { .frames = 12, .size = 2, .steps = 100, .tiered = true };
static const struct sim_options three = {
	.frames = 12, .size = 2, .steps = 100, .tiered = true, .backups = 3, .min_replicas = 2,
};
static const struct sim_options verified = {
	.frames = 12, .size = 2, .steps = 100, .tiered = true, .verify = true,
};

static union {
	struct ahead_head head;
	uint8_t bytes[AHEAD_BYTES];
} block;

static struct placed kernel;
static struct placing *placing;
static bool ahead;

/**
 * struct source - what the source tells
 * @known: of it
 * @told: for the recovery
 * @without: a segment that is not told
 * @hidden: 1 + the index of an object whose header is damaged, so that it is not told; 0: of none
 * @length: bytes by which the lengths that are told are wrong
 * @generation: by which the generations are
 */
static struct source {
	struct known *known;
	struct recover_told told;
	uint64_t without;
	uint32_t hidden, length, generation;
} source;

/* Three more are deleted: one tombstone crosses the end of its block, two are side by side. */
static struct sim *begin(const struct sim_options *options)
{
	struct sim *sim = tier_begin(options);

	model_put(sim->model, 8, 2, LSMEM_BLOCK - LSMEM_ALIGN - LSMEM_LONG_BYTES);
	model_delete(sim->model, 7, 2);
	tier_close(sim);
	model_delete(sim->model, 6, 2);
	model_delete(sim->model, 1, 2);
	tier_close(sim);
	return sim;
}

/* Of a tombstone no more is told than its block. */
static void tell_entry(const struct model *model, const struct model_entry *e, uint32_t segment, uint32_t nr)
{
	const struct model_handle *handle = &model->handles[lsmem_handle_index(e->key)];
	bool tombstone = e->type == LSMEM_TYPE_TOMBSTONE;
	uint32_t home = tombstone ? e->at & ~(LSMEM_BLOCK - 1) : e->at;
	struct lsmem_directory_entry listing;
	struct lsmem_entry entry;

	if (!tombstone && (e->type != LSMEM_TYPE_OBJECT || !handle->live || handle->segment != segment ||
			   handle->entry != nr || lsmem_handle_index(e->key) + 1 == source.hidden))
		return;
	model_copy(model, &model->segments[segment], e->at, &entry, sizeof(entry));
	listing = lsmem_entry_listing(&entry, home);
	(void)ahead_add_listing(&block.head, &listing, tombstone ? e->barrier : AHEAD_COLD);
}

/* Tell the store as it is. */
static bool tells(struct sim *sim)
{
	uint32_t i, n;

	placing_free(placing);
	known_free(source.known);
	source.known = known_new(MODEL_HANDLES, sim->options.frames);
	placed_begin(&kernel, sim->options.frames);
	placing = ahead ? placing_new(source.known, &placed_user, &kernel) : NULL;
	for (i = 0; i < MODEL_SEGMENTS; i++) {
		const struct model_segment *seg = &sim->model->segments[i];

		if (seg->life != MODEL_CLOSED || seg->id == source.without)
			continue;
		ahead_begin_segment(&block.head, seg->id, seg->generation + source.generation,
				    seg->committed + source.length);
		for (n = 0; n < seg->nr_entries; n++)
			tell_entry(sim->model, &seg->entries[n], i, n);
		CHECK(!known_block(source.known, &block.head));
	}
	return true;
}

/* Buffers are given out with their old contents (memory.c): what is not read must not be right by chance. */
static void spoil(void)
{
	void *buffers[16];
	uint32_t i;

	for (i = 0; i < 16; i++) {
		buffers[i] = memory_get(LSMEM_SEGMENT_BYTES);
		memset(buffers[i], 0xa5, LSMEM_SEGLET_BYTES + 2 * LSMEM_BLOCK);
	}
	for (i = 0; i < 16; i++)
		memory_put(buffers[i]);
}

/* What the source's kernel says: how many objects are live, by their words. */
static uint64_t live(const struct model *model)
{
	uint64_t nr = 0;
	uint32_t i;

	for (i = 0; i < MODEL_HANDLES; i++)
		nr += model->handles[i].live;
	return nr;
}

/* What the recovery is told. */
static bool all_told(struct sim *sim, uint64_t term, uint64_t sequence, uint64_t objects)
{
	known_told(source.known, term, sequence, objects, &source.told);
	if (!ahead)
		return true;
	CHECK(!placing_finish(placing) && !kernel.wrong);
	placing_told(placing, &source.told);
	placed_env(NULL, &sim->env);
	placed_env(&kernel, &sim->env);
	return true;
}

/* It is told nothing any more. */
static void untold(struct sim *sim)
{
	sim->told = NULL;
	placed_env(NULL, &sim->env);
}

/* The power fails; the target has the newest digest's name. */
static bool ready(struct sim *sim)
{
	uint64_t objects = live(sim->model);
	enum recover_state state;
	struct recover *r;

	CHECK(tells(sim));
	sim_cut(sim, DISK_CUT_DROP);
	r = recover_new(&sim->env);
	CHECK(!recover_open(r, &state) && state == RECOVER_FULL && !recover_map(r, false));
	CHECK(all_told(sim, recover_digest(r)->term, recover_digest(r)->sequence, objects));
	recover_free(r);
	sim->told = &source.told;
	spoil();
	return true;
}

/* The store goes on, and its next recovery finds all. */
static bool goes_on(struct sim *sim)
{
	CHECK(tier_live(sim, DEAD) && sim->result.objects == 5 && sim->result.tombstones == 5);
	untold(sim);
	sim_settle(sim);
	CHECK(!sim->error[0]);
	sim_cut(sim, DISK_CUT_DROP);
	CHECK(sim_start(sim, false) && tier_live(sim, DEAD));
	sim_free(sim);
	return true;
}

static bool test_recovers(void)
{
	const struct sim_options *kinds[] = { &one, &three };
	uint64_t bytes;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct sim *sim = begin(kinds[i]);

		CHECK((tier_where(sim, 0, LSMEM_TYPE_TOMBSTONE, 7) + LSMEM_ALIGN) % LSMEM_BLOCK == 0);
		sim_cut(sim, DISK_CUT_DROP);
		CHECK(sim_start(sim, false) && tier_live(sim, DEAD));
		bytes = sim->result.read_bytes;
		sim_free(sim);

		sim = begin(kinds[i]);
		CHECK(ready(sim) && sim_start(sim, false));
		tap_note("%llu KiB read, %llu KiB without a source", (unsigned long long)sim->result.read_bytes >> 10,
			 (unsigned long long)bytes >> 10);
		CHECK(sim->result.open && sim->result.closed == 4 && sim->result.read_bytes < bytes);
		CHECK(goes_on(sim));
	}
	return true;
}

/* A recovery refuses what was told, and has changed nothing: the backups have all. */
static bool refused(struct sim *sim, int error)
{
	CHECK(sim_attempt(sim) == error && !sim->nr_damage);
	untold(sim);
	CHECK(sim_start(sim, false) && tier_live(sim, DEAD));
	sim_free(sim);
	source.without = source.length = source.generation = source.hidden = 0;
	return true;
}

/* The source has told of a head that is empty; but not of data in one. */
static bool test_empty(void)
{
	uint32_t length, i;
	struct sim *sim;

	for (length = 0; length <= LSMEM_ALIGN; length += LSMEM_ALIGN) {
		sim = begin(&one);
		CHECK(ready(sim));
		for (i = 0; i < MODEL_SEGMENTS && sim->model->segments[i].life != MODEL_HEAD; i++)
			;
		CHECK(i < MODEL_SEGMENTS && !sim->model->segments[i].committed);
		ahead_begin_segment(&block.head, sim->model->segments[i].id, 1, length);
		CHECK(!known_block(source.known, &block.head));
		CHECK(all_told(sim, source.told.term, source.told.sequence, source.told.expected));
		CHECK(length ? refused(sim, -ESTALE) : sim_start(sim, false) && goes_on(sim));
	}
	sim = begin(&one);	/* the digest has its length */
	model_put(sim->model, 8, 2, 100);
	sim_settle(sim);
	core_tick(sim->core);
	sim_issue(sim);
	sim_settle(sim);
	CHECK(ready(sim));
	i = sim->model->heads[2] - 1;
	ahead_begin_segment(&block.head, sim->model->segments[i].id, 1, sim->model->segments[i].committed);
	CHECK(sim->model->segments[i].committed && !known_block(source.known, &block.head));
	CHECK(all_told(sim, source.told.term, source.told.sequence, source.told.expected));
	CHECK(refused(sim, -ESTALE));
	return true;
}

static bool test_refuses(void)
{
	struct sim *sim = begin(&one);
	uint32_t i;

	CHECK(ready(sim));
	source.told.sequence++;
	CHECK(refused(sim, -ESTALE));
	sim = begin(&one);
	CHECK(ready(sim));
	source.told.term--;
	CHECK(refused(sim, -ESTALE));

	sim = begin(&one);		/* not all is told */
	for (i = 0; i < MODEL_SEGMENTS; i++)
		if (sim->model->segments[i].life == MODEL_CLOSED)
			source.without = sim->model->segments[i].id;
	CHECK(source.without && ready(sim) && refused(sim, -ESTALE));

	sim = begin(&one);
	source.length = LSMEM_ALIGN;
	CHECK(ready(sim) && refused(sim, -ESTALE));
	sim = begin(&one);
	source.generation = 1;
	CHECK(ready(sim) && refused(sim, -ESTALE));

	sim = begin(&one);		/* more is told than there is */
	CHECK(ready(sim));
	ahead_begin_segment(&block.head, 1000, 1, 0);
	CHECK(!known_block(source.known, &block.head));
	CHECK(all_told(sim, source.told.term, source.told.sequence, source.told.expected));
	CHECK(refused(sim, -ESTALE));

	sim = begin(&one);		/* an object is missing, and nothing else */
	source.hidden = 3;
	CHECK(ready(sim) && source.told.objects + 1 == source.told.expected && refused(sim, -ESTALE));
	sim = begin(&one);
	CHECK(ready(sim));
	source.told.expected--;		/* one is too many */
	CHECK(refused(sim, -ESTALE));

	sim = begin(&verified);
	CHECK(ready(sim) && refused(sim, -EINVAL));
	return true;
}

/* A tombstone is damaged on the only backup: a loss. On one or two of three: another one has it. */
static bool test_damaged(void)
{
	struct sim *sim = begin(&one);
	uint64_t at = tier_where(sim, 0, LSMEM_TYPE_TOMBSTONE, 1);
	uint32_t bad, drive, used = 0;

	CHECK(at && ready(sim));
	tier_flip(sim, at, 200);
	CHECK(sim_attempt(sim) == -ENODATA && strstr(sim->last_damage, "1 of 2 tombstones are lost"));
	tier_flip(sim, at, 200);
	CHECK(sim_start(sim, false) && goes_on(sim));

	for (bad = 1; bad < 7; bad++) {
		sim = begin(&three);
		CHECK(ready(sim));
		for (drive = 0; drive < 3; drive++)
			if (bad >> drive & 1u)
				tier_flip(sim, tier_where(sim, drive, LSMEM_TYPE_TOMBSTONE, 1), 77);
		CHECK(sim_start(sim, false) && !sim->nr_damage);
		used += sim->result.bad_copies;
		CHECK(goes_on(sim));
	}
	CHECK(used);
	return true;
}

static void newest_generation(void *context, uint64_t *time, uint32_t *era, uint32_t *generation)
{
	(void)context;
	*time = *era = 1;
	*generation = LSMEM_GENERATION_MAX;
}

static void newest_era(void *context, uint64_t *time, uint32_t *era, uint32_t *generation)
{
	(void)context;
	*time = *generation = 1;
	*era = LSMEM_ERA_MAX;
}

/* What was told is newer than the newest digest allows: a loss, as of a listing of a directory (14). */
static bool test_newer(void)
{
	uint32_t turn;

	for (turn = 0; turn < 2; turn++) {
		struct sim *sim = begin(&one);

		CHECK(ready(sim));
		source.told.newest = turn ? newest_era : newest_generation;
		CHECK(sim_attempt(sim) == -ENODATA && strstr(sim->last_damage, "newer digests are lost"));
		untold(sim);
		CHECK(sim_start(sim, false) && tier_live(sim, DEAD));
		sim_free(sim);
	}
	return true;
}

/* When can the source say READY? When nothing of the log is open, and the digest says so. */
static bool test_settled(void)
{
	struct sim *sim = begin(&one);

	CHECK(core_settled(sim->core));
	model_put(sim->model, 8, 2, 100);
	CHECK(core_settled(sim->core));		/* it has not heard of that */
	sim_events(sim);
	CHECK(!core_settled(sim->core));
	sim_settle(sim);
	CHECK(!core_settled(sim->core));	/* durable, and not closed */
	model_roll(sim->model, 2);
	sim_events(sim);
	CHECK(!core_settled(sim->core));
	sim_settle(sim);
	CHECK(!core_settled(sim->core));	/* closed, and the digest does not say so */
	core_tick(sim->core);
	CHECK(!core_settled(sim->core));
	sim_issue(sim);
	sim_settle(sim);
	CHECK(core_settled(sim->core));
	sim_free(sim);
	return true;
}

int main(void)
{
	uint32_t turn;

	for (turn = 0; turn < 2; turn++) {
		ahead = turn;
		tap_ok(test_recovers(), "a target recovers what it was told, and reads tombstones alone%s", ahead ? AHEAD : "");
		tap_ok(test_empty(), "a head without a byte may be told%s", ahead ? AHEAD : "");
		tap_ok(test_refuses(), "what was told counts only with its digest, and if all was told%s", ahead ? AHEAD : "");
		tap_ok(test_damaged(), "a damaged tombstone, and another replica%s", ahead ? AHEAD : "");
	}
	tap_ok(test_newer(), "words placed ahead that are newer than the digest are a loss");
	tap_ok(test_settled(), "a core is settled when its digest says all");
	placing_free(placing);
	known_free(source.known);
	return tap_end();
}
