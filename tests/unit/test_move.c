// SPDX-License-Identifier: GPL-2.0
/*
 * The two ends of a move: daemon/remote/move.h. Both against each other, or one end alone, with a peer that knows the
 * secret and keeps no rule.
 */
#include <errno.h>
#include <string.h>

#include "lsmem.h"
#include "remote/move.h"
#include "../common/random.h"
#include "../common/tap.h"
#include "moves.h"

static uint32_t refused(const struct link *link)
{
	return le32toh(link->target.session.refused.reason);
}

/* A target B reads all, and says MOVE. */
static struct link *reach_stop(void)
{
	struct link *link;

	moves_start(NULL);
	link = moves_call(0, "B", 0);
	moves_settle();
	(void)move_target_move(&link->target);
	moves_settle();
	return link;
}

static struct link *reach_ready(void)
{
	struct link *link = reach_stop();

	moves_change(3);
	(void)move_source_ready(&world.source, REVISION, DIGEST, OBJECTS);
	moves_settle();
	return link;
}

static struct link *reach_moved(void)
{
	struct link *link = reach_ready();

	move_target_taken(&link->target, TERM + 1);
	moves_settle();
	move_source_owner(&world.source, "B", TERM + 1);
	moves_settle();
	return link;
}

/* ---- A move --------------------------------------------------------------- */

static bool test_move(void)
{
	struct link *link;

	moves_start(NULL);
	link = moves_call(0, "B", 0);
	CHECK(!move_target_move(&link->target));
	moves_settle();
	CHECK(link->stored && link->came == SEGMENTS + 1 && link->target.marked);
	CHECK(link->peer.stream.cached && link->target.stream.cached);
	moves_change(5);
	moves_settle();
	CHECK(link->came == SEGMENTS + 6 && !world.stops);
	CHECK(move_target_move(&link->target) && !move_target_move(&link->target));
	moves_change(2);
	moves_settle();
	/* READY waits for the daemon, and for all blocks. */
	CHECK(world.stops == 1 && link->came == SEGMENTS + 8 && !link->ready.term && !world.keyed);
	world.blocks += 40;
	CHECK(move_source_ready(&world.source, REVISION, DIGEST, OBJECTS) && !world.keyed);
	moves_settle();
	CHECK(world.keyed == 1 && link->keyed && link->came == SEGMENTS + 48);
	CHECK(link->ready.term == TERM && link->ready.revision == REVISION && link->ready.digest == DIGEST);
	CHECK(link->ready.last == link->came && link->ready.objects == OBJECTS && world.source.phase == MOVE_TOLD);
	CHECK(link->ready.keys.seglets.key == 8 && link->ready.keys.seglets.address == 0x200000 &&
	      link->ready.keys.table.key == 9 && link->ready.keys.table.address == 0x900000);
	/* Its word alone is not enough. */
	move_target_taken(&link->target, TERM + 1);
	moves_settle();
	CHECK(world.looks == 1 && world.source.phase == MOVE_TOLD);
	move_source_owner(&world.source, "B", TERM + 1);
	CHECK(world.source.phase == MOVE_MOVED);
	moves_pass(1000);
	CHECK(!link->peer_ended && !link->target_ended && link->keyed);
	move_target_close(&link->target, TERM + 1);
	moves_settle();
	CHECK(world.looks == 2 && world.source.phase == MOVE_MOVED && !world.lefts && !link->closed);
	move_source_owner(&world.source, "B", TERM + 1);
	CHECK(world.source.phase == MOVE_CLOSED && !world.lefts);
	moves_settle();
	CHECK(link->closed && link->target_ended && world.lefts == 1 && !link->keyed && !world.broken);
	moves_call(1, "C", 0);
	moves_settle();
	CHECK(refused(&links[1]) == WIRE_REASON_EXPORT);
	return true;
}

/* One of several targets gets the store, the others go; none of them has cost the others anything. */
static bool test_one_of_many(void)
{
	uint32_t i;

	moves_start(NULL);
	for (i = 0; i < MOVE_TARGETS; i++)
		moves_call(i, "B", 0);
	moves_settle();
	moves_call(MOVE_TARGETS, "Z", 0);
	moves_settle();
	CHECK(refused(&links[MOVE_TARGETS]) == WIRE_REASON_BUSY);
	for (i = 0; i < MOVE_TARGETS; i++)
		CHECK(links[i].came == SEGMENTS + 1);
	CHECK(move_target_move(&links[2].target) && move_target_move(&links[1].target));
	CHECK(moves_to_source(&links[1]));
	moves_settle();
	CHECK(world.stops == 1 && world.source.chosen == &links[1].peer && links[1].connected);
	for (i = 0; i < MOVE_TARGETS; i++)
		CHECK(i == 1 || (!links[i].connected && refused(&links[i]) == WIRE_REASON_HELD &&
				 !strcmp(links[i].target.session.refused.who, "B")));
	moves_call(0, "C", 0);
	moves_settle();
	CHECK(refused(&links[0]) == WIRE_REASON_HELD);
	CHECK(move_source_ready(&world.source, REVISION, DIGEST, OBJECTS));
	moves_settle();
	CHECK(links[1].ready.term && world.keyed == 1);
	moves_call(0, "C", 0);
	moves_settle();
	CHECK(refused(&links[0]) == WIRE_REASON_HELD && world.keyed == 1 && !world.lefts && !world.broken);
	return true;
}

/* A target that reads nothing delays no other one, and costs its slots. */
static bool test_slow(void)
{
	struct link *slow, *quick;

	moves_start(NULL);
	slow = moves_call(0, "B", 0);
	while (!slow->stored)
		CHECK(moves_to_source(slow) | moves_to_target(slow));
	quick = moves_call(1, "C", 0);
	moves_change(100);
	while (quick->came != SEGMENTS + 101)
		CHECK(moves_to_source(quick) | moves_to_target(quick) | moves_read(quick));
	/* Also with its READs: it has no more blocks than slots. */
	while (moves_to_source(slow))
		;
	CHECK(slow->given <= MOVE_SLOTS && slow->given && !slow->came);
	/* It takes no message: the source keeps room. */
	CHECK(slow->to_target.nr <= ROOM && !world.broken);
	move_source_more(&slow->peer);
	CHECK(slow->given <= MOVE_SLOTS);
	return true;
}

/* The network takes few messages at a time. */
static bool test_room(void)
{
	struct link *link;

	moves_start(NULL);
	world.room = 9;
	link = moves_call(0, "B", 0);
	moves_settle();
	CHECK(link->came == SEGMENTS + 1);
	world.room = 8;
	moves_change(1);
	moves_settle();
	CHECK(link->came == SEGMENTS + 1);
	world.room = 9;
	move_source_more(&link->peer);
	moves_settle();
	CHECK(link->came == SEGMENTS + 2 && !world.broken);
	return true;
}

/* ---- Ends ---------------------------------------------------------------- */

/* The connection is lost, in each phase: the daemon is told what goes on. */
static bool test_lost(void)
{
	struct link *link;

	moves_start(NULL);
	link = moves_call(0, "B", 0);
	moves_settle();
	moves_cut(link);
	CHECK(!world.lefts && !world.source.peers);

	link = reach_stop();
	CHECK(!move_source_resume(&world.source));
	moves_cut(link);
	CHECK(world.lefts == 1 && world.source.phase == MOVE_STOPS);
	CHECK(!move_source_ready(&world.source, REVISION, DIGEST, OBJECTS) && !world.keyed);
	moves_call(1, "C", 0);
	moves_settle();
	CHECK(refused(&links[1]) == WIRE_REASON_HELD);
	CHECK(move_source_resume(&world.source) && !move_source_resume(&world.source));
	link = moves_call(2, "C", 0);
	moves_settle();
	CHECK(link->came == SEGMENTS + 1);

	/* The daemon was ready, and the target has gone before READY: the next move begins anew. */
	link = reach_stop();
	link->peer.nr_wanted = 0;
	CHECK(move_source_ready(&world.source, REVISION, DIGEST, OBJECTS) && !world.keyed);
	moves_cut(link);
	CHECK(move_source_resume(&world.source));
	link = moves_call(2, "C", 0);
	moves_settle();
	CHECK(move_target_move(&link->target));
	moves_settle();
	moves_change(1);
	moves_settle();
	CHECK(world.stops == 2 && link->came == SEGMENTS + 2 && !world.keyed && !link->ready.term);

	link = reach_ready();
	moves_cut(link);
	CHECK(world.lefts == 1 && world.source.phase == MOVE_TOLD);
	CHECK(move_source_resume(&world.source));
	moves_call(1, "C", TERM + 1);
	moves_settle();
	CHECK(refused(&links[1]) == WIRE_REASON_TERM);
	link = moves_call(2, "C", 0);
	moves_settle();
	CHECK(move_target_move(&link->target));
	moves_settle();
	CHECK(world.keyed == 1);	/* of the first */

	link = reach_moved();
	moves_cut(link);
	CHECK(world.lefts == 1 && world.source.phase == MOVE_MOVED && !world.broken);
	CHECK(move_source_close(&world.source) && world.lefts == 1);
	link = reach_moved();
	CHECK(!move_source_close(&world.source));
	moves_settle();
	CHECK(world.lefts == 1 && !links[0].keyed);
	return true;
}

/* The owner gets keys again, and no other host; the keys of its first connection go before. */
static bool test_again(void)
{
	struct link *first = reach_moved(), *second = moves_call(1, "B", TERM + 1);

	while (moves_to_source(second) | moves_to_target(second))
		;
	CHECK(world.looks == 2 && first->keyed && !second->stored);
	moves_call(2, "C", TERM + 1);
	moves_call(3, "B", TERM + 2);
	while (moves_to_source(&links[2]) | moves_to_target(&links[2]) | moves_to_source(&links[3]) | moves_to_target(&links[3]))
		;
	move_source_owner(&world.source, "B", TERM + 1);
	CHECK(first->peer_ended && first->keyed && !second->keyed && world.keyed == 1);
	move_source_owner(&world.source, "B", TERM + 1);
	moves_settle();
	CHECK(!first->keyed && second->keyed && world.keyed == 2 && !world.lefts && !world.broken);
	CHECK(second->ready.term == TERM && !second->ready.revision && !second->ready.last && !second->came);
	CHECK(!second->ready.objects);
	CHECK(refused(&links[2]) == WIRE_REASON_TERM && refused(&links[3]) == WIRE_REASON_TERM);
	moves_pass(100);
	CHECK(second->keyed && !second->target_ended);
	/* What it takes again later has another term. */
	moves_cut(second);
	CHECK(world.lefts == 1);
	second = moves_call(1, "B", TERM + 5);
	moves_settle();
	move_source_owner(&world.source, "B", TERM + 5);
	moves_settle();
	CHECK(second->ready.term && second->keyed);
	move_target_close(&second->target, TERM + 5);
	moves_settle();
	move_source_owner(&world.source, "B", TERM + 5);
	moves_settle();
	CHECK(second->closed && world.source.phase == MOVE_CLOSED && !world.broken);

	/* The next daemon of the source has the frozen store for B. */
	moves_start("B");
	moves_call(1, "C", 0);
	moves_call(0, "B", TERM + 1);
	moves_settle();
	CHECK(refused(&links[1]) == WIRE_REASON_HELD && world.looks == 1);
	move_source_owner(&world.source, "B", TERM + 1);
	moves_settle();
	CHECK(links[0].keyed && links[0].ready.term == TERM);

	/* B has lost its connection, and the source has not heard from etcd. */
	first = reach_ready();
	moves_cut(first);
	second = moves_call(1, "B", TERM + 1);
	moves_settle();
	CHECK(world.source.phase == MOVE_TOLD && world.keyed == 1);
	move_source_owner(&world.source, "B", TERM + 1);
	moves_settle();
	CHECK(world.source.phase == MOVE_MOVED && second->keyed && !world.broken);
	return true;
}

/* Another host than the one that was told READY has the store: it gets nothing, and the keys go. */
static bool test_third(void)
{
	struct link *link = reach_ready();

	move_source_owner(&world.source, "B", TERM);	/* nothing has happened yet */
	CHECK(world.source.phase == MOVE_TOLD && !link->peer_ended);
	moves_call(1, "C", TERM + 1);
	while (moves_to_source(&links[1]) | moves_to_target(&links[1]))
		;
	move_source_owner(&world.source, "C", TERM + 1);
	CHECK(world.source.phase == MOVE_MOVED && link->peer_ended);
	moves_settle();
	CHECK(world.lefts == 1 && world.keyed == 1 && !link->keyed);
	CHECK(refused(&links[1]) == WIRE_REASON_TERM);
	/* Not known which host. */
	moves_start("B");
	moves_call(1, "B", TERM + 1);
	moves_settle();
	move_source_owner(&world.source, "", TERM + 1);
	moves_settle();
	CHECK(refused(&links[1]) == WIRE_REASON_TERM && !world.keyed && !world.broken);
	return true;
}

/* CLOSE counts if etcd says that its sender has the store. */
static bool test_close_checked(void)
{
	struct link *link = reach_ready();

	move_target_close(&link->target, TERM + 1);
	moves_settle();
	CHECK(world.looks == 1);
	move_source_owner(&world.source, "A", TERM);
	moves_settle();
	CHECK(!link->closed && world.source.phase == MOVE_TOLD && world.lefts == 1);
	link = reach_moved();
	move_target_close(&link->target, TERM + 3);
	moves_settle();
	move_source_owner(&world.source, "B", TERM + 1);
	moves_settle();
	CHECK(!link->closed && world.source.phase == MOVE_MOVED && world.lefts == 1 && !world.broken);
	return true;
}

/* The next daemon of the source knows of a CLOSE before its target does; if it cannot, CLOSE is said again. */
static bool test_close_known(void)
{
	struct link *link = reach_moved();

	world.let_go_fails = true;
	move_target_close(&link->target, TERM + 1);
	moves_settle();
	move_source_owner(&world.source, "B", TERM + 1);
	moves_settle();
	CHECK(!link->closed && !link->connected && world.source.phase == MOVE_MOVED && !world.let_gos);
	world.let_go_fails = false;
	link = moves_call(1, "B", TERM + 1);
	moves_settle();
	move_source_owner(&world.source, "B", TERM + 1);
	moves_settle();
	move_target_close(&link->target, TERM + 1);
	moves_settle();
	move_source_owner(&world.source, "B", TERM + 1);
	moves_settle();
	CHECK(link->closed && world.source.phase == MOVE_CLOSED && world.let_gos == 1 && !world.broken);
	return true;
}

/* ---- Bounds ---------------------------------------------------------------- */

/* Each wait has an end, and not before its time. */
static bool test_waits(void)
{
	struct link *link;

	/* A target that says nothing, or not who it is. */
	moves_start(NULL);
	link = moves_call(0, "B", 0);
	link->to_source.nr = 0;
	moves_pass(MOVE_PROOF_S);
	CHECK(link->connected);
	moves_pass(1);
	CHECK(!link->connected);
	/* Its HELLO does not begin the wait anew. */
	moves_start(NULL);
	link = moves_call(0, "B", 0);
	move_source_tick(&world.source, 4 * SECOND);
	CHECK(moves_to_source(link) && moves_to_target(link));
	link->to_source.nr = 0;
	move_source_tick(&world.source, (MOVE_PROOF_S + 1) * SECOND);
	CHECK(link->peer_ended);
	/* Nothing is read; and a READ that waits for a block may wait. */
	moves_start(NULL);
	link = moves_call(0, "B", 0);
	moves_settle();
	move_source_tick(&world.source, 10 * MOVE_IDLE_S * SECOND);
	CHECK(!link->peer_ended);
	moves_start(NULL);
	link = moves_call(0, "B", 0);
	while (!link->stored)
		CHECK(moves_to_source(link) | moves_to_target(link));
	link->to_source.nr = 0;
	moves_pass(MOVE_IDLE_S);
	CHECK(link->connected);
	moves_pass(1);
	CHECK(!link->connected);
	/* No READY: a client waits. */
	link = reach_stop();
	moves_pass(MOVE_READY_S);
	CHECK(link->connected && !world.lefts);
	moves_pass(1);
	CHECK(!link->connected && world.lefts == 1);
	/* A target that stops to read after MOVE. */
	link = reach_stop();
	world.blocks += 50;
	CHECK(move_source_ready(&world.source, REVISION, DIGEST, OBJECTS));
	link->to_source.nr = 0;
	move_source_tick(&world.source, (MOVE_READY_S + 1) * SECOND);
	CHECK(link->peer_ended && !world.keyed);
	/* It does not take the store. */
	link = reach_ready();
	moves_pass(MOVE_TAKEN_S);
	CHECK(link->connected);
	moves_pass(1);
	CHECK(!link->connected && world.lefts == 1 && world.source.phase == MOVE_TOLD);
	/* etcd does not say whether it has the store. */
	link = reach_moved();
	link = moves_call(1, "B", TERM + 1);
	moves_settle();
	moves_pass(MOVE_ASK_S);
	CHECK(link->connected);
	moves_pass(1);
	CHECK(!link->connected && links[0].connected && !world.broken);
	return true;
}

/* A source that does not answer. Time passes for the target alone. */
static void pass_target(struct link *link, unsigned int seconds)
{
	for (; seconds; seconds--)
		move_target_tick(&link->target, link->target.now_ns + SECOND);
}

static bool test_target_waits(void)
{
	struct link *link;

	moves_start(NULL);
	link = moves_call(0, "B", 0);
	pass_target(link, MOVE_ANSWER_S);
	CHECK(!link->target_ended);
	pass_target(link, 1);
	CHECK(link->target_ended);
	/* Blocks end before the mark. */
	moves_start(NULL);
	world.blocks = SEGMENTS;
	link = moves_call(0, "B", 0);
	moves_settle();
	pass_target(link, MOVE_IDLE_S);
	CHECK(!link->target_ended && link->came == SEGMENTS);
	moves_change(1);
	moves_settle();
	pass_target(link, MOVE_IDLE_S);		/* the MARK comes again before that */
	CHECK(!link->target_ended && link->target.marked);
	pass_target(link, 1);
	CHECK(link->target_ended);
	moves_start(NULL);
	world.blocks = SEGMENTS;
	link = moves_call(0, "B", 0);
	moves_settle();
	pass_target(link, MOVE_IDLE_S + 1);
	CHECK(link->target_ended);
	/* READY does not come. */
	link = reach_stop();
	pass_target(link, MOVE_READY_S + MOVE_TAKEN_S);
	CHECK(!link->target_ended);
	pass_target(link, 1);
	CHECK(link->target_ended);
	/* The transaction and the pull are its own. */
	link = reach_ready();
	pass_target(link, 10000);
	CHECK(!link->target_ended);
	link = reach_moved();
	move_target_close(&link->target, TERM + 1);
	pass_target(link, MOVE_ANSWER_S + 1);
	CHECK(link->target_ended && !link->closed);
	/* Keys do not come again. */
	moves_start("B");
	link = moves_call(0, "B", TERM + 1);
	moves_settle();
	world.keys_fail = -ENOMEM;
	move_source_owner(&world.source, "B", TERM + 1);
	while (moves_to_target(link))
		;
	CHECK(link->stored && !link->target_ended && link->peer_ended);
	pass_target(link, MOVE_ANSWER_S + 1);
	CHECK(link->target_ended && !world.broken);
	return true;
}

/* Connections without a proof: few, and the oldest gives way. */
static bool test_strangers(void)
{
	const struct session_setup setup = { .link = { 1, 2 } };
	struct move_peer extra;
	uint32_t i, ended = 0;

	moves_start(NULL);
	for (i = 0; i < MOVE_STRANGERS; i++)
		moves_call(i, "B", 0);
	CHECK(!links[0].peer_ended);
	moves_call(i, "B", 0);
	CHECK(links[0].peer_ended && !links[1].peer_ended && links[i].connected);
	for (i++; i < LINKS; i++)
		moves_call(i, "B", 0);
	for (i = 0; i < LINKS; i++)
		ended += links[i].peer_ended;
	CHECK(ended == LINKS - MOVE_STRANGERS && !links[0].memory);
	/* None more while these end. */
	CHECK(!move_source_connect(&world.source, &extra, &setup));
	moves_settle();
	CHECK(move_source_connect(&world.source, &extra, &setup));
	move_source_gone(&extra);
	/* Without the secret: nothing is told, also not which stores there are. */
	moves_start(NULL);
	moves_call_with(&links[0], "B", 0, "data", &moves_other_key);
	moves_call_with(&links[1], "B", 0, "other", &moves_other_key);
	moves_call_with(&links[2], "B", 0, "other", &moves_key);
	moves_settle();
	CHECK(refused(&links[0]) == WIRE_REASON_PROOF && refused(&links[1]) == WIRE_REASON_PROOF);
	CHECK(refused(&links[2]) == WIRE_REASON_EXPORT && !links[0].memory && !world.broken);
	return true;
}

/* What a daemon cannot do ends the connection, and the move goes back. */
static bool test_failures(void)
{
	struct link *link;

	moves_start(NULL);
	world.slots_fail = -ENOMEM;
	link = moves_call(0, "B", 0);
	moves_settle();
	CHECK(refused(link) == WIRE_REASON_BUSY);
	moves_start(NULL);
	world.store_fail = -ESTALE;
	link = moves_call(0, "B", 0);
	moves_settle();
	CHECK(link->target_ended && !link->given && !link->connected);
	moves_start(NULL);
	world.take_fail = -ENOSPC;
	link = moves_call(0, "B", 0);
	moves_settle();
	CHECK(link->target_ended && link->came == 1);
	moves_start(NULL);
	world.block_fail = -EIO;
	link = moves_call(0, "B", 0);
	moves_settle();
	CHECK(link->peer_ended && !link->came);
	link = reach_stop();
	world.block_fail = -EIO;
	CHECK(move_source_ready(&world.source, REVISION, DIGEST, OBJECTS));
	moves_settle();
	CHECK(link->peer_ended && world.lefts == 1 && !world.keyed);
	link = reach_stop();
	world.keys_fail = -EIO;
	CHECK(move_source_ready(&world.source, REVISION, DIGEST, OBJECTS));
	moves_settle();
	CHECK(link->peer_ended && world.lefts == 1 && world.source.phase == MOVE_STOPS && !world.broken);
	return true;
}

/* ---- The target gives up ---------------------------------------------------- */

enum reached { AT_READS, AT_STOP, AT_READY, AT_MOVED };

static struct link *reach(enum reached at);

/* The source knows why, and goes back as if the connection were cut. */
static bool gives_up(enum reached at, unsigned int lefts)
{
	struct link *link = reach(at);

	move_target_give_up(&link->target, -EEXIST, "the name is\x1b[1m in use");
	move_target_give_up(&link->target, -EIO, "for the second time");
	CHECK(link->target_ended && link->to_source.nr == 1 && !link->peer_ended);
	CHECK(moves_to_source(link) && link->peer_ended && link->peer.error == -EEXIST);
	CHECK(!strcmp(link->peer_why, "it gives up: the name is?[1m in use (File exists)"));
	moves_settle();
	CHECK(!link->connected && world.lefts == lefts && !world.broken);
	return true;
}

/* It ends without a word of its own: the source sees an ended connection. */
static bool ends_silently(struct link *link)
{
	uint32_t nr = link->to_source.nr;

	move_target_give_up(&link->target, -EEXIST, "the name is in use");
	CHECK(link->target_ended && link->to_source.nr == nr);
	moves_settle();
	CHECK(!link->connected && !link->peer.error && !world.broken);
	return true;
}

static bool test_give_up(void)
{
	struct link *link;
	enum reached at;

	CHECK(gives_up(AT_READS, 0) && world.source.phase == MOVE_SERVES);
	CHECK(gives_up(AT_STOP, 1) && move_source_resume(&world.source));
	CHECK(gives_up(AT_READY, 1) && move_source_resume(&world.source));
	/* What its daemon cannot do, and what a source must not say. */
	moves_start(NULL);
	world.store_fail = -EXDEV;
	link = moves_call(0, "B", 0);
	moves_settle();
	CHECK(link->peer.error == -EXDEV && strstr(link->peer_why, "not the store that was asked for"));
	moves_start(NULL);
	world.take_fail = -ENOMEM;
	link = moves_call(0, "B", 0);
	moves_settle();
	CHECK(link->peer.error == -ENOMEM && strstr(link->peer_why, "a block cannot be taken"));
	/* After TAKEN the store is this host's; a host that has it already only says CLOSE. */
	CHECK(ends_silently(reach_moved()));
	moves_start("B");
	link = moves_call(0, "B", TERM + 1);
	moves_settle();
	move_source_owner(&world.source, "B", TERM + 1);
	moves_settle();
	CHECK(link->ready.term && ends_silently(link));
	/* A source, or a target, that does not know the message. */
	for (at = 0; at < 2; at++) {
		moves_start(NULL);
		link = moves_call(0, "B", 0);
		if (at)
			link->peer.session.setup.highest = WIRE_VERSION_MOVE;
		else
			link->target.session.setup.highest = WIRE_VERSION_MOVE;
		if (!at) {
			link->target.session.hello.head.version = htole16(WIRE_VERSION_MOVE);
			link->to_source.messages[0].hello.head.version = htole16(WIRE_VERSION_MOVE);
		}
		moves_settle();
		CHECK(link->came == SEGMENTS + 1 && link->target.session.version == WIRE_VERSION_MOVE);
		/* It does not know places in cache segments. */
		CHECK(!link->peer.stream.cached && !link->target.stream.cached);
		CHECK(ends_silently(link) && world.source.phase == MOVE_SERVES);
	}
	return true;
}

/* Said by a peer that keeps no rule. */
static bool test_hostile_give_up(void)
{
	union wire_message message = { .give_up = { .error = htole32(EIO) } };
	struct link *link = reach_moved();

	/* It has the store: no way back from that. */
	wire_put_cause(message.give_up.cause, "no");
	session_say(&link->target.session, WIRE_GIVE_UP, &message);
	move_source_message(&link->peer, &link->target.session.out, le32toh(link->target.session.out.head.length));
	CHECK(link->peer_ended && !link->peer.error && world.source.phase == MOVE_MOVED);
	moves_settle();
	CHECK(!move_source_resume(&world.source) && !world.broken);
	link = reach_stop();
	message.give_up.cause[1] = '\n';
	session_say(&link->target.session, WIRE_GIVE_UP, &message);
	move_source_message(&link->peer, &link->target.session.out, le32toh(link->target.session.out.head.length));
	CHECK(link->peer_ended && !link->peer.error && !strstr(link->peer_why, "gives up"));
	/* A source does not give up so. */
	link = reach_stop();
	wire_put_cause(message.give_up.cause, "no");
	session_say(&link->peer.session, WIRE_GIVE_UP, &message);
	move_target_message(&link->target, &link->peer.session.out, le32toh(link->peer.session.out.head.length));
	CHECK(link->target_ended && !link->ready.term);
	return true;
}

/* ---- An operator cancels ----------------------------------------------------- */

/* Its targets are told, and clients can be served again. */
static bool cancels(enum reached at, unsigned int lefts)
{
	struct link *link = reach(at), *stranger = moves_call(1, "C", 0);

	CHECK(!move_source_cancel(&world.source));
	CHECK(link->peer_ended && !stranger->peer_ended && !strcmp(link->peer_why, "an operator has cancelled the move"));
	moves_cut(stranger);
	moves_settle();
	CHECK(refused(link) == WIRE_REASON_CANCELLED && !link->connected && world.lefts == lefts && !world.broken);
	CHECK(!strcmp(link->target_why, "an operator has cancelled the move") && !link->ready.term && !world.keyed);
	return true;
}

/* After READY it is refused, and changes nothing. */
static bool cannot_cancel(enum reached at, const char *why)
{
	struct link *link = reach(at);
	enum move_phase phase = world.source.phase;

	CHECK(strstr(move_source_cancel(&world.source), why));
	moves_settle();
	CHECK(link->connected && !link->peer_ended && !link->target_ended && link->keyed && world.source.phase == phase);
	return true;
}

static bool test_cancel(void)
{
	moves_start(NULL);
	CHECK(!strcmp(move_source_cancel(&world.source), "no host moves the store"));
	moves_call(0, "B", 0);		/* without a proof it takes no part */
	CHECK(!strcmp(move_source_cancel(&world.source), "no host moves the store") && !links[0].peer_ended);
	CHECK(cancels(AT_READS, 0) && world.source.phase == MOVE_SERVES);
	CHECK(cancels(AT_STOP, 1) && move_source_resume(&world.source));
	CHECK(cannot_cancel(AT_READY, "READY was told") && cannot_cancel(AT_MOVED, "another host has the store"));
	return true;
}

/* ---- Hostile peers --------------------------------------------------------- */

static struct link *reach(enum reached at)
{
	if (at == AT_STOP)
		return reach_stop();
	if (at == AT_READY)
		return reach_ready();
	if (at == AT_MOVED)
		return reach_moved();
	moves_start(NULL);
	moves_call(0, "B", 0);
	moves_settle();
	return &links[0];
}

/* The target says this, whatever it should. Return: whether the source ends the connection. */
static bool source_ends(struct link *link, enum wire_type type, uint64_t term, uint64_t last)
{
	union wire_message message = { .move = { .term = htole64(term), .last = htole64(last) } };

	session_say(&link->target.session, type, &message);
	move_source_message(&link->peer, &link->target.session.out, le32toh(link->target.session.out.head.length));
	return link->peer_ended;
}

static bool test_hostile_target(void)
{
	static const struct { enum reached at; enum wire_type type; uint64_t term, last; bool ends; } says[] = {
		{ AT_READS, WIRE_MOVE, TERM, SEGMENTS + 1, false },
		{ AT_READS, WIRE_MOVE, TERM, 0, false },
		{ AT_READS, WIRE_MOVE, TERM, SEGMENTS + 2, true },	/* a block that was not told */
		{ AT_READS, WIRE_MOVE, TERM, UINT64_MAX, true },
		{ AT_READS, WIRE_MOVE, TERM + 1, 0, true },
		{ AT_READS, WIRE_MOVE, TERM - 1, 0, true },
		{ AT_READS, WIRE_TAKEN, TERM + 1, 0, true },
		{ AT_READS, WIRE_CLOSE, TERM + 1, 0, true },
		{ AT_STOP, WIRE_MOVE, TERM, 0, true },
		{ AT_STOP, WIRE_TAKEN, TERM + 1, 0, true },
		{ AT_STOP, WIRE_CLOSE, TERM + 1, 0, true },
		{ AT_READY, WIRE_MOVE, TERM, 0, true },
		{ AT_READY, WIRE_TAKEN, TERM, 0, true },
		{ AT_READY, WIRE_TAKEN, TERM + 2, 0, true },
		{ AT_READY, WIRE_TAKEN, TERM + 1, 1, true },
		{ AT_READY, WIRE_CLOSE, TERM, 0, true },
		{ AT_READY, WIRE_CLOSE, TERM + 2, 0, false },	/* etcd decides */
		{ AT_MOVED, WIRE_TAKEN, TERM + 1, 0, true },	/* for the second time */
		{ AT_MOVED, WIRE_MOVE, TERM, 0, true },
		{ AT_MOVED, WIRE_READY, 0, 0, true },
		{ AT_MOVED, WIRE_WRITE, 0, 0, true },
	};
	struct link *link;
	uint32_t i;

	for (i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
		link = reach(says[i].at);
		if (source_ends(link, says[i].type, says[i].term, says[i].last) != says[i].ends || world.broken ||
		    world.source.phase == MOVE_CLOSED) {
			tap_note("row %u", i);
			return false;
		}
	}
	/* MOVE before the mark; CLOSE twice; a READ for a slot that has one. */
	moves_start(NULL);
	world.blocks = SEGMENTS;
	link = moves_call(0, "B", 0);
	moves_settle();
	CHECK(source_ends(link, WIRE_MOVE, TERM, 0) && !world.stops);
	link = reach_moved();
	CHECK(!source_ends(link, WIRE_CLOSE, TERM + 1, 0) && source_ends(link, WIRE_CLOSE, TERM + 1, 0));
	link = reach(AT_READS);
	session_request(&link->target.session, WIRE_READ, 0, 0, 0);
	move_source_message(&link->peer, &link->target.session.out, le32toh(link->target.session.out.head.length));
	CHECK(link->peer_ended);
	/* A READ that crosses READY, and more of them, get no answer and do no harm. */
	link = reach_ready();
	CHECK(link->peer.nr_wanted == MOVE_SLOTS);
	moves_change(10);
	moves_settle();
	CHECK(!link->peer_ended && link->came == SEGMENTS + 4);
	return true;
}

/* Tell the target this instead of what the source would. */
static void tell(struct link *link, enum wire_type type, const union wire_message *message)
{
	session_say(&link->peer.session, type, message);
	move_target_message(&link->target, &link->peer.session.out, le32toh(link->peer.session.out.head.length));
}

static union wire_message right_ready(const struct link *link)
{
	return (union wire_message){
		.ready = {
			.term = htole64(TERM), .revision = htole64(REVISION), .digest = htole64(DIGEST),
			.last = htole64(link->came), .objects = htole64(moves_store.indices), .seglets_address = htole64(1u << 20),
			.seglets_bytes = htole64(SEGLETS * LSMEM_SEGLET_BYTES), .table_address = htole64(1u << 30),
			.table_bytes = htole64(SEGLETS * sizeof(struct lsmem_seglet)),
		},
	};
}

/* READY with one change: is not taken. */
#define READY_REFUSED(change)							\
	do {									\
		struct link *link = reach_stop();				\
		union wire_message message = right_ready(link);		\
		struct wire_ready *ready = &message.ready;			\
										\
		change;								\
		tell(link, WIRE_READY, &message);				\
		CHECK(link->target_ended && !link->ready.term);			\
	} while (0)

static bool test_ready_bounds(void)
{
	READY_REFUSED(ready->term = htole64(TERM + 1));
	READY_REFUSED(ready->revision = 0);
	READY_REFUSED(ready->revision = htole64(1ull << 63));
	READY_REFUSED(ready->last = htole64(link->came + 1));
	READY_REFUSED(ready->last = htole64(link->came - 1));
	READY_REFUSED(ready->objects = htole64(moves_store.indices + 1));
	READY_REFUSED(ready->objects = htole64(1ull << 63));
	READY_REFUSED(ready->seglets_bytes = htole64(SEGLETS * LSMEM_SEGLET_BYTES + 1));
	READY_REFUSED(ready->seglets_bytes = 0);
	READY_REFUSED(ready->seglets_address = htole64(0 - (uint64_t)SEGLETS * LSMEM_SEGLET_BYTES));
	READY_REFUSED(ready->table_bytes = htole64((SEGLETS - 1) * sizeof(struct lsmem_seglet)));
	READY_REFUSED(ready->table_address = htole64(UINT64_MAX));
	return true;
}

static bool test_hostile_ready(void)
{
	struct link *link = reach_stop();
	union wire_message message = right_ready(link);

	tell(link, WIRE_READY, &message);
	CHECK(!link->target_ended && link->ready.term == TERM);
	tell(link, WIRE_READY, &message);	/* twice */
	CHECK(link->target_ended);
	/* Before MOVE; without the mark; and twice while blocks are on their way. */
	link = reach(AT_READS);
	message = right_ready(link);
	tell(link, WIRE_READY, &message);
	CHECK(link->target_ended && !link->ready.term);
	link = reach_stop();
	link->target.marked = false;
	tell(link, WIRE_READY, &message);
	CHECK(link->target_ended && !link->ready.term);
	link = reach_stop();
	moves_change(2);
	while (moves_to_target(link))
		;
	CHECK(link->nr_reads == 2);
	message.ready.last = htole64(link->came + 2);
	tell(link, WIRE_READY, &message);
	CHECK(!link->target_ended && !link->ready.term);
	tell(link, WIRE_READY, &message);
	CHECK(link->target_ended && !link->ready.term);
	/* To a target that has the store already, consent is none. */
	moves_start("B");
	link = moves_call(0, "B", TERM + 1);
	moves_settle();
	world.keys_fail = -EIO;
	move_source_owner(&world.source, "B", TERM + 1);
	while (moves_to_target(link))
		;
	message = right_ready(link);
	tell(link, WIRE_READY, &message);
	CHECK(link->stored && link->target_ended && !link->ready.term);
	link = moves_call(1, "B", TERM + 1);
	moves_settle();
	move_source_owner(&world.source, "B", TERM + 1);
	while (moves_to_target(link))
		;
	message.ready.revision = message.ready.digest = message.ready.last = 0;
	tell(link, WIRE_READY, &message);
	CHECK(link->stored && link->target_ended && !link->ready.term);
	message.ready.objects = 0;
	link = moves_call(2, "B", TERM + 1);
	moves_settle();
	move_source_owner(&world.source, "B", TERM + 1);
	while (moves_to_target(link))
		;
	tell(link, WIRE_READY, &message);
	CHECK(!link->target_ended && link->ready.term == TERM);
	return true;
}

/* A block that the source puts into a slot, and what it says of it. Return: whether the target ends. */
static bool block_ends(uint64_t uuid, uint64_t term, uint64_t sequence, uint64_t said, uint32_t length, uint32_t damage)
{
	struct link *link = reach(AT_READS);
	union wire_message message = {
		.block = { .slot = 0, .length = htole32(length), .sequence = htole64(said) },
	};
	struct ahead_head *block = (void *)link->memory->source;

	ahead_begin_segment(block, 5, 1, 0);
	link->peer.stream.term = term;
	link->peer.stream.sequence = sequence;
	link->peer.stream.uuid[0] ^= uuid;
	(void)ahead_seal(&link->peer.stream, block);
	link->memory->source[72 - 1] ^= damage;
	tell(link, WIRE_BLOCK, &message);
	(void)moves_read(link);
	return link->target_ended && link->came == SEGMENTS + 1;
}

static bool test_hostile_blocks(void)
{
	static const enum wire_type early[] = { WIRE_READY, WIRE_CLOSE, WIRE_BLOCK };
	const uint64_t next = SEGMENTS + 2;
	const uint32_t length = sizeof(struct ahead_head);
	union wire_message message = { 0 };
	struct link *link;
	uint32_t i;

	CHECK(!block_ends(0, TERM, next, next, length, 0));
	CHECK(block_ends(1, TERM, next, next, length, 0));		/* another store */
	CHECK(block_ends(0, TERM + 1, next, next, length, 0));		/* another term */
	CHECK(block_ends(0, TERM, next + 1, next, length, 0));		/* a gap */
	CHECK(block_ends(0, TERM, next - 1, next, length, 0));		/* again */
	CHECK(block_ends(0, TERM, next + 1, next + 1, length, 0));	/* a gap, and said */
	CHECK(block_ends(0, TERM, next, next, length + 8, 0));		/* longer than it is */
	CHECK(block_ends(0, TERM, next, next, length - 8, 0));
	CHECK(block_ends(0, TERM, next, next, AHEAD_BYTES + 8, 0));	/* than its slot */
	CHECK(block_ends(0, TERM, next, next, 0, 0));
	CHECK(block_ends(0, TERM, next, next, length, 1));		/* damaged */
	/* A read that the target has not asked for. */
	link = reach(AT_READS);
	move_target_read(&link->target, 0);
	CHECK(link->target_ended);
	/* Before STORE; STORE twice; CLOSE that was not said; a block after READY. */
	for (i = 0; i < 3; i++) {
		moves_start(NULL);
		link = moves_call(0, "B", 0);
		CHECK(moves_to_source(link) && moves_to_target(link) && moves_to_source(link));
		link->to_target.nr = 1;			/* ACCEPT, without STORE */
		CHECK(moves_to_target(link) && !link->target_ended);
		link->peer.session.to_peer.sequence = 0;
		tell(link, early[i], &message);
		CHECK(link->target_ended && !link->stored);
	}
	for (i = AT_READS; i <= AT_MOVED; i++) {
		link = reach(i);
		tell(link, WIRE_STORE, &message);
		CHECK(link->target_ended);
		link = reach(i);
		tell(link, WIRE_CLOSE, &message);
		CHECK(link->target_ended && !link->closed);
	}
	link = reach_moved();
	move_target_close(&link->target, TERM + 1);
	tell(link, WIRE_CLOSE, &message);	/* of another term */
	CHECK(link->target_ended && !link->closed);
	link = reach_ready();
	message.block.length = htole32(length);
	message.block.sequence = htole64(link->came + 1);
	tell(link, WIRE_BLOCK, &message);
	CHECK(link->target_ended);
	return true;
}

/* STORE with bounds that cannot be. */
static bool test_hostile_store(void)
{
	static const struct { uint64_t indices; uint32_t seglets; bool ends; } rows[] = {
		{ 1000, SEGLETS, false }, { 0, SEGLETS, true }, { LSMEM_HANDLE_INDEX_MASK + 2, SEGLETS, true },
		{ 1000, 0, true }, { 1000, (1u << 24) + 1, true },
	};
	union wire_message message = { 0 };
	struct link *link;
	uint32_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		moves_start(NULL);
		link = moves_call(0, "B", 0);
		CHECK(moves_to_source(link) && moves_to_target(link) && moves_to_source(link));
		link->to_target.nr = 1;
		CHECK(moves_to_target(link));
		link->peer.session.to_peer.sequence = 0;
		memcpy(message.store.uuid, moves_store.uuid, sizeof(moves_store.uuid));
		message.store.indices = htole64(rows[i].indices);
		message.store.seglets = htole32(rows[i].seglets);
		tell(link, WIRE_STORE, &message);
		CHECK(link->target_ended == rows[i].ends && link->stored == !rows[i].ends);
	}
	/* The source's term is not below that with which this host has taken the store. */
	moves_start("B");
	link = moves_call(0, "B", TERM + 1);
	moves_settle();
	move_source_owner(&world.source, "B", TERM + 1);
	CHECK(moves_to_target(link) && !link->target_ended);	/* ACCEPT */
	link->target.session.hello.term = htole64(TERM);
	CHECK(moves_to_target(link) && link->target_ended && !link->stored);
	return true;
}

/* Any order of arrivals, of cuts and of what the daemons do: what must hold holds, and a move can end. */
static bool test_orders(uint64_t random)
{
	uint64_t term = TERM;
	uint32_t i, n;

	moves_start(NULL);
	for (i = 0; i < 600; i++) {
		struct link *link = &links[random_below(&random, MOVE_TARGETS)];
		const char *who = random_chance(&random, 50) ? "B" : "C";
		struct move_source *source = &world.source;

		for (n = random_below(&random, 40); n; n--) {
			struct link *any = &links[random_below(&random, MOVE_TARGETS)];

			(void)(random_chance(&random, 40) ? moves_to_source(any) :
			       random_chance(&random, 60) ? moves_to_target(any) : moves_read(any));
			if (any->connected && (any->peer_ended || any->target_ended) &&
			    (!any->to_target.nr || random_chance(&random, 10)))
				moves_cut(any);
		}
		switch (random_below(&random, 13)) {
		case 0:
			if (!link->connected)
				moves_call((uint32_t)(link - links), who, random_chance(&random, 60) ? 0 : term);
			break;
		case 1:
			if (random_chance(&random, 20))
				moves_cut(link);
			break;
		case 2:
			if (source->phase == MOVE_SERVES)
				moves_change(random_below(&random, 3));
			break;
		case 3:
			if (link->connected)
				(void)move_target_move(&link->target);
			break;
		case 4:
			if (source->phase == MOVE_STOPS)
				(void)move_source_ready(source, REVISION, DIGEST, OBJECTS);
			break;
		case 5:
			/* The target's transaction, which compares what READY has named. */
			if (link->connected && link->ready.revision && term == TERM && source->phase == MOVE_TOLD)
				term++;
			if (link->connected && link->ready.term && term > TERM)
				move_target_taken(&link->target, term);
			break;
		case 6:
			if (link->connected && term > TERM && random_chance(&random, 10))
				move_target_close(&link->target, term);
			break;
		case 7:
		case 8:
			move_source_owner(source, term > TERM ? source->host : "A", term);
			break;
		case 9:
			if (term == TERM && move_source_resume(source))
				for (n = 0; n < MOVE_TARGETS; n++)
					CHECK(!links[n].keyed);
			break;
		case 11:
			if (link->connected && random_chance(&random, 5) && !link->ready.term)
				move_target_give_up(&link->target, -EIO, "chance");
			break;
		case 10:
			if (random_chance(&random, 10)) {
				world.now_ns += random_below(&random, 20) * SECOND;
				move_source_tick(source, world.now_ns);
			}
			break;
		}
		CHECK(!world.broken);
		CHECK((term > TERM) == (source->phase >= MOVE_MOVED) || source->phase == MOVE_TOLD);
	}
	moves_settle();
	CHECK(!world.broken);
	return true;
}

int main(void)
{
	unsigned int reached[MOVE_CLOSED + 1] = { 0 };
	uint64_t seed;
	bool good = true;

	tap_ok(test_move(), "a move, from the first block to CLOSE");
	tap_ok(test_one_of_many(), "one of several targets gets keys, the others go");
	tap_ok(test_slow(), "a target that reads nothing delays no other one");
	tap_ok(test_room(), "blocks wait for room");
	tap_ok(test_lost(), "a lost connection, in each phase");
	tap_ok(test_again(), "keys again: for the owner, after those of its first connection");
	tap_ok(test_third(), "another host has the store");
	tap_ok(test_close_checked(), "CLOSE counts if its sender has the store");
	tap_ok(test_close_known(), "the source's next daemon knows of a CLOSE before it is answered");
	tap_ok(test_waits(), "each wait of a source has an end");
	tap_ok(test_target_waits(), "each wait of a target has an end");
	tap_ok(test_strangers(), "connections without a proof are few, and are told nothing");
	tap_ok(test_failures(), "what a daemon cannot do ends the connection");
	tap_ok(test_give_up(), "the source knows why a target gives up");
	tap_ok(test_hostile_give_up(), "a word of giving up that cannot be changes nothing");
	tap_ok(test_cancel(), "an operator cancels at the source: before READY only");
	tap_ok(test_hostile_target(), "a hostile target");
	tap_ok(test_ready_bounds(), "a READY that cannot be is not taken");
	tap_ok(test_hostile_ready(), "a READY out of turn is not taken");
	tap_ok(test_hostile_blocks(), "a block that cannot be is not taken");
	tap_ok(test_hostile_store(), "a STORE that cannot be is not taken");
	for (seed = 1; seed <= 300 && good; seed++) {
		good = test_orders(seed);
		reached[world.source.phase]++;
		if (!good)
			tap_note("order %u", (unsigned int)seed);
	}
	tap_note("phases at the end: %u serve, %u stop, %u told, %u moved, %u closed", reached[0], reached[1],
		 reached[2], reached[3], reached[4]);
	tap_ok(good, "any order");
	tap_ok(reached[MOVE_MOVED] && reached[MOVE_CLOSED], "some of them end a move");
	moves_start(NULL);
	return tap_end();
}
