// SPDX-License-Identifier: GPL-2.0
/*
 * The order of a move at its source: daemon/move/source.h, against real ends of connections (moves.h), and a kernel, an
 * etcd and targets' daemons that are simulated here. Random lives; what must always hold is looked at after each step.
 *
 *	build/test_source [--seed N]
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "move/source.h"
#include "moves.h"
#include "../common/random.h"
#include "../common/tap.h"

#define LEASE_NS	(15 * SECOND)
#define TRUST_NS	(12 * SECOND)	/* the owner stops before etcd lets another one in */
#define TARGETS		3u
#define NAMES		"ABCD"

/**
 * struct target - a host that wants the store, has it, or had it
 * @ready: READY that it has, and has not answered by its transaction; @term 0: none
 * @term: with which it has the store; 0: it has not
 * @had: it has it, or had it
 * @consented: it took the store by the source's consent
 * @closed: it needs the source no more
 */
struct target {
	struct move_ready ready;
	uint64_t term;
	bool had, consented, closed;
};

/**
 * struct etcd - as etcd has it
 * @term: of the store
 * @host: that took it
 * @revision: of the owner's key; 0: there is none
 * @seen: by the source's daemon
 * @renewed_ns: when the source's lease was renewed last
 * @away: from the source
 * @cut: the source's key is attached to a lease that is not renewed
 * @lost: the source's daemon knows that it has lost it
 * @wants_void: the source's daemon has asked for it
 * @read_term: what a look has read, and not told yet; 0: nothing. @read_host: likewise
 */
struct etcd {
	uint64_t term, revision, seen, renewed_ns, changes;
	char host[2], read_host[2];
	bool away, cut, lost, wants_void, looks;
	uint64_t read_term;
};

/**
 * struct kernel - the source's
 * @asked: to freeze; clients are not served
 * @left: until it is frozen, once it is asked
 * @frozen: it has said so
 * @changed: segments that are to be told
 * @events: in the stream
 * @unsettled: requests of core until it is settled
 * @digest: newest
 * @busy: a range of pages is open
 * @fails: @thaw returns this
 */
struct kernel {
	bool asked, frozen, busy;
	uint32_t left, changed, events, unsettled;
	uint64_t digest;
	int fails;
};

/**
 * struct life - of a source, from its beginning to its end
 * @directory: segment that is being read
 * @readings: directories that were asked for and not read yet
 * @told: READYs with a consent
 * @faults: percent of the faults that could happen
 * @third: a host took the store that has nothing to do with the move
 * @wrong: what did not hold; NULL: all has
 */
static struct life {
	uint64_t random;
	struct source source;
	struct kernel kernel;
	struct etcd etcd;
	struct target targets[TARGETS];
	uint64_t directory;
	uint32_t readings, told, faults;
	bool third;
	const char *wrong;
} life;

/* Over all lives: that they have what they are for. */
static struct count {
	uint64_t moved, voided, ended, asked, closed, third, again, thawed, directories, drained_again;
} count;

static bool chance(uint32_t percent)
{
	return random_chance(&life.random, percent);
}

/* A fault happens. */
static bool fault(uint32_t percent)
{
	return chance(life.faults) && chance(percent);
}

static void wrong(const char *what)
{
	if (!life.wrong)
		life.wrong = what;
}

/* ---- The source's daemon -------------------------------------------------------- */

static int do_freeze(struct source *source, uint64_t *objects)
{
	struct kernel *k = &life.kernel;

	(void)source;
	*objects = 0;
	if (k->busy) {
		k->asked = k->frozen = false;
		return -EBUSY;
	}
	if (!k->asked)
		k->left = random_below(&life.random, 4);
	k->asked = true;
	if (k->left) {
		k->left--;
		return 0;
	}
	if (!k->frozen) {	/* open segments are closed */
		k->events += 1 + random_below(&life.random, 3);
		k->changed += random_below(&life.random, 3);
	}
	k->frozen = true;
	*objects = OBJECTS;
	return 1;
}

static int do_thaw(struct source *source)
{
	(void)source;
	if (life.kernel.fails)
		return life.kernel.fails;
	life.kernel.asked = life.kernel.frozen = false;
	count.thawed++;
	return 0;
}

static int do_words(struct source *source, struct lsmem_words *words)
{
	struct kernel *k = &life.kernel;

	(void)source;
	if (words->flags & LSMEM_WORDS_BEGIN)
		k->changed += 12;
	words->nr = 0;
	words->left = k->changed;
	if (!k->changed)
		return 0;
	words->segment = 1 + random_below(&life.random, 100);
	words->generation = 1;
	words->left = --k->changed;
	words->cold = chance(20);
	return 0;
}

static void do_directory(struct source *source, uint64_t segment)
{
	(void)source;
	if (life.directory)
		wrong("two directories are read at a time");
	life.directory = segment;
	life.readings++;
}

static bool do_drained(struct source *source, uint64_t *digest)
{
	struct kernel *k = &life.kernel;
	bool some = k->events;

	if (!k->frozen)
		wrong("the stream of a store that is not frozen is taken for empty");
	if (some) {
		if (chance(50))
			source_retired(source, 1 + random_below(&life.random, 100));
		k->unsettled += k->events;
		k->events = 0;
	}
	*digest = k->digest;
	return !some && !k->unsettled;
}

static bool do_holds(struct source *source)
{
	const struct etcd *e = &life.etcd;

	(void)source;
	return !e->lost && world.now_ns < e->renewed_ns + TRUST_NS;
}

static bool do_consent(struct source *source, uint64_t *revision)
{
	(void)source;
	*revision = life.etcd.seen;
	return life.etcd.seen;
}

/* As cluster_void(): for the revision of the consent. */
static bool do_withdraw(struct source *source)
{
	if (life.etcd.seen != source->moves.revision)
		return true;
	life.etcd.wants_void = true;
	return false;
}

static void do_look(struct source *source)
{
	(void)source;
	if (life.etcd.looks)
		wrong("etcd is asked twice at a time");
	life.etcd.looks = true;
}

static uint32_t link_of(const struct move_peer *peer)
{
	return (uint32_t)((const struct link *)((const char *)peer - offsetof(struct link, peer)) - links);
}

/* KEYS_AT_READY, FREEZE, DRAIN, DELTA; or keys again, KEYS_TO_OWNER. */
static int do_keys(struct move_peer *peer, struct move_keys *keys)
{
	const struct kernel *k = &life.kernel;
	const struct move_source *moves = &life.source.moves;

	if (!k->frozen || k->events || k->unsettled)
		wrong("keys to a store that is not frozen, or not durable");
	if (moves->phase == MOVE_STOPS) {
		if (k->changed || !tell_is_all(&life.source.tell))
			wrong("READY, and not all was told");
		if (moves->digest != k->digest || moves->revision != life.etcd.seen || moves->objects != OBJECTS)
			wrong("READY of another digest or revision, or of other objects");
		life.told += !world.keys_fail;
	} else if (life.etcd.term <= TERM || strcmp(life.etcd.host, peer->session.hello.who)) {
		/* what etcd has said may be of a time before that */
		if (!life.targets[link_of(peer)].had)
			wrong("keys for a host that never had the store");
	}
	return moves_user.keys(peer, keys);
}

static const struct source_user user = {
	.freeze = do_freeze, .thaw = do_thaw, .words = do_words, .directory = do_directory, .drained = do_drained,
	.holds = do_holds, .consent = do_consent, .withdraw = do_withdraw, .look = do_look,
};

static struct source_user whole;

static void end_begin(const char *host)
{
	struct source_store store = { .store = moves_has, .key = &moves_key, .here = "A", .host = host };

	whole = user;
	whole.slots = moves_user.slots;
	whole.send = moves_user.send;
	whole.room = moves_user.room;
	whole.end = moves_user.end;
	whole.let_go = moves_user.let_go;
	whole.keys = do_keys;
	source_begin(&life.source, &whole, &store, world.now_ns);
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

static int end_know(const struct ahead_head *block)
{
	(void)block;
	return 0;
}

/* ---- etcd ------------------------------------------------------------------------- */

static void etcd_set(const char *host, uint64_t term)
{
	life.etcd.host[0] = *host;
	life.etcd.term = term;
	life.etcd.revision = ++life.etcd.changes;
}

static bool is_owner(void)
{
	return life.etcd.term == TERM && life.etcd.revision;
}

/* The thread of the source's daemon: it takes the consent back, and renews. */
static void renew(void)
{
	struct etcd *e = &life.etcd;

	if (e->away || e->lost || !is_owner() || e->cut)
		return;
	if (e->wants_void && e->revision == e->seen)
		e->revision = ++e->changes;
	e->wants_void = false;
	if (chance(80)) {
		e->seen = e->revision;
		e->renewed_ns = world.now_ns;
	}
}

/* It finds that another host has the store, or is about to. */
static void finds_out(void)
{
	if (!life.etcd.away && (!is_owner() || life.etcd.cut))
		life.etcd.lost = true;
}

static void answer_look(bool at_once)
{
	struct etcd *e = &life.etcd;
	char host[2];
	uint64_t term;

	if (e->looks && !e->read_term && !e->away) {
		e->read_term = e->term;
		memcpy(e->read_host, e->host, 2);
		if (!at_once)
			return;
	}
	if (!e->read_term)
		return;
	term = e->read_term;
	memcpy(host, e->read_host, 2);
	e->read_term = 0;
	e->looks = false;
	source_owner(&life.source, fault(20) ? "" : host, term);
}

/* Time of etcd: leases end. */
static void etcd_passes(void)
{
	struct etcd *e = &life.etcd;

	if (is_owner() && world.now_ns >= e->renewed_ns + LEASE_NS && !do_holds(NULL))
		e->revision = 0;
}

static const char *name_of(uint32_t target)
{
	static const char names[][2] = { "B", "C", "D" };

	return names[target];
}

/* The transaction of a target that has READY. */
static void takes(uint32_t t)
{
	struct target *target = &life.targets[t];
	struct link *link = &links[t];

	if (!target->ready.term)
		return;
	if (life.etcd.term == target->ready.term && life.etcd.revision == target->ready.revision) {
		etcd_set(name_of(t), TERM + 1);
		target->term = TERM + 1;
		target->consented = target->had = true;
		count.moved++;
		if (link->connected && link->ready.revision)
			move_target_taken(&link->target, target->term);
	}
	target->ready.term = 0;
}

/* A host that has nothing to do with the move takes the store, when there is no owner; or the owner's next daemon does. */
static void claims(void)
{
	uint32_t t;

	if (is_owner())
		return;
	for (t = 0; t < TARGETS; t++)
		if (life.targets[t].term == life.etcd.term && chance(60)) {
			etcd_set(name_of(t), ++life.targets[t].term);
			return;
		}
	if (life.etcd.term == TERM && life.etcd.revision)
		return;
	for (t = 0; t < TARGETS; t++)
		life.targets[t].term = 0;
	life.third = true;
	etcd_set("E", life.etcd.term + 1);
}

/* ---- What must always hold --------------------------------------------------------- */

/* A host can still take the store by what READY told it. */
static bool can_be_taken(void)
{
	return is_owner() && life.told && life.source.moves.revision == life.etcd.revision &&
	       life.source.moves.revision;
}

static void look_at(void)
{
	const struct move_source *moves = &life.source.moves;
	const struct kernel *k = &life.kernel;
	enum source_state state = life.source.state;
	uint32_t keyed = 0, i;

	for (i = 0; i < LINKS; i++) {
		if (!links[i].keyed)
			continue;
		keyed++;
		if (!k->asked || !k->frozen || strcmp(links[i].peer.session.hello.who, moves->host))
			wrong("a key is valid, and its memory is not frozen for its holder");
	}
	if (keyed > 1)
		wrong("two connections have keys");
	for (i = 0; i < TARGETS; i++)
		if (life.targets[i].consented && !k->asked)
			wrong("clients are served, and another host has the store");
	if (!k->asked && can_be_taken())
		wrong("clients are served, and a consent stands");
	if (state == SOURCE_SERVES && (k->asked || moves->phase > MOVE_STOPS))
		wrong("it serves, and the store is frozen");
	if (state == SOURCE_CLOSED && (keyed || life.etcd.term <= TERM))
		wrong("memory is freed too early");
	if (state == SOURCE_KEEPS && (!k->asked || life.etcd.term <= TERM))
		wrong("it keeps what it should serve");
	if (state == SOURCE_ENDED && !life.source.error && keyed)
		wrong("it ends, and a connection has keys");
	if (state == SOURCE_WAITS && moves->phase == MOVE_TOLD && moves->digest != k->digest)
		wrong("another digest than READY says");
	if (moves->chosen && !moves->chosen->over && (moves->phase == MOVE_STOPS || moves->phase == MOVE_TOLD) &&
	    world.now_ns > moves->since_ns + (2 + (moves->phase == MOVE_STOPS ? MOVE_READY_S : MOVE_TAKEN_S)) * SECOND)
		wrong("clients wait longer than the bound");
	if (world.broken)
		wrong("a rule of the connections is broken");
}

/* CLOSE counts only from the host that has the store, and a third host has it otherwise. */
static void look_at_end(void)
{
	const char *heir = life.source.moves.host;

	if (life.source.state != SOURCE_CLOSED)
		return;
	if (strcmp(life.etcd.host, heir) && strcmp(life.etcd.host, "E"))
		wrong("memory is freed, and its owner did not say CLOSE");
}

/* ---- Steps ----------------------------------------------------------------------------- */

/* A link: a target connects, reads, says what it has to say, or something else. */
static void target_step(uint32_t t)
{
	struct target *target = &life.targets[t];
	struct link *link = &links[t];

	if (!link->connected || link->target_ended) {
		moves_cut(link);
		if (chance(40)) {
			moves_call(t, name_of(t), target->term);
			count.again += target->term && link->connected;
		}
		return;
	}
	if (link->ready.term && link->ready.revision && !target->ready.term && !target->term &&
	    link->target.step == MOVE_HAS) {
		target->ready = link->ready;
		link->ready.revision = chance(50) ? link->ready.revision : 0;	/* it says no TAKEN */
		link->target.step = MOVE_HAS;
		return;
	}
	if (target->term && chance(30))
		move_target_close(&link->target, target->term);
	else if (fault(3))
		move_target_close(&link->target, TERM + 1);	/* before its time */
	else if (fault(3))
		move_target_taken(&link->target, TERM + 1);
	else if (!target->term && chance(20))
		(void)move_target_move(&link->target);
}

static void source_step(void)
{
	struct kernel *k = &life.kernel;
	uint32_t what = random_below(&life.random, 100);

	if (what < 30) {
		if (k->unsettled)
			k->unsettled--;
	} else if (what < 50) {
		if (!k->asked) {
			k->changed += k->changed < 40;
			k->events++;
		}
	} else if (what < 70) {
		if (!life.directory)
			return;
		life.directory = 0;
		count.directories++;
		source_directory(&life.source, NULL, 0, fault(10) ? -EIO : -ENOENT);
	} else if (what < 85) {
		k->digest += source_ticks(&life.source);	/* core_tick() */
	} else if (what < 87) {
		k->busy = !k->asked && !k->busy && fault(20);
	} else if (life.source.state == SOURCE_TELLS && fault(20)) {
		k->digest++;		/* a backup is lost */
		k->unsettled++;
		count.drained_again++;
	}
}

static void network_step(void)
{
	struct link *link = &links[random_below(&life.random, TARGETS)];
	uint32_t what = random_below(&life.random, 100);

	if (what < 40)
		(void)moves_to_source(link);
	else if (what < 80)
		(void)moves_to_target(link);
	else if (what < 97)
		(void)moves_read(link);
	else if (fault(20))
		moves_cut(link);
	if (link->connected && (link->peer_ended || link->target_ended) && !link->to_target.nr && chance(50))
		moves_cut(link);
}

static void second(void)
{
	uint32_t i;

	world.now_ns += SECOND;
	for (i = 0; i < LINKS; i++) {
		if (!links[i].connected)
			continue;
		if (links[i].peer_ended)	/* after a second, whatever is under way */
			moves_cut(&links[i]);
		else
			move_target_tick(&links[i].target, world.now_ns);
	}
	source_tick(&life.source, world.now_ns);
	etcd_passes();
	renew();
	if (chance(30))
		finds_out();
}

static void step(void)
{
	uint32_t what = random_below(&life.random, 1000);
	enum source_state before = life.source.state;

	if (what < 600)
		network_step();
	else if (what < 750)
		source_step();
	else if (what < 850)
		target_step(random_below(&life.random, TARGETS));
	else if (what < 880)
		takes(random_below(&life.random, TARGETS));
	else if (what < 910)
		answer_look(false);
	else if (what < 930)
		renew();
	else if (what < 935)
		finds_out();
	else if (what < 940 && fault(100))
		claims();
	else if (what < 942)
		life.etcd.away = !life.etcd.away && fault(50);
	else if (what < 943)
		life.etcd.cut |= fault(20);
	else if (what < 990)
		second();
	if (chance(80))
		source_run(&life.source);
	count.voided += before == SOURCE_VOIDS && life.source.state == SOURCE_SERVES;
	count.asked += before != SOURCE_ASKS && life.source.state == SOURCE_ASKS;
	look_at();
	look_at_end();
}

static void begin(uint64_t seed, const char *host)
{
	uint32_t i;

	for (i = 0; i < LINKS; i++)
		moves_cut(&links[i]);
	memset(&life, 0, sizeof(life));
	life.random = seed;
	life.etcd = (struct etcd){ .term = TERM, .revision = REVISION, .seen = REVISION, .changes = REVISION };
	memcpy(life.etcd.host, "A", 2);
	life.kernel.digest = DIGEST;
	moves_end = &end;
	moves_start(host);
	world.blocks = 0;
	world.know = end_know;
	if (!host)
		return;
	life.kernel.asked = life.kernel.frozen = true;
	etcd_set(host, TERM + 1);
	life.etcd.lost = true;
	life.targets[0].term = TERM + 1;
	life.targets[0].consented = life.targets[0].had = true;
}

/* Faults end, and time passes: the store is where it should be. */
static void rest(void)
{
	enum source_state state;
	uint32_t i;

	life.etcd.away = false;
	life.kernel.busy = false;
	for (i = 0; i < 300 && !life.wrong; i++) {
		second();
		life.kernel.unsettled = 0;
		if (life.directory) {
			life.directory = 0;
			source_directory(&life.source, NULL, 0, -ENOENT);
		}
		moves_settle();
		finds_out();
		answer_look(true);
		moves_settle();
		look_at();
	}
	state = life.source.state;
	if (state != SOURCE_SERVES && state < SOURCE_KEEPS)
		wrong("it stands still");
	if (life.source.stopping && !source_is_over(&life.source))
		wrong("it does not stop");
}

static bool test_life(uint64_t seed)
{
	static const uint32_t faults[] = { 0, 10, 30, 100 };
	uint32_t steps;

	begin(seed, seed % 8 ? NULL : "B");
	life.faults = faults[random_below(&life.random, 4)];
	steps = 500 + random_below(&life.random, 8000);
	while (steps-- && !life.wrong && life.source.state < SOURCE_CLOSED) {
		step();
		if (steps == 200 && chance(20))
			source_stop(&life.source);
	}
	if (life.source.state == SOURCE_ENDED && do_holds(NULL) && !life.source.error)
		wrong("it ends, and the store is its own");
	if (!life.wrong && life.source.state < SOURCE_CLOSED)
		rest();
	count.ended += life.source.state == SOURCE_ENDED;
	count.closed += life.source.state == SOURCE_CLOSED && !life.third;
	count.third += life.source.state == SOURCE_CLOSED && life.third;
	if (life.wrong)
		tap_note("seed %llu, state %d: %s", (unsigned long long)seed, life.source.state, life.wrong);
	return !life.wrong;
}

static bool lives(uint64_t first, uint64_t nr)
{
	uint64_t seed;

	for (seed = first; seed < first + nr; seed++)
		CHECK(test_life(seed));
	tap_note("%llu moved, %llu taken back, %llu asked, %llu ended, %llu closed, %llu to a third host",
		 (unsigned long long)count.moved, (unsigned long long)count.voided, (unsigned long long)count.asked,
		 (unsigned long long)count.ended, (unsigned long long)count.closed, (unsigned long long)count.third);
	tap_note("%llu connected again, %llu thawed, %llu directories, %llu drained again",
		 (unsigned long long)count.again, (unsigned long long)count.thawed,
		 (unsigned long long)count.directories, (unsigned long long)count.drained_again);
	return true;
}

/* ---- Each failure, alone ----------------------------------------------------------------- */

/* All that is under way is done; etcd is not asked, and answers nothing. */
static void pump(void)
{
	uint32_t i;

	for (i = 0; i < 50; i++) {
		moves_settle();
		life.kernel.unsettled = 0;
		if (!life.directory)
			continue;
		life.directory = 0;
		source_directory(&life.source, NULL, 0, -ENOENT);
	}
	moves_settle();
	look_at();
}

static void pass(unsigned int seconds)
{
	while (seconds--) {
		moves_pass(1);
		etcd_passes();
		renew();
		pump();
	}
}

/* The source's daemon talks to etcd, and time passes. */
static void pass_with_etcd(unsigned int seconds)
{
	life.etcd.away = false;
	while (seconds--) {
		finds_out();
		pass(1);
		answer_look(true);
		pump();
	}
}

static struct link *reach_mark(void)
{
	begin(1, NULL);
	moves_call(0, "B", 0);
	pump();
	return &links[0];
}

/* The target has said MOVE, and the source has not answered anything. */
static struct link *reach_move(void)
{
	struct link *link = reach_mark();

	(void)move_target_move(&link->target);
	while (moves_to_source(link))
		;
	return link;
}

static struct link *reach_ready(void)
{
	struct link *link = reach_move();

	pump();
	life.targets[0].ready = link->ready;
	return link;
}

static struct link *reach_keeps(void)
{
	struct link *link = reach_ready();

	takes(0);
	pump();
	answer_look(true);
	pump();
	return link;
}

static bool is_served(void)
{
	return life.source.state == SOURCE_SERVES && !life.kernel.asked && source_ticks(&life.source) && !life.wrong;
}

static bool test_whole(void)
{
	struct link *link = reach_mark();

	CHECK(link->target.marked && is_served());
	link = reach_move();
	CHECK(!link->ready.term && !life.kernel.asked);
	link = reach_ready();
	CHECK(life.source.state == SOURCE_WAITS && life.kernel.frozen && link->keyed && !source_ticks(&life.source));
	CHECK(link->ready.revision == REVISION && link->ready.digest == life.kernel.digest && life.told == 1);
	link = reach_keeps();
	CHECK(life.source.state == SOURCE_KEEPS && link->keyed && !life.etcd.looks);
	pass(1);
	CHECK(!life.etcd.looks);
	/* No lease is needed, and etcd is looked into now and then. */
	life.etcd.lost = true;
	pass(100);
	CHECK(life.etcd.looks && life.source.state == SOURCE_KEEPS && link->keyed && life.kernel.frozen);
	answer_look(true);
	move_target_close(&link->target, TERM + 1);
	pump();
	CHECK(life.source.state == SOURCE_KEEPS && link->keyed);
	answer_look(true);
	pump();
	CHECK(life.source.state == SOURCE_CLOSED && link->closed && !link->keyed && !life.wrong);
	return true;
}

static bool test_link_cut(void)
{
	struct link *link;

	moves_cut(reach_move());	/* before READY: etcd is not needed */
	pump();
	CHECK(is_served() && !life.etcd.wants_void);
	link = reach_move();
	source_run(&life.source);
	CHECK(life.source.state == SOURCE_FREEZES && life.kernel.asked);
	life.etcd.away = true;
	moves_cut(link);
	pump();
	CHECK(is_served() && !life.etcd.wants_void);

	(void)reach_ready();		/* after it: the source is first */
	life.etcd.away = true;
	moves_cut(&links[0]);
	pump();
	CHECK(life.source.state == SOURCE_VOIDS && life.kernel.frozen && life.etcd.wants_void);
	pass(5);
	CHECK(life.source.state == SOURCE_VOIDS && !source_ticks(&life.source));
	pass_with_etcd(3);
	CHECK(is_served());
	takes(0);
	CHECK(life.etcd.term == TERM);
	CHECK(moves_call(1, "C", 0) && (pump(), links[1].target.marked));

	link = reach_move();		/* no keys can be made */
	world.keys_fail = -ENOMEM;
	life.etcd.away = true;
	pump();
	CHECK(is_served() && !life.etcd.wants_void && !link->connected);

	moves_cut(reach_ready());	/* the target is */
	pump();
	takes(0);
	CHECK(life.etcd.term == TERM + 1);
	pass_with_etcd(3);
	CHECK(life.source.state == SOURCE_KEEPS && life.kernel.frozen);
	link = moves_call(0, "B", TERM + 1);
	pump();
	CHECK(!link->keyed && life.etcd.looks);
	answer_look(true);
	pump();
	CHECK(link->keyed && link->ready.term == TERM && !link->ready.revision && !life.wrong);
	return true;
}

/* The target is killed before its transaction; later ones find nothing. */
static bool test_no_transaction(void)
{
	struct link *link = reach_ready();

	pass(MOVE_TAKEN_S);
	CHECK(life.source.state == SOURCE_WAITS && link->keyed);
	pass(3);
	CHECK(is_served() && !link->keyed);
	pass_with_etcd(3);
	takes(0);
	CHECK(is_served() && life.etcd.term == TERM);
	return true;
}

/* From the freeze to the transaction no host serves, until etcd is back or the lease ends. */
static bool test_etcd_away(void)
{
	(void)reach_ready();
	life.etcd.away = true;
	pass(MOVE_TAKEN_S);
	CHECK(life.source.state == SOURCE_WAITS);
	pass(100);
	CHECK(life.source.state == SOURCE_ASKS && life.kernel.frozen && life.etcd.looks);
	pass_with_etcd(3);
	CHECK(life.source.state == SOURCE_ENDED && !life.source.error && life.kernel.frozen);

	(void)reach_ready();		/* the target can reach it */
	life.etcd.away = true;
	pass(MOVE_TAKEN_S);
	takes(0);
	CHECK(life.etcd.term == TERM + 1);
	pass(100);
	CHECK(life.source.state == SOURCE_ASKS && life.kernel.frozen);
	pass_with_etcd(3);
	CHECK(life.source.state == SOURCE_KEEPS && life.kernel.frozen);

	(void)reach_ready();		/* a renewal is late, but not too late */
	life.etcd.away = true;
	pass(14);
	CHECK(life.source.state == SOURCE_ASKS && is_owner());
	life.etcd.away = false;
	while (!do_holds(NULL))
		renew();
	pass_with_etcd(4);
	CHECK(is_served());

	(void)reach_move();		/* before READY it is as for every owner */
	source_run(&life.source);
	life.etcd.lost = true;
	pump();
	CHECK(life.source.state == SOURCE_ENDED && !life.told && life.kernel.asked && !life.wrong);

	(void)reach_mark();		/* the consent is not known yet */
	life.etcd.seen = 0;
	(void)move_target_move(&links[0].target);
	pump();
	CHECK(life.source.state == SOURCE_TELLS && life.kernel.frozen && !life.told);
	life.etcd.seen = life.etcd.revision;
	pump();
	CHECK(life.source.state == SOURCE_WAITS && life.told == 1 && !life.wrong);
	return true;
}

static bool test_second_target(void)
{
	struct link *other;

	(void)reach_mark();
	other = moves_call(1, "C", 0);
	pump();
	CHECK(!other->connected && links[0].connected && !other->keyed);	/* the kernel has one round of words */
	(void)reach_mark();
	moves_cut(&links[0]);
	other = moves_call(1, "C", 0);
	pump();
	CHECK(other->target.marked && !life.wrong);
	(void)reach_ready();
	other = moves_call(1, "C", 0);
	pump();
	CHECK(!other->connected && links[0].keyed && !life.wrong);
	return true;
}

/* A third host takes the store over. */
static bool test_take_over(void)
{
	(void)reach_ready();
	life.etcd.cut = true;
	finds_out();
	pump();
	CHECK(life.source.state == SOURCE_ASKS && links[0].keyed && life.etcd.looks);
	life.etcd.revision = 0;
	claims();
	CHECK(life.third);
	pass_with_etcd(3);
	CHECK(life.source.state == SOURCE_CLOSED && !links[0].keyed && !life.wrong);

	(void)reach_keeps();		/* from the target */
	pass_with_etcd(10);
	CHECK(life.source.state == SOURCE_KEEPS);
	etcd_set("E", TERM + 2);
	pass_with_etcd(SOURCE_LOOK_S + 2);
	CHECK(life.source.state == SOURCE_CLOSED && !links[0].keyed);
	return true;
}

/* What is no third host does not make it let go. */
static bool test_keeps(void)
{
	struct link *link;

	begin(1, "B");
	CHECK(life.source.state == SOURCE_KEEPS);
	source_owner(&life.source, "E", TERM);		/* of an older time */
	source_run(&life.source);
	CHECK(life.source.state == SOURCE_KEEPS);
	etcd_set("B", TERM + 5);
	pass_with_etcd(20);
	CHECK(life.source.state == SOURCE_KEEPS);
	link = moves_call(0, "C", TERM + 5);
	pass_with_etcd(3);
	CHECK(!link->keyed && !link->connected);
	link = moves_call(0, "B", TERM + 5);
	pass_with_etcd(3);
	CHECK(link->keyed && !life.wrong);
	while (!life.etcd.looks)
		pass(1);
	answer_look(true);
	pass(SOURCE_LOOK_S - 1);
	CHECK(!life.etcd.looks);
	pass(1);
	CHECK(life.etcd.looks);
	etcd_set("A", TERM + 6);
	pass_with_etcd(20);
	CHECK(life.source.state == SOURCE_KEEPS && life.kernel.frozen);
	etcd_set("", TERM + 7);
	pass_with_etcd(20);
	CHECK(life.source.state == SOURCE_KEEPS && life.kernel.frozen);
	return true;
}

static bool test_kernel(void)
{
	struct link *link = reach_mark();

	life.kernel.busy = true;	/* a range of pages is open; a thaw would fail, too */
	life.kernel.fails = -ENOTTY;
	(void)move_target_move(&link->target);
	pump();
	CHECK(is_served() && !link->connected && !life.told);
	link = reach_move();
	source_run(&life.source);
	moves_cut(link);
	pump();
	CHECK(is_served() && count.thawed);
	moves_call(0, "B", 0);
	pump();
	life.kernel.busy = true;
	life.kernel.fails = -ENOTTY;
	(void)move_target_move(&link->target);
	pump();
	CHECK(is_served() && !link->connected && !life.told);

	moves_cut(reach_ready());
	life.kernel.fails = -EIO;
	pass_with_etcd(5);
	CHECK(life.source.state == SOURCE_ENDED && life.source.error == -EIO && life.kernel.asked);

	link = reach_mark();		/* it is retired, and then told */
	source_retired(&life.source, 5);
	CHECK(life.source.tell.nr_gone == 1);
	source_run(&life.source);
	CHECK(!life.source.tell.nr_gone);
	moves_cut(link);
	source_retired(&life.source, 5);
	CHECK(!life.source.tell.nr_gone && !life.wrong);
	return true;
}

/* A backup is lost while the rest is told: another digest, which READY names. */
static bool test_drains_again(void)
{
	struct link *link = reach_move();
	uint32_t i;

	life.kernel.changed = 3;
	for (i = 0; life.source.state != SOURCE_TELLS; i++) {
		CHECK(i < 100);
		source_run(&life.source);
		life.kernel.unsettled = 0;
	}
	CHECK(!source_ticks(&life.source) && !life.told && !life.source.more);
	life.kernel.unsettled = 1;
	for (i = 0; life.source.state != SOURCE_DRAINS; i++) {
		CHECK(i < 100);
		moves_settle();
		if (life.directory)
			source_directory(&life.source, NULL, 0, -ENOENT);
		life.directory = 0;
	}
	CHECK(source_ticks(&life.source));
	life.kernel.digest++;
	pump();
	CHECK(life.told == 1 && link->ready.digest == DIGEST + 1 && !life.wrong);
	return true;
}

/* What is read for a connection that is gone is not told to the next one, which has its own turn. */
static bool test_directories(void)
{
	static const struct lsmem_listing listings[1];
	uint64_t first;
	uint32_t i;

	begin(1, NULL);
	moves_call(0, "B", 0);
	for (i = 0; !life.directory; i++) {
		CHECK(i < 100);
		life.kernel.changed++;
		moves_settle();
		source_tick(&life.source, world.now_ns += SECOND);
	}
	first = life.directory;
	moves_cut(&links[0]);
	moves_call(1, "C", 0);
	for (i = 0; !life.source.wanted; i++) {
		CHECK(i < 100);
		life.kernel.changed++;
		moves_settle();
		source_tick(&life.source, world.now_ns += SECOND);
	}
	CHECK(life.readings == 1 && life.directory == first);
	moves_cut(&links[1]);
	CHECK(!life.source.wanted);
	moves_call(2, "D", 0);
	for (i = 0; !life.source.wanted; i++) {
		CHECK(i < 100);
		life.kernel.changed++;
		moves_settle();
		source_tick(&life.source, world.now_ns += SECOND);
	}
	life.directory = 0;
	source_directory(&life.source, listings, 1, 0);
	CHECK(life.readings == 2 && life.directory && !life.source.tell.listings && life.source.tell.segment);
	life.directory = 0;
	source_directory(&life.source, listings, 1, 0);
	CHECK(life.readings == 2 && life.source.tell.listings == listings && !life.wrong);
	return true;
}

/* What etcd said to an older question. */
static bool test_answers(void)
{
	(void)reach_ready();
	life.etcd.away = true;
	moves_cut(&links[0]);
	pump();
	moves_call(0, "B", TERM + 1);	/* it has not taken the store */
	pump();
	CHECK(life.source.state == SOURCE_VOIDS && life.etcd.looks);
	life.etcd.away = false;
	answer_look(true);
	pump();
	CHECK(life.source.state == SOURCE_VOIDS && !links[0].connected);
	takes(0);
	moves_call(0, "B", TERM + 1);	/* and now it has; this host has not noticed */
	pump();
	answer_look(true);
	pump();
	CHECK(life.source.state == SOURCE_KEEPS && do_holds(NULL) && links[0].keyed && !life.wrong);

	(void)reach_ready();
	life.etcd.away = true;
	moves_cut(&links[0]);
	pass(TRUST_NS / SECOND);
	CHECK(life.source.state == SOURCE_ASKS && life.etcd.looks);
	life.etcd.away = false;
	answer_look(false);		/* etcd is read, and then the store is taken */
	takes(0);
	moves_call(0, "B", TERM + 1);
	moves_settle();
	CHECK(life.source.look && life.etcd.read_term == TERM);
	answer_look(false);
	moves_settle();
	CHECK(life.source.state == SOURCE_ASKS && links[0].connected && !links[0].keyed && life.etcd.looks);
	moves_call(1, "C", TERM + 1);
	moves_settle();
	CHECK(life.source.look);
	answer_look(true);
	CHECK(life.source.state == SOURCE_KEEPS);
	pump();
	CHECK(life.source.state == SOURCE_KEEPS && links[0].keyed && !life.wrong);
	return true;
}

/* The daemon is to end, in each state. */
static bool test_stop(void)
{
	(void)reach_mark();
	source_stop(&life.source);
	CHECK(!source_is_over(&life.source));
	pump();
	CHECK(source_is_over(&life.source) && is_served());
	moves_call(1, "C", 0);
	CHECK(!links[1].connected);

	(void)reach_move();
	source_run(&life.source);
	source_stop(&life.source);
	CHECK(life.kernel.asked && !source_is_over(&life.source));
	pump();
	CHECK(source_is_over(&life.source) && is_served());

	(void)reach_ready();
	source_stop(&life.source);
	pump();
	CHECK(!source_is_over(&life.source) && life.source.state == SOURCE_VOIDS);
	pass_with_etcd(3);
	CHECK(source_is_over(&life.source) && is_served());

	(void)reach_keeps();
	source_stop(&life.source);
	pump();
	CHECK(source_is_over(&life.source) && life.source.state == SOURCE_KEEPS && life.kernel.frozen && !life.wrong);
	return true;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--seed")) {
		tap_ok(test_life(strtoull(argv[2], NULL, 0)), "a life");
		return tap_end();
	}
	tap_ok(test_whole(), "a move, from its beginning to its end");
	tap_ok(test_link_cut(), "the link is cut, before READY and after it");
	tap_ok(test_no_transaction(), "a target that does not take the store");
	tap_ok(test_etcd_away(), "etcd cannot be reached, or the lease ends");
	tap_ok(test_second_target(), "one target at a time");
	tap_ok(test_take_over(), "a third host has the store");
	tap_ok(test_keeps(), "no other host is a third one");
	tap_ok(test_kernel(), "the kernel refuses");
	tap_ok(test_drains_again(), "another digest while the rest is told");
	tap_ok(test_directories(), "directories of connections that are gone");
	tap_ok(test_answers(), "answers of etcd to older questions");
	tap_ok(test_stop(), "the daemon is to end");
	tap_ok(lives(1, 1500), "random lives");
	return tap_end();
}
