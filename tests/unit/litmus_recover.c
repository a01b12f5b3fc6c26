// SPDX-License-Identifier: GPL-2.0
/*
 * Named scenarios of recovery: crashes during recovery and formatting, backups that must not be
 * overwritten, and damage.  Recovery must report lost acknowledged bytes, and must never take them
 * for a torn tail.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "litmus_private.h"
#include "../common/tap.h"
#include "base/memory.h"

static const struct sim_options options = { .frames = 24, .size = 0, .steps = 150, .kills = 20 };
static const struct sim_options middling = { .frames = 16, .size = 1, .steps = 150 };

static void complain(const struct sim *sim, const char *what)
{
	if (!lsmem_mutation)
		printf("# %s: %s %s\n", what, sim->error, sim->last_damage);
}

/* Recover without a kernel, or only check. @result: out, if not NULL. */
int lit_recover(struct sim *sim, bool accept_loss, bool check, struct recover_result *result)
{
	struct recover_options how = { .accept_loss = accept_loss };
	struct recover_env env = sim->env;
	enum recover_state state;
	struct recover *r;
	int ret;

	env.load = NULL;
	sim->io_left = UINT32_MAX;
	sim->last_damage[0] = '\0';
	r = recover_new(&env);
	ret = recover_open(r, &state);
	if (!ret && state == RECOVER_BLANK)
		ret = -ENOENT;
	if (!ret)
		ret = check ? recover_check(r, result) : recover_run(r, &how, result);
	recover_free(r);
	return ret;
}

/* The offset of the frame of a segment; 0: none. @item: out, if not NULL, from the digest. */
uint64_t lit_frame(struct sim *sim, uint64_t segment, struct digest_item *item)
{
	struct recover *r = recover_new(&sim->env);
	enum recover_state state;
	uint64_t where = 0;
	uint32_t frame;

	sim->io_left = UINT32_MAX;
	if (!recover_open(r, &state) && !recover_map(r, false)) {
		const struct digest_map *map = recover_digest(r);

		for (frame = 0; frame < map->frames; frame++) {
			if (!map->items[frame].state || map->items[frame].segment != segment)
				continue;
			where = format_frame_offset(recover_super(r), frame);
			if (item)
				*item = map->items[frame];
		}
	}
	recover_free(r);
	return where;
}

static uint64_t head_segment(const struct sim *sim, uint32_t head)
{
	return sim->model->segments[sim->model->heads[head] - 1].id;
}

/* ---- Crashes ------------------------------------------------------------ */

/* Invariant 20: recovery crashes after each of its steps and is repeated. */
bool litmus_recovery_steps(void)
{
	uint64_t seed, i;
	bool ok = true;

	for (seed = 1; seed <= 12 && ok; seed++) {
		struct sim *sim = sim_new(seed, &options);
		uint32_t step = 1;
		int ret = -ECANCELED;

		ok = sim_start(sim, false);
		for (i = 0; i < 400 && ok && !sim->error[0]; i++)
			sim_step(sim);
		if (ok && !sim->error[0]) {
			sim_cut(sim, DISK_CUT_RANDOM);
			while (ret == -ECANCELED) {
				sim->io_left = step++;
				ret = sim_attempt(sim);
				if (ret == -ECANCELED)
					disk_cut(sim->disk,
						 random_below(&sim->random, DISK_CUT_KINDS));
			}
			/* Recover again at once: all that recovery wrote must be durable. */
			if (!ret) {
				sim_cut(sim, DISK_CUT_DROP);
				sim->io_left = UINT32_MAX;
				ret = sim_attempt(sim);
			}
			ok = !ret;
		}
		ok = ok && !sim->error[0] && !sim->model->error[0];
		if (!ok)
			complain(sim, sim->model->error);
		sim_free(sim);
	}
	return ok;
}

static struct {
	struct sim *sim;
	uint32_t writes;		/* writes of superblock copies up to the spoiled one */
	int (*write)(void *context, uint64_t offset, const void *data, uint32_t length);
} spoil;

/* A crash during the write of a superblock copy spoils the block. */
static int spoiling_write(void *context, uint64_t offset, const void *data, uint32_t length)
{
	int ret = spoil.write(context, offset, data, length);

	if (ret || offset >= 2 * LSMEM_BLOCK || --spoil.writes)
		return ret;
	disk_settle(spoil.sim->disk);
	disk_flip(spoil.sim->disk, offset, 777);
	return -ECANCELED;
}

bool litmus_format_steps(void)
{
	uint32_t step;
	bool ok = true;

	/* A crash after each step of the first format: the backup is blank or complete. */
	for (step = 1; step < 12 && ok; step++) {
		struct sim *sim = sim_new(step, &options);

		sim->io_left = step;
		if (sim_attempt(sim) == -ECANCELED)
			disk_cut(sim->disk, random_below(&sim->random, DISK_CUT_KINDS));
		else
			sim_cut(sim, DISK_CUT_DROP);
		ok = sim_start(sim, false);
		sim_free(sim);
	}
	/* Format over another store: the new store exists from its first superblock copy on. */
	for (step = 1; step <= 2 && ok; step++) {
		struct sim *sim = sim_new(step, &options);
		struct recover_env env = sim->env;
		enum recover_state state;
		struct recover *r;
		int ret;

		ok = sim_start(sim, false);
		sim->geometry.uuid[0]++;
		sim->geometry.force = true;
		spoil.sim = sim;
		spoil.writes = step;
		spoil.write = env.write;
		env.write = spoiling_write;
		r = recover_new(&env);
		if (recover_open(r, &state) || recover_format(r, &sim->geometry) != -ECANCELED)
			ok = false;
		recover_free(r);
		r = recover_new(&sim->env);
		ret = recover_open(r, &state);
		/* If the first copy is spoiled, the old store still has its second one. */
		if (ret || state != RECOVER_FULL ||
		    (step > 1 && (recover_super(r)->uuid[0] != sim->geometry.uuid[0] ||
				  recover_map(r, false))))
			ok = false;
		recover_free(r);
		sim_free(sim);
	}
	return ok;
}

/* Invariant 18: only a blank backup is formatted without force. */
bool litmus_full_backup(void)
{
	struct sim *sim = sim_new(3, &options);
	struct recover_geometry other = sim->geometry;
	enum recover_state state;
	struct recover *r;
	bool ok = sim_start(sim, false);

	other.uuid[3]++;
	sim_settle(sim);
	model_put(sim->model, 0, 1, 100);
	sim_settle(sim);
	sim_cut(sim, DISK_CUT_DROP);
	sim->io_left = UINT32_MAX;

	r = recover_new(&sim->env);
	ok = ok && !recover_open(r, &state) && state == RECOVER_FULL &&
	     recover_format(r, &other) == -EEXIST;
	recover_free(r);
	ok = ok && sim_start(sim, false) && sim->model->handles[0].live;
	core_free(sim->core);
	sim->core = NULL;

	/* A backup with unknown contents is not blank. */
	disk_zero(sim->disk, 0);
	disk_zero(sim->disk, LSMEM_BLOCK);
	disk_flip(sim->disk, 0, 12345);
	r = recover_new(&sim->env);
	ok = ok && recover_open(r, &state) == -EBADMSG && recover_format(r, &other) == -EEXIST;
	other.force = true;
	ok = ok && !recover_format(r, &other);
	recover_free(r);
	if (!ok)
		complain(sim, "full backup");
	sim_free(sim);
	return ok;
}

/* A full digest record of several blocks is torn: the chain before it still counts. */
static bool torn_full_once(uint64_t seed, bool again, bool *torn)
{
	static const struct sim_options many = { .frames = 250 };
	struct sim *sim = sim_new(seed, &many);
	struct recover *r = recover_new(&sim->env);
	struct lsmem_event event = { .type = LSMEM_EVENT_OPEN, .segment = 1000, .generation = 1 };
	enum recover_state state;
	struct core_params params;
	struct digest_map map;
	char error[CORE_ERROR_BYTES];
	uint8_t *record = memory_get(3 * LSMEM_BLOCK);
	struct iovec iov = { .iov_base = record, .iov_len = 3 * LSMEM_BLOCK };
	uint64_t before;
	uint32_t frame, i;
	bool ok;

	ok = !recover_open(r, &state) && !recover_format(r, &sim->geometry);
	digest_map_init(&map, 1, 250);
	map.term = map.era = 1;
	map.sequence = 2;
	map.next_segment = 1000;
	map.at = 3 * LSMEM_BLOCK;
	for (frame = 0; frame < 240; frame++) {
		map.items[frame].segment = frame + 1;
		map.items[frame].generation = 1;
		map.items[frame].state = LSMEM_ITEM_CLOSED;
		map.nr++;
	}
	memset(record, 0, 3 * LSMEM_BLOCK);
	digest_full((struct lsmem_digest *)record, &map, recover_super(r));
	disk_complete(sim->disk, disk_write(sim->disk, format_half_offset(recover_super(r), 0),
					    &iov, 1));
	disk_settle(sim->disk);
	params = (struct core_params) {
		.super = { recover_super(r) }, .map = &map, .io_bytes = CORE_IO_BYTES,
		.log = { .seglets = sim->model->memory, .table = sim->model->table,
			 .nr_seglets = MODEL_SEGLETS },
	};
	sim->core = core_new(&params, error);
	core_event(sim->core, &event);
	sim_issue(sim);
	/* Complete header, flush, record; before a SIGKILL not the flush of the record. */
	for (i = again ? 3 : random_below(&sim->random, 5); i; i--)
		if (disk_in_flight(sim->disk))
			sim_complete(sim, 0);
	before = map.sequence;
	if (again) {
		disk_land(sim->disk);
		core_free(sim->core);
		ok = ok && !recover_map(r, false) && recover_digest(r)->sequence > before;
		params.map = recover_digest(r);
		map.items[240] = params.map->items[240];
		memcpy(map.items, params.map->items, map.frames * sizeof(*map.items));
		map.items[240].state = LSMEM_ITEM_CLOSED;	/* as if resumed */
		map.sequence = params.map->sequence;
		map.half = params.map->half;
		map.at = params.map->at;
		params.map = &map;
		sim->core = core_new(&params, error);
		/* A record at once, before the new core has issued a flush. */
		core_clock(sim->core, RECOVER_GENERATIONS + 1, 0, 0);
		sim_issue(sim);
	}
	disk_cut(sim->disk, DISK_CUT_RANDOM);
	ok = ok && !recover_map(r, false) && recover_digest(r)->sequence >= before;
	*torn |= ok && recover_digest(r)->sequence == before;
	digest_map_destroy(&map);
	memory_put(record);
	recover_free(r);
	sim_free(sim);
	return ok;
}

bool litmus_torn_full(void)
{
	bool torn = false;
	uint64_t seed;

	for (seed = 1; seed < 40; seed++)
		if (!torn_full_once(seed, false, &torn))
			return false;
	return torn;
}

bool litmus_torn_again(void)
{
	bool torn = false;
	uint64_t seed;

	for (seed = 1; seed < 40; seed++)
		if (!torn_full_once(seed, true, &torn))
			return false;
	return true;
}

/*
 * The daemon is killed after data and footer were durable, but before it acknowledged them.  The
 * next daemon gets the bytes again, in pieces; then the power fails.
 */
bool litmus_resumed_tail(void)
{
	uint64_t seed;
	bool ok = true;
	uint32_t i;

	for (seed = 1; seed <= 20 && ok; seed++) {
		struct sim *sim = sim_new(seed, &options);

		ok = sim_start(sim, false);
		sim_settle(sim);
		sim->model->most_segments = 0;		/* no OPEN, so no digest */
		for (i = 0; i < 6; i++)
			model_put(sim->model, i, 1, 20);
		sim_events(sim);
		model_roll(sim->model, 1);
		for (i = 0; i < 40 && !sim->error[0]; i++) {
			sim_events(sim);
			while (disk_in_flight(sim->disk))
				sim_complete(sim, 0);
		}
		sim->model->pieces = true;
		sim_kill(sim);
		for (i = 0; i < 1 + seed % 4 && !sim->error[0]; i++)
			sim_events(sim);
		while (disk_in_flight(sim->disk) && !sim->error[0])
			sim_complete(sim, 0);
		ok = ok && !sim->error[0];
		if (ok) {
			sim_cut(sim, DISK_CUT_KEEP);
			sim->model->most_segments = options.frames;
			ok = sim_start(sim, false);
		}
		if (!ok)
			complain(sim, "resumed tail");
		sim_free(sim);
	}
	return ok;
}

/*
 * The kernel still loads the tombstone of one segment while recovery reads that of another, and
 * @between are segments of which the kernel gets nothing.
 */
static bool places_once(uint32_t between)
{
	struct sim *sim = sim_new(13, &(struct sim_options){ .frames = 24, .tiered = true });
	bool ok = sim_start(sim, false);
	uint32_t i;

	sim_settle(sim);
	for (i = 0; i < between + 3; i++) {
		if (!i || i == between + 1) {
			model_put(sim->model, i ? 3 : 2, 1, 60);
			model_delete(sim->model, i ? 3 : 2, 1);
		} else {
			/* Only the last version, in the last segment, is placed. */
			model_put(sim->model, 1, 1, 60);
		}
		sim_settle(sim);
		model_roll(sim->model, 1);
		sim_settle(sim);
	}
	ok = ok && !sim->error[0];
	sim_cut(sim, DISK_CUT_DROP);
	ok = ok && sim_start(sim, false) && sim->model->handles[1].live;
	if (!ok)
		complain(sim, "places");
	sim_free(sim);
	return ok;
}

bool litmus_places(void)
{
	uint32_t between;

	/* More than recovery has buffers for one backup. */
	for (between = 0; between < 12; between++)
		if (!places_once(between))
			return false;
	return true;
}

/* ---- Damage ------------------------------------------------------------- */

/* Make a store with a segment of several acknowledged groups. @segment: out, its id. */
static struct sim *damage_begin(uint32_t groups, uint64_t *segment)
{
	struct sim *sim = sim_new(11, &middling);
	uint32_t i;

	sim_start(sim, false);
	sim_settle(sim);
	for (i = 0; i < MODEL_SEGMENTS; i++)
		sim->model->segments[i].limit = 100000;
	for (i = 0; i < groups; i++) {
		model_put(sim->model, i % 4, 1, 2500);
		model_put(sim->model, 4 + i % 3, 1, 2500);
		sim_settle(sim);
	}
	*segment = head_segment(sim, 1);
	return sim;
}

/* The segment is closed, a digest says so, and the power fails. */
static void damage_closed(struct sim *sim)
{
	model_roll(sim->model, 1);
	sim_settle(sim);
	core_tick(sim->core);
	sim_issue(sim);
	sim_settle(sim);
	sim_cut(sim, DISK_CUT_DROP);
}

/* The power fails, and a block is destroyed: recovery must report the segment by its id. */
static bool damage_end(struct sim *sim, uint64_t segment, uint64_t block, bool has_item)
{
	struct digest_item item = { 0 };
	char name[64];
	uint64_t where;
	bool ok;

	if (sim->core)
		sim_cut(sim, DISK_CUT_DROP);
	where = lit_frame(sim, segment, &item);
	disk_zero(sim->disk, where + block * LSMEM_BLOCK);
	snprintf(name, sizeof(name), "segment %llu ", (unsigned long long)segment);
	ok = !sim->error[0] && where && (!item.length == !has_item) &&
	     lit_recover(sim, false, false, NULL) == -ENODATA && strstr(sim->last_damage, name) &&
	     lit_recover(sim, false, true, NULL) == -ENODATA &&
	     lit_recover(sim, true, false, NULL) == 0 && lit_recover(sim, false, false, NULL) == 0;
	if (!ok)
		complain(sim, "damage");
	sim_free(sim);
	return ok;
}

bool litmus_lost_record(void)
{
	uint64_t segment;
	struct sim *sim = damage_begin(3, &segment);

	return damage_end(sim, segment, 1, false);
}

/*
 * Two heads take spares, and no other segment is opened, so nothing but the data asks for a digest.
 * Without one the second segment would look like a spare without data.
 */
bool litmus_lost_spare(void)
{
	struct sim *sim = sim_new(11, &middling);
	uint64_t first, second;
	uint32_t i;

	sim_start(sim, false);
	sim_settle(sim);
	for (i = 0; i < MODEL_SEGMENTS; i++)
		sim->model->segments[i].limit = 100000;
	sim->model->most_segments = 0;
	for (i = 0; i < 3; i++) {
		model_put(sim->model, 0, 1, 2500);
		model_put(sim->model, 1, 2, 2500);
		sim_settle(sim);
	}
	first = head_segment(sim, 1);
	second = head_segment(sim, 2);
	return damage_end(sim, first > second ? first : second, 1, false);
}

/*
 * The daemon shuts down: the next recovery reads no open segment to its end, and what is destroyed is
 * reported all the same. @resumed: another daemon has written more before, and a part of that is
 * destroyed.
 */
static bool stopped_once(bool resumed)
{
	struct recover_result result = { 0 };
	struct digest_item item = { 0 };
	uint64_t segment;
	struct sim *sim = damage_begin(3, &segment);
	uint32_t i;
	bool ok;

	sim_shutdown(sim);
	if (resumed) {
		sim->model->most_segments = 0;
		sim_kill(sim);
		sim_settle(sim);
		for (i = 0; i < 4; i++) {
			model_put(sim->model, i, 1, 2500);
			sim_settle(sim);
		}
	}
	ok = !sim->error[0];
	sim_cut(sim, DISK_CUT_DROP);
	ok = ok && lit_frame(sim, segment, &item) && item.state == LSMEM_ITEM_OPEN && item.length &&
	     !lit_recover(sim, false, true, &result) && result.open > 2 &&
	     (resumed ? result.whole && result.whole < result.open : !result.whole);
	if (!ok)
		complain(sim, "stopped");
	return damage_end(sim, segment, resumed ? item.length / LSMEM_BLOCK + 2 : 1, true) && ok;
}

bool litmus_stopped(void)
{
	return stopped_once(false) && stopped_once(true);
}

/* A recovery closes what it cuts: the next one reads no more of it than of any other closed segment. */
bool litmus_closes(void)
{
	struct recover_result first = { 0 }, second = { 0 };
	struct digest_item item = { 0 };
	uint64_t segment;
	struct sim *sim = damage_begin(3, &segment);
	bool ok;

	sim_cut(sim, DISK_CUT_DROP);
	ok = !lit_recover(sim, false, false, &first) && first.open > 2 &&
	     lit_frame(sim, segment, &item) && item.state == LSMEM_ITEM_CLOSED && item.length;
	disk_cut(sim->disk, DISK_CUT_DROP);
	ok = ok && !lit_recover(sim, false, false, &second) && !second.open && !second.sealed &&
	     second.closed && second.objects == first.objects;
	/* What was sealed would be cut there; of a closed segment the rest is used. */
	disk_zero(sim->disk, lit_frame(sim, segment, NULL) + LSMEM_BLOCK);
	ok = ok && lit_recover(sim, false, false, NULL) == -ENODATA && sim->last_damage[0] &&
	     !lit_recover(sim, true, false, &second) && second.objects &&
	     second.objects < first.objects;
	if (!ok)
		complain(sim, "closes");
	sim_free(sim);
	return ok;
}

bool litmus_lost_length(void)
{
	uint64_t segment;
	struct sim *sim = damage_begin(1, &segment);

	core_tick(sim->core);
	sim_issue(sim);
	sim_settle(sim);
	return damage_end(sim, segment, 1, true);
}

bool litmus_lost_footer(void)
{
	uint64_t segment;
	struct sim *sim = damage_begin(1, &segment);

	sim->model->most_segments = 0;		/* no OPEN, so no digest */
	model_roll(sim->model, 1);
	sim_settle(sim);
	return damage_end(sim, segment, 1, false);
}

bool litmus_lost_header(void)
{
	uint64_t segment;
	struct sim *sim = damage_begin(2, &segment);

	return damage_end(sim, segment, 0, false);
}

bool litmus_lost_digest(void)
{
	struct sim *sim = sim_new(5, &options);
	const struct digest_map *map;
	enum recover_state state;
	struct recover *r;
	uint32_t i, n;
	bool ok;

	sim->geometry.half_bytes = 64 * LSMEM_BLOCK;
	ok = sim_start(sim, false);
	for (i = 0; i < 6; i++) {
		model_put(sim->model, i, 1, 60);
		core_tick(sim->core);
		sim_issue(sim);
		sim_settle(sim);
	}
	sim_cut(sim, DISK_CUT_DROP);
	/* Destroy the first record, or a middle one.  The loss of the last cannot be found. */
	for (n = 0; n < 3 && ok; n += 2) {
		uint8_t *copy = memory_get(LSMEM_BLOCK);
		struct iovec iov = { .iov_base = copy, .iov_len = LSMEM_BLOCK };
		uint64_t where;

		r = recover_new(&sim->env);
		sim->io_left = UINT32_MAX;
		ok = !recover_open(r, &state) && !recover_map(r, false);
		map = recover_digest(r);
		ok = ok && map->at >= 5 * LSMEM_BLOCK;
		where = format_half_offset(recover_super(r), map->half) + n * LSMEM_BLOCK;
		recover_free(r);
		disk_read(sim->disk, where, copy, LSMEM_BLOCK);
		disk_zero(sim->disk, where);
		ok = ok && lit_recover(sim, false, false, NULL) != 0 && strstr(sim->last_damage, "digest");
		disk_complete(sim->disk, disk_write(sim->disk, where, &iov, 1));
		disk_settle(sim->disk);
		memory_put(copy);
	}
	ok = ok && lit_recover(sim, false, false, NULL) == 0;
	if (!ok)
		complain(sim, "lost digest");
	sim_free(sim);
	return ok;
}

/* Entries have generations above the ceiling of the remaining digests; the loss is accepted. */
bool litmus_lost_ceiling(void)
{
	struct recover_result first = { 0 }, second = { 0 };
	struct recover_activation activation;
	struct recover_options accept = { .accept_loss = true };
	uint64_t segment, where;
	struct sim *sim = damage_begin(1, &segment);
	uint32_t ceiling = sim->model->generation_ceiling;
	enum recover_state state;
	struct recover_env env = sim->env;
	struct recover *r;
	bool ok;

	model_delete(sim->model, 0, 1);
	sim->model->handles[0].generation = ceiling;
	model_put(sim->model, 0, 1, 100);	/* refused: the ceiling rises first */
	sim_settle(sim);
	model_put(sim->model, 0, 1, 100);
	sim_settle(sim);
	ok = !sim->error[0] && sim->model->handles[0].live;
	sim_cut(sim, DISK_CUT_DROP);
	env.load = NULL;
	r = recover_new(&env);
	ok = ok && !recover_open(r, &state) && !recover_map(r, false);
	where = format_half_offset(recover_super(r), recover_digest(r)->half) +
		recover_digest(r)->at - LSMEM_BLOCK;
	recover_free(r);
	disk_zero(sim->disk, where);
	ok = ok && lit_recover(sim, false, false, NULL) == -ENODATA &&
	     strstr(sim->last_damage, "newer digests are lost");
	r = recover_new(&env);
	ok = ok && !recover_open(r, &state) && !recover_run(r, &accept, &first);
	/* No generation that was given out is given out again. */
	recover_activation(r, &activation);
	ok = ok && activation.generation_floor > ceiling;
	recover_free(r);
	ok = ok && !lit_recover(sim, false, false, &second) && first.objects == second.objects;
	if (!ok)
		complain(sim, "lost ceiling");
	sim_free(sim);
	return ok;
}

/* Recovery checks every byte of a closed segment that has a meaning. */
bool litmus_lost_closed(void)
{
	uint32_t bit, entry, n;
	bool ok = true;
	static const uint64_t blocks[] = {
		LSMEM_SEGMENT_BYTES - LSMEM_BLOCK,	/* footer */
		LSMEM_SEGMENT_BYTES - 2 * LSMEM_BLOCK,	/* directory */
		0,					/* header */
	};
	/* In an entry: its payload, its key, its length.  Odd cases damage an old version. */
	static const uint32_t places[] = {
		LSMEM_LONG_BYTES + 100, LSMEM_LONG_BYTES + 100, 9, 9, 25, 25, 4, 4,
	};

	for (n = 0; n < 11 && ok; n++) {
		struct digest_item item = { 0 };
		uint64_t segment, where;
		struct sim *sim = damage_begin(2, &segment);
		struct model_segment *seg = &sim->model->segments[sim->model->heads[1] - 1];

		bit = random_below(&sim->random, 40 * 8);
		entry = n % 2 ? 0 : 3;
		/* The first entry is an old version, the fourth is the newest one. */
		model_put(sim->model, 0, 1, 50);
		sim_settle(sim);
		bit = n < 3 ? bit : 8 * (LSMEM_BLOCK + seg->entries[entry].at + places[n - 3]);
		damage_closed(sim);
		where = lit_frame(sim, segment, &item);
		ok = where && item.state == LSMEM_ITEM_CLOSED && !sim->error[0] &&
		     lit_recover(sim, false, true, NULL) == 0;
		disk_flip(sim->disk, n < 3 ? where + blocks[n] :
			  where + bit / 8 / LSMEM_BLOCK * LSMEM_BLOCK,
			  n < 3 ? bit : bit % (8 * LSMEM_BLOCK));
		/* A check reports damage to old versions, too; a recovery needs none of them. */
		ok = ok && lit_recover(sim, false, true, NULL) == -ENODATA &&
		     lit_recover(sim, false, false, NULL) == (n >= 3 && n % 2 ? 0 : -ENODATA);
		if (!ok) {
			complain(sim, "closed segment");
			printf("# case %u\n", n);
		}
		sim_free(sim);
	}
	return ok;
}

/* What recovery gives to the kernel of one segment; env.load has the simulation as its context. */
static struct {
	uint64_t segment;
	uint32_t objects;
	struct lsmem_entry tombstone;	/* the last one */
	uint32_t tombstones;
} given;

static int given_load(void *context, uint64_t segment, uint32_t generation, uint32_t sealed,
		      const void *data, uint32_t length)
{
	const struct sim *sim = context;
	uint32_t salt = lsmem_segment_salt(sim->geometry.uuid, segment, generation), at = 0;

	while (segment == given.segment && at < length) {
		const struct lsmem_entry *entry = (const void *)((const uint8_t *)data + at);

		if (!lsmem_entry_valid(entry, format_payload(entry), salt))
			return -EINVAL;
		if (lsmem_entry_type(entry) == LSMEM_TYPE_TOMBSTONE) {
			given.tombstone = *entry;
			given.tombstones++;
		} else {
			given.objects++;
		}
		at += lsmem_entry_bytes(entry);
	}
	return sealed ? 0 : -EINVAL;
}

/*
 * An entry of a closed segment is destroyed, and an older version is in another segment. If the
 * loss is accepted, the kernel gets what is whole and a tombstone for what is lost, and the daemon
 * is told which segment to clean.
 */
bool litmus_lost_buried(void)
{
	const struct recover_options accept = { .accept_loss = true };
	struct recover_result result = { 0 };
	const uint64_t *damaged = NULL;
	uint64_t segment, where, version;
	struct sim *sim = damage_begin(1, &segment);
	struct recover_env env = sim->env;
	struct model_segment *seg;
	enum recover_state state;
	uint32_t lost = 0;
	struct recover *r;
	bool ok;

	model_put(sim->model, 0, 2, 100);
	sim_settle(sim);
	seg = &sim->model->segments[sim->model->heads[1] - 1];
	model_put(sim->model, 1, 1, 5000);
	model_put(sim->model, 0, 1, 5000);
	model_put(sim->model, 2, 1, 5000);
	sim_settle(sim);
	version = sim->model->handles[0].version;
	while (seg->entries[lost].version != version)
		lost++;
	where = LSMEM_BLOCK + seg->entries[lost].at + LSMEM_LONG_BYTES + 100;
	damage_closed(sim);
	disk_flip(sim->disk, lit_frame(sim, segment, NULL) + where / LSMEM_BLOCK * LSMEM_BLOCK,
		  8 * (uint32_t)(where % LSMEM_BLOCK));
	ok = !sim->error[0] && lit_recover(sim, false, false, NULL) == -ENODATA;
	memset(&given, 0, sizeof(given));
	given.segment = segment;
	env.load = given_load;
	env.loaded = NULL;
	r = recover_new(&env);
	ok = ok && !recover_open(r, &state) && !recover_run(r, &accept, &result) &&
	     recover_damaged(r, &damaged) == 1 && damaged[0] == segment &&
	     given.objects == 3 && given.tombstones == 1 &&
	     lsmem_handle_index(lsmem_entry_handle(&given.tombstone)) == 0 &&
	     lsmem_entry_version(&given.tombstone) > version &&
	     lsmem_entry_value(&given.tombstone) > segment;
	recover_free(r);
	/* It is damaged until it has been cleaned, and says so. */
	ok = ok && lit_recover(sim, false, false, NULL) == -ENODATA;
	if (!ok)
		complain(sim, "buried");
	sim_free(sim);
	return ok;
}

/* Recovery must not take an old copy of the segment for a torn tail. */
bool litmus_stale_frame(void)
{
	uint8_t *copy = memory_get(8 * LSMEM_BLOCK);
	struct iovec iov = { .iov_base = copy, .iov_len = 8 * LSMEM_BLOCK };
	uint64_t segment, where;
	struct sim *sim = damage_begin(1, &segment);
	bool ok;

	where = lit_frame(sim, segment, NULL) + LSMEM_BLOCK;
	disk_read(sim->disk, where, copy, 8 * LSMEM_BLOCK);
	model_put(sim->model, 0, 1, 3000);
	sim_settle(sim);
	core_tick(sim->core);
	sim_issue(sim);
	sim_settle(sim);
	sim_cut(sim, DISK_CUT_DROP);
	ok = lit_recover(sim, false, true, NULL) == 0;
	disk_complete(sim->disk, disk_write(sim->disk, where, &iov, 1));
	disk_settle(sim->disk);
	ok = ok && lit_recover(sim, false, false, NULL) == -ENODATA;
	memory_put(copy);
	if (!ok)
		complain(sim, "stale frame");
	sim_free(sim);
	return ok;
}

bool litmus_check(void)
{
	struct sim *sim = sim_new(21, &options);
	struct recover_result check, run_result;
	uint64_t i, writes;
	bool ok = sim_start(sim, false);

	for (i = 0; i < 3000 && ok && !sim->error[0]; i++)
		sim_step(sim);
	sim_settle(sim);
	sim_shutdown(sim);
	sim_cut(sim, DISK_CUT_DROP);
	writes = disk_in_flight(sim->disk);
	ok = ok && !sim->error[0] && lit_recover(sim, false, true, &check) == 0 &&
	     lit_recover(sim, false, true, &check) == 0 && lit_recover(sim, false, false, &run_result) == 0 &&
	     check.objects == run_result.objects && check.tombstones == run_result.tombstones &&
	     check.live_bytes == run_result.live_bytes && !check.losses && !check.torn &&
	     writes == disk_in_flight(sim->disk) && check.closed + check.open + check.sealed;
	if (!ok)
		complain(sim, "check");
	sim_free(sim);
	return ok;
}
