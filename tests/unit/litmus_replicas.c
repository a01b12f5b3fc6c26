// SPDX-License-Identifier: GPL-2.0
/*
 * Named scenarios with several backups: a backup is lost at each step, only some backups have a
 * digest, stale backups come back alone.  A recovery that may miss something must refuse; a result
 * that it accepts must be right.  litmus_copies.c has those in which replicas are made anew.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "litmus_private.h"

static const struct sim_options two = { .frames = 12, .backups = 2 };
static const struct sim_options three = { .frames = 12, .backups = 3 };
static const struct sim_options two_of_three = { .frames = 12, .backups = 3, .replicas = 2 };

bool lit_complain(const struct sim *sim, const char *what)
{
	if (!lsmem_mutation)
		printf("# %s: %s%s %s\n", what, sim->error, sim->model->error, sim->last_damage);
	return false;
}

/* Bring the store up from some drives. Returns -ENODATA if recovery finds them too few. */
int lit_start_from(struct sim *sim, uint32_t drives, bool accept_missing)
{
	int ret;

	sim->there = drives;
	sim->accept_missing = accept_missing;
	sim->io_left = UINT32_MAX;
	sim->nr_damage = 0;
	sim->last_damage[0] = '\0';
	ret = sim_attempt(sim);
	sim->accept_missing = false;
	if (ret && ret != -ENODATA)
		sim_fail(sim, "recovery from drives %#x: error %d", drives, -ret);
	if (!ret && sim->nr_damage)
		sim_fail(sim, "recovery from drives %#x reports a loss", drives);
	if (sim->model->error[0])
		sim_fail(sim, "recovery from drives %#x: %s", drives, sim->model->error);
	return sim->error[0] ? -EIO : ret;
}

/* Cut the power, and start from some drives. Returns -ENODATA if refused. */
int lit_again(struct sim *sim, uint32_t drives, bool accept_missing)
{
	if (sim->core)	/* none after a refusal */
		sim_cut(sim, DISK_CUT_DROP);
	return lit_start_from(sim, drives, accept_missing);
}

/* Core loses a backup: one of its writes or flushes fails, if it has any. */
void lit_lose(struct sim *sim, uint32_t backup)
{
	uint32_t n;

	for (n = 0; n < disk_in_flight(sim->disk); n++) {
		const struct sim_request *r = &sim->requests[disk_nth(sim->disk, n)];

		/* After a read that fails a replica is bad, but its backup is not lost. */
		if (r->backup != backup || r->into.iov_len)
			continue;
		sim_fail_request(sim, n);
		return;
	}
	core_lose(sim->core, backup, "a test");
	sim_issue(sim);
}

static void story(void)
{
	lit_settle();
	lit_put(0, 1, 100);
	lit_put(1, 2, 100);
	lit_step(3);
	lit_roll(1);
	lit_put(0, 1, 60);
	lit_put(2, 2, 5000);
	lit_step(4);
	lit_roll(1);
	lit_put(3, 1, 60);
	lit_clean(1);
	lit_settle();
	lit_put(1, 1, 60);
	lit_tick();
	lit_settle();
}

/* Run story() for @left completions; then the requests in flight stay in flight. */
bool lit_tell(const struct sim_options *options, uint32_t left)
{
	run.sim = sim_new(left + 1, options);
	run.sim->model->pieces = false;
	run.left = left;
	run.young = left % 2;
	run.over = false;
	if (!sim_start(run.sim, false))
		return lit_complain(run.sim, "start");
	story();
	return !run.sim->error[0] || lit_complain(run.sim, "story");
}

/* Write a little more, and continue until nothing is in flight. */
void lit_go_on(struct sim *sim)
{
	run.over = false;
	run.left = UINT32_MAX;
	lit_put(4, 1, 70);
	lit_put(5, 2, 70);
	lit_settle();
	lit_tick();
	lit_settle();
	(void)sim;
}

/*
 * A backup is lost after @left completions.  The daemon goes on without it.  After a power cut the
 * other backups have all, and the lost backup alone is refused.
 */
static bool lost_once(const struct sim_options *options, uint32_t left, uint32_t backup)
{
	struct core_stats stats;
	struct sim *sim;
	bool ok = lit_tell(options, left);
	uint32_t drive;

	sim = run.sim;
	drive = 1u << sim->drive[backup];
	if (ok) {
		lit_lose(sim, backup);
		lit_go_on(sim);
		core_stats(sim->core, &stats);
		if (!oracle_all_acked(sim->model))
			sim_fail(sim, "without backup %u it does not go on", backup);
		if (stats.short_segments && options->replicas)
			sim_fail(sim, "%u segments are not copied", stats.short_segments);
	}
	if (ok && !sim->error[0]) {
		sim_cut(sim, DISK_CUT_DROP);
		if (lit_start_from(sim, drive, false) != -ENODATA)
			sim_fail(sim, "a stale backup alone is taken for the store");
		else if (lit_start_from(sim, ALL(sim) & ~drive, false))
			sim_fail(sim, "the others are not enough");
	}
	/* Together with the others it does no harm. */
	if (ok && !sim->error[0]) {
		lit_go_on(sim);
		sim_cut(sim, DISK_CUT_RANDOM);
		if (lit_start_from(sim, ALL(sim), false))
			sim_fail(sim, "with all it does not come up");
	}
	ok = ok && (!sim->error[0] || lit_complain(sim, "a backup lost"));
	sim_free(sim);
	return ok;
}

bool litmus_lost_backup(void)
{
	const struct sim_options *kinds[] = { &two, &three, &two_of_three };
	uint32_t kind, left, backup;

	for (kind = 0; kind < 3; kind++)
		for (left = kind; left < STEPS; left += 6)
			for (backup = 0; backup < kinds[kind]->backups; backup++)
				if (!lost_once(kinds[kind], left, backup))
					return false;
	return true;
}

static struct {
	uint32_t drive;
	int (*flush)(void *context, uint32_t slot);
} deaf;

static int deaf_flush(void *context, uint32_t slot)
{
	struct sim *sim = context;

	if ((slot + sim->rotate) % sim->options.backups == deaf.drive)
		return -EIO;
	return deaf.flush(context, slot);
}

/* At a start each flush of one drive fails: the others are enough, and it is stale when it comes back. */
bool litmus_deaf(void)
{
	bool ok = true;

	for (deaf.drive = 0; deaf.drive < 3 && ok; deaf.drive++) {
		struct sim *sim;

		ok = lit_tell(&two_of_three, STEPS);
		sim = run.sim;
		deaf.flush = sim->env.flush;
		sim->env.flush = deaf_flush;
		if (ok && lit_again(sim, ALL(sim), false))
			sim_fail(sim, "without drive %u it does not come up", deaf.drive);
		sim->env.flush = deaf.flush;
		if (ok && !sim->error[0]) {
			lit_go_on(sim);
			if (lit_again(sim, 1u << deaf.drive, false) != -ENODATA)
				sim_fail(sim, "drive %u alone is taken for the store", deaf.drive);
			else if (lit_start_from(sim, ALL(sim), false))
				sim_fail(sim, "with all it does not come up");
		}
		ok = ok && (!sim->error[0] || lit_complain(sim, "a drive fails at a start"));
		sim_free(sim);
	}
	return ok;
}

/* @backup is lost, @more requests complete, the power fails, and @other is gone for good. */
static bool shrink_once(uint32_t left, uint32_t backup, uint32_t other, uint32_t more)
{
	bool ok = lit_tell(&two_of_three, left);
	struct sim *sim = run.sim;

	if (ok) {
		run.over = false;
		run.left = more;
		lit_lose(sim, backup);
		lit_put(0, 1, 80);
		lit_put(1, 2, 80);
		lit_settle();
		if (!sim->error[0])
			sim_acks(sim);
		other = 1u << sim->drive[other];
		sim_cut(sim, DISK_CUT_DROP);
		lit_start_from(sim, 7 & ~other, false);
		ok = !sim->error[0] || lit_complain(sim, "shrink");
	}
	sim_free(sim);
	return ok;
}

/*
 * A backup is lost, and soon after it the power and another backup.  Core must not acknowledge
 * anything without the first backup before a digest says that it is lost.
 */
bool litmus_shrink(void)
{
	uint32_t left, backup, more;

	for (left = 20; left < 80; left += 10)
		for (backup = 0; backup < 3; backup++)
			for (more = 0; more < 12; more++)
				if (!shrink_once(left, backup, (backup + 1 + more % 2) % 3, more))
					return false;
	return true;
}

/* The power fails after each completion. Calls @judge for each of three drives. */
static bool each_drive(const char *name, void (*judge)(uint32_t drive))
{
	uint32_t left, drive;
	bool ok = true;

	for (left = 0; left < STEPS && ok; left += 4)
		for (drive = 0; drive < 3 && ok; drive++) {
			ok = lit_tell(&three, left);
			if (ok) {
				sim_cut(run.sim, DISK_CUT_DROP);
				judge(drive);
				ok = !run.sim->error[0] || lit_complain(run.sim, name);
			}
			sim_free(run.sim);
		}
	return ok;
}

/* @drive is gone: the other two are enough. */
static void judge_others(uint32_t drive)
{
	if (lit_start_from(run.sim, 7 & ~(1u << drive), false))
		sim_fail(run.sim, "two of three are not enough");
}

bool litmus_quorum(void)
{
	return each_drive("quorum", judge_others);
}

/* Only @drive is left: it has all, but only accept_missing allows to use it. */
static void judge_last(uint32_t drive)
{
	if (lit_start_from(run.sim, 1u << drive, false) != -ENODATA)
		sim_fail(run.sim, "one of three is taken for all");
	/* Even a drive without the last digest has all that was acknowledged. */
	else if (lit_start_from(run.sim, 1u << drive, true))
		sim_fail(run.sim, "the last drive is not taken");
}

bool litmus_last_drive(void)
{
	return each_drive("last drive", judge_last);
}

/* A recovery that has read the newest digest from all drives; NULL: there is none. */
struct recover *lit_newest(struct sim *sim)
{
	enum recover_state state;
	struct recover *r;
	uint32_t slot;

	for (slot = 0; slot < sim->options.backups; slot++)
		sim->env.backup_bytes[slot] = sim->span;
	r = recover_new(&sim->env);
	if (!recover_open(r, &state) && !recover_map(r, true))
		return r;
	recover_free(r);
	return NULL;
}

/* The term of the newest digest. */
static uint64_t newest_term(struct sim *sim)
{
	struct recover *r = lit_newest(sim);
	uint64_t term = r ? recover_digest(r)->term : 0;

	recover_free(r);
	return term;
}

/*
 * Start from some drives, again and again: each start is interrupted by a power cut, one request
 * later than the one before, until one drive has a digest of a new term.
 */
static void cut_off_start(struct sim *sim, uint32_t drives)
{
	uint64_t term = newest_term(sim);
	uint32_t step;

	for (step = 1; !sim->error[0] && newest_term(sim) == term; step++) {
		sim->there = drives;
		sim->io_left = step;
		if (!sim_attempt(sim))
			sim_fail(sim, "not cut off at request %u", step);
		disk_cut(sim->disk, DISK_CUT_DROP);
		sim->io_left = UINT32_MAX;
	}
}

/*
 * Two recoveries without drive @a of three are interrupted when only one drive has their digests.
 * Then a recovery without @b goes on.  If @b is that drive, its digests never counted.
 */
static bool promise_once(uint32_t a, uint32_t b)
{
	bool ok = lit_tell(&three, UINT32_MAX);
	struct sim *sim = run.sim;

	if (ok) {
		sim_cut(sim, DISK_CUT_DROP);
		cut_off_start(sim, ALL(sim) & ~(1u << a));
		cut_off_start(sim, ALL(sim) & ~(1u << a));
		if (!lit_start_from(sim, ALL(sim) & ~(1u << b), false)) {
			lit_go_on(sim);
			sim_cut(sim, DISK_CUT_DROP);
			if (lit_start_from(sim, ALL(sim), false))
				sim_fail(sim, "not from all of them");
		}
		ok = !sim->error[0] || lit_complain(sim, "a promise");
	}
	sim_free(sim);
	return ok;
}

bool litmus_promise(void)
{
	uint32_t a, b;
	bool ok = true;

	for (a = 0; a < 3 && ok; a++)
		for (b = 0; b < 3 && ok; b++)
			ok = a == b || promise_once(a, b);
	return ok;
}

/*
 * Two replicas, and no acknowledgement with fewer.  A backup of a head's segment is lost, and the
 * daemon is killed or not.  The segment gets another replica, and more of its bytes are
 * acknowledged, but not before a durable digest lists the new replica.
 */
static bool min_replicas_once(uint32_t left, bool kill)
{
	static const struct sim_options options = { .frames = 12, .backups = 3, .replicas = 2,
						    .min_replicas = 2 };
	bool ok = lit_tell(&options, STEPS);
	struct model *m = run.sim->model;
	uint32_t b, head, steps, acked = 0;
	struct core_stats stats;

	if (ok) {
		/* The backups that lag have replicas of the segment. */
		model_put(m, 0, 1, 100 + left);
		sim_events(run.sim);
		head = m->heads[1] - 1;
		core_stats(run.sim->core, &stats);
		for (b = 0; b < 3 && !stats.backup[b].lag_bytes; b++)
			;
		run.over = false;
		run.left = left;
		lit_settle();
		lit_lose(run.sim, b);
		acked = m->segments[head].acked;
		run.over = false;
		run.left = UINT32_MAX;
		if (kill)
			lit_kill();
		model_put(m, 1, 1, 100);
		for (steps = 0; steps < 500 && m->segments[head].acked <= acked; steps++)
			lit_step(1);
		ok = m->segments[head].acked > acked &&
		     core_state(run.sim->core) == CORE_RUNNING;
		sim_cut(run.sim, DISK_CUT_DROP);
		ok = ok && lit_listed(run.sim, m->segments[head].id) == 2;
	}
	sim_free(run.sim);
	return ok;
}

bool litmus_min_replicas(void)
{
	uint32_t left, kill;

	for (kill = 0; kill < 2; kill++)
		for (left = 0; left < 8; left++)
			if (!min_replicas_once(left, kill))
				return false;
	return true;
}

/*
 * Two replicas, two backups: one is lost after @left requests, and then nothing is acknowledged.
 * When it comes back while the daemon runs, all that waited is acknowledged.
 */
static bool wait_once(uint32_t left)
{
	static const struct sim_options options = { .frames = 12, .backups = 2, .min_replicas = 2,
						    .join = true };
	bool ok = lit_tell(&options, STEPS);
	struct model *m = run.sim->model;
	uint64_t acked;
	uint32_t i;

	model_put(m, 0, 1, 100);
	sim_events(run.sim);
	run.over = false;
	run.left = left;
	lit_settle();
	lit_lose(run.sim, left % 2);
	acked = m->oracle.acked;
	run.over = false;
	run.left = UINT32_MAX;
	model_put(m, 1, 1, 100);
	lit_settle();
	lit_tick();
	lit_settle();
	ok = ok && m->oracle.acked == acked && core_state(run.sim->core) == CORE_RUNNING &&
	     sim_add(run.sim, false);
	for (i = 0; i < 3; i++) {
		lit_settle();
		lit_tick();
	}
	ok = ok && m->oracle.acked > acked;
	sim_cut(run.sim, DISK_CUT_DROP);
	ok = ok && !lit_start_from(run.sim, ALL(run.sim), false);
	if (!ok)
		lit_complain(run.sim, "waiting");
	sim_free(run.sim);
	return ok;
}

bool litmus_wait(void)
{
	uint32_t left;

	for (left = 0; left < 12; left++)
		if (!wait_once(left))
			return false;
	return true;
}

/* Complete the next request of one backup. False if it has none. */
static bool end_one(struct sim *sim, uint32_t backup)
{
	uint32_t n;

	for (n = 0; n < disk_in_flight(sim->disk); n++) {
		if (sim->requests[disk_nth(sim->disk, n)].backup != backup)
			continue;
		sim_complete(sim, n);
		return true;
	}
	return false;
}

/*
 * One of two backups is lost with requests in flight.  It is not added again before they have
 * completed: their results would count for its next life.
 */
bool litmus_add_quiet(void)
{
	struct sim *sim;
	bool ok = lit_tell(&two, STEPS);
	uint32_t i;

	sim = run.sim;
	model_put(sim->model, 0, 1, 100);
	sim_events(sim);
	core_lose(sim->core, 1, "a test");
	sim_issue(sim);
	for (i = 0; i < 100 && core_backup(sim->core, 1) != CORE_BACKUP_LOST; i++) {
		sim_acks(sim);
		end_one(sim, 0);
	}
	ok = ok && disk_in_flight(sim->disk) && sim_add(sim, false) &&
	     core_backup(sim->core, 1) == CORE_BACKUP_LOST;
	while (end_one(sim, 1))
		;
	ok = ok && sim_add(sim, false);
	sim_settle(sim);
	ok = ok && core_backup(sim->core, 1) == CORE_BACKUP_MEMBER;
	if (!ok)
		lit_complain(sim, "answers that come late");
	sim_free(sim);
	return ok;
}

/* Blocks of one replica are damaged: recovery reads the other, and reports the damage. */
bool litmus_bad_copy(void)
{
	uint32_t drive, at, bad = 0;
	bool ok = true;

	for (drive = 0; drive < 2 && ok; drive++)
		for (at = 0; at < 36 && ok; at++) {
			uint64_t where;

			ok = lit_tell(&two, STEPS);
			sim_cut(run.sim, DISK_CUT_DROP);
			/* Damage headers, data and directories in turns. */
			where = run.sim->frames_start + at / 3 % 12 * (uint64_t)LSMEM_SEGMENT_BYTES;
			where += at % 3 == 2 ? LSMEM_SEGMENT_BYTES - LSMEM_BLOCK :
				 at % 3 * LSMEM_BLOCK;
			disk_flip(run.sim->disk, drive * run.sim->span + where, at * 131 % 32768);
			if (ok && lit_start_from(run.sim, 3, false))
				sim_fail(run.sim, "a damaged replica is not passed over");
			bad += run.sim->result.bad_copies;
			ok = ok && (!run.sim->error[0] || lit_complain(run.sim, "bad copy"));
			sim_free(run.sim);
		}
	return ok && bad;
}

/* The power fails after each step of formatting three backups. */
bool litmus_format_all(void)
{
	uint32_t step, ret = 1;
	bool ok = true;

	for (step = 1; ret && ok; step++) {
		struct sim *sim = sim_new(step, &three);

		sim->io_left = step;
		ret = sim_attempt(sim) != 0;
		if (ret)
			disk_cut(sim->disk, random_below(&sim->random, DISK_CUT_KINDS));
		else
			sim_cut(sim, DISK_CUT_DROP);
		ok = !lit_start_from(sim, 7, false) || lit_complain(sim, "format");
		sim_free(sim);
	}
	return ok;
}

/* Two replicas, two domains of two backups: each domain has one replica; no backup is unused. */
bool litmus_domains(void)
{
	static const struct sim_options pairs = { .frames = 12, .backups = 4, .replicas = 2,
						  .pairs = true };
	const struct digest_map *map;
	enum recover_state state;
	uint32_t used = 0, on, place, other;
	struct recover *r;
	bool ok = lit_tell(&pairs, STEPS);

	sim_cut(run.sim, DISK_CUT_DROP);
	r = recover_new(&run.sim->env);
	ok = ok && !recover_open(r, &state) && !recover_map(r, false);
	map = recover_digest(r);
	for (place = 0; ok && place < digest_places(map); place++) {
		on = 0;
		for (other = 0; other < digest_places(map); other++)
			if (map->items[other].state &&
			    map->items[other].segment == map->items[place].segment)
				on |= 1u << run.sim->drive[other / map->frames];
		used |= map->items[place].state ? on : 0;
		ok = !map->items[place].state ||
		     (__builtin_popcount(on) == 2 && on & 3 && on & 12);
	}
	recover_free(r);
	sim_free(run.sim);
	return ok && used == 15;
}

/*
 * The example of lsmemd.conf(5): two drives in one shelf, a third by itself, two replicas.  The
 * shelf is lost after @left completions.  The third drive goes on alone, and has all.
 */
static bool domain_lost_once(uint32_t left, bool power)
{
	static const struct sim_options shelf = { .frames = 12, .backups = 3, .replicas = 2,
						  .pairs = true };
	bool ok = lit_tell(&shelf, left);
	struct sim *sim = run.sim;
	uint32_t b;

	if (ok && !power) {
		for (b = 0; b < 3; b++)
			if (sim->drive[b] < 2)
				core_lose(sim->core, b, "a test");
		sim_issue(sim);
		lit_go_on(sim);
		if (core_state(sim->core) != CORE_RUNNING || !oracle_all_acked(sim->model))
			sim_fail(sim, "without a domain it does not go on: %s",
				 core_error(sim->core));
	}
	if (ok && !sim->error[0]) {
		sim_cut(sim, left % DISK_CUT_KINDS);
		if (lit_start_from(sim, 3, false) != -ENODATA)
			sim_fail(sim, "the shelf alone is taken for the store");
		/* If the power failed too, the shelf could have gone on alone. */
		else if (power && lit_start_from(sim, 4, false) != -ENODATA)
			sim_fail(sim, "the third alone is taken for the store");
		else if (lit_start_from(sim, !power ? 4 : left / 4 % 2 ? 5 : 6, false))
			sim_fail(sim, "it does not come up");
	}
	ok = ok && (!sim->error[0] || lit_complain(sim, "a domain lost"));
	sim_free(sim);
	return ok;
}

bool litmus_domain_lost(void)
{
	uint32_t left;

	for (left = 0; left < STEPS; left += 4)
		if (!domain_lost_once(left, false) || !domain_lost_once(left, true))
			return false;
	return true;
}

static const struct sim_options joins[] = {
	{ .frames = 12, .backups = 2, .join = true },
	{ .frames = 12, .backups = 3, .join = true },
	{ .frames = 12, .backups = 3, .replicas = 2, .join = true },
};

#define JOINS (sizeof(joins) / sizeof(joins[0]))

/* Run story(), lose a backup, and cut the power. Returns the mask of its drive. */
static uint32_t leave_behind(const struct sim_options *options, uint32_t backup)
{
	uint32_t drive;

	if (!lit_tell(options, STEPS))
		return ALL(run.sim);
	drive = 1u << run.sim->drive[backup];
	lit_lose(run.sim, backup);
	lit_go_on(run.sim);
	sim_cut(run.sim, DISK_CUT_DROP);
	return drive;
}

/*
 * The lost backup comes back, @more requests complete, and the power fails.  In any case all drives
 * together are enough.  If no segment was short, the drive that came back has all.
 */
static bool join_once(const struct sim_options *options, uint32_t backup, uint32_t more,
		      bool *done)
{
	uint32_t drive = leave_behind(options, backup);
	struct sim *sim = run.sim;
	struct core_stats stats;

	memset(&stats, 0, sizeof(stats));
	if (!sim->error[0] && !lit_start_from(sim, ALL(sim), false)) {
		run.over = false;
		run.left = more;
		lit_put(0, 1, 90);
		lit_put(1, 2, 90);
		lit_settle();
		lit_tick();
		lit_settle();
		*done = !run.over;
		core_stats(sim->core, &stats);
		sim_cut(sim, more % DISK_CUT_KINDS);
		if (lit_start_from(sim, ALL(sim), false))
			sim_fail(sim, "with the one that came back it does not come up");
	}
	if (!sim->error[0] && *done) {
		if (stats.short_segments + stats.short_open && !options->replicas)
			sim_fail(sim, "it has come back, and segments are short");
		lit_go_on(sim);
		lit_go_on(sim);
		sim_cut(sim, DISK_CUT_DROP);
		/* The drive has all, or, with two replicas on three drives, a part. */
		if (lit_start_from(sim, options->replicas ? ALL(sim) & ~(drive == 1 ? 2 : 1) : drive,
			       true))
			sim_fail(sim, "the one that came back has not all");
	}
	return !sim->error[0] || lit_complain(sim, "coming back");
}

bool litmus_join(void)
{
	uint32_t kind, backup, more;
	bool ok = true, done;

	for (kind = 0; kind < JOINS && ok; kind++)
		for (backup = 0; backup < joins[kind].backups && ok; backup++) {
			done = false;
			for (more = 0; more < 3000 && !done && ok; more += 1 + more / 40) {
				ok = join_once(&joins[kind], backup, more, &done);
				sim_free(run.sim);
			}
			ok = ok && done;
		}
	return ok;
}

/* A recovery that makes a lost backup ready again is interrupted after each of its requests. */
bool litmus_join_steps(void)
{
	uint32_t kind, step;
	bool ok = true, over = false;

	for (kind = 0; kind < JOINS && ok; kind++, over = false)
		for (step = 1; !over && ok; step++) {
			struct sim *sim;

			leave_behind(&joins[kind], step % joins[kind].backups);
			sim = run.sim;
			sim->there = ALL(sim);
			sim->io_left = step;
			over = !sim->error[0] && !sim_attempt(sim);
			if (!over && !sim->error[0]) {
				disk_cut(sim->disk, random_below(&sim->random, DISK_CUT_KINDS));
				if (lit_start_from(sim, ALL(sim), false))
					sim_fail(sim, "cut off at request %u", step);
			}
			ok = !sim->error[0] || lit_complain(sim, "making ready");
			sim_free(sim);
		}
	return ok;
}

/* The hosts that report what they receive have received all that is in flight. */
static void receive_all(struct sim *sim)
{
	uint32_t n;

	for (n = 0; n < disk_in_flight(sim->disk); n++)
		sim_receive(sim, n);
	sim_acks(sim);
}

/*
 * The primary fails after each completion, when all in flight has been received.  The remaining
 * backups have all that was acknowledged, whichever of them recovery reads.
 */
bool litmus_received(void)
{
	static const struct sim_options kinds[] = {
		{ .frames = 12, .memory = 1 },
		{ .frames = 12, .backups = 2, .memory = 3 },
		{ .frames = 12, .backups = 3, .replicas = 2, .memory = 3 },
	};
	uint32_t kind, left, without, told = 0;
	bool ok = true;

	for (kind = 0; kind < 3 && ok; kind++)
		for (left = 0; left < STEPS && ok; left += 1 + left % 2) {
			ok = lit_tell(&kinds[kind], left);
			without = kind == 2 ? 1u << left % 3 : 0;
			if (ok) {
				lit_put(left % 4, 1, 90);
				model_put(run.sim->model, 4, 2, 90);
				sim_events(run.sim);
				receive_all(run.sim);
				sim_cut_alone(run.sim, left % DISK_CUT_KINDS);
				if (lit_start_from(run.sim, ALL(run.sim) & ~without, false))
					sim_fail(run.sim, "it does not come up");
				ok = !run.sim->error[0] || lit_complain(run.sim, "received");
			}
			told += run.sim->model->oracle.received;
			sim_free(run.sim);
		}
	return ok && told;
}

/*
 * A write has been received by all backups, but is on no drive; everything that can happen then
 * has happened.  The power of all hosts fails: the write is lost, and recovery reports no loss.
 */
bool litmus_memory_only(void)
{
	static const struct sim_options options = { .frames = 12, .memory = 1 };
	bool ok = lit_tell(&options, STEPS);
	struct sim *sim = run.sim;
	uint64_t received, acked;
	uint32_t n, rounds;

	if (ok) {
		lit_go_on(sim);
		received = sim->model->oracle.received;
		acked = sim->model->oracle.acked;
		model_put(sim->model, 0, 1, 500);
		sim_events(sim);
		receive_all(sim);
		for (rounds = 0; rounds < 30; rounds++) {
			core_tick(sim->core);
			sim_issue(sim);
			for (n = disk_in_flight(sim->disk); n-- > 0;)
				if (!sim->requests[disk_nth(sim->disk, n)].received)
					sim_complete(sim, n);
			sim_acks(sim);
		}
		if (sim->model->oracle.received == received || sim->model->oracle.acked != acked)
			sim_fail(sim, "what is in memory is not acknowledged, or called durable");
		sim_cut(sim, DISK_CUT_DROP);
		if (lit_start_from(sim, 1, false))
			sim_fail(sim, "it does not come up");
		ok = !sim->error[0] || lit_complain(sim, "memory only");
	}
	sim_free(sim);
	return ok;
}

/* Complete the oldest request that is neither received nor slow (slow_writes()). */
static void complete_one(struct sim *sim)
{
	uint32_t n;

	sim_events(sim);
	for (n = 0; n < disk_in_flight(sim->disk); n++) {
		if (sim->requests[disk_nth(sim->disk, n)].received)
			continue;
		sim_complete(sim, n);
		return;
	}
}

/*
 * Find a backup other than @on with two or more long writes in flight, and make all but the first
 * of them slow: complete_one() skips requests that are marked as received.
 */
static bool slow_writes(struct sim *sim, const uint32_t on[2])
{
	struct sim_request *r, *writes[4][CORE_IOS];
	uint32_t nr[4] = { 0 }, n, b;

	for (n = 0; n < disk_in_flight(sim->disk); n++) {
		r = &sim->requests[disk_nth(sim->disk, n)];
		if (r->length >= LSMEM_SEGLET_BYTES && r->backup != on[0] && r->backup != on[1])
			writes[r->backup][nr[r->backup]++] = r;
	}
	for (b = 0; b < 4 && nr[b] < 2; b++)
		;
	for (n = 1; b < 4 && n < nr[b]; n++)
		writes[b][n]->received = true;
	return b < 4;
}

/*
 * One of two replicas of a head's segment is in the memory of a host only, and the other is lost.
 * Core makes a third replica: its first write and @more requests complete, then the primary fails.
 */
static bool extend_received_once(uint32_t more, bool kill, bool *slow)
{
	static const struct sim_options options = { .frames = 12, .backups = 4, .replicas = 2,
						    .size = 2 };
	bool ok = lit_tell(&options, STEPS + more);
	struct sim *sim = run.sim;
	struct model *m = sim->model;
	struct core_stats stats;
	uint32_t on[2] = { 0 }, b, n, nr = 0;

	if (ok) {
		lit_go_on(sim);
		m->segments[m->heads[1] - 1].limit = LSMEM_SEGMENT_BYTES;
		model_put(m, 0, 1, 100);
		sim_events(sim);
		core_stats(sim->core, &stats);
		for (b = 0; b < 4; b++)
			if (stats.backup[b].lag_bytes && nr < 2)
				on[nr++] = b;
		lit_settle();
		sim->options.memory = 1u << sim->drive[on[0]];
		model_put(m, 1, 1, 250000);
		for (n = 0; n < 40; n++) {
			receive_all(sim);
			complete_one(sim);
		}
		if (kill)
			sim_kill(sim);
		lit_lose(sim, on[1]);
		for (n = 0; n < 80 && !slow_writes(sim, on); n++)
			complete_one(sim);
		*slow |= n < 80 && nr == 2;
		for (n = 0; n < more; n++)
			complete_one(sim);
		sim_cut_alone(sim, DISK_CUT_DROP);
		lit_start_from(sim, ALL(sim) & ~(1u << sim->drive[on[0]] | 1u << sim->drive[on[1]]),
			   false);
		ok = !sim->error[0] || lit_complain(sim, "extend");
	}
	sim_free(sim);
	return ok;
}

bool litmus_extend_received(void)
{
	uint32_t more, kill;

	for (kill = 0; kill < 2; kill++) {
		bool slow = false;

		for (more = 0; more < 40; more++)
			if (!extend_received_once(more, kill, &slow))
				return false;
		if (!slow)
			return false;
	}
	return true;
}

/* Is a drive a member, or joining? */
static bool is_used(const struct sim *sim, uint32_t drive)
{
	uint32_t b;

	for (b = 0; b < LSMEM_BACKUPS; b++)
		if (sim->drive[b] == drive && (core_backup(sim->core, b) == CORE_BACKUP_MEMBER ||
					       core_backup(sim->core, b) == CORE_BACKUP_JOINING))
			return true;
	return false;
}

static void blank(struct sim *sim, uint32_t drive)
{
	disk_zero(sim->disk, drive * sim->span);
	disk_zero(sim->disk, drive * sim->span + LSMEM_BLOCK);
}

static struct sim *split_begin(void)
{
	static const struct sim_options options = { .frames = 12, .backups = 2, .join = true };

	run.sim = sim_new(1, &options);
	run.left = UINT32_MAX;
	run.over = false;
	if (sim_start(run.sim, false))
		lit_settle();
	return run.sim;
}

/* The first drive is lost, the second goes on; then the store is started from the first alone. */
static bool split_further(void)
{
	struct sim *sim = split_begin();
	uint32_t lost = sim->drive[0], other = sim->drive[1];
	bool ok;

	lit_lose(sim, 0);
	lit_tick();
	lit_settle();
	ok = lit_again(sim, 1u << lost, false) == -ENODATA && !lit_again(sim, 1u << lost, true) &&
	     !lit_again(sim, 3, false) && is_used(sim, lost) && !is_used(sim, other) &&
	     !lit_again(sim, 3, false) && !is_used(sim, other);
	blank(sim, other);
	ok = ok && !lit_again(sim, 3, false) && is_used(sim, lost) && is_used(sim, other);
	ok = ok || lit_complain(sim, "one has gone further");
	sim_free(sim);
	return ok;
}

/* Each drive was recovered without the other: a split brain. */
static bool split_apart(void)
{
	struct sim *sim = split_begin();
	struct oracle *oracle = &sim->model->oracle;
	uint32_t era = oracle->era, generation = oracle->generation;
	uint64_t segment = oracle->segment;
	bool ok = !lit_again(sim, 1, true);

	/* The second drive has nothing of the first recovery, nor may the oracle. */
	oracle->era = era;
	oracle->generation = generation;
	oracle->segment = segment;
	ok = ok && !lit_again(sim, 2, true) && lit_again(sim, 3, false) == -ENODATA &&
	     strstr(sim->last_damage, "split brain");
	blank(sim, 1);
	ok = ok && !lit_again(sim, 3, false) && is_used(sim, 0) && is_used(sim, 1);
	ok = ok || lit_complain(sim, "both have gone on");
	sim_free(sim);
	return ok;
}

/* The missing drive holds nothing that the other does not have: it joins again. */
static bool split_behind(void)
{
	struct sim *sim = split_begin();
	bool ok = !lit_again(sim, 1, true) && !lit_again(sim, 3, false) && is_used(sim, 0) &&
		  is_used(sim, 1);

	ok = ok || lit_complain(sim, "one was left behind");
	sim_free(sim);
	return ok;
}

bool litmus_split(void)
{
	return split_further() && split_apart() && split_behind();
}
