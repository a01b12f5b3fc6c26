/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The two ends of a move without a network: one source and several targets. Messages and RDMA READs are queues that
 * the user moves on, so that it chooses every order. Both daemons are simulated, and look at what must always hold.
 */
#ifndef LSMEM_TEST_MOVES_H
#define LSMEM_TEST_MOVES_H

#include <stdbool.h>
#include <stdint.h>

#include "remote/move.h"

#define LINKS	(MOVE_TARGETS + MOVE_STRANGERS + MOVE_ENDING)
#define QUEUE	64u
#define ROOM	16u
#define SEGMENTS	20u	/* told before the mark */
#define SEGLETS	256u
#define TERM	7u
#define REVISION	99u
#define DIGEST	1234u
#define OBJECTS	987u
#define SECOND	1000000000ull

extern const struct secret moves_key, moves_other_key;
extern const struct move_store moves_store;

/* The store that the source has, and its callbacks: what it is asked does no harm, and is counted. */
extern const struct move_store *moves_has;
extern const struct move_source_user moves_user;

/* What is behind the connections of the source: nothing, or daemon/move/source.h. @run is called often. */
extern const struct moves_end {
	void (*begin)(const char *host);
	bool (*connect)(struct move_peer *peer, const struct session_setup *setup);
	void (*gone)(struct move_peer *peer);
	void (*tick)(uint64_t now_ns);
	void (*run)(void);
} *moves_end;

struct queue {
	union wire_message messages[QUEUE];
	uint32_t first, nr;
};

/**
 * struct link - a connection, both ends of it
 * @to_source: messages on their way
 * @to_target: likewise
 * @reads: RDMA READs on their way: slot, length
 * @memory: of the slots of both ends; NULL: none was asked for
 * @given: blocks that the source has made for it
 * @came: blocks that the target's daemon has
 * @connected: @peer is used
 * @keyed: its target has keys to the source's memory
 * @ended: the end has said that the connection is over
 * @closed: the target's daemon was told so
 * @stored: the target's daemon was told the store
 * @ready: READY as the target's daemon has it; its @term is 0 if it has not
 */
extern struct link {
	struct move_peer peer;
	struct move_target target;
	struct queue to_source, to_target;
	struct { uint32_t slot, length; } reads[MOVE_SLOTS];
	uint32_t nr_reads;
	struct link_memory { uint8_t source[MOVE_SLOTS * AHEAD_BYTES], target[MOVE_SLOTS * AHEAD_BYTES]; } *memory;
	uint64_t given, came;
	bool connected, keyed, peer_ended, target_ended, closed, stored;
	const char *peer_why, *target_why;
	struct move_ready ready;
} links[LINKS];

/* The source's daemon: what it is asked, and what it answers. */
extern struct world {
	struct move_source source;
	uint64_t blocks, now_ns;
	unsigned int stops, looks, lefts, keyed, let_gos;
	bool let_go_fails;
	uint32_t room;
	int slots_fail, block_fail, keys_fail, store_fail, take_fail;
	bool broken;		/* a rule that must always hold did not */
	/* Blocks of another kind: made by the one, and taken by the other. */
	int (*tell)(struct ahead_head *block);
	int (*know)(const struct ahead_head *block);
} world;

void moves_start(const char *host);
struct link *moves_call(uint32_t nr, const char *who, uint64_t term);
void moves_call_with(struct link *link, const char *who, uint64_t term, const char *name, const struct secret *secret);
bool moves_to_source(struct link *link);
bool moves_to_target(struct link *link);
bool moves_read(struct link *link);
void moves_cut(struct link *link);
void moves_settle(void);
void moves_pass(unsigned int seconds);
void moves_change(uint64_t blocks);

#endif
