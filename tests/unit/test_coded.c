// SPDX-License-Identifier: GPL-2.0
/*
 * Coded stores: core, recovery and the model of the kernel on simulated drives.
 *
 * After a power cut, with writes in flight, a recovery must find the right state with each set of up to m drives lost: here
 * all sets are tried, by the check, which writes nothing. Then single blocks are damaged. test_sim has random lives.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rule.h"
#include "sim.h"
#include "stripe/rule.h"
#include "stripe/shard.h"
#include "../common/tap.h"

uint64_t lsmem_mutation;

#define ALL(sim)	((1u << (sim)->options.backups) - 1)
#define CUTS	8u	/* of a store, times m: more parity shards make more sets */

static const struct sim_options codes[] = {
	{ .frames = 10, .size = 1, .steps = 200, .backups = 3, .k = 2, .m = 1 },
	{ .frames = 8, .size = 1, .steps = 200, .backups = 5, .k = 3, .m = 2 },
	{ .frames = 6, .size = 0, .steps = 800, .backups = 9, .k = 5, .m = 4 },
};

/* Check the store on the drives that are there, and what was found. */
static int check(struct sim *sim, struct recover_result *result)
{
	enum recover_state state;
	struct recover *r;
	uint32_t slot;
	int ret;

	sim->rotate = 0;
	for (slot = 0; slot < sim->options.backups; slot++)
		sim->env.backup_bytes[slot] = sim->there >> slot & 1u ? sim->span : 0;
	sim->io_left = UINT32_MAX;
	sim->last_damage[0] = '\0';
	model_reset(sim->model);
	oracle_begin(sim->model);
	r = recover_new(&sim->env);
	ret = recover_open(r, &state);
	if (!ret)
		ret = recover_check(r, result);
	recover_free(r);
	return ret;
}

/* Check with all sets of up to m lost drives. */
static bool all_sets(struct sim *sim, uint32_t *tries)
{
	uint32_t all = ALL(sim), there;
	struct recover_result result;

	for (there = all; there; there--) {
		if ((uint32_t)__builtin_popcount(there) < sim->options.k)
			continue;
		sim->there = there;
		if (check(sim, &result)) {
			tap_note("drives %#x: %s", there, sim->last_damage);
			return false;
		}
		oracle_look(sim->model);
		if (sim->model->error[0]) {
			tap_note("drives %#x: %s", there, sim->model->error);
			return false;
		}
		if (there == all)
			tap_note("%llu segments closed, %llu open, %llu objects", (unsigned long long)result.closed,
				 (unsigned long long)result.open, (unsigned long long)result.objects);
		(*tries)++;
	}
	sim->there = all;
	return true;
}

static bool test_sets(const struct sim_options *options, uint64_t seed, uint32_t *tries)
{
	struct sim *sim = sim_new(seed, options);
	bool ok = sim_start(sim, false);
	uint32_t cut, steps;

	for (cut = 0; cut < CUTS / options->m && ok; cut++) {
		for (steps = options->steps; steps && !sim->error[0]; steps--)
			sim_step(sim);
		sim_settle(sim);
		for (steps = random_below(&sim->random, options->steps); steps && !sim->error[0]; steps--)
			sim_step(sim);
		sim_cut(sim, random_below(&sim->random, DISK_CUT_KINDS));
		ok = !sim->error[0] && all_sets(sim, tries) && sim_start(sim, false);
	}
	if (!ok)
		tap_note("seed %llu: %s", (unsigned long long)seed, sim->error);
	sim_free(sim);
	return ok;
}

/* A store with closed segments, at rest. */
static struct sim *at_rest_of(const struct sim_options *options)
{
	struct sim *sim = sim_new(7, options);
	uint32_t steps, head;

	sim_start(sim, false);
	for (steps = 300; steps && !sim->error[0]; steps--)
		sim_step(sim);
	sim_settle(sim);
	for (head = 0; head < MODEL_HEADS; head++)
		model_roll(sim->model, head);
	sim_settle(sim);
	sim_shutdown(sim);
	sim_cut(sim, DISK_CUT_DROP);
	return sim;
}

static struct sim *at_rest(void)
{
	return at_rest_of(&codes[1]);
}

/* Find a closed segment. Return: the offset of its shard on the disk, after the header. */
static uint64_t find(struct sim *sim, uint32_t shard)
{
	struct recover *r = recover_new(&sim->env);
	const struct digest_map *map;
	struct shard_geometry g;
	enum recover_state state;
	uint64_t where = 0;
	uint32_t lane;

	shard_geometry(&g, sim->options.k, sim->options.m, SHARD_FRAME);
	sim->io_left = UINT32_MAX;
	if (!recover_open(r, &state) && !recover_map(r, false)) {
		map = recover_digest(r);
		for (lane = 0; lane < digest_stripes_nr(map) * g.k && !where; lane++) {
			uint32_t place = map->stripes->stripe[lane / g.k].place[shard];

			if (map->stripes->lanes[lane].state == LSMEM_ITEM_CLOSED && map->stripes->lanes[lane].length)
				where = recover_slot(r, place / map->frames) * sim->span +
					format_frame_offset(recover_super(r), place % map->frames) +
					(uint64_t)(lane % g.k) * g.blocks * LSMEM_BLOCK + LSMEM_BLOCK;
		}
	}
	recover_free(r);
	return where;
}

/* Give the first row of a segment on a shard another block, which its table has: as no drive does. */
static void forge(struct sim *sim, uint32_t shard)
{
	uint64_t where = find(sim, shard);
	static uint8_t blocks[4 * LSMEM_BLOCK] __attribute__((aligned(4096)));
	struct lsmem_shard_table *table = (void *)blocks;
	uint8_t block[LSMEM_BLOCK];
	struct shard_geometry g;
	struct iovec iov;

	shard_geometry(&g, sim->options.k, sim->options.m, SHARD_FRAME);
	disk_flip(sim->disk, where, 5);
	disk_read(sim->disk, where, block, LSMEM_BLOCK);
	where += (uint64_t)(g.table - 1) * LSMEM_BLOCK;
	disk_read(sim->disk, where, blocks, g.tables * LSMEM_BLOCK);
	table->block_crc[0] = __cpu_to_le32(lsmem_crc32c(~0u, block, LSMEM_BLOCK));
	shard_table_seal(table, &g);
	iov = (struct iovec) { .iov_base = blocks, .iov_len = g.tables * LSMEM_BLOCK };
	disk_complete(sim->disk, disk_write(sim->disk, where, &iov, 1));
}

static bool test_check(void)
{
	struct sim *sim = at_rest();
	struct recover_result result;

	CHECK(!sim->error[0] && !check(sim, &result));
	CHECK(result.closed && !result.bad_copies);
	/* A block of data, and one of parity, of a segment that has two parity shards */
	disk_flip(sim->disk, find(sim, 1), 77);
	CHECK(!check(sim, &result) && result.bad_copies == 1);
	disk_flip(sim->disk, find(sim, 3), 12345);
	CHECK(!check(sim, &result) && result.bad_copies == 2);
	oracle_look(sim->model);
	CHECK(!sim->model->error[0]);
	disk_flip(sim->disk, find(sim, 2), 99);
	CHECK(check(sim, &result) == -ENODATA && result.losses);
	sim_free(sim);

	sim = at_rest();
	forge(sim, sim->options.k);
	CHECK(check(sim, &result) == -ENODATA && strstr(sim->last_damage, "parity of 1 rows"));
	sim_free(sim);
	return true;
}

/* A store has one code at a time: a recovery that wants another one changes nothing. */
static bool test_other(void)
{
	struct sim *sim = at_rest();

	CHECK(!sim->error[0]);
	sim->there = ALL(sim);
	sim->io_left = UINT32_MAX;
	sim->code = (struct recover_code){ .k = 2, .m = 1 };
	CHECK(sim_attempt(sim) == -EINVAL && !sim->core);
	sim->code = (struct recover_code){ .k = sim->options.k, .m = sim->options.m };
	CHECK(sim_start(sim, false) && !sim->error[0]);
	sim_free(sim);
	return true;
}

/* Let core scrub, and count what it finds. */
static void scrub(struct sim *sim, struct core_stats *stats)
{
	uint32_t i;

	core_scrub(sim->core, 2);
	for (i = 0; i < 40 && !sim->error[0]; i++) {
		core_tick(sim->core);
		sim_issue(sim);
		sim_settle(sim);
	}
	core_stats(sim->core, stats);
}

/* Bad shards are found while the store is served, and made of the others. */
static bool test_scrub(void)
{
	struct sim *sim = at_rest();
	struct recover_result result;
	struct core_stats stats;
	uint64_t header;

	CHECK(!sim->error[0] && !check(sim, &result));
	CHECK(sim_start(sim, false));
	sim->there = ALL(sim);
	/* Of one segment a block of data and a header are bad. */
	header = find(sim, 4) - LSMEM_BLOCK;
	disk_flip(sim->disk, find(sim, 1), 77);
	disk_flip(sim->disk, header, 1234);
	scrub(sim, &stats);
	CHECK(!sim->error[0] && stats.checked && stats.bad_replicas == 2 && !stats.copies_failed);
	sim_shutdown(sim);
	sim_cut(sim, DISK_CUT_DROP);
	CHECK(!check(sim, &result) && !result.bad_copies && result.closed);
	sim_free(sim);
	return true;
}

/* Give the first row of a segment on a shard another block, with a right checksum: so only other shards, or entries, tell. */
static bool test_compare(uint32_t shard)
{
	struct sim *sim = at_rest();
	bool parity = shard >= sim->options.k, named = false, mended = true;
	struct recover_result result;
	struct core_stats stats;
	struct core_bad bad;

	CHECK(sim_start(sim, false));
	sim->there = ALL(sim);
	forge(sim, shard);
	scrub(sim, &stats);
	CHECK(!sim->error[0] && stats.checked && stats.bad_replicas == parity && !!stats.copies_failed == !parity);
	CHECK(stats.unfit);
	while (core_bad_next(sim->core, &bad)) {
		named = true;
		mended &= bad.format == FORMAT_UNFIT && (bad.backup < CORE_BACKUPS) == parity;
	}
	CHECK(named && mended);
	sim_shutdown(sim);
	sim_cut(sim, DISK_CUT_DROP);
	/* Parity is made anew. Data are not, since no shard alone is known to be wrong. */
	CHECK(!check(sim, &result) == parity);
	sim_free(sim);
	return true;
}

/* Ticks, and all that follows from them, without a further write. */
static void ticks(struct sim *sim)
{
	uint32_t i;

	for (i = 0; i < 40 && !sim->error[0]; i++) {
		core_tick(sim->core);
		sim_issue(sim);
		sim_settle(sim);
	}
}

/*
 * One data shard was made wrong, with right checksums, and one of six backups is lost: for four of them the shard would be a
 * source of the one that is made anew.
 */
static bool test_source(void)
{
	static const struct sim_options six = { .frames = 10, .size = 1, .steps = 200, .backups = 6, .k = 3, .m = 2 };
	uint64_t failed;
	uint32_t lost, said = 0;

	for (lost = 0; lost < six.backups; lost++) {
		struct sim *sim = at_rest_of(&six);
		struct core_stats stats;

		CHECK(sim_start(sim, false));
		sim->there = ALL(sim);
		forge(sim, 1);
		core_scrub(sim->core, 0);
		core_lose(sim->core, lost, "test");
		ticks(sim);
		core_stats(sim->core, &stats);
		CHECK(!sim->error[0] && stats.unfit == stats.copies_failed);
		said += stats.unfit > 0;
		/* That is known until something changes: a digest without the backup, and its return. */
		failed = stats.copies_failed;
		CHECK(failed <= 2);
		ticks(sim);
		core_stats(sim->core, &stats);
		CHECK(stats.copies_failed == failed);
		CHECK(sim_add(sim, true));
		ticks(sim);
		core_stats(sim->core, &stats);
		CHECK(!sim->error[0] && !failed == !(stats.copies_failed > failed) && stats.copies_failed <= failed + 2);
		sim_free(sim);
	}
	CHECK(said == 4);
	return true;
}

/* Objects, one after the other, by two writers. */
static bool put(struct sim *sim, uint32_t nr)
{
	while (nr--) {
		if (!model_put(sim->model, nr % MODEL_HANDLES, 1 + nr % 2, 1 + random_below(&sim->random, 20000)))
			return false;
		sim_settle(sim);
	}
	return true;
}

/*
 * Backups are lost while segments of a store are open, which grow to several rows, and come back. @wait: with so few nothing is
 * acknowledged, and writes wait for their return. Then there are no more writes, and the power goes.
 */
static bool test_return(const struct sim_options *options, bool wait, uint32_t *tries)
{
	struct sim_options with = *options;
	struct core_stats stats;
	struct sim *sim;
	uint32_t i;

	with.min_parity = wait ? with.m : 0;
	with.frames = 10;
	with.size = 2;
	sim = sim_new(11, &with);
	CHECK(sim_start(sim, false));
	sim_settle(sim);
	CHECK(put(sim, 12));
	CHECK(!sim->error[0] && oracle_all_acked(sim->model));
	for (i = 0; i < (wait ? 1 : with.m); i++)
		core_lose(sim->core, i, "a test");
	sim_issue(sim);
	ticks(sim);
	CHECK(!sim->error[0] && core_backup(sim->core, 0) == CORE_BACKUP_LOST);
	/* If nothing is acknowledged, until the heads need new segments */
	CHECK(put(sim, 12) || wait);
	CHECK(!sim->error[0] && oracle_all_acked(sim->model) == !wait);
	while (sim_add(sim, false) && !sim->error[0])
		sim_settle(sim);
	ticks(sim);
	core_stats(sim->core, &stats);
	if (sim->error[0] || stats.short_open || stats.short_segments || !oracle_all_acked(sim->model))
		tap_note("%s: short are %u open, %u closed; %s acknowledged", sim->error, stats.short_open,
			 stats.short_segments, oracle_all_acked(sim->model) ? "all is" : "not all is");
	CHECK(!sim->error[0] && !stats.short_open && !stats.short_segments && oracle_all_acked(sim->model));
	sim_cut(sim, DISK_CUT_DROP);
	CHECK(all_sets(sim, tries) && sim_start(sim, false));
	sim_free(sim);
	return true;
}

/* Damage each block of rows that a drive has. */
static void damage_rows(struct sim *sim, uint32_t drive)
{
	uint64_t begin = drive * sim->span + sim->frames_start, at;
	static uint8_t block[LSMEM_BLOCK];
	struct shard_geometry g;
	uint32_t frame, lane, row;

	shard_geometry(&g, sim->options.k, sim->options.m, SHARD_FRAME);
	for (frame = 0; frame < sim->options.frames; frame++) {
		for (lane = 0; lane < g.k; lane++) {
			for (row = 0; row < g.rows; row++) {
				at = begin + (uint64_t)frame * LSMEM_SEGMENT_BYTES +
				     ((uint64_t)lane * g.blocks + shard_row(row)) * LSMEM_BLOCK;
				disk_read(sim->disk, at, block, sizeof(block));
				if (!format_is_zero(block, sizeof(block)))
					disk_flip(sim->disk, at, 77);
			}
		}
	}
}

/*
 * A backup is lost and comes back with all that it had: shards of closed segments are checked there, and kept. @damaged: they
 * are not right any more, and are made anew.
 */
static bool test_keep(const struct sim_options *options, bool damaged, uint32_t *tries)
{
	struct sim_options with = *options;
	struct core_stats stats;
	struct sim *sim;
	uint32_t head;

	with.frames = 10;
	with.size = 2;
	sim = sim_new(13, &with);
	CHECK(sim_start(sim, false));
	sim_settle(sim);
	CHECK(put(sim, 12));
	for (head = 0; head < MODEL_HEADS; head++)
		model_roll(sim->model, head);
	sim_settle(sim);
	CHECK(put(sim, 2));
	CHECK(!sim->error[0] && oracle_all_acked(sim->model));
	core_lose(sim->core, 0, "a test");
	sim_issue(sim);
	ticks(sim);
	CHECK(!sim->error[0] && core_backup(sim->core, 0) == CORE_BACKUP_LOST);
	CHECK(put(sim, 2));
	if (damaged)
		damage_rows(sim, sim->drive[0]);
	CHECK(sim_add(sim, false));
	sim_settle(sim);
	ticks(sim);
	core_stats(sim->core, &stats);
	tap_note("%u+%u%s: %llu shards kept, %llu frames made anew", with.k, with.m, damaged ? ", damaged" : "",
		 (unsigned long long)stats.kept, (unsigned long long)stats.copied);
	CHECK(!sim->error[0] && !stats.short_open && !stats.short_segments && oracle_all_acked(sim->model));
	CHECK(damaged ? !stats.kept && stats.copied : stats.kept);
	sim_cut(sim, DISK_CUT_DROP);
	CHECK(all_sets(sim, tries) && sim_start(sim, false));
	sim_free(sim);
	return true;
}

#define EPSILON_US	400u
#define EPSILON_NS	(EPSILON_US * 1000ull)

/* Write an object, and tell core of it. */
static bool say(struct sim *sim, uint32_t index, uint32_t length)
{
	const struct model_segment *seg;

	if (!model_put(sim->model, index, 1, length))
		return false;
	seg = &sim->model->segments[sim->model->heads[1] - 1];
	/* The kernel may tell of it later. */
	while (seg->emitted < seg->committed && !sim->error[0])
		sim_events(sim);
	return !sim->error[0];
}

/* All requests end, and no time passes. */
static bool answer(struct sim *sim)
{
	while (disk_in_flight(sim->disk) && !sim->error[0])
		sim_complete(sim, 0);
	sim_acks(sim);
	return !sim->error[0] && !disk_in_flight(sim->disk);
}

/* A store at rest whose partial rows wait. */
static struct sim *waiting(const struct sim_options *options, uint32_t batch_us)
{
	struct sim_options with = *options;
	struct sim *sim;

	with.batch_us = batch_us;
	with.frames = 10;
	with.size = 2;
	sim = sim_new(5, &with);
	if (sim_start(sim, false))
		sim_settle(sim);
	if (!put(sim, 2) && !sim->error[0])
		sim_fail(sim, "there is no segment to write to");
	return sim;
}

/* Begin a segment; its log ends near the beginning of its second row. */
static bool begin_row(struct sim *sim)
{
	model_roll(sim->model, 1);
	sim_settle(sim);
	if (!say(sim, 0, sim->options.k * LSMEM_BLOCK))
		return false;
	sim_settle(sim);
	return !sim->error[0] && oracle_all_acked(sim->model) && core_due(sim->core) == CORE_NEVER;
}

/* Small objects that come every 10 us: blocks of their batches, and how many of these. */
static bool stream(const struct sim_options *options, uint32_t batch_us, uint64_t *blocks, uint64_t *batches)
{
	struct sim *sim = waiting(options, batch_us);
	struct core_stats before, after;
	uint32_t i;

	CHECK(begin_row(sim));
	core_stats(sim->core, &before);
	for (i = 0; i < 64; i++) {
		sim_time(sim, 10000);
		CHECK(say(sim, i % MODEL_HANDLES, 100) && answer(sim));
	}
	sim_settle(sim);
	core_stats(sim->core, &after);
	CHECK(!sim->error[0] && oracle_all_acked(sim->model));
	*blocks = after.data_blocks + after.parity_blocks - before.data_blocks - before.parity_blocks;
	*batches = after.batches - before.batches;
	sim_free(sim);
	return true;
}

/* Groups count all blocks of rows, each once, whether a durable write or a flush makes it durable. */
static bool test_groups(const struct sim_options *options)
{
	struct sim *sim = waiting(options, 0);
	struct core_stats stats;
	uint64_t grouped = 0, blocks[2] = { 0, 0 };
	uint32_t i, b;

	for (i = 0; i < 2; i++) {
		/* One small write has each backup for itself; many rows at once have not. */
		CHECK(i ? say(sim, 1, 300000) : begin_row(sim));
		sim_settle(sim);
		core_stats(sim->core, &stats);
		for (b = 0, grouped = 0; b < sim->options.backups; b++)
			grouped += stats.backup[b].group_bytes.sum;
		blocks[i] = stats.data_blocks + stats.parity_blocks;
		CHECK(grouped == blocks[i] * LSMEM_BLOCK);
	}
	CHECK(!sim->error[0] && blocks[0] && blocks[1] > blocks[0]);
	sim_free(sim);
	return true;
}

static bool test_stream(const struct sim_options *options)
{
	uint64_t blocks[2], batches[2];

	CHECK(stream(options, 0, &blocks[0], &batches[0]) && stream(options, EPSILON_US, &blocks[1], &batches[1]));
	tap_note("%u+%u: %llu blocks in %llu batches at once, %llu in %llu after %u us", options->k, options->m,
		 (unsigned long long)blocks[0], (unsigned long long)batches[0], (unsigned long long)blocks[1],
		 (unsigned long long)batches[1], EPSILON_US);
	/* 640 us: two batches, and some where a row or the segment ends. At once each object has one. */
	CHECK(batches[0] >= 64 && batches[1] >= 2 && batches[1] <= 6);
	CHECK(blocks[1] * 10 < blocks[0]);
	return true;
}

/* A partial row is written when its oldest byte has waited for so long, neither earlier nor later. */
static bool test_wait(const struct sim_options *options)
{
	struct sim *sim = waiting(options, EPSILON_US);
	uint32_t row = options->k * LSMEM_BLOCK, i;
	struct core_stats before, stats;
	uint64_t came;

	CHECK(begin_row(sim) && !disk_in_flight(sim->disk));
	core_stats(sim->core, &before);
	/* More ranges than core remembers count as one, and the first one counts. */
	came = sim->now_ns;
	for (i = 0; i < 50; i++) {
		CHECK(say(sim, i % MODEL_HANDLES, 10) && !disk_in_flight(sim->disk));
		CHECK(core_due(sim->core) == came + EPSILON_NS);
		sim_time(sim, 1000);
	}
	sim_time(sim, came + EPSILON_NS - 1 - sim->now_ns);
	CHECK(!disk_in_flight(sim->disk) && !oracle_all_acked(sim->model));
	sim_time(sim, 1);
	CHECK(disk_in_flight(sim->disk) && core_due(sim->core) == CORE_NEVER);
	/* What comes while this is under way waits for its own time, from when it came. */
	sim_time(sim, 50000);
	came = sim->now_ns;
	for (i = 0; i < 50; i++) {
		CHECK(say(sim, i % MODEL_HANDLES, 10));
		sim_time(sim, 1000);
	}
	CHECK(answer(sim) && core_due(sim->core) == came + EPSILON_NS && !oracle_all_acked(sim->model));
	sim_time(sim, came + EPSILON_NS - sim->now_ns);
	CHECK(answer(sim) && oracle_all_acked(sim->model));
	core_stats(sim->core, &stats);
	CHECK(stats.batches == before.batches + 2 && stats.batches_partial == before.batches_partial + 2);

	CHECK(begin_row(sim));
	core_stats(sim->core, &before);
	/* A full row does not wait, and what follows it waits from when it came. */
	came = sim->now_ns;
	CHECK(say(sim, 1, 10) && !disk_in_flight(sim->disk) && core_due(sim->core) == came + EPSILON_NS);
	sim_time(sim, EPSILON_NS / 2);
	CHECK(say(sim, 2, row + row / 2) && disk_in_flight(sim->disk));
	core_stats(sim->core, &stats);
	CHECK(stats.rows_full > before.rows_full && stats.batches_partial == before.batches_partial);
	CHECK(answer(sim) && core_due(sim->core) == came + EPSILON_NS / 2 + EPSILON_NS);
	sim_time(sim, EPSILON_NS);
	CHECK(answer(sim) && oracle_all_acked(sim->model) && core_due(sim->core) == CORE_NEVER);

	/* A backup is lost meanwhile. */
	CHECK(say(sim, 3, 10) && !disk_in_flight(sim->disk));
	core_lose(sim->core, 0, "a test");
	sim_issue(sim);
	CHECK(answer(sim) && !oracle_all_acked(sim->model));
	sim_time(sim, EPSILON_NS);
	CHECK(answer(sim) && oracle_all_acked(sim->model));

	/* Nothing waits any more with another setting, nor when the segment ends, nor when core drains. */
	CHECK(say(sim, 4, 10) && !disk_in_flight(sim->disk));
	core_batch(sim->core, 0);
	sim_issue(sim);
	CHECK(answer(sim) && oracle_all_acked(sim->model));
	core_batch(sim->core, EPSILON_NS);
	CHECK(say(sim, 5, 10) && !disk_in_flight(sim->disk));
	model_roll(sim->model, 1);
	/* No time passes. */
	for (i = 0; i < 20 && !oracle_all_acked(sim->model); i++) {
		sim_events(sim);
		CHECK(answer(sim));
	}
	CHECK(oracle_all_acked(sim->model) && core_due(sim->core) == CORE_NEVER);
	sim_settle(sim);
	CHECK(say(sim, 6, 10) && !disk_in_flight(sim->disk));
	sim_shutdown(sim);
	CHECK(!sim->error[0] && oracle_all_acked(sim->model));
	sim_free(sim);
	return true;
}

/* A record of a parity shard. Return: the length that it says; 0: there is none that is valid. */
static uint32_t record_at(struct sim *sim, uint32_t drive, uint32_t frame, uint32_t lane, uint32_t side)
{
	static uint8_t blocks[SHARD_SIDE * LSMEM_BLOCK] __attribute__((aligned(4096)));
	const struct lsmem_shard_record *record = (const void *)blocks;
	const struct lsmem_segment_header *header = (const void *)blocks;
	uint64_t at = drive * sim->span + sim->frames_start + (uint64_t)frame * LSMEM_SEGMENT_BYTES;
	struct shard_geometry g;
	struct shard_id id;

	shard_geometry(&g, sim->options.k, sim->options.m, SHARD_FRAME);
	at += (uint64_t)lane * g.blocks * LSMEM_BLOCK;
	disk_read(sim->disk, at, blocks, LSMEM_BLOCK);
	memcpy(id.uuid, sim->geometry.uuid, sizeof(id.uuid));
	id.segment = __le64_to_cpu(header->segment);
	id.generation = __le32_to_cpu(header->generation);
	disk_read(sim->disk, at + (uint64_t)shard_side(&g, side) * LSMEM_BLOCK, blocks, SHARD_SIDE * LSMEM_BLOCK);
	return shard_record_check(record, &g, &id, sim->options.k) ? 0 : __le32_to_cpu(record->head.length);
}

/*
 * The parity shard of an open segment comes back to the frame that it had: the records of then are gone. @same: out: segments that
 * had records there, and have others now.
 */
static bool test_sides(const struct sim_options *options, uint32_t lost, uint32_t *same)
{
	uint32_t before[16][16][SHARD_SIDES], frame, lane, side;
	struct sim_options with = *options;
	struct sim *sim;

	with.size = 2;
	sim = sim_new(11, &with);
	CHECK(sim_start(sim, false));
	sim_settle(sim);
	CHECK(put(sim, 12));
	for (frame = 0; frame < with.frames; frame++)
		for (lane = 0; lane < with.k; lane++)
			for (side = 0; side < SHARD_SIDES; side++)
				before[frame][lane][side] = record_at(sim, sim->drive[lost], frame, lane, side);
	core_lose(sim->core, lost, "a test");
	sim_issue(sim);
	ticks(sim);
	CHECK(put(sim, 3));
	CHECK(sim_add(sim, false));
	sim_settle(sim);
	ticks(sim);
	CHECK(!sim->error[0]);
	for (frame = 0; frame < with.frames; frame++) {
		for (lane = 0; lane < with.k; lane++) {
			bool old = false, new = false, had = false;

			for (side = 0; side < SHARD_SIDES; side++) {
				uint32_t length = record_at(sim, sim->drive[lost], frame, lane, side);

				had |= before[frame][lane][side] > 0;
				old |= length && (length == before[frame][lane][0] || length == before[frame][lane][1]);
				new |= length > before[frame][lane][0] && length > before[frame][lane][1];
			}
			*same += had && new;
			CHECK(!(old && new));
		}
	}
	sim_free(sim);
	return true;
}

/* With each backup lost: one of them has the parity of each open segment. */
static bool test_all_sides(const struct sim_options *options)
{
	uint32_t same = 0, lost;

	for (lost = 0; lost < options->backups; lost++)
		if (!test_sides(options, lost, &same))
			return false;
	return same > 0;
}

/* The power fails in each request of a recovery, and no write that was not flushed is left. */
static bool test_cut_off(uint32_t *tries)
{
	struct recover_result result;
	struct sim *sim;
	uint32_t steps;
	int ret;

	for (*tries = 0;; (*tries)++) {
		sim = sim_new(9, &codes[0]);
		CHECK(sim_start(sim, false));
		for (steps = 300; steps && !sim->error[0]; steps--)
			sim_step(sim);
		sim_cut(sim, DISK_CUT_KEEP);
		sim->io_left = 1 + *tries;
		ret = sim_attempt(sim);
		if (!ret)
			break;
		disk_cut(sim->disk, DISK_CUT_DROP);
		CHECK(ret == -ECANCELED && !sim->error[0]);
		ret = check(sim, &result);
		oracle_look(sim->model);
		if (ret || sim->model->error[0])
			tap_note("request %u: %s%s", *tries, sim->last_damage, sim->model->error);
		CHECK(!ret && !sim->model->error[0]);
		sim_free(sim);
	}
	sim_free(sim);
	return true;
}

/* Count coded segments and others, and frames of stripes, in the newest digest. Return: stripes in it without a segment. */
static uint32_t kinds_of(struct sim *sim, uint32_t *replicas, uint32_t *segments, uint32_t *shards)
{
	uint32_t number, empty = 0;
	struct recover *r = recover_new(&sim->env);
	const struct digest_stripes *stripes;
	enum recover_state state;

	*replicas = *segments = *shards = UINT32_MAX;
	sim->io_left = UINT32_MAX;
	if (!recover_open(r, &state) && !recover_map(r, false)) {
		stripes = recover_digest(r)->stripes;
		*replicas = recover_digest(r)->nr;
		*segments = stripes ? stripes->nr_segments : 0;
		*shards = stripes ? stripes->nr_shards : 0;
		for (number = 0; *shards && number < digest_stripes_nr(recover_digest(r)); number++)
			empty += stripes->stripe[number].there && !stripes->stripe[number].used;
	}
	recover_free(r);
	return empty;
}

/*
 * A coded store whose new segments get replicas: the cleaner retires those that are coded, the frames of all stripes become
 * free for replicas, and the superblocks lose the code. The other way they get it, and the replicas go. After each power cut what
 * was acknowledged is there.
 */
static bool test_turn(const struct sim_options *code, bool to_code)
{
	struct sim_options options = *code;
	uint32_t replicas, segments, shards, tries;
	struct sim *sim;
	bool ok;

	options.replicas = options.m + 1;
	if (to_code)
		options.k = 0;
	sim = sim_new(3, &options);
	sim_start(sim, false);
	for (tries = 300; tries && !sim->error[0]; tries--)
		sim_step(sim);
	sim_settle(sim);
	sim_cut(sim, DISK_CUT_DROP);
	kinds_of(sim, &replicas, &segments, &shards);
	ok = to_code ? replicas && !segments && !shards : segments && shards && !replicas;
	sim->options.k = sim->code.k = to_code ? code->k : 0;
	ok = ok && sim_start(sim, false);
	for (tries = 40; tries && ok && !sim->error[0] && (to_code ? replicas : shards); tries--) {
		uint32_t steps = 400, head;

		while (steps-- && !sim->error[0])
			sim_step(sim);
		for (head = 0; head < MODEL_HEADS && !sim->error[0]; head++)
			model_roll(sim->model, head);
		sim_settle(sim);
		sim_cut(sim, DISK_CUT_DROP);
		/* Core gives them back, not only the next recovery. */
		ok = (!kinds_of(sim, &replicas, &segments, &shards) || to_code) && sim_start(sim, false);
	}
	if (!ok || sim->error[0] || !tries)
		tap_note("%u replicas, %u coded segments, %u frames of stripes: %s", replicas, segments, shards, sim->error);
	ok = ok && !sim->error[0] && tries && sim->raised == to_code && sim->lowered == !to_code;
	sim_free(sim);
	return ok;
}

/* test_coded N: without rule N of daemon/base/rules.h */
int main(int argc, char **argv)
{
	uint32_t i, tries;
	bool ok;

	if (argc > 1)
		lsmem_mutation = 1ull << strtoul(argv[1], NULL, 0);
	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		tries = 0;
		ok = test_sets(&codes[i], 1 + i, &tries);
		tap_ok(ok && tries, "%u+%u: all sets of lost drives, %u of them", codes[i].k,
		       codes[i].m, tries);
	}
	ok = test_cut_off(&tries);
	tap_ok(ok && tries, "a recovery is cut off in each of its %u requests", tries);
	tap_ok(test_check(), "the check finds bad blocks, goes on without them, and compares parity with data");
	tap_ok(test_other(), "another code is refused, and nothing is changed");
	tap_ok(test_scrub(), "bad shards are found by scrubbing, and made anew in their places");
	tap_ok(test_compare(3) && test_compare(4), "parity that does not belong to its data is found, named and made anew");
	tap_ok(test_compare(1), "data that were made wrong are named, and nothing is made of them");
	tap_ok(test_source(), "no shard is made anew of such data");
	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		tries = 0;
		ok = test_return(&codes[i], false, &tries);
		tap_ok(ok && tries, "%u+%u: open segments are whole when lost backups are back", codes[i].k, codes[i].m);
		ok = test_return(&codes[i], true, &tries);
		tap_ok(ok && tries, "%u+%u: writes that wait for a backup go on when it is back", codes[i].k, codes[i].m);
		tap_ok(test_keep(&codes[i], false, &tries), "%u+%u: a backup that comes back keeps its shards", codes[i].k,
		       codes[i].m);
		tap_ok(test_keep(&codes[i], true, &tries), "%u+%u: damaged ones are made anew", codes[i].k, codes[i].m);
	}
	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		tap_ok(test_wait(&codes[i]), "%u+%u: partial rows wait for batch_us, full ones do not", codes[i].k,
		       codes[i].m);
		tap_ok(test_groups(&codes[i]), "%u+%u: groups count all blocks", codes[i].k, codes[i].m);
		tap_ok(test_stream(&codes[i]), "%u+%u: a stream of small writes costs fewer blocks", codes[i].k,
		       codes[i].m);
	}
	for (i = 0; i < 2; i++) {
		tap_ok(test_turn(&codes[i], true), "%u+%u: replicas are retired where new segments are coded", codes[i].k,
		       codes[i].m);
		tap_ok(test_turn(&codes[i], false), "%u+%u: stripes leave where new segments get replicas", codes[i].k,
		       codes[i].m);
	}
	tap_ok(test_all_sides(&codes[0]), "a parity shard that comes back has no records of before");
	stripe_mutation = 1ull << STRIPE_RULE_ADD_SIDES;
	tap_ok(!test_all_sides(&codes[0]), "without ADD_SIDES this is noticed");
	stripe_mutation = 1ull << STRIPE_RULE_KEEP_BLOCK;
	tap_ok(!test_keep(&codes[0], true, &tries), "without KEEP_BLOCK this is noticed");
	stripe_mutation = 0;
	lsmem_mutation |= 1ull << RULE_EXTEND_WHOLE;
	tap_ok(!test_return(&codes[0], false, &tries) && !test_return(&codes[1], true, &tries),
	       "without EXTEND_WHOLE this is noticed");
	return tap_end();
}
