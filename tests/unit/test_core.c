// SPDX-License-Identifier: GPL-2.0
/*
 * Core with a kernel, a digest or a device that are wrong: core fails, names the error, and
 * acknowledges nothing more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "../common/tap.h"

uint64_t lsmem_mutation;

static const struct sim_options options = { .frames = 12, .size = 0, .steps = 100 };

/*
 * Start a store with an open segment of two objects, all acknowledged.  @event: out, an event for
 * this segment with the next offsets, without type.
 */
static struct sim *begin(struct lsmem_event *event)
{
	struct sim *sim = sim_new(8, &options);
	struct model_segment *seg;
	uint32_t i;

	if (!sim_start(sim, false))
		return sim;
	for (i = 0; i < MODEL_SEGMENTS; i++)
		sim->model->segments[i].limit = 100000;
	sim_settle(sim);
	for (i = 0; i < MODEL_SEGMENTS; i++)
		sim->model->segments[i].limit = 100000;
	model_put(sim->model, 0, 1, 100);
	model_put(sim->model, 1, 1, 100);
	sim_settle(sim);
	seg = &sim->model->segments[sim->model->heads[1] - 1];
	*event = (struct lsmem_event) {
		.segment = seg->id, .generation = 1, .first_seglet = seg->seglets[0],
		.from = seg->emitted, .to = seg->emitted,
	};
	return sim;
}

/* Has core failed with @name in its error, and does it issue nothing any more? */
static bool failed(struct sim *sim, const char *name)
{
	struct lsmem_ack_one acks[8];
	struct core_io io;
	uint32_t ceiling;

	CHECK(core_state(sim->core) == CORE_FAILED);
	CHECK(strstr(core_error(sim->core), name));
	core_tick(sim->core);
	core_shutdown(sim->core);
	core_clock(sim->core, 1u << 27, 1, 1000);
	CHECK(!core_io_next(sim->core, &io));
	CHECK(!core_acks(sim->core, acks, 8, &ceiling) && !ceiling);
	CHECK(core_state(sim->core) == CORE_FAILED);
	return true;
}

#define EVENT(fields...)							\
	do {									\
		struct lsmem_event event;					\
		struct sim *sim = begin(&event);				\
		char name[40];							\
		bool ok;							\
										\
		fields;								\
		snprintf(name, sizeof(name), "segment %llu",			\
			 (unsigned long long)event.segment);			\
		core_event(sim->core, &event);					\
		ok = failed(sim, name);						\
		if (!ok)							\
			tap_note("%s: %s", #fields, core_error(sim->core));	\
		sim_free(sim);							\
		CHECK(ok);							\
	} while (0)

static bool test_events(void)
{
	/* RANGE */
	EVENT(event.type = LSMEM_EVENT_RANGE; event.segment = 9999; event.to += 8);
	EVENT(event.type = LSMEM_EVENT_RANGE);				/* empty */
	EVENT(event.type = LSMEM_EVENT_RANGE; event.to += 4);
	EVENT(event.type = LSMEM_EVENT_RANGE; event.from -= 8; event.to += 8);
	EVENT(event.type = LSMEM_EVENT_RANGE; event.from += 8; event.to += 16);
	EVENT(event.type = LSMEM_EVENT_RANGE; event.to = LSMEM_SEGMENT_BYTES - LSMEM_BLOCK);
	EVENT(event.type = LSMEM_EVENT_RANGE; event.to = 0xfffffff8);
	EVENT(event.type = LSMEM_EVENT_RANGE; event.to += 8; event.first_seglet = MODEL_SEGLETS);
	EVENT(event.type = LSMEM_EVENT_RANGE; event.to += 8; event.first_seglet = LSMEM_NO_SEGLET);
	/* the chain ends, or has an invalid seglet */
	EVENT(event.type = LSMEM_EVENT_RANGE; event.to += 100000);
	EVENT(event.type = LSMEM_EVENT_RANGE; event.to += 100000;
	      sim->model->table[event.first_seglet].next = MODEL_SEGLETS + 7);
	/* OPEN */
	EVENT(event.type = LSMEM_EVENT_OPEN);
	EVENT(event.type = LSMEM_EVENT_OPEN; event.segment = 0);
	/* CLOSE */
	EVENT(event.type = LSMEM_EVENT_CLOSE; event.segment = 9999);
	EVENT(event.type = LSMEM_EVENT_CLOSE; event.to += 8);
	EVENT(event.type = LSMEM_EVENT_CLOSE; event.entries = 0xffffffff);
	EVENT(event.type = LSMEM_EVENT_CLOSE; event.entries = 1);
	EVENT(event.type = LSMEM_EVENT_CLOSE; event.entries = 3);
	EVENT(event.type = LSMEM_EVENT_CLOSE; event.entries = 2; event.first_seglet = 1u << 30);
	EVENT(event.type = LSMEM_EVENT_CLOSE; event.entries = 2; event.first_seglet++);
	EVENT(event.type = LSMEM_EVENT_CLOSE; event.entries = 2;
	      sim->model->memory[event.first_seglet * LSMEM_SEGLET_BYTES + 40] ^= 1;
	      sim->model->memory[event.first_seglet * LSMEM_SEGLET_BYTES + 20] ^= 1);
	/* RETIRE */
	EVENT(event.type = LSMEM_EVENT_RETIRE);				/* an open segment */
	EVENT(event.type = LSMEM_EVENT_RETIRE; event.segment = 9999);
	EVENT(event.type = LSMEM_EVENT_RETIRE; event.segment = 9999;
	      event.flags = LSMEM_EVENT_MORE);
	/* RESUME out of place */
	EVENT(event.type = LSMEM_EVENT_RESUME);
	return true;
}

static bool test_unknown(void)
{
	struct lsmem_event event;
	struct sim *sim = begin(&event);
	bool ok;

	event.type = 77;
	core_event(sim->core, &event);
	ok = failed(sim, "type 77");
	sim_free(sim);
	return ok;
}

/* Start a core that resumes; it has had no event. */
static struct sim *resume(struct lsmem_event *event, bool close)
{
	struct sim *sim = begin(event);

	if (close) {
		model_roll(sim->model, 1);
		sim_settle(sim);
		event->flags = LSMEM_EVENT_CLOSED;
		event->from = event->to = sim->model->segments[sim->model->heads[1] - 1].acked;
	}
	core_tick(sim->core);
	sim_issue(sim);
	sim_settle(sim);
	sim_kill(sim);
	event->type = LSMEM_EVENT_RESUME;
	event->flags |= LSMEM_EVENT_OPENED;
	return sim;
}

#define RESUME(name, fields...)							\
	do {									\
		struct lsmem_event event;					\
		struct sim *sim = resume(&event, false);			\
		bool ok;							\
										\
		fields;								\
		core_event(sim->core, &event);					\
		ok = failed(sim, name);						\
		if (!ok)							\
			tap_note("%s: %s", #fields, core_error(sim->core));	\
		sim_free(sim);							\
		CHECK(ok);							\
	} while (0)

/* Have the table chain @nr seglets on from @seglet, as a longer segment would have. */
static void chain(struct sim *sim, uint32_t seglet, uint32_t nr)
{
	for (; nr--; seglet = sim->model->table[seglet].next)
		sim->model->table[seglet].next = (seglet + 1) % MODEL_SEGLETS;
}

static bool test_resume(void)
{
	RESUME("was acknowledged", event.segment = 9999);
	RESUME("generation", event.generation = 2);
	RESUME("durable bytes", event.from = 0; event.to = 8);
	RESUME("durable bytes", event.from = event.to + 8);
	RESUME("durable bytes", event.to += 4);
	RESUME("durable bytes", event.flags = 0);
	/* beyond the frame: more seglets than a segment can have */
	RESUME("durable bytes", event.to = 0xfffffff8;
	       chain(sim, event.first_seglet, MODEL_SEGLETS));
	RESUME("durable bytes", event.to = 2 * LSMEM_SEGMENT_BYTES;
	       chain(sim, event.first_seglet, MODEL_SEGLETS));
	RESUME("durable bytes", event.flags |= LSMEM_EVENT_CLOSED;
	       event.to = LSMEM_SEGMENT_BYTES - LSMEM_BLOCK);
	RESUME("does not know", event.segment = ~0ull);
	RESUME("before the kernel", event.type = LSMEM_EVENT_OPEN);
	RESUME("twice", core_event(sim->core, &event));
	return true;
}

static bool test_resume_retired(void)
{
	struct lsmem_event event;
	struct sim *sim = resume(&event, false);
	struct lsmem_event more = event;

	/* The digest may lack a segment only if its RETIRE was given before. */
	more.segment = 9999;
	more.flags |= LSMEM_EVENT_RETIRED | LSMEM_EVENT_CLOSED;
	core_event(sim->core, &more);
	CHECK(core_state(sim->core) == CORE_RESUMING);
	sim_settle(sim);
	CHECK(!sim->error[0] && core_state(sim->core) == CORE_RUNNING);
	/* A group of missing segments and one that is still there is a contradiction. */
	more.type = LSMEM_EVENT_RETIRE;
	more.flags = LSMEM_EVENT_MORE;
	core_event(sim->core, &more);
	CHECK(core_state(sim->core) == CORE_RUNNING);
	model_roll(sim->model, 1);
	sim_settle(sim);
	event.type = LSMEM_EVENT_RETIRE;
	event.flags = 0;
	core_event(sim->core, &event);
	CHECK(failed(sim, "has lost a part"));
	sim_free(sim);
	return true;
}

/* Invariant 3: core fails at once with any failure of its only device. */
static bool test_device(void)
{
	uint32_t n, kinds = 0;

	for (n = 0; n < 30; n++) {
		struct lsmem_event event;
		struct sim *sim = begin(&event);
		uint32_t i, request;
		bool flush;

		model_put(sim->model, 2, 1, 9000);
		model_put(sim->model, 3, 2, 90);
		model_roll(sim->model, 2);
		for (i = 0; i < n; i++) {
			sim_events(sim);
			sim_acks(sim);
			if (disk_in_flight(sim->disk))
				sim_complete(sim, 0);
		}
		if (disk_in_flight(sim->disk)) {
			request = disk_nth(sim->disk, disk_in_flight(sim->disk) - 1);
			flush = sim->requests[request].flush;
			kinds |= 1u << flush;
			core_io_done(sim->core, sim->requests[request].id, -EIO);
			CHECK(failed(sim, flush ? "flush" : "write"));
			CHECK(strstr(core_error(sim->core), "Input/output error"));
			/* Other requests in flight may still complete. */
			for (i = 0; i + 1 < disk_in_flight(sim->disk); i++)
				core_io_done(sim->core,
					     sim->requests[disk_nth(sim->disk, i)].id, 0);
			CHECK(failed(sim, flush ? "flush" : "write"));
		}
		sim_free(sim);
	}
	CHECK(kinds == 3);
	return true;
}

/*
 * More OPENs than core has room for: they wait, in order, and none is lost.  Later events in the
 * stream go on.
 */
static bool test_many_opens(void)
{
	struct sim *sim = sim_new(4, &(struct sim_options){ .frames = 400 });
	struct lsmem_event event = { .generation = 1 };
	struct lsmem_ack_one acks[64];
	uint32_t i, n, nr, ceiling, closed = 0;
	uint64_t last = 0;
	bool ok;

	sim->geometry.half_bytes = format_half_bytes(400);
	ok = sim_start(sim, false);
	event.type = LSMEM_EVENT_OPEN;
	for (event.segment = 5000; ok && event.segment < 5300; event.segment++)
		core_event(sim->core, &event);
	event.type = LSMEM_EVENT_CLOSE;
	for (i = 0; i < 20000 && closed < 300 && ok; i++) {
		sim_issue(sim);
		if (disk_in_flight(sim->disk))
			sim_complete(sim, 0);
		nr = core_acks(sim->core, acks, 64, &ceiling);
		for (n = 0; n < nr; n++) {
			if (acks[n].type == LSMEM_EVENT_CLOSE) {
				closed++;
				continue;
			}
			last = acks[n].segment > last ? acks[n].segment : last;
			event.segment = acks[n].segment;
			core_event(sim->core, &event);
		}
		ok = core_state(sim->core) == CORE_RUNNING;
	}
	ok = ok && closed == 300 && last == 5299 && core_room(sim->core) >= 128;
	if (!ok)
		tap_note("%u closed: %s%s", closed, core_error(sim->core), sim->error);
	sim_free(sim);
	return ok;
}

/* Pass one event to core, and continue until nothing more happens. */
static void give(struct sim *sim, uint32_t type, uint64_t segment)
{
	struct lsmem_event event = { .type = type, .segment = segment, .generation = 1 };
	struct lsmem_ack_one acks[8];
	uint32_t ceiling;

	core_event(sim->core, &event);
	do {
		sim_issue(sim);
		if (disk_in_flight(sim->disk))
			sim_complete(sim, 0);
	} while (disk_in_flight(sim->disk) || core_acks(sim->core, acks, 8, &ceiling));
}

/* A backup of a hundred frames becomes full and empty again, with ups and downs. */
static bool test_room(void)
{
	static const struct {
		uint32_t free;
		bool low;
	} steps[] = {
		{ 3, false }, { 2, true }, { 5, true }, { 0, true }, { 6, false }, { 3, false },
		{ 2, true },
	};
	struct sim *sim = sim_new(4, &(struct sim_options){ .frames = 100 });
	uint64_t next = 5000, oldest = next;
	struct core_stats stats;
	uint32_t i;

	sim->geometry.half_bytes = format_half_bytes(100);
	CHECK(sim_start(sim, false));
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		while (core_stats(sim->core, &stats), stats.frames_free != steps[i].free) {
			if (stats.frames_free < steps[i].free) {
				give(sim, LSMEM_EVENT_RETIRE, oldest++);
				continue;
			}
			give(sim, LSMEM_EVENT_OPEN, next);
			give(sim, LSMEM_EVENT_CLOSE, next++);
		}
		core_tick(sim->core);
		core_stats(sim->core, &stats);
		CHECK(stats.frames == 100 && core_low(sim->core) == steps[i].low);
		CHECK(stats.backup[0].frames_low == steps[i].low);
	}
	sim_free(sim);
	return true;
}

/*
 * Backups of 60, 45 and 30 frames fill evenly.  If one backup has more frames than the two others,
 * or than the other domain, all frames are used that a segment could use.
 */
static bool test_scatter(void)
{
	static const struct {
		uint32_t smaller, segments;
		bool alike, pairs;
	} sets[] = {
		{ 15, 67, .alike = true }, { 24, 48, .alike = false }, { 15, 30, .pairs = true },
	};
	struct core_stats stats;
	uint32_t i, b, n;

	for (i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		const struct sim_options set = {
			.frames = 60, .backups = 3, .replicas = 2, .smaller = sets[i].smaller,
			.pairs = sets[i].pairs };
		struct sim *sim = sim_new(4, &set);

		sim->geometry.half_bytes = format_half_bytes(180);
		sim->geometry.frames = sets[i].segments + 1;
		CHECK(!sim_start(sim, false));
		sim_free(sim);
		sim = sim_new(4, &set);
		sim->geometry.half_bytes = format_half_bytes(180);
		sim->geometry.frames = sets[i].segments;
		CHECK(sim_start(sim, false));
		for (n = 0; n <= sets[i].segments; n++) {
			core_stats(sim->core, &stats);
			for (b = 0; b < 3; b++) {
				const struct core_backup_stats *backup = &stats.backup[b];
				uint64_t share = backup->frames - backup->frames * n / sets[i].segments;

				if (sets[i].alike)
					CHECK(backup->frames_free + 2 >= share &&
					      backup->frames_free <= share + 2);
			}
			CHECK(stats.frames_free + 2 * n == stats.frames);
			give(sim, LSMEM_EVENT_OPEN, 5000 + n);
			give(sim, LSMEM_EVENT_CLOSE, 5000 + n);
		}
		sim_free(sim);
	}
	return true;
}

/*
 * Two of three backups are in one domain, and the third is missing.  The two are still one domain,
 * and core promises only as many frames as fit when the third is back.
 */
static bool test_domain_away(void)
{
	struct sim *sim = sim_new(4, &(struct sim_options){
		.frames = 12, .backups = 3, .replicas = 2, .pairs = true });
	struct core_stats before, after;
	enum recover_state state;
	struct recover *r;

	CHECK(sim_start(sim, false));
	sim_cut(sim, DISK_CUT_DROP);
	sim->there = 3;
	/* The third could have gone on alone: this start needs accept_missing. */
	CHECK(sim_attempt(sim) == -ENODATA);
	sim->accept_missing = true;
	CHECK(!sim_attempt(sim));
	core_stats(sim->core, &before);
	give(sim, LSMEM_EVENT_OPEN, 5000);
	core_stats(sim->core, &after);
	CHECK(after.frames_free == before.frames_free - 1);
	r = recover_new(&sim->env);
	CHECK(!recover_open(r, &state));
	CHECK(recover_room(r, 2) == 12 && recover_room(r, 0) == 12 && recover_room(r, 1) == 24);
	recover_free(r);
	sim_free(sim);
	return true;
}

/*
 * Digests name a backup by the low half of its incarnation; 0 means none.  For these tests, the
 * random numbers are such that a backup would get the low half @low: 0, or that of another backup.
 */
#define STEP	0x9e3779b97f4a7c15ull	/* between the incarnations that recovery derives */

static uint32_t low_half(const struct recover *r, uint32_t slot)
{
	return (uint32_t)__le64_to_cpu(recover_slot_super(r, slot)->incarnation);
}

static bool incarnations_differ(const struct recover *r)
{
	return low_half(r, 0) && low_half(r, 1) && low_half(r, 2) &&
	       low_half(r, 0) != low_half(r, 1) && low_half(r, 0) != low_half(r, 2) &&
	       low_half(r, 1) != low_half(r, 2);
}

/* All backups are formatted. */
static bool format_with(struct sim *sim, uint32_t low)
{
	struct recover *r = recover_new(&sim->env);
	enum recover_state state;

	sim->geometry.incarnation = (7ull << 32 | low) - STEP;
	sim->geometry.force = true;
	CHECK(!recover_open(r, &state));
	CHECK(!recover_format(r, &sim->geometry));
	CHECK(incarnations_differ(r));
	recover_free(r);
	return true;
}

/* Backup @slot is blank, and joins at the start. */
static bool join_with(struct sim *sim, uint32_t slot, uint32_t low)
{
	uint64_t drive = (slot + sim->rotate) % 3 * sim->span;
	struct recover *r = recover_new(&sim->env);
	enum recover_state state;

	disk_zero(sim->disk, drive);
	disk_zero(sim->disk, drive + LSMEM_BLOCK);
	CHECK(!recover_open(r, &state) && !recover_map(r, true));
	CHECK(!recover_join(r, (7ull << 32 | low) - slot * STEP));
	CHECK(recover_joiner(r, slot) == slot);
	CHECK(incarnations_differ(r));
	recover_free(r);
	return true;
}

/* Core has lost backup @index, which joins again. */
static bool ready_with(struct sim *sim, uint32_t index, uint32_t low)
{
	uint32_t slot = (sim->drive[index] + 3 - sim->rotate) % 3, b;
	struct recover_env env = sim->env;
	const struct lsmem_super *like;
	struct digest_log log;
	struct recover *r;

	memset(env.backup_bytes, 0, sizeof(env.backup_bytes));
	env.backup_bytes[slot] = sim->env.backup_bytes[slot];
	r = recover_new(&env);
	like = core_super(sim->core, &log);
	CHECK(!recover_open_slot(r, slot));
	CHECK(!recover_ready(r, slot, like, &log, 7ull << 32 | low));
	CHECK(low_half(r, slot));
	for (b = 0; b < 3; b++)
		CHECK(low_half(r, slot) != core_incarnation(sim->core, b));
	recover_free(r);
	return true;
}

static bool test_incarnations(void)
{
	uint32_t n;

	for (n = 0; n < 3; n++) {
		struct sim *sim = sim_new(4, &(struct sim_options){
			.frames = 12, .backups = 3, .replicas = 2 });
		uint32_t member;

		CHECK(sim_start(sim, false));
		member = core_incarnation(sim->core, (n + 1) % 3);
		core_lose(sim->core, n, "for a test");
		sim_issue(sim);
		sim_settle(sim);
		CHECK(ready_with(sim, n, 0) && ready_with(sim, n, member));
		sim_free(sim);

		sim = sim_new(4, &(struct sim_options){
			.frames = 12, .backups = 3, .replicas = 2 });
		CHECK(sim_start(sim, false));
		member = core_incarnation(sim->core, (n + 1) % 3);
		sim_cut(sim, DISK_CUT_DROP);
		CHECK(join_with(sim, n, 0) && join_with(sim, n, member));
		CHECK(format_with(sim, 0));
		sim_free(sim);
	}
	return true;
}

static uint64_t sum(const uint64_t *counts, uint32_t nr)
{
	return nr ? *counts + sum(counts + 1, nr - 1) : 0;
}

/* The statistics of a backup are right. */
static bool test_stats(void)
{
	struct core_stats stats;
	struct core_backup_stats *backup = &stats.backup[0];
	struct lsmem_event event;
	struct sim *sim = begin(&event);
	uint32_t i;

	core_stats(sim->core, &stats);
	CHECK(!backup->lag_bytes && !backup->lag_segments);
	CHECK(model_put(sim->model, 0, 1, 9000));
	for (i = 0; i < 100 && !backup->lag_bytes; i++) {	/* the kernel takes its time */
		sim_events(sim);
		core_stats(sim->core, &stats);
	}
	CHECK(backup->lag_bytes > 9000 && backup->lag_bytes == stats.lag_bytes);
	CHECK(backup->lag_segments == 1);
	sim_settle(sim);
	model_roll(sim->model, 1);
	sim_settle(sim);
	core_stats(sim->core, &stats);
	CHECK(!backup->lag_bytes && !backup->lag_segments);
	for (i = 0; i < CORE_PARTS; i++)
		CHECK(backup->writes[i] && backup->bytes[i] >= backup->writes[i] * LSMEM_BLOCK);
	CHECK(sum(backup->writes, CORE_PARTS) == stats.writes);
	CHECK(sum(backup->bytes, CORE_PARTS) == stats.written_bytes);
	CHECK(backup->flushes == stats.flushes);
	/* Groups have counted all durable bytes, each once. */
	CHECK(backup->group_bytes.sum == stats.log_bytes);
	CHECK(sum(backup->group_bytes.count, HISTOGRAM_BUCKETS) ==
	      sum(backup->group_segments.count, HISTOGRAM_BUCKETS));
	CHECK(backup->group_segments.sum >= 2);
	sim_free(sim);
	return true;
}

static bool flush_in_flight(const struct sim *sim)
{
	uint32_t i;

	for (i = 0; i < disk_in_flight(sim->disk); i++)
		if (sim->requests[disk_nth(sim->disk, i)].flush)
			return true;
	return false;
}

/* A range that is divided into writes gets one flush, when all of them are done, in any order. */
static bool test_one_flush(void)
{
	uint32_t seed, divided = 0, oldest, i;
	struct core_stats before, after;

	for (seed = 1; seed <= 16; seed++) {
		struct sim *sim = sim_new(seed, &options);

		CHECK(sim_start(sim, false));
		sim_settle(sim);
		for (i = 0; i < MODEL_SEGMENTS; i++)
			sim->model->segments[i].limit = LSMEM_SEGMENT_BYTES;
		CHECK(model_put(sim->model, 0, 1, 100));
		sim_settle(sim);
		core_stats(sim->core, &before);
		for (i = 0; i < 8; i++)
			CHECK(model_put(sim->model, i, 1, 30000));
		sim_events(sim);
		oldest = seed % 2;
		divided += disk_in_flight(sim->disk) > 1;
		while (disk_in_flight(sim->disk) > 1) {
			CHECK(!flush_in_flight(sim));
			sim_complete(sim, oldest ? 0 : disk_in_flight(sim->disk) - 1);
		}
		sim_settle(sim);
		core_stats(sim->core, &after);
		CHECK(after.log_bytes - before.log_bytes > 240000 && !after.lag_bytes);
		CHECK(after.flushes - before.flushes <= 1);
		sim_free(sim);
	}
	CHECK(divided > 2);
	return true;
}

/* Parameters that do not fit together. */
static bool test_params(void)
{
	struct lsmem_event event;
	struct sim *sim = begin(&event);
	struct recover *r = recover_new(&sim->env);
	char error[CORE_ERROR_BYTES];
	struct core_params params, good;
	enum recover_state state;
	struct digest_map coded;
	struct core *core;

	CHECK(!recover_open(r, &state) && !recover_map(r, false));
	good = (struct core_params) {
		.super = { recover_super(r) }, .map = recover_digest(r), .resume = true,
		.io_bytes = CORE_IO_BYTES,
		.log = { .seglets = sim->model->memory, .table = sim->model->table,
			 .nr_seglets = MODEL_SEGLETS },
	};
	params = good;
	params.io_bytes = 4096 + 512;
	CHECK(!core_new(&params, error) && error[0]);
	params.io_bytes = 2 * CORE_IO_BYTES;
	CHECK(!core_new(&params, error) && error[0]);
	params = good;
	params.log.nr_seglets = 0;
	CHECK(!core_new(&params, error) && error[0]);
	/* The digest has open segments, and core does not resume (invariant 15). */
	params = good;
	params.resume = false;
	CHECK(!core_new(&params, error) && strstr(error, "recover first"));
	/* Room for stripes is none; with one the store is coded. */
	coded = *recover_digest(r);
	CHECK(!digest_map_code(&coded));
	params = good;
	params.map = &coded;
	core = core_new(&params, error);
	CHECK(core);
	core_free(core);
	params.k = 3;
	params.m = 3;
	CHECK(!core_new(&params, error) && strstr(error, "no such code"));
	params.m = 2;
	params.min_parity = 3;
	CHECK(!core_new(&params, error) && strstr(error, "no such code"));
	params.min_parity = 0;
	coded.stripes->k = 2;
	coded.stripes->m = 1;
	CHECK(!core_new(&params, error) && strstr(error, "another code"));
	/* New segments get replicas, and those that are coded are still to be acknowledged. */
	params.k = 0;
	params.m = 0;
	params.min_parity = 2;
	CHECK(!core_new(&params, error) && strstr(error, "fewer parity shards"));
	params.min_parity = 0;
	params.k = 3;
	params.m = 2;
	params.map = recover_digest(r);
	CHECK(!core_new(&params, error) && strstr(error, "not coded"));
	coded.items = NULL;		/* of @r */
	digest_map_destroy(&coded);
	recover_free(r);
	sim_free(sim);
	return true;
}

int main(void)
{
	tap_ok(test_events(), "core fails with invalid events, and names them");
	tap_ok(test_unknown(), "an event of an unknown type");
	tap_ok(test_resume(), "a kernel that contradicts the digest");
	tap_ok(test_resume_retired(), "groups of segments that were being retired may be missing");
	tap_ok(test_device(), "core fails with any failed write or flush");
	tap_ok(test_many_opens(), "more opens than there is room for");
	tap_ok(test_domain_away(), "a domain of two backups stays one without the other domain");
	tap_ok(test_incarnations(), "no two backups have the same name in digests, and none has 0");
	tap_ok(test_scatter(), "backups of several sizes fill evenly and completely, as promised");
	tap_ok(test_room(), "core reports a backup before it is full");
	tap_ok(test_stats(), "statistics of a backup");
	tap_ok(test_one_flush(), "one flush for a range in several writes");
	tap_ok(test_params(), "parameters out of range");
	return tap_end();
}
