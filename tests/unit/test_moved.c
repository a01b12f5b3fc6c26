// SPDX-License-Identifier: GPL-2.0
/*
 * Whole moves: a store with its core on simulated drives (sim.h) moves by daemon/move/source.h, over both ends of a
 * connection, to a target that recovers what it was told. What was acknowledged is there afterwards, whatever fails: on the
 * target with all that the source ever had, or on the source, which serves it again.
 *
 *	build/test_moved [--seed N]
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "move/directory.h"
#include "move/known.h"
#include "move/source.h"
#include "moves.h"
#include "placed.h"
#include "sim.h"
#include "../common/tap.h"

uint64_t lsmem_mutation;

static const struct sim_options one = { .frames = 24, .size = 1, .steps = 100, .tiered = true };
static const struct sim_options three = {
	.frames = 24, .size = 1, .steps = 100, .tiered = true, .backups = 3, .min_replicas = 2,
};

/**
 * struct words - of a segment of the model, what the kernel keeps for LSMEM_REPL_WORDS
 * @id: of the segment
 * @told: entries that were told
 * @home: where the last of them ends, at home
 * @changed: it is to be told
 * @closed: it was seen to be
 * @cold: its objects have been evicted
 */
struct words {
	uint64_t id;
	uint32_t told, home;
	bool changed, closed, cold;
};

/**
 * struct life - of a store that moves
 * @frozen: by the kernel; @asked: the kernel was asked
 * @ahead: words are placed ahead, in @target_kernel
 * @directory: segment that is being read; 0: none
 * @revision: of the owner's key in etcd; @seen: by the source's daemon
 * @term: of the store in etcd
 * @ready: what the target has to take
 * @withdraws: the source's daemon wants its consent to be void
 * @looks: .. to know which host has the store
 * @cuts: percent of the steps of the network that cut it
 */
static struct life {
	struct sim *sim;
	struct source source;
	struct move_store store;
	struct words words[MODEL_SEGMENTS];
	struct known *known;
	struct placing *placing;
	bool ahead;
	struct lsmem_listing listings[LISTINGS_MAX];
	struct move_ready ready;
	bool asked, frozen, withdraws, looks;
	uint64_t directory, revision, seen, term;
	uint32_t cuts;
	const char *wrong;
} life;

static struct placed target_kernel;

static struct count {
	uint64_t moved, ahead, back, stale, killed, lost, places, directories, objects;
} count;

static bool chance(uint32_t percent)
{
	return random_chance(&life.sim->random, percent);
}

/* ---- The kernel -------------------------------------------------------------- */

static struct words *words_of(const struct model_segment *seg)
{
	struct words *words = &life.words[seg - life.sim->model->segments];

	if (words->id != seg->id)
		*words = (struct words){ .id = seg->id };
	if (seg->life == MODEL_CLOSED && !words->closed)
		words->closed = words->changed = true;
	if (seg->life == MODEL_CLOSED && seg->close_acked && seg->id % 3 == 0 && !words->cold) {
		words->cold = words->changed = true;
		words->told = words->home = 0;
	}
	return words;
}

static bool is_live(const struct model_segment *seg, uint32_t n)
{
	const struct model_handle *handle =
		&life.sim->model->handles[lsmem_handle_index(seg->entries[n].key) % MODEL_HANDLES];

	return seg->entries[n].type == LSMEM_TYPE_OBJECT && handle->live && handle->entry == n &&
	       handle->segment == seg - life.sim->model->segments;
}

static uint64_t place_of(const struct model_segment *seg, uint32_t n)
{
	const struct model_entry *e = &seg->entries[n];

	if (e->type == LSMEM_TYPE_TOMBSTONE)
		return e->barrier;
	if (words_of(seg)->cold)
		return LSMEM_PLACE_COLD;
	return (uint64_t)seg->seglets[e->at / LSMEM_SEGLET_BYTES] << LSMEM_POSITION_OFFSET_BITS |
	       e->at % LSMEM_SEGLET_BYTES / LSMEM_ALIGN;
}

/* Of an object the place at home is told; of a tombstone its block. */
static struct lsmem_listing listing_of(const struct model_segment *seg, uint32_t n, uint32_t from)
{
	const struct model_entry *e = &seg->entries[n];
	uint32_t block = e->at & ~(LSMEM_BLOCK - 1), home = e->at;
	struct lsmem_directory_entry listing;
	struct lsmem_entry entry;

	model_copy(life.sim->model, seg, e->at, &entry, sizeof(entry));
	if (e->type == LSMEM_TYPE_TOMBSTONE)
		home = lsmem_entry_start(block > from ? block : from);
	listing = lsmem_entry_listing(&entry, home);
	return (struct lsmem_listing){
		listing.key, listing.version, listing.meta, __cpu_to_le64(place_of(seg, n)),
	};
}

static void list(struct model_segment *seg, struct lsmem_words *call)
{
	struct lsmem_listing *to = (struct lsmem_listing *)(uintptr_t)call->listings;
	struct words *words = words_of(seg);
	uint32_t room = call->nr < 20 ? call->nr : 20, n;

	call->segment = seg->id;
	call->generation = seg->generation;
	call->end = seg->committed;
	call->nr = 0;
	words->changed = false;
	for (; words->told < seg->nr_whole && call->nr < room; words->told++) {
		const struct model_entry *e = &seg->entries[words->told];

		if (e->type != LSMEM_TYPE_TOMBSTONE && (words->cold || !is_live(seg, words->told)))
			continue;
		to[call->nr++] = listing_of(seg, words->told, words->home);
		words->home = e->at + e->size;
	}
	if (words->told < seg->nr_whole) {
		call->state |= LSMEM_WORDS_MORE;
		words->changed = true;
	}
	for (n = 0; words->cold && n < seg->nr_whole; n++)
		call->cold += is_live(seg, n) ? seg->entries[n].length : 0;
}

static int places(struct lsmem_words *call)
{
	struct lsmem_listing *listings = (struct lsmem_listing *)(uintptr_t)call->listings;
	struct model *m = life.sim->model;
	struct model_segment *seg = NULL;
	uint32_t i, n;

	for (i = 0; i < MODEL_SEGMENTS; i++)
		if (m->segments[i].life && m->segments[i].id == call->segment)
			seg = &m->segments[i];
	if (!seg)
		return -ENOENT;
	for (i = 0; i < call->nr; i++) {
		uint64_t key = __le64_to_cpu(listings[i].key), version = __le64_to_cpu(listings[i].version);

		listings[i].place = __cpu_to_le64(LSMEM_PLACE_NONE);
		for (n = 0; n < seg->nr_whole; n++)
			if (is_live(seg, n) && seg->entries[n].key == key && seg->entries[n].version == version)
				listings[i].place = __cpu_to_le64(place_of(seg, n));
	}
	count.places += call->nr;
	call->generation = seg->generation;
	call->end = seg->committed;
	return 0;
}

static bool is_told(const struct model_segment *seg)
{
	return seg->life == MODEL_CLOSED || seg->life == MODEL_HEAD;
}

static int do_words(struct source *source, struct lsmem_words *call)
{
	struct model *m = life.sim->model;
	struct model_segment *seg = NULL;
	uint32_t i;

	(void)source;
	if (call->flags & LSMEM_WORDS_PLACES)
		return places(call);
	for (i = 0; i < MODEL_SEGMENTS; i++) {
		if (!is_told(&m->segments[i]))
			continue;
		if (call->flags & LSMEM_WORDS_BEGIN) {
			words_of(&m->segments[i])->changed = true;
			words_of(&m->segments[i])->told = words_of(&m->segments[i])->home = 0;
		}
		if (words_of(&m->segments[i])->changed)
			seg = &m->segments[i];
	}
	for (i = 0; i < MODEL_SEGMENTS && !seg; i++)
		if (m->segments[i].life == MODEL_HEAD && words_of(&m->segments[i])->told < m->segments[i].nr_whole)
			seg = &m->segments[i];
	if (seg)
		list(seg, call);
	else
		call->nr = 0;
	for (i = 0; i < MODEL_SEGMENTS; i++)
		call->left += is_told(&m->segments[i]) && words_of(&m->segments[i])->changed;
	return 0;
}

/* Clients end what they have begun, the cleaner too; then each head with data is closed. */
static int do_freeze(struct source *source, uint64_t *objects)
{
	struct model *m = life.sim->model;
	uint32_t head, i;

	(void)source;
	life.asked = true;
	while (m->nr_pending)
		model_finish(m, 0);
	model_pass_step(m, UINT32_MAX);
	for (head = 0; head < MODEL_HEADS && !m->pass.under_way; head++)
		if (m->heads[head] && m->segments[m->heads[head] - 1].reserved && !model_roll(m, head))
			return 0;
	life.frozen = !m->pass.under_way;
	for (*objects = i = 0; i < MODEL_HANDLES; i++)
		*objects += m->handles[i].live;
	return life.frozen;
}

static int do_thaw(struct source *source)
{
	(void)source;
	life.asked = life.frozen = false;
	return 0;
}

/* ---- The source's daemon ------------------------------------------------------- */

/* As sim_events(), for a source as well. Return: how many there were. */
static uint32_t events(void)
{
	struct lsmem_event taken[SIM_EVENTS];
	struct sim *sim = life.sim;
	uint32_t room = core_room(sim->core), nr, i;

	if (core_state(sim->core) == CORE_FAILED)
		return 0;
	nr = model_next(sim->model, taken, room < SIM_EVENTS ? room : SIM_EVENTS);
	core_clock(sim->core, sim->model->generation_wanted, sim->model->clock, sim->model->next_segment);
	for (i = 0; i < nr && core_state(sim->core) != CORE_FAILED; i++) {
		core_event(sim->core, &taken[i]);
		if (taken[i].type == LSMEM_EVENT_RETIRE)
			source_retired(&life.source, taken[i].segment);
	}
	sim_issue(sim);
	return nr;
}

/* The model tells an event or not, as it likes: it is asked often. */
static bool do_drained(struct source *source, uint64_t *digest)
{
	struct core_stats stats;
	uint32_t nr = 0, i;

	(void)source;
	for (i = 0; i < 20; i++) {
		nr += events();
		sim_acks(life.sim);
	}
	core_stats(life.sim->core, &stats);
	*digest = stats.sequence;
	return !nr && core_settled(life.sim->core);
}

static void do_directory(struct source *source, uint64_t segment)
{
	(void)source;
	life.directory = segment;
}

/* Read a directory; some reads fail. */
static void answer_directory(void)
{
	struct sim *sim = life.sim;
	struct directory d = {
		.core = sim->core, .indices = life.store.indices, .listings = life.listings,
		.bytes = aligned_alloc(LSMEM_BLOCK, LSMEM_SEGMENT_BYTES),
	};
	uint32_t nr = 0;
	int ret = directory_begin(&d, life.directory);

	life.directory = 0;
	while (ret > 0) {
		disk_read(sim->disk, sim->drive[d.backup] * sim->span + d.offset, d.bytes, d.length);
		ret = directory_read(&d, sim->options.backups > 1 && d.tried < 4 && chance(20) ? -EIO : 0, &nr);
	}
	free(d.bytes);
	count.directories += !ret;
	source_directory(&life.source, life.listings, nr, ret);
}

static bool do_holds(struct source *source)
{
	return life.term == source->moves.store->term;
}

static bool do_consent(struct source *source, uint64_t *revision)
{
	(void)source;
	*revision = life.seen;
	return true;
}

static bool do_withdraw(struct source *source)
{
	life.withdraws = life.seen == source->moves.revision;
	return !life.withdraws;
}

static void do_look(struct source *source)
{
	(void)source;
	life.looks = true;
}

/* The thread that talks to etcd. */
static void etcd(void)
{
	if (life.withdraws && life.term == life.store.term)
		life.seen = ++life.revision;
	life.withdraws = false;
	if (!life.looks)
		return;
	life.looks = false;
	source_owner(&life.source, life.term == life.store.term ? "A" : "B", life.term);
}

static struct source_user user = {
	.freeze = do_freeze, .thaw = do_thaw, .words = do_words, .directory = do_directory, .drained = do_drained,
	.holds = do_holds, .consent = do_consent, .withdraw = do_withdraw, .look = do_look,
};

static void end_begin(const char *host)
{
	struct source_store store = { .store = &life.store, .key = &moves_key, .here = "A", .host = host };

	user.slots = moves_user.slots;
	user.send = moves_user.send;
	user.room = moves_user.room;
	user.end = moves_user.end;
	user.let_go = moves_user.let_go;
	user.keys = moves_user.keys;
	source_begin(&life.source, &user, &store, world.now_ns);
}

static bool end_connect(struct move_peer *peer, const struct session_setup *setup)
{
	return source_connect(&life.source, peer, setup);
}

static void end_tick(uint64_t now_ns)
{
	source_tick(&life.source, now_ns);
}

static void end_run(void)
{
	source_run(&life.source);
}

static const struct moves_end end = { end_begin, end_connect, source_gone, end_tick, end_run };

/* ---- The target's daemon ----------------------------------------------------------- */

static int end_know(const struct ahead_head *block)
{
	int ret = known_block(life.known, block);

	if (!ret && life.placing && chance(30))
		ret = placing_run(life.placing, random_below(&life.sim->random, 50));
	return ret;
}

static void connect_target(void)
{
	placing_free(life.placing);
	known_free(life.known);
	life.known = known_new(MODEL_HANDLES, MODEL_SEGMENTS);
	placed_begin(&target_kernel, life.sim->options.frames * life.sim->options.backups + 1);
	life.placing = life.ahead ? placing_new(life.known, &placed_user, &target_kernel) : NULL;
	moves_call(0, "B", 0);
}

/* Return: true: the target has the store by the source's consent. */
static bool takes(void)
{
	const struct move_ready *ready = &links[0].ready;

	if (ready->term)
		life.ready = *ready;
	if (life.ready.term != life.term || life.ready.revision != life.revision)
		return false;
	life.term++;
	life.revision++;
	move_target_taken(&links[0].target, life.term);
	return true;
}

/* ---- A life -------------------------------------------------------------------------- */

static bool begin(uint64_t seed, const struct sim_options *options)
{
	struct core_stats stats;
	uint32_t i;

	for (i = 0; i < LINKS; i++)
		moves_cut(&links[i]);
	sim_free(life.sim);
	placing_free(life.placing);
	known_free(life.known);
	memset(&life, 0, sizeof(life));
	life.sim = sim_new(seed, options);
	life.ahead = chance(50);
	CHECK(sim_start(life.sim, false));
	core_stats(life.sim->core, &stats);
	life.store = (struct move_store){
		.name = "data", .term = stats.term, .indices = MODEL_HANDLES, .seglets = SEGLETS,
	};
	memcpy(life.store.uuid, life.sim->geometry.uuid, sizeof(life.store.uuid));
	life.term = life.store.term;
	life.revision = life.seen = REVISION;
	moves_has = &life.store;
	moves_end = &end;
	moves_start(NULL);
	world.blocks = 0;
	world.know = end_know;
	return true;
}

/* Clients, cleaner, the daemon's loop and drives. Entries stay where they are at home: there is no compaction. */
static void store_step(void)
{
	struct sim *sim = life.sim;
	uint64_t *random = &sim->random;
	uint32_t in_flight = disk_in_flight(sim->disk), what = random_below(random, 100);

	if (what < 30) {
		if (!life.asked)
			model_operate(sim->model);
	} else if (what < 45) {
		(void)events();
	} else if (what < 75) {
		if (in_flight)
			sim_complete(sim, random_below(random, in_flight));
	} else if (what < 88) {
		sim_acks(sim);
	} else if (what < 92) {
		if (!source_ticks(&life.source))
			return;
		core_tick(sim->core);
		sim_issue(sim);
	} else if (what < 94) {
		if (!life.asked)
			model_roll(sim->model, random_below(random, MODEL_HEADS));
	} else if (what < 96) {
		if (!life.asked && !sim->model->pass.under_way)
			(void)sim_clean(sim);
	} else if (!life.asked || what < 98) {
		model_pass_step(sim->model, 1 + random_below(random, 20));
	}
}

static void step(void)
{
	uint32_t what = random_below(&life.sim->random, 100);

	if (what < 45)
		store_step();
	else if (what < 60)
		(void)moves_to_source(&links[0]);
	else if (what < 75)
		(void)moves_to_target(&links[0]);
	else if (what < 90)
		(void)moves_read(&links[0]);
	else if (what < 94 && life.directory)
		answer_directory();
	else if (what < 96)
		moves_pass(chance(10));
	else if (what < 98)
		etcd();
	else if (chance(life.cuts))
		moves_cut(&links[0]);
	if (!links[0].connected || links[0].peer_ended || links[0].target_ended) {
		if (links[0].ready.term)
			life.ready = links[0].ready;
		moves_cut(&links[0]);
		if (chance(5) && life.source.state == SOURCE_SERVES)
			connect_target();
	}
	source_run(&life.source);
}

static bool is_keyed(void)
{
	return links[0].keyed;
}

/* What must hold at each step. */
static bool is_right(void)
{
	bool can = life.ready.term == life.term && life.ready.revision == life.revision;

	CHECK(!life.sim->error[0] && !life.sim->model->error[0] && !world.broken);
	CHECK(!is_keyed() || life.frozen);
	CHECK(!can || life.asked);
	CHECK(!links[0].ready.term || links[0].ready.term == life.store.term);
	return true;
}

/* All that the source had is there: more than what it has acknowledged. */
static bool has_all(const struct model_handle *handles)
{
	uint32_t i;

	for (i = 0; i < MODEL_HANDLES; i++) {
		const struct model_handle *is = &life.sim->model->handles[i];

		CHECK(is->live == handles[i].live);
		if (!is->live)
			continue;
		CHECK(is->version == handles[i].version && is->generation == handles[i].generation &&
		      is->length == handles[i].length);
		count.objects++;
	}
	return true;
}

/* The store lives on where it is, and its next recovery finds what it has acknowledged. */
static bool goes_on(void)
{
	struct sim *sim = life.sim;
	uint32_t i;

	for (i = 0; i < 300; i++)
		sim_step(sim);
	CHECK(!sim->error[0]);
	sim_cut(sim, random_below(&sim->random, DISK_CUT_KINDS));
	sim->told = NULL;
	CHECK(sim_start(sim, false));
	return true;
}

/* The target has taken the store. @loses: a backup is lost between READY and its recovery. */
static bool arrives(bool loses)
{
	struct sim *sim = life.sim;
	struct model_handle handles[MODEL_HANDLES];
	struct recover_told told;
	uint32_t i;

	memcpy(handles, sim->model->handles, sizeof(handles));
	CHECK(!disk_in_flight(sim->disk) && oracle_all_acked(sim->model));
	if (loses) {		/* no request is in flight to it: the daemon finds that it is gone */
		core_lose(sim->core, random_below(&sim->random, 3), "a test");
		sim_issue(sim);
		for (i = 0; i < 100; i++) {
			while (disk_in_flight(sim->disk))
				sim_complete(sim, 0);
			sim_acks(sim);
		}
	}
	sim_cut(sim, random_below(&sim->random, DISK_CUT_KINDS));
	known_told(life.known, life.ready.term, life.ready.digest, life.ready.objects, &told);
	if (life.placing) {
		CHECK(!placing_finish(life.placing) && !target_kernel.wrong);
		placing_told(life.placing, &told);
		placed_env(&target_kernel, &sim->env);
		count.ahead++;
	}
	sim->told = &told;
	sim->nr_damage = 0;
	if (loses) {
		CHECK(sim_attempt(sim) == -ESTALE && !sim->nr_damage);
		sim->told = NULL;
		placed_env(NULL, &sim->env);
		CHECK(sim_start(sim, false));
		count.stale++;
	} else {
		CHECK(!sim_attempt(sim) && !sim->nr_damage && !sim->error[0]);
	}
	placed_env(NULL, &sim->env);
	CHECK(has_all(handles));
	count.moved++;
	for (i = 0; i < 10; i++) {
		etcd();
		moves_pass(1);
	}
	CHECK(life.source.state == SOURCE_KEEPS && life.frozen);
	if (links[0].connected) {
		move_target_close(&links[0].target, life.term);
		moves_settle();
		etcd();
		moves_settle();
		CHECK(life.source.state == SOURCE_CLOSED && links[0].closed && !is_keyed());
	}
	return goes_on();
}

/* The source's daemon is killed; the next one claims the store, and finds it in its kernel. */
static bool killed(void)
{
	moves_cut(&links[0]);
	sim_kill(life.sim);
	CHECK(!life.sim->error[0]);
	life.store.term = ++life.term;
	life.revision++;
	(void)do_thaw(NULL);
	CHECK(!takes());
	count.killed++;
	return goes_on();
}

/*
 * What becomes of a move: nothing special; the target is too late; the source's daemon is killed; a backup is lost before
 * READY, or after it.
 */
enum fate { FATE_MOVES, FATE_LATE, FATE_KILLED, FATE_LOSES, FATE_STALE, FATES };

static bool lives(uint64_t seed)
{
	uint32_t i, wait, lost = 0;
	enum fate fate;

	CHECK(begin(seed, seed % 2 ? &one : &three));
	fate = random_below(&life.sim->random, FATES);
	if (seed % 2 && fate >= FATE_LOSES)
		fate = FATE_MOVES;
	life.cuts = chance(30) ? 20 : 0;
	wait = random_below(&life.sim->random, 2000);
	for (i = 0; i < 200000; i++) {
		step();
		CHECK(is_right());
		if (i > wait && links[0].connected && chance(5))
			(void)move_target_move(&links[0].target);
		if (fate == FATE_KILLED && life.asked && chance(2))
			return killed();
		if (fate == FATE_LOSES && life.asked && life.source.state < SOURCE_WAITS && chance(1) && !lost)
			count.lost += lost = sim_lose(life.sim);
		if (life.ready.term || links[0].ready.term) {
			if (fate == FATE_LATE && life.source.state != SOURCE_SERVES)
				continue;	/* the source takes its consent back */
			if (takes())
				return arrives(fate == FATE_STALE);
			CHECK(life.source.state != SOURCE_WAITS || !links[0].ready.term);
			CHECK(life.asked == (life.source.state != SOURCE_SERVES));
			for (; life.asked; i++) {
				CHECK(i < 200000);
				step();
			}
			count.back++;
			return goes_on();
		}
	}
	CHECK(!"the store moves in time");
	return false;
}

static bool all(uint64_t first, uint64_t nr)
{
	uint64_t seed;

	for (seed = first; seed < first + nr; seed++)
		if (!lives(seed)) {
			tap_note("seed %llu, state %d: %s %s", (unsigned long long)seed, life.source.state,
				 life.sim->error, life.sim->model->error);
			return false;
		}
	tap_note("%llu moved, %llu of them with words placed ahead, %llu from the backups, %llu taken back, %llu killed, %llu lost a backup before READY",
		 (unsigned long long)count.moved, (unsigned long long)count.ahead, (unsigned long long)count.stale, (unsigned long long)count.back,
		 (unsigned long long)count.killed, (unsigned long long)count.lost);
	tap_note("%llu objects, %llu directories, %llu places", (unsigned long long)count.objects,
		 (unsigned long long)count.directories, (unsigned long long)count.places);
	CHECK(nr == 1 || (count.moved > nr / 4 && count.ahead > nr / 8 && count.stale && count.back && count.killed && count.lost &&
			  count.directories > nr / 4));
	return true;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc == 3 && !strcmp(argv[1], "--seed") ? strtoull(argv[2], NULL, 0) : 0;

	tap_ok(seed ? all(seed, 1) : all(1, 200), "whole moves");
	sim_free(life.sim);
	placing_free(life.placing);
	known_free(life.known);
	return tap_end();
}
