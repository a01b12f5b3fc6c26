// SPDX-License-Identifier: GPL-2.0
/*
 * Named scenarios.  A script drives writers, kernel and disk.  sweep() runs the script again and
 * again, and ends it after each completion of a request, by a power cut of each kind and by a
 * SIGKILL with a later power cut.  Then it checks a recovery, some more work, and another recovery.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "litmus_private.h"

/**
 * struct run - the script that runs
 * @left: completions before the end
 * @young: the youngest request completes first: older ones are slow
 */
struct run run;

static void run_complete(void)
{
	uint32_t in_flight = disk_in_flight(run.sim->disk);

	if (!run.left) {
		run.over = true;
		return;
	}
	run.left--;
	sim_complete(run.sim, run.young ? in_flight - 1 : 0);
}

void lit_put(uint32_t index, uint32_t head, uint32_t length)
{
	run.sim->model->clock++;
	if (!run.over)
		model_put(run.sim->model, index, head, length);
}

void lit_delete(uint32_t index, uint32_t head)
{
	run.sim->model->clock++;
	if (!run.over)
		model_delete(run.sim->model, index, head);
}

void lit_race(uint32_t index, uint32_t first)
{
	if (!run.over)
		model_race(run.sim->model, index, first);
}

void lit_roll(uint32_t head)
{
	if (!run.over)
		model_roll(run.sim->model, head);
}

void lit_clean(uint32_t victims)
{
	if (!run.over)
		model_clean(run.sim->model, victims);
}

/* Compact all segments that may be compacted. */
void lit_compact(void)
{
	uint32_t i;

	for (i = 0; i < MODEL_SEGMENTS && !run.over; i++)
		model_compact(run.sim->model, i);
}

/*
 * Make a pass over segments that the daemon chooses.  Between any two survivors the stream goes on
 * and a request completes.
 */
void lit_pass(void)
{
	struct model *m = run.sim->model;
	uint32_t rounds;

	if (run.over || run.sim->error[0] || !sim_clean(run.sim))
		return;
	for (rounds = 0; m->pass.under_way && !run.over && !run.sim->error[0]; rounds++) {
		model_pass_step(m, 1);
		lit_step(1);
		if (rounds > 2000)
			sim_fail(run.sim, "a pass does not end");
	}
}

void lit_tick(void)
{
	if (run.over)
		return;
	core_tick(run.sim->core);
	sim_issue(run.sim);
}

/* Pass events to core, complete @n requests, pass acknowledgements to the kernel. */
void lit_step(uint32_t n)
{
	if (run.over || run.sim->error[0])
		return;
	sim_events(run.sim);
	while (n-- && disk_in_flight(run.sim->disk) && !run.over && !run.sim->error[0])
		run_complete();
	if (!run.over && !run.sim->error[0])
		sim_acks(run.sim);
}

/* Continue until nothing is in flight any more. */
void lit_settle(void)
{
	uint32_t idle = 0;

	while (idle < 12 && !run.over && !run.sim->error[0]) {
		idle = disk_in_flight(run.sim->disk) ? 0 : idle + 1;
		lit_step(1);
	}
}

void lit_kill(void)
{
	if (!run.over && !run.sim->error[0])
		sim_kill(run.sim);
}

/* After the crash and its recovery: work a little, crash again, recover. */
static bool run_after(struct sim *sim)
{
	uint32_t i;

	for (i = 0; i < 4; i++) {
		model_put(sim->model, random_below(&sim->random, MODEL_HANDLES), 1 + i % 2, 64);
		sim_events(sim);
		sim_acks(sim);
	}
	if (random_chance(&sim->random, 50))
		sim_settle(sim);
	if (sim->error[0])
		return false;
	sim_cut(sim, random_below(&sim->random, DISK_CUT_KINDS));
	return sim_start(sim, true);
}

static bool run_end(struct sim *sim, uint32_t end)
{
	uint32_t i;

	if (end == DISK_CUT_KINDS) {
		/* SIGKILL; the next daemon does a little work. */
		sim_kill(sim);
		for (i = random_below(&sim->random, 30); i && !sim->error[0]; i--) {
			sim_events(sim);
			sim_acks(sim);
			if (disk_in_flight(sim->disk))
				sim_complete(sim, random_below(&sim->random,
							       disk_in_flight(sim->disk)));
		}
		if (sim->error[0])
			return false;
		end = DISK_CUT_RANDOM;
	}
	sim_cut(sim, end);
	return sim_start(sim, true) && run_after(sim);
}

static bool run_once(void (*script)(void), const struct sim_options *options, uint64_t seed,
		     uint32_t left, uint32_t end, bool young)
{
	bool ok;

	run.sim = sim_new(seed, options);
	run.left = left;
	run.young = young;
	run.over = false;
	ok = sim_start(run.sim, false);
	if (ok) {
		script();
		ok = !run.sim->error[0] && run_end(run.sim, end);
	}
	if (!ok && !lsmem_mutation)
		printf("# seed %llu, after %u completions, end %u%s: %s\n",
		       (unsigned long long)seed, left, end, young ? ", youngest first" : "",
		       run.sim->error);
	sim_free(run.sim);
	return ok;
}

/**
 * sweep - end a script after every completion, in every way
 * @script: the script
 * @options: of the simulation
 */
bool sweep(void (*script)(void), const struct sim_options *options)
{
	uint32_t left, end, seed;

	for (left = 0;; left++) {
		for (end = 0; end <= DISK_CUT_KINDS; end++)
			for (seed = 1; seed <= 2; seed++)
				if (!run_once(script, options, seed * 100 + end, left, end,
					      seed == 2))
					return false;
		if (!run.over)
			return true;
	}
}

static const struct sim_options small = { .frames = 24, .size = 0, .steps = 100 };

/* ---- The scenarios ------------------------------------------------------ */

static void first_data(void)
{
	lit_settle();
	lit_put(0, 1, 50);
	lit_put(1, 2, 50);
	lit_settle();
}

static bool litmus_first_data(void)
{
	return sweep(first_data, &small);
}

static void tail_rewrite(void)
{
	uint32_t i;

	lit_settle();
	for (i = 0; i < 8; i++) {
		lit_put(i % 3, 1, 40 + i);
		lit_step(2);
	}
	lit_settle();
}

static bool litmus_tail_rewrite(void)
{
	return sweep(tail_rewrite, &small);
}

/*
 * Head 2 has a write that needs a flush.  Core issues the next write alone, during that flush, and
 * does not write all blocks of the first again.
 */
static void durable_prefix(void)
{
	struct model *m = run.sim->model;
	uint32_t i;

	lit_settle();
	lit_put(0, 1, 50);
	lit_put(1, 2, 50);
	lit_settle();
	if (m->heads[2])
		m->segments[m->heads[2] - 1].limit = LSMEM_SEGMENT_BYTES;
	lit_put(0, 1, 60);
	lit_put(1, 2, 5000);
	lit_step(0);
	lit_put(2, 2, 60);
	for (i = 0; i < 4; i++)
		lit_step(1);
	lit_settle();
}

static bool litmus_durable_prefix(void)
{
	return sweep(durable_prefix, &small);
}

static void roll_over(void)
{
	lit_settle();
	lit_put(0, 1, 100);
	lit_put(1, 2, 100);
	lit_step(3);
	lit_roll(1);
	lit_put(0, 1, 60);
	lit_step(3);
	lit_roll(1);
	lit_put(2, 1, 60);
	lit_settle();
	lit_tick();
	lit_settle();
}

static bool litmus_roll_over(void)
{
	return sweep(roll_over, &small);
}

/* v1 is durable, v2 on a slow head; clean v1's segment, cut the power. */
static void slow_head(void)
{
	lit_settle();
	lit_put(0, 1, 80);
	lit_put(3, 1, 80);
	lit_settle();
	lit_roll(1);
	lit_settle();
	lit_put(0, 2, 90);	/* v2: its write is the oldest, and completes last */
	lit_clean(1);
	lit_step(2);
	lit_step(2);
	lit_settle();
}

static bool litmus_slow_head(void)
{
	return sweep(slow_head, &small);
}

static void race(void)
{
	lit_settle();
	lit_put(0, 1, 30);
	lit_put(1, 2, 30);
	lit_step(4);
	lit_race(0, 0);
	lit_step(1);
	lit_race(0, 1);
	lit_race(1, 1);
	lit_settle();
}

static bool litmus_race(void)
{
	return sweep(race, &small);
}

static void discard_rewrite(void)
{
	lit_settle();
	lit_put(0, 1, 30);
	lit_settle();
	lit_delete(0, 2);
	lit_step(1);
	lit_put(0, 1, 31);
	lit_step(2);
	lit_delete(0, 1);
	lit_put(0, 2, 32);
	lit_settle();
}

static bool litmus_discard_rewrite(void)
{
	return sweep(discard_rewrite, &small);
}

/* Free, clean, cut, allocate: freed objects stay freed, in each order of cleaning. */
static void free_clean(void)
{
	uint32_t i;

	lit_settle();
	for (i = 0; i < 4; i++)
		lit_put(i, 1, 100);
	lit_roll(1);
	lit_settle();
	for (i = 0; i < 4; i++)
		lit_put(i, 1, 110);	/* older copies stay in the first segment */
	lit_roll(1);
	lit_settle();
	lit_delete(0, 2);
	lit_delete(1, 2);
	lit_roll(2);
	lit_settle();
	for (i = 0; i < 4; i++) {
		lit_clean(1);
		lit_roll(0);
		lit_settle();
	}
	lit_put(0, 1, 40);
	lit_settle();
}

static bool litmus_free_clean(void)
{
	return sweep(free_clean, &small);
}

/*
 * As slow_head(), but v1's segment is compacted before it is cleaned.  Then its memory does not
 * hold v1 any more and it is worth cleaning.  Its frame on the backup must not be freed before v2
 * is durable.
 */
static void slow_head_compacted(void)
{
	lit_settle();
	lit_put(0, 1, 80);
	lit_put(3, 1, 80);
	lit_settle();
	lit_roll(1);
	lit_settle();
	lit_put(0, 2, 90);
	lit_delete(3, 2);
	lit_compact();
	lit_pass();
	lit_step(2);
	lit_step(2);
	lit_settle();
}

static bool litmus_slow_head_compacted(void)
{
	return sweep(slow_head_compacted, &small);
}

/*
 * A complete pass of cleaning: the daemon chooses segments with dead and live objects and
 * tombstones, some of them compacted; survivors are in several segments, and writers go on.  Then a
 * digest without the victims, and their frames are used again.
 */
static void cleaning(void)
{
	uint32_t i;

	lit_settle();
	for (i = 0; i < 6; i++) {
		lit_put(i, 1, 200);
		lit_put((i + 1) % 6, 1, 30);
		if (i % 2)
			lit_roll(1);
	}
	lit_settle();
	lit_delete(2, 2);
	lit_roll(1);
	lit_roll(2);
	lit_settle();
	lit_compact();
	lit_put(3, 2, 50);
	lit_pass();
	lit_delete(4, 1);
	lit_roll(0);
	lit_roll(1);
	lit_settle();
	lit_put(0, 1, 60);
	lit_put(1, 2, 60);
	lit_compact();
	lit_pass();
	lit_settle();
	for (i = 0; i < 4; i++) {
		lit_put(i, 1, 70);
		lit_roll(1);
		lit_step(3);
	}
	lit_settle();
}

static bool litmus_cleaning(void)
{
	static const struct sim_options some = { .frames = 16, .size = 0, .steps = 100 };

	return sweep(cleaning, &some);
}

/* The daemon is killed during a pass, again and again; the pass in the kernel goes on. */
static void cleaning_killed(void)
{
	uint32_t i;

	lit_settle();
	for (i = 0; i < 6; i++) {
		lit_put(i, 1, 150);
		lit_roll(1);
		lit_settle();
	}
	for (i = 0; i < 6 && !run.over && !run.sim->error[0]; i++) {
		if (!run.sim->model->pass.under_way)
			sim_clean(run.sim);
		model_pass_step(run.sim->model, 1);
		lit_step(i);
		lit_compact();
		lit_kill();
	}
	for (i = 0; i < 20 && !run.over; i++) {
		model_pass_step(run.sim->model, 1);
		lit_step(2);
	}
	lit_settle();
}

static bool litmus_cleaning_killed(void)
{
	return sweep(cleaning_killed, &small);
}

/* Frames are used again while they hold old valid entries. */
static void recycled(void)
{
	uint32_t i;

	lit_settle();
	for (i = 0; i < 5; i++) {
		lit_put(0, 1, 64);
		lit_put(1, 2, 64);
		lit_put(0, 1, 64);
		lit_step(3);
		lit_roll(1);
		lit_roll(2);
		lit_settle();
		lit_clean(3);
		lit_step(4);
	}
	lit_settle();
}

static bool litmus_recycled(void)
{
	static const struct sim_options few = { .frames = 10, .size = 0, .steps = 100 };

	return sweep(recycled, &few);
}

/* SIGKILL with I/O in flight, and an immediate restart, again and again. */
static void killed(void)
{
	uint32_t i;

	lit_step(2);
	lit_kill();
	lit_step(5);
	lit_kill();
	lit_settle();
	for (i = 0; i < 5; i++) {
		lit_put(i, 1, 90);
		lit_put(i + 1, 2, 90);
		lit_step(i);
		lit_roll(1);
		lit_step(i);
		lit_kill();
		lit_step(1);
		lit_clean(2);
		lit_step(i);
		lit_kill();
	}
	lit_settle();
}

static bool litmus_killed(void)
{
	return sweep(killed, &small);
}

/* Generations reach their ceiling, and the daemon raises it. */
static void ceiling(void)
{
	uint32_t i;

	lit_settle();
	for (i = 0; i < 6; i++) {
		if (!run.over)
			run.sim->model->handles[i].generation =
				run.sim->model->generation_ceiling - i % 2;
		lit_put(i, 1, 40);
		lit_step(1 + i / 2);
		lit_put(i, 1, 40);
		lit_step(2);
	}
	lit_settle();
}

static bool litmus_ceiling(void)
{
	return sweep(ceiling, &small);
}

/* An object larger than a request: when only a part is durable, the object is not. */
static void large(void)
{
	uint32_t i;

	lit_settle();
	lit_put(0, 1, 60);
	lit_put(1, 1, 150000);
	for (i = 0; i < 6; i++) {
		lit_step(1);
		lit_tick();
	}
	lit_put(0, 1, 61);
	lit_step(2);
	lit_settle();
}

static bool litmus_large(void)
{
	static const struct sim_options large_segments = { .frames = 12, .size = 2 };

	return sweep(large, &large_segments);
}

/*
 * The same, and of the object only the first part becomes durable, and then a digest record. A length within the object,
 * in that record, would be bytes that a recovery misses.
 */
static bool litmus_part(void)
{
	static const struct sim_options large_segments = { .frames = 12, .size = 2 };
	uint32_t seed, parts = 0, n;
	struct digest_log log;
	bool ok = true;

	for (seed = 1; seed <= 10 && ok; seed++) {
		struct sim *sim = sim_new(seed, &large_segments);
		uint64_t frames;

		run.sim = sim;
		run.over = run.young = false;
		run.left = UINT32_MAX;
		sim->model->pieces = false;
		ok = sim_start(sim, false);
		lit_settle();
		lit_put(0, 1, 60);
		lit_settle();
		lit_tick();
		lit_settle();
		lit_put(1, 1, 150000);
		sim_events(sim);
		parts += disk_in_flight(sim->disk) > 1;
		sim_complete(sim, 0);
		lit_tick();
		frames = format_frame_offset(core_super(sim->core, &log), 0);
		for (n = 0; n < disk_in_flight(sim->disk);) {
			const struct sim_request *r = &sim->requests[disk_nth(sim->disk, n)];

			if (!r->flush && r->offset >= frames) {
				n++;
				continue;
			}
			sim_complete(sim, n);
			n = 0;
		}
		sim_cut(sim, DISK_CUT_DROP);
		ok = ok && !lit_start_from(sim, 1, false) && !sim->error[0];
		sim_free(sim);
	}
	return ok && parts > 2;
}

/* Clean shutdown: afterwards no segment is torn and all objects are there. */
static void shut_down(void)
{
	lit_settle();
	lit_put(0, 1, 60);
	lit_put(1, 2, 60);
	lit_step(1);
	lit_roll(2);
	lit_put(2, 2, 60);
	lit_step(3);
	if (!run.over)
		sim_shutdown(run.sim);
}

static bool litmus_shut_down(void)
{
	return sweep(shut_down, &small);
}

/*
 * Each segment has one cold object, durable; the others are overwritten again and again, a hundred
 * times the size of the backup.  @chosen: the daemon chooses the segments to clean, and compaction
 * makes room in memory; otherwise random segments are cleaned.
 */
static bool cold(bool chosen)
{
	struct sim *sim = sim_new(7, &(struct sim_options){ .frames = chosen ? 12 : 14 });
	uint64_t written = 0, room = 14 * 1400;
	uint64_t version[5];
	bool ok = sim_start(sim, false);
	uint32_t i;

	for (i = 0; i < 5 && ok; i++) {
		sim_settle(sim);
		model_put(sim->model, i, 1, 60);
		model_roll(sim->model, 1);
		sim_settle(sim);
		version[i] = sim->model->handles[i].version;
		ok = !sim->error[0];
	}
	for (i = 0; ok && written < 100 * room; i++) {
		if (model_put(sim->model, 5 + i % 5, 1 + i % 2, 200))
			written += lsmem_entry_size(200);
		if (chosen) {
			model_compact(sim->model, i % MODEL_SEGMENTS);
			if (!sim->model->pass.under_way)
				sim_clean(sim);
			model_pass_step(sim->model, 3);
		} else if (i % 4 == 0) {
			model_clean(sim->model, 2);
		}
		sim_settle(sim);
		ok = !sim->error[0] && i < 200000;
	}
	if (ok) {
		sim_cut(sim, DISK_CUT_RANDOM);
		ok = sim_start(sim, true);
	}
	for (i = 0; i < 5 && ok; i++)
		ok = sim->model->handles[i].live && sim->model->handles[i].version == version[i];
	if (!ok && !lsmem_mutation)
		printf("# %llu of %llu bytes written: %s\n", (unsigned long long)written,
		       (unsigned long long)(100 * room), sim->error);
	sim_free(sim);
	return ok;
}

static bool litmus_cold(void)
{
	return cold(false);
}

static bool litmus_cold_chosen(void)
{
	return cold(true);
}

/* A segment that is full of objects of the smallest size has the largest directory. */
static bool litmus_brim(void)
{
	struct sim *sim = sim_new(9, &(struct sim_options){ .frames = 10, .size = 0 });
	struct model_segment *seg;
	bool ok = sim_start(sim, false);
	uint64_t first;
	uint32_t i;

	sim_settle(sim);
	model_put(sim->model, 0, 1, 1);
	seg = &sim->model->segments[sim->model->heads[1] - 1];
	seg->limit = LSMEM_SEGMENT_BYTES;
	first = seg->id;
	for (i = 1; ok && i < 200000 && seg->life == MODEL_HEAD; i++) {
		ok = model_put(sim->model, i % 2, 1, 1);
		if (i % 5000 == 0)
			sim_settle(sim);
	}
	ok = ok && seg->life != MODEL_HEAD && seg->id == first;
	sim_settle(sim);
	core_tick(sim->core);
	sim_issue(sim);
	sim_settle(sim);
	ok = ok && !sim->error[0] && seg->close_acked &&
	     !lsmem_segment_fits(seg->reserved + 2 * LSMEM_LONG_BYTES + lsmem_entry_size(1),
				 seg->listed + 1);
	sim_cut(sim, DISK_CUT_DROP);
	ok = ok && sim_start(sim, false);
	if (!ok && !lsmem_mutation)
		printf("# %s\n", sim->error);
	sim_free(sim);
	return ok;
}

const struct litmus litmus[] = {
	{ "header, listing, first data", litmus_first_data },
	{ "the tail block is written again and again", litmus_tail_rewrite },
	{ "a durable write while one before it is not", litmus_durable_prefix },
	{ "successor, close", litmus_roll_over },
	{ "v1 durable, v2 on a slow head, clean", litmus_slow_head },
	{ "v1 durable, v2 on a slow head, compact, clean", litmus_slow_head_compacted },
	{ "a pass of cleaning", litmus_cleaning },
	{ "SIGKILL during passes of cleaning", litmus_cleaning_killed },
	{ "two replaces race", litmus_race },
	{ "discard, rewrite", litmus_discard_rewrite },
	{ "free, clean, allocate", litmus_free_clean },
	{ "recycled frames with old valid entries", litmus_recycled },
	{ "SIGKILL with delayed I/O, restarted at once", litmus_killed },
	{ "generations reach their ceiling", litmus_ceiling },
	{ "an object larger than a request", litmus_large },
	{ "a part of an object is durable, and then a digest", litmus_part },
	{ "clean shutdown", litmus_shut_down },
	{ "a cold object in each segment, a hundred times the capacity written", litmus_cold },
	{ "a cold object in each segment, the daemon chooses what to clean", litmus_cold_chosen },
	{ "a segment full of the smallest objects", litmus_brim },
	{ "crash after each step of a recovery", litmus_recovery_steps },
	{ "crash after each step of a format", litmus_format_steps },
	{ "empty store meets full backup", litmus_full_backup },
	{ "a full digest of several blocks is torn", litmus_torn_full },
	{ "a full digest of several blocks is torn after a SIGKILL", litmus_torn_again },
	{ "a resumed tail is not written shorter", litmus_resumed_tail },
	{ "tombstones are placed while others are being loaded", litmus_places },
	{ "acknowledged bytes destroyed, a commit record follows", litmus_lost_record },
	{ "acknowledged bytes destroyed in what was a spare", litmus_lost_spare },
	{ "acknowledged bytes destroyed after a clean shutdown", litmus_stopped },
	{ "a recovery closes what it cuts", litmus_closes },
	{ "acknowledged bytes destroyed, the digest lists them", litmus_lost_length },
	{ "acknowledged bytes destroyed, the segment has a footer", litmus_lost_footer },
	{ "a segment's header destroyed", litmus_lost_header },
	{ "digests destroyed", litmus_lost_digest },
	{ "the digest with the ceiling destroyed", litmus_lost_ceiling },
	{ "a closed segment damaged", litmus_lost_closed },
	{ "what an accepted loss leaves", litmus_lost_buried },
	{ "a stale copy of a frame", litmus_stale_frame },
	{ "a sound backup is found sound", litmus_check },
	{ "groups on two heads", litmus_groups },
	{ "a group races with other writers", litmus_group_races },
	{ "groups in pieces, acknowledged, SIGKILL", litmus_group_ranges },
	{ "a group torn at each of its entries", litmus_group_torn },
	{ "group records with wrong values, and a group in a group", litmus_group_lies },
	{ "a group with gaps before seglets", litmus_group_gaps },
	{ "a group at the end of a segment", litmus_group_end },
	{ "an acknowledged group destroyed", litmus_group_lost },
	{ "a backup is lost at each step, and comes back alone", litmus_lost_backup },
	{ "each flush of a backup fails at a start", litmus_deaf },
	{ "a backup is lost, and at once the power and another", litmus_shrink },
	{ "a backup is lost, and another before all copies are made", litmus_forget },
	{ "the power and one of three backups, at each step", litmus_quorum },
	{ "the power and all backups but one", litmus_last_drive },
	{ "recoveries that are cut off, each from some backups", litmus_promise },
	{ "the power goes during re-replication", litmus_copy },
	{ "a backup is lost when the log has grown into all of them", litmus_copy_leaves },
	{ "a replica made anew, and others are rotten", litmus_copy_rot },
	{ "a backup comes back, and has most of it still", litmus_keep },
	{ "all replicas are rotten, and memory is whole or not", litmus_copy_memory },
	{ "all replicas of one backup are rotten, and are found by scrubbing", litmus_scrub },
	{ "fewer replicas than there must be", litmus_min_replicas },
	{ "too few backups, until one comes back", litmus_wait },
	{ "a backup comes back before its answers do", litmus_add_quiet },
	{ "one of two replicas is damaged", litmus_bad_copy },
	{ "the power goes at each step of formatting three", litmus_format_all },
	{ "replicas are in different domains, and on all backups", litmus_domains },
	{ "a failure domain of two is lost at once, or with the power", litmus_domain_lost },
	{ "a backup comes back, and the power goes at each step", litmus_join },
	{ "a recovery ends at each step of one coming back", litmus_join_steps },
	{ "acknowledged from memory, and the primary fails at each step", litmus_received },
	{ "what is in memory only goes with it, and nothing is missed", litmus_memory_only },
	{ "what others have received is on a replica made anew", litmus_extend_received },
	{ "a backup comes back after a recovery that went on without it", litmus_split },
};

const uint32_t nr_litmus = sizeof(litmus) / sizeof(litmus[0]);

const char *litmus_fails(void)
{
	uint32_t i;

	for (i = 0; i < nr_litmus; i++)
		if (!litmus[i].run())
			return litmus[i].name;
	return NULL;
}
