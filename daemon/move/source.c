// SPDX-License-Identifier: GPL-2.0
/* The order of a move at its source: see source.h. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "source.h"

#define SECOND_NS	1000000000ull

static struct source *of_moves(const struct move_source *moves)
{
	return (struct source *)((char *)moves - offsetof(struct source, moves));
}

static struct source *of_tell(const struct tell *tell)
{
	return (struct source *)((char *)tell - offsetof(struct source, tell));
}

/* ---- Blocks ---------------------------------------------------------------- */

static int tell_words(struct tell *tell, struct lsmem_words *words)
{
	struct source *s = of_tell(tell);

	return s->user->words(s, words);
}

static void read_directory(struct source *s)
{
	uint64_t segment = s->wanted;

	if (s->reading || !segment)
		return;
	s->wanted = 0;
	s->reading = true;
	s->user->directory(s, segment);
}

static void tell_wants(struct tell *tell, uint64_t segment)
{
	struct source *s = of_tell(tell);

	s->wanted = segment;
	read_directory(s);
}

static const struct tell_user tell_user = { .words = tell_words, .directory = tell_wants };

/* The kernel has one round of words: so one target reads blocks, until its connection is gone. */
static int next_block(struct move_peer *peer, struct ahead_head *block)
{
	struct source *s = of_moves(peer->source);

	if (!s->reader) {
		s->reader = peer;
		tell_begin(&s->tell, &tell_user, SOURCE_REST, peer->session.version);
	}
	if (s->reader != peer)
		return -EBUSY;
	return tell_block(&s->tell, block);
}

/* ---- What the connections ask ------------------------------------------------ */

static void stop_clients(struct move_source *moves)
{
	of_moves(moves)->stops = true;
}

static void look_up(struct move_source *moves)
{
	of_moves(moves)->look = true;
}

/* source_run() sees it. */
static void all_left(struct move_source *moves)
{
	(void)moves;
}

/**
 * source_begin - begin to offer a store
 * @source: out, without connections
 * @user: callbacks; must stay as long as @source
 * @store: the store, and how this host has it
 * @now_ns: as for source_tick()
 */
void source_begin(struct source *source, const struct source_user *user, const struct source_store *store,
		  uint64_t now_ns)
{
	memset(source, 0, sizeof(*source));
	source->user = user;
	source->network = (struct move_source_user){
		.slots = user->slots, .send = user->send, .room = user->room, .end = user->end, .keys = user->keys,
		.block = next_block, .stop = stop_clients, .look = look_up, .left = all_left,
		.let_go = user->let_go,
	};
	memcpy(source->here, store->here, strnlen(store->here, WIRE_NAME - 1));
	source->state = store->host ? SOURCE_KEEPS : SOURCE_SERVES;
	source->now_ns = now_ns;
	move_source_begin(&source->moves, &source->network, store->store, store->key, store->host, now_ns);
}

/**
 * source_connect - a target has connected
 * @source: the source
 * @peer: out
 * @setup: as for move_source_connect()
 *
 * Return: false: there are too many connections, or the daemon is to end; @peer is not used.
 */
bool source_connect(struct source *source, struct move_peer *peer, const struct session_setup *setup)
{
	return !source->stopping && move_source_connect(&source->moves, peer, setup);
}

/**
 * source_gone - the queue pair and the keys of a connection are destroyed
 * @peer: in any state; is not used any more
 */
void source_gone(struct move_peer *peer)
{
	struct source *s = of_moves(peer->source);

	if (s->reader == peer) {
		s->reader = NULL;
		s->wanted = 0;
		s->stale = s->reading;
	}
	move_source_gone(peer);
}

/**
 * source_retired - the stream has told RETIRE
 * @source: the source
 * @segment: id
 */
void source_retired(struct source *source, uint64_t segment)
{
	if (!source->reader)
		return;
	tell_gone(&source->tell, segment);
	source->more = true;
}

/**
 * source_directory - the listings of a segment have been read
 * @source: @directory was called
 * @listings: as for tell_directory(); they stay until the next call of @directory
 * @nr: number of @listings
 * @error: as for tell_directory()
 */
void source_directory(struct source *source, const struct lsmem_listing *listings, uint32_t nr, int error)
{
	source->reading = false;
	if (!source->stale)
		tell_directory(&source->tell, listings, nr, error);
	source->stale = false;
	source->more = true;
	read_directory(source);
}

/**
 * source_ask - an operator wants the target that stands by to move the store now
 * @source: in any state
 *
 * Then source_run().
 *
 * Return: NULL: it will be told; or why not.
 */
const char *source_ask(struct source *source)
{
	if (source->moves.phase == MOVE_MOVED || source->moves.phase == MOVE_CLOSED)
		return "another host has the store";
	if (source->state != SOURCE_SERVES)
		return "a host moves the store already";
	if (!source->reader)
		return "no host stands by to take the store: see \"standby\" in lsmemd.conf(5)";
	if (!tell_come(&source->tell))
		return "the lsmemd of the host that moves the store is older, and does not stand by";
	source->more = true;
	return NULL;
}

/* ---- The order ---------------------------------------------------------------- */

/* This move fails: its connection ends, and the way back begins when it is gone. */
static bool fail(struct source *s, const char *why)
{
	move_source_end(&s->moves, why);
	return false;
}

static bool enter(struct source *s, enum source_state state)
{
	s->state = state;
	return true;
}

/*
 * Serve clients again. No connection has keys; no host can take the store by a consent of this move. Another host can by
 * itself if the ownership is over.
 */
static bool serve_again(struct source *s)
{
	if (!s->user->holds(s))
		return enter(s, SOURCE_ENDED);
	s->error = s->freezing ? s->user->thaw(s) : 0;
	if (s->error)
		return enter(s, SOURCE_ENDED);
	s->freezing = false;
	(void)move_source_resume(&s->moves);
	return enter(s, SOURCE_SERVES);
}

static bool freeze(struct source *s)
{
	int ret = s->user->freeze(s, &s->objects);

	if (ret < 0)
		return fail(s, ret == -EBUSY ? "a range of pages of the store is open" : "the store cannot be frozen");
	s->freezing = true;
	return ret && enter(s, SOURCE_DRAINS);
}

static bool drain(struct source *s)
{
	uint64_t digest;

	if (!s->user->drained(s, &digest))
		return false;
	tell_last(&s->tell);
	s->more = true;
	return enter(s, SOURCE_TELLS);
}

/* The target reads the rest. A backup that is lost meanwhile leads to another digest: then drain again. */
static bool tell_rest(struct source *s)
{
	uint64_t digest, revision;

	if (!tell_is_all(&s->tell))
		return false;
	if (!s->user->drained(s, &digest))
		return enter(s, SOURCE_DRAINS);
	if (!s->user->consent(s, &revision))
		return false;
	(void)move_source_ready(&s->moves, revision, digest, s->objects);
	return enter(s, SOURCE_WAITS);
}

/* READY is not told: no host can take the store by consent. */
static bool prepare(struct source *s)
{
	if (!s->moves.chosen)
		return serve_again(s);
	if (!s->user->holds(s))
		return fail(s, "this host may not own the store any more");
	switch (s->state) {
	case SOURCE_FREEZES:
		return freeze(s);
	case SOURCE_DRAINS:
		return drain(s);
	case SOURCE_TELLS:
		return tell_rest(s);
	default:
		return false;
	}
}

static bool ask(struct source *s)
{
	s->look = true;
	return enter(s, SOURCE_ASKS);
}

static bool wait_for_target(struct source *s)
{
	if (s->moves.phase == MOVE_STOPS)
		return prepare(s);
	if (!s->user->holds(s))
		return ask(s);
	return !s->moves.chosen && enter(s, SOURCE_VOIDS);
}

static bool take_back(struct source *s)
{
	bool done = s->user->withdraw(s);

	/* In this order: a host that has the store now may have taken it by the consent. */
	if (!s->user->holds(s))
		return ask(s);
	return done && serve_again(s);
}

/* A renewal that was late brings the ownership back. */
static bool ask_on(struct source *s)
{
	return s->user->holds(s) && enter(s, SOURCE_WAITS);
}

static bool keep(struct source *s)
{
	return s->moves.phase == MOVE_CLOSED && !s->moves.chosen && enter(s, SOURCE_CLOSED);
}

static bool step(struct source *s)
{
	switch (s->state) {
	case SOURCE_SERVES:
		if (!s->stops)
			return false;
		s->stops = false;
		return enter(s, SOURCE_FREEZES);
	case SOURCE_FREEZES:
	case SOURCE_DRAINS:
	case SOURCE_TELLS:
		return prepare(s);
	case SOURCE_WAITS:
		return wait_for_target(s);
	case SOURCE_VOIDS:
		return take_back(s);
	case SOURCE_ASKS:
		return ask_on(s);
	case SOURCE_KEEPS:
		return keep(s);
	default:
		return false;
	}
}

/**
 * source_run - do what can be done now
 * @source: the source
 *
 * Context: after each other call, and after each round of the daemon's loop: @freeze, @drained, @holds, @consent and
 * @withdraw are asked again.
 */
void source_run(struct source *source)
{
	do {
		if (source->more && source->reader) {
			source->more = false;
			move_source_more(source->reader);
		}
		while (step(source))
			;
		if (source->look && !source->looking) {
			source->look = false;
			source->looking = true;
			source->alone = !source->moves.chosen;
			source->looked_ns = source->now_ns;
			source->user->look(source);
		}
	} while (source->more && source->reader);
}

/* ---- What etcd says ------------------------------------------------------------ */

/* Neither this host nor the one that was told READY. */
static bool is_third(const struct source *s, const char *host)
{
	return *host && strcmp(host, s->here) && strcmp(host, s->moves.host);
}

/**
 * source_owner - which host has the store, according to etcd
 * @source: @look was called
 * @host: that took the store's term; "": not known
 * @term: of the store
 */
void source_owner(struct source *source, const char *host, uint64_t term)
{
	bool taken = term > source->moves.store->term;

	source->looking = false;
	/* A target has said something since etcd was asked: that the store was taken stays true, that it was not may not. */
	if (source->look && !taken)
		return;
	move_source_owner(&source->moves, host, term);
	switch (source->state) {
	case SOURCE_WAITS:
	case SOURCE_VOIDS:
	case SOURCE_ASKS:
		if (taken)
			source->state = SOURCE_KEEPS;
		else if (source->state == SOURCE_ASKS && source->alone)
			source->state = SOURCE_ENDED;
		break;
	default:
		break;
	}
	if (source->state == SOURCE_KEEPS && taken && is_third(source, host) &&
	    move_source_close(&source->moves))
		source->state = SOURCE_CLOSED;
}

/* ---- The loop -------------------------------------------------------------------- */

/**
 * source_tick - some time has passed
 * @source: the source
 * @now_ns: of a clock that only rises
 *
 * Context: call it once a second, then source_run().
 */
void source_tick(struct source *source, uint64_t now_ns)
{
	source->now_ns = now_ns;
	move_source_tick(&source->moves, now_ns);
	tell_tick(&source->tell);
	source->more = true;
	if (!source->looking && (source->state == SOURCE_ASKS ||
	    (source->state == SOURCE_KEEPS && now_ns - source->looked_ns >= SOURCE_LOOK_S * SECOND_NS)))
		source->look = true;
}

/**
 * source_stop - the daemon is to end
 * @source: in any state
 *
 * All connections end, and no other one is taken. A consent is taken back first; memory that is kept stays in the kernel.
 */
void source_stop(struct source *source)
{
	source->stopping = true;
	move_source_end(&source->moves, "the daemon ends");
}

/**
 * source_is_over - can the daemon go on to end?
 * @source: after source_stop()
 *
 * Return: true: no connection is left, and the store is served as if there had been none, or is for another daemon.
 */
bool source_is_over(const struct source *source)
{
	return !source->moves.peers &&
	       (source->state == SOURCE_SERVES || source->state >= SOURCE_KEEPS);
}

/**
 * source_ticks - may core_tick() be called, and may backups join?
 * @source: the source
 *
 * Return: false: another digest than the one that READY names must not be written.
 */
bool source_ticks(const struct source *source)
{
	return source->state <= SOURCE_DRAINS;
}
