// SPDX-License-Identifier: GPL-2.0
/*
 * Named scenarios with replicas that are made anew: copying is interrupted, replicas are damaged, a
 * backup that comes back still has some.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "litmus_private.h"

static const struct sim_options two_of_three = { .frames = 12, .backups = 3, .replicas = 2 };

/* The number of replicas of a segment that a digest lists on its members. */
static uint32_t replicas(const struct digest_map *map, uint64_t segment)
{
	uint32_t place, nr = 0;

	for (place = 0; place < digest_places(map); place++)
		nr += map->mask >> place / map->frames & 1u && map->items[place].state &&
		      map->items[place].segment == segment;
	return nr;
}

/* The number of replicas of a segment that the newest digest lists. */
uint32_t lit_listed(struct sim *sim, uint64_t segment)
{
	struct recover *r = lit_newest(sim);
	uint32_t nr = r ? replicas(recover_digest(r), segment) : 0;

	recover_free(r);
	return nr;
}

static void read_block(struct sim *sim, struct recover *r, uint32_t place, uint32_t at,
		       uint8_t *block)
{
	uint32_t frames = recover_digest(r)->frames, slot = recover_slot(r, place / frames);

	disk_read(sim->disk, (slot + sim->rotate) % sim->options.backups * sim->span +
		  format_frame_offset(recover_slot_super(r, slot), place % frames) +
		  LSMEM_BLOCK + at, block, LSMEM_BLOCK);
}

/* Are the bytes of each segment that the digest lists as durable equal on all its replicas? */
static bool replicas_agree(struct sim *sim)
{
	struct recover *r = lit_newest(sim);
	const struct digest_map *map = r ? recover_digest(r) : NULL;
	uint8_t mine[LSMEM_BLOCK], its[LSMEM_BLOCK];
	uint32_t place, other, at, part;
	bool ok = r;

	for (place = 0; ok && place < digest_places(map); place++)
		for (other = 0; ok && other < place && map->items[place].state; other++) {
			if (!map->items[other].state ||
			    map->items[other].segment != map->items[place].segment)
				continue;
			for (at = 0; ok && at < map->items[place].length; at += LSMEM_BLOCK) {
				part = map->items[place].length - at;
				read_block(sim, r, place, at, mine);
				read_block(sim, r, other, at, its);
				ok = !memcmp(mine, its, part < LSMEM_BLOCK ? part : LSMEM_BLOCK);
			}
		}
	recover_free(r);
	return ok;
}

/*
 * The power fails during re-replication.  If core reports no short segments any more, each of the
 * two remaining drives has all that the other has.
 */
static bool copy_all(bool closed)
{
	uint32_t more, left = 0, drive = 0;
	struct core_stats stats;
	bool ok = true, done = false, copied = false;

	for (more = 0; more < 2400 && !(done && !drive) && ok;
	     more += drive ? 0 : more < 60 ? 1 : 11) {
		ok = lit_tell(&two_of_three, STEPS);
		if (ok) {
			/* Make closed and open segments, or open segments only. */
			lit_go_on(run.sim);
			for (left = 0; left < 3 && closed; left++)
				lit_roll(left);
			lit_go_on(run.sim);
			lit_put(0, 2, 9000);
			lit_step(4);
			lit_lose(run.sim, 1);
			run.young = more & 2;
			run.over = false;
			run.left = more;
			/* Use up the heads and spares that have one replica. */
			for (left = 0; left < 12; left++) {
				if (closed)
					lit_roll(left % 3);
				lit_put(left % 6, 1 + left % 2, 50);
				lit_settle();
			}
			lit_tick();
			lit_settle();
			done = !run.over;
			core_stats(run.sim->core, &stats);
			stats.short_segments += stats.short_open;
			left = !stats.short_segments ? drive ? 1 : 4 : 5;
			drive = !drive;
			copied |= !stats.short_segments && stats.copied && (!closed || stats.copied_bytes);
			sim_cut(run.sim, DISK_CUT_DROP);
			if (!replicas_agree(run.sim))
				sim_fail(run.sim, "replicas differ");
			/* Backup 1 is lost: the others are backups 0 and 2. */
			if (lit_start_from(run.sim, (left & 1 ? 1u << run.sim->drive[0] : 0) |
				       (left & 4 ? 1u << run.sim->drive[2] : 0), true))
				sim_fail(run.sim, "segments are missing");
			ok = !run.sim->error[0] || lit_complain(run.sim, "copy");
		}
		sim_free(run.sim);
	}
	return ok && done && copied;
}

bool litmus_copy(void)
{
	return copy_all(false) && copy_all(true);
}

/* Turn a bit of each closed or sealed segment on one drive. Returns their number. */
static uint32_t rot(struct sim *sim, uint32_t drive, uint32_t where)
{
	struct recover *r = lit_newest(sim);
	const struct digest_map *map = r ? recover_digest(r) : NULL;
	uint32_t place, slot, nr = 0;
	uint64_t at;

	for (place = 0; r && place < digest_places(map); place++) {
		const struct digest_item *item = &map->items[place];

		slot = recover_slot(r, place / map->frames);
		if ((item->state != LSMEM_ITEM_CLOSED && item->state != LSMEM_ITEM_SEALED) ||
		    !item->length || (slot + sim->rotate) % sim->options.backups != drive)
			continue;
		/* @where: header, first entry, last entry, directory, footer */
		at = where == 0 ? 0 : where == 1 ? LSMEM_BLOCK :
		     where == 2 ? LSMEM_BLOCK + item->length - 1 :
		     LSMEM_SEGMENT_BYTES - (5 - where) * LSMEM_BLOCK;
		if (where > 2 && item->state == LSMEM_ITEM_SEALED)
			continue;
		at += drive * sim->span +
		      format_frame_offset(recover_slot_super(r, slot), place % map->frames);
		disk_flip(sim->disk, at - at % LSMEM_BLOCK, at % LSMEM_BLOCK * 8 + 3);
		nr++;
	}
	recover_free(r);
	return nr;
}

/* Continue until nothing is in flight and all possible copies and digests are done. */
static void copies_settle(struct sim *sim)
{
	uint32_t rounds;

	for (rounds = 0; rounds < 4; rounds++) {
		lit_settle();
		core_tick(sim->core);
		sim_issue(sim);
	}
	lit_settle();
}

/* Run the story of lit_tell(), then make several closed segments, all durable. */
static bool tell_closed(const struct sim_options *options)
{
	bool ok = lit_tell(options, STEPS);
	uint32_t head;

	lit_go_on(run.sim);
	for (head = 0; head < 3; head++)
		lit_roll(head);
	lit_go_on(run.sim);
	lit_put(0, 2, 3000);
	lit_roll(2);
	copies_settle(run.sim);
	disk_settle(run.sim->disk);
	return ok && !run.sim->error[0];
}

/* The number of closed segments, with data, that the newest digest lists on one drive only. */
static uint32_t only_on(struct sim *sim, uint32_t drive)
{
	struct recover *r = lit_newest(sim);
	const struct digest_map *map = r ? recover_digest(r) : NULL;
	uint32_t place, slot, nr = 0;

	for (place = 0; r && place < digest_places(map); place++) {
		const struct digest_item *item = &map->items[place];

		slot = recover_slot(r, place / map->frames);
		nr += item->state == LSMEM_ITEM_CLOSED && item->length &&
		      (slot + sim->rotate) % sim->options.backups == drive &&
		      replicas(map, item->segment) == 1;
	}
	recover_free(r);
	return nr;
}

/* Run the story of lit_tell(), then make a closed segment for each of nine objects, all durable. */
static bool tell_each(const struct sim_options *options)
{
	bool ok = lit_tell(options, STEPS);
	uint32_t index;

	run.over = false;
	run.left = UINT32_MAX;
	for (index = 0; index < 9; index++) {
		lit_put(index, 1 + index % 2, 100 + index);
		lit_roll(1 + index % 2);
		lit_settle();
	}
	copies_settle(run.sim);
	if (ok && !run.sim->error[0] && !oracle_all_acked(run.sim->model))
		sim_fail(run.sim, "not all is acknowledged");
	return ok && (!run.sim->error[0] || lit_complain(run.sim, "before the loss"));
}

/*
 * Two replicas on three backups, and more segments than two backups have frames for: one is lost.  Copies leave room
 * for cleaning, with which writers go on, and in the end all segments have two replicas.
 */
bool litmus_copy_leaves(void)
{
	static const struct sim_options options = { .frames = 14, .extra = 7, .backups = 3, .replicas = 2 };
	bool ok = lit_tell(&options, STEPS);
	struct sim *sim = run.sim;
	uint32_t index;

	lit_go_on(sim);
	for (index = 0; core_frames_left(sim->core) > LSMEM_SEGMENTS_RESERVE + 1 && !sim->error[0]; index++) {
		lit_put(index % 9, 1 + index % 2, 100 + index % 50);
		lit_roll(1 + index % 2);
		lit_settle();
		if (index > 10 * options.frames)
			sim_fail(sim, "the log does not grow");
	}
	lit_lose(sim, 0);
	copies_settle(sim);
	if (core_frames_left(sim->core) < LSMEM_SEGMENTS_RESERVE)
		sim_fail(sim, "copies have left room for %u segments", core_frames_left(sim->core));
	for (index = 0; index < 30 && !sim->error[0]; index++) {
		lit_pass();
		copies_settle(sim);
		lit_put(index % 9, 1 + index % 2, 100 + index % 50);
		lit_roll(1 + index % 2);
		lit_settle();
	}
	copies_settle(sim);
	if (!sim->error[0] && !oracle_all_acked(sim->model))
		sim_fail(sim, "not all is acknowledged");
	ok = ok && (!sim->error[0] || lit_complain(sim, "copies leave room"));
	sim_free(sim);
	return ok;
}

/*
 * Two replicas on three backups: @first is lost, @more requests complete, and @second is lost.  If
 * a segment has no other replica yet, core stops, and no digest forgets the segment.  After a power
 * cut a recovery without @second misses it, and a recovery with it finds everything.
 * @goes_on: core does not stop.  @hit: it stops, and closed segments are on @second only.
 */
static bool forget_once(uint32_t first, uint32_t second, uint32_t more, bool *goes_on, bool *hit)
{
	static const struct sim_options options = { .frames = 20, .backups = 3, .replicas = 2 };
	bool ok = tell_each(&options), forgets = false, counts = true;
	struct sim *sim = run.sim;
	uint32_t drive = sim->drive[second], last;
	int ret;

	*goes_on = false;
	if (ok) {
		lit_lose(sim, first);
		run.over = false;
		run.left = more;
		copies_settle(sim);
	}
	if (ok && !sim->error[0]) {
		lit_lose(sim, second);
		run.over = false;
		run.left = UINT32_MAX;
		copies_settle(sim);
		*goes_on = core_state(sim->core) == CORE_RUNNING;
		forgets = strstr(core_error(sim->core), "its last replica is lost");
		/* Or it stops because no digest has counted yet without @first: what the drive has
		 * of one does not count either, and the digest before it names other replicas.
		 */
		counts = !strstr(core_error(sim->core), "too few failure domains");
		if (forgets || !counts)
			sim->error[0] = '\0';
	}
	if (ok && !sim->error[0]) {
		sim_cut(sim, more % DISK_CUT_KINDS);
		last = counts ? only_on(sim, drive) : 0;
		*hit |= forgets && last;
		ret = lit_start_from(sim, ALL(sim) & ~(1u << drive), false);
		if (!ret && last)
			sim_fail(sim, "%u last replicas are not missed", last);
		else if (ret && *goes_on)
			sim_fail(sim, "core goes on, and the others are not enough");
		else if (lit_again(sim, ALL(sim), false))
			sim_fail(sim, "with all it does not come up");
	}
	ok = ok && (!sim->error[0] || lit_complain(sim, "the last replica"));
	sim_free(sim);
	return ok;
}

/* A backup is lost, and another at each step of making the copies, until there are all of them. */
bool litmus_forget(void)
{
	uint32_t first, second, more;
	bool ok = true, goes_on, hit;

	for (first = 0; first < 3 && ok; first++)
		for (second = 0; second < 3 && ok; second++) {
			if (second == first)
				continue;
			goes_on = false;
			hit = false;
			for (more = 0; more < 3000 && !goes_on && ok; more += 1 + more / 4)
				ok = forget_once(first, second, more, &goes_on, &hit);
			ok = ok && goes_on && hit;
		}
	return ok;
}

/*
 * Three replicas on four backups, or on three: one is lost, another is rotten at @where.  Core
 * copies from the third replica, and also replaces the rotten replicas.
 */
static bool copy_rot_once(uint32_t backups, uint32_t lost, uint32_t rotten, uint32_t where)
{
	const struct sim_options options = { .frames = 14, .backups = backups, .replicas = 3,
					     .join = true };
	bool ok = tell_closed(&options);
	struct sim *sim = run.sim;
	struct core_stats stats;
	struct core_bad bad;
	uint32_t turned, named = 0, first, n, drive;

	turned = rot(sim, sim->drive[rotten], where);
	lit_lose(sim, lost);
	copies_settle(sim);
	if (backups == 3 && !sim_add(sim, true))
		sim_fail(sim, "the lost one cannot be added");
	copies_settle(sim);
	core_stats(sim->core, &stats);
	while (core_bad_next(sim->core, &bad)) {
		named++;
		if (bad.backup != rotten || bad.error || !bad.format)
			sim_fail(sim, "backup %u is called bad", bad.backup);
	}
	if (stats.short_segments + stats.short_open || stats.copies_failed)
		sim_fail(sim, "%u segments are short, %llu are given up", stats.short_segments,
			 (unsigned long long)stats.copies_failed);
	if (stats.bad_replicas != named || named > turned)
		sim_fail(sim, "%u bits turned, %llu replicas bad, %u named", turned,
			 (unsigned long long)stats.bad_replicas, named);
	first = backups == 3 ? sim->drive[lost] : where;
	sim_cut(sim, DISK_CUT_DROP);
	/* A rotten replica that was not read for a copy may still be rotten. */
	for (n = 0; n < backups; n++) {
		drive = (first + n) % backups;
		if (drive != sim->drive[rotten] && (backups == 3 || drive != sim->drive[lost]))
			break;
	}
	if (!sim->error[0] && lit_start_from(sim, 1u << drive, true))
		sim_fail(sim, "drive %u alone does not come up", drive);
	ok = ok && (!sim->error[0] || lit_complain(sim, "rot"));
	run.left = named;
	sim_free(sim);
	return ok;
}

bool litmus_copy_rot(void)
{
	uint32_t backups, lost, rotten, where, named = 0;

	for (backups = 3; backups <= 4; backups++)
		for (lost = 0; lost < backups; lost++)
			for (rotten = 0; rotten < backups; rotten++)
				for (where = lost ^ (rotten & 1); where < 5 && rotten != lost;
				     where += backups == 3 ? 2 : 5) {
					if (!copy_rot_once(backups, lost, rotten, where))
						return false;
					named += run.left;
				}
	return named;
}

/*
 * Of two replicas one is lost, and the other is rotten.  Core copies segments that are whole in
 * memory from there.  It cannot copy segments that were @compacted there, and reports them.
 */
static bool copy_memory_once(uint32_t lost, uint32_t where, bool compacted)
{
	static const struct sim_options options = { .frames = 14, .backups = 2, .join = true };
	bool ok = tell_closed(&options);
	struct sim *sim = run.sim;
	struct core_stats stats;
	struct core_bad bad;
	uint32_t given_up = 0;
	int ret;

	if (compacted) {
		lit_delete(0, 1);
		lit_delete(1, 1);
		lit_compact();
		copies_settle(sim);
		disk_settle(sim->disk);
	}
	lit_lose(sim, lost);
	copies_settle(sim);
	disk_settle(sim->disk);
	rot(sim, sim->drive[!lost], where);
	if (!sim_add(sim, true))
		sim_fail(sim, "the lost one cannot be added");
	copies_settle(sim);
	core_stats(sim->core, &stats);
	while (core_bad_next(sim->core, &bad)) {
		if (bad.backup < CORE_BACKUPS)
			continue;
		given_up++;
		if (lit_listed(sim, bad.segment) != 1)
			sim_fail(sim, "segment %llu is bad, and was copied",
				 (unsigned long long)bad.segment);
	}
	if (stats.copies_failed != given_up || stats.short_segments != given_up ||
	    !given_up != !compacted || !stats.copied_memory)
		sim_fail(sim, "%u named, %u short, %llu from memory", given_up,
			 stats.short_segments, (unsigned long long)stats.copied_memory);
	sim_cut(sim, DISK_CUT_DROP);
	if (!sim->error[0] && compacted) {
		sim->there = ALL(sim);
		/* If only superseded entries are rotten, nothing is lost, and the oracle agrees. */
		ret = sim_attempt(sim);
		if (ret ? ret != -ENODATA || !sim->nr_damage : sim->nr_damage || !where)
			sim_fail(sim, "what is lost is not reported: %d", ret);
	} else if (!sim->error[0] && lit_start_from(sim, 1u << (where + lost) % 2, true)) {
		sim_fail(sim, "one of them alone does not come up");
	}
	ok = ok && (!sim->error[0] || lit_complain(sim, "memory"));
	sim_free(sim);
	return ok;
}

bool litmus_copy_memory(void)
{
	uint32_t lost, where;

	for (lost = 0; lost < 2; lost++)
		for (where = 0; where < 5; where++)
			if (!copy_memory_once(lost, where, false) ||
			    (where < 3 && !copy_memory_once(lost, where, true)))
				return false;
	return true;
}

/*
 * One of two backups is lost while some segments change and others do not, and comes back, @rotten
 * at @where or not.  Core keeps the replicas that have not changed, except the rotten ones.  The
 * power fails @more requests later: then all that was acknowledged is there.  If nothing was short
 * any more, all is on the backup that came back.
 */
static bool keep_once(uint32_t lost, uint32_t more, bool rotten, uint32_t where, bool *done)
{
	static const struct sim_options options = { .frames = 14, .backups = 2, .join = true };
	bool ok = tell_closed(&options);
	struct sim *sim = run.sim;
	uint32_t drive = sim->drive[lost], named = 0, turned;
	struct core_stats stats;
	struct core_bad bad;

	turned = rotten ? rot(sim, drive, where) : 0;
	lit_lose(sim, lost);
	lit_clean(1);
	lit_go_on(sim);
	lit_put(1, 2, 4000);
	lit_roll(2);
	copies_settle(sim);
	run.over = false;
	run.left = more;
	if (!sim_add(sim, false))
		sim_fail(sim, "the lost one cannot be added");
	copies_settle(sim);
	*done = !run.over;
	core_stats(sim->core, &stats);
	while (core_bad_next(sim->core, &bad))
		named += bad.backup == lost;
	if (*done && (stats.short_segments + stats.short_open || !stats.kept != rotten ||
		      !named != !rotten || named > turned || stats.bad_replicas != named))
		sim_fail(sim, "%u short, %llu kept, %llu copied, %u of %u bad are named",
			 stats.short_segments + stats.short_open, (unsigned long long)stats.kept,
			 (unsigned long long)stats.copied, named, turned);
	run.over = false;
	run.left = UINT32_MAX;
	sim_cut(sim, more % DISK_CUT_KINDS);
	if (!sim->error[0] && lit_start_from(sim, *done ? 1u << drive : ALL(sim), *done))
		sim_fail(sim, "with the one that came back it does not come up");
	ok = ok && (!sim->error[0] || lit_complain(sim, "kept"));
	sim_free(sim);
	return ok;
}

bool litmus_keep(void)
{
	uint32_t lost, where, more;
	bool done, ok = true;

	for (lost = 0; lost < 2 && ok; lost++) {
		done = false;
		for (more = 0; more < 3000 && !done && ok; more += 1 + more / 20)
			ok = keep_once(lost, more, false, 0, &done);
		for (where = 0; where < 5 && ok; where++)
			ok = done && keep_once(lost, UINT32_MAX, true, where, &done);
	}
	return ok;
}

/* Take what core found: the bad replicas of @rotten, and the segments that it has @given_up. */
static uint32_t scrub_bads(struct sim *sim, uint32_t rotten, uint32_t *given_up)
{
	struct core_bad bad;
	uint32_t named = 0;

	*given_up = 0;
	while (core_bad_next(sim->core, &bad)) {
		if (bad.backup == CORE_BACKUPS)
			++*given_up;
		else if (bad.backup != rotten || bad.error || !bad.format)
			sim_fail(sim, "backup %u is called bad", bad.backup);
		else
			named++;
	}
	return named;
}

/*
 * Three backups, nothing is lost, and all replicas on one are rotten at @where.  In one period all of them are found and
 * made anew; in the next one, none.  Then each drive alone has all.
 */
static bool scrub_once(uint32_t rotten, uint32_t where, uint32_t ticks)
{
	static const struct sim_options options = { .frames = 14, .backups = 3 };
	bool ok = tell_closed(&options);
	struct core_stats before, after;
	struct sim *sim = run.sim;
	uint32_t turned, n, up, named;

	turned = rot(sim, sim->drive[rotten], where);
	core_scrub(sim->core, ticks);
	core_stats(sim->core, &before);
	for (n = 0; n < ticks; n++) {
		core_stats(sim->core, &after);
		/* At an even pace: with half of the ticks to come not all are found. */
		if (ticks > 100 && n == ticks / 2 && after.checked == 3 * turned)
			sim_fail(sim, "all are checked in half of the time");
		core_tick(sim->core);
		sim_issue(sim);
		lit_settle();
	}
	copies_settle(sim);
	core_stats(sim->core, &after);
	named = scrub_bads(sim, rotten, &up);
	if (named != turned || after.bad_replicas - before.bad_replicas != turned || up ||
	    after.copied - before.copied != turned || after.short_segments + after.short_open ||
	    after.checked - before.checked < 3 * turned)
		sim_fail(sim, "%u turned, %u named, %llu copied, %llu checked", turned, named,
			 (unsigned long long)(after.copied - before.copied),
			 (unsigned long long)(after.checked - before.checked));
	before = after;
	for (n = 0; n < ticks; n++) {
		core_tick(sim->core);
		sim_issue(sim);
		lit_settle();
	}
	core_stats(sim->core, &after);
	if (after.bad_replicas != before.bad_replicas || after.checked <= before.checked)
		sim_fail(sim, "the next period finds %llu of %llu bad",
			 (unsigned long long)(after.bad_replicas - before.bad_replicas),
			 (unsigned long long)(after.checked - before.checked));
	sim_cut(sim, DISK_CUT_DROP);
	if (!sim->error[0] && lit_start_from(sim, 1u << sim->drive[rotten], true))
		sim_fail(sim, "the drive that was rotten does not come up alone");
	ok = ok && (!sim->error[0] || lit_complain(sim, "scrub"));
	sim_free(sim);
	return ok;
}

/* One backup, rotten: each segment is named once, and none is called bad that is not. */
static bool scrub_single(uint32_t where, bool rots)
{
	static const struct sim_options options = { .frames = 14, .backups = 1 };
	bool ok = tell_closed(&options);
	struct sim *sim = run.sim;
	struct core_stats stats;
	uint32_t turned, n, up, named;

	turned = rots ? rot(sim, sim->drive[0], where) : 0;
	core_scrub(sim->core, 7);
	for (n = 0; n < 21; n++) {
		core_tick(sim->core);
		sim_issue(sim);
		lit_settle();
	}
	core_stats(sim->core, &stats);
	named = scrub_bads(sim, 0, &up);
	if (named != turned || up != turned || !stats.checked || stats.copied)
		sim_fail(sim, "%u turned, %u named, %u given up, %llu copied", turned, named, up,
			 (unsigned long long)stats.copied);
	/* It goes on: a segment that is named keeps no other from being written. */
	lit_go_on(sim);
	if (!oracle_all_acked(sim->model))
		sim_fail(sim, "it does not go on");
	ok = ok && (!sim->error[0] || lit_complain(sim, "scrub of one"));
	sim_free(sim);
	return ok;
}

bool litmus_scrub(void)
{
	static const uint32_t ticks[] = { 1, 5, 300 };
	uint32_t rotten, where, i;

	for (where = 0; where < 5; where++) {
		for (rotten = 0; rotten < 3; rotten++)
			for (i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++)
				if (!scrub_once(rotten, where, ticks[i]))
					return false;
		if (!scrub_single(where, true))
			return false;
	}
	return scrub_single(0, false);
}
