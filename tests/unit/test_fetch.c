// SPDX-License-Identifier: GPL-2.0
/*
 * Fetching: daemon/core/fetch.h with the simulated disk, core, and a kernel that looks for the
 * object in what it is given, as the module does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "../common/tap.h"
#include "core/fetch.h"
#include "stripe/rule.h"

uint64_t lsmem_mutation;

#define ASKS	4096u
#define READS	(FETCH_READS * CORE_BACKUPS)
#define MS	1000000ull
#define WAIT	(10000 * MS)

#define CLOSE	5u	/* the first objects: they lie in a few blocks */
#define APART	35u	/* places of ask_apart() */

#define PENDING	1	/* an ask without an answer */

static const struct sim_options one = { .frames = 12, .size = 2, .steps = 100 };
static const struct sim_options three = {
	.frames = 12, .size = 2, .steps = 100, .backups = 3, .replicas = 3, .min_replicas = 2,
};

static const struct sim_options coded[] = {
	{ .frames = 12, .size = 2, .steps = 100, .backups = 3, .k = 2, .m = 1 },
	{ .frames = 12, .size = 2, .steps = 100, .backups = 5, .k = 3, .m = 2 },
};

/* Half coded: a store of code k+m that has segments with m + 1 replicas as well. */
static const struct sim_options half[] = {
	{ .frames = 12, .size = 2, .steps = 100, .backups = 3, .replicas = 2, .k = 2, .m = 1 },
	{ .frames = 12, .size = 2, .steps = 100, .backups = 5, .replicas = 3, .k = 3, .m = 2 },
};

/* Lengths of the objects: in one block, across two, across seglets, of many blocks, the longest. */
static const uint32_t lengths[] = { 1, 100, 4000, 4096, 9000, 20000, 66000, 300000, LSMEM_OBJECT_MAX };

#define OBJECTS	(sizeof(lengths) / sizeof(lengths[0]))

/**
 * struct ask - a fetch request
 * @one: the request
 * @object: index of the object
 * @result: PENDING, or the answer
 * @fills: answers given so far
 * @again: so many answers meet no memory
 * @any: its data are not looked at: it is for another place than that of the object
 */
struct ask {
	struct lsmem_fetch_one one;
	uint32_t object;
	int result;
	uint32_t fills, again;
	bool any;
};

static struct {
	struct sim *sim;
	struct fetch *f;
	uint64_t now;
	struct fetch_read reads[READS];
	bool in_flight[READS];
	uint32_t nr_in_flight;
	uint32_t reads_of[CORE_BACKUPS];	/* in flight */
	uint32_t asked[CORE_BACKUPS];		/* reads begun */
	uint32_t wrong;				/* mask of backups whose data are damaged on their way */
	uint64_t sick[CORE_BACKUPS];		/* reads of the block at this offset fail; 0: none */
	struct ask asks[ASKS];
	uint32_t nr_asks, pending;
	const char *error;
} t;

/* ---- The kernel -------------------------------------------------------- */

static struct model_segment *segment_of(uint32_t object)
{
	return &t.sim->model->segments[t.sim->model->handles[object].segment];
}

static const struct model_entry *entry_of(uint32_t object)
{
	return &segment_of(object)->entries[t.sim->model->handles[object].entry];
}

static struct ask *ask_new(uint32_t object)
{
	struct ask *ask = &t.asks[t.nr_asks];

	*ask = (struct ask) { .object = object, .result = PENDING };
	ask->one = (struct lsmem_fetch_one) {
		.cookie = 0x1000 + t.nr_asks++,
		.segment = segment_of(object)->id,
		.generation = segment_of(object)->generation,
		.block = entry_of(object)->at / LSMEM_BLOCK,
		.blocks = 1,
	};
	return ask;
}

static void give(struct ask *ask)
{
	fetch_take(t.f, &ask->one, t.now);
	t.pending++;
}

static struct ask *ask(uint32_t object)
{
	struct ask *new = ask_new(object);

	give(new);
	return new;
}

/* The kernel knows how long the object is. */
static struct ask *ask_whole(uint32_t object)
{
	struct ask *new = ask_new(object);
	const struct model_entry *e = entry_of(object);

	new->one.blocks = (e->at % LSMEM_BLOCK + e->size + LSMEM_BLOCK - 1) / LSMEM_BLOCK;
	give(new);
	return new;
}

/* Ask for the first blocks of what is far enough from all others to be a read of its own. */
static struct ask *ask_apart(uint32_t nr)
{
	struct ask *new = ask_new(OBJECTS - 1);

	new->one.block = nr % APART * (FETCH_GAP + 2);
	new->any = true;
	give(new);
	return new;
}

static struct ask *ask_segment(uint32_t object)
{
	struct ask *new = ask_new(object);

	new->one.block = 0;
	new->one.blocks = segment_of(object)->committed / LSMEM_BLOCK + 1;
	new->one.flags = LSMEM_FETCH_SEGMENT;
	give(new);
	return new;
}

/* Look for the object of a request in an answer to it. */
static int look(const struct ask *ask, const uint8_t *data, uint32_t length)
{
	const struct model_segment *seg = segment_of(ask->object);
	const struct model_entry *e = entry_of(ask->object);
	const struct lsmem_entry *entry = (const void *)(data + e->at % LSMEM_BLOCK);
	struct format_verify verify;
	uint32_t at = e->at % LSMEM_BLOCK, end;

	if (ask->one.flags & LSMEM_FETCH_SEGMENT) {
		format_verify_begin(&verify, t.sim->geometry.uuid, seg->id, seg->generation,
				    seg->committed);
		return length >= seg->committed &&
		       !format_verify_data(&verify, data, seg->committed) &&
		       !format_verify_length(&verify) ? 0 : -EBADMSG;
	}
	end = seg->committed - ask->one.block * LSMEM_BLOCK;
	if (length > lsmem_block_round(end) ||
	    (length > end && !format_is_zero(data + end, length - end)))
		t.error = "more than the segment";
	if (at + LSMEM_LONG_BYTES > length)
		return -ENODATA;
	if (!lsmem_entry_sane(entry))
		return -EBADMSG;
	if (at + lsmem_entry_bytes(entry) > length)
		return -ENODATA;
	if (!lsmem_entry_valid(entry, format_payload(entry), seg->salt) ||
	    lsmem_entry_handle(entry) != e->key)
		return -EBADMSG;
	if (lsmem_entry_version(entry) != e->version ||
	    !content_is(format_payload(entry), e->length, e->key, e->version))
		t.error = "another object";
	return 0;
}

static int judge(struct ask *ask, const struct lsmem_fill_one *fill)
{
	if (ask->result != PENDING)
		return -ENOENT;
	ask->fills++;
	if (!fill->result && ask->again) {
		ask->again--;
		return -EAGAIN;
	}
	if (fill->result) {
		ask->result = fill->result;
		return 0;
	}
	if (fill->length % LSMEM_BLOCK || !fill->length)
		t.error = "an impossible length";
	return ask->any ? 0 : look(ask, (const void *)(uintptr_t)fill->data, fill->length);
}

/* Give answers to the kernel. Returns how many. */
static uint32_t fill(void)
{
	struct lsmem_fill_one fills[64];
	uint32_t all = 0, n, i;

	while ((n = fetch_fills(t.f, fills, 64))) {
		for (i = 0; i < n; i++) {
			struct ask *ask = &t.asks[fills[i].cookie - 0x1000];
			bool pending = ask->result == PENDING;
			int result = judge(ask, &fills[i]);

			if (!result && !fills[i].result)
				ask->result = 0;
			t.pending -= pending && ask->result != PENDING;
			fills[i].result = result;
		}
		fetch_filled(t.f, fills, n, t.now);
		all += n;
	}
	return all;
}

/* ---- The disk ---------------------------------------------------------- */

static uint64_t where(const struct fetch_read *read)
{
	return t.sim->drive[read->backup] * t.sim->span + read->offset;
}

static void start(void)
{
	struct fetch_read read;

	while (fetch_next(t.f, &read, t.now)) {
		if (read.id >= READS || t.in_flight[read.id] || !read.length ||
		    (read.length | read.offset | (uintptr_t)read.data) % LSMEM_BLOCK ||
		    read.length > FETCH_PART_BYTES)
			t.error = "an impossible read";
		t.reads[read.id] = read;
		t.in_flight[read.id] = true;
		t.nr_in_flight++;
		t.reads_of[read.backup]++;
		t.asked[read.backup]++;
		if (t.reads_of[read.backup] > FETCH_READS)
			t.error = "too many reads";
	}
}

static void complete(uint32_t id, int error)
{
	const struct fetch_read *read = &t.reads[id];

	if (t.sick[read->backup] - read->offset < read->length)
		error = -EIO;
	disk_read(t.sim->disk, where(read), read->data, read->length);
	if (t.wrong >> read->backup & 1u)
		memset(read->data, 0x5a, read->length);
	t.in_flight[id] = false;
	t.nr_in_flight--;
	t.reads_of[read->backup]--;
	fetch_done(t.f, id, error, t.now);
}

/* Complete all reads of the backups in a mask, those that begin meanwhile too. */
static void complete_all(uint32_t backups, int error)
{
	bool any;
	uint32_t i;

	do {
		any = false;
		start();
		for (i = 0; i < READS; i++) {
			if (!t.in_flight[i] || !(backups >> t.reads[i].backup & 1u))
				continue;
			complete(i, error);
			any = true;
		}
		any |= fill();
	} while (any);
}

/* ---- Runs -------------------------------------------------------------- */

static void new_fetch(void)
{
	struct fetch_params params = { .core = t.sim->core, .wait_ns = WAIT };

	t.f = fetch_new(&params);
	memset(t.in_flight, 0, sizeof(t.in_flight));
	memset(t.reads_of, 0, sizeof(t.reads_of));
	t.nr_in_flight = 0;
}

static void limits(uint32_t bytes)
{
	uint32_t i;

	for (i = 0; i < MODEL_SEGMENTS; i++)
		t.sim->model->segments[i].limit = bytes;
}

/* Put objects into a closed segment: the first one, and each @step that follows. */
static bool put(uint32_t first, uint32_t step)
{
	uint32_t i;

	limits(4u << 20);
	sim_settle(t.sim);
	limits(4u << 20);
	for (i = first; i < OBJECTS; i += step)
		CHECK(model_put(t.sim->model, i, 1, lengths[i]));
	model_roll(t.sim->model, 1);
	sim_settle(t.sim);
	CHECK(!t.sim->error[0] && segment_of(first)->close_acked);
	for (i = first; i < OBJECTS; i += step)
		CHECK(segment_of(i) == segment_of(first));
	return true;
}

/* Is the closed segment of an object coded? Then it is together on no backup. */
static bool is_coded(uint32_t object)
{
	const struct lsmem_fetch_one where = {
		.segment = segment_of(object)->id, .generation = segment_of(object)->generation,
	};
	uint64_t offset;
	uint32_t b;

	for (b = 0; b < t.sim->options.backups; b++)
		if (fetch_place(t.f, &where, b, &offset))
			return false;
	return true;
}

/*
 * Start a store with all objects in a closed segment; if it is half coded, every other one is in a segment of the other kind,
 * which is the newer one. @to_code: the coded one.
 */
static bool begin_store(const struct sim_options *options, bool to_code)
{
	struct sim_options first = *options;
	bool both = options->k && options->replicas;
	uint32_t i;

	if (both && to_code)
		first.k = 0;
	memset(&t, 0, sizeof(t));
	t.now = 1000 * MS;
	t.sim = sim_new(8, &first);
	t.sim->geometry.k = options->k;
	t.sim->geometry.m = options->m;
	if (!sim_start(t.sim, false))
		return false;
	CHECK(put(0, both ? 2 : 1));
	if (both) {
		t.sim->options.k = to_code ? options->k : 0;
		sim_kill(t.sim);
		sim_settle(t.sim);
		/* The head and the spares are of the first kind. */
		for (i = 0; i <= MODEL_SPARES; i++) {
			CHECK(model_put(t.sim->model, 9, 1, 100));
			model_roll(t.sim->model, 1);
			sim_settle(t.sim);
		}
		CHECK(put(1, 2));
	}
	new_fetch();
	if (both)
		CHECK(is_coded(0) == !to_code && is_coded(1) == to_code);
	return true;
}

static bool begin(const struct sim_options *options)
{
	return begin_store(options, false);
}

/* End a run. Returns true if nothing was wrong, and all is free again. */
static bool end(void)
{
	bool ok = !t.error && !t.sim->error[0] && !t.pending && !t.nr_in_flight &&
		  fetch_room(t.f) == FETCH_REQUESTS && fetch_due(t.f) == FETCH_NEVER;

	if (!ok)
		tap_note("%s%s, %u pending, %u in flight, room %u", t.error ? t.error : "",
			 t.sim->error, t.pending, t.nr_in_flight, fetch_room(t.f));
	fetch_free(t.f);
	sim_free(t.sim);
	return ok;
}

static struct fetch_stats stats(void)
{
	struct fetch_stats stats;

	fetch_stats(t.f, &stats);
	return stats;
}

/* ---- Tests ------------------------------------------------------------- */

/* Objects of all lengths, though the kernel expects one block for each, and whole segments. */
static bool test_all(const struct sim_options *options)
{
	uint32_t i, round;

	CHECK(begin(options));
	for (round = 0; round < 20; round++) {
		for (i = 0; i < OBJECTS; i++)
			ask(i);
		ask_segment(0);
		ask_segment(1);
		complete_all(~0u, 0);
	}
	for (i = 0; i < t.nr_asks; i++)
		CHECK(!t.asks[i].result);
	CHECK(stats().fetches == t.nr_asks && stats().segments == 40 && stats().longer);
	CHECK(!stats().failures && !stats().second && !stats().replaced);
	return end();
}

/* An object that ends where the segment ends. */
static bool test_last(void)
{
	struct ask *last;

	CHECK(begin(&one));
	last = ask_new(OBJECTS - 1);
	last->one.blocks = 2000;
	give(last);
	complete_all(~0u, 0);
	CHECK(!last->result && last->fills == 1);
	return end();
}

/* What is gone is answered with ESTALE, what cannot be there with an error. */
static bool test_unknown(void)
{
	struct ask *segment, *generation, *beyond, *open;
	struct fetch_bad bad;

	CHECK(begin(&one));
	segment = ask_new(0);
	segment->one.segment = 9999;
	give(segment);
	generation = ask_new(0);
	generation->one.generation++;
	give(generation);
	complete_all(~0u, 0);
	CHECK(segment->result == -ESTALE && generation->result == -ESTALE);
	CHECK(!fetch_bad_next(t.f, &bad) && !stats().failures);
	beyond = ask_new(0);
	beyond->one.block = 2000;
	give(beyond);
	CHECK(model_put(t.sim->model, 9, 1, 5000));
	sim_settle(t.sim);
	open = ask(9);
	complete_all(~0u, 0);
	CHECK(beyond->result == -EIO && open->result == -EIO);
	CHECK(stats().failures == 2 && !t.asked[0]);
	CHECK(fetch_bad_next(t.f, &bad) && bad.block == 2000 && !bad.backups);
	CHECK(fetch_bad_next(t.f, &bad) && bad.segment == open->one.segment);
	CHECK(!fetch_bad_next(t.f, &bad));
	return end();
}

static bool exists(uint64_t segment)
{
	uint32_t i;

	for (i = 0; i < MODEL_SEGMENTS; i++)
		if (t.sim->model->segments[i].life && t.sim->model->segments[i].id == segment)
			return true;
	return false;
}

/*
 * A segment is retired under a request: the kernel does not find the object in what was read from a
 * frame that has another segment now, and that is no damage.
 */
static bool test_retired(void)
{
	struct lsmem_fill_one fills[2];
	struct lsmem_fetch_one one_fetch;
	uint32_t i;

	CHECK(begin(&one));
	one_fetch = ask_new(0)->one;
	fetch_take(t.f, &one_fetch, t.now);
	start();
	CHECK(t.nr_in_flight == 1);
	for (i = 0; i < OBJECTS; i++)
		model_delete(t.sim->model, i, 2);
	for (i = 0; i < 50 && exists(one_fetch.segment); i++) {
		sim_settle(t.sim);
		model_clean(t.sim->model, 6);
		core_tick(t.sim->core);
		sim_issue(t.sim);
		sim_settle(t.sim);
	}
	CHECK(!exists(one_fetch.segment));
	complete(0, 0);
	CHECK(fetch_fills(t.f, fills, 2) == 1 && !fills[0].result && fills[0].length);
	fills[0].result = -EBADMSG;
	fetch_filled(t.f, fills, 1, t.now);
	CHECK(fetch_fills(t.f, fills, 2) == 1 && fills[0].result == -ESTALE && !fills[0].length);
	fills[0].result = 0;
	fetch_filled(t.f, fills, 1, t.now);
	/* A request that comes now is not read. */
	fetch_take(t.f, &one_fetch, t.now);
	CHECK(fetch_fills(t.f, fills, 2) == 1 && fills[0].result == -ESTALE);
	fills[0].result = 0;
	fetch_filled(t.f, fills, 1, t.now);
	CHECK(t.asked[0] == 1 && !stats().failures);
	return end();
}

/* This host first, then the shortest mean latency. */
static bool test_choice(void)
{
	uint32_t i, b;

	CHECK(begin(&three));
	/* Backup 0 takes 3 ms, 1 takes 1 ms, 2 takes 2 ms, and is here, as is 0. */
	fetch_remote(t.f, 1u << 1);
	for (i = 0; i < 300; i++) {
		ask(i % 6);
		start();
		for (b = 0; b < 3; b++) {
			if (!t.reads_of[b])
				continue;
			t.now += (b == 0 ? 3 : b) * MS;
			complete_all(1u << b, 0);
		}
	}
	CHECK(!t.asked[1] && t.asked[2] > 10 * t.asked[0] && t.asked[0]);
	/* If all are alike, the fastest. */
	fetch_remote(t.f, 0);
	memset(t.asked, 0, sizeof(t.asked));
	for (i = 0; i < 300; i++) {
		ask(i % 6);
		start();
		for (b = 0; b < 3; b++) {
			if (!t.reads_of[b])
				continue;
			t.now += (b == 0 ? 3 : b) * MS;
			complete_all(1u << b, 0);
		}
	}
	CHECK(t.asked[1] > 10 * (t.asked[0] + t.asked[2]));
	/* A backup that was slow is tried again some time. */
	memset(t.asked, 0, sizeof(t.asked));
	for (i = 0; i < 30; i++) {
		fetch_second(t.f);
		ask(0);
		start();
		t.now += MS;
		complete_all(~0u, 0);
	}
	CHECK(t.asked[0] && t.asked[2]);
	return end();
}

/* A replica is late: the next is read as well, the first answer counts, and no buffer is lost. */
static bool test_late(void)
{
	uint32_t round, i, first, second;
	struct ask *late;

	CHECK(begin(&three));
	for (round = 0; round < 500; round++) {
		late = ask_whole(round % OBJECTS);
		start();
		CHECK(t.nr_in_flight);
		for (first = 0; !t.reads_of[first]; first++)
			;
		CHECK(fetch_due(t.f) >= t.now + 4 * MS && fetch_due(t.f) <= t.now + WAIT / 2);
		fetch_late(t.f, t.now + MS);
		start();
		CHECK(!(t.reads_of[0] && t.reads_of[1]));
		t.now = fetch_due(t.f);
		fetch_late(t.f, t.now);
		start();
		for (second = 0; second == first || !t.reads_of[second]; second++)
			CHECK(second < 3);
		CHECK(stats().second == round + 1);
		i = round % 3;
		if (i == 0) {		/* the second is first */
			complete_all(1u << second, 0);
			CHECK(!late->result && fetch_room(t.f) == FETCH_REQUESTS);
		} else if (i == 1) {	/* the first is first after all */
			complete_all(1u << first, 0);
			CHECK(!late->result && fetch_room(t.f) == FETCH_REQUESTS);
		} else {		/* the second fails */
			complete_all(1u << second, -EIO);
		}
		complete_all(~0u, 0);
		CHECK(!late->result);
		/* Let all be alike again. */
		for (i = 0; i < 40; i++)
			fetch_second(t.f);
		sim_settle(t.sim);
	}
	CHECK(stats().fetches == 500 && !stats().failures);
	return end();
}

/* All replicas are late: each is asked once, and any can answer. */
static bool test_all_late(void)
{
	struct ask *late;
	uint32_t b;

	CHECK(begin(&three));
	for (b = 0; b < 3; b++) {
		late = ask(1);
		start();
		t.now = fetch_due(t.f);
		fetch_late(t.f, t.now);
		start();
		t.now = fetch_due(t.f);
		fetch_late(t.f, t.now);
		start();
		CHECK(t.nr_in_flight == 3 && t.reads_of[0] && t.reads_of[1] && t.reads_of[2]);
		/* The last deadline passes: nothing more can be done. */
		t.now = fetch_due(t.f);
		fetch_late(t.f, t.now);
		start();
		CHECK(t.nr_in_flight == 3 && fetch_due(t.f) == FETCH_NEVER);
		complete_all(1u << b, 0);
		CHECK(!late->result);
		complete_all(~0u, -EIO);
		CHECK(!late->result && late->fills == 1);
	}
	return end();
}

/* A backup that is late is not asked; when it has answered, or failed, it is the best again. */
static bool test_late_once(void)
{
	struct ask *late;
	uint32_t round;

	CHECK(begin(&three));
	fetch_remote(t.f, 6);
	for (round = 0; round < 12; round++) {
		memset(t.asked, 0, sizeof(t.asked));
		late = ask(0);
		late->again = round % 2;	/* its answer is kept for a while */
		start();
		t.now = fetch_due(t.f);
		fetch_late(t.f, t.now);
		ask_apart(1);
		start();
		CHECK(t.asked[0] == 1 && t.nr_in_flight == 3);
		if (round % 3)		/* the others answer first */
			complete_all(6, 0);
		complete_all(1, round % 3 == 1 ? -EIO : 0);
		ask(2);
		start();
		CHECK(t.asked[0] == 2);
		complete_all(~0u, 0);
		t.now += 60 * MS;
		fetch_late(t.f, t.now);
		complete_all(~0u, 0);
		CHECK(!t.pending);
	}
	CHECK(!stats().failures);
	return end();
}

/*
 * A replica is damaged, or a read fails once: another one answers.  The bad replica is restored, one
 * that is sound is left alone.
 */
static bool test_damaged(bool unreadable)
{
	struct core_stats core;
	struct fetch_read read;
	struct core_bad bad;
	struct ask *first;
	uint32_t i;

	CHECK(begin(&three));
	first = ask_whole(2);
	CHECK(fetch_next(t.f, &read, t.now));
	t.reads[read.id] = read;
	t.in_flight[read.id] = true;
	t.nr_in_flight++;
	t.reads_of[read.backup]++;
	if (!unreadable)
		disk_flip(t.sim->disk, where(&read), (entry_of(2)->at % LSMEM_BLOCK + 30) * 8);
	complete(read.id, unreadable ? -EIO : 0);
	complete_all(~0u, 0);
	CHECK(!first->result && first->fills == (unreadable ? 1u : 2u));
	CHECK(stats().replaced == 1 && !stats().failures);
	/*
	 * Core checks the replica.  If it is bad: there is no fourth backup, so it is dropped, and then
	 * restored in its place.
	 */
	for (i = 0; i < 20; i++) {
		core_tick(t.sim->core);
		sim_issue(t.sim);
		sim_settle(t.sim);
	}
	core_stats(t.sim->core, &core);
	CHECK(core.bad_replicas == !unreadable && core.copied == !unreadable && !core.short_segments);
	if (!unreadable)
		CHECK(core_bad_next(t.sim->core, &bad) && bad.backup == read.backup &&
		      bad.segment == first->one.segment && !bad.error);
	CHECK(!core_bad_next(t.sim->core, &bad));
	/* All are sound now. */
	for (i = 0; i < 300; i++) {
		fetch_second(t.f);
		first = ask_whole(2);
		complete_all(~0u, 0);
		CHECK(!first->result && first->fills == 1);
	}
	return end();
}

/* No replica has the object: an error, once all were asked, and a report. */
static bool test_nowhere(const struct sim_options *options)
{
	uint32_t all = options->backups ? (1u << options->backups) - 1 : 1, b, round;
	struct core_stats core;
	struct fetch_bad bad;
	struct ask *none;

	CHECK(begin(options));
	for (round = 0; round < 300; round++) {
		none = ask(round % 5);
		t.wrong = round % 3 ? all : 0;
		memset(t.asked, 0, sizeof(t.asked));
		complete_all(~0u, round % 3 ? 0 : -EIO);
		CHECK(none->result == -EIO);
		for (b = 0; all >> b & 1u; b++)
			CHECK(t.asked[b]);
		CHECK(fetch_bad_next(t.f, &bad) && bad.backups == all &&
		      bad.segment == none->one.segment && bad.block == none->one.block);
	}
	CHECK(stats().failures == 300 && !stats().fetches);
	/* More than can be kept are counted. */
	for (round = 0; round < 100; round++)
		ask(0);
	complete_all(~0u, 0);
	CHECK(stats().failures == 400);
	for (round = 0; fetch_bad_next(t.f, &bad); round++)
		;
	CHECK(round && round < 100);
	/* What is known to be sound nowhere is not copied. */
	core_stats(t.sim->core, &core);
	CHECK(!core.bad_replicas);
	t.wrong = 0;
	none = ask(0);
	complete_all(~0u, 0);
	CHECK(!none->result);
	return end();
}

/* The kernel has no memory: the same data again, after pauses that grow, and no read. */
static bool test_again(void)
{
	uint64_t due, before = 0;
	struct ask *again;
	uint32_t i;

	CHECK(begin(&one));
	again = ask_new(3);
	again->one.blocks = 10;
	again->again = 12;
	give(again);
	complete_all(~0u, 0);
	CHECK(again->result == PENDING && again->fills == 1);
	for (i = 1; i <= 12; i++) {
		due = fetch_due(t.f);
		CHECK(due != FETCH_NEVER && due - t.now >= MS && due - t.now <= 50 * MS);
		CHECK(due - t.now >= before);
		before = due - t.now;
		fetch_late(t.f, due - 1);
		CHECK(!fill() && again->fills == i);
		t.now = due;
		fetch_late(t.f, t.now);
		complete_all(~0u, 0);
	}
	CHECK(!again->result && again->fills == 13 && before == 50 * MS);
	CHECK(stats().again == 12 && stats().backup[0].reads == 1);
	return end();
}

/* The object was replaced meanwhile: the request is forgotten, at any moment. */
static bool test_forgotten(void)
{
	struct ask *gone;
	uint32_t i;

	CHECK(begin(&three));
	for (i = 0; i < 100; i++) {
		gone = ask(i % OBJECTS);
		start();
		gone->result = 0;
		t.pending--;
		complete_all(~0u, 0);
		CHECK(!gone->fills);
	}
	CHECK(!stats().fetches && !stats().failures);
	return end();
}

/* The daemon is killed with requests under way: the next one gets and answers them. */
static bool test_killed(const struct sim_options *options)
{
	uint32_t left, i;

	for (left = 0; left < 40; left++) {
		CHECK(begin(options));
		for (i = 0; i < 60; i++)
			ask(i % OBJECTS);
		ask_segment(0);
		ask_segment(1);
		start();
		for (i = 0; i < left; i++) {
			if (t.in_flight[i % READS])
				complete(i % READS, 0);
			if (i % 3 == 0)
				fill();
			start();
		}
		fetch_free(t.f);
		sim_kill(t.sim);
		sim_settle(t.sim);
		new_fetch();
		for (i = 0; i < t.nr_asks; i++)
			if (t.asks[i].result == PENDING)
				fetch_take(t.f, &t.asks[i].one, t.now);
		complete_all(~0u, 0);
		for (i = 0; i < t.nr_asks; i++)
			CHECK(!t.asks[i].result);
		CHECK(end());
	}
	return true;
}

/* A backup is lost with requests under way and waiting: the others answer them. */
static bool test_lost(const struct sim_options *options)
{
	uint32_t lost, i;

	for (lost = 0; lost < options->backups; lost++) {
		CHECK(begin(options));
		for (i = 0; i < 200; i++)
			ask(i % OBJECTS);
		ask_segment(0);
		ask_segment(1);
		start();
		core_lose(t.sim->core, lost, "a test");
		memset(t.asked, 0, sizeof(t.asked));
		for (i = 0; i < 50; i++)
			ask(i % OBJECTS);
		complete_all(~(1u << lost), 0);
		CHECK(!t.asked[lost] && !t.pending);
		for (i = 0; i < t.nr_asks; i++)
			CHECK(!t.asks[i].result);
		/* Its reads end at last. */
		complete_all(~0u, -EIO);
		CHECK(!stats().failures);
		sim_settle(t.sim);
		CHECK(end());
	}
	return true;
}

static uint32_t bytes_in_flight(uint32_t backup)
{
	uint32_t bytes = 0, i;

	for (i = 0; i < READS; i++)
		if (t.in_flight[i] && t.reads[i].backup == backup)
			bytes += t.reads[i].length;
	return bytes;
}

/*
 * What a group commit finds before it on its drive: with a write under way, at most 16 reads and
 * 1 MiB are begun; without, 32 and 4 MiB. Cleaning never gets all of it.
 */
static bool test_bounds(void)
{
	uint32_t round, i = 0, reads, bytes;
	bool busy, full = false, full_busy = false;

	CHECK(begin(&one));
	for (round = 0; round < 40; round++) {
		busy = round % 2;
		if (busy) {
			CHECK(model_put(t.sim->model, 9, 2, 100));
			for (i = 0; i < 100 && !disk_in_flight(t.sim->disk); i++)
				sim_events(t.sim);
			CHECK(disk_in_flight(t.sim->disk));
		}
		while (fetch_room(t.f))
			round % 4 < 2 ? ask_apart(i++) : ask(i++ % OBJECTS);
		start();
		reads = t.reads_of[0];
		bytes = bytes_in_flight(0);
		CHECK(reads <= (busy ? FETCH_READS_BUSY : FETCH_READS));
		CHECK(bytes <= (busy ? FETCH_BYTES_BUSY : FETCH_BYTES));
		full |= reads == FETCH_READS;
		full_busy |= busy && reads == FETCH_READS_BUSY;
		complete_all(~0u, 0);
		sim_settle(t.sim);
		CHECK(!t.pending);
		t.nr_asks = 0;
	}
	CHECK(full && full_busy);
	/* The cleaner alone, and with readers. */
	for (i = 0; i < 10; i++)
		ask_segment(0);
	start();
	CHECK(t.reads_of[0] == FETCH_READS / 2 && bytes_in_flight(0) <= FETCH_BYTES / 2);
	for (i = 0; i < FETCH_READS / 2; i++)
		ask_apart(i);
	start();
	CHECK(t.reads_of[0] == FETCH_READS);
	complete_all(~0u, 0);
	CHECK(stats().segments == 10);
	return end();
}

/* Readers that never pause do not keep the cleaner from its segment, nor from each other. */
static bool test_fair(void)
{
	struct ask *segment, *large;
	uint32_t i;

	CHECK(begin(&one));
	for (i = 0; i < 100; i++)
		ask_apart(i);
	segment = ask_segment(0);
	large = ask_new(OBJECTS - 1);
	large->one.blocks = 300;
	give(large);
	for (i = 0; i < 2000 && (segment->result == PENDING || large->result == PENDING); i++) {
		start();
		while (!t.in_flight[i % READS])
			i++;
		complete(i % READS, 0);
		fill();
		while (fetch_room(t.f) > 100 && t.nr_asks < ASKS)
			ask_apart(t.nr_asks);
	}
	CHECK(!segment->result && !large->result && t.nr_asks < ASKS);
	complete_all(~0u, 0);
	return end();
}

/* A segment that a recovery has cut ends there: what lies behind is not given. */
static bool test_cut(const struct sim_options *options)
{
	struct lsmem_fill_one given;
	const uint8_t *data;
	uint32_t home, at, nr, i;
	struct ask *kept;

	CHECK(begin(options));
	fetch_free(t.f);
	CHECK(model_put(t.sim->model, 9, 1, 5000));
	sim_settle(t.sim);
	CHECK(model_put(t.sim->model, 8, 1, 3000));
	sim_events(t.sim);
	sim_cut(t.sim, DISK_CUT_KEEP);
	CHECK(sim_start(t.sim, false));
	sim_settle(t.sim);
	new_fetch();
	/* Loaded objects are in the memory of the model; their places on the backup are the same. */
	kept = &t.asks[t.nr_asks++];
	*kept = (struct ask) { .object = 9, .result = PENDING };
	kept->one = (struct lsmem_fetch_one) {
		.cookie = 0x1000, .segment = segment_of(9)->id,
		.generation = segment_of(9)->generation, .blocks = 100,
	};
	t.pending++;
	fetch_take(t.f, &kept->one, t.now);
	start();
	home = segment_of(9)->home;
	nr = options->k ? lsmem_block_round(home) / LSMEM_BLOCK : 1;
	CHECK(t.nr_in_flight == (nr < options->k || !options->k ? nr : options->k));
	at = home & ~(LSMEM_BLOCK - 1);
	CHECK(home % LSMEM_BLOCK && home % LSMEM_BLOCK < LSMEM_BLOCK - 8);
	/* Of a coded store the row has the end of the log; in the other blocks the object is damaged. */
	for (i = 0; i < READS; i++) {
		if (!t.in_flight[i])
			continue;
		disk_flip(t.sim->disk, where(&t.reads[i]) + (options->k ? 0 : at), (home - at + 8) * 8);
		complete(i, 0);
	}
	CHECK(fetch_fills(t.f, &given, 1) == 1 && !given.result);
	CHECK(given.length == lsmem_block_round(home));
	data = (const void *)(uintptr_t)given.data;
	CHECK(!format_is_zero(data, home));
	CHECK(format_is_zero(data + home, given.length - home));
	given.result = 0;
	fetch_filled(t.f, &given, 1, t.now);
	t.pending--;
	return end();
}

/* The kernel is told that a segment is on a backup where reads find it. */
static bool test_place(void)
{
	struct lsmem_fetch_one other;
	uint64_t offset;
	struct ask *asked;
	uint32_t id = 0;

	CHECK(begin(&three));
	asked = ask(0);
	start();
	CHECK(t.nr_in_flight == 1);
	while (!t.in_flight[id])
		id++;
	CHECK(fetch_place(t.f, &asked->one, t.reads[id].backup, &offset));
	CHECK(offset + asked->one.block * LSMEM_BLOCK == t.reads[id].offset);
	other = asked->one;
	other.generation++;
	CHECK(!fetch_place(t.f, &other, t.reads[id].backup, &offset));
	other = asked->one;
	other.segment = ~0ull;
	CHECK(!fetch_place(t.f, &other, t.reads[id].backup, &offset));
	complete_all(~0u, 0);
	return end();
}

/* Ask for the first objects, which lie close together. */
static void ask_close(struct ask **asks)
{
	uint32_t i;

	for (i = 0; i < CLOSE; i++)
		asks[i] = ask(i);
}

static bool all_are(struct ask **asks, int result)
{
	uint32_t i;

	for (i = 0; i < CLOSE; i++)
		if (asks[i]->result != result)
			return false;
	return true;
}

/* What lies close together is one read, in whatever order it is asked for, and not more than that. */
static bool test_merged(void)
{
	struct ask *asks[CLOSE];
	uint32_t i;

	CHECK(begin(&one));
	for (i = 0; i < CLOSE; i++)
		asks[i] = ask((2 * i + 2) % CLOSE);
	start();
	CHECK(t.nr_in_flight == 1 && stats().merged == CLOSE - 1);
	complete_all(~0u, 0);
	CHECK(all_are(asks, 0) && stats().fetches == CLOSE);
	CHECK(stats().longer || stats().backup[0].reads == 1);

	/* The gap that is read is bounded. */
	memset(t.asked, 0, sizeof(t.asked));
	for (i = 0; i < 2; i++) {
		asks[i] = ask_new(0);
		asks[i]->any = true;
		asks[i]->one.block = 100 + i * (1 + FETCH_GAP);
		give(asks[i]);
	}
	start();
	CHECK(t.nr_in_flight == 1 && t.reads[0].length == (2 + FETCH_GAP) * LSMEM_BLOCK);
	complete_all(~0u, 0);
	for (i = 0; i < 2; i++)
		ask_apart(i);
	start();
	CHECK(t.nr_in_flight == 2);
	complete_all(~0u, 0);

	/* So is the read. */
	memset(t.asked, 0, sizeof(t.asked));
	for (i = 0; i < 100; i++) {
		struct ask *next = ask_new(0);

		next->any = true;
		next->one.block = i;
		give(next);
	}
	start();
	CHECK(t.asked[0] == (100 * LSMEM_BLOCK + FETCH_PART_BYTES - 1) / FETCH_PART_BYTES);
	complete_all(~0u, 0);
	return end();
}

/* What lies in two segments is two reads. */
static bool test_merged_segments(void)
{
	struct ask *first, *second;

	CHECK(begin(&one));
	CHECK(model_put(t.sim->model, 9, 1, 100));
	model_roll(t.sim->model, 1);
	sim_settle(t.sim);
	CHECK(segment_of(9) != segment_of(0) && segment_of(9)->close_acked);
	first = ask(0);
	second = ask(9);
	CHECK(first->one.block == second->one.block);
	start();
	CHECK(t.nr_in_flight == 2 && !stats().merged);
	complete_all(~0u, 0);
	CHECK(!first->result && !second->result);
	return end();
}

/* A read of several fails: each is read alone, and only what cannot be read is an error. */
static bool test_merged_failed(const struct sim_options *options)
{
	struct ask *asks[CLOSE];
	uint32_t i;

	CHECK(begin(options));
	ask_close(asks);
	start();
	CHECK(t.nr_in_flight == 1);
	for (i = 0; !t.in_flight[i]; i++)
		;
	complete(i, -EIO);
	start();
	CHECK(t.nr_in_flight == CLOSE && all_are(asks, PENDING));
	/* One of them is where the drive cannot read. */
	for (i = 0; t.reads[i].length != LSMEM_BLOCK || !t.in_flight[i]; i++)
		;
	complete(i, -EIO);
	complete_all(~0u, 0);
	CHECK(stats().failures == (options == &one) && stats().replaced == (options != &one));
	CHECK(stats().fetches + stats().failures == CLOSE);
	/* The next ones are read together again. */
	ask_close(asks);
	start();
	CHECK(t.nr_in_flight == 1);
	complete_all(~0u, 0);
	CHECK(all_are(asks, 0));
	return end();
}

/* A read of several is late: another replica is read as well, and whichever comes first counts. */
static bool test_merged_late(void)
{
	struct ask *asks[CLOSE];
	uint32_t round, first, i;

	CHECK(begin(&three));
	for (round = 0; round < 4; round++) {
		ask_close(asks);
		start();
		CHECK(t.nr_in_flight == 1);
		for (first = 0; !t.reads_of[first]; first++)
			;
		t.now = fetch_due(t.f);
		fetch_late(t.f, t.now);
		start();
		CHECK(t.nr_in_flight == 2 && t.reads_of[first] == 1);
		CHECK(stats().second == (round + 1) * CLOSE);
		if (round == 2)		/* then the late one must not fail all */
			complete_all(1u << first, -EIO);
		complete_all(round == 1 ? 1u << first : 7u & ~(1u << first), 0);
		complete_all(~0u, 0);
		CHECK(all_are(asks, 0));
		for (i = 0; i < 40; i++)
			fetch_second(t.f);
	}
	CHECK(!stats().failures && stats().fetches == 4 * CLOSE);
	return end();
}

/* Of those that are read together, some are wanted no more, or the backup is lost, or the daemon stops. */
static bool test_merged_forgotten(void)
{
	struct ask *asks[CLOSE];
	uint32_t round, i, backup;

	CHECK(begin(&three));
	for (round = 0; round < 300; round++) {
		ask_close(asks);
		start();
		CHECK(t.nr_in_flight == 1);
		for (i = 0; i < CLOSE; i++) {
			if (round >> i & 1u) {
				asks[i]->result = 0;
				t.pending--;
			}
		}
		asks[round % CLOSE]->again = round % 3;
		complete_all(~0u, 0);
		for (i = 0; i < 3; i++) {
			t.now += 50 * MS;
			fetch_late(t.f, t.now);
			complete_all(~0u, 0);
		}
		CHECK(all_are(asks, 0));
		t.nr_asks = 0;
	}
	ask_close(asks);
	start();
	for (backup = 0; !t.reads_of[backup]; backup++)
		;
	core_lose(t.sim->core, backup, "a test");
	complete_all(7u & ~(1u << backup), 0);
	CHECK(all_are(asks, 0) && t.nr_in_flight == 1);
	complete_all(~0u, -EIO);

	ask_close(asks);
	start();
	fetch_free(t.f);
	new_fetch();
	for (i = 0; i < CLOSE; i++)
		fetch_take(t.f, &asks[i]->one, t.now);
	complete_all(~0u, 0);
	CHECK(all_are(asks, 0));
	sim_settle(t.sim);
	return end();
}

/* Anything: in the end each request has an answer, and only what all failed for is an error. */
static bool random_run(uint64_t seed, const struct sim_options *options, bool to_code)
{
	uint32_t nr = options->backups ? options->backups : 1, step, i, errors = 0;
	uint64_t *r;
	bool lost = false;

	CHECK(begin_store(options, to_code));
	t.sim->random = seed;
	r = &t.sim->random;
	for (step = 0; step < 4000; step++) {
		uint32_t what = random_below(r, 100), id = random_below(r, READS);

		t.now += random_below(r, 400) * 1000;
		if (what < 20 && fetch_room(t.f) && t.nr_asks < ASKS - 1) {
			struct ask *new = random_chance(r, 3) ? ask_segment(step % 2) :
					  ask(random_below(r, OBJECTS));

			new->again = random_chance(r, 10) ? random_below(r, 4) : 0;
		} else if (what < 60) {
			for (i = 0; i < READS && !t.in_flight[(id + i) % READS]; i++)
				;
			id = (id + i) % READS;
			t.wrong = random_chance(r, 2) ? ~0u : 0;
			if (t.in_flight[id])
				complete(id, random_chance(r, 2) ? -EIO : 0);
			t.wrong = 0;
		} else if (what < 75) {
			start();
		} else if (what < 90) {
			fill();
		} else if (what < 97) {
			fetch_late(t.f, t.now);
		} else if (what < 98) {
			fetch_second(t.f);
			core_tick(t.sim->core);
			sim_settle(t.sim);	/* replicas that were bad are restored */
		} else if (what < 99) {
			model_put(t.sim->model, 9, 2, 1 + random_below(r, 5000));
			sim_events(t.sim);
		} else if (!lost && nr > 2 && random_chance(r, 10)) {
			lost = true;
			core_lose(t.sim->core, random_below(r, nr), "a test");
		}
		CHECK(!t.error);
	}
	for (i = 0; i < 100; i++) {
		complete_all(~0u, 0);
		t.now += 100 * MS;
		fetch_late(t.f, t.now);
	}
	for (i = 0; i < t.nr_asks; i++) {
		CHECK(t.asks[i].result <= 0);
		errors += t.asks[i].result != 0;
	}
	CHECK(stats().failures == errors && stats().fetches == t.nr_asks - errors);
	if (nr > 1 ? errors >= t.nr_asks / 20 : !errors)
		tap_note("%u of %u are errors", errors, t.nr_asks);
	CHECK(nr > 1 ? errors < t.nr_asks / 20 : errors > 0);
	return end();
}

static bool test_random(void)
{
	uint64_t seed;

	for (seed = 1; seed <= 60; seed++)
		if (!random_run(seed, seed % 3 == 0 ? &coded[1] : seed % 3 == 1 ? &three : &one, false)) {
			tap_note("seed %llu", (unsigned long long)seed);
			return false;
		}
	return true;
}

static bool test_random_half(void)
{
	uint64_t seed;

	for (seed = 1; seed <= 40; seed++)
		if (!random_run(seed, &half[seed / 2 % 2], seed % 2)) {
			tap_note("seed %llu", (unsigned long long)seed);
			return false;
		}
	return true;
}

/* ---- Coded stores ------------------------------------------------------ */

enum fault { LOST, ERRORS, WRONG, SILENT, FAULTS };

/* Let reads end, those of the backups in a mask with a fault, until nothing more happens. */
static void go_on(uint32_t bad, enum fault fault)
{
	uint32_t rounds;

	t.wrong = fault == WRONG ? bad : 0;
	for (rounds = 0; rounds < 1000; rounds++) {
		complete_all(~bad, 0);
		if (fault == SILENT) {
			if (!t.pending || fetch_due(t.f) == FETCH_NEVER)
				break;
			t.now = fetch_due(t.f);
			fetch_late(t.f, t.now);
		} else {
			complete_all(bad, fault == ERRORS ? -EIO : 0);
			if (!t.nr_in_flight)
				break;
		}
	}
	t.wrong = 0;
}

/* Find the backups with the data shards of the segment. */
static uint32_t data_shards(void)
{
	uint32_t data = 0, b;

	ask_segment(0);
	complete_all(~0u, 0);
	for (b = 0; b < CORE_BACKUPS; b++)
		data |= (t.asked[b] > 0) << b;
	memset(t.asked, 0, sizeof(t.asked));
	return data;
}

/* Backups in a mask have a fault: with up to m of them all is read, with more there are errors, and nothing is wrong. */
static bool subset(const struct sim_options *options, uint32_t bad, enum fault fault)
{
	bool enough = (uint32_t)__builtin_popcount(bad) <= options->m;
	uint32_t data, i, errors = 0, b;
	struct fetch_bad named;
	struct ask *segment;

	CHECK(begin(options));
	data = data_shards();
	CHECK((uint32_t)__builtin_popcount(data) == options->k && !stats().degraded);
	for (b = 0; fault == LOST && b < options->backups; b++)
		if (bad >> b & 1u)
			core_lose(t.sim->core, b, "a test");
	for (i = 0; i < OBJECTS; i++)
		ask(i);
	segment = ask_segment(0);
	go_on(bad, fault);
	if (enough) {
		for (i = 0; i < t.nr_asks; i++)
			CHECK(!t.asks[i].result);
		CHECK(!stats().failures && !stats().degraded == !(bad & data));
		if (fault == LOST)
			for (b = 0; b < options->backups; b++)
				CHECK(!(bad >> b & 1u) || !t.asked[b]);
	} else {
		CHECK(segment->result == (fault == SILENT && bad & data ? PENDING : bad & data ? -EIO : 0));
	}
	/* What was late comes at last, or fails: both are of no use any more. */
	complete_all(~0u, enough && bad & 1u ? 0 : -EIO);
	for (i = 0; i < t.nr_asks; i++) {
		CHECK(t.asks[i].result <= 0);
		errors += t.asks[i].result != 0;
	}
	CHECK(stats().failures == errors && !!errors == !(enough || !(bad & data)));
	CHECK(fetch_bad_next(t.f, &named) == !!errors && (!errors || named.segment == segment->one.segment));
	sim_settle(t.sim);
	return end();
}

static bool test_subsets(const struct sim_options *options, enum fault fault)
{
	uint32_t bad;

	for (bad = 1; bad < 1u << options->backups; bad++) {
		uint32_t nr = (uint32_t)__builtin_popcount(bad);

		if (nr > options->m + 1 || (nr > options->m && fault == LOST) || subset(options, bad, fault))
			continue;
		tap_note("backups %#x", bad);
		return false;
	}
	return true;
}

/* Up to m backups have a fault: all of both kinds is read, each as its segment is, in any order of the two. */
static bool subset_half(const struct sim_options *options, bool to_code, uint32_t bad, enum fault fault)
{
	uint32_t coded_one = to_code, data = 0, round, i, b;

	CHECK(begin_store(options, to_code));
	ask_segment(coded_one);
	complete_all(~0u, 0);
	for (b = 0; b < options->backups; b++)
		data |= (t.asked[b] > 0) << b;
	CHECK((uint32_t)__builtin_popcount(data) == options->k && !stats().degraded);
	memset(t.asked, 0, sizeof(t.asked));
	ask_segment(!coded_one);
	complete_all(~0u, 0);
	for (i = b = 0; b < options->backups; b++)
		i += t.asked[b] > 0;
	/* A replica is read from one backup. */
	CHECK(i == 1 && !stats().degraded && stats().segments == 2);
	memset(t.asked, 0, sizeof(t.asked));
	for (b = 0; fault == LOST && b < options->backups; b++)
		if (bad >> b & 1u)
			core_lose(t.sim->core, b, "a test");
	for (round = 0; round < 2; round++) {
		for (i = 0; i < OBJECTS; i++)
			ask(round ? OBJECTS - 1 - i : i);
		ask_segment(coded_one);
	}
	/* A backup has one buffer for whole replicas: a second reader would wait for it. */
	ask_segment(!coded_one);
	go_on(bad, fault);
	for (i = 0; i < t.nr_asks; i++)
		CHECK(!t.asks[i].result);
	CHECK(!stats().failures && stats().segments == 5 && !stats().degraded == !(bad & data));
	for (b = 0; fault == LOST && b < options->backups; b++)
		CHECK(!(bad >> b & 1u) || !t.asked[b]);
	/* What was late comes at last, or fails. */
	complete_all(~0u, bad & 1u ? 0 : -EIO);
	CHECK(stats().fetches == t.nr_asks);
	sim_settle(t.sim);
	return end();
}

static bool test_half(const struct sim_options *options, enum fault fault)
{
	uint32_t bad, to_code;

	for (bad = 0; bad < 1u << options->backups; bad++) {
		for (to_code = 0; to_code < 2; to_code++) {
			if ((uint32_t)__builtin_popcount(bad) > options->m || subset_half(options, to_code, bad, fault))
				continue;
			tap_note("backups %#x, the newer segment is %scoded", bad, to_code ? "" : "not ");
			return false;
		}
	}
	return true;
}

/*
 * A coded segment is retired under requests, one that is read and others that wait for rows, and its objects are in replicas
 * now, or the other way: what came from it is not accepted, and then it is gone.
 */
static bool test_half_retired(const struct sim_options *options, bool to_code)
{
	struct lsmem_fetch_one read, waiting;
	struct lsmem_fill_one fills[4];
	uint32_t i, b, nr, tries;

	CHECK(begin_store(options, to_code));
	read = ask_new(0)->one;
	waiting = ask_new(2)->one;
	fetch_take(t.f, &read, t.now);
	start();
	CHECK(t.nr_in_flight == 1);
	fetch_take(t.f, &waiting, t.now);
	for (i = 0; i < OBJECTS; i += 2)
		model_delete(t.sim->model, i, 2);
	for (i = 0; i < 50 && exists(read.segment); i++) {
		sim_settle(t.sim);
		model_clean(t.sim->model, 6);
		core_tick(t.sim->core);
		sim_issue(t.sim);
		sim_settle(t.sim);
	}
	CHECK(!exists(read.segment));
	for (b = 0; !t.reads_of[b]; b++)
		;
	for (i = 0; !t.in_flight[i]; i++)
		;
	/* Segments of the other kind in the meantime, and their readers. */
	for (tries = 0; tries < 10; tries++) {
		if (tries && segment_of(0)->close_acked && is_coded(0) == to_code)
			break;
		CHECK(model_put(t.sim->model, 0, 1, 9000));
		model_roll(t.sim->model, 1);
		sim_settle(t.sim);
	}
	/* The cleaner has moved the other one too. */
	model_roll(t.sim->model, 0);
	sim_settle(t.sim);
	CHECK(segment_of(1)->close_acked);
	CHECK(segment_of(0)->close_acked && segment_of(0)->id != read.segment && is_coded(0) == to_code);
	complete(i, 0);
	start();
	CHECK(!t.nr_in_flight);		/* what waits is not begun */
	nr = fetch_fills(t.f, fills, 4);
	CHECK(nr == 2);
	for (i = 0; i < nr; i++)
		fills[i].result = fills[i].result ? 0 : -EBADMSG;
	fetch_filled(t.f, fills, nr, t.now);
	CHECK(fetch_fills(t.f, fills, 4) == 1 && fills[0].result == -ESTALE && !fills[0].length);
	fills[0].result = 0;
	fetch_filled(t.f, fills, 1, t.now);
	t.nr_asks = 0;
	ask(0);
	ask(1);
	complete_all(~0u, 0);
	CHECK(!t.asks[0].result && !t.asks[1].result && !stats().failures && stats().fetches == 2);
	return end();
}

/* An object is read from the one data shard that has it, or from two: the others are not touched. */
static bool test_direct(const struct sim_options *options)
{
	uint32_t i, b, reads;
	struct ask *small;

	CHECK(begin(options));
	for (i = 0; i < 3; i++) {
		memset(t.asked, 0, sizeof(t.asked));
		small = ask_whole(i);
		start();
		for (b = reads = 0; b < options->backups; b++)
			reads += t.asked[b];
		CHECK(reads == small->one.blocks && t.nr_in_flight == reads);
		complete_all(~0u, 0);
		CHECK(!small->result && small->fills == 1);
	}
	CHECK(!stats().degraded && !stats().second);
	return end();
}

/* Blocks of the row of an object are bad, of up to m shards: it is read, and core makes the shards anew. */
static bool test_blocks(const struct sim_options *options)
{
	uint32_t bad, i, nr;
	struct fetch_read read;
	struct core_stats core;
	struct ask *first;

	for (bad = 1; bad < 1u << options->backups; bad++) {
		uint64_t row;

		nr = (uint32_t)__builtin_popcount(bad);
		if (nr > options->m)
			continue;
		CHECK(begin(options));
		first = ask(1);
		CHECK(fetch_next(t.f, &read, t.now));
		t.reads[read.id] = read;
		t.in_flight[read.id] = true;
		t.nr_in_flight++;
		t.reads_of[read.backup]++;
		/* The frames of a stripe have the same number on all backups, since all stripes have. */
		row = read.offset;
		for (i = 0; i < options->backups; i++)
			if (bad >> i & 1u)
				disk_flip(t.sim->disk, t.sim->drive[i] * t.sim->span + row,
					  (entry_of(1)->at % LSMEM_BLOCK + 30) * 8);
		complete_all(~0u, 0);
		CHECK(!first->result && first->fills == (bad >> read.backup & 1u ? 2u : 1u));
		CHECK(stats().degraded == (bad >> read.backup & 1u) && !stats().failures);
		core_scrub(t.sim->core, 0);
		for (i = 0; i < 40; i++) {
			core_tick(t.sim->core);
			sim_issue(t.sim);
			sim_settle(t.sim);
		}
		core_stats(t.sim->core, &core);
		CHECK(core.bad_replicas == (bad >> read.backup & 1u ? nr : 0) && !core.short_segments);
		CHECK(end());
	}
	return true;
}

/* More than m shards have a bad block, or one that cannot be read, but no two of them in the same row. */
static bool test_scattered(const struct sim_options *options, bool unreadable)
{
	struct ask *large;
	uint64_t row;
	uint32_t i;

	CHECK(begin(options));
	large = ask_whole(7);
	start();
	for (i = 0; !t.in_flight[i]; i++)
		;
	row = t.reads[i].offset + LSMEM_BLOCK;
	for (i = 0; i <= options->m; i++, row += LSMEM_BLOCK) {
		if (unreadable)
			t.sick[i] = row;
		else
			disk_flip(t.sim->disk, t.sim->drive[i] * t.sim->span + row, 7000);
	}
	complete_all(~0u, 0);
	CHECK(!large->result && large->fills == (unreadable ? 1u : 2u) && stats().degraded == 1);
	return end();
}

/* While a backup is late, nothing more is read from it: no reader waits for it again. */
static bool test_avoided(const struct sim_options *options)
{
	uint32_t late, data, i;

	CHECK(begin(options));
	data = data_shards();
	late = (uint32_t)__builtin_ctz(data);
	for (i = 0; i < OBJECTS; i++)
		ask(i);
	go_on(1u << late, SILENT);
	CHECK(!t.pending && stats().second && t.reads_of[late]);
	memset(t.asked, 0, sizeof(t.asked));
	for (i = 0; i < 200; i++)
		ask(i % OBJECTS);
	complete_all(~(1u << late), 0);
	CHECK(!t.pending && !t.asked[late] && stats().degraded);
	complete_all(~0u, 0);
	/* It has answered. */
	for (i = 0; i < OBJECTS; i++)
		ask(i);
	complete_all(~0u, 0);
	CHECK(!t.pending && t.asked[late] && !stats().failures);
	return end();
}

/* As many backups as may be lost do not answer, and are asked by all classes of requests: readers of the others go on. */
static bool test_hang(const struct sim_options *options)
{
	uint32_t most = options->k ? options->m : options->replicas - 1, bad = (1u << most) - 1, round, i;

	CHECK(begin(options));
	for (round = 0; round < 20; round++) {
		for (i = 0; i < 150; i++)
			ask(i % OBJECTS);
		for (i = 0; i < 4; i++)
			ask_segment(i);
		go_on(bad, SILENT);
		CHECK(!t.pending);
		for (i = 0; i < 40; i++)
			fetch_second(t.f);
	}
	complete_all(~0u, -EIO);
	return end();
}

/*
 * The same at once: each of them gets as many reads as it can have, before any is late. @blocks: of each request: one, or more
 * than a small one has, or 0: whole segments.
 */
static bool test_hang_at_once(const struct sim_options *options, uint32_t blocks)
{
	uint32_t bad = (1u << (options->replicas - 1)) - 1, round, i;

	CHECK(begin(options));
	for (round = 0; round < 10; round++) {
		for (i = 0; i < FETCH_REQUESTS; i++) {
			struct ask *new = ask_new(OBJECTS - 1);

			new->one.blocks = blocks ? blocks : segment_of(0)->committed / LSMEM_BLOCK + 1;
			new->one.flags = blocks ? 0 : LSMEM_FETCH_SEGMENT;
			new->one.block = blocks ? i % APART * (FETCH_GAP + 2) : 0;
			new->any = true;
			give(new);
			if (i % APART == APART - 1)
				start();	/* they are reads of their own */
		}
		go_on(bad, SILENT);
		CHECK(!t.pending);
		for (i = 0; i < 40; i++)
			fetch_second(t.f);
	}
	complete_all(~0u, -EIO);
	return end();
}

static bool test_without(uint32_t rule, bool (*test)(const struct sim_options *options))
{
	bool noticed;

	stripe_mutation = 1ull << rule;
	noticed = !test(&coded[1]);
	stripe_mutation = 0;
	if (noticed) {
		fetch_free(t.f);
		sim_free(t.sim);
	}
	return noticed;
}

int main(void)
{
	static const char * const faults[] = { "are lost", "fail", "give wrong bytes", "do not answer" };
	uint32_t i, fault;

	tap_ok(test_all(&one), "objects of all lengths, and segments");
	tap_ok(test_all(&three), "the same, from three backups");
	tap_ok(test_last(), "more is asked for than the segment has");
	tap_ok(test_unknown(), "segments that are gone, open or too short");
	tap_ok(test_place(), "where a segment is");
	tap_ok(test_retired(), "a segment is retired under a request");
	tap_ok(test_choice(), "this host first, then the fastest");
	tap_ok(test_late(), "a late replica: the next is asked as well");
	tap_ok(test_all_late(), "all replicas are late");
	tap_ok(test_late_once(), "a late backup is not asked until it has answered");
	tap_ok(test_hang(&three), "backups that hang leave buffers for others");
	tap_ok(test_hang_at_once(&three, 1), "the same at once, small requests");
	tap_ok(test_hang_at_once(&three, 2 * LSMEM_SEGLET_BYTES / LSMEM_BLOCK), "the same at once, larger ones");
	tap_ok(test_hang_at_once(&three, 0), "the same at once, segments");
	tap_ok(test_damaged(false), "a damaged replica: another answers, and it is restored");
	tap_ok(test_damaged(true), "a read that fails once: another answers, and nothing is restored");
	tap_ok(test_nowhere(&one), "no backup has it whole");
	tap_ok(test_nowhere(&three), "none of three backups has it whole");
	tap_ok(test_again(), "no memory: again after a pause");
	tap_ok(test_forgotten(), "requests that the kernel does not need any more");
	tap_ok(test_killed(&one), "the daemon is killed with requests under way");
	tap_ok(test_killed(&three), "the same, with three backups");
	tap_ok(test_killed(&coded[1]), "the same, of a coded store");
	tap_ok(test_lost(&three), "a backup is lost with requests under way");
	tap_ok(test_lost(&coded[0]) && test_lost(&coded[1]), "the same, of coded stores");
	tap_ok(test_bounds(), "reads in flight are bounded, more so while there are writes");
	tap_ok(test_fair(), "no reader and no cleaner is kept waiting by others");
	tap_ok(test_cut(&one), "nothing from behind the cut of a segment");
	tap_ok(test_cut(&coded[0]), "the same, of a coded store");
	tap_ok(test_merged(), "what lies close together is one read");
	tap_ok(test_merged_segments(), "what lies in two segments is two");
	tap_ok(test_merged_failed(&one), "a read of several fails: each is read alone");
	tap_ok(test_merged_failed(&three), "the same, with three backups");
	tap_ok(test_merged_late(), "a read of several is late");
	tap_ok(test_merged_forgotten(), "a read of several that are not all wanted, or by no one");
	tap_ok(test_random(), "random runs");
	for (i = 0; i < sizeof(coded) / sizeof(coded[0]); i++) {
		tap_ok(test_all(&coded[i]), "%u+%u: objects of all lengths, and segments", coded[i].k, coded[i].m);
		tap_ok(test_direct(&coded[i]), "%u+%u: an object is read from the shard that has it", coded[i].k, coded[i].m);
		for (fault = 0; fault < FAULTS; fault++)
			tap_ok(test_subsets(&coded[i], fault), "%u+%u: all sets of backups %s", coded[i].k, coded[i].m,
			       faults[fault]);
		tap_ok(test_blocks(&coded[i]), "%u+%u: bad blocks are passed over, and made anew", coded[i].k, coded[i].m);
		tap_ok(test_scattered(&coded[i], false) && test_scattered(&coded[i], true),
		       "%u+%u: blocks of more shards are bad, but not in one row", coded[i].k, coded[i].m);
		tap_ok(test_avoided(&coded[i]), "%u+%u: a late backup is not asked again", coded[i].k, coded[i].m);
		tap_ok(test_hang(&coded[i]), "%u+%u: backups that hang leave buffers for others", coded[i].k, coded[i].m);
	}
	for (i = 0; i < sizeof(half) / sizeof(half[0]); i++) {
		tap_ok(test_all(&half[i]), "half %u+%u: objects of all lengths, and segments", half[i].k, half[i].m);
		for (fault = 0; fault < FAULTS; fault++)
			tap_ok(test_half(&half[i], fault), "half %u+%u: all sets of up to %u backups %s", half[i].k,
			       half[i].m, half[i].m, faults[fault]);
		tap_ok(test_half_retired(&half[i], false) && test_half_retired(&half[i], true),
		       "half %u+%u: a segment is retired under requests, and its objects have the other kind", half[i].k,
		       half[i].m);
		tap_ok(test_lost(&half[i]), "half %u+%u: a backup is lost with requests under way", half[i].k, half[i].m);
		tap_ok(test_killed(&half[i]), "half %u+%u: the daemon is killed with requests under way", half[i].k,
		       half[i].m);
	}
	tap_ok(test_hang(&half[0]), "half %u+%u: a backup that hangs leaves buffers of both kinds for others", half[0].k,
	       half[0].m);
	tap_ok(test_random_half(), "half coded: random runs");
	tap_ok(test_without(STRIPE_RULE_READ_CUT, test_cut), "without READ_CUT this is noticed");
	tap_ok(test_without(STRIPE_RULE_READ_CHECKED, test_blocks), "without READ_CHECKED this is noticed");
	tap_ok(test_without(STRIPE_RULE_TABLE_BLOCK, test_blocks), "without TABLE_BLOCK this is noticed");
	return tap_end();
}
