// SPDX-License-Identifier: GPL-2.0
/* The two ends of a move without a network: see moves.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lsmem.h"
#include "moves.h"

const struct secret moves_key = { 16, "sixteen letters." };
const struct secret moves_other_key = { 16, "sixteen Letters." };
const struct move_store moves_store = {
	.name = "data", .uuid = "a store", .term = TERM, .indices = 1000, .seglets = SEGLETS,
};

const struct move_store *moves_has = &moves_store;

struct link links[LINKS];
struct world world;

static struct link_memory memory[LINKS];

static struct link *of_peer(const struct move_peer *peer)
{
	return (struct link *)((char *)peer - offsetof(struct link, peer));
}

static struct link *of_target(const struct move_target *target)
{
	return (struct link *)((char *)target - offsetof(struct link, target));
}

static void push(struct queue *queue, const union wire_message *message)
{
	if (queue->nr == QUEUE)
		abort();
	queue->messages[(queue->first + queue->nr++) % QUEUE] = *message;
}

/* ---- The source's daemon ------------------------------------------------- */

static int source_slots(struct move_peer *peer, struct session_export *offer)
{
	struct link *link = of_peer(peer);

	if (world.slots_fail)
		return world.slots_fail;
	link->memory = &memory[link - links];
	peer->memory = link->memory->source;
	offer->address = 0x10000;
	offer->key = 5;
	return 0;
}

static void source_send(struct move_peer *peer, const union wire_message *message)
{
	/* The answer to CLOSE: the next daemon of this host knows already. */
	world.broken |= peer->source->chosen == peer && peer->close_term && !world.let_gos;
	push(&of_peer(peer)->to_target, message);
}

static unsigned int source_room(const struct move_peer *peer)
{
	return world.room - (of_peer(peer)->to_target.nr < world.room ? of_peer(peer)->to_target.nr : world.room);
}

static void source_end(struct move_peer *peer, const char *why)
{
	world.broken |= of_peer(peer)->peer_ended;
	of_peer(peer)->peer_ended = true;
	of_peer(peer)->peer_why = why;
}

/* Segments, the mark, then one segment for each change. */
static int source_block(struct move_peer *peer, struct ahead_head *block)
{
	struct link *link = of_peer(peer);
	int ret;

	if (world.tell) {
		ret = world.tell(block);
		if (ret > 0)
			link->given = ++world.blocks;
		return ret;
	}
	if (world.block_fail || link->given == world.blocks)
		return world.block_fail;
	if (++link->given == SEGMENTS + 1)
		ahead_begin(block, AHEAD_MARK);
	else
		ahead_begin_segment(block, link->given, 1, 0);
	return 1;
}

/* KEYS_TO_ONE, KEYS_AT_READY: never while another has keys, never before the source has stopped. */
static int source_keys(struct move_peer *peer, struct move_keys *keys)
{
	uint32_t i;

	if (world.keys_fail)
		return world.keys_fail;
	for (i = 0; i < LINKS; i++)
		world.broken |= links[i].keyed;
	world.broken |= peer->source->phase != MOVE_STOPS && peer->source->phase != MOVE_MOVED;
	world.broken |= peer->source->phase == MOVE_STOPS && of_peer(peer)->given != world.blocks;
	of_peer(peer)->keyed = true;
	world.keyed++;
	*keys = (struct move_keys){
		.seglets = { 0x200000, SEGLETS * LSMEM_SEGLET_BYTES, 8 },
		.table = { 0x900000, SEGLETS * sizeof(struct lsmem_seglet), 9 },
	};
	return 0;
}

static void source_stop(struct move_source *source)
{
	(void)source;
	world.stops++;
}

static void source_look(struct move_source *source)
{
	(void)source;
	world.looks++;
}

static void source_left(struct move_source *source)
{
	uint32_t i;

	(void)source;
	world.lefts++;
	for (i = 0; i < LINKS; i++)
		world.broken |= links[i].keyed;
}

static bool source_let_go(struct move_source *source)
{
	world.broken |= source->phase != MOVE_MOVED || !source->chosen->close_term;
	world.let_gos += !world.let_go_fails;
	return !world.let_go_fails;
}

const struct move_source_user moves_user = {
	source_slots, source_send, source_room, source_end, source_block, source_keys, source_stop, source_look,
	source_left, source_let_go,
};

static void plain_begin(const char *host)
{
	move_source_begin(&world.source, &moves_user, moves_has, &moves_key, host, 0);
}

static bool plain_connect(struct move_peer *peer, const struct session_setup *setup)
{
	return move_source_connect(&world.source, peer, setup);
}

static void plain_tick(uint64_t now_ns)
{
	move_source_tick(&world.source, now_ns);
}

static void plain_run(void)
{
}

static const struct moves_end plain = { plain_begin, plain_connect, move_source_gone, plain_tick, plain_run };

const struct moves_end *moves_end = &plain;

/* ---- The target's daemon ------------------------------------------------- */

static int target_slots(struct move_target *target)
{
	target->memory = of_target(target)->memory->target;
	return 0;
}

static void target_send(struct move_target *target, const union wire_message *message)
{
	push(&of_target(target)->to_source, message);
}

static void target_read(struct move_target *target, uint32_t slot, uint32_t length, uint64_t address, uint32_t rkey)
{
	struct link *link = of_target(target);

	if (link->nr_reads == MOVE_SLOTS || address != 0x10000 + (uint64_t)slot * AHEAD_BYTES || rkey != 5)
		abort();
	link->reads[link->nr_reads].slot = slot;
	link->reads[link->nr_reads++].length = length;
}

static void target_end(struct move_target *target, const char *why)
{
	world.broken |= of_target(target)->target_ended;
	of_target(target)->target_ended = true;
	of_target(target)->target_why = why;
}

static int target_store(struct move_target *target, const struct move_store *told)
{
	world.broken |= of_target(target)->stored;
	of_target(target)->stored = true;
	if (memcmp(told->uuid, moves_has->uuid, sizeof(told->uuid)) || told->term != moves_has->term ||
	    told->indices != moves_has->indices || told->seglets != SEGLETS || strcmp(told->name, "data"))
		return -ESTALE;
	return world.store_fail;
}

static int target_block(struct move_target *target, const struct ahead_head *block)
{
	struct link *link = of_target(target);
	bool mark = __le32_to_cpu(block->kind) == AHEAD_MARK;

	world.broken |= link->ready.term || __le64_to_cpu(block->sequence) != ++link->came;
	if (world.know)
		return world.know(block);
	world.broken |= mark != (link->came == SEGMENTS + 1) ||
			(!mark && __le64_to_cpu(block->segment) != link->came);
	return world.take_fail;
}

static void target_ready(struct move_target *target, const struct move_ready *ready)
{
	world.broken |= of_target(target)->ready.term || ready->last != of_target(target)->came;
	of_target(target)->ready = *ready;
}

static void target_closed(struct move_target *target)
{
	of_target(target)->closed = true;
}

static const struct move_target_user target_user = {
	target_slots, target_send, target_read, target_end, target_store, target_block, target_ready, target_closed,
};

/* ---- The network --------------------------------------------------------- */

bool moves_to_source(struct link *link)
{
	struct queue *queue = &link->to_source;
	union wire_message message = queue->messages[queue->first];

	if (!queue->nr || !link->connected)
		return false;
	queue->first = (queue->first + 1) % QUEUE;
	queue->nr--;
	move_source_message(&link->peer, &message, le32toh(message.head.length));
	return true;
}

bool moves_to_target(struct link *link)
{
	struct queue *queue = &link->to_target;
	union wire_message message = queue->messages[queue->first];

	if (!queue->nr)
		return false;
	queue->first = (queue->first + 1) % QUEUE;
	queue->nr--;
	move_target_message(&link->target, &message, le32toh(message.head.length));
	if (link->connected)
		move_source_more(&link->peer);
	return true;
}

bool moves_read(struct link *link)
{
	uint32_t slot = link->reads[0].slot, length = link->reads[0].length;

	if (!link->nr_reads)
		return false;
	memmove(link->reads, link->reads + 1, --link->nr_reads * sizeof(link->reads[0]));
	memcpy(link->memory->target + (size_t)slot * AHEAD_BYTES, link->memory->source + (size_t)slot * AHEAD_BYTES,
	       length);
	move_target_read(&link->target, slot);
	return true;
}

/* Both ends lose the connection, whatever they know of each other; its keys are void. */
void moves_cut(struct link *link)
{
	link->to_source.nr = 0;
	link->to_target.nr = 0;
	link->nr_reads = 0;
	link->keyed = false;
	if (!link->connected)
		return;
	link->connected = false;
	moves_end->gone(&link->peer);
	link->memory = NULL;
}

/* All that is under way arrives; connections that an end has ended are cut. */
void moves_settle(void)
{
	bool more = true;
	uint32_t i;

	while (more) {
		more = false;
		moves_end->run();
		for (i = 0; i < LINKS; i++) {
			more |= moves_to_source(&links[i]);
			more |= moves_to_target(&links[i]);
			more |= moves_read(&links[i]);
			if (links[i].connected && (links[i].peer_ended || links[i].target_ended) &&
			    !links[i].to_target.nr && !links[i].to_source.nr) {
				moves_cut(&links[i]);
				more = true;
			}
		}
	}
}

void moves_start(const char *host)
{
	uint32_t i;

	for (i = 0; i < LINKS; i++)
		moves_cut(&links[i]);
	memset(links, 0, sizeof(links));
	memset(&world, 0, sizeof(world));
	world.blocks = SEGMENTS + 1;
	world.room = ROOM;
	moves_end->begin(host);
}

void moves_call_with(struct link *link, const char *who, uint64_t term, const char *name, const struct secret *secret)
{
	struct move_call call = {
		.setup = { .link = { 17, 23 }, .nonce = "target" }, .key = secret, .name = name, .who = who, .term = term,
	};
	struct session_setup setup = { .link = { 17, 23 }, .nonce = "source" };

	moves_cut(link);
	memset(link, 0, sizeof(*link));
	link->connected = moves_end->connect(&link->peer, &setup);
	if (link->connected)
		move_target_begin(&link->target, &target_user, &call, world.now_ns);
}

struct link *moves_call(uint32_t nr, const char *who, uint64_t term)
{
	moves_call_with(&links[nr], who, term, "data", &moves_key);
	return &links[nr];
}

/* Seconds pass, for both ends. */
void moves_pass(unsigned int seconds)
{
	uint32_t i;

	for (; seconds; seconds--) {
		world.now_ns += SECOND;
		moves_end->tick(world.now_ns);
		for (i = 0; i < LINKS; i++)
			if (links[i].connected)
				move_target_tick(&links[i].target, world.now_ns);
		moves_settle();
	}
}

/* The source has something new to tell. */
void moves_change(uint64_t blocks)
{
	uint32_t i;

	world.blocks += blocks;
	for (i = 0; i < LINKS; i++)
		if (links[i].connected)
			move_source_more(&links[i].peer);
}
